/* Chakra execution traces: from ordered nodes to a trace. Dependencies between streams become events, one for
 * each pair of streams: both keep an order, so that waiting for a node is waiting for all before it. */
#include "chakra_read_priv.h"

#include "cs/base/text.h"

#include <stdlib.h>
#include <string.h>

/* Places that the nodes of one rank stand for. */
#define REACHES_MAX (INT64_C(1) << 26)

/** Up to which place something has to wait for a stream. */
struct reach {
    int32_t stream;
    int32_t place;
};

/** An event to record after a place. */
struct recording {
    int32_t after;
    uint8_t event;
};

struct builder {
    struct cs__et *et;
    int32_t n_streams;
    int16_t *event_of; /* [from stream][to stream], -1 = none yet */
    int32_t *covered;  /* [waiting stream][stream]: the last place it has waited for, -1 = none */
    /* Of one rank: what nodes stand for, to those that depend on them. */
    int64_t *first;
    int32_t *count;
    struct reach *reaches;
    int64_t n_reaches, cap_reaches;
    /* Reaches being collected, one a stream; mark[stream] = index in it, -1 = none. */
    struct reach *set;
    int32_t n_set;
    int32_t *mark;
    /* Of one rank: events to wait for before each place, and to record after. */
    uint8_t *waits;
    int64_t n_waits, cap_waits;
    int64_t *first_wait;
    struct recording *recordings;
    int64_t n_recordings, cap_recordings;
    struct cs_op *ops;
    int64_t n_ops, cap_ops;
    /* Of all ranks. Slots are open addressing, -1 = free. */
    struct cs_op_cost *costs;
    int32_t n_costs, cap_costs;
    int32_t *cost_slots;
    uint32_t n_cost_slots;
    int32_t *program_slots;
    uint32_t n_program_slots;
};

/* ---- dependencies to waits and recordings ---- */

static void set_add(struct builder *b, int32_t stream, int32_t place)
{
    int32_t *mark = &b->mark[stream];
    if (*mark < 0) {
        *mark = b->n_set++;
        b->set[*mark] = (struct reach){stream, place};
    } else if (b->set[*mark].place < place) {
        b->set[*mark].place = place;
    }
}

static void set_clear(struct builder *b)
{
    for (int32_t i = 0; i < b->n_set; i++) {
        b->mark[b->set[i].stream] = -1;
    }
    b->n_set = 0;
}

/** Everything a node depends on. */
static void set_add_deps(struct builder *b, const struct cs__et_rank *r, int64_t node)
{
    const struct cs__et_node *n = &r->nodes[node];
    for (int32_t d = 0; d < n->n_deps; d++) {
        int64_t dep = (int64_t)r->deps[n->first_dep + d];
        if (r->nodes[dep].stream >= 0) {
            set_add(b, r->nodes[dep].stream, r->nodes[dep].place);
        }
        for (int64_t i = b->first[dep]; i < b->first[dep] + b->count[dep]; i++) {
            set_add(b, b->reaches[i].stream, b->reaches[i].place);
        }
    }
}

/** Nodes without a stream stand for what they depend on; so do receives, besides their message, since their
 *  operation waits for the message only. */
static cs_status find_reaches(struct builder *b, int32_t rank, struct cs_err *err)
{
    const struct cs__et_rank *r = &b->et->ranks[rank];
    b->n_reaches = 0;
    for (int64_t k = 0; k < r->n_nodes; k++) {
        int64_t node = r->order[k];
        const struct cs__et_node *n = &r->nodes[node];
        b->first[node] = b->n_reaches;
        b->count[node] = 0;
        if (n->stream >= 0 && n->type != CS__ET_RECV) {
            continue;
        }
        set_add_deps(b, r, node);
        if (b->n_reaches + b->n_set > REACHES_MAX) {
            return cs_err_set(err, CS_E_LIMIT, (struct cs_loc){.file = r->file},
                              "too many nodes without work depend on too many others");
        }
        for (int32_t i = 0; i < b->n_set; i++) {
            CS_GROW(b->reaches, b->n_reaches, b->cap_reaches);
            b->reaches[b->n_reaches++] = b->set[i];
        }
        b->count[node] = b->n_set;
        set_clear(b);
    }
    return CS_OK;
}

