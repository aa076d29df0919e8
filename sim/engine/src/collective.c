#include "cs/engine/collective.h"

#include "algorithms_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cs_algorithm_names[] = {
    "auto",     "ring",  "mesh",         "halving-doubling", "tree",
    "pairwise", "bruck", "hierarchical", "hierarchical-hd",  "rings",
    NULL,
};

/* Between nodes HCCL moves from halving-doubling to the ring as messages grow; the size is not published,
 * this is our choice. */
#define RING_FROM_BYTES (1 << 20)

/* Members arranged by node: position of local member l of node n at [n * n_local + l]. */
struct by_node {
    int32_t n_nodes;
    int32_t n_local;
    int32_t *positions;
    bool uniform; /* every node holds n_local members */
    bool apart;   /* they share adapters with others, no two with each other */
};

/* Does every member share an adapter, but none with another member? */
static bool are_apart(const struct cs_platform *platform, const int32_t *members, const struct by_node *nodes)
{
    for (int32_t i = 0; i < nodes->n_nodes * nodes->n_local; i++) {
        int32_t adapter = platform->devices[members[nodes->positions[i]]].adapter;
        for (int32_t k = i - i % nodes->n_local; k < i && adapter >= 0; k++) {
            adapter = platform->devices[members[nodes->positions[k]]].adapter == adapter ? -1 : adapter;
        }
        if (adapter < 0) {
            return false;
        }
    }
    return true;
}

static void arrange(const struct cs_platform *platform, const int32_t *members, int32_t n_members,
                    struct by_node *out)
{
    int32_t *node_of = cs_calloc((size_t)n_members, sizeof *node_of); /* order of first appearance */
    int32_t *count = cs_calloc((size_t)n_members, sizeof *count);
    int32_t *index_of_node = cs_malloc((size_t)platform->n_nodes * sizeof *index_of_node);
    memset(index_of_node, 0xff, (size_t)platform->n_nodes * sizeof *index_of_node);
    int32_t n_nodes = 0;
    for (int32_t i = 0; i < n_members; i++) {
        int32_t node = platform->devices[members[i]].node;
        if (index_of_node[node] < 0) {
            index_of_node[node] = n_nodes++;
        }
        node_of[i] = index_of_node[node];
        count[node_of[i]]++;
    }
    out->n_nodes = n_nodes;
    out->n_local = count[0];
    out->uniform = true;
    for (int32_t n = 0; n < n_nodes; n++) {
        out->uniform = out->uniform && count[n] == out->n_local;
        count[n] = 0;
    }
    out->positions = NULL;
    if (out->uniform) {
        out->positions = cs_calloc((size_t)n_members, sizeof *out->positions);
        for (int32_t i = 0; i < n_members; i++) {
            out->positions[node_of[i] * out->n_local + count[node_of[i]]++] = i;
        }
    }
    out->apart = out->uniform && are_apart(platform, members, out);
    cs_free(node_of);
    cs_free(count);
    cs_free(index_of_node);
}

static bool is_hierarchical(enum cs_algorithm algorithm)
{
    return algorithm == CS_ALGO_HIERARCHICAL || algorithm == CS_ALGO_HIERARCHICAL_HD;
}

/* The algorithm between nodes of a hierarchical form. */
static enum cs_algorithm between_nodes(enum cs_coll coll, enum cs_algorithm algorithm)
{
    if (coll == CS_COLL_ALL_TO_ALL) {
        return CS_ALGO_PAIRWISE;
    }
    return algorithm == CS_ALGO_HIERARCHICAL_HD ? CS_ALGO_HALVING_DOUBLING : CS_ALGO_RING;
}

static const char *rings_never(enum cs_coll coll)
{
    return coll == CS_COLL_ALL_TO_ALL || coll == CS_COLL_BROADCAST
               ? "rings do all-reduce, all-gather and reduce-scatter only"
               : NULL;
}

/* Algorithms that know of nodes. */
static bool is_by_node(enum cs_algorithm algorithm)
{
    return is_hierarchical(algorithm) || algorithm == CS_ALGO_RINGS;
}

static const char *by_node_refuses(enum cs_coll coll, enum cs_algorithm algorithm,
                                   const struct by_node *nodes)
{
    if (algorithm == CS_ALGO_RINGS) {
        bool fit = nodes->uniform && nodes->n_nodes > 1 && nodes->n_local > 1;
        return !fit ? "rings need several nodes and the same number of members, two or more, on each"
                    : rings_never(coll);
    }
    if (!nodes->uniform) {
        return "a hierarchical form needs the same number of members on every node";
    }
    if (nodes->n_nodes < 2 || nodes->n_local < 2) {
        return "a hierarchical form needs several nodes and several members on each";
    }
    return cs__flat_algorithm(between_nodes(coll, algorithm))->refuses(coll, nodes->n_nodes);
}

