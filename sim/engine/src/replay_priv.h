/**
 * @file replay_priv.h
 * The replay itself: one SimGrid actor per (rank class, stream), inside a process of its own.
 */
#ifndef CS_ENGINE_REPLAY_PRIV_H
#define CS_ENGINE_REPLAY_PRIV_H

#include "code_priv.h"
#include "isolate_priv.h"
#include "sgcompat_priv.h"

#include "cs/base/rng.h"

enum cs__status {
    CS__RUNNING, /* between steps */
    CS__DELAYED,
    CS__MOVING, /* its flow or its collective is on the links */
    CS__WAITS_EVENT,
    CS__WAITS_MESSAGE,
    CS__WAITS_GROUP,
    CS__FINISHED
};

struct cs__sim;

struct cs__actor {
    struct cs__sim *sim;
    int32_t class, stream;
    int32_t call;               /* position in the program */
    int32_t step;               /* in the block */
    const struct cs__step *now; /* step at hand, for reports */
    enum cs__status status;
    double since_s;
    sg_sem_t wake;
    int64_t *waited; /* per event: waits passed or begun */
    int32_t node;    /* latest link of the chain that led here, see chain_priv.h */
};

/** What a rank class is doing and has done; sums are seconds of one rank. */
struct cs__account {
    double last_s;
    const struct cs__step *delay; /* compute stream is in it, NULL = it waits */
    double delay_start_s;
    double delay_scale; /* jitter */
    bool pipeline_wait;
    int32_t n_moving; /* communication in flight on any lane */
    int32_t n_cross;
    int32_t n_beside; /* streams beside the compute stream that work and do not communicate */
    bool synced;      /* its last wait spanned all stages: what follows is no bubble */
    struct cs_time_shares sum;
};

struct cs__rank {
    struct cs__account account;
    struct cs__actor **actors; /* per stream; NULL where the program has nothing for it */
    int64_t *recorded;         /* per event */
    int64_t *arrived;          /* per channel */
    int64_t *received;
    struct cs_rng rng; /* jitter */
};

/** Where the members of a group class meet; one collective at a time. */
struct cs__meeting {
    int32_t n_here;
    struct cs__actor **here;
};

struct cs__span_record {
    int32_t class;
    struct cs_span span;
};

struct cs__job;
struct cs__mover;
struct cs__cycle;
struct cs__chain;

struct cs__sim {
    struct cs__system *system;
    const struct cs__codebook *book;
    struct cs__answer *answer;
    bool real;       /* on the platform itself, not the quotient */
    int32_t n_hosts; /* of the quotient */
    sg_host_t home;
    sg_host_t *from, *to; /* per flow class */
    int32_t n_actors;
    struct cs__actor *actors;
    struct cs__rank *ranks;        /* per class */
    struct cs__meeting **meetings; /* [communicator][group class] */
    int32_t n_awake;               /* actors that can go on by themselves */
    int32_t n_unfinished;
    double skipped_s; /* time that left-out periods stand for */
    double carried_bytes[CS_N_FABRICS];
    int64_t n_operations; /* of all ranks */
    int64_t n_activities;
    int64_t n_transfers;
    int64_t n_waits;
    double *peak_call_s; /* per class: when the call with the memory peak began */
    int32_t *peak_call;
    struct cs__mover *idle_movers;
    struct cs__cycle *cycle; /* NULL: no skipping */
    struct cs__chain *chain;
    struct cs__span_record *spans;
    int64_t n_spans, cap_spans;
};

/** Simulate in this process and write the outcome to `answer`; never returns. */
_Noreturn void cs__replay(struct cs__system *system, const struct cs__codebook *book,
                          const int32_t *peak_call, const char *quotient_path, int32_t n_hosts,
                          struct cs__answer *answer);

/** What the child says: this record, then n_classes cs_time_shares, then n_classes peak times, then the
 *  critical path's sums by kind and by stage, then spans. */
struct cs__outcome {
    double iteration_s;
    double skipped_s;
    double carried_bytes[CS_N_FABRICS];
    int64_t n_operations;
    int64_t n_activities;
    int64_t n_transfers;
    int64_t n_waits;
    int64_t n_spans;
};

/* account.c */
void cs__account_advance(struct cs__account *account, double now_s);
void cs__account_delay(struct cs__account *account, const struct cs__step *step, double scale, double now_s);
void cs__account_wait(struct cs__account *account, bool pipeline, double now_s);
void cs__account_move(struct cs__account *account, int32_t delta, bool cross, double now_s);
/** A stream beside the compute stream begins (delta 1) or ends (-1) work that is no communication. */
void cs__account_beside(struct cs__account *account, int32_t delta, double now_s);
/** What moves begins (delta 1) or ceases (-1) to cross nodes. */
void cs__account_cross(struct cs__account *account, int32_t delta, double now_s);

/* transfer.c: flows through SimGrid */
void cs__transfer_flow(struct cs__sim *sim, int32_t flow_class, double bytes, double extra_latency_s);
/** A collective's phases, one after the other. The members' accounts cross nodes while a phase does.
 *  Returns the seconds of those phases. */
double cs__transfer_plan(struct cs__sim *sim, const struct cs__binding *binding, struct cs__actor **members,
                         int32_t n_members);
/** Switch the members' accounts: from now on they cross nodes (delta 1) or no longer (-1). */
void cs__members_cross(struct cs__sim *sim, struct cs__actor **members, int32_t n_members, int32_t delta);

/* cycle.c: skipping equal periods */
struct cs__cycle *cs__cycle_new(struct cs__sim *sim);
void cs__cycle_free(struct cs__cycle *cycle);
/** Called by an actor when it starts a call. */
void cs__cycle_call(struct cs__sim *sim, struct cs__actor *actor);

/* stall.c */
_Noreturn void cs__stall(struct cs__sim *sim);

#endif
