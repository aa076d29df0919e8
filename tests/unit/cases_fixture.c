#include "cases_fixture.h"

#include "cs_test.h"

#include <stdio.h>
#include <unistd.h>

void cases_softwares(struct cs_softwares *softwares)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_softwares_load(softwares, CS_TEST_SOURCE_DIR "/strategies/software/software.yaml", &err),
                 &err);
}

void cases_write(const char *file, const char *text)
{
    FILE *out = fopen(file, "w");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_ge(fputs(text, out), 0);
    ck_assert_int_eq(fclose(out), 0);
}

cs_status cases_load_text(struct cs_cases *cases, const char *file, const char *text,
                          const struct cs_softwares *softwares, struct cs_err *err)
{
    cases_write(file, text);
    cs_status st = cs_cases_load(cases, file, softwares, err);
    ck_assert_int_eq(unlink(file), 0);
    return st;
}
