#include "validate_priv.h"

#include "cs/base/file.h"
#include "cs/strategies/intervals.h"

#include <math.h>
#include <string.h>

enum {
    OPT_SVG = 1,
    OPT_MARKDOWN,
    OPT_WORKERS,
    OPT_ROUNDS,
    OPT_STARTS,
    OPT_CROSS,
    OPT_FOLDS,
    OPT_PLAIN,
    OPT_INTERVALS,
    OPT_COLLECTIVES,
    OPT_DOUBTS,
    OPT_ONLY
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct cs__validate_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->output;
        return 0;
    case OPT_SVG:
        args->svg = arg;
        return 0;
    case OPT_MARKDOWN:
        args->markdown = arg;
        return 0;
    case OPT_PLAIN:
        args->plain = true;
        return 0;
    case OPT_INTERVALS:
        args->intervals = arg;
        return 0;
    case OPT_WORKERS:
        args->n_workers = (int32_t)cs__option_int(state, arg, 1, 1024, "workers");
        return 0;
    case 'o':
        args->catalogue = arg;
        return 0;
    case OPT_ROUNDS:
        args->n_rounds = (int32_t)cs__option_int(state, arg, 1, 20, "rounds");
        return 0;
    case OPT_STARTS:
        args->n_starts = (int32_t)cs__option_int(state, arg, 1, 1000, "starts");
        return 0;
    case OPT_COLLECTIVES:
        args->collectives = arg;
        return 0;
    case OPT_DOUBTS:
        args->doubts = arg;
        return 0;
    case OPT_ONLY:
        if (!cs_calibrate_knows(arg)) {
            argp_error(state, "no figure of the chip '%s' is fitted to runs", arg);
        }
        args->only = arg;
        return 0;
    case OPT_FOLDS:
        args->n_folds = (int32_t)cs__option_int(state, arg, 2, 1000, "folds");
        return 0;
    case OPT_CROSS:
        args->cross_validate = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->cases) {
            argp_error(state, "one file of cases at a time, but there are '%s' and '%s'", args->cases, arg);
        }
        args->cases = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->cases && !args->collectives) {
            argp_error(state, "no file of cases given");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

#define SHARED_OPTIONS                                                                                       \
    {"doubts",                                                                                               \
     OPT_DOUBTS,                                                                                             \
     "FILE",                                                                                                 \
     0,                                                                                                      \
     "Why measurements are doubtful (columns id, reason): listed, and sums are given with and without",      \
     0},                                                                                                     \
        {"svg", OPT_SVG, "FILE", 0, "Write simulated over measured times as a drawing", 0},                  \
        {"markdown", OPT_MARKDOWN, "FILE", 0, "Write the whole report as a page", 0},                        \
    {                                                                                                        \
        "workers", OPT_WORKERS, "N", 0, "Worker processes; one a processor without it", 0                    \
    }

void cs__validate_parse(struct cs__validate_args *args, bool calibrate, int argc, char **argv)
{
    static const struct argp_option validate_options[] = {
        SHARED_OPTIONS,
        {"plain", OPT_PLAIN, NULL, 0, "Without the figures of each run's software, as a study is simulated",
         0},
        {"intervals", OPT_INTERVALS, "FILE", 0,
         "Write between which multiples of the simulated step the runs lie, by chip", 0},
        {0}};
    static const struct argp_option calibrate_options[] = {
        SHARED_OPTIONS,
        {"output", 'o', "DIR", 0,
         "Write what was fitted there, for --catalogue: chip-NAME.yaml, server-NAME.yaml, software.yaml", 0},
        {"rounds", OPT_ROUNDS, "N", 0, "Simulate and fit so many times (2)", 0},
        {"starts", OPT_STARTS, "N", 0,
         "Fit from so many places, drawn from what the figures are drawn to, and keep the best (1)", 0},
        {"collectives", OPT_COLLECTIVES, "FILE", 0,
         "Fit the links inside servers to measured collectives, with CASES.csv or alone", 0},
        {"only", OPT_ONLY, "CHIP", 0,
         "Fit the figures of this chip and its generation to their own runs, keep all others", 0},
        {"cross-validate", OPT_CROSS, NULL, 0, "Predict each group with figures fitted without it", 0},
        {"folds", OPT_FOLDS, "N", 0,
         "Predict each N-th of the runs, drawn at random, with figures fitted without it", 0},
        {0}};
    static const struct argp_child children[] = {{&cs__output_argp, 0, NULL, 0}, {0}};
    static const struct argp validate_argp = {
        validate_options,
        parse,
        "CASES.csv",
        "Simulate published training runs and compare: error by hardware, source and dimension, order of "
        "strategies, memory.\v"
        "Columns are found by name: those of tests/data/measured/training_runs.csv. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    static const struct argp calibrate_argp = {
        calibrate_options,
        parse,
        "CASES.csv\n--collectives FILE\n--profile DIR --chip NAME",
        "Fit figures of chips and of training software to published runs, and say which of them the runs "
        "determine.\v"
        "With --profile, fit a chip to the kernels of profiler output instead: `clustersim calibrate "
        "--profile . "
        "--help`. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    args->n_rounds = 2;
    args->n_starts = 1;
    cs__parse(calibrate ? &calibrate_argp : &validate_argp,
              calibrate ? "clustersim calibrate" : "clustersim validate", argc, argv, args);
}

cs_status cs__validate_check(const struct cs__validate_args *args, struct cs_err *err)
{
    cs_status st = CS_OK;
    const char *const inputs[] = {args->cases, args->collectives, args->doubts};
    const char *const outputs[] = {args->output.json, args->output.csv, args->svg, args->markdown,
                                   args->intervals};
    for (int32_t i = 0; i < CS_COUNT(inputs); i++) {
        for (int32_t k = 0; k < CS_COUNT(outputs); k++) {
            if (inputs[i] && outputs[k] && strcmp(inputs[i], outputs[k]) == 0) {
                st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){inputs[i], 0, 0},
                                "is read, and should be overwritten with a result");
                goto out;
            }
        }
    }
    CS_TRY(cs__check_outputs(outputs, CS_COUNT(outputs), err));
    if (args->catalogue) {
        CS_TRY(cs__calibrated_check(args->catalogue, err));
    }
out:
    return st;
}

