/* HCCL rank tables. */
#include "cs/platforms/ranktable.h"

#include "cs/base/file.h"
#include "cs/base/json.h"
#include "cs/base/text.h"
#include "cs/base/units.h"
#include "cs/platforms/topology.h"
#include "json_line_priv.h"
#include "names_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_ID_MAX = 1023 };

#define IP_TO_FILL_IN "0.0.0.0" /* what cs_ranktable_write writes for an address that it does not know */
#define FILE_BYTES_MAX ((size_t)64 << 20) /* as cs_json_load_file */

/* One device of the file, before the ranks are in order. */
struct entry {
    struct cs_ranktable_rank rank;
    int32_t rank_id;
};

struct reader {
    struct cs_loc loc;
    char where[160]; /* what is being read, as a path: an error gets its line */
    struct cs_err *err;
    struct cs_ranktable *table;
    struct cs_ranktable_server *servers;
    struct entry *entries;
    int32_t n_entries, cap_entries;
    struct cs_names server_names;
    struct cs_names ips; /* of devices */
};

static cs_status fail(struct reader *reader, const char *fmt, ...) CS_PRINTF(2, 3);

static cs_status fail(struct reader *reader, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cs_status st = cs_err_vset(reader->err, CS_E_INPUT, reader->loc, fmt, ap);
    va_end(ap);
    return st;
}

static void at_key(struct reader *reader, const char *where, const char *key)
{
    bool root = strchr(where, '[') == NULL;
    (void)snprintf(reader->where, sizeof reader->where, "%s%s%s", root ? "" : where, root || !*key ? "" : ".",
                   key);
}

/* Line of a place in the file, 0 when it cannot be read any more. */
static int line_of(const char *path, const char *where)
{
    char *text = NULL;
    size_t bytes = 0;
    int line = 0;
    if (cs_file_read(path, FILE_BYTES_MAX, &text, &bytes, NULL) == CS_OK) {
        size_t skip = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        line = cs__json_line(text + skip, bytes - skip, where);
    }
    cs_free(text);
    return line;
}

/* Text of a key in the arena; NULL when it is missing and may be. Numbers become text. */
static cs_status get_text(struct reader *reader, const json_t *object, const char *where, const char *key,
                          bool needed, const char **text)
{
    const json_t *value = json_object_get(object, key);
    *text = NULL;
    at_key(reader, where, key);
    if (!value) {
        return needed ? fail(reader, "%s lacks '%s'", where, key) : CS_OK;
    }
    if (json_is_string(value)) {
        *text = cs_arena_strdup(&reader->table->arena, json_string_value(value));
    } else if (json_is_integer(value)) {
        *text = cs_arena_printf(&reader->table->arena, "%lld", (long long)json_integer_value(value));
    } else {
        return fail(reader, "%s.%s must be a string or a whole number", where, key);
    }
    return CS_OK;
}

static cs_status get_int(struct reader *reader, const json_t *object, const char *where, const char *key,
                         int64_t max, int32_t *value)
{
    cs_status st = CS_OK;
    const char *text = NULL;
    char what[128];
    int64_t read = 0;
    snprintf(what, sizeof what, "%s.%s", where, key);
    CS_TRY(get_text(reader, object, where, key, true, &text));
    if (text[0] == '+') {
        return fail(reader, "%s is '%.20s', but should be digits without a sign", what, text);
    }
    CS_TRY(cs_int_parse(text, 0, max, what, reader->loc, &read, reader->err));
    *value = (int32_t)read;
out:
    return st;
}

/* A list of objects under a key. */
static cs_status get_list(struct reader *reader, const json_t *object, const char *where, const char *key,
                          const json_t **list)
{
    *list = json_object_get(object, key);
    at_key(reader, where, key);
    if (!json_is_array(*list) || json_array_size(*list) == 0) {
        return fail(reader, "%s%s%s must be a list that is not empty", where, *where ? "." : "", key);
    }
    if (json_array_size(*list) > CS_TOPOLOGY_DEVICES_MAX) {
        return fail(reader, "%s%s%s has more than %d entries", where, *where ? "." : "", key,
                    CS_TOPOLOGY_DEVICES_MAX);
    }
    return CS_OK;
}

