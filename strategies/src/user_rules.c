/* Rules that users write: "mp <= 8", "peak_memory_bytes < 50GiB". */
#include "study_priv.h"

#include "cs/base/text.h"
#include "cs/base/units.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RULES_MAX 64
#define NAME_MAX_BYTES 64

/* Results by their names in JSON. */
static const struct {
    const char *name;
    enum cs_unit unit;
    size_t offset; /* of a double in struct cs_metrics, but for the memory */
} results[] = {
    {"iteration_time_s", CS_UNIT_SECONDS, offsetof(struct cs_metrics, iteration_s)},
    {"tokens_per_s", CS_UNIT_NONE, offsetof(struct cs_metrics, tokens_per_s)},
    {"tflops_per_device", CS_UNIT_NONE, offsetof(struct cs_metrics, tflops_per_device)},
    {"mfu", CS_UNIT_FRACTION, offsetof(struct cs_metrics, mfu_frac)},
    {"hfu", CS_UNIT_FRACTION, offsetof(struct cs_metrics, hfu_frac)},
    {"bubble_fraction", CS_UNIT_FRACTION, offsetof(struct cs_metrics, bubble_frac)},
    {"comm_fraction", CS_UNIT_FRACTION, offsetof(struct cs_metrics, comm_frac)},
    {"exposed_comm_fraction", CS_UNIT_FRACTION, offsetof(struct cs_metrics, exposed_comm_frac)},
    {"cross_node_comm_fraction", CS_UNIT_FRACTION, offsetof(struct cs_metrics, cross_node_comm_frac)},
    {"peak_memory_bytes", CS_UNIT_BYTES, 0},
};

static const char *const signs[] = {[CS_LESS] = "<",           [CS_LESS_EQUAL] = "<=", [CS_GREATER] = ">",
                                    [CS_GREATER_EQUAL] = ">=", [CS_EQUAL] = "==",      [CS_UNEQUAL] = "!="};

static bool holds(double x, enum cs_comparison comparison, double value) /* @unit of both */
{
    switch (comparison) {
    case CS_LESS:
        return x < value;
    case CS_LESS_EQUAL:
        return x <= value;
    case CS_GREATER:
        return x > value;
    case CS_GREATER_EQUAL:
        return x >= value;
    case CS_EQUAL:
        return !(x < value) && !(x > value);
    case CS_UNEQUAL:
        break;
    }
    return x < value || x > value;
}

static cs_status unknown_name(struct cs_study *study, const char *name, struct cs_loc loc, struct cs_err *err)
{
    const char **names = CS_ARENA_NEW(&study->arena, const char *, CS_N_KEYS + CS_COUNT(results) + 1);
    int32_t n = 0;
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        names[n++] = cs_strategy_keys[key];
    }
    for (int32_t i = 0; i < CS_COUNT(results); i++) {
        names[n++] = results[i].name;
    }
    const char *near = cs_text_nearest(name, names);
    return cs_err_set(err, CS_E_INPUT, loc, "'%s' is neither a key of a strategy nor a result%s%s%s", name,
                      near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* The value as the key or result has it. */
static cs_status read_value(struct cs_user_rule *rule, const char *text, struct cs_loc loc,
                            struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy scratch;
    if (rule->key < 0) {
        return cs_units_parse(text, results[rule->result].unit, results[rule->result].name, loc, &rule->value,
                              err);
    }
    cs_strategy_init(&scratch);
    CS_TRY(cs_strategy_set(&scratch, cs_strategy_keys[rule->key], text, loc, err));
    rule->value = cs_key_get(&scratch, (enum cs_key)rule->key);
    if (cs_key_is_name((enum cs_key)rule->key) && rule->comparison != CS_EQUAL &&
        rule->comparison != CS_UNEQUAL) {
        st = cs_err_set(err, CS_E_INPUT, loc,
                        "'%s' has no order: compare it with == or !=", cs_strategy_keys[rule->key]);
    }
out:
    return st;
}

static const char *skip_space(const char *text)
{
    while (*text == ' ') {
        text++;
    }
    return text;
}

static cs_status read_rule(struct cs_study *study, const struct cs_yaml_node *node, struct cs_user_rule *rule,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    char name[NAME_MAX_BYTES];
    size_t len = 0;
    size_t sign_len;
    CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, "a rule", err));
    const char *at = skip_space(node->text);
    while (len + 1 < sizeof name && (isalnum((unsigned char)at[len]) || at[len] == '_')) {
        name[len] = at[len];
        len++;
    }
    name[len] = '\0';
    at = skip_space(at + len);
    sign_len = strspn(at, "<>=!");
    rule->comparison = CS_UNEQUAL;
    for (int32_t c = 0; c < CS_COUNT(signs) && sign_len > 0; c++) {
        if (strlen(signs[c]) == sign_len && strncmp(at, signs[c], sign_len) == 0) {
            rule->comparison = (enum cs_comparison)c;
            at = skip_space(at + sign_len);
            sign_len = 0;
        }
    }
    if (len == 0 || sign_len > 0 || at[0] == '\0' || strpbrk(node->text, "<>=!") == NULL) {
        st = cs_err_set(err, CS_E_INPUT, node->loc,
                        "'%.64s' is no rule: write a key or a result, one of < <= > >= == !=, and a value, "
                        "as in 'mp <= 8'",
                        node->text);
        goto out;
    }
    rule->key = cs_key_index(name);
    rule->result = 0;
    while (rule->key < 0 && rule->result < CS_COUNT(results) &&
           strcmp(results[rule->result].name, name) != 0) {
        rule->result++;
    }
    if (rule->result == CS_COUNT(results) || rule->key >= CS_N_KEYS) { /* lists are no numbers to compare */
        st = unknown_name(study, name, node->loc, err);
        goto out;
    }
    CS_TRY(read_value(rule, at, node->loc, err));
    rule->text =
        cs_arena_printf(&study->arena, "%s %s %s", rule->key >= 0 ? cs_strategy_keys[rule->key] : name,
                        signs[rule->comparison], at);
