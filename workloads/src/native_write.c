/* Our own trace format: writing. */
#include "check_priv.h"
#include "native_priv.h"

#include <inttypes.h>
#include <stddef.h>

static void write_quoted(FILE *stream, const char *text)
{
    fputs(" \"", stream);
    for (const char *at = text != NULL ? text : ""; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\') {
            fprintf(stream, "\\%c", c);
        } else {
            fputc(c, stream);
        }
    }
    fputc('"', stream);
}

static void write_header(FILE *stream, const char *part)
{
    fprintf(stream, "%s %d %s", CS__NATIVE_MAGIC, CS__NATIVE_VERSION, part);
}

static void write_run(FILE *stream, int32_t first, int32_t step, int32_t n)
{
    fprintf(stream, " %" PRId32, first);
    if (n > 1) {
        fprintf(stream, "..%" PRId32, first + (n - 1) * step);
        if (step != 1) {
            fprintf(stream, "/%" PRId32, step);
        }
    }
}

/** How many of the first n ranks are at equal distances; two are not worth a run. */
static int32_t run_length(const int32_t *ranks, int32_t n)
{
    int32_t length = n < 2 ? n : 2;
    while (length < n && length >= 2 && ranks[length] - ranks[length - 1] == ranks[1] - ranks[0]) {
        length++;
    }
    return length > 2 ? length : 1;
}

static void write_ranks(FILE *stream, const int32_t *ranks, int32_t n)
{
    for (int32_t i = 0; i < n;) {
        int32_t length = run_length(ranks + i, n - i);
        write_run(stream, ranks[i], length > 1 ? ranks[i + 1] - ranks[i] : 1, length);
        i += length;
    }
}

static bool write_comms(FILE *stream, const struct cs_trace *trace)
{
    bool sound = true;
    for (int32_t c = 0; c < trace->n_comms; c++) {
        const struct cs_comm *comm = &trace->comms[c];
        fputs("comm", stream);
        write_quoted(stream, comm->name);
        sound = cs__figures_write(stream, &cs__comm_figures, comm) && sound;
        fputc('\n', stream);
        for (int32_t g = 0; g < comm->n_groups; g++) {
            fputs("group", stream);
            write_ranks(stream, comm->members + comm->group_first[g],
                        comm->group_first[g + 1] - comm->group_first[g]);
            fputc('\n', stream);
        }
    }
    return sound;
}

static bool write_chans(FILE *stream, const struct cs_trace *trace)
{
    bool sound = true;
    int32_t *senders = cs_calloc((size_t)trace->n_ranks, sizeof *senders);
    int32_t *peers = cs_calloc((size_t)trace->n_ranks, sizeof *peers);
    for (int32_t c = 0; c < trace->n_chans; c++) {
        const struct cs_chan *chan = &trace->chans[c];
        fputs("chan", stream);
        write_quoted(stream, chan->name);
        sound = cs__figures_write(stream, &cs__chan_figures, chan) && sound;
        fputc('\n', stream);
        int32_t n = 0;
        for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
            if (chan->peer[rank] >= 0) {
                senders[n] = rank;
                peers[n++] = chan->peer[rank];
            }
        }
        for (int32_t i = 0; i < n;) {
            int32_t from = run_length(senders + i, n - i);
            int32_t to = run_length(peers + i, n - i);
            int32_t length = from < to ? from : to;
            fputs("route", stream);
            write_run(stream, senders[i], length > 1 ? senders[i + 1] - senders[i] : 1, length);
            write_run(stream, peers[i], length > 1 ? peers[i + 1] - peers[i] : 1, length);
            fputc('\n', stream);
            i += length;
        }
    }
    cs_free(senders);
    cs_free(peers);
    return sound;
}

static void write_bindings(FILE *stream, const struct cs_trace *trace)
{
    /* One pass over the ranks: count, then fill, each role's ranks in order. */
    int32_t *first = cs_calloc((size_t)trace->n_programs + 2, sizeof *first);
    int32_t *ranks = cs_calloc((size_t)trace->n_ranks, sizeof *ranks);
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        first[trace->program_of_rank[rank] + 2]++;
    }
    for (int32_t p = 0; p < trace->n_programs; p++) {
        first[p + 2] += first[p + 1];
    }
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        ranks[first[trace->program_of_rank[rank] + 1]++] = rank;
    }
    for (int32_t p = 0; p < trace->n_programs; p++) {
        if (first[p + 1] > first[p]) {
            fprintf(stream, "bind %" PRId32, p);
            write_ranks(stream, ranks + first[p], first[p + 1] - first[p]);
            fputc('\n', stream);
        }
    }
    cs_free(first);
    cs_free(ranks);
}

static void write_names(FILE *stream, const char *word, const char *const *names, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        fputs(word, stream);
        write_quoted(stream, names[i]);
        fputc('\n', stream);
    }
}

static bool write_binding(FILE *stream, const struct cs_trace *trace)
{
    bool sound = true;
    write_header(stream, "binding\nsize");
    sound = cs__figures_write(stream, &cs__size_figures, trace) && sound;
    fputs("\nworth", stream);
    sound = cs__figures_write(stream, &cs__worth_figures, trace) && sound;
    fputc('\n', stream);
    write_names(stream, "stream", trace->stream_names, trace->n_streams);
    write_names(stream, "event", trace->event_names, trace->n_events);
    write_names(stream, "label", trace->labels, trace->n_labels);
    for (int32_t i = 0; i < trace->n_costs; i++) {
        const struct cs_op_cost *cost = &trace->costs[i];
        fprintf(stream, "cost %s %s", cs_opkind_names[cost->kind], cs_dtype_names[cost->dtype]);
        sound = cs__figures_write(stream, &cs__cost_figures, cost) && sound;
        fputc('\n', stream);
    }
    sound = write_comms(stream, trace) && sound;
    sound = write_chans(stream, trace) && sound;
    write_bindings(stream, trace);
    fputs("end\n", stream);
    return sound;
}

