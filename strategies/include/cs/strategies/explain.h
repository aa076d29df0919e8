/**
 * @file explain.h
 * Why the winner of a search wins: where its time goes, what changing one key would cost, how firm the choice
 * is when the hardware is a little different, and where a user's own strategy loses.
 */
#ifndef CS_STRATEGIES_EXPLAIN_H
#define CS_STRATEGIES_EXPLAIN_H

#include "cs/strategies/search.h"

/** Neighbours that are shown, those with the best guesses. */
#define CS_EXPLAIN_NEIGHBOURS_MAX 32
/** Simulations for the Pareto front at most, beside those of the search. */
#define CS_EXPLAIN_FRONT_SIMULATIONS_MAX 128
/** Of the ranking, so many are simulated on other hardware. */
#define CS_EXPLAIN_CONTENDERS 8
/** What a simulation can be trusted to where no published runs tell. */
#define CS_EXPLAIN_TIE_FRAC 0.01
/** How much each hardware figure is varied, up and down. */
#define CS_EXPLAIN_SHAKE_FRAC 0.1

/** A strategy that differs from the winner in one key (dp makes up for it; op = dp stays op = dp). */
#define CS_EXPLAIN_KEY_COLL 1000
struct cs_neighbour {
    int64_t candidate; /* index in the space */
    int32_t key; /* in cs_strategy_keys; CS_EXPLAIN_KEY_COLL + kind: the algorithm of a kind of collective */
    int32_t algorithm_set; /* cs_study_algorithm_set */
    enum cs_outcome outcome;
    double worse_frac; /* the objective's value is worse than the winner's, as a share of it; NaN unless
                          simulated */
    double loss_frac;  /* longer step time than the winner's, as a share of it; NaN unless simulated */
    int64_t peak_memory_bytes; /* of one that does not fit: why */
};

/** A strategy that no other beats in time and memory both. */
struct cs_front_point {
    int64_t candidate; /* index in the space */
    int32_t algorithm_set;
    double time_s; /* of a step */
    int64_t memory_bytes;
    bool simulated; /* else the time is the closed form's bound */
};

/** The winner's place, by the objective, when one hardware figure is another: among the best of the ranking
 * by simulation, or by the closed form among all that it covers. Only what keeps the study's constraints
 * there (closed form, where constraints need a simulation: here) ranks beside the winner. */
struct cs_shaken {
    const char *what;    /* "compute", "bandwidth inside nodes", ... */
    double factor;       /* @unit ratio to what the platform says */
    int32_t n_simulated; /* contenders; 0 = by the closed form */
    int64_t rank;        /* of the winner, 1 = still the best, 0 = it has no closed form to tell */
    int64_t best;        /* index in the space of the best one then */
    bool winner_breaks;  /* a constraint on results; seen by simulation only */
    double lost_frac;    /* what the winner is worse than that, as a share of the better value when higher is
                            better, else of its own */
};
#define CS_EXPLAIN_SHAKEN 8

/** Which hardware figure is changed: the key of a study, and by what. */
struct cs_variant {
    const char *what;
    const char *key;
    double factor; /* @unit ratio */
};
extern const struct cs_variant cs_explain_variants[CS_EXPLAIN_SHAKEN];

/** Strategies whose scores differ by less than this share cannot be told apart: half the width of the
 * interval in which published runs of this chip lie (study->interval), else CS_EXPLAIN_TIE_FRAC. An upper
 * bound: what a chip's runs have in common does not change the order of strategies. CS_EXPLAIN_TIE_FRAC for
 * an objective that is not of time. */
double cs_explain_tie_frac(const struct cs_study *study);

struct cs_explanation {
    struct cs_run winner; /* its path says where the time goes */
    int32_t n_neighbours;
    struct cs_neighbour neighbours[CS_EXPLAIN_NEIGHBOURS_MAX]; /* cheapest change first */
    struct cs_shaken shaken[CS_EXPLAIN_SHAKEN];
    int64_t n_ties; /* ranked strategies, that is of the simulated, within cs_explain_tie_frac of the
                       winner, without it */
    bool has_baseline;
    struct cs_strategy baseline;
    struct cs_evaluation baseline_evaluation;
    struct cs_run baseline_run;
    int64_t n_front;
    struct cs_front_point
        *front;          /* Pareto front of step time and memory, fastest first, the winner among them */
    bool front_is_whole; /* of everything that fits; else (nothing proven) of what was simulated */
    int64_t n_front_simulated; /* simulations that it took */
};

/** Zero-initialised: no baseline, closed form alone, all processors. Borrowed. */
struct cs_explain_options {
    const struct cs_strategy *baseline;     /* valid: the user's own; NULL = none */
    const struct cs_study *const *variants; /* the study with each of cs_explain_variants, for simulations on
                                               other hardware; NULL = the closed form says */
    struct cs_cost *cost;                   /* that the search was made with; NULL = a new one */
    struct cs_cost *const *set_costs;       /* of a search with several sets of algorithms, each one's */
    int32_t n_workers;                      /* 0 = one a processor */
    const volatile bool *stop;              /* set by a signal handler; may be NULL */
};

/** Explain a result with at least one ranked strategy. Cost: at most CS_EXPLAIN_NEIGHBOURS_MAX +
 * CS_EXPLAIN_FRONT_SIMULATIONS_MAX + 2 simulations and those on other hardware; CS_EXPLAIN_SHAKEN + 1 closed
 * forms of the space. Errors: those of cs_simulator_run for the winner and the baseline, CS_E_INTERRUPTED
 * after *stop. On failure *explanation is empty. The caller releases.
 */
CS_MUST_CHECK cs_status cs_explain(struct cs_explanation *explanation, const struct cs_study *study,
                                   const struct cs_space *space, const struct cs_search_result *result,
                                   const struct cs_simulator *simulator,
                                   const struct cs_explain_options *options, struct cs_err *err);
/** Safe on a zeroed struct and twice. */
void cs_explanation_release(struct cs_explanation *explanation);

#endif
