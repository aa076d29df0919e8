/**
 * @file stage_cost.h
 * What the generator would write for a strategy, without writing it: the operations of one segment
 * (embedding, layer, head) under a parallel configuration, the buckets, model state and last operations of
 * every pipeline stage, and the ranks that a stage's collectives run among.
 *
 * All three come from the code that makes traces, so that a closed form built on them cannot drift away from
 * what is simulated. The parts depend on few keys of a strategy each, which is what makes them worth keeping:
 * segments on (mp, cp, sp, micro_batch, recompute), stages on (mp, cp, sp, pp, op, zero, dp), groups on
 * (dp, mp, cp, pp, op, placement).
 */
#ifndef CS_WORKLOADS_STAGE_COST_H
#define CS_WORKLOADS_STAGE_COST_H

#include "cs/workloads/trace.h"

/** Groups of ranks that collectives run in. The same kinds as in traces. */
enum cs_cost_group {
    CS_COST_TP,        /* tensor parallel */
    CS_COST_TP_COPIES, /* tensor-parallel ranks that hold the same key-value head */
    CS_COST_CP,
    CS_COST_DP,        /* all copies of a parameter */
    CS_COST_OP,        /* ranks that share out one set of optimizer states; weights are gathered in it too */
    CS_COST_DPX,       /* ranks that hold the same shard */
    CS_COST_NORM,      /* everything that the gradient norm sums over: all stages take part */
    CS_COST_EMBEDDING, /* first and last stage, when they share the vocabulary matrix */
    CS_N_COST_GROUPS
};

/** One operation that occupies the compute stream, or a collective beside one. */
struct cs_cost_op {
    bool is_collective;
    enum cs_phase phase;
    struct cs_op_cost cost;   /* of a compute operation */
    enum cs_cost_group group; /* of a collective, with what follows */
    enum cs_coll coll;
    int64_t bytes; /* as enum cs_coll says */
    bool beside;   /* of covered strategies: it runs under the next operation, a product, and both have to
                      end before the one after */
};

/** What running a list of operations does to the memory of a rank. */
struct cs_cost_memory {
    int64_t net_bytes;  /* held when it is over, less what was held before */
    int64_t high_bytes; /* most held while it runs, over what was held before; >= 0 */
};

struct cs_cost_ops {
    int32_t n;
    struct cs_cost_op *ops;
    struct cs_cost_memory memory;
};

/** A kind of segment under a parallel configuration. */
struct cs_segment_cost {
    const char *name;
    bool is_layer;
    struct cs_cost_ops forward, backward; /* backward begins with what is recomputed */
    int64_t in_bytes, out_bytes;          /* boundary tensors, one rank's part */
};

/** Segments of a model; `n_chain` of them in a row make it (embedding, layers, head). */
struct cs_segments_cost {
    struct cs_arena arena;
    int32_t n_segments;
    struct cs_segment_cost *segments;
    int32_t n_chain;
    int32_t *chain; /* per position its segment */
};

/** Consecutive items of a stage whose gradients are reduced together. */
struct cs_bucket_cost {
    int32_t first, last; /* items; backward completes `last` first and `first` last */
    int64_t n_params;
    int64_t n_shard; /* of one rank of the optimizer group, rounded up */
};

/** One pipeline stage: items are positions of the chain. */
struct cs_stage_cost {
    int32_t first_pos; /* of its first item in the chain */
    int32_t n_items;
    int64_t *item_params; /* per item */
    int32_t n_buckets;
    struct cs_bucket_cost *buckets; /* buckets[0] is complete first */
    int32_t *bucket_of;             /* per item */
    int64_t model_state_bytes;      /* weights, gradients, optimizer states */
    int64_t buffer_bytes;           /* communication buffers held all step */
    struct cs_cost_ops epilogue;    /* after the last backward, without its memory */
};

/** All stages of a strategy, and how its gradients and weights are spread over copies. */
struct cs_stages_cost {
    struct cs_arena arena;
    int32_t n_stages;
    struct cs_stage_cost *stages;
    int64_t op;            /* ranks of an optimizer group */
    int64_t dpx;           /* groups of them, context parallel ranks included */
    bool sharded;          /* op > 1: weights are gathered at the start of a step unless gather_always */
    bool scatter_always;   /* zero >= 2: gradients are scattered in every micro-batch */
    bool gather_always;    /* zero 3: weights are gathered for every pass of an item ... */
    bool keep_weights;     /* ... or only forward, and held until no micro-batch is in flight */
    bool reduces;          /* there are copies at all */
    int64_t message_parts; /* above 1: of a message between stages each tensor-parallel rank sends such a
                              part, and the receivers gather them */
    int64_t weight_elt_bytes, gradient_elt_bytes;
};

/** Do the parts below say all there is to a strategy? They do for dp, mp, sp, pp, op, zero and uniform
 *  recomputation under GPipe and 1F1B of a model without experts; a closed form has to leave other strategies
 *  to the simulation: of those, operations in groups of other kinds are left out below, and collectives on
 *  the tensor-parallel lane do not run under what follows them. */
bool cs_stage_cost_covers(const struct cs_model *model, const struct cs_strategy *strategy);

/** Derive the segments of a strategy that cs_strategy_check accepts. The caller releases. Cost O(operators).
 */
void cs_segments_cost_build(struct cs_segments_cost *out, const struct cs_model *model,
                            const struct cs_training *training, const struct cs_strategy *strategy);
/** Safe on a zeroed struct and twice. */
void cs_segments_cost_release(struct cs_segments_cost *segments);

/** Derive the stages; as above. Cost O(operators + layers + ranks). */
void cs_stages_cost_build(struct cs_stages_cost *out, const struct cs_model *model,
                          const struct cs_training *training, const struct cs_strategy *strategy);
/** Safe on a zeroed struct and twice. */
void cs_stages_cost_release(struct cs_stages_cost *stages);

/** Ranks of one group, in ring order. */
struct cs_members {
    int32_t n; /* 0: the rank is in no such group */
    const int32_t *ranks;
};

/** Groups of one rank of every stage, the one whose other coordinates are 0; those ranks are each other's
 *  neighbours in the pipeline. */
struct cs_groups_cost {
    struct cs_arena arena;
    int32_t n_stages;
    int32_t *rank;                                  /* per stage */
    struct cs_members (*members)[CS_N_COST_GROUPS]; /* per stage and kind */
};
/** Cost O(ranks). The caller releases. */
void cs_groups_cost_build(struct cs_groups_cost *out, const struct cs_model *model,
                          const struct cs_training *training, const struct cs_strategy *strategy);
/** Safe on a zeroed struct and twice. */
void cs_groups_cost_release(struct cs_groups_cost *groups);

#endif
