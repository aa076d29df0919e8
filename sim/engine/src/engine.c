#define _GNU_SOURCE /* memfd_create: the quotient's text never touches a disk */

#include "cs/engine/engine.h"

#include "quotient_priv.h"
#include "replay_priv.h"
#include "result_priv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

const char *const cs_fidelity_names[] = {"analytic", "folded", "full", NULL};
const char *const cs_view_names[] = {"auto", "step", "flow", "closed", NULL};

void cs_run_options_init(struct cs_run_options *options)
{
    memset(options, 0, sizeof *options);
    options->fidelity = CS_FIDELITY_FOLDED;
}

void cs_run_release(struct cs_run *run)
{
    cs_free(run->spans);
    cs_free(run->links);
    cs_free(run->ranks);
    cs_free(run->folding);
    cs_free(run->path);
    cs_free(run->path_stages);
    cs_free(run->stages);
    memset(run, 0, sizeof *run);
}

/* Everything the child needs; it inherits the memory. */
struct task {
    struct cs__system system;
    struct cs__codebook book;
    int32_t *peak_call;
    char quotient_path[64]; /* "" = on the platform itself */
    int32_t n_hosts;
};

static cs_status child(void *context, struct cs__answer *answer, struct cs_err *err)
{
    (void)err;
    struct task *task = context;
    cs__replay(&task->system, &task->book, task->peak_call, *task->quotient_path ? task->quotient_path : NULL,
               task->n_hosts, answer);
}

static cs_status write_quotient(struct task *task, int *fd, struct cs_err *err)
{
    size_t bytes = 0;
    char *xml = cs__quotient_xml(&task->system, &task->n_hosts, &bytes);
    *fd = memfd_create("quotient", 0);
    size_t done = 0;
    while (*fd >= 0 && done < bytes) {
        ssize_t n = write(*fd, xml + done, bytes - done);
        if (n < 0 && errno != EINTR) {
            break;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    cs_free(xml);
    if (*fd < 0 || done < bytes) {
        return cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot hold the folded platform in memory: %s",
                          strerror(errno));
    }
    snprintf(task->quotient_path, sizeof task->quotient_path, "/proc/self/fd/%d", *fd);
    return CS_OK;
}

static void find_peaks(struct task *task)
{
    const struct cs__system *s = &task->system;
    int32_t *of_program = cs_calloc((size_t)s->trace->n_programs + 1, sizeof *of_program);
    for (int32_t p = 0; p < s->trace->n_programs; p++) {
        struct cs_mem_peak peak;
        cs_trace_memory(s->trace, p, &peak);
        of_program[p] = peak.peak_call;
    }
    task->peak_call = cs_calloc((size_t)s->n_classes + 1, sizeof *task->peak_call);
    for (int32_t k = 0; k < s->n_classes; k++) {
        task->peak_call[k] = of_program[s->trace->program_of_rank[s->class_rep[k]]];
    }
    cs_free(of_program);
}

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cs_status check_options(const struct cs_trace *trace, const struct cs_run_options *o,
                               struct cs_err *err)
{
    if (o->fidelity == CS_FIDELITY_ANALYTIC) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                          "fidelity 'analytic' is not a replay: use folded or full");
    }
    if (!(o->jitter_frac >= 0 && o->jitter_frac <= 1)) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "jitter %g is outside 0 to 1", o->jitter_frac);
    }
    for (int32_t i = 0; i < o->n_slow_devices; i++) {
        if (!(o->slow_devices[i].factor >= 1)) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "slow device %d has factor %g, expected 1 or more",
                              o->slow_devices[i].device, o->slow_devices[i].factor);
        }
    }
    if (trace->n_ranks < 1) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "the trace has no ranks");
    }
    return CS_OK;
}

/* A figure that the catalogue does not have is NaN: a run that needs it is refused. */
static cs_status check_figures(const struct cs_trace *trace, const struct cs_platform *platform,
                               struct cs_err *err)
{
    const struct cs_chip *checked = NULL;
    for (int32_t r = 0; r < trace->n_ranks && r < platform->n_devices; r++) {
        const struct cs_chip *chip = platform->devices[r].chip;
        for (int32_t i = 0; i < trace->n_costs && chip != checked; i++) {
            const struct cs_op_cost *cost = &trace->costs[i];
            if (!isfinite(cs_chip_op_time_s(chip, cost)) ||
                (cost->flop > 0 && cs_opkind_is_matrix(cost->kind) &&
                 !(chip->peak_flop_per_s[cost->dtype] > 0))) { /* vector kinds have another roof */
                return cs_err_set(
                    err, CS_E_INPUT, CS_NOLOC,
                    "the catalogue has no figure of chip '%s' for '%s' in %s: what it would take is not "
                    "known",
                    chip->name, cs_opkind_names[cost->kind], cs_dtype_names[cost->dtype]);
            }
        }
        checked = chip;
    }
    return CS_OK;
}

cs_status cs_engine_run(const struct cs_trace *trace, struct cs_routes *routes,
                        const struct cs_run_options *options, struct cs_run *run, struct cs_err *err)
{
    cs_status st = CS_OK;
    double start_s = clock_s();
    struct task *task = cs_calloc(1, sizeof *task);
    struct cs_run result = {0};
    char *data = NULL;
    size_t bytes = 0;
    int fd = -1;
    bool full = options->fidelity == CS_FIDELITY_FULL;
    bool discrete = full || options->jitter_frac > 0;
    CS_TRY(check_options(trace, options, err));
    CS_TRY(check_figures(trace, cs_routes_platform(routes), err));
    CS_TRY(cs__system_build(&task->system, trace, routes, options, discrete, err));
    /* The reference views keep every operation a step of its own, jitter draws for each. */
    bool merge = options->jitter_frac <= 0 && (!full || options->view == CS_VIEW_AUTO);
    cs__codebook_build(&task->book, &task->system, merge);
    find_peaks(task);
    if (full) {
        cs__mark_simulated(&task->system);
    } else {
        CS_TRY(write_quotient(task, &fd, err));
    }
    CS_TRY(cs__isolate(child, task, options->time_limit_s, &data, &bytes, err));
    CS_TRY(cs__result_read(&task->system, data, bytes, &result, err));
    result.metrics.wall_s = clock_s() - start_s;
    *run = result;
    memset(&result, 0, sizeof result);
out:
    if (fd >= 0) {
        close(fd);
    }
    cs_free(data);
    cs_free(task->peak_call);
    cs__codebook_release(&task->book);
    cs__system_release(&task->system);
    cs_free(task);
    cs_run_release(&result);
    return st;
}
