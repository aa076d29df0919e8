/* MindFormers configurations: the checks that MindFormers makes itself, and keys that are not modelled. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <string.h>

#define DEVICES_PER_SERVER 8

static cs_status refuse(const struct cs_mf *mf, const struct cs_yaml_node *section, const char *key,
                        const char *why, struct cs_err *err)
{
    const struct cs_yaml_node *node = CS_MF_GET(section, key);
    const struct cs_yaml_node *at = node != NULL ? node : section != NULL ? section : mf->root;
    return cs_err_set(err, CS_E_INPUT, at->loc, "'%s': %s", key, why);
}

static cs_status check_parallel(const struct cs_mf *mf, struct cs_err *err)
{
    const struct cs_strategy *s = &mf->out->strategy;
    const struct cs_model *m = &mf->out->model;
    const bool known = mf->out->has_model;
    if (s->cp > 1 && !m->flash_attention) {
        return refuse(mf, mf->parallel_config, "context_parallel", "above 1 needs use_flash_attention: True",
                      err);
    }
    if (known && s->cp > 1 && s->cp_kind == CS_CP_ULYSSES && (int64_t)s->cp * s->mp > m->n_kv_heads) {
        return refuse(
            mf, mf->parallel_config, "context_parallel",
            "Ulysses shares out key-value heads: context_parallel * model_parallel is more than there are",
            err);
    }
    if (m->n_experts > 0 && s->mp > 1 && !s->sp) {
        return refuse(mf, mf->parallel_config, "use_seq_parallel", "experts under model_parallel need it",
                      err);
    }
    if ((int64_t)s->dp * s->mp * s->cp % s->ep != 0) {
        return refuse(mf, mf->parallel_config, "expert_parallel",
                      "does not divide data_parallel * model_parallel * context_parallel", err);
    }
    if (!mf->new_style) {
        return CS_OK;
    }
    if (s->sp && s->mp <= 1) {
        return refuse(mf, mf->parallel_config, "use_seq_parallel", "needs model_parallel above 1", err);
    }
    if (known && m->n_heads % s->mp != 0) {
        return refuse(mf, mf->parallel_config, "model_parallel", "does not divide the attention heads", err);
    }
    if (known && s->ep > 1 && m->n_experts == 0) {
        return refuse(mf, mf->parallel_config, "expert_parallel", "above 1 needs experts", err);
    }
    const struct cs_yaml_node *dispatcher = CS_MF_GET(mf->model, "moe_token_dispatcher_type");
    int64_t per_node = 1;
    cs_status st;
    CS_TRY(cs__mf_int(CS_MF_GET(mf->parallel_config, "npu_nums_per_device"), 1, 1 << 20,
                      "npu_nums_per_device", &per_node, err));
    if (dispatcher != NULL && dispatcher->kind == CS_YAML_SCALAR &&
        strcmp(dispatcher->text, "alltoall_deredundency") == 0 && s->ep < per_node) {
        return refuse(mf, mf->parallel_config, "expert_parallel",
                      "is below npu_nums_per_device, which alltoall_deredundency does not allow", err);
    }
out:
    return st;
}

static bool is_flat_list(const struct cs_yaml_node *node)
{
    return node != NULL && node->kind == CS_YAML_LIST && node->n > 0 && node->items[0]->kind != CS_YAML_LIST;
}

static cs_status check_pipeline(const struct cs_mf *mf, struct cs_err *err)
{
    const struct cs_strategy *s = &mf->out->strategy;
    cs_status st = CS_OK;
    int64_t m = 1;
    int64_t grain = 1;
    CS_TRY(cs__mf_int(CS_MF_GET(mf->parallel_config, "micro_batch_num"), 1, 1 << 20, "micro_batch_num", &m,
                      err));
    CS_TRY(cs__mf_int(CS_MF_GET(mf->model, "fine_grain_interleave"), 1, 64, "fine_grain_interleave", &grain,
                      err));
    if (grain > 1 && !s->sp && s->cp == 1) {
        return refuse(mf, mf->model, "fine_grain_interleave", "needs use_seq_parallel or context_parallel",
                      err);
    }
    if (s->pp > 1 && mf->parallel_config != NULL && m < s->pp) {
        return refuse(mf, mf->parallel_config, "micro_batch_num", "must be at least pipeline_stage", err);
    }
    if (s->schedule == CS_SCHED_ZERO_BUBBLE_V) {
        if (s->vpp != 2 || s->pp < 2 || m < 2 * (int64_t)s->pp) {
            return refuse(mf, mf->model, "pp_interleave_num",
                          "zero_bubble_v needs 2 chunks, 2 stages and twice as many micro-batches as stages",
                          err);
        }
        static const char *const keys[] = {"recompute", "select_recompute", "select_comm_recompute"};
        for (int32_t i = 0; i < CS_COUNT(keys); i++) {
            if (is_flat_list(CS_MF_GET(mf->recompute, keys[i]))) {
                return refuse(mf, mf->recompute, keys[i], "zero_bubble_v needs a list per chunk", err);
            }
        }
    }
    if (mf->new_style && cs__mf_is_on(CS_MF_GET(mf->recompute, "recompute_slice_activation"))) {
        return refuse(mf, mf->recompute, "recompute_slice_activation", "is for use_legacy: True only", err);
    }
out:
    return st;
}

static cs_status check_rest(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    bool flag = false;
    int64_t mode = 0;
    int64_t prefetch = 1;
    const struct cs_model *m = &mf->out->model;
    const int64_t n = mf->out->n_devices;
    CS_TRY(cs__mf_int(CS_MF_GET(mf->parallel, "parallel_mode"), 0, 3, "parallel_mode", &mode, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf->parallel, "full_batch"), "full_batch", &flag, err));
    if (flag && mf->parallel_run && mode != 1 && mode != 2) {
        return refuse(mf, mf->parallel, "full_batch", "is for parallel_mode 1 and 2 only", err);
    }
    CS_TRY(
        cs__mf_int(CS_MF_GET(mf->swap, "default_prefetch"), 1, 1 << 20, "default_prefetch", &prefetch, err));
    const struct cs_yaml_node *layers = CS_MF_GET(mf->swap, "layer_swap");
    for (int32_t i = 0; layers != NULL && layers->kind == CS_YAML_LIST && i < layers->n; i++) {
        CS_TRY(cs__mf_int(CS_MF_GET(layers->items[i], "backward_prefetch"), 1, 1 << 20, "backward_prefetch",
                          &prefetch, err));
    }
    if (n > DEVICES_PER_SERVER && n / DEVICES_PER_SERVER % mf->out->strategy.pp != 0) {
        cs__mf_warn(mf, "parallel_config.pipeline_stage", CS_MF_GET(mf->parallel_config, "pipeline_stage"),
                    "does not divide the %lld servers of %d devices", (long long)(n / DEVICES_PER_SERVER),
                    DEVICES_PER_SERVER);
    }
    if (mf->out->strategy.op > 1 && mf->out->has_model && (m->vocab % n != 0 || m->hidden % n != 0)) {
        cs__mf_warn(
            mf, "parallel.enable_parallel_optimizer", CS_MF_GET(mf->parallel, "enable_parallel_optimizer"),
            "vocab_size or hidden_size is not divisible by the %lld devices: such parameters may not be "
            "sharded (here they are)",
            (long long)n);
    }
out:
    return st;
}

cs_status cs__mf_check(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    CS_TRY(check_parallel(mf, err));
    CS_TRY(check_pipeline(mf, err));
    CS_TRY(check_rest(mf, err));
out:
    return st;
}

/** Keys of a section that are read here, or that change neither time nor memory. */
struct known {
    const char *section;
    const char *const *keys;
};

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void list_section(struct cs_mf *mf, const char *name, const struct cs_yaml_node *section,
                         const char *const *known)
{
    for (int32_t i = 0; section != NULL && section->kind == CS_YAML_MAP && i < section->n; i++) {
        const char *key = section->keys[i]->text;
        if (cs_text_index(key, known) < 0 && cs__mf_is_on(section->items[i])) {
            cs__mf_warn(mf, cs_arena_printf(&mf->out->arena, "%s%s%s", name, name[0] ? "." : "", key),
                        section->items[i], "is not modelled");
        }
    }
}

