/* Chakra execution traces: what is written, byte by byte; what is read, from nodes put together by hand; and
 * everything that can be wrong. */
#include "cs_test.h"
#include "handmade.h"
#include "scratch.h"

#include "cs/workloads/format.h"

#include <stdio.h>

/* ---- a writer of .et files that shares nothing with the one under test ---- */

enum { INVALID, METADATA, LOAD, STORE, COMP, SEND, RECV, COLL };
enum { DOUBLE = 3, INT32 = 7, INT64 = 9, UINT64 = 13, SINT64 = 17, BOOL = 27 };

struct attr {
    const char *name;
    int field; /* 0 = a text */
    int64_t value;
    const char *text; /* of DOUBLE: the number */
};
struct node {
    uint64_t id;
    int type;
    uint64_t us;
    int n_deps;
    uint64_t deps[3];
    int n_ctrl;
    uint64_t ctrl[2];
    struct attr attrs[6];
    const char *inputs;
};

static void varint(struct cs_strbuf *buf, uint64_t value)
{
    do {
        char byte = (char)(value % 128 + (value >= 128 ? 128 : 0));
        cs_strbuf_addn(buf, &byte, 1);
        value /= 128;
    } while (value > 0);
}

static void number(struct cs_strbuf *buf, int field, uint64_t value)
{
    varint(buf, (uint64_t)field * 8);
    varint(buf, value);
}

static void text(struct cs_strbuf *buf, int field, const char *data, size_t bytes)
{
    varint(buf, (uint64_t)field * 8 + 2);
    varint(buf, bytes);
    cs_strbuf_addn(buf, data, bytes);
}

static void message(struct cs_strbuf *file, struct cs_strbuf *body)
{
    varint(file, body->len);
    cs_strbuf_addn(file, cs_strbuf_str(body), body->len);
    cs_strbuf_release(body);
}

static void put_version(struct cs_strbuf *file, const char *version)
{
    struct cs_strbuf body = {0};
    if (version) {
        text(&body, 1, version, strlen(version));
    }
    message(file, &body);
}

static void put_node(struct cs_strbuf *file, const struct node *node)
{
    struct cs_strbuf body = {0};
    char name[32];
    snprintf(name, sizeof name, "n%d", (int)node->id);
    number(&body, 1, node->id);
    text(&body, 2, name, strlen(name));
    number(&body, 3, (uint64_t)node->type);
    for (int i = 0; i < node->n_ctrl; i++) { /* one a field; data dependencies packed */
        number(&body, 4, node->ctrl[i]);
    }
    struct cs_strbuf packed = {0};
    for (int i = 0; i < node->n_deps; i++) {
        varint(&packed, node->deps[i]);
    }
    text(&body, 5, cs_strbuf_str(&packed), packed.len);
    cs_strbuf_release(&packed);
    if (node->us > 0) {
        number(&body, 7, node->us);
    }
    if (node->inputs) {
        struct cs_strbuf io = {0};
        text(&io, 1, node->inputs, strlen(node->inputs));
        text(&body, 8, io.text, io.len);
        cs_strbuf_release(&io);
    }
    for (const struct attr *a = node->attrs; a < node->attrs + 6 && a->name; a++) {
        struct cs_strbuf attr = {0};
        text(&attr, 1, a->name, strlen(a->name));
        if (a->field == 0) {
            text(&attr, 29, a->text, strlen(a->text));
        } else if (a->field == DOUBLE) {
            double real = strtod(a->text, NULL);
            varint(&attr, DOUBLE * 8 + 1);
            cs_strbuf_addn(&attr, (const char *)&real, sizeof real);
        } else if (a->field == SINT64) {
            number(&attr, a->field, a->value < 0 ? 2 * (uint64_t)-a->value - 1 : 2 * (uint64_t)a->value);
        } else {
            number(&attr, a->field, (uint64_t)a->value);
        }
        text(&body, 10, attr.text, attr.len);
        cs_strbuf_release(&attr);
    }
    message(file, &body);
}

#define RANKS_MAX 8

/* Ranks' files; nodes end with type INVALID and id 0. */
struct files {
    struct cs_strbuf data[RANKS_MAX];
    int32_t n;
};

static void add_rank(struct files *files, const struct node *nodes)
{
    struct cs_strbuf *file = &files->data[files->n++];
    put_version(file, "0.0.4");
    for (; nodes->id != 0 || nodes->type != INVALID; nodes++) {
        put_node(file, nodes);
    }
}

static cs_status read_files(struct files *files, const char *groups, struct cs_trace **trace,
                            struct cs_chakra_notes *notes, struct cs_err *err)
{
    static const char *const names[RANKS_MAX] = {"t.0.et", "t.1.et", "t.2.et", "t.3.et",
                                                 "t.4.et", "t.5.et", "t.6.et", "t.7.et"};
    struct cs_chakra_file list[RANKS_MAX];
    for (int32_t i = 0; i < files->n; i++) {
        list[i] = (struct cs_chakra_file){names[i], files->data[i].text, files->data[i].len};
    }
    cs_status st = cs_trace_read_chakra_files(list, files->n, groups, trace, notes, err);
    for (int32_t i = 0; i < files->n; i++) {
        cs_strbuf_release(&files->data[i]);
    }
    files->n = 0;
    return st;
}

static struct cs_trace *read_well(struct files *files, const char *groups, struct cs_chakra_notes *notes)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    ck_assert_ok(read_files(files, groups, &trace, notes, &err), &err);
    return trace;
}

