/* The fabric between the nodes as SimGrid XML: switches, what joins them, ways round dead cables. */
#include "topology_xml_priv.h"

/* Leaves above which a tree is written for the time SimGrid takes to load it (see the end of this file):
 * devices that are their own NICs where that can be, else the NICs' links in the root zone. Measured. */
#define JOINED_LEAVES_MIN 128
#define CLUSTERS_MAX 384
/* Devices of a switched node up to which a route a pair costs less than twice the hosts. */
#define JOINED_DEVICES_MAX 16
/* NICs of a leaf up to which Floyd's cubic routing costs less than twice the hosts. */
#define JOINED_NICS_MAX 64

bool cs__fabric_joined(const struct cs_fabric_plan *plan)
{
    const struct cs_topology_spec *spec = plan->spec;
    bool small = !spec->intra_switched || spec->devices_per_node <= JOINED_DEVICES_MAX;
    bool whole = spec->topology == CS_TOPOLOGY_FAT_TREE && plan->n_leaves >= JOINED_LEAVES_MIN &&
                 plan->n_parts == 1 && spec->leaf_ports <= JOINED_NICS_MAX &&
                 spec->leaf_ports % spec->devices_per_node == 0;
    return small && spec->intra_bus_bytes_per_s <= 0 && (whole || spec->topology == CS_TOPOLOGY_TORUS);
}

bool cs__fabric_root_links(const struct cs_fabric_plan *plan)
{
    return cs__fabric_joined(plan) || plan->n_leaves > CLUSTERS_MAX ||
           plan->spec->topology == CS_TOPOLOGY_TORUS;
}

void cs__xml_fabric_links(FILE *stream, const struct cs_fabric_plan *plan)
{
    if (plan->spec->topology == CS_TOPOLOGY_TORUS) {
        cs__xml_torus_links(stream, plan);
    }
    for (int32_t d = 0; d < plan->n_devices && cs__fabric_root_links(plan); d++) {
        cs__xml_nic_link(stream, plan, d);
    }
}

void cs__xml_zone_route(FILE *stream, const char *src, const char *dst, const char *gw_src,
                        const char *gw_dst, const char *link)
{
    fprintf(stream,
            "      <zoneRoute src=\"%s\" dst=\"%s\" gw_src=\"%s\" gw_dst=\"%s\">"
            "<link_ctn id=\"%s\" direction=\"UP\"/></zoneRoute>\n",
            src, dst, gw_src, gw_dst, link);
}

/* A zone route over several links; `links` is the text of its <link_ctn> elements. */
static void put_detour(FILE *stream, const char *src, const char *dst, const char *gw_src, const char *gw_dst,
                       const char *links)
{
    fprintf(stream, "      <zoneRoute src=\"%s\" dst=\"%s\" gw_src=\"%s\" gw_dst=\"%s\">%s</zoneRoute>\n",
            src, dst, gw_src, gw_dst, links);
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
    char rate[CS__XML_TEXT_MAX];
    char latency[CS__XML_TEXT_MAX];
    const struct cs_topology_part *part = &plan->parts[cs__fabric_part(plan, first)];
    cs__xml_rate(rate, part->inter_bytes_per_s);
    cs__xml_latency(latency, plan->spec->inter_latency_s / 2.0);
    fprintf(stream, "      <cluster id=\"%s\" prefix=\"nic\" suffix=\"\" radical=\"", id);
    if (step == 1) {
        fprintf(stream, "%d-%d", (int)first, (int)(first + n - 1));
    } else {
        for (int32_t i = 0; i < n; i++) {
            fprintf(stream, "%s%d", i > 0 ? "," : "", (int)(first + i * step));
        }
    }
    fprintf(stream, "\" speed=\"1Gf\" bw=\"%s\" lat=\"%s\"%s router_id=\"%s_switch\"/>\n", rate, latency,
            part->inter_half_duplex ? " sharing_policy=\"SHARED\"" : "", id);
}

void cs__xml_nic_switch(FILE *stream, const struct cs_fabric_plan *plan, const char *id, int32_t first,
                        int32_t n, int32_t step)
{
    bool half = plan->parts[cs__fabric_part(plan, first)].inter_half_duplex;
    fprintf(stream, "      <zone id=\"%s\" routing=\"Cluster\">\n", id);
    for (int32_t i = 0; i < n; i++) {
        fprintf(stream, "        <host id=\"nic%d\" speed=\"1Gf\"/>\n", (int)(first + i * step));
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t d = first + i * step;
        fprintf(stream, "        <host_link id=\"nic%d\" up=\"nic%d_link%s\" down=\"nic%d_link%s\"/>\n",
                (int)d, (int)d, half ? "" : "_UP", (int)d, half ? "" : "_DOWN");
    }
    fprintf(stream, "        <router id=\"%s_switch\"/>\n      </zone>\n", id);
}

