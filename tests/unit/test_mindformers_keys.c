/* MindFormers configurations, key by key: what is listed, what is modelled, MindFormers' own checks. */
#include "cs_test.h"

#include "cs/workloads/mindformers.h"

#include <stdio.h>

/* A run of 8 devices to which each test adds. */
static const char *const head = "use_parallel: True\n";
static const char *const plain_model =
    "model: {model_config: {type: LlamaConfig, num_layers: 16, hidden_size: 1024, num_heads: 16, n_kv_heads: "
    "8, "
    "vocab_size: 32000, seq_length: 1024, compute_dtype: bfloat16, use_flash_attention: True%s}}\n";

struct texts {
    const char *parallel; /* inside `parallel` */
    const char *degrees;  /* inside `parallel_config` */
    const char *model;    /* inside model_config, after a comma */
    const char *rest;     /* whole lines */
};

static cs_status load(const struct texts *t, struct cs_mindformers *config, struct cs_err *err)
{
    char text[4096];
    char model[1024];
    snprintf(model, sizeof model, plain_model, t->model ? t->model : "");
    int n = snprintf(text, sizeof text, "%sparallel: {%s}\nparallel_config: {%s}\n%s%s", head,
                     t->parallel ? t->parallel : "parallel_mode: 1",
                     t->degrees ? t->degrees : "data_parallel: 8", model, t->rest ? t->rest : "");
    return cs_mindformers_load_text(config, text, (size_t)n, "run.yaml", err);
}

/* At line 0 when there is none. */
static const struct cs_mindformers_warning *warning_at(const struct cs_mindformers *config, const char *key)
{
    static const struct cs_mindformers_warning none = {.key = "", .file = "", .text = ""};
    const struct cs_mindformers_warning *found = &none;
    for (int32_t i = 0; i < config->n_warnings; i++) {
        if (strcmp(config->warnings[i].key, key) == 0) {
            found = &config->warnings[i];
        }
    }
    return found;
}

