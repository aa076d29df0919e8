/**
 * @file testbed.h
 * Copies of the catalogue's chips and servers that may be changed, and platforms made of them: what
 * validation runs on and calibration turns.
 */
#ifndef CS_STRATEGIES_TESTBED_H
#define CS_STRATEGIES_TESTBED_H

#include "cs/engine/engine.h"
#include "cs/strategies/cases.h"

/** Open record. The catalogue is borrowed. */
struct cs_testbed {
    const struct cs_catalogue *catalogue;
    int32_t n_chips;
    struct cs_chip *chips;
    int32_t n_servers;
    struct cs_server *servers;
};

void cs_testbed_init(struct cs_testbed *bed, const struct cs_catalogue *catalogue);
void cs_testbed_release(struct cs_testbed *bed);
/** NULL when unknown. Borrowed. */
struct cs_chip *cs_testbed_chip(const struct cs_testbed *bed, const char *name);
struct cs_server *cs_testbed_server(const struct cs_testbed *bed, const char *name);

/** A cluster of one server type under one software. Its platform file is temporary and goes with it. */
struct cs_site {
    const struct cs_server *server;
    const struct cs_software *software;
    struct cs_chip chip; /* the server's, as the software makes it */
    int32_t n_nodes;
    int32_t devices_per_node;
    char path[64];
    struct cs_platform platform;
    struct cs_routes *routes;
};

/** Make the cluster: fat tree, 1:1. Fewer devices than the server has are the first of a server (a full mesh
 *  then has its pair links only among them). The site must not move: routes point into it. All routes of
 * clusters up to 64 devices are asked for. */
CS_MUST_CHECK cs_status cs_site_init(struct cs_site *site, const struct cs_testbed *bed,
                                     const struct cs_server *server, const struct cs_software *software,
                                     int32_t n_nodes, int32_t devices_per_node, const char *simgrid_cfg,
                                     struct cs_err *err);
void cs_site_release(struct cs_site *site);

#endif
