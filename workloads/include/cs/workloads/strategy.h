/**
 * @file strategy.h
 * What is trained and how it is spread: training settings, a parallel strategy, its validity rules.
 */
#ifndef CS_WORKLOADS_STRATEGY_H
#define CS_WORKLOADS_STRATEGY_H

#include "cs/workloads/model.h"

#include <stddef.h>
#include <stdint.h>

enum cs_optimizer { CS_OPT_ADAMW, CS_OPT_SGD, CS_OPT_MUON };
extern const char *const cs_optimizer_names[]; /* "adamw", "sgd", "muon" */

/** The training block of a study. */
#define CS_FUSION_MAX 32
#define CS_AGGREGATION_GROUPS_MAX 1024
struct cs_training {
    int64_t global_batch; /* sequences per optimizer step */
    int64_t seq_length;
    enum cs_dtype dtype;          /* of weights in compute, activations; fp8: of products, the rest bf16 */
    enum cs_dtype gradient_dtype; /* of the accumulated and reduced gradients; default fp32 */
    enum cs_optimizer optimizer;
    double bucket_bytes;  /* gradients are reduced in buckets of at least this size; default 64 MB */
    bool clip_gradient;   /* global norm: one scalar all-reduce over the model-parallel ranks; default true */
    bool flash_attention; /* default: the model's */
    double host_bytes_per_s; /* link of a device to its host's memory, one direction, for what is swapped or
                                offloaded; 0 = not known */
    /* Where gradients are fused by number instead of by size (MindSpore's all_reduce_fusion_config): one
     * bucket ends before each of these parameters, counted from the input; ascending. Layers are not divided:
     * each goes with its first parameter. */
    int32_t n_fusion;
    int32_t fusion[CS_FUSION_MAX];
    /* Gradients and gathered weights in so many groups of whole layers (MindFormers'
     * gradient_aggregation_group); 0 = by the two above. (L + 1) / this of L layers make a group, rounded
     * down, which may leave some for one more; what is before the first and behind the last layer is with
     * the group of this number, and under a pipeline all of a stage is one group. */
    int32_t aggregation_groups;
    /* Experts: rows of the busiest rank of an expert group over the mean of its ranks, as measured; 0 = 1 =
     * even. At most all that a rank can get: of each token of the group one row for each
     * of its experts that are chosen, which is ep min(k, experts / ep) / k times the mean with k chosen;
     * without effect under a capacity factor, which gives every expert as many. The step waits for the
     * busiest rank, so every rank is taken to be it. */
    double routing_imbalance_frac;
    bool gradient_fp32_sync; /* gradients are reduced in fp32 whatever their type (MindSpore's default) */
    bool scatter_messages; /* what all mp ranks hold alike goes to the next stage in mp parts and is gathered
                              there (Narayanan et al., arXiv 2104.04473, section 4.1) */
    bool separate_casts;   /* fp8: operands are cast by kernels of their own, not by those that make them */
    /* Which of a layer's pointwise operators are one kernel each; by default norms, rotary embeddings,
     * and the loss but for its two reductions over the vocabulary.
     * What is not fused is a chain of elementary kernels, each reading and writing memory
     * (workloads/src/cost.c). */
    bool separate_norms;
    bool separate_rope;
    bool separate_loss; /* cross-entropy of a vocabulary: elementary kernels in fp32 (Megatron-LM without
                           --cross-entropy-loss-fusion) */
    bool norm_casts;    /* an RMSNorm in one kernel computes in fp32 and is cast to it and back by others */
    bool fused_glu; /* activation and product of a gated MLP; keeps its inputs alone for the backward pass */
    bool separate_experts; /* a rank's experts one after the other, each on its slice of the rows (Megatron-LM
                              without --moe-grouped-gemm), not in one grouped product */
    bool separate_gate; /* gate and up of a dense gated MLP are two layers: each gathers its input and reduces
                           its input's gradient by itself (AscendSpeed without --mlp-layer-fusion) */
    bool separate_gelu; /* a plain MLP's bias and GELU as elementary kernels (Megatron-LM's bias_gelu where
                           nothing compiles it) */
    /* Kernels that work on the scores (batch x heads x queries x keys) beside the softmax or the fused
     * kernel: a position bias that is a tensor, scaling, a softmax in fp32, dropout. Forward, backward. */
    double score_bytes[2]; /* read and written for each score */
    int32_t score_kernels[2];
    /* Read and written for each parameter where the optimizer is not one kernel; 0 = each state, gradient and
     * weight once. */
    double optimizer_traffic_bytes;
    bool separate_accumulation; /* a micro-batch's gradients are added to the step's by kernels of their own
                                   (PyTorch's autograd, Megatron-LM without gradient accumulation fusion), not
                                   by the products that make them */
    bool async_tensor_parallel; /* backward, a dense product's operand is gathered again under its input's
                                   gradient, which is reduced under its weight's (Megatron-LM since 3.0); not
                                   in layers where half_batches or fused_tp overlap more */
    bool widened_gradients;     /* separate_accumulation: each gradient is cast to gradient_dtype before it is
                                   added, and a step's go round in the type of the parameters, and are reduced
                                   whole though every rank updates a shard of the weights (zero 1; DeepSpeed's
                                   BF16 optimizer); these two casts of a step, 12 bytes a parameter, are left
                                   out */
    int32_t softmax_multiple; /* attention without a fused core has its softmax in one kernel if micro_batch x
                                 heads of a rank is a multiple of this, else as a chain; 0 = always in one */
    bool blocking_sends;      /* a stage computes on when its message has arrived, not beside it (Megatron-LM
                                 without overlapped point-to-point communication) */
    bool serial_messages; /* 1F1B: so does the stage that it goes to, and neighbours that both have one wait
                             for the output first, then for the gradient (DeepSpeed's pipeline engine); with
                             blocking_sends only */
};

