/* SMPI time-independent traces: writing. A line is RANK ACTION ARGUMENT...; the actions are those of SimGrid
 * 3.32, src/smpi/internals/smpi_replay.cpp. */
#include "check_priv.h"
#include "smpi_priv.h"

#include "cs/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* SMPI counts elements in an int. MPI_BYTE is the type of a trace whose init has no argument; larger messages
 * are counted in MPI_DOUBLE, whose number is 0. */
#define ELEMENTS_MAX INT32_MAX
#define DOUBLE_BYTES 8

/** The messages of one collective of one group. */
struct plan {
    int32_t comm, group;
    enum cs_coll coll;
    int64_t bytes;
    struct cs_coll_messages messages;
    int32_t **first; /* per phase and position + 1: where its messages begin in `by_member` */
    int32_t *
        *by_member; /* per phase: messages by member; each is there twice, by its source and its target */
};

struct writer {
    const struct cs_trace *trace;
    const struct cs_smpi_options *options;
    struct cs__serial *serials;
    struct cs_arena arena; /* plans */
    struct plan *plans;
    int32_t n_plans, cap_plans;
    int32_t *slots; /* open addressing over plans, -1 = free */
    int32_t n_slots;
    int32_t *position; /* per communicator and rank: place in the group's member list */
    bool *beside;      /* per communicator: some rank runs its collectives beside the compute stream */
    FILE *stream;
    int32_t rank;
};

/** Messages of a phase by member, so that a rank finds its own. */
static void index_phase(struct writer *w, struct plan *plan, int32_t phase, int32_t n_members)
{
    const struct cs_coll_round *round = &plan->messages.phases[phase];
    int32_t *first = CS_ARENA_NEW(&w->arena, int32_t, n_members + 2);
    int32_t *list = CS_ARENA_NEW(&w->arena, int32_t, 2 * (int64_t)round->n_messages);
    for (int32_t i = 0; i < round->n_messages; i++) {
        first[round->messages[i].src + 2]++;
        first[round->messages[i].dst + 2]++;
    }
    for (int32_t m = 0; m < n_members; m++) {
        first[m + 2] += first[m + 1];
    }
    for (int32_t i = 0; i < round->n_messages; i++) {
        list[first[round->messages[i].src + 1]++] = i;
        list[first[round->messages[i].dst + 1]++] = i;
    }
    plan->first[phase] = first;
    plan->by_member[phase] = list;
}

static bool is_sound(const struct cs_coll_messages *messages, int32_t n_members)
{
    for (int32_t p = 0; p < messages->n_phases; p++) {
        const struct cs_coll_round *round = &messages->phases[p];
        for (int32_t i = 0; i < round->n_messages; i++) {
            const struct cs_coll_message *m = &round->messages[i];
            if (m->src < 0 || m->src >= n_members || m->dst < 0 || m->dst >= n_members || m->src == m->dst ||
                !(m->bytes >= 0)) {
                return false;
            }
        }
    }
    return true;
}

static uint32_t plan_slot(const struct writer *w, int32_t comm, int32_t group, const struct cs_op *op)
{
    uint64_t hash = cs_hash_mix(cs_hash_mix(CS_HASH_SEED, (uint64_t)comm), (uint64_t)group);
    hash = cs_hash_mix(cs_hash_mix(hash, op->coll), (uint64_t)op->bytes);
    uint32_t slot = (uint32_t)(hash % (uint32_t)w->n_slots);
    for (; w->slots[slot] >= 0; slot = (slot + 1) % (uint32_t)w->n_slots) {
        const struct plan *plan = &w->plans[w->slots[slot]];
        if (plan->comm == comm && plan->group == group && plan->coll == op->coll &&
            plan->bytes == op->bytes) {
            break;
        }
    }
    return slot;
}

static void grow_slots(struct writer *w)
{
    w->n_slots = w->n_slots > 0 ? 2 * w->n_slots : 64;
    w->slots = cs_reallocarray(w->slots, (size_t)w->n_slots, sizeof *w->slots);
    memset(w->slots, -1, sizeof *w->slots * (size_t)w->n_slots);
    for (int32_t i = 0; i < w->n_plans; i++) {
        const struct plan *plan = &w->plans[i];
        struct cs_op op = {.coll = (uint8_t)plan->coll, .bytes = plan->bytes};
        w->slots[plan_slot(w, plan->comm, plan->group, &op)] = i;
    }
}

