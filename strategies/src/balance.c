/* Uneven stages: stage 0 keeps most micro-batches and has the embedding, the last one has the head; equal
 * shares of the layers balance neither time nor memory. */
#include "balance_priv.h"

#include "cost_priv.h"

#include <math.h>
#include <string.h>

/** A kind of layer under one way to recompute. */
struct kind {
    double time_s;      /* forward and backward of a micro-batch, computing only */
    int64_t kept_bytes; /* of a micro-batch until its backward pass */
    int64_t high_bytes; /* most it works with beside that */
};

/** Embedding, layer, head; by recomputation. */
enum part { PART_FIRST, PART_LAYER, PART_LAST, N_PARTS };
struct parts {
    struct kind kind[CS_N_RECOMPUTE][N_PARTS];
};

struct cs__balancer {
    const struct cs_study *study;
    struct cs__memo memo;
    int32_t n, cap;
    struct parts *parts;
};

/** A strategy at work. */
struct work {
    const struct parts *parts;
    const struct cs_strategy *strategy;
    int64_t n_micro_batches;
    double limit_bytes; /* of a stage, the runtime's reserve taken off */
    double layer_bytes; /* model state of a layer */
    double first_bytes; /* of what stands before the layers, of what stands behind them */
    double last_bytes;
    double buffer_bytes;
    bool choose_full;
    int32_t n_layers[CS_PLACES_MAX];
    int32_t n_full[CS_PLACES_MAX];
    double time_s[CS_PLACES_MAX];
    double over_bytes[CS_PLACES_MAX]; /* that a stage does not fit by */
};

struct cs__balancer *cs__balancer_new(const struct cs_study *study)
{
    struct cs__balancer *balancer = cs_calloc(1, sizeof *balancer);
    balancer->study = study;
    return balancer;
}

void cs__balancer_free(struct cs__balancer *balancer)
{
    if (balancer) {
        cs__memo_release(&balancer->memo);
        cs_free(balancer->parts);
        cs_free(balancer);
    }
}

static double ops_s(const struct cs_chip *chip, const struct cs_cost_ops *ops)
{
    double sum_s = 0;
    for (int32_t i = 0; i < ops->n; i++) {
        sum_s += ops->ops[i].is_collective ? 0 : cs_chip_op_time_s(chip, &ops->ops[i].cost);
    }
    return sum_s;
}

static void take_segment(const struct cs_chip *chip, const struct cs_segment_cost *segment, struct kind *kind)
{
    int64_t forward_bytes = segment->forward.memory.high_bytes - segment->forward.memory.net_bytes;
    int64_t high_bytes = segment->backward.memory.high_bytes;
    kind->time_s += ops_s(chip, &segment->forward) + ops_s(chip, &segment->backward);
    kind->kept_bytes += segment->forward.memory.net_bytes;
    high_bytes = high_bytes > forward_bytes ? high_bytes : forward_bytes;
    kind->high_bytes = high_bytes > kind->high_bytes ? high_bytes : kind->high_bytes;
}

static void derive(const struct cs__balancer *b, const struct cs_strategy *strategy, struct parts *parts)
{
    const struct cs_chip *chip = b->study->platform.devices[0].chip;
    memset(parts, 0, sizeof *parts);
    for (int32_t r = 0; r < CS_N_RECOMPUTE; r++) {
        struct cs_segments_cost segments;
        struct cs_strategy alone = *strategy;
        alone.dp = alone.pp = alone.op = alone.zero = 1;
        alone.layers = alone.full_layers = alone.selective_layers = (struct cs_per_place){0};
        alone.recompute = (enum cs_recompute)r;
        cs_segments_cost_build(&segments, &b->study->model, &b->study->training, &alone);
        bool seen_layer = false;
        for (int32_t pos = 0; pos < segments.n_chain; pos++) {
            const struct cs_segment_cost *segment = &segments.segments[segments.chain[pos]];
            enum part part = segment->is_layer ? PART_LAYER : seen_layer ? PART_LAST : PART_FIRST;
            if (part != PART_LAYER || !seen_layer) { /* the layers are alike */
                take_segment(chip, segment, &parts->kind[r][part]);
            }
            seen_layer = seen_layer || segment->is_layer;
        }
        cs_segments_cost_release(&segments);
    }
}