static void write_block(FILE *stream, const struct cs_trace *trace, int32_t b)
{
    const struct cs_block *block = &trace->blocks[b];
    fprintf(stream, "block %" PRId32, b);
    write_quoted(stream, block->name);
    fputc('\n', stream);
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs__op_form *form = &cs__op_forms[block->ops[i].type];
        fputs(form->word, stream);
        (void)cs__figures_write(stream, &form->figures, &block->ops[i]); /* no reals among them */
        fputc('\n', stream);
    }
}

/** A role's file: the blocks it is the first to call, then its calls. The first role also has the blocks
 *  that nobody calls, so that no number is missing. `written` marks blocks. */
static bool write_role(FILE *stream, const struct cs_trace *trace, int32_t p, const bool *called,
                       bool *written)
{
    const struct cs_program *program = &trace->programs[p];
    fprintf(stream, "%s %d role %" PRId32 "\nrole", CS__NATIVE_MAGIC, CS__NATIVE_VERSION, p);
    write_quoted(stream, program->role);
    bool sound = cs__figures_write(stream, &cs__program_figures, program);
    fputc('\n', stream);
    for (int32_t b = 0; p == 0 && b < trace->n_blocks; b++) {
        if (!called[b]) {
            write_block(stream, trace, b);
        }
    }
    for (int32_t call = 0; call < program->n_calls; call++) {
        int32_t b = program->calls[call].block;
        if (!written[b]) {
            written[b] = true;
            write_block(stream, trace, b);
        }
    }
    for (int32_t call = 0; call < program->n_calls; call++) {
        fprintf(stream, "call %" PRId32 " %" PRId32 "\n", program->calls[call].block,
                program->calls[call].micro_batch);
    }
    fputs("end\n", stream);
    return sound;
}

static void mark_called(const struct cs_trace *trace, bool *called)
{
    for (int32_t p = 0; p < trace->n_programs; p++) {
        for (int32_t call = 0; call < trace->programs[p].n_calls; call++) {
            called[trace->programs[p].calls[call].block] = true;
        }
    }
}

/** The figures that cs__check_form does not look at, but that lines name or limit. */
static cs_status check_writable(const struct cs_trace *trace, struct cs_err *err)
{
    if (trace->n_ranks < 1 || trace->n_ranks > CS__NATIVE_RANKS_MAX || trace->n_programs < 1 ||
        trace->n_programs > CS__NATIVE_RANKS_MAX || trace->n_blocks > CS__NATIVE_BLOCKS_MAX ||
        trace->n_streams > CS__NATIVE_NAMED_MAX || trace->n_events > CS__NATIVE_NAMED_MAX ||
        trace->n_comms > CS__NATIVE_NAMED_MAX || trace->n_chans > CS__NATIVE_NAMED_MAX ||
        (int64_t)trace->n_ranks * (trace->n_comms + trace->n_chans) > CS__NATIVE_PLACES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                          "the trace has more ranks, roles, blocks, streams, events, communicators or "
                          "channels than its format holds");
    }
    for (int32_t i = 0; i < trace->n_costs; i++) {
        if (trace->costs[i].kind >= CS_N_OPKINDS || trace->costs[i].dtype >= CS_N_DTYPES ||
            trace->costs[i].n_kernels < 0) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "cost %d has no operator kind or dtype", (int)i);
        }
    }
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        for (int32_t i = 0; i < trace->blocks[b].n_ops; i++) {
            const struct cs_op *op = &trace->blocks[b].ops[i];
            if (op->mem >= CS_N_MEMS || op->coll >= CS_N_COLLS || op->phase > CS_PHASE_OPTIMIZER ||
                op->cost < -1) {
                return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "block '%s', operation %d: a field out of range",
                                  trace->blocks[b].name, (int)i);
            }
        }
    }
    return CS_OK;
}

cs_status cs_trace_write_native(const struct cs_trace *trace, const char *dir, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__folder folder = {0};
    bool *written = cs_calloc((size_t)trace->n_blocks + 1, sizeof *written);
    bool *called = cs_calloc((size_t)trace->n_blocks + 1, sizeof *called);
    CS_TRY(check_writable(trace, err));
    CS_TRY(cs__check_form(trace, err));
    CS_TRY(cs__names_check(trace, false, err));
    CS_TRY(cs__folder_open(&folder, dir, err));
    CS_TRY(cs__folder_file(&folder, "binding.txt", err));
    bool sound = write_binding(folder.stream, trace);
    CS_TRY(cs__folder_close(&folder, err));
    mark_called(trace, called);
    for (int32_t p = 0; p < trace->n_programs; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, "role-%" PRId32 ".txt", p);
        CS_TRY(cs__folder_file(&folder, name, err));
        sound = write_role(folder.stream, trace, p, called, written) && sound;
        CS_TRY(cs__folder_close(&folder, err));
    }
    if (!sound) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "the trace has a figure that is negative or not finite");
        goto out;
    }
    CS_TRY(cs__folder_commit(&folder, err));
out:
    cs_free(written);
    cs_free(called);
    cs__folder_release(&folder);
    return st;
}