bool cs__validate_wants_text(const struct cs__validate_args *args)
{
    const char *const files[] = {args->svg, args->markdown, args->intervals};
    bool wants = cs__wants_text(&args->output);
    for (int32_t i = 0; i < CS_COUNT(files); i++) {
        wants &= !(files[i] && strcmp(files[i], "-") == 0);
    }
    return wants;
}

static void show(void *context, int32_t done, int32_t of)
{
    cs__points_progress_show(context, done, of, ((struct cs__progress *)context)->next_s);
}

/* Every software by the figures of the last one, which matches any source, and without what a study has no
 * word for. What a study says itself (fused attention, overlap, which kernels are fused) stays. */
static void forget_figures(struct cs_softwares *list)
{
    for (int32_t i = 0; i < list->n; i++) {
        struct cs_software *s = &list->items[i];
        memcpy(s->figure, list->items[list->n - 1].figure, sizeof s->figure);
        s->serial_messages = s->elementary_optimizer = s->norm_casts = s->tensor_bias = false;
        s->softmax_multiple = 0;
    }
}

/* The shipped ones, or those beside the catalogue that is used instead. */
static cs_status load_softwares(struct cs__bench *bench, struct cs_err *err)
{
    struct cs_arena *arena = &bench->hardware.arena;
    const char *over = cs__catalogue_over();
    const char *path = over ? cs_path_join(arena, over, "software.yaml") : NULL;
    if (!path || !cs_file_exists(path)) {
        path = cs_path_join(arena, bench->hardware.data_dir, "strategies/software/software.yaml");
    }
    return cs_softwares_load(&bench->softwares, path, err);
}

