#include "cs/engine/routes.h"

#include "isolate_priv.h"
#include "sgcompat_priv.h"

#include "cs/base/text.h"
#include "cs/engine/reach.h"

#include <math.h>
#include <string.h>

/* Asking for a route that SimGrid does not have may end the child: then reach.c finds out which one it was.
 */

#define ROUTE_LINKS_MAX 1024
#define LINK_NAME_MAX 128

struct pair_entry {
    int32_t from, to; /* from < 0: free slot */
    int64_t first;    /* into route_links */
    int32_t n;
    double latency_s;
};

struct cs_routes {
    const struct cs_platform *platform;
    const char *simgrid_cfg;
    struct cs_arena arena; /* link names */
    struct cs_link *links;
    int32_t n_links, cap_links;
    int32_t *route_links;
    int64_t n_route_links, cap_route_links;
    struct pair_entry *table; /* open addressing, capacity a power of two */
    int64_t n_pairs, cap_pairs;
    int32_t *name_table; /* link index by name, open addressing; -1 free */
    int64_t cap_names;
};

struct cs_routes *cs_routes_new(const struct cs_platform *platform, const char *simgrid_cfg)
{
    struct cs_routes *routes = cs_calloc(1, sizeof *routes);
    routes->platform = platform;
    routes->simgrid_cfg = simgrid_cfg;
    return routes;
}

void cs_routes_free(struct cs_routes *routes)
{
    if (!routes) {
        return;
    }
    cs_arena_release(&routes->arena);
    cs_free(routes->links);
    cs_free(routes->route_links);
    cs_free(routes->table);
    cs_free(routes->name_table);
    cs_free(routes);
}

const struct cs_platform *cs_routes_platform(const struct cs_routes *routes)
{
    return routes->platform;
}

const char *cs_routes_simgrid_cfg(const struct cs_routes *routes)
{
    return routes->simgrid_cfg;
}

int32_t cs_routes_n_links(const struct cs_routes *routes)
{
    return routes->n_links;
}

const struct cs_link *cs_routes_link(const struct cs_routes *routes, int32_t link)
{
    CS_ASSERT(link >= 0 && link < routes->n_links);
    return &routes->links[link];
}

static uint64_t pair_hash(int32_t from, int32_t to)
{
    return cs_hash_mix(CS_HASH_SEED, ((uint64_t)(uint32_t)from << 32) | (uint32_t)to);
}

static struct pair_entry *pair_slot(const struct cs_routes *routes, int32_t from, int32_t to)
{
    if (routes->cap_pairs == 0) {
        return NULL;
    }
    uint64_t mask = (uint64_t)routes->cap_pairs - 1;
    for (uint64_t i = pair_hash(from, to) & mask;; i = (i + 1) & mask) {
        struct pair_entry *entry = &routes->table[i];
        if (entry->from < 0 || (entry->from == from && entry->to == to)) {
            return entry;
        }
    }
}

static void grow_pairs(struct cs_routes *routes, int64_t n_more)
{
    int64_t cap = routes->cap_pairs ? routes->cap_pairs : 256;
    while (cap < 2 * (routes->n_pairs + n_more)) {
        cap *= 2;
    }
    if (cap == routes->cap_pairs) {
        return;
    }
    struct pair_entry *old = routes->table;
    int64_t n_old = routes->cap_pairs;
    routes->table = cs_calloc((size_t)cap, sizeof *routes->table);
    routes->cap_pairs = cap;
    for (int64_t i = 0; i < cap; i++) {
        routes->table[i].from = -1;
    }
    for (int64_t i = 0; i < n_old; i++) {
        if (old[i].from >= 0) {
            *pair_slot(routes, old[i].from, old[i].to) = old[i];
        }
    }
    cs_free(old);
}

/* Index of a link by name, -1 when it is new; *slot is where it belongs. */
static int32_t find_name(const struct cs_routes *routes, const char *name, uint64_t *slot)
{
    uint64_t mask = (uint64_t)routes->cap_names - 1;
    for (uint64_t i = cs_hash_text(CS_HASH_SEED, name) & mask;; i = (i + 1) & mask) {
        int32_t link = routes->name_table[i];
        if (link < 0 || strcmp(routes->links[link].name, name) == 0) {
            *slot = i;
            return link;
        }
    }
}

