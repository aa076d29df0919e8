#include "cli_priv.h"
#include "pairs_priv.h"

#include "cs/base/file.h"
#include "cs/reports/platform.h"

#include <math.h>

struct show_args {
    struct cs__output_args output;
    const char *platform;
    const char *svg;
};

enum { OPT_SVG = 1 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct show_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->output;
        return 0;
    case OPT_SVG:
        args->svg = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (args->platform) {
            argp_error(state, "one platform at a time, but there are '%s' and '%s'", args->platform, arg);
        }
        args->platform = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->platform) {
            argp_error(state, "no platform given");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct show_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"svg", OPT_SVG, "FILE", 0, "Draw it too", 0},
        {0},
    };
    static const struct argp_child children[] = {{&cs__json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "PLATFORM",
        "What a platform is: its size and devices, and the bandwidths and latencies that SimGrid sees "
        "from its first device.\v"
        "PLATFORM is an XML file or the name of a shipped one. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim platform show", argc, argv, args);
}

/* From device 0 into its node, and to one device of each other node. */
static struct cs__route_pairs pairs_from_first(const struct cs_platform *platform)
{
    struct cs__route_pairs pairs = {0};
    bool *seen = cs_calloc((size_t)platform->n_nodes, sizeof *seen);
    bool way_back = false;
    for (int32_t i = 1; i < platform->n_devices; i++) {
        bool *node_seen = &seen[platform->devices[i].node];
        if (cs_platform_same_node(platform, 0, i) || !*node_seen) {
            cs__route_pairs_add(&pairs, 0, i);
        }
        if (!cs_platform_same_node(platform, 0, i) && !way_back) {
            cs__route_pairs_add(&pairs, i, 0);
            way_back = true;
        }
        *node_seen = true;
    }
    cs_free(seen);
    return pairs;
}

static void measure(const struct cs_platform *platform, const struct cs_routes *routes,
                    const struct cs__route_pairs *pairs, struct cs_platform_figures *figures)
{
    bool *counted = cs_calloc((size_t)cs_routes_n_links(routes), sizeof *counted);
    const double unknown = (double)NAN;
    *figures = (struct cs_platform_figures){unknown, unknown, unknown, unknown, unknown, unknown, 1, false};
    for (int32_t i = 1; i < platform->n_devices; i++) {
        int32_t adapter = platform->devices[i].adapter;
        figures->nic_devices +=
            cs_platform_same_node(platform, 0, i) && adapter >= 0 && adapter == platform->devices[0].adapter;
    }
    for (int64_t i = 0; i < pairs->n; i++) {
        int32_t from = pairs->at[2 * i];
        int32_t to = pairs->at[2 * i + 1];
        struct cs_route route = cs_routes_get(routes, from, to);
        if (from != 0) {
            struct cs_route out = cs_routes_get(routes, 0, from);
            int32_t last = route.n_links - 1;
            figures->inter_half_duplex = last >= 0 && out.n_links > 0 && out.links[0] == route.links[last] &&
                                         cs_routes_link(routes, out.links[0])->shared;
            continue;
        }
        double bytes_per_s = cs_routes_bytes_per_s(routes, 0, to);
        if (!cs_platform_same_node(platform, 0, to)) {
            figures->inter_bytes_per_s = fmax(figures->inter_bytes_per_s, bytes_per_s);
            figures->inter_latency_s = fmin(figures->inter_latency_s, route.latency_s);
            figures->far_latency_s = fmax(figures->far_latency_s, route.latency_s);
            continue;
        }
        figures->pair_bytes_per_s = bytes_per_s;
        figures->intra_latency_s = route.latency_s;
        if (route.n_links > 0 && !counted[route.links[0]]) {
            counted[route.links[0]] = true;
            double first_bytes_per_s = cs_routes_link(routes, route.links[0])->bytes_per_s;
            figures->intra_bytes_per_s = isnan(figures->intra_bytes_per_s)
                                             ? first_bytes_per_s
                                             : figures->intra_bytes_per_s + first_bytes_per_s;
        }
    }
    cs_free(counted);
}

/* "  intra   196.0 GB/s out of a device, 28.0 GB/s to one neighbour, 500 ns" */
static void print_fabric(const char *label, const char *way, double bytes_per_s, double pair_bytes_per_s,
                         double latency_s, double far_latency_s)
{
    char rate[32];
    char pair[32];
    char latency[32];
    char far[32];
    if (isnan(bytes_per_s)) {
        (void)printf("%-12s none\n", label);
        return;
    }
    (void)printf("%-12s %s %s", label, cs_units_format(bytes_per_s, CS_UNIT_BYTES_PER_S, rate, sizeof rate),
                 way);
    if (!isnan(pair_bytes_per_s)) {
        (void)printf(", %s to one neighbour",
                     cs_units_format(pair_bytes_per_s, CS_UNIT_BYTES_PER_S, pair, sizeof pair));
    }
    (void)printf(", latency %s", cs_units_format(latency_s, CS_UNIT_SECONDS, latency, sizeof latency));
    if (far_latency_s > latency_s) {
        (void)printf(" to %s", cs_units_format(far_latency_s, CS_UNIT_SECONDS, far, sizeof far));
    }
    (void)fputc('\n', stdout);
}

