/* Strategies that the parts do not cover (experts, context parallelism, uneven stages, other schedules,
 * overlap, swapping): their trace is made, and says exactly what memory they need and how long each rank
 * computes. That is a lower bound as well, a weaker one: no rank ends before its compute stream has done its
 * work. */
#include "cost_priv.h"

#include <math.h>
#include <string.h>

/* What the compute stream of a program is busy for, at least. */
static double program_s(const struct cs_cost *cost, const struct cs_trace *trace,
                        const struct cs_program *program, const struct cs_chip *chip, double *block_s)
{
    double sum_s = 0;
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        block_s[b] = -1;
    }
    for (int32_t i = 0; i < program->n_calls; i++) {
        int32_t b = program->calls[i].block;
        if (block_s[b] < 0) {
            const struct cs_block *block = &trace->blocks[b];
            block_s[b] = 0;
            for (int32_t k = 0; k < block->n_ops; k++) {
                const struct cs_op *op = &block->ops[k];
                if (op->type == CS_OP_COMPUTE && op->stream == CS_STREAM_COMPUTE) {
                    block_s[b] += cs_chip_op_time_s(chip, &trace->costs[op->cost]) / cost->scale.compute;
                }
            }
        }
        sum_s += block_s[b];
    }
    return sum_s;
}

/* The longest of all ranks; ranks of a program on the same chip take the same. */
static double longest_s(const struct cs_cost *cost, const struct cs_trace *trace)
{
    const struct cs_chip **seen = cs_calloc((size_t)trace->n_programs, sizeof *seen);
    double *block_s = cs_calloc((size_t)trace->n_blocks + 1, sizeof *block_s);
    double most_s = 0;
    for (int32_t rank = 0; rank < trace->n_ranks && rank < cost->platform->n_devices; rank++) {
        const struct cs_chip *chip = cost->platform->devices[rank].chip;
        int32_t program = trace->program_of_rank[rank];
        if (seen[program] != chip) {
            seen[program] = chip;
            most_s = fmax(most_s, program_s(cost, trace, &trace->programs[program], chip, block_s));
        }
    }
    cs_free(seen);
    cs_free(block_s);
    return most_s;
}

static struct cs__trace_part measure(const struct cs_cost *cost, const struct cs_strategy *strategy)
{
    struct cs__trace_part part = {.strategy = *strategy};
    struct cs_err ignored = {0};
    struct cs_trace *trace = NULL;
    struct cs_metrics metrics;
    memset(&metrics, 0, sizeof metrics);
    if (cs_trace_build(cost->model, cost->training, strategy, &trace, &ignored) == CS_OK) {
        cs_engine_memory(trace, cost->platform, &metrics);
        part.compute_s = longest_s(cost, trace);
        part.peak_bytes = metrics.peak_memory_bytes;
        for (int32_t i = 0; i < trace->n_programs; i++) {
            part.state_bytes = fmax(part.state_bytes, trace->programs[i].state_bytes);
        }
    }
    cs_trace_free(trace);
    return part;
}

/* Where its ranks are changes nothing that is asked for here, unless devices differ. */
static bool devices_differ(const struct cs_platform *platform)
{
    for (int32_t i = 1; i < platform->n_devices; i++) {
        if (platform->devices[i].chip != platform->devices[0].chip) {
            return true;
        }
    }
    return false;
}

const struct cs__trace_part *cs__cost_trace(struct cs_cost *cost, const struct cs_strategy *strategy)
{
    struct cs_strategy s = *strategy;
    if (!devices_differ(cost->platform)) {
        struct cs_strategy standard;
        cs_strategy_init(&standard);
        memcpy(s.placement, standard.placement, sizeof s.placement);
    }
    for (int64_t turn = 0;; turn++) { /* equal hashes of unequal strategies: the last word counts them */
        const int64_t key[CS__MEMO_WORDS] = {(int64_t)cs_strategy_hash(&s), turn};
        int32_t index = cs__memo_find(&cost->trace_memo, key);
        if (index < 0) {
            CS_GROW(cost->traces, cost->n_traces, cost->cap_traces);
            cost->traces[cost->n_traces] = measure(cost, &s);
            cs__memo_put(&cost->trace_memo, key, cost->n_traces);
            return &cost->traces[cost->n_traces++];
        }
        if (cs_strategy_equal(&cost->traces[index].strategy, &s)) {
            return &cost->traces[index];
        }
    }
}
