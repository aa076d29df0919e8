/* MindFormers configurations: the model. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <string.h>
#include <strings.h>

#define WIDTH_MAX (INT64_C(1) << 24)
#define LAYERS_MAX 16384
#define EXPERTS_MAX 65536
/* What the old style's moe_config has when it does not say (mindformers/modules/transformer/moe.py). */
#define OLD_CAPACITY_FACTOR 1.1

/** A value of the model, wherever it may be: model_config, moe_config, config.json. */
static const struct cs_yaml_node *find(struct cs_mf *mf, const char *const *names)
{
    const struct cs_yaml_node *sections[] = {mf->model, mf->moe, mf->hub};
    const struct cs_yaml_node *found = NULL;
    for (int32_t i = 0; i < CS_COUNT(sections); i++) {
        const struct cs_yaml_node *node = cs__mf_get(mf, sections[i], names);
        cs__mf_prefer(mf, found, node, names[0]);
        found = found != NULL ? found : node;
    }
    return found;
}
#define FIND(mf, ...) find((mf), (const char *const[]){__VA_ARGS__, NULL})

/** Families whose blocks differ from LLaMA's, by the beginning of `type`, `model_type` or `architectures`. */
enum family { FAMILY_LLAMA, FAMILY_DEEPSEEK_V3, FAMILY_BERT, FAMILY_GPT, FAMILY_BLOOM, FAMILY_QWEN2 };

/** What the file calls the model: the family of its blocks. One that is not known is listed. */
static cs_status read_family(struct cs_mf *mf, enum family *family, const char **name, struct cs_err *err)
{
    static const struct {
        const char *begin; /* without regard to case */
        enum family family;
    } rows[] = {{"deepseekv3", FAMILY_DEEPSEEK_V3},
                {"deepseek_v3", FAMILY_DEEPSEEK_V3},
                {"bert", FAMILY_BERT},
                {"gpt2", FAMILY_GPT},
                {"pangualpha", FAMILY_GPT},
                {"bloom", FAMILY_BLOOM},
                {"qwen2", FAMILY_QWEN2},
                {"llama", FAMILY_LLAMA},
                {"parallelllama", FAMILY_LLAMA},
                {"qwen3", FAMILY_LLAMA},
                {"mixtral", FAMILY_LLAMA},
                {"mistral", FAMILY_LLAMA},
                {"deepseek", FAMILY_LLAMA}};
    static const char *const keys[] = {"model_type", "type", "name"};
    const struct cs_yaml_node *at = NULL;
    cs_status st = CS_OK;
    *family = FAMILY_LLAMA;
    *name = "";
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        const struct cs_yaml_node *node = FIND(mf, keys[i]);
        const char *text = "";
        CS_TRY(cs__mf_text(node, keys[i], &text, err));
        if (node != NULL && at == NULL) {
            CS_TRY(cs__printable(node, keys[i], err));
            at = node;
            *name = text;
        }
    }
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        if (strncasecmp(*name, rows[i].begin, strlen(rows[i].begin)) == 0) {
            *family = rows[i].family;
            goto out;
        }
    }
    if (at != NULL) {
        char shown[CS_TEXT_CLIP_BYTES];
        cs__mf_warn(mf, "model.model_config.type", at, "'%s' is not known: its layers are taken as LLaMA's",
                    cs_text_clip(*name, shown));
    }
out:
    return st;
}

/** Index of a word in `names`; one that is not there is listed, with what is modelled instead, and leaves
 * *index as it is. */
static cs_status read_word(struct cs_mf *mf, const struct cs_yaml_node *node, const char *key,
                           const char *const *names, const char *instead, int32_t *index, struct cs_err *err)
{
    const char *text = "";
    char shown[CS_TEXT_CLIP_BYTES];
    cs_status st = cs__mf_text(node, key, &text, err);
    if (st != CS_OK || node == NULL) {
        return st;
    }
    int32_t found = cs_text_index(text, names);
    if (found < 0) {
        cs__mf_warn(mf, cs_arena_printf(&mf->out->arena, "model.model_config.%s", key), node,
                    "'%s' is not modelled: %s", cs_text_clip(text, shown), instead);
    } else {
        *index = found;
    }
    return CS_OK;
}

struct size {
    int64_t *value;
    int64_t max;
    const char *names[7];
};

