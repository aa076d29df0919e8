/* The `plan` block of a study. */
#include "cs/strategies/plan.h"

#include "study_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLATFORM_KEYS_MAX 32

/* Keys of a cluster that are not its platform's. */
static const char *const own_keys[] = {"node_price_per_hour", "node_power", "node_mtbf"};

/* One platform key of a cluster entry with its values. */
struct choice {
    const char *key; /* "platform.topology" */
    const char *name;
    int32_t n;
    const struct cs_yaml_node *const *values;
};

struct entry {
    const struct cs_yaml_node *node;
    int32_t n_choices;
    struct choice choices[PLATFORM_KEYS_MAX];
    int32_t size_at; /* which choice is the size */
    struct cs_plan_cluster figures;
};

static bool is_own(const char *key)
{
    bool own = false;
    for (int32_t i = 0; i < CS_COUNT(own_keys); i++) {
        own = own || strcmp(own_keys[i], key) == 0;
    }
    return own;
}

/* Is a list one value of the key, not values to choose from? The names of dead links are one, and the numbers
 * of the dimensions; a list of such lists has several. */
static bool is_one_value(const char *key, const struct cs_yaml_node *list)
{
    bool names = strcmp(key, "dead_links") == 0;
    if (!names && strcmp(key, "dims") != 0) {
        return false;
    }
    for (int32_t i = 0; i < list->n; i++) {
        const char *text = list->items[i]->kind == CS_YAML_SCALAR ? list->items[i]->text : NULL;
        if (!text || (!names && text[strspn(text, "0123456789")] != '\0')) {
            return false;
        }
    }
    return true;
}

static cs_status read_choice(struct cs_plan *plan, struct entry *entry, const struct cs_yaml_node *key,
                             const struct cs_yaml_node *value, struct cs_err *err)
{
    struct choice *choice = &entry->choices[entry->n_choices];
    if (entry->n_choices == PLATFORM_KEYS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, key->loc, "a cluster has more than %d keys", PLATFORM_KEYS_MAX);
    }
    *choice =
        (struct choice){.key = cs_arena_printf(&plan->arena, "platform.%s", key->text), .name = key->text};
    if (value->kind == CS_YAML_LIST && !is_one_value(key->text, value)) {
        choice->n = value->n;
        choice->values = (const struct cs_yaml_node *const *)value->items;
    } else {
        const struct cs_yaml_node **one = CS_ARENA_NEW(&plan->arena, const struct cs_yaml_node *, 1);
        one[0] = value;
        choice->n = 1;
        choice->values = one;
    }
    if (choice->n == 0) {
        return cs_err_set(err, CS_E_INPUT, value->loc, "'%s' has no value", key->text);
    }
    if (strcmp(key->text, "nodes") == 0 || strcmp(key->text, "devices") == 0) {
        if (entry->size_at >= 0) {
            return cs_err_set(err, CS_E_INPUT, key->loc, "a cluster has 'nodes' or 'devices', not both");
        }
        entry->size_at = entry->n_choices;
    }
    entry->n_choices++;
    return CS_OK;
}

static int compare_sizes(const void *a, const void *b)
{
    double x = strtod((*(const struct cs_yaml_node *const *)a)->text, NULL);
    double y = strtod((*(const struct cs_yaml_node *const *)b)->text, NULL);
    return x < y ? -1 : x > y;
}

/* Sizes from small to large: a family is compared upwards. */
static cs_status sort_sizes(struct cs_plan *plan, struct entry *entry, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct choice *size = &entry->choices[entry->size_at];
    for (int32_t i = 0; i < size->n; i++) {
        int64_t value = 0;
        CS_TRY(cs_yaml_want(size->values[i], CS_YAML_SCALAR, size->name, err));
        CS_TRY(cs_yaml_int(size->values[i], 1, INT32_MAX, size->name, &value, err));
    }
    const struct cs_yaml_node **sorted =
        cs_arena_memdup(&plan->arena, size->values, (size_t)size->n * sizeof *sorted);
    qsort(sorted, (size_t)size->n, sizeof *sorted, compare_sizes);
    for (int32_t i = 1; i < size->n; i++) {
        if (compare_sizes(&sorted[i - 1], &sorted[i]) == 0) {
            return cs_err_set(err, CS_E_INPUT, sorted[i]->loc, "'%s' has the size %s twice", size->name,
                              sorted[i]->text);
        }
    }
    size->values = sorted;
out:
    return st;
}