/* What a file asks for and is not modelled: listed under its path, with its line and what is done instead. */
static const struct {
    struct texts t;
    const char *key, *part;
    int line;
} listed[] = {
    {{.rest = "optimizer: {type: Lion}\n"}, "optimizer.type", "'Lion' is not modelled: AdamW is", 5},
    {{.parallel = "parallel_mode: 2, search_mode: recursive_programming"},
     "parallel.parallel_mode",
     "degrees of parallel_config are simulated",
     2},
    {{.parallel = "parallel_mode: 2, search_mode: recursive_programming"}, "parallel.search_mode", "not", 2},
    {{.parallel = "parallel_mode: 0", .degrees = "data_parallel: 4, model_parallel: 2"},
     "parallel_config.model_parallel",
     "the 8 devices are replicas",
     3},
    {{.parallel = "parallel_mode: 0", .degrees = "data_parallel: &n 2,\n  model_parallel: *n"},
     "parallel_config.model_parallel",
     "the 4 devices are replicas",
     4},
    {{.parallel = "auto_pipeline: True"}, "parallel.auto_pipeline", "pipeline_stage is simulated", 2},
    {{.parallel = "pipeline_config: {auto_pipeline: True}"},
     "parallel.pipeline_config.auto_pipeline",
     "pipeline_stage is simulated",
     2},
    {{.parallel = "parallel_optimizer_config: {optimizer_level: level3}"},
     "parallel.parallel_optimizer_config.optimizer_level",
     "no effect without enable_parallel_optimizer",
     2},
    {{.parallel =
          "enable_parallel_optimizer: True, parallel_optimizer_config: {parallel_optimizer_threshold: 128}"},
     "parallel.parallel_optimizer_config.parallel_optimizer_threshold",
     "sharded here too",
     2},
    {{.parallel = "enable_parallel_optimizer: True",
      .rest = "recompute_config: {recompute: True, parallel_optimizer_comm_recompute: True}\n"},
     "recompute_config.parallel_optimizer_comm_recompute",
     "gathered once a step",
     5},
    {{.rest = "recompute_config: {recompute: False, select_recompute: True}\n",
      .model = ", use_flash_attention: True, hidden_act: gelu, gated_linear_unit: False"},
     "recompute_config.select_recompute",
     "has no effect: the model's MLP is not gated",
     5},
    {{.parallel = "comm_fusion: {openstate: True, allreduce: {mode: size, config: 32}}"},
     "parallel.comm_fusion.allreduce.config",
     "is not modelled",
     2},
    {{.degrees = "data_parallel: 4, pipeline_stage: 2, micro_batch_num: 8",
      .rest = "runner_config: {batch_size: 1, gradient_accumulation_steps: 4}\n"},
     "runner_config.gradient_accumulation_steps",
     "no effect under a pipeline",
     5},
    {{.degrees = "data_parallel: 8, micro_batch_num: 8"},
     "parallel_config.micro_batch_num",
     "no effect without a pipeline",
     3},
    {{.parallel = "all_reduce_fusion_config: [20]",
      .degrees = "data_parallel: 8, gradient_aggregation_group: 4"},
     "parallel_config.gradient_aggregation_group",
     "no effect beside all_reduce_fusion_config",
     3},
    {{.degrees = "data_parallel: 4, model_parallel: 2, vocab_emb_dp: True"},
     "parallel_config.vocab_emb_dp",
     "it is cut",
     3},
    {{.degrees = "data_parallel: 4, context_parallel: 2, context_parallel_algo: colossalai_cp",
      .model = ", use_ring_attention: False"},
     "model.model_config.use_ring_attention",
     "a ring is",
     4},
    {{.model = ", param_init_type: bfloat16"}, "model.model_config.param_init_type", "with one they are", 4},
    {{.model = ", softmax_compute_dtype: float32"},
     "model.model_config.softmax_compute_dtype",
     "compute_dtype",
     4},
    {{.model = ", hidden_act: mish"}, "model.model_config.hidden_act", "'mish' is not modelled: silu", 4},
    {{.model = ", normalization: PowerNorm"}, "model.model_config.normalization", "RMS normalisation is", 4},
    {{.model = ", position_embedding_type: relative"},
     "model.model_config.position_embedding_type",
     "rotation is",
     4},
    {{.model = ", sliding_window: 4096"}, "model.model_config.sliding_window", "is not modelled", 4},
    {{.model = ", num_hidden_layers: 12"}, "model.model_config.num_layers", "'num_hidden_layers' says it", 4},
    {{.model = ", pp_interleave_num: 2"}, "model.model_config.pp_interleave_num", "has no effect without", 4},
    {{.model = ", batch_size: 2", .rest = "runner_config: {batch_size: 4}\n"},
     "model.model_config.batch_size",
     "line 5 says it",
     4},
    {{.model = ", first_k_dense_replace: 2, num_experts: 8",
      .rest = "moe_config: {first_k_dense_replace: 1}\n"},
     "moe_config.first_k_dense_replace",
     "line 4 says it",
     5},
    {{.degrees = "data_parallel: 4, pipeline_stage: 4, micro_batch_num: 8"},
     "parallel_config.pipeline_stage",
     "does not divide the 2 servers",
     3},
    {{.parallel = "enable_parallel_optimizer: True", .degrees = "data_parallel: 3"},
     "parallel.enable_parallel_optimizer",
     "not divisible by the 3 devices",
     2},
    {{.model = ", num_experts: 8",
      .degrees = "data_parallel: 8, expert_parallel: 8",
      .parallel = "enable_alltoall: False"},
     "parallel.enable_alltoall",
     "an all-to-all is",
     2},
    {{.model = ", num_experts: 8, moe_token_dispatcher_type: alltoall_zero_redundancy",
      .degrees = "data_parallel: 8, expert_parallel: 8"},
     "model.model_config.moe_token_dispatcher_type",
     "a plain all-to-all is",
     4},
    {{.rest = "recompute_config: {select_recompute: {attention: True}}\n"},
     "recompute_config.select_recompute",
     "operators by name",
     5},
    {{.parallel = "enable_parallel_optimizer: True", .degrees = "data_parallel: 1, context_parallel: 4"},
     "parallel.enable_parallel_optimizer",
     "data_parallel * context_parallel = 4 ranks is not modelled",
     2},
    {{.degrees = "data_parallel: 8, use_seq_parallel: True"},
     "parallel_config.use_seq_parallel",
     "no effect with model_parallel 1",
     3},
    {{.parallel = "parallel_mode: 1, pipeline_config: {pipeline_interleave: True}",
      .degrees = "data_parallel: 4, pipeline_stage: 2, micro_batch_num: 4"},
     "parallel.pipeline_config.pipeline_interleave",
     "no effect with pp_interleave_num 1",
     2},
    {{.degrees = "data_parallel: 4, context_parallel: 2", .model = ", fine_grain_interleave: 2"},
     "model.model_config.fine_grain_interleave",
     "no communication to hide",
     4},
    {{.rest = "micro_batch_interleave_num: 2\n"},
     "micro_batch_interleave_num",
     "no communication to hide",
     5},
    {{.parallel = "full_batch: True, dataset_strategy: [[4, 1]]"},
     "parallel.dataset_strategy",
     "not read with full_batch",
     2},
    {{.parallel = "dataset_strategy: [[8, 1], [4, 1]]"},
     "parallel.dataset_strategy",
     "cut otherwise than the batch",
     2},
    {{.parallel = "optimizer_weight_shard_size: 4"},
     "parallel.optimizer_weight_shard_size",
     "no effect without enable_parallel_optimizer",
     2},
    {{.degrees = "data_parallel: 4, model_parallel: 2"},
     "parallel_config.vocab_emb_dp",
     "is left out, and True by default",
     3},
    {{.parallel = "gradients_mean: True", .degrees = "data_parallel: 4, model_parallel: 2"},
     "parallel.parallel_mode",
     "is left out, and 0",
     3},
    {{.degrees = "data_parallel: 8, expert_parallel: 2", .model = ", num_experts: 8"},
     "parallel.enable_alltoall",
     "is left out, and False by default",
     3},
    {{.rest = "swap_config: {swap: True, layer_swap: [{backward_prefetch: 1, layers: [0, 1]}]}\n"},
     "swap_config.layer_swap[0].layers",
     "is not modelled",
     5},
    {{.rest = "swap_config: {swapp: True}\n"}, "swap_config.swapp", "is not modelled", 5},
    {{.rest = "swap_config: {swap: True}\n"}, "swap_config.swap", "all that layers keep is", 5},
    {{.rest = "swap_config: {swap: True, default_prefetch: 10}\n"},
     "swap_config.default_prefetch",
     "come back one ahead",
     5},
    {{.rest = "swap_config: {swap: True, default_prefetch: 10, op_swap: [{op_name: attention, "
              "backward_prefetch: 2, layers: True}]}\n"},
     "swap_config.default_prefetch",
     "no effect with layer_swap",
     5},
    {{.rest = "swap_config: {swap: True}\nrecompute_config: {recompute: True}\n"},
     "swap_config.swap",
     "all layers are recomputed",
     5},
    {{.rest = "context: {mode: 1, ascend_config: {precision_mode: must_keep}}\n"},
     "context.mode",
     "a graph is",
     5},
    {{.rest = "context: {ascend_config: {precision_mode: must_keep}}\n"},
     "context.ascend_config.precision_mode",
     "is not modelled",
     5},
    {{.rest = "run_mode: predict\n"}, "run_mode", "a training step is", 5},
    {{.rest = "invented: {deeper: {still: 5}}\n"}, "invented.deeper.still", "is not modelled", 5},
    {{.rest = "invented: [{a: 1}, {b: False}]\n"}, "invented[1].b", "is not modelled", 5},
    {{.rest = "base: &base {swap: True}\ncopy: {<<: *base}\n"}, "copy.swap", "is not modelled", 5},
};