static cs_status read_sizes(struct cs_mf *mf, const struct size *sizes, int32_t n, struct cs_err *err)
{
    cs_status st = CS_OK;
    for (int32_t i = 0; i < n; i++) {
        CS_TRY(cs__mf_int(find(mf, sizes[i].names), 0, sizes[i].max, sizes[i].names[0], sizes[i].value, err));
    }
out:
    return st;
}

/** Width of the MLP when the file leaves it to LLaMA's rule: 8/3 of the hidden size, times the multiplier,
 *  rounded up to multiple_of (MindFormers r1.5, llama.py; the 0.01 is there). */
static cs_status default_ffn(struct cs_mf *mf, int64_t hidden, int64_t *ffn, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = FIND(mf, "ffn_dim_multiplier");
    int64_t multiple = 256;
    double multiplier = 0;
    int64_t width = 4 * hidden;
    CS_TRY(cs__mf_int(FIND(mf, "multiple_of"), 1, WIDTH_MAX, "multiple_of", &multiple, err));
    if (node != NULL) {
        CS_TRY(cs_yaml_real(node, 0.01, 100, "ffn_dim_multiplier", &multiplier, err));
    }
    if (*ffn > 0) {
        goto out; /* the file says it */
    }
    if (node != NULL) {
        width = (int64_t)((multiplier + 0.01) * (double)width);
    }
    width = 2 * width / 3;
    *ffn = (width + multiple - 1) / multiple * multiple;
out:
    return st;
}

/** Activation, normalisation and position of the blocks where the file names them. */
static cs_status read_words(struct cs_mf *mf, bool classic, struct cs_err *err)
{
    static const char *const acts[] = {"silu", "swiglu",    "swish",    "fusedswiglu", "gelu",      "geglu",
                                       "relu", "gelu_fast", "gelu_new", "quick_gelu",  "fast_gelu", NULL};
    static const enum cs_activation gated[] = {CS_ACT_SWIGLU, CS_ACT_SWIGLU, CS_ACT_SWIGLU, CS_ACT_SWIGLU,
                                               CS_ACT_GEGLU,  CS_ACT_GEGLU,  CS_ACT_RELU,   CS_ACT_GEGLU,
                                               CS_ACT_GEGLU,  CS_ACT_GEGLU,  CS_ACT_GEGLU};
    static const enum cs_activation plain[] = {CS_ACT_SILU, CS_ACT_SWIGLU, CS_ACT_SILU, CS_ACT_SWIGLU,
                                               CS_ACT_GELU, CS_ACT_GEGLU,  CS_ACT_RELU, CS_ACT_GELU,
                                               CS_ACT_GELU, CS_ACT_GELU,   CS_ACT_GELU};
    static const char *const norms[] = {"LayerNorm",    "FusedLayerNorm", "RMSNorm",
                                        "FusedRMSNorm", "Norm",           NULL};
    static const char *const positions[] = {"rope",  "yarn", "partial_rope", "learned_absolute",
                                            "alibi", "none", "relative",     NULL};
    static const enum cs_position kinds[] = {CS_POS_ROPE,    CS_POS_ROPE,  CS_POS_ROPE,
                                             CS_POS_LEARNED, CS_POS_ALIBI, CS_POS_NONE};
    cs_status st;
    struct cs_model *m = &mf->out->model;
    int32_t act = -1;
    int32_t norm = -1;
    int32_t position = -1;
    bool gate = !classic;
    CS_TRY(cs__mf_bool(FIND(mf, "gated_linear_unit"), "gated_linear_unit", &gate, err));
    m->activation = classic ? CS_ACT_GELU : gate ? CS_ACT_SWIGLU : CS_ACT_SILU;
    CS_TRY(read_word(mf, FIND(mf, "hidden_act"), "hidden_act", acts,
                     classic ? "gelu is"
                     : gate  ? "silu with a gate is"
                             : "silu is",
                     &act, err));
    if (act >= 0) {
        m->activation = gate ? gated[act] : plain[act];
    }
    CS_TRY(read_word(mf, FIND(mf, "normalization"), "normalization", norms,
                     classic ? "layer normalisation is" : "RMS normalisation is", &norm, err));
    m->norm = (norm < 0 && classic) || norm == 0 || norm == 1 ? CS_NORM_LAYER : CS_NORM_RMS;
    const struct cs_yaml_node *node = FIND(mf, "position_embedding_type");
    if (node != NULL) {
        CS_TRY(cs_yaml_choice(node, positions, "position_embedding_type", &position, err));
    }
    if (position >= CS_COUNT(kinds)) {
        cs__mf_warn(mf, "model.model_config.position_embedding_type", node,
                    "relative positions are not modelled: %s", classic ? "the family's are" : "rotation is");
    } else if (position >= 0) {
        m->position = kinds[position];
    }
out:
    return st;
}

