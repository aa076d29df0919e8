/* NICs and switches: reading them, and building clusters of them. */
#include "cs/platforms/network.h"

#include "catalogue_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <string.h>

#define NIC(key, unit, field, required, max)                                                                 \
    {                                                                                                        \
        key, unit, offsetof(struct cs_nic, field), required, 0.0, max                                        \
    }
static const struct cs_figure nic_figures[] = {
    NIC("port_bandwidth", CS_UNIT_BYTES_PER_S, port_bytes_per_s, true, 1e15),
    NIC("measured_bandwidth", CS_UNIT_BYTES_PER_S, measured_bytes_per_s, false, 1e15),
    NIC("latency", CS_UNIT_SECONDS, latency_s, false, 1.0),
    NIC("max_power", CS_UNIT_WATT, max_power_w, false, 1e6),
};

#define SWITCH(key, unit, field, max)                                                                        \
    {                                                                                                        \
        key, unit, offsetof(struct cs_switch, field), false, 0.0, max                                        \
    }
static const struct cs_figure switch_figures[] = {
    SWITCH("ports", CS_UNIT_NONE, n_ports, 4096.0),
    SWITCH("port_bandwidth", CS_UNIT_BYTES_PER_S, port_bytes_per_s, 1e15),
    SWITCH("latency", CS_UNIT_SECONDS, latency_s, 1.0),
    SWITCH("max_power", CS_UNIT_WATT, max_power_w, 1e6),
};

/* An entry's figures into `record`; its title, else its key. */
static cs_status read_entry(const struct cs_yaml_node *key, const struct cs_yaml_node *entry,
                            const struct cs_figure *figures, int32_t n_figures, void *record,
                            const char **title, struct cs_err *err)
{
    static const char *const extra[] = {"title", NULL};
    cs_status st = CS_OK;
    const char *sources[CS_COUNT(nic_figures) + CS_COUNT(switch_figures)] = {0};
    CS_TRY(cs_yaml_want(entry, CS_YAML_MAP, key->text, err));
    CS_TRY(cs__catalogue_keys(entry, key->text, extra, figures, n_figures, err));
    CS_TRY(cs_yaml_opt_text(entry, "title", title, err));
    *title = *title ? *title : key->text;
    CS_TRY(cs__catalogue_read(entry, figures, n_figures, record, sources, err));
out:
    if (st != CS_OK) {
        cs_err_prefix(err, "'%s'", key->text);
    }
    return st;
}

static const struct cs_nic *find_nic(const struct cs_nic *list, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static const struct cs_switch *find_switch(const struct cs_switch *list, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

cs_status cs__network_read(struct cs__network *network, const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *map = cs_yaml_get(root, "nics");
    if (map) {
        CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "nics", err));
    }
    for (int32_t i = 0; map && i < map->n; i++) {
        struct cs_nic nic = {.name = map->keys[i]->text};
        if (find_nic(network->nics, network->n_nics, nic.name)) {
            return cs_err_set(err, CS_E_INPUT, map->keys[i]->loc, "NIC '%s' is described twice", nic.name);
        }
        CS_TRY(read_entry(map->keys[i], map->items[i], nic_figures, CS_COUNT(nic_figures), &nic, &nic.title,
                          err));
        CS_GROW(network->nics, network->n_nics, network->cap_nics);
        network->nics[network->n_nics++] = nic;
    }
    map = cs_yaml_get(root, "switches");
    if (map) {
        CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "switches", err));
    }
    for (int32_t i = 0; map && i < map->n; i++) {
        struct cs_switch read = {.name = map->keys[i]->text};
        if (find_switch(network->switches, network->n_switches, read.name)) {
            return cs_err_set(err, CS_E_INPUT, map->keys[i]->loc, "switch '%s' is described twice",
                              read.name);
        }
        CS_TRY(read_entry(map->keys[i], map->items[i], switch_figures, CS_COUNT(switch_figures), &read,
                          &read.title, err));
        CS_GROW(network->switches, network->n_switches, network->cap_switches);
        network->switches[network->n_switches++] = read;
    }
out:
    return st;
}

void cs__network_release(struct cs__network *network)
{
    cs_free(network->nics);
    cs_free(network->switches);
    *network = (struct cs__network){0};
}

static cs_status fail_name(const char *what, const char *name, struct cs_strbuf *names, struct cs_loc loc,
                           struct cs_err *err)
{
    cs_status st = cs_err_set(err, CS_E_INPUT, loc, "%s '%s' is not in the catalogue, expected one of:%s",
                              what, name, cs_strbuf_str(names));
    cs_strbuf_release(names);
    return st;
}

cs_status cs_topology_use_nic(struct cs_topology_spec *spec, const struct cs_catalogue *catalogue,
                              const char *name, struct cs_loc loc, struct cs_err *err)
{
    int32_t n = 0;
    const struct cs_nic *list = cs_catalogue_nics(catalogue, &n);
    const struct cs_nic *nic = find_nic(list, n, name);
    struct cs_strbuf names = {0};
    if (!nic) {
        for (int32_t i = 0; i < n; i++) {
            cs_strbuf_addf(&names, " %s", list[i].name);
        }
        return fail_name("NIC", name, &names, loc, err);
    }
    spec->inter_bytes_per_s =
        isnan(nic->measured_bytes_per_s) ? nic->port_bytes_per_s : nic->measured_bytes_per_s;
    spec->inter_half_duplex = false;
    spec->nic_devices = 1;
    spec->inter_latency_s = isnan(nic->latency_s) ? spec->inter_latency_s : nic->latency_s;
    return CS_OK;
}

cs_status cs_topology_use_switch(struct cs_topology_spec *spec, const struct cs_catalogue *catalogue,
                                 const char *name, struct cs_loc loc, struct cs_err *err)
{
    int32_t n = 0;
    const struct cs_switch *list = cs_catalogue_switches(catalogue, &n);
    const struct cs_switch *found = find_switch(list, n, name);
    struct cs_strbuf names = {0};
    if (!found) {
        for (int32_t i = 0; i < n; i++) {
            cs_strbuf_addf(&names, " %s", list[i].name);
        }
        return fail_name("switch", name, &names, loc, err);
    }
    if (isnan(found->n_ports)) {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "how many ports switch '%s' has was not found: give 'leaf_ports' and 'hop_latency'",
                          name);
    }
    double ratio = spec->oversubscription_frac;
    spec->leaf_ports = (int32_t)floor(found->n_ports * ratio / (1.0 + ratio));
    spec->hop_latency_s = isnan(found->latency_s) ? spec->hop_latency_s : found->latency_s;
    return CS_OK;
}
