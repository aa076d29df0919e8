/* The winner's place on slightly different hardware, simulated: the best of the ranking, and what the closed
 * form takes for the best there. */
#include "explain_priv.h"

#include "cs/pool/pool.h"

#include <stdlib.h>
#include <string.h>

const struct cs_variant cs_explain_variants[CS_EXPLAIN_SHAKEN] = {
    {"compute", "what_if.compute", 1 - CS_EXPLAIN_SHAKE_FRAC},
    {"compute", "what_if.compute", 1 + CS_EXPLAIN_SHAKE_FRAC},
    {"bandwidth inside nodes", "what_if.intra_bandwidth", 1 - CS_EXPLAIN_SHAKE_FRAC},
    {"bandwidth inside nodes", "what_if.intra_bandwidth", 1 + CS_EXPLAIN_SHAKE_FRAC},
    {"bandwidth between nodes", "what_if.inter_bandwidth", 1 - CS_EXPLAIN_SHAKE_FRAC},
    {"bandwidth between nodes", "what_if.inter_bandwidth", 1 + CS_EXPLAIN_SHAKE_FRAC},
    {"latency", "what_if.latency", 1 - CS_EXPLAIN_SHAKE_FRAC},
    {"latency", "what_if.latency", 1 + CS_EXPLAIN_SHAKE_FRAC},
};

/* Strategies that are simulated on every variant: the best of the ranking, and one of the closed form. */
#define CONTENDERS (CS_EXPLAIN_CONTENDERS + 1)

struct contest {
    const struct cs_space *space;
    struct cs_simulator simulators[CS_EXPLAIN_SHAKEN];
    int64_t candidate[CS_EXPLAIN_SHAKEN][CONTENDERS]; /* -1 = none */
    double time_s[CS_EXPLAIN_SHAKEN][CONTENDERS];     /* 0 = not known */
    int64_t next;
};

static cs_status job(void *context, int64_t job, void *record, struct cs_err *err)
{
    struct contest *c = context;
    int64_t candidate = c->candidate[job / CONTENDERS][job % CONTENDERS];
    return cs_simulator_evaluate(&c->simulators[job / CONTENDERS], &c->space->candidates[candidate].strategy,
                                 record, err);
}

static int64_t next(void *context)
{
    struct contest *c = context;
    while (c->next < CS_EXPLAIN_SHAKEN * CONTENDERS &&
           c->candidate[c->next / CONTENDERS][c->next % CONTENDERS] < 0) {
        c->next++;
    }
    return c->next < CS_EXPLAIN_SHAKEN * CONTENDERS ? c->next++ : -1;
}

static bool done(void *context, int64_t job, enum cs_job_end end, const void *record,
                 const struct cs_err *err)
{
    struct contest *c = context;
    const struct cs_evaluation *evaluation = record;
    (void)err; /* a contender that cannot be simulated is no contender */
    if (end == CS_JOB_DONE && evaluation->simulated) {
        c->time_s[job / CONTENDERS][job % CONTENDERS] = evaluation->metrics.iteration_s;
    }
    return true;
}

static void choose(struct contest *c, const int64_t *contenders, const struct cs_shaken *shaken,
                   int32_t variant)
{
    bool is_in = false;
    for (int32_t k = 0; k < CONTENDERS; k++) {
        c->candidate[variant][k] = k < CS_EXPLAIN_CONTENDERS ? contenders[k] : -1;
        is_in = is_in || c->candidate[variant][k] == shaken->best;
    }
    c->candidate[variant][CONTENDERS - 1] = is_in ? -1 : shaken->best;
}

static void judge(const struct contest *c, int32_t variant, struct cs_shaken *shaken)
{
    const double *time_s = c->time_s[variant];
    double best_s = time_s[0];
    if (!(time_s[0] > 0)) {
        return;
    }
    *shaken = (struct cs_shaken){.what = shaken->what,
                                 .factor = shaken->factor,
                                 .rank = 1,
                                 .best = c->candidate[variant][0],
                                 .n_simulated = 1};
    for (int32_t k = 1; k < CONTENDERS; k++) {
        if (time_s[k] > 0) {
            shaken->n_simulated++;
            shaken->rank += time_s[k] < time_s[0];
        }
        if (time_s[k] > 0 && time_s[k] < best_s) {
            best_s = time_s[k];
            shaken->best = c->candidate[variant][k];
        }
    }
    shaken->lost_frac = 1 - best_s / time_s[0];
}

cs_status cs__shake_simulated(struct cs_shaken *shaken, const struct cs_space *space,
                              const int64_t *contenders, const struct cs_run_options *run,
                              const struct cs_explain_options *options, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct contest *c = cs_calloc(1, sizeof *c);
    const struct cs_pool_options pool = {.n_workers = options->n_workers,
                                         .record_bytes = sizeof(struct cs_evaluation),
                                         .job_limit_s = options->variants[0]->search.candidate_limit_s,
                                         .stop = options->stop};
    c->space = space;
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        CS_TRY(cs_simulator_init(&c->simulators[i], options->variants[i], run, err));
        choose(c, contenders, &shaken[i], i);
    }
    CS_TRY(cs_pool_run(&pool, job, next, done, c, err));
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        judge(c, i, &shaken[i]);
    }
out:
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        cs_simulator_release(&c->simulators[i]);
    }
    cs_free(c);
    return st;
}