cs_status cs__bench_load(struct cs__bench *bench, const struct cs__validate_args *args, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(cs__hardware_load(&bench->hardware, NULL, err));
    CS_TRY(load_softwares(bench, err));
    if (args->plain) {
        forget_figures(&bench->softwares);
    }
    CS_TRY(cs_cases_load(&bench->cases, args->cases, &bench->softwares, err));
    if (args->doubts) {
        CS_TRY(cs_cases_doubt(&bench->cases, args->doubts, err));
    }
    cs_testbed_init(&bench->bed, bench->hardware.catalogue);
    cs__progress_init(&bench->progress, &args->output);
    bench->runs = cs_calloc((size_t)bench->cases.n + 1, sizeof *bench->runs);
    bench->options = (struct cs_validate_options){.n_workers = args->n_workers,
                                                  .simgrid_cfg = cs__simgrid_cfg(),
                                                  .stop = &cs__stop,
                                                  .progress = bench->progress.bar ? show : NULL,
                                                  .progress_context = &bench->progress};
out:
    return st;
}

void cs__bench_release(struct cs__bench *bench)
{
    cs__progress_end(&bench->progress);
    cs_free(bench->runs);
    cs_testbed_release(&bench->bed);
    cs_cases_release(&bench->cases);
    cs_softwares_release(&bench->softwares);
    cs__hardware_release(&bench->hardware);
}

static void find_errors(struct cs_errors *errors, const struct cs__bench *bench)
{
    double *simulated_s = cs_calloc((size_t)bench->cases.n + 1, sizeof *simulated_s);
    double *analytic_s = cs_calloc((size_t)bench->cases.n + 1, sizeof *analytic_s);
    for (int32_t i = 0; i < bench->cases.n; i++) {
        simulated_s[i] = bench->runs[i].simulated_s;
        analytic_s[i] = bench->runs[i].analytic_s;
    }
    cs_errors_find(errors, &bench->cases, simulated_s, analytic_s);
    cs_free(simulated_s);
    cs_free(analytic_s);
}

/* Errors of predictions of cases that the fit had not seen. */
static void find_predicted(struct cs_errors *errors, const struct cs__bench *bench,
                           const struct cs_calibration *calibration, bool folds)
{
    double *predicted_s = cs_calloc((size_t)bench->cases.n + 1, sizeof *predicted_s);
    for (int32_t i = 0; i < bench->cases.n; i++) {
        const struct cs_fit_prediction *p = &calibration->predictions[i];
        predicted_s[i] = folds ? p->fold_s : p->held_out_s; /* 0 = none */
    }
    cs_errors_find(errors, &bench->cases, predicted_s, NULL);
    cs_free(predicted_s);
}

static cs_status write_intervals(const struct cs__bench *bench, const struct cs__validate_args *args,
                                 struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_outfile file = {0};
    struct cs_intervals intervals = {0};
    char command[512];
    double *simulated_s = cs_calloc((size_t)bench->cases.n + 1, sizeof *simulated_s);
    for (int32_t i = 0; i < bench->cases.n; i++) {
        simulated_s[i] = bench->runs[i].simulated_s;
    }
    cs_intervals_find(&intervals, &bench->cases, &bench->bed, simulated_s);
    (void)snprintf(command, sizeof command, "clustersim validate %.200s%s --intervals %.200s", args->cases,
                   args->plain ? " --plain" : "", args->intervals);
    CS_TRY(cs_outfile_open(&file, args->intervals, err));
    cs_intervals_write(&intervals, file.stream, command);
    CS_TRY(cs_outfile_commit(&file, err));
out:
    cs_outfile_release(&file);
    cs_intervals_release(&intervals);
    cs_free(simulated_s);
    return st;
}

