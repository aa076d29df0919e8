/* Forward, recomputation and backward of a segment as operations, derived from layouts. */
#include "plan_priv.h"

#define COUNT_BYTES 8

/** Layouts in which a tensor is at hand while a pass is written. */
struct at_hand {
    uint8_t n[CS_SEGMENT_TENSORS_MAX];
    struct cs_layout layout[CS_SEGMENT_TENSORS_MAX][4];
};

/** "label" + "suffix" in buf. */
static const char *join(const char *label, const char *suffix, char *buf, size_t buf_bytes)
{
    size_t len = 0;
    for (const char *part = label; *part != '\0' && len + 1 < buf_bytes; part++) {
        buf[len++] = *part;
    }
    for (const char *part = suffix; *part != '\0' && len + 1 < buf_bytes; part++) {
        buf[len++] = *part;
    }
    buf[len] = '\0';
    return buf;
}

/** Collectives that bring a tensor from one layout into another, forward or for its gradient. They carry the
 *  label of the operator whose cut causes them: the producer of a sum, else the user. */
static void emit_moves(struct cs_planner *p, struct cs_oplist *list, int32_t tensor,
                       const struct cs_layout *from, const struct cs_layout *to, enum cs_phase phase,
                       const char *user)
{
    struct cs_move moves[CS_MOVES_MAX];
    const struct cs_tensor *t = &p->segment->tensors[tensor];
    int32_t n = cs__sharding_moves(&p->builder->sharding, t, from, to, moves);
    for (int32_t i = 0; i < n; i++) {
        /* dp cuts only the batch, which every activation has: nothing moves along it. */
        CS_ASSERT(moves[i].dim == CS_CUT_MP || moves[i].dim == CS_CUT_CP);
        enum cs_group group = moves[i].dim == CS_CUT_MP ? CS_GROUP_TP : CS_GROUP_CP;
        if (p->builder->strategy.keep_comm && phase == CS_PHASE_RECOMPUTE && group == CS_GROUP_TP) {
            continue; /* the result was kept */
        }
        if (p->counting && group == CS_GROUP_TP && i == n - 1) {
            p->comm_bytes += cs__tensor_bytes(&p->builder->costing, t,
                                              cs__sharding_elements(&p->builder->sharding, t, to));
        }
        bool of_sum = p->producer[tensor] >= 0 && (p->produced[tensor].partial & moves[i].dim);
        const char *label = of_sum ? p->segment->nodes[p->producer[tensor]].label : user;
        cs__emit_collective(p->builder, list, CS_LANE_COMPUTE, group, moves[i].coll, phase, label,
                            cs__tensor_bytes(&p->builder->costing, t, moves[i].elements));
    }
}

/** Rows arrive by the rank they come from and have to be by expert, or the other way round: where a rank has
 *  several experts (Megatron-LM, token_dispatcher.py: permute, exchange over ep, gather over mp, sort
 * chunks).
 */
static void emit_sort(struct cs_planner *p, struct cs_oplist *list, int32_t i, const struct cs_tensor *rows,
                      enum cs_phase phase)
{
    const struct cs_strategy *s = &p->builder->strategy;
    const int32_t gathered = p->builder->costing.rows_gathered;
    if (s->ep * gathered > 1 && p->builder->model->n_experts > s->ep) {
        cs__emit_compute(p->builder, list, phase, "moe.sort",
                         cs__sort_cost(&p->builder->costing, rows, &p->space[i], gathered));
    }
}

/** Rows go to the ranks of their experts, or come back; or their gradients do. */
static void emit_exchange(struct cs_planner *p, struct cs_oplist *list, int32_t i, enum cs_phase phase)
{
    const struct cs_node *node = &p->segment->nodes[i];
    bool away = (node->exchange == CS_EXCHANGE_OUTPUT) == (phase != CS_PHASE_BACKWARD);
    uint8_t t = node->exchange == CS_EXCHANGE_OUTPUT ? node->out[0] : node->in[0];
    const struct cs_tensor *rows = &p->segment->tensors[t];
    struct cs_layout layout = cs__space_input(&p->space[i], rows);
    int64_t elements = cs__sharding_elements(&p->builder->sharding, rows, &layout);
    if (!away) {
        emit_sort(p, list, i, rows, phase);
    }
    cs__emit_collective(p->builder, list, CS_LANE_COMPUTE, CS_GROUP_EP, CS_COLL_ALL_TO_ALL, phase,
                        node->label, cs__tensor_bytes(&p->builder->costing, rows, elements));
    if (away) {
        emit_sort(p, list, i, rows, phase);
    }
}

