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
    spread.keep_weights = spread.gather_always && s->keep_weights;
    spread.expert_op = cs__builder_group_size(builder, CS_GROUP_EOP);
    spread.reduces = spread.op * spread.dpx > 1 || cs__builder_group_size(builder, CS_GROUP_EDP) > 1;
    return spread;
}

int64_t cs__optimizer_bytes(const struct cs_training *training, int64_t n, int64_t n_plain)
{
    const int64_t moment = cs_dtype_bytes(CS_DTYPE_FP32);
    int64_t bytes = (training->dtype == CS_DTYPE_FP32 ? 0 : moment) * n; /* master copy */
    switch (training->optimizer) {
    case CS_OPT_ADAMW:
        return bytes + 2 * moment * n;
    case CS_OPT_SGD:
        return bytes + moment * n;
    case CS_OPT_MUON:
        break;
    }
    return bytes + moment * (n + n_plain);
}

static struct cs_plan *plan_at(const struct cs_plan_set *set, int32_t part, int32_t segment,
                               enum cs_recompute recompute)
{
    return &set->plans[(part * set->n_segments + segment) * CS_N_RECOMPUTE + (int32_t)recompute];
}

const struct cs_plan *cs__plan_of(const struct cs_plan_set *set, int32_t part, int32_t segment,
                                  enum cs_recompute recompute)
{
    return plan_at(set, part, segment, recompute);
}

void cs__plans_init(struct cs_plan_set *set, struct cs_builder *builder)
{
    const struct cs_strategy *strategy = &builder->strategy;
    const bool listed = strategy->full_layers.n > 0;
    set->n_segments = builder->graph.n_segments;
    set->n_parts = builder->pipeline.n_parts;
    set->plans = cs_calloc((size_t)(set->n_parts * set->n_segments * CS_N_RECOMPUTE), sizeof *set->plans);
    for (int32_t part = 0; part < set->n_parts; part++) {
        cs__builder_set_part(builder, part);
        for (int32_t i = 0; i < set->n_segments; i++) {
            for (int32_t r = 0; r < CS_N_RECOMPUTE; r++) {
                const struct cs_segment *segment = &builder->graph.segments[i];
                bool used = listed && segment->is_layer ? true : r == (int32_t)strategy->recompute;
                if (used) {
                    cs__plan_build(plan_at(set, part, i, r), builder, segment, (enum cs_recompute)r);
                }
            }
        }
    }
}

void cs__plans_release(struct cs_plan_set *set)
{
    for (int32_t i = 0; i < set->n_parts * set->n_segments * CS_N_RECOMPUTE; i++) {
        cs__plan_release(&set->plans[i]);
    }
    cs_free(set->plans);
    *set = (struct cs_plan_set){0};
}

/** Items before the first layer of the model. */
static int32_t items_before(const struct cs_graph *graph)
{
    int32_t before = 0;
    for (int32_t i = 0; i < graph->n_runs && !graph->segments[graph->runs[i].segment].is_layer; i++) {
        before += graph->runs[i].count;
    }
    return before;
}

const struct cs_plan *cs__chunk_plan(const struct cs_chunk *chunk, int32_t part, int32_t item)
{
    const struct cs_builder *builder = chunk->stage->builder;
    const struct cs_strategy *strategy = &builder->strategy;
    int32_t segment = cs__graph_segment_at(&builder->graph, chunk->first_pos + item);
    enum cs_recompute recompute = strategy->recompute;
    if (builder->graph.segments[segment].is_layer) {
        int32_t index = chunk->is_first ? item - items_before(&builder->graph) : item;
        recompute = cs_strategy_recompute(strategy, chunk->place, index);
    }
    return plan_at(chunk->stage->plans, part, segment, recompute);
}

