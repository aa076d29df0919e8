/**
 * @file key.h
 * The keys of a strategy as numbers, so that a search can walk over them.
 *
 * Every key's value is an int32_t: a count, a boolean (0, 1), the index of a name, or for the placement its
 * dimensions as digits to the base CS_N_DIMS, innermost first.
 */
#ifndef CS_STRATEGIES_KEY_H
#define CS_STRATEGIES_KEY_H

#include "cs/workloads/strategy.h"

/** In the order of cs_strategy_keys. */
enum cs_key {
    CS_KEY_DP,
    CS_KEY_MP,
    CS_KEY_PP,
    CS_KEY_OP,
    CS_KEY_ZERO,
    CS_KEY_SP,
    CS_KEY_CP,
    CS_KEY_EP,
    CS_KEY_VPP,
    CS_KEY_SCHEDULE,
    CS_KEY_MICRO_BATCH,
    CS_KEY_RECOMPUTE,
    CS_KEY_PLACEMENT,
    CS_N_KEYS
};

/** A value of op that follows dp: shard over all data-parallel ranks. */
#define CS_VALUE_ALL_DP (-1)

/** Value of a key of a strategy, and back. Pure. `value` must be one that cs_key_get can return. */
int32_t cs_key_get(const struct cs_strategy *strategy, enum cs_key key);
void cs_key_put(struct cs_strategy *strategy, enum cs_key key, int32_t value);
/** Index of a key's name ("tp" is mp), -1 when unknown. */
int32_t cs_key_index(const char *name);
/** Total order of strategies: by the keys in order, each by value. <0, 0, >0. */
int cs_strategy_compare(const struct cs_strategy *a, const struct cs_strategy *b);
/** Order-dependent hash of what the model state of a rank depends on: how the model is cut and sharded. */
uint64_t cs_strategy_state_hash(const struct cs_strategy *strategy);
bool cs_strategy_state_equal(const struct cs_strategy *a, const struct cs_strategy *b);

#endif
