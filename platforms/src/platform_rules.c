/* What each element of a platform file means and must satisfy: SimGrid 3.32's own rules, so that nothing it
 * would abort on gets there, and the simulator's. Measured with 3.32 where its documentation is silent. */
#include "cs/base/text.h"
#include "cs/base/units.h"
#include "reader_priv.h"
#include "simgrid_units_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Routing tables are quadratic (Full) or their computation cubic (Floyd). */
#define FULL_POINTS_MAX 8192
#define FLOYD_POINTS_MAX 2048

static const char *const routing_names[] = {"Full",    "Floyd", "Dijkstra", "DijkstraCache",
                                            "Cluster", "None",  NULL};
static const char *const sharing_names[] = {"SHARED", "SPLITDUPLEX", "FATPIPE", NULL};

static struct cs_zone *open_zone(struct cs_reader *reader)
{
    CS_ASSERT(reader->zone >= 0);
    return &reader->zones[reader->zone];
}

static enum cs_element parent_element(const struct cs_reader *reader)
{
    return reader->depth > 0 ? reader->stack[reader->depth - 1] : CS__N_ELEMENTS;
}

/* Names end up in SimGrid, in reports and in file names: visible ASCII only. */
static cs_status check_name(struct cs_reader *reader, const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > CS__NAME_MAX) {
        return cs__reader_fail(reader, CS_E_INPUT, "a name must have 1 to %d characters, this one has %zu",
                               CS__NAME_MAX, len);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] <= 0x20 || (unsigned char)name[i] > 0x7e) {
            return cs__reader_fail(reader, CS_E_INPUT, "name '%s' may only have visible ASCII characters",
                                   name);
        }
    }
    return CS_OK;
}

cs_status cs__rules_add_point(struct cs_reader *reader, const char *name, enum cs_point_kind kind,
                              int32_t zone, int32_t *point)
{
    if (check_name(reader, name) != CS_OK) {
        return reader->status;
    }
    int32_t taken = cs__names_find(&reader->point_names, name);
    if (taken >= 0) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "'%s' is already the name of a host, router or zone (line %d)", name,
                               reader->points[taken].line);
    }
    CS_GROW(reader->points, reader->n_points, reader->cap_points);
    const char *copy = cs_arena_strdup(&reader->names, name);
    reader->points[reader->n_points] =
        (struct cs_point){.name = copy, .kind = kind, .zone = zone, .line = cs__reader_line(reader)};
    cs__names_add(&reader->point_names, copy, reader->n_points);
    *point = reader->n_points++;
    return CS_OK;
}

static cs_status add_link_name(struct cs_reader *reader, const char *name, enum cs_link_kind kind,
                               double bytes_per_s)
{
    int32_t taken = cs__names_find(&reader->link_names, name);
    if (taken >= 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "link '%s' is already declared (line %d)", name,
                               reader->links[taken].line);
    }
    CS_GROW(reader->links, reader->n_links, reader->cap_links);
    const char *copy = cs_arena_strdup(&reader->names, name);
    reader->links[reader->n_links] = (struct cs_link_name){
        .name = copy, .kind = kind, .line = cs__reader_line(reader), .bytes_per_s = bytes_per_s};
    cs__names_add(&reader->link_names, copy, reader->n_links);
    reader->n_links++;
    return CS_OK;
}

/* A split link is three names: itself for routes with a direction, and its two halves. */
cs_status cs__rules_add_link(struct cs_reader *reader, const char *name, enum cs_link_kind kind,
                             double bytes_per_s)
{
    static const char *const half[] = {"_UP", "_DOWN"};
    if (check_name(reader, name) != CS_OK || add_link_name(reader, name, kind, bytes_per_s) != CS_OK) {
        return reader->status;
    }
    for (int32_t i = 0; kind == CS__LINK_SPLIT && i < 2; i++) {
        char text[CS__NAME_MAX + 8];
        snprintf(text, sizeof text, "%s%s", name, half[i]);
        if (add_link_name(reader, text, CS__LINK_PLAIN, bytes_per_s) != CS_OK) {
            return reader->status;
        }
    }
    return CS_OK;
}

