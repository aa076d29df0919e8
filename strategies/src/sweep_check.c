/* What would make a sweep say something false: values without effect. */
#include "cs/strategies/sweep.h"

#include "points_priv.h"
#include "study_priv.h"

#include "cs/base/units.h"

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

/* ---- two spellings of one value ---- */

static bool all_numbers(const struct cs_sweep_axis *axis, int32_t value)
{
    double number = 0;
    for (int32_t k = 0; k < axis->n_keys; k++) {
        if (cs_real_parse(axis->values[value * axis->n_keys + k], "a value", CS_NOLOC, &number, NULL) !=
            CS_OK) {
            return false;
        }
    }
    return true;
}

/* "a:b" of texts that belong together. */
static const char *joined(struct cs_arena *arena, const char *const *texts, int32_t n, const char *separator)
{
    const char *all = texts[0];
    for (int32_t i = 1; i < n; i++) {
        all = cs_arena_printf(arena, "%s%s%s", all, separator, texts[i]);
    }
    return all;
}

static cs_status same_values(struct cs_sweep *sweep, const struct cs_sweep_axis *axis, int32_t a, int32_t b,
                             struct cs_err *err)
{
    int32_t n = axis->n_keys;
    return cs_err_set(err, CS_E_INPUT, axis->loc,
                      "'%s' is swept over '%s' and '%s', but the values mean the same (values %d and %d)",
                      joined(&sweep->arena, axis->keys, n, ","),
                      joined(&sweep->arena, axis->values + a * n, n, ":"),
                      joined(&sweep->arena, axis->values + b * n, n, ":"), (int)a + 1, (int)b + 1);
}

/* A value that another spelling may mean. */
struct spelled {
    int32_t value;
    uint64_t key; /* of the study that it makes */
};

static cs_status check_axis(struct cs_sweep *sweep, int32_t at, const struct cs_point_spec *specs,
                            const struct cs_points_options *options, struct spelled *spelled,
                            struct cs_err *err)
{
    const struct cs_sweep_axis *axis = &sweep->axes[at];
    int32_t n = 0;
    int32_t step = 1; /* points from one value to the next */
    for (int32_t a = at + 1; a < sweep->n_axes; a++) {
        step *= sweep->axes[a].n;
    }
    for (int32_t v = 0; v < axis->n; v++) {
        struct cs_study study = {0};
        if (all_numbers(axis, v)) {
            continue;
        }
        if (cs__point_load(&study, options, &specs[v * step], NULL, NULL) == CS_OK) {
            spelled[n++] = (struct spelled){v, cs__point_key(&study, options)};
        } /* what is no study is refused as a point */
        cs_study_release(&study);
        for (int32_t i = 0; i + 1 < n && spelled[n - 1].value == v; i++) {
            if (spelled[i].key == spelled[n - 1].key) {
                return same_values(sweep, axis, spelled[i].value, v, err);
            }
        }
    }
    return CS_OK;
}

/* Of a strategy on the command line, beside --set. What is no study is refused as a point. */
static cs_status check_once(const struct cs_sweep *sweep, const struct cs_point_spec *spec,
                            const struct cs_points_options *options, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_study study = {0};
    const char *file = sweep->strategy_loc.file;
    if (sweep->strategy && file && strcmp(file, CS__COMMAND_LINE) == 0 &&
        cs__point_load(&study, options, spec, NULL, NULL) == CS_OK) {
        st = cs_study_said_once(&study, sweep->strategy, err);
    }
    cs_study_release(&study);
    return st;
}

cs_status cs_sweep_check_same(struct cs_sweep *sweep, const struct cs_points_options *options,
                              struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_point_spec *specs = cs_sweep_specs(sweep);
    struct spelled *spelled = cs_calloc(CS_SWEEP_POINTS_MAX, sizeof *spelled);
    CS_TRY(check_once(sweep, &specs[0], options, err));
    for (int32_t a = 0; a < sweep->n_axes; a++) {
        CS_TRY(check_axis(sweep, a, specs, options, spelled, err));
    }
out:
    cs_free(spelled);
    return st;
}
