/* Which operators of a layer are one kernel and which a chain: norms, losses, softmax, rotary embeddings,
 * gated MLPs, experts. */
#include "cs_test.h"
#include "workload_fixture.h"

static struct cs_model model;
static struct cs_training training;

static void setup(void)
{
    workload_small(&model, &training);
}

/* Tokens x hidden x layers of the LLaMA2 7B; elements that its gated MLPs have between their products. */
#define LLAMA_HIDDEN (1024.0 * 4096 * 32)
#define LLAMA_INNER (1024.0 * 11008 * 32)

START_TEST(test_chains)
{
    /* By hand, bytes an element in bf16, forward: x.float() 6, pow 8, mean 4, product 8, to bf16 6, gain 4;
     * rotary embedding of queries and of keys: two products 4 each, the halves' negation 2 and concatenation
     * 4, the sum 6. One kernel reads and writes each element once. */
    int32_t n[3];
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training fused = workload_training(&llama, 8, 1024);
    struct cs_training chains = fused;
    chains.separate_norms = chains.separate_rope = true;
    struct cs_trace *a = workload_trace(&llama, &fused, "dp=2");
    struct cs_trace *b = workload_trace(&llama, &chains, "dp=2");
    const double gains = 2.0 * 4096 * 32; /* read once, and with each pass over the elements */
    ck_assert_double_eq_tol(workload_traffic(a, "forward", "attention.norm", &n[0]), 4 * LLAMA_HIDDEN + gains,
                            1);
    ck_assert_double_eq_tol(workload_traffic(b, "forward", "attention.norm", &n[1]),
                            36 * LLAMA_HIDDEN + 9 * gains, 1);
    ck_assert_double_eq_tol(workload_traffic(b, "backward", "ffn.norm", &n[2]),
                            84 * LLAMA_HIDDEN + 14 * gains, 1);
    ck_assert_int_eq(n[0], 32);
    ck_assert_int_eq(n[1], 8 * 32);
    ck_assert_double_eq_tol(workload_traffic(a, "forward", "attention.rope", &n[0]), 2 * 4 * LLAMA_HIDDEN, 1);
    ck_assert_double_eq_tol(workload_traffic(b, "forward", "attention.rope", &n[1]), 2 * 20 * LLAMA_HIDDEN,
                            1);
    /* Kept: the input in fp32 and what is multiplied by the gain, instead of the input. Two norms a layer,
     * and the last one. */
    struct cs_mem_peak peak[2];
    cs_trace_memory(a, 0, &peak[0]);
    cs_trace_memory(b, 0, &peak[1]);
    double more = (double)(peak[1].by_category_bytes[CS_MEM_ACTIVATIONS] -
                           peak[0].by_category_bytes[CS_MEM_ACTIVATIONS]);
    ck_assert_double_eq_tol(more, (4 + 2 - 2) * (2 * LLAMA_HIDDEN + 1024.0 * 4096), 0.5);
    cs_trace_free(a);
    cs_trace_free(b);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_loss_chain)
{
    /* By hand, bytes of a logit in bf16: to fp32 6, its maximum 4; minus that 8, exponential 8, sum 4; by the
     * sum 8; backward times the loss's gradient 8, to bf16 6. One kernel for each reduction reads 2, and the
     * softmax is kept in fp32. */
    int32_t n[4];
    const double logits = 1024.0 * 32000;
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training chain = workload_training(&llama, 8, 1024);
    chain.separate_loss = true;
    struct cs_trace *trace = workload_trace(&llama, &chain, "dp=2");
    double forward = workload_traffic(trace, "forward", "loss.maximum", &n[0]) +
                     workload_traffic(trace, "forward", "loss.sum", &n[1]) +
                     workload_traffic(trace, "forward", "loss", &n[2]);
    ck_assert_double_eq_tol(forward / (38 * logits), 1, 1e-3); /* beside a few bytes a token */
    ck_assert_double_eq_tol(workload_traffic(trace, "backward", "loss", &n[3]) / (14 * logits), 1, 1e-3);
    ck_assert_int_eq(n[0] + n[1] + n[2], 6);
    ck_assert_int_eq(n[3], 2);
    cs_trace_free(trace);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_softmax_chain)
{
    /* 32 heads cut by mp = 8, so 4 matrices a sequence: with 8 at once one kernel needs two sequences. One
     * kernel reads and writes 2 bytes a score; the chain forward to fp32 6, * scale 8, mask 8, softmax 8, to
     * bf16 6. */
    int32_t n[3];
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training unfused = workload_training(&llama, 8, 1024);
    unfused.flash_attention = false;
    unfused.softmax_multiple = 8;
    const double scores = 4.0 * 1024 * 1024 * 32;
    struct cs_trace *one = workload_trace(&llama, &unfused, "mp=8");
    struct cs_trace *two = workload_trace(&llama, &unfused, "mp=8,micro_batch=2");
    ck_assert_double_eq_tol(workload_traffic(one, "forward", "attention.softmax", &n[0]), 36 * scores, 1);
    ck_assert_double_eq_tol(workload_traffic(one, "backward", "attention.softmax", &n[1]), 40 * scores, 1);
    ck_assert_double_eq_tol(workload_traffic(two, "forward", "attention.softmax", &n[2]), 4 * 2 * scores, 1);
    ck_assert_int_eq(n[0], 5 * 32);
    ck_assert_int_eq(n[1], 5 * 32);
    ck_assert_int_eq(n[2], 32);
    cs_trace_free(one);
    cs_trace_free(two);
    unfused.softmax_multiple = 0; /* whatever there is */
    one = workload_trace(&llama, &unfused, "mp=8");
    ck_assert_double_eq_tol(workload_traffic(one, "forward", "attention.softmax", &n[0]), 4 * scores, 1);
    cs_trace_free(one);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_latent_rope)
{
    /* Of latent attention 64 of a head's 192 elements are rotated, of keys one part for all heads: 2 bytes
     * read and 2 written, and four times that more when it is a chain. */
    int32_t n = 0;
    struct cs_model deepseek = workload_model("deepseek-v3");
    struct cs_training fused = workload_training(&deepseek, 8, 512);
    struct cs_training chain = fused;
    chain.separate_rope = true;
    struct cs_trace *a = workload_trace(&deepseek, &fused, "dp=2");
    struct cs_trace *b = workload_trace(&deepseek, &chain, "dp=2");
    double more = workload_traffic(b, "forward", "attention.rope", &n) -
                  workload_traffic(a, "forward", "attention.rope", &n);
    double layers = 62; /* one of them predicts the token behind */
    ck_assert_double_eq_tol(more / (4 * 4.0 * 512 * (128 + 1) * 64), layers, 1e-6);
    cs_trace_free(a);
    cs_trace_free(b);
    cs_model_release(&deepseek);
}
END_TEST

