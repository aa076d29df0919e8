/* Rules that users write in a study's constraints, and the objectives that depend on the study. */
#include "cs_test.h"

#include "cs/strategies/searcher.h"

#include <stdio.h>

static cs_status load(struct cs_study *study, const char *rules, struct cs_err *err)
{
    const struct cs_override settings[] = {{"constraints.rules", rules, false},
                                           {"search.device_hour_cost", "2.0", false}};
    const struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .path = "llama3-70b-64", .n_overrides = 2, .overrides = settings};
    return cs_study_load(study, &source, err);
}

static const struct {
    const char *rules;
    const char *strategy;
    const char *broken; /* NULL: kept */
} on_keys[] = {
    {"['mp <= 8']", "dp=8,mp=8", NULL},
    {"['mp <= 8']", "dp=4,mp=16", "mp <= 8"},
    {"['tp<8']", "dp=8,mp=8", "mp < 8"},
    {"['mp >= 2', 'pp == 1']", "dp=4,mp=8,pp=2", "pp == 1"},
    {"['recompute != full']", "dp=64,recompute=full", "recompute != full"},
    {"['sp == true']", "dp=8,mp=8", "sp == true"},
    {"['micro_batch > 1']", "dp=64,micro_batch=2", NULL},
    {"['placement == \"mp,cp,dp,pp\"']", "dp=8,mp=8", NULL},
};

START_TEST(test_keys)
{
    struct cs_err err = {0};
    struct cs_study study;
    struct cs_strategy strategy;
    cs_strategy_init(&strategy);
    if (strchr(on_keys[_i].rules, '"')) { /* quoting inside quoting is YAML's business, names are ours */
        ck_assert_ok(load(&study, "['placement == mp,cp,dp,pp']", &err), &err);
    } else {
        ck_assert_ok(load(&study, on_keys[_i].rules, &err), &err);
    }
    ck_assert_ok(cs_strategy_parse(on_keys[_i].strategy, CS_NOLOC, &strategy, NULL, &err), &err);
    const struct cs_user_rule *rule = cs_user_rule_broken_by(&study, &strategy);
    ck_assert_msg((rule == NULL) == (on_keys[_i].broken == NULL), "%s: %s", on_keys[_i].rules,
                  rule ? rule->text : "kept");
    if (rule) {
        ck_assert_str_eq(rule->text, on_keys[_i].broken);
    }
    cs_study_release(&study);
}
END_TEST

START_TEST(test_results)
{
    struct cs_err err = {0};
    struct cs_study study;
    struct cs_evaluation evaluation;
    ck_assert_ok(load(&study, "['mfu >= 40%', 'peak_memory_bytes < 50GiB', 'iteration_time_s < 2min']", &err),
                 &err);
    memset(&evaluation, 0, sizeof evaluation);
    evaluation.metrics.mfu_frac = 0.5;
    evaluation.metrics.iteration_s = 119;
    evaluation.metrics.peak_memory_bytes = (int64_t)40 << 30;
    evaluation.simulated = true;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_int_eq(evaluation.outcome, CS_OUTCOME_OK);
    evaluation.metrics.peak_memory_bytes = (int64_t)50 << 30;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_int_eq(evaluation.outcome, CS_OUTCOME_REJECTED);
    ck_assert_str_eq(evaluation.rule, "peak_memory_bytes < 50GiB");
    evaluation.metrics.mfu_frac = 0.3;
    cs_evaluation_judge(&evaluation, &study);
    ck_assert_str_eq(evaluation.rule, "mfu >= 40%");
    cs_study_release(&study);
}
END_TEST

static const struct {
    const char *rules;
    const char *text;
} bad[] = {
    {"['mp 4']", "is no rule"},
    {"['<= 4']", "is no rule"},
    {"['mp <=']", "is no rule"},
    {"['mp =< 4']", "is no rule"},
    {"['mp <= x']", "'mp'"},
    {"['mmp <= 4']", "neither a key"},
    {"['recompute < full']", "order"},
    {"['peak_memory_bytes < 50']", "peak_memory_bytes"},
    {"'mp <= 4'", "rules"},
    {"[[1]]", "rule"},
};

START_TEST(test_bad)
{
    struct cs_err err = {0};
    struct cs_study study;
    ck_assert_int_eq(load(&study, bad[_i].rules, &err), CS_E_INPUT);
    ck_assert_msg(strstr(err.text, bad[_i].text) != NULL, "%s: %s", bad[_i].rules, err.text);
    cs_study_release(&study);
}
END_TEST

START_TEST(test_objectives)
{
    struct cs_err err = {0};
    struct cs_study study;
    struct cs_metrics metrics;
    memset(&metrics, 0, sizeof metrics);
    metrics.tokens_per_s = 64000;
    ck_assert_ok(load(&study, "[]", &err), &err);
    /* 64,000 tokens/s for 3,600 s on 64 devices at 2 an hour */
    ck_assert_double_eq_tol(cs_objective_find("tokens_per_cost")->value(&metrics, &study), 1.8e6, 1e-3);
    double power_w = study.platform.devices[0].chip->max_power_w * 64;
    ck_assert_double_eq_tol(cs_objective_find("energy_per_token")->value(&metrics, &study), power_w / 64000,
                            1e-9);
    cs_study_release(&study);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("user rules");
    TCase *c = tcase_create("rules");
    tcase_add_loop_test(c, test_keys, 0, CS_COUNT(on_keys));
    tcase_add_test(c, test_results);
    tcase_add_loop_test(c, test_bad, 0, CS_COUNT(bad));
    tcase_add_test(c, test_objectives);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
