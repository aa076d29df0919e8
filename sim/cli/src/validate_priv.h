/* What `validate` and `calibrate` share. */
#ifndef CS_CLI_VALIDATE_PRIV_H
#define CS_CLI_VALIDATE_PRIV_H

#include "cli_priv.h"

#include "cs/reports/validate.h"

struct cs__validate_args {
    struct cs__output_args output;
    const char *cases;
    const char *collectives; /* calibrate: measured collectives */
    const char *doubts;      /* file that says which cases are doubtful */
    const char *svg;
    const char *markdown;
    const char *intervals; /* file for what the errors say of predictions */
    bool plain;            /* without the figures of each run's software */
    const char *catalogue; /* calibrate: folder for the fitted files */
    int32_t n_workers;
    int32_t n_rounds;
    int32_t n_starts;
    bool cross_validate;
    int32_t n_folds;  /* calibrate: random parts that are predicted without themselves; 0 = none */
    const char *only; /* calibrate: chip whose generation alone is fitted */
};
/** Can everything that is asked for be written? Before the minutes of simulating and fitting. */
CS_MUST_CHECK cs_status cs__validate_check(const struct cs__validate_args *args, struct cs_err *err);
/** Not when one of the results goes to standard output. */
bool cs__validate_wants_text(const struct cs__validate_args *args);
void cs__validate_parse(struct cs__validate_args *args, bool calibrate, int argc, char **argv);

/** What calibration leaves, for `calibrate -o DIR`. Borrowed; NULL = was not fitted. */
struct cs__calibrated {
    const char *dir;
    const struct cs_catalogue *catalogue; /* as it was */
    const struct cs_testbed *bed;         /* with the fitted figures */
    struct cs_softwares *softwares;       /* fitted figures get their source */
    const struct cs_calibration *calibration;
    const struct cs_link_fits *links;
    const char *measured_chips; /* files that were fitted to */
    const char *measured_links;
};
/** Is `dir` a folder to write into? */
CS_MUST_CHECK cs_status cs__calibrated_check(const char *dir, struct cs_err *err);
/** Write chip-NAME.yaml, server-NAME.yaml and software.yaml of what was fitted, all of them or none. */
CS_MUST_CHECK cs_status cs__calibrated_write(const struct cs__calibrated *what, struct cs_err *err);

/** `calibrate --profile DIR`: fits to profiler output instead of cases. @return the exit status. */
bool cs__calibrates_profile(int argc, char **argv);
int cs__calibrate_profile(int argc, char **argv);

/** Cases, and hardware and software to run them on. Zero-initialise; cs__bench_release. */
struct cs__bench {
    struct cs__hardware hardware;
    struct cs_softwares softwares;
    struct cs_cases cases;
    struct cs_testbed bed;
    struct cs_case_run *runs;
    struct cs__progress progress;
    struct cs_validate_options options;
};
CS_MUST_CHECK cs_status cs__bench_load(struct cs__bench *bench, const struct cs__validate_args *args,
                                       struct cs_err *err);
void cs__bench_release(struct cs__bench *bench);
/** Write everything that was asked for; `calibration` and `links` may be NULL. */
CS_MUST_CHECK cs_status cs__bench_report(const struct cs__bench *bench, const struct cs__validate_args *args,
                                         const char *command, const struct cs_calibration *calibration,
                                         const struct cs_link_fits *links, struct cs_err *err);

#endif
