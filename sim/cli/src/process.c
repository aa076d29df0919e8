#include "mindformers_priv.h"

#include "cs/base/file.h"
#include "cs/strategies/shipped.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int cs__fail(const struct cs_err *err)
{
    char text[CS_ERR_TEXT_MAX + CS_ERR_FILE_MAX + 64];
    cs_err_format(err, text, sizeof text);
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s%s\n", err->file[0] ? "" : "clustersim: ", text);
    return cs_status_exit(err->code);
}

int cs__finish(int exit_status)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (failed) {
        (void)fputs("clustersim: error: cannot write to standard output\n", stderr);
    }
    return failed ? 1 : exit_status;
}

static bool has_data(const char *dir, struct cs_arena *arena)
{
    return cs_file_is_dir(cs_path_join(arena, dir, "platforms/catalogue"));
}

cs_status cs__data_dir(struct cs_arena *arena, const char **data_dir, struct cs_err *err)
{
    const char *given = getenv("CLUSTERSIM_DATA");
    if (given && given[0]) {
        *data_dir = cs_arena_strdup(arena, given);
        if (!has_data(given, arena)) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                              "CLUSTERSIM_DATA is '%s', but there is no platforms/catalogue in it", given);
        }
        return CS_OK;
    }
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    const char *installed = cs_path_join(arena, cs_path_dir(arena, program), CS_INSTALL_DATA_DIR);
    *data_dir = n > 0 && has_data(installed, arena) ? installed : CS_SOURCE_DATA_DIR;
    if (!has_data(*data_dir, arena)) {
        return cs_err_set(err, CS_E_IO, CS_NOLOC,
                          "the shipped data is neither in '%s' nor in '%s'; set CLUSTERSIM_DATA", installed,
                          CS_SOURCE_DATA_DIR);
    }
    return CS_OK;
}

cs_status cs__load_study(struct cs_study *study, const struct cs__study_args *args, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_study_source source = {.catalogue = cs__catalogue_over(),
                                     .path = args->study,
                                     .n_overrides = args->n_overrides,
                                     .overrides = args->overrides};
    CS_TRY(cs__data_dir(&arena, &source.data_dir, err));
    CS_TRY(cs_study_load(study, &source, err));
    if (!args->model_listed || strcmp(args->model_listed, study->model_path) != 0) {
        cs__mindformers_say(study->model.warnings, study->model.n_warnings);
    }
out:
    cs_arena_release(&arena);
    return st;
}

cs_status cs__choose_strategy(const struct cs_study *study, const char *text, struct cs_strategy *strategy,
                              struct cs_err *err)
{
    cs_status st = CS_OK;
    if (text) {
        CS_TRY(cs_study_said_once(study, text, err));
    }
    st = cs_study_strategy(study, text, strategy, err);
out:
    return st;
}

cs_status cs__hardware_load(struct cs__hardware *hardware, const char *text, struct cs_err *err)
{
    cs_status st = CS_OK;
    const char *path = NULL;
    CS_TRY(cs__data_dir(&hardware->arena, &hardware->data_dir, err));
    CS_TRY(cs_catalogue_load_over(cs_path_join(&hardware->arena, hardware->data_dir, "platforms/catalogue"),
                                  cs__catalogue_over(), &hardware->catalogue, err));
    if (text) {
        struct cs_loc loc = {"command line", 0, 0};
        CS_TRY(cs_shipped_find(&hardware->arena, hardware->data_dir, CS_SHIPPED_PLATFORM, text, NULL, loc,
                               &path, err));
        CS_TRY(cs_platform_load(&hardware->platform, path, hardware->catalogue, err));
    }
out:
    return st;
}

void cs__hardware_release(struct cs__hardware *hardware)
{
    cs_platform_release(&hardware->platform);
    cs_catalogue_free(hardware->catalogue);
    cs_arena_release(&hardware->arena);
    *hardware = (struct cs__hardware){0};
}

volatile bool cs__stop;

/* So long after the first signal more of them are the same wish: a terminal and a launcher both pass it on.
 */
#define SAME_WISH_S 1.0

static double first_signal_s; /* 0 = none yet */

static void on_signal(int number)
{
    struct timespec t;
    int saved_errno = errno;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now_s = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (!cs__stop) {
        first_signal_s = now_s;
        cs__stop = true;
    } else if (now_s - first_signal_s > SAME_WISH_S) {
        (void)signal(number, SIG_DFL);
        (void)raise(number); /* once this handler returns */
    }
    errno = saved_errno;
}

/* Before there is anything to keep. */
static void on_early_signal(int number)
{
    static const char text[] = "clustersim: error: interrupted\n";
    (void)number;
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 1 : cs_status_exit(CS_E_INTERRUPTED));
}

void cs__catch_early_signals(void)
{
    struct sigaction action = {.sa_handler = on_early_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGXFSZ,
                 SIG_IGN); /* a file that may not grow is an error of whoever writes it, not the end */
}

void cs__catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool cs__color(void)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no_color && no_color[0]);
}

const char *cs__simgrid_cfg(void)
{
    const char *cfg = getenv("CLUSTERSIM_SIMGRID_CFG");
    return cfg && cfg[0] ? cfg : NULL;
}

cs_status cs__check_outputs(const char *const *paths, int32_t n, struct cs_err *err)
{
    cs_status st = CS_OK;
    for (int32_t i = 0; i < n; i++) {
        struct cs_outfile file = {0};
        struct stat info;
        bool is_special = paths[i] && stat(paths[i], &info) == 0 && !S_ISREG(info.st_mode) &&
                          !S_ISDIR(info.st_mode); /* who reads a pipe would take the look for its end */
        for (int32_t k = 0; k < i && paths[i] && !is_special; k++) {
            if (paths[k] && strcmp(paths[k], paths[i]) == 0) {
                st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "two results are to be written to '%s'", paths[i]);
                goto out;
            }
        }
        if (paths[i] && !is_special) {
            st = cs_outfile_open(&file, paths[i], err); /* beside the file, which is not touched */
            cs_outfile_release(&file);
            CS_TRY(st);
        }
    }
out:
    return st;
}

cs_status cs__write_json(const struct cs__output_args *args, json_t *json, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (args->json) {
        st = cs_json_write_file(json, args->json, err);
    }
    json_decref(json);
    return st;
}

cs_status cs__write_file(const char *path, cs__write_fn write_report, const void *report, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_outfile file = {0};
    if (path) {
        CS_TRY(cs_outfile_open(&file, path, err));
        write_report(file.stream, report);
        CS_TRY(cs_outfile_commit(&file, err));
    }
out:
    cs_outfile_release(&file);
    return st;
}

bool cs__wants_text(const struct cs__output_args *args)
{
    return !(args->json && strcmp(args->json, "-") == 0) && !(args->csv && strcmp(args->csv, "-") == 0);
}
