/**
 * @file study.h
 * The study: what is trained, where, and which strategies are open (INTERFACE.md, "Study file").
 */
#ifndef CS_STRATEGIES_STUDY_H
#define CS_STRATEGIES_STUDY_H

#include "cs/base/yaml.h"
#include "cs/engine/engine.h"
#include "cs/platforms/ranktable.h"
#include "cs/platforms/topology.h"
#include "cs/strategies/intervals.h"
#include "cs/strategies/key.h"

enum cs_axis_kind {
    CS_AXIS_AUTO,   /* left out or `auto`: the search's own range */
    CS_AXIS_PINNED, /* a scalar */
    CS_AXIS_LISTED  /* a list: restricts the search */
};

/** What the study says about one key. Values as cs_key_get gives them; op may be CS_VALUE_ALL_DP. */
struct cs_axis {
    enum cs_axis_kind kind;
    bool asked;        /* the study says `auto`: more than what a search takes up by itself */
    struct cs_loc loc; /* of the value; of the strategy block when the key was left out */
    int32_t n;
    int32_t *values; /* in the study's arena, in the order of the file */
};

/** A number for each place of the model, or a way to choose them. */
struct cs_list_choice {
    bool balanced;            /* chosen for each strategy so that time and memory balance (cs_balance) */
    struct cs_per_place list; /* n = 0: none, that is even or no layer */
};

/** What the study says about a list. Left out and `auto`: none. */
struct cs_list_axis {
    enum cs_axis_kind kind;
    struct cs_loc loc;
    int32_t n;
    struct cs_list_choice *choices; /* in the study's arena */
};

enum cs_comparison { CS_LESS, CS_LESS_EQUAL, CS_GREATER, CS_GREATER_EQUAL, CS_EQUAL, CS_UNEQUAL };

/** A user's rule, "mp <= 8" or "cross_node_comm_fraction < 0.2": a key or a result against a value. */
struct cs_user_rule {
    const char *text; /* in one spelling */
    int32_t key;      /* enum cs_key, -1 = a result */
    int32_t result;   /* of the results that rules may name */
    enum cs_comparison comparison;
    double value; /* @unit of the key or result, base unit */
};

/** The margin of a study that names none (DESIGN §6), @unit ratio. */
#define CS_MEMORY_MARGIN 1.2

struct cs_constraints {
    double memory_margin;        /* @unit ratio >= 1: peak x margin must fit in a device's memory */
    double device_memory_bytes;  /* of a device's memory, what a training may allocate; 0 = all */
    double cross_node_comm_frac; /* share of the step; infinity = no limit */
    double min_device_use_frac;  /* share of the step that the average device computes, at least; 0 = any */
    double min_memory_use_frac; /* share of a device's memory that the fullest one needs, at least; 0 = any */
    int32_t n_rules;
    struct cs_user_rule *rules; /* in the study's arena */
};

/** How the platform behaves and which algorithms its collectives take. Lists live in the study's arenas. */
struct cs_runtime {
    enum cs_algorithm
        algorithm[CS_N_COLLS];    /* `collectives`: auto where the study is silent, the first of a list */
    uint32_t choices[CS_N_COLLS]; /* those of a list, a bit (1u << enum cs_algorithm) each; 0 = no list */
    int32_t n_slow_devices;       /* `faults.slow_devices`: {device: times slower} */
    const struct cs_slow_device *slow_devices;
    int32_t n_slow_links; /* `faults.slow_links`: {link: share of its bandwidth}; 0 = dead; and those of
                             `faults.slow_switches` */
    const struct cs_slow_link *slow_links;
    double jitter_frac; /* `faults.jitter`: of computing times */
};

/** Times the platform's own figures, for asking what an upgrade is worth (`what_if`); 1 = as they are. Links
 * of a platform file can be scaled when the file carries its description (cs_topology_read). */
struct cs_what_if {
    double compute_frac;          /* @unit ratio: peaks of the matrix and vector units */
    double memory_bandwidth_frac; /* @unit ratio: of the devices' memory */
    double intra_bandwidth_frac;  /* @unit ratio: links inside nodes */
    double inter_bandwidth_frac;  /* @unit ratio: links between nodes */
    double latency_frac;          /* @unit ratio: of all links */
};

/** Of a study that gives candidates no limit of their own: more than any takes that does not hang. */
#define CS_CANDIDATE_LIMIT_S 900.0

struct cs_search_settings {
    const char *algorithm;    /* checked against cs_searcher_find */
    const char *objective;    /* checked against cs_objective_find */
    double time_limit_s;      /* wall clock of the search, 0 = none */
    double candidate_limit_s; /* wall clock of one candidate, 0 = none; CS_CANDIDATE_LIMIT_S unless given */
    int64_t simulation_limit; /* simulations of the search, 0 = none */
    int64_t n_top;            /* entries of the ranking that are shown, and that exhaustive proves */
    double device_hour_cost;  /* @unit money per device and hour; 0 when the study does not say */
    uint64_t seed;
};

/** One setting from the command line: `key` is "training.global_batch", `value` is YAML ("1024", "[1, 2]"),
 *  or plain text when `literal`: a word of an option. --collective pins, so a literal "collectives.KIND" is
 *  CS_E_INPUT where the study lists algorithms of that kind or an override before it says another one.
 *  Borrowed for the call. */
struct cs_override {
    const char *key;
    const char *value;
    bool literal;
};

/** Where a study comes from. */
struct cs_study_source {
    const char *data_dir; /* holds platforms/, workloads/, strategies/ */
    const char *path;     /* shipped name or file; NULL: the overrides say everything */
    int32_t n_overrides;  /* applied in order, each wins over the file */
    const struct cs_override *overrides;
    const struct cs_yaml_node *const
        *trees;            /* values of overrides that stand in a file, with their places, as
                              long as the study; an entry NULL: its text. NULL = all texts */
    const char *catalogue; /* folder of catalogue files that stand in for shipped ones, NULL = none */
};

