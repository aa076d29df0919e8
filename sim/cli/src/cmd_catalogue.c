#include "cli_priv.h"

#include "cs/platforms/network.h"
#include "cs/strategies/shipped.h"

#include <math.h>

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = state->input;
        return 0;
    }
    if (key == ARGP_KEY_ARG) {
        argp_error(state, "unexpected argument '%s'", arg);
    }
    return key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

static void parse_args(struct cs__output_args *args, const char *name, const char *doc, int argc, char **argv)
{
    static const struct argp_child children[] = {{&cs__json_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {NULL, parse, "", doc, children, NULL, NULL};
    cs__parse(&argp, name, argc, argv, args);
}

static json_t *model_json(const char *name, const struct cs_model *model)
{
    json_t *object = json_object();
    const struct {
        const char *key;
        int64_t value;
    } figures[] = {{"parameters", cs_model_params(model)},
                   {"active_parameters", cs_model_active_params(model)},
                   {"layers", model->n_layers},
                   {"hidden", model->hidden},
                   {"heads", model->n_heads},
                   {"kv_heads", model->n_kv_heads},
                   {"ffn", model->ffn},
                   {"vocab", model->vocab},
                   {"experts", model->n_experts}};
    (void)json_object_set_new(object, "name", json_string(name));
    (void)json_object_set_new(object, "title", json_string(model->name));
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        (void)json_object_set_new(object, figures[i].key, json_integer((json_int_t)figures[i].value));
    }
    return object;
}

static cs_status list_model(struct cs_arena *arena, const char *data_dir, const char *name, bool text,
                            json_t *list, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_model model = {0};
    CS_TRY(cs_model_load(&model, cs_shipped_path(arena, data_dir, CS_SHIPPED_MODEL, name), err));
    if (text) {
        (void)printf("%-16s %9.2fe9 %6d %7lld %5lld/%-3lld %7lld %8lld\n", name,
                     (double)cs_model_params(&model) / 1e9, (int)model.n_layers, (long long)model.hidden,
                     (long long)model.n_heads, (long long)model.n_kv_heads, (long long)model.ffn,
                     (long long)model.vocab);
    }
    (void)json_array_append_new(list, model_json(name, &model));
out:
    cs_model_release(&model);
    return st;
}

int cs__cmd_models(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs__output_args args = {0};
    struct cs_arena arena = {0};
    const char *data_dir = NULL;
    json_t *object = json_object();
    json_t *list = json_array();
    (void)json_object_set_new(object, "models", list);
    parse_args(&args, "clustersim models", "Models that are shipped.\v" CS__EXIT_STATUS_DOC, argc, argv);
    CS_TRY(cs__data_dir(&arena, &data_dir, &err));
    if (cs__wants_text(&args)) {
        (void)printf("%-16s %11s %6s %7s %9s %7s %8s\n", "model", "parameters", "layers", "hidden",
                     "heads/kv", "ffn", "vocab");
    }
    const char *const *names = cs_shipped_names(&arena, data_dir, CS_SHIPPED_MODEL);
    for (int32_t i = 0; names[i]; i++) {
        CS_TRY(list_model(&arena, data_dir, names[i], cs__wants_text(&args), list, &err));
    }
    CS_TRY(cs__write_json(&args, json_incref(object), &err));
out:
    json_decref(object);
    cs_arena_release(&arena);
    return st == CS_OK ? 0 : cs__fail(&err);
}

static cs_status list_platform(const struct cs__hardware *hardware, struct cs_arena *arena, const char *name,
                               bool text, json_t *list, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_platform platform = {0};
    char memory[32];
    CS_TRY(cs_platform_load(&platform, cs_shipped_path(arena, hardware->data_dir, CS_SHIPPED_PLATFORM, name),
                            hardware->catalogue, err));
    const struct cs_device *first = &platform.devices[0];
    if (text) {
        (void)printf("%-22s %7d %6d %8d  %-10s %10s  %-7s %s\n", name, (int)platform.n_devices,
                     (int)platform.n_nodes, (int)platform.devices_per_node, first->chip->name,
                     cs_units_format(first->memory_bytes, CS_UNIT_BYTES, memory, sizeof memory),
                     platform.intra, platform.topology);
    }
    json_t *object = json_object();
    (void)json_object_set_new(object, "name", json_string(name));
    (void)json_object_set_new(object, "devices", json_integer(platform.n_devices));
    (void)json_object_set_new(object, "nodes", json_integer(platform.n_nodes));
    (void)json_object_set_new(object, "devices_per_node", json_integer(platform.devices_per_node));
    (void)json_object_set_new(object, "chip", json_string(first->chip->name));
    (void)json_object_set_new(object, "memory_bytes", json_integer((json_int_t)first->memory_bytes));
    (void)json_object_set_new(object, "intra", json_string(platform.intra));
    (void)json_object_set_new(object, "topology", json_string(platform.topology));
    (void)json_array_append_new(list, object);
out:
    cs_platform_release(&platform);
    return st;
}

/* A figure of the catalogue in its base unit, or null. */
static void set_figure(json_t *object, const char *key, double value)
{
    (void)json_object_set_new(object, key, isnan(value) ? json_null() : json_real(value));
}

static const char *figure_text(double value, enum cs_unit unit, char text[32])
{
    return isnan(value) ? "not found" : cs_units_format(value, unit, text, 32);
}

static json_t *list_servers(const struct cs_catalogue *catalogue, bool text)
{
    json_t *list = json_array();
    char intra[32];
    char inter[32];
    if (text) {
        (void)printf("\n%-22s %7s  %-10s %-7s %10s %10s\n", "server type", "devices", "chip", "intra",
                     "a device", "a NIC");
    }
    const char *const *names = cs_catalogue_server_names(catalogue);
    for (int32_t i = 0; names[i]; i++) {
        const struct cs_server *server = cs_catalogue_server(catalogue, names[i]);
        const char *wiring = server->intra_bus_bytes_per_s > 0 ? "bus"
                             : server->intra_switched          ? "switch"
                                                               : "mesh";
        json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:s}", "name", server->name, "title", server->title,
                                   "chip", server->chip, "devices", (int)server->devices, "intra", wiring);
        set_figure(object, "intra_node_bytes_per_s", server->intra_bytes_per_s);
        set_figure(object, "inter_node_bytes_per_s", server->nic_bytes_per_s);
        (void)json_object_set_new(object, "nic_duplex",
                                  json_string(server->nic_half_duplex ? "half" : "full"));
        (void)json_object_set_new(object, "nic_devices", json_integer(server->nic_devices));
        (void)json_array_append_new(list, object);
        if (text) {
            (void)printf("%-22s %7d  %-10s %-7s %10s %10s%s\n", server->name, (int)server->devices,
                         server->chip, wiring,
                         figure_text(server->intra_bytes_per_s, CS_UNIT_BYTES_PER_S, intra),
                         figure_text(server->nic_bytes_per_s, CS_UNIT_BYTES_PER_S, inter),
                         server->nic_half_duplex ? " in and out together" : "");
        }
    }
    return list;
}

