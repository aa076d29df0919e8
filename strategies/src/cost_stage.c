/* One pipeline stage in closed form: its passes, its memory. */
#include "cost_priv.h"

#include <math.h>
#include <string.h>

/** What a pass works with. */
struct pass {
    const struct cs__candidate *candidate;
    const struct cs_stages_cost *stages;
    const struct cs_stage_cost *stage;
    int32_t index;
    int64_t kept;    /* micro-batches in flight when the first backward pass begins */
    bool gathers[2]; /* weights for every pass: forward, backward */
    const struct cs__segment_times *times[CS_N_RECOMPUTE]; /* by recomputation; the same unless mixed */
    const struct cs_segments_cost *segments[CS_N_RECOMPUTE];
    const int32_t *group;  /* per kind */
    double unpack_s[2];    /* forward, backward: gathering the parts of what was received */
    int64_t last_bytes[3]; /* asked last, and what it took: neighbours are mostly alike */
    struct cs__cost_coll last[3];
    int32_t nic;  /* link of what was added up; -1 = nothing yet, -2 = several links */
    double nic_s; /* traffic on it since open_pass or the last reset */
};

static int32_t segment_of(const struct pass *pass, int32_t item)
{
    return pass->segments[0]->chain[pass->stage->first_pos + item];
}

/* How an item is recomputed: lists count the layers of a stage. */
static int32_t recompute_of(const struct pass *pass, int32_t item)
{
    if (!pass->candidate->mixed || !pass->segments[0]->segments[segment_of(pass, item)].is_layer) {
        return 0;
    }
    int32_t before = pass->segments[0]->segments[segment_of(pass, 0)].is_layer ? 0 : 1;
    return (int32_t)cs_strategy_recompute(pass->candidate->strategy, pass->index, item - before);
}

static double forward_s(const struct pass *pass, int32_t item)
{
    return pass->times[recompute_of(pass, item)]->forward_s[segment_of(pass, item)];
}

static double backward_s(const struct pass *pass, int32_t item)
{
    return pass->times[recompute_of(pass, item)]->backward_s[segment_of(pass, item)];
}

static const struct cs_segment_cost *segment_at(const struct pass *pass, int32_t item)
{
    return &pass->segments[recompute_of(pass, item)]->segments[segment_of(pass, item)];
}

static int64_t sent_bytes(const struct pass *pass, int64_t bytes)
{
    return (bytes + pass->stages->message_parts - 1) / pass->stages->message_parts;
}

/* Time to make one again of the parts of a message. */
static double unpack_s(const struct pass *pass, int64_t bytes)
{
    int64_t whole = sent_bytes(pass, bytes) * pass->stages->message_parts;
    return cs__cost_coll(pass->candidate->cost, pass->group[CS_COST_TP], CS_COLL_ALL_GATHER, whole).time_s;
}

static void open_pass(struct pass *pass, const struct cs__candidate *candidate, int32_t stage)
{
    struct cs_cost *cost = candidate->cost;
    *pass = (struct pass){
        .candidate = candidate,
        .stages = &cost->stages[candidate->stage].stages,
        .stage = &cost->stages[candidate->stage].stages.stages[stage],
        .index = stage,
        .group = cost->layouts[candidate->layout].group[stage],
        .nic = -1,
        .kept = candidate->n_micro_batches,
    };
    const struct cs_strategy *s = candidate->strategy;
    if (s->schedule == CS_SCHED_1F1B && s->pp - stage < pass->kept) {
        pass->kept = s->pp - stage;
    }
    /* Kept weights stay as long as any micro-batch is in flight: with several there always is one. */
    const bool keeps = pass->stages->keep_weights;
    pass->gathers[0] = pass->stages->gather_always && (!keeps || pass->kept == 1);
    pass->gathers[1] = pass->stages->gather_always && !keeps;
    for (int32_t r = 0; r < CS_N_RECOMPUTE; r++) {
        pass->times[r] = &cost->times[candidate->times[stage * CS_N_RECOMPUTE + r]];
        pass->segments[r] = &cost->plans[candidate->plan[r]].segments;
    }
    if (pass->stages->message_parts > 1) {
        int32_t top = pass->stage->n_items - 1;
        pass->unpack_s[0] = stage > 0 ? unpack_s(pass, segment_at(pass, 0)->in_bytes) : 0;
        pass->unpack_s[1] =
            stage + 1 < pass->stages->n_stages ? unpack_s(pass, segment_at(pass, top)->out_bytes) : 0;
    }
}

