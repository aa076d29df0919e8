/* Strategies that the parts do not cover (experts, context parallelism, other schedules, overlap, swapping):
 * their trace is made. It says exactly what memory they need, and for one rank of every stage what its
 * compute stream has to do: compute, and wait for tensor- and context-parallel collectives. From that a lower
 * bound, weaker than that of the parts: a stage cannot begin before a first micro-batch has passed forward
 * through the stages before it, and where backward passes hand gradients on to the very end, not end before
 * those stages have run backward once more. Other communication is left out. */
#include "cost_priv.h"

#include <math.h>
#include <string.h>

/** A trace that is measured, and what many of its operations share. */
struct measured {
    struct cs_cost *cost;
    const struct cs_trace *trace;
    const struct cs_chip *chip; /* whose times are kept; NULL = none yet */
    double *op_s;               /* per trace->costs, NaN = not asked yet */
    enum cs_cost_group *groups; /* per trace->comms; CS_N_COST_GROUPS = not counted */
};

static void measured_init(struct measured *m, struct cs_cost *cost, const struct cs_trace *trace)
{
    *m = (struct measured){.cost = cost, .trace = trace};
    m->op_s = cs_calloc((size_t)trace->n_costs + 1, sizeof *m->op_s);
    m->groups = cs_calloc((size_t)trace->n_comms + 1, sizeof *m->groups);
    for (int32_t i = 0; i < trace->n_comms; i++) {
        const char *name = trace->comms[i].name;
        m->groups[i] = strcmp(name, "tp") == 0   ? CS_COST_TP
                       : strcmp(name, "cp") == 0 ? CS_COST_CP
                                                 : CS_N_COST_GROUPS;
    }
}

static void measured_release(struct measured *m)
{
    cs_free(m->op_s);
    cs_free(m->groups);
}

/* Stages may sit on different chips. */
static void take_chip(struct measured *m, const struct cs_chip *chip)
{
    if (m->chip != chip) {
        m->chip = chip;
        for (int32_t i = 0; i < m->trace->n_costs; i++) {
            m->op_s[i] = (double)NAN;
        }
    }
}

static double op_time_s(struct measured *m, int32_t cost)
{
    if (isnan(m->op_s[cost])) {
        m->op_s[cost] = cs_chip_op_time_s(m->chip, &m->trace->costs[cost]) / m->cost->scale.compute;
    }
    return m->op_s[cost];
}

/* The group of a collective that is counted; CS_N_COST_GROUPS for others. */
static enum cs_cost_group group_of(const struct measured *m, const struct cs_op *op)
{
    bool blocks = op->type == CS_OP_COLLECTIVE && op->stream == CS_STREAM_COMPUTE;
    return blocks ? m->groups[op->comm] : CS_N_COST_GROUPS;
}

static void add_coll(struct cs__trace_block *out, enum cs_cost_group group, const struct cs_op *op)
{
    for (int32_t i = 0; i < out->n_colls; i++) {
        struct cs__trace_coll *coll = &out->colls[i];
        if (coll->group == group && (int32_t)coll->coll == op->coll && coll->bytes == op->bytes) {
            coll->n++;
            return;
        }
    }
    out->colls[out->n_colls++] = (struct cs__trace_coll){group, (enum cs_coll)op->coll, op->bytes, 1};
}

static void take_block(struct measured *m, const struct cs_block *block, struct cs__trace_block *out)
{
    int32_t n_colls = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        n_colls += group_of(m, &block->ops[i]) != CS_N_COST_GROUPS;
    }
    out->colls = CS_ARENA_NEW(&m->cost->arena, struct cs__trace_coll, n_colls + 1);
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        enum cs_cost_group group = group_of(m, op);
        if (group != CS_N_COST_GROUPS) {
            add_coll(out, group, op);
        } else if (op->type == CS_OP_COMPUTE && op->stream == CS_STREAM_COMPUTE) {
            out->compute_s += op_time_s(m, op->cost);
            out->is_forward = out->is_forward || op->phase == CS_PHASE_FORWARD;
            out->is_backward = out->is_backward || op->phase == CS_PHASE_BACKWARD;
        }
    }
}

/* First forward and last backward call of a program; -1 = none. */
static void find_ends(const struct cs_program *program, const struct cs__trace_block *blocks,
                      const int32_t *number, int32_t *first, int32_t *last)
{
    *first = *last = -1;
    for (int32_t i = 0; i < program->n_calls; i++) {
        const struct cs__trace_block *block = &blocks[number[program->calls[i].block]];
        if (*first < 0 && block->is_forward && !block->is_backward) {
            *first = i;
        }
        *last = block->is_backward ? i : *last;
    }
}

static void take_program(struct measured *m, const struct cs_program *program, struct cs__trace_stage *out)
{
    const struct cs_trace *trace = m->trace;
    int32_t *number = cs_calloc((size_t)trace->n_blocks + 1, sizeof *number);
    int32_t first;
    int32_t last;
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        number[b] = -1;
    }
    for (int32_t i = 0; i < program->n_calls; i++) {
        int32_t *n = &number[program->calls[i].block];
        *n = *n < 0 ? out->n_blocks++ : *n;
    }
    out->blocks = cs_arena_calloc(&m->cost->arena, (size_t)out->n_blocks + 1, sizeof *out->blocks);
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        if (number[b] >= 0) {
            take_block(m, &trace->blocks[b], &out->blocks[number[b]]);
        }
    }
    find_ends(program, out->blocks, number, &first, &last);
    out->first_forward = first < 0 ? -1 : number[program->calls[first].block];
    for (int32_t i = 0; i < program->n_calls; i++) {
        int32_t span = i < first ? CS__BEFORE : i <= last ? CS__PASSES : CS__BEHIND;
        out->blocks[number[program->calls[i].block]].n_calls[span]++;
    }
    cs_free(number);
}