/** The messages of a collective of the rank's group; `index` among plans. */
static cs_status find_plan(struct writer *w, const struct cs_op *op, int32_t group, int32_t *index,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_comm *comm = &w->trace->comms[op->comm];
    const int32_t *members = comm->members + comm->group_first[group];
    int32_t n_members = comm->group_first[group + 1] - comm->group_first[group];
    if (w->n_plans * 2 >= w->n_slots) {
        grow_slots(w);
    }
    uint32_t slot = plan_slot(w, op->comm, group, op);
    if (w->slots[slot] < 0) {
        struct plan plan = {op->comm, group, (enum cs_coll)op->coll, op->bytes, {0}, NULL, NULL};
        CS_TRY(w->options->coll_messages(w->options->coll_messages_context, plan.coll, members, n_members,
                                         (double)op->bytes, &w->arena, &plan.messages, err));
        if (!is_sound(&plan.messages, n_members)) {
            st = cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                            "the algorithm of a collective of '%s' sends outside "
                            "the group",
                            comm->name);
            goto out;
        }
        plan.first = CS_ARENA_NEW(&w->arena, int32_t *, plan.messages.n_phases);
        plan.by_member = CS_ARENA_NEW(&w->arena, int32_t *, plan.messages.n_phases);
        for (int32_t p = 0; p < plan.messages.n_phases; p++) {
            index_phase(w, &plan, p, n_members);
        }
        CS_GROW(w->plans, w->n_plans, w->cap_plans);
        w->plans[w->n_plans] = plan;
        w->slots[slot] = w->n_plans++;
    }
    *index = w->slots[slot];
out:
    return st;
}

/** isend or irecv. */
static cs_status post(struct writer *w, const char *action, int32_t peer, int32_t tag, int64_t bytes,
                      struct cs_err *err)
{
    if (bytes <= ELEMENTS_MAX) {
        fprintf(w->stream, "%d %s %d %d %" PRId64 "\n", (int)w->rank, action, (int)peer, (int)tag, bytes);
        return CS_OK;
    }
    int64_t count = bytes / DOUBLE_BYTES + (bytes % DOUBLE_BYTES != 0);
    if (count > ELEMENTS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                          "a message of %" PRId64 " bytes from or to rank %d is larger than SMPI counts",
                          bytes, (int)w->rank);
    }
    fprintf(w->stream, "%d %s %d %d %" PRId64 " 0\n", (int)w->rank, action, (int)peer, (int)tag, count);
    return CS_OK;
}

static void wait_for(struct writer *w, int32_t src, int32_t dst, int32_t tag)
{
    fprintf(w->stream, "%d wait %d %d %d\n", (int)w->rank, (int)src, (int)dst, (int)tag);
}

/** A message to or from a peer, in parts that SMPI counts: post them, or wait for them. */
static cs_status write_parts(struct writer *w, int32_t peer, int32_t tag, double bytes, bool sends, bool ends,
                             struct cs_err *err)
{
    cs_status st = CS_OK;
    const int64_t most = (int64_t)ELEMENTS_MAX * DOUBLE_BYTES;
    for (int64_t left = bytes < 9e18 ? (int64_t)llround(bytes) : INT64_MAX; left > 0; left -= most) {
        if (ends) {
            wait_for(w, sends ? w->rank : peer, sends ? peer : w->rank, tag);
        } else {
            CS_TRY(post(w, sends ? "isend" : "irecv", peer, tag, left < most ? left : most, err));
        }
    }
out:
    return st;
}

static void write_overhead(struct writer *w)
{
    if (w->options->overhead_s > 0) {
        fprintf(w->stream, "%d sleep %.17g\n", (int)w->rank, w->options->overhead_s);
    }
}

/** What the rank sends and receives in one round. */
static cs_status write_round(struct writer *w, const struct plan *plan, int32_t phase, int32_t self,
                             int32_t tag, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_comm *comm = &w->trace->comms[plan->comm];
    const int32_t *members = comm->members + comm->group_first[plan->group];
    const struct cs_coll_round *round = &plan->messages.phases[phase];
    const int32_t *list = plan->by_member[phase];
    const int32_t *first = plan->first[phase];
    for (int32_t waiting = 0; waiting < 2; waiting++) {
        for (int32_t i = first[self]; i < first[self + 1]; i++) {
            const struct cs_coll_message *m = &round->messages[list[i]];
            bool sends = m->src == self;
            CS_TRY(write_parts(w, members[sends ? m->dst : m->src], tag, m->bytes, sends, waiting, err));
        }
    }
out:
    return st;
}

