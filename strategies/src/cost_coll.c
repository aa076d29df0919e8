/* Groups, collectives and messages in closed form. */
#include "cost_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <string.h>

/* Load of one link in a phase: it is busy from its first flow's arrival on. */
struct cs__load {
    double bytes;
    double first_s;
    double nic_s; /* of the group's first member, all phases */
};

int32_t cs__memo_find(const struct cs__memo *memo, const int64_t key[CS__MEMO_WORDS])
{
    if (memo->n_slots == 0) {
        return -1;
    }
    uint64_t hash = CS_HASH_SEED;
    for (int32_t i = 0; i < CS__MEMO_WORDS; i++) {
        hash = cs_hash_mix(hash, (uint64_t)key[i]);
    }
    uint64_t mask = (uint64_t)memo->n_slots - 1;
    for (uint64_t at = hash & mask; memo->slots[at].value; at = (at + 1) & mask) {
        if (memcmp(memo->slots[at].key, key, sizeof memo->slots[at].key) == 0) {
            return memo->slots[at].value - 1;
        }
    }
    return -1;
}

static void insert(struct cs__memo *memo, const int64_t key[CS__MEMO_WORDS], int32_t stored)
{
    uint64_t hash = CS_HASH_SEED;
    for (int32_t i = 0; i < CS__MEMO_WORDS; i++) {
        hash = cs_hash_mix(hash, (uint64_t)key[i]);
    }
    uint64_t mask = (uint64_t)memo->n_slots - 1;
    uint64_t at = hash & mask;
    while (memo->slots[at].value) {
        at = (at + 1) & mask;
    }
    memcpy(memo->slots[at].key, key, sizeof memo->slots[at].key);
    memo->slots[at].value = stored;
}

void cs__memo_put(struct cs__memo *memo, const int64_t key[CS__MEMO_WORDS], int32_t value)
{
    if (2 * memo->n >= memo->n_slots) {
        struct cs__memo old = *memo;
        memo->n_slots = old.n_slots ? 2 * old.n_slots : 256;
        memo->slots = cs_calloc((size_t)memo->n_slots, sizeof *memo->slots);
        for (int64_t i = 0; i < old.n_slots; i++) {
            if (old.slots[i].value) {
                insert(memo, old.slots[i].key, old.slots[i].value);
            }
        }
        cs_free(old.slots);
    }
    insert(memo, key, value + 1);
    memo->n++;
}

void cs__memo_release(struct cs__memo *memo)
{
    cs_free(memo->slots);
    *memo = (struct cs__memo){0};
}

int32_t cs__cost_intern_group(struct cs_cost *cost, const struct cs_members *members)
{
    if (members->n < 2) {
        return -1;
    }
    uint64_t hash = CS_HASH_SEED;
    for (int32_t i = 0; i < members->n; i++) {
        hash = cs_hash_mix(hash, (uint64_t)members->ranks[i]);
    }
    /* Equal hashes of unequal groups get a key of their own: the last word counts them. */
    for (int64_t turn = 0;; turn++) {
        int64_t key[CS__MEMO_WORDS] = {(int64_t)hash, members->n, turn};
        int32_t index = cs__memo_find(&cost->group_memo, key);
        if (index < 0) {
            CS_GROW(cost->groups, cost->n_groups, cost->cap_groups);
            cost->groups[cost->n_groups] = (struct cs__cost_group){
                members->n,
                cs_arena_memdup(&cost->arena, members->ranks, (size_t)members->n * sizeof *members->ranks)};
            cs__memo_put(&cost->group_memo, key, cost->n_groups);
            return cost->n_groups++;
        }
        if (memcmp(cost->groups[index].ranks, members->ranks, (size_t)members->n * sizeof *members->ranks) ==
            0) {
            return index;
        }
    }
}

static void note_pair(struct cs_cost *cost, int32_t from, int32_t to)
{
    CS_GROW(cost->pairs, cost->n_pairs, cost->cap_pairs);
    cost->pairs[cost->n_pairs++] = from;
    CS_GROW(cost->pairs, cost->n_pairs, cost->cap_pairs);
    cost->pairs[cost->n_pairs++] = to;
}

/* Bandwidth of a link as the scale has it; a flow's fabric is that of its ends. */
static double rate_of(const struct cs_cost *cost, const struct cs_link *link, bool cross)
{
    return link->bytes_per_s * (cross ? cost->scale.inter_bytes : cost->scale.intra_bytes);
}

/* One round of a phase; see cs_coll_closed_form_s, of which this is the form with a scale. */
static double round_s(struct cs_cost *cost, const struct cs_coll_phase *phase, const int32_t *ranks,
                      bool *cross_seen)
{
    double longest_s = 0;
    for (int32_t i = 0; i < phase->n_flows; i++) {
        const struct cs_flow *flow = &phase->flows[i];
        int32_t from = ranks[flow->src];
        int32_t to = ranks[flow->dst];
        bool cross = !cs_platform_same_node(cost->platform, from, to);
        struct cs_route route = cs_routes_get(cost->routes, from, to);
        double latency_s = route.latency_s * cost->scale.latency;
        *cross_seen = *cross_seen || cross;
        for (int32_t k = 0; k < route.n_links; k++) {
            const struct cs_link *link = cs_routes_link(cost->routes, route.links[k]);
            struct cs__load *load = &cost->loads[route.links[k]];
            double bytes_per_s = rate_of(cost, link, cross);
            load->first_s = load->bytes > 0 ? fmin(load->first_s, latency_s) : latency_s;
            load->bytes = link->shared ? load->bytes + flow->bytes : fmax(load->bytes, flow->bytes);
            longest_s = fmax(longest_s, latency_s + flow->bytes / bytes_per_s);
            longest_s = fmax(longest_s, load->first_s + load->bytes / bytes_per_s);
            /* The link by which the first member leaves its node. */
            if (k == 0 && cross && flow->src == 0 && link->shared) {
                load->nic_s += phase->n_rounds * flow->bytes / bytes_per_s;
            }
        }
    }
    for (int32_t i = 0; i < phase->n_flows; i++) {
        struct cs_route route =
            cs_routes_get(cost->routes, ranks[phase->flows[i].src], ranks[phase->flows[i].dst]);
        for (int32_t k = 0; k < route.n_links; k++) {
            cost->loads[route.links[k]].bytes = 0;
        }
    }
    return longest_s;
}

