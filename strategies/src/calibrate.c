/* Fit figures to published runs. */
#include "calibrate_priv.h"

#include "cs/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EVALUATIONS 400      /* of the objective with its gradient */
#define EVALUATIONS_AGAIN 60 /* from an optimum of nearly the same cases */
#define START_SEED 20240917  /* of the places that a fit with several starts begins at */
#define FOLD_SEED 20240918   /* of which cases are left out together */

/** A calibration under way. */
struct work {
    struct cs__fit fit;
    const struct cs_calibrate_options *options;
    struct cs_calibration *out;
    double z[CS_FIT_FIGURES_MAX];
};

static void say(const struct work *work, const char *line)
{
    if (work->options->say) {
        work->options->say(work->options->say_context, line);
    }
}

/* ---- variables --------------------------------------------------------------------------------------------
 */

static struct cs__variable *new_variable(struct cs__fit *fit, const struct cs__fit_rule *rule)
{
    CS_ASSERT(fit->n_variables < CS_FIT_FIGURES_MAX);
    struct cs__variable *v = &fit->variables[fit->n_variables++];
    *v = (struct cs__variable){.rule = rule, .kinds = cs__fit_kinds(rule)};
    v->touched = cs_calloc((size_t)fit->cases->n + 1, sizeof *v->touched);
    return v;
}

static void add_value(struct cs__variable *v, double *value)
{
    CS_ASSERT(v->n_values < CS__VALUES_MAX);
    v->values[v->n_values++] = value;
}

static void add_chip_variables(struct cs__fit *fit, const struct cs__generation *g)
{
    for (int32_t r = 0; r < g->n_rules; r++) {
        struct cs__variable *v = new_variable(fit, &g->rules[r]);
        v->generation = g;
        for (int32_t c = 0; g->chips[c]; c++) {
            struct cs_chip *chip = cs_testbed_chip(fit->bed, g->chips[c]);
            if (!chip) {
                continue;
            }
            add_value(v, cs_chip_figure_place(chip, cs_chip_figure_index(v->rule->key)));
            for (int32_t t = 0; t < CS__TIED_MAX && v->rule->tied[t]; t++) {
                add_value(v, cs_chip_figure_place(chip, cs_chip_figure_index(v->rule->tied[t])));
            }
        }
    }
}

/* Of all chip generations, or of the one asked for, and of every software that ran on all. */
static void choose_variables(struct cs__fit *fit)
{
    for (int32_t g = 0; g < cs__n_generations; g++) {
        bool ran = false;
        for (int32_t i = 0; i < fit->n_used && !(fit->only && fit->only != &cs__generations[g]); i++) {
            ran |= cs__fit_in_generation(fit, &fit->cases->items[fit->used[i]], &cs__generations[g]);
        }
        if (ran) {
            add_chip_variables(fit, &cs__generations[g]);
        }
    }
    for (int32_t s = 0; s < fit->softwares->n && !fit->only; s++) {
        struct cs_software *software = &fit->softwares->items[s];
        bool ran = false;
        for (int32_t i = 0; i < fit->n_used; i++) {
            ran |= fit->cases->items[fit->used[i]].software == software;
        }
        for (int32_t f = 0; ran && f < CS_N_SOFTWARE_FIGURES; f++) {
            struct cs__variable *v = new_variable(fit, &cs__software_rules[f]);
            v->software = software;
            add_value(v, &software->figure[f]);
        }
    }
}

/* ---- rounds -----------------------------------------------------------------------------------------------
 */

/* Simulate with the figures as they are; the fit's paths become those. */
static cs_status simulate(struct work *work, struct cs_case_run *runs, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__fit *fit = &work->fit;
    bool *wanted = cs_calloc((size_t)fit->cases->n + 1, sizeof *wanted);
    struct cs_validate_options options = work->options->validate;
    for (int32_t i = 0; i < fit->cases->n; i++) {
        const struct cs_case *c = &fit->cases->items[i];
        wanted[i] = c->kind == CS_CASE_TIME && fit->linear[i].n_ops > 0 && cs__fit_has_hardware(fit, c);
    }
    options.wanted = wanted;
    CS_TRY(cs_validate_run(fit->cases, fit->bed, &options, runs, err));
    for (int32_t i = 0; i < fit->cases->n; i++) {
        fit->linear[i].usable = wanted[i] && runs[i].ran;
        if (wanted[i]) {
            cs__linear_anchor(&fit->linear[i], &runs[i], fit->chip[i], fit->cases->items[i].software);
        }
    }
    cs__fit_choose(fit, NULL);
out:
    cs_free(wanted);
    return st;
}

