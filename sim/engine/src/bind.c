#include "system_priv.h"

#include "cs/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- flow classes: latency, narrowest link, and how often they cross each link class ---- */

static void flow_class_figures(struct cs__system *s)
{
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        struct cs__flow_class *class = &s->flow_classes[f];
        const struct cs__flow_site *flow = &s->flows[class->rep];
        class->cap_bytes_per_s = INFINITY;
        for (int32_t k = 0; k < flow->n_links; k++) {
            double rate = s->link_bytes_per_s[flow->links[k]];
            class->latency_s += cs_routes_link(s->routes, flow->links[k])->latency_s;
            class->cap_bytes_per_s = rate < class->cap_bytes_per_s ? rate : class->cap_bytes_per_s;
        }
    }
}

struct crossing {
    int32_t flow_class;
    int32_t link_class;
};

static int compare_crossings(const void *a, const void *b)
{
    const struct crossing *x = a;
    const struct crossing *y = b;
    if (x->flow_class != y->flow_class) {
        return x->flow_class < y->flow_class ? -1 : 1;
    }
    return x->link_class < y->link_class ? -1 : x->link_class > y->link_class;
}

/* Every crossing of a representative link by any flow, sorted; equal neighbours are counted together. */
static void count_uses(struct cs__system *s)
{
    struct crossing *list = NULL;
    int64_t n = 0;
    int64_t cap = 0;
    for (int64_t i = 0; i < s->n_flows; i++) {
        const struct cs__flow_site *flow = &s->flows[i];
        for (int32_t k = 0; k < flow->n_links; k++) {
            int32_t class = s->class_of_link[flow->links[k]];
            if (s->link_classes[class].rep == flow->links[k]) {
                CS_GROW(list, n, cap);
                list[n++] = (struct crossing){flow->flow_class, class};
            }
        }
    }
    if (n > 0) {
        qsort(list, (size_t)n, sizeof *list, compare_crossings);
    }
    s->uses = CS_ARENA_NEW(&s->arena, struct cs__use, n + 1);
    for (int64_t i = 0; i < n; i++) {
        struct cs__flow_class *class = &s->flow_classes[list[i].flow_class];
        if (i > 0 && compare_crossings(&list[i], &list[i - 1]) == 0) {
            s->uses[s->n_uses - 1].count++;
            continue;
        }
        if (class->n_uses == 0) {
            class->first_use = s->n_uses;
        }
        class->n_uses++;
        s->uses[s->n_uses++] = (struct cs__use){list[i].link_class, 1};
    }
    cs_free(list);
}

/* ---- quiet links ---- */

/* Who executes a flow: up to two (rank class, stream) that are busy while it runs. */
struct executors {
    int64_t who[2];
    int32_t n;
    bool any; /* some flow has been seen */
};

static int64_t executor(int32_t class, int32_t stream)
{
    return ((int64_t) class << 16) | stream;
}

static void narrow(struct executors *e, const int64_t *who, int32_t n)
{
    if (!e->any) {
        e->any = true;
        memcpy(e->who, who, (size_t)n * sizeof *who);
        e->n = n;
        return;
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < e->n; i++) {
        for (int32_t k = 0; k < n; k++) {
            if (e->who[i] == who[k]) {
                e->who[kept++] = who[k];
                break;
            }
        }
    }
    e->n = kept;
}

/* A link is quiet when one stream of one rank class takes part in all of its traffic: that stream does one
 * thing at a time, so no two operations ever meet on the link. A channel's flow occupies its sender only. */
static void find_quiet_links(struct cs__system *s)
{
    struct executors *all = cs_calloc((size_t)s->n_link_classes + 1, sizeof *all);
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        const struct cs__flow_class *class = &s->flow_classes[f];
        int32_t owner = s->flows[class->rep].owner;
        int32_t stream = s->owner_stream[owner];
        int64_t who[2] = {executor(class->src_class, stream), executor(class->dst_class, stream)};
        int32_t n = stream < 0 ? 0 : owner >= s->trace->n_comms || who[0] == who[1] ? 1 : 2;
        for (int32_t u = 0; u < class->n_uses; u++) {
            narrow(&all[s->uses[class->first_use + u].link_class], who, n);
        }
    }
    for (int32_t l = 0; l < s->n_link_classes; l++) {
        bool shared = cs_routes_link(s->routes, s->link_classes[l].rep)->shared;
        s->link_classes[l].quiet = !shared || !all[l].any || all[l].n > 0;
    }
    cs_free(all);
}

/* ---- collectives ---- */

