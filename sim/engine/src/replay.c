#include "replay_priv.h"

#include "chain_priv.h"
#include "cycle_priv.h"
#include "quotient_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct cs_program *program_of(const struct cs__sim *sim, int32_t class)
{
    const struct cs_trace *t = sim->system->trace;
    return &t->programs[t->program_of_rank[sim->system->class_rep[class]]];
}

/* ---- sleeping and waking: exact deadlock detection rests on n_awake ---- */

static void fall_asleep(struct cs__actor *self, enum cs__status status)
{
    struct cs__sim *sim = self->sim;
    self->status = status;
    self->since_s = simgrid_get_clock();
    if (--sim->n_awake == 0) {
        cs__stall(sim);
    }
    sim->n_waits++;
    sim->n_activities++;
    sg_sem_acquire(self->wake);
}

static void wake_up(struct cs__actor *self, struct cs__actor *other)
{
    other->status = CS__RUNNING;
    other->node = self->node; /* what ended now let it go on */
    self->sim->n_awake++;
    sg_sem_release(other->wake);
}

static bool is_compute(const struct cs__actor *self)
{
    return self->stream == CS_STREAM_COMPUTE;
}

static void begin_wait(struct cs__actor *self, bool pipeline)
{
    if (is_compute(self)) {
        cs__account_wait(&self->sim->ranks[self->class].account, pipeline, simgrid_get_clock());
    }
}

/* ---- spans ---- */

static void add_span(struct cs__actor *self, int32_t op_index, int32_t lane, double start_s, double end_s)
{
    struct cs__sim *sim = self->sim;
    const struct cs_call *call = &program_of(sim, self->class)->calls[self->call];
    const struct cs_op *op = &sim->system->trace->blocks[call->block].ops[op_index];
    CS_GROW(sim->spans, sim->n_spans, sim->cap_spans);
    sim->spans[sim->n_spans++] = (struct cs__span_record){
        self->class,
        {-1, lane, op->label, call->micro_batch, op->layer, op->phase, op->type, start_s, end_s, op->bytes},
    };
}

static int32_t lane_of(const struct cs__sim *sim, const struct cs_op *op)
{
    const struct cs_trace *t = sim->system->trace;
    return op->type == CS_OP_COLLECTIVE                       ? t->comms[op->comm].stream
           : op->type == CS_OP_SEND || op->type == CS_OP_RECV ? t->chans[op->comm].stream
                                                              : op->stream;
}

static void span_of_step(struct cs__actor *self, const struct cs__step *step, double start_s)
{
    struct cs__sim *sim = self->sim;
    if (!sim->system->options->timeline) {
        return;
    }
    const struct cs_block *block =
        &sim->system->trace->blocks[program_of(sim, self->class)->calls[self->call].block];
    double end_s = simgrid_get_clock();
    if (step->kind != CS__STEP_DELAY) {
        add_span(self, step->op, lane_of(sim, &block->ops[step->op]), start_s, end_s);
        return;
    }
    double scale = step->delay_s > 0 ? (end_s - start_s) / step->delay_s : 1;
    double before_s = 0;
    for (int32_t i = 0; i < step->n_points; i++) {
        const struct cs__point *p = &step->points[i];
        add_span(self, p->op, lane_of(sim, &block->ops[p->op]), start_s + scale * before_s,
                 start_s + scale * p->end_s);
        before_s = p->end_s;
    }
}

/* ---- steps ---- */

static void sleep_for(struct cs__sim *sim, double time_s)
{
    if (time_s > 0) {
        sg_actor_sleep_for(time_s);
        sim->n_activities++;
    }
}

/* Closed-form communication of the members. A hierarchical collective's phases inside nodes are taken
 * together and first: the shares come out right, and nothing else depends on the order. */
static void sleep_part_across(struct cs__sim *sim, struct cs__actor **members, int32_t n, double time_s,
                              double cross_s)
{
    if (cross_s < time_s) {
        sleep_for(sim, time_s - cross_s);
    }
    if (cross_s > 0) {
        cs__members_cross(sim, members, n, 1);
        sleep_for(sim, cross_s);
        cs__members_cross(sim, members, n, -1);
    }
}

