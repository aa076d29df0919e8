/**
 * @file json.h
 * JSON by jansson, with our errors: reading with file, line and column; writing whole files; numbers that
 * may not be finite.
 */
#ifndef CS_BASE_JSON_H
#define CS_BASE_JSON_H

#include "cs/base/err.h"

#include <jansson.h>

/** Read a file (at most 64 MiB, duplicate keys refused). The caller decrefs *json. CS_E_INPUT with line. */
CS_MUST_CHECK cs_status cs_json_load_file(const char *path, json_t **json, struct cs_err *err);
/** Write `json` (borrowed), indented, numbers that round-trip, keys in insertion order, to `path` ("-" =
 *  standard output), whole or not at all. */
CS_MUST_CHECK cs_status cs_json_write_file(const json_t *json, const char *path, struct cs_err *err);
/** A real, or null when it is not finite (jansson refuses NaN). New reference. @unit: the
 *  caller's, named by the key. */
json_t *cs_json_real(double value);

#endif
