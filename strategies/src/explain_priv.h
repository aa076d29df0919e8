/**
 * @file explain_priv.h
 * Parts of an explanation.
 */
#ifndef CS_STRATEGIES_EXPLAIN_PRIV_H
#define CS_STRATEGIES_EXPLAIN_PRIV_H

#include "cs/strategies/explain.h"

#include "searchers_priv.h"

/** What the closed form says of a candidate. */
struct cs__known {
    int64_t candidate; /* index in the space */
    int32_t set;       /* of collective algorithms */
    double time_s;     /* the guess */
    double bound_s;    /* no simulation takes less; 0 with jitter */
    int64_t memory_bytes;
    enum cs_outcome outcome; /* open where a simulation would tell, else why not */
    bool fits;               /* and keeps the constraints as far as is known without a simulation */
    bool is_proven;          /* keeps all constraints: no constraint needs a simulation, or one was made */
    bool is_coarse;          /* the guess is no more than the bound (struct cs_estimate) */
};

/** What a score is worse than the best: struct cs_shaken's lost_frac. */
double cs__lost_frac(double score /* @unit of the objective */,
                     double best_score /* @unit of the objective */);

/** Simulate candidates (n indices in the space) with sets of collective algorithms (sets[i]; NULL: as the
 * simulator runs) in worker processes; evaluations[i] is that of candidates[i],
 * failed where there is none. Errors: those of cs_pool_run. */
CS_MUST_CHECK cs_status cs__simulate_listed(struct cs_evaluation *evaluations,
                                            const struct cs_simulator *simulator,
                                            const struct cs_space *space, const int64_t *candidates,
                                            const int32_t *sets, int64_t n,
                                            const struct cs_explain_options *options, struct cs_err *err);

/** Find the front: fills n_front, front, n_front_simulated and front_is_whole, to be freed by
 * cs_explanation_release. Errors: those of cs_pool_run; then nothing is filled in. */
CS_MUST_CHECK cs_status cs__pareto(struct cs_explanation *out, const struct cs_space *space,
                                   const struct cs_search_result *result,
                                   const struct cs_simulator *simulator, const struct cs__known *known,
                                   int64_t n_known, const struct cs_explain_options *options,
                                   struct cs_err *err);

/** Simulate CS_EXPLAIN_CONTENDERS strategies (indices in the space, the winner first, -1 = none), and
 * shaken[i].best of the closed form, on every variant; where the winner can be simulated its place among them
 * replaces what `shaken` says. `run`: how the search ran. Errors: those of cs_simulator_init and
 * cs_pool_run. */
CS_MUST_CHECK cs_status cs__shake_simulated(struct cs_shaken *shaken, const struct cs_space *space,
                                            const int64_t *contenders, const struct cs_run_options *run,
                                            const struct cs_explain_options *options, struct cs_err *err);

#endif
