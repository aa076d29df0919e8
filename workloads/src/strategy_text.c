/* Strategies as text: "dp=16,mp=2,pp=2,op=2,recompute=full". */
#include "cs/workloads/strategy.h"

#include "cs/base/text.h"

#include <string.h>

/* Every key; the order of cs_strategy_keys. */
enum key {
    KEY_DP,
    KEY_MP,
    KEY_PP,
    KEY_OP,
    KEY_ZERO,
    KEY_SP,
    KEY_CP,
    KEY_EP,
    KEY_VPP,
    KEY_SCHEDULE,
    KEY_MICRO_BATCH,
    KEY_RECOMPUTE,
    KEY_PLACEMENT,
    KEY_CP_KIND,
    KEY_SEQ_SPLIT,
    KEY_HALF_BATCHES,
    KEY_FUSED_TP,
    KEY_KEEP_COMM,
    KEY_OFFLOAD_OPTIMIZER,
    KEY_SWAP_ACTIVATIONS,
    KEY_EXPERT_MP,
    KEY_KEEP_WEIGHTS,
    KEY_LAYERS,
    KEY_FULL_LAYERS,
    KEY_SELECTIVE_LAYERS,
    N_KEYS
};

const char *const cs_strategy_keys[] = {"dp",
                                        "mp",
                                        "pp",
                                        "op",
                                        "zero",
                                        "sp",
                                        "cp",
                                        "ep",
                                        "vpp",
                                        "schedule",
                                        "micro_batch",
                                        "recompute",
                                        "placement",
                                        "cp_kind",
                                        "seq_split",
                                        "half_batches",
                                        "fused_tp",
                                        "keep_comm",
                                        "offload_optimizer",
                                        "swap_activations",
                                        "expert_mp",
                                        "keep_weights",
                                        "layers",
                                        "full_layers",
                                        "selective_layers",
                                        NULL};

#define DEGREE_MAX (1 << 20)
/* A strategy in text is a line. */
#define TEXT_MAX CS_STRATEGY_TEXT_MAX

static int32_t key_index(const char *key)
{
    return strcmp(key, "tp") == 0 ? KEY_MP : cs_text_index(key, cs_strategy_keys);
}

static int32_t *number_field(struct cs_strategy *s, int32_t key)
{
    switch (key) {
    case KEY_DP:
        return &s->dp;
    case KEY_MP:
        return &s->mp;
    case KEY_PP:
        return &s->pp;
    case KEY_OP:
        return &s->op;
    case KEY_ZERO:
        return &s->zero;
    case KEY_CP:
        return &s->cp;
    case KEY_EP:
        return &s->ep;
    case KEY_VPP:
        return &s->vpp;
    case KEY_MICRO_BATCH:
        return &s->micro_batch;
    case KEY_SEQ_SPLIT:
        return &s->seq_split;
    case KEY_HALF_BATCHES:
        return &s->half_batches;
    default:
        return NULL;
    }
}

static bool *flag_field(struct cs_strategy *s, int32_t key)
{
    switch (key) {
    case KEY_SP:
        return &s->sp;
    case KEY_FUSED_TP:
        return &s->fused_tp;
    case KEY_KEEP_COMM:
        return &s->keep_comm;
    case KEY_OFFLOAD_OPTIMIZER:
        return &s->offload_optimizer;
    case KEY_SWAP_ACTIVATIONS:
        return &s->swap_activations;
    case KEY_EXPERT_MP:
        return &s->expert_mp;
    case KEY_KEEP_WEIGHTS:
        return &s->keep_weights;
    default:
        return NULL;
    }
}

static struct cs_per_place *list_field(struct cs_strategy *s, int32_t key)
{
    switch (key) {
    case KEY_LAYERS:
        return &s->layers;
    case KEY_FULL_LAYERS:
        return &s->full_layers;
    case KEY_SELECTIVE_LAYERS:
        return &s->selective_layers;
    default:
        return NULL;
    }
}

