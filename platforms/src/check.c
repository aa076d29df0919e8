/* Findings about a platform that loads. */
#include "cs/platforms/check.h"

#include "cs/base/units.h"
#include "reader_priv.h"

#include <math.h>
#include <string.h>

const char *const cs_severity_names[] = {"note", "warning", "error", NULL};

enum { KIND_MAX = 20 }; /* findings of one kind that are kept */

/* Rates within this share of each other count as equal: units are rounded when files are written by hand. */
#define SAME_FRAC 1e-3

struct check {
    const struct cs_platform *platform;
    const struct cs_reader *reader;
    struct cs_findings *out;
    int32_t cap;
    int32_t n_kind; /* of the kind at hand */
    enum cs_severity kind_severity;
};

static void add(struct check *check, enum cs_severity severity, int line, const char *fmt, ...)
    CS_PRINTF(4, 5);

static void keep(struct check *check, enum cs_severity severity, int line, const char *text)
{
    struct cs_findings *out = check->out;
    if (out->n == check->cap) {
        int32_t cap = check->cap ? check->cap * 2 : 16;
        struct cs_finding *grown = CS_ARENA_NEW(&out->arena, struct cs_finding, cap);
        if (out->n > 0) {
            memcpy(grown, out->items, (size_t)out->n * sizeof *grown);
        }
        out->items = grown;
        check->cap = cap;
    }
    out->items[out->n++] =
        (struct cs_finding){.severity = severity, .line = line, .text = cs_arena_strdup(&out->arena, text)};
}

static void add(struct check *check, enum cs_severity severity, int line, const char *fmt, ...)
{
    check->out->n_of[severity]++;
    check->kind_severity = severity;
    if (check->n_kind++ >= KIND_MAX) {
        return;
    }
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    keep(check, severity, line, text);
}

/* The last kind of findings is complete: say how many of it were left out. */
static void end_kind(struct check *check)
{
    if (check->n_kind > KIND_MAX) {
        char text[64];
        (void)snprintf(text, sizeof text, "%d more like these", (int)check->n_kind - KIND_MAX);
        keep(check, check->kind_severity, 0, text);
    }
    check->n_kind = 0;
}

static bool same(double a, double b)
{
    return fabs(a - b) <= SAME_FRAC * fmax(fabs(a), fabs(b));
}

static const char *rate(double bytes_per_s, char buf[32])
{
    return cs_units_format(bytes_per_s, CS_UNIT_BYTES_PER_S, buf, 32);
}

static const struct cs_point *device_point(const struct check *check, int32_t device)
{
    return &check->reader->points[check->reader->devices[device].point];
}

/* Nodes and chips that differ, memory that the catalogue had to fill in or that differs from it. */
static void check_devices(struct check *check)
{
    const struct cs_platform *p = check->platform;
    end_kind(check);
    if (!p->uniform) {
        add(check, CS_SEVERITY_NOTE, 0, "nodes differ in the number or the chip of their devices");
    }
    int32_t n_default = 0;
    for (int32_t d = 0; d < p->n_devices; d++) {
        n_default += !check->reader->devices[d].has_memory;
        if (check->reader->devices[d].has_memory &&
            !same(p->devices[d].memory_bytes, p->devices[d].chip->memory_bytes)) {
            char have[32];
            char want[32];
            add(check, CS_SEVERITY_NOTE, device_point(check, d)->line,
                "'%s' has %s of memory, chip %s has %s", p->devices[d].host,
                cs_units_format(p->devices[d].memory_bytes, CS_UNIT_BYTES, have, 32),
                p->devices[d].chip->name,
                cs_units_format(p->devices[d].chip->memory_bytes, CS_UNIT_BYTES, want, 32));
        }
    }
    end_kind(check);
    if (n_default > 0) {
        add(check, CS_SEVERITY_NOTE, 0, "%d of %d devices have no 'memory' property and get their chip's",
            (int)n_default, (int)p->n_devices);
    }
}

/* The two directions of a device's link to its switch. */
static void check_host_links(struct check *check)
{
    end_kind(check);
    for (int32_t i = 0; i < check->reader->n_points; i++) {
        const struct cs_point *point = &check->reader->points[i];
        if (point->out_bytes_per_s > 0.0 && !same(point->out_bytes_per_s, point->in_bytes_per_s)) {
            char up[32];
            char down[32];
            add(check, CS_SEVERITY_WARNING, point->line, "'%s' sends at %s but receives at %s", point->name,
                rate(point->out_bytes_per_s, up), rate(point->in_bytes_per_s, down));
        }
    }
}

