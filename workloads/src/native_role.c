/* Our own trace format: reading a role: its blocks, then its calls. */
#include "native_read_priv.h"

#include "cs/base/text.h"

#include <string.h>

/* Bytes that a role allocates and frees, all micro-batches together. */
#define MOVED_MAX_BYTES (INT64_C(1) << 60)

static cs_status add_moved(const struct cs__native *native, int64_t bytes, int64_t *sum, struct cs_err *err)
{
    if (bytes > MOVED_MAX_BYTES - *sum) {
        return cs_err_set(err, CS_E_LIMIT, cs__lines_at(&native->lines),
                          "more memory is allocated and freed than the simulator counts (%lld bytes)",
                          (long long)MOVED_MAX_BYTES);
    }
    *sum += bytes;
    return CS_OK;
}

static cs_status bad_index(const struct cs__native *native, const char *what, int64_t index, int32_t n,
                           struct cs_err *err)
{
    return cs__native_bad(native, err, "there is no %s %lld: the binding has %d", what, (long long)index,
                          (int)n);
}

/** Every index of an operation is one that the binding has. */
static cs_status check_op(const struct cs__native *native, const struct cs_op *op, struct cs_err *err)
{
    const struct cs_trace *trace = native->trace;
    if (op->stream >= trace->n_streams) {
        return bad_index(native, "stream", op->stream, trace->n_streams, err);
    }
    if (op->label >= trace->n_labels) {
        return bad_index(native, "label", op->label, trace->n_labels, err);
    }
    if (op->cost >= trace->n_costs || (op->type == CS_OP_COMPUTE && op->cost < 0)) {
        return bad_index(native, "cost", op->cost, trace->n_costs, err);
    }
    switch ((enum cs_op_type)op->type) {
    case CS_OP_COLLECTIVE:
        return op->comm < trace->n_comms ? CS_OK
                                         : bad_index(native, "communicator", op->comm, trace->n_comms, err);
    case CS_OP_SEND:
    case CS_OP_RECV:
        return op->comm < trace->n_chans ? CS_OK
                                         : bad_index(native, "channel", op->comm, trace->n_chans, err);
    case CS_OP_RECORD:
    case CS_OP_WAIT:
        return op->comm < trace->n_events ? CS_OK
                                          : bad_index(native, "event", op->comm, trace->n_events, err);
    case CS_OP_ALLOC:
    case CS_OP_FREE:
        return op->stream == CS_STREAM_COMPUTE
                   ? CS_OK
                   : cs__native_bad(native, err, "memory belongs to stream 0, the compute stream");
    case CS_OP_COMPUTE:
    case CS_N_OP_TYPES:
        break;
    }
    return CS_OK;
}

static cs_status read_op(struct cs__native *native, int32_t type, char **cursor, struct cs_err *err)
{
    struct cs_op op = {0};
    cs_status st = CS_OK;
    if (native->block < 0) {
        return cs__native_bad(native, err, "an operation must be in a block, and blocks come before calls");
    }
    cs__figures_reset(&cs__op_forms[type].figures, &op);
    CS_TRY(cs__figures_read(&native->lines, cursor, &cs__op_forms[type].figures, &op, err));
    op.type = (uint8_t)type;
    CS_TRY(check_op(native, &op, err));
    if (type == CS_OP_ALLOC || type == CS_OP_FREE) {
        CS_TRY(add_moved(native, op.bytes, &native->moved[native->block], err));
    }
    CS_GROW(native->ops, native->n_ops, native->cap_ops);
    native->ops[native->n_ops++] = op;
out:
    return st;
}

/** The block being read is complete. */
static void end_block(struct cs__native *native)
{
    if (native->block >= 0) {
        struct cs_block *block = &native->trace->blocks[native->block];
        block->n_ops = native->n_ops;
        block->ops =
            cs_arena_memdup(&native->trace->arena, native->ops, sizeof *native->ops * (size_t)native->n_ops);
        native->defined[native->block] = true;
        native->block = -1;
    }
}

