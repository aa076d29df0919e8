#include "cs/base/text.h"
#include "cs/base/units.h"
#include "cs/reports/svg.h"
#include "cs/reports/sweep.h"

#include <math.h>
#include <string.h>

/* "8 nodes" as words for a point's value on an axis. */
static void add_value(struct cs_strbuf *text, const struct cs_sweep_axis *axis, int32_t value)
{
    for (int32_t k = 0; k < axis->n_keys; k++) {
        const char *dot = strrchr(axis->keys[k], '.');
        cs_strbuf_addf(text, "%s%s %s", text->len > 0 ? ", " : "", dot ? dot + 1 : axis->keys[k],
                       axis->values[value * axis->n_keys + k]);
    }
}

/* A number that an axis can be drawn to scale with. */
static bool number(const char *text, double *value)
{
    return cs_real_parse(text, "value", CS_NOLOC, value, NULL) == CS_OK;
}

static bool all_numbers(const struct cs_sweep_axis *axis)
{
    double value = 0;
    double last = -INFINITY;
    for (int32_t i = 0; i < axis->n; i++) {
        if (!number(axis->values[i * axis->n_keys], &value) || !(value > last)) {
            return false;
        }
        last = value;
    }
    return true;
}

/* The points of one combination of the other axes. */
static struct cs_chart_series series_of(struct cs_arena *arena, const struct cs_sweep_report *report,
                                        int32_t first, int32_t stride, bool numbers)
{
    const struct cs_sweep *sweep = report->sweep;
    const struct cs_sweep_axis *axis = &sweep->axes[0];
    double *x = CS_ARENA_NEW(arena, double, axis->n);
    double *y = CS_ARENA_NEW(arena, double, axis->n);
    const char **tips = CS_ARENA_NEW(arena, const char *, axis->n);
    struct cs_strbuf name = {0};
    for (int32_t a = 1; a < sweep->n_axes; a++) {
        add_value(&name, &sweep->axes[a], cs_sweep_value(sweep, first, a));
    }
    for (int32_t i = 0; i < axis->n; i++) {
        const struct cs_point *point = &report->points[first + i * stride];
        char strategy[CS_STRATEGY_TEXT_MAX];
        x[i] = i;
        if (numbers) {
            (void)number(axis->values[i * axis->n_keys], &x[i]);
        }
        y[i] = (double)NAN;
        if (point->outcome == CS_OUTCOME_OK) {
            y[i] = point->metrics.tokens_per_s / point->n_devices;
            tips[i] = cs_arena_printf(arena, "%s: %.1f tokens/s a device, %s", axis->values[i * axis->n_keys],
                                      y[i], cs_strategy_format(&point->strategy, strategy, sizeof strategy));
        }
    }
    struct cs_chart_series series = {cs_arena_strdup(arena, cs_strbuf_str(&name)), axis->n, x, y, tips};
    cs_strbuf_release(&name);
    return series;
}

void cs_report_sweep_svg(FILE *out, const struct cs_sweep_report *report)
{
    static const struct cs_sweep_axis nothing = {.n_keys = 1, .keys = {"study"}, .n = 1};
    const struct cs_sweep *sweep = report->sweep;
    const struct cs_sweep_axis *axis = sweep->n_axes > 0 ? &sweep->axes[0] : &nothing;
    struct cs_arena arena = {0};
    int32_t n_series = cs_sweep_n_points(sweep) / axis->n;
    struct cs_chart_series *series = CS_ARENA_NEW(&arena, struct cs_chart_series, n_series);
    const char **labels = CS_ARENA_NEW(&arena, const char *, axis->n);
    bool numbers = sweep->n_axes > 0 && all_numbers(axis);
    for (int32_t s = 0; s < n_series && sweep->n_axes > 0; s++) {
        series[s] = series_of(&arena, report, s, n_series, numbers);
    }
    for (int32_t i = 0; i < axis->n && axis->values; i++) {
        labels[i] = axis->values[i * axis->n_keys];
    }
    struct cs_chart chart = {
        .title = cs_arena_printf(&arena, "%s%s%s strategy over %s", report->study ? report->study : "",
                                 report->study ? ": " : "", sweep->strategy ? "one" : "best", axis->keys[0]),
        .x_title = axis->keys[0],
        .y_title = "tokens/s a device",
        .x_labels = numbers ? NULL : labels,
        .n_x_labels = numbers || !axis->values ? 0 : axis->n,
        .n_series = sweep->n_axes > 0 ? n_series : 0,
        .series = series};
    cs_chart_svg(out, &chart);
    cs_arena_release(&arena);
}
