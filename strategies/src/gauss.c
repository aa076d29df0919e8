/* Gaussian process regression. */
#include "gauss_priv.h"

#include "cs/base/mem.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

/* Share of the variance that is not explained by the coordinates: keeps the matrix well conditioned. */
#define NUGGET 1e-4

static double correlation(const double a[CS__GAUSS_DIMS], const double b[CS__GAUSS_DIMS], double length)
{
    double sum = 0;
    for (int32_t i = 0; i < CS__GAUSS_DIMS; i++) {
        double d = a[i] - b[i];
        sum += d * d;
    }
    return exp(-sum / (2 * length * length));
}

void cs__gauss_add(struct cs__gauss *g, const double x[CS__GAUSS_DIMS], double y)
{
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 32;
        g->x = cs_reallocarray(g->x, (size_t)g->cap, sizeof *g->x);
        g->y = cs_reallocarray(g->y, (size_t)g->cap, sizeof *g->y);
        g->weights = cs_reallocarray(g->weights, (size_t)g->cap, sizeof *g->weights);
        g->scratch = cs_reallocarray(g->scratch, (size_t)g->cap, sizeof *g->scratch);
        g->factor = cs_reallocarray(g->factor, (size_t)g->cap * (size_t)g->cap, sizeof *g->factor);
    }
    memcpy(g->x[g->n], x, sizeof g->x[g->n]);
    g->y[g->n++] = y;
}

void cs__gauss_pop(struct cs__gauss *g)
{
    g->n--;
}

/* Factorise the correlations for a length and solve for the weights of the values about `mean`. Returns the
 * logarithm of the determinant, NaN when the matrix is not positive definite. */
static double solve(struct cs__gauss *g, double length, double mean)
{
    lapack_int n = g->n;
    for (int32_t j = 0; j < n; j++) {
        for (int32_t i = j; i < n; i++) {
            g->factor[(int64_t)j * n + i] = correlation(g->x[i], g->x[j], length) + (i == j ? NUGGET : 0);
        }
        g->weights[j] = g->y[j] - mean;
    }
    if (LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', n, g->factor, n) != 0) {
        return (double)NAN;
    }
    double log_det = 0;
    for (int32_t i = 0; i < n; i++) {
        log_det += 2 * log(g->factor[(int64_t)i * n + i]);
    }
    (void)LAPACKE_dpotrs(LAPACK_COL_MAJOR, 'L', n, 1, g->factor, n, g->weights, n);
    return log_det;
}

/* Minus the logarithm of the marginal likelihood, constants left out; *deviation is the likeliest. */
static double misfit(struct cs__gauss *g, double length, double mean, double least_deviation,
                     double *deviation)
{
    double log_det = solve(g, length, mean);
    double fit = 0;
    for (int32_t i = 0; i < g->n; i++) {
        fit += (g->y[i] - mean) * g->weights[i];
    }
    *deviation = fmax(sqrt(fmax(fit, 0) / g->n), least_deviation);
    return 0.5 * fit / (*deviation * *deviation) + g->n * log(*deviation) + 0.5 * log_det;
}

void cs__gauss_fit(struct cs__gauss *g, double least_deviation, bool keep)
{
    static const double lengths[] = {0.5, 1.0, 1.5, 2.5, 4.0};
    if (g->n == 0) {
        g->length = 1.0;
        g->mean = 0;
        g->deviation = least_deviation;
        return;
    }
    if (!keep) {
        double best = (double)INFINITY;
        g->mean = 0;
        for (int32_t i = 0; i < g->n; i++) {
            g->mean += g->y[i] / (g->n + 1); /* drawn to 0, what the closed form says */
        }
        for (int32_t i = 0; i < CS_COUNT(lengths); i++) {
            double deviation;
            double value = misfit(g, lengths[i], g->mean, least_deviation, &deviation);
            if (value < best) {
                best = value;
                g->length = lengths[i];
                g->deviation = deviation;
            }
        }
    }
    (void)solve(g, g->length, g->mean);
}

void cs__gauss_predict(struct cs__gauss *g, const double x[CS__GAUSS_DIMS], double *mean, double *deviation)
{
    *mean = g->mean;
    double unexplained = 1;
    for (int32_t i = 0; i < g->n; i++) {
        g->scratch[i] = correlation(x, g->x[i], g->length);
        *mean += g->scratch[i] * g->weights[i];
    }
    /* Forward substitution with the factor: |L^-1 k|^2 is what the observations explain. */
    for (int32_t i = 0; i < g->n; i++) {
        double v = g->scratch[i];
        for (int32_t j = 0; j < i; j++) {
            v -= g->factor[(int64_t)j * g->n + i] * g->scratch[j];
        }
        v /= g->factor[(int64_t)i * g->n + i];
        g->scratch[i] = v;
        unexplained -= v * v;
    }
    *deviation = g->deviation * sqrt(fmax(unexplained, 0));
}

void cs__gauss_release(struct cs__gauss *g)
{
    cs_free(g->x);
    cs_free(g->y);
    cs_free(g->factor);
    cs_free(g->weights);
    cs_free(g->scratch);
    *g = (struct cs__gauss){0};
}
