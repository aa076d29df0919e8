/* The replay: closed forms, conservation, folding against full replay, faults, ends that are not happy. */
#include "cs_test.h"
#include "fixture.h"
#include "handmade.h"
#include "workload_fixture.h"

#include "cs/base/rng.h"

#include <math.h>
#include <stdio.h>

/* Under sanitizers SimGrid's actors are threads, a hundred times slower: fewer cases. */
#ifdef CS_SANITIZER
#define M_STEP 21
#define N_RANDOM 5
#define MOST_RANKS 16
#else
#define M_STEP 1
#define N_RANDOM 40
#define MOST_RANKS 64
#endif

/* Communication that costs nothing, and a chip without fixed costs. */
static struct cs_chip free_chip;

static void free_links(struct cs_topology_spec *spec)
{
    spec->intra_bytes_per_s = 1e15; /* the most a description may say */
    spec->inter_bytes_per_s = 1e15; /* the most a description may say */
    spec->intra_latency_s = 0;
    spec->inter_latency_s = 0;
    spec->hop_latency_s = 0;
}

static void use_free_chip(struct fixture *f)
{
    free_chip = *f->platform.devices[0].chip;
    free_chip.collective_overhead_s = 0;
    free_chip.kernel_overhead_s = 0;
    for (int32_t i = 0; i < f->platform.n_devices; i++) {
        f->platform.devices[i].chip = &free_chip;
    }
}

static void run_trace(struct fixture *f, const struct cs_trace *trace, struct cs_run_options *options,
                      struct cs_run *run)
{
    struct cs_err err = {0};
    options->simgrid_cfg = fixture_simgrid_cfg();
    ck_assert_ok(cs_engine_run(trace, f->routes, options, run, &err), &err);
    ck_assert(run->metrics.checks.bytes_conserved);
    ck_assert(run->metrics.checks.time_accounted);
    ck_assert(run->metrics.checks.operations_complete);
    double path_s = 0;
    for (int32_t i = 0; i < run->n_path; i++) {
        path_s += run->path[i].time_s;
    }
    ck_assert_double_eq_tol(path_s, run->metrics.iteration_s, 1e-9 * run->metrics.iteration_s);
}

static void run_shape(struct fixture *f, const struct handmade *shape, struct cs_run_options *options,
                      struct cs_run *run)
{
    struct cs_trace *trace = handmade_trace(shape);
    run_trace(f, trace, options, run);
    handmade_free(trace);
}

/* (p-1)/(m+p-1), Narayanan et al., arXiv 2104.04473 section 2.2.1 (as a share of the whole step). */
START_TEST(test_bubble)
{
    struct fixture f;
    fixture_open(&f, 2, 8, free_links);
    use_free_chip(&f);
    int32_t p = _i / 2 + 1;
    struct cs_run_options options;
    cs_run_options_init(&options);
    for (int32_t m = p; m <= 64; m += M_STEP) {
        struct handmade shape = {1, 1, p, m, _i % 2, 3e12, 6e12, 0, 1, 0};
        struct cs_run run = {0};
        run_shape(&f, &shape, &options, &run);
        double want = (p - 1.0) / (m + p - 1.0);
        ck_assert_msg(fabs(run.metrics.bubble_frac - want) <= 1e-6, "p %d, m %d: bubble %.9f, want %.9f", p,
                      m, run.metrics.bubble_frac, want);
        for (int32_t r = 0; r < p; r++) {
            ck_assert_double_eq_tol(run.ranks[r].bubble_s / run.metrics.iteration_s, want, 1e-6);
        }
        cs_run_release(&run);
    }
    fixture_close(&f);
}
END_TEST

