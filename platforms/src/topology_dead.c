/* Cables that are out: what a name means, where traffic goes instead, and who is cut off. */
#include "cs/base/text.h"
#include "topology_priv.h"

#include <stdio.h>
#include <string.h>

/* A name of the file, without a direction at its end. */
static size_t cable_name_len(const char *name)
{
    size_t len = strlen(name);
    if (cs_text_ends_with(name, "_UP")) {
        return len - strlen("_UP");
    }
    return cs_text_ends_with(name, "_DOWN") ? len - strlen("_DOWN") : len;
}

static bool is_cable(const char *given, const char *name)
{
    size_t len = cable_name_len(given);
    return strlen(name) == len && memcmp(given, name, len) == 0;
}

static const char *cable_name(enum cs__cable cable, int32_t in, int32_t a, int32_t b, char buf[64])
{
    switch (cable) {
    case CS__CABLE_MESH:
        (void)snprintf(buf, 64, "hccs%d-%d", (int)a, (int)b);
        break;
    case CS__CABLE_TORUS:
        (void)snprintf(buf, 64, "torus%d_%c", (int)a, "xyz"[b]);
        break;
    case CS__CABLE_LOCAL:
        (void)snprintf(buf, 64, "group%d_local%d-%d", (int)in, (int)a, (int)b);
        break;
    case CS__CABLE_GLOBAL:
        (void)snprintf(buf, 64, "global%d-%d", (int)a, (int)b);
        break;
    default:
        cs_bug(__FILE__, __LINE__, "unknown cable");
    }
    return buf;
}

bool cs__cable_dead(const struct cs_topology_spec *spec, enum cs__cable cable, int32_t in, int32_t a,
                    int32_t b)
{
    char name[64];
    if (spec->n_dead_links == 0) {
        return false;
    }
    cable_name(cable, in, a, b, name);
    for (int32_t i = 0; i < spec->n_dead_links; i++) {
        if (is_cable(spec->dead_links[i], name)) {
            return true;
        }
    }
    return false;
}

static bool pair_dead(const struct cs_topology_spec *spec, enum cs__cable cable, int32_t in, int32_t a,
                      int32_t b)
{
    return cs__cable_dead(spec, cable, in, a < b ? a : b, a < b ? b : a);
}

/* Inside group `in`, is there a live way between two routers, of at most two cables? */
static bool routers_meet(const struct cs_fabric_plan *plan, int32_t in, int32_t a, int32_t b)
{
    return a == b || !pair_dead(plan->spec, CS__CABLE_LOCAL, in, a, b) ||
           cs__cable_detour(plan, CS__CABLE_LOCAL, in, a, b) >= 0;
}

int32_t cs__cable_detour(const struct cs_fabric_plan *plan, enum cs__cable cable, int32_t in, int32_t a,
                         int32_t b)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t first = 0;
    int32_t n = cable == CS__CABLE_LOCAL ? plan->n_routers : plan->n_groups;
    if (cable == CS__CABLE_MESH) {
        int32_t part = cs__fabric_part(plan, a);
        n = plan->parts[part].devices_per_node;
        first = plan->first_device[part] + (a - plan->first_device[part]) / n * n;
    }
    for (int32_t k = 1; k < n;
         k++) { /* from b on, so that several dead cables do not all load one neighbour */
        int32_t third = first + (b - first + k) % n;
        if (third == a || third == b || pair_dead(spec, cable, in, a, third) ||
            pair_dead(spec, cable, in, third, b)) {
            continue;
        }
        if (cable == CS__CABLE_GLOBAL && !routers_meet(plan, third, cs__fabric_gateway(plan, third, a),
                                                       cs__fabric_gateway(plan, third, b))) {
            continue;
        }
        return third;
    }
    return -1;
}

/* ---- checks ---- */

struct dead {
    const struct cs_fabric_plan *plan;
    const char *name; /* as given */
    struct cs_loc loc;
    struct cs_err *err;
};

static cs_status cut_off(const struct dead *dead, int32_t first, int32_t n, const char *whom)
{
    char ranks[48];
    (void)snprintf(ranks, sizeof ranks, n == 1 ? "rank %d loses" : "ranks %d to %d lose", (int)first,
                   (int)(first + n - 1));
    return cs_err_set(dead->err, CS_E_INPUT, dead->loc, "link '%s' is dead and there is no other path: %s %s",
                      dead->name, ranks, whom);
}

