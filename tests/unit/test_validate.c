#include "cs/strategies/calibrate.h"
#include "cs/strategies/collectives.h"
#include "cs/strategies/errors.h"

#include "cases_fixture.h"
#include "cs_test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_NAME "test_validate.csv"

static struct cs_softwares softwares;

static void setup(void)
{
    cases_softwares(&softwares);
}

static void teardown(void)
{
    cs_softwares_release(&softwares);
}

/* Five runs of one model with errors 0, 10, -10, 20 and 0 %. */
START_TEST(errors_are_as_defined)
{
    static const double measured_s[] = {1, 2, 3, 4, 5};
    static const double predicted_s[] = {1, 2.2, 2.7, 4.8, 5};
    struct cs_case items[5] = {0};
    struct cs_cases cases = {.n = 5, .items = items};
    struct cs_errors errors = {0};
    for (int32_t i = 0; i < 5; i++) {
        items[i] = (struct cs_case){.id = "x",
                                    .hardware = "h",
                                    .source_short = "s",
                                    .model_key = "m",
                                    .setup_key = i < 4 ? "few" : "other",
                                    .generation = i < 2 ? "g" : NULL,
                                    .doubt = i == 3 ? "a reason" : NULL,
                                    .kind = CS_CASE_TIME,
                                    .measured_s = measured_s[i],
                                    .n_devices = 1,
                                    .devices_per_node = 1};
    }
    cs_errors_find(&errors, &cases, predicted_s, NULL);
    ck_assert_double_eq_tol(errors.sets[0].mape_frac, 0.08, 1e-12);
    ck_assert_double_eq_tol(errors.sets[0].median_ape_frac, 0.10, 1e-12);
    ck_assert_double_eq_tol(errors.sets[0].bias_frac, 0.04, 1e-12);
    ck_assert(isnan(errors.sets[0].analytic_mape_frac));
    ck_assert_int_eq(errors.sets[0].n_sure, 4); /* the 20 % are doubted */
    ck_assert_double_eq_tol(errors.sets[0].sure_mape_frac, 0.05, 1e-12);
    ck_assert_double_eq_tol(errors.sets[0].sure_bias_frac, 0, 1e-12);
    ck_assert_str_eq(errors.sets[1].kind, "generation");
    ck_assert_int_eq(errors.sets[1].n, 2); /* not those of which nothing is stated */
    ck_assert_str_eq(errors.sets[2].kind, "hardware");
    ck_assert_int_eq(errors.n_ranks, 1); /* the setups have fewer than five runs */
    ck_assert_str_eq(errors.ranks[0].kind, "model");
    ck_assert_int_eq(errors.ranks[0].n_sure, 4);
    ck_assert_double_eq_tol(errors.ranks[0].sure_spearman, 1, 1e-12);
    ck_assert_double_eq_tol(errors.ranks[0].spearman, 1, 1e-12);
    ck_assert_double_eq_tol(errors.ranks[0].top1_regret_frac, 0, 1e-12);
    ck_assert_ptr_nonnull(cs_errors_of(&errors, &items[0]));
    cs_errors_release(&errors);
    static const double turned_s[] = {5, 4, 3, 2, 1};
    cs_errors_find(&errors, &cases, turned_s, turned_s);
    ck_assert_double_eq_tol(errors.ranks[0].spearman, -1, 1e-12);
    ck_assert_double_eq_tol(errors.ranks[0].top1_regret_frac, 4, 1e-12); /* 5 s instead of 1 s */
    ck_assert_double_eq_tol(errors.ranks[0].top5_regret_frac, 0, 1e-12);
    cs_errors_release(&errors);
    /* Of what a search cannot tell apart it may take the worst. */
    static const double tied_s[] = {1, 1, 1, 1, 2};
    cs_errors_find(&errors, &cases, tied_s, NULL);
    ck_assert_double_eq_tol(errors.ranks[0].top1_regret_frac, 3, 1e-12); /* 4 s instead of 1 s */
    ck_assert_double_eq_tol(errors.ranks[0].spearman, 0.70710678, 1e-6);
    cs_errors_release(&errors);
    static const double equal_s[] = {1, 1, 1, 1, 1};
    cs_errors_find(&errors, &cases, equal_s, NULL);
    ck_assert(isnan(errors.ranks[0].spearman)); /* says nothing of the order */
    cs_errors_release(&errors);
}
END_TEST

/* Twelve runs of single devices whose times are simulated ones of a slower matrix engine: the fit finds it.
 */
