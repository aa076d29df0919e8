/**
 * @file model.h
 * Models: what a YAML file under workloads/models/ says, its parameters and its floating-point work.
 */
#ifndef CS_WORKLOADS_MODEL_H
#define CS_WORKLOADS_MODEL_H

#include "cs/base/err.h"
#include "cs/base/mem.h"
#include "cs/base/yaml.h"
#include "cs/platforms/chip.h"

enum cs_norm { CS_NORM_RMS, CS_NORM_LAYER };
enum cs_activation { CS_ACT_SWIGLU, CS_ACT_GEGLU, CS_ACT_GELU, CS_ACT_RELU, CS_ACT_SILU };
enum cs_position { CS_POS_ROPE, CS_POS_LEARNED, CS_POS_ALIBI, CS_POS_NONE };

struct cs_mindformers_warning;

#define CS_RESNET_STAGES 4
/** A decoder or encoder transformer, dense or mixture of experts; or a residual network of bottlenecks. Open
 * record; texts live in its arena. */
struct cs_model {
    struct cs_arena arena;
    const char *name;
    const char *source;
    double published_params; /* @unit parameters, as published; 0 = the file does not say */
    int32_t n_layers;
    int64_t hidden;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    int64_t ffn;
    int64_t vocab;
    int64_t max_position; /* learned positions */
    enum cs_norm norm;
    enum cs_activation activation;
    enum cs_position position;
    bool linear_bias;     /* projections carry biases */
    bool qkv_bias;        /* the query, key, value projections do, even if the others do not */
    bool tied_embedding;  /* head shares the vocabulary matrix */
    bool flash_attention; /* fused attention core; a study may override */
    bool causal;
    bool qk_norm;          /* queries and keys are normalised per head */
    bool embedding_norm;   /* a normalisation behind the embedding */
    bool head_transform;   /* a dense layer before the vocabulary (BERT) */
    int32_t n_token_types; /* segment embeddings (BERT); 0 = none */
    double dropout_frac;   /* > 0: masks are kept as Korthikanti et al. count them */
    /* mixture of experts: 0 experts = dense */
    int32_t n_experts;
    int32_t experts_per_token;
    int32_t n_shared_experts;
    int64_t expert_ffn;
    int32_t first_dense_layers;
    double capacity_factor; /* @unit rows an expert takes / its even share; 0 = 1: none dropped, even load */
    /* multi-head latent attention: 0 = off */
    int64_t q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    int32_t n_mtp_layers; /* multi-token prediction */
    /* residual network: 0 pixels = a transformer; n_layers are its blocks, vocab its classes */
    int64_t image; /* pixels along one side */
    int32_t resnet_blocks[CS_RESNET_STAGES];
    uint64_t content_hash;
    /* of a MindFormers configuration: what it says of the model and is not modelled (mindformers.h) */
    int32_t n_warnings;
    const struct cs_mindformers_warning *warnings;
};

/** Read a model file, or the model of a MindFormers configuration (mindformers.h). Unknown keys, missing
 * keys, impossible sizes (heads not divisible by kv_heads,
 *  ...): CS_E_INPUT with file and line. `published_params` further than 0.5 % from the computed count is an
 *  error too. */
CS_MUST_CHECK cs_status cs_model_load(struct cs_model *model, const char *path, struct cs_err *err);
/** The same from a text, model files only; `name` is shown in messages. */
CS_MUST_CHECK cs_status cs_model_load_text(struct cs_model *model, const char *text, size_t bytes,
                                           const char *name, struct cs_err *err);
void cs_model_release(struct cs_model *model);

/** Exact parameter count (all experts, embeddings and head; a tied matrix once), without multi-token
 *  prediction modules: as models are published. */
int64_t cs_model_params(const struct cs_model *model);
/** The same with those modules: what is trained. */
int64_t cs_model_trained_params(const struct cs_model *model);
/** Parameters that one token meets (experts_per_token of the routed experts). */
int64_t cs_model_active_params(const struct cs_model *model);
/** Model floating-point work of one training step over `n_tokens` tokens in sequences of `seq_length`:
 *  forward + 2 x forward for backward, no recomputation; attention counted in full (Narayanan et al.,
 *  arXiv 2104.04473 eq. 3: 72 b s l h^2 (1 + s/6h + V/12lh) for a GPT), summed from the operator graph.
 *  Look-ups, normalisation and element-wise work are not model flops. */
double cs_model_step_flop(const struct cs_model *model, double n_tokens, int64_t seq_length);

#endif
