/**
 * @file search_priv.h
 * A search while it runs, for its parts.
 */
#ifndef CS_STRATEGIES_SEARCH_PRIV_H
#define CS_STRATEGIES_SEARCH_PRIV_H

#include "searchers_priv.h"

/** CS_SEARCH_GRACE_S after an interruption: the user waits. */
#define CS__GRACE_INTERRUPTED_S 3.0

/** A proposal on its way: results are booked in the order of proposals. */
struct cs__flight {
    int64_t candidate;
    bool landed;
    bool remembered; /* from the memory of an earlier search */
    struct cs_evaluation evaluation;
};

struct cs__search {
    const struct cs_study *study;
    const struct cs_space *space;
    const struct cs_search_options *options;
    struct cs_search_result *result;
    const struct cs_searcher *searcher; /* the result's algorithm, or what follows when time is over */
    void *algorithm;                    /* its state */
    struct cs_evaluation **family_oom;  /* per family: the verdict when its model state alone does not fit */
    double started_s;
    int64_t ranked_cap;
    int32_t reasons_cap;
    int64_t best; /* index in result->ranking, -1 = none */
    int32_t n_sets;
    int64_t n_entries;           /* candidates with each set: what algorithms and the pool call a candidate */
    struct cs_outlook *outlooks; /* per entry */
    bool *is_booked;             /* per entry */
    struct cs__flight *flights;  /* proposals that are not booked; from first_flight on */
    int64_t n_flights, cap_flights, first_flight;
    double failed_bound_score; /* highest bound of what failed; -infinity = nothing did */
    bool ended_by_limit;       /* of simulations */
};

/* Of a candidate for whose groups a study's collective algorithm is none. */
#define CS_RULE_ALGORITHM "collective-algorithm"

static inline int64_t cs__entry_candidate(const struct cs__search *search, int64_t entry)
{
    return entry % search->space->n_candidates;
}

static inline int32_t cs__entry_set(const struct cs__search *search, int64_t entry)
{
    return (int32_t)(entry / search->space->n_candidates);
}

static inline const struct cs_strategy *cs__entry_strategy(const struct cs__search *search, int64_t entry)
{
    return &search->space->candidates[cs__entry_candidate(search, entry)].strategy;
}

/** The closed form of a set, NULL = none. */
static inline struct cs_cost *cs__set_cost(const struct cs__search *search, int32_t set)
{
    return search->n_sets > 1 ? search->options->set_costs ? search->options->set_costs[set] : NULL
                              : search->options->cost;
}

double cs__now_s(void);
double cs__search_score(const struct cs__search *search, const struct cs_metrics *metrics);
/** Count a verdict. Returns the score, NaN unless it is ok. */
double cs__search_count(struct cs__search *search, int64_t entry, const struct cs_evaluation *evaluation);
/** The reasons so far are to be kept. */
void cs__search_settle(const struct cs__search *search);
void cs__search_show(const struct cs__search *search);

/** What is known before the first simulation: fills the outlooks and what `problem` says of them. Ends early,
 *  with result->end set, when the share of the time limit that looking may take is over or *stop is set. */
CS_MUST_CHECK cs_status cs__look_ahead(struct cs__search *search, struct cs_search_problem *problem,
                                       struct cs_err *err);

#endif
