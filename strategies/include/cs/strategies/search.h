/**
 * @file search.h
 * The search: candidates of a space through worker processes, ranked.
 */
#ifndef CS_STRATEGIES_SEARCH_H
#define CS_STRATEGIES_SEARCH_H

#include "cs/strategies/cost.h"
#include "cs/strategies/searcher.h"

/** How an evaluator is called, in a worker process. */
typedef cs_status (*cs_evaluate_fn)(void *context, const struct cs_strategy *strategy,
                                    struct cs_evaluation *evaluation, struct cs_err *err);

/** A memory of results beside the search: whoever calls cs_search_run may keep them. */
struct cs_search_memory {
    void *context;
    /** What follows is about results with this set of collective algorithms. NULL: there is but one. */
    void (*take_set)(void *context, int32_t set);
    /** Is there a result for this strategy? Then fill in its metrics and `simulated`; the verdict is made
     *  again. */
    bool (*lookup)(void *context, const struct cs_strategy *strategy, struct cs_evaluation *evaluation);
    /** Keep a result (never a failed one), as soon as it is there. */
    void (*save)(void *context, const struct cs_strategy *strategy, const struct cs_evaluation *evaluation);
    /** Keep why a candidate (its index in the space) was refused: by a rule, for its memory or its results,
     *  or because it failed. Once for each. May be NULL. */
    void (*refuse)(void *context, int64_t candidate, const struct cs_strategy *strategy,
                   enum cs_outcome outcome, const char *rule, const char *reason);
    /** What was refused so far is to be kept whatever happens. NULL where `refuse` is. */
    void (*settle)(void *context);
};

struct cs_search_progress {
    int64_t n_open; /* candidates to look at */
    int64_t n_done; /* of these */
    int64_t n_simulated;
    int64_t n_oom;
    int64_t n_failed;
    double elapsed_s;
    const struct cs_metrics *best; /* NULL while there is none */
    const struct cs_strategy *best_strategy;
};
typedef void (*cs_progress_fn)(void *context, const struct cs_search_progress *progress);

/** But for the first they need the closed form; only the first simulates. */
enum cs_search_mode {
    CS_SEARCH_SIMULATES,
    CS_SEARCH_ANALYTIC, /* ranks by the closed form; nothing is proven */
    CS_SEARCH_LOOKS     /* how rules and memory cut the space: what fits stays open */
};

/** Zero-initialised: all processors, no limits, silent. Pointers are borrowed. */
struct cs_search_options {
    int32_t n_workers;         /* 0 = one a processor */
    struct cs_remote *remote;  /* workers elsewhere (cs/pool/remote.h); NULL = processes here */
    const volatile bool *stop; /* set by a signal handler; may be NULL */
    cs_progress_fn progress;   /* after every candidate; may be NULL */
    void *progress_context;
    cs_evaluate_fn evaluate; /* must be given */
    void *evaluate_context;
    /** Called with evaluate_context in the worker, before `evaluate`: with which set of collective algorithms
     *  (cs_study_algorithm_set) from here on. NULL: the study's lists of algorithms leave nothing open, one
     * set is all there is. */
    void (*take_set)(void *evaluate_context, int32_t set);
    struct cs_cost *cost;                  /* the closed form; NULL = nothing is known beforehand */
    struct cs_cost *const *set_costs;      /* with take_set in place of `cost`: of each set; NULL likewise */
    const struct cs_search_memory *memory; /* NULL = none */
    enum cs_search_mode mode;
    double spent_s; /* of the study's time limit, before the search */
};

struct cs_ranked {
    int64_t candidate; /* index in the space */
    double score;      /* @unit of the objective, negated when lower is better */
    struct cs_metrics metrics;
    int32_t algorithm_set; /* cs_study_algorithm_set */
};

/** The rule of candidates whose workers died, with the outcome failed. */
#define CS_RULE_DIED "died"

