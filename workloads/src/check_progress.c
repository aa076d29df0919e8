/* Completeness of a trace: progress. The trace is run without a clock, as far as it goes. Nothing that
 * happens can make a wait impossible later (counters only grow), so any order of running finds the same end.
 *
 * Ranks that run the same program, whose peers run the same programs and so on, get equally far: they are one
 * class, and only classes are run. Operations that cannot block are skipped. */
#include "check_priv.h"

#include "cs/base/text.h"

/* Counters (4 bytes each) of waits by class, stream and event. */
#define COUNTERS_MAX (INT64_C(1) << 28)
/* Rounds of refinement after which every rank is a class of its own: that is always right, only slower. What
 * pipelines and groups make of ranks shows in a few rounds; a chain of a million equal ranks would need half
 * a million. */
#define ROUNDS_MAX 64
/* Operations and members looked at before a trace is refused: a file that makes its ranks wait for each other
 * one by one, or calls a large block very often, is checked for seconds, not for days. 16,384 ranks of 16
 * stages and 1,024 micro-batches need a thousandth. */
#define WORK_MAX (INT64_C(1) << 30)

struct run {
    const struct cs_trace *trace;
    int32_t n_classes;
    int32_t *class_of;           /* per rank */
    int32_t *rank_of;            /* per class: one of its ranks */
    int32_t *first_sync, *syncs; /* per block: operations that may block or unblock; syncs are indices */
    int32_t *call, *at;          /* per class and stream: where it is (at = index among the block's syncs) */
    int32_t *recorded;           /* per class and event */
    int32_t *waited;             /* per class, stream and event */
    int32_t *sent, *received;    /* per class and channel */
    int32_t *entered;            /* per class and communicator: collectives reached */
    bool *arrived;               /* per class and stream: the collective it stands at is counted in entered */
    int64_t work;                /* see WORK_MAX */
};

/** Give each distinct signature a number; returns how many. `table` has `mask` + 1 slots. */
static int32_t number_signatures(const uint64_t *signature, int32_t n, int32_t *number, int32_t *table,
                                 uint32_t mask)
{
    int32_t n_distinct = 0;
    for (uint32_t i = 0; i <= mask; i++) {
        table[i] = -1;
    }
    for (int32_t i = 0; i < n; i++) {
        uint32_t slot = (uint32_t)signature[i] & mask;
        while (table[slot] >= 0 && signature[table[slot]] != signature[i]) {
            slot = (slot + 1) & mask;
        }
        if (table[slot] < 0) {
            table[slot] = i;
            number[i] = n_distinct++;
        } else {
            number[i] = number[table[slot]];
        }
    }
    return n_distinct;
}

static uint64_t rank_signature(const struct run *run, int32_t rank, const uint64_t *const *groups)
{
    const struct cs_trace *trace = run->trace;
    uint64_t hash = cs_hash_mix(CS_HASH_SEED, (uint64_t)run->class_of[rank]);
    for (int32_t c = 0; c < trace->n_chans; c++) {
        int32_t peer = trace->chans[c].peer[rank];
        int32_t source = trace->chans[c].source[rank];
        hash = cs_hash_mix(hash, peer >= 0 ? (uint64_t)run->class_of[peer] : UINT64_MAX);
        hash = cs_hash_mix(hash, source >= 0 ? (uint64_t)run->class_of[source] : UINT64_MAX);
    }
    for (int32_t c = 0; c < trace->n_comms; c++) {
        int32_t group = trace->comms[c].group_of_rank[rank];
        hash = cs_hash_mix(hash, group >= 0 ? groups[c][group] : UINT64_MAX);
    }
    return hash;
}

