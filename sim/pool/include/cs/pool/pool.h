/**
 * @file pool.h
 * Candidates to worker processes, results back.
 *
 * One candidate, one child process: SimGrid holds one simulation a process, and a child that dies takes
 * nothing with it. At most n_workers children live at once. Results arrive in any order; what is done with
 * them must not depend on it.
 */
#ifndef CS_POOL_POOL_H
#define CS_POOL_POOL_H

#include "cs/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cs_job_end {
    CS_JOB_DONE,   /* the worker function returned CS_OK; the record is valid */
    CS_JOB_FAILED, /* it returned an error (in err) */
    CS_JOB_DIED,   /* the child was killed or exited early, twice: signal or exit status and its last words in
                      err */
    CS_JOB_TIMEOUT
};

/** Runs in the child: compute candidate `job` and fill the record (record_bytes, zeroed before). */
typedef cs_status (*cs_job_fn)(void *context, int64_t job, void *record, struct cs_err *err);
/** Runs in the parent, one call a job. `record` is borrowed for the call. Return false to stop starting new
 *  jobs (those in flight still report). */
typedef bool (*cs_job_done_fn)(void *context, int64_t job, enum cs_job_end end, const void *record,
                               const struct cs_err *err);
/** The answer of next() for "none now, ask again when a running job has reported"; with no job running it
 * means the end. */
#define CS_JOB_LATER (-2)
/** Runs in the parent: the next job to start, -1 when there is none (now and later), CS_JOB_LATER. Called in
 *  order, so a best-first search can choose. */
typedef int64_t (*cs_job_next_fn)(void *context);

struct cs_pool_options {
    int32_t n_workers;         /* 0: one a processor */
    size_t record_bytes;       /* plain bytes, no pointers */
    double job_limit_s;        /* wall clock of one job, 0 = none */
    double time_limit_s;       /* wall clock of the whole run, 0 = none: then as after *stop */
    struct cs_remote *remote;  /* workers elsewhere (remote.h), in place of processes here; NULL = none */
    const volatile bool *stop; /* set by a signal handler: no new jobs, children are ended; may be NULL */
};

/** Run jobs until next() says -1 or done() says stop. A job that is ended by *stop or by time_limit_s is not
 *  reported. The caller's standard streams are flushed before each fork; a child's standard output and error
 *  go to its last words, never to the terminal, and it is a
 *  process group of its own (the terminal's Ctrl-C reaches the parent only) that dies with its parent.
 * CS_E_IO when processes or pipes cannot be had, CS_E_INTERRUPTED after *stop
 * and when the bridge to workers elsewhere is gone, CS_E_TIMEOUT after
 * time_limit_s. */
CS_MUST_CHECK cs_status cs_pool_run(const struct cs_pool_options *options, cs_job_fn job, cs_job_next_fn next,
                                    cs_job_done_fn done, void *context, struct cs_err *err);
/** Processors this process may use. */
int32_t cs_pool_n_processors(void);

#endif
