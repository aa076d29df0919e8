/* The study file, and one strategy said by a study and a text. */
#include "cs_test.h"
#include "study_text.h"

#include "cs/base/file.h"
#include "cs/strategies/searcher.h"
#include "cs/strategies/shipped.h"

#include <stdio.h>
#include <unistd.h>

START_TEST(a_study_says_what_it_says)
{
    struct cs_study study = {0};
    load(&study, HEAD "strategy:\n"
                      "  mp: [1, 2, 8]\n"
                      "  pp: auto\n"
                      "  op: [1, dp]\n"
                      "  sp: true\n"
                      "  recompute: full\n"
                      "constraints: {memory_margin: 1.5, cross_node_comm_fraction: 0.3}\n"
                      "search: {time_limit: 10min, top: 3, seed: 7}\n");
    ck_assert_int_eq(study.training.global_batch, 1024);
    ck_assert_int_eq(study.training.dtype, CS_DTYPE_BF16);
    ck_assert_int_eq(study.training.gradient_dtype, CS_DTYPE_FP32);
    ck_assert_int_eq(study.axes[CS_KEY_DP].kind, CS_AXIS_AUTO);
    ck_assert_int_eq(study.axes[CS_KEY_PP].kind, CS_AXIS_AUTO);
    ck_assert_int_eq(study.axes[CS_KEY_MP].kind, CS_AXIS_LISTED);
    ck_assert_int_eq(study.axes[CS_KEY_MP].n, 3);
    ck_assert_int_eq(study.axes[CS_KEY_MP].values[2], 8);
    ck_assert_int_eq(study.axes[CS_KEY_OP].values[1], CS_VALUE_ALL_DP);
    ck_assert_int_eq(study.axes[CS_KEY_SP].kind, CS_AXIS_PINNED);
    ck_assert_int_eq(study.axes[CS_KEY_SP].values[0], 1);
    ck_assert_int_eq(study.axes[CS_KEY_RECOMPUTE].values[0], CS_RECOMPUTE_FULL);
    ck_assert_double_eq(study.constraints.memory_margin, 1.5);
    ck_assert_double_eq(study.constraints.cross_node_comm_frac, 0.3);
    ck_assert_double_eq(study.search.time_limit_s, 600);
    ck_assert_int_eq(study.search.n_top, 3);
    ck_assert_str_eq(study.search.algorithm, "exhaustive");
    ck_assert_int_eq(study.platform.n_devices, 64);
    cs_study_release(&study);
    cs_study_release(&study);
}
END_TEST

static const struct {
    const char *text;
    int line;
    const char *part;
} bad_studies[] = {
    {"modle: llama3-70b\n", 1, "did you mean 'model'"},
    {HEAD "strategy:\n  mpp: 8\n", 5, "mpp"},
    {HEAD "strategy:\n  mp: eight\n", 5, "eight"},
    {HEAD "strategy:\n  mp: [1, 0]\n", 5, "mp"},
    {HEAD "strategy:\n  mp: []\n", 5, "1 to 256"},
    {HEAD "strategy:\n  mp: {a: 1}\n", 5, "auto"},
    {HEAD "strategy:\n  mp: 8\n  tp: [1, 2]\n", 6, "given twice"},
    {HEAD "strategy: 8\n", 4, "strategy"},
    {HEAD "strategy:\n  schedule: [1f1b, gpip]\n", 5, "gpip"},
    {HEAD "strategy:\n  recompute: some\n", 5, "some"},
    {HEAD "strategy:\n  micro_batch: 1.5\n", 5, "1.5"},
    {HEAD "strategy:\n  placement: \"mp,mp,dp,pp\"\n", 5, "placement"},
    {HEAD "constraints: {memory_margin: 0.5}\n", 4, "memory_margin"},
    {HEAD "constraints: {memory: 1}\n", 4, "memory"},
    {HEAD "constraints: {device_memory: 64}\n", 4, "without a unit"},
    {HEAD "constraints: {device_memory: 0GiB}\n", 4, "above 0"},
    {HEAD "strategy:\n  layers: [[40, a], [40, 40]]\n", 5, "a number for each place"},
    {HEAD "strategy:\n  layers: [40, a]\n", 5, "not even, balanced"},
    {HEAD "strategy:\n  layers: []\n", 5, "1 to 256"},
    {HEAD "search: {algorithm: magic}\n", 4, "exhaustive"},
    {HEAD "search: {objective: beauty}\n", 4, "throughput"},
    {HEAD "search:\n  time_limit: 10\n", 5, "time_limit"},
    {HEAD "search: {top: 0}\n", 4, "top"},
    {"model: llama3-70b\nplatform: 910b-8x8\n", 1, "training"},
    {"model: llama3-70b\nplatform: 910b-8x8\ntraining:\n  seq_length: 4096\n", 4, "global_batch"},
    {"model: llama3-70b\nplatform: 910b-8x8\ntraining:\n  global_batch: many\n  seq_length: 1\n", 4, "many"},
    {"model: llama3-70b\nplatform: 910b-8x8\ntraining:\n  global_batch: 8\n  seq_length: -1\n", 5, "-1"},
    {"model: llama3-70x\nplatform: 910b-8x8\ntraining: {global_batch: 8, seq_length: 8}\n", 1,
     "did you mean 'llama3-70b'"},
    {"model: llama3-70b\nplatform: nowhere.xml\ntraining: {global_batch: 8, seq_length: 8}\n", 2,
     "nowhere.xml"},
    {"model: [a]\nplatform: 910b-8x8\ntraining: {global_batch: 8, seq_length: 8}\n", 1, "model"},
    {"platform: 910b-8x8\ntraining: {global_batch: 8, seq_length: 8}\n", 1, "-m"},
    {"- a\n- b\n", 1, "study"},
};

