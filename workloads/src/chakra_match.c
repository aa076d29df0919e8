/* Chakra execution traces: which receive gets which send; streams. */
#include "chakra_read_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/** A send or a receive: the k-th of its ends and tag in its rank's order. */
struct message {
    int32_t src, dst;
    int64_t tag;
    int64_t k; /* place in the rank's order */
    int64_t node;
};

static int compare_ends(const struct message *x, const struct message *y)
{
    if (x->src != y->src) {
        return x->src < y->src ? -1 : 1;
    }
    if (x->dst != y->dst) {
        return x->dst < y->dst ? -1 : 1;
    }
    return x->tag < y->tag ? -1 : x->tag > y->tag ? 1 : 0;
}

static int by_ends(const void *a, const void *b)
{
    const struct message *x = a;
    const struct message *y = b;
    int order = compare_ends(x, y);
    return order != 0 ? order : x->k < y->k ? -1 : x->k > y->k ? 1 : 0;
}

struct messages {
    struct message *list;
    int64_t n, cap;
};

/** All sends or all receives, sorted. */
static void collect(const struct cs__et *et, enum cs__et_type type, struct messages *messages)
{
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        const struct cs__et_rank *r = &et->ranks[rank];
        for (int64_t k = 0; k < r->n_nodes; k++) {
            const struct cs__et_node *node = &r->nodes[r->order[k]];
            if (node->type == type) {
                bool send = type == CS__ET_SEND;
                CS_GROW(messages->list, messages->n, messages->cap);
                messages->list[messages->n++] = (struct message){.src = send ? rank : node->peer,
                                                                 .dst = send ? node->peer : rank,
                                                                 .tag = node->tag,
                                                                 .k = k,
                                                                 .node = r->order[k]};
            }
        }
    }
    if (messages->n > 0) {
        qsort(messages->list, (size_t)messages->n, sizeof *messages->list, by_ends);
    }
}

static cs_status report_unmatched(const struct cs__et *et, enum cs__et_type type, const struct message *m,
                                  struct cs_err *err)
{
    bool send = type == CS__ET_SEND;
    int32_t rank = send ? m->src : m->dst;
    return cs__et_bad(et, rank, &et->ranks[rank].nodes[m->node], err,
                      "%s rank %d with tag %" PRId64 ", but that rank has no %s for it",
                      send ? "sends to" : "receives from", (int)(send ? m->dst : m->src), m->tag,
                      send ? "receive" : "send");
}

/** Pair the lists off; equal ends and tags go in order. */
static cs_status pair(struct cs__et *et, const struct messages *sends, const struct messages *receives,
                      struct cs_err *err)
{
    for (int64_t i = 0; i < sends->n; i++) {
        const struct message *send = &sends->list[i];
        const struct message *receive = i < receives->n ? &receives->list[i] : NULL;
        if (receive == NULL || compare_ends(send, receive) < 0) {
            return report_unmatched(et, CS__ET_SEND, send, err);
        }
        if (compare_ends(send, receive) > 0) {
            return report_unmatched(et, CS__ET_RECV, receive, err);
        }
        const struct cs__et_node *from = &et->ranks[send->src].nodes[send->node];
        const struct cs__et_node *to = &et->ranks[send->dst].nodes[receive->node];
        if (from->size != to->size) {
            return cs__et_bad(et, send->dst, to, err,
                              "receives %" PRId64 " bytes, but node %" PRIu64 " of rank %d sends %" PRId64,
                              to->size, from->id, (int)send->src, from->size);
        }
        et->match[send->src][send->node] = receive->node;
        if (i > 0 && compare_ends(send, send - 1) == 0) {
            et->next[send->src][send[-1].node] = send->node;
        }
    }
    if (receives->n > sends->n) {
        return report_unmatched(et, CS__ET_RECV, &receives->list[sends->n], err);
    }
    return CS_OK;
}