/* A time that is above 0 where it is given. */
static cs_status opt_time(const struct cs_yaml_node *block, const char *key, double *time_s,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(block, key);
    if (node) {
        CS_TRY(cs_yaml_quantity(node, CS_UNIT_SECONDS, key, time_s, err));
        if (!(*time_s > 0)) {
            return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' must be above 0", key);
        }
    }
out:
    return st;
}

static cs_status read_entry(struct cs_plan *plan, struct entry *entry, const struct cs_yaml_node *node,
                            double node_mtbf_s, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_plan_cluster *figures = &entry->figures;
    *entry = (struct entry){.node = node, .size_at = -1};
    *figures = (struct cs_plan_cluster){
        .node_price_per_h = (double)NAN, .node_power_w = (double)NAN, .node_mtbf_s = node_mtbf_s};
    CS_TRY(cs_yaml_want(node, CS_YAML_MAP, "a cluster", err));
    CS_TRY(cs_yaml_opt_real(node, "node_price_per_hour", 0, 1e9, &figures->node_price_per_h, err));
    CS_TRY(cs_yaml_opt_quantity(node, "node_power", CS_UNIT_WATT, &figures->node_power_w, err));
    CS_TRY(opt_time(node, "node_mtbf", &figures->node_mtbf_s, err));
    for (int32_t i = 0; i < node->n; i++) {
        if (!is_own(node->keys[i]->text)) {
            CS_TRY(read_choice(plan, entry, node->keys[i], node->items[i], err));
        }
    }
    if (entry->size_at < 0) {
        return cs_err_set(err, CS_E_INPUT, node->loc,
                          "a cluster needs 'nodes' (or 'devices'): sizes to choose from");
    }
    if (isfinite(plan->budget) && isnan(figures->node_price_per_h)) {
        return cs_err_set(err, CS_E_INPUT, node->loc,
                          "there is a budget, but this cluster has no "
                          "'node_price_per_hour'");
    }
    if (isfinite(figures->node_mtbf_s) && plan->checkpoint_s <= 0) {
        return cs_err_set(err, CS_E_INPUT, node->loc,
                          "nodes fail ('node_mtbf'), but 'failures' does not say what a 'checkpoint' costs");
    }
    CS_TRY(sort_sizes(plan, entry, err));
out:
    return st;
}

/* A value as the study could write it. */
static void add_node_text(struct cs_strbuf *text, const struct cs_yaml_node *node)
{
    if (node->kind == CS_YAML_SCALAR) {
        cs_strbuf_addf(text, "%s", node->text);
        return;
    }
    bool map = node->kind == CS_YAML_MAP;
    cs_strbuf_addf(text, "%s", map ? "{" : "[");
    for (int32_t i = 0; i < node->n; i++) {
        cs_strbuf_addf(text, "%s%s%s", i > 0 ? ", " : "", map ? node->keys[i]->text : "", map ? ": " : "");
        add_node_text(text, node->items[i]);
    }
    cs_strbuf_addf(text, "%s", map ? "}" : "]");
}

/* "server 910b-10to1, topology rail": the keys of this family but its size. */
static const char *family_name(struct cs_plan *plan, const struct entry *entry, const int32_t *at)
{
    struct cs_strbuf text = {0};
    for (int32_t c = 0; c < entry->n_choices; c++) {
        if (c != entry->size_at) {
            cs_strbuf_addf(&text, "%s%s ", text.len > 0 ? ", " : "", entry->choices[c].name);
            add_node_text(&text, entry->choices[c].values[at[c]]);
        }
    }
    const char *name = cs_arena_strdup(&plan->arena, text.len > 0 ? text.text : "cluster");
    cs_strbuf_release(&text);
    return name;
}

