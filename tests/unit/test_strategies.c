#include "cs/strategies/search.h"

#include "cs/base/file.h"
#include "cs/strategies/shipped.h"
#include "cs_test.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* ---- studies ----------------------------------------------------------------------------------------------
 */

/* Write a study beside the test and load it. The file stays until the test's end: locations point to it. */
#define STUDY_FILE "test_strategies_study.yaml"

static cs_status load_text(struct cs_study *study, const char *text, int32_t n_overrides,
                           const struct cs_override *overrides, struct cs_err *err)
{
    FILE *file = fopen(STUDY_FILE, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    struct cs_study_source source = {CS_TEST_SOURCE_DIR, "./" STUDY_FILE, n_overrides, overrides, NULL};
    cs_status st = cs_study_load(study, &source, err);
    ck_assert_int_eq(unlink(STUDY_FILE), 0);
    return st;
}

#define HEAD                                                                                                 \
    "model: llama3-70b\n"                                                                                    \
    "platform: 910b-8x8\n"                                                                                   \
    "training: {global_batch: 1024, seq_length: 4096}\n"

static void load(struct cs_study *study, const char *text)
{
    struct cs_err err = {0};
    ck_assert_ok(load_text(study, text, 0, NULL, &err), &err);
}

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
    ck_assert_str_eq(err.file, "./" STUDY_FILE);
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
    struct cs_study_source source = {CS_TEST_SOURCE_DIR, NULL, CS_COUNT(overrides), overrides, NULL};
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
        struct cs_study_source source = {CS_TEST_SOURCE_DIR, cases[i].path, 0, NULL, NULL};
        ck_assert_int_eq(cs_study_load(&study, &source, &err), CS_E_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, cases[i].part));
        cs_study_release(&study);
    }
}
END_TEST

/* ---- one strategy -----------------------------------------------------------------------------------------
 */

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
    ck_assert_fails(st, &err, CS_E_INPUT, 0, STUDY_FILE ":5");
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

/* ---- space ------------------------------------------------------------------------------------------------
 */

static void check_space(const struct cs_space *space, int32_t n_devices)
{
    int64_t n_open = 0;
    int64_t n_ruled = 0;
    for (int64_t i = 0; i < space->n_candidates; i++) {
        const struct cs_candidate *candidate = &space->candidates[i];
        struct cs_strategy canonical = candidate->strategy;
        cs_strategy_canonicalise(&canonical);
        ck_assert(cs_strategy_equal(&canonical, &candidate->strategy));
        ck_assert_int_eq(canonical.dp * canonical.mp * canonical.pp * canonical.cp, n_devices);
        ck_assert(i == 0 || cs_strategy_compare(&candidate[-1].strategy, &candidate->strategy) < 0);
        ck_assert_int_lt(candidate->family, space->n_families);
        n_open += candidate->rule ? 0 : 1;
    }
    for (int32_t i = 0; i < space->n_rules; i++) {
        n_ruled += space->rules[i].n;
        ck_assert_int_gt((int)strlen(space->rules[i].example), 0);
        ck_assert_str_eq(space->candidates[space->rules[i].first].rule, space->rules[i].rule);
    }
    ck_assert_int_eq(n_open, space->n_open);
    ck_assert_int_eq(n_open + n_ruled, space->n_candidates);
    ck_assert_int_eq(space->n_combinations, space->n_candidates + space->n_duplicates);
}

