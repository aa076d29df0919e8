/**
 * @file sweep.h
 * A sweep as table, JSON, CSV and chart.
 */
#ifndef CS_REPORTS_SWEEP_H
#define CS_REPORTS_SWEEP_H

#include "cs/reports/points.h"
#include "cs/strategies/sweep.h"

/** What a sweep says. Borrowed. */
struct cs_sweep_report {
    const char *study; /* name or file, NULL = none */
    const struct cs_sweep *sweep;
    const struct cs_point *points; /* cs_sweep_n_points entries */
};

/** A row a point; then which axes change nothing, the best point and its most valuable upgrade. */
void cs_report_sweep_text(FILE *out, const struct cs_sweep_report *report, bool color);
/** {"axes": [...], "points": [{"values": {KEY: VALUE}, ...}], "unchanged_by": [...], "best": index}. New
 *  reference. */
json_t *cs_report_sweep_json(const struct cs_sweep_report *report, const struct cs_report_origin *origin);
/** The swept keys, then the columns of cs_report_point_csv_head. */
void cs_report_sweep_csv(FILE *out, const struct cs_sweep_report *report);
/** Tokens per second and device over the first axis, a line for each combination of the others; points that
 * do not fit are gaps. */
void cs_report_sweep_svg(FILE *out, const struct cs_sweep_report *report);

#endif