START_TEST(test_listed)
{
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    ck_assert_ok(load(&listed[_i].t, &config, &err), &err);
    const struct cs_mindformers_warning *w = warning_at(&config, listed[_i].key);
    ck_assert_msg(w->line > 0, "'%s' is not listed", listed[_i].key);
    ck_assert_msg(strstr(w->text, listed[_i].part) != NULL && w->line == listed[_i].line,
                  "line %d: '%s'; want line %d: '%s'", w->line, w->text, listed[_i].line, listed[_i].part);
    ck_assert_str_eq(w->file, "run.yaml");
    cs_mindformers_release(&config);
}
END_TEST

/* What has no effect, or asks for nothing beyond what is modelled, is quiet. */
START_TEST(test_quiet)
{
    static const struct texts quiet = {
        .parallel =
            "parallel_mode: 1, gradients_mean: False, search_mode: sharding_propagation, full_batch: True, "
            "enable_parallel_optimizer: True, strategy_ckpt_config: {save_file: a.ckpt}, "
            "parallel_optimizer_config: {gradient_accumulation_shard: False, "
            "parallel_optimizer_threshold: 64, optimizer_weight_shard_size: -1}",
        .degrees = "data_parallel: 4, model_parallel: 2, use_seq_parallel: True, vocab_emb_dp: False",
        .model = ", offset: 0, param_init_type: float32, rms_norm_eps: 1.e-5, bos_token_id: 1, "
                 "sliding_window: None",
        .rest = "seed: 0\ncallbacks: [{type: MFLossMonitor}]\ntrain_dataset: {data_loader: {shuffle: True}}\n"
                "output_dir: ./output\nrun_mode: train\nmoe_config: {expert_num: 1, capacity_factor: 1.5}\n"
                "recompute_config: {recompute: False, recompute_slice_activation: True, "
                "select_comm_recompute: False}\nswap_config: {swap: False, default_prefetch: 3}\n"};
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    ck_assert_ok(load(&quiet, &config, &err), &err);
    ck_assert_msg(config.n_warnings == 0, "'%s': %s", config.warnings[0].key, config.warnings[0].text);
    ck_assert_str_eq(config.model.name, "LlamaConfig");
    cs_mindformers_release(&config);
}
END_TEST