static void assert_alike(const struct cs_run *a, const struct cs_run *b, const char *what)
{
    const struct cs_metrics *x = &a->metrics;
    const struct cs_metrics *y = &b->metrics;
    ck_assert_msg(fabs(x->iteration_s - y->iteration_s) <= 1e-6 * y->iteration_s, "%s: %.12g against %.12g s",
                  what, x->iteration_s, y->iteration_s);
    ck_assert_msg(fabs(x->bubble_frac - y->bubble_frac) < 1e-5 && fabs(x->comm_frac - y->comm_frac) < 1e-5 &&
                      fabs(x->exposed_comm_frac - y->exposed_comm_frac) < 1e-5 &&
                      fabs(x->cross_node_comm_frac - y->cross_node_comm_frac) < 1e-5,
                  "%s: shares differ: bubble %g %g, comm %g %g, exposed %g %g, cross %g %g", what,
                  x->bubble_frac, y->bubble_frac, x->comm_frac, y->comm_frac, x->exposed_comm_frac,
                  y->exposed_comm_frac, x->cross_node_comm_frac, y->cross_node_comm_frac);
    for (int32_t k = 0; k < CS_N_FABRICS; k++) {
        ck_assert_double_eq_tol(x->carried_bytes[k], y->carried_bytes[k], 1e-9 * (1 + y->carried_bytes[k]));
    }
    ck_assert_int_eq(x->n_operations, y->n_operations);
}

/* Folding and skipping change nothing but the work: random pipelines, some with a straggler or a slow link.
 */
START_TEST(test_folded_equals_full)
{
    struct fixture f;
    fixture_open(&f, 8, 8, NULL);
    struct cs_rng rng;
    cs_rng_init(&rng, 2024, (uint64_t)_i);
    struct handmade shape = {
        .mp = 1 << cs_rng_below(&rng, 4),
        .pp = 1 << cs_rng_below(&rng, 3),
        .gpipe = cs_rng_below(&rng, 2),
        .forward_flop = 1e11 + 1e12 * cs_rng_unit(&rng),
        .backward_flop = 2e11 + 2e12 * cs_rng_unit(&rng),
        .mp_bytes = cs_rng_below(&rng, 4) * 4000000,
        .pp_bytes = 1 + cs_rng_below(&rng, 64) * 1000000,
        .dp_bytes = cs_rng_below(&rng, 3) * 200000000,
    };
    int32_t most = MOST_RANKS / (shape.mp * shape.pp);
    most = most < 1 ? 1 : most;
    while (most > 8) {
        most /= 2;
    }
    shape.dp = 1 << cs_rng_below(&rng, most == 1 ? 1 : most == 2 ? 2 : most == 4 ? 3 : 4);
    shape.m = shape.pp + (int32_t)cs_rng_below(&rng, 60);
    struct cs_slow_device slow = {(int32_t)cs_rng_below(&rng, (uint32_t)(shape.mp * shape.dp * shape.pp)),
                                  1 + cs_rng_unit(&rng)};
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.slow_devices = &slow;
    options.n_slow_devices = cs_rng_below(&rng, 4) == 0;
    struct cs_run folded = {0};
    struct cs_run full = {0};
    run_shape(&f, &shape, &options, &folded);
    options.fidelity = CS_FIDELITY_FULL;
    options.view = CS_VIEW_FLOW;
    run_shape(&f, &shape, &options, &full);
    char what[160];
    snprintf(what, sizeof what, "case %d: mp %d dp %d pp %d m %d gpipe %d slow %d", _i, shape.mp, shape.dp,
             shape.pp, shape.m, shape.gpipe, options.n_slow_devices);
    assert_alike(&folded, &full, what);
    ck_assert_int_eq(full.metrics.n_rank_classes, shape.mp * shape.dp * shape.pp);
    cs_run_release(&folded);
    cs_run_release(&full);
    fixture_close(&f);
}
END_TEST

START_TEST(test_folds_and_skips)
{
    struct fixture f;
    fixture_open(&f, 8, 8, NULL);
    struct handmade shape = {4, 4, 4, 512, false, 1e12, 2e12, 8000000, 16000000, 400000000};
    struct cs_run_options options;
    cs_run_options_init(&options);
    struct cs_run run = {0};
    run_shape(&f, &shape, &options, &run);
    ck_assert_int_eq(run.metrics.n_rank_classes, 4); /* one a stage */
    ck_assert_double_gt(run.metrics.skipped_frac, 0.9);
    cs_run_release(&run);
    struct cs_slow_device slow = {5,
                                  1.25}; /* stage 0, replica 1: its group, its partners, everyone like them */
    options.slow_devices = &slow;
    options.n_slow_devices = 1;
    run_shape(&f, &shape, &options, &run);
    ck_assert_int_gt(run.metrics.n_rank_classes, 4);
    ck_assert_ptr_nonnull(strstr(run.folding, "slow device"));
    cs_run_release(&run);
    fixture_close(&f);
}
END_TEST

