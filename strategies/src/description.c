/* A platform described in the study: `platform: {server: ..., nodes: ..., topology: ...}`. */
#include "study_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/platforms/network.h"

#include <string.h>

/* Keys of the block; those of `second` are among them. */
static const char *const block_keys[] = {"base",
                                         "server",
                                         "name",
                                         "chip",
                                         "nodes",
                                         "devices",
                                         "devices_per_node",
                                         "intra",
                                         "topology",
                                         "intra_bandwidth",
                                         "bus_bandwidth",
                                         "nic",
                                         "nic_duplex",
                                         "nic_devices",
                                         "switch",
                                         "inter_bandwidth",
                                         "ratio",
                                         "intra_latency",
                                         "inter_latency",
                                         "hop_latency",
                                         "oversubscription",
                                         "leaf_ports",
                                         "levels",
                                         "dims",
                                         "second",
                                         "dead_links",
                                         "rank_table",
                                         NULL};
static const char *const second_keys[] = {
    "server",        "chip",          "nodes",           "devices_per_node", "intra",       "intra_bandwidth",
    "bus_bandwidth", "intra_latency", "inter_bandwidth", "nic_duplex",       "nic_devices", NULL};

static cs_status find_server(struct cs_study *study, const struct cs_yaml_node *block,
                             const struct cs_server **server, struct cs_err *err)
{
    cs_status st = CS_OK;
    const char *const *names = cs_catalogue_server_names(study->catalogue);
    const struct cs_yaml_node *node = cs_yaml_get(block, "server");
    int32_t index = 0;
    if (!names[0]) {
        return cs_err_set(err, CS_E_INPUT, block->loc, "the catalogue has no servers");
    }
    if (node) {
        CS_TRY(cs_yaml_choice(node, names, "server", &index, err));
    }
    *server = cs_catalogue_server(study->catalogue, names[index]);
out:
    return st;
}

static cs_status opt_int32_to(const struct cs_yaml_node *block, const char *key, int32_t most, int32_t *value,
                              struct cs_err *err)
{
    cs_status st = CS_OK;
    int64_t wide = *value;
    CS_TRY(cs_yaml_opt_int(block, key, 1, most, &wide, err));
    *value = (int32_t)wide;
out:
    return st;
}

static cs_status opt_int32(const struct cs_yaml_node *block, const char *key, int32_t *value,
                           struct cs_err *err)
{
    return opt_int32_to(block, key, INT32_MAX, value, err);
}

static cs_status opt_chip(struct cs_study *study, const struct cs_yaml_node *block, const char **chip,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(block, "chip");
    const char *const *names = cs_catalogue_chip_names(study->catalogue);
    int32_t index = 0;
    if (node) {
        CS_TRY(cs_yaml_choice(node, names, "chip", &index, err));
        *chip = names[index];
    }
out:
    return st;
}

/* Wiring inside a node, and its bus: `intra: bus` needs a rate, from the server type or `bus_bandwidth`. */
static cs_status opt_intra(const struct cs_yaml_node *block, bool *switched, double *bus_bytes_per_s,
                           struct cs_err *err)
{
    static const char *const intras[] = {"mesh", "switch", "bus", NULL};
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(block, "intra");
    const struct cs_yaml_node *rate = cs_yaml_get(block, "bus_bandwidth");
    int32_t index = *bus_bytes_per_s > 0 ? 2 : *switched ? 1 : 0;
    if (node) {
        CS_TRY(cs_yaml_choice(node, intras, "intra", &index, err));
        *switched = index != 0;
        *bus_bytes_per_s = index == 2 ? *bus_bytes_per_s : 0;
    }
    if (rate && index != 2) {
        return cs_err_set(err, CS_E_INPUT, rate->loc, "'bus_bandwidth' needs 'intra: bus'");
    }
    CS_TRY(cs_yaml_opt_quantity(block, "bus_bandwidth", CS_UNIT_BYTES_PER_S, bus_bytes_per_s, err));
    if (index == 2 && *bus_bytes_per_s <= 0) {
        return cs_err_set(err, CS_E_INPUT, node ? node->loc : block->loc,
                          "'intra: bus' needs the rate of the bus: bus_bandwidth, as in 48GBps");
    }
out:
    return st;
}

