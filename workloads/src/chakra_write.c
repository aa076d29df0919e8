/* Chakra execution traces: writing. */
#include "chakra_priv.h"
#include "check_priv.h"

#include <inttypes.h>
#include <math.h>

/* Whole microseconds of computing beyond this are no training step. */
#define DURATION_MAX_US 1e15

struct writer {
    const struct cs_trace *trace;
    cs_op_time_fn *op_time;
    const void *context;
    int32_t *first_group;  /* per communicator: number of its first process group, from 1 (0 is all ranks) */
    int32_t first_alone;   /* number of rank 0's group of one, then of the other ranks'; 0 = not needed */
    double *busy_us;       /* per stream: computing so far, exact */
    double *told_us;       /* per stream: the same in whole microseconds */
    struct cs_strbuf node; /* the message being made */
    struct cs_strbuf attr; /* an attribute of it */
    struct cs_strbuf length;   /* the varint in front of a message */
    struct cs__op_graph graph; /* of one program */
};

static void write_message(struct writer *w, FILE *stream)
{
    cs__wire_clear(&w->length);
    cs__wire_put_varint(&w->length, w->node.len);
    fwrite(w->length.text, 1, w->length.len, stream);
    fwrite(w->node.text, 1, w->node.len, stream);
    cs__wire_clear(&w->node);
}

static void put_attr(struct writer *w, const char *name, uint32_t field, int64_t value)
{
    cs__wire_clear(&w->attr);
    cs__wire_put_text(&w->attr, CS__ATTR_NAME, name);
    cs__wire_put_number(&w->attr, field, (uint64_t)value);
    cs__wire_put_bytes(&w->node, CS__NODE_ATTR, w->attr.text, w->attr.len);
}

static void write_metadata(struct writer *w, FILE *stream)
{
    cs__wire_put_text(&w->node, CS__META_VERSION, "0.0.4");
    cs__wire_clear(&w->attr);
    cs__wire_put_text(&w->attr, CS__ATTR_NAME, "schema");
    cs__wire_put_text(&w->attr, CS__ATTR_STRING, "clustersim-chakra.0.0.4");
    cs__wire_put_bytes(&w->node, CS__META_ATTR, w->attr.text, w->attr.len);
    write_message(w, stream);
}

static int64_t whole(double amount)
{
    return amount < 9e18 ? (int64_t)llround(amount) : INT64_MAX;
}

static void put_amounts(struct writer *w, double flop, double bytes)
{
    put_attr(w, "num_ops", CS__ATTR_INT64, whole(flop));
    put_attr(w, "tensor_size", CS__ATTR_UINT64, whole(bytes));
}

/** Computing: duration for replay, operations and bytes for ASTRA-sim's roofline. */
static cs_status put_compute(struct writer *w, int32_t rank, const struct cs_op *op, struct cs_err *err)
{
    const struct cs_op_cost *cost = &w->trace->costs[op->cost];
    double time_s = w->op_time(w->context, rank, cost);
    double *busy_us = &w->busy_us[op->stream];
    double *told_us = &w->told_us[op->stream];
    if (!(time_s >= 0) || !(*busy_us + 1e6 * time_s <= DURATION_MAX_US)) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "operation '%s' takes %g s on rank %d",
                          w->trace->labels[op->label], time_s, (int)rank);
    }
    *busy_us += 1e6 * time_s;
    double duration_us = round(*busy_us) - *told_us;
    *told_us += duration_us;
    cs__wire_put_number(&w->node, CS__NODE_DURATION, (uint64_t)duration_us);
    put_amounts(w, cost->flop, cost->bytes);
    cs__wire_clear(&w->attr);
    cs__wire_put_text(&w->attr, CS__ATTR_NAME, "duration_s");
    cs__wire_put_real(&w->attr, CS__ATTR_DOUBLE, time_s);
    cs__wire_put_bytes(&w->node, CS__NODE_ATTR, w->attr.text, w->attr.len);
    return CS_OK;
}

static void put_group(struct writer *w, int32_t group)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%d", (int)group);
    cs__wire_clear(&w->attr);
    cs__wire_put_text(&w->attr, CS__ATTR_NAME, "pg_name");
    cs__wire_put_text(&w->attr, CS__ATTR_STRING, name);
    cs__wire_put_bytes(&w->node, CS__NODE_ATTR, w->attr.text, w->attr.len);
}

/** Is an operation computing beside the compute stream: copying between host and device (swapped
 * activations)? */
