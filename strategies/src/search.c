#include "cs/strategies/search.h"

#include "analytic_priv.h"
#include "search_priv.h"

#include "cs/base/text.h"
#include "cs/pool/pool.h"
#include "cs/pool/remote.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A limit of 0 would be none. */
#define LEAST_TIME_S 1e-6

double cs__now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void count_reason(struct cs__search *search, int64_t candidate, enum cs_outcome outcome,
                         const char *rule, const char *text, int64_t n)
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

double cs__search_score(const struct cs__search *search, const struct cs_metrics *metrics)
{
    return cs_objective_score(search->result->objective, metrics, search->study);
}

static double rank(struct cs__search *search, int64_t entry, const struct cs_metrics *metrics)
{
    struct cs_search_result *result = search->result;
    struct cs_ranked ranked = {cs__entry_candidate(search, entry), cs__search_score(search, metrics),
                               *metrics, cs__entry_set(search, entry)};
    CS_GROW(result->ranking, result->n_ranked, search->ranked_cap);
    result->ranking[result->n_ranked] = ranked;
    if (search->best < 0 || cs__ranked_compare(&ranked, &result->ranking[search->best]) < 0) {
        search->best = result->n_ranked;
    }
    result->n_ranked++;
    return ranked.score;
}

void cs__search_show(const struct cs__search *search)
{
    const struct cs_search_result *result = search->result;
    if (!search->options->progress) {
        return;
    }
    const struct cs_ranked *best = search->best >= 0 ? &result->ranking[search->best] : NULL;
    struct cs_search_progress progress = {
        .n_open = search->n_sets * search->space->n_open,
        .n_done = search->n_sets * search->space->n_open - result->n_open,
        .n_simulated = result->n_simulated,
        .n_oom = result->n_oom,
        .n_failed = result->n_failed,
        .elapsed_s = cs__now_s() - search->started_s,
        .best = best ? &best->metrics : NULL,
        .best_strategy = best ? &search->space->candidates[best->candidate].strategy : NULL,
    };
    search->options->progress(search->options->progress_context, &progress);
}

/* The memory of results, made to speak of an entry's set; NULL = there is none. */
static const struct cs_search_memory *memory_of(const struct cs__search *search, int64_t entry)
{
    const struct cs_search_memory *memory = search->options->memory;
    if (memory && memory->take_set) {
        memory->take_set(memory->context, cs__entry_set(search, entry));
    }
    return memory;
}

/* Whoever keeps results keeps the reasons too. */
static void note_refusal(const struct cs__search *search, int64_t entry, enum cs_outcome outcome,
                         const char *rule, const char *reason)
{
    const struct cs_search_memory *memory = search->options->memory;
    if (memory && memory->refuse) {
        memory_of(search, entry)
            ->refuse(memory->context, cs__entry_candidate(search, entry), cs__entry_strategy(search, entry),
                     outcome, rule, reason);
    }
}

void cs__search_settle(const struct cs__search *search)
{
    const struct cs_search_memory *memory = search->options->memory;
    if (memory && memory->settle) {
        memory->settle(memory->context);
    }
}

double cs__search_count(struct cs__search *search, int64_t entry, const struct cs_evaluation *evaluation)
{
    struct cs_search_result *result = search->result;
    double score = (double)NAN;
    result->n_open--;
    result->n_simulated += evaluation->simulated ? 1 : 0;
    switch (evaluation->outcome) {
    case CS_OUTCOME_OK:
        score = rank(search, entry, &evaluation->metrics);
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
        count_reason(search, cs__entry_candidate(search, entry), evaluation->outcome, evaluation->rule,
                     evaluation->reason, 1);
        note_refusal(search, entry, evaluation->outcome, evaluation->rule, evaluation->reason);
    }
    return score;
}

