/* <cluster>: SimGrid expands it to hosts and links; their names are needed for routes, gateways and NICs. */
#include "cs/base/text.h"
#include "cs/base/units.h"
#include "cs/platforms/topology.h"
#include "reader_priv.h"
#include "simgrid_units_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hosts of one cluster: devices and their NICs, with room. */
#define CLUSTER_HOSTS_MAX (2 * CS_TOPOLOGY_DEVICES_MAX)

enum { TOPO_FLAT, TOPO_TORUS, TOPO_FAT_TREE, TOPO_DRAGONFLY };
static const char *const topology_names[] = {"FLAT", "TORUS", "FAT_TREE", "DRAGONFLY", NULL};
static const char *const sharing_names[] = {"SHARED", "SPLITDUPLEX", "FATPIPE", NULL};
static const char *const bb_sharing_names[] = {"SHARED", "FATPIPE", NULL};

/* An unsigned number at *at, at most `max`; false when there is none. Moves *at behind it. */
static bool read_number(const char **at, int64_t max, int64_t *value)
{
    int64_t v = 0;
    const char *c = *at;
    for (; *c >= '0' && *c <= '9'; c++) {
        v = v * 10 + (*c - '0');
        if (v > max) {
            return false;
        }
    }
    bool ok = c > *at;
    *at = c;
    *value = v;
    return ok;
}

/* Numbers separated by commas up to `end` (';' or the end), `n` of them or, with n = 0, as many as fit. */
static bool read_numbers(const char **at, char end, int32_t n, int64_t *values, int32_t max_n,
                         int32_t *n_read)
{
    *n_read = 0;
    for (;;) {
        if (*n_read == max_n || !read_number(at, 1000000, &values[*n_read]) || values[*n_read] < 1) {
            return false;
        }
        (*n_read)++;
        if (**at != ',') {
            break;
        }
        (*at)++;
    }
    if (**at != end || (n > 0 && *n_read != n)) {
        return false;
    }
    *at += **at ? 1 : 0;
    return true;
}

/* Hosts that the topology's parameters ask for; -1 when they are malformed, with the form in *form. */
static int64_t topology_hosts(int32_t topology, const char *text, const char **form)
{
    enum { LEVELS_MAX = 8 };
    int64_t v[3][LEVELS_MAX] = {{0}};
    int64_t levels = 0;
    int32_t n = 0;
    int64_t product = 1;
    const char *at = text;
    bool ok = false;
    switch (topology) {
    case TOPO_TORUS:
        *form = "sizes, '4,4,2'";
        ok = read_numbers(&at, '\0', 0, v[0], LEVELS_MAX, &n);
        for (int32_t i = 0; ok && i < n && product <= CLUSTER_HOSTS_MAX; i++) {
            product *= v[0][i];
        }
        break;
    case TOPO_FAT_TREE:
        *form = "'levels;down;up;parallel', each a list of that many levels, '2;16,4;1,4;1,1'";
        ok = read_number(&at, LEVELS_MAX, &levels) && levels > 0 && *at == ';';
        at += ok;
        for (int32_t i = 0; ok && i < 3; i++) {
            ok = read_numbers(&at, i < 2 ? ';' : '\0', (int32_t)levels, v[i], LEVELS_MAX, &n);
        }
        for (int32_t i = 0; ok && i < levels && product <= CLUSTER_HOSTS_MAX; i++) {
            product *= v[0][i];
            ok = v[1][i] <= 4096 && v[2][i] <= 64;
        }
        break;
    case TOPO_DRAGONFLY:
    default:
        /* Route look-up indexes the routers of a chassis by group number. */
        *form = "'groups,links;chassis,links;routers,links;nodes' with no more groups than routers, "
                "'4,1;2,1;4,1;8'";
        for (int32_t i = 0; i < 3; i++) {
            ok = (i == 0 || ok) && read_numbers(&at, ';', 2, v[i], LEVELS_MAX, &n);
        }
        ok = ok && read_number(&at, 1000000, &levels) && *at == '\0' && levels > 0 && v[0][0] <= v[2][0];
        product = ok ? v[0][0] * v[1][0] : 0;
        product = ok && product <= CLUSTER_HOSTS_MAX ? product * v[2][0] : product;
        product = ok && product <= CLUSTER_HOSTS_MAX ? product * levels : product;
        break;
    }
    return ok ? product : -1;
}

