/* From a description to SimGrid 3.32 XML.
 *
 * Layout of a file, and why:
 *   - root zone, routing None: a device never talks to a NIC host, so no routes between the two fabrics;
 *   - an empty zone: SimGrid's parser wants a <zone> before the first <link> of a zone that has both;
 *   - all links inside nodes, in the root zone and before the other zones: SimGrid looks every new name up
 * zone by zone, so links declared inside or after thousands of zones make loading quadratic;
 *   - the nodes, several to a zone in large clusters, because SimGrid walks all hosts once for each zone when
 * it seals the platform. A zone has routes inside each node only;
 *   - the fabric of the NIC hosts.
 * Links are SPLITDUPLEX: one resource a direction; a route that uses a link UP uses it DOWN the other way. */
#include "cs/platforms/topology.h"

#include "topology_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Hosts that may share a Full zone: its routing table is quadratic, 8 bytes an entry. */
#define ZONE_HOSTS_MAX 256
/* More zones than this of single nodes load slowly. */
#define NODE_ZONES_MAX 64
/* Floyd is cubic in the zone's nodes; above, Dijkstra with a cache finds routes when they are asked for. */
#define FLOYD_NODES_MAX 512

enum { TEXT_MAX = 48 };

struct scale {
    const char *suffix;
    double factor;
};

/* The shortest text that SimGrid's parser (number x factor) turns back into exactly `value`. */
static void format_exact(char text[TEXT_MAX], double value, const struct scale *scales, int32_t n_scales)
{
    size_t best = TEXT_MAX;
    for (int32_t s = 0; s < n_scales; s++) {
        for (int digits = 1; digits <= 17; digits++) {
            char number[32];
            char candidate[TEXT_MAX];
            snprintf(number, sizeof number, "%.*g", digits, value / scales[s].factor);
            double back = strtod(number, NULL) * scales[s].factor;
            if (back < value || back > value) {
                continue;
            }
            snprintf(candidate, sizeof candidate, "%s%s", number, scales[s].suffix);
            if (strlen(candidate) < best) {
                best = strlen(candidate);
                memcpy(text, candidate, best + 1);
            }
            break;
        }
    }
    CS_ASSERT(best < TEXT_MAX); /* the unit itself with 17 digits is always exact */
}

static void format_rate(char text[TEXT_MAX], double value_bytes_per_s)
{
    static const struct scale scales[] = {{"GBps", 1e9}, {"MBps", 1e6}, {"kBps", 1e3}, {"Bps", 1.0}};
    format_exact(text, value_bytes_per_s, scales, CS_COUNT(scales));
}

static void format_latency(char text[TEXT_MAX], double value_s)
{
    static const struct scale scales[] = {{"us", 1e-6}, {"ns", 1e-9}, {"ms", 1e-3}, {"s", 1.0}};
    format_exact(text, value_s, scales, CS_COUNT(scales));
}

static void format_speed(char text[TEXT_MAX], double value_flop_per_s)
{
    static const struct scale scales[] = {{"Tf", 1e12}, {"Gf", 1e9}, {"f", 1.0}};
    format_exact(text, value_flop_per_s, scales, CS_COUNT(scales));
}

static void format_bytes(char text[TEXT_MAX], double value_bytes)
{
    static const struct scale scales[] = {{"GiB", 1073741824.0}, {"GB", 1e9}, {"MiB", 1048576.0}, {"B", 1.0}};
    format_exact(text, value_bytes, scales, CS_COUNT(scales));
}

/* Text of an attribute. */
static void put_escaped(FILE *stream, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", stream);
            break;
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        default:
            fputc(*c, stream);
            break;
        }
    }
}

static void put_prop(FILE *stream, const char *id, const char *value)
{
    fprintf(stream, "    <prop id=\"%s\" value=\"", id);
    put_escaped(stream, value);
    fputs("\"/>\n", stream);
}

