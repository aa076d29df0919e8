/* The plan of a fabric: what a description means, in numbers. */
#ifndef CS_PLATFORMS_TOPOLOGY_PRIV_H
#define CS_PLATFORMS_TOPOLOGY_PRIV_H

#include "cs/platforms/topology.h"

/* Everything derived from a description that passed cs_topology_check. */
struct cs_fabric_plan {
    const struct cs_topology_spec *spec;
    int32_t n_devices;
    /* server types: one, or two in a mixed cluster; the second's first device, node and leaf */
    int32_t n_parts;
    struct cs_topology_part parts[2];
    int32_t first_device[2], first_node[2], first_leaf[2];
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

/* Part of a device, of a leaf; node of a device. */
int32_t cs__fabric_part(const struct cs_fabric_plan *plan, int32_t device);
int32_t cs__fabric_leaf_part(const struct cs_fabric_plan *plan, int32_t leaf);
int32_t cs__fabric_node(const struct cs_fabric_plan *plan, int32_t device);

/* Fat tree and rail: the leaf of a device's NIC, NICs of a leaf, the pod of a leaf, up link rates. */
int32_t cs__fabric_leaf(const struct cs_fabric_plan *plan, int32_t device);
int32_t cs__fabric_leaf_nics(const struct cs_fabric_plan *plan, int32_t leaf);
int32_t cs__fabric_pod(const struct cs_fabric_plan *plan, int32_t leaf);
double cs__fabric_leaf_up_bytes_per_s(const struct cs_fabric_plan *plan, int32_t leaf);
double cs__fabric_pod_up_bytes_per_s(const struct cs_fabric_plan *plan, int32_t pod);

/* First NIC of a leaf. */
int32_t cs__fabric_leaf_first(const struct cs_fabric_plan *plan, int32_t leaf);

/* Torus: rate of the link to the next node of a dimension. */
double cs__fabric_torus_bytes_per_s(const struct cs_fabric_plan *plan, int32_t dim);

/* Is every device its own NIC, inside the fabric's zone (small nodes in a torus or under many leaves),
 * instead of having a host for it? */
bool cs__fabric_joined(const struct cs_fabric_plan *plan);
/* Are the links of the NICs called nicN_link, in the root zone, instead of being those of a <cluster>? */
bool cs__fabric_root_links(const struct cs_fabric_plan *plan);

/* Dragonfly: rates, and the router of `group` that holds the link to group `peer`. */
double cs__fabric_local_bytes_per_s(const struct cs_fabric_plan *plan);
double cs__fabric_global_bytes_per_s(const struct cs_fabric_plan *plan);
int32_t cs__fabric_gateway(const struct cs_fabric_plan *plan, int32_t group, int32_t peer);
/* Next node of a torus dimension whose nodes are `stride` apart; -1 when that link is another node's or there
 * is none. */
int32_t cs__fabric_torus_next(const struct cs_fabric_plan *plan, int32_t node, int32_t dim, int32_t stride);

/* What a dead link joins. */
enum cs__cable { CS__CABLE_MESH, CS__CABLE_TORUS, CS__CABLE_LOCAL, CS__CABLE_GLOBAL };

/* Is this cable dead? Mesh: devices a < b; torus: node and dimension; local: routers a < b of group `in`;
 * global: groups a < b. */
bool cs__cable_dead(const struct cs_topology_spec *spec, enum cs__cable cable, int32_t in, int32_t a,
                    int32_t b);
/* Where traffic between a and b goes when their cable is dead: a third device of the node, router of the
 * group or group with a path of two live cables; -1 when there is none. For CS__CABLE_MESH `in` is not used.
 */
int32_t cs__cable_detour(const struct cs_fabric_plan *plan, enum cs__cable cable, int32_t in, int32_t a,
                         int32_t b);
/* Do the dead links of the description exist, and is there a path without them? */
CS_MUST_CHECK cs_status cs__dead_links_check(const struct cs_topology_spec *spec, struct cs_loc loc,
                                             struct cs_err *err);

#endif