/* Book one proposal. */
static void book(struct cs__search *search, const struct cs__flight *flight)
{
    struct cs_search_result *result = search->result;
    const struct cs_searcher *searcher = search->searcher;
    search->is_booked[flight->candidate] = true;
    if (flight->evaluation.outcome == CS_OUTCOME_FAILED) { /* what it would have scored stays unknown */
        search->failed_bound_score =
            fmax(search->failed_bound_score, search->outlooks[flight->candidate].bound_score);
    }
    if (searcher->obsolete && searcher->obsolete(search->algorithm, flight->candidate)) {
        result->n_open--;
        result->n_pruned++;
        return;
    }
    result->n_remembered += flight->remembered ? 1 : 0;
    double score = cs__search_count(search, flight->candidate, &flight->evaluation);
    if (searcher->tell) {
        searcher->tell(search->algorithm, flight->candidate, &flight->evaluation, score);
    }
    if (flight->evaluation.outcome != CS_OUTCOME_OK) {
        cs__search_settle(search);
    }
    cs__search_show(search);
}

/* Book what has landed, in order. With `all` what is still in the air is passed over: the search was cut
 * short. */
static void book_landed(struct cs__search *search, bool all)
{
    while (search->first_flight < search->n_flights &&
           (search->flights[search->first_flight].landed || all)) {
        struct cs__flight flight = search->flights[search->first_flight++];
        if (flight.landed) {
            book(search, &flight);
        }
    }
    if (search->first_flight == search->n_flights) {
        search->first_flight = search->n_flights = 0;
    }
}

/* A new proposal. */
static struct cs__flight *take_off(struct cs__search *search, int64_t candidate)
{
    CS_GROW(search->flights, search->n_flights, search->cap_flights);
    struct cs__flight *flight = &search->flights[search->n_flights++];
    memset(flight, 0, sizeof *flight);
    flight->candidate = candidate;
    return flight;
}

/* In the worker. */
static cs_status evaluate_job(void *context, int64_t job, void *record, struct cs_err *err)
{
    struct cs__search *search = context;
    const struct cs_search_options *options = search->options;
    if (options->take_set) {
        options->take_set(options->evaluate_context, cs__entry_set(search, job));
    }
    return options->evaluate(options->evaluate_context, cs__entry_strategy(search, job), record, err);
}

/* What is known of a candidate without simulating it; false when nothing is. */
static bool is_known(struct cs__search *search, int64_t entry, struct cs__flight *flight)
{
    const struct cs_search_memory *memory = memory_of(search, entry);
    const struct cs_candidate *c = &search->space->candidates[cs__entry_candidate(search, entry)];
    const struct cs_evaluation *family = search->family_oom[c->family];
    if (family) { /* its siblings' model state alone did not fit */
        flight->evaluation = *family;
        return true;
    }
    if (memory && memory->lookup(memory->context, &c->strategy, &flight->evaluation)) {
        flight->remembered = flight->evaluation.simulated;
        cs_evaluation_judge(&flight->evaluation, search->study);
        return true;
    }
    return false;
}

static int64_t next_job(void *context)
{
    struct cs__search *search = context;
    int64_t limit = search->study->search.simulation_limit;
    for (;;) {
        if (limit > 0 && search->result->n_asked >= limit) {
            search->ended_by_limit = true;
            return -1;
        }
        int64_t candidate = search->searcher->next(search->algorithm);
        if (candidate < 0) {
            return candidate == CS_SEARCH_LATER ? CS_JOB_LATER : -1;
        }
        struct cs__flight *flight = take_off(search, candidate);
        if (!is_known(search, candidate, flight)) {
            search->result->n_asked++;
            return candidate;
        }
        search->result->n_asked +=
            flight->evaluation.simulated ? 1 : 0; /* so that a limit means the same run */
        flight->landed = true;
        book_landed(search, false);
    }
}

/* What a job that did not report comes to. */
static void fill_failure(const struct cs__search *search, int64_t job, enum cs_job_end end,
                         const struct cs_err *err, struct cs_evaluation *evaluation)
{
    static const char *const rules[] = {
        [CS_JOB_FAILED] = "error", [CS_JOB_DIED] = CS_RULE_DIED, [CS_JOB_TIMEOUT] = "time-limit"};
    char text[CS_ERR_TEXT_MAX + CS_ERR_FILE_MAX + 64] = "";
    char strategy[192] = "";
    memset(evaluation, 0, sizeof *evaluation);
    evaluation->outcome = CS_OUTCOME_FAILED;
    cs_err_format(err, text, sizeof text);
    (void)cs_strategy_format(cs__entry_strategy(search, job), strategy, sizeof strategy);
    bool refused = end == CS_JOB_FAILED && err->code == CS_E_INPUT && search->n_sets > 1;
    if (refused) { /* one of the study's algorithms is none for this strategy's groups: another is */
        evaluation->outcome = CS_OUTCOME_REJECTED;
    }
    (void)snprintf(evaluation->rule, sizeof evaluation->rule, "%s", refused ? CS_RULE_ALGORITHM : rules[end]);
    (void)snprintf(evaluation->reason, sizeof evaluation->reason, "%.100s: %.150s", strategy, text);
}

