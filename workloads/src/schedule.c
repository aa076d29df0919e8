/* Pipeline schedules. */
#include "schedule_priv.h"

static void gpipe(int32_t pp, int32_t stage, int32_t n, struct cs_slot *slots)
{
    (void)pp;
    (void)stage;
    for (int32_t i = 0; i < n; i++) {
        slots[i] = (struct cs_slot){.micro_batch = i, .backward = false};
        slots[n + i] = (struct cs_slot){.micro_batch = i, .backward = true};
    }
}

static void one_f_one_b(int32_t pp, int32_t stage, int32_t n, struct cs_slot *slots)
{
    int32_t ahead = pp - 1 - stage < n ? pp - 1 - stage : n;
    int32_t forward = 0;
    int32_t backward = 0;
    int32_t at = 0;
    while (forward < ahead) {
        slots[at++] = (struct cs_slot){.micro_batch = forward++, .backward = false};
    }
    while (backward < n) {
        if (forward < n) {
            slots[at++] = (struct cs_slot){.micro_batch = forward++, .backward = false};
        }
        slots[at++] = (struct cs_slot){.micro_batch = backward++, .backward = true};
    }
}

/** A schedule: its order, and how many micro-batches it needs per stage to be what it says. */
struct order {
    void (*stage)(int32_t pp, int32_t stage, int32_t n, struct cs_slot *slots);
    int32_t min_per_stage;
};

static const struct order orders[CS_N_SCHEDULES] = {
    [CS_SCHED_GPIPE] = {gpipe, 0},
    [CS_SCHED_1F1B] = {one_f_one_b, 1},
};

bool cs__schedule_known(enum cs_schedule schedule)
{
    return orders[schedule].stage != NULL;
}

int64_t cs__schedule_min_micro_batches(enum cs_schedule schedule, int32_t pp)
{
    int64_t least = (int64_t)orders[schedule].min_per_stage * pp;
    return least > 1 ? least : 1;
}

void cs__schedule_stage(enum cs_schedule schedule, int32_t pp, int32_t stage, int32_t n_micro_batches,
                        struct cs_slot *slots)
{
    CS_ASSERT(cs__schedule_known(schedule));
    orders[schedule].stage(pp, stage, n_micro_batches, slots);
}

/** Place of a stage in the order in which left-over layers are given out. */
static int32_t turn_of(int32_t pp, int32_t stage)
{
    if (stage == pp - 1) {
        return pp - 1;
    }
    return stage == 0 ? pp - 2 : stage - 1;
}

int32_t cs__stage_layers(int32_t n_layers, int32_t pp, int32_t stage, int32_t *first)
{
    int32_t each = n_layers / pp;
    int32_t left = n_layers % pp;
    *first = 0;
    for (int32_t i = 0; i < stage; i++) {
        *first += each + (turn_of(pp, i) < left ? 1 : 0);
    }
    return each + (turn_of(pp, stage) < left ? 1 : 0);
}
