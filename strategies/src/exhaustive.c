#include "searchers_priv.h"

#include "cs/base/mem.h"

struct exhaustive {
    const struct cs_space *space;
    int64_t at;
};

static void *create(const struct cs_search_problem *problem)
{
    struct exhaustive *state = cs_calloc(1, sizeof *state);
    state->space = problem->space;
    return state;
}

static int64_t next(void *context)
{
    struct exhaustive *state = context;
    while (state->at < state->space->n_candidates && state->space->candidates[state->at].rule) {
        state->at++;
    }
    return state->at < state->space->n_candidates ? state->at++ : -1;
}

const struct cs_searcher cs__searcher_exhaustive = {
    .name = "exhaustive",
    .summary = "simulates every strategy that fits",
    .proves = true,
    .create = create,
    .destroy = cs_free,
    .next = next,
};
