#include "cli_priv.h"

#include "cs/engine/collective.h"
#include "cs/workloads/format.h"

#include <string.h>

enum format { FORMAT_NATIVE, FORMAT_CHAKRA, FORMAT_SMPI };
static const char *const format_names[] = {"native", "chakra", "smpi", NULL};

struct trace_args {
    struct cs__study_args study;
    const char *strategy;
    const char *output;
    enum format format;
    double host_flop_per_s; /* 0 = not said */
};

enum { OPT_STRATEGY = 1, OPT_FORMAT, OPT_HOST_SPEED };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct trace_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->study;
        return 0;
    case OPT_STRATEGY:
        cs__option_once(state, &args->strategy, arg, "strategy");
        return 0;
    case OPT_FORMAT:
        args->format = (enum format)cs__option_choice(state, arg, format_names, "trace format");
        return 0;
    case OPT_HOST_SPEED:
        args->host_flop_per_s = cs__option_quantity(state, arg, CS_UNIT_FLOP_PER_S, "host-speed");
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->output || args->output[0] == '\0') {
            argp_error(state, args->output ? "the folder to write to has no name: -o DIR"
                                           : "no folder given to write to: -o DIR");
        }
        if (args->host_flop_per_s > 0 && args->format != FORMAT_SMPI) {
            argp_error(state, "--host-speed is for --format smpi alone: the others carry no speed of hosts");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct trace_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"strategy", OPT_STRATEGY, "S", 0, "As for simulate", 0},
        {"output", 'o', "DIR", 0, "Folder to make; it must not exist, or be empty", 0},
        {"format", OPT_FORMAT, "F", 0,
         "native (default): one file a role; chakra: one .et a rank; smpi: one "
         "time-independent trace a rank",
         0},
        {"host-speed", OPT_HOST_SPEED, "RATE", 0,
         "smpi: speed of the hosts it will be replayed on; by default that of the devices of our platforms, "
         "the chip's peak in bf16 where it has one. nicN hosts have 1Gflop/s",
         0},
        {0},
    };
    static const struct argp_child children[] = {{&cs__study_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "STUDY --strategy S -o DIR",
        "Write what every rank does in one training step.\v"
        "The native format is described in workloads/TRACE_FORMAT.md; `clustersim replay` "
        "reads it and Chakra's. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim trace", argc, argv, args);
}

/* What the formats ask of the platform and the engine. */
struct writer {
    const struct cs_platform *platform;
};

static double op_time_s(const void *context, int32_t rank, const struct cs_op_cost *cost)
{
    const struct writer *writer = context;
    return cs_chip_op_time_s(writer->platform->devices[rank].chip, cost);
}

static cs_status coll_messages(const void *context, enum cs_coll coll, const int32_t *members,
                               int32_t n_members, double bytes, struct cs_arena *arena,
                               struct cs_coll_messages *messages, struct cs_err *err)
{
    const struct writer *writer = context;
    struct cs_coll_plan plan;
    (void)err;
    cs_coll_plan_build(coll, CS_ALGO_AUTO, writer->platform, members, n_members, bytes, arena, &plan);
    struct cs_coll_round *rounds = CS_ARENA_NEW(arena, struct cs_coll_round, plan.n_phases + 1);
    for (int32_t p = 0; p < plan.n_phases; p++) {
        const struct cs_coll_phase *phase = &plan.phases[p];
        struct cs_coll_message *list = CS_ARENA_NEW(arena, struct cs_coll_message, phase->n_flows + 1);
        for (int32_t i = 0; i < phase->n_flows; i++) {
            list[i] =
                (struct cs_coll_message){phase->flows[i].src, phase->flows[i].dst, phase->flows[i].bytes};
        }
        rounds[p] = (struct cs_coll_round){phase->n_rounds, phase->n_flows, list};
    }
    *messages = (struct cs_coll_messages){plan.n_phases, rounds};
    return CS_OK;
}

/* Speed of the hosts that replay: as said, or what our platforms write at a device of this chip. */
static double host_speed(const struct trace_args *args, const struct cs_chip *chip)
{
    static const enum cs_dtype order[] = {CS_DTYPE_BF16, CS_DTYPE_FP16, CS_DTYPE_FP32, CS_DTYPE_FP8};
    int32_t i = 0;
    while (i + 1 < CS_COUNT(order) && !cs_chip_has_dtype(chip, order[i])) {
        i++;
    }
    return args->host_flop_per_s > 0 ? args->host_flop_per_s : chip->peak_flop_per_s[order[i]];
}

static cs_status write_trace(const struct trace_args *args, const struct cs_platform *platform,
                             const struct cs_trace *trace, struct cs_err *err)
{
    const struct writer writer = {platform};
    const struct cs_smpi_options smpi = {op_time_s,
                                         &writer,
                                         coll_messages,
                                         &writer,
                                         host_speed(args, platform->devices[0].chip),
                                         platform->devices[0].chip->collective_overhead_s};
    switch (args->format) {
    case FORMAT_CHAKRA:
        return cs_trace_write_chakra(trace, op_time_s, &writer, args->output, err);
    case FORMAT_SMPI:
        return cs_trace_write_smpi(trace, &smpi, args->output, err);
    case FORMAT_NATIVE:
        break;
    }
    return cs_trace_write_native(trace, args->output, err);
}

int cs__cmd_trace(int argc, char **argv)
{
    static struct trace_args args; /* large: it holds every --set */
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs_study study = {0};
    struct cs_strategy strategy;
    struct cs_trace *trace = NULL;
    parse_args(&args, argc, argv);
    CS_TRY(cs__load_study(&study, &args.study, &err));
    CS_TRY(cs__choose_strategy(&study, args.strategy, &strategy, &err));
    CS_TRY(cs_trace_build(&study.model, &study.training, &strategy, &trace, &err));
    cs__catch_signals(); /* the folder is written whole; a second signal ends us */
    CS_TRY(write_trace(&args, &study.platform, trace, &err));
    (void)printf("%d ranks of %d roles in %s\n", (int)trace->n_ranks, (int)trace->n_programs, args.output);
    if (args.format == FORMAT_SMPI && cs_trace_smpi_loses(trace)) {
        (void)fprintf(stderr,
                      "warning: a replay by SMPI takes longer: a rank is one process there, so that copies "
                      "between host and device do not run beside its computing\n");
    }
    if (args.format == FORMAT_SMPI) {
        (void)printf("for hosts of %.9g Tflop/s\n",
                     1e-12 * host_speed(&args, study.platform.devices[0].chip));
    }
out:
    cs_trace_free(trace);
    cs_study_release(&study);
    return st == CS_OK ? 0 : cs__fail(&err);
}
