/* Figures that are fitted. */
#ifndef CS_STRATEGIES_CALIBRATE_PRIV_H
#define CS_STRATEGIES_CALIBRATE_PRIV_H

#include "cs/strategies/calibrate.h"

#define CS__TIED_MAX 4

/** A figure as the fit sees it: bounds, and the centre and strength of its prior. */
struct cs__fit_rule {
    const char *key;
    double min, max;
    double prior;                   /* where the data say nothing */
    double prior_weight;            /* @unit weight of (value - prior) / scale, squared */
    const char *tied[CS__TIED_MAX]; /* chip figures that follow */
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

#endif