START_TEST(the_shipped_study_is_enumerated)
{
    struct cs_study study = {0};
    struct cs_space space = {0};
    struct cs_err err = {0};
    struct cs_study_source source = {CS_TEST_SOURCE_DIR, "llama3-70b-64", 0, NULL, NULL};
    ck_assert_ok(cs_study_load(&study, &source, &err), &err);
    ck_assert_ok(cs_space_build(&space, &study, &err), &err);
    /* 4 mp x 4 pp and mp 64; op 1 2 4 dp, zero 3, sp 2, schedule 4, vpp 3, micro-batch 4, recompute 3, every
     * order */
    ck_assert_int_eq(space.n_combinations, 17 * 4 * 3 * 2 * 4 * 3 * 4 * 3 * 24);
    ck_assert_int_eq(space.n_candidates, space.n_combinations - space.n_duplicates);
    ck_assert_int_gt(space.n_open, 5000);
    cs_space_release(&space);
    cs_study_release(&study);
    source.path = CS_TEST_SOURCE_DIR "/tests/data/studies/llama3-70b-64-plain.yaml";
    ck_assert_ok(cs_study_load(&study, &source, &err), &err);
    ck_assert_ok(cs_space_build(&space, &study, &err), &err);
    check_space(&space, 64);
    /* As above, but schedule 2, micro-batch 3 and one order. */
    ck_assert_int_eq(space.n_combinations, 17 * 4 * 3 * 2 * 2 * 3 * 3);
    cs_space_release(&space);
    cs_space_release(&space);
    cs_study_release(&study);
}
END_TEST

START_TEST(the_order_of_lists_does_not_matter)
{
    static const char *const texts[] = {
        HEAD "strategy: {mp: [1, 2, 8], pp: [1, 4], op: [1, 2, dp], zero: auto, micro_batch: [1, 2]}\n",
        HEAD "strategy: {mp: [8, 1, 2, 8], pp: [4, 1], op: [dp, 2, 1], zero: auto, micro_batch: [2, 1]}\n",
    };
    struct cs_study studies[2] = {0};
    struct cs_space spaces[2] = {0};
    struct cs_err err = {0};
    for (int32_t i = 0; i < 2; i++) {
        load(&studies[i], texts[i]);
        ck_assert_ok(cs_space_build(&spaces[i], &studies[i], &err), &err);
        check_space(&spaces[i], 64);
    }
    ck_assert_int_eq(spaces[0].n_candidates, spaces[1].n_candidates);
    for (int64_t i = 0; i < spaces[0].n_candidates; i++) {
        ck_assert(cs_strategy_equal(&spaces[0].candidates[i].strategy, &spaces[1].candidates[i].strategy));
    }
    for (int32_t i = 0; i < 2; i++) {
        cs_space_release(&spaces[i]);
        cs_study_release(&studies[i]);
    }
}
END_TEST

/* However a list of layers is written, and however often: also the even ones, which is what is left out. */
START_TEST(equal_lists_are_one)
{
    static const char *const texts[] = {
        HEAD "strategy: {mp: 8, pp: 4, op: dp, zero: 1, sp: true, recompute: none, micro_batch: 1,\n"
             "  schedule: 1f1b, layers: [even, 20/20/20/20, [20, 20, 20, 20], 19/21/20/20, even],\n"
             "  full_layers: [none, 0/0/0/0]}\n",
        HEAD "strategy: {mp: 8, pp: 2, op: dp, zero: 1, sp: true, recompute: none, micro_batch: 1, vpp: 3,\n"
             "  schedule: interleaved, layers: [13/14/14/13/13/13, even, 14/14/13/13/13/13]}\n"};
    for (int32_t i = 0; i < CS_COUNT(texts); i++) {
        struct cs_study study = {0};
        struct cs_space space = {0};
        struct cs_err err = {0};
        load(&study, texts[i]);
        ck_assert_ok(cs_space_build(&space, &study, &err), &err);
        check_space(&space, 64);
        ck_assert_int_eq(space.n_candidates, 2);
        ck_assert_int_eq(space.candidates[0].strategy.layers.n, 0);
        ck_assert_int_gt(space.candidates[1].strategy.layers.n, 0);
        cs_space_release(&space);
        cs_study_release(&study);
    }
}
END_TEST

