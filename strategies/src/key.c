#include "cs/strategies/key.h"

#include "cs/base/text.h"

#include <string.h>

static int32_t placement_number(const enum cs_dim placement[CS_N_DIMS])
{
    int32_t number = 0;
    for (int32_t i = CS_N_DIMS - 1; i >= 0; i--) {
        number = number * CS_N_DIMS + (int32_t)placement[i];
    }
    return number;
}

int32_t cs_key_get(const struct cs_strategy *strategy, enum cs_key key)
{
    switch (key) {
    case CS_KEY_DP:
        return strategy->dp;
    case CS_KEY_MP:
        return strategy->mp;
    case CS_KEY_PP:
        return strategy->pp;
    case CS_KEY_OP:
        return strategy->op;
    case CS_KEY_ZERO:
        return strategy->zero;
    case CS_KEY_SP:
        return strategy->sp ? 1 : 0;
    case CS_KEY_CP:
        return strategy->cp;
    case CS_KEY_EP:
        return strategy->ep;
    case CS_KEY_VPP:
        return strategy->vpp;
    case CS_KEY_SCHEDULE:
        return (int32_t)strategy->schedule;
    case CS_KEY_MICRO_BATCH:
        return strategy->micro_batch;
    case CS_KEY_RECOMPUTE:
        return (int32_t)strategy->recompute;
    case CS_KEY_PLACEMENT:
        return placement_number(strategy->placement);
    case CS_KEY_CP_KIND:
        return (int32_t)strategy->cp_kind;
    case CS_KEY_SEQ_SPLIT:
        return strategy->seq_split > 1 ? strategy->seq_split : 1;
    case CS_KEY_HALF_BATCHES:
        return strategy->half_batches > 1 ? strategy->half_batches : 1;
    case CS_KEY_FUSED_TP:
        return strategy->fused_tp ? 1 : 0;
    case CS_KEY_KEEP_COMM:
        return strategy->keep_comm ? 1 : 0;
    case CS_KEY_OFFLOAD_OPTIMIZER:
        return strategy->offload_optimizer ? 1 : 0;
    case CS_KEY_SWAP_ACTIVATIONS:
        return strategy->swap_activations ? 1 : 0;
    case CS_KEY_EXPERT_MP:
        return strategy->expert_mp ? 1 : 0;
    case CS_KEY_KEEP_WEIGHTS:
        return strategy->keep_weights ? 1 : 0;
    case CS_N_KEYS:
        break;
    }
    CS_ASSERT(false && "a key of a strategy");
    return 0;
}

void cs_key_put(struct cs_strategy *strategy, enum cs_key key, int32_t value)
{
    switch (key) {
    case CS_KEY_DP:
        strategy->dp = value;
        return;
    case CS_KEY_MP:
        strategy->mp = value;
        return;
    case CS_KEY_PP:
        strategy->pp = value;
        return;
    case CS_KEY_OP:
        strategy->op = value;
        return;
    case CS_KEY_ZERO:
        strategy->zero = value;
        return;
    case CS_KEY_SP:
        strategy->sp = value != 0;
        return;
    case CS_KEY_CP:
        strategy->cp = value;
        return;
    case CS_KEY_EP:
        strategy->ep = value;
        return;
    case CS_KEY_VPP:
        strategy->vpp = value;
        return;
    case CS_KEY_SCHEDULE:
        strategy->schedule = (enum cs_schedule)value;
        return;
    case CS_KEY_MICRO_BATCH:
        strategy->micro_batch = value;
        return;
    case CS_KEY_RECOMPUTE:
        strategy->recompute = (enum cs_recompute)value;
        return;
    case CS_KEY_PLACEMENT:
        for (int32_t i = 0; i < CS_N_DIMS; i++, value /= CS_N_DIMS) {
            strategy->placement[i] = (enum cs_dim)(value % CS_N_DIMS);
        }
        return;
    case CS_KEY_CP_KIND:
        strategy->cp_kind = (enum cs_cp_kind)value;
        return;
    case CS_KEY_SEQ_SPLIT:
        strategy->seq_split = value;
        return;
    case CS_KEY_HALF_BATCHES:
        strategy->half_batches = value;
        return;
    case CS_KEY_FUSED_TP:
        strategy->fused_tp = value != 0;
        return;
    case CS_KEY_KEEP_COMM:
        strategy->keep_comm = value != 0;
        return;
    case CS_KEY_OFFLOAD_OPTIMIZER:
        strategy->offload_optimizer = value != 0;
        return;
    case CS_KEY_SWAP_ACTIVATIONS:
        strategy->swap_activations = value != 0;
        return;
    case CS_KEY_EXPERT_MP:
        strategy->expert_mp = value != 0;
        return;
    case CS_KEY_KEEP_WEIGHTS:
        strategy->keep_weights = value != 0;
        return;
    case CS_N_KEYS:
        break;
    }
    CS_ASSERT(false && "a key of a strategy");
}

