/* Memory and totals of a program, from blocks' summaries: the number of micro-batches costs nothing much. */
#include "cs/workloads/trace.h"

/** What one pass through a block does to the ledger. */
struct effect {
    bool known;
    int64_t net[CS_N_MEMS];
    int64_t net_total;
    int64_t highest;    /* largest running total inside, relative to the start; >= 0 only if something is
                           allocated */
    int32_t highest_op; /* after which operation; -1 = at the start */
};

static void block_effect(const struct cs_block *block, int32_t n_ops, struct effect *effect)
{
    *effect = (struct effect){.known = true, .highest_op = -1};
    for (int32_t i = 0; i < n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type != CS_OP_ALLOC && op->type != CS_OP_FREE) {
            continue;
        }
        int64_t bytes = op->type == CS_OP_ALLOC ? op->bytes : -op->bytes;
        effect->net[op->mem] += bytes;
        effect->net_total += bytes;
        if (effect->net_total > effect->highest) {
            effect->highest = effect->net_total;
            effect->highest_op = i;
        }
    }
}

void cs_trace_memory(const struct cs_trace *trace, int32_t program, struct cs_mem_peak *peak)
{
    const struct cs_program *p = &trace->programs[program];
    struct effect *effects = cs_calloc((size_t)trace->n_blocks, sizeof *effects);
    int64_t now[CS_N_MEMS] = {0};
    int64_t total = 0;
    *peak = (struct cs_mem_peak){.peak_op = -1};
    for (int32_t call = 0; call < p->n_calls; call++) {
        const struct cs_block *block = &trace->blocks[p->calls[call].block];
        struct effect *effect = &effects[p->calls[call].block];
        if (!effect->known) {
            block_effect(block, block->n_ops, effect);
        }
        if (total + effect->highest > peak->total_bytes) {
            struct effect part;
            block_effect(block, effect->highest_op + 1, &part);
            peak->total_bytes = total + effect->highest;
            peak->peak_call = call;
            peak->peak_op = effect->highest_op;
            for (int32_t m = 0; m < CS_N_MEMS; m++) {
                peak->by_category_bytes[m] = now[m] + part.net[m];
            }
        }
        total += effect->net_total;
        for (int32_t m = 0; m < CS_N_MEMS; m++) {
            now[m] += effect->net[m];
        }
    }
    peak->final_bytes = total;
    cs_free(effects);
}

static void add_block(const struct cs_trace *trace, const struct cs_block *block, double times,
                      struct cs_trace_totals *totals)
{
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COMPUTE) {
            const struct cs_op_cost *cost = &trace->costs[op->cost];
            bool counts = cs_opkind_is_matrix(cost->kind) && op->phase != CS_PHASE_OPTIMIZER;
            bool fused = cost->kind == CS_OPKIND_FLASH_FORWARD || cost->kind == CS_OPKIND_FLASH_BACKWARD;
            double flop = counts ? cost->flop * times : 0;
            flop /= fused && trace->attention_frac > 0 ? trace->attention_frac : 1;
            totals->compute_flop += flop;
            totals->computes_in[cost->dtype] |= flop > 0;
            totals->recompute_flop += op->phase == CS_PHASE_RECOMPUTE ? flop : 0;
        } else if (op->type == CS_OP_COLLECTIVE) {
            totals->coll_bytes[op->coll] += (double)op->bytes * times;
        } else if (op->type == CS_OP_SEND) {
            totals->send_bytes += (double)op->bytes * times;
        }
    }
}

void cs_trace_program_totals(const struct cs_trace *trace, int32_t program, struct cs_trace_totals *totals)
{
    const struct cs_program *p = &trace->programs[program];
    int32_t *times = cs_calloc((size_t)trace->n_blocks, sizeof *times);
    *totals = (struct cs_trace_totals){0};
    for (int32_t call = 0; call < p->n_calls; call++) {
        times[p->calls[call].block]++;
    }
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        if (times[b] > 0) {
            add_block(trace, &trace->blocks[b], times[b], totals);
            totals->n_ops += (int64_t)times[b] * trace->blocks[b].n_ops;
        }
    }
    cs_free(times);
}
