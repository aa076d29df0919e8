/**
 * @file plan.h
 * A capacity plan as text, JSON, CSV and chart.
 */
#ifndef CS_REPORTS_PLAN_H
#define CS_REPORTS_PLAN_H

#include "cs/reports/points.h"
#include "cs/strategies/plan.h"

/** What a plan says. Borrowed. */
struct cs_plan_report {
    const char *study; /* name or file, NULL = none */
    const struct cs_plan *plan;
    const struct cs_point *points;
    const struct cs_plan_answer *answer;
};

/** A table a family from small to large, notes, then the smallest and the cheapest cluster that meet it. */
void cs_report_plan_text(FILE *out, const struct cs_plan_report *report, bool color);
/** {"tokens", "deadline_s", ..., "clusters": [...], "smallest": index, "cheapest": index}. New reference. */
json_t *cs_report_plan_json(const struct cs_plan_report *report, const struct cs_report_origin *origin);
void cs_report_plan_csv(FILE *out, const struct cs_plan_report *report);
/** Scaling efficiency over devices, a line a family. */
void cs_report_plan_svg(FILE *out, const struct cs_plan_report *report);

#endif
