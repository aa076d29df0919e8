#include "cs/strategies/space.h"

#include "balance_priv.h"

#include <stdlib.h>
#include <string.h>

#define COMBINATIONS_MAX INT64_C(20000000)
#define CANDIDATES_MAX INT64_C(2000000)

/* The values of one key. */
struct values {
    int32_t n;
    const int32_t *at;
};

/* Set of candidates by hash; a slot holds an index + 1. */
struct set {
    int64_t n_slots; /* a power of two */
    int32_t *slots;
};

struct builder {
    const struct cs_study *study;
    struct cs_space *space;
    struct cs_arena arena;
    struct values values[CS_N_KEYS];
    struct set set;
    int64_t cap;
    struct cs_strategy strategy; /* of the current combination */
    struct cs__balancer *balancer;
};

/* The keys that are free once dp, mp, cp and pp are chosen. */
static const enum cs_key inner_keys[] = {CS_KEY_OP,
                                         CS_KEY_ZERO,
                                         CS_KEY_SP,
                                         CS_KEY_EP,
                                         CS_KEY_VPP,
                                         CS_KEY_SCHEDULE,
                                         CS_KEY_MICRO_BATCH,
                                         CS_KEY_RECOMPUTE,
                                         CS_KEY_PLACEMENT,
                                         CS_KEY_CP_KIND,
                                         CS_KEY_SEQ_SPLIT,
                                         CS_KEY_HALF_BATCHES,
                                         CS_KEY_FUSED_TP,
                                         CS_KEY_KEEP_COMM,
                                         CS_KEY_OFFLOAD_OPTIMIZER,
                                         CS_KEY_SWAP_ACTIVATIONS,
                                         CS_KEY_EXPERT_MP,
                                         CS_KEY_KEEP_WEIGHTS};

typedef bool (*equal_fn)(const struct cs_strategy *a, const struct cs_strategy *b);

/* The slot of a strategy: 0 in it when it is not in the set. */
static int32_t *find_slot(const struct set *set, const struct cs_candidate *candidates, uint64_t hash,
                          const struct cs_strategy *strategy, equal_fn equal)
{
    uint64_t mask = (uint64_t)set->n_slots - 1;
    for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
        int32_t *slot = &set->slots[at];
        if (*slot == 0 || equal(&candidates[*slot - 1].strategy, strategy)) {
            return slot;
        }
    }
}

/* Room for twice as many. */
static void grow_set(struct builder *b)
{
    struct cs_space *space = b->space;
    cs_free(b->set.slots);
    b->set.n_slots = b->set.n_slots ? 2 * b->set.n_slots : 1024;
    b->set.slots = cs_calloc((size_t)b->set.n_slots, sizeof *b->set.slots);
    for (int64_t i = 0; i < space->n_candidates; i++) {
        const struct cs_strategy *strategy = &space->candidates[i].strategy;
        *find_slot(&b->set, space->candidates, cs_strategy_hash(strategy), strategy, cs_strategy_equal) =
            (int32_t)i + 1;
    }
}

static cs_status add_candidate(struct builder *b, struct cs_strategy strategy, struct cs_err *err)
{
    struct cs_space *space = b->space;
    cs_strategy_canonicalise(&strategy);
    cs_strategy_drop_even(&strategy, b->study->model.n_layers);
    if (2 * space->n_candidates >= b->set.n_slots) {
        grow_set(b);
    }
    int32_t *slot =
        find_slot(&b->set, space->candidates, cs_strategy_hash(&strategy), &strategy, cs_strategy_equal);
    if (*slot != 0) {
        space->n_duplicates++;
        return CS_OK;
    }
    if (space->n_candidates >= CANDIDATES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, b->study->strategy_loc,
                          "the study leaves more than %lld strategies open; pin or restrict some keys",
                          (long long)CANDIDATES_MAX);
    }
    CS_GROW(space->candidates, space->n_candidates, b->cap);
    space->candidates[space->n_candidates++] = (struct cs_candidate){.strategy = strategy};
    *slot = (int32_t)space->n_candidates;
    return CS_OK;
}

