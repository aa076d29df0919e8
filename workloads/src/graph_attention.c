/* Attention: q, k, v by projections or through latents (MLA), the core fused or in kernels of its own. */
#include "graph_build_priv.h"

/** q, k, v by one product (GPT's layout and MindFormers' qkv_concat), then rotary embedding. */
static void add_qkv(struct cs_build *b, uint8_t x, uint8_t qkv[3])
{
    static const char *const names[3] = {"q", "k", "v"};
    struct cs_segment *segment = b->segment;
    struct cs_node *node = cs__build_matmul(b, "attention.qkv", x);
    for (int i = 0; i < 3; i++) {
        int8_t heads = i == 0 ? b->heads : b->kv_heads;
        cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->hidden, heads, b->head_dim)));
        if (b->model->linear_bias || b->model->qkv_bias) {
            cs__node_par(node, cs__segment_param(segment, "bias", CS_AXES(heads, b->head_dim)));
        }
        qkv[i] = cs__segment_tensor(segment, names[i], CS_AXES(b->batch, b->seq, heads, b->head_dim));
        cs__node_out(node, qkv[i]);
    }
    if (b->model->qk_norm) {
        for (int i = 0; i < 2; i++) {
            int8_t heads = i == 0 ? b->heads : b->kv_heads;
            qkv[i] = cs__build_norm(b, "attention.qk_norm", qkv[i], i == 0 ? "q normed" : "k normed",
                                    CS_AXES(b->batch, b->seq, heads, b->head_dim), b->head_dim);
        }
    }
    if (b->model->position != CS_POS_ROPE) {
        return;
    }
    node = cs__build_pointwise(b, "attention.rope", CS_OPKIND_ELEMENTWISE, ROPE_FLOP, ROPE_FLOP);
    node->chain = CS_CHAIN_ROPE;
    for (int i = 0; i < 2; i++) {
        int8_t heads = i == 0 ? b->heads : b->kv_heads;
        cs__node_in(node, qkv[i]);
        qkv[i] = cs__segment_tensor(segment, i == 0 ? "q rotated" : "k rotated",
                                    CS_AXES(b->batch, b->seq, heads, b->head_dim));
        cs__node_out(node, qkv[i]);
    }
}

/** A down-projection to a latent vector per token, normalised. */
static uint8_t add_latent(struct cs_build *b, struct cs_node *down, const char *norm, const char *name,
                          int8_t axis)
{
    const int8_t *axes = CS_AXES(b->batch, b->seq, axis);
    cs__node_par(down, cs__segment_param(b->segment, "weight", CS_AXES(b->hidden, axis)));
    uint8_t latent = cs__segment_tensor(b->segment, name, axes);
    cs__node_out(down, latent);
    return cs__build_norm(b, norm, latent, name, axes, axis);
}

/** Of what the rotation of latent attention reads and writes (queries, keys whole), the share that is
 * rotated: of each head's query a part, of the keys the part that is one for all heads. */
static double rotated_frac(const struct cs_model *model)
{
    double heads = (double)model->n_heads;
    double rotated = (double)model->qk_rope_head_dim;
    double whole = (double)(model->qk_nope_head_dim + model->qk_rope_head_dim);
    double moved = 3 * heads * whole + heads * (double)model->qk_nope_head_dim + rotated;
    return 2 * (heads + 1) * rotated / moved;
}

/** Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): q, k and v come from latents,
 * the rotated part of k is one for all heads. Down-projections have no axis that mp cuts. */
static void add_latent_qkv(struct cs_build *b, uint8_t x, uint8_t qkv[3])
{
    struct cs_segment *segment = b->segment;
    const int8_t *heads_axes = CS_AXES(b->batch, b->seq, b->heads, b->head_dim);
    uint8_t q_in = x;
    int8_t q_axis = b->hidden;
    if (b->q_latent >= 0) {
        q_in = add_latent(b, cs__build_matmul(b, "attention.q_down", x), "attention.q_norm", "q latent",
                          b->q_latent);
        q_axis = b->q_latent;
    }
    struct cs_node *node = cs__build_matmul(b, "attention.q_up", q_in);
    cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(q_axis, b->heads, b->head_dim)));
    qkv[0] = cs__segment_tensor(segment, "q", heads_axes);
    cs__node_out(node, qkv[0]);

    node = cs__build_matmul(b, "attention.kv_down", x);
    cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->hidden, b->rope)));
    uint8_t k_rope = cs__segment_tensor(segment, "k rope", CS_AXES(b->batch, b->seq, b->rope));
    cs__node_out(node, k_rope);
    uint8_t latent = add_latent(b, node, "attention.kv_norm", "kv latent", b->kv_latent);
    node = cs__build_matmul(b, "attention.kv_up", latent);
    cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->kv_latent, b->heads, b->nope)));
    cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->kv_latent, b->heads, b->v_dim)));
    uint8_t k_nope = cs__segment_tensor(segment, "k nope", CS_AXES(b->batch, b->seq, b->heads, b->nope));
    qkv[2] = cs__segment_tensor(segment, "v", CS_AXES(b->batch, b->seq, b->heads, b->v_dim));
    cs__node_out(node, k_nope);
    cs__node_out(node, qkv[2]);

    node = cs__build_pointwise(b, "attention.rope", CS_OPKIND_ELEMENTWISE, ROPE_FLOP, ROPE_FLOP);
    node->chain = CS_CHAIN_ROPE;
    node->unchained_frac = 1 - rotated_frac(b->model);
    cs__node_in(node, qkv[0]);
    cs__node_in(node, k_nope);
    cs__node_in(node, k_rope);
    qkv[0] = cs__segment_tensor(segment, "q rotated", heads_axes);
    qkv[1] = cs__segment_tensor(segment, "k rotated", heads_axes);
    cs__node_out(node, qkv[0]);
    cs__node_out(node, qkv[1]);
}

