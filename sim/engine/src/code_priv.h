/**
 * @file code_priv.h
 * Programs translated for replay: what a stream of a rank class has to do, with times filled in.
 */
#ifndef CS_ENGINE_CODE_PRIV_H
#define CS_ENGINE_CODE_PRIV_H

#include "system_priv.h"

enum cs__step_kind {
    CS__STEP_DELAY, /* computing and collectives that concern nobody else */
    CS__STEP_COLLECTIVE,
    CS__STEP_SEND,
    CS__STEP_RECV,
    CS__STEP_RECORD,
    CS__STEP_WAIT
};

/** Where a delay's time goes: one point per operation, all sums from the start of the delay. */
struct cs__point {
    double end_s;
    double computing_s;
    double cross_s;
    int32_t op; /* in the block */
};

struct cs__step {
    enum cs__step_kind kind;
    int32_t arg;   /* collective: shape; send, receive: channel; record, wait: event */
    int32_t op;    /* in the block; the first of a delay */
    int32_t n_ops; /* operations of the program that this step stands for */
    double delay_s;
    double computing_s;
    int64_t bytes;
    double rank_bytes[CS_N_FABRICS]; /* delay: moved by its collectives, per rank */
    int32_t n_points;
    const struct cs__point *points;
};

/** One stream's share of one block. */
struct cs__stream_code {
    int32_t n_steps;
    const struct cs__step *steps;
};

/** Code of one block: one entry per stream of the trace. */
struct cs__code {
    const struct cs__stream_code *streams;
};

struct cs__codebook {
    struct cs_arena arena;
    const struct cs__code **code; /* [rank class * n_blocks + block], NULL where the class never calls it */
};

/** Translate every block that some class calls. With `merge`, runs of computing and of collectives that are
 *  quiet and need no meeting become one delay; without, every operation is a step of its own. Classes that
 *  see the same times share code. */
void cs__codebook_build(struct cs__codebook *book, const struct cs__system *system, bool merge);
void cs__codebook_release(struct cs__codebook *book);

#endif
