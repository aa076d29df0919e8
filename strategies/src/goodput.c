#include "cs/strategies/goodput.h"

#include "cs/base/rng.h"

#include <math.h>
#include <stdbool.h>

#define FAILURES_IN_A_ROW_MAX 1000

double cs_cluster_mtbf_s(double part_mtbf_s, double n)
{
    return part_mtbf_s / n;
}

double cs_interval_young_s(double mtbf_s, double checkpoint_s)
{
    return sqrt(2 * checkpoint_s * mtbf_s);
}

double cs_interval_daly_s(double mtbf_s, double checkpoint_s)
{
    if (!isfinite(mtbf_s)) {
        return (double)INFINITY;
    }
    double ratio = checkpoint_s / (2 * mtbf_s);
    if (ratio >= 1) {
        return mtbf_s;
    }
    return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s;
}

double cs_goodput_frac(const struct cs_failures *failures)
{
    double mtbf_s = failures->mtbf_s;
    double interval_s = failures->interval_s;
    double cycle_s = interval_s + failures->checkpoint_s;
    if (!isfinite(interval_s)) {
        return isfinite(mtbf_s) ? 0 : 1;
    }
    if (!isfinite(mtbf_s)) {
        return interval_s / cycle_s;
    }
    return interval_s / (mtbf_s * exp(failures->restart_s / mtbf_s) * expm1(cycle_s / mtbf_s));
}

/* Time until the next failure. */
static double gap_s(struct cs_rng *rng, double mtbf_s)
{
    return isfinite(mtbf_s) ? -mtbf_s * log1p(-cs_rng_unit(rng)) : (double)INFINITY;
}

/* Time of one interval with its checkpoint and all the attempts that failed before; negative = given up. A
 * gap between failures has no memory, so each attempt and each restart draws its own. */
static double one_interval_s(struct cs_rng *rng, const struct cs_failures *failures)
{
    double cycle_s = failures->interval_s + failures->checkpoint_s;
    double spent_s = 0;
    for (int i = 0; i < FAILURES_IN_A_ROW_MAX; i++) {
        double failure_s = gap_s(rng, failures->mtbf_s);
        if (failure_s >= cycle_s) {
            return spent_s + cycle_s;
        }
        spent_s += failure_s;
        for (int k = 0; k < FAILURES_IN_A_ROW_MAX; k++) { /* a restart can fail too */
            failure_s = gap_s(rng, failures->mtbf_s);
            if (failure_s >= failures->restart_s) {
                spent_s += failures->restart_s;
                break;
            }
            spent_s += failure_s;
        }
    }
    return -1;
}

double cs_goodput_simulated_frac(const struct cs_failures *failures, int64_t n_intervals, uint64_t seed,
                                 double *error_frac)
{
    struct cs_rng rng;
    double mean_s = 0;
    double squares = 0; /* of deviations, Welford */
    if (error_frac) {
        *error_frac = 0;
    }
    if (!isfinite(failures->interval_s)) {
        return cs_goodput_frac(failures);
    }
    cs_rng_init(&rng, seed, 7);
    for (int64_t i = 0; i < n_intervals; i++) {
        double time_s = one_interval_s(&rng, failures);
        if (time_s < 0) {
            return 0;
        }
        double off = time_s - mean_s;
        mean_s += off / (double)(i + 1);
        squares += off * (time_s - mean_s);
    }
    double goodput = failures->interval_s / mean_s;
    if (error_frac && n_intervals > 1) {
        double deviation_s = sqrt(squares / (double)(n_intervals - 1) / (double)n_intervals);
        *error_frac = goodput * deviation_s / mean_s;
    }
    return goodput;
}
