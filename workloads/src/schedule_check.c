/* Do the stages of a schedule come to an end? */
#include "schedule_priv.h"

#include <string.h>

/** What has been done: a byte per micro-batch, part, place and copy of the model. */
struct progress {
    const struct cs_pipeline *p;
    uint8_t *done[CS_N_SLOT_KINDS];
};

static int64_t index_of(const struct cs_pipeline *p, const struct cs_slot *slot, int32_t place)
{
    return ((int64_t)slot->micro_batch * p->n_parts + slot->part) * p->n_places + place;
}

/** Forward needs the place before (and the part before, which the stage's own order sees to); backward needs
 *  the place behind, its own forward and the part behind; weight gradients need the input gradients. */
static bool ready(const struct progress *progress, int32_t stage, const struct cs_slot *slot)
{
    const struct cs_pipeline *p = progress->p;
    int32_t place = cs__pipeline_place(p, stage, slot->chunk);
    int64_t at = index_of(p, slot, place);
    switch ((enum cs_slot_kind)slot->kind) {
    case CS_SLOT_FORWARD:
        return (place == 0 || progress->done[CS_SLOT_FORWARD][at - 1]) &&
               (slot->part == 0 || progress->done[CS_SLOT_FORWARD][at - p->n_places]);
    case CS_SLOT_BACKWARD:
    case CS_SLOT_INPUT:
        return progress->done[CS_SLOT_FORWARD][at] &&
               (place == p->n_places - 1 || progress->done[CS_SLOT_INPUT][at + 1]) &&
               (slot->part == p->n_parts - 1 || progress->done[CS_SLOT_INPUT][at + p->n_places]);
    case CS_SLOT_WEIGHT:
        return progress->done[CS_SLOT_INPUT][at];
    case CS_N_SLOT_KINDS:
        break;
    }
    return false;
}

static void mark(struct progress *progress, int32_t stage, const struct cs_slot *slot)
{
    int64_t at = index_of(progress->p, slot, cs__pipeline_place(progress->p, stage, slot->chunk));
    if (slot->kind == CS_SLOT_BACKWARD) {
        progress->done[CS_SLOT_INPUT][at]++;
        progress->done[CS_SLOT_WEIGHT][at]++;
    } else {
        progress->done[slot->kind][at]++;
    }
}

bool cs__pipeline_finishes(const struct cs_pipeline *pipeline, const struct cs_slot *slots, const int32_t *n)
{
    struct progress progress = {.p = pipeline};
    const int64_t size = (int64_t)pipeline->n_micro_batches * pipeline->n_parts * pipeline->n_places;
    const enum cs_slot_kind kinds[] = {CS_SLOT_FORWARD, CS_SLOT_INPUT, CS_SLOT_WEIGHT};
    int32_t *at = cs_calloc((size_t)pipeline->pp, sizeof *at);
    for (int32_t k = 0; k < CS_COUNT(kinds); k++) {
        progress.done[kinds[k]] = cs_calloc((size_t)size, 1);
    }
    for (bool moved = true; moved;) {
        moved = false;
        const struct cs_slot *own = slots;
        for (int32_t stage = 0; stage < pipeline->pp; own += n[stage++]) {
            while (at[stage] < n[stage] && ready(&progress, stage, &own[at[stage]]) &&
                   (!own[at[stage]].joined || ready(&progress, stage, &own[at[stage] + 1]))) {
                for (bool joined = true; joined;) {
                    joined = own[at[stage]].joined;
                    mark(&progress, stage, &own[at[stage]++]);
                }
                moved = true;
            }
        }
    }
    /* To the end, and everything exactly once. */
    bool finished = memcmp(at, n, (size_t)pipeline->pp * sizeof *at) == 0;
    for (int32_t k = 0; k < CS_COUNT(kinds); k++) {
        for (int64_t i = 0; i < size && finished; i++) {
            finished = progress.done[kinds[k]][i] == 1;
        }
        cs_free(progress.done[kinds[k]]);
    }
    cs_free(at);
    return finished;
}
