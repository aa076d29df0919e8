/* Items, gradient buckets and model state of a pipeline stage. */
#include "schedule_priv.h"
#include "stage_priv.h"

struct cs_spread cs__spread(const struct cs_builder *builder)
{
    struct cs_spread spread = {0};
    const struct cs_strategy *s = &builder->strategy;
    spread.op = cs__builder_group_size(builder, CS_GROUP_OP);
    spread.dpx = cs__builder_group_size(builder, CS_GROUP_DPX);
    spread.sharded = spread.op > 1;
    spread.scatter_always = spread.sharded && s->zero >= 2;
    spread.gather_always = spread.sharded && s->zero == 3;
    spread.reduces = spread.op * spread.dpx > 1;
    return spread;
}

int64_t cs__optimizer_bytes(const struct cs_training *training)
{
    int64_t master = training->dtype == CS_DTYPE_FP32 ? 0 : 4;
    switch (training->optimizer) {
    case CS_OPT_ADAMW:
        return master + 8; /* first and second moment */
    case CS_OPT_SGD:
    case CS_OPT_MUON:
        break;
    }
    return master + 4; /* momentum */
}

const struct cs_plan *cs__stage_plan(const struct cs_stage *stage, int32_t item)
{
    return &stage->plans[cs__graph_segment_at(&stage->builder->graph, stage->first_pos + item)];
}

int32_t cs__stage_layer(const struct cs_stage *stage, int32_t item)
{
    const struct cs_graph *graph = &stage->builder->graph;
    int32_t pos = stage->first_pos + item;
    int32_t layer = 0;
    for (int32_t i = 0; i < graph->n_runs; i++) {
        bool is_layer = graph->segments[graph->runs[i].segment].is_layer;
        if (pos < graph->runs[i].count) {
            return is_layer ? layer + pos : -1;
        }
        pos -= graph->runs[i].count;
        layer += is_layer ? graph->runs[i].count : 0;
    }
    return -1;
}

int64_t cs__stage_params(const struct cs_stage *stage, int32_t item)
{
    const struct cs_param_sum *params = &cs__stage_plan(stage, item)->params;
    /* The first stage has the embedding's matrix; a tied head elsewhere needs its own copy. */
    return params->n + (stage->is_first ? 0 : params->n_tied);
}

/** Layers and what comes before the first and behind the last of them. */
static void find_items(struct cs_stage *stage)
{
    const struct cs_graph *graph = &stage->builder->graph;
    int32_t n_layers = 0;
    int32_t before = 0;
    int32_t behind = 0;
    for (int32_t i = 0; i < graph->n_runs; i++) {
        bool is_layer = graph->segments[graph->runs[i].segment].is_layer;
        n_layers += is_layer ? graph->runs[i].count : 0;
        before += !is_layer && n_layers == 0 ? graph->runs[i].count : 0;
        behind += !is_layer && n_layers > 0 ? graph->runs[i].count : 0;
    }
    int32_t pp = stage->builder->strategy.pp;
    int32_t first;
    stage->n_items = cs__stage_layers(n_layers, pp, stage->stage, &first);
    stage->first_pos = before + first;
    if (stage->is_first) {
        stage->first_pos = 0;
        stage->n_items += before;
    }
    if (stage->is_last) {
        stage->n_items += behind;
    }
}

/** Buckets in the order in which backward completes gradients: consecutive items until the bucket is at
 *  least training.bucket_bytes large. */
static void fill_buckets(struct cs_stage *stage)
{
    const struct cs_training *training = stage->builder->training;
    struct cs_arena *arena = &stage->builder->trace->arena;
    double gradient = (double)cs_dtype_bytes(training->gradient_dtype);
    int64_t op = cs__builder_group_size(stage->builder, CS_GROUP_OP);
    stage->buckets = CS_ARENA_NEW(arena, struct cs_bucket, stage->n_items);
    stage->bucket_of = CS_ARENA_NEW(arena, int32_t, stage->n_items);
    bool open = false;
    for (int32_t item = stage->n_items - 1; item >= 0; item--) {
        if (!open) {
            stage->buckets[stage->n_buckets++] = (struct cs_bucket){.last = item};
        }
        struct cs_bucket *bucket = &stage->buckets[stage->n_buckets - 1];
        bucket->first = item;
        bucket->n_params += cs__stage_params(stage, item);
        stage->bucket_of[item] = stage->n_buckets - 1;
        open = (double)bucket->n_params * gradient < training->bucket_bytes;
    }
    for (int32_t i = 0; i < stage->n_buckets; i++) {
        struct cs_bucket *bucket = &stage->buckets[i];
        bucket->n_shard = (bucket->n_params + op - 1) / op;
        stage->n_params += bucket->n_params;
        stage->n_shard += bucket->n_shard;
    }
}

static void add_up_buffers(struct cs_stage *stage, const struct cs_spread *spread)
{
    const struct cs_training *training = stage->builder->training;
    int64_t largest = 0;
    for (int32_t i = 0; i < stage->n_buckets; i++) {
        int64_t bytes = stage->buckets[i].n_params * cs_dtype_bytes(training->gradient_dtype);
        largest = bytes > largest ? bytes : largest;
    }
    if (spread->scatter_always) {
        /* One bucket fills while the other is scattered. */
        stage->buffer_bytes += largest * (stage->n_buckets > 1 ? 2 : 1);
    }
    /* What is being sent: an output and an input gradient. What is received is counted where it is used. */
    if (!stage->is_last) {
        stage->buffer_bytes += cs__stage_plan(stage, stage->n_items - 1)->out_bytes;
    }
    if (!stage->is_first) {
        stage->buffer_bytes += cs__stage_plan(stage, 0)->in_bytes;
    }
}

void cs__stage_init(struct cs_stage *stage, struct cs_builder *builder, const struct cs_plan *plans,
                    int32_t index)
{
    const struct cs_training *training = builder->training;
    struct cs_spread spread = cs__spread(builder);
    *stage = (struct cs_stage){.builder = builder, .plans = plans, .stage = index};
    stage->is_first = index == 0;
    stage->is_last = index == builder->strategy.pp - 1;
    find_items(stage);
    fill_buckets(stage);
    for (int32_t item = 0; item < stage->n_items; item++) {
        const struct cs_param_sum *params = &cs__stage_plan(stage, item)->params;
        stage->n_partial += params->n_partial;
        stage->n_copies += params->n_copies;
    }
    if (builder->strategy.pp > 1 && (stage->is_first || stage->is_last)) {
        for (int32_t i = 0; i < builder->graph.n_segments; i++) {
            stage->n_tied += plans[i].params.n_tied;
        }
    }
    stage->weight_bytes =
        (spread.gather_always ? stage->n_shard : stage->n_params) * cs_dtype_bytes(training->dtype);
    stage->gradient_bytes =
        (spread.scatter_always ? stage->n_shard : stage->n_params) * cs_dtype_bytes(training->gradient_dtype);
    stage->optimizer_bytes = stage->n_shard * cs__optimizer_bytes(training);
    add_up_buffers(stage, &spread);
}