static void add_cluster(struct cs_plan *plan, const struct entry *entry, const int32_t *at,
                        const char *family, int32_t family_idx)
{
    struct cs_plan_cluster *cluster = &plan->clusters[plan->n_clusters++];
    struct cs_override *list = CS_ARENA_NEW(&plan->arena, struct cs_override, entry->n_choices);
    const struct cs_yaml_node **trees =
        CS_ARENA_NEW(&plan->arena, const struct cs_yaml_node *, entry->n_choices);
    *cluster = entry->figures;
    cluster->family = family;
    cluster->family_idx = family_idx;
    cluster->size =
        cs_arena_strdup(&plan->arena, entry->choices[entry->size_at].values[at[entry->size_at]]->text);
    for (int32_t c = 0; c < entry->n_choices; c++) {
        trees[c] = cs__yaml_copy(&plan->arena, entry->choices[c].values[at[c]], NULL);
        list[c] = (struct cs_override){entry->choices[c].key, "", false};
    }
    cluster->spec = (struct cs_point_spec){entry->n_choices, list, trees};
}

/* Every combination of an entry's values, the size fastest. */
static cs_status expand(struct cs_plan *plan, const struct entry *entry, struct cs_err *err)
{
    int32_t at[PLATFORM_KEYS_MAX] = {0};
    int64_t n = 1;
    for (int32_t c = 0; c < entry->n_choices; c++) {
        n *= entry->choices[c].n;
        if (n + plan->n_clusters > CS_PLAN_CLUSTERS_MAX) {
            return cs_err_set(err, CS_E_LIMIT, entry->node->loc, "more than %d clusters to choose from",
                              CS_PLAN_CLUSTERS_MAX);
        }
    }
    int32_t n_sizes = entry->choices[entry->size_at].n;
    for (int64_t i = 0; i < n / n_sizes; i++) {
        int64_t rest = i;
        for (int32_t c = entry->n_choices - 1; c >= 0; c--) {
            if (c != entry->size_at) {
                at[c] = (int32_t)(rest % entry->choices[c].n);
                rest /= entry->choices[c].n;
            }
        }
        const char *family = family_name(plan, entry, at);
        int32_t family_idx = plan->n_clusters > 0 ? plan->clusters[plan->n_clusters - 1].family_idx + 1 : 0;
        for (int32_t s = 0; s < n_sizes; s++) {
            at[entry->size_at] = s;
            add_cluster(plan, entry, at, family, family_idx);
        }
    }
    return CS_OK;
}

static cs_status read_failures(struct cs_plan *plan, const struct cs_yaml_node *block, double *node_mtbf_s,
                               struct cs_err *err)
{
    static const char *const allowed[] = {"node_mtbf", "checkpoint", "restart", "interval", NULL};
    cs_status st = CS_OK;
    *node_mtbf_s = (double)INFINITY;
    if (!block) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(block, CS_YAML_MAP, "failures", err));
    CS_TRY(cs_yaml_check_keys(block, allowed, "failures", err));
    CS_TRY(opt_time(block, "node_mtbf", node_mtbf_s, err));
    CS_TRY(opt_time(block, "checkpoint", &plan->checkpoint_s, err));
    CS_TRY(cs_yaml_opt_quantity(block, "restart", CS_UNIT_SECONDS, &plan->restart_s, err));
    CS_TRY(opt_time(block, "interval", &plan->interval_s, err));
    if (plan->interval_s > 0 && plan->checkpoint_s <= 0) {
        return cs_err_set(err, CS_E_INPUT, block->loc,
                          "there is an 'interval' between checkpoints, but not what a 'checkpoint' costs");
    }
out:
    return st;
}

/* What failures cost without a failure. Checkpoints at a given interval cost time all the same. */
static cs_status check_failures(const struct cs_plan *plan, const struct cs_yaml_node *block,
                                struct cs_err *err)
{
    const struct cs_yaml_node *checkpoint = plan->interval_s > 0 ? NULL : cs_yaml_get(block, "checkpoint");
    const struct cs_yaml_node *idle = checkpoint ? checkpoint : cs_yaml_get(block, "restart");
    for (int32_t i = 0; i < plan->n_clusters; i++) {
        if (isfinite(plan->clusters[i].node_mtbf_s)) {
            return CS_OK;
        }
    }
    return !idle ? CS_OK
                 : cs_err_set(err, CS_E_INPUT, idle->loc,
                              "'%s' has no effect, for nothing fails: give 'node_mtbf' to 'failures' or to a "
                              "cluster",
                              checkpoint ? "checkpoint" : "restart");
}

