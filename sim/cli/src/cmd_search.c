#include "cli_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/pool/remote.h"
#include "cs/reports/csv.h"
#include "cs/reports/explain.h"
#include "cs/reports/misrank.h"
#include "cs/reports/store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct search_args {
    struct cs__study_args study;
    struct cs__output_args output;
    struct cs__run_args run;
    const char *strategy;
    const char *store;
    const char *baseline;
    bool explain;
    bool misrank;
    int32_t n_workers;
    bool dry_run;
    char time_limit[32];
    char candidate_limit[32];
};

enum {
    OPT_ALGORITHM = 1,
    OPT_OBJECTIVE,
    OPT_TIME_LIMIT,
    OPT_CANDIDATE_LIMIT,
    OPT_SIMULATION_LIMIT,
    OPT_WORKERS,
    OPT_TOP,
    OPT_DRY_RUN,
    OPT_STRATEGY,
    OPT_STORE,
    OPT_BASELINE,
    OPT_EXPLAIN,
    OPT_MISRANK
};

/* "10min"; a bare number means seconds. */
static void set_duration(struct search_args *args, const char *key, const char *text, char *buf,
                         size_t buf_bytes)
{
    bool bare = text[0] && strspn(text, "0123456789.") == strlen(text);
    (void)snprintf(buf, buf_bytes, "%s%s", text, bare ? "s" : "");
    cs__study_args_set(&args->study, key, buf);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct search_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->study;
        state->child_inputs[1] = &args->run;
        state->child_inputs[2] = &args->output;
        return 0;
    case OPT_ALGORITHM:
        cs__study_args_set(&args->study, "search.algorithm", arg);
        return 0;
    case OPT_OBJECTIVE:
        cs__study_args_set(&args->study, "search.objective", arg);
        return 0;
    case OPT_TIME_LIMIT:
        set_duration(args, "search.time_limit", arg, args->time_limit, sizeof args->time_limit);
        return 0;
    case OPT_CANDIDATE_LIMIT:
        set_duration(args, "search.candidate_time_limit", arg, args->candidate_limit,
                     sizeof args->candidate_limit);
        return 0;
    case OPT_SIMULATION_LIMIT:
        cs__study_args_set(&args->study, "search.simulation_limit", arg);
        return 0;
    case OPT_TOP:
        cs__study_args_set(&args->study, "search.top", strcmp(arg, "all") == 0 ? "1000000" : arg);
        return 0;
    case OPT_WORKERS:
        args->n_workers = (int32_t)cs__option_int(state, arg, 1, 1024, "workers");
        return 0;
    case OPT_STRATEGY:
        cs__option_once(state, &args->strategy, arg, "strategy");
        return 0;
    case OPT_STORE:
        if (!arg[0] || arg[0] == ':') { /* what SQLite takes for a store that nobody keeps */
            argp_error(state, "--store '%s' keeps nothing: name a file", arg);
        }
        args->store = arg;
        return 0;
    case OPT_BASELINE:
        args->baseline = arg;
        args->explain = true;
        return 0;
    case OPT_EXPLAIN:
        args->explain = true;
        return 0;
    case OPT_MISRANK:
        args->misrank = true;
        return 0;
    case OPT_DRY_RUN:
        args->dry_run = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct search_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"strategy", OPT_STRATEGY, "S", 0, "Pin these keys: mp=8,recompute=full", 0},
        {"algorithm", OPT_ALGORITHM, "A", 0,
         "How to search: exhaustive, bayes, evolutionary, random, enumerate", 0},
        {"objective", OPT_OBJECTIVE, "O", 0,
         "What is better: throughput, step_time, tokens_per_cost, energy_per_token, peak_memory", 0},
        {"time-limit", OPT_TIME_LIMIT, "T", 0,
         "Stop with the best so far after T, as in 10min or 90 (a bare number is seconds); no limit without "
         "it. "
         "While nothing is found, up to 10 s more are spent on the best guesses (3 s after Ctrl-C)",
         0},
        {"candidate-time-limit", OPT_CANDIDATE_LIMIT, "T", 0,
         "Give up on a strategy after this long (15min without it; 0 = never)", 0},
        {"simulation-limit", OPT_SIMULATION_LIMIT, "N", 0, "Stop with the best so far after N simulations",
         0},
        {"store", OPT_STORE, "FILE", 0, "Keep every result in this file, and take from it what it knows", 0},
        {"explain", OPT_EXPLAIN, NULL, 0,
         "Say what changing one key of the winner costs and how firm the choice is: with simulations of its "
         "own, that "
         "no time limit counts",
         0},
        {"baseline", OPT_BASELINE, "S", 0, "Explain, and say where this strategy loses: dp=4,mp=4,pp=4", 0},
        {"validate-cost-model", OPT_MISRANK, NULL, 0,
         "Simulate everything that fits, and say where the closed form ranks wrongly and why", 0},
        {"workers", OPT_WORKERS, "N", 0, "Worker processes; one a processor without it", 0},
        {"top", OPT_TOP, "K", 0, "Entries of the ranking that are shown, or 'all'", 0},
        {"dry-run", OPT_DRY_RUN, NULL, 0, "Check everything and show the size of the space, simulate nothing",
         0},
        {0},
    };
    static const struct argp_child children[] = {
        {&cs__study_argp, 0, NULL, 0}, {&cs__run_argp, 0, NULL, 0}, {&cs__output_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "STUDY\n-m MODEL -p PLATFORM --set KEY=VALUE...",
        "Rank the parallel strategies for a model on a platform: each one that fits is simulated.\v"
        "STUDY is a study file or the name of a shipped one. " CS__EXIT_STATUS_DOC,
        children,
        NULL,
        NULL};
    cs__parse(&argp, "clustersim search", argc, argv, args);
}