static uint8_t add_flash(struct cs_build *b, const uint8_t qkv[3])
{
    uint8_t out = cs__segment_tensor(b->segment, "context", CS_AXES(b->batch, b->seq, b->heads, b->v_dim));
    uint8_t statistics =
        cs__segment_tensor(b->segment, "softmax statistics", CS_AXES(b->batch, b->seq, b->heads, b->lane));
    b->segment->tensors[statistics].elt_bytes = 4;
    b->segment->tensors[statistics].no_grad = true;
    struct cs_node *node =
        cs__segment_node(b->segment, "attention.core", CS_WORK_FLASH, CS_OPKIND_FLASH_FORWARD);
    for (int i = 0; i < 3; i++) {
        cs__node_in(node, qkv[i]);
        cs__node_save(node, qkv[i]);
    }
    cs__node_out(node, out);
    cs__node_save(node, out);
    cs__node_save(node, statistics);
    node->axis_m = (uint8_t)b->seq;
    node->axis_n = (uint8_t)b->keys;
    node->axis_k = (uint8_t)b->head_dim;
    node->axis_v = (uint8_t)b->v_dim;
    node->attention = true;
    return out;
}

static struct cs_node *batch_matmul(struct cs_build *b, const char *label, uint8_t x, uint8_t y, uint8_t out)
{
    struct cs_node *node = cs__segment_node(b->segment, label, CS_WORK_BATCH_MATMUL, CS_OPKIND_BATCH_MATMUL);
    cs__node_in(node, x);
    cs__node_in(node, y);
    cs__node_out(node, out);
    cs__node_save(node, x);
    cs__node_save(node, y);
    return node;
}

/** Scores, softmax, dropout, context as kernels of their own; all of it is what selective recomputation runs
 *  again, and what it drops is 5 a s^2 b bytes (Korthikanti et al., section 5). */
static uint8_t add_core(struct cs_build *b, const uint8_t qkv[3])
{
    const int8_t *axes = CS_AXES(b->batch, b->heads, b->seq, b->keys);
    struct cs_segment *segment = b->segment;
    uint8_t scores = cs__segment_tensor(segment, "scores", axes);
    struct cs_node *node = batch_matmul(b, "attention.scores", qkv[0], qkv[1], scores);
    node->axis_m = (uint8_t)b->seq;
    node->axis_n = (uint8_t)b->keys;
    node->axis_k = (uint8_t)b->head_dim;
    node->selective = CS_SEL_DROP;

    uint8_t weights = cs__segment_tensor(segment, "attention weights", axes);
    node = cs__build_pointwise(b, "attention.softmax", CS_OPKIND_SOFTMAX, SOFTMAX_FORWARD_FLOP,
                               SOFTMAX_BACKWARD_FLOP);
    node->chain = CS_CHAIN_SCORES;
    cs__node_in(node, scores);
    cs__node_out(node, weights);
    cs__node_save(node, weights);
    node->selective = CS_SEL_DROP;

    if (b->model->dropout_frac > 0) {
        uint8_t dropped = cs__segment_tensor(segment, "dropped attention weights", axes);
        node = cs__build_pointwise(b, "attention.dropout", CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
        cs__node_in(node, weights);
        cs__node_out(node, dropped);
        cs__build_mask(b, node, axes);
        node->selective = CS_SEL_DROP;
        weights = dropped;
    }

    uint8_t out = cs__segment_tensor(segment, "context", CS_AXES(b->batch, b->seq, b->heads, b->v_dim));
    node = batch_matmul(b, "attention.context", weights, qkv[2], out);
    node->axis_m = (uint8_t)b->seq;
    node->axis_n = (uint8_t)b->v_dim;
    node->axis_k = (uint8_t)b->keys;
    node->selective = CS_SEL_RERUN;
    return out;
}

uint8_t cs__build_attention(struct cs_build *b, uint8_t x)
{
    uint8_t qkv[3];
    (b->kv_latent >= 0 ? add_latent_qkv : add_qkv)(b, x, qkv);
    uint8_t context = b->flash ? add_flash(b, qkv) : add_core(b, qkv);
    uint8_t out = cs__build_hidden(b, "attention");
    struct cs_node *node = cs__build_matmul(b, "attention.proj", context);
    cs__node_par(node, cs__segment_param(b->segment, "weight", CS_AXES(b->heads, b->v_dim, b->hidden)));
    cs__node_out(node, out);
    return out;
}
