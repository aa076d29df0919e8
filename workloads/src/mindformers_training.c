/* MindFormers configurations: precision, optimizer, batch, the device's memory. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX (1 << 20)
#define GLOBAL_BATCH_MAX 1000000000
#define GIB 1073741824.0

/** MindFormers takes the first three names; the short ones stand in files of other tools. */
static cs_status read_dtype(const struct cs_yaml_node *node, const char *key, enum cs_dtype *dtype,
                            struct cs_err *err)
{
    static const char *const names[] = {"float16", "bfloat16", "float32", "fp16", "bf16", "fp32", NULL};
    static const enum cs_dtype types[] = {CS_DTYPE_FP16, CS_DTYPE_BF16, CS_DTYPE_FP32};
    int32_t index = 0;
    cs_status st = CS_OK;
    if (node == NULL) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_choice(node, names, key, &index, err));
    *dtype = types[index % 3];
out:
    return st;
}

/** Precisions of parts, of which only the compute type is modelled. */
static cs_status read_precision(struct cs_mf *mf, struct cs_err *err)
{
    static const char *const parts[][2] = {{"softmax_compute_type", "softmax_compute_dtype"},
                                           {"layernorm_compute_type", "layernorm_compute_dtype"},
                                           {"rotary_dtype", "rotary_compute_dtype"},
                                           {"router_dense_type", "moe_router_dtype"}};
    cs_status st;
    struct cs_training *t = &mf->out->training;
    enum cs_dtype state = CS_DTYPE_FP32;
    t->dtype = mf->new_style ? CS_DTYPE_BF16 : CS_DTYPE_FP16; /* as each style's defaults are */
    CS_TRY(read_dtype(CS_MF_GET(mf, mf->model, "compute_dtype"), "compute_dtype", &t->dtype, err));
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->model, "param_init_type", "params_dtype");
    CS_TRY(read_dtype(node, "param_init_type", &state, err));
    t->gradient_dtype =
        state; /* parallel/step_parallel.cc sums gradients as parameters are, before any cast */
    if (state != CS_DTYPE_FP32) {
        cs__mf_warn(mf, "model.model_config.param_init_type", node,
                    "parameters without an fp32 copy are not modelled: with one they are");
    }
    for (int32_t i = 0; i < CS_COUNT(parts); i++) {
        const struct cs_yaml_node *moe = mf->out->model.n_experts > 0 ? mf->moe : NULL;
        enum cs_dtype dtype = t->dtype;
        node = CS_MF_GET(mf, mf->model, parts[i][0], parts[i][1]);
        bool inner = node != NULL;
        node = inner ? node : CS_MF_GET(mf, moe, parts[i][0], parts[i][1]);
        CS_TRY(read_dtype(node, parts[i][0], &dtype, err));
        if (dtype != t->dtype) {
            cs__mf_warn(mf,
                        cs_arena_printf(&mf->out->arena, "%s.%s", inner ? "model.model_config" : "moe_config",
                                        parts[i][0]),
                        node, "is not modelled: compute_dtype is");
        }
    }
out:
    return st;
}

static cs_status read_optimizer(struct cs_mf *mf, struct cs_err *err)
{
    static const char *const names[] = {"AdamW",
                                        "FusedAdamW",
                                        "BasicAdamW",
                                        "FP32StateAdamWeightDecay",
                                        "FusedAdamWeightDecay",
                                        "FusedCastAdamWeightDecay",
                                        "AdamWeightDecay",
                                        "Adam",
                                        "SGD",
                                        "Momentum",
                                        "Muon",
                                        NULL};
    cs_status st;
    struct cs_training *t = &mf->out->training;
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->optimizer, "type");
    const char *type = names[0];
    char shown[CS_TEXT_CLIP_BYTES];
    CS_TRY(cs__mf_text(node, "type", &type, err));
    int32_t index = cs_text_index(type, names);
    t->optimizer = index == 10 ? CS_OPT_MUON : index >= 8 ? CS_OPT_SGD : CS_OPT_ADAMW;
    if (index < 0) {
        cs__mf_warn(mf, "optimizer.type", node, "'%s' is not modelled: AdamW is", cs_text_clip(type, shown));
    }
out:
    return st;
}

/** Sequences of a step. Under a pipeline MindFormers resets gradient_accumulation_steps to 1, without one
 *  micro_batch_num, and outside the (semi-)automatic modes both (its base_trainer). */
