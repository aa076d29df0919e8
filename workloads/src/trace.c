/* From a strategy to programs. */
#include "schedule_priv.h"
#include "stage_priv.h"

#include <math.h>
#include <stdio.h>

/* Sizes above this lose exactness as doubles and come near the end of int64_t. */
#define SIZE_MAX_ELEMENTS 1e15
/* Calls of all programs together: 16 bytes of memory each. */
#define CALLS_MAX (INT64_C(1) << 26)

const char *const cs_coll_names[] = {"all-reduce", "all-gather", "reduce-scatter",
                                     "all-to-all", "broadcast",  NULL};
const char *const cs_mem_names[] = {"weights", "gradients", "optimizer", "activations", "buffers", NULL};

void cs_trace_free(struct cs_trace *trace)
{
    if (trace != NULL) {
        cs_arena_release(&trace->arena);
        cs_free(trace);
    }
}

/* Forward: first (kept weights are gathered) or not. Backward: last or not, times 0, 1 or 2 outstanding,
 * times kept weights are dropped or not. Both times a gradient is left to the next pass or not. */
#define N_VARIANTS 24
#define VARIANT_DROPS 6
#define VARIANT_LEFT 12

/** The program of a stage under construction: blocks that have been made, by what tells them apart. */
struct maker {
    struct cs_builder *builder;
    struct cs_stage stage;
    struct cs_spread spread;
    int32_t *blocks;                  /* [chunk][part][kind][variant]; -1 = not yet */
    int32_t joined[2][2][N_VARIANTS]; /* [chunk of the forward pass][its variant][the other's]; block + 1, 0 =
                                         not yet */
    struct cs_oplist list;
    int32_t n_units;     /* a chunk's micro-batches times parts */
    int32_t outstanding; /* see struct cs_pass_kind */
    const struct cs_slot *slots_end;
    bool owes; /* the last pass has left a gradient to be sent */
    struct {
        int32_t forward, weight; /* passes so far */
        int32_t in_flight;       /* forward passes whose backward pass is to come */
    } done[CS_CHUNKS_MAX];
};

static const char *block_name(const struct maker *m, const struct cs_chunk *chunk,
                              const struct cs_pass_kind *pass, char *buf, size_t buf_bytes)
{
    static const char *const kinds[CS_N_SLOT_KINDS] = {"forward", "backward", "input gradients",
                                                       "weight gradients"};
    const bool first = pass->kind == CS_SLOT_FORWARD ? pass->first
                                                     : m->spread.scatter_always && pass->outstanding == 0 &&
                                                           pass->kind != CS_SLOT_INPUT;
    char which[32] = "";
    char part[32] = "";
    if (m->stage.n_chunks > 1) {
        (void)snprintf(which, sizeof which, " chunk %d", (int)chunk->index);
    }
    if (m->builder->pipeline.n_parts > 1) {
        (void)snprintf(part, sizeof part, " slice %d", (int)pass->part);
    }
    const bool held = m->spread.keep_weights;
    (void)snprintf(buf, buf_bytes, "%s%s%s%s%s%s", kinds[pass->kind], which, part,
                   pass->owes     ? " after gradient"
                   : pass->defers ? " before gradient"
                                  : "",
                   held && pass->gathers ? " gathering"
                   : held && pass->drops ? " dropping"
                                         : "",
                   first && pass->last ? " (only)"
                   : first             ? " (first)"
                   : pass->last        ? " (last)"
                                       : "");
    return buf;
}

/** Where weights are gathered and dropped: for each pass, or held over all that are in flight. Gradients of
 *  weights need none. */
static void place_weights(struct maker *m, const struct cs_slot *slot, struct cs_pass_kind *pass)
{
    int32_t *in_flight = &m->done[slot->chunk].in_flight;
    if (pass->kind == CS_SLOT_WEIGHT || !m->spread.gather_always) {
        return;
    }
    const bool forward = pass->kind == CS_SLOT_FORWARD;
    const bool alone = (forward ? (*in_flight)++ : --*in_flight) == 0;
    pass->gathers = !m->spread.keep_weights || (forward && alone);
    pass->drops = !m->spread.keep_weights || (!forward && alone);
}

/** Where a pair of neighbours exchanges outputs before gradients, a backward pass leaves its gradient to the
 *  forward pass behind it. */
static void leave_gradient(struct maker *m, const struct cs_slot *slot, struct cs_pass_kind *pass)
{
    if (!cs__stage_serial(&m->stage)) {
        return;
    }
    pass->owes = pass->kind == CS_SLOT_FORWARD && m->owes;
    pass->defers =
        pass->kind == CS_SLOT_BACKWARD && slot + 1 < m->slots_end && slot[1].kind == CS_SLOT_FORWARD;
    m->owes = pass->defers;
}

