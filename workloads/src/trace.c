/* From a strategy to programs. */
#include "schedule_priv.h"
#include "stage_priv.h"

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

/** Blocks of a stage that have been made; -1 = not yet. Forward by "is the first", backward by first, last.
 */
struct stage_blocks {
    int32_t forward[2];
    int32_t backward[2][2];
};

static int32_t forward_block(struct cs_stage *stage, struct stage_blocks *made, struct cs_oplist *list,
                             bool first)
{
    struct cs_spread spread = cs__spread(stage->builder);
    bool differs = spread.sharded && !spread.gather_always;
    int32_t *block = &made->forward[first && differs];
    if (*block < 0) {
        list->n = 0;
        cs__stage_forward(stage, list, first && differs);
        *block = cs__builder_block(stage->builder, first && differs ? "forward (first)" : "forward", list);
    }
    return *block;
}

static int32_t backward_block(struct cs_stage *stage, struct stage_blocks *made, struct cs_oplist *list,
                              bool first, bool last)
{
    static const char *const names[2][2] = {{"backward", "backward (last)"},
                                            {"backward (first)", "backward (only)"}};
    struct cs_spread spread = cs__spread(stage->builder);
    first = first && spread.scatter_always;
    last = last && spread.reduces && (!spread.scatter_always || spread.dpx > 1);
    int32_t *block = &made->backward[first][last];
    if (*block < 0) {
        list->n = 0;
        cs__stage_backward(stage, list, first, last);
        *block = cs__builder_block(stage->builder, names[first][last], list);
    }
    return *block;
}

static void add_call(struct cs_program *program, int32_t block, int32_t micro_batch)
{
    program->calls[program->n_calls++] = (struct cs_call){.block = block, .micro_batch = micro_batch};
}

/** The program of a pipeline stage. `slots` has room for the schedule, `list` is scratch. */
static void build_program(struct cs_builder *builder, const struct cs_plan *plans, int32_t index,
                          int32_t n_micro_batches, struct cs_slot *slots, struct cs_oplist *list)
{
    struct cs_stage stage;
    struct stage_blocks made = {{-1, -1}, {{-1, -1}, {-1, -1}}};
    struct cs_arena *arena = &builder->trace->arena;
    struct cs_program *program = &builder->trace->programs[index];
    const int32_t n_slots = 2 * n_micro_batches;
    cs__stage_init(&stage, builder, plans, index);
    cs__schedule_stage(builder->strategy.schedule, builder->strategy.pp, index, n_micro_batches, slots);
    program->role = cs_arena_printf(arena, "stage %d of %d", (int)index, (int)builder->strategy.pp);
    program->stage = index;
    program->state_bytes = (double)(stage.weight_bytes + stage.gradient_bytes + stage.optimizer_bytes);
    program->calls = CS_ARENA_NEW(arena, struct cs_call, n_slots + 2);

    list->n = 0;
    cs__stage_prologue(&stage, list);
    add_call(program, cs__builder_block(builder, "prologue", list), -1);
    int32_t n_backward = 0;
    int32_t n_forward = 0;
    for (int32_t i = 0; i < n_slots; i++) {
        int32_t block;
        if (slots[i].backward) {
            block = backward_block(&stage, &made, list, n_backward == 0, n_backward == n_micro_batches - 1);
            n_backward++;
        } else {
            block = forward_block(&stage, &made, list, n_forward == 0);
            n_forward++;
        }
        add_call(program, block, slots[i].micro_batch);
    }
    list->n = 0;
    cs__stage_epilogue(&stage, list);
    add_call(program, cs__builder_block(builder, "epilogue", list), -1);
}

static void fill_figures(struct cs_builder *builder)
{
    struct cs_trace *trace = builder->trace;
    const struct cs_training *training = builder->training;
    trace->n_tokens = (double)training->global_batch * (double)training->seq_length;
    trace->model_flop = cs_model_step_flop(builder->model, trace->n_tokens, training->seq_length);
    trace->model_state_bytes =
        (double)cs_model_params(builder->model) *
        (double)(cs_dtype_bytes(training->dtype) + cs_dtype_bytes(training->gradient_dtype) +
                 cs__optimizer_bytes(training));
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
    if (tokens * widest > SIZE_MAX_ELEMENTS) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC,
                          "a tensor of %.3g elements (%.3g tokens by %.3g) is more than the simulator counts",
                          tokens * widest, tokens, widest);
    }
    int64_t micro_batches = cs_strategy_micro_batches(strategy, training);
    if (micro_batches > CALLS_MAX / 2 / strategy->pp) {
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
    struct cs_plan plans[CS_GRAPH_SEGMENTS_MAX] = {0};
    struct cs_slot *slots = NULL;
    struct cs_oplist list = {0};
    struct cs_strategy canonical = *strategy;
    cs_strategy_canonicalise(&canonical);
    CS_TRY(check_strategy(model, training, &canonical, err));
    int32_t n_micro_batches = (int32_t)cs_strategy_micro_batches(&canonical, training);
    cs__builder_init(&builder, model, training, &canonical);
    for (int32_t i = 0; i < builder.graph.n_segments; i++) {
        cs__plan_build(&plans[i], &builder, &builder.graph.segments[i], canonical.recompute);
    }
    slots = cs_calloc((size_t)n_micro_batches * 2, sizeof *slots);
    builder.trace->n_programs = canonical.pp;
    builder.trace->programs = CS_ARENA_NEW(&builder.trace->arena, struct cs_program, canonical.pp);
    for (int32_t stage = 0; stage < canonical.pp; stage++) {
        build_program(&builder, plans, stage, n_micro_batches, slots, &list);
    }
    builder.trace->program_of_rank = CS_ARENA_NEW(&builder.trace->arena, int32_t, builder.trace->n_ranks);
    for (int32_t rank = 0; rank < builder.trace->n_ranks; rank++) {
        builder.trace->program_of_rank[rank] = cs_strategy_coord(&canonical, rank, CS_DIM_PP);
    }
    fill_figures(&builder);
    *trace = cs__builder_finish(&builder);
out:
    for (int32_t i = 0; i < CS_GRAPH_SEGMENTS_MAX; i++) {
        cs__plan_release(&plans[i]);
    }
    cs__oplist_release(&list);
    cs_free(slots);
    cs__builder_release(&builder);
    return st;
}
