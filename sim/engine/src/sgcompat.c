#include "sgcompat_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xbt/dynar.h>

/* network/optim: SimGrid's default, Lazy, solves again only what it takes to have changed, and of many flows
 * with unequal latencies on one link it can miss some: shares stay stale, by up to 0.5 % of a step of 32
 * ranks on a torus. Full solves the whole system and is as fast here. */
void cs__sg_init(const char *extra)
{
    static const char *const items[] = {
        "network/model:CM02",    "network/latency-factor:1", "network/bandwidth-factor:1",
        "network/weight-S:0",    "network/TCP-gamma:0",      "network/crosstraffic:0",
        "contexts/guard-size:0", "contexts/stack-size:64",   "network/optim:Full",
    };
    enum { N_ITEMS = sizeof items / sizeof items[0] };
    static char text[N_ITEMS + 1][256];
    char *argv[N_ITEMS + 4];
    char name[] = "clustersim";
    char quiet[] = "--log=root.thres:error";
    int argc = 0;
    argv[argc++] = name;
    argv[argc++] = quiet;
    for (size_t i = 0; i < N_ITEMS; i++) {
        snprintf(text[i], sizeof text[i], "--cfg=%s", items[i]);
        argv[argc++] = text[i];
    }
    if (extra && *extra) {
        snprintf(text[N_ITEMS], sizeof text[N_ITEMS], "--cfg=%s", extra);
        argv[argc++] = text[N_ITEMS];
    }
    argv[argc] = NULL;
    simgrid_init(&argc, argv);
}

#if SIMGRID_VERSION >= 40000

int32_t cs__sg_route(sg_host_t from, sg_host_t to, sg_link_t *links, int32_t max)
{
    int n = 0;
    const_sg_link_t *list = sg_host_get_route_links(from, to, &n);
    for (int i = 0; i < n && i < max; i++) {
        links[i] = (sg_link_t)(uintptr_t)list[i];
    }
    xbt_free(list);
    return n;
}

#else

int32_t cs__sg_route(sg_host_t from, sg_host_t to, sg_link_t *links, int32_t max)
{
    xbt_dynar_t list = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(from, to, list);
    int32_t n = (int32_t)xbt_dynar_length(list);
    for (int32_t i = 0; i < n && i < max; i++) {
        links[i] = *(sg_link_t *)xbt_dynar_get_ptr(list, (unsigned long)i);
    }
    xbt_dynar_free(&list);
    return n;
}

#endif

static int compare_hosts(const void *a, const void *b)
{
    return strcmp(sg_host_get_name(*(const sg_host_t *)a), sg_host_get_name(*(const sg_host_t *)b));
}

void cs__sg_hosts_make(struct cs__sg_hosts *hosts)
{
    hosts->n = sg_host_count();
    hosts->sorted = sg_host_list();
    qsort(hosts->sorted, hosts->n, sizeof *hosts->sorted, compare_hosts);
}

sg_host_t cs__sg_hosts_find(const struct cs__sg_hosts *hosts, const char *name)
{
    size_t from = 0;
    size_t to = hosts->n;
    while (from < to) {
        size_t at = from + (to - from) / 2;
        int order = strcmp(sg_host_get_name(hosts->sorted[at]), name);
        if (order == 0) {
            return hosts->sorted[at];
        }
        from = order < 0 ? at + 1 : from;
        to = order < 0 ? to : at;
    }
    return NULL;
}

sg_actor_t cs__sg_actor(const char *name, sg_host_t host, void (*code)(int, char **), void *data)
{
    sg_actor_t actor = sg_actor_init(name, host);
    sg_actor_set_data(actor, data);
    sg_actor_start(actor, code, 0, NULL);
    return actor;
}
