/* Reading model files. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <string.h>

/* Sizes beyond any model that was ever trained, small enough that products stay exact. */
#define LAYERS_MAX 16384
#define WIDTH_MAX (INT64_C(1) << 24)
#define VOCAB_MAX (INT64_C(1) << 28)
#define EXPERTS_MAX 65536
#define IMAGE_MAX 8192
#define POSITION_MAX (INT64_C(1) << 28)
/* What published counts are rounded to; a larger difference is a wrong size in the file. */
#define PUBLISHED_TOLERANCE_FRAC 0.005

static const char *const norm_names[] = {"rms", "layer", NULL};
static const char *const activation_names[] = {"swiglu", "geglu", "gelu", "relu", "silu", NULL};
static const char *const position_names[] = {"rope", "learned", "alibi", "none", NULL};

static const char *const model_keys[] = {"name",
                                         "source",
                                         "published_params",
                                         "layers",
                                         "hidden",
                                         "heads",
                                         "kv_heads",
                                         "head_dim",
                                         "ffn",
                                         "vocab",
                                         "max_position",
                                         "norm",
                                         "activation",
                                         "position",
                                         "linear_bias",
                                         "qkv_bias",
                                         "qk_norm",
                                         "embedding_norm",
                                         "head_transform",
                                         "token_types",
                                         "tied_embedding",
                                         "flash_attention",
                                         "causal",
                                         "dropout",
                                         "experts",
                                         "experts_per_token",
                                         "shared_experts",
                                         "expert_ffn",
                                         "first_dense_layers",
                                         "capacity_factor",
                                         "q_lora_rank",
                                         "kv_lora_rank",
                                         "qk_nope_head_dim",
                                         "qk_rope_head_dim",
                                         "v_head_dim",
                                         "mtp_layers",
                                         NULL};

static cs_status need_int(const struct cs_yaml_node *root, const char *key, int64_t max, int64_t *value,
                          struct cs_err *err)
{
    const struct cs_yaml_node *node;
    cs_status st;
    CS_TRY(cs_yaml_need(root, key, &node, err));
    CS_TRY(cs_yaml_int(node, 1, max, key, value, err));
out:
    return st;
}

static cs_status opt_choice(const struct cs_yaml_node *root, const char *key, const char *const *names,
                            int32_t *value, struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(root, key);
    return node == NULL ? CS_OK : cs_yaml_choice(node, names, key, value, err);
}

/** ASCII control characters, and those of Latin-1 as UTF-8 writes them. */
static bool is_control(const char *c)
{
    const unsigned char byte = (unsigned char)*c;
    const unsigned char next = byte != 0 ? (unsigned char)c[1] : 0;
    return byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0);
}

cs_status cs__printable(const struct cs_yaml_node *node, const char *key, struct cs_err *err)
{
    for (const char *c = node != NULL && node->kind == CS_YAML_SCALAR ? node->text : ""; *c != '\0'; c++) {
        if (is_control(c)) {
            return cs_err_set(err, CS_E_INPUT, node->loc,
                              "'%s' holds a control character (byte 0x%02x), expected printable text", key,
                              (unsigned)(unsigned char)*c);
        }
    }
    return CS_OK;
}

static cs_status read_texts(struct cs_model *model, const struct cs_yaml_node *root, const char *path,
                            struct cs_err *err)
{
    const char *name = NULL;
    const char *source = NULL;
    cs_status st;
    CS_TRY(cs_yaml_opt_text(root, "name", &name, err));
    CS_TRY(cs_yaml_opt_text(root, "source", &source, err));
    CS_TRY(cs__printable(cs_yaml_get(root, "name"), "name", err));
    CS_TRY(cs__printable(cs_yaml_get(root, "source"), "source", err));
    model->name = cs_arena_strdup(&model->arena, name ? name : path);
    model->source = cs_arena_strdup(&model->arena, source ? source : "");
out:
    return st;
}

