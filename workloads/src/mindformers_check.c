/* MindFormers configurations: the checks that MindFormers makes itself. */
#include "graph_priv.h"
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <string.h>

#define DEVICES_PER_SERVER 8

static cs_status refuse(struct cs_mf *mf, const struct cs_yaml_node *section, const char *key,
                        const char *why, struct cs_err *err)
{
    const struct cs_yaml_node *node = CS_MF_GET(mf, section, key);
    const struct cs_yaml_node *at = node != NULL ? node : section != NULL ? section : mf->root;
    return cs_err_set(err, CS_E_INPUT, at->loc, "'%s': %s", key, why);
}

static cs_status check_parallel(struct cs_mf *mf, struct cs_err *err)
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
    if (s->expert_mp && (int64_t)s->dp * s->cp % s->ep != 0) {
        return refuse(mf, mf->parallel_config, "expert_parallel",
                      "does not divide data_parallel * context_parallel, over which experts lie that "
                      "model_parallel cuts",
                      err);
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
    return CS_OK;
}

/** How tokens reach their experts: by a plain all-to-all here. */
static cs_status check_exchange(struct cs_mf *mf, struct cs_err *err)
{
    const struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *dispatcher = CS_MF_GET(mf, mf->model, "moe_token_dispatcher_type");
    const struct cs_yaml_node *swap = CS_MF_GET(mf, mf->parallel, "enable_alltoall");
    const bool exchanged = mf->out->model.n_experts > 0 && s->ep > 1;
    int64_t per_node = 1;
    bool all_to_all = true;
    static const char *const types[] = {"alltoall", "alltoall_deredundency", "alltoall_zero_redundancy",
                                        NULL};
    int32_t type = 0;
    cs_status st;
    CS_TRY(cs__mf_int(CS_MF_GET(mf, mf->parallel_config, "npu_nums_per_device"), 1, 1 << 20,
                      "npu_nums_per_device", &per_node, err));
    if (dispatcher != NULL) {
        CS_TRY(cs_yaml_choice(dispatcher, types, "moe_token_dispatcher_type", &type, err));
    }
    CS_TRY(cs__mf_bool(swap, "enable_alltoall", &all_to_all, err));
    if (mf->new_style && type == 1 && s->ep < per_node) {
        return refuse(mf, mf->parallel_config, "expert_parallel",
                      "is below npu_nums_per_device, which alltoall_deredundency does not allow", err);
    }
    if (exchanged && type > 0) {
        cs__mf_warn(mf, "model.model_config.moe_token_dispatcher_type", dispatcher,
                    "'%s' is not modelled: a plain all-to-all is", types[type]);
    }
    if (exchanged && !all_to_all) {
        cs__mf_warn(mf, "parallel.enable_alltoall", swap,
                    "experts that gather and split are not modelled: an all-to-all is");
    }
out:
    return st;
}

/** Attention of the new style. */
static cs_status check_attention(struct cs_mf *mf, struct cs_err *err)
{
    static const char *const fused[] = {"use_ring_attention", "use_attn_mask_compression"};
    const struct cs_yaml_node *variant = CS_MF_GET(mf, mf->model, "experimental_attention_variant");
    const char *name = "";
    cs_status st;
    CS_TRY(cs__mf_text(variant, "experimental_attention_variant", &name, err));
    if (strcmp(name, "dsa") == 0 && mf->out->strategy.schedule == CS_SCHED_ZERO_BUBBLE_V) {
        return refuse(mf, mf->model, "experimental_attention_variant", "dsa does not go with zero_bubble_v",
                      err);
    }
    if (variant != NULL) {
        cs__mf_warn(mf, "model.model_config.experimental_attention_variant", variant, "is not modelled");
    }
    for (int32_t i = 0; i < CS_COUNT(fused) && mf->new_style && !mf->out->model.flash_attention; i++) {
        bool on = false;
        CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->model, fused[i]), fused[i], &on, err));
        if (on) {
            return refuse(mf, mf->model, fused[i], "needs use_flash_attention: True", err);
        }
    }
