#include "child_priv.h"

#include "cs/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#ifdef CS_COVERAGE
/* The counters of a process are written when it exits; children leave by _exit(). */
void __gcov_dump(void);
#define dump_counters() __gcov_dump()
#else
#define dump_counters() ((void)0)
#endif

/* The answer of a child: this, then the record, aligned for any type. */
struct header {
    _Alignas(16) cs_status status;
    struct cs_err err;
};

static void write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            _exit(1); /* nobody listens any more */
        }
        at += n;
        bytes -= (size_t)n;
    }
}

static void set_up(const struct cs__child *siblings, int32_t n_siblings, const int result[2],
                   const int words[2], pid_t parent)
{
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) {
        _exit(1);
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    for (int32_t i = 0; i < n_siblings; i++) {
        if (siblings[i].pid > 0) {
            close(siblings[i].result_fd);
            close(siblings[i].words_fd);
        }
    }
    close(result[0]);
    close(words[0]);
    dup2(words[1], STDOUT_FILENO);
    dup2(words[1], STDERR_FILENO);
    close(words[1]);
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0) {
        dup2(null_fd, STDIN_FILENO);
        close(null_fd);
    }
}

static _Noreturn void child_main(cs_job_fn fn, void *context, int64_t job, size_t record_bytes, int result_fd)
{
    struct header header;
    memset(&header, 0, sizeof header);
    void *record = cs_calloc(1, record_bytes ? record_bytes : 1);
    header.status = fn(context, job, record, &header.err);
    fflush(NULL);
    dump_counters();
    write_all(result_fd, &header, sizeof header);
    write_all(result_fd, record, record_bytes);
    _exit(0);
}

static void close_pair(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

/* Above the standard streams, so that a caller who closed those does not get the pipe as its output. */
static bool make_pipe(int fds[2])
{
    int low[2] = {-1, -1};
    if (pipe(low) < 0) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        fds[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 3);
    }
    int code = errno;
    close_pair(low);
    errno = code;
    if (fds[0] < 0 || fds[1] < 0) {
        close_pair(fds);
        errno = code;
        return false;
    }
    return true;
}

cs_status cs__child_start(struct cs__child *child, const struct cs__child *siblings, int32_t n_siblings,
                          cs_job_fn fn, void *context, int64_t job, size_t record_bytes, struct cs_err *err)
{
    cs_status st = CS_OK;
    int result[2] = {-1, -1};
    int words[2] = {-1, -1};
    if (!make_pipe(result) || !make_pipe(words)) {
        st =
            cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot make a pipe to a worker process: %s", strerror(errno));
        goto out;
    }
    fflush(NULL); /* or the child would print what is still in the buffers a second time */
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        st = cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot start a worker process: %s", strerror(errno));
        goto out;
    }
    if (pid == 0) {
        set_up(siblings, n_siblings, result, words, parent);
        child_main(fn, context, job, record_bytes, result[1]);
    }
    setpgid(pid, pid); /* in both processes: whoever comes first */
    fcntl(result[0], F_SETFL, O_NONBLOCK);
    fcntl(words[0], F_SETFL, O_NONBLOCK);
    *child = (struct cs__child){.pid = pid, .job = job, .record_bytes = record_bytes};
    child->result_fd = result[0];
    child->words_fd = words[0];
    child->result = cs_malloc(sizeof(struct header) + record_bytes);
    result[0] = words[0] = -1;
out:
    close_pair(result);
    close_pair(words);
    return st;
}

bool cs__child_read_result(struct cs__child *child)
{
    size_t whole = sizeof(struct header) + child->record_bytes;
    while (child->n_result < whole) {
        ssize_t n = read(child->result_fd, child->result + child->n_result, whole - child->n_result);
        if (n > 0) {
            child->n_result += (size_t)n;
        } else if (n == 0) {
            break;
        } else if (errno != EINTR) {
            return false; /* EAGAIN: nothing more for now */
        }
    }
    child->result_over = true;
    return true;
}

