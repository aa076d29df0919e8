/* The blocks of a stage: prologue, forward and backward of one micro-batch, epilogue. */
#include "stage_priv.h"

/* Vector arithmetic of AdamW per parameter: two moments, bias corrections, root, quotient, decay. */
#define OPTIMIZER_FLOP 12.0
#define NORM_FLOP 2.0
#define READY_BYTES 1

static int64_t gradient_elt(const struct cs_stage *stage)
{
    return cs_dtype_bytes(stage->builder->training->gradient_dtype);
}

/** Bytes of a gradient on its way. */
static int64_t reduced_elt(const struct cs_stage *stage)
{
    return cs_dtype_bytes(cs__reduced_dtype(stage->builder->training));
}

static int64_t weight_elt(const struct cs_stage *stage)
{
    return cs_dtype_bytes(cs__storage_dtype(stage->builder->training));
}

static void emit_event(const struct cs_stage *stage, struct cs_oplist *list, enum cs_op_type type,
                       enum cs_lane lane, enum cs_event event)
{
    cs__emit_event(stage->builder, list, type, lane, event);
}

void cs__stage_prologue(const struct cs_stage *stage, struct cs_oplist *list, const int32_t *order)
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
    for (int32_t c = 0; c < stage->n_chunks; c++) {
        const struct cs_chunk *chunk = &stage->chunks[order[c]];
        for (int32_t i = chunk->n_buckets - 1; i >= 0; i--) {
            cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_OP, CS_COLL_ALL_GATHER,
                                CS_PHASE_OPTIMIZER, "weights",
                                chunk->buckets[i].n_shard * spread.op * weight_elt(stage));
            cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_EOP, CS_COLL_ALL_GATHER,
                                CS_PHASE_OPTIMIZER, "expert weights",
                                chunk->buckets[i].n_expert_shard * spread.expert_op * weight_elt(stage));
            emit_event(stage, list, CS_OP_RECORD, CS_LANE_DP, CS_EVENT_WEIGHTS_DONE);
        }
    }
}

/** Bytes of an item's weights when gathered: those of experts, or the others. */
static int64_t gathered_bytes(const struct cs_chunk *chunk, int32_t item, bool experts)
{
    const struct cs_builder *builder = chunk->stage->builder;
    int64_t op = cs__builder_group_size(builder, experts ? CS_GROUP_EOP : CS_GROUP_OP);
    int64_t n = experts ? cs__chunk_plan(chunk, 0, item)->params.n_expert : cs__chunk_params(chunk, item);
    return experts && op == 1 ? 0 : (n + op - 1) / op * op * weight_elt(chunk->stage);
}

/** ZeRO 3: ask for the weights of an item; there is room for them from now on. */
static void emit_gather(const struct cs_chunk *chunk, struct cs_oplist *list, int32_t item,
                        enum cs_phase phase)
{
    const struct cs_stage *stage = chunk->stage;
    struct cs_builder *builder = stage->builder;
    int64_t bytes = gathered_bytes(chunk, item, false);
    int64_t expert_bytes = gathered_bytes(chunk, item, true);
    cs__oplist_alloc(list, CS_MEM_BUFFERS, bytes + expert_bytes, cs__builder_label(builder, "weights"));
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_GATHER_READY);
    emit_event(stage, list, CS_OP_WAIT, CS_LANE_GATHER, CS_EVENT_GATHER_READY);
    cs__emit_collective(builder, list, CS_LANE_GATHER, CS_GROUP_GATHER, CS_COLL_ALL_GATHER, phase, "weights",
                        bytes);
    cs__emit_collective(builder, list, CS_LANE_GATHER, CS_GROUP_EGATHER, CS_COLL_ALL_GATHER, phase,
                        "expert weights", expert_bytes);
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_GATHER, CS_EVENT_GATHER_DONE);
}

static void drop_gathered(const struct cs_chunk *chunk, struct cs_oplist *list, int32_t item)
{
    cs__oplist_free_mem(list, CS_MEM_BUFFERS,
                        gathered_bytes(chunk, item, false) + gathered_bytes(chunk, item, true),
                        cs__builder_label(chunk->stage->builder, "weights"));
}

int64_t cs__message_parts(const struct cs_builder *builder)
{
    const struct cs_strategy *s = &builder->strategy;
    return builder->training->scatter_messages && !s->sp ? s->mp : 1;
}

