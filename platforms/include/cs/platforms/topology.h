/**
 * @file topology.h
 * From a short description to SimGrid XML.
 */
#ifndef CS_PLATFORMS_TOPOLOGY_H
#define CS_PLATFORMS_TOPOLOGY_H

#include "cs/platforms/platform.h"

#include <stdio.h>

enum cs_topology {
    CS_TOPOLOGY_FAT_TREE, /* leaf_ports NICs a leaf; a spine over up to 2 leaf_ports leaves; else 3 levels */
    CS_TOPOLOGY_RAIL,  /* NIC i of leaf_ports nodes on rail switch i; rail switches under spines as above */
    CS_TOPOLOGY_TORUS, /* nodes in a 2D or 3D torus; a node's NICs share its links, 1/(2 dimensions) each */
    CS_TOPOLOGY_DRAGONFLY, /* routers of a group all-to-all, groups all-to-all */
    CS_TOPOLOGY_SUPERNODE, /* one scale-up domain of at most 384 modules of 2 devices, one switch level */
    CS_N_TOPOLOGIES
};
extern const char *const cs_topology_names[]; /* "fat-tree", "rail", ...; NULL-terminated */

/** The servers of a second type in a mixed cluster. */
struct cs_topology_part {
    const char *chip;
    int32_t n_nodes; /* 0: there is no second type */
    int32_t devices_per_node;
    bool intra_switched;
    double intra_bytes_per_s;
    double intra_bus_bytes_per_s; /* as below */
    double intra_latency_s;
    double inter_bytes_per_s;
    bool inter_half_duplex; /* as below */
    int32_t nic_devices;    /* likewise */
};

/** A cluster in a few words. Rates are bytes/s of one direction of one device. */
struct cs_topology_spec {
    const char *name; /* shown in reports; written to the file */
    const char *chip; /* catalogue name */
    int32_t n_nodes;
    int32_t devices_per_node;
    bool intra_switched;          /* full mesh of pair links otherwise */
    double intra_bytes_per_s;     /* out of one device over all its links; a mesh pair link has 1/(n-1) */
    double intra_bus_bytes_per_s; /* > 0: one bus that all traffic inside a (switched) node crosses, both
                                     directions together (PCIe host bridge); 0 = none */
    double intra_latency_s;       /* device to device inside a node */
    enum cs_topology topology;
    double inter_bytes_per_s; /* one NIC */
    bool inter_half_duplex;   /* what a NIC sends and what it receives share that rate */
    int32_t nic_devices; /* neighbours in a node that share a network adapter, of which inter_bytes_per_s is
                            one's part: see CS_ALGO_RINGS. 0 and 1 = none shares */
    double inter_latency_s;       /* NIC to NIC across one switch */
    double hop_latency_s;         /* added by each further switch-to-switch hop */
    double oversubscription_frac; /* @unit ratio >= 1: sum of a leaf's down links over its up links */
    int32_t leaf_ports;           /* down ports of a leaf switch (fat tree) */
    int32_t levels;               /* fat tree: 0 = as needed, 2 or 3 */
    int32_t dims[3]; /* torus: nodes per dimension, 0 = chosen; dragonfly: groups, routers, nodes */
    /** Fat tree and rail: further nodes of another type, after the first ones and on leaves of their own. */
    struct cs_topology_part second;
    /** Cables that are out, both directions, named as in the file ("hccs0-3", "torus5_x", "group0_local1-2",
     *  "global0-1"; a direction "_UP" at the end is ignored). Where there is another path it is taken: over a
     *  third device of the mesh, the other way round the torus, over a third router or group. Borrowed. */
    int32_t n_dead_links;
    const char *const *dead_links;
};

/** Largest cluster that is written: what SimGrid loads in seconds and 2 GB. */
#define CS_TOPOLOGY_DEVICES_MAX 131072

/** Defaults for a server type: n_nodes = 8, fat tree, 1:1, its chip and figures. */
void cs_topology_spec_init(struct cs_topology_spec *spec, const struct cs_server *server);
/** The servers of a second type: `n_nodes` of a server type. */
struct cs_topology_part cs_topology_part_of(const struct cs_server *server, int32_t n_nodes);
/** Change the topology, and what depends on it: a supernode's "NICs" are ports of the scale-up fabric, so
 * they get the intra-node rate, and the inside of a node becomes switched. Rates set afterwards win. */
