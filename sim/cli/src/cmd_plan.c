#include "cli_priv.h"

#include "cs/base/file.h"
#include "cs/reports/plan.h"

#include <string.h>

struct plan_args {
    struct cs__study_args study;
    struct cs__output_args output;
    struct cs__run_args run;
    const char *store;
    const char *svg;
    int32_t n_workers;
};

enum { OPT_TOKENS = 1, OPT_DEADLINE, OPT_BUDGET, OPT_STORE, OPT_SVG, OPT_WORKERS };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct plan_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->study;
        state->child_inputs[1] = &args->run;
        state->child_inputs[2] = &args->output;
        return 0;
    case OPT_TOKENS:
        cs__study_args_set(&args->study, "plan.tokens", arg);
        return 0;
    case OPT_DEADLINE:
        cs__study_args_set(&args->study, "plan.deadline", arg);
        return 0;
    case OPT_BUDGET:
        cs__study_args_set(&args->study, "plan.budget", arg);
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
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct plan_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"tokens", OPT_TOKENS, "N", 0, "Tokens to train on: 15T", 0},
        {"deadline", OPT_DEADLINE, "TIME", 0, "Time until they must be done: 30d", 0},
        {"budget", OPT_BUDGET, "N", 0, "What it may cost, in the currency of the study's prices", 0},
        {"store", OPT_STORE, "FILE", 0, "Keep finished clusters here and do not compute them again", 0},
        {"svg", OPT_SVG, "FILE", 0, "Write the curve of scaling efficiency", 0},
        {"workers", OPT_WORKERS, "N", 0, "Worker processes; one a processor without it", 0},
        {0},
    };
    static const struct argp_child children[] = {
        {&cs__study_argp, 0, NULL, 0}, {&cs__run_argp, 0, NULL, 0}, {&cs__output_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options,
                                     parse,
                                     "STUDY",
                                     "Capacity planning: the smallest and the cheapest of the study's "
                                     "clusters that trains on so many tokens "
                                     "by the deadline or within the budget, each with its best strategy.\v"
                                     "The clusters, prices, power and failures stand in the study's `plan` "
                                     "block; none has a default. " CS__EXIT_STATUS_DOC,
                                     children,
                                     NULL,
                                     NULL};
    cs__parse(&argp, "clustersim plan", argc, argv, args);
}

static void write_csv(FILE *out, const void *report)
{
    cs_report_plan_csv(out, report);
}

static void write_svg(FILE *out, const void *report)
{
    cs_report_plan_svg(out, report);
}

static cs_status write_reports(const struct plan_args *args, const struct cs_plan_report *report,
                               struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_report_origin origin = cs__origin("plan");
    bool svg_out = args->svg && strcmp(args->svg, "-") == 0;
    if (cs__wants_text(&args->output) && !svg_out) {
        cs_report_plan_text(stdout, report, cs__color());
    }
    CS_TRY(
        cs__write_json(&args->output, args->output.json ? cs_report_plan_json(report, &origin) : NULL, err));
    CS_TRY(cs__write_file(args->output.csv, write_csv, report, err));
    CS_TRY(cs__write_file(args->svg, write_svg, report, err));
out:
    return st;
}

static int exit_status(const struct cs_plan_report *report)
{
    for (int32_t i = 0; i < report->plan->n_clusters; i++) {
        if (report->points[i].outcome == CS_OUTCOME_OPEN) {
            return cs_status_exit(CS_E_INTERRUPTED);
        }
    }
    return report->answer->smallest >= 0 ? 0 : cs_status_exit(CS_E_INFEASIBLE);
}

int cs__cmd_plan(int argc, char **argv)
{
    static struct plan_args args; /* large: it holds every --set */
    cs_status st = CS_OK;
    int exit_code = 0;
    struct cs_err err = {0};
    struct cs_arena arena = {0};
    struct cs_plan plan = {0};
    struct cs_point_store *store = NULL;
    struct cs__progress progress = {0};
    struct cs_point *points = NULL;
    struct cs_plan_answer answer = {0};
    parse_args(&args, argc, argv);
    cs__run_to_study(&args.run, &args.study);
    struct cs_study_source source = {.catalogue = cs__catalogue_over(),
                                     .path = args.study.study,
                                     .n_overrides = args.study.n_overrides,
                                     .overrides = args.study.overrides};
    CS_TRY(cs__data_dir(&arena, &source.data_dir, &err));
    CS_TRY(cs_plan_read(&plan, &source, &err));
    CS_TRY(cs__points_store_open(&store, args.store, &err));
    cs__progress_init(&progress, &args.output);
    struct cs_points_options options = {.source = &source,
                                        .run = args.run.options,
                                        .n_workers = args.n_workers,
                                        .stop = &cs__stop,
                                        .memory = store ? cs_point_store_memory(store) : NULL,
                                        .version = cs__origin("plan").version,
                                        .progress = cs__points_progress_show,
                                        .progress_context = &progress};
    points = cs_calloc((size_t)plan.n_clusters, sizeof *points);
    answer.rows = CS_ARENA_NEW(&arena, struct cs_plan_row, plan.n_clusters);
    cs__catch_signals();
    CS_TRY(cs_points_run(points, cs_plan_specs(&plan), plan.n_clusters, &options, &err));
    cs__progress_end(&progress);
    cs_plan_answer(&plan, points, &answer);
    struct cs_plan_report report = {args.study.study, &plan, points, &answer};
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
    cs_plan_release(&plan);
    cs_arena_release(&arena);
    return exit_code;
}
