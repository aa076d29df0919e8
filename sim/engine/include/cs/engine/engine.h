/**
 * @file engine.h
 * Replay of a trace on a platform by SimGrid; the result of a run.
 */
#ifndef CS_ENGINE_ENGINE_H
#define CS_ENGINE_ENGINE_H

#include "cs/engine/collective.h"

enum cs_fidelity {
    CS_FIDELITY_ANALYTIC, /* closed form, no simulation */
    CS_FIDELITY_FOLDED,   /* equal ranks as one, equal periods once; lossless */
    CS_FIDELITY_FULL      /* every rank, every operation */
};
extern const char *const cs_fidelity_names[]; /* "analytic", "folded", "full" */

enum cs_view { CS_VIEW_AUTO, CS_VIEW_STEP, CS_VIEW_FLOW, CS_VIEW_CLOSED };
extern const char *const cs_view_names[]; /* "auto", "step", "flow", "closed" */

/** A device that computes `factor` times slower, a link with `factor` of its bandwidth (0 = dead). */
struct cs_slow_device {
    int32_t device;
    double factor; /* @unit ratio >= 1 */
};
struct cs_slow_link {
    const char *name; /* as SimGrid names it */
    double factor;    /* @unit ratio in [0, 1] */
    bool may_be_idle; /* no error when no route crosses it */
};

/** How to run. Zero-initialised + cs_run_options_init. Pointers are borrowed. */
struct cs_run_options {
    enum cs_fidelity fidelity;
    enum cs_view view; /* auto: closed form where nothing else can be on the links, else flow */
    enum cs_algorithm algorithm[CS_N_COLLS];
    int32_t n_slow_devices;
    const struct cs_slow_device *slow_devices;
    int32_t n_slow_links;
    const struct cs_slow_link *slow_links;
    double jitter_frac; /* standard deviation of a compute operation's time, log-normal */
    uint64_t seed;
    bool timeline;           /* record every operation */
    double time_limit_s;     /* wall clock, 0 = none */
    const char *simgrid_cfg; /* extra "--cfg=" item for SimGrid ("contexts/factory:thread"), NULL = none */
};
void cs_run_options_init(struct cs_run_options *options);

#define CS_REASON_MAX 256

/** Mean over ranks, seconds: computing + exposed_comm + bubble + idle = iteration time (DESIGN §8). */
struct cs_time_shares {
    double computing_s;
    double comm_s;         /* at least one communication stream busy */
    double exposed_comm_s; /* of that, not overlapped by computing */
    double bubble_s;       /* waiting for a pipeline neighbour, communication streams idle */
    double idle_s;         /* other free time */
    double cross_comm_s;   /* communication that crosses nodes busy */
    double beside_s;       /* of idle: a stream beside the compute stream works that is no communication, such
                              as copies between device and host */
};

enum cs_fabric { CS_FABRIC_INTRA, CS_FABRIC_INTER, CS_N_FABRICS };

struct cs_run_checks {
    bool bytes_conserved;
    bool time_accounted;
    bool state_conserved;
    bool operations_complete;
};

/** What one run says. A plain value without pointers: it crosses process boundaries by its bytes. */
struct cs_metrics {
    double iteration_s;
    double tokens_per_s;      /* @unit tokens per second */
    double tflops_per_device; /* @unit 1e12 model flop per second and device */
    double mfu_frac;
    double hfu_frac;
    struct cs_time_shares mean; /* over ranks */
    double bubble_frac;
    double comm_frac;
    double exposed_comm_frac;
    double cross_node_comm_frac;
    double asked_bytes[CS_N_FABRICS];   /* that the trace's operations must move, all ranks */
    double carried_bytes[CS_N_FABRICS]; /* that were moved in the replay */
    int64_t peak_memory_bytes;          /* highest rank, runtime's reserve included */
    int64_t memory_bytes[CS_N_MEMS];    /* of that rank at its peak */
    int64_t reserved_bytes;
    double peak_memory_at_s;
    int32_t peak_memory_rank;
    int32_t n_ranks;
    int32_t n_rank_classes; /* ranks simulated */
    int64_t n_operations;   /* of all ranks */
    int64_t n_activities;   /* given to SimGrid: sleeps, transfers, waits for another actor */
    int64_t n_transfers;    /* of these */
    int64_t n_waits;        /* of these */
    double skipped_frac;    /* share of the step's time that equal periods stood for */
    double wall_s;
    enum cs_fidelity fidelity;
    struct cs_run_checks checks;
    char limited_by[CS_REASON_MAX]; /* one line: what the iteration time consists of, largest first */
};