static void put_link(FILE *stream, const char *id, double bytes_per_s, double latency_s)
{
    char rate[TEXT_MAX];
    char latency[TEXT_MAX];
    format_rate(rate, bytes_per_s);
    format_latency(latency, latency_s);
    fprintf(stream,
            "      <link id=\"%s\" bandwidth=\"%s\" latency=\"%s\" sharing_policy=\"SPLITDUPLEX\"/>\n", id,
            rate, latency);
}

static void put_zone_route(FILE *stream, const char *src, const char *dst, const char *gw_src,
                           const char *gw_dst, const char *link)
{
    fprintf(stream,
            "      <zoneRoute src=\"%s\" dst=\"%s\" gw_src=\"%s\" gw_dst=\"%s\">"
            "<link_ctn id=\"%s\" direction=\"UP\"/></zoneRoute>\n",
            src, dst, gw_src, gw_dst, link);
}

/* A switch on its own, as a zone that zone routes can lead to. */
static void put_switch_zone(FILE *stream, const char *id)
{
    fprintf(stream, "      <zone id=\"%s\" routing=\"Full\"><router id=\"%s_switch\"/></zone>\n", id, id);
}

/* A switch with `n` NICs, numbers first, first + step, ...: a star, half the NIC-to-NIC latency on each link.
 */
static void put_switch(FILE *stream, const struct cs_fabric_plan *plan, const char *id, int32_t first,
                       int32_t n, int32_t step)
{
    char rate[TEXT_MAX];
    char latency[TEXT_MAX];
    format_rate(rate, plan->spec->inter_bytes_per_s);
    format_latency(latency, plan->spec->inter_latency_s / 2.0);
    fprintf(stream, "      <cluster id=\"%s\" prefix=\"nic\" suffix=\"\" radical=\"", id);
    if (step == 1) {
        fprintf(stream, "%d-%d", (int)first, (int)(first + n - 1));
    } else {
        for (int32_t i = 0; i < n; i++) {
            fprintf(stream, "%s%d", i > 0 ? "," : "", (int)(first + i * step));
        }
    }
    fprintf(stream, "\" speed=\"1Gf\" bw=\"%s\" lat=\"%s\" router_id=\"%s_switch\"/>\n", rate, latency, id);
}

/* The leaves of a pod under its spine; the zone around them is open. */
static void put_pod(FILE *stream, const struct cs_fabric_plan *plan, int32_t pod, const char *spine)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t first = plan->n_levels == 3 ? pod * spec->leaf_ports : 0;
    int32_t end = plan->n_levels == 3 ? first + spec->leaf_ports : plan->n_leaves;
    end = end < plan->n_leaves ? end : plan->n_leaves;
    char leaf_id[TEXT_MAX];
    char link_id[TEXT_MAX + 8];
    char leaf_switch[TEXT_MAX + 8];
    char spine_switch[TEXT_MAX];
    for (int32_t leaf = first; leaf < end; leaf++) {
        bool rail = spec->topology == CS_TOPOLOGY_RAIL;
        int32_t group = rail ? leaf / spec->devices_per_node : 0;
        int32_t first_nic =
            rail ? group * spec->leaf_ports * spec->devices_per_node + leaf % spec->devices_per_node
                 : leaf * spec->leaf_ports;
        snprintf(leaf_id, sizeof leaf_id, "leaf%d", (int)leaf);
        put_switch(stream, plan, leaf_id, first_nic, cs__fabric_leaf_nics(plan, leaf),
                   rail ? spec->devices_per_node : 1);
    }
    if (plan->n_levels == 1) {
        return;
    }
    put_switch_zone(stream, spine);
    snprintf(spine_switch, sizeof spine_switch, "%s_switch", spine);
    for (int32_t leaf = first; leaf < end; leaf++) {
        snprintf(link_id, sizeof link_id, "leaf%d_up", (int)leaf);
        put_link(stream, link_id, cs__fabric_leaf_up_bytes_per_s(plan, leaf), spec->hop_latency_s);
    }
    for (int32_t leaf = first; leaf < end; leaf++) {
        snprintf(leaf_id, sizeof leaf_id, "leaf%d", (int)leaf);
        snprintf(link_id, sizeof link_id, "%s_up", leaf_id);
        snprintf(leaf_switch, sizeof leaf_switch, "%s_switch", leaf_id);
        put_zone_route(stream, leaf_id, spine, leaf_switch, spine_switch, link_id);
    }
}