static void list_figures(struct work *work)
{
    struct cs__fit *fit = &work->fit;
    double deviation[CS_FIT_FIGURES_MAX];
    cs__fit_deviation(fit, work->z, deviation);
    for (int32_t i = 0; i < fit->n_variables; i++) {
        const struct cs__variable *v = &fit->variables[i];
        struct cs_fit_figure *figure = &work->out->figures[work->out->n_figures++];
        double value = *v->values[0];
        double error = deviation[i] * v->rule->deviation;
        *figure = (struct cs_fit_figure){.start = v->rule->prior,
                                         .value = value,
                                         .of_software = v->software != NULL,
                                         .determined_frac = 1 - deviation[i] * deviation[i],
                                         .n_cases = v->n_touched};
        figure->uncertainty_frac = v->rule->min > 0 ? error : value > 0 ? error / value : (double)HUGE_VAL;
        (void)snprintf(figure->key, sizeof figure->key, "%s", v->rule->key);
        (void)snprintf(figure->owner, sizeof figure->owner, "%s",
                       v->software ? v->software->name : v->generation->chips[0]);
    }
}

/* Fit without some cases and set the figures to that. Starts from the whole fit: it has to move by what these
 * cases said. Figures that only they determined go back to their priors, which is their optimum. */
static cs_status fit_without(struct work *work, const bool *left_out, const char *what, struct cs_err *err)
{
    struct cs__fit *fit = &work->fit;
    double z[CS_FIT_FIGURES_MAX];
    double least = 0;
    char line[200];
    cs__fit_choose(fit, left_out);
    for (int32_t v = 0; v < fit->n_variables; v++) {
        z[v] = fit->variables[v].n_touched > 0 ? work->z[v] : 0;
    }
    (void)snprintf(line, sizeof line, "without %s: %d cases", what, (int)fit->n_used);
    say(work, line);
    return cs__fit_minimise(fit, z, EVALUATIONS_AGAIN, &least, err);
}

/* Predict each group with figures fitted without it. */
static cs_status predict_groups(struct work *work, bool *left_out, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__fit *fit = &work->fit;
    struct cs_fit_prediction *predictions = work->out->predictions;
    for (int32_t i = 0; i < fit->cases->n; i++) {
        const char *group = fit->cases->items[i].group;
        if (!cs__fit_predicts(fit, i) || predictions[i].predicted) {
            continue;
        }
        for (int32_t k = 0; k < fit->cases->n; k++) {
            left_out[k] = cs__fit_predicts(fit, k) && strcmp(fit->cases->items[k].group, group) == 0;
        }
        CS_TRY(fit_without(work, left_out, group, err));
        work->out->n_groups++;
        for (int32_t k = i; k < fit->cases->n; k++) {
            if (left_out[k]) {
                predictions[k].predicted = true;
                predictions[k].held_out_s = cs__fit_predict_s(fit, k);
            }
        }
    }
out:
    return st;
}

/* Predict each of n_folds random parts of the cases with figures fitted without it. */
static cs_status predict_folds(struct work *work, bool *left_out, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__fit *fit = &work->fit;
    int32_t n = 0;
    struct cs_rng rng;
    int32_t *order = CS_ARENA_NEW(&work->out->arena, int32_t, fit->cases->n + 1);
    cs_rng_init(&rng, FOLD_SEED, 0);
    for (int32_t i = 0; i < fit->cases->n; i++) {
        if (cs__fit_predicts(fit, i)) {
            int32_t at = (int32_t)cs_rng_below(&rng, (uint32_t)n + 1);
            order[n++] = order[at];
            order[at] = i;
        }
    }
    const int32_t n_folds = work->options->n_folds < n ? work->options->n_folds : n;
    for (int32_t fold = 0; fold < n_folds; fold++) {
        char what[64];
        memset(left_out, 0, (size_t)fit->cases->n * sizeof *left_out);
        for (int32_t k = fold; k < n; k += n_folds) {
            left_out[order[k]] = true;
        }
        (void)snprintf(what, sizeof what, "part %d of %d", (int)fold + 1, (int)n_folds);
        CS_TRY(fit_without(work, left_out, what, err));
        for (int32_t k = fold; k < n; k += n_folds) {
            work->out->predictions[order[k]].fold_s = cs__fit_predict_s(fit, order[k]);
        }
    }
    work->out->n_folds = n_folds;
out:
    return st;
}