static void list_model(struct cs_mf *mf)
{
    list_section(
        mf, "model.model_config", mf->model,
        KEYS("type", "name", "model_type", "architectures", "num_layers", "num_hidden_layers", "n_layers",
             "hidden_size", "dim", "num_heads", "num_attention_heads", "n_heads", "n_kv_heads",
             "num_key_value_heads", "num_query_groups", "head_dim", "kv_channels", "intermediate_size",
             "ffn_hidden_size", "inter_dim", "multiple_of", "ffn_dim_multiplier", "vocab_size",
             "max_position_embeddings", "max_position_embedding", "seq_length", "seq_len", "batch_size",
             "local_batch_size", "compute_dtype", "param_init_type", "params_dtype", "softmax_compute_type",
             "softmax_compute_dtype", "layernorm_compute_type", "layernorm_compute_dtype", "rotary_dtype",
             "use_flash_attention", "use_ring_attention", "use_attn_mask_compression", "input_sliced_sig",
             "qkv_concat", "qk_layernorm", "qkv_has_bias", "add_qkv_bias", "attention_bias",
             "tie_word_embeddings", "hidden_act", "normalization", "rms_norm_eps", "type_vocab_size",
             "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim",
             "multi_latent_attention", "mtp_depth", "num_nextn_predict_layers", "mtp_loss_factor",
             "num_experts", "n_routed_experts", "num_local_experts", "num_experts_per_tok", "moe_router_topk",
             "moe_intermediate_size", "n_shared_experts", "first_k_dense_replace", "moe_grouped_gemm",
             "moe_token_dispatcher_type", "moe_token_drop_policy", "n_group", "topk_group",
             "gated_linear_unit", "offset", "pp_interleave_num", "layers_per_stage", "fine_grain_interleave",
             "bos_token_id", "eos_token_id", "pad_token_id", "checkpoint_name_or_path", "repetition_penalty",
             "max_decode_length", "top_k", "top_p", "do_sample", "use_past", "theta", "extend_method",
             "scaling_factor", "pipeline_num", "num_layer", "moe_enabled"));
    list_section(mf, "moe_config", mf->moe,
                 KEYS("expert_num", "num_experts_chosen", "capacity_factor", "shared_expert_num",
                      "first_k_dense_replace", "moe_intermediate_size", "use_gmm", "aux_loss_factor",
                      "aux_loss_factors", "routing_policy", "routed_scaling_factor", "expert_group_size",
                      "expert_model_parallel", "enable_sdrop", "router_dense_type"));
}

