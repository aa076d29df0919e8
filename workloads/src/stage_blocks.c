/* The blocks of a stage: prologue, forward and backward of one micro-batch, epilogue. */
#include "stage_priv.h"

/* Vector arithmetic of AdamW per parameter: two moments, bias corrections, root, quotient, decay. */
#define OPTIMIZER_FLOP 12.0
#define NORM_FLOP 2.0

static int64_t gradient_elt(const struct cs_stage *stage)
{
    return cs_dtype_bytes(stage->builder->training->gradient_dtype);
}

static int64_t weight_elt(const struct cs_stage *stage)
{
    return cs_dtype_bytes(stage->builder->training->dtype);
}

static void emit_event(struct cs_stage *stage, struct cs_oplist *list, enum cs_op_type type,
                       enum cs_lane lane, enum cs_event event)
{
    cs__emit_event(stage->builder, list, type, lane, event);
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

void cs__stage_prologue(struct cs_stage *stage, struct cs_oplist *list)
{
    struct cs_builder *builder = stage->builder;
    struct cs_spread spread = cs__spread(builder);
    int32_t label = cs__builder_label(builder, "model state");
    cs__oplist_alloc(list, CS_MEM_WEIGHTS, stage->weight_bytes, label);
    cs__oplist_alloc(list, CS_MEM_GRADIENTS, stage->gradient_bytes, label);
    cs__oplist_alloc(list, CS_MEM_OPTIMIZER, stage->optimizer_bytes, label);
    cs__oplist_alloc(list, CS_MEM_BUFFERS, stage->buffer_bytes,
                     cs__builder_label(builder, "communication buffers"));
    if (!spread.sharded || spread.gather_always) {
        return;
    }
    /* The weights that the last step updated in shards are gathered, first used first. */
    for (int32_t i = stage->n_buckets - 1; i >= 0; i--) {
        cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_OP, CS_COLL_ALL_GATHER, CS_PHASE_OPTIMIZER,
                            "weights", stage->buckets[i].n_shard * spread.op * weight_elt(stage));
        emit_event(stage, list, CS_OP_RECORD, CS_LANE_DP, CS_EVENT_WEIGHTS_DONE);
    }
}

static int64_t gathered_bytes(const struct cs_stage *stage, int32_t item, int64_t op)
{
    int64_t shard = (cs__stage_params(stage, item) + op - 1) / op;
    return shard * op * weight_elt(stage);
}

/** ZeRO 3: ask for the weights of an item; there is room for them from now on. */
static void emit_gather(struct cs_stage *stage, struct cs_oplist *list, int32_t item, enum cs_phase phase)
{
    struct cs_builder *builder = stage->builder;
    int64_t bytes = gathered_bytes(stage, item, cs__builder_group_size(builder, CS_GROUP_OP));
    cs__oplist_alloc(list, CS_MEM_BUFFERS, bytes, cs__builder_label(builder, "weights"));
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_GATHER_READY);
    emit_event(stage, list, CS_OP_WAIT, CS_LANE_GATHER, CS_EVENT_GATHER_READY);
    cs__emit_collective(builder, list, CS_LANE_GATHER, CS_GROUP_GATHER, CS_COLL_ALL_GATHER, phase, "weights",
                        bytes);
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_GATHER, CS_EVENT_GATHER_DONE);
}

static void drop_gathered(struct cs_stage *stage, struct cs_oplist *list, int32_t item)
{
    int64_t op = cs__builder_group_size(stage->builder, CS_GROUP_OP);
    cs__oplist_free_mem(list, CS_MEM_BUFFERS, gathered_bytes(stage, item, op),
                        cs__builder_label(stage->builder, "weights"));
}

static void emit_send(struct cs_stage *stage, struct cs_oplist *list, enum cs_channel channel,
                      enum cs_phase phase, int64_t bytes)
{
    bool forward = channel == CS_CHANNEL_FORWARD;
    enum cs_lane lane = forward ? CS_LANE_PP_FORWARD : CS_LANE_PP_BACKWARD;
    enum cs_event event = forward ? CS_EVENT_SEND_FORWARD : CS_EVENT_SEND_BACKWARD;
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, event);
    emit_event(stage, list, CS_OP_WAIT, lane, event);
    cs__emit_message(stage->builder, list, CS_OP_SEND, channel, phase, bytes);
}

