#include "cli_priv.h"

#include "cs/workloads/format.h"

#include <string.h>

struct replay_args {
    struct cs__run_args run;
    struct cs__output_args output;
    const char *dir;
    const char *platform;
    double memory_margin;
    bool explain_folding;
};

enum { OPT_EXPLAIN = 1, OPT_MARGIN };

static double parse_margin(struct argp_state *state, const char *text)
{
    struct cs_err err = {0};
    double margin = 0;
    if (cs_real_parse(text, "memory margin", CS_NOLOC, &margin, &err) != CS_OK) {
        argp_error(state, "'--memory-margin': %s", err.text);
    } else if (!(margin >= 1 && margin <= 10)) {
        argp_error(state, "'--memory-margin %s': expected 1 to 10", text);
    }
    return margin;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct replay_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->run;
        state->child_inputs[1] = &args->output;
        return 0;
    case 'p':
        args->platform = arg;
        return 0;
    case OPT_MARGIN:
        args->memory_margin = parse_margin(state, arg);
        return 0;
    case OPT_EXPLAIN:
        args->explain_folding = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->dir) {
            argp_error(state, "one trace at a time, but there are '%s' and '%s'", args->dir, arg);
        }
        args->dir = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->dir || !args->platform) {
            argp_error(state, "%s",
                       args->dir ? "no platform given: -p PLATFORM" : "no folder of traces given");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct replay_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"platform", 'p', "PLATFORM", 0, "Shipped platform or SimGrid XML file", 0},
        {"memory-margin", OPT_MARGIN, "X", 0,
         "The peak times this must fit in a device's memory (default 1.2, as a study's memory_margin)", 0},
        {"explain-folding", OPT_EXPLAIN, NULL, 0,
         "Say which ranks were replayed as one, and why the others were not", 0},
        {0},
    };
    static const struct argp_child children[] = {
        {&cs__run_argp, 0, NULL, 0}, {&cs__json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "DIR -p PLATFORM",
        "Replay the traces of a folder: clustersim's own format (binding.txt) or Chakra's "
        "(NAME.0.et, ...).\vRank r runs on device r of the platform. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim replay", argc, argv, args);
}

/* What a trace left open, on standard error: the figures depend on it. */
static void print_notes(const struct cs_chakra_notes *notes)
{
    if (notes->n_stranger_roles > 0) {
        (void)fprintf(stderr,
                      "clustersim: warning: %lld files role-N.txt are not among the roles of binding.txt and "
                      "are not read\n",
                      (long long)notes->n_stranger_roles);
    }
    if (notes->n_counted > 0) {
        (void)fprintf(
            stderr,
            "clustersim: warning: %lld of %lld nodes give an operation count and no duration: they take "
            "what a matrix product of that size takes\n",
            (long long)notes->n_counted, (long long)notes->n_nodes);
    }
    if (notes->n_untimed > 0) {
        (void)fprintf(stderr,
                      "clustersim: warning: %lld of %lld nodes compute and give neither a duration nor an "
                      "operation count for a device: they take no time\n",
                      (long long)notes->n_untimed, (long long)notes->n_nodes);
    }
    if (notes->n_memory_untimed > 0) {
        (void)fprintf(stderr,
                      "clustersim: warning: %lld of %lld nodes load or store memory without a duration: they "
                      "take no time\n",
                      (long long)notes->n_memory_untimed, (long long)notes->n_nodes);
    }
}

int cs__cmd_replay(int argc, char **argv)
{
    static struct replay_args args = {.memory_margin = CS_MEMORY_MARGIN};
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs__hardware hardware = {0};
    struct cs_routes *routes = NULL;
    struct cs_trace *trace = NULL;
    struct cs_chakra_notes notes = {0};
    struct cs_run run = {0};
    bool fits = true;
    struct cs_report_origin origin = cs__origin("replay");
    parse_args(&args, argc, argv);
    CS_TRY(cs__hardware_load(&hardware, args.platform, &err));
    CS_TRY(cs_trace_read(args.dir, &trace, &notes, &err));
    print_notes(&notes);
    routes = cs_routes_new(&hardware.platform, cs__simgrid_cfg());
    CS_TRY(cs_engine_run(trace, routes, &args.run.options, &run, &err));
    struct cs_replay_report report = {.source = args.dir,
                                      .platform = &hardware.platform,
                                      .trace = trace,
                                      .run = &run,
                                      .memory_margin = args.memory_margin,
                                      .explain_folding = args.explain_folding};
    CS_TRY(cs__write_json(&args.output, args.output.json ? cs_report_replay_json(&report, &origin) : NULL,
                          &err));
    if (cs__wants_text(&args.output)) {
        cs_report_replay_text(stdout, &report);
    }
    fits = cs_report_replay_fits(&report);
out:
    cs_run_release(&run);
    cs_routes_free(routes);
    cs_trace_free(trace);
    cs__hardware_release(&hardware);
    return st != CS_OK ? cs__fail(&err) : fits ? 0 : cs_status_exit(CS_E_INFEASIBLE);
}
