/* The search space. */
#include "cs_test.h"
#include "study_text.h"

#include "cs/strategies/space.h"

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
    struct cs_study_source source = {.data_dir = CS_TEST_SOURCE_DIR, .path = "llama3-70b-64"};
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

static Suite *suite(void)
{
    Suite *s = suite_create("space");
    TCase *c = tcase_create("space");
    tcase_add_test(c, the_shipped_study_is_enumerated);
    tcase_add_test(c, the_order_of_lists_does_not_matter);
    tcase_add_test(c, equal_lists_are_one);
    tcase_add_test(c, auto_ranges_are_as_documented);
    tcase_add_test(c, a_space_without_the_clusters_size_is_refused);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