static bool is_address(const char *text)
{
    struct in6_addr address; /* large enough for both kinds */
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

static cs_status read_device(struct reader *reader, const json_t *device, const char *where, int32_t server,
                             int32_t listed)
{
    cs_status st = CS_OK;
    struct entry entry = {.rank = {.server = server, .listed = listed}};
    at_key(reader, where, "");
    if (!json_is_object(device)) {
        return fail(reader, "%s must be an object", where);
    }
    CS_TRY(get_int(reader, device, where, "device_id", DEVICE_ID_MAX, &entry.rank.device_id));
    CS_TRY(get_int(reader, device, where, "rank_id", CS_TOPOLOGY_DEVICES_MAX - 1, &entry.rank_id));
    CS_TRY(get_text(reader, device, where, "device_ip", false, &entry.rank.device_ip));
    if (!entry.rank.device_ip) {
        entry.rank.device_ip = "";
    } else if (strcmp(entry.rank.device_ip, IP_TO_FILL_IN) != 0 && entry.rank.device_ip[0]) {
        if (!is_address(entry.rank.device_ip)) {
            return fail(reader, "%s.device_ip is '%.60s', but should be an IPv4 or IPv6 address", where,
                        entry.rank.device_ip);
        }
        if (cs__names_find(&reader->ips, entry.rank.device_ip) >= 0) {
            return fail(reader, "%s.device_ip '%s' is there twice: each card has a NIC of its own", where,
                        entry.rank.device_ip);
        }
        cs__names_add(&reader->ips, entry.rank.device_ip, reader->n_entries);
    }
    if (reader->n_entries == CS_TOPOLOGY_DEVICES_MAX) {
        return fail(reader, "more than %d devices", CS_TOPOLOGY_DEVICES_MAX);
    }
    CS_GROW(reader->entries, reader->n_entries, reader->cap_entries);
    reader->entries[reader->n_entries++] = entry;
out:
    return st;
}

static cs_status read_server(struct reader *reader, const json_t *server, int32_t index)
{
    cs_status st = CS_OK;
    char where[64];
    char device_where[96];
    bool seen[DEVICE_ID_MAX + 1] = {false};
    const json_t *devices = NULL;
    struct cs_ranktable_server *out = &reader->servers[index];
    snprintf(where, sizeof where, "server_list[%d]", (int)index);
    at_key(reader, where, "");
    if (!json_is_object(server)) {
        return fail(reader, "%s must be an object", where);
    }
    CS_TRY(get_text(reader, server, where, "server_id", true, &out->id));
    out->super_pod = -1;
    if (cs__names_find(&reader->server_names, out->id) >= 0) {
        return fail(reader, "%s.server_id '%s' is there twice", where, out->id);
    }
    cs__names_add(&reader->server_names, out->id, index);
    CS_TRY(get_list(reader, server, where, "device", &devices));
    out->n_devices = (int32_t)json_array_size(devices);
    for (int32_t d = 0; d < out->n_devices; d++) {
        snprintf(device_where, sizeof device_where, "%s.device[%d]", where, (int)d);
        CS_TRY(read_device(reader, json_array_get(devices, (size_t)d), device_where, index, d));
        int32_t id = reader->entries[reader->n_entries - 1].rank.device_id;
        if (seen[id]) {
            at_key(reader, device_where, "device_id");
            return fail(reader, "%s.device_id %d is there twice in its server", device_where, (int)id);
        }
        seen[id] = true;
    }
out:
    return st;
}

/* Which super pod a server is in (version 1.2). */
static cs_status read_super_pods(struct reader *reader, const json_t *root)
{
    cs_status st = CS_OK;
    const json_t *pods = NULL;
    if (!json_object_get(root, "super_pod_list")) {
        return CS_OK;
    }
    CS_TRY(get_list(reader, root, "", "super_pod_list", &pods));
    reader->table->n_super_pods = (int32_t)json_array_size(pods);
    for (int32_t p = 0; p < reader->table->n_super_pods; p++) {
        char where[64];
        const json_t *pod = json_array_get(pods, (size_t)p);
        const json_t *servers = NULL;
        snprintf(where, sizeof where, "super_pod_list[%d]", (int)p);
        CS_TRY(get_list(reader, pod, where, "server_list", &servers));
        for (size_t s = 0; s < json_array_size(servers); s++) {
            const char *id = NULL;
            CS_TRY(get_text(reader, json_array_get(servers, s), where, "server_id", true, &id));
            (void)snprintf(reader->where, sizeof reader->where, "%s.server_list[%zu].server_id", where, s);
            int32_t index = cs__names_find(&reader->server_names, id);
            if (index < 0 || reader->servers[index].super_pod >= 0) {
                return fail(reader, "%s names server '%s', which is %s", where, id,
                            index < 0 ? "not in server_list" : "in a super pod already");
            }
            reader->servers[index].super_pod = p;
        }
    }
out:
    return st;
}

static cs_status read_header(struct reader *reader, const json_t *root, const json_t **servers)
{
    static const char *const versions[] = {"1.0", "1.2", NULL};
    cs_status st = CS_OK;
    const char *text = NULL;
    if (!json_is_object(root)) {
        return fail(reader, "a rank table must be an object with 'version' and 'server_list'");
    }
    CS_TRY(get_text(reader, root, "the rank table", "version", true, &reader->table->version));
    if (cs_text_index(reader->table->version, versions) < 0) {
        return fail(reader, "rank table version '%s' is not supported, expected 1.0 or 1.2",
                    reader->table->version);
    }
    CS_TRY(get_text(reader, root, "the rank table", "status", false, &text));
    if (text && strcmp(text, "completed") != 0) {
        return fail(reader, "status is '%s', expected 'completed'", text);
    }
    CS_TRY(get_list(reader, root, "", "server_list", servers));
    CS_TRY(get_text(reader, root, "the rank table", "server_count", false, &text));
    if (text) {
        int64_t count = 0;
        CS_TRY(
            cs_int_parse(text, 1, CS_TOPOLOGY_DEVICES_MAX, "server_count", reader->loc, &count, reader->err));
        if (count != (int64_t)json_array_size(*servers)) {
            return fail(reader, "server_count is %lld, but server_list has %zu", (long long)count,
                        json_array_size(*servers));
        }
    }
out:
    return st;
}

/* Put the entries in rank order; every rank 0 .. n-1 once. */
static cs_status order_ranks(struct reader *reader)
{
    struct cs_ranktable *table = reader->table;
    int32_t n = reader->n_entries;
    struct cs_ranktable_rank *ranks = CS_ARENA_NEW(&table->arena, struct cs_ranktable_rank, n);
    for (int32_t i = 0; i < n; i++) {
        const struct entry *entry = &reader->entries[i];
        (void)snprintf(reader->where, sizeof reader->where, "server_list[%d].device[%d].rank_id",
                       (int)entry->rank.server, (int)entry->rank.listed);
        if (entry->rank_id >= n) {
            return fail(reader, "rank_id %d is too high: there are %d devices, so ranks are 0 to %d",
                        (int)entry->rank_id, (int)n, (int)n - 1);
        }
        if (ranks[entry->rank_id].device_ip) {
            return fail(reader, "rank_id %d is there twice", (int)entry->rank_id);
        }
        ranks[entry->rank_id] = entry->rank;
    }
    table->ranks = ranks;
    table->n_ranks = n;
    return CS_OK;
}

bool cs_ranktable_is_path(const char *path)
{
    return cs_text_ends_with(path, ".json");
}

cs_status cs_ranktable_load(struct cs_ranktable *table, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_ranktable read = {0};
    struct cs_err why = {0};
    struct reader reader = {.loc = {.file = path}, .err = &why, .table = &read};
    json_t *root = NULL;
    const json_t *servers = NULL;
    CS_TRY(cs_json_load_file(path, &root, &why));
    read.path = cs_arena_strdup(&read.arena, path);
    CS_TRY(read_header(&reader, root, &servers));
    read.n_servers = (int32_t)json_array_size(servers);
    reader.servers = CS_ARENA_NEW(&read.arena, struct cs_ranktable_server, read.n_servers);
    read.servers = reader.servers;
    read.uniform = true;
    for (int32_t s = 0; s < read.n_servers; s++) {
        CS_TRY(read_server(&reader, json_array_get(servers, (size_t)s), s));
        int32_t n = read.servers[s].n_devices;
        read.devices_per_server = n > read.devices_per_server ? n : read.devices_per_server;
        read.uniform = read.uniform && n == read.servers[0].n_devices;
    }
    CS_TRY(read_super_pods(&reader, root));
    CS_TRY(order_ranks(&reader));
    *table = read;
    read = (struct cs_ranktable){0};
out:
    if (st != CS_OK && err) {
        *err = why;
        err->line = why.line > 0 || !root ? why.line : line_of(path, reader.where);
    }
    json_decref(root);
    cs__names_release(&reader.server_names);
    cs__names_release(&reader.ips);
    cs_free(reader.entries);
    cs_arena_release(&read.arena);
    return st;
}

void cs_ranktable_release(struct cs_ranktable *table)
{
    cs_arena_release(&table->arena);
    *table = (struct cs_ranktable){0};
}

static int compare_ids(const void *a, const void *b)
{
    const struct cs_ranktable_rank *x = *(const struct cs_ranktable_rank *const *)a;
    const struct cs_ranktable_rank *y = *(const struct cs_ranktable_rank *const *)b;
    if (x->server != y->server) {
        return x->server < y->server ? -1 : 1;
    }
    return x->device_id < y->device_id ? -1 : x->device_id > y->device_id;
}

/* The table's cards sorted by server and device_id, in the arena. */
static const struct cs_ranktable_rank **sorted_cards(const struct cs_ranktable *table, struct cs_arena *arena)
{
    const struct cs_ranktable_rank **cards =
        CS_ARENA_NEW(arena, const struct cs_ranktable_rank *, table->n_ranks);
    for (int32_t r = 0; r < table->n_ranks; r++) {
        cards[r] = &table->ranks[r];
    }
    if (table->n_ranks > 1) {
        qsort(cards, (size_t)table->n_ranks, sizeof *cards, compare_ids);
    }
    return cards;
}

/* devices[node * per_node + index] = platform device, -1 = none; in the arena. */
static int32_t *devices_by_place(const struct cs_platform *platform, struct cs_arena *arena)
{
    int32_t n = platform->n_nodes * platform->devices_per_node;
    int32_t *devices = CS_ARENA_NEW(arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) {
        devices[i] = -1;
    }
    for (int32_t d = 0; d < platform->n_devices; d++) {
        devices[platform->devices[d].node * platform->devices_per_node + platform->devices[d].index] = d;
    }
    return devices;
}

static int n_cards(const struct cs_platform *platform, int32_t node)
{
    int n = 0;
    for (int32_t d = 0; d < platform->n_devices; d++) {
        n += platform->devices[d].node == node;
    }
    return n;
}

cs_status cs_ranktable_devices(const struct cs_ranktable *table, const struct cs_platform *platform,
                               int32_t *device_of_rank, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    if (table->n_servers > platform->n_nodes) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "the rank table has %d servers, platform '%s' has %d nodes", (int)table->n_servers,
                          platform->name, (int)platform->n_nodes);
    }
    const int32_t *devices = devices_by_place(platform, &arena);
    for (int32_t r = 0; r < table->n_ranks; r++) {
        const struct cs_ranktable_rank *rank = &table->ranks[r];
        device_of_rank[r] = rank->device_id < platform->devices_per_node
                                ? devices[rank->server * platform->devices_per_node + rank->device_id]
                                : -1;
        if (device_of_rank[r] < 0) {
            char where[96];
            (void)snprintf(where, sizeof where, "server_list[%d].device[%d].device_id", (int)rank->server,
                           (int)rank->listed);
            st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){table->path, line_of(table->path, where), 0},
                            "%s is %d, but node %d of platform '%s' has the cards 0 to %d", where,
                            (int)rank->device_id, (int)rank->server, platform->name,
                            n_cards(platform, rank->server) - 1);
            goto out;
        }
    }