/* A route table by (source, destination), so that a route's way back is found. */
struct back {
    struct cs_names index; /* "src>dst" to the note */
    struct cs_arena arena;
};

static const struct cs_route_note *find_note(const struct check *check, const struct back *back, int32_t src,
                                             int32_t dst)
{
    char key[32];
    snprintf(key, sizeof key, "%d>%d", (int)src, (int)dst);
    int32_t found = cs__names_find(&back->index, key);
    return found >= 0 ? &check->reader->notes[found] : NULL;
}

/* Routes that say symmetrical="NO" need a way back, usually as wide. */
static void check_routes(struct check *check)
{
    const struct cs_reader *reader = check->reader;
    struct back back = {0};
    end_kind(check);
    for (int32_t i = 0; i < reader->n_notes; i++) {
        if (!reader->notes[i].symmetrical) {
            cs__names_add(
                &back.index,
                cs_arena_printf(&back.arena, "%d>%d", (int)reader->notes[i].src, (int)reader->notes[i].dst),
                i);
        }
    }
    for (int32_t i = 0; i < reader->n_notes; i++) {
        const struct cs_route_note *note = &reader->notes[i];
        if (note->symmetrical || note->src == note->dst) {
            continue;
        }
        const struct cs_route_note *reverse = find_note(check, &back, note->dst, note->src);
        const char *src = reader->points[note->src].name;
        const char *dst = reader->points[note->dst].name;
        if (!reverse) {
            add(check, CS_SEVERITY_WARNING, note->line, "the route from '%s' to '%s' has no way back", src,
                dst);
        } else if (note->src < note->dst && !same(note->bytes_per_s, reverse->bytes_per_s)) {
            char there[32];
            char here[32];
            add(check, CS_SEVERITY_WARNING, note->line, "'%s' to '%s' has %s, the way back (line %d) %s", src,
                dst, rate(note->bytes_per_s, there), reverse->line, rate(reverse->bytes_per_s, here));
        }
    }
    cs__names_release(&back.index);
    cs_arena_release(&back.arena);
}

/* Device of a point, -1 = none; the caller frees it. */
static int32_t *devices_by_point(const struct cs_reader *reader)
{
    int32_t *device = cs_calloc((size_t)reader->n_points + 1, sizeof *device);
    for (int32_t i = 0; i < reader->n_points; i++) {
        device[i] = -1;
    }
    for (int32_t d = 0; d < reader->n_devices; d++) {
        device[reader->devices[d].point] = d;
    }
    return device;
}

/* Two devices of one node that a route joins? */
static bool joins_node(const struct check *check, const int32_t *device, const struct cs_route_note *note)
{
    int32_t a = device[note->src];
    int32_t b = device[note->dst];
    return a >= 0 && b >= 0 && a != b && cs_platform_same_node(check->platform, a, b);
}

/* What more than half of a node's pair links have, where there is such a rate (Boyer and Moore's majority
 * vote); the caller frees it. */
static double *usual_intra(const struct check *check, const int32_t *device)
{
    const struct cs_platform *p = check->platform;
    double *usual_bytes_per_s = cs_calloc((size_t)p->n_nodes, sizeof *usual_bytes_per_s);
    int32_t *lead = cs_calloc((size_t)p->n_nodes, sizeof *lead);
    for (int32_t i = 0; i < check->reader->n_notes; i++) {
        const struct cs_route_note *note = &check->reader->notes[i];
        if (joins_node(check, device, note)) {
            int32_t node = p->devices[device[note->src]].node;
            if (lead[node] == 0) {
                usual_bytes_per_s[node] = note->bytes_per_s;
            }
            lead[node] += same(usual_bytes_per_s[node], note->bytes_per_s) ? 1 : -1;
        }
    }
    cs_free(lead);
    return usual_bytes_per_s;
}

/* Pair links inside a node: missing ones, and ones that differ from the node's others. Adds what each device
 * can send to its node's devices to intra_bytes_per_s. */
