/**
 * @file points.h
 * Variants of a study for people and programs, and their memory in a file.
 */
#ifndef CS_REPORTS_POINTS_H
#define CS_REPORTS_POINTS_H

#include "cs/reports/json.h"
#include "cs/strategies/points.h"

/** {"status", "reason", "devices", "nodes", "strategy", "iteration_time_s", ..., "upgrades": {...}}. New
 *  reference. */
json_t *cs_report_point_json(const struct cs_point *point);
/** Take a point out of what cs_report_point_json made. False when something is missing or wrong. */
bool cs_report_point_read(const json_t *json, struct cs_point *point);
/** Column names of a point in CSV, without line end; and its figures. */
void cs_report_point_csv_head(FILE *out);
void cs_report_point_csv(FILE *out, const struct cs_point *point);
/** "ring, 8 nodes" is not: a text as a CSV field, quoted where it must be. */
void cs_report_csv_text(FILE *out, const char *text);

struct cs_point_store; /* points of earlier runs, in a file with a JSON object a line */

/** Open or create. What was written before a crash stays useful: a last line that it cut off is dropped, were
 * it the only one, and so is a line whose figures are not those that were written (each has a checksum; lines
 * of versions without one are dropped). Each new point is appended with one write. The caller frees with
 * cs_point_store_free. CS_E_INPUT when the file cannot be opened for reading and appending, or begins with
 * something else than a point: then it is left as it was. */
CS_MUST_CHECK cs_status cs_point_store_open(struct cs_point_store **store, const char *path,
                                            struct cs_err *err);
/** To hand to cs_points_run; borrowed from the store. */
const struct cs_point_memory *cs_point_store_memory(const struct cs_point_store *store);
/** Lines of the file that were not used: cut off, changed, or not ours in between. */
int32_t cs_point_store_n_dropped(const struct cs_point_store *store);
/** Did every write succeed? CS_E_IO names the file. */
CS_MUST_CHECK cs_status cs_point_store_check(const struct cs_point_store *store, struct cs_err *err);
void cs_point_store_free(struct cs_point_store *store);

#endif