out:
    return st;
}

static bool is_flat_list(const struct cs_yaml_node *node)
{
    return node != NULL && node->kind == CS_YAML_LIST && node->n > 0 && node->items[0]->kind != CS_YAML_LIST;
}

static cs_status check_pipeline(struct cs_mf *mf, struct cs_err *err)
{
    const struct cs_strategy *s = &mf->out->strategy;
    cs_status st = CS_OK;
    const int64_t m = mf->micro_batch_num;
    int64_t grain = 1;
    CS_TRY(cs__mf_int(CS_MF_GET(mf, mf->model, "fine_grain_interleave"), 1, 64, "fine_grain_interleave",
                      &grain, err));
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
            if (is_flat_list(CS_MF_GET(mf, mf->recompute, keys[i]))) {
                return refuse(mf, mf->recompute, keys[i], "zero_bubble_v needs a list per chunk", err);
            }
        }
    }
    bool sliced = false;
    const struct cs_yaml_node *slice = CS_MF_GET(mf, mf->recompute, "recompute_slice_activation");
    CS_TRY(cs__mf_bool(slice, "recompute_slice_activation", &sliced, err));
    if (mf->new_style && sliced) {
        return refuse(mf, mf->recompute, "recompute_slice_activation", "is for use_legacy: True only", err);
    }
    /* A layer's input is cut already under sp, and whole without model parallelism. */
    if (sliced && !s->sp && s->mp > 1) {
        cs__mf_warn(mf, "recompute_config.recompute_slice_activation", slice,
                    "inputs of layers cut by model_parallel are not modelled: they are kept whole");
    }
out:
    return st;
}

/** An item of layer_swap or op_swap, with all that MindFormers reads of it. Only looked at: what is swapped
 *  is listed as not modelled. */
static cs_status check_swapped(const struct cs_yaml_node *item, const char *list, bool by_name,
                               struct cs_err *err)
{
    static const char *const keys[] = {"layers", "backward_prefetch", "op_name"};
    int64_t prefetch = 1;
    cs_status st;
    CS_TRY(cs_yaml_want(item, CS_YAML_MAP, list, err));
    for (int32_t i = 0; i < (by_name ? 3 : 2); i++) {
        if (cs__mf_is_absent(cs_yaml_get(item, keys[i]))) {
            return cs_err_set(err, CS_E_INPUT, item->loc, "%s has no '%s'", list, keys[i]);
        }
    }
    const struct cs_yaml_node *layers = cs_yaml_get(item, "layers");
    int64_t layer = 0;
    bool all = false;
    if (layers->kind != CS_YAML_LIST && cs_yaml_bool(layers, "layers", &all, NULL) != CS_OK) {
        CS_TRY(cs_yaml_int(layers, 0, INT32_MAX, "layers", &layer, err));
    }
    for (int32_t i = 0; layers->kind == CS_YAML_LIST && i < layers->n; i++) {
        CS_TRY(cs_yaml_int(layers->items[i], 0, INT32_MAX, "layers", &layer, err));
    }
    CS_TRY(
        cs_yaml_int(cs_yaml_get(item, "backward_prefetch"), 1, 1 << 20, "backward_prefetch", &prefetch, err));
out:
    return st;
}

/** What of swap_config is swapped, and how, in whose place all that layers keep is. */
static void warn_swap(struct cs_mf *mf, bool chosen, int64_t prefetch)
{
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->swap, "default_prefetch");
    if (prefetch != 1) {
        cs__mf_warn(mf, "swap_config.default_prefetch", node, "%s",
                    chosen ? "has no effect with layer_swap or op_swap"
                           : "is not modelled: layers come back one ahead");
    }
    if (!chosen) {
        cs__mf_warn(mf, "swap_config.swap", CS_MF_GET(mf, mf->swap, "swap"),
                    "swapping what flash attention keeps alone is not modelled: all that layers keep is");
    }
}

