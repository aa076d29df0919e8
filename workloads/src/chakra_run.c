/* Chakra execution traces: a run with nominal rates, which says in which order nodes start.
 *
 * A stream of our traces has a fixed order; a Chakra node starts when its dependencies are met and its
 * resource is free. Any order that some run of all ranks together takes can be replayed without deadlock;
 * this one is by ASTRA-sim's rule: of the nodes that are ready, the lowest number first. Collectives of a
 * group keep the order of their rank's file, so that all members agree. */
#include "chakra_read_priv.h"

#include <inttypes.h>
#include <string.h>

/* Only the order is kept, so that the orders of magnitude matter and no more. */
#define NOMINAL_FLOP_PER_S 1e14
#define NOMINAL_LINK_BYTES_PER_S 2e10

/** Something that ends. */
struct ending {
    double at_s;
    int64_t seq; /* of equal times, what was begun first */
    int64_t node;
    int32_t rank;
};

/** Nodes that are ready for a stream, a heap by number. */
struct queue {
    int64_t *items;
    int32_t n, cap;
    int64_t current; /* the node that is under way, -1 = none */
};

struct run {
    struct cs__et *et;
    int32_t n_streams;
    double now_s;
    int64_t seq;
    struct ending *endings; /* a heap */
    int64_t n_endings, cap_endings;
    struct queue *queues; /* [rank][stream] */
    int32_t *
        *n_left;    /* per rank and node: what has not ended of what it waits for; -1 = it has ended itself */
    int64_t *stack; /* nodes that have become ready: pairs of rank and node */
    int64_t n_stack, cap_stack;
    int32_t *arrived;  /* per communicator and group's first member: members at the group's collective */
    bool *touched;     /* per rank: it may have something to start */
    int32_t *to_start; /* the ranks that are touched */
    int32_t n_to_start;
    int64_t n_done;
};

static bool sooner(const struct ending *a, const struct ending *b)
{
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->seq < b->seq);
}

