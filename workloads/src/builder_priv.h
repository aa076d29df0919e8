/**
 * @file builder_priv.h
 * A trace under construction: growing lists of operations, blocks, costs, labels, groups, streams, events.
 */
#ifndef CS_WORKLOADS_BUILDER_PRIV_H
#define CS_WORKLOADS_BUILDER_PRIV_H

#include "cost_priv.h"
#include "schedule_priv.h"

/** Growing list of operations on the heap. Zero-initialised is empty. */
struct cs_oplist {
    struct cs_op *ops;
    int32_t n, cap;
};
void cs__oplist_add(struct cs_oplist *list, struct cs_op op);
/** Append a copy of `from` with every operation's layer set. */
void cs__oplist_append(struct cs_oplist *list, const struct cs_oplist *from, int32_t layer);
void cs__oplist_alloc(struct cs_oplist *list, enum cs_mem mem, int64_t bytes, int32_t label);
void cs__oplist_free_mem(struct cs_oplist *list, enum cs_mem mem, int64_t bytes, int32_t label);
void cs__oplist_release(struct cs_oplist *list);

/** Groups that operations ask for. */
enum cs_group {
    CS_GROUP_TP,        /* tensor parallel */
    CS_GROUP_TP_ASYNC,  /* the same ranks, for communication on a lane of its own */
    CS_GROUP_TP_COPIES, /* tensor-parallel ranks that hold the same key-value head */
    CS_GROUP_CP,
    CS_GROUP_DP,        /* all copies of a parameter: dp x cp */
    CS_GROUP_OP,        /* ranks that share out one set of optimizer states */
    CS_GROUP_GATHER,    /* the same ranks, for weights gathered while gradients are scattered (zero 3) */
    CS_GROUP_DPX,       /* ranks that hold the same shard */
    CS_GROUP_NORM,      /* everything that the global gradient norm sums over */
    CS_GROUP_EMBEDDING, /* first and last stage, when they share the vocabulary matrix */
    CS_GROUP_EP,        /* ranks that share out the experts */
    CS_GROUP_EP_ASYNC,  /* the same ranks, for communication on a lane of its own */
    CS_GROUP_EDP,       /* all copies of an expert */
    CS_GROUP_EOP,       /* of them, those that share out its optimizer states */
    CS_GROUP_EGATHER,   /* the same ranks, for weights (zero 3) */
    CS_GROUP_EDPX,      /* of the copies, those that hold the same shard */
    CS_GROUP_MIRROR,    /* the two stages that hold the same two places (DualPipe) */
    CS_N_GROUPS
};

/** Channels: each chunk of a stage has one for its outputs and one for its inputs' gradients, so that
 * messages of different chunks cannot be taken for each other. One more goes round the ring of context
 * parallelism. */
#define CS_CHANNELS_MAX (4 * CS_CHUNKS_MAX + 1)
struct cs_channel {
    int32_t chunk; /* the sender's */
    bool forward;
    bool ring;  /* to the next context-parallel rank */
    bool ready; /* against the direction of messages: the receiver has got to its receive */
};

enum cs_event {
    CS_EVENT_GRADIENT_READY, /* a bucket of gradients is complete */
    CS_EVENT_GRADIENT_DONE,  /* a bucket of gradients has been scattered (zero >= 2) */
    CS_EVENT_REDUCED,        /* the last gradient of the step is reduced */
    CS_EVENT_WEIGHTS_DONE,   /* a bucket of weights is gathered */
    CS_EVENT_GATHER_READY,   /* there is room for a layer's weights (zero 3) */
    CS_EVENT_GATHER_DONE,
    CS_EVENT_SEND_FORWARD,
    CS_EVENT_SEND_BACKWARD,
    CS_EVENT_SENT_FORWARD, /* messages that computing waits for */
    CS_EVENT_SENT_BACKWARD,
    CS_EVENT_READY_FORWARD, /* for the output of the stage before */
    CS_EVENT_READY_BACKWARD,
    CS_EVENT_RING,
    CS_EVENT_TP_READY, /* half-batches, fused products */
    CS_EVENT_TP_DONE,
    CS_EVENT_HOST_READY, /* activations that go to the host and back */
    CS_EVENT_HOST_DONE,
    CS_EVENT_EP_READY, /* expert communication under the other direction's computation */
    CS_EVENT_EP_DONE,
    CS_EVENT_AHEAD_GATHER_READY, /* what a forward pass beside a backward pass waits for, apart from its: */
    CS_EVENT_AHEAD_GATHER_DONE,  /* waits count */
    CS_EVENT_AHEAD_TP_READY,
    CS_EVENT_AHEAD_TP_DONE,
    CS_EVENT_AHEAD_HOST_READY,
    CS_EVENT_AHEAD_HOST_DONE,
    CS_N_EVENTS
};