/* One node under its switch needs no routing but the routes themselves. Of several nodes, those that are
 * declared, of one or two links, stay: Floyd only takes what is shorter than what is there. */
void cs__xml_joined_switch(FILE *stream, const struct cs_fabric_plan *plan,
                           const struct cs__device_text *text, const char *id, int32_t first, int32_t n)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t per_node = spec->devices_per_node;
    const char *up = spec->inter_half_duplex ? "" : " direction=\"UP\"";
    fprintf(stream, "      <zone id=\"%s\" routing=\"%s\">\n", id, n > per_node ? "Floyd" : "Full");
    cs__xml_devices(stream, plan, text, first, first + n);
    fprintf(stream, "      <router id=\"%s_switch\"/>\n", id);
    for (int32_t d = first; d < first + n; d++) {
        int32_t node_end = first + ((d - first) / per_node + 1) * per_node;
        for (int32_t peer = d + 1; peer < node_end; peer++) {
            if (!spec->intra_switched) {
                cs__xml_mesh_route(stream, plan, d, peer);
                continue;
            }
            fprintf(stream,
                    "      <route src=\"npu%d\" dst=\"npu%d\"><link_ctn id=\"port%d\" direction=\"UP\"/>"
                    "<link_ctn id=\"port%d\" direction=\"DOWN\"/></route>\n",
                    (int)d, (int)peer, (int)d, (int)peer);
        }
        fprintf(stream,
                "      <route src=\"npu%d\" dst=\"%s_switch\"><link_ctn id=\"nic%d_link\"%s/></route>\n",
                (int)d, id, (int)d, up);
    }
    fputs("      </zone>\n", stream);
}

/* A leaf with its NICs, in the form that suits the number of leaves. */
static void put_leaf(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text,
                     int32_t leaf)
{
    char id[CS__XML_TEXT_MAX];
    int32_t first = cs__fabric_leaf_first(plan, leaf);
    int32_t n = cs__fabric_leaf_nics(plan, leaf);
    int32_t per_node = plan->parts[cs__fabric_leaf_part(plan, leaf)].devices_per_node;
    int32_t step = plan->spec->topology == CS_TOPOLOGY_RAIL ? per_node : 1;
    snprintf(id, sizeof id, "leaf%d", (int)leaf);
    if (cs__fabric_joined(plan)) {
        cs__xml_joined_switch(stream, plan, text, id, first, n);
    } else if (cs__fabric_root_links(plan)) {
        cs__xml_nic_switch(stream, plan, id, first, n, step);
    } else {
        put_switch(stream, plan, id, first, n, step);
    }
}

/* The leaves of a pod under its spine; the zone around them is open. */
static void put_pod(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text,
                    int32_t pod, const char *spine)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t first = plan->n_levels == 3 ? pod * spec->leaf_ports : 0;
    int32_t end = plan->n_levels == 3 ? first + spec->leaf_ports : plan->n_leaves;
    end = end < plan->n_leaves ? end : plan->n_leaves;
    char leaf_id[CS__XML_TEXT_MAX];
    char link_id[CS__XML_TEXT_MAX + 8];
    char leaf_switch[CS__XML_TEXT_MAX + 8];
    char spine_switch[CS__XML_TEXT_MAX];
    for (int32_t leaf = first; leaf < end; leaf++) {
        put_leaf(stream, plan, text, leaf);
    }
    if (plan->n_levels == 1) {
        return;
    }
    put_switch_zone(stream, spine);
    snprintf(spine_switch, sizeof spine_switch, "%s_switch", spine);
    for (int32_t leaf = first; leaf < end; leaf++) {
        snprintf(link_id, sizeof link_id, "leaf%d_up", (int)leaf);
        cs__xml_link(stream, link_id, cs__fabric_leaf_up_bytes_per_s(plan, leaf), spec->hop_latency_s);
    }
    for (int32_t leaf = first; leaf < end; leaf++) {
        snprintf(leaf_id, sizeof leaf_id, "leaf%d", (int)leaf);
        snprintf(link_id, sizeof link_id, "%s_up", leaf_id);
        snprintf(leaf_switch, sizeof leaf_switch, "%s_switch", leaf_id);
        cs__xml_zone_route(stream, leaf_id, spine, leaf_switch, spine_switch, link_id);
    }
}

