#include "cs/base/json.h"

#include "cs/base/file.h"

#include <math.h>

#define JSON_BYTES_MAX ((size_t)64 << 20)

cs_status cs_json_load_file(const char *path, json_t **json, struct cs_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    cs_status st = CS_OK;
    CS_TRY(cs_file_read(path, JSON_BYTES_MAX, &text, &bytes, err));
    json_error_t why;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!value) {
        struct cs_loc loc = {path, why.line > 0 ? why.line : 1, why.column > 0 ? why.column : 0};
        st = cs_err_set(err, CS_E_INPUT, loc, "not valid JSON: %s", why.text);
        goto out;
    }
    *json = value;
out:
    cs_free(text);
    return st;
}

cs_status cs_json_write_file(const json_t *json, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_outfile out = {0};
    CS_TRY(cs_outfile_open(&out, path, err));
    if (json_dumpf(json, out.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0) {
        st = cs_err_set(err, CS_E_IO, (struct cs_loc){path, 0, 0}, "cannot be written");
        goto out;
    }
    fputc('\n', out.stream);
    CS_TRY(cs_outfile_commit(&out, err));
out:
    cs_outfile_release(&out);
    return st;
}

json_t *cs_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