/* A collective of one of three uses, remembered while the size stays the same. */
static const struct cs__cost_coll *collective(struct pass *pass, int32_t use, enum cs_cost_group group,
                                              enum cs_coll coll, int64_t bytes)
{
    if (pass->last_bytes[use] != bytes) {
        pass->last_bytes[use] = bytes;
        pass->last[use] = cs__cost_coll(pass->candidate->cost, pass->group[group], coll, bytes);
    }
    const struct cs__cost_coll *last = &pass->last[use];
    if (last->nic >= 0) {
        pass->nic = pass->nic == -1 || pass->nic == last->nic ? last->nic : -2;
        pass->nic_s += last->nic_s;
    }
    return last;
}

/* Time that the NIC needs for what was asked for since the last call; 0 when it went by several links. */
static double take_nic_s(struct pass *pass)
{
    double nic_s = pass->nic >= 0 ? pass->nic_s : 0;
    pass->nic = -1;
    pass->nic_s = 0;
    return nic_s;
}

/* Weights of an item, gathered for one pass (zero 3). */
static double gather_s(struct pass *pass, int32_t item)
{
    int64_t op = pass->stages->op;
    int64_t shard = (pass->stage->item_params[item] + op - 1) / op;
    return collective(pass, 0, CS_COST_OP, CS_COLL_ALL_GATHER, shard * op * pass->stages->weight_elt_bytes)
        ->time_s;
}

/* Gradients of a bucket over its copies. */
static double reduce_s(struct pass *pass, int32_t bucket, bool last)
{
    const struct cs_bucket_cost *b = &pass->stage->buckets[bucket];
    int64_t elt = pass->stages->gradient_elt_bytes;
    if (!pass->stages->sharded) {
        return collective(pass, 1, CS_COST_DP, CS_COLL_ALL_REDUCE, b->n_params * elt)->time_s;
    }
    double sum_s =
        collective(pass, 1, CS_COST_OP, CS_COLL_REDUCE_SCATTER, b->n_shard * pass->stages->op * elt)->time_s;
    if (last) {
        sum_s += collective(pass, 2, CS_COST_DPX, CS_COLL_ALL_REDUCE, b->n_shard * elt)->time_s;
    }
    return sum_s;
}

/* Forward from the moment the stream is free and the moment its input is there; returns when it ends. */
static double run_forward(struct pass *pass, double start_s, double ready_s, bool gathers)
{
    const struct cs_stage_cost *stage = pass->stage;
    double now_s = cs__later(start_s, ready_s) + pass->unpack_s[0];
    if (!gathers) {
        for (int32_t item = 0; item < stage->n_items; item++) {
            now_s += forward_s(pass, item);
        }
        return now_s;
    }
    double gathered_s = start_s + gather_s(pass, 0);
    for (int32_t item = 0; item < stage->n_items; item++) {
        double next_s = gathered_s;
        if (item + 1 < stage->n_items) {
            next_s = cs__later(now_s, gathered_s) + gather_s(pass, item + 1);
        }
        now_s = cs__later(now_s, gathered_s) + forward_s(pass, item);
        gathered_s = next_s;
    }
    return now_s;
}