bool cs_key_is_name(enum cs_key key)
{
    return key == CS_KEY_SP || key == CS_KEY_SCHEDULE || key == CS_KEY_RECOMPUTE || key == CS_KEY_PLACEMENT ||
           key == CS_KEY_CP_KIND || key >= CS_KEY_FUSED_TP;
}

struct cs_per_place *cs_key_list(struct cs_strategy *strategy, enum cs_list_key key)
{
    return key == CS_LIST_LAYERS        ? &strategy->layers
           : key == CS_LIST_FULL_LAYERS ? &strategy->full_layers
                                        : &strategy->selective_layers;
}

const struct cs_per_place *cs_key_list_of(const struct cs_strategy *strategy, enum cs_list_key key)
{
    return key == CS_LIST_LAYERS        ? &strategy->layers
           : key == CS_LIST_FULL_LAYERS ? &strategy->full_layers
                                        : &strategy->selective_layers;
}

int32_t cs_key_index(const char *name)
{
    return cs_text_index(strcmp(name, "tp") == 0 ? "mp" : name, cs_strategy_keys);
}

int cs_strategy_compare(const struct cs_strategy *a, const struct cs_strategy *b)
{
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        int32_t x = cs_key_get(a, (enum cs_key)key);
        int32_t y = cs_key_get(b, (enum cs_key)key);
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    for (int32_t key = 0; key < CS_N_LISTS; key++) {
        const struct cs_per_place *x = cs_key_list_of(a, (enum cs_list_key)key);
        const struct cs_per_place *y = cs_key_list_of(b, (enum cs_list_key)key);
        int order = cs_per_place_compare(x, y);
        if (order != 0) {
            return order < 0 ? -1 : 1;
        }
    }
    return 0;
}

/* Activations, micro-batches and the order of ranks do not change what a rank keeps of the model. */
static bool shapes_state(enum cs_key key)
{
    return key != CS_KEY_SP && key != CS_KEY_MICRO_BATCH && key != CS_KEY_RECOMPUTE &&
           (key < CS_KEY_PLACEMENT || key == CS_KEY_OFFLOAD_OPTIMIZER || key == CS_KEY_EXPERT_MP);
}

uint64_t cs_strategy_state_hash(const struct cs_strategy *strategy)
{
    uint64_t hash = CS_HASH_SEED;
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        if (shapes_state((enum cs_key)key)) {
            hash = cs_hash_mix(hash, (uint64_t)cs_key_get(strategy, (enum cs_key)key));
        }
    }
    return cs_hash_bytes(hash, strategy->layers.at, strategy->layers.n * sizeof strategy->layers.at[0]);
}

bool cs_strategy_state_equal(const struct cs_strategy *a, const struct cs_strategy *b)
{
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        if (shapes_state((enum cs_key)key) &&
            cs_key_get(a, (enum cs_key)key) != cs_key_get(b, (enum cs_key)key)) {
            return false;
        }
    }
    return cs_per_place_compare(&a->layers, &b->layers) == 0;
}
