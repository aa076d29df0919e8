/* Which ranks talk to each other: communicators and channels from the strategy's coordinates. */
#include "builder_priv.h"

/** Coordinates with dp split into the rank inside an optimizer group and the group, and mp into the copy of a
 *  key-value head and the head: every group we need is "all ranks that differ in these". */
enum digit { DIGIT_MP_IN, DIGIT_MP_OUT, DIGIT_CP, DIGIT_DP_IN, DIGIT_DP_OUT, DIGIT_PP, N_DIGITS };

#define BIT(digit) (1u << (digit))

static unsigned group_digits(const struct cs_builder *builder, enum cs_group group)
{
    const unsigned mp = BIT(DIGIT_MP_IN) | BIT(DIGIT_MP_OUT);
    switch (group) {
    case CS_GROUP_TP:
    case CS_GROUP_TP_ASYNC:
        return mp;
    case CS_GROUP_TP_COPIES:
        return BIT(DIGIT_MP_IN);
    case CS_GROUP_CP:
        return BIT(DIGIT_CP);
    case CS_GROUP_DP:
        return BIT(DIGIT_DP_IN) | BIT(DIGIT_DP_OUT) | BIT(DIGIT_CP);
    case CS_GROUP_OP:
    case CS_GROUP_GATHER:
        return BIT(DIGIT_DP_IN);
    case CS_GROUP_DPX:
        return BIT(DIGIT_DP_OUT) | BIT(DIGIT_CP);
    case CS_GROUP_NORM: /* of a dense model */
        return mp | BIT(DIGIT_PP) | (builder->strategy.op > 1 ? BIT(DIGIT_DP_IN) : 0);
    case CS_GROUP_EMBEDDING:
    case CS_GROUP_MIRROR:
        return BIT(DIGIT_PP);
    case CS_GROUP_EP:
    case CS_GROUP_EP_ASYNC:
    case CS_GROUP_EDP:
    case CS_GROUP_EOP:
    case CS_GROUP_EGATHER:
    case CS_GROUP_EDPX:
    case CS_N_GROUPS:
        break;
    }
    return 0;
}

