/* Our own trace format: reading the binding. A line may only refer to what lines above it said. */
#include "native_read_priv.h"

#include "cs/base/text.h"

#include <string.h>

static cs_status read_size(struct cs__native *native, char **cursor, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    cs_status st = CS_OK;
    if (native->sized) {
        return cs__native_bad(native, err, "the size is given twice");
    }
    CS_TRY(cs__figures_read(&native->lines, cursor, &cs__size_figures, trace, err));
    native->sized = true;
    trace->program_of_rank = CS_ARENA_NEW(&trace->arena, int32_t, trace->n_ranks);
    memset(trace->program_of_rank, -1, sizeof(int32_t) * (size_t)trace->n_ranks);
    trace->programs = CS_ARENA_NEW(&trace->arena, struct cs_program, trace->n_programs);
    trace->blocks = CS_ARENA_NEW(&trace->arena, struct cs_block, trace->n_blocks);
    native->defined = cs_calloc((size_t)trace->n_blocks, sizeof *native->defined);
    native->moved = cs_calloc((size_t)trace->n_blocks, sizeof *native->moved);
out:
    return st;
}

static cs_status read_name(struct cs__native *native, char **cursor, const char *what, int32_t max,
                           const char ***names, int32_t *n, int32_t *cap, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (*n >= max) {
        return cs_err_set(err, CS_E_LIMIT, cs__lines_at(&native->lines), "more than %d lines of '%s'",
                          (int)max, what);
    }
    CS_GROW(*names, *n, *cap);
    CS_TRY(cs__quoted(&native->lines, cursor, what, &native->trace->arena, &(*names)[*n], err));
    CS_TRY(cs__no_more(&native->lines, cursor, err));
    ++*n;
out:
    return st;
}

/** A word of a list; `what` names the list. */
static cs_status read_choice(struct cs__native *native, char **cursor, const char *const *names,
                             const char *what, int32_t *index, struct cs_err *err)
{
    const char *word = cs__word(cursor);
    char shown[CS_TEXT_CLIP_BYTES];
    *index = word != NULL ? cs_text_index(word, names) : -1;
    if (*index >= 0) {
        return CS_OK;
    }
    const char *near = word != NULL ? cs_text_nearest(word, names) : NULL;
    return cs__native_bad(native, err, "'%s' is not %s; %s '%s'",
                          word != NULL ? cs_text_clip(word, shown) : "", what,
                          near != NULL ? "did you mean" : "one is", near != NULL ? near : names[0]);
}

static cs_status read_cost(struct cs__native *native, char **cursor, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    struct cs_op_cost cost = {0};
    int32_t kind = 0;
    int32_t dtype = 0;
    cs_status st = CS_OK;
    CS_TRY(read_choice(native, cursor, cs_opkind_names, "a kind of operator", &kind, err));
    CS_TRY(read_choice(native, cursor, cs_dtype_names, "a dtype", &dtype, err));
    cs__figures_reset(&cs__cost_figures, &cost);
    CS_TRY(cs__figures_read(&native->lines, cursor, &cs__cost_figures, &cost, err));
    cost.kind = (enum cs_opkind)kind;
    cost.dtype = (enum cs_dtype)dtype;
    CS_GROW(trace->costs, trace->n_costs, native->cap_costs);
    trace->costs[trace->n_costs++] = cost;
out:
    return st;
}

/** Room for one more communicator or channel: each has arrays over the ranks. */
static cs_status check_places(struct cs__native *native, int32_t n, struct cs_err *err)
{
    const struct cs_trace *trace = native->trace;
    int64_t places = (int64_t)trace->n_ranks * (trace->n_comms + trace->n_chans + 1);
    if (n < CS__NATIVE_NAMED_MAX && places <= CS__NATIVE_PLACES_MAX) {
        return CS_OK;
    }
    return cs_err_set(err, CS_E_LIMIT, cs__lines_at(&native->lines),
                      "too many communicators or channels: at most %d of each, and %d times all ranks",
                      CS__NATIVE_NAMED_MAX, CS__NATIVE_PLACES_MAX);
}

static cs_status check_lane(struct cs__native *native, int32_t stream, struct cs_err *err)
{
    return stream < native->trace->n_streams
               ? CS_OK
               : cs__native_bad(native, err, "there is no stream %d: %d are named above", (int)stream,
                                (int)native->trace->n_streams);
}

