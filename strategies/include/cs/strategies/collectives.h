/**
 * @file collectives.h
 * Fit links to measured collectives: those inside a server, and those between servers.
 *
 * Rows of 1 MB and more (below it the figures of a collective's own cost matter more than those of its links)
 * are predicted by the closed form of the engine's plan, time = cost of a collective + latencies + transfers;
 * latencies scale with the link's latency and transfers with the inverse of its bandwidth. Rows of one node
 * give the links inside; with these, rows of several nodes give those between. Servers that are wired alike
 * share what their rows say (a table in collectives.c). A transfer between two devices says nothing of the
 * latency, as its blocks overlap.
 *
 * A figure counts as determined when the data take more than half of the variance of a prior about the
 * catalogue's figure (a factor of 1.6); what is determined is then fitted to the data alone by NLopt's
 * LN_SBPLX with Huber's loss of log(predicted / measured), so that the result does not depend on the
 * catalogue's figure. The others stay. A group, a source's rows of one collective, is predicted with figures
 * fitted without it; where there is one group, all rows of one decade of sizes are.
 */
#ifndef CS_STRATEGIES_COLLECTIVES_H
#define CS_STRATEGIES_COLLECTIVES_H

#include "cs/strategies/testbed.h"

#define CS_LINK_FITS_MAX 64
#define CS_LINK_DETERMINED_FRAC 0.5 /* below it a figure counts as not determined */
/* A fit that leaves a larger mean error is none: these collectives do not work as the closed form says. */
#define CS_LINK_ERROR_MAX_FRAC 0.25

enum cs_link_place { CS_LINK_INSIDE, CS_LINK_BETWEEN, CS_N_LINK_PLACES };
extern const char *const cs_link_place_names[]; /* "inside", "between" */

/** What the rows say of the links of one server, or of several that are wired alike. */
struct cs_link_fit {
    const char *server; /* the catalogue's name of the first of them, borrowed from it */
    enum cs_link_place place;
    int32_t n_rows;
    int32_t n_groups;             /* of the cross-validation */
    bool by_size;                 /* they are decades of sizes */
    double catalogue_bytes_per_s; /* of a device, one direction, to all others together */
    double catalogue_latency_s;
    double bytes_per_s; /* fitted, or the catalogue's when it is not determined */
    double latency_s;
    double bandwidth_determined_frac; /* of the prior's variance; 0 = the rows say nothing */
    double latency_determined_frac;
    /* Mean |predicted / measured - 1| of the times. */
    double catalogue_error_frac;
    double error_frac;
    double held_out_frac; /* of rows predicted without their own group; NaN = there is one group */
};

struct cs_link_fits {
    int32_t n;
    struct cs_link_fit items[CS_LINK_FITS_MAX];
    int32_t n_rows;    /* in the file */
    int32_t n_foreign; /* of hardware that is no server of the catalogue, of no collective, or small */
};

/** Fit every server that the file has rows of. Columns are found by name: hardware, n_devices, n_nodes,
 *  collective, bytes, busbw_GBps, source; notes, if there is one. CS_E_INPUT with file and line for a missing
 * column or a number that is none. */
CS_MUST_CHECK cs_status cs_collectives_fit(struct cs_link_fits *fits, const char *path,
                                           const struct cs_testbed *bed, const char *simgrid_cfg,
                                           struct cs_err *err);
/** Does the fit leave so much that none of its figures is to be used? */
bool cs_link_fit_fails(const struct cs_link_fit *fit);
/** Give the testbed's servers the figures that are determined. */
void cs_collectives_apply(const struct cs_link_fits *fits, struct cs_testbed *bed);
/** Is that figure ("intra_bandwidth") of that server one that cs_collectives_apply sets? */
bool cs_collectives_set(const struct cs_link_fits *fits, const char *server, const char *figure);

#endif
