/* The operator graph of a transformer: embedding, layers, head; what its parts share. */
#include "graph_build_priv.h"

#include <math.h>

/* What a fused attention kernel keeps for its backward pass beside q, k, v and its output: per query and head
 * the maximum and the sum of the softmax, each padded to 8 fp32 lanes. Shape (B, N, S, 8) in the interface of
 * mindspore.ops.ring_attention_update (docs of r2.10). A kernel that keeps one log-sum-exp has 1 lane instead
 * of 16, about 1.5 % less per layer of a LLaMA. */
#define FLASH_STATISTIC_LANES 16

uint8_t cs__build_hidden(struct cs_build *b, const char *name)
{
    return cs__segment_tensor(b->segment, name, CS_AXES(b->batch, b->seq, b->hidden));
}

struct cs_node *cs__build_pointwise(struct cs_build *b, const char *label, enum cs_opkind kind,
                                    double forward_flop, double backward_flop)
{
    struct cs_node *node = cs__segment_node(b->segment, label, CS_WORK_POINTWISE, kind);
    node->forward_flop_per_elt = forward_flop;
    node->backward_flop_per_elt = backward_flop;
    return node;
}

uint8_t cs__build_norm(struct cs_build *b, const char *label, uint8_t x, const char *out_name,
                       const int8_t *axes, int8_t axis)
{
    uint8_t out = cs__segment_tensor(b->segment, out_name, axes);
    struct cs_node *node =
        cs__build_pointwise(b, label, CS_OPKIND_NORM, NORM_FORWARD_FLOP, NORM_BACKWARD_FLOP);
    node->chain = b->model->norm == CS_NORM_RMS ? CS_CHAIN_NORM : CS_CHAIN_NONE;
    cs__node_in(node, x);
    cs__node_out(node, out);
    if (b->norms_separate && node->chain == CS_CHAIN_NORM) {
        uint8_t wide = cs__segment_tensor(b->segment, "norm input in fp32", axes);
        b->segment->tensors[wide].elt_bytes = 4;
        cs__node_save(node, wide);
        cs__node_save(node, cs__segment_tensor(b->segment, "norm before its gain", axes));
    } else {
        cs__node_save(node, x);
    }
    cs__node_par(node, cs__segment_param(b->segment, "gain", CS_AXES(axis)));
    if (b->model->norm == CS_NORM_LAYER) {
        cs__node_par(node, cs__segment_param(b->segment, "bias", CS_AXES(axis)));
    }
    return out;
}

static uint8_t add_norm(struct cs_build *b, const char *label, uint8_t x, const char *out_name)
{
    return cs__build_norm(b, label, x, out_name, CS_AXES(b->batch, b->seq, b->hidden), b->hidden);
}

void cs__build_mask(struct cs_build *b, struct cs_node *node, const int8_t *axes)
{
    uint8_t mask = cs__segment_tensor(b->segment, "mask", axes);
    b->segment->tensors[mask].elt_bytes = 1;
    b->segment->tensors[mask].no_grad = true;
    cs__node_save(node, mask);
}

