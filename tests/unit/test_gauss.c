/* The Gaussian process that guides the Bayesian search. */
#include "cs_test.h"

#include "cs/base/rng.h"
#include "gauss_priv.h"

#include <math.h>

static double bowl(const double x[CS__GAUSS_DIMS])
{
    return 0.1 * (x[0] - 0.4) * (x[0] - 0.4) - 0.2 * x[1];
}

static void observe(struct cs__gauss *g, int32_t n)
{
    struct cs_rng rng;
    cs_rng_init(&rng, 7, 1);
    for (int32_t i = 0; i < n; i++) {
        double x[CS__GAUSS_DIMS] = {0};
        x[0] = cs_rng_below(&rng, 1000) / 1000.0;
        x[1] = cs_rng_below(&rng, 1000) / 1000.0;
        cs__gauss_add(g, x, bowl(x));
    }
    cs__gauss_fit(g, 1e-6, false);
}

START_TEST(nothing_known_is_the_prior)
{
    struct cs__gauss g = {0};
    double x[CS__GAUSS_DIMS] = {0};
    double mean;
    double deviation;
    cs__gauss_fit(&g, 0.05, false);
    cs__gauss_predict(&g, x, &mean, &deviation);
    ck_assert_double_eq_tol(mean, 0, 1e-12);
    ck_assert_double_eq_tol(deviation, 0.05, 1e-12);
    cs__gauss_release(&g);
}
END_TEST

START_TEST(what_was_seen_is_remembered)
{
    struct cs__gauss g = {0};
    observe(&g, 20);
    for (int32_t i = 0; i < g.n; i++) {
        double mean;
        double deviation;
        cs__gauss_predict(&g, g.x[i], &mean, &deviation);
        ck_assert_double_eq_tol(mean, g.y[i], 2e-3);
        ck_assert_double_lt(deviation, 0.02);
    }
    cs__gauss_release(&g);
}
END_TEST

START_TEST(a_smooth_function_is_learned)
{
    struct cs__gauss g = {0};
    struct cs_rng rng;
    cs_rng_init(&rng, 8, 1);
    observe(&g, 40);
    for (int32_t i = 0; i < 50; i++) {
        double x[CS__GAUSS_DIMS] = {0};
        double mean;
        double deviation;
        x[0] = 0.1 + cs_rng_below(&rng, 800) / 1000.0;
        x[1] = 0.1 + cs_rng_below(&rng, 800) / 1000.0;
        cs__gauss_predict(&g, x, &mean, &deviation);
        ck_assert_double_eq_tol(mean, bowl(x), 5e-3);
    }
    cs__gauss_release(&g);
}
END_TEST

START_TEST(far_away_nothing_is_known)
{
    struct cs__gauss g = {0};
    double near_x[CS__GAUSS_DIMS] = {0.5, 0.5};
    double far_x[CS__GAUSS_DIMS] = {0.5, 0.5};
    double mean;
    double near_deviation;
    double far_deviation;
    for (int32_t i = 2; i < CS__GAUSS_DIMS; i++) {
        far_x[i] = 20;
    }
    observe(&g, 20);
    cs__gauss_predict(&g, near_x, &mean, &near_deviation);
    cs__gauss_predict(&g, far_x, &mean, &far_deviation);
    ck_assert_double_gt(far_deviation, 5 * near_deviation);
    ck_assert_double_eq_tol(far_deviation, g.deviation, 1e-9 + 1e-6 * g.deviation);
    ck_assert_double_eq_tol(mean, g.mean, 1e-9);
    cs__gauss_release(&g);
}
END_TEST

/* What the believer adds and takes away again leaves no trace. */
START_TEST(a_popped_observation_is_forgotten)
{
    struct cs__gauss g = {0};
    double x[CS__GAUSS_DIMS] = {0.3, 0.9};
    double before;
    double after;
    double deviation;
    observe(&g, 12);
    cs__gauss_predict(&g, x, &before, &deviation);
    cs__gauss_add(&g, x, before + 3);
    cs__gauss_fit(&g, 0, true);
    cs__gauss_predict(&g, x, &after, &deviation);
    ck_assert_double_gt(after, before + 1);
    cs__gauss_pop(&g);
    cs__gauss_fit(&g, 1e-6, false);
    cs__gauss_predict(&g, x, &after, &deviation);
    ck_assert_double_eq_tol(after, before, 1e-12);
    cs__gauss_release(&g);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gauss");
    TCase *c = tcase_create("process");
    tcase_add_test(c, nothing_known_is_the_prior);
    tcase_add_test(c, what_was_seen_is_remembered);
    tcase_add_test(c, a_smooth_function_is_learned);
    tcase_add_test(c, far_away_nothing_is_known);
    tcase_add_test(c, a_popped_observation_is_forgotten);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
