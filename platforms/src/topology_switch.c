/* The links of a switch, by name: what a slow or dead switch slows or cuts. */
#include "topology_priv.h"

#include <stdio.h>
#include <string.h>

struct list {
    struct cs_arena *arena;
    const char **links;
    int32_t n, cap;
};

static void add(struct list *list, const char *fmt, ...) CS_PRINTF(2, 3);

static void add(struct list *list, const char *fmt, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (list->n == list->cap) {
        int32_t cap = list->cap ? 2 * list->cap : 64;
        const char **grown = CS_ARENA_NEW(list->arena, const char *, cap);
        if (list->n > 0) {
            memcpy(grown, list->links, (size_t)list->n * sizeof *grown);
        }
        list->links = grown;
        list->cap = cap;
    }
    list->links[list->n++] = cs_arena_strdup(list->arena, text);
}

/* Is the whole name this prefix with a number from 0 to n - 1 behind it, and a suffix? */
static bool numbered(const char *name, const char *prefix, const char *suffix, int32_t n, int32_t *number)
{
    char again[64];
    int read = 0;
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0 || sscanf(name + len, "%9d", &read) != 1 || read < 0 || read >= n) {
        return false;
    }
    (void)snprintf(again, sizeof again, "%s%d%s", prefix, read, suffix);
    *number = read;
    return strcmp(again, name) == 0;
}

static void add_nics(struct list *links, const struct cs_fabric_plan *plan, const char *id, int32_t first,
                     int32_t n, int32_t step)
{
    for (int32_t i = 0; i < n; i++) {
        if (cs__fabric_root_links(plan)) {
            add(links, "nic%d_link", (int)(first + i * step));
        } else {
            add(links, "%s_link_%d", id, (int)(first + i * step));
        }
    }
}

static void add_leaf_ups(struct list *links, const struct cs_fabric_plan *plan, int32_t first, int32_t end)
{
    for (int32_t leaf = first; leaf < end && leaf < plan->n_leaves; leaf++) {
        add(links, "leaf%d_up", (int)leaf);
    }
}

static void tree_switch(struct list *links, const struct cs_fabric_plan *plan, const char *name)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t at = 0;
    if (numbered(name, "leaf", "", plan->n_leaves, &at)) {
        int32_t per_node = plan->parts[cs__fabric_leaf_part(plan, at)].devices_per_node;
        if (plan->n_levels > 1) { /* first: when it is dead, it says best who is cut off */
            add_leaf_ups(links, plan, at, at + 1);
        }
        add_nics(links, plan, name, cs__fabric_leaf_first(plan, at), cs__fabric_leaf_nics(plan, at),
                 spec->topology == CS_TOPOLOGY_RAIL ? per_node : 1);
    } else if (plan->n_levels == 2 && strcmp(name, "spine") == 0) {
        add_leaf_ups(links, plan, 0, plan->n_leaves);
    } else if (plan->n_levels == 3 && numbered(name, "pod", "_spine", plan->n_pods, &at)) {
        add_leaf_ups(links, plan, at * spec->leaf_ports, (at + 1) * spec->leaf_ports);
        add(links, "pod%d_up", (int)at);
    } else if (plan->n_levels == 3 && strcmp(name, "core") == 0) {
        for (int32_t pod = 0; pod < plan->n_pods; pod++) {
            add(links, "pod%d_up", (int)pod);
        }
    }
}

static void torus_switch(struct list *links, const struct cs_fabric_plan *plan, const char *name)
{
    int32_t n = plan->spec->devices_per_node;
    int32_t node = 0;
    int32_t stride = 1;
    if (!numbered(name, "torus", "", plan->spec->n_nodes, &node)) {
        return;
    }
    add_nics(links, plan, name, node * n, n, 1);
    for (int32_t d = 0; d < 3; d++) {
        for (int32_t from = 0; from < plan->spec->n_nodes; from++) {
            int32_t next = cs__fabric_torus_next(plan, from, d, stride);
            if (next >= 0 && (from == node || next == node)) {
                add(links, "torus%d_%c", (int)from, "xyz"[d]);
            }
        }
        stride *= plan->dims[d];
    }
}

static void dragonfly_router(struct list *links, const struct cs_fabric_plan *plan, const char *name)
{
    int32_t n_nics = plan->n_router_nodes * plan->spec->devices_per_node;
    for (int32_t group = 0; group < plan->n_groups; group++) {
        char prefix[48];
        int32_t router = 0;
        (void)snprintf(prefix, sizeof prefix, "group%d_router", (int)group);
        if (!numbered(name, prefix, "", plan->n_routers, &router)) {
            continue;
        }
        add_nics(links, plan, name, (group * plan->n_routers + router) * n_nics, n_nics, 1);
        for (int32_t other = 0; other < plan->n_routers; other++) {
            if (other != router) {
                add(links, "group%d_local%d-%d", (int)group, (int)(router < other ? router : other),
                    (int)(router < other ? other : router));
            }
        }
        for (int32_t peer = 0; peer < plan->n_groups; peer++) {
            if (peer != group && cs__fabric_gateway(plan, group, peer) == router) {
                add(links, "global%d-%d", (int)(group < peer ? group : peer),
                    (int)(group < peer ? peer : group));
            }
        }
    }
}

cs_status cs_topology_switch_links(const struct cs_topology_spec *spec, const char *name,
                                   struct cs_arena *arena, const char *const **links, int32_t *n,
                                   struct cs_loc loc, struct cs_err *err)
{
    static const char *const examples[CS_N_TOPOLOGIES] = {
        [CS_TOPOLOGY_FAT_TREE] = "leaf0, spine (two levels), pod0_spine or core (three)",
        [CS_TOPOLOGY_RAIL] = "leaf0, spine (two levels), pod0_spine or core (three)",
        [CS_TOPOLOGY_TORUS] = "torus0, one a node",
        [CS_TOPOLOGY_DRAGONFLY] = "group0_router0",
        [CS_TOPOLOGY_SUPERNODE] = "scaleup"};
    struct cs_fabric_plan plan;
    struct list list = {.arena = arena};
    cs__fabric_plan(spec, &plan);
    switch (spec->topology) {
    case CS_TOPOLOGY_FAT_TREE:
    case CS_TOPOLOGY_RAIL:
        tree_switch(&list, &plan, name);
        break;
    case CS_TOPOLOGY_TORUS:
        torus_switch(&list, &plan, name);
        break;
    case CS_TOPOLOGY_DRAGONFLY:
        dragonfly_router(&list, &plan, name);
        break;
    case CS_TOPOLOGY_SUPERNODE:
        if (strcmp(name, "scaleup") == 0) {
            add_nics(&list, &plan, name, 0, plan.n_devices, 1);
        }
        break;
    case CS_N_TOPOLOGIES:
    default:
        cs_bug(__FILE__, __LINE__, "unchecked topology");
    }
    if (list.n == 0) {
        return cs_err_set(err, CS_E_INPUT, loc, "a %s of this size has no switch '%s', expected %s",
                          cs_topology_names[spec->topology], name, examples[spec->topology]);
    }
    *links = list.links;
    *n = list.n;
    return CS_OK;
}
