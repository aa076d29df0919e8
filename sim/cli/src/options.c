#include "cli_priv.h"

#include "cs/base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show_version(FILE *out, struct argp_state *state)
{
    (void)state;
    cs__print_version(out);
}

/* What argp says of wrong usage is collected: its two lines "Try ... for more information." are dropped, so
 * that an error is one line here too. And argp ends the process itself, so that what remains to be done is
 * left to the end of the process. */
static FILE *argp_errors;
static char *argp_error_text;
static size_t argp_error_bytes;
static bool parsing;

static void end_of_usage(void)
{
    if (!parsing) {
        return;
    }
    (void)fclose(argp_errors);
    char *hint = strstr(argp_error_text, "Try `");
    if (hint) {
        *hint = '\0';
    }
    (void)fputs(argp_error_text, stderr);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fputs("clustersim: error: cannot write to standard output\n", stderr);
        _exit(1);
    }
}

/* Folder of --catalogue; every command has the option. */
static const char *catalogue_over;

const char *cs__catalogue_over(void)
{
    return catalogue_over;
}

enum { OPT_CATALOGUE = 1 };
static const struct argp_option root_options[] = {
    {"catalogue", OPT_CATALOGUE, "DIR", 0,
     "Chips, servers and software of the files in DIR, as `calibrate -o DIR` writes them, instead of the "
     "shipped ones of the same name",
     0},
    {0}};