static int32_t intern_link(struct cs_routes *routes, const struct cs_link *link)
{
    uint64_t slot = 0;
    if (2 * (routes->n_links + 1) > routes->cap_names) {
        routes->cap_names = routes->cap_names ? 2 * routes->cap_names : 256;
        routes->name_table = cs_reallocarray(routes->name_table, (size_t)routes->cap_names, sizeof(int32_t));
        memset(routes->name_table, 0xff, (size_t)routes->cap_names * sizeof(int32_t));
        for (int32_t i = 0; i < routes->n_links; i++) {
            find_name(routes, routes->links[i].name, &slot);
            routes->name_table[slot] = i;
        }
    }
    int32_t found = find_name(routes, link->name, &slot);
    if (found >= 0) {
        return found;
    }
    CS_GROW(routes->links, routes->n_links, routes->cap_links);
    int32_t index = routes->n_links++;
    routes->links[index] = *link;
    routes->links[index].name = cs_arena_strdup(&routes->arena, link->name);
    routes->name_table[slot] = index;
    return index;
}

/* ---- the child's side ---- */

struct probe {
    const struct cs_platform *platform;
    const int32_t *pairs;
    int64_t n_pairs;
    const char *simgrid_cfg;
    struct cs__answer *answer;
    struct cs__sg_hosts hosts;
};

struct wire_link {
    char name[LINK_NAME_MAX];
    double bytes_per_s;
    double latency_s;
    int32_t shared;
};

struct wire_buffer {
    char data[1 << 16];
    size_t n;
    struct cs__answer *answer;
};

static void wire_put(struct wire_buffer *buffer, const void *data, size_t bytes)
{
    if (buffer->n + bytes > sizeof buffer->data) {
        cs__answer_write(buffer->answer, buffer->data, buffer->n);
        buffer->n = 0;
    }
    if (bytes > sizeof buffer->data) {
        cs__answer_write(buffer->answer, data, bytes);
        return;
    }
    memcpy(buffer->data + buffer->n, data, bytes);
    buffer->n += bytes;
}

static sg_host_t host_or_end(const struct probe *probe, const char *name)
{
    sg_host_t host = cs__sg_hosts_find(&probe->hosts, name);
    if (!host) {
        struct cs_err err = {0};
        struct cs_loc loc = {probe->platform->xml_path, 0, 0};
        cs_err_set(&err, CS_E_INPUT, loc, "SimGrid knows no host '%s'", name);
        cs__answer_end(probe->answer, CS_E_INPUT, &err);
    }
    return host;
}

/* Routes are answered as: n, links as numbers; a link met for the first time is followed by its record. The
 * number is kept as the link's user data (index + 1). */
static void answer_pair(const struct probe *probe, struct wire_buffer *buffer, int64_t i, intptr_t *n_links)
{
    static sg_link_t links[ROUTE_LINKS_MAX];
    int32_t from = probe->pairs[2 * i];
    int32_t to = probe->pairs[2 * i + 1];
    sg_host_t a = host_or_end(probe, cs_platform_endpoint(probe->platform, from, to));
    sg_host_t b = host_or_end(probe, cs_platform_endpoint(probe->platform, to, from));
    int32_t n = a == b ? 0 : cs__sg_route(a, b, links, ROUTE_LINKS_MAX);
    if (n > ROUTE_LINKS_MAX || n == 0) {
        struct cs_err err = {0};
        struct cs_loc loc = {probe->platform->xml_path, probe->platform->devices[from].line, 0};
        if (n == 0) {
            cs_err_set(&err, CS_E_INPUT, loc, "there is no route from '%s' to '%s'", sg_host_get_name(a),
                       sg_host_get_name(b));
        } else {
            cs_err_set(&err, CS_E_INPUT, loc, "the route from '%s' to '%s' has %d links, expected 1 to %d",
                       sg_host_get_name(a), sg_host_get_name(b), n, ROUTE_LINKS_MAX);
        }
        cs__answer_end(probe->answer, CS_E_INPUT, &err);
    }
    wire_put(buffer, &n, sizeof n);
    for (int32_t k = 0; k < n; k++) {
        intptr_t mark = (intptr_t)sg_link_get_data(links[k]);
        int32_t index = (int32_t)(mark ? mark - 1 : *n_links);
        wire_put(buffer, &index, sizeof index);
        if (!mark) {
            *n_links += 1;
            sg_link_set_data(links[k], (void *)*n_links); /* NOLINT(performance-no-int-to-ptr) */
            struct wire_link wire;
            memset(&wire, 0, sizeof wire);
            strncpy(wire.name, sg_link_get_name(links[k]), sizeof wire.name - 1);
            wire.bytes_per_s = sg_link_get_bandwidth(links[k]);
            wire.latency_s = sg_link_get_latency(links[k]);
            wire.shared = sg_link_is_shared(links[k]);
            wire_put(buffer, &wire, sizeof wire);
        }
    }
}

