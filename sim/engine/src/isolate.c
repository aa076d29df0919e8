#include "isolate_priv.h"

#include "cs/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The answer is the bytes that fn wrote, followed by one trailer; a child that dies leaves none. */
#define TRAILER_MAGIC 0x6373616eU

struct trailer {
    unsigned magic;
    cs_status status;
    struct cs_err err;
};

#define LAST_WORDS_MAX 2048

void cs__answer_write(struct cs__answer *answer, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(answer->fd, at, bytes);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            _exit(1);
        }
        at += n;
        bytes -= (size_t)n;
    }
}

_Noreturn void cs__answer_end(struct cs__answer *answer, cs_status status, const struct cs_err *err)
{
    struct trailer trailer;
    memset(&trailer, 0, sizeof trailer);
    trailer.magic = TRAILER_MAGIC;
    trailer.status = status;
    if (err) {
        trailer.err = *err;
    }
    cs__answer_write(answer, &trailer, sizeof trailer);
    _exit(0);
}

struct pipes {
    int answer[2];
    int words[2];
};

static _Noreturn void child_main(cs__isolated_fn fn, void *context, const struct pipes *pipes)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read the answer */
    close(pipes->answer[0]);
    close(pipes->words[0]);
    dup2(pipes->words[1], STDOUT_FILENO);
    dup2(pipes->words[1], STDERR_FILENO);
    signal(SIGPIPE, SIG_IGN);
    struct cs__answer answer = {pipes->answer[1]};
    struct cs_err err = {0};
    cs_status status = fn(context, &answer, &err);
    cs__answer_end(&answer, status, &err);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Keep the last LAST_WORDS_MAX bytes of what the child said. */
static void keep_tail(char *tail, size_t *n, const char *data, size_t bytes)
{
    if (bytes >= LAST_WORDS_MAX) {
        data += bytes - LAST_WORDS_MAX;
        bytes = LAST_WORDS_MAX;
    }
    if (*n + bytes > LAST_WORDS_MAX) {
        size_t drop = *n + bytes - LAST_WORDS_MAX;
        memmove(tail, tail + drop, *n - drop);
        *n -= drop;
    }
    memcpy(tail + *n, data, bytes);
    *n += bytes;
}

struct collected {
    struct cs_strbuf answer;
    char tail[LAST_WORDS_MAX];
    size_t n_tail;
    bool timed_out;
};

static void collect(int answer_fd, int words_fd, double time_limit_s, struct collected *got)
{
    struct pollfd fds[2] = {{answer_fd, POLLIN, 0}, {words_fd, POLLIN, 0}};
    double end_s = time_limit_s > 0 ? now_s() + time_limit_s : 0;
    char chunk[65536];
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int wait_ms = -1;
        if (end_s > 0) {
            double left_s = end_s - now_s();
            if (left_s <= 0) {
                got->timed_out = true;
                return;
            }
            wait_ms = left_s > 1e6 ? 1000000000 : (int)(left_s * 1000) + 1;
        }
        if (poll(fds, 2, wait_ms) < 0 && errno != EINTR) {
            return;
        }
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !(fds[i].revents & (POLLIN | POLLHUP | POLLERR))) {
                continue;
            }
            ssize_t n = read(fds[i].fd, chunk, sizeof chunk);
            if (n > 0 && i == 0) {
                cs_strbuf_addn(&got->answer, chunk, (size_t)n);
            } else if (n > 0) {
                keep_tail(got->tail, &got->n_tail, chunk, (size_t)n);
            } else if (n == 0 || errno != EINTR) {
                fds[i].fd = -1;
            }
        }
    }
}

/* SimGrid's fatal line is the one that helps: the last line with "CRITICAL" or "ERROR", else the last. */
static void last_words(char *tail, size_t n, char *line, size_t line_bytes)
{
    const char *best = "";
    tail[n < LAST_WORDS_MAX ? n : LAST_WORDS_MAX - 1] = '\0';
    bool important = false;
    for (char *save = NULL, *at = strtok_r(tail, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
        bool now =
            strstr(at, "CRITICAL") || strstr(at, "ERROR") || strstr(at, "Error") || strstr(at, "Assertion");
        if (now || !important) {
            best = at;
            important = important || now;
        }
    }
    size_t len = strlen(best);
    if (len >= line_bytes) {
        len = line_bytes - 1;
    }
    memcpy(line, best, len);
    line[len] = '\0';
}

static cs_status judge(int wait_status, struct collected *got, char **data, size_t *bytes, struct cs_err *err)
{
    struct trailer trailer;
    if (got->timed_out) {
        return cs_err_set(err, CS_E_TIMEOUT, CS_NOLOC, "the simulation took longer than its time limit");
    }
    if (got->answer.len >= sizeof trailer) {
        memcpy(&trailer, got->answer.text + got->answer.len - sizeof trailer, sizeof trailer);
        if (trailer.magic == TRAILER_MAGIC) {
            if (trailer.status != CS_OK) {
                if (err) {
                    *err = trailer.err;
                }
                return trailer.status;
            }
            *bytes = got->answer.len - sizeof trailer;
            *data = got->answer.text;
            got->answer = (struct cs_strbuf){0};
            return CS_OK;
        }
    }
    char words[400];
    last_words(got->tail, got->n_tail, words, sizeof words);
    if (WIFSIGNALED(wait_status)) {
        return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the simulation was ended by signal %d (%s)%s%s",
                          WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)), *words ? ": " : "", words);
    }
    return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the simulation ended early with exit status %d%s%s",
                      WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1, *words ? ": " : "", words);
}

cs_status cs__isolate(cs__isolated_fn fn, void *context, double time_limit_s, char **data, size_t *bytes,
                      struct cs_err *err)
{
    struct pipes pipes = {{-1, -1}, {-1, -1}};
    if (pipe(pipes.answer) < 0 || pipe(pipes.words) < 0) {
        int code = errno;
        if (pipes.answer[0] >= 0) {
            close(pipes.answer[0]);
            close(pipes.answer[1]);
        }
        return cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot make a pipe to a simulation: %s", strerror(code));
    }
    pid_t pid = fork();
    if (pid == 0) {
        child_main(fn, context, &pipes);
    }
    int fork_errno = errno;
    close(pipes.answer[1]);
    close(pipes.words[1]);
    struct collected *got = cs_calloc(1, sizeof *got);
    cs_status st;
    if (pid < 0) {
        st =
            cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot start a simulation process: %s", strerror(fork_errno));
    } else {
        collect(pipes.answer[0], pipes.words[0], time_limit_s, got);
        if (got->timed_out) {
            kill(pid, SIGKILL);
        }
        int wait_status = 0;
        while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
        }
        st = judge(wait_status, got, data, bytes, err);
    }
    close(pipes.answer[0]);
    close(pipes.words[0]);
    cs_strbuf_release(&got->answer);
    cs_free(got);
    return st;
}