/** Which pass a slot is, the next one of the program; *variant tells its blocks apart. */
static struct cs_pass_kind next_pass(struct maker *m, const struct cs_slot *slot, int32_t *variant)
{
    struct cs_pass_kind pass = {.kind = (enum cs_slot_kind)slot->kind, .part = slot->part};
    *variant = 0;
    place_weights(m, slot, &pass);
    if (pass.kind == CS_SLOT_FORWARD) {
        bool differs = m->spread.sharded && !m->spread.gather_always;
        pass.first = differs && m->done[slot->chunk].forward++ == 0;
        *variant = pass.first || (m->spread.keep_weights && pass.gathers);
    } else if (pass.kind != CS_SLOT_INPUT) {
        bool last = ++m->done[slot->chunk].weight == m->n_units;
        pass.last = last && m->spread.reduces &&
                    (!m->spread.scatter_always || m->spread.dpx > 1 || m->builder->model->n_experts > 0);
        pass.outstanding = m->spread.scatter_always ? m->outstanding : 0;
        m->outstanding = cs__chunk_outstanding(&m->stage.chunks[slot->chunk]);
        *variant = pass.last + 2 * pass.outstanding;
    }
    if (m->spread.keep_weights && pass.drops) {
        *variant += VARIANT_DROPS;
    }
    leave_gradient(m, slot, &pass);
    *variant += pass.owes || pass.defers ? VARIANT_LEFT : 0;
    return pass;
}

static void emit_pass(struct maker *m, const struct cs_slot *slot, const struct cs_pass_kind *pass,
                      struct cs_oplist *list)
{
    const struct cs_chunk *chunk = &m->stage.chunks[slot->chunk];
    (pass->kind == CS_SLOT_FORWARD ? cs__chunk_forward : cs__chunk_backward)(chunk, list, pass);
}

/** The block of a slot, made at its first use. */
static int32_t slot_block(struct maker *m, const struct cs_slot *slot)
{
    int32_t variant;
    struct cs_pass_kind pass = next_pass(m, slot, &variant);
    int32_t *block = &m->blocks[((slot->chunk * m->builder->pipeline.n_parts + slot->part) * CS_N_SLOT_KINDS +
                                 slot->kind) *
                                    N_VARIANTS +
                                variant];
    if (*block < 0) {
        char name[96];
        m->list.n = 0;
        emit_pass(m, slot, &pass, &m->list);
        *block = cs__builder_block(
            m->builder, block_name(m, &m->stage.chunks[slot->chunk], &pass, name, sizeof name), &m->list);
    }
    return *block;
}

/** The block of two slots side by side: a forward pass and a backward pass of the other chunk. */
static int32_t joined_block(struct maker *m, const struct cs_slot *slots)
{
    int32_t variants[2];
    struct cs_pass_kind passes[2];
    for (int32_t i = 0; i < 2; i++) {
        passes[i] = next_pass(m, &slots[i], &variants[i]);
    }
    int32_t *block = &m->joined[slots[0].chunk][variants[0]][variants[1]];
    if (*block == 0) {
        char names[2][96];
        char name[200];
        struct cs_oplist lists[2] = {0};
        for (int32_t i = 0; i < 2; i++) {
            emit_pass(m, &slots[i], &passes[i], &lists[i]);
            (void)block_name(m, &m->stage.chunks[slots[i].chunk], &passes[i], names[i], sizeof names[i]);
        }
        m->list.n = 0;
        cs__stage_join(&m->stage, &m->list, &lists[0], &lists[1]);
        (void)snprintf(name, sizeof name, "%s, %s", names[0], names[1]);
        *block = cs__builder_block(m->builder, name, &m->list) + 1;
        cs__oplist_release(&lists[0]);
        cs__oplist_release(&lists[1]);
    }
    return *block - 1;
}

static void add_call(struct cs_program *program, int32_t block, int32_t micro_batch)
{
    program->calls[program->n_calls++] = (struct cs_call){.block = block, .micro_batch = micro_batch};
}

/** Chunks in the order in which the stage uses them first. */
static void first_uses(int32_t n_chunks, const struct cs_slot *slots, int32_t n_slots, int32_t *order)
{
    uint64_t seen = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < n_slots && n < n_chunks; i++) {
        if (!(seen >> slots[i].chunk & 1)) {
            seen |= UINT64_C(1) << slots[i].chunk;
            order[n++] = slots[i].chunk;
        }
    }
}

