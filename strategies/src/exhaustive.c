/* Branch and bound. Every leaf of the space is bounded by the closed form, which costs microseconds, so that
 * the tree is flat: candidates are simulated in the order of their bounds until no bound is above the worst
 * of the best n_top found. What was not simulated by then cannot be among them. */
#include "searchers_priv.h"

#include "cs/base/mem.h"

#include <math.h>
#include <stdlib.h>

struct leaf {
    double bound_score; /* @unit of the objective */
    int64_t candidate;
};

struct exhaustive {
    const struct cs_search_problem *problem;
    int64_t n, at;
    struct leaf *leaves; /* highest bound first, then in strategy order */
    int64_t n_best;
    double *best_scores; /* @unit of the objective; a heap of the n_top best, the worst of them on top */
};

static int compare_leaves(const void *a, const void *b)
{
    const struct leaf *x = a;
    const struct leaf *y = b;
    if (x->bound_score > y->bound_score || x->bound_score < y->bound_score) {
        return x->bound_score > y->bound_score ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static void *create(const struct cs_search_problem *problem)
{
    struct exhaustive *state = cs_calloc(1, sizeof *state);
    state->problem = problem;
    state->leaves = cs_calloc((size_t)problem->n_fit + 1, sizeof *state->leaves);
    for (int64_t i = 0; i < problem->n_candidates; i++) {
        if (problem->outlooks[i].fits) {
            state->leaves[state->n++] = (struct leaf){problem->outlooks[i].bound_score, i};
        }
    }
    qsort(state->leaves, (size_t)state->n, sizeof *state->leaves, compare_leaves);
    int64_t n_top = problem->n_top < state->n ? problem->n_top : state->n;
    state->best_scores = cs_calloc((size_t)n_top + 1, sizeof *state->best_scores);
    return state;
}

static void destroy(void *context)
{
    struct exhaustive *state = context;
    cs_free(state->leaves);
    cs_free(state->best_scores);
    cs_free(state);
}

/* Can a candidate with this bound still be among the best? Of equal scores any may rank first, so only a
 * bound below all of them is a proof. */
static bool is_hopeless(const struct exhaustive *state, double bound_score /* @unit of the objective */)
{
    return state->n_best == state->problem->n_top && bound_score < state->best_scores[0];
}

static int64_t next(void *context)
{
    struct exhaustive *state = context;
    if (state->at >= state->n || is_hopeless(state, state->leaves[state->at].bound_score)) {
        return -1;
    }
    return state->leaves[state->at++].candidate;
}

static bool obsolete(void *context, int64_t candidate)
{
    struct exhaustive *state = context;
    return is_hopeless(state, state->problem->outlooks[candidate].bound_score);
}

/* Let the score on top of the heap sink to its place. */
static void sink(double *scores, int64_t n)
{
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) {
            return;
        }
        child += child + 1 < n && scores[child + 1] < scores[child];
        if (scores[at] <= scores[child]) {
            return;
        }
        double score = scores[at];
        scores[at] = scores[child];
        scores[child] = score;
        at = child;
    }
}

static void tell(void *context, int64_t candidate, const struct cs_evaluation *evaluation, double score)
{
    struct exhaustive *state = context;
    (void)candidate;
    if (evaluation->outcome != CS_OUTCOME_OK) {
        return;
    }
    if (state->n_best < state->problem->n_top) {
        int64_t at = state->n_best++;
        for (; at > 0 && state->best_scores[(at - 1) / 2] > score; at = (at - 1) / 2) {
            state->best_scores[at] = state->best_scores[(at - 1) / 2];
        }
        state->best_scores[at] = score;
    } else if (score > state->best_scores[0]) {
        state->best_scores[0] = score;
        sink(state->best_scores, state->n_best);
    }
}

const struct cs_searcher cs__searcher_exhaustive = {
    .name = "exhaustive",
    .summary = "simulates in the order of a lower bound until nothing better can be left",
    .proves = true,
    .create = create,
    .destroy = destroy,
    .next = next,
    .obsolete = obsolete,
    .tell = tell,
};
