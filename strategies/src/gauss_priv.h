/**
 * @file gauss_priv.h
 * Gaussian process regression (Rasmussen, Williams, Gaussian Processes for Machine Learning, MIT Press 2006,
 * algorithm 2.1), squared exponential kernel, linear algebra by LAPACK.
 */
#ifndef CS_STRATEGIES_GAUSS_PRIV_H
#define CS_STRATEGIES_GAUSS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#define CS__GAUSS_DIMS 40

/** Observations and what was fitted to them. Zero-initialised is empty; cs__gauss_release. */
struct cs__gauss {
    int32_t n, cap;
    double (*x)[CS__GAUSS_DIMS]; /* @unit coordinates of about 1 */
    double *y;                   /* @unit of the values */
    double length;               /* @unit coordinates: correlation length */
    double mean, deviation;      /* @unit of the values: of the process */
    double *factor;              /* @unit none: Cholesky factor of the correlations, n x n, lower, columns */
    double *weights;             /* @unit none: inverse correlations times standardised values */
    double *scratch;             /* @unit none */
};

void cs__gauss_add(struct cs__gauss *gauss, const double x[CS__GAUSS_DIMS], double y);
void cs__gauss_pop(struct cs__gauss *gauss);
/** Choose length and deviation by the marginal likelihood, no smaller than `least_deviation` (@unit of the
 *  values), then prepare predictions. With `keep` the length and deviation stay as they are. */
void cs__gauss_fit(struct cs__gauss *gauss, double least_deviation, bool keep);
/** Mean and standard deviation at a point. Without observations: 0 and the deviation. O(n^2). */
void cs__gauss_predict(struct cs__gauss *gauss, const double x[CS__GAUSS_DIMS], double *mean,
                       double *deviation);
void cs__gauss_release(struct cs__gauss *gauss);

#endif
