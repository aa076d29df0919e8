/* The operator graph of a dense transformer. */
#include "graph_priv.h"

/* What a fused attention kernel keeps for its backward pass beside q, k, v and its output: per query and head
 * the maximum and the sum of the softmax, each padded to 8 fp32 lanes. Shape (B, N, S, 8) in the interface of
 * mindspore.ops.ring_attention_update (docs of r2.10). A kernel that keeps one log-sum-exp has 1 lane instead
 * of 16, about 1.5 % less per layer of a LLaMA. */
#define FLASH_STATISTIC_LANES 16

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

/** Axes and what the parts of a layer have in common. */
struct build {
    struct cs_graph *graph;
    const struct cs_model *model;
    bool flash;
    struct cs_segment *segment;
    int8_t batch, seq, keys, hidden, heads, kv_heads, head_dim, ffn, vocab, position, lane, pair;
};

static uint8_t hidden_tensor(struct build *b, const char *name)
{
    return cs__segment_tensor(b->segment, name, CS_AXES(b->batch, b->seq, b->hidden));
}

static struct cs_node *pointwise(struct build *b, const char *label, enum cs_opkind kind, double forward_flop,
                                 double backward_flop)
{
    struct cs_node *node = cs__segment_node(b->segment, label, CS_WORK_POINTWISE, kind);
    node->forward_flop_per_elt = forward_flop;
    node->backward_flop_per_elt = backward_flop;
    return node;
}

static uint8_t add_norm(struct build *b, const char *label, uint8_t x, const char *out_name)
{
    uint8_t out = hidden_tensor(b, out_name);
    struct cs_node *node = pointwise(b, label, CS_OPKIND_NORM, NORM_FORWARD_FLOP, NORM_BACKWARD_FLOP);
    cs__node_in(node, x);
    cs__node_out(node, out);
    cs__node_save(node, x);
    cs__node_par(node, cs__segment_param(b->segment, "gain", CS_AXES(b->hidden)));
    if (b->model->norm == CS_NORM_LAYER) {
        cs__node_par(node, cs__segment_param(b->segment, "bias", CS_AXES(b->hidden)));
    }
    return out;
}

/** A one-byte-per-element mask that a dropout keeps (Korthikanti et al., arXiv 2205.05198, section 4.1). */
static void keep_mask(struct build *b, struct cs_node *node, const int8_t *axes)
{
    uint8_t mask = cs__segment_tensor(b->segment, "mask", axes);
    b->segment->tensors[mask].elt_bytes = 1;
    b->segment->tensors[mask].no_grad = true;
    cs__node_save(node, mask);
}

/** x + dropout(y + bias). The bias of a row-cut projection is added here, once, after the reduction. */
static uint8_t add_residual(struct build *b, const char *label, uint8_t x, uint8_t y, const char *out_name)
{
    uint8_t out = hidden_tensor(b, out_name);
    struct cs_node *node = pointwise(b, label, CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
    cs__node_in(node, y);
    cs__node_in(node, x);
    cs__node_out(node, out);
    if (b->model->linear_bias) {
        cs__node_par(node, cs__segment_param(b->segment, "bias", CS_AXES(b->hidden)));
    }
    if (b->model->dropout_frac > 0) {
        keep_mask(b, node, CS_AXES(b->batch, b->seq, b->hidden));
    }
    return out;
}

static struct cs_node *matmul(struct build *b, const char *label, uint8_t in)
{
    struct cs_node *node = cs__segment_node(b->segment, label, CS_WORK_MATMUL, CS_OPKIND_MATMUL);
    cs__node_in(node, in);
    cs__node_save(node, in);
    return node;
}

/** q, k, v by one product (GPT's layout and MindFormers' qkv_concat), then rotary embedding. */
static void add_qkv(struct build *b, uint8_t x, uint8_t qkv[3])
{
    static const char *const names[3] = {"q", "k", "v"};
    struct cs_segment *segment = b->segment;
    struct cs_node *node = matmul(b, "attention.qkv", x);
    for (int i = 0; i < 3; i++) {
        int8_t heads = i == 0 ? b->heads : b->kv_heads;
        cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->hidden, heads, b->head_dim)));
        if (b->model->linear_bias || b->model->qkv_bias) {
            cs__node_par(node, cs__segment_param(segment, "bias", CS_AXES(heads, b->head_dim)));
        }
        qkv[i] = cs__segment_tensor(segment, names[i], CS_AXES(b->batch, b->seq, heads, b->head_dim));
        cs__node_out(node, qkv[i]);
    }
    if (b->model->position != CS_POS_ROPE) {
        return;
    }
    node = pointwise(b, "attention.rope", CS_OPKIND_ELEMENTWISE, ROPE_FLOP, ROPE_FLOP);
    for (int i = 0; i < 2; i++) {
        int8_t heads = i == 0 ? b->heads : b->kv_heads;
        cs__node_in(node, qkv[i]);
        qkv[i] = cs__segment_tensor(segment, i == 0 ? "q rotated" : "k rotated",
                                    CS_AXES(b->batch, b->seq, heads, b->head_dim));
        cs__node_out(node, qkv[i]);
    }
}