/* A zone gets something other than properties: is it allowed now, and does it decide the zone's kind? */
static cs_status zone_gets(struct cs_reader *reader, const char *what, enum cs_zone_kind kind, bool route)
{
    struct cs_zone *zone = open_zone(reader);
    if (zone->has_routes && !route) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "<%s> comes after the routes of zone '%s': SimGrid wants routes last", what,
                               zone->name);
    }
    if (kind != CS__ZONE_OPEN && zone->kind != CS__ZONE_OPEN && zone->kind != kind) {
        return cs__reader_fail(reader, CS_E_INPUT, "<%s> is not possible in zone '%s', which holds %s", what,
                               zone->name,
                               zone->kind == CS__ZONE_OF_ZONES
                                   ? "zones"
                                   : "hosts (SimGrid: a zone or cluster must come before the first link)");
    }
    if (zone->kind == CS__ZONE_OPEN) {
        /* A link or backbone first, and SimGrid's scanner expects hosts. */
        zone->kind = kind == CS__ZONE_OPEN ? CS__ZONE_OF_HOSTS : kind;
    }
    zone->has_content = true;
    zone->has_routes = zone->has_routes || route;
    return CS_OK;
}

static cs_status want_parent(struct cs_reader *reader, enum cs_element parent, const char *what,
                             const char *where)
{
    if (parent_element(reader) != parent) {
        return cs__reader_fail(reader, CS_E_INPUT, "<%s> must stand %s", what, where);
    }
    return CS_OK;
}

static cs_status quantity(struct cs_reader *reader, const char *text, enum cs_simgrid_unit unit,
                          const char *what, double *value)
{
    return cs__simgrid_parse(text, unit, what, cs__reader_loc(reader), value, reader->err);
}

cs_status cs__rules_core(struct cs_reader *reader, const char *text)
{
    int64_t cores = 0;
    return text ? cs_int_parse(text, 1, 1000000, "core", cs__reader_loc(reader), &cores, reader->err) : CS_OK;
}

static cs_status start_platform(struct cs_reader *reader)
{
    const char *version = reader->attrs[CS__A_PLATFORM_VERSION];
    if (reader->depth > 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "<platform> must be the outermost element");
    }
    if (strcmp(version, "4.1") != 0 && strcmp(version, "4") != 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "platform version '%s' is not supported, expected 4.1",
                               version);
    }
    return CS_OK;
}

static cs_status start_zone(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    const char *routing = reader->attrs[CS__A_ZONE_ROUTING];
    int32_t r = 0;
    while (routing_names[r] && strcasecmp(routing_names[r], routing) != 0) {
        r++;
    }
    if (!routing_names[r]) {
        return cs__reader_fail(
            reader, CS_E_INPUT,
            "routing '%s' is not supported, expected Full, Floyd, Dijkstra, DijkstraCache, "
            "Cluster or None",
            routing);
    }
    struct cs_zone zone = {
        .routing = (enum cs_routing)r, .parent = reader->zone, .line = cs__reader_line(reader)};
    if (parent_element(reader) == CS__EL_PLATFORM) {
        if (reader->n_zones > 0) {
            return cs__reader_fail(reader, CS_E_INPUT,
                                   "a platform has one zone, this is a second one beside '%s'",
                                   reader->zones[0].name);
        }
    } else {
        CS_TRY(want_parent(reader, CS__EL_ZONE, "zone", "in <platform> or <zone>"));
        CS_TRY(zone_gets(reader, "zone", CS__ZONE_OF_ZONES, false));
        if (open_zone(reader)->routing == CS__ROUTING_CLUSTER) {
            return cs__reader_fail(reader, CS_E_INPUT,
                                   "zone '%s' has routing Cluster and can only hold hosts",
                                   open_zone(reader)->name);
        }
        open_zone(reader)->n_points++;
    }
    int32_t point = -1;
    CS_TRY(
        cs__rules_add_point(reader, reader->attrs[CS__A_ZONE_ID], CS__POINT_ZONE, reader->n_zones, &point));
    zone.name = reader->points[point].name;
    CS_GROW(reader->zones, reader->n_zones, reader->cap_zones);
    reader->zones[reader->n_zones] = zone;
    reader->zone = reader->n_zones++;
out:
    return st;
}

