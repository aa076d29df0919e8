#include "cs/strategies/intervals.h"

#include "validate_priv.h"

#include "cs/base/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static const char *chip_of(const struct cs_case *c, const struct cs_testbed *bed)
{
    const struct cs_server *server = c->server ? cs_testbed_server(bed, c->server) : NULL;
    return server ? server->chip : NULL;
}

static bool belongs(const struct cs_case *c, double simulated_s, const struct cs_testbed *bed,
                    const char *chip, bool experts)
{
    const char *own = chip_of(c, bed);
    return c->kind == CS_CASE_TIME && isfinite(simulated_s) && own && strcmp(own, chip) == 0 &&
           (c->model.n_experts > 0) == experts;
}

void cs_intervals_find(struct cs_intervals *intervals, const struct cs_cases *cases,
                       const struct cs_testbed *bed, const double *simulated_s)
{
    double *ratio = cs_calloc((size_t)cases->n + 1, sizeof *ratio);
    intervals->items = CS_ARENA_NEW(&intervals->arena, struct cs_interval, 2 * bed->n_chips + 1);
    for (int32_t k = 0; k < 2 * bed->n_chips; k++) {
        const char *chip = bed->chips[k / 2].name;
        bool experts = k % 2 == 1;
        int32_t n = 0;
        for (int32_t i = 0; i < cases->n; i++) {
            if (belongs(&cases->items[i], simulated_s[i], bed, chip, experts)) {
                ratio[n++] = cases->items[i].measured_s / simulated_s[i];
            }
        }
        if (n >= CS_INTERVAL_RUNS_MIN) {
            qsort(ratio, (size_t)n, sizeof *ratio, compare_reals);
            intervals->items[intervals->n++] = (struct cs_interval){
                cs_arena_strdup(&intervals->arena, chip),
                experts,
                n,
                cs__quantile(ratio, n, 0.1),
                cs__quantile(ratio, n, 0.9),
            };
        }
    }
    cs_free(ratio);
}

void cs_intervals_write(const struct cs_intervals *intervals, FILE *out, const char *command)
{
    (void)fprintf(out,
                  "# Between which multiples of the simulated step 8 of 10 published runs lie, by chip.\n");
    (void)fprintf(out, "# Made by `%s`; do not edit.\n\nintervals:\n", command);
    for (int32_t i = 0; i < intervals->n; i++) {
        const struct cs_interval *item = &intervals->items[i];
        (void)fprintf(out, "  - {chip: %s, experts: %s, runs: %d, low: %.4f, high: %.4f}\n", item->chip,
                      item->experts ? "true" : "false", (int)item->n, item->low_frac, item->high_frac);
    }
    if (intervals->n == 0) {
        (void)fputs("  []\n", out);
    }
}

static cs_status read_one(struct cs_intervals *list, const struct cs_yaml_node *map, struct cs_err *err)
{
    static const char *const allowed[] = {"chip", "experts", "runs", "low", "high", NULL};
    cs_status st = CS_OK;
    struct cs_interval *item = &list->items[list->n];
    const struct cs_yaml_node *node = NULL;
    int64_t n = 0;
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "an interval", err));
    CS_TRY(cs_yaml_check_keys(map, allowed, "an interval", err));
    CS_TRY(cs_yaml_need(map, "chip", &node, err));
    item->chip = cs_arena_strdup(&list->arena, node->text);
    CS_TRY(cs_yaml_opt_bool(map, "experts", &item->experts, err));
    CS_TRY(cs_yaml_need(map, "runs", &node, err));
    CS_TRY(cs_yaml_int(node, 1, 1000000000, "runs", &n, err));
    item->n = (int32_t)n;
    CS_TRY(cs_yaml_need(map, "low", &node, err));
    CS_TRY(cs_yaml_real(node, 1e-3, 1e3, "low", &item->low_frac, err));
    CS_TRY(cs_yaml_need(map, "high", &node, err));
    CS_TRY(cs_yaml_real(node, item->low_frac, 1e3, "high", &item->high_frac, err));
    list->n++;
out:
    return st;
}

cs_status cs_intervals_load(struct cs_intervals *intervals, const char *path, struct cs_err *err)
{
    static const char *const allowed[] = {"intervals", NULL};
    cs_status st = CS_OK;
    struct cs_yaml yaml = {0};
    const struct cs_yaml_node *list = NULL;
    CS_TRY(cs_yaml_load_file(&yaml, path, err));
    CS_TRY(cs_yaml_want(yaml.root, CS_YAML_MAP, "a file of intervals", err));
    CS_TRY(cs_yaml_check_keys(yaml.root, allowed, "a file of intervals", err));
    CS_TRY(cs_yaml_need(yaml.root, "intervals", &list, err));
    CS_TRY(cs_yaml_want(list, CS_YAML_LIST, "intervals", err));
    intervals->items = CS_ARENA_NEW(&intervals->arena, struct cs_interval, list->n + 1);
    for (int32_t i = 0; i < list->n; i++) {
        CS_TRY(read_one(intervals, list->items[i], err));
    }
out:
    cs_yaml_release(&yaml);
    return st;
}

void cs_intervals_release(struct cs_intervals *intervals)
{
    cs_arena_release(&intervals->arena);
    *intervals = (struct cs_intervals){0};
}

const struct cs_interval *cs_intervals_of(const struct cs_intervals *intervals, const char *chip,
                                          bool experts)
{
    for (int32_t i = 0; i < intervals->n; i++) {
        const struct cs_interval *item = &intervals->items[i];
        if (item->experts == experts && strcmp(item->chip, chip) == 0) {
            return item;
        }
    }
    return NULL;
}