static void put_tree(FILE *stream, const struct cs_fabric_plan *plan)
{
    if (plan->n_levels < 3) {
        fprintf(stream, "    <zone id=\"fabric\" routing=\"Floyd\">\n");
        put_pod(stream, plan, 0, "spine");
        fputs("    </zone>\n", stream);
        return;
    }
    char id[TEXT_MAX];
    char spine[TEXT_MAX + 8];
    char spine_switch[TEXT_MAX + 16];
    char link_id[TEXT_MAX + 8];
    fprintf(stream, "    <zone id=\"fabric\" routing=\"Floyd\">\n");
    for (int32_t pod = 0; pod < plan->n_pods; pod++) {
        snprintf(spine, sizeof spine, "pod%d_spine", (int)pod);
        fprintf(stream, "      <zone id=\"pod%d\" routing=\"Floyd\">\n", (int)pod);
        put_pod(stream, plan, pod, spine);
        fputs("      </zone>\n", stream);
    }
    put_switch_zone(stream, "core");
    for (int32_t pod = 0; pod < plan->n_pods; pod++) {
        snprintf(link_id, sizeof link_id, "pod%d_up", (int)pod);
        put_link(stream, link_id, cs__fabric_pod_up_bytes_per_s(plan, pod), plan->spec->hop_latency_s);
    }
    for (int32_t pod = 0; pod < plan->n_pods; pod++) {
        snprintf(id, sizeof id, "pod%d", (int)pod);
        snprintf(spine_switch, sizeof spine_switch, "%s_spine_switch", id);
        snprintf(link_id, sizeof link_id, "%s_up", id);
        put_zone_route(stream, id, "core", spine_switch, "core_switch", link_id);
    }
    fputs("    </zone>\n", stream);
}

/* Next node of a torus dimension; -1 when that link is another node's or there is none. */
static int32_t torus_next(const struct cs_fabric_plan *plan, int32_t node, int32_t dim, int32_t stride)
{
    int32_t size = plan->dims[dim];
    int32_t at = node / stride % size;
    if (size == 1 || (size == 2 && at == 1)) {
        return -1;
    }
    return at == size - 1 ? node - at * stride : node + stride;
}

static void put_torus(FILE *stream, const struct cs_fabric_plan *plan)
{
    const struct cs_topology_spec *spec = plan->spec;
    char id[TEXT_MAX];
    char peer[TEXT_MAX];
    char link_id[TEXT_MAX + 8];
    char gw[TEXT_MAX + 8];
    char peer_gw[TEXT_MAX + 8];
    fprintf(stream, "    <zone id=\"fabric\" routing=\"%s\">\n",
            spec->n_nodes <= FLOYD_NODES_MAX ? "Floyd" : "DijkstraCache");
    for (int32_t node = 0; node < spec->n_nodes; node++) {
        snprintf(id, sizeof id, "torus%d", (int)node);
        put_switch(stream, plan, id, node * spec->devices_per_node, spec->devices_per_node, 1);
    }
    for (int pass = 0; pass < 2; pass++) { /* all links, then all routes: the parser's order */
        for (int32_t node = 0; node < spec->n_nodes; node++) {
            int32_t stride = 1;
            for (int32_t d = 0; d < 3; d++) {
                int32_t next = torus_next(plan, node, d, stride);
                stride *= plan->dims[d];
                if (next < 0) {
                    continue;
                }
                snprintf(link_id, sizeof link_id, "torus%d_%c", (int)node, "xyz"[d]);
                if (pass == 0) {
                    put_link(stream, link_id, cs__fabric_torus_bytes_per_s(plan, d), spec->hop_latency_s);
                    continue;
                }
                snprintf(id, sizeof id, "torus%d", (int)node);
                snprintf(peer, sizeof peer, "torus%d", (int)next);
                snprintf(gw, sizeof gw, "%s_switch", id);
                snprintf(peer_gw, sizeof peer_gw, "%s_switch", peer);
                put_zone_route(stream, id, peer, gw, peer_gw, link_id);
            }
        }
    }
    fputs("    </zone>\n", stream);
}