START_TEST(test_deterministic)
{
    struct fixture f;
    fixture_open(&f, 8, 8, NULL);
    struct handmade shape = {2, 8, 4, 24, false, 1e12, 2e12, 8000000, 16000000, 400000000};
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.fidelity = _i ? CS_FIDELITY_FULL : CS_FIDELITY_FOLDED;
    options.jitter_frac = _i == 2 ? 0.05 : 0;
    options.seed = 7;
    struct cs_run a = {0};
    struct cs_run b = {0};
    run_shape(&f, &shape, &options, &a);
    run_shape(&f, &shape, &options, &b);
    ck_assert(a.metrics.iteration_s == b.metrics.iteration_s);
    ck_assert(memcmp(&a.metrics.mean, &b.metrics.mean, sizeof a.metrics.mean) == 0);
    if (_i == 2) {
        cs_run_release(&b);
        options.seed = 8;
        run_shape(&f, &shape, &options, &b);
        ck_assert(a.metrics.iteration_s != b.metrics.iteration_s);
    }
    cs_run_release(&a);
    cs_run_release(&b);
    fixture_close(&f);
}
END_TEST

static void half_inter(struct cs_topology_spec *spec)
{
    spec->inter_bytes_per_s /= 2;
}

static double iteration(const struct handmade *shape, void (*edit)(struct cs_topology_spec *spec))
{
    struct fixture f;
    fixture_open(&f, 8, 8, edit);
    struct cs_run_options options;
    cs_run_options_init(&options);
    struct cs_run run = {0};
    run_shape(&f, shape, &options, &run);
    double time_s = run.metrics.iteration_s;
    cs_run_release(&run);
    fixture_close(&f);
    return time_s;
}

/* The fabric between nodes matters where and only where traffic crosses nodes. */
START_TEST(test_inter_bandwidth)
{
    struct handmade inside = {4, 2, 1, 8, false, 1e12, 2e12, 8000000, 1, 400000000};
    struct handmade across = {4, 4, 4, 8, false, 1e12, 2e12, 8000000, 16000000, 400000000};
    ck_assert(iteration(&inside, NULL) == iteration(&inside, half_inter));
    ck_assert_double_gt(iteration(&across, half_inter), 1.01 * iteration(&across, NULL));
}
END_TEST

START_TEST(test_faults)
{
    struct fixture f;
    fixture_open(&f, 2, 8, NULL);
    struct cs_err err = {0};
    struct handmade shape = {8, 2, 1, 4, false, 1e12, 2e12, 8000000, 1, 400000000};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_run_options options;
    cs_run_options_init(&options);
    struct cs_run run = {0};
    run_trace(&f, trace, &options, &run);
    double healthy_s = run.metrics.iteration_s;
    cs_run_release(&run);
    struct cs_route route = cs_routes_get(f.routes, 0, 8);
    struct cs_slow_link slow = {cs_routes_link(f.routes, route.links[0])->name, 0.25, false};
    options.slow_links = &slow;
    options.n_slow_links = 1;
    run_trace(&f, trace, &options, &run);
    ck_assert_double_gt(run.metrics.iteration_s, healthy_s);
    double folded_s = run.metrics.iteration_s;
    cs_run_release(&run);
    options.fidelity = CS_FIDELITY_FULL;
    run_trace(&f, trace, &options, &run);
    ck_assert_double_eq_tol(run.metrics.iteration_s, folded_s, 1e-6 * folded_s);
    cs_run_release(&run);
    slow.factor = 0;
    ck_assert_fails(cs_engine_run(trace, f.routes, &options, &run, &err), &err, CS_E_INPUT, 0, "is dead");
    slow.name = "no_such_link";
    ck_assert_fails(cs_engine_run(trace, f.routes, &options, &run, &err), &err, CS_E_INPUT, 0,
                    "no route crosses a link 'no_such_link'");
    handmade_free(trace);
    fixture_close(&f);
}
END_TEST

