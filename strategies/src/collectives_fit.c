/* Bandwidth and latency of links by maximum likelihood, with a robust loss. */
#include "collectives_priv.h"

#include <math.h>
#include <nlopt.h>
#include <string.h>

#define RESIDUAL_LOG 0.05 /* larger residuals count linearly */
#define PRIOR_LOG 0.5     /* width of the prior that says what is determined */
#define EVALUATIONS 2000
#define GROUPS_MAX 64

/* Between which figures the fit looks: no link is faster than light crosses a node, none is slower than the
 * slowest network of a training cluster. */
#define LATENCY_MIN_S 50e-9
#define LATENCY_MAX_S 1e-3
#define BANDWIDTH_MIN_BYTES_PER_S 1e8
#define BANDWIDTH_MAX_BYTES_PER_S 1e13

enum { BANDWIDTH, LATENCY, N_FIGURES };

struct fit {
    const struct cs__link_row *rows;
    int32_t n_rows;
    const char *server;
    enum cs_link_place place;
    bool by_size;         /* groups are decades of sizes */
    const char *without;  /* group that is held out, NULL = none */
    bool free[N_FIGURES]; /* which figures are fitted; the others are the catalogue's */
    double prior_log;     /* width of the prior about the catalogue's figures; 0 = there is none */
};

static const char *group_of(const struct fit *fit, const struct cs__link_row *row)
{
    return fit->by_size ? row->decade : row->group;
}

static bool is_of(const struct fit *fit, const struct cs__link_row *row)
{
    return row->server && row->place == fit->place &&
           cs__links_alike(fit->server, row->server->name, fit->place);
}

/* z: logarithms of the bandwidth and of the latency over the catalogue's. */
static double time_s(const struct cs__link_row *row, enum cs_link_place place, const double *z)
{
    double sum_s = row->fixed_s;
    for (int32_t p = 0; p < CS_N_LINK_PLACES; p++) {
        bool turns = p == (int32_t)place;
        sum_s += row->latency_s[p] * (turns ? exp(z[LATENCY]) : 1) +
                 row->transfer_s[p] / (turns ? exp(z[BANDWIDTH]) : 1);
    }
    return sum_s;
}

static double objective(unsigned n, const double *z, double *gradient, void *context)
{
    const struct fit *fit = context;
    double sum = 0;
    (void)gradient; /* LN_SBPLX asks for none */
    for (unsigned i = 0; i < n && fit->prior_log > 0; i++) {
        sum += z[i] * z[i] / (fit->prior_log * fit->prior_log);
    }
    for (int32_t i = 0; i < fit->n_rows; i++) {
        const struct cs__link_row *row = &fit->rows[i];
        bool used = is_of(fit, row) && !(fit->without && strcmp(group_of(fit, row), fit->without) == 0);
        double a = used ? fabs(log(time_s(row, fit->place, z) / row->measured_s)) / RESIDUAL_LOG : 0;
        sum += a <= 1 ? a * a : 2 * a - 1;
    }
    return sum;
}

static cs_status minimise(struct fit *fit, const struct cs_server *server, double *z, struct cs_err *err)
{
    cs_status st = CS_OK;
    double least = 0;
    bool is_inside = fit->place == CS_LINK_INSIDE;
    double bytes_per_s = is_inside ? server->intra_bytes_per_s : server->nic_bytes_per_s;
    double latency_s = fmax(is_inside ? server->intra_latency_s : server->nic_latency_s, LATENCY_MIN_S);
    double low[N_FIGURES] = {log(BANDWIDTH_MIN_BYTES_PER_S / bytes_per_s), log(LATENCY_MIN_S / latency_s)};
    double fastest = fmin(BANDWIDTH_MAX_BYTES_PER_S, cs__links_port_bytes_per_s(fit->server, fit->place));
    double high[N_FIGURES] = {log(fastest / bytes_per_s), log(LATENCY_MAX_S / latency_s)};
    const double steps[N_FIGURES] = {0.1, 0.1};
    nlopt_opt opt = nlopt_create(NLOPT_LN_SBPLX, N_FIGURES);
    for (int32_t i = 0; i < N_FIGURES; i++) {
        z[i] = 0;
        low[i] = fit->free[i] ? fmin(low[i], 0) : 0;
        high[i] = fit->free[i] ? fmax(high[i], 0) : 0;
    }
    (void)nlopt_set_lower_bounds(opt, low);
    (void)nlopt_set_upper_bounds(opt, high);
    (void)nlopt_set_initial_step(opt, steps);
    (void)nlopt_set_min_objective(opt, objective, fit);
    (void)nlopt_set_maxeval(opt, EVALUATIONS);
    (void)nlopt_set_xtol_abs1(opt, 1e-6);
    nlopt_result result = nlopt_optimize(opt, z, &least);
    if (result < 0 && result != NLOPT_ROUNDOFF_LIMITED) {
        st = cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the optimiser failed (%d)", (int)result);
    }
    nlopt_destroy(opt);
    return st;
}