static void write_csv(FILE *out, const void *report)
{
    cs_report_search_csv(out, report);
}

/* How the process ends when nothing went wrong. */
static int exit_status(const struct cs_search_result *result)
{
    if (result->end == CS_SEARCH_INTERRUPTED) {
        return cs_status_exit(CS_E_INTERRUPTED);
    }
    if (result->n_ranked > 0) {
        return 0;
    }
    bool all_known = result->n_open == 0 && result->n_failed == 0;
    return cs_status_exit(all_known ? CS_E_INFEASIBLE : CS_E_TIMEOUT);
}

static cs_status evaluate(void *context, const struct cs_strategy *strategy, struct cs_evaluation *evaluation,
                          struct cs_err *err)
{
    return cs_simulator_evaluate(context, strategy, evaluation, err);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/** What a search works with. Zero-initialised is empty. */
struct session {
    double started_s; /* the whole command: a time limit is its own */
    const struct search_args *args;
    const struct cs_study *study;
    const struct cs_space *space;
    const struct cs_strategy *baseline; /* NULL = none */
    struct cs_simulator simulator;
    int32_t n_sets; /* of collective algorithms that the study leaves open */
    struct cs_run_options *set_options;
    struct cs_cost **costs; /* per set */
    struct cs_store *store;
    struct cs_remote *remote; /* workers on other machines; NULL = none */
    struct cs_search_result result;
    bool is_explained;
    struct cs_explanation explanation;
    struct cs_misrank misrank;
};

static void session_release(struct session *s)
{
    cs_explanation_release(&s->explanation);
    cs_search_result_release(&s->result);
    for (int32_t set = 0; set < s->n_sets; set++) {
        cs_cost_free(s->costs[set]);
    }
    cs_free(s->costs);
    cs_free(s->set_options);
    cs_store_close(s->store);
    cs_remote_close(s->remote);
    cs_simulator_release(&s->simulator);
}

/* In the worker: simulate with this set of collective algorithms. And here, with the winner's. */
static void take_set(void *context, int32_t set)
{
    struct cs_simulator *simulator = context;
    cs_study_algorithm_set(simulator->study, set, simulator->options.algorithm);
}

/* A closed form for each set of collective algorithms. */
static void make_costs(struct session *s)
{
    s->n_sets = cs_study_n_algorithm_sets(s->study);
    s->set_options = cs_calloc((size_t)s->n_sets, sizeof *s->set_options);
    s->costs = cs_calloc((size_t)s->n_sets, sizeof *s->costs);
    for (int32_t set = 0; set < s->n_sets; set++) {
        s->set_options[set] = s->simulator.options;
        cs_study_algorithm_set(s->study, set, s->set_options[set].algorithm);
        s->costs[set] = cs_cost_new(&s->study->model, &s->study->training, s->simulator.routes,
                                    &s->set_options[set], &CS_COST_SCALE_NONE);
    }
}

static cs_status session_init(struct session *s, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(cs_simulator_init(&s->simulator, s->study, &s->args->run.options, err));
    make_costs(s);
out:
    return st;
}

/* The result in every form that was asked for. */
static cs_status show(const struct session *s, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs__output_args *output = &s->args->output;
    struct cs_report_origin origin = cs__origin("search");
    const struct cs_search_report report = {s->study, s->space, &s->result};
    json_t *json = output->json ? cs_report_search_json(&report, &origin) : NULL;
    if (cs__wants_text(output)) {
        cs_report_search_table(stdout, &report, cs__color());
        if (s->is_explained) {
            cs_report_explain_text(stdout, &report, &s->explanation, cs__color());
        }
        if (s->args->misrank) {
            cs_report_misrank_text(stdout, &report, &s->misrank);
        }
    }
    if (json && s->is_explained) {
        (void)json_object_set_new(json, "explanation", cs_report_explain_json(&report, &s->explanation));
    }
    if (json && s->args->misrank) {
        (void)json_object_set_new(json, "cost_model", cs_report_misrank_json(&report, &s->misrank));
    }
    CS_TRY(cs__write_json(output, json, err));
    CS_TRY(cs__write_file(output->csv, write_csv, &report, err));
out:
    return st;
}

/* The study on slightly different hardware. A platform that cannot be scaled (its file carries no
 * description) is no error: the closed form then says how firm the choice is. */
static bool load_variants(const struct cs__study_args *args, struct cs_study *variants)
{
    static struct cs__study_args changed; /* large */
    bool all = true;
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN && all; i++) {
        struct cs_err ignored = {0};
        char value[32];
        changed = *args;
        if (changed.n_overrides == CS__OVERRIDES_MAX) {
            return false;
        }
        (void)snprintf(value, sizeof value, "%g", cs_explain_variants[i].factor);
        changed.overrides[changed.n_overrides++] =
            (struct cs_override){cs_explain_variants[i].key, value, false};
        all = cs__load_study(&variants[i], &changed, &ignored) == CS_OK;
        memset(variants[i].runtime.algorithm, 0,
               sizeof variants[i].runtime.algorithm); /* the search's options say it */
    }
    return all;
}