static int64_t first_flow_of(const struct cs__system *s, int32_t comm, int32_t group, enum cs_coll coll,
                             enum cs_algorithm algorithm)
{
    /* patterns are in order of communicator and group */
    int64_t low = 0;
    int64_t high = s->n_patterns;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        const struct cs__pattern_site *p = &s->patterns[mid];
        if (p->comm < comm || (p->comm == comm && p->group < group)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    for (int64_t i = low; i < s->n_patterns && s->patterns[i].comm == comm && s->patterns[i].group == group;
         i++) {
        if (s->patterns[i].coll == coll && s->patterns[i].algorithm == algorithm) {
            return s->patterns[i].first_flow;
        }
    }
    CS_ASSERT(!"a collective's pattern was collected");
    return -1;
}

/* Load of a link class's representative in a phase. */
#define SAME_FRAC 1e-9 /* latencies that differ by less do by rounding */
struct load {
    double bytes;
    double first_s; /* smallest latency of a flow on it: it is busy from then on */
    double last_s;  /* largest */
};

/* Closed form on the quotient (see cs_coll_closed_form_s): every flow class once, its load counted as often
 * as it crosses a link. `even`: flows that share a link have one latency. SimGrid gives those of a longer one
 * less of the link, and what they lose they cannot catch up where another link holds them as well. */
static double phase_closed_s(const struct cs__system *s, const struct cs_coll_phase *phase,
                             const int32_t *classes, struct load *loads, bool *seen, bool *even)
{
    double round_s = 0;
    *even = true;
    for (int32_t i = 0; i < phase->n_flows; i++) {
        const struct cs__flow_class *class = &s->flow_classes[classes[i]];
        if (seen[classes[i]]) {
            continue;
        }
        seen[classes[i]] = true;
        double bytes = phase->flows[i].bytes;
        round_s = fmax(round_s, class->latency_s + bytes / class->cap_bytes_per_s);
        for (int32_t u = 0; u < class->n_uses; u++) {
            const struct cs__use *use = &s->uses[class->first_use + u];
            int32_t rep = s->link_classes[use->link_class].rep;
            struct load *load = &loads[use->link_class];
            if (cs_routes_link(s->routes, rep)->shared) {
                load->first_s = load->bytes > 0 ? fmin(load->first_s, class->latency_s) : class->latency_s;
                load->last_s = fmax(load->last_s, class->latency_s);
                *even = *even && load->last_s - load->first_s <= SAME_FRAC * load->last_s;
                load->bytes += bytes * use->count;
                round_s = fmax(round_s, load->first_s + load->bytes / s->link_bytes_per_s[rep]);
            }
        }
    }
    for (int32_t i = 0; i < phase->n_flows; i++) {
        const struct cs__flow_class *class = &s->flow_classes[classes[i]];
        seen[classes[i]] = false;
        for (int32_t u = 0; u < class->n_uses; u++) {
            loads[s->uses[class->first_use + u].link_class] = (struct load){0};
        }
    }
    return phase->n_rounds * round_s;
}

static void bind_flows(struct cs__system *s, struct cs__binding *b, int64_t first_flow, struct load *loads,
                       bool *seen)
{
    int32_t n_flows = 0;
    for (int32_t p = 0; p < b->plan.n_phases; p++) {
        n_flows += b->plan.phases[p].n_flows;
    }
    b->flow_class = CS_ARENA_NEW(&s->arena, int32_t, n_flows + 1);
    b->quiet = true;
    int32_t at = 0;
    for (int32_t p = 0; p < b->plan.n_phases; p++) {
        const struct cs_coll_phase *phase = &b->plan.phases[p];
        bool cross = false;
        for (int32_t i = 0; i < phase->n_flows; i++, at++) {
            int32_t f = s->flows[first_flow + at].flow_class;
            const struct cs__flow_class *class = &s->flow_classes[f];
            b->flow_class[at] = f;
            cross = cross || class->cross;
            b->group_bytes[class->cross ? CS_FABRIC_INTER : CS_FABRIC_INTRA] +=
                phase->flows[i].bytes * phase->n_rounds;
            for (int32_t u = 0; u < class->n_uses; u++) {
                b->quiet = b->quiet && s->link_classes[s->uses[class->first_use + u].link_class].quiet;
            }
        }
        bool even = true;
        double phase_s = phase_closed_s(s, phase, b->flow_class + at - phase->n_flows, loads, seen, &even);
        b->quiet = b->quiet && even;
        b->closed_s += phase_s;
        b->closed_cross_s += cross ? phase_s : 0;
        b->cross = b->cross || cross;
        b->inside = b->inside || !cross;
    }
}

static cs_status bind_shapes(struct cs__system *s)
{
    struct load *loads = cs_calloc((size_t)s->n_link_classes + 1, sizeof *loads);
    bool *seen = cs_calloc((size_t)s->n_flow_classes + 1, sizeof *seen);
    s->bindings = CS_ARENA_NEW(&s->arena, struct cs__binding *, s->n_shapes + 1);
    for (int32_t i = 0; i < s->n_shapes; i++) {
        const struct cs__shape *shape = &s->shapes[i];
        const struct cs_comm *comm = &s->trace->comms[shape->comm];
        const struct cs__comm_class *classes = &s->comms[shape->comm];
        s->bindings[i] = CS_ARENA_NEW(&s->arena, struct cs__binding, classes->n_group_classes + 1);
        for (int32_t g = 0; g < classes->n_group_classes; g++) {
            struct cs__binding *b = &s->bindings[i][g];
            int32_t group = classes->rep_group[g];
            const int32_t *members = comm->members + comm->group_first[group];
            int32_t n = comm->group_first[group + 1] - comm->group_first[group];
            b->group_class = g;
            cs_coll_plan_build(shape->coll, s->options->algorithm[shape->coll], s->platform, members, n,
                               (double)shape->bytes, &s->arena, &b->plan);
            b->algorithm = b->plan.algorithm;
            b->overhead_s = n > 1 ? s->platform->devices[members[0]].chip->collective_overhead_s : 0;
            int64_t first = first_flow_of(s, shape->comm, group, shape->coll, b->algorithm);
            bind_flows(s, b, first, loads, seen);
        }
    }
    cs_free(loads);
    cs_free(seen);
    return CS_OK;
}

double cs__binding_cross_s(const struct cs__binding *b)
{
    return b->closed_cross_s + (b->cross && !b->inside ? b->overhead_s : 0);
}

struct cs__binding *cs__system_binding(const struct cs__system *s, int32_t shape, int32_t rank_class)
{
    int32_t comm = s->shapes[shape].comm;
    int32_t group = s->trace->comms[comm].group_of_rank[s->class_rep[rank_class]];
    CS_ASSERT(group >= 0);
    return &s->bindings[shape][s->comms[comm].class_of_group[group]];
}

static void bind_channels(struct cs__system *s)
{
    const struct cs_trace *t = s->trace;
    s->chan_flow_class = CS_ARENA_NEW(&s->arena, int32_t *, t->n_chans + 1);
    for (int32_t c = 0; c < t->n_chans; c++) {
        s->chan_flow_class[c] = CS_ARENA_NEW(&s->arena, int32_t, s->n_classes);
        for (int32_t k = 0; k < s->n_classes; k++) {
            s->chan_flow_class[c][k] = -1;
        }
    }
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        const struct cs__flow_class *class = &s->flow_classes[f];
        int32_t owner = s->flows[class->rep].owner;
        if (owner >= t->n_comms) {
            s->chan_flow_class[owner - t->n_comms][class->src_class] = f;
        }
    }
}

