/* Layouts and what moves between them. */
#include "sharding_priv.h"

void cs__sharding_init(struct cs_sharding *sharding, const struct cs_graph *graph,
                       const struct cs_strategy *strategy)
{
    *sharding = (struct cs_sharding){.graph = graph, .sp = strategy->sp, .expert_mp = strategy->expert_mp};
    sharding->ulysses = strategy->cp > 1 && strategy->cp_kind == CS_CP_ULYSSES;
    sharding->degree[0] = strategy->mp;
    sharding->degree[1] = strategy->cp;
    sharding->degree[2] = strategy->dp;
    sharding->degree[3] = strategy->ep;
}

static cs_cut axis_cut(const struct cs_sharding *sharding, int32_t axis, bool has_tensor_axis)
{
    switch (sharding->graph->axes[axis].role) {
    case CS_AXIS_BATCH:
        return CS_CUT_DP;
    case CS_AXIS_SEQ:
        return (cs_cut)(CS_CUT_CP | (sharding->sp && !has_tensor_axis ? CS_CUT_MP : 0));
    case CS_AXIS_TENSOR:
        return CS_CUT_MP;
    case CS_AXIS_EXPERT:
        return CS_CUT_EP;
    case CS_AXIS_EXPERT_TENSOR:
        return (cs_cut)(sharding->expert_mp ? CS_CUT_MP : 0);
    case CS_AXIS_ROWS:
        return (cs_cut)(CS_CUT_DP | CS_CUT_CP | (sharding->sp && !has_tensor_axis ? CS_CUT_MP : 0));
    case CS_AXIS_PLAIN:
        break;
    }
    return 0;
}

/** Ulysses: attention has whole sequences of some heads. */
static cs_cut attention_cut(const struct cs_sharding *sharding, int32_t axis, cs_cut cut)
{
    switch (sharding->graph->axes[axis].role) {
    case CS_AXIS_SEQ:
        return (cs_cut)(cut & ~CS_CUT_CP);
    case CS_AXIS_TENSOR:
        return (cs_cut)(cut | CS_CUT_CP);
    case CS_AXIS_BATCH:
    case CS_AXIS_EXPERT:
    case CS_AXIS_EXPERT_TENSOR:
    case CS_AXIS_ROWS:
    case CS_AXIS_PLAIN:
        break;
    }
    return cut;
}

static void mark_axes(const struct cs_segment *segment, const uint8_t *list, uint8_t n, uint32_t *axes)
{
    for (uint8_t i = 0; i < n; i++) {
        const struct cs_tensor *tensor = &segment->tensors[list[i]];
        for (uint8_t k = 0; k < tensor->n_axes; k++) {
            *axes |= UINT32_C(1) << tensor->axes[k];
        }
    }
}

void cs__sharding_space(const struct cs_sharding *sharding, const struct cs_segment *segment,
                        const struct cs_node *node, struct cs_space *space)
{
    const struct cs_graph *graph = sharding->graph;
    uint32_t axes = 0;
    mark_axes(segment, node->in, node->n_in, &axes);
    mark_axes(segment, node->out, node->n_out, &axes);
    mark_axes(segment, node->par, node->n_par, &axes);
    bool has_tensor_axis = false;
    for (int32_t axis = 0; axis < graph->n_axes; axis++) {
        const enum cs_axis_role role = graph->axes[axis].role;
        has_tensor_axis |= (axes >> axis & 1) &&
                           (role == CS_AXIS_TENSOR || (role == CS_AXIS_EXPERT_TENSOR && sharding->expert_mp));
    }
    *space = (struct cs_space){0};
    for (int32_t axis = 0; axis < graph->n_axes; axis++) {
        space->cut[axis] = axis_cut(sharding, axis, has_tensor_axis);
        if (node->attention && sharding->ulysses) {
            space->cut[axis] = attention_cut(sharding, axis, space->cut[axis]);
        }
        if (node->replicated_experts && graph->axes[axis].role == CS_AXIS_EXPERT) {
            space->cut[axis] = 0;
        }
        if (axes >> axis & 1) {
            space->all |= (cs_cut)(space->cut[axis] & ~CS_CUT_EP);
        }
    }
}

struct cs_layout cs__space_input(const struct cs_space *space, const struct cs_tensor *tensor)
{
    struct cs_layout layout = {0};
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        layout.cut[i] = space->cut[tensor->axes[i]];
    }
    return layout;
}

static cs_cut layout_cuts(const struct cs_layout *layout, const struct cs_tensor *tensor)
{
    cs_cut cuts = 0;
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        cuts |= layout->cut[i];
    }
    return cuts;
}

struct cs_layout cs__space_output(const struct cs_space *space, const struct cs_tensor *tensor)
{
    struct cs_layout layout = cs__space_input(space, tensor);
    layout.partial = (cs_cut)(space->all & ~layout_cuts(&layout, tensor));
    return layout;
}

struct cs_layout cs__space_gradient(const struct cs_space *space, const struct cs_tensor *tensor)
{
    return cs__space_output(space, tensor);
}

