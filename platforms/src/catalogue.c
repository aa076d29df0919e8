/* Reading the catalogue: YAML files of chips, servers, NICs and switches. */
#include "catalogue_priv.h"
#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/base/yaml.h"
#include "cs/platforms/chip.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct chip_entry {
    struct cs_chip chip;
    struct cs_loc loc;
    const char *sources[CS__N_CHIP_FIGURES];
    int32_t layer; /* entries of a later folder stand in for those of an earlier one */
};

struct server_entry {
    struct cs_server server;
    struct cs_loc loc;
    struct cs_loc chip_loc;
    const char *sources[CS__N_SERVER_FIGURES];
    int32_t layer;
};

struct cs_catalogue {
    int32_t n_docs, cap_docs;
    struct cs_yaml *docs; /* own the texts of everything below */
    int32_t n_chips, cap_chips;
    struct chip_entry *chips;
    int32_t n_servers, cap_servers;
    struct server_entry *servers;
    const char **chip_names;
    const char **server_names;
    struct cs__network network;
    int32_t layer; /* of the folder that is being read */
};

/* The map that holds the figure, and the figure's name in it. */
static const struct cs_yaml_node *figure_node(const struct cs_yaml_node *entry, const char *key)
{
    const char *dot = strchr(key, '.');
    if (!dot) {
        return cs_yaml_get(entry, key);
    }
    char group[32];
    size_t len = (size_t)(dot - key);
    CS_ASSERT(len < sizeof group);
    memcpy(group, key, len);
    group[len] = '\0';
    return cs_yaml_get(cs_yaml_get(entry, group), dot + 1);
}

/* Refuse keys that no figure of the table (nor `extra`) has, in the entry and in its maps. */
cs_status cs__catalogue_keys(const struct cs_yaml_node *entry, const char *what, const char *const *extra,
                             const struct cs_figure *figures, int32_t n_figures, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    const char **top = CS_ARENA_NEW(&arena, const char *, n_figures + 8);
    const char **sub = CS_ARENA_NEW(&arena, const char *, n_figures + 1);
    int32_t n_top = 0;
    for (int32_t i = 0; extra[i]; i++) {
        top[n_top++] = extra[i];
    }
    for (int32_t f = 0; f < n_figures; f++) {
        const char *dot = strchr(figures[f].key, '.');
        if (!dot) {
            top[n_top++] = figures[f].key;
            continue;
        }
        const char *group = cs_arena_strndup(&arena, figures[f].key, (size_t)(dot - figures[f].key));
        if (cs_text_index(group, top) >= 0) {
            continue;
        }
        top[n_top++] = group;
        size_t len = strlen(group);
        int32_t n_sub = 0;
        for (int32_t g = f; g < n_figures; g++) {
            if (strncmp(figures[g].key, group, len) == 0 && figures[g].key[len] == '.') {
                sub[n_sub++] = figures[g].key + len + 1;
            }
        }
        sub[n_sub] = NULL;
        const struct cs_yaml_node *map = cs_yaml_get(entry, group);
        if (map) {
            CS_TRY(cs_yaml_want(map, CS_YAML_MAP, group, err));
            CS_TRY(cs_yaml_check_keys(map, sub, group, err));
        }
    }
    CS_TRY(cs_yaml_check_keys(entry, top, what, err));
out:
    cs_arena_release(&arena);
    return st;
}