static cs_status read_goal(struct cs_plan *plan, const struct cs_yaml_node *block, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *tokens = NULL;
    const char *currency = "";
    plan->deadline_s = plan->budget = (double)INFINITY;
    CS_TRY(cs_yaml_need(block, "tokens", &tokens, err));
    CS_TRY(cs_yaml_quantity(tokens, CS_UNIT_NONE, "tokens", &plan->n_tokens, err));
    if (!(plan->n_tokens >= 1) || plan->n_tokens > nearbyint(plan->n_tokens) ||
        plan->n_tokens < nearbyint(plan->n_tokens)) {
        return cs_err_set(err, CS_E_INPUT, tokens->loc,
                          "'tokens' is '%s', but should be a whole number from 1 on, as in 15T or 300G",
                          tokens->text);
    }
    CS_TRY(opt_time(block, "deadline", &plan->deadline_s, err));
    CS_TRY(cs_yaml_opt_quantity(block, "budget", CS_UNIT_NONE, &plan->budget, err));
    CS_TRY(cs_yaml_opt_text(block, "currency", &currency, err));
    plan->currency = cs_arena_strdup(&plan->arena, currency);
    if (!isfinite(plan->deadline_s) && !isfinite(plan->budget)) {
        return cs_err_set(err, CS_E_INPUT, block->loc, "a plan needs a 'deadline' (30d) or a 'budget'");
    }
out:
    return st;
}

static cs_status read_block(struct cs_plan *plan, const struct cs_yaml_node *block, struct cs_err *err)
{
    static const char *const allowed[] = {"tokens",   "deadline", "budget", "currency",
                                          "failures", "clusters", NULL};
    cs_status st = CS_OK;
    const struct cs_yaml_node *clusters = NULL;
    struct entry entry;
    double node_mtbf_s = 0;
    CS_TRY(cs_yaml_want(block, CS_YAML_MAP, "plan", err));
    CS_TRY(cs_yaml_check_keys(block, allowed, "plan", err));
    CS_TRY(read_goal(plan, block, err));
    CS_TRY(read_failures(plan, cs_yaml_get(block, "failures"), &node_mtbf_s, err));
    CS_TRY(cs_yaml_need(block, "clusters", &clusters, err));
    CS_TRY(cs_yaml_want(clusters, CS_YAML_LIST, "clusters", err));
    if (clusters->n == 0) {
        return cs_err_set(err, CS_E_INPUT, clusters->loc, "there is no cluster to choose from");
    }
    plan->clusters = CS_ARENA_NEW(&plan->arena, struct cs_plan_cluster, CS_PLAN_CLUSTERS_MAX);
    for (int32_t i = 0; i < clusters->n; i++) {
        CS_TRY(read_entry(plan, &entry, clusters->items[i], node_mtbf_s, err));
        CS_TRY(expand(plan, &entry, err));
    }
    CS_TRY(check_failures(plan, cs_yaml_get(block, "failures"), err));
out:
    return st;
}

cs_status cs_plan_read(struct cs_plan *plan, const struct cs_study_source *source, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_study study = {0};
    const struct cs_yaml_node *root = NULL;
    const struct cs_yaml_node *block = NULL;
    CS_TRY(cs__study_tree(&study, source, &root, err));
    block = cs_yaml_get(root, "plan");
    if (!block) {
        st = cs_err_set(err, CS_E_INPUT, root->loc,
                        "the study has no 'plan' block with tokens, a deadline or budget, and clusters");
        goto out;
    }
    CS_TRY(read_block(plan, block, err));
out:
    cs_study_release(&study);
    return st;
}

void cs_plan_release(struct cs_plan *plan)
{
    cs_arena_release(&plan->arena);
    *plan = (struct cs_plan){0};
}

const struct cs_point_spec *cs_plan_specs(struct cs_plan *plan)
{
    struct cs_point_spec *specs = CS_ARENA_NEW(&plan->arena, struct cs_point_spec, plan->n_clusters);
    for (int32_t i = 0; i < plan->n_clusters; i++) {
        specs[i] = plan->clusters[i].spec;
    }
    return specs;
}
