/* Goodput: the closed form against a simulation of the same model, and against published special cases. */
#include "cs/strategies/goodput.h"

#include "cs_test.h"

#include <math.h>

static const struct cs_failures cases[] = {
    {3600, 60, 300, 600},   /* fails every hour */
    {86400, 60, 600, 3600}, /* daily */
    {1e6, 30, 600, 1800},   /* hardly */
    {600, 60, 120, 300},    /* a machine that one should repair */
    {(double)INFINITY, 60, 600, 1800},
};

START_TEST(test_simulated_agrees)
{
    double error_frac = 0;
    double closed = cs_goodput_frac(&cases[_i]);
    double simulated = cs_goodput_simulated_frac(&cases[_i], 200000, 11, &error_frac);
    ck_assert_msg(fabs(simulated - closed) <= 4 * error_frac + 1e-12, "closed %g, simulated %g +- %g", closed,
                  simulated, error_frac);
    ck_assert_double_eq(cs_goodput_simulated_frac(&cases[_i], 1000, 3, NULL),
                        cs_goodput_simulated_frac(&cases[_i], 1000, 3, NULL));
}
END_TEST

/* No interval near Daly's is better by more than the order that his series leaves out. */
START_TEST(test_daly_is_best)
{
    double daly_s = cs_interval_daly_s(cases[_i].mtbf_s, cases[_i].checkpoint_s);
    struct cs_failures at = cases[_i];
    at.interval_s = daly_s;
    double best = cs_goodput_frac(&at);
    ck_assert_double_gt(daly_s, 0);
    for (double factor = 0.25; factor < 4; factor *= 1.05) {
        at.interval_s = daly_s * factor;
        ck_assert_double_le(cs_goodput_frac(&at), best * (1 + 1e-3));
    }
}
END_TEST

START_TEST(test_special_cases)
{
    struct cs_failures never = {(double)INFINITY, 10, 100, 90};
    ck_assert_double_eq_tol(cs_goodput_frac(&never), 0.9, 1e-12);
    never.interval_s = (double)INFINITY;
    ck_assert_double_eq(cs_goodput_frac(&never), 1);
    ck_assert_double_eq_tol(cs_interval_young_s(7200, 100), 1200, 1e-9);
    ck_assert_double_eq(cs_interval_daly_s(10, 30), 10); /* a checkpoint longer than two failures */
    ck_assert_double_eq(cs_cluster_mtbf_s(1e6, 1000), 1000);
    /* first order: Young's interval wastes about sqrt(2 d / M) */
    struct cs_failures young = {1e8, 1, 0, cs_interval_young_s(1e8, 1)};
    ck_assert_double_eq_tol(1 - cs_goodput_frac(&young), sqrt(2 / 1e8), 1e-6);
    /* a checkpoint that never finishes */
    struct cs_failures hopeless = {1, 1000, 1, 1000};
    ck_assert_double_eq(cs_goodput_simulated_frac(&hopeless, 10, 1, NULL), 0);
    ck_assert_double_lt(cs_goodput_frac(&hopeless), 1e-300);
}
END_TEST

static Suite *goodput_suite(void)
{
    Suite *suite = suite_create("goodput");
    TCase *tcase = tcase_create("goodput");
    tcase_add_loop_test(tcase, test_simulated_agrees, 0, 5);
    tcase_add_loop_test(tcase, test_daly_is_best, 0, 4);
    tcase_add_test(tcase, test_special_cases);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(goodput_suite)
