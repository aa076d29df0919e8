/* Fit figures to published runs. */
#include "cs/strategies/calibrate.h"

#include "calibrate_priv.h"
#include "linear_priv.h"

#include <math.h>
#include <nlopt.h>
#include <stdio.h>
#include <string.h>

#define HUBER_LOG 0.05        /* residuals above 5 % count linearly */
#define ROWS_FULL_WEIGHT 50.0 /* a source with more rows weighs as this many */
#define PRIOR_SCALE_LOG 1.0

struct variable {
    const struct cs__fit_rule *rule;
    double *values[8]; /* that it sets: figures of chips, or one of a software */
    int32_t n_values;
    int32_t figure; /* in the calibration's list */
};

struct fit {
    const struct cs_cases *cases;
    struct cs_testbed *bed;
    struct cs_softwares *softwares;
    const struct cs_calibrate_options *options;
    struct cs__linear *linear; /* one a case */
    double *weight;            /* one a case, 0 = not in this fit */
    struct variable variables[CS_FIT_FIGURES_MAX];
    int32_t n_variables;
    int32_t *used; /* cases in this fit */
    int32_t n_used;
    double *scratch; /* n_variables */
};

/* ---- variables --------------------------------------------------------------------------------------------
 */

static double to_unit(const struct cs__fit_rule *rule, double value)
{
    double z = (value - rule->min) / (rule->max - rule->min);
    return z < 0 ? 0 : z > 1 ? 1 : z;
}

static double from_unit(const struct cs__fit_rule *rule, double z)
{
    return rule->min + z * (rule->max - rule->min);
}

static void set_all(const struct fit *fit, const double *z)
{
    for (int32_t i = 0; i < fit->n_variables; i++) {
        const struct variable *v = &fit->variables[i];
        for (int32_t k = 0; k < v->n_values; k++) {
            *v->values[k] = from_unit(v->rule, z[i]);
        }
    }
}

static double *chip_value(struct cs_chip *chip, const char *key)
{
    /* A chip is doubles by key: find the field that cs_chip_set_figure would write. */
    return cs_chip_figure_place(chip, cs_chip_figure_index(key));
}

static void add_chip_variables(struct fit *fit, const struct cs__generation *g)
{
    for (int32_t r = 0; r < g->n_rules; r++) {
        struct variable *v = &fit->variables[fit->n_variables++];
        *v = (struct variable){.rule = &g->rules[r]};
        for (int32_t c = 0; g->chips[c]; c++) {
            struct cs_chip *chip = cs_testbed_chip(fit->bed, g->chips[c]);
            if (!chip) {
                continue;
            }
            v->values[v->n_values++] = chip_value(chip, v->rule->key);
            if (v->rule->tied[0] && v->n_values < CS_COUNT(v->values)) {
                v->values[v->n_values++] = chip_value(chip, v->rule->tied[0]);
            }
        }
    }
}

static void add_software_variables(struct fit *fit, struct cs_software *software)
{
    for (int32_t f = 0; f < CS_N_SOFTWARE_FIGURES; f++) {
        struct variable *v = &fit->variables[fit->n_variables++];
        *v = (struct variable){.rule = &cs__software_rules[f], .n_values = 1};
        v->values[0] = &software->figure[f];
    }
}

/* ---- objective --------------------------------------------------------------------------------------------
 */

static double huber(double x)
{
    double a = fabs(x);
    return a <= HUBER_LOG ? x * x : 2 * HUBER_LOG * a - HUBER_LOG * HUBER_LOG;
}

static double predict_s(const struct fit *fit, int32_t index)
{
    const struct cs_case *c = &fit->cases->items[index];
    const struct cs_server *server = cs_testbed_server(fit->bed, c->server);
    return cs__linear_time_s(&fit->linear[index], cs_testbed_chip(fit->bed, server->chip), c->software);
}

static double objective(unsigned n, const double *z, double *gradient, void *context)
{
    struct fit *fit = context;
    double sum = 0;
    (void)gradient;
    set_all(fit, z);
    for (int32_t i = 0; i < fit->n_used; i++) {
        int32_t index = fit->used[i];
        double predicted_s = predict_s(fit, index);
        sum += fit->weight[index] * huber(log(predicted_s / fit->cases->items[index].measured_s));
    }
    for (unsigned i = 0; i < n; i++) {
        const struct cs__fit_rule *rule = fit->variables[i].rule;
        double value = from_unit(rule, z[i]);
        double off =
            rule->min > 0 ? log(value / rule->prior) : (value - rule->prior) / (rule->max - rule->min);
        sum += rule->prior_weight * rule->prior_weight * off * off;
    }
    return sum;
}