/* The choice of a list that a combination's number stands for; takes it off the number. */
static struct cs_list_choice take_choice(const struct cs_study *study, enum cs_list_key list, int64_t *number)
{
    const struct cs_list_axis *axis = &study->lists[list];
    if (axis->n == 0) {
        return (struct cs_list_choice){0};
    }
    struct cs_list_choice choice = axis->choices[*number % axis->n];
    *number /= axis->n;
    return choice;
}

/* Combinations of the lists. */
static int64_t n_list_choices(const struct cs_study *study)
{
    int64_t n = 1;
    for (int32_t list = 0; list < CS_N_LISTS; list++) {
        n *= study->lists[list].n > 0 ? study->lists[list].n : 1;
    }
    return n;
}

/* One combination of the other keys with all lists. */
static cs_status walk_lists(struct builder *b, struct cs_err *err)
{
    int64_t n = n_list_choices(b->study);
    for (int64_t i = 0; i < n; i++) {
        struct cs_strategy strategy = b->strategy;
        bool balanced[CS_N_LISTS];
        int64_t number = i;
        for (int32_t list = 0; list < CS_N_LISTS; list++) {
            struct cs_list_choice choice = take_choice(b->study, (enum cs_list_key)list, &number);
            *cs_key_list(&strategy, (enum cs_list_key)list) = choice.list;
            balanced[list] = choice.balanced;
        }
        if (balanced[CS_LIST_LAYERS] || balanced[CS_LIST_FULL_LAYERS]) {
            cs__balance(b->balancer, &strategy, balanced[CS_LIST_LAYERS], balanced[CS_LIST_FULL_LAYERS]);
        }
        cs_status st = add_candidate(b, strategy, err);
        if (st != CS_OK) {
            return st;
        }
    }
    return CS_OK;
}

static cs_status walk_inner(struct builder *b, int32_t depth, struct cs_err *err)
{
    if (depth == CS_COUNT(inner_keys)) {
        return walk_lists(b, err);
    }
    enum cs_key key = inner_keys[depth];
    for (int32_t i = 0; i < b->values[key].n; i++) {
        cs_key_put(&b->strategy, key, b->values[key].at[i]);
        cs_status st = walk_inner(b, depth + 1, err);
        if (st != CS_OK) {
            return st;
        }
    }
    return CS_OK;
}

static bool axis_allows(const struct cs_axis *axis, int32_t value)
{
    for (int32_t i = 0; i < axis->n; i++) {
        if (axis->values[i] == value) {
            return true;
        }
    }
    return axis->kind == CS_AXIS_AUTO;
}

/* The values of op depend on dp. */
static void resolve_op(struct builder *b, int32_t dp)
{
    const struct cs_axis *axis = &b->study->axes[CS_KEY_OP];
    int32_t *list = CS_ARENA_NEW(&b->arena, int32_t, axis->n + 33);
    int32_t n = 0;
    if (axis->kind == CS_AXIS_AUTO) {
        for (int64_t op = 1; op < dp && dp % op == 0; op *= 2) {
            list[n++] = (int32_t)op;
        }
        list[n++] = dp;
    }
    for (int32_t i = 0; i < axis->n; i++) {
        list[n++] = axis->values[i] == CS_VALUE_ALL_DP ? dp : axis->values[i];
    }
    b->values[CS_KEY_OP] = (struct values){n, list};
}