static void put_dragonfly_group(FILE *stream, const struct cs_fabric_plan *plan, int32_t group)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t n_nics = plan->n_router_nodes * spec->devices_per_node;
    char id[TEXT_MAX];
    char peer[TEXT_MAX];
    char link_id[TEXT_MAX];
    char gw[TEXT_MAX + 8];
    char peer_gw[TEXT_MAX + 8];
    fprintf(stream, "      <zone id=\"group%d\" routing=\"Full\">\n", (int)group);
    for (int32_t r = 0; r < plan->n_routers; r++) {
        snprintf(id, sizeof id, "group%d_router%d", (int)group, (int)r);
        put_switch(stream, plan, id, (group * plan->n_routers + r) * n_nics, n_nics, 1);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t r = 0; r < plan->n_routers; r++) {
            for (int32_t q = r + 1; q < plan->n_routers; q++) {
                snprintf(link_id, sizeof link_id, "group%d_local%d-%d", (int)group, (int)r, (int)q);
                if (pass == 0) {
                    put_link(stream, link_id, cs__fabric_local_bytes_per_s(plan), spec->hop_latency_s);
                    continue;
                }
                snprintf(id, sizeof id, "group%d_router%d", (int)group, (int)r);
                snprintf(peer, sizeof peer, "group%d_router%d", (int)group, (int)q);
                snprintf(gw, sizeof gw, "%s_switch", id);
                snprintf(peer_gw, sizeof peer_gw, "%s_switch", peer);
                put_zone_route(stream, id, peer, gw, peer_gw, link_id);
            }
        }
    }
    fputs("      </zone>\n", stream);
}

static void put_dragonfly(FILE *stream, const struct cs_fabric_plan *plan)
{
    char id[TEXT_MAX];
    char peer[TEXT_MAX];
    char link_id[TEXT_MAX];
    char gw[TEXT_MAX];
    char peer_gw[TEXT_MAX];
    fprintf(stream, "    <zone id=\"fabric\" routing=\"Full\">\n");
    for (int32_t g = 0; g < plan->n_groups; g++) {
        put_dragonfly_group(stream, plan, g);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t g = 0; g < plan->n_groups; g++) {
            for (int32_t h = g + 1; h < plan->n_groups; h++) {
                snprintf(link_id, sizeof link_id, "global%d-%d", (int)g, (int)h);
                if (pass == 0) {
                    put_link(stream, link_id, cs__fabric_global_bytes_per_s(plan), plan->spec->hop_latency_s);
                    continue;
                }
                snprintf(id, sizeof id, "group%d", (int)g);
                snprintf(peer, sizeof peer, "group%d", (int)h);
                snprintf(gw, sizeof gw, "group%d_router%d_switch", (int)g,
                         (int)cs__fabric_gateway(plan, g, h));
                snprintf(peer_gw, sizeof peer_gw, "group%d_router%d_switch", (int)h,
                         (int)cs__fabric_gateway(plan, h, g));
                put_zone_route(stream, id, peer, gw, peer_gw, link_id);
            }
        }
    }
    fputs("    </zone>\n", stream);
}

