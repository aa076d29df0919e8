#include "system_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which streams execute what, which collectives occur ---- */

int32_t cs__system_shape(const struct cs__system *s, int32_t comm, enum cs_coll coll, int64_t bytes)
{
    for (int32_t i = 0; i < s->n_shapes; i++) {
        const struct cs__shape *shape = &s->shapes[i];
        if (shape->comm == comm && shape->coll == coll && shape->bytes == bytes) {
            return i;
        }
    }
    return -1;
}

static void note_owner(int32_t *owner, int32_t stream)
{
    if (*owner == -1) {
        *owner = stream;
    } else if (*owner != stream) {
        *owner = -2;
    }
}

static void scan_operations(struct cs__system *s)
{
    const struct cs_trace *t = s->trace;
    int32_t n_owners = t->n_comms + t->n_chans;
    s->owner_stream = CS_ARENA_NEW(&s->arena, int32_t, n_owners + 1);
    for (int32_t i = 0; i < n_owners; i++) {
        s->owner_stream[i] = -1;
    }
    for (int32_t b = 0; b < t->n_blocks; b++) {
        for (int32_t i = 0; i < t->blocks[b].n_ops; i++) {
            const struct cs_op *op = &t->blocks[b].ops[i];
            if (op->type == CS_OP_SEND) {
                note_owner(&s->owner_stream[t->n_comms + op->comm], op->stream);
            } else if (op->type == CS_OP_COLLECTIVE) {
                note_owner(&s->owner_stream[op->comm], op->stream);
                if (cs__system_shape(s, op->comm, op->coll, op->bytes) < 0) {
                    CS_GROW(s->shapes, s->n_shapes, s->cap_shapes);
                    s->shapes[s->n_shapes++] = (struct cs__shape){op->comm, op->coll, op->bytes};
                }
            }
        }
    }
}

/* ---- flows ---- */

static cs_status check_algorithm(const struct cs__system *s, const struct cs__shape *shape, int32_t group,
                                 struct cs_err *err)
{
    const struct cs_comm *comm = &s->trace->comms[shape->comm];
    const int32_t *members = comm->members + comm->group_first[group];
    int32_t n = comm->group_first[group + 1] - comm->group_first[group];
    enum cs_algorithm algorithm = s->options->algorithm[shape->coll];
    const char *why = cs_coll_refuses(shape->coll, algorithm, s->platform, members, n);
    if (why) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "%s by '%s' over the %d ranks of '%s': %s",
                          cs_coll_names[shape->coll], cs_algorithm_names[algorithm], n, comm->name, why);
    }
    return CS_OK;
}

static void add_flow(struct cs__system *s, int32_t src, int32_t dst, uint64_t key, int32_t owner)
{
    CS_GROW(s->flows, s->n_flows, s->cap_flows);
    s->flows[s->n_flows++] = (struct cs__flow_site){
        .src = src,
        .dst = dst,
        .key = key,
        .owner = owner,
        .cross = !cs_platform_same_node(s->platform, src, dst),
        .flow_class = -1,
    };
}

/* The layout of a group over nodes decides its plan: groups with equal layouts share one. */
struct plan_cache {
    uint64_t layout;
    int32_t shape;
    struct cs_coll_plan plan;
};

/* What a plan depends on beside its shape: which members are on one node, and which share an adapter there.
 */
static uint64_t layout_of(const struct cs_platform *platform, const int32_t *members, int32_t n)
{
    uint64_t hash = cs_hash_mix(CS_HASH_SEED, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        int32_t first = i; /* first member on the same node, looking back at most a node's worth at a time */
        int32_t node = platform->devices[members[i]].node;
        int32_t adapter = platform->devices[members[i]].adapter;
        int32_t sharing = adapter < 0 ? -1 : i;
        for (int32_t k = i - 1; k >= 0 && k >= i - platform->devices_per_node; k--) {
            if (platform->devices[members[k]].node == node) {
                first = k;
                bool same = adapter >= 0 && platform->devices[members[k]].adapter == adapter;
                sharing = same ? k : sharing;
            }
        }
        hash = cs_hash_mix(cs_hash_mix(hash, (uint64_t)first), (uint64_t)sharing);
    }
    return hash;
}

struct plans {
    struct plan_cache *items;
    int32_t n, cap;
};

