/* What a segment keeps for its backward pass, in which layout, and its largest working sets. */
#include "plan_priv.h"

#include <math.h>

static bool contains(const uint8_t *list, uint8_t n, int32_t tensor)
{
    for (uint8_t i = 0; i < n; i++) {
        if (list[i] == tensor) {
            return true;
        }
    }
    return false;
}

static int64_t layout_bytes(const struct cs_planner *p, int32_t tensor, const struct cs_layout *layout)
{
    const struct cs_costing *costing = &p->builder->costing;
    const struct cs_tensor *t = &p->segment->tensors[tensor];
    return cs__tensor_bytes(costing, t, cs__sharding_elements(costing->sharding, t, layout));
}

/** Is it what experts made of the rank's own tokens, kept as it came back to them? */
static bool has_come_back(const struct cs_planner *p, int32_t tensor)
{
    const int8_t user = p->last_use[tensor];
    return user >= 0 && user < p->segment->n_nodes && p->segment->nodes[user].exchange == CS_EXCHANGE_INPUT &&
           p->segment->nodes[user].in[0] == tensor;
}

int64_t cs__planner_stored_bytes(const struct cs_planner *planner, int32_t tensor)
{
    const int64_t bytes =
        layout_bytes(planner, tensor, &planner->stored[tensor]) +
        (planner->twice[tensor] ? layout_bytes(planner, tensor, &planner->second[tensor]) : 0);
    const double uneven = planner->builder->costing.imbalance_frac;
    return uneven > 1 && has_come_back(planner, tensor) ? (int64_t)ceil((double)bytes / uneven) : bytes;
}

const struct cs_layout *cs__planner_kept_as(const struct cs_planner *planner, int32_t tensor,
                                            const struct cs_layout *want)
{
    const struct cs_tensor *t = &planner->segment->tensors[tensor];
    bool second = planner->twice[tensor] && cs__layout_equal(&planner->second[tensor], want, t);
    return second ? &planner->second[tensor] : &planner->stored[tensor];
}

/** Another cut of the same, copies of heads not counted. */
static bool is_exchange(const struct cs_planner *p, int32_t tensor, const struct cs_layout *used)
{
    const struct cs_sharding *sharding = p->builder->costing.sharding;
    const struct cs_tensor *t = &p->segment->tensors[tensor];
    const struct cs_layout *made = &p->produced[tensor];
    return !cs__layout_equal(used, made, t) &&
           layout_bytes(p, tensor, used) * cs__sharding_copies(sharding, t, made) ==
               layout_bytes(p, tensor, made) * cs__sharding_copies(sharding, t, used);
}

/** Rows gathered for the parts of experts are kept as their products read them: the gather is an operator of
 *  its own (Megatron-LM, token_dispatcher.py), not part of the product as that of a dense MLP is. */
static bool keeps_rows(const struct cs_planner *p, int32_t tensor)
{
    const struct cs_sharding *sharding = p->builder->costing.sharding;
    const struct cs_tensor *t = &p->segment->tensors[tensor];
    return sharding->expert_mp && t->n_axes > 0 && sharding->graph->axes[t->axes[0]].role == CS_AXIS_ROWS;
}

/** Producers, last uses, layouts. A kept tensor stays as its producer left it; a sum cannot be kept, so then
 *  as its first keeper wants it. */