/** The program of a pipeline stage from its order. */
static void build_program(struct cs_builder *builder, const struct cs_plan_set *plans, int32_t index,
                          const struct cs_slot *slots, int32_t n_slots)
{
    const struct cs_pipeline *p = &builder->pipeline;
    struct maker m = {.builder = builder, .spread = cs__spread(builder), .slots_end = slots + n_slots};
    struct cs_arena *arena = &builder->trace->arena;
    struct cs_program *program = &builder->trace->programs[index];
    int32_t order[CS_CHUNKS_MAX] = {0};
    int32_t n_variants = p->n_chunks * p->n_parts * CS_N_SLOT_KINDS * N_VARIANTS;
    m.n_units = p->n_micro_batches * p->n_parts / (p->mirrored ? 2 : 1);
    m.blocks = cs_calloc((size_t)n_variants, sizeof *m.blocks);
    for (int32_t i = 0; i < n_variants; i++) {
        m.blocks[i] = -1;
    }
    const struct cs_stage *stage = &m.stage;
    cs__stage_init(&m.stage, builder, plans, index);
    first_uses(p->n_chunks, slots, n_slots, order);
    program->role = cs_arena_printf(arena, "stage %d of %d", (int)index, (int)builder->strategy.pp);
    program->stage = index;
    program->state_bytes = (double)(stage->weight_bytes + stage->gradient_bytes + stage->optimizer_bytes);
    program->calls = CS_ARENA_NEW(arena, struct cs_call, n_slots + 2);

    cs__stage_prologue(stage, &m.list, order);
    add_call(program, cs__builder_block(builder, "prologue", &m.list), -1);
    const bool joins = cs__stage_joins(stage);
    for (int32_t i = 0; i < n_slots; i++) {
        const bool joined = joins && slots[i].joined;
        add_call(program, (joined ? joined_block : slot_block)(&m, &slots[i]), slots[i].micro_batch);
        i += joined ? 1 : 0;
    }
    m.list.n = 0;
    cs__stage_epilogue(stage, &m.list, m.outstanding);
    add_call(program, cs__builder_block(builder, "epilogue", &m.list), -1);
    cs__oplist_release(&m.list);
    cs_free(m.blocks);
}

/** The orders of all stages, checked, and a program from each. */
static cs_status build_programs(struct cs_builder *builder, const struct cs_plan_set *plans,
                                struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_pipeline *p = &builder->pipeline;
    struct cs_slot *slots = cs_calloc((size_t)(cs__pipeline_slots_max(p) * p->pp), sizeof *slots);
    int32_t *n = cs_calloc((size_t)p->pp, sizeof *n);
    int64_t at = 0;
    for (int32_t stage = 0; stage < p->pp; stage++) {
        n[stage] = cs__pipeline_order(p, stage, slots + at);
        at += n[stage];
    }
    if (!cs__pipeline_finishes(p, slots, n)) {
        st = cs_err_set(err, CS_E_DEADLOCK, CS_NOLOC,
                        "schedule %s on %d stages with %d micro-batches would wait for ever",
                        cs_schedule_names[p->schedule], (int)p->pp, (int)p->n_micro_batches);
        goto out;
    }
    builder->trace->n_programs = p->pp;
    builder->trace->programs = CS_ARENA_NEW(&builder->trace->arena, struct cs_program, p->pp);
    at = 0;
    for (int32_t stage = 0; stage < p->pp; stage++) {
        build_program(builder, plans, stage, slots + at, n[stage]);
        at += n[stage];
    }
out:
    cs_free(slots);
    cs_free(n);
    return st;
}

/* Copies of weights, gradients and optimizer states that the strategy keeps, times the model's parameters:
 * dense ones once a replica, an expert as often as ranks hold it, and under DualPipe both on two stages. A
 * lower bound: what tensor-parallel ranks and pipeline ends hold alike, and padding, come on top. */
static double cluster_state_bytes(const struct cs_builder *builder)
{
    const struct cs_training *training = builder->training;
    const struct cs_strategy *s = &builder->strategy;
    const double expert = (double)cs__model_expert_params(builder->model);
    const double dense = (double)cs_model_trained_params(builder->model) - expert;
    const double copies = (double)cs__builder_group_size(builder, CS_GROUP_DP);
    const double op = (double)cs__builder_group_size(builder, CS_GROUP_OP);
    const double expert_copies = (double)cs__builder_group_size(builder, CS_GROUP_EDP);
    const double expert_op = (double)cs__builder_group_size(builder, CS_GROUP_EOP);
    const struct {
        double bytes; /* a parameter */
        bool sharded;
    } states[] = {
        {(double)cs_dtype_bytes(cs__storage_dtype(training)), s->zero >= 3},
        {(double)cs_dtype_bytes(training->gradient_dtype), s->zero >= 2},
        {s->offload_optimizer ? 0.0 : (double)cs__optimizer_bytes(training, 1, 0), true},
    };
    double sum = 0;
    for (int32_t i = 0; i < CS_COUNT(states); i++) {
        const bool sharded = states[i].sharded;
        sum += states[i].bytes *
               (dense * copies / (sharded ? op : 1) + expert * expert_copies / (sharded ? expert_op : 1));
    }
    if (!s->offload_optimizer) {
        double more = (double)(cs__optimizer_bytes(training, 1, 1) - cs__optimizer_bytes(training, 1, 0));
        sum += more * (double)cs__model_plain_params(builder->model) * copies / op;
    }
    return sum * (double)cs__builder_group_size(builder, CS_GROUP_MIRROR);
}

