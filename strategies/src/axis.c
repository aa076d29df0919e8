#include "study_priv.h"

#include "cs/base/text.h"

#include <string.h>

/* More values of one key than any study means; keeps the size of a space in check. */
#define AXIS_VALUES_MAX 256

static cs_status read_value(const struct cs_yaml_node *node, int32_t key, int32_t *value, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy scratch;
    cs_strategy_init(&scratch);
    CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, cs_strategy_keys[key], err));
    if (key == CS_KEY_OP && strcmp(node->text, "dp") == 0) {
        *value = CS_VALUE_ALL_DP;
        return CS_OK;
    }
    CS_TRY(cs_strategy_set(&scratch, cs_strategy_keys[key], node->text, node->loc, err));
    *value = cs_key_get(&scratch, (enum cs_key)key);
out:
    return st;
}

static cs_status read_axis(struct cs_study *study, const struct cs_yaml_node *node, int32_t key,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_axis *axis = &study->axes[key];
    axis->loc = node->loc;
    if (node->kind == CS_YAML_SCALAR && strcmp(node->text, "auto") == 0) {
        axis->kind = CS_AXIS_AUTO;
        axis->asked = true;
        return CS_OK;
    }
    bool is_list = node->kind == CS_YAML_LIST;
    if (node->kind == CS_YAML_MAP || (is_list && (node->n == 0 || node->n > AXIS_VALUES_MAX))) {
        st = cs_err_set(err, CS_E_INPUT, node->loc, "'%s' must be a value, a list of 1 to %d values, or auto",
                        cs_strategy_keys[key], AXIS_VALUES_MAX);
        goto out;
    }
    axis->kind = is_list ? CS_AXIS_LISTED : CS_AXIS_PINNED;
    axis->n = is_list ? node->n : 1;
    axis->values = CS_ARENA_NEW(&study->arena, int32_t, axis->n);
    for (int32_t i = 0; i < axis->n; i++) {
        CS_TRY(read_value(is_list ? node->items[i] : node, key, &axis->values[i], err));
    }
out:
    return st;
}

/* "20/20/20/20", "even" (layers), "none" (recomputed layers) or "balanced". */
static cs_status read_choice(const char *text, struct cs_loc loc, int32_t list, struct cs_list_choice *choice,
                             struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy scratch;
    const char *key = cs_strategy_keys[CS_N_KEYS + list];
    const char *idle = list == CS_LIST_LAYERS ? "even" : "none";
    *choice = (struct cs_list_choice){0};
    if (strcmp(text, "balanced") == 0 && list != CS_LIST_SELECTIVE_LAYERS) {
        choice->balanced = true;
    } else if (strcmp(text, idle) != 0) {
        cs_strategy_init(&scratch);
        if (cs_strategy_set(&scratch, key, text, loc, NULL) != CS_OK) {
            st = cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%.40s', not %s%s or numbers as in 5/6/6/5", key,
                            text, idle, list == CS_LIST_SELECTIVE_LAYERS ? "" : ", balanced");
            goto out;
        }
        choice->list = *cs_key_list(&scratch, (enum cs_list_key)list);
    }
out:
    return st;
}

/* A list of numbers is one value, a number for each place: [20, 12] is 20/12. */
static bool is_value(const struct cs_yaml_node *node)
{
    bool numbers = node->kind == CS_YAML_LIST && node->n > 0;
    for (int32_t i = 0; numbers && i < node->n; i++) {
        const char *text = node->items[i]->kind == CS_YAML_SCALAR ? node->items[i]->text : "";
        numbers = text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
    }
    return numbers;
}