static int32_t *rank_array(struct cs_trace *trace, int value)
{
    int32_t *array = CS_ARENA_NEW(&trace->arena, int32_t, trace->n_ranks);
    memset(array, value, sizeof *array * (size_t)trace->n_ranks);
    return array;
}

/** The groups of the last communicator are complete: keep their offsets. */
static void end_comm(struct cs__native *native)
{
    struct cs_trace *trace = native->trace;
    if (native->n_first > 0) {
        native->comms[trace->n_comms - 1].group_first = cs_arena_memdup(
            &trace->arena, native->group_first, sizeof *native->group_first * (size_t)native->n_first);
        native->n_first = 0;
    }
}

static cs_status read_comm(struct cs__native *native, char **cursor, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    struct cs_comm comm = {0};
    cs_status st = CS_OK;
    CS_TRY(check_places(native, trace->n_comms, err));
    CS_TRY(cs__quoted(&native->lines, cursor, "name", &trace->arena, &comm.name, err));
    CS_TRY(cs__figures_read(&native->lines, cursor, &cs__comm_figures, &comm, err));
    CS_TRY(check_lane(native, comm.stream, err));
    end_comm(native);
    comm.members = rank_array(trace, 0);
    comm.group_of_rank = rank_array(trace, -1);
    native->comms[trace->n_comms++] = comm;
    CS_GROW(native->group_first, native->n_first, native->cap_first);
    native->group_first[native->n_first++] = 0;
out:
    return st;
}

static cs_status read_group(struct cs__native *native, char **cursor, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (native->n_first == 0) {
        return cs__native_bad(native, err, "a group must follow its communicator");
    }
    struct cs_comm *comm = &native->comms[native->trace->n_comms - 1];
    int32_t at = native->group_first[native->n_first - 1];
    for (char *word = cs__word(cursor); word != NULL; word = cs__word(cursor)) {
        struct cs__run run;
        CS_TRY(cs__run_read(&native->lines, word, native->trace->n_ranks, &run, err));
        for (int32_t i = 0; i < run.n; i++) {
            int32_t rank = run.first + i * run.step;
            if (comm->group_of_rank[rank] >= 0) {
                st = cs__native_bad(native, err, "rank %d is already in group %d of communicator '%s'",
                                    (int)rank, (int)comm->group_of_rank[rank], comm->name);
                goto out;
            }
            comm->group_of_rank[rank] = comm->n_groups;
            comm->members[at++] = rank;
        }
    }
    CS_GROW(native->group_first, native->n_first, native->cap_first);
    native->group_first[native->n_first++] = at;
    comm->n_groups++;
out:
    return st;
}

static cs_status read_chan(struct cs__native *native, char **cursor, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    struct cs_chan chan = {0};
    cs_status st = CS_OK;
    CS_TRY(check_places(native, trace->n_chans, err));
    CS_TRY(cs__quoted(&native->lines, cursor, "name", &trace->arena, &chan.name, err));
    CS_TRY(cs__figures_read(&native->lines, cursor, &cs__chan_figures, &chan, err));
    CS_TRY(check_lane(native, chan.stream, err));
    chan.peer = rank_array(trace, -1);
    chan.source = rank_array(trace, -1);
    native->chans[trace->n_chans++] = chan;
out:
    return st;
}

/** route FROM TO: the ranks of the first run send to those of the second, one to one. */
static cs_status read_route(struct cs__native *native, char **cursor, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    cs_status st = CS_OK;
    struct cs__run runs[2];
    if (trace->n_chans == 0) {
        return cs__native_bad(native, err, "a route must follow its channel");
    }
    struct cs_chan *chan = &native->chans[trace->n_chans - 1];
    for (int32_t i = 0; i < 2; i++) {
        const char *word = cs__word(cursor);
        CS_TRY(cs__run_read(&native->lines, word != NULL ? word : "", trace->n_ranks, &runs[i], err));
    }
    CS_TRY(cs__no_more(&native->lines, cursor, err));
    if (runs[0].n != runs[1].n) {
        st = cs__native_bad(native, err, "%d ranks cannot send to %d", (int)runs[0].n, (int)runs[1].n);
        goto out;
    }
    for (int32_t i = 0; i < runs[0].n; i++) {
        int32_t from = runs[0].first + i * runs[0].step;
        int32_t to = runs[1].first + i * runs[1].step;
        if (from == to || chan->peer[from] >= 0 || chan->source[to] >= 0) {
            st = cs__native_bad(native, err,
                                "on channel '%s', rank %d cannot send to %d: a rank sends to one other and "
                                "receives from one",
                                chan->name, (int)from, (int)to);
            goto out;
        }
        chan->peer[from] = to;
        chan->source[to] = from;
    }
out:
    return st;
}

