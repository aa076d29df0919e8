/* Rows of measured collectives, and whose links they are of. */
#include "collectives_priv.h"
#include "csv_priv.h"

#include "cs/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BYTES 1048576.0
#define PLATEAU_BYTES 1073741824.0 /* of a row measured where size changes nothing ("plateau" or no size) */
#define SITES_MAX 64

const char *const cs_link_place_names[] = {"inside", "between"};

/* Which server stands for which measured machine: the texts begin as the machine's name and the notes in the
 * file do, and the first that fits counts. NVLink switches that do not reduce ("Ring") are an H100's. */
static const struct {
    const char *hardware;
    const char *notes;
    const char *server; /* NULL: what was measured is not known well enough */
} machines[] = {
    {"A100 SXM4 (NVLink3)", "", "dgx-a100"},
    {"DGX A100-40GB (2 nodes", "", NULL}, /* with how many NICs is not stated */
    {"DGX A100-40GB", "", "dgx-a100-40"},
    {"A800 SXM4", "", "dgx-a800"},
    {"H100 SXM5 GCP a3-mega", "", "h100-a3-mega"},
    {"H200 SXM", "Ring", "dgx-h100"},
    {"H200 SXM", "", "dgx-h200"},
    {"B200 SXM (NVLink5, EFAv4", "", "b200-efa"},
    {"B200 SXM", "", "dgx-b200"},
    {"Ascend 910B", "", "atlas-800t-a2"},
    {"Ascend A2 (910B), HCCS", "", "atlas-800t-a2"},
    {"Ascend A2 (910B), 200GbE RoCE", "", "atlas-800t-a2"},
    {"Ascend A3 (910C), HCCS", "", "atlas-800-a3"},
};

/* Servers that have the same links. */
static const struct {
    enum cs_link_place place;
    const char *servers[5];
} alike[] = {
    {CS_LINK_INSIDE, {"dgx-a100", "dgx-a100-40", "jean-zay-a100", "vtrain-a100", NULL}},
    {CS_LINK_INSIDE, {"atlas-800t-a2", "atlas-900-a2", NULL}},
    {CS_LINK_INSIDE, {"atlas-800-a3", "cloudmatrix384", NULL}},
    {CS_LINK_INSIDE, {"dgx-h100", "h100-a3-mega", NULL}},
    {CS_LINK_INSIDE, {"dgx-b200", "b200-efa", NULL}},
    {CS_LINK_BETWEEN, {"atlas-800t-a2", "atlas-900-a2", NULL}},
};

/* What a device's port carries at most, bytes/s: no fit is above it. Links inside have no entry: switches
 * that reduce make them look faster than they are. */
static const struct {
    const char *server;
    double bytes_per_s;
} ports[] = {{"atlas-800t-a2", 25e9}, {"h100-a3-mega", 25e9}, {"b200-efa", 50e9}};

double cs__links_port_bytes_per_s(const char *server, enum cs_link_place place)
{
    for (int32_t i = 0; i < CS_COUNT(ports) && place == CS_LINK_BETWEEN; i++) {
        if (cs__links_alike(server, ports[i].server, place)) {
            return ports[i].bytes_per_s;
        }
    }
    return INFINITY;
}

