/* The generator's parts for closed forms: see stage_cost.h. */
#include "cs/workloads/stage_cost.h"

#include "stage_priv.h"

static const enum cs_group groups_of_cost[CS_N_COST_GROUPS] = {
    [CS_COST_TP] = CS_GROUP_TP,     [CS_COST_TP_COPIES] = CS_GROUP_TP_COPIES,
    [CS_COST_CP] = CS_GROUP_CP,     [CS_COST_DP] = CS_GROUP_DP,
    [CS_COST_OP] = CS_GROUP_OP,     [CS_COST_DPX] = CS_GROUP_DPX,
    [CS_COST_NORM] = CS_GROUP_NORM, [CS_COST_EMBEDDING] = CS_GROUP_EMBEDDING,
};

/** Builder and plans of a strategy, as cs_trace_build has them. */
struct workshop {
    struct cs_builder builder;
    struct cs_plan_set plans;
};

bool cs_stage_cost_covers(const struct cs_model *model, const struct cs_strategy *strategy)
{
    struct cs_strategy s = *strategy;
    cs_strategy_canonicalise(&s);
    bool plain = s.schedule == CS_SCHED_1F1B || s.schedule == CS_SCHED_GPIPE;
    return plain && s.cp == 1 && s.ep == 1 && s.vpp == 1 && s.half_batches == 1 && !s.fused_tp &&
           !s.offload_optimizer && !s.swap_activations && s.layers.n == 0 && s.full_layers.n == 0 &&
           model->n_experts == 0;
}

static struct workshop *workshop_new(const struct cs_model *model, const struct cs_training *training,
                                     const struct cs_strategy *strategy)
{
    struct workshop *w = cs_calloc(1, sizeof *w);
    cs__builder_init(&w->builder, model, training, strategy);
    cs__plans_init(&w->plans, &w->builder);
    return w;
}

static void workshop_free(struct workshop *w)
{
    cs__plans_release(&w->plans);
    cs__builder_release(&w->builder);
    cs_free(w);
}

/** CS_N_COST_GROUPS for kinds that only strategies have that are not covered. */
static enum cs_cost_group group_of_comm(const struct cs_builder *builder, int32_t comm)
{
    for (int32_t g = 0; g < CS_N_COST_GROUPS; g++) {
        if (builder->group_comm[groups_of_cost[g]] == comm) {
            return (enum cs_cost_group)g;
        }
    }
    return CS_N_COST_GROUPS;
}

static void add_memory(struct cs_cost_memory *memory, const struct cs_op *op)
{
    memory->net_bytes += op->type == CS_OP_ALLOC ? op->bytes : -op->bytes;
    if (memory->net_bytes > memory->high_bytes) {
        memory->high_bytes = memory->net_bytes;
    }
}

/** A collective that holds the compute stream up, alone or beside an operation. */
static bool take_collective(const struct cs_builder *builder, const struct cs_op *op, struct cs_cost_op *out)
{
    bool beside = op->comm == builder->group_comm[CS_GROUP_TP_ASYNC]; /* cs__plan_beside's, where covered */
    enum cs_cost_group group = beside ? CS_COST_TP : group_of_comm(builder, op->comm);
    *out = (struct cs_cost_op){.is_collective = true,
                               .phase = (enum cs_phase)op->phase,
                               .group = group,
                               .coll = (enum cs_coll)op->coll,
                               .bytes = op->bytes,
                               .beside = beside};
    return beside || (op->stream == CS_STREAM_COMPUTE && group != CS_N_COST_GROUPS);
}

/** The operations of the compute stream of a list, and what it does to memory. */
static void take_list(const struct cs_builder *builder, const struct cs_oplist *list, struct cs_arena *arena,
                      struct cs_cost_ops *out)
{
    *out = (struct cs_cost_ops){.ops = CS_ARENA_NEW(arena, struct cs_cost_op, list->n + 1)};
    for (int32_t i = 0; i < list->n; i++) {
        const struct cs_op *op = &list->ops[i];
        if (op->type == CS_OP_ALLOC || op->type == CS_OP_FREE) {
            add_memory(&out->memory, op);
        } else if (op->type == CS_OP_COMPUTE) {
            out->ops[out->n++] =
                (struct cs_cost_op){.phase = (enum cs_phase)op->phase, .cost = builder->costs[op->cost]};
        } else if (op->type == CS_OP_COLLECTIVE) {
            out->n += take_collective(builder, op, &out->ops[out->n]);
        }
    }
}

void cs_segments_cost_build(struct cs_segments_cost *out, const struct cs_model *model,
                            const struct cs_training *training, const struct cs_strategy *strategy)
{
    *out = (struct cs_segments_cost){0};
    struct workshop *w = workshop_new(model, training, strategy);
    const struct cs_graph *graph = &w->builder.graph;
    out->n_segments = graph->n_segments;
    out->segments = CS_ARENA_NEW(&out->arena, struct cs_segment_cost, graph->n_segments);
    for (int32_t i = 0; i < graph->n_segments; i++) {
        struct cs_segment_cost *segment = &out->segments[i];
        const struct cs_plan *plan = cs__plan_of(&w->plans, 0, i, w->builder.strategy.recompute);
        segment->name = cs_arena_strdup(&out->arena, graph->segments[i].name);
        segment->is_layer = graph->segments[i].is_layer;
        segment->in_bytes = plan->in_bytes;
        segment->out_bytes = plan->out_bytes;
        take_list(&w->builder, &plan->forward, &out->arena, &segment->forward);
        take_list(&w->builder, &plan->backward, &out->arena, &segment->backward);
    }
    for (int32_t i = 0; i < graph->n_runs; i++) {
        out->n_chain += graph->runs[i].count;
    }
    out->chain = CS_ARENA_NEW(&out->arena, int32_t, out->n_chain);
    for (int32_t pos = 0; pos < out->n_chain; pos++) {
        out->chain[pos] = cs__graph_segment_at(graph, pos);
    }
    workshop_free(w);
}