static cs_status read_sizes(struct cs_model *model, const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st;
    int64_t layers;
    CS_TRY(need_int(root, "layers", LAYERS_MAX, &layers, err));
    model->n_layers = (int32_t)layers;
    CS_TRY(need_int(root, "hidden", WIDTH_MAX, &model->hidden, err));
    CS_TRY(need_int(root, "heads", WIDTH_MAX, &model->n_heads, err));
    model->n_kv_heads = model->n_heads;
    CS_TRY(cs_yaml_opt_int(root, "kv_heads", 1, WIDTH_MAX, &model->n_kv_heads, err));
    model->head_dim = model->hidden / model->n_heads;
    CS_TRY(cs_yaml_opt_int(root, "head_dim", 1, WIDTH_MAX, &model->head_dim, err));
    CS_TRY(need_int(root, "ffn", WIDTH_MAX, &model->ffn, err));
    CS_TRY(need_int(root, "vocab", VOCAB_MAX, &model->vocab, err));
    CS_TRY(cs_yaml_opt_int(root, "max_position", 0, POSITION_MAX, &model->max_position, err));
    CS_TRY(cs_yaml_opt_real(root, "published_params", 0, 1e18, &model->published_params, err));
out:
    return st;
}

static cs_status read_kind(struct cs_model *model, const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st;
    int32_t norm = CS_NORM_RMS;
    int32_t activation = CS_ACT_SWIGLU;
    int32_t position = CS_POS_ROPE;
    model->flash_attention = true;
    model->causal = true;
    CS_TRY(opt_choice(root, "norm", norm_names, &norm, err));
    CS_TRY(opt_choice(root, "activation", activation_names, &activation, err));
    CS_TRY(opt_choice(root, "position", position_names, &position, err));
    CS_TRY(cs_yaml_opt_bool(root, "linear_bias", &model->linear_bias, err));
    CS_TRY(cs_yaml_opt_bool(root, "qkv_bias", &model->qkv_bias, err));
    CS_TRY(cs_yaml_opt_bool(root, "tied_embedding", &model->tied_embedding, err));
    CS_TRY(cs_yaml_opt_bool(root, "flash_attention", &model->flash_attention, err));
    CS_TRY(cs_yaml_opt_bool(root, "causal", &model->causal, err));
    CS_TRY(cs_yaml_opt_real(root, "dropout", 0, 0.999, &model->dropout_frac, err));
    model->norm = (enum cs_norm)norm;
    model->activation = (enum cs_activation)activation;
    model->position = (enum cs_position)position;
out:
    return st;
}

static cs_status opt_int32(const struct cs_yaml_node *root, const char *key, int64_t min, int64_t max,
                           int32_t *value, struct cs_err *err)
{
    int64_t read = *value;
    cs_status st;
    CS_TRY(cs_yaml_opt_int(root, key, min, max, &read, err));
    *value = (int32_t)read;
out:
    return st;
}

static cs_status read_experts(struct cs_model *model, const struct cs_yaml_node *root, struct cs_err *err)
{
    static const char *const need[] = {"experts_per_token", "expert_ffn", NULL};
    static const char *const all[] = {"experts_per_token",  "expert_ffn",      "shared_experts",
                                      "first_dense_layers", "capacity_factor", NULL};
    cs_status st;
    const struct cs_yaml_node *experts = cs_yaml_get(root, "experts");
    for (int32_t i = 0; experts == NULL && all[i] != NULL; i++) {
        const struct cs_yaml_node *node = cs_yaml_get(root, all[i]);
        if (node != NULL) {
            return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' is of a model with 'experts'", all[i]);
        }
    }
    CS_TRY(opt_int32(root, "experts", 1, EXPERTS_MAX, &model->n_experts, err));
    for (int32_t i = 0; experts != NULL && need[i] != NULL; i++) {
        const struct cs_yaml_node *ignored;
        CS_TRY(cs_yaml_need(root, need[i], &ignored, err));
    }
    CS_TRY(opt_int32(root, "experts_per_token", 1, EXPERTS_MAX, &model->experts_per_token, err));
    CS_TRY(cs_yaml_opt_int(root, "expert_ffn", 1, WIDTH_MAX, &model->expert_ffn, err));
    CS_TRY(opt_int32(root, "shared_experts", 0, EXPERTS_MAX, &model->n_shared_experts, err));
    CS_TRY(opt_int32(root, "first_dense_layers", 0, LAYERS_MAX, &model->first_dense_layers, err));
    CS_TRY(cs_yaml_opt_real(root, "capacity_factor", 0.01, 1000, &model->capacity_factor, err));
    if (experts != NULL && model->experts_per_token > model->n_experts) {
        return cs_err_set(err, CS_E_INPUT, experts->loc, "'experts' is %d, but a token goes to %d of them",
                          (int)model->n_experts, (int)model->experts_per_token);
    }
    if (model->first_dense_layers > model->n_layers) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "first_dense_layers")->loc,
                          "'first_dense_layers' is %d, but there are %d layers",
                          (int)model->first_dense_layers, (int)model->n_layers);
    }
    if (experts != NULL && model->activation != CS_ACT_SWIGLU && model->activation != CS_ACT_GEGLU) {
        return cs_err_set(err, CS_E_INPUT, experts->loc, "experts need a gated activation, swiglu or geglu");
    }