/* What the catalogue does not know of a chip cannot be run on it: no NaN, no infinity as a time. */
START_TEST(test_missing_figure)
{
    struct fixture f;
    fixture_open(&f, 1, 8, NULL);
    struct cs_err err = {0};
    struct handmade shape = {4, 2, 1, 4, false, 1e12, 2e12, 8000000, 1, 400000000};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_chip chip = *f.platform.devices[0].chip;
    for (int32_t i = 0; i < CS_N_DTYPES; i++) {
        chip.peak_flop_per_s[i] = NAN;
    }
    const struct cs_chip *known = f.platform.devices[5].chip;
    f.platform.devices[5].chip = &chip;
    struct cs_run_options options;
    cs_run_options_init(&options);
    struct cs_run run = {0};
    ck_assert_fails(cs_engine_run(trace, f.routes, &options, &run, &err), &err, CS_E_INPUT, 0,
                    "the catalogue has no figure of chip");
    f.platform.devices[5].chip = known;
    run_trace(&f, trace, &options, &run);
    cs_run_release(&run);
    handmade_free(trace);
    fixture_close(&f);
}
END_TEST

/* Stage 1 waits for a message that nobody sends. */
START_TEST(test_deadlock)
{
    struct fixture f;
    fixture_open(&f, 1, 8, NULL);
    struct cs_err err = {0};
    struct handmade shape = {1, 1, 2, 4, false, 1e12, 2e12, 0, 1000, 0};
    struct cs_trace *trace = handmade_trace(&shape);
    trace->programs[0].n_calls = 3;
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.simgrid_cfg = fixture_simgrid_cfg();
    struct cs_run run = {0};
    ck_assert_fails(cs_engine_run(trace, f.routes, &options, &run, &err), &err, CS_E_DEADLOCK, 0,
                    "rank 0 to send on 'pp-forward'");
    handmade_free(trace);
    fixture_close(&f);
}
END_TEST

START_TEST(test_timeline)
{
    struct fixture f;
    fixture_open(&f, 2, 8, NULL);
    struct handmade shape = {2, 2, 2, 6, false, 1e12, 2e12, 8000000, 16000000, 400000000};
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.timeline = true;
    struct cs_run run = {0};
    run_shape(&f, &shape, &options, &run);
    double computing_s[8] = {0};
    for (int64_t i = 0; i < run.n_spans; i++) {
        const struct cs_span *span = &run.spans[i];
        ck_assert(span->end_s >= span->start_s && span->end_s <= run.metrics.iteration_s * (1 + 1e-12));
        computing_s[span->rank] += span->type == CS_OP_COMPUTE ? span->end_s - span->start_s : 0;
        if (i > 0 && span[-1].rank == span->rank && span[-1].lane == span->lane &&
            span->lane == CS_STREAM_COMPUTE) {
            ck_assert(span->start_s >= span[-1].end_s - 1e-12);
        }
    }
    for (int32_t r = 0; r < 8; r++) {
        ck_assert_double_eq_tol(computing_s[r], run.ranks[r].computing_s, 1e-9);
    }
    cs_run_release(&run);
    fixture_close(&f);
}
END_TEST

START_TEST(test_too_few_devices)
{
    struct fixture f;
    fixture_open(&f, 1, 8, NULL);
    struct cs_err err = {0};
    struct handmade shape = {2, 8, 1, 1, false, 1e12, 2e12, 8000000, 1, 1000};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_run_options options;
    cs_run_options_init(&options);
    struct cs_run run = {0};
    ck_assert_fails(cs_engine_run(trace, f.routes, &options, &run, &err), &err, CS_E_INPUT, 0, "16 ranks");
    handmade_free(trace);
    fixture_close(&f);
}
END_TEST

static double on_path_s(const struct cs_run *run, const char *what)
{
    for (int32_t i = 0; i < run->n_path; i++) {
        if (strcmp(run->path[i].what, what) == 0) {
            return run->path[i].time_s;
        }
    }
    return 0;
}

