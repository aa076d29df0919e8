#include "study_priv.h"

#include <string.h>

const struct cs_yaml_node *cs__yaml_copy(struct cs_arena *arena, const struct cs_yaml_node *node,
                                         const struct cs_loc *loc)
{
    struct cs_yaml_node *copy = CS_ARENA_NEW(arena, struct cs_yaml_node, 1);
    *copy = *node;
    copy->loc = loc ? *loc : node->loc;
    copy->loc.file = !loc && node->loc.file ? cs_arena_strdup(arena, node->loc.file) : copy->loc.file;
    if (node->kind == CS_YAML_SCALAR) {
        copy->text = cs_arena_strdup(arena, node->text);
        return copy;
    }
    copy->items = CS_ARENA_NEW(arena, const struct cs_yaml_node *, node->n);
    for (int32_t i = 0; i < node->n; i++) {
        copy->items[i] = cs__yaml_copy(arena, node->items[i], loc);
    }
    if (node->kind == CS_YAML_MAP) {
        copy->keys = CS_ARENA_NEW(arena, const struct cs_yaml_node *, node->n);
        for (int32_t i = 0; i < node->n; i++) {
            copy->keys[i] = cs__yaml_copy(arena, node->keys[i], loc);
        }
    }
    return copy;
}

static const struct cs_yaml_node *scalar(struct cs_arena *arena, const char *text, struct cs_loc loc)
{
    struct cs_yaml_node *node = CS_ARENA_NEW(arena, struct cs_yaml_node, 1);
    node->kind = CS_YAML_SCALAR;
    node->loc = loc;
    node->text = cs_arena_strdup(arena, text);
    return node;
}

cs_status cs__yaml_value(struct cs_arena *arena, const char *key, const char *text, struct cs_loc loc,
                         const struct cs_yaml_node **value, struct cs_err *err)
{
    struct cs_yaml yaml = {0};
    struct cs_err why = {0};
    if (text[strspn(text, " ")] == '\0') {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' has no value", key);
    }
    cs_status st = cs_yaml_load_text(&yaml, text, strlen(text), CS__COMMAND_LINE, &why);
    if (st == CS_OK) {
        *value = cs__yaml_copy(arena, yaml.root, &loc);
    } else { /* lines and columns in the value say nothing: it is one word */
        st = cs_err_set(err, st, loc, "%s", why.text);
    }
    cs_yaml_release(&yaml);
    return st;
}

static cs_status read_value(struct cs_arena *arena, const struct cs_override *override,
                            const struct cs_yaml_node **value, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (override->literal) {
        *value = scalar(arena, override->value, CS__COMMAND_LINE_LOC);
        return CS_OK;
    }
    if (override->value[strspn(override->value, " ")] == '\0') {
        return cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC, "'%s' has no value", override->key);
    }
    CS_TRY(cs__yaml_value(arena, override->key, override->value, CS__COMMAND_LINE_LOC, value, err));
out:
    if (st != CS_OK && err) {
        cs_err_prefix(err, "--set %s", override->key);
    }
    return st;
}

/* In the strategy block `tp` and `mp` are one key. */
static bool same_key(bool in_strategy, const char *a, const char *b)
{
    return strcmp(a, b) == 0 || (in_strategy && cs_key_index(a) >= 0 && cs_key_index(a) == cs_key_index(b));
}

/* A map like `map` (NULL = empty) in which `key` has the value and stands where it stood, or last. What is
 * new is at the value's place. */