static cs_status check_pair(const struct dead *dead, enum cs__cable cable, int32_t in, int32_t a, int32_t b)
{
    const struct cs_fabric_plan *plan = dead->plan;
    if (cs__cable_detour(plan, cable, in, a, b) >= 0) {
        return CS_OK;
    }
    int32_t per = plan->spec->devices_per_node;
    int32_t rank_a = a;
    int32_t rank_b = b;
    if (cable == CS__CABLE_LOCAL) {
        rank_a = (in * plan->n_routers + a) * plan->n_router_nodes * per;
        rank_b = (in * plan->n_routers + b) * plan->n_router_nodes * per;
    } else if (cable == CS__CABLE_GLOBAL) {
        rank_a = a * plan->n_routers * plan->n_router_nodes * per;
        rank_b = b * plan->n_routers * plan->n_router_nodes * per;
    }
    char whom[32];
    (void)snprintf(whom, sizeof whom, "rank %d", (int)rank_b);
    return cut_off(dead, rank_a, 1, whom);
}

/* Which nodes a torus node still reaches over live cables; the first that node 0 does not, -1 = none. */
static int32_t torus_lost_node(const struct cs_fabric_plan *plan)
{
    int32_t n = plan->spec->n_nodes;
    int32_t *root = cs_calloc((size_t)n, sizeof *root); /* connected parts, by smallest node */
    for (int32_t i = 0; i < n; i++) {
        root[i] = i;
    }
    for (bool changed = true; changed;) {
        changed = false;
        int32_t stride = 1;
        for (int32_t d = 0; d < 3; d++) {
            for (int32_t node = 0; node < n; node++) {
                int32_t next = cs__fabric_torus_next(plan, node, d, stride);
                if (next < 0 || root[node] == root[next] ||
                    cs__cable_dead(plan->spec, CS__CABLE_TORUS, 0, node, d)) {
                    continue;
                }
                int32_t least = root[node] < root[next] ? root[node] : root[next];
                root[node] = root[next] = least;
                changed = true;
            }
            stride *= plan->dims[d];
        }
    }
    int32_t lost = -1;
    for (int32_t i = n - 1; i >= 0; i--) {
        lost = root[i] != 0 ? i : lost;
    }
    cs_free(root);
    return lost;
}

static cs_status check_torus(const struct dead *dead)
{
    const struct cs_fabric_plan *plan = dead->plan;
    int32_t lost = torus_lost_node(plan);
    return lost < 0
               ? CS_OK
               : cut_off(dead, lost * plan->spec->devices_per_node, plan->spec->devices_per_node, "rank 0");
}

static bool torus_cable_exists(const struct cs_fabric_plan *plan, int32_t node, char axis)
{
    int32_t stride = 1;
    for (int32_t d = 0; d < 3; d++) {
        if ("xyz"[d] == axis) {
            return cs__fabric_torus_next(plan, node, d, stride) >= 0;
        }
        stride *= plan->dims[d];
    }
    return false;
}

