/* Options of a training: offload, swap, optimizers, fp8, gradient types. */
#include "cs_test.h"
#include "workload_fixture.h"

static struct cs_model model;
static struct cs_training training;

static void setup(void)
{
    workload_small(&model, &training);
}

static void totals_of(const char *strategy, struct cs_trace_totals *totals, struct cs_mem_peak *peak)
{
    struct cs_trace *trace = workload_trace(&model, &training, strategy);
    cs_trace_program_totals(trace, 0, totals);
    cs_trace_memory(trace, 0, peak);
    cs_trace_free(trace);
}

START_TEST(test_offload)
{
    struct cs_trace_totals totals;
    struct cs_mem_peak with;
    struct cs_mem_peak without;
    totals_of("dp=2", &totals, &without);
    totals_of("dp=2,offload_optimizer=true", &totals, &with);
    ck_assert_int_eq(without.final_bytes - with.final_bytes, 12 * cs_model_params(&model));
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2,offload_optimizer=true");
    ck_assert_int_eq(workload_count(trace, workload_block(trace, 0, "epilogue"),
                                    (struct workload_filter){.label = "optimizer.swap"}, &(int64_t){0}),
                     1);
    /* At the rate of the link that the training names; without one the strategy is refused. */
    double host_s = 0;
    for (int32_t i = 0; i < trace->n_costs; i++) {
        host_s = trace->costs[i].fixed_s > host_s ? trace->costs[i].fixed_s : host_s;
    }
    ck_assert_double_eq_tol(host_s * training.host_bytes_per_s / (12.0 * (double)cs_model_params(&model)),
                            1.0, 1e-6);
    cs_trace_free(trace);
    struct cs_strategy strategy = workload_strategy("dp=2,offload_optimizer=true");
    struct cs_cluster_shape shape = {.n_devices = 2, .devices_per_node = 2};
    char why[256];
    training.host_bytes_per_s = 0;
    ck_assert_str_eq(cs_strategy_check(&strategy, &model, &training, &shape, why, sizeof why),
                     "host-link-known");
    ck_assert_ptr_nonnull(strstr(why, "training.host_bandwidth"));
    training.host_bytes_per_s = 31.5e9;
}
END_TEST

START_TEST(test_swap)
{
    /* Pipelines keep several micro-batches: on the host, but for the layer at hand and the next. */
    struct cs_trace_totals totals;
    struct cs_mem_peak with;
    struct cs_mem_peak without;
    model.n_layers = 16;
    totals_of("pp=4", &totals, &without);
    totals_of("pp=4,swap_activations=true", &totals, &with);
    ck_assert_int_lt(with.by_category_bytes[CS_MEM_ACTIVATIONS],
                     without.by_category_bytes[CS_MEM_ACTIVATIONS] / 3);
    /* Every transfer is waited for, so that the next wait is for the next one: the states' is for theirs. */
    struct cs_trace *trace =
        workload_trace(&model, &training, "pp=4,swap_activations=true,offload_optimizer=true");
    for (int32_t p = 0; p < trace->n_programs; p++) {
        int32_t n[2] = {0, 0};
        for (int32_t call = 0; call < trace->programs[p].n_calls; call++) {
            const struct cs_block *block = &trace->blocks[trace->programs[p].calls[call].block];
            for (int32_t i = 0; i < block->n_ops; i++) {
                const struct cs_op *op = &block->ops[i];
                bool event = op->type == CS_OP_RECORD || op->type == CS_OP_WAIT;
                bool done = event && strcmp(trace->event_names[op->comm], "host done") == 0;
                n[op->type == CS_OP_WAIT] += done;
            }
        }
        ck_assert_int_gt(n[0], 0);
        ck_assert_int_eq(n[0], n[1]);
    }
    cs_trace_free(trace);
    /* Layers that are recomputed as a whole stay: of the last stage's four, one is swapped. */
    static const char *const some[] = {"pp=4,swap_activations=true",
                                       "pp=4,swap_activations=true,full_layers=0/0/0/3"};
    const struct workload_filter out = {.type = IS(CS_OP_COMPUTE), .label = "swap.out"};
    int32_t n[2];
    for (int32_t i = 0; i < 2; i++) {
        trace = workload_trace(&model, &training, some[i]);
        n[i] = workload_count(trace, workload_block(trace, 3, "forward"), out, NULL);
        cs_trace_free(trace);
    }
    ck_assert_int_eq(n[0], 4);
    ck_assert_int_eq(n[1], 1);
}
END_TEST