static bool is_host_copy(const struct cs_op *op)
{
    return op->type == CS_OP_COMPUTE && op->stream != CS_STREAM_COMPUTE;
}

/** A copy between host and device is written as a broadcast of the rank to itself, which takes its duration.
 * In ASTRA-sim that is the one form which keeps no computing waiting and runs to the end: its statistics stop
 * at host computing and at loads and stores, which besides take their time from its memory's file. */
static void put_host_copy(struct writer *w, int32_t rank)
{
    put_attr(w, "is_host_copy", CS__ATTR_BOOL, true);
    put_attr(w, "comm_type", CS__ATTR_INT64, CS__ET_BROADCAST);
    put_attr(w, "comm_size", CS__ATTR_INT64, 0);
    put_group(w, w->first_alone + rank);
}

static void put_collective(struct writer *w, int32_t group, int32_t n_members, const struct cs_op *op)
{
    static const enum cs__et_coll types[CS_N_COLLS] = {
        [CS_COLL_ALL_REDUCE] = CS__ET_ALL_REDUCE,         [CS_COLL_ALL_GATHER] = CS__ET_ALL_GATHER,
        [CS_COLL_REDUCE_SCATTER] = CS__ET_REDUCE_SCATTER, [CS_COLL_ALL_TO_ALL] = CS__ET_ALL_TO_ALL,
        [CS_COLL_BROADCAST] = CS__ET_BROADCAST,
    };
    /* A gather is counted by what one rank gives (ASTRA-sim), ours by the whole. */
    int64_t bytes =
        op->coll == CS_COLL_ALL_GATHER ? op->bytes / n_members + (op->bytes % n_members != 0) : op->bytes;
    put_attr(w, "comm_type", CS__ATTR_INT64, types[op->coll]);
    put_attr(w, "comm_size", CS__ATTR_INT64, bytes);
    put_group(w, w->first_group[op->comm] + group);
}

static void put_message(struct writer *w, int32_t from, int32_t to, const struct cs_op *op)
{
    put_attr(w, "comm_src", CS__ATTR_INT32, from);
    put_attr(w, "comm_dst", CS__ATTR_INT32, to);
    put_attr(w, "comm_tag", CS__ATTR_INT32, op->comm);
    put_attr(w, "comm_size", CS__ATTR_INT64, op->bytes);
}

/** Everything is a data dependency: some readers look at no others. */
static void put_deps(struct writer *w, const struct cs__graph_node *node)
{
    cs__wire_clear(&w->attr);
    for (int64_t i = node[0].first_dep; i < node[1].first_dep; i++) {
        cs__wire_put_varint(&w->attr, (uint64_t)w->graph.deps[i]);
    }
    if (w->attr.len > 0) {
        cs__wire_put_bytes(&w->node, CS__NODE_DATA_DEPS, w->attr.text, w->attr.len);
    }
}

static cs_status put_node(struct writer *w, int32_t rank, int64_t index, struct cs_err *err)
{
    const struct cs__graph_node *node = &w->graph.nodes[index];
    const struct cs_trace *trace = w->trace;
    const struct cs_op *op = node->op;
    enum cs__et_type type = op->type == CS_OP_SEND   ? CS__ET_SEND
                            : op->type == CS_OP_RECV ? CS__ET_RECV
                            : is_host_copy(op)       ? CS__ET_COLL
                                                     : CS__ET_COMP;
    int32_t group = -1;
    int32_t n_members = 1;
    if (op->type == CS_OP_COLLECTIVE) {
        const struct cs_comm *comm = &trace->comms[op->comm];
        group = comm->group_of_rank[rank];
        n_members = group >= 0 ? comm->group_first[group + 1] - comm->group_first[group] : 1;
        type = n_members > 1 ? CS__ET_COLL : CS__ET_COMP; /* alone: computing that takes no time */
    }
    cs__wire_put_number(&w->node, CS__NODE_ID, (uint64_t)index);
    cs__wire_put_text(&w->node, CS__NODE_NAME, trace->labels[op->label]);
    cs__wire_put_number(&w->node, CS__NODE_TYPE, (uint64_t)type);
    put_deps(w, node);
    put_attr(w, "is_cpu_op", CS__ATTR_BOOL, false);
    if (is_host_copy(op)) {
        put_host_copy(w, rank);
    }
    if (op->type == CS_OP_COMPUTE) {
        return put_compute(w, rank, op, err);
    }
    if (type == CS__ET_COLL) {
        put_collective(w, group, n_members, op);
    } else if (type == CS__ET_SEND) {
        put_message(w, rank, trace->chans[op->comm].peer[rank], op);
    } else if (type == CS__ET_RECV) {
        put_message(w, trace->chans[op->comm].source[rank], rank, op);
    } else {
        put_amounts(w, 0, 0);
    }
    return CS_OK;
}