#define EXPERT_DEGREES "data_parallel: 4, model_parallel: 2, expert_parallel: 4, use_seq_parallel: True"
/* What is modelled, as the strategy and training that come of it. */
static const struct {
    struct texts t;
    const char *strategy;
    int64_t batch;
} modelled[] = {
    {{.parallel = "enable_parallel_optimizer: True"}, "dp=8,mp=1,pp=1,op=8", 8},
    {{.parallel = "enable_parallel_optimizer: True, parallel_optimizer_config: {optimizer_level: level1, "
                  "optimizer_weight_shard_size: 4}"},
     "dp=8,mp=1,pp=1,op=4",
     8},
    {{.parallel = "enable_parallel_optimizer: True, parallel_optimizer_config: {optimizer_level: level2}"},
     "dp=8,mp=1,pp=1,op=8,zero=2",
     8},
    {{.parallel =
          "enable_parallel_optimizer: True, parallel_optimizer_config: {gradient_accumulation_shard: True}"},
     "dp=8,mp=1,pp=1,op=8,zero=2",
     8},
    {{.parallel = "enable_parallel_optimizer: True, parallel_optimizer_config: {optimizer_level: level3}"},
     "dp=8,mp=1,pp=1,op=8,zero=3",
     8},
    {{.parallel = "enable_parallel_optimizer: True, parallel_optimizer_config: {optimizer_level: level3}",
      .rest = "recompute_config: {recompute: True, parallel_optimizer_comm_recompute: True}\n"},
     "dp=8,mp=1,pp=1,op=8,zero=3,recompute=full",
     8},
    {{.parallel =
          "enable_parallel_optimizer: True, parallel_optimizer_config: {parallel_optimizer_threshold: "
          "1048576}"},
     "dp=8,mp=1,pp=1",
     8},
    {{.parallel = "parallel_mode: DATA_PARALLEL", .degrees = "data_parallel: 4, model_parallel: 2"},
     "dp=8,mp=1,pp=1",
     8},
    {{.rest = "runner_config: {batch_size: 2, gradient_accumulation_steps: 4}\n"},
     "dp=8,mp=1,pp=1,micro_batch=2",
     64},
    {{.parallel = "parallel_mode: 0",
      .rest = "runner_config: {batch_size: 2, gradient_accumulation_steps: 4}\n"},
     "dp=8,mp=1,pp=1,micro_batch=2",
     16},
    {{.degrees = "data_parallel: 4, pipeline_stage: 2, micro_batch_num: 8",
      .rest = "runner_config: {batch_size: '1', gradient_accumulation_steps: 4}\n"},
     "dp=4,mp=1,pp=2",
     32},
    /* 16 layers on 3 stages: offset is the remainder, every stage takes it until there are no layers left */
    {{.degrees = "data_parallel: 1, pipeline_stage: 3, micro_batch_num: 6", .model = ", offset: 1"},
     "dp=1,mp=1,pp=3,layers=6/6/4",
     6},
    {{.degrees = "data_parallel: 1, pipeline_stage: 3, micro_batch_num: 6", .model = ", offset: [0, 1, 0]"},
     "dp=1,mp=1,pp=3,layers=5/6/5",
     6},
    /* a flat list counts a stage's layers, dealt to its chunks in turn; one that ends early ends in zeros */
    {{.parallel = "pipeline_config: {pipeline_interleave: True}",
      .degrees = "pipeline_stage: 2, micro_batch_num: 4",
      .model = ", pp_interleave_num: 2",
      .rest = "recompute_config: {recompute: [3]}\n"},
     "dp=1,mp=1,pp=2,vpp=2,schedule=interleaved,full_layers=2/0/1/0,selective_layers=0/0/0/0",
     4},
    {{.rest = "recompute_config: {select_recompute: ['feed_forward\\.mul']}\n"},
     "dp=8,mp=1,pp=1,recompute=selective",
     8},
    /* the old style cuts experts over model_parallel, unless told 1 */
    {{.degrees = EXPERT_DEGREES, .rest = "moe_config: {expert_num: 8}\n"},
     "dp=4,mp=2,pp=1,sp=true,ep=4,expert_mp=true",
     4},
    {{.degrees = EXPERT_DEGREES, .rest = "moe_config: {expert_num: 8, expert_model_parallel: 2}\n"},
     "dp=4,mp=2,pp=1,sp=true,ep=4,expert_mp=true",
     4},
    {{.degrees = EXPERT_DEGREES, .rest = "moe_config: {expert_num: 8, expert_model_parallel: 1}\n"},
     "dp=4,mp=2,pp=1,sp=true,ep=4",
     4},
    {{.degrees = EXPERT_DEGREES, .rest = "moe_config: {expert_num: 8}\nuse_legacy: False\n"},
     "dp=4,mp=2,pp=1,sp=true,ep=4",
     4},
    /* recomputation wins over swap */
    {{.rest = "swap_config: {swap: True}\nrecompute_config: {recompute: True}\n"},
     "dp=8,mp=1,pp=1,recompute=full",
     8},
};

