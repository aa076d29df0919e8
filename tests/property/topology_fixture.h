/* Platforms in SimGrid itself, for tests of descriptions. */
#ifndef CS_TEST_TOPOLOGY_FIXTURE_H
#define CS_TEST_TOPOLOGY_FIXTURE_H

#include "cs/base/rng.h"
#include "cs/platforms/platform.h"
#include "cs/platforms/topology.h"

extern struct cs_catalogue *topology_catalogue;
extern char topology_path[]; /* of the platform file */

/** Load the catalogue and make the file; free and remove them. */
void topology_setup(void);
void topology_teardown(void);

/** What a child does on the loaded platform, in an actor, since routes are only known then. */
typedef void topology_probe_fn(void *data);
/** Load the file in a child and run `probe` there; its exit status, 128 + signal when it died. */
int topology_in_simgrid(const char *host, topology_probe_fn *probe, void *data);
/** Write a description as the platform file. */
void topology_write(const struct cs_topology_spec *spec);
/** Write it, and compare SimGrid's routes of random pairs of devices with the closed form. */
void assert_topology_routes(const struct cs_topology_spec *spec, uint64_t seed, int n_pairs);
/** A random description that can be built. */
struct cs_topology_spec topology_random(struct cs_rng *rng);

#endif
