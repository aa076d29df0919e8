#include "cli_priv.h"
#include "pairs_priv.h"

#include "cs/engine/reach.h"
#include "cs/platforms/check.h"

#include <math.h>
#include <string.h>

struct check_args {
    struct cs__output_args output;
    const char *platform;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct check_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->output;
        return 0;
    case ARGP_KEY_ARG:
        if (args->platform) {
            argp_error(state, "one platform at a time, but there are '%s' and '%s'", args->platform, arg);
        }
        args->platform = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->platform) {
            argp_error(state, "no platform given");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct check_args *args, int argc, char **argv)
{
    static const struct argp_child children[] = {{&cs__json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        NULL,
        parse,
        "PLATFORM",
        "Read a platform as a simulation would, ask SimGrid for its routes, and report what would make "
        "a simulation wrong.\v"
        "PLATFORM is an XML file or the name of a shipped one. A platform with problems ends in "
        "2; what is only odd is noted. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim platform check", argc, argv, args);
}

/* Device pairs that are looked at, both ways: every pair of a small platform; of a large one the first device
 * of each node with its node and with the first device of every other node is a sample (every n-th, to keep
 * SimGrid's answers to some ten thousand). */
#define ALL_PAIRS_DEVICES 128
#define SAMPLE_PAIRS 20000

static struct cs__route_pairs pairs_to_check(const struct cs_platform *platform)
{
    struct cs__route_pairs pairs = {0};
    int64_t n = platform->n_devices;
    int64_t all = n * (n - 1) / 2;
    int64_t step = n <= ALL_PAIRS_DEVICES ? 1 : all / (SAMPLE_PAIRS / 2) + 1;
    int64_t at = 0;
    for (int32_t a = 0; a < n; a++) {
        for (int32_t b = a + 1; b < n; b++, at++) {
            if (at % step == 0 || b == a + 1) {
                cs__route_pairs_add(&pairs, a, b);
                cs__route_pairs_add(&pairs, b, a);
            }
        }
    }
    return pairs;
}

#define PROBLEMS_MAX 20

struct problems {
    int64_t n;
    int64_t n_findings; /* of them, that stand among the findings */
    json_t *list;       /* the first PROBLEMS_MAX */
    int lines[PROBLEMS_MAX];
};

static void add_problem(struct problems *problems, int line, const char *fmt, ...) CS_PRINTF(3, 4);
static void add_problem(struct problems *problems, int line, const char *fmt, ...)
{
    size_t at = json_array_size(problems->list);
    problems->n++;
    if (at < PROBLEMS_MAX) {
        problems->lines[at] = line;
        char text[512];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        (void)json_array_append_new(problems->list, json_string(text));
    }
}

static bool differ(double a, double b)
{
    return fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b));
}

/* Both directions of a pair, which stand side by side in `pairs`. */
static void check_pair(const struct cs_platform *platform, const struct cs_routes *routes, int32_t a,
                       int32_t b, struct problems *problems)
{
    struct cs_route there = cs_routes_get(routes, a, b);
    struct cs_route back = cs_routes_get(routes, b, a);
    double there_bytes_per_s = cs_routes_bytes_per_s(routes, a, b);
    double back_bytes_per_s = cs_routes_bytes_per_s(routes, b, a);
    const char *from = cs_platform_endpoint(platform, a, b);
    const char *to = cs_platform_endpoint(platform, b, a);
    char one[32];
    char other[32];
    if (there.n_links == 0 || back.n_links == 0) {
        add_problem(problems, platform->devices[a].line,
                    "the route between %s and %s has no link: data would arrive at once", from, to);
    }
    if (differ(there_bytes_per_s, back_bytes_per_s)) {
        add_problem(problems, platform->devices[a].line, "%s sends %s to %s but gets %s back", from,
                    cs_units_format(there_bytes_per_s, CS_UNIT_BYTES_PER_S, one, sizeof one), to,
                    cs_units_format(back_bytes_per_s, CS_UNIT_BYTES_PER_S, other, sizeof other));
    }
    if (differ(there.latency_s, back.latency_s)) {
        add_problem(problems, platform->devices[a].line, "%s reaches %s in %s but the way back takes %s",
                    from, to, cs_units_format(there.latency_s, CS_UNIT_SECONDS, one, sizeof one),
                    cs_units_format(back.latency_s, CS_UNIT_SECONDS, other, sizeof other));
    }
}

