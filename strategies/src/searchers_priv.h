/**
 * @file searchers_priv.h
 * The search algorithms, one file each; searcher.c lists them.
 */
#ifndef CS_STRATEGIES_SEARCHERS_PRIV_H
#define CS_STRATEGIES_SEARCHERS_PRIV_H

#include "cs/strategies/searcher.h"

/** Everything that no rule forbids, in strategy order. */
extern const struct cs_searcher cs__searcher_exhaustive;

#endif
