/* From a file that was generated back to its description. */
#include "cs/base/text.h"
#include "cs/base/units.h"
#include "cs/platforms/topology.h"

#include <stdlib.h>
#include <string.h>

static const char *prop(const struct cs_platform *platform, const char *id)
{
    for (int32_t i = 0; i < platform->n_props; i++) {
        if (strcmp(platform->props[i].id, id) == 0) {
            return platform->props[i].value;
        }
    }
    return NULL;
}

static bool read_int(const struct cs_platform *platform, const char *id, int32_t *value)
{
    int64_t wide = 0;
    const char *text = prop(platform, id);
    if (!text || cs_int_parse(text, 0, INT32_MAX, id, CS_NOLOC, &wide, NULL) != CS_OK) {
        return false;
    }
    *value = (int32_t)wide;
    return true;
}

static bool read_quantity(const struct cs_platform *platform, const char *id, enum cs_unit unit,
                          double *value)
{
    const char *text = prop(platform, id);
    return text && cs_units_parse(text, unit, id, CS_NOLOC, value, NULL) == CS_OK;
}

static bool read_dims(const struct cs_platform *platform, int32_t dims[3])
{
    const char *text = prop(platform, "dims");
    char *end = NULL;
    for (int32_t d = 0; d < 3 && text; d++) {
        dims[d] = (int32_t)strtol(text, &end, 10);
        text = end == text || (d < 2 && *end != 'x') ? NULL : end + 1;
    }
    return text != NULL;
}

static bool read_props(const struct cs_platform *platform, struct cs_topology_spec *spec)
{
    int32_t topology = cs_text_index(platform->topology, cs_topology_names);
    *spec = (struct cs_topology_spec){.name = prop(platform, "name"), .chip = prop(platform, "chip")};
    if (topology < 0 || !spec->name || !spec->chip || strcmp(platform->intra, "custom") == 0) {
        return false;
    }
    spec->topology = (enum cs_topology)topology;
    spec->intra_switched = strcmp(platform->intra, "mesh") != 0;
    spec->inter_half_duplex =
        prop(platform, "nic_duplex") && strcmp(prop(platform, "nic_duplex"), "half") == 0;
    spec->nic_devices = 1;
    if (prop(platform, "nic_devices") && !read_int(platform, "nic_devices", &spec->nic_devices)) {
        return false;
    }
    if (strcmp(platform->intra, "bus") == 0 &&
        !read_quantity(platform, "bus_bandwidth", CS_UNIT_BYTES_PER_S, &spec->intra_bus_bytes_per_s)) {
        return false;
    }
    return read_int(platform, "nodes", &spec->n_nodes) &&
           read_int(platform, "devices_per_node", &spec->devices_per_node) &&
           read_int(platform, "leaf_ports", &spec->leaf_ports) &&
           read_int(platform, "levels", &spec->levels) && read_dims(platform, spec->dims) &&
           read_quantity(platform, "intra_bandwidth", CS_UNIT_BYTES_PER_S, &spec->intra_bytes_per_s) &&
           read_quantity(platform, "inter_bandwidth", CS_UNIT_BYTES_PER_S, &spec->inter_bytes_per_s) &&
           read_quantity(platform, "intra_latency", CS_UNIT_SECONDS, &spec->intra_latency_s) &&
           read_quantity(platform, "inter_latency", CS_UNIT_SECONDS, &spec->inter_latency_s) &&
           read_quantity(platform, "hop_latency", CS_UNIT_SECONDS, &spec->hop_latency_s) &&
           read_quantity(platform, "oversubscription", CS_UNIT_NONE, &spec->oversubscription_frac);
}

cs_status cs_topology_read(struct cs_topology_spec *spec, const struct cs_platform *platform,
                           const struct cs_catalogue *catalogue, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    char *text = NULL;
    size_t bytes = 0;
    if (!read_props(platform, spec)) {
        return cs_err_set(
            err, CS_E_INPUT, loc,
            "platform '%s' does not carry the description that it was generated from, so it cannot "
            "be varied: describe it with server, nodes, topology, ...",
            platform->name);
    }
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream) {
        return cs_err_set(err, CS_E_IO, loc, "no memory stream");
    }
    st = cs_topology_write(spec, catalogue, stream, loc, err);
    if (fclose(stream) != 0 && st == CS_OK) {
        st = cs_err_set(err, CS_E_IO, loc, "cannot write the platform to memory");
    }
    if (st == CS_OK && cs_hash_bytes(CS_HASH_SEED, text, bytes) != platform->content_hash) {
        st = cs_err_set(
            err, CS_E_INPUT, loc,
            "platform '%s' is not what its description gives (edited, or made with other catalogue "
            "figures), so it cannot be varied: generate it anew",
            platform->name);
    }
    free(text); /* open_memstream's, not ours */
    return st;
}
