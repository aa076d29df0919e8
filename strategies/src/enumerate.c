#include "searchers_priv.h"

#include "cs/base/mem.h"

struct enumeration {
    const struct cs_search_problem *problem;
    int64_t at;
};

static void *create(const struct cs_search_problem *problem)
{
    struct enumeration *state = cs_calloc(1, sizeof *state);
    state->problem = problem;
    return state;
}

static int64_t next(void *context)
{
    struct enumeration *state = context;
    int64_t n = state->problem->n_candidates;
    while (state->at < n && !state->problem->outlooks[state->at].fits) {
        state->at++;
    }
    return state->at < n ? state->at++ : -1;
}

const struct cs_searcher cs__searcher_enumerate = {
    .name = "enumerate",
    .summary = "simulates every strategy that fits, in strategy order",
    .proves = true,
    .create = create,
    .destroy = cs_free,
    .next = next,
};
