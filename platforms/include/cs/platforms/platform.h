/**
 * @file platform.h
 * A platform: SimGrid XML as the simulator sees it.
 *
 * A host with a `chip` property is a device (an NPU); its place in the file is its rank. Properties of a
 * device: chip (catalogue name), node (index of its server), memory (with unit), nic (host that carries
 * its traffic between nodes; left out: the device itself), adapter (index in its node of the network adapter
 * that it shares with its neighbours; left out: none is shared). Properties of the root zone: name, topology,
 * and whatever a report may show. Everything is checked here with file and line before SimGrid sees it,
 * because an error in SimGrid is the end of the process.
 */
#ifndef CS_PLATFORMS_PLATFORM_H
#define CS_PLATFORMS_PLATFORM_H

#include "cs/platforms/chip.h"

struct cs_device {
    const char *host;     /* SimGrid host that computes and ends intra-node routes */
    const char *nic_host; /* SimGrid host that ends inter-node routes; == host when it is the same */
    int32_t line;         /* of the host in the file */
    int32_t node;
    int32_t index;              /* within its node */
    int32_t adapter;            /* of its node, that it shares; -1 = it shares none (see CS_ALGO_RINGS) */
    double memory_bytes;        /* of the `memory` property, else the chip's */
    const struct cs_chip *chip; /* owned by the catalogue */
};

/** A property of the root zone: what the file says about itself ("intra_bandwidth" = "196GBps"). */
struct cs_platform_prop {
    const char *id;
    const char *value;
};

/** Open record in its own arena. Devices are in rank order; nodes are numbered 0..n_nodes-1. */
struct cs_platform {
    struct cs_arena arena;
    const char *name;     /* root zone's `name` property, else the file's base name */
    const char *xml_path; /* readable file for SimGrid */
    const char *topology; /* "fat-tree", "rail", ...; "custom" when the file does not say */
    const char *intra;    /* "mesh", "switch", "bus", "custom" */
    int32_t n_devices;
    int32_t n_nodes;
    int32_t devices_per_node; /* of the largest node */
    bool uniform;             /* all nodes have as many devices and all devices the same chip */
    struct cs_device *devices;
    int32_t n_props;
    const struct cs_platform_prop *props; /* of the root zone, in file order */
    int64_t n_links;       /* declared in the file (clusters expanded by SimGrid not counted) */
    uint64_t content_hash; /* of the file's bytes, for result stores */
};

/** Read and check a platform file. The catalogue is borrowed and must outlive the platform. CS_E_INPUT with
 *  file and line for anything SimGrid or the simulator would trip over: broken XML, DTD or entity tricks,
 *  unknown elements or attributes, bad units (SimGrid's spelling: kBps, not KBps), duplicate or dangling
 *  names, elements out of order, no device, unknown chip, nodes with gaps, missing memory. */
CS_MUST_CHECK cs_status cs_platform_load(struct cs_platform *platform, const char *xml_path,
                                         const struct cs_catalogue *catalogue, struct cs_err *err);
void cs_platform_release(struct cs_platform *platform);

static inline bool cs_platform_same_node(const struct cs_platform *p, int32_t a, int32_t b)
{
    return p->devices[a].node == p->devices[b].node;
}

/** Which SimGrid hosts carry traffic from device a to device b: their own inside a node, their NICs across.
 */
static inline const char *cs_platform_endpoint(const struct cs_platform *p, int32_t dev, int32_t other)
{
    return cs_platform_same_node(p, dev, other) ? p->devices[dev].host : p->devices[dev].nic_host;
}

#endif