static void assert_refused(struct files *files, const char *groups, const char *file, const char *part)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    ck_assert_fails(read_files(files, groups, &trace, NULL, &err), &err, CS_E_INPUT, 0, part);
    ck_assert_str_eq(err.file, file);
    ck_assert_ptr_null(trace);
}

/* The operations of a rank that are on a stream or on all (-1), by label: "n1 n2". */
static const char *order_of(const struct cs_trace *trace, int32_t rank, int32_t stream)
{
    static char list[256];
    const struct cs_block *block =
        &trace->blocks[trace->programs[trace->program_of_rank[rank]].calls[0].block];
    list[0] = '\0';
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        bool node = op->type != CS_OP_RECORD && op->type != CS_OP_WAIT;
        if (node && (stream < 0 || op->stream == stream)) {
            size_t len = strlen(list);
            snprintf(list + len, sizeof list - len, "%s%s", len > 0 ? " " : "", trace->labels[op->label]);
        }
    }
    return list;
}

static int32_t count_ops(const struct cs_trace *trace, int32_t rank, enum cs_op_type type)
{
    const struct cs_block *block =
        &trace->blocks[trace->programs[trace->program_of_rank[rank]].calls[0].block];
    int32_t n = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        n += block->ops[i].type == type;
    }
    return n;
}

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

/* ---- reading ---- */

START_TEST(test_computing)
{
    static const struct node nodes[] = {
        {.id = 10, .type = COMP, .us = 5},
        {.id = 11, .type = COMP, .us = 7, .n_deps = 1, .deps = {12}}, /* refers forward */
        {.id = 12,
         .type = COMP,
         .n_ctrl = 1,
         .ctrl = {10},
         .attrs = {{"num_ops", INT64, 1000, 0}, {"tensor_size", UINT64, 64, 0}}},
        {.id = 13, .type = COMP, .us = 3, .attrs = {{"is_cpu_op", BOOL, 1, 0}}},
        {.id = 14, .type = LOAD, .us = 9, .n_deps = 1, .deps = {13}},
        {.id = 15, .type = STORE, .n_deps = 1, .deps = {14}},
        {.id = 16, .type = COMP, .n_deps = 2, .deps = {15, 11}},
        {.id = 17, /* whole microseconds may be left out where there is the exact duration */
         .type = COMP,
         .n_deps = 1,
         .deps = {16},
         .attrs = {{"duration_s", DOUBLE, 0, "0.25"}}},
        {.id = 18, .type = METADATA, .n_deps = 1, .deps = {17}},
        END_OF_NODES};
    struct files files = {0};
    struct cs_chakra_notes notes;
    add_rank(&files, nodes);
    struct cs_trace *trace = read_well(&files, NULL, &notes);
    ck_assert_int_eq(trace->n_streams, 3);
    ck_assert_str_eq(trace->stream_names[1], "host");
    ck_assert_str_eq(trace->stream_names[2], "memory");
    ck_assert_str_eq(order_of(trace, 0, 0), "n10 n12 n11 n17");
    ck_assert_str_eq(order_of(trace, 0, 1), "n13");
    ck_assert_str_eq(order_of(trace, 0, 2), "n14");
    /* 14 waits for 13; 17 waits, through nodes that take no time, for 14 of another stream only. */
    ck_assert_int_eq(count_ops(trace, 0, CS_OP_WAIT), 2);
    ck_assert_int_eq(count_ops(trace, 0, CS_OP_RECORD), 2);
    ck_assert_double_eq(trace->costs[0].fixed_s, 5e-6);
    ck_assert(notes.n_nodes == 9 && notes.n_timed == 4 && notes.n_counted == 1 && notes.n_host == 1 &&
              notes.n_memory == 2 && notes.n_memory_untimed == 1 && notes.n_untimed == 1 &&
              notes.n_empty == 2 && notes.n_barriers == 0);
    const struct cs_block *block = &trace->blocks[0];
    for (int32_t i = 0; i < block->n_ops; i++) {
        if (block->ops[i].type == CS_OP_COMPUTE && strcmp(trace->labels[block->ops[i].label], "n17") == 0) {
            ck_assert_double_eq(trace->costs[block->ops[i].cost].fixed_s, 0.25);
        }
        if (block->ops[i].type == CS_OP_COMPUTE && strcmp(trace->labels[block->ops[i].label], "n12") == 0) {
            const struct cs_op_cost *cost = &trace->costs[block->ops[i].cost];
            ck_assert(cost->fixed_s == 0 && cost->flop == 1000 && cost->bytes == 64);
        }
    }
    cs_trace_free(trace);
}
END_TEST

/* Two stages, numbered micro-batch by micro-batch. A fixed order by number would leave stage 0 idle while its
 * first micro-batch is away; ready nodes go first. */
