/**
 * @file algorithms_priv.h
 * Flat collective algorithms: phases of flows among positions 0..g-1.
 */
#ifndef CS_ENGINE_ALGORITHMS_PRIV_H
#define CS_ENGINE_ALGORITHMS_PRIV_H

#include "cs/engine/collective.h"

/** Receives the flows of one phase. */
struct cs__flow_sink {
    void (*flow)(void *context, int32_t src, int32_t dst, double bytes);
    void *context;
};

/** One flat algorithm. */
struct cs__flat {
    /** NULL when it can do `coll` among g members, else why not. */
    const char *(*refuses)(enum cs_coll coll, int32_t g);
    int32_t (*n_phases)(enum cs_coll coll, int32_t g);
    /** Emit the flows of one phase for a collective over `bytes`; returns the number of rounds. */
    int32_t (*phase)(enum cs_coll coll, int32_t g, int32_t phase, double bytes,
                     const struct cs__flow_sink *sink);
};

/** NULL for auto and the hierarchical forms. */
const struct cs__flat *cs__flat_algorithm(enum cs_algorithm algorithm);

#endif
