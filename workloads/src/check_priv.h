/**
 * @file check_priv.h
 * The parts of cs_trace_check: form, order, progress.
 */
#ifndef CS_WORKLOADS_CHECK_PRIV_H
#define CS_WORKLOADS_CHECK_PRIV_H

#include "cs/workloads/trace.h"

/** Every index in range, groups disjoint, channels one-to-one, memory freed. */
CS_MUST_CHECK cs_status cs__check_form(const struct cs_trace *trace, struct cs_err *err);
/** Members of a group enter the same collectives in the same order, a channel's ends agree. */
CS_MUST_CHECK cs_status cs__check_order(const struct cs_trace *trace, struct cs_err *err);
/** Run without clock: everybody reaches the end. */
CS_MUST_CHECK cs_status cs__check_progress(const struct cs_trace *trace, struct cs_err *err);

#endif
