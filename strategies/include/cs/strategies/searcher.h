/**
 * @file searcher.h
 * Choice points of a search: which candidate next (algorithm), what is better (objective). Both are tables
 * with names; adding one is a file and a line.
 */
#ifndef CS_STRATEGIES_SEARCHER_H
#define CS_STRATEGIES_SEARCHER_H

#include "cs/strategies/evaluate.h"
#include "cs/strategies/space.h"

/** What is better. */
struct cs_objective {
    const char *name;
    const char *summary;
    bool higher_is_better;
    bool is_of_time; /* uncertain as a step's time is */
    /** @unit of the objective; finite for a simulated strategy. Depends on a step's time monotonously, and
     *  beside it on memory and what the study says only: a bound of the time gives one of the value. Pure. */
    double (*value)(const struct cs_metrics *metrics, const struct cs_study *study);
};
/** The value as a score (@unit of the objective): higher is better. */
double cs_objective_score(const struct cs_objective *objective, const struct cs_metrics *metrics,
                          const struct cs_study *study);
extern const struct cs_objective cs_objectives[]; /* ends with a NULL name; the first is the default */
const struct cs_objective *cs_objective_find(const char *name);
/** NULL-terminated, in the arena. */
const char *const *cs_objective_names(struct cs_arena *arena);

/** What the closed form says of a candidate before it is simulated. */
struct cs_outlook {
    bool fits;          /* keeps the rules, and its memory fits: only such candidates may be proposed */
    double bound_score; /* @unit of the objective: no simulation scores higher; infinity = nothing is known */
    double guess_score; /* @unit of the objective: what it probably scores; NaN = no idea */
    bool coarse;        /* the guess leaves out waiting between streams: a bound (cs_estimate.is_coarse) */
};

/** What an algorithm may look at. Borrowed for the algorithm's life. What it proposes, a "candidate" to it,
 * is a candidate of the space with one of the sets of collective algorithms that the study lists leave open:
 *  set * space->n_candidates + candidate. */
struct cs_search_problem {
    const struct cs_study *study;
    const struct cs_space *space;
    const struct cs_objective *objective;
    int32_t n_sets;                    /* at least 1 */
    int64_t n_candidates;              /* with each set */
    const struct cs_outlook *outlooks; /* per candidate */
    int64_t n_fit;                     /* candidates that fit */
    int64_t n_top;                     /* so many best ones are wanted */
    uint64_t seed;
};

static inline const struct cs_strategy *cs_problem_strategy(const struct cs_search_problem *problem,
                                                            int64_t candidate)
{
    return &problem->space->candidates[candidate % problem->space->n_candidates].strategy;
}

static inline int32_t cs_problem_set(const struct cs_search_problem *problem, int64_t candidate)
{
    return (int32_t)(candidate / problem->space->n_candidates);
}

/** next(): no candidate now, ask again when a proposed one has been told about. */
#define CS_SEARCH_LATER (-2)

/** An algorithm proposes candidates and is told what became of them, in the order of its proposals. */
struct cs_searcher {
    const char *name;
    const char *summary;
    bool proves; /* when next() says -1, nothing better is left in the space */
    void *(*create)(const struct cs_search_problem *problem);
    void (*destroy)(void *state);
    /** Index of the next candidate to look at, each at most once; -1 = no more, now and later; or
     *  CS_SEARCH_LATER. The caller skips what it need not simulate and tells about it all the same. */
    int64_t (*next)(void *state);
    /** Is a proposed candidate known by now not to matter? Asked in the order of proposals, after everything
     *  proposed before it has been told about; true: it counts as pruned, whatever became of it, so that
     *  results do not depend on how many were simulated side by side. May be NULL: never. */
    bool (*obsolete)(void *state, int64_t candidate);
    /** `score` (@unit of the objective) is higher for better ones; NaN unless the outcome is ok. May be NULL.
     */
    void (*tell)(void *state, int64_t candidate, const struct cs_evaluation *evaluation,
                 double score); /* @unit of the objective */
};
extern const struct cs_searcher *const cs_searchers[]; /* NULL-terminated; the first is the default */
const struct cs_searcher *cs_searcher_find(const char *name);
/** NULL-terminated, in the arena. */
const char *const *cs_searcher_names(struct cs_arena *arena);

#endif