bool cs__stage_serial(const struct cs_stage *stage)
{
    const struct cs_training *training = stage->builder->training;
    return training->serial_messages && training->blocking_sends && stage->n_chunks == 1 &&
           stage->builder->strategy.schedule == CS_SCHED_1F1B;
}

static struct cs_channel ready_for(struct cs_channel message)
{
    message.ready = true;
    return message;
}

/** Hand on the output, or the gradient of the input. */
static void emit_send(const struct cs_chunk *chunk, struct cs_oplist *list, bool backward, int64_t bytes)
{
    const struct cs_stage *stage = chunk->stage;
    enum cs_lane lane = backward ? CS_LANE_PP_BACKWARD : CS_LANE_PP_FORWARD;
    enum cs_event event = backward ? CS_EVENT_SEND_BACKWARD : CS_EVENT_SEND_FORWARD;
    if (!chunk->sends[backward]) {
        return;
    }
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, event);
    emit_event(stage, list, CS_OP_WAIT, lane, event);
    int64_t parts = cs__message_parts(stage->builder);
    enum cs_phase phase = backward ? CS_PHASE_BACKWARD : CS_PHASE_FORWARD;
    if (cs__stage_serial(stage)) {
        cs__emit_message(stage->builder, list, CS_OP_RECV, ready_for(chunk->to[backward]), phase,
                         READY_BYTES);
    }
    cs__emit_message(stage->builder, list, CS_OP_SEND, chunk->to[backward], phase,
                     (bytes + parts - 1) / parts);
    if (stage->builder->training->blocking_sends) {
        enum cs_event sent = backward ? CS_EVENT_SENT_BACKWARD : CS_EVENT_SENT_FORWARD;
        emit_event(stage, list, CS_OP_RECORD, lane, sent);
        emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, sent);
    }
}

static void emit_receive(const struct cs_chunk *chunk, struct cs_oplist *list, bool backward, int64_t bytes)
{
    struct cs_builder *builder = chunk->stage->builder;
    enum cs_phase phase = backward ? CS_PHASE_BACKWARD : CS_PHASE_FORWARD;
    int64_t parts = cs__message_parts(builder);
    if (!chunk->receives[backward]) {
        return;
    }
    if (cs__stage_serial(chunk->stage)) {
        enum cs_event event = backward ? CS_EVENT_READY_BACKWARD : CS_EVENT_READY_FORWARD;
        emit_event(chunk->stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, event);
        emit_event(chunk->stage, list, CS_OP_WAIT, backward ? CS_LANE_PP_FORWARD : CS_LANE_PP_BACKWARD,
                   event);
        cs__emit_message(builder, list, CS_OP_SEND, ready_for(chunk->from[backward]), phase, READY_BYTES);
    }
    cs__emit_message(builder, list, CS_OP_RECV, chunk->from[backward], phase, (bytes + parts - 1) / parts);
    if (parts > 1) {
        cs__emit_collective(builder, list, CS_LANE_COMPUTE, CS_GROUP_TP, CS_COLL_ALL_GATHER, phase,
                            "message parts", (bytes + parts - 1) / parts * parts);
    }
}

/** Bytes that an item's backward pass wants back from the host; 0 = they stay. What is recomputed is not
 *  swapped, nor what it is recomputed from (MindFormers, "Fine-Grained Activations SWAP", with
 *  recomputation): the input of a layer that runs again stays. */
static int64_t swapped_bytes(const struct cs_chunk *chunk, int32_t part, int32_t item)
{
    bool swaps = chunk->stage->builder->strategy.swap_activations && item >= 0 && item < chunk->n_items &&
                 cs__chunk_layer(chunk, item) >= 0;
    const struct cs_plan *plan = swaps ? cs__chunk_plan(chunk, part, item) : NULL;
    return plan != NULL && !plan->runs_again ? plan->saved_bytes : 0;
}

/** A transfer on the host's lane behind what the compute stream has done so far. */
static void emit_swap(const struct cs_stage *stage, struct cs_oplist *list, const char *label,
                      enum cs_phase phase, int64_t bytes)
{
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_HOST_READY);
    emit_event(stage, list, CS_OP_WAIT, CS_LANE_HOST, CS_EVENT_HOST_READY);
    cs__emit_host(stage->builder, list, CS_LANE_HOST, phase, label, bytes);
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_HOST, CS_EVENT_HOST_DONE);
}