static cs_status write_collective(struct writer *w, const struct cs_op *op, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t index = -1;
    int32_t group = w->trace->comms[op->comm].group_of_rank[w->rank];
    int32_t self = w->position[(int64_t)op->comm * w->trace->n_ranks + w->rank];
    write_overhead(w);
    CS_TRY(find_plan(w, op, group, &index, err));
    const struct plan *plan = &w->plans[index];
    for (int32_t phase = 0; phase < plan->messages.n_phases; phase++) {
        for (int32_t r = 0; r < plan->messages.phases[phase].n_rounds; r++) {
            CS_TRY(write_round(w, plan, phase, self, w->trace->n_chans + op->comm, err));
        }
    }
out:
    return st;
}

/** What the rank sends to and receives from a member in a collective that runs beside: all of it at once. */
struct exchange {
    double sent_bytes, received_bytes;
};

/** Begin a collective beside what follows, or wait for it. A process that computes cannot begin the next
 * round when a round has ended: so each pair of members exchanges in one message what it does in all rounds.
 * On links that are busy throughout it takes the same time but for the latencies of the rounds; phases over
 * different fabrics overlap that follow each other in truth. The fixed cost is left out: it would hold up the
 * process. */
static cs_status write_beside(struct writer *w, const struct cs_op *op, bool ends, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t index = -1;
    const struct cs_comm *comm = &w->trace->comms[op->comm];
    int32_t group = comm->group_of_rank[w->rank];
    int32_t self = w->position[(int64_t)op->comm * w->trace->n_ranks + w->rank];
    int32_t tag = w->trace->n_chans + op->comm;
    const int32_t *members = comm->members + comm->group_first[group];
    int32_t n_members = comm->group_first[group + 1] - comm->group_first[group];
    struct exchange *with = cs_calloc((size_t)n_members, sizeof *with);
    CS_TRY(find_plan(w, op, group, &index, err));
    const struct plan *plan = &w->plans[index];
    for (int32_t phase = 0; phase < plan->messages.n_phases; phase++) {
        const struct cs_coll_round *round = &plan->messages.phases[phase];
        const int32_t *first = plan->first[phase];
        for (int32_t i = first[self]; i < first[self + 1]; i++) {
            const struct cs_coll_message *m = &round->messages[plan->by_member[phase][i]];
            double bytes = (double)round->n_rounds * m->bytes;
            if (m->src == self) {
                with[m->dst].sent_bytes += bytes;
            } else {
                with[m->src].received_bytes += bytes;
            }
        }
    }
    for (int32_t i = 0; i < n_members; i++) {
        CS_TRY(write_parts(w, members[i], tag, with[i].sent_bytes, true, ends, err));
        CS_TRY(write_parts(w, members[i], tag, with[i].received_bytes, false, ends, err));
    }
out:
    cs_free(with);
    return st;
}

static cs_status write_part_of_collective(struct writer *w, const struct cs__serial_step *step,
                                          struct cs_err *err)
{
    cs_status st = CS_OK;
    if (step->kind != CS__SERIAL_WHOLE) {
        return write_beside(w, step->op, step->kind == CS__SERIAL_END, err);
    }
    if (!w->beside[step->op->comm]) {
        return write_collective(w, step->op, err);
    }
    write_overhead(w); /* other members exchange all at once */
    CS_TRY(write_beside(w, step->op, false, err));
    CS_TRY(write_beside(w, step->op, true, err));
out:
    return st;
}

static cs_status write_compute(struct writer *w, const struct cs_op *op, struct cs_err *err)
{
    double time_s = w->options->op_time(w->options->op_time_context, w->rank, &w->trace->costs[op->cost]);
    double flop = time_s * w->options->host_flop_per_s;
    if (!(time_s >= 0) || !isfinite(flop)) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "operation '%s' takes %g s on rank %d",
                          w->trace->labels[op->label], time_s, (int)w->rank);
    }
    if (flop > 0) {
        fprintf(w->stream, "%d compute %.17g\n", (int)w->rank, flop);
    }
    return CS_OK;
}

static cs_status write_step(struct writer *w, const struct cs__serial_step *step, struct cs_err *err)
{
    const struct cs_op *op = step->op;
    switch (op->type) {
    case CS_OP_COMPUTE:
        return write_compute(w, op, err);
    case CS_OP_COLLECTIVE:
        return write_part_of_collective(w, step, err);
    case CS_OP_SEND: {
        int32_t peer = w->trace->chans[op->comm].peer[w->rank];
        if (step->kind == CS__SERIAL_END) {
            wait_for(w, w->rank, peer, op->comm);
            return CS_OK;
        }
        write_overhead(w);
        return post(w, "isend", peer, op->comm, op->bytes, err);
    }
    default:
        wait_for(w, w->trace->chans[op->comm].source[w->rank], w->rank, op->comm);
        return CS_OK;
    }
}

