/* The baseline: candidates in random order. */
#include "searchers_priv.h"

#include "cs/base/mem.h"
#include "cs/base/rng.h"

struct shuffled {
    int64_t n, at;
    int64_t *order;
};

static void *create(const struct cs_search_problem *problem)
{
    struct shuffled *state = cs_calloc(1, sizeof *state);
    struct cs_rng rng;
    cs_rng_init(&rng, problem->seed, 0);
    state->order = cs_calloc((size_t)problem->n_fit + 1, sizeof *state->order);
    for (int64_t i = 0; i < problem->n_candidates; i++) {
        if (problem->outlooks[i].fits) {
            state->order[state->n++] = i;
        }
    }
    for (int64_t i = state->n - 1; i > 0; i--) { /* Fisher and Yates */
        int64_t k = cs_rng_below(&rng, (uint32_t)i + 1);
        int64_t swapped = state->order[i];
        state->order[i] = state->order[k];
        state->order[k] = swapped;
    }
    return state;
}

static void destroy(void *context)
{
    struct shuffled *state = context;
    cs_free(state->order);
    cs_free(state);
}

static int64_t next(void *context)
{
    struct shuffled *state = context;
    return state->at < state->n ? state->order[state->at++] : -1;
}

const struct cs_searcher cs__searcher_random = {
    .name = "random",
    .summary = "simulates in random order; what other algorithms are measured against",
    .proves = true,
    .create = create,
    .destroy = destroy,
    .next = next,
};
