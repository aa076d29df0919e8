/**
 * @file validate.h
 * Published cases against the simulator: every case run, errors, and what they have in common.
 */
#ifndef CS_STRATEGIES_VALIDATE_H
#define CS_STRATEGIES_VALIDATE_H

#include "cs/strategies/testbed.h"

#define CS_CASE_PATH_MAX 24

/** What running one case said. A plain value without pointers: it crosses process boundaries by its bytes. */
struct cs_case_run {
    bool ran;
    char reason[CS_REASON_MAX]; /* when it did not run */
    double simulated_s;         /* NaN when it did not run */
    double simulated_bytes;     /* memory rows: what memory_kind asks for */
    double analytic_s;          /* closed form; NaN when there is none */
    struct cs_metrics metrics;
    int32_t n_path;
    struct cs_path_share path[CS_CASE_PATH_MAX]; /* longest first */
};

struct cs_validate_options {
    int32_t n_workers;   /* 0: one a processor */
    double case_limit_s; /* wall clock of one case, 0 = none */
    const char *simgrid_cfg;
    const volatile bool *stop;
    const bool *wanted; /* cases->n flags, NULL = all */
    void (*progress)(void *context, int32_t done, int32_t of);
    void *progress_context;
};

/** Run the cases on the testbed's hardware, one child process a case: runs[i] belongs to cases->items[i] (the
 *  caller's, cases->n entries). A case that cannot be run is an entry that says why. Errors: those of
 * cs_pool_run and of making platforms. */
CS_MUST_CHECK cs_status cs_validate_run(const struct cs_cases *cases, const struct cs_testbed *bed,
                                        const struct cs_validate_options *options, struct cs_case_run *runs,
                                        struct cs_err *err);

#endif