static uint8_t add_flash(struct build *b, const uint8_t qkv[3])
{
    uint8_t out = cs__segment_tensor(b->segment, "context", CS_AXES(b->batch, b->seq, b->heads, b->head_dim));
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
    return out;
}

static struct cs_node *batch_matmul(struct build *b, const char *label, uint8_t x, uint8_t y, uint8_t out)
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
static uint8_t add_core(struct build *b, const uint8_t qkv[3])
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
    node = pointwise(b, "attention.softmax", CS_OPKIND_SOFTMAX, SOFTMAX_FORWARD_FLOP, SOFTMAX_BACKWARD_FLOP);
    cs__node_in(node, scores);
    cs__node_out(node, weights);
    cs__node_save(node, weights);
    node->selective = CS_SEL_DROP;

    if (b->model->dropout_frac > 0) {
        uint8_t dropped = cs__segment_tensor(segment, "dropped attention weights", axes);
        node = pointwise(b, "attention.dropout", CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
        cs__node_in(node, weights);
        cs__node_out(node, dropped);
        keep_mask(b, node, axes);
        node->selective = CS_SEL_DROP;
        weights = dropped;
    }

    uint8_t out = cs__segment_tensor(segment, "context", CS_AXES(b->batch, b->seq, b->heads, b->head_dim));
    node = batch_matmul(b, "attention.context", weights, qkv[2], out);
    node->axis_m = (uint8_t)b->seq;
    node->axis_n = (uint8_t)b->head_dim;
    node->axis_k = (uint8_t)b->keys;
    node->selective = CS_SEL_RERUN;
    return out;
}

static uint8_t add_attention(struct build *b, uint8_t x)
{
    uint8_t qkv[3];
    add_qkv(b, x, qkv);
    uint8_t context = b->flash ? add_flash(b, qkv) : add_core(b, qkv);
    uint8_t out = hidden_tensor(b, "attention");
    struct cs_node *node = matmul(b, "attention.proj", context);
    cs__node_par(node, cs__segment_param(b->segment, "weight", CS_AXES(b->heads, b->head_dim, b->hidden)));
    cs__node_out(node, out);
    return out;
}

static uint8_t ffn_tensor(struct build *b, const char *name)
{
    return cs__segment_tensor(b->segment, name, CS_AXES(b->batch, b->seq, b->ffn));
}

/** act(gate) * up. Selective recomputation runs both again: MindFormers' default operator list
 *  (feed_forward.mul, w1.activation.silu). */
static uint8_t add_gated(struct build *b, uint8_t x)
{
    bool silu = b->model->activation == CS_ACT_SWIGLU;
    struct cs_node *node = matmul(b, "ffn.gate_up", x);
    uint8_t half[2];
    for (int i = 0; i < 2; i++) {
        half[i] = ffn_tensor(b, i == 0 ? "gate" : "up");
        cs__node_par(node, cs__segment_param(b->segment, "weight", CS_AXES(b->hidden, b->ffn)));
        if (b->model->linear_bias) {
            cs__node_par(node, cs__segment_param(b->segment, "bias", CS_AXES(b->ffn)));
        }
        cs__node_out(node, half[i]);
    }
    uint8_t activated = ffn_tensor(b, "activated gate");
    node = pointwise(b, silu ? "ffn.silu" : "ffn.gelu", CS_OPKIND_ELEMENTWISE, ACTIVATION_FORWARD_FLOP,
                     ACTIVATION_BACKWARD_FLOP);
    cs__node_in(node, half[0]);
    cs__node_out(node, activated);
    cs__node_save(node, half[0]);
    node->selective = CS_SEL_DROP;

    uint8_t product = ffn_tensor(b, "product");
    node = pointwise(b, "ffn.mul", CS_OPKIND_ELEMENTWISE, 1.0, 2.0);
    cs__node_in(node, activated);
    cs__node_in(node, half[1]);
    cs__node_out(node, product);
    cs__node_save(node, activated);
    cs__node_save(node, half[1]);
    node->selective = CS_SEL_DROP;
    return product;
}