static struct cs__trace_part measure(struct cs_cost *cost, const struct cs_strategy *strategy)
{
    struct cs__trace_part part = {.strategy = *strategy};
    struct cs_err ignored = {0};
    struct cs_trace *trace = NULL;
    struct cs_metrics metrics;
    memset(&metrics, 0, sizeof metrics);
    if (cs_trace_build(cost->model, cost->training, strategy, &trace, &ignored) == CS_OK) {
        cs_engine_memory(trace, cost->platform, &metrics);
        part.peak_bytes = metrics.peak_memory_bytes;
        part.n_stages = strategy->pp;
        part.stages = cs_arena_calloc(&cost->arena, (size_t)part.n_stages, sizeof *part.stages);
        struct measured m;
        measured_init(&m, cost, trace);
        for (int32_t stage = 0; stage < part.n_stages; stage++) {
            int32_t coord[CS_N_DIMS] = {[CS_DIM_PP] = stage};
            int32_t rank = cs_strategy_rank(strategy, coord);
            take_chip(&m, cost->platform->devices[rank].chip);
            take_program(&m, &trace->programs[trace->program_of_rank[rank]], &part.stages[stage]);
        }
        measured_release(&m);
        for (int32_t i = 0; i < trace->n_programs; i++) {
            part.state_bytes = fmax(part.state_bytes, trace->programs[i].state_bytes);
        }
    }
    cs_trace_free(trace);
    return part;
}

/* Where its ranks are changes nothing that is kept here, unless devices differ. */
static bool devices_differ(const struct cs_platform *platform)
{
    for (int32_t i = 1; i < platform->n_devices; i++) {
        if (platform->devices[i].chip != platform->devices[0].chip) {
            return true;
        }
    }
    return false;
}

static const struct cs__trace_part *part_of(struct cs_cost *cost, const struct cs_strategy *strategy)
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

static double block_s(struct cs_cost *cost, const struct cs__trace_block *block, const int32_t *group)
{
    double sum_s = block->compute_s;
    for (int32_t i = 0; i < block->n_colls; i++) {
        const struct cs__trace_coll *coll = &block->colls[i];
        sum_s += coll->n * cs__cost_coll(cost, group[coll->group], coll->coll, coll->bytes).time_s;
    }
    return sum_s;
}

/** Times of a stage. */
struct work {
    double span_s[CS__N_SPANS];
    double forward_s;  /* the first forward pass */
    double backward_s; /* the shortest pass with gradients of inputs */
};

static struct work work_of(struct cs_cost *cost, const struct cs__trace_stage *stage, const int32_t *group)
{
    struct work work = {.backward_s = (double)INFINITY};
    for (int32_t b = 0; b < stage->n_blocks; b++) {
        const struct cs__trace_block *block = &stage->blocks[b];
        double time_s = block_s(cost, block, group);
        for (int32_t span = 0; span < CS__N_SPANS; span++) {
            work.span_s[span] += block->n_calls[span] * time_s;
        }
        work.forward_s = b == stage->first_forward ? time_s : work.forward_s;
        work.backward_s = block->is_backward ? fmin(work.backward_s, time_s) : work.backward_s;
    }
    work.backward_s = isinf(work.backward_s) ? 0 : work.backward_s;
    return work;
}

void cs__cost_trace(struct cs_cost *cost, const struct cs_strategy *strategy, struct cs_estimate *estimate)
{
    const struct cs__trace_part part = *part_of(cost, strategy);
    int32_t layout = cs__cost_layout(cost, strategy);
    enum cs_schedule schedule = strategy->schedule;
    /* DualPipe begins at both ends; where gradients of weights have passes of their own, the last pass of a
     * stage may be one that nobody waits for. */
    bool fills = schedule != CS_SCHED_DUALPIPE;
    bool drains = schedule == CS_SCHED_GPIPE || schedule == CS_SCHED_1F1B ||
                  schedule == CS_SCHED_INTERLEAVED || schedule == CS_SCHED_SEQPIPE;
    double fill_s = 0;
    double drain_s = 0;
    double end_s = 0;
    for (int32_t i = 0; i < part.n_stages; i++) {
        struct work work = work_of(cost, &part.stages[i], cost->layouts[layout].group[i]);
        double passes_s = (fills ? fill_s : 0) + work.span_s[CS__PASSES];
        double behind_s = fmax(work.span_s[CS__BEHIND], drains ? drain_s : 0);
        end_s = fmax(end_s, fmax(passes_s, work.span_s[CS__BEFORE] + work.span_s[CS__PASSES]) + behind_s);
        fill_s += work.forward_s;
        drain_s += work.backward_s;
    }
    *estimate = (struct cs_estimate){.time_s = end_s,
                                     .peak_memory_bytes = part.peak_bytes,
                                     .state_bytes = part.state_bytes,
                                     .is_coarse = true};
}
