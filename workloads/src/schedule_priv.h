/**
 * @file schedule_priv.h
 * Pipeline schedules: in which order a stage runs forward and backward of its micro-batches; and how layers
 * are dealt to stages.
 */
#ifndef CS_WORKLOADS_SCHEDULE_PRIV_H
#define CS_WORKLOADS_SCHEDULE_PRIV_H

#include "cs/workloads/strategy.h"

struct cs_slot {
    int32_t micro_batch;
    bool backward;
};

/** Is the schedule's order known here? */
bool cs__schedule_known(enum cs_schedule schedule);
/** The schedule may need at least this many micro-batches for `pp` stages. */
int64_t cs__schedule_min_micro_batches(enum cs_schedule schedule, int32_t pp);
/** Order of one stage: exactly 2 * n_micro_batches slots.
 *  GPipe (Huang et al., arXiv 1811.06965): all forwards, then all backwards, so that a stage keeps every
 *  micro-batch. 1F1B (PipeDream-flush; Narayanan et al., arXiv 2104.04473, section 2.2.1): pp - 1 - stage
 *  forwards ahead, then one forward, one backward: min(n, pp - stage) micro-batches are kept. */
void cs__schedule_stage(enum cs_schedule schedule, int32_t pp, int32_t stage, int32_t n_micro_batches,
                        struct cs_slot *slots);

/** Layers of a stage. Those that pp does not divide go one each to the stages 1, 2, ..., then 0, and last the
 *  last one: the first stage has the embedding and keeps the most micro-batches, the last one has the head.
 *  @param[out] first the stage's first layer. Returns how many. */
int32_t cs__stage_layers(int32_t n_layers, int32_t pp, int32_t stage, int32_t *first);

#endif
