/**
 * @file profile.h
 * Figures of a chip and of its links out of MindSpore / msprof profiler output.
 *
 * Read by the names of columns and keys: `kernel_details.csv` (what each kernel took, with shapes),
 * `step_trace_time.csv` (a step's shares) and `communication.json` (what each collective moved over which
 * transport). Kernel types map to operator kinds by a table in profile_kernels.c; a type that is not in it is
 * counted as unknown and fits nothing.
 */
#ifndef CS_STRATEGIES_PROFILE_H
#define CS_STRATEGIES_PROFILE_H

#include "cs/base/err.h"
#include "cs/base/mem.h"
#include "cs/platforms/chip.h"

/** Kernels of one kind, type and shape. */
struct cs_profile_kernel {
    struct cs_op_cost cost; /* flop and bytes of one of them, by its shapes */
    int64_t n;
    double time_s; /* mean duration on the device */
};

/** What one kind of collective moved over one transport. */
struct cs_profile_collective {
    const char *kind;      /* "all-reduce", "send", ... */
    const char *transport; /* as the file names it: "HCCS", "RDMA", "SDMA", ... */
    int64_t n;             /* operations that used it */
    double bytes;
    double time_s;      /* in transit on this transport */
    double bytes_per_s; /* the mean on the wire */
};

/** Mean over the steps of step_trace_time.csv. */
struct cs_profile_step {
    int64_t n; /* steps; 0 = no such file */
    double iteration_s;
    double computing_s;
    double exposed_s; /* communication that is not overlapped */
    double overlapped_s;
    double free_s;
    double bubble_s;
};

/** Zero-initialised is empty; everything is in the arena. */
struct cs_profile {
    struct cs_arena arena;
    int32_t n_kernels;
    struct cs_profile_kernel *kernels; /* sorted by kind and shape */
    int64_t n_unknown;                 /* kernels whose type is in no table or whose shapes say nothing */
    double unknown_s;
    double known_s;
    int32_t n_collectives;
    struct cs_profile_collective *collectives;
    int64_t n_unknown_operations; /* of communication.json, whose names say no kind */
    double wait_s;                /* of all collectives: waiting for the other ranks */
    double elapsed_s;             /* of all collectives */
    struct cs_profile_step step;
};

/** Read the folder `dir` (or its ASCEND_PROFILER_OUTPUT): whichever of the three files are there, at least
 * one. CS_E_INPUT with file and line for what is missing or no number, for a step whose parts do not add up.
 */
CS_MUST_CHECK cs_status cs_profile_load(struct cs_profile *profile, const char *dir, struct cs_err *err);
void cs_profile_release(struct cs_profile *profile);

/** What the fit says of one operator kind. */
struct cs_profile_fit {
    int64_t n;                     /* kernels */
    int32_t n_shapes;              /* distinct ones */
    double time_s;                 /* all of them */
    double efficiency_frac;        /* of the peak, fitted; NaN: no shape is bound by arithmetic */
    double memory_efficiency_frac; /* of the memory bandwidth, fitted; NaN: no shape is bound by memory */
    double before_frac;            /* median error |predicted / measured - 1| with the chip as it was */
    double after_frac;             /* with the fitted figures */
};

/** Fit efficiency.KIND and memory_efficiency.KIND of every kind that the profile has, in [0.02, 1], by
 * NLopt's LN_SBPLX on the Huber loss of log(predicted / measured), weighed by time, with a weak pull to the
 * chip's figures. @param[in,out] chip a caller's copy: a figure that the data determine is changed in it.
 *  @param[out] fits CS_N_OPKINDS entries, n = 0 where there is nothing. CS_E_INPUT when the chip lacks a peak
 * for a dtype of the profile. */
CS_MUST_CHECK cs_status cs_profile_fit(const struct cs_profile *profile, struct cs_chip *chip,
                                       struct cs_profile_fit fits[CS_N_OPKINDS], struct cs_err *err);

#endif
