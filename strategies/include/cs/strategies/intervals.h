/**
 * @file intervals.h
 * What published runs say of a prediction: between which multiples of the simulated step they lie.
 *
 * One interval a chip, dense models and mixtures of experts apart, from the quotients measured / simulated of
 * a validation. `clustersim validate --plain --intervals FILE` writes the file that is shipped.
 */
#ifndef CS_STRATEGIES_INTERVALS_H
#define CS_STRATEGIES_INTERVALS_H

#include "cs/strategies/testbed.h"

/** Fewer runs than this say nothing about a kind. */
#define CS_INTERVAL_RUNS_MIN 8

struct cs_interval {
    const char *chip;
    bool experts; /* of mixtures of experts, else of dense models */
    int32_t n;    /* runs; 0 = nothing is known */
    double low_frac,
        high_frac; /* 10th and 90th percentile of measured / simulated: 8 of 10 runs lie between */
};

/** Zero-initialised is empty; texts live in the arena. */
struct cs_intervals {
    struct cs_arena arena;
    int32_t n;
    struct cs_interval *items;
};

/** Sum up a validation: simulated_s[i] belongs to cases->items[i], NaN = not run. Kinds of fewer than
 *  CS_INTERVAL_RUNS_MIN runs are left out. */
void cs_intervals_find(struct cs_intervals *intervals, const struct cs_cases *cases,
                       const struct cs_testbed *bed, const double *simulated_s);
/** As YAML; `command` is quoted as what made it. Write errors stay on the stream. */
void cs_intervals_write(const struct cs_intervals *intervals, FILE *out, const char *command);
/** CS_E_INPUT with file and line for what is no such file. */
CS_MUST_CHECK cs_status cs_intervals_load(struct cs_intervals *intervals, const char *path,
                                          struct cs_err *err);
void cs_intervals_release(struct cs_intervals *intervals);
/** The interval of a chip's runs; NULL when no kind has enough of them. Borrowed. */
const struct cs_interval *cs_intervals_of(const struct cs_intervals *intervals, const char *chip,
                                          bool experts);

#endif