static cs_status read_blocks(struct cs_mf *mf, enum family family, const char *name, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_model *m = &mf->out->model;
    const bool classic = family == FAMILY_BERT || family == FAMILY_GPT || family == FAMILY_BLOOM;
    m->position = family == FAMILY_BLOOM ? CS_POS_ALIBI : classic ? CS_POS_LEARNED : CS_POS_ROPE;
    m->linear_bias = m->tied_embedding = classic;
    m->causal = family != FAMILY_BERT;
    m->qkv_bias = family == FAMILY_QWEN2;
    m->embedding_norm = family == FAMILY_BERT || family == FAMILY_BLOOM;
    m->head_transform = family == FAMILY_BERT;
    m->flash_attention = mf->new_style; /* as each style's defaults are */
    CS_TRY(read_words(mf, classic, err));
    bool untied = !m->tied_embedding;
    CS_TRY(cs__mf_bool(FIND(mf, "untie_embeddings_and_output_weights"), "untie_embeddings_and_output_weights",
                       &untied, err));
    m->tied_embedding = !untied;
    CS_TRY(cs__mf_bool(FIND(mf, "tie_word_embeddings"), "tie_word_embeddings", &m->tied_embedding, err));
    CS_TRY(cs__mf_bool(FIND(mf, "qkv_has_bias", "add_qkv_bias", "attention_bias"), "qkv_has_bias",
                       &m->qkv_bias, err));
    CS_TRY(cs__mf_bool(FIND(mf, "add_bias_linear"), "add_bias_linear", &m->linear_bias, err));
    m->qk_norm = strncasecmp(name, "qwen3", 5) == 0;
    CS_TRY(cs__mf_bool(FIND(mf, "qk_layernorm"), "qk_layernorm", &m->qk_norm, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->model, "use_flash_attention"), "use_flash_attention",
                       &m->flash_attention, err));
    int64_t token_types = 0;
    CS_TRY(cs__mf_int(FIND(mf, "type_vocab_size"), 0, 1024, "type_vocab_size", &token_types, err));
    m->n_token_types = family == FAMILY_BERT ? (int32_t)token_types : 0;
out:
    return st;
}

/** Do experts drop what is beyond their capacity? Said by the order in which they do, or by False. */
static cs_status read_drops(struct cs_mf *mf, bool *drops, struct cs_err *err)
{
    static const char *const policies[] = {"probs", "position", NULL};
    const struct cs_yaml_node *node = FIND(mf, "moe_token_drop_policy");
    const char *text = "";
    cs_status st = cs__mf_text(node, "moe_token_drop_policy", &text, err);
    if (st != CS_OK || node == NULL || cs_text_index(text, policies) >= 0) {
        return st;
    }
    if (cs_yaml_bool(node, "moe_token_drop_policy", drops, NULL) != CS_OK) {
        return cs_err_set(err, CS_E_INPUT, node->loc,
                          "'moe_token_drop_policy' should be probs, position or False");
    }
    return CS_OK;
}

