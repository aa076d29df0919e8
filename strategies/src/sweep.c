#include "cs/strategies/sweep.h"

#include "cs/base/text.h"
#include "study_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Short names of keys that are swept often. */
static const char *const short_names[][2] = {
    {"nodes", "platform.nodes"},
    {"devices", "platform.devices"},
    {"topology", "platform.topology"},
    {"ratio", "platform.ratio"},
    {"oversubscription", "platform.oversubscription"},
    {"chip", "platform.chip"},
    {"server", "platform.server"},
    {"seq_length", "training.seq_length"},
    {"global_batch", "training.global_batch"},
};

static const char *full_key(struct cs_arena *arena, const char *key)
{
    for (int32_t i = 0; i < CS_COUNT(short_names); i++) {
        if (strcmp(short_names[i][0], key) == 0) {
            return short_names[i][1];
        }
    }
    return cs_arena_strdup(arena, key);
}

/* The part of `text` up to one of `ends`, without spaces around; *rest is behind that end, NULL at the end.
 */
static const char *take_part(struct cs_arena *arena, const char *text, char end, const char **rest)
{
    int depth = 0;
    size_t len = 0;
    for (; text[len] && (depth > 0 || text[len] != end); len++) {
        depth += text[len] == '[' || text[len] == '{' ? 1 : text[len] == ']' || text[len] == '}' ? -1 : 0;
    }
    *rest = text[len] ? text + len + 1 : NULL;
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    return cs_arena_strndup(arena, text, len);
}

static cs_status set_keys(struct cs_sweep *sweep, struct cs_sweep_axis *axis, const char *keys,
                          struct cs_loc loc, struct cs_err *err)
{
    for (const char *at = keys; at;) {
        const char *key = take_part(&sweep->arena, at, ',', &at);
        if (key[0] == '\0' || axis->n_keys == CS_SWEEP_KEYS_MAX) {
            return cs_err_set(err, CS_E_INPUT, loc, "'%s': expected one to %d keys, separated by commas",
                              keys, CS_SWEEP_KEYS_MAX);
        }
        axis->keys[axis->n_keys++] = full_key(&sweep->arena, key);
    }
    return CS_OK;
}

struct range {
    double from, to, step;
    bool factor;
};

/* "1..20", "1..20+2", "64..4096*2" */
static bool read_range(struct cs_arena *arena, const char *text, struct range *range)
{
    const char *dots = strstr(text, "..");
    if (!dots) {
        return false;
    }
    size_t to_len = strcspn(dots + 2, "+*");
    const char *from = cs_arena_strndup(arena, text, (size_t)(dots - text));
    const char *to = cs_arena_strndup(arena, dots + 2, to_len);
    const char *step = dots + 2 + to_len;
    *range = (struct range){.step = 1, .factor = *step == '*'};
    return cs_real_parse(from, "range", CS_NOLOC, &range->from, NULL) == CS_OK &&
           cs_real_parse(to, "range", CS_NOLOC, &range->to, NULL) == CS_OK &&
           (*step == '\0' || cs_real_parse(step + 1, "range", CS_NOLOC, &range->step, NULL) == CS_OK);
}

static void add_value(struct cs_sweep_axis *axis, const char *value, int32_t *cap)
{
    int32_t at = axis->n;
    CS_GROW(axis->values, at, *cap);
    axis->values[axis->n++] = value;
}

static cs_status expand_range(struct cs_sweep *sweep, struct cs_sweep_axis *axis, const char *text,
                              int32_t *cap, struct cs_loc loc, struct cs_err *err)
{
    struct range range;
    bool good = read_range(&sweep->arena, text, &range) && axis->n_keys == 1 && range.from <= range.to &&
                (range.factor ? range.step > 1 && range.from > 0 : range.step > 0);
    if (!good) {
        return cs_err_set(
            err, CS_E_INPUT, loc,
            "'%s': expected FROM..TO of one key, with +STEP or *FACTOR behind, as in 64..4096*2", text);
    }
    double count =
        range.factor ? log(range.to / range.from) / log(range.step) : (range.to - range.from) / range.step;
    if (!(count < CS_SWEEP_POINTS_MAX)) {
        return cs_err_set(err, CS_E_LIMIT, loc, "'%s' is more than %d values", text, CS_SWEEP_POINTS_MAX);
    }
    for (int32_t i = 0; i <= (int32_t)floor(count + 1e-9); i++) {
        double value = range.factor ? range.from * pow(range.step, i) : range.from + i * range.step;
        double whole = nearbyint(value); /* powers of whole numbers stay whole */
        value = fabs(value - whole) < 1e-9 * fabs(value) ? whole : value;
        add_value(axis, cs_arena_printf(&sweep->arena, "%.12g", value), cap);
    }
    return CS_OK;
}

