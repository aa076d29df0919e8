/**
 * @file errors.h
 * How far predictions are from measurements, and what they have in common.
 */
#ifndef CS_STRATEGIES_ERRORS_H
#define CS_STRATEGIES_ERRORS_H

#include "cs/strategies/validate.h"

/** Errors of a set of cases. Error = predicted / measured - 1. */
struct cs_error_set {
    const char *kind; /* "all", "generation", "hardware", "source", "dimension" */
    const char *name; /* "MindFormers / atlas-800t-a2", "pipeline" */
    int32_t n;
    double mape_frac, median_ape_frac, bias_frac; /* mean |error|, median |error|, mean error */
    double low_frac, high_frac; /* 10th and 90th percentile of measured / predicted: the interval */
    double analytic_mape_frac;  /* NaN without closed form */
    int32_t n_sure;             /* of cases that nobody doubts; the next two are NaN when there are none */
    double sure_mape_frac, sure_bias_frac;
};

/** Runs of one model on one hardware by one source: is their order right? Of kind "strategies", batch,
 * sequence and number of devices are equal too, so that only strategies (and releases) differ. */
struct cs_rank_set {
    const char *kind; /* "model", "strategies" */
    const char *name;
    int32_t n;
    int32_t n_sure;          /* of cases that nobody doubts */
    double sure_spearman;    /* @unit rank correlation of these; NaN as spearman, and for fewer than two */
    double spearman;         /* @unit rank correlation, -1 .. 1; NaN when all predictions, or all
                                measurements, are equal */
    double top1_regret_frac; /* the best by prediction is so much slower than the best measured; of equal
                                predictions the slowest counts */
    double top5_regret_frac; /* the best measured of the five best by prediction */
};

/** Zero-initialised is empty. */
struct cs_errors {
    struct cs_arena arena;
    int32_t n_sets;
    struct cs_error_set *sets; /* the first is of all */
    int32_t n_ranks;
    struct cs_rank_set *ranks; /* sets of five and more */
};
#define CS_RANK_SET_MIN 5

/** Sum up. predicted_s[i] belongs to cases->items[i], NaN = none; analytic_s may be NULL. Memory rows are
 * left out. */
void cs_errors_find(struct cs_errors *errors, const struct cs_cases *cases, const double *predicted_s,
                    const double *analytic_s);
void cs_errors_release(struct cs_errors *errors);
/** The set of a case's source and hardware; NULL when it has none. */
const struct cs_error_set *cs_errors_of(const struct cs_errors *errors, const struct cs_case *c);

#endif
