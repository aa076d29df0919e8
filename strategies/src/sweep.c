#include "cs/strategies/sweep.h"

#include "cs/base/text.h"
#include "study_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Blocks that no point depends on. */
static bool is_no_axis(const char *key)
{
    size_t block = strcspn(key, ".");
    return (block == 4 && strncmp(key, "plan", 4) == 0) || (block == 5 && strncmp(key, "sweep", 5) == 0);
}

/* Are two keys of a study one: the same, or two names of one key of a strategy? */
static bool same_key(const char *a, const char *b)
{
    static const char block[] = "strategy.";
    size_t n = sizeof block - 1;
    if (strncmp(a, block, n) == 0 && strncmp(b, block, n) == 0) {
        int32_t key = cs_key_index(a + n);
        return key >= 0 ? key == cs_key_index(b + n) : strcmp(a, b) == 0;
    }
    return strcmp(a, b) == 0;
}

/* Does setting `outer` undo what `inner` sets: "platform" and "platform.nodes"? */
static bool holds(const char *outer, const char *inner)
{
    size_t len = strlen(outer);
    return strncmp(outer, inner, len) == 0 && inner[len] == '.';
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
        key = full_key(&sweep->arena, key);
        if (is_no_axis(key)) {
            return cs_err_set(err, CS_E_INPUT, loc, "'%s' cannot be swept: no point of a sweep depends on it",
                              key);
        }
        for (int32_t i = 0; i < axis->n_keys; i++) {
            if (same_key(axis->keys[i], key)) {
                return cs_err_set(err, CS_E_INPUT, loc, "'%s' is there twice among the keys '%s'", key, keys);
            }
        }
        axis->keys[axis->n_keys++] = key;
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

struct value {
    const char *text; /* numbers in one spelling */
    int32_t at;
};

static int compare_values(const void *a, const void *b)
{
    const struct value *x = a;
    const struct value *y = b;
    int order = strcmp(x->text, y->text);
    return order != 0 ? order : x->at - y->at;
}

/* Points that would be the same study. `axis->n` counts points. */
static cs_status check_values(struct cs_sweep *sweep, const struct cs_sweep_axis *axis, struct cs_loc loc,
                              struct cs_err *err)
{
    struct value *sorted = CS_ARENA_NEW(&sweep->arena, struct value, axis->n);
    for (int32_t v = 0; v < axis->n; v++) {
        struct cs_strbuf text = {0};
        for (int32_t k = 0; k < axis->n_keys; k++) {
            const char *value = axis->values[v * axis->n_keys + k];
            double number = 0;
            if (cs_real_parse(value, "a value", CS_NOLOC, &number, NULL) == CS_OK) {
                cs_strbuf_addf(&text, "%.17g:", number);
            } else {
                cs_strbuf_addf(&text, "%s:", value);
            }
        }
        sorted[v] = (struct value){cs_arena_strdup(&sweep->arena, cs_strbuf_str(&text)), v};
        cs_strbuf_release(&text);
    }
    qsort(sorted, (size_t)axis->n, sizeof *sorted, compare_values);
    for (int32_t i = 1; i < axis->n; i++) {
        if (strcmp(sorted[i - 1].text, sorted[i].text) == 0) {
            return cs_err_set(err, CS_E_INPUT, loc, "'%s' is swept over '%s' twice (values %d and %d)",
                              axis->keys[0], axis->values[sorted[i].at * axis->n_keys],
                              (int)sorted[i - 1].at + 1, (int)sorted[i].at + 1);
        }
    }
    return CS_OK;
}

/* Which earlier axis the new one replaces: one of the same keys that the study has and the command line gives
 * anew. sweep->n_axes when it replaces none; an error when a key would be set twice. */
static cs_status find_place(const struct cs_sweep *sweep, const struct cs_sweep_axis *axis, int32_t *at,
                            struct cs_loc loc, struct cs_err *err)
{
    *at = sweep->n_axes;
    for (int32_t i = 0; i < sweep->n_axes; i++) {
        const struct cs_sweep_axis *old = &sweep->axes[i];
        int32_t n_same = 0;
        const char *twice = NULL;
        for (int32_t k = 0; k < axis->n_keys; k++) {
            for (int32_t o = 0; o < old->n_keys; o++) {
                if (same_key(axis->keys[k], old->keys[o])) {
                    n_same++;
                    twice = axis->keys[k];
                } else if (holds(axis->keys[k], old->keys[o])) {
                    return cs_err_set(err, CS_E_INPUT, loc,
                                      "'%s' would undo '%s', which is swept before it: give it first",
                                      axis->keys[k], old->keys[o]);
                }
            }
        }
        if (twice && old->from_study && !axis->from_study && n_same == axis->n_keys &&
            n_same == old->n_keys) {
            *at = i;
        } else if (twice) {
            return cs_err_set(err, CS_E_INPUT, loc,
                              "'%s' is swept already%s: give all of its values in one list", twice,
                              old->from_study && !axis->from_study ? ", together with other keys" : "");
        }
    }
    return CS_OK;
}

/* Put a finished axis (its values on the heap, counted one by one) into the sweep. */
static cs_status keep_axis(struct cs_sweep *sweep, struct cs_sweep_axis *axis, struct cs_loc loc,
                           struct cs_err *err)
{
    int64_t n_points = 1;
    int32_t at = 0;
    cs_status st = CS_OK;
    axis->loc = loc;
    axis->loc.file = loc.file ? cs_arena_strdup(&sweep->arena, loc.file) : NULL;
    axis->values = cs_arena_memdup(&sweep->arena, axis->values, (size_t)axis->n * sizeof *axis->values);
    axis->n /= axis->n_keys;
    CS_TRY(find_place(sweep, axis, &at, loc, err));
    if (at == CS_SWEEP_AXES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, loc, "more than %d swept keys", CS_SWEEP_AXES_MAX);
    }
    for (int32_t i = 0; i < sweep->n_axes; i++) {
        n_points *= i == at ? 1 : sweep->axes[i].n;
    }
    if (n_points * axis->n > CS_SWEEP_POINTS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, loc, "the sweep has more than %d points", CS_SWEEP_POINTS_MAX);
    }
    CS_TRY(check_values(sweep, axis, loc, err));
    sweep->axes[at] = *axis;
    sweep->n_axes += at == sweep->n_axes;