const char *cs_coll_never(enum cs_coll coll, enum cs_algorithm algorithm)
{
    enum { ANY_GROUP = 4 }; /* a power of two: what is refused there is refused everywhere */
    if (algorithm == CS_ALGO_AUTO) {
        return NULL;
    }
    if (algorithm == CS_ALGO_RINGS) {
        return rings_never(coll);
    }
    enum cs_algorithm flat = is_hierarchical(algorithm) ? between_nodes(coll, algorithm) : algorithm;
    return cs__flat_algorithm(flat)->refuses(coll, ANY_GROUP);
}

const char *cs_coll_refuses(enum cs_coll coll, enum cs_algorithm algorithm,
                            const struct cs_platform *platform, const int32_t *members, int32_t n_members)
{
    if (algorithm == CS_ALGO_AUTO || n_members < 2) {
        return NULL;
    }
    if (!is_by_node(algorithm)) {
        return cs__flat_algorithm(algorithm)->refuses(coll, n_members);
    }
    struct by_node nodes;
    arrange(platform, members, n_members, &nodes);
    const char *why = by_node_refuses(coll, algorithm, &nodes);
    cs_free(nodes.positions);
    return why;
}

static enum cs_algorithm flat_choice(enum cs_coll coll, int32_t g, double bytes)
{
    if (coll == CS_COLL_ALL_TO_ALL) {
        return CS_ALGO_PAIRWISE;
    }
    bool small = bytes < RING_FROM_BYTES;
    return small && !cs__flat_algorithm(CS_ALGO_HALVING_DOUBLING)->refuses(coll, g) ? CS_ALGO_HALVING_DOUBLING
                                                                                    : CS_ALGO_RING;
}

static enum cs_algorithm choose(enum cs_coll coll, const struct cs_platform *platform,
                                const struct by_node *nodes, int32_t n_members, double bytes)
{
    if (nodes->n_nodes == 1) {
        bool switched = strcmp(platform->intra, "switch") == 0;
        return !switched ? CS_ALGO_MESH : coll == CS_COLL_ALL_TO_ALL ? CS_ALGO_MESH : CS_ALGO_RING;
    }
    if (!nodes->uniform || nodes->n_local == 1) {
        return flat_choice(coll, n_members, bytes);
    }
    if (flat_choice(coll, nodes->n_nodes, bytes / nodes->n_local) == CS_ALGO_HALVING_DOUBLING) {
        return CS_ALGO_HIERARCHICAL_HD;
    }
    return nodes->apart && !rings_never(coll) ? CS_ALGO_RINGS : CS_ALGO_HIERARCHICAL;
}

/* ---- building ---- */

struct builder {
    struct cs_arena *arena;
    struct cs_coll_phase *phases;
    int32_t n_phases, cap_phases;
    struct cs_flow *flows; /* of the phase under construction */
    int32_t n_flows, cap_flows;
    const int32_t *map; /* from algorithm position to member position, for the group at hand */
    int32_t map_stride;
    bool merge; /* groups overlap */
};

static void sink_flow(void *context, int32_t src, int32_t dst, double bytes)
{
    struct builder *b = context;
    CS_GROW(b->flows, b->n_flows, b->cap_flows);
    b->flows[b->n_flows++] = (struct cs_flow){
        b->map ? b->map[src * b->map_stride] : src,
        b->map ? b->map[dst * b->map_stride] : dst,
        bytes,
    };
}

static int compare_flows(const void *a, const void *b)
{
    const struct cs_flow *x = a;
    const struct cs_flow *y = b;
    return x->src != y->src ? (x->src > y->src) - (x->src < y->src) : (x->dst > y->dst) - (x->dst < y->dst);
}

/* What several groups send from one member to another is one flow. */
static void merge_flows(struct builder *b)
{
    int32_t kept = 0;
    qsort(b->flows, (size_t)b->n_flows, sizeof *b->flows, compare_flows);
    for (int32_t i = 1; i < b->n_flows; i++) {
        if (compare_flows(&b->flows[kept], &b->flows[i]) == 0) {
            b->flows[kept].bytes += b->flows[i].bytes;
        } else {
            b->flows[++kept] = b->flows[i];
        }
    }
    b->n_flows = kept + 1;
}

