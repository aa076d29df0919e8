/* Descriptions of clusters: defaults, checks, the plan of the fabric and its closed-form routes. */
#include "cs/platforms/topology.h"

#include "topology_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cs_topology_names[] = {"fat-tree", "rail", "torus", "dragonfly", "supernode", NULL};

/* A switch-to-switch hop: port-to-port time of an Ethernet switch and the cable. Assumption. */
#define HOP_LATENCY_S 0.5e-6
/* CloudMatrix384: 384 modules of two dies in one scale-up domain (vendor). */
#define SUPERNODE_DEVICES_MAX 768

void cs_topology_spec_init(struct cs_topology_spec *spec, const struct cs_server *server)
{
    *spec = (struct cs_topology_spec){
        .name = server->name,
        .chip = server->chip,
        .n_nodes = 8,
        .devices_per_node = server->devices,
        .intra_switched = server->intra_switched,
        .intra_bytes_per_s = server->intra_bytes_per_s,
        .intra_bus_bytes_per_s = server->intra_bus_bytes_per_s,
        .intra_latency_s = server->intra_latency_s,
        .topology = CS_TOPOLOGY_FAT_TREE,
        .inter_bytes_per_s = server->nic_bytes_per_s,
        .inter_half_duplex = server->nic_half_duplex,
        .nic_devices = server->nic_devices,
        .inter_latency_s = server->nic_latency_s,
        .hop_latency_s = HOP_LATENCY_S,
        .oversubscription_frac = 1.0,
        .leaf_ports = 64,
        .levels = 0,
    };
}

static struct cs_topology_part first_part(const struct cs_topology_spec *spec)
{
    return (struct cs_topology_part){.chip = spec->chip,
                                     .n_nodes = spec->n_nodes,
                                     .devices_per_node = spec->devices_per_node,
                                     .intra_switched = spec->intra_switched,
                                     .intra_bytes_per_s = spec->intra_bytes_per_s,
                                     .intra_bus_bytes_per_s = spec->intra_bus_bytes_per_s,
                                     .intra_latency_s = spec->intra_latency_s,
                                     .inter_bytes_per_s = spec->inter_bytes_per_s,
                                     .inter_half_duplex = spec->inter_half_duplex,
                                     .nic_devices = spec->nic_devices};
}

struct cs_topology_part cs_topology_part_of(const struct cs_server *server, int32_t n_nodes)
{
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, server);
    spec.n_nodes = n_nodes;
    return first_part(&spec);
}

void cs_topology_spec_use(struct cs_topology_spec *spec, enum cs_topology topology)
{
    spec->topology = topology;
    if (topology == CS_TOPOLOGY_SUPERNODE) {
        spec->intra_switched = true;
        spec->intra_bus_bytes_per_s = 0;
        spec->inter_bytes_per_s = spec->intra_bytes_per_s;
        spec->inter_half_duplex = false;
        spec->nic_devices = 1;
    }
}

cs_status cs_topology_check_given(enum cs_topology topology, const char *key, struct cs_loc loc,
                                  struct cs_err *err)
{
    static const struct {
        const char *key;
        uint32_t in; /* topologies, a bit each */
        const char *needs;
    } figures[] = {
        {"oversubscription",
         1U << CS_TOPOLOGY_FAT_TREE | 1U << CS_TOPOLOGY_RAIL | 1U << CS_TOPOLOGY_DRAGONFLY,
         "fat-tree, rail or dragonfly"},
        {"levels", 1U << CS_TOPOLOGY_FAT_TREE | 1U << CS_TOPOLOGY_RAIL, "fat-tree or rail"},
        {"dims", 1U << CS_TOPOLOGY_TORUS | 1U << CS_TOPOLOGY_DRAGONFLY, "torus or dragonfly"},
    };
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        if (strcmp(figures[i].key, key) == 0 && !(figures[i].in & 1U << topology)) {
            return cs_err_set(err, CS_E_INPUT, loc,
                              "'%s' has no effect in topology %s: it needs topology %s, or leave it out", key,
                              cs_topology_names[topology], figures[i].needs);
        }
    }
    return CS_OK;
}

