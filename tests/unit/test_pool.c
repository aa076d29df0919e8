#include "cs/pool/remote.h"

#include "cs_test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 256

/* What the parent saw; the child's copy is its own. */
struct bench {
    int64_t n_jobs;
    int64_t next;
    int64_t stop_after; /* done() says stop after this many, 0 = never */
    int64_t n_reports;
    enum cs_job_end end[JOBS_MAX];
    int64_t value[JOBS_MAX];
    int64_t n_seen[JOBS_MAX];
    char text[JOBS_MAX][CS_ERR_TEXT_MAX];
    volatile bool stop;
};

struct record {
    int64_t value;
    char filler[100000]; /* more than a pipe holds */
};

static int64_t next_job(void *context)
{
    struct bench *bench = context;
    return bench->next < bench->n_jobs ? bench->next++ : -1;
}

static bool note(void *context, int64_t job, enum cs_job_end end, const void *record,
                 const struct cs_err *err)
{
    struct bench *bench = context;
    bench->n_reports++;
    bench->n_seen[job]++;
    bench->end[job] = end;
    ck_assert_int_eq(end == CS_JOB_DONE, record != NULL);
    ck_assert_int_eq(end == CS_JOB_DONE, err == NULL);
    if (record) {
        bench->value[job] = ((const struct record *)record)->value;
    }
    if (err) {
        memcpy(bench->text[job], err->text, sizeof err->text);
    }
    return bench->stop_after == 0 || bench->n_reports < bench->stop_after;
}

static cs_status square(void *context, int64_t job, void *record, struct cs_err *err)
{
    (void)context;
    (void)err;
    struct record *result = record;
    result->value = job * job;
    memset(result->filler, 'x', sizeof result->filler);
    return CS_OK;
}

static void pause_s(double time_s)
{
    struct timespec t = {(time_t)time_s, (long)(1e9 * (time_s - (double)(time_t)time_s))};
    nanosleep(&t, NULL);
}

static int64_t n_open_files(void)
{
    int64_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

/* Run, and check that neither files nor processes are left. */
static cs_status run(struct bench *bench, cs_job_fn job, struct cs_pool_options *options, struct cs_err *err)
{
    int64_t n_files = n_open_files();
    options->record_bytes = sizeof(struct record);
    options->stop = &bench->stop;
    cs_status st = cs_pool_run(options, job, next_job, note, bench, err);
    ck_assert_int_eq(n_open_files(), n_files);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    return st;
}

START_TEST(many_jobs_report_once_each)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = JOBS_MAX};
    struct cs_pool_options options = {.n_workers = _i};
    ck_assert_ok(run(&bench, square, &options, &err), &err);
    ck_assert_int_eq(bench.n_reports, JOBS_MAX);
    for (int64_t i = 0; i < JOBS_MAX; i++) {
        ck_assert_int_eq(bench.n_seen[i], 1);
        ck_assert_int_eq(bench.end[i], CS_JOB_DONE);
        ck_assert_int_eq(bench.value[i], i * i);
    }
}
END_TEST

START_TEST(no_jobs_is_fine)
{
    static struct bench bench;
    struct cs_err err = {0};
    struct cs_pool_options options = {.n_workers = 2};
    ck_assert_ok(run(&bench, square, &options, &err), &err);
    ck_assert_int_eq(bench.n_reports, 0);
}
END_TEST

/* Each job goes wrong in another way. */
static cs_status misbehave(void *context, int64_t job, void *record, struct cs_err *err)
{
    ((struct record *)record)->value = 7;
    switch (job) {
    case 0:
        (void)fprintf(stderr, "[0.0] starting\n[0.1] CRITICAL: no route\nbacktrace\n");
        abort();
    case 1:
        (void)fprintf(stdout, "said on stdout\n");
        fflush(stdout);
        _exit(5);
    case 2:
        return cs_err_set(err, CS_E_DEADLOCK, CS_NOLOC, "rank 3 waits for rank 4");
    case 3:
        for (int i = 0; i < 10000; i++) { /* more than is kept, and than a pipe holds */
            (void)fprintf(stderr, "line %d of much\n", i);
        }
        raise(SIGSEGV);
        return CS_OK;
    default:
        return square(context, job, record, err);
    }
}

