/* Maximum a posteriori fit of figures to step times, with a robust loss. */
#include "calibrate_priv.h"

#include <lapacke.h>
#include <math.h>
#include <nlopt.h>
#include <string.h>

#define RESIDUAL_LOG 0.05 /* size of residuals that the model is expected to leave; larger count linearly */
/* A source with more rows on one hardware weighs as this many: runs of one program on one machine share what
 * the model gets wrong of it, so that hundreds of them say hardly more of the hardware than some ten do. */
#define ROWS_FULL_WEIGHT 10.0
#define STEP 1e-4 /* of differences, in prior deviations */

/* ---- variables --------------------------------------------------------------------------------------------
 */

static bool logarithmic(const struct cs__fit_rule *rule)
{
    return rule->min > 0;
}

static double to_z(const struct cs__fit_rule *rule, double value)
{
    return logarithmic(rule) ? log(value / rule->prior) / rule->deviation
                             : (value - rule->prior) / rule->deviation;
}

static void set_one(const struct cs__variable *v, double z)
{
    double value = logarithmic(v->rule) ? v->rule->prior * exp(z * v->rule->deviation)
                                        : v->rule->prior + z * v->rule->deviation;
    value = fmin(fmax(value, v->rule->min), v->rule->max);
    for (int32_t k = 0; k < v->n_values; k++) {
        *v->values[k] = value;
    }
}

void cs__fit_set(const struct cs__fit *fit, const double *z)
{
    for (int32_t i = 0; i < fit->n_variables; i++) {
        set_one(&fit->variables[i], z[i]);
    }
}

static bool depends_on(const char *key, int32_t kind)
{
    const char *dot = strchr(key, '.');
    bool matrix = strncmp(key, "matmul_", strlen("matmul_")) == 0;
    return dot      ? strcmp(dot + 1, cs_opkind_names[kind]) == 0
           : matrix ? kind <= CS_OPKIND_GROUPED_MATMUL
                    : true;
}

unsigned cs__fit_kinds(const struct cs__fit_rule *rule)
{
    unsigned kinds = 0;
    for (int32_t k = 0; k < CS_N_OPKINDS; k++) {
        bool depends = depends_on(rule->key, k);
        for (int32_t t = 0; t < CS__TIED_MAX && rule->tied[t]; t++) {
            depends |= depends_on(rule->tied[t], k);
        }
        kinds |= depends ? 1U << k : 0U;
    }
    return kinds;
}

/* ---- which cases ------------------------------------------------------------------------------------------
 */

