/**
 * @file json.h
 * Results for programs: the JSON of INTERFACE.md. Numbers that are not finite, or not known, are null.
 */
#ifndef CS_REPORTS_JSON_H
#define CS_REPORTS_JSON_H

#include "cs/base/json.h"
#include "cs/reports/table.h"

/** What made a file: written into it. Borrowed. */
struct cs_report_origin {
    const char *version; /* of the program */
    const char *command; /* subcommand */
};

/** Links that are listed with a simulation's result, busiest first. */
#define CS_REPORT_LINKS_MAX 10

/** {"dp": 16, ..., "placement": "mp,cp,dp,pp"}. New reference, as all below. */
json_t *cs_report_strategy_json(const struct cs_strategy *strategy);
/** One result: the keys of INTERFACE.md's `simulate`. */
json_t *cs_report_result_json(const struct cs_strategy *strategy, const struct cs_evaluation *evaluation,
                              const struct cs_study *study);
/** A simulation: its result, its critical path, its busiest links, the detours of dead ones and its inputs.
 */
json_t *cs_report_simulate_json(const struct cs_simulate_report *report,
                                const struct cs_report_origin *origin);
/** A strategy that breaks a rule, `reason`: status rejected, every figure null, its inputs. `warnings` is
 * there, empty. Both may be NULL: a configuration that is refused before they are known. */
json_t *cs_report_refused_json(const struct cs_strategy *strategy, const char *reason,
                               const struct cs_study *study, const struct cs_report_origin *origin);
/** A replayed trace: figures, checks, critical path, busiest links. */
json_t *cs_report_replay_json(const struct cs_replay_report *report, const struct cs_report_origin *origin);
/** A search: counts, reasons, the `top` best of the ranking, inputs. */
json_t *cs_report_search_json(const struct cs_search_report *report, const struct cs_report_origin *origin);
/** The space alone; the result is one of CS_SEARCH_LOOKS. */
json_t *cs_report_space_json(const struct cs_search_report *report, const struct cs_report_origin *origin);

#endif
