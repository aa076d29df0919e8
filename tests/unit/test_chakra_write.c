/* Chakra execution traces: what is written, byte by byte. */
#include "chakra_bytes.h"
#include "cs_test.h"
#include "handmade.h"
#include "scratch.h"

#include <stdio.h>

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
    et_text(&body, 1, "0.0.4", 5);
    et_text(&attr, 1, "schema", 6);
    et_text(&attr, 29, schema, strlen(schema));
    et_text(&body, 2, attr.text, attr.len);
    et_message(&want, &body);
    for (uint64_t i = 0; i < 2; i++) {
        et_number(&body, 1, i);
        et_text(&body, 2, "op", 2);
        et_number(&body, 3, COMP);
        if (i > 0) {
            et_text(&body, 5, "\0", 1);
        }
        attr.len = 0;
        et_text(&attr, 1, "is_cpu_op", 9);
        et_number(&attr, 27, 0);
        et_text(&body, 10, attr.text, attr.len);
        et_number(&body, 7, i == 0 ? 3 : 2);
        attr.len = 0;
        et_text(&attr, 1, "num_ops", 7);
        et_number(&attr, 9, 3);
        et_text(&body, 10, attr.text, attr.len);
        attr.len = 0;
        et_text(&attr, 1, "tensor_size", 11);
        et_number(&attr, 13, 0);
        et_text(&body, 10, attr.text, attr.len);
        attr.len = 0;
        et_text(&attr, 1, "duration_s", 10);
        cs_strbuf_addn(&attr, "\x19", 1); /* field 3, 64 bits */
        cs_strbuf_addn(&attr, (const char *)&half_s, sizeof half_s);
        et_text(&body, 10, attr.text, attr.len);
        et_message(&want, &body);
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
    et_text(&attr, 1, "is_host_copy", 12);
    et_number(&attr, BOOL, 1);
    et_text(&wanted, 10, attr.text, attr.len);
    ck_assert_ptr_nonnull(find_bytes(data, bytes, &wanted));
    wanted.len = attr.len = 0;
    et_text(&attr, 1, "is_cpu_op", 9);
    et_number(&attr, BOOL, 1);
    et_text(&wanted, 10, attr.text, attr.len);
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

static Suite *write_suite(void)
{
    Suite *suite = suite_create("chakra write");
    TCase *tc = tcase_create("write");
    tcase_add_test(tc, test_written_bytes);
    tcase_add_test(tc, test_host_copies);
    tcase_add_test(tc, test_unwritable);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(write_suite)