bool cs__links_alike(const char *server, const char *other, enum cs_link_place place)
{
    bool same = strcmp(server, other) == 0;
    for (int32_t i = 0; i < CS_COUNT(alike); i++) {
        int32_t n_found = 0;
        for (int32_t k = 0; alike[i].place == place && alike[i].servers[k]; k++) {
            n_found += strcmp(alike[i].servers[k], server) == 0;
            n_found += strcmp(alike[i].servers[k], other) == 0;
        }
        same |= n_found == 2;
    }
    return same;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const struct cs_server *server_of(const struct cs_testbed *bed, const char *hardware,
                                         const char *notes)
{
    for (int32_t i = 0; i < CS_COUNT(machines); i++) {
        if (begins(hardware, machines[i].hardware) && begins(notes, machines[i].notes)) {
            return machines[i].server ? cs_testbed_server(bed, machines[i].server) : NULL;
        }
    }
    return cs_testbed_server(bed, hardware);
}

enum { KIND_NONE = -1, KIND_TRANSFER = CS_N_COLLS };

static int32_t kind_of(const char *text)
{
    static const struct {
        const char *text;
        int32_t kind;
    } kinds[] = {{"all_reduce", CS_COLL_ALL_REDUCE},         {"all_gather", CS_COLL_ALL_GATHER},
                 {"reduce_scatter", CS_COLL_REDUCE_SCATTER}, {"all_to_all", CS_COLL_ALL_TO_ALL},
                 {"p2p write D2D", KIND_TRANSFER},           {"p2p write D2D (RDMA)", KIND_TRANSFER}};
    for (int32_t i = 0; i < CS_COUNT(kinds); i++) {
        if (strcmp(text, kinds[i].text) == 0) {
            return kinds[i].kind;
        }
    }
    return KIND_NONE;
}

/* ---- sites ------------------------------------------------------------------------------------------------
 */

/* Clusters that rows were measured on, each once; routes point into them, so they do not move. */
struct sites {
    int32_t n;
    struct cs_site *items[SITES_MAX];
};

static void release_sites(struct sites *sites)
{
    for (int32_t i = 0; i < sites->n; i++) {
        cs_site_release(sites->items[i]);
        cs_free(sites->items[i]);
    }
}

static cs_status site_of(struct sites *sites, struct cs_site **site, const struct cs_testbed *bed,
                         const struct cs_server *server, int32_t n_nodes, struct cs_loc loc,
                         const char *simgrid_cfg, struct cs_err *err)
{
    static const struct cs_software plain = {
        .figure = {[CS_SOFTWARE_KERNEL_TIME] = 1,
                   [CS_SOFTWARE_POINTWISE_TRAFFIC] = 1,
                   [CS_SOFTWARE_ATTENTION_TIME] = 1,
                   [CS_SOFTWARE_HOST_LAUNCH] = 1,
                   [CS_SOFTWARE_COLLECTIVE_TIME] = 1},
    };
    for (int32_t i = 0; i < sites->n; i++) {
        if (sites->items[i]->server == server && sites->items[i]->n_nodes == n_nodes) {
            *site = sites->items[i];
            return CS_OK;
        }
    }
    if (sites->n == SITES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, loc, "more than %d clusters of different sizes", SITES_MAX);
    }
    *site = sites->items[sites->n++] = cs_calloc(1, sizeof **site);
    return cs_site_init(*site, bed, server, &plain, n_nodes, server->devices, simgrid_cfg, err);
}

/* ---- rows -------------------------------------------------------------------------------------------------
 */

/* What is measured, in numbers. */
struct measured {
    int32_t kind;
    double bytes;
    double bus_bytes_per_s;
    int32_t n_devices;
    int32_t n_nodes;
};

static cs_status number(const struct cs__csv *csv, int32_t row, const char *column, double *value,
                        struct cs_err *err)
{
    const char *text = cs__csv_text(csv, row, column);
    struct cs_loc loc = {csv->path, csv->rows[row].line, 0};
    *value = NAN;
    return *text ? cs_real_parse(text, column, loc, value, err) : CS_OK;
}

/* The closed form's latencies and transfers among the first devices of each node. A phase in which a flow
 * leaves its node takes as long as the links between nodes do: those inside are faster. */
static cs_status predict(struct cs__link_row *row, struct cs_site *site, const struct measured *m,
                         struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_coll_plan plan = {0};
    struct cs_flow flow = {0, 1, m->bytes};
    struct cs_coll_phase transfer = {1, 1, &flow, m->bytes};
    int32_t *members = CS_ARENA_NEW(&arena, int32_t, m->n_devices);
    int32_t per_node = m->n_devices / m->n_nodes;
    for (int32_t i = 0; i < m->n_devices; i++) {
        members[i] = i / per_node * site->devices_per_node + i % per_node;
    }
    if (m->kind == KIND_TRANSFER) {
        plan = (struct cs_coll_plan){.n_phases = 1, .phases = &transfer};
    } else {
        cs_coll_plan_build((enum cs_coll)m->kind, CS_ALGO_AUTO, &site->platform, members, m->n_devices,
                           m->bytes, &arena, &plan);
    }
    for (int32_t p = 0; p < plan.n_phases; p++) {
        const struct cs_coll_phase *phase = &plan.phases[p];
        const struct cs_coll_plan alone = {plan.algorithm, 1, &plan.phases[p]};
        double longest_s = 0;
        enum cs_link_place place = CS_LINK_INSIDE;
        for (int32_t f = 0; f < phase->n_flows; f++) {
            int32_t pair[2] = {members[phase->flows[f].src], members[phase->flows[f].dst]};
            CS_TRY(cs_routes_need(site->routes, pair, 1, err));
            longest_s = fmax(longest_s, cs_routes_get(site->routes, pair[0], pair[1]).latency_s);
            if (pair[0] / site->devices_per_node != pair[1] / site->devices_per_node) {
                place = CS_LINK_BETWEEN;
            }
        }
        double latency_s = longest_s * phase->n_rounds;
        row->latency_s[place] += latency_s;
        row->transfer_s[place] += fmax(cs_coll_closed_form_s(&alone, site->routes, members) - latency_s, 0);
    }
    row->fixed_s = site->chip.collective_overhead_s;
    if (m->kind == KIND_TRANSFER) { /* a block behind others: neither a latency nor a cost of its own */
        row->fixed_s = 0;
        row->latency_s[CS_LINK_INSIDE] = row->latency_s[CS_LINK_BETWEEN] = 0;
    }
out:
    cs_arena_release(&arena);
    return st;
}

