#include "workload_fixture.h"

#include "cs_test.h"

#include <stdio.h>

struct cs_model workload_model(const char *name)
{
    struct cs_err err = {0};
    struct cs_model model = {0};
    char path[512];
    snprintf(path, sizeof path, CS_TEST_SOURCE_DIR "/workloads/models/%s.yaml", name);
    ck_assert_ok(cs_model_load(&model, path, &err), &err);
    return model;
}

struct cs_model workload_gpt(int32_t n_layers, int64_t hidden, int64_t n_heads, int64_t vocab)
{
    return (struct cs_model){.name = "gpt",
                             .source = "test",
                             .n_layers = n_layers,
                             .hidden = hidden,
                             .n_heads = n_heads,
                             .n_kv_heads = n_heads,
                             .head_dim = hidden / n_heads,
                             .ffn = 4 * hidden,
                             .vocab = vocab,
                             .max_position = 4096,
                             .norm = CS_NORM_LAYER,
                             .activation = CS_ACT_GELU,
                             .position = CS_POS_LEARNED,
                             .linear_bias = true,
                             .tied_embedding = true,
                             .causal = true,
                             .dropout_frac = 0.1};
}

struct cs_model workload_moe(int32_t n_layers, bool latent)
{
    struct cs_model model = {.name = latent ? "latent moe" : "moe",
                             .source = "test",
                             .n_layers = n_layers,
                             .hidden = 512,
                             .n_heads = 16,
                             .n_kv_heads = latent ? 16 : 8,
                             .head_dim = 32,
                             .ffn = 1536,
                             .vocab = 4096,
                             .norm = CS_NORM_RMS,
                             .activation = CS_ACT_SWIGLU,
                             .position = CS_POS_ROPE,
                             .flash_attention = true,
                             .causal = true,
                             .n_experts = 16,
                             .experts_per_token = 2,
                             .n_shared_experts = 1,
                             .expert_ffn = 256,
                             .first_dense_layers = 2};
    if (latent) {
        model.q_lora_rank = 128;
        model.kv_lora_rank = 64;
        model.qk_nope_head_dim = 32;
        model.qk_rope_head_dim = 16;
        model.v_head_dim = 32;
        model.n_mtp_layers = 1;
    }
    return model;
}

struct cs_training workload_training(const struct cs_model *model, int64_t global_batch, int64_t seq_length)
{
    return (struct cs_training){.global_batch = global_batch,
                                .seq_length = seq_length,
                                .dtype = CS_DTYPE_BF16,
                                .gradient_dtype = CS_DTYPE_FP32,
                                .optimizer = CS_OPT_ADAMW,
                                .bucket_bytes = 64e6,
                                .host_bytes_per_s = 31.5e9,
                                .clip_gradient = true,
                                .flash_attention = model->flash_attention};
}

void workload_small(struct cs_model *model, struct cs_training *training)
{
    *model = workload_gpt(4, 512, 8, 4096);
    model->dropout_frac = 0;
    *training = workload_training(model, 8, 1024);
}

struct cs_strategy workload_strategy(const char *text)
{
    struct cs_err err = {0};
    struct cs_strategy strategy;
    cs_strategy_init(&strategy);
    ck_assert_ok(cs_strategy_parse(text, CS_NOLOC, &strategy, NULL, &err), &err);
    return strategy;
}

struct cs_trace *workload_trace(const struct cs_model *model, const struct cs_training *training,
                                const char *strategy)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    struct cs_strategy s = workload_strategy(strategy);
    ck_assert_ok(cs_trace_build(model, training, &s, &trace, &err), &err);
    ck_assert_ok(cs_trace_check(trace, &err), &err);
    return trace;
}

const struct cs_block *workload_block(const struct cs_trace *trace, int32_t program, const char *name)
{
    const struct cs_program *p = &trace->programs[program];
    for (int32_t call = 0; call < p->n_calls; call++) {
        const struct cs_block *block = &trace->blocks[p->calls[call].block];
        if (strcmp(block->name, name) == 0) {
            return block;
        }
    }
    return NULL;
}

static bool passes(int32_t want, int32_t have)
{
    return want == 0 || want == IS(have);
}

int32_t workload_count(const struct cs_trace *trace, const struct cs_block *block,
                       struct workload_filter filter, int64_t *bytes)
{
    int32_t n = 0;
    int64_t sum = 0;
    ck_assert_ptr_nonnull(block);
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        bool collective = op->type == CS_OP_COLLECTIVE;
        bool memory = op->type == CS_OP_ALLOC || op->type == CS_OP_FREE;
        if (passes(filter.type, op->type) && passes(filter.phase, op->phase) &&
            passes(filter.layer, op->layer) &&
            (filter.coll == 0 || (collective && passes(filter.coll, op->coll))) &&
            (filter.mem == 0 || (memory && passes(filter.mem, op->mem))) &&
            (!filter.comm || (collective && strcmp(trace->comms[op->comm].name, filter.comm) == 0)) &&
            (!filter.label || strcmp(trace->labels[op->label], filter.label) == 0)) {
            n++;
            sum += op->bytes;
        }
    }
    if (bytes) {
        *bytes = sum;
    }
    return n;
}

double workload_traffic(const struct cs_trace *trace, const char *pass, const char *label, int32_t *n_kernels)
{
    const struct cs_block *block = workload_block(trace, 0, pass);
    double bytes = 0;
    *n_kernels = 0;
    ck_assert_ptr_nonnull(block);
    for (int32_t i = 0; block && i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COMPUTE && strcmp(trace->labels[op->label], label) == 0) {
            bytes += trace->costs[op->cost].bytes;
            *n_kernels += trace->costs[op->cost].n_kernels;
        }
    }
    return bytes;
}