static cs_status end_zone(struct cs_reader *reader)
{
    struct cs_zone *zone = open_zone(reader);
    int64_t max = zone->routing == CS__ROUTING_FULL    ? FULL_POINTS_MAX
                  : zone->routing == CS__ROUTING_FLOYD ? FLOYD_POINTS_MAX
                                                       : INT64_MAX;
    if (zone->n_points > max) {
        return cs__reader_fail_at(reader, zone->line, CS_E_LIMIT,
                                  "zone '%s' has %lld members, at most %lld are possible with routing %s",
                                  zone->name, (long long)zone->n_points, (long long)max,
                                  routing_names[zone->routing]);
    }
    bool searched = zone->routing == CS__ROUTING_DIJKSTRA || zone->routing == CS__ROUTING_DIJKSTRA_CACHE;
    if (searched && cs__graph_check(reader, reader->zone) != CS_OK) {
        return reader->status;
    }
    reader->zone = zone->parent;
    return CS_OK;
}

static cs_status start_host(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    double speed_flop_per_s = 0.0;
    CS_TRY(want_parent(reader, CS__EL_ZONE, "host", "in <zone>"));
    CS_TRY(zone_gets(reader, "host", CS__ZONE_OF_HOSTS, false));
    CS_TRY(cs__rules_add_point(reader, reader->attrs[CS__A_HOST_ID], CS__POINT_HOST, reader->zone,
                               &reader->host));
    CS_TRY(quantity(reader, reader->attrs[CS__A_HOST_SPEED], CS__SIMGRID_SPEED, "speed", &speed_flop_per_s));
    CS_TRY(cs__rules_core(reader, reader->attrs[CS__A_HOST_CORE]));
    open_zone(reader)->n_points++;
    reader->n_props = 0;
out:
    return st;
}

static cs_status start_router(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    int32_t point = -1;
    CS_TRY(want_parent(reader, CS__EL_ZONE, "router", "in <zone>"));
    CS_TRY(zone_gets(reader, "router", CS__ZONE_OF_HOSTS, false));
    CS_TRY(
        cs__rules_add_point(reader, reader->attrs[CS__A_ROUTER_ID], CS__POINT_ROUTER, reader->zone, &point));
    open_zone(reader)->n_points++;
out:
    return st;
}

static cs_status start_link(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    double bytes_per_s = 0.0;
    double latency_s = 0.0;
    const char *sharing = reader->attrs[CS__A_LINK_SHARING_POLICY];
    CS_TRY(want_parent(reader, CS__EL_ZONE, "link", "in <zone>"));
    CS_TRY(zone_gets(reader, "link", CS__ZONE_OPEN, false));
    if (sharing && cs_text_index(sharing, sharing_names) < 0) {
        return cs__reader_fail(
            reader, CS_E_INPUT,
            "sharing_policy '%s' is not supported, expected SHARED, SPLITDUPLEX or FATPIPE", sharing);
    }
    CS_TRY(quantity(reader, reader->attrs[CS__A_LINK_BANDWIDTH], CS__SIMGRID_BANDWIDTH, "bandwidth",
                    &bytes_per_s));
    CS_TRY(quantity(reader, reader->attrs[CS__A_LINK_LATENCY], CS__SIMGRID_LATENCY, "latency", &latency_s));
    bool split = sharing && strcmp(sharing, "SPLITDUPLEX") == 0;
    CS_TRY(cs__rules_add_link(reader, reader->attrs[CS__A_LINK_ID], split ? CS__LINK_SPLIT : CS__LINK_PLAIN,
                              bytes_per_s));
    reader->n_link_elements++;
    reader->n_props = 0;
out:
    return st;
}