static const struct cs_coll_plan *plan_for(struct cs__system *s, struct plans *plans, int32_t shape_index,
                                           const int32_t *members, int32_t n, uint64_t layout)
{
    for (int32_t i = 0; i < plans->n; i++) {
        if (plans->items[i].shape == shape_index && plans->items[i].layout == layout) {
            return &plans->items[i].plan;
        }
    }
    const struct cs__shape *shape = &s->shapes[shape_index];
    CS_GROW(plans->items, plans->n, plans->cap);
    struct plan_cache *item = &plans->items[plans->n++];
    item->layout = layout;
    item->shape = shape_index;
    cs_coll_plan_build(shape->coll, s->options->algorithm[shape->coll], s->platform, members, n,
                       (double)shape->bytes, &s->arena, &item->plan);
    return &item->plan;
}

static bool has_pattern(const struct cs__system *s, int64_t first, enum cs_coll coll,
                        enum cs_algorithm algorithm)
{
    for (int64_t i = first; i < s->n_patterns; i++) {
        if (s->patterns[i].coll == coll && s->patterns[i].algorithm == algorithm) {
            return true;
        }
    }
    return false;
}

static void add_plan_flows(struct cs__system *s, const struct cs__shape *shape,
                           const struct cs_coll_plan *plan, const int32_t *members)
{
    for (int32_t p = 0; p < plan->n_phases; p++) {
        const struct cs_coll_phase *phase = &plan->phases[p];
        uint64_t key = cs_hash_mix(CS_HASH_SEED, (uint64_t)shape->comm);
        key = cs_hash_mix(key, ((uint64_t)shape->coll << 8) | (uint64_t)plan->algorithm);
        key = cs_hash_mix(key, ((uint64_t)p << 32) | (uint64_t)phase->n_rounds);
        for (int32_t i = 0; i < phase->n_flows; i++) {
            const struct cs_flow *flow = &phase->flows[i];
            add_flow(s, members[flow->src], members[flow->dst],
                     cs_hash_real(key, flow->bytes / phase->max_flow_bytes), shape->comm);
        }
    }
}

static cs_status collect_comm(struct cs__system *s, int32_t c, struct plans *plans, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_comm *comm = &s->trace->comms[c];
    for (int32_t g = 0; g < comm->n_groups; g++) {
        const int32_t *members = comm->members + comm->group_first[g];
        int32_t n = comm->group_first[g + 1] - comm->group_first[g];
        uint64_t layout = layout_of(s->platform, members, n);
        int64_t first_pattern = s->n_patterns;
        for (int32_t i = 0; i < s->n_shapes; i++) {
            if (s->shapes[i].comm != c) {
                continue;
            }
            CS_TRY(check_algorithm(s, &s->shapes[i], g, err));
            const struct cs_coll_plan *plan = plan_for(s, plans, i, members, n, layout);
            if (has_pattern(s, first_pattern, s->shapes[i].coll, plan->algorithm)) {
                continue;
            }
            CS_GROW(s->patterns, s->n_patterns, s->cap_patterns);
            s->patterns[s->n_patterns++] =
                (struct cs__pattern_site){c, g, s->shapes[i].coll, plan->algorithm, s->n_flows};
            add_plan_flows(s, &s->shapes[i], plan, members);
        }
    }
out:
    return st;
}

static cs_status find_routes(struct cs__system *s, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t *pairs = cs_reallocarray(NULL, (size_t)(s->n_flows > 0 ? s->n_flows : 1), 2 * sizeof *pairs);
    for (int64_t i = 0; i < s->n_flows; i++) {
        pairs[2 * i] = s->flows[i].src;
        pairs[2 * i + 1] = s->flows[i].dst;
    }
    CS_TRY(cs_routes_need(s->routes, pairs, s->n_flows, err));
    for (int64_t i = 0; i < s->n_flows; i++) {
        struct cs_route route = cs_routes_get(s->routes, s->flows[i].src, s->flows[i].dst);
        s->flows[i].links = route.links;
        s->flows[i].n_links = route.n_links;
    }
out:
    cs_free(pairs);
    return st;
}

cs_status cs__system_collect_flows(struct cs__system *s, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_trace *t = s->trace;
    struct plans plans = {0};
    scan_operations(s);
    for (int32_t c = 0; c < t->n_comms; c++) {
        CS_TRY(collect_comm(s, c, &plans, err));
    }
    for (int32_t c = 0; c < t->n_chans; c++) {
        uint64_t key = cs_hash_mix(CS_HASH_SEED, UINT64_C(0x10000) + (uint64_t)c);
        for (int32_t r = 0; r < t->n_ranks; r++) {
            int32_t peer = t->chans[c].peer[r];
            if (peer >= 0 && s->owner_stream[t->n_comms + c] != -1) {
                add_flow(s, r, peer, key, t->n_comms + c);
            }
        }
    }
    CS_TRY(find_routes(s, err));
out:
    cs_free(plans.items);
    return st;
}