START_TEST(test_order_is_dynamic)
{
    static const struct node first[] = {{.id = 1, .type = COMP, .us = 100},
                                        {.id = 2, .n_deps = 1, .deps = {1}, SEND_TO(1, 1000, 1)},
                                        {.id = 3, RECV_FROM(1, 1000, 11)},
                                        {.id = 4, .type = COMP, .us = 200, .n_deps = 1, .deps = {3}},
                                        {.id = 5, .type = COMP, .us = 100},
                                        {.id = 6, .n_deps = 1, .deps = {5}, SEND_TO(1, 1000, 2)},
                                        {.id = 7, RECV_FROM(1, 1000, 12)},
                                        {.id = 8, .type = COMP, .us = 200, .n_deps = 1, .deps = {7}},
                                        END_OF_NODES};
    static const struct node second[] = {{.id = 3, RECV_FROM(0, 1000, 1)},
                                         {.id = 4, .type = COMP, .us = 300, .n_deps = 1, .deps = {3}},
                                         {.id = 5, .n_deps = 1, .deps = {4}, SEND_TO(0, 1000, 11)},
                                         {.id = 6, RECV_FROM(0, 1000, 2)},
                                         {.id = 7, .type = COMP, .us = 300, .n_deps = 1, .deps = {6}},
                                         {.id = 8, .n_deps = 1, .deps = {7}, SEND_TO(0, 1000, 12)},
                                         END_OF_NODES};
    struct files files = {0};
    add_rank(&files, first);
    add_rank(&files, second);
    struct cs_trace *trace = read_well(&files, NULL, NULL);
    /* Receives wait on the compute stream, in front of what needs them. */
    ck_assert_str_eq(order_of(trace, 0, 0), "n1 n5 n3 n4 n7 n8");
    ck_assert_str_eq(order_of(trace, 1, 0), "n3 n4 n6 n7");
    ck_assert_int_eq(trace->n_streams, 3);
    ck_assert_int_eq(trace->n_chans, 4); /* a distance and a tag each */
    ck_assert_int_eq(trace->chans[0].peer[1], 0);
    ck_assert_int_eq(trace->chans[2].source[1], 0);
    cs_trace_free(trace);
}
END_TEST

/* Messages of a pair are matched by tag, wherever they stand; with one tag, in order. A receive with
 * dependencies holds back what follows it, not what comes after on its channel. One that nothing needs makes
 * the receives of its distance and tag a stream of their own; those of another tag do not mind. */
START_TEST(test_messages)
{
    static const struct node first[] = {{.id = 1, .type = COMP, .us = 10},
                                        {.id = 2, .n_deps = 1, .deps = {1}, SEND_TO(1, 100, 5)},
                                        {.id = 3, SEND_TO(1, 200, 6)},
                                        {.id = 4, .n_deps = 1, .deps = {1}, SEND_TO(1, 300, 6)},
                                        END_OF_NODES};
    static const struct node second[] = {{.id = 1, .type = COMP, .us = 50},
                                         {.id = 2, .n_deps = 1, .deps = {1}, RECV_FROM(0, 100, 5)},
                                         {.id = 3, RECV_FROM(0, 200, 6)},
                                         {.id = 4, RECV_FROM(0, 300, 6)},
                                         {.id = 5, .type = COMP, .us = 1, .n_deps = 1, .deps = {3}},
                                         {.id = 6, .type = COMP, .us = 1, .n_deps = 1, .deps = {2}},
                                         END_OF_NODES};
    struct files files = {0};
    add_rank(&files, first);
    add_rank(&files, second);
    struct cs_trace *trace = read_well(&files, NULL, NULL);
    int32_t from = trace->chans[0].stream + 1;
    ck_assert_str_eq(order_of(trace, 0, trace->chans[0].stream), "n3 n2 n4");
    ck_assert_int_eq(trace->chans[1].stream, trace->chans[0].stream);
    ck_assert_str_eq(order_of(trace, 1, from), "n3 n4");
    ck_assert_str_eq(order_of(trace, 1, 0), "n1 n5 n2 n6");
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_many_tags)
{
    /* A tag for each message: too many to be told apart, so one channel for all of a distance. */
    enum { N = 70 };
    static struct node first[N + 1];
    static struct node second[N + 1];
    for (int32_t i = 0; i < N; i++) {
        first[i] = (struct node){.id = (uint64_t)i + 1, SEND_TO(1, 8, i)};
        second[i] = (struct node){.id = (uint64_t)i + 1, RECV_FROM(0, 8, i)};
    }
    first[N] = second[N] = (struct node)END_OF_NODES;
    struct files files = {0};
    add_rank(&files, first);
    add_rank(&files, second);
    struct cs_trace *trace = read_well(&files, NULL, NULL);
    ck_assert_int_eq(trace->n_chans, 1);
    ck_assert_str_eq(trace->chans[0].name, "to +1");
    ck_assert_int_eq(count_ops(trace, 1, CS_OP_RECV), N);
    cs_trace_free(trace);
}
END_TEST

static const char groups_json[] = "{\"1\": [0, 1], \"2\": [3, 2], \"3\": [0, 2], \"4\": [1, 3]}";

static void add_grouped(struct files *files, int32_t rank)
{
    const char *row = rank < 2 ? "1" : "2";
    const char *column = rank % 2 == 0 ? "3" : "4";
    const struct node nodes[] = {
        {.id = 1, COLLECTIVE(0, 800, row)},
        {.id = 2, .n_deps = 1, .deps = {1}, COLLECTIVE(2, 100, column)}, /* all-gather: what one gives */
        {.id = 3, .n_deps = 1, .deps = {2}, COLLECTIVE(9, 0, "")},       /* barrier of all */
        {.id = 4, .n_deps = 1, .deps = {3}, COLLECTIVE(7, 400, "0")},    /* all, by another name */
        {.id = 5, .type = COMP, .us = 5, .n_deps = 1, .deps = {4}},
        END_OF_NODES};
    add_rank(files, nodes);
}