static error_t parse_root(int key, char *arg, struct argp_state *state)
{
    if (key == OPT_CATALOGUE) {
        cs__option_once(state, &catalogue_over, arg, "catalogue");
        return 0;
    }
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = state->input;
        state->err_stream = argp_errors;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

void cs__parse(const struct argp *argp, const char *name, int argc, char **argv, void *input)
{
    char program[64];
    const struct argp_child child[] = {{argp, 0, NULL, 0}, {0}};
    const struct argp root = {root_options, parse_root, NULL, NULL, child, NULL, NULL};
    (void)snprintf(program, sizeof program, "%s", name);
    argv[0] = program; /* argp and getopt show it */
    argp_program_version_hook = show_version;
    argp_err_exit_status = CS__EXIT_INPUT;
    argp_errors = open_memstream(&argp_error_text, &argp_error_bytes);
    parsing = argp_errors && atexit(end_of_usage) == 0;
    error_t code = argp_errors ? argp_parse(&root, argc, argv, 0, NULL, input) : ENOMEM;
    if (code != 0) {
        (void)fprintf(stderr, "%s: %s\n", name, strerror(code));
        exit(1);
    }
    parsing = false;
    (void)fclose(argp_errors);
    free(argp_error_text);
}

void cs__option_once(struct argp_state *state, const char **value, const char *arg, const char *option)
{
    if (*value) {
        argp_error(state, "--%s is given twice: '%s' and '%s'", option, *value, arg);
    }
    *value = arg;
}

int64_t cs__option_int(struct argp_state *state, const char *text, int64_t min, int64_t max, const char *what)
{
    struct cs_err err = {0};
    int64_t value = 0;
    if (cs_int_parse(text, min, max, what, CS_NOLOC, &value, &err) != CS_OK) {
        argp_error(state, "%s", err.text);
    }
    return value;
}

double cs__option_quantity(struct argp_state *state, const char *text, enum cs_unit unit, const char *what)
{
    struct cs_err err = {0};
    double value = 0;
    if (cs_units_parse(text, unit, what, CS_NOLOC, &value, &err) != CS_OK) {
        argp_error(state, "%s", err.text);
    }
    return value;
}

int32_t cs__option_choice(struct argp_state *state, const char *text, const char *const *names,
                          const char *what)
{
    int32_t index = cs_text_index(text, names);
    if (index < 0) {
        struct cs_strbuf list = {0};
        for (int32_t i = 0; names[i]; i++) {
            cs_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
        }
        argp_error(state, "'%s' is no %s, expected one of: %s", text, what, cs_strbuf_str(&list));
        cs_strbuf_release(&list);
    }
    return index;
}

/* ---- study ----------------------------------------------------------------------------------------------
 */

void cs__study_args_set(struct cs__study_args *args, const char *key, const char *value)
{
    if (args->n_overrides >= CS__OVERRIDES_MAX) {
        (void)fprintf(stderr, "clustersim: error: more than %d settings\n", CS__OVERRIDES_MAX);
        exit(CS__EXIT_INPUT);
    }
    args->overrides[args->n_overrides++] = (struct cs_override){key, value, true};
}

/* -m and -p come before every --set, wherever they stand: `--set platform.nodes=2 -p NAME` changes NAME. */
static void name_part(struct cs__study_args *args, const char *key, const char *value)
{
    cs__study_args_set(args, key, value);
    struct cs_override part = args->overrides[args->n_overrides - 1];
    memmove(&args->overrides[args->n_parts + 1], &args->overrides[args->n_parts],
            (size_t)(args->n_overrides - 1 - args->n_parts) * sizeof part);
    args->overrides[args->n_parts++] = part;
}

/* `tp` is another name of `mp`: of two values it would not be clear which is meant. */
static void check_names(const struct cs__study_args *args, struct argp_state *state, const char *key)
{
    static const char *const names[] = {"strategy.mp", "strategy.tp", NULL};
    int32_t index = cs_text_index(key, names);
    for (int32_t i = args->n_parts; index >= 0 && i < args->n_overrides; i++) {
        if (strcmp(args->overrides[i].key, names[1 - index]) == 0) {
            argp_error(state, "--set %s and --set %s are one key: leave one out", args->overrides[i].key,
                       key);
        }
    }
}

static void add_set(struct cs__study_args *args, struct argp_state *state, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    int32_t at = args->n_overrides < CS__OVERRIDES_MAX ? args->n_overrides : 0;
    char *key = args->keys[at];
    if (len == 0 || len >= sizeof args->keys[0]) {
        argp_error(state, "'--set %s': expected KEY=VALUE, as in training.global_batch=1024", text);
        return;
    }
    memcpy(key, text, len);
    key[len] = '\0';
    check_names(args, state, key);
    cs__study_args_set(args, key, equals + 1);
    args->overrides[at].literal = false;
}

static error_t parse_study(int key, char *arg, struct argp_state *state)
{
    struct cs__study_args *args = state->input;
    switch (key) {
    case 'm':
        name_part(args, "model", arg);
        return 0;
    case 'p':
        name_part(args, "platform", arg);
        return 0;
    case 's':
        add_set(args, state, arg);
        return 0;
    case ARGP_KEY_ARG:
        if (args->study) {
            argp_error(state, "one study at a time, but there are '%s' and '%s'", args->study, arg);
        }
        args->study = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->study && args->n_overrides == 0 && !args->is_optional) {
            argp_error(state, "no study given: name a file, or say -m MODEL -p PLATFORM --set KEY=VALUE");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option study_options[] = {
    {NULL, 0, NULL, 0, "The study (a value given here wins over the file's):", 1},
    {"model", 'm', "MODEL", 0, "Shipped model or model file", 1},
    {"platform", 'p', "PLATFORM", 0,
     "Shipped platform, SimGrid XML file or rank table (.json); a description goes in the study's `platform` "
     "block or "
     "--set platform.KEY=VALUE",
     1},
    {"set", 's', "KEY=VALUE", 0, "Any key of the study file: training.global_batch=1024, strategy.mp=[1,2,4]",
     1},
    {0},
};
const struct argp cs__study_argp = {study_options, parse_study, NULL, NULL, NULL, NULL, NULL};

/* ---- output ---------------------------------------------------------------------------------------------
 */

enum {
    OPT_JSON = 0x1000,
    OPT_CSV,
    OPT_PROGRESS,
    OPT_NO_PROGRESS,
    OPT_FIDELITY,
    OPT_VIEW,
    OPT_COLLECTIVE,
    OPT_SLOW_DEVICE,
    OPT_SLOW_LINK,
    OPT_JITTER,
    OPT_SEED
};

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
    struct cs__output_args *args = state->input;
    switch (key) {
    case OPT_JSON:
        args->json = arg;
        return 0;
    case OPT_CSV:
        args->csv = arg;
        return 0;
    case 'q':
        args->quiet = true;
        return 0;
    case OPT_PROGRESS:
    case OPT_NO_PROGRESS:
        args->progress = key == OPT_PROGRESS ? 1 : 0;
        return 0;
    case ARGP_KEY_INIT:
        args->progress = -1;
        return 0;
    case ARGP_KEY_END:
        if (args->json && args->csv && strcmp(args->json, args->csv) == 0) {
            argp_error(state, "only one of --json and --csv can go to %s",
                       strcmp(args->json, "-") == 0 ? "standard output" : args->json);
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option output_options[] = {
    {NULL, 0, NULL, 0, "Output:", 3},
    {"json", OPT_JSON, "FILE", 0, "Write the result as JSON too; '-' is standard output, instead of the text",
     3},
    {"csv", OPT_CSV, "FILE", 0, "The same as comma-separated values", 3},
    {"quiet", 'q', NULL, 0, "No progress", 3},
    {"progress", OPT_PROGRESS, NULL, 0, "Progress bar even if standard error is no terminal", 3},
    {"no-progress", OPT_NO_PROGRESS, NULL, 0, "No progress", 3},
    {0},
};
const struct argp cs__output_argp = {output_options, parse_output, NULL, NULL, NULL, NULL, NULL};

static const struct argp_option json_options[] = {
    {"json", OPT_JSON, "FILE", 0, "Write the result as JSON too; '-' is standard output, instead of the text",
     3},
    {0},
};
const struct argp cs__json_argp = {json_options, parse_output, NULL, NULL, NULL, NULL, NULL};

/* ---- run ------------------------------------------------------------------------------------------------
 */

/* Note an option as the study's key that it is; of two of one key the last wins. */
static void say(struct cs__run_args *run, const char *block, const char *key, double value, const char *word)
{
    if (run->n_said < (int32_t)(sizeof run->said / sizeof run->said[0])) {
        struct cs__said *said = &run->said[run->n_said++];
        (void)snprintf(said->key, sizeof said->key, "%s.%s", block, key);
        if (word) {
            (void)snprintf(said->value, sizeof said->value, "%s", word);
        } else {
            (void)snprintf(said->value, sizeof said->value, "%.17g", value);
        }
    }
}

/* "all-reduce=ring" */
static void set_collective(struct cs__run_args *args, struct argp_state *state, const char *text)
{
    char kind[32] = "";
    char study_key[sizeof args->said[0].key];
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    if (len == 0 || len >= sizeof kind) {
        argp_error(state, "'--collective %s': expected KIND=ALGORITHM, as in all-reduce=ring", text);
        return;
    }
    memcpy(kind, text, len);
    int32_t coll = cs__option_choice(state, kind, cs_coll_names, "collective");
    int32_t algorithm = cs__option_choice(state, equals + 1, cs_algorithm_names, "collective algorithm");
    (void)snprintf(study_key, sizeof study_key, "collectives.%s", kind);
    for (int32_t i = 0; i < args->n_said; i++) {
        const struct cs__said *said = &args->said[i];
        if (strcmp(said->key, study_key) == 0 && strcmp(said->value, cs_algorithm_names[algorithm]) != 0) {
            argp_error(state, "'--collective %s=%s' and '--collective %s' give '%s' two values: say it once",
                       kind, said->value, text, kind);
        }
    }
    args->options.algorithm[coll] = (enum cs_algorithm)algorithm;
    say(args, "collectives", kind, 0, cs_algorithm_names[algorithm]);
}

/* "NAME=FACTOR": the name goes to `name`, the factor is returned. */
static double name_and_factor(struct argp_state *state, const char *option, const char *text, char *name,
                              size_t name_bytes, const char *example)
{
    struct cs_err err = {0};
    const char *equals = strrchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    double factor = 0;
    if (len == 0 || len >= name_bytes) {
        argp_error(state, "'--%s %s': expected NAME=FACTOR, as in %s", option, text, example);
        return 1;
    }
    memcpy(name, text, len);
    name[len] = '\0';
    if (cs_real_parse(equals + 1, option, CS_NOLOC, &factor, &err) != CS_OK) {
        argp_error(state, "%s", err.text);
    }
    return factor;
}

static void add_slow_device(struct cs__run_args *args, struct argp_state *state, const char *text)
{
    char name[16] = "";
    double factor = name_and_factor(state, "slow-device", text, name, sizeof name, "17=1.5");
    if (args->options.n_slow_devices >= CS__FAULTS_MAX || !(factor >= 1 && factor <= 1e6)) {
        argp_error(state, "'--slow-device %s': expected 1 to 1000000 times slower, at most %d devices", text,
                   CS__FAULTS_MAX);
        return;
    }
    int32_t device = (int32_t)cs__option_int(state, name, 0, INT32_MAX, "slow device");
    int32_t at = 0;
    while (at < args->options.n_slow_devices && args->slow_devices[at].device != device) {
        at++; /* given again: the last counts */
    }
    args->slow_devices[at] = (struct cs_slow_device){device, factor};
    args->options.n_slow_devices += at == args->options.n_slow_devices;
    args->options.slow_devices = args->slow_devices;
}

static void add_slow_link(struct cs__run_args *args, struct argp_state *state, const char *text)
{
    int32_t n = args->options.n_slow_links;
    if (n >= CS__FAULTS_MAX) {
        argp_error(state, "more than %d slow links", CS__FAULTS_MAX);
        return;
    }
    double factor = name_and_factor(state, "slow-link", text, args->link_names[n], sizeof args->link_names[n],
                                    "hccs0-1=0.5");
    if (!(factor >= 0 && factor <= 1)) {
        argp_error(state, "'--slow-link %s': expected 0 (dead) to 1 of the bandwidth", text);
    }
    args->slow_links[n] = (struct cs_slow_link){args->link_names[n], factor, false};
    args->link_shares[n] = strrchr(text, '=') + 1;
    args->options.n_slow_links = n + 1;
    args->options.slow_links = args->slow_links;
}

static void say_links(struct cs__run_args *run)
{
    int32_t n = run->options.n_slow_links;
    for (int32_t i = 0; i < n; i++) {
        if (strchr(run->link_names[i], '.')) {
            return;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        say(run, "faults.slow_links", run->link_names[i], 0, run->link_shares[i]);
    }
    run->options.n_slow_links = 0;
}

void cs__run_to_study(struct cs__run_args *run, struct cs__study_args *study)
{
    struct cs_run_options *options = &run->options;
    for (int32_t i = 0; i < options->n_slow_devices; i++) {
        char rank[16];
        (void)snprintf(rank, sizeof rank, "%d", (int)options->slow_devices[i].device);
        say(run, "faults.slow_devices", rank, options->slow_devices[i].factor, NULL);
    }
    say_links(run);
    for (int32_t i = 0; i < run->n_said; i++) {
        cs__study_args_set(study, run->said[i].key, run->said[i].value);
    }
    options->n_slow_devices = 0;
    options->jitter_frac = 0;
    for (int32_t i = 0; i < CS_N_COLLS; i++) {
        options->algorithm[i] = CS_ALGO_AUTO;
    }
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
    struct cs__run_args *args = state->input;
    switch (key) {
    case OPT_FIDELITY:
        args->options.fidelity =
            (enum cs_fidelity)cs__option_choice(state, arg, cs_fidelity_names, "fidelity");
        return 0;
    case OPT_VIEW:
        args->options.view = (enum cs_view)cs__option_choice(state, arg, cs_view_names, "view");
        return 0;
    case OPT_COLLECTIVE:
        set_collective(args, state, arg);
        return 0;
    case OPT_SLOW_DEVICE:
        add_slow_device(args, state, arg);
        return 0;
    case OPT_SLOW_LINK:
        add_slow_link(args, state, arg);
        return 0;
    case OPT_JITTER:
        args->options.jitter_frac = cs__option_quantity(state, arg, CS_UNIT_FRACTION, "jitter");
        if (args->options.jitter_frac > 1) {
            argp_error(state, "'--jitter %s': expected 0 to 1", arg);
        }
        say(args, "faults", "jitter", args->options.jitter_frac, NULL);
        return 0;
    case OPT_SEED:
        args->options.seed = (uint64_t)cs__option_int(state, arg, 0, INT64_MAX, "seed");
        return 0;
    case ARGP_KEY_INIT:
        cs_run_options_init(&args->options);
        args->options.simgrid_cfg = cs__simgrid_cfg();
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option run_options[] = {
    {NULL, 0, NULL, 0, "How to simulate:", 2},
    {"fidelity", OPT_FIDELITY, "F", 0, "analytic, folded (default) or full", 2},
    {"view", OPT_VIEW, "V", 0, "Collectives: auto (default), step, flow or closed", 2},
    {"collective", OPT_COLLECTIVE, "KIND=ALGORITHM", 0,
     "Algorithm of a kind of collective, as in all-reduce=ring; may be repeated", 2},
    {"slow-device", OPT_SLOW_DEVICE, "RANK=FACTOR", 0,
     "A device that computes FACTOR times slower; may be repeated", 2},
    {"slow-link", OPT_SLOW_LINK, "NAME=SHARE", 0,
     "A link with a share of its bandwidth, named as `links` in the result, or both directions as in "
     "hccs0-1=0.5; 0 = dead: traffic goes round the whole cable or is refused (replay only refuses); may be "
     "repeated",
     2},
    {"jitter", OPT_JITTER, "S", 0, "Spread of computing times: log-normal with this relative deviation", 2},
    {"seed", OPT_SEED, "N", 0, "Seed of the jitter", 2},
    {0},
};
const struct argp cs__run_argp = {run_options, parse_run, NULL, NULL, NULL, NULL, NULL};