static void do_delay(struct cs__actor *self, const struct cs__step *step)
{
    struct cs__sim *sim = self->sim;
    struct cs__rank *rank = &sim->ranks[self->class];
    double start_s = simgrid_get_clock();
    double scale = 1;
    if (sim->system->options->jitter_frac > 0 && step->computing_s > 0) {
        double sigma = sim->system->options->jitter_frac;
        scale = exp(sigma * cs_rng_normal(&rank->rng) - sigma * sigma / 2); /* mean 1 */
    }
    self->status = CS__DELAYED;
    self->since_s = start_s;
    if (is_compute(self)) {
        cs__account_delay(&rank->account, step, scale, start_s);
        sleep_for(sim, step->delay_s * scale);
        cs__account_wait(&rank->account, false, simgrid_get_clock());
    } else if (step->computing_s > 0) {
        cs__account_beside(&rank->account, 1, start_s);
        sleep_for(sim, step->delay_s * scale);
        cs__account_beside(&rank->account, -1, simgrid_get_clock());
    } else {
        double cross_s = step->n_points > 0 ? step->points[step->n_points - 1].cross_s : 0;
        cs__account_move(&rank->account, 1, false, start_s);
        sleep_part_across(sim, &self, 1, step->delay_s * scale, cross_s * scale);
        cs__account_move(&rank->account, -1, false, simgrid_get_clock());
    }
    for (int32_t f = 0; f < CS_N_FABRICS; f++) {
        sim->carried_bytes[f] += step->rank_bytes[f] * sim->system->class_size[self->class];
    }
    cs__chain_add(sim, self, step, start_s, 0);
    span_of_step(self, step, start_s);
}

static void do_send(struct cs__actor *self, const struct cs__step *step)
{
    struct cs__sim *sim = self->sim;
    int32_t f = sim->system->chan_flow_class[step->arg][self->class];
    const struct cs__flow_class *class = &sim->system->flow_classes[f];
    struct cs__rank *source = &sim->ranks[self->class];
    struct cs__rank *target = &sim->ranks[class->dst_class];
    double start_s = simgrid_get_clock();
    begin_wait(self, false);
    cs__account_move(&source->account, 1, class->cross, start_s);
    cs__account_move(&target->account, 1, class->cross, start_s);
    self->status = CS__MOVING;
    self->since_s = start_s;
    int32_t rep = sim->system->class_rep[self->class];
    cs__transfer_flow(sim, f, (double)step->bytes,
                      sim->system->platform->devices[rep].chip->collective_overhead_s);
    cs__account_move(&source->account, -1, class->cross, simgrid_get_clock());
    cs__account_move(&target->account, -1, class->cross, simgrid_get_clock());
    cs__chain_add(sim, self, step, start_s, class->cross ? simgrid_get_clock() - start_s : 0);
    span_of_step(self, step, start_s);
    target->arrived[step->arg]++;
    for (int32_t i = 0; i < sim->system->trace->n_streams; i++) {
        struct cs__actor *other = target->actors[i];
        if (other && other->status == CS__WAITS_MESSAGE && other->now->arg == step->arg) {
            wake_up(self, other);
        }
    }
}

static void do_receive(struct cs__actor *self, const struct cs__step *step)
{
    struct cs__rank *rank = &self->sim->ranks[self->class];
    double start_s = simgrid_get_clock();
    if (rank->received[step->arg] == rank->arrived[step->arg]) {
        begin_wait(self, true);
        rank->account.synced = false;
        fall_asleep(self, CS__WAITS_MESSAGE);
        begin_wait(self, false);
    }
    rank->received[step->arg]++;
    span_of_step(self, step, start_s);
}

static void do_record(struct cs__actor *self, const struct cs__step *step)
{
    struct cs__rank *rank = &self->sim->ranks[self->class];
    int64_t count = ++rank->recorded[step->arg];
    for (int32_t i = 0; i < self->sim->system->trace->n_streams; i++) {
        struct cs__actor *other = rank->actors[i];
        if (other && other->status == CS__WAITS_EVENT && other->now->arg == step->arg &&
            other->waited[step->arg] <= count) {
            wake_up(self, other);
        }
    }
}

static void do_wait(struct cs__actor *self, const struct cs__step *step)
{
    struct cs__rank *rank = &self->sim->ranks[self->class];
    if (rank->recorded[step->arg] < ++self->waited[step->arg]) {
        begin_wait(self, false);
        fall_asleep(self, CS__WAITS_EVENT);
    }
}

static void move_members(struct cs__sim *sim, struct cs__actor **members, int32_t n, int32_t delta)
{
    double now_s = simgrid_get_clock();
    for (int32_t i = 0; i < n; i++) {
        cs__account_move(&sim->ranks[members[i]->class].account, delta, false, now_s);
    }
}

