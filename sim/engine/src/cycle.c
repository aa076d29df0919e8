#include "cycle_priv.h"

#include "chain_priv.h"

#include <math.h>
#include <string.h>

#define LONGEST_PERIOD 64 /* boundaries */
#define FEWEST_BOUNDARIES 8
#define AGE_TOLERANCE_S 2e-9 /* SimGrid's own date precision is 1e-9 s */
#define VALUES_PER_ACTOR 4

/* An (actor, event) pair whose backlog is part of the state. */
struct backlog {
    int32_t actor;
    int32_t event;
};

struct snapshot {
    double at_s;
    double *values;
    int32_t *calls;              /* per actor */
    struct cs_time_shares *sums; /* per class */
    double carried_bytes[CS_N_FABRICS];
    int64_t n_operations;
};

struct cs__cycle {
    struct cs_arena arena;
    const struct cs__actor *reference;
    int32_t block; /* its starts are the boundaries */
    int32_t n_values;
    int32_t n_backlogs;
    struct backlog *backlogs;
    struct snapshot ring[LONGEST_PERIOD + 1];
    int64_t n_boundaries; /* since the last skip */
    int32_t streak[LONGEST_PERIOD + 1];
};

static const struct cs_program *program_of(const struct cs__sim *sim, int32_t class)
{
    const struct cs_trace *t = sim->system->trace;
    return &t->programs[t->program_of_rank[sim->system->class_rep[class]]];
}

static bool stream_waits(const struct cs__sim *sim, const struct cs__actor *actor, int32_t event)
{
    int32_t n_blocks = sim->system->trace->n_blocks;
    for (int32_t b = 0; b < n_blocks; b++) {
        const struct cs__code *code = sim->book->code[(int64_t)actor->class * n_blocks + b];
        const struct cs__stream_code *stream = code ? &code->streams[actor->stream] : NULL;
        for (int32_t i = 0; stream && i < stream->n_steps; i++) {
            if (stream->steps[i].kind == CS__STEP_WAIT && stream->steps[i].arg == event) {
                return true;
            }
        }
    }
    return false;
}

static void find_backlogs(struct cs__cycle *cycle, const struct cs__sim *sim)
{
    struct backlog *list = NULL;
    int32_t cap = 0;
    for (int32_t a = 0; a < sim->n_actors; a++) {
        for (int32_t e = 0; e < sim->system->trace->n_events; e++) {
            if (stream_waits(sim, &sim->actors[a], e)) {
                CS_GROW(list, cycle->n_backlogs, cap);
                list[cycle->n_backlogs++] = (struct backlog){a, e};
            }
        }
    }
    cycle->backlogs = cs_arena_memdup(&cycle->arena, list, (size_t)cycle->n_backlogs * sizeof *list);
    cs_free(list);
}

/* The program with the most calls and its commonest block; false when it is too short to bother. */
static bool choose_boundaries(struct cs__cycle *cycle, const struct cs__sim *sim)
{
    int32_t class = 0;
    for (int32_t k = 1; k < sim->system->n_classes; k++) {
        if (program_of(sim, k)->n_calls > program_of(sim, class)->n_calls) {
            class = k;
        }
    }
    const struct cs_program *program = program_of(sim, class);
    int32_t *count = cs_calloc((size_t)sim->system->trace->n_blocks + 1, sizeof *count);
    for (int32_t i = 0; i < program->n_calls; i++) {
        count[program->calls[i].block]++;
    }
    for (int32_t b = 0; b < sim->system->trace->n_blocks; b++) {
        cycle->block = count[b] > count[cycle->block] ? b : cycle->block;
    }
    bool enough = count[cycle->block] >= FEWEST_BOUNDARIES;
    cs_free(count);
    cycle->reference = sim->ranks[class].actors[CS_STREAM_COMPUTE];
    return enough;
}

struct cs__cycle *cs__cycle_new(struct cs__sim *sim)
{
    struct cs__cycle *cycle = cs_calloc(1, sizeof *cycle);
    if (!choose_boundaries(cycle, sim)) {
        cs__cycle_free(cycle);
        return NULL;
    }
    find_backlogs(cycle, sim);
    const struct cs_trace *t = sim->system->trace;
    int32_t n_meetings = 0;
    for (int32_t c = 0; c < t->n_comms; c++) {
        n_meetings += sim->system->comms[c].n_group_classes;
    }
    cycle->n_values = VALUES_PER_ACTOR * sim->n_actors + cycle->n_backlogs +
                      t->n_chans * sim->system->n_classes + n_meetings;
    for (int32_t i = 0; i <= LONGEST_PERIOD; i++) {
        cycle->ring[i].values = CS_ARENA_NEW(&cycle->arena, double, cycle->n_values + 1);
        cycle->ring[i].calls = CS_ARENA_NEW(&cycle->arena, int32_t, sim->n_actors);
        cycle->ring[i].sums = CS_ARENA_NEW(&cycle->arena, struct cs_time_shares, sim->system->n_classes);
    }
    return cycle;
}

void cs__cycle_free(struct cs__cycle *cycle)
{
    if (cycle) {
        cs_arena_release(&cycle->arena);
        cs_free(cycle);
    }
}

