/* A rank as one process: the streams of a program in one order.
 *
 * The order is the compute stream's. Sends and collectives of other streams begin as soon as their events
 * allow, beside what follows, and are waited for where the compute stream, or the end, needs what is recorded
 * behind them. The next send of a stream first waits for the one before, as a stream does; a collective does
 * not, lest the process stop for it: the two share their links and end together when both would have.
 * Computing of other streams (copies between host and device) is put off until it is needed, since a process
 * does one thing. */
#include "smpi_priv.h"

#include "check_priv.h"

#include <string.h>

/** An event that is recorded when so many operations of the stream have ended. */
struct pending {
    int64_t n_ended;
    uint8_t event;
};

/** A stream on its way through the program. */
struct lane {
    int32_t call, at; /* its next operation */
    int32_t *waited;  /* per event */
    /* Begun and not ended, in order: begun[n_ended] is the next to end. */
    const struct cs_op **begun;
    int64_t n_ended, n_begun, cap_begun;
    struct pending *pending; /* in order, from first_pending on */
    int32_t first_pending, n_pending, cap_pending;
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

bool cs_trace_smpi_loses(const struct cs_trace *trace)
{
    bool beside = false;
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        for (int32_t i = 0; i < trace->blocks[b].n_ops; i++) {
            const struct cs_op *op = &trace->blocks[b].ops[i];
            beside |= op->type == CS_OP_COMPUTE && op->stream != CS_STREAM_COMPUTE;
        }
    }
    return beside;
}

static void emit(struct run *run, const struct cs_op *op, enum cs__serial_kind kind)
{
    struct cs__serial *serial = run->serial;
    CS_GROW(serial->steps, serial->n, serial->cap);
    serial->steps[serial->n++] = (struct cs__serial_step){op, kind};
}

/** Wait until so many of the lane's operations have ended; what was to be recorded then is recorded. */
static void end_until(struct run *run, int32_t stream, int64_t n)
{
    struct lane *lane = &run->lanes[stream];
    while (lane->n_ended < n) {
        emit(run, lane->begun[lane->n_ended++], CS__SERIAL_END);
    }
    while (lane->first_pending < lane->n_pending &&
           lane->pending[lane->first_pending].n_ended <= lane->n_ended) {
        run->recorded[lane->pending[lane->first_pending++].event]++;
    }
}

static void end_all(struct run *run, int32_t stream)
{
    end_until(run, stream, run->lanes[stream].n_begun);
}

static void begin(struct run *run, int32_t stream, const struct cs_op *op)
{
    struct lane *lane = &run->lanes[stream];
    if (lane->n_begun > lane->n_ended &&
        (op->type == CS_OP_SEND || lane->begun[lane->n_begun - 1]->type == CS_OP_SEND)) {
        end_all(run, stream);
    }
    emit(run, op, CS__SERIAL_BEGIN);
    CS_GROW(lane->begun, lane->n_begun, lane->cap_begun);
    lane->begun[lane->n_begun++] = op;
}

/** Is a collective of another stream under way? */
static bool others_run(const struct run *run, int32_t stream)
{
    bool any = false;
    for (int32_t i = 0; i < run->trace->n_streams; i++) {
        const struct lane *lane = &run->lanes[i];
        any |= i != stream && lane->n_begun > lane->n_ended &&
               lane->begun[lane->n_begun - 1]->type == CS_OP_COLLECTIVE;
    }
    return any;
}

/** Is a collective put off because somebody waits for the one before alone, so that the two would hold each
 * other up? Scattered gradients are waited for when the bucket after next fills: of these two run together,
 * unless they would hold up gathered weights. */
static bool is_put_off(const struct run *run, int32_t stream, const struct cs_op *op)
{
    const struct lane *lane = &run->lanes[stream];
    const int32_t n = lane->n_pending - lane->first_pending;
    const bool scatters = op->coll == CS_COLL_REDUCE_SCATTER;
    return op->type == CS_OP_COLLECTIVE && n > 0 && (!scatters || n > 1 || others_run(run, stream));
}