/* The last member to come drives the collective; the others sleep until it is over. */
static void drive(struct cs__actor *self, const struct cs__binding *b, struct cs__meeting *meeting, int32_t n)
{
    struct cs__sim *sim = self->sim;
    struct cs__actor **members = meeting->here;
    double start_s = simgrid_get_clock();
    for (int32_t i = 0; i < n; i++) {
        members[i]->status = CS__MOVING;
        members[i]->since_s = start_s;
    }
    move_members(sim, members, n, 1);
    double cross_s = cs__binding_cross_s(b);
    if (cs__is_closed(sim->system, b)) {
        sleep_part_across(sim, members, n, b->overhead_s + b->closed_s, cross_s);
        const struct cs__comm_class *classes = &sim->system->comms[sim->system->shapes[self->now->arg].comm];
        for (int32_t f = 0; f < CS_N_FABRICS; f++) {
            sim->carried_bytes[f] += b->group_bytes[f] * classes->n_groups[b->group_class];
        }
    } else {
        double overhead_cross_s = b->inside ? 0 : cross_s > 0 ? b->overhead_s : 0;
        sleep_part_across(sim, members, n, b->overhead_s, overhead_cross_s);
        cross_s = overhead_cross_s + cs__transfer_plan(sim, b, members, n);
    }
    move_members(sim, members, n, -1);
    cs__chain_add(sim, self, self->now, start_s, cross_s);
    meeting->n_here = 0;
    for (int32_t i = 0; i < n - 1; i++) {
        wake_up(self, members[i]);
    }
}

static void do_collective(struct cs__actor *self, const struct cs__step *step)
{
    struct cs__sim *sim = self->sim;
    const struct cs__binding *b = cs__system_binding(sim->system, step->arg, self->class);
    int32_t comm = sim->system->shapes[step->arg].comm;
    int32_t n = sim->system->comms[comm].n_members[b->group_class];
    struct cs__meeting *meeting = &sim->meetings[comm][b->group_class];
    bool spans_stages = sim->system->trace->comms[comm].spans_stages;
    meeting->here[meeting->n_here++] = self;
    begin_wait(self, spans_stages);
    double start_s = simgrid_get_clock();
    if (meeting->n_here < n) {
        fall_asleep(self, CS__WAITS_GROUP);
    } else {
        start_s = simgrid_get_clock();
        drive(self, b, meeting, n);
    }
    span_of_step(self, step, start_s > self->since_s ? start_s : self->since_s);
    if (is_compute(self)) {
        begin_wait(self, false);
        sim->ranks[self->class].account.synced = spans_stages || sim->ranks[self->class].account.synced;
    }
}

static void do_step(struct cs__actor *self, const struct cs__step *step)
{
    self->now = step;
    switch (step->kind) {
    case CS__STEP_DELAY:
        do_delay(self, step);
        break;
    case CS__STEP_COLLECTIVE:
        do_collective(self, step);
        break;
    case CS__STEP_SEND:
        do_send(self, step);
        break;
    case CS__STEP_RECV:
        do_receive(self, step);
        break;
    case CS__STEP_RECORD:
        do_record(self, step);
        break;
    case CS__STEP_WAIT:
        do_wait(self, step);
        break;
    }
    self->status = CS__RUNNING;
    self->sim->n_operations += (int64_t)step->n_ops * self->sim->system->class_size[self->class];
}

/* ---- the end ---- */

static void say_path(const struct cs__sim *sim, const struct cs__actor *last)
{
    int32_t n_kinds = cs__chain_n_kinds(sim->system->trace);
    int32_t n_stages = cs__chain_n_stages(sim->system->trace);
    double *sums_s = cs_calloc((size_t)(n_kinds + n_stages), sizeof *sums_s);
    cs__chain_sum(sim, last, sums_s, sums_s + n_kinds, n_stages);
    cs__answer_write(sim->answer, sums_s, (size_t)(n_kinds + n_stages) * sizeof *sums_s);
    cs_free(sums_s);
}

