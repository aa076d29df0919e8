/* Traces that went through files replay as the ones that made them: ours bit for bit, Chakra's to rounding.
 */
#include "cs_test.h"
#include "fixture.h"
#include "handmade.h"
#include "scratch.h"
#include "workload_fixture.h"

#include "cs/workloads/format.h"

#include <math.h>
#include <stdio.h>

static char scratch[64];
static char dir[96];

static void set_up(void)
{
    scratch_open(scratch);
    snprintf(dir, sizeof dir, "%s/trace", scratch);
}

static void tear_down(void)
{
    scratch_close(scratch);
}

static double op_time(const void *context, int32_t rank, const struct cs_op_cost *cost)
{
    const struct cs_platform *platform = context;
    return cs_chip_op_time_s(platform->devices[rank].chip, cost);
}

static double replay(struct fixture *f, const struct cs_trace *trace, struct cs_metrics *metrics)
{
    struct cs_err err = {0};
    struct cs_run_options options;
    struct cs_run run = {0};
    cs_run_options_init(&options);
    options.simgrid_cfg = fixture_simgrid_cfg();
    ck_assert_ok(cs_engine_run(trace, f->routes, &options, &run, &err), &err);
    double iteration_s = run.metrics.iteration_s;
    if (metrics) {
        *metrics = run.metrics;
    }
    cs_run_release(&run);
    return iteration_s;
}

static void assert_native_replay(struct fixture *f, const struct cs_trace *trace)
{
    struct cs_err err = {0};
    struct cs_trace *read = NULL;
    struct cs_metrics made;
    struct cs_metrics again;
    ck_assert_ok(cs_trace_write_native(trace, dir, &err), &err);
    ck_assert_ok(cs_trace_read_native(dir, &read, &err), &err);
    (void)replay(f, trace, &made);
    (void)replay(f, read, &again);
    made.wall_s = again.wall_s = 0;
    ck_assert_msg(memcmp(&made, &again, sizeof made) == 0, "%.17g is not %.17g", made.iteration_s,
                  again.iteration_s);
    cs_trace_free(read);
    scratch_close(dir);
}

static void assert_chakra_replay(struct fixture *f, const struct cs_trace *trace)
{
    struct cs_err err = {0};
    struct cs_trace *read = NULL;
    struct cs_chakra_notes notes;
    struct cs_metrics made;
    struct cs_metrics again;
    ck_assert_ok(cs_trace_write_chakra(trace, op_time, &f->platform, dir, &err), &err);
    ck_assert_ok(cs_trace_read_chakra(dir, &read, &notes, &err), &err);
    ck_assert_int_eq(scratch_count(dir), trace->n_ranks + 1);
    double made_s = replay(f, trace, &made);
    double again_s = replay(f, read, &again);
    ck_assert_msg(fabs(made_s - again_s) <= 1e-6 * made_s, "%.9g s became %.9g s", made_s, again_s);
    ck_assert_double_eq_tol(made.mean.computing_s, again.mean.computing_s, 1e-6 * made_s);
    ck_assert_double_eq_tol(made.mean.bubble_s, again.mean.bubble_s, 1e-6 * made_s);
    ck_assert_double_eq_tol(made.mean.exposed_comm_s, again.mean.exposed_comm_s, 1e-6 * made_s);
    for (int32_t i = 0; i < CS_N_FABRICS; i++) {
        ck_assert_double_eq_tol(made.asked_bytes[i], again.asked_bytes[i], 1e-6 * (1 + made.asked_bytes[i]));
    }
    ck_assert_int_eq(notes.n_counted + notes.n_host + notes.n_memory + notes.n_barriers, 0);
    cs_trace_free(read);
    scratch_close(dir);
}

static const struct handmade shapes[] = {
    {1, 1, 1, 1, false, 1e12, 2e12, 0, 0, 0},
    {1, 1, 8, 16, false, 1e12, 2e12, 0, 16 << 20, 0},
    {1, 8, 1, 8, true, 1e12, 2e12, 0, 0, 1000000007},
    {2, 2, 4, 8, false, 1e12, 2e12, 1 << 20, 16 << 20, 1 << 28},
};

START_TEST(test_handmade)
{
    struct fixture f;
    fixture_open(&f, 2, 8, NULL);
    struct cs_trace *trace = handmade_trace(&shapes[_i]);
    assert_native_replay(&f, trace);
    assert_chakra_replay(&f, trace);
    handmade_free(trace);
    fixture_close(&f);
}
END_TEST

START_TEST(test_generated)
{
    static const char *const strategies[] = {"dp=4,mp=2,pp=2", "dp=2,mp=2,pp=4,zero=3,op=2,sp=true",
                                             "dp=4,pp=4,zero=2,op=2,schedule=gpipe,recompute=full"};
    struct fixture f;
    fixture_open(&f, 2, 8, NULL);
    struct cs_model model = workload_model("llama2-7b");
    struct cs_training training = workload_training(&model, 16, 2048);
    struct cs_trace *trace = workload_trace(&model, &training, strategies[_i]);
    assert_native_replay(&f, trace);
    assert_chakra_replay(&f, trace);
    cs_trace_free(trace);
    cs_model_release(&model);
    fixture_close(&f);
}
END_TEST

static Suite *format_replay_suite(void)
{
    Suite *suite = suite_create("format replay");
    TCase *tc = tcase_create("replay");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_handmade, 0, CS_COUNT(shapes));
    tcase_add_loop_test(tc, test_generated, 0, 3);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(format_replay_suite)
