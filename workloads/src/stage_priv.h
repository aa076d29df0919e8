/**
 * @file stage_priv.h
 * A pipeline stage under construction: its segments, gradient buckets, model state and blocks.
 */
#ifndef CS_WORKLOADS_STAGE_PRIV_H
#define CS_WORKLOADS_STAGE_PRIV_H

#include "plan_priv.h"

/** Consecutive items whose gradients are reduced together. */
struct cs_bucket {
    int32_t first, last; /* items; backward completes `last` first and `first` last */
    int64_t n_params;
    int64_t n_shard; /* of one rank of the optimizer group, rounded up */
};

struct cs_stage {
    struct cs_builder *builder;
    const struct cs_plan *plans; /* one per segment of the graph */
    int32_t stage;
    bool is_first, is_last;
    int32_t first_pos; /* in the graph's chain */
    int32_t n_items;
    int32_t n_buckets;
    struct cs_bucket *buckets;   /* in backward order: buckets[0] is complete first */
    int32_t *bucket_of;          /* per item */
    int64_t n_params, n_shard;   /* sums over buckets */
    int64_t n_partial, n_copies; /* parameters whose gradients are summed over tensor-parallel ranks */
    int64_t n_tied;              /* vocabulary matrix shared by first and last stage */
    int64_t weight_bytes, gradient_bytes, optimizer_bytes;
    int64_t buffer_bytes; /* communication buffers held all step */
};

/** How gradients and weights are spread over copies: what the blocks depend on. */
struct cs_spread {
    int64_t op;          /* ranks of an optimizer group */
    int64_t dpx;         /* groups of them (x cp) */
    bool sharded;        /* op > 1 */
    bool scatter_always; /* zero >= 2: gradients are scattered in every micro-batch */
    bool gather_always;  /* zero 3: weights are gathered for every pass of a layer */
    bool reduces;        /* there are copies at all */
};
struct cs_spread cs__spread(const struct cs_builder *builder);

/** Bytes of optimizer state per parameter: fp32 master copy (unless weights are fp32) and moments. */
int64_t cs__optimizer_bytes(const struct cs_training *training);
/** Items, buckets and state of a stage; arrays in the trace's arena. */
void cs__stage_init(struct cs_stage *stage, struct cs_builder *builder, const struct cs_plan *plans,
                    int32_t index);
const struct cs_plan *cs__stage_plan(const struct cs_stage *stage, int32_t item);
/** Layer number of an item, -1 for embedding and head. */
int32_t cs__stage_layer(const struct cs_stage *stage, int32_t item);
/** Parameters of an item on this stage. */
int64_t cs__stage_params(const struct cs_stage *stage, int32_t item);

/* The blocks of a stage, as operations. */
void cs__stage_prologue(struct cs_stage *stage, struct cs_oplist *list);
void cs__stage_forward(struct cs_stage *stage, struct cs_oplist *list, bool first);
void cs__stage_backward(struct cs_stage *stage, struct cs_oplist *list, bool first, bool last);
void cs__stage_epilogue(struct cs_stage *stage, struct cs_oplist *list);

#endif
