#include "cli_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/platforms/network.h"

#include <string.h>

#define DEAD_LINKS_MAX 256

/* Zero = the server's own value. */
struct generate_args {
    const char *description; /* file; flags then do not apply */
    const char *server;
    const char *second_server;
    const char *chip;
    const char *nic;
    const char *leaf;
    const char *name;
    const char *output;
    int32_t n_flags; /* options given besides -o */
    int32_t n_dead_links;
    const char *dead_links[DEAD_LINKS_MAX];
    int32_t n_nodes;
    int32_t second_nodes;
    int32_t devices_per_node;
    int32_t nic_devices;
    int32_t leaf_ports;
    int32_t levels;
    int32_t dims[3];
    int intra;    /* -1 = the server's, 0 mesh, 1 switch, 2 bus */
    int duplex;   /* -1 = the server's, 0 full, 1 half */
    int topology; /* -1 = fat-tree */
    double intra_bytes_per_s;
    double bus_bytes_per_s;
    double inter_bytes_per_s;
    double intra_latency_s;
    double inter_latency_s;
    double hop_latency_s;
    double oversubscription;
};

enum {
    OPT_SERVER = 1,
    OPT_NODES,
    OPT_DEVICES,
    OPT_CHIP,
    OPT_INTRA,
    OPT_INTRA_BANDWIDTH,
    OPT_INTER_BANDWIDTH,
    OPT_INTRA_LATENCY,
    OPT_INTER_LATENCY,
    OPT_HOP_LATENCY,
    OPT_TOPOLOGY,
    OPT_OVERSUBSCRIPTION,
    OPT_LEAF_PORTS,
    OPT_LEVELS,
    OPT_DIMS,
    OPT_NAME,
    OPT_SECOND_SERVER,
    OPT_SECOND_NODES,
    OPT_DEAD_LINK,
    OPT_BUS_BANDWIDTH,
    OPT_NIC,
    OPT_NIC_DUPLEX,
    OPT_NIC_DEVICES,
    OPT_SWITCH
};

/* "4x4x2" */
static void set_dims(struct generate_args *args, struct argp_state *state, const char *text)
{
    char part[16];
    int32_t n = 0;
    for (const char *at = text; at; n++) {
        const char *end = strchr(at, 'x');
        size_t len = end ? (size_t)(end - at) : strlen(at);
        if (n == 3 || len >= sizeof part) {
            argp_error(state, "'--dims %s': expected up to three numbers, as in 4x4x2", text);
            return;
        }
        memcpy(part, at, len);
        part[len] = '\0';
        args->dims[n] = (int32_t)cs__option_int(state, part, 1, INT32_MAX, "dims");
        at = end ? end + 1 : NULL;
    }
}

