/* The closed form: parts put together. */
#include "cost_priv.h"

#include <math.h>
#include <string.h>

/* What summing in another order may take off a simulated time, and what SimGrid does: an activity ends up to
 * 1e-10 s early (its precision/timing times precision/work-amount), a hundred of them on the critical path.
 */
#define ROUNDING_FRAC 1e-9
#define ROUNDING_S 1e-8

struct cs_cost *cs_cost_new(const struct cs_model *model, const struct cs_training *training,
                            struct cs_routes *routes, const struct cs_run_options *options,
                            const struct cs_cost_scale *scale)
{
    struct cs_cost *cost = cs_calloc(1, sizeof *cost);
    cost->model = model;
    cost->training = training;
    cost->routes = routes;
    cost->platform = cs_routes_platform(routes);
    cost->options = options;
    cost->scale = *scale;
    cost->reserved_bytes = cost->limit_bytes = (double)INFINITY;
    for (int32_t i = 0; i < cost->platform->n_devices; i++) {
        cost->reserved_bytes = fmin(cost->reserved_bytes, cost->platform->devices[i].chip->reserved_bytes);
    }
    cost->reserved_bytes = cost->reserved_bytes > 0 ? cost->reserved_bytes : 0; /* not found: none */
    return cost;
}

const struct cs_run_options *cs_cost_options(const struct cs_cost *cost)
{
    return cost->options;
}

void cs_cost_watch(struct cs_cost *cost, cs_watch_fn is_over, void *context)
{
    cost->is_over = is_over;
    cost->watch_context = context;
}

void cs_cost_limit(struct cs_cost *cost, double peak_memory_bytes)
{
    cost->limit_bytes = peak_memory_bytes;
}

void cs_cost_free(struct cs_cost *cost)
{
    if (!cost) {
        return;
    }
    for (int32_t i = 0; i < cost->n_plans; i++) {
        cs_segments_cost_release(&cost->plans[i].segments);
    }
    for (int32_t i = 0; i < cost->n_stages; i++) {
        cs_stages_cost_release(&cost->stages[i].stages);
    }
    struct cs__memo *memos[] = {&cost->plan_memo, &cost->stage_memo, &cost->layout_memo, &cost->group_memo,
                                &cost->coll_memo, &cost->times_memo, &cost->trace_memo,  &cost->collected};
    for (int32_t i = 0; i < CS_COUNT(memos); i++) {
        cs__memo_release(memos[i]);
    }
    cs_free(cost->plans);
    cs_free(cost->stages);
    cs_free(cost->layouts);
    cs_free(cost->groups);
    cs_free(cost->colls);
    cs_free(cost->times);
    cs_free(cost->traces);
    cs_free(cost->loads);
    cs_free(cost->pairs);
    cs_arena_release(&cost->arena);
    cs_free(cost);
}

/* Find or make the parts of a strategy. `times` has room for CS_N_RECOMPUTE numbers a stage. */
static void find_parts(struct cs_cost *cost, const struct cs_strategy *strategy, int32_t *times,
                       struct cs__candidate *candidate)
{
    *candidate = (struct cs__candidate){
        .cost = cost,
        .strategy = strategy,
        .n_micro_batches = cs_strategy_micro_batches(strategy, cost->training),
        .layout = cs__cost_layout(cost, strategy),
        .stage = cs__cost_stage(cost, strategy),
        .times = times,
        .mixed = strategy->full_layers.n > 0 || strategy->selective_layers.n > 0,
    };
    for (int32_t stage = 0; stage < strategy->pp; stage++) {
        /* Chips may differ between stages; their segments then have the same sizes and other times. */
        const struct cs__layout_part *layout = &cost->layouts[candidate->layout];
        for (int32_t r = 0; r < CS_N_RECOMPUTE; r++) {
            int32_t *plan = &candidate->plan[r];
            int32_t *time = &times[stage * CS_N_RECOMPUTE + r];
            if (r > 0 && !candidate->mixed) {
                *plan = candidate->plan[0];
                *time = times[stage * CS_N_RECOMPUTE];
                continue;
            }
            enum cs_recompute recompute = candidate->mixed ? (enum cs_recompute)r : strategy->recompute;
            *plan = cs__cost_plan(cost, strategy, recompute, layout->rank[stage]);
            *time = cs__cost_times(cost, *plan, layout->group[stage]);
        }
    }
}

/* Do the parts say everything about it? Lists only change which parts a stage is made of. */
static bool is_covered(const struct cs_cost *cost, const struct cs_strategy *strategy)
{
    struct cs_strategy plain;
    const struct cs_strategy *asked = strategy;
    if (strategy->layers.n > 0 || strategy->full_layers.n > 0 || strategy->selective_layers.n > 0) {
        plain = *strategy;
        plain.layers = plain.full_layers = plain.selective_layers = (struct cs_per_place){0};
        asked = &plain;
    }
    return cs_stage_cost_covers(cost->model, asked) &&
           (strategy->schedule == CS_SCHED_GPIPE ||
            cs_strategy_micro_batches(strategy, cost->training) >= strategy->pp);
}