static bool of_experts(enum cs_group group)
{
    return group >= CS_GROUP_EP && group <= CS_GROUP_EDPX;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/** How experts lie on the ranks of a stage, which count mp first, then cp, then dp: ep in a row share out the
 *  experts. Under expert_mp each expert is in mp parts, and the ranks with one part count cp, then dp. Copies
 *  of an expert are sharded over as many ranks as the other parameters, where that divides them; over all of
 *  them when op is all of dp. */
struct expert_grid {
    int64_t parts, ep, copies, op;
};

static struct expert_grid expert_grid(const struct cs_strategy *s)
{
    int64_t parts = s->expert_mp ? s->mp : 1;
    int64_t ranks = (int64_t)s->dp * s->cp * s->mp / parts;
    struct expert_grid grid = {.parts = parts, .ep = s->ep, .copies = ranks / s->ep};
    grid.op = s->op == 1 ? 1 : s->op == s->dp ? grid.copies : common_divisor(s->op, grid.copies);
    return grid;
}

/** Rank of a stage without its mp coordinate: cp, then dp. */
static int64_t replica(const struct cs_strategy *s, int32_t rank)
{
    return (int64_t)cs_strategy_coord(s, rank, CS_DIM_DP) * s->cp + cs_strategy_coord(s, rank, CS_DIM_CP);
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    return a / common_divisor(a, b) * b;
}

/** The fewest replicas in a row that together hold every part of a stage: its experts, cut over ep and with
 *  their states sharded, and the shards of the rest. A norm sums over them. Divides dp * cp, as every term
 *  divides the ranks of a stage. */
static int64_t norm_replicas(const struct cs_strategy *s)
{
    struct expert_grid grid = expert_grid(s);
    int64_t ranks = common_multiple(s->mp, grid.parts * grid.ep * grid.op);
    ranks = s->op > 1 ? common_multiple(ranks, (int64_t)s->op * s->cp * s->mp) : ranks;
    return ranks / s->mp;
}

/** A norm's groups where experts are: stages and mp ranks of norm_replicas() in a row, by rank. */
static void place_norm(const struct cs_builder *builder, struct cs_comm *comm)
{
    const struct cs_strategy *s = &builder->strategy;
    const int64_t in_a_row = norm_replicas(s);
    int32_t *filled = cs_calloc((size_t)comm->n_groups, sizeof *filled);
    for (int32_t rank = 0; rank < builder->trace->n_ranks; rank++) {
        int32_t at = comm->group_of_rank[rank] = (int32_t)(replica(s, rank) / in_a_row);
        comm->members[comm->group_first[at] + filled[at]++] = rank;
    }
    cs_free(filled);
}

static bool shares_out_experts_state(enum cs_group group)
{
    return group == CS_GROUP_EOP || group == CS_GROUP_EGATHER;
}

static bool shares_out_experts(enum cs_group group)
{
    return group == CS_GROUP_EP || group == CS_GROUP_EP_ASYNC;
}

static int64_t expert_group_size(const struct expert_grid *grid, enum cs_group group)
{
    return shares_out_experts(group)         ? grid->ep
           : group == CS_GROUP_EDP           ? grid->copies
           : shares_out_experts_state(group) ? grid->op
                                             : grid->copies / grid->op;
}

/** Group of a rank among the expert groups of that kind, and its position in it. */
static int32_t expert_place(const struct cs_builder *builder, enum cs_group group, int32_t rank,
                            int32_t *position)
{
    const struct cs_strategy *s = &builder->strategy;
    struct expert_grid grid = expert_grid(s);
    int64_t mp = cs_strategy_coord(s, rank, CS_DIM_MP);
    int64_t part = mp % grid.parts;
    int64_t flat = replica(s, rank) * (s->mp / grid.parts) + mp / grid.parts;
    int64_t stage = cs_strategy_coord(s, rank, CS_DIM_PP) * grid.parts + part; /* same part of the model */
    int64_t expert = flat % grid.ep;
    int64_t copy = flat / grid.ep;
    if (shares_out_experts(group)) {
        *position = (int32_t)expert;
        return (int32_t)(stage * grid.copies + copy);
    }
    int64_t own = stage * grid.ep + expert; /* all copies of these experts */
    if (group == CS_GROUP_EDP) {
        *position = (int32_t)copy;
        return (int32_t)own;
    }
    int64_t in = copy % grid.op;
    int64_t out = copy / grid.op;
    bool inside = shares_out_experts_state(group);
    *position = (int32_t)(inside ? in : out);
    return (int32_t)(inside ? own * (grid.copies / grid.op) + out : own * grid.op + in);
}

static void digit_sizes(const struct cs_builder *builder, int32_t size[N_DIGITS])
{
    const struct cs_strategy *s = &builder->strategy;
    size[DIGIT_MP_IN] = cs__builder_kv_copies(builder);
    size[DIGIT_MP_OUT] = s->mp / size[DIGIT_MP_IN];
    size[DIGIT_CP] = s->cp;
    size[DIGIT_DP_IN] = s->op;
    size[DIGIT_DP_OUT] = s->dp / s->op;
    size[DIGIT_PP] = s->pp;
}

/** Digits from the innermost to the outermost, as the placement fills ranks. */
static void digit_order(const struct cs_builder *builder, int32_t order[N_DIGITS])
{
    int32_t n = 0;
    for (int32_t i = 0; i < CS_N_DIMS; i++) {
        switch (builder->strategy.placement[i]) {
        case CS_DIM_MP:
            order[n++] = DIGIT_MP_IN;
            order[n++] = DIGIT_MP_OUT;
            break;
        case CS_DIM_CP:
            order[n++] = DIGIT_CP;
            break;
        case CS_DIM_DP:
            order[n++] = DIGIT_DP_IN;
            order[n++] = DIGIT_DP_OUT;
            break;
        case CS_DIM_PP:
            order[n++] = DIGIT_PP;
            break;
        case CS_N_DIMS:
            break;
        }
    }
    CS_ASSERT(n == N_DIGITS);
}

int32_t cs__builder_kv_copies(const struct cs_builder *builder)
{
    int64_t mp = builder->strategy.mp;
    int64_t kv_heads = builder->model->n_kv_heads;
    return mp > kv_heads && mp % kv_heads == 0 ? (int32_t)(mp / kv_heads) : 1;
}

int64_t cs__builder_group_size(const struct cs_builder *builder, enum cs_group group)
{
    int32_t size[N_DIGITS];
    digit_sizes(builder, size);
    if (group == CS_GROUP_EMBEDDING) {
        int32_t chunk;
        const struct cs_pipeline *p = &builder->pipeline;
        return cs__pipeline_stage_of(p, p->n_places - 1, 0, &chunk) > 0 ? 2 : 1;
    }
    if (group == CS_GROUP_MIRROR) {
        return builder->pipeline.mirrored ? 2 : 1;
    }
    if (of_experts(group)) {
        struct expert_grid grid = expert_grid(&builder->strategy);
        return builder->model->n_experts > 0 ? expert_group_size(&grid, group) : 1;
    }
    if (group == CS_GROUP_NORM && builder->model->n_experts > 0) {
        const struct cs_strategy *s = &builder->strategy;
        return (int64_t)s->pp * s->mp * norm_replicas(s);
    }
    unsigned digits = group_digits(builder, group);
    int64_t product = 1;
    for (int32_t d = 0; d < N_DIGITS; d++) {
        product *= digits & BIT(d) ? size[d] : 1;
    }
    return product;
}

void cs__groups_comm(const struct cs_builder *builder, enum cs_group group, struct cs_comm *comm)
{
    static const char *const names[CS_N_GROUPS] = {
        "tp",        "tp-async",  "tp-copies",     "cp",         "dp",    "op",
        "gather",    "dpx",       "norm",          "embedding",  "ep",    "ep-async",
        "expert-dp", "expert-op", "expert-gather", "expert-dpx", "mirror"};
    struct cs_arena *arena = &builder->trace->arena;
    const int32_t n_ranks = builder->trace->n_ranks;
    int32_t size[N_DIGITS];
    int32_t order[N_DIGITS];
    digit_sizes(builder, size);
    digit_order(builder, order);
    unsigned digits = group_digits(builder, group);
    bool ends_only = group == CS_GROUP_EMBEDDING;
    bool mirror = group == CS_GROUP_MIRROR;
    int32_t group_size = (int32_t)cs__builder_group_size(builder, group);
    int32_t n_groups = n_ranks / (ends_only ? builder->strategy.pp : group_size);
    *comm = (struct cs_comm){.name = names[group], .n_groups = n_groups};
    if (group == CS_GROUP_OP && cs__builder_group_size(builder, CS_GROUP_DPX) == 1) {
        comm->name = names[CS_GROUP_DP];
    }
    comm->spans_stages = group == CS_GROUP_NORM || ends_only || mirror;
    comm->group_first = CS_ARENA_NEW(arena, int32_t, n_groups + 1);
    comm->members = CS_ARENA_NEW(arena, int32_t, (int64_t)n_groups * group_size);
    comm->group_of_rank = CS_ARENA_NEW(arena, int32_t, n_ranks);
    for (int32_t g = 0; g <= n_groups; g++) {
        comm->group_first[g] = g * group_size;
    }
    if (group == CS_GROUP_NORM && builder->model->n_experts > 0) {
        place_norm(builder, comm);
        return;
    }
    for (int32_t rank = 0; of_experts(group) && rank < n_ranks; rank++) {
        int32_t position;
        int32_t at = comm->group_of_rank[rank] = expert_place(builder, group, rank, &position);
        comm->members[comm->group_first[at] + position] = rank;
    }
    for (int32_t rank = of_experts(group) ? n_ranks : 0; rank < n_ranks; rank++) {
        int32_t left = rank;
        int32_t at = 0;
        int32_t at_scale = 1;
        int32_t position = 0;
        int32_t position_scale = 1;
        bool member = true;
        for (int32_t i = 0; i < N_DIGITS; i++) {
            int32_t d = order[i];
            int32_t digit = left % size[d];
            left /= size[d];
            if (d == DIGIT_PP && ends_only) {
                member = digit == 0 || digit == size[d] - 1;
                position = digit == 0 ? 0 : 1;
            } else if (d == DIGIT_PP && mirror) {
                position = digit < size[d] / 2 ? 0 : 1;
                at += (position == 0 ? digit : size[d] - 1 - digit) * at_scale;
                at_scale *= size[d] / 2;
            } else if (digits & BIT(d)) {
                position += digit * position_scale;
                position_scale *= size[d];
            } else {
                at += digit * at_scale;
                at_scale *= size[d];
            }
        }
        comm->group_of_rank[rank] = member ? at : -1;
        if (member) {
            comm->members[comm->group_first[at] + position] = rank;
        }
    }
}

/** Round the ring of context-parallel ranks. */
static void ring_chan(const struct cs_builder *builder, struct cs_chan *chan)
{
    const struct cs_strategy *strategy = &builder->strategy;
    for (int32_t rank = 0; rank < builder->trace->n_ranks; rank++) {
        int32_t coord[CS_N_DIMS];
        for (int32_t dim = 0; dim < CS_N_DIMS; dim++) {
            coord[dim] = cs_strategy_coord(strategy, rank, (enum cs_dim)dim);
        }
        coord[CS_DIM_CP] = (coord[CS_DIM_CP] + 1) % strategy->cp;
        chan->peer[rank] = cs_strategy_rank(strategy, coord);
        chan->source[chan->peer[rank]] = rank;
    }
}

void cs__groups_chan(const struct cs_builder *builder, struct cs_channel channel, struct cs_chan *chan)
{
    const struct cs_strategy *strategy = &builder->strategy;
    struct cs_arena *arena = &builder->trace->arena;
    const int32_t n_ranks = builder->trace->n_ranks;
    int32_t stride = 1;
    for (int32_t i = 0; strategy->placement[i] != CS_DIM_PP; i++) {
        int32_t coord[CS_N_DIMS] = {[CS_DIM_MP] = strategy->mp,
                                    [CS_DIM_CP] = strategy->cp,
                                    [CS_DIM_DP] = strategy->dp,
                                    [CS_DIM_PP] = strategy->pp};
        stride *= coord[strategy->placement[i]];
    }
    const char *name = channel.ring      ? "cp-ring"
                       : channel.forward ? channel.ready ? "pp-forward ready" : "pp-forward"
                       : channel.ready   ? "pp-backward ready"
                                         : "pp-backward";
    *chan = (struct cs_chan){.name = builder->pipeline.n_chunks == 1 || channel.ring
                                         ? name
                                         : cs_arena_printf(arena, "%s %d", name, (int)channel.chunk)};
    chan->peer = CS_ARENA_NEW(arena, int32_t, n_ranks);
    chan->source = CS_ARENA_NEW(arena, int32_t, n_ranks);
    if (channel.ring) {
        ring_chan(builder, chan);
        return;
    }
    for (int32_t rank = 0; rank < n_ranks; rank++) {
        chan->peer[rank] = chan->source[rank] = -1;
    }
    for (int32_t rank = 0; rank < n_ranks; rank++) {
        int32_t stage = cs_strategy_coord(strategy, rank, CS_DIM_PP);
        int32_t next = cs__pipeline_next(&builder->pipeline, stage, channel.chunk, channel.forward);
        if (next >= 0 && next != stage) {
            chan->peer[rank] = rank + (next - stage) * stride;
            chan->source[chan->peer[rank]] = rank;
        }
    }
    if (channel.ready) {
        int32_t *senders = chan->peer;
        chan->peer = chan->source;
        chan->source = senders;
    }
}
