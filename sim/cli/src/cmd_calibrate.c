#include "validate_priv.h"

#include "cs/base/file.h"

#include <string.h>

static void say(void *context, const char *line)
{
    const struct cs__progress *progress = context;
    if (progress->bar || progress->lines) {
        (void)fprintf(stderr, "%s\n", line);
    }
}

static bool fitted(const struct cs_calibration *calibration, const char *owner, const char *key)
{
    for (int32_t i = 0; i < calibration->n_figures; i++) {
        const struct cs_fit_figure *f = &calibration->figures[i];
        if (strcmp(f->owner, owner) == 0 && strcmp(f->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Where each figure of a chip is from: the catalogue's text, or the fit of its generation. */
static cs_status write_chip(const struct cs__bench *bench, const struct cs_chip *chip, const char *cases,
                            const char *dir, const struct cs_calibration *calibration, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_outfile file = {0};
    const struct cs_chip *before = cs_catalogue_chip(bench->hardware.catalogue, chip->name);
    const char **sources = CS_ARENA_NEW(&arena, const char *, cs_chip_n_figures());
    for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
        const char *key = cs_chip_figure_key(f);
        double a = cs_chip_figure(before, f);
        double b = cs_chip_figure(chip, f);
        bool changed = a < b || a > b || fitted(calibration, chip->name, key);
        sources[f] = changed ? cs_arena_printf(&arena, "fitted on %s by clustersim calibrate", cases)
                             : cs_catalogue_source(bench->hardware.catalogue, chip->name, key);
        sources[f] = sources[f] ? sources[f] : "the catalogue";
    }
    CS_TRY(cs_outfile_open(
        &file, cs_path_join(&arena, dir, cs_arena_printf(&arena, "chip-%s.yaml", chip->name)), err));
    cs_chip_write(chip, sources, file.stream);
    CS_TRY(cs_outfile_commit(&file, err));
out:
    cs_outfile_release(&file);
    cs_arena_release(&arena);
    return st;
}

static cs_status write_catalogue(const struct cs__bench *bench, const struct cs__validate_args *args,
                                 const struct cs_calibration *calibration, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_outfile file = {0};
    const char *name = strrchr(args->cases, '/');
    name = name ? name + 1 : args->cases;
    for (int32_t i = 0; i < bench->bed.n_chips; i++) {
        CS_TRY(write_chip(bench, &bench->bed.chips[i], name, args->catalogue, calibration, err));
    }
    CS_TRY(cs_outfile_open(&file, cs_path_join(&arena, args->catalogue, "software.yaml"), err));
    cs_softwares_write(&bench->softwares, file.stream);
    CS_TRY(cs_outfile_commit(&file, err));
out:
    cs_outfile_release(&file);
    cs_arena_release(&arena);
    return st;
}

/* The source of every software figure that was fitted. */
static void cite(struct cs__bench *bench, const char *cases, const struct cs_calibration *calibration)
{
    const char *name = strrchr(cases, '/');
    name = name ? name + 1 : cases;
    for (int32_t s = 0; s < bench->softwares.n; s++) {
        struct cs_software *software = &bench->softwares.items[s];
        for (int32_t f = 0; f < CS_N_SOFTWARE_FIGURES; f++) {
            if (fitted(calibration, software->name, cs_software_figure_keys[f])) {
                software->figure_source[f] =
                    cs_arena_printf(&bench->softwares.arena, "fitted on %s by clustersim calibrate", name);
            }
        }
    }
}

/* Collectives without cases. */
static cs_status links_alone(const struct cs__validate_args *args, struct cs_err *err)
{
    static struct cs_link_fits links; /* large */
    cs_status st = CS_OK;
    struct cs__hardware hardware = {0};
    struct cs_testbed bed = {0};
    struct cs_report_origin origin = cs__origin("calibrate");
    CS_TRY(cs__hardware_load(&hardware, NULL, err));
    cs_testbed_init(&bed, hardware.catalogue);
    CS_TRY(cs_collectives_fit(&links, args->collectives, &bed, cs__simgrid_cfg(), err));
    if (cs__wants_text(&args->output)) {
        cs_report_links_text(stdout, &links);
    }
    CS_TRY(
        cs__write_json(&args->output, args->output.json ? cs_report_links_json(&links, &origin) : NULL, err));
out:
    cs_testbed_release(&bed);
    cs__hardware_release(&hardware);
    return st;
}

int cs__cmd_calibrate(int argc, char **argv)
{
    static struct cs_calibration calibration; /* large */
    static struct cs_link_fits links;
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs__validate_args args = {0};
    struct cs__bench bench = {0};
    if (cs__calibrates_profile(argc, argv)) {
        return cs__calibrate_profile(argc, argv);
    }
    cs__validate_parse(&args, true, argc, argv);
    if (!args.cases) {
        st = links_alone(&args, &err);
        goto out;
    }
    CS_TRY(cs__bench_load(&bench, &args, &err));
    if (args.collectives) {
        CS_TRY(cs_collectives_fit(&links, args.collectives, &bench.bed, bench.options.simgrid_cfg, &err));
    }
    cs__catch_signals();
    struct cs_calibrate_options options = {.validate = bench.options,
                                           .n_rounds = args.n_rounds,
                                           .n_starts = args.n_starts,
                                           .cross_validate = args.cross_validate,
                                           .say = say,
                                           .say_context = &bench.progress};
    options.validate.progress = NULL;
    CS_TRY(cs_calibrate(&bench.cases, &bench.bed, &bench.softwares, &options, &calibration, &err));
    cite(&bench, args.cases, &calibration);
    if (args.catalogue) {
        CS_TRY(write_catalogue(&bench, &args, &calibration, &err));
    }
    CS_TRY(cs_validate_run(&bench.cases, &bench.bed, &bench.options, bench.runs, &err));
    cs__progress_end(&bench.progress);
    CS_TRY(
        cs__bench_report(&bench, &args, "calibrate", &calibration, args.collectives ? &links : NULL, &err));
out:
    cs_calibration_release(&calibration);
    cs__bench_release(&bench);
    return st == CS_OK ? 0 : cs__fail(&err);
}