/* Links without which nothing gets through: ports, up links, NICs. */
static bool find_single(const struct dead *dead, cs_status *st)
{
    const struct cs_fabric_plan *plan = dead->plan;
    const struct cs_topology_spec *spec = plan->spec;
    bool tree = spec->topology == CS_TOPOLOGY_FAT_TREE || spec->topology == CS_TOPOLOGY_RAIL;
    int a = 0;
    int b = 0;
    char name[64];
    bool root_links = cs__fabric_root_links(plan);
    if (!root_links && sscanf(dead->name, "leaf%d_link_%d", &a, &b) == 2) {
        *st = cut_off(dead, b, 1, "all other nodes");
        return tree && a >= 0 && a < plan->n_leaves && b >= 0 && b < plan->n_devices;
    }
    /* a device's own port on a router, on the scale-up switch or on its switch */
    if ((spec->topology == CS_TOPOLOGY_DRAGONFLY &&
         sscanf(dead->name, "group%*d_router%*d_link_%d", &b) == 1) ||
        (spec->topology == CS_TOPOLOGY_SUPERNODE && sscanf(dead->name, "scaleup_link_%d", &b) == 1) ||
        (root_links && sscanf(dead->name, "nic%d_link", &b) == 1)) {
        *st = cut_off(dead, b, 1,
                      spec->topology == CS_TOPOLOGY_SUPERNODE ? "all other ranks" : "all other nodes");
        return b >= 0 && b < plan->n_devices;
    }
    if (sscanf(dead->name, "leaf%d_up", &a) == 1 && tree && plan->n_levels > 1 && a >= 0 &&
        a < plan->n_leaves) {
        (void)snprintf(name, sizeof name, "leaf%d_up", a);
        *st = cut_off(dead, cs__fabric_leaf_first(plan, a), cs__fabric_leaf_nics(plan, a),
                      spec->topology == CS_TOPOLOGY_RAIL ? "(every node's card of that rail) the other groups"
                                                         : "the rest of the cluster");
        return is_cable(dead->name, name);
    }
    if (sscanf(dead->name, "pod%d_up", &a) == 1 && tree && plan->n_levels == 3 && a >= 0 &&
        a < plan->n_pods) {
        (void)snprintf(name, sizeof name, "pod%d_up", a);
        *st = cut_off(dead, cs__fabric_leaf_first(plan, a * spec->leaf_ports), 1,
                      "with its whole pod, the other pods");
        return is_cable(dead->name, name);
    }
    if (sscanf(dead->name, "port%d", &a) == 1 && a >= 0 && a < plan->n_devices &&
        plan->parts[cs__fabric_part(plan, a)].intra_switched) {
        (void)snprintf(name, sizeof name, "port%d", a);
        *st = cut_off(dead, a, 1, "the other ranks of its node");
        return is_cable(dead->name, name);
    }
    return false;
}

static cs_status check_one(const struct dead *dead)
{
    const struct cs_fabric_plan *plan = dead->plan;
    enum cs_topology topology = plan->spec->topology;
    cs_status st = CS_OK;
    int a = -1;
    int b = -1;
    int in = -1;
    char axis = 0;
    char name[64] = "";
    if (sscanf(dead->name, "hccs%d-%d", &a, &b) == 2 && a >= 0 && a < b && b < plan->n_devices &&
        cs__fabric_node(plan, a) == cs__fabric_node(plan, b) &&
        !plan->parts[cs__fabric_part(plan, a)].intra_switched &&
        is_cable(dead->name, cable_name(CS__CABLE_MESH, 0, a, b, name))) {
        return check_pair(dead, CS__CABLE_MESH, 0, a, b);
    }
    if (topology == CS_TOPOLOGY_TORUS && sscanf(dead->name, "torus%d_%c", &a, &axis) == 2 && a >= 0 &&
        a < plan->spec->n_nodes && axis >= 'x' && axis <= 'z' && torus_cable_exists(plan, a, axis) &&
        is_cable(dead->name, cable_name(CS__CABLE_TORUS, 0, a, axis - 'x', name))) {
        return check_torus(dead);
    }
    if (topology == CS_TOPOLOGY_DRAGONFLY && sscanf(dead->name, "group%d_local%d-%d", &in, &a, &b) == 3 &&
        in >= 0 && in < plan->n_groups && a >= 0 && a < b && b < plan->n_routers &&
        is_cable(dead->name, cable_name(CS__CABLE_LOCAL, in, a, b, name))) {
        return check_pair(dead, CS__CABLE_LOCAL, in, a, b);
    }
    if (topology == CS_TOPOLOGY_DRAGONFLY && sscanf(dead->name, "global%d-%d", &a, &b) == 2 && a >= 0 &&
        a < b && b < plan->n_groups && is_cable(dead->name, cable_name(CS__CABLE_GLOBAL, 0, a, b, name))) {
        return check_pair(dead, CS__CABLE_GLOBAL, 0, a, b);
    }
    if (find_single(dead, &st)) {
        return st;
    }
    return cs_err_set(dead->err, CS_E_INPUT, dead->loc, "there is no link '%s' in this %s platform",
                      dead->name, cs_topology_names[topology]);
}

cs_status cs__dead_links_check(const struct cs_topology_spec *spec, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_fabric_plan plan;
    if (spec->n_dead_links == 0) {
        return CS_OK;
    }
    cs__fabric_plan(spec, &plan);
    for (int32_t i = 0; i < spec->n_dead_links; i++) {
        struct dead dead = {&plan, spec->dead_links[i], loc, err};
        CS_TRY(check_one(&dead));
    }
out:
    return st;
}
