/**
 * @file native_read_priv.h
 * Reading our own trace format: the state between lines.
 */
#ifndef CS_WORKLOADS_NATIVE_READ_PRIV_H
#define CS_WORKLOADS_NATIVE_READ_PRIV_H

#include "native_priv.h"

/** A trace under construction. Lists that grow are on the heap; what is whole moves into the trace's arena.
 */
struct cs__native {
    struct cs_trace *trace;
    struct cs__lines lines;
    bool sized;   /* the size line has been read */
    bool bound;   /* the binding has been read to its end */
    int32_t role; /* roles read so far */
    int32_t n_bound;
    int32_t cap_streams, cap_events, cap_labels, cap_costs;
    struct cs_comm *comms; /* CS__NATIVE_NAMED_MAX of them, then as many channels */
    struct cs_chan *chans;
    int32_t *group_first; /* of the communicator whose groups are being read */
    int32_t n_first, cap_first;
    bool *defined;      /* per block */
    int64_t *moved;     /* per block: bytes that its memory operations allocate and free together */
    int64_t role_moved; /* the same of the calls of a role; both are limited, so that no sum overflows */
    struct cs_op *ops;
    int32_t n_ops, cap_ops;
    int32_t block; /* being read, -1 = none */
    struct cs_call *calls;
    int32_t n_calls, cap_calls;
};

/** Read one part, to its end line. */
CS_MUST_CHECK cs_status cs__native_binding(struct cs__native *native, struct cs_err *err);
CS_MUST_CHECK cs_status cs__native_role(struct cs__native *native, struct cs_err *err);

/** An error at the current line. */
cs_status cs__native_bad(const struct cs__native *native, struct cs_err *err, const char *fmt, ...)
    CS_PRINTF(3, 4);
/** The line's word is none of those that may stand here (NULL-terminated). */
cs_status cs__native_unknown(const struct cs__native *native, const char *word, const char *const *words,
                             struct cs_err *err);

#endif
