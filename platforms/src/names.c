/* Hash tables for checking a platform file. */
#include "names_priv.h"

#include "cs/base/mem.h"
#include "cs/base/text.h"

#include <string.h>

struct cs_names_slot {
    const char *name; /* NULL = free */
    uint64_t hash;
    int32_t index;
};

static size_t next_cap(size_t cap)
{
    return cap ? cap * 2 : 64;
}

static void names_put(struct cs_names *names, const char *name, uint64_t hash, int32_t index)
{
    size_t at = (size_t)hash & (names->cap - 1);
    while (names->slots[at].name) {
        at = (at + 1) & (names->cap - 1);
    }
    names->slots[at] = (struct cs_names_slot){.name = name, .hash = hash, .index = index};
}

int32_t cs__names_find(const struct cs_names *names, const char *name)
{
    if (names->cap == 0) {
        return -1;
    }
    uint64_t hash = cs_hash_text(CS_HASH_SEED, name);
    for (size_t at = (size_t)hash & (names->cap - 1); names->slots[at].name;
         at = (at + 1) & (names->cap - 1)) {
        if (names->slots[at].hash == hash && strcmp(names->slots[at].name, name) == 0) {
            return names->slots[at].index;
        }
    }
    return -1;
}

void cs__names_add(struct cs_names *names, const char *name, int32_t index)
{
    if (2 * (names->n + 1) > names->cap) {
        struct cs_names grown = {.cap = next_cap(names->cap), .n = names->n};
        grown.slots = cs_calloc(grown.cap, sizeof *grown.slots);
        for (size_t i = 0; i < names->cap; i++) {
            if (names->slots[i].name) {
                names_put(&grown, names->slots[i].name, names->slots[i].hash, names->slots[i].index);
            }
        }
        cs_free(names->slots);
        *names = grown;
    }
    names_put(names, name, cs_hash_text(CS_HASH_SEED, name), index);
    names->n++;
}

void cs__names_release(struct cs_names *names)
{
    cs_free(names->slots);
    *names = (struct cs_names){0};
}

/* Slot of a key, or of the free place where it belongs. */
static size_t pairs_slot(const struct cs_pairs *pairs, uint64_t key)
{
    size_t at = (size_t)cs_hash_mix(CS_HASH_SEED, key) & (pairs->cap - 1);
    while (pairs->slots[at] != 0 && pairs->slots[at] != key) {
        at = (at + 1) & (pairs->cap - 1);
    }
    return at;
}

bool cs__pairs_add(struct cs_pairs *pairs, int32_t a, int32_t b)
{
    if (2 * (pairs->n + 1) > pairs->cap) {
        struct cs_pairs grown = {.cap = next_cap(pairs->cap), .n = pairs->n};
        grown.slots = cs_calloc(grown.cap, sizeof *grown.slots);
        for (size_t i = 0; i < pairs->cap; i++) {
            if (pairs->slots[i] != 0) {
                grown.slots[pairs_slot(&grown, pairs->slots[i])] = pairs->slots[i];
            }
        }
        cs_free(pairs->slots);
        *pairs = grown;
    }
    uint64_t key = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) + 1;
    size_t at = pairs_slot(pairs, key);
    if (pairs->slots[at] == key) {
        return false;
    }
    pairs->slots[at] = key;
    pairs->n++;
    return true;
}

void cs__pairs_release(struct cs_pairs *pairs)
{
    cs_free(pairs->slots);
    *pairs = (struct cs_pairs){0};
}