/** Refine the classes, beginning with programs, until nothing tells the ranks of a class apart. */
static void find_classes(struct run *run)
{
    const struct cs_trace *trace = run->trace;
    const int32_t n = trace->n_ranks;
    uint32_t mask = 1;
    while ((int64_t)mask + 1 < 2 * (int64_t)n) {
        mask = 2 * mask + 1;
    }
    uint64_t *signature = cs_calloc((size_t)n, sizeof *signature);
    int32_t *table = cs_calloc((size_t)mask + 1, sizeof *table);
    uint64_t **groups = cs_calloc((size_t)trace->n_comms, sizeof *groups);
    for (int32_t c = 0; c < trace->n_comms; c++) {
        groups[c] = cs_calloc((size_t)trace->comms[c].n_groups, sizeof **groups);
    }
    for (int32_t rank = 0; rank < n; rank++) {
        signature[rank] = (uint64_t)trace->program_of_rank[rank];
    }
    int32_t before = 0;
    run->n_classes = number_signatures(signature, n, run->class_of, table, mask);
    for (int32_t round = 0; run->n_classes != before; round++) {
        before = run->n_classes;
        if (round == ROUNDS_MAX) {
            for (int32_t rank = 0; rank < n; rank++) {
                run->class_of[rank] = rank;
            }
            run->n_classes = n;
            break;
        }
        for (int32_t c = 0; c < trace->n_comms; c++) {
            const struct cs_comm *comm = &trace->comms[c];
            for (int32_t g = 0; g < comm->n_groups; g++) {
                groups[c][g] = 0;
                for (int32_t i = comm->group_first[g]; i < comm->group_first[g + 1]; i++) {
                    groups[c][g] += cs_hash_mix(CS_HASH_SEED, (uint64_t)run->class_of[comm->members[i]]);
                }
            }
        }
        for (int32_t rank = 0; rank < n; rank++) {
            signature[rank] = rank_signature(run, rank, (const uint64_t *const *)groups);
        }
        run->n_classes = number_signatures(signature, n, run->class_of, table, mask);
    }
    for (int32_t c = 0; c < trace->n_comms; c++) {
        cs_free(groups[c]);
    }
    cs_free(groups);
    cs_free(table);
    cs_free(signature);
}

/** Only operations that meet others are run: events, messages, collectives. */
static bool is_sync(const struct cs_op *op)
{
    return op->type == CS_OP_RECORD || op->type == CS_OP_WAIT || op->type == CS_OP_SEND ||
           op->type == CS_OP_RECV || op->type == CS_OP_COLLECTIVE;
}

/** Communicators whose groups lie inside one class cannot hold anybody up: members run in lock-step. */
static bool comm_crosses(const struct run *run, int32_t c)
{
    const struct cs_comm *comm = &run->trace->comms[c];
    for (int32_t g = 0; g < comm->n_groups; g++) {
        for (int32_t i = comm->group_first[g] + 1; i < comm->group_first[g + 1]; i++) {
            if (run->class_of[comm->members[i]] != run->class_of[comm->members[i - 1]]) {
                return true;
            }
        }
    }
    return false;
}

static void list_syncs(struct run *run)
{
    const struct cs_trace *trace = run->trace;
    int32_t n = 0;
    int32_t cap = 0;
    bool *crosses = cs_calloc((size_t)trace->n_comms, sizeof *crosses);
    for (int32_t c = 0; c < trace->n_comms; c++) {
        crosses[c] = comm_crosses(run, c);
    }
    run->first_sync = cs_calloc((size_t)trace->n_blocks + 1, sizeof *run->first_sync);
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        run->first_sync[b] = n;
        for (int32_t i = 0; i < trace->blocks[b].n_ops; i++) {
            const struct cs_op *op = &trace->blocks[b].ops[i];
            if (is_sync(op) && (op->type != CS_OP_COLLECTIVE || crosses[op->comm])) {
                CS_GROW(run->syncs, n, cap);
                run->syncs[n++] = i;
            }
        }
        run->first_sync[b + 1] = n;
    }
    cs_free(crosses);
}

/** Has every class with a member in the group reached its k-th collective? */
static bool group_complete(struct run *run, int32_t class, int32_t c, int32_t k)
{
    const struct cs_comm *comm = &run->trace->comms[c];
    int32_t group = comm->group_of_rank[run->rank_of[class]];
    for (int32_t i = comm->group_first[group]; i < comm->group_first[group + 1]; i++) {
        run->work++;
        if (run->entered[(int64_t)run->class_of[comm->members[i]] * run->trace->n_comms + c] < k) {
            return false;
        }
    }
    return true;
}

