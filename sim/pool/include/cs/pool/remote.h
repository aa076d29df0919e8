/**
 * @file remote.h
 * Workers on other machines, behind one file descriptor.
 *
 * The pool does not know how bytes get to them: a bridge (../mpi/bridge.c for Open MPI) holds the other end
 * of a socket, delivers frames and says when a worker is lost. Simulations and MPI are never in one process.
 *
 * A frame is a struct cs_frame and `bytes` bytes behind it, in the byte order and layout of this build: all
 * machines run the same program.
 */
#ifndef CS_POOL_REMOTE_H
#define CS_POOL_REMOTE_H

#include "cs/pool/pool.h"

enum cs_frame_kind {
    CS_FRAME_SIZE,   /* bridge to driver, first: `job` workers, 0 .. job - 1 */
    CS_FRAME_HELLO,  /* worker to driver: `job` is the hash of its inputs */
    CS_FRAME_JOB,    /* driver to worker */
    CS_FRAME_RESULT, /* worker to driver: `end`; struct cs_err, then, when done, the record at
                        CS_FRAME_RECORD_AT */
    CS_FRAME_LOST    /* bridge to driver: the job in flight is lost; `end` 0: the worker begins again with a
                        HELLO, else it is gone */
};

struct cs_frame {
    int32_t worker;
    int32_t kind; /* enum cs_frame_kind */
    int64_t job;
    int32_t end; /* enum cs_job_end */
    uint32_t bytes;
};
#define CS_FRAME_BYTES_MAX (1u << 20)
/** Aligned for any type, as the frame's bytes are. */
#define CS_FRAME_RECORD_AT ((sizeof(struct cs_err) + 15) / 16 * 16)

/** Write a frame and its bytes, all of it; read one (`data` has room for CS_FRAME_BYTES_MAX).
 *  false: the other side is gone. A read before the end of `wait_ms` without a frame: *is_there false. */
bool cs_frame_write(int fd, const struct cs_frame *frame, const void *data);
bool cs_frame_read(int fd, int wait_ms, struct cs_frame *frame, void *data, bool *is_there);

struct cs_remote; /* opaque: the driver's view of the workers */

/** Take the socket to the bridge. `hash`: of the inputs; workers with another one are not used. CS_E_IO when
 * the bridge does not answer. The caller frees with cs_remote_close. */
CS_MUST_CHECK cs_status cs_remote_open(struct cs_remote **remote, int fd, uint64_t hash, struct cs_err *err);
/** Closes the socket: the workers end. NULL is fine. */
void cs_remote_close(struct cs_remote *remote);

/** A worker's life: jobs from the bridge, each in a child process as cs_pool_run has it, until the socket
 * closes. `options`: record_bytes and job_limit_s matter. */
void cs_pool_serve(int fd, uint64_t hash, const struct cs_pool_options *options, cs_job_fn job,
                   void *context);

#endif
