/* Strategies that the parts do not cover (experts, context parallelism, other schedules, overlap, swapping):
 * their trace is made. It says exactly what memory they need, and for one rank of every stage what its
 * streams have to do. From that a lower bound, weaker than that of the parts, the longest of the compute
 * stream: computing and the collectives that hold it up; a stage cannot begin before a first micro-batch has
 * passed forward through the stages before it, and where backward passes hand gradients on to the very end,
 * not end before those stages have run backward once more; each other stream: its collectives one after
 * another; the link by which the rank leaves its node: what all its collectives send there. Messages and
 * waiting between streams are left out. */
#include "cost_priv.h"

#include <math.h>
#include <string.h>

/** The ranks of a communicator: a group of the layout, or one that only the trace knows. */
struct whose {
    bool counted;
    bool is_own;
    enum cs_cost_group group;
};

/** A trace that is measured, and what many of its operations share. */
struct measured {
    struct cs_cost *cost;
    const struct cs_trace *trace;
    const struct cs_chip *chip; /* whose times are kept; NULL = none yet */
    double *op_s;               /* per trace->costs, NaN = not asked yet */
    struct whose *groups;       /* per trace->comms */
};

static struct whose whose_of(const char *comm)
{
    static const struct {
        const char *comm;
        enum cs_cost_group group;
    } of_layout[] = {{"tp", CS_COST_TP}, {"tp-async", CS_COST_TP}, {"cp", CS_COST_CP},  {"dp", CS_COST_DP},
                     {"op", CS_COST_OP}, {"gather", CS_COST_OP},   {"dpx", CS_COST_DPX}};
    static const char *const own[] = {"ep",        "ep-async",      "expert-dp",
                                      "expert-op", "expert-gather", "expert-dpx"};
    for (int32_t i = 0; i < CS_COUNT(of_layout); i++) {
        if (strcmp(comm, of_layout[i].comm) == 0) {
            return (struct whose){true, false, of_layout[i].group};
        }
    }
    for (int32_t i = 0; i < CS_COUNT(own); i++) {
        if (strcmp(comm, own[i]) == 0) {
            return (struct whose){true, true, CS_N_COST_GROUPS};
        }
    }
    return (struct whose){0}; /* small */
}