static json_t *list_chips(const struct cs_catalogue *catalogue, bool text)
{
    json_t *list = json_array();
    char memory[32];
    char rate[32];
    char peak[32];
    if (text) {
        (void)printf("\n%-22s %10s %10s %14s\n", "chip", "memory", "bandwidth", "fp16");
    }
    const char *const *names = cs_catalogue_chip_names(catalogue);
    for (int32_t i = 0; names[i]; i++) {
        const struct cs_chip *chip = cs_catalogue_chip(catalogue, names[i]);
        json_t *object = json_pack("{s:s, s:s}", "name", chip->name, "title", chip->title);
        set_figure(object, "memory_bytes", chip->memory_bytes);
        set_figure(object, "memory_bytes_per_s", chip->memory_bytes_per_s);
        set_figure(object, "fp16_flop_per_s", chip->peak_flop_per_s[CS_DTYPE_FP16]);
        set_figure(object, "bf16_flop_per_s", chip->peak_flop_per_s[CS_DTYPE_BF16]);
        set_figure(object, "max_power_w", chip->max_power_w);
        (void)json_array_append_new(list, object);
        if (text) {
            (void)printf("%-22s %10s %10s %14s\n", chip->name,
                         figure_text(chip->memory_bytes, CS_UNIT_BYTES, memory),
                         figure_text(chip->memory_bytes_per_s, CS_UNIT_BYTES_PER_S, rate),
                         figure_text(chip->peak_flop_per_s[CS_DTYPE_FP16], CS_UNIT_FLOP_PER_S, peak));
        }
    }
    return list;
}