static void print_platform(const struct cs_platform *platform, const struct cs_platform_figures *figures)
{
    char memory[32];
    const struct cs_device *first = &platform->devices[0];
    (void)printf("%-12s %s\n", "name", platform->name);
    (void)printf("%-12s %d nodes, %d devices, %s%d a node\n", "size", (int)platform->n_nodes,
                 (int)platform->n_devices, platform->uniform ? "" : "up to ",
                 (int)platform->devices_per_node);
    (void)printf("%-12s %s, %s of memory%s\n", "device", first->chip->name,
                 cs_units_format(first->memory_bytes, CS_UNIT_BYTES, memory, sizeof memory),
                 platform->uniform ? "" : "; others differ");
    (void)printf("%-12s %s\n", "", first->chip->title);
    (void)printf("%-12s %s inside a node, %s between nodes\n", "topology", platform->intra,
                 platform->topology);
    print_fabric("intra node", "out of a device", figures->intra_bytes_per_s, figures->pair_bytes_per_s,
                 figures->intra_latency_s, (double)NAN);
    print_fabric("inter node",
                 figures->inter_half_duplex ? "in and out of a device together" : "out of a device",
                 figures->inter_bytes_per_s, (double)NAN, figures->inter_latency_s, figures->far_latency_s);
    if (figures->nic_devices > 1) {
        (void)printf("%-12s one for %d devices\n", "adapters", (int)figures->nic_devices);
    }
    if (figures->intra_bytes_per_s > 0 && figures->inter_bytes_per_s > 0) {
        (void)printf("%-12s %.3g : 1\n", "ratio", figures->intra_bytes_per_s / figures->inter_bytes_per_s);
    }
}

static json_t *platform_json(const struct cs_platform *platform, const struct cs_platform_figures *figures)
{
    json_t *object = json_object();
    (void)json_object_set_new(object, "name", json_string(platform->name));
    (void)json_object_set_new(object, "nodes", json_integer(platform->n_nodes));
    (void)json_object_set_new(object, "devices", json_integer(platform->n_devices));
    (void)json_object_set_new(object, "devices_per_node", json_integer(platform->devices_per_node));
    (void)json_object_set_new(object, "chip", json_string(platform->devices[0].chip->name));
    (void)json_object_set_new(object, "memory_bytes",
                              json_integer((json_int_t)platform->devices[0].memory_bytes));
    (void)json_object_set_new(object, "intra_node_bytes_per_s", cs_json_real(figures->intra_bytes_per_s));
    (void)json_object_set_new(object, "intra_node_pair_bytes_per_s", cs_json_real(figures->pair_bytes_per_s));
    (void)json_object_set_new(object, "intra_node_latency_s", cs_json_real(figures->intra_latency_s));
    (void)json_object_set_new(object, "inter_node_bytes_per_s", cs_json_real(figures->inter_bytes_per_s));
    (void)json_object_set_new(object, "nic_duplex",
                              json_string(figures->inter_half_duplex ? "half" : "full"));
    (void)json_object_set_new(object, "nic_devices", json_integer(figures->nic_devices));
    (void)json_object_set_new(object, "inter_node_latency_s", cs_json_real(figures->inter_latency_s));
    (void)json_object_set_new(object, "intra", json_string(platform->intra));
    (void)json_object_set_new(object, "topology", json_string(platform->topology));
    (void)json_object_set_new(object, "uniform", json_boolean(platform->uniform));
    return object;
}

static cs_status draw(const struct show_args *args, const struct cs__hardware *hardware,
                      const struct cs_platform_figures *figures, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_outfile file = {0};
    struct cs_topology_spec spec = {0};
    bool known = cs_topology_read(&spec, &hardware->platform, hardware->catalogue, CS_NOLOC, NULL) == CS_OK;
    if (args->svg) {
        CS_TRY(cs_outfile_open(&file, args->svg, err));
        cs_report_platform_svg(file.stream, &hardware->platform, known ? &spec : NULL, figures);
        CS_TRY(cs_outfile_commit(&file, err));
    }
out:
    cs_outfile_release(&file);
    return st;
}

int cs__cmd_platform_show(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct show_args args = {0};
    struct cs__hardware hardware = {0};
    struct cs_routes *routes = NULL;
    struct cs__route_pairs pairs = {0};
    struct cs_platform_figures figures;
    parse_args(&args, argc, argv);
    CS_TRY(cs__hardware_load(&hardware, args.platform, &err));
    routes = cs_routes_new(&hardware.platform, cs__simgrid_cfg());
    pairs = pairs_from_first(&hardware.platform);
    CS_TRY(cs_routes_need(routes, pairs.at, pairs.n, &err));
    measure(&hardware.platform, routes, &pairs, &figures);
    if (cs__wants_text(&args.output) && !(args.svg && args.svg[0] == '-' && args.svg[1] == '\0')) {
        print_platform(&hardware.platform, &figures);
    }
    CS_TRY(cs__write_json(&args.output, args.output.json ? platform_json(&hardware.platform, &figures) : NULL,
                          &err));
    CS_TRY(draw(&args, &hardware, &figures, &err));
out:
    cs_free(pairs.at);
    cs_routes_free(routes);
    cs__hardware_release(&hardware);
    return st == CS_OK ? 0 : cs__fail(&err);
}
