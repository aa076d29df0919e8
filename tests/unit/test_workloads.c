/* Models: reading, parameters, floating-point work, activation memory against closed forms. */
#include "cs_test.h"
#include "workload_fixture.h"

#include <math.h>
#include <stdio.h>

#define BAD CS_TEST_SOURCE_DIR "/tests/data/bad/model"

START_TEST(test_params)
{
    /* Every shipped model against what its source publishes (the file's own figure is checked when it is
     * read, to 0.5 %); exact counts where the weights are public. */
    static const struct {
        const char *name;
        double published;
        int64_t exact;
    } rows[] = {
        {"llama2-7b", 6.74e9, 6738415616},
        {"llama2-13b", 13.02e9, 13015864320},
        {"llama2-70b", 68.98e9, 68976648192},
        {"llama3-8b", 8.03e9, 8030261248},
        {"llama3-70b", 70.55e9, 70553706496},
        {"llama3-405b", 405.85e9, 405853388800},
        {"qwen2.5-7b", 7.616e9, 7615616512},
        {"qwen2.5-72b", 72.706e9, 72706203648},
        {"gpt3-175b", 175e9, 0},
        {"gpt-7.5b", 7.5e9, 0},
        {"gpt-18b", 18.4e9, 0},
        {"gpt-39b", 39.1e9, 0},
        {"gpt-76b", 76.1e9, 0},
        {"gpt-145b", 145.6e9, 0},
        {"gpt-310b", 310.1e9, 0},
        {"gpt-530b", 529.6e9, 0},
        {"gpt-1t", 1008.0e9, 0},
        {"bloom-176b", 176.247e9, 176247271424},
        {"baichuan2-7b", 7.506e9, 7505973248},
        {"baichuan2-13b", 13.897e9, 13896668160},
        {"chatglm3-6b", 6.244e9, 6243584000},
        {"mixtral-8x7b", 46.7e9, 46702792704},
        {"deepseek-v3", 671.026e9, 0},
        {"bert-large", 335.1e6, 0},
        {"resnet-50", 25.557e6, 25557032},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cs_model model = workload_model(rows[i].name);
        double params = (double)cs_model_params(&model);
        ck_assert_msg(fabs(params / rows[i].published - 1) <= 0.005, "%s: %.0f", rows[i].name, params);
        ck_assert_msg(rows[i].exact == 0 || cs_model_params(&model) == rows[i].exact, "%s: %lld",
                      rows[i].name, (long long)cs_model_params(&model));
        ck_assert_str_eq(model.name, rows[i].name);
        ck_assert(model.n_experts > 0 || cs_model_active_params(&model) == cs_model_params(&model));
        cs_model_release(&model);
        cs_model_release(&model);
    }
}
END_TEST

