#include "cs/base/rng.h"

#include "cs/base/err.h"

#include <math.h>

/* PCG32: M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for
 * Random Number Generation", HMC-CS-2014-0905; XSH-RR output of a 64-bit linear congruential state. */
#define MULTIPLIER UINT64_C(6364136223846793005)
#define TWO_PI 6.283185307179586476925

uint32_t cs_rng_u32(struct cs_rng *rng)
{
    uint64_t old = rng->state;
    rng->state = old * MULTIPLIER + rng->inc;
    uint32_t shifted = (uint32_t)(((old >> 18) ^ old) >> 27);
    uint32_t turn = (uint32_t)(old >> 59);
    return (shifted >> turn) | (shifted << ((32 - turn) & 31));
}

void cs_rng_init(struct cs_rng *rng, uint64_t seed, uint64_t stream)
{
    rng->state = 0;
    rng->inc = (stream << 1) | 1; /* the increment has to be odd */
    (void)cs_rng_u32(rng);
    rng->state += seed;
    (void)cs_rng_u32(rng);
}

uint32_t cs_rng_below(struct cs_rng *rng, uint32_t n)
{
    CS_ASSERT(n > 0);
    /* 2^32 mod n values at the bottom would make some results more likely: draw again. */
    uint32_t unfair = (UINT32_MAX - n + 1) % n;
    uint32_t value;
    do {
        value = cs_rng_u32(rng);
    } while (value < unfair);
    return value % n;
}

double cs_rng_unit(struct cs_rng *rng)
{
    uint64_t high = cs_rng_u32(rng) >> 5; /* 27 bits */
    uint64_t low = cs_rng_u32(rng) >> 6;  /* 26 bits */
    return (double)((high << 26) | low) * 0x1p-53;
}

double cs_rng_normal(struct cs_rng *rng)
{
    double radius = sqrt(-2.0 * log(1.0 - cs_rng_unit(rng))); /* 1 - u is in (0, 1] */
    return radius * cos(TWO_PI * cs_rng_unit(rng));
}