START_TEST(test_modelled)
{
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    char text[1024];
    ck_assert_ok(load(&modelled[_i].t, &config, &err), &err);
    ck_assert_str_eq(cs_strategy_format(&config.strategy, text, sizeof text), modelled[_i].strategy);
    ck_assert_int_eq(config.training.global_batch, modelled[_i].batch);
    cs_mindformers_release(&config);
}
END_TEST

/* As LayerSetting and TransformerOpParallelConfig have them, and the parameters' type. */
START_TEST(test_gradients)
{
    static const struct {
        const char *degrees, *model;
        int32_t groups;
        enum cs_dtype dtype;
        bool fp32_sync;
    } rows[] = {
        {"data_parallel: 8", "", 4, CS_DTYPE_FP32, true},
        {"data_parallel: 8, gradient_aggregation_group: 6", ", param_init_type: float32", 6, CS_DTYPE_FP32,
         true},
        {"data_parallel: 8, gradient_aggregation_group: 1", ", param_init_type: float16", 1, CS_DTYPE_FP16,
         false},
    };
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    const struct texts t = {.degrees = rows[_i].degrees, .model = rows[_i].model};
    ck_assert_ok(load(&t, &config, &err), &err);
    ck_assert_int_eq(config.training.aggregation_groups, rows[_i].groups);
    ck_assert_int_eq(config.training.gradient_dtype, rows[_i].dtype);
    ck_assert_int_eq(config.training.gradient_fp32_sync, rows[_i].fp32_sync);
    ck_assert(config.training.separate_loss);
    cs_mindformers_release(&config);
}
END_TEST