/** One interval of one rank, for timelines. */
struct cs_span {
    int32_t rank;
    int32_t lane; /* stream index of the trace */
    int32_t label;
    int32_t micro_batch;
    int16_t layer;
    uint8_t phase;
    uint8_t type; /* enum cs_op_type */
    double start_s;
    double end_s;
    int64_t bytes;
};

/** A link's load over the step. */
struct cs_link_load {
    char name[64];
    int32_t n_alike; /* links that carry the same */
    double bytes;
    double bytes_per_s;
    double busy_frac; /* bytes / bandwidth / iteration time */
    char users[96];   /* communicators and channels, largest first */
};

/** Part of the critical path: the chain of operations, each beginning when the one before ended, from the
 *  start of the step to its end. The parts by kind add up to the iteration time, those by stage too. */
struct cs_path_share {
    char what[64]; /* "matmul", "tp within nodes", "dp across nodes"; "stage 3" */
    double time_s;
};

/** A result with its tables. Owned by the caller: cs_run_release. */
struct cs_run {
    struct cs_metrics metrics;
    int64_t n_spans;
    struct cs_span *spans; /* every rank, ordered by rank, lane, start */
    int32_t n_links;
    struct cs_link_load *links;   /* busiest first */
    struct cs_time_shares *ranks; /* n_ranks entries */
    int32_t n_path;
    struct cs_path_share *path; /* by kind, longest first, zero parts left out */
    int32_t n_path_stages;
    struct cs_path_share *path_stages; /* by pipeline stage, in order */
    struct cs_time_shares *stages;     /* n_path_stages: mean over a stage's ranks; where the bubbles are */
    char *folding;                     /* what was folded and why the rest was not, lines of text */
};
void cs_run_release(struct cs_run *run);

/** Are all slow links on routes that are known by now (cs_routes_need, cs_routes_need_all)? CS_E_INPUT names
 * the first that is not. */
CS_MUST_CHECK cs_status cs_engine_check_links(const struct cs_routes *routes,
                                              const struct cs_run_options *options, struct cs_err *err);

/** Replay. Routes that are missing are asked for. CS_E_DEADLOCK when ranks cannot finish (who waits for whom
 *  is in the message), CS_E_ENGINE when SimGrid ends the child (its words are quoted), CS_E_TIMEOUT. A run
 *  that does not fit in memory is not an error: compare peak_memory_bytes. */
CS_MUST_CHECK cs_status cs_engine_run(const struct cs_trace *trace, struct cs_routes *routes,
                                      const struct cs_run_options *options, struct cs_run *run,
                                      struct cs_err *err);

/** Time of one collective, nothing else running: a trace of one operation, replayed. `members` are devices in
 *  ring order; `view` must not be auto. @param[out] time_s includes the chip's fixed cost of a collective;
 *  @param[out] used the algorithm that auto became. CS_E_INPUT when the algorithm refuses, a member is
 *  repeated or is no device. */
CS_MUST_CHECK cs_status cs_engine_collective(struct cs_routes *routes, enum cs_coll coll, double bytes,
                                             const int32_t *members, int32_t n_members,
                                             enum cs_algorithm algorithm, enum cs_view view, double *time_s,
                                             enum cs_algorithm *used, struct cs_err *err);

/** Figures that follow from metrics->iteration_s alone: tokens and flop a second, MFU, HFU, number of ranks.
 * The peak is that of the devices that the ranks use, in the dtype of the trace's first operator. */
void cs_engine_speed(const struct cs_trace *trace, const struct cs_platform *platform,
                     struct cs_metrics *metrics);

/** Highest memory of any rank, from the ledgers alone: no simulation. Fills the memory fields of metrics. */
void cs_engine_memory(const struct cs_trace *trace, const struct cs_platform *platform,
                      struct cs_metrics *metrics);

#endif
