/* The MLP of a layer: plain, gated, or of experts. */
#include "graph_build_priv.h"

/** What a gated MLP works on: tokens of the batch, or rows sent to experts. */
struct gated {
    const int8_t *inner;  /* axes of what is between the two products */
    const int8_t *weight; /* axes of the first product's parameters */
    int8_t width;         /* of the inner axis; for its bias */
    bool apart;           /* two products, not one of twice the width */
    const char *gate_up, *silu, *gelu, *mul;
};

static uint8_t ffn_tensor(struct cs_build *b, const char *name)
{
    return cs__segment_tensor(b->segment, name, CS_AXES(b->batch, b->seq, b->ffn));
}

/** act(gate) * up in one kernel, which keeps its inputs. */
static uint8_t add_fused_gate(struct cs_build *b, const uint8_t half[2], const struct gated *g)
{
    uint8_t product = cs__segment_tensor(b->segment, "product", g->inner);
    struct cs_node *node = cs__build_pointwise(b, g->mul, CS_OPKIND_ELEMENTWISE,
                                               ACTIVATION_FORWARD_FLOP + 1.0, ACTIVATION_BACKWARD_FLOP + 2.0);
    for (int i = 0; i < 2; i++) {
        cs__node_in(node, half[i]);
        cs__node_save(node, half[i]);
    }
    cs__node_out(node, product);
    node->selective = CS_SEL_DROP;
    return product;
}

/** act(gate) * up. Selective recomputation runs both again: MindFormers' default operator list
 *  (feed_forward.mul, w1.activation.silu). */
static uint8_t add_gated(struct cs_build *b, uint8_t x, const struct gated *g)
{
    struct cs_segment *segment = b->segment;
    bool silu = b->model->activation == CS_ACT_SWIGLU;
    struct cs_node *node = cs__build_matmul(b, g->gate_up, x);
    uint8_t half[2];
    for (int i = 0; i < 2; i++) {
        if (i == 1 && g->apart) {
            node = cs__build_matmul(b, g->gate_up, x);
            node->apart = true;
        }
        half[i] = cs__segment_tensor(segment, i == 0 ? "gate" : "up", g->inner);
        cs__node_par(node, cs__segment_param(segment, "weight", g->weight));
        if (b->model->linear_bias) {
            cs__node_par(node, cs__segment_param(segment, "bias", CS_AXES(g->width)));
        }
        cs__node_out(node, half[i]);
    }
    if (b->fused_glu) {
        return add_fused_gate(b, half, g);
    }
    uint8_t activated = cs__segment_tensor(segment, "activated gate", g->inner);
    node = cs__build_pointwise(b, silu ? g->silu : g->gelu, CS_OPKIND_ELEMENTWISE, ACTIVATION_FORWARD_FLOP,
                               ACTIVATION_BACKWARD_FLOP);
    cs__node_in(node, half[0]);
    cs__node_out(node, activated);
    cs__node_save(node, half[0]);
    node->selective = CS_SEL_DROP;

    uint8_t product = cs__segment_tensor(segment, "product", g->inner);
    node = cs__build_pointwise(b, g->mul, CS_OPKIND_ELEMENTWISE, 1.0, 2.0);
    cs__node_in(node, activated);
    cs__node_in(node, half[1]);
    cs__node_out(node, product);
    cs__node_save(node, activated);
    cs__node_save(node, half[1]);
    node->selective = CS_SEL_DROP;
    return product;
}

static uint8_t add_plain(struct cs_build *b, uint8_t x)
{
    static const char *const labels[] = {[CS_ACT_SWIGLU] = "",
                                         [CS_ACT_GEGLU] = "",
                                         [CS_ACT_GELU] = "ffn.gelu",
                                         [CS_ACT_RELU] = "ffn.relu",
                                         [CS_ACT_SILU] = "ffn.silu"};
    uint8_t inner = ffn_tensor(b, "inner");
    struct cs_node *node = cs__build_matmul(b, "ffn.up", x);
    cs__node_par(node, cs__segment_param(b->segment, "weight", CS_AXES(b->hidden, b->ffn)));
    if (b->model->linear_bias) {
        cs__node_par(node, cs__segment_param(b->segment, "bias", CS_AXES(b->ffn)));
    }
    cs__node_out(node, inner);
    uint8_t activated = ffn_tensor(b, "activated");
    node = cs__build_pointwise(b, labels[b->model->activation], CS_OPKIND_ELEMENTWISE,
                               ACTIVATION_FORWARD_FLOP, ACTIVATION_BACKWARD_FLOP);
    node->chain =
        b->model->activation == CS_ACT_GELU && b->model->linear_bias ? CS_CHAIN_GELU : CS_CHAIN_NONE;
    cs__node_in(node, inner);
    cs__node_out(node, activated);
    cs__node_save(node, inner);
    return activated;
}

static bool is_gated(const struct cs_model *model)
{
    return model->activation == CS_ACT_SWIGLU || model->activation == CS_ACT_GEGLU;
}

bool cs__graph_runs_selectively(const struct cs_model *model, bool flash_attention)
{
    return model->image == 0 && (!flash_attention || is_gated(model) || model->n_experts > 0);
}