/** Lanes: streams that execute, and lanes of groups whose collectives block the compute stream. */
enum cs_lane {
    CS_LANE_COMPUTE,
    CS_LANE_TP,
    CS_LANE_CP,
    CS_LANE_PP_FORWARD,
    CS_LANE_PP_BACKWARD,
    CS_LANE_DP,
    CS_LANE_GATHER,
    CS_LANE_NORM,
    CS_LANE_EP,
    CS_LANE_HOST,
    CS_N_LANES
};

#define CS__LABEL_SLOTS 256

struct cs_builder {
    struct cs_trace *trace;
    const struct cs_model *model;       /* borrowed */
    const struct cs_training *training; /* borrowed */
    struct cs_strategy strategy;        /* canonical */
    struct cs_pipeline pipeline;
    struct cs_graph graph;
    struct cs_sharding sharding;
    struct cs_costing costing;
    int32_t group_comm[CS_N_GROUPS];       /* index in trace.comms, -1 = not asked for */
    int32_t channel_chan[CS_CHANNELS_MAX]; /* index in trace.chans */
    int32_t event_index[CS_N_EVENTS];
    int32_t lane_stream[CS_N_LANES];
    int32_t n_costs, cap_costs;
    struct cs_op_cost *costs;
    int32_t n_labels, cap_labels;
    int32_t label_slots[CS__LABEL_SLOTS]; /* index + 1 of the label last asked for, by hash; 0 = none */
    const char **labels;
    int32_t n_blocks, cap_blocks;
    struct cs_block *blocks;
    struct cs_comm comms[CS_N_GROUPS];
    struct cs_chan chans[CS_CHANNELS_MAX];
    const char *stream_names[CS_N_LANES];
    const char *event_names[CS_N_EVENTS];
};

/** Rows of the busiest rank's experts over those that its tokens are sent as; >= 1. See struct cs_training.
 */
double cs__imbalance_frac(const struct cs_model *model, const struct cs_training *training,
                          const struct cs_strategy *strategy);

void cs__builder_init(struct cs_builder *builder, const struct cs_model *model,
                      const struct cs_training *training, const struct cs_strategy *strategy);
/** Set the graph to one part of a micro-batch (seqpipe): its queries, and the keys of it and of all parts
 *  before. Plans built from now on are of that part. */
void cs__builder_set_part(struct cs_builder *builder, int32_t part);
/** Free the growing arrays, and the trace if it was not taken. */
void cs__builder_release(struct cs_builder *builder);
/** Move the arrays into the trace and hand it over. */
struct cs_trace *cs__builder_finish(struct cs_builder *builder);

int32_t cs__builder_cost(struct cs_builder *builder, struct cs_op_cost cost);
/** Index of a label; equal texts get equal indices. The text is copied. */
int32_t cs__builder_label(struct cs_builder *builder, const char *text);
/** Keep a copy of the list as a block; returns its index. */
int32_t cs__builder_block(struct cs_builder *builder, const char *name, const struct cs_oplist *list);
/** The first call for a group, channel, event or lane makes it. */
uint8_t cs__builder_comm(struct cs_builder *builder, enum cs_group group);
uint8_t cs__builder_chan(struct cs_builder *builder, struct cs_channel channel);
uint8_t cs__builder_event(struct cs_builder *builder, enum cs_event event);
uint8_t cs__builder_stream(struct cs_builder *builder, enum cs_lane lane);
/** Ranks of one group of that kind. */
int64_t cs__builder_group_size(const struct cs_builder *builder, enum cs_group group);
/** Tensor-parallel ranks per key-value head when there are more ranks than heads, else 1. */
int32_t cs__builder_kv_copies(const struct cs_builder *builder);

/** Fill the communicator / channel of a kind from the strategy's coordinates; arrays in the trace's arena. */
void cs__groups_comm(const struct cs_builder *builder, enum cs_group group, struct cs_comm *comm);
void cs__groups_chan(const struct cs_builder *builder, struct cs_channel channel, struct cs_chan *chan);

/* Operations on lists. */
void cs__emit_compute(struct cs_builder *builder, struct cs_oplist *list, enum cs_phase phase,
                      const char *label, struct cs_op_cost cost);
/** Bytes between device and host memory, at the rate of the link between them: an operation of a fixed time.
 */
void cs__emit_host(struct cs_builder *builder, struct cs_oplist *list, enum cs_lane lane, enum cs_phase phase,
                   const char *label, int64_t bytes);
void cs__emit_collective(struct cs_builder *builder, struct cs_oplist *list, enum cs_lane lane,
                         enum cs_group group, enum cs_coll coll, enum cs_phase phase, const char *label,
                         int64_t bytes);
void cs__emit_event(struct cs_builder *builder, struct cs_oplist *list, enum cs_op_type type,
                    enum cs_lane lane, enum cs_event event);
/** SEND on the channel's lane, RECV on the compute stream. */
void cs__emit_message(struct cs_builder *builder, struct cs_oplist *list, enum cs_op_type type,
                      struct cs_channel channel, enum cs_phase phase, int64_t bytes);

#endif