/* Backward likewise; *lane_s becomes the moment when its last gradient is reduced (scattered). */
static double run_backward(struct pass *pass, double start_s, double ready_s, bool last, double *lane_s)
{
    const struct cs_stages_cost *stages = pass->stages;
    const struct cs_stage_cost *stage = pass->stage;
    bool reduces = stages->reduces && (last || stages->scatter_always);
    int32_t top = stage->n_items - 1;
    double now_s = cs__later(start_s, ready_s) + pass->unpack_s[1];
    double gathered_s = pass->gathers[1] ? start_s + gather_s(pass, top) : -(double)INFINITY;
    double scattered_s[2] = {-(double)INFINITY, -(double)INFINITY}; /* of the bucket before last, the last */
    for (int32_t item = top; item >= 0; item--) {
        const struct cs_bucket_cost *bucket = &stage->buckets[stage->bucket_of[item]];
        double next_s = gathered_s;
        if (pass->gathers[1]) {
            if (item > 0) {
                next_s = cs__later(now_s, gathered_s) + gather_s(pass, item - 1);
            }
            now_s = cs__later(now_s, gathered_s);
            gathered_s = next_s;
        }
        if (stages->scatter_always && bucket->last == item) {
            now_s = cs__later(now_s, scattered_s[0]); /* of the two buffers the older one is needed */
        }
        now_s += backward_s(pass, item);
        if (reduces && bucket->first == item) {
            double end_s = cs__later(now_s, scattered_s[1]) + reduce_s(pass, stage->bucket_of[item], last);
            scattered_s[0] = scattered_s[1];
            scattered_s[1] = end_s;
        }
    }
    *lane_s = scattered_s[1];
    return now_s;
}

static struct cs__pass backward_pass(struct pass *pass, bool last)
{
    struct cs__pass out;
    const double never = -(double)INFINITY;
    (void)take_nic_s(pass);
    out.end_start_s = run_backward(pass, 0, never, last, &out.lane_start_s);
    /* Weights that come in and gradients that go out share the NIC, from the pass's start to its lane's end.
     */
    out.nic_s = take_nic_s(pass);
    if (pass->stages->scatter_always) {
        out.lane_start_s = cs__later(out.lane_start_s, out.nic_s);
    }
    /* What it is ready for may be its buffers, which it waits for after it has unpacked. */
    double unpacked_s = pass->stages->scatter_always ? pass->unpack_s[1] : 0;
    if (pass->gathers[1]) {
        pass->unpack_s[1] -= unpacked_s;
        out.end_ready_s = run_backward(pass, never, 0, last, &out.lane_ready_s);
        pass->unpack_s[1] += unpacked_s;
    } else {
        out.end_ready_s = out.end_start_s - unpacked_s; /* else the two moments are one */
        out.lane_ready_s = out.lane_start_s - unpacked_s;
    }
    return out;
}

void cs__stage_times(const struct cs__candidate *candidate, int32_t index, struct cs__stage_times *out)
{
    struct pass pass;
    open_pass(&pass, candidate, index);
    const struct cs__layout_part *layout = &candidate->cost->layouts[candidate->layout];
    const struct cs_stage_cost *stage = pass.stage;
    const double never = -(double)INFINITY;
    memset(out, 0, sizeof *out);
    out->waits_for_weights = pass.stages->sharded && !pass.gathers[0];
    out->forward.end_start_s = run_forward(&pass, 0, never, pass.gathers[0]);
    out->nic_s = take_nic_s(&pass);
    out->forward.end_ready_s =
        pass.gathers[0] ? run_forward(&pass, never, 0, true) : out->forward.end_start_s;
    bool differs = pass.stages->reduces && (!pass.stages->scatter_always || pass.stages->dpx > 1);
    out->backward = backward_pass(&pass, false);
    out->nic_s += out->backward.nic_s;
    out->backward_last = differs ? backward_pass(&pass, true) : out->backward;
    if (index + 1 < pass.stages->n_stages) {
        int64_t bytes = segment_at(&pass, stage->n_items - 1)->out_bytes;
        out->send_forward_s = layout->send_latency_s[index] +
                              (double)sent_bytes(&pass, bytes) / layout->send_bytes_per_s[index];
    }
    if (index > 0) {
        int64_t bytes = segment_at(&pass, 0)->in_bytes;
        out->send_backward_s = layout->back_latency_s[index - 1] +
                               (double)sent_bytes(&pass, bytes) / layout->back_bytes_per_s[index - 1];
    }
}

