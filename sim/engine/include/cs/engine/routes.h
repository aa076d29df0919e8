/**
 * @file routes.h
 * Routes between devices, as SimGrid itself answers them.
 *
 * SimGrid ends the process on a bad platform and holds one platform a process, so a child process loads
 * the file, answers and exits. Links are numbered as they are met; the two directions of a split-duplex
 * link are two links.
 */
#ifndef CS_ENGINE_ROUTES_H
#define CS_ENGINE_ROUTES_H

#include "cs/platforms/platform.h"

struct cs_link {
    const char *name;
    double bytes_per_s;
    double latency_s;
    bool shared; /* false: a FATPIPE, every flow gets the whole bandwidth */
};

/** A route: links in order; borrowed from the route table. */
struct cs_route {
    const int32_t *links;
    int32_t n_links;
    double latency_s; /* sum over the links */
};

struct cs_routes; /* opaque route table of one platform */

/** Start with an empty table. The platform is borrowed and must outlive it, `simgrid_cfg` too (one more
 *  "--cfg=" item for SimGrid, or NULL). Never fails. */
struct cs_routes *cs_routes_new(const struct cs_platform *platform, const char *simgrid_cfg);
void cs_routes_free(struct cs_routes *routes);
const struct cs_platform *cs_routes_platform(const struct cs_routes *routes);
const char *cs_routes_simgrid_cfg(const struct cs_routes *routes);

/** Make sure that the routes between the given device pairs (2 * n_pairs device numbers) are known; asks
 *  SimGrid once for all that are missing. CS_E_INPUT when the platform has no route between two devices or
 *  SimGrid refuses the file (its own message is quoted); CS_E_ENGINE when the child dies otherwise. */
CS_MUST_CHECK cs_status cs_routes_need(struct cs_routes *routes, const int32_t *pairs, int64_t n_pairs,
                                       struct cs_err *err);
/** All ordered pairs; for platforms of at most a few hundred devices. */
CS_MUST_CHECK cs_status cs_routes_need_all(struct cs_routes *routes, struct cs_err *err);

/** The route from device `from` to device `to` (between their NICs when they are on different nodes); must
 *  have been asked for. Loopback (from == to) has no links. */
struct cs_route cs_routes_get(const struct cs_routes *routes, int32_t from, int32_t to);
int32_t cs_routes_n_links(const struct cs_routes *routes);
const struct cs_link *cs_routes_link(const struct cs_routes *routes, int32_t link);
/** Narrowest link of a route in bytes/s; infinity for loopback. */
double cs_routes_bytes_per_s(const struct cs_routes *routes, int32_t from, int32_t to);

#endif
