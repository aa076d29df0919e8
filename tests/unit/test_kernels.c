/* Kernels that are not fused: gradients' sums, two-layer gates, GELU, what works on scores, optimizers. */
#include "cs_test.h"
#include "workload_fixture.h"

START_TEST(test_separate_accumulation)
{
    /* A weight's gradient in bf16 is written by the product, read, and added to the fp32 sum, which is read
     * and written: 10 bytes in a kernel of its own, and 2 of the product's instead of 8. The table of tokens
     * too. */
    int32_t n = 0;
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training fused = workload_training(&llama, 8, 1024);
    struct cs_training apart = fused;
    apart.separate_accumulation = true;
    struct cs_trace *a = workload_trace(&llama, &fused, "dp=2,mp=2");
    struct cs_trace *b = workload_trace(&llama, &apart, "dp=2,mp=2");
    const double weights = 4096.0 * 11008 / 2 * 32;
    double less = workload_traffic(a, "backward", "ffn.down.wgrad", &n) -
                  workload_traffic(b, "backward", "ffn.down.wgrad", &n);
    ck_assert_double_eq_tol(less, 6 * weights, 1);
    ck_assert_double_eq_tol(workload_traffic(b, "backward", "ffn.down.accumulate", &n), 10 * weights, 1);
    ck_assert_int_eq(n, 32);
    ck_assert_double_eq_tol(workload_traffic(b, "backward", "ffn.gate_up.accumulate", &n), 20 * weights, 1);
    ck_assert_int_eq(n, 32); /* one matrix, whatever it is made of */
    ck_assert_double_eq_tol(workload_traffic(a, "backward", "ffn.down.accumulate", &n), 0, 1e-9);
    ck_assert_int_eq(workload_count(b, workload_block(b, 0, "backward"),
                                    (struct workload_filter){.label = "embedding.accumulate"}, NULL),
                     1);
    cs_trace_free(a);
    cs_trace_free(b);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_added_gradients_are_written_once)
{
    /* Of a convolution as of a product: 2 bytes instead of 8. Of the table of tokens: a gradient in bf16 of
     * the whole table, cleared, and rows read and written in it. */
    int32_t n = 0;
    struct cs_model resnet = workload_model("resnet-50");
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training images = workload_training(&resnet, 256, 1);
    struct cs_training tokens = workload_training(&llama, 8, 1024);
    double convolution[2];
    double table[2];
    for (int32_t i = 0; i < 2; i++) {
        images.separate_accumulation = tokens.separate_accumulation = i == 1;
        struct cs_trace *a = workload_trace(&resnet, &images, "dp=4,micro_batch=32");
        struct cs_trace *b = workload_trace(&llama, &tokens, "dp=2,micro_batch=2");
        convolution[i] = workload_traffic(a, "backward", "conv1.wgrad", &n);
        table[i] = workload_traffic(b, "backward", "embedding", &n);
        cs_trace_free(a);
        cs_trace_free(b);
    }
    const double weights = 64.0 * 64 + 2 * 256.0 * 64 + 256.0 * 128 + 3 * 512.0 * 128 + 512.0 * 256 +
                           5 * 1024.0 * 256 + 1024.0 * 512 + 2 * 2048.0 * 512;
    const double rows = 2 * 1024.0 * 4096;
    ck_assert_double_eq_tol(convolution[0] - convolution[1], 6 * weights, 1);
    ck_assert_double_eq_tol(table[0], 10 * rows, 1);
    ck_assert_double_eq_tol(table[1], 6 * rows + 2 * 32000.0 * 4096, 1);
    cs_model_release(&resnet);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_added_gradients_are_kernels_of_parameters)
{
    /* Queries, keys and values are one matrix and one vector to a program, though three of each here. */
    int32_t n = 0;
    struct cs_model gpt = workload_gpt(4, 512, 8, 4096);
    struct cs_training training = workload_training(&gpt, 8, 1024);
    training.separate_accumulation = true;
    struct cs_trace *trace = workload_trace(&gpt, &training, "dp=2");
    const double weights = 3.0 * 512 * (512 + 1) * 4;
    double bytes = workload_traffic(trace, "backward", "attention.qkv.accumulate", &n);
    ck_assert_double_eq_tol(bytes, 10 * weights, 1);
    ck_assert_int_eq(n, 2 * 4);
    cs_trace_free(trace);
    cs_model_release(&gpt);
}
END_TEST

