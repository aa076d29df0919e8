#include "code_priv.h"

#include "cs/base/text.h"

#include <string.h>

/* What translation depends on besides the block: chip, slowdown, and which collectives are private delays. */
struct profile {
    const struct cs_chip *chip;
    double slowdown;
    const double *private_s;          /* per shape: time of a private collective, < 0 = not private */
    const struct cs__binding **bound; /* per shape */
    const int32_t *group_size;        /* per shape */
};

static bool same_profile(const struct cs__system *s, const struct profile *a, const struct profile *b)
{
    if (a->chip != b->chip || a->slowdown != b->slowdown) {
        return false;
    }
    for (int32_t i = 0; i < s->n_shapes; i++) {
        bool group = a->private_s[i] == b->private_s[i] && a->group_size[i] == b->group_size[i];
        bool fabric = !a->bound[i] || !b->bound[i] ||
                      cs__binding_cross_s(a->bound[i]) == cs__binding_cross_s(b->bound[i]);
        if (!group || !fabric) {
            return false;
        }
    }
    return true;
}

static void make_profile(const struct cs__system *s, int32_t class, struct cs_arena *arena, struct profile *p)
{
    int32_t rep = s->class_rep[class];
    double *private_s = CS_ARENA_NEW(arena, double, s->n_shapes + 1);
    int32_t *group_size = CS_ARENA_NEW(arena, int32_t, s->n_shapes + 1);
    const struct cs__binding **bound = CS_ARENA_NEW(arena, const struct cs__binding *, s->n_shapes + 1);
    for (int32_t i = 0; i < s->n_shapes; i++) {
        const struct cs_comm *comm = &s->trace->comms[s->shapes[i].comm];
        int32_t group = comm->group_of_rank[rep];
        private_s[i] = -1;
        if (group < 0) {
            continue;
        }
        const struct cs__binding *b = cs__system_binding(s, i, class);
        bound[i] = b;
        group_size[i] = comm->group_first[group + 1] - comm->group_first[group];
        bool alone = s->comms[s->shapes[i].comm].n_members[b->group_class] == 1;
        bool closed = s->options->view == CS_VIEW_AUTO ? b->quiet : s->options->view == CS_VIEW_CLOSED;
        if (alone && closed) {
            private_s[i] = b->overhead_s + b->closed_s;
        }
    }
    *p = (struct profile){s->platform->devices[rep].chip, s->slowdown[rep], private_s, bound, group_size};
}

struct emitter {
    struct cs_arena *arena;
    struct cs__step *steps;
    int32_t n_steps, cap_steps;
    struct cs__point *points;
    int32_t n_points, cap_points; /* of all delays of the stream; offsets until the end */
    int32_t *first_point;
    int32_t n_first, cap_first;
    bool merge;
    bool compute_stream; /* other streams are busy with one fabric at a time, or with none: a delay does not
                          * mix them but within one hierarchical collective */
};

