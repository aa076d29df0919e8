/* The closed form against the simulation. */
#include "cs/strategies/misrank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EQUAL_FRAC 1e-3

const char *const cs_lack_names[] = {
    "nothing: within 0.1 %", "flows that share links between nodes", "flows that share links inside nodes",
    "no closed form: only computing, tensor parallelism and the filling of the pipeline", NULL};

/** A strategy with both times. */
struct both {
    int64_t candidate;
    double simulated_s, closed_s;
    int64_t simulated_rank, closed_rank;
    enum cs_lack lack;
};

static int compare_times(double a_s, double b_s, int64_t a, int64_t b)
{
    if (a_s < b_s || a_s > b_s) {
        return a_s < b_s ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

static int by_simulation(const void *a, const void *b)
{
    const struct both *x = a;
    const struct both *y = b;
    return compare_times(x->simulated_s, y->simulated_s, x->candidate, y->candidate);
}

static int by_closed_form(const void *a, const void *b)
{
    const struct both *x = a;
    const struct both *y = b;
    return compare_times(x->closed_s, y->closed_s, x->candidate, y->candidate);
}

static int by_places_wrong(const void *a, const void *b)
{
    const struct both *x = a;
    const struct both *y = b;
    int64_t x_away = llabs(x->closed_rank - x->simulated_rank);
    int64_t y_away = llabs(y->closed_rank - y->simulated_rank);
    if (x_away != y_away) {
        return x_away > y_away ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

/* A covered strategy's closed form knows every wait and duration but those of links that carry something else
 * as well: which links those are is told by where its communication goes. */
static enum cs_lack lack_of(const struct cs_estimate *estimate, const struct cs_metrics *metrics)
{
    if (estimate->is_coarse) {
        return CS_LACK_EVERYTHING;
    }
    if (fabs(estimate->time_s / metrics->iteration_s - 1) <= EQUAL_FRAC) {
        return CS_LACK_NOTHING;
    }
    return metrics->cross_node_comm_frac > metrics->comm_frac / 2 ? CS_LACK_INTER : CS_LACK_INTRA;
}

static double error_of(const struct both *both)
{
    return both->closed_s / both->simulated_s - 1;
}

/* Errors, all together and by what is lacking. */
static void sum_up(struct cs_misrank *out, const struct both *list)
{
    for (int64_t i = 0; i < out->n; i++) {
        double error = error_of(&list[i]);
        out->mape_frac += fabs(error) / (double)out->n;
        out->bias_frac += error / (double)out->n;
        out->worst_frac = fmax(out->worst_frac, fabs(error));
        out->n_lack[list[i].lack]++;
        out->lack_frac[list[i].lack] += error;
    }
    for (int32_t lack = 0; lack < CS_N_LACKS; lack++) {
        out->lack_frac[lack] = out->n_lack[lack] > 0 ? out->lack_frac[lack] / (double)out->n_lack[lack] : 0;
    }
}

/* Places in both orders, what the closed form's choices cost; ends in the order of the closed form. */
static void rank(struct cs_misrank *out, struct both *list)
{
    double squares = 0;
    qsort(list, (size_t)out->n, sizeof *list, by_simulation);
    double best_s = list[0].simulated_s;
    for (int64_t i = 0; i < out->n; i++) {
        list[i].simulated_rank = i + 1;
    }
    qsort(list, (size_t)out->n, sizeof *list, by_closed_form);
    double five_s = (double)INFINITY;
    for (int64_t i = 0; i < out->n; i++) {
        list[i].closed_rank = i + 1;
        double away = (double)(list[i].closed_rank - list[i].simulated_rank);
        squares += away * away;
        five_s = i < 5 ? fmin(five_s, list[i].simulated_s) : five_s;
    }
    double n = (double)out->n;
    out->spearman = out->n > 1 ? 1 - 6 * squares / (n * (n * n - 1)) : (double)NAN;
    out->top1_regret_frac = list[0].simulated_s / best_s - 1;
    out->top5_regret_frac = five_s / best_s - 1;
}

static int by_distance(const void *a, const void *b, double mean)
{
    const struct cs_misrank_key *x = a;
    const struct cs_misrank_key *y = b;
    double x_away = fabs(x->mean_error_frac - mean) * sqrt((double)x->n);
    double y_away = fabs(y->mean_error_frac - mean) * sqrt((double)y->n);
    return x_away > y_away ? -1 : x_away < y_away;
}

/* Keep the values whose mean error stands out. */
static void keep(struct cs_misrank *out, const struct cs_misrank_key *value)
{
    int32_t at = out->n_keys;
    while (at > 0 && by_distance(value, &out->keys[at - 1], out->bias_frac) < 0) {
        at--;
    }
    if (at == CS_MISRANK_KEYS) {
        return;
    }
    int32_t n_behind = out->n_keys - at - (out->n_keys == CS_MISRANK_KEYS);
    memmove(&out->keys[at + 1], &out->keys[at], (size_t)n_behind * sizeof *out->keys);
    out->keys[at] = *value;
    out->n_keys += out->n_keys < CS_MISRANK_KEYS;
}

/* Mean errors by the values of the keys. */
static void by_keys(struct cs_misrank *out, const struct cs_space *space, const struct both *list)
{
    bool *done = cs_calloc((size_t)out->n, sizeof *done);
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        memset(done, 0, (size_t)out->n * sizeof *done);
        for (int64_t i = 0; i < out->n; i++) {
            int32_t value = cs_key_get(&space->candidates[list[i].candidate].strategy, (enum cs_key)key);
            struct cs_misrank_key group = {(enum cs_key)key, list[i].candidate, 0, 0};
            for (int64_t k = i; k < out->n && !done[i]; k++) {
                if (cs_key_get(&space->candidates[list[k].candidate].strategy, (enum cs_key)key) == value) {
                    group.n++;
                    group.mean_error_frac += error_of(&list[k]);
                    done[k] = k > i;
                }
            }
            if (group.n > 0 && group.n < out->n) { /* a value that all have says nothing */
                group.mean_error_frac /= (double)group.n;
                keep(out, &group);
            }
        }
    }
    cs_free(done);
}

void cs_misrank_find(struct cs_misrank *out, const struct cs_space *space,
                     const struct cs_search_result *result, struct cs_cost *cost)
{
    struct both *list = cs_calloc((size_t)result->n_ranked + 1, sizeof *list);
    *out = (struct cs_misrank){.spearman = (double)NAN};
    for (int64_t i = 0; i < result->n_ranked; i++) {
        const struct cs_ranked *ranked = &result->ranking[i];
        struct cs_estimate estimate;
        cs_cost_estimate(cost, &space->candidates[ranked->candidate].strategy, &estimate);
        if (estimate.time_s > 0) {
            list[out->n++] = (struct both){.candidate = ranked->candidate,
                                           .simulated_s = ranked->metrics.iteration_s,
                                           .closed_s = estimate.time_s,
                                           .lack = lack_of(&estimate, &ranked->metrics)};
        }
    }
    if (out->n > 0) {
        sum_up(out, list);
        rank(out, list);
        by_keys(out, space, list);
        qsort(list, (size_t)out->n, sizeof *list, by_places_wrong);
        for (int64_t i = 0; i < out->n && i < CS_MISRANK_WORST; i++) {
            if (list[i].closed_rank != list[i].simulated_rank) {
                out->worst[out->n_worst++] =
                    (struct cs_misranked){list[i].candidate,      list[i].simulated_s, list[i].closed_s,
                                          list[i].simulated_rank, list[i].closed_rank, list[i].lack};
            }
        }
    }
    cs_free(list);
}
