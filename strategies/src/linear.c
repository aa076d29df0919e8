#include "linear_priv.h"

#include <stdio.h>
#include <string.h>

/* Collectives of larger groups are left out of the decomposition: their part is then taken as all transfer.
 */
#define GROUP_MAX 1024

static void by_software(const struct cs_software *software, const struct cs_chip *chip, struct cs_chip *out)
{
    *out = *chip;
    cs_software_apply(software, out);
}

static struct cs__link_work *link_of(struct cs__linear *l, const char *name)
{
    for (int32_t i = 0; i < l->n_links; i++) {
        if (strcmp(l->links[i].name, name) == 0) {
            return &l->links[i];
        }
    }
    if (l->n_links == CS__LINKS_MAX) {
        return NULL;
    }
    struct cs__link_work *link = &l->links[l->n_links++];
    memset(link, 0, sizeof *link);
    (void)snprintf(link->name, sizeof link->name, "%.31s", name);
    return link;
}

/* Latency and transfer of one collective in its first group, link figures as the site has them. */
static cs_status split(struct cs_site *site, const struct cs_comm *comm, enum cs_coll coll, double bytes,
                       double *latency_s, double *transfer_s, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    struct cs_coll_plan plan = {0};
    const int32_t *members = &comm->members[comm->group_first[0]];
    int32_t n = comm->group_first[1] - comm->group_first[0];
    *latency_s = *transfer_s = 0;
    if (n < 2 || n > GROUP_MAX || bytes <= 0) {
        goto out;
    }
    cs_coll_plan_build(coll, CS_ALGO_AUTO, &site->platform, members, n, bytes, &arena, &plan);
    for (int32_t p = 0; p < plan.n_phases; p++) {
        const struct cs_coll_phase *phase = &plan.phases[p];
        int32_t *pairs = CS_ARENA_NEW(&arena, int32_t, 2 * phase->n_flows + 1);
        for (int32_t f = 0; f < phase->n_flows; f++) {
            pairs[2 * f] = members[phase->flows[f].src];
            pairs[2 * f + 1] = members[phase->flows[f].dst];
        }
        CS_TRY(cs_routes_need(site->routes, pairs, phase->n_flows, err));
        double longest_s = 0;
        for (int32_t f = 0; f < phase->n_flows; f++) {
            double lat_s = cs_routes_get(site->routes, pairs[2 * f], pairs[2 * f + 1]).latency_s;
            longest_s = lat_s > longest_s ? lat_s : longest_s;
        }
        *latency_s += longest_s * phase->n_rounds;
    }
    double all_s = cs_coll_closed_form_s(&plan, site->routes, members);
    *transfer_s = all_s > *latency_s ? all_s - *latency_s : 0;
out:
    cs_arena_release(&arena);
    return st;
}

static cs_status add_collective(struct cs__linear *l, struct cs_site *site, const struct cs_trace *t,
                                const struct cs_op *op, double n, struct cs_err *err)
{
    cs_status st = CS_OK;
    double latency_s = 0;
    double transfer_s = 0;
    struct cs__link_work *link = link_of(l, t->comms[op->comm].name);
    if (!link) {
        goto out;
    }
    CS_TRY(split(site, &t->comms[op->comm], (enum cs_coll)op->coll, (double)op->bytes, &latency_s,
                 &transfer_s, err));
    link->n_calls += n;
    link->latency_s += n * latency_s;
    link->transfer_s += n * transfer_s;
out:
    return st;
}

static cs_status add_program(struct cs__linear *l, struct cs_site *site, const struct cs_trace *t,
                             const struct cs_program *program, double *n_cost, struct cs_err *err)
{
    cs_status st = CS_OK;
    double *calls = cs_calloc((size_t)t->n_blocks + 1, sizeof *calls);
    for (int32_t i = 0; i < program->n_calls; i++) {
        calls[program->calls[i].block] += 1.0 / t->n_programs;
    }
    for (int32_t b = 0; b < t->n_blocks; b++) {
        for (int32_t i = 0; calls[b] > 0 && i < t->blocks[b].n_ops; i++) {
            const struct cs_op *op = &t->blocks[b].ops[i];
            if (op->type == CS_OP_COMPUTE) {
                n_cost[op->cost] += calls[b];
            } else if (op->type == CS_OP_COLLECTIVE) {
                CS_TRY(add_collective(l, site, t, op, calls[b], err));
            }
        }
    }
out:
    cs_free(calls);
    return st;
}

cs_status cs__linear_init(struct cs__linear *l, const struct cs_case *c, struct cs_site *site,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_trace *t = NULL;
    double *n_cost = NULL;
    *l = (struct cs__linear){.c = c};
    CS_TRY(cs__case_trace(c, &t, err));
    n_cost = cs_calloc((size_t)t->n_costs + 1, sizeof *n_cost);
    l->links = cs_calloc(CS__LINKS_MAX, sizeof *l->links);
    for (int32_t p = 0; p < t->n_programs; p++) {
        CS_TRY(add_program(l, site, t, &t->programs[p], n_cost, err));
    }
    l->ops = cs_calloc((size_t)t->n_costs + 1, sizeof *l->ops);
    l->n_of = cs_calloc((size_t)t->n_costs + 1, sizeof *l->n_of);
    for (int32_t i = 0; i < t->n_costs; i++) {
        if (n_cost[i] > 0) {
            l->ops[l->n_ops] = t->costs[i];
            l->n_of[l->n_ops++] = n_cost[i];
        }
    }
    l->usable = true;
out:
    cs_free(n_cost);
    cs_trace_free(t);
    return st;
}

