/**
 * @file cost_priv.h
 * Parts of the closed form.
 */
#ifndef CS_STRATEGIES_COST_PRIV_H
#define CS_STRATEGIES_COST_PRIV_H

#include "cs/strategies/cost.h"
#include "cs/workloads/stage_cost.h"

#define CS__MEMO_WORDS 6

/** Numbers by a key of CS__MEMO_WORDS words. Zero-initialised is empty. */
struct cs__memo {
    int64_t n, n_slots; /* slots: a power of two */
    struct cs__memo_slot *slots;
};
struct cs__memo_slot {
    int64_t key[CS__MEMO_WORDS];
    int32_t value; /* index + 1; 0 = free */
};
/** Index of a key, -1 when it is not there. */
int32_t cs__memo_find(const struct cs__memo *memo, const int64_t key[CS__MEMO_WORDS]);
void cs__memo_put(struct cs__memo *memo, const int64_t key[CS__MEMO_WORDS], int32_t value);
void cs__memo_release(struct cs__memo *memo);

/** A group of ranks, kept once. */
struct cs__cost_group {
    int32_t n;
    const int32_t *ranks;
};

/** The time of a collective that the algorithm asked for cannot do: so long that whatever needs one shows it
 * in any sum, and finite, so that differences of such sums are numbers. */
#define CS__NEVER_S 1e30

/** A collective in closed form. */
struct cs__cost_coll {
    double time_s; /* fixed cost included */
    double nic_s;  /* traffic of the link by which the first member leaves its node / its bandwidth */
    int32_t nic;   /* that link, -1 = none is used */
};

/** Compute times of a kind of segment on a chip, and its collectives. */
struct cs__plan_part {
    struct cs_segments_cost segments;
    double *forward_s, *backward_s; /* per segment, computing only */
    const struct cs_chip *chip;
};

/** A plan's segments with the collectives of given groups. */
struct cs__segment_times {
    double *forward_s, *backward_s; /* per segment */
};

/** Who is where: groups and neighbours of the ranks that stand for their stages. */
struct cs__layout_part {
    int32_t n_stages;
    int32_t *rank;                      /* per stage */
    int32_t (*group)[CS_N_COST_GROUPS]; /* per stage and kind: number of a group, -1 = alone */
    double *send_latency_s;             /* to the next stage, fixed cost included; per stage but the last */
    double *send_bytes_per_s;
    double *back_latency_s; /* from the next stage back */
    double *back_bytes_per_s;
};

struct cs__stage_part {
    struct cs_stages_cost stages;
    double **epilogue_s; /* per stage and operation: computing, 0 for collectives */
};

/** Collectives of a block on one stream, alike ones together. */
struct cs__trace_coll {
    enum cs_cost_group group; /* of the layout; CS_N_COST_GROUPS: that of `own` */
    int32_t own;              /* a group of experts' ranks: number of a group, -1 = alone */
    enum cs_coll coll;
    int32_t stream; /* below CS__STREAMS; CS_STREAM_COMPUTE: it holds the compute stream up */
    int64_t bytes;
    int32_t n;
};
#define CS__STREAMS 32

/** A block of a program, and how often it is called: before the first forward pass, from then to the last
 * backward pass, behind that. */
enum { CS__BEFORE, CS__PASSES, CS__BEHIND, CS__N_SPANS };
struct cs__trace_block {
    double compute_s;
    bool is_forward, is_backward;
    int32_t n_calls[CS__N_SPANS];
    int32_t n_colls;
    struct cs__trace_coll *colls;
};

/** The program of a stage's rank whose other coordinates are 0. */
struct cs__trace_stage {
    int32_t n_blocks;
    struct cs__trace_block *blocks; /* those that it calls */
    int32_t first_forward;          /* of these, -1 = none */
};

/** A strategy that the parts do not cover, from its trace; placement does not matter, unless experts are
 * shared out. */
struct cs__trace_part {
    struct cs_strategy strategy;
    int32_t n_stages; /* 0 = its trace cannot be made, or needs more than cs_cost_limit says */
    struct cs__trace_stage *stages;
    int64_t peak_bytes;
    double state_bytes;
};