/** Why candidates fell away, counted. */
struct cs_reason {
    enum cs_outcome outcome; /* oom, rejected or failed */
    char rule[CS_RULE_MAX];
    int64_t n;
    int64_t first; /* index in the space of the first in strategy order; its case is in `example` */
    char example[CS_REASON_MAX];
};

enum cs_search_end {
    CS_SEARCH_FINISHED,
    CS_SEARCH_TIME_LIMIT,
    CS_SEARCH_INTERRUPTED,
    CS_SEARCH_SIMULATION_LIMIT,
    CS_N_SEARCH_ENDS
};

/** What a search found, a candidate with each set of collective algorithms counting as one. candidates =
 * rejected by rules + oom + simulated + failed + pruned + open; an analytic one has simulated nothing and
 * ranks what fits, but what has no closed form, which is failed. */
struct cs_search_result {
    int64_t n_candidates;
    int64_t n_rejected; /* by validity rules, and simulated ones by constraints */
    int64_t n_oom;
    int64_t n_pruned; /* skipped with a proof */
    int64_t n_simulated;
    int64_t n_asked; /* simulations that count against the limit: also failed ones and those pruned since */
    int64_t n_remembered; /* of the simulated, taken from the memory of an earlier search */
    int64_t n_fit;        /* candidates whose memory fits, simulated or not; -1 without a closed form */
    int64_t n_looked;     /* candidates that the closed form looked at, of those that keep the rules; -1
                             without one. Fewer when the look had to end early */
    bool *looked_at;      /* per candidate of the space, when the look ended early; else NULL, all were */
    int64_t n_failed;
    int64_t n_open;  /* not decided: the search ended before */
    bool complete;   /* nothing better exists in the space */
    double gap_frac; /* how much better than the best, as a share of its score, what was looked at and is not
                        decided can be at most, by its bounds; 0 = not at all, NaN = nothing is known of it */
    bool analytic;   /* by the closed form alone */
    enum cs_search_end end;
    double elapsed_s;
    const struct cs_objective *objective;
    const struct cs_searcher *algorithm;
    int64_t n_ranked;
    struct cs_ranked *ranking; /* best first; equal scores: faster, less memory, strategy order */
    int32_t n_reasons;
    struct cs_reason *reasons; /* by outcome, then most frequent first, then by name */
};

/** A search that a time limit ends before it has found anything feasible goes on for so long at most, with
 *  the best guesses of the closed form, until one is. */
#define CS_SEARCH_GRACE_S 10.0

/** Search `space` as study->search says. A time limit or *stop is not an error: the result then says so and
 *  holds the best so far, and at least one of the guesses made so far, unless none is feasible or that takes
 *  longer than CS_SEARCH_GRACE_S (after *stop: 3 s, and none with workers elsewhere). An evaluator that
 * fails, dies or hangs costs its candidate only. The result does not depend on the number of workers unless
 * the search was cut short. CS_E_IO when no worker processes can be had; analytic: CS_E_INPUT when the study
 * or the run asks for what only a simulation knows. The caller releases. */
CS_MUST_CHECK cs_status cs_search_run(struct cs_search_result *result, const struct cs_study *study,
                                      const struct cs_space *space, const struct cs_search_options *options,
                                      struct cs_err *err);
/** Work for a search on another machine, whose driver has cs_search_options.remote: evaluate candidates that
 * come over `fd` until it closes. The study and the space are the driver's own; `hash` (cs_search_hash)
 * tells. */
void cs_search_serve(int fd, uint64_t hash, const struct cs_study *study, const struct cs_space *space,
                     const struct cs_search_options *options);
/** Hash of the candidates, to be mixed with one of everything else that results depend on. */
uint64_t cs_search_hash(const struct cs_space *space, uint64_t study_hash);
/** Safe on a zeroed struct and twice. */
void cs_search_result_release(struct cs_search_result *result);

#endif