/** Run one operation of a class; false = it has to wait. */
static bool step(struct run *run, int32_t class, int32_t stream, const struct cs_op *op)
{
    const struct cs_trace *trace = run->trace;
    int64_t at_stream = (int64_t) class * trace->n_streams + stream;
    int64_t at_event = (int64_t) class * trace->n_events + op->comm;
    int64_t at_chan = (int64_t) class * trace->n_chans + op->comm;
    int64_t at_comm = (int64_t) class * trace->n_comms + op->comm;
    switch (op->type) {
    case CS_OP_RECORD:
        run->recorded[at_event]++;
        return true;
    case CS_OP_WAIT: {
        int32_t *waited = &run->waited[at_stream * trace->n_events + op->comm];
        if (run->recorded[at_event] <= *waited) {
            return false;
        }
        ++*waited;
        return true;
    }
    case CS_OP_SEND:
        run->sent[at_chan]++;
        return true;
    case CS_OP_RECV: {
        int32_t source = trace->chans[op->comm].source[run->rank_of[class]];
        if (run->sent[(int64_t)run->class_of[source] * trace->n_chans + op->comm] <= run->received[at_chan]) {
            return false;
        }
        run->received[at_chan]++;
        return true;
    }
    default:
        if (!run->arrived[at_stream]) {
            run->entered[at_comm]++;
            run->arrived[at_stream] = true;
        }
        if (!group_complete(run, class, op->comm, run->entered[at_comm])) {
            return false;
        }
        run->arrived[at_stream] = false;
        return true;
    }
}

/** Run a stream of a class as far as it goes; true = it moved. */
static bool advance(struct run *run, int32_t class, int32_t stream)
{
    const struct cs_trace *trace = run->trace;
    const struct cs_program *program = &trace->programs[trace->program_of_rank[run->rank_of[class]]];
    int64_t index = (int64_t) class * trace->n_streams + stream;
    bool moved = false;
    run->work++;
    for (; run->call[index] < program->n_calls && run->work < WORK_MAX;
         run->call[index]++, run->at[index] = 0) {
        int32_t b = program->calls[run->call[index]].block;
        int32_t n = run->first_sync[b + 1] - run->first_sync[b];
        run->work++;
        for (; run->at[index] < n; run->at[index]++) {
            run->work++;
            const struct cs_op *op = &trace->blocks[b].ops[run->syncs[run->first_sync[b] + run->at[index]]];
            if (op->stream != stream) {
                continue;
            }
            if (!step(run, class, stream, op)) {
                return moved;
            }
            moved = true;
        }
    }
    return moved;
}

/** A member of the group that has not come to its k-th collective of the communicator, for ever. */
static int32_t missing_member(const struct run *run, int32_t class, int32_t c)
{
    const struct cs_comm *comm = &run->trace->comms[c];
    int32_t k = run->entered[(int64_t) class * run->trace->n_comms + c];
    int32_t group = comm->group_of_rank[run->rank_of[class]];
    for (int32_t i = comm->group_first[group]; i < comm->group_first[group + 1]; i++) {
        int32_t other = run->class_of[comm->members[i]];
        if (run->entered[(int64_t)other * run->trace->n_comms + c] < k) {
            return comm->members[i];
        }
    }
    return run->rank_of[class];
}

/** Say what a stream of a class waits for; false = it has finished. */
static bool add_stuck(const struct run *run, int32_t class, int32_t stream, struct cs_strbuf *out)
{
    const struct cs_trace *trace = run->trace;
    int32_t rank = run->rank_of[class];
    const struct cs_program *program = &trace->programs[trace->program_of_rank[rank]];
    int64_t index = (int64_t) class * trace->n_streams + stream;
    int32_t call = run->call[index];
    if (call >= program->n_calls) {
        return false;
    }
    const struct cs_block *block = &trace->blocks[program->calls[call].block];
    int32_t i = run->syncs[run->first_sync[program->calls[call].block] + run->at[index]];
    const struct cs_op *op = &block->ops[i];
    cs_strbuf_addf(out, "%srank %d (%s), stream '%s', waits for ", out->len ? "; " : "", (int)rank,
                   program->role, trace->stream_names[stream]);
    if (op->type == CS_OP_WAIT) {
        cs_strbuf_addf(out, "event '%s'", trace->event_names[op->comm]);
    } else if (op->type == CS_OP_RECV) {
        cs_strbuf_addf(out, "rank %d to send on '%s'", (int)trace->chans[op->comm].source[rank],
                       trace->chans[op->comm].name);
    } else {
        cs_strbuf_addf(out, "rank %d to come to a collective of '%s'",
                       (int)missing_member(run, class, op->comm), trace->comms[op->comm].name);
    }
    cs_strbuf_addf(out, " in operation %d of block '%s' (call %d)", (int)i, block->name, (int)call);
    return true;
}