static void put_fabric(FILE *stream, const struct cs_fabric_plan *plan)
{
    switch (plan->spec->topology) {
    case CS_TOPOLOGY_FAT_TREE:
    case CS_TOPOLOGY_RAIL:
        put_tree(stream, plan);
        break;
    case CS_TOPOLOGY_TORUS:
        put_torus(stream, plan);
        break;
    case CS_TOPOLOGY_DRAGONFLY:
        put_dragonfly(stream, plan);
        break;
    case CS_TOPOLOGY_SUPERNODE:
        fputs("    <zone id=\"fabric\" routing=\"Full\">\n", stream);
        put_switch(stream, plan, "scaleup", 0, plan->n_devices, 1);
        fputs("    </zone>\n", stream);
        break;
    case CS_N_TOPOLOGIES:
    default:
        cs_bug(__FILE__, __LINE__, "unchecked topology");
    }
}

/* Links inside the nodes: one a pair of a mesh ("hccs3-7"), one a device of a switched node ("port3"). */
static void put_intra_links(FILE *stream, const struct cs_fabric_plan *plan)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t n = spec->devices_per_node;
    char rate[TEXT_MAX];
    char latency[TEXT_MAX];
    if (n == 1) {
        return;
    }
    format_rate(rate, spec->intra_switched ? spec->intra_bytes_per_s : spec->intra_bytes_per_s / (n - 1));
    format_latency(latency, spec->intra_switched ? spec->intra_latency_s / 2.0 : spec->intra_latency_s);
    for (int32_t device = 0; device < plan->n_devices; device++) {
        if (spec->intra_switched) {
            fprintf(
                stream,
                "    <link id=\"port%d\" bandwidth=\"%s\" latency=\"%s\" sharing_policy=\"SPLITDUPLEX\"/>\n",
                (int)device, rate, latency);
            continue;
        }
        int32_t end = (device / n + 1) * n;
        for (int32_t peer = device + 1; peer < end; peer++) {
            fprintf(stream,
                    "    <link id=\"hccs%d-%d\" bandwidth=\"%s\" latency=\"%s\" "
                    "sharing_policy=\"SPLITDUPLEX\"/>\n",
                    (int)device, (int)peer, rate, latency);
        }
    }
}

/* Nodes first .. first + n - 1 as one zone. */
static void put_nodes(FILE *stream, const struct cs_fabric_plan *plan, const char *speed, const char *memory,
                      int32_t first, int32_t n)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t per_node = spec->devices_per_node;
    int32_t end = (first + n) * per_node;
    if (n == 1) {
        fprintf(stream, "    <zone id=\"node%d\"", (int)first);
    } else {
        fprintf(stream, "    <zone id=\"nodes%d-%d\"", (int)first, (int)(first + n - 1));
    }
    bool star = spec->intra_switched && per_node > 1;
    fprintf(stream, " routing=\"%s\">\n", star ? "Cluster" : "Full");
    for (int32_t d = first * per_node; d < end; d++) {
        fprintf(stream, "      <host id=\"npu%d\" speed=\"%s\"><prop id=\"chip\" value=\"", (int)d, speed);
        put_escaped(stream, spec->chip);
        fprintf(stream,
                "\"/><prop id=\"node\" value=\"%d\"/><prop id=\"memory\" value=\"%s\"/>"
                "<prop id=\"nic\" value=\"nic%d\"/></host>\n",
                (int)(d / per_node), memory, (int)d);
    }
    for (int32_t d = first * per_node; d < end && per_node > 1; d++) {
        if (star) {
            fprintf(stream, "      <host_link id=\"npu%d\" up=\"port%d_UP\" down=\"port%d_DOWN\"/>\n", (int)d,
                    (int)d, (int)d);
            continue;
        }
        int32_t node_end = (d / per_node + 1) * per_node;
        for (int32_t peer = d + 1; peer < node_end; peer++) {
            fprintf(stream,
                    "      <route src=\"npu%d\" dst=\"npu%d\"><link_ctn id=\"hccs%d-%d\" direction=\"UP\"/>"
                    "</route>\n",
                    (int)d, (int)peer, (int)d, (int)peer);
        }
    }
    fputs("    </zone>\n", stream);
}