static cs_status explain(struct session *s, struct cs_err *err)
{
    struct cs_study *variants = cs_calloc(CS_EXPLAIN_SHAKEN, sizeof *variants);
    const struct cs_study *list[CS_EXPLAIN_SHAKEN];
    bool simulates = load_variants(&s->args->study, variants);
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        list[i] = &variants[i];
    }
    const struct cs_explain_options options = {.baseline = s->baseline,
                                               .variants = simulates ? list : NULL,
                                               .cost = s->costs[s->result.ranking[0].algorithm_set],
                                               .set_costs = s->costs,
                                               .n_workers = s->args->n_workers,
                                               .stop = &cs__stop};
    cs_status st = cs_explain(&s->explanation, s->study, s->space, &s->result, &s->simulator, &options, err);
    s->is_explained = st == CS_OK;
    if (st == CS_E_INTERRUPTED) { /* the ranking is there all the same */
        (void)fprintf(stderr, "clustersim: warning: interrupted before the explanation was complete\n");
        s->result.end = CS_SEARCH_INTERRUPTED;
        st = CS_OK;
    }
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        cs_study_release(&variants[i]);
    }
    cs_free(variants);
    return st;
}

static struct cs_search_options search_options(struct session *s, enum cs_search_mode mode)
{
    return (struct cs_search_options){.evaluate = evaluate,
                                      .evaluate_context = &s->simulator,
                                      .take_set = take_set,
                                      .cost = s->costs[0],
                                      .set_costs = s->costs,
                                      .spent_s = now_s() - s->started_s,
                                      .mode = mode};
}

