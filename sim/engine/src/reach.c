/* Asking for a route that does not exist ends a process. So a child loads the platform, and its children ask:
 * each marks the pair it asks for in shared memory and goes on until one of its questions ends it. */
#include "cs/engine/reach.h"

#include "isolate_priv.h"
#include "sgcompat_priv.h"

#include "cs/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Missing routes up to which every pair is asked: two groups may still be joined by another pair. */
#define ASK_ALL_MAX 64

/* What is known about the devices. */
struct groups {
    int32_t n_devices;
    int32_t *parent; /* union-find */
    int32_t n_missing;
    int32_t missing[2 * CS_REACH_MISSING_MAX]; /* devices without a route */
};

struct question {
    const struct cs_platform *platform;
    const char *simgrid_cfg;
    const int32_t *pairs;
    int64_t n_pairs;
    unsigned char *reach; /* shared; enum cs_reach */
    struct groups groups;
    struct cs__answer *answer;
    struct cs__sg_hosts hosts;
};

static int32_t root(struct groups *groups, int32_t device)
{
    while (groups->parent[device] != device) {
        groups->parent[device] = groups->parent[groups->parent[device]];
        device = groups->parent[device];
    }
    return device;
}

static void groups_init(struct groups *groups, int32_t n_devices)
{
    groups->n_devices = n_devices;
    groups->n_missing = 0;
    groups->parent = cs_calloc((size_t)n_devices + 1, sizeof *groups->parent);
    for (int32_t d = 0; d < n_devices; d++) {
        groups->parent[d] = d;
    }
}

static void join(struct groups *groups, int32_t a, int32_t b)
{
    int32_t x = root(groups, a);
    int32_t y = root(groups, b);
    groups->parent[x > y ? x : y] = x > y ? y : x;
}

static bool apart(struct groups *groups, int32_t a, int32_t b)
{
    int32_t x = root(groups, a);
    int32_t y = root(groups, b);
    bool known = x != y && groups->n_missing >= ASK_ALL_MAX;
    for (int32_t i = 0; known && i < groups->n_missing; i++) {
        int32_t p = root(groups, groups->missing[2 * i]);
        int32_t q = root(groups, groups->missing[2 * i + 1]);
        if ((p == x && q == y) || (p == y && q == x)) {
            return true;
        }
    }
    return false;
}

/* Ask for pairs from `at` on, until a question ends this process. */
static _Noreturn void ask(const struct question *q, int64_t at)
{
    static sg_link_t link;
    for (; at < q->n_pairs; at++) {
        int32_t from = q->pairs[2 * at];
        int32_t to = q->pairs[2 * at + 1];
        struct groups groups = q->groups; /* the copy of this process */
        if (apart(&groups, from, to)) {
            q->reach[at] = CS_REACH_APART;
            continue;
        }
        q->reach[at] = CS_REACH_NO; /* what it stays if this is the end */
        sg_host_t a = cs__sg_hosts_find(&q->hosts, cs_platform_endpoint(q->platform, from, to));
        sg_host_t b = cs__sg_hosts_find(&q->hosts, cs_platform_endpoint(q->platform, to, from));
        if (!a || !b || a == b || cs__sg_route(a, b, &link, 1) == 0) {
            _exit(1);
        }
        q->reach[at] = CS_REACH_YES;
    }
    _exit(0);
}

/* In the process that has the platform loaded. */
static void ask_all(struct question *q)
{
    for (int64_t at = 0; at < q->n_pairs && q->groups.n_missing < CS_REACH_MISSING_MAX;) {
        int wait_status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            ask(q, at);
        }
        while (pid > 0 && waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
        }
        if (pid < 0) {
            struct cs_err err = {0};
            cs_err_set(&err, CS_E_IO, CS_NOLOC, "cannot start a process: %s", strerror(errno));
            cs__answer_end(q->answer, CS_E_IO, &err);
        }
        for (; at < q->n_pairs && q->reach[at] != CS_REACH_UNKNOWN; at++) {
            if (q->reach[at] == CS_REACH_YES) {
                join(&q->groups, q->pairs[2 * at], q->pairs[2 * at + 1]);
            } else if (q->reach[at] == CS_REACH_NO) {
                q->groups.missing[2 * q->groups.n_missing] = q->pairs[2 * at];
                q->groups.missing[2 * q->groups.n_missing + 1] = q->pairs[2 * at + 1];
                q->groups.n_missing++;
            }
        }
    }
}

static void reach_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct question *q = sg_actor_self_get_data();
    ask_all(q);
    cs__answer_end(q->answer, CS_OK, NULL);
}

static cs_status reach_child(void *context, struct cs__answer *answer, struct cs_err *err)
{
    struct question *q = context;
    q->answer = answer;
    groups_init(&q->groups, q->platform->n_devices);
    cs__sg_init(q->simgrid_cfg);
    simgrid_load_platform(q->platform->xml_path);
    cs__sg_hosts_make(&q->hosts);
    sg_host_t first = cs__sg_hosts_find(&q->hosts, q->platform->devices[0].host);
    if (!first) {
        return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "SimGrid knows no host '%s'",
                          q->platform->devices[0].host);
    }
    cs__sg_actor("reach", first, reach_actor, q);
    simgrid_run();
    return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "SimGrid did not run the route query");
}

/* Groups from the answers, numbered by first device. */
static void number_groups(const struct question *q, const enum cs_reach *reach, int32_t *group)
{
    struct groups groups = {0};
    int32_t n = 0;
    groups_init(&groups, q->platform->n_devices);
    for (int64_t i = 0; i < q->n_pairs; i++) {
        if (reach[i] == CS_REACH_YES) {
            join(&groups, q->pairs[2 * i], q->pairs[2 * i + 1]);
        }
    }
    for (int32_t d = 0; d < groups.n_devices; d++) { /* a root is the first of its group */
        int32_t r = root(&groups, d);
        group[d] = r == d ? n++ : group[r];
    }
    cs_free(groups.parent);
}

cs_status cs_platform_reach(const struct cs_platform *platform, const char *simgrid_cfg, const int32_t *pairs,
                            int64_t n_pairs, enum cs_reach *reach, int32_t *group, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_err why = {0};
    char *data = NULL;
    size_t bytes = 0;
    size_t shared_bytes = (size_t)n_pairs + 1;
    FILE *file = tmpfile();
    void *shared = MAP_FAILED;
    if (file && ftruncate(fileno(file), (off_t)shared_bytes) == 0) {
        shared = mmap(NULL, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    }
    if (shared == MAP_FAILED) {
        st = cs_err_set(&why, CS_E_IO, CS_NOLOC, "no memory to share with a process: %s", strerror(errno));
        goto out;
    }
    struct question question = {.platform = platform,
                                .simgrid_cfg = simgrid_cfg,
                                .pairs = pairs,
                                .n_pairs = n_pairs,
                                .reach = shared};
    CS_TRY(cs__isolate(reach_child, &question, 0, &data, &bytes, &why));
    for (int64_t i = 0; i < n_pairs; i++) {
        reach[i] = (enum cs_reach)question.reach[i];
    }
    number_groups(&question, reach, group);
out:
    if (st == CS_E_ENGINE) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){platform->xml_path, 0, 0},
                        "SimGrid refuses this platform: %s", why.text);
    } else if (st != CS_OK && err) {
        *err = why;
    }
    cs_free(data);
    if (shared != MAP_FAILED) {
        (void)munmap(shared, shared_bytes);
    }
    if (file) {
        (void)fclose(file);
    }
    return st;
}