/* One value of the axis: "8", or "8:256" for two keys. */
static cs_status add_tuple(struct cs_sweep *sweep, struct cs_sweep_axis *axis, const char *text, int32_t *cap,
                           struct cs_loc loc, struct cs_err *err)
{
    int32_t n = 0;
    if (axis->n_keys == 1) {
        add_value(axis, text, cap);
        n = text[0] ? 1 : 0;
    } else {
        const char *at = text;
        do {
            const char *part = take_part(&sweep->arena, at, ':', &at);
            n = part[0] ? n + 1 : axis->n_keys + 1;
            add_value(axis, part, cap);
        } while (at && n < axis->n_keys);
        n = at ? axis->n_keys + 1 : n;
    }
    return n == axis->n_keys
               ? CS_OK
               : cs_err_set(err, CS_E_INPUT, loc, "'%s' is not %d value%s%s", text, (int)axis->n_keys,
                            axis->n_keys == 1 ? "" : "s", axis->n_keys == 1 ? "" : " separated by colons");
}

static bool same_keys(const struct cs_sweep_axis *a, const struct cs_sweep_axis *b)
{
    bool same = a->n_keys == b->n_keys;
    for (int32_t i = 0; i < a->n_keys && same; i++) {
        same = strcmp(a->keys[i], b->keys[i]) == 0;
    }
    return same;
}

/* Put a finished axis (its values on the heap, counted one by one) into the sweep. */
static cs_status keep_axis(struct cs_sweep *sweep, struct cs_sweep_axis *axis, struct cs_loc loc,
                           struct cs_err *err)
{
    int64_t n_points = 1;
    int32_t at = 0;
    axis->values = cs_arena_memdup(&sweep->arena, axis->values, (size_t)axis->n * sizeof *axis->values);
    axis->n /= axis->n_keys;
    while (at < sweep->n_axes && !same_keys(&sweep->axes[at], axis)) {
        at++;
    }
    if (at == CS_SWEEP_AXES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, loc, "more than %d swept keys", CS_SWEEP_AXES_MAX);
    }
    for (int32_t i = 0; i < sweep->n_axes; i++) {
        n_points *= i == at ? 1 : sweep->axes[i].n;
    }
    if (n_points * axis->n > CS_SWEEP_POINTS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, loc, "the sweep has more than %d points", CS_SWEEP_POINTS_MAX);
    }
    sweep->axes[at] = *axis;
    sweep->n_axes += at == sweep->n_axes;
    return CS_OK;
}

cs_status cs_sweep_add(struct cs_sweep *sweep, const char *text, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_sweep_axis axis = {0};
    int32_t cap = 0;
    const char **heap = NULL;
    const char *equals = strchr(text, '=');
    if (!equals || equals[1] == '\0') {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "'%s': expected KEY=LIST, as in nodes=8,16,32 or ratio=1..20+1", text);
    }
    CS_TRY(set_keys(sweep, &axis, cs_arena_strndup(&sweep->arena, text, (size_t)(equals - text)), loc, err));
    if (strstr(equals + 1, "..") && !strchr(equals + 1, ',')) {
        CS_TRY(expand_range(sweep, &axis, equals + 1, &cap, loc, err));
    } else {
        const char *at = equals + 1;
        do {
            const char *value = take_part(&sweep->arena, at, ',', &at);
            CS_TRY(add_tuple(sweep, &axis, value, &cap, loc, err));
        } while (at);
    }
    heap = axis.values;
    CS_TRY(keep_axis(sweep, &axis, loc, err));
out:
    cs_free(heap ? heap : axis.values);
    return st;
}

/* ---- the study's block ---- */

/* A value as text that reads as the same YAML. */
static cs_status add_node(struct cs_sweep *sweep, struct cs_sweep_axis *axis, const struct cs_yaml_node *node,
                          int32_t *cap, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (axis->n_keys == 1) {
        CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, "a swept value", err));
        add_value(axis, cs_arena_strdup(&sweep->arena, node->text), cap);
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(node, CS_YAML_LIST, "values of keys that move together", err));
    if (node->n != axis->n_keys) {
        return cs_err_set(err, CS_E_INPUT, node->loc, "%d values for %d keys", (int)node->n,
                          (int)axis->n_keys);
    }
    for (int32_t i = 0; i < node->n; i++) {
        CS_TRY(cs_yaml_want(node->items[i], CS_YAML_SCALAR, "a swept value", err));
        add_value(axis, cs_arena_strdup(&sweep->arena, node->items[i]->text), cap);
    }
out:
    return st;
}

static cs_status read_axis(struct cs_sweep *sweep, const struct cs_yaml_node *key,
                           const struct cs_yaml_node *values, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_sweep_axis axis = {0};
    int32_t cap = 0;
    const char **heap = NULL;
    if (values->kind == CS_YAML_SCALAR) {
        return cs_sweep_add(sweep, cs_arena_printf(&sweep->arena, "%s=%s", key->text, values->text),
                            values->loc, err);
    }
    CS_TRY(cs_yaml_want(values, CS_YAML_LIST, key->text, err));
    if (values->n == 0) {
        return cs_err_set(err, CS_E_INPUT, values->loc, "'%s' is swept over no value", key->text);
    }
    CS_TRY(set_keys(sweep, &axis, key->text, key->loc, err));
    for (int32_t i = 0; i < values->n; i++) {
        CS_TRY(add_node(sweep, &axis, values->items[i], &cap, err));
    }
    heap = axis.values;
    CS_TRY(keep_axis(sweep, &axis, key->loc, err));
out:
    cs_free(heap ? heap : axis.values);
    return st;
}

