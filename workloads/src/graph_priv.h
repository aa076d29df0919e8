/**
 * @file graph_priv.h
 * The operator graph of a model: named axes, tensors over axes, operators over tensors.
 *
 * A graph is a chain of segments (embedding, layers, head); a repeated layer is stored once. Nothing here
 * knows how a model is spread: sharding_priv.h gives every tensor a layout, plan_priv.h derives the
 * communication from where layouts differ.
 */
#ifndef CS_WORKLOADS_GRAPH_PRIV_H
#define CS_WORKLOADS_GRAPH_PRIV_H

#include "cs/workloads/strategy.h"

/** What an axis means to a parallel configuration: which device dimensions may cut it. */
enum cs_axis_role {
    CS_AXIS_PLAIN,  /* never cut */
    CS_AXIS_BATCH,  /* data parallel */
    CS_AXIS_SEQ,    /* context parallel; tensor parallel ranks too, under sp, where an operator has no TENSOR
                       axis */
    CS_AXIS_TENSOR, /* tensor parallel: heads, ffn, vocabulary */
    CS_AXIS_EXPERT, /* expert parallel */
    CS_AXIS_EXPERT_TENSOR, /* an expert's width: tensor parallel under expert_mp, else never cut */
    CS_AXIS_ROWS /* tokens times chosen experts, in any order: cut like batch and sequence together */
};

struct cs_axis {
    const char *name;
    int64_t size;
    enum cs_axis_role role;
};

#define CS_TENSOR_AXES_MAX 5
/** A tensor; a parameter is a tensor of its own kind. */
struct cs_tensor {
    const char *name;
    uint8_t n_axes;
    uint8_t axes[CS_TENSOR_AXES_MAX]; /* indices in cs_graph.axes */
    uint8_t elt_bytes;                /* 0 = of the training dtype */
    bool param;
    bool tied;    /* parameter: the same matrix as the embedding's, which may be on another stage */
    bool shared;  /* parameter: the same as another of the same stage */
    bool table;   /* parameter: a row for each entry of a vocabulary, or each class */
    bool no_grad; /* no gradient flows into it: indices, statistics, constants */
};

/** How an operator's work follows from its shapes. */
enum cs_node_work {
    CS_WORK_MATMUL,       /* activation times parameters; several parameters share one product */
    CS_WORK_BATCH_MATMUL, /* two activations */
    CS_WORK_FLASH,        /* scores, softmax and context in one kernel */
    CS_WORK_CONV,     /* features (batch, sequence, pixels, channels) times parameters (in, out, kernel) */
    CS_WORK_GATHER,   /* rows of a table */
    CS_WORK_PERMUTE,  /* tokens to rows of experts, or back: memory traffic of the rows */
    CS_WORK_POINTWISE /* memory traffic: norm, element-wise, softmax, loss */
};

/** What selective recomputation does with an operator. */
enum cs_selective {
    CS_SEL_KEEP, /* not run again */
    CS_SEL_DROP, /* run again in backward; its outputs are not kept */
    CS_SEL_RERUN /* run again because it is inside the recomputed region, its output is kept all the same */
};

/** Which of its tensors an operator exchanges between expert-parallel ranks: tokens go to the ranks of their
 *  experts and come back. Every rank has as many rows before as behind (balanced routing). */
enum cs_exchange { CS_EXCHANGE_NONE, CS_EXCHANGE_OUTPUT, CS_EXCHANGE_INPUT };

#define CS_NODE_IO_MAX 6
/** A pointwise operator that is a chain of elementary kernels where nothing fuses it. */
enum cs_chain {
    CS_CHAIN_NONE,
    CS_CHAIN_NORM,
    CS_CHAIN_ROPE,
    CS_CHAIN_GELU,
    CS_CHAIN_LOSS_MAXIMUM,
    CS_CHAIN_LOSS_SUM,
    CS_CHAIN_LOSS,
    CS_CHAIN_SOFTMAX /* of attention */
};

struct cs_node {
    const char *label;
    enum cs_node_work work;
    enum cs_opkind kind;
    uint8_t n_in, n_out, n_par, n_save;
    uint8_t in[CS_NODE_IO_MAX], out[CS_NODE_IO_MAX], par[CS_NODE_IO_MAX];
    uint8_t save[CS_NODE_IO_MAX];   /* tensors kept for the operator's backward pass */
    uint8_t axis_m, axis_n, axis_k; /* BATCH_MATMUL, FLASH: the axes of one product */
    uint8_t axis_v;                 /* FLASH: the inner axis of the second product */
    bool attention;                 /* where context parallelism meets */
    uint8_t axis_e;                 /* PERMUTE: the axis of the experts whose rows these are */
    bool replicated_experts;        /* the axis of experts is whole on every rank (router) */
    enum cs_exchange exchange;
    enum cs_chain chain;
    double unchained_frac; /* share of the traffic that is not of the chain: what is only put beside */
    double forward_flop_per_elt, backward_flop_per_elt; /* POINTWISE: vector arithmetic per output element */
    enum cs_selective selective;
    bool apart;       /* gathers its input and reduces its gradient though another node does too */
    bool no_backward; /* nothing to do and nothing to pass on */
};

