/* Many variants of a study, side by side in worker processes. */
#include "points_priv.h"

#include "cs/pool/pool.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct points {
    struct cs_point *points;
    const struct cs_point_spec *specs;
    int32_t n;
    const struct cs_points_options *options;
    int32_t n_inner; /* workers of one point's search */
    uint64_t *keys;
    int32_t next;
    int32_t n_done;
    int32_t n_loaded;      /* variants that are a study at all */
    struct cs_study now;   /* of the job that is started next: its process inherits it */
    struct cs_err refusal; /* of the first variant that is none */
    double started_s;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void done(struct points *all)
{
    all->n_done++;
    if (all->options->progress) {
        all->options->progress(all->options->progress_context, all->n_done, all->n, now_s() - all->started_s);
    }
}

static void refuse(struct points *all, int32_t at, enum cs_outcome outcome, const struct cs_err *err)
{
    struct cs_point *point = &all->points[at];
    memset(point, 0, sizeof *point);
    point->outcome = outcome;
    (void)snprintf(point->reason, sizeof point->reason, "%s", err->text);
}

/* A job is a point whose study loads and that is not remembered. */
static int64_t next_job(void *context)
{
    struct points *all = context;
    const struct cs_point_memory *memory = all->options->memory;
    while (all->next < all->n) {
        struct cs_err err = {0};
        int32_t at = all->next++;
        cs_study_release(&all->now);
        if (cs__point_load(&all->now, all->options, &all->specs[at], NULL, &err) != CS_OK) {
            if (all->refusal.code == CS_OK) {
                all->refusal = err;
            }
            refuse(all, at, CS_OUTCOME_REJECTED, &err);
            done(all);
            continue;
        }
        all->n_loaded++;
        all->keys[at] = cs__point_key(&all->now, all->options);
        if (memory && memory->lookup(memory->context, all->keys[at], &all->points[at])) {
            all->points[at].remembered = true;
            done(all);
            continue;
        }
        return at;
    }
    return -1;
}

/* In the worker. */
static cs_status point_job(void *context, int64_t job, void *record, struct cs_err *err)
{
    struct points *all = context;
    return cs__point_evaluate(record, &all->now, all->options, &all->specs[job], all->n_inner, err);
}

static bool job_done(void *context, int64_t job, enum cs_job_end end, const void *record,
                     const struct cs_err *err)
{
    struct points *all = context;
    const struct cs_point_memory *memory = all->options->memory;
    struct cs_point *point = &all->points[job];
    if (end == CS_JOB_DONE) {
        memcpy(point, record, sizeof *point);
        if (memory && point->outcome != CS_OUTCOME_OPEN) {
            memory->save(memory->context, all->keys[job], point);
        }
    } else {
        bool input = end == CS_JOB_FAILED && (err->code == CS_E_INPUT || err->code == CS_E_LIMIT);
        refuse(all, (int32_t)job, input ? CS_OUTCOME_REJECTED : CS_OUTCOME_FAILED, err);
        if (all->refusal.code == CS_OK) {
            all->refusal = *err;
        }
    }
    done(all);
    return true;
}

cs_status cs_points_run(struct cs_point *points, const struct cs_point_spec *specs, int32_t n,
                        const struct cs_points_options *options, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t n_workers = options->n_workers > 0 ? options->n_workers : cs_pool_n_processors();
    int32_t n_outer = n < n_workers ? n : n_workers;
    struct points all = {.points = points,
                         .specs = specs,
                         .n = n,
                         .options = options,
                         .n_inner = n_outer > 0 && n_workers / n_outer > 1 ? n_workers / n_outer : 1,
                         .started_s = now_s()};
    struct cs_pool_options pool = {
        .n_workers = n_outer, .record_bytes = sizeof(struct cs_point), .stop = options->stop};
    bool all_refused = n > 0;
    memset(points, 0, (size_t)n * sizeof *points);
    all.keys = cs_calloc((size_t)n + 1, sizeof *all.keys);
    st = cs_pool_run(&pool, point_job, next_job, job_done, &all, err);
    if (st == CS_E_INTERRUPTED) {
        st = CS_OK;
    }
    for (int32_t i = 0; i < n; i++) {
        all_refused = all_refused && points[i].outcome == CS_OUTCOME_REJECTED;
    }
    if (st == CS_OK && all_refused) {
        st = all.refusal.code != CS_OK ? all.refusal.code : CS_E_INPUT;
        if (err) {
            *err = all.refusal;
        }
    }
    cs_study_release(&all.now);
    cs_free(all.keys);
    return st;
}
