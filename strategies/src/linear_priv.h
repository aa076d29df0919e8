/* The time of a case as a function of hardware figures, without simulating again.
 *
 * One simulation gives the critical path by kind of work: T = sum of parts. Near the figures it was made
 * with, each part scales as the whole trace's work of that kind does: T(figures) = sum over kinds  part x
 * W_kind(figures) / W_kind(figures of the simulation) which is exact there, and exact to first order around
 * it (a small change does not move the path). Fits simulate again after each round. */
#ifndef CS_STRATEGIES_LINEAR_PRIV_H
#define CS_STRATEGIES_LINEAR_PRIV_H

#include "validate_priv.h"

/** Work on links under one name ("tp", "dp"): seconds at the figures of the simulation, without software's
 * ratios. */
struct cs__link_work {
    char name[32];
    double n_calls;
    double latency_s;
    double transfer_s;
};

struct cs__linear {
    bool usable;
    const struct cs_case *c;
    int32_t n_ops;
    struct cs_op_cost *ops; /* distinct costs, by kind */
    double *n_of;           /* executions, mean over programs */
    int32_t n_links;
    struct cs__link_work *links;
    /* set by cs__linear_anchor */
    double part_s[CS_N_OPKINDS]; /* of the critical path */
    double work_s[CS_N_OPKINDS]; /* W at the anchor */
    double link_part_s[8];       /* of the critical path, by links[] */
    double link_work_s[8];
    double fixed_s; /* path that depends on nothing that is fitted */
    /* set by cs__linear_time_s */
    unsigned on_path; /* mask of the kinds that the path has */
    double noted_s[CS_N_OPKINDS];
};
/** A mask of kinds of work has bit k for kind k. */
#define CS__KINDS_ALL ((1U << CS_N_OPKINDS) - 1U)
#define CS__LINKS_MAX 8

/** Collect a case's work. The site is of the case. Errors: those of cs_trace_build and cs_routes_need. */
CS_MUST_CHECK cs_status cs__linear_init(struct cs__linear *linear, const struct cs_case *c,
                                        struct cs_site *site, struct cs_err *err);
void cs__linear_release(struct cs__linear *linear);
/** Take a simulation made with `chip` (the catalogue's, without the software's changes) and `software`. */
void cs__linear_anchor(struct cs__linear *linear, const struct cs_case_run *run, const struct cs_chip *chip,
                       const struct cs_software *software);
/** Step time with other figures, seconds. Notes the work of each kind for cs__linear_again_s. */
double cs__linear_time_s(struct cs__linear *linear, const struct cs_chip *chip,
                         const struct cs_software *software);
/** The same when, since cs__linear_time_s, only figures changed that the work of `kinds` and links depend on.
 * Pure. */
double cs__linear_again_s(const struct cs__linear *linear, const struct cs_chip *chip,
                          const struct cs_software *software, unsigned kinds);

#endif