static cs_status event_for(struct builder *b, int32_t from, int32_t to, uint8_t *event, struct cs_err *err)
{
    struct cs_trace *trace = b->et->trace;
    int16_t *known = &b->event_of[from * b->n_streams + to];
    if (*known < 0) {
        if (trace->n_events >= CS__ET_NAMED_MAX) {
            return cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                              "the nodes' dependencies connect more than %d pairs of streams",
                              CS__ET_NAMED_MAX);
        }
        trace->event_names[trace->n_events] = cs_arena_printf(
            &trace->arena, "%s before %s", trace->stream_names[from], trace->stream_names[to]);
        *known = (int16_t)trace->n_events++;
    }
    *event = (uint8_t)*known;
    return CS_OK;
}

/** A wait is needed where a dependency reaches further along another stream than any wait before. */
static cs_status find_waits(struct builder *b, int32_t rank, struct cs_err *err)
{
    const struct cs__et_rank *r = &b->et->ranks[rank];
    cs_status st = CS_OK;
    b->n_waits = b->n_recordings = 0;
    memset(b->covered, -1, sizeof *b->covered * (size_t)(b->n_streams * b->n_streams));
    for (int32_t place = 0; place < b->et->n_started[rank]; place++) {
        int64_t node = b->et->started[rank][place];
        int32_t stream = r->nodes[node].stream;
        b->first_wait[place] = b->n_waits;
        if (r->nodes[node].type != CS__ET_RECV) {
            set_add_deps(b, r, node);
        }
        for (int32_t i = 0; i < b->n_set; i++) {
            struct reach reach = b->set[i];
            int32_t *covered = &b->covered[stream * b->n_streams + reach.stream];
            if (reach.stream == stream || reach.place <= *covered) {
                continue;
            }
            uint8_t event = 0;
            CS_TRY(event_for(b, reach.stream, stream, &event, err));
            *covered = reach.place;
            CS_GROW(b->waits, b->n_waits, b->cap_waits);
            b->waits[b->n_waits++] = event;
            CS_GROW(b->recordings, b->n_recordings, b->cap_recordings);
            b->recordings[b->n_recordings++] = (struct recording){reach.place, event};
        }
        set_clear(b);
    }
    b->first_wait[b->et->n_started[rank]] = b->n_waits;
out:
    return st;
}

static int by_place(const void *a, const void *b)
{
    const struct recording *x = a;
    const struct recording *y = b;
    return x->after != y->after ? (x->after > y->after) - (x->after < y->after) : x->event - y->event;
}

/* ---- operations ---- */

static void add_op(struct builder *b, struct cs_op op)
{
    CS_GROW(b->ops, b->n_ops, b->cap_ops);
    op.layer = -1;
    op.cost = op.type == CS_OP_COMPUTE ? op.cost : -1;
    b->ops[b->n_ops++] = op;
}

static bool same_cost(const struct cs_op_cost *a, const struct cs_op_cost *b)
{
    return !(a->flop < b->flop || a->flop > b->flop || a->bytes < b->bytes || a->bytes > b->bytes ||
             a->fixed_s < b->fixed_s || a->fixed_s > b->fixed_s);
}

static uint32_t cost_slot(const struct builder *b, const struct cs_op_cost *cost)
{
    uint64_t hash = cs_hash_real(cs_hash_real(CS_HASH_SEED, cost->flop), cost->bytes);
    uint32_t slot = (uint32_t)(cs_hash_real(hash, cost->fixed_s) % b->n_cost_slots);
    while (b->cost_slots[slot] >= 0 && !same_cost(cost, &b->costs[b->cost_slots[slot]])) {
        slot = (slot + 1) % b->n_cost_slots;
    }
    return slot;
}

