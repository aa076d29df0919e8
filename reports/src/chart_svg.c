/* Line charts. */
#include "cs/base/mem.h"
#include "cs/reports/svg.h"

#include <math.h>

enum { WIDTH = 760, HEIGHT = 420, LEFT = 90, RIGHT = 30, TOP = 50, BOTTOM = 60, LEGEND_LINE = 16 };

struct scale {
    double low, high; /* of the data, after log */
    double from, to;  /* pixels */
    bool log;
};

static double place(const struct scale *scale, double value)
{
    double at = scale->log ? log(value) : value;
    double span = scale->high - scale->low;
    return scale->from + (span > 0 ? (at - scale->low) / span : 0.5) * (scale->to - scale->from);
}

/* 1, 2 or 5 times a power of ten, at most `steps` of which reach `high`. */
static double round_step(double high, int steps)
{
    double step = pow(10, floor(log10(high / steps)));
    while (high / step > steps) {
        double digit = step / pow(10, floor(log10(step) + 1e-9));
        step *= digit > 1.5 && digit < 3 ? 2.5 : 2;
    }
    return step;
}

/* "12,300" is too wide for large numbers: "12.3k", "1.2M" */
static void number_text(double value, char *buf, size_t buf_bytes)
{
    static const struct {
        double unit;
        const char *suffix;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (int32_t i = 0; i < CS_COUNT(units); i++) {
        if (value >= 10 * units[i].unit || (i > 0 && value >= units[i].unit && value >= 1e4)) {
            (void)snprintf(buf, buf_bytes, "%.4g%s", value / units[i].unit, units[i].suffix);
            return;
        }
    }
    (void)snprintf(buf, buf_bytes, "%.4g", value);
}

static void find_scales(const struct cs_chart *chart, int32_t bottom, struct scale *x, struct scale *y)
{
    double x_low = INFINITY;
    double x_high = -INFINITY;
    double y_high = 0;
    for (int32_t s = 0; s < chart->n_series; s++) {
        for (int32_t i = 0; i < chart->series[s].n; i++) {
            x_low = fmin(x_low, chart->series[s].x[i]);
            x_high = fmax(x_high, chart->series[s].x[i]);
            y_high = fmax(y_high, chart->series[s].y[i]); /* fmax leaves NaN out */
        }
    }
    if (!(x_low <= x_high)) {
        x_low = x_high = 0;
    }
    bool log_x = !chart->x_labels && x_low > 0 && x_high > 8 * x_low;
    *x = (struct scale){log_x ? log(x_low) : x_low, log_x ? log(x_high) : x_high, LEFT + 20, WIDTH - RIGHT,
                        log_x};
    double step = y_high > 0 ? round_step(y_high, 6) : 1;
    *y = (struct scale){0, y_high > 0 ? ceil(y_high / step - 1e-9) * step : 1, bottom, TOP, false};
}

static void draw_y_axis(struct cs_svg *svg, const struct cs_chart *chart, const struct scale *y)
{
    double step = round_step(y->high, 6);
    char text[32];
    for (int32_t i = 0; i * step <= y->high * (1 + 1e-9); i++) {
        double at = place(y, i * step);
        number_text(i * step, text, sizeof text);
        cs_svg_line(svg, "grid", LEFT, at, WIDTH - RIGHT, at);
        cs_svg_text(svg, "tick", LEFT - 6, at + 4, 1, text);
    }
    cs_svg_text(svg, "tick", 10, TOP - 10, -1, chart->y_title);
}

static void draw_x_axis(struct cs_svg *svg, const struct cs_chart *chart, const struct scale *x,
                        double bottom)
{
    char text[32];
    double last = -INFINITY;
    cs_svg_line(svg, "axis", LEFT, bottom, WIDTH - RIGHT, bottom);
    for (int32_t i = 0; i < chart->n_x_labels && chart->x_labels; i++) {
        cs_svg_text(svg, "tick", place(x, i), bottom + 18, 0, chart->x_labels[i]);
    }
    for (int32_t s = 0; s < chart->n_series && !chart->x_labels; s++) {
        for (int32_t i = 0; i < chart->series[s].n; i++) { /* the values themselves, where there is room */
            double at = place(x, chart->series[s].x[i]);
            if (s == 0 && at - last >= 28) {
                number_text(chart->series[s].x[i], text, sizeof text);
                cs_svg_text(svg, "tick", at, bottom + 18, 0, text);
                last = at;
            }
        }
    }
    cs_svg_text(svg, "tick", (LEFT + WIDTH - RIGHT) / 2.0, bottom + 40, 0, chart->x_title);
}

static void draw_series(struct cs_svg *svg, const struct cs_chart_series *series, int32_t number,
                        const struct scale *x, const struct scale *y)
{
    char class[8];
    (void)snprintf(class, sizeof class, "s%d", (int)(number % CS_CHART_SERIES_MAX));
    for (int32_t i = 0; i + 1 < series->n; i++) {
        if (!isnan(series->y[i]) && !isnan(series->y[i + 1])) {
            cs_svg_line(svg, class, place(x, series->x[i]), place(y, series->y[i]),
                        place(x, series->x[i + 1]), place(y, series->y[i + 1]));
        }
    }
    for (int32_t i = 0; i < series->n; i++) {
        if (!isnan(series->y[i])) {
            cs_svg_dot(svg, class, place(x, series->x[i]), place(y, series->y[i]),
                       series->tips ? series->tips[i] : NULL);
        }
    }
}

void cs_chart_svg(FILE *out, const struct cs_chart *chart)
{
    struct cs_svg svg;
    struct scale x;
    struct scale y;
    char class[8];
    int32_t n_legend = chart->n_series > 1 ? chart->n_series : 0;
    int32_t bottom = HEIGHT - BOTTOM;
    cs_svg_begin(&svg, out, WIDTH, HEIGHT + n_legend * LEGEND_LINE, chart->title);
    cs_svg_text(&svg, "title", LEFT, 22, -1, chart->title);
    find_scales(chart, bottom, &x, &y);
    draw_y_axis(&svg, chart, &y);
    draw_x_axis(&svg, chart, &x, bottom);
    for (int32_t s = 0; s < chart->n_series; s++) {
        draw_series(&svg, &chart->series[s], s, &x, &y);
    }
    for (int32_t s = 0; s < n_legend; s++) {
        (void)snprintf(class, sizeof class, "s%d", (int)(s % CS_CHART_SERIES_MAX));
        cs_svg_dot(&svg, class, LEFT, HEIGHT + s * LEGEND_LINE - 8, NULL);
        cs_svg_text(&svg, "legend", LEFT + 12, HEIGHT + s * LEGEND_LINE - 4, -1, chart->series[s].name);
    }
    cs_svg_end(&svg);
}
