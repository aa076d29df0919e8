/* Figures that are fitted, and the fit. */
#ifndef CS_STRATEGIES_CALIBRATE_PRIV_H
#define CS_STRATEGIES_CALIBRATE_PRIV_H

#include "cs/strategies/calibrate.h"
#include "linear_priv.h"

#define CS__TIED_MAX 2
#define CS__VALUES_MAX 16

/** A figure as the fit sees it: bounds, and the normal prior of its logarithm, or of itself when it may be 0.
 */
struct cs__fit_rule {
    const char *key;
    double min, max;
    double prior;                   /* @unit the figure's: where the data say nothing */
    double deviation;               /* @unit of the logarithm, or the figure's when min is 0 */
    const char *tied[CS__TIED_MAX]; /* chip figures that are the same */
};

/** A generation: the first chip names it. */
struct cs__generation {
    const char *chips[6];
    const struct cs__fit_rule *rules;
    int32_t n_rules;
};
extern const struct cs__generation cs__generations[];
extern const int32_t cs__n_generations;
/** Rules of software figures, in the order of enum cs_software_figure. */
extern const struct cs__fit_rule cs__software_rules[CS_N_SOFTWARE_FIGURES];

/** One variable: how many prior deviations a figure is away from its prior. */
struct cs__variable {
    const struct cs__fit_rule *rule;
    double *values[CS__VALUES_MAX]; /* that it sets: figures of chips, or one of a software */
    int32_t n_values;
    const struct cs__generation *generation; /* of a chip's figure */
    const struct cs_software *software;      /* of a software's figure */
    int32_t *touched;                        /* cases of the fit that depend on it */
    int32_t n_touched;
    unsigned kinds; /* of work whose time depends on it; links always may */
};

struct cs__fit {
    const struct cs_cases *cases;
    struct cs_testbed *bed;
    struct cs_softwares *softwares;
    const struct cs__generation *only; /* of cases and figures in this fit, NULL = all */
    struct cs__linear *linear;         /* one a case */
    const struct cs_chip **chip;       /* one a case: of the testbed, NULL = unknown hardware */
    double *weight;                    /* one a case */
    double *loss;                      /* one a case: of the last objective */
    int32_t *used;                     /* cases in this fit */
    int32_t n_used;
    struct cs__variable variables[CS_FIT_FIGURES_MAX];
    int32_t n_variables;
};

/** Is the case's chip of that generation? */
bool cs__fit_in_generation(const struct cs__fit *fit, const struct cs_case *c,
                           const struct cs__generation *g);
/** Did the case run on hardware whose figures are fitted? */
bool cs__fit_has_hardware(const struct cs__fit *fit, const struct cs_case *c);
/** Can the case be predicted: did it run, on hardware that is fitted? */
bool cs__fit_predicts(const struct cs__fit *fit, int32_t index);
/** Cases to fit to: those that can be predicted, without those left out (one flag a case; NULL = none), their
 *  weights, and which variable depends on which of them. */
void cs__fit_choose(struct cs__fit *fit, const bool *left_out);
/** Set the figures to what z (per variable, @unit prior deviations) says. */
void cs__fit_set(const struct cs__fit *fit, const double *z);
/** Step time of a case at the figures as they are, seconds. */
double cs__fit_predict_s(const struct cs__fit *fit, int32_t index);
/** Which kinds of work a figure changes, by its key (cs__linear_again_s). */
unsigned cs__fit_kinds(const struct cs__fit_rule *rule);
/** Minimise from z on; the figures are set to the result. */
CS_MUST_CHECK cs_status cs__fit_minimise(struct cs__fit *fit, double *z, int32_t n_evaluations, double *least,
                                         struct cs_err *err);
/** Standard deviation of each variable under prior and data together, from the curvature of the objective at
 *  z (Gauss-Newton); 1 = the data say nothing of it. */
void cs__fit_deviation(struct cs__fit *fit, const double *z, double *deviation);

#endif