static void trace_tensors(struct cs_planner *p)
{
    const struct cs_segment *segment = p->segment;
    for (int32_t t = 0; t < segment->n_tensors; t++) {
        p->producer[t] = -1;
        p->last_use[t] = -1;
        p->region_of[t] = -1;
    }
    if (segment->in != CS_NO_TENSOR) {
        p->produced[segment->in] =
            cs__sharding_boundary(&p->builder->sharding, &segment->tensors[segment->in]);
        p->stored[segment->in] = p->produced[segment->in];
    }
    for (int32_t i = 0; i < segment->n_nodes; i++) {
        const struct cs_node *node = &segment->nodes[i];
        cs__sharding_space(&p->builder->sharding, segment, node, &p->space[i]);
        for (uint8_t k = 0; k < node->n_in; k++) {
            p->last_use[node->in[k]] = (int8_t)i;
        }
        for (uint8_t k = 0; k < node->n_out; k++) {
            uint8_t t = node->out[k];
            p->producer[t] = (int8_t)i;
            p->produced[t] = cs__space_output(&p->space[i], &segment->tensors[t]);
            p->stored[t] = p->produced[t];
        }
        for (uint8_t k = 0; k < node->n_save; k++) {
            uint8_t t = node->save[k];
            bool own = p->producer[t] < 0 && t != segment->in;
            struct cs_layout used = cs__space_input(&p->space[i], &segment->tensors[t]);
            /* Another cut of the same size (Ulysses) costs nothing to keep and saves an exchange; what two
             * users get in two cuts, each keeps (attention its result, the projection its operand). */
            bool exchanged = !own && !p->produced[t].partial && is_exchange(p, t, &used);
            if ((own || p->produced[t].partial || exchanged || keeps_rows(p, t)) && !p->wanted[t]) {
                p->stored[t] = used;
            } else if (exchanged && p->wanted[t] && !p->twice[t] &&
                       !cs__layout_equal(&p->stored[t], &used, &p->segment->tensors[t])) {
                p->twice[t] = true;
                p->second[t] = used;
            }
            p->wanted[t] = true;
        }
    }
    if (segment->out != CS_NO_TENSOR) {
        p->last_use[segment->out] = (int8_t)segment->n_nodes;
    }
}

/** Runs of nodes marked for selective recomputation. */
static void find_regions(struct cs_planner *p)
{
    for (int32_t i = 0; i < p->segment->n_nodes; i++) {
        if (p->segment->nodes[i].selective == CS_SEL_KEEP) {
            continue;
        }
        bool follows = p->n_regions > 0 && p->regions[p->n_regions - 1].last == i - 1;
        if (!follows) {
            CS_ASSERT(p->n_regions < CS_REGIONS_MAX);
            p->regions[p->n_regions++] = (struct cs_region){.first = i};
        }
        p->regions[p->n_regions - 1].last = i;
    }
}

/** Drop what the nodes of a region make or hold for themselves, keep what they need from outside. */
static void drop_region(struct cs_planner *p, int32_t region)
{
    const struct cs_segment *segment = p->segment;
    for (int32_t i = p->regions[region].first; i <= p->regions[region].last; i++) {
        const struct cs_node *node = &segment->nodes[i];
        for (int32_t t = 0; t < segment->n_tensors; t++) {
            bool own = contains(node->save, node->n_save, t) && p->producer[t] < 0 && t != segment->in;
            bool made = node->selective == CS_SEL_DROP && p->producer[t] == i;
            if (p->wanted[t] && (own || made)) {
                p->saved[t] = false;
                p->region_of[t] = (int8_t)region;
                p->regions[region].bytes += cs__planner_stored_bytes(p, t);
            }
        }
        for (uint8_t k = 0; k < node->n_in; k++) {
            uint8_t t = node->in[k];
            bool inside = p->producer[t] >= p->regions[region].first;
            if (!inside && p->region_of[t] < 0) {
                p->saved[t] = true;
            }
        }
    }
}

void cs__planner_choose(struct cs_planner *planner)
{
    struct cs_planner *p = planner;
    trace_tensors(p);
    for (int32_t t = 0; t < p->segment->n_tensors; t++) {
        p->saved[t] = p->wanted[t];
    }
    if (!p->segment->is_layer || p->recompute == CS_RECOMPUTE_NONE) {
        return;
    }
    if (p->recompute == CS_RECOMPUTE_FULL) {
        for (int32_t t = 0; t < p->segment->n_tensors; t++) {
            p->saved[t] = t == p->segment->in;
        }
        return;
    }
    find_regions(p);
    for (int32_t region = 0; region < p->n_regions; region++) {
        drop_region(p, region);
    }
}

/** Bytes of a tensor between its producer and its last use: the part where it is made, and once more where a
 *  user wants a differently cut copy of another size (a gather, a scatter; an all-reduce is in place). */