static void say_outcome(struct cs__sim *sim, const struct cs__actor *last)
{
    struct cs__system *s = sim->system;
    double end_s = simgrid_get_clock();
    struct cs__outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    outcome.iteration_s = end_s + sim->skipped_s;
    outcome.skipped_s = sim->skipped_s;
    memcpy(outcome.carried_bytes, sim->carried_bytes, sizeof outcome.carried_bytes);
    outcome.n_operations = sim->n_operations;
    outcome.n_activities = sim->n_activities;
    outcome.n_transfers = sim->n_transfers;
    outcome.n_waits = sim->n_waits;
    outcome.n_spans = sim->n_spans;
    cs__answer_write(sim->answer, &outcome, sizeof outcome);
    for (int32_t k = 0; k < s->n_classes; k++) {
        cs__account_advance(&sim->ranks[k].account, end_s);
        cs__answer_write(sim->answer, &sim->ranks[k].account.sum, sizeof sim->ranks[k].account.sum);
    }
    cs__answer_write(sim->answer, sim->peak_call_s, (size_t)s->n_classes * sizeof *sim->peak_call_s);
    say_path(sim, last);
    if (sim->n_spans > 0) {
        cs__answer_write(sim->answer, sim->spans, (size_t)sim->n_spans * sizeof *sim->spans);
    }
    cs__answer_end(sim->answer, CS_OK, NULL);
}

static void finish(struct cs__actor *self)
{
    struct cs__sim *sim = self->sim;
    self->status = CS__FINISHED;
    if (is_compute(self)) {
        struct cs__account *account = &sim->ranks[self->class].account;
        cs__account_wait(account, sim->system->trace->n_chans > 0 && !account->synced, simgrid_get_clock());
    }
    sim->n_awake--;
    if (--sim->n_unfinished == 0) {
        say_outcome(sim, self);
    }
    if (sim->n_awake == 0) {
        cs__stall(sim);
    }
}

static void actor_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct cs__actor *self = sg_actor_self_get_data();
    struct cs__sim *sim = self->sim;
    const struct cs_program *program = program_of(sim, self->class);
    const struct cs__code **code = sim->book->code + (int64_t)self->class * sim->system->trace->n_blocks;
    for (self->call = 0; self->call < program->n_calls; self->call++) {
        const struct cs__stream_code *stream = &code[program->calls[self->call].block]->streams[self->stream];
        if (is_compute(self)) {
            if (self->call == sim->peak_call[self->class]) {
                sim->peak_call_s[self->class] = simgrid_get_clock() + sim->skipped_s;
            }
            self->step = 0;
            if (sim->cycle) {
                cs__cycle_call(sim, self);
            }
        }
        for (self->step = 0; self->step < stream->n_steps; self->step++) {
            do_step(self, &stream->steps[self->step]);
        }
    }
    finish(self);
}

/* ---- setting up ---- */

static bool stream_has_work(const struct cs__sim *sim, int32_t class, int32_t stream)
{
    const struct cs__code **code = sim->book->code + (int64_t) class * sim->system->trace->n_blocks;
    for (int32_t b = 0; b < sim->system->trace->n_blocks; b++) {
        if (code[b] && code[b]->streams[stream].n_steps > 0) {
            return true;
        }
    }
    return false;
}

static void make_actors(struct cs__sim *sim)
{
    struct cs__system *s = sim->system;
    const struct cs_trace *t = s->trace;
    struct cs_arena *arena = &s->arena;
    sim->ranks = CS_ARENA_NEW(arena, struct cs__rank, s->n_classes);
    sim->actors = CS_ARENA_NEW(arena, struct cs__actor, (int64_t)s->n_classes * t->n_streams);
    for (int32_t k = 0; k < s->n_classes; k++) {
        struct cs__rank *rank = &sim->ranks[k];
        rank->actors = CS_ARENA_NEW(arena, struct cs__actor *, t->n_streams);
        rank->recorded = CS_ARENA_NEW(arena, int64_t, t->n_events + 1);
        rank->arrived = CS_ARENA_NEW(arena, int64_t, t->n_chans + 1);
        rank->received = CS_ARENA_NEW(arena, int64_t, t->n_chans + 1);
        cs_rng_init(&rank->rng, s->options->seed, (uint64_t)s->class_rep[k]);
        for (int32_t i = 0; i < t->n_streams; i++) {
            if (i != CS_STREAM_COMPUTE && !stream_has_work(sim, k, i)) {
                continue;
            }
            struct cs__actor *actor = &sim->actors[sim->n_actors++];
            rank->actors[i] = actor;
            *actor = (struct cs__actor){.sim = sim, .class = k, .stream = i, .node = -1};
            actor->wake = sg_sem_init(0);
            actor->waited = CS_ARENA_NEW(arena, int64_t, t->n_events + 1);
        }
    }
    sim->n_awake = sim->n_unfinished = sim->n_actors;
    for (int32_t i = 0; i < sim->n_actors; i++) {
        cs__sg_actor("rank", sim->home, actor_main, &sim->actors[i]);
    }
}

