/**
 * @file svg.h
 * Small drawings as SVG: equal calls give equal bytes, so that a drawing can be compared with a stored one.
 */
#ifndef CS_REPORTS_SVG_H
#define CS_REPORTS_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** A drawing in the making: everything is written as it comes. Lengths are pixels. Write errors stay on the
 *  stream. */
struct cs_svg {
    FILE *out;
};

/** Begin: background, fonts, a title that screen readers and tooltips show. */
void cs_svg_begin(struct cs_svg *svg, FILE *out, int32_t width, int32_t height, const char *title);
void cs_svg_end(struct cs_svg *svg);
/** Lines and boxes; `class` is one of "axis", "grid", "box", "strong", "thin" or a series' ("s0" to "s7").
 *  @unit of coordinates: pixels. */
void cs_svg_line(struct cs_svg *svg, const char *class, double x1, double y1, double x2, double y2);
/** A box; `tip` (may be NULL) is shown over it. @unit of coordinates: pixels. */
void cs_svg_box(struct cs_svg *svg, const char *class, double x, double y, double width, double height,
                const char *tip);
/** A dot with a tooltip. @unit of coordinates: pixels. */
void cs_svg_dot(struct cs_svg *svg, const char *class, double x, double y, const char *tip);
/** Text; `anchor` is -1 (begins at x), 0 (centred), 1 (ends at x). @unit of coordinates: pixels. */
void cs_svg_text(struct cs_svg *svg, const char *class, double x, double y, int anchor, const char *text);

/** One line of a chart. */
struct cs_chart_series {
    const char *name;
    int32_t n;
    const double *x; /* @unit of the chart's x axis; positions 0, 1, ... when labels are given */
    const double *y; /* @unit of the chart's y axis; NaN = a gap */
    const char *const *tips;
};

/** A line chart. Borrowed. */
struct cs_chart {
    const char *title;
    const char *x_title;
    const char *y_title;
    const char *const *x_labels; /* NULL: x is a number */
    int32_t n_x_labels;
    int32_t n_series; /* more than CS_CHART_SERIES_MAX share colours */
    const struct cs_chart_series *series;
};
#define CS_CHART_SERIES_MAX 8

/** Draw: y from 0, x linear, or logarithmic when it spans more than a factor of 8. */
void cs_chart_svg(FILE *out, const struct cs_chart *chart);

#endif
