/**
 * @file stage_priv.h
 * A pipeline stage under construction: its chunks, their gradient buckets, model state and blocks.
 */
#ifndef CS_WORKLOADS_STAGE_PRIV_H
#define CS_WORKLOADS_STAGE_PRIV_H

#include "plan_priv.h"

/** The plans of every kind of segment: for each part of a micro-batch and each way to recompute. */
struct cs_plan_set {
    int32_t n_segments;
    int32_t n_parts;
    struct cs_plan *plans; /* [part][segment][recompute]; only those asked for are built */
};
/** Build the plans that a strategy uses. */
void cs__plans_init(struct cs_plan_set *set, struct cs_builder *builder);
const struct cs_plan *cs__plan_of(const struct cs_plan_set *set, int32_t part, int32_t segment,
                                  enum cs_recompute recompute);
void cs__plans_release(struct cs_plan_set *set);

/** Consecutive items whose gradients are reduced together. */
struct cs_bucket {
    int32_t first, last; /* items; backward completes `last` first and `first` last */
    int64_t n_params;
    int64_t n_shard;                  /* of one rank of the optimizer group, rounded up */
    int64_t n_plain, n_plain_shard;   /* of n_params, those that are no hidden matrices */
    int64_t n_expert, n_expert_shard; /* parameters of experts, whose copies are other ranks */
};

struct cs_stage;
/** The items of one place: a piece of the model without a gap. */
struct cs_chunk {
    const struct cs_stage *stage;
    int32_t index;
    int32_t place;
    bool is_first, is_last;           /* in the model */
    bool receives[2], sends[2];       /* [backward]: from or to another stage */
    struct cs_channel from[2], to[2]; /* ... on these channels */
    int32_t first_pos;                /* in the graph's chain */
    int32_t n_items;
    int32_t n_buckets;
    struct cs_bucket *buckets; /* in backward order: buckets[0] is complete first */
    int32_t *bucket_of;        /* per item */
};

struct cs_stage {
    struct cs_builder *builder;
    const struct cs_plan_set *plans;
    int32_t stage;
    int32_t n_chunks;
    struct cs_chunk *chunks;
    bool has_embedding;        /* some chunk is the first of the model */
    int64_t n_params, n_shard; /* sums over buckets */
    int64_t n_plain_shard;
    int64_t n_expert, n_expert_shard;
    int64_t n_partial, n_copies; /* parameters whose gradients are summed over tensor-parallel ranks */
    int64_t n_tied;              /* vocabulary matrix shared by first and last stage */
    double newton_flop;          /* of one Muon step over the stage's matrices */
    int64_t weight_bytes, gradient_bytes, optimizer_bytes;
    int64_t buffer_bytes; /* communication buffers held all step */
};

/** How gradients and weights are spread over copies: what the blocks depend on. */
struct cs_spread {
    int64_t op;          /* ranks of an optimizer group */
    int64_t dpx;         /* groups of them (x cp) */
    int64_t expert_op;   /* ranks that share out the optimizer states of experts */
    bool sharded;        /* op > 1 */
    bool scatter_always; /* zero >= 2: gradients are scattered in every micro-batch */
    bool gather_always;  /* zero 3: weights are gathered for every pass of a layer ... */
    bool keep_weights;   /* ... or for a forward pass, and held until no micro-batch is in flight */
    bool reduces;        /* there are copies at all */
};
struct cs_spread cs__spread(const struct cs_builder *builder);

/** Parts that a message between stages is sent in, one by each tensor-parallel rank: 1 = all of it by each.
 */
int64_t cs__message_parts(const struct cs_builder *builder);

/** Bytes of optimizer states of `n` parameters, of which `n_plain` are no hidden matrices: fp32 master copy
 * (unless weights are fp32) and moments in fp32, two for AdamW, one for SGD and for Muon, which leaves gains,
 * biases and tables of tokens, positions and classes to AdamW (Jordan et al., 2024; Liu et al., arXiv
 * 2502.16982, section 2.2). */
int64_t cs__optimizer_bytes(const struct cs_training *training, int64_t n, int64_t n_plain);
/** Chunks, items, buckets and state of a stage; arrays in the trace's arena. */
void cs__stage_init(struct cs_stage *stage, struct cs_builder *builder, const struct cs_plan_set *plans,
                    int32_t index);
const struct cs_plan *cs__chunk_plan(const struct cs_chunk *chunk, int32_t part, int32_t item);
/** Layer number of an item, -1 for embedding and head. */
int32_t cs__chunk_layer(const struct cs_chunk *chunk, int32_t item);
/** Parameters of an item on this stage, those of experts not counted. */
int64_t cs__chunk_params(const struct cs_chunk *chunk, int32_t item);

/** A pass of a chunk: which block it is. */
struct cs_pass_kind {
    enum cs_slot_kind kind;
    int32_t part;
    bool first;          /* forward: gathered weights are waited for */
    bool last;           /* backward, weight gradients: no micro-batch follows */
    bool gathers;        /* zero 3: weights of its items are gathered, ... */
    bool drops;          /* ... and are dropped behind each */
    bool defers;         /* backward: the gradient is left to the forward pass that follows, ... */
    bool owes;           /* ... which sends it when it has its input */
    int32_t outstanding; /* zero >= 2: buckets of the pass before that may still be on their way */
};

/** Do its messages wait for their receivers, outputs before gradients? */
bool cs__stage_serial(const struct cs_stage *stage);

/* The blocks of a stage, as operations. */
/** `order` lists the chunks in the order in which they are used first. */
void cs__stage_prologue(const struct cs_stage *stage, struct cs_oplist *list, const int32_t *order);
void cs__chunk_forward(const struct cs_chunk *chunk, struct cs_oplist *list, const struct cs_pass_kind *pass);
/** Backward of any kind. */
void cs__chunk_backward(const struct cs_chunk *chunk, struct cs_oplist *list,
                        const struct cs_pass_kind *pass);
/** Does it pay that a forward and a backward pass run side by side? Where there is expert communication to
 *  hide. */
bool cs__stage_joins(const struct cs_stage *stage);
/** Append two passes side by side, `first` forward and `second` backward: whenever one gets to its expert
 * communication, it goes on its own lane and the other computes. */
void cs__stage_join(const struct cs_stage *stage, struct cs_oplist *list, const struct cs_oplist *first,
                    const struct cs_oplist *second);
/** Buckets that may be on their way behind a pass of the chunk that completes gradients. */
int32_t cs__chunk_outstanding(const struct cs_chunk *chunk);
/** `outstanding` of the last such pass. */
void cs__stage_epilogue(const struct cs_stage *stage, struct cs_oplist *list, int32_t outstanding);

#endif