/** x + dropout(y + bias). The bias of a row-cut projection is added here, once, after the reduction. */
static uint8_t add_residual(struct cs_build *b, const char *label, uint8_t x, uint8_t y, const char *out_name)
{
    uint8_t out = cs__build_hidden(b, out_name);
    struct cs_node *node = cs__build_pointwise(b, label, CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
    cs__node_in(node, y);
    cs__node_in(node, x);
    cs__node_out(node, out);
    if (b->model->linear_bias) {
        cs__node_par(node, cs__segment_param(b->segment, "bias", CS_AXES(b->hidden)));
    }
    if (b->model->dropout_frac > 0) {
        cs__build_mask(b, node, CS_AXES(b->batch, b->seq, b->hidden));
    }
    return out;
}

struct cs_node *cs__build_matmul(struct cs_build *b, const char *label, uint8_t in)
{
    struct cs_node *node = cs__segment_node(b->segment, label, CS_WORK_MATMUL, CS_OPKIND_MATMUL);
    cs__node_in(node, in);
    cs__node_save(node, in);
    return node;
}

/** One layer's nodes behind `x`. */
static uint8_t add_layer(struct cs_build *b, uint8_t x, bool experts)
{
    uint8_t normed = add_norm(b, "attention.norm", x, "attention input");
    uint8_t attention = cs__build_attention(b, normed);
    x = add_residual(b, "attention.residual", x, attention, "middle");
    normed = add_norm(b, "ffn.norm", x, "ffn input");
    uint8_t ffn = experts ? cs__build_moe(b, normed) : cs__build_ffn(b, normed);
    return add_residual(b, "ffn.residual", x, ffn, "output");
}

static void add_layers(struct cs_build *b)
{
    const struct cs_model *model = b->model;
    int32_t n_dense = model->n_experts == 0 ? model->n_layers : model->first_dense_layers;
    const struct {
        const char *name;
        int32_t n;
    } kinds[] = {{"layer", n_dense}, {"moe layer", model->n_layers - n_dense}};
    for (int32_t i = 0; i < CS_COUNT(kinds); i++) {
        if (kinds[i].n > 0) {
            struct cs_segment *segment = b->segment =
                cs__graph_add(b->graph, kinds[i].name, true, kinds[i].n);
            segment->in = cs__build_hidden(b, "input");
            segment->out = add_layer(b, segment->in, i == 1);
        }
    }
}

/** Rows of the vocabulary's table for the tokens. */
static uint8_t add_look_up(struct cs_build *b, bool first)
{
    struct cs_segment *segment = b->segment;
    uint8_t tokens = cs__segment_tensor(segment, "tokens", CS_AXES(b->batch, b->seq));
    segment->tensors[tokens].elt_bytes = 4;
    segment->tensors[tokens].no_grad = true;
    struct cs_node *node = cs__segment_node(segment, "embedding", CS_WORK_GATHER, CS_OPKIND_GATHER);
    cs__node_in(node, tokens);
    uint8_t vocabulary = cs__segment_param(segment, "vocabulary", CS_AXES(b->vocab, b->hidden));
    /* Elsewhere a tied head has the matrix on its stage already, else the stage needs a copy. */
    segment->tensors[vocabulary].shared = !first && b->model->tied_embedding;
    segment->tensors[vocabulary].tied = !first && !b->model->tied_embedding;
    segment->tensors[vocabulary].table = true;
    cs__node_par(node, vocabulary);
    uint8_t x = cs__build_hidden(b, "words");
    cs__node_out(node, x);
    return x;
}

static void add_embedding(struct cs_build *b)
{
    struct cs_segment *segment = b->segment = cs__graph_add(b->graph, "embedding", false, 1);
    uint8_t x = add_look_up(b, true);
    struct cs_node *node;
    bool learned = b->model->position == CS_POS_LEARNED;
    if (learned || b->model->dropout_frac > 0) {
        node = cs__build_pointwise(b, learned ? "embedding.position" : "embedding.dropout",
                                   CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
        cs__node_in(node, x);
        x = cs__build_hidden(b, "embedded");
        cs__node_out(node, x);
        if (learned) {
            cs__node_par(node, cs__segment_param(segment, "position", CS_AXES(b->position, b->hidden)));
        }
        if (b->token_types >= 0) {
            cs__node_par(node, cs__segment_param(segment, "token type", CS_AXES(b->token_types, b->hidden)));
        }
        if (b->model->dropout_frac > 0) {
            cs__build_mask(b, node, CS_AXES(b->batch, b->seq, b->hidden));
        }
    }
    segment->out = b->model->embedding_norm ? add_norm(b, "embedding.norm", x, "embedding normed") : x;
}

/** Vocabulary-parallel cross-entropy: the maximum, then the sum of exponentials together with the label's
 *  logit, are reduced over the ranks that cut the vocabulary; the softmax is kept in fp32 for backward. */
static void add_loss(struct cs_build *b, uint8_t logits)
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
    struct cs_node *node = cs__build_pointwise(b, "loss.maximum", CS_OPKIND_SOFTMAX, 1.0, 0.0);
    node->chain = CS_CHAIN_LOSS_MAXIMUM;
    cs__node_in(node, logits);
    cs__node_out(node, maximum);
    node->no_backward = true;

    node = cs__build_pointwise(b, "loss.sum", CS_OPKIND_SOFTMAX, LOSS_FLOP, 0.0);
    node->chain = CS_CHAIN_LOSS_SUM;
    cs__node_in(node, logits);
    cs__node_in(node, maximum);
    cs__node_out(node, sums);
    node->no_backward = true;

    node = cs__build_pointwise(b, "loss", CS_OPKIND_SOFTMAX, LOSS_FLOP, LOSS_FLOP);
    node->chain = CS_CHAIN_LOSS;
    cs__node_in(node, logits);
    cs__node_in(node, sums);
    cs__node_out(node, loss);
    cs__node_save(node, softmax);
}

/** Logits and loss of a normalised `x`. */
static void add_logits(struct cs_build *b, uint8_t x, bool last)
{
    struct cs_segment *segment = b->segment;
    uint8_t logits = cs__segment_tensor(segment, "logits", CS_AXES(b->batch, b->seq, b->vocab));
    struct cs_node *node = cs__build_matmul(b, "head", x);
    uint8_t vocabulary = cs__segment_param(segment, "vocabulary", CS_AXES(b->hidden, b->vocab));
    segment->tensors[vocabulary].tied = last && b->model->tied_embedding;
    segment->tensors[vocabulary].table = true;
    segment->tensors[vocabulary].shared = !last; /* the model's head follows on the same stage */
    cs__node_par(node, vocabulary);
    cs__node_out(node, logits);
    add_loss(b, logits);
}

static void add_head(struct cs_build *b)
{
    struct cs_segment *segment = b->segment = cs__graph_add(b->graph, "head", false, 1);
    segment->in = cs__build_hidden(b, "input");
    uint8_t normed = add_norm(b, "head.norm", segment->in, "head input");
    if (b->model->head_transform) {
        /* BERT's dense layer before the vocabulary; its width in and out is the hidden size. */
        uint8_t out = cs__build_hidden(b, "head transformed");
        struct cs_node *node = cs__build_matmul(b, "head.transform", normed);
        cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->hidden, b->hidden_out)));
        cs__node_par(node, cs__segment_param(segment, "bias", CS_AXES(b->hidden_out)));
        cs__node_out(node, out);
        normed = out;
    }
    add_logits(b, normed, true);
}