static cs_status write_files(const struct cs__validate_args *args, const struct cs_validate_report *report,
                             const char *command, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_outfile csv = {0};
    struct cs_outfile svg = {0};
    struct cs_outfile page = {0};
    char text[512];
    if (args->output.csv) {
        CS_TRY(cs_outfile_open(&csv, args->output.csv, err));
        cs_report_validate_csv(csv.stream, report);
        CS_TRY(cs_outfile_commit(&csv, err));
    }
    if (args->svg) {
        CS_TRY(cs_outfile_open(&svg, args->svg, err));
        cs_report_validate_svg(svg.stream, report);
        CS_TRY(cs_outfile_commit(&svg, err));
    }
    if (args->markdown) {
        char rounds[96] = "";
        char starts[32] = "";
        char folds[32] = "";
        if (strcmp(command, "calibrate") == 0) {
            (void)snprintf(starts, sizeof starts, " --starts %d", (int)args->n_starts);
            (void)snprintf(folds, sizeof folds, " --folds %d", (int)args->n_folds);
            (void)snprintf(rounds, sizeof rounds, " --rounds %d%s%s", (int)args->n_rounds,
                           args->n_starts > 1 ? starts : "", args->n_folds > 1 ? folds : "");
        }
        (void)snprintf(
            text, sizeof text, "clustersim %s %.120s%s%.120s%s%s%s%.120s --markdown %.120s", command,
            args->cases, args->doubts ? " --doubts " : "", args->doubts ? args->doubts : "", rounds,
            args->cross_validate ? " --cross-validate" : "", args->collectives ? " --collectives " : "",
            args->collectives ? args->collectives : "", args->markdown);
        CS_TRY(cs_outfile_open(&page, args->markdown, err));
        cs_report_validate_markdown(page.stream, report, text);
        CS_TRY(cs_outfile_commit(&page, err));
    }
out:
    cs_outfile_release(&csv);
    cs_outfile_release(&svg);
    cs_outfile_release(&page);
    return st;
}

cs_status cs__bench_report(const struct cs__bench *bench, const struct cs__validate_args *args,
                           const char *command, const struct cs_calibration *calibration,
                           const struct cs_link_fits *links, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_errors errors = {0};
    struct cs_errors held_out = {0};
    struct cs_errors folds = {0};
    struct cs_report_origin origin = cs__origin(command);
    find_errors(&errors, bench);
    if (calibration && calibration->n_groups > 0) {
        find_predicted(&held_out, bench, calibration, false);
    }
    if (calibration && calibration->n_folds > 0) {
        find_predicted(&folds, bench, calibration, true);
    }
    struct cs_validate_report report = {.path = args->cases,
                                        .cases = &bench->cases,
                                        .runs = bench->runs,
                                        .errors = &errors,
                                        .calibration = calibration,
                                        .held_out = held_out.n_sets ? &held_out : NULL,
                                        .folds = folds.n_sets ? &folds : NULL,
                                        .links = links};
    if (cs__validate_wants_text(args)) {
        if (calibration) {
            cs_report_calibrate_text(stdout, calibration);
            (void)fputc('\n', stdout);
        }
        cs_report_validate_text(stdout, &report);
        if (links) {
            (void)fputc('\n', stdout);
            cs_report_links_text(stdout, links);
        }
    }
    CS_TRY(cs__write_json(&args->output, args->output.json ? cs_report_validate_json(&report, &origin) : NULL,
                          err));
    CS_TRY(write_files(args, &report, command, err));
    if (args->intervals) {
        CS_TRY(write_intervals(bench, args, err));
    }
out:
    cs_errors_release(&errors);
    cs_errors_release(&held_out);
    cs_errors_release(&folds);
    return st;
}

int cs__cmd_validate(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs__validate_args args = {0};
    struct cs__bench bench = {0};
    cs__validate_parse(&args, false, argc, argv);
    CS_TRY(cs__validate_check(&args, &err));
    CS_TRY(cs__bench_load(&bench, &args, &err));
    cs__catch_signals();
    CS_TRY(cs_validate_run(&bench.cases, &bench.bed, &bench.options, bench.runs, &err));
    cs__progress_end(&bench.progress);
    CS_TRY(cs__bench_report(&bench, &args, "validate", NULL, NULL, &err));
out:
    cs__bench_release(&bench);
    return st == CS_OK ? 0 : cs__fail(&err);
}