/** Gated or plain between two products of the given width. */
static uint8_t add_dense(struct cs_build *b, uint8_t x, int8_t width)
{
    const struct gated gated = {.inner = CS_AXES(b->batch, b->seq, width),
                                .weight = CS_AXES(b->hidden, width),
                                .width = width,
                                .apart = b->gate_separate,
                                .gate_up = "ffn.gate_up",
                                .silu = "ffn.silu",
                                .gelu = "ffn.gelu",
                                .mul = "ffn.mul"};
    uint8_t inner = is_gated(b->model) ? add_gated(b, x, &gated) : add_plain(b, x);
    uint8_t out = cs__build_hidden(b, "ffn");
    struct cs_node *node = cs__build_matmul(b, "ffn.down", inner);
    cs__node_par(node, cs__segment_param(b->segment, "weight", CS_AXES(width, b->hidden)));
    cs__node_out(node, out);
    return out;
}

uint8_t cs__build_ffn(struct cs_build *b, uint8_t x)
{
    return add_dense(b, x, b->ffn);
}

/** Scores of all experts for every token, their softmax in fp32, the chosen experts and their weights. */
static uint8_t add_router(struct cs_build *b, uint8_t x)
{
    struct cs_segment *segment = b->segment;
    const int8_t *of_all = CS_AXES(b->batch, b->seq, b->experts);
    const int8_t *of_chosen = CS_AXES(b->batch, b->seq, b->chosen);
    uint8_t logits = cs__segment_tensor(segment, "expert scores", of_all);
    uint8_t shares = cs__segment_tensor(segment, "expert shares", of_all);
    uint8_t weights = cs__segment_tensor(segment, "expert weights", of_chosen);
    uint8_t choice = cs__segment_tensor(segment, "chosen experts", of_chosen);
    for (uint8_t t = logits; t <= choice; t++) {
        segment->tensors[t].elt_bytes = 4;
    }
    segment->tensors[choice].no_grad = true;
    struct cs_node *node = cs__build_matmul(b, "moe.router", x);
    cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->hidden, b->experts)));
    cs__node_out(node, logits);
    node->replicated_experts = true;
    node = cs__build_pointwise(b, "moe.gate", CS_OPKIND_SOFTMAX, SOFTMAX_FORWARD_FLOP, SOFTMAX_BACKWARD_FLOP);
    cs__node_in(node, logits);
    cs__node_out(node, shares);
    cs__node_save(node, shares);
    node->replicated_experts = true;
    node = cs__build_pointwise(b, "moe.topk", CS_OPKIND_ELEMENTWISE, TOPK_FLOP * b->model->experts_per_token,
                               0.0);
    cs__node_in(node, shares);
    cs__node_out(node, weights);
    cs__node_out(node, choice);
    cs__node_save(node, choice);
    node->replicated_experts = true;
    return weights;
}

/** Rows of the chosen experts: brought to their ranks, multiplied there in groups, brought back. */
static uint8_t add_experts(struct cs_build *b, uint8_t x, uint8_t weights)
{
    struct cs_segment *segment = b->segment;
    uint8_t rows = cs__segment_tensor(segment, "rows", CS_AXES(b->rows, b->hidden));
    struct cs_node *node = cs__build_pointwise(b, "moe.dispatch", CS_OPKIND_GATHER, 0.0, 1.0);
    node->work = CS_WORK_PERMUTE;
    node->axis_e = (uint8_t)b->experts;
    cs__node_in(node, x);
    cs__node_out(node, rows);
    node->exchange = CS_EXCHANGE_OUTPUT;

    const struct gated gated = {.inner = CS_AXES(b->rows, b->expert_ffn),
                                .weight = CS_AXES(b->experts, b->hidden, b->expert_ffn),
                                .width = b->expert_ffn,
                                .gate_up = "moe.gate_up",
                                .silu = "moe.silu",
                                .gelu = "moe.gelu",
                                .mul = "moe.mul"};
    uint8_t inner = add_gated(b, rows, &gated);
    uint8_t results = cs__segment_tensor(segment, "expert results", CS_AXES(b->rows, b->hidden));
    node = cs__build_matmul(b, "moe.down", inner);
    cs__node_par(node, cs__segment_param(segment, "weight", CS_AXES(b->experts, b->expert_ffn, b->hidden)));
    cs__node_out(node, results);
    for (int32_t i = 0; i < segment->n_nodes; i++) {
        struct cs_node *each = &segment->nodes[i];
        bool grouped = each->work == CS_WORK_MATMUL && !each->replicated_experts && each->n_par > 0 &&
                       segment->tensors[each->par[0]].axes[0] == b->experts;
        each->kind = grouped ? CS_OPKIND_GROUPED_MATMUL : each->kind;
    }
    uint8_t out = cs__build_hidden(b, "experts");
    node = cs__build_pointwise(b, "moe.combine", CS_OPKIND_GATHER, 2.0, 4.0);
    node->work = CS_WORK_PERMUTE;
    node->axis_e = (uint8_t)b->experts;
    cs__node_in(node, results);
    cs__node_in(node, weights);
    cs__node_out(node, out);
    cs__node_save(node, results);
    cs__node_save(node, weights);
    node->exchange = CS_EXCHANGE_INPUT;
    return out;
}

uint8_t cs__build_moe(struct cs_build *b, uint8_t x)
{
    uint8_t weights = add_router(b, x);
    uint8_t out = add_experts(b, x, weights);
    if (b->shared_ffn < 0) {
        return out;
    }
    uint8_t shared = add_dense(b, x, b->shared_ffn);
    uint8_t sum = cs__build_hidden(b, "experts and shared");
    struct cs_node *node = cs__build_pointwise(b, "moe.add", CS_OPKIND_ELEMENTWISE, 1.0, 0.0);
    cs__node_in(node, out);
    cs__node_in(node, shared);
    cs__node_out(node, sum);
    return sum;
}