/** An activation times parameters: backward has a product for each of the two. */
bool cs__node_is_product(const struct cs_node *node);

/** A hidden matrix: some of the parameter's axes are summed over, others are the result's. Neither gains,
 *  biases nor tables are. */
struct cs_segment;
bool cs__param_is_matrix(const struct cs_segment *segment, const struct cs_node *node, uint8_t param);
/** Is the axis one of the tensor's? */
bool cs__tensor_has_axis(const struct cs_tensor *tensor, uint8_t axis);

#define CS_SEGMENT_TENSORS_MAX 120
#define CS_SEGMENT_NODES_MAX 64
#define CS_NO_TENSOR 255

/** A straight piece of the model between two points where one tensor passes. */
struct cs_segment {
    const char *name;
    bool is_layer; /* counts when layers are dealt to pipeline stages */
    uint8_t in;    /* tensor that comes from the segment before; CS_NO_TENSOR for the first */
    uint8_t out;   /* tensor for the segment behind; CS_NO_TENSOR for the last */
    int32_t n_tensors;
    int32_t n_nodes;
    struct cs_tensor *tensors; /* CS_SEGMENT_TENSORS_MAX */
    struct cs_node *nodes;     /* CS_SEGMENT_NODES_MAX, in order of execution */
};

/** `count` segments of a kind in a row. */
struct cs_run_of {
    int32_t segment;
    int32_t count;
};

/** The axes every graph has, by index. */
enum { CS_AXIS_OF_BATCH, CS_AXIS_OF_SEQ, CS_AXIS_OF_KEYS };

#define CS_GRAPH_AXES_MAX 32
#define CS_GRAPH_SEGMENTS_MAX 12

struct cs_graph {
    struct cs_arena *arena; /* borrowed: tensors and nodes live there */
    int32_t n_axes;
    struct cs_axis axes[CS_GRAPH_AXES_MAX];
    int32_t n_segments;
    struct cs_segment segments[CS_GRAPH_SEGMENTS_MAX];
    int64_t n_rows; /* size of the axis of rows */
    int32_t n_runs;
    struct cs_run_of runs[CS_GRAPH_SEGMENTS_MAX];
};

/** Kernels that are one, and so keep less for the backward pass. */
struct cs_graph_fused {
    bool attention;
    bool glu;            /* activation and product of a gated MLP */
    bool norms_separate; /* not one: a norm keeps its input in fp32 and what it multiplies by its gain */
    bool gate_separate;  /* two products of a gated MLP, not one of twice the width */
};

/** Build the graph of a model for `batch` sequences of `seq_length` tokens (global sizes: what all
 * ranks process at once). Cannot fail for a model that cs_model_load accepted. */
void cs__graph_build(struct cs_graph *graph, struct cs_arena *arena, const struct cs_model *model,
                     int64_t batch, int64_t seq_length, struct cs_graph_fused fused);

/** Does a layer of the model have anything that selective recomputation runs again? Scores and softmax of
 *  attention that is not fused, and the activation of gated products, which those of experts always are. */
bool cs__graph_runs_selectively(const struct cs_model *model, bool flash_attention);

/** Segment of position `pos` in the chain (0 = embedding); -1 behind the end. */
int32_t cs__graph_segment_at(const struct cs_graph *graph, int32_t pos);
/** Layers in the chain. */
int32_t cs__graph_layers(const struct cs_graph *graph);

/* Building blocks of graphs. */
uint8_t cs__graph_axis(struct cs_graph *graph, const char *name, int64_t size, enum cs_axis_role role);
/** A new segment; `run` more of it follow in the chain. */
struct cs_segment *cs__graph_add(struct cs_graph *graph, const char *name, bool is_layer, int32_t count);
/** Axes are a list of indices ended by -1. */
uint8_t cs__segment_tensor(struct cs_segment *segment, const char *name, const int8_t *axes);
uint8_t cs__segment_param(struct cs_segment *segment, const char *name, const int8_t *axes);
struct cs_node *cs__segment_node(struct cs_segment *segment, const char *label, enum cs_node_work work,
                                 enum cs_opkind kind);
void cs__node_in(struct cs_node *node, uint8_t tensor);
void cs__node_out(struct cs_node *node, uint8_t tensor);
void cs__node_par(struct cs_node *node, uint8_t tensor);
void cs__node_save(struct cs_node *node, uint8_t tensor);

/** List of axis indices for cs__segment_tensor. */
#define CS_AXES(...) ((const int8_t[]){__VA_ARGS__, -1})

#endif