START_TEST(test_gradient_sync)
{
    static const struct {
        enum cs_dtype gradient;
        bool fp32_sync;
        int32_t bytes;
    } rows[] = {{CS_DTYPE_FP32, false, 4}, {CS_DTYPE_BF16, false, 2}, {CS_DTYPE_BF16, true, 4}};
    training.gradient_dtype = rows[_i].gradient;
    training.gradient_fp32_sync = rows[_i].fp32_sync;
    struct cs_trace *trace = workload_trace(&model, &training, "dp=4");
    int64_t bytes;
    workload_count(trace, workload_block(trace, 0, "backward (last)"), (struct workload_filter){.comm = "dp"},
                   &bytes);
    ck_assert_int_eq(bytes, rows[_i].bytes * cs_model_params(&model));
    cs_trace_free(trace);
}
END_TEST

/* Of a message between stages each of mp ranks sends a part, and the receiver gathers the whole; under
 * sequence parallel the ranks' parts are apart already. */
START_TEST(test_scattered_messages)
{
    static const struct {
        const char *strategy;
        bool scatter;
        int32_t parts;
        int32_t n_gathers; /* more than without, in a forward pass */
    } rows[] = {{"mp=4,pp=2", false, 1, 0}, {"mp=4,pp=2", true, 4, 1}, {"mp=4,pp=2,sp=true", true, 4, 0}};
    int64_t whole = training.seq_length * model.hidden * cs_dtype_bytes(training.dtype);
    int64_t sent = 0;
    training.scatter_messages = rows[_i].scatter;
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    training.scatter_messages = false;
    struct cs_trace *plain = workload_trace(&model, &training, rows[_i].strategy);
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        for (int32_t i = 0; i < trace->blocks[b].n_ops; i++) {
            const struct cs_op *op = &trace->blocks[b].ops[i];
            if (op->type == CS_OP_SEND) {
                ck_assert_int_eq(op->bytes, whole / rows[_i].parts);
                sent += op->bytes;
            }
        }
    }
    ck_assert_int_gt(sent, 0);
    struct cs_trace_totals with;
    struct cs_trace_totals without;
    cs_trace_program_totals(trace, 1, &with);
    cs_trace_program_totals(plain, 1, &without);
    double n_micro_batches = (double)training.global_batch;
    ck_assert_double_eq_tol(with.coll_bytes[CS_COLL_ALL_GATHER] - without.coll_bytes[CS_COLL_ALL_GATHER],
                            rows[_i].n_gathers * n_micro_batches * (double)whole, 1);
    cs_trace_free(trace);
    cs_trace_free(plain);
}
END_TEST

static int32_t find_op(const struct cs_trace *trace, const struct cs_block *block, enum cs_op_type type,
                       const char *chan)
{
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        bool message = op->type == CS_OP_SEND || op->type == CS_OP_RECV;
        if (op->type == type && (!message || strcmp(trace->chans[op->comm].name, chan) == 0)) {
            return i;
        }
    }
    return -1;
}

/* A stage that exchanges with its neighbour sends the gradient when it has its next input, before it computes
 * with it; the neighbour says before that it is ready for the gradient. */
START_TEST(test_serial_messages_in_order)
{
    training.blocking_sends = true;
    training.serial_messages = true;
    struct cs_trace *trace = workload_trace(&model, &training, "pp=2");
    const struct cs_block *backward = workload_block(trace, 1, "backward before gradient");
    const struct cs_block *forward = workload_block(trace, 1, "forward after gradient");
    const struct cs_block *last = workload_block(trace, 1, "backward");
    ck_assert_ptr_nonnull(backward);
    ck_assert_ptr_nonnull(forward);
    ck_assert_ptr_nonnull(last);
    ck_assert_int_lt(find_op(trace, backward, CS_OP_SEND, "pp-backward"), 0);
    ck_assert_int_ge(find_op(trace, last, CS_OP_SEND, "pp-backward"), 0);
    const int32_t received = find_op(trace, forward, CS_OP_RECV, "pp-forward");
    const int32_t ready = find_op(trace, forward, CS_OP_RECV, "pp-backward ready");
    const int32_t sent = find_op(trace, forward, CS_OP_SEND, "pp-backward");
    ck_assert_int_ge(received, 0);
    ck_assert_int_gt(ready, received);
    ck_assert_int_gt(sent, ready);
    ck_assert_int_gt(find_op(trace, forward, CS_OP_COMPUTE, ""), sent);
    ck_assert_int_eq(forward->ops[ready].stream,
                     forward->ops[sent].stream); /* not the compute stream's wait */
    cs_trace_free(trace);
}
END_TEST

