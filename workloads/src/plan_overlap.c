/* Tensor-parallel communication under computation: half-batches, and products fused with their collectives.
 * Both rewrite a list that blocks on its collectives into one that runs them on their own lane.
 * cs__plan_beside instead launches single collectives on that lane while plan.c writes a backward pass. */
#include "plan_priv.h"

#include "cs/base/text.h"

/* Pieces of a fused product: each piece's collective runs under the next piece. MindSpeed's coc takes 2, 4 or
 * 8 (its --coc-parallel-num); 4 leaves a fifth of the shorter of the two exposed at most. */
#define FUSED_PIECES 4

static bool is_tp(const struct cs_builder *builder, const struct cs_op *op)
{
    return op->type == CS_OP_COLLECTIVE && op->stream == CS_STREAM_COMPUTE &&
           op->comm == builder->group_comm[CS_GROUP_TP];
}

static bool is_matmul(const struct cs_builder *builder, const struct cs_op *op)
{
    return op->type == CS_OP_COMPUTE && builder->costs[op->cost].kind == CS_OPKIND_MATMUL;
}

/** The part 1/n of an operation. Weights are read for every part when each is a kernel of its own. */
static struct cs_op part_of(struct cs_builder *builder, const struct cs_op *op, int32_t n, bool own_kernel)
{
    struct cs_op part = *op;
    part.bytes = (op->bytes + n - 1) / n;
    if (op->type == CS_OP_COMPUTE) {
        struct cs_op_cost cost = builder->costs[op->cost];
        bool weight = cs_text_ends_with(builder->labels[op->label], ".wgrad");
        double again = 0;
        if (own_kernel && cost.kind == CS_OPKIND_MATMUL) {
            double elements = weight ? 2 * (double)cost.m * (double)cost.n : (double)cost.n * (double)cost.k;
            again = elements * (double)cs_dtype_bytes(weight ? builder->costing.gradient_dtype : cost.dtype);
        }
        cost.flop /= n;
        cost.bytes = (cost.bytes - again) / n + again;
        int64_t *rows = weight ? &cost.k : &cost.m;
        *rows = (*rows + n - 1) / n;
        part.cost = cs__builder_cost(builder, cost);
    }
    return part;
}

/** A collective on its lane, once the compute stream is here. */
static void launch(struct cs_builder *builder, struct cs_oplist *out, struct cs_op op)
{
    op.comm = cs__builder_comm(builder, CS_GROUP_TP_ASYNC);
    op.stream = cs__builder_stream(builder, CS_LANE_TP);
    cs__emit_event(builder, out, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_TP_READY);
    cs__emit_event(builder, out, CS_OP_WAIT, CS_LANE_TP, CS_EVENT_TP_READY);
    cs__oplist_add(out, op);
    cs__emit_event(builder, out, CS_OP_RECORD, CS_LANE_TP, CS_EVENT_TP_DONE);
}

void cs__plan_await(struct cs_builder *builder, struct cs_oplist *out)
{
    cs__emit_event(builder, out, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_TP_DONE);
}

/** Between two collectives: the operations of one half. Memory is taken with the first and given back with
 * the second half. */
static void emit_half(struct cs_builder *builder, struct cs_oplist *out, const struct cs_op *ops, int32_t n,
                      int32_t half)
{
    for (int32_t i = 0; i < n; i++) {
        if (ops[i].type == CS_OP_ALLOC || ops[i].type == CS_OP_FREE) {
            if ((ops[i].type == CS_OP_ALLOC) == (half == 0)) {
                cs__oplist_add(out, ops[i]);
            }
        } else {
            cs__oplist_add(out, part_of(builder, &ops[i], 2, true));
        }
    }
}

static void halve(struct cs_builder *builder, const struct cs_oplist *in, struct cs_oplist *out)
{
    bool waiting = false;
    for (int32_t from = 0; from <= in->n;) {
        int32_t to = from;
        while (to < in->n && !is_tp(builder, &in->ops[to])) {
            to++;
        }
        for (int32_t half = 0; half < 2; half++) {
            if (waiting) {
                cs__plan_await(builder, out);
            }
            emit_half(builder, out, &in->ops[from], to - from, half);
            if (to < in->n) {
                launch(builder, out, part_of(builder, &in->ops[to], 2, false));
            }
        }
        waiting = to < in->n;
        from = to + 1;
    }
}

/** A product and the collective of its result, or a collective and the product of its result. */
static void fuse_pair(struct cs_builder *builder, const struct cs_op *product, const struct cs_op *coll,
                      bool product_first, struct cs_oplist *out)
{
    for (int32_t i = 0; i < FUSED_PIECES; i++) {
        if (product_first) {
            cs__oplist_add(out, part_of(builder, product, FUSED_PIECES, false));
        }
        launch(builder, out, part_of(builder, coll, FUSED_PIECES, false));
    }
    for (int32_t i = 0; i < FUSED_PIECES; i++) {
        cs__plan_await(builder, out);
        if (!product_first) {
            cs__oplist_add(out, part_of(builder, product, FUSED_PIECES, false));
        }
    }
}

static void fuse(struct cs_builder *builder, const struct cs_oplist *in, struct cs_oplist *out)
{
    for (int32_t i = 0; i < in->n; i++) {
        const struct cs_op *op = &in->ops[i];
        const struct cs_op *next = i + 1 < in->n ? &in->ops[i + 1] : NULL;
        if (next != NULL && is_matmul(builder, op) && is_tp(builder, next)) {
            fuse_pair(builder, op, next, true, out);
            i++;
        } else if (next != NULL && is_tp(builder, op) && is_matmul(builder, next)) {
            fuse_pair(builder, next, op, false, out);
            i++;
        } else if (is_tp(builder, op)) {
            launch(builder, out, *op);
            cs__plan_await(builder, out);
        } else {
            cs__oplist_add(out, *op);
        }
    }
}

void cs__plan_overlap(struct cs_builder *builder, struct cs_plan *plan)
{
    struct cs_oplist *lists[] = {&plan->forward, &plan->backward, &plan->input, &plan->weight};
    const struct cs_strategy *strategy = &builder->strategy;
    if (strategy->mp == 1 || (strategy->half_batches < 2 && !strategy->fused_tp)) {
        return;
    }
    for (int32_t i = 0; i < CS_COUNT(lists); i++) {
        struct cs_oplist out = {0};
        if (lists[i]->n == 0) {
            continue; /* of a schedule that does not split */
        }
        (strategy->half_batches > 1 ? halve : fuse)(builder, lists[i], &out);
        cs__oplist_release(lists[i]);
        *lists[i] = out;
    }
}

bool cs__plan_beside(struct cs_planner *planner, struct cs_oplist *list, int32_t from,
                     const struct cs_node *node)
{
    struct cs_builder *builder = planner->builder;
    const struct cs_strategy *strategy = &builder->strategy;
    bool more = planner->segment->is_layer && (strategy->half_batches > 1 || strategy->fused_tp);
    bool experts =
        node->n_par > 0 && cs__planner_is_expert(planner, &planner->segment->tensors[node->par[0]]);
    if (!builder->training->async_tensor_parallel || more || experts || list->n != from + 1 ||
        !is_tp(builder, &list->ops[from])) {
        return false;
    }
    struct cs_op op = list->ops[--list->n];
    launch(builder, list, op);
    return true;
}
