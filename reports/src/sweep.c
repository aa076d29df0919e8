#include "cs/reports/sweep.h"

#include "grid_priv.h"
#include "text_priv.h"

#include "cs/base/units.h"

#include <math.h>
#include <string.h>

/* "platform.nodes" -> "nodes" */
static const char *short_key(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

static const char *value_of(const struct cs_sweep_report *report, int32_t point, int32_t axis, int32_t key)
{
    const struct cs_sweep_axis *a = &report->sweep->axes[axis];
    return a->values[cs_sweep_value(report->sweep, point, axis) * a->n_keys + key];
}

static void add_columns(struct cs__grid *grid, const struct cs_sweep_report *report, bool with_strategy)
{
    static const char *const figures[][2] = {
        {"", "devices"}, {"", "tokens/s"},    {"per", "device"},  {"", "MFU"},
        {"", "bubble"},  {"exposed", "comm"}, {"peak", "memory"}, {"best +10 %", "upgrade"}};
    for (int32_t a = 0; a < report->sweep->n_axes; a++) {
        for (int32_t k = 0; k < report->sweep->axes[a].n_keys; k++) {
            (void)cs__grid_column(grid, "", short_key(report->sweep->axes[a].keys[k]), false,
                                  a + k == 0 ? 0 : 1);
        }
    }
    for (int32_t i = 0; i < CS_COUNT(figures) - (report->sweep->upgrades ? 0 : 1); i++) {
        (void)cs__grid_column(grid, figures[i][0], figures[i][1], false, i == 0 ? 2 : 1);
    }
    (void)cs__grid_column(grid, "", with_strategy ? "strategy" : "", true, 2);
}

static const char *upgrade_text(const struct cs_point *point, char *buf, size_t buf_bytes)
{
    static const char *const names[] = {"compute", "memory", "intra", "inter", "latency"};
    int32_t best = cs_point_best_upgrade(point);
    if (best < 0) {
        return "none";
    }
    (void)snprintf(buf, buf_bytes, "%s +%.1f%%", names[best], 100 * point->gain_frac[best]);
    return buf;
}

/* What happened instead of figures: one line, clipped. */
static void add_failure(struct cs__grid *grid, int32_t column, const struct cs_sweep_report *report,
                        const struct cs_point *point)
{
    static const char *const words[] = {"not reached", "", "nothing fits", "refused", "failed"};
    int32_t n_figures = report->sweep->upgrades ? 8 : 7;
    if (point->n_devices > 0) {
        cs__grid_cell(grid, column, "%d", (int)point->n_devices);
    }
    for (int32_t i = point->n_devices > 0 ? 1 : 0; i < n_figures; i++) {
        cs__grid_cell(grid, column + i, "-");
    }
    cs__grid_cell(grid, column + n_figures, "%s", words[point->outcome]);
}

static void add_point(struct cs__grid *grid, int32_t column, const struct cs_sweep_report *report,
                      const struct cs_point *point, bool with_strategy)
{
    const struct cs_metrics *metrics = &point->metrics;
    char buf[192];
    cs__grid_cell(grid, column++, "%d", (int)point->n_devices);
    cs__grid_cell(grid, column++, "%s", cs__count((int64_t)(metrics->tokens_per_s + 0.5), buf, sizeof buf));
    cs__grid_cell(grid, column++, "%.1f", metrics->tokens_per_s / point->n_devices);
    cs__grid_cell(grid, column++, "%.1f%%", 100 * metrics->mfu_frac);
    cs__grid_cell(grid, column++, "%.1f%%", 100 * metrics->bubble_frac);
    cs__grid_cell(grid, column++, "%.1f%%", 100 * metrics->exposed_comm_frac);
    cs__grid_cell(grid, column++, "%s%s",
                  cs_units_format((double)metrics->peak_memory_bytes, CS_UNIT_BYTES, buf, sizeof buf),
                  point->outcome == CS_OUTCOME_OOM ? "!" : "");
    if (report->sweep->upgrades) {
        cs__grid_cell(grid, column++, "%s", upgrade_text(point, buf, sizeof buf));
    }
    if (with_strategy) {
        cs__grid_cell(grid, column, "%s", cs_strategy_format(&point->strategy, buf, sizeof buf));
    }
}

static void print_values(FILE *out, const struct cs_sweep_report *report, int32_t point)
{
    for (int32_t a = 0; a < report->sweep->n_axes; a++) {
        for (int32_t k = 0; k < report->sweep->axes[a].n_keys; k++) {
            (void)fprintf(out, "%s%s %s", a + k > 0 ? ", " : "", short_key(report->sweep->axes[a].keys[k]),
                          value_of(report, point, a, k));
        }
    }
}

static void print_reasons(FILE *out, const struct cs_sweep_report *report)
{
    int32_t n = cs_sweep_n_points(report->sweep);
    for (int32_t p = 0; p < n; p++) {
        const struct cs_point *point = &report->points[p];
        if (point->reason[0] && !(p > 0 && strcmp(point->reason, report->points[p - 1].reason) == 0)) {
            (void)fputs("  ", out);
            print_values(out, report, p);
            (void)fprintf(out, ": %s\n", point->reason);
        }
    }
}

static void axis_name(const struct cs_sweep_axis *axis, char *buf, size_t buf_bytes)
{
    size_t len = 0;
    buf[0] = '\0';
    for (int32_t k = 0; k < axis->n_keys && len < buf_bytes; k++) {
        len += (size_t)snprintf(buf + len, buf_bytes - len, "%s%s", k > 0 ? ", " : "", axis->keys[k]);
    }
}

/* Was the sweep finished, and by what does nothing change? */
static bool all_reached(const struct cs_sweep_report *report)
{
    int32_t n = cs_sweep_n_points(report->sweep);
    for (int32_t p = 0; p < n; p++) {
        if (report->points[p].outcome == CS_OUTCOME_OPEN) {
            return false;
        }
    }
    return true;
}

static void print_unchanged(FILE *out, const struct cs_sweep_report *report)
{
    char name[256];
    for (int32_t a = 0; a < report->sweep->n_axes; a++) {
        const struct cs_sweep_axis *axis = &report->sweep->axes[a];
        if (axis->n > 1 && all_reached(report) && !cs_sweep_axis_matters(report->sweep, report->points, a)) {
            axis_name(axis, name, sizeof name);
            (void)fprintf(out, "nothing changes with %s: the step takes as long with each of its values\n",
                          name);
        }
    }
}

static void print_best(FILE *out, const struct cs_sweep_report *report)
{
    static const char *const names[] = {"computing power", "memory bandwidth", "bandwidth inside nodes",
                                        "bandwidth between nodes", "lower latency"};
    int32_t best = cs_sweep_best(report->points, cs_sweep_n_points(report->sweep));
    if (best < 0) {
        (void)fputs("no point fits\n", out);
        return;
    }
    const struct cs_point *point = &report->points[best];
    int32_t upgrade = cs_point_best_upgrade(point);
    (void)fprintf(out, "best per device  %.1f tokens/s", point->metrics.tokens_per_s / point->n_devices);
    if (report->sweep->n_axes > 0) {
        (void)fputs(" at ", out);
        print_values(out, report, best);
    }
    (void)fputc('\n', out);
    if (!report->sweep->upgrades) {
        return;
    }
    if (upgrade < 0) {
        (void)fprintf(out, "most valuable upgrade there  none is known%s%s\n",
                      point->gain_reason[0] ? ": " : "", point->gain_reason);
        return;
    }
    (void)fprintf(out, "most valuable upgrade there  10 %% more %s: %.1f %% more tokens/s\n", names[upgrade],
                  100 * point->gain_frac[upgrade]);
    const char *separator = "  others: ";
    for (int32_t u = 0; u < CS_N_UPGRADES; u++) {
        if (u != upgrade && !isnan(point->gain_frac[u])) {
            (void)fprintf(out, "%s%s %.1f %%", separator, names[u], 100 * point->gain_frac[u]);
            separator = ", ";
        }
    }
    (void)fputc('\n', out);
}

static void fill(struct cs__grid *grid, const struct cs_sweep_report *report, bool with_strategy)
{
    int32_t n = cs_sweep_n_points(report->sweep);
    add_columns(grid, report, with_strategy);
    for (int32_t p = 0; p < n; p++) {
        int32_t column = 0;
        cs__grid_row(grid);
        for (int32_t a = 0; a < report->sweep->n_axes; a++) {
            for (int32_t k = 0; k < report->sweep->axes[a].n_keys; k++) {
                cs__grid_cell(grid, column++, "%s", value_of(report, p, a, k));
            }
        }
        if (report->points[p].simulated) {
            add_point(grid, column, report, &report->points[p], with_strategy);
        } else {
            add_failure(grid, column, report, &report->points[p]);
        }
    }
}

/* One line for neighbours that have the same. */
static void print_strategies(FILE *out, const struct cs_sweep_report *report)
{
    int32_t n = cs_sweep_n_points(report->sweep);
    char strategy[CS_STRATEGY_TEXT_MAX];
    (void)fputs("strategies from each point on\n", out);
    for (int32_t p = 0; p < n; p++) {
        const struct cs_point *point = &report->points[p];
        const struct cs_point *before = p > 0 ? &report->points[p - 1] : NULL;
        if (!point->simulated ||
            (before && before->simulated && cs_strategy_equal(&point->strategy, &before->strategy))) {
            continue;
        }
        (void)fputs("  ", out);
        print_values(out, report, p);
        (void)fprintf(out, ": %s\n", cs_strategy_format(&point->strategy, strategy, sizeof strategy));
    }
    (void)fputc('\n', out);
}

void cs_report_sweep_text(FILE *out, const struct cs_sweep_report *report, bool color)
{
    struct cs__grid grid = {0};
    struct cs__grid narrow = {0};
    int32_t n = cs_sweep_n_points(report->sweep);
    int32_t n_remembered = 0;
    for (int32_t p = 0; p < n; p++) {
        n_remembered += report->points[p].remembered;
    }
    (void)fprintf(out, "%d point%s, %s%s", (int)n, n == 1 ? "" : "s",
                  report->sweep->strategy ? "each with this strategy: " : "each with its best strategy",
                  report->sweep->strategy ? report->sweep->strategy : "");
    if (n_remembered > 0) {
        (void)fprintf(out, "; %d remembered", (int)n_remembered);
    }
    (void)fputs("\n\n", out);
    fill(&grid, report, true);
    bool wide = cs__grid_width(&grid) > CS_REPORT_COLUMNS;
    if (wide) {
        fill(&narrow, report, false);
    }
    cs__grid_print(wide ? &narrow : &grid, out, color);
    (void)fputc('\n', out);
    if (wide) {
        print_strategies(out, report);
    }
    cs__grid_release(&grid);
    cs__grid_release(&narrow);
    print_reasons(out, report);
    print_unchanged(out, report);
    print_best(out, report);
}

/* ---- JSON, CSV ---- */

json_t *cs_report_sweep_json(const struct cs_sweep_report *report, const struct cs_report_origin *origin)
{
    const struct cs_sweep *sweep = report->sweep;
    int32_t n = cs_sweep_n_points(sweep);
    int32_t best = cs_sweep_best(report->points, n);
    json_t *axes = json_array();
    json_t *points = json_array();
    json_t *unchanged = json_array();
    for (int32_t a = 0; a < sweep->n_axes; a++) {
        const struct cs_sweep_axis *axis = &sweep->axes[a];
        json_t *keys = json_array();
        for (int32_t k = 0; k < axis->n_keys; k++) {
            (void)json_array_append_new(keys, json_string(axis->keys[k]));
        }
        bool matters = axis->n <= 1 || cs_sweep_axis_matters(sweep, report->points, a);
        for (int32_t k = 0; k < axis->n_keys && !matters && all_reached(report); k++) {
            (void)json_array_append_new(unchanged, json_string(axis->keys[k]));
        }
        (void)json_array_append_new(axes, json_pack("{s:o, s:i}", "keys", keys, "values", (int)axis->n));
    }
    for (int32_t p = 0; p < n; p++) {
        json_t *point = cs_report_point_json(&report->points[p]);
        json_t *values = json_object();
        for (int32_t a = 0; a < sweep->n_axes; a++) {
            for (int32_t k = 0; k < sweep->axes[a].n_keys; k++) {
                (void)json_object_set_new(values, sweep->axes[a].keys[k],
                                          json_string(value_of(report, p, a, k)));
            }
        }
        (void)json_object_set_new(point, "values", values);
        (void)json_array_append_new(points, point);
    }
    json_t *object = json_object();
    (void)json_object_set_new(object, "axes", axes);
    (void)json_object_set_new(object, "fixed_strategy",
                              sweep->strategy ? json_string(sweep->strategy) : json_null());
    (void)json_object_set_new(object, "points", points);
    (void)json_object_set_new(object, "unchanged_by", unchanged);
    (void)json_object_set_new(object, "best", best >= 0 ? json_integer(best) : json_null());
    (void)json_object_set_new(object, "inputs",
                              json_pack("{s:s?, s:{s:s, s:s?, s:s}}", "study", report->study, "made_by",
                                        "program", "clustersim", "version", origin->version, "command",
                                        origin->command));
    return object;
}

void cs_report_sweep_csv(FILE *out, const struct cs_sweep_report *report)
{
    const struct cs_sweep *sweep = report->sweep;
    int32_t n = cs_sweep_n_points(sweep);
    for (int32_t p = -1; p < n; p++) { /* -1: the head */
        for (int32_t a = 0; a < sweep->n_axes; a++) {
            for (int32_t k = 0; k < sweep->axes[a].n_keys; k++) {
                cs_report_csv_text(out, p < 0 ? sweep->axes[a].keys[k] : value_of(report, p, a, k));
                (void)fputc(',', out);
            }
        }
        if (p < 0) {
            cs_report_point_csv_head(out);
        } else {
            cs_report_point_csv(out, &report->points[p]);
        }
        (void)fputc('\n', out);
    }
}