static int32_t ceil_div(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

/* Torus of n nodes with the smallest sum of dimensions; two of them, three from 64 nodes on. */
static void choose_torus(int32_t n, int32_t dims[3])
{
    int32_t best = INT32_MAX;
    for (int32_t z = 1; z == 1 || (n >= 64 && z <= n / z / z); z++) {
        if (n % z != 0) {
            continue;
        }
        for (int32_t y = z; y <= n / z / y; y++) {
            if (n / z % y != 0) {
                continue;
            }
            int32_t x = n / z / y;
            if (x + y + z < best) {
                best = x + y + z;
                dims[0] = x;
                dims[1] = y;
                dims[2] = z;
            }
        }
    }
}

/* Dragonfly of n nodes with D devices each, as near to balanced (a = 2p, Kim et al., ISCA 2008) as n's
 * divisors allow, with few enough groups for p global links a router, and more than one group. */
static void choose_dragonfly(int32_t n, int32_t *groups, int32_t *routers, int32_t *nodes)
{
    double best = INFINITY;
    for (int32_t p = 1; p <= n; p++) {
        for (int32_t a = 1; n % p == 0 && a <= n / p; a++) {
            if (n / p % a != 0) {
                continue;
            }
            int32_t g = n / p / a;
            double score = fabs(log((double)a / (2.0 * p))) +
                           fmax(0.0, log((double)(g - 1) / ((double)a * p) + 1e-300)) + (g == 1 ? 1.0 : 0.0);
            if (score < best - 1e-9) {
                best = score;
                *groups = g;
                *routers = a;
                *nodes = p;
            }
        }
    }
}

int32_t cs_topology_n_devices(const struct cs_topology_spec *spec)
{
    return spec->n_nodes * spec->devices_per_node + spec->second.n_nodes * spec->second.devices_per_node;
}

int32_t cs_topology_n_nodes(const struct cs_topology_spec *spec)
{
    return spec->n_nodes + spec->second.n_nodes;
}

/* Leaf switches of one server type of a fat tree or rail fabric. */
static int32_t count_part_leaves(const struct cs_topology_spec *spec, int32_t n_nodes, int32_t per_node)
{
    return spec->topology == CS_TOPOLOGY_RAIL ? ceil_div(n_nodes, spec->leaf_ports) * per_node
                                              : ceil_div(n_nodes * per_node, spec->leaf_ports);
}

static int32_t count_first_leaves(const struct cs_topology_spec *spec)
{
    return count_part_leaves(spec, spec->n_nodes, spec->devices_per_node);
}

/* Number of leaf switches of a fat tree or rail fabric. */
static int32_t count_leaves(const struct cs_topology_spec *spec)
{
    return count_first_leaves(spec) +
           count_part_leaves(spec, spec->second.n_nodes, spec->second.devices_per_node);
}

static cs_status check_rate(double value, const char *what, struct cs_loc loc, struct cs_err *err)
{
    if (!(value >= 1.0 && value <= 1e15)) {
        return cs_err_set(err, CS_E_INPUT, loc, "%s is %g bytes/s, expected 1 B/s to 1000 TB/s", what, value);
    }
    return CS_OK;
}

static cs_status check_latency(double value, const char *what, struct cs_loc loc, struct cs_err *err)
{
    if (!(value >= 0.0 && value <= 1.0)) {
        return cs_err_set(err, CS_E_INPUT, loc, "%s is %g s, expected 0 to 1 s", what, value);
    }
    return CS_OK;
}

/* Servers of one type. */
static cs_status check_part(const struct cs_topology_part *part, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (part->n_nodes < 1 || part->n_nodes > CS_TOPOLOGY_DEVICES_MAX) {
        return cs_err_set(err, CS_E_INPUT, loc, "%d nodes, expected 1 to %d", (int)part->n_nodes,
                          CS_TOPOLOGY_DEVICES_MAX);
    }
    if (part->devices_per_node < 1 || part->devices_per_node > 1024) {
        return cs_err_set(err, CS_E_INPUT, loc, "%d devices a node, expected 1 to 1024",
                          (int)part->devices_per_node);
    }
    if ((int64_t)part->n_nodes * part->devices_per_node > CS_TOPOLOGY_DEVICES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, loc,
                          "%d nodes of %d devices are %lld devices, at most %d can be simulated",
                          (int)part->n_nodes, (int)part->devices_per_node,
                          (long long)part->n_nodes * part->devices_per_node, CS_TOPOLOGY_DEVICES_MAX);
    }
    if (!part->intra_switched && part->devices_per_node > 64) {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "a full mesh of %d devices a node is not built, at most 64 (or a switched node)",
                          (int)part->devices_per_node);
    }
    if (part->nic_devices < 0 || part->nic_devices > CS_NIC_DEVICES_MAX) { /* 0: not said */
        return cs_err_set(err, CS_E_INPUT, loc, "%d devices a network adapter, expected 1 to %d",
                          (int)part->nic_devices, CS_NIC_DEVICES_MAX);
    }
    CS_TRY(check_rate(part->intra_bytes_per_s, "intra-node bandwidth", loc, err));
    if (part->intra_bus_bytes_per_s != 0) {
        CS_TRY(check_rate(part->intra_bus_bytes_per_s, "bandwidth of the bus", loc, err));
        if (!part->intra_switched) {
            return cs_err_set(err, CS_E_INPUT, loc, "the devices of a full mesh have no bus between them");
        }
    }
    CS_TRY(check_rate(part->inter_bytes_per_s, "inter-node bandwidth", loc, err));
    CS_TRY(check_latency(part->intra_latency_s, "intra-node latency", loc, err));
