/* Chakra execution traces: what the compute stream waits for itself.
 *
 * Chakra has nodes and no streams. Collectives and receives would be well off with streams of their own and
 * events that lead to those who need them, but then nobody sees that computing stands still for them: that
 * waiting for a pipeline neighbour is the bubble, say. So they are put on the compute stream where that
 * changes no time: where they wait for all computing before them, and what is computed next waits for them. A
 * communicator goes there when all its collectives can, a channel when the messages are also used in the
 * order in which they come. */
#include "chakra_read_priv.h"

#include <string.h>

struct inliner {
    struct cs__et *et;
    bool comm[CS__ET_NAMED_MAX]; /* per communicator: its collectives can be on the compute stream */
    bool link[CS__ET_NAMED_MAX]; /* per channel: its receives can */
    /* Of one rank, by node: the last place of the compute stream that it depends on, and the first that
     * depends on it, by whatever way; -1 and INT32_MAX = none. */
    int32_t *needs, *needed;
    int32_t *before; /* by place: the last place of the compute stream before it, -1 = none */
    /* Of one rank, by place: receives to move in front of it, chained. */
    int64_t *first, *next;
};

static int32_t comm_of(const struct inliner *in, const struct cs__et_node *node)
{
    return in->et->comm_of_group[node->group];
}

static bool is_computing(const struct cs__et_node *node)
{
    return node->type == CS__ET_COMP && !node->on_host;
}

static bool is_on_compute(const struct inliner *in, const struct cs__et_node *node)
{
    return is_computing(node) || (node->type == CS__ET_COLL && in->comm[comm_of(in, node)]);
}

static bool depends_on(const struct cs__et_rank *r, int64_t node, int64_t on)
{
    const struct cs__et_node *n = &r->nodes[node];
    for (int32_t d = 0; d < n->n_deps; d++) {
        if ((int64_t)r->deps[n->first_dep + d] == on) {
            return true;
        }
    }
    return false;
}

/** Number the rank's order, and find what of the compute stream every node stands between. */
static void find_places(struct inliner *in, int32_t rank)
{
    struct cs__et_rank *r = &in->et->ranks[rank];
    int32_t last = -1;
    for (int64_t i = 0; i < in->et->n_started[rank]; i++) {
        struct cs__et_node *node = &r->nodes[in->et->started[rank][i]];
        node->place = (int32_t)i;
        in->before[i] = last;
        last = is_on_compute(in, node) ? node->place : last;
    }
    for (int64_t k = 0; k < r->n_nodes; k++) {
        int64_t node = r->order[k];
        in->needs[node] = -1;
        for (int32_t d = 0; d < r->nodes[node].n_deps; d++) {
            int64_t dep = (int64_t)r->deps[r->nodes[node].first_dep + d];
            int32_t place = is_on_compute(in, &r->nodes[dep]) ? r->nodes[dep].place : in->needs[dep];
            in->needs[node] = place > in->needs[node] ? place : in->needs[node];
        }
    }
    for (int64_t k = r->n_nodes - 1; k >= 0; k--) {
        int64_t node = r->order[k];
        in->needed[node] = INT32_MAX;
        for (int64_t c = r->child_first[node]; c < r->child_first[node + 1]; c++) {
            int64_t child = r->children[c];
            int32_t place = is_on_compute(in, &r->nodes[child]) ? r->nodes[child].place : in->needed[child];
            in->needed[node] = place < in->needed[node] ? place : in->needed[node];
        }
    }
}

/** Which communicators have collectives that the compute stream can all wait for? They need the computing
 * before them, and the computing after needs them. No communicator is on the compute stream yet. */
static void check_comms(struct inliner *in, int32_t rank, bool *fits)
{
    const struct cs__et_rank *r = &in->et->ranks[rank];
    const int64_t *started = in->et->started[rank];
    int32_t after = INT32_MAX;
    find_places(in, rank);
    for (int64_t i = in->et->n_started[rank] - 1; i >= 0; i--) {
        const struct cs__et_node *node = &r->nodes[started[i]];
        after = is_computing(node) ? node->place : after;
        if (node->type == CS__ET_COLL &&
            (in->needs[started[i]] != in->before[i] || in->needed[started[i]] != after)) {
            fits[comm_of(in, node)] = false;
        }
    }
}

/** Collectives between the same computing must not be side by side; true = a communicator was struck out. */
static bool strike_parallel(struct inliner *in, int32_t rank)
{
    const struct cs__et_rank *r = &in->et->ranks[rank];
    bool struck = false;
    int64_t last = -1; /* the collective that the compute stream is at, if it is at one */
    for (int64_t i = 0; i < in->et->n_started[rank]; i++) {
        int64_t node = in->et->started[rank][i];
        if (!is_on_compute(in, &r->nodes[node])) {
            continue;
        }
        bool collective = r->nodes[node].type == CS__ET_COLL;
        if (collective && last >= 0 && !depends_on(r, node, last)) {
            in->comm[comm_of(in, &r->nodes[node])] = false;
            struck = true;
            continue;
        }
        last = collective ? node : -1;
    }
    return struck;
}

/** The first place of the compute stream that uses a message; -1 = none, or something else uses it that does
 * not need all of the compute stream before that place. A later receive of the channel may depend on it: it
 * is on the same stream. */
