/* Tensor-parallel communication under computation: half-batches, fused products, collectives beside the
 * gradients that need them not, and results of communication that are kept. */
#include "cs/strategies/cost.h"

#include "cs_test.h"
#include "fixture.h"
#include "workload_fixture.h"

static struct cs_model model;
static struct cs_training training;

static void setup(void)
{
    workload_small(&model, &training);
}

static void teardown(void)
{
    cs_model_release(&model);
}

static void totals_of(const char *strategy, struct cs_trace_totals *totals, struct cs_mem_peak *peak)
{
    struct cs_trace *trace = workload_trace(&model, &training, strategy);
    cs_trace_program_totals(trace, 0, totals);
    cs_trace_memory(trace, 0, peak);
    cs_trace_free(trace);
}

/* The same work, bytes and memory. */
static void check_totals(const struct cs_trace_totals *a, const struct cs_mem_peak *peak_a,
                         const struct cs_trace_totals *b, const struct cs_mem_peak *peak_b)
{
    ck_assert_double_eq_tol(b->compute_flop / a->compute_flop, 1.0, 1e-9);
    for (int32_t c = 0; c < CS_N_COLLS; c++) {
        ck_assert_double_eq_tol(b->coll_bytes[c], a->coll_bytes[c], 1e-6 * a->coll_bytes[c] + 1);
    }
    ck_assert_int_eq(peak_a->total_bytes, peak_b->total_bytes);
}

START_TEST(test_overlap_moves_as_much)
{
    static const char *const rows[] = {"mp=4,half_batches=2", "mp=4,fused_tp=true",
                                       "mp=4,sp=true,half_batches=2", "mp=4,sp=true,fused_tp=true",
                                       "mp=4,sp=true,fused_tp=true,recompute=full"};
    static const char *const plain[] = {"mp=4", "mp=4", "mp=4,sp=true", "mp=4,sp=true",
                                        "mp=4,sp=true,recompute=full"};
    struct cs_trace_totals a;
    struct cs_trace_totals b;
    struct cs_mem_peak peak_a;
    struct cs_mem_peak peak_b;
    totals_of(plain[_i], &a, &peak_a);
    totals_of(rows[_i], &b, &peak_b);
    check_totals(&a, &peak_a, &b, &peak_b);
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i]);
    const struct cs_block *block = workload_block(trace, 0, "forward");
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COLLECTIVE && op->layer >= 0) {
            ck_assert_str_eq(trace->comms[op->comm].name, "tp-async");
            ck_assert_int_ne(op->stream, CS_STREAM_COMPUTE);
        }
    }
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_kept_communication)
{
    /* Full recomputation: a set of tensor-parallel collectives less, against their results being kept. */
    struct cs_trace_totals a;
    struct cs_trace_totals b;
    struct cs_mem_peak peak_a;
    struct cs_mem_peak peak_b;
    totals_of("mp=4,recompute=full", &a, &peak_a);
    totals_of("mp=4,recompute=full,keep_comm=true", &b, &peak_b);
    const double sbh = 1024.0 * 512 * 2;
    ck_assert_double_eq_tol(a.coll_bytes[CS_COLL_ALL_REDUCE] - b.coll_bytes[CS_COLL_ALL_REDUCE],
                            8 * 4 * 2 * sbh, 1);
    struct cs_trace *trace = workload_trace(&model, &training, "mp=4,recompute=full,keep_comm=true");
    int64_t bytes;
    workload_count(
        trace, workload_block(trace, 0, "forward"),
        (struct workload_filter){.type = IS(CS_OP_ALLOC), .mem = IS(CS_MEM_ACTIVATIONS), .layer = IS(1)},
        &bytes);
    ck_assert_int_eq(bytes, 3 * (int64_t)sbh);
    cs_trace_free(trace);
}
END_TEST

/* A layer's two column-cut products: their inputs gathered again and their gradients scattered under sp,
 * these all-reduced without; the other collectives, and all of what runs again, hold the compute stream up.
 * */