out:
    return st;
}

static cs_status check_second(const struct cs_topology_spec *spec, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (spec->second.n_nodes == 0) {
        return CS_OK;
    }
    static const char *const reasons[CS_N_TOPOLOGIES] = {
        [CS_TOPOLOGY_TORUS] = "a torus is of equal nodes, whose NICs its links share",
        [CS_TOPOLOGY_DRAGONFLY] = "the routers of a dragonfly hold equal nodes",
        [CS_TOPOLOGY_SUPERNODE] = "a supernode is one scale-up domain of equal devices"};
    if (spec->topology < CS_N_TOPOLOGIES && reasons[spec->topology]) {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "two server types share a fat tree or a rail-optimised fabric: %s",
                          reasons[spec->topology]);
    }
    CS_TRY(check_part(&spec->second, loc, err));
    if (cs_topology_n_devices(spec) > CS_TOPOLOGY_DEVICES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, loc,
                          "%d devices of both server types, at most %d can be simulated",
                          (int)cs_topology_n_devices(spec), CS_TOPOLOGY_DEVICES_MAX);
    }
out:
    return st;
}

/* Sizes, the name and rates. */
static cs_status check_numbers(const struct cs_topology_spec *spec, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_topology_part first = first_part(spec);
    if (!spec->name || spec->name[0] == '\0') {
        return cs_err_set(err, CS_E_INPUT, loc, "a platform needs a name");
    }
    for (const char *c = spec->name; *c; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e) {
            return cs_err_set(err, CS_E_INPUT, loc,
                              "platform name '%s' may only have printable ASCII characters", spec->name);
        }
    }
    CS_TRY(check_part(&first, loc, err));
    CS_TRY(check_second(spec, loc, err));
    CS_TRY(check_latency(spec->inter_latency_s, "inter-node latency", loc, err));
    CS_TRY(check_latency(spec->hop_latency_s, "latency of a hop", loc, err));
    if (!(spec->oversubscription_frac >= 1.0 && spec->oversubscription_frac <= 1000.0)) {
        return cs_err_set(err, CS_E_INPUT, loc, "oversubscription is %g, expected 1 (none) to 1000",
                          spec->oversubscription_frac);
    }
