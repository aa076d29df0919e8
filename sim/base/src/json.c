#include "cs/base/json.h"

#include "cs/base/file.h"
#include "cs/base/mem.h"

#include <math.h>
#include <string.h>

#define TEXT_MAX_BYTES ((size_t)64 << 20)

cs_status cs_json_load_file(const char *path, json_t **json, struct cs_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    cs_status st = CS_OK;
    CS_TRY(cs_file_read(path, TEXT_MAX_BYTES, &text, &bytes, err));
    /* Some editors put a byte order mark in front; jansson would call it a syntax error. */
    size_t skip = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    json_error_t problem;
    json_t *loaded = json_loadb(text + skip, bytes - skip, JSON_REJECT_DUPLICATES, &problem);
    if (!loaded) {
        struct cs_loc loc = {path, problem.line > 0 ? problem.line : 1,
                             problem.column > 0 ? problem.column : 0};
        st = cs_err_set(err, CS_E_INPUT, loc, "not valid JSON: %s", problem.text);
        goto out;
    }
    *json = loaded;
out:
    cs_free(text);
    return st;
}

cs_status cs_json_write_file(const json_t *json, const char *path, struct cs_err *err)
{
    CS_ASSERT(json);
    struct cs_outfile out = {0};
    cs_status st = CS_OK;
    CS_TRY(cs_outfile_open(&out, path, err));
    /* 17 significant digits read back as the same double. */
    if (json_dumpf(json, out.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY) == 0) {
        (void)fputc('\n', out.stream);
    } else {
        CS_ASSERT(ferror(out.stream)); /* else the value contains itself */
    }
    CS_TRY(cs_outfile_commit(&out, err)); /* reports the write errors */
out:
    cs_outfile_release(&out);
    return st;
}

json_t *cs_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