START_TEST(test_groups)
{
    struct files files = {0};
    struct cs_chakra_notes notes;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_grouped(&files, rank);
    }
    struct cs_trace *trace = read_well(&files, groups_json, &notes);
    /* All, the columns together, and each row by itself, since their members are at different distances. */
    ck_assert_int_eq(trace->n_comms, 4);
    ck_assert_int_eq(trace->n_programs, 2); /* a row each: they are in different communicators */
    ck_assert_int_eq(notes.n_barriers, 4);
    const struct cs_comm *rows = &trace->comms[0];
    ck_assert(rows->n_groups == 1 && rows->members[0] == 0 && rows->members[1] == 1);
    const struct cs_comm *columns = &trace->comms[1];
    ck_assert_int_eq(columns->n_groups, 2);
    ck_assert(columns->members[0] == 0 && columns->members[1] == 2 && columns->members[3] == 3);
    const struct cs_block *block = &trace->blocks[0];
    int32_t n = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COLLECTIVE) {
            static const struct {
                enum cs_coll coll;
                int64_t bytes;
            } want[] = {{CS_COLL_ALL_REDUCE, 800},
                        {CS_COLL_ALL_GATHER, 200},
                        {CS_COLL_ALL_REDUCE, 0},
                        {CS_COLL_REDUCE_SCATTER, 400}};
            ck_assert_int_eq(op->coll, want[n].coll);
            ck_assert_int_eq(op->bytes, want[n].bytes);
            n++;
        }
    }
    ck_assert_int_eq(n, 4);
    cs_trace_free(trace);
}
END_TEST

/* A collective between two computations is on the compute stream, one beside it or beside another is not. */
START_TEST(test_blocking_collectives)
{
    struct files files = {0};
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct node nodes[] = {
            {.id = 1, .type = COMP, .us = 5},
            {.id = 2, .n_deps = 1, .deps = {1}, COLLECTIVE(0, 10, "1")},
            {.id = 3, .type = COMP, .us = 5, .n_deps = 1, .deps = {2}},
            {.id = 4, .n_deps = 1, .deps = {3}, COLLECTIVE(0, 10, "1")}, /* beside 5 */
            {.id = 5, .n_deps = 1, .deps = {3}, COLLECTIVE(0, 10, "2")},
            {.id = 6, .type = COMP, .us = 5, .n_deps = 2, .deps = {4, 5}},
            {.id = 7, .n_deps = 1, .deps = {6}, COLLECTIVE(0, 10, "3")}, /* beside 8 */
            {.id = 8, .type = COMP, .us = 5, .n_deps = 1, .deps = {6}},
            END_OF_NODES};
        add_rank(&files, nodes);
    }
    struct cs_trace *trace = read_well(&files, "{\"1\": [0, 1], \"2\": [0, 1], \"3\": [0, 1]}", NULL);
    ck_assert_str_eq(order_of(trace, 0, 0), "n1 n2 n3 n4 n6 n8");
    ck_assert_str_eq(order_of(trace, 0, trace->comms[1].stream), "n5");
    ck_assert_str_eq(order_of(trace, 0, trace->comms[2].stream), "n7");
    ck_assert_int_eq(count_ops(trace, 0, CS_OP_WAIT), 3); /* 5 for 3, 6 for 5, 7 for 6 */
    cs_trace_free(trace);
}
END_TEST

/* Groups that PyTorch's tracer puts into a metadata node, and an older attribute for their number. */
START_TEST(test_groups_in_metadata)
{
    struct files files = {0};
    static const char *const inputs[] = {
        "['[{\"pg_name\": \"7\", \"ranks\": [0, 1]}, {\"pg_name\": \"8\", \"ranks\": []}]']",
        "[\"[{\\\"pg_name\\\": \\\"7\\\", \\\"ranks\\\": [0, 1]}, {\\\"pg_name\\\": \\\"8\\\", "
        "\\\"ranks\\\": "
        "[]}]\"]"};
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct node nodes[] = {{.id = 1, .type = METADATA, .inputs = inputs[rank]},
                                     {.id = 2, COLLECTIVE(0, 10, "7")},
                                     {.id = 3,
                                      .type = COLL,
                                      .attrs = {{"comm_type", SINT64, 6, 0},
                                                {"comm_size", SINT64, 20, 0},
                                                {"comm_group", INT32, 8, 0}}},
                                     END_OF_NODES};
        add_rank(&files, nodes);
    }
    struct cs_trace *trace = read_well(&files, NULL, NULL);
    ck_assert_int_eq(trace->n_comms, 2);
    ck_assert_int_eq(trace->n_programs, 1);
    ck_assert_int_eq(count_ops(trace, 1, CS_OP_COLLECTIVE), 2);
    cs_trace_free(trace);
}
END_TEST

/* ---- refusals ---- */