out:
    return st;
}

static cs_status check_tree(const struct cs_topology_spec *spec, struct cs_loc loc, struct cs_err *err)
{
    if (spec->leaf_ports < 2 || spec->leaf_ports > 1024) {
        return cs_err_set(err, CS_E_INPUT, loc, "%d down ports a leaf switch, expected 2 to 1024",
                          (int)spec->leaf_ports);
    }
    if (spec->levels != 0 && spec->levels != 2 && spec->levels != 3) {
        return cs_err_set(err, CS_E_INPUT, loc, "%d levels of switches, expected 2, 3 or 0 (as needed)",
                          (int)spec->levels);
    }
    int64_t n_leaves = count_leaves(spec);
    int64_t max_leaves = 2 * (int64_t)spec->leaf_ports * (spec->levels == 2 ? 1 : spec->leaf_ports);
    if (n_leaves > max_leaves) {
        return cs_err_set(
            err, CS_E_INPUT, loc,
            "%lld leaf switches of %d ports do not fit under %d levels (at most %lld): give the leaves "
            "more ports%s",
            (long long)n_leaves, (int)spec->leaf_ports, spec->levels == 2 ? 2 : 3, (long long)max_leaves,
            spec->levels == 2 ? " or the tree 3 levels" : "");
    }
    return CS_OK;
}

/* Torus and dragonfly sizes: given ones must make up the nodes. */
static cs_status check_dims(const struct cs_topology_spec *spec, struct cs_loc loc, struct cs_err *err)
{
    bool torus = spec->topology == CS_TOPOLOGY_TORUS;
    if (spec->dims[0] == 0 && spec->dims[1] == 0 && spec->dims[2] == 0) {
        return CS_OK;
    }
    int64_t product = 1;
    for (int32_t d = 0; d < 3; d++) {
        bool may_be_zero = torus && d > 0;
        if (spec->dims[d] < (may_be_zero ? 0 : 1) || spec->dims[d] > CS_TOPOLOGY_DEVICES_MAX) {
            return cs_err_set(err, CS_E_INPUT, loc, "size %d of the %s is %d, expected 1 to %d", (int)d + 1,
                              torus ? "torus" : "dragonfly (groups, routers, nodes)", (int)spec->dims[d],
                              CS_TOPOLOGY_DEVICES_MAX);
        }
        product *= spec->dims[d] > 0 ? spec->dims[d] : 1;
    }
    if (product != spec->n_nodes) {
        return cs_err_set(err, CS_E_INPUT, loc, "a %s of %d x %d x %d has %lld nodes, but there are %d",
                          torus ? "torus" : "dragonfly", (int)spec->dims[0], (int)spec->dims[1],
                          (int)spec->dims[2], (long long)product, (int)spec->n_nodes);
    }
    return CS_OK;
}

cs_status cs_topology_check(const struct cs_topology_spec *spec, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(check_numbers(spec, loc, err));
    switch (spec->topology) {
    case CS_TOPOLOGY_FAT_TREE:
    case CS_TOPOLOGY_RAIL:
        CS_TRY(check_tree(spec, loc, err));
        break;
    case CS_TOPOLOGY_TORUS:
    case CS_TOPOLOGY_DRAGONFLY:
        CS_TRY(check_dims(spec, loc, err));
        break;
    case CS_TOPOLOGY_SUPERNODE:
        if ((int64_t)spec->n_nodes * spec->devices_per_node > SUPERNODE_DEVICES_MAX) {
            return cs_err_set(err, CS_E_INPUT, loc,
                              "a supernode of %d devices is not built, at most %d (384 modules of two)",
                              (int)(spec->n_nodes * spec->devices_per_node), SUPERNODE_DEVICES_MAX);
        }
        break;
    case CS_N_TOPOLOGIES:
    default:
        return cs_err_set(err, CS_E_INPUT, loc, "there is no topology number %d", (int)spec->topology);
    }
    CS_TRY(cs__dead_links_check(spec, loc, err));
out:
    return st;
}