struct cs_layout cs__sharding_boundary(const struct cs_sharding *sharding, const struct cs_tensor *tensor)
{
    struct cs_layout layout = {0};
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        layout.cut[i] = axis_cut(sharding, tensor->axes[i], false);
    }
    return layout;
}

struct cs_layout cs__layout_whole(struct cs_layout layout)
{
    layout.partial = 0;
    return layout;
}

bool cs__layout_equal(const struct cs_layout *a, const struct cs_layout *b, const struct cs_tensor *tensor)
{
    if (a->partial != b->partial) {
        return false;
    }
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        if (a->cut[i] != b->cut[i]) {
            return false;
        }
    }
    return true;
}

static int64_t cut_degree(const struct cs_sharding *sharding, cs_cut cut)
{
    int64_t degree = 1;
    for (int32_t d = 0; d < CS_N_CUTS; d++) {
        if (cut >> d & 1) {
            degree *= sharding->degree[d];
        }
    }
    return degree;
}

int64_t cs__sharding_length(const struct cs_sharding *sharding, int32_t axis, cs_cut cut)
{
    int64_t degree = cut_degree(sharding, cut);
    return (sharding->graph->axes[axis].size + degree - 1) / degree;
}

int64_t cs__sharding_elements(const struct cs_sharding *sharding, const struct cs_tensor *tensor,
                              const struct cs_layout *layout)
{
    int64_t elements = 1;
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        elements *= cs__sharding_length(sharding, tensor->axes[i], layout->cut[i]);
    }
    return elements;
}

int64_t cs__sharding_copies(const struct cs_sharding *sharding, const struct cs_tensor *tensor,
                            const struct cs_layout *layout)
{
    int64_t copies = 1;
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        int64_t size = sharding->graph->axes[tensor->axes[i]].size;
        int64_t degree = cut_degree(sharding, layout->cut[i]);
        if (degree > size && degree % size == 0) {
            copies *= degree / size;
        }
    }
    return copies;
}

/** Axis of `layout` that dimension `dim` cuts; -1 = none. */
static int32_t cut_axis(const struct cs_layout *layout, const struct cs_tensor *tensor, cs_cut dim)
{
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        if (layout->cut[i] & dim) {
            return i;
        }
    }
    return -1;
}

/** What has to happen along `dim`; the rank of the kind in `order` says when: sums, exchanges, gathers. */
static bool move_along(const struct cs_layout *from, const struct cs_layout *to,
                       const struct cs_tensor *tensor, cs_cut dim, enum cs_coll *coll, int *order)
{
    int32_t from_axis = cut_axis(from, tensor, dim);
    int32_t to_axis = cut_axis(to, tensor, dim);
    CS_ASSERT(!(to->partial & dim) || (from->partial & dim));
    if (from->partial & dim) {
        *coll = to_axis >= 0 ? CS_COLL_REDUCE_SCATTER : CS_COLL_ALL_REDUCE;
        *order = 0;
        return !(to->partial & dim);
    }
    if (from_axis < 0 || from_axis == to_axis) {
        return false;
    }
    *coll = to_axis >= 0 ? CS_COLL_ALL_TO_ALL : CS_COLL_ALL_GATHER;
    *order = to_axis >= 0 ? 1 : 2;
    return true;
}

int32_t cs__sharding_moves(const struct cs_sharding *sharding, const struct cs_tensor *tensor,
                           const struct cs_layout *from, const struct cs_layout *to,
                           struct cs_move moves[CS_MOVES_MAX])
{
    struct cs_layout now = *from;
    int32_t n = 0;
    /* Cutting copies is free; doing it first makes every sum that follows smaller. */
    for (int32_t d = 0; d < CS_N_CUTS; d++) {
        cs_cut dim = (cs_cut)(1u << d);
        int32_t to_axis = cut_axis(to, tensor, dim);
        if (to_axis >= 0 && !(now.partial & dim) && cut_axis(&now, tensor, dim) < 0) {
            now.cut[to_axis] |= dim;
        }
    }
    for (int stage = 0; stage < 3; stage++) {
        for (int32_t d = 0; d < CS_N_CUTS; d++) {
            cs_cut dim = (cs_cut)(1u << d);
            enum cs_coll coll;
            int order;
            if (sharding->degree[d] == 1 || !move_along(&now, to, tensor, dim, &coll, &order) ||
                order != stage) {
                continue;
            }
            int64_t elements = cs__sharding_elements(sharding, tensor, &now);
            int32_t from_axis = cut_axis(&now, tensor, dim);
            int32_t to_axis = cut_axis(to, tensor, dim);
            now.partial &= (cs_cut)~dim;
            if (from_axis >= 0) {
                now.cut[from_axis] &= (cs_cut)~dim;
            }
            if (to_axis >= 0) {
                now.cut[to_axis] |= dim;
            }
            int64_t after = cs__sharding_elements(sharding, tensor, &now);
            if (coll == CS_COLL_ALL_GATHER || (coll == CS_COLL_ALL_TO_ALL && after > elements)) {
                /* Of an exchange: heads that several ranks get a copy of are repeated before it. */
                elements = after;
            }
            moves[n++] = (struct cs_move){.coll = coll, .dim = dim, .elements = elements};
        }
    }
    return n;
}