static void put_tree(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text)
{
    if (plan->n_levels < 3) {
        fprintf(stream, "    <zone id=\"fabric\" routing=\"Floyd\">\n");
        put_pod(stream, plan, text, 0, "spine");
        fputs("    </zone>\n", stream);
        return;
    }
    char id[CS__XML_TEXT_MAX];
    char spine[CS__XML_TEXT_MAX + 8];
    char spine_switch[CS__XML_TEXT_MAX + 16];
    char link_id[CS__XML_TEXT_MAX + 8];
    fprintf(stream, "    <zone id=\"fabric\" routing=\"Floyd\">\n");
    for (int32_t pod = 0; pod < plan->n_pods; pod++) {
        snprintf(spine, sizeof spine, "pod%d_spine", (int)pod);
        fprintf(stream, "      <zone id=\"pod%d\" routing=\"Floyd\">\n", (int)pod);
        put_pod(stream, plan, text, pod, spine);
        fputs("      </zone>\n", stream);
    }
    put_switch_zone(stream, "core");
    for (int32_t pod = 0; pod < plan->n_pods; pod++) {
        snprintf(link_id, sizeof link_id, "pod%d_up", (int)pod);
        cs__xml_link(stream, link_id, cs__fabric_pod_up_bytes_per_s(plan, pod), plan->spec->hop_latency_s);
    }
    for (int32_t pod = 0; pod < plan->n_pods; pod++) {
        snprintf(id, sizeof id, "pod%d", (int)pod);
        snprintf(spine_switch, sizeof spine_switch, "%s_spine_switch", id);
        snprintf(link_id, sizeof link_id, "%s_up", id);
        cs__xml_zone_route(stream, id, "core", spine_switch, "core_switch", link_id);
    }
    fputs("    </zone>\n", stream);
}

/* The way between two routers of a group: their cable, or over a third router when it is dead. */
static void add_local(struct cs_strbuf *links, const struct cs_fabric_plan *plan, int32_t group, int32_t a,
                      int32_t b)
{
    char prefix[CS__XML_TEXT_MAX];
    if (a == b) {
        return;
    }
    snprintf(prefix, sizeof prefix, "group%d_local", (int)group);
    if (cs__cable_dead(plan->spec, CS__CABLE_LOCAL, group, a < b ? a : b, a < b ? b : a)) {
        int32_t third = cs__cable_detour(plan, CS__CABLE_LOCAL, group, a < b ? a : b, a < b ? b : a);
        cs__xml_crossing(links, prefix, a, third);
        a = third;
    }
    cs__xml_crossing(links, prefix, a, b);
}

static void put_dragonfly_group(FILE *stream, const struct cs_fabric_plan *plan, int32_t group)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t n_nics = plan->n_router_nodes * spec->devices_per_node;
    char id[CS__XML_TEXT_MAX];
    char peer[CS__XML_TEXT_MAX];
    char link_id[CS__XML_TEXT_MAX];
    char gw[CS__XML_TEXT_MAX + 8];
    char peer_gw[CS__XML_TEXT_MAX + 8];
    fprintf(stream, "      <zone id=\"group%d\" routing=\"Full\">\n", (int)group);
    for (int32_t r = 0; r < plan->n_routers; r++) {
        snprintf(id, sizeof id, "group%d_router%d", (int)group, (int)r);
        put_switch(stream, plan, id, (group * plan->n_routers + r) * n_nics, n_nics, 1);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t r = 0; r < plan->n_routers; r++) {
            for (int32_t q = r + 1; q < plan->n_routers; q++) {
                bool dead = cs__cable_dead(spec, CS__CABLE_LOCAL, group, r, q);
                snprintf(link_id, sizeof link_id, "group%d_local%d-%d", (int)group, (int)r, (int)q);
                if (pass == 0 && dead) {
                    continue;
                }
                if (pass == 0) {
                    cs__xml_link(stream, link_id, cs__fabric_local_bytes_per_s(plan), spec->hop_latency_s);
                    continue;
                }
                snprintf(id, sizeof id, "group%d_router%d", (int)group, (int)r);
                snprintf(peer, sizeof peer, "group%d_router%d", (int)group, (int)q);
                snprintf(gw, sizeof gw, "%s_switch", id);
                snprintf(peer_gw, sizeof peer_gw, "%s_switch", peer);
                if (dead) {
                    struct cs_strbuf links = {0};
                    add_local(&links, plan, group, r, q);
                    put_detour(stream, id, peer, gw, peer_gw, cs_strbuf_str(&links));
                    cs_strbuf_release(&links);
                    continue;
                }
                cs__xml_zone_route(stream, id, peer, gw, peer_gw, link_id);
            }
        }
    }
    fputs("      </zone>\n", stream);
}