void cs__fabric_plan(const struct cs_topology_spec *spec, struct cs_fabric_plan *plan)
{
    *plan = (struct cs_fabric_plan){.spec = spec,
                                    .n_devices = cs_topology_n_devices(spec),
                                    .n_parts = spec->second.n_nodes > 0 ? 2 : 1,
                                    .parts = {first_part(spec), spec->second},
                                    .n_levels = 1,
                                    .n_leaves = 1,
                                    .n_pods = 1};
    plan->first_device[1] = spec->n_nodes * spec->devices_per_node;
    plan->first_node[1] = spec->n_nodes;
    plan->first_leaf[1] = INT32_MAX;
    bool given = spec->dims[0] > 0;
    switch (spec->topology) {
    case CS_TOPOLOGY_FAT_TREE:
    case CS_TOPOLOGY_RAIL:
        plan->n_leaves = count_leaves(spec);
        plan->first_leaf[1] = plan->n_parts == 2 ? count_first_leaves(spec) : INT32_MAX;
        plan->n_levels = spec->levels;
        if (spec->levels == 0) {
            plan->n_levels = plan->n_leaves == 1 ? 1 : plan->n_leaves <= 2 * spec->leaf_ports ? 2 : 3;
        }
        if (plan->n_levels == 3) {
            plan->n_pods = ceil_div(plan->n_leaves, spec->leaf_ports);
        }
        break;
    case CS_TOPOLOGY_TORUS:
        if (given) {
            for (int32_t d = 0; d < 3; d++) {
                plan->dims[d] = spec->dims[d] > 0 ? spec->dims[d] : 1;
            }
        } else {
            choose_torus(spec->n_nodes, plan->dims);
        }
        for (int32_t d = 0; d < 3; d++) {
            plan->n_dims += plan->dims[d] > 1;
        }
        break;
    case CS_TOPOLOGY_DRAGONFLY:
        if (given) {
            plan->n_groups = spec->dims[0];
            plan->n_routers = spec->dims[1];
            plan->n_router_nodes = spec->dims[2];
        } else {
            choose_dragonfly(spec->n_nodes, &plan->n_groups, &plan->n_routers, &plan->n_router_nodes);
        }
        break;
    case CS_TOPOLOGY_SUPERNODE:
    case CS_N_TOPOLOGIES:
    default:
        break;
    }
}

int32_t cs__fabric_part(const struct cs_fabric_plan *plan, int32_t device)
{
    return device >= plan->first_device[1] ? 1 : 0;
}

int32_t cs__fabric_leaf_part(const struct cs_fabric_plan *plan, int32_t leaf)
{
    return leaf >= plan->first_leaf[1] ? 1 : 0;
}

int32_t cs__fabric_node(const struct cs_fabric_plan *plan, int32_t device)
{
    int32_t part = cs__fabric_part(plan, device);
    return plan->first_node[part] + (device - plan->first_device[part]) / plan->parts[part].devices_per_node;
}

int32_t cs__fabric_leaf(const struct cs_fabric_plan *plan, int32_t device)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t part = cs__fabric_part(plan, device);
    int32_t first = part == 0 ? 0 : plan->first_leaf[1];
    int32_t at = device - plan->first_device[part];
    if (spec->topology == CS_TOPOLOGY_RAIL) {
        int32_t per_node = plan->parts[part].devices_per_node;
        return first + at / per_node / spec->leaf_ports * per_node + at % per_node;
    }
    return first + at / spec->leaf_ports;
}

