/* Pipeline schedules: the order of one stage. */
#include "schedule_priv.h"

void cs__pipeline_init(struct cs_pipeline *pipeline, const struct cs_strategy *strategy,
                       int64_t n_micro_batches)
{
    const enum cs_schedule schedule = strategy->schedule;
    *pipeline = (struct cs_pipeline){.schedule = schedule,
                                     .pp = strategy->pp,
                                     .n_chunks = strategy->vpp,
                                     .n_parts = 1,
                                     .n_micro_batches = (int32_t)n_micro_batches};
    if (schedule == CS_SCHED_DUALPIPE) {
        pipeline->n_chunks = 2;
        pipeline->mirrored = true;
    }
    if (schedule == CS_SCHED_SEQPIPE && strategy->seq_split > 1) {
        pipeline->n_parts = strategy->seq_split;
    }
    pipeline->splits = schedule == CS_SCHED_ZERO_BUBBLE || schedule == CS_SCHED_ZERO_BUBBLE_V ||
                       schedule == CS_SCHED_DUALPIPE;
    pipeline->n_places = pipeline->mirrored ? pipeline->pp : pipeline->pp * pipeline->n_chunks;
}

int32_t cs__pipeline_place(const struct cs_pipeline *pipeline, int32_t stage, int32_t chunk)
{
    bool turned = chunk == 1 && (pipeline->mirrored || pipeline->schedule == CS_SCHED_ZERO_BUBBLE_V);
    return turned ? pipeline->n_places - 1 - stage : chunk * pipeline->pp + stage;
}

int32_t cs__pipeline_stage_of(const struct cs_pipeline *pipeline, int32_t place, int32_t copy, int32_t *chunk)
{
    if (pipeline->mirrored) {
        *chunk = copy;
        return copy == 0 ? place : pipeline->pp - 1 - place;
    }
    *chunk = place / pipeline->pp;
    bool turned = *chunk == 1 && pipeline->schedule == CS_SCHED_ZERO_BUBBLE_V;
    return turned ? pipeline->n_places - 1 - place : place % pipeline->pp;
}

int32_t cs__pipeline_next(const struct cs_pipeline *pipeline, int32_t stage, int32_t chunk, bool forward)
{
    int32_t place = cs__pipeline_place(pipeline, stage, chunk) + (forward ? 1 : -1);
    int32_t ignored;
    return place < 0 || place >= pipeline->n_places ? -1
                                                    : cs__pipeline_stage_of(pipeline, place, chunk, &ignored);
}

int64_t cs__pipeline_slots_max(const struct cs_pipeline *pipeline)
{
    return (int64_t)pipeline->n_micro_batches * pipeline->n_parts * pipeline->n_chunks *
           (pipeline->splits ? 3 : 2);
}

/** A stage's order under construction. */
struct order {
    const struct cs_pipeline *p;
    int32_t stage;
    struct cs_slot *slots;
    int32_t n;
    int32_t done[2][CS_N_SLOT_KINDS]; /* two-chunk schedules: per chunk */
    int32_t n_late, first_late;       /* weight gradients put off: chunks, in order */
    uint8_t *late;
};

/** Unit `unit` (a micro-batch's part) of a chunk; backward goes through the parts of a micro-batch from the
 *  last to the first. */
static void put(struct order *o, enum cs_slot_kind kind, int32_t chunk, int32_t unit)
{
    int32_t parts = o->p->n_parts;
    int32_t part = unit % parts;
    o->slots[o->n++] = (struct cs_slot){.micro_batch = unit / parts,
                                        .kind = (uint8_t)kind,
                                        .chunk = (uint8_t)chunk,
                                        .part = (uint8_t)(kind == CS_SLOT_FORWARD ? part : parts - 1 - part)};
}

static void gpipe(struct order *o)
{
    const int32_t n = o->p->n_micro_batches;
    for (int32_t i = 0; i < 2 * n; i++) {
        put(o, i < n ? CS_SLOT_FORWARD : CS_SLOT_BACKWARD, 0, i % n);
    }
}

/** k-th turn of an interleaved schedule: chunks in turn, each for pp units. */
static void put_turn(struct order *o, enum cs_slot_kind kind, int32_t k)
{
    const int32_t pp = o->p->pp;
    const int32_t group = pp * o->p->n_chunks;
    int32_t chunk = o->p->n_chunks == 1 ? 0 : k % group / pp;
    int32_t unit = o->p->n_chunks == 1 ? k : k / group * pp + k % pp;
    put(o, kind, kind == CS_SLOT_FORWARD ? chunk : o->p->n_chunks - 1 - chunk, unit);
}

