/* The search with a made-up evaluator, and what is judged of its figures. */
#include "cs_test.h"
#include "study_text.h"

#include "cs/strategies/search.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct made_up {
    struct cs_strategy dies; /* this one aborts */
    bool some_die;
    bool it_hangs; /* instead */
    double pause_s;
    bool all_equal;
};

/* Fast when deep; out of memory without sharding when dp is large; constraint from the study. */
static cs_status made_up_evaluate(void *context, const struct cs_strategy *strategy,
                                  struct cs_evaluation *evaluation, struct cs_err *err)
{
    const struct made_up *made_up = context;
    (void)err;
    if (made_up->it_hangs && cs_strategy_equal(strategy, &made_up->dies)) {
        for (;;) {
            pause();
        }
    }
    if (made_up->some_die && cs_strategy_equal(strategy, &made_up->dies)) {
        (void)fprintf(stderr, "made-up death\n");
        abort();
    }
    if (made_up->pause_s > 0) {
        nanosleep(&(struct timespec){0, (long)(1e9 * made_up->pause_s)}, NULL);
    }
    evaluation->outcome = CS_OUTCOME_OK;
    if (strategy->dp >= 32 && strategy->op == 1) {
        evaluation->outcome = CS_OUTCOME_OOM;
        evaluation->state_alone = true;
        (void)snprintf(evaluation->rule, sizeof evaluation->rule, "memory");
        (void)snprintf(evaluation->reason, sizeof evaluation->reason, "too much at dp %d", (int)strategy->dp);
        return CS_OK;
    }
    evaluation->simulated = true;
    evaluation->metrics.iteration_s =
        made_up->all_equal ? 1 : 1.0 / (strategy->mp + 10 * strategy->micro_batch);
    evaluation->metrics.tokens_per_s = 1 / evaluation->metrics.iteration_s;
    evaluation->metrics.peak_memory_bytes = strategy->pp;
    return CS_OK;
}

struct searched {
    struct cs_study study;
    struct cs_space space;
    struct cs_search_result result;
};

static void run_search(struct searched *searched, const char *text, struct made_up *made_up,
                       int32_t n_workers, const volatile bool *stop)
{
    struct cs_err err = {0};
    struct cs_search_options options = {
        .n_workers = n_workers, .stop = stop, .evaluate = made_up_evaluate, .evaluate_context = made_up};
    load(&searched->study, text);
    ck_assert_ok(cs_space_build(&searched->space, &searched->study, &err), &err);
    ck_assert_ok(cs_search_run(&searched->result, &searched->study, &searched->space, &options, &err), &err);
    const struct cs_search_result *result = &searched->result;
    ck_assert_int_eq(result->n_candidates, searched->space.n_candidates - searched->space.n_open +
                                               result->n_oom + result->n_simulated + result->n_failed +
                                               result->n_pruned + result->n_open);
    for (int64_t i = 1; i < result->n_ranked;
         i++) { /* better, of equals faster, of equals smaller, of equals first */
        const struct cs_ranked *x = &result->ranking[i - 1];
        const struct cs_ranked *y = &result->ranking[i];
        ck_assert_double_ge(x->score, y->score);
        if (x->score <= y->score && x->metrics.iteration_s >= y->metrics.iteration_s) {
            ck_assert_double_eq(x->metrics.iteration_s, y->metrics.iteration_s);
            ck_assert_int_le(x->metrics.peak_memory_bytes, y->metrics.peak_memory_bytes);
            ck_assert(x->metrics.peak_memory_bytes < y->metrics.peak_memory_bytes ||
                      x->candidate < y->candidate);
        }
    }
}

static void release_search(struct searched *searched)
{
    cs_search_result_release(&searched->result);
    cs_space_release(&searched->space);
    cs_study_release(&searched->study);
}

#define SMALL                                                                                                \
    HEAD "strategy: {mp: [1, 2, 8], pp: [1, 2], op: [1, dp], zero: 1, sp: false, recompute: none,"           \
         " micro_batch: [1, 2]}\n"