static int32_t first_use(const struct inliner *in, const struct cs__et_rank *r, int64_t receive)
{
    int32_t first = INT32_MAX;
    int32_t least = INT32_MAX; /* what the other users need of the compute stream */
    for (int64_t c = r->child_first[receive]; c < r->child_first[receive + 1]; c++) {
        const struct cs__et_node *child = &r->nodes[r->children[c]];
        if (child->type == CS__ET_RECV && child->group == r->nodes[receive].group) {
            continue;
        }
        if (is_on_compute(in, child)) {
            first = child->place < first ? child->place : first;
        } else if (in->needs[r->children[c]] < least) {
            least = in->needs[r->children[c]];
        }
    }
    return first < INT32_MAX && least >= in->before[first] ? first : -1;
}

/** Strike out channels whose messages the compute stream does not use in order. */
static void strike_links(struct inliner *in, int32_t rank)
{
    const struct cs__et_rank *r = &in->et->ranks[rank];
    int32_t last[CS__ET_NAMED_MAX] = {0};
    find_places(in, rank);
    for (int64_t i = 0; i < in->et->n_started[rank]; i++) {
        const struct cs__et_node *node = &r->nodes[in->et->started[rank][i]];
        if (node->type == CS__ET_RECV && in->link[node->group]) {
            int32_t use = first_use(in, r, in->et->started[rank][i]);
            in->link[node->group] = use >= last[node->group];
            last[node->group] = use;
        }
    }
}

/** Put the receives of the compute stream in front of their first uses, those of one place in their order. */
static void move_receives(struct inliner *in, int32_t rank)
{
    struct cs__et *et = in->et;
    const struct cs__et_rank *r = &et->ranks[rank];
    int64_t n = et->n_started[rank];
    int64_t *moved = CS_ARENA_NEW(&et->arena, int64_t, n);
    int64_t n_moved = 0;
    memset(in->first, -1, sizeof *in->first * (size_t)n);
    find_places(in, rank);
    for (int64_t i = n - 1; i >= 0; i--) { /* backwards, so that chains are in order */
        const struct cs__et_node *node = &r->nodes[et->started[rank][i]];
        if (node->type == CS__ET_RECV && in->link[node->group]) {
            int32_t use = first_use(in, r, et->started[rank][i]);
            in->next[i] = in->first[use];
            in->first[use] = i;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const struct cs__et_node *node = &r->nodes[et->started[rank][i]];
        for (int64_t k = in->first[i]; k >= 0; k = in->next[k]) {
            moved[n_moved++] = et->started[rank][k];
        }
        if (node->type != CS__ET_RECV || !in->link[node->group]) {
            moved[n_moved++] = et->started[rank][i];
        }
    }
    et->started[rank] = moved;
}

/** Give collectives and receives their streams. */
static void set_streams(struct inliner *in)
{
    struct cs__et *et = in->et;
    struct cs_trace *trace = et->trace;
    int16_t streams[CS__ET_NAMED_MAX] = {CS_STREAM_COMPUTE};
    for (int32_t c = 0; c < et->n_links; c++) {
        if (!in->link[c]) {
            streams[c] = (int16_t)trace->n_streams;
            trace->stream_names[trace->n_streams++] =
                cs_arena_printf(&trace->arena, "from %+d", -(int)et->links[c].distance);
        }
    }
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        struct cs__et_rank *r = &et->ranks[rank];
        for (int64_t i = 0; i < r->n_nodes; i++) {
            struct cs__et_node *node = &r->nodes[i];
            if (node->type == CS__ET_RECV) {
                node->stream = streams[node->group];
            } else if (node->type == CS__ET_COLL && in->comm[comm_of(in, node)]) {
                node->stream = CS_STREAM_COMPUTE;
            }
        }
    }
}

static size_t most_nodes(const struct cs__et *et)
{
    int64_t most = 0;
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        most = et->ranks[rank].n_nodes > most ? et->ranks[rank].n_nodes : most;
    }
    return (size_t)most;
}

void cs__et_inline(struct cs__et *et)
{
    struct inliner in = {.et = et};
    size_t most = most_nodes(et);
    in.needs = cs_calloc(most, sizeof *in.needs);
    in.needed = cs_calloc(most, sizeof *in.needed);
    in.before = cs_calloc(most, sizeof *in.before);
    in.first = cs_calloc(most, sizeof *in.first);
    in.next = cs_calloc(most, sizeof *in.next);
    bool fits[CS__ET_NAMED_MAX];
    memset(fits, true, sizeof fits);
    memset(in.link, true, sizeof in.link);
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        check_comms(&in, rank, fits);
    }
    memcpy(in.comm, fits, sizeof in.comm);
    for (bool struck = true; struck;) {
        struck = false;
        for (int32_t rank = 0; rank < et->n_ranks; rank++) {
            struck = strike_parallel(&in, rank) || struck;
        }
    }
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        strike_links(&in, rank);
    }
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        move_receives(&in, rank);
    }
    set_streams(&in);
    cs_free(in.needs);
    cs_free(in.needed);
    cs_free(in.before);
    cs_free(in.first);
    cs_free(in.next);
}
