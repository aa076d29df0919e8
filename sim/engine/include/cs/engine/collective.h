/**
 * @file collective.h
 * Collective algorithms: from (kind, bytes, members) to who sends how much to whom, in which order.
 *
 * A plan is a list of phases; a phase is a set of flows that run side by side, repeated for a number of
 * rounds. Phases follow each other. The three views of DESIGN §4 read the same plan: step simulates every
 * round, flow simulates one round that carries all rounds' bytes after the latency of the others, closed
 * form is the sum over phases of rounds x (latency + load of the slowest link / its bandwidth).
 *
 * Sources: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005 (ring, recursive halving and doubling, binomial
 * tree, pairwise exchange); Bruck et al., IEEE TPDS 8(11), 1997; HCCL's full mesh sends to all members of a
 * node at once, its hierarchical forms run inside nodes and then between equal positions of the nodes.
 */
#ifndef CS_ENGINE_COLLECTIVE_H
#define CS_ENGINE_COLLECTIVE_H

#include "cs/engine/routes.h"
#include "cs/workloads/trace.h"

enum cs_algorithm {
    CS_ALGO_AUTO,
    CS_ALGO_RING,
    CS_ALGO_MESH,
    CS_ALGO_HALVING_DOUBLING,
    CS_ALGO_TREE,
    CS_ALGO_PAIRWISE,
    CS_ALGO_BRUCK,
    CS_ALGO_HIERARCHICAL,    /* mesh inside nodes, ring between them */
    CS_ALGO_HIERARCHICAL_HD, /* mesh inside nodes, halving-doubling between them */
    CS_ALGO_RINGS, /* through all members, half as many (rounded down) as a node has: ring i enters a node by
                      its member i and leaves it by another, as NCCL's do where none of its members share an
                      adapter */
    CS_N_ALGOS
};
extern const char *const cs_algorithm_names[]; /* "auto", "ring", "mesh", ...; NULL-terminated */

/** Why an algorithm never does a kind of collective, whatever the group; NULL when it can for some group. */
const char *cs_coll_never(enum cs_coll coll, enum cs_algorithm algorithm);

struct cs_flow {
    int32_t src, dst; /* positions in the member list */
    double bytes;     /* of one round */
};
struct cs_coll_phase {
    int32_t n_rounds;
    int32_t n_flows;
    struct cs_flow *flows;
    double max_flow_bytes;
};
/** In the arena it was built in. `n_phases` = 0: nothing to send (one member or no bytes). */
struct cs_coll_plan {
    enum cs_algorithm algorithm; /* what auto became */
    int32_t n_phases;
    struct cs_coll_phase *phases;
};

/** Can this algorithm do this collective for these members? NULL when it can, else why not (static text). */
const char *cs_coll_refuses(enum cs_coll coll, enum cs_algorithm algorithm,
                            const struct cs_platform *platform, const int32_t *members, int32_t n_members);
/** Build the plan. `bytes` as enum cs_coll says. `auto` picks what HCCL would by topology and size: mesh
 *  inside a full-mesh node, ring inside a switched one, between nodes halving-doubling for small and ring
 *  for large messages, hierarchical when several members share a node. Where devices share network adapters
 *  (cs_device.adapter) but no two of the group's do, `rings`: NCCL 2.10 (src/graph/search.cc) takes an
 *  adapter for the one end of a ring and another for the other, with both directions. Precondition: the
 *  algorithm does not refuse. Cost O(flows). */
void cs_coll_plan_build(enum cs_coll coll, enum cs_algorithm algorithm, const struct cs_platform *platform,
                        const int32_t *members, int32_t n_members, double bytes, struct cs_arena *arena,
                        struct cs_coll_plan *plan);
/** Closed-form time of a plan, nothing else on its links, seconds. A round lasts until the slowest link is
 *  done: its first flow's latency + all its bytes / its bandwidth, and no flow is faster than its own latency
 * + bytes / narrowest link. Phases and rounds follow each other. Routes must be known. */
double cs_coll_closed_form_s(const struct cs_coll_plan *plan, const struct cs_routes *routes,
                             const int32_t *members);
/** Bus bandwidth as nccl-tests and HCCL test define it: bytes x factor / time, with factor 2(n-1)/n for
 *  all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast. */
double cs_coll_bus_bytes_per_s(enum cs_coll coll, double bytes, int32_t n_members, double time_s);

#endif
