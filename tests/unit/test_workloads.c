/* Models: reading, parameters, floating-point work, activation memory against closed forms. */
#include "cs_test.h"
#include "workload_fixture.h"

#include <math.h>
#include <stdio.h>

#define BAD CS_TEST_SOURCE_DIR "/tests/data/bad/model"

START_TEST(test_params)
{
    /* Published: arXiv 2407.21783 (LLaMA 3), arXiv 2307.09288 (LLaMA 2); exact counts of the weights. */
    static const struct {
        const char *name;
        int64_t params;
    } rows[] = {{"llama3-70b", 70553706496}, {"llama3-8b", 8030261248}, {"llama2-7b", 6738415616}};
    const int64_t params = rows[_i].params;
    struct cs_model model = workload_model(rows[_i].name);
    ck_assert_int_eq(cs_model_params(&model), params);
    ck_assert_int_eq(cs_model_active_params(&model), params);
    ck_assert_str_eq(model.name, rows[_i].name);
    cs_model_release(&model);
    cs_model_release(&model);
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
        ck_assert_msg(st == CS_E_INPUT && err.line == (int)strtol(line + 1, NULL, 10) &&
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
     * off the figure: the rows of training_runs.csv that hold memory and need no interleaving. */
    struct cs_model model = workload_gpt(48, 6144, 64, 51200);
    model.max_position = 2048;
    struct cs_training training = workload_training(&model, 4, 2048);
    static const struct {
        const char *strategy;
        double activations_gib, state_gib;
    } rows[] = {{"mp=8,micro_batch=4", 59.250, 45.562},
                {"mp=8,micro_batch=4,sp=true,recompute=selective", 9.562, 45.562}};
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    struct cs_mem_peak peak;
    cs_trace_memory(trace, 0, &peak);
    double gib = 1024.0 * 1024 * 1024;
    /* The figure's bars are layers only: embedding and head are left out here too. */
    int64_t bytes = 0;
    for (int32_t layer = 0; layer < 48; layer++) {
        int64_t of_layer;
        workload_count(trace, workload_block(trace, 0, "forward"),
                       (struct workload_filter){
                           .type = IS(CS_OP_ALLOC), .mem = IS(CS_MEM_ACTIVATIONS), .layer = IS(layer)},
                       &of_layer);
        bytes += of_layer;
    }
    ck_assert_double_eq_tol((double)bytes / gib / rows[_i].activations_gib, 1.0, 0.05);
    ck_assert_int_ge(peak.by_category_bytes[CS_MEM_ACTIVATIONS], bytes);
    ck_assert_double_eq_tol(trace->programs[0].state_bytes / gib / rows[_i].state_gib, 1.0, 0.05);
    cs_trace_free(trace);
}
END_TEST

static Suite *workloads_suite(void)
{
    Suite *suite = suite_create("workloads");
    TCase *model = tcase_create("model");
    tcase_add_loop_test(model, test_params, 0, 3);
    tcase_add_test(model, test_params_gpt);
    tcase_add_loop_test(model, test_flop_gpt, 0, 3);
    tcase_add_test(model, test_flop_llama);
    tcase_add_test(model, test_bad_models);
    suite_add_tcase(suite, model);
    TCase *memory = tcase_create("activations");
    tcase_add_loop_test(memory, test_korthikanti, 0, 4);
    tcase_add_test(memory, test_llama_activations);
    tcase_add_loop_test(memory, test_measured_activations, 0, 2);
    suite_add_tcase(suite, memory);
    return suite;
}

CS_TEST_MAIN(workloads_suite)