static void make_meetings(struct cs__sim *sim)
{
    struct cs__system *s = sim->system;
    sim->meetings = CS_ARENA_NEW(&s->arena, struct cs__meeting *, s->trace->n_comms + 1);
    for (int32_t c = 0; c < s->trace->n_comms; c++) {
        int32_t n = s->comms[c].n_group_classes;
        sim->meetings[c] = CS_ARENA_NEW(&s->arena, struct cs__meeting, n + 1);
        for (int32_t g = 0; g < n; g++) {
            sim->meetings[c][g].here =
                CS_ARENA_NEW(&s->arena, struct cs__actor *, s->comms[c].n_members[g] + 1);
        }
    }
}

static void find_hosts(struct cs__sim *sim)
{
    struct cs__system *s = sim->system;
    sim->from = CS_ARENA_NEW(&s->arena, sg_host_t, s->n_flow_classes + 1);
    sim->to = CS_ARENA_NEW(&s->arena, sg_host_t, s->n_flow_classes + 1);
    struct cs__sg_hosts hosts;
    cs__sg_hosts_make(&hosts);
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        const struct cs__flow_class *class = &s->flow_classes[f];
        if (class->sim_pair < 0) {
            continue;
        }
        if (sim->real) {
            const struct cs__flow_site *flow = &s->flows[class->rep];
            sim->from[f] = cs__sg_hosts_find(&hosts, cs_platform_endpoint(s->platform, flow->src, flow->dst));
            sim->to[f] = cs__sg_hosts_find(&hosts, cs_platform_endpoint(s->platform, flow->dst, flow->src));
        } else {
            char name[16];
            snprintf(name, sizeof name, "h%d", class->sim_pair / sim->n_hosts);
            sim->from[f] = cs__sg_hosts_find(&hosts, name);
            snprintf(name, sizeof name, "h%d", class->sim_pair % sim->n_hosts);
            sim->to[f] = cs__sg_hosts_find(&hosts, name);
        }
    }
    sim->home = cs__sg_hosts_find(&hosts, sim->real ? s->platform->devices[0].host : "h0");
}

/* On the platform itself SimGrid has to be told about slow links; the quotient was written with them. */
static void slow_links(const struct cs__sim *sim)
{
    const struct cs__system *s = sim->system;
    for (int32_t l = 0; l < cs_routes_n_links(s->routes) && sim->real && s->options->n_slow_links > 0; l++) {
        const struct cs_link *link = cs_routes_link(s->routes, l);
        if (s->link_bytes_per_s[l] > 0 && s->link_bytes_per_s[l] < link->bytes_per_s) {
            sg_link_set_bandwidth(sg_link_by_name(link->name), s->link_bytes_per_s[l]);
        }
    }
}

_Noreturn void cs__replay(struct cs__system *system, const struct cs__codebook *book,
                          const int32_t *peak_call, const char *quotient_path, int32_t n_hosts,
                          struct cs__answer *answer)
{
    struct cs__sim *sim = cs_calloc(1, sizeof *sim);
    sim->system = system;
    sim->book = book;
    sim->answer = answer;
    sim->real = quotient_path == NULL;
    sim->n_hosts = n_hosts;
    sim->chain = cs__chain_new();
    sim->peak_call =
        cs_arena_memdup(&system->arena, peak_call, (size_t)system->n_classes * sizeof *peak_call);
    sim->peak_call_s = CS_ARENA_NEW(&system->arena, double, system->n_classes + 1);
    cs__sg_init(system->options->simgrid_cfg);
    simgrid_load_platform(sim->real ? system->platform->xml_path : quotient_path);
    find_hosts(sim);
    slow_links(sim);
    make_meetings(sim);
    make_actors(sim);
    bool skip = system->options->fidelity == CS_FIDELITY_FOLDED && !system->options->timeline &&
                system->options->jitter_frac <= 0;
    sim->cycle = skip ? cs__cycle_new(sim) : NULL;
    simgrid_run();
    struct cs_err err = {0};
    cs_err_set(&err, CS_E_ENGINE, CS_NOLOC, "SimGrid ended before the ranks did");
    cs__answer_end(answer, CS_E_ENGINE, &err);
}
