/* Comma-separated values (RFC 4180), by header name. */
#ifndef CS_STRATEGIES_CSV_PRIV_H
#define CS_STRATEGIES_CSV_PRIV_H

#include "cs/base/err.h"
#include "cs/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct cs__csv_row {
    int32_t line;
    char **fields; /* n_columns texts */
};

/** A file in memory. Zero-initialised is empty. */
struct cs__csv {
    struct cs_arena arena;
    const char *path; /* borrowed */
    char *text;       /* the fields point into it */
    int32_t n_columns;
    char **header;
    int32_t n_rows;
    struct cs__csv_row *rows;
};

/** CS_E_INPUT with file and line: an open quote, a row with another number of fields than the header. */
CS_MUST_CHECK cs_status cs__csv_load(struct cs__csv *csv, const char *path, struct cs_err *err);
/** The same, and every column of the NULL-terminated list is there: else CS_E_INPUT with the header's line.
 */
CS_MUST_CHECK cs_status cs__csv_open(struct cs__csv *csv, const char *path, const char *const *needed,
                                     struct cs_err *err);
void cs__csv_release(struct cs__csv *csv);
/** Column of a name, -1 when there is none. */
int32_t cs__csv_column(const struct cs__csv *csv, const char *name);
/** A field, "" when the column does not exist. Borrowed from the file. */
const char *cs__csv_text(const struct cs__csv *csv, int32_t row, const char *name);

#endif