/* Read one `{value, source}`. */
static cs_status read_figure(const struct cs_yaml_node *node, const struct cs_figure *figure, double *value,
                             const char **source, struct cs_err *err)
{
    static const char *const keys[] = {"value", "source", NULL};
    cs_status st = CS_OK;
    const struct cs_yaml_node *value_node = NULL;
    if (node->kind != CS_YAML_MAP) {
        return cs_err_set(err, CS_E_INPUT, node->loc,
                          "'%s' must be {value: ..., source: \"...\"}: a figure needs its source",
                          figure->key);
    }
    CS_TRY(cs_yaml_check_keys(node, keys, figure->key, err));
    CS_TRY(cs_yaml_need(node, "value", &value_node, err));
    CS_TRY(cs_yaml_opt_text(node, "source", source, err));
    if (!*source || (*source)[strspn(*source, " \t\r\n")] == '\0') {
        return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' has no source: say where the figure is from",
                          figure->key);
    }
    bool null = value_node->kind == CS_YAML_SCALAR && !value_node->quoted &&
                (strcmp(value_node->text, "null") == 0 || strcmp(value_node->text, "~") == 0 ||
                 value_node->text[0] == '\0');
    if (null) {
        if (figure->required) {
            return cs_err_set(err, CS_E_INPUT, value_node->loc, "'%s' must have a number, found null",
                              figure->key);
        }
        *value = NAN;
        return CS_OK;
    }
    double read = 0.0;
    CS_TRY(cs_yaml_quantity(value_node, figure->unit, figure->key, &read, err));
    if (read < figure->min || read > figure->max) {
        return cs_err_set(err, CS_E_INPUT, value_node->loc, "'%s' is %s, expected %g to %g in base units",
                          figure->key, value_node->text, figure->min, figure->max);
    }
    *value = read;
out:
    return st;
}

/* Read every figure of the table into `record`; all keys must be there. */
cs_status cs__catalogue_read(const struct cs_yaml_node *entry, const struct cs_figure *figures,
                             int32_t n_figures, void *record, const char **sources, struct cs_err *err)
{
    cs_status st = CS_OK;
    for (int32_t f = 0; f < n_figures; f++) {
        const struct cs_yaml_node *node = figure_node(entry, figures[f].key);
        if (!node) {
            return cs_err_set(
                err, CS_E_INPUT, entry->loc,
                "figure '%s' is missing (unknown figures are {value: null, source: \"not found\"})",
                figures[f].key);
        }
        double value = 0.0;
        CS_TRY(read_figure(node, &figures[f], &value, &sources[f], err));
        memcpy((char *)record + figures[f].offset, &value, sizeof value);
    }
out:
    return st;
}

static cs_status read_chip(struct cs_catalogue *catalogue, const struct cs_yaml_node *key,
                           const struct cs_yaml_node *entry, struct cs_err *err)
{
    static const char *const extra[] = {"title", NULL};
    cs_status st = CS_OK;
    struct chip_entry read = {.loc = key->loc, .layer = catalogue->layer};
    int32_t at = 0;
    CS_TRY(cs_yaml_want(entry, CS_YAML_MAP, key->text, err));
    CS_TRY(cs__catalogue_keys(entry, key->text, extra, cs__chip_figures, CS__N_CHIP_FIGURES, err));
    read.chip.name = key->text;
    CS_TRY(cs_yaml_opt_text(entry, "title", &read.chip.title, err));
    if (!read.chip.title) {
        read.chip.title = key->text;
    }
    while (at < catalogue->n_chips && strcmp(catalogue->chips[at].chip.name, key->text) != 0) {
        at++;
    }
    if (at < catalogue->n_chips && catalogue->chips[at].layer == catalogue->layer) {
        return cs_err_set(err, CS_E_INPUT, key->loc, "chip '%s' is already described in %s:%d", key->text,
                          catalogue->chips[at].loc.file, catalogue->chips[at].loc.line);
    }
    CS_TRY(cs__catalogue_read(entry, cs__chip_figures, CS__N_CHIP_FIGURES, &read.chip, read.sources, err));
    if (at == catalogue->n_chips) {
        CS_GROW(catalogue->chips, catalogue->n_chips, catalogue->cap_chips);
        catalogue->n_chips++;
    }
    catalogue->chips[at] = read;
out:
    if (st != CS_OK) {
        cs_err_prefix(err, "chip '%s'", key->text);
    }
    return st;
}

static cs_status read_server(struct cs_catalogue *catalogue, const struct cs_yaml_node *key,
                             const struct cs_yaml_node *entry, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct server_entry read = {.loc = key->loc, .layer = catalogue->layer};
    int32_t at = 0;
    while (at < catalogue->n_servers && strcmp(catalogue->servers[at].server.name, key->text) != 0) {
        at++;
    }
    if (at < catalogue->n_servers && catalogue->servers[at].layer == catalogue->layer) {
        return cs_err_set(err, CS_E_INPUT, key->loc, "server '%s' is already described in %s:%d", key->text,
                          catalogue->servers[at].loc.file, catalogue->servers[at].loc.line);
    }
    CS_TRY(cs__server_read(&read.server, read.sources, &read.chip_loc, key, entry, err));
    if (at == catalogue->n_servers) {
        CS_GROW(catalogue->servers, catalogue->n_servers, catalogue->cap_servers);
        catalogue->n_servers++;
    }
    catalogue->servers[at] = read;
out:
    if (st != CS_OK) {
        cs_err_prefix(err, "server '%s'", key->text);
    }
    return st;
}

