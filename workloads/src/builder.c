/* A trace under construction. */
#include "builder_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <string.h>

void cs__oplist_add(struct cs_oplist *list, struct cs_op op)
{
    CS_GROW(list->ops, list->n, list->cap);
    list->ops[list->n++] = op;
}

void cs__oplist_append(struct cs_oplist *list, const struct cs_oplist *from, int32_t layer)
{
    for (int32_t i = 0; i < from->n; i++) {
        struct cs_op op = from->ops[i];
        op.layer = (int16_t)layer;
        cs__oplist_add(list, op);
    }
}

static void add_memory(struct cs_oplist *list, enum cs_op_type type, enum cs_mem mem, int64_t bytes,
                       int32_t label)
{
    if (bytes > 0) {
        cs__oplist_add(list, (struct cs_op){.type = (uint8_t)type,
                                            .stream = CS_STREAM_COMPUTE,
                                            .mem = (uint8_t)mem,
                                            .layer = -1,
                                            .label = label,
                                            .cost = -1,
                                            .bytes = bytes});
    }
}

void cs__oplist_alloc(struct cs_oplist *list, enum cs_mem mem, int64_t bytes, int32_t label)
{
    add_memory(list, CS_OP_ALLOC, mem, bytes, label);
}

void cs__oplist_free_mem(struct cs_oplist *list, enum cs_mem mem, int64_t bytes, int32_t label)
{
    add_memory(list, CS_OP_FREE, mem, bytes, label);
}

void cs__oplist_release(struct cs_oplist *list)
{
    cs_free(list->ops);
    *list = (struct cs_oplist){0};
}

static void fill_minus_one(int32_t *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        list[i] = -1;
    }
}

double cs__imbalance_frac(const struct cs_model *model, const struct cs_training *training,
                          const struct cs_strategy *strategy)
{
    const double asked = training->routing_imbalance_frac;
    if (model->n_experts == 0 || model->capacity_factor > 0 || !(asked > 1)) {
        return 1;
    }
    /* An expert gets a token once: a rank gets as many rows of each as it has experts, at most all of them.
     */
    const double n_own = (double)model->n_experts / strategy->ep;
    const double n_chosen = model->experts_per_token;
    const double most = strategy->ep * (n_own < n_chosen ? n_own / n_chosen : 1);
    return asked < most ? asked : most;
}

void cs__builder_init(struct cs_builder *builder, const struct cs_model *model,
                      const struct cs_training *training, const struct cs_strategy *strategy)
{
    *builder = (struct cs_builder){.model = model, .training = training, .strategy = *strategy};
    cs_strategy_canonicalise(&builder->strategy);
    strategy = &builder->strategy;
    builder->trace = cs_calloc(1, sizeof *builder->trace);
    builder->trace->n_ranks = strategy->dp * strategy->mp * strategy->cp * strategy->pp;
    fill_minus_one(builder->group_comm, CS_N_GROUPS);
    fill_minus_one(builder->channel_chan, CS_CHANNELS_MAX);
    fill_minus_one(builder->event_index, CS_N_EVENTS);
    fill_minus_one(builder->lane_stream, CS_N_LANES);
    (void)cs__builder_stream(builder, CS_LANE_COMPUTE);
    cs__graph_build(&builder->graph, &builder->trace->arena, model,
                    (int64_t)strategy->micro_batch * strategy->dp, training->seq_length,
                    (struct cs_graph_fused){training->flash_attention, training->fused_glu,
                                            training->separate_norms, training->separate_gate});
    cs__pipeline_init(&builder->pipeline, strategy, cs_strategy_micro_batches(strategy, training));
    cs__sharding_init(&builder->sharding, &builder->graph, strategy);
    builder->costing =
        (struct cs_costing){.sharding = &builder->sharding,
                            .dtype = cs__storage_dtype(training),
                            .product_dtype = training->dtype,
                            .separate_casts = training->separate_casts,
                            .separate_accumulation = training->separate_accumulation,
                            .widened_gradients = training->widened_gradients,
                            .separate_norms = training->separate_norms,
                            .separate_rope = training->separate_rope,
                            .separate_loss = training->separate_loss,
                            .separate_experts = training->separate_experts,
                            .softmax_multiple = training->softmax_multiple,
                            .separate_gelu = training->separate_gelu,
                            .norm_casts = training->norm_casts,
                            .score_bytes = training->score_bytes,
                            .score_kernels = training->score_kernels,
                            .rows_gathered = strategy->expert_mp && strategy->sp ? strategy->mp : 1,
                            .imbalance_frac = cs__imbalance_frac(model, training, strategy),
                            .gradient_dtype = training->gradient_dtype};
    cs__builder_set_part(builder, 0);
}

