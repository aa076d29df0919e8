/* The Pareto front of step time and memory. Cost is the step time times what the cluster costs, so that on
 * one cluster it adds nothing to the front.
 *
 * A search leaves out what its bound says cannot be among the fastest, but it may need less memory. So the
 * front is taken over what was simulated and the bounds of the rest; whatever is on it by its bound alone is
 * simulated, until nothing is: memory is exact before a simulation and a bound is never above the step, hence
 * what is then on the front is on the front of everything simulated. A search that proves nothing has no such
 * claim: its front is that of its own simulations. */
#include "explain_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct front {
    struct cs_front_point *points;
    int64_t n;
    struct cs_front_point **on; /* the front, fastest first */
    int64_t n_on;
};

static int compare(const void *a, const void *b)
{
    const struct cs_front_point *x = a;
    const struct cs_front_point *y = b;
    if (x->time_s < y->time_s || x->time_s > y->time_s) {
        return x->time_s < y->time_s ? -1 : 1;
    }
    if (x->memory_bytes != y->memory_bytes) {
        return x->memory_bytes < y->memory_bytes ? -1 : 1;
    }
    if (x->candidate != y->candidate) {
        return x->candidate < y->candidate ? -1 : 1;
    }
    return x->algorithm_set - y->algorithm_set;
}

/* Of points that take and need the same, the first in strategy order. */
static void find_front(struct front *f)
{
    int64_t least_bytes = INT64_MAX;
    f->n_on = 0;
    if (f->n > 0) {
        qsort(f->points, (size_t)f->n, sizeof *f->points, compare);
    }
    for (int64_t i = 0; i < f->n; i++) {
        if (isfinite(f->points[i].time_s) && f->points[i].memory_bytes < least_bytes) {
            least_bytes = f->points[i].memory_bytes;
            f->on[f->n_on++] = &f->points[i];
        }
    }
}

/* Simulate what is on the front by its bound. Sets *n to how many that were. */
static cs_status settle(struct front *f, const struct cs_simulator *simulator, const struct cs_space *space,
                        const struct cs_explain_options *options, int64_t most, int64_t *n,
                        struct cs_err *err)
{
    cs_status st = CS_OK;
    int64_t *candidates = cs_calloc((size_t)f->n_on + 1, sizeof *candidates);
    int32_t *sets = cs_calloc((size_t)f->n_on + 1, sizeof *sets);
    struct cs_front_point **points = cs_calloc((size_t)f->n_on + 1, sizeof *points);
    struct cs_evaluation *evaluations = cs_calloc((size_t)f->n_on + 1, sizeof *evaluations);
    *n = 0;
    for (int64_t i = 0; i < f->n_on && *n < most; i++) {
        if (!f->on[i]->simulated) {
            points[*n] = f->on[i];
            sets[*n] = f->on[i]->algorithm_set;
            candidates[(*n)++] = f->on[i]->candidate;
        }
    }
    CS_TRY(cs__simulate_listed(evaluations, simulator, space, candidates, sets, *n, options, err));
    for (int64_t i = 0; i < *n; i++) {
        bool is_ok = evaluations[i].outcome == CS_OUTCOME_OK;
        points[i]->simulated = true;
        points[i]->time_s = is_ok ? evaluations[i].metrics.iteration_s : (double)INFINITY;
        points[i]->memory_bytes = evaluations[i].metrics.peak_memory_bytes;
    }
out:
    cs_free(candidates);
    cs_free(sets);
    cs_free(points);
    cs_free(evaluations);
    return st;
}

/* What the search has simulated, and the bounds of what it has left out. */
static void gather(struct front *f, const struct cs_space *space, const struct cs_search_result *result,
                   const struct cs__known *known, int64_t n_known, int32_t n_sets)
{
    bool *is_ranked = cs_calloc((size_t)(n_sets * space->n_candidates) + 1, sizeof *is_ranked);
    for (int64_t i = 0; i < result->n_ranked; i++) {
        const struct cs_ranked *r = &result->ranking[i];
        f->points[f->n++] = (struct cs_front_point){r->candidate, r->algorithm_set, r->metrics.iteration_s,
                                                    r->metrics.peak_memory_bytes, true};
        is_ranked[r->algorithm_set * space->n_candidates + r->candidate] = true;
    }
    for (int64_t i = 0; i < n_known && result->complete; i++) {
        if (known[i].fits && !is_ranked[known[i].set * space->n_candidates + known[i].candidate]) {
            f->points[f->n++] = (struct cs_front_point){known[i].candidate, known[i].set, known[i].bound_s,
                                                        known[i].memory_bytes, false};
        }
    }
    cs_free(is_ranked);
}

cs_status cs__pareto(struct cs_explanation *out, const struct cs_space *space,
                     const struct cs_search_result *result, const struct cs_simulator *simulator,
                     const struct cs__known *known, int64_t n_known, const struct cs_explain_options *options,
                     struct cs_err *err)
{
    cs_status st = CS_OK;
    struct front f = {0};
    int64_t n_left = CS_EXPLAIN_FRONT_SIMULATIONS_MAX;
    int64_t n = 1;
    f.points = cs_calloc((size_t)(result->n_ranked + n_known) + 1, sizeof *f.points);
    f.on = cs_calloc((size_t)(result->n_ranked + n_known) + 1, sizeof *f.on);
    gather(&f, space, result, known, n_known, cs_study_n_algorithm_sets(simulator->study));
    find_front(&f);
    while (n > 0 && n_left > 0) {
        CS_TRY(settle(&f, simulator, space, options, n_left, &n, err));
        n_left -= n;
        out->n_front_simulated += n;
        find_front(&f);
    }
    int32_t n_sets = cs_study_n_algorithm_sets(simulator->study);
    out->front_is_whole = result->complete && (n_sets == 1 || options->set_costs);
    out->front = cs_calloc((size_t)f.n_on + 1, sizeof *out->front);
    for (int64_t i = 0; i < f.n_on; i++) {
        out->front_is_whole = out->front_is_whole && f.on[i]->simulated;
        out->front[out->n_front++] = *f.on[i];
    }
out:
    cs_free(f.points);
    cs_free(f.on);
    return st;
}
