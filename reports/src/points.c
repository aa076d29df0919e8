#include "cs/reports/points.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Figures of a point's metrics that reports show, by their names in JSON. */
static const struct {
    const char *key;
    size_t offset;
} figures[] = {
    {"iteration_time_s", offsetof(struct cs_metrics, iteration_s)},
    {"tokens_per_s", offsetof(struct cs_metrics, tokens_per_s)},
    {"tflops_per_device", offsetof(struct cs_metrics, tflops_per_device)},
    {"mfu", offsetof(struct cs_metrics, mfu_frac)},
    {"hfu", offsetof(struct cs_metrics, hfu_frac)},
    {"bubble_fraction", offsetof(struct cs_metrics, bubble_frac)},
    {"comm_fraction", offsetof(struct cs_metrics, comm_frac)},
    {"exposed_comm_fraction", offsetof(struct cs_metrics, exposed_comm_frac)},
    {"cross_node_comm_fraction", offsetof(struct cs_metrics, cross_node_comm_frac)},
};

static double *figure(struct cs_metrics *metrics, int32_t at)
{
    return (double *)(void *)((char *)metrics + figures[at].offset);
}

static double figure_value(const struct cs_point *point, int32_t at)
{
    struct cs_metrics metrics = point->metrics;
    return point->simulated ? *figure(&metrics, at) : (double)NAN;
}

static double per_device(const struct cs_point *point)
{
    return point->simulated ? point->metrics.tokens_per_s / point->n_devices : (double)NAN;
}

json_t *cs_report_point_json(const struct cs_point *point)
{
    json_t *object = json_object();
    json_t *upgrades = json_object();
    int32_t best = cs_point_best_upgrade(point);
    json_t *reason = json_string(point->reason);
    (void)json_object_set_new(object, "status", json_string(cs_outcome_names[point->outcome]));
    (void)json_object_set_new(object, "reason", reason ? reason : json_string("")); /* not UTF-8 */
    (void)json_object_set_new(object, "devices", json_integer(point->n_devices));
    (void)json_object_set_new(object, "nodes", json_integer(point->n_nodes));
    (void)json_object_set_new(object, "global_batch", cs_json_real(point->global_batch));
    (void)json_object_set_new(object, "candidates", json_integer(point->n_candidates));
    (void)json_object_set_new(object, "simulated", json_integer(point->n_simulated));
    (void)json_object_set_new(object, "complete", json_boolean(point->complete));
    (void)json_object_set_new(object, "remembered", json_boolean(point->remembered));
    (void)json_object_set_new(object, "strategy",
                              point->simulated ? cs_report_strategy_json(&point->strategy) : json_null());
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        (void)json_object_set_new(object, figures[i].key, cs_json_real(figure_value(point, i)));
    }
    (void)json_object_set_new(object, "tokens_per_s_per_device", cs_json_real(per_device(point)));
    (void)json_object_set_new(object, "peak_memory_bytes", json_integer(point->metrics.peak_memory_bytes));
    (void)json_object_set_new(object, "limited_by", json_string(point->metrics.limited_by));
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        (void)json_object_set_new(upgrades, cs_upgrade_names[u], cs_json_real(point->gain_frac[u]));
    }
    (void)json_object_set_new(object, "upgrade_gain_fraction", upgrades);
    (void)json_object_set_new(object, "best_upgrade",
                              best >= 0 ? json_string(cs_upgrade_names[best]) : json_null());
    if (point->gain_reason[0]) {
        (void)json_object_set_new(object, "upgrade_reason", json_string(point->gain_reason));
    }
    return object;
}

static void copy_text(char *to, size_t to_bytes, const json_t *from)
{
    const char *text = json_string_value(from);
    (void)snprintf(to, to_bytes, "%s", text ? text : "");
}

