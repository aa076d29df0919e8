/* Links fitted to measured collectives. */
#include "cs/strategies/collectives.h"

#include "csv_priv.h"

#include "cs/base/units.h"

#include <math.h>
#include <nlopt.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BYTES 1048576.0
#define PLATEAU_BYTES                                                                                        \
    1073741824.0          /* a row whose size is "plateau" was measured where size changes nothing           \
                           */
#define RESIDUAL_LOG 0.05 /* larger residuals count linearly */
#define PRIOR_LOG 0.5     /* width of what the figures are drawn to */
#define RATIO_MAX 4.0     /* between which multiples of the catalogue's figures the fit looks */
#define EVALUATIONS 2000
#define GROUPS_MAX 32

/** One measured collective of a server, and what the closed form says with the catalogue's figures. */
struct row {
    const struct cs_server *server;
    const char *group; /* its source and the kind of collective */
    double measured_s;
    double fixed_s; /* the collective's own cost */
    double latency_s;
    double transfer_s;
};

struct fit {
    const struct row *rows;
    int32_t n_rows;
    const struct cs_server *server;
    const char *without; /* group that is held out, NULL = none */
};

/* Which server stands for which measured machine; the texts begin as the machine's name in the file does. */
static const struct cs_server *server_of(const struct cs_testbed *bed, const char *hardware)
{
    static const char *const map[][2] = {
        {"A100 SXM4 (NVLink3)", "dgx-a100"},
        {"DGX A100-40GB", "dgx-a100-40"},
        {"A800 SXM4", "dgx-a800"},
        {"H200 SXM", "dgx-h200"},
        {"B200 SXM", "dgx-b200"},
        {"Ascend 910B", "atlas-800t-a2"},
    };
    for (int32_t i = 0; i < CS_COUNT(map); i++) {
        if (strncmp(hardware, map[i][0], strlen(map[i][0])) == 0) {
            return cs_testbed_server(bed, map[i][1]);
        }
    }
    return cs_testbed_server(bed, hardware);
}

static int32_t kind_of(const char *text)
{
    static const struct {
        const char *text;
        enum cs_coll coll;
    } kinds[] = {{"all_reduce", CS_COLL_ALL_REDUCE},
                 {"all_gather", CS_COLL_ALL_GATHER},
                 {"reduce_scatter", CS_COLL_REDUCE_SCATTER},
                 {"all_to_all", CS_COLL_ALL_TO_ALL}};
    for (int32_t i = 0; i < CS_COUNT(kinds); i++) {
        if (strcmp(text, kinds[i].text) == 0) {
            return (int32_t)kinds[i].coll;
        }
    }
    return -1;
}

/* ---- rows -------------------------------------------------------------------------------------------------
 */

/* The closed form's latencies and transfers among the first n devices of a node. */
static cs_status predict(struct row *row, struct cs_site *site, enum cs_coll coll, double bytes, int32_t n,
                         struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_coll_plan plan = {0};
    int32_t *members = CS_ARENA_NEW(&arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) {
        members[i] = i;
    }
    cs_coll_plan_build(coll, CS_ALGO_AUTO, &site->platform, members, n, bytes, &arena, &plan);
    for (int32_t p = 0; p < plan.n_phases; p++) {
        const struct cs_coll_phase *phase = &plan.phases[p];
        double longest_s = 0;
        for (int32_t f = 0; f < phase->n_flows; f++) {
            int32_t pair[2] = {members[phase->flows[f].src], members[phase->flows[f].dst]};
            CS_TRY(cs_routes_need(site->routes, pair, 1, err));
            longest_s = fmax(longest_s, cs_routes_get(site->routes, pair[0], pair[1]).latency_s);
        }
        row->latency_s += longest_s * phase->n_rounds;
    }
    row->fixed_s = site->chip.collective_overhead_s;
    row->transfer_s = fmax(cs_coll_closed_form_s(&plan, site->routes, members) - row->latency_s, 0);
out:
    cs_arena_release(&arena);
    return st;
}

static cs_status number(const struct cs__csv *csv, int32_t row, const char *column, double *value,
                        struct cs_err *err)
{
    const char *text = cs__csv_text(csv, row, column);
    struct cs_loc loc = {csv->path, csv->rows[row].line, 0};
    *value = NAN;
    return *text ? cs_real_parse(text, column, loc, value, err) : CS_OK;
}

