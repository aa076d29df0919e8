#include "replay_priv.h"

#include <stdio.h>

static const struct cs_call *call_of(const struct cs__sim *sim, const struct cs__actor *actor)
{
    const struct cs_trace *t = sim->system->trace;
    return &t->programs[t->program_of_rank[sim->system->class_rep[actor->class]]].calls[actor->call];
}

static const char *waits_for(const struct cs__sim *sim, const struct cs__actor *actor, char *buf,
                             size_t bytes)
{
    const struct cs_trace *t = sim->system->trace;
    int32_t rank = sim->system->class_rep[actor->class];
    switch (actor->status) {
    case CS__WAITS_EVENT:
        snprintf(buf, bytes, "event '%s'", t->event_names[actor->now->arg]);
        break;
    case CS__WAITS_MESSAGE:
        snprintf(buf, bytes, "rank %d to send on '%s'", t->chans[actor->now->arg].source[rank],
                 t->chans[actor->now->arg].name);
        break;
    case CS__WAITS_GROUP: {
        const struct cs__shape *shape = &sim->system->shapes[actor->now->arg];
        snprintf(buf, bytes, "the other members of '%s' (%s of %lld bytes)", t->comms[shape->comm].name,
                 cs_coll_names[shape->coll], (long long)shape->bytes);
        break;
    }
    case CS__RUNNING:
    case CS__DELAYED:
    case CS__MOVING:
    case CS__FINISHED:
        snprintf(buf, bytes, "nothing");
        break;
    }
    return buf;
}

_Noreturn void cs__stall(struct cs__sim *sim)
{
    const struct cs_trace *t = sim->system->trace;
    struct cs_strbuf text = {0};
    int32_t n = 0;
    for (int32_t i = 0; i < sim->n_actors; i++) {
        const struct cs__actor *actor = &sim->actors[i];
        if (actor->status == CS__FINISHED) {
            continue;
        }
        n++;
        if (n > 4) {
            continue;
        }
        char what[192];
        const struct cs_call *call = call_of(sim, actor);
        const struct cs_op *op = &t->blocks[call->block].ops[actor->now->op];
        cs_strbuf_addf(&text, "%srank %d, stream '%s', waits for %s in '%s' (call %d, micro-batch %d, '%s')",
                       n > 1 ? "; " : "", sim->system->class_rep[actor->class],
                       t->stream_names[actor->stream], waits_for(sim, actor, what, sizeof what),
                       t->blocks[call->block].name, actor->call, call->micro_batch, t->labels[op->label]);
    }
    struct cs_err err = {0};
    cs_err_set(&err, CS_E_DEADLOCK, CS_NOLOC, "deadlock, %d streams wait for ever: %s%s", n,
               cs_strbuf_str(&text), n > 4 ? "; ..." : "");
    cs__answer_end(sim->answer, CS_E_DEADLOCK, &err);
}