static cs_status read_batch(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    int64_t batch = 1;
    int64_t copies = 1;
    int64_t steps = 1;
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->runner, "batch_size");
    const struct cs_yaml_node *inner = CS_MF_GET(mf, mf->model, "batch_size", "local_batch_size");
    const struct cs_yaml_node *micro = CS_MF_GET(mf, mf->parallel_config, "micro_batch_num");
    const struct cs_yaml_node *accumulation = CS_MF_GET(mf, mf->runner, "gradient_accumulation_steps");
    const bool automatic = mf->parallel_run && (mf->mode == CS_MF_SEMI_AUTO || mf->mode == CS_MF_AUTO);
    mf->micro_batch_num = 1;
    cs__mf_prefer(mf, node, inner, "model.model_config.batch_size");
    CS_TRY(cs__mf_int(inner, 1, 1 << 16, "batch_size", &batch, err));
    CS_TRY(cs__mf_int(node, 1, 1 << 16, "batch_size", &batch, err));
    CS_TRY(cs__mf_int(CS_MF_GET(mf, mf->root, "micro_batch_interleave_num"), 1, 64,
                      "micro_batch_interleave_num", &copies, err));
    CS_TRY(cs__mf_int(micro, 1, STEPS_MAX, "micro_batch_num", &mf->micro_batch_num, err));
    CS_TRY(cs__mf_int(accumulation, 1, STEPS_MAX, "gradient_accumulation_steps", &steps, err));
    if (steps > 1 && (s->pp > 1 || !automatic)) {
        cs__mf_warn(mf, "runner_config.gradient_accumulation_steps", accumulation,
                    s->pp > 1 ? "has no effect under a pipeline, where micro_batch_num accumulates"
                              : "has no effect outside parallel_mode 1 and 2");
        steps = 1;
    }
    if (mf->micro_batch_num > 1 && s->pp == 1) {
        cs__mf_warn(mf, "parallel_config.micro_batch_num", micro,
                    "has no effect without a pipeline, where gradient_accumulation_steps accumulates");
    }
    steps = s->pp > 1 ? mf->micro_batch_num : steps;
    double total = (double)batch * (double)copies * s->dp * (double)steps;
    if (total > GLOBAL_BATCH_MAX) {
        st = cs_err_set(err, CS_E_INPUT, (node != NULL ? node : mf->root)->loc,
                        "these make a global batch of %.3g sequences, more than %d", total, GLOBAL_BATCH_MAX);
        goto out;
    }
    s->micro_batch = (int32_t)(batch * copies);
    mf->out->training.global_batch = batch * copies * s->dp * steps;
out:
    return st;
}

/** The settings that do not depend on others: a file without a sequence length has them all the same. */
static void note_said(struct cs_mf *mf)
{
    const struct {
        bool said;
        uint32_t bit;
    } rows[] = {
        {mf->parallel_config != NULL || CS_MF_GET(mf, mf->runner, "batch_size") != NULL ||
             CS_MF_GET(mf, mf->model, "batch_size", "local_batch_size") != NULL,
         CS_MF_SAYS_BATCH},
        {mf->out->training.seq_length > 0, CS_MF_SAYS_SEQ_LENGTH},
        {CS_MF_GET(mf, mf->model, "compute_dtype") != NULL, CS_MF_SAYS_DTYPE},
        {CS_MF_GET(mf, mf->optimizer, "type") != NULL, CS_MF_SAYS_OPTIMIZER},
        {CS_MF_GET(mf, mf->wrapper, "use_clip_grad") != NULL, CS_MF_SAYS_CLIP},
        {CS_MF_GET(mf, mf->parallel, "gradient_fp32_sync") != NULL, CS_MF_SAYS_FP32_SYNC},
        {mf->out->training.n_fusion > 0, CS_MF_SAYS_FUSION},
        {CS_MF_GET(mf, mf->parallel_config, "gradient_aggregation_group") != NULL, CS_MF_SAYS_AGGREGATION},
        {CS_MF_GET(mf, mf->model, "param_init_type", "params_dtype") != NULL, CS_MF_SAYS_GRADIENT_DTYPE}};
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        bool known = rows[i].said || (mf->out->has_model && i > 1); /* a whole file: the style's default */
        mf->out->said |= known ? rows[i].bit : 0;
    }
    mf->out->said |= mf->out->has_training ? CS_MF_SAYS_ALL : 0;
}

/** LayerSetting (mindformers/models/utils.py) puts a group of layers' gradients, and weights of a parallel
 *  optimizer, into one collective. */
