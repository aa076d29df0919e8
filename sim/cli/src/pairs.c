#include "pairs_priv.h"

#include "cs/base/mem.h"

void cs__route_pairs_add(struct cs__route_pairs *pairs, int32_t from, int32_t to)
{
    if (pairs->n == pairs->cap) {
        pairs->cap = pairs->cap ? 2 * pairs->cap : 64;
        pairs->at = cs_reallocarray(pairs->at, (size_t)pairs->cap, 2 * sizeof *pairs->at);
    }
    pairs->at[2 * pairs->n] = from;
    pairs->at[2 * pairs->n + 1] = to;
    pairs->n++;
}