static cs_status read_number(struct cs__native *native, char **cursor, int64_t min, int64_t max,
                             const char *what, int32_t *number, struct cs_err *err)
{
    int64_t value = 0;
    const char *word = cs__word(cursor);
    cs_status st =
        cs_int_parse(word != NULL ? word : "", min, max, what, cs__lines_at(&native->lines), &value, err);
    if (st == CS_OK) {
        *number = (int32_t)value;
    }
    return st;
}

static cs_status read_block(struct cs__native *native, char **cursor, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t index = -1;
    const char *name = NULL;
    if (native->n_calls > 0) {
        return cs__native_bad(native, err, "blocks come before calls");
    }
    end_block(native);
    CS_TRY(read_number(native, cursor, 0, native->trace->n_blocks - 1, "block", &index, err));
    if (native->defined[index]) {
        st = cs__native_bad(native, err, "block %d is there already", (int)index);
        goto out;
    }
    CS_TRY(cs__quoted(&native->lines, cursor, "name", &native->trace->arena, &name, err));
    native->trace->blocks[index].name = name;
    native->block = index;
    native->n_ops = 0;
out:
    return st;
}

static cs_status read_call(struct cs__native *native, char **cursor, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_call call = {0};
    end_block(native);
    CS_TRY(read_number(native, cursor, 0, native->trace->n_blocks - 1, "block", &call.block, err));
    CS_TRY(read_number(native, cursor, -1, INT32_MAX, "micro-batch", &call.micro_batch, err));
    if (!native->defined[call.block]) {
        st = cs__native_bad(native, err, "block %d is not there yet", (int)call.block);
        goto out;
    }
    CS_TRY(add_moved(native, native->moved[call.block], &native->role_moved, err));
    CS_GROW(native->calls, native->n_calls, native->cap_calls);
    native->calls[native->n_calls++] = call;
out:
    return st;
}

static cs_status read_role(struct cs__native *native, char **cursor, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_program *program = &native->trace->programs[native->role];
    if (program->role != NULL) {
        return cs__native_bad(native, err, "the role line is there already");
    }
    CS_TRY(cs__quoted(&native->lines, cursor, "name", &native->trace->arena, &program->role, err));
    CS_TRY(cs__figures_read(&native->lines, cursor, &cs__program_figures, program, err));
out:
    return st;
}

static void end_role(struct cs__native *native)
{
    struct cs_program *program = &native->trace->programs[native->role++];
    end_block(native);
    program->n_calls = native->n_calls;
    program->calls = cs_arena_memdup(&native->trace->arena, native->calls,
                                     sizeof *native->calls * (size_t)native->n_calls);
    native->n_calls = 0;
    native->role_moved = 0;
}

enum { ROLE = CS_N_OP_TYPES, BLOCK, CALL, END };

cs_status cs__native_role(struct cs__native *native, struct cs_err *err)
{
    const char *words[END + 2] = {[ROLE] = "role", [BLOCK] = "block", [CALL] = "call", [END] = "end"};
    for (int32_t i = 0; i < CS_N_OP_TYPES; i++) {
        words[i] = cs__op_forms[i].word;
    }
    cs_status st = CS_OK;
    native->block = -1;
    for (;;) {
        char *cursor = cs__lines_next(&native->lines);
        const char *word = cursor != NULL ? cs__word(&cursor) : NULL;
        if (word == NULL) {
            return cs__native_bad(native, err, "the file ends before role %d does: 'end' is missing",
                                  (int)native->role);
        }
        int32_t kind = cs_text_index(word, words);
        if (kind < 0) {
            return cs__native_unknown(native, word, words, err);
        }
        if (kind != ROLE && native->trace->programs[native->role].role == NULL) {
            return cs__native_bad(native, err, "the role line must come first");
        }
        if (kind < CS_N_OP_TYPES) {
            CS_TRY(read_op(native, kind, &cursor, err));
        } else if (kind == ROLE) {
            CS_TRY(read_role(native, &cursor, err));
        } else if (kind == BLOCK) {
            CS_TRY(read_block(native, &cursor, err));
        } else if (kind == CALL) {
            CS_TRY(read_call(native, &cursor, err));
        }
        CS_TRY(cs__no_more(&native->lines, &cursor, err));
        if (kind == END) {
            end_role(native);
            break;
        }
    }
out:
    return st;
}