/* Every parameter's gradient is read, and the sum read and written: 2 + 4 + 4 bytes in fp32; with a cast of
 * its own 4 more are written and read. The whole sums go round then, in 2 bytes, though each rank updates a
 * shard. */
START_TEST(test_separate_accumulation)
{
    static const struct {
        bool separate, widened;
        int32_t bytes;
        enum cs_coll coll;
        int32_t reduced;
    } rows[] = {{false, false, 0, CS_COLL_REDUCE_SCATTER, 4},
                {true, false, 10, CS_COLL_REDUCE_SCATTER, 4},
                {true, true, 18, CS_COLL_ALL_REDUCE, 2}};
    double bytes = 0;
    training.separate_accumulation = rows[_i].separate;
    training.widened_gradients = rows[_i].widened;
    struct cs_trace *trace = workload_trace(&model, &training, "dp=4,op=4");
    const struct cs_block *block = workload_block(trace, 0, "backward");
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COMPUTE && strstr(trace->labels[op->label], ".accumulate")) {
            bytes += trace->costs[op->cost].bytes;
        }
    }
    const double vocabulary = (double)(model.vocab * model.hidden); /* by the embedding and by the head */
    ck_assert_double_eq_tol(bytes, rows[_i].bytes * ((double)cs_model_params(&model) + vocabulary), 0.5);
    int64_t reduced;
    workload_count(trace, workload_block(trace, 0, "backward (last)"),
                   (struct workload_filter){.coll = IS(rows[_i].coll), .label = "gradients"}, &reduced);
    ck_assert_double_eq_tol((double)reduced / (double)cs_model_params(&model), rows[_i].reduced, 1e-3);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_optimizers)
{
    /* Bytes a parameter: weight 2, gradient 4, master copy 4, AdamW's two moments 8, one of SGD and Muon 4.
     * Muon has hidden matrices only: 18 for tables of tokens and positions, gains and biases. */
    static const struct {
        enum cs_optimizer optimizer;
        int32_t bytes;
    } rows[] = {{CS_OPT_ADAMW, 18}, {CS_OPT_SGD, 14}, {CS_OPT_MUON, 14}};
    training.optimizer = rows[_i].optimizer;
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2");
    const double h = 512;
    const double matrices = 4.0 * (4 * h * h + 8 * h * h);
    const double plain = 4096 * h + 4096 * h + 4.0 * (4 * h + 3 * h + h + 4 * h + h) + 2 * h;
    ck_assert_double_eq_tol((double)cs_model_params(&model), matrices + plain, 0.5);
    double state = rows[_i].bytes * (matrices + plain) + (rows[_i].optimizer == CS_OPT_MUON ? 4 * plain : 0);
    ck_assert_double_eq_tol(trace->programs[0].state_bytes, state, 0.5);
    ck_assert_double_eq_tol(trace->model_state_bytes, state, 0.5);
    /* Sums of shards, and of stages: as much as the model has; the tied matrix is on both ends. */
    static const char *const cuts[] = {"dp=4,op=4", "pp=4", "dp=4,op=4,pp=2", "mp=4,sp=true"};
    static const double tied_copies[] = {0, 1, 1, 0};
    for (int32_t k = 0; k < 4; k++) {
        struct cs_trace *cut = workload_trace(&model, &training, cuts[k]);
        double sum = 0;
        for (int32_t rank = 0; rank < cut->n_ranks; rank++) {
            sum += cut->programs[cut->program_of_rank[rank]].state_bytes;
        }
        const double copies = k == 0 || k == 2 ? 4 : 1; /* of weights and gradients */
        double want = state + (copies - 1) * 6 * (matrices + plain);
        want += tied_copies[k] * 4096 * h * (copies * 6 + 12 - (rows[_i].optimizer == CS_OPT_SGD ? 4 : 0));
        /* Gains, the bias behind a row cut and positions are on every tensor-parallel rank. */
        double everywhere = 4096 * h + 4.0 * (4 * h + h + h) + 2 * h;
        want += k == 3 ? 3 * everywhere * (rows[_i].bytes + (rows[_i].optimizer == CS_OPT_MUON ? 4 : 0)) : 0;
        ck_assert_msg(fabs(sum - want) < 0.5, "%s: %.0f, not %.0f", cuts[k], sum, want);
        cs_trace_free(cut);
    }
    /* Muon: five steps of 4 a a b + 2 a a a for every matrix: q, k, v, projection, the MLP's two. */
    const struct cs_block *block = workload_block(trace, 0, "epilogue");
    double flop = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (strcmp(trace->labels[op->label], "optimizer.newton_schulz") == 0) {
            flop = trace->costs[op->cost].flop;
        }
    }
    double square = 6 * h * h * h;
    double wide = 4 * h * h * 4 * h + 2 * h * h * h;
    ck_assert_double_eq_tol(flop, rows[_i].optimizer == CS_OPT_MUON ? 5 * 4 * (4 * square + 2 * wide) : 0,
                            1e-9 * (flop + 1));
    cs_trace_free(trace);
}
END_TEST