void cs__stage_forward(struct cs_stage *stage, struct cs_oplist *list, bool first)
{
    struct cs_builder *builder = stage->builder;
    struct cs_spread spread = cs__spread(builder);
    if (spread.gather_always) {
        emit_gather(stage, list, 0, CS_PHASE_FORWARD);
    }
    if (!stage->is_first) {
        cs__emit_message(builder, list, CS_OP_RECV, CS_CHANNEL_FORWARD, CS_PHASE_FORWARD,
                         cs__stage_plan(stage, 0)->in_bytes);
    }
    for (int32_t item = 0; item < stage->n_items; item++) {
        if (spread.gather_always) {
            if (item + 1 < stage->n_items) {
                emit_gather(stage, list, item + 1, CS_PHASE_FORWARD);
            }
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_GATHER_DONE);
        } else if (spread.sharded && first && stage->buckets[stage->bucket_of[item]].first == item) {
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_WEIGHTS_DONE);
        }
        cs__oplist_append(list, &cs__stage_plan(stage, item)->forward, cs__stage_layer(stage, item));
        if (spread.gather_always) {
            drop_gathered(stage, list, item);
        }
    }
    if (!stage->is_last) {
        emit_send(stage, list, CS_CHANNEL_FORWARD, CS_PHASE_FORWARD,
                  cs__stage_plan(stage, stage->n_items - 1)->out_bytes);
    }
}

/** Gradients of a bucket are complete: reduce them over the copies, while backward goes on. */
static void emit_reduction(struct cs_stage *stage, struct cs_oplist *list, int32_t index, bool last)
{
    struct cs_builder *builder = stage->builder;
    struct cs_spread spread = cs__spread(builder);
    const struct cs_bucket *bucket = &stage->buckets[index];
    if (!spread.reduces || (!last && !spread.scatter_always)) {
        return;
    }
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_GRADIENT_READY);
    emit_event(stage, list, CS_OP_WAIT, CS_LANE_DP, CS_EVENT_GRADIENT_READY);
    int64_t shard_bytes = bucket->n_shard * gradient_elt(stage);
    if (spread.sharded) {
        cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_OP, CS_COLL_REDUCE_SCATTER, CS_PHASE_GRADIENT,
                            "gradients", shard_bytes * spread.op);
        if (last) {
            cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_DPX, CS_COLL_ALL_REDUCE,
                                CS_PHASE_GRADIENT, "gradient shards", shard_bytes);
        }
    } else {
        cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_DP, CS_COLL_ALL_REDUCE, CS_PHASE_GRADIENT,
                            "gradients", bucket->n_params * gradient_elt(stage));
    }
    if (spread.scatter_always) {
        emit_event(stage, list, CS_OP_RECORD, CS_LANE_DP, CS_EVENT_GRADIENT_DONE);
    } else if (index == stage->n_buckets - 1) {
        emit_event(stage, list, CS_OP_RECORD, CS_LANE_DP, CS_EVENT_REDUCED);
    }
}

/** Wait until `n` more buckets have been scattered, so that their buffers can be filled again. */
static void wait_for_buffers(struct cs_stage *stage, struct cs_oplist *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_GRADIENT_DONE);
    }
}

