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
    /** @unit of the objective; finite for a simulated strategy. Pure. */
    double (*value)(const struct cs_metrics *metrics, const struct cs_strategy *strategy);
};
extern const struct cs_objective cs_objectives[]; /* ends with a NULL name; the first is the default */
const struct cs_objective *cs_objective_find(const char *name);
/** NULL-terminated, in the arena. */
const char *const *cs_objective_names(struct cs_arena *arena);

/** What an algorithm may look at. Borrowed for the algorithm's life. */
struct cs_search_problem {
    const struct cs_study *study;
    const struct cs_space *space;
    const struct cs_objective *objective;
    uint64_t seed;
};

/** An algorithm proposes candidates and is told what became of them, in any order. */
struct cs_searcher {
    const char *name;
    const char *summary;
    bool proves; /* when next() says -1, nothing better is left in the space */
    void *(*create)(const struct cs_search_problem *problem);
    void (*destroy)(void *state);
    /** Index of the next candidate to look at, each at most once; -1 = no more, now and later. The caller
     *  skips what it need not simulate and tells about it all the same. */
    int64_t (*next)(void *state);
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
