#include "cs/base/err.h"

#include "text_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int exit_status;
    const char *text;
} statuses[] = {
#define X(name, exit_status, text) {exit_status, text},
    CS_STATUS_LIST(X)
#undef X
};

enum { N_STATUSES = sizeof statuses / sizeof statuses[0] };

const char *cs_status_text(cs_status status)
{
    CS_ASSERT((unsigned)status < N_STATUSES);
    return statuses[status].text;
}

int cs_status_exit(cs_status status)
{
    CS_ASSERT((unsigned)status < N_STATUSES);
    return statuses[status].exit_status;
}

/* A file name that is too long loses its beginning: the end tells more. */
static void set_file(struct cs_err *err, const char *file)
{
    size_t len = file ? strlen(file) : 0;
    if (len == 0) {
        err->file[0] = '\0';
    } else if (len < sizeof err->file) {
        memmove(err->file, file, len + 1); /* file may be err->file */
    } else {
        size_t kept = sizeof err->file - sizeof "...";
        memcpy(err->file, "...", 3);
        memcpy(err->file + 3, file + len - kept, kept + 1);
    }
    cs__text_clean(err->file);
}

static void set_text(struct cs_err *err, char *text, int full_length)
{
    if (full_length < 0) {
        memcpy(text, "unprintable message", sizeof "unprintable message");
    } else if ((size_t)full_length >= CS_ERR_TEXT_MAX) {
        cs__text_mark_cut(text, CS_ERR_TEXT_MAX);
    }
    cs__text_clean(text);
    memcpy(err->text, text, strlen(text) + 1);
}

cs_status cs_err_vset(struct cs_err *err, cs_status code, struct cs_loc loc, const char *fmt, va_list ap)
{
    CS_ASSERT(code != CS_OK);
    if (err) {
        char text[CS_ERR_TEXT_MAX]; /* the arguments may point into err */
        int n = vsnprintf(text, sizeof text, fmt, ap);
        set_text(err, text, n);
        set_file(err, loc.file);
        err->code = code;
        err->line = loc.line;
        err->col = loc.col;
    }
    return code;
}

cs_status cs_err_set(struct cs_err *err, cs_status code, struct cs_loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cs_err_vset(err, code, loc, fmt, ap);
    va_end(ap);
    return code;
}

void cs_err_prefix(struct cs_err *err, const char *fmt, ...)
{
    if (!err) {
        return;
    }
    char prefix[CS_ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    if (n < 0) {
        return;
    }
    char text[CS_ERR_TEXT_MAX];
    n = snprintf(text, sizeof text, "%s: %s", prefix, err->text);
    set_text(err, text, n);
}

void cs_err_format(const struct cs_err *err, char *buf, unsigned long buf_bytes)
{
    CS_ASSERT(buf_bytes > 0);
    char place[CS_ERR_FILE_MAX + 32] = "";
    const char *colon = err->file[0] != '\0' ? ":" : "";
    if (err->line > 0 && err->col > 0) {
        (void)snprintf(place, sizeof place, "%s%s%d:%d: ", err->file, colon, err->line, err->col);
    } else if (err->line > 0) {
        (void)snprintf(place, sizeof place, "%s%s%d: ", err->file, colon, err->line);
    } else if (err->file[0] != '\0') {
        (void)snprintf(place, sizeof place, "%s: ", err->file);
    }
    int n = snprintf(buf, buf_bytes, "%serror: %s", place, err->text);
    if (n >= 0 && (unsigned long)n >= buf_bytes && buf_bytes > sizeof "...") {
        cs__text_mark_cut(buf, buf_bytes);
    }
}

noreturn void cs_bug(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: bug: '%s' does not hold\n", file, line, what);
    abort();
}