static cs_status dry_run(struct session *s, int *exit_code, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs__output_args *output = &s->args->output;
    struct cs_report_origin origin = cs__origin("search --dry-run");
    const struct cs_search_report report = {s->study, s->space, &s->result};
    struct cs_search_options options = search_options(s, CS_SEARCH_LOOKS);
    CS_TRY(cs_search_run(&s->result, s->study, s->space, &options, err));
    if (cs__wants_text(output)) {
        cs_report_space_text(stdout, &report, cs__color());
    }
    CS_TRY(cs__write_json(output, output->json ? cs_report_space_json(&report, &origin) : NULL, err));
    *exit_code =
        s->result.n_fit > 0 ? 0 : cs_status_exit(s->result.looked_at ? CS_E_TIMEOUT : CS_E_INFEASIBLE);
out:
    return st;
}

/* Strategies that were given up because their workers died, twice each. */
static void warn_of_deaths(const struct cs_search_result *result)
{
    for (int32_t i = 0; i < result->n_reasons; i++) {
        const struct cs_reason *reason = &result->reasons[i];
        if (reason->outcome == CS_OUTCOME_FAILED && strcmp(reason->rule, CS_RULE_DIED) == 0) {
            (void)fprintf(stderr, "clustersim: warning: %lld given up, two workers died with each: %s\n",
                          (long long)reason->n, reason->example);
        }
    }
}

static cs_status run(struct session *s, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct search_args *args = s->args;
    bool analytic = args->run.options.fidelity == CS_FIDELITY_ANALYTIC;
    struct cs__progress progress;
    cs__progress_init(&progress, &args->output);
    struct cs_search_options options = search_options(s, analytic ? CS_SEARCH_ANALYTIC : CS_SEARCH_SIMULATES);
    options.n_workers = args->n_workers;
    options.remote = s->remote;
    options.stop = &cs__stop;
    options.progress = cs__progress_show;
    options.progress_context = &progress;
    if (args->misrank && s->n_sets > 1) {
        return cs_err_set(
            err, CS_E_INPUT, CS_NOLOC,
            "--validate-cost-model compares with one closed form: name one collective algorithm "
            "in place of a list");
    }
    if (args->store) {
        CS_TRY(cs_store_open(&s->store, args->store, CS_RESULTS_VERSION, err));
        CS_TRY(cs_store_sets(s->store, s->study, s->space, &s->simulator.options, err));
        options.memory = cs_store_memory(s->store);
        if (cs_store_is_shared(s->store)) {
            (void)fprintf(
                stderr,
                "clustersim: warning: another search is using the store '%s': both keep their results "
                "there, what both try at once is simulated twice\n",
                args->store);
        }
    }
    cs__catch_signals(); /* not before: they would pass to processes that should die of Ctrl-C */
    st = cs_search_run(&s->result, s->study, s->space, &options, err);
    cs__progress_end(&progress);
    if (s->store &&
        cs_store_problem(s->store)) { /* the search is right without it, and did not stop for it */
        (void)fprintf(stderr, "clustersim: warning: %s\n", cs_store_problem(s->store));
    }
    CS_TRY(st);
    warn_of_deaths(&s->result);
    if (s->result.n_ranked > 0) { /* what follows explains the winner */
        take_set(&s->simulator, s->result.ranking[0].algorithm_set);
    }
    if (args->explain && s->result.n_ranked > 0) {
        CS_TRY(explain(s, err));
    }
    if (args->misrank) {
        cs_misrank_find(&s->misrank, s->space, &s->result, s->costs[0]);
    }
out:
    return st;
}