#define GROUPS_MAX 8 /* that are named */

/* Devices fall into groups without routes between them: one problem, which names the groups. */
static void add_groups(const struct cs_platform *platform, const int32_t *group, struct problems *problems)
{
    struct cs_strbuf text = {0};
    int32_t n_groups = 0;
    int line = 0;
    for (int32_t d = 0; d < platform->n_devices; d++) {
        int32_t size = 0;
        if (group[d] != n_groups) {
            continue; /* not the first of its group */
        }
        if (n_groups == 1) {
            line = platform->devices[d].line;
        }
        for (int32_t e = d; e < platform->n_devices && n_groups < GROUPS_MAX; e++) {
            size += group[e] == n_groups;
        }
        if (size > 0) {
            cs_strbuf_addf(&text, "%s'%s'", n_groups > 0 ? "; " : "", platform->devices[d].host);
        }
        if (size > 1) {
            cs_strbuf_addf(&text, " and %d more", (int)size - 1);
        }
        n_groups++;
    }
    if (n_groups > 1) {
        add_problem(problems, line, "%d groups of devices have no routes between them: %s%s", (int)n_groups,
                    cs_strbuf_str(&text), n_groups > GROUPS_MAX ? "; ..." : "");
    }
    cs_strbuf_release(&text);
}

/* All routes that are missing, not only the first; `pairs` is left with those that are there both ways. */
static cs_status find_missing(const struct cs_platform *platform, struct cs__route_pairs *pairs,
                              struct problems *problems, struct cs_err *err)
{
    cs_status st = CS_OK;
    enum cs_reach *reach = cs_calloc((size_t)pairs->n + 1, sizeof *reach);
    int32_t *group = cs_calloc((size_t)platform->n_devices + 1, sizeof *group);
    int64_t n_kept = 0;
    int64_t n_unknown = 0;
    CS_TRY(cs_platform_reach(platform, cs__simgrid_cfg(), pairs->at, pairs->n, reach, group, err));
    add_groups(platform, group, problems);
    for (int64_t i = 0; i < pairs->n; i++) {
        int32_t a = pairs->at[2 * i];
        int32_t b = pairs->at[2 * i + 1];
        n_unknown += reach[i] == CS_REACH_UNKNOWN;
        if (reach[i] == CS_REACH_NO && group[a] == group[b]) {
            add_problem(problems, platform->devices[a].line, "there is no route from '%s' to '%s'",
                        cs_platform_endpoint(platform, a, b), cs_platform_endpoint(platform, b, a));
        }
    }
    if (n_unknown > 0) {
        add_problem(problems, 0, "%lld more routes were not asked for, after %d that are missing",
                    (long long)n_unknown, CS_REACH_MISSING_MAX);
    }
    for (int64_t i = 0; i + 1 < pairs->n; i += 2) {
        if (reach[i] == CS_REACH_YES && reach[i + 1] == CS_REACH_YES) {
            memmove(pairs->at + 2 * n_kept, pairs->at + 2 * i, 4 * sizeof *pairs->at);
            n_kept += 2;
        }
    }
    pairs->n = n_kept;
out:
    cs_free(group);
    cs_free(reach);
    return st;
}

/* Ask SimGrid for the routes; what is missing becomes problems. */
static cs_status ask_routes(struct cs_routes *routes, struct cs__route_pairs *pairs,
                            struct problems *problems, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_err why = {0};
    const struct cs_platform *platform = cs_routes_platform(routes);
    st = cs_routes_need(routes, pairs->at, pairs->n, &why);
    if (st == CS_E_INPUT) { /* a missing route is what this command is there to find */
        st = find_missing(platform, pairs, problems, &why);
        if (st == CS_OK) {
            st = cs_routes_need(routes, pairs->at, pairs->n, &why);
        }
    }
    if (st == CS_E_INPUT) { /* not the routes: the file as a whole */
        pairs->n = 0;
        add_problem(problems, why.line, "%s", why.text);
        return CS_OK;
    }
    if (st != CS_OK && err) {
        *err = why;
    }
    return st;
}

