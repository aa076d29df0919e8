/* Completeness of a trace: form. Order and progress are in files of their own. */
#include "check_priv.h"

#include <math.h>

static cs_status bad(struct cs_err *err, const char *block, int32_t op, const char *what, int64_t value)
{
    return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "block '%s', operation %d: %s (%lld)", block, (int)op, what,
                      (long long)value);
}

static cs_status check_op(const struct cs_trace *trace, const char *block, int32_t i, const struct cs_op *op,
                          struct cs_err *err)
{
    if (op->stream >= trace->n_streams) {
        return bad(err, block, i, "no such stream", op->stream);
    }
    if (op->label < 0 || op->label >= trace->n_labels) {
        return bad(err, block, i, "no such label", op->label);
    }
    if (op->bytes < 0) {
        return bad(err, block, i, "negative size", op->bytes);
    }
    switch ((enum cs_op_type)op->type) {
    case CS_OP_COMPUTE:
        if (op->cost < 0 || op->cost >= trace->n_costs) {
            return bad(err, block, i, "no such cost", op->cost);
        }
        return CS_OK;
    case CS_OP_COLLECTIVE:
        if (op->comm >= trace->n_comms || op->coll >= CS_N_COLLS) {
            return bad(err, block, i, "no such communicator or collective", op->comm);
        }
        return CS_OK;
    case CS_OP_SEND:
    case CS_OP_RECV:
        return op->comm < trace->n_chans ? CS_OK : bad(err, block, i, "no such channel", op->comm);
    case CS_OP_ALLOC:
    case CS_OP_FREE:
        if (op->mem >= CS_N_MEMS || op->stream != CS_STREAM_COMPUTE) {
            return bad(err, block, i, "no such memory, or not on the compute stream", op->mem);
        }
        return CS_OK;
    case CS_OP_RECORD:
    case CS_OP_WAIT:
        return op->comm < trace->n_events ? CS_OK : bad(err, block, i, "no such event", op->comm);
    case CS_N_OP_TYPES:
        break;
    }
    return bad(err, block, i, "unknown type of operation", op->type);
}

static cs_status check_comm(const struct cs_trace *trace, const struct cs_comm *comm, struct cs_err *err)
{
    int32_t n_members = 0;
    if (comm->stream < 0 || comm->stream >= trace->n_streams || comm->n_groups < 0 ||
        comm->group_first[0] != 0) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "communicator '%s': bad lane or groups", comm->name);
    }
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        int32_t group = comm->group_of_rank[rank];
        if (group < -1 || group >= comm->n_groups) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "communicator '%s': rank %d is in group %d of %d",
                              comm->name, (int)rank, (int)group, (int)comm->n_groups);
        }
        n_members += group >= 0;
    }
    for (int32_t g = 0; g < comm->n_groups; g++) {
        if (comm->group_first[g + 1] < comm->group_first[g] || comm->group_first[g + 1] > n_members) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "communicator '%s': group %d has a bad extent",
                              comm->name, (int)g);
        }
        for (int32_t i = comm->group_first[g]; i < comm->group_first[g + 1]; i++) {
            int32_t rank = comm->members[i];
            if (rank < 0 || rank >= trace->n_ranks || comm->group_of_rank[rank] != g) {
                return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                                  "communicator '%s': member %d of group %d does not belong there",
                                  comm->name, (int)rank, (int)g);
            }
        }
    }
    /* As many places as members, each place's rank points back here: so each rank has exactly one place
     * unless one has two and another none. */
    int32_t n_places = comm->n_groups > 0 ? comm->group_first[comm->n_groups] : 0;
    bool twice = n_places != n_members;
    uint8_t *seen = cs_calloc((size_t)trace->n_ranks, 1);
    for (int32_t i = 0; i < n_places && !twice; i++) {
        twice = seen[comm->members[i]]++ > 0;
    }
    cs_free(seen);
    return twice ? cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                              "communicator '%s': a rank is listed twice or not at all", comm->name)
                 : CS_OK;
}

