/* Readers of the single files of a profile. */
#ifndef CS_STRATEGIES_PROFILE_PRIV_H
#define CS_STRATEGIES_PROFILE_PRIV_H

#include "csv_priv.h"

#include "cs/strategies/profile.h"

/** Times in columns that are called NAME, in microseconds, or NAME(us), NAME(ms), NAME(s), NAME(ns): each of
 * the NULL-terminated list is there, once. CS_E_INPUT with the header's line. */
CS_MUST_CHECK cs_status cs__profile_need_times(const struct cs__csv *csv, const char *const *names,
                                               struct cs_err *err);
/** One of them, seconds; CS_E_INPUT when it is no number, negative or absurd. */
CS_MUST_CHECK cs_status cs__profile_time(const struct cs__csv *csv, int32_t row, const char *name,
                                         double *value_s, struct cs_err *err);

CS_MUST_CHECK cs_status cs__profile_kernels(struct cs_profile *profile, const char *path, struct cs_err *err);
CS_MUST_CHECK cs_status cs__profile_steps(struct cs_profile *profile, const char *path, struct cs_err *err);
CS_MUST_CHECK cs_status cs__profile_communication(struct cs_profile *profile, const char *path,
                                                  struct cs_err *err);

#endif