/* What a reader or a report may want to know of the description. */
static void put_props(FILE *stream, const struct cs_fabric_plan *plan)
{
    const struct cs_topology_spec *spec = plan->spec;
    char text[TEXT_MAX];
    put_prop(stream, "name", spec->name);
    put_prop(stream, "topology", cs_topology_names[spec->topology]);
    put_prop(stream, "intra", spec->intra_switched ? "switch" : "mesh");
    format_rate(text, spec->intra_bytes_per_s);
    put_prop(stream, "intra_bandwidth", text);
    format_rate(text, spec->inter_bytes_per_s);
    put_prop(stream, "inter_bandwidth", text);
    snprintf(text, sizeof text, "%.17g", spec->oversubscription_frac);
    for (int digits = 1; digits < 17; digits++) {
        char shorter[TEXT_MAX];
        snprintf(shorter, sizeof shorter, "%.*g", digits, spec->oversubscription_frac);
        double back = strtod(shorter, NULL);
        if (!(back < spec->oversubscription_frac || back > spec->oversubscription_frac)) {
            memcpy(text, shorter, sizeof text);
            break;
        }
    }
    put_prop(stream, "oversubscription", text);
}

/* The speed of a device's host: the matrix peak of the dtype training usually has. */
static double host_flop_per_s(const struct cs_chip *chip)
{
    static const enum cs_dtype order[] = {CS_DTYPE_BF16, CS_DTYPE_FP16, CS_DTYPE_FP32, CS_DTYPE_FP8};
    for (int32_t i = 0; i < CS_COUNT(order); i++) {
        if (cs_chip_has_dtype(chip, order[i])) {
            return chip->peak_flop_per_s[order[i]];
        }
    }
    return NAN;
}

cs_status cs_topology_write(const struct cs_topology_spec *spec, const struct cs_catalogue *catalogue,
                            FILE *stream, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_fabric_plan plan = {0};
    char speed[TEXT_MAX];
    char memory[TEXT_MAX];
    CS_TRY(cs_topology_check(spec, loc, err));
    const struct cs_chip *chip = spec->chip ? cs_catalogue_chip(catalogue, spec->chip) : NULL;
    if (!chip) {
        return cs_err_set(err, CS_E_INPUT, loc, "chip '%s' is not in the catalogue",
                          spec->chip ? spec->chip : "");
    }
    double flop_per_s = host_flop_per_s(chip);
    if (isnan(flop_per_s)) {
        return cs_err_set(err, CS_E_INPUT, loc, "chip '%s' has no peak rate in the catalogue", spec->chip);
    }
    cs__fabric_plan(spec, &plan);
    format_speed(speed, flop_per_s);
    format_bytes(memory, chip->memory_bytes);
    fputs("<?xml version=\"1.0\"?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n"
          "  <zone id=\"cluster\" routing=\"None\">\n",
          stream);
    put_props(stream, &plan);
    fputs("    <zone id=\"first\" routing=\"None\"></zone>\n", stream);
    put_intra_links(stream, &plan);
    int32_t step = 1;
    if (spec->n_nodes > NODE_ZONES_MAX) {
        int32_t wanted = (spec->n_nodes + NODE_ZONES_MAX - 1) / NODE_ZONES_MAX;
        int32_t most = ZONE_HOSTS_MAX / spec->devices_per_node;
        step = wanted < most ? wanted : most > 1 ? most : 1;
    }
    for (int32_t node = 0; node < spec->n_nodes; node += step) {
        int32_t rest = spec->n_nodes - node;
        put_nodes(stream, &plan, speed, memory, node, step < rest ? step : rest);
    }
    put_fabric(stream, &plan);
    fputs("  </zone>\n</platform>\n", stream);
    if (fflush(stream) != 0 || ferror(stream)) {
        return cs_err_set(err, CS_E_IO, loc, "cannot write the platform: %s", strerror(errno));
    }
out:
    return st;
}
