/**
 * @file child_priv.h
 * One child process of the pool: started, listened to, ended, judged.
 */
#ifndef CS_POOL_CHILD_PRIV_H
#define CS_POOL_CHILD_PRIV_H

#include "cs/pool/pool.h"

#include <sys/types.h>

#define CS__LAST_WORDS_BYTES 2048

/** Zero-initialised = a free slot. Invariant: pid > 0 exactly while the process has not been waited for or
 *  its pipes are open. */
struct cs__child {
    pid_t pid;
    int64_t job;
    double end_s;  /* monotonic clock, 0 = no limit */
    int result_fd; /* read ends; -1 = closed */
    int words_fd;
    bool result_over; /* whole, or closed by a dying child */
    int wait_status;
    size_t record_bytes;
    char *result; /* what arrived of the answer */
    size_t n_result;
    char words[CS__LAST_WORDS_BYTES]; /* the end of what it printed */
    size_t n_words;
};

/** Fork. The child closes what it inherited of its `n_siblings` siblings. On failure the slot stays free. */
CS_MUST_CHECK cs_status cs__child_start(struct cs__child *child, const struct cs__child *siblings,
                                        int32_t n_siblings, cs_job_fn fn, void *context, int64_t job,
                                        size_t record_bytes, struct cs_err *err);
/** Read what is there. @return the answer is whole or will never be: the child is over. */
bool cs__child_read_result(struct cs__child *child);
void cs__child_read_words(struct cs__child *child);
/** Has the process ended? (A process that it started may keep its pipes open.) */
bool cs__child_is_gone(struct cs__child *child);
/** End it and whatever it started, and wait for it. */
void cs__child_end(struct cs__child *child);
/** What became of it, after cs__child_end. @param[out] record borrowed from the child, NULL unless done. */
enum cs_job_end cs__child_judge(struct cs__child *child, const void **record, struct cs_err *err);
/** Close and free; the slot is free again. */
void cs__child_release(struct cs__child *child);

#endif