/* Names of one host's cluster links, as SimGrid 3.32 makes them for a FLAT cluster. */
static cs_status add_flat_links(struct cs_reader *reader, const char *id, int64_t number, bool split,
                                double bytes_per_s)
{
    char name[CS__NAME_MAX + 64];
    snprintf(name, sizeof name, "%s_link_%lld", id, (long long)number);
    if (cs__rules_add_link(reader, name, split ? CS__LINK_SPLIT : CS__LINK_PLAIN, bytes_per_s) != CS_OK) {
        return reader->status;
    }
    if (reader->attrs[CS__A_CLUSTER_LOOPBACK_BW]) {
        snprintf(name, sizeof name, "%s_link_%lld_loopback", id, (long long)number);
        if (cs__rules_add_link(reader, name, CS__LINK_PLAIN, bytes_per_s) != CS_OK) {
            return reader->status;
        }
    }
    if (reader->attrs[CS__A_CLUSTER_LIMITER_LINK]) {
        snprintf(name, sizeof name, "%s_link_%lld_limiter", id, (long long)number);
        return cs__rules_add_link(reader, name, CS__LINK_PLAIN, bytes_per_s);
    }
    return CS_OK;
}

/* The hosts of the radical ("0-7,12,20-23"), in its order, and their links. */
static cs_status add_hosts(struct cs_reader *reader, int32_t zone, bool flat, bool split, double bytes_per_s,
                           int64_t *n_hosts)
{
    cs_status st = CS_OK;
    const char *radical = reader->attrs[CS__A_CLUSTER_RADICAL];
    const char *at = radical;
    *n_hosts = 0;
    for (;;) {
        int64_t first = 0;
        int64_t last = 0;
        bool ok = read_number(&at, 1000000000, &first);
        last = first;
        if (ok && *at == '-') {
            at++;
            ok = read_number(&at, 1000000000, &last);
        }
        if (!ok || last < first || (*at != ',' && *at != '\0')) {
            return cs__reader_fail(reader, CS_E_INPUT,
                                   "radical '%.60s' is not a list like '0-7' or '0-3,8,10-12'", radical);
        }
        if (last - first + 1 > CLUSTER_HOSTS_MAX - *n_hosts) {
            return cs__reader_fail(reader, CS_E_LIMIT, "a cluster has at most %d hosts", CLUSTER_HOSTS_MAX);
        }
        for (int64_t i = first; i <= last; i++) {
            char name[CS__NAME_MAX * 3];
            int32_t point = -1;
            snprintf(name, sizeof name, "%.200s%lld%.200s", reader->attrs[CS__A_CLUSTER_PREFIX], (long long)i,
                     reader->attrs[CS__A_CLUSTER_SUFFIX]);
            CS_TRY(cs__rules_add_point(reader, name, CS__POINT_HOST, zone, &point));
            reader->points[point].has_host_link = true;
            reader->points[point].out_bytes_per_s = bytes_per_s;
            reader->points[point].in_bytes_per_s = bytes_per_s;
            if (flat) {
                CS_TRY(add_flat_links(reader, reader->zones[zone].name, i, split, bytes_per_s));
            }
            (*n_hosts)++;
        }
        if (*at == '\0') {
            break;
        }
        at++;
    }
out:
    return st;
}

static cs_status check_quantities(struct cs_reader *reader, double *bytes_per_s)
{
    static const struct {
        int attr;
        enum cs_simgrid_unit unit;
        const char *what;
    } list[] = {{CS__A_CLUSTER_SPEED, CS__SIMGRID_SPEED, "speed"},
                {CS__A_CLUSTER_BW, CS__SIMGRID_BANDWIDTH, "bw"},
                {CS__A_CLUSTER_LAT, CS__SIMGRID_LATENCY, "lat"},
                {CS__A_CLUSTER_BB_BW, CS__SIMGRID_BANDWIDTH, "bb_bw"},
                {CS__A_CLUSTER_BB_LAT, CS__SIMGRID_LATENCY, "bb_lat"},
                {CS__A_CLUSTER_LIMITER_LINK, CS__SIMGRID_BANDWIDTH, "limiter_link"},
                {CS__A_CLUSTER_LOOPBACK_BW, CS__SIMGRID_BANDWIDTH, "loopback_bw"},
                {CS__A_CLUSTER_LOOPBACK_LAT, CS__SIMGRID_LATENCY, "loopback_lat"}};
    for (int32_t i = 0; i < CS_COUNT(list); i++) {
        const char *text = reader->attrs[list[i].attr];
        double value = 0.0;
        cs_status st = text ? cs__simgrid_parse(text, list[i].unit, list[i].what, cs__reader_loc(reader),
                                                &value, reader->err)
                            : CS_OK;
        if (st != CS_OK) {
            return st;
        }
        *bytes_per_s = list[i].attr == CS__A_CLUSTER_BW ? value : *bytes_per_s;
    }
    if (reader->attrs[CS__A_CLUSTER_BB_LAT] && !reader->attrs[CS__A_CLUSTER_BB_BW]) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "bb_lat without bb_bw makes a backbone that carries nothing");
    }
    if (reader->attrs[CS__A_CLUSTER_LOOPBACK_LAT] && !reader->attrs[CS__A_CLUSTER_LOOPBACK_BW]) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "loopback_lat without loopback_bw makes a link that carries nothing");
    }
    return cs__rules_core(reader, reader->attrs[CS__A_CLUSTER_CORE]);
}