static cs_status read_aggregation(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    int64_t groups = 4; /* TransformerOpParallelConfig */
    struct cs_training *t = &mf->out->training;
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->parallel_config, "gradient_aggregation_group");
    CS_TRY(cs__mf_int(node, 1, CS_AGGREGATION_GROUPS_MAX, "gradient_aggregation_group", &groups, err));
    if (t->n_fusion > 0) {
        if (node) {
            cs__mf_warn(mf, "parallel_config.gradient_aggregation_group", node,
                        "has no effect beside all_reduce_fusion_config");
        }
        return CS_OK;
    }
    t->aggregation_groups = (int32_t)groups;
out:
    return st;
}

cs_status cs__mf_training(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    struct cs_training *t = &mf->out->training;
    const struct cs_yaml_node *length = CS_MF_GET(mf, mf->model, "seq_length", "seq_len");
    const struct cs_yaml_node *hub_length = CS_MF_GET(mf, mf->hub, "seq_length");
    *t = (struct cs_training){.gradient_dtype = CS_DTYPE_FP32, .bucket_bytes = 64e6};
    t->flash_attention = mf->out->model.flash_attention;
    t->separate_experts = mf->separate_experts;
    CS_TRY(read_precision(mf, err));
    CS_TRY(read_optimizer(mf, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->wrapper, "use_clip_grad"), "use_clip_grad", &t->clip_gradient, err));
    t->gradient_fp32_sync = t->gradient_dtype == CS_DTYPE_FP32;
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->parallel, "gradient_fp32_sync"), "gradient_fp32_sync",
                       &t->gradient_fp32_sync, err));
    CS_TRY(cs_fusion_read(t, CS_MF_GET(mf, mf->parallel, "all_reduce_fusion_config"),
                          "all_reduce_fusion_config", err));
    CS_TRY(read_aggregation(mf, err));
    t->separate_loss = true; /* mindformers/core/loss/loss.py: elementary operators in fp32 */
    CS_TRY(cs__mf_int(length != NULL ? length : hub_length, 1, 100000000, "seq_length", &t->seq_length, err));
    CS_TRY(read_batch(mf, err));
    mf->out->has_training = t->seq_length > 0;
    note_said(mf);
out:
    return st;
}

/** MindSpore wants a number and GB, which it counts in powers of two. */
static cs_status read_memory(const struct cs_yaml_node *node, double *bytes, struct cs_err *err)
{
    const char *text = "";
    char number[32] = "";
    char shown[CS_TEXT_CLIP_BYTES];
    double value = 0;
    cs_status st = cs__mf_text(node, "max_device_memory", &text, err);
    if (st != CS_OK || node == NULL) {
        return st;
    }
    size_t len = strlen(text);
    if (len > 2 && len < sizeof number && strcmp(text + len - 2, "GB") == 0) {
        memcpy(number, text, len - 2);
        number[len - 2] = '\0';
    }
    if (number[0] == '\0' || number[strspn(number, "0123456789.")] != '\0' ||
        cs_real_parse(number, "max_device_memory", node->loc, &value, NULL) != CS_OK || !(value > 0) ||
        value > 1e6) {
        return cs_err_set(err, CS_E_INPUT, node->loc,
                          "'max_device_memory' is '%s', but should be a size like \"58GB\"",
                          cs_text_clip(text, shown));
    }
    *bytes = floor(value * GIB);
    return CS_OK;
}

cs_status cs__mf_runtime(struct cs_mf *mf, struct cs_err *err)
{
    static const char *const runs[] = {"train", "finetune", "predict", "eval", NULL};
    static const char *const modes[] = {"0", "1", "GRAPH_MODE", "PYNATIVE_MODE", NULL};
    cs_status st = CS_OK;
    int32_t run = 0;
    int32_t mode = 0;
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->root, "run_mode");
    if (node != NULL) {
        CS_TRY(cs_yaml_choice(node, runs, "run_mode", &run, err));
    }
    if (run > 1) {
        cs__mf_warn(mf, "run_mode", node, "is not modelled: a training step is");
    }
    node = CS_MF_GET(mf, mf->context, "mode");
    if (node != NULL) {
        CS_TRY(cs_yaml_choice(node, modes, "mode", &mode, err));
    }
    if (mode % 2 == 1) {
        cs__mf_warn(mf, "context.mode", node, "launching operators one by one is not modelled: a graph is");
    }
    CS_TRY(read_memory(CS_MF_GET(mf, mf->context, "max_device_memory"), &mf->out->device_memory_bytes, err));
out:
    return st;
}