/* Afterwards the figures are those of z again. */
static cs_status cross_validate(struct work *work, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__fit *fit = &work->fit;
    bool *left_out = cs_calloc((size_t)fit->cases->n + 1, sizeof *left_out);
    if (work->options->cross_validate) {
        CS_TRY(predict_groups(work, left_out, err));
    }
    if (work->options->n_folds > 1) {
        CS_TRY(predict_folds(work, left_out, err));
    }
out:
    cs_free(left_out);
    cs__fit_choose(fit, NULL);
    cs__fit_set(fit, work->z);
    return st;
}

/* Minimise from the figures as they are and from n_starts - 1 places drawn from the priors; keep the least.
 */
static cs_status minimise_all(struct work *work, double *least, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__fit *fit = &work->fit;
    struct cs_rng rng;
    double z[CS_FIT_FIGURES_MAX];
    char line[160];
    cs_rng_init(&rng, START_SEED, 0);
    CS_TRY(cs__fit_minimise(fit, work->z, EVALUATIONS, least, err));
    for (int32_t start = 1; start < work->options->n_starts; start++) {
        double found = 0;
        for (int32_t v = 0; v < fit->n_variables; v++) {
            z[v] = cs_rng_normal(&rng);
        }
        CS_TRY(cs__fit_minimise(fit, z, EVALUATIONS, &found, err));
        (void)snprintf(line, sizeof line, "start %d: objective %.3f, least %.3f", (int)start + 1, found,
                       fmin(found, *least));
        say(work, line);
        if (found < *least) {
            *least = found;
            memcpy(work->z, z, sizeof z);
        }
    }
    cs__fit_set(fit, work->z);
out:
    return st;
}

static cs_status fit_all(struct work *work, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__fit *fit = &work->fit;
    struct cs_case_run *runs = cs_calloc((size_t)fit->cases->n + 1, sizeof *runs);
    int32_t n_rounds = work->options->n_rounds > 0 ? work->options->n_rounds : 3;
    char line[160];
    CS_TRY(simulate(work, runs, err));
    if (fit->n_used == 0) {
        goto out;
    }
    choose_variables(fit);
    cs__fit_choose(fit, NULL);
    for (int32_t round = 0; round < n_rounds; round++) {
        double least = 0;
        if (round == 0) {
            CS_TRY(minimise_all(work, &least, err));
        } else {
            CS_TRY(cs__fit_minimise(fit, work->z, EVALUATIONS, &least, err));
        }
        (void)snprintf(line, sizeof line, "round %d: %d cases, %d figures, objective %.3f", (int)round + 1,
                       (int)fit->n_used, (int)fit->n_variables, least);
        say(work, line);
        CS_TRY(simulate(work, runs, err));
    }
    list_figures(work);
    work->out->n_cases = fit->n_used;
    for (int32_t i = 0; i < fit->cases->n; i++) {
        if (cs__fit_predicts(fit, i)) {
            work->out->predictions[i].fitted_s = runs[i].simulated_s;
        }
    }
    CS_TRY(cross_validate(work, err));
out:
    cs_free(runs);
    return st;
}

/* ---- all --------------------------------------------------------------------------------------------------
 */

