/* Parts of strategies, kept by the keys that they depend on. */
#include "cost_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <string.h>

static double op_s(const struct cs_cost *cost, const struct cs_chip *chip, const struct cs_cost_op *op)
{
    return op->is_collective ? 0 : cs_chip_op_time_s(chip, &op->cost) / cost->scale.compute;
}

static double computing_s(const struct cs_cost *cost, const struct cs_chip *chip,
                          const struct cs_cost_ops *ops)
{
    double sum_s = 0;
    for (int32_t i = 0; i < ops->n; i++) {
        sum_s += op_s(cost, chip, &ops->ops[i]);
    }
    return sum_s;
}

/* Chips are told apart by the first device that has one. */
static int32_t chip_number(const struct cs_cost *cost, int32_t rank)
{
    int32_t first = 0;
    while (cost->platform->devices[first].chip != cost->platform->devices[rank].chip) {
        first++;
    }
    return first;
}

int32_t cs__cost_plan(struct cs_cost *cost, const struct cs_strategy *s, enum cs_recompute recompute,
                      int32_t rank)
{
    const int64_t key[CS__MEMO_WORDS] = {s->mp,          s->keep_comm,       s->sp,
                                         s->micro_batch, (int64_t)recompute, chip_number(cost, rank)};
    int32_t index = cs__memo_find(&cost->plan_memo, key);
    if (index >= 0) {
        return index;
    }
    struct cs__plan_part part = {0};
    struct cs_strategy alone = *s; /* segments do not depend on the other dimensions: fewer ranks to list */
    alone.dp = alone.pp = alone.op = alone.zero = 1;
    alone.recompute = recompute;
    alone.layers = alone.full_layers = alone.selective_layers = (struct cs_per_place){0};
    cs_segments_cost_build(&part.segments, cost->model, cost->training, &alone);
    int32_t n = part.segments.n_segments;
    const struct cs_chip *chip = cost->platform->devices[rank].chip;
    part.chip = chip;
    part.forward_s = CS_ARENA_NEW(&part.segments.arena, double, n);
    part.backward_s = CS_ARENA_NEW(&part.segments.arena, double, n);
    for (int32_t i = 0; i < n; i++) {
        part.forward_s[i] = computing_s(cost, chip, &part.segments.segments[i].forward);
        part.backward_s[i] = computing_s(cost, chip, &part.segments.segments[i].backward);
    }
    CS_GROW(cost->plans, cost->n_plans, cost->cap_plans);
    cost->plans[cost->n_plans] = part;
    cs__memo_put(&cost->plan_memo, key, cost->n_plans);
    return cost->n_plans++;
}

/* What collectives add to computing: all of their time, or what the operation that they run under leaves. */
static double colls_s(struct cs_cost *cost, const struct cs_chip *chip, const struct cs_cost_ops *ops,
                      const int32_t group[CS_N_COST_GROUPS])
{
    double sum_s = 0;
    for (int32_t i = 0; i < ops->n; i++) {
        const struct cs_cost_op *op = &ops->ops[i];
        if (op->is_collective) {
            double time_s = cs__cost_coll(cost, group[op->group], op->coll, op->bytes).time_s;
            CS_ASSERT(!op->beside || (i + 1 < ops->n && !ops->ops[i + 1].is_collective));
            sum_s += op->beside ? fmax(0, time_s - op_s(cost, chip, &ops->ops[i + 1])) : time_s;
        }
    }
    return sum_s;
}

int32_t cs__cost_times(struct cs_cost *cost, int32_t plan, const int32_t group[CS_N_COST_GROUPS])
{
    const int64_t key[CS__MEMO_WORDS] = {plan, group[CS_COST_TP], group[CS_COST_CP], cost->collecting};
    int32_t index = cs__memo_find(&cost->times_memo, key);
    if (index >= 0) {
        return index;
    }
    const struct cs__plan_part *part = &cost->plans[plan];
    int32_t n = part->segments.n_segments;
    struct cs__segment_times times = {CS_ARENA_NEW(&cost->arena, double, n),
                                      CS_ARENA_NEW(&cost->arena, double, n)};
    for (int32_t i = 0; i < n; i++) {
        const struct cs_segment_cost *segment = &part->segments.segments[i];
        times.forward_s[i] = part->forward_s[i] + colls_s(cost, part->chip, &segment->forward, group);
        times.backward_s[i] = part->backward_s[i] + colls_s(cost, part->chip, &segment->backward, group);
    }
    CS_GROW(cost->times, cost->n_times, cost->cap_times);
    cost->times[cost->n_times] = times;
    cs__memo_put(&cost->times_memo, key, cost->n_times);
    return cost->n_times++;
}

