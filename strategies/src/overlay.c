#include "study_priv.h"

#include <string.h>

static const struct cs_yaml_node *copy_node(struct cs_arena *arena, const struct cs_yaml_node *node)
{
    struct cs_yaml_node *copy = CS_ARENA_NEW(arena, struct cs_yaml_node, 1);
    *copy = *node;
    copy->loc = CS__COMMAND_LINE_LOC;
    if (node->kind == CS_YAML_SCALAR) {
        copy->text = cs_arena_strdup(arena, node->text);
        return copy;
    }
    copy->items = CS_ARENA_NEW(arena, const struct cs_yaml_node *, node->n);
    for (int32_t i = 0; i < node->n; i++) {
        copy->items[i] = copy_node(arena, node->items[i]);
    }
    if (node->kind == CS_YAML_MAP) {
        copy->keys = CS_ARENA_NEW(arena, const struct cs_yaml_node *, node->n);
        for (int32_t i = 0; i < node->n; i++) {
            copy->keys[i] = copy_node(arena, node->keys[i]);
        }
    }
    return copy;
}

static const struct cs_yaml_node *scalar(struct cs_arena *arena, const char *text)
{
    struct cs_yaml_node *node = CS_ARENA_NEW(arena, struct cs_yaml_node, 1);
    node->kind = CS_YAML_SCALAR;
    node->loc = CS__COMMAND_LINE_LOC;
    node->text = cs_arena_strdup(arena, text);
    return node;
}

static cs_status read_value(struct cs_arena *arena, const struct cs_override *override,
                            const struct cs_yaml_node **value, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_yaml yaml = {0};
    if (override->literal) {
        *value = scalar(arena, override->value);
        return CS_OK;
    }
    if (override->value[strspn(override->value, " ")] == '\0') {
        return cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC, "'%s' has no value", override->key);
    }
    CS_TRY(cs_yaml_load_text(&yaml, override->value, strlen(override->value), CS__COMMAND_LINE, err));
    *value = copy_node(arena, yaml.root);
out:
    if (st != CS_OK && err) {
        err->line = err->col = 0; /* the value is one word of the command line */
        cs_err_prefix(err, "--set %s", override->key);
    }
    cs_yaml_release(&yaml);
    return st;
}

/* In the strategy block `tp` and `mp` are one key. */
static bool same_key(bool in_strategy, const char *a, const char *b)
{
    return strcmp(a, b) == 0 || (in_strategy && cs_key_index(a) >= 0 && cs_key_index(a) == cs_key_index(b));
}

/* A map like `map` (NULL = empty) in which `key` has the value and stands where it stood, or last. */
static const struct cs_yaml_node *map_with(struct cs_arena *arena, const struct cs_yaml_node *map,
                                           bool in_strategy, const char *key,
                                           const struct cs_yaml_node *value)
{
    struct cs_yaml_node *copy = CS_ARENA_NEW(arena, struct cs_yaml_node, 1);
    int32_t n_old = map ? map->n : 0;
    copy->kind = CS_YAML_MAP;
    copy->loc = map ? map->loc : CS__COMMAND_LINE_LOC;
    copy->items = CS_ARENA_NEW(arena, const struct cs_yaml_node *, n_old + 1);
    copy->keys = CS_ARENA_NEW(arena, const struct cs_yaml_node *, n_old + 1);
    bool placed = false;
    for (int32_t i = 0; i < n_old; i++) {
        bool same = same_key(in_strategy, map->keys[i]->text, key);
        if (same && placed) {
            continue;
        }
        placed = placed || same;
        copy->keys[copy->n] = same ? scalar(arena, key) : map->keys[i];
        copy->items[copy->n++] = same ? value : map->items[i];
    }
    if (!placed) {
        copy->keys[copy->n] = scalar(arena, key);
        copy->items[copy->n++] = value;
    }
    return copy;
}

#define OVERLAY_DEPTH_MAX 4

cs_status cs__overlay_set(struct cs_arena *arena, const struct cs_yaml_node *root,
                          const struct cs_override *override, const struct cs_yaml_node **out,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *value = NULL;
    const struct cs_yaml_node *maps[OVERLAY_DEPTH_MAX] = {root};
    char *names[OVERLAY_DEPTH_MAX] = {NULL};
    int32_t depth = 0;
    char *path = cs_arena_strdup(arena, override->key);
    for (char *at = path; at; depth++) {
        char *dot = strchr(at, '.');
        if (depth == OVERLAY_DEPTH_MAX || at[0] == '\0' || at == dot) {
            st = cs_err_set(err, CS_E_INPUT, CS__COMMAND_LINE_LOC,
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
            maps[i] = map_with(arena, NULL, false, "base", maps[i]); /* a platform like that one */
        }
        if (maps[i]) {
            CS_TRY(cs_yaml_want(maps[i], CS_YAML_MAP, names[i - 1], err));
        }
    }
    CS_TRY(read_value(arena, override, &value, err));
    for (int32_t i = depth - 1; i >= 0; i--) {
        bool in_strategy = i == 1 && strcmp(names[0], "strategy") == 0;
        value = map_with(arena, maps[i], in_strategy, names[i], value);
    }
    *out = value;
out:
    return st;
}
