/* Parameters and floating-point work of a model, summed from its graph. */
#include "cost_priv.h"
#include "mindformers_priv.h"

static const struct cs_strategy undivided = {
    .dp = 1, .mp = 1, .pp = 1, .cp = 1, .ep = 1, .vpp = 1, .op = 1, .zero = 1, .micro_batch = 1};

/** A model on one rank: every layout is the whole tensor. */
struct whole {
    struct cs_arena arena;
    struct cs_graph graph;
    struct cs_sharding sharding;
    struct cs_costing costing;
};

static void whole_init(struct whole *whole, const struct cs_model *model, int64_t seq_length)
{
    struct cs_model even = *model; /* model flops count the rows that were asked for */
    *whole = (struct whole){0};
    even.capacity_factor = 0;
    /* Flash attention off: the score products are then nodes like any other. */
    cs__graph_build(&whole->graph, &whole->arena, &even, 1, seq_length,
                    (struct cs_graph_fused){false, false, false, false});
    cs__sharding_init(&whole->sharding, &whole->graph, &undivided);
    whole->costing = (struct cs_costing){.sharding = &whole->sharding,
                                         .dtype = CS_DTYPE_BF16,
                                         .product_dtype = CS_DTYPE_BF16,
                                         .gradient_dtype = CS_DTYPE_FP32,
                                         .imbalance_frac = 1.0,
                                         .causal_frac = 1.0};
}

typedef int64_t (*count_fn)(const struct whole *whole, const struct cs_segment *segment);

/* The sum over a model's segments, each as often as it runs. */
static int64_t count(const struct cs_model *model, count_fn of_segment)
{
    struct whole whole;
    int64_t n = 0;
    whole_init(&whole, model, 1);
    for (int32_t i = 0; i < whole.graph.n_runs; i++) {
        const struct cs_run_of *run = &whole.graph.runs[i];
        n += run->count * of_segment(&whole, &whole.graph.segments[run->segment]);
    }
    cs_arena_release(&whole.arena);
    return n;
}

static int64_t segment_params(const struct whole *whole, const struct cs_segment *segment)
{
    const struct cs_layout layout = {0};
    int64_t n = 0;
    for (int32_t t = 0; t < segment->n_tensors; t++) {
        if (segment->tensors[t].param && !segment->tensors[t].tied && !segment->tensors[t].shared) {
            n += cs__sharding_elements(&whole->sharding, &segment->tensors[t], &layout);
        }
    }
    return n;
}

double cs__model_params_estimate(const struct cs_model *m)
{
    double h = (double)m->hidden;
    double heads = (double)m->n_heads;
    double experts = (double)m->n_experts + m->n_shared_experts;
    double layer =
        2 * h * (double)(m->head_dim + m->v_head_dim) * (heads + (double)m->n_kv_heads) +
        3 * h * (double)m->ffn + experts * (3 * h * (double)m->expert_ffn + h) +
        (h + heads * (double)(m->qk_nope_head_dim + m->qk_rope_head_dim)) * (double)m->q_lora_rank +
        (h + heads * (double)(m->qk_nope_head_dim + m->v_head_dim)) * (double)m->kv_lora_rank;
    return layer * ((double)m->n_layers + m->n_mtp_layers) +
           h * (2 * (double)m->vocab + (double)m->max_position + 2 * h);
}

int64_t cs_model_trained_params(const struct cs_model *model)
{
    return count(model, segment_params);
}

static int64_t segment_expert_params(const struct whole *whole, const struct cs_segment *segment)
{
    const struct cs_layout layout = {0};
    int64_t n = 0;
    for (int32_t i = 0; i < segment->n_nodes; i++) {
        const struct cs_node *node = &segment->nodes[i];
        for (uint8_t k = 0; k < node->n_par && !node->replicated_experts; k++) {
            const struct cs_tensor *param = &segment->tensors[node->par[k]];
            bool of_experts = false;
            for (uint8_t a = 0; a < param->n_axes; a++) {
                of_experts |= whole->graph.axes[param->axes[a]].role == CS_AXIS_EXPERT;
            }
            n += of_experts && !param->shared ? cs__sharding_elements(&whole->sharding, param, &layout) : 0;
        }
    }
    return n;
}

int64_t cs__model_expert_params(const struct cs_model *model)
{
    return count(model, segment_expert_params);
}

static int64_t segment_n_tensors(const struct whole *whole, const struct cs_segment *segment)
{
    (void)whole;
    int64_t n = 0;
    for (int32_t t = 0; t < segment->n_tensors; t++) {
        const struct cs_tensor *tensor = &segment->tensors[t];
        n += tensor->param && !tensor->tied && !tensor->shared;
    }
    return n;
}

int32_t cs__model_n_tensors(const struct cs_model *model)
{
    return (int32_t)count(model, segment_n_tensors);
}

static int64_t segment_matrices(const struct whole *whole, const struct cs_segment *segment)
{
    const struct cs_layout layout = {0};
    int64_t n = 0;
    for (int32_t i = 0; i < segment->n_nodes; i++) {
        const struct cs_node *node = &segment->nodes[i];
        for (uint8_t k = 0; k < node->n_par; k++) {
            const struct cs_tensor *param = &segment->tensors[node->par[k]];
            n += cs__param_is_matrix(segment, node, node->par[k])
                     ? cs__sharding_elements(&whole->sharding, param, &layout)
                     : 0;
        }
    }
    return n;
}

int64_t cs__model_plain_params(const struct cs_model *model)
{
    return cs_model_trained_params(model) - count(model, segment_matrices);
}

int64_t cs_model_params(const struct cs_model *model)
{
    struct cs_model published = *model;
    published.n_mtp_layers = 0;
    return cs_model_trained_params(&published);
}

int64_t cs_model_active_params(const struct cs_model *model)
{
    /* Of each routed expert's matrices (two in, one out) a token meets those that it chooses. */
    int64_t idle = model->n_experts > 0 ? model->n_experts - model->experts_per_token : 0;
    int64_t layers = model->n_layers - model->first_dense_layers;
    return cs_model_params(model) - idle * layers * 3 * model->hidden * model->expert_ffn;
}

static double segment_flop(const struct whole *whole, const struct cs_segment *segment)
{
    double flop = 0;
    for (int32_t i = 0; i < segment->n_nodes; i++) {
        struct cs_space space;
        cs__sharding_space(&whole->sharding, segment, &segment->nodes[i], &space);
        flop += cs__node_model_flop(&whole->costing, segment, &segment->nodes[i], &space);
    }
    return flop;
}

double cs_model_step_flop(const struct cs_model *model, double n_tokens, int64_t seq_length)
{
    struct whole whole;
    double forward_flop = 0;
    whole_init(&whole, model, seq_length);
    for (int32_t i = 0; i < whole.graph.n_runs; i++) {
        const struct cs_run_of *run = &whole.graph.runs[i];
        forward_flop += run->count * segment_flop(&whole, &whole.graph.segments[run->segment]);
    }
    cs_arena_release(&whole.arena);
    return 3 * forward_flop * (n_tokens / (double)seq_length);
}