void cs__mf_list_unmodelled(struct cs_mf *mf)
{
    list_model(mf);
    list_section(mf, "parallel_config", mf->parallel_config,
                 KEYS("data_parallel", "model_parallel", "context_parallel", "expert_parallel",
                      "pipeline_stage", "micro_batch_num", "seq_split_num", "use_seq_parallel",
                      "context_parallel_algo", "ulysses_degree_in_cp", "npu_nums_per_device"));
    list_section(mf, "parallel", mf->parallel,
                 KEYS("parallel_mode", "search_mode", "gradients_mean", "enable_alltoall", "full_batch",
                      "dataset_strategy", "strategy_ckpt_save_file", "strategy_ckpt_config",
                      "enable_parallel_optimizer", "parallel_optimizer_config", "optimizer_weight_shard_size",
                      "pipeline_config", "loss_repeated_mean", "parameter_broadcast", "gradient_fp32_sync",
                      "all_reduce_fusion_config"));
    /* A layer's input is cut already under sp, and whole without model parallelism. */
    bool sliced = mf->out->strategy.sp || mf->out->strategy.mp == 1;
    list_section(mf, "recompute_config", mf->recompute,
                 KEYS("recompute", "select_recompute", "mp_comm_recompute",
                      sliced ? "recompute_slice_activation" : "recompute"));
    list_section(mf, "swap_config", mf->swap, KEYS("swap", "default_prefetch"));
    /* How graphs are compiled changes no operation; how much memory they may have does. */
    list_section(mf, "context", cs_yaml_get(mf->root, "context"),
                 KEYS("mode", "device_target", "device_id", "jit_config", "save_graphs", "save_graphs_path",
                      "max_call_depth", "enable_graph_kernel", "graph_kernel_flags", "mempool_block_size",
                      "affinity_cpu_list"));
    list_section(mf, "optimizer", mf->optimizer,
                 KEYS("type", "swap", "betas", "beta1", "beta2", "eps", "weight_decay", "learning_rate"));
    list_section(mf, "runner_config", mf->runner,
                 KEYS("epochs", "batch_size", "sink_mode", "sink_size", "gradient_accumulation_steps"));
    list_section(mf, "runner_wrapper", mf->wrapper, KEYS("type", "scale_sense", "sens", "use_clip_grad"));
    list_section(mf, "", mf->root,
                 KEYS("run_mode", "use_parallel", "use_legacy", "runner_config", "runner_wrapper",
                      "optimizer", "context", "parallel", "parallel_config", "micro_batch_interleave_num",
                      "moe_config", "recompute_config", "swap_config", "model", "trainer",
                      "pretrained_model_dir", "seed", "output_dir", "load_checkpoint", "lr_schedule",
                      "train_dataset", "train_dataset_task", "eval_dataset", "eval_dataset_task", "processor",
                      "callbacks", "metric", "profile", "auto_trans_ckpt", "only_save_strategy",
                      "resume_training", "pipeline_config", "eval_callbacks", "remote_save_url",
                      "src_strategy_path_or_dir"));
}
