/* The pipeline as a max-plus system: passes of all stages in the order of the schedule. */
#include "cost_priv.h"

#include <math.h>
#include <string.h>

/* Two differences that ought to be equal: rounding apart. */
#define EQUAL_FRAC 1e-12
/* Longest period that is looked for, in micro-batches. */
#define PERIOD_MAX 8

/** Where a stage is. Moments; -infinity = not yet. */
struct place {
    double free_s;     /* compute stream */
    double lane_s;     /* gradients of the last backward pass scattered */
    double forward_s;  /* the last output has arrived at the next stage */
    double backward_s; /* the last input gradient has arrived at the stage before */
};
#define PLACE_WORDS 4

struct pipeline {
    const struct cs__candidate *candidate;
    const struct cs__stage_times *stages;
    int32_t pp;
    int64_t m;
    bool blocking_sends;  /* of 1F1B; a row of GPipe is a lower bound with them */
    struct place *places; /* per stage */
};

static void forward(struct pipeline *p, int32_t stage, bool first, double ready_s)
{
    const struct cs__stage_times *t = &p->stages[stage];
    struct place *place = &p->places[stage];
    if (first && t->waits_for_weights) {
        place->free_s = cs__stage_first_forward_s(p->candidate, stage, place->free_s, ready_s);
    } else {
        place->free_s = cs__later(place->free_s + t->forward.end_start_s, ready_s + t->forward.end_ready_s);
    }
    if (stage + 1 < p->pp) {
        place->forward_s = cs__later(place->forward_s, place->free_s) + t->send_forward_s;
        place->free_s = p->blocking_sends ? place->forward_s : place->free_s;
    }
}

static void backward(struct pipeline *p, int32_t stage, bool last)
{
    const struct cs__stage_times *t = &p->stages[stage];
    const struct cs__pass *pass = last ? &t->backward_last : &t->backward;
    struct place *place = &p->places[stage];
    double ready_s = stage + 1 < p->pp ? p->places[stage + 1].backward_s : -(double)INFINITY;
    double start_s = place->free_s;
    ready_s = cs__later(ready_s, place->lane_s);
    place->free_s = cs__later(start_s + pass->end_start_s, ready_s + pass->end_ready_s);
    place->lane_s = cs__later(start_s + pass->lane_start_s, ready_s + pass->lane_ready_s);
    if (stage > 0) {
        place->backward_s = cs__later(place->backward_s, place->free_s) + t->send_backward_s;
        place->free_s = p->blocking_sends ? place->backward_s : place->free_s;
    }
}

/** States of the last rounds, to find a period. */
struct history {
    int64_t n_rounds;
    struct place *places; /* PERIOD_MAX + 1 rounds of pp places */
};

static struct place *round_of(const struct history *history, int32_t pp, int64_t round)
{
    return history->places + round % (PERIOD_MAX + 1) * pp;
}

/* Did everything move by the same amount in the last `period` rounds? By how much, else -1. */
static double shift_s(const struct pipeline *p, const struct history *history, int32_t period)
{
    const struct place *before = round_of(history, p->pp, history->n_rounds - 1 - period);
    double by_s = p->places[0].free_s - before[0].free_s;
    double tolerance_s = EQUAL_FRAC * p->places[0].free_s;
    for (int32_t stage = 0; stage < p->pp; stage++) {
        const struct place *now = &p->places[stage];
        const double moved_s[PLACE_WORDS] = {now->free_s - before[stage].free_s,
                                             isinf(now->lane_s) ? by_s : now->lane_s - before[stage].lane_s,
                                             stage + 1 < p->pp ? now->forward_s - before[stage].forward_s
                                                               : by_s,
                                             stage > 0 ? now->backward_s - before[stage].backward_s : by_s};
        for (int32_t k = 0; k < PLACE_WORDS; k++) {
            if (!(fabs(moved_s[k] - by_s) <= tolerance_s)) {
                return -1;
            }
        }
    }
    return by_s;
}

static void move_all(struct pipeline *p, double by_s)
{
    for (int32_t stage = 0; stage < p->pp; stage++) {
        struct place *place = &p->places[stage];
        place->free_s += by_s;
        place->lane_s += by_s;
        place->forward_s += by_s;
        place->backward_s += by_s;
    }
}

/* After a steady round: leave out as many whole periods as fit into `left` rounds; returns how many rounds.
 */
