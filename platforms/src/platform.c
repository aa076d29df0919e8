/* Loading a platform file: the checks that need the whole file, and the record that comes out. */
#include "cs/platforms/platform.h"

#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/platforms/topology.h"
#include "reader_priv.h"

#include <string.h>

/* 131,072 devices in meshes of eight are about 110 MB. */
#define FILE_BYTES_MAX ((size_t)512 * 1024 * 1024)

static const char *root_prop(const struct cs_reader *reader, const char *id)
{
    for (int32_t i = 0; i < reader->n_root_props; i++) {
        if (strcmp(reader->root_props[i].id, id) == 0) {
            return reader->root_props[i].value;
        }
    }
    return NULL;
}

/* "dir/910b-8x8.xml" -> "910b-8x8" */
static const char *base_name(struct cs_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return cs_arena_strndup(arena, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

/* Every host of a device must be able to end a route, and its NIC must exist. */
static cs_status resolve_device(struct cs_reader *reader, const struct cs_device_draft *draft,
                                struct cs_device *device)
{
    const struct cs_point *host = &reader->points[draft->point];
    const struct cs_zone *zone = &reader->zones[host->zone];
    int32_t nic = draft->point;
    if (draft->nic) {
        nic = cs__names_find(&reader->point_names, draft->nic);
        if (nic < 0 || reader->points[nic].kind != CS__POINT_HOST) {
            return cs__reader_fail_at(reader, draft->line, CS_E_INPUT,
                                      "nic '%s' of '%s' is not a host of this platform", draft->nic,
                                      host->name);
        }
    }
    if (zone->routing == CS__ROUTING_CLUSTER && !host->has_host_link) {
        return cs__reader_fail_at(reader, host->line, CS_E_INPUT,
                                  "device '%s' has no <host_link> in zone '%s'", host->name, zone->name);
    }
    *device = (struct cs_device){.host = cs_arena_strdup(reader->result, host->name),
                                 .line = host->line > 0 ? host->line : draft->line,
                                 .node = (int32_t)draft->node,
                                 .adapter = (int32_t)draft->adapter,
                                 .memory_bytes = draft->memory_bytes,
                                 .chip = draft->chip};
    device->nic_host =
        nic == draft->point ? device->host : cs_arena_strdup(reader->result, reader->points[nic].name);
    return CS_OK;
}

/* Nodes must be numbered 0, 1, ... without gaps; count their devices and find out whether all are alike. */
static cs_status count_nodes(struct cs_reader *reader, struct cs_platform *platform)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    int32_t n_nodes = 0;
    int32_t *per_node = CS_ARENA_NEW(&arena, int32_t, CS_TOPOLOGY_DEVICES_MAX);
    for (int32_t d = 0; d < platform->n_devices; d++) {
        struct cs_device *device = &platform->devices[d];
        device->index = per_node[device->node]++;
        n_nodes = device->node >= n_nodes ? device->node + 1 : n_nodes;
    }
    platform->n_nodes = n_nodes;
    platform->uniform = true;
    int32_t gap = -1;
    for (int32_t n = 0; n < n_nodes; n++) {
        gap = per_node[n] == 0 && gap < 0 ? n : gap;
        platform->uniform = platform->uniform && per_node[n] == per_node[0];
        if (per_node[n] > platform->devices_per_node) {
            platform->devices_per_node = per_node[n];
        }
    }
    for (int32_t d = 0; d < platform->n_devices; d++) {
        platform->uniform = platform->uniform && platform->devices[d].chip == platform->devices[0].chip;
        if (gap >= 0 && platform->devices[d].node > gap) {
            st = cs__reader_fail_at(
                reader, reader->devices[d].line, CS_E_INPUT,
                "'%s' is in node %d, but node %d has no device: nodes are numbered from 0 without gaps",
                platform->devices[d].host, (int)platform->devices[d].node, (int)gap);
            break;
        }
    }
    cs_arena_release(&arena);
    return st;
}

static cs_status finish(struct cs_reader *reader, struct cs_platform *platform)
{
    cs_status st = CS_OK;
    static const char *const intra_names[] = {"mesh", "switch", "bus", "custom", NULL};
    static const char *const duplex_names[] = {"full", "half", NULL};
    if (reader->n_devices == 0) {
        return cs__reader_fail_at(
            reader, 0, CS_E_INPUT,
            "the platform has no device: give the hosts that compute a 'chip' property");
    }
    const char *intra = root_prop(reader, "intra");
    if (intra && cs_text_index(intra, intra_names) < 0) {
        return cs__reader_fail_at(reader, reader->zones[0].line, CS_E_INPUT,
                                  "property 'intra' is '%s', expected mesh, switch, bus or custom", intra);
    }
    const char *duplex = root_prop(reader, "nic_duplex");
    if (duplex && cs_text_index(duplex, duplex_names) < 0) {
        return cs__reader_fail_at(reader, reader->zones[0].line, CS_E_INPUT,
                                  "property 'nic_duplex' is '%s', expected full or half", duplex);
    }
    const char *topology = root_prop(reader, "topology");
    const char *name = root_prop(reader, "name");
    platform->intra = intra ? intra : "custom";
    platform->topology = topology && topology[0] ? topology : "custom";
    platform->name = name && name[0] ? name : base_name(&platform->arena, platform->xml_path);
    platform->n_props = reader->n_root_props;
    platform->props = reader->root_props;
    platform->n_links = reader->n_link_elements;
    platform->n_devices = reader->n_devices;
    platform->devices = CS_ARENA_NEW(&platform->arena, struct cs_device, reader->n_devices);
    for (int32_t d = 0; d < reader->n_devices; d++) {
        CS_TRY(resolve_device(reader, &reader->devices[d], &platform->devices[d]));
    }
    CS_TRY(count_nodes(reader, platform));
out:
    return st;
}

void cs__reader_release(struct cs_reader *reader)
{
    cs_arena_release(&reader->names);
    cs_arena_release(&reader->scratch);
    cs__names_release(&reader->point_names);
    cs__names_release(&reader->link_names);
    cs__pairs_release(&reader->routes);
    cs_free(reader->zones);
    cs_free(reader->points);
    cs_free(reader->links);
    cs_free(reader->props);
    cs_free(reader->devices);
    cs_free(reader->notes);
}

cs_status cs__platform_read(struct cs_platform *platform, struct cs_reader *reader, const char *xml_path,
                            const struct cs_catalogue *catalogue, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_platform read = {0};
    *reader = (struct cs_reader){
        .err = err, .file = xml_path, .catalogue = catalogue, .result = &read.arena, .zone = -1, .host = -1};
    char *text = NULL;
    size_t bytes = 0;
    if (cs_file_is_there(xml_path) && !cs_file_exists(xml_path) && !cs_file_is_dir(xml_path)) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){xml_path, 0, 0},
                        "is a pipe or device, but should be a file: a platform is read more than once");
        goto out;
    }
    CS_TRY(cs_file_read(xml_path, FILE_BYTES_MAX, &text, &bytes, err));
    read.xml_path = cs_arena_strdup(&read.arena, xml_path);
    read.content_hash = cs_hash_bytes(CS_HASH_SEED, text, bytes);
    CS_TRY(cs__reader_parse(reader, text, bytes));
    CS_TRY(finish(reader, &read));
    *platform = read;
    read = (struct cs_platform){0};
out:
    reader->result = NULL;
    cs_platform_release(&read);
    cs_free(text);
    return st;
}

cs_status cs_platform_load(struct cs_platform *platform, const char *xml_path,
                           const struct cs_catalogue *catalogue, struct cs_err *err)
{
    struct cs_reader reader = {0};
    cs_status st = cs__platform_read(platform, &reader, xml_path, catalogue, err);
    cs__reader_release(&reader);
    return st;
}

void cs_platform_release(struct cs_platform *platform)
{
    cs_arena_release(&platform->arena);
    *platform = (struct cs_platform){0};
}
