#include "system_priv.h"

#include "cs/base/text.h"

#include <stdlib.h>
#include <string.h>

struct colours {
    uint64_t *rank, *rank_sum;
    uint64_t *link, *link_sum;
    uint64_t *flow;
    uint64_t *group; /* groups of all communicators, one after the other */
    int32_t n_ranks, n_links;
};

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t count_distinct(const uint64_t *values, int64_t n, uint64_t *scratch)
{
    memcpy(scratch, values, (size_t)n * sizeof *values);
    qsort(scratch, (size_t)n, sizeof *scratch, compare_u64);
    int64_t distinct = n > 0;
    for (int64_t i = 1; i < n; i++) {
        distinct += scratch[i] != scratch[i - 1];
    }
    return distinct;
}

static void first_colours(const struct cs__system *s, struct colours *c, bool discrete)
{
    for (int32_t r = 0; r < c->n_ranks; r++) {
        const struct cs_device *device = &s->platform->devices[r];
        uint64_t hash = cs_hash_mix(CS_HASH_SEED, (uint64_t)s->trace->program_of_rank[r]);
        hash = cs_hash_text(hash, device->chip->name);
        hash = cs_hash_real(hash, s->slowdown[r]);
        c->rank[r] = discrete ? cs_hash_mix(hash, (uint64_t)r) : hash;
    }
    for (int32_t l = 0; l < c->n_links; l++) {
        const struct cs_link *link = cs_routes_link(s->routes, l);
        uint64_t hash = cs_hash_real(CS_HASH_SEED, s->link_bytes_per_s[l]);
        hash = cs_hash_real(hash, link->latency_s);
        hash = cs_hash_mix(hash, link->shared);
        c->link[l] = discrete ? cs_hash_mix(hash, (uint64_t)l) : hash;
    }
}

static void colour_flows(const struct cs__system *s, struct colours *c)
{
    for (int64_t i = 0; i < s->n_flows; i++) {
        const struct cs__flow_site *flow = &s->flows[i];
        uint64_t hash = cs_hash_mix(flow->key, flow->cross);
        hash = cs_hash_mix(hash, c->rank[flow->src]);
        hash = cs_hash_mix(hash, c->rank[flow->dst]);
        for (int32_t k = 0; k < flow->n_links; k++) {
            hash = cs_hash_mix(hash, c->link[flow->links[k]]);
        }
        c->flow[i] = hash;
    }
}

/* A group's colour is the multiset of its members' colours. */
static void colour_groups(const struct cs__system *s, struct colours *c)
{
    int64_t at = 0;
    for (int32_t k = 0; k < s->trace->n_comms; k++) {
        const struct cs_comm *comm = &s->trace->comms[k];
        for (int32_t g = 0; g < comm->n_groups; g++, at++) {
            uint64_t sum = 0;
            for (int32_t i = comm->group_first[g]; i < comm->group_first[g + 1]; i++) {
                sum += cs_hash_mix(c->rank[comm->members[i]], 7);
            }
            c->group[at] = cs_hash_mix(cs_hash_mix(CS_HASH_SEED, (uint64_t)k), sum);
        }
    }
}

static void sum_up(const struct cs__system *s, struct colours *c)
{
    memset(c->rank_sum, 0, (size_t)c->n_ranks * sizeof *c->rank_sum);
    memset(c->link_sum, 0, (size_t)c->n_links * sizeof *c->link_sum);
    for (int64_t i = 0; i < s->n_flows; i++) {
        const struct cs__flow_site *flow = &s->flows[i];
        c->rank_sum[flow->src] += cs_hash_mix(c->flow[i], 1);
        c->rank_sum[flow->dst] += cs_hash_mix(c->flow[i], 2);
        for (int32_t k = 0; k < flow->n_links; k++) {
            c->link_sum[flow->links[k]] += cs_hash_mix(c->flow[i], 3);
        }
    }
    int64_t at = 0;
    for (int32_t k = 0; k < s->trace->n_comms; k++) {
        const struct cs_comm *comm = &s->trace->comms[k];
        for (int32_t g = 0; g < comm->n_groups; g++, at++) {
            for (int32_t i = comm->group_first[g]; i < comm->group_first[g + 1]; i++) {
                c->rank_sum[comm->members[i]] += cs_hash_mix(c->group[at], 4);
            }
        }
    }
    for (int32_t r = 0; r < c->n_ranks; r++) {
        c->rank[r] = cs_hash_mix(c->rank[r], c->rank_sum[r]);
    }
    for (int32_t l = 0; l < c->n_links; l++) {
        c->link[l] = cs_hash_mix(c->link[l], c->link_sum[l]);
    }
}

/* Number the distinct colours in order of first appearance: equal inputs give equal numbers. */
static int32_t number_colours(const uint64_t *colours, int64_t n, int32_t *numbers)
{
    int64_t cap = 64;
    while (cap < 2 * n) {
        cap *= 2;
    }
    int32_t *slot = cs_malloc((size_t)cap * sizeof *slot);
    uint64_t *of_number = cs_calloc((size_t)n + 1, sizeof *of_number);
    memset(slot, 0xff, (size_t)cap * sizeof *slot);
    int32_t n_distinct = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t mask = (uint64_t)cap - 1;
        uint64_t at = cs_hash_mix(colours[i], 11) & mask;
        while (slot[at] >= 0 && of_number[slot[at]] != colours[i]) {
            at = (at + 1) & mask;
        }
        if (slot[at] < 0) {
            of_number[n_distinct] = colours[i];
            slot[at] = n_distinct++;
        }
        numbers[i] = slot[at];
    }
    cs_free(slot);
    cs_free(of_number);
    return n_distinct;
}

