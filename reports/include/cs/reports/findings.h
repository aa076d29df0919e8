/**
 * @file findings.h
 * What a planner should be told about a result besides its figures.
 */
#ifndef CS_REPORTS_FINDINGS_H
#define CS_REPORTS_FINDINGS_H

#include "cs/strategies/search.h"

/** Share of the step above which communication is worth a warning. */
#define CS_REPORT_COMM_WARNING_FRAC 0.3

/** One line without full stop. */
typedef void (*cs_finding_fn)(void *context, const char *text);

/** Every warning about one simulated result, in a fixed order: communication above
 *  CS_REPORT_COMM_WARNING_FRAC, tensor parallelism across nodes, checks that did not hold. */
void cs_report_warnings(const struct cs_strategy *strategy, const struct cs_evaluation *evaluation,
                        const struct cs_study *study, cs_finding_fn add, void *context);

/** The evaluation that a ranked result stands for. */
void cs_report_ranked_evaluation(const struct cs_ranked *ranked, struct cs_evaluation *evaluation);

/** Median of the ranking's tokens per second, 0 when it is empty; what a strategy picked without a search
 *  can expect. @return tokens per second. Cost O(n log n). */
double cs_report_median_tokens_per_s(const struct cs_search_result *result);

#endif