START_TEST(test_params_rounded)
{
    /* Counts that are published to two or three digits only, and what they are by the published sizes: that
     * rounds to the published figure, of Megatron's two (arXiv 2104.04473, table 1; eq. 2 gives the same
     * count). Pangu Ultra's (arXiv 2504.07866) are 133.9 billion, 134 to three digits: its 94 layers have
     * 2 h^2 + 2 h 1024 + 3 h 28672 each, its two vocabulary matrices 153376 h; what makes 135 of it is not
     * published, so the file does not claim it. */
    static const struct {
        const char *name;
        double published, unit; /* of the last digit */
        int64_t by_sizes;
        bool rounds;
    } rows[] = {
        {"gpt-1.7b", 1.7e9, 0.1e9, 24 * (12 * INT64_C(2304) * 2304 + 13 * 2304) + (51200 + 2048 + 2) * 2304,
         true},
        {"gpt-3.6b", 3.6e9, 0.1e9, 30 * (12 * INT64_C(3072) * 3072 + 13 * 3072) + (51200 + 2048 + 2) * 3072,
         true},
        {"pangu-135b", 135e9, 1e9,
         94 * (INT64_C(12288) * (2 * 12288 + 2 * 1024 + 3 * 28672) + 2 * 12288) +
             (2 * INT64_C(153376) + 1) * 12288,
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cs_model model = workload_model(rows[i].name);
        double rounded = round((double)cs_model_params(&model) / rows[i].unit) * rows[i].unit;
        ck_assert_int_eq(cs_model_params(&model), rows[i].by_sizes);
        ck_assert_msg((fabs(rounded / rows[i].published - 1) < 1e-9) == rows[i].rounds, "%s: %.4g",
                      rows[i].name, rounded);
        ck_assert(fabs((double)cs_model_params(&model) / rows[i].published - 1) < 0.03);
        ck_assert(model.published_params <= 0);
        cs_model_release(&model);
    }
}
END_TEST

START_TEST(test_params_gpt)
{
    /* Narayanan et al., arXiv 2104.04473, eq. 2: 12 l h^2 (1 + 13/12h + (V + s)/12lh), and 2h of the last
     * norm. */
    struct cs_model model = workload_gpt(96, 12288, 96, 51200);
    model.max_position = 2048;
    int64_t h = model.hidden;
    ck_assert_int_eq(cs_model_params(&model), 96 * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h);
    model.tied_embedding = false;
    ck_assert_int_eq(cs_model_params(&model), 96 * (12 * h * h + 13 * h) + (2 * 51200 + 2048) * h + 2 * h);
}
END_TEST

START_TEST(test_flop_gpt)
{
    /* arXiv 2104.04473, eq. 3, without recomputation: 72 B s l h^2 (1 + s/6h + V/12lh). */
    static const struct {
        int32_t l;
        int64_t h, a, v, s;
    } rows[] = {{24, 2304, 24, 51200, 2048}, {96, 12288, 96, 51200, 2048}, {128, 25600, 160, 51200, 4096}};
    double l = rows[_i].l;
    double h = (double)rows[_i].h;
    double v = (double)rows[_i].v;
    double s = (double)rows[_i].s;
    double batch = 16;
    struct cs_model model = workload_gpt(rows[_i].l, rows[_i].h, rows[_i].a, rows[_i].v);
    double want = 72 * batch * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
    double got = cs_model_step_flop(&model, batch * s, rows[_i].s);
    ck_assert_double_eq_tol(got / want, 1.0, 1e-3);
}
END_TEST

START_TEST(test_resnet)
{
    /* 4.1e9 multiply-adds an image forward (He et al., table 1, without the shortcuts' projections: 3.8e9),
     * three passes. Gradients are reduced in buckets, the last one under nothing. */
    struct cs_model model = workload_model("resnet-50");
    ck_assert_double_eq_tol(cs_model_step_flop(&model, 1.0, 1) / (3 * 2 * 4.09e9), 1.0, 0.01);
    struct cs_training training = workload_training(&model, 256, 1);
    training.bucket_bytes = 25e6;
    struct cs_trace *trace = workload_trace(&model, &training, "dp=8,micro_batch=32");
    int64_t bytes;
    int32_t n = workload_count(trace, workload_block(trace, 0, "backward (last)"),
                               (struct workload_filter){.comm = "dp"}, &bytes);
    ck_assert_int_ge(n, 3);
    ck_assert_int_eq(bytes, 4 * cs_model_params(&model));
    /* By number, as MindSpore fuses: 161 parameters, of which the last block of convolutions that begins
     * before number 85 ends the first bucket; 160 and 161 are the head's, whose first is 159. */
    training.n_fusion = 2;
    training.fusion[0] = 85;
    for (int32_t last = 159; last <= 160; last++) {
        training.fusion[1] = last;
        struct cs_trace *fused = workload_trace(&model, &training, "dp=8,micro_batch=32");
        n = workload_count(fused, workload_block(fused, 0, "backward (last)"),
                           (struct workload_filter){.comm = "dp"}, &bytes);
        ck_assert_int_eq(n, last == 159 ? 3 : 2);
        ck_assert_int_eq(bytes, 4 * cs_model_params(&model));
        cs_trace_free(fused);
    }
    struct cs_trace_totals totals;
    cs_trace_program_totals(trace, 0, &totals);
    /* The image needs no gradient: the stem's input product is missing. */
    double stem = 2 * 112.0 * 112 * 64 * 3 * 49 * 32;
    ck_assert_double_eq_tol((totals.compute_flop + stem) * 8 / trace->model_flop, 1.0, 1e-9);
    cs_trace_free(trace);
    cs_trace_free(workload_trace(&model, &training, "dp=4,pp=2,micro_batch=8,op=4"));
    cs_model_release(&model);
}
END_TEST

START_TEST(test_flop_llama)
{
    /* 6 per parameter that is multiplied (all but the look-up table and the norms), and three passes of two
     * products of s^2 a d: 12 s a d per token and layer. */
    struct cs_model model = workload_model("llama3-70b");
    double s = 8192;
    double norms = (double)((2 * model.n_layers + 1) * model.hidden);
    double multiplied = (double)(cs_model_params(&model) - model.vocab * model.hidden) - norms;
    double want = 6 * multiplied + 12.0 * s * (double)(model.n_heads * model.head_dim) * model.n_layers;
    ck_assert_double_eq_tol(cs_model_step_flop(&model, s, 8192) / s / want, 1.0, 1e-9);
    cs_model_release(&model);
}
END_TEST

START_TEST(test_bad_models)
{
    char row[512];
    int n = 0;
    FILE *expected = fopen(BAD "/expected.txt", "r");
    ck_assert_ptr_nonnull(expected);
    while (fgets(row, sizeof row, expected)) {
        char *line = strchr(row, '\t');
        char *part = line ? strchr(line + 1, '\t') : NULL;
        if (row[0] == '#' || !part) {
            continue;
        }
        *line = *part = '\0';
        part[1 + strcspn(part + 1, "\n")] = '\0';
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", BAD, row);
        struct cs_err err = {0};
        struct cs_model model = {0};
        cs_status st = cs_model_load(&model, path, &err);
        ck_assert_msg((st == CS_E_INPUT || st == CS_E_LIMIT) && err.line == (int)strtol(line + 1, NULL, 10) &&
                          strstr(err.text, part + 1),
                      "%s: status %d, line %d, '%s'", row, (int)st, err.line, err.text);
        ck_assert_ptr_null(model.name);
        n++;
    }
    fclose(expected);
    ck_assert_int_ge(n, 15);
}
END_TEST

/** Bytes that one layer keeps for backward on one rank, under 1F1B's first stage. */
static int64_t layer_activations(const struct cs_model *model, const struct cs_training *training,
                                 const char *strategy)
{
    struct cs_trace *trace = workload_trace(model, training, strategy);
    int64_t bytes;
    workload_count(
        trace, workload_block(trace, 0, "forward"),
        (struct workload_filter){.type = IS(CS_OP_ALLOC), .mem = IS(CS_MEM_ACTIVATIONS), .layer = IS(0)},
        &bytes);
    cs_trace_free(trace);
    return bytes;
}

START_TEST(test_korthikanti)
{
    /* Korthikanti et al., arXiv 2205.05198, table 2, per layer, in units of s b h. */
    const int64_t t = INT64_C(1) << _i;
    const int64_t s = 2048;
    const int64_t b = 2;
    const int64_t h = 6144;
    const int64_t a = 64;
    struct cs_model model = workload_gpt(4, h, a, 51200);
    struct cs_training training = workload_training(&model, 8, s);
    char text[128];
    const int64_t sbh = s * b * h;
    const int64_t scores = 5 * a * s * s * b;
    const struct {
        const char *sp, *recompute;
        int64_t want;
    } rows[] = {
        {"false", "none", 10 * sbh + (24 * sbh + scores) / t},
        {"true", "none", (34 * sbh + scores) / t},
        {"false", "selective", 10 * sbh + 24 * sbh / t},
        {"true", "selective", 34 * sbh / t},
        {"false", "full", 2 * sbh},
        {"true", "full", 2 * sbh / t},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool sp = rows[i].sp[0] == 't';
        if (sp && t == 1) {
            continue;
        }
        snprintf(text, sizeof text, "mp=%d,sp=%s,recompute=%s,micro_batch=%d", (int)t, rows[i].sp,
                 rows[i].recompute, (int)b);
        int64_t got = layer_activations(&model, &training, text);
        ck_assert_msg(got == rows[i].want, "%s: %lld, want %lld", text, (long long)got,
                      (long long)rows[i].want);
    }
}
END_TEST

START_TEST(test_llama_activations)
{
    /* Per token: two norm inputs and two norm outputs, q, attention output (h each), k, v, softmax statistics
     * (16 fp32 per head), gate, up, activated gate, product. Selective drops the last two. */
    struct cs_model model = workload_model("llama3-70b");
    struct cs_training training = workload_training(&model, 8, 4096);
    const int64_t kv = model.n_kv_heads * model.head_dim;
    const int64_t kept = 2 * (6 * model.hidden + 2 * kv + 4 * model.ffn) + 64 * model.n_heads;
    const int64_t dropped = 2 * 2 * model.ffn;
    ck_assert_int_eq(layer_activations(&model, &training, "mp=8,sp=true"), 4096 * kept / 8);
    ck_assert_int_eq(layer_activations(&model, &training, "mp=8,sp=true,recompute=selective"),
                     4096 * (kept - dropped) / 8);
    ck_assert_int_eq(layer_activations(&model, &training, "mp=8,recompute=full"), 4096 * 2 * model.hidden);
    cs_model_release(&model);
}
END_TEST

START_TEST(test_measured_activations)
{
    /* arXiv 2205.05198, figure 1, activations of the first stage in GiB, as tests of other tools read them
     * off the figure: the rows of training_runs.csv that hold memory. */
    static const struct {
        int32_t layers;
        int64_t hidden, heads, batch;
        const char *strategy;
        double activations_gib, state_gib;
    } rows[] = {{48, 6144, 64, 4, "mp=8,micro_batch=4", 59.250, 45.562},
                {48, 6144, 64, 4, "mp=8,micro_batch=4,sp=true,recompute=selective", 9.562, 45.562},
                {96, 12288, 96, 64, "mp=8,pp=8,vpp=3,schedule=interleaved", 66.844, 45.562},
                {96, 12288, 96, 64, "mp=8,pp=8,vpp=3,schedule=interleaved,sp=true,recompute=selective",
                 12.352, 45.562}};
    struct cs_model model = workload_gpt(rows[_i].layers, rows[_i].hidden, rows[_i].heads, 51200);
    model.max_position = 2048;
    struct cs_training training = workload_training(&model, rows[_i].batch, 2048);
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    struct cs_mem_peak peak;
    cs_trace_memory(trace, 0, &peak);
    double gib = 1024.0 * 1024 * 1024;
    /* The figure's bars are layers only, at the end of a pass: embedding, head and what recomputation makes
     * for a moment are left out here too. */
    int64_t now = 0;
    int64_t bytes = 0;
    const struct cs_program *program = &trace->programs[0];
    for (int32_t call = 0; call < program->n_calls; call++) {
        const struct cs_block *block = &trace->blocks[program->calls[call].block];
        for (int32_t i = 0; i < block->n_ops; i++) {
            const struct cs_op *op = &block->ops[i];
            bool counts = op->layer >= 0 && op->mem == CS_MEM_ACTIVATIONS;
            now += counts && op->type == CS_OP_ALLOC ? op->bytes : 0;
            now -= counts && op->type == CS_OP_FREE ? op->bytes : 0;
        }
        bytes = now > bytes ? now : bytes;
    }
    ck_assert_int_eq(now, 0);
    ck_assert_double_eq_tol((double)bytes / gib / rows[_i].activations_gib, 1.0, 0.05);
    ck_assert_int_ge(peak.by_category_bytes[CS_MEM_ACTIVATIONS], bytes);
    /* Embedding and head included, as the ledger has them at its peak. */
    ck_assert_double_eq_tol(
        (double)peak.by_category_bytes[CS_MEM_ACTIVATIONS] / gib / rows[_i].activations_gib, 1.0, 0.05);
    /* The figure's bars are 18 bytes of each of the 12 L h^2 parameters of the layers, to all its digits;
     * the first stage holds the vocabulary and the positions as well. */
    double mp = 8;
    double stages = rows[_i].layers == 96 ? 8 : 1;
    double h = (double)model.hidden;
    double bars_bytes = 18 * 12 * rows[_i].layers * h * h / mp / stages;
    double embedding_bytes = 18 * h * (51200 / mp + 2048);
    ck_assert_double_eq_tol(bars_bytes / gib, rows[_i].state_gib, 0.001);
    ck_assert_double_eq_tol((trace->programs[0].state_bytes - embedding_bytes) / bars_bytes, 1.0, 0.002);
    cs_trace_free(trace);
}
END_TEST

static Suite *workloads_suite(void)
{
    Suite *suite = suite_create("workloads");
    TCase *model = tcase_create("model");
    tcase_add_test(model, test_params);
    tcase_add_test(model, test_params_rounded);
    tcase_add_test(model, test_params_gpt);
    tcase_add_loop_test(model, test_flop_gpt, 0, 3);
    tcase_add_test(model, test_flop_llama);
    tcase_add_test(model, test_resnet);
    tcase_add_test(model, test_bad_models);
    suite_add_tcase(suite, model);
    TCase *memory = tcase_create("activations");
    tcase_add_loop_test(memory, test_korthikanti, 0, 4);
    tcase_add_test(memory, test_llama_activations);
    tcase_add_loop_test(memory, test_measured_activations, 0, 4);
    suite_add_tcase(suite, memory);
    return suite;
}

CS_TEST_MAIN(workloads_suite)
