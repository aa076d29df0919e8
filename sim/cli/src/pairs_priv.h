/* Device pairs whose routes are asked for. */
#ifndef CS_CLI_PAIRS_PRIV_H
#define CS_CLI_PAIRS_PRIV_H

#include <stdint.h>

/** Zero-initialised is empty. */
struct cs__route_pairs {
    int64_t n;
    int64_t cap;
    int32_t *at; /* 2 n device numbers, to be freed with cs_free */
};
void cs__route_pairs_add(struct cs__route_pairs *pairs, int32_t from, int32_t to);

#endif