static const struct refused {
    struct node nodes[3];
    const char *part;
} refused[] = {
    {{{.id = 1, .type = COMP, .us = 1, .n_deps = 1, .deps = {2}}},
     "node 1 'n1': depends on node 2, which is not in"},
    {{{.id = 1, .type = COMP, .us = 1}, {.id = 1, .type = COMP}}, "node 1 'n1': has the same number as 'n1'"},
    {{{.id = 1, .type = COMP, .us = 1, .n_deps = 1, .deps = {1}}}, "node 1 'n1': waits for itself: node 1"},
    {{{.id = 1, .type = COMP, .us = 1, .n_deps = 1, .deps = {2}},
      {.id = 2, .type = COMP, .us = 1, .n_ctrl = 1, .ctrl = {1}}},
     "waits for itself: node "},
    {{{.id = 1, .type = INVALID}}, "node 1 'n1': has type 0 (INVALID_NODE), or none"},
    {{{.id = 1, .type = 8}}, "node 1 'n1': has type 8, which is not known"},
    {{{.id = 1, .type = COLL}}, "has no attribute 'comm_type'"},
    {{{.id = 1, .type = COLL, .attrs = {{"comm_type", INT64, 10, 0}}}}, "'comm_type' is 10, expected 0 to 9"},
    {{{.id = 1, .type = COLL, .attrs = {{"comm_type", 0, 0, "x"}}}}, "'comm_type' is not a number"},
    {{{.id = 1, .type = COMP, .attrs = {{"num_ops", INT64, -5, 0}}}},
     "node 1 'n1': 'num_ops' is -5, expected 0 to 1e+24"},
    {{{.id = 1, .type = COMP, .attrs = {{"num_ops", DOUBLE, 0, "nan"}}}}, "'num_ops' is nan, expected 0"},
    {{{.id = 1, .type = COMP, .attrs = {{"num_ops", 0, 0, "many"}}}}, "'num_ops' is not a number"},
    {{{.id = 1, .type = COMP, .us = 3, .attrs = {{"tensor_size", INT64, -1, 0}}}}, "'tensor_size' is -1"},
    {{{.id = 1, .type = COMP, .attrs = {{"duration_s", DOUBLE, 0, "inf"}}}}, "'duration_s' is inf, expected"},
    {{{.id = 1, .type = LOAD, .attrs = {{"duration_s", DOUBLE, 0, "-1"}}}}, "'duration_s' is -1, expected"},
    {{{.id = 1, .type = COMP, .attrs = {{"duration_s", DOUBLE, 0, "1e300"}}}},
     "'duration_s' is 1e+300, expected 0 to 1e+09"},
    {{{.id = 1, .type = COMP, .us = 5, .attrs = {{"duration_s", DOUBLE, 0, "2"}}}},
     "'duration_s' is 2, but 'duration_micros' 5"},
    {{{.id = 1, .type = COMP, .us = UINT64_MAX}}, "'duration_micros' is 18446744073709551615, expected"},
    {{{.id = 1, COLLECTIVE(1, 5, "")}}, "is a reduce, which is not simulated"},
    {{{.id = 1, COLLECTIVE(0, -5, "")}}, "'comm_size' is -5"},
    {{{.id = 1, COLLECTIVE(0, 5, "9")}}, "is in process group '9', which neither"},
    {{{.id = 1, .type = SEND, .attrs = {{"comm_size", INT64, 5, 0}}}}, "has no attribute 'comm_dst'"},
    {{{.id = 1, SEND_TO(2, 5, 0)}}, "'comm_dst' is 2, expected 0 to 1"},
    {{{.id = 1, SEND_TO(0, 5, 0)}}, "is a message from rank 0 to itself"},
    {{{.id = 1, SEND_TO(1, 5, 7)}}, "node 1 'n1': sends to rank 1 with tag 7, but that rank has no receive"},
    {{{.id = 1, RECV_FROM(1, 5, 7)}},
     "node 1 'n1': receives from rank 1 with tag 7, but that rank has no send"},
    {{{.id = 1,
       .type = RECV,
       .attrs = {{"comm_src", INT32, 1, 0}, {"comm_size", INT64, 1, 0}, {"comm_dst", INT32, 1, 0}}}},
     "'comm_dst' is 1, expected 0 to 0"},
    {{{.id = 1, COLLECTIVE(0, 5, "")}}, "node 1 'n1': waits for ever for rank 1 in 'group of all'"},
};

START_TEST(test_refused)
{
    struct files files = {0};
    static const struct node nothing[] = {END_OF_NODES};
    const struct node nodes[] = {refused[_i].nodes[0], refused[_i].nodes[1], refused[_i].nodes[2],
                                 END_OF_NODES};
    add_rank(&files, nodes);
    add_rank(&files, nothing);
    assert_refused(&files, NULL, "t.0.et", refused[_i].part);
}
END_TEST

