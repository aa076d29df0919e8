/**
 * @file balance_priv.h
 * Layers and recomputation of each pipeline stage, chosen so that time and memory balance.
 */
#ifndef CS_STRATEGIES_BALANCE_PRIV_H
#define CS_STRATEGIES_BALANCE_PRIV_H

#include "cs/strategies/study.h"

struct cs__balancer; /* opaque: what it derived of the model, kept by what it depends on */

/** The study is borrowed. Never fails. */
struct cs__balancer *cs__balancer_new(const struct cs_study *study);
/** NULL is fine. */
void cs__balancer_free(struct cs__balancer *balancer);

/** Choose `full_layers` (as few as make each stage fit; the others keep the strategy's own recomputation) or
 *  `layers` (none can be moved off the slowest stage so that the slower of the two gets faster) or both. A
 * strategy that cs_stage_cost_covers does not cover, that cannot run, or has one stage, is left as it is; so
 * is what a list says already. Heuristic: by the computing of a stage and its memory to first order; what the
 * choice is worth the simulation says. */
void cs__balance(struct cs__balancer *balancer, struct cs_strategy *strategy, bool layers, bool full_layers);

#endif