/* The numbers of a row. @return in *usable whether a server of so many devices can have measured it. */
static cs_status read_numbers(struct measured *m, const struct cs__csv *csv, int32_t index,
                              const struct cs_server *server, bool *usable, struct cs_err *err)
{
    cs_status st = CS_OK;
    double n_devices = NAN;
    double n_nodes = NAN;
    double bus = NAN;
    const char *size = cs__csv_text(csv, index, "bytes");
    bool has_size = *size && strcmp(size, "plateau") != 0;
    *m = (struct measured){.kind = kind_of(cs__csv_text(csv, index, "collective")), .bytes = PLATEAU_BYTES};
    if (has_size) {
        CS_TRY(number(csv, index, "bytes", &m->bytes, err));
    }
    CS_TRY(number(csv, index, "n_devices", &n_devices, err));
    CS_TRY(number(csv, index, "n_nodes", &n_nodes, err));
    CS_TRY(number(csv, index, "busbw_GBps", &bus, err));
    m->bus_bytes_per_s = bus * 1e9;
    *usable = server && m->kind != KIND_NONE && bus > 0 && m->bytes >= LEAST_BYTES && m->bytes < 1e15 &&
              n_nodes >= 1 && n_nodes <= 64 && n_devices >= 2 && n_devices <= 1024;
    if (*usable) {
        m->n_devices = (int32_t)n_devices;
        m->n_nodes = (int32_t)n_nodes;
        *usable = m->n_devices % m->n_nodes == 0 && m->n_devices / m->n_nodes <= server->devices &&
                  (m->kind != KIND_TRANSFER || m->n_devices == 2);
    }
out:
    return st;
}

/* A row of the file; row->server stays NULL when it cannot be used. */
static cs_status read_row(struct cs__link_row *row, struct cs__csv *csv, int32_t index,
                          const struct cs_testbed *bed, struct sites *sites, const char *simgrid_cfg,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    struct measured m;
    struct cs_site *site = NULL;
    bool usable = false;
    struct cs_loc loc = {csv->path, csv->rows[index].line, 0};
    const struct cs_server *server =
        server_of(bed, cs__csv_text(csv, index, "hardware"), cs__csv_text(csv, index, "notes"));
    CS_TRY(read_numbers(&m, csv, index, server, &usable, err));
    if (!usable) {
        goto out;
    }
    CS_TRY(site_of(sites, &site, bed, server, m.n_nodes, loc, simgrid_cfg, err));
    CS_TRY(predict(row, site, &m, err));
    /* What a second's bus bandwidth is, inverted: the measured time. */
    row->measured_s =
        (m.kind == KIND_TRANSFER ? m.bytes
                                 : cs_coll_bus_bytes_per_s((enum cs_coll)m.kind, m.bytes, m.n_devices, 1.0)) /
        m.bus_bytes_per_s;
    row->group = cs_arena_printf(&csv->arena, "%s / %s", cs__csv_text(csv, index, "source"),
                                 cs__csv_text(csv, index, "collective"));
    row->decade = cs_arena_printf(&csv->arena, "%d", (int)floor(log10(m.bytes)));
    row->place = m.n_nodes > 1 ? CS_LINK_BETWEEN : CS_LINK_INSIDE;
    row->server = server;
out:
    return st;
}

/* ---- all --------------------------------------------------------------------------------------------------
 */

/* The links inside are as fitted when those between are. */
static void use_inside(const struct cs_link_fit *fit, struct cs__link_row *rows, int32_t n_rows)
{
    for (int32_t i = 0; i < n_rows; i++) {
        if (rows[i].server && rows[i].place == CS_LINK_BETWEEN &&
            cs__links_alike(fit->server, rows[i].server->name, CS_LINK_INSIDE)) {
            double slower = fit->catalogue_latency_s > 0 ? fit->latency_s / fit->catalogue_latency_s : 1;
            rows[i].fixed_s +=
                rows[i].latency_s[CS_LINK_INSIDE] * slower +
                rows[i].transfer_s[CS_LINK_INSIDE] * rows[i].server->intra_bytes_per_s / fit->bytes_per_s;
            rows[i].latency_s[CS_LINK_INSIDE] = rows[i].transfer_s[CS_LINK_INSIDE] = 0;
        }
    }
}

