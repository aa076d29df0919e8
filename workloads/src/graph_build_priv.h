/**
 * @file graph_build_priv.h
 * What the parts of a transformer's graph have in common while it is built.
 */
#ifndef CS_WORKLOADS_GRAPH_BUILD_PRIV_H
#define CS_WORKLOADS_GRAPH_BUILD_PRIV_H

#include "graph_priv.h"

/* Vector arithmetic per element, counted from the formulas; memory traffic decides the time of all of these.
 */
#define NORM_FORWARD_FLOP 5.0    /* square or subtract and square, sum, scale, gain, bias */
#define NORM_BACKWARD_FLOP 10.0  /* two sums and two scaled differences, gain and bias gradients */
#define SOFTMAX_FORWARD_FLOP 5.0 /* scale, maximum, subtract, exponentiate, divide */
#define SOFTMAX_BACKWARD_FLOP 4.0
#define ACTIVATION_FORWARD_FLOP 5.0
#define ACTIVATION_BACKWARD_FLOP 8.0
#define ROPE_FLOP 3.0
#define LOSS_FLOP 3.0
#define TOPK_FLOP 1.0 /* one comparison a score for each that is chosen */

/** Axes and the segment that grows. Axes that a model does not have are -1. */
struct cs_build {
    struct cs_graph *graph;
    const struct cs_model *model;
    bool flash;
    bool fused_glu;
    bool norms_separate;
    bool gate_separate;
    struct cs_segment *segment;
    int8_t batch, seq, keys, hidden, heads, kv_heads, head_dim, v_dim, ffn, vocab, position, lane, pair;
    int8_t token_types, hidden_out;
    int8_t q_latent, kv_latent, nope, rope;               /* multi-head latent attention */
    int8_t experts, chosen, rows, expert_ffn, shared_ffn; /* mixture of experts */
};

uint8_t cs__build_hidden(struct cs_build *b, const char *name);
struct cs_node *cs__build_pointwise(struct cs_build *b, const char *label, enum cs_opkind kind,
                                    double forward_flop, double backward_flop);
/** A normalisation over `axis` of a tensor with the given axes. */
uint8_t cs__build_norm(struct cs_build *b, const char *label, uint8_t x, const char *out_name,
                       const int8_t *axes, int8_t axis);
/** A one-byte-per-element mask that a dropout keeps (Korthikanti et al., arXiv 2205.05198, section 4.1). */
void cs__build_mask(struct cs_build *b, struct cs_node *node, const int8_t *axes);
/** A product whose operand is kept. */
struct cs_node *cs__build_matmul(struct cs_build *b, const char *label, uint8_t in);

/** The graph of a residual network. */
void cs__graph_resnet(struct cs_graph *graph, const struct cs_model *model, int64_t batch);

/** The attention block, from its normalised input to its output projection. */
uint8_t cs__build_attention(struct cs_build *b, uint8_t x);
/** The MLP, dense or of experts. */
uint8_t cs__build_ffn(struct cs_build *b, uint8_t x);
uint8_t cs__build_moe(struct cs_build *b, uint8_t x);

#endif