/* How much of the prior's variance the rows take away from each figure at z (Gauss-Newton). */
static void determine(const struct fit *fit, const double *z, double determined_frac[N_FIGURES])
{
    const double prior = 1 / (PRIOR_LOG * PRIOR_LOG);
    double bb = prior;
    double ll = prior;
    double bl = 0;
    for (int32_t i = 0; i < fit->n_rows; i++) {
        const struct cs__link_row *row = &fit->rows[i];
        if (is_of(fit, row) && !(fit->without && strcmp(group_of(fit, row), fit->without) == 0)) {
            double all_s = time_s(row, fit->place, z);
            double a = fmax(1, fabs(log(all_s / row->measured_s)) / RESIDUAL_LOG);
            double b = -row->transfer_s[fit->place] / exp(z[BANDWIDTH]) / all_s / RESIDUAL_LOG;
            double l = row->latency_s[fit->place] * exp(z[LATENCY]) / all_s / RESIDUAL_LOG;
            bb += b * b / a;
            ll += l * l / a;
            bl += b * l / a;
        }
    }
    double determinant = bb * ll - bl * bl;
    determined_frac[BANDWIDTH] = 1 - ll / determinant * prior;
    determined_frac[LATENCY] = 1 - bb / determinant * prior;
}

/* Which figures the rows determine, then these by the rows alone. */
static cs_status fit_figures(struct fit *fit, const struct cs_server *server, double *z,
                             double determined_frac[N_FIGURES], struct cs_err *err)
{
    cs_status st = CS_OK;
    fit->free[BANDWIDTH] = fit->free[LATENCY] = true;
    fit->prior_log = PRIOR_LOG;
    CS_TRY(minimise(fit, server, z, err));
    determine(fit, z, determined_frac);
    for (int32_t i = 0; i < N_FIGURES; i++) {
        fit->free[i] = determined_frac[i] > CS_LINK_DETERMINED_FRAC;
    }
    fit->prior_log = 0;
    CS_TRY(minimise(fit, server, z, err));
out:
    return st;
}

/* Sum of the errors of a group's rows, or of all (NULL). */
static double error_sum(const struct fit *fit, const double *z, const char *group)
{
    double sum = 0;
    for (int32_t i = 0; i < fit->n_rows; i++) {
        const struct cs__link_row *row = &fit->rows[i];
        if (is_of(fit, row) && !(group && strcmp(group_of(fit, row), group) != 0)) {
            sum += fabs(time_s(row, fit->place, z) / row->measured_s - 1);
        }
    }
    return sum;
}

static int32_t list_groups(const struct fit *fit, const char *groups[GROUPS_MAX])
{
    int32_t n = 0;
    for (int32_t i = 0; i < fit->n_rows; i++) {
        bool known = !is_of(fit, &fit->rows[i]) || n == GROUPS_MAX;
        for (int32_t g = 0; g < n && !known; g++) {
            known = strcmp(groups[g], group_of(fit, &fit->rows[i])) == 0;
        }
        if (!known) {
            groups[n++] = group_of(fit, &fit->rows[i]);
        }
    }
    return n;
}

cs_status cs__links_fit(struct cs_link_fit *out, const struct cs__link_row *rows, int32_t n_rows,
                        const struct cs_server *server, enum cs_link_place place, struct cs_err *err)
{
    cs_status st = CS_OK;
    const double catalogue[N_FIGURES] = {0, 0};
    const char *groups[GROUPS_MAX];
    double z[N_FIGURES];
    double determined_frac[N_FIGURES];
    double held_out = 0;
    struct fit fit = {.rows = rows, .n_rows = n_rows, .server = server->name, .place = place};
    bool is_inside = place == CS_LINK_INSIDE;
    *out = (struct cs_link_fit){.server = server->name, .place = place, .held_out_frac = (double)NAN};
    for (int32_t i = 0; i < n_rows; i++) {
        out->n_rows += is_of(&fit, &rows[i]);
    }
    out->n_groups = list_groups(&fit, groups);
    if (out->n_groups == 1) {
        out->by_size = fit.by_size = true;
        out->n_groups = list_groups(&fit, groups);
    }
    CS_TRY(fit_figures(&fit, server, z, determined_frac, err));
    out->catalogue_bytes_per_s = is_inside ? server->intra_bytes_per_s : server->nic_bytes_per_s;
    out->catalogue_latency_s = is_inside ? server->intra_latency_s : server->nic_latency_s;
    out->bytes_per_s = out->catalogue_bytes_per_s * exp(z[BANDWIDTH]);
    out->latency_s = out->catalogue_latency_s * exp(z[LATENCY]);
    out->bandwidth_determined_frac = determined_frac[BANDWIDTH];
    out->latency_determined_frac = determined_frac[LATENCY];
    out->catalogue_error_frac = error_sum(&fit, catalogue, NULL) / out->n_rows;
    out->error_frac = error_sum(&fit, z, NULL) / out->n_rows;
    for (int32_t g = 0; g < out->n_groups && out->n_groups > 1; g++) {
        fit.without = groups[g];
        CS_TRY(fit_figures(&fit, server, z, determined_frac, err));
        held_out += error_sum(&fit, z, groups[g]);
        out->held_out_frac = held_out / out->n_rows;
    }
out:
    return st;
}
