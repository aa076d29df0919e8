/* Traces in our own format: a text, as read_native_text takes it. What is read must survive being written. */
#include "fuzz.h"

#include "cs/workloads/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    if (cs_trace_read_native_text((const char *)data, bytes, "input", &trace, &err) == CS_OK) {
        for (int32_t p = 0; p < trace->n_programs; p++) {
            struct cs_mem_peak peak;
            cs_trace_memory(trace, p, &peak);
        }
        cs_trace_free(trace);
    }
    return 0;
}