static const struct cs_yaml_node *map_with(struct cs_arena *arena, const struct cs_yaml_node *map,
                                           bool in_strategy, const char *key,
                                           const struct cs_yaml_node *value, struct cs_loc loc)
{
    struct cs_yaml_node *copy = CS_ARENA_NEW(arena, struct cs_yaml_node, 1);
    int32_t n_old = map ? map->n : 0;
    copy->kind = CS_YAML_MAP;
    copy->loc = map ? map->loc : loc;
    copy->items = CS_ARENA_NEW(arena, const struct cs_yaml_node *, n_old + 1);
    copy->keys = CS_ARENA_NEW(arena, const struct cs_yaml_node *, n_old + 1);
    bool placed = false;
    for (int32_t i = 0; i < n_old; i++) {
        bool same = same_key(in_strategy, map->keys[i]->text, key);
        if (same && placed) {
            continue;
        }
        placed = placed || same;
        copy->keys[copy->n] = same ? scalar(arena, key, loc) : map->keys[i];
        copy->items[copy->n++] = same ? value : map->items[i];
    }
    if (!placed) {
        copy->keys[copy->n] = scalar(arena, key, loc);
        copy->items[copy->n++] = value;
    }
    return copy;
}

/* A collective's algorithm that --collective pins: is it searched as a list, or has --set said another one?
 */
static cs_status check_pin(struct cs_arena *arena, const struct cs_override *override, const char *kind,
                           const struct cs_yaml_node *old, struct cs_err *err)
{
    bool is_said = old && old->loc.file && strcmp(old->loc.file, CS__COMMAND_LINE) == 0;
    if (old && old->kind == CS_YAML_LIST && is_said) {
        return cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC,
                          "'%s' is pinned by --collective and searched as a list by --set %s: leave one out",
                          kind, override->key);
    }
    if (old && old->kind == CS_YAML_LIST) {
        return cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC,
                          "'%s' is pinned by --collective and searched as a list at %s; use --set %s=... to "
                          "replace the list",
                          kind, cs__place(arena, old->loc), override->key);
    }
    if (is_said && old->kind == CS_YAML_SCALAR && strcmp(old->text, override->value) != 0) {
        return cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC,
                          "--collective and --set %s give '%s' two values: say it once", override->key, kind);
    }
    return CS_OK;
}

#define OVERLAY_DEPTH_MAX 4

cs_status cs__overlay_set(struct cs_arena *arena, const struct cs_yaml_node *root,
                          const struct cs_override *override, const struct cs_yaml_node *tree,
                          const struct cs_yaml_node **out, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *value = tree;
    const struct cs_yaml_node *maps[OVERLAY_DEPTH_MAX] = {root};
    char *names[OVERLAY_DEPTH_MAX] = {NULL};
    int32_t depth = 0;
    char *path = cs_arena_strdup(arena, override->key);
    struct cs_loc loc = tree ? tree->loc : CS__COMMAND_LINE_LOC;
    for (char *at = path; at; depth++) {
        char *dot = strchr(at, '.');
        if (depth == OVERLAY_DEPTH_MAX || at[0] == '\0' || at == dot) {
            st = cs_err_set(err, CS_E_INPUT, loc,
                            "'%s' is no key of a study, expected something like training.global_batch",
                            override->key);
            goto out;
        }
        if (dot) {
            *dot = '\0';
        }
        names[depth] = at;
        at = dot ? dot + 1 : NULL;
    }
    for (int32_t i = 1; i < depth; i++) {
        maps[i] = cs_yaml_get(maps[i - 1], names[i - 1]);
        if (i == 1 && maps[i] && maps[i]->kind == CS_YAML_SCALAR && strcmp(names[0], "platform") == 0) {
            maps[i] = map_with(arena, NULL, false, "base", maps[i], loc); /* a platform like that one */
        }
        if (maps[i]) {
            CS_TRY(cs_yaml_want(maps[i], CS_YAML_MAP, names[i - 1], err));
        }
    }
    if (override->literal && depth == 2 && strcmp(names[0], "collectives") == 0) {
        const struct cs_yaml_node *old = maps[1] ? cs_yaml_get(maps[1], names[1]) : NULL;
        CS_TRY(check_pin(arena, override, names[1], old, err));
    }
    if (!tree) {
        CS_TRY(read_value(arena, override, &value, err));
    }
    for (int32_t i = depth - 1; i >= 0; i--) {
        bool in_strategy = i == 1 && strcmp(names[0], "strategy") == 0;
        value = map_with(arena, maps[i], in_strategy, names[i], value, loc);
    }
    *out = value;
out:
    return st;
}
