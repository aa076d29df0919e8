/**
 * @file study_text.h
 * Studies written into a test.
 */
#ifndef CS_TESTS_UNIT_STUDY_TEXT_H
#define CS_TESTS_UNIT_STUDY_TEXT_H

#include "cs/strategies/study.h"

/** The beginning of a study; three lines. */
#define HEAD                                                                                                 \
    "model: llama3-70b\n"                                                                                    \
    "platform: 910b-8x8\n"                                                                                   \
    "training: {global_batch: 1024, seq_length: 4096}\n"

/** The file that a study is written to, beside the test: this process's own. It is gone once the study is
 *  loaded; locations name it. */
const char *study_file(void);
/** Write a study and load it. */
cs_status load_text(struct cs_study *study, const char *text, int32_t n_overrides,
                    const struct cs_override *overrides, struct cs_err *err);
/** The same for one that is right; ends the test when it is not. */
void load(struct cs_study *study, const char *text);

#endif
