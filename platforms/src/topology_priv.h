/* The plan of a fabric: what a description means, in numbers. */
#ifndef CS_PLATFORMS_TOPOLOGY_PRIV_H
#define CS_PLATFORMS_TOPOLOGY_PRIV_H

#include "cs/platforms/topology.h"

/* Everything derived from a description that passed cs_topology_check. */
struct cs_fabric_plan {
    const struct cs_topology_spec *spec;
    int32_t n_devices;
    /* fat tree, rail, supernode */
    int32_t n_levels; /* of switches: 1, 2 or 3 */
    int32_t n_leaves;
    int32_t n_pods; /* 1 below three levels */
    /* torus */
    int32_t n_dims; /* dimensions of more than one node */
    int32_t dims[3];
    /* dragonfly */
    int32_t n_groups, n_routers, n_router_nodes; /* groups, routers a group, nodes a router */
};

void cs__fabric_plan(const struct cs_topology_spec *spec, struct cs_fabric_plan *plan);

/* Fat tree and rail: the leaf of a device's NIC, NICs of a leaf, the pod of a leaf, up link rates. */
int32_t cs__fabric_leaf(const struct cs_fabric_plan *plan, int32_t device);
int32_t cs__fabric_leaf_nics(const struct cs_fabric_plan *plan, int32_t leaf);
int32_t cs__fabric_pod(const struct cs_fabric_plan *plan, int32_t leaf);
double cs__fabric_leaf_up_bytes_per_s(const struct cs_fabric_plan *plan, int32_t leaf);
double cs__fabric_pod_up_bytes_per_s(const struct cs_fabric_plan *plan, int32_t pod);

/* Torus: rate of the link to the next node of a dimension. */
double cs__fabric_torus_bytes_per_s(const struct cs_fabric_plan *plan, int32_t dim);

/* Dragonfly: rates, and the router of `group` that holds the link to group `peer`. */
double cs__fabric_local_bytes_per_s(const struct cs_fabric_plan *plan);
double cs__fabric_global_bytes_per_s(const struct cs_fabric_plan *plan);
int32_t cs__fabric_gateway(const struct cs_fabric_plan *plan, int32_t group, int32_t peer);

#endif
