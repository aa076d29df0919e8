#include "cli_priv.h"

#include "cs/base/file.h"
#include "cs/reports/sweep.h"

#include <string.h>

#define OVER_MAX 16

struct sweep_args {
    struct cs__study_args study;
    struct cs__output_args output;
    struct cs__run_args run;
    const char *over[OVER_MAX];
    int32_t n_over;
    const char *strategy;
    const char *store;
    const char *svg;
    int32_t n_workers;
    int upgrades; /* -1 = as the study says */
};

enum { OPT_OVER = 1, OPT_STRATEGY, OPT_STORE, OPT_SVG, OPT_WORKERS, OPT_NO_UPGRADES };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct sweep_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->study;
        state->child_inputs[1] = &args->run;
        state->child_inputs[2] = &args->output;
        args->upgrades = -1;
        return 0;
    case OPT_OVER:
        if (args->n_over == OVER_MAX) {
            argp_error(state, "more than %d --over options", OVER_MAX);
        }
        args->over[args->n_over++] = arg;
        return 0;
    case OPT_STRATEGY:
        cs__option_once(state, &args->strategy, arg, "strategy");
        return 0;
    case OPT_STORE:
        args->store = arg;
        return 0;
    case OPT_SVG:
        args->svg = arg;
        return 0;
    case OPT_WORKERS:
        args->n_workers = (int32_t)cs__option_int(state, arg, 1, 1024, "workers");
        return 0;
    case OPT_NO_UPGRADES:
        args->upgrades = 0;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct sweep_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"over", OPT_OVER, "KEY=LIST", 0,
         "A key of the study and its values: nodes=8,16,32, ratio=1..20+1, devices=64..4096*2, "
         "nodes,global_batch=8:256,16:512; may be repeated",
         0},
        {"strategy", OPT_STRATEGY, "S", 0,
         "The same strategy at every point instead of each one's best; dp follows when it is left out", 0},
        {"store", OPT_STORE, "FILE", 0, "Keep finished points here and do not compute them again", 0},
        {"svg", OPT_SVG, "FILE", 0, "Write a chart", 0},
        {"workers", OPT_WORKERS, "N", 0, "Worker processes; one a processor without it", 0},
        {"no-upgrades", OPT_NO_UPGRADES, NULL, 0, "Do not find out what 10 % more of each resource gives", 0},
        {0},
    };
    static const struct argp_child children[] = {
        {&cs__study_argp, 0, NULL, 0}, {&cs__run_argp, 0, NULL, 0}, {&cs__output_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "STUDY --over KEY=LIST...",
        "What if: the study at every combination of values of some of its keys, each point with its best "
        "strategy.\v"
        "What is swept stands in the study's `sweep` block or in --over. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim sweep", argc, argv, args);
}

void cs__points_progress_show(void *context, int32_t n_done, int32_t n_points, double elapsed_s)
{
    struct cs__progress *progress = context;
    bool last = n_done >= n_points;
    if ((!progress->bar && !progress->lines) || (elapsed_s < progress->next_s && !last)) {
        return;
    }
    (void)fprintf(stderr, "%s%d of %d points done, %.0f s%s", progress->bar ? "\r" : "", (int)n_done,
                  (int)n_points, elapsed_s, progress->bar && !last ? "" : "\n");
    progress->open = progress->bar && !last;
    progress->next_s = elapsed_s + (progress->bar ? 0.1 : 10);
}

cs_status cs__points_store_open(struct cs_point_store **store, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (path) {
        CS_TRY(cs_point_store_open(store, path, err));
        int32_t n = cs_point_store_n_dropped(*store);
        if (n > 0) {
            (void)fprintf(stderr,
                          "clustersim: warning: %s: %d line%s no point as it was written and %s not used\n",
                          path, (int)n, n == 1 ? " is" : "s are", n == 1 ? "is" : "are");
        }
    }
out:
    return st;
}