static int64_t skip_periods(struct pipeline *p, struct history *history, int64_t left)
{
    memcpy(round_of(history, p->pp, history->n_rounds), p->places, (size_t)p->pp * sizeof *p->places);
    history->n_rounds++;
    for (int32_t period = 1; period <= PERIOD_MAX && period < history->n_rounds; period++) {
        double by_s = left >= period ? shift_s(p, history, period) : -1;
        if (by_s >= 0) {
            move_all(p, by_s * (double)(left / period));
            history->n_rounds = 0;
            return left / period * period;
        }
    }
    return 0;
}

/* The first passes of 1F1B, before a stage's first backward pass. */
static void warm_up(struct pipeline *p)
{
    double *arrival_s = cs_calloc((size_t)p->pp, sizeof *arrival_s); /* of micro-batch i at the stage */
    for (int32_t stage = 0; stage < p->pp; stage++) {
        for (int32_t i = 0; i + 1 < p->pp - stage; i++) {
            forward(p, stage, i == 0, arrival_s[i]);
            arrival_s[i] = p->places[stage].forward_s;
        }
    }
    cs_free(arrival_s);
}

/* 1F1B: stage p keeps w = pp - p micro-batches. In round r every stage, from the last to the first, runs
 * forward of micro-batch r + w - 1 (its input came in the round before) and backward of r. */
static void one_f_one_b(struct pipeline *p)
{
    struct history history = {0, cs_calloc((size_t)(PERIOD_MAX + 1) * (size_t)p->pp, sizeof *p->places)};
    warm_up(p);
    int64_t n_steady = p->m - p->pp + 1; /* rounds in which every stage has a forward pass left */
    for (int64_t r = 0; r < p->m; r++) {
        for (int32_t stage = p->pp - 1; stage >= 0; stage--) {
            int64_t i = r + p->pp - stage - 1;
            if (i < p->m) {
                forward(p, stage, i == 0, stage > 0 ? p->places[stage - 1].forward_s : 0);
            }
            backward(p, stage, r == p->m - 1);
        }
        int64_t left = n_steady - 2 - r; /* the last steady round may be the last of all */
        if (left > 0 && r > 0) {
            r += skip_periods(p, &history, left);
        }
    }
    cs_free(history.places);
}

/** First and last micro-batch of a row of a tandem line. */
struct row {
    double first_s, last_s;
};

/* A row of messages: the last one leaves after the last pass and after the messages before it. */
static struct row send_row(struct row passes, double message_s, int64_t m)
{
    double first_s = passes.first_s + message_s;
    return (struct row){first_s, cs__later(first_s + (double)(m - 1) * message_s, passes.last_s + message_s)};
}

static struct row forward_row(struct pipeline *p, int32_t stage, struct row arrival)
{
    const struct cs__pass *pass = &p->stages[stage].forward;
    forward(p, stage, true, arrival.first_s);
    struct row row = {p->places[stage].free_s, p->places[stage].free_s};
    if (p->m > 1) {
        row.last_s = cs__later(row.first_s + (double)(p->m - 1) * pass->end_start_s,
                               arrival.last_s + pass->end_ready_s);
    }
    p->places[stage].free_s = row.last_s;
    return row;
}

/* `n` passes whose inputs are there: only the stage itself and its scattered gradients hold them up. */
static void repeat_backward(const struct cs__pass *pass, struct place *place, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double start_s = place->free_s;
        double ready_s = place->lane_s;
        place->free_s = cs__later(start_s + pass->end_start_s, ready_s + pass->end_ready_s);
        place->lane_s = cs__later(start_s + pass->lane_start_s, ready_s + pass->lane_ready_s);
        double moved_s = place->free_s - start_s;
        bool settled =
            isinf(ready_s) || fabs(place->lane_s - ready_s - moved_s) <= EQUAL_FRAC * place->free_s;
        if (settled) {
            place->free_s += moved_s * (double)(n - 1 - i);
            place->lane_s += moved_s * (double)(n - 1 - i);
            return;
        }
    }
}

static struct row backward_row(struct pipeline *p, int32_t stage, struct row arrival)
{
    const struct cs__stage_times *t = &p->stages[stage];
    struct place *place = &p->places[stage];
    struct row row;
    for (int32_t last = p->m > 1 ? 0 : 1; last < 2; last++) {
        const struct cs__pass *pass = last ? &t->backward_last : &t->backward;
        double start_s = place->free_s;
        double ready_s = cs__later(last ? arrival.last_s : arrival.first_s, place->lane_s);
        place->free_s = cs__later(start_s + pass->end_start_s, ready_s + pass->end_ready_s);
        place->lane_s = cs__later(start_s + pass->lane_start_s, ready_s + pass->lane_ready_s);
        if (!last || p->m == 1) {
            row.first_s = place->free_s;
        }
        if (!last) {
            repeat_backward(pass, place, p->m - 2);
        }
    }
    row.last_s = place->free_s;
    return row;
}

