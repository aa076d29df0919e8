#include "result_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums over the programs as they stand, without any replay: conservation checks compare with them, the link
 * table is made of them. */

struct tally {
    struct cs__system *system;
    double *asked_bytes;
    double *link_bytes; /* [link class * n_owners + owner], over the representative link */
    int32_t n_owners;
    bool *seen; /* per flow class, scratch */
};

static void load_links(const struct tally *t, int32_t flow_class, int32_t owner, double bytes)
{
    const struct cs__flow_class *class = &t->system->flow_classes[flow_class];
    for (int32_t u = 0; u < class->n_uses; u++) {
        const struct cs__use *use = &t->system->uses[class->first_use + u];
        t->link_bytes[(int64_t)use->link_class * t->n_owners + owner] += bytes * use->count;
    }
}

/* A group class is counted by the class of its representative's first member. */
static bool speaks_for_group(const struct cs__system *s, int32_t comm, int32_t group_class,
                             int32_t rank_class)
{
    const struct cs_comm *c = &s->trace->comms[comm];
    int32_t first = c->members[c->group_first[s->comms[comm].rep_group[group_class]]];
    return s->class_of_rank[first] == rank_class;
}

static void tally_collective(const struct tally *t, int32_t class, const struct cs_op *op, double times)
{
    struct cs__system *s = t->system;
    int32_t shape = cs__system_shape(s, op->comm, op->coll, op->bytes);
    const struct cs__binding *b = cs__system_binding(s, shape, class);
    if (!speaks_for_group(s, op->comm, b->group_class, class)) {
        return;
    }
    for (int32_t f = 0; f < CS_N_FABRICS; f++) {
        t->asked_bytes[f] += times * b->group_bytes[f] * s->comms[op->comm].n_groups[b->group_class];
    }
    const int32_t *classes = b->flow_class;
    for (int32_t p = 0; p < b->plan.n_phases; p++) {
        const struct cs_coll_phase *phase = &b->plan.phases[p];
        for (int32_t i = 0; i < phase->n_flows; i++) {
            if (!t->seen[classes[i]]) {
                t->seen[classes[i]] = true;
                load_links(t, classes[i], op->comm, times * phase->flows[i].bytes * phase->n_rounds);
            }
        }
        for (int32_t i = 0; i < phase->n_flows; i++) {
            t->seen[classes[i]] = false;
        }
        classes += phase->n_flows;
    }
}

static void tally_send(const struct tally *t, int32_t class, const struct cs_op *op, double times)
{
    struct cs__system *s = t->system;
    int32_t f = s->chan_flow_class[op->comm][class];
    const struct cs__flow_class *flow = &s->flow_classes[f];
    double bytes = times * (double)op->bytes;
    t->asked_bytes[flow->cross ? CS_FABRIC_INTER : CS_FABRIC_INTRA] += bytes * (double)flow->count;
    load_links(t, f, s->trace->n_comms + op->comm, bytes);
}

/* Timed operations of all ranks of the class. */
static int64_t tally_class(const struct tally *t, int32_t class, int64_t *calls)
{
    struct cs__system *s = t->system;
    const struct cs_trace *trace = s->trace;
    const struct cs_program *program = &trace->programs[trace->program_of_rank[s->class_rep[class]]];
    int64_t n_operations = 0;
    memset(calls, 0, (size_t)trace->n_blocks * sizeof *calls);
    for (int32_t i = 0; i < program->n_calls; i++) {
        calls[program->calls[i].block]++;
    }
    for (int32_t b = 0; b < trace->n_blocks; b++) {
        for (int32_t i = 0; i < trace->blocks[b].n_ops && calls[b] > 0; i++) {
            const struct cs_op *op = &trace->blocks[b].ops[i];
            n_operations += op->type != CS_OP_ALLOC && op->type != CS_OP_FREE ? calls[b] : 0;
            if (op->type == CS_OP_COLLECTIVE) {
                tally_collective(t, class, op, (double)calls[b]);
            } else if (op->type == CS_OP_SEND) {
                tally_send(t, class, op, (double)calls[b]);
            }
        }
    }
    return n_operations * s->class_size[class];
}