START_TEST(test_separate_gate)
{
    /* Two layers side by side gather the same input twice, forward and for the weights' gradients, and reduce
     * its gradient twice; they keep what the one of twice the width keeps. */
    static const struct {
        const char *block;
        enum cs_coll coll;
    } moved[] = {{"forward", CS_COLL_ALL_GATHER},
                 {"backward", CS_COLL_ALL_GATHER},
                 {"backward", CS_COLL_REDUCE_SCATTER}};
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training one = workload_training(&llama, 8, 1024);
    struct cs_training two = one;
    two.separate_gate = true;
    struct cs_trace *a = workload_trace(&llama, &one, "mp=4,sp=true,micro_batch=2");
    struct cs_trace *b = workload_trace(&llama, &two, "mp=4,sp=true,micro_batch=2");
    for (int32_t i = 0; i < CS_COUNT(moved); i++) {
        const struct workload_filter filter = {
            .type = IS(CS_OP_COLLECTIVE), .coll = IS(moved[i].coll), .layer = IS(3), .label = "ffn.gate_up"};
        int64_t bytes[2];
        ck_assert_int_eq(workload_count(a, workload_block(a, 0, moved[i].block), filter, &bytes[0]), 1);
        ck_assert_int_eq(workload_count(b, workload_block(b, 0, moved[i].block), filter, &bytes[1]), 2);
        ck_assert_int_eq(bytes[1], 2 * bytes[0]);
    }
    struct cs_trace_totals totals[2];
    struct cs_mem_peak peak[2];
    cs_trace_program_totals(a, 0, &totals[0]);
    cs_trace_program_totals(b, 0, &totals[1]);
    cs_trace_memory(a, 0, &peak[0]);
    cs_trace_memory(b, 0, &peak[1]);
    ck_assert_double_eq_tol(totals[1].compute_flop / totals[0].compute_flop, 1, 1e-9);
    ck_assert_int_eq(peak[0].by_category_bytes[CS_MEM_ACTIVATIONS],
                     peak[1].by_category_bytes[CS_MEM_ACTIVATIONS]);
    cs_trace_free(a);
    cs_trace_free(b);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_separate_gelu)
{
    /* By hand, bytes an element in bf16, forward: bias + x 4; half of x 4; a x and b x 4 each; b x x 6; 1 +
     * 4; their product 6; tanh 4; 1 + 4; the product 6. */
    int32_t n = 0;
    struct cs_model gpt = workload_gpt(4, 512, 8, 4096);
    struct cs_training training = workload_training(&gpt, 8, 1024);
    training.separate_gelu = true;
    struct cs_trace *trace = workload_trace(&gpt, &training, "dp=2");
    const double inner = 1024.0 * (double)gpt.ffn * gpt.n_layers;
    ck_assert_double_eq_tol(workload_traffic(trace, "forward", "ffn.gelu", &n), 46 * inner, 1);
    ck_assert_int_eq(n, 10 * gpt.n_layers);
    ck_assert_double_eq_tol(workload_traffic(trace, "backward", "ffn.gelu", &n), 92 * inner, 1);
    ck_assert_int_eq(n, 19 * gpt.n_layers);
    cs_trace_free(trace);
    cs_model_release(&gpt);
}
END_TEST

START_TEST(test_norm_casts)
{
    /* One kernel 4 bytes an element forward, 6 backward; in fp32 8 and 12, and casts of 6 on every way. */
    int32_t n = 0;
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training training = workload_training(&llama, 8, 1024);
    training.norm_casts = true;
    struct cs_trace *trace = workload_trace(&llama, &training, "dp=2");
    const double hidden = 1024.0 * 4096 * 32;
    const double gains = 2.0 * 4096 * 32; /* read with each pass over the elements */
    ck_assert_double_eq_tol(workload_traffic(trace, "forward", "ffn.norm", &n), 20 * hidden, 6 * gains);
    ck_assert_int_eq(n, 3 * 32);
    ck_assert_double_eq_tol(workload_traffic(trace, "backward", "ffn.norm", &n), 30 * hidden, 6 * gains);
    ck_assert_int_eq(n, 4 * 32);
    cs_trace_free(trace);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_score_kernels)
{
    /* Beside the softmax forward and backward; before a fused kernel forward alone, of all queries and keys.
     */
    const double scores = 1024.0 * 1024 * 32 * 32;
    const double bytes[2] = {14, 4};
    const int32_t kernels[2] = {3, 1};
    const bool flash = _i == 1;
    const char *label = flash ? "attention.bias" : "attention.softmax";
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training plain = workload_training(&llama, 8, 1024);
    plain.flash_attention = flash;
    struct cs_training more = plain;
    for (int32_t i = 0; i < 2; i++) {
        more.score_bytes[i] = bytes[i];
        more.score_kernels[i] = kernels[i];
    }
    struct cs_trace *a = workload_trace(&llama, &plain, "dp=2");
    struct cs_trace *b = workload_trace(&llama, &more, "dp=2");
    for (int32_t i = 0; i < 2; i++) {
        int32_t n[2];
        const char *pass = i == 0 ? "forward" : "backward";
        double added = workload_traffic(b, pass, label, &n[1]) - workload_traffic(a, pass, label, &n[0]);
        const bool none = flash && i == 1;
        ck_assert_double_eq_tol(added, none ? 0 : bytes[i] * scores, 1);
        ck_assert_int_eq(n[1] - n[0], none ? 0 : 32 * kernels[i]);
    }
    cs_trace_free(a);
    cs_trace_free(b);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_elementary_optimizer)
{
    int32_t n = 0;
    struct cs_model gpt = workload_gpt(4, 512, 8, 4096);
    struct cs_training training = workload_training(&gpt, 8, 1024);
    training.optimizer_traffic_bytes = 200;
    struct cs_trace *trace = workload_trace(&gpt, &training, "dp=2,op=2");
    double parameters = (double)cs_model_params(&gpt);
    double bytes = workload_traffic(trace, "epilogue", "optimizer", &n);
    ck_assert_double_eq_tol(bytes / (200 * parameters / 2), 1, 1e-3); /* shards are padded */
    cs_trace_free(trace);
    cs_model_release(&gpt);
}
END_TEST

static Suite *kernels_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *c = tcase_create("kernels");
    tcase_add_test(c, test_separate_accumulation);
    tcase_add_test(c, test_added_gradients_are_written_once);
    tcase_add_test(c, test_added_gradients_are_kernels_of_parameters);
    tcase_add_test(c, test_separate_gate);
    tcase_add_test(c, test_separate_gelu);
    tcase_add_test(c, test_norm_casts);
    tcase_add_loop_test(c, test_score_kernels, 0, 2);
    tcase_add_test(c, test_elementary_optimizer);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(kernels_suite)