/* "4x4x2" or [4, 4, 2] */
static cs_status opt_dims(const struct cs_yaml_node *block, int32_t dims[3], struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(block, "dims");
    if (!node) {
        return CS_OK;
    }
    memset(dims, 0, 3 * sizeof *dims);
    if (node->kind == CS_YAML_LIST && node->n >= 1 && node->n <= 3) {
        for (int32_t i = 0; i < node->n; i++) {
            int64_t value = 0;
            CS_TRY(cs_yaml_int(node->items[i], 1, INT32_MAX, "dims", &value, err));
            dims[i] = (int32_t)value;
        }
        return CS_OK;
    }
    if (node->kind == CS_YAML_SCALAR) {
        const char *at = node->text;
        for (int32_t n = 0; n < 3; n++) {
            char part[16] = "";
            int64_t value = 0;
            size_t len = strcspn(at, "x");
            if (len == 0 || len >= sizeof part) {
                break;
            }
            memcpy(part, at, len);
            CS_TRY(cs_int_parse(part, 1, INT32_MAX, "dims", node->loc, &value, err));
            dims[n] = (int32_t)value;
            if (at[len] == '\0') {
                return CS_OK;
            }
            at += len + 1;
        }
    }
    st = cs_err_set(err, CS_E_INPUT, node->loc,
                    "'dims' must be up to three numbers, as in 4x4x2 or [4, 4, 2]");
out:
    return st;
}

static cs_status opt_duplex(const struct cs_yaml_node *block, bool *half, struct cs_err *err)
{
    static const char *const names[] = {"full", "half", NULL};
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(block, "nic_duplex");
    int32_t index = *half;
    if (node) {
        CS_TRY(cs_yaml_choice(node, names, "nic_duplex", &index, err));
    }
    *half = index == 1;
out:
    return st;
}

static cs_status opt_texts(struct cs_study *study, const struct cs_yaml_node *block, const char *key,
                           int32_t *n, const char *const **texts, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(block, key);
    if (!node) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(node, CS_YAML_LIST, key, err));
    const char **list = CS_ARENA_NEW(&study->arena, const char *, node->n + 1);
    for (int32_t i = 0; i < node->n; i++) {
        CS_TRY(cs_yaml_want(node->items[i], CS_YAML_SCALAR, key, err));
        list[i] = node->items[i]->text;
    }
    *n = node->n;
    *texts = list;
out:
    return st;
}

static cs_status read_second(struct cs_study *study, const struct cs_yaml_node *block,
                             struct cs_topology_part *part, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_server *server = NULL;
    const struct cs_yaml_node *nodes = NULL;
    if (!block) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(block, CS_YAML_MAP, "second", err));
    CS_TRY(cs_yaml_check_keys(block, second_keys, "second", err));
    CS_TRY(find_server(study, block, &server, err));
    CS_TRY(cs_yaml_need(block, "nodes", &nodes, err));
    *part = cs_topology_part_of(server, 0);
    CS_TRY(opt_chip(study, block, &part->chip, err));
    CS_TRY(opt_int32(block, "nodes", &part->n_nodes, err));
    CS_TRY(opt_int32(block, "devices_per_node", &part->devices_per_node, err));
    CS_TRY(opt_intra(block, &part->intra_switched, &part->intra_bus_bytes_per_s, err));
    CS_TRY(opt_duplex(block, &part->inter_half_duplex, err));
    CS_TRY(opt_int32_to(block, "nic_devices", CS_NIC_DEVICES_MAX, &part->nic_devices, err));
    CS_TRY(
        cs_yaml_opt_quantity(block, "intra_bandwidth", CS_UNIT_BYTES_PER_S, &part->intra_bytes_per_s, err));
    CS_TRY(cs_yaml_opt_quantity(block, "intra_latency", CS_UNIT_SECONDS, &part->intra_latency_s, err));
    CS_TRY(
        cs_yaml_opt_quantity(block, "inter_bandwidth", CS_UNIT_BYTES_PER_S, &part->inter_bytes_per_s, err));
