/* Efficiencies of a chip out of the times of single kernels. */
#include "cs/strategies/profile.h"

#include <math.h>
#include <nlopt.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_FRAC 0.02
#define HUBER                                                                                                \
    0.1           /* log ratios above this pull linearly: a kernel that was disturbed is no reason to bend   \
                   */
#define PULL 1e-3 /* to the chip's own figures, in loss per squared log ratio */
#define EVALUATIONS 400

struct fit {
    const struct cs_profile_kernel *kernels;
    int32_t n;
    double total_s;
    struct cs_chip chip;
    enum cs_opkind kind;
    double start[2]; /* efficiency, memory efficiency */
};

/* A kernel's own time: the host's launches are not in it. */
static double predicted_s(const struct fit *fit, const struct cs_op_cost *cost, double efficiency_frac,
                          double memory_frac)
{
    struct cs_chip chip = fit->chip;
    chip.opkind_peak_frac[fit->kind] = efficiency_frac;
    chip.opkind_memory_frac[fit->kind] = memory_frac;
    chip.host_launch_s = 0;
    return cs_chip_op_time_s(&chip, cost);
}

static double loss(unsigned n, const double *x, double *gradient, void *data)
{
    const struct fit *fit = data;
    double sum = 0;
    (void)n;
    (void)gradient;
    for (int32_t i = 0; i < fit->n; i++) {
        const struct cs_profile_kernel *kernel = &fit->kernels[i];
        double off = fabs(log(predicted_s(fit, &kernel->cost, x[0], x[1]) / kernel->time_s));
        double weight = (double)kernel->n * kernel->time_s / fit->total_s;
        sum += weight * (off <= HUBER ? off * off : HUBER * (2 * off - HUBER));
    }
    for (int32_t i = 0; i < 2; i++) {
        double off = log(x[i] / fit->start[i]);
        sum += PULL * off * off;
    }
    return sum;
}

/* Is a shape bound by arithmetic (as against memory)? A little more of either efficiency tells. */
static bool is_bound_by(const struct fit *fit, const struct cs_op_cost *cost, const double x[2], int which)
{
    const double more = 1.01;
    double before_s = predicted_s(fit, cost, x[0], x[1]);
    double after_s = predicted_s(fit, cost, x[0] * (which == 0 ? more : 1), x[1] * (which == 1 ? more : 1));
    return after_s < before_s * (1 - 1e-6);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_error_frac(const struct fit *fit, const double x[2])
{
    double *errors = cs_calloc((size_t)fit->n, sizeof *errors);
    for (int32_t i = 0; i < fit->n; i++) {
        errors[i] = fabs(predicted_s(fit, &fit->kernels[i].cost, x[0], x[1]) / fit->kernels[i].time_s - 1);
    }
    qsort(errors, (size_t)fit->n, sizeof *errors, compare);
    double median = errors[fit->n / 2];
    cs_free(errors);
    return median;
}

static cs_status fit_kind(struct fit *fit, struct cs_chip *chip, struct cs_profile_fit *out,
                          struct cs_err *err)
{
    const double most = 1;
    double x[2];
    double least = 0;
    for (int32_t i = 0; i < 2; i++) {
        double catalogue = i == 0 ? chip->opkind_peak_frac[fit->kind] : chip->opkind_memory_frac[fit->kind];
        fit->start[i] = isnan(catalogue) ? 0.5 : fmin(fmax(catalogue, LEAST_FRAC), most);
        x[i] = fit->start[i];
    }
    for (int32_t i = 0; i < fit->n; i++) {
        out->n += fit->kernels[i].n;
        out->time_s += (double)fit->kernels[i].n * fit->kernels[i].time_s;
        if (isnan(predicted_s(fit, &fit->kernels[i].cost, x[0], x[1]))) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "chip '%s' has no figure to compute %s in %s with",
                              chip->name, cs_opkind_names[fit->kind],
                              cs_dtype_names[fit->kernels[i].cost.dtype]);
        }
    }
    fit->total_s = out->time_s;
    out->n_shapes = fit->n;
    out->before_frac = median_error_frac(fit, x);
    nlopt_opt opt = nlopt_create(NLOPT_LN_SBPLX, 2);
    CS_ASSERT(opt);
    (void)nlopt_set_lower_bounds1(opt, LEAST_FRAC);
    (void)nlopt_set_upper_bounds1(opt, most);
    (void)nlopt_set_min_objective(opt, loss, fit);
    (void)nlopt_set_maxeval(opt, EVALUATIONS);
    (void)nlopt_set_xtol_rel(opt, 1e-5);
    nlopt_result result = nlopt_optimize(opt, x, &least);
    nlopt_destroy(opt);
    if (result < 0 && result != NLOPT_ROUNDOFF_LIMITED) {
        return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the fit of %s failed", cs_opkind_names[fit->kind]);
    }
    double *figures[] = {&out->efficiency_frac, &out->memory_efficiency_frac};
    double *places[] = {&chip->opkind_peak_frac[fit->kind], &chip->opkind_memory_frac[fit->kind]};
    for (int which = 0; which < 2; which++) {
        bool determined = false;
        for (int32_t i = 0; i < fit->n && !determined; i++) {
            determined = is_bound_by(fit, &fit->kernels[i].cost, x, which);
        }
        *figures[which] = determined ? x[which] : (double)NAN;
        *places[which] = determined ? x[which] : *places[which];
        x[which] = determined ? x[which] : fit->start[which];
    }
    out->after_frac = median_error_frac(fit, x);
    return CS_OK;
}

cs_status cs_profile_fit(const struct cs_profile *profile, struct cs_chip *chip,
                         struct cs_profile_fit fits[CS_N_OPKINDS], struct cs_err *err)
{
    cs_status st = CS_OK;
    memset(fits, 0, CS_N_OPKINDS * sizeof *fits);
    for (int32_t i = 0; i < profile->n_kernels;) {
        struct fit fit = {
            .kernels = &profile->kernels[i], .chip = *chip, .kind = profile->kernels[i].cost.kind};
        for (; i < profile->n_kernels && profile->kernels[i].cost.kind == fit.kind; i++) {
            fit.n++;
        }
        CS_TRY(fit_kind(&fit, chip, &fits[fit.kind], err));
    }
out:
    return st;
}