START_TEST(a_bad_study_is_refused_at_its_line)
{
    struct cs_study study = {0};
    struct cs_err err = {0};
    cs_status st = load_text(&study, bad_studies[_i].text, 0, NULL, &err);
    ck_assert_fails(st, &err, CS_E_INPUT, bad_studies[_i].line, bad_studies[_i].part);
    ck_assert_str_eq(err.file, study_file());
    cs_study_release(&study);
}
END_TEST

START_TEST(the_command_line_wins)
{
    static const struct cs_override overrides[] = {
        {"training.global_batch", "2048", false},
        {"strategy.tp", "[2, 4]", false},
        {"strategy.recompute", "none", false},
        {"constraints.memory_margin", "1", false},
        {"model", "llama3-8b", true},
    };
    struct cs_study study = {0};
    struct cs_err err = {0};
    ck_assert_ok(load_text(&study, HEAD "strategy: {mp: 8, pp: 1}\n", CS_COUNT(overrides), overrides, &err),
                 &err);
    ck_assert_int_eq(study.training.global_batch, 2048);
    ck_assert_int_eq(study.training.seq_length, 4096);
    ck_assert_int_eq(study.axes[CS_KEY_MP].kind, CS_AXIS_LISTED);
    ck_assert_int_eq(study.axes[CS_KEY_MP].values[1], 4);
    ck_assert_int_eq(study.axes[CS_KEY_PP].kind, CS_AXIS_PINNED);
    ck_assert_int_eq(study.axes[CS_KEY_RECOMPUTE].kind, CS_AXIS_PINNED);
    ck_assert_double_eq(study.constraints.memory_margin, 1);
    ck_assert_int_eq(study.model.n_layers, 32);
    cs_study_release(&study);
}
END_TEST

START_TEST(a_study_needs_no_file)
{
    static const struct cs_override overrides[] = {
        {"model", "llama3-70b", true},
        {"platform", "910b-8x8", true},
        {"training", "{global_batch: 64, seq_length: 128}", false},
    };
    struct cs_study study = {0};
    struct cs_err err = {0};
    struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .n_overrides = CS_COUNT(overrides), .overrides = overrides};
    ck_assert_ok(cs_study_load(&study, &source, &err), &err);
    ck_assert_int_eq(study.training.seq_length, 128);
    ck_assert_double_gt(study.search.candidate_limit_s, 0); /* nobody waits for ever */
    ck_assert_double_eq(study.search.time_limit_s, 0);
    cs_study_release(&study);
    source.n_overrides = 2;
    cs_status st = cs_study_load(&study, &source, &err);
    ck_assert_fails(st, &err, CS_E_INPUT, 0, "training");
    ck_assert_str_eq(err.file, "command line");
    cs_study_release(&study);
}
END_TEST

