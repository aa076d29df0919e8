/* MindFormers configurations: keys that nothing read. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file that says more than this is no configuration; what is left out is counted in a last line. */
#define WARNINGS_MAX 1000
#define PATH_BYTES 256

/** Keys, by path, that change neither the time nor the memory of a step; with a value, that ask for nothing
 *  beyond what is modelled when they have it. Those of sections take all that is under them. The table is in
 *  ../README.md. */
static const struct {
    const char *path;
    const char *value; /* NULL = any */
} without_effect[] = {
    /* names, files, data, what is shown and saved */
    {"trainer", NULL},
    {"seed", NULL},
    {"output_dir", NULL},
    {"load_checkpoint", NULL},
    {"load_ckpt_format", NULL},
    {"src_strategy_path_or_dir", NULL},
    {"auto_trans_ckpt", NULL},
    {"transform_process_num", NULL},
    {"only_save_strategy", NULL},
    {"resume_training", NULL},
    {"ignore_data_skip", NULL},
    {"data_skip_steps", NULL},
    {"remove_redundancy", NULL},
    {"remote_save_url", NULL},
    {"train_dataset", NULL},
    {"train_dataset_task", NULL},
    {"eval_dataset", NULL},
    {"eval_dataset_task", NULL},
    {"processor", NULL},
    {"metric", NULL},
    {"callbacks", NULL},
    {"eval_callbacks", NULL},
    {"do_eval", "False"},
    {"print_separate_loss", NULL},
    {"tensorboard", NULL},
    {"monitor_config", NULL},
    {"profile", "False"},
    {"profile_start_step", NULL},
    {"profile_stop_step", NULL},
    {"profile_rank_ids", NULL},
    {"profile_pipeline", NULL},
    {"init_start_profile", "False"},
    {"profile_communication", "False"},
    {"profile_memory", "False"},
    {"profiler_level", NULL},
    {"lr_schedule", NULL},
    {"layer_scale", "False"},
    {"layer_decay", NULL},
    {"lr_scale", "False"},
    {"lr_scale_factor", NULL},
    {"runner_config.epochs", NULL},
    {"runner_config.sink_mode", NULL},
    {"runner_config.sink_size", NULL},
    {"runner_wrapper.type", NULL},
    {"runner_wrapper.scale_sense", NULL},
    {"runner_wrapper.sens", NULL},
    {"runner_wrapper.max_grad_norm", NULL},
    {"optimizer.betas", NULL},
    {"optimizer.beta1", NULL},
    {"optimizer.beta2", NULL},
    {"optimizer.eps", NULL},
    {"optimizer.weight_decay", NULL},
    {"optimizer.learning_rate", NULL},
    {"optimizer.momentum", NULL},
    {"parallel.gradients_mean", NULL},
    {"parallel.loss_repeated_mean", NULL},
    {"parallel.parameter_broadcast", NULL},
    {"parallel.strategy_ckpt_config", NULL},
    {"parallel.strategy_ckpt_save_file", NULL},
    {"context.device_target", NULL},
    {"context.device_id", NULL},
    {"context.save_graphs", NULL},
    {"context.save_graphs_path", NULL},
    {"context.max_call_depth", NULL},
    {"context.mempool_block_size", NULL},
    {"context.affinity_cpu_list", NULL},
    /* numbers in formulas, and what only generation reads */
    {"moe_config.aux_loss_factor", NULL},
    {"moe_config.aux_loss_factors", NULL},
    {"moe_config.routed_scaling_factor", NULL},
    {"model.arch", NULL},
    {"model.auto_register", NULL},
    {"model.architectures", NULL},
    {"model.mtp_loss_factor", NULL},
    {"model.mtp_loss_scaling_factor", NULL},
    {"model.moe_aux_loss_coeff", NULL},
    {"model.routed_scaling_factor", NULL},
    {"model.initializer_range", NULL},
    {"model.rms_norm_eps", NULL},
    {"model.layernorm_epsilon", NULL},
    {"model.theta", NULL},
    {"model.rotary_base", NULL},
    {"model.rope_theta", NULL},
    {"model.extend_method", NULL},
    {"model.scaling_factor", NULL},
    {"model.max_position_embeddings", NULL}, /* of learned positions, where it is read */
    {"model.bos_token_id", NULL},
    {"model.eos_token_id", NULL},
    {"model.pad_token_id", NULL},
    {"model.ignore_token_id", NULL},
    {"model.checkpoint_name_or_path", NULL},
    {"model.repetition_penalty", NULL},
    {"model.max_decode_length", NULL},
    {"model.top_k", NULL},
    {"model.top_p", NULL},
    {"model.do_sample", NULL},
    {"model.use_past", "False"},
    {"model.input_sliced_sig", NULL},
    {"model.use_attn_mask_compression", NULL},
    {"model.multi_latent_attention", "True"}, /* its ranks are read */
    {"model.moe_enabled", NULL},              /* the experts are read */
    {"model.moe_layer_freq", "1"},
    {"model.attention_dropout", "0.0"},
    {"model.hidden_dropout", "0.0"},
    {"model.attention_dropout_rate", "0.0"},
    {"model.hidden_dropout_rate", "0.0"},
    {"model.use_cache", NULL},
    {"model.torch_dtype", NULL},
    {"model.transformers_version", NULL},
    /* off is what is modelled */
    {"parallel_config.optimizer_shard", "False"},
    {"parallel_config.enable_deredudency", "False"},
    {"recompute_config.select_comm_recompute", "False"},
    {"recompute_config.select_recompute_exclude", "False"},
    {"recompute_config.select_comm_recompute_exclude", "False"},
    {"model.qkv_concat", "False"},
    {"moe_config.enable_sdrop", "False"},
    {"moe_config.expert_model_parallel", "1"},
};