/** How many rows each expert gets from each rank, so that the ranks know how much to receive; where none are
 *  dropped the numbers change with every micro-batch (ibid., preprocess). */
static void emit_counts(struct cs_planner *p, struct cs_oplist *list, enum cs_phase phase)
{
    const struct cs_model *model = p->builder->model;
    if (model->capacity_factor > 0) {
        return; /* each expert takes as many as its capacity */
    }
    cs__emit_collective(p->builder, list, CS_LANE_COMPUTE, CS_GROUP_EP, CS_COLL_ALL_GATHER, phase,
                        "moe.counts", (int64_t)p->builder->strategy.ep * model->n_experts * COUNT_BYTES);
}

static void emit_cast(struct cs_planner *p, struct cs_oplist *list, int32_t i, enum cs_phase phase,
                      enum cs_pass pass)
{
    const struct cs_node *node = &p->segment->nodes[i];
    char label[96];
    cs__emit_compute(p->builder, list, phase, join(node->label, ".cast", label, sizeof label),
                     cs__cast_cost(&p->builder->costing, p->segment, node, &p->space[i], pass));
}

static void emit_node_forward(struct cs_planner *p, struct cs_oplist *list, int32_t i, enum cs_phase phase)
{
    const struct cs_node *node = &p->segment->nodes[i];
    if (cs__planner_is_ring(p, node)) {
        cs__plan_ring_forward(p, list, i, phase);
        return;
    }
    if (node->exchange == CS_EXCHANGE_INPUT) {
        emit_exchange(p, list, i, phase);
    } else if (node->exchange == CS_EXCHANGE_OUTPUT) {
        emit_counts(p, list, phase);
    }
    if (cs__node_casts(&p->builder->costing, p->segment, node)) {
        emit_cast(p, list, i, phase, CS_PASS_FORWARD);
    }
    if (node->work == CS_WORK_FLASH && p->builder->costing.score_bytes[0] > 0) {
        cs__emit_compute(p->builder, list, phase, "attention.bias",
                         cs__score_cost(&p->builder->costing, p->segment, node, &p->space[i]));
    }
    cs__emit_compute(p->builder, list, phase, node->label,
                     cs__node_cost(&p->builder->costing, p->segment, node, &p->space[i], CS_PASS_FORWARD));
    if (node->exchange == CS_EXCHANGE_OUTPUT) {
        emit_exchange(p, list, i, phase);
    }
}

/** Forward of nodes first..last. What they take from outside is at hand as it was kept (or produced, for the
 *  segment's input). */
static void emit_forward(struct cs_planner *p, struct cs_oplist *list, int32_t first, int32_t last,
                         enum cs_phase phase)
{
    const struct cs_segment *segment = p->segment;
    struct at_hand hand = {0};
    for (int32_t i = first; i <= last; i++) {
        const struct cs_node *node = &segment->nodes[i];
        for (uint8_t k = 0; k < node->n_in; k++) {
            uint8_t t = node->in[k];
            const struct cs_tensor *tensor = &segment->tensors[t];
            struct cs_layout want = cs__space_input(&p->space[i], tensor);
            const struct cs_layout *from =
                p->producer[t] >= first ? &p->produced[t] : cs__planner_kept_as(p, t, &want);
            bool have = p->producer[t] < 0 && t != segment->in &&
                        !node->apart; /* indices: every rank reads what it needs */
            for (uint8_t h = 0; h < hand.n[t]; h++) {
                have |= cs__layout_equal(&hand.layout[t][h], &want, tensor) && !node->apart;
            }
            if (!have) {
                emit_moves(p, list, t, from, &want, phase, node->label);
                CS_ASSERT(hand.n[t] < 4);
                hand.layout[t][hand.n[t]++] = want;
            }
        }
        emit_node_forward(p, list, i, phase);
    }
    if (last == segment->n_nodes - 1 && segment->out != CS_NO_TENSOR) {
        const struct cs_tensor *out = &segment->tensors[segment->out];
        struct cs_layout boundary = cs__sharding_boundary(&p->builder->sharding, out);
        emit_moves(p, list, segment->out, &p->produced[segment->out], &boundary, phase,
                   segment->nodes[last].label);
    }
}