START_TEST(calibration_finds_a_figure_again)
{
    static struct cs_calibration calibration; /* large */
    const double truth = 0.62;
    struct cs_err err = {0};
    struct cs_arena arena = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_cases cases;
    struct cs_strbuf text = {0};
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    cs_strbuf_addf(&text, "%s", CASES_HEADER);
    for (int32_t i = 0; i < 12; i++) {
        cs_strbuf_addf(&text,
                       "x%d,h100-sxm5,1,8,%s,%d,%d,%d,n,32,51200,1,1,1,n,,%d,%d,2048,none,bf16,1,nobody,\n",
                       (int)i, i % 2 ? "GPT" : "MPT", 4 + 4 * (int)(i % 3), 4096 << i % 2, 16384 << i % 2,
                       1 + (int)(i % 2), 16);
    }
    ck_assert_ok(cases_load_text(&cases, FILE_NAME, cs_strbuf_str(&text), &softwares, &err), &err);
    struct cs_case_run *runs = CS_ARENA_NEW(&arena, struct cs_case_run, cases.n + 1);
    struct cs_calibrate_options options = {
        .validate = {.n_workers = 1}, .n_rounds = 2, .n_starts = 3, .cross_validate = true, .n_folds = 3};
    double *place = &cs_testbed_chip(&bed, "h100")->opkind_peak_frac[CS_OPKIND_MATMUL];
    *place = truth;
    ck_assert_ok(cs_validate_run(&cases, &bed, &options.validate, runs, &err), &err);
    for (int32_t i = 0; i < cases.n; i++) {
        ck_assert_msg(runs[i].ran, "%s: %s", cases.items[i].id, runs[i].reason);
        cases.items[i].measured_s = runs[i].simulated_s;
    }
    *place = 0.9;
    ck_assert_ok(cs_calibrate(&cases, &bed, &softwares, &options, &calibration, &err), &err);
    ck_assert_int_eq(calibration.n_cases, 12);
    ck_assert_int_eq(calibration.n_groups, 2);
    ck_assert_int_eq(calibration.n_folds, 3);
    ck_assert_double_gt(*place, 0.9 * truth); /* kernel_time may carry a part of it */
    ck_assert_double_lt(*place, 1.1 * truth);
    for (int32_t i = 0; i < cases.n; i++) {
        const struct cs_fit_prediction *p = &calibration.predictions[i];
        double measured_s = cases.items[i].measured_s;
        ck_assert_double_lt(fabs(p->fitted_s / measured_s - 1), 0.03);
        ck_assert(p->predicted);
        ck_assert_double_lt(fabs(p->held_out_s / measured_s - 1), 0.08);
        ck_assert_double_lt(fabs(p->fold_s / measured_s - 1), 0.04);
    }
    for (int32_t i = 0; i < calibration.n_figures; i++) {
        const struct cs_fit_figure *f = &calibration.figures[i];
        bool unfused = strcmp(f->key, "efficiency.batch-matmul") == 0; /* attention is fused here */
        ck_assert(!unfused || f->determined_frac < 0.01);
        ck_assert(strcmp(f->key, "efficiency.matmul") != 0 || f->determined_frac > CS_DETERMINED_FRAC);
    }
    cs_calibration_release(&calibration);
    cs_strbuf_release(&text);
    cs_cases_release(&cases);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
    cs_arena_release(&arena);
}
END_TEST

/* A chip's figures, moved by a tenth up and down, are the catalogue's again when they are fitted to the
 * published runs: those that the runs determine. Software and the other chips stay, which at the optimum of
 * all makes no difference. */
