/**
 * @file handmade.h
 * Pipeline traces written out by hand, independent of the generator in workloads/.
 */
#ifndef CS_TESTS_UNIT_HANDMADE_H
#define CS_TESTS_UNIT_HANDMADE_H

#include "cs/workloads/trace.h"

/** Ranks = mp * dp * pp, mp innermost. Every stage computes forward_flop, then backward_flop per micro-batch
 *  in two halves with a tensor-parallel all-reduce of mp_bytes between them; boundaries carry pp_bytes; after
 *  the first half of the last backward pass dp_bytes of gradients are reduced beside the second half. */
struct handmade {
    int32_t mp, dp, pp, m;
    bool gpipe;
    double forward_flop, backward_flop;
    int64_t mp_bytes, pp_bytes, dp_bytes;
};

/** A trace in its own arena; the caller frees with handmade_free. */
struct cs_trace *handmade_trace(const struct handmade *shape);
void handmade_free(struct cs_trace *trace);

#endif