/** What the item before kept is on the host by now: its memory is free. Then the item's own goes. */
static void swap_out(const struct cs_chunk *chunk, struct cs_oplist *list, int32_t part, int32_t item)
{
    const struct cs_stage *stage = chunk->stage;
    int64_t before = swapped_bytes(chunk, part, item - 1);
    int64_t own = swapped_bytes(chunk, part, item);
    if (before > 0) {
        emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_HOST_DONE);
        cs__oplist_free_mem(list, CS_MEM_ACTIVATIONS, before, cs__builder_label(stage->builder, "swap.out"));
    }
    if (own > 0) {
        emit_swap(stage, list, "swap.out", CS_PHASE_FORWARD, own);
    }
}

/** Room for what an item kept, and its way back. */
static void swap_in(const struct cs_chunk *chunk, struct cs_oplist *list, int32_t part, int32_t item)
{
    int64_t bytes = swapped_bytes(chunk, part, item);
    if (bytes > 0) {
        cs__oplist_alloc(list, CS_MEM_ACTIVATIONS, bytes,
                         cs__builder_label(chunk->stage->builder, "swap.in"));
        emit_swap(chunk->stage, list, "swap.in", CS_PHASE_BACKWARD, bytes);
    }
}

void cs__chunk_forward(const struct cs_chunk *chunk, struct cs_oplist *list, const struct cs_pass_kind *pass)
{
    const struct cs_stage *stage = chunk->stage;
    struct cs_spread spread = cs__spread(stage->builder);
    if (pass->gathers) {
        emit_gather(chunk, list, 0, CS_PHASE_FORWARD);
    }
    emit_receive(chunk, list, false, cs__chunk_plan(chunk, pass->part, 0)->in_bytes);
    if (pass->owes) {
        emit_send(chunk, list, true, cs__chunk_plan(chunk, pass->part, 0)->in_bytes);
    }
    for (int32_t item = 0; item < chunk->n_items; item++) {
        if (pass->gathers) {
            if (item + 1 < chunk->n_items) {
                emit_gather(chunk, list, item + 1, CS_PHASE_FORWARD);
            }
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_GATHER_DONE);
        } else if (spread.sharded && pass->first && chunk->buckets[chunk->bucket_of[item]].first == item) {
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_WEIGHTS_DONE);
        }
        cs__oplist_append(list, &cs__chunk_plan(chunk, pass->part, item)->forward,
                          cs__chunk_layer(chunk, item));
        if (pass->drops) {
            drop_gathered(chunk, list, item);
        }
        swap_out(chunk, list, pass->part, item);
    }
    swap_out(chunk, list, pass->part, chunk->n_items);
    emit_send(chunk, list, false, cs__chunk_plan(chunk, pass->part, chunk->n_items - 1)->out_bytes);
}

/** The same for the experts of a bucket, whose copies are on other ranks. */
static void emit_expert_reduction(const struct cs_stage *stage, struct cs_oplist *list,
                                  const struct cs_bucket *bucket, const struct cs_spread *spread, bool last)
{
    int64_t shard_bytes = bucket->n_expert_shard * reduced_elt(stage);
    if (spread->expert_op > 1) {
        cs__emit_collective(stage->builder, list, CS_LANE_DP, CS_GROUP_EOP, CS_COLL_REDUCE_SCATTER,
                            CS_PHASE_GRADIENT, "expert gradients", shard_bytes * spread->expert_op);
    }
    if (last) {
        cs__emit_collective(stage->builder, list, CS_LANE_DP,
                            spread->expert_op > 1 ? CS_GROUP_EDPX : CS_GROUP_EDP, CS_COLL_ALL_REDUCE,
                            CS_PHASE_GRADIENT, "expert gradients", shard_bytes);
    }
}

