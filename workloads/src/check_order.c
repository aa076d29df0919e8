/* Completeness of a trace: order. Sequences are compared by a hash that concatenates, so that a program of
 * thousands of calls costs a few operations a call; only a difference is looked at operation by operation. */
#include "check_priv.h"

#include "cs/base/text.h"

/* Polynomial hash modulo 2^61 - 1. Sequences are made by programs, not by adversaries: the fixed base is
 * fine, and equal hashes of different sequences have odds of length / 2^61. */
#define HASH_PRIME ((UINT64_C(1) << 61) - 1)
#define HASH_BASE UINT64_C(0x1b873593cc9e2d51)

static uint64_t mul_mod(uint64_t a, uint64_t b)
{
    /* 61 x 61 bits by halves: 2^61 = 1 modulo the prime. */
    uint64_t a_high = a >> 31;
    uint64_t a_low = a & 0x7fffffff;
    uint64_t b_high = b >> 31;
    uint64_t b_low = b & 0x7fffffff;
    uint64_t middle = a_low * b_high + a_high * b_low;
    uint64_t sum = a_high * b_high * 2 + (middle >> 30) + ((middle & 0x3fffffff) << 31) + a_low * b_low;
    sum = (sum & HASH_PRIME) + (sum >> 61);
    return sum >= HASH_PRIME ? sum - HASH_PRIME : sum;
}

/** A sequence's hash, length, and base to the power of its length. */
struct sequence {
    uint64_t hash;
    uint64_t power;
    int64_t len;
};

static void append(struct sequence *to, const struct sequence *with)
{
    uint64_t sum = mul_mod(to->hash, with->power) + with->hash;
    to->hash = sum >= HASH_PRIME ? sum - HASH_PRIME : sum;
    to->power = mul_mod(to->power, with->power);
    to->len += with->len;
}

/* Tracks: collectives of each communicator, then sends and receives of each channel. */
static int32_t n_tracks(const struct cs_trace *trace)
{
    return trace->n_comms + 2 * trace->n_chans;
}

static int32_t track_of(const struct cs_trace *trace, const struct cs_op *op)
{
    switch (op->type) {
    case CS_OP_COLLECTIVE:
        return op->comm;
    case CS_OP_SEND:
        return trace->n_comms + 2 * op->comm;
    case CS_OP_RECV:
        return trace->n_comms + 2 * op->comm + 1;
    default:
        return -1;
    }
}

/** What a block does on a track. */
struct part {
    int32_t track;
    int32_t stream;
    struct sequence sequence;
};

struct order {
    const struct cs_trace *trace;
    int32_t *first_part; /* per block, n_blocks + 1 */
    struct part *parts;
    int32_t n_parts, cap_parts;
    struct sequence *sequences; /* [program][track] */
    int16_t *streams;           /* [program][track], -1 = unused */
};

static struct part *find_part(struct order *order, int32_t from, int32_t track)
{
    for (int32_t i = from; i < order->n_parts; i++) {
        if (order->parts[i].track == track) {
            return &order->parts[i];
        }
    }
    return NULL;
}

static cs_status read_block(struct order *order, int32_t b, struct cs_err *err)
{
    const struct cs_block *block = &order->trace->blocks[b];
    int32_t from = order->first_part[b] = order->n_parts;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        int32_t track = track_of(order->trace, op);
        if (track < 0) {
            continue;
        }
        struct part *part = find_part(order, from, track);
        if (part == NULL) {
            CS_GROW(order->parts, order->n_parts, order->cap_parts);
            part = &order->parts[order->n_parts++];
            *part = (struct part){.track = track, .stream = op->stream, .sequence = {.power = 1}};
        }
        if (part->stream != op->stream) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                              "block '%s', operation %d: a communicator or channel is used from two streams",
                              block->name, (int)i);
        }
        uint64_t word = cs_hash_mix(op->type == CS_OP_COLLECTIVE ? op->coll : 0, (uint64_t)op->bytes);
        struct sequence one = {.hash = word % HASH_PRIME, .power = HASH_BASE % HASH_PRIME, .len = 1};
        append(&part->sequence, &one);
    }
    order->first_part[b + 1] = order->n_parts;
    return CS_OK;
}

static cs_status read_program(struct order *order, int32_t p, struct cs_err *err)
{
    const struct cs_program *program = &order->trace->programs[p];
    int32_t tracks = n_tracks(order->trace);
    struct sequence *sequences = order->sequences + (int64_t)p * tracks;
    int16_t *streams = order->streams + (int64_t)p * tracks;
    for (int32_t t = 0; t < tracks; t++) {
        sequences[t].power = 1;
        streams[t] = -1;
    }
    for (int32_t call = 0; call < program->n_calls; call++) {
        int32_t b = program->calls[call].block;
        for (int32_t i = order->first_part[b]; i < order->first_part[b + 1]; i++) {
            const struct part *part = &order->parts[i];
            if (streams[part->track] >= 0 && streams[part->track] != part->stream) {
                return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                                  "program '%s', call %d: a communicator or channel is used from two streams",
                                  program->role, (int)call);
            }
            streams[part->track] = (int16_t)part->stream;
            append(&sequences[part->track], &part->sequence);
        }
    }
    return CS_OK;
}

/* Operations compared before the message leaves out where sequences part. */
#define REPORT_MAX (INT64_C(1) << 24)

/** Walks the operations of a program that are on one track. */
struct walk {
    const struct cs_trace *trace;
    const struct cs_program *program;
    int32_t call, op;
    int64_t n_seen;
};