/** Add every field to a hash, so that two equal hashes are of equal trainings. */
uint64_t cs_training_hash(uint64_t hash, const struct cs_training *training);

enum cs_schedule {
    CS_SCHED_GPIPE,
    CS_SCHED_1F1B,
    CS_SCHED_INTERLEAVED,
    CS_SCHED_ZERO_BUBBLE,   /* ZB-H1 */
    CS_SCHED_ZERO_BUBBLE_V, /* two chunks a stage, V shape */
    CS_SCHED_DUALPIPE,
    CS_SCHED_SEQPIPE,
    CS_N_SCHEDULES
};
extern const char *const cs_schedule_names[]; /* "gpipe", "1f1b", "interleaved", "zero-bubble", ... */

enum cs_recompute { CS_RECOMPUTE_NONE, CS_RECOMPUTE_SELECTIVE, CS_RECOMPUTE_FULL, CS_N_RECOMPUTE };
extern const char *const cs_recompute_names[]; /* "none", "selective", "full" */

/** Device dimensions. Rank order: `placement` lists them innermost first. */
enum cs_dim { CS_DIM_MP, CS_DIM_CP, CS_DIM_DP, CS_DIM_PP, CS_N_DIMS };
extern const char *const cs_dim_names[]; /* "mp", "cp", "dp", "pp" */

/** How context parallelism meets in attention: keys and values go round a ring while blocks are computed
 *  (Liu et al., arXiv 2310.01889), or sequence and heads are exchanged (Ulysses, arXiv 2309.14509). */
enum cs_cp_kind { CS_CP_RING, CS_CP_ULYSSES, CS_N_CP_KINDS };
extern const char *const cs_cp_kind_names[]; /* "ring", "ulysses" */

/** A number for each place of the model: the pipeline's stages, or with several chunks a stage the pp * vpp
 *  pieces in the order in which a micro-batch passes them. n = 0: not given. */
#define CS_PLACES_MAX 128
#define CS_PER_PLACE_MAX UINT16_MAX /* above what a model may have in all */
struct cs_per_place {
    uint8_t n;
    uint16_t at[CS_PLACES_MAX];
};
/** Lists by length, then by the numbers in turn: <0, 0, >0. */
int cs_per_place_compare(const struct cs_per_place *a, const struct cs_per_place *b);

/* Chunks of a stage (vpp), slices of a sequence: a trace names two channels for each chunk. */
#define CS_CHUNKS_MAX 64
/* A strategy in text: three lists of five digits a place, and the other keys. */
#define CS_STRATEGY_TEXT_MAX (3 * 6 * CS_PLACES_MAX + 512)

/** One parallel strategy. Plain value: compare and hash by field (cs_strategy_equal, cs_strategy_hash).
 *  dp * mp * cp * pp = devices. Zero in the fields behind `placement` means the usual. */
struct cs_strategy {
    int32_t dp, mp, pp, cp, ep, vpp;
    int32_t op;   /* optimizer states sharded over groups of this many data-parallel ranks; 1 = replicated */
    int32_t zero; /* 1 states, 2 + gradients, 3 + parameters; canonical 1 when op is 1 */
    bool sp;      /* sequence parallel inside the tensor-parallel group; canonical false when mp is 1 */
    enum cs_schedule schedule;
    int32_t micro_batch; /* sequences per micro-batch */
    enum cs_recompute recompute;
    enum cs_dim placement[CS_N_DIMS];
    enum cs_cp_kind cp_kind;
    int32_t seq_split;      /* seqpipe: slices of a sequence; 0 = 1 */
    int32_t half_batches;   /* 2: each micro-batch in two halves, the communication of one under the
                               computation of the other (micro_batch_interleave_num); 0 = 1 */
    bool fused_tp;          /* products fused with their tensor-parallel communication (MC2) */
    bool keep_comm;         /* results of tensor-parallel communication are kept, so that recomputation
                               does not repeat it (mp_comm_recompute: False) */
    bool offload_optimizer; /* optimizer states live on the host */
    bool swap_activations;  /* what layers keep for backward goes to the host meanwhile */
    bool expert_mp;         /* experts' matrices are cut over mp like a dense MLP's, and ep is of dp * cp
                               ranks (Megatron-LM's default); else every mp rank has whole experts */
    bool keep_weights;      /* zero 3: weights stay gathered from a forward pass until no micro-batch waits
                               for its backward pass (FSDP's reshard_after_forward: False) */
    struct cs_per_place layers;           /* layers of each place; not given: dealt evenly */
    struct cs_per_place full_layers;      /* the first so many layers of a place are fully recomputed ... */
    struct cs_per_place selective_layers; /* ... and of the first so many the others selectively; given, both
                                             take the place of `recompute` */
};