static void probe_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct probe *probe = sg_actor_self_get_data();
    static struct wire_buffer buffer;
    buffer.answer = probe->answer;
    intptr_t n_links = 0;
    for (int64_t i = 0; i < probe->n_pairs; i++) {
        answer_pair(probe, &buffer, i, &n_links);
    }
    cs__answer_write(probe->answer, buffer.data, buffer.n);
    cs__answer_end(probe->answer, CS_OK, NULL);
}

static cs_status probe_child(void *context, struct cs__answer *answer, struct cs_err *err)
{
    struct probe *probe = context;
    probe->answer = answer;
    cs__sg_init(probe->simgrid_cfg);
    simgrid_load_platform(probe->platform->xml_path);
    cs__sg_hosts_make(&probe->hosts);
    cs__sg_actor("routes", host_or_end(probe, probe->platform->devices[0].host), probe_actor, probe);
    simgrid_run();
    return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "SimGrid did not run the route query");
}

/* ---- the parent's side ---- */

struct reader {
    const char *at;
    size_t left;
    bool broken;
};

static void take(struct reader *reader, void *data, size_t bytes)
{
    if (bytes > reader->left) {
        reader->broken = true;
        memset(data, 0, bytes);
        return;
    }
    memcpy(data, reader->at, bytes);
    reader->at += bytes;
    reader->left -= bytes;
}

static void store_route(struct cs_routes *routes, struct reader *reader, int32_t from, int32_t to,
                        int32_t **numbers, int32_t *n_numbers, int32_t *cap_numbers)
{
    int32_t n = 0;
    take(reader, &n, sizeof n);
    struct pair_entry *entry = pair_slot(routes, from, to);
    entry->from = from;
    entry->to = to;
    entry->first = routes->n_route_links;
    entry->n = n;
    entry->latency_s = 0;
    routes->n_pairs++;
    for (int32_t k = 0; k < n && !reader->broken; k++) {
        int32_t number = 0;
        take(reader, &number, sizeof number);
        if (number == *n_numbers) {
            struct wire_link wire;
            take(reader, &wire, sizeof wire);
            struct cs_link link = {wire.name, wire.bytes_per_s, wire.latency_s, wire.shared != 0};
            CS_GROW(*numbers, *n_numbers, *cap_numbers);
            (*numbers)[(*n_numbers)++] = intern_link(routes, &link);
        }
        if (reader->broken || number < 0 || number >= *n_numbers) {
            reader->broken = true;
            break;
        }
        int32_t link = (*numbers)[number];
        CS_GROW(routes->route_links, routes->n_route_links, routes->cap_route_links);
        routes->route_links[routes->n_route_links++] = link;
        entry->latency_s += routes->links[link].latency_s;
    }
}

/* The child died: of a route that is missing, or of the file as a whole? */
static cs_status explain_death(const struct cs_routes *routes, const int32_t *pairs, int64_t n_pairs,
                               const struct cs_err *why, struct cs_err *err)
{
    const struct cs_platform *platform = routes->platform;
    enum cs_reach *reach = cs_calloc((size_t)n_pairs + 1, sizeof *reach);
    int32_t *group = cs_calloc((size_t)platform->n_devices + 1, sizeof *group);
    cs_status st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){platform->xml_path, 0, 0},
                              "SimGrid refuses this platform: %s", why->text);
    if (cs_platform_reach(platform, routes->simgrid_cfg, pairs, n_pairs, reach, group, NULL) == CS_OK) {
        int64_t at = 0;
        while (at < n_pairs && reach[at] != CS_REACH_NO) {
            at++;
        }
        if (at < n_pairs) {
            int32_t from = pairs[2 * at];
            int32_t to = pairs[2 * at + 1];
            struct cs_loc loc = {platform->xml_path, platform->devices[from].line, 0};
            st = cs_err_set(err, CS_E_INPUT, loc, "there is no route from '%s' to '%s'",
                            cs_platform_endpoint(platform, from, to),
                            cs_platform_endpoint(platform, to, from));
        }
    }
    cs_free(group);
    cs_free(reach);
    return st;
}