/* One choice: a word or numbers as text, or a list of numbers. */
static cs_status read_item(const struct cs_yaml_node *item, int32_t list, struct cs_list_choice *choice,
                           struct cs_err *err)
{
    struct cs_strbuf text = {0};
    const char *key = cs_strategy_keys[CS_N_KEYS + list];
    cs_status st = CS_OK;
    if (item->kind != CS_YAML_LIST) {
        CS_TRY(cs_yaml_want(item, CS_YAML_SCALAR, key, err));
        CS_TRY(read_choice(item->text, item->loc, list, choice, err));
        goto out;
    }
    if (!is_value(item)) {
        st = cs_err_set(err, CS_E_INPUT, item->loc,
                        "'%s' has a list here that is not a number for each place, as in [5, 6, 6, 5]", key);
        goto out;
    }
    for (int32_t i = 0; i < item->n; i++) {
        cs_strbuf_addf(&text, "%s%s", i > 0 ? "/" : "", item->items[i]->text);
    }
    CS_TRY(read_choice(cs_strbuf_str(&text), item->loc, list, choice, err));
out:
    cs_strbuf_release(&text);
    return st;
}

static cs_status read_list_axis(struct cs_study *study, const struct cs_yaml_node *node, int32_t list,
                                struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_list_axis *axis = &study->lists[list];
    const char *key = cs_strategy_keys[CS_N_KEYS + list];
    axis->loc = node->loc;
    if (node->kind == CS_YAML_SCALAR && strcmp(node->text, "auto") == 0) {
        axis->n = list == CS_LIST_SELECTIVE_LAYERS ? 0 : 2;
        axis->choices = CS_ARENA_NEW(&study->arena, struct cs_list_choice, 2);
        axis->choices[1].balanced = true;
        return CS_OK;
    }
    bool is_list = node->kind == CS_YAML_LIST && !is_value(node);
    if (node->kind == CS_YAML_MAP || (is_list && (node->n == 0 || node->n > AXIS_VALUES_MAX))) {
        st = cs_err_set(err, CS_E_INPUT, node->loc, "'%s' must be a value, a list of 1 to %d values, or auto",
                        key, AXIS_VALUES_MAX);
        goto out;
    }
    axis->kind = is_list ? CS_AXIS_LISTED : CS_AXIS_PINNED;
    axis->n = is_list ? node->n : 1;
    axis->choices = CS_ARENA_NEW(&study->arena, struct cs_list_choice, axis->n);
    for (int32_t i = 0; i < axis->n; i++) {
        CS_TRY(read_item(is_list ? node->items[i] : node, list, &axis->choices[i], err));
    }
out:
    return st;
}

const char *cs__place(struct cs_arena *arena, struct cs_loc loc)
{
    if (!loc.file || loc.line <= 0) {
        return loc.file ? loc.file : CS__COMMAND_LINE;
    }
    return cs_arena_printf(arena, "%s:%d", loc.file, loc.line);
}

cs_status cs__axes_read(struct cs_study *study, const struct cs_yaml_node *block, struct cs_err *err)
{
    cs_status st = CS_OK;
    const char *allowed[CS_N_KEYS + CS_N_LISTS + 2] = {NULL};
    const struct cs_yaml_node *seen[CS_N_KEYS + CS_N_LISTS] = {NULL};
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        allowed[key] = cs_strategy_keys[key];
        study->axes[key] = (struct cs_axis){.kind = CS_AXIS_AUTO, .loc = study->strategy_loc};
    }
    for (int32_t list = 0; list < CS_N_LISTS; list++) {
        allowed[CS_N_KEYS + list] = cs_strategy_keys[CS_N_KEYS + list];
        study->lists[list] = (struct cs_list_axis){.kind = CS_AXIS_AUTO, .loc = study->strategy_loc};
    }
    allowed[CS_N_KEYS + CS_N_LISTS] = "tp";
    if (!block) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(block, CS_YAML_MAP, "strategy", err));
    CS_TRY(cs_yaml_check_keys(block, allowed, "strategy", err));
    for (int32_t i = 0; i < block->n; i++) {
        const struct cs_yaml_node *name = block->keys[i];
        int32_t key = cs_key_index(name->text);
        if (seen[key]) {
            st = cs_err_set(err, CS_E_INPUT, name->loc, "'%s' is given twice: as '%s' at %s and as '%s' here",
                            cs_strategy_keys[key], seen[key]->text, cs__place(&study->arena, seen[key]->loc),
                            name->text);
            goto out;
        }
        seen[key] = name;
        if (key < CS_N_KEYS) {
            CS_TRY(read_axis(study, block->items[i], key, err));
        } else {
            CS_TRY(read_list_axis(study, block->items[i], key - CS_N_KEYS, err));
        }
    }