static error_t parse_count(struct generate_args *args, int key, const char *arg, struct argp_state *state)
{
    switch (key) {
    case OPT_NODES:
        args->n_nodes = (int32_t)cs__option_int(state, arg, 1, INT32_MAX, "nodes");
        return 0;
    case OPT_SECOND_NODES:
        args->second_nodes = (int32_t)cs__option_int(state, arg, 1, INT32_MAX, "second-nodes");
        return 0;
    case OPT_DEVICES:
        args->devices_per_node = (int32_t)cs__option_int(state, arg, 1, INT32_MAX, "devices-per-node");
        return 0;
    case OPT_NIC_DEVICES:
        args->nic_devices = (int32_t)cs__option_int(state, arg, 1, CS_NIC_DEVICES_MAX, "nic-devices");
        return 0;
    case OPT_LEAF_PORTS:
        args->leaf_ports = (int32_t)cs__option_int(state, arg, 1, INT32_MAX, "leaf-ports");
        return 0;
    case OPT_LEVELS:
        args->levels = (int32_t)cs__option_int(state, arg, 2, 3, "levels");
        return 0;
    case OPT_DIMS:
        set_dims(args, state, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_figure(struct generate_args *args, int key, const char *arg, struct argp_state *state)
{
    const struct {
        int key;
        enum cs_unit unit;
        const char *what;
        double *value;
    } figures[] = {
        {OPT_INTRA_BANDWIDTH, CS_UNIT_BYTES_PER_S, "intra-bandwidth", &args->intra_bytes_per_s},
        {OPT_BUS_BANDWIDTH, CS_UNIT_BYTES_PER_S, "bus-bandwidth", &args->bus_bytes_per_s},
        {OPT_INTER_BANDWIDTH, CS_UNIT_BYTES_PER_S, "inter-bandwidth", &args->inter_bytes_per_s},
        {OPT_INTRA_LATENCY, CS_UNIT_SECONDS, "intra-latency", &args->intra_latency_s},
        {OPT_INTER_LATENCY, CS_UNIT_SECONDS, "inter-latency", &args->inter_latency_s},
        {OPT_HOP_LATENCY, CS_UNIT_SECONDS, "hop-latency", &args->hop_latency_s},
        {OPT_OVERSUBSCRIPTION, CS_UNIT_NONE, "oversubscription", &args->oversubscription},
    };
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        if (figures[i].key == key) {
            *figures[i].value = cs__option_quantity(state, arg, figures[i].unit, figures[i].what);
            if (!(*figures[i].value > 0)) {
                argp_error(state, "'%s' must be above 0, found '%s'", figures[i].what, arg);
            }
            return 0;
        }
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t parse_generate(int key, char *arg, struct argp_state *state)
{
    static const char *const intras[] = {"mesh", "switch", "bus", NULL};
    static const char *const duplexes[] = {"full", "half", NULL};
    struct generate_args *args = state->input;
    args->n_flags += key > 0 && key < ' ';
    switch (key) {
    case ARGP_KEY_INIT:
        args->intra = args->duplex = args->topology = -1;
        args->output = "-";
        return 0;
    case OPT_SERVER:
        args->server = arg;
        return 0;
    case OPT_SECOND_SERVER:
        args->second_server = arg;
        return 0;
    case OPT_DEAD_LINK:
        if (args->n_dead_links == DEAD_LINKS_MAX) {
            argp_error(state, "more than %d dead links", DEAD_LINKS_MAX);
        }
        args->dead_links[args->n_dead_links++] = arg;
        return 0;
    case OPT_CHIP:
        args->chip = arg;
        return 0;
    case OPT_NIC:
        args->nic = arg;
        return 0;
    case OPT_SWITCH:
        args->leaf = arg;
        return 0;
    case OPT_NAME:
        args->name = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case OPT_INTRA:
        args->intra = cs__option_choice(state, arg, intras, "wiring of a node");
        return 0;
    case OPT_NIC_DUPLEX:
        args->duplex = cs__option_choice(state, arg, duplexes, "duplex of a NIC");
        return 0;
    case OPT_TOPOLOGY:
        args->topology = cs__option_choice(state, arg, cs_topology_names, "topology");
        return 0;
    case ARGP_KEY_ARG:
        if (args->description) {
            argp_error(state, "one description at a time, but there are '%s' and '%s'", args->description,
                       arg);
        }
        args->description = arg;
        return 0;
    case ARGP_KEY_END:
        if (args->description && args->n_flags > 0) {
            argp_error(state, "'%s' describes the whole platform: no options besides -o", args->description);
        }
        if ((args->second_server != NULL) != (args->second_nodes > 0)) {
            argp_error(state, "--second-server and --second-nodes go together");
        }
        return 0;
    default:
        return parse_count(args, key, arg, state) == 0 ? 0 : parse_figure(args, key, arg, state);
    }
}

static void parse_generate_args(struct generate_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"server", OPT_SERVER, "NAME", 0, "Server type of the catalogue that gives every default", 0},
        {"nodes", OPT_NODES, "N", 0, "Servers (8)", 0},
        {"devices-per-node", OPT_DEVICES, "N", 0, "Devices in a server", 0},
        {"chip", OPT_CHIP, "NAME", 0, "Chip of the catalogue", 0},
        {"intra", OPT_INTRA, "mesh|switch|bus", 0, "Wiring inside a server", 0},
        {"bus-bandwidth", OPT_BUS_BANDWIDTH, "RATE", 0,
         "Of the bus that all traffic inside a server shares, both directions together: 48GBps", 0},
        {"nic", OPT_NIC, "NAME", 0, "NIC of the catalogue: its rate and latency", 0},
        {"nic-duplex", OPT_NIC_DUPLEX, "full|half", 0,
         "Whether sending and receiving have the rate each (full), or share it", 0},
        {"nic-devices", OPT_NIC_DEVICES, "N", 0,
         "Neighbours that share a network adapter, for which collectives may go in rings (README of "
         "platforms)",
         0},
        {"switch", OPT_SWITCH, "NAME", 0, "Switch of the catalogue: leaf ports and latency of a hop", 0},
        {"intra-bandwidth", OPT_INTRA_BANDWIDTH, "RATE", 0, "Out of one device over all its links: 196GBps",
         0},
        {"intra-latency", OPT_INTRA_LATENCY, "TIME", 0, "Device to device inside a server: 500ns", 0},
        {"inter-bandwidth", OPT_INTER_BANDWIDTH, "RATE", 0, "One device's port to the outside: 200Gbps", 0},
        {"inter-latency", OPT_INTER_LATENCY, "TIME", 0, "Port to port across one switch: 1.5us", 0},
        {"hop-latency", OPT_HOP_LATENCY, "TIME", 0, "Added by each further switch", 0},
        {"topology", OPT_TOPOLOGY, "T", 0, "fat-tree (default), rail, torus, dragonfly or supernode", 0},
        {"oversubscription", OPT_OVERSUBSCRIPTION, "R", 0, "Down over up bandwidth of a leaf switch (1)", 0},
        {"leaf-ports", OPT_LEAF_PORTS, "N", 0, "Down ports of a leaf switch", 0},
        {"levels", OPT_LEVELS, "N", 0, "Switch levels of a fat tree: 2 or 3; as needed without it", 0},
        {"dims", OPT_DIMS, "AxBxC", 0, "Torus: nodes a dimension; dragonfly: groups x routers x nodes", 0},
        {"second-server", OPT_SECOND_SERVER, "NAME", 0,
         "A second server type in the same fat tree or rail-optimised fabric", 0},
        {"second-nodes", OPT_SECOND_NODES, "N", 0, "How many of them", 0},
        {"dead-link", OPT_DEAD_LINK, "NAME", 0,
         "A cable that is out, as hccs0-1 or torus3_x: traffic goes round it; may be repeated", 0},
        {"name", OPT_NAME, "NAME", 0, "Name that reports show", 0},
        {"output", 'o', "FILE", 0, "Where to write; standard output without it", 0},
        {0},
    };
    static const struct argp argp = {
        options,
        parse_generate,
        "[DESCRIPTION.yaml]",
        "Write a cluster as SimGrid platform XML. Rates are one direction of one "
        "device; figures left out are the server type's.\v"
        "DESCRIPTION.yaml says the same as the options, with the keys of a study's `platform` "
        "block. " CS__EXIT_STATUS_DOC,
        NULL,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim platform generate", argc, argv, args);
}

static cs_status find_server(const struct cs_catalogue *catalogue, const char *name,
                             const struct cs_server **server, struct cs_err *err)
{
    struct cs_loc loc = {"command line", 0, 0};
    *server = cs_catalogue_server(catalogue, name);
    if (!*server) {
        const char *near = cs_text_nearest(name, cs_catalogue_server_names(catalogue));
        return cs_err_set(err, CS_E_INPUT, loc, "no server '%s' in the catalogue%s%s%s", name,
                          near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return CS_OK;
}

/* The server type that gives the defaults: the one asked for, else the first that has the chip, else the
 * first. */
static cs_status choose_server(const struct generate_args *args, const struct cs_catalogue *catalogue,
                               const struct cs_server **server, struct cs_err *err)
{
    struct cs_loc loc = {"command line", 0, 0};
    const char *const *names = cs_catalogue_server_names(catalogue);
    *server = names[0] ? cs_catalogue_server(catalogue, names[0]) : NULL;
    if (args->server) {
        return find_server(catalogue, args->server, server, err);
    }
    for (int32_t i = 0; names[i] && args->chip; i++) {
        const struct cs_server *candidate = cs_catalogue_server(catalogue, names[i]);
        if (strcmp(candidate->chip, args->chip) == 0) {
            *server = candidate;
            break;
        }
    }
    return *server ? CS_OK : cs_err_set(err, CS_E_INPUT, loc, "the catalogue has no servers");
}

static void set_if(double *field, double value)
{
    *field = value > 0 ? value : *field;
}

/* What is built of named parts, before single figures change it. */
static cs_status use_parts(struct cs_topology_spec *spec, const struct generate_args *args,
                           const struct cs_catalogue *catalogue, struct cs_err *err)
{
    struct cs_loc loc = {"command line", 0, 0};
    cs_status st = CS_OK;
    if (args->nic) {
        CS_TRY(cs_topology_use_nic(spec, catalogue, args->nic, loc, err));
    }
    set_if(&spec->oversubscription_frac, args->oversubscription);
    if (args->leaf) {
        CS_TRY(cs_topology_use_switch(spec, catalogue, args->leaf, loc, err));
    }
out:
    return st;
}

static void fill_spec(struct cs_topology_spec *spec, const struct generate_args *args)
{
    spec->name = args->name ? args->name : spec->name;
    spec->chip = args->chip ? args->chip : spec->chip;
    spec->n_nodes = args->n_nodes > 0 ? args->n_nodes : spec->n_nodes;
    spec->devices_per_node = args->devices_per_node > 0 ? args->devices_per_node : spec->devices_per_node;
    spec->intra_switched = args->intra >= 0 ? args->intra != 0 : spec->intra_switched;
    spec->intra_bus_bytes_per_s = args->intra < 0 || args->intra == 2 ? spec->intra_bus_bytes_per_s : 0;
    spec->inter_half_duplex = args->duplex >= 0 ? args->duplex == 1 : spec->inter_half_duplex;
    spec->nic_devices = args->nic_devices > 0 ? args->nic_devices : spec->nic_devices;
    spec->leaf_ports = args->leaf_ports > 0 ? args->leaf_ports : spec->leaf_ports;
    spec->levels = args->levels > 0 ? args->levels : spec->levels;
    for (int32_t i = 0; i < 3; i++) {
        spec->dims[i] = args->dims[i] > 0 ? args->dims[i] : spec->dims[i];
    }
    set_if(&spec->intra_bytes_per_s, args->intra_bytes_per_s);
    set_if(&spec->intra_bus_bytes_per_s, args->bus_bytes_per_s);
    set_if(&spec->inter_bytes_per_s, args->inter_bytes_per_s);
    set_if(&spec->intra_latency_s, args->intra_latency_s);
    set_if(&spec->inter_latency_s, args->inter_latency_s);
    set_if(&spec->hop_latency_s, args->hop_latency_s);
}

/* Options that would change nothing. */
static cs_status check_effect(const struct generate_args *args, const struct cs_topology_spec *spec,
                              struct cs_err *err)
{
    const struct {
        const char *key;
        bool given;
    } figures[] = {{"oversubscription", args->oversubscription > 1},
                   {"levels", args->levels > 0},
                   {"dims", args->dims[0] > 0}};
    cs_status st = CS_OK;
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        if (figures[i].given) {
            CS_TRY(cs_topology_check_given(spec->topology, figures[i].key,
                                           (struct cs_loc){"command line", 0, 0}, err));
        }
    }
out:
    return st;
}

/* From the options. */
static cs_status describe(const struct generate_args *args, const struct cs_catalogue *catalogue,
                          struct cs_topology_spec *spec, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_server *server = NULL;
    CS_TRY(choose_server(args, catalogue, &server, err));
    cs_topology_spec_init(spec, server);
    if (args->topology >= 0) {
        cs_topology_spec_use(spec, (enum cs_topology)args->topology);
    }
    CS_TRY(use_parts(spec, args, catalogue, err));
    fill_spec(spec, args);
    CS_TRY(check_effect(args, spec, err));
    if (args->intra == 2 && spec->intra_bus_bytes_per_s <= 0) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){"command line", 0, 0},
                        "--intra bus needs the rate of the bus: --bus-bandwidth, as in 48GBps");
        goto out;
    }
    spec->dead_links = args->dead_links;
    spec->n_dead_links = args->n_dead_links;
    if (args->second_server) {
        CS_TRY(find_server(catalogue, args->second_server, &server, err));
        spec->second = cs_topology_part_of(server, args->second_nodes);
    }
    CS_TRY(cs_topology_check(spec, (struct cs_loc){"command line", 0, 0}, err));
out:
    return st;
}

int cs__cmd_platform_generate(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    static struct generate_args args;
    struct cs__hardware hardware = {0};
    struct cs_study study = {0}; /* holds what a description file says */
    struct cs_outfile file = {0};
    struct cs_topology_spec spec = {0};
    parse_generate_args(&args, argc, argv);
    struct cs_loc loc = {args.description ? args.description : "command line", 0, 0};
    CS_TRY(cs__hardware_load(&hardware, NULL, &err));
    if (args.description) {
        struct cs_study_source source = {
            .data_dir = hardware.data_dir, .catalogue = cs__catalogue_over(), .path = args.description};
        CS_TRY(cs_description_load(&study, &source, &spec, &err));
    } else {
        CS_TRY(describe(&args, hardware.catalogue, &spec, &err));
    }
    CS_TRY(cs_outfile_open(&file, args.output, &err));
    CS_TRY(cs_topology_write(&spec, hardware.catalogue, file.stream, loc, &err));
    CS_TRY(cs_outfile_commit(&file, &err));
out:
    cs_outfile_release(&file);
    cs_study_release(&study);
    cs__hardware_release(&hardware);
    return st == CS_OK ? 0 : cs__fail(&err);
}
