/**
 * @file err.h
 * Status codes and located error messages.
 *
 * Three kinds of trouble are never mixed (STYLE §4.4): a bug aborts through CS_ASSERT, a bad input or a
 * failing environment is returned as a cs_status with a message in struct cs_err, and an infeasible
 * strategy is an ordinary value with a reason.
 */
#ifndef CS_BASE_ERR_H
#define CS_BASE_ERR_H

#include <stdarg.h>
#include <stdnoreturn.h>

/** Every status, its process exit status (INTERFACE.md) and its text. */
#define CS_STATUS_LIST(X)                                                                                    \
    X(OK, 0, "success")                                                                                      \
    X(E_INPUT, 2, "bad input")                                                                               \
    X(E_IO, 1, "input or output failed")                                                                     \
    X(E_LIMIT, 2, "a limit was exceeded")                                                                    \
    X(E_ENGINE, 1, "the simulation engine failed")                                                           \
    X(E_DEADLOCK, 1, "the ranks cannot finish")                                                              \
    X(E_TIMEOUT, 1, "the time limit was reached")                                                            \
    X(E_INTERRUPTED, 1, "interrupted")                                                                       \
    X(E_INFEASIBLE, 3, "nothing fits")

typedef enum cs_status {
#define X(name, exit_status, text) CS_##name,
    CS_STATUS_LIST(X)
#undef X
} cs_status;

/** Text of a status; never NULL. */
const char *cs_status_text(cs_status status);
/** Process exit status of a status. */
int cs_status_exit(cs_status status);

/** A place in a user's file. `file` is borrowed (it lives as long as the document it names); line and
 *  column count from 1, 0 = unknown. A NULL file means "command line" or "no file". */
struct cs_loc {
    const char *file;
    int line;
    int col;
};

#define CS_ERR_TEXT_MAX 768
#define CS_ERR_FILE_MAX 256

/** An error on its way up. Zero-initialise; untouched on success; reusable. Owns nothing. */
struct cs_err {
    cs_status code;
    char file[CS_ERR_FILE_MAX]; /* "" = no file */
    int line;
    int col;
    char text[CS_ERR_TEXT_MAX]; /* one line: control characters are replaced */
};

#if defined(__GNUC__)
#define CS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define CS_MUST_CHECK __attribute__((warn_unused_result))
#else
#define CS_PRINTF(f, a)
#define CS_MUST_CHECK
#endif

/** Fill err (which may be NULL) and return `code`, so that `return cs_err_set(...)` reads well. The
 *  text is lower case, without a full stop, names the value and what would be right. */
cs_status cs_err_set(struct cs_err *err, cs_status code, struct cs_loc loc, const char *fmt, ...)
    CS_PRINTF(4, 5);
cs_status cs_err_vset(struct cs_err *err, cs_status code, struct cs_loc loc, const char *fmt, va_list ap)
    CS_PRINTF(4, 0);
/** Put "fmt: " in front of the text already in err. */
void cs_err_prefix(struct cs_err *err, const char *fmt, ...) CS_PRINTF(2, 3);
/** "file:line:col: error: text" (parts that are unknown left out) into buf; always terminated, one line. */
void cs_err_format(const struct cs_err *err, char *buf, unsigned long buf_bytes);

#define CS_NOLOC ((struct cs_loc){0})

/** Run a call that returns cs_status; on failure go to the function's single `out:` label with `st` set. */
#define CS_TRY(call)                                                                                         \
    do {                                                                                                     \
        st = (call);                                                                                         \
        if (st != CS_OK) {                                                                                   \
            goto out;                                                                                        \
        }                                                                                                    \
    } while (0)

noreturn void cs_bug(const char *file, int line, const char *what);
/** A violated precondition is a bug, in release builds too. */
#define CS_ASSERT(cond) ((cond) ? (void)0 : cs_bug(__FILE__, __LINE__, #cond))

#endif
