/* `calibrate --profile DIR`: a chip's efficiencies out of profiler output. */
#include "validate_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/strategies/profile.h"

#include <math.h>
#include <string.h>

struct profile_args {
    struct cs__output_args output;
    const char *dir;
    const char *chip;
    const char *catalogue; /* folder for the fitted chip */
};

enum { OPT_PROFILE = 1, OPT_CHIP };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct profile_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->output;
        return 0;
    case OPT_PROFILE:
        cs__option_once(state, &args->dir, arg, "profile");
        return 0;
    case OPT_CHIP:
        args->chip = arg;
        return 0;
    case 'o':
        args->catalogue = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': cases and profiles are fitted apart", arg);
        return 0;
    case ARGP_KEY_END:
        if (!args->chip) {
            argp_error(state, "--profile needs the chip that was measured: --chip NAME");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_args(struct profile_args *args, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"profile", OPT_PROFILE, "DIR", 0,
         "Folder with kernel_details.csv, step_trace_time.csv, communication.json (any of them)", 0},
        {"chip", OPT_CHIP, "NAME", 0, "Chip of the catalogue that was measured", 0},
        {"output", 'o', "DIR", 0, "Write the chip with its fitted figures there, as a catalogue file", 0},
        {0},
    };
    static const struct argp_child children[] = {{&cs__json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options,
                                     parse,
                                     "--profile DIR --chip NAME",
                                     "Fit the efficiencies of a chip's operator kinds to the kernels of "
                                     "MindSpore / msprof profiler output, and "
                                     "show what its collectives moved.\v" CS__EXIT_STATUS_DOC,
                                     children,
                                     NULL,
                                     NULL};
    cs__parse(&argp, "clustersim calibrate", argc, argv, args);
}

bool cs__calibrates_profile(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--profile") == 0 || strncmp(argv[i], "--profile=", 10) == 0) {
            return true;
        }
    }
    return false;
}

static const char *frac_text(double frac, char text[16])
{
    (void)snprintf(text, 16, "%.3f", frac);
    return isnan(frac) ? "-" : text;
}

static void print_fits(const struct cs_profile *profile, const struct cs_chip *before,
                       const struct cs_profile_fit *fits)
{
    char was[16];
    char is[16];
    char memory_was[16];
    char memory_is[16];
    (void)printf("%-16s %8s %7s %10s  %-16s %-16s %s\n", "kernels of", "number", "shapes", "time",
                 "efficiency", "of memory", "median error");
    for (int32_t k = 0; k < CS_N_OPKINDS; k++) {
        const struct cs_profile_fit *fit = &fits[k];
        char time[32];
        if (fit->n == 0) {
            continue;
        }
        (void)printf("%-16s %8lld %7d %10s  %6s -> %-6s %6s -> %-6s %.1f %% -> %.1f %%\n", cs_opkind_names[k],
                     (long long)fit->n, (int)fit->n_shapes,
                     cs_units_format(fit->time_s, CS_UNIT_SECONDS, time, sizeof time),
                     frac_text(before->opkind_peak_frac[k], was), frac_text(fit->efficiency_frac, is),
                     frac_text(before->opkind_memory_frac[k], memory_was),
                     frac_text(fit->memory_efficiency_frac, memory_is), 100 * fit->before_frac,
                     100 * fit->after_frac);
    }
    if (profile->n_unknown > 0) {
        (void)printf("%lld kernels of other types or without shapes are left out: %.1f %% of the time\n",
                     (long long)profile->n_unknown,
                     100 * profile->unknown_s / (profile->unknown_s + profile->known_s));
    }
    (void)printf("- = not determined by these kernels, the catalogue's figure stays\n");
}

static void print_rest(const struct cs_profile *profile)
{
    const struct cs_profile_step *step = &profile->step;
    char rate[32];
    if (profile->n_collectives > 0) {
        (void)printf("\n%-16s %-10s %8s %14s\n", "collective", "transport", "number", "on the wire");
    }
    for (int32_t i = 0; i < profile->n_collectives; i++) {
        const struct cs_profile_collective *c = &profile->collectives[i];
        (void)printf("%-16s %-10s %8lld %14s\n", c->kind, c->transport, (long long)c->n,
                     cs_units_format(c->bytes_per_s, CS_UNIT_BYTES_PER_S, rate, sizeof rate));
    }
    if (profile->n_unknown_operations > 0) {
        (void)printf("%lld operations of other names are left out\n",
                     (long long)profile->n_unknown_operations);
    }
    if (profile->elapsed_s > 0) {
        (void)printf("%.1f %% of the collectives' time is waiting for other ranks\n",
                     100 * profile->wait_s / profile->elapsed_s);
    }
    if (step->n > 0) {
        (void)printf("\n%lld steps of %.4g s: computing %.1f %%, communication %.1f %% exposed and %.1f %% "
                     "overlapped, free %.1f %%, bubble %.1f %%\n",
                     (long long)step->n, step->iteration_s, 100 * step->computing_s / step->iteration_s,
                     100 * step->exposed_s / step->iteration_s, 100 * step->overlapped_s / step->iteration_s,
                     100 * step->free_s / step->iteration_s, 100 * step->bubble_s / step->iteration_s);
    }
}

