/* Chakra execution traces: what is read, from nodes put together by hand. */
#include "chakra_bytes.h"
#include "cs_test.h"

#include <stdio.h>

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

START_TEST(test_computing)
{
    static const struct et_node nodes[] = {
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
    struct et_files files = {0};
    struct cs_chakra_notes notes;
    et_add_rank(&files, nodes);
    struct cs_trace *trace = et_read_well(&files, NULL, &notes);
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
    static const struct et_node first[] = {{.id = 1, .type = COMP, .us = 100},
                                           {.id = 2, .n_deps = 1, .deps = {1}, SEND_TO(1, 1000, 1)},
                                           {.id = 3, RECV_FROM(1, 1000, 11)},
                                           {.id = 4, .type = COMP, .us = 200, .n_deps = 1, .deps = {3}},
                                           {.id = 5, .type = COMP, .us = 100},
                                           {.id = 6, .n_deps = 1, .deps = {5}, SEND_TO(1, 1000, 2)},
                                           {.id = 7, RECV_FROM(1, 1000, 12)},
                                           {.id = 8, .type = COMP, .us = 200, .n_deps = 1, .deps = {7}},
                                           END_OF_NODES};
    static const struct et_node second[] = {{.id = 3, RECV_FROM(0, 1000, 1)},
                                            {.id = 4, .type = COMP, .us = 300, .n_deps = 1, .deps = {3}},
                                            {.id = 5, .n_deps = 1, .deps = {4}, SEND_TO(0, 1000, 11)},
                                            {.id = 6, RECV_FROM(0, 1000, 2)},
                                            {.id = 7, .type = COMP, .us = 300, .n_deps = 1, .deps = {6}},
                                            {.id = 8, .n_deps = 1, .deps = {7}, SEND_TO(0, 1000, 12)},
                                            END_OF_NODES};
    struct et_files files = {0};
    et_add_rank(&files, first);
    et_add_rank(&files, second);
    struct cs_trace *trace = et_read_well(&files, NULL, NULL);
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
    static const struct et_node first[] = {{.id = 1, .type = COMP, .us = 10},
                                           {.id = 2, .n_deps = 1, .deps = {1}, SEND_TO(1, 100, 5)},
                                           {.id = 3, SEND_TO(1, 200, 6)},
                                           {.id = 4, .n_deps = 1, .deps = {1}, SEND_TO(1, 300, 6)},
                                           END_OF_NODES};
    static const struct et_node second[] = {{.id = 1, .type = COMP, .us = 50},
                                            {.id = 2, .n_deps = 1, .deps = {1}, RECV_FROM(0, 100, 5)},
                                            {.id = 3, RECV_FROM(0, 200, 6)},
                                            {.id = 4, RECV_FROM(0, 300, 6)},
                                            {.id = 5, .type = COMP, .us = 1, .n_deps = 1, .deps = {3}},
                                            {.id = 6, .type = COMP, .us = 1, .n_deps = 1, .deps = {2}},
                                            END_OF_NODES};
    struct et_files files = {0};
    et_add_rank(&files, first);
    et_add_rank(&files, second);
    struct cs_trace *trace = et_read_well(&files, NULL, NULL);
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
    static struct et_node first[N + 1];
    static struct et_node second[N + 1];
    for (int32_t i = 0; i < N; i++) {
        first[i] = (struct et_node){.id = (uint64_t)i + 1, SEND_TO(1, 8, i)};
        second[i] = (struct et_node){.id = (uint64_t)i + 1, RECV_FROM(0, 8, i)};
    }
    first[N] = second[N] = (struct et_node)END_OF_NODES;
    struct et_files files = {0};
    et_add_rank(&files, first);
    et_add_rank(&files, second);
    struct cs_trace *trace = et_read_well(&files, NULL, NULL);
    ck_assert_int_eq(trace->n_chans, 1);
    ck_assert_str_eq(trace->chans[0].name, "to +1");
    ck_assert_int_eq(count_ops(trace, 1, CS_OP_RECV), N);
    cs_trace_free(trace);
}
END_TEST

static const char groups_json[] = "{\"1\": [0, 1], \"2\": [3, 2], \"3\": [0, 2], \"4\": [1, 3]}";

static void add_grouped(struct et_files *files, int32_t rank)
{
    const char *row = rank < 2 ? "1" : "2";
    const char *column = rank % 2 == 0 ? "3" : "4";
    const struct et_node nodes[] = {
        {.id = 1, COLLECTIVE(0, 800, row)},
        {.id = 2, .n_deps = 1, .deps = {1}, COLLECTIVE(2, 100, column)}, /* all-gather: what one gives */
        {.id = 3, .n_deps = 1, .deps = {2}, COLLECTIVE(9, 0, "")},       /* barrier of all */
        {.id = 4, .n_deps = 1, .deps = {3}, COLLECTIVE(7, 400, "0")},    /* all, by another name */
        {.id = 5, .type = COMP, .us = 5, .n_deps = 1, .deps = {4}},
        END_OF_NODES};
    et_add_rank(files, nodes);
}

START_TEST(test_groups)
{
    struct et_files files = {0};
    struct cs_chakra_notes notes;
    for (int32_t rank = 0; rank < 4; rank++) {
        add_grouped(&files, rank);
    }
    struct cs_trace *trace = et_read_well(&files, groups_json, &notes);
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
    struct et_files files = {0};
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct et_node nodes[] = {
            {.id = 1, .type = COMP, .us = 5},
            {.id = 2, .n_deps = 1, .deps = {1}, COLLECTIVE(0, 10, "1")},
            {.id = 3, .type = COMP, .us = 5, .n_deps = 1, .deps = {2}},
            {.id = 4, .n_deps = 1, .deps = {3}, COLLECTIVE(0, 10, "1")}, /* beside 5 */
            {.id = 5, .n_deps = 1, .deps = {3}, COLLECTIVE(0, 10, "2")},
            {.id = 6, .type = COMP, .us = 5, .n_deps = 2, .deps = {4, 5}},
            {.id = 7, .n_deps = 1, .deps = {6}, COLLECTIVE(0, 10, "3")}, /* beside 8 */
            {.id = 8, .type = COMP, .us = 5, .n_deps = 1, .deps = {6}},
            END_OF_NODES};
        et_add_rank(&files, nodes);
    }
    struct cs_trace *trace = et_read_well(&files, "{\"1\": [0, 1], \"2\": [0, 1], \"3\": [0, 1]}", NULL);
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
    struct et_files files = {0};
    static const char *const inputs[] = {
        "['[{\"pg_name\": \"7\", \"ranks\": [0, 1]}, {\"pg_name\": \"8\", \"ranks\": []}]']",
        "[\"[{\\\"pg_name\\\": \\\"7\\\", \\\"ranks\\\": [0, 1]}, {\\\"pg_name\\\": \\\"8\\\", "
        "\\\"ranks\\\": "
        "[]}]\"]"};
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct et_node nodes[] = {{.id = 1, .type = METADATA, .inputs = inputs[rank]},
                                        {.id = 2, COLLECTIVE(0, 10, "7")},
                                        {.id = 3,
                                         .type = COLL,
                                         .attrs = {{"comm_type", SINT64, 6, 0},
                                                   {"comm_size", SINT64, 20, 0},
                                                   {"comm_group", INT32, 8, 0}}},
                                        END_OF_NODES};
        et_add_rank(&files, nodes);
    }
    struct cs_trace *trace = et_read_well(&files, NULL, NULL);
    ck_assert_int_eq(trace->n_comms, 2);
    ck_assert_int_eq(trace->n_programs, 1);
    ck_assert_int_eq(count_ops(trace, 1, CS_OP_COLLECTIVE), 2);
    cs_trace_free(trace);
}
END_TEST

/* ---- refusals ---- */

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
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(chakra_suite)