/** All receives of channels are posted first: a message moves when it is sent, not when it is waited for. */
static cs_status write_rank(struct writer *w, const struct cs__serial *serial, struct cs_err *err)
{
    cs_status st = CS_OK;
    fprintf(w->stream, "%d init\n", (int)w->rank);
    for (int64_t i = 0; i < serial->n; i++) {
        const struct cs_op *op = serial->steps[i].op;
        if (op->type == CS_OP_RECV) {
            CS_TRY(post(w, "irecv", w->trace->chans[op->comm].source[w->rank], op->comm, op->bytes, err));
        }
    }
    for (int64_t i = 0; i < serial->n; i++) {
        CS_TRY(write_step(w, &serial->steps[i], err));
    }
    fprintf(w->stream, "%d finalize\n", (int)w->rank);
out:
    return st;
}

static void find_positions(struct writer *w)
{
    const struct cs_trace *trace = w->trace;
    w->position = cs_calloc((size_t)trace->n_comms * (size_t)trace->n_ranks, sizeof *w->position);
    for (int32_t c = 0; c < trace->n_comms; c++) {
        const struct cs_comm *comm = &trace->comms[c];
        for (int32_t g = 0; g < comm->n_groups; g++) {
            for (int32_t i = comm->group_first[g]; i < comm->group_first[g + 1]; i++) {
                w->position[(int64_t)c * trace->n_ranks + comm->members[i]] = i - comm->group_first[g];
            }
        }
    }
}

static cs_status serialise(struct writer *w, struct cs_err *err)
{
    cs_status st = CS_OK;
    for (int32_t p = 0; p < w->trace->n_programs; p++) {
        const struct cs__serial *serial = &w->serials[p];
        CS_TRY(cs__serial_build(&w->serials[p], w->trace, p, err));
        for (int64_t i = 0; i < serial->n; i++) {
            const struct cs_op *op = serial->steps[i].op;
            if (op->type == CS_OP_COLLECTIVE && serial->steps[i].kind != CS__SERIAL_WHOLE) {
                w->beside[op->comm] = true;
            }
        }
    }
    CS_TRY(cs__serial_check(w->serials, w->trace, err));
out:
    return st;
}

static cs_status write_files(struct writer *w, struct cs__folder *folder, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(cs__folder_file(folder, "trace.txt", err));
    for (int32_t rank = 0; rank < w->trace->n_ranks; rank++) {
        fprintf(folder->stream, "rank-%d.txt\n", (int)rank);
    }
    CS_TRY(cs__folder_close(folder, err));
    for (int32_t rank = 0; rank < w->trace->n_ranks; rank++) {
        char name[32];
        (void)snprintf(name, sizeof name, "rank-%d.txt", (int)rank);
        CS_TRY(cs__folder_file(folder, name, err));
        w->stream = folder->stream;
        w->rank = rank;
        CS_TRY(write_rank(w, &w->serials[w->trace->program_of_rank[rank]], err));
        CS_TRY(cs__folder_close(folder, err));
    }
out:
    return st;
}

cs_status cs_trace_write_smpi(const struct cs_trace *trace, const struct cs_smpi_options *options,
                              const char *dir, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__folder folder = {0};
    struct writer w = {.trace = trace, .options = options};
    if (!(options->host_flop_per_s > 0) || !(options->overhead_s >= 0)) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "a host speed of %g flop/s and an overhead of %g s make no "
                          "SMPI trace",
                          options->host_flop_per_s, options->overhead_s);
    }
    w.serials = cs_calloc((size_t)trace->n_programs, sizeof *w.serials);
    w.beside = cs_calloc((size_t)trace->n_comms + 1, sizeof *w.beside);
    CS_TRY(cs_trace_check(trace, err));
    find_positions(&w);
    CS_TRY(serialise(&w, err));
    CS_TRY(cs__folder_open(&folder, dir, err));
    CS_TRY(write_files(&w, &folder, err));
    CS_TRY(cs__folder_commit(&folder, err));
out:
    for (int32_t p = 0; p < trace->n_programs; p++) {
        cs__serial_release(&w.serials[p]);
    }
    cs_free(w.serials);
    cs_free(w.plans);
    cs_free(w.slots);
    cs_free(w.position);
    cs_free(w.beside);
    cs_arena_release(&w.arena);
    cs__folder_release(&folder);
    return st;
}
