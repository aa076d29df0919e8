/* A torus as SimGrid XML: a zone a node with a router, cables between the routers.
 *
 * So many zones are written for the time SimGrid takes to load them, as at the end of topology_xml_fabric.c:
 * links in the root zone, devices of small nodes their own NICs. A large switched node would need a route for
 * each pair of its devices instead of a star, and makes few zones: there the NICs are hosts of their own. */
#include "topology_xml_priv.h"

/* Floyd is cubic in the zone's nodes; above, Dijkstra with a cache finds routes when they are asked for. */
#define FLOYD_NODES_MAX 512

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

void cs__xml_torus_links(FILE *stream, const struct cs_fabric_plan *plan)
{
    each_torus_cable(stream, plan, put_torus_link);
}

void cs__xml_torus(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text)
{
    const struct cs_topology_spec *spec = plan->spec;
    fprintf(stream, "    <zone id=\"fabric\" routing=\"%s\">\n",
            spec->n_nodes <= FLOYD_NODES_MAX ? "Floyd" : "DijkstraCache");
    int32_t n = spec->devices_per_node;
    for (int32_t node = 0; node < spec->n_nodes; node++) {
        char id[CS__XML_TEXT_MAX];
        snprintf(id, sizeof id, "torus%d", (int)node);
        if (cs__fabric_joined(plan)) {
            cs__xml_joined_switch(stream, plan, text, id, node * n, n);
        } else {
            cs__xml_nic_switch(stream, plan, id, node * n, n, 1);
        }
    }
    each_torus_cable(stream, plan, put_torus_route);
    fputs("    </zone>\n", stream);
}
