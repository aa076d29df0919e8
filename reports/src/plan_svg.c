#include "cs/reports/plan.h"
#include "cs/reports/svg.h"

#include <math.h>

#define SECONDS_PER_DAY 86400.0

/* The clusters of one family from `first` on. */
static struct cs_chart_series series_of(struct cs_arena *arena, const struct cs_plan_report *report,
                                        int32_t first)
{
    const struct cs_plan *plan = report->plan;
    int32_t n = 0;
    while (first + n < plan->n_clusters &&
           plan->clusters[first + n].family_idx == plan->clusters[first].family_idx) {
        n++;
    }
    double *x = CS_ARENA_NEW(arena, double, n);
    double *y = CS_ARENA_NEW(arena, double, n);
    const char **tips = CS_ARENA_NEW(arena, const char *, n);
    int32_t kept = 0;
    for (int32_t i = first; i < first + n; i++) {
        const struct cs_plan_row *row = &report->answer->rows[i];
        if (report->points[i].n_devices <= 0) {
            continue; /* refused: no place on the axis */
        }
        x[kept] = report->points[i].n_devices;
        y[kept] = row->works ? 100 * row->efficiency_frac : (double)NAN;
        tips[kept++] =
            row->never ? "never done"
            : row->works
                ? cs_arena_printf(arena, "%d devices: %.1f %%, %.4g days", (int)report->points[i].n_devices,
                                  100 * row->efficiency_frac, row->time_s / SECONDS_PER_DAY)
                : NULL;
    }
    return (struct cs_chart_series){plan->clusters[first].family, kept, x, y, tips};
}

void cs_report_plan_svg(FILE *out, const struct cs_plan_report *report)
{
    const struct cs_plan *plan = report->plan;
    struct cs_arena arena = {0};
    struct cs_chart_series *series = CS_ARENA_NEW(&arena, struct cs_chart_series, plan->n_clusters + 1);
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_clusters; i++) {
        if (i == 0 || plan->clusters[i].family_idx != plan->clusters[i - 1].family_idx) {
            series[n++] = series_of(&arena, report, i);
        }
    }
    struct cs_chart chart = {.title = cs_arena_printf(&arena, "%s%sscaling efficiency",
                                                      report->study ? report->study : "",
                                                      report->study ? ": " : ""),
                             .x_title = "devices",
                             .y_title = "% of the smallest cluster's tokens/s a device",
                             .n_series = n,
                             .series = series};
    cs_chart_svg(out, &chart);
    cs_arena_release(&arena);
}
