/* A rank as one process: the streams of a program in one order.
 *
 * The order is the compute stream's. Sends of other streams begin as soon as their events allow, beside what
 * follows; the next send of that stream first waits for the one before, as a stream does. Anything else of
 * other streams is put off until the compute stream, or the end, waits for it: so the process never waits for
 * another rank before the compute stream would. */
#include "smpi_priv.h"

#include "check_priv.h"

#include <string.h>

/** A stream on its way through the program. */
struct lane {
    int32_t call, at;         /* its next operation */
    int32_t *waited;          /* per event */
    const struct cs_op *send; /* under way, NULL = none */
    uint8_t *after_send;      /* events that are recorded when it has ended */
    int32_t n_after, cap_after;
};

struct run {
    const struct cs_trace *trace;
    const struct cs_program *program;
    struct cs__serial *serial;
    struct lane *lanes;
    int32_t *recorded; /* per event */
    int32_t *recorder; /* per event: its stream, -1 = none */
};

/** Move a lane to its next operation, past other lanes' and past memory; NULL = it has none left. */
static const struct cs_op *peek(const struct run *run, int32_t stream)
{
    struct lane *lane = &run->lanes[stream];
    for (; lane->call < run->program->n_calls; lane->call++, lane->at = 0) {
        const struct cs_block *block = &run->trace->blocks[run->program->calls[lane->call].block];
        for (; lane->at < block->n_ops; lane->at++) {
            const struct cs_op *op = &block->ops[lane->at];
            if (op->stream == stream && op->type != CS_OP_ALLOC && op->type != CS_OP_FREE) {
                return op;
            }
        }
    }
    return NULL;
}

static void emit(struct run *run, const struct cs_op *op, bool ends_send)
{
    struct cs__serial *serial = run->serial;
    CS_GROW(serial->steps, serial->n, serial->cap);
    serial->steps[serial->n++] = (struct cs__serial_step){op, ends_send};
}

/** Wait until the lane's send has ended; what was to be recorded then is recorded. */
static void end_send(struct run *run, int32_t stream)
{
    struct lane *lane = &run->lanes[stream];
    if (lane->send != NULL) {
        emit(run, lane->send, true);
        lane->send = NULL;
    }
    for (int32_t i = 0; i < lane->n_after; i++) {
        run->recorded[lane->after_send[i]]++;
    }
    lane->n_after = 0;
}

/** Pass an event, or begin a send; false = it is neither, or must wait. */
static bool pass(struct run *run, int32_t stream, const struct cs_op *op)
{
    struct lane *lane = &run->lanes[stream];
    switch (op->type) {
    case CS_OP_RECORD:
        if (lane->send != NULL) {
            CS_GROW(lane->after_send, lane->n_after, lane->cap_after);
            lane->after_send[lane->n_after++] = op->comm;
        } else {
            run->recorded[op->comm]++;
        }
        break;
    case CS_OP_WAIT:
        if (run->recorded[op->comm] <= lane->waited[op->comm]) {
            return false;
        }
        lane->waited[op->comm]++;
        break;
    case CS_OP_SEND:
        end_send(run, stream);
        emit(run, op, false);
        lane->send = op;
        break;
    default:
        return false;
    }
    lane->at++;
    return true;
}

/** Let the other streams do what they can do beside. */
static void pass_all(struct run *run)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t stream = CS_STREAM_COMPUTE + 1; stream < run->trace->n_streams; stream++) {
            const struct cs_op *op = peek(run, stream);
            while (op != NULL && pass(run, stream, op)) {
                moved = true;
                op = peek(run, stream);
            }
        }
    }
}

static bool is_recorded_after_send(const struct lane *lane, uint8_t event)
{
    return lane->n_after > 0 && memchr(lane->after_send, event, (size_t)lane->n_after) != NULL;
}

/** Do one thing that brings the stream's next operation closer; false = nothing can. */
static bool push(struct run *run, int32_t stream)
{
    /* From a wait to the stream that records what it waits for; a path through all streams is a cycle. */
    for (int32_t i = 0; i <= run->trace->n_streams; i++) {
        const struct cs_op *op = peek(run, stream);
        if (op == NULL) {
            return false;
        }
        if (op->type != CS_OP_WAIT) {
            emit(run, op, false);
            run->lanes[stream].at++;
            pass_all(run);
            return true;
        }
        stream = run->recorder[op->comm];
        if (stream < 0) {
            return false;
        }
        if (is_recorded_after_send(&run->lanes[stream], op->comm)) {
            end_send(run, stream);
            pass_all(run);
            return true;
        }
        if (stream == CS_STREAM_COMPUTE) { /* it is here itself, waiting, or at its end */
            return false;
        }
    }
    return false;
}

static cs_status stuck(const struct run *run, int32_t stream, struct cs_err *err)
{
    const struct cs_op *op = peek(run, stream);
    return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                      "program '%s' cannot be put in one order: stream '%s' waits for event '%s' for ever",
                      run->program->role, run->trace->stream_names[stream],
                      op != NULL ? run->trace->event_names[op->comm] : "");
}