int32_t cs__chunk_layer(const struct cs_chunk *chunk, int32_t item)
{
    const struct cs_graph *graph = &chunk->stage->builder->graph;
    int32_t pos = chunk->first_pos + item;
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

int64_t cs__chunk_params(const struct cs_chunk *chunk, int32_t item)
{
    const struct cs_param_sum *params = &cs__chunk_plan(chunk, 0, item)->params;
    /* The stage with the embedding has its matrix; a tied head elsewhere needs its own copy. */
    return params->n + (chunk->stage->has_embedding ? 0 : params->n_tied);
}

static int64_t plain_params(const struct cs_chunk *chunk, int32_t item)
{
    const struct cs_param_sum *params = &cs__chunk_plan(chunk, 0, item)->params;
    return params->n_plain + (chunk->stage->has_embedding ? 0 : params->n_tied);
}

/** Layers and what comes before the first and behind the last of them. */
static void find_items(struct cs_chunk *chunk)
{
    const struct cs_builder *builder = chunk->stage->builder;
    const struct cs_graph *graph = &builder->graph;
    const int32_t n_layers = cs__graph_layers(graph);
    int32_t n_passed = 0;
    int32_t behind = 0;
    int32_t before = items_before(graph);
    for (int32_t i = 0; i < graph->n_runs; i++) {
        bool is_layer = graph->segments[graph->runs[i].segment].is_layer;
        n_passed += is_layer ? graph->runs[i].count : 0;
        behind += !is_layer && n_passed > 0 ? graph->runs[i].count : 0;
    }
    int32_t first;
    chunk->n_items =
        cs__place_layers(&builder->strategy, n_layers, builder->pipeline.n_places, chunk->place, &first);
    chunk->first_pos = before + first;
    if (chunk->is_first) {
        chunk->first_pos = 0;
        chunk->n_items += before;
    }
    if (chunk->is_last) {
        chunk->n_items += behind;
    }
}

/** Parameters, by number, in a segment; the same however it recomputes. */
static int32_t n_tensors(const struct cs_stage *stage, int32_t segment)
{
    const struct cs_builder *builder = stage->builder;
    enum cs_recompute any = builder->graph.segments[segment].is_layer && builder->strategy.full_layers.n > 0
                                ? CS_RECOMPUTE_NONE
                                : builder->strategy.recompute;
    return plan_at(stage->plans, 0, segment, any)->params.n_tensors;
}

/** Group of training.fusion that a position of the chain belongs to: its first parameter's. */
static int32_t fusion_group(const struct cs_stage *stage, int32_t pos)
{
    const struct cs_training *training = stage->builder->training;
    const struct cs_graph *graph = &stage->builder->graph;
    int64_t number = 0;
    int32_t group = 0;
    for (int32_t i = 0; i < graph->n_runs && pos > 0; i++) {
        int32_t count = pos < graph->runs[i].count ? pos : graph->runs[i].count;
        number += (int64_t)count * n_tensors(stage, graph->runs[i].segment);
        pos -= count;
    }
    while (group < training->n_fusion && training->fusion[group] <= number) {
        group++;
    }
    return group;
}

/** Bucket of training.aggregation_groups that an item is in. */
static int32_t aggregation_group(const struct cs_chunk *chunk, int32_t item)
{
    const struct cs_builder *builder = chunk->stage->builder;
    const int32_t n_groups = builder->training->aggregation_groups;
    const int32_t layer = cs__chunk_layer(chunk, item);
    const int32_t n_layers = cs__graph_layers(&builder->graph);
    const int32_t each = (n_layers + 1) / n_groups > 1 ? (n_layers + 1) / n_groups : 1;
    if (builder->pipeline.n_places > 1) {
        return 1;
    }
    return layer < 0 ? n_groups : layer / each + 1;
}

/** Does the item before go into the same bucket? */
static bool goes_on(const struct cs_chunk *chunk, int32_t item, const struct cs_bucket *bucket)
{
    const struct cs_training *training = chunk->stage->builder->training;
    if (training->aggregation_groups > 0) {
        return item > 0 && aggregation_group(chunk, item) == aggregation_group(chunk, item - 1);
    }
    if (training->n_fusion > 0) {
        return item > 0 && fusion_group(chunk->stage, chunk->first_pos + item) ==
                               fusion_group(chunk->stage, chunk->first_pos + item - 1);
    }
    return (double)(bucket->n_params + bucket->n_expert) * (double)cs_dtype_bytes(training->gradient_dtype) <
           training->bucket_bytes;
}

static void add_item(struct cs_chunk *chunk, int32_t index, int32_t item)
{
    struct cs_bucket *bucket = &chunk->buckets[index];
    bucket->first = item;
    bucket->n_params += cs__chunk_params(chunk, item);
    bucket->n_plain += plain_params(chunk, item);
    bucket->n_expert += cs__chunk_plan(chunk, 0, item)->params.n_expert;
    chunk->bucket_of[item] = index;
}

/** Bucket of an item's aggregation group among those that there are, or the number of them. */
static int32_t bucket_of_group(const struct cs_chunk *chunk, int32_t item)
{
    int32_t i = 0;
    while (i < chunk->n_buckets &&
           aggregation_group(chunk, chunk->buckets[i].last) != aggregation_group(chunk, item)) {
        i++;
    }
    return i;
}

/** A bucket is a whole group, in one piece of the model or not: it is complete with its first item, and
 * wanted there. */
static void fill_groups(struct cs_chunk *chunk)
{
    for (int32_t item = chunk->n_items - 1; item >= 0; item--) {
        int32_t i = bucket_of_group(chunk, item);
        if (i == chunk->n_buckets) {
            chunk->buckets[chunk->n_buckets++] = (struct cs_bucket){.last = item};
        }
        add_item(chunk, i, item);
    }
    for (int32_t i = 1; i < chunk->n_buckets; i++) {
        struct cs_bucket bucket = chunk->buckets[i];
        int32_t k = i;
        for (; k > 0 && chunk->buckets[k - 1].first < bucket.first; k--) {
            chunk->buckets[k] = chunk->buckets[k - 1];
        }
        chunk->buckets[k] = bucket;
    }
    for (int32_t item = 0; item < chunk->n_items; item++) {
        chunk->bucket_of[item] = bucket_of_group(chunk, item);
    }
}

/** Buckets in the order in which backward completes gradients: consecutive items until the bucket is at
 *  least training.bucket_bytes large, or as training.fusion or training.aggregation_groups says. */
static void fill_buckets(struct cs_chunk *chunk)
{
    const struct cs_builder *builder = chunk->stage->builder;
    struct cs_arena *arena = &builder->trace->arena;
    int64_t op = cs__builder_group_size(builder, CS_GROUP_OP);
    int64_t expert_op = cs__builder_group_size(builder, CS_GROUP_EOP);
    chunk->buckets = CS_ARENA_NEW(arena, struct cs_bucket, chunk->n_items);
    chunk->bucket_of = CS_ARENA_NEW(arena, int32_t, chunk->n_items);
    bool open = false;
    bool whole = builder->training->aggregation_groups > 0 && !cs__spread(builder).scatter_always;
    if (whole) {
        fill_groups(chunk);
    }
    for (int32_t item = chunk->n_items - 1; item >= 0 && !whole; item--) {
        if (!open) {
            chunk->buckets[chunk->n_buckets++] = (struct cs_bucket){.last = item};
        }
        add_item(chunk, chunk->n_buckets - 1, item);
        open = goes_on(chunk, item, &chunk->buckets[chunk->n_buckets - 1]);
    }
    for (int32_t i = 0; i < chunk->n_buckets; i++) {
        struct cs_bucket *bucket = &chunk->buckets[i];
        bucket->n_shard = (bucket->n_params + op - 1) / op;
        bucket->n_plain_shard = (bucket->n_plain + op - 1) / op;
        bucket->n_expert_shard = (bucket->n_expert + expert_op - 1) / expert_op;
    }
}

static void find_neighbours(struct cs_chunk *chunk)
{
    const struct cs_pipeline *p = &chunk->stage->builder->pipeline;
    const int32_t own = chunk->stage->stage;
    for (int32_t backward = 0; backward < 2; backward++) {
        int32_t next = cs__pipeline_next(p, own, chunk->index, !backward);
        int32_t previous = cs__pipeline_next(p, own, chunk->index, backward);
        chunk->sends[backward] = next >= 0 && next != own;
        chunk->receives[backward] = previous >= 0 && previous != own;
        chunk->to[backward] = (struct cs_channel){.chunk = chunk->index, .forward = !backward};
        if (chunk->receives[backward]) {
            chunk->from[backward].forward = !backward;
            (void)cs__pipeline_stage_of(p, chunk->place + (backward ? 1 : -1), chunk->index,
                                        &chunk->from[backward].chunk);
        }
    }
}

static void chunk_init(struct cs_chunk *chunk, const struct cs_stage *stage, int32_t index)
{
    const struct cs_pipeline *p = &stage->builder->pipeline;
    *chunk = (struct cs_chunk){.stage = stage, .index = index};
    chunk->place = cs__pipeline_place(p, stage->stage, index);
    chunk->is_first = chunk->place == 0;
    chunk->is_last = chunk->place == p->n_places - 1;
    find_items(chunk);
    fill_buckets(chunk);
    find_neighbours(chunk);
}

static void add_up_buffers(struct cs_stage *stage, const struct cs_spread *spread)
{
    const struct cs_training *training = stage->builder->training;
    int64_t largest = 0;
    int32_t n_buckets = 0;
    for (int32_t c = 0; c < stage->n_chunks; c++) {
        const struct cs_chunk *chunk = &stage->chunks[c];
        n_buckets += chunk->n_buckets;
        for (int32_t i = 0; i < chunk->n_buckets; i++) {
            int64_t bytes = (chunk->buckets[i].n_params + chunk->buckets[i].n_expert) *
                            cs_dtype_bytes(training->gradient_dtype);
            largest = bytes > largest ? bytes : largest;
        }
        /* What is being sent: an output and an input gradient. What is received is counted where it is used.
         */
        if (chunk->sends[0]) {
            stage->buffer_bytes += cs__chunk_plan(chunk, 0, chunk->n_items - 1)->out_bytes;
        }
        if (chunk->sends[1]) {
            stage->buffer_bytes += cs__chunk_plan(chunk, 0, 0)->in_bytes;
        }
    }
    if (spread->scatter_always) {
        /* One bucket fills while the other is scattered. */
        stage->buffer_bytes += largest * (n_buckets > 1 ? 2 : 1);
    }
}

static void add_up(struct cs_stage *stage)
{
    for (int32_t c = 0; c < stage->n_chunks; c++) {
        const struct cs_chunk *chunk = &stage->chunks[c];
        for (int32_t i = 0; i < chunk->n_buckets; i++) {
            stage->n_params += chunk->buckets[i].n_params;
            stage->n_shard += chunk->buckets[i].n_shard;
            stage->n_plain_shard += chunk->buckets[i].n_plain_shard;
            stage->n_expert += chunk->buckets[i].n_expert;
            stage->n_expert_shard += chunk->buckets[i].n_expert_shard;
        }
        for (int32_t item = 0; item < chunk->n_items; item++) {
            const struct cs_param_sum *params = &cs__chunk_plan(chunk, 0, item)->params;
            stage->n_partial += params->n_partial;
            stage->n_copies += params->n_copies;
            stage->newton_flop += params->newton_flop;
        }
        const struct cs_builder *builder = stage->builder;
        bool end = chunk->is_first || chunk->is_last;
        if (end && stage->n_tied == 0 && cs__builder_group_size(builder, CS_GROUP_EMBEDDING) > 1) {
            for (int32_t i = 0; i < builder->graph.n_segments; i++) {
                enum cs_recompute any =
                    builder->graph.segments[i].is_layer && builder->strategy.full_layers.n > 0
                        ? CS_RECOMPUTE_NONE
                        : builder->strategy.recompute;
                stage->n_tied += plan_at(stage->plans, 0, i, any)->params.n_tied;
            }
        }
    }
}

void cs__stage_init(struct cs_stage *stage, struct cs_builder *builder, const struct cs_plan_set *plans,
                    int32_t index)
{
    const struct cs_training *training = builder->training;
    const struct cs_pipeline *p = &builder->pipeline;
    struct cs_spread spread = cs__spread(builder);
    *stage = (struct cs_stage){.builder = builder, .plans = plans, .stage = index, .n_chunks = p->n_chunks};
    stage->chunks = CS_ARENA_NEW(&builder->trace->arena, struct cs_chunk, p->n_chunks);
    for (int32_t c = 0; c < p->n_chunks; c++) {
        stage->has_embedding |= cs__pipeline_place(p, index, c) == 0;
    }
    for (int32_t c = 0; c < p->n_chunks; c++) {
        chunk_init(&stage->chunks[c], stage, c);
    }
    add_up(stage);
    stage->weight_bytes =
        (spread.gather_always ? stage->n_shard + stage->n_expert_shard : stage->n_params + stage->n_expert) *
        cs_dtype_bytes(cs__storage_dtype(training));
    stage->gradient_bytes =
        (spread.scatter_always ? stage->n_shard + stage->n_expert_shard : stage->n_params + stage->n_expert) *
        cs_dtype_bytes(training->gradient_dtype);
    stage->optimizer_bytes =
        builder->strategy.offload_optimizer
            ? 0
            : cs__optimizer_bytes(training, stage->n_shard + stage->n_expert_shard, stage->n_plain_shard);
    add_up_buffers(stage, &spread);
}
