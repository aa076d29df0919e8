/* The closed form of a route: what a description promises. */
#include "topology_priv.h"

#include <math.h>
#include <stdlib.h>

/* A route under construction. */
struct route {
    double latency_s;
    double bytes_per_s;
};

static void hop(struct route *route, double latency_s, double bytes_per_s)
{
    route->latency_s += latency_s;
    route->bytes_per_s = bytes_per_s < route->bytes_per_s ? bytes_per_s : route->bytes_per_s;
}

static void tree_route(const struct cs_fabric_plan *plan, int32_t a, int32_t b, struct route *route)
{
    int32_t leaf_a = cs__fabric_leaf(plan, a);
    int32_t leaf_b = cs__fabric_leaf(plan, b);
    if (leaf_a == leaf_b) {
        return;
    }
    double hop_s = plan->spec->hop_latency_s;
    hop(route, hop_s, cs__fabric_leaf_up_bytes_per_s(plan, leaf_a));
    int32_t pod_a = cs__fabric_pod(plan, leaf_a);
    int32_t pod_b = cs__fabric_pod(plan, leaf_b);
    if (pod_a != pod_b) {
        hop(route, hop_s, cs__fabric_pod_up_bytes_per_s(plan, pod_a));
        hop(route, hop_s, cs__fabric_pod_up_bytes_per_s(plan, pod_b));
    }
    hop(route, hop_s, cs__fabric_leaf_up_bytes_per_s(plan, leaf_b));
}

static void torus_route(const struct cs_fabric_plan *plan, int32_t node_a, int32_t node_b,
                        struct route *route)
{
    for (int32_t d = 0; d < 3; d++) {
        int32_t size = plan->dims[d];
        int32_t forward = (node_b % size - node_a % size + size) % size;
        int32_t hops = forward < size - forward ? forward : size - forward;
        if (hops > 0) {
            hop(route, hops * plan->spec->hop_latency_s, cs__fabric_torus_bytes_per_s(plan, d));
        }
        node_a /= size;
        node_b /= size;
    }
}

/* Routers of one group, over a third one when their cable is dead. */
static void local_hop(const struct cs_fabric_plan *plan, int32_t group, int32_t a, int32_t b,
                      struct route *route)
{
    int32_t low = a < b ? a : b;
    int32_t high = a < b ? b : a;
    if (a != b) {
        bool dead = cs__cable_dead(plan->spec, CS__CABLE_LOCAL, group, low, high);
        hop(route, plan->spec->hop_latency_s * (dead ? 2.0 : 1.0), cs__fabric_local_bytes_per_s(plan));
    }
}

static void dragonfly_route(const struct cs_fabric_plan *plan, int32_t node_a, int32_t node_b,
                            struct route *route)
{
    double hop_s = plan->spec->hop_latency_s;
    int32_t router_a = node_a / plan->n_router_nodes;
    int32_t router_b = node_b / plan->n_router_nodes;
    int32_t group_a = router_a / plan->n_routers;
    int32_t group_b = router_b / plan->n_routers;
    router_a %= plan->n_routers;
    router_b %= plan->n_routers;
    if (group_a == group_b) {
        local_hop(plan, group_a, router_a, router_b, route);
        return;
    }
    int32_t low = group_a < group_b ? group_a : group_b;
    int32_t high = group_a < group_b ? group_b : group_a;
    int32_t to = group_b; /* the group that group_a's cable leads to */
    int32_t from = group_a;
    if (cs__cable_dead(plan->spec, CS__CABLE_GLOBAL, 0, low, high)) {
        int32_t third = cs__cable_detour(plan, CS__CABLE_GLOBAL, 0, low, high);
        to = from = third;
        hop(route, hop_s, cs__fabric_global_bytes_per_s(plan));
        local_hop(plan, third, cs__fabric_gateway(plan, third, group_a),
                  cs__fabric_gateway(plan, third, group_b), route);
    }
    local_hop(plan, group_a, router_a, cs__fabric_gateway(plan, group_a, to), route);
    hop(route, hop_s, cs__fabric_global_bytes_per_s(plan));
    local_hop(plan, group_b, router_b, cs__fabric_gateway(plan, group_b, from), route);
}

/* Devices of one node. */
static void intra_route(const struct cs_fabric_plan *plan, int32_t dev_a, int32_t dev_b, struct route *route)
{
    const struct cs_topology_part *part = &plan->parts[cs__fabric_part(plan, dev_a)];
    int32_t low = dev_a < dev_b ? dev_a : dev_b;
    int32_t high = dev_a < dev_b ? dev_b : dev_a;
    bool dead = !part->intra_switched && cs__cable_dead(plan->spec, CS__CABLE_MESH, 0, low, high);
    double share = part->intra_switched ? 1.0 : part->devices_per_node - 1;
    hop(route, part->intra_latency_s * (dead ? 2.0 : 1.0), part->intra_bytes_per_s / share);
    if (part->intra_bus_bytes_per_s > 0) {
        hop(route, 0.0, part->intra_bus_bytes_per_s);
    }
}

void cs_topology_route(const struct cs_topology_spec *spec, int32_t dev_a, int32_t dev_b, double *latency_s,
                       double *bytes_per_s)
{
    struct cs_fabric_plan plan;
    cs__fabric_plan(spec, &plan);
    CS_ASSERT(dev_a >= 0 && dev_a < plan.n_devices && dev_b >= 0 && dev_b < plan.n_devices);
    struct route route = {.latency_s = 0.0, .bytes_per_s = INFINITY};
    int32_t node_a = cs__fabric_node(&plan, dev_a);
    int32_t node_b = cs__fabric_node(&plan, dev_b);
    if (dev_a != dev_b && node_a == node_b) {
        intra_route(&plan, dev_a, dev_b, &route);
    } else if (dev_a != dev_b) {
        hop(&route, spec->inter_latency_s, plan.parts[cs__fabric_part(&plan, dev_a)].inter_bytes_per_s);
        hop(&route, 0.0, plan.parts[cs__fabric_part(&plan, dev_b)].inter_bytes_per_s);
        switch (spec->topology) {
        case CS_TOPOLOGY_FAT_TREE:
        case CS_TOPOLOGY_RAIL:
            tree_route(&plan, dev_a, dev_b, &route);
            break;
        case CS_TOPOLOGY_TORUS:
            torus_route(&plan, node_a, node_b, &route);
            break;
        case CS_TOPOLOGY_DRAGONFLY:
            dragonfly_route(&plan, node_a, node_b, &route);
            break;
        case CS_TOPOLOGY_SUPERNODE:
        case CS_N_TOPOLOGIES:
        default:
            break;
        }
    }
    *latency_s = route.latency_s;
    *bytes_per_s = route.bytes_per_s;
}