/** Is node `i` the first consumer of the tensor that leaves its gradient in this layout? Then, backward being
 *  the other way round, the sum over consumers is complete after it. */
static bool first_of_gradient(const struct cs_planner *p, int32_t i, int32_t tensor,
                              const struct cs_layout *gradient)
{
    for (int32_t j = 0; j < i; j++) {
        const struct cs_node *node = &p->segment->nodes[j];
        for (uint8_t k = 0; k < node->n_in; k++) {
            struct cs_layout other = cs__space_gradient(&p->space[j], &p->segment->tensors[tensor]);
            if (node->in[k] == tensor && !node->no_backward &&
                cs__layout_equal(&other, gradient, &p->segment->tensors[tensor])) {
                return false;
            }
        }
    }
    return true;
}

/** Bring the gradients of a node's inputs to where their producers want them. */
static void emit_gradient_moves(struct cs_planner *p, struct cs_oplist *list, int32_t i)
{
    const struct cs_node *node = &p->segment->nodes[i];
    for (uint8_t k = 0; k < node->n_in; k++) {
        uint8_t t = node->in[k];
        const struct cs_tensor *tensor = &p->segment->tensors[t];
        struct cs_layout gradient = cs__space_gradient(&p->space[i], tensor);
        if (!tensor->no_grad && (node->apart || first_of_gradient(p, i, t, &gradient))) {
            struct cs_layout want = cs__layout_whole(p->produced[t]);
            emit_moves(p, list, t, &gradient, &want, CS_PHASE_BACKWARD, node->label);
        }
    }
}

/** Gather again what was kept in a smaller layout than the node's backward pass reads. */
static void emit_regather(struct cs_planner *p, struct cs_oplist *list, int32_t i)
{
    const struct cs_node *node = &p->segment->nodes[i];
    for (uint8_t k = 0; k < node->n_save; k++) {
        uint8_t t = node->save[k];
        struct cs_layout want = cs__space_input(&p->space[i], &p->segment->tensors[t]);
        emit_moves(p, list, t, cs__planner_kept_as(p, t, &want), &want, CS_PHASE_BACKWARD, node->label);
    }
}

/** What a backward pass does: both gradients, or one of them. */
enum half { HALF_BOTH, HALF_INPUT, HALF_WEIGHT };

static void emit_accumulation(struct cs_planner *p, struct cs_oplist *list, int32_t i)
{
    const struct cs_node *node = &p->segment->nodes[i];
    char label[96];
    if (p->builder->costing.separate_accumulation && node->n_par > 0) {
        cs__emit_compute(p->builder, list, CS_PHASE_BACKWARD,
                         join(node->label, ".accumulate", label, sizeof label),
                         cs__accumulation_cost(&p->builder->costing, p->segment, node, &p->space[i]));
    }
}

static void emit_weight_product(struct cs_planner *p, struct cs_oplist *list, int32_t i)
{
    const struct cs_node *node = &p->segment->nodes[i];
    char label[96];
    cs__emit_compute(p->builder, list, CS_PHASE_BACKWARD, join(node->label, ".wgrad", label, sizeof label),
                     cs__node_cost(&p->builder->costing, p->segment, node, &p->space[i], CS_PASS_WEIGHT));
}

static void emit_input_product(struct cs_planner *p, struct cs_oplist *list, int32_t i)
{
    const struct cs_node *node = &p->segment->nodes[i];
    char label[96];
    cs__emit_compute(p->builder, list, CS_PHASE_BACKWARD, join(node->label, ".dgrad", label, sizeof label),
                     cs__node_cost(&p->builder->costing, p->segment, node, &p->space[i], CS_PASS_BACKWARD));
}

static bool has_input_gradient(const struct cs_planner *p, const struct cs_node *node)
{
    bool has = false;
    for (uint8_t k = 0; k < node->n_in; k++) {
        has |= !p->segment->tensors[node->in[k]].no_grad;
    }
    return has;
}

/** Collectives that may run beside gradients: the one that gathers the operand again is awaited behind the
 *  gradient of the input, the one that reduces that gradient behind the gradient of the weight. */
