/* clustersim-mpi: `clustersim search` on many machines under mpirun (Open MPI).
 *
 *   mpirun -n 33 clustersim-mpi search STUDY ...
 *
 * Rank 0 starts the search, every other rank a worker, both as `clustersim` in a process of its own: MPI and
 * simulations never share one. This program only carries frames (cs/pool/remote.h) between their sockets,
 * starts a worker again that ends, and takes a rank for dead that has not been heard of for SILENT_S. mpirun
 * ends everything when a rank dies, unless it is told `--enable-recovery`. */
#include "cs/pool/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAG_FRAME 1
#define TAG_ALIVE 2
#define TAG_END 3
#define TAG_LEAVE 4 /* as TAG_END, but without MPI_Finalize, which would wait for a dead rank */
/* How long to rest when nothing happens. */
#define REST_NS 300000L
#define ALIVE_S 1.0
#define SILENT_S 15.0
/* A worker that ends so often will do so again. */
#define RESTARTS 16

static volatile sig_atomic_t told_to_stop;

static void note_signal(int number)
{
    told_to_stop = number;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(void)
{
    nanosleep(&(struct timespec){0, REST_NS}, NULL);
}

/* A frame in one piece, for a message. */
struct packet {
    struct cs_frame frame;
    char data[CS_FRAME_BYTES_MAX];
};
static struct packet packet;

static int packet_bytes(void)
{
    return (int)(sizeof packet.frame + packet.frame.bytes);
}

/* Beside this program, else by PATH. */
static const char *program(const char *self)
{
    static char path[4096];
    const char *slash = strrchr(self, '/');
    if (!slash) {
        return "clustersim";
    }
    (void)snprintf(path, sizeof path, "%.*s/clustersim", (int)(slash - self), self);
    return path;
}

/* Start `clustersim` with a socket to us; `role` tells it what to do with that. The one that is not quiet,
 * the driver, is out of reach of mpirun's signals: it stops when we say so, and has the time to write its
 * results. */
static pid_t start(char **argv, const char *role, bool quiet, int *fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
        return -1;
    }
    (void)fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        if (!quiet) { /* mpirun ends the process groups of ranks: first softly, a second later for good */
            (void)setpgid(0, 0);
        }
        char value[64];
        const char *path = program(argv[0]);
        (void)snprintf(value, sizeof value, "%s:%d", role, pair[1]);
        (void)setenv("CLUSTERSIM_REMOTE", value, 1);
        (void)setenv("NO_COLOR", "1",
                     1); /* mpirun gives a terminal to each rank, wherever its own output goes */
        int null_fd = open("/dev/null", O_RDWR);
        for (int i = 0; quiet && null_fd >= 0 && i < 3; i++) {
            (void)dup2(null_fd, i);
        }
        argv[0] = (char *)path;
        (void)execvp(path, argv);
        (void)fprintf(stderr, "clustersim-mpi: error: cannot start '%s': %s\n", path, strerror(errno));
        _exit(1);
    }
    close(pair[1]);
    *fd = pair[0];
    return pid;
}

static int exit_code(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* ---- rank 0 ------------------------------------------------------------------------------------------- */

struct driver {
    pid_t pid;
    int fd;
    int n_workers;
    double *heard_s; /* per worker; 0 = gone */
};

static void tell_lost(const struct driver *d, int worker)
{
    struct cs_frame frame = {.worker = worker, .kind = CS_FRAME_LOST, .end = 1};
    (void)cs_frame_write(d->fd, &frame, NULL);
}

static void send_bytes(int rank, int tag)
{
    MPI_Request request;
    int is_done = 0;
    if (MPI_Isend(&packet, tag == TAG_FRAME ? packet_bytes() : 0, MPI_BYTE, rank, tag, MPI_COMM_WORLD,
                  &request) != MPI_SUCCESS) {
        return; /* a dead rank; its silence is noticed */
    }
    for (double end_s = now_s() + (tag == TAG_FRAME ? SILENT_S : ALIVE_S); !is_done && now_s() < end_s;) {
        if (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return;
        }
    }
}

/* A message of a worker, if there is one. */
static bool from_worker(struct driver *d)
{
    MPI_Status status;
    int is_there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &status);
    if (!is_there) {
        return false;
    }
    int worker = status.MPI_SOURCE - 1;
    MPI_Recv(&packet, (int)sizeof packet, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
             &status);
    if (worker >= 0 && d->heard_s[worker] > 0) {
        d->heard_s[worker] = now_s();
        if (status.MPI_TAG == TAG_FRAME) {
            packet.frame.worker = worker;
            (void)cs_frame_write(d->fd, &packet.frame, packet.data);
        }
    } else if (worker >=
               0) { /* it was silent and comes back: its job has gone to others, it is not waited for */
        send_bytes(status.MPI_SOURCE, TAG_LEAVE);
    }
    return true;
}