void cs__stage_backward(struct cs_stage *stage, struct cs_oplist *list, bool first, bool last)
{
    struct cs_builder *builder = stage->builder;
    struct cs_spread spread = cs__spread(builder);
    int32_t top = stage->n_items - 1;
    if (spread.gather_always) {
        emit_gather(stage, list, top, CS_PHASE_BACKWARD);
    }
    if (!stage->is_last) {
        cs__emit_message(builder, list, CS_OP_RECV, CS_CHANNEL_BACKWARD, CS_PHASE_BACKWARD,
                         cs__stage_plan(stage, top)->out_bytes);
    }
    if (spread.scatter_always && !first) {
        wait_for_buffers(stage, list, least(2, stage->n_buckets));
    }
    for (int32_t item = top; item >= 0; item--) {
        const struct cs_bucket *bucket = &stage->buckets[stage->bucket_of[item]];
        if (spread.gather_always) {
            if (item > 0) {
                emit_gather(stage, list, item - 1, CS_PHASE_BACKWARD);
            }
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_GATHER_DONE);
        }
        if (spread.scatter_always && stage->bucket_of[item] >= 2 && bucket->last == item) {
            wait_for_buffers(stage, list, 1);
        }
        cs__oplist_append(list, &cs__stage_plan(stage, item)->backward, cs__stage_layer(stage, item));
        if (spread.gather_always) {
            drop_gathered(stage, list, item);
        }
        if (bucket->first == item) {
            emit_reduction(stage, list, stage->bucket_of[item], last);
        }
    }
    if (!stage->is_first) {
        emit_send(stage, list, CS_CHANNEL_BACKWARD, CS_PHASE_BACKWARD, cs__stage_plan(stage, 0)->in_bytes);
    }
}

/** Gradients of what tensor-parallel ranks or pipeline ends hold copies of. */
static void emit_copies(struct cs_stage *stage, struct cs_oplist *list, const struct cs_spread *spread)
{
    struct cs_builder *builder = stage->builder;
    const int64_t share = spread->scatter_always ? spread->op : 1;
    const struct {
        enum cs_group group;
        int64_t n;
        const char *label;
    } copies[] = {{CS_GROUP_TP, stage->n_partial, "norm gradients"},
                  {CS_GROUP_TP_COPIES, stage->n_copies, "key-value gradients"},
                  {CS_GROUP_EMBEDDING, stage->n_tied, "vocabulary gradients"}};
    for (int32_t i = 0; i < CS_COUNT(copies); i++) {
        cs__emit_collective(builder, list, CS_LANE_COMPUTE, copies[i].group, CS_COLL_ALL_REDUCE,
                            CS_PHASE_GRADIENT, copies[i].label,
                            (copies[i].n + share - 1) / share * gradient_elt(stage));
    }
}

void cs__stage_epilogue(struct cs_stage *stage, struct cs_oplist *list)
{
    struct cs_builder *builder = stage->builder;
    struct cs_spread spread = cs__spread(builder);
    const struct cs_training *training = builder->training;
    if (spread.scatter_always) {
        wait_for_buffers(stage, list, least(2, stage->n_buckets));
    } else if (spread.reduces) {
        emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_REDUCED);
    }
    emit_copies(stage, list, &spread);
    double n = (double)stage->n_shard;
    if (training->clip_gradient) {
        cs__emit_compute(builder, list, CS_PHASE_OPTIMIZER, "gradient.norm",
                         (struct cs_op_cost){.kind = CS_OPKIND_ELEMENTWISE,
                                             .dtype = training->gradient_dtype,
                                             .flop = NORM_FLOP * n,
                                             .bytes = n * (double)gradient_elt(stage),
                                             .batch = 1,
                                             .n_kernels = 1});
        cs__emit_collective(builder, list, CS_LANE_COMPUTE, CS_GROUP_NORM, CS_COLL_ALL_REDUCE,
                            CS_PHASE_OPTIMIZER, "gradient.norm", cs_dtype_bytes(CS_DTYPE_FP32));
    }
    /* Gradient and states are read, states and weight written. */
    double bytes = (double)(gradient_elt(stage) + 2 * cs__optimizer_bytes(training) + weight_elt(stage));
    if (training->dtype == CS_DTYPE_FP32) {
        bytes += (double)weight_elt(stage); /* the weight is its own master copy: read as well */
    }
    cs__emit_compute(builder, list, CS_PHASE_OPTIMIZER, "optimizer",
                     (struct cs_op_cost){.kind = CS_OPKIND_OPTIMIZER,
                                         .dtype = CS_DTYPE_FP32,
                                         .flop = OPTIMIZER_FLOP * n,
                                         .bytes = n * bytes,
                                         .batch = 1,
                                         .n_kernels = 1});
    cs__oplist_free_mem(list, CS_MEM_BUFFERS, stage->buffer_bytes,
                        cs__builder_label(builder, "communication buffers"));
}