/** Pass an event, or begin a send or a collective; false = it is none of them, or must wait. */
static bool pass(struct run *run, int32_t stream, const struct cs_op *op)
{
    struct lane *lane = &run->lanes[stream];
    switch (op->type) {
    case CS_OP_RECORD:
        if (lane->n_begun > lane->n_ended) {
            CS_GROW(lane->pending, lane->n_pending, lane->cap_pending);
            lane->pending[lane->n_pending++] = (struct pending){lane->n_begun, op->comm};
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
    case CS_OP_COLLECTIVE:
        if (stream == CS_STREAM_COMPUTE || is_put_off(run, stream, op)) {
            return false;
        }
        begin(run, stream, op);
        break;
    case CS_OP_SEND:
        begin(run, stream, op);
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

/** How many operations of the lane must end before an event is recorded that was to be recorded behind them;
 * 0 = there is no such event. */
static int64_t ends_before(const struct lane *lane, uint8_t event)
{
    for (int32_t i = lane->first_pending; i < lane->n_pending; i++) {
        if (lane->pending[i].event == event) {
            return lane->pending[i].n_ended;
        }
    }
    return 0;
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
        struct lane *lane = &run->lanes[stream];
        if (is_put_off(run, stream, op)) {
            end_until(run, stream, lane->pending[lane->first_pending].n_ended);
            pass_all(run);
            return true;
        }
        if (op->type != CS_OP_WAIT) {
            emit(run, op, CS__SERIAL_WHOLE);
            run->lanes[stream].at++;
            pass_all(run);
            return true;
        }
        stream = run->recorder[op->comm];
        if (stream < 0) {
            return false;
        }
        int64_t n = ends_before(&run->lanes[stream], op->comm);
        if (n > 0) {
            end_until(run, stream, n);
            pass_all(run);
            return true;
        }
        if (stream == CS_STREAM_COMPUTE) { /* it is here itself, waiting, or at its end */
            return false;
        }
    }
    return false;
}

/** Before the first computing the process waits for a message all the same (a later stage of a pipeline):
 * what is put off on other streams behind what is waited for apart (gathered weights) takes its turn
 * meanwhile. */
static void use_idle_time(struct run *run)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t stream = CS_STREAM_COMPUTE + 1; stream < run->trace->n_streams; stream++) {
            struct lane *lane = &run->lanes[stream];
            const struct cs_op *op = peek(run, stream);
            if (op != NULL && is_put_off(run, stream, op)) {
                end_until(run, stream, lane->pending[lane->first_pending].n_ended);
                pass_all(run);
                moved = true;
            }
        }
    }
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
    bool begun = false;
    for (; op != NULL; op = peek(run, CS_STREAM_COMPUTE)) {
        if (!begun && op->type == CS_OP_RECV) {
            use_idle_time(run);
        }
        begun = begun || op->type == CS_OP_COMPUTE || op->type == CS_OP_RECV;
        if (pass(run, CS_STREAM_COMPUTE, op)) {
            end_all(run, CS_STREAM_COMPUTE); /* on this stream a send blocks */
            pass_all(run);
        } else if (op->type == CS_OP_WAIT) {
            if (!push(run, CS_STREAM_COMPUTE)) {
                return stuck(run, CS_STREAM_COMPUTE, err);
            }
        } else {
            emit(run, op, CS__SERIAL_WHOLE);
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
        end_all(run, stream);
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
        cs_free(run.lanes[i].begun);
        cs_free(run.lanes[i].pending);
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

/** A step as operations of the trace that is checked: what begins runs on its own stream, between two events
 * of that stream. */
static void add_step(struct cs_block *block, const struct cs__serial_step *step)
{
    const struct cs_op *op = step->op;
    const uint8_t began = (uint8_t)(2 * op->stream);
    const uint8_t ended = (uint8_t)(began + 1);
    struct cs_op whole = *op;
    if (op->type == CS_OP_COMPUTE || (op->type == CS_OP_SEND && step->kind == CS__SERIAL_END)) {
        return;
    }
    if (op->type != CS_OP_COLLECTIVE || step->kind == CS__SERIAL_WHOLE) {
        whole.stream = CS_STREAM_COMPUTE;
        block->ops[block->n_ops++] = whole;
    } else if (step->kind == CS__SERIAL_BEGIN) {
        block->ops[block->n_ops++] = (struct cs_op){.type = CS_OP_RECORD, .comm = began};
        block->ops[block->n_ops++] = (struct cs_op){.type = CS_OP_WAIT, .comm = began, .stream = op->stream};
        block->ops[block->n_ops++] = whole;
        block->ops[block->n_ops++] =
            (struct cs_op){.type = CS_OP_RECORD, .comm = ended, .stream = op->stream};
    } else {
        block->ops[block->n_ops++] = (struct cs_op){.type = CS_OP_WAIT, .comm = ended};
    }
}

cs_status cs__serial_check(const struct cs__serial *serials, const struct cs_trace *trace, struct cs_err *err)
{
    struct cs_arena arena = {0};
    struct cs_trace one = *trace; /* the same ranks, each program a block of what meets others */
    one.n_blocks = trace->n_programs;
    one.blocks = CS_ARENA_NEW(&arena, struct cs_block, one.n_blocks);
    one.programs = CS_ARENA_NEW(&arena, struct cs_program, one.n_programs);
    one.n_events = 2 * trace->n_streams; /* streams stay, for what runs beside */
    one.event_names = CS_ARENA_NEW(&arena, const char *, one.n_events);
    for (int32_t i = 0; i < one.n_events; i++) {
        one.event_names[i] = trace->stream_names[i / 2];
    }
    for (int32_t p = 0; p < one.n_programs; p++) {
        const struct cs__serial *serial = &serials[p];
        struct cs_block *block = &one.blocks[p];
        block->name = "all streams";
        block->ops = CS_ARENA_NEW(&arena, struct cs_op, 4 * serial->n);
        for (int64_t i = 0; i < serial->n; i++) {
            add_step(block, &serial->steps[i]);
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
