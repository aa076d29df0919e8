/* A torus as SimGrid XML: a zone a node with a router, cables between the routers.
 *
 * Not <cluster>s, whose links SimGrid looks up in every zone before: with the links in the root zone 2,048
 * nodes load in less than half the time. And when SimGrid seals a platform it walks every host once for each
 * zone, so that with so many zones the number of hosts counts: devices of small nodes are their own NICs,
 * which halves it. A large switched node would need a route for each pair of its devices instead of a star,
 * and makes few zones: there the NICs are hosts of their own, as in every other topology. */
#include "topology_xml_priv.h"

/* Floyd is cubic in the zone's nodes; above, Dijkstra with a cache finds routes when they are asked for. */
#define FLOYD_NODES_MAX 512
/* Devices of a switched node up to which a route a pair costs less than twice the hosts. */
#define JOINED_DEVICES_MAX 16

bool cs__fabric_joined(const struct cs_fabric_plan *plan)
{
    const struct cs_topology_spec *spec = plan->spec;
    return spec->topology == CS_TOPOLOGY_TORUS && spec->intra_bus_bytes_per_s <= 0 &&
           (!spec->intra_switched || spec->devices_per_node <= JOINED_DEVICES_MAX);
}

/* Call `put` for each live cable of a torus, in order. */
typedef void put_cable_fn(FILE *stream, const struct cs_fabric_plan *plan, int32_t node, int32_t dim,
                          int32_t next);
static void each_torus_cable(FILE *stream, const struct cs_fabric_plan *plan, put_cable_fn *put)
{
    for (int32_t node = 0; node < plan->spec->n_nodes; node++) {
        int32_t stride = 1;
        for (int32_t d = 0; d < 3; d++) {
            int32_t next = cs__fabric_torus_next(plan, node, d, stride);
            stride *= plan->dims[d];
            if (next >= 0 && !cs__cable_dead(plan->spec, CS__CABLE_TORUS, 0, node, d)) {
                put(stream, plan, node, d, next);
            }
        }
    }
}

static void put_torus_link(FILE *stream, const struct cs_fabric_plan *plan, int32_t node, int32_t dim,
                           int32_t next)
{
    char id[CS__XML_TEXT_MAX];
    (void)next;
    snprintf(id, sizeof id, "torus%d_%c", (int)node, "xyz"[dim]);
    cs__xml_link(stream, id, cs__fabric_torus_bytes_per_s(plan, dim), plan->spec->hop_latency_s);
}

static void put_torus_route(FILE *stream, const struct cs_fabric_plan *plan, int32_t node, int32_t dim,
                            int32_t next)
{
    char id[CS__XML_TEXT_MAX];
    char peer[CS__XML_TEXT_MAX];
    char link_id[CS__XML_TEXT_MAX + 8];
    char gw[CS__XML_TEXT_MAX + 8];
    char peer_gw[CS__XML_TEXT_MAX + 8];
    (void)plan;
    snprintf(id, sizeof id, "torus%d", (int)node);
    snprintf(peer, sizeof peer, "torus%d", (int)next);
    snprintf(link_id, sizeof link_id, "%s_%c", id, "xyz"[dim]);
    snprintf(gw, sizeof gw, "%s_switch", id);
    snprintf(peer_gw, sizeof peer_gw, "%s_switch", peer);
    cs__xml_zone_route(stream, id, peer, gw, peer_gw, link_id);
}

void cs__xml_fabric_links(FILE *stream, const struct cs_fabric_plan *plan)
{
    const struct cs_topology_spec *spec = plan->spec;
    char id[CS__XML_TEXT_MAX];
    if (spec->topology != CS_TOPOLOGY_TORUS) {
        return;
    }
    each_torus_cable(stream, plan, put_torus_link);
    for (int32_t d = 0; d < plan->n_devices; d++) {
        snprintf(id, sizeof id, "nic%d_link", (int)d);
        cs__xml_link(stream, id, spec->inter_bytes_per_s, spec->inter_latency_s / 2.0);
    }
}

/* Devices first .. end - 1, NICs themselves, and the router of their node. */
static void put_joined_node(FILE *stream, const struct cs_fabric_plan *plan,
                            const struct cs__device_text *text, int32_t node)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t first = node * spec->devices_per_node;
    int32_t end = first + spec->devices_per_node;
    fprintf(stream, "      <zone id=\"torus%d\" routing=\"Full\">\n", (int)node);
    cs__xml_devices(stream, plan, text, first, end);
    fprintf(stream, "      <router id=\"torus%d_switch\"/>\n", (int)node);
    for (int32_t d = first; d < end; d++) {
        for (int32_t peer = d + 1; peer < end; peer++) {
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
                "      <route src=\"npu%d\" dst=\"torus%d_switch\"><link_ctn id=\"nic%d_link\" "
                "direction=\"UP\"/></route>\n",
                (int)d, (int)node, (int)d);
    }
    fputs("      </zone>\n", stream);
}

/* The NIC hosts of a node in a star around its router. */
static void put_nic_node(FILE *stream, const struct cs_fabric_plan *plan, int32_t node)
{
    int32_t first = node * plan->spec->devices_per_node;
    int32_t end = first + plan->spec->devices_per_node;
    fprintf(stream, "      <zone id=\"torus%d\" routing=\"Cluster\">\n", (int)node);
    for (int32_t d = first; d < end; d++) {
        fprintf(stream, "        <host id=\"nic%d\" speed=\"1Gf\"/>\n", (int)d);
    }
    for (int32_t d = first; d < end; d++) {
        fprintf(stream, "        <host_link id=\"nic%d\" up=\"nic%d_link_UP\" down=\"nic%d_link_DOWN\"/>\n",
                (int)d, (int)d, (int)d);
    }
    fprintf(stream, "        <router id=\"torus%d_switch\"/>\n      </zone>\n", (int)node);
}

void cs__xml_torus(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text)
{
    const struct cs_topology_spec *spec = plan->spec;
    fprintf(stream, "    <zone id=\"fabric\" routing=\"%s\">\n",
            spec->n_nodes <= FLOYD_NODES_MAX ? "Floyd" : "DijkstraCache");
    for (int32_t node = 0; node < spec->n_nodes; node++) {
        if (cs__fabric_joined(plan)) {
            put_joined_node(stream, plan, text, node);
        } else {
            put_nic_node(stream, plan, node);
        }
    }
    each_torus_cable(stream, plan, put_torus_route);
    fputs("    </zone>\n", stream);
}
