/* What is equal must cost the same: dimensions of a torus, layers of a model, nodes of a cluster. */
#include "cs_test.h"
#include "fixture.h"

#include <math.h>

static void square_torus(struct cs_topology_spec *spec)
{
    spec->topology = CS_TOPOLOGY_TORUS;
    spec->dims[0] = 4;
    spec->dims[1] = 4;
    spec->dims[2] = 1;
}

static double ring_s(struct fixture *f, int32_t first, int32_t stride, enum cs_coll coll,
                     enum cs_algorithm algorithm)
{
    struct cs_err err = {0};
    int32_t members[4];
    enum cs_algorithm used;
    double time_s = 0;
    for (int32_t i = 0; i < 4; i++) {
        members[i] = (first + i * stride) * f->platform.devices_per_node;
    }
    ck_assert_ok(cs_engine_collective(f->routes, coll, 64e6, members, 4, algorithm, CS_VIEW_FLOW, &time_s,
                                      &used, &err),
                 &err);
    return time_s;
}

/* A row and a column of a 4 x 4 torus are the same ring. */
START_TEST(test_torus_dimensions)
{
    struct fixture f;
    fixture_open(&f, 16, 2, square_torus);
    static const enum cs_algorithm algorithms[] = {CS_ALGO_RING, CS_ALGO_PAIRWISE};
    for (int32_t coll = CS_COLL_ALL_REDUCE; coll <= CS_COLL_ALL_TO_ALL; coll++) {
        for (int32_t a = 0; a < CS_COUNT(algorithms); a++) {
            double row_s = ring_s(&f, 0, 1, (enum cs_coll)coll, algorithms[a]);
            double column_s = ring_s(&f, 0, 4, (enum cs_coll)coll, algorithms[a]);
            double other_s = ring_s(&f, 3, 4, (enum cs_coll)coll, algorithms[a]);
            ck_assert_double_eq_tol(column_s, row_s, 1e-9 * row_s);
            ck_assert_double_eq_tol(other_s, row_s, 1e-9 * row_s);
        }
    }
    fixture_close(&f);
}
END_TEST

static struct cs_trace *small_trace(const struct fixture *f, int32_t dp, int32_t mp, int32_t pp)
{
    struct cs_err err = {0};
    struct cs_model model = {0};
    struct cs_trace *trace = NULL;
    (void)f;
    ck_assert_ok(cs_model_load(&model, CS_TEST_SOURCE_DIR "/workloads/models/llama3-8b.yaml", &err), &err);
    model.n_layers = 8;
    struct cs_training training = {
        .global_batch = 4 * dp,
        .seq_length = 2048,
        .dtype = CS_DTYPE_BF16,
        .gradient_dtype = CS_DTYPE_FP32,
        .optimizer = CS_OPT_ADAMW,
        .bucket_bytes = 64e6,
        .clip_gradient = true,
        .flash_attention = true,
    };
    struct cs_strategy strategy;
    cs_strategy_init(&strategy);
    strategy.dp = dp;
    strategy.mp = mp;
    strategy.pp = pp;
    ck_assert_ok(cs_trace_build(&model, &training, &strategy, &trace, &err), &err);
    cs_model_release(&model);
    return trace;
}

/* Every layer's operator takes as long as the same operator of every other layer. */
START_TEST(test_layers)
{
    struct fixture f;
    fixture_open(&f, 1, 8, NULL);
    struct cs_err err = {0};
    struct cs_trace *trace = small_trace(&f, 2, 4, 1);
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.simgrid_cfg = fixture_simgrid_cfg();
    options.timeline = true;
    struct cs_run run = {0};
    ck_assert_ok(cs_engine_run(trace, f.routes, &options, &run, &err), &err);
    enum { PHASES = 3 };
    double *first_s = cs_calloc((size_t)trace->n_labels * PHASES, sizeof *first_s);
    int32_t n_compared = 0;
    for (int64_t i = 0; i < run.n_spans; i++) {
        const struct cs_span *span = &run.spans[i];
        if (span->type != CS_OP_COMPUTE || span->layer < 0 || span->phase >= PHASES) {
            continue;
        }
        double time_s = span->end_s - span->start_s;
        double *known_s = &first_s[span->label * PHASES + span->phase];
        if (*known_s > 0) {
            ck_assert_msg(fabs(time_s - *known_s) < 1e-9, "layer %d: '%s' takes %g s, elsewhere %g",
                          span->layer, trace->labels[span->label], time_s, *known_s);
            n_compared++;
        }
        *known_s = time_s;
    }
    ck_assert_int_gt(n_compared, 1000);
    cs_free(first_s);
    cs_run_release(&run);
    cs_trace_free(trace);
    fixture_close(&f);
}
END_TEST

/* A straggler costs the same whichever of two equal nodes it stands in. */
START_TEST(test_nodes)
{
    struct fixture f;
    fixture_open(&f, 4, 8, NULL);
    struct cs_err err = {0};
    struct cs_trace *trace = small_trace(&f, 4, 8, 1);
    double time_s[4];
    for (int32_t node = 0; node < 4; node++) {
        struct cs_slow_device slow = {8 * node + 3, 1.4};
        struct cs_run_options options;
        cs_run_options_init(&options);
        options.simgrid_cfg = fixture_simgrid_cfg();
        options.slow_devices = &slow;
        options.n_slow_devices = 1;
        struct cs_run run = {0};
        ck_assert_ok(cs_engine_run(trace, f.routes, &options, &run, &err), &err);
        time_s[node] = run.metrics.iteration_s;
        cs_run_release(&run);
        ck_assert_double_eq_tol(time_s[node], time_s[0], 1e-9 * time_s[0]);
    }
    cs_trace_free(trace);
    fixture_close(&f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("symmetry");
    TCase *c = tcase_create("equal");
    tcase_add_test(c, test_torus_dimensions);
    tcase_add_test(c, test_layers);
    tcase_add_test(c, test_nodes);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