/* What a file says of the training: a fragment what is in it, a whole file all. */
START_TEST(test_said)
{
    static const struct {
        const char *text;
        uint32_t said;
    } rows[] = {
        {"pipeline_config: {pipeline_num: 4, num_layer: 8, offset: [0, 0, 0, 0]}\n", 0},
        {"parallel: {parallel_mode: 1}\n", 0},
        {"parallel_config: {data_parallel: 8}\n", CS_MF_SAYS_BATCH},
        {"parallel_config: {data_parallel: 8, gradient_aggregation_group: 4}\n",
         CS_MF_SAYS_BATCH | CS_MF_SAYS_AGGREGATION},
        {"parallel: {gradient_fp32_sync: True}\n", CS_MF_SAYS_FP32_SYNC},
        {"model: {model_config: {param_init_type: float16}}\n", CS_MF_SAYS_GRADIENT_DTYPE},
        {"model: {model_config: {params_dtype: float32}}\n", CS_MF_SAYS_GRADIENT_DTYPE},
        {"model: {model_config: {type: LlamaConfig, num_layers: 4, hidden_size: 1024, num_heads: 16, "
         "vocab_size: 32000, seq_length: 1024}}\n",
         CS_MF_SAYS_ALL},
        {"model: {model_config: {type: LlamaConfig, num_layers: 4, hidden_size: 1024, num_heads: 16, "
         "vocab_size: 32000}}\n",
         CS_MF_SAYS_ALL & ~(uint32_t)(CS_MF_SAYS_BATCH | CS_MF_SAYS_SEQ_LENGTH)},
    };
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        struct cs_err err = {0};
        struct cs_mindformers config = {0};
        const char *text = rows[i].text;
        ck_assert_ok(cs_mindformers_load_text(&config, text, strlen(text), "run.yaml", &err), &err);
        ck_assert_msg(config.said == rows[i].said, "%s says %#x, want %#x", text, (unsigned)config.said,
                      (unsigned)rows[i].said);
        cs_mindformers_release(&config);
    }
}
END_TEST

/* What each style's experts drop and how they are multiplied, said and not said. */
START_TEST(test_experts)
{
    static const struct {
        const char *rest;
        double capacity_factor;
        bool separate;
    } rows[] = {{"moe_config: {expert_num: 8, num_experts_chosen: 2}\n", 1.1, false},
                {"moe_config: {expert_num: 8, num_experts_chosen: 2, capacity_factor: 1.1}\n", 1.1, false},
                {"moe_config: {expert_num: 8, num_experts_chosen: 2, use_gmm: False}\n", 1.1, false},
                {"moe_config: {expert_num: 8, num_experts_chosen: 2, use_gmm: True}\n", 0, false},
                {"moe_config: {expert_num: 8}\nuse_legacy: False\n", 0, false},
                {"moe_config: {expert_num: 8, moe_grouped_gemm: False}\nuse_legacy: False\n", 0, true},
                {"moe_config: {expert_num: 8, moe_grouped_gemm: True}\nuse_legacy: False\n", 0, false},
                {"moe_config: {expert_num: 1, moe_grouped_gemm: False}\nuse_legacy: False\n", 0, false}};
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        struct cs_err err = {0};
        struct cs_mindformers config = {0};
        const struct texts texts = {.degrees = EXPERT_DEGREES, .rest = rows[i].rest};
        const struct texts dense = {.rest = rows[i].rest};
        ck_assert_ok(load(i + 1 < CS_COUNT(rows) ? &texts : &dense, &config, &err), &err);
        ck_assert_double_eq(config.model.capacity_factor, rows[i].capacity_factor);
        ck_assert_int_eq(config.training.separate_experts, rows[i].separate);
        cs_mindformers_release(&config);
    }
}
END_TEST

START_TEST(test_memory)
{
    static const struct texts limit = {.rest = "context: {max_device_memory: \"52.5GB\"}\n"};
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    ck_assert_ok(load(&limit, &config, &err), &err);
    ck_assert_double_eq(config.device_memory_bytes, 52.5 * 1024 * 1024 * 1024);
    ck_assert_int_eq(config.n_warnings, 0);
    cs_mindformers_release(&config);
}
END_TEST

