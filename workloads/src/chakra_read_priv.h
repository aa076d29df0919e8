/**
 * @file chakra_read_priv.h
 * Reading Chakra execution traces: from bytes to nodes, to groups and messages, to an order, to a trace.
 */
#ifndef CS_WORKLOADS_CHAKRA_READ_PRIV_H
#define CS_WORKLOADS_CHAKRA_READ_PRIV_H

#include "chakra_priv.h"

enum {
    CS__ET_RANKS_MAX = 1 << 16,
    CS__ET_NAMED_MAX = 255,      /* streams, events, communicators, channels */
    CS__ET_TAGGED_MAX = 64,      /* channels with a tag of their own */
    CS__ET_PLACES_MAX = 1 << 23, /* ranks x streams */
    CS__ET_NODES_MAX = 1 << 27   /* of all ranks */
};

/** Texts by number, each once. Zero-initialised is empty; texts live in `arena`. */
struct cs__et_names {
    struct cs_arena *arena;
    const char **texts;
    int32_t n, cap;
    int32_t *slots; /* open addressing, -1 = free */
    int32_t n_slots;
};
int32_t cs__et_names_add(struct cs__et_names *names, const char *text, size_t bytes);
void cs__et_names_release(struct cs__et_names *names);

/** A node of a rank. Nodes are sorted by id, so that a lower index is a lower id. */
struct cs__et_node {
    uint64_t id;
    double fixed_s; /* 0 = none */
    double flop;    /* num_ops */
    double bytes;   /* tensor_size */
    int64_t size;   /* comm_size: bytes of a message or collective */
    int64_t tag;    /* messages */
    int64_t first_dep;
    int32_t n_deps;
    int32_t name;   /* in labels */
    int32_t group;  /* name in groups' names, then index of the group; messages: channel */
    int32_t peer;   /* messages: the other rank */
    int32_t place;  /* on its stream; -1 = it has none */
    int16_t stream; /* -1 = takes no time and no stream */
    uint8_t type;   /* enum cs__et_type */
    uint8_t coll;   /* enum cs_coll */
    bool on_host;
    bool copies; /* a collective of one rank that is a copy between it and its host: computing, on_host */
    bool part_of_all; /* collective without a group, of all dimensions */
};

/** One rank's file. */
struct cs__et_rank {
    const char *file;
    struct cs__et_node *nodes;
    int64_t n_nodes, cap_nodes;
    uint64_t *deps; /* ids, then indices */
    int64_t n_deps, cap_deps;
    int64_t *order; /* nodes, dependencies first, low ids early */
    int64_t *child_first, *children;
};

/** A process group as somebody named it. */
struct cs__et_group {
    int32_t name;
    int32_t rank; /* whose metadata says so; -1 = everybody */
    int32_t n_members;
    int32_t *members;
};

/** A channel: sends over one distance with one tag, so that messages which are used in another order than
 *  they come (a pipeline's two directions, say) do not stand in each other's way. Where there are too many
 * tags for that, all of a distance. */
struct cs__et_link {
    int32_t distance; /* receiver - sender */
    int64_t tag;      /* 0 when tags are not told apart */
};

struct cs__et {
    struct cs_trace *trace; /* under construction; its arena holds the texts */
    struct cs_arena arena;  /* of the reading */
    struct cs__et_names labels;
    struct cs__et_names group_names;
    int32_t n_ranks;
    struct cs__et_rank *ranks;
    struct cs__et_group *groups; /* definitions; the first is all ranks */
    int32_t n_groups, cap_groups;
    int32_t *comm_of_group; /* per group in use: its communicator */
    int64_t **match;        /* per rank and node: a send's receive, in the receiver's nodes */
    int64_t **next; /* per rank and node: what must start later because it is the next of its kind: send
                       of the same peer and tag, collective of the same group; -1 = nothing */
    int32_t n_links;
    bool tags_apart;
    struct cs__et_link *links;                             /* by distance, then tag */
    int32_t host_stream, memory_stream, first_comm_stream; /* -1 = none */
    int64_t **started; /* per rank: nodes with a stream, in the order they start */
    int64_t *n_started;
    struct cs_chakra_notes notes;
};

/** A name as a trace has it: what terminals take for commands and what is no UTF-8 is replaced. In the
 * trace's arena. */
const char *cs__et_shown(const struct cs__et *et, const char *name);
/** An error about a node. */
cs_status cs__et_bad(const struct cs__et *et, int32_t rank, const struct cs__et_node *node,
                     struct cs_err *err, const char *fmt, ...) CS_PRINTF(5, 6);

/** Read one rank's file into nodes; groups that its metadata define are added. */
CS_MUST_CHECK cs_status cs__et_parse(struct cs__et *et, int32_t rank, const struct cs_chakra_file *file,
                                     struct cs_err *err);
/** Sort nodes, turn dependencies into indices, find an order. Repeated and missing nodes, cycles. */
CS_MUST_CHECK cs_status cs__et_resolve(struct cs__et *et, int32_t rank, struct cs_err *err);
/** Process groups in a JSON text {"name": [ranks], ...}; `file` is its name in messages. */
CS_MUST_CHECK cs_status cs__et_groups_json(struct cs__et *et, const char *text, const char *file,
                                           struct cs_err *err);
/** Process groups in the metadata of a rank, if that is what the text is. */
void cs__et_groups_metadata(struct cs__et *et, int32_t rank, const uint8_t *text, size_t bytes);
/** Find every collective's group; pack groups into communicators. */
CS_MUST_CHECK cs_status cs__et_groups_bind(struct cs__et *et, struct cs_err *err);
/** Match sends and receives; make channels. */
CS_MUST_CHECK cs_status cs__et_match(struct cs__et *et, struct cs_err *err);
/** Number the streams and give every node its own. */
CS_MUST_CHECK cs_status cs__et_streams(struct cs__et *et, struct cs_err *err);
/** Run with nominal rates to find the order in which nodes start. CS_E_INPUT when ranks cannot finish. */
CS_MUST_CHECK cs_status cs__et_run(struct cs__et *et, struct cs_err *err);
/** Give receives their streams; put collectives and receives on the compute stream where that is the same. */
void cs__et_inline(struct cs__et *et);
/** Costs, events, blocks, programs. */
CS_MUST_CHECK cs_status cs__et_build(struct cs__et *et, struct cs_err *err);

#endif
