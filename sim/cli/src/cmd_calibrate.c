#include "validate_priv.h"

static void say(void *context, const char *line)
{
    const struct cs__progress *progress = context;
    if (progress->bar || progress->lines) {
        (void)fprintf(stderr, "%s\n", line);
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
    cs_collectives_apply(&links, &bed);
    if (args->catalogue) {
        const struct cs__calibrated what = {.dir = args->catalogue,
                                            .catalogue = hardware.catalogue,
                                            .bed = &bed,
                                            .links = &links,
                                            .measured_links = args->collectives};
        CS_TRY(cs__calibrated_write(&what, err));
    }
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

/* Cases, on links that are fitted before them where there are collectives. */
static cs_status run(struct cs__bench *bench, const struct cs__validate_args *args,
                     struct cs_calibration *calibration, struct cs_err *err)
{
    static struct cs_link_fits links; /* large */
    cs_status st = CS_OK;
    CS_TRY(cs__bench_load(bench, args, err));
    if (args->collectives) {
        CS_TRY(cs_collectives_fit(&links, args->collectives, &bench->bed, bench->options.simgrid_cfg, err));
        cs_collectives_apply(&links, &bench->bed);
    }
    cs__catch_signals();
    struct cs_calibrate_options options = {.validate = bench->options,
                                           .n_rounds = args->n_rounds,
                                           .n_starts = args->n_starts,
                                           .cross_validate = args->cross_validate,
                                           .n_folds = args->n_folds,
                                           .only = args->only,
                                           .say = say,
                                           .say_context = &bench->progress};
    options.validate.progress = NULL;
    CS_TRY(cs_calibrate(&bench->cases, &bench->bed, &bench->softwares, &options, calibration, err));
    CS_TRY(cs_validate_run(&bench->cases, &bench->bed, &bench->options, bench->runs, err));
    cs__progress_end(&bench->progress);
    if (args->catalogue) {
        const struct cs__calibrated what = {.dir = args->catalogue,
                                            .catalogue = bench->hardware.catalogue,
                                            .bed = &bench->bed,
                                            .softwares = &bench->softwares,
                                            .calibration = calibration,
                                            .links = args->collectives ? &links : NULL,
                                            .measured_chips = args->cases,
                                            .measured_links = args->collectives};
        CS_TRY(cs__calibrated_write(&what, err));
    }
    CS_TRY(cs__bench_report(bench, args, "calibrate", calibration, args->collectives ? &links : NULL, err));
out:
    return st;
}

int cs__cmd_calibrate(int argc, char **argv)
{
    static struct cs_calibration calibration; /* large */
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs__validate_args args = {0};
    struct cs__bench bench = {0};
    if (cs__calibrates_profile(argc, argv)) {
        return cs__calibrate_profile(argc, argv);
    }
    cs__validate_parse(&args, true, argc, argv);
    CS_TRY(cs__validate_check(&args, &err));
    if (args.cases) {
        CS_TRY(run(&bench, &args, &calibration, &err));
    } else {
        CS_TRY(links_alone(&args, &err));
    }
out:
    cs_calibration_release(&calibration);
    cs__bench_release(&bench);
    return st == CS_OK ? 0 : cs__fail(&err);
}
