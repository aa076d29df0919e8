/* Two passes of a stage side by side (DualPipe; DeepSeek-V3, arXiv 2412.19437, section 3.2.1): a forward pass
 * of one direction and a backward pass of the other take turns on the compute stream, and each one's expert
 * communication runs while the other computes. */
#include "stage_priv.h"

bool cs__stage_joins(const struct cs_stage *stage)
{
    const struct cs_strategy *s = &stage->builder->strategy;
    return cs__builder_group_size(stage->builder, CS_GROUP_EP) > 1 && s->zero < 3 && !s->swap_activations &&
           !s->fused_tp && s->half_batches < 2;
}

/** One of the two on its way. */
struct side {
    const struct cs_oplist *ops;
    int32_t at;
    bool away; /* its communication is under way: to be waited for before it goes on */
};

static bool is_exchange(const struct cs_builder *builder, const struct cs_op *op)
{
    return op->type == CS_OP_COLLECTIVE && op->coll == CS_COLL_ALL_TO_ALL &&
           op->stream == CS_STREAM_COMPUTE && op->comm == builder->group_comm[CS_GROUP_EP];
}

static void launch(struct cs_builder *builder, struct cs_oplist *out, struct cs_op op)
{
    op.comm = cs__builder_comm(builder, CS_GROUP_EP_ASYNC);
    op.stream = cs__builder_stream(builder, CS_LANE_EP);
    cs__emit_event(builder, out, CS_OP_RECORD, CS_LANE_COMPUTE, CS_EVENT_EP_READY);
    cs__emit_event(builder, out, CS_OP_WAIT, CS_LANE_EP, CS_EVENT_EP_READY);
    cs__oplist_add(out, op);
    cs__emit_event(builder, out, CS_OP_RECORD, CS_LANE_EP, CS_EVENT_EP_DONE);
}

/** As far as the side's next expert communication, which is launched, or to its end. */
static void advance(struct cs_builder *builder, struct cs_oplist *out, struct side *side)
{
    if (side->away) {
        cs__emit_event(builder, out, CS_OP_WAIT, CS_LANE_COMPUTE, CS_EVENT_EP_DONE);
        side->away = false;
    }
    while (side->at < side->ops->n && !side->away) {
        const struct cs_op *op = &side->ops->ops[side->at++];
        if (is_exchange(builder, op)) {
            launch(builder, out, *op);
            side->away = true;
        } else {
            cs__oplist_add(out, *op);
        }
    }
}

void cs__stage_join(const struct cs_stage *stage, struct cs_oplist *list, const struct cs_oplist *first,
                    const struct cs_oplist *second)
{
    struct side sides[2] = {{.ops = first}, {.ops = second}};
    /* In turns, so that waits come in the order of the launches: they count. */
    for (int32_t turn = 0;
         sides[0].away || sides[0].at < first->n || sides[1].away || sides[1].at < second->n;
         turn = 1 - turn) {
        if (sides[turn].away || sides[turn].at < sides[turn].ops->n) {
            advance(stage->builder, list, &sides[turn]);
        }
    }
}
