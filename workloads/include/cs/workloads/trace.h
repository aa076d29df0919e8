/**
 * @file trace.h
 * Traces: what every rank does in one training step, shared by role.
 *
 * A program belongs to a role (same pipeline stage, same kind of position); every rank is bound to one
 * program. A program is a list of calls of blocks: a block is straight-line code (the forward pass of a
 * stage for one micro-batch, say), stored once however many micro-batches call it. Memory is
 * O(roles x operations), never O(ranks x operations).
 *
 * Operations carry the stream that executes them. A stream executes its operations in program order
 * (calls in order, operations of a block in order); streams of one rank run side by side and meet only
 * through events. Groups and peers are symbolic: a communicator is a partition of the ranks, a channel a
 * map from each rank to the one it sends to.
 *
 * Events are counters: RECORD adds one when the stream gets there; the k-th WAIT of a stream on an event
 * passes when the event has been recorded k times. So loops need no new names.
 *
 * Point-to-point: the k-th RECV on a channel matches the k-th SEND of the rank whose peer this is. A send
 * is buffered: it occupies the sender's stream and the links until the data has arrived, and the receiver
 * waits until then; the receive is posted early, so that it never holds back the sender.
 */
#ifndef CS_WORKLOADS_TRACE_H
#define CS_WORKLOADS_TRACE_H

#include "cs/workloads/strategy.h"

enum cs_op_type {
    CS_OP_COMPUTE,
    CS_OP_COLLECTIVE,
    CS_OP_SEND,
    CS_OP_RECV,
    CS_OP_ALLOC,
    CS_OP_FREE,
    CS_OP_RECORD,
    CS_OP_WAIT,
    CS_N_OP_TYPES
};

enum cs_coll {
    CS_COLL_ALL_REDUCE,
    CS_COLL_ALL_GATHER,     /* bytes = the whole gathered result */
    CS_COLL_REDUCE_SCATTER, /* bytes = the whole input of one rank */
    CS_COLL_ALL_TO_ALL,     /* bytes = what one rank holds before, all destinations together */
    CS_COLL_BROADCAST,
    CS_N_COLLS
};
extern const char *const cs_coll_names[]; /* "all-reduce", ...; NULL-terminated */

enum cs_mem {
    CS_MEM_WEIGHTS,
    CS_MEM_GRADIENTS,
    CS_MEM_OPTIMIZER,
    CS_MEM_ACTIVATIONS, /* kept from a forward pass to its backward pass */
    CS_MEM_BUFFERS,     /* communication buffers and temporaries, what recomputation makes again among them */
    CS_N_MEMS
};
extern const char *const cs_mem_names[];

/** Which part of a step an operation belongs to. */
enum cs_phase {
    CS_PHASE_FORWARD,
    CS_PHASE_BACKWARD,
    CS_PHASE_RECOMPUTE,
    CS_PHASE_GRADIENT,
    CS_PHASE_OPTIMIZER
};

#define CS_STREAM_COMPUTE 0

/** One operation. ALLOC and FREE belong to the compute stream. A COLLECTIVE on the compute stream blocks it:
 *  that is how tensor-parallel communication without overlap is written; it is still reported on its
 *  communicator's lane. */
struct cs_op {
    uint8_t type;   /* enum cs_op_type */
    uint8_t stream; /* executing stream, 0 = compute */
    uint8_t comm;   /* COLLECTIVE: communicator; SEND, RECV: channel; RECORD, WAIT: event */
    uint8_t coll;   /* COLLECTIVE: enum cs_coll */
    uint8_t mem;    /* ALLOC, FREE: enum cs_mem */
    uint8_t phase;  /* enum cs_phase */
    int16_t layer;  /* layer it belongs to, -1 = none */
    int32_t label;  /* index in cs_trace.labels: "attention.qkv" */
    int32_t cost;   /* COMPUTE: index in cs_trace.costs */
    int64_t bytes;  /* COLLECTIVE (see enum cs_coll), SEND, RECV, ALLOC, FREE */
};

struct cs_block {
    const char *name;
    int32_t n_ops;
    struct cs_op *ops;
};

struct cs_call {
    int32_t block;       /* index in cs_trace.blocks */
    int32_t micro_batch; /* for reports; -1 = none */
};

