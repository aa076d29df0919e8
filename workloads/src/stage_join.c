/* Two passes of a stage side by side (DualPipe; DeepSeek-V3, arXiv 2412.19437, section 3.2.1): a forward pass
 * of one direction and a backward pass of the other take turns on the compute stream, and each one's expert
 * communication runs while the other computes. */
#include "stage_priv.h"

bool cs__stage_joins(const struct cs_stage *stage)
{
    return cs__builder_group_size(stage->builder, CS_GROUP_EP) > 1;
}

/** The forward pass with events of its own for gathered weights, tensor-parallel communication and copies to
 * the host, all of which it waits for itself: waits count, and would be met by the other pass' records. */
static void apart(struct cs_builder *builder, const struct cs_oplist *pass, struct cs_oplist *out)
{
    static const enum cs_event own[][2] = {{CS_EVENT_GATHER_READY, CS_EVENT_AHEAD_GATHER_READY},
                                           {CS_EVENT_GATHER_DONE, CS_EVENT_AHEAD_GATHER_DONE},
                                           {CS_EVENT_TP_READY, CS_EVENT_AHEAD_TP_READY},
                                           {CS_EVENT_TP_DONE, CS_EVENT_AHEAD_TP_DONE},
                                           {CS_EVENT_HOST_READY, CS_EVENT_AHEAD_HOST_READY},
                                           {CS_EVENT_HOST_DONE, CS_EVENT_AHEAD_HOST_DONE}};
    int32_t open[CS_COUNT(own)] = {0}; /* records not yet waited for */
    for (int32_t i = 0; i < pass->n; i++) {
        struct cs_op op = pass->ops[i];
        for (int32_t e = 0; e < CS_COUNT(own) && (op.type == CS_OP_RECORD || op.type == CS_OP_WAIT); e++) {
            if (pass->ops[i].comm == builder->event_index[own[e][0]]) {
                op.comm = cs__builder_event(builder, own[e][1]);
                open[e] += op.type == CS_OP_RECORD ? 1 : -1;
            }
        }
        cs__oplist_add(out, op);
    }
    for (int32_t e = 0; e < CS_COUNT(own); e++) {
        CS_ASSERT(open[e] == 0);
    }
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
    struct cs_oplist ahead = {0};
    apart(stage->builder, first, &ahead);
    struct side sides[2] = {{.ops = &ahead}, {.ops = second}};
    /* In turns, so that waits come in the order of the launches: they count. */
    for (int32_t turn = 0;
         sides[0].away || sides[0].at < first->n || sides[1].away || sides[1].at < second->n;
         turn = 1 - turn) {
        if (sides[turn].away || sides[turn].at < sides[turn].ops->n) {
            advance(stage->builder, list, &sides[turn]);
        }
    }
    cs__oplist_release(&ahead);
}
