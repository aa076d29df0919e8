/**
 * @file goodput.h
 * What is left of a machine's time when it fails now and then and the training goes back to a checkpoint.
 *
 * Model: failures come at random with a constant rate (exponential gaps), also during checkpoints and
 * restarts; training computes for an interval, writes a checkpoint, and so on; a failure loses everything
 * since the last finished checkpoint and costs a restart, after which the interval begins anew. Sources: J.
 * W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly,
 * "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006.
 */
#ifndef CS_STRATEGIES_GOODPUT_H
#define CS_STRATEGIES_GOODPUT_H

#include <stdint.h>

/** How a cluster fails and how training survives it. */
struct cs_failures {
    double mtbf_s;       /* mean time between failures of the whole cluster; infinity = never */
    double checkpoint_s; /* time that a checkpoint stops the training, >= 0 */
    double restart_s;    /* from a failure until training goes on, >= 0 */
    double interval_s;   /* of training between checkpoints, > 0 */
};

/** Mean time between failures of a cluster whose `n` parts fail one by one, each with this mean: part / n, as
 * the superposition of n Poisson processes. @unit n: parts. */
double cs_cluster_mtbf_s(double part_mtbf_s, double n);
/** Young's interval sqrt(2 checkpoint mtbf). */
double cs_interval_young_s(double mtbf_s, double checkpoint_s);
/** Daly's interval (his equation 37): sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (2 M) / 9) - d for d < 2 M,
 * else M, with checkpoint d and mtbf M. Infinity when nothing fails; without cost of a checkpoint 0, so give
 * it one. */
double cs_interval_daly_s(double mtbf_s, double checkpoint_s);
/** Useful share of the time, closed form (Daly's equation 20): interval / (M exp(R / M) (exp((interval + d) /
 * M) - 1)), with restart R. Without failures interval / (interval + d). */
double cs_goodput_frac(const struct cs_failures *failures);
/** The same by simulating `n_intervals` finished intervals of a renewal process. Deterministic for a seed.
 * Gives up (returns 0) after 1000 failures in a row without a finished interval. @param[out] error_frac
 * standard error of the result (may be NULL). Cost O(intervals and failures). */
double cs_goodput_simulated_frac(const struct cs_failures *failures, int64_t n_intervals, uint64_t seed,
                                 double *error_frac);

#endif