static void close_phase(struct builder *b, int32_t rounds)
{
    if (b->n_flows == 0) {
        return;
    }
    if (b->merge) {
        merge_flows(b);
    }
    CS_GROW(b->phases, b->n_phases, b->cap_phases);
    struct cs_coll_phase *phase = &b->phases[b->n_phases++];
    phase->n_rounds = rounds;
    phase->n_flows = b->n_flows;
    phase->flows = cs_arena_memdup(b->arena, b->flows, (size_t)b->n_flows * sizeof *b->flows);
    phase->max_flow_bytes = 0;
    for (int32_t i = 0; i < b->n_flows; i++) {
        phase->max_flow_bytes =
            b->flows[i].bytes > phase->max_flow_bytes ? b->flows[i].bytes : phase->max_flow_bytes;
    }
    b->n_flows = 0;
}

/* A flat algorithm run side by side by n_groups groups of g members each: member i of group k stands at
 * position map[k * group_step + i * member_step]. */
struct grouping {
    const int32_t *map;
    int32_t n_groups, g, group_step, member_step;
};

static void add_flat(struct builder *b, enum cs_algorithm algorithm, enum cs_coll coll,
                     const struct grouping *groups, double bytes)
{
    if (groups->g < 2) {
        return;
    }
    const struct cs__flat *flat = cs__flat_algorithm(algorithm);
    const struct cs__flow_sink sink = {sink_flow, b};
    int32_t n_phases = flat->n_phases(coll, groups->g);
    for (int32_t p = 0; p < n_phases; p++) {
        int32_t rounds = 1;
        for (int32_t k = 0; k < groups->n_groups; k++) {
            b->map = groups->map ? groups->map + k * groups->group_step : NULL;
            b->map_stride = groups->member_step;
            rounds = flat->phase(coll, groups->g, p, bytes, &sink);
        }
        close_phase(b, rounds);
    }
}

static void add_hierarchical(struct builder *b, enum cs_algorithm algorithm, enum cs_coll coll,
                             const struct by_node *nodes, double bytes)
{
    enum cs_algorithm inter = between_nodes(coll, algorithm);
    double share_bytes = bytes / nodes->n_local;
    /* inside: members of one node are adjacent; between: equal local positions, n_local apart */
    const struct grouping in = {nodes->positions, nodes->n_nodes, nodes->n_local, nodes->n_local, 1};
    const struct grouping between = {nodes->positions, nodes->n_local, nodes->n_nodes, 1, nodes->n_local};
    const struct grouping roots = {nodes->positions, 1, nodes->n_nodes, 1, nodes->n_local};
    switch (coll) {
    case CS_COLL_ALL_REDUCE:
        add_flat(b, CS_ALGO_MESH, CS_COLL_REDUCE_SCATTER, &in, bytes);
        add_flat(b, inter, CS_COLL_ALL_REDUCE, &between, share_bytes);
        add_flat(b, CS_ALGO_MESH, CS_COLL_ALL_GATHER, &in, bytes);
        break;
    case CS_COLL_ALL_GATHER:
        add_flat(b, inter, CS_COLL_ALL_GATHER, &between, share_bytes);
        add_flat(b, CS_ALGO_MESH, CS_COLL_ALL_GATHER, &in, bytes);
        break;
    case CS_COLL_REDUCE_SCATTER:
        add_flat(b, CS_ALGO_MESH, CS_COLL_REDUCE_SCATTER, &in, bytes);
        add_flat(b, inter, CS_COLL_REDUCE_SCATTER, &between, share_bytes);
        break;
    case CS_COLL_ALL_TO_ALL:
        add_flat(b, CS_ALGO_MESH, CS_COLL_ALL_TO_ALL, &in, bytes);
        add_flat(b, inter, CS_COLL_ALL_TO_ALL, &between, bytes);
        break;
    case CS_COLL_BROADCAST:
        add_flat(b, inter, CS_COLL_BROADCAST, &roots, bytes);
        add_flat(b, CS_ALGO_MESH, CS_COLL_BROADCAST, &in, bytes);
        break;
    case CS_N_COLLS:
        break;
    }
}