static bool job_done(void *context, int64_t job, enum cs_job_end end, const void *record,
                     const struct cs_err *err)
{
    struct cs__search *search = context;
    const struct cs_search_memory *memory = memory_of(search, job);
    const struct cs_candidate *candidate = &search->space->candidates[cs__entry_candidate(search, job)];
    struct cs__flight *flight = &search->flights[search->first_flight];
    while (flight->candidate != job) {
        flight++;
    }
    struct cs_evaluation *evaluation = &flight->evaluation;
    flight->landed = true;
    if (end == CS_JOB_DONE) {
        memcpy(evaluation, record, sizeof *evaluation);
        if (memory) {
            memory->save(memory->context, &candidate->strategy, evaluation);
        }
    } else {
        fill_failure(search, job, end, err, evaluation);
    }
    struct cs_evaluation **known = &search->family_oom[candidate->family];
    if (evaluation->outcome == CS_OUTCOME_OOM && evaluation->state_alone && !*known) {
        *known = cs_malloc(sizeof *evaluation);
        **known = *evaluation;
    }
    book_landed(search, false);
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
static void begin(struct cs__search *search)
{
    const struct cs_space *space = search->space;
    struct cs_search_result *result = search->result;
    result->n_candidates = search->n_entries;
    result->n_open = search->n_sets * space->n_open;
    result->n_rejected = search->n_entries - search->n_sets * space->n_open;
    result->n_fit = result->n_looked = -1;
    for (int32_t i = 0; i < space->n_rules; i++) {
        const struct cs_rule_count *rule = &space->rules[i];
        count_reason(search, rule->first, CS_OUTCOME_REJECTED, rule->rule, rule->example,
                     search->n_sets * rule->n);
    }
    for (int64_t i = 0; i < search->n_entries && search->options->memory; i++) {
        char why[CS_WHY_MAX];
        const struct cs_candidate *candidate = &space->candidates[cs__entry_candidate(search, i)];
        if (candidate->rule) {
            note_refusal(search, i, CS_OUTCOME_REJECTED, candidate->rule,
                         cs_space_why(candidate, search->study, why, sizeof why));
        }
    }
    cs__search_settle(search);
}

/* See cs_search_result. */
static double gap_frac(const struct cs__search *search)
{
    const struct cs_search_result *result = search->result;
    if (search->best < 0 || result->n_looked < 0 || result->analytic) {
        return (double)NAN;
    }
    double best_score = result->ranking[search->best].score;
    double bound_score = fmax(best_score, search->failed_bound_score);
    for (int64_t i = 0; i < search->n_entries; i++) {
        if (search->outlooks[i].fits && !search->is_booked[i]) {
            bound_score = fmax(bound_score, search->outlooks[i].bound_score);
        }
    }
    return isinf(bound_score) ? (double)NAN : (bound_score - best_score) / fabs(best_score);
}

static void finish(struct cs__search *search)
{
    struct cs_search_result *result = search->result;
    book_landed(search, true);
    if (result->end == CS_SEARCH_FINISHED && search->ended_by_limit) {
        result->end = CS_SEARCH_SIMULATION_LIMIT;
    }
    result->gap_frac = gap_frac(search);
    bool proves = result->algorithm->proves && result->end == CS_SEARCH_FINISHED && !result->analytic;
    result->complete = proves && result->n_failed == 0;
    if (proves) {
        result->n_pruned += result->n_open; /* never proposed: nothing better is among them */
        result->n_open = 0;
    }
    if (result->n_ranked > 0) {
        qsort(result->ranking, (size_t)result->n_ranked, sizeof *result->ranking, cs__ranked_compare);
    }
    if (result->n_reasons > 0) {
        qsort(result->reasons, (size_t)result->n_reasons, sizeof *result->reasons, compare_reasons);
    }
    result->elapsed_s = cs__now_s() - search->started_s;
}

static void release(struct cs__search *search)
{
    if (search->algorithm) {
        search->searcher->destroy(search->algorithm);
    }
    for (int32_t i = 0; search->family_oom && i < search->space->n_families; i++) {
        cs_free(search->family_oom[i]);
    }
    cs_free(search->family_oom);
    cs_free(search->outlooks);
    cs_free(search->is_booked);
    cs_free(search->flights);
}

/* Rules about results other than memory need a simulation. */
static cs_status check_analytic(const struct cs_study *study, const struct cs_run_options *options,
                                struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(cs__analytic_check(options, err));
    if (cs_study_has_result_rules(study)) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                        "constraints on results ('cross_node_comm_fraction', 'min_device_use', rules) need a "
                        "simulation: use fidelity "
                        "folded or full");
    }
