/**
 * @file collectives.h
 * Fit a server's links to measured collectives.
 *
 * Rows of one server (one node, 1 MB and more: below it the figures of a collective's own cost matter more
 * than those of its links) are predicted by the closed form of the engine's plan, time = cost of a collective
 * + latencies + transfers, whose latencies scale with the link's latency and whose transfers with the inverse
 * of its bandwidth. Both are fitted by NLopt's LN_SBPLX between bounds, with Huber's loss of log(predicted /
 * measured), and drawn to the catalogue's specification weakly, so that rows that say nothing of the latency
 * leave it. A source is predicted with figures fitted without it where another one measured the same server.
 */
#ifndef CS_STRATEGIES_COLLECTIVES_H
#define CS_STRATEGIES_COLLECTIVES_H

#include "cs/strategies/testbed.h"

#define CS_LINK_FITS_MAX 32

/** What the rows say of one server. */
struct cs_link_fit {
    const char *server; /* the catalogue's name, borrowed from it */
    int32_t n_rows;
    int32_t n_groups;
    double catalogue_bytes_per_s; /* of a device, one direction, to all others together */
    double catalogue_latency_s;
    double bytes_per_s; /* fitted */
    double latency_s;   /* fitted */
    /* Mean |predicted / measured - 1| of the times. */
    double catalogue_error_frac;
    double error_frac;
    double held_out_frac; /* of rows predicted without their own group; NaN = there is one group */
};

struct cs_link_fits {
    int32_t n;
    struct cs_link_fit items[CS_LINK_FITS_MAX];
    int32_t n_rows;    /* in the file */
    int32_t n_foreign; /* of hardware that is no server of the catalogue, of several nodes, or small */
};

/** Fit every server that the file has rows of. Columns are found by name: hardware, n_devices, n_nodes,
 *  collective, bytes, busbw_GBps, source. CS_E_INPUT with file and line for a missing column or a number that
 * is none. */
CS_MUST_CHECK cs_status cs_collectives_fit(struct cs_link_fits *fits, const char *path,
                                           const struct cs_testbed *bed, const char *simgrid_cfg,
                                           struct cs_err *err);

#endif