static cs_status start_backbone(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    double bytes_per_s = 0.0;
    double latency_s = 0.0;
    CS_TRY(want_parent(reader, CS__EL_ZONE, "backbone", "in <zone>"));
    CS_TRY(zone_gets(reader, "backbone", CS__ZONE_OPEN, false));
    struct cs_zone *zone = open_zone(reader);
    if (zone->routing != CS__ROUTING_CLUSTER || zone->has_backbone) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "<backbone> may stand once in a zone with routing Cluster, '%s' %s",
                               zone->name, zone->has_backbone ? "has one already" : "has another routing");
    }
    zone->has_backbone = true;
    CS_TRY(quantity(reader, reader->attrs[CS__A_LINK_BANDWIDTH], CS__SIMGRID_BANDWIDTH, "bandwidth",
                    &bytes_per_s));
    CS_TRY(quantity(reader, reader->attrs[CS__A_LINK_LATENCY], CS__SIMGRID_LATENCY, "latency", &latency_s));
    CS_TRY(cs__rules_add_link(reader, reader->attrs[CS__A_LINK_ID], CS__LINK_PLAIN, bytes_per_s));
    reader->n_link_elements++;
out:
    return st;
}

/* The host or router of a name that this zone itself holds. */
static cs_status own_point(struct cs_reader *reader, const char *name, const char *what, bool zones,
                           int32_t *point)
{
    int32_t found = cs__names_find(&reader->point_names, name);
    if (found < 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "%s '%s' is not declared", what, name);
    }
    const struct cs_point *p = &reader->points[found];
    bool own =
        p->kind == CS__POINT_ZONE ? reader->zones[p->zone].parent == reader->zone : p->zone == reader->zone;
    if ((p->kind == CS__POINT_ZONE) != zones || !own) {
        return cs__reader_fail(reader, CS_E_INPUT, "%s '%s' is not a %s directly in zone '%s'", what, name,
                               zones ? "zone" : "host or router", open_zone(reader)->name);
    }
    *point = found;
    return CS_OK;
}

static cs_status plain_link(struct cs_reader *reader, const char *name, double *bytes_per_s)
{
    int32_t found = cs__names_find(&reader->link_names, name);
    if (found < 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "link '%s' is not declared before its use", name);
    }
    if (reader->links[found].kind == CS__LINK_SPLIT) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "link '%s' is SPLITDUPLEX: say which half, '%s_UP' or '%s_DOWN'", name, name,
                               name);
    }
    *bytes_per_s = reader->links[found].bytes_per_s;
    return CS_OK;
}

static cs_status start_host_link(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    double up_bytes_per_s = 0.0;
    double down_bytes_per_s = 0.0;
    int32_t point = -1;
    CS_TRY(want_parent(reader, CS__EL_ZONE, "host_link", "in <zone>"));
    CS_TRY(zone_gets(reader, "host_link", CS__ZONE_OF_HOSTS, false));
    if (open_zone(reader)->routing != CS__ROUTING_CLUSTER) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "<host_link> is for zones with routing Cluster, '%s' has another",
                               open_zone(reader)->name);
    }
    CS_TRY(own_point(reader, reader->attrs[CS__A_HOST_LINK_ID], "host", false, &point));
    if (reader->points[point].kind != CS__POINT_HOST || reader->points[point].has_host_link) {
        return cs__reader_fail(reader, CS_E_INPUT, "'%s' %s", reader->points[point].name,
                               reader->points[point].has_host_link ? "has a host_link already"
                                                                   : "is no host");
    }
    reader->points[point].has_host_link = true;
    CS_TRY(plain_link(reader, reader->attrs[CS__A_HOST_LINK_UP], &up_bytes_per_s));
    CS_TRY(plain_link(reader, reader->attrs[CS__A_HOST_LINK_DOWN], &down_bytes_per_s));
    reader->points[point].out_bytes_per_s = up_bytes_per_s;
    reader->points[point].in_bytes_per_s = down_bytes_per_s;
out:
    return st;
}