out:
    return st;
}

/* The shown strategies get what follows from the step: speed, and memory by category. */
static cs_status complete_estimates(struct cs__search *search, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_search_result *result = search->result;
    const struct cs_study *study = search->study;
    struct cs_trace *trace = NULL;
    for (int64_t i = 0; i < result->n_ranked && i < study->search.n_top; i++) {
        struct cs_metrics *metrics = &result->ranking[i].metrics;
        const struct cs_strategy *strategy =
            &search->space->candidates[result->ranking[i].candidate].strategy;
        CS_TRY(cs_trace_build(&study->model, &study->training, strategy, &trace, err));
        cs_engine_speed(trace, &study->platform, metrics);
        cs_engine_memory(trace, &study->platform, metrics);
        cs_trace_free(trace);
        trace = NULL;
    }
out:
    cs_trace_free(trace);
    return st;
}

/* Of the time limit; 0 = there is none. */
static double time_left_s(const struct cs__search *search)
{
    double limit_s = search->study->search.time_limit_s;
    double spent_s = search->options->spent_s + cs__now_s() - search->started_s;
    return limit_s > 0 ? fmax(limit_s - spent_s, LEAST_TIME_S) : 0;
}

/* Of the grace after the time limit, of which looking may have had a part. It begins with the search where
 * the limit was over before. */
static double grace_left_s(const struct cs__search *search)
{
    double left_s = fmax(search->study->search.time_limit_s - search->options->spent_s, 0);
    double over_s = cs__now_s() - search->started_s - left_s;
    return fmax(CS_SEARCH_GRACE_S - over_s, 1);
}

/* Let an algorithm propose until it ends or is ended; *end says which. */
static cs_status propose(struct cs__search *search, const struct cs_search_problem *problem,
                         const struct cs_searcher *searcher, const struct cs_pool_options *pool,
                         enum cs_search_end *end, struct cs_err *err)
{
    if (search->algorithm) {
        search->searcher->destroy(search->algorithm);
    }
    search->searcher = searcher;
    search->algorithm = searcher->create(problem);
    cs_status st = cs_pool_run(pool, evaluate_job, next_job, job_done, search, err);
    book_landed(search, true);
    *end = CS_SEARCH_FINISHED;
    if (st == CS_E_INTERRUPTED || st == CS_E_TIMEOUT) {
        *end = st == CS_E_TIMEOUT ? CS_SEARCH_TIME_LIMIT : CS_SEARCH_INTERRUPTED;
        st = CS_OK;
    }
    return st;
}

/* Simulate what the algorithm asks for. A search that is cut short before it has found anything tries the
 * best guesses for a little longer. */