static cs_status read_experts(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_model *m = &mf->out->model;
    int64_t experts = 0;
    int64_t chosen = 1;
    int64_t shared = 0;
    int64_t dense = 0;
    bool grouped = false;
    bool drops = true;
    const struct size sizes[] = {
        {&experts,
         EXPERTS_MAX,
         {"n_routed_experts", "num_experts", "expert_num", "num_local_experts", "num_moe_experts"}},
        {&chosen, EXPERTS_MAX, {"num_experts_per_tok", "num_experts_chosen", "moe_router_topk"}},
        {&shared, EXPERTS_MAX, {"n_shared_experts", "shared_expert_num"}},
        {&dense, LAYERS_MAX, {"first_k_dense_replace"}},
        {&m->expert_ffn, WIDTH_MAX, {"moe_intermediate_size", "moe_ffn_hidden_size"}}};
    CS_TRY(read_sizes(mf, sizes, CS_COUNT(sizes), err));
    const struct cs_yaml_node *capacity = FIND(mf, "capacity_factor", "moe_expert_capacity_factor");
    const struct cs_yaml_node *gemm = FIND(mf, "use_gmm", "moe_grouped_gemm");
    CS_TRY(cs__mf_bool(gemm, "use_gmm", &grouped, err));
    CS_TRY(read_drops(mf, &drops, err));
    if (experts <= 1) {
        m->expert_ffn = 0;
        cs__mf_settle_key(mf, mf->root, "moe_config"); /* without experts it says nothing */
        goto out;
    }
    CS_TRY(cs__mf_int(FIND(mf, "num_experts_per_tok", "num_experts_chosen", "moe_router_topk"), 1,
                      EXPERTS_MAX, "num_experts_per_tok", &chosen, err));
    m->n_experts = (int32_t)experts;
    m->experts_per_token = (int32_t)(chosen < experts ? chosen : experts);
    m->n_shared_experts = (int32_t)shared;
    m->first_dense_layers = (int32_t)(dense < m->n_layers ? dense : m->n_layers);
    if (m->n_layers > 0 && dense > m->n_layers) {
        st = cs_err_set(err, CS_E_INPUT, FIND(mf, "first_k_dense_replace")->loc,
                        "'first_k_dense_replace' is %lld, more than the %d layers", (long long)dense,
                        (int)m->n_layers);
        goto out;
    }
    m->expert_ffn = m->expert_ffn > 0 ? m->expert_ffn : m->ffn;
    mf->separate_experts = mf->new_style && gemm != NULL && !grouped;
    if (!grouped && drops) {
        double factor = mf->moe != NULL && !mf->new_style ? OLD_CAPACITY_FACTOR : 0;
        if (capacity != NULL) {
            CS_TRY(cs_yaml_real(capacity, -1e9, 1000, "capacity_factor", &factor, err));
        }
        m->capacity_factor = factor >= 0.01 ? factor : 0; /* below: none is dropped */
    }
out:
    return st;
}

/** What MindFormers' DeepseekV3Config has when the file does not say (arXiv 2412.19437, section 4.2). */
static void deepseek_defaults(struct cs_mf *mf)
{
    struct cs_model *m = &mf->out->model;
    const struct {
        int64_t *value;
        int64_t usual;
        const char *name;
    } rows[] = {{&m->n_heads, 128, "num_attention_heads"}, {&m->q_lora_rank, 1536, "q_lora_rank"},
                {&m->kv_lora_rank, 512, "kv_lora_rank"},   {&m->qk_nope_head_dim, 128, "qk_nope_head_dim"},
                {&m->v_head_dim, 128, "v_head_dim"},       {&m->qk_rope_head_dim, 64, "qk_rope_head_dim"}};
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        if (*rows[i].value == 0) {
            *rows[i].value = rows[i].usual;
            cs__mf_warn(mf, "model.model_config", mf->model, "no '%s': taken as DeepSeek-V3's %lld",
                        rows[i].name, (long long)rows[i].usual);
        }
    }
    if (m->n_experts == 0) {
        m->n_experts = 256;
        m->experts_per_token = 8;
        m->n_shared_experts = 1;
        m->first_dense_layers = m->n_layers < 3 ? m->n_layers : 3;
        m->expert_ffn = m->expert_ffn > 0 ? m->expert_ffn : 2048;
        cs__mf_warn(mf, "model.model_config", mf->model,
                    "no number of experts: taken as DeepSeek-V3's 256 with 8 per token and 1 shared");
    }
}

/** Sizes that contradict each other would break the graph. */
static cs_status check_model(struct cs_mf *mf, struct cs_err *err)
{
    const struct cs_model *m = &mf->out->model;
    const struct cs_yaml_node *at = mf->model != NULL ? mf->model : mf->root;
    const struct cs_yaml_node *width = FIND(mf, "hidden_size", "dim");
    if (FIND(mf, "head_dim", "kv_channels") == NULL && m->kv_lora_rank == 0 && m->hidden % m->n_heads != 0) {
        return cs_err_set(err, CS_E_INPUT, width->loc,
                          "'hidden_size' %lld is not divisible by the %lld heads", (long long)m->hidden,
                          (long long)m->n_heads);
    }
    if (m->head_dim == 0 || m->n_kv_heads == 0 || m->n_heads % m->n_kv_heads != 0) {
        return cs_err_set(err, CS_E_INPUT, at->loc,
                          "hidden size %lld, %lld heads and %lld key-value heads do not fit each other",
                          (long long)m->hidden, (long long)m->n_heads, (long long)m->n_kv_heads);
    }
    if (cs__model_params_estimate(m) > CS_MODEL_PARAMS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, at->loc, "these sizes make about %.3g parameters, more than %.0e",
                          cs__model_params_estimate(m), CS_MODEL_PARAMS_MAX);
    }
    bool latent = m->kv_lora_rank > 0;
    if (latent && (m->qk_nope_head_dim == 0 || m->qk_rope_head_dim == 0 || m->v_head_dim == 0 ||
                   m->n_kv_heads != m->n_heads || m->position != CS_POS_ROPE)) {
        return cs_err_set(
            err, CS_E_INPUT, at->loc,
            "latent attention needs qk_nope_head_dim, qk_rope_head_dim and v_head_dim, rope, and as "
            "many key-value heads as heads");
    }
    if (m->n_experts > 0 && m->linear_bias) {
        return cs_err_set(err, CS_E_INPUT, at->loc, "experts with biases are not modelled");
    }
    if (m->n_experts > 0 && m->activation != CS_ACT_SWIGLU && m->activation != CS_ACT_GEGLU) {
        return cs_err_set(err, CS_E_INPUT, at->loc, "experts with a plain activation are not modelled");
    }
    return CS_OK;
}