out:
    cs_arena_release(&arena);
    return st;
}

/* Addresses of a place: from the known table, else made up. */
struct address {
    const char *server_id;
    int32_t device_id;
    const char *device_ip;
};

static struct address address_of(const struct cs_ranktable *known,
                                 const struct cs_ranktable_rank *const *cards, int32_t n_cards, int32_t node,
                                 int32_t index)
{
    struct address address = {.device_id = index, .device_ip = IP_TO_FILL_IN};
    if (known && node < known->n_servers) {
        address.server_id = known->servers[node].id;
    }
    if (index < n_cards) {
        address.device_id = cards[index]->device_id;
        address.device_ip = cards[index]->device_ip;
    }
    return address;
}

/* The ranks of one node as a server, with the node's `n_cards` known cards; NULL when it has no rank. New
 * reference. */
static json_t *server_json(const struct cs_platform *platform, const int32_t *rank_of_device,
                           const int32_t *devices, int32_t node, const struct cs_ranktable *known,
                           const struct cs_ranktable_rank *const *cards, int32_t n_cards)
{
    json_t *list = NULL;
    char text[64];
    snprintf(text, sizeof text, "node%d", (int)node);
    json_t *server = json_object();
    for (int32_t i = 0; i < platform->devices_per_node; i++) {
        int32_t device = devices[node * platform->devices_per_node + i];
        if (device < 0 || rank_of_device[device] < 0) {
            continue;
        }
        struct address address = address_of(known, cards, n_cards, node, i);
        if (!list) {
            list = json_array();
            json_object_set_new(server, "server_id",
                                json_string(address.server_id ? address.server_id : text));
            json_object_set_new(server, "device", list);
        }
        char number[2][16];
        snprintf(number[0], sizeof number[0], "%d", (int)address.device_id);
        snprintf(number[1], sizeof number[1], "%d", (int)rank_of_device[device]);
        json_t *entry = json_object();
        json_object_set_new(entry, "device_id", json_string(number[0]));
        json_object_set_new(entry, "device_ip", json_string(address.device_ip));
        json_object_set_new(entry, "rank_id", json_string(number[1]));
        json_array_append_new(list, entry);
    }
    if (!list) {
        json_decref(server);
        return NULL;
    }
    json_object_set_new(server, "host_nic_ip", json_string("reserve"));
    return server;
}

