/**
 * @file workload_fixture.h
 * Models and training settings made to measure, for tests of the workloads room.
 */
#ifndef CS_TESTS_UNIT_WORKLOAD_FIXTURE_H
#define CS_TESTS_UNIT_WORKLOAD_FIXTURE_H

#include "cs/workloads/trace.h"

/** A shipped model; ends the test when it cannot be read. */
struct cs_model workload_model(const char *name);
/** A GPT as Megatron builds it: biases, layer norm, GELU, learned positions, tied vocabulary, dropout. */
struct cs_model workload_gpt(int32_t n_layers, int64_t hidden, int64_t n_heads, int64_t vocab);
/** A small mixture of experts: grouped key-value heads, two dense layers first, a shared expert; with
 * `latent` also latent attention and a module for multi-token prediction. */
struct cs_model workload_moe(int32_t n_layers, bool latent);
/** bf16, fp32 gradients, AdamW, 64 MB buckets, clipping; flash attention as the model has it. */
struct cs_training workload_training(const struct cs_model *model, int64_t global_batch, int64_t seq_length);
/** What tests of options start from: a GPT of four layers 512 wide without dropout, 8 sequences of 1024. */
void workload_small(struct cs_model *model, struct cs_training *training);
struct cs_strategy workload_strategy(const char *text);
/** Build and check a trace; ends the test when either fails. */
struct cs_trace *workload_trace(const struct cs_model *model, const struct cs_training *training,
                                const char *strategy);

/** First block of that name that the program calls; NULL = none. */
const struct cs_block *workload_block(const struct cs_trace *trace, int32_t program, const char *name);

/** What to count; fields left out match anything. Numbers are written IS(value). */
struct workload_filter {
    int32_t type, coll, mem, phase, layer;
    const char *comm, *label;
};
#define IS(value) ((int32_t)(value) + 1)
/** Operations of the block that pass, and their bytes. */
int32_t workload_count(const struct cs_trace *trace, const struct cs_block *block,
                       struct workload_filter filter, int64_t *bytes);

/** Memory traffic of the operators of a pass with this label, on the first rank, and the kernels they launch.
 */
double workload_traffic(const struct cs_trace *trace, const char *pass, const char *label,
                        int32_t *n_kernels);

#endif
