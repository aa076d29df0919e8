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

/* What a server's figures are read into. */
struct server_figures {
    double devices; /* @unit count */
    double intra_bytes_per_s;
    double bus_bytes_per_s;
    double intra_latency_s;
    double nic_bytes_per_s;
    double nic_latency_s;
};

#define SERVER(key, unit, field, min, max)                                                                   \
    {                                                                                                        \
        key, unit, offsetof(struct server_figures, field), true, min, max                                    \
    }
static const struct cs_figure server_figures[] = {
    SERVER("devices", CS_UNIT_NONE, devices, 1.0, 1024.0),
    SERVER("intra_bandwidth", CS_UNIT_BYTES_PER_S, intra_bytes_per_s, 1.0, 1e15),
    SERVER("intra_latency", CS_UNIT_SECONDS, intra_latency_s, 0.0, 1.0),
    SERVER("nic_bandwidth", CS_UNIT_BYTES_PER_S, nic_bytes_per_s, 1.0, 1e15),
    SERVER("nic_latency", CS_UNIT_SECONDS, nic_latency_s, 0.0, 1.0),
};
enum { N_SERVER_FIGURES = sizeof server_figures / sizeof server_figures[0] };

struct chip_entry {
    struct cs_chip chip;
    struct cs_loc loc;
    const char *sources[CS__N_CHIP_FIGURES];
};

struct server_entry {
    struct cs_server server;
    struct cs_loc loc;
    struct cs_loc chip_loc;
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
    struct chip_entry read = {.loc = key->loc};
    CS_TRY(cs_yaml_want(entry, CS_YAML_MAP, key->text, err));
    CS_TRY(cs__catalogue_keys(entry, key->text, extra, cs__chip_figures, CS__N_CHIP_FIGURES, err));
    read.chip.name = key->text;
    CS_TRY(cs_yaml_opt_text(entry, "title", &read.chip.title, err));
    if (!read.chip.title) {
        read.chip.title = key->text;
    }
    for (int32_t i = 0; i < catalogue->n_chips; i++) {
        if (strcmp(catalogue->chips[i].chip.name, key->text) == 0) {
            return cs_err_set(err, CS_E_INPUT, key->loc, "chip '%s' is already described in %s:%d", key->text,
                              catalogue->chips[i].loc.file, catalogue->chips[i].loc.line);
        }
    }
    CS_TRY(cs__catalogue_read(entry, cs__chip_figures, CS__N_CHIP_FIGURES, &read.chip, read.sources, err));
    CS_GROW(catalogue->chips, catalogue->n_chips, catalogue->cap_chips);
    catalogue->chips[catalogue->n_chips++] = read;
out:
    if (st != CS_OK) {
        cs_err_prefix(err, "chip '%s'", key->text);
    }
    return st;
}

static cs_status read_server(struct cs_catalogue *catalogue, const struct cs_yaml_node *key,
                             const struct cs_yaml_node *entry, struct cs_err *err)
{
    static const char *const extra[] = {"title", "chip", "intra", "bus_bandwidth", NULL};
    static const char *const intra_names[] = {"mesh", "switch", "bus", NULL};
    static const struct cs_figure bus =
        SERVER("bus_bandwidth", CS_UNIT_BYTES_PER_S, bus_bytes_per_s, 1.0, 1e15);
    cs_status st = CS_OK;
    struct server_entry read = {.loc = key->loc};
    struct server_figures figures = {0};
    const char *sources[N_SERVER_FIGURES] = {0};
    const struct cs_yaml_node *node = NULL;
    int32_t intra = 0;
    CS_TRY(cs_yaml_want(entry, CS_YAML_MAP, key->text, err));
    CS_TRY(cs__catalogue_keys(entry, key->text, extra, server_figures, N_SERVER_FIGURES, err));
    read.server.name = key->text;
    CS_TRY(cs_yaml_opt_text(entry, "title", &read.server.title, err));
    if (!read.server.title) {
        read.server.title = key->text;
    }
    for (int32_t i = 0; i < catalogue->n_servers; i++) {
        if (strcmp(catalogue->servers[i].server.name, key->text) == 0) {
            return cs_err_set(err, CS_E_INPUT, key->loc, "server '%s' is already described in %s:%d",
                              key->text, catalogue->servers[i].loc.file, catalogue->servers[i].loc.line);
        }
    }
    CS_TRY(cs_yaml_need(entry, "intra", &node, err));
    CS_TRY(cs_yaml_choice(node, intra_names, "intra", &intra, err));
    CS_TRY(cs_yaml_need(entry, "chip", &node, err));
    CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, "chip", err));
    read.server.chip = node->text;
    read.chip_loc = node->loc;
    CS_TRY(cs__catalogue_read(entry, server_figures, N_SERVER_FIGURES, &figures, sources, err));
    if (figures.devices != floor(figures.devices)) {
        return cs_err_set(err, CS_E_INPUT, entry->loc, "server '%s' has %g devices, expected a whole number",
                          key->text, figures.devices);
    }
    read.server.devices = (int32_t)figures.devices;
    if (intra == 2) {
        CS_TRY(cs__catalogue_read(entry, &bus, 1, &figures, sources, err));
    } else if (cs_yaml_get(entry, bus.key)) {
        return cs_err_set(err, CS_E_INPUT, cs_yaml_get(entry, bus.key)->loc,
                          "only a server with 'intra: bus' has a bus");
    }
    read.server.intra_switched = intra != 0;
    read.server.intra_bus_bytes_per_s = figures.bus_bytes_per_s;
    read.server.intra_bytes_per_s = figures.intra_bytes_per_s;
    read.server.intra_latency_s = figures.intra_latency_s;
    read.server.nic_bytes_per_s = figures.nic_bytes_per_s;
    read.server.nic_latency_s = figures.nic_latency_s;
    CS_GROW(catalogue->servers, catalogue->n_servers, catalogue->cap_servers);
    catalogue->servers[catalogue->n_servers++] = read;
out:
    if (st != CS_OK) {
        cs_err_prefix(err, "server '%s'", key->text);
    }
    return st;
}

static cs_status read_document(struct cs_catalogue *catalogue, const struct cs_yaml_node *root,
                               struct cs_err *err)
{
    static const char *const keys[] = {"chips", "servers", "nics", "switches", NULL};
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

cs_status cs_catalogue_load(const char *dir, struct cs_catalogue **catalogue, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    const char **names = NULL;
    int32_t n_names = 0;
    struct cs_catalogue *read = cs_calloc(1, sizeof *read);
    CS_TRY(list_files(dir, &arena, &names, &n_names, err));
    for (int32_t i = 0; i < n_names; i++) {
        CS_GROW(read->docs, read->n_docs, read->cap_docs);
        struct cs_yaml *doc = &read->docs[read->n_docs];
        memset(doc, 0, sizeof *doc);
        read->n_docs++;
        CS_TRY(cs_yaml_load_file(doc, cs_path_join(&arena, dir, names[i]), err));
        CS_TRY(read_document(read, doc->root, err));
    }
    CS_TRY(finish(read, err));
    *catalogue = read;
    read = NULL;
out:
    cs_catalogue_free(read);
    cs_arena_release(&arena);
    return st;
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

const struct cs_server *cs_catalogue_server(const struct cs_catalogue *catalogue, const char *name)
{
    for (int32_t i = 0; i < catalogue->n_servers; i++) {
        if (strcmp(catalogue->servers[i].server.name, name) == 0) {
            return &catalogue->servers[i].server;
        }
    }
    return NULL;
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
