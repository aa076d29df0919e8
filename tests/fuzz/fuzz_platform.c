/* Platform files: what is accepted must also be checkable, and turn into a description or say why not. */
#include "fuzz.h"
#include "input_file.h"

#include "cs/platforms/check.h"
#include "cs/platforms/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct cs_catalogue *catalogue; /* once for all inputs, kept reachable */
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    struct cs_findings findings = {0};
    struct cs_topology_spec spec = {0};
    char path[64];
    if (!catalogue &&
        cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err) != CS_OK) {
        abort();
    }
    FILE *file = input_file(data, bytes, path);
    if (cs_platform_load(&platform, path, catalogue, &err) == CS_OK) {
        (void)!cs_platform_check(path, catalogue, &findings, &err);
        if (platform.n_devices <= 1024) { /* a text may claim any size */
            (void)!cs_topology_read(&spec, &platform, catalogue, CS_NOLOC, &err);
        }
    }
    cs_findings_release(&findings);
    cs_platform_release(&platform);
    (void)fclose(file);
    return 0;
}
