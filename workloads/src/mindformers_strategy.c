/* MindFormers configurations: degrees, optimizer sharding, schedule, batch. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <string.h>

#define DEGREE_MAX (1 << 20)

static cs_status read_degree(const struct cs_yaml_node *map, const char *key, int32_t *degree,
                             struct cs_err *err)
{
    int64_t value = *degree;
    cs_status st;
    CS_TRY(cs__mf_int(CS_MF_GET(map, key), 1, DEGREE_MAX, key, &value, err));
    *degree = (int32_t)value;
out:
    return st;
}

static cs_status read_degrees(struct cs_mf *mf, struct cs_err *err)
{
    struct cs_strategy *s = &mf->out->strategy;
    const struct {
        const char *key;
        int32_t *degree;
    } rows[] = {{"data_parallel", &s->dp},
                {"model_parallel", &s->mp},
                {"context_parallel", &s->cp},
                {"expert_parallel", &s->ep},
                {"pipeline_stage", &s->pp}};
    cs_status st = CS_OK;
    for (int32_t i = 0; i < CS_COUNT(rows) && mf->parallel_run; i++) {
        CS_TRY(read_degree(mf->parallel_config, rows[i].key, rows[i].degree, err));
    }
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->parallel_config, "use_seq_parallel"), "use_seq_parallel", &s->sp, err));
    s->sp = s->sp && mf->parallel_run;
    mf->out->n_devices = (int64_t)s->dp * s->mp * s->cp;
    if (mf->out->n_devices * s->pp > INT32_MAX) {
        st = cs_err_set(err, CS_E_INPUT, mf->parallel_config->loc,
                        "data_parallel x model_parallel x context_parallel x pipeline_stage is %lld x %d",
                        (long long)mf->out->n_devices, (int)s->pp);
        goto out;
    }
    mf->out->n_devices *= s->pp;
out:
    return st;
}

static cs_status read_context(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *algo = CS_MF_GET(mf->parallel_config, "context_parallel_algo");
    if (algo == NULL || algo->kind != CS_YAML_SCALAR) {
        return CS_OK;
    }
    if (strcmp(algo->text, "ulysses_cp") == 0) {
        s->cp_kind = CS_CP_ULYSSES;
    } else if (strcmp(algo->text, "hybrid_cp") == 0 || strcmp(algo->text, "hybird_cp") == 0) {
        int64_t ulysses = 1;
        CS_TRY(cs__mf_int(CS_MF_GET(mf->parallel_config, "ulysses_degree_in_cp"), 1, DEGREE_MAX,
                          "ulysses_degree_in_cp", &ulysses, err));
        s->cp_kind = ulysses == s->cp ? CS_CP_ULYSSES : CS_CP_RING;
        if (ulysses > 1 && ulysses < s->cp) {
            cs__mf_warn(mf, "parallel_config.context_parallel_algo", algo,
                        "a ring of Ulysses groups is not modelled: a ring of all is");
        }
    }
out:
    return st;
}

static cs_status read_sharding(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    bool enabled = false;
    bool gradients = false;
    int64_t size = -1;
    const struct cs_yaml_node *config = CS_MF_GET(mf->parallel, "parallel_optimizer_config");
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->parallel, "enable_parallel_optimizer"), "enable_parallel_optimizer",
                       &enabled, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(config, "gradient_accumulation_shard"), "gradient_accumulation_shard",
                       &gradients, err));
    const struct cs_yaml_node *node = CS_MF_GET(config, "optimizer_weight_shard_size");
    node = node != NULL ? node : CS_MF_GET(mf->parallel, "optimizer_weight_shard_size");
    CS_TRY(cs__mf_int(node, -1, DEGREE_MAX, "optimizer_weight_shard_size", &size, err));
    if (!enabled || !mf->parallel_run) {
        return CS_OK;
    }
    s->op = size > 0 && size < s->dp ? (int32_t)size : s->dp;
    if (size > s->dp && s->mp * s->cp > 1) {
        cs__mf_warn(mf, "parallel.parallel_optimizer_config.optimizer_weight_shard_size", node,
                    "sharding over more than the %d data-parallel ranks is not modelled", (int)s->dp);
    }
    if (s->dp % s->op != 0) {
        return cs_err_set(
            err, CS_E_INPUT, node->loc,
            "'optimizer_weight_shard_size' is %lld, but data_parallel %d is not divisible by it",
            (long long)size, (int)s->dp);
    }
    s->zero = gradients ? 2 : 1;
out:
    return st;
}

static cs_status read_schedule(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    static const char *const names[] = {"1f1b", "gpipe", "seqpipe", "seqvpp", "zero_bubble_v", NULL};
    static const enum cs_schedule schedules[] = {CS_SCHED_1F1B, CS_SCHED_GPIPE, CS_SCHED_SEQPIPE,
                                                 CS_SCHED_SEQPIPE, CS_SCHED_ZERO_BUBBLE_V};
    const struct cs_yaml_node *config = CS_MF_GET(mf->parallel, "pipeline_config");
    const struct cs_yaml_node *scheduler = CS_MF_GET(config, "pipeline_scheduler");
    const struct cs_yaml_node *chunks = CS_MF_GET(mf->model, "pp_interleave_num");
    bool interleave = false;
    int32_t index = 0;
    CS_TRY(cs__mf_bool(CS_MF_GET(config, "pipeline_interleave"), "pipeline_interleave", &interleave, err));
    if (scheduler != NULL) {
        CS_TRY(cs_yaml_choice(scheduler, names, "pipeline_scheduler", &index, err));
    }
    s->schedule = schedules[index];
    CS_TRY(read_degree(mf->model, "pp_interleave_num", &s->vpp, err));
    CS_TRY(read_degree(mf->parallel_config, "seq_split_num", &s->seq_split, err));
    if (s->vpp > 1 && !interleave && s->schedule != CS_SCHED_ZERO_BUBBLE_V) {
        cs__mf_warn(mf, "model.model_config.pp_interleave_num", chunks,
                    "has no effect without parallel.pipeline_config.pipeline_interleave");
        s->vpp = 1;
    }
    if (index == 3 && s->seq_split == 1) {
        return cs_err_set(err, CS_E_INPUT, scheduler->loc,
                          "'pipeline_scheduler' is seqvpp with seq_split_num 1; use seqpipe, or split");
    }
    if (s->schedule == CS_SCHED_SEQPIPE && !interleave) {
        return cs_err_set(err, CS_E_INPUT, scheduler->loc, "seqpipe needs pipeline_interleave: True");
    }
    if (s->vpp > 1 && s->schedule == CS_SCHED_1F1B) {
        s->schedule = CS_SCHED_INTERLEAVED;
    }
out:
    return st;
}

cs_status cs__mf_strategy(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    struct cs_strategy *s = &mf->out->strategy;
    bool swap = false;
    bool repeat = true;
    CS_TRY(read_degrees(mf, err));
    CS_TRY(read_context(mf, err));
    CS_TRY(read_sharding(mf, err));
    CS_TRY(read_schedule(mf, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->optimizer, "swap"), "swap", &s->offload_optimizer, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->swap, "swap"), "swap", &swap, err));
    s->swap_activations = swap;
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->recompute, "mp_comm_recompute"), "mp_comm_recompute", &repeat, err));
    s->keep_comm = !repeat;
    int64_t copies = 1;
    CS_TRY(cs__mf_int(CS_MF_GET(mf->root, "micro_batch_interleave_num"), 1, 64, "micro_batch_interleave_num",
                      &copies, err));
    CS_TRY(cs__mf_int(CS_MF_GET(mf->model, "fine_grain_interleave"), 1, 64, "fine_grain_interleave", &copies,
                      err));
    s->half_batches = copies > 1 ? 2 : 1;
    if (copies > 2) {
        cs__mf_warn(mf, "micro_batch_interleave_num", NULL, "more than two copies are modelled as two");
    }
out:
    return st;
}

static enum cs_dtype dtype_of(const struct cs_yaml_node *node)
{
    const char *text = node != NULL && node->kind == CS_YAML_SCALAR ? node->text : "";
    return strcmp(text, "bfloat16") == 0 || strcmp(text, "bf16") == 0  ? CS_DTYPE_BF16
           : strcmp(text, "float32") == 0 || strcmp(text, "fp32") == 0 ? CS_DTYPE_FP32
                                                                       : CS_DTYPE_FP16;
}

static cs_status read_batch(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    int64_t batch = 1;
    int64_t copies = 1;
    int64_t steps = 1;
    const struct cs_yaml_node *node = CS_MF_GET(mf->runner, "batch_size");
    node = node != NULL ? node : CS_MF_GET(mf->model, "batch_size", "local_batch_size");
    CS_TRY(cs__mf_int(node, 1, 1 << 16, "batch_size", &batch, err));
    CS_TRY(cs__mf_int(CS_MF_GET(mf->root, "micro_batch_interleave_num"), 1, 64, "micro_batch_interleave_num",
                      &copies, err));
    /* Without a pipeline, micro-batches are the steps of gradient accumulation. */
    bool pipelined = s->pp > 1;
    CS_TRY(cs__mf_int(pipelined ? CS_MF_GET(mf->parallel_config, "micro_batch_num")
                                : CS_MF_GET(mf->runner, "gradient_accumulation_steps"),
                      1, 1 << 20, pipelined ? "micro_batch_num" : "gradient_accumulation_steps", &steps,
                      err));
    s->micro_batch = (int32_t)(batch * copies);
    mf->out->training.global_batch = batch * copies * s->dp * steps;