double cs__stage_first_forward_s(const struct cs__candidate *candidate, int32_t index, double start_s,
                                 double ready_s)
{
    struct pass pass;
    open_pass(&pass, candidate, index);
    if (pass.stages->gather_always) {
        return run_forward(&pass, start_s, ready_s, true);
    }
    const struct cs_stage_cost *stage = pass.stage;
    double now_s = cs__later(start_s, ready_s) + pass.unpack_s[0];
    double gathered_s = 0;
    for (int32_t item = 0; item < stage->n_items; item++) {
        const struct cs_bucket_cost *bucket = &stage->buckets[stage->bucket_of[item]];
        if (bucket->first == item) {
            gathered_s += collective(&pass, 0, CS_COST_OP, CS_COLL_ALL_GATHER,
                                     bucket->n_shard * pass.stages->op * pass.stages->weight_elt_bytes)
                              ->time_s;
            now_s = cs__later(now_s, gathered_s);
        }
        now_s += forward_s(&pass, item);
    }
    return now_s;
}

/** Memory of a sequence, one thing after the other. */
struct ledger {
    int64_t now_bytes, high_bytes;
};

static void hold(struct ledger *ledger, int64_t bytes)
{
    ledger->now_bytes += bytes;
    if (ledger->now_bytes > ledger->high_bytes) {
        ledger->high_bytes = ledger->now_bytes;
    }
}

static void run_memory(struct ledger *ledger, const struct cs_cost_memory *memory)
{
    if (ledger->now_bytes + memory->high_bytes > ledger->high_bytes) {
        ledger->high_bytes = ledger->now_bytes + memory->high_bytes;
    }
    ledger->now_bytes += memory->net_bytes;
}

static int64_t gathered_bytes(const struct pass *pass, int32_t item)
{
    int64_t op = pass->stages->op;
    return (pass->stage->item_params[item] + op - 1) / op * op * pass->stages->weight_elt_bytes;
}

/* A pass over all items, up (forward) or down (backward). Zero 3 gathers the weights of an item while the one
 * before is used, and drops them behind it; either may be left out. */
static struct ledger pass_memory(const struct pass *pass, bool forward, bool gathers, bool drops)
{
    struct ledger ledger = {0, 0};
    int32_t n = pass->stage->n_items;
    if (gathers) {
        hold(&ledger, gathered_bytes(pass, forward ? 0 : n - 1));
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t item = forward ? i : n - 1 - i;
        const struct cs_segment_cost *segment = segment_at(pass, item);
        if (gathers && i + 1 < n) {
            hold(&ledger, gathered_bytes(pass, forward ? item + 1 : item - 1));
        }
        run_memory(&ledger, forward ? &segment->forward.memory : &segment->backward.memory);
        if (drops) {
            hold(&ledger, -gathered_bytes(pass, item));
        }
    }
    return ledger;
}

static int64_t larger_bytes(int64_t a_bytes, int64_t b_bytes)
{
    return a_bytes > b_bytes ? a_bytes : b_bytes;
}

int64_t cs__stage_peak_bytes(const struct cs__candidate *candidate, int32_t index)
{
    struct pass pass;
    open_pass(&pass, candidate, index);
    const bool keeps = pass.stages->keep_weights;
    const bool always = pass.stages->gather_always && !keeps;
    const int64_t kept = pass.kept;
    struct ledger forward = pass_memory(&pass, true, always, always);
    struct ledger backward = pass_memory(&pass, false, always, always || (keeps && kept == 1));
    int64_t state_bytes = pass.stage->model_state_bytes + pass.stage->buffer_bytes;
    int64_t held_bytes = 0; /* gathered weights between passes */
    int64_t in_forward = (kept - 1) * forward.now_bytes + forward.high_bytes;
    if (keeps) {
        struct ledger first = pass_memory(&pass, true, true, false);
        held_bytes = first.now_bytes - forward.now_bytes;
        in_forward = kept == 1 ? first.high_bytes : larger_bytes(first.high_bytes, held_bytes + in_forward);
    }
    int64_t in_backward = held_bytes + kept * forward.now_bytes + backward.high_bytes;
    return state_bytes + larger_bytes(0, larger_bytes(in_forward, in_backward));
}