static const struct cs_op *walk_next(struct walk *walk, int32_t track)
{
    for (; walk->call < walk->program->n_calls; walk->call++, walk->op = 0) {
        const struct cs_block *block = &walk->trace->blocks[walk->program->calls[walk->call].block];
        while (walk->op < block->n_ops) {
            if (++walk->n_seen > REPORT_MAX) {
                return NULL;
            }
            const struct cs_op *op = &block->ops[walk->op++];
            if (track_of(walk->trace, op) == track) {
                return op;
            }
        }
    }
    return NULL;
}

/** Say where two ranks' sequences part. */
static cs_status report(const struct cs_trace *trace, const char *name, int32_t rank_a, int32_t track_a,
                        int32_t rank_b, int32_t track_b, struct cs_err *err)
{
    struct walk a = {.trace = trace, .program = &trace->programs[trace->program_of_rank[rank_a]]};
    struct walk b = {.trace = trace, .program = &trace->programs[trace->program_of_rank[rank_b]]};
    for (int64_t k = 1;; k++) {
        const struct cs_op *op_a = walk_next(&a, track_a);
        const struct cs_op *op_b = walk_next(&b, track_b);
        if (a.n_seen > REPORT_MAX || b.n_seen > REPORT_MAX) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                              "'%s': ranks %d and %d do not have the same operations in the same order; they "
                              "part behind number %lld",
                              name, (int)rank_a, (int)rank_b, (long long)k - 1);
        }
        if (op_a == NULL && op_b == NULL) {
            break;
        }
        if (op_a != NULL && op_b != NULL && op_a->bytes == op_b->bytes &&
            (op_a->type != CS_OP_COLLECTIVE || op_a->coll == op_b->coll)) {
            continue;
        }
        if (op_a == NULL || op_b == NULL) {
            return cs_err_set(
                err, CS_E_INPUT, CS_NOLOC,
                "'%s': rank %d has an operation number %lld (call %d, operation %d) that rank %d "
                "does not have",
                name, (int)(op_a ? rank_a : rank_b), (long long)k, (int)(op_a ? a.call : b.call),
                (int)(op_a ? a.op : b.op) - 1, (int)(op_a ? rank_b : rank_a));
        }
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "'%s': operation number %lld has %lld bytes on rank %d (call %d, operation %d) and "
                          "%lld on rank %d, or another kind",
                          name, (long long)k, (long long)op_a->bytes, (int)rank_a, (int)a.call, (int)a.op - 1,
                          (long long)op_b->bytes, (int)rank_b);
    }
    return CS_OK;
}

static const struct sequence *sequence_of(const struct order *order, int32_t rank, int32_t track)
{
    return &order->sequences[(int64_t)order->trace->program_of_rank[rank] * n_tracks(order->trace) + track];
}

static cs_status compare(const struct order *order, const char *name, int32_t rank_a, int32_t track_a,
                         int32_t rank_b, int32_t track_b, struct cs_err *err)
{
    const struct sequence *a = sequence_of(order, rank_a, track_a);
    const struct sequence *b = sequence_of(order, rank_b, track_b);
    if (a == b || (a->hash == b->hash && a->len == b->len)) {
        return CS_OK;
    }
    return report(order->trace, name, rank_a, track_a, rank_b, track_b, err);
}

static cs_status nobody(const char *name, int32_t rank, const char *what, struct cs_err *err)
{
    return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "'%s': rank %d %s, but nobody is there", name, (int)rank,
                      what);
}

static cs_status compare_rank(const struct order *order, int32_t rank, struct cs_err *err)
{
    const struct cs_trace *trace = order->trace;
    cs_status st = CS_OK;
    for (int32_t c = 0; c < trace->n_comms; c++) {
        const struct cs_comm *comm = &trace->comms[c];
        int32_t group = comm->group_of_rank[rank];
        if (group >= 0) {
            CS_TRY(compare(order, comm->name, comm->members[comm->group_first[group]], c, rank, c, err));
        } else if (sequence_of(order, rank, c)->len > 0) {
            st = nobody(comm->name, rank, "enters a collective", err);
            goto out;
        }
    }
    for (int32_t c = 0; c < trace->n_chans; c++) {
        const struct cs_chan *chan = &trace->chans[c];
        int32_t send = trace->n_comms + 2 * c;
        if (chan->peer[rank] >= 0) {
            CS_TRY(compare(order, chan->name, rank, send, chan->peer[rank], send + 1, err));
        } else if (sequence_of(order, rank, send)->len > 0) {
            st = nobody(chan->name, rank, "sends", err);
            goto out;
        }
        if (chan->source[rank] < 0 && sequence_of(order, rank, send + 1)->len > 0) {
            st = nobody(chan->name, rank, "receives", err);
            goto out;
        }
    }
out:
    return st;
}

cs_status cs__check_order(const struct cs_trace *trace, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct order order = {.trace = trace};
    size_t n_sequences = (size_t)trace->n_programs * (size_t)n_tracks(trace);
    order.first_part = cs_calloc((size_t)trace->n_blocks + 1, sizeof *order.first_part);
    order.sequences = cs_calloc(n_sequences, sizeof *order.sequences);
    order.streams = cs_calloc(n_sequences, sizeof *order.streams);
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        CS_TRY(read_block(&order, b, err));
    }
    for (int32_t p = 0; p < trace->n_programs; p++) {
        CS_TRY(read_program(&order, p, err));
    }
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        CS_TRY(compare_rank(&order, rank, err));
    }
out:
    cs_free(order.first_part);
    cs_free(order.parts);
    cs_free(order.sequences);
    cs_free(order.streams);
    return st;
}
