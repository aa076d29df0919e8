#include "mindformers_priv.h"

#include "cs/base/file.h"
#include "cs/reports/csv.h"
#include "cs/reports/timeline.h"

#include <math.h>
#include <string.h>

struct simulate_args {
    struct cs__study_args study;
    struct cs__output_args output;
    struct cs__run_args run;
    const char *strategy;
    const char *mindformers;
    struct cs__mindformers config; /* of that file */
    const char *timeline;
    bool explain_folding;
    int64_t n_repeats; /* 0 = once, without a spread */
};

enum { OPT_STRATEGY = 1, OPT_TIMELINE, OPT_EXPLAIN, OPT_REPEAT, OPT_MINDFORMERS };

#define REPEATS_MAX 100000

/* Do two outputs go to one place? */
static bool same_place(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool to_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct simulate_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->study;
        state->child_inputs[1] = &args->run;
        state->child_inputs[2] = &args->output;
        return 0;
    case OPT_STRATEGY:
        cs__option_once(state, &args->strategy, arg, "strategy");
        return 0;
    case OPT_MINDFORMERS:
        cs__option_once(state, &args->mindformers, arg, "mindformers");
        args->study.is_optional = true;
        return 0;
    case OPT_TIMELINE:
        args->timeline = arg;
        return 0;
    case OPT_EXPLAIN:
        args->explain_folding = true;
        return 0;
    case OPT_REPEAT:
        args->n_repeats = cs__option_int(state, arg, 2, REPEATS_MAX, "repeat");
        return 0;
    case ARGP_KEY_END:
        if (args->n_repeats > 0 && args->timeline) {
            argp_error(state, "--timeline shows one run: leave out --repeat");
        }
        if (to_stdout(args->timeline) && (to_stdout(args->output.json) || to_stdout(args->output.csv))) {
            argp_error(state, "only one of --json, --csv and --timeline can go to standard output");
        }
        if (same_place(args->timeline, args->output.json) || same_place(args->timeline, args->output.csv)) {
            argp_error(state, "only one of --json, --csv and --timeline can go to %s", args->timeline);
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct simulate_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"strategy", OPT_STRATEGY, "S", 0,
         "dp=16,mp=2,pp=2,op=2,recompute=full; what it leaves out takes the study's pinned value, else 1, "
         "none "
         "or the schedule's default",
         0},
        {"mindformers", OPT_MINDFORMERS, "FILE", 0,
         "Take model, training and strategy from a MindFormers run_*.yaml; what it asks for and is not "
         "modelled "
         "is listed. Other options win over it; a STUDY beside it says the rest (platform, constraints, "
         "faults), "
         "and one that says what FILE says is refused. Without a platform (-p, --set, STUDY) on as many "
         "devices "
         "as FILE asks for, eight a server of the default type",
         0},
        {"timeline", OPT_TIMELINE, "FILE", 0, "Write every rank's step as Chrome/Perfetto trace events", 0},
        {"explain-folding", OPT_EXPLAIN, NULL, 0,
         "Say which ranks were simulated as one, and why the others were not", 0},
        {"repeat", OPT_REPEAT, "N", 0, "Run N times, with --jitter under N seeds, and give the spread", 0},
        {0},
    };
    static const struct argp_child children[] = {
        {&cs__study_argp, 0, NULL, 0}, {&cs__run_argp, 0, NULL, 0}, {&cs__output_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "STUDY --strategy S\n-m MODEL -p PLATFORM --set KEY=VALUE... --strategy S\n"
        "--mindformers FILE [-p PLATFORM | STUDY]",
        "Simulate one training step under one strategy: time, bubble, communication, memory.\v"
        "STUDY is a study file or the name of a shipped one. A strategy that does not fit in memory is "
        "simulated as if memory were larger, and ends in 3. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim simulate", argc, argv, args);
}

static void write_timeline(FILE *out, const void *report)
{
    struct cs_report_origin origin = cs__origin("simulate");
    cs_report_timeline(out, report, &origin);
}

static void write_csv(FILE *out, const void *report)
{
    cs_report_simulate_csv(out, report);
}

/* Runs beyond the first, each with the next seed. */
static cs_status repeat(struct cs_simulator *simulator, const struct cs_strategy *strategy, int64_t n,
                        double first_s, struct cs_spread *spread, struct cs_err *err)
{
    cs_status st = CS_OK;
    double sum_s = first_s;
    double squares = 0; /* about the first run's time, which keeps them small */
    *spread = (struct cs_spread){.n = (int32_t)n, .least_s = first_s, .most_s = first_s};
    for (int64_t i = 1; i < n; i++) {
        struct cs_trace *trace = NULL;
        struct cs_run run = {0};
        struct cs_evaluation evaluation;
        simulator->options.seed++;
        CS_TRY(cs_simulator_run(simulator, strategy, &trace, &run, &evaluation, err));
        double time_s = evaluation.metrics.iteration_s;
        cs_run_release(&run);
        cs_trace_free(trace);
        sum_s += time_s;
        squares += (time_s - first_s) * (time_s - first_s);
        spread->least_s = fmin(spread->least_s, time_s);
        spread->most_s = fmax(spread->most_s, time_s);
    }
    spread->mean_s = sum_s / (double)n;
    double offset_s = spread->mean_s - first_s;
    spread->deviation_s = sqrt(fmax(0, squares - (double)n * offset_s * offset_s) / (double)(n - 1));
out:
    return st;
}