/* ---- faults ---- */

/* Does a slow link's name mean this link? "hccs0-1" means both directions of the cable. */
static bool names_link(const char *name, const char *link)
{
    size_t len = strlen(name);
    return strncmp(name, link, len) == 0 &&
           (link[len] == '\0' || strcmp(link + len, "_UP") == 0 || strcmp(link + len, "_DOWN") == 0);
}

cs_status cs_engine_check_links(const struct cs_routes *routes, const struct cs_run_options *options,
                                struct cs_err *err)
{
    for (int32_t i = 0; i < options->n_slow_links; i++) {
        bool known = options->slow_links[i].may_be_idle;
        for (int32_t l = 0; l < cs_routes_n_links(routes) && !known; l++) {
            known = names_link(options->slow_links[i].name, cs_routes_link(routes, l)->name);
        }
        if (!known) {
            return cs_err_set(
                err, CS_E_INPUT, CS_NOLOC,
                "no route crosses a link '%s', expected a link of the platform, as hccs0-1 or hccs0-1_UP "
                "(a half-duplex one has no _UP and _DOWN)",
                options->slow_links[i].name);
        }
    }
    return CS_OK;
}

static cs_status apply_faults(struct cs__system *s, struct cs_err *err)
{
    const struct cs_run_options *o = s->options;
    s->slowdown = CS_ARENA_NEW(&s->arena, double, s->trace->n_ranks);
    for (int32_t r = 0; r < s->trace->n_ranks; r++) {
        s->slowdown[r] = 1;
    }
    for (int32_t i = 0; i < o->n_slow_devices; i++) {
        int32_t device = o->slow_devices[i].device;
        if (device < 0 || device >= s->trace->n_ranks) {
            return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "slow device %d does not exist: devices are 0 to %d",
                              device, s->trace->n_ranks - 1);
        }
        s->slowdown[device] *= o->slow_devices[i].factor;
    }
    int32_t n_links = cs_routes_n_links(s->routes);
    s->link_bytes_per_s = CS_ARENA_NEW(&s->arena, double, n_links + 1);
    for (int32_t l = 0; l < n_links; l++) {
        const struct cs_link *link = cs_routes_link(s->routes, l);
        s->link_bytes_per_s[l] = link->bytes_per_s;
        for (int32_t i = 0; i < o->n_slow_links; i++) {
            if (names_link(o->slow_links[i].name, link->name)) {
                s->link_bytes_per_s[l] *= o->slow_links[i].factor;
            }
        }
    }
    cs_status st = cs_engine_check_links(s->routes, o, err);
    if (st != CS_OK) {
        return st;
    }
    for (int64_t i = 0; i < s->n_flows && o->n_slow_links > 0; i++) {
        const struct cs__flow_site *flow = &s->flows[i];
        for (int32_t k = 0; k < flow->n_links; k++) {
            if (s->link_bytes_per_s[flow->links[k]] <= 0) {
                return cs_err_set(err, CS_E_INPUT, CS_NOLOC,
                                  "link '%s' is dead and the only route from rank %d to rank %d crosses it",
                                  cs_routes_link(s->routes, flow->links[k])->name, flow->src, flow->dst);
            }
        }
    }
    return CS_OK;
}

cs_status cs__system_build(struct cs__system *s, const struct cs_trace *trace, struct cs_routes *routes,
                           const struct cs_run_options *options, bool discrete, struct cs_err *err)
{
    cs_status st = CS_OK;
    memset(s, 0, sizeof *s);
    s->trace = trace;
    s->routes = routes;
    s->platform = cs_routes_platform(routes);
    s->options = options;
    if (trace->n_ranks > s->platform->n_devices) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "the trace has %d ranks, the platform '%s' %d devices",
                        trace->n_ranks, s->platform->name, s->platform->n_devices);
        goto out;
    }
    CS_TRY(cs__system_collect_flows(s, err));
    CS_TRY(apply_faults(s, err));
    cs__system_refine(s, discrete);
    CS_TRY(cs__system_bind(s, err));
out:
    if (st != CS_OK) {
        cs__system_release(s);
    }
    return st;
}

void cs__system_release(struct cs__system *s)
{
    cs_free(s->flows);
    cs_free(s->patterns);
    cs_free(s->shapes);
    cs_arena_release(&s->arena);
    memset(s, 0, sizeof *s);
}