/* What MindFormers or MindSpore refuses, beyond tests/data/bad/mindformers. */
static const struct {
    struct texts t;
    const char *part;
    int line;
} refused[] = {
    {{.model = ", compute_dtype: int4"}, "'compute_dtype' is 'int4'", 4},
    {{.model = ", params_dtype: int4"}, "should be one of: float16, bfloat16, float32", 4},
    {{.model = ", head_dim: 0"}, NULL, 0},
    {{.degrees = "data_parallel: 8, context_parallel_algo: foo"}, "should be one of: colossalai_cp", 3},
    {{.parallel = "parallel_mode: 7"}, "'parallel_mode' is '7'", 2},
    {{.parallel = "parallel_optimizer_config: {optimizer_level: level4}"},
     "'optimizer_level' is 'level4'",
     2},
    {{.parallel = "parallel_optimizer_config: {optimizer_weight_shard_size: 0}"},
     "-1 (all) or at least 1",
     2},
    {{.parallel = "parallel_optimizer_config: yes"}, "must be a map", 2},
    {{.degrees = EXPERT_DEGREES, .rest = "moe_config: {expert_num: 8, expert_model_parallel: 4}\n"},
     "'expert_model_parallel' is 4, expected 1 or model_parallel (2)",
     5},
    {{.degrees = "data_parallel: 4, model_parallel: 2, expert_parallel: 8, use_seq_parallel: True",
      .rest = "moe_config: {expert_num: 8}\n"},
     "does not divide data_parallel * context_parallel",
     3},
    {{.parallel = "pipeline_config: {pipeline_scheduler: 2f2b}"}, "'pipeline_scheduler' is '2f2b'", 2},
    {{.parallel = "parallel_mode: 1, dataset_strategy: [[4, 1], [4, 1]]"}, "data_parallel is 8", 2},
    {{.parallel = "parallel_mode: 0, full_batch: True"}, "parallel_mode 1 and 2 only", 2},
    {{.degrees = "pipeline_stage: 3, micro_batch_num: 6"}, "'offset' adds up to 0", 4},
    {{.degrees = "pipeline_stage: 2, micro_batch_num: 6", .model = ", offset: 1"}, "add up to 17", 4},
    {{.degrees = "pipeline_stage: 2, micro_batch_num: 6", .model = ", offset: [[1, -1]]"}, NULL, 0},
    {{.degrees = "pipeline_stage: 2, micro_batch_num: 6",
      .rest = "recompute_config: {recompute: [1, 2, 3]}\n"},
     "a number for each of 2 stages",
     5},
    {{.rest = "recompute_config: {recompute: 3}\n"}, "'recompute' is '3'", 5},
    {{.rest = "swap_config: {swap: True, layer_swap: all}\n"}, "'layer_swap' must be a list", 5},
    {{.rest = "swap_config: {swap: True, layer_swap: [1]}\n"}, "must be a map", 5},
    {{.rest = "swap_config: {swap: True, op_swap: all}\n"}, "'op_swap' must be a list", 5},
    {{.rest = "swap_config: {swap: True, layer_swap: [{layers: [0]}]}\n"}, "no 'backward_prefetch'", 5},
    {{.rest = "swap_config: {swap: True, layer_swap: [{backward_prefetch: 1}]}\n"}, "no 'layers'", 5},
    {{.rest = "swap_config: {swap: True, op_swap: [{layers: [0], backward_prefetch: 1}]}\n"},
     "no 'op_name'",
     5},
    {{.rest = "swap_config: {swap: \"True\"}\n"}, "'swap' is a text", 5},
    {{.rest = "swap_config: {swap: False, default_prefetch: abc}\n"}, "'default_prefetch' is 'abc'", 5},
    {{.rest = "swap_config: {foo: 1, default_prefetch: -3}\n"}, "'default_prefetch' is '-3'", 5},
    {{.rest = "swap_config: {swap: False, layer_swap: all}\n"}, "'layer_swap' must be a list", 5},
    {{.rest = "context: {max_device_memory: 58}\n"}, "a size like \"58GB\"", 5},
    {{.rest = "context: {max_device_memory: \"58GiB\"}\n"}, "a size like \"58GB\"", 5},
    {{.rest = "context: {mode: 3}\n"}, "'mode' is '3'", 5},
    {{.rest = "run_mode: dance\n"}, "'run_mode' is 'dance'", 5},
    {{.rest = "optimizer: {type: [AdamW]}\n"}, "'type' must be a single value", 5},
    {{.rest = "runner_config: {batch_size: 65536, gradient_accumulation_steps: 1048576}\n"},
     "global batch",
     5},
    {{.model = ", position_embedding_type: spiral"}, "'position_embedding_type' is 'spiral'", 4},
    {{.model = ", num_experts: 8, first_k_dense_replace: 17"}, "is 17, more than the 16 layers", 4},
    {{.model = ", num_experts: 8, add_bias_linear: True"}, "experts with biases", 4},
    {{.model = ", moe_token_dispatcher_type: carrier_pigeon"}, "alltoall_zero_redundancy", 4},
    {{.model = ", num_experts: 8, moe_token_drop_policy: never"}, "probs, position or False", 4},
    {{.model = ", num_moe_experts: 8, moe_token_drop_policy: probs, moe_expert_capacity_factor: -1"},
     NULL,
     0},
    {{.rest = "seed: 1\nseed: 2\n"}, NULL, 0},
};