static void check_intra(struct check *check, double *intra_bytes_per_s)
{
    const struct cs_platform *p = check->platform;
    const struct cs_reader *reader = check->reader;
    int32_t *device = devices_by_point(reader);
    int32_t *n_peers = cs_calloc((size_t)p->n_devices, sizeof *n_peers);
    double *usual_bytes_per_s = usual_intra(check, device);
    end_kind(check);
    for (int32_t i = 0; i < reader->n_notes; i++) {
        const struct cs_route_note *note = &reader->notes[i];
        int32_t a = device[note->src];
        int32_t b = device[note->dst];
        if (!joins_node(check, device, note)) {
            continue;
        }
        n_peers[a]++;
        n_peers[b] += note->symmetrical;
        intra_bytes_per_s[a] += note->bytes_per_s;
        intra_bytes_per_s[b] += note->symmetrical ? note->bytes_per_s : 0.0;
        double others_bytes_per_s = usual_bytes_per_s[p->devices[a].node];
        if (!same(others_bytes_per_s, note->bytes_per_s)) {
            char one[32];
            char other[32];
            add(check, CS_SEVERITY_WARNING, note->line,
                "'%s' and '%s' are joined by %s, others in node %d by %s", p->devices[a].host,
                p->devices[b].host, rate(note->bytes_per_s, one), (int)p->devices[a].node,
                rate(others_bytes_per_s, other));
        }
    }
    int32_t *per_node = cs_calloc((size_t)p->n_nodes, sizeof *per_node);
    for (int32_t d = 0; d < p->n_devices; d++) {
        per_node[p->devices[d].node]++;
    }
    end_kind(check);
    for (int32_t d = 0; d < p->n_devices; d++) {
        const struct cs_point *point = device_point(check, d);
        bool full =
            reader->zones[point->zone].routing == CS__ROUTING_FULL && !reader->zones[point->zone].is_cluster;
        if (full && n_peers[d] < per_node[p->devices[d].node] - 1) {
            add(check, CS_SEVERITY_ERROR, point->line,
                "'%s' has routes to %d of the %d other devices of node %d", p->devices[d].host,
                (int)n_peers[d], (int)per_node[p->devices[d].node] - 1, (int)p->devices[d].node);
        }
    }
    cs_free(per_node);
    cs_free(usual_bytes_per_s);
    cs_free(n_peers);
    cs_free(device);
}

/* The fastest NIC that devices with the chip of `device` have: other server types may have others. `most` has
 * an entry a device, filled for the first of each chip. */
static double *most_of_chip(const struct cs_platform *p, double *most, int32_t device)
{
    int32_t first = 0;
    while (p->devices[first].chip != p->devices[device].chip) {
        first++;
    }
    return &most[first];
}

/* NICs: shared ones, slow ones, and networks that are faster between nodes than inside. */
static void check_nics(struct check *check, const double *intra_bytes_per_s)
{
    const struct cs_platform *p = check->platform;
    const struct cs_reader *reader = check->reader;
    int32_t *n_devices = cs_calloc((size_t)reader->n_points + 1, sizeof *n_devices);
    double *most_bytes_per_s = cs_calloc((size_t)p->n_devices + 1, sizeof *most_bytes_per_s);
    end_kind(check);
    for (int32_t d = 0; d < p->n_devices; d++) {
        double *most = most_of_chip(p, most_bytes_per_s, d);
        int32_t nic = cs__names_find(&reader->point_names, p->devices[d].nic_host);
        if (n_devices[nic]++ == 1) {
            add(check, CS_SEVERITY_NOTE, reader->points[nic].line,
                "NIC '%s' carries the traffic of several devices", reader->points[nic].name);
        }
        *most = fmax(*most, reader->points[nic].out_bytes_per_s);
    }
    end_kind(check);
    for (int32_t d = 0; d < p->n_devices; d++) {
        const struct cs_point *nic =
            &reader->points[cs__names_find(&reader->point_names, p->devices[d].nic_host)];
        char one[32];
        char other[32];
        if (nic->out_bytes_per_s <= 0.0) {
            continue; /* its link is not known here */
        }
        double fastest_bytes_per_s = *most_of_chip(p, most_bytes_per_s, d);
        if (!same(nic->out_bytes_per_s, fastest_bytes_per_s)) {
            add(check, CS_SEVERITY_WARNING, nic->line, "NIC '%s' of '%s' has %s, the fastest has %s",
                nic->name, p->devices[d].host, rate(nic->out_bytes_per_s, one),
                rate(fastest_bytes_per_s, other));
        } else if (nic != device_point(check, d) && intra_bytes_per_s[d] > 0.0 &&
                   nic->out_bytes_per_s > intra_bytes_per_s[d] * (1.0 + SAME_FRAC)) {
            add(check, CS_SEVERITY_WARNING, nic->line,
                "'%s' sends %s to other nodes but only %s inside its own", p->devices[d].host,
                rate(nic->out_bytes_per_s, one), rate(intra_bytes_per_s[d], other));
        }
    }
    cs_free(most_bytes_per_s);
    cs_free(n_devices);
}

