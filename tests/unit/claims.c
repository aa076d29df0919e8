#include "claims.h"

#include <stdlib.h>

static struct cs_evaluation *known_of(struct claims_memory *claims, const struct cs_strategy *strategy)
{
    const struct cs_candidate *candidate = (const struct cs_candidate *)(const void *)strategy;
    return &claims->evaluations[candidate - claims->space->candidates];
}

static bool lookup(void *context, const struct cs_strategy *strategy, struct cs_evaluation *evaluation)
{
    *evaluation = *known_of(context, strategy);
    return evaluation->simulated;
}

static void save(void *context, const struct cs_strategy *strategy, const struct cs_evaluation *evaluation)
{
    *known_of(context, strategy) = *evaluation;
}

void claims_memory_init(struct claims_memory *claims, const struct cs_space *space)
{
    claims->space = space;
    claims->evaluations = calloc((size_t)space->n_candidates, sizeof *claims->evaluations);
    claims->memory = (struct cs_search_memory){.context = claims, .lookup = lookup, .save = save};
}

void claims_memory_release(struct claims_memory *claims)
{
    free(claims->evaluations);
    *claims = (struct claims_memory){0};
}

cs_status claims_evaluate(void *simulator, const struct cs_strategy *strategy,
                          struct cs_evaluation *evaluation, struct cs_err *err)
{
    return cs_simulator_evaluate(simulator, strategy, evaluation, err);
}

int32_t claims_n_close(struct cs_study *study, claims_search_fn search, void *context, const char *algorithm,
                       int32_t n_seeds, int64_t limit, double best_score, int64_t *most)
{
    int32_t n_close = 0;
    *most = 0;
    study->search.simulation_limit = limit;
    for (int32_t seed = 1; seed <= n_seeds; seed++) {
        study->search.seed = (uint64_t)seed;
        struct cs_search_result result = search(context, algorithm);
        n_close += result.n_ranked > 0 && result.ranking[0].score >= 0.99 * best_score;
        *most = result.n_simulated > *most ? result.n_simulated : *most;
        cs_search_result_release(&result);
    }
    study->search.simulation_limit = 0;
    study->search.seed = 1;
    return n_close;
}
