/* A server's entry in the catalogue. */
#include "catalogue_priv.h"

#include <math.h>
#include <string.h>

/* What a server's figures are read into. */
struct server_figures {
    double devices; /* @unit count */
    double intra_bytes_per_s;
    double intra_latency_s;
    double nic_bytes_per_s;
    double nic_latency_s;
    double bus_bytes_per_s;
};

#define SERVER(key, unit, field, min, max)                                                                   \
    {                                                                                                        \
        key, unit, offsetof(struct server_figures, field), true, min, max                                    \
    }
static const struct cs_figure figures_of_server[] = {
    SERVER("devices", CS_UNIT_NONE, devices, 1.0, 1024.0),
    SERVER("intra_bandwidth", CS_UNIT_BYTES_PER_S, intra_bytes_per_s, 1.0, 1e15),
    SERVER("intra_latency", CS_UNIT_SECONDS, intra_latency_s, 0.0, 1.0),
    SERVER("nic_bandwidth", CS_UNIT_BYTES_PER_S, nic_bytes_per_s, 1.0, 1e15),
    SERVER("nic_latency", CS_UNIT_SECONDS, nic_latency_s, 0.0, 1.0),
    SERVER("bus_bandwidth", CS_UNIT_BYTES_PER_S, bus_bytes_per_s, 1.0, 1e15),
};
_Static_assert(sizeof figures_of_server / sizeof figures_of_server[0] == CS__N_SERVER_FIGURES,
               "CS__N_SERVER_FIGURES counts the table");
enum { BUS = CS__N_SERVER_FIGURES - 1 };

static const char *const intra_names[] = {"mesh", "switch", "bus", NULL};
static const char *const duplex_names[] = {"full", "half", NULL};

int32_t cs_server_n_figures(void)
{
    return CS__N_SERVER_FIGURES;
}

const char *cs_server_figure_key(int32_t figure)
{
    CS_ASSERT(figure >= 0 && figure < CS__N_SERVER_FIGURES);
    return figures_of_server[figure].key;
}

int32_t cs_server_figure_index(const char *key)
{
    for (int32_t f = 0; f < CS__N_SERVER_FIGURES; f++) {
        if (strcmp(figures_of_server[f].key, key) == 0) {
            return f;
        }
    }
    return -1;
}

cs_status cs__server_read(struct cs_server *server, const char **sources, struct cs_loc *chip_loc,
                          const struct cs_yaml_node *key, const struct cs_yaml_node *entry,
                          struct cs_err *err)
{
    static const char *const extra[] = {"title", "chip", "intra", "nic_duplex", "nic_devices", NULL};
    cs_status st = CS_OK;
    struct server_figures figures = {0};
    const struct cs_yaml_node *node = NULL;
    const struct cs_yaml_node *bus = NULL;
    int32_t intra = 0;
    int32_t duplex = 0;
    int64_t nic_devices = 1;
    CS_TRY(cs_yaml_want(entry, CS_YAML_MAP, key->text, err));
    CS_TRY(cs__catalogue_keys(entry, key->text, extra, figures_of_server, CS__N_SERVER_FIGURES, err));
    *server = (struct cs_server){.name = key->text};
    CS_TRY(cs_yaml_opt_text(entry, "title", &server->title, err));
    server->title = server->title ? server->title : key->text;
    CS_TRY(cs_yaml_need(entry, "intra", &node, err));
    CS_TRY(cs_yaml_choice(node, intra_names, "intra", &intra, err));
    node = cs_yaml_get(entry, "nic_duplex");
    if (node) {
        CS_TRY(cs_yaml_choice(node, duplex_names, "nic_duplex", &duplex, err));
    }
    CS_TRY(cs_yaml_opt_int(entry, "nic_devices", 1, CS_NIC_DEVICES_MAX, &nic_devices, err));
    CS_TRY(cs_yaml_need(entry, "chip", &node, err));
    CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, "chip", err));
    server->chip = node->text;
    *chip_loc = node->loc;
    bus = cs_yaml_get(entry, figures_of_server[BUS].key);
    if (bus && strcmp(intra_names[intra], "bus") != 0) {
        return cs_err_set(err, CS_E_INPUT, bus->loc, "only a server with 'intra: bus' has a bus");
    }
    int32_t n_figures = strcmp(intra_names[intra], "bus") == 0 ? CS__N_SERVER_FIGURES : BUS;
    CS_TRY(cs__catalogue_read(entry, figures_of_server, n_figures, &figures, sources, err));
    if (figures.devices != floor(figures.devices)) {
        return cs_err_set(err, CS_E_INPUT, entry->loc, "server '%s' has %g devices, expected a whole number",
                          key->text, figures.devices);
    }
    server->devices = (int32_t)figures.devices;
    server->intra_switched = strcmp(intra_names[intra], "mesh") != 0;
    server->intra_bus_bytes_per_s = figures.bus_bytes_per_s;
    server->intra_bytes_per_s = figures.intra_bytes_per_s;
    server->intra_latency_s = figures.intra_latency_s;
    server->nic_bytes_per_s = figures.nic_bytes_per_s;
    server->nic_half_duplex = duplex == 1;
    server->nic_devices = (int32_t)nic_devices;
    server->nic_latency_s = figures.nic_latency_s;
out:
    return st;
}

void cs_server_write(const struct cs_server *server, const char *const *sources, FILE *stream)
{
    const bool has_bus = server->intra_bus_bytes_per_s > 0;
    const double values[CS__N_SERVER_FIGURES] = {server->devices,         server->intra_bytes_per_s,
                                                 server->intra_latency_s, server->nic_bytes_per_s,
                                                 server->nic_latency_s,   server->intra_bus_bytes_per_s};
    fputs("servers:\n  ", stream);
    cs__quoted_write(server->name, stream);
    fputs(":\n    title: ", stream);
    cs__quoted_write(server->title, stream);
    fputs("\n    chip: ", stream);
    cs__quoted_write(server->chip, stream);
    fprintf(stream, "\n    intra: %s\n", intra_names[has_bus ? 2 : server->intra_switched ? 1 : 0]);
    if (server->nic_half_duplex) {
        fprintf(stream, "    nic_duplex: %s\n", duplex_names[1]);
    }
    if (server->nic_devices > 1) {
        fprintf(stream, "    nic_devices: %d\n", (int)server->nic_devices);
    }
    for (int32_t f = 0; f < (has_bus ? CS__N_SERVER_FIGURES : BUS); f++) {
        fprintf(stream, "    %s: ", figures_of_server[f].key);
        cs__figure_write(values[f], figures_of_server[f].unit, sources[f], stream);
    }
}
