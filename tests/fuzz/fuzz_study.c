/* Studies with everything that they describe: platform, sweep, plan. */
#include "fuzz.h"
#include "input_file.h"

#include "cs/strategies/plan.h"
#include "cs/strategies/sweep.h"

/* Large numbers make large platforms: correct, and slow. */
static bool has_large_number(const uint8_t *data, size_t bytes)
{
    int32_t n_digits = 0;
    for (size_t i = 0; i < bytes; i++) {
        n_digits = data[i] >= '0' && data[i] <= '9' ? n_digits + 1 : 0;
        if (n_digits > 4) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cs_err err = {0};
    struct cs_study study = {0};
    struct cs_sweep sweep = {0};
    struct cs_plan plan = {0};
    char path[64];
    struct cs_override few = {"platform.nodes", "2", false};
    struct cs_study_source source = {.data_dir = CS_TEST_SOURCE_DIR, .path = path};
    if (has_large_number(data, bytes)) {
        return 0;
    }
    FILE *file = input_file(data, bytes, path);
    (void)!cs_sweep_read(&sweep, &source, &err);
    (void)!cs_plan_read(&plan, &source, &err);
    source.n_overrides = 1;
    source.overrides = &few;
    (void)!cs_study_load(&study, &source, &err);
    cs_study_release(&study);
    cs_sweep_release(&sweep);
    cs_plan_release(&plan);
    (void)fclose(file);
    return 0;
}