static double real_or_nan(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* {"dp": 8, ...} */
static bool read_strategy(const json_t *json, struct cs_strategy *strategy)
{
    cs_strategy_init(strategy);
    for (int32_t key = 0; key < CS_N_KEYS + CS_N_LISTS; key++) {
        const json_t *value = json_object_get(json, cs_strategy_keys[key]);
        char number[32];
        const char *text = json_string_value(value);
        if (json_is_integer(value)) {
            (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
            text = number;
        } else if (json_is_boolean(value)) {
            text = json_is_true(value) ? "true" : "false";
        }
        if (!value && key > CS_KEY_USUAL_LAST) {
            continue;
        }
        if (!text || cs_strategy_set(strategy, cs_strategy_keys[key], text, CS_NOLOC, NULL) != CS_OK) {
            return false;
        }
    }
    return true;
}

bool cs_report_point_read(const json_t *json, struct cs_point *point)
{
    const json_t *upgrades = json_object_get(json, "upgrade_gain_fraction");
    const char *status = json_string_value(json_object_get(json, "status"));
    int32_t outcome = 0;
    memset(point, 0, sizeof *point);
    while (outcome < CS_N_OUTCOMES && (!status || strcmp(status, cs_outcome_names[outcome]) != 0)) {
        outcome++;
    }
    if (outcome == CS_N_OUTCOMES || !json_is_integer(json_object_get(json, "devices"))) {
        return false;
    }
    point->outcome = (enum cs_outcome)outcome;
    copy_text(point->reason, sizeof point->reason, json_object_get(json, "reason"));
    point->n_devices = (int32_t)json_integer_value(json_object_get(json, "devices"));
    point->n_nodes = (int32_t)json_integer_value(json_object_get(json, "nodes"));
    point->global_batch = real_or_nan(json_object_get(json, "global_batch"));
    point->n_candidates = json_integer_value(json_object_get(json, "candidates"));
    point->n_simulated = json_integer_value(json_object_get(json, "simulated"));
    point->complete = json_is_true(json_object_get(json, "complete"));
    point->simulated = json_is_object(json_object_get(json, "strategy"));
    if (point->simulated && !read_strategy(json_object_get(json, "strategy"), &point->strategy)) {
        return false;
    }
    for (int32_t i = 0; i < CS_COUNT(figures) && point->simulated; i++) {
        *figure(&point->metrics, i) = real_or_nan(json_object_get(json, figures[i].key));
    }
    point->metrics.peak_memory_bytes = json_integer_value(json_object_get(json, "peak_memory_bytes"));
    copy_text(point->metrics.limited_by, sizeof point->metrics.limited_by,
              json_object_get(json, "limited_by"));
    copy_text(point->gain_reason, sizeof point->gain_reason, json_object_get(json, "upgrade_reason"));
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        point->gain_frac[u] = real_or_nan(json_object_get(upgrades, cs_upgrade_names[u]));
    }
    return true;
}

void cs_report_csv_text(FILE *out, const char *text)
{
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    if (quote) {
        (void)fputc('"', out);
    }
    for (const char *c = text; *c; c++) {
        if (*c == '"') {
            (void)fputc('"', out);
        }
        (void)fputc(*c, out);
    }
    if (quote) {
        (void)fputc('"', out);
    }
}

void cs_report_point_csv_head(FILE *out)
{
    (void)fputs("status,reason,devices,nodes,candidates,simulated,complete,strategy", out);
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        (void)fprintf(out, ",%s", figures[i].key);
    }
    (void)fputs(",tokens_per_s_per_device,peak_memory_bytes", out);
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        (void)fprintf(out, ",%s_gain_fraction", cs_upgrade_names[u]);
    }
    (void)fputs(",best_upgrade", out);
}

static void csv_real(FILE *out, double value)
{
    (void)fputc(',', out);
    if (isfinite(value)) {
        (void)fprintf(out, "%.9g", value);
    }
}

void cs_report_point_csv(FILE *out, const struct cs_point *point)
{
    char strategy[CS_STRATEGY_TEXT_MAX] = "";
    int32_t best = cs_point_best_upgrade(point);
    if (point->simulated) {
        (void)cs_strategy_format(&point->strategy, strategy, sizeof strategy);
    }
    (void)fprintf(out, "%s,", cs_outcome_names[point->outcome]);
    cs_report_csv_text(out, point->reason);
    (void)fprintf(out, ",%d,%d,%lld,%lld,%s,", (int)point->n_devices, (int)point->n_nodes,
                  (long long)point->n_candidates, (long long)point->n_simulated,
                  point->complete ? "true" : "false");
    cs_report_csv_text(out, strategy);
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        csv_real(out, figure_value(point, i));
    }
    csv_real(out, per_device(point));
    (void)fputc(',', out);
    if (point->simulated) {
        (void)fprintf(out, "%lld", (long long)point->metrics.peak_memory_bytes);
    }
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        csv_real(out, point->gain_frac[u]);
    }
    (void)fprintf(out, ",%s", best >= 0 ? cs_upgrade_names[best] : "");
}