static void add_ending(struct run *run, double after_s, int32_t rank, int64_t node)
{
    struct ending ending = {run->now_s + after_s, run->seq++, node, rank};
    CS_GROW(run->endings, run->n_endings, run->cap_endings);
    int64_t at = run->n_endings++;
    while (at > 0 && sooner(&ending, &run->endings[(at - 1) / 2])) {
        run->endings[at] = run->endings[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    run->endings[at] = ending;
}

static struct ending take_ending(struct run *run)
{
    struct ending top = run->endings[0];
    struct ending last = run->endings[--run->n_endings];
    int64_t at = 0;
    while (2 * at + 1 < run->n_endings) {
        int64_t child = 2 * at + 1;
        child += child + 1 < run->n_endings && sooner(&run->endings[child + 1], &run->endings[child]);
        if (!sooner(&run->endings[child], &last)) {
            break;
        }
        run->endings[at] = run->endings[child];
        at = child;
    }
    run->endings[at] = last;
    return top;
}

static void queue_push(struct queue *queue, int64_t item)
{
    CS_GROW(queue->items, queue->n, queue->cap);
    int32_t at = queue->n++;
    while (at > 0 && queue->items[(at - 1) / 2] > item) {
        queue->items[at] = queue->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->items[at] = item;
}

static int64_t queue_pop(struct queue *queue)
{
    int64_t top = queue->items[0];
    int64_t item = queue->items[--queue->n];
    int32_t at = 0;
    while (2 * at + 1 < queue->n) {
        int32_t child = 2 * at + 1;
        child += child + 1 < queue->n && queue->items[child + 1] < queue->items[child];
        if (queue->items[child] >= item) {
            break;
        }
        queue->items[at] = queue->items[child];
        at = child;
    }
    queue->items[at] = item;
    return top;
}

static struct cs__et_node *node_at(const struct run *run, int32_t rank, int64_t node)
{
    return &run->et->ranks[rank].nodes[node];
}

static void push(struct run *run, int32_t rank, int64_t node)
{
    if (run->n_stack + 2 > run->cap_stack) {
        run->cap_stack = run->cap_stack > 0 ? 2 * run->cap_stack : 64;
        run->stack = cs_reallocarray(run->stack, (size_t)run->cap_stack, sizeof *run->stack);
    }
    run->stack[run->n_stack++] = rank;
    run->stack[run->n_stack++] = node;
}

/** One dependency less; the last one makes the node ready. */
static void release(struct run *run, int32_t rank, int64_t node)
{
    if (--run->n_left[rank][node] == 0) {
        push(run, rank, node);
    }
}

/** The node has ended. */
static void end_node(struct run *run, int32_t rank, int64_t node)
{
    const struct cs__et_rank *r = &run->et->ranks[rank];
    run->n_done++;
    run->n_left[rank][node] = -1;
    for (int64_t c = r->child_first[node]; c < r->child_first[node + 1]; c++) {
        release(run, rank, r->children[c]);
    }
    if (run->et->next[rank][node] >= 0) {
        release(run, rank, run->et->next[rank][node]);
    }
}

static void touch(struct run *run, int32_t rank)
{
    if (!run->touched[rank]) {
        run->touched[rank] = true;
        run->to_start[run->n_to_start++] = rank;
    }
}

static void note_start(struct run *run, int32_t rank, int64_t node)
{
    run->et->started[rank][run->et->n_started[rank]++] = node;
}

/** Deal with nodes that have become ready: those that take no time end at once. */
static void settle(struct run *run)
{
    while (run->n_stack > 0) {
        int64_t node = run->stack[--run->n_stack];
        int32_t rank = (int32_t)run->stack[--run->n_stack];
        const struct cs__et_node *n = node_at(run, rank, node);
        if (n->stream < 0 || n->type == CS__ET_RECV) {
            end_node(run, rank, node);
        } else {
            queue_push(&run->queues[(int64_t)rank * run->n_streams + n->stream], node);
            touch(run, rank);
        }
    }
}

/** Seconds at nominal rates. */
static double nominal_s(const struct cs__et_node *node)
{
    if (node->type == CS__ET_SEND || node->type == CS__ET_COLL) {
        return (double)node->size / NOMINAL_LINK_BYTES_PER_S;
    }
    return node->fixed_s > 0 ? node->fixed_s : node->flop / NOMINAL_FLOP_PER_S;
}

/** A member has come to its group's collective; the last one starts it. */
static void arrive(struct run *run, int32_t rank, int64_t node)
{
    const struct cs__et_node *n = node_at(run, rank, node);
    int32_t c = run->et->comm_of_group[n->group];
    const struct cs_comm *comm = &run->et->trace->comms[c];
    int32_t group = comm->group_of_rank[rank];
    int32_t first = comm->group_first[group];
    int32_t *arrived = &run->arrived[(int64_t)c * run->et->n_ranks + comm->members[first]];
    if (++*arrived == comm->group_first[group + 1] - first) {
        *arrived = 0;
        add_ending(run, nominal_s(n), rank, node);
    }
}

/** Start what a rank's free streams can. */
static void start(struct run *run, int32_t rank)
{
    for (int32_t stream = 0; stream < run->n_streams; stream++) {
        struct queue *queue = &run->queues[(int64_t)rank * run->n_streams + stream];
        if (queue->current >= 0 || queue->n == 0) {
            continue;
        }
        int64_t node = queue_pop(queue);
        const struct cs__et_node *n = node_at(run, rank, node);
        queue->current = node;
        note_start(run, rank, node);
        if (n->type == CS__ET_COLL) {
            arrive(run, rank, node);
        } else {
            add_ending(run, nominal_s(n), rank, node);
        }
    }
}

/** What is under way on a stream has ended. */
static void end_current(struct run *run, int32_t rank, int32_t stream)
{
    struct queue *queue = &run->queues[(int64_t)rank * run->n_streams + stream];
    int64_t node = queue->current;
    queue->current = -1;
    touch(run, rank);
    end_node(run, rank, node);
}

static void finish(struct run *run, const struct ending *ending)
{
    const struct cs__et_node *n = node_at(run, ending->rank, ending->node);
    if (n->type != CS__ET_COLL) {
        end_current(run, ending->rank, n->stream);
        if (n->type == CS__ET_SEND) {
            int64_t receive = run->et->match[ending->rank][ending->node];
            note_start(run, n->peer, receive);
            release(run, n->peer, receive);
        }
        return;
    }
    const struct cs_comm *comm = &run->et->trace->comms[run->et->comm_of_group[n->group]];
    int32_t group = comm->group_of_rank[ending->rank];
    for (int32_t i = comm->group_first[group]; i < comm->group_first[group + 1]; i++) {
        end_current(run, comm->members[i], n->stream);
    }
}

/** Everything that ends at one time ends before anything starts, so that equal ranks choose equally. */
static void run_on(struct run *run)
{
    for (;;) {
        settle(run);
        for (int32_t i = 0; i < run->n_to_start; i++) {
            run->touched[run->to_start[i]] = false;
            start(run, run->to_start[i]);
        }
        run->n_to_start = 0;
        if (run->n_endings == 0) {
            break;
        }
        run->now_s = run->endings[0].at_s;
        while (run->n_endings > 0 && run->endings[0].at_s <= run->now_s) {
            struct ending ending = take_ending(run);
            finish(run, &ending);
        }
    }
}

static void run_init(struct run *run, struct cs__et *et)
{
    *run = (struct run){.et = et, .n_streams = et->trace->n_streams};
    size_t n_ranks = (size_t)et->n_ranks;
    run->queues = cs_calloc(n_ranks * (size_t)run->n_streams, sizeof *run->queues);
    run->n_left = cs_calloc(n_ranks, sizeof *run->n_left);
    run->arrived = cs_calloc(n_ranks * (size_t)et->trace->n_comms, sizeof *run->arrived);
    run->touched = cs_calloc(n_ranks, sizeof *run->touched);
    run->to_start = cs_calloc(n_ranks, sizeof *run->to_start);
    for (int64_t i = 0; i < (int64_t)n_ranks * run->n_streams; i++) {
        run->queues[i].current = -1;
    }
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        const struct cs__et_rank *r = &et->ranks[rank];
        run->n_left[rank] = cs_calloc((size_t)r->n_nodes, sizeof **run->n_left);
        for (int64_t i = 0; i < r->n_nodes; i++) {
            run->n_left[rank][i] += r->nodes[i].n_deps + (r->nodes[i].type == CS__ET_RECV);
            if (et->next[rank][i] >= 0) {
                run->n_left[rank][et->next[rank][i]]++;
            }
        }
    }
}

static void run_release(struct run *run)
{
    for (int64_t i = 0; i < (int64_t)run->et->n_ranks * run->n_streams; i++) {
        cs_free(run->queues[i].items);
    }
    for (int32_t rank = 0; rank < run->et->n_ranks; rank++) {
        cs_free(run->n_left[rank]);
    }
    cs_free(run->queues);
    cs_free(run->n_left);
    cs_free(run->arrived);
    cs_free(run->touched);
    cs_free(run->to_start);
    cs_free(run->endings);
    cs_free(run->stack);
}

/** Who waits for what: the first node of a rank's order that has not ended has everything it depends on, so
 *  that it waits for another rank. */
static cs_status report_stuck(const struct run *run, struct cs_err *err)
{
    const struct cs__et *et = run->et;
    int32_t rank = 0;
    int64_t k = 0;
    while (k == et->ranks[rank].n_nodes || run->n_left[rank][et->ranks[rank].order[k]] < 0) {
        if (k == et->ranks[rank].n_nodes) {
            rank++;
            k = 0;
        } else {
            k++;
        }
    }
    const struct cs__et_node *n = &et->ranks[rank].nodes[et->ranks[rank].order[k]];
    if (n->type == CS__ET_RECV) {
        return cs__et_bad(et, rank, n, err, "waits for ever for a message from rank %d", (int)n->peer);
    }
    const struct cs_comm *comm = &et->trace->comms[et->comm_of_group[n->group]];
    int32_t group = comm->group_of_rank[rank];
    int32_t absent = comm->group_first[group];
    while (absent + 1 < comm->group_first[group + 1] &&
           run->queues[(int64_t)comm->members[absent] * run->n_streams + n->stream].current >= 0) {
        absent++;
    }
    return cs__et_bad(et, rank, n, err, "waits for ever for rank %d in '%s'", (int)comm->members[absent],
                      comm->name);
}

cs_status cs__et_run(struct cs__et *et, struct cs_err *err)
{
    struct run run;
    int64_t n_nodes = 0;
    run_init(&run, et);
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        const struct cs__et_rank *r = &et->ranks[rank];
        et->started[rank] = CS_ARENA_NEW(&et->arena, int64_t, r->n_nodes);
        n_nodes += r->n_nodes;
        for (int64_t i = r->n_nodes - 1; i >= 0; i--) {
            if (run.n_left[rank][i] == 0) {
                push(&run, rank, i);
            }
        }
    }
    run_on(&run);
    cs_status st = run.n_done < n_nodes ? report_stuck(&run, err) : CS_OK;
    run_release(&run);
    return st;
}