cs_status cs__mf_model(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_model *m = &mf->out->model;
    int64_t layers = 0;
    int64_t mtp = 0;
    enum family family;
    const char *name = "";
    const struct size sizes[] = {
        {&layers, LAYERS_MAX, {"num_hidden_layers", "num_layers", "n_layers"}},
        {&m->hidden, WIDTH_MAX, {"hidden_size", "dim"}},
        {&m->n_heads, WIDTH_MAX, {"num_attention_heads", "num_heads", "n_heads"}},
        {&m->n_kv_heads, WIDTH_MAX, {"num_key_value_heads", "n_kv_heads", "num_query_groups"}},
        {&m->head_dim, WIDTH_MAX, {"head_dim", "kv_channels"}},
        {&m->ffn, WIDTH_MAX, {"intermediate_size", "ffn_hidden_size", "inter_dim"}},
        {&m->vocab, INT64_C(1) << 28, {"vocab_size"}},
        {&m->max_position, INT64_C(1) << 28, {"max_position_embeddings", "max_position_embedding"}},
        {&m->q_lora_rank, WIDTH_MAX, {"q_lora_rank"}},
        {&m->kv_lora_rank, WIDTH_MAX, {"kv_lora_rank"}},
        {&m->qk_nope_head_dim, WIDTH_MAX, {"qk_nope_head_dim", "qk_head_dim"}},
        {&m->qk_rope_head_dim, WIDTH_MAX, {"qk_rope_head_dim", "qk_pos_emb_head_dim"}},
        {&m->v_head_dim, WIDTH_MAX, {"v_head_dim"}},
        {&mtp, 16, {"mtp_depth", "num_nextn_predict_layers", "mtp_num_layers"}}};
    CS_TRY(read_sizes(mf, sizes, CS_COUNT(sizes), err));
    mf->n_layers = m->n_layers = (int32_t)layers;
    mf->n_mtp_layers = m->n_mtp_layers = (int32_t)mtp;
    CS_TRY(read_family(mf, &family, &name, err));
    CS_TRY(read_blocks(mf, family, name, err));
    CS_TRY(read_experts(mf, err));
    if (layers == 0 || m->hidden == 0 || m->vocab == 0) {
        goto out; /* a fragment, or sizes elsewhere */
    }
    if (family == FAMILY_DEEPSEEK_V3) {
        deepseek_defaults(mf);
    }
    if (m->n_heads == 0) {
        goto out;
    }
    m->n_kv_heads = m->kv_lora_rank > 0 || m->n_kv_heads == 0 ? m->n_heads : m->n_kv_heads;
    m->head_dim = m->head_dim > 0 ? m->head_dim : m->hidden / m->n_heads;
    CS_TRY(default_ffn(mf, m->hidden, &m->ffn, err));
    if (m->n_experts > 0 && m->expert_ffn == 0) {
        m->expert_ffn = m->ffn;
    }
    if (m->position == CS_POS_LEARNED && m->max_position == 0) {
        CS_TRY(cs__mf_int(CS_MF_GET(mf, mf->model, "seq_length"), 1, WIDTH_MAX, "seq_length",
                          &m->max_position, err));
        m->max_position = m->max_position > 0 ? m->max_position : 1024;
    }
    CS_TRY(check_model(mf, err));
    m->name = cs_arena_strdup(&m->arena, name[0] != '\0' ? name : "mindformers");
    m->source = cs_arena_strdup(&m->arena, mf->root->loc.file != NULL ? mf->root->loc.file : "");
    m->content_hash = cs__model_hash(m);
    mf->out->has_model = true;
out:
    return st;
}
