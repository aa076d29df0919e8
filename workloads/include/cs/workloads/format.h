/**
 * @file format.h
 * Trace files: our own format, Chakra execution traces, SMPI time-independent traces.
 *
 * A trace is a folder. Writers make it under a temporary name beside and rename it when it is whole; a folder
 * that exists and is not empty is refused (CS_E_INPUT), what the system refuses is CS_E_IO. Readers trust
 * nothing: every number is checked and every error names file and line (or byte, in binary files).
 * What the files look like: workloads/TRACE_FORMAT.md.
 */
#ifndef CS_WORKLOADS_FORMAT_H
#define CS_WORKLOADS_FORMAT_H

#include "cs/workloads/trace.h"

/* ---- our own format ---- */

/** Write a trace: binding.txt and one role-N.txt a program. Reading it gives back the same content, every
 *  index and every bit of every number, so that its replay equals the replay of `trace`. A trace whose
 *  indices are out of range or whose figures are not finite is CS_E_INPUT. O(roles x operations + ranks x
 *  communicators). */
CS_MUST_CHECK cs_status cs_trace_write_native(const struct cs_trace *trace, const char *dir,
                                              struct cs_err *err);
/** Read one. The caller frees with cs_trace_free. CS_E_INPUT for anything wrong in the files, including what
 *  cs_trace_check finds; CS_E_LIMIT for sizes. */
CS_MUST_CHECK cs_status cs_trace_read_native(const char *dir, struct cs_trace **trace, struct cs_err *err);
/** The same from one text: binding.txt and then the role files in order, one after the other. `name` is the
 *  file name in messages. */
CS_MUST_CHECK cs_status cs_trace_read_native_text(const char *text, size_t bytes, const char *name,
                                                  struct cs_trace **trace, struct cs_err *err);

/* ---- what the other formats need to know of the platform ---- */

/** Seconds that a compute operation takes on the device of `rank` (cs_chip_op_time_s of its chip). `context`
 *  is the caller's. Must be finite and not negative. */
typedef double cs_op_time_fn(const void *context, int32_t rank, const struct cs_op_cost *cost);

/** One message of a collective: from and to positions in the member list. */
struct cs_coll_message {
    int32_t src, dst;
    double bytes;
};
/** Messages that go side by side, repeated for a number of rounds; each round begins when the one before has
 *  ended. */
struct cs_coll_round {
    int32_t n_rounds;
    int32_t n_messages;
    const struct cs_coll_message *messages;
};
/** The messages of a collective: rounds follow each other. */
struct cs_coll_messages {
    int32_t n_phases;
    const struct cs_coll_round *phases;
};
/** Turn a collective into messages by the caller's choice of algorithm; the answer lives in `arena`. */
typedef cs_status cs_coll_messages_fn(const void *context, enum cs_coll coll, const int32_t *members,
                                      int32_t n_members, double bytes, struct cs_arena *arena,
                                      struct cs_coll_messages *messages, struct cs_err *err);

/* ---- Chakra ---- */

/** Write one trace.N.et a rank and trace.json with the process groups, as ASTRA-sim takes them
 *  (--workload-configuration=DIR/trace --comm-group-configuration=DIR/trace.json). Durations are whole
 *  microseconds, rounded so that their sum along a stream stays exact; the exact one is in attribute
 *  duration_s. Lost: memory operations, phases, layers, what a model is worth, the fixed cost of
 *  collectives. CS_E_INPUT when an event is recorded by two streams of a program. O(ranks x operations x
 *  micro-batches). */
CS_MUST_CHECK cs_status cs_trace_write_chakra(const struct cs_trace *trace, cs_op_time_fn *op_time,
                                              const void *context, const char *dir, struct cs_err *err);

/** What a Chakra trace did not say or said in a way that we treat by assumption; numbers of nodes. */
struct cs_chakra_notes {
    int64_t n_nodes;
    int64_t n_timed;   /* computing with a duration: takes that on any chip */
    int64_t n_counted; /* computing with an operation count only: takes what a matmul of that size takes */
    int64_t n_host;    /* computing on the host, in a stream of its own */
    int64_t n_memory;  /* loads and stores, in a stream of their own */
    int64_t n_memory_untimed; /* of them, those without a duration: they take no time */
    int64_t
        n_untimed; /* computing without a duration, and on the device without an operation count: the same */
    int64_t n_empty;          /* metadata, and computing that takes no time */
    int64_t n_stranger_roles; /* of our own format: files role-N.txt that the binding does not count */
    int64_t n_barriers;       /* barriers, as all-reduce of no bytes */
};

/** Read the folder of a trace made elsewhere: NAME.0.et to NAME.(n-1).et, and process groups from NAME.json,
 *  comm_group.json, comm_groups.json or the traces' own metadata. Ranks that do the same share a program.
 *  Computing, host computing, memory, each process group and each distance of messages become streams, which
 *  keep the order that ASTRA-sim's rule (ready first, then lower node number) gives in a run with nominal
 *  rates. Collectives and receives that computing waits for on both sides are on the compute stream. `notes`
 *  may be NULL. CS_E_INPUT: no such files, a version that is not known, a broken message, a repeated or
 * missing node, a duration or amount that is none, a cycle, a group without the rank, unmatched messages,
 * ranks that cannot finish. CS_E_LIMIT: more than 255 streams, events, communicators or distances. */
CS_MUST_CHECK cs_status cs_trace_read_chakra(const char *dir, struct cs_trace **trace,
                                             struct cs_chakra_notes *notes, struct cs_err *err);

/** One .et file in memory; `name` is its name in messages. */
struct cs_chakra_file {
    const char *name;
    const void *data;
    size_t bytes;
};
/** The same from memory: one file a rank, in rank order; `groups` is the text of NAME.json, or NULL. */
CS_MUST_CHECK cs_status cs_trace_read_chakra_files(const struct cs_chakra_file *files, int32_t n_ranks,
                                                   const char *groups, struct cs_trace **trace,
                                                   struct cs_chakra_notes *notes, struct cs_err *err);

/** Read a folder of either kind: our own when it has a binding.txt, else Chakra. */
CS_MUST_CHECK cs_status cs_trace_read(const char *dir, struct cs_trace **trace, struct cs_chakra_notes *notes,
                                      struct cs_err *err);

/* ---- SMPI ---- */

struct cs_smpi_options {
    cs_op_time_fn *op_time;
    const void *op_time_context;
    cs_coll_messages_fn *coll_messages;
    const void *coll_messages_context;
    double host_flop_per_s; /* speed of the hosts of the SMPI platform: computing is seconds x speed */
    double overhead_s;      /* fixed cost of a collective or a send, slept before it; 0 = none */
};

/** Write one rank-N.txt a rank and trace.txt, the list of them, for smpirun -replay. Collectives become
 *  messages. A rank is one process, so its streams are put in one order: the compute stream's; sends and
 *  collectives of other streams begin as soon as they may and run beside. Sends follow each other; a
 * collective exchanges everything at once, and where the one before is waited for apart begins behind that.
 * Computing of other streams is done when the compute stream, or the end, waits for it: its overlap is lost
 *  (cs_trace_smpi_loses). CS_E_INPUT when ranks cannot finish in that order. */
CS_MUST_CHECK cs_status cs_trace_write_smpi(const struct cs_trace *trace,
                                            const struct cs_smpi_options *options, const char *dir,
                                            struct cs_err *err);
/** Does a trace compute beside its compute stream (copies between host and device), which the above cannot
 * say? */
bool cs_trace_smpi_loses(const struct cs_trace *trace);

#endif
