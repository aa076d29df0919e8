/**
 * @file explain.h
 * Why the winner of a search wins: where its time goes, what changing one key would cost, how firm the choice
 * is when the hardware is a little different, and where a user's own strategy loses.
 */
#ifndef CS_STRATEGIES_EXPLAIN_H
#define CS_STRATEGIES_EXPLAIN_H

#include "cs/strategies/search.h"

/** Neighbours that are simulated, those with the best guesses. */
#define CS_EXPLAIN_NEIGHBOURS_MAX 16
/** Ranked strategies that are closer to the winner than this share are ties: a model is not more exact. */
#define CS_EXPLAIN_TIE_FRAC 0.01
/** How much each hardware figure is varied, up and down. */
#define CS_EXPLAIN_SHAKE_FRAC 0.1

/** A strategy that differs from the winner in one key (dp makes up for it; op = dp stays op = dp). */
struct cs_neighbour {
    int64_t candidate; /* index in the space */
    int32_t key;       /* in cs_strategy_keys */
    enum cs_outcome outcome;
    double loss_frac; /* longer step time than the winner's, as a share of it */
};

/** The winner's place when one hardware figure is another, by the closed form among all that fit. */
struct cs_shaken {
    const char *what; /* "compute", "bandwidth inside nodes", ... */
    double factor;    /* @unit ratio to what the platform says */
    int64_t rank;     /* of the winner, 1 = still the best */
    int64_t best;     /* index in the space of the best one then */
    double lost_frac; /* what the winner is worse than that, as a share of its step time */
};
#define CS_EXPLAIN_SHAKEN 8

struct cs_explanation {
    struct cs_run winner; /* its path says where the time goes */
    int32_t n_neighbours;
    struct cs_neighbour neighbours[CS_EXPLAIN_NEIGHBOURS_MAX]; /* cheapest change first */
    struct cs_shaken shaken[CS_EXPLAIN_SHAKEN];
    int64_t n_ties; /* ranked strategies within CS_EXPLAIN_TIE_FRAC of the winner, without it */
    bool has_baseline;
    struct cs_strategy baseline;
    struct cs_evaluation baseline_evaluation;
    struct cs_run baseline_run;
    int64_t n_front;
    int64_t *front;  /* Pareto front of step time (closed form) and memory: indices, fastest first */
    double *front_s; /* step times */
    int64_t *front_bytes;
};

/** Explain a result with at least one ranked strategy. `baseline` (valid, may be NULL): the user's own. Cost:
 *  CS_EXPLAIN_NEIGHBOURS_MAX + 2 simulations, CS_EXPLAIN_SHAKEN + 1 closed forms of the space. Errors: those
 * of cs_simulator_run for the winner and the baseline. On failure *explanation is empty. The caller releases.
 */
CS_MUST_CHECK cs_status cs_explain(struct cs_explanation *explanation, const struct cs_study *study,
                                   const struct cs_space *space, const struct cs_search_result *result,
                                   const struct cs_simulator *simulator, const struct cs_strategy *baseline,
                                   struct cs_err *err);
/** Safe on a zeroed struct and twice. */
void cs_explanation_release(struct cs_explanation *explanation);

#endif