/* Ring i goes through a node from its member i to the one half of them further, by way of all others. */
static void add_rings(struct builder *b, enum cs_coll coll, const struct by_node *nodes, double bytes)
{
    int32_t n_rings = nodes->n_local / 2;
    int32_t g = nodes->n_nodes * nodes->n_local;
    int32_t *order = cs_malloc((size_t)n_rings * (size_t)g * sizeof *order);
    for (int32_t ring = 0, at = 0; ring < n_rings; ring++) {
        for (int32_t node = 0; node < nodes->n_nodes; node++) {
            const int32_t *local = nodes->positions + node * nodes->n_local;
            order[at++] = local[ring];
            for (int32_t i = 0; i < nodes->n_local; i++) {
                if (i != ring && i != ring + n_rings) {
                    order[at++] = local[i];
                }
            }
            order[at++] = local[ring + n_rings];
        }
    }
    const struct grouping rings = {order, n_rings, g, g, 1};
    b->merge = true;
    add_flat(b, CS_ALGO_RING, coll, &rings, bytes / n_rings);
    cs_free(order);
}

void cs_coll_plan_build(enum cs_coll coll, enum cs_algorithm algorithm, const struct cs_platform *platform,
                        const int32_t *members, int32_t n_members, double bytes, struct cs_arena *arena,
                        struct cs_coll_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->algorithm = algorithm;
    if (n_members < 2 || bytes <= 0) {
        return;
    }
    struct by_node nodes;
    arrange(platform, members, n_members, &nodes);
    if (algorithm == CS_ALGO_AUTO) {
        algorithm = choose(coll, platform, &nodes, n_members, bytes);
        plan->algorithm = algorithm;
    }
    struct builder b = {.arena = arena};
    if (is_by_node(algorithm)) {
        CS_ASSERT(!by_node_refuses(coll, algorithm, &nodes));
    }
    if (algorithm == CS_ALGO_RINGS) {
        add_rings(&b, coll, &nodes, bytes);
    } else if (is_hierarchical(algorithm)) {
        add_hierarchical(&b, algorithm, coll, &nodes, bytes);
    } else {
        CS_ASSERT(!cs__flat_algorithm(algorithm)->refuses(coll, n_members));
        const struct grouping all = {NULL, 1, n_members, 0, 1};
        add_flat(&b, algorithm, coll, &all, bytes);
    }
    plan->n_phases = b.n_phases;
    plan->phases = cs_arena_memdup(arena, b.phases, (size_t)b.n_phases * sizeof *b.phases);
    cs_free(b.phases);
    cs_free(b.flows);
    cs_free(nodes.positions);
}

/* Load of one link in a phase. It is busy from its first flow's arrival on. */
struct load {
    double bytes;
    double first_s; /* smallest latency of a flow on it */
};

static double add_load(struct load *load, const struct cs_link *link, double bytes, double latency_s)
{
    if (load->bytes <= 0) {
        load->first_s = latency_s;
    }
    load->first_s = latency_s < load->first_s ? latency_s : load->first_s;
    load->bytes = link->shared ? load->bytes + bytes : bytes > load->bytes ? bytes : load->bytes;
    return load->first_s + load->bytes / link->bytes_per_s;
}

double cs_coll_closed_form_s(const struct cs_coll_plan *plan, const struct cs_routes *routes,
                             const int32_t *members)
{
    struct load *loads = cs_calloc((size_t)cs_routes_n_links(routes) + 1, sizeof *loads);
    double total_s = 0;
    for (int32_t p = 0; p < plan->n_phases; p++) {
        const struct cs_coll_phase *phase = &plan->phases[p];
        double round_s = 0;
        for (int32_t i = 0; i < phase->n_flows; i++) {
            const struct cs_flow *flow = &phase->flows[i];
            struct cs_route route = cs_routes_get(routes, members[flow->src], members[flow->dst]);
            for (int32_t k = 0; k < route.n_links; k++) {
                const struct cs_link *link = cs_routes_link(routes, route.links[k]);
                double alone_s = route.latency_s + flow->bytes / link->bytes_per_s;
                double loaded_s = add_load(&loads[route.links[k]], link, flow->bytes, route.latency_s);
                round_s = fmax(round_s, fmax(alone_s, loaded_s));
            }
        }
        for (int32_t i = 0; i < phase->n_flows; i++) {
            struct cs_route route =
                cs_routes_get(routes, members[phase->flows[i].src], members[phase->flows[i].dst]);
            for (int32_t k = 0; k < route.n_links; k++) {
                loads[route.links[k]] = (struct load){0};
            }
        }
        total_s += phase->n_rounds * round_s;
    }
    cs_free(loads);
    return total_s;
}

double cs_coll_bus_bytes_per_s(enum cs_coll coll, double bytes, int32_t n_members, double time_s)
{
    double share_frac = (double)(n_members - 1) / n_members;
    double factor = coll == CS_COLL_ALL_REDUCE ? 2 * share_frac : coll == CS_COLL_BROADCAST ? 1 : share_frac;
    return time_s > 0 ? bytes * factor / time_s : 0;
}