/** 1 everywhere, 1f1b, no recomputation, placement mp,cp,dp,pp. */
void cs_strategy_init(struct cs_strategy *strategy);
/** Fields that mean nothing for this strategy get their canonical value (zero when op = 1, sp when mp = 1,
 *  keep_weights unless zero = 3, schedule when pp = 1, dimensions of degree 1 in the placement), so that
 * equal runs compare equal. */
void cs_strategy_canonicalise(struct cs_strategy *strategy);
/** A list of layers that says what the strategy has without it, for a model of this many layers, is dropped.
 */
void cs_strategy_drop_even(struct cs_strategy *strategy, int32_t n_layers);
bool cs_strategy_equal(const struct cs_strategy *a, const struct cs_strategy *b);
uint64_t cs_strategy_hash(const struct cs_strategy *strategy);
/** "dp=16,mp=2,pp=2,op=2,recompute=full" - keys at their default left out except dp, mp, pp; returns buf. */
char *cs_strategy_format(const struct cs_strategy *strategy, char *buf, size_t buf_bytes);
/** Parse "dp=16,mp=2,op=dp,..." over the values already in *strategy (`tp` = mp, op=dp means all
 * data-parallel ranks and is resolved after all keys). `mask`, if not NULL, receives a bit (1u << key index)
 * per key seen, in the order of cs_strategy_keys. CS_E_INPUT for unknown or repeated keys and bad values. */
CS_MUST_CHECK cs_status cs_strategy_parse(const char *text, struct cs_loc loc, struct cs_strategy *strategy,
                                          uint32_t *mask, struct cs_err *err);
/** The keys of a strategy in canonical order: dp mp pp op zero sp cp ep vpp schedule micro_batch recompute
 *  placement, then cp_kind seq_split half_batches fused_tp keep_comm offload_optimizer swap_activations
 *  expert_mp keep_weights layers full_layers selective_layers; NULL-terminated. Lists are written 5/6/6/5. */
extern const char *const cs_strategy_keys[];
/** Set one key from text (as in a study or on the command line); same errors as cs_strategy_parse. */
CS_MUST_CHECK cs_status cs_strategy_set(struct cs_strategy *strategy, const char *key, const char *text,
                                        struct cs_loc loc, struct cs_err *err);

/** Recomputation of layer number `index` of a place. */
enum cs_recompute cs_strategy_recompute(const struct cs_strategy *strategy, int32_t place, int32_t index);

/** Set a training's fusion from a YAML list of parameter numbers; NULL leaves it. `what` names it in
 * messages. CS_E_INPUT unless it is a list of ascending numbers above 0, at most CS_FUSION_MAX. */
CS_MUST_CHECK cs_status cs_fusion_read(struct cs_training *training, const struct cs_yaml_node *node,
                                       const char *what, struct cs_err *err);

/** Micro-batches that a strategy may have, or rule micro-batches-countable refuses it: programs hold a call
 * for each, so that a search over a mistyped batch would not end. */
#define CS_MICRO_BATCHES_MAX 65536
/** Micro-batches per step of one pipeline: global_batch / (dp * micro_batch); 0 when it does not divide. */
int64_t cs_strategy_micro_batches(const struct cs_strategy *strategy, const struct cs_training *training);

/** Shape of the cluster, as far as rules need it. */
struct cs_cluster_shape {
    int32_t n_devices;
    int32_t devices_per_node;
};

/** Validity: NULL when the strategy can run, else the name of the first rule that it breaks (a static
 *  text such as "heads-divisible", stable for counting), and the whole sentence with numbers in `why`.
 *  Rules: ../../README.md lists them. An infeasible strategy is a value, not an error. */
const char *cs_strategy_check(const struct cs_strategy *strategy, const struct cs_model *model,
                              const struct cs_training *training, const struct cs_cluster_shape *shape,
                              char *why, size_t why_bytes);

/** Does a strategy that can run ask for more than there is: of a place, more recomputed layers than it has
 * (all are recomputed then, as MindFormers does)? `why` receives a sentence. */
bool cs_strategy_exceeds(const struct cs_strategy *strategy, const struct cs_model *model, char *why,
                         size_t why_bytes);

/** Coordinate of a rank along a dimension under the strategy's placement, and back. */
int32_t cs_strategy_coord(const struct cs_strategy *strategy, int32_t rank, enum cs_dim dim);
int32_t cs_strategy_rank(const struct cs_strategy *strategy, const int32_t coord[CS_N_DIMS]);

#endif