/* Carry frames until the search has ended. */
static int drive(struct driver *d)
{
    int wait_status = 0;
    while (waitpid(d->pid, &wait_status, WNOHANG) == 0) {
        bool is_there = false;
        bool any = from_worker(d);
        if (told_to_stop) {
            (void)kill(d->pid, SIGINT);
            told_to_stop = 0;
        }
        if (cs_frame_read(d->fd, 0, &packet.frame, packet.data, &is_there) && is_there) {
            any = true;
            if (packet.frame.worker >= 0 && packet.frame.worker < d->n_workers) {
                send_bytes(packet.frame.worker + 1, TAG_FRAME);
            }
        }
        for (int i = 0; i < d->n_workers; i++) {
            if (d->heard_s[i] > 0 && now_s() - d->heard_s[i] > SILENT_S) {
                d->heard_s[i] = 0;
                tell_lost(d, i);
                (void)fprintf(stderr,
                              "clustersim-mpi: warning: rank %d is silent, its strategy is tried elsewhere\n",
                              i + 1);
            }
        }
        if (!any) {
            rest();
        }
    }
    return exit_code(wait_status);
}

static int run_driver(char **argv, int n_ranks)
{
    struct driver d = {.n_workers = n_ranks - 1};
    struct sigaction action = {.sa_handler = note_signal};
    bool all_here = true;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    d.heard_s = calloc((size_t)n_ranks, sizeof *d.heard_s);
    if (!d.heard_s || (d.pid = start(argv, "driver", false, &d.fd)) < 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < d.n_workers; i++) {
        d.heard_s[i] = now_s();
    }
    struct cs_frame size = {.kind = CS_FRAME_SIZE, .job = d.n_workers};
    (void)cs_frame_write(d.fd, &size, NULL);
    int code = drive(&d);
    for (int i = 0; i < d.n_workers; i++) {
        all_here = all_here && d.heard_s[i] > 0;
    }
    for (int i = 0; i < d.n_workers; i++) { /* those that were silent too: they may come back */
        send_bytes(i + 1, all_here ? TAG_END : TAG_LEAVE);
    }
    free(d.heard_s);
    if (!all_here) {
        (void)fflush(NULL);
        nanosleep(&(struct timespec){1, 0}, NULL); /* for what was sent to arrive */
        _exit(code);
    }
    return code;
}

/* ---- other ranks -------------------------------------------------------------------------------------- */

struct station {
    char **argv;
    pid_t pid;
    int fd;
    int n_starts;
    double told_s;   /* when we were last heard of */
    bool must_leave; /* told so while rank 0 did not take what we sent */
};

static void send_up(struct station *s, int tag)
{
    MPI_Request request;
    int is_done = 0;
    int is_there = 0;
    if (MPI_Isend(&packet, tag == TAG_FRAME ? packet_bytes() : 0, MPI_BYTE, 0, tag, MPI_COMM_WORLD,
                  &request) != MPI_SUCCESS) {
        s->must_leave = true;
        return;
    }
    while (!is_done && !s->must_leave) { /* rank 0 may have ended while we were silent: it has left word */
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
        MPI_Iprobe(0, TAG_LEAVE, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
        s->must_leave = !is_done && is_there;
    }
    s->told_s = now_s();
}

/* The worker's process has ended: its job is lost, another one takes its place. */
static void restart(struct station *s)
{
    bool again = s->n_starts < RESTARTS;
    int wait_status;
    (void)kill(s->pid, SIGKILL);
    while (waitpid(s->pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    close(s->fd);
    s->fd = -1;
    packet.frame = (struct cs_frame){.kind = CS_FRAME_LOST, .end = again ? 0 : 1};
    send_up(s, TAG_FRAME);
    if (again) {
        s->n_starts++;
        s->pid = start(s->argv, "worker", true, &s->fd);
    }
}

/* @return whether MPI_Finalize is to be called. */
static bool run_worker(char **argv)
{
    struct station s = {.argv = argv, .n_starts = 1};
    char *self = argv[0];
    bool leaves = false;
    s.pid = start(argv, "worker", true, &s.fd);
    while (!s.must_leave) {
        MPI_Status status;
        int is_there = 0;
        bool has_frame = false;
        MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &status);
        if (is_there) {
            MPI_Recv(&packet, (int)sizeof packet, MPI_BYTE, 0, status.MPI_TAG, MPI_COMM_WORLD, &status);
            leaves = status.MPI_TAG == TAG_LEAVE;
            if (leaves || status.MPI_TAG == TAG_END) {
                break;
            }
            if (s.fd >= 0) {
                (void)cs_frame_write(s.fd, &packet.frame, packet.data);
            }
        }
        if (s.fd >= 0 && !cs_frame_read(s.fd, 0, &packet.frame, packet.data, &has_frame)) {
            argv[0] = self;
            restart(&s);
        } else if (has_frame) {
            send_up(&s, TAG_FRAME);
        } else if (now_s() - s.told_s > ALIVE_S) {
            send_up(&s, TAG_ALIVE);
        } else if (!is_there) {
            rest();
        }
    }
    if (s.fd >= 0) {
        (void)kill(s.pid, SIGKILL);
        close(s.fd);
    }
    return !leaves && !s.must_leave;
}

int main(int argc, char **argv)
{
    int rank = 0;
    int n_ranks = 1;
    int code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* a message to a dead rank ends nothing */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2 || strcmp(argv[1], "search") != 0) {
        if (rank == 0) {
            (void)fprintf(stderr, "clustersim-mpi: error: only 'search' runs on many machines\n");
        }
        code = 2;
    } else if (rank == 0) {
        code = run_driver(argv, n_ranks);
    } else if (!run_worker(argv)) {
        _exit(0);
    }
    MPI_Finalize();
    return code;
}
