/* MindFormers configurations: what is read is a strategy that the rules can judge and, when small, a trace.
 * What follows a line "#config.json" is the file of that name in the folder `hub` beside the configuration.
 */
#include "fuzz.h"

#include "cs/workloads/mindformers.h"
#include "cs/workloads/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char mark[] = "\n#config.json\n";

static char folder[] = "/tmp/clustersim-fuzz-XXXXXX";
static char hub[64];

static void remove_folder(void)
{
    (void)rmdir(hub);
    (void)rmdir(folder);
}

static void write_file(const char *path, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
        abort(); /* a full disk is no finding */
    }
}

/** Load both files; `at` is where the mark stands. */
static cs_status load_with_hub(struct cs_mindformers *config, const uint8_t *data, size_t bytes, size_t at,
                               struct cs_err *err)
{
    char run[96];
    char json[96];
    const size_t behind = at + sizeof mark - 1;
    if (hub[0] == '\0') {
        if (!mkdtemp(folder) || atexit(remove_folder) != 0) {
            abort();
        }
        (void)snprintf(hub, sizeof hub, "%s/hub", folder);
        if (mkdir(hub, 0700) != 0) {
            abort();
        }
    }
    (void)snprintf(run, sizeof run, "%s/run.yaml", folder);
    (void)snprintf(json, sizeof json, "%s/config.json", hub);
    write_file(run, data, at + 1);
    write_file(json, data + behind, bytes - behind);
    cs_status st = cs_mindformers_load(config, run, err);
    (void)unlink(run);
    (void)unlink(json);
    return st;
}

static cs_status load(struct cs_mindformers *config, const uint8_t *data, size_t bytes, struct cs_err *err)
{
    for (size_t at = 0; at + sizeof mark - 1 <= bytes; at++) {
        if (memcmp(data + at, mark, sizeof mark - 1) == 0) {
            return load_with_hub(config, data, bytes, at, err);
        }
    }
    return cs_mindformers_load_text(config, (const char *)data, bytes, "input", err);
}

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
    if (load(&config, data, bytes, &err) == CS_OK) {
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