/** swap_config is read even where swap is off: its types are wrong all the same. */
static cs_status check_swap(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    int64_t prefetch = 1;
    bool swap = false;
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->swap, "swap"), "swap", &swap, err));
    CS_TRY(cs__mf_int(CS_MF_GET(mf, mf->swap, "default_prefetch"), 1, 1 << 20, "default_prefetch", &prefetch,
                      err));
    const struct cs_yaml_node *layers = cs_yaml_get(mf->swap, "layer_swap");
    const struct cs_yaml_node *ops = cs_yaml_get(mf->swap, "op_swap");
    if (!cs__mf_is_absent(layers)) {
        CS_TRY(cs_yaml_want(layers, CS_YAML_LIST, "layer_swap", err));
        for (int32_t i = 0; i < layers->n; i++) {
            CS_TRY(check_swapped(layers->items[i], "an item of layer_swap", false, err));
        }
    }
    if (!cs__mf_is_absent(ops) && ops->kind == CS_YAML_SCALAR) {
        CS_TRY(cs_yaml_want(ops, CS_YAML_LIST, "op_swap", err));
    }
    for (int32_t i = 0; !cs__mf_is_absent(ops) && ops->kind == CS_YAML_LIST && i < ops->n; i++) {
        CS_TRY(check_swapped(ops->items[i], "an item of op_swap", true, err));
    }
    if (mf->out->strategy.swap_activations) {
        warn_swap(mf, !cs__mf_is_absent(layers) || !cs__mf_is_absent(ops), prefetch);
    } else if (!swap) {
        cs__mf_settle_key(mf, mf->swap, "layer_swap"); /* say nothing then */
        cs__mf_settle_key(mf, mf->swap, "op_swap");
    }
out:
    return st;
}

/** Does any input of a dataset_strategy have another first part than `parts`, or is cut beyond it? */
static bool cuts_otherwise(const struct cs_yaml_node *strategy, int64_t parts)
{
    bool otherwise = false;
    for (int32_t i = 0; i < strategy->n; i++) {
        const struct cs_yaml_node *row = strategy->items[i];
        otherwise |= row->kind != CS_YAML_LIST || row->n == 0;
        for (int32_t k = 0; row->kind == CS_YAML_LIST && k < row->n; k++) {
            int64_t part = 0;
            otherwise |= cs_yaml_int(row->items[k], 1, INT32_MAX, "", &part, NULL) != CS_OK ||
                         part != (k == 0 ? parts : 1);
        }
    }
    return otherwise;
}

/** How the batch reaches the devices: full_batch outside the automatic modes is forced off, and a
 *  dataset_strategy has to cut the batch into data_parallel parts. */
static cs_status check_batch(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    bool full = false;
    int64_t parts = mf->out->strategy.dp;
    const bool automatic = mf->mode == CS_MF_SEMI_AUTO || mf->mode == CS_MF_AUTO;
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->parallel, "full_batch");
    const struct cs_yaml_node *strategy = CS_MF_GET(mf, mf->parallel, "dataset_strategy");
    CS_TRY(cs__mf_bool(node, "full_batch", &full, err));
    if (full && mf->parallel_run && !automatic) {
        return refuse(mf, mf->parallel, "full_batch", "is for parallel_mode 1 and 2 only", err);
    }
    if (full && strategy != NULL) {
        cs__mf_warn(mf, "parallel.dataset_strategy", strategy, "is not read with full_batch: True");
    }
    if (full || !mf->parallel_run || !automatic || mf->parallel_config == NULL || strategy == NULL ||
        strategy->kind != CS_YAML_LIST || strategy->n == 0 || strategy->items[0]->kind != CS_YAML_LIST ||
        strategy->items[0]->n == 0) {
        return CS_OK;
    }
    const struct cs_yaml_node *first = strategy->items[0]->items[0];
    CS_TRY(cs_yaml_int(first, 1, INT32_MAX, "dataset_strategy", &parts, err));
    if (parts != mf->out->strategy.dp) {
        st = cs_err_set(err, CS_E_INPUT, strategy->loc,
                        "'dataset_strategy' cuts the batch into %lld, but data_parallel is %d",
                        (long long)parts, (int)mf->out->strategy.dp);
        goto out;
    }
    if (cuts_otherwise(strategy, parts)) {
        cs__mf_warn(mf, "parallel.dataset_strategy", strategy,
                    "inputs that are cut otherwise than the batch by data_parallel are not modelled");
    }
