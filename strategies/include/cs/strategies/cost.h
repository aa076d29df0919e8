/**
 * @file cost.h
 * The closed form: what a strategy takes, without simulating it, in microseconds.
 *
 * Operator times (cs_chip_op_time_s), collectives (cs_coll_plan_build and the closed form of collective.h)
 * and the operations themselves (cs/workloads/stage_cost.h) are those of the simulator. What is left out is
 * contention: nothing here waits for somebody else's traffic, but for what a rank's own weights and gradients
 * need of its NIC together.
 *
 * The time is that of a max-plus system: one rank of every stage, those whose other coordinates are 0; a
 * pass begins when the pass before it and what it waits for have ended; a message, a gathered weight and a
 * scattered gradient follow each other on their streams. Every wait in it is a wait of the simulated program,
 * every duration is at most the simulated one (a flow never gets more than a link's bandwidth), and the end
 * of a max-plus system does not decrease when a duration grows or a wait is added: the result is a lower
 * bound of the simulated step.
 *
 * A strategy outside cs_stage_cost_covers gets what its trace says (cost_trace.c): exact memory and a weaker
 * bound, in a millisecond instead of microseconds.
 */
#ifndef CS_STRATEGIES_COST_H
#define CS_STRATEGIES_COST_H

#include "cs/engine/engine.h"

/** Hardware changed by factors, for asking how firm a choice is; 1 = as the platform says. */
struct cs_cost_scale {
    double compute;     /* @unit ratio of operator speed */
    double intra_bytes; /* @unit ratio of bandwidth inside nodes */
    double inter_bytes; /* @unit ratio of bandwidth between nodes */
    double latency;     /* @unit ratio of latencies and fixed costs of collectives */
};
#define CS_COST_SCALE_NONE ((struct cs_cost_scale){1, 1, 1, 1})

/** What the closed form says of a strategy. */
struct cs_estimate {
    double bound_s;            /* no simulation takes less; 0 with jitter */
    double time_s;             /* the guess: the bound without its allowance for rounding */
    int64_t peak_memory_bytes; /* of the fullest rank, as the ledger has it; runtime's reserve included.
                                  A lower bound when devices differ */
    double state_bytes;        /* of that, the model state of the fullest rank */
    const char *refusal; /* NULL, or why it cannot run: an algorithm of the options is none for one of its
                            groups (the first such group met); the times are then without meaning. Borrowed
                            from the closed form */
    bool is_coarse; /* the parts do not cover the strategy (cs_stage_cost_covers, lists apart): the longest of
                       what its streams and its NIC have to do alone, with the filling of the pipeline; a
                       weaker bound and no guess */
};

struct cs_cost; /* opaque: parts of strategies, kept by what they depend on */

/** Everything is borrowed. Of the options the algorithms matter. With jitter there is no bound: every
 *  cs_estimate.bound_s is then 0. The caller frees with cs_cost_free. */
struct cs_cost *cs_cost_new(const struct cs_model *model, const struct cs_training *training,
                            struct cs_routes *routes, const struct cs_run_options *options,
                            const struct cs_cost_scale *scale);
void cs_cost_free(struct cs_cost *cost);
/** Asked between strategies: is it time to end? */
typedef bool (*cs_watch_fn)(void *context);
/** cs_cost_prepare ends early once `is_over` (called with `context`, both borrowed) says so; NULL = never. */
void cs_cost_watch(struct cs_cost *cost, cs_watch_fn is_over, void *context);
/** Strategies whose peak is above this, in bytes as in cs_estimate, will not be run: where a trace is needed
 * it is looked at for memory only, and their times are 0. Before anything is prepared; without it: infinity.
 */
void cs_cost_limit(struct cs_cost *cost, double peak_memory_bytes);
/** The options it was made with. Borrowed. */
const struct cs_run_options *cs_cost_options(const struct cs_cost *cost);

/** Does the closed form take microseconds for this strategy, not a millisecond for its trace? */
bool cs_cost_is_quick(const struct cs_cost *cost, const struct cs_strategy *strategy);

/** Derive the parts of these strategies (each valid by cs_strategy_check) and ask for all routes that they
 *  need, at once.
 *  @param[out] n_prepared how many, the first ones: fewer than n when cs_cost_watch's function said so. NULL:
 *  that is then CS_E_INTERRUPTED. Errors: those of cs_routes_need. */
CS_MUST_CHECK cs_status cs_cost_prepare(struct cs_cost *cost, const struct cs_strategy *const *strategies,
                                        int64_t n, int64_t *n_prepared, struct cs_err *err);

/** Estimate a strategy that was prepared. Cost a few microseconds, O(layers + stages^2). */
void cs_cost_estimate(struct cs_cost *cost, const struct cs_strategy *strategy, struct cs_estimate *estimate);

#endif