/* Under clustersim-mpi: the socket to the bridge, and what we are. False when there is none. */
static bool find_bridge(int *fd, bool *is_worker)
{
    const char *text = getenv("CLUSTERSIM_REMOTE");
    const char *colon = text ? strchr(text, ':') : NULL;
    if (!colon) {
        return false;
    }
    *fd = atoi(colon + 1);
    *is_worker = strncmp(text, "worker:", 7) == 0;
    (void)unsetenv("CLUSTERSIM_REMOTE"); /* ours, not our children's */
    return true;
}

static cs_status join(struct session *s, int fd, bool is_worker, struct cs_err *err)
{
    uint64_t hash = cs_search_hash(s->space, cs_store_study_hash(s->study, &s->simulator.options));
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) { /* a job's number says the set too */
        hash = cs_hash_mix(hash, s->study->runtime.choices[coll]);
    }
    const struct cs_search_options options = {
        .evaluate = evaluate, .evaluate_context = &s->simulator, .take_set = take_set};
    if (is_worker) {
        cs_search_serve(fd, hash, s->study, s->space, &options);
        return CS_OK;
    }
    return cs_remote_open(&s->remote, fd, hash, err);
}

/* Everything is to be simulated; the ranking that is shown keeps its length. */
static cs_status choose_enumeration(struct search_args *args, struct cs_err *err)
{
    if (args->run.options.fidelity == CS_FIDELITY_ANALYTIC) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "--validate-cost-model compares with simulations: use fidelity folded or full");
    }
    cs__study_args_set(&args->study, "search.algorithm", "enumerate");
    return CS_OK;
}

/* What can be known to fail after the search fails before it. */
static cs_status check_args(const struct search_args *args, struct cs_err *err)
{
    const char *const files[] = {args->output.json, args->output.csv};
    bool analytic = args->run.options.fidelity == CS_FIDELITY_ANALYTIC;
    if (analytic && args->explain) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "--explain and --baseline simulate: use fidelity folded or full");
    }
    if (analytic && args->store) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "--store keeps results of simulations: use fidelity folded or full");
    }
    return cs__check_outputs(files, CS_COUNT(files), err);
}

int cs__cmd_search(int argc, char **argv)
{
    static struct search_args args; /* large: it holds every --set */
    cs_status st = CS_OK;
    int exit_code = 0;
    struct cs_err err = {0};
    struct cs_study study = {0};
    struct cs_space space = {0};
    struct cs_strategy baseline;
    int bridge_fd = -1;
    bool is_worker = false;
    struct session session = {.started_s = now_s(), .args = &args, .study = &study, .space = &space};
    parse_args(&args, argc, argv);
    cs__run_to_study(&args.run, &args.study);
    if (args.misrank) {
        CS_TRY(choose_enumeration(&args, &err));
    }
    CS_TRY(check_args(&args, &err));
    CS_TRY(cs__load_study(&study, &args.study, &err));
    if (args.strategy) {
        CS_TRY(cs_study_pin(&study, args.strategy, &err));
    }
    if (args.baseline) {
        CS_TRY(cs_study_strategy(&study, args.baseline, &baseline, &err));
        session.baseline = &baseline;
    }
    CS_TRY(cs_space_build(&space, &study, &err));
    CS_TRY(session_init(&session, &err));
    if (find_bridge(&bridge_fd, &is_worker)) {
        CS_TRY(join(&session, bridge_fd, is_worker, &err));
    }
    if (is_worker) {
        goto out;
    }
    if (args.dry_run) {
        CS_TRY(dry_run(&session, &exit_code, &err));
    } else {
        CS_TRY(run(&session, &err));
        CS_TRY(show(&session, &err));
        exit_code = exit_status(&session.result);
    }
out:
    if (st != CS_OK) {
        exit_code = cs__fail(&err);
    }
    session_release(&session);
    cs_space_release(&space);
    cs_study_release(&study);
    return exit_code;
}