/** A choice's names and its value in the strategy; NULL when the key is not a choice. */
static const char *const *choice_names(int32_t key)
{
    return key == KEY_SCHEDULE    ? cs_schedule_names
           : key == KEY_RECOMPUTE ? cs_recompute_names
           : key == KEY_CP_KIND   ? cs_cp_kind_names
                                  : NULL;
}

static int32_t choice_value(const struct cs_strategy *s, int32_t key)
{
    return key == KEY_SCHEDULE    ? (int32_t)s->schedule
           : key == KEY_RECOMPUTE ? (int32_t)s->recompute
                                  : (int32_t)s->cp_kind;
}

static void put_choice(struct cs_strategy *s, int32_t key, int32_t value)
{
    if (key == KEY_SCHEDULE) {
        s->schedule = (enum cs_schedule)value;
    } else if (key == KEY_RECOMPUTE) {
        s->recompute = (enum cs_recompute)value;
    } else {
        s->cp_kind = (enum cs_cp_kind)value;
    }
}

static cs_status unknown_choice(const char *key, const char *text, const char *const *names,
                                struct cs_loc loc, struct cs_err *err)
{
    struct cs_strbuf list = {0};
    for (int32_t i = 0; names[i] != NULL; i++) {
        cs_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    cs_status st =
        cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%.40s', not one of: %s", key, text, cs_strbuf_str(&list));
    cs_strbuf_release(&list);
    return st;
}

static cs_status set_choice(const char *key, const char *text, const char *const *names, int32_t *index,
                            struct cs_loc loc, struct cs_err *err)
{
    int32_t found = cs_text_index(text, names);
    if (found < 0) {
        return unknown_choice(key, text, names, loc, err);
    }
    *index = found;
    return CS_OK;
}

/** "mp,cp,dp,pp" (or with '-' or '>' between): every dimension once. */
static cs_status set_placement(struct cs_strategy *strategy, const char *text, struct cs_loc loc,
                               struct cs_err *err)
{
    enum cs_dim placement[CS_N_DIMS];
    unsigned seen = 0;
    int32_t n = 0;
    const char *at = text;
    while (*at != '\0' && n < CS_N_DIMS) {
        size_t len = strcspn(at, ",->");
        char name[4] = "";
        int32_t dim = -1;
        if (len > 0 && len < sizeof name) {
            memcpy(name, at, len);
            dim = strcmp(name, "tp") == 0 ? CS_DIM_MP : cs_text_index(name, cs_dim_names);
        }
        if (dim < 0 || (seen >> dim & 1)) {
            break;
        }
        seen |= 1u << dim;
        placement[n++] = (enum cs_dim)dim;
        at += len;
        at += *at != '\0' && at[1] != '\0';
    }
    if (n < CS_N_DIMS || *at != '\0') {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "'placement' is '%.40s', not the four dimensions in some order, innermost first, "
                          "as in mp,cp,dp,pp",
                          text);
    }
    memcpy(strategy->placement, placement, sizeof placement);
    return CS_OK;
}

/** "5/6/6/5": a number per place. */
static cs_status set_list(struct cs_per_place *list, const char *name, const char *text, struct cs_loc loc,
                          struct cs_err *err)
{
    struct cs_per_place read = {0};
    cs_status st = CS_OK;
    for (const char *at = text;;) {
        char item[8] = "";
        size_t len = strcspn(at, "/");
        int64_t value = 0;
        if (len >= sizeof item || read.n == CS_PLACES_MAX) {
            st = cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%.40s', not up to %d numbers as in 5/6/6/5", name,
                            text, CS_PLACES_MAX);
            goto out;
        }
        memcpy(item, at, len);
        CS_TRY(cs_int_parse(item, 0, CS_PER_PLACE_MAX, name, loc, &value, err));
        read.at[read.n++] = (uint16_t)value;
        if (at[len] == '\0') {
            break;
        }
        at += len + 1;
    }
    *list = read;