/* All strategies of one (dp, mp, cp, pp), which is in b->strategy. */
static cs_status walk_shape(struct builder *b, struct cs_err *err)
{
    int64_t n = n_list_choices(b->study);
    resolve_op(b, b->strategy.dp);
    for (int32_t i = 0; i < CS_COUNT(inner_keys); i++) {
        n *= b->values[inner_keys[i]].n;
        if (n + b->space->n_combinations > COMBINATIONS_MAX) {
            return cs_err_set(err, CS_E_LIMIT, b->study->strategy_loc,
                              "the study leaves more than %lld combinations open; pin or restrict some keys",
                              (long long)COMBINATIONS_MAX);
        }
    }
    b->space->n_combinations += n;
    return walk_inner(b, 0, err);
}

/* The message of a space without the cluster's size; a study that pins everything sees its own numbers. */
static cs_status no_combination(const struct builder *b, struct cs_err *err)
{
    static const enum cs_key keys[] = {CS_KEY_DP, CS_KEY_MP, CS_KEY_CP, CS_KEY_PP};
    const struct cs_axis *axes = b->study->axes;
    int32_t pinned[CS_COUNT(keys)] = {1, 1, 1, 1};
    bool all_pinned = true;
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        if (axes[keys[i]].kind == CS_AXIS_PINNED) {
            pinned[i] = axes[keys[i]].values[0];
        }
        all_pinned = all_pinned && (axes[keys[i]].kind == CS_AXIS_PINNED || keys[i] == CS_KEY_CP);
    }
    if (all_pinned) {
        return cs_err_set(err, CS_E_INPUT, b->study->strategy_loc,
                          "dp x mp x cp x pp is %d x %d x %d x %d, but should be %d, the platform's devices",
                          (int)pinned[0], (int)pinned[1], (int)pinned[2], (int)pinned[3],
                          (int)b->study->platform.n_devices);
    }
    return cs_err_set(
        err, CS_E_INPUT, b->study->strategy_loc,
        "dp x mp x cp x pp must be %d, the platform's devices, but no combination of the values "
        "that the study allows is",
        (int)b->study->platform.n_devices);
}

static cs_status walk_shapes(struct builder *b, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct values *mp = &b->values[CS_KEY_MP];
    const struct values *cp = &b->values[CS_KEY_CP];
    const struct values *pp = &b->values[CS_KEY_PP];
    int64_t n_devices = b->study->platform.n_devices;
    for (int64_t i = 0; i < (int64_t)mp->n * cp->n * pp->n; i++) {
        int64_t mp_value = mp->at[i % mp->n];
        int64_t cp_value = cp->at[i / mp->n % cp->n];
        int64_t pp_value = pp->at[i / mp->n / cp->n];
        int64_t part = mp_value * cp_value; /* each below 2^31 */
        if (part > n_devices || n_devices % (part * pp_value) != 0) {
            continue;
        }
        int32_t dp = (int32_t)(n_devices / (part * pp_value));
        if (!axis_allows(&b->study->axes[CS_KEY_DP], dp)) {
            continue;
        }
        b->strategy.dp = dp;
        b->strategy.mp = (int32_t)mp_value;
        b->strategy.cp = (int32_t)cp_value;
        b->strategy.pp = (int32_t)pp_value;
        CS_TRY(walk_shape(b, err));
    }
    if (b->space->n_combinations == 0) {
        st = no_combination(b, err);
    }
out:
    return st;
}

/* d with n % d == 0, d <= most, optionally powers of two only. */
static struct values divisors(struct builder *b, int64_t n, int64_t most, bool powers_of_two)
{
    int32_t *list = NULL;
    int32_t count = 0;
    int32_t cap = 0;
    for (int64_t d = 1; d <= n && d <= most; d = powers_of_two ? 2 * d : d + 1) {
        if (n % d == 0) {
            CS_GROW(list, count, cap);
            list[count++] = (int32_t)d;
        }
    }
    struct values values = {count, cs_arena_memdup(&b->arena, list, (size_t)count * sizeof *list)};
    cs_free(list);
    return values;
}

