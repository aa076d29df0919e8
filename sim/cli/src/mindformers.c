#include "mindformers_priv.h"

#include "cs/base/text.h"
#include "cs/strategies/shipped.h"

#include <math.h>
#include <string.h>

/* Settings that a configuration makes: model, seven of the training, memory, two of the platform, an empty
 * strategy block and a key of it each. */
enum { N_SETTINGS = 64 };

/* Of the Ascend servers that MindFormers runs on. */
enum { DEVICES_PER_NODE = 8 };

struct settings {
    struct cs_arena *arena;
    int32_t n;
    struct cs_override list[N_SETTINGS];
};

void cs__mindformers_say(const struct cs_mindformers_warning *warnings, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const struct cs_mindformers_warning *w = &warnings[i];
        (void)fprintf(stderr, "%s:%d: warning: %s: %s\n", w->file, w->line, w->key, w->text);
    }
}

static void set(struct settings *settings, const char *key, const char *value, bool literal)
{
    CS_ASSERT(settings->n < N_SETTINGS);
    settings->list[settings->n++] = (struct cs_override){key, value, literal};
}

/* Put settings before those of the command line, which win. */
static cs_status put_first(struct cs__study_args *args, const struct settings *settings, struct cs_err *err)
{
    const int32_t n = settings->n;
    if (args->n_overrides + n > CS__OVERRIDES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC, "more than %d settings", CS__OVERRIDES_MAX);
    }
    memmove(args->overrides + n, args->overrides, (size_t)args->n_overrides * sizeof *args->overrides);
    memcpy(args->overrides, settings->list, (size_t)n * sizeof *args->overrides);
    args->n_overrides += n;
    return CS_OK;
}

/* Does the command line set this key? After put_first: or the configuration. */
static bool is_set(const char *key, const struct cs__study_args *args)
{
    bool found = false;
    for (int32_t i = 0; i < args->n_overrides; i++) {
        found |= strcmp(args->overrides[i].key, key) == 0;
    }
    return found;
}

/* How gradients are put together, unless the command line says it in any of the three ways: a study takes
 * one of them, and the configuration's beside it would be a contradiction or win. */
static void set_buckets(struct settings *settings, const struct cs_mindformers *config,
                        const struct cs__study_args *args)
{
    struct cs_arena *arena = settings->arena;
    const struct cs_training *t = &config->training;
    if (is_set("training.gradient_bucket", args) || is_set("training.gradient_fusion", args) ||
        is_set("training.gradient_aggregation_group", args)) {
        return;
    }
    if (t->aggregation_groups > 0 && (config->said & CS_MF_SAYS_AGGREGATION)) {
        set(settings, "training.gradient_aggregation_group",
            cs_arena_printf(arena, "%d", (int)t->aggregation_groups), true);
    }
    if (t->n_fusion > 0) {
        const char *list = "";
        for (int32_t i = 0; i < t->n_fusion; i++) {
            list = cs_arena_printf(arena, "%s%s%d", list, i > 0 ? ", " : "", (int)t->fusion[i]);
        }
        set(settings, "training.gradient_fusion", cs_arena_printf(arena, "[%s]", list), false);
    }
}

/* Each setting that is known: one that is missing does not take the others with it. */
static void set_training(struct settings *settings, const struct cs_mindformers *config,
                         const struct cs__study_args *args)
{
    struct cs_arena *arena = settings->arena;
    const struct cs_training *t = &config->training;
    const struct {
        uint32_t bit;
        const char *key, *value;
        bool literal;
    } rows[] = {
        {CS_MF_SAYS_BATCH, "global_batch", cs_arena_printf(arena, "%lld", (long long)t->global_batch), true},
        {CS_MF_SAYS_SEQ_LENGTH, "seq_length", cs_arena_printf(arena, "%lld", (long long)t->seq_length), true},
        {CS_MF_SAYS_DTYPE, "dtype", cs_dtype_names[t->dtype], true},
        {CS_MF_SAYS_OPTIMIZER, "optimizer", cs_optimizer_names[t->optimizer], true},
        {CS_MF_SAYS_CLIP, "clip_gradient", t->clip_gradient ? "true" : "false", false},
        {CS_MF_SAYS_FP32_SYNC, "gradient_fp32_sync", t->gradient_fp32_sync ? "true" : "false", false},
        {CS_MF_SAYS_GRADIENT_DTYPE, "gradient_dtype", cs_dtype_names[t->gradient_dtype], true},
    };
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        if (config->said & rows[i].bit) {
            set(settings, cs_arena_printf(arena, "training.%s", rows[i].key), rows[i].value, rows[i].literal);
        }
    }
    if (t->separate_experts) {
        set(settings, "training.moe_grouped_gemm", "false", false);
    }
    if (t->separate_loss && (config->said & CS_MF_SAYS_DTYPE)) {
        set(settings, "training.cross_entropy_loss_fusion", "false", false);
    }
    set_buckets(settings, config, args);
}

