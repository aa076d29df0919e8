/**
 * @file misrank.h
 * The closed form against the simulation over a whole space: where its order is wrong, by how much, and which
 * effect it lacks there.
 */
#ifndef CS_STRATEGIES_MISRANK_H
#define CS_STRATEGIES_MISRANK_H

#include "cs/strategies/search.h"

/** What the closed form leaves out; see cost.h. */
enum cs_lack {
    CS_LACK_NOTHING,    /* within 0.1 % */
    CS_LACK_INTER,      /* flows of several collectives or ranks share links between nodes */
    CS_LACK_INTRA,      /* ... inside nodes */
    CS_LACK_EVERYTHING, /* no closed form: only computing, tensor parallelism, the filling of the pipeline */
    CS_N_LACKS
};
extern const char *const cs_lack_names[]; /* in words */

/** A strategy whose place in the order is wrong. */
struct cs_misranked {
    int64_t candidate; /* index in the space */
    double simulated_s, closed_s;
    int64_t simulated_rank, closed_rank; /* 1 = fastest */
    enum cs_lack lack;
};

/** Strategies that have a value of a key in common. */
struct cs_misrank_key {
    enum cs_key key;
    int64_t example; /* one of them: index in the space */
    int64_t n;
    double mean_error_frac; /* closed / simulated - 1 */
};

#define CS_MISRANK_WORST 10
#define CS_MISRANK_KEYS 12

struct cs_misrank {
    int64_t n;                    /* strategies compared */
    double spearman;              /* @unit rank correlation, -1 .. 1; NaN below 2 */
    double mape_frac, bias_frac;  /* error = closed / simulated - 1 */
    double worst_frac;            /* largest |error| */
    double top1_regret_frac;      /* the closed form's choice is so much slower than the best */
    double top5_regret_frac;      /* the best simulated of its five */
    int64_t n_lack[CS_N_LACKS];   /* strategies by what is lacking */
    double lack_frac[CS_N_LACKS]; /* mean error of these */
    int32_t n_worst;
    struct cs_misranked worst[CS_MISRANK_WORST]; /* most places wrong first */
    int32_t n_keys;
    struct cs_misrank_key keys[CS_MISRANK_KEYS]; /* values that differ most from the mean error first */
};

/** Compare the ranking of a result (of an enumeration: everything that fits) with the closed form. `cost` is
 * prepared for the candidates. Cost O(n log n). */
void cs_misrank_find(struct cs_misrank *misrank, const struct cs_space *space,
                     const struct cs_search_result *result, struct cs_cost *cost);

#endif