static void fill_figures(struct cs_builder *builder)
{
    struct cs_trace *trace = builder->trace;
    const struct cs_training *training = builder->training;
    trace->attention_frac = builder->model->causal ? 0.5 : 1.0;
    trace->n_tokens = (double)training->global_batch * (double)training->seq_length;
    trace->model_flop = cs_model_step_flop(builder->model, trace->n_tokens, training->seq_length);
    int64_t held = cs_dtype_bytes(cs__storage_dtype(training)) + cs_dtype_bytes(training->gradient_dtype);
    int64_t n = cs_model_trained_params(builder->model);
    trace->model_state_bytes = (double)n * (double)held;
    if (!builder->strategy.offload_optimizer) {
        trace->model_state_bytes +=
            (double)cs__optimizer_bytes(training, n, cs__model_plain_params(builder->model));
    }
    trace->cluster_state_bytes = cluster_state_bytes(builder);
}

static cs_status check_limits(const struct cs_model *model, const struct cs_training *training,
                              const struct cs_strategy *strategy, struct cs_err *err)
{
    double tokens = (double)strategy->micro_batch * (double)strategy->dp * (double)training->seq_length;
    double scores = training->flash_attention ? 16.0 : (double)training->seq_length;
    double widest = (double)model->vocab;
    double heads = (double)model->n_heads;
    widest = (double)model->ffn > widest ? (double)model->ffn : widest;
    widest = heads * (double)model->head_dim > widest ? heads * (double)model->head_dim : widest;
    widest = heads * scores > widest ? heads * scores : widest;
    double capacity = model->capacity_factor > 1 ? model->capacity_factor : 1;
    capacity *= cs__imbalance_frac(model, training, strategy);
    double routed = capacity * model->experts_per_token * (double)(model->expert_ffn + model->hidden);
    widest = routed > widest ? routed : widest;
    double pixels = (double)model->image * (double)model->image * 64; /* of the widest features, roughly */
    widest = pixels > widest ? pixels : widest;
    if (tokens * widest > SIZE_MAX_ELEMENTS) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                          "a tensor of %.3g elements (%.3g tokens by %.3g) is more than the simulator counts",
                          tokens * widest, tokens, widest);
    }
    int64_t micro_batches = cs_strategy_micro_batches(strategy, training);
    int64_t passes = 3 * (int64_t)strategy->vpp * (strategy->seq_split > 1 ? strategy->seq_split : 1);
    if (micro_batches > CALLS_MAX / passes / strategy->pp) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                          "%lld micro-batches on %d stages are more than the simulator holds",
                          (long long)micro_batches, (int)strategy->pp);
    }
    return CS_OK;
}

static cs_status check_strategy(const struct cs_model *model, const struct cs_training *training,
                                const struct cs_strategy *strategy, struct cs_err *err)
{
    char why[CS_ERR_TEXT_MAX / 2];
    int64_t n = (int64_t)strategy->dp * strategy->mp * strategy->cp * strategy->pp;
    struct cs_cluster_shape shape = {.n_devices = n > 0 && n < INT32_MAX ? (int32_t)n : 0};
    shape.devices_per_node = shape.n_devices;
    const char *rule = cs_strategy_check(strategy, model, training, &shape, why, sizeof why);
    if (rule != NULL) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "the strategy breaks rule %s: %s", rule, why);
    }
    return check_limits(model, training, strategy, err);
}

cs_status cs_trace_build(const struct cs_model *model, const struct cs_training *training,
                         const struct cs_strategy *strategy, struct cs_trace **trace, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_builder builder = {0};
    struct cs_plan_set plans = {0};
    struct cs_strategy canonical = *strategy;
    cs_strategy_canonicalise(&canonical);
    CS_TRY(check_strategy(model, training, &canonical, err));
    cs__builder_init(&builder, model, training, &canonical);
    cs__plans_init(&plans, &builder);
    CS_TRY(build_programs(&builder, &plans, err));
    builder.trace->program_of_rank = CS_ARENA_NEW(&builder.trace->arena, int32_t, builder.trace->n_ranks);
    for (int32_t rank = 0; rank < builder.trace->n_ranks; rank++) {
        builder.trace->program_of_rank[rank] = cs_strategy_coord(&canonical, rank, CS_DIM_PP);
    }
    fill_figures(&builder);
    *trace = cs__builder_finish(&builder);
out:
    cs__plans_release(&plans);
    cs__builder_release(&builder);
    return st;
}