out:
    return st;
}

/* Does the list "a=b,c=d" hold this item? */
static bool has_item(const char *text, const char *item)
{
    size_t len = strlen(item);
    for (const char *at = text; (at = strstr(at, item)) != NULL; at += len) {
        if ((at == text || at[-1] == ',') && (at[len] == '\0' || at[len] == ',')) {
            return true;
        }
    }
    return false;
}

static cs_status pinned_and_searched(struct cs_study *study, int32_t key, struct cs_loc loc,
                                     struct cs_err *err)
{
    return cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC,
                      "'%s' is pinned here and searched as a list at %s; use --set strategy.%s=... to "
                      "replace the list",
                      cs_strategy_keys[key], cs__place(&study->arena, loc), cs_strategy_keys[key]);
}

static void pin_list(struct cs_study *study, struct cs_strategy *pinned, enum cs_list_key list)
{
    struct cs_list_axis *axis = &study->lists[list];
    *axis = (struct cs_list_axis){.kind = CS_AXIS_PINNED, .loc = CS__COMMAND_LINE_LOC, .n = 1};
    axis->choices = CS_ARENA_NEW(&study->arena, struct cs_list_choice, 1);
    axis->choices[0] = (struct cs_list_choice){.list = *cs_key_list(pinned, list)};
}

static bool is_from_command_line(enum cs_axis_kind kind, struct cs_loc loc)
{
    return kind == CS_AXIS_PINNED && loc.file && strcmp(loc.file, CS__COMMAND_LINE) == 0;
}

static int32_t value_in(const char *text, const struct cs_strategy *parsed, int32_t key)
{
    return key == CS_KEY_OP && has_item(text, "op=dp") ? CS_VALUE_ALL_DP
                                                       : cs_key_get(parsed, (enum cs_key)key);
}

cs_status cs_study_said_once(const struct cs_study *study, const char *text, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy parsed;
    uint32_t mask = 0;
    cs_strategy_init(&parsed);
    CS_TRY(cs_strategy_parse(text, CS__COMMAND_LINE_LOC, &parsed, &mask, err));
    for (int32_t key = 0; key < CS_N_KEYS + CS_N_LISTS; key++) {
        bool other = false;
        if (key < CS_N_KEYS) {
            const struct cs_axis *axis = &study->axes[key];
            other = is_from_command_line(axis->kind, axis->loc) &&
                    axis->values[0] != value_in(text, &parsed, key);
        } else {
            const struct cs_list_axis *axis = &study->lists[key - CS_N_KEYS];
            const struct cs_per_place *list = cs_key_list(&parsed, (enum cs_list_key)(key - CS_N_KEYS));
            other = is_from_command_line(axis->kind, axis->loc) &&
                    (axis->choices[0].balanced || cs_per_place_compare(&axis->choices[0].list, list) != 0);
        }
        if (other && (mask & (UINT32_C(1) << key))) { /* two words of one command line have no order */
            st = cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC,
                            "--strategy and --set strategy.%s give '%s' two values: say it once",
                            cs_strategy_keys[key], cs_strategy_keys[key]);
            goto out;
        }
    }
out:
    return st;
}

