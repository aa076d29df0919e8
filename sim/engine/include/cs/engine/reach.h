/**
 * @file reach.h
 * Which devices SimGrid has routes between: all that are missing, not only the first.
 */
#ifndef CS_ENGINE_REACH_H
#define CS_ENGINE_REACH_H

#include "cs/platforms/platform.h"

enum cs_reach {
    CS_REACH_UNKNOWN, /* not asked: too many were missing before it */
    CS_REACH_YES,
    CS_REACH_NO,
    CS_REACH_APART /* taken for missing: their groups have no route between them */
};

/** Asking for more missing routes than this ends the search: each costs a process. */
#define CS_REACH_MISSING_MAX 200

/** Ask for the routes between device pairs (2 * n_pairs device numbers) in order. @param[out] reach n_pairs
 *  entries. @param[out] group an entry a device: equal for devices that the routes found join, numbered from
 * 0 by their first device. After many missing routes other pairs of two groups without a route between them
 * are not asked. CS_E_INPUT when SimGrid refuses the file as a whole; CS_E_IO, CS_E_ENGINE as cs_routes_need.
 */
CS_MUST_CHECK cs_status cs_platform_reach(const struct cs_platform *platform, const char *simgrid_cfg,
                                          const int32_t *pairs, int64_t n_pairs, enum cs_reach *reach,
                                          int32_t *group, struct cs_err *err);

#endif
