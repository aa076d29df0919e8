/* Uneven routing: what grows with the busiest rank's rows and what does not. */
#include "cs_test.h"
#include "workload_fixture.h"

/** Of the operations of stage 0's forward pass with that label: arithmetic, memory traffic, bytes exchanged.
 */
struct sums {
    double flop, bytes, exchanged_bytes;
};

static struct sums sums_of(const struct cs_trace *trace, const char *label)
{
    const struct cs_block *block = workload_block(trace, 0, "forward");
    struct sums sums = {0};
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        bool work = op->type == CS_OP_COMPUTE || op->type == CS_OP_COLLECTIVE;
        if (!work || strcmp(trace->labels[op->label], label) != 0) {
            continue;
        }
        if (op->type == CS_OP_COMPUTE) {
            sums.flop += trace->costs[op->cost].flop;
            sums.bytes += trace->costs[op->cost].bytes;
        } else {
            sums.exchanged_bytes += (double)op->bytes;
        }
    }
    return sums;
}

START_TEST(test_busiest_rank)
{
    static const struct {
        const char *strategy;
        double capacity, asked, got; /* got: rows over the mean */
    } rows[] = {{"dp=8,ep=4", 0, 1.5, 1.5},
                {"dp=8,ep=4", 0, 0, 1},
                {"dp=8,ep=4", 0, 1, 1},
                {"dp=8,ep=2", 0, 3, 2},    /* all rows are twice the mean of two ranks */
                {"dp=16,ep=16", 0, 12, 8}, /* one expert of the two that a token chooses: half of all rows */
                {"dp=8", 0, 3, 1},         /* every rank has all experts */
                {"dp=8,ep=4", 1.25, 3, 1} /* a capacity is filled up everywhere */,
                {"dp=4,mp=2,sp=true,ep=8", 0, 1.75, 1.75},
                {"dp=4,mp=2,sp=true,ep=4,expert_mp=true", 0, 1.75, 1.75}};
    static const char *const with_rows[] = {"moe.gate_up", "moe.silu", "moe.mul", "moe.down"};
    static const char *const own_rows[] = {"moe.dispatch", "moe.combine", "moe.router", "moe.gate"};
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    model.capacity_factor = rows[_i].capacity;
    struct cs_trace *even = workload_trace(&model, &training, rows[_i].strategy);
    training.routing_imbalance_frac = rows[_i].asked;
    struct cs_trace *busy = workload_trace(&model, &training, rows[_i].strategy);
    for (int32_t i = 0; i < CS_COUNT(with_rows); i++) {
        double flop = sums_of(even, with_rows[i]).flop;
        ck_assert_double_gt(flop, 0);
        ck_assert_double_eq_tol(sums_of(busy, with_rows[i]).flop / flop, rows[_i].got, 1e-3);
    }
    for (int32_t i = 0; i < CS_COUNT(own_rows); i++) {
        struct sums before = sums_of(even, own_rows[i]);
        struct sums after = sums_of(busy, own_rows[i]);
        ck_assert_double_gt(before.bytes, 0);
        ck_assert_double_eq_tol(after.flop, before.flop, 1e-3 * before.flop + 1e-9);
        ck_assert_double_eq_tol(after.bytes, before.bytes, 1e-3 * before.bytes);
        if (i < 2) {
            ck_assert_double_eq_tol(after.exchanged_bytes, rows[_i].got * before.exchanged_bytes,
                                    1e-3 * before.exchanged_bytes + 1e-9);
        }
    }
    struct cs_mem_peak less;
    struct cs_mem_peak more;
    cs_trace_memory(even, 0, &less);
    cs_trace_memory(busy, 0, &more);
    ck_assert_int_eq(more.total_bytes > less.total_bytes, rows[_i].got > 1);
    ck_assert_double_eq_tol(even->model_flop, busy->model_flop, 0.5);
    cs_trace_free(even);
    cs_trace_free(busy);
}
END_TEST

static double combined_bytes(const struct cs_trace *trace)
{
    const struct cs_block *block = workload_block(trace, 0, "backward");
    double bytes = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COMPUTE && strcmp(trace->labels[op->label], "moe.combine") == 0) {
            bytes += trace->costs[op->cost].bytes;
        }
    }
    return bytes;
}

static double kept_bytes(const struct cs_trace *trace)
{
    struct cs_mem_peak peak;
    cs_trace_memory(trace, 0, &peak);
    return (double)peak.by_category_bytes[CS_MEM_ACTIVATIONS];
}

/* What experts made of a rank's own tokens is theirs, however uneven the rows of its experts are: of what
 * each layer keeps of its rows, that part alone does not grow. */
START_TEST(test_own_rows)
{
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    struct cs_trace *even = workload_trace(&model, &training, "dp=8,ep=4");
    training.routing_imbalance_frac = 1.5;
    struct cs_trace *busy = workload_trace(&model, &training, "dp=8,ep=4");
    double combined = combined_bytes(even);
    ck_assert_double_gt(combined, 0);
    ck_assert_double_eq_tol(combined_bytes(busy), combined, 1e-3 * combined);
    /* Kept of rows in half precision: operands of gate and up (hidden), their results, the activation's and
     * the product's (4 expert_ffn). */
    const double rows = 1024.0 * model.experts_per_token;
    const double grows = 2 * rows * (double)(model.hidden + 4 * model.expert_ffn) *
                         (model.n_layers - model.first_dense_layers);
    ck_assert_double_eq_tol(kept_bytes(busy) - kept_bytes(even), 0.5 * grows, 1e-3 * grows);
    cs_trace_free(even);
    cs_trace_free(busy);
}
END_TEST

static Suite *routing_suite(void)
{
    Suite *suite = suite_create("routing");
    TCase *tc = tcase_create("busiest");
    tcase_add_loop_test(tc, test_busiest_rank, 0, 9);
    tcase_add_test(tc, test_own_rows);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(routing_suite)
