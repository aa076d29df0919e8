/**
 * @file chain_priv.h
 * The critical path: which operation let which go on, noted during the replay and walked back at its end.
 *
 * A node is one timed step. Its predecessor is the step that ended when it began: the one before it on its
 * own stream, or the one whose end woke that stream. The path from the last node back to the start has no
 * gaps, so the times along it add up to the iteration time: it is what limits the step.
 */
#ifndef CS_ENGINE_CHAIN_PRIV_H
#define CS_ENGINE_CHAIN_PRIV_H

#include "replay_priv.h"

/** Kinds that the path is summed by: operator kinds, then per communicator and per channel one a fabric. */
int32_t cs__chain_n_kinds(const struct cs_trace *trace);
/** Name of a kind as reports show it ("matmul", "tp within nodes", "dp across nodes"). Returns buf. */
char *cs__chain_kind_name(const struct cs_trace *trace, int32_t kind, char *buf, size_t bytes);

struct cs__chain *cs__chain_new(void);
/** The actor's step has run from start_s until now: it becomes the actor's latest node. `cross_s` of it
 * crossed nodes; of a delay its points say that. */
void cs__chain_add(struct cs__sim *sim, struct cs__actor *actor, const struct cs__step *step, double start_s,
                   double cross_s);
/** `n` periods of `period_s` that end now are left out. */
void cs__chain_skip(struct cs__sim *sim, double period_s, double n);
/** Walk back from the actor that ended last; seconds per kind and per pipeline stage. */
void cs__chain_sum(const struct cs__sim *sim, const struct cs__actor *last, double *by_kind_s,
                   double *by_stage_s, int32_t n_stages);
/** Pipeline stages that the trace's programs name. */
int32_t cs__chain_n_stages(const struct cs_trace *trace);

#endif