/** A multi-token prediction module (DeepSeek-V3, arXiv 2412.19437, section 2.2): the hidden state and the
 * next token's embedding, normalised, are projected together, pass a layer and make logits of their own. It
 *  shares embedding and head with the model, and hands the hidden state on. */
static void add_mtp(struct cs_build *b)
{
    const struct cs_model *model = b->model;
    struct cs_segment *segment = b->segment = cs__graph_add(b->graph, "mtp", false, model->n_mtp_layers);
    segment->in = cs__build_hidden(b, "input");
    uint8_t words = add_look_up(b, false);
    uint8_t parts[2] = {add_norm(b, "mtp.norm", segment->in, "mtp hidden"),
                        add_norm(b, "mtp.norm", words, "mtp words")};
    uint8_t x[2];
    for (int32_t i = 0; i < 2; i++) {
        struct cs_node *node = cs__build_matmul(b, "mtp.projection", parts[i]);
        cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->hidden, b->hidden_out)));
        x[i] = cs__build_hidden(b, "mtp projected");
        cs__node_out(node, x[i]);
    }
    uint8_t both = add_residual(b, "mtp.add", x[0], x[1], "mtp input");
    uint8_t out = add_layer(b, both, model->n_experts > 0);
    add_logits(b, add_norm(b, "mtp.head_norm", out, "head input"), false);
    segment->out = cs__build_hidden(b, "output");
    struct cs_node *pass = cs__build_pointwise(b, "mtp.pass", CS_OPKIND_ELEMENTWISE, 0.0, 0.0);
    cs__node_in(pass, segment->in);
    cs__node_out(pass, segment->out);
}

static int8_t axis_if(struct cs_graph *graph, const char *name, int64_t size, enum cs_axis_role role)
{
    return size > 0 ? (int8_t)cs__graph_axis(graph, name, size, role) : (int8_t)-1;
}