/* What the file says: warnings and errors are problems, notes are only told. */
static json_t *add_findings(const struct cs_findings *findings, struct problems *problems)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < findings->n; i++) {
        const struct cs_finding *finding = &findings->items[i];
        (void)json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "severity",
                                                    cs_severity_names[finding->severity], "line",
                                                    finding->line, "text", finding->text));
    }
    problems->n_findings = findings->n_of[CS_SEVERITY_WARNING] + findings->n_of[CS_SEVERITY_ERROR];
    problems->n += problems->n_findings;
    return list;
}

static void print_problem(const char *path, int line, const char *severity, const char *text)
{
    if (line > 0) {
        (void)printf("%s:%d: %s: %s\n", path, line, severity, text);
    } else {
        (void)printf("%s: %s: %s\n", path, severity, text);
    }
}

static void print_findings(const char *path, const json_t *findings)
{
    size_t i;
    json_t *finding;
    json_array_foreach(findings, i, finding)
    {
        const char *severity = json_string_value(json_object_get(finding, "severity"));
        const char *text = json_string_value(json_object_get(finding, "text"));
        int line = (int)json_integer_value(json_object_get(finding, "line"));
        print_problem(path, line, severity, text);
    }
}

/* Consumes `findings`. */
static cs_status report_problems(const struct check_args *args, const struct cs_platform *platform,
                                 const struct problems *problems, json_t *findings, int64_t n_pairs,
                                 struct cs_err *err)
{
    json_t *object = json_object();
    (void)json_object_set_new(object, "name", json_string(platform->name));
    (void)json_object_set_new(object, "routes", json_integer(n_pairs));
    (void)json_object_set_new(object, "ok", json_boolean(problems->n == 0));
    (void)json_object_set_new(object, "problem_count", json_integer(problems->n));
    (void)json_object_set(object, "problems", problems->list);
    (void)json_object_set_new(object, "findings", findings);
    if (cs__wants_text(&args->output)) {
        size_t i;
        json_t *problem;
        print_findings(platform->xml_path, findings);
        json_array_foreach(problems->list, i, problem)
        {
            print_problem(platform->xml_path, problems->lines[i], "error", json_string_value(problem));
        }
        int64_t n_more = problems->n - problems->n_findings - (int64_t)json_array_size(problems->list);
        if (n_more > 0) {
            (void)printf("%s: error: %lld more problems like these\n", platform->xml_path, (long long)n_more);
        }
        (void)printf("%s: %lld devices, %lld routes asked, %s\n", platform->name,
                     (long long)platform->n_devices, (long long)n_pairs,
                     problems->n == 0 ? "no problem found" : "problems found");
    }
    return cs__write_json(&args->output, object, err);
}

int cs__cmd_platform_check(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    int64_t n_asked = 0;
    struct check_args args = {0};
    struct cs__hardware hardware = {0};
    struct cs_findings findings = {0};
    struct cs_routes *routes = NULL;
    struct cs__route_pairs pairs = {0};
    struct problems problems = {.list = json_array()};
    json_t *found = NULL;
    parse_args(&args, argc, argv);
    CS_TRY(cs__hardware_load(&hardware, args.platform, &err));
    CS_TRY(cs_platform_check(hardware.platform.xml_path, hardware.catalogue, &findings, &err));
    found = add_findings(&findings, &problems);
    routes = cs_routes_new(&hardware.platform, cs__simgrid_cfg());
    pairs = pairs_to_check(&hardware.platform);
    n_asked = pairs.n;
    CS_TRY(ask_routes(routes, &pairs, &problems, &err));
    for (int64_t i = 0; i < pairs.n; i += 2) {
        check_pair(&hardware.platform, routes, pairs.at[2 * i], pairs.at[2 * i + 1], &problems);
    }
    st = report_problems(&args, &hardware.platform, &problems, found, n_asked, &err);
    found = NULL;
out:
    json_decref(found);
    json_decref(problems.list);
    cs_findings_release(&findings);
    cs_free(pairs.at);
    cs_routes_free(routes);
    cs__hardware_release(&hardware);
    return st != CS_OK ? cs__fail(&err) : problems.n > 0 ? CS__EXIT_INPUT : 0;
}