#define STUCK_MAX 4 /* in the message; one of each kind of rank */

static cs_status report_stuck(const struct run *run, struct cs_err *err)
{
    struct cs_strbuf text = {0};
    int32_t n = 0;
    for (int32_t class = 0; class < run->n_classes && n <= STUCK_MAX; class ++) {
        for (int32_t stream = 0; stream < run->trace->n_streams && n <= STUCK_MAX; stream++) {
            size_t before = text.len;
            n += add_stuck(run, class, stream, &text);
            if (n > STUCK_MAX) {
                text.text[before] = '\0';
            }
        }
    }
    cs_status st = n == 0 ? CS_OK
                          : cs_err_set(err, CS_E_DEADLOCK, CS_NOLOC, "the ranks cannot finish: %s%s",
                                       text.text, n > STUCK_MAX ? "; ..." : "");
    cs_strbuf_release(&text);
    return st;
}

static void run_alloc(struct run *run)
{
    const struct cs_trace *trace = run->trace;
    size_t n = (size_t)run->n_classes;
    size_t streams = n * (size_t)trace->n_streams;
    run->rank_of = cs_calloc(n, sizeof *run->rank_of);
    for (int32_t rank = trace->n_ranks - 1; rank >= 0; rank--) {
        run->rank_of[run->class_of[rank]] = rank;
    }
    run->call = cs_calloc(streams, sizeof *run->call);
    run->at = cs_calloc(streams, sizeof *run->at);
    run->arrived = cs_calloc(streams, sizeof *run->arrived);
    run->waited = cs_calloc(streams * (size_t)trace->n_events, sizeof *run->waited);
    run->recorded = cs_calloc(n * (size_t)trace->n_events, sizeof *run->recorded);
    run->sent = cs_calloc(n * (size_t)trace->n_chans, sizeof *run->sent);
    run->received = cs_calloc(n * (size_t)trace->n_chans, sizeof *run->received);
    run->entered = cs_calloc(n * (size_t)trace->n_comms, sizeof *run->entered);
}

static void run_release(struct run *run)
{
    cs_free(run->class_of);
    cs_free(run->rank_of);
    cs_free(run->first_sync);
    cs_free(run->syncs);
    cs_free(run->call);
    cs_free(run->at);
    cs_free(run->arrived);
    cs_free(run->waited);
    cs_free(run->recorded);
    cs_free(run->sent);
    cs_free(run->received);
    cs_free(run->entered);
}

cs_status cs__check_progress(const struct cs_trace *trace, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct run run = {.trace = trace};
    run.class_of = cs_calloc((size_t)trace->n_ranks, sizeof *run.class_of);
    find_classes(&run);
    if ((int64_t)run.n_classes * trace->n_streams * (trace->n_events + 1) > COUNTERS_MAX) {
        st = cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                        "%d kinds of rank with %d streams and %d events are too many", (int)run.n_classes,
                        (int)trace->n_streams, (int)trace->n_events);
        goto out;
    }
    run_alloc(&run);
    list_syncs(&run);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t class = 0; class < run.n_classes; class ++) {
            for (int32_t stream = 0; stream < trace->n_streams; stream++) {
                moved |= advance(&run, class, stream);
            }
        }
        if (run.work >= WORK_MAX) {
            st = cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                            "whether the ranks can finish takes more than %lld steps to find out: too many "
                            "calls of large blocks, or ranks that wait for each other one by one",
                            (long long)WORK_MAX);
            goto out;
        }
    }
    st = report_stuck(&run, err);
out:
    run_release(&run);
    return st;
}
