#include "fixture.h"

#include "cs_test.h"

#include <stdio.h>
#include <unistd.h>

const char *fixture_simgrid_cfg(void)
{
    return getenv("CLUSTERSIM_SIMGRID_CFG");
}

void fixture_open(struct fixture *fixture, int32_t n_nodes, int32_t devices_per_node,
                  void (*edit)(struct cs_topology_spec *spec))
{
    struct cs_err err = {0};
    struct cs_topology_spec spec;
    memset(fixture, 0, sizeof *fixture);
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &fixture->catalogue, &err),
                 &err);
    cs_topology_spec_init(&spec, cs_catalogue_server(fixture->catalogue, "910b-10to1"));
    spec.n_nodes = n_nodes;
    spec.devices_per_node = devices_per_node;
    if (edit) {
        edit(&spec);
    }
    snprintf(fixture->path, sizeof fixture->path, "/tmp/clustersim-test-XXXXXX");
    int fd = mkstemp(fixture->path);
    ck_assert_int_ge(fd, 0);
    FILE *stream = fdopen(fd, "wb");
    ck_assert_ok(cs_topology_write(&spec, fixture->catalogue, stream, CS_NOLOC, &err), &err);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_ok(cs_platform_load(&fixture->platform, fixture->path, fixture->catalogue, &err), &err);
    fixture->routes = cs_routes_new(&fixture->platform, fixture_simgrid_cfg());
}

void fixture_close(struct fixture *fixture)
{
    unlink(fixture->path);
    cs_routes_free(fixture->routes);
    cs_platform_release(&fixture->platform);
    cs_catalogue_free(fixture->catalogue);
}