/* A row of the file; row->server stays NULL when it cannot be used. */
static cs_status read_row(struct row *row, struct cs__csv *csv, int32_t index, const struct cs_testbed *bed,
                          const char *simgrid_cfg, struct cs_err *err)
{
    static const struct cs_software plain = {
        .figure = {[CS_SOFTWARE_KERNEL_TIME] = 1,
                   [CS_SOFTWARE_POINTWISE_TRAFFIC] = 1,
                   [CS_SOFTWARE_ATTENTION_TIME] = 1,
                   [CS_SOFTWARE_HOST_LAUNCH] = 1,
                   [CS_SOFTWARE_COLLECTIVE_TIME] = 1},
    };
    cs_status st = CS_OK;
    struct cs_site *site = NULL;
    double bytes = PLATEAU_BYTES;
    double bus = NAN;
    double n_devices = NAN;
    double n_nodes = NAN;
    const struct cs_server *server = server_of(bed, cs__csv_text(csv, index, "hardware"));
    int32_t kind = kind_of(cs__csv_text(csv, index, "collective"));
    if (strcmp(cs__csv_text(csv, index, "bytes"), "plateau") != 0 && *cs__csv_text(csv, index, "bytes")) {
        CS_TRY(number(csv, index, "bytes", &bytes, err));
    }
    CS_TRY(number(csv, index, "n_devices", &n_devices, err));
    CS_TRY(number(csv, index, "n_nodes", &n_nodes, err));
    CS_TRY(number(csv, index, "busbw_GBps", &bus, err));
    if (!server || kind < 0 || !(bus > 0) || !(bytes >= LEAST_BYTES) || !(n_nodes <= 1) ||
        !(n_devices >= 2) || n_devices > server->devices) {
        goto out;
    }
    site = cs_calloc(1, sizeof *site);
    CS_TRY(cs_site_init(site, bed, server, &plain, 1, (int32_t)server->devices, simgrid_cfg, err));
    CS_TRY(predict(row, site, (enum cs_coll)kind, bytes, (int32_t)n_devices, err));
    /* What a second's bus bandwidth is, inverted: the measured time. */
    row->measured_s =
        cs_coll_bus_bytes_per_s((enum cs_coll)kind, bytes, (int32_t)n_devices, 1.0) / (bus * 1e9);
    row->group = cs_arena_printf(&csv->arena, "%s / %s", cs__csv_text(csv, index, "source"),
                                 cs__csv_text(csv, index, "collective"));
    row->server = server;
out:
    if (site) {
        cs_site_release(site);
        cs_free(site);
    }
    return st;
}

/* ---- fit --------------------------------------------------------------------------------------------------
 */

/* z: logarithms of the bandwidth and of the latency over the catalogue's. */
static double time_s(const struct row *row, const double *z)
{
    return row->fixed_s + row->latency_s * exp(z[1]) + row->transfer_s / exp(z[0]);
}

static double objective(unsigned n, const double *z, double *gradient, void *context)
{
    const struct fit *fit = context;
    double sum = 0;
    (void)gradient; /* LN_SBPLX asks for none */
    for (unsigned i = 0; i < n; i++) {
        sum += z[i] * z[i] / (PRIOR_LOG * PRIOR_LOG);
    }
    for (int32_t i = 0; i < fit->n_rows; i++) {
        const struct row *row = &fit->rows[i];
        bool used = row->server == fit->server && !(fit->without && strcmp(row->group, fit->without) == 0);
        double a = used ? fabs(log(time_s(row, z) / row->measured_s)) / RESIDUAL_LOG : 0;
        sum += a <= 1 ? a * a : 2 * a - 1;
    }
    return sum;
}

static cs_status minimise(struct fit *fit, double *z, struct cs_err *err)
{
    cs_status st = CS_OK;
    double least = 0;
    nlopt_opt opt = nlopt_create(NLOPT_LN_SBPLX, 2);
    z[0] = z[1] = 0;
    (void)nlopt_set_lower_bounds1(opt, -log(RATIO_MAX));
    (void)nlopt_set_upper_bounds1(opt, log(RATIO_MAX));
    (void)nlopt_set_min_objective(opt, objective, fit);
    (void)nlopt_set_maxeval(opt, EVALUATIONS);
    (void)nlopt_set_xtol_rel(opt, 1e-6);
    nlopt_result result = nlopt_optimize(opt, z, &least);
    if (result < 0 && result != NLOPT_ROUNDOFF_LIMITED) {
        st = cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the optimiser failed (%d)", (int)result);
    }
    nlopt_destroy(opt);
    return st;
}