START_TEST(test_refused_together)
{
    struct files files = {0};
    /* Sizes that differ. */
    static const struct node send[] = {{.id = 1, SEND_TO(1, 5, 0)}, END_OF_NODES};
    static const struct node receive[] = {{.id = 4, RECV_FROM(0, 6, 0)}, END_OF_NODES};
    add_rank(&files, send);
    add_rank(&files, receive);
    assert_refused(&files, NULL, "t.1.et", "node 4 'n4': receives 6 bytes, but node 1 of rank 0 sends 5");
    /* Each waits for the other's message before it sends its own. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct node nodes[] = {{.id = 1, RECV_FROM(1 - rank, 5, 0)},
                                     {.id = 2, .n_deps = 1, .deps = {1}, SEND_TO(1 - rank, 5, 0)},
                                     END_OF_NODES};
        add_rank(&files, nodes);
    }
    assert_refused(&files, NULL, "t.0.et", "node 1 'n1': waits for ever for a message from rank 1");
    /* Two groups in opposite orders. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct node nodes[] = {{.id = 1, COLLECTIVE(0, 5, rank ? "1" : "2")},
                                     {.id = 2, .n_deps = 1, .deps = {1}, COLLECTIVE(0, 5, rank ? "2" : "1")},
                                     END_OF_NODES};
        add_rank(&files, nodes);
    }
    assert_refused(&files, "{\"1\": [0, 1], \"2\": [0, 1]}", "t.0.et",
                   "waits for ever for rank 1 in 'group 2'");
    /* Members that do not enter the same. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct node nodes[] = {{.id = 1, COLLECTIVE(0, 5 + rank, "")}, END_OF_NODES};
        add_rank(&files, nodes);
    }
    assert_refused(&files, NULL, "t.0.et", "5 bytes on rank 0");
    /* A rank outside its group; groups that are none. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct node nodes[] = {{.id = 1, COLLECTIVE(0, 5, "1")}, END_OF_NODES};
        add_rank(&files, nodes);
    }
    assert_refused(&files, "{\"1\": [0]}", "t.1.et", "is in process group '1', but rank 1 is not");
    static const struct node nothing[] = {END_OF_NODES};
    static const char *const bad[][2] = {{"{\"1\": [0, 0]}", "'1' is not a list of different ranks below 1"},
                                         {"{\"1\": [1]}", "'1' is not a list of different ranks"},
                                         {"{\"1\": \"x\"}", "'1' is not a list of different ranks"},
                                         {"[]", "the process groups must be"}};
    for (int32_t i = 0; i < CS_COUNT(bad); i++) {
        add_rank(&files, nothing);
        assert_refused(&files, bad[i][0], "process groups", bad[i][1]);
    }
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    add_rank(&files, nothing);
    ck_assert_fails(read_files(&files, "{\n\"1\": [0,}", &trace, NULL, &err), &err, CS_E_INPUT, 2, "");
}
END_TEST

static void assert_bytes_refused(const char *data, size_t bytes, const char *part)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    char *copy = malloc(bytes + 1); /* of that size, so that a read past the end is seen */
    memcpy(copy, data, bytes);
    struct cs_chakra_file file = {"t.0.et", copy, bytes};
    ck_assert_fails(cs_trace_read_chakra_files(&file, 1, NULL, &trace, NULL, &err), &err, CS_E_INPUT, 0,
                    part);
    ck_assert_str_eq(err.file, "t.0.et");
    free(copy);
}
#define BYTES_REFUSED(data, part) assert_bytes_refused(data, sizeof(data) - 1, part)

START_TEST(test_broken_bytes)
{
    BYTES_REFUSED("", "the file is empty");
    BYTES_REFUSED("\x80", "byte 0 is broken: its length is cut off");
    BYTES_REFUSED("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "its length is cut off or too long");
    BYTES_REFUSED("\xff\xff\xff\xff\x7f", "it says 34359738367 bytes, 0 are left");
    BYTES_REFUSED("\x05\x0a", "it says 5 bytes, 1 are left");
    BYTES_REFUSED("\x07\x0a\x05"
                  "9.9.9",
                  "version '9.9.9' of the Chakra schema is not known: expected 0.0.4");
    BYTES_REFUSED("\x02\x08\x01", "it is not the metadata of a trace");
    BYTES_REFUSED("\x02\x0a\x05", "a field is longer than the message");
    BYTES_REFUSED("\x00\x01\x08", "byte 1 is broken: a number is cut off");
    BYTES_REFUSED("\x00\x01\x80", "a field's number is cut off");
    BYTES_REFUSED("\x00\x01\x00", "no valid number");
    BYTES_REFUSED("\x00\x02\x0b\x00", "a type that is not known");
    BYTES_REFUSED("\x00\x02\x0a\x00", "another type than a node's");
    BYTES_REFUSED("\x00\x03\x2a\x01\x80", "a dependency is cut off");
    BYTES_REFUSED("\x00\x05\x2d\x01\x02\x03\x04", "a dependency is not a number");
    BYTES_REFUSED("\x00\x03\x52\x02\x48", "a field is longer than");
    BYTES_REFUSED("\x00\x04\x52\x02\x4a\x00", "another type than its field");
    BYTES_REFUSED("\x00\x03\x2d\x01\x02", "32 bits is cut off");
    BYTES_REFUSED("\x00\x03\x29\x01\x02", "64 bits is cut off");
}
END_TEST

/* What others named with bytes that a terminal or a JSON file does not take is shown without them. */
START_TEST(test_shown_names)
{
    /* Version; node 1, computing of 3 microseconds. */
    static const char data[] = "\x00\x0e\x08\x01\x12\x06\x1b[3\xff\xc3\xa4\x18\x04\x38\x03";
    struct cs_chakra_file file = {"t.0.et", data, sizeof data - 1};
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    ck_assert_ok(cs_trace_read_chakra_files(&file, 1, NULL, &trace, NULL, &err), &err);
    ck_assert_int_eq(trace->n_labels, 1);
    ck_assert_str_eq(trace->labels[0], "?[3?\xc3\xa4");
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_folders)
{
    char dir[64];
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    scratch_open(dir);
    ck_assert_fails(cs_trace_read(dir, &trace, NULL, &err), &err, CS_E_INPUT, 0, "neither binding.txt nor");
    static const char *const others[] = {"x.et", "x.01.et", ".0.et", "x.0.et.gz", "x.-1.et", "x.1234567.et"};
    for (int32_t i = 0; i < CS_COUNT(others); i++) {
        scratch_write(dir, others[i], "", 0);
    }
    ck_assert_fails(cs_trace_read(dir, &trace, NULL, &err), &err, CS_E_INPUT, 0, "neither binding.txt nor");
    scratch_write(dir, "x.1.et", "\x00", 1);
    ck_assert_fails(cs_trace_read(dir, &trace, NULL, &err), &err, CS_E_INPUT, 0, "'x.0.et' is missing");
    scratch_write(dir, "x.0.et", "\x00", 1);
    ck_assert_ok(cs_trace_read(dir, &trace, NULL, &err), &err);
    ck_assert_int_eq(trace->n_ranks, 2);
    cs_trace_free(trace);
    scratch_write(dir, "comm_group.json", "[", 1);
    ck_assert_fails(cs_trace_read(dir, &trace, NULL, &err), &err, CS_E_INPUT, 1, "");
    ck_assert_ptr_nonnull(strstr(err.file, "comm_group.json"));
    scratch_write(dir, "y.0.et", "", 0);
    ck_assert_fails(cs_trace_read(dir, &trace, NULL, &err), &err, CS_E_INPUT, 0, "holds two traces");
    scratch_write(dir, "x.99999.et", "", 0);
    scratch_close(dir);
    ck_assert_fails(cs_trace_read(dir, &trace, NULL, &err), &err, CS_E_INPUT, 0, "cannot be read");
}
END_TEST

/* ---- writing ---- */

static double op_time(const void *context, int32_t rank, const struct cs_op_cost *cost)
{
    (void)rank;
    return cost->flop * *(const double *)context;
}

static size_t load(const char *dir, const char *name, char *data, size_t max)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *stream = fopen(path, "rb");
    ck_assert_ptr_nonnull(stream);
    size_t bytes = fread(data, 1, max, stream);
    fclose(stream);
    return bytes;
}

