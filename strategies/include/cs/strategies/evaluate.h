/**
 * @file evaluate.h
 * One candidate's worth: what it takes, whether it fits and keeps the study's constraints.
 */
#ifndef CS_STRATEGIES_EVALUATE_H
#define CS_STRATEGIES_EVALUATE_H

#include "cs/engine/engine.h"
#include "cs/strategies/study.h"

/** Version of what a simulation says: raised with every change after which the same study may give other
 * figures (operations of a strategy, their times, collectives, replay, memory), so that stored results are
 * not taken for today's. Figures of chips and platforms are part of a study's own hash and need no new
 * version. */
#define CS_RESULTS_VERSION 6

enum cs_outcome {
    CS_OUTCOME_OPEN,     /* not looked at */
    CS_OUTCOME_OK,       /* runs, fits, keeps the constraints */
    CS_OUTCOME_OOM,      /* memory x margin is more than a device has */
    CS_OUTCOME_REJECTED, /* breaks a validity rule or a constraint */
    CS_OUTCOME_FAILED,   /* could not be computed: died, hung, refused by the engine */
    CS_N_OUTCOMES
};
/** "open", "ok", "oom", "rejected", "failed"; as JSON's `status` says it. */
extern const char *const cs_outcome_names[];

#define CS_RULE_MAX 48

/** A verdict with its figures. A plain value without pointers: it crosses process boundaries by its bytes. */
struct cs_evaluation {
    enum cs_outcome outcome;
    bool simulated;         /* metrics carry times, not only memory */
    bool estimated;         /* of times the step alone and what follows from it: the closed form's */
    bool state_alone;       /* out of memory with the model state alone: true of the whole family */
    char rule[CS_RULE_MAX]; /* short name, for counting; "" when ok */
    char reason[CS_REASON_MAX];
    struct cs_metrics metrics;
};

/** Judge figures: fills outcome, rule and reason of an evaluation whose metrics (and `simulated`) are set.
 *  Memory first, then constraints. Pure. */
void cs_evaluation_judge(struct cs_evaluation *evaluation, const struct cs_study *study);

/** The evaluator that simulates. Open record; borrowed parts must outlive it. */
struct cs_simulator {
    const struct cs_study *study;
    struct cs_routes *routes;
    struct cs_run_options options;
};

/** Platforms up to this many devices have all their routes asked for once, before workers are forked. */
#define CS_SIMULATOR_ALL_ROUTES_DEVICES 256

/** Get ready: `options` (copied) say how to run. Errors: those of cs_routes_need_all and, on platforms whose
 *  routes are all asked for, of cs_engine_check_links. */
CS_MUST_CHECK cs_status cs_simulator_init(struct cs_simulator *simulator, const struct cs_study *study,
                                          const struct cs_run_options *options, struct cs_err *err);
/** Safe on a zeroed struct and twice. */
void cs_simulator_release(struct cs_simulator *simulator);

/** Evaluate a valid strategy for a search: memory from the ledgers first, and only what fits is simulated
 *  (in this process: SimGrid may end it). Errors: those of cs_trace_build and cs_engine_run. */
CS_MUST_CHECK cs_status cs_simulator_evaluate(const struct cs_simulator *simulator,
                                              const struct cs_strategy *strategy,
                                              struct cs_evaluation *evaluation, struct cs_err *err);

/** Run a valid strategy whether it fits or not, and keep everything that the run says. The trace is there
 *  for its names. With fidelity analytic nothing runs: the evaluation is `estimated` by cost.h and the run is
 *  empty; CS_E_INPUT when there is no closed form of the strategy, or with slow devices, slow links, jitter.
 * @param[out] trace free with cs_trace_free. @param[out] run release with cs_run_release. */
CS_MUST_CHECK cs_status cs_simulator_run(const struct cs_simulator *simulator,
                                         const struct cs_strategy *strategy, struct cs_trace **trace,
                                         struct cs_run *run, struct cs_evaluation *evaluation,
                                         struct cs_err *err);

#endif
