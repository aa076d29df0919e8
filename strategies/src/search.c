#include "cs/strategies/search.h"

#include "cs/pool/pool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct search {
    const struct cs_study *study;
    const struct cs_space *space;
    const struct cs_search_options *options;
    struct cs_search_result *result;
    void *algorithm;                   /* its state */
    struct cs_evaluation **family_oom; /* per family: the verdict when its model state alone does not fit */
    double started_s;
    int64_t ranked_cap;
    int32_t reasons_cap;
    int64_t best; /* index in result->ranking, -1 = none */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void count_reason(struct search *search, int64_t candidate, enum cs_outcome outcome, const char *rule,
                         const char *text, int64_t n)
{
    struct cs_search_result *result = search->result;
    struct cs_reason *reason = NULL;
    for (int32_t i = 0; i < result->n_reasons && !reason; i++) {
        if (result->reasons[i].outcome == outcome && strcmp(result->reasons[i].rule, rule) == 0) {
            reason = &result->reasons[i];
        }
    }
    if (!reason) {
        CS_GROW(result->reasons, result->n_reasons, search->reasons_cap);
        reason = &result->reasons[result->n_reasons++];
        *reason = (struct cs_reason){.outcome = outcome, .first = INT64_MAX};
        (void)snprintf(reason->rule, sizeof reason->rule, "%s", rule);
    }
    reason->n += n;
    if (candidate < reason->first) { /* results come in any order: the example must not depend on it */
        reason->first = candidate;
        (void)snprintf(reason->example, sizeof reason->example, "%s", text);
    }
}

static double score_of(const struct search *search, int64_t candidate, const struct cs_metrics *metrics)
{
    const struct cs_objective *objective = search->result->objective;
    double value = objective->value(metrics, &search->space->candidates[candidate].strategy);
    return objective->higher_is_better ? value : -value;
}