/* The strategy to run. One that breaks a rule is an error, of which --json says the same for programs. */
static cs_status choose_strategy(const struct simulate_args *args, const struct cs_study *study,
                                 struct cs_strategy *strategy, struct cs_err *err)
{
    struct cs_err ignored = {0};
    struct cs_report_origin origin = cs__origin("simulate");
    /* A configuration's settings stand beside --set, but --strategy is to change them. */
    cs_status refused = args->config.path ? cs_study_strategy(study, args->strategy, strategy, err)
                                          : cs__choose_strategy(study, args->strategy, strategy, err);
    if (refused == CS_OK || cs_study_strategy_read(study, args->strategy, strategy, &ignored) != CS_OK) {
        return refused;
    }
    cs__mindformers_blame(&args->config, err);
    if (args->output.json) {
        json_t *object = cs_report_refused_json(strategy, err->text, study, &origin);
        cs__mindformers_add_warnings(&args->config, &study->model, object);
        cs_status st = cs__write_json(&args->output, object, &ignored);
        if (st != CS_OK) {
            *err = ignored;
            return st;
        }
    }
    return refused;
}

static json_t *result_json(const struct simulate_args *args, const struct cs_simulate_report *report)
{
    struct cs_report_origin origin = cs__origin("simulate");
    json_t *object = cs_report_simulate_json(report, &origin);
    cs__mindformers_add_warnings(&args->config, &report->study->model, object);
    return object;
}

static cs_status simulate(const struct simulate_args *args, const struct cs_study *study, int *exit_code,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_simulator simulator = {0};
    struct cs_strategy strategy;
    struct cs_evaluation evaluation;
    struct cs_trace *trace = NULL;
    struct cs_run run = {0};
    struct cs_run_options options = args->run.options;
    if (options.fidelity == CS_FIDELITY_ANALYTIC &&
        (args->timeline || args->n_repeats > 0 || args->explain_folding || args->output.csv)) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                        "with --fidelity analytic nothing runs: leave out --timeline, --repeat, "
                        "--explain-folding and --csv");
        goto out;
    }
    CS_TRY(choose_strategy(args, study, &strategy, err));
    options.timeline = args->timeline != NULL;
    CS_TRY(cs_simulator_init(&simulator, study, &options, err));
    CS_TRY(cs_simulator_run(&simulator, &strategy, &trace, &run, &evaluation, err));
    struct cs_simulate_report report = {study, &strategy, &evaluation,          trace,
                                        &run,  NULL,      args->explain_folding};
    struct cs_spread spread;
    if (args->n_repeats > 0) {
        CS_TRY(repeat(&simulator, &strategy, args->n_repeats, evaluation.metrics.iteration_s, &spread, err));
        report.spread = &spread;
    }
    cs__catch_signals(); /* files are written whole, or their temporaries removed */
    CS_TRY(cs__write_file(args->timeline, write_timeline, &report, err));
    CS_TRY(cs__write_file(args->output.csv, write_csv, &report, err));
    CS_TRY(cs__write_json(&args->output, args->output.json ? result_json(args, &report) : NULL, err));
    if (cs__wants_text(&args->output) && !to_stdout(args->timeline)) {
        cs_report_simulate_text(stdout, &report, cs__color());
    }
    *exit_code = evaluation.outcome == CS_OUTCOME_OK ? 0 : cs_status_exit(CS_E_INFEASIBLE);
out:
    cs_run_release(&run);
    cs_trace_free(trace);
    cs_simulator_release(&simulator);
    return st;
}

/* A configuration that is refused is an error, of which --json says the same for programs: with its file,
 * when that is `file`; other files are not what is refused. */
static cs_status say_refused(const struct simulate_args *args, const char *file, cs_status st,
                             struct cs_err *err)
{
    struct cs_err ignored = {0};
    struct cs_report_origin origin = cs__origin("simulate");
    if ((st != CS_E_INPUT && st != CS_E_LIMIT) || !args->output.json || strcmp(err->file, file) != 0) {
        return st;
    }
    char reason[CS_ERR_TEXT_MAX + CS_ERR_FILE_MAX + 16];
    if (err->line > 0) {
        (void)snprintf(reason, sizeof reason, "%s:%d: %s", err->file, err->line, err->text);
    } else {
        (void)snprintf(reason, sizeof reason, "%s", err->text);
    }
    cs_status written =
        cs__write_json(&args->output, cs_report_refused_json(NULL, reason, NULL, &origin), &ignored);
    if (written != CS_OK) {
        *err = ignored;
        return written;
    }
    return st;
}

int cs__cmd_simulate(int argc, char **argv)
{
    static struct simulate_args args; /* large: it holds every --set */
    cs_status st = CS_OK;
    int exit_code = 0;
    struct cs_err err = {0};
    struct cs_study study = {0};
    parse_args(&args, argc, argv);
    cs__run_to_study(&args.run, &args.study);
    if (args.mindformers) {
        st = cs__mindformers_apply(&args.config, args.mindformers, args.strategy, &args.study, &err);
        CS_TRY(err.line > 0 ? say_refused(&args, args.mindformers, st, &err) : st);
    }
    st = cs__load_study(&study, &args.study, &err);
    if (st != CS_OK) {
        cs__mindformers_name_gaps(&args.config, &args.study, &err);
        /* Its settings come as those of the command line do. */
        st = args.mindformers ? say_refused(&args, "command line", st, &err) : st;
        goto out;
    }
    CS_TRY(simulate(&args, &study, &exit_code, &err));
out:
    if (st != CS_OK) {
        exit_code = cs__fail(&err);
    }
    cs_study_release(&study);
    cs__mindformers_release(&args.config);
    return exit_code;
}