void cs__builder_set_part(struct cs_builder *builder, int32_t part)
{
    const int32_t n = builder->pipeline.n_parts;
    const int64_t length = builder->training->seq_length / n;
    const int64_t n_rows = (int64_t)ceil((double)builder->graph.n_rows * builder->costing.imbalance_frac);
    for (int32_t i = 0; i < builder->graph.n_axes; i++) {
        if (builder->graph.axes[i].role == CS_AXIS_ROWS) {
            builder->graph.axes[i].size = (n_rows + n - 1) / n;
        }
    }
    builder->graph.axes[CS_AXIS_OF_SEQ].size = length;
    builder->graph.axes[CS_AXIS_OF_KEYS].size = builder->model->causal ? (part + 1) * length : length * n;
    /* Of a part's queries times the keys up to it, all but half of its own square is under the mask. */
    builder->costing.causal_frac = builder->model->causal ? (part + 0.5) / (part + 1) : 1.0;
}

void cs__builder_release(struct cs_builder *builder)
{
    cs_free(builder->costs);
    cs_free(builder->labels);
    cs_free(builder->blocks);
    cs_trace_free(builder->trace);
    *builder = (struct cs_builder){0};
}

struct cs_trace *cs__builder_finish(struct cs_builder *builder)
{
    struct cs_trace *trace = builder->trace;
    struct cs_arena *arena = &trace->arena;
    trace->costs = cs_arena_memdup(arena, builder->costs, sizeof *builder->costs * (size_t)builder->n_costs);
    trace->n_costs = builder->n_costs;
    trace->labels =
        cs_arena_memdup(arena, builder->labels, sizeof *builder->labels * (size_t)builder->n_labels);
    trace->n_labels = builder->n_labels;
    trace->blocks =
        cs_arena_memdup(arena, builder->blocks, sizeof *builder->blocks * (size_t)builder->n_blocks);
    trace->n_blocks = builder->n_blocks;
    trace->comms = cs_arena_memdup(arena, builder->comms, sizeof builder->comms);
    trace->chans =
        cs_arena_memdup(arena, builder->chans, sizeof *builder->chans * (size_t)(trace->n_chans + 1));
    trace->stream_names = cs_arena_memdup(arena, builder->stream_names, sizeof builder->stream_names);
    trace->event_names = cs_arena_memdup(arena, builder->event_names, sizeof builder->event_names);
    builder->trace = NULL;
    return trace;
}

int32_t cs__builder_cost(struct cs_builder *builder, struct cs_op_cost cost)
{
    CS_GROW(builder->costs, builder->n_costs, builder->cap_costs);
    builder->costs[builder->n_costs] = cost;
    return builder->n_costs++;
}

int32_t cs__builder_label(struct cs_builder *builder, const char *text)
{
    int32_t *slot = &builder->label_slots[cs_hash_text(CS_HASH_SEED, text) % CS__LABEL_SLOTS];
    if (*slot > 0 && strcmp(builder->labels[*slot - 1], text) == 0) {
        return *slot - 1;
    }
    for (int32_t i = 0; i < builder->n_labels; i++) {
        if (strcmp(builder->labels[i], text) == 0) {
            *slot = i + 1;
            return i;
        }
    }
    CS_GROW(builder->labels, builder->n_labels, builder->cap_labels);
    builder->labels[builder->n_labels] = cs_arena_strdup(&builder->trace->arena, text);
    *slot = ++builder->n_labels;
    return builder->n_labels - 1;
}

