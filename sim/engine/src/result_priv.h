/**
 * @file result_priv.h
 * From what the replay's child says to the result that the caller sees.
 */
#ifndef CS_ENGINE_RESULT_PRIV_H
#define CS_ENGINE_RESULT_PRIV_H

#include "system_priv.h"

/** Read the child's answer (struct cs__outcome and what follows) into an empty run. */
CS_MUST_CHECK cs_status cs__result_read(struct cs__system *system, const char *data, size_t bytes,
                                        struct cs_run *run, struct cs_err *err);

/** What the trace's operations must move, by fabric, all ranks: from the programs and the algorithms alone
 *  (run->metrics.asked_bytes), and the table of the busiest links (run->links, at most max_links; needs
 *  metrics.iteration_s). Returns the number of timed operations of all ranks. */
int64_t cs__asked(struct cs__system *system, struct cs_run *run, int32_t max_links);

#endif
