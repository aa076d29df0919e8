/**
 * @file points.h
 * Variants of a study, each with its best strategy or a fixed one: what sweeps and plans are made of.
 */
#ifndef CS_STRATEGIES_POINTS_H
#define CS_STRATEGIES_POINTS_H

#include "cs/strategies/search.h"

/** What an upgrade is: ten per cent more of one resource; latencies are divided by 1.1. */
enum cs_upgrade {
    CS_UPGRADE_COMPUTE,
    CS_UPGRADE_MEMORY_BANDWIDTH,
    CS_UPGRADE_INTRA_BANDWIDTH,
    CS_UPGRADE_INTER_BANDWIDTH,
    CS_UPGRADE_LATENCY,
    CS_N_UPGRADES
};
extern const char *const cs_upgrade_names[]; /* "compute", "memory_bandwidth", ...: the keys of `what_if` */
#define CS_UPGRADE_RATIO 1.1

/** A variant: settings on top of the study and of the command line. Borrowed. */
struct cs_point_spec {
    int32_t n_overrides;
    const struct cs_override *overrides;
    const struct cs_yaml_node *const *trees; /* as in struct cs_study_source; NULL = all texts */
};

/** What became of a variant. A plain value without pointers: it crosses process boundaries by its bytes. */
struct cs_point {
    enum cs_outcome outcome; /* open: not looked at; ok; oom: nothing fits (of a fixed strategy with its
                                times); rejected: no such study or strategy; failed */
    char reason[CS_ERR_TEXT_MAX];
    bool remembered; /* from the memory of an earlier run */
    bool simulated;  /* strategy and metrics are there */
    bool complete;   /* nothing better exists in the space */
    int32_t n_devices;
    int32_t n_nodes;
    double global_batch; /* @unit sequences */
    int64_t n_candidates;
    int64_t n_simulated;
    struct cs_strategy strategy;
    struct cs_metrics metrics;
    double gain_frac[CS_N_UPGRADES]; /* more tokens per second with the strategy kept; NaN = not asked */
    char gain_reason[CS_REASON_MAX]; /* why one is missing */
};

/** A memory of points by the hash of everything that they depend on. */
struct cs_point_memory {
    void *context;
    bool (*lookup)(void *context, uint64_t key, struct cs_point *point);
    /** Keep a point that is finished; called in the order in which they finish. */
    void (*save)(void *context, uint64_t key, const struct cs_point *point);
};

typedef void (*cs_points_progress_fn)(void *context, int32_t n_done, int32_t n_points, double elapsed_s);

/** Zero-initialised: best strategies, all processors, silent. Pointers are borrowed. */
struct cs_points_options {
    const struct cs_study_source *source; /* must be given: the study and its overrides */
    const char *strategy; /* a fixed one, NULL = the best of each point. Keys left out take the
                             study's pinned value, dp what the others leave of the devices */
    bool upgrades;        /* find out what each upgrade gives */
    struct cs_run_options run;
    int32_t n_workers; /* 0 = one a processor; shared by points and their candidates */
    const volatile bool *stop;
    const struct cs_point_memory *memory;
    const char *version; /* of the program: memories of another one are not used */
    cs_points_progress_fn progress;
    void *progress_context;
};

/** Look at every variant. `points` has n entries, in order. A variant that cannot be loaded or that nothing
 *  fits is a point with a reason, unless no variant at all can be loaded: then its error is returned. *stop
 * is no error: points that were not reached stay open. The result does not depend on the number of workers.
 */
CS_MUST_CHECK cs_status cs_points_run(struct cs_point *points, const struct cs_point_spec *specs, int32_t n,
                                      const struct cs_points_options *options, struct cs_err *err);

/** The upgrade that gives most, -1 when none gives anything (or none was asked for). Pure. */
int32_t cs_point_best_upgrade(const struct cs_point *point);

#endif
