/* The driver's and the worker's side of a pool whose workers are elsewhere. */
#include "remote_priv.h"

#include "cs/base/mem.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a look for frames may last while *stop may be set. */
#define TICK_MS 100
/* The bridge says how many workers there are as soon as it runs. */
#define OPEN_MS 60000
/* A job that was lost with this many workers is to blame itself. */
#define ATTEMPTS 2

enum state {
    STATE_SILENT, /* has not said hello */
    STATE_IDLE,
    STATE_BUSY,
    STATE_GONE
};

struct worker {
    enum state state;
    int64_t job;
    int32_t n_lost; /* jobs of attempts before that this job has had */
};

/** A job that was lost, to be tried again. */
struct again {
    int64_t job;
    int32_t n_lost;
};

struct cs_remote {
    int fd;
    uint64_t hash;
    int32_t n_workers;
    struct worker *workers;
    bool strangers; /* some worker has other inputs */
    bool friends;   /* some had ours */
    char *data;     /* of a frame */
};

struct run {
    const struct cs_pool_options *options;
    struct cs_remote *remote;
    cs_job_fn job;
    cs_job_next_fn next;
    cs_job_done_fn done;
    void *context;
    struct again *again;
    int32_t n_again, cap_again;
    int32_t n_running;
    bool no_more;
    double end_s;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cs_status cs_remote_open(struct cs_remote **out, int fd, uint64_t hash, struct cs_err *err)
{
    struct cs_remote *remote = cs_calloc(1, sizeof *remote);
    struct cs_frame frame = {0};
    bool is_there = false;
    remote->fd = fd;
    remote->hash = hash;
    remote->data = cs_malloc(CS_FRAME_BYTES_MAX);
    signal(SIGPIPE, SIG_IGN); /* a bridge that is gone is seen by its reads and writes */
    if (!cs_frame_read(fd, OPEN_MS, &frame, remote->data, &is_there) || !is_there ||
        frame.kind != CS_FRAME_SIZE || frame.job < 0 || frame.job > INT32_MAX) {
        cs_remote_close(remote);
        return cs_err_set(err, CS_E_IO, CS_NOLOC, "the bridge to the workers does not answer");
    }
    remote->n_workers = (int32_t)frame.job;
    remote->workers = cs_calloc((size_t)remote->n_workers + 1, sizeof *remote->workers);
    *out = remote;
    return CS_OK;
}

void cs_remote_close(struct cs_remote *remote)
{
    if (remote) {
        close(remote->fd);
        cs_free(remote->workers);
        cs_free(remote->data);
        cs_free(remote);
    }
}

/* The next job: one that was lost, or a new one; -1 = none, CS_JOB_LATER. */
static int64_t take_job(struct run *run, int32_t *n_lost)
{
    *n_lost = 0;
    if (run->n_again > 0) {
        struct again again = run->again[--run->n_again];
        *n_lost = again.n_lost;
        return again.job;
    }
    if (run->no_more) {
        return -1;
    }
    int64_t job = run->next(run->context);
    if (job < 0) {
        run->no_more = job != CS_JOB_LATER || run->n_running == 0;
    }
    return job;
}

/* The worker does not have its job any more. */
static void lose_job(struct run *run, struct worker *worker)
{
    struct again again = {worker->job, worker->n_lost + 1};
    run->n_running--;
    if (again.n_lost < ATTEMPTS) {
        CS_GROW(run->again, run->n_again, run->cap_again);
        run->again[run->n_again++] = again;
        return;
    }
    struct cs_err err = {0};
    (void)cs_err_set(&err, CS_E_ENGINE, CS_NOLOC, "%d workers were lost with it", ATTEMPTS);
    if (!run->done(run->context, again.job, CS_JOB_DIED, NULL, &err)) {
        run->no_more = true;
    }
}

static void send_jobs(struct run *run)
{
    struct cs_remote *remote = run->remote;
    for (int32_t i = 0; i < remote->n_workers; i++) {
        struct worker *worker = &remote->workers[i];
        if (worker->state != STATE_IDLE) {
            continue;
        }
        int64_t job = take_job(run, &worker->n_lost);
        if (job < 0) {
            return;
        }
        struct cs_frame frame = {.worker = i, .kind = CS_FRAME_JOB, .job = job};
        worker->job = job;
        worker->state = STATE_BUSY;
        run->n_running++;
        if (!cs_frame_write(remote->fd, &frame, NULL)) {
            return; /* the read that follows finds the bridge gone */
        }
    }
}

static void take_result(struct run *run, struct worker *worker, const struct cs_frame *frame)
{
    struct cs_err err = {0};
    const char *data = run->remote->data;
    bool is_done = frame->end == CS_JOB_DONE;
    size_t bytes = CS_FRAME_RECORD_AT + (is_done ? run->options->record_bytes : 0);
    if (worker->state != STATE_BUSY || frame->job != worker->job || frame->bytes != bytes) {
        return; /* of a run before: its job was given up */
    }
    memcpy(&err, data, sizeof err);
    worker->state = STATE_IDLE;
    run->n_running--;
    if (!run->done(run->context, frame->job, (enum cs_job_end)frame->end,
                   is_done ? data + CS_FRAME_RECORD_AT : NULL, is_done ? NULL : &err)) {
        run->no_more = true;
    }
}

static void take_frame(struct run *run, const struct cs_frame *frame)
{
    struct cs_remote *remote = run->remote;
    if (frame->worker < 0 || frame->worker >= remote->n_workers) {
        return;
    }
    struct worker *worker = &remote->workers[frame->worker];
    if (frame->kind == CS_FRAME_HELLO && worker->state == STATE_SILENT) {
        bool same = (uint64_t)frame->job == remote->hash;
        worker->state = same ? STATE_IDLE : STATE_GONE;
        remote->strangers = remote->strangers || !same;
        remote->friends = remote->friends || same;
    } else if (frame->kind == CS_FRAME_RESULT) {
        take_result(run, worker, frame);
    } else if (frame->kind == CS_FRAME_LOST && worker->state != STATE_GONE) {
        bool was_busy = worker->state == STATE_BUSY;
        worker->state = frame->end == 0 ? STATE_SILENT : STATE_GONE;
        if (was_busy) {
            lose_job(run, worker);
        }
    }
}

static bool any_left(const struct cs_remote *remote)
{
    bool any = false;
    for (int32_t i = 0; i < remote->n_workers; i++) {
        any = any || remote->workers[i].state != STATE_GONE;
    }
    return any;
}

static int64_t next_here(void *context)
{
    int32_t n_lost;
    return take_job(context, &n_lost);
}

static bool done_here(void *context, int64_t job, enum cs_job_end end, const void *record,
                      const struct cs_err *err)
{
    struct run *run = context;
    return run->done(run->context, job, end, record, err);
}

static cs_status job_here(void *context, int64_t job, void *record, struct cs_err *err)
{
    struct run *run = context;
    return run->job(run->context, job, record, err);
}

/* Nobody is left: what there is to do is done here. */
static cs_status run_here(struct run *run, struct cs_err *err)
{
    struct cs_pool_options options = *run->options;
    options.remote = NULL;
    if (run->remote->strangers && !run->remote->friends) {
        return cs_err_set(
            err, CS_E_INPUT, CS_NOLOC,
            "the workers have other inputs than this process: the same study, platform and version must "
            "be on all machines");
    }
    if (run->end_s > 0) {
        double left_s = run->end_s - now_s();
        options.time_limit_s = left_s > 1e-3 ? left_s : 1e-3;
    }
    return cs_pool_run(&options, job_here, next_here, done_here, run, err);
}

/* Jobs that were in flight when the run was cut short: their workers still have them, and their results are
 * not looked at. */
static void forget_jobs(struct cs_remote *remote)
{
    for (int32_t i = 0; i < remote->n_workers; i++) {
        if (remote->workers[i].state == STATE_BUSY) {
            remote->workers[i].state = STATE_GONE;
        }
    }
}

cs_status cs__remote_run(const struct cs_pool_options *options, cs_job_fn job, cs_job_next_fn next,
                         cs_job_done_fn done, void *context, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct run run = {.options = options,
                      .remote = options->remote,
                      .job = job,
                      .next = next,
                      .done = done,
                      .context = context};
    run.end_s = options->time_limit_s > 0 ? now_s() + options->time_limit_s : 0;
    for (;;) {
        struct cs_frame frame;
        bool is_there = false;
        if (options->stop && *options->stop) {
            st = cs_err_set(err, CS_E_INTERRUPTED, CS_NOLOC, "interrupted");
            goto out;
        }
        if (run.end_s > 0 && now_s() >= run.end_s) {
            st = cs_err_set(err, CS_E_TIMEOUT, CS_NOLOC, "the time limit of %g s was reached",
                            options->time_limit_s);
            goto out;
        }
        if (!any_left(run.remote)) {
            CS_TRY(run_here(&run, err));
            break;
        }
        send_jobs(&run);
        if (run.no_more && run.n_running == 0 && run.n_again == 0) {
            break;
        }
        if (!cs_frame_read(run.remote->fd, TICK_MS, &frame, run.remote->data, &is_there)) {
            st = cs_err_set(err, CS_E_INTERRUPTED, CS_NOLOC, "the bridge to the workers is gone");
            goto out; /* a launcher has ended it: that is to stop, and what is known is to be kept */
        } else if (is_there) {
            take_frame(&run, &frame);
        }
    }
out:
    forget_jobs(run.remote);
    cs_free(run.again);
    return st;
}

/** One job of a worker. */
struct served {
    int fd;
    int64_t job;
    bool is_given; /* to the pool */
    size_t record_bytes;
    cs_job_fn fn;
    void *context;
};

static int64_t next_served(void *context)
{
    struct served *served = context;
    bool was_given = served->is_given;
    served->is_given = true;
    return was_given ? -1 : served->job;
}

static cs_status run_served(void *context, int64_t job, void *record, struct cs_err *err)
{
    struct served *served = context;
    return served->fn(served->context, job, record, err);
}

static bool send_result(void *context, int64_t job, enum cs_job_end end, const void *record,
                        const struct cs_err *err)
{
    struct served *served = context;
    size_t bytes = CS_FRAME_RECORD_AT + (record ? served->record_bytes : 0);
    char *data = cs_calloc(1, bytes);
    if (err) {
        memcpy(data, err, sizeof *err);
    }
    if (record) {
        memcpy(data + CS_FRAME_RECORD_AT, record, served->record_bytes);
    }
    struct cs_frame frame = {
        .kind = CS_FRAME_RESULT, .job = job, .end = (int32_t)end, .bytes = (uint32_t)bytes};
    (void)cs_frame_write(served->fd, &frame, data);
    cs_free(data);
    return true;
}

void cs_pool_serve(int fd, uint64_t hash, const struct cs_pool_options *options, cs_job_fn job, void *context)
{
    struct cs_pool_options one = {
        .n_workers = 1, .record_bytes = options->record_bytes, .job_limit_s = options->job_limit_s};
    char *data = cs_malloc(CS_FRAME_BYTES_MAX);
    struct cs_frame frame = {.kind = CS_FRAME_HELLO, .job = (int64_t)hash};
    bool is_there = false;
    bool is_open = cs_frame_write(fd, &frame, NULL);
    signal(SIGPIPE, SIG_IGN);
    while (is_open && cs_frame_read(fd, -1, &frame, data, &is_there)) {
        struct served served = {fd, frame.job, false, options->record_bytes, job, context};
        struct cs_err err = {0};
        if (is_there && frame.kind == CS_FRAME_JOB &&
            cs_pool_run(&one, run_served, next_served, send_result, &served, &err) != CS_OK) {
            (void)send_result(&served, frame.job, CS_JOB_FAILED, NULL, &err);
        }
    }
    cs_free(data);
}
