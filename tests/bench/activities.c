#include "activities.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum call_kind {
    CALL_START,
    CALL_DAEMON,
    CALL_SLEEP,
    CALL_SEND,
    CALL_NEW,
    CALL_ACQUIRE,
    CALL_RELEASE,
    CALL_END
};

struct call {
    int32_t actor; /* number of the actor that calls; 0 = before the simulation starts */
    int32_t kind;
    int32_t what; /* actor, semaphore, or the sending host */
    int32_t to;   /* receiving host */
    double value; /* seconds, bytes */
};

enum { HOSTS_MAX = 4096, NAME_MAX_BYTES = 64, SLOTS = 1 << 20 };

/* Shared between processes: recorded in one, repeated in another. */
struct recording {
    int64_t n, n_max;
    int32_t n_actors, n_semaphores, n_hosts;
    double repeat_s, simulated_s;
    char host[HOSTS_MAX][NAME_MAX_BYTES];
    struct call calls[];
};

static struct recording *recording;
static size_t recording_bytes;
static bool on;

/* Of the process that records: which number an object has. */
struct numbered {
    const void *object;
    int32_t number;
};
static struct numbered objects[SLOTS];
static bool running;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void activities_open(int64_t n_max)
{
    recording_bytes = sizeof *recording + (size_t)n_max * sizeof recording->calls[0];
    FILE *file = tmpfile(); /* a hole as long as nothing is written */
    recording = file && ftruncate(fileno(file), (off_t)recording_bytes) == 0
                    ? mmap(NULL, recording_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
                    : MAP_FAILED;
    if (recording == MAP_FAILED) {
        perror("recording");
        exit(1);
    }
    fclose(file);
    recording->n_max = n_max;
}

void activities_close(void)
{
    munmap(recording, recording_bytes);
    recording = NULL;
}

void activities_record(bool want)
{
    on = want;
}

int64_t activities_count(void)
{
    return recording->n <= recording->n_max ? recording->n : -1;
}

/* ---- recording ---- */

static struct numbered *slot_of(const void *object)
{
    size_t at = ((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15u >> 44;
    while (objects[at].object && objects[at].object != object) {
        at = (at + 1) % SLOTS;
    }
    objects[at].object = object;
    return &objects[at];
}

static void note(enum call_kind kind, int32_t what, int32_t to, double value)
{
    int64_t at = recording->n++;
    if (at < recording->n_max) {
        int32_t self = running ? slot_of(sg_actor_self())->number : 0;
        recording->calls[at] = (struct call){self, kind, what, to, value};
    }
}

static int32_t host_number(const_sg_host_t host)
{
    struct numbered *slot = slot_of(host);
    if (slot->number == 0) {
        snprintf(recording->host[recording->n_hosts], NAME_MAX_BYTES, "%s", sg_host_get_name(host));
        slot->number = ++recording->n_hosts;
    }
    return slot->number - 1;
}

#define WRAP(result, name, ...)                                                                              \
    result __real_##name(__VA_ARGS__);                                                                       \
    result __wrap_##name(__VA_ARGS__);                                                                       \
    result __wrap_##name(__VA_ARGS__)

WRAP(void, simgrid_run, void)
{
    running = true;
    __real_simgrid_run();
}

WRAP(void, sg_actor_start_, sg_actor_t actor, xbt_main_func_t code, int argc, const char *const *argv)
{
    if (on) {
        slot_of(actor)->number = ++recording->n_actors;
        note(CALL_START, recording->n_actors, 0, 0);
    }
    __real_sg_actor_start_(actor, code, argc, argv);
}

WRAP(void, sg_actor_daemonize, sg_actor_t actor)
{
    if (on) {
        note(CALL_DAEMON, slot_of(actor)->number, 0, 0);
    }
    __real_sg_actor_daemonize(actor);
}

WRAP(void, sg_actor_sleep_for, double seconds)
{
    if (on) {
        note(CALL_SLEEP, 0, 0, seconds);
    }
    __real_sg_actor_sleep_for(seconds);
}

WRAP(void, sg_host_sendto, sg_host_t from, sg_host_t to, double bytes)
{
    if (on) {
        note(CALL_SEND, host_number(from), host_number(to), bytes);
    }
    __real_sg_host_sendto(from, to, bytes);
}

WRAP(sg_sem_t, sg_sem_init, int value)
{
    sg_sem_t semaphore = __real_sg_sem_init(value);
    if (on) {
        slot_of(semaphore)->number = recording->n_semaphores++;
        note(CALL_NEW, slot_of(semaphore)->number, 0, value);
    }
    return semaphore;
}

WRAP(void, sg_sem_acquire, sg_sem_t semaphore)
{
    if (on) {
        note(CALL_ACQUIRE, slot_of(semaphore)->number, 0, 0);
    }
    __real_sg_sem_acquire(semaphore);
}

WRAP(void, sg_sem_release, sg_sem_t semaphore)
{
    if (on) {
        note(CALL_RELEASE, slot_of(semaphore)->number, 0, 0);
    }
    __real_sg_sem_release(semaphore);
}

WRAP(void, sg_sem_destroy, const_sg_sem_t semaphore)
{
    if (on) {
        note(CALL_END, slot_of(semaphore)->number, 0, 0);
    }
    __real_sg_sem_destroy(semaphore);
}

/* ---- repeating ---- */

static struct {
    struct call *calls; /* by actor, in each actor's order */
    int64_t *first;     /* n_actors + 2 */
    sg_actor_t *actors;
    sg_sem_t *semaphores;
    sg_host_t *hosts;
    sg_host_t home;
    int64_t n_done;
    double start_s;
} loop;

static void repeat_actor(int argc, char **argv);

static _Noreturn void end_repeating(void)
{
    recording->repeat_s = now_s() - loop.start_s;
    recording->simulated_s = simgrid_get_clock();
    _exit(0);
}

static void repeat_call(const struct call *call)
{
    switch ((enum call_kind)call->kind) {
    case CALL_START:
        loop.actors[call->what] = sg_actor_init("actor", loop.home);
        sg_actor_set_data(loop.actors[call->what], &loop.first[call->what]);
        __real_sg_actor_start_(loop.actors[call->what], repeat_actor, 0, NULL);
        break;
    case CALL_DAEMON:
        __real_sg_actor_daemonize(loop.actors[call->what]);
        break;
    case CALL_SLEEP:
        __real_sg_actor_sleep_for(call->value);
        break;
    case CALL_SEND:
        __real_sg_host_sendto(loop.hosts[call->what], loop.hosts[call->to], call->value);
        break;
    case CALL_NEW:
        loop.semaphores[call->what] = __real_sg_sem_init((int)call->value);
        break;
    case CALL_ACQUIRE:
        __real_sg_sem_acquire(loop.semaphores[call->what]);
        break;
    case CALL_RELEASE:
        __real_sg_sem_release(loop.semaphores[call->what]);
        break;
    case CALL_END:
        __real_sg_sem_destroy(loop.semaphores[call->what]);
        break;
    }
}

/* The calls of an actor; who begins the last one of all ends the process, as the engine's last rank does. */
static void repeat_calls(const int64_t *first)
{
    for (int64_t i = first[0]; i < first[1]; i++) {
        if (++loop.n_done == recording->n) {
            end_repeating();
        }
        repeat_call(&loop.calls[i]);
    }
}

static void repeat_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    repeat_calls(sg_actor_self_get_data());
}

/* Counting sort by actor. */
static void sort_calls(void)
{
    int64_t n = recording->n;
    loop.calls = calloc((size_t)n + 1, sizeof *loop.calls);
    loop.first = calloc((size_t)recording->n_actors + 3, sizeof *loop.first);
    for (int64_t i = 0; i < n; i++) {
        loop.first[recording->calls[i].actor + 2]++;
    }
    for (int32_t a = 1; a <= recording->n_actors + 1; a++) {
        loop.first[a + 1] += loop.first[a];
    }
    for (int64_t i = 0; i < n; i++) {
        loop.calls[loop.first[recording->calls[i].actor + 1]++] = recording->calls[i];
    }
}

double activities_repeat_s(const char *platform_path, const char *home, const char *const *config,
                           int32_t n_config, double *simulated_s)
{
    sort_calls();
    fflush(stdout);
    recording->repeat_s = -1;
    pid_t pid = fork();
    if (pid == 0) {
        loop.start_s = now_s();
        char text[16][128] = {"repeat", "--log=root.thres:error"};
        char *argv[17] = {text[0], text[1]};
        int argc = 2;
        for (int32_t i = 0; i < n_config && argc < 16; i++, argc++) {
            snprintf(text[argc], sizeof text[argc], "--cfg=%s", config[i]);
            argv[argc] = text[argc];
        }
        simgrid_init(&argc, argv);
        simgrid_load_platform(platform_path);
        loop.actors = calloc((size_t)recording->n_actors + 2, sizeof *loop.actors);
        loop.semaphores = calloc((size_t)recording->n_semaphores + 1, sizeof *loop.semaphores);
        loop.hosts = calloc((size_t)recording->n_hosts + 1, sizeof *loop.hosts);
        loop.home = sg_host_by_name(home);
        for (int32_t i = 0; i < recording->n_hosts; i++) {
            loop.hosts[i] = sg_host_by_name(recording->host[i]);
        }
        repeat_calls(loop.first);
        __real_simgrid_run();
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    free(loop.calls);
    free(loop.first);
    *simulated_s = recording->simulated_s;
    return recording->repeat_s;
}
