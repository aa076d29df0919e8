/**
 * @file cli_priv.h
 * What the subcommands share: options, the study, where results go.
 *
 * Standard output carries the answer and nothing else; everything else goes to standard error.
 */
#ifndef CS_CLI_CLI_PRIV_H
#define CS_CLI_CLI_PRIV_H

#include "cs/base/json.h"
#include "cs/reports/json.h"
#include "cs/reports/points.h"
#include "cs/strategies/search.h"

#include <argp.h> /* GNU: needs _GNU_SOURCE, which this room's CMakeLists.txt defines */

#define CS__EXIT_INPUT 2

/** The foot of every --help. */
#define CS__EXIT_STATUS_DOC "Exit status: 0 done, 1 failed, 2 bad input, 3 nothing fits."

/** One subcommand. `name` is "platform show" for the second level. */
struct cs__command {
    const char *name;
    const char *args;
    const char *summary;
    int (*run)(int argc, char **argv);
};

int cs__cmd_search(int argc, char **argv);
int cs__cmd_simulate(int argc, char **argv);
int cs__cmd_platform(int argc, char **argv);
int cs__cmd_platform_generate(int argc, char **argv);
int cs__cmd_platform_show(int argc, char **argv);
int cs__cmd_platform_check(int argc, char **argv);
int cs__cmd_platform_ranktable(int argc, char **argv);
int cs__cmd_replay(int argc, char **argv);
int cs__cmd_trace(int argc, char **argv);
int cs__cmd_collective(int argc, char **argv);
int cs__cmd_validate(int argc, char **argv);
int cs__cmd_calibrate(int argc, char **argv);
int cs__cmd_sweep(int argc, char **argv);
int cs__cmd_plan(int argc, char **argv);
int cs__cmd_models(int argc, char **argv);
int cs__cmd_platforms(int argc, char **argv);

/** Choose from `commands` (ends with a NULL name) by argv[1], --help and --version included. `program` is
 *  "clustersim" or "clustersim platform". */
int cs__dispatch(const char *program, const char *what, const struct cs__command *commands, int argc,
                 char **argv);
/** "clustersim 0.1.0 (...)" to `out`. */
void cs__print_version(FILE *out);
struct cs_report_origin cs__origin(const char *command);

/* ---- options ------------------------------------------------------------------------------------------ */

#define CS__OVERRIDES_MAX 256

/** Options and argument of commands that take a study. */
struct cs__study_args {
    const char *study;        /* NULL = none given */
    bool is_optional;         /* another option stands for a study and its settings */
    const char *model_listed; /* a model file whose warnings have been said already */
    int32_t n_overrides;
    int32_t n_parts; /* of these, the first: -m and -p */
    struct cs_override overrides[CS__OVERRIDES_MAX];
    char keys[CS__OVERRIDES_MAX][96];
};
extern const struct argp cs__study_argp; /* input: struct cs__study_args */
/** Add "key: value", as --set key=value would, with a plain text as value. */
void cs__study_args_set(struct cs__study_args *args, const char *key, const char *value);

/** Options that say where results go. */
struct cs__output_args {
    const char *json; /* NULL = not asked */
    const char *csv;
    bool quiet;
    int progress; /* -1 = when standard error is a terminal */
};
extern const struct argp cs__output_argp; /* input: struct cs__output_args */
extern const struct argp cs__json_argp;   /* --json only; input: struct cs__output_args */

/** Options that say how to run. */
#define CS__FAULTS_MAX 64
/** An option of a run as a study's key. */
struct cs__said {
    char key[96];
    char value[32];
};
struct cs__run_args {
    struct cs_run_options options;
    struct cs_slow_device slow_devices[CS__FAULTS_MAX];
    struct cs_slow_link slow_links[CS__FAULTS_MAX];
    char link_names[CS__FAULTS_MAX][64];
    const char *link_shares[CS__FAULTS_MAX];
    int32_t n_said;
    struct cs__said said[3 * CS__FAULTS_MAX];
};
extern const struct argp cs__run_argp; /* input: struct cs__run_args */
/** Let the study say what was said of collectives, jitter, slow devices and slow links: there a word of the
 * command line wins over the file's, "auto" and 0 too, and a described platform is wired without its dead
 * links. A link whose name has a dot, which is no key, stays an option of the run. */
void cs__run_to_study(struct cs__run_args *run, struct cs__study_args *study);