/** 1F1B, interleaved or not, over micro-batches or their slices. */
static void one_f_one_b(struct order *o)
{
    const struct cs_pipeline *p = o->p;
    const int32_t n = p->n_micro_batches * p->n_parts * p->n_chunks;
    int32_t behind = p->pp - 1 - o->stage;
    int32_t ahead = p->n_chunks == 1 ? behind : 2 * behind + (p->n_chunks - 1) * p->pp;
    ahead += p->n_parts - 1;
    int32_t forward = 0;
    while (forward < ahead && forward < n) {
        put_turn(o, CS_SLOT_FORWARD, forward++);
    }
    for (int32_t backward = 0; backward < n; backward++) {
        if (forward < n) {
            put_turn(o, CS_SLOT_FORWARD, forward++);
        }
        put_turn(o, CS_SLOT_BACKWARD, backward);
    }
}

static void zb_h1(struct order *o)
{
    const int32_t n = o->p->n_micro_batches;
    const int32_t ahead = o->p->pp - 1 - o->stage;
    int32_t forward = 0;
    int32_t weight = 0;
    while (forward < ahead && forward < n) {
        put(o, CS_SLOT_FORWARD, 0, forward++);
    }
    for (int32_t backward = 0; backward < n; backward++) {
        if (forward < n) {
            put(o, CS_SLOT_FORWARD, 0, forward++);
        }
        put(o, CS_SLOT_INPUT, 0, backward);
        if (backward >= o->stage) {
            put(o, CS_SLOT_WEIGHT, 0, weight++);
        }
    }
    while (weight < n) {
        put(o, CS_SLOT_WEIGHT, 0, weight++);
    }
}

/** The next of a kind on a chunk of a two-chunk schedule. Under DualPipe the micro-batches of the second
 *  direction come behind those of the first. */
static void put_next(struct order *o, enum cs_slot_kind kind, int32_t chunk)
{
    int32_t unit = o->done[chunk][kind]++;
    put(o, kind, chunk, o->p->mirrored && chunk == 1 ? unit + o->p->n_micro_batches / 2 : unit);
}

static void forward(struct order *o, int32_t chunk)
{
    put_next(o, CS_SLOT_FORWARD, chunk);
}

static void input_then_later(struct order *o, int32_t chunk)
{
    put_next(o, CS_SLOT_INPUT, chunk);
    o->done[chunk][CS_SLOT_BACKWARD]++;
    o->late[o->n_late++] = (uint8_t)chunk;
}

static void late_weight(struct order *o)
{
    put_next(o, CS_SLOT_WEIGHT, o->late[o->first_late++]);
}

/** Both gradients: together under DualPipe, one after the other in the V, so that the neighbour waits less.
 */
static void backward(struct order *o, int32_t chunk)
{
    if (o->p->mirrored) {
        put_next(o, CS_SLOT_BACKWARD, chunk);
        o->done[chunk][CS_SLOT_INPUT]++;
        o->done[chunk][CS_SLOT_WEIGHT]++;
    } else {
        put_next(o, CS_SLOT_INPUT, chunk);
        o->done[chunk][CS_SLOT_BACKWARD]++;
        put_next(o, CS_SLOT_WEIGHT, chunk);
    }
}

/** Under DualPipe, a forward pass of one direction and a backward pass of the other that may hide each
 * other's communication: both are kept meanwhile. In the V, where nothing is hidden, backward goes first and
 * makes room: the stage never keeps more than the 2 pp halves of its warm-up, and no stage waits longer for
 * it. */
static void both_ways(struct order *o, int32_t ahead, int32_t back, bool joined)
{
    if (o->p->mirrored) {
        forward(o, ahead);
        o->slots[o->n - 1].joined = joined;
        backward(o, back);
    } else {
        backward(o, back);
        forward(o, ahead);
    }
}

/** DualPipe's eight phases. `near` is the chunk whose micro-batches enter the pipeline on this side, `far`
 * the other; `depth` stages lie on this side of the middle, of which `at` are passed before this one. */