static uint8_t add_plain(struct build *b, uint8_t x)
{
    static const char *const labels[] = {[CS_ACT_SWIGLU] = "",
                                         [CS_ACT_GEGLU] = "",
                                         [CS_ACT_GELU] = "ffn.gelu",
                                         [CS_ACT_RELU] = "ffn.relu",
                                         [CS_ACT_SILU] = "ffn.silu"};
    uint8_t inner = ffn_tensor(b, "inner");
    struct cs_node *node = matmul(b, "ffn.up", x);
    cs__node_par(node, cs__segment_param(b->segment, "weight", CS_AXES(b->hidden, b->ffn)));
    if (b->model->linear_bias) {
        cs__node_par(node, cs__segment_param(b->segment, "bias", CS_AXES(b->ffn)));
    }
    cs__node_out(node, inner);
    uint8_t activated = ffn_tensor(b, "activated");
    node = pointwise(b, labels[b->model->activation], CS_OPKIND_ELEMENTWISE, ACTIVATION_FORWARD_FLOP,
                     ACTIVATION_BACKWARD_FLOP);
    cs__node_in(node, inner);
    cs__node_out(node, activated);
    cs__node_save(node, inner);
    return activated;
}

static uint8_t add_ffn(struct build *b, uint8_t x)
{
    bool gated = b->model->activation == CS_ACT_SWIGLU || b->model->activation == CS_ACT_GEGLU;
    uint8_t inner = gated ? add_gated(b, x) : add_plain(b, x);
    uint8_t out = hidden_tensor(b, "ffn");
    struct cs_node *node = matmul(b, "ffn.down", inner);
    cs__node_par(node, cs__segment_param(b->segment, "weight", CS_AXES(b->ffn, b->hidden)));
    cs__node_out(node, out);
    return out;
}

static void add_layers(struct build *b)
{
    struct cs_segment *segment = b->segment = cs__graph_add(b->graph, "layer", true, b->model->n_layers);
    uint8_t x = segment->in = hidden_tensor(b, "input");
    uint8_t normed = add_norm(b, "attention.norm", x, "attention input");
    uint8_t attention = add_attention(b, normed);
    x = add_residual(b, "attention.residual", x, attention, "middle");
    normed = add_norm(b, "ffn.norm", x, "ffn input");
    uint8_t ffn = add_ffn(b, normed);
    segment->out = add_residual(b, "ffn.residual", x, ffn, "output");
}

static void add_embedding(struct build *b)
{
    struct cs_segment *segment = b->segment = cs__graph_add(b->graph, "embedding", false, 1);
    uint8_t tokens = cs__segment_tensor(segment, "tokens", CS_AXES(b->batch, b->seq));
    segment->tensors[tokens].elt_bytes = 4;
    segment->tensors[tokens].no_grad = true;
    struct cs_node *node = cs__segment_node(segment, "embedding", CS_WORK_GATHER, CS_OPKIND_GATHER);
    cs__node_in(node, tokens);
    cs__node_par(node, cs__segment_param(segment, "vocabulary", CS_AXES(b->vocab, b->hidden)));
    uint8_t x = hidden_tensor(b, "words");
    cs__node_out(node, x);
    bool learned = b->model->position == CS_POS_LEARNED;
    if (learned || b->model->dropout_frac > 0) {
        node = pointwise(b, learned ? "embedding.position" : "embedding.dropout", CS_OPKIND_ELEMENTWISE, 1.0,
                         1.0);
        cs__node_in(node, x);
        x = hidden_tensor(b, "embedded");
        cs__node_out(node, x);
        if (learned) {
            cs__node_par(node, cs__segment_param(segment, "position", CS_AXES(b->position, b->hidden)));
        }
        if (b->model->dropout_frac > 0) {
            keep_mask(b, node, CS_AXES(b->batch, b->seq, b->hidden));
        }
    }
    segment->out = x;
}

