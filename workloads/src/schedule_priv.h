/**
 * @file schedule_priv.h
 * Pipeline schedules: which part of the model a stage holds, and in which order it runs forward and backward
 * of its micro-batches.
 *
 * The model's layers are dealt to *places*, in a row from the embedding to the head. A stage holds one place,
 * or several, its *chunks*: vpp of them when interleaving, two in a V, and under DualPipe two that belong to
 * two copies of the model whose micro-batches run in opposite directions. A micro-batch is one *part*, or
 * seq_split of them (seqpipe): slices of the sequence.
 */
#ifndef CS_WORKLOADS_SCHEDULE_PRIV_H
#define CS_WORKLOADS_SCHEDULE_PRIV_H

#include "cs/workloads/strategy.h"

enum cs_slot_kind {
    CS_SLOT_FORWARD,
    CS_SLOT_BACKWARD, /* gradients of inputs and of parameters */
    CS_SLOT_INPUT,    /* gradients of inputs, and of what is no product's operand */
    CS_SLOT_WEIGHT,   /* gradients of the products' parameters: nobody waits for them */
    CS_N_SLOT_KINDS
};

struct cs_slot {
    int32_t micro_batch;
    uint8_t kind; /* enum cs_slot_kind */
    uint8_t chunk;
    uint8_t part;
    bool joined; /* may run side by side with the next slot: it begins when both can */
};

/** A schedule with its sizes. Plain value. */
struct cs_pipeline {
    enum cs_schedule schedule;
    int32_t pp;
    int32_t n_chunks; /* of a stage */
    int32_t n_places; /* in the model */
    int32_t n_parts;
    int32_t n_micro_batches;
    bool splits;   /* some slots are INPUT and WEIGHT */
    bool mirrored; /* chunk 1 is of another copy of the model, whose first stage is the last */
};

void cs__pipeline_init(struct cs_pipeline *pipeline, const struct cs_strategy *strategy,
                       int64_t n_micro_batches);
/** Place of a stage's chunk. */
int32_t cs__pipeline_place(const struct cs_pipeline *pipeline, int32_t stage, int32_t chunk);
/** Stage and chunk that hold a place; `copy` is the chunk asked for under DualPipe, else ignored. */
int32_t cs__pipeline_stage_of(const struct cs_pipeline *pipeline, int32_t place, int32_t copy,
                              int32_t *chunk);
/** Stage that `stage` hands chunk `chunk`'s output to (forward) or its input's gradient (backward); -1 when
 *  there is none, `stage` itself when the next chunk is its own. */
int32_t cs__pipeline_next(const struct cs_pipeline *pipeline, int32_t stage, int32_t chunk, bool forward);
/** Upper bound of a stage's slots. */
int64_t cs__pipeline_slots_max(const struct cs_pipeline *pipeline);
/** Order of one stage; returns how many slots.
 *  - GPipe (Huang et al., arXiv 1811.06965): all forwards, then all backwards; every micro-batch is kept.
 *  - 1F1B (PipeDream-flush; Narayanan et al., arXiv 2104.04473, section 2.2.1): pp - 1 - stage forwards
 * ahead, then one forward, one backward: min(m, pp - stage) micro-batches are kept.
 *  - interleaved 1F1B (ibid., section 2.2.2): chunks take turns in groups of pp micro-batches;
 *    2 (pp - 1 - stage) + (vpp - 1) pp forwards ahead.
 *  - seqpipe (Sun et al., arXiv 2406.03488): the same two with slices of the sequence for micro-batches;
 *    backward runs the slices of a micro-batch from the last to the first, so one more slice is ahead for
 *    each further slice of a micro-batch.
 *  - ZB-H1 (Qi et al., arXiv 2401.10241): 1F1B whose weight gradients come `stage` micro-batches late, so
 *    that each stage keeps as much as the first stage of 1F1B and the tail of 1F1B is filled.
 *  - the V form (Qi et al., arXiv 2405.15362) and DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1):
 *    the order of DualPipe, which folded in the middle is a V; in the V the two gradients are always apart.
 */
int32_t cs__pipeline_order(const struct cs_pipeline *pipeline, int32_t stage, struct cs_slot *slots);
/** Run the orders of all stages without a clock. `slots` holds them one after the other, `n` how many each.
 *  True when every stage comes to its end: nobody waits for ever. */
bool cs__pipeline_finishes(const struct cs_pipeline *pipeline, const struct cs_slot *slots, const int32_t *n);

/** How many micro-batches a schedule needs, and of which it needs multiples. */
int64_t cs__pipeline_least(const struct cs_pipeline *pipeline);
int64_t cs__pipeline_multiple(const struct cs_pipeline *pipeline);

/** Layers of a place. Those that do not divide go one each to the places 1, 2, ..., then 0, and last the
 *  last one: the first has the embedding and keeps the most micro-batches, the last one has the head. A
 *  strategy's own list goes first.
 *  @param[out] first the place's first layer. Returns how many. */
int32_t cs__place_layers(const struct cs_strategy *strategy, int32_t n_layers, int32_t n_places,
                         int32_t place, int32_t *first);

#endif
