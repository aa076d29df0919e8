/**
 * @file csv.h
 * Results for spreadsheets: comma-separated, one header line, decimal point, fields quoted where they must.
 */
#ifndef CS_REPORTS_CSV_H
#define CS_REPORTS_CSV_H

#include "cs/reports/table.h"

/** The `top` best of a search, one a line: rank, the strategy's keys, the figures under their JSON names. */
void cs_report_search_csv(FILE *out, const struct cs_search_report *report);
/** The step as MindStudio's cluster_step_trace_time.csv shows one, in microseconds: a line a rank. There a
 *  wait for a pipeline neighbour counts as communication (not overlapped), so Communication here is ours
 *  plus the bubble, and E2E = Computing + Communication(Not Overlapped) + Free. */
void cs_report_simulate_csv(FILE *out, const struct cs_simulate_report *report);

#endif