START_TEST(published_runs_give_the_catalogue_s_chip)
{
    static const char *const parts[] = {"910b2", "910b3"};
    static const struct {
        const char *key;
        double by; /* @unit factor */
    } moved[] = {{"efficiency.matmul", 0.9}, {"efficiency.grouped-matmul", 1.1}, {"host_launch", 1.1}};
    static struct cs_calibration calibration; /* large */
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_cases cases;
    struct cs_calibrate_options options = {.validate = {.n_workers = 2}, .n_rounds = 2, .only = parts[1]};
    int32_t n_determined = 0;
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    ck_assert_ok(cs_cases_load(&cases, CASES_RUNS, &softwares, &err), &err);
    ck_assert(cs_calibrate_knows(parts[1]) && !cs_calibrate_knows("abacus"));
    for (int32_t i = 0; i < CS_COUNT(moved); i++) {
        for (int32_t k = 0; k < CS_COUNT(parts); k++) {
            *cs_chip_figure_place(cs_testbed_chip(&bed, parts[k]), cs_chip_figure_index(moved[i].key)) *=
                moved[i].by;
        }
    }
    ck_assert_ok(cs_calibrate(&cases, &bed, &softwares, &options, &calibration, &err), &err);
    for (int32_t i = 0; i < calibration.n_figures; i++) {
        const struct cs_fit_figure *f = &calibration.figures[i];
        int32_t index = cs_chip_figure_index(f->key);
        double was = cs_chip_figure(cs_catalogue_chip(catalogue, f->owner), index);
        bool determined = f->determined_frac > CS_DETERMINED_FRAC;
        double off_frac = fabs(f->value / was - 1);
        ck_assert_str_eq(f->owner, parts[0]);
        ck_assert_msg(off_frac < (determined ? 0.02 : 0.02 + 0.25 * f->uncertainty_frac), "%s: %g, not %g",
                      f->key, f->value, was);
        n_determined += determined;
    }
    ck_assert_int_ge(n_determined, 3);
    for (int32_t i = 0; i < CS_COUNT(moved); i++) { /* all parts of the generation have them */
        for (int32_t k = 0; k < CS_COUNT(parts); k++) {
            int32_t index = cs_chip_figure_index(moved[i].key);
            double was = cs_chip_figure(cs_catalogue_chip(catalogue, parts[k]), index);
            ck_assert_double_eq_tol(cs_chip_figure(cs_testbed_chip(&bed, parts[k]), index) / was, 1, 0.02);
        }
    }
    cs_calibration_release(&calibration);
    cs_cases_release(&cases);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

static const char *const link_keys[] = {"intra_bandwidth", "intra_latency", "nic_bandwidth", "nic_latency"};

static const double *server_figures(const struct cs_server *s)
{
    static double figures[4];
    figures[0] = s->intra_bytes_per_s;
    figures[1] = s->intra_latency_s;
    figures[2] = s->nic_bytes_per_s;
    figures[3] = s->nic_latency_s;
    return figures;
}

/* What the catalogue says of links, `fitted on collectives.csv`, comes out of the fit of collectives.csv
 * again, to the digits that it has, and so does what is said to be as there. */
START_TEST(collectives_give_the_catalogue_s_links)
{
    int32_t n_set = 0;
    static struct cs_link_fits fits; /* large */
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    ck_assert_ok(cs_collectives_fit(&fits, CS_TEST_SOURCE_DIR "/tests/data/measured/collectives.csv", &bed,
                                    NULL, &err),
                 &err);
    ck_assert_int_eq(fits.n_rows, 178);
    for (int32_t i = 0; i < fits.n; i++) {
        const struct cs_link_fit *f = &fits.items[i];
        ck_assert(f->error_frac < 0.15 || cs_link_fit_fails(f));
        ck_assert(isnan(f->held_out_frac) == (f->n_groups == 1));
    }
    cs_collectives_apply(&fits, &bed);
    for (int32_t s = 0; s < bed.n_servers; s++) {
        const char *name = bed.servers[s].name;
        const double *is = server_figures(&bed.servers[s]);
        double fitted[4];
        memcpy(fitted, is, sizeof fitted);
        const double *was = server_figures(cs_catalogue_server(catalogue, name));
        for (int32_t k = 0; k < 4; k++) {
            const char *source = cs_catalogue_server_source(catalogue, name, link_keys[k]);
            bool set = cs_collectives_set(&fits, name, link_keys[k]);
            ck_assert_double_eq_tol(fitted[k] / was[k], 1, 5e-4);
            ck_assert_msg(set || !strstr(source, "fitted on collectives.csv"), "%s %s", name, link_keys[k]);
            n_set += set;
        }
    }
    ck_assert_int_gt(n_set, 20);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

/* All-reduces and all-gathers of 8 devices in a ring on links that are a quarter faster and 2 us slower. */
START_TEST(collectives_give_a_link_again)
{
    static struct cs_link_fits fits; /* large */
    const double bytes_per_s = 1.25 * 231.5e9;
    const double latency_s = 7.4e-6;
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_strbuf text = {0};
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    cs_strbuf_addf(&text, "hardware,n_devices,n_nodes,collective,bytes,busbw_GBps,source\n");
    for (double bytes = 4194304; bytes < 9e9; bytes *= 2) {
        for (int32_t kind = 1; kind <= 2; kind++) {
            double steps = 7 * kind;
            double time_s = 10e-6 + steps * (latency_s + bytes / 8 / bytes_per_s);
            double bus = bytes * kind * 7 / 8 / time_s;
            cs_strbuf_addf(&text, "dgx-a100,8,1,%s,%.0f,%.9g,%s\n", kind == 2 ? "all_reduce" : "all_gather",
                           bytes, bus / 1e9, kind == 2 ? "one" : "other");
        }
    }
    cs_strbuf_addf(&text, "abacus,8,1,all_reduce,1e9,10,x\n");
    cases_write(FILE_NAME, cs_strbuf_str(&text));
    ck_assert_ok(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), &err);
    ck_assert_int_eq(fits.n, 1);
    ck_assert_int_eq(fits.n_foreign, 1);
    ck_assert_int_eq(fits.items[0].n_groups, 2);
    ck_assert_double_eq_tol(fits.items[0].bytes_per_s / bytes_per_s, 1, 0.01);
    ck_assert_double_eq_tol(fits.items[0].latency_s / latency_s, 1, 0.05);
    ck_assert_double_lt(fits.items[0].held_out_frac, 0.02);
    ck_assert_double_gt(fits.items[0].catalogue_error_frac, 0.1);
    cases_write(
        FILE_NAME,
        "hardware,n_devices,n_nodes,collective,bytes,busbw_GBps,source\ndgx-a100,8,1,all_reduce,x,1,s\n");
    ck_assert_int_eq(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), CS_E_INPUT);
    ck_assert_int_eq(err.line, 2);
    cases_write(FILE_NAME, "hardware,n_devices\n");
    ck_assert_int_eq(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), CS_E_INPUT);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
    cs_strbuf_release(&text);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

