/**
 * @file calibrate.h
 * Fit figures of chips and of training software to published runs.
 *
 * What is fitted, with bounds and priors, is one table in calibrate_figures.c. Parts of one chip generation
 * share their efficiencies; programs that ran on several generations tie these together, so everything is
 * fitted at once. Objective: twice the negative logarithm of the posterior, with Huber's loss of
 * log(predicted / measured) (5 % and more count linearly), normal priors, sources with many rows weighed as
 * 10; minimised by NLopt's LD_SLSQP on the linearised
 * critical path (linear_priv.h), which is simulated again in every round.
 */
#ifndef CS_STRATEGIES_CALIBRATE_H
#define CS_STRATEGIES_CALIBRATE_H

#include "cs/strategies/validate.h"

#define CS_FIT_FIGURES_MAX 200
#define CS_DETERMINED_FRAC 0.5 /* below it a figure is called not determined */

/** One fitted figure. */
struct cs_fit_figure {
    char owner[48]; /* chip generation ("a100-80") or software */
    char key[48];   /* "efficiency.matmul", "kernel_time" */
    bool of_software;
    double start;            /* @unit the figure's */
    double value;            /* @unit the figure's */
    double uncertainty_frac; /* of the value: one standard error of the fit; infinity = the value is 0 */
    double determined_frac;  /* of the prior's variance: how much of it the data took away; 0 = they say
                                nothing */
    int32_t n_cases;         /* that depend on it */
};

/** Predictions of a case. */
struct cs_fit_prediction {
    bool predicted;
    double held_out_s; /* with figures fitted without its own group */
    double fold_s;     /* with figures fitted without a random part of all cases that holds it */
    double fitted_s;   /* in sample */
};

struct cs_calibration {
    struct cs_arena arena;
    int32_t n_figures;
    struct cs_fit_figure figures[CS_FIT_FIGURES_MAX];
    int32_t n_cases;  /* used */
    int32_t n_groups; /* that were predicted without themselves; 0 = held_out_s was not asked for */
    int32_t n_folds;  /* random parts; 0 = fold_s was not asked for */
    struct cs_fit_prediction *predictions; /* one a case, in the arena */
};

struct cs_calibrate_options {
    struct cs_validate_options validate;
    int32_t n_rounds; /* simulate, fit; 0 = 3 */
    int32_t n_starts; /* of the first fit: the priors, and others drawn from them; 0 = 1 */
    bool cross_validate;
    int32_t n_folds;  /* predict so many random parts of the cases (no more than cases), each without itself;
                         0, 1 = none */
    const char *only; /* a chip: fit its generation alone to its own runs and keep everything else, software
                         too; NULL = everything. At the optimum of everything both give the same figures. */
    void (*say)(void *context, const char *line); /* progress, may be NULL */
    void *say_context;
};

/** Is the chip one whose figures can be fitted? */
bool cs_calibrate_knows(const char *chip);
/** Fit; on success the testbed's chips and the softwares hold the fitted figures. Precondition: `only` is
 * NULL or a chip that cs_calibrate_knows. */
CS_MUST_CHECK cs_status cs_calibrate(const struct cs_cases *cases, struct cs_testbed *bed,
                                     struct cs_softwares *softwares,
                                     const struct cs_calibrate_options *options,
                                     struct cs_calibration *calibration, struct cs_err *err);
void cs_calibration_release(struct cs_calibration *calibration);

#endif
