/* MindFormers configurations: the file, its sections, typed values. */
#include "mindformers_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"

#include <stdio.h>
#include <string.h>

#define JSON_MAX_BYTES ((size_t)8 << 20)

bool cs__mf_is_absent(const struct cs_yaml_node *node)
{
    static const char *const none[] = {"None", "null", "~", "", NULL};
    return node == NULL ||
           (node->kind == CS_YAML_SCALAR && !node->quoted && cs_text_index(node->text, none) >= 0);
}

static int32_t index_of(const struct cs_yaml_node *map, const char *name)
{
    for (int32_t i = 0; map != NULL && map->kind == CS_YAML_MAP && i < map->n; i++) {
        if (strcmp(map->keys[i]->text, name) == 0) {
            return i;
        }
    }
    return -1;
}

static void mark(struct cs_mf *mf, const struct cs_yaml_node *key, const struct cs_yaml_node *value,
                 bool whole, const char *note)
{
    for (int32_t i = 0; i < mf->n_uses; i++) {
        struct cs_mf_use *use = &mf->uses[i];
        if (use->key == key) {
            use->whole |= whole;
            use->note = use->note != NULL ? use->note : note;
            return;
        }
    }
    CS_GROW(mf->uses, mf->n_uses, mf->cap_uses);
    mf->uses[mf->n_uses++] = (struct cs_mf_use){key, value, whole, note};
}

static bool says_the_same(const struct cs_yaml_node *a, const struct cs_yaml_node *b)
{
    return a->kind == CS_YAML_SCALAR && b->kind == CS_YAML_SCALAR && strcmp(a->text, b->text) == 0;
}

const struct cs_yaml_node *cs__mf_get(struct cs_mf *mf, const struct cs_yaml_node *map,
                                      const char *const *names)
{
    const struct cs_yaml_node *found = NULL;
    const char *name = NULL;
    for (int32_t i = 0; names[i] != NULL; i++) {
        int32_t at = index_of(map, names[i]);
        if (at < 0) {
            continue;
        }
        const struct cs_yaml_node *node = map->items[at];
        bool other = found != NULL && !cs__mf_is_absent(node) && !says_the_same(node, found);
        mark(mf, map->keys[at], node, false,
             other ? cs_arena_printf(&mf->out->arena, "is not read: '%s' says it", name) : NULL);
        if (found == NULL && !cs__mf_is_absent(node)) {
            found = node;
            name = names[i];
        }
    }
    return found;
}

void cs__mf_prefer(struct cs_mf *mf, const struct cs_yaml_node *read, const struct cs_yaml_node *other,
                   const char *where)
{
    if (read != NULL && other != NULL && read != other && !says_the_same(read, other)) {
        cs__mf_warn(mf, where, other, "is not read: line %d says it", read->loc.line);
    }
}

void cs__mf_settle_key(struct cs_mf *mf, const struct cs_yaml_node *map, const char *key)
{
    int32_t at = index_of(map, key);
    if (at >= 0) {
        mark(mf, map->keys[at], map->items[at], true, NULL);
    }
}

cs_status cs__mf_int(const struct cs_yaml_node *node, int64_t min, int64_t max, const char *what,
                     int64_t *value, struct cs_err *err)
{
    return node == NULL ? CS_OK : cs_yaml_int(node, min, max, what, value, err);
}

cs_status cs__mf_bool(const struct cs_yaml_node *node, const char *what, bool *value, struct cs_err *err)
{
    return node == NULL ? CS_OK : cs_yaml_bool(node, what, value, err);
}

cs_status cs__mf_text(const struct cs_yaml_node *node, const char *what, const char **text,
                      struct cs_err *err)
{
    if (node == NULL) {
        return CS_OK;
    }
    cs_status st = cs_yaml_want(node, CS_YAML_SCALAR, what, err);
    if (st == CS_OK) {
        *text = node->text;
    }
    return st;
}

bool cs__mf_is_on(const struct cs_yaml_node *node)
{
    static const char *const off[] = {"False", "false", "FALSE", "0", "0.0", "-1", NULL};
    if (cs__mf_is_absent(node)) {
        return false;
    }
    if (node->kind == CS_YAML_SCALAR) {
        return cs_text_index(node->text, off) < 0;
    }
    bool on = false;
    for (int32_t i = 0; i < node->n; i++) {
        on |= cs__mf_is_on(node->items[i]);
    }
    return on;
}

void cs__mf_warn_as(struct cs_mf *mf, const char *key, const struct cs_yaml_node *node, const char *text)
{
    struct cs_arena *arena = &mf->out->arena;
    const struct cs_loc loc = (node != NULL ? node : mf->root)->loc;
    CS_GROW(mf->out->warnings, mf->out->n_warnings, mf->cap_warnings);
    /* Keys are the file's own texts, and warnings are shown on terminals. */
    char *shown = cs_arena_strdup(arena, key);
    for (char *c = shown; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f ? '?' : *c;
    }
    mf->out->warnings[mf->out->n_warnings++] =
        (struct cs_mindformers_warning){.key = shown,
                                        .file = cs_arena_strdup(arena, loc.file != NULL ? loc.file : ""),
                                        .line = loc.line,
                                        .text = cs_arena_strdup(arena, text)};
}