static void two_way(struct order *o)
{
    const struct cs_pipeline *p = o->p;
    const bool second_half = p->mirrored && o->stage >= p->pp / 2;
    const int32_t depth = p->mirrored ? p->pp / 2 : p->pp;
    const int32_t at = second_half ? p->pp - 1 - o->stage : o->stage;
    const int32_t n = p->mirrored ? p->n_micro_batches / 2 : p->n_micro_batches;
    const int32_t near = second_half ? 1 : 0;
    const int32_t far = 1 - near;
    for (int32_t i = 0; i < 2 * (depth - at - 1); i++) {
        forward(o, near);
    }
    for (int32_t i = 0; i < at + 1; i++) {
        forward(o, near);
        forward(o, far);
    }
    for (int32_t i = 0; i < depth - at - 1; i++) {
        input_then_later(o, far);
        late_weight(o);
        forward(o, far);
    }
    for (int32_t i = 0; i < n - 2 * depth + at + 1; i++) {
        /* In the middle the first two are apart: the next stage waits for the forward pass. */
        both_ways(o, near, far, i > 0 || at < depth - 1);
        both_ways(o, far, near, true);
    }
    for (int32_t i = 0; i < depth - at - 1; i++) {
        backward(o, far);
        both_ways(o, far, near, true);
    }
    for (int32_t i = 0; i < at + 1; i++) {
        (2 * i > at ? input_then_later : backward)(o, far);
        (2 * i + 1 > at ? input_then_later : backward)(o, near);
    }
    for (int32_t i = 0; i < depth - at - 1; i++) {
        if (o->first_late < o->n_late) {
            late_weight(o);
        }
        input_then_later(o, near);
    }
    while (o->first_late < o->n_late) {
        late_weight(o);
    }
}

int32_t cs__pipeline_order(const struct cs_pipeline *pipeline, int32_t stage, struct cs_slot *slots)
{
    static void (*const orders[CS_N_SCHEDULES])(struct order *) = {
        [CS_SCHED_GPIPE] = gpipe,
        [CS_SCHED_1F1B] = one_f_one_b,
        [CS_SCHED_INTERLEAVED] = one_f_one_b,
        [CS_SCHED_ZERO_BUBBLE] = zb_h1,
        [CS_SCHED_ZERO_BUBBLE_V] = two_way,
        [CS_SCHED_DUALPIPE] = two_way,
        [CS_SCHED_SEQPIPE] = one_f_one_b,
    };
    struct order order = {.p = pipeline, .stage = stage, .slots = slots};
    order.late = cs_calloc((size_t)pipeline->n_micro_batches * 2 + 1, sizeof *order.late);
    orders[pipeline->schedule](&order);
    CS_ASSERT(order.n <= cs__pipeline_slots_max(pipeline));
    cs_free(order.late);
    return order.n;
}

int64_t cs__pipeline_least(const struct cs_pipeline *pipeline)
{
    if (pipeline->schedule == CS_SCHED_ZERO_BUBBLE_V || pipeline->mirrored) {
        return 2 * (int64_t)pipeline->pp;
    }
    return 1; /* an interleaved schedule's multiple is pp, or its slices fill a turn */
}

int64_t cs__pipeline_multiple(const struct cs_pipeline *pipeline)
{
    if (pipeline->mirrored) {
        return 2;
    }
    if (pipeline->n_chunks == 1 || pipeline->schedule == CS_SCHED_ZERO_BUBBLE_V) {
        return 1;
    }
    /* Turns of pp units; the parts of a micro-batch stay in one turn (rules.c: n_parts divides pp). */
    return pipeline->pp / pipeline->n_parts > 0 ? pipeline->pp / pipeline->n_parts : 1;
}

/** Place in the order in which left-over layers are given out. */
static int32_t turn_of(int32_t n_places, int32_t place)
{
    if (place == n_places - 1) {
        return n_places - 1;
    }
    return place == 0 ? n_places - 2 : place - 1;
}

int32_t cs__place_layers(const struct cs_strategy *strategy, int32_t n_layers, int32_t n_places,
                         int32_t place, int32_t *first)
{
    const bool listed = strategy->layers.n > 0;
    int32_t each = n_layers / n_places;
    int32_t left = n_layers % n_places;
    int32_t count = 0;
    *first = 0;
    for (int32_t i = 0; i <= place; i++) {
        *first += count;
        count = listed ? strategy->layers.at[i] : each + (turn_of(n_places, i) < left ? 1 : 0);
    }
    return count;
}

void cs_strategy_drop_even(struct cs_strategy *strategy, int32_t n_layers)
{
    const int32_t n_places = strategy->layers.n;
    struct cs_strategy without = *strategy;
    bool is_even = n_places > 0 && (int64_t)strategy->pp * strategy->vpp == n_places;
    without.layers = (struct cs_per_place){0};
    for (int32_t place = 0; place < n_places && is_even; place++) {
        int32_t first;
        is_even = cs__place_layers(&without, n_layers, n_places, place, &first) == strategy->layers.at[place];
    }
    if (is_even) {
        strategy->layers = without.layers;
    }
}
