/**
 * @file chakra_priv.h
 * Chakra execution traces: the protobuf wire format, and the numbers of its schema (mlcommons/chakra,
 * schema/protobuf/et_def.proto, package ChakraProtoMsg, versions 0.0.4 and 1.0.0).
 */
#ifndef CS_WORKLOADS_CHAKRA_PRIV_H
#define CS_WORKLOADS_CHAKRA_PRIV_H

#include "format_priv.h"

/* Field numbers. */
enum { CS__META_VERSION = 1, CS__META_ATTR = 2 };
enum {
    CS__NODE_ID = 1,
    CS__NODE_NAME = 2,
    CS__NODE_TYPE = 3,
    CS__NODE_CTRL_DEPS = 4,
    CS__NODE_DATA_DEPS = 5,
    CS__NODE_DURATION = 7, /* microseconds */
    CS__NODE_INPUTS = 8,
    CS__NODE_ATTR = 10
};
enum { CS__IO_VALUES = 1 };
enum {
    CS__ATTR_NAME = 1,
    CS__ATTR_DOUBLE = 3,
    CS__ATTR_FLOAT = 5,
    CS__ATTR_INT32 = 7,
    CS__ATTR_INT64 = 9,
    CS__ATTR_UINT32 = 11,
    CS__ATTR_UINT64 = 13,
    CS__ATTR_SINT32 = 15,
    CS__ATTR_SINT64 = 17,
    CS__ATTR_FIXED32 = 19,
    CS__ATTR_FIXED64 = 21,
    CS__ATTR_SFIXED32 = 23,
    CS__ATTR_SFIXED64 = 25,
    CS__ATTR_BOOL = 27,
    CS__ATTR_BOOL_LIST = 28,
    CS__ATTR_STRING = 29
};
enum cs__et_type {
    CS__ET_INVALID,
    CS__ET_METADATA,
    CS__ET_MEM_LOAD,
    CS__ET_MEM_STORE,
    CS__ET_COMP,
    CS__ET_SEND,
    CS__ET_RECV,
    CS__ET_COLL,
    CS__N_ET_TYPES
};
enum cs__et_coll {
    CS__ET_ALL_REDUCE,
    CS__ET_REDUCE,
    CS__ET_ALL_GATHER,
    CS__ET_GATHER,
    CS__ET_SCATTER,
    CS__ET_BROADCAST,
    CS__ET_ALL_TO_ALL,
    CS__ET_REDUCE_SCATTER,
    CS__ET_REDUCE_SCATTER_BLOCK,
    CS__ET_BARRIER,
    CS__N_ET_COLLS
};

/* ---- wire format, https://protobuf.dev/programming-guides/encoding ---- */

enum cs__wire_type { CS__WIRE_VARINT = 0, CS__WIRE_64 = 1, CS__WIRE_BYTES = 2, CS__WIRE_32 = 5 };

void cs__wire_put_varint(struct cs_strbuf *buf, uint64_t value);
/** A field with a varint / a length and bytes / a double. */
void cs__wire_put_number(struct cs_strbuf *buf, uint32_t field, uint64_t value);
void cs__wire_put_bytes(struct cs_strbuf *buf, uint32_t field, const void *data, size_t bytes);
void cs__wire_put_text(struct cs_strbuf *buf, uint32_t field, const char *text);
void cs__wire_put_real(struct cs_strbuf *buf, uint32_t field, double value);
/** Empty it, keeping its memory. */
void cs__wire_clear(struct cs_strbuf *buf);

/** Bytes being read. */
struct cs__wire {
    const uint8_t *at, *end;
};
/** False: cut off, or longer than 64 bits. */
bool cs__wire_varint(struct cs__wire *wire, uint64_t *value);
/** One field. Its value is in `value` (varint, 32 and 64 bits raw) or `bytes`. */
struct cs__wire_field {
    uint32_t number;
    enum cs__wire_type type;
    uint64_t value;
    struct cs__wire bytes;
};
/** NULL when a field was read, else what is wrong with it. Precondition: something is left. */
const char *cs__wire_field(struct cs__wire *wire, struct cs__wire_field *field);

/* ---- what a program asks, as a graph ---- */

/** An operation that becomes a node: numbered in an order in which dependencies come first. */
struct cs__graph_node {
    const struct cs_op *op;
    int32_t micro_batch;
    int64_t first_dep; /* in deps, up to the next node's */
};
struct cs__op_graph {
    struct cs__graph_node *nodes; /* n_nodes + 1: the last holds the end of deps */
    int64_t n_nodes, cap_nodes;
    int64_t *deps;
    int64_t n_deps, cap_deps;
};
/** Dependencies of one program's operations, from the order of streams and from events; memory operations are
 *  left out. A receive depends on the one before it on its channel only: it may be posted early. CS_E_INPUT:
 *  an event recorded by two streams, waits that cannot be met. */
CS_MUST_CHECK cs_status cs__op_graph_build(struct cs__op_graph *graph, const struct cs_trace *trace,
                                           int32_t program, struct cs_err *err);
void cs__op_graph_release(struct cs__op_graph *graph);

#endif