out:
    return st;
}

/* Where the block starts from: another platform's description, or a server type. */
static cs_status read_start(struct cs_study *study, const struct cs_study_source *source,
                            const struct cs_yaml_node *block, struct cs_topology_spec *spec,
                            struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *base = cs_yaml_get(block, "base");
    const struct cs_server *server = NULL;
    const char *path = NULL;
    if (base && !cs_yaml_get(block, "server")) {
        CS_TRY(cs__study_find(study, source, base, CS_SHIPPED_PLATFORM, "base", &path, err));
        CS_TRY(cs_platform_load(&study->base, path, study->catalogue, err));
        CS_TRY(cs_topology_read(spec, &study->base, study->catalogue, base->loc, err));
        return CS_OK;
    }
    CS_TRY(find_server(study, block, &server, err));
    cs_topology_spec_init(spec, server);
out:
    return st;
}

/* What is written but would change nothing. An oversubscription of 1 is none, in any topology. */
static cs_status check_effect(const struct cs_yaml_node *block, const struct cs_topology_spec *spec,
                              struct cs_err *err)
{
    static const char *const keys[] = {"oversubscription", "levels", "dims"};
    cs_status st = CS_OK;
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        const struct cs_yaml_node *node = cs_yaml_get(block, keys[i]);
        if (node && (i > 0 || spec->oversubscription_frac > 1)) {
            CS_TRY(cs_topology_check_given(spec->topology, keys[i], node->loc, err));
        }
    }
out:
    return st;
}

/* How many nodes: `nodes`, or what `devices` needs. */
static cs_status read_size(const struct cs_yaml_node *block, struct cs_topology_spec *spec,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(block, "devices");
    int64_t devices = 0;
    CS_TRY(opt_int32(block, "devices_per_node", &spec->devices_per_node, err));
    CS_TRY(opt_int32(block, "nodes", &spec->n_nodes, err));
    if (node) {
        CS_TRY(cs_yaml_int(node, 1, CS_TOPOLOGY_DEVICES_MAX, "devices", &devices, err));
        if (cs_yaml_get(block, "nodes")) {
            return cs_err_set(err, CS_E_INPUT, node->loc, "give 'devices' or 'nodes', not both");
        }
        if (devices % spec->devices_per_node != 0) {
            return cs_err_set(err, CS_E_INPUT, node->loc, "%lld devices are no whole number of nodes of %d",
                              (long long)devices, (int)spec->devices_per_node);
        }
        spec->n_nodes = (int32_t)(devices / spec->devices_per_node);
    }
out:
    return st;
}

static cs_status read_rates(const struct cs_study *study, const struct cs_yaml_node *block,
                            struct cs_topology_spec *spec, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *ratio_node = cs_yaml_get(block, "ratio");
    const struct cs_yaml_node *nic = cs_yaml_get(block, "nic");
    const struct cs_yaml_node *leaf = cs_yaml_get(block, "switch");
    double ratio = 0;
    if (nic) {
        CS_TRY(cs_yaml_want(nic, CS_YAML_SCALAR, "nic", err));
        CS_TRY(cs_topology_use_nic(spec, study->catalogue, nic->text, nic->loc, err));
    }
    CS_TRY(cs_yaml_opt_real(block, "oversubscription", 1, 1000, &spec->oversubscription_frac, err));
    if (leaf) {
        CS_TRY(cs_yaml_want(leaf, CS_YAML_SCALAR, "switch", err));
        CS_TRY(cs_topology_use_switch(spec, study->catalogue, leaf->text, leaf->loc, err));
    }
    CS_TRY(opt_duplex(block, &spec->inter_half_duplex, err));
    CS_TRY(opt_int32_to(block, "nic_devices", CS_NIC_DEVICES_MAX, &spec->nic_devices, err));
    CS_TRY(
        cs_yaml_opt_quantity(block, "intra_bandwidth", CS_UNIT_BYTES_PER_S, &spec->intra_bytes_per_s, err));
    CS_TRY(
        cs_yaml_opt_quantity(block, "inter_bandwidth", CS_UNIT_BYTES_PER_S, &spec->inter_bytes_per_s, err));
    CS_TRY(cs_yaml_opt_quantity(block, "intra_latency", CS_UNIT_SECONDS, &spec->intra_latency_s, err));
    CS_TRY(cs_yaml_opt_quantity(block, "inter_latency", CS_UNIT_SECONDS, &spec->inter_latency_s, err));
    CS_TRY(cs_yaml_opt_quantity(block, "hop_latency", CS_UNIT_SECONDS, &spec->hop_latency_s, err));
    if (ratio_node) {
        CS_TRY(cs_yaml_real(ratio_node, 1e-3, 1e6, "ratio", &ratio, err));
        if (cs_yaml_get(block, "inter_bandwidth")) {
            return cs_err_set(err, CS_E_INPUT, ratio_node->loc,
                              "give 'ratio' or 'inter_bandwidth', not both");
        }
        spec->inter_bytes_per_s = spec->intra_bytes_per_s / ratio;
    }
out:
    return st;
}

