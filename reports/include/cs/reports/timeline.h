/**
 * @file timeline.h
 * A step's timeline as Chrome trace-event JSON, which chrome://tracing and Perfetto open: a process a rank, a
 * thread a stream.
 */
#ifndef CS_REPORTS_TIMELINE_H
#define CS_REPORTS_TIMELINE_H

#include "cs/reports/json.h"

/** Write run->spans (in their order: rank, lane, start) as they come: no tree in memory. Times are
 *  microseconds with three decimals, rounded so that what touches in the simulation touches in the file.
 *  Cost O(spans). Write errors stay on the stream. */
void cs_report_timeline(FILE *out, const struct cs_simulate_report *report,
                        const struct cs_report_origin *origin);

#endif
