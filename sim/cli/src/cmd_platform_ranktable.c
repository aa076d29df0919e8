#include "cli_priv.h"

#include "cs/base/file.h"

#include <string.h>

struct ranktable_args {
    struct cs__study_args study;
    const char *strategy;
    const char *output;
};

enum { OPT_STRATEGY = 1 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct ranktable_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->study;
        args->output = "-";
        return 0;
    case OPT_STRATEGY:
        cs__option_once(state, &args->strategy, arg, "strategy");
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct ranktable_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"strategy", OPT_STRATEGY, "S", 0, "Whose placement; the study's pinned values without it", 0},
        {"output", 'o', "FILE", 0, "Where to write; standard output without it", 0},
        {0},
    };
    static const struct argp_child children[] = {{&cs__study_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "STUDY",
        "Write an HCCL rank table (version 1.0) that puts a strategy's placement into effect for a framework "
        "which numbers its ranks mp, cp, dp, pp from the inside out. Addresses are those of the study's rank "
        "table if it has one, else 0.0.0.0 to be filled in.\v" CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim platform ranktable", argc, argv, args);
}

int cs__cmd_platform_ranktable(int argc, char **argv)
{
    static struct ranktable_args args; /* large: it holds every --set */
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs_study study = {0};
    struct cs_strategy strategy;
    struct cs_outfile file = {0};
    int32_t *device_of_rank = NULL;
    parse_args(&args, argc, argv);
    CS_TRY(cs__load_study(&study, &args.study, &err));
    CS_TRY(cs__choose_strategy(&study, args.strategy, &strategy, &err));
    device_of_rank = cs_calloc((size_t)study.platform.n_devices, sizeof *device_of_rank);
    cs_study_placement(&study, &strategy, device_of_rank);
    CS_TRY(cs_outfile_open(&file, args.output, &err));
    CS_TRY(cs_ranktable_write(&study.platform, device_of_rank, study.platform.n_devices,
                              study.ranktable.n_ranks > 0 ? &study.ranktable : NULL, file.stream, &err));
    CS_TRY(cs_outfile_commit(&file, &err));
out:
    cs_free(device_of_rank);
    cs_outfile_release(&file);
    cs_study_release(&study);
    return st == CS_OK ? 0 : cs__fail(&err);
}