cs_status cs__description_read(struct cs_study *study, const struct cs_study_source *source,
                               const struct cs_yaml_node *block, struct cs_topology_spec *spec,
                               struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *topology_node = cs_yaml_get(block, "topology");
    int32_t topology = 0;
    CS_TRY(cs_yaml_check_keys(block, block_keys, "platform", err));
    CS_TRY(read_start(study, source, block, spec, err));
    if (topology_node) {
        CS_TRY(cs_yaml_choice(topology_node, cs_topology_names, "topology", &topology, err));
        if (spec->topology != (enum cs_topology)topology) {
            memset(spec->dims, 0, sizeof spec->dims);
        }
        cs_topology_spec_use(spec, (enum cs_topology)topology);
    }
    if (cs_yaml_get(block, "nodes") || cs_yaml_get(block, "devices")) {
        memset(spec->dims, 0, sizeof spec->dims); /* the base's dimensions make the base's size */
    }
    CS_TRY(cs_yaml_opt_text(block, "name", &spec->name, err));
    CS_TRY(opt_chip(study, block, &spec->chip, err));
    CS_TRY(read_size(block, spec, err));
    CS_TRY(opt_intra(block, &spec->intra_switched, &spec->intra_bus_bytes_per_s, err));
    CS_TRY(read_rates(study, block, spec, err));
    CS_TRY(opt_int32(block, "leaf_ports", &spec->leaf_ports, err));
    CS_TRY(opt_int32(block, "levels", &spec->levels, err));
    CS_TRY(opt_dims(block, spec->dims, err));
    CS_TRY(check_effect(block, spec, err));
    CS_TRY(read_second(study, cs_yaml_get(block, "second"), &spec->second, err));
    CS_TRY(opt_texts(study, block, "dead_links", &spec->n_dead_links, &spec->dead_links, err));
out:
    return st;
}

cs_status cs_description_load(struct cs_study *study, const struct cs_study_source *source,
                              struct cs_topology_spec *spec, struct cs_err *err)
{
    cs_status st = CS_OK;
    *study = (struct cs_study){0};
    study->path = source->path;
    CS_TRY(cs_catalogue_load_over(cs_path_join(&study->arena, source->data_dir, "platforms/catalogue"),
                                  source->catalogue, &study->catalogue, err));
    CS_TRY(cs_yaml_load_file(&study->yaml, source->path, err));
    CS_TRY(cs_yaml_want(study->yaml.root, CS_YAML_MAP, "a platform description", err));
    CS_TRY(cs__description_read(study, source, study->yaml.root, spec, err));
    if (cs_yaml_get(study->yaml.root, "rank_table")) {
        st = cs_err_set(err, CS_E_INPUT, cs_yaml_get(study->yaml.root, "rank_table")->loc,
                        "a platform file has no ranks: give 'rank_table' in the study");
        goto out;
    }
    CS_TRY(cs_topology_check(spec, study->yaml.root->loc, err));
out:
    return st;
}
