/* Ring attention over context-parallel ranks (Liu et al., arXiv 2310.01889). Each rank has a part of the
 * sequence's two halves, first with last, so that under a causal mask all have the same work in every step.
 */
#include "plan_priv.h"

bool cs__planner_is_ring(const struct cs_planner *planner, const struct cs_node *node)
{
    const struct cs_strategy *strategy = &planner->builder->strategy;
    return node->attention && strategy->cp > 1 && strategy->cp_kind == CS_CP_RING;
}

bool cs__planner_is_expert(const struct cs_planner *planner, const struct cs_tensor *param)
{
    for (uint8_t i = 0; i < param->n_axes; i++) {
        /* The router's experts are columns of one matrix; an expert's own matrices have it in front. */
        if (i == 0 && planner->builder->graph.axes[param->axes[i]].role == CS_AXIS_EXPERT) {
            return true;
        }
    }
    return false;
}

/** Bytes of one rank's keys and values. */
static int64_t pair_bytes(const struct cs_planner *p, int32_t i)
{
    const struct cs_node *node = &p->segment->nodes[i];
    const struct cs_costing *costing = &p->builder->costing;
    int64_t bytes = 0;
    for (uint8_t k = 1; k < node->n_in; k++) {
        const struct cs_tensor *tensor = &p->segment->tensors[node->in[k]];
        struct cs_layout layout = cs__space_input(&p->space[i], tensor);
        bytes += cs__tensor_bytes(costing, tensor, cs__sharding_elements(costing->sharding, tensor, &layout));
    }
    return bytes;
}

int64_t cs__planner_ring_bytes(const struct cs_planner *planner)
{
    for (int32_t i = 0; i < planner->segment->n_nodes; i++) {
        if (cs__planner_is_ring(planner, &planner->segment->nodes[i])) {
            return pair_bytes(planner, i);
        }
    }
    return 0;
}

/** One of cp equal steps. */
static struct cs_op_cost step_cost(const struct cs_planner *p, int32_t i, enum cs_pass pass)
{
    const int32_t cp = p->builder->strategy.cp;
    struct cs_op_cost cost =
        cs__node_cost(&p->builder->costing, p->segment, &p->segment->nodes[i], &p->space[i], pass);
    cost.flop /= cp;
    cost.bytes /= cp;
    cost.n = (cost.n + cp - 1) / cp;
    return cost;
}

static void emit_send(struct cs_planner *p, struct cs_oplist *list, enum cs_phase phase, int64_t bytes)
{
    cs__emit_event(p->builder, list, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_RING);
    cs__emit_event(p->builder, list, CS_OP_WAIT, CS_LANE_CP, CS_EVENT_RING);
    cs__emit_message(p->builder, list, CS_OP_SEND, (struct cs_channel){.ring = true}, phase, bytes);
}

static void emit_receive(struct cs_planner *p, struct cs_oplist *list, enum cs_phase phase, int64_t bytes)
{
    cs__emit_message(p->builder, list, CS_OP_RECV, (struct cs_channel){.ring = true}, phase, bytes);
}

void cs__plan_ring_forward(struct cs_planner *planner, struct cs_oplist *list, int32_t node,
                           enum cs_phase phase)
{
    const int32_t cp = planner->builder->strategy.cp;
    const int64_t bytes = pair_bytes(planner, node);
    for (int32_t step = 0; step < cp; step++) {
        bool more = step < cp - 1;
        if (more) {
            emit_send(planner, list, phase, bytes);
        }
        cs__emit_compute(planner->builder, list, phase, planner->segment->nodes[node].label,
                         step_cost(planner, node, CS_PASS_FORWARD));
        if (more) {
            emit_receive(planner, list, phase, bytes);
        }
    }
}

void cs__plan_ring_backward(struct cs_planner *planner, struct cs_oplist *list, int32_t node)
{
    const int32_t cp = planner->builder->strategy.cp;
    const int64_t pair = pair_bytes(planner, node);
    /* Keys and values travel cp - 1 steps; their gradients start a step later and have to come home. */
    for (int32_t step = 0; step <= cp; step++) {
        int64_t bytes = (step < cp - 1 ? pair : 0) + (step > 0 ? pair : 0);
        emit_send(planner, list, CS_PHASE_BACKWARD, bytes);
        if (step < cp) {
            cs__emit_compute(planner->builder, list, CS_PHASE_BACKWARD, planner->segment->nodes[node].label,
                             step_cost(planner, node, CS_PASS_BACKWARD));
        }
        emit_receive(planner, list, CS_PHASE_BACKWARD, bytes);
    }
}
