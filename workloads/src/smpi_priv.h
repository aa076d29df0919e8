/**
 * @file smpi_priv.h
 * SMPI time-independent traces: a rank's streams in one order.
 */
#ifndef CS_WORKLOADS_SMPI_PRIV_H
#define CS_WORKLOADS_SMPI_PRIV_H

#include "format_priv.h"

/** What the one process of a rank does with an operation: all of it, or its beginning, or waiting for its
 * end. */
enum cs__serial_kind { CS__SERIAL_WHOLE, CS__SERIAL_BEGIN, CS__SERIAL_END };
struct cs__serial_step {
    const struct cs_op *op;
    enum cs__serial_kind kind;
};
/** One program in one order. Zero-initialised is empty. */
struct cs__serial {
    struct cs__serial_step *steps;
    int64_t n, cap;
};
/** Compute, collectives, sends and receives of a program; no memory, no events. CS_E_INPUT: an event that two
 *  streams record, waits that cannot be met. */
CS_MUST_CHECK cs_status cs__serial_build(struct cs__serial *serial, const struct cs_trace *trace,
                                         int32_t program, struct cs_err *err);
void cs__serial_release(struct cs__serial *serial);
/** Can all ranks together finish when each is one process? `serials` has one a program. */
CS_MUST_CHECK cs_status cs__serial_check(const struct cs__serial *serials, const struct cs_trace *trace,
                                         struct cs_err *err);

#endif