/** The use of a value. An anchor's value stands at several keys: then that of the key that `path` ends in. */
static struct cs_mf_use *use_of_value(struct cs_mf *mf, const char *path, const struct cs_yaml_node *value)
{
    const char *dot = strrchr(path, '.');
    const char *name = dot != NULL ? dot + 1 : path;
    struct cs_mf_use *found = NULL;
    for (int32_t i = 0; i < mf->n_uses; i++) {
        struct cs_mf_use *use = &mf->uses[i];
        if (use->value == value && (found == NULL || strcmp(use->key->text, name) == 0)) {
            found = use;
        }
    }
    return found;
}

void cs__mf_warn(struct cs_mf *mf, const char *key, const struct cs_yaml_node *node, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct cs_mf_use *use = node != NULL && node->kind != CS_YAML_MAP ? use_of_value(mf, key, node) : NULL;
    if (use != NULL && (use->note == NULL || strcmp(use->note, text) == 0)) {
        use->note = cs_arena_strdup(&mf->out->arena, text);
        return;
    }
    cs__mf_warn_as(mf, key, node, text);
}

bool cs_mindformers_is(const struct cs_yaml_node *root)
{
    /* A model file of ours has no 'model'. */
    const struct cs_yaml_node *model = cs_yaml_get(root, "model");
    return (model != NULL && model->kind == CS_YAML_MAP) || cs_yaml_get(root, "parallel_config") != NULL;
}

static cs_status map_or_absent(struct cs_mf *mf, const struct cs_yaml_node *map, const char *key,
                               const struct cs_yaml_node **section, struct cs_err *err)
{
    const struct cs_yaml_node *node = CS_MF_GET(mf, map, key);
    *section = node;
    return node == NULL ? CS_OK : cs_yaml_want(node, CS_YAML_MAP, key, err);
}

static cs_status find_sections(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    const struct cs_yaml_node *model = NULL;
    bool legacy = true;
    mf->parallel_run = true;
    CS_TRY(cs_yaml_want(mf->root, CS_YAML_MAP, "a MindFormers configuration", err));
    CS_TRY(map_or_absent(mf, mf->root, "model", &model, err));
    CS_TRY(map_or_absent(mf, model, "model_config", &mf->model, err));
    CS_TRY(map_or_absent(mf, mf->root, "moe_config", &mf->moe, err));
    CS_TRY(map_or_absent(mf, mf->root, "parallel", &mf->parallel, err));
    CS_TRY(map_or_absent(mf, mf->root, "parallel_config", &mf->parallel_config, err));
    CS_TRY(map_or_absent(mf, mf->root, "recompute_config", &mf->recompute, err));
    CS_TRY(map_or_absent(mf, mf->root, "runner_config", &mf->runner, err));
    CS_TRY(map_or_absent(mf, mf->root, "runner_wrapper", &mf->wrapper, err));
    CS_TRY(map_or_absent(mf, mf->root, "optimizer", &mf->optimizer, err));
    CS_TRY(map_or_absent(mf, mf->root, "swap_config", &mf->swap, err));
    CS_TRY(map_or_absent(mf, mf->root, "context", &mf->context, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->root, "use_legacy"), "use_legacy", &legacy, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->root, "use_parallel"), "use_parallel", &mf->parallel_run, err));
    mf->new_style = !legacy;
    const struct cs_yaml_node *choices = cs_yaml_get(mf->root, "parallelism");
    if (choices != NULL && choices->kind == CS_YAML_MAP && mf->parallel_config == NULL) {
        mf->out->search_line = choices->loc.line;
    }
    /* Search requests and pipeline-balance files have the model's keys in `model` itself. */
    mf->model = mf->model != NULL ? mf->model : model;
out:
    return st;
}

static int64_t hex4(const char *at)
{
    int64_t value = 0;
    for (int32_t i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = at[i] != '\0' ? strchr(digits, at[i]) : NULL;
        if (digit == NULL) {
            return -1;
        }
        value = value * 16 + (digit - digits < 16 ? digit - digits : digit - digits - 6);
    }
    return value;
}

/** JSON writes a character beyond 16 bits as two escapes, which YAML does not know: make them its one of
 *  eight digits, two bytes shorter. */
static void join_surrogates(char *text, size_t *bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < *bytes;) {
        bool escape = text[i] == '\\' && i + 1 < *bytes;
        int64_t high = escape && text[i + 1] == 'u' ? hex4(text + i + 2) : -1;
        bool pair = high >= 0xD800 && high < 0xDC00 && text[i + 6] == '\\' && text[i + 7] == 'u';
        int64_t low = pair ? hex4(text + i + 8) : -1;
        if (low >= 0xDC00 && low < 0xE000) {
            char joined[16];
            (void)snprintf(joined, sizeof joined, "\\U%08llx",
                           (unsigned long long)(0x10000 + (high - 0xD800) * 0x400 + (low - 0xDC00)));
            memcpy(text + n, joined, 10);
            n += 10;
            i += 12;
            continue;
        }
        for (int32_t k = 0; k < (escape ? 2 : 1); k++) {
            text[n++] = text[i++];
        }
    }
    text[ *bytes = n] = '\0';
}