/* The sweep of the study, with what the command line says on top. */
static cs_status read_sweep(struct cs_sweep *sweep, const struct sweep_args *args,
                            const struct cs_study_source *source, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_loc loc = {"command line", 0, 0};
    CS_TRY(cs_sweep_read(sweep, source, err));
    for (int32_t i = 0; i < args->n_over; i++) {
        CS_TRY(cs_sweep_add(sweep, args->over[i], loc, err));
    }
    if (args->strategy) {
        sweep->strategy = args->strategy;
        sweep->strategy_loc = loc;
    }
    sweep->upgrades = args->upgrades >= 0 ? args->upgrades > 0 : sweep->upgrades;
    if (sweep->n_axes == 0) {
        st = cs_err_set(
            err, CS_E_INPUT, CS_NOLOC,
            "nothing is swept: give the study a 'sweep' block with 'over', or use --over KEY=LIST");
        goto out;
    }
    CS_TRY(cs_sweep_check_set(sweep, source->n_overrides, source->overrides, err));
    CS_TRY(cs_sweep_check_strategy(sweep, err));
out:
    return st;
}

static void write_csv(FILE *out, const void *report)
{
    cs_report_sweep_csv(out, report);
}

static void write_svg(FILE *out, const void *report)
{
    cs_report_sweep_svg(out, report);
}

static int exit_status(const struct cs_sweep_report *report)
{
    int32_t n = cs_sweep_n_points(report->sweep);
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        if (report->points[i].outcome == CS_OUTCOME_OPEN) {
            return cs_status_exit(CS_E_INTERRUPTED);
        }
        any = any || report->points[i].outcome == CS_OUTCOME_OK;
    }
    return any ? 0 : cs_status_exit(CS_E_INFEASIBLE);
}

static cs_status write_reports(const struct sweep_args *args, const struct cs_sweep_report *report,
                               struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_report_origin origin = cs__origin("sweep");
    bool svg_out = args->svg && strcmp(args->svg, "-") == 0;
    if (cs__wants_text(&args->output) && !svg_out) {
        cs_report_sweep_text(stdout, report, cs__color());
    }
    CS_TRY(
        cs__write_json(&args->output, args->output.json ? cs_report_sweep_json(report, &origin) : NULL, err));
    CS_TRY(cs__write_file(args->output.csv, write_csv, report, err));
    CS_TRY(cs__write_file(args->svg, write_svg, report, err));
out:
    return st;
}

int cs__cmd_sweep(int argc, char **argv)
{
    static struct sweep_args args; /* large: it holds every --set */
    cs_status st = CS_OK;
    int exit_code = 0;
    struct cs_err err = {0};
    struct cs_arena arena = {0};
    struct cs_sweep sweep = {0};
    struct cs_point_store *store = NULL;
    struct cs__progress progress = {0};
    struct cs_point *points = NULL;
    parse_args(&args, argc, argv);
    cs__run_to_study(&args.run, &args.study);
    struct cs_study_source source = {.catalogue = cs__catalogue_over(),
                                     .path = args.study.study,
                                     .n_overrides = args.study.n_overrides,
                                     .overrides = args.study.overrides};
    CS_TRY(cs__data_dir(&arena, &source.data_dir, &err));
    CS_TRY(read_sweep(&sweep, &args, &source, &err));
    CS_TRY(cs__points_store_open(&store, args.store, &err));
    cs__progress_init(&progress, &args.output);
    struct cs_points_options options = {.source = &source,
                                        .strategy = sweep.strategy,
                                        .upgrades = sweep.upgrades,
                                        .run = args.run.options,
                                        .n_workers = args.n_workers,
                                        .stop = &cs__stop,
                                        .memory = store ? cs_point_store_memory(store) : NULL,
                                        .version = cs__origin("sweep").version,
                                        .progress = cs__points_progress_show,
                                        .progress_context = &progress};
    int32_t n = cs_sweep_n_points(&sweep);
    points = cs_calloc((size_t)n, sizeof *points);
    CS_TRY(cs_sweep_check_same(&sweep, &options, &err));
    cs__catch_signals();
    CS_TRY(cs_points_run(points, cs_sweep_specs(&sweep), n, &options, &err));
    cs__progress_end(&progress);
    struct cs_sweep_report report = {args.study.study, &sweep, points};
    CS_TRY(write_reports(&args, &report, &err));
    exit_code = exit_status(&report);
    if (store) {
        CS_TRY(cs_point_store_check(store, &err));
    }
out:
    if (st != CS_OK) {
        cs__progress_end(&progress);
        exit_code = cs__fail(&err);
    }
    cs_free(points);
    cs_point_store_free(store);
    cs_sweep_release(&sweep);
    cs_arena_release(&arena);
    return exit_code;
}