int32_t cs__builder_block(struct cs_builder *builder, const char *name, const struct cs_oplist *list)
{
    struct cs_arena *arena = &builder->trace->arena;
    CS_GROW(builder->blocks, builder->n_blocks, builder->cap_blocks);
    builder->blocks[builder->n_blocks] =
        (struct cs_block){.name = cs_arena_strdup(arena, name),
                          .n_ops = list->n,
                          .ops = cs_arena_memdup(arena, list->ops, sizeof *list->ops * (size_t)list->n)};
    return builder->n_blocks++;
}

uint8_t cs__builder_comm(struct cs_builder *builder, enum cs_group group)
{
    if (builder->group_comm[group] < 0) {
        int32_t index = builder->trace->n_comms++;
        builder->group_comm[group] = index;
        static const enum cs_lane lanes[CS_N_GROUPS] = {
            [CS_GROUP_TP] = CS_LANE_TP,        [CS_GROUP_TP_COPIES] = CS_LANE_TP,
            [CS_GROUP_CP] = CS_LANE_CP,        [CS_GROUP_DP] = CS_LANE_DP,
            [CS_GROUP_OP] = CS_LANE_DP,        [CS_GROUP_GATHER] = CS_LANE_GATHER,
            [CS_GROUP_DPX] = CS_LANE_DP,       [CS_GROUP_NORM] = CS_LANE_NORM,
            [CS_GROUP_EMBEDDING] = CS_LANE_DP, [CS_GROUP_MIRROR] = CS_LANE_DP,
            [CS_GROUP_TP_ASYNC] = CS_LANE_TP,  [CS_GROUP_EP] = CS_LANE_EP,
            [CS_GROUP_EP_ASYNC] = CS_LANE_EP,  [CS_GROUP_EDP] = CS_LANE_DP,
            [CS_GROUP_EOP] = CS_LANE_DP,       [CS_GROUP_EGATHER] = CS_LANE_GATHER,
            [CS_GROUP_EDPX] = CS_LANE_DP,
        };
        cs__groups_comm(builder, group, &builder->comms[index]);
        builder->comms[index].stream = cs__builder_stream(builder, lanes[group]);
    }
    return (uint8_t)builder->group_comm[group];
}

uint8_t cs__builder_chan(struct cs_builder *builder, struct cs_channel channel)
{
    int32_t slot = channel.ring ? CS_CHANNELS_MAX - 1
                                : 4 * channel.chunk + (channel.forward ? 0 : 1) + (channel.ready ? 2 : 0);
    int32_t *index = &builder->channel_chan[slot];
    if (*index < 0) {
        *index = builder->trace->n_chans++;
        cs__groups_chan(builder, channel, &builder->chans[*index]);
        const bool goes_forward = channel.forward != channel.ready;
        builder->chans[*index].stream = cs__builder_stream(builder, channel.ring   ? CS_LANE_CP
                                                                    : goes_forward ? CS_LANE_PP_FORWARD
                                                                                   : CS_LANE_PP_BACKWARD);
    }
    return (uint8_t)*index;
}

uint8_t cs__builder_event(struct cs_builder *builder, enum cs_event event)
{
    static const char *const names[CS_N_EVENTS] = {"gradient ready",    "gradient scattered",
                                                   "gradients reduced", "weights gathered",
                                                   "gather ready",      "gather done",
                                                   "output ready",      "input gradient ready",
                                                   "output sent",       "input gradient sent",
                                                   "ready for output",  "ready for gradient",
                                                   "keys ready",        "tp ready",
                                                   "tp done",           "host ready",
                                                   "host done",         "ep ready",
                                                   "ep done",           "gather ready ahead",
                                                   "gather done ahead", "tp ready ahead",
                                                   "tp done ahead",     "host ready ahead",
                                                   "host done ahead"};
    if (builder->event_index[event] < 0) {
        builder->event_index[event] = builder->trace->n_events++;
        builder->event_names[builder->event_index[event]] = names[event];
    }
    return (uint8_t)builder->event_index[event];
}