void cs__linear_release(struct cs__linear *l)
{
    cs_free(l->ops);
    cs_free(l->n_of);
    cs_free(l->links);
    *l = (struct cs__linear){0};
}

/* Of the kinds in the mask; the others stay as they are. */
static void kinds_s(const struct cs__linear *l, const struct cs_chip *chip, unsigned kinds,
                    double work_s[CS_N_OPKINDS])
{
    for (int32_t k = 0; k < CS_N_OPKINDS; k++) {
        work_s[k] = (kinds >> k & 1U) ? 0 : work_s[k];
    }
    for (int32_t i = 0; i < l->n_ops; i++) {
        if (kinds >> l->ops[i].kind & 1U) {
            work_s[l->ops[i].kind] += l->n_of[i] * cs_chip_op_time_s(chip, &l->ops[i]);
        }
    }
}

static double link_s(const struct cs__link_work *link, const struct cs_chip *chip,
                     const struct cs_software *software)
{
    double ratio = software->figure[CS_SOFTWARE_COLLECTIVE_TIME];
    return link->n_calls * chip->collective_overhead_s + link->latency_s + link->transfer_s * ratio;
}

/* "tp within nodes" is of the link work "tp". */
static int32_t link_index(const struct cs__linear *l, const char *what)
{
    for (int32_t i = 0; i < l->n_links; i++) {
        size_t n = strlen(l->links[i].name);
        if (strncmp(what, l->links[i].name, n) == 0 && what[n] == ' ') {
            return i;
        }
    }
    return -1;
}

static int32_t kind_index(const char *what)
{
    for (int32_t k = 0; k < CS_N_OPKINDS; k++) {
        if (strcmp(what, cs_opkind_names[k]) == 0) {
            return k;
        }
    }
    return -1;
}

void cs__linear_anchor(struct cs__linear *l, const struct cs_case_run *run, const struct cs_chip *chip,
                       const struct cs_software *software)
{
    struct cs_chip as;
    by_software(software, chip, &as);
    memset(l->part_s, 0, sizeof l->part_s);
    memset(l->link_part_s, 0, sizeof l->link_part_s);
    l->fixed_s = 0;
    l->usable = run->ran;
    kinds_s(l, &as, CS__KINDS_ALL, l->work_s);
    for (int32_t i = 0; i < l->n_links; i++) {
        l->link_work_s[i] = link_s(&l->links[i], &as, software);
    }
    for (int32_t i = 0; i < run->n_path; i++) {
        int32_t kind = kind_index(run->path[i].what);
        int32_t link = link_index(l, run->path[i].what);
        if (kind >= 0 && l->work_s[kind] > 0) {
            l->part_s[kind] += run->path[i].time_s;
        } else if (link >= 0 && l->link_work_s[link] > 0) {
            l->link_part_s[link] += run->path[i].time_s;
        } else {
            l->fixed_s += run->path[i].time_s;
        }
    }
}

/* Step time when the kinds of work take work_s. */
static double sum_s(const struct cs__linear *l, const struct cs_chip *chip,
                    const struct cs_software *software, const double work_s[CS_N_OPKINDS])
{
    double time_s = l->fixed_s + software->figure[CS_SOFTWARE_STEP_OVERHEAD];
    for (int32_t k = 0; k < CS_N_OPKINDS; k++) {
        if (l->part_s[k] > 0) {
            time_s += l->part_s[k] * work_s[k] / l->work_s[k];
        }
    }
    for (int32_t i = 0; i < l->n_links; i++) {
        if (l->link_part_s[i] > 0) {
            time_s += l->link_part_s[i] * link_s(&l->links[i], chip, software) / l->link_work_s[i];
        }
    }
    return time_s;
}

double cs__linear_time_s(struct cs__linear *l, const struct cs_chip *chip, const struct cs_software *software)
{
    struct cs_chip as;
    unsigned on_path = 0;
    by_software(software, chip, &as);
    for (unsigned k = 0; k < CS_N_OPKINDS; k++) {
        on_path |= l->part_s[k] > 0 ? 1U << k : 0U;
    }
    kinds_s(l, &as, on_path, l->noted_s);
    l->on_path = on_path;
    return sum_s(l, &as, software, l->noted_s);
}

double cs__linear_again_s(const struct cs__linear *l, const struct cs_chip *chip,
                          const struct cs_software *software, unsigned kinds)
{
    struct cs_chip as;
    double work_s[CS_N_OPKINDS];
    by_software(software, chip, &as);
    memcpy(work_s, l->noted_s, sizeof work_s);
    kinds_s(l, &as, kinds & l->on_path, work_s);
    return sum_s(l, &as, software, work_s);
}
