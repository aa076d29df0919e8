#include "analytic_priv.h"

#include "cs/strategies/cost.h"

#include <time.h>

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cs_status cs__analytic_check(const struct cs_run_options *options, struct cs_err *err)
{
    const char *what = options->jitter_frac > 0      ? "jitter"
                       : options->n_slow_devices > 0 ? "slow devices"
                       : options->n_slow_links > 0   ? "slow links"
                                                     : NULL;
    if (what) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "fidelity 'analytic' knows nothing of %s: use folded or full", what);
    }
    for (int32_t i = 0; i < CS_N_COLLS; i++) {
        enum cs_algorithm algorithm = options->algorithm[i];
        if (algorithm != CS_ALGO_AUTO && algorithm != CS_ALGO_RING && algorithm != CS_ALGO_MESH) {
            return cs_err_set(
                err, CS_E_INPUT, CS_NOLOC,
                "fidelity 'analytic' takes auto, ring or mesh for %s: which groups '%s' suits is found "
                "by folded or full",
                cs_coll_names[i], cs_algorithm_names[algorithm]);
        }
    }
    return CS_OK;
}

cs_status cs__analytic(const struct cs_simulator *simulator, const struct cs_strategy *strategy,
                       const struct cs_trace *trace, struct cs_metrics *metrics, struct cs_err *err)
{
    cs_status st = CS_OK;
    double start_s = clock_s();
    const struct cs_study *study = simulator->study;
    struct cs_estimate estimate;
    char text[256];
    struct cs_cost *cost = cs_cost_new(&study->model, &study->training, simulator->routes,
                                       &simulator->options, &CS_COST_SCALE_NONE);
    CS_TRY(cs__analytic_check(&simulator->options, err));
    CS_TRY(cs_cost_prepare(cost, &strategy, 1, NULL, err));
    cs_cost_estimate(cost, strategy, &estimate);
    if (!(estimate.time_s > 0) || estimate.is_coarse) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                        "there is no closed form of strategy '%s': use fidelity folded or full",
                        cs_strategy_format(strategy, text, sizeof text));
        goto out;
    }
    metrics->fidelity = CS_FIDELITY_ANALYTIC;
    metrics->iteration_s = estimate.time_s;
    cs_engine_speed(trace, &study->platform, metrics);
    cs_engine_memory(trace, &study->platform, metrics);
    metrics->wall_s = clock_s() - start_s;
out:
    cs_cost_free(cost);
    return st;
}
