#include "cli_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <string.h>

struct collective_args {
    struct cs__output_args output;
    const char *platform;
    const char *ranks;
    enum cs_coll coll;
    bool has_coll;
    double bytes; /* 0 = not given */
    const char *bytes_text;
    enum cs_algorithm algorithm; /* auto = all */
    enum cs_view view;
};

enum { OPT_KIND = 1, OPT_BYTES, OPT_RANKS, OPT_ALGORITHM, OPT_VIEW };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct collective_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->output;
        args->view = CS_VIEW_AUTO; /* all of them */
        return 0;
    case 'p':
        args->platform = arg;
        return 0;
    case OPT_KIND:
        args->coll = (enum cs_coll)cs__option_choice(state, arg, cs_coll_names, "collective");
        args->has_coll = true;
        return 0;
    case OPT_BYTES:
        args->bytes_text = arg;
        args->bytes = cs__option_quantity(state, arg, CS_UNIT_BYTES, "bytes");
        if (!(args->bytes >= 1)) {
            argp_error(state, "'bytes' must be at least 1B, found '%s'", arg);
        }
        return 0;
    case OPT_RANKS:
        args->ranks = arg;
        return 0;
    case OPT_ALGORITHM:
        args->algorithm = (enum cs_algorithm)cs__option_choice(state, arg, cs_algorithm_names, "algorithm");
        return 0;
    case OPT_VIEW:
        args->view = (enum cs_view)cs__option_choice(state, arg, cs_view_names, "view");
        if (args->view == CS_VIEW_AUTO) {
            argp_error(state, "'auto' is no view of one collective, expected one of: step, flow, closed");
        }
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        return 0;
    case ARGP_KEY_END:
        if (!args->platform || !args->has_coll || !(args->bytes > 0) || !args->ranks) {
            argp_error(state, "--platform, --kind, --bytes and --ranks are needed");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct collective_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"platform", 'p', "PLATFORM", 0, "Shipped platform or SimGrid XML file", 0},
        {"kind", OPT_KIND, "K", 0, "all-reduce, all-gather, reduce-scatter, all-to-all or broadcast", 0},
        {"bytes", OPT_BYTES, "SIZE", 0,
         "64MB; what a rank contributes to an all-reduce or broadcast, the gathered whole of an all-gather, "
         "what a rank holds before a reduce-scatter or all-to-all",
         0},
        {"ranks", OPT_RANKS, "LIST", 0, "Devices in ring order: 0-7 or 0,8,16 or 0-63:8", 0},
        {"algorithm", OPT_ALGORITHM, "A", 0, "This algorithm only; every one that can do it without this", 0},
        {"view", OPT_VIEW, "V", 0, "Only one view: step (every message), flow or closed (form); all without",
         0},
        {0},
    };
    static const struct argp_child children[] = {{&cs__json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options,
                                     parse,
                                     "--platform P --kind K --bytes SIZE --ranks LIST",
                                     "Time of one collective, nothing else running, by each algorithm.\v"
                                     "Bus bandwidth is defined as nccl-tests does. " CS__EXIT_STATUS_DOC,
                                     children,
                                     NULL,
                                     NULL};
    cs__parse(&argp, "clustersim collective", argc, argv, args);
}

static cs_status bad_ranks(const char *text, int32_t n_devices, struct cs_err *err)
{
    struct cs_loc loc = {"command line", 0, 0};
    return cs_err_set(
        err, CS_E_INPUT, loc,
        "'--ranks %s': expected different numbers or ranges between 0 and %d, as in 0-7 or 0-63:8", text,
        (int)n_devices - 1);
}