static void emit_product_backward(struct cs_planner *p, struct cs_oplist *list, int32_t i, enum half half)
{
    const struct cs_node *node = &p->segment->nodes[i];
    const bool input = has_input_gradient(p, node);
    bool beside = false;
    if (half != HALF_WEIGHT && cs__node_casts(&p->builder->costing, p->segment, node)) {
        emit_cast(p, list, i, CS_PHASE_BACKWARD, CS_PASS_BACKWARD);
    }
    if (half == HALF_BOTH) {
        int32_t from = list->n;
        emit_regather(p, list, i);
        beside = input && cs__plan_beside(p, list, from, node);
    }
    if (input) {
        emit_input_product(p, list, i);
        if (beside) {
            cs__plan_await(p->builder, list);
        }
        int32_t from = list->n;
        emit_gradient_moves(p, list, i);
        beside = half == HALF_BOTH && cs__plan_beside(p, list, from, node);
    }
    if (half == HALF_BOTH) {
        emit_weight_product(p, list, i);
        if (beside) {
            cs__plan_await(p->builder, list);
        }
        emit_accumulation(p, list, i);
    }
}

static void emit_node_backward(struct cs_planner *p, struct cs_oplist *list, int32_t i, enum half half)
{
    const struct cs_node *node = &p->segment->nodes[i];
    if (cs__node_is_product(node)) {
        emit_product_backward(p, list, i, half);
        return;
    }
    emit_regather(p, list, i);
    if (cs__planner_is_ring(p, node)) {
        cs__plan_ring_backward(p, list, i);
        emit_gradient_moves(p, list, i);
        return;
    }
    if (node->exchange == CS_EXCHANGE_OUTPUT) {
        emit_exchange(p, list, i, CS_PHASE_BACKWARD);
    }
    cs__emit_compute(p->builder, list, CS_PHASE_BACKWARD, node->label,
                     cs__node_cost(&p->builder->costing, p->segment, node, &p->space[i], CS_PASS_BACKWARD));
    if (node->exchange == CS_EXCHANGE_INPUT) {
        emit_exchange(p, list, i, CS_PHASE_BACKWARD);
    }
    emit_gradient_moves(p, list, i);
    emit_accumulation(p, list, i);
}

/** Run the regions again that node `i` needs something of and that have not been run yet. */
static void emit_regions(struct cs_planner *p, struct cs_oplist *list, int32_t i, bool done[CS_REGIONS_MAX])
{
    const struct cs_node *node = &p->segment->nodes[i];
    for (uint8_t k = 0; k < node->n_save; k++) {
        int8_t region = p->region_of[node->save[k]];
        if (region >= 0 && !done[region]) {
            done[region] = true;
            const struct cs_region *r = &p->regions[region];
            int32_t label = cs__builder_label(p->builder, p->segment->nodes[r->first].label);
            cs__oplist_alloc(list, CS_MEM_BUFFERS, r->bytes, label);
            emit_forward(p, list, r->first, r->last, CS_PHASE_RECOMPUTE);
        }
    }
}

static void build_backward(struct cs_planner *p, struct cs_plan *plan, enum half half)
{
    const struct cs_segment *segment = p->segment;
    struct cs_oplist *list = half == HALF_BOTH ? &plan->backward : &plan->input;
    int32_t label = cs__builder_label(p->builder, segment->name);
    bool full = segment->is_layer && p->recompute == CS_RECOMPUTE_FULL;
    bool done[CS_REGIONS_MAX] = {false};
    cs__oplist_alloc(list, CS_MEM_BUFFERS, plan->backward_temp_bytes, label);
    if (full) {
        cs__oplist_alloc(list, CS_MEM_BUFFERS, plan->recomputed_bytes, label);
        emit_forward(p, list, 0, segment->n_nodes - 1, CS_PHASE_RECOMPUTE);
    }
    if (segment->out != CS_NO_TENSOR) {
        const struct cs_tensor *out = &segment->tensors[segment->out];
        struct cs_layout boundary = cs__sharding_boundary(&p->builder->sharding, out);
        struct cs_layout want = cs__layout_whole(p->produced[segment->out]);
        emit_moves(p, list, segment->out, &boundary, &want, CS_PHASE_BACKWARD,
                   segment->nodes[segment->n_nodes - 1].label);
    }
    for (int32_t i = segment->n_nodes - 1; i >= 0; i--) {
        if (!segment->nodes[i].no_backward) {
            emit_regions(p, list, i, done);
            emit_node_backward(p, list, i, half);
        }
        for (int32_t r = 0; r < p->n_regions; r++) {
            if (done[r] && p->regions[r].first == i) {
                cs__oplist_free_mem(list, CS_MEM_BUFFERS, p->regions[r].bytes, label);
            }
        }
    }
    cs__oplist_free_mem(list, CS_MEM_BUFFERS, plan->backward_temp_bytes + (full ? plan->recomputed_bytes : 0),
                        label);
    cs__oplist_free_mem(list, CS_MEM_ACTIVATIONS, plan->saved_bytes, label);
    if (half == HALF_INPUT) {
        cs__oplist_alloc(list, CS_MEM_ACTIVATIONS, plan->late_bytes, label);
    }
}

