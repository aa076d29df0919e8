/**
 * @file remote_priv.h
 * cs_pool_run with workers behind a bridge.
 */
#ifndef CS_POOL_REMOTE_PRIV_H
#define CS_POOL_REMOTE_PRIV_H

#include "cs/pool/remote.h"

/** As cs_pool_run; options->remote is set. A job whose worker is lost is given to another one, and reported
 * as died when that is lost too. Without any worker left the rest runs in child processes here. */
CS_MUST_CHECK cs_status cs__remote_run(const struct cs_pool_options *options, cs_job_fn job,
                                       cs_job_next_fn next, cs_job_done_fn done, void *context,
                                       struct cs_err *err);

#endif