cs_status cs_study_pin(struct cs_study *study, const char *text, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy pinned;
    uint32_t mask = 0;
    cs_strategy_init(&pinned);
    CS_TRY(cs_strategy_parse(text, CS__COMMAND_LINE_LOC, &pinned, &mask, err));
    for (int32_t key = 0; key < CS_N_KEYS + CS_N_LISTS; key++) {
        bool is_list = key >= CS_N_KEYS;
        enum cs_axis_kind kind = is_list ? study->lists[key - CS_N_KEYS].kind : study->axes[key].kind;
        if ((mask & (UINT32_C(1) << key)) && kind == CS_AXIS_LISTED) {
            st = pinned_and_searched(study, key,
                                     is_list ? study->lists[key - CS_N_KEYS].loc : study->axes[key].loc, err);
            goto out;
        }
    }
    CS_TRY(cs_study_said_once(study, text, err));
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        if (mask & (UINT32_C(1) << key)) {
            struct cs_axis *axis = &study->axes[key];
            *axis = (struct cs_axis){.kind = CS_AXIS_PINNED, .loc = CS__COMMAND_LINE_LOC, .n = 1};
            axis->values = CS_ARENA_NEW(&study->arena, int32_t, 1);
            axis->values[0] = value_in(text, &pinned, key);
        }
    }
    for (int32_t list = 0; list < CS_N_LISTS; list++) {
        if (mask & (UINT32_C(1) << (CS_N_KEYS + list))) {
            pin_list(study, &pinned, (enum cs_list_key)list);
        }
    }
out:
    return st;
}

/* The choices of a key of which a strategy needs one: 1 for a value, more for a list to be searched. */
static cs_status need_one(const char *key, enum cs_axis_kind kind, int32_t n, struct cs_loc loc, bool given,
                          bool *is_given, struct cs_err *err)
{
    *is_given = kind == CS_AXIS_PINNED || (kind == CS_AXIS_LISTED && n == 1);
    if (kind == CS_AXIS_LISTED && n > 1 && !given) {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "'%s' is a list of %d, but simulate needs one value; use search or --strategy", key,
                          (int)n);
    }
    return CS_OK;
}

cs_status cs_study_strategy_read(const struct cs_study *study, const char *text, struct cs_strategy *strategy,
                                 struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy wanted;
    uint32_t mask = 0;
    bool one = false;
    bool all_dp = false;
    cs_strategy_init(&wanted);
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        const struct cs_axis *axis = &study->axes[key];
        CS_TRY(need_one(cs_strategy_keys[key], axis->kind, axis->n, axis->loc, text != NULL, &one, err));
        all_dp |= one && axis->values[0] == CS_VALUE_ALL_DP;
        if (one && axis->values[0] != CS_VALUE_ALL_DP) {
            cs_key_put(&wanted, (enum cs_key)key, axis->values[0]);
        }
    }
    for (int32_t list = 0; list < CS_N_LISTS; list++) {
        const struct cs_list_axis *axis = &study->lists[list];
        const char *key = cs_strategy_keys[CS_N_KEYS + list];
        CS_TRY(need_one(key, axis->kind, axis->n, axis->loc, text != NULL, &one, err));
        if (one) {
            *cs_key_list(&wanted, (enum cs_list_key)list) = axis->choices[0].list;
        }
    }
    if (text) {
        CS_TRY(cs_strategy_parse(text, CS__COMMAND_LINE_LOC, &wanted, &mask, err));
    }
    if (all_dp && !(mask & (UINT32_C(1) << CS_KEY_OP))) {
        wanted.op = wanted.dp;
    }
    *strategy = wanted;
out:
    return st;
}

cs_status cs_study_strategy(const struct cs_study *study, const char *text, struct cs_strategy *strategy,
                            struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy wanted;
    struct cs_cluster_shape shape = cs_study_shape(study);
    char why[512] = "";
    char name[256];
    CS_TRY(cs_study_strategy_read(study, text, &wanted, err));
    /* As it was written: what has no effect (sp without mp, vpp without pp) is a mistake here. */
    if (cs_strategy_check(&wanted, &study->model, &study->training, &shape, why, sizeof why)) {
        st = cs_err_set(err, CS_E_INPUT, text ? CS__COMMAND_LINE_LOC : study->strategy_loc,
                        "strategy '%s' cannot run: %s", cs_strategy_format(&wanted, name, sizeof name), why);
        goto out;
    }
    cs_strategy_canonicalise(&wanted);
    *strategy = wanted;
out:
    return st;
}
