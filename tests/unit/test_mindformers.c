/* MindFormers configurations: what each of the examples says, what is warned about, what is refused. */
#include "cs_test.h"
#include "workload_fixture.h"

#include "cs/workloads/mindformers.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GOOD CS_TEST_SOURCE_DIR "/tests/data/mindformers"
#define BAD CS_TEST_SOURCE_DIR "/tests/data/bad/mindformers"

static bool warned(const struct cs_mindformers *config, const char *key)
{
    for (int32_t i = 0; i < config->n_warnings; i++) {
        if (strcmp(config->warnings[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

START_TEST(test_examples)
{
    static const struct {
        const char *file, *strategy, *warning;
        int64_t params, seq, batch;
    } rows[] = {
        {"llama3_70b_64p",
         "dp=1,mp=8,pp=8,sp=true,half_batches=2,full_layers=0/0/0/0/0/0/0/0,"
         "selective_layers=10/8/6/4/2/0/0/0",
         "recompute_config.select_comm_recompute", 70553706496, 8192, 256},
        {"deepseek3_671b_1024p",
         "dp=16,mp=4,pp=16,op=16,sp=true,ep=8,layers=4/4/4/4/4/4/4/4/4/4/4/4/4/4/4/1,"
         "full_layers=3/4/4/4/4/4/4/4/4/4/4/4/4/3/2/0,selective_layers=0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0",
         "recompute_config.parallel_optimizer_comm_recompute", 0, 4096, 512},
        {"deepseek3_671b_256p_seqpipe",
         "dp=4,mp=8,pp=8,op=4,sp=true,ep=32,vpp=2,schedule=seqpipe,recompute=full,offload_optimizer=true,"
         "layers=4/4/4/4/4/4/4/4/4/4/4/4/4/4/4/1",
         "model.model_config", 0, 4096, 128},
        {"mixtral_8x7b_16p", "dp=8,mp=1,pp=2,op=8,ep=8,recompute=full", "moe_config.enable_sdrop",
         46702792704, 4096, 128},
        {"qwen3_32b_16p", "dp=1,mp=4,pp=4,recompute=full,layers=15/15/17/17",
         "recompute_config.parallel_optimizer_comm_recompute", 0, 4096, 4},
        {"llama2_7b_auto_parallel_8p", "dp=8,mp=1,pp=1,op=8", "parallel_config.mem_coeff", 6738415616, 4096,
         64},
        {"bert_base_1p", "dp=1,mp=1,pp=1,micro_batch=128", NULL, 0, 128, 128},
        {"moe_template_8p", "dp=2,mp=2,pp=2,op=2,sp=true", "pretrained_model_dir", 0, 0, 0},
        {"moe_with_hub", "dp=2,mp=2,pp=2,op=2,sp=true", NULL, 30532122624, 0, 0},
        {"output_fragment_example", "dp=16,mp=2,pp=2,op=2,sp=true,recompute=full", NULL, 0, 0, 0},
        {"ppb_init",
         "dp=1,mp=1,pp=4,vpp=2,schedule=interleaved,full_layers=0/0/0/0/0/0/0/0,"
         "selective_layers=1/2/2/5/1/3/6/5",
         "pipeline_config.offset", 0, 0, 0},
        {"search_request", "dp=1,mp=1,pp=1", "parallelism.dp", 0, 8192, 1},
    };
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    char path[1024];
    char text[1024];
    snprintf(path, sizeof path, GOOD "/%s.yaml", rows[_i].file);
    ck_assert_ok(cs_mindformers_load(&config, path, &err), &err);
    ck_assert_str_eq(cs_strategy_format(&config.strategy, text, sizeof text), rows[_i].strategy);
    ck_assert_msg(rows[_i].warning == NULL || warned(&config, rows[_i].warning), "%s: no warning about %s",
                  rows[_i].file, rows[_i].warning);
    if (rows[_i].params > 0) {
        ck_assert(config.has_model);
        ck_assert_int_eq(cs_model_params(&config.model), rows[_i].params);
    }
    ck_assert_int_eq(config.training.seq_length, rows[_i].seq);
    if (rows[_i].batch > 0) {
        ck_assert_int_eq(config.training.global_batch, rows[_i].batch);
    }
    for (int32_t i = 0; i < config.n_warnings; i++) {
        ck_assert(config.warnings[i].key[0] != '\0' && config.warnings[i].text[0] != '\0');
    }
    cs_mindformers_release(&config);
    cs_mindformers_release(&config);
}
END_TEST

START_TEST(test_deepseek)
{
    /* Both styles of key and both degrees of detail name the same model. */
    static const char *const files[] = {"deepseek3_671b_1024p", "deepseek3_671b_256p_seqpipe"};
    for (int32_t i = 0; i < 2; i++) {
        struct cs_err err = {0};
        struct cs_mindformers config = {0};
        char path[1024];
        snprintf(path, sizeof path, GOOD "/%s.yaml", files[i]);
        ck_assert_ok(cs_mindformers_load(&config, path, &err), &err);
        ck_assert_double_eq_tol((double)cs_model_params(&config.model) / 671.03e9, 1.0, 1e-4);
        ck_assert_int_eq(config.model.n_mtp_layers, 1);
        ck_assert_int_eq(config.n_devices, i == 0 ? 1024 : 256);
        ck_assert_int_eq(config.training.dtype, CS_DTYPE_BF16);
        cs_mindformers_release(&config);
    }
}
END_TEST

START_TEST(test_runs)
{
    /* What an example of a whole run says can be generated. */
    static const char *const files[] = {
        "llama3_70b_64p",   "deepseek3_671b_1024p", "deepseek3_671b_256p_seqpipe",
        "mixtral_8x7b_16p", "qwen3_32b_16p",        "llama2_7b_auto_parallel_8p",
        "bert_base_1p"};
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    struct cs_trace *trace = NULL;
    char path[1024];
    snprintf(path, sizeof path, GOOD "/%s.yaml", files[_i]);
    ck_assert_ok(cs_mindformers_load(&config, path, &err), &err);
    config.training.host_bytes_per_s = 31.5e9;
    ck_assert_ok(cs_trace_build(&config.model, &config.training, &config.strategy, &trace, &err), &err);
    ck_assert_ok(cs_trace_check(trace, &err), &err);
    ck_assert_int_eq(trace->n_ranks, config.n_devices);
    cs_trace_free(trace);
    cs_mindformers_release(&config);
}
END_TEST

static cs_status fusion_of(const char *list, struct cs_mindformers *config, struct cs_err *err)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "parallel_config: {data_parallel: 8}\nuse_parallel: True\n"
                     "parallel: {all_reduce_fusion_config: %s, gradient_fp32_sync: False}\n",
                     list);
    return cs_mindformers_load_text(config, text, (size_t)n, "run.yaml", err);
}

START_TEST(test_fusion)
{
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    ck_assert_ok(fusion_of("[85, 160]", &config, &err), &err);
    ck_assert_int_eq(config.training.n_fusion, 2);
    ck_assert(config.training.fusion[0] == 85 && config.training.fusion[1] == 160);
    ck_assert(!config.training.gradient_fp32_sync);
    ck_assert_int_eq(config.n_warnings, 0);
    cs_mindformers_release(&config);
    static const char *const bad[] = {"[160, 85]", "[0]", "85", "[a]"};
    for (int32_t i = 0; i < CS_COUNT(bad); i++) {
        ck_assert_int_eq(fusion_of(bad[i], &config, &err), CS_E_INPUT);
        ck_assert_int_eq(err.line, 3);
        err = (struct cs_err){0};
    }
}
END_TEST

START_TEST(test_as_model)
{
    struct cs_err err = {0};
    struct cs_model model = {0};
    ck_assert_ok(cs_model_load(&model, GOOD "/llama3_70b_64p.yaml", &err), &err);
    ck_assert_int_eq(cs_model_params(&model), INT64_C(70553706496));
    cs_model_release(&model);
    ck_assert_fails(cs_model_load(&model, GOOD "/output_fragment_example.yaml", &err), &err, CS_E_INPUT, 0,
                    "does not give the model's layers");
}
END_TEST

START_TEST(test_bad)
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
        struct cs_mindformers config = {0};
        cs_status st = cs_mindformers_load(&config, path, &err);
        ck_assert_msg((st == CS_E_INPUT || st == CS_E_LIMIT) && err.line == (int)strtol(line + 1, NULL, 10) &&
                          strstr(err.text, part + 1),
                      "%s: status %d, line %d, '%s'", row, (int)st, err.line, err.text);
        ck_assert_ptr_null(config.model.name);
        n++;
    }
    fclose(expected);
    ck_assert_int_ge(n, 25);
}
END_TEST

/* A folder with a configuration and a hub. */
static void write_hub(char folder[64], const char *run, const char *hub)
{
    char path[96];
    const char *texts[] = {run, hub};
    const char *names[] = {"run.yaml", "config.json"};
    (void)snprintf(folder, 64, "/tmp/clustersim-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int32_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        ck_assert(fputs(texts[i], file) >= 0 && fclose(file) == 0);
    }
}

static void remove_hub(const char *folder)
{
    static const char *const names[] = {"run.yaml", "config.json"};
    char path[96];
    for (int32_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

START_TEST(test_hub_kinds)
{
    static const struct {
        const char *hub, *error; /* NULL = it is read */
    } rows[] = {{"[1]\n", "must be a map"},
                {"3\n", "must be a map"},
                {"{\"model_type\": \"\\ud83d\\ude00\"}\n", NULL},
                {"{\"author\": \"\\uD83D\\uDE00 \\\\ud83d\"}\n", NULL},
                {"{\"author\": \"\\ud83d\"}\n", "not valid YAML"},
                {"{\"vocab_size\": 8, \"vocab_size\": 16}\n", NULL}};
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    char folder[64];
    char path[96];
    write_hub(folder, "pretrained_model_dir: .\nuse_parallel: True\nparallel_config: {data_parallel: 8}\n",
              rows[_i].hub);
    (void)snprintf(path, sizeof path, "%s/run.yaml", folder);
    cs_status st = cs_mindformers_load(&config, path, &err);
    if (rows[_i].error) {
        ck_assert_msg(st == CS_E_INPUT && err.line == 1 && strstr(err.text, rows[_i].error) &&
                          strstr(err.file, "config.json"),
                      "%d: '%s' in %s:%d", _i, err.text, err.file, err.line);
    } else {
        ck_assert_ok(st, &err);
        ck_assert_int_eq(config.n_warnings, 1);
        ck_assert(strstr(config.warnings[0].key, "config.json."));
    }
    cs_mindformers_release(&config);
    remove_hub(folder);
}
END_TEST

START_TEST(test_repeats)
{
    /* PyYAML takes the last of equal keys. */
    static const char text[] = "parallel_config: {data_parallel: 2}\n"
                               "parallel_config:\n"
                               "  data_parallel: 4\n"
                               "  model_parallel: 2\n"
                               "  data_parallel: 8\n"
                               "use_parallel: True\n"
                               "parallel: {parallel_mode: 1}\n"
                               "use_legacy: False\n";
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    ck_assert_ok(cs_mindformers_load_text(&config, text, strlen(text), "run.yaml", &err), &err);
    ck_assert_int_eq(config.strategy.dp, 8);
    ck_assert_int_eq(config.strategy.mp, 2);
    ck_assert_int_eq(config.n_warnings, 2);
    ck_assert_str_eq(config.warnings[0].key, "parallel_config");
    ck_assert_int_eq(config.warnings[0].line, 1);
    ck_assert(strstr(config.warnings[0].text, "line 2 says it again"));
    ck_assert_str_eq(config.warnings[1].key, "parallel_config.data_parallel");
    ck_assert_int_eq(config.warnings[1].line, 3);
    cs_mindformers_release(&config);
}
END_TEST

START_TEST(test_counts)
{
    /* Recomputation by stage, of 600 layers on two stages, or as many as `model` says. */
    static const struct {
        const char *model, *recompute, *strategy, *error; /* what the strategy says, or the refusal */
        int32_t n_warnings;
    } rows[] = {
        {NULL, "recompute: [300, 300]", "dp=1,mp=1,pp=2,recompute=full", NULL, 0},
        {NULL, "recompute: [True, True]", "dp=1,mp=1,pp=2,recompute=full", NULL, 0},
        {NULL, "recompute: [255, 10]", "dp=1,mp=1,pp=2,full_layers=255/10,selective_layers=0/0", NULL, 0},
        {NULL, "recompute: [300, 0]", "dp=1,mp=1,pp=2,full_layers=300/0,selective_layers=0/0", NULL, 0},
        {NULL, "recompute: [0, True]", "dp=1,mp=1,pp=2,full_layers=0/300,selective_layers=0/0", NULL, 0},
        {"num_layers: 600, offset: [1, -1]", "recompute: False", "dp=1,mp=1,pp=2,layers=301/299", NULL, 0},
        {"offset: 0", "recompute: [70000, 0]", NULL, "at most 65535 are counted", 0},
        {"num_layers: 8", "recompute: [99, True]", "dp=1,mp=1,pp=2,recompute=full", NULL, 1},
        {"num_layers: 8", "recompute: [99, 1]", "dp=1,mp=1,pp=2,full_layers=4/1,selective_layers=0/0", NULL,
         1},
        {"num_layers: 8", "recompute: [True, False]", "dp=1,mp=1,pp=2,full_layers=4/0,selective_layers=0/0",
         NULL, 0},
        {"offset: 0", "recompute: [True, 3]", NULL, "does not give the model's layers", 0},
        {"offset: 0", "recompute: [True, True]", "dp=1,mp=1,pp=2,recompute=full", NULL, 0},
        {"num_layers: 8, pp_interleave_num: 2", "recompute: [True, 3]",
         "dp=1,mp=1,pp=2,vpp=2,schedule=interleaved,full_layers=2/2/2/1,selective_layers=0/0/0/0", NULL, 0},
        {"num_layers: 8", "recompute: [1, 2]}\nswap_config: {swap: True",
         "dp=1,mp=1,pp=2,swap_activations=true,full_layers=2/0,selective_layers=2/0", NULL, 1},
        {"num_layers: 8",
         "recompute: [4, 0, 4, 9], select_recompute: [1, True, 7, 4]}\nswap_config: {swap: True",
         "dp=1,mp=1,pp=2,swap_activations=true,full_layers=1/1,selective_layers=2/2", NULL, 2},
        {"num_layers: 8", "recompute: [[1], [2]]}\nswap_config: {swap: True", NULL, "recompute", 0},
        {"offset: 0", "recompute: [1, 2]}\nswap_config: {swap: True", NULL, "names layers by number", 0},
    };
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    char text[1024];
    char strategy[CS_STRATEGY_TEXT_MAX];
    int n = snprintf(
        text, sizeof text,
        "use_parallel: True\nparallel: {parallel_mode: 1, pipeline_config: {pipeline_interleave: %s}}\n"
        "parallel_config: {pipeline_stage: 2, micro_batch_num: 4}\n"
        "model: {model_config: {%s, hidden_size: 64, num_heads: 4, vocab_size: 512, type: LlamaConfig}}\n"
        "recompute_config: {%s}\n",
        rows[_i].model && strstr(rows[_i].model, "interleave") ? "True" : "False",
        rows[_i].model ? rows[_i].model : "num_layers: 600", rows[_i].recompute);
    cs_status st = cs_mindformers_load_text(&config, text, (size_t)n, "run.yaml", &err);
    if (rows[_i].error) {
        ck_assert_int_eq(st, strstr(rows[_i].error, "65535") ? CS_E_LIMIT : CS_E_INPUT);
        ck_assert_msg(err.line > 3 && strstr(err.text, rows[_i].error), "line %d: %s", err.line, err.text);
        return;
    }
    ck_assert_ok(st, &err);
    ck_assert_str_eq(cs_strategy_format(&config.strategy, strategy, sizeof strategy), rows[_i].strategy);
    ck_assert_int_eq(config.n_warnings, rows[_i].n_warnings);
    cs_mindformers_release(&config);
}
END_TEST

static Suite *mindformers_suite(void)
{
    Suite *suite = suite_create("mindformers");
    TCase *c = tcase_create("mindformers");
    tcase_add_loop_test(c, test_examples, 0, 12);
    tcase_add_test(c, test_deepseek);
    tcase_add_loop_test(c, test_runs, 0, 7);
    tcase_add_test(c, test_fusion);
    tcase_add_test(c, test_as_model);
    tcase_add_test(c, test_bad);
    tcase_add_loop_test(c, test_hub_kinds, 0, 6);
    tcase_add_test(c, test_repeats);
    tcase_add_loop_test(c, test_counts, 0, 17);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(mindformers_suite)