/* "0-7,16,24-31:2" -> members (n_devices of room). */
static cs_status parse_ranks(const char *text, int32_t n_devices, int32_t *members, int32_t *n_members,
                             struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    bool *taken = cs_calloc((size_t)n_devices, sizeof *taken);
    char *save = NULL;
    *n_members = 0;
    for (char *item = strtok_r(cs_arena_strdup(&arena, text), ",", &save); item;
         item = strtok_r(NULL, ",", &save)) {
        int64_t first = 0;
        int64_t last = 0;
        int64_t step = 1;
        char *colon = strchr(item, ':');
        char *dash = strchr(item, '-');
        if (colon) {
            *colon = '\0';
        }
        if (dash) {
            *dash = '\0';
        }
        struct cs_err ignored = {0};
        if (cs_int_parse(item, 0, n_devices - 1, "ranks", CS_NOLOC, &first, &ignored) != CS_OK ||
            (dash &&
             cs_int_parse(dash + 1, first, n_devices - 1, "ranks", CS_NOLOC, &last, &ignored) != CS_OK) ||
            (colon &&
             (!dash || cs_int_parse(colon + 1, 1, n_devices, "ranks", CS_NOLOC, &step, &ignored) != CS_OK))) {
            st = bad_ranks(text, n_devices, err);
            goto out;
        }
        for (int64_t rank = first; rank <= (dash ? last : first); rank += step) {
            if (taken[rank]) {
                st = bad_ranks(text, n_devices, err);
                goto out;
            }
            taken[rank] = true;
            members[(*n_members)++] = (int32_t)rank;
        }
    }
    if (*n_members == 0) {
        st = bad_ranks(text, n_devices, err);
    }
out:
    cs_free(taken);
    cs_arena_release(&arena);
    return st;
}

/* Without --view all three stand side by side. */
static bool wants_view(const struct collective_args *args, int32_t view)
{
    return args->view == CS_VIEW_AUTO || (int32_t)args->view == view;
}

struct measured {
    enum cs_algorithm algorithm;
    const char *refusal;               /* NULL = it ran */
    double view_s[CS_VIEW_CLOSED + 1]; /* of the views asked for */
    double time_s;                     /* of the most faithful of them */
    double bus_bytes_per_s;
    bool chosen; /* what auto would take */
};

static cs_status measure(const struct collective_args *args, struct cs_routes *routes, const int32_t *members,
                         int32_t n_members, struct measured *results, int32_t *n_results, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_platform *platform = cs_routes_platform(routes);
    struct cs_arena arena = {0};
    struct cs_coll_plan plan = {0};
    *n_results = 0;
    cs_coll_plan_build(args->coll, CS_ALGO_AUTO, platform, members, n_members, args->bytes, &arena, &plan);
    for (int32_t algorithm = CS_ALGO_AUTO + 1; algorithm < CS_N_ALGOS; algorithm++) {
        if (args->algorithm != CS_ALGO_AUTO && (int32_t)args->algorithm != algorithm) {
            continue;
        }
        struct measured *result = &results[(*n_results)++];
        enum cs_algorithm used;
        *result = (struct measured){.algorithm = (enum cs_algorithm)algorithm,
                                    .chosen = (int32_t)plan.algorithm == algorithm};
        result->refusal = cs_coll_refuses(args->coll, result->algorithm, platform, members, n_members);
        if (result->refusal) {
            continue;
        }
        for (int32_t view = CS_VIEW_CLOSED; view >= CS_VIEW_STEP; view--) {
            if (wants_view(args, view)) {
                CS_TRY(cs_engine_collective(routes, args->coll, args->bytes, members, n_members,
                                            result->algorithm, (enum cs_view)view, &result->view_s[view],
                                            &used, err));
                result->time_s = result->view_s[view];
            }
        }
        result->bus_bytes_per_s = cs_coll_bus_bytes_per_s(args->coll, args->bytes, n_members, result->time_s);
    }
    if (args->algorithm != CS_ALGO_AUTO && results[0].refusal) {
        struct cs_loc loc = {"command line", 0, 0};
        st = cs_err_set(err, CS_E_INPUT, loc, "'%s' cannot do this %s: %s",
                        cs_algorithm_names[args->algorithm], cs_coll_names[args->coll], results[0].refusal);
    }
out:
    cs_arena_release(&arena);
    return st;
}