static int by_distance(const void *a, const void *b)
{
    const struct cs__et_link *x = a;
    const struct cs__et_link *y = b;
    if (x->distance != y->distance) {
        return x->distance < y->distance ? -1 : 1;
    }
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/** Distinct links of the messages, sorted, into `links` (room for `max`); returns how many, max + 1 = more.
 */
static int32_t list_links(const struct messages *sends, bool tags_apart, struct cs__et_link *links,
                          int32_t max)
{
    int32_t n = 0;
    for (int64_t i = 0; i < sends->n; i++) {
        const struct message *m = &sends->list[i];
        struct cs__et_link link = {m->dst - m->src, tags_apart ? m->tag : 0};
        int32_t low = 0;
        int32_t high = n;
        while (low < high) {
            int32_t middle = (low + high) / 2;
            if (by_distance(&links[middle], &link) < 0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low < n && by_distance(&links[low], &link) == 0) {
            continue;
        }
        if (n == max) {
            return max + 1;
        }
        memmove(&links[low + 1], &links[low], sizeof *links * (size_t)(n - low));
        links[low] = link;
        n++;
    }
    return n;
}

/** Channels: one for each distance between sender and receiver, so that a rank has one peer on each, and for
 *  each tag where there are few. */
static cs_status make_links(struct cs__et *et, const struct messages *sends, struct cs_err *err)
{
    et->links = CS_ARENA_NEW(&et->arena, struct cs__et_link, CS__ET_NAMED_MAX);
    et->tags_apart = true;
    et->n_links = list_links(sends, true, et->links, CS__ET_TAGGED_MAX);
    if (et->n_links > CS__ET_TAGGED_MAX) {
        et->tags_apart = false;
        et->n_links = list_links(sends, false, et->links, CS__ET_NAMED_MAX);
    }
    return et->n_links <= CS__ET_NAMED_MAX
               ? CS_OK
               : cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                            "messages go over more than %d different distances between ranks",
                            CS__ET_NAMED_MAX);
}

static int32_t find_link(const struct cs__et *et, int32_t distance, int64_t tag)
{
    struct cs__et_link key = {distance, et->tags_apart ? tag : 0};
    const struct cs__et_link *link =
        bsearch(&key, et->links, (size_t)et->n_links, sizeof *et->links, by_distance);
    return (int32_t)(link - et->links);
}

static void make_channels(struct cs__et *et, const struct messages *sends)
{
    struct cs_trace *trace = et->trace;
    trace->n_chans = et->n_links;
    trace->chans = CS_ARENA_NEW(&trace->arena, struct cs_chan, et->n_links);
    for (int32_t c = 0; c < et->n_links; c++) {
        struct cs_chan *chan = &trace->chans[c];
        const bool shared = (c > 0 && et->links[c - 1].distance == et->links[c].distance) ||
                            (c + 1 < et->n_links && et->links[c + 1].distance == et->links[c].distance);
        chan->name = cs_arena_printf(&trace->arena, "to %+d", (int)et->links[c].distance);
        if (shared) {
            chan->name = cs_arena_printf(&trace->arena, "%s tag %" PRId64, chan->name, et->links[c].tag);
        }
        chan->peer = CS_ARENA_NEW(&trace->arena, int32_t, et->n_ranks);
        chan->source = CS_ARENA_NEW(&trace->arena, int32_t, et->n_ranks);
        memset(chan->peer, -1, sizeof *chan->peer * (size_t)et->n_ranks);
        memset(chan->source, -1, sizeof *chan->source * (size_t)et->n_ranks);
    }
    for (int64_t i = 0; i < sends->n; i++) {
        const struct message *m = &sends->list[i];
        struct cs_chan *chan = &trace->chans[find_link(et, m->dst - m->src, m->tag)];
        chan->peer[m->src] = m->dst;
        chan->source[m->dst] = m->src;
    }
}

/** Collectives of a group keep the order of the file, so that all members agree. */
static void chain_collectives(struct cs__et *et, int32_t rank)
{
    const struct cs__et_rank *r = &et->ranks[rank];
    int64_t last[CS__ET_NAMED_MAX];
    memset(last, -1, sizeof last);
    for (int64_t k = 0; k < r->n_nodes; k++) {
        int64_t node = r->order[k];
        if (r->nodes[node].type == CS__ET_COLL) {
            int64_t *before = &last[et->comm_of_group[r->nodes[node].group]];
            if (*before >= 0) {
                et->next[rank][*before] = node;
            }
            *before = node;
        }
    }
}

static int32_t find_root(int32_t *parent, int32_t rank)
{
    while (parent[rank] != rank) {
        parent[rank] = parent[parent[rank]];
        rank = parent[rank];
    }
    return rank;
}

/** Ranks that messages connect are a pipeline: a communicator with two of them in a group spans stages. */
static void find_spans(struct cs__et *et)
{
    struct cs_trace *trace = et->trace;
    int32_t *parent = cs_calloc((size_t)et->n_ranks, sizeof *parent);
    int32_t *seen = cs_calloc((size_t)et->n_ranks, sizeof *seen); /* per root: the last group that has it */
    int32_t group = 0;
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        parent[rank] = rank;
    }
    for (int32_t c = 0; c < trace->n_chans; c++) {
        for (int32_t rank = 0; rank < et->n_ranks; rank++) {
            if (trace->chans[c].peer[rank] >= 0) {
                parent[find_root(parent, rank)] = find_root(parent, trace->chans[c].peer[rank]);
            }
        }
    }
    for (int32_t c = 0; c < trace->n_comms; c++) {
        struct cs_comm *comm = &trace->comms[c];
        for (int32_t g = 0; g < comm->n_groups; g++) {
            group++;
            for (int32_t i = comm->group_first[g]; i < comm->group_first[g + 1]; i++) {
                int32_t *last = &seen[find_root(parent, comm->members[i])];
                comm->spans_stages = comm->spans_stages || *last == group;
                *last = group;
            }
        }
    }
    cs_free(parent);
    cs_free(seen);
}