/* Every order of the dimensions. */
static struct values all_placements(struct builder *b)
{
    int32_t *list = CS_ARENA_NEW(&b->arena, int32_t, 24);
    int32_t n = 0;
    struct cs_strategy s = b->strategy;
    for (int32_t code = 0; code < CS_N_DIMS * CS_N_DIMS * CS_N_DIMS * CS_N_DIMS; code++) {
        unsigned seen = 0;
        cs_key_put(&s, CS_KEY_PLACEMENT, code);
        for (int32_t i = 0; i < CS_N_DIMS; i++) {
            seen |= 1u << s.placement[i];
        }
        if (seen == (1u << CS_N_DIMS) - 1) {
            list[n++] = code;
        }
    }
    return (struct values){n, list};
}

struct range {
    enum cs_key key;
    struct values values;
};

static void take_ranges(struct builder *b, const struct range *ranges, int32_t n, bool if_asked)
{
    for (int32_t i = 0; i < n; i++) {
        const struct cs_axis *axis = &b->study->axes[ranges[i].key];
        if (axis->kind == CS_AXIS_AUTO && (axis->asked || !if_asked)) {
            b->values[ranges[i].key] = ranges[i].values;
        }
    }
}

static void resolve_axes(struct builder *b)
{
    static const int32_t zeros[] = {1, 2, 3};
    static const int32_t switches[] = {0, 1};
    static const int32_t parts[] = {1, 2, 4};
    static const int32_t schedules[] = {CS_SCHED_1F1B, CS_SCHED_GPIPE, CS_SCHED_INTERLEAVED,
                                        CS_SCHED_ZERO_BUBBLE};
    static const int32_t micro_batches[] = {1, 2, 4, 8};
    static const int32_t recomputes[] = {CS_RECOMPUTE_NONE, CS_RECOMPUTE_SELECTIVE, CS_RECOMPUTE_FULL};
    const struct cs_study *study = b->study;
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        const struct cs_axis *axis = &study->axes[key];
        int32_t *only = CS_ARENA_NEW(&b->arena, int32_t, 1);
        *only = cs_key_get(&b->strategy, (enum cs_key)key); /* the default */
        b->values[key] =
            axis->kind == CS_AXIS_AUTO ? (struct values){1, only} : (struct values){axis->n, axis->values};
    }
    int64_t experts = study->model.n_experts > 0 ? study->model.n_experts : 1;
    const struct range always[] = {
        {CS_KEY_MP, divisors(b, study->model.n_heads, study->platform.devices_per_node, true)},
        {CS_KEY_PP, divisors(b, study->platform.n_devices, study->model.n_layers, false)},
        {CS_KEY_ZERO, {CS_COUNT(zeros), zeros}},
        {CS_KEY_SP, {CS_COUNT(switches), switches}},
        {CS_KEY_SCHEDULE, {2, schedules}},
        {CS_KEY_MICRO_BATCH, {CS_COUNT(micro_batches), micro_batches}},
        {CS_KEY_RECOMPUTE, {CS_COUNT(recomputes), recomputes}},
    };
    const struct range asked[] = {
        {CS_KEY_CP, divisors(b, study->platform.n_devices, study->platform.devices_per_node, true)},
        {CS_KEY_EP, divisors(b, experts, study->platform.n_devices, true)},
        {CS_KEY_VPP, {CS_COUNT(parts), parts}},
        {CS_KEY_SCHEDULE, {CS_COUNT(schedules), schedules}},
        {CS_KEY_PLACEMENT, all_placements(b)},
        {CS_KEY_CP_KIND, {CS_COUNT(switches), switches}},
        {CS_KEY_SEQ_SPLIT, {CS_COUNT(parts), parts}},
        {CS_KEY_HALF_BATCHES, {2, parts}},
        {CS_KEY_FUSED_TP, {CS_COUNT(switches), switches}},
        {CS_KEY_KEEP_COMM, {CS_COUNT(switches), switches}},
        {CS_KEY_OFFLOAD_OPTIMIZER, {CS_COUNT(switches), switches}},
        {CS_KEY_SWAP_ACTIVATIONS, {CS_COUNT(switches), switches}},
        {CS_KEY_EXPERT_MP, {CS_COUNT(switches), switches}},
        {CS_KEY_KEEP_WEIGHTS, {CS_COUNT(switches), switches}},
    };
    take_ranges(b, always, CS_COUNT(always), false);
    take_ranges(b, asked, CS_COUNT(asked), true);
}