static const struct {
    struct cs_override override;
    const char *part;
} bad_overrides[] = {
    {{"training.globl_batch", "1", false}, "global_batch"},
    {{"training.global_batch", "x", false}, "'x'"},
    {{"training.global_batch.x", "1", false}, "global_batch"},
    {{"training..x", "1", false}, "no key"},
    {{"", "1", false}, "no key"},
    {{"a.b.c.d.e", "1", false}, "no key"},
    {{"training.global_batch", "[1", false}, "--set"},
    {{"training.global_batch", " ", false}, "no value"},
    {{"model", "no-such", true}, "no-such"},
};

START_TEST(a_bad_override_is_refused)
{
    struct cs_study study = {0};
    struct cs_err err = {0};
    cs_status st = load_text(&study, HEAD, 1, &bad_overrides[_i].override, &err);
    ck_assert_int_eq(st, CS_E_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, bad_overrides[_i].part));
    cs_study_release(&study);
}
END_TEST

START_TEST(missing_studies_are_refused)
{
    static const struct {
        const char *path;
        const char *part;
    } cases[] = {{"no/such.yaml", ""}, {"/tmp", ""}, {"llama3-70b-65", "did you mean 'llama3-70b-64'"}};
    for (int32_t i = 0; i < CS_COUNT(cases); i++) {
        struct cs_study study = {0};
        struct cs_err err = {0};
        struct cs_study_source source = {.data_dir = CS_TEST_SOURCE_DIR, .path = cases[i].path};
        ck_assert_int_eq(cs_study_load(&study, &source, &err), CS_E_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, cases[i].part));
        cs_study_release(&study);
    }
}
END_TEST

START_TEST(a_strategy_takes_pinned_values)
{
    struct cs_study study = {0};
    struct cs_strategy strategy;
    struct cs_err err = {0};
    load(&study, HEAD "strategy: {mp: [1, 8], micro_batch: 2, op: dp, recompute: full}\n");
    ck_assert_ok(cs_study_strategy(&study, "dp=8,mp=8", &strategy, &err), &err);
    ck_assert_int_eq(strategy.dp, 8);
    ck_assert_int_eq(strategy.pp, 1);
    ck_assert_int_eq(strategy.op, 8);
    ck_assert_int_eq(strategy.micro_batch, 2);
    ck_assert_int_eq(strategy.recompute, CS_RECOMPUTE_FULL);
    ck_assert_ok(cs_study_strategy(&study, "dp=8,mp=8,op=2,recompute=none", &strategy, &err), &err);
    ck_assert_int_eq(strategy.op, 2);
    ck_assert_int_eq(strategy.recompute, CS_RECOMPUTE_NONE);
    cs_study_release(&study);
}
END_TEST

START_TEST(a_list_of_one_is_its_value)
{
    struct cs_study study = {0};
    struct cs_strategy strategy;
    struct cs_err err = {0};
    load(&study,
         HEAD "strategy: {dp: [2], mp: [8], pp: 4, layers: [19, 20, 21, 20], full_layers: [[1, 2, 3, 4]],\n"
              "           micro_batch: [2], op: [dp], placement: auto}\n");
    ck_assert_ok(cs_study_strategy(&study, NULL, &strategy, &err), &err);
    ck_assert(strategy.dp == 2 && strategy.mp == 8 && strategy.op == 2 && strategy.micro_batch == 2);
    ck_assert(strategy.layers.n == 4 && strategy.layers.at[0] == 19 && strategy.full_layers.at[3] == 4);
    ck_assert_ok(cs_study_strategy(&study, "layers=20/20/20/20", &strategy, &err), &err);
    ck_assert_int_eq(strategy.layers.at[0], 20);
    cs_study_release(&study);
}
END_TEST