static json_t *fits_json(const struct cs_profile_fit *fits)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < CS_N_OPKINDS; k++) {
        if (fits[k].n > 0) {
            json_t *object =
                json_pack("{s:s, s:I, s:i, s:f}", "kind", cs_opkind_names[k], "kernels",
                          (json_int_t)fits[k].n, "shapes", (int)fits[k].n_shapes, "time_s", fits[k].time_s);
            (void)json_object_set_new(object, "efficiency_fraction", cs_json_real(fits[k].efficiency_frac));
            (void)json_object_set_new(object, "memory_efficiency_fraction",
                                      cs_json_real(fits[k].memory_efficiency_frac));
            (void)json_object_set_new(object, "median_ape_before", cs_json_real(fits[k].before_frac));
            (void)json_object_set_new(object, "median_ape_after", cs_json_real(fits[k].after_frac));
            (void)json_array_append_new(list, object);
        }
    }
    return list;
}

static json_t *profile_json(const struct cs_profile *profile, const char *chip,
                            const struct cs_profile_fit *fits)
{
    const struct cs_profile_step *step = &profile->step;
    json_t *object = json_object();
    json_t *collectives = json_array();
    for (int32_t i = 0; i < profile->n_collectives; i++) {
        const struct cs_profile_collective *c = &profile->collectives[i];
        (void)json_array_append_new(collectives,
                                    json_pack("{s:s, s:s, s:I, s:f, s:f, s:f}", "kind", c->kind, "transport",
                                              c->transport, "operations", (json_int_t)c->n, "bytes", c->bytes,
                                              "time_s", c->time_s, "bytes_per_s", c->bytes_per_s));
    }
    (void)json_object_set_new(object, "chip", json_string(chip));
    (void)json_object_set_new(object, "kinds", fits_json(fits));
    (void)json_object_set_new(object, "unknown_kernels", json_integer((json_int_t)profile->n_unknown));
    (void)json_object_set_new(object, "collectives", collectives);
    (void)json_object_set_new(object, "unknown_operations",
                              json_integer((json_int_t)profile->n_unknown_operations));
    if (step->n > 0) {
        (void)json_object_set_new(object, "step",
                                  json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "steps",
                                            (json_int_t)step->n, "iteration_time_s", step->iteration_s,
                                            "computing_s", step->computing_s, "exposed_comm_s",
                                            step->exposed_s, "overlapped_s", step->overlapped_s, "free_s",
                                            step->free_s, "bubble_s", step->bubble_s));
    }
    return object;
}

/* The chip as a catalogue file; a figure that was fitted says on what. */
static cs_status write_chip(const struct profile_args *args, const struct cs_catalogue *catalogue,
                            const struct cs_chip *before, const struct cs_chip *chip, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_outfile file = {0};
    const char **sources = CS_ARENA_NEW(&arena, const char *, cs_chip_n_figures());
    for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
        double was = cs_chip_figure(before, f);
        double is = cs_chip_figure(chip, f);
        sources[f] =
            was < is || was > is
                ? cs_arena_printf(&arena, "fitted on the profile %s by clustersim calibrate", args->dir)
                : cs_catalogue_source(catalogue, before->name, cs_chip_figure_key(f));
    }
    CS_TRY(cs_outfile_open(
        &file, cs_path_join(&arena, args->catalogue, cs_arena_printf(&arena, "chip-%s.yaml", chip->name)),
        err));
    cs_chip_write(chip, sources, file.stream);
    CS_TRY(cs_outfile_commit(&file, err));
out:
    cs_outfile_release(&file);
    cs_arena_release(&arena);
    return st;
}

int cs__calibrate_profile(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct profile_args args = {0};
    struct cs__hardware hardware = {0};
    struct cs_profile profile = {0};
    struct cs_profile_fit fits[CS_N_OPKINDS];
    parse_args(&args, argc, argv);
    CS_TRY(cs__check_outputs(&args.output.json, 1, &err));
    if (args.catalogue) {
        CS_TRY(cs__calibrated_check(args.catalogue, &err));
    }
    CS_TRY(cs__hardware_load(&hardware, NULL, &err));
    const struct cs_chip *before = cs_catalogue_chip(hardware.catalogue, args.chip);
    if (!before) {
        const char *near = cs_text_nearest(args.chip, cs_catalogue_chip_names(hardware.catalogue));
        st = cs_err_set(&err, CS_E_INPUT, (struct cs_loc){"command line", 0, 0},
                        "chip '%s' is not in the catalogue%s%s%s", args.chip, near ? ", did you mean '" : "",
                        near ? near : "", near ? "'?" : "");
        goto out;
    }
    struct cs_chip chip = *before;
    CS_TRY(cs_profile_load(&profile, args.dir, &err));
    CS_TRY(cs_profile_fit(&profile, &chip, fits, &err));
    if (args.catalogue) {
        CS_TRY(write_chip(&args, hardware.catalogue, before, &chip, &err));
    }
    if (cs__wants_text(&args.output)) {
        if (profile.n_kernels + profile.n_unknown > 0) {
            print_fits(&profile, before, fits);
        }
        print_rest(&profile);
    }
    CS_TRY(cs__write_json(&args.output, args.output.json ? profile_json(&profile, args.chip, fits) : NULL,
                          &err));
out:
    cs_profile_release(&profile);
    cs__hardware_release(&hardware);
    return st == CS_OK ? 0 : cs__fail(&err);
}
