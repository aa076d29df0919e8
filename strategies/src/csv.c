/* Comma-separated values (RFC 4180), by header name. */
#include "csv_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"

#include <string.h>

#define CSV_BYTES_MAX ((size_t)256 << 20)
#define CSV_COLUMNS_MAX 512

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* One field at *at: unquoted in place. @return false when a quote is not closed. */
static bool take_field(char **at, char **field, char *end_of, int32_t *lines)
{
    char *p = *at;
    char *out = p;
    *field = p;
    if (*p == '"') {
        p++;
        for (;;) {
            if (*p == '\0') {
                return false;
            }
            if (*p == '"' && p[1] == '"') {
                p++;
            } else if (*p == '"') {
                p++;
                break;
            }
            *lines += *p == '\n';
            *out++ = *p++;
        }
    } else {
        while (*p && *p != ',' && *p != '\n' && *p != '\r') {
            *out++ = *p++;
        }
        while (out > *field && is_blank(out[-1])) { /* profilers put a tab behind a time */
            out--;
        }
        while (*field < out && is_blank(**field)) {
            (*field)++;
        }
    }
    if (*p == '\r' && p[1] == '\n') {
        p++;
    }
    if (*p && *p != ',' && *p != '\n') {
        return false;
    }
    *end_of = *p;
    *at = *p ? p + 1 : p;
    *out = '\0';
    return true;
}

static cs_status take_row(struct cs__csv *csv, const char *path, char **at, int32_t *line, int32_t *n,
                          char **fields, struct cs_err *err)
{
    struct cs_loc loc = {path, *line, 0};
    char end_of = ',';
    *n = 0;
    while (end_of == ',') {
        if (*n >= CSV_COLUMNS_MAX) {
            return cs_err_set(err, CS_E_LIMIT, loc, "more than %d columns", CSV_COLUMNS_MAX);
        }
        if (!take_field(at, &fields[(*n)++], &end_of, line)) {
            return cs_err_set(err, CS_E_INPUT, loc, "a quoted field does not end, or text follows it");
        }
    }
    *line += 1;
    if (csv->n_columns > 0 && *n != csv->n_columns && !(*n == 1 && fields[0][0] == '\0')) {
        return cs_err_set(err, CS_E_INPUT, loc, "%d fields, but the header has %d", (int)*n,
                          (int)csv->n_columns);
    }
    return CS_OK;
}

/* First byte that is no UTF-8 (RFC 3629), NULL when all is: JSON and drawings cannot say it. */
static const char *find_foreign(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        int32_t n_more = *p < 0x80 ? 0 : *p < 0xc2 ? -1 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : *p < 0xf5 ? 3 : -1;
        /* no longer forms, no surrogates, nothing behind U+10FFFF */
        bool out = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
                   (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f);
        for (int32_t i = 1; i <= n_more && !out; i++) {
            out = (p[i] & 0xc0) != 0x80;
        }
        if (n_more < 0 || out) {
            return (const char *)p;
        }
        p += n_more + 1;
    }
    return NULL;
}

cs_status cs__csv_load(struct cs__csv *csv, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    size_t bytes = 0;
    int32_t line = 1;
    int32_t cap = 0;
    int32_t n = 0;
    char *fields[CSV_COLUMNS_MAX];
    *csv = (struct cs__csv){.path = path};
    CS_TRY(cs_file_read(path, CSV_BYTES_MAX, &csv->text, &bytes, err));
    if (memchr(csv->text, '\0', bytes)) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, 0, 0}, "not a text file: it has NUL bytes");
        goto out;
    }
    const char *foreign = find_foreign(csv->text);
    if (foreign) {
        int32_t at_line = cs_text_line(csv->text, (size_t)(foreign - csv->text));
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, at_line, 0}, "not UTF-8: the byte 0x%02x",
                        (unsigned)(unsigned char)*foreign);
        goto out;
    }
    char *at = csv->text;
    at += strncmp(at, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    CS_TRY(take_row(csv, path, &at, &line, &n, fields, err));
    csv->n_columns = n;
    csv->header = cs_arena_memdup(&csv->arena, fields, (size_t)n * sizeof *fields);
    while (*at) {
        int32_t from = line;
        CS_TRY(take_row(csv, path, &at, &line, &n, fields, err));
        if (n == 1 && csv->n_columns > 1) {
            continue; /* an empty line */
        }
        CS_GROW(csv->rows, csv->n_rows, cap);
        csv->rows[csv->n_rows++] =
            (struct cs__csv_row){from, cs_arena_memdup(&csv->arena, fields, (size_t)n * sizeof *fields)};
    }
out:
    return st;
}

cs_status cs__csv_open(struct cs__csv *csv, const char *path, const char *const *needed, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(cs__csv_load(csv, path, err));
    for (int32_t i = 0; needed[i]; i++) {
        int32_t column = cs__csv_column(csv, needed[i]);
        if (column < 0) {
            st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, 1, 0}, "there is no column '%s'",
                            needed[i]);
            goto out;
        }
        for (int32_t k = column + 1; k < csv->n_columns; k++) {
            if (strcmp(csv->header[k], needed[i]) == 0) {
                st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, 1, 0},
                                "there are two columns '%s', the %d. and the %d.", needed[i], (int)column + 1,
                                (int)k + 1);
                goto out;
            }
        }
    }
out:
    return st;
}

void cs__csv_release(struct cs__csv *csv)
{
    cs_free(csv->text);
    cs_free(csv->rows);
    cs_arena_release(&csv->arena);
    *csv = (struct cs__csv){0};
}

int32_t cs__csv_column(const struct cs__csv *csv, const char *name)
{
    for (int32_t i = 0; i < csv->n_columns; i++) {
        if (strcmp(csv->header[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *cs__csv_text(const struct cs__csv *csv, int32_t row, const char *name)
{
    int32_t column = cs__csv_column(csv, name);
    return column < 0 ? "" : csv->rows[row].fields[column];
}