static void measured_init(struct measured *m, struct cs_cost *cost, const struct cs_trace *trace)
{
    *m = (struct measured){.cost = cost, .trace = trace};
    m->op_s = cs_calloc((size_t)trace->n_costs + 1, sizeof *m->op_s);
    m->groups = cs_calloc((size_t)trace->n_comms + 1, sizeof *m->groups);
    for (int32_t i = 0; i < trace->n_comms; i++) {
        m->groups[i] = whose_of(trace->comms[i].name);
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

static bool is_counted(const struct measured *m, const struct cs_op *op)
{
    return op->type == CS_OP_COLLECTIVE && op->stream < CS__STREAMS && m->groups[op->comm].counted;
}

/* The number of the group that a rank is in. */
static int32_t own_group(struct measured *m, const struct cs_comm *comm, int32_t rank)
{
    int32_t at = comm->group_of_rank[rank];
    if (at < 0) {
        return -1;
    }
    const struct cs_members members = {comm->group_first[at + 1] - comm->group_first[at],
                                       &comm->members[comm->group_first[at]]};
    return cs__cost_intern_group(m->cost, &members);
}

static void add_coll(struct measured *m, struct cs__trace_block *out, const struct cs_op *op, int32_t rank)
{
    const struct whose *whose = &m->groups[op->comm];
    int32_t own = whose->is_own ? own_group(m, &m->trace->comms[op->comm], rank) : -1;
    for (int32_t i = 0; i < out->n_colls; i++) {
        struct cs__trace_coll *coll = &out->colls[i];
        if (coll->group == whose->group && coll->own == own && (int32_t)coll->coll == op->coll &&
            coll->stream == op->stream && coll->bytes == op->bytes) {
            coll->n++;
            return;
        }
    }
    out->colls[out->n_colls++] =
        (struct cs__trace_coll){whose->group, own, (enum cs_coll)op->coll, op->stream, op->bytes, 1};
}

static void take_block(struct measured *m, const struct cs_block *block, int32_t rank,
                       struct cs__trace_block *out)
{
    int32_t n_colls = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        n_colls += is_counted(m, &block->ops[i]);
    }
    out->colls = CS_ARENA_NEW(&m->cost->arena, struct cs__trace_coll, n_colls + 1);
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (is_counted(m, op)) {
            add_coll(m, out, op, rank);
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

static void take_program(struct measured *m, int32_t rank, struct cs__trace_stage *out)
{
    const struct cs_program *program = &m->trace->programs[m->trace->program_of_rank[rank]];
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
            take_block(m, &trace->blocks[b], rank, &out->blocks[number[b]]);
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

/* What the streams of a stage's rank have to do, for every stage. */
static void measure_stages(struct cs_cost *cost, const struct cs_strategy *strategy,
                           const struct cs_trace *trace, struct cs__trace_part *part)
{
    struct measured m;
    part->n_stages = strategy->pp;
    part->stages = cs_arena_calloc(&cost->arena, (size_t)part->n_stages, sizeof *part->stages);
    measured_init(&m, cost, trace);
    for (int32_t stage = 0; stage < part->n_stages; stage++) {
        int32_t coord[CS_N_DIMS] = {[CS_DIM_PP] = stage};
        int32_t rank = cs_strategy_rank(strategy, coord);
        take_chip(&m, cost->platform->devices[rank].chip);
        take_program(&m, rank, &part->stages[stage]);
    }
    measured_release(&m);
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
        if ((double)part.peak_bytes <= cost->limit_bytes) {
            measure_stages(cost, strategy, trace, &part);
        }
        for (int32_t i = 0; i < trace->n_programs; i++) {
            part.state_bytes = fmax(part.state_bytes, trace->programs[i].state_bytes);
        }
    }
    cs_trace_free(trace);
    return part;
}

/* Where its ranks are changes nothing that is kept here, unless devices differ or groups are kept. */
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
    if (!devices_differ(cost->platform) && cost->model->n_experts == 0) {
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

static struct cs__cost_coll coll_of(struct cs_cost *cost, const struct cs__trace_coll *coll,
                                    const int32_t *group)
{
    int32_t number = coll->group == CS_N_COST_GROUPS ? coll->own : group[coll->group];
    return cs__cost_coll(cost, number, coll->coll, coll->bytes);
}

/** What a rank's streams and its NIC are busy with. */
struct traffic {
    double stream_s[CS__STREAMS]; /* but the compute stream */
    double nic_s;
    int32_t nic; /* the link, -1 = none yet */
};

/* Time of a block on the compute stream; its collectives are added to the traffic, `n_calls` times. */
static double block_s(struct cs_cost *cost, const struct cs__trace_block *block, const int32_t *group,
                      struct traffic *traffic)
{
    double sum_s = block->compute_s;
    int32_t n_calls = 0;
    for (int32_t span = 0; span < CS__N_SPANS; span++) {
        n_calls += block->n_calls[span];
    }
    for (int32_t i = 0; i < block->n_colls; i++) {
        const struct cs__trace_coll *coll = &block->colls[i];
        struct cs__cost_coll one = coll_of(cost, coll, group);
        if (coll->stream == CS_STREAM_COMPUTE) {
            sum_s += coll->n * one.time_s;
        } else {
            traffic->stream_s[coll->stream] += (double)n_calls * coll->n * one.time_s;
        }
        traffic->nic = traffic->nic < 0 ? one.nic : traffic->nic;
        if (one.nic >= 0 && one.nic == traffic->nic) {
            traffic->nic_s += (double)n_calls * coll->n * one.nic_s;
        }
    }
    return sum_s;
}

/** Times of a stage. */
struct work {
    double span_s[CS__N_SPANS];
    double forward_s;  /* the first forward pass */
    double backward_s; /* the shortest pass with gradients of inputs */
    double traffic_s;  /* the busiest of the other streams and the NIC */
};

static struct work work_of(struct cs_cost *cost, const struct cs__trace_stage *stage, const int32_t *group)
{
    struct work work = {.backward_s = (double)INFINITY};
    struct traffic traffic = {.nic = -1};
    for (int32_t b = 0; b < stage->n_blocks; b++) {
        const struct cs__trace_block *block = &stage->blocks[b];
        double time_s = block_s(cost, block, group, &traffic);
        for (int32_t span = 0; span < CS__N_SPANS; span++) {
            work.span_s[span] += block->n_calls[span] * time_s;
        }
        work.forward_s = b == stage->first_forward ? time_s : work.forward_s;
        work.backward_s = block->is_backward ? fmin(work.backward_s, time_s) : work.backward_s;
    }
    work.backward_s = isinf(work.backward_s) ? 0 : work.backward_s;
    work.traffic_s = traffic.nic_s;
    for (int32_t i = 0; i < CS__STREAMS; i++) {
        work.traffic_s = cs__later(work.traffic_s, traffic.stream_s[i]);
    }
    return work;
}

void cs__cost_trace(struct cs_cost *cost, const struct cs_strategy *strategy, struct cs_estimate *estimate)
{
    const struct cs__trace_part part = *part_of(cost, strategy);
    if (part.n_stages == 0) {
        *estimate = (struct cs_estimate){
            .peak_memory_bytes = part.peak_bytes, .state_bytes = part.state_bytes, .is_coarse = true};
        return;
    }
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
        end_s = cs__later(end_s, work.traffic_s);
        fill_s += work.forward_s;
        drain_s += work.backward_s;
    }
    *estimate = (struct cs_estimate){.time_s = end_s,
                                     .peak_memory_bytes = part.peak_bytes,
                                     .state_bytes = part.state_bytes,
                                     .is_coarse = true};
}
