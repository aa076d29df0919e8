#include "handmade.h"

enum { COMM_MP, COMM_DP };
enum { CHAN_FORWARD, CHAN_BACKWARD };
enum { STREAM_COMPUTE, STREAM_MP, STREAM_DP, STREAM_SEND_F, STREAM_SEND_B, N_STREAMS };
enum { EVENT_F, EVENT_B, EVENT_GRADIENT, EVENT_REDUCED, N_EVENTS };
enum { COST_F, COST_B, N_COSTS };

static int32_t rank_at(const struct handmade *h, int32_t mp, int32_t dp, int32_t pp)
{
    return (pp * h->dp + dp) * h->mp + mp;
}

static void make_comm(struct cs_trace *t, const struct handmade *h, int32_t c)
{
    struct cs_comm *comm = &t->comms[c];
    bool mp = c == COMM_MP;
    int32_t size = mp ? h->mp : h->dp;
    comm->name = mp ? "tp" : "dp";
    comm->stream = mp ? STREAM_MP : STREAM_DP;
    comm->n_groups = t->n_ranks / size;
    comm->group_first = CS_ARENA_NEW(&t->arena, int32_t, comm->n_groups + 1);
    comm->members = CS_ARENA_NEW(&t->arena, int32_t, t->n_ranks);
    comm->group_of_rank = CS_ARENA_NEW(&t->arena, int32_t, t->n_ranks);
    int32_t at = 0;
    int32_t group = 0;
    for (int32_t pp = 0; pp < h->pp; pp++) {
        for (int32_t other = 0; other < (mp ? h->dp : h->mp); other++, group++) {
            for (int32_t i = 0; i < size; i++) {
                int32_t rank = mp ? rank_at(h, i, other, pp) : rank_at(h, other, i, pp);
                comm->members[at++] = rank;
                comm->group_of_rank[rank] = group;
            }
            comm->group_first[group + 1] = at;
        }
    }
}

static void make_channel(struct cs_trace *t, const struct handmade *h, int32_t c)
{
    struct cs_chan *chan = &t->chans[c];
    int32_t per_stage = h->mp * h->dp;
    chan->name = c == CHAN_FORWARD ? "pp-forward" : "pp-backward";
    chan->stream = c == CHAN_FORWARD ? STREAM_SEND_F : STREAM_SEND_B;
    chan->peer = CS_ARENA_NEW(&t->arena, int32_t, t->n_ranks);
    chan->source = CS_ARENA_NEW(&t->arena, int32_t, t->n_ranks);
    for (int32_t r = 0; r < t->n_ranks; r++) {
        int32_t stage = r / per_stage;
        bool up = stage + 1 < h->pp;
        bool down = stage > 0;
        chan->peer[r] = c == CHAN_FORWARD ? (up ? r + per_stage : -1) : (down ? r - per_stage : -1);
        chan->source[r] = c == CHAN_FORWARD ? (down ? r - per_stage : -1) : (up ? r + per_stage : -1);
    }
}

static void add(struct cs_block *b, struct cs_op op)
{
    op.layer = -1;
    b->ops[b->n_ops++] = op;
}

static void add_halves(struct cs_block *b, const struct handmade *h, int32_t cost, bool last_backward)
{
    add(b, (struct cs_op){.type = CS_OP_COMPUTE, .cost = cost});
    if (h->mp > 1 && h->mp_bytes > 0) {
        add(b,
            (struct cs_op){
                .type = CS_OP_COLLECTIVE, .comm = COMM_MP, .coll = CS_COLL_ALL_REDUCE, .bytes = h->mp_bytes});
    }
    if (last_backward && h->dp > 1 && h->dp_bytes > 0) {
        add(b, (struct cs_op){.type = CS_OP_RECORD, .comm = EVENT_GRADIENT});
        add(b, (struct cs_op){.type = CS_OP_WAIT, .stream = STREAM_DP, .comm = EVENT_GRADIENT});
        add(b, (struct cs_op){.type = CS_OP_COLLECTIVE,
                              .stream = STREAM_DP,
                              .comm = COMM_DP,
                              .coll = CS_COLL_ALL_REDUCE,
                              .bytes = h->dp_bytes});
    }
    add(b, (struct cs_op){.type = CS_OP_COMPUTE, .cost = cost});
}

static void add_send(struct cs_block *b, uint8_t event, uint8_t stream, uint8_t channel, int64_t bytes)
{
    add(b, (struct cs_op){.type = CS_OP_RECORD, .comm = event});
    add(b, (struct cs_op){.type = CS_OP_WAIT, .stream = stream, .comm = event});
    add(b, (struct cs_op){.type = CS_OP_SEND, .stream = stream, .comm = channel, .bytes = bytes});
}

/* Blocks of a stage: forward, backward, last backward, end of the step. */
enum { BLOCK_F, BLOCK_B, BLOCK_LAST_B, BLOCK_END, BLOCKS_PER_STAGE };