/* Links between nodes: a tree node's worth of all-reduces by the closed form itself, with other figures; and
 * what does not depend on where the fit starts. */
START_TEST(collectives_give_links_between_nodes)
{
    static struct cs_link_fits fits; /* large */
    static struct cs_link_fits again;
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_strbuf text = {0};
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    cs_strbuf_addf(&text, "hardware,n_devices,n_nodes,collective,bytes,busbw_GBps,source\n");
    /* Four nodes of one device each: a ring of 2 x 3 steps over the NICs for large messages. */
    for (double bytes = 67108864; bytes < 9e9; bytes *= 2) {
        double time_s = 10e-6 + 6 * (20e-6 + bytes / 4 / 18e9);
        cs_strbuf_addf(&text, "dgx-a100,4,4,all_reduce,%.0f,%.9g,one\n", bytes, bytes * 1.5 / time_s / 1e9);
    }
    cs_strbuf_addf(&text, "dgx-a100,2,2,p2p write D2D (RDMA),1048576,18,two\n");
    cases_write(FILE_NAME, cs_strbuf_str(&text));
    ck_assert_ok(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), &err);
    ck_assert_int_eq(fits.n, 1);
    ck_assert_int_eq(fits.items[0].place, CS_LINK_BETWEEN);
    ck_assert_int_eq(fits.items[0].n_rows, 9);
    ck_assert_double_eq_tol(fits.items[0].bytes_per_s / 18e9, 1, 0.005);
    ck_assert(cs_collectives_set(&fits, "dgx-a100", "nic_bandwidth"));
    ck_assert(!cs_collectives_set(&fits, "dgx-a100", "intra_bandwidth"));
    ck_assert(!cs_collectives_set(&fits, "vtrain-a100", "nic_bandwidth")); /* its NICs are others */
    cs_testbed_server(&bed, "dgx-a100")->nic_bytes_per_s *= 1.1;
    cs_testbed_server(&bed, "dgx-a100")->intra_bytes_per_s *= 0.9;
    ck_assert_ok(cs_collectives_fit(&again, FILE_NAME, &bed, NULL, &err), &err);
    ck_assert_double_eq_tol(again.items[0].bytes_per_s / fits.items[0].bytes_per_s, 1, 1e-4);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
    cs_strbuf_release(&text);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("validate");
    TCase *tcase = tcase_create("fits");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, errors_are_as_defined);
    tcase_add_test(tcase, calibration_finds_a_figure_again);
    tcase_add_test(tcase, published_runs_give_the_catalogue_s_chip);
    tcase_add_test(tcase, collectives_give_the_catalogue_s_links);
    tcase_add_test(tcase, collectives_give_a_link_again);
    tcase_add_test(tcase, collectives_give_links_between_nodes);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(suite)