/** A study, read and checked, with its model and platform loaded. Everything lives in its own arenas. */
struct cs_study {
    struct cs_arena arena;
    struct cs_yaml yaml; /* of the file; locations point into it */
    const char *path;    /* NULL without a file */
    const char *model_path;
    struct cs_model model;
    struct cs_catalogue *catalogue;
    struct cs_platform platform;                /* devices in rank order */
    const struct cs_topology_spec *description; /* of a described platform, what_if applied; else NULL */
    struct cs_platform base;                    /* that the description varies; empty without */
    struct cs_ranktable ranktable;              /* that gave the ranks; empty without */
    FILE *platform_file;                        /* of a described platform: a temporary without a name */
    struct cs_what_if what_if;
    struct cs_training training;
    struct cs_axis axes[CS_N_KEYS];
    struct cs_list_axis lists[CS_N_LISTS];
    struct cs_loc strategy_loc; /* of the strategy block */
    struct cs_constraints constraints;
    struct cs_runtime runtime;
    struct cs_search_settings search;
    struct cs_interval
        interval; /* how far published runs of this kind are from their simulation; n = 0: none */
};

/** Read a study. CS_E_INPUT with file and line for anything wrong (values from overrides name the command
 *  line), in this file or in the model, platform and catalogue files that it names. On failure *study is
 *  still to be released. */
CS_MUST_CHECK cs_status cs_study_load(struct cs_study *study, const struct cs_study_source *source,
                                      struct cs_err *err);
/** Safe on a zeroed struct and twice. */
void cs_study_release(struct cs_study *study);

/** The first rule about keys that a strategy breaks, NULL when it keeps them all. Pure. */
const struct cs_user_rule *cs_user_rule_broken_by(const struct cs_study *study,
                                                  const struct cs_strategy *strategy);
/** The first rule about results that these break, NULL when they keep them all; before a simulation only
 *  memory is known. `text` gets the result with its unit. Pure. */
const struct cs_user_rule *cs_user_rule_broken_by_result(const struct cs_study *study,
                                                         const struct cs_metrics *metrics, bool is_simulated,
                                                         char *text, size_t text_bytes);
/** Does any constraint of the study need a simulation? */
bool cs_study_has_result_rules(const struct cs_study *study);

/** Read a platform description from a file of its own: the keys of a study's `platform` block at the top
 * level.
 *  @param[out] spec texts live in the study, of which only the catalogue is loaded besides. Release the
 * study. */
CS_MUST_CHECK cs_status cs_description_load(struct cs_study *study, const struct cs_study_source *source,
                                            struct cs_topology_spec *spec, struct cs_err *err);

/** Pin the keys that `text` ("mp=8,recompute=full") gives, for a search of the rest. A key that the study
 *  searches as a list is CS_E_INPUT naming both places. */
CS_MUST_CHECK cs_status cs_study_pin(struct cs_study *study, const char *text, struct cs_err *err);

/** CS_E_INPUT when `text`, a strategy of the command line, gives a key another value than the command line's
 *  own override of the study. */
CS_MUST_CHECK cs_status cs_study_said_once(const struct cs_study *study, const char *text,
                                           struct cs_err *err);

/** The one strategy that `text` (NULL = nothing) and the study's pinned values say, a list of one value being
 *  that value: what both leave out is 1, none, or the schedule's default. Canonical. CS_E_INPUT when it
 * cannot run on this model and platform, with the rule in words. */
CS_MUST_CHECK cs_status cs_study_strategy(const struct cs_study *study, const char *text,
                                          struct cs_strategy *strategy, struct cs_err *err);

/** The same as it is written, whether it can run or not. CS_E_INPUT at a list of several values of which
 *  simulating needs one, when `text` is NULL. */
CS_MUST_CHECK cs_status cs_study_strategy_read(const struct cs_study *study, const char *text,
                                               struct cs_strategy *strategy, struct cs_err *err);

/** Combinations of collective algorithms that the study's lists leave open, at least 1; and combination
 * `index` of them, in which collectives without a list keep what they have. */
int32_t cs_study_n_algorithm_sets(const struct cs_study *study);
void cs_study_algorithm_set(const struct cs_study *study, int32_t index,
                            enum cs_algorithm algorithm[CS_N_COLLS]);

/** Complete `options` with what the study says; what they say already wins. */
void cs_study_run_options(const struct cs_study *study, struct cs_run_options *options);

/** Devices and devices per node of the platform, for validity rules. */
struct cs_cluster_shape cs_study_shape(const struct cs_study *study);
/** Where the ranks of a framework run that numbers them mp, cp, dp, pp from the inside out, if this
 * strategy's placement is wanted: rank r on platform device device_of_rank[r] (n_devices entries, the
 * caller's). Pure. */
void cs_study_placement(const struct cs_study *study, const struct cs_strategy *strategy,
                        int32_t *device_of_rank);
/** What the check of memory compares, in bytes: cs_study_counted_bytes(peak) times the margin is at most
 * cs_study_device_memory_bytes. Without constraints.device_memory the whole of the smallest device, of which
 * the runtime's reserve is a part of the peak. With it, what a process may allocate (MindSpore's
 * max_device_memory): that much, and at most the device without the reserve, which is not counted then. */
double cs_study_device_memory_bytes(const struct cs_study *study);
/** peak_bytes: reserve included, as in cs_metrics. Of different chips the least reserve is taken off. */
double cs_study_counted_bytes(const struct cs_study *study, double peak_bytes);

#endif
