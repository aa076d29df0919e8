/**
 * @file sgcompat_priv.h
 * Every call whose name or meaning depends on SimGrid's version; nothing else includes deprecated names.
 *
 * Written for 3.32 (Debian 12); the guarded parts follow the published change log of 3.34, 3.35, 3.36
 * and 4.x.
 */
#ifndef CS_ENGINE_SGCOMPAT_PRIV_H
#define CS_ENGINE_SGCOMPAT_PRIV_H

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/semaphore.h>
#include <simgrid/version.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Initialise SimGrid for fabrics of RDMA kind: pure latency + bytes / bandwidth with max-min sharing (model
 *  CM02, no TCP effects), small stacks. `extra` is one more "--cfg=" item or NULL. Once a process. */
void cs__sg_init(const char *extra);

/** The loaded platform's hosts, by name. SimGrid's own look-up goes through the zones one by one. */
struct cs__sg_hosts {
    size_t n;
    sg_host_t *sorted;
};
void cs__sg_hosts_make(struct cs__sg_hosts *hosts);
/** NULL when there is none of that name. */
sg_host_t cs__sg_hosts_find(const struct cs__sg_hosts *hosts, const char *name);

/** Links of the route between two hosts; only from inside a running simulation (zones are sealed then).
 *  Returns their number, writes at most `max`. */
int32_t cs__sg_route(sg_host_t from, sg_host_t to, sg_link_t *links, int32_t max);

/** Start an actor on a host; `code` finds `data` by sg_actor_self_get_data. */
sg_actor_t cs__sg_actor(const char *name, sg_host_t host, void (*code)(int, char **), void *data);

#endif
