#include "cs/base/yaml.h"

#include "cs/base/text.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[] = {"a single value", "a list", "a map"};

const struct cs_yaml_node *cs_yaml_get(const struct cs_yaml_node *map, const char *key)
{
    if (!map || map->kind != CS_YAML_MAP) {
        return NULL;
    }
    for (int32_t i = 0; i < map->n; i++) {
        if (strcmp(map->keys[i]->text, key) == 0) {
            return map->items[i];
        }
    }
    return NULL;
}

cs_status cs_yaml_need(const struct cs_yaml_node *map, const char *key, const struct cs_yaml_node **value,
                       struct cs_err *err)
{
    const struct cs_yaml_node *found = cs_yaml_get(map, key);
    if (!found) {
        return cs_err_set(err, CS_E_INPUT, map ? map->loc : CS_NOLOC, "key '%s' is missing", key);
    }
    *value = found;
    return CS_OK;
}

cs_status cs_yaml_want(const struct cs_yaml_node *node, enum cs_yaml_kind kind, const char *what,
                       struct cs_err *err)
{
    if (!node) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "'%s' is missing, but must be %s", what,
                          kind_names[kind]);
    }
    if (node->kind == kind) {
        return CS_OK;
    }
    if (node->kind == CS_YAML_SCALAR && node->text[0] == '\0') {
        return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' has no value, but must be %s", what,
                          kind_names[kind]);
    }
    return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' must be %s, found %s", what, kind_names[kind],
                      kind_names[node->kind]);
}

/* Add "a, b, c". */
static void add_names(struct cs_strbuf *buf, const char *const *names)
{
    for (int32_t i = 0; names[i]; i++) {
        cs_strbuf_addf(buf, "%s%s", i > 0 ? ", " : "", names[i]);
    }
}

cs_status cs_yaml_check_keys(const struct cs_yaml_node *map, const char *const *allowed, const char *what,
                             struct cs_err *err)
{
    struct cs_strbuf hint = {0};
    cs_status st = CS_OK;
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, what, err));
    for (int32_t i = 0; i < map->n; i++) {
        const char *key = map->keys[i]->text;
        if (cs_text_index(key, allowed) >= 0) {
            continue;
        }
        const char *near = cs_text_nearest(key, allowed);
        if (near) {
            cs_strbuf_addf(&hint, "did you mean '%s'?", near);
        } else {
            cs_strbuf_add(&hint, "it may hold: ");
            add_names(&hint, allowed);
        }
        char shown[CS_TEXT_CLIP_BYTES];
        st = cs_err_set(err, CS_E_INPUT, map->keys[i]->loc, "unknown key '%s' in %s, %s",
                        cs_text_clip(key, shown), what, cs_strbuf_str(&hint));
        goto out;
    }
out:
    cs_strbuf_release(&hint);
    return st;
}

cs_status cs_yaml_int(const struct cs_yaml_node *node, int64_t min, int64_t max, const char *what,
                      int64_t *value, struct cs_err *err)
{
    cs_status st = cs_yaml_want(node, CS_YAML_SCALAR, what, err);
    return st != CS_OK ? st : cs_int_parse(node->text, min, max, what, node->loc, value, err);
}

cs_status cs_yaml_real(const struct cs_yaml_node *node, double min, double max, const char *what,
                       double *value, struct cs_err *err)
{
    double number = 0;
    char shown[CS_TEXT_CLIP_BYTES];
    cs_status st = CS_OK;
    CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, what, err));
    CS_TRY(cs_real_parse(node->text, what, node->loc, &number, err));
    cs_text_clip(node->text, shown);
    if (number >= min && number <= max) {
        *value = number;
    } else if (isinf(max)) {
        st = cs_err_set(err, CS_E_INPUT, node->loc, "'%s' is '%s', but should be at least %g", what, shown,
                        min);
    } else if (isinf(min)) {
        st = cs_err_set(err, CS_E_INPUT, node->loc, "'%s' is '%s', but should be at most %g", what, shown,
                        max);
    } else {
        st = cs_err_set(err, CS_E_INPUT, node->loc, "'%s' is '%s', but should be from %g to %g", what, shown,
                        min, max);
    }
out:
    return st;
}

cs_status cs_yaml_bool(const struct cs_yaml_node *node, const char *what, bool *value, struct cs_err *err)
{
    static const char *const words[] = {"false", "False", "FALSE", "true", "True", "TRUE", NULL};
    cs_status st = cs_yaml_want(node, CS_YAML_SCALAR, what, err);
    if (st != CS_OK) {
        return st;
    }
    int32_t index = cs_text_index(node->text, words);
    if (index < 0) {
        char shown[CS_TEXT_CLIP_BYTES];
        return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' is '%s', but should be true or false", what,
                          cs_text_clip(node->text, shown));
    }
    *value = index >= 3;
    return CS_OK;
}

cs_status cs_yaml_quantity(const struct cs_yaml_node *node, enum cs_unit unit, const char *what,
                           double *value, struct cs_err *err)
{
    cs_status st = cs_yaml_want(node, CS_YAML_SCALAR, what, err);
    return st != CS_OK ? st : cs_units_parse(node->text, unit, what, node->loc, value, err);
}

cs_status cs_yaml_choice(const struct cs_yaml_node *node, const char *const *names, const char *what,
                         int32_t *index, struct cs_err *err)
{
    struct cs_strbuf hint = {0};
    cs_status st = CS_OK;
    CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, what, err));
    int32_t found = cs_text_index(node->text, names);
    if (found < 0) {
        char shown[CS_TEXT_CLIP_BYTES];
        const char *near = cs_text_nearest(node->text, names);
        add_names(&hint, names);
        if (near) {
            cs_strbuf_addf(&hint, " (did you mean '%s'?)", near);
        }
        st = cs_err_set(err, CS_E_INPUT, node->loc, "'%s' is '%s', but should be one of: %s", what,
                        cs_text_clip(node->text, shown), cs_strbuf_str(&hint));
        goto out;
    }
    *index = found;
out:
    cs_strbuf_release(&hint);
    return st;
}

cs_status cs_yaml_opt_int(const struct cs_yaml_node *map, const char *key, int64_t min, int64_t max,
                          int64_t *value, struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(map, key);
    return node ? cs_yaml_int(node, min, max, key, value, err) : CS_OK;
}

cs_status cs_yaml_opt_real(const struct cs_yaml_node *map, const char *key, double min, double max,
                           double *value, struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(map, key);
    return node ? cs_yaml_real(node, min, max, key, value, err) : CS_OK;
}

cs_status cs_yaml_opt_bool(const struct cs_yaml_node *map, const char *key, bool *value, struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(map, key);
    return node ? cs_yaml_bool(node, key, value, err) : CS_OK;
}

cs_status cs_yaml_opt_quantity(const struct cs_yaml_node *map, const char *key, enum cs_unit unit,
                               double *value, struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(map, key);
    return node ? cs_yaml_quantity(node, unit, key, value, err) : CS_OK;
}

cs_status cs_yaml_opt_text(const struct cs_yaml_node *map, const char *key, const char **text,
                           struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(map, key);
    if (!node) {
        return CS_OK;
    }
    cs_status st = cs_yaml_want(node, CS_YAML_SCALAR, key, err);
    if (st == CS_OK) {
        *text = node->text;
    }
    return st;
}
