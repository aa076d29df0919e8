/**
 * @file system_priv.h
 * The simulated system: ranks, links and flows sorted into classes of things that behave alike.
 *
 * Folding rests on one fact. Colour ranks by what they run on and execute, links by their figures, and
 * refine: a rank's colour by the colours of the groups it is in and of the flows that leave and reach it, a
 * flow's by its ends and the links of its route, a link's by the flows that cross it (colour refinement;
 * Paige, Tarjan, SIAM J. Comput. 16(6), 1987). When nothing changes any more, all members of a class see the
 * same programs, partners and loads at all times, and the max-min share of a flow depends on its class only,
 * because all links of a class fill at the same moment. One rank and one link per class then stand for all:
 * the quotient. A link that n flows of a class cross has them n times on the quotient's route. A straggler,
 * a slow link or an uneven topology starts with another colour and so unfolds exactly what it touches.
 */
#ifndef CS_ENGINE_SYSTEM_PRIV_H
#define CS_ENGINE_SYSTEM_PRIV_H

#include "cs/engine/engine.h"

/** A flow of a collective's algorithm or of a channel, between two ranks; bytes are relative. */
struct cs__flow_site {
    int32_t src, dst; /* ranks */
    uint64_t key;     /* what it belongs to: communicator or channel, collective, algorithm, phase, share */
    const int32_t *links;
    int32_t n_links;
    int32_t owner; /* index into cs__system.streams_of: communicators, then channels */
    bool cross;    /* crosses nodes */
    int32_t flow_class;
};

/** Flows of one (collective, algorithm) in one group. */
struct cs__pattern_site {
    int32_t comm, group;
    enum cs_coll coll;
    enum cs_algorithm algorithm;
    int64_t first_flow;
};

struct cs__flow_class {
    int64_t rep; /* a flow site */
    int64_t count;
    int32_t src_class, dst_class;
    bool cross;
    double latency_s;
    double cap_bytes_per_s; /* narrowest link */
    int64_t first_use;      /* into cs__system.uses */
    int32_t n_uses;
    int32_t sim_pair; /* pair of simulated hosts that carries it, -1 = never simulated */
};

/** A flow class crosses the representative of a link class `count` times. */
struct cs__use {
    int32_t link_class;
    int32_t count;
};

struct cs__link_class {
    int32_t rep; /* link number */
    int32_t size;
    bool quiet;   /* only one stream of one rank class can ever have traffic on it */
    double bytes; /* carried over one representative link, filled by the replay */
};

/** A collective as the trace asks for it. */
struct cs__shape {
    int32_t comm;
    enum cs_coll coll;
    int64_t bytes;
};

/** A shape bound to a class of groups. */
struct cs__binding {
    int32_t group_class;
    enum cs_algorithm algorithm;
    struct cs_coll_plan plan; /* of the representative group */
    int32_t *flow_class;      /* one per flow of the plan, phases one after the other */
    bool quiet;  /* all its links are, and flows that share one have one latency: closed form is exact */
    bool cross;  /* some phase crosses nodes */
    bool inside; /* some phase does not */
    double overhead_s;
    double closed_s;                  /* without overhead */
    double closed_cross_s;            /* of that, in phases that cross nodes */
    double group_bytes[CS_N_FABRICS]; /* one group */
};

struct cs__comm_class {
    int32_t n_group_classes;
    int32_t *class_of_group;
    int32_t *rep_group;
    int32_t *n_groups;
    int32_t *n_members; /* distinct rank classes among the members: actors that meet */
};

struct cs__system {
    struct cs_arena arena;
    const struct cs_trace *trace;
    const struct cs_platform *platform;
    struct cs_routes *routes;
    const struct cs_run_options *options;

    int32_t n_classes;
    int32_t *class_of_rank;
    int32_t *class_rep;
    int32_t *class_size;
    double *slowdown;         /* per rank, >= 1 */
    double *link_bytes_per_s; /* per link, faults applied */

    int64_t n_flows, cap_flows;
    struct cs__flow_site *flows;
    int64_t n_patterns, cap_patterns;
    struct cs__pattern_site *patterns;
    int32_t *owner_stream; /* per communicator, then per channel: executing stream, -1 none, -2 several */

    int32_t n_flow_classes;
    struct cs__flow_class *flow_classes;
    int64_t n_uses;
    struct cs__use *uses;
    int32_t n_link_classes;
    struct cs__link_class *link_classes;
    int32_t *class_of_link;

    struct cs__comm_class *comms;
    int32_t **chan_flow_class; /* [channel][rank class]: of what this class sends, -1 */

    int32_t n_shapes, cap_shapes;
    struct cs__shape *shapes;
    struct cs__binding **bindings; /* [shape][group class] */
    int32_t n_rounds;              /* of refinement, for the explanation */
};

/** Sort into classes and bind every collective. With `discrete` every rank is its own class. */
CS_MUST_CHECK cs_status cs__system_build(struct cs__system *system, const struct cs_trace *trace,
                                         struct cs_routes *routes, const struct cs_run_options *options,
                                         bool discrete, struct cs_err *err);
void cs__system_release(struct cs__system *system);

/** Parts of cs__system_build. */
CS_MUST_CHECK cs_status cs__system_collect_flows(struct cs__system *system, struct cs_err *err);
void cs__system_refine(struct cs__system *system, bool discrete);
CS_MUST_CHECK cs_status cs__system_bind(struct cs__system *system, struct cs_err *err);

/** Shape number of a collective; it must occur in the trace. */
int32_t cs__system_shape(const struct cs__system *system, int32_t comm, enum cs_coll coll, int64_t bytes);
/** The binding that a rank class meets in a shape. */
struct cs__binding *cs__system_binding(const struct cs__system *system, int32_t shape, int32_t rank_class);

/** Of a collective's time, its fixed cost included, what its phases that cross nodes take: all, none, or in a
 *  hierarchical one a part. */
double cs__binding_cross_s(const struct cs__binding *binding);

/** What was folded, and where classes are smaller than the program alone would allow; text in `out`. */
void cs__system_explain(const struct cs__system *system, struct cs_strbuf *out);

#endif