/** The cost of a node: its duration, or the time of a matrix product of its size. */
static int32_t cost_of(struct builder *b, const struct cs__et_node *n)
{
    struct cs_op_cost cost = {.kind = CS_OPKIND_MATMUL,
                              .dtype = CS_DTYPE_BF16,
                              .flop = n->flop,
                              .bytes = n->bytes,
                              .batch = 1,
                              .n_kernels = 1,
                              .fixed_s = n->fixed_s};
    if ((uint32_t)b->n_costs * 2 >= b->n_cost_slots) {
        b->n_cost_slots = b->n_cost_slots > 0 ? b->n_cost_slots * 2 : 64;
        b->cost_slots = cs_reallocarray(b->cost_slots, b->n_cost_slots, sizeof *b->cost_slots);
        memset(b->cost_slots, -1, sizeof *b->cost_slots * b->n_cost_slots);
        for (int32_t i = 0; i < b->n_costs; i++) {
            b->cost_slots[cost_slot(b, &b->costs[i])] = i;
        }
    }
    int32_t *slot = &b->cost_slots[cost_slot(b, &cost)];
    if (*slot < 0) {
        CS_GROW(b->costs, b->n_costs, b->cap_costs);
        b->costs[b->n_costs] = cost;
        *slot = b->n_costs++;
    }
    return *slot;
}

static struct cs_op op_of(struct builder *b, const struct cs__et_node *n)
{
    const struct cs__et *et = b->et;
    struct cs_op op = {.stream = (uint8_t)n->stream, .label = n->name, .bytes = n->size};
    if (n->type == CS__ET_COLL) {
        op.type = CS_OP_COLLECTIVE;
        op.comm = (uint8_t)et->comm_of_group[n->group];
        op.coll = n->coll;
    } else if (n->type == CS__ET_SEND || n->type == CS__ET_RECV) {
        op.type = n->type == CS__ET_SEND ? CS_OP_SEND : CS_OP_RECV;
        op.comm = (uint8_t)n->group;
    } else {
        op.type = CS_OP_COMPUTE;
        op.cost = cost_of(b, n);
    }
    return op;
}

static void write_ops(struct builder *b, int32_t rank)
{
    const struct cs__et_rank *r = &b->et->ranks[rank];
    int64_t next = 0;
    b->n_ops = 0;
    for (int32_t place = 0; place < b->et->n_started[rank]; place++) {
        const struct cs__et_node *n = &r->nodes[b->et->started[rank][place]];
        struct cs_op sync = {.stream = (uint8_t)n->stream, .label = n->name};
        for (int64_t i = b->first_wait[place]; i < b->first_wait[place + 1]; i++) {
            sync.type = CS_OP_WAIT;
            sync.comm = b->waits[i];
            add_op(b, sync);
        }
        add_op(b, op_of(b, n));
        for (; next < b->n_recordings && b->recordings[next].after == place; next++) {
            sync.type = CS_OP_RECORD;
            sync.comm = b->recordings[next].event;
            add_op(b, sync);
        }
    }
}

/* ---- programs ---- */

/** Ranks with the same operations share a program of one block. */
static void bind_program(struct builder *b, int32_t rank)
{
    struct cs_trace *trace = b->et->trace;
    size_t bytes = sizeof *b->ops * (size_t)b->n_ops;
    uint32_t slot = (uint32_t)(cs_hash_bytes(CS_HASH_SEED, b->ops, bytes) % b->n_program_slots);
    for (; b->program_slots[slot] >= 0; slot = (slot + 1) % b->n_program_slots) {
        const struct cs_block *block = &trace->blocks[b->program_slots[slot]];
        if (block->n_ops == b->n_ops && (bytes == 0 || memcmp(block->ops, b->ops, bytes) == 0)) {
            break;
        }
    }
    if (b->program_slots[slot] < 0) {
        struct cs_program *program = &trace->programs[trace->n_programs];
        struct cs_block *block = &trace->blocks[trace->n_blocks];
        block->name = "step";
        block->n_ops = (int32_t)b->n_ops;
        block->ops = CS_ARENA_NEW(&trace->arena, struct cs_op, b->n_ops);
        if (bytes > 0) {
            memcpy(block->ops, b->ops, bytes);
        }
        program->role = cs_arena_printf(&trace->arena, "like rank %d", (int)rank);
        program->n_calls = 1;
        program->calls = CS_ARENA_NEW(&trace->arena, struct cs_call, 1);
        program->calls[0] = (struct cs_call){.block = trace->n_blocks++, .micro_batch = -1};
        b->program_slots[slot] = trace->n_programs++;
    }
    trace->program_of_rank[rank] = b->program_slots[slot];
}