/* Groups g < h whose cable is dead, over a third group. */
static void put_global_detour(FILE *stream, const struct cs_fabric_plan *plan, int32_t g, int32_t h)
{
    int32_t third = cs__cable_detour(plan, CS__CABLE_GLOBAL, 0, g, h);
    struct cs_strbuf links = {0};
    char id[CS__XML_TEXT_MAX];
    char peer[CS__XML_TEXT_MAX];
    char gw[CS__XML_TEXT_MAX];
    char peer_gw[CS__XML_TEXT_MAX];
    cs__xml_crossing(&links, "global", g, third);
    add_local(&links, plan, third, cs__fabric_gateway(plan, third, g), cs__fabric_gateway(plan, third, h));
    cs__xml_crossing(&links, "global", third, h);
    snprintf(id, sizeof id, "group%d", (int)g);
    snprintf(peer, sizeof peer, "group%d", (int)h);
    snprintf(gw, sizeof gw, "group%d_router%d_switch", (int)g, (int)cs__fabric_gateway(plan, g, third));
    snprintf(peer_gw, sizeof peer_gw, "group%d_router%d_switch", (int)h,
             (int)cs__fabric_gateway(plan, h, third));
    put_detour(stream, id, peer, gw, peer_gw, cs_strbuf_str(&links));
    cs_strbuf_release(&links);
}

static void put_dragonfly(FILE *stream, const struct cs_fabric_plan *plan)
{
    char id[CS__XML_TEXT_MAX];
    char peer[CS__XML_TEXT_MAX];
    char link_id[CS__XML_TEXT_MAX];
    char gw[CS__XML_TEXT_MAX];
    char peer_gw[CS__XML_TEXT_MAX];
    fprintf(stream, "    <zone id=\"fabric\" routing=\"Full\">\n");
    for (int32_t g = 0; g < plan->n_groups; g++) {
        put_dragonfly_group(stream, plan, g);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t g = 0; g < plan->n_groups; g++) {
            for (int32_t h = g + 1; h < plan->n_groups; h++) {
                if (cs__cable_dead(plan->spec, CS__CABLE_GLOBAL, 0, g, h)) {
                    if (pass == 1) {
                        put_global_detour(stream, plan, g, h);
                    }
                    continue;
                }
                snprintf(link_id, sizeof link_id, "global%d-%d", (int)g, (int)h);
                if (pass == 0) {
                    cs__xml_link(stream, link_id, cs__fabric_global_bytes_per_s(plan),
                                 plan->spec->hop_latency_s);
                    continue;
                }
                snprintf(id, sizeof id, "group%d", (int)g);
                snprintf(peer, sizeof peer, "group%d", (int)h);
                snprintf(gw, sizeof gw, "group%d_router%d_switch", (int)g,
                         (int)cs__fabric_gateway(plan, g, h));
                snprintf(peer_gw, sizeof peer_gw, "group%d_router%d_switch", (int)h,
                         (int)cs__fabric_gateway(plan, h, g));
                cs__xml_zone_route(stream, id, peer, gw, peer_gw, link_id);
            }
        }
    }
    fputs("    </zone>\n", stream);
}

void cs__xml_fabric(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text)
{
    switch (plan->spec->topology) {
    case CS_TOPOLOGY_FAT_TREE:
    case CS_TOPOLOGY_RAIL:
        put_tree(stream, plan, text);
        break;
    case CS_TOPOLOGY_TORUS:
        cs__xml_torus(stream, plan, text);
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

/* What makes a tree of many leaves, or a torus, slow to load: SimGrid looks every new link and host up in
 * each zone that is there already, and when it seals the platform it walks every host once for each zone. So
 * the links stand in the root zone, before the others, instead of being <cluster>s'; and where leaves hold
 * whole small nodes the devices are their own NICs, which halves the hosts and leaves out the zones of the
 * nodes. */
