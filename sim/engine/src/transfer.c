#include "replay_priv.h"

#include <stdio.h>

/* SimGrid's C interface has only a blocking transfer between two given hosts, so that flows which run side
 * by side need an actor each: movers, made when needed and kept for reuse. */
struct cs__mover {
    struct cs__sim *sim;
    struct cs__mover *next_idle;
    sg_sem_t work;
    int32_t flow_class;
    double bytes;
    double extra_latency_s;
    struct cs__job *job;
};

/** Flows started together; the starter sleeps until all are done. */
struct cs__job {
    int32_t n_left;
    sg_sem_t done;
};

void cs__transfer_flow(struct cs__sim *sim, int32_t flow_class, double bytes, double extra_latency_s)
{
    if (extra_latency_s > 0) {
        sg_actor_sleep_for(extra_latency_s);
        sim->n_activities++;
    }
    sg_host_sendto(sim->from[flow_class], sim->to[flow_class], bytes);
    sim->n_activities++;
    sim->n_transfers++;
    const struct cs__flow_class *class = &sim->system->flow_classes[flow_class];
    sim->carried_bytes[class->cross ? CS_FABRIC_INTER : CS_FABRIC_INTRA] += bytes * (double)class->count;
}

static void mover_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct cs__mover *self = sg_actor_self_get_data();
    for (;;) {
        cs__transfer_flow(self->sim, self->flow_class, self->bytes, self->extra_latency_s);
        struct cs__job *job = self->job;
        self->next_idle = self->sim->idle_movers;
        self->sim->idle_movers = self;
        if (--job->n_left == 0) {
            sg_sem_release(job->done);
        }
        self->sim->n_waits++;
        self->sim->n_activities++;
        sg_sem_acquire(self->work);
    }
}

static void start_flow(struct cs__sim *sim, struct cs__job *job, int32_t flow_class, double bytes,
                       double extra_latency_s)
{
    struct cs__mover *mover = sim->idle_movers;
    bool fresh = !mover;
    if (fresh) {
        mover = cs_calloc(1, sizeof *mover);
        mover->sim = sim;
        mover->work = sg_sem_init(0);
    } else {
        sim->idle_movers = mover->next_idle;
    }
    mover->flow_class = flow_class;
    mover->bytes = bytes;
    mover->extra_latency_s = extra_latency_s;
    mover->job = job;
    job->n_left++;
    if (fresh) {
        sg_actor_daemonize(cs__sg_actor("mover", sim->home, mover_main, mover));
    } else {
        sg_sem_release(mover->work);
    }
}

/* All flow classes of a phase at once, `rounds` rounds' bytes each; the caller carries the last one itself.
 */
static void run_phase(struct cs__sim *sim, const struct cs_coll_phase *phase, const int32_t *classes,
                      int32_t rounds, bool *started, struct cs__job *job)
{
    int32_t own = -1;
    for (int32_t i = 0; i < phase->n_flows; i++) {
        int32_t f = classes[i];
        if (started[f]) {
            continue;
        }
        started[f] = true;
        if (own < 0) {
            own = i;
            continue;
        }
        start_flow(sim, job, f, phase->flows[i].bytes * rounds,
                   (rounds - 1) * sim->system->flow_classes[f].latency_s);
    }
    for (int32_t i = 0; i < phase->n_flows; i++) {
        started[classes[i]] = false;
    }
    job->n_left++; /* the caller's own, so that the movers cannot finish the job before it waits */
    cs__transfer_flow(sim, classes[own], phase->flows[own].bytes * rounds,
                      (rounds - 1) * sim->system->flow_classes[classes[own]].latency_s);
    if (--job->n_left > 0) {
        sim->n_waits++;
        sim->n_activities++;
        sg_sem_acquire(job->done);
    }
}

static bool phase_crosses(const struct cs__sim *sim, const struct cs_coll_phase *phase,
                          const int32_t *classes)
{
    bool cross = false;
    for (int32_t i = 0; i < phase->n_flows; i++) {
        cross = cross || sim->system->flow_classes[classes[i]].cross;
    }
    return cross;
}

void cs__members_cross(struct cs__sim *sim, struct cs__actor **members, int32_t n_members, int32_t delta)
{
    double now_s = simgrid_get_clock();
    for (int32_t i = 0; i < n_members; i++) {
        cs__account_cross(&sim->ranks[members[i]->class].account, delta, now_s);
    }
}

double cs__transfer_plan(struct cs__sim *sim, const struct cs__binding *b, struct cs__actor **members,
                         int32_t n_members)
{
    double cross_s = 0;
    bool *started = cs_calloc((size_t)sim->system->n_flow_classes, sizeof *started);
    struct cs__job job = {0, sg_sem_init(0)};
    bool step = sim->system->options->view == CS_VIEW_STEP;
    int32_t at = 0;
    for (int32_t p = 0; p < b->plan.n_phases; p++) {
        const struct cs_coll_phase *phase = &b->plan.phases[p];
        double start_s = simgrid_get_clock();
        bool cross = phase_crosses(sim, phase, b->flow_class + at);
        if (cross) {
            cs__members_cross(sim, members, n_members, 1);
        }
        for (int32_t r = 0; r < (step ? phase->n_rounds : 1); r++) {
            run_phase(sim, phase, b->flow_class + at, step ? 1 : phase->n_rounds, started, &job);
        }
        if (cross) {
            cs__members_cross(sim, members, n_members, -1);
            cross_s += simgrid_get_clock() - start_s;
        }
        at += phase->n_flows;
    }
    sg_sem_destroy(job.done);
    cs_free(started);
    return cross_s;
}