out:
    return st;
}

/** Latent attention and multi-token prediction. */
static cs_status read_latent(struct cs_model *model, const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st;
    const struct {
        const char *key;
        int64_t *value;
    } sizes[] = {{"q_lora_rank", &model->q_lora_rank},
                 {"kv_lora_rank", &model->kv_lora_rank},
                 {"qk_nope_head_dim", &model->qk_nope_head_dim},
                 {"qk_rope_head_dim", &model->qk_rope_head_dim},
                 {"v_head_dim", &model->v_head_dim}};
    for (int32_t i = 0; i < CS_COUNT(sizes); i++) {
        CS_TRY(cs_yaml_opt_int(root, sizes[i].key, 1, WIDTH_MAX, sizes[i].value, err));
    }
    for (int32_t i = 0; i < CS_COUNT(sizes); i++) {
        const struct cs_yaml_node *node = cs_yaml_get(root, sizes[i].key);
        if (node != NULL && model->kv_lora_rank == 0) {
            return cs_err_set(err, CS_E_INPUT, node->loc,
                              "'%s' is of latent attention, which needs 'kv_lora_rank'", sizes[i].key);
        }
        if (node == NULL && i > 0 && model->kv_lora_rank > 0) {
            return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "kv_lora_rank")->loc,
                              "latent attention needs '%s' too", sizes[i].key);
        }
    }
    if (model->kv_lora_rank > 0 && (model->n_kv_heads != model->n_heads || model->position != CS_POS_ROPE)) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "kv_lora_rank")->loc,
                          "latent attention has rope and as many key-value heads as heads");
    }
    CS_TRY(opt_int32(root, "mtp_layers", 0, 16, &model->n_mtp_layers, err));
    CS_TRY(opt_int32(root, "token_types", 0, 1024, &model->n_token_types, err));
    CS_TRY(cs_yaml_opt_bool(root, "qk_norm", &model->qk_norm, err));
    CS_TRY(cs_yaml_opt_bool(root, "embedding_norm", &model->embedding_norm, err));
    CS_TRY(cs_yaml_opt_bool(root, "head_transform", &model->head_transform, err));
    if (model->n_token_types > 0 && model->position != CS_POS_LEARNED) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "token_types")->loc,
                          "'token_types' needs learned positions");
    }
out:
    return st;
}

/** Sizes that contradict each other. */
static cs_status check_sizes(const struct cs_model *model, const struct cs_yaml_node *root,
                             struct cs_err *err)
{
    if (cs_yaml_get(root, "head_dim") == NULL && model->hidden % model->n_heads != 0) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "heads")->loc,
                          "'heads' is %lld, but 'hidden' %lld is not divisible by it; give 'head_dim'",
                          (long long)model->n_heads, (long long)model->hidden);
    }
    if (model->n_heads % model->n_kv_heads != 0) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "kv_heads")->loc,
                          "'kv_heads' is %lld, but 'heads' %lld is not divisible by it",
                          (long long)model->n_kv_heads, (long long)model->n_heads);
    }
    if (model->position == CS_POS_LEARNED && model->max_position == 0) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "position")->loc,
                          "learned positions need 'max_position'");
    }
    if (cs__model_params_estimate(model) > CS_MODEL_PARAMS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, root->loc,
                          "these sizes make about %.3g parameters, more than the %.0e that are counted",
                          cs__model_params_estimate(model), CS_MODEL_PARAMS_MAX);
    }
    double params = (double)cs_model_params(model);
    double published = model->published_params;
    if (published > 0 && fabs(params - published) > PUBLISHED_TOLERANCE_FRAC * published) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "published_params")->loc,
                          "'published_params' is %.6g, but these sizes make %.6g parameters", published,
                          params);
    }
    return CS_OK;
}

