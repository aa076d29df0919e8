#include "cs/pool/pool.h"

#include "child_priv.h"
#include "remote_priv.h"

#include "cs/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a wait for children may last while there is something to look at besides them (*stop, which a
 * signal may set just before poll() starts, and children whose grandchild keeps a pipe open). */
#define TICK_MS 100

struct pool {
    const struct cs_pool_options *options;
    cs_job_fn job;
    cs_job_next_fn next;
    cs_job_done_fn done;
    void *context;
    int32_t n_workers;
    struct cs__child *children; /* n_workers slots; pid 0 = free */
    bool *is_second;            /* per slot: its job has died once */
    int64_t *again;             /* jobs that have died once, to be tried once more */
    int32_t n_again, cap_again;
    int32_t n_running;
    bool no_more; /* next() said -1 or done() said stop */
    double end_s; /* of the run, 0 = open */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void end_all(struct pool *pool)
{
    for (int32_t i = 0; i < pool->n_workers; i++) {
        if (pool->children[i].pid > 0) {
            cs__child_end(&pool->children[i]);
            cs__child_release(&pool->children[i]);
        }
    }
    pool->n_running = 0;
}

/* The next job: one that died (it may have been killed for no fault of its own), or a new one; negative =
 * none. */
static int64_t take_job(struct pool *pool, bool *is_second)
{
    *is_second = pool->n_again > 0;
    if (*is_second) {
        return pool->again[--pool->n_again];
    }
    if (pool->no_more) {
        return -1;
    }
    int64_t job = pool->next(pool->context);
    if (job < 0) {
        pool->no_more = job != CS_JOB_LATER || pool->n_running == 0;
    }
    return job;
}

/* Fill free slots. */
static cs_status start_jobs(struct pool *pool, struct cs_err *err)
{
    for (int32_t i = 0; i < pool->n_workers; i++) {
        struct cs__child *child = &pool->children[i];
        if (child->pid > 0) {
            continue;
        }
        int64_t job = take_job(pool, &pool->is_second[i]);
        if (job < 0) {
            break;
        }
        cs_status st = cs__child_start(child, pool->children, pool->n_workers, pool->job, pool->context, job,
                                       pool->options->record_bytes, err);
        if (st != CS_OK) {
            return st;
        }
        child->end_s = pool->options->job_limit_s > 0 ? now_s() + pool->options->job_limit_s : 0;
        pool->n_running++;
    }
    return CS_OK;
}

/* Report one child that has ended (or ran out of time) and free its slot. */
static void report(struct pool *pool, struct cs__child *child, bool timed_out)
{
    struct cs_err err = {0};
    const void *record = NULL;
    enum cs_job_end end = CS_JOB_TIMEOUT;
    cs__child_end(child);
    if (timed_out) {
        (void)cs_err_set(&err, CS_E_TIMEOUT, CS_NOLOC, "did not end within %g s", pool->options->job_limit_s);
    } else {
        end = cs__child_judge(child, &record, &err);
    }
    pool->n_running--;
    if (end == CS_JOB_DIED && !pool->is_second[child - pool->children]) {
        CS_GROW(pool->again, pool->n_again, pool->cap_again);
        pool->again[pool->n_again++] = child->job;
        cs__child_release(child);
        return;
    }
    if (!pool->done(pool->context, child->job, end, record, end == CS_JOB_DONE ? NULL : &err)) {
        pool->no_more = true;
    }
    cs__child_release(child);
}

/* Milliseconds until something besides the pipes has to be looked at. */
static int wait_ms(const struct pool *pool)
{
    double end_s = pool->end_s;
    for (int32_t i = 0; i < pool->n_workers; i++) {
        const struct cs__child *child = &pool->children[i];
        if (child->pid > 0 && child->end_s > 0 && (end_s <= 0 || child->end_s < end_s)) {
            end_s = child->end_s;
        }
    }
    if (end_s <= 0) {
        return TICK_MS;
    }
    double left_s = end_s - now_s();
    return left_s <= 0 ? 0 : left_s * 1000 > TICK_MS ? TICK_MS : (int)(left_s * 1000) + 1;
}

/* Wait for children to say something, then look at each. */
static void wait_and_report(struct pool *pool, struct pollfd *fds)
{
    nfds_t n = 0;
    for (int32_t i = 0; i < pool->n_workers; i++) {
        struct cs__child *child = &pool->children[i];
        fds[n++] = (struct pollfd){child->pid > 0 ? child->result_fd : -1, POLLIN, 0};
        fds[n++] = (struct pollfd){child->pid > 0 ? child->words_fd : -1, POLLIN, 0};
    }
    int n_ready = poll(fds, n, wait_ms(pool));
    double t_s = now_s();
    for (int32_t i = 0; i < pool->n_workers; i++) {
        struct cs__child *child = &pool->children[i];
        if (child->pid <= 0) {
            continue;
        }
        bool over = false;
        if (n_ready > 0 && fds[2 * i + 1].revents) {
            cs__child_read_words(child);
        }
        if (n_ready > 0 && fds[2 * i].revents) {
            over = cs__child_read_result(child);
        } else {
            over = cs__child_is_gone(child);
        }
        if (over) {
            report(pool, child, false);
        } else if (child->end_s > 0 && t_s >= child->end_s) {
            report(pool, child, true);
        }
    }
}

static bool told_to_stop(const struct pool *pool)
{
    return pool->options->stop && *pool->options->stop;
}

cs_status cs_pool_run(const struct cs_pool_options *options, cs_job_fn job, cs_job_next_fn next,
                      cs_job_done_fn done, void *context, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (options->remote) {
        return cs__remote_run(options, job, next, done, context, err);
    }
    struct pool pool = {.options = options,
                        .job = job,
                        .next = next,
                        .done = done,
                        .context = context,
                        .n_workers = options->n_workers};
    if (pool.n_workers <= 0) {
        pool.n_workers = cs_pool_n_processors();
    }
    pool.children = cs_calloc((size_t)pool.n_workers, sizeof *pool.children);
    pool.is_second = cs_calloc((size_t)pool.n_workers, sizeof *pool.is_second);
    struct pollfd *fds = cs_calloc(2 * (size_t)pool.n_workers, sizeof *fds);
    if (options->time_limit_s > 0) {
        pool.end_s = now_s() + options->time_limit_s;
    }
    for (;;) {
        if (told_to_stop(&pool)) {
            st = cs_err_set(err, CS_E_INTERRUPTED, CS_NOLOC, "interrupted");
            goto out;
        }
        if (pool.end_s > 0 && now_s() >= pool.end_s) {
            st = cs_err_set(err, CS_E_TIMEOUT, CS_NOLOC, "the time limit of %g s was reached",
                            options->time_limit_s);
            goto out;
        }
        CS_TRY(start_jobs(&pool, err));
        if (pool.n_running == 0) {
            break;
        }
        wait_and_report(&pool, fds);
    }
out:
    end_all(&pool);
    cs_free(pool.children);
    cs_free(pool.is_second);
    cs_free(pool.again);
    cs_free(fds);
    return st;
}

/* The affinity mask as Linux shows it ("Cpus_allowed:\tff,ffffffff"); sched_getaffinity() is not POSIX. */
static int32_t n_allowed(void)
{
    int32_t n = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) {
        return 0;
    }
    char line[4096];
    static const char key[] = "Cpus_allowed:";
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, sizeof key - 1) != 0) {
            continue;
        }
        for (const char *c = line + sizeof key - 1; *c; c++) {
            static const char digits[] = "0123456789abcdef";
            const char *digit = *c ? strchr(digits, *c) : NULL;
            for (long value = digit ? digit - digits : 0; value > 0; value >>= 1) {
                n += (int32_t)(value & 1);
            }
        }
        break;
    }
    fclose(file);
    return n;
}

int32_t cs_pool_n_processors(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int32_t allowed = n_allowed();
    int32_t n = online > 0 && online < INT32_MAX ? (int32_t)online : 1;
    return allowed > 0 && allowed < n ? allowed : n;
}