/** The weight gradients alone, in backward's order. */
static void build_weight(struct cs_planner *p, struct cs_plan *plan)
{
    struct cs_oplist *list = &plan->weight;
    for (int32_t i = p->segment->n_nodes - 1; i >= 0; i--) {
        if (cs__node_is_product(&p->segment->nodes[i])) {
            emit_regather(p, list, i);
            emit_weight_product(p, list, i);
            emit_accumulation(p, list, i);
        }
    }
    cs__oplist_free_mem(list, CS_MEM_ACTIVATIONS, plan->late_bytes,
                        cs__builder_label(p->builder, p->segment->name));
}

static void measure_late(struct cs_planner *p, struct cs_plan *plan)
{
    bool counted[CS_SEGMENT_TENSORS_MAX] = {false};
    for (int32_t i = 0; i < p->segment->n_nodes; i++) {
        const struct cs_node *node = &p->segment->nodes[i];
        if (!cs__node_is_product(node)) {
            continue;
        }
        for (uint8_t k = 0; k < node->n_save; k++) {
            const struct cs_tensor *kept = &p->segment->tensors[node->save[k]];
            struct cs_layout want = cs__space_input(&p->space[i], kept);
            const struct cs_layout *as = cs__planner_kept_as(p, node->save[k], &want);
            plan->late_bytes +=
                counted[node->save[k]]
                    ? 0
                    : cs__tensor_bytes(&p->builder->costing, kept,
                                       cs__sharding_elements(&p->builder->sharding, kept, as));
            counted[node->save[k]] = true;
        }
        for (uint8_t k = 0; k < node->n_out; k++) {
            const struct cs_tensor *out = &p->segment->tensors[node->out[k]];
            struct cs_layout layout = cs__layout_whole(p->produced[node->out[k]]);
            plan->late_bytes += cs__tensor_bytes(&p->builder->costing, out,
                                                 cs__sharding_elements(&p->builder->sharding, out, &layout));
        }
    }
}

static void build_forward(struct cs_planner *p, struct cs_plan *plan)
{
    int32_t label = cs__builder_label(p->builder, p->segment->name);
    cs__oplist_alloc(&plan->forward, CS_MEM_ACTIVATIONS, plan->saved_bytes, label);
    cs__oplist_alloc(&plan->forward, CS_MEM_BUFFERS, plan->forward_temp_bytes, label);
    emit_forward(p, &plan->forward, 0, p->segment->n_nodes - 1, CS_PHASE_FORWARD);
    cs__oplist_free_mem(&plan->forward, CS_MEM_BUFFERS, plan->forward_temp_bytes, label);
}

/** Muon's five Newton-Schulz steps on the rank's part of a matrix of a x b, a <= b: per step one product a x
 * b x a, one a x a x a, one a x a x b (Jordan et al., 2024; Liu et al., arXiv 2502.16982). */
static double newton_flop(const struct cs_planner *p, const struct cs_node *node,
                          const struct cs_tensor *param, const struct cs_layout *layout)
{
    const struct cs_sharding *sharding = &p->builder->sharding;
    const struct cs_tensor *in = &p->segment->tensors[node->in[0]];
    double size[3] = {1, 1, 1};
    /* Summed axes against the result's; experts are matrices of their own. */
    bool expert = cs__planner_is_expert(p, param);
    for (uint8_t i = 0; i < param->n_axes; i++) {
        double length = (double)cs__sharding_length(sharding, param->axes[i], layout->cut[i]);
        size[expert && i == 0 ? 2 : cs__tensor_has_axis(in, param->axes[i]) ? 0 : 1] *= length;
    }
    double a = size[0] < size[1] ? size[0] : size[1];
    double b = size[0] < size[1] ? size[1] : size[0];
    return 5 * size[2] * (4 * a * a * b + 2 * a * a * a);
}

