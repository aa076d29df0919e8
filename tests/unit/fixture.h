/**
 * @file fixture.h
 * A platform made to measure, for tests of the engine.
 */
#ifndef CS_TESTS_UNIT_FIXTURE_H
#define CS_TESTS_UNIT_FIXTURE_H

#include "cs/engine/engine.h"
#include "cs/platforms/topology.h"

struct fixture {
    struct cs_catalogue *catalogue;
    struct cs_platform platform;
    struct cs_routes *routes;
    char path[64];
};

/** The default family (910b-10to1), changed by `edit` if not NULL; ends the test when it cannot be had. */
void fixture_open(struct fixture *fixture, int32_t n_nodes, int32_t devices_per_node,
                  void (*edit)(struct cs_topology_spec *spec));
void fixture_close(struct fixture *fixture);
/** SimGrid configuration that the test's environment asks for (CLUSTERSIM_SIMGRID_CFG), or NULL. */
const char *fixture_simgrid_cfg(void);

#endif
