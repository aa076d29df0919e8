/* Chakra execution traces: a run with nominal rates, which says in which order nodes start.
 *
 * A stream of our traces has a fixed order; a Chakra node starts when its dependencies are met and its
 * resource is free. Any order that some run of all ranks together takes can be replayed without deadlock; this
 * one is by ASTRA-sim's rule: of the nodes that are ready, the lowest number first. Collectives of a group keep
 * the order of their rank's file, so that all members agree. */
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

/** Nodes that are ready for a stream, by number. Collectives and sends have a rank of their own (key). */
struct queue {
    int64_t *items;
    int32_t n, cap;
    bool busy;
};

struct run {
    struct cs__et *et;
    int32_t n_streams;
    double now_s;
    int64_t seq;
    struct ending *endings; /* a heap */
    int64_t n_endings, cap_endings;
    struct queue *queues; /* [rank][stream] */
    int32_t **n_left;     /* per rank and node: dependencies that have not ended */
    int64_t **next;       /* per rank and node: the next send of the same peer and tag, or collective of the same
                             group; -1 = none */
    int64_t *stack;       /* nodes that have become ready or ended: pairs of rank and node */
    int64_t n_stack, cap_stack;
    int32_t *arrived;     /* per communicator and group's first member: members at the group's collective */
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
    for (int64_t c = r->child_first[node]; c < r->child_first[node + 1]; c++) {
        release(run, rank, r->children[c]);
    }
    if (run->next[rank][node] >= 0) {
        release(run, rank, run->next[rank][node]);
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
        }
    }
}

/** Seconds at nominal rates. */
static double nominal_s(const struct cs__et_node *node)
{
    switch ((enum cs__et_type)node->type) {
    case CS__ET_SEND:
    case CS__ET_COLL:
        return (double)node->size / NOMINAL_LINK_BYTES_PER_S;
    default:
        return node->fixed_s > 0 ? node->fixed_s : node->flop / NOMINAL_FLOP_PER_S;
    }
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
        if (queue->busy || queue->n == 0) {
            continue;
        }
        int64_t node = queue_pop(queue);
        const struct cs__et_node *n = node_at(run, rank, node);
        queue->busy = true;
        note_start(run, rank, node);
        if (n->type == CS__ET_COLL) {
            arrive(run, rank, node);
        } else {
            add_ending(run, nominal_s(n), rank, node);
        }
    }
}

static void free_stream(struct run *run, int32_t rank, int32_t stream)
{
    run->queues[(int64_t)rank * run->n_streams + stream].busy = false;
}

/** A collective ends for all members. What each is at is what it started last on that stream: it is the one
 *  node of the stream that is not over, found from the back. */
static int64_t current_node(const struct run *run, int32_t rank, int32_t stream)
{
    const int64_t *started = run->et->started[rank];
    int64_t i = run->et->n_started[rank] - 1;
    while (node_at(run, rank, started[i])->stream != stream) {
        i--;
    }
    return started[i];
}

static void finish(struct run *run, const struct ending *ending)
{
    const struct cs__et_node *n = node_at(run, ending->rank, ending->node);
    if (n->type != CS__ET_COLL) {
        free_stream(run, ending->rank, n->stream);
        end_node(run, ending->rank, ending->node);
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
        int32_t rank = comm->members[i];
        int64_t node = current_node(run, rank, n->stream);
        free_stream(run, rank, n->stream);
        end_node(run, rank, node);
    }
}

/** Chain what must keep the order of the file: sends of one peer and tag, collectives of one group. */
static void chain(struct run *run, int32_t rank)
{
    const struct cs__et_rank *r = &run->et->ranks[rank];
    int64_t *last = cs_calloc((size_t)run->n_streams, sizeof *last); /* per communicator's stream */
    for (int32_t i = 0; i < run->n_streams; i++) {
        last[i] = -1;
    }
    for (int64_t k = 0; k < r->n_nodes; k++) {
        int64_t node = r->order[k];
        run->next[rank][node] = -1;
        if (r->nodes[node].type == CS__ET_COLL) {
            int64_t *before = &last[r->nodes[node].stream];
            if (*before >= 0) {
                run->next[rank][*before] = node;
                run->n_left[rank][node]++;
            }
            *before = node;
        }
    }
    cs_free(last);
}