/* ---- the busiest links ---- */

struct load {
    int32_t link_class;
    double bytes;
    double busy;
};

static int compare_loads(const void *a, const void *b)
{
    const struct load *x = a;
    const struct load *y = b;
    if (x->busy != y->busy) {
        return x->busy > y->busy ? -1 : 1;
    }
    return x->link_class < y->link_class ? -1 : x->link_class > y->link_class;
}

static const char *owner_name(const struct cs_trace *t, int32_t owner)
{
    return owner < t->n_comms ? t->comms[owner].name : t->chans[owner - t->n_comms].name;
}

/* The names of who loads the link, largest first. */
static void name_users(const struct tally *t, int32_t link_class, char *text, size_t bytes)
{
    double *by_owner = &t->link_bytes[(int64_t)link_class * t->n_owners];
    size_t used = 0;
    text[0] = '\0';
    for (int32_t n = 0; n < t->n_owners && used + 24 < bytes; n++) {
        int32_t best = 0;
        for (int32_t o = 1; o < t->n_owners; o++) {
            best = by_owner[o] > by_owner[best] ? o : best;
        }
        if (by_owner[best] <= 0) {
            break;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%.20s", n ? ", " : "",
                                 owner_name(t->system->trace, best));
        by_owner[best] = 0;
    }
}

static void fill_link_table(const struct tally *t, struct cs_run *run, int32_t max)
{
    const struct cs__system *s = t->system;
    struct load *loads = cs_calloc((size_t)s->n_link_classes + 1, sizeof *loads);
    int32_t n = 0;
    for (int32_t l = 0; l < s->n_link_classes; l++) {
        double bytes = 0;
        for (int32_t o = 0; o < t->n_owners; o++) {
            bytes += t->link_bytes[(int64_t)l * t->n_owners + o];
        }
        if (bytes > 0) {
            loads[n++] = (struct load){l, bytes, bytes / s->link_bytes_per_s[s->link_classes[l].rep]};
        }
    }
    if (n > 0) {
        qsort(loads, (size_t)n, sizeof *loads, compare_loads);
    }
    run->n_links = n < max ? n : max;
    run->links = cs_calloc((size_t)run->n_links + 1, sizeof *run->links);
    for (int32_t i = 0; i < run->n_links; i++) {
        const struct cs__link_class *class = &s->link_classes[loads[i].link_class];
        struct cs_link_load *out = &run->links[i];
        snprintf(out->name, sizeof out->name, "%s", cs_routes_link(s->routes, class->rep)->name);
        out->n_alike = class->size;
        out->bytes = loads[i].bytes;
        out->bytes_per_s = s->link_bytes_per_s[class->rep];
        out->busy_frac = run->metrics.iteration_s > 0 ? loads[i].busy / run->metrics.iteration_s : 0;
        name_users(t, loads[i].link_class, out->users, sizeof out->users);
    }
    cs_free(loads);
}

int64_t cs__asked(struct cs__system *s, struct cs_run *run, int32_t max_links)
{
    struct tally t = {
        .system = s,
        .asked_bytes = run->metrics.asked_bytes,
        .n_owners = s->trace->n_comms + s->trace->n_chans,
        .seen = cs_calloc((size_t)s->n_flow_classes + 1, sizeof(bool)),
    };
    t.link_bytes = cs_calloc((size_t)s->n_link_classes * (size_t)t.n_owners + 1, sizeof *t.link_bytes);
    int64_t *calls = cs_calloc((size_t)s->trace->n_blocks + 1, sizeof *calls);
    int64_t n_operations = 0;
    for (int32_t k = 0; k < s->n_classes; k++) {
        n_operations += tally_class(&t, k, calls);
    }
    fill_link_table(&t, run, max_links);
    cs_free(calls);
    cs_free(t.seen);
    cs_free(t.link_bytes);
    return n_operations;
}