int32_t cs__fabric_leaf_first(const struct cs_fabric_plan *plan, int32_t leaf)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t part = cs__fabric_leaf_part(plan, leaf);
    int32_t at = leaf - (part == 0 ? 0 : plan->first_leaf[1]);
    if (spec->topology == CS_TOPOLOGY_RAIL) {
        int32_t per_node = plan->parts[part].devices_per_node;
        return plan->first_device[part] + at / per_node * spec->leaf_ports * per_node + at % per_node;
    }
    return plan->first_device[part] + at * spec->leaf_ports;
}

int32_t cs__fabric_leaf_nics(const struct cs_fabric_plan *plan, int32_t leaf)
{
    const struct cs_topology_spec *spec = plan->spec;
    int32_t part = cs__fabric_leaf_part(plan, leaf);
    int32_t first = cs__fabric_leaf_first(plan, leaf) - plan->first_device[part]; /* of the part */
    int32_t per_node = plan->parts[part].devices_per_node;
    int32_t n_nodes = plan->parts[part].n_nodes;
    int32_t n = spec->topology == CS_TOPOLOGY_RAIL ? n_nodes - first / per_node : n_nodes * per_node - first;
    return n < spec->leaf_ports ? n : spec->leaf_ports;
}

int32_t cs__fabric_pod(const struct cs_fabric_plan *plan, int32_t leaf)
{
    return plan->n_levels == 3 ? leaf / plan->spec->leaf_ports : 0;
}

double cs__fabric_leaf_up_bytes_per_s(const struct cs_fabric_plan *plan, int32_t leaf)
{
    return cs__fabric_leaf_nics(plan, leaf) *
           plan->parts[cs__fabric_leaf_part(plan, leaf)].inter_bytes_per_s /
           plan->spec->oversubscription_frac;
}

double cs__fabric_pod_up_bytes_per_s(const struct cs_fabric_plan *plan, int32_t pod)
{
    int32_t first = pod * plan->spec->leaf_ports;
    int32_t end = first + plan->spec->leaf_ports;
    int32_t n_nics[2] = {0};
    for (int32_t leaf = first; leaf < end && leaf < plan->n_leaves; leaf++) {
        n_nics[cs__fabric_leaf_part(plan, leaf)] += cs__fabric_leaf_nics(plan, leaf);
    }
    return (n_nics[0] * plan->parts[0].inter_bytes_per_s + n_nics[1] * plan->parts[1].inter_bytes_per_s) /
           plan->spec->oversubscription_frac;
}

double cs__fabric_torus_bytes_per_s(const struct cs_fabric_plan *plan, int32_t dim)
{
    const struct cs_topology_spec *spec = plan->spec;
    double one = spec->devices_per_node * spec->inter_bytes_per_s / (2.0 * plan->n_dims);
    return plan->dims[dim] == 2 ? 2.0 * one : one;
}

int32_t cs__fabric_torus_next(const struct cs_fabric_plan *plan, int32_t node, int32_t dim, int32_t stride)
{
    int32_t size = plan->dims[dim];
    int32_t at = node / stride % size;
    if (size == 1 || (size == 2 && at == 1)) {
        return -1;
    }
    return at == size - 1 ? node - at * stride : node + stride;
}

static int32_t router_nics(const struct cs_fabric_plan *plan)
{
    return plan->n_router_nodes * plan->spec->devices_per_node;
}

double cs__fabric_local_bytes_per_s(const struct cs_fabric_plan *plan)
{
    return 2.0 * router_nics(plan) * plan->spec->inter_bytes_per_s / (plan->n_routers - 1);
}

double cs__fabric_global_bytes_per_s(const struct cs_fabric_plan *plan)
{
    return (double)plan->n_routers * router_nics(plan) * plan->spec->inter_bytes_per_s /
           ((plan->n_groups - 1) * plan->spec->oversubscription_frac);
}

int32_t cs__fabric_gateway(const struct cs_fabric_plan *plan, int32_t group, int32_t peer)
{
    int32_t distance = (peer - group + plan->n_groups) % plan->n_groups;
    return (distance - 1) % plan->n_routers;
}