static cs_status fit_place(struct cs_link_fits *fits, enum cs_link_place place, struct cs__link_row *rows,
                           const struct cs_testbed *bed, struct cs_err *err)
{
    cs_status st = CS_OK;
    for (int32_t s = 0; s < bed->n_servers && fits->n < CS_LINK_FITS_MAX; s++) {
        bool measured = false;
        bool done = false;
        for (int32_t i = 0; i < fits->n_rows; i++) {
            measured |= rows[i].server && rows[i].place == place &&
                        cs__links_alike(bed->servers[s].name, rows[i].server->name, place);
        }
        for (int32_t i = 0; i < fits->n; i++) {
            done |= fits->items[i].place == place &&
                    cs__links_alike(bed->servers[s].name, fits->items[i].server, place);
        }
        if (measured && !done) {
            struct cs_link_fit *fit = &fits->items[fits->n++];
            CS_TRY(cs__links_fit(fit, rows, fits->n_rows, &bed->servers[s], place, err));
            if (place == CS_LINK_INSIDE) {
                use_inside(fit, rows, fits->n_rows);
            }
        }
    }
out:
    return st;
}

cs_status cs_collectives_fit(struct cs_link_fits *fits, const char *path, const struct cs_testbed *bed,
                             const char *simgrid_cfg, struct cs_err *err)
{
    static const char *const needed[] = {"hardware", "n_devices",  "n_nodes", "collective",
                                         "bytes",    "busbw_GBps", "source",  NULL};
    cs_status st = CS_OK;
    struct cs__csv csv = {0};
    struct sites sites = {0};
    struct cs__link_row *rows = NULL;
    *fits = (struct cs_link_fits){0};
    CS_TRY(cs__csv_open(&csv, path, needed, err));
    rows = cs_calloc((size_t)csv.n_rows + 1, sizeof *rows);
    fits->n_rows = csv.n_rows;
    for (int32_t i = 0; i < csv.n_rows; i++) {
        CS_TRY(read_row(&rows[i], &csv, i, bed, &sites, simgrid_cfg, err));
        fits->n_foreign += rows[i].server == NULL;
    }
    CS_TRY(fit_place(fits, CS_LINK_INSIDE, rows, bed, err));
    CS_TRY(fit_place(fits, CS_LINK_BETWEEN, rows, bed, err));
out:
    cs_free(rows);
    release_sites(&sites);
    cs__csv_release(&csv);
    return st;
}

bool cs_link_fit_fails(const struct cs_link_fit *fit)
{
    return !(fit->error_frac <= CS_LINK_ERROR_MAX_FRAC);
}

bool cs_collectives_set(const struct cs_link_fits *fits, const char *server, const char *figure)
{
    static const char *const keys[CS_N_LINK_PLACES][2] = {{"intra_bandwidth", "intra_latency"},
                                                          {"nic_bandwidth", "nic_latency"}};
    for (int32_t i = 0; i < fits->n; i++) {
        const struct cs_link_fit *f = &fits->items[i];
        const double determined_frac[2] = {f->bandwidth_determined_frac, f->latency_determined_frac};
        bool counts = !cs_link_fit_fails(f) && cs__links_alike(f->server, server, f->place);
        for (int32_t k = 0; k < 2 && counts; k++) {
            if (strcmp(keys[f->place][k], figure) == 0 && determined_frac[k] > CS_LINK_DETERMINED_FRAC) {
                return true;
            }
        }
    }
    return false;
}

void cs_collectives_apply(const struct cs_link_fits *fits, struct cs_testbed *bed)
{
    for (int32_t i = 0; i < fits->n * bed->n_servers; i++) {
        const struct cs_link_fit *f = &fits->items[i / bed->n_servers];
        struct cs_server *server = &bed->servers[i % bed->n_servers];
        bool is_inside = f->place == CS_LINK_INSIDE;
        if (cs_link_fit_fails(f) || !cs__links_alike(f->server, server->name, f->place)) {
            continue;
        }
        if (f->bandwidth_determined_frac > CS_LINK_DETERMINED_FRAC) {
            *(is_inside ? &server->intra_bytes_per_s : &server->nic_bytes_per_s) = f->bytes_per_s;
        }
        if (f->latency_determined_frac > CS_LINK_DETERMINED_FRAC) {
            *(is_inside ? &server->intra_latency_s : &server->nic_latency_s) = f->latency_s;
        }
    }
}