int32_t cs__cost_stage(struct cs_cost *cost, const struct cs_strategy *s)
{
    uint64_t layers =
        s->layers.n > 0 ? cs_hash_bytes(CS_HASH_SEED, s->layers.at, s->layers.n * sizeof s->layers.at[0]) : 0;
    const int64_t key[CS__MEMO_WORDS] = {
        ((int64_t)s->mp << 32) | s->pp,         (int64_t)layers, s->sp, ((int64_t)s->op << 32) | s->dp,
        s->zero + 4 * (int64_t)s->keep_weights, s->micro_batch};
    int32_t index = cs__memo_find(&cost->stage_memo, key);
    if (index >= 0) {
        return index;
    }
    struct cs__stage_part part = {0};
    cs_stages_cost_build(&part.stages, cost->model, cost->training, s);
    struct cs_arena *arena = &part.stages.arena;
    part.epilogue_s = CS_ARENA_NEW(arena, double *, part.stages.n_stages);
    for (int32_t stage = 0; stage < part.stages.n_stages; stage++) {
        int32_t coord[CS_N_DIMS] = {[CS_DIM_PP] = stage};
        const struct cs_chip *chip = cost->platform->devices[cs_strategy_rank(s, coord)].chip;
        const struct cs_cost_ops *ops = &part.stages.stages[stage].epilogue;
        part.epilogue_s[stage] = CS_ARENA_NEW(arena, double, ops->n + 1);
        for (int32_t i = 0; i < ops->n; i++) {
            part.epilogue_s[stage][i] = op_s(cost, chip, &ops->ops[i]);
        }
    }
    CS_GROW(cost->stages, cost->n_stages, cost->cap_stages);
    cost->stages[cost->n_stages] = part;
    cs__memo_put(&cost->stage_memo, key, cost->n_stages);
    return cost->n_stages++;
}

static int64_t placement_word(const struct cs_strategy *s)
{
    int64_t word = 0;
    for (int32_t i = 0; i < CS_N_DIMS; i++) {
        word = word * CS_N_DIMS + (int64_t)s->placement[i];
    }
    return word;
}

int32_t cs__cost_layout(struct cs_cost *cost, const struct cs_strategy *s)
{
    const int64_t key[CS__MEMO_WORDS] = {s->dp, s->mp, s->pp, s->cp, s->op, placement_word(s)};
    int32_t index = cs__memo_find(&cost->layout_memo, key);
    if (index >= 0) {
        return index;
    }
    struct cs__layout_part part = {0};
    struct cs_groups_cost groups;
    struct cs_arena *arena = &cost->arena;
    cs_groups_cost_build(&groups, cost->model, cost->training, s);
    part.n_stages = groups.n_stages;
    part.rank = cs_arena_memdup(arena, groups.rank, (size_t)groups.n_stages * sizeof *part.rank);
    part.group = cs_arena_calloc(arena, (size_t)groups.n_stages, sizeof *part.group);
    for (int32_t stage = 0; stage < groups.n_stages; stage++) {
        for (int32_t g = 0; g < CS_N_COST_GROUPS; g++) {
            part.group[stage][g] = cs__cost_intern_group(cost, &groups.members[stage][g]);
        }
    }
    cs_groups_cost_release(&groups);
    part.send_latency_s = CS_ARENA_NEW(arena, double, part.n_stages);
    part.send_bytes_per_s = CS_ARENA_NEW(arena, double, part.n_stages);
    part.back_latency_s = CS_ARENA_NEW(arena, double, part.n_stages);
    part.back_bytes_per_s = CS_ARENA_NEW(arena, double, part.n_stages);
    cs__cost_messages(cost, &part);
    CS_GROW(cost->layouts, cost->n_layouts, cost->cap_layouts);
    cost->layouts[cost->n_layouts] = part;
    cs__memo_put(&cost->layout_memo, key, cost->n_layouts);
    return cost->n_layouts++;
}

void cs__cost_messages(struct cs_cost *cost, struct cs__layout_part *part)
{
    for (int32_t stage = 0; stage + 1 < part->n_stages; stage++) {
        int32_t here = part->rank[stage];
        int32_t next = part->rank[stage + 1];
        cs__cost_message(cost, here, next, &part->send_latency_s[stage], &part->send_bytes_per_s[stage]);
        cs__cost_message(cost, next, here, &part->back_latency_s[stage], &part->back_bytes_per_s[stage]);
    }
}