cs_status cs__system_bind(struct cs__system *s, struct cs_err *err)
{
    (void)err;
    flow_class_figures(s);
    count_uses(s);
    find_quiet_links(s);
    bind_channels(s);
    return bind_shapes(s);
}

/* ---- explanation ---- */

static void explain_group_kind(const struct cs__system *s, int32_t c, struct cs_strbuf *out)
{
    const struct cs_comm *comm = &s->trace->comms[c];
    const struct cs__comm_class *classes = &s->comms[c];
    for (int32_t g = 0; g < classes->n_group_classes; g++) {
        int32_t group = classes->rep_group[g];
        int32_t n = comm->group_first[group + 1] - comm->group_first[group];
        bool quiet = true;
        bool used = false;
        for (int32_t i = 0; i < s->n_shapes; i++) {
            if (s->shapes[i].comm == c) {
                used = true;
                quiet = quiet && s->bindings[i][g].quiet;
            }
        }
        if (!used || n < 2) {
            continue;
        }
        bool one = classes->n_members[g] == 1;
        cs_strbuf_addf(out, "%s: %d group%s of %d like ranks %d..%d: ", comm->name, classes->n_groups[g],
                       classes->n_groups[g] == 1 ? "" : "s", n, comm->members[comm->group_first[group]],
                       comm->members[comm->group_first[group + 1] - 1]);
        if (one) {
            cs_strbuf_addf(out, "folded to one rank");
        } else {
            cs_strbuf_addf(out, "%d kinds of members (other program, device, links or partners)",
                           classes->n_members[g]);
        }
        cs_strbuf_addf(out, ", %s\n",
                       quiet ? "links nobody else uses at the same time: closed form"
                             : "links shared with other traffic: flows simulated");
    }
}

void cs__system_explain(const struct cs__system *s, struct cs_strbuf *out)
{
    cs_strbuf_addf(out,
                   "%d ranks in %d classes after %d refinements, %lld flows in %d classes, %d link classes\n",
                   s->trace->n_ranks, s->n_classes, s->n_rounds, (long long)s->n_flows, s->n_flow_classes,
                   s->n_link_classes);
    for (int32_t c = 0; c < s->trace->n_comms; c++) {
        explain_group_kind(s, c, out);
    }
    for (int32_t k = 0; k < s->n_classes && k < 64; k++) {
        int32_t rep = s->class_rep[k];
        cs_strbuf_addf(out, "class %d: %d ranks like rank %d (%s)%s\n", k, s->class_size[k], rep,
                       s->trace->programs[s->trace->program_of_rank[rep]].role,
                       s->slowdown[rep] > 1 ? ", slow device" : "");
    }
}
