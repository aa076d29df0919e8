/* Chakra execution traces: everything that can be wrong in them. */
#include "chakra_bytes.h"
#include "cs_test.h"
#include "scratch.h"

#include <stdio.h>

static void assert_refused(struct et_files *files, const char *groups, const char *file, const char *part)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    ck_assert_fails(et_read(files, groups, &trace, NULL, &err), &err, CS_E_INPUT, 0, part);
    ck_assert_str_eq(err.file, file);
    ck_assert_ptr_null(trace);
}

static const struct refused {
    struct et_node nodes[3];
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
    {{{.id = 1,
       .type = COLL,
       .attrs = {{"comm_type", INT64, 0, 0}, {"comm_size", INT64, 5, 0}, {"is_host_copy", BOOL, 1, 0}}}},
     "node 1 'n1': has 'is_host_copy' and is over 2 ranks"},
    {{{.id = 1,
       .type = SEND,
       .attrs = {{"comm_dst", INT32, 1, 0}, {"comm_size", INT64, 5, 0}, {"is_host_copy", BOOL, 1, 0}}}},
     "is a message with 'is_host_copy'"},
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
    struct et_files files = {0};
    static const struct et_node nothing[] = {END_OF_NODES};
    const struct et_node nodes[] = {refused[_i].nodes[0], refused[_i].nodes[1], refused[_i].nodes[2],
                                    END_OF_NODES};
    et_add_rank(&files, nodes);
    et_add_rank(&files, nothing);
    assert_refused(&files, NULL, "t.0.et", refused[_i].part);
}
END_TEST

START_TEST(test_refused_together)
{
    struct et_files files = {0};
    /* Sizes that differ. */
    static const struct et_node send[] = {{.id = 1, SEND_TO(1, 5, 0)}, END_OF_NODES};
    static const struct et_node receive[] = {{.id = 4, RECV_FROM(0, 6, 0)}, END_OF_NODES};
    et_add_rank(&files, send);
    et_add_rank(&files, receive);
    assert_refused(&files, NULL, "t.1.et", "node 4 'n4': receives 6 bytes, but node 1 of rank 0 sends 5");
    /* Each waits for the other's message before it sends its own. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct et_node nodes[] = {{.id = 1, RECV_FROM(1 - rank, 5, 0)},
                                        {.id = 2, .n_deps = 1, .deps = {1}, SEND_TO(1 - rank, 5, 0)},
                                        END_OF_NODES};
        et_add_rank(&files, nodes);
    }
    assert_refused(&files, NULL, "t.0.et", "node 1 'n1': waits for ever for a message from rank 1");
    /* Two groups in opposite orders. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct et_node nodes[] = {
            {.id = 1, COLLECTIVE(0, 5, rank ? "1" : "2")},
            {.id = 2, .n_deps = 1, .deps = {1}, COLLECTIVE(0, 5, rank ? "2" : "1")},
            END_OF_NODES};
        et_add_rank(&files, nodes);
    }
    assert_refused(&files, "{\"1\": [0, 1], \"2\": [0, 1]}", "t.0.et",
                   "waits for ever for rank 1 in 'group 2'");
    /* Members that do not enter the same. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct et_node nodes[] = {{.id = 1, COLLECTIVE(0, 5 + rank, "")}, END_OF_NODES};
        et_add_rank(&files, nodes);
    }
    assert_refused(&files, NULL, "t.0.et", "5 bytes on rank 0");
    /* A rank outside its group; groups that are none. */
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct et_node nodes[] = {{.id = 1, COLLECTIVE(0, 5, "1")}, END_OF_NODES};
        et_add_rank(&files, nodes);
    }
    assert_refused(&files, "{\"1\": [0]}", "t.1.et", "is in process group '1', but rank 1 is not");
    static const struct et_node nothing[] = {END_OF_NODES};
    static const char *const bad[][2] = {{"{\"1\": [0, 0]}", "'1' is not a list of different ranks below 1"},
                                         {"{\"1\": [1]}", "'1' is not a list of different ranks"},
                                         {"{\"1\": \"x\"}", "'1' is not a list of different ranks"},
                                         {"[]", "the process groups must be"}};
    for (int32_t i = 0; i < CS_COUNT(bad); i++) {
        et_add_rank(&files, nothing);
        assert_refused(&files, bad[i][0], "process groups", bad[i][1]);
    }
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    et_add_rank(&files, nothing);
    ck_assert_fails(et_read(&files, "{\n\"1\": [0,}", &trace, NULL, &err), &err, CS_E_INPUT, 2, "");
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

static Suite *refused_suite(void)
{
    Suite *suite = suite_create("chakra refused");
    TCase *tc = tcase_create("read");
    tcase_add_loop_test(tc, test_refused, 0, CS_COUNT(refused));
    tcase_add_test(tc, test_refused_together);
    tcase_add_test(tc, test_broken_bytes);
    tcase_add_test(tc, test_shown_names);
    tcase_add_test(tc, test_folders);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(refused_suite)