out:
    return st;
}

cs_status cs__user_rules_read(struct cs_study *study, const struct cs_yaml_node *list, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (!list) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(list, CS_YAML_LIST, "rules", err));
    if (list->n > RULES_MAX) {
        st = cs_err_set(err, CS_E_INPUT, list->loc, "%d rules are more than the %d that a study may have",
                        (int)list->n, RULES_MAX);
        goto out;
    }
    study->constraints.rules = CS_ARENA_NEW(&study->arena, struct cs_user_rule, list->n + 1);
    for (int32_t i = 0; i < list->n; i++) {
        CS_TRY(read_rule(study, list->items[i], &study->constraints.rules[i], err));
        study->constraints.n_rules = i + 1;
    }
out:
    return st;
}

const struct cs_user_rule *cs_user_rule_broken_by(const struct cs_study *study,
                                                  const struct cs_strategy *strategy)
{
    for (int32_t i = 0; i < study->constraints.n_rules; i++) {
        const struct cs_user_rule *rule = &study->constraints.rules[i];
        if (rule->key >= 0 &&
            !holds(cs_key_get(strategy, (enum cs_key)rule->key), rule->comparison, rule->value)) {
            return rule;
        }
    }
    return NULL;
}

static bool is_memory(const struct cs_user_rule *rule)
{
    return rule->key < 0 && results[rule->result].unit == CS_UNIT_BYTES;
}

const struct cs_user_rule *cs_user_rule_broken_by_result(const struct cs_study *study,
                                                         const struct cs_metrics *metrics, bool is_simulated,
                                                         char *text, size_t text_bytes)
{
    for (int32_t i = 0; i < study->constraints.n_rules; i++) {
        const struct cs_user_rule *rule = &study->constraints.rules[i];
        if (rule->key >= 0 || (!is_simulated && !is_memory(rule))) {
            continue;
        }
        double value = (double)metrics->peak_memory_bytes;
        if (!is_memory(rule)) {
            memcpy(&value, (const char *)metrics + results[rule->result].offset, sizeof value);
        }
        if (holds(value, rule->comparison, rule->value)) {
            continue;
        }
        if (is_memory(rule)) {
            (void)cs_units_format(value, CS_UNIT_BYTES, text, text_bytes);
        } else {
            (void)snprintf(text, text_bytes, "%.4g", value);
        }
        return rule;
    }
    return NULL;
}

bool cs_study_has_result_rules(const struct cs_study *study)
{
    const struct cs_constraints *constraints = &study->constraints;
    bool any = isfinite(constraints->cross_node_comm_frac) || constraints->min_device_use_frac > 0;
    for (int32_t i = 0; i < constraints->n_rules; i++) {
        any = any || (constraints->rules[i].key < 0 && !is_memory(&constraints->rules[i]));
    }
    return any;
}
