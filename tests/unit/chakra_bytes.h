/**
 * @file chakra_bytes.h
 * A writer of .et files that shares nothing with the one under test.
 */
#ifndef CS_TESTS_UNIT_CHAKRA_BYTES_H
#define CS_TESTS_UNIT_CHAKRA_BYTES_H

#include "cs/base/mem.h"
#include "cs/workloads/format.h"

enum { INVALID, METADATA, LOAD, STORE, COMP, SEND, RECV, COLL };
enum { DOUBLE = 3, INT32 = 7, INT64 = 9, UINT64 = 13, SINT64 = 17, BOOL = 27 };

struct et_attr {
    const char *name;
    int field; /* 0 = a text */
    int64_t value;
    const char *text; /* of DOUBLE: the number */
};
struct et_node {
    uint64_t id;
    int type;
    uint64_t us;
    int n_deps;
    uint64_t deps[3];
    int n_ctrl;
    uint64_t ctrl[2];
    struct et_attr attrs[6];
    const char *inputs;
};

#define RANKS_MAX 8

/* Ranks' files; nodes end with type INVALID and id 0. */
struct et_files {
    struct cs_strbuf data[RANKS_MAX];
    int32_t n;
};

/** Append a number, a field with a number, a field with bytes, a message with its length (the body is
 * released). */
void et_varint(struct cs_strbuf *buf, uint64_t value);
void et_number(struct cs_strbuf *buf, int field, uint64_t value);
void et_text(struct cs_strbuf *buf, int field, const char *data, size_t bytes);
void et_message(struct cs_strbuf *file, struct cs_strbuf *body);
/** Add the file of one more rank. */
void et_add_rank(struct et_files *files, const struct et_node *nodes);
/** Read all files, which are released. */
cs_status et_read(struct et_files *files, const char *groups, struct cs_trace **trace,
                  struct cs_chakra_notes *notes, struct cs_err *err);
struct cs_trace *et_read_well(struct et_files *files, const char *groups, struct cs_chakra_notes *notes);

#define END_OF_NODES                                                                                         \
    {                                                                                                        \
        .type = INVALID                                                                                      \
    }
#define SEND_TO(peer, size, tag)                                                                             \
    .type = SEND, .attrs = {{"comm_dst", INT32, peer, 0},                                                    \
                            {"comm_size", INT64, size, 0},                                                   \
                            {"comm_tag", INT32, tag, 0},                                                     \
                            {"is_cpu_op", BOOL, 0, 0}}
#define RECV_FROM(peer, size, tag)                                                                           \
    .type = RECV, .attrs = {{"comm_src", INT32, peer, 0},                                                    \
                            {"comm_size", INT64, size, 0},                                                   \
                            {"comm_tag", INT32, tag, 0},                                                     \
                            {"is_cpu_op", BOOL, 0, 0}}
#define COLLECTIVE(kind, size, group)                                                                        \
    .type = COLL, .attrs = {{"comm_type", INT64, kind, 0},                                                   \
                            {"comm_size", INT64, size, 0},                                                   \
                            {"pg_name", 0, 0, group},                                                        \
                            {"is_cpu_op", BOOL, 0, 0}}

#endif
