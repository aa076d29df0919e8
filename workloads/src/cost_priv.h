/**
 * @file cost_priv.h
 * What an operator asks of one rank: arithmetic, memory traffic and product shape, from local shapes.
 */
#ifndef CS_WORKLOADS_COST_PRIV_H
#define CS_WORKLOADS_COST_PRIV_H

#include "sharding_priv.h"

enum cs_pass {
    CS_PASS_FORWARD,
    CS_PASS_BACKWARD, /* gradient of the inputs */
    CS_PASS_WEIGHT    /* gradient of the parameters of a MATMUL; part of BACKWARD for the others */
};

struct cs_costing {
    const struct cs_sharding *sharding;
    enum cs_dtype dtype;         /* of tensors */
    enum cs_dtype product_dtype; /* of layers' products with parameters: fp8 when trained in it */
    enum cs_dtype gradient_dtype;
    bool separate_casts; /* operands of products are cast to product_dtype by kernels of their own */
    bool separate_norms, separate_rope, separate_loss, separate_experts;
    bool separate_accumulation, widened_gradients, separate_gelu, norm_casts;
    int32_t softmax_multiple;
    const double *score_bytes; /* forward, backward; see struct cs_training */
    const int32_t *score_kernels;
    int32_t rows_gathered; /* ranks whose rows each part of an expert takes: mp where sp and mp cut them */
    double imbalance_frac; /* rows that a rank's experts get over those that its tokens are sent as; >= 1 */
    double causal_frac;    /* share of queries times keys that a fused kernel works on */
};

/** Type in which weights and activations are held: bf16 under fp8 training, whose products alone are fp8. */
enum cs_dtype cs__storage_dtype(const struct cs_training *training);
/** Type in which gradients go from rank to rank. */
enum cs_dtype cs__reduced_dtype(const struct cs_training *training);

/** Bytes of `elements` elements of a tensor. */
int64_t cs__tensor_bytes(const struct cs_costing *costing, const struct cs_tensor *tensor, int64_t elements);

/** Cost of one pass of a node on one rank.
 *  MATMUL: one product forward, two backward (inputs: m x n times n x k; parameters: k x m times m x n,
 *  accumulated into the gradient buffer); for experts one such product per expert. FLASH: 4 m n k forward
 * (half of it under a causal mask, whose upper triangle the kernel skips) and 2.5 times that backward, 5
 * products against 2 (Dao, arXiv 2307.08691, section 3.1.2). Memory traffic: every operand read or written
 * once. */
struct cs_op_cost cs__node_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                const struct cs_node *node, const struct cs_space *space, enum cs_pass pass);

/** Are this node's operands cast to a narrower type by kernels of their own? */
bool cs__node_casts(const struct cs_costing *costing, const struct cs_segment *segment,
                    const struct cs_node *node);

/** The cast of its input (CS_PASS_FORWARD) or of its output's gradient (CS_PASS_BACKWARD): read once, written
 *  twice, as the product of the other pass wants it transposed (Transformer Engine's fp8 products take only
 *  one order of operands). Weights are left out: they are cast once a step where their casts are kept. */
struct cs_op_cost cs__cast_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                const struct cs_node *node, const struct cs_space *space, enum cs_pass pass);

/** What works on the scores before a fused attention kernel, see struct cs_training; queries times keys in
 *  full, whatever the kernel skips. */
struct cs_op_cost cs__score_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                 const struct cs_node *node, const struct cs_space *space);

/** Rows of `n_ranks` ranks are put in the order of their experts, or back: whole chunks are read and written.
 */
struct cs_op_cost cs__sort_cost(const struct cs_costing *costing, const struct cs_tensor *rows,
                                const struct cs_space *space, double n_ranks);

/** The gradients of a node's parameters are added to those of the micro-batches before: each read in the
 *  tensors' type, the sum read and written; a kernel for each parameter, two where it is cast first. */
struct cs_op_cost cs__accumulation_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                        const struct cs_node *node, const struct cs_space *space);

/** Weights and biases by number, as gradient fusion counts them. */
int32_t cs__model_n_tensors(const struct cs_model *model);
/** Of the parameters that are trained, those that are no hidden matrices: gains, biases, tables,
 * convolutions.
 */
int64_t cs__model_plain_params(const struct cs_model *model);
/** Of the parameters that are trained, those that expert parallelism shares out: not the routers. */
int64_t cs__model_expert_params(const struct cs_model *model);

/** Matrix arithmetic of the forward pass counted in full: causal attention is not halved. */
double cs__node_model_flop(const struct cs_costing *costing, const struct cs_segment *segment,
                           const struct cs_node *node, const struct cs_space *space);

#endif