/** Gradients of a bucket are complete: reduce them over the copies, while backward goes on. */
static void emit_reduction(const struct cs_chunk *chunk, struct cs_oplist *list, int32_t index, bool last)
{
    const struct cs_stage *stage = chunk->stage;
    struct cs_builder *builder = stage->builder;
    struct cs_spread spread = cs__spread(builder);
    const struct cs_bucket *bucket = &chunk->buckets[index];
    if (!spread.reduces || (!last && !spread.scatter_always)) {
        return;
    }
    emit_event(stage, list, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_GRADIENT_READY);
    emit_event(stage, list, CS_OP_WAIT, CS_LANE_DP, CS_EVENT_GRADIENT_READY);
    int64_t shard_bytes = bucket->n_shard * reduced_elt(stage);
    if (spread.sharded) {
        const bool whole = builder->training->widened_gradients && !spread.scatter_always;
        cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_OP,
                            whole ? CS_COLL_ALL_REDUCE : CS_COLL_REDUCE_SCATTER, CS_PHASE_GRADIENT,
                            "gradients", shard_bytes * spread.op);
        if (last) {
            cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_DPX, CS_COLL_ALL_REDUCE,
                                CS_PHASE_GRADIENT, "gradient shards", shard_bytes);
        }
    } else {
        cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_DP, CS_COLL_ALL_REDUCE, CS_PHASE_GRADIENT,
                            "gradients", bucket->n_params * reduced_elt(stage));
    }
    emit_expert_reduction(stage, list, bucket, &spread, last);
    if (spread.scatter_always) {
        emit_event(stage, list, CS_OP_RECORD, CS_LANE_DP, CS_EVENT_GRADIENT_DONE);
    } else if (index == chunk->n_buckets - 1) {
        emit_event(stage, list, CS_OP_RECORD, CS_LANE_DP, CS_EVENT_REDUCED);
    }
}

int32_t cs__chunk_outstanding(const struct cs_chunk *chunk)
{
    return chunk->n_buckets < 2 ? chunk->n_buckets : 2;
}

/** Wait until `n` more buckets have been scattered, so that their buffers can be filled again. */
static void wait_for_buffers(const struct cs_stage *stage, struct cs_oplist *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_GRADIENT_DONE);
    }
}

void cs__chunk_backward(const struct cs_chunk *chunk, struct cs_oplist *list, const struct cs_pass_kind *pass)
{
    const struct cs_stage *stage = chunk->stage;
    struct cs_spread spread = cs__spread(stage->builder);
    const bool inputs = pass->kind != CS_SLOT_WEIGHT;
    const bool weights = pass->kind != CS_SLOT_INPUT;
    int32_t top = chunk->n_items - 1;
    if (pass->gathers) {
        emit_gather(chunk, list, top, CS_PHASE_BACKWARD);
    }
    if (inputs) {
        emit_receive(chunk, list, true, cs__chunk_plan(chunk, pass->part, top)->out_bytes);
    }
    if (spread.scatter_always && weights) {
        wait_for_buffers(stage, list, pass->outstanding);
    }
    if (inputs) {
        swap_in(chunk, list, pass->part, top);
    }
    for (int32_t item = top; item >= 0; item--) {
        const struct cs_bucket *bucket = &chunk->buckets[chunk->bucket_of[item]];
        const struct cs_plan *plan = cs__chunk_plan(chunk, pass->part, item);
        if (pass->gathers) {
            if (item > 0) {
                emit_gather(chunk, list, item - 1, CS_PHASE_BACKWARD);
            }
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_GATHER_DONE);
        }
        if (weights && spread.scatter_always && chunk->bucket_of[item] >= 2 && bucket->last == item) {
            wait_for_buffers(stage, list, 1);
        }
        if (inputs && swapped_bytes(chunk, pass->part, item) > 0) {
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_HOST_DONE);
        }
        if (inputs) {
            swap_in(chunk, list, pass->part, item - 1); /* one ahead */
        }
        cs__oplist_append(list,
                          !weights  ? &plan->input
                          : !inputs ? &plan->weight
                                    : &plan->backward,
                          cs__chunk_layer(chunk, item));
        if (pass->drops) {
            drop_gathered(chunk, list, item);
        }
        if (weights && bucket->first == item) {
            emit_reduction(chunk, list, chunk->bucket_of[item], pass->last);
        }
    }
    if (inputs && !pass->defers) {
        emit_send(chunk, list, true, cs__chunk_plan(chunk, pass->part, 0)->in_bytes);
    }
}

/** Gradients of what tensor-parallel ranks or pipeline ends hold copies of, and under DualPipe of everything:
 *  the two stages of a pair hold the same two places. */
static void emit_copies(const struct cs_stage *stage, struct cs_oplist *list, const struct cs_spread *spread)
{
    struct cs_builder *builder = stage->builder;
    const int64_t share = spread->scatter_always ? spread->op : 1;
    const struct {
        enum cs_group group;
        int64_t n, share;
        const char *label;
    } copies[] = {{CS_GROUP_TP, stage->n_partial, share, "norm gradients"},
                  {CS_GROUP_TP_COPIES, stage->n_copies, share, "key-value gradients"},
                  {CS_GROUP_MIRROR, stage->n_shard + stage->n_expert_shard, 1, "mirrored gradients"},
                  {CS_GROUP_EMBEDDING, stage->n_tied, share, "vocabulary gradients"}};
    for (int32_t i = 0; i < CS_COUNT(copies); i++) {
        cs__emit_collective(builder, list, CS_LANE_COMPUTE, copies[i].group, CS_COLL_ALL_REDUCE,
                            CS_PHASE_GRADIENT, copies[i].label,
                            (copies[i].n + copies[i].share - 1) / copies[i].share * reduced_elt(stage));
    }
}