uint8_t cs__builder_stream(struct cs_builder *builder, enum cs_lane lane)
{
    static const char *const names[CS_N_LANES] = {"compute", "tp",     "cp",   "pp-forward", "pp-backward",
                                                  "dp",      "gather", "norm", "ep",         "host"};
    if (builder->lane_stream[lane] < 0) {
        builder->lane_stream[lane] = builder->trace->n_streams++;
        builder->stream_names[builder->lane_stream[lane]] = names[lane];
    }
    return (uint8_t)builder->lane_stream[lane];
}

void cs__emit_compute(struct cs_builder *builder, struct cs_oplist *list, enum cs_phase phase,
                      const char *label, struct cs_op_cost cost)
{
    cs__oplist_add(list, (struct cs_op){.type = CS_OP_COMPUTE,
                                        .stream = CS_STREAM_COMPUTE,
                                        .phase = (uint8_t)phase,
                                        .layer = -1,
                                        .label = cs__builder_label(builder, label),
                                        .cost = cs__builder_cost(builder, cost)});
}

void cs__emit_host(struct cs_builder *builder, struct cs_oplist *list, enum cs_lane lane, enum cs_phase phase,
                   const char *label, int64_t bytes)
{
    struct cs_op_cost cost = {.kind = CS_OPKIND_ELEMENTWISE,
                              .dtype = CS_DTYPE_FP32,
                              .batch = 1,
                              .n_kernels = 1,
                              .fixed_s = (double)bytes / builder->training->host_bytes_per_s};
    cs__emit_compute(builder, list, phase, label, cost);
    list->ops[list->n - 1].stream = cs__builder_stream(builder, lane);
}

void cs__emit_collective(struct cs_builder *builder, struct cs_oplist *list, enum cs_lane lane,
                         enum cs_group group, enum cs_coll coll, enum cs_phase phase, const char *label,
                         int64_t bytes)
{
    if (bytes <= 0 || cs__builder_group_size(builder, group) == 1) {
        return;
    }
    cs__oplist_add(list, (struct cs_op){.type = CS_OP_COLLECTIVE,
                                        .stream = cs__builder_stream(builder, lane),
                                        .comm = cs__builder_comm(builder, group),
                                        .coll = (uint8_t)coll,
                                        .phase = (uint8_t)phase,
                                        .layer = -1,
                                        .label = cs__builder_label(builder, label),
                                        .cost = -1,
                                        .bytes = bytes});
}

void cs__emit_event(struct cs_builder *builder, struct cs_oplist *list, enum cs_op_type type,
                    enum cs_lane lane, enum cs_event event)
{
    uint8_t index = cs__builder_event(builder, event);
    cs__oplist_add(list, (struct cs_op){.type = (uint8_t)type,
                                        .stream = cs__builder_stream(builder, lane),
                                        .comm = index,
                                        .layer = -1,
                                        .label = cs__builder_label(builder, builder->event_names[index]),
                                        .cost = -1});
}

void cs__emit_message(struct cs_builder *builder, struct cs_oplist *list, enum cs_op_type type,
                      struct cs_channel channel, enum cs_phase phase, int64_t bytes)
{
    uint8_t chan = cs__builder_chan(builder, channel);
    uint8_t lane = (uint8_t)builder->chans[chan].stream;
    if (type == CS_OP_RECV) { /* the lane of a message waits until its receiver is ready, computing for it */
        lane = !channel.ready    ? CS_STREAM_COMPUTE
               : channel.forward ? cs__builder_stream(builder, CS_LANE_PP_FORWARD)
                                 : cs__builder_stream(builder, CS_LANE_PP_BACKWARD);
    }
    cs__oplist_add(
        list, (struct cs_op){.type = (uint8_t)type,
                             .stream = lane,
                             .comm = chan,
                             .phase = (uint8_t)phase,
                             .layer = -1,
                             .label = cs__builder_label(builder, type == CS_OP_SEND ? "send" : "receive"),
                             .cost = -1,
                             .bytes = bytes});
}