cs_status cs_routes_need(struct cs_routes *routes, const int32_t *pairs, int64_t n_pairs, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t *missing = NULL;
    int64_t n_missing = 0;
    int64_t cap_missing = 0;
    int32_t *numbers = NULL;
    int32_t n_numbers = 0;
    int32_t cap_numbers = 0;
    char *data = NULL;
    size_t bytes = 0;
    grow_pairs(routes, n_pairs);
    for (int64_t i = 0; i < n_pairs; i++) {
        struct pair_entry *entry = pair_slot(routes, pairs[2 * i], pairs[2 * i + 1]);
        if (entry->from < 0) {
            entry->from = pairs[2 * i]; /* marked, so that a repeated pair is asked once */
            entry->to = pairs[2 * i + 1];
            entry->n = -1;
            CS_GROW(missing, n_missing, cap_missing);
            missing[n_missing++] = pairs[2 * i];
            CS_GROW(missing, n_missing, cap_missing);
            missing[n_missing++] = pairs[2 * i + 1];
        }
    }
    if (n_missing > 0) {
        struct probe probe = {.platform = routes->platform,
                              .pairs = missing,
                              .n_pairs = n_missing / 2,
                              .simgrid_cfg = routes->simgrid_cfg};
        CS_TRY(cs__isolate(probe_child, &probe, 0, &data, &bytes, err));
        struct reader reader = {data, bytes, false};
        for (int64_t i = 0; i < n_missing && !reader.broken; i += 2) {
            store_route(routes, &reader, missing[i], missing[i + 1], &numbers, &n_numbers, &cap_numbers);
        }
        if (reader.broken || reader.left != 0) {
            st = cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "SimGrid's answer about the routes is incomplete");
        }
    }
out:
    if (st != CS_OK) {
        struct cs_err why = err ? *err : (struct cs_err){0};
        if (err && st == CS_E_ENGINE) {
            st = explain_death(routes, missing, n_missing / 2, &why, err);
        }
        cs_free(routes->table); /* half-answered: start over with an empty table */
        routes->table = NULL;
        routes->n_pairs = 0;
        routes->cap_pairs = 0;
    }
    cs_free(data);
    cs_free(missing);
    cs_free(numbers);
    return st;
}

cs_status cs_routes_need_all(struct cs_routes *routes, struct cs_err *err)
{
    int64_t n = routes->platform->n_devices;
    int32_t *pairs = cs_reallocarray(NULL, (size_t)(n * n), 2 * sizeof *pairs);
    int64_t n_pairs = 0;
    for (int32_t a = 0; a < n; a++) {
        for (int32_t b = 0; b < n; b++) {
            if (a != b) {
                pairs[2 * n_pairs] = a;
                pairs[2 * n_pairs + 1] = b;
                n_pairs++;
            }
        }
    }
    cs_status st = cs_routes_need(routes, pairs, n_pairs, err);
    cs_free(pairs);
    return st;
}

struct cs_route cs_routes_get(const struct cs_routes *routes, int32_t from, int32_t to)
{
    if (from == to) {
        return (struct cs_route){NULL, 0, 0};
    }
    const struct pair_entry *entry = pair_slot(routes, from, to);
    CS_ASSERT(entry && entry->from == from && entry->n >= 0);
    return (struct cs_route){routes->route_links + entry->first, entry->n, entry->latency_s};
}

double cs_routes_bytes_per_s(const struct cs_routes *routes, int32_t from, int32_t to)
{
    struct cs_route route = cs_routes_get(routes, from, to);
    double narrowest = INFINITY;
    for (int32_t i = 0; i < route.n_links; i++) {
        double rate = routes->links[route.links[i]].bytes_per_s;
        narrowest = rate < narrowest ? rate : narrowest;
    }
    return narrowest;
}
