/* Properties, and devices: what the properties of a host with a chip say. */
#include "cs/base/text.h"
#include "cs/base/units.h"
#include "cs/platforms/topology.h"
#include "reader_priv.h"

#include <string.h>

cs_status cs__props_add(struct cs_reader *reader)
{
    enum cs_element parent = reader->depth > 0 ? reader->stack[reader->depth - 1] : CS__N_ELEMENTS;
    const char *id = reader->attrs[CS__A_PROP_ID];
    if (parent != CS__EL_ZONE && parent != CS__EL_HOST && parent != CS__EL_LINK && parent != CS__EL_CLUSTER) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "<prop> must stand in <zone>, <host>, <link> or <cluster>");
    }
    if (parent == CS__EL_ZONE && reader->zones[reader->zone].has_content) {
        return cs__reader_fail(reader, CS_E_INPUT,
                               "<prop> of zone '%s' must come before everything else in it",
                               reader->zones[reader->zone].name);
    }
    if (parent == CS__EL_ZONE && reader->zone > 0) {
        return CS_OK; /* only the root zone's mean something */
    }
    bool first_of_zone = parent == CS__EL_ZONE && reader->n_root_props == 0;
    if (first_of_zone) {
        reader->n_props = 0;
    }
    for (int32_t i = 0; i < reader->n_props; i++) {
        if (strcmp(reader->props[i].id, id) == 0) {
            return cs__reader_fail(reader, CS_E_INPUT, "property '%s' is given twice", id);
        }
    }
    if (reader->n_props >= 1000) {
        return cs__reader_fail(reader, CS_E_LIMIT, "more than 1000 properties");
    }
    CS_GROW(reader->props, reader->n_props, reader->cap_props);
    reader->props[reader->n_props++] =
        (struct cs_prop_draft){.id = cs_arena_strdup(&reader->names, id),
                               .value = cs_arena_strdup(&reader->names, reader->attrs[CS__A_PROP_VALUE]),
                               .line = cs__reader_line(reader)};
    reader->n_root_props += parent == CS__EL_ZONE;
    return CS_OK;
}

/* The root zone's properties are complete once it gets something else. */
void cs__props_keep_root(struct cs_reader *reader)
{
    if (reader->root_props || reader->n_root_props == 0) {
        return;
    }
    reader->root_props = CS_ARENA_NEW(reader->result, struct cs_platform_prop, reader->n_root_props);
    for (int32_t i = 0; i < reader->n_root_props; i++) {
        reader->root_props[i].id = cs_arena_strdup(reader->result, reader->props[i].id);
        reader->root_props[i].value = cs_arena_strdup(reader->result, reader->props[i].value);
    }
}

static const char *const device_props[] = {"chip", "node", "memory", "nic", "adapter", NULL};
enum { PROP_CHIP, PROP_NODE, PROP_MEMORY, PROP_NIC, PROP_ADAPTER, N_DEVICE_PROPS };

/* The chip of a name, or a failure that says which there are. */
static cs_status find_chip(struct cs_reader *reader, const struct cs_prop_draft *prop,
                           const struct cs_chip **chip)
{
    *chip = cs_catalogue_chip(reader->catalogue, prop->value);
    if (*chip) {
        return CS_OK;
    }
    const char *const *names = cs_catalogue_chip_names(reader->catalogue);
    const char *near = cs_text_nearest(prop->value, names);
    if (near) {
        return cs__reader_fail_at(reader, prop->line, CS_E_INPUT,
                                  "chip '%s' is not in the catalogue, did you mean '%s'?", prop->value, near);
    }
    struct cs_strbuf list = {0};
    for (int32_t i = 0; names[i]; i++) {
        cs_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    cs_status st =
        cs__reader_fail_at(reader, prop->line, CS_E_INPUT, "chip '%s' is not in the catalogue (%s)",
                           prop->value, cs_strbuf_str(&list));
    cs_strbuf_release(&list);
    return st;
}

cs_status cs__device_add(struct cs_reader *reader, int32_t point)
{
    cs_status st = CS_OK;
    const struct cs_prop_draft *given[N_DEVICE_PROPS] = {0};
    const char *name = reader->points[point].name;
    for (int32_t i = 0; i < reader->n_props; i++) {
        const struct cs_prop_draft *prop = &reader->props[i];
        int32_t known = cs_text_index(prop->id, device_props);
        const char *near = known < 0 ? cs_text_nearest(prop->id, device_props) : NULL;
        if (near) {
            return cs__reader_fail_at(reader, prop->line, CS_E_INPUT,
                                      "unknown property '%s' of '%s', did you mean '%s'?", prop->id, name,
                                      near);
        }
        if (known >= 0) {
            given[known] = prop;
        }
    }
    if (!given[PROP_CHIP]) {
        for (int32_t i = PROP_NODE; i < N_DEVICE_PROPS; i++) {
            if (given[i]) {
                return cs__reader_fail_at(reader, given[i]->line, CS_E_INPUT,
                                          "'%s' has the property '%s' but no 'chip'", name, device_props[i]);
            }
        }
        return CS_OK; /* a NIC or another host that is no device */
    }
    struct cs_device_draft device = {.point = point, .line = given[PROP_CHIP]->line, .adapter = -1};
    CS_TRY(find_chip(reader, given[PROP_CHIP], &device.chip));
    if (!given[PROP_NODE]) {
        return cs__reader_fail_at(reader, device.line, CS_E_INPUT,
                                  "device '%s' has no 'node' property (index of its server)", name);
    }
    struct cs_loc loc = {.file = reader->file, .line = given[PROP_NODE]->line};
    CS_TRY(cs_int_parse(given[PROP_NODE]->value, 0, CS_TOPOLOGY_DEVICES_MAX - 1, "node", loc, &device.node,
                        reader->err));
    device.memory_bytes = device.chip->memory_bytes;
    device.has_memory = given[PROP_MEMORY] != NULL;
    if (given[PROP_MEMORY]) {
        loc.line = given[PROP_MEMORY]->line;
        CS_TRY(cs_units_parse(given[PROP_MEMORY]->value, CS_UNIT_BYTES, "memory", loc, &device.memory_bytes,
                              reader->err));
    }
    if (!(device.memory_bytes > 0.0)) {
        return cs__reader_fail_at(reader, device.line, CS_E_INPUT,
                                  "device '%s' has no memory: give it the property 'memory'", name);
    }
    if (given[PROP_ADAPTER]) {
        loc.line = given[PROP_ADAPTER]->line;
        CS_TRY(cs_int_parse(given[PROP_ADAPTER]->value, 0, CS_TOPOLOGY_DEVICES_MAX - 1, "adapter", loc,
                            &device.adapter, reader->err));
    }
    device.nic = given[PROP_NIC] ? given[PROP_NIC]->value : NULL;
    if (given[PROP_NIC]) {
        device.line = given[PROP_NIC]->line;
    }
    if (reader->n_devices == CS_TOPOLOGY_DEVICES_MAX) {
        return cs__reader_fail(reader, CS_E_LIMIT, "more than %d devices", CS_TOPOLOGY_DEVICES_MAX);
    }
    CS_GROW(reader->devices, reader->n_devices, reader->cap_devices);
    reader->devices[reader->n_devices++] = device;
out:
    return st;
}
