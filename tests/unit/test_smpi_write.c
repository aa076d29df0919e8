/* What is written for SMPI, file by file; test_smpi.c replays it. */
#include "cs_test.h"
#include "handmade.h"
#include "scratch.h"

#include "cs/workloads/format.h"

#include <stdio.h>

static char scratch[64];
static char dir[96];

static void set_up(void)
{
    scratch_open(scratch);
    snprintf(dir, sizeof dir, "%s/trace", scratch);
}

static void tear_down(void)
{
    scratch_close(scratch);
}

static double op_time(const void *context, int32_t rank, const struct cs_op_cost *cost)
{
    (void)context;
    (void)rank;
    return cost->flop;
}

/* Two rounds around a ring of halves, then a message of less than a byte. */
static cs_status coll_messages(const void *context, enum cs_coll coll, const int32_t *members,
                               int32_t n_members, double bytes, struct cs_arena *arena,
                               struct cs_coll_messages *messages, struct cs_err *err)
{
    (void)coll;
    (void)members;
    if (context) {
        return cs_err_set(err, CS_E_INPUT, CS_NOLOC, "no algorithm");
    }
    struct cs_coll_message *ring = CS_ARENA_NEW(arena, struct cs_coll_message, n_members);
    for (int32_t i = 0; i < n_members; i++) {
        ring[i] = (struct cs_coll_message){i, (i + 1) % n_members, bytes / 2};
    }
    struct cs_coll_message *empty = CS_ARENA_NEW(arena, struct cs_coll_message, 1);
    empty[0] = (struct cs_coll_message){0, 1, 0.25}; /* rounds to nothing */
    struct cs_coll_round *phases = CS_ARENA_NEW(arena, struct cs_coll_round, 2);
    phases[0] = (struct cs_coll_round){2, n_members, ring};
    phases[1] = (struct cs_coll_round){1, 1, empty};
    *messages = (struct cs_coll_messages){2, phases};
    return CS_OK;
}

static struct cs_smpi_options smpi_options(void)
{
    return (struct cs_smpi_options){
        .op_time = op_time, .coll_messages = coll_messages, .host_flop_per_s = 2, .overhead_s = 0.5};
}

static void assert_file(const char *name, const char *want)
{
    char path[160];
    char text[2048];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *stream = fopen(path, "rb");
    ck_assert_ptr_nonnull(stream);
    text[fread(text, 1, sizeof text - 1, stream)] = '\0';
    fclose(stream);
    ck_assert_str_eq(text, want);
}

static struct cs_trace *read_text(const char *text)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    ck_assert_ok(cs_trace_read_native_text(text, strlen(text), "t.txt", &trace, &err), &err);
    return trace;
}

START_TEST(test_smpi_pipeline)
{
    struct cs_err err = {0};
    struct handmade shape = {1, 1, 2, 2, true, 4, 8, 0, 3000000000, 0};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_smpi_options options = smpi_options();
    ck_assert_ok(cs_trace_write_smpi(trace, &options, dir, &err), &err);
    assert_file("trace.txt", "rank-0.txt\nrank-1.txt\n");
    /* Messages above what an int counts are counted in numbers of 8 bytes. */
    assert_file("rank-0.txt",
                "0 init\n0 irecv 1 1 375000000 0\n0 irecv 1 1 375000000 0\n"
                "0 compute 4\n0 compute 4\n0 sleep 0.5\n0 isend 1 0 375000000 0\n"
                "0 compute 4\n0 compute 4\n0 wait 0 1 0\n0 sleep 0.5\n0 isend 1 0 375000000 0\n"
                "0 wait 1 0 1\n0 compute 8\n0 compute 8\n0 wait 1 0 1\n0 compute 8\n0 compute 8\n"
                "0 wait 0 1 0\n0 finalize\n");
    handmade_free(trace);
}
END_TEST

START_TEST(test_smpi_collective)
{
    struct cs_err err = {0};
    struct handmade shape = {1, 2, 1, 1, true, 4, 8, 0, 0, 10};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_smpi_options options = smpi_options();
    options.overhead_s = 0;
    ck_assert_ok(cs_trace_write_smpi(trace, &options, dir, &err), &err);
    /* The all-reduce runs beside the second half of the backward pass, all rounds in one message. */
    assert_file("rank-1.txt", "1 init\n1 compute 4\n1 compute 4\n1 compute 8\n"
                              "1 isend 0 3 10\n1 irecv 0 3 10\n1 compute 8\n1 wait 1 0 3\n1 wait 0 1 3\n"
                              "1 finalize\n");
    handmade_free(trace);
}
END_TEST

#define TWO_RANKS                                                                                            \
    "clustersim-trace 1 binding\nsize ranks=2 roles=2 blocks=2\n"                                            \
    "stream \"compute\"\nstream \"a\"\nstream \"b\"\nevent \"ea\"\nevent \"eb\"\nlabel \"l\"\ncost matmul "  \
    "bf16 flop=1\n"                                                                                          \
    "comm \"ca\" stream=1\ngroup 0..1\ncomm \"cb\" stream=2\ngroup 0..1\n"                                   \
    "chan \"c\" stream=1\nroute 0 1\nbind 0 0\nbind 1 1\nend\n"
#define TWO_COLLECTIVES                                                                                      \
    "collective comm=0 coll=broadcast bytes=4 stream=1\nrecord event=0 stream=1\n"                           \
    "collective comm=0 coll=broadcast bytes=4 stream=1\nrecord event=1 stream=1\n"