/* Is a product of the trace's pass in fp8, and how many casts are there? */
static void count_fp8(const struct cs_trace *trace, const char *pass, int32_t *n_fp8, int32_t *n_bf16,
                      double *cast_bytes)
{
    const struct cs_block *block = workload_block(trace, 0, pass);
    *n_fp8 = *n_bf16 = 0;
    *cast_bytes = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type != CS_OP_COMPUTE) {
            continue;
        }
        const struct cs_op_cost *cost = &trace->costs[op->cost];
        const char *label = trace->labels[op->label];
        *n_fp8 += cost->dtype == CS_DTYPE_FP8;
        *n_bf16 += cost->kind == CS_OPKIND_MATMUL && cost->dtype == CS_DTYPE_BF16;
        *cast_bytes += strstr(label, ".cast") ? cost->bytes : 0;
        ck_assert(cost->dtype != CS_DTYPE_FP8 || cost->kind == CS_OPKIND_MATMUL);
    }
}

START_TEST(test_fp8)
{
    /* Products of layers are in fp8, everything is held in bf16, and so is the product of the logits. */
    int32_t n_fp8 = 0;
    int32_t n_bf16 = 0;
    double bytes = 0;
    training.dtype = CS_DTYPE_FP8;
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2");
    ck_assert_double_eq_tol(trace->programs[0].state_bytes, 18 * (double)cs_model_params(&model), 0.5);
    count_fp8(trace, "forward", &n_fp8, &n_bf16, &bytes);
    ck_assert_int_gt(n_fp8, 0);
    ck_assert_int_eq(n_fp8 % model.n_layers, 0);
    ck_assert_int_eq(n_bf16, 1);
    ck_assert(bytes <= 0); /* the kernels before cast */
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_fp8_separate_casts)
{
    int32_t n_fp8 = 0;
    int32_t n_bf16 = 0;
    double forward_bytes = 0;
    double backward_bytes = 0;
    training.dtype = CS_DTYPE_FP8;
    training.separate_casts = true;
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2");
    count_fp8(trace, "forward", &n_fp8, &n_bf16, &forward_bytes);
    count_fp8(trace, "backward", &n_fp8, &n_bf16, &backward_bytes);
    /* Into q, k and v, into the product behind attention, into the MLP: a hidden vector each; and the MLP's
     * inner one. Read in two bytes, written twice in one. */
    double tokens = (double)training.seq_length;
    double inputs = tokens * (3.0 * (double)model.hidden + (double)model.ffn) * model.n_layers;
    ck_assert_double_eq_tol(forward_bytes, 4 * inputs, 0.5);
    ck_assert_double_gt(backward_bytes, forward_bytes); /* gradients of q, k and v */
    cs_trace_free(trace);
    training.dtype = CS_DTYPE_BF16;
    trace = workload_trace(&model, &training, "dp=2");
    count_fp8(trace, "forward", &n_fp8, &n_bf16, &forward_bytes);
    ck_assert(forward_bytes <= 0);
    cs_trace_free(trace);
}
END_TEST