/** Vocabulary-parallel cross-entropy: the maximum, then the sum of exponentials together with the label's
 *  logit, are reduced over the ranks that cut the vocabulary; the softmax is kept in fp32 for backward. */
static void add_loss(struct build *b, uint8_t logits)
{
    struct cs_segment *segment = b->segment;
    uint8_t maximum = cs__segment_tensor(segment, "maximum", CS_AXES(b->batch, b->seq));
    uint8_t sums = cs__segment_tensor(segment, "sum and label", CS_AXES(b->pair, b->batch, b->seq));
    uint8_t softmax = cs__segment_tensor(segment, "softmax", CS_AXES(b->batch, b->seq, b->vocab));
    uint8_t loss = cs__segment_tensor(segment, "loss", CS_AXES(b->batch, b->seq));
    for (uint8_t t = maximum; t <= loss; t++) {
        segment->tensors[t].elt_bytes = 4;
        segment->tensors[t].no_grad = true;
    }
    struct cs_node *node = pointwise(b, "loss.maximum", CS_OPKIND_SOFTMAX, 1.0, 0.0);
    cs__node_in(node, logits);
    cs__node_out(node, maximum);
    node->no_backward = true;

    node = pointwise(b, "loss.sum", CS_OPKIND_SOFTMAX, LOSS_FLOP, 0.0);
    cs__node_in(node, logits);
    cs__node_in(node, maximum);
    cs__node_out(node, sums);
    node->no_backward = true;

    node = pointwise(b, "loss", CS_OPKIND_SOFTMAX, LOSS_FLOP, LOSS_FLOP);
    cs__node_in(node, logits);
    cs__node_in(node, sums);
    cs__node_out(node, loss);
    cs__node_save(node, softmax);
}

static void add_head(struct build *b)
{
    struct cs_segment *segment = b->segment = cs__graph_add(b->graph, "head", false, 1);
    segment->in = hidden_tensor(b, "input");
    uint8_t normed = add_norm(b, "head.norm", segment->in, "head input");
    uint8_t logits = cs__segment_tensor(segment, "logits", CS_AXES(b->batch, b->seq, b->vocab));
    struct cs_node *node = matmul(b, "head", normed);
    uint8_t vocabulary = cs__segment_param(segment, "vocabulary", CS_AXES(b->hidden, b->vocab));
    segment->tensors[vocabulary].tied = b->model->tied_embedding;
    cs__node_par(node, vocabulary);
    cs__node_out(node, logits);
    add_loss(b, logits);
}

void cs__graph_build(struct cs_graph *graph, struct cs_arena *arena, const struct cs_model *model,
                     int64_t batch, int64_t seq_length, bool flash_attention)
{
    *graph = (struct cs_graph){.arena = arena};
    struct build b = {.graph = graph, .model = model, .flash = flash_attention};
    b.batch = (int8_t)cs__graph_axis(graph, "batch", batch, CS_AXIS_BATCH);
    b.seq = (int8_t)cs__graph_axis(graph, "sequence", seq_length, CS_AXIS_SEQ);
    b.keys = (int8_t)cs__graph_axis(graph, "keys", seq_length, CS_AXIS_PLAIN);
    b.hidden = (int8_t)cs__graph_axis(graph, "hidden", model->hidden, CS_AXIS_PLAIN);
    b.heads = (int8_t)cs__graph_axis(graph, "heads", model->n_heads, CS_AXIS_TENSOR);
    b.kv_heads = (int8_t)cs__graph_axis(graph, "kv_heads", model->n_kv_heads, CS_AXIS_TENSOR);
    b.head_dim = (int8_t)cs__graph_axis(graph, "head_dim", model->head_dim, CS_AXIS_PLAIN);
    b.ffn = (int8_t)cs__graph_axis(graph, "ffn", model->ffn, CS_AXIS_TENSOR);
    b.vocab = (int8_t)cs__graph_axis(graph, "vocab", model->vocab, CS_AXIS_TENSOR);
    b.position = (int8_t)cs__graph_axis(graph, "position", model->max_position, CS_AXIS_PLAIN);
    b.lane = (int8_t)cs__graph_axis(graph, "lane", FLASH_STATISTIC_LANES, CS_AXIS_PLAIN);
    b.pair = (int8_t)cs__graph_axis(graph, "pair", 2, CS_AXIS_PLAIN);
    add_embedding(&b);
    add_layers(&b);
    add_head(&b);
}