/** Axes that only some models have. */
static void add_axes(struct cs_build *b, int64_t n_tokens)
{
    const struct cs_model *model = b->model;
    struct cs_graph *graph = b->graph;
    const bool latent = model->kv_lora_rank > 0;
    b->q_latent = axis_if(graph, "q_latent", latent ? model->q_lora_rank : 0, CS_AXIS_PLAIN);
    b->kv_latent = axis_if(graph, "kv_latent", model->kv_lora_rank, CS_AXIS_PLAIN);
    b->nope = axis_if(graph, "nope", model->qk_nope_head_dim, CS_AXIS_PLAIN);
    b->rope = axis_if(graph, "rope", model->qk_rope_head_dim, CS_AXIS_PLAIN);
    b->v_dim = latent ? axis_if(graph, "v_dim", model->v_head_dim, CS_AXIS_PLAIN) : b->head_dim;
    b->hidden_out = model->head_transform || model->n_mtp_layers > 0
                        ? axis_if(graph, "hidden_out", model->hidden, CS_AXIS_PLAIN)
                        : (int8_t)-1;
    b->token_types = axis_if(graph, "token_types", model->n_token_types, CS_AXIS_PLAIN);
    b->experts = axis_if(graph, "experts", model->n_experts, CS_AXIS_EXPERT);
    double rows = (double)n_tokens * model->experts_per_token *
                  (model->capacity_factor > 0 ? model->capacity_factor : 1.0);
    b->chosen = axis_if(graph, "chosen", model->experts_per_token, CS_AXIS_PLAIN);
    graph->n_rows = (int64_t)ceil(rows);
    b->rows = axis_if(graph, "rows", graph->n_rows, CS_AXIS_ROWS);
    b->expert_ffn = axis_if(graph, "expert_ffn", model->expert_ffn, CS_AXIS_EXPERT_TENSOR);
    b->shared_ffn = axis_if(graph, "shared_ffn", model->n_shared_experts * model->expert_ffn, CS_AXIS_TENSOR);
}

void cs__graph_build(struct cs_graph *graph, struct cs_arena *arena, const struct cs_model *model,
                     int64_t batch, int64_t seq_length, struct cs_graph_fused fused)
{
    *graph = (struct cs_graph){.arena = arena};
    if (model->image > 0) {
        cs__graph_resnet(graph, model, batch);
        return;
    }
    struct cs_build b = {.graph = graph,
                         .model = model,
                         .flash = fused.attention,
                         .fused_glu = fused.glu,
                         .norms_separate = fused.norms_separate,
                         .gate_separate = fused.gate_separate};
    b.batch = (int8_t)cs__graph_axis(graph, "batch", batch, CS_AXIS_BATCH);
    b.seq = (int8_t)cs__graph_axis(graph, "sequence", seq_length, CS_AXIS_SEQ);
    b.keys = (int8_t)cs__graph_axis(graph, "keys", seq_length, CS_AXIS_PLAIN);
    b.hidden = (int8_t)cs__graph_axis(graph, "hidden", model->hidden, CS_AXIS_PLAIN);
    b.heads = (int8_t)cs__graph_axis(graph, "heads", model->n_heads, CS_AXIS_TENSOR);
    b.kv_heads = (int8_t)cs__graph_axis(graph, "kv_heads", model->n_kv_heads, CS_AXIS_TENSOR);
    b.head_dim = (int8_t)cs__graph_axis(
        graph, "head_dim",
        model->kv_lora_rank > 0 ? model->qk_nope_head_dim + model->qk_rope_head_dim : model->head_dim,
        CS_AXIS_PLAIN);
    b.ffn = (int8_t)cs__graph_axis(graph, "ffn", model->ffn, CS_AXIS_TENSOR);
    b.vocab = (int8_t)cs__graph_axis(graph, "vocab", model->vocab, CS_AXIS_TENSOR);
    b.position = (int8_t)cs__graph_axis(graph, "position", model->max_position, CS_AXIS_PLAIN);
    b.lane = (int8_t)cs__graph_axis(graph, "lane", FLASH_STATISTIC_LANES, CS_AXIS_PLAIN);
    b.pair = (int8_t)cs__graph_axis(graph, "pair", 2, CS_AXIS_PLAIN);
    add_axes(&b, batch * seq_length);
    add_embedding(&b);
    add_layers(&b);
    if (model->n_mtp_layers > 0) {
        add_mtp(&b);
    }
    add_head(&b);
}