static cs_status collect(struct work *work, struct cs_err *err)
{
    struct cs__fit *fit = &work->fit;
    cs_status st = CS_OK;
    struct cs__sites sites = {0};
    const char *cfg = work->options->validate.simgrid_cfg;
    bool *wanted = cs_calloc((size_t)fit->cases->n + 1, sizeof *wanted);
    /* Link work is counted without the software's ratios. */
    double kept[CS_FIT_FIGURES_MAX];
    CS_ASSERT(fit->softwares->n <= CS_FIT_FIGURES_MAX);
    for (int32_t s = 0; s < fit->softwares->n; s++) {
        kept[s] = fit->softwares->items[s].figure[CS_SOFTWARE_COLLECTIVE_TIME];
        fit->softwares->items[s].figure[CS_SOFTWARE_COLLECTIVE_TIME] = 1;
    }
    for (int32_t i = 0; i < fit->cases->n; i++) {
        const struct cs_case *c = &fit->cases->items[i];
        wanted[i] = c->kind == CS_CASE_TIME && cs__fit_has_hardware(fit, c);
    }
    CS_TRY(cs__sites_init(&sites, fit->cases, wanted, fit->bed, cfg, err));
    for (int32_t i = 0; i < fit->cases->n; i++) {
        if (sites.of_case[i] >= 0) {
            CS_TRY(
                cs__linear_init(&fit->linear[i], &fit->cases->items[i], &sites.items[sites.of_case[i]], err));
        }
    }
out:
    for (int32_t s = 0; s < fit->softwares->n; s++) {
        fit->softwares->items[s].figure[CS_SOFTWARE_COLLECTIVE_TIME] = kept[s];
    }
    cs__sites_release(&sites);
    cs_free(wanted);
    return st;
}

static const struct cs__generation *generation_of(const char *chip)
{
    for (int32_t g = 0; g < cs__n_generations; g++) {
        for (int32_t i = 0; cs__generations[g].chips[i]; i++) {
            if (strcmp(cs__generations[g].chips[i], chip) == 0) {
                return &cs__generations[g];
            }
        }
    }
    return NULL;
}

bool cs_calibrate_knows(const char *chip)
{
    return generation_of(chip) != NULL;
}

cs_status cs_calibrate(const struct cs_cases *cases, struct cs_testbed *bed, struct cs_softwares *softwares,
                       const struct cs_calibrate_options *options, struct cs_calibration *calibration,
                       struct cs_err *err)
{
    cs_status st = CS_OK;
    struct work *work = cs_calloc(1, sizeof *work);
    struct cs__fit *fit = &work->fit;
    *work = (struct work){
        .fit = {.cases = cases, .bed = bed, .softwares = softwares}, .options = options, .out = calibration};
    *calibration = (struct cs_calibration){0};
    calibration->predictions = CS_ARENA_NEW(&calibration->arena, struct cs_fit_prediction, cases->n + 1);
    fit->only = options->only ? generation_of(options->only) : NULL;
    CS_ASSERT(!options->only || fit->only);
    fit->linear = cs_calloc((size_t)cases->n + 1, sizeof *fit->linear);
    fit->chip = cs_calloc((size_t)cases->n + 1, sizeof *fit->chip);
    for (int32_t i = 0; i < cases->n; i++) {
        const struct cs_server *server = cs_testbed_server(bed, cases->items[i].server);
        fit->chip[i] = server ? cs_testbed_chip(bed, server->chip) : NULL;
    }
    fit->weight = cs_calloc((size_t)cases->n + 1, sizeof *fit->weight);
    fit->loss = cs_calloc((size_t)cases->n + 1, sizeof *fit->loss);
    fit->used = cs_calloc((size_t)cases->n + 1, sizeof *fit->used);
    CS_TRY(collect(work, err));
    CS_TRY(fit_all(work, err));
out:
    for (int32_t i = 0; i < cases->n; i++) {
        cs__linear_release(&fit->linear[i]);
    }
    for (int32_t v = 0; v < fit->n_variables; v++) {
        cs_free(fit->variables[v].touched);
    }
    cs_free(fit->linear);
    cs_free(fit->chip);
    cs_free(fit->weight);
    cs_free(fit->loss);
    cs_free(fit->used);
    cs_free(work);
    return st;
}

void cs_calibration_release(struct cs_calibration *calibration)
{
    cs_arena_release(&calibration->arena);
    *calibration = (struct cs_calibration){0};
}