/* A gateway is a host or router anywhere inside the zone it belongs to. */
static cs_status gateway(struct cs_reader *reader, const char *name, int32_t zone_point, int32_t *point)
{
    int32_t zone = reader->points[zone_point].zone;
    int32_t found = cs__names_find(&reader->point_names, name);
    if (found < 0 || reader->points[found].kind == CS__POINT_ZONE) {
        return cs__reader_fail(reader, CS_E_INPUT, "gateway '%s' is not a declared host or router", name);
    }
    int32_t at = reader->points[found].zone;
    while (at >= 0 && at != zone) {
        at = reader->zones[at].parent;
    }
    if (at < 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "gateway '%s' is not inside zone '%s'", name,
                               reader->points[zone_point].name);
    }
    *point = found;
    return CS_OK;
}

static cs_status route_gateways(struct cs_reader *reader, int32_t src, int32_t dst)
{
    cs_status st = CS_OK;
    int32_t gw_src = -1;
    int32_t gw_dst = -1;
    if (!reader->attrs[CS__A_ROUTE_GW_SRC] || !reader->attrs[CS__A_ROUTE_GW_DST]) {
        return cs__reader_fail(reader, CS_E_INPUT, "<zoneRoute> lacks the attribute '%s'",
                               reader->attrs[CS__A_ROUTE_GW_SRC] ? "gw_dst" : "gw_src");
    }
    CS_TRY(gateway(reader, reader->attrs[CS__A_ROUTE_GW_SRC], src, &gw_src));
    CS_TRY(gateway(reader, reader->attrs[CS__A_ROUTE_GW_DST], dst, &gw_dst));
out:
    return st;
}

static cs_status start_route(struct cs_reader *reader, bool zones)
{
    cs_status st = CS_OK;
    const char *what = zones ? "zoneRoute" : "route";
    int32_t src = -1;
    int32_t dst = -1;
    CS_TRY(want_parent(reader, CS__EL_ZONE, what, "in <zone>"));
    CS_TRY(zone_gets(reader, what, zones ? CS__ZONE_OF_ZONES : CS__ZONE_OF_HOSTS, true));
    const struct cs_zone *zone = open_zone(reader);
    if (zone->routing == CS__ROUTING_CLUSTER || zone->routing == CS__ROUTING_NONE) {
        return cs__reader_fail(reader, CS_E_INPUT, "zone '%s' has routing %s and takes no <%s>", zone->name,
                               routing_names[zone->routing], what);
    }
    CS_TRY(own_point(reader, reader->attrs[CS__A_ROUTE_SRC], "route source", zones, &src));
    CS_TRY(own_point(reader, reader->attrs[CS__A_ROUTE_DST], "route destination", zones, &dst));
    if (zones) {
        CS_TRY(route_gateways(reader, src, dst));
    }
    const char *symmetrical = reader->attrs[CS__A_ROUTE_SYMMETRICAL];
    static const char *const answers[] = {"YES", "yes", "NO", "no", NULL};
    int32_t answer = symmetrical ? cs_text_index(symmetrical, answers) : 0;
    if (answer < 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "symmetrical is '%s', expected YES or NO", symmetrical);
    }
    if (src == dst && (zones || zone->routing != CS__ROUTING_FULL)) {
        return cs__reader_fail(reader, CS_E_INPUT, "a %s from '%s' to itself is not possible", what,
                               reader->points[src].name);
    }
    bool fresh = cs__pairs_add(&reader->routes, src, dst);
    if (fresh && answer < 2 && src != dst) {
        fresh = cs__pairs_add(&reader->routes, dst, src);
    }
    if (!fresh) {
        return cs__reader_fail(reader, CS_E_INPUT, "the route between '%s' and '%s' exists already%s",
                               reader->points[src].name, reader->points[dst].name,
                               answer < 2 ? " (routes are symmetrical unless they say NO)" : "");
    }
    reader->n_ctns = 0;
    reader->route = (struct cs_route_note){.src = src,
                                           .dst = dst,
                                           .line = cs__reader_line(reader),
                                           .symmetrical = answer < 2,
                                           .bytes_per_s = INFINITY};
out:
    return st;
}

