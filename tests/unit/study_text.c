#include "study_text.h"

#include "cs_test.h"

#include <stdio.h>
#include <unistd.h>

const char *study_file(void)
{
    static char name[64];
    snprintf(name, sizeof name, "./test_study_%ld.yaml", (long)getpid());
    return name;
}

cs_status load_text(struct cs_study *study, const char *text, int32_t n_overrides,
                    const struct cs_override *overrides, struct cs_err *err)
{
    const char *name = study_file();
    FILE *file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .path = name, .n_overrides = n_overrides, .overrides = overrides};
    cs_status st = cs_study_load(study, &source, err);
    ck_assert_int_eq(unlink(name), 0);
    return st;
}

void load(struct cs_study *study, const char *text)
{
    struct cs_err err = {0};
    ck_assert_ok(load_text(study, text, 0, NULL, &err), &err);
}
