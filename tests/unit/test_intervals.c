/* Intervals: quantiles of measured / simulated by chip, written and read again. */
#include "cs/strategies/intervals.h"

#include "cs_test.h"
#include "scratch.h"

#include <math.h>
#include <stdio.h>

#define N_CASES 12

static char folder[64];

static void setup(void)
{
    scratch_open(folder);
}

static void teardown(void)
{
    scratch_close(folder);
}

static cs_status load_text(struct cs_intervals *intervals, const char *text, struct cs_err *err)
{
    char path[128];
    scratch_write(folder, "i.yaml", text, strlen(text));
    snprintf(path, sizeof path, "%s/i.yaml", folder);
    return cs_intervals_load(intervals, path, err);
}

/* Eleven dense runs at 1.0, 1.1, ... 2.0 times the simulated step, one mixture, one run that did not run. */
START_TEST(test_find_and_read_again)
{
    struct cs_err err = {0};
    struct cs_chip chip = {.name = "chip"};
    struct cs_server server = {.name = "server", .chip = "chip"};
    struct cs_testbed bed = {.n_chips = 1, .chips = &chip, .n_servers = 1, .servers = &server};
    struct cs_case items[N_CASES + 1];
    double simulated_s[N_CASES + 1];
    memset(items, 0, sizeof items);
    for (int32_t i = 0; i <= N_CASES; i++) {
        simulated_s[i] = 10;
        items[i].server = "server";
        items[i].kind = CS_CASE_TIME;
        items[i].measured_s = 10 + i;
    }
    items[11].model.n_experts = 8;
    simulated_s[12] = (double)NAN;
    struct cs_cases cases = {.n = N_CASES + 1, .items = items};
    struct cs_intervals intervals = {0};
    cs_intervals_find(&intervals, &cases, &bed, simulated_s);
    ck_assert_int_eq(intervals.n, 1); /* one mixture says nothing */
    ck_assert_int_eq(intervals.items[0].n, 11);
    ck_assert_double_eq_tol(intervals.items[0].low_frac, 1.1, 1e-12);
    ck_assert_double_eq_tol(intervals.items[0].high_frac, 1.9, 1e-12);
    char path[128];
    snprintf(path, sizeof path, "%s/out.yaml", folder);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    cs_intervals_write(&intervals, file, "a command");
    ck_assert_int_eq(fclose(file), 0);
    struct cs_intervals again = {0};
    ck_assert_ok(cs_intervals_load(&again, path, &err), &err);
    const struct cs_interval *found = cs_intervals_of(&again, "chip", false);
    ck_assert_ptr_nonnull(found);
    ck_assert_int_eq(found->n, 11);
    ck_assert_double_eq_tol(found->high_frac, 1.9, 1e-4);
    ck_assert_ptr_null(cs_intervals_of(&again, "chip", true));
    ck_assert_ptr_null(cs_intervals_of(&again, "other", false));
    cs_intervals_release(&again);
    cs_intervals_release(&intervals);
}
END_TEST

START_TEST(test_refused)
{
    static const struct {
        const char *text;
        int32_t line;
        const char *part;
    } bad[] = {
        {"intervals: {a: 1}\n", 1, "intervals"},
        {"intervals:\n  - {chip: x, runs: 9, low: 1}\n", 2, "high"},
        {"intervals:\n  - {chip: x, runs: 0, low: 1, high: 2}\n", 2, "runs"},
        {"intervals:\n  - {chip: x, runs: 9, low: 2, high: 1}\n", 2, "high"},
        {"intervals:\n  - {chip: x, runs: 9, low: 1, high: 2, colour: red}\n", 2, "colour"},
    };
    for (int32_t i = 0; i < CS_COUNT(bad); i++) {
        struct cs_err err = {0};
        struct cs_intervals intervals = {0};
        ck_assert_fails(load_text(&intervals, bad[i].text, &err), &err, CS_E_INPUT, bad[i].line, bad[i].part);
        cs_intervals_release(&intervals);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("intervals");
    TCase *c = tcase_create("intervals");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, test_find_and_read_again);
    tcase_add_test(c, test_refused);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