cs_status cs_sweep_read(struct cs_sweep *sweep, const struct cs_study_source *source, struct cs_err *err)
{
    static const char *const allowed[] = {"over", "strategy", "upgrades", NULL};
    cs_status st = CS_OK;
    struct cs_study study = {0};
    const struct cs_yaml_node *root = NULL;
    const struct cs_yaml_node *block = NULL;
    const struct cs_yaml_node *over = NULL;
    const char *strategy = NULL;
    sweep->upgrades = true;
    CS_TRY(cs__study_tree(&study, source, &root, err));
    block = cs_yaml_get(root, "sweep");
    if (!block) {
        goto out;
    }
    CS_TRY(cs_yaml_want(block, CS_YAML_MAP, "sweep", err));
    CS_TRY(cs_yaml_check_keys(block, allowed, "sweep", err));
    CS_TRY(cs_yaml_opt_bool(block, "upgrades", &sweep->upgrades, err));
    CS_TRY(cs_yaml_opt_text(block, "strategy", &strategy, err));
    if (strategy && strcmp(strategy, "best") != 0) {
        sweep->strategy = cs_arena_strdup(&sweep->arena, strategy);
    }
    over = cs_yaml_get(block, "over");
    if (over) {
        CS_TRY(cs_yaml_want(over, CS_YAML_MAP, "over", err));
        for (int32_t i = 0; i < over->n; i++) {
            CS_TRY(read_axis(sweep, over->keys[i], over->items[i], err));
        }
    }
out:
    cs_study_release(&study);
    return st;
}

void cs_sweep_release(struct cs_sweep *sweep)
{
    cs_arena_release(&sweep->arena);
    *sweep = (struct cs_sweep){0};
}

/* ---- points ---- */

int32_t cs_sweep_n_points(const struct cs_sweep *sweep)
{
    int32_t n = 1;
    for (int32_t a = 0; a < sweep->n_axes; a++) {
        n *= sweep->axes[a].n;
    }
    return n;
}

static int32_t stride(const struct cs_sweep *sweep, int32_t axis)
{
    int32_t n = 1;
    for (int32_t a = axis + 1; a < sweep->n_axes; a++) {
        n *= sweep->axes[a].n;
    }
    return n;
}

int32_t cs_sweep_value(const struct cs_sweep *sweep, int32_t point, int32_t axis)
{
    return point / stride(sweep, axis) % sweep->axes[axis].n;
}

const struct cs_point_spec *cs_sweep_specs(struct cs_sweep *sweep)
{
    int32_t n = cs_sweep_n_points(sweep);
    struct cs_point_spec *specs = CS_ARENA_NEW(&sweep->arena, struct cs_point_spec, n);
    int32_t n_keys = 0;
    for (int32_t a = 0; a < sweep->n_axes; a++) {
        n_keys += sweep->axes[a].n_keys;
    }
    for (int32_t p = 0; p < n; p++) {
        struct cs_override *list = CS_ARENA_NEW(&sweep->arena, struct cs_override, n_keys + 1);
        int32_t at = 0;
        for (int32_t a = 0; a < sweep->n_axes; a++) {
            const struct cs_sweep_axis *axis = &sweep->axes[a];
            const char *const *values = axis->values + cs_sweep_value(sweep, p, a) * axis->n_keys;
            for (int32_t k = 0; k < axis->n_keys; k++) {
                list[at++] = (struct cs_override){axis->keys[k], values[k], false};
            }
        }
        specs[p] = (struct cs_point_spec){n_keys, list};
    }
    return specs;
}

/* Points that a user could not tell apart. */
static bool alike(const struct cs_point *a, const struct cs_point *b)
{
    if (a->outcome != b->outcome || a->simulated != b->simulated) {
        return false;
    }
    double x_s = a->metrics.iteration_s;
    double y_s = b->metrics.iteration_s;
    return !a->simulated ||
           (cs_strategy_equal(&a->strategy, &b->strategy) && fabs(x_s - y_s) <= 1e-9 * fmax(x_s, y_s));
}

bool cs_sweep_axis_matters(const struct cs_sweep *sweep, const struct cs_point *points, int32_t axis)
{
    int32_t n = cs_sweep_n_points(sweep);
    int32_t step = stride(sweep, axis);
    for (int32_t p = 0; p < n; p++) {
        if (cs_sweep_value(sweep, p, axis) > 0 && !alike(&points[p], &points[p - step])) {
            return true;
        }
    }
    return false;
}

int32_t cs_sweep_best(const struct cs_point *points, int32_t n)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        if (points[i].outcome == CS_OUTCOME_OK &&
            (best < 0 || points[i].metrics.tokens_per_s / points[i].n_devices >
                             points[best].metrics.tokens_per_s / points[best].n_devices)) {
            best = i;
        }
    }
    return best;
}