struct cs_program {
    const char *role; /* "stage 0 of 4" */
    int32_t n_calls;
    struct cs_call *calls;
    int32_t stage;      /* pipeline stage, for reports */
    double state_bytes; /* weights + gradients + optimizer states held by one rank of this role */
};

/** A communicator: disjoint groups of ranks. Member order is ring order. */
struct cs_comm {
    const char *name;  /* "tp", "dp", ... as reports show it */
    int32_t stream;    /* lane in reports */
    bool spans_stages; /* waiting in it is waiting for a pipeline neighbour (bubble) */
    int32_t n_groups;
    int32_t *group_first;   /* n_groups + 1 offsets into members */
    int32_t *members;       /* ranks, group by group */
    int32_t *group_of_rank; /* -1 = in none */
};

/** A channel: rank r sends to peer[r] (-1 = does not send); no two ranks share a peer. */
struct cs_chan {
    const char *name; /* "pp-forward" */
    int32_t stream;   /* lane in reports */
    int32_t *peer;
    int32_t *source; /* inverse of peer */
};

/** A trace: everything in one arena; opaque to nobody, changed by nobody once built. */
struct cs_trace {
    struct cs_arena arena;
    int32_t n_ranks;
    int32_t n_programs;
    struct cs_program *programs;
    int32_t *program_of_rank;
    int32_t n_blocks;
    struct cs_block *blocks;
    int32_t n_costs;
    struct cs_op_cost *costs;
    int32_t n_labels;
    const char **labels;
    int32_t n_comms;
    struct cs_comm *comms;
    int32_t n_chans;
    struct cs_chan *chans;
    int32_t n_streams;
    const char **stream_names; /* "compute", "tp", "dp", "pp-send", ... */
    int32_t n_events;
    const char **event_names;
    /* What the step is worth; 0 for traces that do not say. */
    double model_flop;          /* of all ranks, without recomputation */
    double n_tokens;            /* @unit tokens of the step */
    double model_state_bytes;   /* weights + gradients + optimizer states of one copy of the model */
    double cluster_state_bytes; /* the least that all ranks hold of it together, every copy that the strategy
                                   keeps counted; a sum below it has lost something */
    double attention_frac; /* share of queries times keys that fused attention works on: 0.5 under a causal
                              mask; 0 = not known, as 1 */
};

/** Generate the trace of a strategy that cs_strategy_check accepts. The caller frees with cs_trace_free.
 *  CS_E_LIMIT when it would exceed the limits of the format (255 events, ...). Cost: O(roles x layers). */
CS_MUST_CHECK cs_status cs_trace_build(const struct cs_model *model, const struct cs_training *training,
                                       const struct cs_strategy *strategy, struct cs_trace **trace,
                                       struct cs_err *err);
void cs_trace_free(struct cs_trace *trace);

/** Completeness (the promises made above): every index in range, every send has its receive in the same
 *  order, every collective is entered by all members of its group in the same order with the same kind and
 *  bytes, waits can be met, memory is freed. CS_E_INPUT saying which rank, call and operation. */
CS_MUST_CHECK cs_status cs_trace_check(const struct cs_trace *trace, struct cs_err *err);

/** Memory ledger of a program: peak of the total over the compute stream, and each category at that moment.
 *  `peak_call`/`peak_op` say when. Exact, no simulation; cost O(calls + distinct blocks' operations). */
struct cs_mem_peak {
    int64_t total_bytes;
    int64_t by_category_bytes[CS_N_MEMS];
    int32_t peak_call;
    int32_t peak_op;
    int64_t final_bytes; /* still allocated at the end: the model state */
};
void cs_trace_memory(const struct cs_trace *trace, int32_t program, struct cs_mem_peak *peak);

/** Totals of one program, for conservation checks. */
struct cs_trace_totals {
    double compute_flop;   /* of matrix kinds, as model flops count: fused attention in full, masked or not */
    double recompute_flop; /* part of compute_flop repeated by recomputation */
    bool computes_in[CS_N_DTYPES]; /* types in which a part of compute_flop is done */
    int64_t n_ops;
    double coll_bytes[CS_N_COLLS]; /* as asked, per rank */
    double send_bytes;
};
void cs_trace_program_totals(const struct cs_trace *trace, int32_t program, struct cs_trace_totals *totals);

#endif
