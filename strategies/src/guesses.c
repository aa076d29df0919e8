/* When time is over and nothing has been found: what the closed form takes for the best, until one is
 * feasible. Not an algorithm that can be chosen. */
#include "searchers_priv.h"

#include "cs/base/mem.h"

#include <math.h>
#include <stdlib.h>

struct guess {
    double score; /* @unit of the objective; -infinity = none */
    int64_t candidate;
};

struct guesses {
    struct guess *list; /* best first, of equals in strategy order */
    int64_t n, at;
    bool found;
};

static int compare(const void *a, const void *b)
{
    const struct guess *x = a;
    const struct guess *y = b;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static void *create(const struct cs_search_problem *problem)
{
    struct guesses *state = cs_calloc(1, sizeof *state);
    state->list = cs_calloc((size_t)problem->n_fit + 1, sizeof *state->list);
    for (int64_t i = 0; i < problem->n_candidates; i++) {
        const struct cs_outlook *outlook = &problem->outlooks[i];
        if (outlook->fits) {
            double score = isnan(outlook->guess_score) ? -(double)INFINITY : outlook->guess_score;
            state->list[state->n++] = (struct guess){score, i};
        }
    }
    qsort(state->list, (size_t)state->n, sizeof *state->list, compare);
    return state;
}

static void destroy(void *context)
{
    struct guesses *state = context;
    cs_free(state->list);
    cs_free(state);
}

static int64_t next(void *context)
{
    struct guesses *state = context;
    return state->found || state->at == state->n ? -1 : state->list[state->at++].candidate;
}

static void tell(void *context, int64_t candidate, const struct cs_evaluation *evaluation, double score)
{
    struct guesses *state = context;
    (void)candidate;
    (void)score;
    state->found = state->found || evaluation->outcome == CS_OUTCOME_OK;
}

const struct cs_searcher cs__searcher_guesses = {
    .name = "guesses",
    .summary = "what the closed form takes for the best, until one is feasible",
    .create = create,
    .destroy = destroy,
    .next = next,
    .tell = tell,
};
