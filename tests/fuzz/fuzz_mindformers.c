/* MindFormers configurations: what is read is a strategy that the rules can judge and, when small, a trace.
 */
#include "fuzz.h"

#include "cs/workloads/mindformers.h"
#include "cs/workloads/trace.h"

/** Traces of hostile sizes are lawful and slow. */
static int is_small(const struct cs_mindformers *config)
{
    return config->n_devices <= 64 && config->model.n_layers <= 64 && config->training.global_batch <= 256 &&
           config->strategy.seq_split <= 8 && config->strategy.cp <= 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    if (cs_mindformers_load_text(&config, (const char *)data, bytes, "input", &err) == CS_OK) {
        if (config.has_model && config.has_training && is_small(&config)) {
            struct cs_trace *trace = NULL;
            if (cs_trace_build(&config.model, &config.training, &config.strategy, &trace, &err) == CS_OK) {
                cs_trace_free(trace);
            }
        }
        cs_mindformers_release(&config);
    }
    return 0;
}