START_TEST(test_beside_gradients)
{
    static const struct {
        const char *strategy;
        int32_t beside[CS_N_COLLS], alone[CS_N_COLLS]; /* of a layer, backward and what it runs again */
    } rows[] = {
        {"mp=4", {[CS_COLL_ALL_REDUCE] = 2}, {[CS_COLL_ALL_REDUCE] = 0}},
        {"mp=4,recompute=full", {[CS_COLL_ALL_REDUCE] = 2}, {[CS_COLL_ALL_REDUCE] = 2}},
        {"mp=4,sp=true",
         {[CS_COLL_ALL_GATHER] = 2, [CS_COLL_REDUCE_SCATTER] = 2},
         {[CS_COLL_ALL_GATHER] = 2}},
    };
    struct cs_trace_totals a;
    struct cs_trace_totals b;
    struct cs_mem_peak peak_a;
    struct cs_mem_peak peak_b;
    totals_of(rows[_i].strategy, &a, &peak_a);
    training.async_tensor_parallel = true;
    totals_of(rows[_i].strategy, &b, &peak_b);
    check_totals(&a, &peak_a, &b, &peak_b);
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    const struct cs_block *block = workload_block(trace, 0, "backward");
    for (enum cs_coll c = 0; c < CS_N_COLLS; c++) {
        for (int32_t layer = 0; layer < 4; layer++) {
            struct workload_filter filter = {.coll = IS(c), .layer = IS(layer), .comm = "tp-async"};
            ck_assert_int_eq(workload_count(trace, block, filter, NULL), rows[_i].beside[c]);
            filter.comm = "tp";
            ck_assert_int_eq(workload_count(trace, block, filter, NULL), rows[_i].alone[c]);
        }
    }
    ck_assert_int_eq(workload_count(trace, workload_block(trace, 0, "forward"),
                                    (struct workload_filter){.comm = "tp-async"}, NULL),
                     0);
    cs_trace_free(trace);
}
END_TEST

/* Where others overlap a layer's communication, the head's one product alone is left; where backward is split
 * nothing is; without --mlp-layer-fusion a gated layer has three column-cut products; a shared expert is
 * dense, experts are left out.
 */
START_TEST(test_beside_gradients_where)
{
    static const struct {
        const char *strategy, *block;
        bool moe, gated, gate;
        int32_t head, layer; /* collectives beside */
    } rows[] = {{"mp=4,sp=true", "backward", false, false, false, 2, 4},
                {"mp=4,sp=true,fused_tp=true", "backward", false, false, false, 2, 0},
                {"mp=4,sp=true,half_batches=2", "backward", false, false, false, 2, 0},
                {"mp=4,sp=true,pp=2,schedule=zero-bubble", "input gradients", false, false, false, 0, 0},
                {"mp=4,sp=true", "backward", false, true, false, 2, 4},
                {"mp=4,sp=true", "backward", false, true, true, 2, 6},
                {"mp=4,sp=true,expert_mp=true", "backward", true, false, false, 2, 4}};
    struct cs_model m = rows[_i].moe     ? workload_moe(4, false)
                        : rows[_i].gated ? workload_model("llama2-7b")
                                         : workload_gpt(4, 512, 8, 4096);
    struct cs_training t = workload_training(&m, 8, 1024);
    t.separate_gate = rows[_i].gate;
    int32_t head[2]; /* without and with */
    int32_t layer[2];
    for (int32_t i = 0; i < 2; i++) {
        t.async_tensor_parallel = i == 1;
        struct cs_trace *trace = workload_trace(&m, &t, rows[_i].strategy);
        const struct cs_block *block = workload_block(trace, trace->n_programs - 1, rows[_i].block);
        struct workload_filter filter = {.comm = "tp-async"};
        ck_assert_ptr_nonnull(block);
        head[i] = workload_count(trace, block, filter, NULL);
        for (int32_t l = 0; l < m.n_layers; l++) {
            filter.layer = IS(l);
            layer[i] = workload_count(trace, block, filter, NULL); /* at last of one with experts */
            head[i] -= layer[i];
        }
        cs_trace_free(trace);
    }
    ck_assert_int_eq(head[1] - head[0], rows[_i].head);
    ck_assert_int_eq(layer[1] - layer[0], rows[_i].layer);
    cs_model_release(&m);
}
END_TEST

struct timed {
    double step_s, closed_s;
};