static cs_status read_bind(struct cs__native *native, char **cursor, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    cs_status st = CS_OK;
    int64_t role = 0;
    const char *number = cs__word(cursor);
    CS_TRY(cs_int_parse(number != NULL ? number : "", 0, trace->n_programs - 1, "role",
                        cs__lines_at(&native->lines), &role, err));
    for (char *word = cs__word(cursor); word != NULL; word = cs__word(cursor)) {
        struct cs__run run;
        CS_TRY(cs__run_read(&native->lines, word, trace->n_ranks, &run, err));
        for (int32_t i = 0; i < run.n; i++) {
            int32_t *bound = &trace->program_of_rank[run.first + i * run.step];
            if (*bound >= 0) {
                st = cs__native_bad(native, err, "rank %d already has role %d",
                                    (int)(run.first + i * run.step), (int)*bound);
                goto out;
            }
            *bound = (int32_t)role;
            native->n_bound++;
        }
    }
out:
    return st;
}

static cs_status end_binding(struct cs__native *native, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    struct cs_arena *arena = &trace->arena;
    if (!native->sized) {
        return cs__native_bad(native, err, "the binding has no size line");
    }
    if (native->n_bound < trace->n_ranks) {
        int32_t rank = 0;
        while (trace->program_of_rank[rank] >= 0) {
            rank++;
        }
        return cs__native_bad(native, err, "rank %d has no role: a bind line must name it", (int)rank);
    }
    if (trace->n_streams == 0) {
        return cs__native_bad(native, err, "there must be a stream, the first being the compute stream");
    }
    end_comm(native);
    trace->comms = cs_arena_memdup(arena, native->comms, sizeof *native->comms * (size_t)trace->n_comms);
    trace->chans = cs_arena_memdup(arena, native->chans, sizeof *native->chans * (size_t)trace->n_chans);
    native->bound = true;
    return CS_OK;
}

enum { SIZE, WORTH, STREAM, EVENT, LABEL, COST, COMM, GROUP, CHAN, ROUTE, BIND, END };

static cs_status read_line(struct cs__native *native, int32_t kind, char **cursor, struct cs_err *err)
{
    struct cs_trace *trace = native->trace;
    if (kind != SIZE && !native->sized) {
        return cs__native_bad(native, err, "the size line must come first");
    }
    switch (kind) {
    case SIZE:
        return read_size(native, cursor, err);
    case WORTH:
        return cs__figures_read(&native->lines, cursor, &cs__worth_figures, trace, err);
    case STREAM:
        return read_name(native, cursor, "stream", CS__NATIVE_NAMED_MAX, &trace->stream_names,
                         &trace->n_streams, &native->cap_streams, err);
    case EVENT:
        return read_name(native, cursor, "event", CS__NATIVE_NAMED_MAX, &trace->event_names, &trace->n_events,
                         &native->cap_events, err);
    case LABEL:
        return read_name(native, cursor, "label", INT32_MAX, &trace->labels, &trace->n_labels,
                         &native->cap_labels, err);
    case COST:
        return read_cost(native, cursor, err);
    case COMM:
        return read_comm(native, cursor, err);
    case GROUP:
        return read_group(native, cursor, err);
    case CHAN:
        return read_chan(native, cursor, err);
    case ROUTE:
        return read_route(native, cursor, err);
    case BIND:
        return read_bind(native, cursor, err);
    default:
        return end_binding(native, err);
    }
}

cs_status cs__native_binding(struct cs__native *native, struct cs_err *err)
{
    static const char *const words[] = {"size",  "worth", "stream", "event", "label", "cost", "comm",
                                        "group", "chan",  "route",  "bind",  "end",   NULL};
    cs_status st = CS_OK;
    int32_t kind = -1;
    while (kind != END) {
        char *cursor = cs__lines_next(&native->lines);
        const char *word = cursor != NULL ? cs__word(&cursor) : NULL;
        if (word == NULL) {
            return cs__native_bad(native, err, "the file ends before the binding does: 'end' is missing");
        }
        kind = cs_text_index(word, words);
        if (kind < 0) {
            return cs__native_unknown(native, word, words, err);
        }
        CS_TRY(read_line(native, kind, &cursor, err));
        CS_TRY(cs__no_more(&native->lines, &cursor, err));
    }
out:
    return st;
}