START_TEST(a_longer_list_needs_a_strategy)
{
    static const char *const lists[] = {"mp: [1, 8]", "layers: [[20, 20, 20, 20], [19, 20, 21, 20]]",
                                        "recompute: [none, full]"};
    for (int32_t i = 0; i < CS_COUNT(lists); i++) {
        struct cs_study study = {0};
        struct cs_strategy strategy;
        struct cs_err err = {0};
        char text[512];
        snprintf(text, sizeof text, HEAD "strategy:\n  dp: 8\n  %s\n", lists[i]);
        load(&study, text);
        cs_status st = cs_study_strategy(&study, NULL, &strategy, &err);
        ck_assert_fails(st, &err, CS_E_INPUT, 6, "simulate needs one value; use search or --strategy");
        ck_assert_ok(cs_study_strategy(&study, "dp=8,mp=8", &strategy, &err), &err);
        cs_study_release(&study);
    }
}
END_TEST

START_TEST(a_strategy_that_cannot_run_is_refused)
{
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {{"dp=4,mp=4,pp=3", "64"}, {"dp=8", "64"}, {"dp=8,mp=8,foo=1", "foo"}, {"dp=x,mp=8", "x"}};
    struct cs_study study = {0};
    load(&study, HEAD);
    for (int32_t i = 0; i < CS_COUNT(cases); i++) {
        struct cs_strategy strategy;
        struct cs_err err = {0};
        cs_status st = cs_study_strategy(&study, cases[i].text, &strategy, &err);
        ck_assert_fails(st, &err, CS_E_INPUT, 0, cases[i].part);
        ck_assert_str_eq(err.file, "command line");
    }
    cs_study_release(&study);
}
END_TEST

START_TEST(a_pinned_study_that_cannot_run_is_refused_at_its_line)
{
    struct cs_study study = {0};
    struct cs_strategy strategy;
    struct cs_err err = {0};
    load(&study, HEAD "strategy:\n  dp: 4\n  mp: 4\n  pp: 3\n");
    cs_status st = cs_study_strategy(&study, NULL, &strategy, &err);
    ck_assert_int_eq(st, CS_E_INPUT);
    ck_assert_int_ge(err.line, 4);
    ck_assert_int_le(err.line, 5);
    cs_study_release(&study);
}
END_TEST

START_TEST(pinning_what_is_searched_names_both_places)
{
    struct cs_study study = {0};
    struct cs_err err = {0};
    load(&study, HEAD "strategy:\n  mp: [1, 8]\n  pp: auto\n  sp: true\n");
    cs_status st = cs_study_pin(&study, "tp=8", &err);
    char place[80];
    snprintf(place, sizeof place, "%s:5", study_file());
    ck_assert_fails(st, &err, CS_E_INPUT, 0, place);
    ck_assert_str_eq(err.file, "command line");
    ck_assert_int_eq(study.axes[CS_KEY_MP].kind, CS_AXIS_LISTED);
    ck_assert_ok(cs_study_pin(&study, "pp=2,sp=false,op=dp", &err), &err);
    ck_assert_int_eq(study.axes[CS_KEY_PP].kind, CS_AXIS_PINNED);
    ck_assert_int_eq(study.axes[CS_KEY_PP].values[0], 2);
    ck_assert_int_eq(study.axes[CS_KEY_SP].values[0], 0);
    ck_assert_int_eq(study.axes[CS_KEY_OP].values[0], CS_VALUE_ALL_DP);
    cs_study_release(&study);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("study");
    TCase *c = tcase_create("study");
    tcase_add_test(c, a_study_says_what_it_says);
    tcase_add_loop_test(c, a_bad_study_is_refused_at_its_line, 0, CS_COUNT(bad_studies));
    tcase_add_test(c, the_command_line_wins);
    tcase_add_test(c, a_study_needs_no_file);
    tcase_add_loop_test(c, a_bad_override_is_refused, 0, CS_COUNT(bad_overrides));
    tcase_add_test(c, missing_studies_are_refused);
    tcase_add_test(c, a_strategy_takes_pinned_values);
    tcase_add_test(c, a_strategy_that_cannot_run_is_refused);
    tcase_add_test(c, a_list_of_one_is_its_value);
    tcase_add_test(c, a_longer_list_needs_a_strategy);
    tcase_add_test(c, a_pinned_study_that_cannot_run_is_refused_at_its_line);
    tcase_add_test(c, pinning_what_is_searched_names_both_places);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
