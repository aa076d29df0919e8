/**
 * @file isolate_priv.h
 * Run a function in a child process that SimGrid may take down, and bring its answer back.
 */
#ifndef CS_ENGINE_ISOLATE_PRIV_H
#define CS_ENGINE_ISOLATE_PRIV_H

#include "cs/base/err.h"

#include <stddef.h>

/** Where the child writes its answer. */
struct cs__answer {
    int fd;
};
/** Write `bytes` bytes of the answer; exits the child quietly when the parent is gone. */
void cs__answer_write(struct cs__answer *answer, const void *data, size_t bytes);
/** End the child at once with this status and error; for code that cannot return (an actor's stack). */
_Noreturn void cs__answer_end(struct cs__answer *answer, cs_status status, const struct cs_err *err);

typedef cs_status (*cs__isolated_fn)(void *context, struct cs__answer *answer, struct cs_err *err);

/** Fork, run fn in the child with its standard output and error captured, collect what it writes.
 *  @param[out] data cs_malloc'ed answer, caller frees. @param time_limit_s wall clock, 0 = none.
 *  Errors: what fn returned; CS_E_ENGINE with the child's last words when it dies; CS_E_TIMEOUT;
 *  CS_E_IO when no process can be had. */
CS_MUST_CHECK cs_status cs__isolate(cs__isolated_fn fn, void *context, double time_limit_s, char **data,
                                    size_t *bytes, struct cs_err *err);

#endif