/* A zone of the fabric: the NICs in it and the routes out of it. */
struct exits {
    int32_t fastest; /* point of a NIC, -1 = none */
    double nics_bytes_per_s;
    double out_bytes_per_s;
    int line;
};

/* The share of a leaf's NICs that its up link is meant to carry, as the file describes itself; 1 = all. */
static double described_oversubscription(const struct cs_reader *reader)
{
    double ratio = 1;
    for (int32_t i = 0; i < reader->n_root_props; i++) {
        if (strcmp(reader->root_props[i].id, "oversubscription") == 0) {
            (void)!cs_real_parse(reader->root_props[i].value, "oversubscription", CS_NOLOC, &ratio, NULL);
        }
    }
    return ratio;
}

/* A leaf whose links to the other switches together have less than one of its NICs: a mistake, unless the
 * file says that it is oversubscribed so far. */
static void check_exits(struct check *check)
{
    const struct cs_platform *p = check->platform;
    const struct cs_reader *reader = check->reader;
    double ratio = described_oversubscription(reader);
    struct exits *zones = cs_calloc((size_t)reader->n_zones + 1, sizeof *zones);
    end_kind(check);
    for (int32_t z = 0; z < reader->n_zones; z++) {
        zones[z].fastest = -1;
    }
    for (int32_t d = 0; d < p->n_devices; d++) {
        int32_t nic = cs__names_find(&reader->point_names, p->devices[d].nic_host);
        double bytes_per_s = reader->points[nic].out_bytes_per_s;
        struct exits *zone = &zones[reader->points[nic].zone];
        if (zone->fastest < 0 || bytes_per_s > reader->points[zone->fastest].out_bytes_per_s) {
            zone->fastest = nic;
        }
        zone->nics_bytes_per_s += bytes_per_s;
    }
    for (int32_t i = 0; i < reader->n_notes; i++) {
        const struct cs_route_note *note = &reader->notes[i];
        const int32_t ends[] = {note->src, note->symmetrical ? note->dst : -1};
        for (int32_t e = 0; e < CS_COUNT(ends); e++) {
            if (ends[e] >= 0 && reader->points[ends[e]].kind == CS__POINT_ZONE) {
                struct exits *zone = &zones[reader->points[ends[e]].zone];
                zone->out_bytes_per_s += note->bytes_per_s;
                zone->line = zone->line > 0 ? zone->line : note->line;
            }
        }
    }
    for (int32_t z = 0; z < reader->n_zones; z++) {
        const struct exits *zone = &zones[z];
        const struct cs_point *nic = zone->fastest >= 0 ? &reader->points[zone->fastest] : NULL;
        if (nic && zone->line > 0 && zone->out_bytes_per_s < nic->out_bytes_per_s * (1 - SAME_FRAC)) {
            char one[32];
            char other[32];
            bool meant = zone->out_bytes_per_s >= zone->nics_bytes_per_s / ratio * (1 - SAME_FRAC);
            add(check, meant ? CS_SEVERITY_NOTE : CS_SEVERITY_WARNING, zone->line,
                "'%s' has %s to the rest of the cluster, less than its NIC '%s' alone (%s)",
                reader->zones[z].name, rate(zone->out_bytes_per_s, one), nic->name,
                rate(nic->out_bytes_per_s, other));
        }
    }
    cs_free(zones);
}

cs_status cs_platform_check(const char *xml_path, const struct cs_catalogue *catalogue,
                            struct cs_findings *findings, struct cs_err *err)
{
    struct cs_platform platform = {0};
    struct cs_reader reader = {0};
    struct cs_findings found = {0};
    cs_status st = cs__platform_read(&platform, &reader, xml_path, catalogue, err);
    if (st == CS_OK) {
        struct check check = {.platform = &platform, .reader = &reader, .out = &found};
        double *intra_bytes_per_s = cs_calloc((size_t)platform.n_devices, sizeof *intra_bytes_per_s);
        for (int32_t d = 0; d < platform.n_devices; d++) {
            intra_bytes_per_s[d] = device_point(&check, d)->out_bytes_per_s; /* of a switched node */
        }
        check_devices(&check);
        check_host_links(&check);
        check_routes(&check);
        check_intra(&check, intra_bytes_per_s);
        check_nics(&check, intra_bytes_per_s);
        check_exits(&check);
        end_kind(&check);
        cs_free(intra_bytes_per_s);
        *findings = found;
    }
    cs__reader_release(&reader);
    cs_platform_release(&platform);
    return st;
}

void cs_findings_release(struct cs_findings *findings)
{
    cs_arena_release(&findings->arena);
    *findings = (struct cs_findings){0};
}