out:
    return st;
}

cs_status cs__mf_training(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    struct cs_training *t = &mf->out->training;
    const struct cs_yaml_node *type = CS_MF_GET(mf->optimizer, "type");
    const char *optimizer = type != NULL && type->kind == CS_YAML_SCALAR ? type->text : "AdamW";
    const struct cs_yaml_node *length = CS_MF_GET(mf->model, "seq_length", "seq_len");
    *t = (struct cs_training){.gradient_dtype = CS_DTYPE_FP32, .bucket_bytes = 64e6};
    t->dtype = dtype_of(CS_MF_GET(mf->model, "compute_dtype"));
    t->optimizer = strstr(optimizer, "Muon")                                   ? CS_OPT_MUON
                   : strstr(optimizer, "SGD") || strstr(optimizer, "Momentum") ? CS_OPT_SGD
                                                                               : CS_OPT_ADAMW;
    t->flash_attention = mf->out->model.flash_attention;
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->wrapper, "use_clip_grad"), "use_clip_grad", &t->clip_gradient, err));
    t->gradient_fp32_sync = true;
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->parallel, "gradient_fp32_sync"), "gradient_fp32_sync",
                       &t->gradient_fp32_sync, err));
    CS_TRY(cs_fusion_read(t, CS_MF_GET(mf->parallel, "all_reduce_fusion_config"), "all_reduce_fusion_config",
                          err));
    if (length == NULL && mf->hub != NULL) {
        length = CS_MF_GET(mf->hub, "seq_length");
    }
    CS_TRY(cs__mf_int(length, 1, INT64_C(1) << 28, "seq_length", &t->seq_length, err));
    CS_TRY(read_batch(mf, err));
    mf->out->has_training = t->seq_length > 0;
out:
    return st;
}