static json_t *list_nics(const struct cs_catalogue *catalogue, bool text)
{
    json_t *list = json_array();
    int32_t n = 0;
    char rate[32];
    char measured[32];
    const struct cs_nic *nics = cs_catalogue_nics(catalogue, &n);
    if (text) {
        (void)printf("\n%-22s %10s %10s\n", "NIC", "port", "measured");
    }
    for (int32_t i = 0; i < n; i++) {
        json_t *object = json_pack("{s:s, s:s}", "name", nics[i].name, "title", nics[i].title);
        set_figure(object, "port_bytes_per_s", nics[i].port_bytes_per_s);
        set_figure(object, "measured_bytes_per_s", nics[i].measured_bytes_per_s);
        set_figure(object, "latency_s", nics[i].latency_s);
        set_figure(object, "max_power_w", nics[i].max_power_w);
        (void)json_array_append_new(list, object);
        if (text) {
            (void)printf("%-22s %10s %10s\n", nics[i].name,
                         figure_text(nics[i].port_bytes_per_s, CS_UNIT_BYTES_PER_S, rate),
                         figure_text(nics[i].measured_bytes_per_s, CS_UNIT_BYTES_PER_S, measured));
        }
    }
    return list;
}

static json_t *list_switches(const struct cs_catalogue *catalogue, bool text)
{
    json_t *list = json_array();
    int32_t n = 0;
    char ports[32];
    char rate[32];
    char latency[32];
    const struct cs_switch *switches = cs_catalogue_switches(catalogue, &n);
    if (text) {
        (void)printf("\n%-22s %10s %10s %10s\n", "switch", "ports", "a port", "latency");
    }
    for (int32_t i = 0; i < n; i++) {
        const struct cs_switch *at = &switches[i];
        json_t *object = json_pack("{s:s, s:s}", "name", at->name, "title", at->title);
        set_figure(object, "ports", at->n_ports);
        set_figure(object, "port_bytes_per_s", at->port_bytes_per_s);
        set_figure(object, "latency_s", at->latency_s);
        set_figure(object, "max_power_w", at->max_power_w);
        (void)json_array_append_new(list, object);
        if (text) {
            (void)printf("%-22s %10s %10s %10s\n", at->name, figure_text(at->n_ports, CS_UNIT_NONE, ports),
                         figure_text(at->port_bytes_per_s, CS_UNIT_BYTES_PER_S, rate),
                         figure_text(at->latency_s, CS_UNIT_SECONDS, latency));
        }
    }
    return list;
}

/* What platforms can be described with; each list also goes into the JSON object. */
static void list_parts(const struct cs_catalogue *catalogue, bool text, json_t *object)
{
    (void)json_object_set_new(object, "servers", list_servers(catalogue, text));
    (void)json_object_set_new(object, "chips", list_chips(catalogue, text));
    (void)json_object_set_new(object, "nics", list_nics(catalogue, text));
    (void)json_object_set_new(object, "switches", list_switches(catalogue, text));
}

int cs__cmd_platforms(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs__output_args args = {0};
    struct cs_arena arena = {0};
    struct cs__hardware hardware = {0};
    json_t *object = json_object();
    json_t *list = json_array();
    (void)json_object_set_new(object, "platforms", list);
    parse_args(&args, "clustersim platforms",
               "Platforms that are shipped, and the catalogue to describe others with: server types, chips, "
               "NICs, switches.\v" CS__EXIT_STATUS_DOC,
               argc, argv);
    CS_TRY(cs__hardware_load(&hardware, NULL, &err));
    if (cs__wants_text(&args)) {
        (void)printf("%-22s %7s %6s %8s  %-10s %10s  %-7s %s\n", "platform", "devices", "nodes", "per node",
                     "chip", "memory", "intra", "topology");
    }
    const char *const *names = cs_shipped_names(&arena, hardware.data_dir, CS_SHIPPED_PLATFORM);
    for (int32_t i = 0; names[i]; i++) {
        CS_TRY(list_platform(&hardware, &arena, names[i], cs__wants_text(&args), list, &err));
    }
    list_parts(hardware.catalogue, cs__wants_text(&args), object);
    CS_TRY(cs__write_json(&args, json_incref(object), &err));
out:
    json_decref(object);
    cs__hardware_release(&hardware);
    cs_arena_release(&arena);
    return st == CS_OK ? 0 : cs__fail(&err);
}