/** A JSON document is a YAML one but for these escapes. */
static cs_status load_json(struct cs_yaml *yaml, const char *path, struct cs_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    cs_status st;
    CS_TRY(cs_file_read(path, JSON_MAX_BYTES, &text, &bytes, err));
    join_surrogates(text, &bytes);
    CS_TRY(cs_yaml_load_text(yaml, text, bytes, path, err));
out:
    cs_free(text);
    return st;
}

/** The model's sizes may be in a Hugging Face config.json: `pretrained_model_dir`, beside the file. A folder
 * that is not there is no error: the sizes are then missing. */
static cs_status load_hub(struct cs_mf *mf, const char *path, struct cs_yaml *hub, struct cs_err *err)
{
    const struct cs_yaml_node *dir = CS_MF_GET(mf, mf->root, "pretrained_model_dir");
    if (dir != NULL && dir->kind != CS_YAML_SCALAR) {
        return cs_yaml_want(dir, CS_YAML_SCALAR, "pretrained_model_dir", err);
    }
    if (path == NULL || dir == NULL || dir->text[0] == '\0') {
        return CS_OK;
    }
    struct cs_arena *arena = &mf->out->arena;
    const char *folder =
        dir->text[0] == '/' ? dir->text : cs_path_join(arena, cs_path_dir(arena, path), dir->text);
    if (!cs_file_is_dir(folder)) {
        cs__mf_warn(mf, "pretrained_model_dir", dir,
                    "no such folder: the model's sizes are not read from it");
        return CS_OK;
    }
    cs_status st;
    CS_TRY(load_json(hub, cs_path_join(arena, folder, "config.json"), err));
    CS_TRY(cs_yaml_want(hub->root, CS_YAML_MAP, "config.json", err));
    mf->hub = hub->root;
out:
    return st;
}

static cs_status read_all(struct cs_mindformers *config, const struct cs_yaml *yaml, const char *path,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_yaml hub = {.last_wins = true};
    struct cs_mf mf = {.out = config, .root = yaml->root};
    cs_strategy_init(&config->strategy);
    CS_TRY(find_sections(&mf, err));
    CS_TRY(load_hub(&mf, path, &hub, err));
    CS_TRY(cs__mf_model(&mf, err));
    CS_TRY(cs__mf_strategy(&mf, err));
    CS_TRY(cs__mf_stages(&mf, err));
    CS_TRY(cs__mf_training(&mf, err));
    CS_TRY(cs__mf_runtime(&mf, err));
    CS_TRY(cs__mf_check(&mf, err));
    cs__mf_list_repeats(&mf, yaml, "");
    cs__mf_list_repeats(&mf, &hub, "config.json");
    cs__mf_list_unmodelled(&mf);
    cs_strategy_canonicalise(&config->strategy);
out : {
    /* Into the arena, so that the record owns everything. */
    struct cs_mindformers_warning *heap = config->warnings;
    size_t bytes = (size_t)config->n_warnings * sizeof *heap;
    config->warnings = bytes > 0 ? cs_arena_memdup(&config->arena, heap, bytes) : NULL;
    cs_free(heap);
}
    cs_free(mf.uses);
    cs_yaml_release(&hub);
    return st;
}

static cs_status read_document(struct cs_mindformers *config, struct cs_yaml *yaml, const char *path,
                               struct cs_err *err)
{
    struct cs_mindformers read = {0};
    cs_status st = read_all(&read, yaml, path, err);
    if (st == CS_OK) {
        *config = read;
    } else {
        cs_mindformers_release(&read);
    }
    return st;
}

cs_status cs_mindformers_load(struct cs_mindformers *config, const char *path, struct cs_err *err)
{
    cs_status st;
    struct cs_yaml yaml = {.last_wins = true}; /* as PyYAML, with which MindFormers reads it */
    CS_TRY(cs_yaml_load_file(&yaml, path, err));
    CS_TRY(read_document(config, &yaml, path, err));
out:
    cs_yaml_release(&yaml);
    return st;
}

cs_status cs_mindformers_load_text(struct cs_mindformers *config, const char *text, size_t bytes,
                                   const char *name, struct cs_err *err)
{
    cs_status st;
    struct cs_yaml yaml = {.last_wins = true}; /* as PyYAML, with which MindFormers reads it */
    CS_TRY(cs_yaml_load_text(&yaml, text, bytes, name, err));
    CS_TRY(read_document(config, &yaml, NULL, err));
out:
    cs_yaml_release(&yaml);
    return st;
}

void cs_mindformers_release(struct cs_mindformers *config)
{
    cs_model_release(&config->model);
    cs_arena_release(&config->arena);
    *config = (struct cs_mindformers){0};
}