cs_status cs__et_match(struct cs__et *et, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct messages sends = {0};
    struct messages receives = {0};
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        size_t n = (size_t)et->ranks[rank].n_nodes;
        et->match[rank] = CS_ARENA_NEW(&et->arena, int64_t, n);
        et->next[rank] = CS_ARENA_NEW(&et->arena, int64_t, n);
        memset(et->next[rank], -1, sizeof **et->next * n);
        chain_collectives(et, rank);
    }
    collect(et, CS__ET_SEND, &sends);
    collect(et, CS__ET_RECV, &receives);
    CS_TRY(pair(et, &sends, &receives, err));
    CS_TRY(make_links(et, &sends, err));
    make_channels(et, &sends);
    find_spans(et);
out:
    cs_free(sends.list);
    cs_free(receives.list);
    return st;
}

static int32_t add_stream(struct cs__et *et, const char *name)
{
    et->trace->stream_names[et->trace->n_streams] = name;
    return et->trace->n_streams++;
}

static void name_streams(struct cs__et *et, bool host, bool memory)
{
    struct cs_trace *trace = et->trace;
    (void)add_stream(et, "compute");
    et->host_stream = host ? add_stream(et, "host") : -1;
    et->memory_stream = memory ? add_stream(et, "memory") : -1;
    et->first_comm_stream = trace->n_streams;
    for (int32_t c = 0; c < trace->n_comms; c++) {
        trace->comms[c].stream = add_stream(et, trace->comms[c].name);
    }
    /* Messages over one distance leave one after the other, whatever their tags. */
    for (int32_t c = 0; c < trace->n_chans; c++) {
        bool first = c == 0 || et->links[c - 1].distance != et->links[c].distance;
        trace->chans[c].stream =
            first ? add_stream(et, cs_arena_printf(&trace->arena, "to %+d", (int)et->links[c].distance))
                  : trace->chans[c - 1].stream;
    }
}

/** Receives are dealt with when it is known who waits for them (cs__et_inline). */
static int16_t stream_of(const struct cs__et *et, const struct cs__et_node *node)
{
    switch ((enum cs__et_type)node->type) {
    case CS__ET_COMP:
        return (int16_t)(node->on_host ? et->host_stream : CS_STREAM_COMPUTE);
    case CS__ET_MEM_LOAD:
    case CS__ET_MEM_STORE:
        return (int16_t)et->memory_stream;
    case CS__ET_COLL:
        return (int16_t)(et->first_comm_stream + et->comm_of_group[node->group]);
    case CS__ET_SEND:
        return (int16_t)et->trace->chans[node->group].stream;
    case CS__ET_RECV:
    case CS__ET_INVALID:
    case CS__ET_METADATA:
    case CS__N_ET_TYPES:
        break;
    }
    return -1;
}

cs_status cs__et_streams(struct cs__et *et, struct cs_err *err)
{
    struct cs_trace *trace = et->trace;
    bool host = false;
    bool memory = false;
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        const struct cs__et_rank *r = &et->ranks[rank];
        for (int64_t i = 0; i < r->n_nodes; i++) {
            host = host || (r->nodes[i].type == CS__ET_COMP && r->nodes[i].on_host);
            memory = memory || r->nodes[i].type == CS__ET_MEM_LOAD || r->nodes[i].type == CS__ET_MEM_STORE;
        }
    }
    int32_t n = 1 + host + memory + trace->n_comms + 2 * trace->n_chans;
    if (n > CS__ET_NAMED_MAX || (int64_t)n * et->n_ranks > CS__ET_PLACES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                          "%d communicators and %d distances of messages are more streams than %d ranks can "
                          "have here",
                          (int)trace->n_comms, (int)trace->n_chans, (int)et->n_ranks);
    }
    trace->stream_names = CS_ARENA_NEW(&trace->arena, const char *, n);
    name_streams(et, host, memory);
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        struct cs__et_rank *r = &et->ranks[rank];
        for (int64_t i = 0; i < r->n_nodes; i++) {
            struct cs__et_node *node = &r->nodes[i];
            if (node->type == CS__ET_SEND || node->type == CS__ET_RECV) {
                int32_t distance = node->type == CS__ET_SEND ? node->peer - rank : rank - node->peer;
                node->group = find_link(et, distance, node->tag);
            }
            node->stream = stream_of(et, node);
        }
    }
    return CS_OK;
}