bool cs__fit_in_generation(const struct cs__fit *fit, const struct cs_case *c, const struct cs__generation *g)
{
    const struct cs_chip *chip = fit->chip[c - fit->cases->items];
    for (int32_t i = 0; chip && g->chips[i]; i++) {
        if (strcmp(chip->name, g->chips[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool cs__fit_has_hardware(const struct cs__fit *fit, const struct cs_case *c)
{
    bool in = false;
    for (int32_t g = 0; g < cs__n_generations; g++) {
        bool counts = !fit->only || fit->only == &cs__generations[g];
        in |= counts && cs__fit_in_generation(fit, c, &cs__generations[g]);
    }
    return in;
}

static void weigh(struct cs__fit *fit)
{
    for (int32_t i = 0; i < fit->n_used; i++) {
        const struct cs_case *c = &fit->cases->items[fit->used[i]];
        double n = 0;
        for (int32_t k = 0; k < fit->n_used; k++) {
            const struct cs_case *other = &fit->cases->items[fit->used[k]];
            n += strcmp(other->source_short, c->source_short) == 0 &&
                 strcmp(other->hardware, c->hardware) == 0;
        }
        fit->weight[fit->used[i]] = n > ROWS_FULL_WEIGHT ? ROWS_FULL_WEIGHT / n : 1;
    }
}

bool cs__fit_predicts(const struct cs__fit *fit, int32_t index)
{
    return fit->linear[index].usable && cs__fit_has_hardware(fit, &fit->cases->items[index]);
}

void cs__fit_choose(struct cs__fit *fit, const bool *left_out)
{
    fit->n_used = 0;
    for (int32_t i = 0; i < fit->cases->n; i++) {
        if (cs__fit_predicts(fit, i) && !(left_out && left_out[i])) {
            fit->used[fit->n_used++] = i;
        }
    }
    weigh(fit);
    for (int32_t v = 0; v < fit->n_variables; v++) {
        struct cs__variable *variable = &fit->variables[v];
        variable->n_touched = 0;
        for (int32_t i = 0; i < fit->n_used; i++) {
            const struct cs_case *c = &fit->cases->items[fit->used[i]];
            bool depends = variable->software ? c->software == variable->software
                                              : cs__fit_in_generation(fit, c, variable->generation);
            if (depends) {
                variable->touched[variable->n_touched++] = fit->used[i];
            }
        }
    }
}

/* ---- objective --------------------------------------------------------------------------------------------
 */

double cs__fit_predict_s(const struct cs__fit *fit, int32_t index)
{
    return cs__linear_time_s(&fit->linear[index], fit->chip[index], fit->cases->items[index].software);
}

static double residual(const struct cs__fit *fit, int32_t index)
{
    return log(cs__fit_predict_s(fit, index) / fit->cases->items[index].measured_s) / RESIDUAL_LOG;
}

/* When only this variable has moved since residual(). */
static double residual_again(const struct cs__fit *fit, int32_t index, const struct cs__variable *variable)
{
    const struct cs_case *c = &fit->cases->items[index];
    double time_s = cs__linear_again_s(&fit->linear[index], fit->chip[index], c->software, variable->kinds);
    return log(time_s / c->measured_s) / RESIDUAL_LOG;
}

/* Huber's loss: x^2 up to 1, then linear. */
static double loss(const struct cs__fit *fit, int32_t index, double residual)
{
    double a = fabs(residual);
    return fit->weight[index] * (a <= 1 ? a * a : 2 * a - 1);
}

/* Twice the negative logarithm of the posterior. */
static double objective(unsigned n, const double *z, double *gradient, void *context)
{
    struct cs__fit *fit = context;
    double sum = 0;
    cs__fit_set(fit, z);
    for (int32_t i = 0; i < fit->n_used; i++) {
        int32_t c = fit->used[i];
        fit->loss[c] = loss(fit, c, residual(fit, c));
        sum += fit->loss[c];
    }
    for (unsigned v = 0; v < n; v++) {
        sum += z[v] * z[v];
    }
    for (unsigned v = 0; gradient && v < n; v++) {
        const struct cs__variable *variable = &fit->variables[v];
        double rise = 0;
        set_one(variable, z[v] + STEP);
        for (int32_t i = 0; i < variable->n_touched; i++) {
            int32_t c = variable->touched[i];
            rise += loss(fit, c, residual_again(fit, c, variable)) - fit->loss[c];
        }
        set_one(variable, z[v]);
        gradient[v] = rise / STEP + 2 * z[v];
    }
    return sum;
}

cs_status cs__fit_minimise(struct cs__fit *fit, double *z, int32_t n_evaluations, double *least,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    unsigned n = (unsigned)fit->n_variables;
    double low[CS_FIT_FIGURES_MAX];
    double high[CS_FIT_FIGURES_MAX];
    nlopt_opt opt = nlopt_create(NLOPT_LD_SLSQP, n);
    if (!opt) {
        st = cs_err_set(err, CS_E_LIMIT, CS_NOLOC, "the optimiser refuses %u variables", n);
        goto out;
    }
    for (unsigned v = 0; v < n; v++) {
        low[v] = to_z(fit->variables[v].rule, fit->variables[v].rule->min);
        high[v] = to_z(fit->variables[v].rule, fit->variables[v].rule->max);
        z[v] = fmin(fmax(z[v], low[v]), high[v]);
    }
    (void)nlopt_set_lower_bounds(opt, low);
    (void)nlopt_set_upper_bounds(opt, high);
    (void)nlopt_set_min_objective(opt, objective, fit);
    (void)nlopt_set_maxeval(opt, n_evaluations);
    (void)nlopt_set_ftol_rel(opt, 1e-6);
    nlopt_result result = nlopt_optimize(opt, z, least);
    if (result < 0 && result != NLOPT_ROUNDOFF_LIMITED) {
        st = cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the optimiser failed (%d)", (int)result);
    }
    cs__fit_set(fit, z);
out:
    nlopt_destroy(opt);
    return st;
}

void cs__fit_deviation(struct cs__fit *fit, const double *z, double *deviation)
{
    int32_t n = fit->n_variables;
    double *slope = cs_calloc((size_t)n * (size_t)fit->cases->n + 1, sizeof *slope);
    double *curvature = cs_calloc((size_t)n * (size_t)n + 1, sizeof *curvature);
    cs__fit_set(fit, z);
    for (int32_t i = 0; i < fit->n_used; i++) {
        fit->loss[fit->used[i]] = residual(fit, fit->used[i]);
    }
    for (int32_t v = 0; v < n; v++) {
        const struct cs__variable *variable = &fit->variables[v];
        set_one(variable, z[v] - STEP); /* downwards: figures at their upper bound move as well */
        for (int32_t i = 0; i < variable->n_touched; i++) {
            int32_t c = variable->touched[i];
            slope[(int64_t)c * n + v] = (fit->loss[c] - residual_again(fit, c, variable)) / STEP;
        }
        set_one(variable, z[v]);
    }
    for (int32_t v = 0; v < n; v++) {
        curvature[(int64_t)v * n + v] = 1;
    }
    for (int32_t i = 0; i < fit->n_used; i++) {
        int32_t c = fit->used[i];
        double weight = fit->weight[c] / fmax(1, fabs(fit->loss[c]));
        const double *row = &slope[(int64_t)c * n];
        for (int32_t a = 0; a < n; a++) {
            for (int32_t b = 0; b <= a && row[a] != 0; b++) {
                curvature[(int64_t)b * n + a] += weight * row[a] * row[b];
            }
        }
    }
    bool ok = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', n, curvature, n) == 0 &&
              LAPACKE_dpotri(LAPACK_COL_MAJOR, 'L', n, curvature, n) == 0;
    for (int32_t v = 0; v < n; v++) {
        deviation[v] = ok ? sqrt(curvature[(int64_t)v * n + v]) : 1;
    }
    cs_free(slope);
    cs_free(curvature);
}
