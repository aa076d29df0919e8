#include "cs/reports/validate.h"

#include "cs_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two sets with a doubtful row each; only the first has held-out figures. */
static struct cs_error_set seen[] = {
    {.kind = "all", .name = "all", .n = 4, .mape_frac = 0.1, .n_sure = 2, .sure_mape_frac = 0.011},
    {.kind = "source", .name = "alone", .n = 2, .mape_frac = 0.1, .n_sure = 1, .sure_mape_frac = 0.022}};
static struct cs_error_set unseen[] = {
    {.kind = "all", .name = "all", .n = 2, .mape_frac = 0.3, .n_sure = 1, .sure_mape_frac = 0.033}};
static struct cs_rank_set ranks[] = {
    {.kind = "model", .name = "m", .n = 6, .n_sure = 5, .spearman = 0.5, .sure_spearman = 0.75}};

static char *page_of(bool with_held_out)
{
    static const struct cs_cases none = {0};
    struct cs_errors errors = {.n_sets = 2, .sets = seen, .n_ranks = 1, .ranks = ranks};
    struct cs_errors held_out = {.n_sets = 1, .sets = unseen};
    struct cs_validate_report report = {
        .path = "cases.csv", .cases = &none, .errors = &errors, .held_out = with_held_out ? &held_out : NULL};
    char *text = NULL;
    size_t bytes = 0;
    for (int32_t i = 0; i < CS_COUNT(seen); i++) {
        seen[i].analytic_mape_frac = (double)NAN;
    }
    FILE *out = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(out);
    cs_report_validate_markdown(out, &report, "clustersim");
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

START_TEST(without_doubtful_rows_is_said_of_what_is_shown)
{
    char *text = page_of(false);
    ck_assert_ptr_nonnull(strstr(text, "| closed form | without doubtful rows: n | mean | bias |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| all | 4 | 10.0 % | 0.0 % | +0.0 % |  | 2 | 1.1 % | +0.0 % |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| alone | 2 | 10.0 % | 0.0 % | +0.0 % |  | 1 | 2.2 % | +0.0 % |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| m | 6 | 0.500 | 5 | 0.750 |\n"));
    free(text);
}
END_TEST

START_TEST(sets_without_held_out_figures_stay_empty_there)
{
    char *text = page_of(true);
    ck_assert_ptr_nonnull(strstr(text, "| bias | held out without doubtful rows: n | mean | bias |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| +0.0 % |  | 30.0 % | 0.0 % | +0.0 % | 1 | 3.3 % | +0.0 % |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| alone | 2 | 10.0 % | 0.0 % | +0.0 % |  | | | | | | |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| held out without doubtful rows: runs | rank |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| m | 6 | 0.500 | - | | |\n"));
    free(text);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("validate page");
    TCase *tcase = tcase_create("doubts");
    tcase_add_test(tcase, without_doubtful_rows_is_said_of_what_is_shown);
    tcase_add_test(tcase, sets_without_held_out_figures_stay_empty_there);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(suite)