void cs_segments_cost_release(struct cs_segments_cost *segments)
{
    cs_arena_release(&segments->arena);
    *segments = (struct cs_segments_cost){0};
}

static void take_stage(struct workshop *w, int32_t index, struct cs_arena *arena, struct cs_stage_cost *out)
{
    struct cs_stage stage;
    struct cs_oplist list = {0};
    cs__stage_init(&stage, &w->builder, &w->plans, index);
    const struct cs_chunk *chunk = &stage.chunks[0];
    out->first_pos = chunk->first_pos;
    out->n_items = chunk->n_items;
    out->item_params = CS_ARENA_NEW(arena, int64_t, chunk->n_items);
    out->bucket_of =
        cs_arena_memdup(arena, chunk->bucket_of, (size_t)chunk->n_items * sizeof *chunk->bucket_of);
    for (int32_t item = 0; item < chunk->n_items; item++) {
        out->item_params[item] = cs__chunk_params(chunk, item);
    }
    out->n_buckets = chunk->n_buckets;
    out->buckets = CS_ARENA_NEW(arena, struct cs_bucket_cost, chunk->n_buckets);
    for (int32_t i = 0; i < chunk->n_buckets; i++) {
        const struct cs_bucket *bucket = &chunk->buckets[i];
        out->buckets[i] =
            (struct cs_bucket_cost){bucket->first, bucket->last, bucket->n_params, bucket->n_shard};
    }
    out->model_state_bytes = stage.weight_bytes + stage.gradient_bytes + stage.optimizer_bytes;
    out->buffer_bytes = stage.buffer_bytes;
    cs__stage_epilogue(&stage, &list, cs__chunk_outstanding(chunk));
    take_list(&w->builder, &list, arena, &out->epilogue);
    out->epilogue.memory = (struct cs_cost_memory){0};
    cs__oplist_release(&list);
}

void cs_stages_cost_build(struct cs_stages_cost *out, const struct cs_model *model,
                          const struct cs_training *training, const struct cs_strategy *strategy)
{
    *out = (struct cs_stages_cost){0};
    struct workshop *w = workshop_new(model, training, strategy);
    struct cs_spread spread = cs__spread(&w->builder);
    out->op = spread.op;
    out->dpx = spread.dpx;
    out->sharded = spread.sharded;
    out->scatter_always = spread.scatter_always;
    out->gather_always = spread.gather_always;
    out->keep_weights = spread.keep_weights;
    out->message_parts = cs__message_parts(&w->builder);
    out->reduces = spread.reduces;
    out->weight_elt_bytes = cs_dtype_bytes(cs__storage_dtype(training));
    out->gradient_elt_bytes = cs_dtype_bytes(cs__reduced_dtype(training));
    out->n_stages = w->builder.strategy.pp;
    out->stages = CS_ARENA_NEW(&out->arena, struct cs_stage_cost, out->n_stages);
    for (int32_t i = 0; i < out->n_stages; i++) {
        take_stage(w, i, &out->arena, &out->stages[i]);
    }
    workshop_free(w);
}

void cs_stages_cost_release(struct cs_stages_cost *stages)
{
    cs_arena_release(&stages->arena);
    *stages = (struct cs_stages_cost){0};
}

void cs_groups_cost_build(struct cs_groups_cost *out, const struct cs_model *model,
                          const struct cs_training *training, const struct cs_strategy *strategy)
{
    *out = (struct cs_groups_cost){0};
    struct cs_builder builder;
    cs__builder_init(&builder, model, training, strategy);
    int32_t pp = builder.strategy.pp;
    out->n_stages = pp;
    out->rank = CS_ARENA_NEW(&out->arena, int32_t, pp);
    out->members = cs_arena_calloc(&out->arena, (size_t)pp, sizeof *out->members);
    for (int32_t stage = 0; stage < pp; stage++) {
        int32_t coord[CS_N_DIMS] = {[CS_DIM_PP] = stage};
        out->rank[stage] = cs_strategy_rank(&builder.strategy, coord);
    }
    for (int32_t g = 0; g < CS_N_COST_GROUPS; g++) {
        struct cs_comm comm;
        if (cs__builder_group_size(&builder, groups_of_cost[g]) == 1) {
            continue;
        }
        cs__groups_comm(&builder, groups_of_cost[g], &comm);
        for (int32_t stage = 0; stage < pp; stage++) {
            int32_t group = comm.group_of_rank[out->rank[stage]];
            if (group >= 0) {
                int32_t n = comm.group_first[group + 1] - comm.group_first[group];
                out->members[stage][g].n = n;
                out->members[stage][g].ranks = cs_arena_memdup(
                    &out->arena, comm.members + comm.group_first[group], (size_t)n * sizeof(int32_t));
            }
        }
    }
    cs__builder_release(&builder);
}

void cs_groups_cost_release(struct cs_groups_cost *groups)
{
    cs_arena_release(&groups->arena);
    *groups = (struct cs_groups_cost){0};
}
