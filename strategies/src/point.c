/* One variant of a study: its strategy, and what upgrades of its hardware give. */
#include "points_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const cs_upgrade_names[] = {"compute",         "memory_bandwidth", "intra_bandwidth",
                                        "inter_bandwidth", "latency",          NULL};

cs_status cs__point_load(struct cs_study *study, const struct cs_points_options *options,
                         const struct cs_point_spec *spec, const struct cs_override *more, struct cs_err *err)
{
    struct cs_study_source source = *options->source;
    int32_t n = source.n_overrides + spec->n_overrides + (more ? 1 : 0);
    struct cs_override *all = cs_calloc((size_t)n + 1, sizeof *all);
    const struct cs_yaml_node **trees = cs_calloc((size_t)n + 1, sizeof *trees);
    int32_t at = 0;
    for (int32_t i = 0; i < source.n_overrides; i++) {
        trees[at] = source.trees ? source.trees[i] : NULL;
        all[at++] = source.overrides[i];
    }
    for (int32_t i = 0; i < spec->n_overrides; i++) {
        trees[at] = spec->trees ? spec->trees[i] : NULL;
        all[at++] = spec->overrides[i];
    }
    if (more) {
        all[at++] = *more;
    }
    source.n_overrides = n;
    source.overrides = all;
    source.trees = trees;
    cs_status st = cs_study_load(study, &source, err);
    cs_free(trees);
    cs_free(all);
    return st;
}

static cs_status evaluate(void *context, const struct cs_strategy *strategy, struct cs_evaluation *evaluation,
                          struct cs_err *err)
{
    return cs_simulator_evaluate(context, strategy, evaluation, err);
}

/* Why the search came to nothing: its most frequent reason. */
static void explain_nothing(struct cs_point *point, const struct cs_search_result *result)
{
    const struct cs_reason *most = NULL;
    for (int32_t i = 0; i < result->n_reasons; i++) {
        if (!most || result->reasons[i].n > most->n) {
            most = &result->reasons[i];
        }
    }
    bool failed = result->n_failed > 0 && result->n_oom == 0;
    point->outcome = result->n_open > 0 ? CS_OUTCOME_OPEN : failed ? CS_OUTCOME_FAILED : CS_OUTCOME_OOM;
    (void)snprintf(point->reason, sizeof point->reason, "none of %lld strategies fits%s%.48s%s%.256s",
                   (long long)result->n_candidates, most ? "; " : "", most ? most->rule : "",
                   most && most->example[0] ? ": " : "", most ? most->example : "");
}

/* The best strategy of the study's space. */
static cs_status search(struct cs_point *point, const struct cs_study *study, struct cs_simulator *simulator,
                        const struct cs_points_options *options, int32_t n_workers, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_space space = {0};
    struct cs_search_result result = {0};
    struct cs_cost *cost = cs_cost_new(&study->model, &study->training, simulator->routes,
                                       &simulator->options, &CS_COST_SCALE_NONE);
    struct cs_search_options how = {.n_workers = n_workers,
                                    .stop = options->stop,
                                    .evaluate = evaluate,
                                    .evaluate_context = simulator,
                                    .cost = cost};
    CS_TRY(cs_space_build(&space, study, err));
    CS_TRY(cs_search_run(&result, study, &space, &how, err));
    point->n_candidates = result.n_candidates;
    point->n_simulated = result.n_simulated;
    point->complete = result.complete;
    if (result.n_ranked == 0) {
        explain_nothing(point, &result);
        goto out;
    }
    point->outcome = CS_OUTCOME_OK;
    point->simulated = true;
    point->strategy = space.candidates[result.ranking[0].candidate].strategy;
    point->metrics = result.ranking[0].metrics;
out:
    cs_search_result_release(&result);
    cs_space_release(&space);
    cs_cost_free(cost);
    return st;
}

/* The strategy that a text and the study's pinned values say; a dp that both leave out is what is left of the
 * devices. */
static cs_status fixed_strategy(const struct cs_study *study, const char *text, struct cs_strategy *strategy,
                                struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_loc loc = {"strategy", 0, 0};
    struct cs_strategy parts;
    uint32_t mask = 0;
    char *whole = NULL;
    struct cs_arena arena = {0};
    const struct cs_axis *dp = &study->axes[CS_KEY_DP];
    CS_TRY(cs_study_strategy_read(study, "", &parts, err));
    CS_TRY(cs_strategy_parse(text, loc, &parts, &mask, err));
    int64_t rest = (int64_t)parts.mp * parts.cp * parts.pp;
    bool open = !(mask & 1U << CS_KEY_DP) && dp->kind != CS_AXIS_PINNED &&
                !(dp->kind == CS_AXIS_LISTED && dp->n == 1);
    if (open && rest > 0 && study->platform.n_devices % rest == 0) {
        whole = cs_arena_printf(&arena, "%s%sdp=%lld", text, text[0] ? "," : "",
                                (long long)(study->platform.n_devices / rest));
    }
    CS_TRY(cs_study_strategy(study, whole ? whole : text, strategy, err));
out:
    cs_arena_release(&arena);
    return st;
}