static const struct parts *parts_of(struct cs__balancer *b, const struct cs_strategy *s)
{
    const int64_t key[CS__MEMO_WORDS] = {s->mp, s->sp, s->micro_batch, s->keep_comm};
    int32_t index = cs__memo_find(&b->memo, key);
    if (index < 0) {
        CS_GROW(b->parts, b->n, b->cap);
        derive(b, s, &b->parts[b->n]);
        cs__memo_put(&b->memo, key, b->n);
        index = b->n++;
    }
    return &b->parts[index];
}

/* Model state of the parts, from the stages as they are dealt now. */
static void derive_state(const struct cs__balancer *b, const struct cs_strategy *s, struct work *w)
{
    struct cs_stages_cost stages;
    cs_stages_cost_build(&stages, &b->study->model, &b->study->training, s);
    for (int32_t i = 0; i < stages.n_stages; i++) {
        const struct cs_stage_cost *stage = &stages.stages[i];
        int32_t before = i == 0 ? 1 : 0;
        int32_t behind = i + 1 == stages.n_stages ? 1 : 0;
        int64_t n_params = 0;
        for (int32_t item = 0; item < stage->n_items; item++) {
            n_params += stage->item_params[item];
        }
        double each_bytes = n_params > 0 ? (double)stage->model_state_bytes / (double)n_params : 0;
        each_bytes += stages.keep_weights ? (double)stages.weight_elt_bytes : 0;
        w->n_layers[i] = stage->n_items - before - behind;
        w->layer_bytes = fmax(w->layer_bytes, (double)stage->item_params[before] * each_bytes);
        w->buffer_bytes = fmax(w->buffer_bytes, (double)stage->buffer_bytes);
        if (before) {
            w->first_bytes = (double)stage->item_params[0] * each_bytes;
        }
        if (behind) {
            w->last_bytes = (double)stage->item_params[stage->n_items - 1] * each_bytes;
        }
    }
    cs_stages_cost_release(&stages);
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Fill a stage: fewest recomputed layers with which it fits. */
static void fill(struct work *w, int32_t i)
{
    const struct cs_strategy *s = w->strategy;
    const struct kind *plain = w->parts->kind[s->recompute];
    const struct kind *full = &w->parts->kind[CS_RECOMPUTE_FULL][PART_LAYER];
    bool is_last = i + 1 == s->pp;
    int32_t n = w->n_layers[i];
    int64_t kept =
        s->schedule == CS_SCHED_1F1B && s->pp - i < w->n_micro_batches ? s->pp - i : w->n_micro_batches;
    double state_bytes = n * w->layer_bytes + w->buffer_bytes;
    double rest_bytes = 0; /* kept of a micro-batch besides the layers */
    double high_bytes = (double)plain[PART_LAYER].high_bytes;
    double rest_s = 0;
    for (int32_t k = 0; k < 2; k++) {
        enum part part = k == 0 ? PART_FIRST : PART_LAST;
        if (part == PART_FIRST ? i == 0 : is_last) {
            state_bytes += part == PART_FIRST ? w->first_bytes : w->last_bytes;
            rest_bytes += (double)plain[part].kept_bytes;
            high_bytes = later(high_bytes, (double)plain[part].high_bytes);
            rest_s += plain[part].time_s;
        }
    }
    int32_t n_full = 0;
    double over_bytes;
    for (;; n_full++) {
        double layers_bytes = (double)(n - n_full) * (double)plain[PART_LAYER].kept_bytes +
                              (double)n_full * (double)full->kept_bytes;
        double high = n_full > 0 ? later(high_bytes, (double)full->high_bytes) : high_bytes;
        over_bytes = state_bytes + (double)kept * (layers_bytes + rest_bytes) + high - w->limit_bytes;
        if (over_bytes <= 0 || n_full == n || !w->choose_full) {
            break;
        }
    }
    w->n_full[i] = n_full;
    w->over_bytes[i] = later(over_bytes, 0);
    w->time_s[i] = rest_s + (n - n_full) * plain[PART_LAYER].time_s + n_full * full->time_s;
}

/* Is stage a worse off than b: over its memory, else slower? */
static bool is_worse(const struct work *w, int32_t a, int32_t b)
{
    if (w->over_bytes[a] > 0 || w->over_bytes[b] > 0) {
        return w->over_bytes[a] > w->over_bytes[b];
    }
    return w->time_s[a] > w->time_s[b];
}

/* Move layers, one at a time, off the stage that is worst off, as long as that helps. */
static void deal(struct work *w, int32_t pp)
{
    for (int32_t turn = 0; turn < pp * CS_PLACES_MAX; turn++) {
        int32_t from = 0;
        int32_t to = 0;
        for (int32_t i = 1; i < pp; i++) {
            from = is_worse(w, i, from) ? i : from;
            to = is_worse(w, to, i) ? i : to;
        }
        struct work before = *w;
        if (from == to || w->n_layers[from] < 2 || w->n_layers[to] >= CS_PER_PLACE_MAX) {
            return;
        }
        w->n_layers[from]--;
        w->n_layers[to]++;
        fill(w, from);
        fill(w, to);
        double was_over = before.over_bytes[from];
        double now_over = later(w->over_bytes[from], w->over_bytes[to]);
        bool helps = now_over < was_over ||
                     (now_over <= was_over && later(w->time_s[from], w->time_s[to]) < before.time_s[from]);
        if (!helps) {
            *w = before;
            return;
        }
    }
}

/* Write what was chosen, in the plainest form that says it. */
static void put(const struct work *w, struct cs_strategy *s, const int32_t *dealt)
{
    bool none = true;
    bool all = true;
    bool moved = false;
    enum cs_recompute plain = s->recompute;
    for (int32_t i = 0; i < s->pp; i++) {
        none = none && w->n_full[i] == 0;
        all = all && w->n_full[i] == w->n_layers[i];
        moved = moved || w->n_layers[i] != dealt[i];
    }
    for (int32_t i = 0; i < s->pp && moved; i++) {
        s->layers.at[i] = (uint16_t)w->n_layers[i];
        s->layers.n = (uint8_t)s->pp;
    }
    if (none || !w->choose_full) {
        return;
    }
    s->recompute = all ? CS_RECOMPUTE_FULL : CS_RECOMPUTE_NONE;
    for (int32_t i = 0; i < s->pp && !all; i++) {
        s->full_layers.at[i] = (uint16_t)w->n_full[i];
        s->selective_layers.at[i] = (uint16_t)(plain == CS_RECOMPUTE_SELECTIVE ? w->n_layers[i] : 0);
        s->full_layers.n = s->selective_layers.n = (uint8_t)s->pp;
    }
}

void cs__balance(struct cs__balancer *b, struct cs_strategy *strategy, bool layers, bool full_layers)
{
    const struct cs_study *study = b->study;
    struct cs_strategy s = *strategy;
    const struct cs_cluster_shape shape = cs_study_shape(study);
    int32_t dealt[CS_PLACES_MAX];
    char why[8];
    cs_strategy_canonicalise(&s);
    struct cs_strategy even = s;
    even.layers = (struct cs_per_place){0};
    if (study->model.image > 0 || s.pp < 2 || s.pp > CS_PLACES_MAX || s.full_layers.n > 0 ||
        s.selective_layers.n > 0 || !cs_stage_cost_covers(&study->model, &even) ||
        cs_strategy_check(&s, &study->model, &study->training, &shape, why, sizeof why)) {
        return;
    }
    struct work w = {.parts = parts_of(b, &s),
                     .strategy = &s,
                     .n_micro_batches = cs_strategy_micro_batches(&s, &study->training),
                     .choose_full = full_layers && s.recompute != CS_RECOMPUTE_FULL};
    double reserved_bytes = fmax(0, study->platform.devices[0].chip->reserved_bytes);
    /* The stages' bytes have no reserve: take off what the check of memory will count of it. */
    w.limit_bytes = cs_study_device_memory_bytes(study) / study->constraints.memory_margin -
                    (study->constraints.device_memory_bytes > 0 ? 0 : reserved_bytes);
    derive_state(b, &s, &w);
    for (int32_t i = 0; i < s.pp; i++) {
        dealt[i] = w.n_layers[i];
        fill(&w, i);
    }
    if (layers && s.layers.n == 0) {
        deal(&w, s.pp);
    }
    struct cs_strategy chosen = s;
    put(&w, &chosen, dealt);
    *strategy = chosen;
}