static void take_snapshot(struct cs__sim *sim, struct snapshot *shot)
{
    const struct cs_trace *t = sim->system->trace;
    double now_s = simgrid_get_clock();
    double *v = shot->values;
    shot->at_s = now_s;
    for (int32_t a = 0; a < sim->n_actors; a++) {
        const struct cs__actor *actor = &sim->actors[a];
        bool over = actor->status == CS__FINISHED;
        bool timed = actor->status == CS__DELAYED || actor->status == CS__MOVING;
        shot->calls[a] = actor->call;
        *v++ = over ? -1 : program_of(sim, actor->class)->calls[actor->call].block;
        *v++ = actor->step;
        *v++ = actor->status;
        *v++ = timed ? now_s - actor->since_s : 0;
    }
    for (int32_t i = 0; i < sim->cycle->n_backlogs; i++) {
        const struct cs__actor *actor = &sim->actors[sim->cycle->backlogs[i].actor];
        int32_t event = sim->cycle->backlogs[i].event;
        *v++ = (double)(sim->ranks[actor->class].recorded[event] - actor->waited[event]);
    }
    for (int32_t k = 0; k < sim->system->n_classes; k++) {
        cs__account_advance(&sim->ranks[k].account, now_s);
        shot->sums[k] = sim->ranks[k].account.sum;
        for (int32_t c = 0; c < t->n_chans; c++) {
            *v++ = (double)(sim->ranks[k].arrived[c] - sim->ranks[k].received[c]);
        }
    }
    for (int32_t c = 0; c < t->n_comms; c++) {
        for (int32_t g = 0; g < sim->system->comms[c].n_group_classes; g++) {
            *v++ = sim->meetings[c][g].n_here;
        }
    }
    memcpy(shot->carried_bytes, sim->carried_bytes, sizeof shot->carried_bytes);
    shot->n_operations = sim->n_operations;
}

static bool equal_states(const struct cs__cycle *cycle, const struct snapshot *a, const struct snapshot *b)
{
    for (int32_t i = 0; i < cycle->n_values; i++) {
        if (fabs(a->values[i] - b->values[i]) > AGE_TOLERANCE_S) {
            return false;
        }
    }
    return true;
}

/* For how many whole periods does this actor's program repeat what it called in the last one? */
static int64_t periods_ahead(const struct cs_program *program, int32_t call, int32_t period_calls)
{
    int32_t run = 0;
    while (call + run < program->n_calls &&
           program->calls[call + run].block == program->calls[call + run - period_calls].block) {
        run++;
    }
    return run > 0 ? (run - 1) / period_calls : 0;
}

static void add_periods(struct cs_time_shares *sum, const struct cs_time_shares *now,
                        const struct cs_time_shares *then, double n)
{
    sum->computing_s += n * (now->computing_s - then->computing_s);
    sum->comm_s += n * (now->comm_s - then->comm_s);
    sum->exposed_comm_s += n * (now->exposed_comm_s - then->exposed_comm_s);
    sum->bubble_s += n * (now->bubble_s - then->bubble_s);
    sum->idle_s += n * (now->idle_s - then->idle_s);
    sum->cross_comm_s += n * (now->cross_comm_s - then->cross_comm_s);
    sum->beside_s += n * (now->beside_s - then->beside_s);
}

static void skip(struct cs__sim *sim, const struct snapshot *now, const struct snapshot *then)
{
    int64_t n = INT64_MAX;
    for (int32_t a = 0; a < sim->n_actors; a++) {
        int32_t moved = now->calls[a] - then->calls[a];
        if (moved > 0) {
            int64_t ahead = periods_ahead(program_of(sim, sim->actors[a].class), now->calls[a], moved);
            n = ahead < n ? ahead : n;
        }
    }
    if (n < 1 || n == INT64_MAX) {
        return;
    }
    for (int32_t a = 0; a < sim->n_actors; a++) {
        sim->actors[a].call += (int32_t)n * (now->calls[a] - then->calls[a]);
    }
    for (int32_t k = 0; k < sim->system->n_classes; k++) {
        add_periods(&sim->ranks[k].account.sum, &now->sums[k], &then->sums[k], (double)n);
    }
    for (int32_t f = 0; f < CS_N_FABRICS; f++) {
        sim->carried_bytes[f] += (double)n * (now->carried_bytes[f] - then->carried_bytes[f]);
    }
    sim->n_operations += n * (now->n_operations - then->n_operations);
    cs__chain_skip(sim, now->at_s - then->at_s, (double)n);
    sim->skipped_s += (double)n * (now->at_s - then->at_s);
    sim->cycle->n_boundaries = 0;
    memset(sim->cycle->streak, 0, sizeof sim->cycle->streak);
}

void cs__cycle_call(struct cs__sim *sim, struct cs__actor *actor)
{
    struct cs__cycle *cycle = sim->cycle;
    if (actor != cycle->reference ||
        program_of(sim, actor->class)->calls[actor->call].block != cycle->block) {
        return;
    }
    struct snapshot *now = &cycle->ring[cycle->n_boundaries % (LONGEST_PERIOD + 1)];
    take_snapshot(sim, now);
    int64_t k = cycle->n_boundaries++;
    for (int32_t period = 1; period <= LONGEST_PERIOD && period <= k; period++) {
        const struct snapshot *then = &cycle->ring[(k - period) % (LONGEST_PERIOD + 1)];
        cycle->streak[period] = equal_states(cycle, now, then) ? cycle->streak[period] + 1 : 0;
        if (cycle->streak[period] > period) {
            skip(sim, now, then);
            return;
        }
    }
}