struct cs_cost {
    const struct cs_model *model;
    const struct cs_training *training;
    struct cs_routes *routes;
    const struct cs_platform *platform;
    const struct cs_run_options *options;
    struct cs_cost_scale scale;
    double reserved_bytes;
    double limit_bytes; /* of cs_cost_limit */
    struct cs_arena arena;
    cs_watch_fn is_over; /* may be NULL */
    void *watch_context;
    const char *refusal; /* the first algorithm that was none for a group, in words; NULL = all are */
    bool collecting;     /* cs_cost_prepare: collectives are only noted, routes are not known yet */
    int32_t *pairs;
    int64_t n_pairs, cap_pairs;
    struct cs__memo plan_memo, stage_memo, layout_memo, group_memo, coll_memo, times_memo, trace_memo;
    struct cs__memo collected; /* what cs_cost_prepare has been through, by its parts */
    struct cs__plan_part *plans;
    int32_t n_plans, cap_plans;
    struct cs__stage_part *stages;
    int32_t n_stages, cap_stages;
    struct cs__layout_part *layouts;
    int32_t n_layouts, cap_layouts;
    struct cs__cost_group *groups;
    int32_t n_groups, cap_groups;
    struct cs__cost_coll *colls;
    int32_t n_colls, cap_colls;
    struct cs__segment_times *times;
    int32_t n_times, cap_times;
    struct cs__trace_part *traces;
    int32_t n_traces, cap_traces;
    struct cs__load *loads; /* scratch, per link */
    int32_t n_loads;
};

/* cost_parts.c: the parts, made on first use. Numbers, because the arrays grow. */
int32_t cs__cost_plan(struct cs_cost *cost, const struct cs_strategy *strategy, enum cs_recompute recompute,
                      int32_t rank);
int32_t cs__cost_stage(struct cs_cost *cost, const struct cs_strategy *strategy);
int32_t cs__cost_layout(struct cs_cost *cost, const struct cs_strategy *strategy);
/** Figures of the messages between stages; in collecting mode their routes are noted. */
void cs__cost_messages(struct cs_cost *cost, struct cs__layout_part *part);
/** Segment times of a plan among the groups of a stage. */
int32_t cs__cost_times(struct cs_cost *cost, int32_t plan, const int32_t group[CS_N_COST_GROUPS]);

/* cost_trace.c */
/** What its trace says of a strategy: memory, and a lower bound of the step. In collecting mode routes are
 * noted. Cost: that of cs_trace_build, once for all placements where that does not matter. */
void cs__cost_trace(struct cs_cost *cost, const struct cs_strategy *strategy, struct cs_estimate *estimate);

/* cost_coll.c */
/** Time of a collective in a group; zero for group -1 and no bytes. */
struct cs__cost_coll cs__cost_coll(struct cs_cost *cost, int32_t group, enum cs_coll coll, int64_t bytes);
int32_t cs__cost_intern_group(struct cs_cost *cost, const struct cs_members *members);
/** Latency with the fixed cost, and narrowest link, of a message between two devices. */
void cs__cost_message(struct cs_cost *cost, int32_t from, int32_t to, double *latency_s, double *bytes_per_s);

/** One pass of a stage over a micro-batch as a max-plus map: from the moment `start` when the compute stream
 *  is free and the moment `ready` when its input has arrived and its buffers are free again,
 *    end  = max(start + end_start_s, ready + end_ready_s)   the compute stream is free again
 *    lane = max(start + lane_start_s, ready + lane_ready_s) the last gradient of the pass is reduced */
struct cs__pass {
    double end_start_s, end_ready_s;
    double lane_start_s, lane_ready_s;
    double nic_s; /* that the NIC is busy with its collectives */
};

/** A stage in closed form. */
struct cs__stage_times {
    struct cs__pass forward, backward, backward_last;
    double send_forward_s, send_backward_s; /* to the next stage, to the stage before */
    bool waits_for_weights; /* the first forward pass does, of those that are held from then on */
    double nic_s; /* of a micro-batch: what its gathered weights and scattered gradients need of the NIC */
};

/** What all stages of a candidate are made of. */
struct cs__candidate {
    struct cs_cost *cost;
    const struct cs_strategy *strategy;
    int64_t n_micro_batches;
    int32_t stage, layout;
    bool mixed;                   /* lists say how layers are recomputed */
    int32_t plan[CS_N_RECOMPUTE]; /* by recomputation; the same three unless mixed */
    int32_t *times;               /* per stage, by recomputation */
};

/** The later of two moments; inline, unlike fmax, which is most of what a max-plus system does. Never NaN. */
static inline double cs__later(double a_s, double b_s)
{
    return a_s > b_s ? a_s : b_s;
}

/* cost_stage.c */
void cs__stage_times(const struct cs__candidate *candidate, int32_t stage, struct cs__stage_times *out);
/** End of the first forward pass, the stream free at `start_s` and its input there at `ready_s`: items wait
 * for their weights. */
double cs__stage_first_forward_s(const struct cs__candidate *candidate, int32_t stage, double start_s,
                                 double ready_s);
/** Most bytes that a rank of the stage holds at any time, the runtime's reserve not counted. */
int64_t cs__stage_peak_bytes(const struct cs__candidate *candidate, int32_t stage);

/* cost_pipeline.c */
/** End of the step. `ends_s` (per stage) is scratch. */
double cs__pipeline_s(const struct cs__candidate *candidate, const struct cs__stage_times *stages);

#endif
