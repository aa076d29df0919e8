/* Hash tables for checking a platform file: names to indices, and sets of pairs. */
#ifndef CS_PLATFORMS_NAMES_PRIV_H
#define CS_PLATFORMS_NAMES_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names to indices. Zero-initialised is empty; the names are borrowed. */
struct cs_names {
    struct cs_names_slot *slots; /* open addressing, power of two */
    size_t cap;
    size_t n;
};
/* Index of a name, -1 when absent. */
int32_t cs__names_find(const struct cs_names *names, const char *name);
/* Add a name that is absent. */
void cs__names_add(struct cs_names *names, const char *name, int32_t index);
void cs__names_release(struct cs_names *names);

/* Set of pairs of indices >= 0. Zero-initialised is empty. */
struct cs_pairs {
    uint64_t *slots; /* 0 = free */
    size_t cap;
    size_t n;
};
/* Add a pair; false when it was there. */
bool cs__pairs_add(struct cs_pairs *pairs, int32_t a, int32_t b);
void cs__pairs_release(struct cs_pairs *pairs);

#endif