static const char *find_bytes(const char *data, size_t bytes, const struct cs_strbuf *wanted)
{
    for (size_t at = 0; at + wanted->len <= bytes; at++) {
        if (memcmp(data + at, wanted->text, wanted->len) == 0) {
            return data + at;
        }
    }
    return NULL;
}

/* The bytes of a small trace: two ranks, an all-reduce, a message. */
START_TEST(test_written_bytes)
{
    char scratch[64];
    char dir[96];
    char data[4096];
    struct cs_err err = {0};
    double s_per_flop = 1e-6;
    scratch_open(scratch);
    snprintf(dir, sizeof dir, "%s/trace", scratch);
    struct handmade shape = {1, 1, 2, 1, true, 5.2, 2, 0, 300, 0};
    struct cs_trace *trace = handmade_trace(&shape);
    ck_assert_ok(cs_trace_write_chakra(trace, op_time, &s_per_flop, dir, &err), &err);
    ck_assert_int_eq(scratch_count(dir), 3);

    /* Halves of 2.6 us: 3 and 2 microseconds, so that the sum is as near as can be. */
    const double half_s = 5.2 / 2 * s_per_flop;
    struct cs_strbuf want = {0};
    struct cs_strbuf body = {0};
    struct cs_strbuf attr = {0};
    static const char schema[] = "clustersim-chakra.0.0.4";
    text(&body, 1, "0.0.4", 5);
    text(&attr, 1, "schema", 6);
    text(&attr, 29, schema, strlen(schema));
    text(&body, 2, attr.text, attr.len);
    message(&want, &body);
    for (uint64_t i = 0; i < 2; i++) {
        number(&body, 1, i);
        text(&body, 2, "op", 2);
        number(&body, 3, COMP);
        if (i > 0) {
            text(&body, 5, "\0", 1);
        }
        attr.len = 0;
        text(&attr, 1, "is_cpu_op", 9);
        number(&attr, 27, 0);
        text(&body, 10, attr.text, attr.len);
        number(&body, 7, i == 0 ? 3 : 2);
        attr.len = 0;
        text(&attr, 1, "num_ops", 7);
        number(&attr, 9, 3);
        text(&body, 10, attr.text, attr.len);
        attr.len = 0;
        text(&attr, 1, "tensor_size", 11);
        number(&attr, 13, 0);
        text(&body, 10, attr.text, attr.len);
        attr.len = 0;
        text(&attr, 1, "duration_s", 10);
        cs_strbuf_addn(&attr, "\x19", 1); /* field 3, 64 bits */
        cs_strbuf_addn(&attr, (const char *)&half_s, sizeof half_s);
        text(&body, 10, attr.text, attr.len);
        message(&want, &body);
    }
    size_t bytes = load(dir, "trace.0.et", data, sizeof data);
    ck_assert_uint_gt(bytes, want.len);
    ck_assert(memcmp(data, want.text, want.len) == 0);
    cs_strbuf_release(&want);
    cs_strbuf_release(&attr);

    bytes = load(dir, "trace.json", data, sizeof data);
    data[bytes] = '\0';
    ck_assert_str_eq(data, "{\n\"1\": [0],\n\"2\": [1],\n\"3\": [0],\n\"4\": [1]\n}\n");
    handmade_free(trace);
    scratch_close(scratch);
}
END_TEST

/* Copies between host and device: a collective of the rank alone, so that ASTRA-sim runs them beside
 * computing (its statistics stop at work of the host), and read again as what they are. */