static void make_blocks(struct cs_trace *t, const struct handmade *h, int32_t stage)
{
    static const char *const names[] = {"forward", "backward", "last backward", "end"};
    struct cs_block *blocks = &t->blocks[stage * BLOCKS_PER_STAGE];
    for (int32_t i = 0; i < BLOCKS_PER_STAGE; i++) {
        blocks[i].name = names[i];
        blocks[i].ops = CS_ARENA_NEW(&t->arena, struct cs_op, 12);
    }
    if (stage > 0) {
        add(&blocks[BLOCK_F], (struct cs_op){.type = CS_OP_RECV, .comm = CHAN_FORWARD, .bytes = h->pp_bytes});
    }
    add_halves(&blocks[BLOCK_F], h, COST_F, false);
    if (stage + 1 < h->pp) {
        add_send(&blocks[BLOCK_F], EVENT_F, STREAM_SEND_F, CHAN_FORWARD, h->pp_bytes);
    }
    for (int32_t i = BLOCK_B; i <= BLOCK_LAST_B; i++) {
        if (stage + 1 < h->pp) {
            add(&blocks[i], (struct cs_op){.type = CS_OP_RECV, .comm = CHAN_BACKWARD, .bytes = h->pp_bytes});
        }
        add_halves(&blocks[i], h, COST_B, i == BLOCK_LAST_B);
        if (stage > 0) {
            add_send(&blocks[i], EVENT_B, STREAM_SEND_B, CHAN_BACKWARD, h->pp_bytes);
        }
    }
    if (h->dp > 1 && h->dp_bytes > 0) {
        add(&blocks[BLOCK_END],
            (struct cs_op){.type = CS_OP_RECORD, .stream = STREAM_DP, .comm = EVENT_REDUCED});
        add(&blocks[BLOCK_END], (struct cs_op){.type = CS_OP_WAIT, .comm = EVENT_REDUCED});
    }
}

static void add_call(struct cs_program *p, int32_t stage, int32_t block, int32_t micro_batch)
{
    p->calls[p->n_calls++] = (struct cs_call){stage * BLOCKS_PER_STAGE + block, micro_batch};
}

static void make_program(struct cs_trace *t, const struct handmade *h, int32_t stage)
{
    struct cs_program *p = &t->programs[stage];
    p->role = cs_arena_printf(&t->arena, "stage %d of %d", stage, h->pp);
    p->stage = stage;
    p->calls = CS_ARENA_NEW(&t->arena, struct cs_call, 2 * h->m + 1);
    int32_t warmup = h->gpipe ? h->m : h->pp - stage - 1 < h->m ? h->pp - stage - 1 : h->m;
    int32_t f = 0;
    while (f < warmup) {
        add_call(p, stage, BLOCK_F, f++);
    }
    for (int32_t b = 0; b < h->m; b++) {
        if (f < h->m) {
            add_call(p, stage, BLOCK_F, f++);
        }
        add_call(p, stage, b == h->m - 1 ? BLOCK_LAST_B : BLOCK_B, b);
    }
    add_call(p, stage, BLOCK_END, -1);
}

struct cs_trace *handmade_trace(const struct handmade *h)
{
    static const char *labels[] = {"op"};
    static const char *streams[] = {"compute", "tp", "dp", "send-forward", "send-backward"};
    static const char *events[] = {"forward done", "backward done", "gradient ready", "gradients reduced"};
    struct cs_trace *t = cs_calloc(1, sizeof *t);
    t->n_ranks = h->mp * h->dp * h->pp;
    t->n_labels = 1;
    t->labels = labels;
    t->n_streams = N_STREAMS;
    t->stream_names = streams;
    t->n_events = N_EVENTS;
    t->event_names = events;
    t->n_costs = N_COSTS;
    t->costs = CS_ARENA_NEW(&t->arena, struct cs_op_cost, N_COSTS);
    for (int32_t i = 0; i < N_COSTS; i++) {
        t->costs[i] = (struct cs_op_cost){
            .kind = CS_OPKIND_MATMUL,
            .dtype = CS_DTYPE_BF16,
            .flop = (i == COST_F ? h->forward_flop : h->backward_flop) / 2,
            .batch = 1,
            .n_kernels = 1,
        };
    }
    t->n_comms = 2;
    t->comms = CS_ARENA_NEW(&t->arena, struct cs_comm, 2);
    t->n_chans = 2;
    t->chans = CS_ARENA_NEW(&t->arena, struct cs_chan, 2);
    for (int32_t i = 0; i < 2; i++) {
        make_comm(t, h, i);
        make_channel(t, h, i);
    }
    t->n_blocks = BLOCKS_PER_STAGE * h->pp;
    t->blocks = CS_ARENA_NEW(&t->arena, struct cs_block, t->n_blocks);
    t->n_programs = h->pp;
    t->programs = CS_ARENA_NEW(&t->arena, struct cs_program, h->pp);
    t->program_of_rank = CS_ARENA_NEW(&t->arena, int32_t, t->n_ranks);
    for (int32_t stage = 0; stage < h->pp; stage++) {
        make_blocks(t, h, stage);
        make_program(t, h, stage);
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        t->program_of_rank[r] = r / (h->mp * h->dp);
    }
    t->model_flop = h->m * (h->forward_flop + h->backward_flop) * t->n_ranks;
    t->n_tokens = h->m * h->dp;
    return t;
}

void handmade_free(struct cs_trace *t)
{
    if (t) {
        cs_arena_release(&t->arena);
        cs_free(t);
    }
}
