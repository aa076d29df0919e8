/**
 * @file points_priv.h
 * One variant of a study.
 */
#ifndef CS_STRATEGIES_POINTS_PRIV_H
#define CS_STRATEGIES_POINTS_PRIV_H

#include "cs/strategies/points.h"

/** Load a variant; release with cs_study_release. On success the overrides' memory may go. */
CS_MUST_CHECK cs_status cs__point_load(struct cs_study *study, const struct cs_points_options *options,
                                       const struct cs_point_spec *spec, const struct cs_override *more,
                                       struct cs_err *err);
/** Everything that a point depends on, as a hash. */
uint64_t cs__point_key(const struct cs_study *study, const struct cs_points_options *options);
/** Best or fixed strategy of a loaded variant, with `n_workers` processes. */
CS_MUST_CHECK cs_status cs__point_evaluate(struct cs_point *point, struct cs_study *study,
                                           const struct cs_points_options *options,
                                           const struct cs_point_spec *spec, int32_t n_workers,
                                           struct cs_err *err);

#endif