START_TEST(test_host_copies)
{
    /* One device: swapped activations and offloaded states are no communication, whatever they take, and no
     * computing either. What nothing hides is a kind of its own on the critical path, and free time. */
    struct fixture f;
    struct cs_run plain = {0};
    struct cs_run swapped = {0};
    struct cs_run_options options;
    fixture_open(&f, 1, 1, NULL);
    const struct cs_model model = workload_gpt(6, 512, 8, 4096);
    struct cs_training training = workload_training(&model, 4, 1024);
    training.host_bytes_per_s = 5e9; /* slow enough to be waited for */
    cs_run_options_init(&options);
    struct cs_trace *trace = workload_trace(&model, &training, "dp=1");
    run_trace(&f, trace, &options, &plain);
    cs_trace_free(trace);
    trace = workload_trace(&model, &training, "dp=1,swap_activations=true,offload_optimizer=true");
    for (int32_t fidelity = 0; fidelity < 2; fidelity++) {
        options.fidelity = fidelity == 0 ? CS_FIDELITY_FOLDED : CS_FIDELITY_FULL;
        run_trace(&f, trace, &options, &swapped);
        const struct cs_time_shares *mean = &swapped.metrics.mean;
        ck_assert(mean->comm_s < 1e-12 && mean->exposed_comm_s < 1e-12); /* sums of doubles */
        ck_assert_double_eq_tol(mean->computing_s / plain.metrics.mean.computing_s, 1.0, 1e-9);
        ck_assert_double_gt(mean->beside_s, 0);
        ck_assert_double_eq_tol(mean->beside_s, swapped.metrics.iteration_s - mean->computing_s,
                                1e-9 * swapped.metrics.iteration_s);
        ck_assert_double_gt(on_path_s(&swapped, "host"), 0);
        ck_assert_double_le(on_path_s(&swapped, "elementwise"),
                            on_path_s(&plain, "elementwise") * (1 + 1e-9));
        cs_run_release(&swapped);
    }
    cs_trace_free(trace);
    cs_run_release(&plain);
    fixture_close(&f);
}
END_TEST

static void slow_wires(struct cs_topology_spec *spec)
{
    free_links(spec);
    spec->inter_bytes_per_s = 1e9;
}

START_TEST(test_serial_messages)
{
    /* Two stages, the second the slower by its head, messages that take x. When only senders wait, the second
     * spends x a micro-batch on its gradient and finds its input there; when both neighbours wait for each
     * message, outputs before gradients, 2 x. */
    struct fixture f;
    struct cs_run_options options;
    double slope_s[2];
    fixture_open(&f, 2, 1, slow_wires);
    use_free_chip(&f);
    const struct cs_model model = workload_gpt(2, 512, 8, 8192);
    for (int32_t serial = 0; serial < 2; serial++) {
        double step_s[2];
        for (int32_t k = 0; k < 2; k++) {
            struct cs_training training = workload_training(&model, 8 + 8 * k, 1024);
            struct cs_run run = {0};
            training.blocking_sends = true;
            training.serial_messages = serial == 1;
            struct cs_trace *trace = workload_trace(&model, &training, "pp=2");
            cs_run_options_init(&options);
            run_trace(&f, trace, &options, &run);
            step_s[k] = run.metrics.iteration_s;
            cs_run_release(&run);
            cs_trace_free(trace);
        }
        slope_s[serial] = (step_s[1] - step_s[0]) / 8;
    }
    const double message_s = 1024 * 512 * 2 / 1e9;
    ck_assert_double_eq_tol(slope_s[1] - slope_s[0], message_s, 1e-5 * message_s);
    fixture_close(&f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("engine");
    TCase *c = tcase_create("replay");
    tcase_add_loop_test(c, test_bubble, 0, 32);
    tcase_add_loop_test(c, test_folded_equals_full, 0, N_RANDOM);
    tcase_add_test(c, test_folds_and_skips);
    tcase_add_loop_test(c, test_deterministic, 0, 3);
    tcase_add_test(c, test_inter_bandwidth);
    tcase_add_test(c, test_faults);
    tcase_add_test(c, test_missing_figure);
    tcase_add_test(c, test_deadlock);
    tcase_add_test(c, test_timeline);
    tcase_add_test(c, test_too_few_devices);
    tcase_add_test(c, test_host_copies);
    tcase_add_test(c, test_serial_messages);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