out:
    return st;
}

/** What MindFormers only warns about. */
static void warn_rest(struct cs_mf *mf)
{
    const struct cs_model *m = &mf->out->model;
    const struct cs_strategy *s = &mf->out->strategy;
    const int64_t n = mf->out->n_devices;
    if (n > DEVICES_PER_SERVER && n / DEVICES_PER_SERVER % s->pp != 0) {
        cs__mf_warn(mf, "parallel_config.pipeline_stage",
                    CS_MF_GET(mf, mf->parallel_config, "pipeline_stage"),
                    "does not divide the %lld servers of %d devices", (long long)(n / DEVICES_PER_SERVER),
                    DEVICES_PER_SERVER);
    }
    if (s->op > 1 && mf->out->has_model && (m->vocab % n != 0 || m->hidden % n != 0)) {
        cs__mf_warn(mf, "parallel.enable_parallel_optimizer",
                    CS_MF_GET(mf, mf->parallel, "enable_parallel_optimizer"),
                    "vocab_size or hidden_size is not divisible by the %lld devices: such parameters may not "
                    "be sharded (here they are)",
                    (long long)n);
    }
}

/** Selective recomputation of a model without such operators: the patterns match none, and nothing is done.
 */
static void drop_selective(struct cs_mf *mf)
{
    struct cs_strategy *s = &mf->out->strategy;
    bool asked = s->recompute == CS_RECOMPUTE_SELECTIVE;
    for (int32_t i = 0; i < s->selective_layers.n; i++) {
        asked |= s->selective_layers.at[i] > 0;
    }
    if (!asked || !mf->out->has_model ||
        cs__graph_runs_selectively(&mf->out->model, mf->out->model.flash_attention)) {
        return;
    }
    cs__mf_warn(mf, "recompute_config.select_recompute", CS_MF_GET(mf, mf->recompute, "select_recompute"),
                "has no effect: the model's MLP is not gated and its attention is flash, so that none of its "
                "operators is meant");
    s->recompute = s->recompute == CS_RECOMPUTE_SELECTIVE ? CS_RECOMPUTE_NONE : s->recompute;
    for (int32_t i = 0; i < s->selective_layers.n; i++) {
        s->selective_layers.at[i] = 0;
    }
}

/** Copies of the embedding under model_parallel; MindFormers forces a pipeline, and the new style, to cut the
 *  vocabulary. */
static cs_status check_vocabulary(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    bool copies = false;
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->parallel_config, "vocab_emb_dp");
    CS_TRY(cs__mf_bool(node, "vocab_emb_dp", &copies, err));
    if (copies && !mf->new_style && mf->out->strategy.mp > 1 && mf->out->strategy.pp == 1) {
        cs__mf_warn(mf, "parallel_config.vocab_emb_dp", node,
                    "an embedding that model_parallel does not cut is not modelled: it is cut");
    }
out:
    return st;
}

cs_status cs__mf_check(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    CS_TRY(check_parallel(mf, err));
    CS_TRY(check_exchange(mf, err));
    CS_TRY(check_attention(mf, err));
    CS_TRY(check_pipeline(mf, err));
    CS_TRY(check_swap(mf, err));
    CS_TRY(check_batch(mf, err));
    CS_TRY(check_vocabulary(mf, err));
    drop_selective(mf);
    warn_rest(mf);
out:
    return st;
}
