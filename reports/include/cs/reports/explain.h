/**
 * @file explain.h
 * The explanation of a search's winner, for people and for programs.
 */
#ifndef CS_REPORTS_EXPLAIN_H
#define CS_REPORTS_EXPLAIN_H

#include "cs/base/json.h"
#include "cs/reports/table.h"
#include "cs/strategies/explain.h"

/** Text under the table of a search. Write errors stay on the stream. */
void cs_report_explain_text(FILE *out, const struct cs_search_report *report,
                            const struct cs_explanation *explanation, bool color);
/** {"critical_path", "neighbours", "robustness", "ties", "pareto", "baseline"}. New reference. */
json_t *cs_report_explain_json(const struct cs_search_report *report,
                               const struct cs_explanation *explanation);

#endif