/* GPipe: all forward passes, then all backward passes. No stage waits for a later one, so each is a row of a
 * tandem line; with equal service times its first and last item say everything. */
static void gpipe(struct pipeline *p)
{
    struct row arrival = {0, 0};
    for (int32_t stage = 0; stage < p->pp; stage++) {
        struct row row = forward_row(p, stage, arrival);
        arrival = send_row(row, p->stages[stage].send_forward_s, p->m);
    }
    arrival = (struct row){-(double)INFINITY, -(double)INFINITY};
    for (int32_t stage = p->pp - 1; stage >= 0; stage--) {
        struct row row = backward_row(p, stage, arrival);
        arrival = send_row(row, p->stages[stage].send_backward_s, p->m);
    }
}

/* Operations of a stage's epilogue up to the next that spans stages; returns that one, NULL at the end. */
static const struct cs_cost_op *run_epilogue(struct pipeline *p, int32_t stage, int32_t *next)
{
    struct cs_cost *cost = p->candidate->cost;
    const struct cs__stage_part *part = &cost->stages[p->candidate->stage];
    const int32_t *group = cost->layouts[p->candidate->layout].group[stage];
    const struct cs_cost_ops *ops = &part->stages.stages[stage].epilogue;
    for (; *next < ops->n; (*next)++) {
        const struct cs_cost_op *op = &ops->ops[*next];
        if (op->is_collective && (op->group == CS_COST_EMBEDDING || op->group == CS_COST_NORM)) {
            return op;
        }
        p->places[stage].free_s += op->is_collective
                                       ? cs__cost_coll(cost, group[op->group], op->coll, op->bytes).time_s
                                       : part->epilogue_s[stage][*next];
    }
    return NULL;
}

/* Once the gradients are there, the operations of the epilogue; those that span stages begin when the last of
 * their members has come. */
static double epilogue(struct pipeline *p)
{
    static const enum cs_cost_group meetings[] = {CS_COST_EMBEDDING, CS_COST_NORM};
    struct cs_cost *cost = p->candidate->cost;
    const struct cs__layout_part *layout = &cost->layouts[p->candidate->layout];
    int32_t *next = cs_calloc((size_t)p->pp, sizeof *next);
    double end_s = 0;
    for (int32_t k = 0; k < CS_COUNT(meetings); k++) {
        double met_s = 0;
        for (int32_t stage = 0; stage < p->pp; stage++) {
            struct place *place = &p->places[stage];
            place->free_s = cs__later(place->free_s, place->lane_s);
            const struct cs_cost_op *op = run_epilogue(p, stage, &next[stage]);
            if (op && op->group == meetings[k]) {
                met_s = cs__later(
                    met_s,
                    place->free_s +
                        cs__cost_coll(cost, layout->group[stage][op->group], op->coll, op->bytes).time_s);
            }
        }
        for (int32_t stage = 0; stage < p->pp; stage++) {
            const struct cs_cost_op *op = run_epilogue(p, stage, &next[stage]);
            if (op && op->group == meetings[k]) {
                p->places[stage].free_s = met_s;
                next[stage]++;
            }
        }
    }
    for (int32_t stage = 0; stage < p->pp; stage++) {
        (void)run_epilogue(p, stage, &next[stage]);
        end_s = cs__later(end_s, p->places[stage].free_s);
    }
    cs_free(next);
    return end_s;
}

double cs__pipeline_s(const struct cs__candidate *candidate, const struct cs__stage_times *stages)
{
    struct pipeline p = {.candidate = candidate,
                         .stages = stages,
                         .pp = candidate->strategy->pp,
                         .m = candidate->n_micro_batches,
                         .blocking_sends = candidate->cost->training->blocking_sends &&
                                           candidate->strategy->schedule == CS_SCHED_1F1B};
    p.places = cs_calloc((size_t)p.pp, sizeof *p.places);
    for (int32_t stage = 0; stage < p.pp; stage++) {
        p.places[stage].lane_s = -(double)INFINITY;
    }
    if (candidate->strategy->schedule == CS_SCHED_GPIPE) {
        gpipe(&p);
    } else {
        one_f_one_b(&p);
    }
    double end_s = epilogue(&p);
    cs_free(p.places);
    return end_s;
}