/* The link by which the group's first member leaves its node, the busiest if there are several, and the time
 * that its traffic takes. */
static void take_nic(struct cs_cost *cost, const struct cs_coll_plan *plan, const int32_t *ranks,
                     struct cs__cost_coll *coll)
{
    for (int32_t turn = 0; turn < 2; turn++) {
        for (int32_t p = 0; p < plan->n_phases; p++) {
            for (int32_t i = 0; i < plan->phases[p].n_flows; i++) {
                const struct cs_flow *flow = &plan->phases[p].flows[i];
                struct cs_route route = cs_routes_get(cost->routes, ranks[flow->src], ranks[flow->dst]);
                if (flow->src != 0 || route.n_links == 0) {
                    continue;
                }
                struct cs__load *load = &cost->loads[route.links[0]];
                if (load->nic_s > coll->nic_s) {
                    coll->nic_s = load->nic_s;
                    coll->nic = route.links[0];
                }
                load->nic_s = turn == 0 ? load->nic_s : 0;
            }
        }
    }
}

static struct cs__cost_coll plan_time(struct cs_cost *cost, const struct cs_coll_plan *plan,
                                      const int32_t *ranks)
{
    struct cs__cost_coll coll = {.nic = -1};
    bool cross = false;
    if (cost->n_loads < cs_routes_n_links(cost->routes)) {
        cost->n_loads = cs_routes_n_links(cost->routes);
        cs_free(cost->loads);
        cost->loads = cs_calloc((size_t)cost->n_loads, sizeof *cost->loads);
    }
    for (int32_t p = 0; p < plan->n_phases; p++) {
        coll.time_s += plan->phases[p].n_rounds * round_s(cost, &plan->phases[p], ranks, &cross);
    }
    if (cross) {
        take_nic(cost, plan, ranks, &coll);
    }
    return coll;
}

struct cs__cost_coll cs__cost_coll(struct cs_cost *cost, int32_t group, enum cs_coll coll, int64_t bytes)
{
    if (group < 0 || bytes <= 0) {
        return (struct cs__cost_coll){.nic = -1};
    }
    const int64_t key[CS__MEMO_WORDS] = {group, (int64_t)coll, bytes, cost->collecting};
    int32_t index = cs__memo_find(&cost->coll_memo, key);
    if (index >= 0) {
        return cost->colls[index];
    }
    const struct cs__cost_group *g = &cost->groups[group];
    enum cs_algorithm algorithm = cost->options->algorithm[coll];
    struct cs_arena scratch = {0};
    struct cs_coll_plan plan = {0};
    struct cs__cost_coll result = {.nic = -1};
    const char *why = cs_coll_refuses(coll, algorithm, cost->platform, g->ranks, g->n);
    if (!why) {
        cs_coll_plan_build(coll, algorithm, cost->platform, g->ranks, g->n, (double)bytes, &scratch, &plan);
    } else if (!cost->refusal) {
        cost->refusal = cs_arena_printf(&cost->arena, "%s by '%s' over %d ranks: %s", cs_coll_names[coll],
                                        cs_algorithm_names[algorithm], (int)g->n, why);
    }
    if (cost->collecting) {
        for (int32_t p = 0; p < plan.n_phases; p++) {
            for (int32_t i = 0; i < plan.phases[p].n_flows; i++) {
                note_pair(cost, g->ranks[plan.phases[p].flows[i].src], g->ranks[plan.phases[p].flows[i].dst]);
            }
        }
    } else {
        result = plan_time(cost, &plan, g->ranks);
        result.time_s +=
            cost->platform->devices[g->ranks[0]].chip->collective_overhead_s * cost->scale.latency;
        result.time_s = why ? CS__NEVER_S : result.time_s;
    }
    cs_arena_release(&scratch);
    CS_GROW(cost->colls, cost->n_colls, cost->cap_colls);
    cost->colls[cost->n_colls] = result;
    cs__memo_put(&cost->coll_memo, key, cost->n_colls++);
    return result;
}

void cs__cost_message(struct cs_cost *cost, int32_t from, int32_t to, double *latency_s, double *bytes_per_s)
{
    *latency_s = 0;
    *bytes_per_s = (double)INFINITY;
    if (cost->collecting) {
        note_pair(cost, from, to);
        return;
    }
    bool cross = !cs_platform_same_node(cost->platform, from, to);
    double factor = cross ? cost->scale.inter_bytes : cost->scale.intra_bytes;
    *latency_s = (cs_routes_get(cost->routes, from, to).latency_s +
                  cost->platform->devices[from].chip->collective_overhead_s) *
                 cost->scale.latency;
    *bytes_per_s = cs_routes_bytes_per_s(cost->routes, from, to) * factor;
}
