/* The generator's parts for closed forms: see stage_cost.h. */
#include "cs/workloads/stage_cost.h"

#include "stage_priv.h"

#include <string.h>

static const enum cs_group groups_of_cost[CS_N_COST_GROUPS] = {
    [CS_COST_TP] = CS_GROUP_TP,     [CS_COST_TP_COPIES] = CS_GROUP_TP_COPIES,
    [CS_COST_CP] = CS_GROUP_CP,     [CS_COST_DP] = CS_GROUP_DP,
    [CS_COST_OP] = CS_GROUP_OP,     [CS_COST_DPX] = CS_GROUP_DPX,
    [CS_COST_NORM] = CS_GROUP_NORM, [CS_COST_EMBEDDING] = CS_GROUP_EMBEDDING,
};

/** Builder and plans of a strategy, as cs_trace_build has them. */
struct workshop {
    struct cs_builder builder;
    struct cs_plan plans[CS_GRAPH_SEGMENTS_MAX];
};

static struct workshop *workshop_new(const struct cs_model *model, const struct cs_training *training,
                                     const struct cs_strategy *strategy)
{
    struct workshop *w = cs_calloc(1, sizeof *w);
    cs__builder_init(&w->builder, model, training, strategy);
    for (int32_t i = 0; i < w->builder.graph.n_segments; i++) {
        cs__plan_build(&w->plans[i], &w->builder, &w->builder.graph.segments[i],
                       w->builder.strategy.recompute);
    }
    return w;
}

static void workshop_free(struct workshop *w)
{
    for (int32_t i = 0; i < CS_GRAPH_SEGMENTS_MAX; i++) {
        cs__plan_release(&w->plans[i]);
    }
    cs__builder_release(&w->builder);
    cs_free(w);
}

static enum cs_cost_group group_of_comm(const struct cs_builder *builder, int32_t comm)
{
    for (int32_t g = 0; g < CS_N_COST_GROUPS; g++) {
        if (builder->group_comm[groups_of_cost[g]] == comm) {
            return (enum cs_cost_group)g;
        }
    }
    CS_ASSERT(false && "a communicator of the compute stream is of a known kind");
    return CS_N_COST_GROUPS;
}

static void add_memory(struct cs_cost_memory *memory, const struct cs_op *op)
{
    int64_t bytes = op->type == CS_OP_ALLOC ? op->bytes : -op->bytes;
    memory->net_bytes += bytes;
    memory->net_by_category[op->mem] += bytes;
    if (memory->net_bytes > memory->high_bytes) {
        memory->high_bytes = memory->net_bytes;
        memcpy(memory->high_by_category, memory->net_by_category, sizeof memory->high_by_category);
    }
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
        } else if (op->type == CS_OP_COLLECTIVE && op->stream == CS_STREAM_COMPUTE) {
            out->ops[out->n++] = (struct cs_cost_op){.is_collective = true,
                                                     .phase = (enum cs_phase)op->phase,
                                                     .group = group_of_comm(builder, op->comm),
                                                     .coll = (enum cs_coll)op->coll,
                                                     .bytes = op->bytes};
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
        segment->name = cs_arena_strdup(&out->arena, graph->segments[i].name);
        segment->is_layer = graph->segments[i].is_layer;
        segment->in_bytes = w->plans[i].in_bytes;
        segment->out_bytes = w->plans[i].out_bytes;
        take_list(&w->builder, &w->plans[i].forward, &out->arena, &segment->forward);
        take_list(&w->builder, &w->plans[i].backward, &out->arena, &segment->backward);
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
    cs__stage_init(&stage, &w->builder, w->plans, index);
    out->first_pos = stage.first_pos;
    out->n_items = stage.n_items;
    out->item_params = CS_ARENA_NEW(arena, int64_t, stage.n_items);
    out->bucket_of = cs_arena_memdup(arena, stage.bucket_of, (size_t)stage.n_items * sizeof *stage.bucket_of);
    for (int32_t item = 0; item < stage.n_items; item++) {
        out->item_params[item] = cs__stage_params(&stage, item);
    }
    out->n_buckets = stage.n_buckets;
    out->buckets = CS_ARENA_NEW(arena, struct cs_bucket_cost, stage.n_buckets);
    for (int32_t i = 0; i < stage.n_buckets; i++) {
        const struct cs_bucket *bucket = &stage.buckets[i];
        out->buckets[i] =
            (struct cs_bucket_cost){bucket->first, bucket->last, bucket->n_params, bucket->n_shard};
    }
    out->state_by_category[CS_MEM_WEIGHTS] = stage.weight_bytes;
    out->state_by_category[CS_MEM_GRADIENTS] = stage.gradient_bytes;
    out->state_by_category[CS_MEM_OPTIMIZER] = stage.optimizer_bytes;
    out->state_by_category[CS_MEM_BUFFERS] = stage.buffer_bytes;
    for (int32_t m = 0; m < CS_N_MEMS; m++) {
        out->state_bytes += out->state_by_category[m];
    }
    cs__stage_epilogue(&stage, &list);
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
    out->reduces = spread.reduces;
    out->weight_elt_bytes = cs_dtype_bytes(training->dtype);
    out->gradient_elt_bytes = cs_dtype_bytes(training->gradient_dtype);
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