static cs_status read_document(struct cs_catalogue *catalogue, const struct cs_yaml_node *root,
                               struct cs_err *err)
{
    /* `software` is not the catalogue's, but calibration writes all of its figures into one folder. */
    static const char *const keys[] = {"chips", "servers", "nics", "switches", "software", NULL};
    cs_status st = CS_OK;
    CS_TRY(cs_yaml_want(root, CS_YAML_MAP, "a catalogue file", err));
    CS_TRY(cs_yaml_check_keys(root, keys, "a catalogue file", err));
    const struct cs_yaml_node *chips = cs_yaml_get(root, "chips");
    if (chips) {
        CS_TRY(cs_yaml_want(chips, CS_YAML_MAP, "chips", err));
        for (int32_t i = 0; i < chips->n; i++) {
            CS_TRY(read_chip(catalogue, chips->keys[i], chips->items[i], err));
        }
    }
    const struct cs_yaml_node *servers = cs_yaml_get(root, "servers");
    if (servers) {
        CS_TRY(cs_yaml_want(servers, CS_YAML_MAP, "servers", err));
        for (int32_t i = 0; i < servers->n; i++) {
            CS_TRY(read_server(catalogue, servers->keys[i], servers->items[i], err));
        }
    }
    CS_TRY(cs__network_read(&catalogue->network, root, err));
out:
    return st;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the folder's YAML files, sorted, in the arena. */
static cs_status list_files(const char *dir, struct cs_arena *arena, const char ***names, int32_t *n_names,
                            struct cs_err *err)
{
    struct cs_loc loc = {.file = dir};
    const char **list = NULL;
    int32_t n = 0;
    int32_t cap = 0;
    DIR *stream = opendir(dir);
    if (!stream) {
        return cs_err_set(err, CS_E_INPUT, loc, "cannot open the catalogue folder: %s", strerror(errno));
    }
    for (struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        if (entry->d_name[0] != '.' && cs_text_ends_with(entry->d_name, ".yaml")) {
            CS_GROW(list, n, cap);
            list[n++] = cs_arena_strdup(arena, entry->d_name);
        }
    }
    closedir(stream);
    if (n > 1) {
        qsort(list, (size_t)n, sizeof *list, compare_names);
    }
    if (n > 0) {
        *names = cs_arena_memdup(arena, list, (size_t)n * sizeof *list);
    }
    *n_names = n;
    cs_free(list);
    return n > 0 ? CS_OK : cs_err_set(err, CS_E_INPUT, loc, "the catalogue folder has no .yaml file");
}

/* Every server's chip must exist; name lists for the users. */
static cs_status finish(struct cs_catalogue *catalogue, struct cs_err *err)
{
    for (int32_t i = 0; i < catalogue->n_servers; i++) {
        const struct server_entry *entry = &catalogue->servers[i];
        if (!cs_catalogue_chip(catalogue, entry->server.chip)) {
            return cs_err_set(err, CS_E_INPUT, entry->chip_loc, "server '%s' has the unknown chip '%s'",
                              entry->server.name, entry->server.chip);
        }
    }
    catalogue->chip_names = cs_calloc((size_t)catalogue->n_chips + 1, sizeof *catalogue->chip_names);
    for (int32_t i = 0; i < catalogue->n_chips; i++) {
        catalogue->chip_names[i] = catalogue->chips[i].chip.name;
    }
    catalogue->server_names = cs_calloc((size_t)catalogue->n_servers + 1, sizeof *catalogue->server_names);
    for (int32_t i = 0; i < catalogue->n_servers; i++) {
        catalogue->server_names[i] = catalogue->servers[i].server.name;
    }
    return CS_OK;
}

/* Read the files of one folder. */
static cs_status read_folder(struct cs_catalogue *catalogue, const char *dir, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    const char **names = NULL;
    int32_t n_names = 0;
    CS_TRY(list_files(dir, &arena, &names, &n_names, err));
    for (int32_t i = 0; i < n_names; i++) {
        CS_GROW(catalogue->docs, catalogue->n_docs, catalogue->cap_docs);
        struct cs_yaml *doc = &catalogue->docs[catalogue->n_docs];
        memset(doc, 0, sizeof *doc);
        catalogue->n_docs++;
        CS_TRY(cs_yaml_load_file(doc, cs_path_join(&arena, dir, names[i]), err));
        CS_TRY(read_document(catalogue, doc->root, err));
    }
out:
    cs_arena_release(&arena);
    return st;
}

cs_status cs_catalogue_load_over(const char *dir, const char *over, struct cs_catalogue **catalogue,
                                 struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_catalogue *read = cs_calloc(1, sizeof *read);
    CS_TRY(read_folder(read, dir, err));
    if (over) {
        read->layer++;
        CS_TRY(read_folder(read, over, err));
    }
    CS_TRY(finish(read, err));
    *catalogue = read;
    read = NULL;
out:
    cs_catalogue_free(read);
    return st;
}

cs_status cs_catalogue_load(const char *dir, struct cs_catalogue **catalogue, struct cs_err *err)
{
    return cs_catalogue_load_over(dir, NULL, catalogue, err);
}

void cs_catalogue_free(struct cs_catalogue *catalogue)
{
    if (!catalogue) {
        return;
    }
    for (int32_t i = 0; i < catalogue->n_docs; i++) {
        cs_yaml_release(&catalogue->docs[i]);
    }
    cs_free(catalogue->docs);
    cs_free(catalogue->chips);
    cs_free(catalogue->servers);
    cs__network_release(&catalogue->network);
    cs_free(catalogue->chip_names);
    cs_free(catalogue->server_names);
    cs_free(catalogue);
}

static const struct chip_entry *find_chip(const struct cs_catalogue *catalogue, const char *name)
{
    for (int32_t i = 0; i < catalogue->n_chips; i++) {
        if (strcmp(catalogue->chips[i].chip.name, name) == 0) {
            return &catalogue->chips[i];
        }
    }
    return NULL;
}

const struct cs_chip *cs_catalogue_chip(const struct cs_catalogue *catalogue, const char *name)
{
    const struct chip_entry *entry = find_chip(catalogue, name);
    return entry ? &entry->chip : NULL;
}

static const struct server_entry *find_server(const struct cs_catalogue *catalogue, const char *name)
{
    for (int32_t i = 0; i < catalogue->n_servers; i++) {
        if (strcmp(catalogue->servers[i].server.name, name) == 0) {
            return &catalogue->servers[i];
        }
    }
    return NULL;
}

const struct cs_server *cs_catalogue_server(const struct cs_catalogue *catalogue, const char *name)
{
    const struct server_entry *entry = find_server(catalogue, name);
    return entry ? &entry->server : NULL;
}

const char *const *cs_catalogue_chip_names(const struct cs_catalogue *catalogue)
{
    return catalogue->chip_names;
}

const char *const *cs_catalogue_server_names(const struct cs_catalogue *catalogue)
{
    return catalogue->server_names;
}

const char *cs_catalogue_source(const struct cs_catalogue *catalogue, const char *chip, const char *figure)
{
    const struct chip_entry *entry = find_chip(catalogue, chip);
    int32_t index = cs_chip_figure_index(figure);
    return entry && index >= 0 ? entry->sources[index] : NULL;
}

const char *cs_catalogue_server_source(const struct cs_catalogue *catalogue, const char *server,
                                       const char *figure)
{
    const struct server_entry *entry = find_server(catalogue, server);
    int32_t index = cs_server_figure_index(figure);
    return entry && index >= 0 ? entry->sources[index] : NULL;
}

const struct cs_nic *cs_catalogue_nics(const struct cs_catalogue *catalogue, int32_t *n)
{
    *n = catalogue->network.n_nics;
    return catalogue->network.nics;
}

const struct cs_switch *cs_catalogue_switches(const struct cs_catalogue *catalogue, int32_t *n)
{
    *n = catalogue->network.n_switches;
    return catalogue->network.switches;
}
