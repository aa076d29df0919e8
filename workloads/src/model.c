/* Reading model files. */
#include "cs/workloads/model.h"

#include "cs/base/text.h"

#include <math.h>

/* Sizes beyond any model that was ever trained, small enough that products stay exact. */
#define LAYERS_MAX 16384
#define WIDTH_MAX (INT64_C(1) << 24)
#define VOCAB_MAX (INT64_C(1) << 28)
#define POSITION_MAX (INT64_C(1) << 28)
/* What published counts are rounded to; a larger difference is a wrong size in the file. */
#define PUBLISHED_TOLERANCE_FRAC 0.005

static const char *const norm_names[] = {"rms", "layer", NULL};
static const char *const activation_names[] = {"swiglu", "geglu", "gelu", "relu", "silu", NULL};
static const char *const position_names[] = {"rope", "learned", "alibi", "none", NULL};

static const char *const model_keys[] = {"name",       "source",         "published_params",
                                         "layers",     "hidden",         "heads",
                                         "kv_heads",   "head_dim",       "ffn",
                                         "vocab",      "max_position",   "norm",
                                         "activation", "position",       "linear_bias",
                                         "qkv_bias",   "tied_embedding", "flash_attention",
                                         "causal",     "dropout",        NULL};

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

static cs_status read_texts(struct cs_model *model, const struct cs_yaml_node *root, const char *path,
                            struct cs_err *err)
{
    const char *name = NULL;
    const char *source = NULL;
    cs_status st;
    CS_TRY(cs_yaml_opt_text(root, "name", &name, err));
    CS_TRY(cs_yaml_opt_text(root, "source", &source, err));
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
    double params = (double)cs_model_params(model);
    double published = model->published_params;
    if (published > 0 && fabs(params - published) > PUBLISHED_TOLERANCE_FRAC * published) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(root, "published_params")->loc,
                          "'published_params' is %.6g, but these sizes make %.6g parameters", published,
                          params);
    }
    return CS_OK;
}

static uint64_t hash_model(const struct cs_model *model)
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
    return cs_hash_real(cs_hash_text(hash, model->name), model->dropout_frac);
}

cs_status cs_model_load(struct cs_model *model, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_yaml yaml = {0};
    struct cs_model read = {0};
    CS_TRY(cs_yaml_load_file(&yaml, path, err));
    CS_TRY(cs_yaml_want(yaml.root, CS_YAML_MAP, "a model", err));
    CS_TRY(cs_yaml_check_keys(yaml.root, model_keys, "the model", err));
    CS_TRY(read_texts(&read, yaml.root, path, err));
    CS_TRY(read_sizes(&read, yaml.root, err));
    CS_TRY(read_kind(&read, yaml.root, err));
    CS_TRY(check_sizes(&read, yaml.root, err));
    read.content_hash = hash_model(&read);
    *model = read;
    read = (struct cs_model){0};
out:
    cs_model_release(&read);
    cs_yaml_release(&yaml);
    return st;
}

void cs_model_release(struct cs_model *model)
{
    cs_arena_release(&model->arena);
    *model = (struct cs_model){0};
}
