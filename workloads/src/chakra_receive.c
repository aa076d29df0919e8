/* Chakra execution traces: where receives wait.
 *
 * A node of its own in Chakra, a receive is for us an operation of some stream. On the compute stream, just
 * in front of the first node that computes with the message, it makes waiting for a pipeline neighbour
 * visible as such (the bubble). That is possible for a channel when nothing but computing needs its messages,
 * in the order in which they come; else the channel's receives have a stream of their own, and events lead to
 * those who need them. The times are the same. */
#include "chakra_read_priv.h"

#include <string.h>

/** The first place in the rank's order that computes with a message; -1 = something else needs it, or
 * nothing. A later receive of the channel may depend on it: it is on the same stream. */
static int32_t first_use(const struct cs__et_rank *r, int64_t receive)
{
    int32_t first = INT32_MAX;
    for (int64_t c = r->child_first[receive]; c < r->child_first[receive + 1]; c++) {
        const struct cs__et_node *child = &r->nodes[r->children[c]];
        if (child->type == CS__ET_RECV && child->group == r->nodes[receive].group) {
            continue;
        }
        if (child->stream != CS_STREAM_COMPUTE) {
            return -1;
        }
        first = child->place < first ? child->place : first;
    }
    return first < INT32_MAX ? first : -1;
}

/** Strike out the channels of a rank whose messages are not used by computing in order. */
static void check_rank(const struct cs__et *et, int32_t rank, bool *inline_link)
{
    const struct cs__et_rank *r = &et->ranks[rank];
    int32_t last[CS__ET_NAMED_MAX] = {0};
    for (int64_t i = 0; i < et->n_started[rank]; i++) {
        r->nodes[et->started[rank][i]].place = (int32_t)i;
    }
    for (int64_t i = 0; i < et->n_started[rank]; i++) {
        const struct cs__et_node *node = &r->nodes[et->started[rank][i]];
        if (node->type == CS__ET_RECV && inline_link[node->group]) {
            int32_t use = first_use(r, et->started[rank][i]);
            inline_link[node->group] = use >= last[node->group];
            last[node->group] = use;
        }
    }
}

/** Put the receives of the compute stream in front of their first uses. `first` and `next` chain them by
 *  place. */
static void move_receives(struct cs__et *et, int32_t rank, int64_t *first, int64_t *next)
{
    struct cs__et_rank *r = &et->ranks[rank];
    int64_t n = et->n_started[rank];
    int64_t *moved = CS_ARENA_NEW(&et->arena, int64_t, n);
    int64_t n_moved = 0;
    memset(first, -1, sizeof *first * (size_t)n);
    for (int64_t i = n - 1; i >= 0; i--) { /* backwards, so that chains are in order */
        const struct cs__et_node *node = &r->nodes[et->started[rank][i]];
        if (node->type == CS__ET_RECV && node->stream == CS_STREAM_COMPUTE) {
            int32_t use = first_use(r, et->started[rank][i]);
            next[i] = first[use];
            first[use] = i;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const struct cs__et_node *node = &r->nodes[et->started[rank][i]];
        for (int64_t k = first[i]; k >= 0; k = next[k]) {
            moved[n_moved++] = et->started[rank][k];
        }
        if (node->type != CS__ET_RECV || node->stream != CS_STREAM_COMPUTE) {
            moved[n_moved++] = et->started[rank][i];
        }
    }
    et->started[rank] = moved;
}

static int64_t longest_order(const struct cs__et *et)
{
    int64_t longest = 0;
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        longest = et->n_started[rank] > longest ? et->n_started[rank] : longest;
    }
    return longest;
}

void cs__et_receives(struct cs__et *et)
{
    struct cs_trace *trace = et->trace;
    bool inline_link[CS__ET_NAMED_MAX];
    int16_t streams[CS__ET_NAMED_MAX] = {CS_STREAM_COMPUTE};
    size_t longest = (size_t)longest_order(et);
    int64_t *first = cs_calloc(longest, sizeof *first);
    int64_t *next = cs_calloc(longest, sizeof *next);
    memset(inline_link, true, sizeof inline_link);
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        check_rank(et, rank, inline_link);
    }
    for (int32_t c = 0; c < et->n_links; c++) {
        if (!inline_link[c]) {
            streams[c] = (int16_t)trace->n_streams;
            trace->stream_names[trace->n_streams++] =
                cs_arena_printf(&trace->arena, "from %+d", -(int)et->links[c].distance);
        }
    }
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        struct cs__et_rank *r = &et->ranks[rank];
        for (int64_t i = 0; i < r->n_nodes; i++) {
            if (r->nodes[i].type == CS__ET_RECV) {
                r->nodes[i].stream = streams[r->nodes[i].group];
            }
        }
        move_receives(et, rank, first, next);
    }
    cs_free(first);
    cs_free(next);
}