START_TEST(a_bad_job_costs_itself_only)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = 6};
    struct cs_pool_options options = {.n_workers = 2};
    ck_assert_ok(run(&bench, misbehave, &options, &err), &err);
    ck_assert_int_eq(bench.end[0], CS_JOB_DIED);
    ck_assert_ptr_nonnull(strstr(bench.text[0], "signal 6"));
    ck_assert_ptr_nonnull(strstr(bench.text[0], "CRITICAL: no route"));
    ck_assert_ptr_null(strstr(bench.text[0], "\n"));
    ck_assert_int_eq(bench.end[1], CS_JOB_DIED);
    ck_assert_ptr_nonnull(strstr(bench.text[1], "exit status 5: said on stdout"));
    ck_assert_int_eq(bench.end[2], CS_JOB_FAILED);
    ck_assert_str_eq(bench.text[2], "rank 3 waits for rank 4");
    ck_assert_int_eq(bench.end[3], CS_JOB_DIED);
#ifndef CS_SANITIZER /* its report of the signal is then the last word */
    ck_assert_ptr_nonnull(strstr(bench.text[3], "line 9999 of much"));
#endif
    ck_assert_int_eq(bench.end[5], CS_JOB_DONE);
    ck_assert_int_eq(bench.value[5], 25);
}
END_TEST

static cs_status hang_odd(void *context, int64_t job, void *record, struct cs_err *err)
{
    while (job % 2 == 1) {
        pause_s(10);
    }
    return square(context, job, record, err);
}

/* Dies the first time, which a file remembers. */
static cs_status die_once(void *context, int64_t job, void *record, struct cs_err *err)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/cs_die_once.%ld.%lld", (long)getppid(), (long long)job);
    if (unlink(path) != 0) {
        FILE *file = fopen(path, "w");
        fclose(file);
        raise(SIGKILL);
    }
    return square(context, job, record, err);
}

START_TEST(a_killed_job_is_tried_once_more)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = 5};
    struct cs_pool_options options = {.n_workers = _i};
    ck_assert_ok(run(&bench, die_once, &options, &err), &err);
    ck_assert_int_eq(bench.n_reports, 5);
    for (int64_t i = 0; i < 5; i++) {
        ck_assert_int_eq(bench.n_seen[i], 1);
        ck_assert_int_eq(bench.end[i], CS_JOB_DONE);
        ck_assert_int_eq(bench.value[i], i * i);
    }
}
END_TEST

START_TEST(a_job_that_hangs_is_ended)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = 4};
    struct cs_pool_options options = {.n_workers = 2, .job_limit_s = 0.3};
    ck_assert_ok(run(&bench, hang_odd, &options, &err), &err);
    ck_assert_int_eq(bench.end[1], CS_JOB_TIMEOUT);
    ck_assert_int_eq(bench.end[3], CS_JOB_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(bench.text[1], "0.3 s"));
    ck_assert_int_eq(bench.end[2], CS_JOB_DONE);
}
END_TEST

/* Leaves a process behind that holds the pipes open. */
static cs_status leave_a_child(void *context, int64_t job, void *record, struct cs_err *err)
{
    if (fork() == 0) {
        for (;;) {
            pause_s(10);
        }
    }
    if (job == 1) {
        _exit(1);
    }
    return square(context, job, record, err);
}

START_TEST(what_a_job_started_is_ended_with_it)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = 2};
    struct cs_pool_options options = {.n_workers = 2};
    ck_assert_ok(run(&bench, leave_a_child, &options, &err), &err);
    ck_assert_int_eq(bench.end[0], CS_JOB_DONE);
    ck_assert_int_eq(bench.end[1], CS_JOB_DIED);
}
END_TEST

START_TEST(done_may_stop_the_run)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = 100, .stop_after = 3};
    struct cs_pool_options options = {.n_workers = 2};
    ck_assert_ok(run(&bench, square, &options, &err), &err);
    ck_assert_int_ge(bench.n_reports, 3);
    ck_assert_int_le(bench.n_reports, 4); /* the other worker's job was in flight */
}
END_TEST

static struct bench *interrupted;

static void on_alarm(int number)
{
    (void)number;
    interrupted->stop = true;
}

START_TEST(a_signal_stops_the_run)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = 2};
    interrupted = &bench;
    struct sigaction action = {.sa_handler = on_alarm};
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    alarm(1);
    struct cs_pool_options options = {.n_workers = 2};
    cs_status st = run(&bench, hang_odd, &options, &err);
    ck_assert_fails(st, &err, CS_E_INTERRUPTED, 0, "interrupted");
    ck_assert_int_eq(bench.n_reports, 1);
}
END_TEST

START_TEST(the_time_limit_ends_the_run)
{
    static struct bench bench;
    struct cs_err err = {0};
    bench = (struct bench){.n_jobs = 2};
    struct cs_pool_options options = {.n_workers = 2, .time_limit_s = 0.3};
    cs_status st = run(&bench, hang_odd, &options, &err);
    ck_assert_fails(st, &err, CS_E_TIMEOUT, 0, "0.3 s");
    ck_assert_int_eq(bench.n_reports, 1);
}
END_TEST