out:
    return st;
}

/* Where messages find the values that stand in the study: a list's items, or all at one scalar. Before the
 * values are counted by points. */
static cs_status locate_values(struct cs_sweep *sweep, struct cs_sweep_axis *axis,
                               const struct cs_yaml_node *node, struct cs_err *err)
{
    cs_status st = CS_OK;
    axis->trees = CS_ARENA_NEW(&sweep->arena, const struct cs_yaml_node *, axis->n);
    const char *file = node->loc.file ? cs_arena_strdup(&sweep->arena, node->loc.file) : NULL;
    for (int32_t v = 0; v < axis->n; v++) {
        const struct cs_yaml_node *item = node;
        if (node->kind == CS_YAML_LIST) {
            item = node->items[v / axis->n_keys];
            item = item->kind == CS_YAML_LIST ? item->items[v % axis->n_keys] : item;
        }
        struct cs_loc loc = {file, item->loc.line, item->loc.col};
        CS_TRY(cs__yaml_value(&sweep->arena, axis->keys[v % axis->n_keys], axis->values[v], loc,
                              &axis->trees[v], err));
    }
out:
    return st;
}

/* `node` is the value of the study's that the text was made of, NULL on the command line. */
static cs_status add_text(struct cs_sweep *sweep, const char *text, const struct cs_yaml_node *node,
                          struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_sweep_axis axis = {.from_study = node != NULL};
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
    if (node) {
        CS_TRY(locate_values(sweep, &axis, node, err));
    }
    CS_TRY(keep_axis(sweep, &axis, loc, err));
out:
    cs_free(heap ? heap : axis.values);
    return st;
}

cs_status cs_sweep_add(struct cs_sweep *sweep, const char *text, struct cs_loc loc, struct cs_err *err)
{
    return add_text(sweep, text, NULL, loc, err);
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
    struct cs_sweep_axis axis = {.from_study = true};
    int32_t cap = 0;
    const char **heap = NULL;
    if (values->kind == CS_YAML_SCALAR) {
        return add_text(sweep, cs_arena_printf(&sweep->arena, "%s=%s", key->text, values->text), values,
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
    CS_TRY(locate_values(sweep, &axis, values, err));
    CS_TRY(keep_axis(sweep, &axis, key->loc, err));
out:
    cs_free(heap ? heap : axis.values);
    return st;
}

cs_status cs_sweep_check_set(const struct cs_sweep *sweep, int32_t n_overrides,
                             const struct cs_override *overrides, struct cs_err *err)
{
    for (int32_t a = 0; a < sweep->n_axes; a++) {
        for (int32_t k = 0; k < sweep->axes[a].n_keys; k++) {
            const char *key = sweep->axes[a].keys[k];
            for (int32_t i = 0; i < n_overrides; i++) {
                if (same_key(key, overrides[i].key) || holds(key, overrides[i].key)) {
                    return cs_err_set(
                        err, CS_E_INPUT, CS__COMMAND_LINE_LOC,
                        "'%s' is set, but the sweep sets '%s' at every point: leave one of them "
                        "out",
                        overrides[i].key, key);
                }
            }
        }
    }
    return CS_OK;
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
        sweep->strategy_loc = cs_yaml_get(block, "strategy")->loc;
        sweep->strategy_loc.file = cs_arena_strdup(&sweep->arena, sweep->strategy_loc.file);
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
        const struct cs_yaml_node **trees =
            CS_ARENA_NEW(&sweep->arena, const struct cs_yaml_node *, n_keys + 1);
        int32_t at = 0;
        for (int32_t a = 0; a < sweep->n_axes; a++) {
            const struct cs_sweep_axis *axis = &sweep->axes[a];
            int32_t first = cs_sweep_value(sweep, p, a) * axis->n_keys;
            for (int32_t k = 0; k < axis->n_keys; k++) {
                trees[at] = axis->trees ? axis->trees[first + k] : NULL;
                list[at++] = (struct cs_override){axis->keys[k], axis->values[first + k], false};
            }
        }
        specs[p] = (struct cs_point_spec){n_keys, list, trees};
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
