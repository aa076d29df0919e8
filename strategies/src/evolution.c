/* A genetic algorithm over the keys of strategies. No closed form is used: it is what a search does that
 * knows nothing beforehand but which candidates fit. */
#include "searchers_priv.h"

#include "cs/base/mem.h"
#include "cs/base/rng.h"

#include <math.h>
#include <stdlib.h>

/* A generation, and how many generations may pass without a better strategy before the search ends: small, as
 * a simulation is dear next to the few hundred strategies that usually fit. */
#define GENERATION 12
#define PATIENCE 8
#define ATTEMPTS 64

struct parent {
    int64_t candidate;
    double score; /* @unit of the objective */
};

struct evolution {
    const struct cs_search_problem *problem;
    struct cs_rng rng;
    int64_t n_fit;
    int64_t *fit;   /* candidates that fit, in strategy order */
    bool *proposed; /* per candidate */
    int64_t n_proposed;
    int64_t n_told;
    int64_t n_parents, cap_parents;
    struct parent *parents; /* all that were ok, best first when a generation begins */
    int64_t n_breeding;     /* of these, those that were there when the generation began: others come in the
                               order of the workers */
    double best_score;      /* @unit of the objective */
    int32_t n_idle;         /* generations without a better one */
    bool improved;
};

static void *create(const struct cs_search_problem *problem)
{
    struct evolution *state = cs_calloc(1, sizeof *state);
    state->problem = problem;
    state->best_score = -(double)INFINITY;
    cs_rng_init(&state->rng, problem->seed, 1);
    state->fit = cs_calloc((size_t)problem->n_fit + 1, sizeof *state->fit);
    state->proposed = cs_calloc((size_t)problem->n_candidates + 1, sizeof *state->proposed);
    for (int64_t i = 0; i < problem->n_candidates; i++) {
        if (problem->outlooks[i].fits) {
            state->fit[state->n_fit++] = i;
        }
    }
    return state;
}

static void destroy(void *context)
{
    struct evolution *state = context;
    cs_free(state->fit);
    cs_free(state->proposed);
    cs_free(state->parents);
    cs_free(state);
}

/* Candidates are in strategy order. -1 when the strategy is not in the space. */
static int64_t find(const struct evolution *state, const struct cs_strategy *strategy)
{
    const struct cs_space *space = state->problem->space;
    int64_t low = 0;
    int64_t high = space->n_candidates;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (cs_strategy_compare(&space->candidates[mid].strategy, strategy) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    bool there = low < space->n_candidates && cs_strategy_equal(&space->candidates[low].strategy, strategy);
    return there ? low : -1;
}

static int64_t random_fit(struct evolution *state)
{
    return state->fit[cs_rng_below(&state->rng, (uint32_t)state->n_fit)];
}

/* The better of two of the better half. */
static int64_t choose_parent(struct evolution *state)
{
    uint32_t half = (uint32_t)(state->n_breeding + 1) / 2;
    uint32_t a = cs_rng_below(&state->rng, half);
    uint32_t b = cs_rng_below(&state->rng, half);
    return state->parents[a < b ? a : b].candidate;
}

/* Keys from either parent, and one or two from a stranger. dp follows from the others. */
static int64_t breed(struct evolution *state)
{
    const struct cs_search_problem *problem = state->problem;
    int64_t first = choose_parent(state);
    int64_t second = choose_parent(state);
    int64_t third = random_fit(state);
    struct cs_strategy child = *cs_problem_strategy(problem, first);
    const struct cs_strategy *other = cs_problem_strategy(problem, second);
    const struct cs_strategy *stranger = cs_problem_strategy(problem, third);
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        uint32_t dice = cs_rng_below(&state->rng, CS_N_KEYS);
        const struct cs_strategy *from = dice < 2 ? stranger : dice % 2 == 0 ? other : &child;
        cs_key_put(&child, (enum cs_key)key, cs_key_get(from, (enum cs_key)key));
    }
    for (int32_t list = 0; list < CS_N_LISTS; list++) {
        if (cs_rng_below(&state->rng, 2) == 0) {
            *cs_key_list(&child, (enum cs_list_key)list) = *cs_key_list_of(other, (enum cs_list_key)list);
        }
    }
    int32_t rest = child.mp * child.pp * child.cp;
    bool all_dp = other->op == other->dp;
    child.dp = state->problem->study->platform.n_devices / rest;
    child.op = all_dp || child.op > child.dp ? child.dp : child.op;
    cs_strategy_canonicalise(&child);
    int64_t found = find(state, &child);
    int32_t set = 0;
    if (problem->n_sets > 1) { /* no dice where there is nothing to choose: results stay what they were */
        uint32_t dice = cs_rng_below(&state->rng, 5);
        set = cs_problem_set(problem, dice == 0 ? third : dice % 2 == 0 ? second : first);
    }
    return found < 0 ? -1 : found + set * problem->space->n_candidates;
}

static bool is_new(const struct evolution *state, int64_t candidate)
{
    return candidate >= 0 && state->problem->outlooks[candidate].fits && !state->proposed[candidate];
}

static int64_t propose(struct evolution *state)
{
    for (int32_t i = 0; i < ATTEMPTS && state->n_breeding > 1; i++) {
        int64_t candidate = breed(state);
        if (is_new(state, candidate)) {
            return candidate;
        }
    }
    for (int32_t i = 0; i < ATTEMPTS; i++) {
        int64_t candidate = random_fit(state);
        if (is_new(state, candidate)) {
            return candidate;
        }
    }
    int64_t at = 0;
    while (!is_new(state, state->fit[at])) {
        at++;
    }
    return state->fit[at];
}

static int compare_parents(const void *a, const void *b)
{
    const struct parent *x = a;
    const struct parent *y = b;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static void begin_generation(struct evolution *state)
{
    state->n_idle = state->improved || state->n_proposed == 0 ? 0 : state->n_idle + 1;
    state->improved = false;
    if (state->n_parents > 0) {
        qsort(state->parents, (size_t)state->n_parents, sizeof *state->parents, compare_parents);
    }
    state->n_breeding = state->n_parents;
}

static int64_t next(void *context)
{
    struct evolution *state = context;
    if (state->n_proposed == state->n_fit || state->n_idle >= PATIENCE) {
        return -1;
    }
    if (state->n_proposed % GENERATION == 0) {
        if (state->n_told < state->n_proposed) {
            return CS_SEARCH_LATER;
        }
        begin_generation(state);
        if (state->n_idle >= PATIENCE) {
            return -1;
        }
    }
    int64_t candidate = propose(state);
    state->proposed[candidate] = true;
    state->n_proposed++;
    return candidate;
}

static void tell(void *context, int64_t candidate, const struct cs_evaluation *evaluation, double score)
{
    struct evolution *state = context;
    state->n_told++;
    if (evaluation->outcome != CS_OUTCOME_OK) {
        return;
    }
    CS_GROW(state->parents, state->n_parents, state->cap_parents);
    state->parents[state->n_parents++] = (struct parent){candidate, score};
    if (score > state->best_score) {
        state->best_score = score;
        state->improved = true;
    }
}

const struct cs_searcher cs__searcher_evolutionary = {
    .name = "evolutionary",
    .summary = "breeds strategies from the best ones so far, without the closed form",
    .create = create,
    .destroy = destroy,
    .next = next,
    .tell = tell,
};