START_TEST(there_is_a_processor)
{
    ck_assert_int_ge(cs_pool_n_processors(), 1);
}
END_TEST

/* ---- workers elsewhere: a process that plays the bridge and its workers ---------------------------------
 */

#define HASH 42

/* Worker 0 squares until it has done `good` jobs, then it is lost with the next one: for good, or it comes
 * back
 * (`returns`). Worker 1 has other inputs. */
static _Noreturn void play_bridge(int fd, int64_t good, bool returns)
{
    static char data[CS_FRAME_BYTES_MAX];
    static _Alignas(16) char answer[CS_FRAME_RECORD_AT + sizeof(struct record)];
    struct cs_frame frame = {.kind = CS_FRAME_SIZE, .job = 2};
    bool is_there;
    int64_t n_done = 0;
    (void)cs_frame_write(fd, &frame, NULL);
    for (int32_t worker = 0; worker < 2; worker++) {
        frame = (struct cs_frame){.worker = worker, .kind = CS_FRAME_HELLO, .job = HASH + worker};
        (void)cs_frame_write(fd, &frame, NULL);
    }
    while (cs_frame_read(fd, -1, &frame, data, &is_there)) {
        bool is_lost = n_done++ == good;
        if (is_lost) {
            frame = (struct cs_frame){.kind = CS_FRAME_LOST, .end = returns ? 0 : 1};
            (void)cs_frame_write(fd, &frame, NULL);
            frame = (struct cs_frame){.kind = CS_FRAME_HELLO, .job = HASH};
        } else {
            struct record *record = (struct record *)(void *)(answer + CS_FRAME_RECORD_AT);
            record->value = frame.job * frame.job;
            frame.kind = CS_FRAME_RESULT;
            frame.end = CS_JOB_DONE;
            frame.bytes = sizeof answer;
        }
        if (!is_lost || returns) {
            (void)cs_frame_write(fd, &frame, answer);
        }
    }
    _exit(0);
}

static void run_remote(struct bench *bench, int64_t good, bool returns)
{
    struct cs_err err = {0};
    int pair[2];
    struct cs_remote *remote = NULL;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        play_bridge(pair[1], good, returns);
    }
    close(pair[1]);
    ck_assert_ok(cs_remote_open(&remote, pair[0], HASH, &err), &err);
    const struct cs_pool_options options = {
        .n_workers = 2, .record_bytes = sizeof(struct record), .remote = remote, .stop = &bench->stop};
    ck_assert_ok(cs_pool_run(&options, square, next_job, note, bench, &err), &err);
    cs_remote_close(remote);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(bench->n_reports, bench->n_jobs);
    for (int64_t i = 0; i < bench->n_jobs; i++) {
        ck_assert_int_eq(bench->n_seen[i], 1);
        ck_assert_int_eq(bench->end[i], CS_JOB_DONE);
        ck_assert_int_eq(bench->value[i], i * i);
    }
}

START_TEST(workers_elsewhere_do_the_jobs)
{
    static struct bench bench;
    bench = (struct bench){.n_jobs = 20};
    run_remote(&bench, INT64_MAX, false);
}
END_TEST

START_TEST(a_lost_workers_job_is_tried_again)
{
    static struct bench bench;
    bench = (struct bench){.n_jobs = 20};
    run_remote(&bench, 5, true);
}
END_TEST

START_TEST(without_workers_the_rest_runs_here)
{
    static struct bench bench;
    bench = (struct bench){.n_jobs = 20};
    run_remote(&bench, 5, false);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("run");
    tcase_add_loop_test(tcase, many_jobs_report_once_each, 0, 4);
    tcase_add_test(tcase, no_jobs_is_fine);
    tcase_add_test(tcase, a_bad_job_costs_itself_only);
    tcase_add_loop_test(tcase, a_killed_job_is_tried_once_more, 1, 4);
    tcase_add_test(tcase, a_job_that_hangs_is_ended);
    tcase_add_test(tcase, what_a_job_started_is_ended_with_it);
    tcase_add_test(tcase, done_may_stop_the_run);
    tcase_add_test(tcase, a_signal_stops_the_run);
    tcase_add_test(tcase, the_time_limit_ends_the_run);
    tcase_add_test(tcase, workers_elsewhere_do_the_jobs);
    tcase_add_test(tcase, a_lost_workers_job_is_tried_again);
    tcase_add_test(tcase, without_workers_the_rest_runs_here);
    tcase_add_test(tcase, there_is_a_processor);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(suite)