/** What only some models have: nothing is mixed in when all of it is absent. */
static uint64_t hash_rest(uint64_t hash, const struct cs_model *model)
{
    const int64_t sizes[] = {model->n_experts,
                             model->experts_per_token,
                             model->n_shared_experts,
                             model->expert_ffn,
                             model->first_dense_layers,
                             model->q_lora_rank,
                             model->kv_lora_rank,
                             model->qk_nope_head_dim,
                             model->qk_rope_head_dim,
                             model->v_head_dim,
                             model->n_mtp_layers,
                             model->n_token_types,
                             model->qk_norm,
                             model->embedding_norm,
                             model->head_transform,
                             model->image,
                             model->resnet_blocks[0],
                             model->resnet_blocks[1],
                             model->resnet_blocks[2],
                             model->resnet_blocks[3]};
    for (int32_t i = 0; i < CS_COUNT(sizes); i++) {
        hash = sizes[i] != 0 ? cs_hash_mix(cs_hash_mix(hash, (uint64_t)i), (uint64_t)sizes[i]) : hash;
    }
    return model->capacity_factor > 0 ? cs_hash_real(hash, model->capacity_factor) : hash;
}

uint64_t cs__model_hash(const struct cs_model *model)
{
    const int64_t sizes[] = {model->n_layers,
                             model->hidden,
                             model->n_heads,
                             model->n_kv_heads,
                             model->head_dim,
                             model->ffn,
                             model->vocab,
                             model->max_position,
                             (int64_t)model->norm,
                             (int64_t)model->activation,
                             (int64_t)model->position,
                             model->linear_bias,
                             model->qkv_bias,
                             model->tied_embedding,
                             model->flash_attention,
                             model->causal};
    uint64_t hash = CS_HASH_SEED;
    for (int32_t i = 0; i < CS_COUNT(sizes); i++) {
        hash = cs_hash_mix(hash, (uint64_t)sizes[i]);
    }
    return hash_rest(cs_hash_real(cs_hash_text(hash, model->name), model->dropout_frac), model);
}

/** Is it about the model? Keys of model_config that say how it runs are of no use with the model alone. */
static bool is_of_model(const char *key)
{
    static const char *const parts[] = {"model.", "moe_config.", "config.json.", "pretrained_model_dir"};
    static const char *const runs[] = {"offset",
                                       "layers_per_stage",
                                       "pp_interleave_num",
                                       "fine_grain_interleave",
                                       "batch_size",
                                       "local_batch_size",
                                       "compute_dtype",
                                       "param_init_type",
                                       "params_dtype",
                                       "use_ring_attention",
                                       "moe_token_dispatcher_type",
                                       NULL};
    const char *dot = strrchr(key, '.');
    bool found = false;
    for (int32_t i = 0; i < CS_COUNT(parts); i++) {
        found |= cs_text_starts_with(key, parts[i]);
    }
    return found && cs_text_index(dot != NULL ? dot + 1 : key, runs) < 0;
}

static void keep_warnings(struct cs_model *model, const struct cs_mindformers *config)
{
    struct cs_mindformers_warning *list =
        CS_ARENA_NEW(&model->arena, struct cs_mindformers_warning, config->n_warnings);
    for (int32_t i = 0; i < config->n_warnings; i++) {
        const struct cs_mindformers_warning *w = &config->warnings[i];
        if (is_of_model(w->key)) {
            list[model->n_warnings++] = (struct cs_mindformers_warning){
                cs_arena_strdup(&model->arena, w->key), cs_arena_strdup(&model->arena, w->file), w->line,
                cs_arena_strdup(&model->arena, w->text)};
        }
    }
    model->warnings = list;
}

/** The model of a MindFormers configuration. */
static cs_status load_mindformers(struct cs_model *model, const char *path, struct cs_err *err)
{
    cs_status st;
    struct cs_mindformers config = {0};
    CS_TRY(cs_mindformers_load(&config, path, err));
    if (!config.has_model) {
        st = cs_err_set(
            err, CS_E_INPUT, (struct cs_loc){.file = path},
            "this MindFormers configuration does not give the model's layers, hidden size, heads and "
            "vocabulary");
        goto out;
    }
    *model = config.model;
    config.model = (struct cs_model){0};
    keep_warnings(model, &config);
out:
    cs_mindformers_release(&config);
    return st;
}

static const char *const resnet_keys[] = {"name",   "source", "published_params", "kind",
                                          "blocks", "image",  "classes",          NULL};