static cs_status write_rank(struct writer *w, struct cs__folder *folder, int32_t rank, struct cs_err *err)
{
    cs_status st = CS_OK;
    char name[32];
    (void)snprintf(name, sizeof name, "trace.%d.et", (int)rank);
    CS_TRY(cs__folder_file(folder, name, err));
    write_metadata(w, folder->stream);
    for (int32_t i = 0; i < w->trace->n_streams; i++) {
        w->busy_us[i] = w->told_us[i] = 0;
    }
    for (int64_t i = 0; i < w->graph.n_nodes; i++) {
        CS_TRY(put_node(w, rank, i, err));
        write_message(w, folder->stream);
    }
    CS_TRY(cs__folder_close(folder, err));
out:
    return st;
}

/** {"1": [0, 1], "2": [2, 3], ...} */
static void write_groups(const struct writer *w, FILE *stream)
{
    const char *before = "{";
    for (int32_t rank = 0; w->first_alone > 0 && rank < w->trace->n_ranks; rank++) {
        fprintf(stream, "%s\n\"%d\": [%d]", before, (int)(w->first_alone + rank), (int)rank);
        before = ",";
    }
    for (int32_t c = 0; c < w->trace->n_comms; c++) {
        const struct cs_comm *comm = &w->trace->comms[c];
        for (int32_t g = 0; g < comm->n_groups; g++) {
            fprintf(stream, "%s\n\"%d\": [", before, (int)(w->first_group[c] + g));
            before = ",";
            for (int32_t i = comm->group_first[g]; i < comm->group_first[g + 1]; i++) {
                fprintf(stream, "%s%d", i > comm->group_first[g] ? ", " : "", (int)comm->members[i]);
            }
            fputs("]", stream);
        }
    }
    fprintf(stream, "%s\n}\n", before[0] == '{' ? "{" : "");
}

static void writer_init(struct writer *w, const struct cs_trace *trace)
{
    int32_t group = 1;
    w->first_group = cs_calloc((size_t)trace->n_comms, sizeof *w->first_group);
    w->busy_us = cs_calloc((size_t)trace->n_streams, sizeof *w->busy_us);
    w->told_us = cs_calloc((size_t)trace->n_streams, sizeof *w->told_us);
    for (int32_t c = 0; c < trace->n_comms; c++) {
        w->first_group[c] = group;
        group += trace->comms[c].n_groups;
    }
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        for (int32_t i = 0; i < trace->blocks[b].n_ops; i++) {
            w->first_alone = is_host_copy(&trace->blocks[b].ops[i]) ? group : w->first_alone;
        }
    }
}

static void writer_release(struct writer *w)
{
    cs_free(w->first_group);
    cs_free(w->busy_us);
    cs_free(w->told_us);
    cs_strbuf_release(&w->node);
    cs_strbuf_release(&w->attr);
    cs_strbuf_release(&w->length);
    cs__op_graph_release(&w->graph);
}

cs_status cs_trace_write_chakra(const struct cs_trace *trace, cs_op_time_fn *op_time, const void *context,
                                const char *dir, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__folder folder = {0};
    struct writer w = {.trace = trace, .op_time = op_time, .context = context};
    CS_TRY(cs_trace_check(trace, err));
    CS_TRY(cs__names_check(trace, true, err));
    writer_init(&w, trace);
    CS_TRY(cs__folder_open(&folder, dir, err));
    CS_TRY(cs__folder_file(&folder, "trace.json", err));
    write_groups(&w, folder.stream);
    CS_TRY(cs__folder_close(&folder, err));
    for (int32_t p = 0; p < trace->n_programs; p++) {
        CS_TRY(cs__op_graph_build(&w.graph, trace, p, err));
        for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
            if (trace->program_of_rank[rank] == p) {
                CS_TRY(write_rank(&w, &folder, rank, err));
            }
        }
    }
    CS_TRY(cs__folder_commit(&folder, err));
out:
    writer_release(&w);
    cs__folder_release(&folder);
    return st;
}
