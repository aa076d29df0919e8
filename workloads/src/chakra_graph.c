/* From a program to a graph: streams and events become dependencies. */
#include "chakra_priv.h"

#include <inttypes.h>
#include <string.h>

/** A small set of nodes that something has to wait for. */
struct waits {
    int64_t *nodes;
    int32_t n, cap;
};

static void waits_add(struct waits *waits, int64_t node)
{
    for (int32_t i = 0; i < waits->n; i++) {
        if (waits->nodes[i] == node) {
            return;
        }
    }
    CS_GROW(waits->nodes, waits->n, waits->cap);
    waits->nodes[waits->n++] = node;
}

static void waits_join(struct waits *waits, const struct waits *others)
{
    for (int32_t i = 0; i < others->n; i++) {
        waits_add(waits, others->nodes[i]);
    }
}

/** A stream on its way through the program. */
struct lane {
    int32_t call, at;    /* its next operation */
    struct waits before; /* what its next node depends on */
    int32_t *waited;     /* per event */
};

/** What each recording of an event stands for. */
struct event {
    struct waits *records;
    int32_t n, cap;
    int32_t lane; /* the stream that records it, -1 = none yet */
};

struct builder {
    const struct cs_trace *trace;
    const struct cs_program *program;
    struct lane *lanes;
    struct event *events;
    int64_t *received; /* per channel: the last receive, -1 = none */
    struct cs__op_graph *graph;
};

/** Move a lane to its next operation, past other lanes' and past memory; NULL = it has none left. */
static const struct cs_op *peek(const struct builder *b, int32_t stream)
{
    struct lane *lane = &b->lanes[stream];
    for (; lane->call < b->program->n_calls; lane->call++, lane->at = 0) {
        const struct cs_block *block = &b->trace->blocks[b->program->calls[lane->call].block];
        for (; lane->at < block->n_ops; lane->at++) {
            const struct cs_op *op = &block->ops[lane->at];
            if (op->stream == stream && op->type != CS_OP_ALLOC && op->type != CS_OP_FREE) {
                return op;
            }
        }
    }
    return NULL;
}

static bool is_ready(const struct builder *b, int32_t stream, const struct cs_op *op)
{
    return op->type != CS_OP_WAIT || b->events[op->comm].n > b->lanes[stream].waited[op->comm];
}

static int64_t add_node(struct builder *b, int32_t stream, const struct cs_op *op, const struct waits *deps)
{
    struct cs__op_graph *g = b->graph;
    CS_GROW(g->nodes, g->n_nodes, g->cap_nodes);
    g->nodes[g->n_nodes] = (struct cs__graph_node){
        .op = op,
        .micro_batch = b->program->calls[b->lanes[stream].call].micro_batch,
        .first_dep = g->n_deps,
    };
    for (int32_t i = 0; i < deps->n; i++) {
        CS_GROW(g->deps, g->n_deps, g->cap_deps);
        g->deps[g->n_deps++] = deps->nodes[i];
    }
    return g->n_nodes++;
}

static cs_status record(struct builder *b, int32_t stream, const struct cs_op *op, struct cs_err *err)
{
    struct event *event = &b->events[op->comm];
    if (event->lane >= 0 && event->lane != stream) {
        return cs_err_set(
            err, CS_E_INPUT, CS_NOLOC,
            "program '%s' records event '%s' from two streams: which comes first cannot be said "
            "by dependencies",
            b->program->role, b->trace->event_names[op->comm]);
    }
    event->lane = stream;
    CS_GROW(event->records, event->n, event->cap);
    event->records[event->n] = (struct waits){0};
    waits_join(&event->records[event->n++], &b->lanes[stream].before);
    return CS_OK;
}

static cs_status step(struct builder *b, int32_t stream, const struct cs_op *op, struct cs_err *err)
{
    struct lane *lane = &b->lanes[stream];
    cs_status st = CS_OK;
    switch (op->type) {
    case CS_OP_RECORD:
        st = record(b, stream, op, err);
        break;
    case CS_OP_WAIT:
        waits_join(&lane->before, &b->events[op->comm].records[lane->waited[op->comm]++]);
        break;
    case CS_OP_RECV: {
        /* What comes after waits for the message and for what came before. */
        struct waits last = {0};
        if (b->received[op->comm] >= 0) {
            waits_add(&last, b->received[op->comm]);
        }
        b->received[op->comm] = add_node(b, stream, op, &last);
        waits_add(&lane->before, b->received[op->comm]);
        cs_free(last.nodes);
        break;
    }
    default: {
        int64_t node = add_node(b, stream, op, &lane->before);
        lane->before.n = 0;
        waits_add(&lane->before, node);
    }
    }
    lane->at++;
    return st;
}

/** The lane that can go on and is furthest behind, so that nodes are numbered as the program is written. */
static int32_t next_lane(const struct builder *b, bool *left)
{
    int32_t best = -1;
    *left = false;
    for (int32_t stream = 0; stream < b->trace->n_streams; stream++) {
        const struct cs_op *op = peek(b, stream);
        const struct lane *lane = &b->lanes[stream];
        *left = *left || op != NULL;
        if (op == NULL || !is_ready(b, stream, op)) {
            continue;
        }
        if (best < 0 || lane->call < b->lanes[best].call ||
            (lane->call == b->lanes[best].call && lane->at < b->lanes[best].at)) {
            best = stream;
        }
    }
    return best;
}

static void builder_release(struct builder *b)
{
    for (int32_t i = 0; i < b->trace->n_streams; i++) {
        cs_free(b->lanes[i].before.nodes);
        cs_free(b->lanes[i].waited);
    }
    for (int32_t i = 0; i < b->trace->n_events; i++) {
        for (int32_t k = 0; k < b->events[i].n; k++) {
            cs_free(b->events[i].records[k].nodes);
        }
        cs_free(b->events[i].records);
    }
    cs_free(b->lanes);
    cs_free(b->events);
    cs_free(b->received);
}

cs_status cs__op_graph_build(struct cs__op_graph *graph, const struct cs_trace *trace, int32_t program,
                             struct cs_err *err)
{
    cs_status st = CS_OK;
    struct builder b = {.trace = trace, .program = &trace->programs[program], .graph = graph};
    graph->n_nodes = graph->n_deps = 0;
    b.lanes = cs_calloc((size_t)trace->n_streams, sizeof *b.lanes);
    b.events = cs_calloc((size_t)trace->n_events, sizeof *b.events);
    b.received = cs_calloc((size_t)trace->n_chans, sizeof *b.received);
    memset(b.received, -1, sizeof *b.received * (size_t)trace->n_chans);
    for (int32_t i = 0; i < trace->n_streams; i++) {
        b.lanes[i].waited = cs_calloc((size_t)trace->n_events, sizeof *b.lanes[i].waited);
    }
    for (int32_t i = 0; i < trace->n_events; i++) {
        b.events[i].lane = -1;
    }
    bool left = true;
    for (int32_t stream = next_lane(&b, &left); stream >= 0; stream = next_lane(&b, &left)) {
        CS_TRY(step(&b, stream, peek(&b, stream), err));
    }
    if (left) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "program '%s' cannot finish: streams wait for each other",
                        b.program->role);
        goto out;
    }
    CS_GROW(graph->nodes, graph->n_nodes, graph->cap_nodes);
    graph->nodes[graph->n_nodes].first_dep = graph->n_deps;
out:
    builder_release(&b);
    return st;
}

void cs__op_graph_release(struct cs__op_graph *graph)
{
    cs_free(graph->nodes);
    cs_free(graph->deps);
    *graph = (struct cs__op_graph){0};
}