/* Bytes of the collectives of a kind in a block, in their order. */
static int32_t collect(const struct cs_trace *trace, const char *block_name, enum cs_coll coll,
                       int64_t bytes[8])
{
    const struct cs_block *block = workload_block(trace, 0, block_name);
    int32_t n = 0;
    for (int32_t i = 0; block && i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COLLECTIVE && op->coll == (int32_t)coll &&
            strcmp(trace->comms[op->comm].name, "dp") == 0) { /* op is dp here */
            ck_assert_int_lt(n, 8);
            bytes[n++] = op->bytes;
        }
    }
    return n;
}

START_TEST(test_aggregation_groups)
{
    /* MindFormers' LayerSetting, 32 layers: (32 + 1) / 4 = 8 make a group; table, last norm and head are with
     * the last one, whose gradients are complete when the table's are, and whose weights are wanted first. */
    int64_t bytes[8];
    int64_t weights[8];
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training four = workload_training(&llama, 64, 1024);
    const int64_t table = llama.vocab * llama.hidden;
    const int64_t layer = (cs_model_params(&llama) - 2 * table - llama.hidden) / llama.n_layers;
    four.aggregation_groups = 4;
    struct cs_trace *trace = workload_trace(&llama, &four, "dp=8,op=8");
    ck_assert_int_eq(collect(trace, "backward (last)", CS_COLL_REDUCE_SCATTER, bytes), 4);
    ck_assert_int_eq(collect(trace, "prologue", CS_COLL_ALL_GATHER, weights), 4);
    for (int32_t i = 0; i < 4; i++) {
        int64_t params = 8 * layer + (i == 3 ? 2 * table + llama.hidden : 0);
        ck_assert_int_eq(bytes[i], 4 * params);
        ck_assert_int_eq(weights[3 - i], 2 * params);
    }
    cs_trace_free(trace);
    /* What is scattered in every micro-batch stays in pieces of the model without a gap. */
    trace = workload_trace(&llama, &four, "dp=8,op=8,zero=2");
    ck_assert_int_eq(collect(trace, "backward", CS_COLL_REDUCE_SCATTER, bytes), 5);
    ck_assert_int_eq(bytes[4], 4 * table);
    cs_trace_free(trace);
    /* Five layers: one of (5 + 1) / 4 a group, and one left over; the fourth layer is with the ends. */
    struct cs_model five = workload_gpt(5, 512, 8, 4096);
    struct cs_training gpt = workload_training(&five, 64, 1024);
    gpt.aggregation_groups = 4;
    trace = workload_trace(&five, &gpt, "dp=8,op=8");
    ck_assert_int_eq(collect(trace, "backward (last)", CS_COLL_REDUCE_SCATTER, bytes), 5);
    for (int32_t i = 1; i < 4; i++) {
        ck_assert_int_eq(bytes[i], bytes[0]);
    }
    ck_assert_int_eq(bytes[0] * 4 + bytes[4], 4 * cs_model_params(&five));
    cs_trace_free(trace);
    cs_model_release(&five);
    /* A stage is one group. */
    trace = workload_trace(&llama, &four, "dp=4,pp=2,op=4");
    ck_assert_int_eq(collect(trace, "backward (last)", CS_COLL_REDUCE_SCATTER, bytes), 1);
    ck_assert_int_eq(bytes[0], 4 * (16 * layer + table));
    cs_trace_free(trace);
    cs_model_release(&llama);
}
END_TEST

static Suite *options_suite(void)
{
    Suite *suite = suite_create("options");
    TCase *c = tcase_create("options");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, test_offload);
    tcase_add_test(c, test_swap);
    tcase_add_loop_test(c, test_gradient_sync, 0, 3);
    tcase_add_loop_test(c, test_scattered_messages, 0, 3);
    tcase_add_loop_test(c, test_optimizers, 0, 3);
    tcase_add_test(c, test_fp8);
    tcase_add_test(c, test_fp8_separate_casts);
    tcase_add_test(c, test_serial_messages_in_order);
    tcase_add_loop_test(c, test_separate_accumulation, 0, 3);
    tcase_add_test(c, test_aggregation_groups);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(options_suite)
