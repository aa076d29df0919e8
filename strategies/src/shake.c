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
    double score[CS_EXPLAIN_SHAKEN][CONTENDERS];      /* @unit of the objective */
    bool is_in[CS_EXPLAIN_SHAKEN][CONTENDERS]; /* simulated, and accepted by the study; the winner anyway */
    bool winner_breaks[CS_EXPLAIN_SHAKEN];
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
    const int64_t variant = job / CONTENDERS;
    const int64_t k = job % CONTENDERS;
    const struct cs_study *study = c->simulators[variant].study;
    (void)err; /* a contender that cannot be simulated, or breaks a rule of the study, is no contender */
    if (end == CS_JOB_DONE && evaluation->simulated && (k == 0 || evaluation->outcome == CS_OUTCOME_OK)) {
        c->is_in[variant][k] = true;
        c->winner_breaks[variant] = c->winner_breaks[variant] || evaluation->outcome != CS_OUTCOME_OK;
        c->score[variant][k] =
            cs_objective_score(cs_objective_find(study->search.objective), &evaluation->metrics, study);
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
    const double *score = c->score[variant];
    const bool *is_in = c->is_in[variant];
    double best_score = score[0];
    if (!is_in[0]) {
        return;
    }
    *shaken = (struct cs_shaken){.what = shaken->what,
                                 .factor = shaken->factor,
                                 .rank = 1,
                                 .best = c->candidate[variant][0],
                                 .winner_breaks = c->winner_breaks[variant],
                                 .n_simulated = 1};
    for (int32_t k = 1; k < CONTENDERS; k++) {
        if (!is_in[k]) {
            continue;
        }
        bool is_first_that_may = shaken->winner_breaks && shaken->n_simulated == 1;
        shaken->n_simulated++;
        shaken->rank += score[k] > score[0];
        if (score[k] > best_score || is_first_that_may) { /* a winner that breaks a rule is not the best */
            best_score = score[k];
            shaken->best = c->candidate[variant][k];
        }
    }
    shaken->lost_frac = cs__lost_frac(score[0], best_score);
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