/** Do two scalars say the same: as texts, or as booleans? */
static bool has_value(const struct cs_yaml_node *node, const char *value)
{
    bool given = false;
    bool meant = false;
    struct cs_yaml_node text = {.kind = CS_YAML_SCALAR, .text = value};
    if (node->kind != CS_YAML_SCALAR || strcmp(node->text, value) == 0) {
        return node->kind == CS_YAML_SCALAR;
    }
    return cs_yaml_bool(node, "", &given, NULL) == CS_OK && cs_yaml_bool(&text, "", &meant, NULL) == CS_OK &&
           given == meant;
}

static bool is_without_effect(const char *path, const struct cs_yaml_node *node)
{
    static const char *const nested = "model.model_config.";
    char inner[PATH_BYTES];
    if (cs_text_starts_with(path, nested)) {
        (void)snprintf(inner, sizeof inner, "model.%s", path + strlen(nested));
        path = inner;
    } else if (cs_text_starts_with(path, "config.json.")) {
        (void)snprintf(inner, sizeof inner, "model.%s", strchr(path, '.') + strlen(".json."));
        path = inner;
    }
    for (int32_t i = 0; i < CS_COUNT(without_effect); i++) {
        if (strcmp(path, without_effect[i].path) == 0) {
            return without_effect[i].value == NULL || has_value(node, without_effect[i].value);
        }
    }
    return false;
}

static const struct cs_mf_use *use_of(const struct cs_mf *mf, const struct cs_yaml_node *key)
{
    for (int32_t i = 0; i < mf->n_uses; i++) {
        if (mf->uses[i].key == key) {
            return &mf->uses[i];
        }
    }
    return NULL;
}

struct walk {
    struct cs_mf *mf;
    int64_t n_more;                 /* keys beyond the most that are listed */
    const struct cs_yaml_node *key; /* where it is */
    char path[PATH_BYTES];
};

static void list_key(struct walk *walk, const char *text)
{
    if (walk->mf->out->n_warnings < WARNINGS_MAX) {
        cs__mf_warn_as(walk->mf, walk->path, walk->key, text);
    } else {
        walk->n_more++;
    }
}

static bool holds_map(const struct cs_yaml_node *list)
{
    bool maps = false;
    for (int32_t i = 0; i < list->n; i++) {
        maps |= list->items[i]->kind == CS_YAML_MAP;
    }
    return maps;
}

/** What is known of a map or value: it was read (of a map, key by key), it was not, or it says nothing. */
enum state { WAS_READ, WAS_NOT_READ, IS_SETTLED };

static void walk_value(struct walk *walk, const struct cs_yaml_node *node, enum state state, size_t len);

static size_t add_to_path(struct walk *walk, size_t len, const char *before, const char *text,
                          const char *behind)
{
    int n = snprintf(walk->path + len, sizeof walk->path - len, "%s%s%s", before, text, behind);
    size_t end = len + (size_t)n;
    return end < sizeof walk->path ? end : sizeof walk->path - 1;
}

