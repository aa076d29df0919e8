#include "cs/strategies/searcher.h"

#include "searchers_priv.h"

#include <string.h>

static double throughput(const struct cs_metrics *metrics, const struct cs_study *study)
{
    (void)study;
    return metrics->tokens_per_s;
}

static double step_time(const struct cs_metrics *metrics, const struct cs_study *study)
{
    (void)study;
    return metrics->iteration_s;
}

static double tokens_per_cost(const struct cs_metrics *metrics, const struct cs_study *study)
{
    return metrics->tokens_per_s * 3600 / (study->platform.n_devices * study->search.device_hour_cost);
}

/* Every device at its maximum: an upper limit of what the devices take, which is what a site provides for. */
static double energy_per_token(const struct cs_metrics *metrics, const struct cs_study *study)
{
    double power_w = 0;
    for (int32_t i = 0; i < study->platform.n_devices; i++) {
        power_w += study->platform.devices[i].chip->max_power_w;
    }
    return power_w / metrics->tokens_per_s;
}

static double peak_memory(const struct cs_metrics *metrics, const struct cs_study *study)
{
    (void)study;
    return (double)metrics->peak_memory_bytes;
}

const struct cs_objective cs_objectives[] = {
    {"throughput", "tokens per second", true, true, throughput},
    {"step_time", "time of one training step", false, true, step_time},
    {"tokens_per_cost", "tokens per unit of money, at the study's device_hour_cost", true, true,
     tokens_per_cost},
    {"energy_per_token", "joule per token with every device at its maximal power", false, true,
     energy_per_token},
    {"peak_memory", "memory of the fullest device", false, false, peak_memory},
    {NULL, NULL, false, false, NULL},
};

const struct cs_searcher *const cs_searchers[] = {&cs__searcher_exhaustive,   &cs__searcher_bayes,
                                                  &cs__searcher_evolutionary, &cs__searcher_random,
                                                  &cs__searcher_enumerate,    NULL};

double cs_objective_score(const struct cs_objective *objective, const struct cs_metrics *metrics,
                          const struct cs_study *study)
{
    double value = objective->value(metrics, study);
    return objective->higher_is_better ? value : -value;
}

void cs__metrics_hope(struct cs_metrics *metrics, const struct cs_study *study, double time_s,
                      int64_t peak_memory_bytes)
{
    const struct cs_training *training = &study->training;
    memset(metrics, 0, sizeof *metrics);
    metrics->iteration_s = time_s;
    metrics->tokens_per_s = (double)training->global_batch * (double)training->seq_length / time_s;
    metrics->peak_memory_bytes = peak_memory_bytes;
    metrics->n_ranks = study->platform.n_devices;
}

int cs__ranked_compare(const void *a, const void *b)
{
    const struct cs_ranked *x = a;
    const struct cs_ranked *y = b;
    const double faster_s = y->metrics.iteration_s - x->metrics.iteration_s;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    if (faster_s > 0 || faster_s < 0) {
        return faster_s > 0 ? -1 : 1;
    }
    if (x->metrics.peak_memory_bytes != y->metrics.peak_memory_bytes) {
        return x->metrics.peak_memory_bytes < y->metrics.peak_memory_bytes ? -1 : 1;
    }
    if (x->candidate != y->candidate) {
        return x->candidate < y->candidate ? -1 : 1;
    }
    return x->algorithm_set - y->algorithm_set;
}

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