START_TEST(the_result_does_not_depend_on_the_workers)
{
    struct searched one = {0};
    struct searched many = {0};
    struct made_up made_up = {0};
    run_search(&one, SMALL, &made_up, 1, NULL);
    run_search(&many, SMALL, &made_up, 4, NULL);
    ck_assert(one.result.complete && many.result.complete);
    ck_assert_int_gt(one.result.n_oom, 0);
    ck_assert_int_eq(one.result.n_oom, many.result.n_oom);
    ck_assert_int_eq(one.result.n_ranked, many.result.n_ranked);
    for (int64_t i = 0; i < one.result.n_ranked; i++) {
        ck_assert_int_eq(one.result.ranking[i].candidate, many.result.ranking[i].candidate);
    }
    ck_assert_int_eq(one.result.n_reasons, many.result.n_reasons);
    for (int32_t i = 0; i < one.result.n_reasons; i++) {
        ck_assert_int_eq(one.result.reasons[i].n, many.result.reasons[i].n);
        ck_assert_str_eq(one.result.reasons[i].example, many.result.reasons[i].example);
    }
    ck_assert_int_eq(one.space.candidates[one.result.ranking[0].candidate].strategy.mp, 8);
    release_search(&one);
    release_search(&many);
}
END_TEST

START_TEST(equal_scores_rank_by_memory)
{
    struct searched searched = {0};
    struct made_up made_up = {.all_equal = true};
    run_search(&searched, SMALL, &made_up, 3, NULL);
    for (int64_t i = 1; i < searched.result.n_ranked; i++) {
        ck_assert_int_le(searched.result.ranking[i - 1].metrics.peak_memory_bytes,
                         searched.result.ranking[i].metrics.peak_memory_bytes);
    }
    release_search(&searched);
}
END_TEST

START_TEST(a_candidate_that_dies_is_reported)
{
    struct searched searched = {0};
    struct made_up made_up = {.some_die = true};
    struct cs_err err = {0};
    struct cs_study study = {0};
    load(&study, SMALL);
    ck_assert_ok(cs_study_strategy(&study, "dp=8,mp=8", &made_up.dies, &err), &err);
    cs_study_release(&study);
    run_search(&searched, SMALL, &made_up, 2, NULL);
    ck_assert_int_eq(searched.result.n_failed, 1);
    ck_assert(!searched.result.complete);
    ck_assert_int_eq(searched.result.end, CS_SEARCH_FINISHED);
    const struct cs_reason *reason = &searched.result.reasons[searched.result.n_reasons - 1];
    ck_assert_int_eq(reason->outcome, CS_OUTCOME_FAILED);
    ck_assert_str_eq(reason->rule, "died");
    ck_assert_ptr_nonnull(strstr(reason->example, "dp=8,mp=8"));
    ck_assert_ptr_nonnull(strstr(reason->example, "made-up death"));
    release_search(&searched);
}
END_TEST

START_TEST(a_candidate_that_hangs_is_given_up)
{
    struct searched searched = {0};
    struct made_up made_up = {.it_hangs = true};
    struct cs_err err = {0};
    struct cs_study study = {0};
    load(&study, SMALL);
    ck_assert_ok(cs_study_strategy(&study, "dp=8,mp=8", &made_up.dies, &err), &err);
    cs_study_release(&study);
    run_search(&searched, SMALL "search: {candidate_time_limit: 2s}\n", &made_up, 2, NULL);
    ck_assert_int_eq(searched.result.n_failed, 1);
    ck_assert_int_eq(searched.result.n_open, 0);
    ck_assert(!searched.result.complete);
    const struct cs_reason *reason = &searched.result.reasons[searched.result.n_reasons - 1];
    ck_assert_str_eq(reason->rule, "time-limit");
    ck_assert_ptr_nonnull(strstr(reason->example, "dp=8,mp=8"));
    release_search(&searched);
}
END_TEST

START_TEST(a_time_limit_gives_the_best_so_far)
{
    struct searched searched = {0};
    struct made_up made_up = {.pause_s = 0.2};
    run_search(&searched, SMALL "search: {time_limit: 500ms}\n", &made_up, 1, NULL);
    ck_assert_int_eq(searched.result.end, CS_SEARCH_TIME_LIMIT);
    ck_assert(!searched.result.complete);
    ck_assert_int_gt(searched.result.n_open, 0);
    ck_assert_int_ge(searched.result.n_ranked + searched.result.n_oom, 1);
    release_search(&searched);
}
END_TEST