/** All buckets are reduced. */
static void wait_for_gradients(const struct cs_stage *stage, struct cs_oplist *list,
                               const struct cs_spread *spread, int32_t outstanding)
{
    if (spread->scatter_always) {
        wait_for_buffers(stage, list, outstanding);
    } else if (spread->reduces) {
        for (int32_t c = 0; c < stage->n_chunks; c++) {
            emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_REDUCED);
        }
    }
}

/** Muon needs whole matrices: shards of the momentum are gathered in the weights' type, then each rank of an
 *  optimizer group orthogonalises its share of them (Liu et al., arXiv 2502.16982, section 2.3). */
static void emit_newton(const struct cs_stage *stage, struct cs_oplist *list, const struct cs_spread *spread)
{
    struct cs_builder *builder = stage->builder;
    cs__emit_collective(builder, list, CS_LANE_DP, CS_GROUP_OP, CS_COLL_ALL_GATHER, CS_PHASE_OPTIMIZER,
                        "momentum", (stage->n_shard - stage->n_plain_shard) * spread->op * weight_elt(stage));
    if (spread->sharded) {
        emit_event(stage, list, CS_OP_RECORD, CS_LANE_DP, CS_EVENT_REDUCED);
        emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_REDUCED);
    }
    cs__emit_compute(builder, list, CS_PHASE_OPTIMIZER, "optimizer.newton_schulz",
                     (struct cs_op_cost){.kind = CS_OPKIND_MATMUL,
                                         .dtype = cs__storage_dtype(builder->training),
                                         .flop = stage->newton_flop / (double)spread->op,
                                         .batch = 1,
                                         .n_kernels = 1});
}

static void emit_optimizer(const struct cs_stage *stage, struct cs_oplist *list,
                           const struct cs_spread *spread, double n)
{
    struct cs_builder *builder = stage->builder;
    const struct cs_training *training = builder->training;
    if (training->optimizer == CS_OPT_MUON) {
        emit_newton(stage, list, spread);
    }
    const int64_t states = cs__optimizer_bytes(training, (int64_t)n, stage->n_plain_shard);
    if (builder->strategy.offload_optimizer && states > 0) {
        /* In and out at once: the link has two directions. */
        emit_swap(stage, list, "optimizer.swap", CS_PHASE_OPTIMIZER, states);
        emit_event(stage, list, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_HOST_DONE);
    }
    /* Gradient and states are read, states and weight written. */
    double bytes = n * (double)(gradient_elt(stage) + weight_elt(stage)) + 2 * (double)states;
    if (training->dtype == CS_DTYPE_FP32) {
        bytes += n * (double)weight_elt(stage); /* the weight is its own master copy: read as well */
    }
    if (training->optimizer_traffic_bytes > 0) {
        bytes = n * training->optimizer_traffic_bytes;
    }
    cs__emit_compute(builder, list, CS_PHASE_OPTIMIZER, "optimizer",
                     (struct cs_op_cost){.kind = CS_OPKIND_OPTIMIZER,
                                         .dtype = CS_DTYPE_FP32,
                                         .flop = OPTIMIZER_FLOP * n,
                                         .bytes = bytes,
                                         .batch = 1,
                                         .n_kernels = 1});
}

void cs__stage_epilogue(const struct cs_stage *stage, struct cs_oplist *list, int32_t outstanding)
{
    struct cs_builder *builder = stage->builder;
    struct cs_spread spread = cs__spread(builder);
    const struct cs_training *training = builder->training;
    wait_for_gradients(stage, list, &spread, outstanding);
    emit_copies(stage, list, &spread);
    double n = (double)(stage->n_shard + stage->n_expert_shard);
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
    emit_optimizer(stage, list, &spread, n);
    cs__oplist_free_mem(list, CS_MEM_BUFFERS, stage->buffer_bytes,
                        cs__builder_label(builder, "communication buffers"));
}