/* Side streams that send and record, and records that follow sends. */
START_TEST(test_smpi_sends)
{
    struct cs_err err = {0};
    struct cs_smpi_options options = smpi_options();
    options.overhead_s = 0;
    struct cs_trace *trace =
        read_text(TWO_RANKS "clustersim-trace 1 role 0\nrole \"0\"\nblock 0 \"x\"\n"
                            "record event=0\nwait event=0 stream=1\nsend chan=0 bytes=7 stream=1\n"
                            "record event=1 stream=1\nrecord event=0\nwait event=0 stream=1\n"
                            "send chan=0 bytes=8 stream=1\nwait event=1\nwait event=1 stream=2\n"
                            "collective comm=1 coll=broadcast bytes=4 stream=2\n"
                            "call 0 0\nend\n"
                            "clustersim-trace 1 role 1\nrole \"1\"\nblock 1 \"x\"\n"
                            "collective comm=1 coll=broadcast bytes=4\n"
                            "recv chan=0 bytes=7\nrecv chan=0 bytes=8\ncall 1 0\nend\n");
    ck_assert_ok(cs_trace_write_smpi(trace, &options, dir, &err), &err);
    assert_file("rank-0.txt", "0 init\n0 isend 1 0 7\n0 wait 0 1 0\n0 isend 1 0 8\n"
                              "0 isend 1 2 4\n0 irecv 1 2 4\n0 wait 0 1 0\n"
                              "0 wait 0 1 2\n0 wait 1 0 2\n0 finalize\n");
    /* The other member blocks in it, and exchanges as much at once. */
    assert_file("rank-1.txt", "1 init\n1 irecv 0 0 7\n1 irecv 0 0 8\n"
                              "1 isend 0 2 4\n1 irecv 0 2 4\n1 wait 1 0 2\n1 wait 0 1 2\n"
                              "1 wait 0 1 0\n1 wait 0 1 0\n1 finalize\n");
    cs_trace_free(trace);
}
END_TEST

/* A collective that begins when the one before is waited for, which on one rank is behind a message that the
 * other sends behind both. */
START_TEST(test_smpi_impossible)
{
    struct cs_err err = {0};
    struct cs_smpi_options options = smpi_options();
    struct cs_trace *trace =
        read_text(TWO_RANKS "clustersim-trace 1 role 0\nrole \"0\"\nblock 0 \"x\"\n" TWO_COLLECTIVES
                            "wait event=0\nwait event=1\nsend chan=0 bytes=7\ncall 0 0\nend\n"
                            "clustersim-trace 1 role 1\nrole \"1\"\nblock 1 \"x\"\n" TWO_COLLECTIVES
                            "compute cost=0\nrecv chan=0 bytes=7\nwait event=1\ncall 1 0\nend\n");
    ck_assert_fails(cs_trace_write_smpi(trace, &options, dir, &err), &err, CS_E_INPUT, 0,
                    "with one process a rank: the ranks cannot finish");
    cs_trace_free(trace);
    trace = read_text(TWO_RANKS "clustersim-trace 1 role 0\nrole \"0\"\nblock 0 \"x\"\n"
                                "record event=0\nrecord event=0 stream=1\ncall 0 0\nend\n"
                                "clustersim-trace 1 role 1\nrole \"1\"\nblock 1 \"y\"\ncall 1 0\nend\n");
    ck_assert_fails(cs_trace_write_smpi(trace, &options, dir, &err), &err, CS_E_INPUT, 0,
                    "records event 'ea' from two streams");
    cs_trace_free(trace);
    ck_assert_int_eq(scratch_count(scratch), 0);
}
END_TEST

START_TEST(test_smpi_refused)
{
    struct cs_err err = {0};
    struct handmade shape = {1, 2, 1, 1, true, 4, 8, 0, 0, 10};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_smpi_options options = smpi_options();
    options.host_flop_per_s = 0;
    ck_assert_fails(cs_trace_write_smpi(trace, &options, dir, &err), &err, CS_E_INPUT, 0, "host speed of 0");
    options = smpi_options();
    options.coll_messages_context = "fail";
    ck_assert_fails(cs_trace_write_smpi(trace, &options, dir, &err), &err, CS_E_INPUT, 0, "no algorithm");
    options = smpi_options();
    trace->costs[0].flop = -1;
    ck_assert_fails(cs_trace_write_smpi(trace, &options, dir, &err), &err, CS_E_INPUT, 0,
                    "takes -1 s on rank 0");
    handmade_free(trace);
    shape = (struct handmade){1, 1, 2, 1, true, 4, 8, 0, INT64_C(1) << 40, 0};
    trace = handmade_trace(&shape);
    ck_assert_fails(cs_trace_write_smpi(trace, &options, dir, &err), &err, CS_E_LIMIT, 0,
                    "larger than SMPI counts");
    handmade_free(trace);
    ck_assert_int_eq(scratch_count(scratch), 0);
}
END_TEST

static Suite *smpi_suite(void)
{
    Suite *suite = suite_create("smpi write");
    TCase *tc = tcase_create("files");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, test_smpi_pipeline);
    tcase_add_test(tc, test_smpi_collective);
    tcase_add_test(tc, test_smpi_sends);
    tcase_add_test(tc, test_smpi_impossible);
    tcase_add_test(tc, test_smpi_refused);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(smpi_suite)
