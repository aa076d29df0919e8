/**
 * @file explain_priv.h
 * Parts of an explanation.
 */
#ifndef CS_STRATEGIES_EXPLAIN_PRIV_H
#define CS_STRATEGIES_EXPLAIN_PRIV_H

#include "cs/strategies/explain.h"

/** Simulate CS_EXPLAIN_CONTENDERS strategies (indices in the space, the winner first, -1 = none), and
 * shaken[i].best of the closed form, on every variant; where the winner can be simulated its place among them
 * replaces what `shaken` says. `options`: how the search ran. Errors: those of cs_simulator_init and
 * cs_pool_run. */
CS_MUST_CHECK cs_status cs__shake_simulated(struct cs_shaken *shaken, const struct cs_space *space,
                                            const int64_t *contenders, const struct cs_study *const *variants,
                                            const struct cs_run_options *options, int32_t n_workers,
                                            struct cs_err *err);

#endif