static cs_status simulate(struct cs__search *search, struct cs_search_problem *problem, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_search_result *result = search->result;
    struct cs_pool_options pool = {.n_workers = search->options->n_workers,
                                   .remote = search->options->remote,
                                   .record_bytes = sizeof(struct cs_evaluation),
                                   .job_limit_s = search->study->search.candidate_limit_s,
                                   .time_limit_s = time_left_s(search),
                                   .stop = search->options->stop};
    enum cs_search_end end = result->end;
    if (end != CS_SEARCH_INTERRUPTED) {
        CS_TRY(propose(search, problem, result->algorithm, &pool, &end, err));
        result->end = end == CS_SEARCH_FINISHED ? result->end : end;
    }
    bool interrupted = result->end == CS_SEARCH_INTERRUPTED;
    bool was_cut = interrupted || result->end == CS_SEARCH_TIME_LIMIT;
    if (!was_cut || result->n_ranked > 0 || (interrupted && search->options->remote)) {
        goto out; /* what launched workers elsewhere has little patience with what is interrupted */
    }
    for (int64_t i = 0; i < search->n_entries; i++) {
        problem->n_fit -= search->outlooks[i].fits && search->is_booked[i] ? 1 : 0;
        search->outlooks[i].fits = search->outlooks[i].fits && !search->is_booked[i];
    }
    pool.time_limit_s = interrupted ? CS__GRACE_INTERRUPTED_S : grace_left_s(search);
    pool.stop = interrupted ? NULL : search->options->stop;
    CS_TRY(propose(search, problem, &cs__searcher_guesses, &pool, &end, err));
    result->end = end == CS_SEARCH_INTERRUPTED ? end : result->end;
out:
    return st;
}

cs_status cs_search_run(struct cs_search_result *result, const struct cs_study *study,
                        const struct cs_space *space, const struct cs_search_options *options,
                        struct cs_err *err)
{
    cs_status st = CS_OK;
    const int32_t n_sets = options->take_set ? cs_study_n_algorithm_sets(study) : 1;
    struct cs__search search = {.study = study,
                                .space = space,
                                .options = options,
                                .result = result,
                                .n_sets = n_sets,
                                .n_entries = n_sets * space->n_candidates,
                                .failed_bound_score = -(double)INFINITY,
                                .best = -1};
    *result = (struct cs_search_result){.objective = cs_objective_find(study->search.objective),
                                        .algorithm = cs_searcher_find(study->search.algorithm)};
    CS_ASSERT(result->objective && result->algorithm && options->evaluate);
    struct cs_search_problem problem = {.study = study,
                                        .space = space,
                                        .objective = result->objective,
                                        .n_sets = n_sets,
                                        .n_candidates = search.n_entries,
                                        .n_top = study->search.n_top,
                                        .seed = study->search.seed};
    search.started_s = cs__now_s();
    result->analytic = options->mode != CS_SEARCH_SIMULATES;
    CS_ASSERT(cs__set_cost(&search, 0) || !result->analytic);
    if (options->mode == CS_SEARCH_ANALYTIC) {
        CS_TRY(check_analytic(study, cs_cost_options(cs__set_cost(&search, 0)), err));
    }
    search.family_oom = cs_calloc((size_t)space->n_families, sizeof *search.family_oom);
    search.is_booked = cs_calloc((size_t)search.n_entries + 1, sizeof *search.is_booked);
    begin(&search);
    CS_TRY(cs__look_ahead(&search, &problem, err));
    if (result->analytic) {
        finish(&search);
        CS_TRY(complete_estimates(&search, err));
        goto out;
    }
    CS_TRY(simulate(&search, &problem, err));
    finish(&search);
out:
    release(&search);
    if (st != CS_OK) {
        cs_search_result_release(result);
    }
    return st;
}

void cs_search_serve(int fd, uint64_t hash, const struct cs_study *study, const struct cs_space *space,
                     const struct cs_search_options *options)
{
    struct cs__search search = {.study = study, .space = space, .options = options};
    const struct cs_pool_options pool = {.record_bytes = sizeof(struct cs_evaluation),
                                         .job_limit_s = study->search.candidate_limit_s};
    cs_pool_serve(fd, hash, &pool, evaluate_job, &search);
}

uint64_t cs_search_hash(const struct cs_space *space, uint64_t study_hash)
{
    uint64_t hash = cs_hash_mix(study_hash, CS_RESULTS_VERSION);
    for (int64_t i = 0; i < space->n_candidates; i++) {
        hash = cs_hash_mix(hash, cs_strategy_hash(&space->candidates[i].strategy));
    }
    return cs_hash_mix(hash, sizeof(struct cs_evaluation));
}

void cs_search_result_release(struct cs_search_result *result)
{
    cs_free(result->ranking);
    cs_free(result->reasons);
    cs_free(result->looked_at);
    *result = (struct cs_search_result){0};
}