static int64_t live_bytes(const struct cs_planner *p, int32_t tensor, int32_t at, bool keep)
{
    const struct cs_segment *segment = p->segment;
    int64_t bytes = keep || p->producer[tensor] < 0 ? 0 : layout_bytes(p, tensor, &p->produced[tensor]);
    int64_t made = layout_bytes(p, tensor, &p->produced[tensor]);
    int64_t copy = 0;
    for (int32_t i = at; i < segment->n_nodes; i++) {
        const struct cs_node *node = &segment->nodes[i];
        if (contains(node->in, node->n_in, tensor)) {
            struct cs_layout layout = cs__space_input(&p->space[i], &segment->tensors[tensor]);
            int64_t wanted = layout_bytes(p, tensor, &layout);
            /* A copy is made for its first user and held to its last. */
            bool now = i == at;
            for (int32_t j = 0; j < at && !now; j++) {
                struct cs_layout earlier = cs__space_input(&p->space[j], &segment->tensors[tensor]);
                now = contains(segment->nodes[j].in, segment->nodes[j].n_in, tensor) &&
                      cs__layout_equal(&earlier, &layout, &segment->tensors[tensor]);
            }
            copy = now && wanted != made && wanted > copy ? wanted : copy;
        }
    }
    return bytes + copy;
}

/** Rows at an exchange between experts: those that leave stand beside those that arrive. */
static int64_t exchange_bytes(const struct cs_planner *p, const struct cs_node *node, int32_t i)
{
    if (node->exchange == CS_EXCHANGE_NONE || p->builder->strategy.ep == 1) {
        return 0;
    }
    uint8_t rows = node->exchange == CS_EXCHANGE_OUTPUT ? node->out[0] : node->in[0];
    struct cs_layout layout = cs__space_input(&p->space[i], &p->segment->tensors[rows]);
    return layout_bytes(p, rows, &layout);
}

int64_t cs__planner_forward_temp(const struct cs_planner *planner, const bool keep[CS_SEGMENT_TENSORS_MAX])
{
    const struct cs_planner *p = planner;
    int64_t most = 0;
    for (int32_t i = 0; i < p->segment->n_nodes; i++) {
        const struct cs_node *node = &p->segment->nodes[i];
        int64_t live = exchange_bytes(p, node, i);
        for (int32_t t = 0; t < p->segment->n_tensors; t++) {
            bool alive = p->producer[t] <= i && p->last_use[t] >= i;
            bool own = contains(node->save, node->n_save, t) && p->producer[t] < 0 && t != p->segment->in;
            if (own && !keep[t]) {
                live += cs__planner_stored_bytes(p, t);
            } else if (alive && !p->segment->tensors[t].param) {
                live += live_bytes(p, t, i, keep[t]);
            }
        }
        most = live > most ? live : most;
    }
    return most;
}

/** Kept tensors that node `i` has to gather again before its backward pass. */
static int64_t regathered_bytes(const struct cs_planner *p, int32_t i)
{
    const struct cs_node *node = &p->segment->nodes[i];
    int64_t bytes = 0;
    for (uint8_t k = 0; k < node->n_save; k++) {
        uint8_t t = node->save[k];
        struct cs_layout layout = cs__space_input(&p->space[i], &p->segment->tensors[t]);
        int64_t wanted = layout_bytes(p, t, &layout);
        bytes += wanted > cs__planner_stored_bytes(p, t) ? wanted : 0;
    }
    return bytes;
}

int64_t cs__planner_backward_temp(const struct cs_planner *planner)
{
    const struct cs_planner *p = planner;
    int64_t most = 0;
    for (int32_t i = 0; i < p->segment->n_nodes; i++) {
        int64_t live = regathered_bytes(p, i) + exchange_bytes(p, &p->segment->nodes[i], i);
        for (int32_t t = 0; t < p->segment->n_tensors; t++) {
            const struct cs_tensor *tensor = &p->segment->tensors[t];
            if (tensor->param || tensor->no_grad || p->producer[t] > i || p->last_use[t] < i) {
                continue;
            }
            struct cs_layout whole = cs__layout_whole(p->produced[t]);
            int64_t bytes = layout_bytes(p, t, &whole);
            /* Where it is made and before it is reduced, the gradient is as large as its user wants the
             * input. */
            if (contains(p->segment->nodes[i].in, p->segment->nodes[i].n_in, t)) {
                struct cs_layout used = cs__space_input(&p->space[i], tensor);
                int64_t larger = layout_bytes(p, t, &used);
                bytes = larger != bytes ? bytes + larger : bytes;
            }
            live += bytes;
        }
        most = live > most ? live : most;
    }
    return most;
}