START_TEST(test_refused)
{
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    cs_status st = load(&refused[_i].t, &config, &err);
    if (refused[_i].part == NULL) { /* near a refusal, and read */
        ck_assert_ok(st, &err);
    } else {
        ck_assert_fails(st, &err, CS_E_INPUT, refused[_i].line, refused[_i].part);
        ck_assert_str_eq(err.file, "run.yaml");
    }
    cs_mindformers_release(&config);
}
END_TEST

START_TEST(test_width)
{
    static const char text[] = "model:\n  model_config:\n    hidden_size: 8191\n    num_heads: 64\n"
                               "    num_layers: 4\n    vocab_size: 32000\n    seq_length: 1024\n";
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    cs_status st = cs_mindformers_load_text(&config, text, sizeof text - 1, "run.yaml", &err);
    ck_assert_fails(st, &err, CS_E_INPUT, 3, "8191 is not divisible by the 64 heads");
}
END_TEST

/* What a file leaves out is what its style's defaults are. */
START_TEST(test_styles)
{
    static const char sizes[] = "model: {model_config: {num_layers: 4, hidden_size: 1024, num_heads: 16, "
                                "vocab_size: 32000, seq_length: 1024}}\n";
    for (int new_style = 0; new_style < 2; new_style++) {
        struct cs_err err = {0};
        struct cs_mindformers config = {0};
        char text[512];
        int n = snprintf(text, sizeof text, "%suse_legacy: %s\n", sizes, new_style ? "False" : "True");
        ck_assert_ok(cs_mindformers_load_text(&config, text, (size_t)n, "run.yaml", &err), &err);
        ck_assert_int_eq(config.training.dtype, new_style ? CS_DTYPE_BF16 : CS_DTYPE_FP16);
        ck_assert_int_eq(config.training.flash_attention, new_style);
        cs_mindformers_release(&config);
    }
}
END_TEST

START_TEST(test_many)
{
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    struct cs_strbuf text = {0};
    cs_strbuf_addf(&text, "parallel_config: {data_parallel: 1}\n");
    for (int i = 0; i < 5000; i++) {
        cs_strbuf_addf(&text, "key%d: %d\n", i, i);
    }
    const char *all = cs_strbuf_str(&text);
    ck_assert_ok(cs_mindformers_load_text(&config, all, strlen(all), "run.yaml", &err), &err);
    ck_assert_int_eq(config.n_warnings, 1001);
    ck_assert_str_eq(config.warnings[1000].text, "4000 other keys are not modelled");
    cs_mindformers_release(&config);
    cs_strbuf_release(&text);
}
END_TEST

static Suite *keys_suite(void)
{
    Suite *suite = suite_create("mindformers keys");
    TCase *c = tcase_create("keys");
    tcase_add_loop_test(c, test_listed, 0, CS_COUNT(listed));
    tcase_add_test(c, test_quiet);
    tcase_add_loop_test(c, test_modelled, 0, CS_COUNT(modelled));
    tcase_add_loop_test(c, test_gradients, 0, 3);
    tcase_add_test(c, test_said);
    tcase_add_test(c, test_experts);
    tcase_add_test(c, test_memory);
    tcase_add_loop_test(c, test_refused, 0, CS_COUNT(refused));
    tcase_add_test(c, test_width);
    tcase_add_test(c, test_styles);
    tcase_add_test(c, test_many);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(keys_suite)