START_TEST(auto_ranges_are_as_documented)
{
    struct cs_study study = {0};
    struct cs_space space = {0};
    struct cs_err err = {0};
    int32_t most[CS_N_KEYS] = {0};
    load(&study, HEAD);
    ck_assert_ok(cs_space_build(&space, &study, &err), &err);
    check_space(&space, 64);
    for (int64_t i = 0; i < space.n_candidates; i++) {
        for (int32_t key = 0; key < CS_N_KEYS; key++) {
            int32_t value = cs_key_get(&space.candidates[i].strategy, (enum cs_key)key);
            most[key] = value > most[key] ? value : most[key];
        }
    }
    ck_assert_int_eq(most[CS_KEY_DP], 64);
    ck_assert_int_eq(most[CS_KEY_MP], 8);
    ck_assert_int_eq(most[CS_KEY_PP], 64);
    ck_assert_int_eq(most[CS_KEY_OP], 64);
    ck_assert_int_eq(most[CS_KEY_ZERO], 3);
    ck_assert_int_eq(most[CS_KEY_SP], 1);
    ck_assert_int_eq(most[CS_KEY_CP], 1);
    ck_assert_int_eq(most[CS_KEY_VPP], 1);
    ck_assert_int_eq(most[CS_KEY_MICRO_BATCH], 8);
    ck_assert_int_eq(most[CS_KEY_RECOMPUTE], CS_RECOMPUTE_FULL);
    cs_space_release(&space);
    cs_study_release(&study);
}
END_TEST

START_TEST(a_space_without_the_clusters_size_is_refused)
{
    struct cs_study study = {0};
    struct cs_space space = {0};
    struct cs_err err = {0};
    load(&study, HEAD "strategy:\n  dp: [4, 5]\n  mp: 4\n  pp: [3, 5]\n");
    cs_status st = cs_space_build(&space, &study, &err);
    ck_assert_int_eq(st, CS_E_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "64"));
    ck_assert_int_ge(err.line, 4);
    ck_assert_int_le(err.line, 5);
    cs_study_release(&study);
}
END_TEST

/* ---- search, with a made-up evaluator ---------------------------------------------------------------------
 */

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
    Suite *suite = suite_create("strategies");
    TCase *study = tcase_create("study");
    tcase_add_test(study, a_study_says_what_it_says);
    tcase_add_loop_test(study, a_bad_study_is_refused_at_its_line, 0, CS_COUNT(bad_studies));
    tcase_add_test(study, the_command_line_wins);
    tcase_add_test(study, a_study_needs_no_file);
    tcase_add_loop_test(study, a_bad_override_is_refused, 0, CS_COUNT(bad_overrides));
    tcase_add_test(study, missing_studies_are_refused);
    tcase_add_test(study, a_strategy_takes_pinned_values);
    tcase_add_test(study, a_strategy_that_cannot_run_is_refused);
    tcase_add_test(study, a_list_of_one_is_its_value);
    tcase_add_test(study, a_longer_list_needs_a_strategy);
    tcase_add_test(study, a_pinned_study_that_cannot_run_is_refused_at_its_line);
    tcase_add_test(study, pinning_what_is_searched_names_both_places);
    TCase *space = tcase_create("space");
    tcase_add_test(space, the_shipped_study_is_enumerated);
    tcase_add_test(space, the_order_of_lists_does_not_matter);
    tcase_add_test(space, equal_lists_are_one);
    tcase_add_test(space, auto_ranges_are_as_documented);
    tcase_add_test(space, a_space_without_the_clusters_size_is_refused);
    TCase *search = tcase_create("search");
    tcase_add_test(search, the_result_does_not_depend_on_the_workers);
    tcase_add_test(search, equal_scores_rank_by_memory);
    tcase_add_test(search, a_candidate_that_dies_is_reported);
    tcase_add_test(search, a_candidate_that_hangs_is_given_up);
    tcase_add_test(search, a_time_limit_gives_the_best_so_far);
    tcase_add_test(search, a_time_limit_leaves_time_for_one);
    tcase_add_test(search, an_interrupt_gives_the_best_so_far);
    tcase_add_test(search, the_objective_decides);
    tcase_add_test(search, a_verdict_says_why);
    suite_add_tcase(suite, study);
    suite_add_tcase(suite, space);
    suite_add_tcase(suite, search);
    return suite;
}

CS_TEST_MAIN(suite)