static struct cs__step *new_step(struct emitter *e, enum cs__step_kind kind, int32_t op)
{
    CS_GROW(e->steps, e->n_steps, e->cap_steps);
    CS_GROW(e->first_point, e->n_first, e->cap_first);
    e->first_point[e->n_first++] = e->n_points;
    struct cs__step *step = &e->steps[e->n_steps++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    step->op = op;
    step->n_ops = 1;
    return step;
}

static void add_delay(struct emitter *e, int32_t op, double busy_s, bool computing,
                      const struct cs__binding *b, int32_t group_size)
{
    struct cs__step *last = e->n_steps > 0 ? &e->steps[e->n_steps - 1] : NULL;
    double own_cross_s = b ? cs__binding_cross_s(b) : 0;
    bool part = own_cross_s > 0 && own_cross_s < busy_s;
    double last_cross_s = last && last->n_points > 0 ? e->points[e->n_points - 1].cross_s : 0;
    bool last_part = last && last_cross_s > 0 && last_cross_s < last->delay_s;
    bool mixes = last && last->n_points > 0 && !e->compute_stream &&
                 (part || last_part || (own_cross_s > 0) != (last_cross_s > 0) ||
                  computing != (last->computing_s > 0));
    if (!e->merge || !last || last->kind != CS__STEP_DELAY || mixes) {
        last = new_step(e, CS__STEP_DELAY, op);
        last->n_ops = 0;
    }
    double cross_s = last->n_points > 0 ? e->points[e->n_points - 1].cross_s : 0;
    last->n_ops++;
    last->delay_s += busy_s;
    last->computing_s += computing ? busy_s : 0;
    cross_s += own_cross_s;
    for (int32_t f = 0; b && f < CS_N_FABRICS; f++) {
        last->rank_bytes[f] += b->group_bytes[f] / group_size;
    }
    CS_GROW(e->points, e->n_points, e->cap_points);
    e->points[e->n_points++] = (struct cs__point){last->delay_s, last->computing_s, cross_s, op};
    last->n_points++;
}

static void translate_op(const struct cs__system *s, const struct profile *p, const struct cs_op *op,
                         int32_t index, struct emitter *e)
{
    switch ((enum cs_op_type)op->type) {
    case CS_OP_COMPUTE:
        add_delay(e, index, cs_chip_op_time_s(p->chip, &s->trace->costs[op->cost]) * p->slowdown, true, NULL,
                  1);
        break;
    case CS_OP_COLLECTIVE: {
        int32_t shape = cs__system_shape(s, op->comm, op->coll, op->bytes);
        if (p->private_s[shape] >= 0) {
            add_delay(e, index, p->private_s[shape], false, p->bound[shape], p->group_size[shape]);
        } else {
            new_step(e, CS__STEP_COLLECTIVE, index)->arg = shape;
        }
        break;
    }
    case CS_OP_SEND:
    case CS_OP_RECV: {
        struct cs__step *step = new_step(e, op->type == CS_OP_SEND ? CS__STEP_SEND : CS__STEP_RECV, index);
        step->arg = op->comm;
        step->bytes = op->bytes;
        break;
    }
    case CS_OP_RECORD:
        new_step(e, CS__STEP_RECORD, index)->arg = op->comm;
        break;
    case CS_OP_WAIT:
        new_step(e, CS__STEP_WAIT, index)->arg = op->comm;
        break;
    case CS_OP_ALLOC: /* memory takes no time: the ledger walks the program by itself */
    case CS_OP_FREE:
    case CS_N_OP_TYPES:
        break;
    }
}

static const struct cs__code *translate(const struct cs__system *s, const struct profile *p,
                                        const struct cs_block *block, bool merge, struct cs_arena *arena)
{
    struct cs__stream_code *streams = CS_ARENA_NEW(arena, struct cs__stream_code, s->trace->n_streams);
    struct emitter e = {.arena = arena, .merge = merge};
    for (int32_t stream = 0; stream < s->trace->n_streams; stream++) {
        e.n_steps = e.n_points = e.n_first = 0;
        e.compute_stream = stream == CS_STREAM_COMPUTE;
        for (int32_t i = 0; i < block->n_ops; i++) {
            if (block->ops[i].stream == stream) {
                translate_op(s, p, &block->ops[i], i, &e);
            }
        }
        if (e.n_steps == 0) {
            continue;
        }
        struct cs__step *steps = cs_arena_memdup(arena, e.steps, (size_t)e.n_steps * sizeof *steps);
        const struct cs__point *points =
            e.n_points ? cs_arena_memdup(arena, e.points, (size_t)e.n_points * sizeof *points) : NULL;
        for (int32_t i = 0; i < e.n_steps; i++) {
            steps[i].points = points ? points + e.first_point[i] : NULL;
        }
        streams[stream] = (struct cs__stream_code){e.n_steps, steps};
    }
    cs_free(e.steps);
    cs_free(e.points);
    cs_free(e.first_point);
    struct cs__code *code = CS_ARENA_NEW(arena, struct cs__code, 1);
    code->streams = streams;
    return code;
}

void cs__codebook_build(struct cs__codebook *book, const struct cs__system *s, bool merge)
{
    memset(book, 0, sizeof *book);
    struct cs_arena scratch = {0};
    int32_t n_blocks = s->trace->n_blocks;
    book->code = CS_ARENA_NEW(&book->arena, const struct cs__code *, (int64_t)s->n_classes *n_blocks + 1);
    struct profile *profiles = CS_ARENA_NEW(&scratch, struct profile, s->n_classes);
    int32_t *leader = CS_ARENA_NEW(&scratch, int32_t, s->n_classes); /* first class with the same profile */
    for (int32_t k = 0; k < s->n_classes; k++) {
        make_profile(s, k, &scratch, &profiles[k]);
        leader[k] = k;
        for (int32_t j = 0; j < k; j++) {
            if (leader[j] == j && same_profile(s, &profiles[j], &profiles[k])) {
                leader[k] = j;
                break;
            }
        }
        const struct cs_program *program = &s->trace->programs[s->trace->program_of_rank[s->class_rep[k]]];
        for (int32_t c = 0; c < program->n_calls; c++) {
            int32_t b = program->calls[c].block;
            const struct cs__code **slot = &book->code[(int64_t)leader[k] * n_blocks + b];
            if (!*slot) {
                *slot = translate(s, &profiles[leader[k]], &s->trace->blocks[b], merge, &book->arena);
            }
            book->code[(int64_t)k * n_blocks + b] = *slot;
        }
    }
    cs_arena_release(&scratch);
}

void cs__codebook_release(struct cs__codebook *book)
{
    cs_arena_release(&book->arena);
    memset(book, 0, sizeof *book);
}