START_TEST(test_host_copies)
{
    char scratch[64];
    char dir[96];
    char data[4096];
    struct cs_err err = {0};
    struct cs_trace *read = NULL;
    struct cs_chakra_notes notes = {0};
    double s_per_flop = 1e-6;
    scratch_open(scratch);
    snprintf(dir, sizeof dir, "%s/trace", scratch);
    struct handmade shape = {1, 2, 1, 1, true, 5.2, 2, 0, 0, 300};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_block *block = &trace->blocks[trace->programs[0].calls[0].block];
    int32_t n_copies = 0;
    for (int32_t i = 0; i < block->n_ops && n_copies == 0; i++) {
        if (block->ops[i].type == CS_OP_COMPUTE) {
            block->ops[i].stream = 1;
            n_copies++;
        }
    }
    ck_assert_int_eq(n_copies, 1);
    ck_assert_ok(cs_trace_write_chakra(trace, op_time, &s_per_flop, dir, &err), &err);
    size_t bytes = load(dir, "trace.0.et", data, sizeof data);
    struct cs_strbuf wanted = {0};
    struct cs_strbuf attr = {0};
    text(&attr, 1, "is_host_copy", 12);
    number(&attr, BOOL, 1);
    text(&wanted, 10, attr.text, attr.len);
    ck_assert_ptr_nonnull(find_bytes(data, bytes, &wanted));
    wanted.len = attr.len = 0;
    text(&attr, 1, "is_cpu_op", 9);
    number(&attr, BOOL, 1);
    text(&wanted, 10, attr.text, attr.len);
    ck_assert_ptr_null(find_bytes(data, bytes, &wanted));
    cs_strbuf_release(&wanted);
    cs_strbuf_release(&attr);
    bytes = load(dir, "trace.json", data, sizeof data);
    data[bytes] = '\0';
    ck_assert_ptr_nonnull(strstr(data, "[0],"));
    ck_assert_ptr_nonnull(strstr(data, "[1],"));
    ck_assert_ok(cs_trace_read(dir, &read, &notes, &err), &err);
    ck_assert_int_eq(notes.n_host, 2); /* one a rank */
    ck_assert_str_eq(read->stream_names[1], "host");
    cs_trace_free(read);
    handmade_free(trace);
    scratch_close(scratch);
}
END_TEST

/* What dependencies cannot say, and times that are none, leave nothing behind. */
START_TEST(test_unwritable)
{
    char scratch[64];
    char dir[96];
    struct cs_err err = {0};
    double s_per_flop = -1;
    scratch_open(scratch);
    snprintf(dir, sizeof dir, "%s/trace", scratch);
    struct handmade shape = {1, 2, 1, 1, true, 1, 2, 0, 0, 300};
    struct cs_trace *trace = handmade_trace(&shape);
    ck_assert_fails(cs_trace_write_chakra(trace, op_time, &s_per_flop, dir, &err), &err, CS_E_INPUT, 0,
                    "operation 'op' takes -0.5 s on rank 0");
    s_per_flop = 1e30;
    ck_assert_fails(cs_trace_write_chakra(trace, op_time, &s_per_flop, dir, &err), &err, CS_E_INPUT, 0,
                    "takes");
    ck_assert_int_eq(scratch_count(scratch), 0);
    static const char *const names[][2] = {{"\x1b[31m", "a control character"}, {"\xff", "is no UTF-8"}};
    for (int32_t i = 0; i < CS_COUNT(names); i++) {
        const char *labels[] = {names[i][0]};
        const char **kept = trace->labels;
        trace->labels = labels;
        ck_assert_fails(cs_trace_write_chakra(trace, op_time, &s_per_flop, dir, &err), &err, CS_E_INPUT, 0,
                        names[i][1]);
        trace->labels = kept;
    }
    /* The event of the gradient, recorded by the other stream as well. */
    s_per_flop = 1;
    struct cs_block *block = &trace->blocks[2];
    for (int32_t i = 0; i < block->n_ops; i++) {
        if (block->ops[i].type == CS_OP_COLLECTIVE) {
            block->ops[block->n_ops++] =
                (struct cs_op){.type = CS_OP_RECORD, .stream = block->ops[i].stream, .comm = 2, .layer = -1};
            break;
        }
    }
    ck_assert_fails(cs_trace_write_chakra(trace, op_time, &s_per_flop, dir, &err), &err, CS_E_INPUT, 0,
                    "records event 'gradient ready' from two streams");
    ck_assert_int_eq(scratch_count(scratch), 0);
    handmade_free(trace);
    scratch_close(scratch);
}
END_TEST

static Suite *chakra_suite(void)
{
    Suite *suite = suite_create("chakra");
    TCase *tc = tcase_create("read");
    tcase_add_test(tc, test_computing);
    tcase_add_test(tc, test_order_is_dynamic);
    tcase_add_test(tc, test_messages);
    tcase_add_test(tc, test_many_tags);
    tcase_add_test(tc, test_groups);
    tcase_add_test(tc, test_blocking_collectives);
    tcase_add_test(tc, test_groups_in_metadata);
    tcase_add_loop_test(tc, test_refused, 0, CS_COUNT(refused));
    tcase_add_test(tc, test_refused_together);
    tcase_add_test(tc, test_broken_bytes);
    tcase_add_test(tc, test_shown_names);
    tcase_add_test(tc, test_folders);
    suite_add_tcase(suite, tc);
    tc = tcase_create("write");
    tcase_add_test(tc, test_written_bytes);
    tcase_add_test(tc, test_host_copies);
    tcase_add_test(tc, test_unwritable);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(chakra_suite)
