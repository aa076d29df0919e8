/**
 * @file sweep.h
 * What-if: a study over every combination of values of some of its keys.
 */
#ifndef CS_STRATEGIES_SWEEP_H
#define CS_STRATEGIES_SWEEP_H

#include "cs/strategies/points.h"

#define CS_SWEEP_KEYS_MAX 4 /* that move together on one axis */
#define CS_SWEEP_AXES_MAX 6
#define CS_SWEEP_POINTS_MAX 10000

/** Keys of a study that take their values together: value v of key k is values[v * n_keys + k], as YAML text.
 */
struct cs_sweep_axis {
    bool from_study; /* of its `sweep` block, not added */
    struct cs_loc loc;
    int32_t n_keys;
    const char *keys[CS_SWEEP_KEYS_MAX];
    int32_t n;
    const char **values;
    const struct cs_yaml_node **trees; /* the same with their places in the study; NULL when not from there */
};

/** What is swept. Zero-initialised is empty; everything is in the arena. */
struct cs_sweep {
    struct cs_arena arena;
    int32_t n_axes;
    struct cs_sweep_axis axes[CS_SWEEP_AXES_MAX]; /* the last one varies fastest */
    const char *strategy;                         /* fixed one; NULL = the best of each point */
    struct cs_loc strategy_loc;
    bool upgrades; /* what ten per cent more of each resource gives */
};

/** Add an axis from "KEY=LIST". KEY is a key of the study ("platform.nodes", "training.seq_length") or one of
 * the short names nodes, devices, topology, ratio, oversubscription, chip, server, seq_length, global_batch;
 * several keys that move together are separated by commas, and their values by colons:
 * "nodes,global_batch=8:256,16:512". LIST is values separated by commas, or numbers FROM..TO in steps of
 * +STEP (1 when left out) or *FACTOR. An axis of the study's block with the same keys is replaced. CS_E_INPUT
 * at `loc`: a key or a value that is there twice, a key that would undo an earlier one ("platform" after
 * "platform.nodes"), a key of the blocks `plan` and `sweep`, on which no point depends; CS_E_LIMIT for too
 * many points. */
CS_MUST_CHECK cs_status cs_sweep_add(struct cs_sweep *sweep, const char *text, struct cs_loc loc,
                                     struct cs_err *err);
/** Read the study's `sweep` block: {over: {KEY: [values] or "1..20+1"}, strategy: best or text, upgrades:
 * true}. A study without one leaves the sweep empty. CS_E_INPUT for what is wrong with the block or the file.
 */
CS_MUST_CHECK cs_status cs_sweep_read(struct cs_sweep *sweep, const struct cs_study_source *source,
                                      struct cs_err *err);
/** CS_E_INPUT for a setting of the command line that the sweep would replace at every point. */
CS_MUST_CHECK cs_status cs_sweep_check_set(const struct cs_sweep *sweep, int32_t n_overrides,
                                           const struct cs_override *overrides, struct cs_err *err);
/** CS_E_INPUT that names both places for a key that is swept and that the fixed strategy sets as well, so
 * that the sweep would have no effect. */
CS_MUST_CHECK cs_status cs_sweep_check_strategy(struct cs_sweep *sweep, struct cs_err *err);
/** CS_E_INPUT for two values of an axis that make one study of it, as 196GBps and 196GB/s do. Plain numbers
 * cannot; the others are tried at the first value of every other axis. */
CS_MUST_CHECK cs_status cs_sweep_check_same(struct cs_sweep *sweep, const struct cs_points_options *options,
                                            struct cs_err *err);
void cs_sweep_release(struct cs_sweep *sweep);

/** Points: the product of the axes' sizes, 1 without an axis. */
int32_t cs_sweep_n_points(const struct cs_sweep *sweep);
/** Index of a point's value on an axis. */
int32_t cs_sweep_value(const struct cs_sweep *sweep, int32_t point, int32_t axis);
/** Settings of every point (cs_sweep_n_points entries), in the sweep's arena. */
const struct cs_point_spec *cs_sweep_specs(struct cs_sweep *sweep);

/** Does the axis change anything: do two points that differ in it alone differ in outcome, strategy or step
 * time (by more than rounding)? */
bool cs_sweep_axis_matters(const struct cs_sweep *sweep, const struct cs_point *points, int32_t axis);
/** The best simulated point that fits by tokens per second and device, -1 when there is none. */
int32_t cs_sweep_best(const struct cs_point *points, int32_t n);

#endif