static struct timed time_of(const struct fixture *f, const struct cs_strategy *strategy)
{
    struct cs_err err = {0};
    struct cs_run_options options;
    struct cs_estimate estimate;
    struct cs_run run = {0};
    struct cs_trace *trace = NULL;
    cs_run_options_init(&options);
    options.simgrid_cfg = fixture_simgrid_cfg();
    struct cs_cost *cost = cs_cost_new(&model, &training, f->routes, &options, &CS_COST_SCALE_NONE);
    ck_assert_ok(cs_cost_prepare(cost, &strategy, 1, NULL, &err), &err);
    cs_cost_estimate(cost, strategy, &estimate);
    ck_assert(!estimate.is_coarse);
    ck_assert_ok(cs_trace_build(&model, &training, strategy, &trace, &err), &err);
    ck_assert_ok(cs_engine_run(trace, f->routes, &options, &run, &err), &err);
    const struct timed timed = {run.metrics.iteration_s, estimate.time_s};
    cs_run_release(&run);
    cs_trace_free(trace);
    cs_cost_free(cost);
    return timed;
}

/* Seconds that the pairs of a rank's backward blocks hide: the shorter of each. */
static double hidden_s(const struct fixture *f, const struct cs_strategy *strategy)
{
    static const int32_t members[] = {0, 1, 2, 3};
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    struct cs_arena arena = {0};
    const struct cs_chip *chip = f->platform.devices[0].chip;
    double sum_s = 0;
    ck_assert_ok(cs_trace_build(&model, &training, strategy, &trace, &err), &err);
    const struct cs_program *program = &trace->programs[0];
    for (int32_t c = 0; c < program->n_calls; c++) {
        const struct cs_block *block = &trace->blocks[program->calls[c].block];
        double coll_s = -1; /* of the collective that runs, < 0 = none does */
        for (int32_t i = 0; i < block->n_ops; i++) {
            const struct cs_op *op = &block->ops[i];
            if (op->type == CS_OP_COLLECTIVE && op->stream != CS_STREAM_COMPUTE) {
                struct cs_coll_plan plan;
                cs_coll_plan_build((enum cs_coll)op->coll, CS_ALGO_AUTO, &f->platform, members, 4,
                                   (double)op->bytes, &arena, &plan);
                coll_s = chip->collective_overhead_s + cs_coll_closed_form_s(&plan, f->routes, members);
            } else if (op->type == CS_OP_COMPUTE && coll_s >= 0) {
                double product_s = cs_chip_op_time_s(chip, &trace->costs[op->cost]);
                sum_s += product_s < coll_s ? product_s : coll_s;
                coll_s = -1;
            }
        }
    }
    cs_arena_release(&arena);
    cs_trace_free(trace);
    return sum_s;
}

START_TEST(test_beside_gradients_takes_the_longer)
{
    static const char *const rows[] = {"mp=4", "mp=4,sp=true,recompute=full", "mp=4,sp=true,micro_batch=2"};
    struct cs_strategy strategy = workload_strategy(rows[_i]);
    struct fixture f;
    fixture_open(&f, 1, 4, NULL);
    training.async_tensor_parallel = false;
    struct timed plain = time_of(&f, &strategy);
    training.async_tensor_parallel = true;
    struct timed beside = time_of(&f, &strategy);
    double hidden = hidden_s(&f, &strategy);
    ck_assert_double_gt(hidden, 0.01 * plain.step_s);
    ck_assert_double_eq_tol(plain.step_s - beside.step_s, hidden, 1e-6 * plain.step_s);
    ck_assert_double_eq_tol(beside.closed_s, beside.step_s, 1e-9 * beside.step_s);
    fixture_close(&f);
}
END_TEST

static Suite *overlap_suite(void)
{
    Suite *suite = suite_create("overlap");
    TCase *c = tcase_create("overlap");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, test_overlap_moves_as_much, 0, 5);
    tcase_add_test(c, test_kept_communication);
    tcase_add_loop_test(c, test_beside_gradients, 0, 3);
    tcase_add_loop_test(c, test_beside_gradients_where, 0, 7);
    tcase_add_loop_test(c, test_beside_gradients_takes_the_longer, 0, 3);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(overlap_suite)