static cs_status build_rank(struct builder *b, int32_t rank, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__et_rank *r = &b->et->ranks[rank];
    size_t n = (size_t)r->n_nodes;
    b->first = cs_calloc(n, sizeof *b->first);
    b->count = cs_calloc(n, sizeof *b->count);
    b->first_wait = cs_calloc(n + 1, sizeof *b->first_wait);
    for (int32_t place = 0; place < b->et->n_started[rank]; place++) {
        r->nodes[b->et->started[rank][place]].place = place;
    }
    CS_TRY(find_reaches(b, rank, err));
    CS_TRY(find_waits(b, rank, err));
    if (b->n_recordings > 0) {
        qsort(b->recordings, (size_t)b->n_recordings, sizeof *b->recordings, by_place);
    }
    write_ops(b, rank);
    if (b->n_ops > INT32_MAX) {
        st = cs_err_set(err, CS_E_LIMIT, (struct cs_loc){.file = r->file}, "too many nodes and dependencies");
        goto out;
    }
    bind_program(b, rank);
out:
    cs_free(b->first);
    cs_free(b->count);
    cs_free(b->first_wait);
    b->first = NULL;
    b->count = NULL;
    b->first_wait = NULL;
    return st;
}

static void builder_init(struct builder *b, struct cs__et *et)
{
    struct cs_trace *trace = et->trace;
    size_t n_streams = (size_t)trace->n_streams;
    *b = (struct builder){.et = et, .n_streams = trace->n_streams};
    b->event_of = cs_calloc(n_streams * n_streams, sizeof *b->event_of);
    memset(b->event_of, -1, sizeof *b->event_of * n_streams * n_streams);
    b->covered = cs_calloc(n_streams * n_streams, sizeof *b->covered);
    b->set = cs_calloc(n_streams, sizeof *b->set);
    b->mark = cs_calloc(n_streams, sizeof *b->mark);
    memset(b->mark, -1, sizeof *b->mark * n_streams);
    b->n_program_slots = 2 * (uint32_t)et->n_ranks + 1;
    b->program_slots = cs_calloc(b->n_program_slots, sizeof *b->program_slots);
    memset(b->program_slots, -1, sizeof *b->program_slots * b->n_program_slots);
    trace->event_names = CS_ARENA_NEW(&trace->arena, const char *, CS__ET_NAMED_MAX);
    trace->programs = CS_ARENA_NEW(&trace->arena, struct cs_program, et->n_ranks);
    trace->blocks = CS_ARENA_NEW(&trace->arena, struct cs_block, et->n_ranks);
    trace->program_of_rank = CS_ARENA_NEW(&trace->arena, int32_t, et->n_ranks);
}

static void builder_release(struct builder *b)
{
    cs_free(b->event_of);
    cs_free(b->covered);
    cs_free(b->reaches);
    cs_free(b->set);
    cs_free(b->mark);
    cs_free(b->waits);
    cs_free(b->recordings);
    cs_free(b->ops);
    cs_free(b->costs);
    cs_free(b->cost_slots);
    cs_free(b->program_slots);
}

cs_status cs__et_build(struct cs__et *et, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_trace *trace = et->trace;
    struct builder b;
    builder_init(&b, et);
    trace->n_ranks = et->n_ranks;
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        CS_TRY(build_rank(&b, rank, err));
    }
    trace->n_costs = b.n_costs;
    trace->costs = cs_arena_memdup(&trace->arena, b.costs, sizeof *b.costs * (size_t)b.n_costs);
    trace->n_labels = et->labels.n;
    trace->labels = CS_ARENA_NEW(&trace->arena, const char *, et->labels.n);
    for (int32_t i = 0; i < et->labels.n; i++) {
        trace->labels[i] = cs__et_shown(et, et->labels.texts[i]);
    }
out:
    builder_release(&b);
    return st;
}
