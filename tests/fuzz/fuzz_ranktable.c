/* Rank tables: what is read can be laid on a platform that is large enough, or is refused. */
#include "fuzz.h"
#include "input_file.h"

#include "cs/platforms/ranktable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct cs_catalogue *catalogue; /* once for all inputs, kept reachable */
    static struct cs_platform platform;
    struct cs_err err = {0};
    struct cs_ranktable table = {0};
    char path[64];
    if (!catalogue &&
        (cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err) != CS_OK ||
         cs_platform_load(&platform, CS_TEST_SOURCE_DIR "/platforms/910b-8x8.xml", catalogue, &err) !=
             CS_OK)) {
        abort();
    }
    FILE *file = input_file(data, bytes, path);
    if (cs_ranktable_load(&table, path, &err) == CS_OK) {
        int32_t *devices = cs_calloc((size_t)table.n_ranks + 1, sizeof *devices);
        (void)!cs_ranktable_devices(&table, &platform, devices, &err);
        cs_free(devices);
    }
    cs_ranktable_release(&table);
    (void)fclose(file);
    return 0;
}
