/* Profiler output: the first byte says which of the three files the rest is (k, s, else communication). What
 * is read is fitted, or refused. */
#include "fuzz.h"

#include "cs/strategies/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/clustersim-fuzz-XXXXXX";

static void remove_folder(void)
{
    (void)rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct cs_catalogue *catalogue; /* once for all inputs, kept reachable */
    struct cs_err err = {0};
    struct cs_profile profile = {0};
    struct cs_profile_fit fits[CS_N_OPKINDS];
    char path[96];
    if (bytes == 0) {
        return 0;
    }
    if (!catalogue &&
        (cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err) != CS_OK ||
         !mkdtemp(folder) || atexit(remove_folder) != 0)) {
        abort();
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder,
                   data[0] == 'k'   ? "kernel_details.csv"
                   : data[0] == 's' ? "step_trace_time.csv"
                                    : "communication.json");
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data + 1, 1, bytes - 1, file) != bytes - 1 || fclose(file) != 0) {
        abort(); /* a full disk is no finding */
    }
    if (cs_profile_load(&profile, folder, &err) == CS_OK) {
        struct cs_chip chip = *cs_catalogue_chip(catalogue, "910b2");
        (void)!cs_profile_fit(&profile, &chip, fits, &err);
    }
    cs_profile_release(&profile);
    (void)unlink(path);
    return 0;
}