out:
    return st;
}

static cs_status set_key(struct cs_strategy *strategy, int32_t key, const char *text, struct cs_loc loc,
                         struct cs_err *err)
{
    static const char *const booleans[] = {"false", "true", NULL};
    const char *name = cs_strategy_keys[key];
    int32_t *number = number_field(strategy, key);
    bool *flag = flag_field(strategy, key);
    int32_t index = 0;
    int64_t value = 0;
    cs_status st = CS_OK;
    if (number != NULL) {
        CS_TRY(cs_int_parse(text, 1, key == KEY_ZERO ? 3 : DEGREE_MAX, name, loc, &value, err));
        *number = (int32_t)value;
    } else if (flag != NULL) {
        CS_TRY(set_choice(name, text, booleans, &index, loc, err));
        *flag = index == 1;
    } else if (choice_names(key) != NULL) {
        CS_TRY(set_choice(name, text, choice_names(key), &index, loc, err));
        put_choice(strategy, key, index);
    } else if (list_field(strategy, key) != NULL) {
        CS_TRY(set_list(list_field(strategy, key), name, text, loc, err));
    } else {
        CS_TRY(set_placement(strategy, text, loc, err));
    }
out:
    return st;
}

static cs_status unknown_key(const char *key, struct cs_loc loc, struct cs_err *err)
{
    const char *near = cs_text_nearest(key, cs_strategy_keys);
    if (near != NULL) {
        return cs_err_set(err, CS_E_INPUT, loc, "unknown key '%.40s' in a strategy, did you mean '%s'?", key,
                          near);
    }
    return cs_err_set(err, CS_E_INPUT, loc,
                      "unknown key '%.40s' in a strategy; keys: dp mp pp op zero sp cp ep vpp schedule "
                      "micro_batch recompute placement cp_kind seq_split half_batches fused_tp keep_comm "
                      "offload_optimizer swap_activations expert_mp keep_weights layers full_layers "
                      "selective_layers",
                      key);
}

cs_status cs_strategy_set(struct cs_strategy *strategy, const char *key, const char *text, struct cs_loc loc,
                          struct cs_err *err)
{
    int32_t index = key_index(key);
    if (index < 0) {
        return unknown_key(key, loc, err);
    }
    if (index == KEY_OP && strcmp(text, "dp") == 0) {
        strategy->op = strategy->dp;
        return CS_OK;
    }
    return set_key(strategy, index, text, loc, err);
}

/** Length of the item at `at`: to the next comma, except that a placement takes the words without '=' that
 *  follow it. */
static size_t item_length(const char *at)
{
    size_t len = strcspn(at, ",");
    if (!cs_text_starts_with(at, "placement=")) {
        return len;
    }
    while (at[len] == ',') {
        size_t next = strcspn(at + len + 1, ",=");
        if (at[len + 1 + next] == '=') {
            break;
        }
        len += 1 + next;
    }
    return len;
}

static cs_status parse_item(struct cs_strategy *strategy, char *item, struct cs_loc loc, uint32_t *seen,
                            bool *op_is_dp, struct cs_err *err)
{
    char *equals = strchr(item, '=');
    if (equals == NULL) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%.40s' in a strategy is not key=value, as in dp=8", item);
    }
    *equals = '\0';
    const char *text = equals + 1;
    int32_t key = key_index(item);
    if (key < 0) {
        return unknown_key(item, loc, err);
    }
    if (*seen >> key & 1) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is given twice in a strategy", cs_strategy_keys[key]);
    }
    *seen |= UINT32_C(1) << key;
    if (key == KEY_OP && strcmp(text, "dp") == 0) {
        *op_is_dp = true;
        return CS_OK;
    }
    return set_key(strategy, key, text, loc, err);
}