/* Also a limit that is over before anything was simulated. */
START_TEST(a_time_limit_leaves_time_for_one)
{
    struct searched searched = {0};
    struct made_up made_up = {.pause_s = 0.2};
    run_search(&searched, SMALL "search: {time_limit: 1us}\n", &made_up, 1, NULL);
    ck_assert_int_eq(searched.result.end, CS_SEARCH_TIME_LIMIT);
    ck_assert(!searched.result.complete);
    ck_assert_int_eq(searched.result.n_ranked, 1);
    ck_assert_int_gt(searched.result.n_open, 0);
    release_search(&searched);
}
END_TEST

START_TEST(an_interrupt_gives_the_best_so_far)
{
    volatile bool stop = true;
    struct searched searched = {0};
    struct made_up made_up = {0};
    run_search(&searched, SMALL, &made_up, 1, &stop);
    ck_assert_int_eq(searched.result.end, CS_SEARCH_INTERRUPTED);
    ck_assert_int_eq(searched.result.n_ranked, 1);
    ck_assert(!searched.result.complete);
    release_search(&searched);
}
END_TEST

START_TEST(the_objective_decides)
{
    struct searched searched = {0};
    struct made_up made_up = {0};
    run_search(&searched, SMALL "search: {objective: peak_memory}\n", &made_up, 2, NULL);
    ck_assert_int_eq(searched.space.candidates[searched.result.ranking[0].candidate].strategy.pp, 1);
    ck_assert_int_eq(
        searched.space.candidates[searched.result.ranking[searched.result.n_ranked - 1].candidate]
            .strategy.pp,
        2);
    release_search(&searched);
}
END_TEST

START_TEST(a_verdict_says_why)
{
    struct cs_study study = {0};
    struct cs_evaluation evaluation = {.simulated = true};
    load(&study, HEAD "constraints: {memory_margin: 1.2, cross_node_comm_fraction: 0.3}\n");
    double memory_bytes = cs_study_device_memory_bytes(&study);
    evaluation.metrics.peak_memory_bytes = (int64_t)(memory_bytes / 1.2) - 1;
    evaluation.metrics.cross_node_comm_frac = 0.3;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_int_eq(evaluation.outcome, CS_OUTCOME_OK);
    ck_assert_str_eq(evaluation.reason, "");
    evaluation.metrics.cross_node_comm_frac = 0.31;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_int_eq(evaluation.outcome, CS_OUTCOME_REJECTED);
    ck_assert_ptr_nonnull(strstr(evaluation.reason, "31.0 %"));
    evaluation.metrics.peak_memory_bytes += 2;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_int_eq(evaluation.outcome, CS_OUTCOME_OOM);
    ck_assert_str_eq(evaluation.rule, "memory");
    study.constraints.device_memory_bytes = 2 * memory_bytes; /* more than there is */
    const double reserve_bytes = study.platform.devices[0].chip->reserved_bytes;
    ck_assert_double_gt(reserve_bytes, 0);
    ck_assert_double_eq(cs_study_device_memory_bytes(&study), memory_bytes - reserve_bytes);
    /* What a process may allocate: the runtime's reserve is not counted against it. */
    study.constraints.device_memory_bytes = memory_bytes - reserve_bytes;
    evaluation.metrics.cross_node_comm_frac = 0;
    evaluation.metrics.peak_memory_bytes =
        (int64_t)((memory_bytes - reserve_bytes) / 1.2 + reserve_bytes) - 1;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_int_eq(evaluation.outcome, CS_OUTCOME_OK);
    evaluation.metrics.peak_memory_bytes += 2;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_int_eq(evaluation.outcome, CS_OUTCOME_OOM);
    study.constraints.device_memory_bytes = memory_bytes / 2;
    ck_assert_double_eq(cs_study_device_memory_bytes(&study), memory_bytes / 2);
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_ptr_nonnull(strstr(evaluation.reason, "a device may give"));
    cs_study_release(&study);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("search");
    TCase *c = tcase_create("search");
    tcase_add_test(c, the_result_does_not_depend_on_the_workers);
    tcase_add_test(c, equal_scores_rank_by_memory);
    tcase_add_test(c, a_candidate_that_dies_is_reported);
    tcase_add_test(c, a_candidate_that_hangs_is_given_up);
    tcase_add_test(c, a_time_limit_gives_the_best_so_far);
    tcase_add_test(c, a_time_limit_leaves_time_for_one);
    tcase_add_test(c, an_interrupt_gives_the_best_so_far);
    tcase_add_test(c, the_objective_decides);
    tcase_add_test(c, a_verdict_says_why);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
