/**
 * @file validate.h
 * Predictions against measurements, for people and programs; what calibration fitted.
 */
#ifndef CS_REPORTS_VALIDATE_H
#define CS_REPORTS_VALIDATE_H

#include "cs/reports/json.h"
#include "cs/strategies/calibrate.h"
#include "cs/strategies/collectives.h"
#include "cs/strategies/errors.h"

/** What a validation says. Borrowed. */
struct cs_validate_report {
    const char *path; /* of the cases */
    const struct cs_cases *cases;
    const struct cs_case_run *runs;
    const struct cs_errors *errors;
    const struct cs_calibration *calibration; /* NULL: figures are the catalogue's */
    const struct cs_errors *held_out;         /* errors of predictions without a case's own group, or NULL */
    const struct cs_errors *folds;            /* likewise without a random part of the cases, or NULL */
    const struct cs_link_fits *links;         /* fitted to collectives, or NULL */
};

/** Summary, ranks, rows that did not run. Write errors stay on the streams. */
void cs_report_validate_text(FILE *out, const struct cs_validate_report *report);
/** One line a case. */
void cs_report_validate_csv(FILE *out, const struct cs_validate_report *report);
/** INTERFACE.md's `validate`, with the summaries. New reference. */
json_t *cs_report_validate_json(const struct cs_validate_report *report,
                                const struct cs_report_origin *origin);
/** Predicted over measured, logarithmic. */
void cs_report_validate_svg(FILE *out, const struct cs_validate_report *report);
/** A page: what is reached, where it is wrong and why. `command` made it. */
void cs_report_validate_markdown(FILE *out, const struct cs_validate_report *report, const char *command);
/** Fitted figures with their uncertainty. */
void cs_report_calibrate_text(FILE *out, const struct cs_calibration *calibration);
/** Links fitted to collectives: a table, a section of a page, an object (new reference). */
void cs_report_links_text(FILE *out, const struct cs_link_fits *fits);
void cs_report_links_markdown(FILE *out, const struct cs_link_fits *fits);
json_t *cs_report_links_json(const struct cs_link_fits *fits, const struct cs_report_origin *origin);

#endif