/* A fixed strategy is simulated whether it fits or not. */
static cs_status run_fixed(struct cs_point *point, const struct cs_study *study,
                           const struct cs_simulator *simulator, const char *text, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_trace *trace = NULL;
    struct cs_run run = {0};
    struct cs_evaluation evaluation;
    CS_TRY(fixed_strategy(study, text, &point->strategy, err));
    CS_TRY(cs_simulator_run(simulator, &point->strategy, &trace, &run, &evaluation, err));
    point->outcome = evaluation.outcome;
    (void)snprintf(point->reason, sizeof point->reason, "%s", evaluation.reason);
    point->metrics = evaluation.metrics;
    point->simulated = true;
    point->complete = true;
    point->n_candidates = point->n_simulated = 1;
out:
    cs_run_release(&run);
    cs_trace_free(trace);
    return st;
}

/* Step time of the point's strategy on upgraded hardware. */
static cs_status upgraded_step(const struct cs_point *point, const struct cs_points_options *options,
                               const struct cs_point_spec *spec, const struct cs_study *study,
                               enum cs_upgrade upgrade, double *step_s, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_what_if *what = &study->what_if;
    const double now[] = {what->compute_frac, what->memory_bandwidth_frac, what->intra_bandwidth_frac,
                          what->inter_bandwidth_frac, what->latency_frac};
    char key[32];
    char value[40];
    struct cs_override more = {key, value, true};
    struct cs_study better = {0};
    struct cs_simulator simulator = {0};
    struct cs_trace *trace = NULL;
    struct cs_run run = {0};
    struct cs_evaluation evaluation;
    bool latency = upgrade == CS_UPGRADE_LATENCY;
    (void)snprintf(key, sizeof key, "what_if.%s", cs_upgrade_names[upgrade]);
    (void)snprintf(value, sizeof value, "%.17g",
                   latency ? now[upgrade] / CS_UPGRADE_RATIO : now[upgrade] * CS_UPGRADE_RATIO);
    CS_TRY(cs__point_load(&better, options, spec, &more, err));
    CS_TRY(cs_simulator_init(&simulator, &better, &options->run, err));
    CS_TRY(cs_simulator_run(&simulator, &point->strategy, &trace, &run, &evaluation, err));
    *step_s = evaluation.metrics.iteration_s;
out:
    cs_run_release(&run);
    cs_trace_free(trace);
    cs_simulator_release(&simulator);
    cs_study_release(&better);
    return st;
}

static void find_gains(struct cs_point *point, const struct cs_points_options *options,
                       const struct cs_point_spec *spec, const struct cs_study *study)
{
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        struct cs_err err = {0};
        double step_s = 0;
        if (upgraded_step(point, options, spec, study, (enum cs_upgrade)u, &step_s, &err) == CS_OK) {
            point->gain_frac[u] = point->metrics.iteration_s / step_s - 1;
        } else {
            (void)snprintf(point->gain_reason, sizeof point->gain_reason, "%.200s", err.text);
        }
    }
}

cs_status cs__point_evaluate(struct cs_point *point, struct cs_study *study,
                             const struct cs_points_options *options, const struct cs_point_spec *spec,
                             int32_t n_workers, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_simulator simulator = {0};
    memset(point, 0, sizeof *point);
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        point->gain_frac[u] = (double)NAN;
    }
    point->n_devices = study->platform.n_devices;
    point->n_nodes = study->platform.n_nodes;
    point->global_batch = (double)study->training.global_batch;
    study->search.n_top = 1; /* only the best is wanted, and proved */
    CS_TRY(cs_simulator_init(&simulator, study, &options->run, err));
    if (options->strategy) {
        CS_TRY(run_fixed(point, study, &simulator, options->strategy, err));
    } else {
        CS_TRY(search(point, study, &simulator, options, n_workers, err));
    }
    if (options->upgrades && point->simulated) {
        find_gains(point, options, spec, study);
    }
out:
    cs_simulator_release(&simulator);
    return st;
}

int32_t cs_point_best_upgrade(const struct cs_point *point)
{
    int32_t best = -1;
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        /* a gain below a ten-thousandth is rounding */
        if (point->simulated && point->gain_frac[u] > 1e-4 &&
            (best < 0 || point->gain_frac[u] > point->gain_frac[best])) {
            best = u;
        }
    }
    return best;
}