/* Keep the end of what the child says. */
static void keep_words(struct cs__child *child, const char *data, size_t bytes)
{
    if (bytes > CS__LAST_WORDS_BYTES) {
        data += bytes - CS__LAST_WORDS_BYTES;
        bytes = CS__LAST_WORDS_BYTES;
    }
    if (child->n_words + bytes > CS__LAST_WORDS_BYTES) {
        size_t drop = child->n_words + bytes - CS__LAST_WORDS_BYTES;
        memmove(child->words, child->words + drop, child->n_words - drop);
        child->n_words -= drop;
    }
    memcpy(child->words + child->n_words, data, bytes);
    child->n_words += bytes;
}

void cs__child_read_words(struct cs__child *child)
{
    char chunk[4096];
    while (child->words_fd >= 0) {
        ssize_t n = read(child->words_fd, chunk, sizeof chunk);
        if (n > 0) {
            keep_words(child, chunk, (size_t)n);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n == 0) {
                close(child->words_fd); /* poll() would report its end for ever */
                child->words_fd = -1;
            }
            return;
        }
    }
}

bool cs__child_is_gone(struct cs__child *child)
{
    siginfo_t info = {0};
    /* Left waitable: while it is, nobody else can get its number, and its group can be signalled safely. */
    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child->pid;
}

/* Give a child that is leaving by itself (answer complete, or pipes closed because it is dying) the time to
 * do so: its own end, not our SIGKILL, is the news. */
static void let_go(struct cs__child *child)
{
    long pause_ns = 20000;
    long waited_ns = 0;
    while (!cs__child_is_gone(child) && waited_ns < 2000000000L) {
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
        waited_ns += pause_ns;
        pause_ns = pause_ns < 5000000 ? 2 * pause_ns : pause_ns;
    }
}

void cs__child_end(struct cs__child *child)
{
    if (child->result_over) {
        let_go(child);
    }
    bool gone = cs__child_is_gone(child);
    kill(-child->pid, SIGKILL); /* with whatever it started */
    kill(child->pid, SIGKILL);  /* if it had no time to become a group */
    while (waitpid(child->pid, &child->wait_status, 0) < 0 && errno == EINTR) {
    }
    if (gone) {
        (void)cs__child_read_result(child); /* it may have answered and left since the last look */
    }
    cs__child_read_words(child);
}

/* The line that says most: the last one that looks like an error, else the last one. */
static void pick_line(struct cs__child *child, char *line, size_t line_bytes)
{
    static const char *const marks[] = {"CRITICAL", "ERROR", "Error", "error:", "Assertion", "bug"};
    char text[CS__LAST_WORDS_BYTES + 1];
    memcpy(text, child->words, child->n_words);
    text[child->n_words] = '\0';
    for (size_t i = 0; i < child->n_words; i++) {
        if (text[i] == '\0') {
            text[i] = ' ';
        }
    }
    const char *best = "";
    bool best_is_error = false;
    char *save = NULL;
    for (char *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
        bool is_error = false;
        for (int32_t i = 0; i < CS_COUNT(marks); i++) {
            is_error = is_error || strstr(at, marks[i]);
        }
        if (is_error || !best_is_error) {
            best = at;
            best_is_error = is_error;
        }
    }
    size_t n = strlen(best);
    n = n < line_bytes ? n : line_bytes - 1;
    memcpy(line, best, n);
    line[n] = '\0';
}

enum cs_job_end cs__child_judge(struct cs__child *child, const void **record, struct cs_err *err)
{
    struct header header;
    if (child->n_result == sizeof header + child->record_bytes) {
        memcpy(&header, child->result, sizeof header);
        if (header.status == CS_OK) {
            *record = child->result + sizeof header;
            return CS_JOB_DONE;
        }
        *err = header.err;
        err->code = header.status;
        return CS_JOB_FAILED;
    }
    char line[400];
    pick_line(child, line, sizeof line);
    const char *colon = *line ? ": " : "";
    if (WIFSIGNALED(child->wait_status)) {
        int number = WTERMSIG(child->wait_status);
        (void)cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the worker process was ended by signal %d (%s)%s%s",
                         number, strsignal(number), colon, line);
    } else {
        (void)cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the worker process left early with exit status %d%s%s",
                         WEXITSTATUS(child->wait_status), colon, line);
    }
    return CS_JOB_DIED;
}

void cs__child_release(struct cs__child *child)
{
    int fds[2] = {child->result_fd, child->words_fd};
    close_pair(fds);
    cs_free(child->result);
    *child = (struct cs__child){0};
}