static int compare_candidates(const void *a, const void *b)
{
    const struct cs_candidate *x = a;
    const struct cs_candidate *y = b;
    return cs_strategy_compare(&x->strategy, &y->strategy);
}

/* Number the families in the order in which they are met. */
static void number_families(struct builder *b)
{
    struct cs_space *space = b->space;
    memset(b->set.slots, 0, (size_t)b->set.n_slots * sizeof *b->set.slots);
    for (int64_t i = 0; i < space->n_candidates; i++) {
        struct cs_candidate *candidate = &space->candidates[i];
        int32_t *slot = find_slot(&b->set, space->candidates, cs_strategy_state_hash(&candidate->strategy),
                                  &candidate->strategy, cs_strategy_state_equal);
        if (*slot == 0) {
            *slot = (int32_t)i + 1;
            candidate->family = space->n_families++;
        } else {
            candidate->family = space->candidates[*slot - 1].family;
        }
    }
}

static void apply_rules(struct builder *b)
{
    struct cs_space *space = b->space;
    struct cs_cluster_shape shape = cs_study_shape(b->study);
    int32_t cap = 0;
    for (int64_t i = 0; i < space->n_candidates; i++) {
        struct cs_candidate *candidate = &space->candidates[i];
        char why[CS_WHY_MAX] = "";
        candidate->rule = cs_strategy_check(&candidate->strategy, &b->study->model, &b->study->training,
                                            &shape, why, sizeof why);
        const struct cs_user_rule *broken =
            candidate->rule ? NULL : cs_user_rule_broken_by(b->study, &candidate->strategy);
        if (broken) {
            candidate->rule = broken->text;
            (void)cs_strategy_format(&candidate->strategy, why, sizeof why);
        }
        if (!candidate->rule) {
            space->n_open++;
            continue;
        }
        int32_t at = 0;
        while (at < space->n_rules && strcmp(space->rules[at].rule, candidate->rule) != 0) {
            at++;
        }
        if (at == space->n_rules) {
            CS_GROW(space->rules, space->n_rules, cap);
            space->rules[space->n_rules] = (struct cs_rule_count){.rule = candidate->rule, .first = i};
            memcpy(space->rules[space->n_rules++].example, why, sizeof why);
        }
        space->rules[at].n++;
    }
}

cs_status cs_space_build(struct cs_space *space, const struct cs_study *study, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct builder b = {.study = study, .space = space};
    *space = (struct cs_space){0};
    cs_strategy_init(&b.strategy);
    resolve_axes(&b);
    b.balancer = cs__balancer_new(study);
    CS_TRY(walk_shapes(&b, err));
    qsort(space->candidates, (size_t)space->n_candidates, sizeof *space->candidates, compare_candidates);
    number_families(&b);
    apply_rules(&b);
out:
    cs__balancer_free(b.balancer);
    cs_free(b.set.slots);
    cs_arena_release(&b.arena);
    if (st != CS_OK) {
        cs_space_release(space);
    }
    return st;
}

const char *cs_space_why(const struct cs_candidate *candidate, const struct cs_study *study, char *buf,
                         size_t buf_bytes)
{
    const struct cs_cluster_shape shape = cs_study_shape(study);
    buf[0] = '\0';
    (void)cs_strategy_check(&candidate->strategy, &study->model, &study->training, &shape, buf, buf_bytes);
    return buf;
}

void cs_space_release(struct cs_space *space)
{
    cs_free(space->candidates);
    cs_free(space->rules);
    *space = (struct cs_space){0};
}