/* Index of an attribute's value in `names`, `missing` when it is left out; -1 with the failure recorded. */
static int32_t choice(struct cs_reader *reader, int attr, const char *what, const char *const *names,
                      int32_t missing)
{
    const char *text = reader->attrs[attr];
    int32_t index = text ? cs_text_index(text, names) : missing;
    if (index < 0) {
        (void)cs__reader_fail(reader, CS_E_INPUT, "%s '%s' is not supported, expected %s, %s%s%s", what, text,
                              names[0], names[1], names[2] ? " or " : "", names[2] ? names[2] : "");
    }
    return index;
}

/* A FLAT cluster's switch: by default prefix, id, "_router" and suffix. */
static cs_status add_router(struct cs_reader *reader, int32_t zone)
{
    int32_t point = -1;
    const char *given = reader->attrs[CS__A_CLUSTER_ROUTER_ID];
    if (given && given[0] != '\0') {
        return cs__rules_add_point(reader, given, CS__POINT_ROUTER, zone, &point);
    }
    char name[CS__NAME_MAX * 4];
    snprintf(name, sizeof name, "%.200s%.200s_router%.200s", reader->attrs[CS__A_CLUSTER_PREFIX],
             reader->zones[zone].name, reader->attrs[CS__A_CLUSTER_SUFFIX]);
    return cs__rules_add_point(reader, name, CS__POINT_ROUTER, zone, &point);
}

cs_status cs__cluster_start(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    int32_t point = -1;
    CS_TRY(cs__rules_add_point(reader, reader->attrs[CS__A_CLUSTER_ID], CS__POINT_ZONE, reader->n_zones,
                               &point));
    CS_GROW(reader->zones, reader->n_zones, reader->cap_zones);
    int32_t zone = reader->n_zones++;
    reader->zones[zone] = (struct cs_zone){.name = reader->points[point].name,
                                           .routing = CS__ROUTING_NONE,
                                           .kind = CS__ZONE_OF_HOSTS,
                                           .is_cluster = true,
                                           .parent = reader->zone,
                                           .line = cs__reader_line(reader)};
    reader->zones[reader->zone].n_points++;
    double bytes_per_s = 0.0;
    CS_TRY(check_quantities(reader, &bytes_per_s));
    int32_t topology = choice(reader, CS__A_CLUSTER_TOPOLOGY, "topology", topology_names, TOPO_FLAT);
    int32_t sharing = choice(reader, CS__A_CLUSTER_SHARING_POLICY, "sharing_policy", sharing_names, 1);
    int32_t bb = choice(reader, CS__A_CLUSTER_BB_SHARING_POLICY, "bb_sharing_policy", bb_sharing_names, 0);
    if (topology < 0 || sharing < 0 || bb < 0) {
        return reader->status;
    }
    bool flat = topology == TOPO_FLAT;
    int64_t n_hosts = 0;
    reader->cluster_first_host = reader->n_points;
    CS_TRY(add_hosts(reader, zone, flat, sharing == 1, bytes_per_s, &n_hosts));
    reader->cluster_n_hosts = n_hosts;
    if (flat) {
        CS_TRY(add_router(reader, zone));
        if (reader->attrs[CS__A_CLUSTER_BB_BW]) {
            char name[CS__NAME_MAX + 16];
            snprintf(name, sizeof name, "%s_backbone", reader->zones[zone].name);
            CS_TRY(cs__rules_add_link(reader, name, CS__LINK_PLAIN, bytes_per_s));
        }
    } else {
        const char *form = "";
        const char *parameters = reader->attrs[CS__A_CLUSTER_TOPO_PARAMETERS];
        int64_t wanted = topology_hosts(topology, parameters ? parameters : "", &form);
        if (wanted < 0) {
            return cs__reader_fail(reader, CS_E_INPUT, "topo_parameters of a %s must be %s",
                                   topology_names[topology], form);
        }
        if (wanted != n_hosts) {
            return cs__reader_fail(reader, CS_E_INPUT,
                                   "topo_parameters '%s' make %lld hosts, but radical has %lld", parameters,
                                   (long long)wanted, (long long)n_hosts);
        }
    }
    reader->n_props = 0;
out:
    return st;
}

/* All hosts of a cluster have its properties: each becomes a device when there is a chip. */
cs_status cs__cluster_end(struct cs_reader *reader)
{
    cs_status st = CS_OK;
    for (int64_t i = 0; i < reader->cluster_n_hosts; i++) {
        CS_TRY(cs__device_add(reader, (int32_t)(reader->cluster_first_host + i)));
    }
out:
    return st;
}
