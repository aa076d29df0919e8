/* Readers of the single files of a profile. */
#ifndef CS_STRATEGIES_PROFILE_PRIV_H
#define CS_STRATEGIES_PROFILE_PRIV_H

#include "cs/strategies/profile.h"

CS_MUST_CHECK cs_status cs__profile_kernels(struct cs_profile *profile, const char *path, struct cs_err *err);
CS_MUST_CHECK cs_status cs__profile_steps(struct cs_profile *profile, const char *path, struct cs_err *err);
CS_MUST_CHECK cs_status cs__profile_communication(struct cs_profile *profile, const char *path,
                                                  struct cs_err *err);

#endif