/* Does the command line give this key of the strategy? */
static bool is_given(const char *key, const char *strategy, const struct cs__study_args *args)
{
    const size_t len = strlen(key);
    for (const char *at = strategy; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, key, len) == 0 && at[len] == '=') {
            return true;
        }
    }
    for (int32_t i = 0; i < args->n_overrides; i++) {
        const char *name = args->overrides[i].key;
        if (cs_text_starts_with(name, "strategy.") && strcmp(strchr(name, '.') + 1, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Does it say anything of the strategy? */
static bool is_changed(const char *strategy, const struct cs__study_args *args)
{
    bool changed = strategy != NULL;
    for (int32_t i = 0; i < args->n_overrides; i++) {
        changed |= cs_text_starts_with(args->overrides[i].key, "strategy");
    }
    return changed;
}

/* Where nothing names a cluster: as many devices as the file's degrees ask for, in the default server. */
static cs_status set_platform(struct settings *settings, const struct cs__mindformers *m,
                              bool study_has_platform, const struct cs__study_args *args, struct cs_err *err)
{
    struct cs_arena *arena = settings->arena;
    const int64_t n_devices = m->config.n_devices;
    bool given = study_has_platform;
    for (int32_t i = 0; i < args->n_overrides; i++) {
        given |= cs_text_starts_with(args->overrides[i].key, "platform");
    }
    if (given) {
        return CS_OK;
    }
    if (n_devices > DEVICES_PER_NODE && n_devices % DEVICES_PER_NODE != 0) {
        return cs_err_set(
            err, CS_E_INPUT, (struct cs_loc){.file = m->path},
            "the degrees make %lld devices, which are no whole number of servers of %d: name a platform "
            "of as many (-p)",
            (long long)n_devices, DEVICES_PER_NODE);
    }
    const char *n = cs_arena_printf(arena, "%lld", (long long)n_devices);
    set(settings, "platform.devices", n, true);
    if (n_devices < DEVICES_PER_NODE) {
        set(settings, "platform.devices_per_node", n, true);
    }
    return CS_OK;
}

/* A study beside the file may say all that the file does not: two models, settings or strategies are a
 * contradiction. */
static cs_status check_study(const struct cs__mindformers *m, const struct cs__study_args *args,
                             bool *has_platform, struct cs_err *err)
{
    const struct cs_mindformers *config = &m->config;
    const struct {
        const char *key;
        bool in_file;
    } rows[] = {{"model", config->has_model}, {"training", config->said != 0}, {"strategy", true}};
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_yaml yaml = {0};
    const char *data_dir = NULL;
    const char *path = args->study;
    *has_platform = false;
    if (!path) {
        return CS_OK;
    }
    CS_TRY(cs__data_dir(&arena, &data_dir, err));
    if (!cs_shipped_is_path(CS_SHIPPED_STUDY, path)) {
        CS_TRY(cs_shipped_find(&arena, data_dir, CS_SHIPPED_STUDY, path, NULL,
                               (struct cs_loc){.file = "command line"}, &path, err));
    }
    CS_TRY(cs_yaml_load_file(&yaml, path, err));
    *has_platform = cs_yaml_get(yaml.root, "platform") != NULL;
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        const struct cs_yaml_node *node = cs_yaml_get(yaml.root, rows[i].key);
        if (node && rows[i].in_file) {
            st = cs_err_set(
                err, CS_E_INPUT, node->loc,
                "'%s' is said by the study and by '%s': with --mindformers leave it out of the study",
                rows[i].key, m->path);
            goto out;
        }
    }
out:
    cs_yaml_release(&yaml);
    cs_arena_release(&arena);
    return st;
}

/* "dp=16,mp=2,..." key by key; a comma in a value is one without a '=' before the next. */
static void set_strategy(struct settings *settings, const struct cs_strategy *strategy, bool without_counts,
                         bool without_recompute)
{
    char text[CS_STRATEGY_TEXT_MAX];
    char *at = cs_arena_strdup(settings->arena, cs_strategy_format(strategy, text, sizeof text));
    set(settings, "strategy", "{}", false);
    while (at) {
        char *equals = strchr(at, '=');
        char *next = equals ? strchr(equals + 1, '=') : NULL;
        while (next && *next != ',') {
            next--;
        }
        if (next) {
            *next = '\0';
        }
        if (equals) {
            *equals = '\0';
        }
        bool counts = strcmp(at, "full_layers") == 0 || strcmp(at, "selective_layers") == 0;
        if (equals && strcmp(at, "op") == 0 && strategy->op == strategy->dp) {
            set(settings, "strategy.op", "dp", true);
        } else if (equals && !(counts && without_counts) &&
                   !(without_recompute && strcmp(at, "recompute") == 0)) {
            set(settings, cs_arena_printf(settings->arena, "strategy.%s", at), equals + 1, true);
        }
        at = next ? next + 1 : NULL;
    }
}

cs_status cs__mindformers_apply(struct cs__mindformers *m, const char *path, const char *strategy,
                                struct cs__study_args *args, struct cs_err *err)
{
    cs_status st;
    struct cs_mindformers *config = &m->config;
    struct settings settings = {.arena = &config->arena};
    bool has_platform = false;
    CS_TRY(cs_mindformers_load(config, path, err));
    m->path = path;
    if (config->search_line > 0) {
        st = cs_err_set(
            err, CS_E_INPUT, (struct cs_loc){path, config->search_line, 0},
            "'parallelism' lists degrees to choose from: this is a request of a search, not a run; write "
            "its lists into the 'strategy' block of a study, with 'model: %s', for clustersim search",
            path);
        goto out;
    }
    CS_TRY(check_study(m, args, &has_platform, err));
    cs__mindformers_say(config->warnings, config->n_warnings);
    args->model_listed = config->has_model ? path : NULL;
    if (config->has_model) {
        set(&settings, "model", path, true);
    }
    set_training(&settings, config, args);
    if (config->device_memory_bytes > 0) {
        set(&settings, "constraints.device_memory",
            cs_arena_printf(&config->arena, "%.0fB", floor(config->device_memory_bytes)), true);
    }
    CS_TRY(set_platform(&settings, m, has_platform, args, err));
    m->is_changed = is_changed(strategy, args);
    set_strategy(&settings, &config->strategy, is_given("recompute", strategy, args),
                 is_given("full_layers", strategy, args) || is_given("selective_layers", strategy, args));
    CS_TRY(put_first(args, &settings, err));
out:
    return st;
}

void cs__mindformers_name_gaps(struct cs__mindformers *m, const struct cs__study_args *args,
                               struct cs_err *err)
{
    const struct {
        bool is_there;
        const char *key, *name;
    } rows[] = {{m->config.has_model, "model", "sizes of a model"},
                {m->config.said & CS_MF_SAYS_SEQ_LENGTH, "training.seq_length", "sequence length"},
                {m->config.said & CS_MF_SAYS_BATCH, "training.global_batch", "batch"}};
    const char *list = "";
    for (int32_t i = 0; m->path && i < CS_COUNT(rows); i++) {
        bool is_there = rows[i].is_there || is_set(rows[i].key, args);
        if (!is_there) {
            list = cs_arena_printf(&m->config.arena, "%s%s%s", list, *list ? " and no " : "", rows[i].name);
        }
    }
    if (*list) {
        cs_err_prefix(err, "'%s' gives no %s", m->path, list);
    }
}

void cs__mindformers_blame(const struct cs__mindformers *m, struct cs_err *err)
{
    if (m->path) {
        cs_err_prefix(err, "strategy of '%s'%s", m->path,
                      m->is_changed ? " as the command line changes it" : "");
    }
}

/* A file name need not be UTF-8, JSON must: then null. */
static void put_text(json_t *object, const char *key, const char *text)
{
    json_t *value = json_string(text);
    (void)json_object_set_new(object, key, value ? value : json_null());
}

static void add_all(json_t *list, const struct cs_mindformers_warning *warnings, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const struct cs_mindformers_warning *w = &warnings[i];
        json_t *warning = json_object();
        put_text(warning, "key", w->key);
        put_text(warning, "file", w->file);
        (void)json_object_set_new(warning, "line", json_integer(w->line));
        put_text(warning, "text", w->text);
        (void)json_array_append_new(list, warning);
    }
}

void cs__mindformers_add_warnings(const struct cs__mindformers *m, const struct cs_model *model,
                                  json_t *result)
{
    json_t *list = json_object_get(result, "warnings");
    const bool same =
        m->path && m->config.has_model && model->source && strcmp(model->source, m->config.model.source) == 0;
    add_all(list, m->config.warnings, m->config.n_warnings);
    add_all(list, model->warnings, same ? 0 : model->n_warnings);
}

void cs__mindformers_release(struct cs__mindformers *m)
{
    cs_mindformers_release(&m->config);
}
