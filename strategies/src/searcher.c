#include "cs/strategies/searcher.h"

#include "searchers_priv.h"

#include <string.h>

static double throughput(const struct cs_metrics *metrics, const struct cs_strategy *strategy)
{
    (void)strategy;
    return metrics->tokens_per_s;
}

static double step_time(const struct cs_metrics *metrics, const struct cs_strategy *strategy)
{
    (void)strategy;
    return metrics->iteration_s;
}

static double peak_memory(const struct cs_metrics *metrics, const struct cs_strategy *strategy)
{
    (void)strategy;
    return (double)metrics->peak_memory_bytes;
}

const struct cs_objective cs_objectives[] = {
    {"throughput", "tokens per second", true, throughput},
    {"step_time", "time of one training step", false, step_time},
    {"peak_memory", "memory of the fullest device", false, peak_memory},
    {NULL, NULL, false, NULL},
};

const struct cs_searcher *const cs_searchers[] = {&cs__searcher_exhaustive, NULL};

const struct cs_objective *cs_objective_find(const char *name)
{
    for (const struct cs_objective *objective = cs_objectives; objective->name; objective++) {
        if (strcmp(objective->name, name) == 0) {
            return objective;
        }
    }
    return NULL;
}

const char *const *cs_objective_names(struct cs_arena *arena)
{
    int32_t n = CS_COUNT(cs_objectives);
    const char **names = CS_ARENA_NEW(arena, const char *, n);
    for (int32_t i = 0; i < n; i++) {
        names[i] = cs_objectives[i].name;
    }
    return names;
}

const struct cs_searcher *cs_searcher_find(const char *name)
{
    for (int32_t i = 0; cs_searchers[i]; i++) {
        if (strcmp(cs_searchers[i]->name, name) == 0) {
            return cs_searchers[i];
        }
    }
    return NULL;
}

const char *const *cs_searcher_names(struct cs_arena *arena)
{
    int32_t n = CS_COUNT(cs_searchers);
    const char **names = CS_ARENA_NEW(arena, const char *, n);
    for (int32_t i = 0; cs_searchers[i]; i++) {
        names[i] = cs_searchers[i]->name;
    }
    return names;
}
