/**
 * @file platform.h
 * A platform as a drawing.
 */
#ifndef CS_REPORTS_PLATFORM_H
#define CS_REPORTS_PLATFORM_H

#include "cs/platforms/topology.h"

#include <stdio.h>

/** What SimGrid says about the fabrics, seen from device 0; NaN where there is nothing to see. */
struct cs_platform_figures {
    double intra_bytes_per_s; /* out of the device over all its links inside the node */
    double pair_bytes_per_s;  /* to one neighbour */
    double intra_latency_s;
    double inter_bytes_per_s; /* to a device of another node */
    double inter_latency_s;   /* to the nearest one */
    double far_latency_s;     /* to the farthest one */
    int32_t nic_devices;    /* of its node that have one network adapter with it, itself included; 1 = none */
    bool inter_half_duplex; /* what goes there and what comes from there share the rate */
};

/** Draw a platform: one node with its devices and links, and how nodes are joined, as far as its description
 * (NULL: none is known) says; large clusters are drawn in part and say so. */
void cs_report_platform_svg(FILE *out, const struct cs_platform *platform,
                            const struct cs_topology_spec *spec, const struct cs_platform_figures *figures);

#endif