/** The compute stream from beginning to end, and what it waits for. */
static cs_status run_compute(struct run *run, struct cs_err *err)
{
    const struct cs_op *op = peek(run, CS_STREAM_COMPUTE);
    for (; op != NULL; op = peek(run, CS_STREAM_COMPUTE)) {
        if (pass(run, CS_STREAM_COMPUTE, op)) {
            end_send(run, CS_STREAM_COMPUTE); /* on this stream a send blocks */
            pass_all(run);
        } else if (op->type == CS_OP_WAIT) {
            if (!push(run, CS_STREAM_COMPUTE)) {
                return stuck(run, CS_STREAM_COMPUTE, err);
            }
        } else {
            emit(run, op, false);
            run->lanes[CS_STREAM_COMPUTE].at++;
        }
    }
    return CS_OK;
}

/** What is left of the other streams, furthest behind first. */
static cs_status run_rest(struct run *run, struct cs_err *err)
{
    for (;;) {
        int32_t best = -1;
        for (int32_t stream = CS_STREAM_COMPUTE + 1; stream < run->trace->n_streams; stream++) {
            const struct lane *lane = &run->lanes[stream];
            if (peek(run, stream) != NULL &&
                (best < 0 || lane->call < run->lanes[best].call ||
                 (lane->call == run->lanes[best].call && lane->at < run->lanes[best].at))) {
                best = stream;
            }
        }
        if (best < 0) {
            break;
        }
        if (!push(run, best)) {
            return stuck(run, best, err);
        }
    }
    for (int32_t stream = 0; stream < run->trace->n_streams; stream++) {
        end_send(run, stream);
    }
    return CS_OK;
}

static cs_status find_recorders(struct run *run, struct cs_err *err)
{
    const struct cs_trace *trace = run->trace;
    memset(run->recorder, -1, sizeof *run->recorder * (size_t)trace->n_events);
    for (int32_t call = 0; call < run->program->n_calls; call++) {
        const struct cs_block *block = &trace->blocks[run->program->calls[call].block];
        for (int32_t i = 0; i < block->n_ops; i++) {
            const struct cs_op *op = &block->ops[i];
            if (op->type != CS_OP_RECORD || run->recorder[op->comm] == op->stream) {
                continue;
            }
            if (run->recorder[op->comm] >= 0) {
                return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                                  "program '%s' records event '%s' from two streams, which cannot be put in "
                                  "one order",
                                  run->program->role, trace->event_names[op->comm]);
            }
            run->recorder[op->comm] = op->stream;
        }
    }
    return CS_OK;
}

cs_status cs__serial_build(struct cs__serial *serial, const struct cs_trace *trace, int32_t program,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    struct run run = {.trace = trace, .program = &trace->programs[program], .serial = serial};
    run.lanes = cs_calloc((size_t)trace->n_streams, sizeof *run.lanes);
    run.recorded = cs_calloc((size_t)trace->n_events, sizeof *run.recorded);
    run.recorder = cs_calloc((size_t)trace->n_events, sizeof *run.recorder);
    for (int32_t i = 0; i < trace->n_streams; i++) {
        run.lanes[i].waited = cs_calloc((size_t)trace->n_events, sizeof *run.lanes[i].waited);
    }
    CS_TRY(find_recorders(&run, err));
    pass_all(&run);
    CS_TRY(run_compute(&run, err));
    CS_TRY(run_rest(&run, err));
out:
    for (int32_t i = 0; i < trace->n_streams; i++) {
        cs_free(run.lanes[i].waited);
        cs_free(run.lanes[i].after_send);
    }
    cs_free(run.lanes);
    cs_free(run.recorded);
    cs_free(run.recorder);
    return st;
}

void cs__serial_release(struct cs__serial *serial)
{
    cs_free(serial->steps);
    *serial = (struct cs__serial){0};
}

cs_status cs__serial_check(const struct cs__serial *serials, const struct cs_trace *trace, struct cs_err *err)
{
    static const char *stream = "the process";
    struct cs_arena arena = {0};
    struct cs_trace one = *trace; /* the same ranks, each program a block of what meets others */
    one.n_blocks = trace->n_programs;
    one.blocks = CS_ARENA_NEW(&arena, struct cs_block, one.n_blocks);
    one.programs = CS_ARENA_NEW(&arena, struct cs_program, one.n_programs);
    one.n_streams = 1;
    one.stream_names = &stream;
    one.n_events = 0;
    for (int32_t p = 0; p < one.n_programs; p++) {
        const struct cs__serial *serial = &serials[p];
        struct cs_block *block = &one.blocks[p];
        block->name = "all streams";
        block->ops = CS_ARENA_NEW(&arena, struct cs_op, serial->n);
        for (int64_t i = 0; i < serial->n; i++) {
            const struct cs_op *op = serial->steps[i].op;
            if (!serial->steps[i].ends_send && op->type != CS_OP_COMPUTE) {
                block->ops[block->n_ops] = *op;
                block->ops[block->n_ops++].stream = CS_STREAM_COMPUTE;
            }
        }
        one.programs[p] = (struct cs_program){.role = trace->programs[p].role, .n_calls = 1};
        one.programs[p].calls = CS_ARENA_NEW(&arena, struct cs_call, 1);
        one.programs[p].calls[0] = (struct cs_call){.block = p, .micro_batch = -1};
    }
    cs_status st = cs__check_progress(&one, err);
    if (st != CS_OK) {
        cs_err_prefix(err, "with one process a rank");
        if (st == CS_E_DEADLOCK) {
            st = err->code = CS_E_INPUT; /* this form cannot say it; the trace itself may be well */
        }
    }
    cs_arena_release(&arena);
    return st;
}