/** `kind: resnet`: blocks of each stage, image size, classes. */
static cs_status read_resnet(struct cs_model *model, const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st;
    const struct cs_yaml_node *blocks;
    CS_TRY(cs_yaml_check_keys(root, resnet_keys, "the model", err));
    CS_TRY(need_int(root, "image", IMAGE_MAX, &model->image, err));
    CS_TRY(need_int(root, "classes", WIDTH_MAX, &model->vocab, err));
    CS_TRY(cs_yaml_need(root, "blocks", &blocks, err));
    CS_TRY(cs_yaml_want(blocks, CS_YAML_LIST, "blocks", err));
    if (blocks->n != CS_RESNET_STAGES) {
        return cs_err_set(err, CS_E_INPUT, blocks->loc,
                          "'blocks' has %d numbers, not one for each of %d stages", (int)blocks->n,
                          CS_RESNET_STAGES);
    }
    for (int32_t i = 0; i < CS_RESNET_STAGES; i++) {
        int64_t n;
        CS_TRY(cs_yaml_int(blocks->items[i], 1, 1024, "blocks", &n, err));
        model->resnet_blocks[i] = (int32_t)n;
        model->n_layers += (int32_t)n;
    }
    CS_TRY(cs_yaml_opt_real(root, "published_params", 0, 1e18, &model->published_params, err));
    /* Nothing that tensor parallelism could cut. */
    model->hidden = model->ffn = model->n_heads = model->n_kv_heads = model->head_dim = 1;
    model->norm = CS_NORM_LAYER;
    model->position = CS_POS_NONE;
    model->activation = CS_ACT_RELU;
    model->flash_attention = true;
out:
    return st;
}

static bool is_resnet(const struct cs_yaml_node *root)
{
    const struct cs_yaml_node *kind = cs_yaml_get(root, "kind");
    return kind != NULL && kind->kind == CS_YAML_SCALAR && strcmp(kind->text, "resnet") == 0;
}

/** A transformer has no `kind`. */
static cs_status check_kind(const struct cs_yaml_node *root, struct cs_err *err)
{
    const struct cs_yaml_node *kind = cs_yaml_get(root, "kind");
    char shown[CS_TEXT_CLIP_BYTES];
    if (kind == NULL || is_resnet(root)) {
        return CS_OK;
    }
    return cs_err_set(err, CS_E_INPUT, kind->loc,
                      "'kind' is %s%s%s, expected 'resnet'; a transformer is described without 'kind'",
                      kind->kind == CS_YAML_SCALAR ? "'" : "",
                      kind->kind == CS_YAML_SCALAR ? cs_text_clip(kind->text, shown) : "no single value",
                      kind->kind == CS_YAML_SCALAR ? "'" : "");
}

static cs_status read_transformer(struct cs_model *model, const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st;
    CS_TRY(cs_yaml_check_keys(root, model_keys, "the model", err));
    CS_TRY(read_sizes(model, root, err));
    CS_TRY(read_kind(model, root, err));
    CS_TRY(read_experts(model, root, err));
    CS_TRY(read_latent(model, root, err));
out:
    return st;
}

static cs_status read_model(struct cs_model *model, const struct cs_yaml_node *root, const char *name,
                            struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_model read = {0};
    CS_TRY(cs_yaml_want(root, CS_YAML_MAP, "a model", err));
    CS_TRY(read_texts(&read, root, name, err));
    CS_TRY(check_kind(root, err));
    CS_TRY((is_resnet(root) ? read_resnet : read_transformer)(&read, root, err));
    CS_TRY(check_sizes(&read, root, err));
    read.content_hash = cs__model_hash(&read);
    *model = read;
    read = (struct cs_model){0};
out:
    cs_model_release(&read);
    return st;
}

cs_status cs_model_load(struct cs_model *model, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_yaml yaml = {.last_wins = true};
    CS_TRY(cs_yaml_load_file(&yaml, path, err));
    if (cs_mindformers_is(yaml.root)) {
        CS_TRY(load_mindformers(model, path, err));
        goto out;
    }
    if (yaml.n_repeats > 0) { /* our own files have a key once */
        cs_yaml_release(&yaml);
        yaml.last_wins = false;
        CS_TRY(cs_yaml_load_file(&yaml, path, err));
    }
    CS_TRY(read_model(model, yaml.root, path, err));
out:
    cs_yaml_release(&yaml);
    return st;
}

cs_status cs_model_load_text(struct cs_model *model, const char *text, size_t bytes, const char *name,
                             struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_yaml yaml = {0};
    CS_TRY(cs_yaml_load_text(&yaml, text, bytes, name, err));
    CS_TRY(read_model(model, yaml.root, name, err));
out:
    cs_yaml_release(&yaml);
    return st;
}

void cs_model_release(struct cs_model *model)
{
    cs_arena_release(&model->arena);
    *model = (struct cs_model){0};
}
