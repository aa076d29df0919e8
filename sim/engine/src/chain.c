#include "chain_priv.h"

#include <stdio.h>

struct node {
    int32_t before; /* -1 = start of the step */
    int32_t class;
    int32_t call;
    const struct cs__step *step;
    double start_s;
    double end_s;
    double cross_s; /* of it across nodes; not of delays */
};

struct left_out {
    double end_s;
    double period_s;
    double n;
};

struct cs__chain {
    struct node *nodes;
    int32_t n, cap;
    struct left_out *skips;
    int32_t n_skips, cap_skips;
};

int32_t cs__chain_n_kinds(const struct cs_trace *t)
{
    return CS_N_OPKINDS + CS_N_FABRICS * (t->n_comms + t->n_chans) + t->n_streams;
}

/* Work beside the compute stream that is no communication: by stream ("host"). */
static int32_t beside_kind(const struct cs_trace *t, int32_t stream)
{
    return CS_N_OPKINDS + CS_N_FABRICS * (t->n_comms + t->n_chans) + stream;
}

int32_t cs__chain_n_stages(const struct cs_trace *t)
{
    int32_t n = 1;
    for (int32_t p = 0; p < t->n_programs; p++) {
        n = t->programs[p].stage >= n ? t->programs[p].stage + 1 : n;
    }
    return n;
}

char *cs__chain_kind_name(const struct cs_trace *t, int32_t kind, char *buf, size_t bytes)
{
    if (kind < CS_N_OPKINDS) {
        snprintf(buf, bytes, "%s", cs_opkind_names[kind]);
        return buf;
    }
    int32_t owner = (kind - CS_N_OPKINDS) / CS_N_FABRICS;
    if (owner >= t->n_comms + t->n_chans) {
        snprintf(buf, bytes, "%s", t->stream_names[kind - beside_kind(t, 0)]);
        return buf;
    }
    bool inter = (kind - CS_N_OPKINDS) % CS_N_FABRICS == CS_FABRIC_INTER;
    const char *name = owner < t->n_comms ? t->comms[owner].name : t->chans[owner - t->n_comms].name;
    snprintf(buf, bytes, "%s %s", name, inter ? "across nodes" : "within nodes");
    return buf;
}

struct cs__chain *cs__chain_new(void)
{
    return cs_calloc(1, sizeof(struct cs__chain));
}

void cs__chain_add(struct cs__sim *sim, struct cs__actor *actor, const struct cs__step *step, double start_s,
                   double cross_s)
{
    struct cs__chain *chain = sim->chain;
    CS_GROW(chain->nodes, chain->n, chain->cap);
    chain->nodes[chain->n] =
        (struct node){actor->node, actor->class, actor->call, step, start_s, simgrid_get_clock(), cross_s};
    actor->node = chain->n++;
}

void cs__chain_skip(struct cs__sim *sim, double period_s, double n)
{
    struct cs__chain *chain = sim->chain;
    CS_GROW(chain->skips, chain->n_skips, chain->cap_skips);
    chain->skips[chain->n_skips++] = (struct left_out){simgrid_get_clock(), period_s, n};
}

/* Length of an interval, counted again for every left-out period that repeats it. */
static double weigh(const struct cs__chain *chain, double start_s, double end_s)
{
    double sum_s = end_s - start_s;
    for (int32_t i = 0; i < chain->n_skips; i++) {
        const struct left_out *skip = &chain->skips[i];
        double from_s = start_s > skip->end_s - skip->period_s ? start_s : skip->end_s - skip->period_s;
        double to_s = end_s < skip->end_s ? end_s : skip->end_s;
        sum_s += to_s > from_s ? skip->n * (to_s - from_s) : 0;
    }
    return sum_s;
}

/* Add an operation's time to its kind, `cross_frac` of it to that of the fabric between nodes. */
static void add_kind(const struct cs__sim *sim, const struct cs_op *op, double time_s, double cross_frac,
                     double *by_kind_s)
{
    const struct cs_trace *t = sim->system->trace;
    if (op->type == CS_OP_COMPUTE) {
        bool beside = op->stream != CS_STREAM_COMPUTE;
        by_kind_s[beside ? beside_kind(t, op->stream) : (int32_t)t->costs[op->cost].kind] += time_s;
        return;
    }
    int32_t owner = op->type == CS_OP_COLLECTIVE ? op->comm : t->n_comms + op->comm;
    double *of_owner = &by_kind_s[CS_N_OPKINDS + CS_N_FABRICS * owner];
    of_owner[CS_FABRIC_INTER] += cross_frac * time_s;
    of_owner[CS_FABRIC_INTRA] += (1 - cross_frac) * time_s;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void sum_node(const struct cs__sim *sim, const struct node *node, double *by_kind_s, double *stage_s)
{
    const struct cs_trace *t = sim->system->trace;
    const struct cs_program *program = &t->programs[t->program_of_rank[sim->system->class_rep[node->class]]];
    const struct cs_block *block = &t->blocks[program->calls[node->call].block];
    double length_s = node->end_s - node->start_s;
    *stage_s += weigh(sim->chain, node->start_s, node->end_s);
    if (node->step->kind != CS__STEP_DELAY) {
        add_kind(sim, &block->ops[node->step->op], weigh(sim->chain, node->start_s, node->end_s),
                 share(node->cross_s, length_s), by_kind_s);
        return;
    }
    double scale = node->step->delay_s > 0 ? length_s / node->step->delay_s : 1;
    struct cs__point before = {0, 0, 0, 0};
    for (int32_t i = 0; i < node->step->n_points; i++) {
        const struct cs__point *p = &node->step->points[i];
        add_kind(sim, &block->ops[p->op],
                 weigh(sim->chain, node->start_s + scale * before.end_s, node->start_s + scale * p->end_s),
                 share(p->cross_s - before.cross_s, p->end_s - before.end_s), by_kind_s);
        before = *p;
    }
}

void cs__chain_sum(const struct cs__sim *sim, const struct cs__actor *last, double *by_kind_s,
                   double *by_stage_s, int32_t n_stages)
{
    const struct cs_trace *t = sim->system->trace;
    for (int32_t i = last->node; i >= 0; i = sim->chain->nodes[i].before) {
        const struct node *node = &sim->chain->nodes[i];
        int32_t stage = t->programs[t->program_of_rank[sim->system->class_rep[node->class]]].stage;
        CS_ASSERT(stage >= 0 && stage < n_stages);
        sum_node(sim, node, by_kind_s, &by_stage_s[stage]);
    }
}