/* Note everything that the estimate of a strategy will ask for. */
static void collect(struct cs_cost *cost, const struct cs_strategy *strategy, int32_t *times)
{
    struct cs__candidate candidate;
    struct cs__stage_times *stages = cs_calloc((size_t)strategy->pp, sizeof *stages);
    find_parts(cost, strategy, times, &candidate);
    for (int32_t stage = 0; stage < strategy->pp; stage++) {
        cs__stage_times(&candidate, stage, &stages[stage]);
        if (stages[stage].waits_for_weights) {
            (void)cs__stage_first_forward_s(&candidate, stage, 0, 0);
        }
    }
    struct cs__candidate one = candidate;
    one.n_micro_batches = strategy->pp; /* the epilogue's collectives; the rest is the same for any number */
    (void)cs__pipeline_s(&one, stages);
    cs_free(stages);
}

bool cs_cost_is_quick(const struct cs_cost *cost, const struct cs_strategy *strategy)
{
    return is_covered(cost, strategy);
}

/* Collect one strategy, unless another with the same parts was. */
static void collect_once(struct cs_cost *cost, const struct cs_strategy *s)
{
    bool mixed = s->full_layers.n > 0 || s->selective_layers.n > 0;
    if (!is_covered(cost, s)) {
        struct cs_estimate ignored;
        cs__cost_trace(cost, s, &ignored);
        return;
    }
    const int64_t key[CS__MEMO_WORDS] = {cs__cost_plan(cost, s, s->recompute, 0), cs__cost_stage(cost, s),
                                         cs__cost_layout(cost, s), mixed};
    if (cs__memo_find(&cost->collected, key) < 0) {
        int32_t *times = cs_calloc((size_t)s->pp * CS_N_RECOMPUTE, sizeof *times);
        cs__memo_put(&cost->collected, key, 0);
        collect(cost, s, times);
        cs_free(times);
    }
}

cs_status cs_cost_prepare(struct cs_cost *cost, const struct cs_strategy *const *strategies, int64_t n,
                          int64_t *n_prepared, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t first_layout = cost->n_layouts;
    int64_t at = 0;
    cost->collecting = true;
    for (; at < n && !(cost->is_over && cost->is_over(cost->watch_context)); at++) {
        collect_once(cost, strategies[at]);
    }
    cost->collecting = false;
    CS_TRY(cs_routes_need(cost->routes, cost->pairs, cost->n_pairs / 2, err));
    for (int32_t i = first_layout; i < cost->n_layouts; i++) {
        cs__cost_messages(cost, &cost->layouts[i]);
    }
    if (n_prepared) {
        *n_prepared = at;
    } else if (at < n) {
        st = cs_err_set(err, CS_E_INTERRUPTED, CS_NOLOC, "interrupted");
    }
out:
    cost->n_pairs = 0;
    return st;
}

#define STAGES_ON_STACK 64

static double bound_of(const struct cs_cost *cost, double time_s)
{
    return cost->options->jitter_frac > 0 ? 0 : fmax(0, time_s * (1 - ROUNDING_FRAC) - ROUNDING_S);
}

static void estimate_by_trace(struct cs_cost *cost, const struct cs_strategy *strategy,
                              struct cs_estimate *estimate)
{
    cs__cost_trace(cost, strategy, estimate);
    estimate->bound_s = bound_of(cost, estimate->time_s);
}

static void estimate_by_parts(struct cs_cost *cost, const struct cs_strategy *strategy,
                              struct cs__stage_times *stages, int32_t *times, struct cs_estimate *estimate)
{
    struct cs__candidate candidate;
    double nic_s = 0;
    int64_t peak_bytes = 0;
    *estimate = (struct cs_estimate){0};
    find_parts(cost, strategy, times, &candidate);
    for (int32_t stage = 0; stage < strategy->pp; stage++) {
        cs__stage_times(&candidate, stage, &stages[stage]);
        nic_s = fmax(nic_s, stages[stage].nic_s * (double)candidate.n_micro_batches);
        int64_t stage_bytes = cs__stage_peak_bytes(&candidate, stage);
        peak_bytes = stage_bytes > peak_bytes ? stage_bytes : peak_bytes;
        estimate->state_bytes =
            fmax(estimate->state_bytes,
                 (double)cost->stages[candidate.stage].stages.stages[stage].model_state_bytes);
    }
    estimate->time_s = fmax(cs__pipeline_s(&candidate, stages), nic_s);
    estimate->bound_s = bound_of(cost, estimate->time_s);
    estimate->peak_memory_bytes = peak_bytes + (int64_t)cost->reserved_bytes;
}

void cs_cost_estimate(struct cs_cost *cost, const struct cs_strategy *strategy, struct cs_estimate *estimate)
{
    struct cs__stage_times few_stages[STAGES_ON_STACK];
    int32_t few_times[STAGES_ON_STACK * CS_N_RECOMPUTE];
    if (!is_covered(cost, strategy)) {
        estimate_by_trace(cost, strategy, estimate);
    } else if (strategy->pp <= STAGES_ON_STACK) {
        estimate_by_parts(cost, strategy, few_stages, few_times, estimate);
    } else {
        struct cs__stage_times *stages = cs_calloc((size_t)strategy->pp, sizeof *stages);
        int32_t *times = cs_calloc((size_t)strategy->pp * CS_N_RECOMPUTE, sizeof *times);
        estimate_by_parts(cost, strategy, stages, times, estimate);
        cs_free(stages);
        cs_free(times);
    }
    estimate->refusal =
        estimate->bound_s >= CS__NEVER_S / 2 || estimate->time_s >= CS__NEVER_S / 2 ? cost->refusal : NULL;
}