static void sum_params(struct cs_planner *p, struct cs_plan *plan)
{
    const struct cs_sharding *sharding = &p->builder->sharding;
    for (int32_t i = 0; i < p->segment->n_nodes; i++) {
        const struct cs_node *node = &p->segment->nodes[i];
        for (uint8_t k = 0; k < node->n_par; k++) {
            const struct cs_tensor *param = &p->segment->tensors[node->par[k]];
            struct cs_layout layout = cs__space_gradient(&p->space[i], param);
            int64_t n = cs__sharding_elements(sharding, param, &layout);
            if (param->shared) {
                continue;
            }
            plan->params.n_tensors += param->tied ? 0 : 1;
            const bool matrix = cs__param_is_matrix(p->segment, node, node->par[k]);
            plan->params.newton_flop += matrix ? newton_flop(p, node, param, &layout) : 0;
            if (cs__planner_is_expert(p, param)) {
                plan->params.n_expert += n;
                continue;
            }
            if (param->tied) {
                plan->params.n_tied += n;
                continue;
            }
            plan->params.n += n;
            plan->params.n_plain += matrix ? 0 : n;
            plan->params.n_partial += sharding->degree[0] > 1 && (layout.partial & CS_CUT_MP) ? n : 0;
            plan->params.n_copies += cs__sharding_copies(sharding, param, &layout) > 1 ? n : 0;
        }
    }
}

/** What keeping the results of a layer's tensor-parallel communication costs under full recomputation. */
static int64_t kept_comm_bytes(struct cs_planner *p)
{
    struct cs_oplist scratch = {0};
    if (!p->builder->strategy.keep_comm || p->recompute != CS_RECOMPUTE_FULL || !p->segment->is_layer) {
        return 0;
    }
    p->counting = true;
    emit_forward(p, &scratch, 0, p->segment->n_nodes - 1, CS_PHASE_FORWARD);
    p->counting = false;
    cs__oplist_release(&scratch);
    return p->comm_bytes;
}

static void measure(struct cs_planner *p, struct cs_plan *plan)
{
    const struct cs_segment *segment = p->segment;
    for (int32_t t = 0; t < segment->n_tensors; t++) {
        if (p->saved[t]) {
            plan->saved_bytes += cs__planner_stored_bytes(p, t);
        } else if (p->wanted[t]) {
            plan->recomputed_bytes += cs__planner_stored_bytes(p, t);
        }
        if (t == segment->in || t == segment->out) {
            struct cs_layout boundary = cs__sharding_boundary(&p->builder->sharding, &segment->tensors[t]);
            const struct cs_costing *costing = &p->builder->costing;
            int64_t elements = cs__sharding_elements(costing->sharding, &segment->tensors[t], &boundary);
            *(t == segment->in ? &plan->in_bytes : &plan->out_bytes) =
                cs__tensor_bytes(costing, &segment->tensors[t], elements);
        }
    }
    int64_t ring = cs__planner_ring_bytes(p);
    plan->saved_bytes += kept_comm_bytes(p);
    plan->forward_temp_bytes = cs__planner_forward_temp(p, p->saved) + ring;
    plan->backward_temp_bytes = cs__planner_backward_temp(p) + 2 * ring;
    plan->runs_again = segment->is_layer && p->recompute == CS_RECOMPUTE_FULL;
    if (plan->runs_again) {
        int64_t again = cs__planner_forward_temp(p, p->wanted) + ring;
        plan->backward_temp_bytes = again > plan->backward_temp_bytes ? again : plan->backward_temp_bytes;
    }
}

void cs__plan_build(struct cs_plan *plan, struct cs_builder *builder, const struct cs_segment *segment,
                    enum cs_recompute recompute)
{
    *plan = (struct cs_plan){0};
    struct cs_planner planner = {.builder = builder, .segment = segment, .recompute = recompute};
    cs__planner_choose(&planner);
    measure(&planner, plan);
    sum_params(&planner, plan);
    build_forward(&planner, plan);
    build_backward(&planner, plan, HALF_BOTH);
    if (builder->pipeline.splits) {
        measure_late(&planner, plan);
        build_backward(&planner, plan, HALF_INPUT);
        build_weight(&planner, plan);
    }
    if (segment->is_layer) {
        cs__plan_overlap(builder, plan);
    }
}

void cs__plan_release(struct cs_plan *plan)
{
    cs__oplist_release(&plan->forward);
    cs__oplist_release(&plan->backward);
    cs__oplist_release(&plan->input);
    cs__oplist_release(&plan->weight);
}
