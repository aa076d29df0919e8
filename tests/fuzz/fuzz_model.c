/* Model files: what is read must be countable. */
#include "fuzz.h"

#include "cs/workloads/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cs_err err = {0};
    struct cs_model model = {0};
    if (cs_model_load_text(&model, (const char *)data, bytes, "input", &err) == CS_OK) {
        if (cs_model_params(&model) <= 0 || !(cs_model_step_flop(&model, 1024.0, 1024) > 0)) {
            __builtin_trap();
        }
        cs_model_release(&model);
    }
    return 0;
}