/* Sum of the errors of a group's rows, or of all (NULL). */
static double error_sum(const struct fit *fit, const double *z, const char *group)
{
    double sum = 0;
    for (int32_t i = 0; i < fit->n_rows; i++) {
        const struct row *row = &fit->rows[i];
        if (row->server == fit->server && !(group && strcmp(row->group, group) != 0)) {
            sum += fabs(time_s(row, z) / row->measured_s - 1);
        }
    }
    return sum;
}

static cs_status fit_server(struct cs_link_fit *out, const struct row *rows, int32_t n_rows,
                            const struct cs_server *server, struct cs_err *err)
{
    cs_status st = CS_OK;
    const double catalogue[2] = {0, 0};
    const char *groups[GROUPS_MAX];
    double z[2];
    double held_out = 0;
    struct fit fit = {.rows = rows, .n_rows = n_rows, .server = server};
    *out = (struct cs_link_fit){.server = server->name, .held_out_frac = NAN};
    for (int32_t i = 0; i < n_rows; i++) {
        bool known = rows[i].server != server || out->n_groups == GROUPS_MAX;
        out->n_rows += rows[i].server == server;
        for (int32_t s = 0; s < out->n_groups && !known; s++) {
            known = strcmp(groups[s], rows[i].group) == 0;
        }
        if (!known) {
            groups[out->n_groups++] = rows[i].group;
        }
    }
    CS_TRY(minimise(&fit, z, err));
    out->catalogue_bytes_per_s = server->intra_bytes_per_s;
    out->catalogue_latency_s = server->intra_latency_s;
    out->bytes_per_s = server->intra_bytes_per_s * exp(z[0]);
    out->latency_s = server->intra_latency_s * exp(z[1]);
    out->catalogue_error_frac = error_sum(&fit, catalogue, NULL) / out->n_rows;
    out->error_frac = error_sum(&fit, z, NULL) / out->n_rows;
    for (int32_t s = 0; s < out->n_groups && out->n_groups > 1; s++) {
        fit.without = groups[s];
        CS_TRY(minimise(&fit, z, err));
        held_out += error_sum(&fit, z, groups[s]);
        out->held_out_frac = held_out / out->n_rows;
    }
out:
    return st;
}

cs_status cs_collectives_fit(struct cs_link_fits *fits, const char *path, const struct cs_testbed *bed,
                             const char *simgrid_cfg, struct cs_err *err)
{
    static const char *const needed[] = {"hardware", "n_devices",  "n_nodes", "collective",
                                         "bytes",    "busbw_GBps", "source"};
    cs_status st = CS_OK;
    struct cs__csv csv = {0};
    struct row *rows = NULL;
    *fits = (struct cs_link_fits){0};
    CS_TRY(cs__csv_load(&csv, path, err));
    for (int32_t i = 0; i < CS_COUNT(needed); i++) {
        if (cs__csv_column(&csv, needed[i]) < 0) {
            st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, 1, 0}, "there is no column '%s'",
                            needed[i]);
            goto out;
        }
    }
    rows = cs_calloc((size_t)csv.n_rows + 1, sizeof *rows);
    fits->n_rows = csv.n_rows;
    for (int32_t i = 0; i < csv.n_rows; i++) {
        CS_TRY(read_row(&rows[i], &csv, i, bed, simgrid_cfg, err));
        fits->n_foreign += rows[i].server == NULL;
    }
    for (int32_t s = 0; s < bed->n_servers && fits->n < CS_LINK_FITS_MAX; s++) {
        bool measured = false;
        for (int32_t i = 0; i < csv.n_rows; i++) {
            measured |= rows[i].server == &bed->servers[s];
        }
        if (measured) {
            CS_TRY(fit_server(&fits->items[fits->n++], rows, csv.n_rows, &bed->servers[s], err));
        }
    }
out:
    cs_free(rows);
    cs__csv_release(&csv);
    return st;
}