static cs_status check_chan(const struct cs_trace *trace, const struct cs_chan *chan, struct cs_err *err)
{
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        int32_t peer = chan->peer[rank];
        int32_t source = chan->source[rank];
        bool good = peer >= -1 && peer < trace->n_ranks && peer != rank && source >= -1 &&
                    source < trace->n_ranks && (peer < 0 || chan->source[peer] == rank) &&
                    (source < 0 || chan->peer[source] == rank);
        if (!good) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "channel '%s': rank %d has a bad peer or source",
                              chan->name, (int)rank);
        }
    }
    if (chan->stream < 0 || chan->stream >= trace->n_streams) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "channel '%s': bad lane", chan->name);
    }
    return CS_OK;
}

/** What one pass through a block leaves allocated, and how far each category sinks on the way. */
struct balance {
    bool known;
    int64_t net[CS_N_MEMS];
    int64_t lowest[CS_N_MEMS];
};

static void block_balance(const struct cs_block *block, struct balance *balance)
{
    balance->known = true;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_ALLOC || op->type == CS_OP_FREE) {
            balance->net[op->mem] += op->type == CS_OP_ALLOC ? op->bytes : -op->bytes;
            if (balance->net[op->mem] < balance->lowest[op->mem]) {
                balance->lowest[op->mem] = balance->net[op->mem];
            }
        }
    }
}

/** Calls name blocks; nothing is freed that is not there; only the model state is left. */
static cs_status check_program(const struct cs_trace *trace, const struct cs_program *program,
                               struct balance *balances, struct cs_err *err)
{
    int64_t now[CS_N_MEMS] = {0};
    for (int32_t call = 0; call < program->n_calls; call++) {
        int32_t b = program->calls[call].block;
        if (b < 0 || b >= trace->n_blocks) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "program '%s', call %d: no such block (%d)",
                              program->role, (int)call, (int)b);
        }
        if (!balances[b].known) {
            block_balance(&trace->blocks[b], &balances[b]);
        }
        for (int32_t m = 0; m < CS_N_MEMS; m++) {
            if (now[m] + balances[b].lowest[m] < 0) {
                return cs_err_set(
                    err, CS_E_INPUT, CS_NOLOC,
                    "program '%s', call %d (block '%s'): %s memory is freed that is not allocated",
                    program->role, (int)call, trace->blocks[b].name, cs_mem_names[m]);
            }
            now[m] += balances[b].net[m];
        }
    }
    double state = (double)(now[CS_MEM_WEIGHTS] + now[CS_MEM_GRADIENTS] + now[CS_MEM_OPTIMIZER]);
    if (now[CS_MEM_ACTIVATIONS] != 0 || now[CS_MEM_BUFFERS] != 0 ||
        fabs(state - program->state_bytes) > 0.5) {
        return cs_err_set(
            err, CS_E_INPUT, CS_NOLOC,
            "program '%s' ends with %lld bytes of activations, %lld of buffers and %.0f of model "
            "state, expected 0, 0 and %.0f",
            program->role, (long long)now[CS_MEM_ACTIVATIONS], (long long)now[CS_MEM_BUFFERS], state,
            program->state_bytes);
    }
    return CS_OK;
}

cs_status cs__check_form(const struct cs_trace *trace, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct balance *balances = cs_calloc((size_t)trace->n_blocks, sizeof *balances);
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        for (int32_t i = 0; i < trace->blocks[b].n_ops; i++) {
            CS_TRY(check_op(trace, trace->blocks[b].name, i, &trace->blocks[b].ops[i], err));
        }
    }
    for (int32_t i = 0; i < trace->n_comms; i++) {
        CS_TRY(check_comm(trace, &trace->comms[i], err));
    }
    for (int32_t i = 0; i < trace->n_chans; i++) {
        CS_TRY(check_chan(trace, &trace->chans[i], err));
    }
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        if (trace->program_of_rank[rank] < 0 || trace->program_of_rank[rank] >= trace->n_programs) {
            st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "rank %d has no program", (int)rank);
            goto out;
        }
    }
    for (int32_t i = 0; i < trace->n_programs; i++) {
        CS_TRY(check_program(trace, &trace->programs[i], balances, err));
    }
out:
    cs_free(balances);
    return st;
}

cs_status cs_trace_check(const struct cs_trace *trace, struct cs_err *err)
{
    cs_status st;
    CS_TRY(cs__check_form(trace, err));
    CS_TRY(cs__check_order(trace, err));
    CS_TRY(cs__check_progress(trace, err));
out:
    return st;
}
