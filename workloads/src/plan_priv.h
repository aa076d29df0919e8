/**
 * @file plan_priv.h
 * A segment under a parallel configuration: its forward and backward passes as operations, its memory, its
 * parameters. Made once per kind of segment and copied for every layer.
 */
#ifndef CS_WORKLOADS_PLAN_PRIV_H
#define CS_WORKLOADS_PLAN_PRIV_H

#include "builder_priv.h"

/** Parameters of a segment that one rank holds (elements, before optimizer sharding). */
struct cs_param_sum {
    int64_t n;         /* all but tied ones */
    int64_t n_tied;    /* the vocabulary matrix of a head that shares it with the embedding */
    int64_t n_partial; /* of n: copies on every tensor-parallel rank whose gradients have to be summed (sp) */
    int64_t n_copies;  /* of n: copies on ranks that share a key-value head */
    int64_t n_expert;  /* of experts, not in n: each on one rank of an expert-parallel group */
    int32_t n_tensors; /* weights and biases, by number */
    int64_t n_plain;   /* of n: no hidden matrices, so that Muon leaves them to AdamW */
    double newton_flop; /* of one orthogonalisation of every hidden matrix (Muon) */
};

struct cs_plan {
    struct cs_oplist forward;
    struct cs_oplist backward; /* both gradients */
    struct cs_oplist input;    /* schedules that split backward: without the products' weight gradients ... */
    struct cs_oplist weight;   /* ... and these alone */
    int64_t late_bytes;        /* kept from `input` to `weight`: operands and output gradients of products */
    int64_t saved_bytes;       /* activations kept from forward to backward */
    int64_t recomputed_bytes;  /* activations that exist only in backward (recomputation) */
    int64_t forward_temp_bytes, backward_temp_bytes; /* largest working set beside those */
    int64_t in_bytes, out_bytes;                     /* boundary tensors, one rank's part */
    struct cs_param_sum params;
    bool runs_again; /* backward runs the whole of it again: only its input is kept */
};

/** Derive the plan. `recompute` applies to layers; other segments keep everything. */
void cs__plan_build(struct cs_plan *plan, struct cs_builder *builder, const struct cs_segment *segment,
                    enum cs_recompute recompute);
void cs__plan_release(struct cs_plan *plan);

/** Consecutive nodes that selective recomputation runs again, and what they do not keep. */
struct cs_region {
    int32_t first, last;
    int64_t bytes;
};
#define CS_REGIONS_MAX 4

/** What plan.c and plan_memory.c work on. */
struct cs_planner {
    struct cs_builder *builder;
    const struct cs_segment *segment;
    enum cs_recompute recompute;
    struct cs_space space[CS_SEGMENT_NODES_MAX];
    int8_t producer[CS_SEGMENT_TENSORS_MAX];           /* node; -1 = none (input, masks, parameters) */
    int8_t last_use[CS_SEGMENT_TENSORS_MAX];           /* node; n_nodes = leaves the segment; -1 = unused */
    struct cs_layout produced[CS_SEGMENT_TENSORS_MAX]; /* layout where it is made */
    struct cs_layout stored[CS_SEGMENT_TENSORS_MAX];   /* layout in which it is kept, if it is */
    bool twice[CS_SEGMENT_TENSORS_MAX];                /* it is kept in another cut too: ... */
    struct cs_layout second[CS_SEGMENT_TENSORS_MAX];   /* ... as another of its users got it */
    bool wanted[CS_SEGMENT_TENSORS_MAX];               /* some backward needs it */
    bool saved[CS_SEGMENT_TENSORS_MAX];                /* kept from forward on */
    bool counting;                            /* results of tensor-parallel communication: their ... */
    int64_t comm_bytes;                       /* ... bytes */
    int8_t region_of[CS_SEGMENT_TENSORS_MAX]; /* wanted but not saved: who runs it again; -1 = nobody */
    int32_t n_regions;
    struct cs_region regions[CS_REGIONS_MAX];
};

/** Which tensors are wanted, kept, in which layout, and the regions to run again. */
void cs__planner_choose(struct cs_planner *planner);
/** Bytes of all that is kept of a tensor. */
int64_t cs__planner_stored_bytes(const struct cs_planner *planner, int32_t tensor);
/** The layout in which a user that wants the kept tensor in `want` finds it. */
const struct cs_layout *cs__planner_kept_as(const struct cs_planner *planner, int32_t tensor,
                                            const struct cs_layout *want);
/** Largest sum of tensors alive at one node of the forward pass, tensors with keep[] not counted. */
int64_t cs__planner_forward_temp(const struct cs_planner *planner, const bool keep[CS_SEGMENT_TENSORS_MAX]);
/** The same for gradients in the backward pass, gathered copies of kept tensors included. */
int64_t cs__planner_backward_temp(const struct cs_planner *planner);

/* Ring attention: keys and values (backward: their gradients too) go round the context-parallel ranks while
 * each computes with what it has. */

/** Does the node run as a ring? */
bool cs__planner_is_ring(const struct cs_planner *planner, const struct cs_node *node);
/** Bytes of keys and values that are on their way at a time; 0 without a ring. */
int64_t cs__planner_ring_bytes(const struct cs_planner *planner);
void cs__plan_ring_forward(struct cs_planner *planner, struct cs_oplist *list, int32_t node,
                           enum cs_phase phase);
void cs__plan_ring_backward(struct cs_planner *planner, struct cs_oplist *list, int32_t node);

/** Run tensor-parallel communication under computation, as the strategy asks. */
void cs__plan_overlap(struct cs_builder *builder, struct cs_plan *plan);
/** If the training has such, and a dense product's list from `from` on is one tensor-parallel collective, run
 *  that on its lane from here: true, and cs__plan_await has to end it. Else, with several or none, they stay
 * as they are (Korthikanti et al., arXiv 2205.05198, 4.2.2, gather an operand again so; Megatron-LM's
 *  LinearWithGradAccumulationAndAsyncCommunication reduces the gradient of the input so too). */
bool cs__plan_beside(struct cs_planner *planner, struct cs_oplist *list, int32_t from,
                     const struct cs_node *node);
void cs__plan_await(struct cs_builder *builder, struct cs_oplist *list);

/** Is the parameter an expert's? */
bool cs__planner_is_expert(const struct cs_planner *planner, const struct cs_tensor *param);

#endif
