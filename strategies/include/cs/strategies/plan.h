/**
 * @file plan.h
 * Capacity planning: which of the given clusters trains a model on so many tokens by a deadline or within a
 * budget.
 */
#ifndef CS_STRATEGIES_PLAN_H
#define CS_STRATEGIES_PLAN_H

#include "cs/strategies/goodput.h"
#include "cs/strategies/points.h"

#define CS_PLAN_CLUSTERS_MAX 1000

/** A cluster to choose from. Prices, power and failures are the study's: what it does not say is NaN. */
struct cs_plan_cluster {
    const char *family; /* all that it is but its size: "server 910b-10to1, topology rail" */
    int32_t family_idx;
    const char *size;        /* its `nodes` or `devices` as the study writes it */
    double node_price_per_h; /* @unit the study's currency per node and hour */
    double node_power_w;     /* drawn by one node, cooling included if the study wants it */
    double node_mtbf_s;      /* mean time between failures of one node; infinity when the study is silent */
    struct cs_point_spec spec;
};

/** What is asked. Zero-initialised is empty; everything is in the arena. */
struct cs_plan {
    struct cs_arena arena;
    double n_tokens;
    double deadline_s;    /* infinity = none */
    double budget;        /* @unit the study's currency; infinity = none */
    const char *currency; /* "" when the study names none */
    double checkpoint_s;  /* 0 when nothing fails */
    double restart_s;
    double interval_s; /* 0: Daly's */
    int32_t n_clusters;
    struct cs_plan_cluster
        *clusters; /* family by family in the order of the study, each from small to large */
};

/** Read the study's `plan` block:
 *    tokens: 15T                     deadline: 30d       budget: 2000000      currency: USD
 *    failures: {node_mtbf: 300d, checkpoint: 60s, restart: 10min, interval: 30min}
 *    clusters:
 *      - {server: 910b-10to1, topology: [fat-tree, rail], nodes: [8, 16, 32], node_price_per_hour: 12,
 *         node_power: 5.6kW, node_mtbf: 200d}
 *  The keys of a cluster are those of a described platform; lists multiply, but for the names of `dead_links`
 *  and the numbers of `dims`, of which a list of lists multiplies. CS_E_INPUT with file and line: no
 *  tokens, neither deadline nor budget, no clusters, a budget but a cluster without price, node_mtbf or
 *  interval without checkpoint, checkpoint or restart where nothing fails, a size that is there twice, tokens
 *  that are no whole number, a time of 0. */
CS_MUST_CHECK cs_status cs_plan_read(struct cs_plan *plan, const struct cs_study_source *source,
                                     struct cs_err *err);
void cs_plan_release(struct cs_plan *plan);
/** Settings of every cluster, n_clusters entries, in the plan's arena. */
const struct cs_point_spec *cs_plan_specs(struct cs_plan *plan);

#define CS_PLAN_NOTE_MAX 256
#define CS_PLAN_INTERVALS 20000
/** Below this share of useful time a cluster never finishes: the centuries that the closed form gives say
 * nothing. */
#define CS_PLAN_GOODPUT_MIN 1e-3

/** One cluster's answer. A plain value; what is not known is NaN. */
struct cs_plan_row {
    bool works;                    /* a strategy fits */
    bool meets;                    /* deadline and budget */
    bool never;                    /* nearly all time goes into failures: time_s is infinite, cost and energy
                                      are unknown, `note` says why */
    double mtbf_s;                 /* of the cluster */
    double interval_s;             /* between checkpoints; infinity without failures */
    double goodput_frac;           /* Daly's closed form; 1 without failures */
    double goodput_simulated_frac; /* of CS_PLAN_INTERVALS simulated intervals between checkpoints */
    double tokens_per_s;           /* failures included */
    double time_s;                 /* until all tokens are trained on */
    double cost;                   /* @unit the study's currency */
    double energy_j;
    double efficiency_frac; /* tokens per second and device over those of the family's smallest that works */
    int32_t faster_smaller; /* a smaller cluster of the family that is done earlier; -1 = none */
    char note[CS_PLAN_NOTE_MAX]; /* why a smaller one is faster, or why nothing works */
};

struct cs_plan_answer {
    struct cs_plan_row *rows; /* n_clusters entries; caller's */
    int32_t smallest;         /* fewest devices that meet it, the faster of equals; -1 = none meets it */
    int32_t cheapest;         /* -1 when none meets it or prices are missing */
    int32_t fastest;          /* of those that work, whether they meet it or not; -1 = none works */
};

/** Turn points into answers. Pure. `answer->rows` has room for n_clusters rows. */
void cs_plan_answer(const struct cs_plan *plan, const struct cs_point *points, struct cs_plan_answer *answer);

#endif