/** Parse argv as subcommand `name` ("clustersim search"); exits on --help (0) and wrong usage (2). */
void cs__parse(const struct argp *argp, const char *name, int argc, char **argv, void *input);
/** Keep the value of an option that may be given once; a second one is a usage error. */
void cs__option_once(struct argp_state *state, const char **value, const char *arg, const char *option);
/** The value of an option, or a usage error that ends the process. */
int64_t cs__option_int(struct argp_state *state, const char *text, int64_t min, int64_t max,
                       const char *what);
double cs__option_quantity(struct argp_state *state, const char *text, enum cs_unit unit, const char *what);
int32_t cs__option_choice(struct argp_state *state, const char *text, const char *const *names,
                          const char *what);

/* ---- process ------------------------------------------------------------------------------------------- */

/** Print the error on standard error, one line. @return the exit status. */
int cs__fail(const struct cs_err *err);
/** Flush standard output; a failed write becomes exit status 1 with its line. */
int cs__finish(int exit_status);
/** Where shipped data is: $CLUSTERSIM_DATA, else beside the installed program, else the source tree. */
CS_MUST_CHECK cs_status cs__data_dir(struct cs_arena *arena, const char **data_dir, struct cs_err *err);
/** The folder that --catalogue names, NULL = none. */
const char *cs__catalogue_over(void);
/** Can the files be written? For what takes long: before it, not after. NULL entries are options that were
 * not given, "-" is standard output, which can take one of them; nothing is touched. CS_E_INPUT or CS_E_IO
 * with the name. */
CS_MUST_CHECK cs_status cs__check_outputs(const char *const *paths, int32_t n, struct cs_err *err);
/** Load the study that the options name. */
CS_MUST_CHECK cs_status cs__load_study(struct cs_study *study, const struct cs__study_args *args,
                                       struct cs_err *err);
/** The strategy that --strategy (NULL = not given) and the study's pinned values say, see cs_study_strategy;
 * of one that the same command line contradicts by --set, CS_E_INPUT. */
CS_MUST_CHECK cs_status cs__choose_strategy(const struct cs_study *study, const char *text,
                                            struct cs_strategy *strategy, struct cs_err *err);

/** A platform without a study. Zero-initialise; cs__hardware_release. */
struct cs__hardware {
    struct cs_arena arena;
    const char *data_dir;
    struct cs_catalogue *catalogue;
    struct cs_platform platform;
};
/** Load the catalogue, and the platform that `text` names unless it is NULL. */
CS_MUST_CHECK cs_status cs__hardware_load(struct cs__hardware *hardware, const char *text,
                                          struct cs_err *err);
void cs__hardware_release(struct cs__hardware *hardware);

/** Set by SIGINT and SIGTERM once cs__catch_signals was called; a second signal, a
 * second later or more, ends the process. */
extern volatile bool cs__stop;
void cs__catch_signals(void);
/** Until then these signals end the process with the exit status and the line of an interruption. A file that
 * reaches its size limit (SIGXFSZ) is from here on a write that fails. */
void cs__catch_early_signals(void);
/** May standard output carry colours? (A terminal, and NO_COLOR unset or empty.) */
bool cs__color(void);
/** "--cfg=" item for SimGrid from the environment, NULL = none. */
const char *cs__simgrid_cfg(void);

/** Write JSON where --json says (nothing if it does not); decrefs `json`. */
CS_MUST_CHECK cs_status cs__write_json(const struct cs__output_args *args, json_t *json, struct cs_err *err);
/** Write a report to a file ("-": standard output), whole or not at all; path NULL: none is wanted. */
typedef void (*cs__write_fn)(FILE *out, const void *report);
CS_MUST_CHECK cs_status cs__write_file(const char *path, cs__write_fn write_report, const void *report,
                                       struct cs_err *err);
/** Does the text for people go to standard output? Not when --json - or --csv - does. */
bool cs__wants_text(const struct cs__output_args *args);

/** Progress on standard error: a bar on a terminal, a plain line now and then elsewhere. */
struct cs__progress {
    bool bar;
    bool lines;
    bool open;     /* the bar's line has no end yet */
    double next_s; /* elapsed time of the next update */
};
void cs__progress_init(struct cs__progress *progress, const struct cs__output_args *args);
/** A cs_progress_fn; context is the struct. */
void cs__progress_show(void *context, const struct cs_search_progress *state);
/** The same for points of a sweep: a cs_points_progress_fn. */
void cs__points_progress_show(void *context, int32_t n_done, int32_t n_points, double elapsed_s);
/** Open the store of a sweep or plan (path NULL: none) and say which of its lines are not used. */
CS_MUST_CHECK cs_status cs__points_store_open(struct cs_point_store **store, const char *path,
                                              struct cs_err *err);
/** End the bar's line if it is open. */
void cs__progress_end(struct cs__progress *progress);

#endif
