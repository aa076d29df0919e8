/* Candidates that are simulated because an explanation asks for them. */
#include "explain_priv.h"

#include "cs/pool/pool.h"

#include <string.h>

struct listed {
    const struct cs_simulator *simulator;
    const struct cs_space *space;
    const int64_t *candidates;
    const int32_t *sets; /* NULL = none */
    int64_t n, at;
    struct cs_evaluation *evaluations;
};

static cs_status job(void *context, int64_t job, void *record, struct cs_err *err)
{
    struct listed *l = context;
    struct cs_simulator simulator = *l->simulator;
    if (l->sets) {
        cs_study_algorithm_set(simulator.study, l->sets[job], simulator.options.algorithm);
    }
    return cs_simulator_evaluate(&simulator, &l->space->candidates[l->candidates[job]].strategy, record, err);
}

static int64_t next(void *context)
{
    struct listed *l = context;
    return l->at < l->n ? l->at++ : -1;
}

static bool done(void *context, int64_t job, enum cs_job_end end, const void *record,
                 const struct cs_err *err)
{
    struct listed *l = context;
    (void)err; /* what cannot be simulated stays failed */
    if (end == CS_JOB_DONE) {
        memcpy(&l->evaluations[job], record, sizeof *l->evaluations);
    }
    return true;
}

cs_status cs__simulate_listed(struct cs_evaluation *evaluations, const struct cs_simulator *simulator,
                              const struct cs_space *space, const int64_t *candidates, const int32_t *sets,
                              int64_t n, const struct cs_explain_options *options, struct cs_err *err)
{
    struct listed l = {simulator, space, candidates, sets, n, 0, evaluations};
    const struct cs_pool_options pool = {.n_workers = options->n_workers,
                                         .record_bytes = sizeof *evaluations,
                                         .job_limit_s = simulator->study->search.candidate_limit_s,
                                         .stop = options->stop};
    for (int64_t i = 0; i < n; i++) {
        memset(&evaluations[i], 0, sizeof evaluations[i]);
        evaluations[i].outcome = CS_OUTCOME_FAILED;
    }
    return n > 0 ? cs_pool_run(&pool, job, next, done, &l, err) : CS_OK;
}