static void print_results(const struct collective_args *args, const struct cs_platform *platform,
                          int32_t n_members, const struct measured *results, int32_t n_results)
{
    char text[32];
    (void)printf("%s of %s among %d devices of %s\n\n", cs_coll_names[args->coll], args->bytes_text,
                 (int)n_members, platform->name);
    (void)printf("%-26s", "algorithm");
    for (int32_t view = CS_VIEW_STEP; view <= CS_VIEW_CLOSED; view++) {
        if (wants_view(args, view)) {
            (void)printf(" %12s", view == CS_VIEW_CLOSED ? "closed form" : cs_view_names[view]);
        }
    }
    (void)printf(" %14s\n", "bus bandwidth");
    for (int32_t i = 0; i < n_results; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s%s", cs_algorithm_names[results[i].algorithm],
                       results[i].chosen ? " (auto)" : "");
        if (results[i].refusal) {
            (void)printf("%-26s no: %s\n", name, results[i].refusal);
        } else {
            (void)printf("%-26s", name);
            for (int32_t view = CS_VIEW_STEP; view <= CS_VIEW_CLOSED; view++) {
                if (wants_view(args, view)) {
                    (void)printf(" %12s", cs_units_format(results[i].view_s[view], CS_UNIT_SECONDS, text,
                                                          sizeof text));
                }
            }
            (void)printf(" %14s\n",
                         cs_units_format(results[i].bus_bytes_per_s, CS_UNIT_BYTES_PER_S, text, sizeof text));
        }
    }
}

static json_t *results_json(const struct collective_args *args, const struct cs_platform *platform,
                            int32_t n_members, const struct measured *results, int32_t n_results)
{
    json_t *object = json_object();
    json_t *list = json_array();
    json_t *refused = json_array();
    (void)json_object_set_new(object, "kind", json_string(cs_coll_names[args->coll]));
    (void)json_object_set_new(object, "bytes", cs_json_real(args->bytes));
    (void)json_object_set_new(object, "platform", json_string(platform->name));
    (void)json_object_set_new(object, "ranks", json_integer(n_members));
    (void)json_object_set_new(object, "view", json_string(cs_view_names[args->view]));
    for (int32_t i = 0; i < n_results; i++) {
        json_t *entry = json_object();
        (void)json_object_set_new(entry, "algorithm", json_string(cs_algorithm_names[results[i].algorithm]));
        if (results[i].refusal) {
            (void)json_object_set_new(entry, "reason", json_string(results[i].refusal));
            (void)json_array_append_new(refused, entry);
            continue;
        }
        (void)json_object_set_new(entry, "time_s", cs_json_real(results[i].time_s));
        for (int32_t view = CS_VIEW_STEP; view <= CS_VIEW_CLOSED; view++) {
            char key[32];
            (void)snprintf(key, sizeof key, "%s_s", cs_view_names[view]);
            if (wants_view(args, view)) {
                (void)json_object_set_new(entry, key, cs_json_real(results[i].view_s[view]));
            }
        }
        (void)json_object_set_new(entry, "bus_bytes_per_s", cs_json_real(results[i].bus_bytes_per_s));
        (void)json_object_set_new(entry, "auto", json_boolean(results[i].chosen));
        (void)json_array_append_new(list, entry);
    }
    (void)json_object_set_new(object, "results", list);
    (void)json_object_set_new(object, "refused", refused);
    return object;
}

int cs__cmd_collective(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct collective_args args = {0};
    struct cs__hardware hardware = {0};
    struct cs_routes *routes = NULL;
    struct measured results[CS_N_ALGOS];
    int32_t n_results = 0;
    int32_t n_members = 0;
    int32_t *members = NULL;
    parse_args(&args, argc, argv);
    CS_TRY(cs__hardware_load(&hardware, args.platform, &err));
    members = cs_calloc((size_t)hardware.platform.n_devices, sizeof *members);
    CS_TRY(parse_ranks(args.ranks, hardware.platform.n_devices, members, &n_members, &err));
    routes = cs_routes_new(&hardware.platform, cs__simgrid_cfg());
    CS_TRY(measure(&args, routes, members, n_members, results, &n_results, &err));
    if (cs__wants_text(&args.output)) {
        print_results(&args, &hardware.platform, n_members, results, n_results);
    }
    CS_TRY(cs__write_json(
        &args.output,
        args.output.json ? results_json(&args, &hardware.platform, n_members, results, n_results) : NULL,
        &err));
out:
    cs_routes_free(routes);
    cs_free(members);
    cs__hardware_release(&hardware);
    return st == CS_OK ? 0 : cs__fail(&err);
}
