/**
 * @file cs_test.h
 * What every Check program here shares: main(), and assertions that show the error's text.
 */
#ifndef CS_TESTS_UNIT_CS_TEST_H
#define CS_TESTS_UNIT_CS_TEST_H

#include "cs/base/err.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/** main() of a program with one suite; suite_fn is `static Suite *name(void)`. Check runs each test in a
 *  process of its own (CK_FORK=no to debug). */
#define CS_TEST_MAIN(suite_fn)                                                                               \
    int main(void)                                                                                           \
    {                                                                                                        \
        SRunner *runner = srunner_create(suite_fn());                                                        \
        srunner_run_all(runner, CK_ENV);                                                                     \
        int n_failed = srunner_ntests_failed(runner);                                                        \
        srunner_free(runner);                                                                                \
        return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;                                                  \
    }

/** The call succeeded; else fail with its message. `err` is a struct cs_err *. */
#define ck_assert_ok(st, err)                                                                                \
    do {                                                                                                     \
        cs_status ck_st_ = (st);                                                                             \
        if (ck_st_ != CS_OK) {                                                                               \
            char ck_text_[CS_ERR_TEXT_MAX + CS_ERR_FILE_MAX];                                                \
            cs_err_format((err), ck_text_, sizeof ck_text_);                                                 \
            ck_abort_msg("%s: %s: %s", #st, cs_status_text(ck_st_), ck_text_);                               \
        }                                                                                                    \
    } while (0)

/** The call failed with this code, at this line of the input (0 = no line), saying `part` somewhere. */
#define ck_assert_fails(st, err, want_code, want_line, part)                                                 \
    do {                                                                                                     \
        ck_assert_int_eq((st), (want_code));                                                                 \
        ck_assert_int_eq((err)->code, (want_code));                                                          \
        ck_assert_msg((err)->line == (want_line) && strstr((err)->text, (part)) != NULL,                     \
                      "got line %d, '%s'; want line %d, '%s'", (err)->line, (err)->text, (want_line),        \
                      (part));                                                                               \
    } while (0)

#endif