static cs_status minimise(struct fit *fit, double *z, int32_t n_evaluations, struct cs_err *err)
{
    cs_status st = CS_OK;
    unsigned n = (unsigned)fit->n_variables;
    double least = 0;
    nlopt_opt opt = nlopt_create(NLOPT_LN_SBPLX, n);
    if (!opt) {
        st = cs_err_set(err, CS_E_LIMIT, CS_NOLOC, "the optimiser refuses %u variables", n);
        goto out;
    }
    (void)nlopt_set_lower_bounds1(opt, 0);
    (void)nlopt_set_upper_bounds1(opt, 1);
    (void)nlopt_set_min_objective(opt, objective, fit);
    (void)nlopt_set_maxeval(opt, n_evaluations);
    (void)nlopt_set_ftol_rel(opt, 1e-7);
    (void)nlopt_set_initial_step1(opt, 0.05);
    nlopt_result result = nlopt_optimize(opt, z, &least);
    if (result < 0 && result != NLOPT_ROUNDOFF_LIMITED) {
        st = cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the optimiser failed (%d)", (int)result);
    }
    set_all(fit, z);
out:
    nlopt_destroy(opt);
    return st;
}

/* ---- which cases ------------------------------------------------------------------------------------------
 */

static bool in_generation(const struct fit *fit, const struct cs_case *c, const struct cs__generation *g)
{
    const struct cs_server *server = cs_testbed_server(fit->bed, c->server);
    for (int32_t i = 0; server && g->chips[i]; i++) {
        if (strcmp(server->chip, g->chips[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Cases of a generation that ran, without a group (NULL = with all); their weights. */
static void choose_cases(struct fit *fit, const struct cs__generation *g, const char *without)
{
    fit->n_used = 0;
    for (int32_t i = 0; i < fit->cases->n; i++) {
        const struct cs_case *c = &fit->cases->items[i];
        bool in =
            fit->linear[i].usable && in_generation(fit, c, g) && !(without && strcmp(c->group, without) == 0);
        if (in) {
            fit->used[fit->n_used++] = i;
        }
    }
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

/* Software that the chosen cases ran and that no earlier generation fitted. */
static void choose_variables(struct fit *fit, const struct cs__generation *g, const bool *software_done)
{
    fit->n_variables = 0;
    add_chip_variables(fit, g);
    for (int32_t s = 0; s < fit->softwares->n; s++) {
        struct cs_software *software = &fit->softwares->items[s];
        bool ran = false;
        for (int32_t i = 0; i < fit->n_used; i++) {
            const struct cs_case *c = &fit->cases->items[fit->used[i]];
            ran |= c->software == software;
        }
        if (ran && !software_done[s]) {
            add_software_variables(fit, software);
        }
    }
}

/* ---- one generation ---------------------------------------------------------------------------------------
 */

static void say(const struct fit *fit, const char *line)
{
    if (fit->options->say) {
        fit->options->say(fit->options->say_context, line);
    }
}

static cs_status simulate(struct fit *fit, const struct cs__generation *g, struct cs_case_run *runs,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    bool *wanted = cs_calloc((size_t)fit->cases->n + 1, sizeof *wanted);
    struct cs_validate_options options = fit->options->validate;
    for (int32_t i = 0; i < fit->cases->n; i++) {
        const struct cs_case *c = &fit->cases->items[i];
        wanted[i] = c->kind == CS_CASE_TIME && fit->linear[i].n_ops > 0 && in_generation(fit, c, g);
    }
    options.wanted = wanted;
    CS_TRY(cs_validate_run(fit->cases, fit->bed, &options, runs, err));
    for (int32_t i = 0; i < fit->cases->n; i++) {
        if (wanted[i]) {
            const struct cs_case *c = &fit->cases->items[i];
            const struct cs_server *server = cs_testbed_server(fit->bed, c->server);
            cs__linear_anchor(&fit->linear[i], &runs[i], cs_testbed_chip(fit->bed, server->chip),
                              c->software);
        }
    }
out:
    cs_free(wanted);
    return st;
}

static void start_values(struct fit *fit, double *z)
{
    for (int32_t i = 0; i < fit->n_variables; i++) {
        z[i] = to_unit(fit->variables[i].rule, fit->variables[i].rule->prior);
    }
    set_all(fit, z);
}

/* One standard error of each figure, from the curvature of the objective along it and the size of residuals.
 */
static void find_uncertainty(struct fit *fit, const double *z, struct cs_calibration *calibration)
{
    double *at = fit->scratch;
    double least = objective((unsigned)fit->n_variables, z, NULL, fit);
    double variance = least / (fit->n_used > 1 ? fit->n_used : 1);
    memcpy(at, z, (size_t)fit->n_variables * sizeof *at);
    for (int32_t i = 0; i < fit->n_variables; i++) {
        const struct cs__fit_rule *rule = fit->variables[i].rule;
        double value = from_unit(rule, z[i]);
        double step = 0.05 * fmax(fabs(value), 0.02 * (rule->max - rule->min)) / (rule->max - rule->min);
        double rise = 0;
        int32_t sides = 0;
        for (int32_t side = -1; side <= 1; side += 2) {
            at[i] = z[i] + side * step;
            if (at[i] >= 0 && at[i] <= 1) {
                rise += objective((unsigned)fit->n_variables, at, NULL, fit) - least;
                sides++;
            }
            at[i] = z[i];
        }
        struct cs_fit_figure *figure = &calibration->figures[fit->variables[i].figure];
        double curvature = sides ? 2 * rise / sides / (step * step) : 0;
        double error = curvature > 0 ? sqrt(2 * variance / curvature) * (rule->max - rule->min) : HUGE_VAL;
        figure->value = value;
        figure->uncertainty_frac = value > 0 ? error / value : HUGE_VAL;
        figure->n_cases = fit->n_used;
    }
    set_all(fit, z);
}

static void list_figures(struct fit *fit, const struct cs__generation *g, struct cs_calibration *calibration)
{
    for (int32_t i = 0; i < fit->n_variables; i++) {
        struct variable *v = &fit->variables[i];
        CS_ASSERT(calibration->n_figures < CS_FIT_FIGURES_MAX);
        v->figure = calibration->n_figures;
        struct cs_fit_figure *figure = &calibration->figures[calibration->n_figures++];
        *figure = (struct cs_fit_figure){.start = v->rule->prior};
        (void)snprintf(figure->key, sizeof figure->key, "%s", v->rule->key);
        (void)snprintf(figure->owner, sizeof figure->owner, "%s", g->chips[0]);
        for (int32_t s = 0; s < fit->softwares->n; s++) {
            const struct cs_software *software = &fit->softwares->items[s];
            if (v->values[0] >= software->figure && v->values[0] < software->figure + CS_N_SOFTWARE_FIGURES) {
                figure->of_software = true;
                (void)snprintf(figure->owner, sizeof figure->owner, "%s", software->name);
            }
        }
    }
}

/* Predict each group with figures fitted without it; afterwards the figures are those of z again. */
static cs_status cross_validate(struct fit *fit, const struct cs__generation *g, const double *z,
                                struct cs_calibration *calibration, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t n_all = fit->n_used;
    int32_t *all = cs_calloc((size_t)n_all + 1, sizeof *all);
    double *start = cs_calloc((size_t)fit->n_variables + 1, sizeof *start);
    memcpy(all, fit->used, (size_t)n_all * sizeof *all);
    for (int32_t i = 0; i < n_all; i++) {
        const char *group = fit->cases->items[all[i]].group;
        char line[200];
        if (calibration->predictions[all[i]].predicted) {
            continue;
        }
        choose_cases(fit, g, group);
        for (int32_t v = 0; v < fit->n_variables; v++) {
            start[v] = to_unit(fit->variables[v].rule, fit->variables[v].rule->prior);
        }
        (void)z;
        (void)snprintf(line, sizeof line, "without %s: %d cases", group, (int)fit->n_used);
        say(fit, line);
        CS_TRY(minimise(fit, start, 250 * fit->n_variables, err));
        calibration->n_groups++;
        for (int32_t k = i; k < n_all; k++) {
            if (strcmp(fit->cases->items[all[k]].group, group) == 0) {
                calibration->predictions[all[k]].predicted = true;
                calibration->predictions[all[k]].held_out_s = predict_s(fit, all[k]);
            }
        }
    }
out:
    choose_cases(fit, g, NULL);
    set_all(fit, z);
    cs_free(all);
    cs_free(start);
    return st;
}

static cs_status fit_generation(struct fit *fit, const struct cs__generation *g, bool *software_done,
                                struct cs_calibration *calibration, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_case_run *runs = cs_calloc((size_t)fit->cases->n + 1, sizeof *runs);
    double z[CS_FIT_FIGURES_MAX];
    int32_t n_rounds = fit->options->n_rounds > 0 ? fit->options->n_rounds : 3;
    char line[160];
    for (int32_t round = 0; round < n_rounds; round++) {
        if (round == 0) {
            CS_TRY(simulate(fit, g, runs, err));
            choose_cases(fit, g, NULL);
            if (fit->n_used == 0) {
                goto out;
            }
            choose_variables(fit, g, software_done);
            start_values(fit, z);
        }
        CS_TRY(simulate(fit, g, runs, err));
        choose_cases(fit, g, NULL);
        CS_TRY(minimise(fit, z, 400 * fit->n_variables, err));
        (void)snprintf(line, sizeof line, "%s, round %d: %d cases, %d figures, objective %.6f", g->chips[0],
                       (int)round + 1, (int)fit->n_used, (int)fit->n_variables,
                       objective((unsigned)fit->n_variables, z, NULL, fit));
        say(fit, line);
    }
    list_figures(fit, g, calibration);
    CS_TRY(simulate(fit, g, runs, err));
    choose_cases(fit, g, NULL);
    find_uncertainty(fit, z, calibration);
    calibration->n_cases += fit->n_used;
    for (int32_t i = 0; i < fit->n_used; i++) {
        calibration->predictions[fit->used[i]].fitted_s = runs[fit->used[i]].simulated_s;
    }
    if (fit->options->cross_validate) {
        CS_TRY(cross_validate(fit, g, z, calibration, err));
    }
    for (int32_t s = 0; s < fit->softwares->n; s++) {
        for (int32_t i = 0; i < fit->n_used; i++) {
            software_done[s] |= fit->cases->items[fit->used[i]].software == &fit->softwares->items[s];
        }
    }
out:
    cs_free(runs);
    return st;
}

/* ---- all --------------------------------------------------------------------------------------------------
 */

static cs_status collect(struct fit *fit, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__sites sites = {0};
    const char *cfg = fit->options->validate.simgrid_cfg;
    /* Link work is counted without the software's ratios. */
    double kept[CS_FIT_FIGURES_MAX];
    CS_ASSERT(fit->softwares->n <= CS_FIT_FIGURES_MAX);
    for (int32_t s = 0; s < fit->softwares->n; s++) {
        kept[s] = fit->softwares->items[s].figure[CS_SOFTWARE_COLLECTIVE_TIME];
        fit->softwares->items[s].figure[CS_SOFTWARE_COLLECTIVE_TIME] = 1;
    }
    CS_TRY(cs__sites_init(&sites, fit->cases, NULL, fit->bed, cfg, err));
    for (int32_t i = 0; i < fit->cases->n; i++) {
        if (sites.of_case[i] >= 0 && fit->cases->items[i].kind == CS_CASE_TIME) {
            CS_TRY(
                cs__linear_init(&fit->linear[i], &fit->cases->items[i], &sites.items[sites.of_case[i]], err));
        }
    }
out:
    for (int32_t s = 0; s < fit->softwares->n; s++) {
        fit->softwares->items[s].figure[CS_SOFTWARE_COLLECTIVE_TIME] = kept[s];
    }
    cs__sites_release(&sites);
    return st;
}

cs_status cs_calibrate(const struct cs_cases *cases, struct cs_testbed *bed, struct cs_softwares *softwares,
                       const struct cs_calibrate_options *options, struct cs_calibration *calibration,
                       struct cs_err *err)
{
    cs_status st = CS_OK;
    struct fit fit = {.cases = cases, .bed = bed, .softwares = softwares, .options = options};
    bool *software_done = cs_calloc((size_t)softwares->n + 1, sizeof *software_done);
    *calibration = (struct cs_calibration){0};
    calibration->predictions = cs_calloc((size_t)cases->n + 1, sizeof *calibration->predictions);
    fit.linear = cs_calloc((size_t)cases->n + 1, sizeof *fit.linear);
    fit.weight = cs_calloc((size_t)cases->n + 1, sizeof *fit.weight);
    fit.used = cs_calloc((size_t)cases->n + 1, sizeof *fit.used);
    fit.scratch = cs_calloc(CS_FIT_FIGURES_MAX, sizeof *fit.scratch);
    CS_TRY(collect(&fit, err));
    for (int32_t g = 0; g < cs__n_generations; g++) {
        CS_TRY(fit_generation(&fit, &cs__generations[g], software_done, calibration, err));
    }
out:
    for (int32_t i = 0; i < cases->n; i++) {
        cs__linear_release(&fit.linear[i]);
    }
    cs_free(fit.linear);
    cs_free(fit.weight);
    cs_free(fit.used);
    cs_free(fit.scratch);
    cs_free(software_done);
    return st;
}

void cs_calibration_release(struct cs_calibration *calibration)
{
    cs_free(calibration->predictions);
    *calibration = (struct cs_calibration){0};
}
