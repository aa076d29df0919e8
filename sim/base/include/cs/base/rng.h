/**
 * @file rng.h
 * Seeded random numbers: PCG32 (XSH-RR 64/32, O'Neill 2014), the same on every machine.
 */
#ifndef CS_BASE_RNG_H
#define CS_BASE_RNG_H

#include <stdint.h>

struct cs_rng {
    uint64_t state;
    uint64_t inc;
};

/** Seed; different streams with the same seed are independent. */
void cs_rng_init(struct cs_rng *rng, uint64_t seed, uint64_t stream);
uint32_t cs_rng_u32(struct cs_rng *rng);
/** Uniform in [0, n), unbiased; n > 0. */
uint32_t cs_rng_below(struct cs_rng *rng, uint32_t n);
/** Uniform in [0, 1), 53 bits. */
double cs_rng_unit(struct cs_rng *rng);
/** Standard normal (Box-Muller, one value a call, no hidden state). */
double cs_rng_normal(struct cs_rng *rng);

#endif
