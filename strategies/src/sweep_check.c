/* What would make a sweep say something false: values without effect. */
#include "cs/strategies/sweep.h"

#include "study_priv.h"

#include <string.h>

static cs_status swept_and_set(struct cs_sweep *sweep, const struct cs_sweep_axis *axis, const char *key,
                               struct cs_err *err)
{
    return cs_err_set(
        err, CS_E_INPUT, axis->loc,
        "'strategy.%s' is swept here, but the fixed strategy (%s) sets '%s' at every point: leave "
        "one of them out",
        key, cs__place(&sweep->arena, sweep->strategy_loc), cs_strategy_keys[cs_key_index(key)]);
}

/* Does the fixed strategy, which sets the keys of `mask`, set this one? */
static bool sets(uint32_t mask, const char *key)
{
    int32_t index = cs_key_index(key);
    return index >= 0 && (mask & (UINT32_C(1) << index)) != 0;
}

/* The keys of a whole strategy block that is a value of the axis. */
static cs_status check_block(struct cs_sweep *sweep, const struct cs_sweep_axis *axis, int32_t value,
                             uint32_t mask, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *tree = axis->trees ? axis->trees[value] : NULL;
    if (!tree) {
        CS_TRY(cs__yaml_value(&sweep->arena, "strategy", axis->values[value], axis->loc, &tree, err));
    }
    for (int32_t i = 0; tree->kind == CS_YAML_MAP && i < tree->n; i++) {
        if (sets(mask, tree->keys[i]->text)) {
            return swept_and_set(sweep, axis, tree->keys[i]->text, err);
        }
    }
out:
    return st;
}

cs_status cs_sweep_check_strategy(struct cs_sweep *sweep, struct cs_err *err)
{
    static const char block[] = "strategy";
    const size_t block_len = sizeof block - 1;
    cs_status st = CS_OK;
    struct cs_strategy fixed;
    uint32_t mask = 0;
    if (!sweep->strategy) {
        return CS_OK;
    }
    cs_strategy_init(&fixed);
    CS_TRY(cs_strategy_parse(sweep->strategy, sweep->strategy_loc, &fixed, &mask, err));
    for (int32_t a = 0; a < sweep->n_axes; a++) {
        const struct cs_sweep_axis *axis = &sweep->axes[a];
        for (int32_t k = 0; k < axis->n_keys; k++) {
            const char *key = axis->keys[k];
            if (strcmp(key, block) == 0) {
                for (int32_t v = 0; v < axis->n; v++) {
                    CS_TRY(check_block(sweep, axis, v * axis->n_keys + k, mask, err));
                }
            } else if (strncmp(key, block, block_len) == 0 && key[block_len] == '.' &&
                       sets(mask, key + block_len + 1)) {
                return swept_and_set(sweep, axis, key + block_len + 1, err);
            }
        }
    }
out:
    return st;
}