static void walk_map(struct walk *walk, const struct cs_yaml_node *map, enum state state, size_t len)
{
    for (int32_t i = 0; i < map->n; i++) {
        const struct cs_mf_use *use = state != WAS_NOT_READ ? use_of(walk->mf, map->keys[i]) : NULL;
        const struct cs_yaml_node *node = map->items[i];
        size_t end = add_to_path(walk, len, len > 0 ? "." : "", map->keys[i]->text, "");
        walk->key = map->keys[i];
        if (use != NULL && use->note != NULL) {
            list_key(walk, use->note);
        }
        bool settled = state == IS_SETTLED || (use != NULL && use->whole);
        if (settled || !is_without_effect(walk->path, node)) {
            walk_value(walk, node, settled ? IS_SETTLED : use != NULL ? WAS_READ : WAS_NOT_READ, end);
        }
        walk->path[len] = '\0';
    }
}

static void walk_value(struct walk *walk, const struct cs_yaml_node *node, enum state state, size_t len)
{
    if (node->kind == CS_YAML_MAP) {
        walk_map(walk, node, state, len);
    } else if (state != WAS_NOT_READ || cs__mf_is_absent(node) ||
               (node->kind == CS_YAML_LIST && node->n == 0)) {
        return;
    } else if (node->kind == CS_YAML_LIST && holds_map(node)) {
        for (int32_t i = 0; i < node->n; i++) {
            char number[16];
            (void)snprintf(number, sizeof number, "%d", (int)i);
            walk_value(walk, node->items[i], state, add_to_path(walk, len, "[", number, "]"));
            walk->path[len] = '\0';
        }
    } else {
        list_key(walk, "is not modelled");
    }
}

/** Find the keys that stand twice, wherever they are, for their paths. */
static void walk_repeats(struct walk *walk, const struct cs_yaml *yaml, const struct cs_yaml_node *node,
                         size_t len)
{
    const int32_t n = yaml->n_repeats < CS_YAML_REPEATS_MAX ? yaml->n_repeats : CS_YAML_REPEATS_MAX;
    for (int32_t i = 0; node->kind != CS_YAML_SCALAR && i < node->n; i++) {
        size_t end = len;
        if (node->kind == CS_YAML_MAP) {
            end = add_to_path(walk, len, len > 0 ? "." : "", node->keys[i]->text, "");
        }
        for (int32_t k = 0; node->kind == CS_YAML_MAP && k < n; k++) {
            if (yaml->repeats[k].kept == node->keys[i]) {
                walk->key = yaml->repeats[k].dropped;
                list_key(walk, cs_arena_printf(&walk->mf->out->arena,
                                               "is not read: line %d says it again, and the last counts",
                                               node->keys[i]->loc.line));
            }
        }
        walk_repeats(walk, yaml, node->items[i], end);
        walk->path[len] = '\0';
    }
}

void cs__mf_list_repeats(struct cs_mf *mf, const struct cs_yaml *yaml, const char *prefix)
{
    struct walk walk = {.mf = mf};
    if (yaml->n_repeats == 0) {
        return;
    }
    (void)snprintf(walk.path, sizeof walk.path, "%s", prefix);
    walk_repeats(&walk, yaml, yaml->root, strlen(walk.path));
    if (yaml->n_repeats > CS_YAML_REPEATS_MAX) {
        cs__mf_warn_as(mf, "and more", yaml->root,
                       cs_arena_printf(&mf->out->arena, "%d other keys stand again further down",
                                       (int)(yaml->n_repeats - CS_YAML_REPEATS_MAX)));
    }
}

static int by_place(const void *a, const void *b)
{
    const struct cs_mindformers_warning *x = a;
    const struct cs_mindformers_warning *y = b;
    int order = strcmp(x->file, y->file);
    order = order != 0 ? order : (x->line > y->line) - (x->line < y->line);
    order = order != 0 ? order : strcmp(x->key, y->key);
    return order != 0 ? order : strcmp(x->text, y->text);
}

void cs__mf_list_unmodelled(struct cs_mf *mf)
{
    struct walk walk = {.mf = mf};
    walk_map(&walk, mf->root, WAS_READ, 0);
    if (mf->hub != NULL) {
        size_t len = (size_t)snprintf(walk.path, sizeof walk.path, "config.json");
        walk_map(&walk, mf->hub, WAS_READ, len);
    }
    struct cs_mindformers *out = mf->out;
    if (out->n_warnings > 1) {
        qsort(out->warnings, (size_t)out->n_warnings, sizeof *out->warnings, by_place);
    }
    if (walk.n_more > 0) {
        cs__mf_warn(mf, "and more", NULL, "%lld other keys are not modelled", (long long)walk.n_more);
    }
}