static cs_status end_route(struct cs_reader *reader)
{
    if (reader->n_ctns == 0) {
        return cs__reader_fail_at(reader, reader->route.line, CS_E_INPUT,
                                  "a route without <link_ctn> leads nowhere");
    }
    CS_GROW(reader->notes, reader->n_notes, reader->cap_notes);
    reader->notes[reader->n_notes++] = reader->route;
    return CS_OK;
}

static cs_status start_link_ctn(struct cs_reader *reader)
{
    const char *id = reader->attrs[CS__A_LINK_CTN_ID];
    const char *direction = reader->attrs[CS__A_LINK_CTN_DIRECTION];
    static const char *const directions[] = {"NONE", "UP", "DOWN", NULL};
    if (parent_element(reader) != CS__EL_ROUTE && parent_element(reader) != CS__EL_ZONE_ROUTE) {
        return cs__reader_fail(reader, CS_E_INPUT, "<link_ctn> must stand in <route> or <zoneRoute>");
    }
    int32_t d = direction ? cs_text_index(direction, directions) : 0;
    if (d < 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "direction '%s' is not UP, DOWN or NONE", direction);
    }
    reader->n_ctns++;
    int32_t found = cs__names_find(&reader->link_names, id);
    if (found < 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "link '%s' is not declared before its use", id);
    }
    bool split = reader->links[found].kind == CS__LINK_SPLIT;
    if (split && d == 0) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "link '%s' is SPLITDUPLEX: <link_ctn> needs direction=\"UP\" or "
                               "\"DOWN\"",
                               id);
    }
    if (!split && d > 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "link '%s' is not SPLITDUPLEX and has no direction %s", id,
                               direction);
    }
    reader->route.bytes_per_s = fmin(reader->route.bytes_per_s, reader->links[found].bytes_per_s);
    return CS_OK;
}

cs_status cs__rules_start(struct cs_reader *reader, enum cs_element element)
{
    if (element != CS__EL_PLATFORM && reader->depth == 0) {
        return cs__reader_fail(reader, CS_E_INPUT, "the outermost element must be <platform>");
    }
    if (element != CS__EL_PROP) {
        cs__props_keep_root(reader);
    }
    switch (element) {
    case CS__EL_PLATFORM:
        return start_platform(reader);
    case CS__EL_ZONE:
        return start_zone(reader);
    case CS__EL_HOST:
        return start_host(reader);
    case CS__EL_ROUTER:
        return start_router(reader);
    case CS__EL_LINK:
        return start_link(reader);
    case CS__EL_BACKBONE:
        return start_backbone(reader);
    case CS__EL_CLUSTER:
        if (want_parent(reader, CS__EL_ZONE, "cluster", "in <zone>") != CS_OK ||
            zone_gets(reader, "cluster", CS__ZONE_OF_ZONES, false) != CS_OK) {
            return reader->status;
        }
        return cs__cluster_start(reader);
    case CS__EL_HOST_LINK:
        return start_host_link(reader);
    case CS__EL_ROUTE:
        return start_route(reader, false);
    case CS__EL_ZONE_ROUTE:
        return start_route(reader, true);
    case CS__EL_LINK_CTN:
        return start_link_ctn(reader);
    case CS__EL_PROP:
        return cs__props_add(reader);
    case CS__N_ELEMENTS:
    default:
        cs_bug(__FILE__, __LINE__, "unknown element");
    }
}

cs_status cs__rules_end(struct cs_reader *reader, enum cs_element element)
{
    switch (element) {
    case CS__EL_ZONE:
        cs__props_keep_root(reader);
        return end_zone(reader);
    case CS__EL_HOST: {
        int32_t host = reader->host;
        reader->host = -1;
        return cs__device_add(reader, host);
    }
    case CS__EL_CLUSTER:
        return cs__cluster_end(reader);
    case CS__EL_ROUTE:
    case CS__EL_ZONE_ROUTE:
        return end_route(reader);
    case CS__EL_PLATFORM:
    case CS__EL_ROUTER:
    case CS__EL_LINK:
    case CS__EL_BACKBONE:
    case CS__EL_HOST_LINK:
    case CS__EL_LINK_CTN:
    case CS__EL_PROP:
    case CS__N_ELEMENTS:
    default:
        return CS_OK;
    }
}