START_TEST(test_fused_glu)
{
    /* silu(gate) x up in one kernel: the activated gate is neither written nor kept. */
    int32_t n = 0;
    struct cs_model llama = workload_model("llama2-7b");
    struct cs_training apart = workload_training(&llama, 8, 1024);
    struct cs_training fused = apart;
    fused.fused_glu = true;
    struct cs_trace *a = workload_trace(&llama, &apart, "dp=2");
    struct cs_trace *b = workload_trace(&llama, &fused, "dp=2");
    struct cs_mem_peak peak[2];
    cs_trace_memory(a, 0, &peak[0]);
    cs_trace_memory(b, 0, &peak[1]);
    double less = (double)(peak[0].by_category_bytes[CS_MEM_ACTIVATIONS] -
                           peak[1].by_category_bytes[CS_MEM_ACTIVATIONS]);
    ck_assert_double_eq_tol(less, 2 * LLAMA_INNER, 0.5);
    ck_assert_double_eq_tol(workload_traffic(a, "forward", "ffn.silu", &n), 4 * LLAMA_INNER, 1);
    ck_assert_double_eq_tol(workload_traffic(b, "forward", "ffn.silu", &n), 0, 1e-9);
    ck_assert_int_eq(n, 0);
    ck_assert_double_eq_tol(workload_traffic(b, "forward", "ffn.mul", &n), 6 * LLAMA_INNER, 1);
    double backward =
        workload_traffic(b, "backward", "ffn.mul", &n) + workload_traffic(b, "backward", "ffn.silu", &n);
    ck_assert_double_eq_tol(backward, 10 * LLAMA_INNER, 1); /* three read, two written */
    cs_trace_free(a);
    cs_trace_free(b);
    cs_model_release(&llama);
}
END_TEST

START_TEST(test_separate_experts)
{
    /* 8 experts on slices of the rows, two a token. Backward each slice's gradient is a vector of all rows: 8
     * are cleared, 7 times two are read and their sum written, and every row is copied once (read and
     * written). The vector of results: cleared, and every row copied; backward copied for each expert, and
     * every row once more. That is so on the side of the experts, where mp ranks have the rows of all. */
    static const char *const rows[] = {"dp=2", "mp=2,sp=true,expert_mp=true"};
    const double row_bytes = 1024.0 * 2 * 4096 * 2 * 32;
    int32_t n[2];
    struct cs_model mixtral = workload_model("mixtral-8x7b");
    struct cs_training grouped = workload_training(&mixtral, 8, 1024);
    struct cs_training apart = grouped;
    apart.separate_experts = true;
    struct cs_trace *a = workload_trace(&mixtral, &grouped, rows[_i]);
    struct cs_trace *b = workload_trace(&mixtral, &apart, rows[_i]);
    static const struct {
        const char *pass, *label;
        double passes;
    } wanted[] = {{"forward", "moe.dispatch", 0},
                  {"backward", "moe.dispatch", 8 + 7 * 3 + 2},
                  {"forward", "moe.combine", 1 + 2},
                  {"backward", "moe.combine", 8 * 2 + 2}};
    for (int32_t i = 0; i < CS_COUNT(wanted); i++) {
        double more = workload_traffic(b, wanted[i].pass, wanted[i].label, &n[1]) -
                      workload_traffic(a, wanted[i].pass, wanted[i].label, &n[0]);
        ck_assert_double_eq_tol(more, wanted[i].passes * row_bytes, 1e-6 * row_bytes);
    }
    (void)workload_traffic(a, "forward", "moe.down", &n[0]);
    (void)workload_traffic(b, "forward", "moe.down", &n[1]);
    ck_assert_int_eq(n[0], 32);
    ck_assert_int_eq(n[1], 8 * 32);
    cs_trace_free(a);
    cs_trace_free(b);
    cs_model_release(&mixtral);
}
END_TEST

static Suite *fused_suite(void)
{
    Suite *suite = suite_create("fused");
    TCase *c = tcase_create("fused");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, test_chains);
    tcase_add_test(c, test_loss_chain);
    tcase_add_test(c, test_softmax_chain);
    tcase_add_test(c, test_latent_rope);
    tcase_add_test(c, test_fused_glu);
    tcase_add_loop_test(c, test_separate_experts, 0, 2);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(fused_suite)