void cs_topology_spec_use(struct cs_topology_spec *spec, enum cs_topology topology);
/** CS_E_INPUT at `loc` when a figure that a user gives ("oversubscription", "levels" or "dims") would have no
 * effect in this topology, with what it needs. */
CS_MUST_CHECK cs_status cs_topology_check_given(enum cs_topology topology, const char *key, struct cs_loc loc,
                                                struct cs_err *err);
/** Devices and nodes of all parts. */
int32_t cs_topology_n_devices(const struct cs_topology_spec *spec);
int32_t cs_topology_n_nodes(const struct cs_topology_spec *spec);
/** Can this description be built? CS_E_INPUT at `loc` says what is wrong and what would be right; CS_E_LIMIT
 *  above CS_TOPOLOGY_DEVICES_MAX. Checks everything but the chip's name. A dead link without which there is
 * no path is CS_E_INPUT that names ranks which lose each other. */
CS_MUST_CHECK cs_status cs_topology_check(const struct cs_topology_spec *spec, struct cs_loc loc,
                                          struct cs_err *err);
/** Check and write the XML. CS_E_INPUT (at `loc`) for a description that makes no cluster. Every link's
 *  bandwidth and latency follow from the spec alone, so that equal specs give equal bytes. */
CS_MUST_CHECK cs_status cs_topology_write(const struct cs_topology_spec *spec,
                                          const struct cs_catalogue *catalogue, FILE *stream,
                                          struct cs_loc loc, struct cs_err *err);
/** The description that a file of cs_topology_write carries in its properties, so that one like it can be
 * made. Texts live in the platform. CS_E_INPUT at `loc` for a file that carries none (hand-written, mixed,
 * dead links) or is not, byte for byte, what its description gives (edited, or from another catalogue). */
CS_MUST_CHECK cs_status cs_topology_read(struct cs_topology_spec *spec, const struct cs_platform *platform,
                                         const struct cs_catalogue *catalogue, struct cs_loc loc,
                                         struct cs_err *err);
/** The links of a switch ("leaf3", "spine", "pod1_spine", "core", "torus5", "group0_router2", "scaleup"), by
 * name, in the arena. CS_E_INPUT at `loc` for one that the description does not have. Precondition:
 * cs_topology_check passes. */
CS_MUST_CHECK cs_status cs_topology_switch_links(const struct cs_topology_spec *spec, const char *name,
                                                 struct cs_arena *arena, const char *const **links,
                                                 int32_t *n, struct cs_loc loc, struct cs_err *err);
typedef void (*cs_detour_fn)(void *context, const char *text);
/** Where the traffic of dead links goes instead, in words, one call each: in a torus how many pairs of nodes
 * have a longer way (once for all of its links), then over which third device, router or group. No call
 * without dead links. Precondition: cs_topology_check passes. */
void cs_topology_detours(const struct cs_topology_spec *spec, cs_detour_fn add, void *context);
/** What the description promises for the route between two devices (closed form, for tests and closed-form
 *  models): latency in seconds and bandwidth of the narrowest link in bytes/s.
 *
 *  The model of every fabric: a NIC has one link to its switch; switches are joined by links that carry
 *  everything between them, as if traffic were spread perfectly over the cables (adaptive routing); the route
 *  is a shortest one. Latency = inter_latency_s + hop_latency_s for each link between switches.
 *  Switch links, in NIC rates r, D devices a node: fat tree and rail up link of a leaf with n NICs n r /
 *  oversubscription, of a pod the sum of its leaves; torus D r / (2 dimensions) (twice that in a dimension of
 *  2 nodes, whose two directions meet); dragonfly local 2 p r / (a - 1), global a p r / ((g - 1)
 *  oversubscription) for p NICs a router, a routers a group, g groups (balanced a = 2p, Kim et al., ISCA
 * 2008). Precondition: cs_topology_check passes, devices differ (0 and infinite bandwidth otherwise); a torus
 * has no dead links (which of several shortest detours is taken is the router's choice). */
void cs_topology_route(const struct cs_topology_spec *spec, int32_t dev_a, int32_t dev_b, double *latency_s,
                       double *bytes_per_s);

#endif
