/**
 * @file cases.h
 * Published training runs as cases: one row of a CSV file each, turned into what a simulation needs.
 *
 * Columns are found by their names (tests/data/measured/README.md); unknown columns are ignored, so that a
 * table may carry more. An empty cell means that the source does not say: what is assumed then stands in the
 * case.
 */
#ifndef CS_STRATEGIES_CASES_H
#define CS_STRATEGIES_CASES_H

#include "cs/strategies/software.h"
#include "cs/workloads/strategy.h"

/** What a row measured. */
enum cs_case_kind {
    CS_CASE_TIME,         /* iteration_seconds */
    CS_CASE_MEMORY_STATE, /* memory_gib of parameters, gradients and optimizer states */
    CS_CASE_MEMORY_ACTIVATIONS,
    CS_N_CASE_KINDS
};
extern const char *const cs_case_kind_names[]; /* "time", "memory-state", "memory-activations" */

/** One row. Texts live in the arena of the list. */
struct cs_case {
    const char *id;
    int32_t line;
    const char *hardware; /* as the file has it */
    const char *server;   /* catalogue server that stands for it; NULL = none known */
    const char *source;
    const char *source_short; /* who measured, for summaries: "vTrain single node" */
    const char *group;      /* source, hardware and model family: what cross-validation leaves out together */
    const char *generation; /* "910B", "A100": what chip the source says it is; NULL = it does not, or a
                               catalogue server's own name */
    const char *model_key;  /* equal for runs of one model on one hardware by one source */
    const char *setup_key;  /* likewise, with sequence, batch, devices and type: only strategies differ */
    const struct cs_software *software; /* never NULL */
    enum cs_case_kind kind;
    double measured_s;     /* NaN for memory rows */
    double measured_bytes; /* NaN for time rows */
    int32_t n_devices;
    int32_t devices_per_node;
    struct cs_model model; /* its arena is empty: texts belong to the list */
    struct cs_training training;
    struct cs_strategy strategy;
    const char *problem;     /* NULL, or why the row cannot be run */
    const char *doubt;       /* NULL, or why the measurement is doubtful; sums are given with and without */
    struct cs_loc doubt_at;  /* where that is written */
    const char *assumptions; /* what the row left open, "" = nothing */
};

/** Zero-initialised is empty. */
struct cs_cases {
    struct cs_arena arena;
    int32_t n;
    struct cs_case *items;
};

#define CS_CASES_MAX 100000

/** Read a file; `softwares` is borrowed and must outlive the list. CS_E_INPUT with file and line for a
 * missing column, a row of another length, a number that is none; a row that is well-formed but cannot be run
 * (unknown hardware, a strategy that the rules refuse) is a case with a problem, not an error. */
CS_MUST_CHECK cs_status cs_cases_load(struct cs_cases *cases, const char *path,
                                      const struct cs_softwares *softwares, struct cs_err *err);
/** Read why measurements are doubtful (columns id, reason) into the cases. CS_E_INPUT with file and line for
 * an unknown case, an empty reason, or a case that is doubted already. */
CS_MUST_CHECK cs_status cs_cases_doubt(struct cs_cases *cases, const char *path, struct cs_err *err);
void cs_cases_release(struct cs_cases *cases);

#endif
