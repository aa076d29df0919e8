/* What validation and calibration share. */
#ifndef CS_STRATEGIES_VALIDATE_PRIV_H
#define CS_STRATEGIES_VALIDATE_PRIV_H

#include "cs/strategies/validate.h"

/** Clusters that cases run on, each once. */
struct cs__sites {
    int32_t n;
    struct cs_site *items;
    int32_t *of_case; /* -1 = cannot be run */
};
CS_MUST_CHECK cs_status cs__sites_init(struct cs__sites *sites, const struct cs_cases *cases,
                                       const bool *wanted, const struct cs_testbed *bed,
                                       const char *simgrid_cfg, struct cs_err *err);
void cs__sites_release(struct cs__sites *sites);

/** The step of a case. The caller frees with cs_trace_free. */
CS_MUST_CHECK cs_status cs__case_trace(const struct cs_case *c, struct cs_trace **trace, struct cs_err *err);

/** Quantile of n >= 1 sorted values, linear between them (Hyndman and Fan, 1996, type 7). */
double cs__quantile(const double *sorted, int32_t n, double q);

#endif
