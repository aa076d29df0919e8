/**
 * @file misrank.h
 * The closed form against the simulation over a space, for people and for programs.
 */
#ifndef CS_REPORTS_MISRANK_H
#define CS_REPORTS_MISRANK_H

#include "cs/base/json.h"
#include "cs/reports/table.h"
#include "cs/strategies/misrank.h"

/** Text under the table of a search. Write errors stay on the stream. */
void cs_report_misrank_text(FILE *out, const struct cs_search_report *report,
                            const struct cs_misrank *misrank);
/** {"strategies", "spearman", "mape", ..., "lacks": [...], "keys": [...], "worst": [...]}. New reference. */
json_t *cs_report_misrank_json(const struct cs_search_report *report, const struct cs_misrank *misrank);

#endif