/* A fixed order of results: better first, then strategy order. */
static int compare_ranked(const void *a, const void *b)
{
    const struct cs_ranked *x = a;
    const struct cs_ranked *y = b;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static double rank(struct search *search, int64_t candidate, const struct cs_metrics *metrics)
{
    struct cs_search_result *result = search->result;
    struct cs_ranked ranked = {candidate, score_of(search, candidate, metrics), *metrics};
    CS_GROW(result->ranking, result->n_ranked, search->ranked_cap);
    result->ranking[result->n_ranked] = ranked;
    if (search->best < 0 || compare_ranked(&ranked, &result->ranking[search->best]) < 0) {
        search->best = result->n_ranked;
    }
    result->n_ranked++;
    return ranked.score;
}

static void show_progress(const struct search *search)
{
    const struct cs_search_result *result = search->result;
    if (!search->options->progress) {
        return;
    }
    const struct cs_ranked *best = search->best >= 0 ? &result->ranking[search->best] : NULL;
    struct cs_search_progress progress = {
        .n_open = search->space->n_open,
        .n_done = search->space->n_open - result->n_open,
        .n_simulated = result->n_simulated,
        .n_oom = result->n_oom,
        .n_failed = result->n_failed,
        .elapsed_s = now_s() - search->started_s,
        .best = best ? &best->metrics : NULL,
        .best_strategy = best ? &search->space->candidates[best->candidate].strategy : NULL,
    };
    search->options->progress(search->options->progress_context, &progress);
}

/* Book one candidate's evaluation. */
static void book(struct search *search, int64_t candidate, const struct cs_evaluation *evaluation)
{
    struct cs_search_result *result = search->result;
    double score = (double)NAN;
    result->n_open--;
    result->n_simulated += evaluation->simulated ? 1 : 0;
    switch (evaluation->outcome) {
    case CS_OUTCOME_OK:
        score = rank(search, candidate, &evaluation->metrics);
        break;
    case CS_OUTCOME_OOM:
        result->n_oom++;
        break;
    case CS_OUTCOME_REJECTED:
        result->n_rejected++;
        break;
    case CS_OUTCOME_FAILED:
        result->n_failed++;
        break;
    case CS_OUTCOME_OPEN:
    case CS_N_OUTCOMES:
        CS_ASSERT(false && "an evaluation has an outcome");
    }
    if (evaluation->outcome != CS_OUTCOME_OK) {
        count_reason(search, candidate, evaluation->outcome, evaluation->rule, evaluation->reason, 1);
    }
    if (result->algorithm->tell) {
        result->algorithm->tell(search->algorithm, candidate, evaluation, score);
    }
    show_progress(search);
}

/* In the worker. */
static cs_status evaluate_job(void *context, int64_t job, void *record, struct cs_err *err)
{
    struct search *search = context;
    return search->options->evaluate(search->options->evaluate_context,
                                     &search->space->candidates[job].strategy, record, err);
}

static int64_t next_job(void *context)
{
    struct search *search = context;
    for (;;) {
        int64_t candidate = search->result->algorithm->next(search->algorithm);
        if (candidate < 0) {
            return -1;
        }
        const struct cs_evaluation *known = search->family_oom[search->space->candidates[candidate].family];
        if (!known) {
            return candidate;
        }
        book(search, candidate, known); /* its siblings' model state alone did not fit */
    }
}

static bool job_done(void *context, int64_t job, enum cs_job_end end, const void *record,
                     const struct cs_err *err)
{
    struct search *search = context;
    struct cs_evaluation evaluation;
    if (end == CS_JOB_DONE) {
        memcpy(&evaluation, record, sizeof evaluation);
    } else {
        static const char *const rules[] = {
            [CS_JOB_FAILED] = "error", [CS_JOB_DIED] = "died", [CS_JOB_TIMEOUT] = "time-limit"};
        char text[CS_ERR_TEXT_MAX + CS_ERR_FILE_MAX + 64] = "";
        char strategy[192] = "";
        memset(&evaluation, 0, sizeof evaluation);
        evaluation.outcome = CS_OUTCOME_FAILED;
        cs_err_format(err, text, sizeof text);
        (void)cs_strategy_format(&search->space->candidates[job].strategy, strategy, sizeof strategy);
        (void)snprintf(evaluation.rule, sizeof evaluation.rule, "%s", rules[end]);
        (void)snprintf(evaluation.reason, sizeof evaluation.reason, "%.100s: %.150s", strategy, text);
    }
    struct cs_evaluation **known = &search->family_oom[search->space->candidates[job].family];
    if (evaluation.outcome == CS_OUTCOME_OOM && evaluation.state_alone && !*known) {
        *known = cs_malloc(sizeof evaluation);
        **known = evaluation;
    }
    book(search, job, &evaluation);
    return true;
}

static int compare_reasons(const void *a, const void *b)
{
    const struct cs_reason *x = a;
    const struct cs_reason *y = b;
    if (x->outcome != y->outcome) {
        return x->outcome < y->outcome ? -1 : 1;
    }
    if (x->n != y->n) {
        return x->n > y->n ? -1 : 1;
    }
    return strcmp(x->rule, y->rule);
}

/* The search begins with the verdicts of the rules. */
static void begin(struct search *search)
{
    const struct cs_space *space = search->space;
    struct cs_search_result *result = search->result;
    result->n_candidates = space->n_candidates;
    result->n_open = space->n_open;
    result->n_rejected = space->n_candidates - space->n_open;
    for (int32_t i = 0; i < space->n_rules; i++) {
        const struct cs_rule_count *rule = &space->rules[i];
        count_reason(search, rule->first, CS_OUTCOME_REJECTED, rule->rule, rule->example, rule->n);
    }
}

static void finish(struct search *search)
{
    struct cs_search_result *result = search->result;
    if (result->n_ranked > 0) {
        qsort(result->ranking, (size_t)result->n_ranked, sizeof *result->ranking, compare_ranked);
    }
    if (result->n_reasons > 0) {
        qsort(result->reasons, (size_t)result->n_reasons, sizeof *result->reasons, compare_reasons);
    }
    result->elapsed_s = now_s() - search->started_s;
    result->complete =
        result->algorithm->proves && result->end == CS_SEARCH_FINISHED && result->n_failed == 0;
}

cs_status cs_search_run(struct cs_search_result *result, const struct cs_study *study,
                        const struct cs_space *space, const struct cs_search_options *options,
                        struct cs_err *err)
{
    cs_status st = CS_OK;
    struct search search = {.study = study, .space = space, .options = options, .result = result, .best = -1};
    *result = (struct cs_search_result){.objective = cs_objective_find(study->search.objective),
                                        .algorithm = cs_searcher_find(study->search.algorithm)};
    CS_ASSERT(result->objective && result->algorithm && options->evaluate);
    struct cs_search_problem problem = {study, space, result->objective, study->search.seed};
    struct cs_pool_options pool = {.n_workers = options->n_workers,
                                   .record_bytes = sizeof(struct cs_evaluation),
                                   .job_limit_s = study->search.candidate_limit_s,
                                   .time_limit_s = study->search.time_limit_s,
                                   .stop = options->stop};
    search.started_s = now_s();
    search.family_oom = cs_calloc((size_t)space->n_families, sizeof *search.family_oom);
    search.algorithm = result->algorithm->create(&problem);
    begin(&search);
    st = cs_pool_run(&pool, evaluate_job, next_job, job_done, &search, err);
    if (st == CS_E_INTERRUPTED || st == CS_E_TIMEOUT) {
        result->end = st == CS_E_TIMEOUT ? CS_SEARCH_TIME_LIMIT : CS_SEARCH_INTERRUPTED;
        st = CS_OK;
    }
    finish(&search);
    result->algorithm->destroy(search.algorithm);
    for (int32_t i = 0; i < space->n_families; i++) {
        cs_free(search.family_oom[i]);
    }
    cs_free(search.family_oom);
    if (st != CS_OK) {
        cs_search_result_release(result);
    }
    return st;
}

void cs_search_result_release(struct cs_search_result *result)
{
    cs_free(result->ranking);
    cs_free(result->reasons);
    *result = (struct cs_search_result){0};
}
