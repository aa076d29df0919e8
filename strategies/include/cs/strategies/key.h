/**
 * @file key.h
 * The keys of a strategy as numbers, so that a search can walk over them.
 *
 * Every key's value but those of lists is an int32_t: a count, a boolean (0, 1), the index of a name, or for
 * the placement its dimensions as digits to the base CS_N_DIMS, innermost first.
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
    CS_KEY_CP_KIND,
    CS_KEY_SEQ_SPLIT,
    CS_KEY_HALF_BATCHES,
    CS_KEY_FUSED_TP,
    CS_KEY_KEEP_COMM,
    CS_KEY_OFFLOAD_OPTIMIZER,
    CS_KEY_SWAP_ACTIVATIONS,
    CS_KEY_EXPERT_MP,
    CS_KEY_KEEP_WEIGHTS,
    CS_N_KEYS
};
/** Keys behind this one are seldom used: reports leave them out where they are at their default. */
#define CS_KEY_USUAL_LAST CS_KEY_PLACEMENT

/** The keys that are a number for each place of the model; their names follow in cs_strategy_keys. */
enum cs_list_key { CS_LIST_LAYERS, CS_LIST_FULL_LAYERS, CS_LIST_SELECTIVE_LAYERS, CS_N_LISTS };

/** A value of op that follows dp: shard over all data-parallel ranks. */
#define CS_VALUE_ALL_DP (-1)

/** Value of a key of a strategy, and back. Pure. `value` must be one that cs_key_get can return. */
int32_t cs_key_get(const struct cs_strategy *strategy, enum cs_key key);
void cs_key_put(struct cs_strategy *strategy, enum cs_key key, int32_t value);
/** Is a value of the key a name, or yes and no, without an order? */
bool cs_key_is_name(enum cs_key key);
/** The list of a strategy, to read or to change. */
struct cs_per_place *cs_key_list(struct cs_strategy *strategy, enum cs_list_key key);
const struct cs_per_place *cs_key_list_of(const struct cs_strategy *strategy, enum cs_list_key key);
/** Index of a key's name ("tp" is mp), CS_N_KEYS + enum cs_list_key for a list; -1 when unknown. */
int32_t cs_key_index(const char *name);
/** Total order of strategies: by the keys in order, each by value, then by the lists. <0, 0, >0. */
int cs_strategy_compare(const struct cs_strategy *a, const struct cs_strategy *b);
/** Order-dependent hash of what the model state of a rank depends on: how the model is cut and sharded. */
uint64_t cs_strategy_state_hash(const struct cs_strategy *strategy);
bool cs_strategy_state_equal(const struct cs_strategy *a, const struct cs_strategy *b);

#endif
