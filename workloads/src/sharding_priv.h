/**
 * @file sharding_priv.h
 * Layouts: which device dimensions cut which axis of a tensor, and what moves between two layouts.
 */
#ifndef CS_WORKLOADS_SHARDING_PRIV_H
#define CS_WORKLOADS_SHARDING_PRIV_H

#include "graph_priv.h"

#include "cs/workloads/trace.h"

/** A set of device dimensions. */
typedef uint8_t cs_cut;
#define CS_CUT_MP ((cs_cut)1)
#define CS_CUT_CP ((cs_cut)2)
#define CS_CUT_DP ((cs_cut)4)
#define CS_CUT_EP ((cs_cut)8) /* cuts experts, and nothing else: its ranks are some of the three others' */
#define CS_N_CUTS 4

/** Where the parts of a tensor are: per axis the device dimensions that cut it, and the device dimensions
 *  over which every rank holds only a summand. Any other dimension holds copies. */
struct cs_layout {
    cs_cut cut[CS_TENSOR_AXES_MAX];
    cs_cut partial;
};

/** A parallel configuration, as far as layouts go. */
struct cs_sharding {
    const struct cs_graph *graph; /* borrowed */
    int64_t degree[CS_N_CUTS];    /* ranks along CS_CUT_MP, CS_CUT_CP, CS_CUT_DP, CS_CUT_EP */
    bool sp;
    bool expert_mp;
    bool ulysses;
};

/** The sharding of a strategy over its graph. */
void cs__sharding_init(struct cs_sharding *sharding, const struct cs_graph *graph,
                       const struct cs_strategy *strategy);

/** How a node's iteration space is cut: one set per axis of the graph. The rule: dp cuts batch, cp cuts the
 *  sequence; mp cuts the TENSOR axes if the node has one, else the sequence under sp, else nothing (every
 *  tensor-parallel rank does the same work). Megatron's column- and row-parallel products follow. */
struct cs_space {
    cs_cut cut[CS_GRAPH_AXES_MAX];
    cs_cut all; /* union over the node's own axes */
};
void cs__sharding_space(const struct cs_sharding *sharding, const struct cs_segment *segment,
                        const struct cs_node *node, struct cs_space *space);

/** Layout that a node wants an input (or parameter) in: its axes cut as the space is. */
struct cs_layout cs__space_input(const struct cs_space *space, const struct cs_tensor *tensor);
/** Layout in which a node leaves an output: a sum over every dimension that cuts only summed axes. */
struct cs_layout cs__space_output(const struct cs_space *space, const struct cs_tensor *tensor);
/** Layout in which backward leaves the gradient of an input or parameter: a sum over every dimension that
 *  shares out the node's work without cutting this tensor. */
struct cs_layout cs__space_gradient(const struct cs_space *space, const struct cs_tensor *tensor);
/** Layout between segments: batch over dp, sequence over cp and, under sp, mp. */
struct cs_layout cs__sharding_boundary(const struct cs_sharding *sharding, const struct cs_tensor *tensor);
/** The layout whose partial dimensions became copies: what the gradient of a partial sum looks like. */
struct cs_layout cs__layout_whole(struct cs_layout layout);

bool cs__layout_equal(const struct cs_layout *a, const struct cs_layout *b, const struct cs_tensor *tensor);
/** Elements of one rank's part (uneven division rounds up). */
int64_t cs__sharding_elements(const struct cs_sharding *sharding, const struct cs_tensor *tensor,
                              const struct cs_layout *layout);
/** Local length of an axis that `cut` divides. */
int64_t cs__sharding_length(const struct cs_sharding *sharding, int32_t axis, cs_cut cut);
/** Copies of a part among the ranks of `dims` that cut it, because the axis is shorter than their number
 *  (8 key-value heads over 64 tensor-parallel ranks: 8); 1 usually. */
int64_t cs__sharding_copies(const struct cs_sharding *sharding, const struct cs_tensor *tensor,
                            const struct cs_layout *layout);

/** One collective of a change of layout. */
struct cs_move {
    enum cs_coll coll;
    cs_cut dim;       /* exactly one */
    int64_t elements; /* as cs_op.bytes counts them */
};
#define CS_MOVES_MAX CS_N_CUTS
/** Collectives that turn `from` into `to`: a sum becomes copies by all-reduce and a cut by reduce-scatter, a
 *  cut becomes copies by all-gather and another cut by all-to-all; copies become a cut for nothing. Sums
 *  first, gathers last, so that little is moved. Returns how many. */
int32_t cs__sharding_moves(const struct cs_sharding *sharding, const struct cs_tensor *tensor,
                           const struct cs_layout *from, const struct cs_layout *to,
                           struct cs_move moves[CS_MOVES_MAX]);

#endif