cs_status cs_ranktable_write(const struct cs_platform *platform, const int32_t *device_of_rank,
                             int32_t n_ranks, const struct cs_ranktable *known, FILE *stream,
                             struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    char count[16];
    int32_t *rank_of_device = CS_ARENA_NEW(&arena, int32_t, platform->n_devices);
    for (int32_t d = 0; d < platform->n_devices; d++) {
        rank_of_device[d] = -1;
    }
    for (int32_t r = 0; r < n_ranks; r++) {
        int32_t device = device_of_rank[r];
        CS_ASSERT(device >= 0 && device < platform->n_devices && rank_of_device[device] < 0);
        rank_of_device[device] = r;
    }
    const struct cs_ranktable_rank **cards = known ? sorted_cards(known, &arena) : NULL;
    const int32_t *devices = devices_by_place(platform, &arena);
    json_t *servers = json_array();
    int32_t card = 0; /* first of the node */
    for (int32_t node = 0; node < platform->n_nodes; node++) {
        int32_t n_cards = 0;
        while (known && card + n_cards < known->n_ranks && cards[card + n_cards]->server == node) {
            n_cards++;
        }
        json_t *server =
            server_json(platform, rank_of_device, devices, node, known, known ? cards + card : NULL, n_cards);
        card += n_cards;
        if (server) {
            json_array_append_new(servers, server);
        }
    }
    snprintf(count, sizeof count, "%zu", json_array_size(servers));
    json_t *root = json_object();
    json_object_set_new(root, "version", json_string("1.0"));
    json_object_set_new(root, "server_count", json_string(count));
    json_object_set_new(root, "server_list", servers);
    json_object_set_new(root, "status", json_string("completed"));
    int failed = json_dumpf(root, stream, JSON_INDENT(2));
    json_decref(root);
    if (failed != 0 || fputc('\n', stream) == EOF || fflush(stream) != 0 || ferror(stream)) {
        st = cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot write the rank table: %s", strerror(errno));
    }
    cs_arena_release(&arena);
    return st;
}