cs_status cs_strategy_parse(const char *text, struct cs_loc loc, struct cs_strategy *strategy, uint32_t *mask,
                            struct cs_err *err)
{
    struct cs_strategy read = *strategy;
    uint32_t seen = 0;
    bool op_is_dp = false;
    cs_status st = CS_OK;
    for (const char *at = text; *at != '\0';) {
        char item[TEXT_MAX];
        size_t len = item_length(at);
        if (len >= sizeof item) {
            st = cs_err_set(err, CS_E_INPUT, loc, "a strategy is longer than %d characters", TEXT_MAX);
            goto out;
        }
        memcpy(item, at, len);
        item[len] = '\0';
        CS_TRY(parse_item(&read, item, loc, &seen, &op_is_dp, err));
        at += len;
        if (*at == ',') {
            at++;
            if (*at == '\0') {
                st = cs_err_set(err, CS_E_INPUT, loc, "a strategy ends in a comma");
                goto out;
            }
        }
    }
    if (op_is_dp) {
        read.op = read.dp;
    }
    *strategy = read;
    if (mask != NULL) {
        *mask = seen;
    }
out:
    return st;
}

static void add_text(char *buf, size_t buf_bytes, const char *text)
{
    size_t len = strlen(buf);
    for (; *text != '\0' && len + 1 < buf_bytes; text++) {
        buf[len++] = *text;
    }
    buf[len] = '\0';
}

static void add_number(char *buf, size_t buf_bytes, int32_t value)
{
    char digits[12];
    int32_t at = (int32_t)sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0 && at > 0);
    add_text(buf, buf_bytes, digits + at);
}

static void add_value(const struct cs_strategy *strategy, int32_t key, char *buf, size_t buf_bytes)
{
    struct cs_strategy copy = *strategy;
    const int32_t *number = number_field(&copy, key);
    const bool *flag = flag_field(&copy, key);
    const struct cs_per_place *list = list_field(&copy, key);
    if (number != NULL) {
        add_number(buf, buf_bytes, *number);
    } else if (flag != NULL) {
        add_text(buf, buf_bytes, *flag ? "true" : "false");
    } else if (choice_names(key) != NULL) {
        add_text(buf, buf_bytes, choice_names(key)[choice_value(strategy, key)]);
    } else if (list != NULL) {
        for (int32_t i = 0; i < list->n; i++) {
            add_text(buf, buf_bytes, i > 0 ? "/" : "");
            add_number(buf, buf_bytes, list->at[i]);
        }
    } else {
        for (int32_t i = 0; i < CS_N_DIMS; i++) {
            add_text(buf, buf_bytes, i > 0 ? "," : "");
            add_text(buf, buf_bytes, cs_dim_names[strategy->placement[i]]);
        }
    }
}

static bool is_default(const struct cs_strategy *strategy, int32_t key)
{
    struct cs_strategy copy = *strategy;
    struct cs_strategy defaults;
    cs_strategy_init(&defaults);
    const int32_t *number = number_field(&copy, key);
    const bool *flag = flag_field(&copy, key);
    const struct cs_per_place *list = list_field(&copy, key);
    if (number != NULL) {
        return *number == *number_field(&defaults, key) || *number == 0;
    }
    if (flag != NULL) {
        return !*flag;
    }
    if (choice_names(key) != NULL) {
        return choice_value(strategy, key) == choice_value(&defaults, key);
    }
    return list != NULL ? list->n == 0
                        : memcmp(strategy->placement, defaults.placement, sizeof defaults.placement) == 0;
}

char *cs_strategy_format(const struct cs_strategy *strategy, char *buf, size_t buf_bytes)
{
    CS_ASSERT(buf_bytes > 0);
    buf[0] = '\0';
    for (int32_t key = 0; key < N_KEYS; key++) {
        if (key > KEY_PP && is_default(strategy, key)) {
            continue;
        }
        add_text(buf, buf_bytes, key > 0 ? "," : "");
        add_text(buf, buf_bytes, cs_strategy_keys[key]);
        add_text(buf, buf_bytes, "=");
        add_value(strategy, key, buf, buf_bytes);
    }
    return buf;
}