static void store_ranks(struct cs__system *s, const struct colours *c)
{
    s->class_of_rank = CS_ARENA_NEW(&s->arena, int32_t, c->n_ranks);
    s->n_classes = number_colours(c->rank, c->n_ranks, s->class_of_rank);
    s->class_rep = CS_ARENA_NEW(&s->arena, int32_t, s->n_classes);
    s->class_size = CS_ARENA_NEW(&s->arena, int32_t, s->n_classes);
    for (int32_t r = c->n_ranks - 1; r >= 0; r--) {
        s->class_rep[s->class_of_rank[r]] = r;
        s->class_size[s->class_of_rank[r]]++;
    }
}

static void store_links(struct cs__system *s, const struct colours *c)
{
    s->class_of_link = CS_ARENA_NEW(&s->arena, int32_t, c->n_links + 1);
    s->n_link_classes = number_colours(c->link, c->n_links, s->class_of_link);
    s->link_classes = CS_ARENA_NEW(&s->arena, struct cs__link_class, s->n_link_classes + 1);
    for (int32_t l = c->n_links - 1; l >= 0; l--) {
        struct cs__link_class *class = &s->link_classes[s->class_of_link[l]];
        class->rep = l;
        class->size++;
    }
}

static void store_flows(struct cs__system *s, const struct colours *c)
{
    int32_t *numbers = cs_calloc((size_t)s->n_flows + 1, sizeof *numbers);
    s->n_flow_classes = number_colours(c->flow, s->n_flows, numbers);
    s->flow_classes = CS_ARENA_NEW(&s->arena, struct cs__flow_class, s->n_flow_classes + 1);
    for (int64_t i = s->n_flows - 1; i >= 0; i--) {
        struct cs__flow_site *flow = &s->flows[i];
        flow->flow_class = numbers[i];
        struct cs__flow_class *class = &s->flow_classes[numbers[i]];
        class->rep = i;
        class->count++;
        class->src_class = s->class_of_rank[flow->src];
        class->dst_class = s->class_of_rank[flow->dst];
        class->cross = flow->cross;
        class->sim_pair = -1;
    }
    cs_free(numbers);
}

static void store_groups(struct cs__system *s, const struct colours *c)
{
    s->comms = CS_ARENA_NEW(&s->arena, struct cs__comm_class, s->trace->n_comms + 1);
    int64_t at = 0;
    for (int32_t k = 0; k < s->trace->n_comms; k++) {
        const struct cs_comm *comm = &s->trace->comms[k];
        struct cs__comm_class *out = &s->comms[k];
        out->class_of_group = CS_ARENA_NEW(&s->arena, int32_t, comm->n_groups + 1);
        out->n_group_classes = number_colours(c->group + at, comm->n_groups, out->class_of_group);
        out->rep_group = CS_ARENA_NEW(&s->arena, int32_t, out->n_group_classes + 1);
        out->n_groups = CS_ARENA_NEW(&s->arena, int32_t, out->n_group_classes + 1);
        out->n_members = CS_ARENA_NEW(&s->arena, int32_t, out->n_group_classes + 1);
        for (int32_t g = comm->n_groups - 1; g >= 0; g--) {
            out->rep_group[out->class_of_group[g]] = g;
            out->n_groups[out->class_of_group[g]]++;
        }
        bool *seen = cs_calloc((size_t)s->n_classes + 1, sizeof *seen);
        for (int32_t g = 0; g < out->n_group_classes; g++) {
            int32_t rep = out->rep_group[g];
            memset(seen, 0, (size_t)s->n_classes * sizeof *seen);
            for (int32_t i = comm->group_first[rep]; i < comm->group_first[rep + 1]; i++) {
                int32_t class = s->class_of_rank[comm->members[i]];
                out->n_members[g] += !seen[class];
                seen[class] = true;
            }
        }
        cs_free(seen);
        at += comm->n_groups;
    }
}

void cs__system_refine(struct cs__system *s, bool discrete)
{
    struct colours c = {.n_ranks = s->trace->n_ranks, .n_links = cs_routes_n_links(s->routes)};
    int64_t n_groups = 0;
    for (int32_t k = 0; k < s->trace->n_comms; k++) {
        n_groups += s->trace->comms[k].n_groups;
    }
    int64_t n_scratch = c.n_ranks > c.n_links ? c.n_ranks : c.n_links;
    c.rank = cs_calloc((size_t)c.n_ranks + 1, sizeof(uint64_t));
    c.rank_sum = cs_calloc((size_t)c.n_ranks + 1, sizeof(uint64_t));
    c.link = cs_calloc((size_t)c.n_links + 1, sizeof(uint64_t));
    c.link_sum = cs_calloc((size_t)c.n_links + 1, sizeof(uint64_t));
    c.flow = cs_calloc((size_t)s->n_flows + 1, sizeof(uint64_t));
    c.group = cs_calloc((size_t)n_groups + 1, sizeof(uint64_t));
    uint64_t *scratch = cs_calloc((size_t)n_scratch + 1, sizeof *scratch);

    first_colours(s, &c, discrete);
    int64_t before = -1;
    for (;;) {
        colour_flows(s, &c);
        colour_groups(s, &c);
        int64_t distinct =
            count_distinct(c.rank, c.n_ranks, scratch) + count_distinct(c.link, c.n_links, scratch);
        if (distinct == before) {
            break; /* a refinement only ever splits: equal counts mean equal partitions */
        }
        before = distinct;
        sum_up(s, &c);
        s->n_rounds++;
    }
    store_ranks(s, &c);
    store_links(s, &c);
    store_flows(s, &c);
    store_groups(s, &c);

    cs_free(c.rank);
    cs_free(c.rank_sum);
    cs_free(c.link);
    cs_free(c.link_sum);
    cs_free(c.flow);
    cs_free(c.group);
    cs_free(scratch);
}
