/**
 * @file searchers_priv.h
 * The search algorithms, one file each; searcher.c lists them. And the order of what they find.
 */
#ifndef CS_STRATEGIES_SEARCHERS_PRIV_H
#define CS_STRATEGIES_SEARCHERS_PRIV_H

#include "cs/strategies/search.h"

/** Branch and bound. */
extern const struct cs_searcher cs__searcher_exhaustive;
/** Everything that no rule forbids and that fits, in strategy order. */
extern const struct cs_searcher cs__searcher_enumerate;
/** Expected improvement under a Gaussian process. */
extern const struct cs_searcher cs__searcher_bayes;
/** A genetic algorithm. */
extern const struct cs_searcher cs__searcher_evolutionary;
/** Everything in random order. */
extern const struct cs_searcher cs__searcher_random;
/** The best guesses until one is feasible: for a search whose time is over. Not listed. */
extern const struct cs_searcher cs__searcher_guesses;

/** Metrics of a step that takes `time_s` and `peak_memory_bytes`, as far as objectives read them. */
void cs__metrics_hope(struct cs_metrics *metrics, const struct cs_study *study, double time_s,
                      int64_t peak_memory_bytes);
/** Order of struct cs_ranked, for qsort: better first; of equal scores the faster, then the one that needs
 * less memory, so that the first is never beaten in both by another; then in strategy order. */
int cs__ranked_compare(const void *a, const void *b);

#endif
