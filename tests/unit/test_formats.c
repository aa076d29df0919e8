/* Our own trace format: round trips, and everything that can be wrong in a file, by line. */
#include "cs_test.h"
#include "handmade.h"
#include "scratch.h"
#include "trace_equal.h"
#include "workload_fixture.h"

#include "cs/base/file.h"
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

static void assert_round_trip(const struct cs_trace *trace)
{
    struct cs_err err = {0};
    struct cs_trace *read = NULL;
    ck_assert_ok(cs_trace_write_native(trace, dir, &err), &err);
    ck_assert_ok(cs_trace_read_native(dir, &read, &err), &err);
    assert_traces_equal(trace, read);
    cs_trace_free(read);
    ck_assert_ok(cs_trace_read(dir, &read, NULL, &err), &err);
    assert_traces_equal(trace, read);
    cs_trace_free(read);
    ck_assert_int_eq(scratch_count(scratch), 1); /* nothing temporary is left */
}

START_TEST(test_handmade)
{
    static const struct handmade shapes[] = {
        {1, 1, 1, 1, false, 1e12, 2e12, 0, 0, 0},
        {1, 1, 4, 8, false, 1e12 / 3, 2e12 / 7, 0, 1 << 20, 0},
        {1, 8, 1, 8, true, 1e12, 2e12, 0, 0, 1000000007},
        {2, 3, 4, 8, false, 1e12, 2e12, 77, 1 << 20, 1 << 30},
    };
    struct cs_trace *trace = handmade_trace(&shapes[_i]);
    trace->n_tokens = 0.1 + 0.2;
    assert_round_trip(trace);
    handmade_free(trace);
}
END_TEST

START_TEST(test_generated)
{
    static const char *const strategies[] = {"dp=4,mp=2,pp=2",
                                             "dp=4,mp=2,pp=4,zero=3,op=4,sp=true,recompute=full",
                                             "dp=8,pp=4,zero=2,op=4,schedule=gpipe,placement=pp-dp-cp-mp",
                                             "dp=2,mp=4,pp=3,placement=dp-mp-pp-cp,recompute=selective"};
    struct cs_model model = workload_model("llama3-8b");
    struct cs_training training = workload_training(&model, 64, 4096);
    struct cs_trace *trace = workload_trace(&model, &training, strategies[_i]);
    assert_round_trip(trace);
    cs_trace_free(trace);
    cs_model_release(&model);
}
END_TEST

/* Texts that need escapes, blocks that nobody calls or two roles share, ranks without a pattern. */
START_TEST(test_odd_content)
{
    struct handmade shape = {2, 2, 2, 2, false, 1e12, 2e12, 77, 1 << 20, 1 << 20};
    struct cs_trace *trace = handmade_trace(&shape);
    static const char *labels[] = {"quo\"te \\ back", "tab \xe2\x87\xa5 \xff", "Zeichen äöü", "",
                                   "# no comment"};
    trace->labels = labels;
    trace->n_labels = 5;
    trace->blocks[0].name = "end";
    struct cs_block *more = CS_ARENA_NEW(&trace->arena, struct cs_block, trace->n_blocks + 2);
    memcpy(more, trace->blocks, sizeof *more * (size_t)trace->n_blocks);
    more[trace->n_blocks] = more[0];
    more[trace->n_blocks + 1].name = "shared";
    more[trace->n_blocks + 1].ops = CS_ARENA_NEW(&trace->arena, struct cs_op, 1);
    more[trace->n_blocks + 1].ops[0] = (struct cs_op){.layer = 12, .label = 4, .phase = CS_PHASE_OPTIMIZER};
    more[trace->n_blocks + 1].n_ops = 1;
    trace->blocks = more;
    trace->n_blocks += 2;
    for (int32_t p = 0; p < trace->n_programs; p++) {
        trace->programs[p].calls[trace->programs[p].n_calls - 1].block = trace->n_blocks - 1;
    }
    trace->costs[0].fixed_s = 1.0 / 3;
    trace->costs[1].flop = 0x1.fffffffffffffp-1022;
    assert_round_trip(trace);
    handmade_free(trace);
}
END_TEST

START_TEST(test_folders)
{
    struct handmade shape = {1, 1, 2, 2, false, 1e12, 2e12, 0, 1 << 20, 0};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_trace *read = NULL;
    struct cs_err err = {0};
    /* A file, a folder that is not there, one with something in it, nothing. */
    scratch_write(scratch, "file", "x", 1);
    char path[128];
    snprintf(path, sizeof path, "%s/file", scratch);
    ck_assert_fails(cs_trace_write_native(trace, path, &err), &err, CS_E_INPUT, 0, "not a folder");
    ck_assert_fails(cs_trace_write_native(trace, "", &err), &err, CS_E_IO, 0, "is empty");
    snprintf(path, sizeof path, "%s/no/trace", scratch);
    ck_assert_fails(cs_trace_write_native(trace, path, &err), &err, CS_E_IO, 0, "No such file");
    ck_assert_fails(cs_trace_read_native(path, &read, &err), &err, CS_E_INPUT, 0, "No such file");
    ck_assert_ok(cs_trace_write_native(trace, dir, &err), &err);
    ck_assert_fails(cs_trace_write_native(trace, dir, &err), &err, CS_E_INPUT, 0, "with files in it");
    /* A trailing slash is nothing; an empty folder may be filled. */
    scratch_close(dir);
    snprintf(path, sizeof path, "%s/", dir);
    ck_assert_ok(cs_trace_write_native(trace, path, &err), &err);
    /* A role file that is missing, or holds another role. */
    snprintf(path, sizeof path, "%s/role-1.txt", dir);
    ck_assert_int_eq(remove(path), 0);
    ck_assert_fails(cs_trace_read_native(dir, &read, &err), &err, CS_E_INPUT, 0, "No such file");
    ck_assert_ptr_nonnull(strstr(err.file, "role-1.txt"));
    scratch_write(dir, "role-1.txt", "clustersim-trace 1 role 0\n", 26);
    ck_assert_fails(cs_trace_read_native(dir, &read, &err), &err, CS_E_INPUT, 1, "'role 1' comes next");
    scratch_write(dir, "role-1.txt", "", 0);
    ck_assert_fails(cs_trace_read_native(dir, &read, &err), &err, CS_E_INPUT, 0, "one part");
    ck_assert_int_eq(scratch_count(scratch), 2);
    handmade_free(trace);
}
END_TEST

/* A trace that cannot be written leaves nothing. */
START_TEST(test_unwritable)
{
    struct handmade shape = {1, 1, 2, 2, false, 1e12, 2e12, 0, 1 << 20, 0};
    struct cs_trace *trace = handmade_trace(&shape);
    struct cs_err err = {0};
    trace->costs[0].flop = -1;
    ck_assert_fails(cs_trace_write_native(trace, dir, &err), &err, CS_E_INPUT, 0, "not finite");
    trace->costs[0].flop = 1.0 / 0.0;
    ck_assert_fails(cs_trace_write_native(trace, dir, &err), &err, CS_E_INPUT, 0, "not finite");
    trace->costs[0].flop = 1;
    trace->blocks[0].ops[0].phase = 77;
    ck_assert_fails(cs_trace_write_native(trace, dir, &err), &err, CS_E_INPUT, 0, "out of range");
    trace->blocks[0].ops[0].phase = 0;
    trace->blocks[0].ops[0].cost = 77;
    ck_assert_fails(cs_trace_write_native(trace, dir, &err), &err, CS_E_INPUT, 0, "no such cost");
    trace->blocks[0].ops[0].cost = 0;
    trace->n_chans = 300;
    ck_assert_fails(cs_trace_write_native(trace, dir, &err), &err, CS_E_LIMIT, 0, "holds");
    trace->n_chans = 2;
    /* Names that the reader refuses: what a terminal takes for commands. */
    static const char *const names[] = {"\x1b[31m", "line\n", "\x7f", "\xc2\x9b"};
    for (int32_t i = 0; i < CS_COUNT(names); i++) {
        const char *kept = trace->blocks[1].name;
        trace->blocks[1].name = names[i];
        ck_assert_fails(cs_trace_write_native(trace, dir, &err), &err, CS_E_INPUT, 0,
                        "of a block holds a control character");
        trace->blocks[1].name = kept;
    }
    ck_assert_int_eq(scratch_count(scratch), 0);
    handmade_free(trace);
}
END_TEST

/* The smallest trace with everything in it; lines are replaced to break it. */
static const char *const good[] = {
    "clustersim-trace 1 binding",                /* 1 */
    "size ranks=4 roles=2 blocks=3",             /* 2 */
    "worth model_flop=1e15 tokens=8",            /* 3 */
    "stream \"compute\"",                        /* 4 */
    "stream \"dp\"",                             /* 5 */
    "event \"ready\"",                           /* 6 */
    "label \"matmul\"",                          /* 7 */
    "cost matmul bf16 flop=1e12 m=8 n=8 k=8",    /* 8 */
    "comm \"dp\" stream=1",                      /* 9 */
    "group 0..2/2",                              /* 10 */
    "group 1 3",                                 /* 11 */
    "chan \"pp\" stream=1",                      /* 12 */
    "route 0..1 2..3",                           /* 13 */
    "bind 0 0..1",                               /* 14 */
    "bind 1 2..3",                               /* 15 */
    "end",                                       /* 16 */
    "clustersim-trace 1 role 0",                 /* 17 */
    "role \"first\" stage=0 state_bytes=64",     /* 18 */
    "block 0 \"step\"",                          /* 19 */
    "alloc mem=weights bytes=64",                /* 20 */
    "compute cost=0",                            /* 21 */
    "record event=0",                            /* 22 */
    "wait event=0 stream=1",                     /* 23 */
    "send chan=0 bytes=8 stream=1",              /* 24 */
    "block 2 \"reduce\"",                        /* 25 */
    "collective comm=0 coll=all-reduce bytes=9", /* 26 */
    "call 0 0",                                  /* 27 */
    "call 2 -1",                                 /* 28 */
    "end",                                       /* 29 */
    "clustersim-trace 1 role 1",                 /* 30 */
    "role \"second\" stage=1",                   /* 31 */
    "block 1 \"step\"",                          /* 32 */
    "recv chan=0 bytes=8",                       /* 33 */
    "compute cost=0 phase=backward layer=3",     /* 34 */
    "call 1 0",                                  /* 35 */
    "call 2 -1",                                 /* 36 */
    "end",                                       /* 37 */
};

static const struct broken {
    int32_t line;     /* replaced; 0 = none */
    const char *with; /* may hold several lines; NULL = the text ends before this line */
    cs_status code;
    int32_t want_line;
    const char *part;
} broken[] = {
    {1, "clustersim-trace 2 binding", CS_E_INPUT, 1, "version '2' of the format is not known: expected 1"},
    {1, "clustersim-trace", CS_E_INPUT, 1, "version '' of the format is not known"},
    {1, "something else", CS_E_INPUT, 1, "'something' is not the beginning"},
    {1, "clustersim-trace 1 role 0", CS_E_INPUT, 1, "this is 'role 0', but 'binding' comes next"},
    {1, "clustersim-trace 1 binding more words", CS_E_INPUT, 1, "is too much"},
    {1, NULL, CS_E_INPUT, 0, "there is no binding"},
    {2, "", CS_E_INPUT, 3, "the size line must come first"},
    {2, "size ranks=4 roles=2", CS_E_INPUT, 2, "'blocks' is missing"},
    {2, "size ranks=0 roles=2 blocks=3", CS_E_INPUT, 2, "ranks"},
    {2, "size ranks=99999999 roles=2 blocks=3", CS_E_INPUT, 2, "1048576"},
    {2, "size ranks=4 roles=2 blocks=3 blocks=3", CS_E_INPUT, 2, "'blocks' is given twice"},
    {2, "size ranks=4 roles=2 blocks=3 cows=1", CS_E_INPUT, 2, "'cows=1' is not a figure of this line"},
    {2, "size ranks=4 roles=2 blocks", CS_E_INPUT, 2, "'blocks' is not a figure"},
    {2, "size ranks=4 roles=2 blocks=3\nsize ranks=4 roles=2 blocks=3", CS_E_INPUT, 3, "twice"},
    {2, "size ranks=4 roles=3 blocks=3", CS_E_INPUT, 0, "role 2 is missing"},
    {2, "size ranks=4 roles=1 blocks=3", CS_E_INPUT, 15, "role"},
    {2, "size ranks=4 roles=2 blocks=4", CS_E_INPUT, 0, "block 3 is in none of the roles"},
    {2, "size ranks=5 roles=2 blocks=3", CS_E_INPUT, 16, "rank 4 has no role"},
    {3, "worth model_flop=nan", CS_E_INPUT, 3, "should be a number"},
    {3, "worth model_flop=1e999", CS_E_INPUT, 3, "too large"},
    {3, "worth model_flop=-1", CS_E_INPUT, 3, "must not be negative"},
    {3, "wroth", CS_E_INPUT, 3, "'wroth' cannot stand here, did you mean 'worth'?"},
    {4, "stream compute", CS_E_INPUT, 4, "double quotes"},
    {4, "stream \"compute", CS_E_INPUT, 4, "does not end with a double quote"},
    {4, "stream \"com\\xgg\"", CS_E_INPUT, 4, "escape"},
    {4, "stream \"com\\x00\"", CS_E_INPUT, 4, "escape"},
    {4, "stream \"com\\x1b[2J\"", CS_E_INPUT, 4, "control character"},
    {4, "stream \"com\x7f\"", CS_E_INPUT, 4, "control character"},
    {4, "stream \"com\xc2\x9b\"", CS_E_INPUT, 4, "control character"},
    {4,
     "stream \"com\x9b"
     "2J\"",
     CS_E_INPUT, 4, "control character"},
    {4, "stream \"com\xe4\x85\"", CS_E_INPUT, 4, "control character"},
    {3, "worth attention_frac=1.5", CS_E_INPUT, 3, "'attention_frac' is 1.5, expected 0 to 1"},
    {18, "role \"\x1b[31m\"", CS_E_INPUT, 18, "the name holds a control character"},
    {4, "stream \"compute\" 5", CS_E_INPUT, 4, "'5' is too much"},
    {5, "", CS_E_INPUT, 9, "there is no stream 1"},
    {8, "cost matmull bf16", CS_E_INPUT, 8, "did you mean 'matmul'"},
    {8, "cost matmul", CS_E_INPUT, 8, "'' is not a dtype"},
    {8, "cost matmul bf16 kernels=99999999999", CS_E_INPUT, 8, "kernels"},
    {9, "", CS_E_INPUT, 10, "a group must follow its communicator"},
    {10, "group 0..3/2", CS_E_INPUT, 10, "are not ranks"},
    {10, "group 0..2/0", CS_E_INPUT, 10, "are not ranks"},
    {10, "group 2..0", CS_E_INPUT, 10, "are not ranks"},
    {10, "group 0..", CS_E_INPUT, 10, "are not ranks"},
    {10, "group 4", CS_E_INPUT, 10, "ranks below 4"},
    {10, "group 99999999999999999999", CS_E_INPUT, 10, "are not ranks"},
    {10, "group 0 0", CS_E_INPUT, 10, "rank 0 is already in group 0"},
    {10, "group 0..3", CS_E_INPUT, 11, "rank 1 is already in group 0"},
    {12, "", CS_E_INPUT, 13, "a route must follow its channel"},
    {13, "route 0..1 2", CS_E_INPUT, 13, "2 ranks cannot send to 1"},
    {13, "route 0", CS_E_INPUT, 13, "'' are not ranks"},
    {13, "route 0 0", CS_E_INPUT, 13, "rank 0 cannot send to 0"},
    {13, "route 0 2\nroute 0 3", CS_E_INPUT, 14, "rank 0 cannot send to 3"},
    {13, "route 0 2\nroute 1 2", CS_E_INPUT, 14, "rank 1 cannot send to 2"},
    {14, "bind 2 0..1", CS_E_INPUT, 14, "role"},
    {14, "bind 0 0..2", CS_E_INPUT, 15, "rank 2 already has role 0"},
    {16, "", CS_E_INPUT, 17, "'clustersim-trace' cannot stand here"},
    {16, NULL, CS_E_INPUT, 15, "'end' is missing"},
    {17, NULL, CS_E_INPUT, 0, "role 0 is missing"},
    {17, "clustersim-trace 1 role 1", CS_E_INPUT, 17, "this is 'role 1', but 'role 0' comes next"},
    {18, "", CS_E_INPUT, 19, "the role line must come first"},
    {18, "role \"a\"\nrole \"b\"", CS_E_INPUT, 19, "there already"},
    {19, "", CS_E_INPUT, 20, "must be in a block"},
    {19, "block 3 \"step\"", CS_E_INPUT, 19, "block"},
    {20, "alloc mem=weights bytes=-1", CS_E_INPUT, 20, "bytes"},
    {20, "alloc mem=weight bytes=64", CS_E_INPUT, 20, "did you mean 'weights'"},
    {20, "alloc bytes=64", CS_E_INPUT, 20, "'mem' is missing"},
    {20, "alloc mem=weights bytes=64 stream=1", CS_E_INPUT, 20, "memory belongs to stream 0"},
    {20, "alloc mem=weights bytes=1152921504606846976\nfree mem=weights bytes=1", CS_E_LIMIT, 21, "counts"},
    {20, "alloc mem=weights bytes=65", CS_E_INPUT, 0, "ends with"},
    {21, "compute cost=1", CS_E_INPUT, 21, "there is no cost 1: the binding has 1"},
    {21, "compute cost=-1", CS_E_INPUT, 21, "there is no cost -1"},
    {21, "compute cost=0 label=1", CS_E_INPUT, 21, "there is no label 1"},
    {21, "compute cost=0 stream=2", CS_E_INPUT, 21, "there is no stream 2"},
    {21, "compute cost=0 stream=256", CS_E_INPUT, 21, "stream"},
    {21, "compute cost=0 layer=99999", CS_E_INPUT, 21, "layer"},
    {21, "compute cost=0 layer=-2", CS_E_INPUT, 21, "layer"},
    {21, "compute", CS_E_INPUT, 21, "'cost' is missing"},
    {22, "record event=1", CS_E_INPUT, 22, "there is no event 1"},
    {22, "", CS_E_DEADLOCK, 0, "waits for event"},
    {24, "send chan=1 bytes=8", CS_E_INPUT, 24, "there is no channel 1"},
    {24, "send chan=0 bytes=9 stream=1", CS_E_INPUT, 0, "9 bytes"},
    {25, "block 0 \"again\"", CS_E_INPUT, 25, "block 0 is there already"},
    {26, "collective comm=1 coll=all-reduce bytes=9", CS_E_INPUT, 26, "there is no communicator 1"},
    {26, "collective comm=0 coll=reduce bytes=9", CS_E_INPUT, 26, "'reduce' is not a value of 'coll'"},
    {27, "call 1 0", CS_E_INPUT, 27, "block 1 is not there yet"},
    {27, "call 0", CS_E_INPUT, 27, "micro-batch"},
    {27, "call 0 -2", CS_E_INPUT, 27, "micro-batch"},
    {27, "call 0 0\nblock 1 \"late\"", CS_E_INPUT, 28, "blocks come before calls"},
    {27, "call 0 0\ncompute cost=0", CS_E_INPUT, 28, "must be in a block"},
    {29, "end\nend", CS_E_INPUT, 30, "'end' is not the beginning"},
    {37, NULL, CS_E_INPUT, 36, "'end' is missing"},
    {37, "end\nclustersim-trace 1 role 2", CS_E_INPUT, 38, "the trace ends before this line"},
};

static void good_text(struct cs_strbuf *text, int32_t line, const char *with)
{
    for (int32_t i = 1; i <= CS_COUNT(good); i++) {
        if (i == line && with == NULL) {
            break;
        }
        cs_strbuf_addf(text, "%s\n", i == line ? with : good[i - 1]);
    }
}

START_TEST(test_good)
{
    struct cs_err err = {0};
    struct cs_strbuf text = {0};
    struct cs_trace *trace = NULL;
    good_text(&text, 0, "");
    ck_assert_ok(cs_trace_read_native_text(text.text, text.len, "t.txt", &trace, &err), &err);
    ck_assert_int_eq(trace->comms[0].group_of_rank[3], 1);
    ck_assert_int_eq(trace->chans[0].peer[1], 3);
    ck_assert_int_eq(trace->program_of_rank[2], 1);
    ck_assert_int_eq(trace->blocks[1].ops[1].layer, 3);
    ck_assert_int_eq(trace->blocks[1].ops[1].phase, CS_PHASE_BACKWARD);
    assert_round_trip(trace);
    cs_trace_free(trace);
    /* Carriage returns, tabs, blank lines, comments, no new line at the end. */
    struct cs_strbuf loose = {0};
    cs_strbuf_add(&loose, "# a comment\r\n\t\n");
    for (int32_t i = 0; i < CS_COUNT(good); i++) {
        cs_strbuf_addf(&loose, " \t%s\t \r%s", good[i], i + 1 < CS_COUNT(good) ? "\n\n" : "");
    }
    ck_assert_ok(cs_trace_read_native_text(loose.text, loose.len, "t.txt", &trace, &err), &err);
    cs_trace_free(trace);
    cs_strbuf_release(&loose);
    cs_strbuf_release(&text);
}
END_TEST

START_TEST(test_broken)
{
    struct cs_err err = {0};
    struct cs_strbuf text = {0};
    struct cs_trace *trace = NULL;
    good_text(&text, broken[_i].line, broken[_i].with);
    cs_status st = cs_trace_read_native_text(cs_strbuf_str(&text), text.len, "t.txt", &trace, &err);
    ck_assert_fails(st, &err, broken[_i].code, broken[_i].want_line, broken[_i].part);
    ck_assert_str_eq(err.file, "t.txt");
    ck_assert_ptr_null(trace);
    cs_strbuf_release(&text);
}
END_TEST

/* The trace that TRACE_FORMAT.md shows. */
START_TEST(test_documented)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_ok(cs_file_read(CS_TEST_SOURCE_DIR "/workloads/TRACE_FORMAT.md", 1 << 20, &text, &bytes, &err),
                 &err);
    const char *begin = strstr(text, "```trace\n");
    ck_assert_ptr_nonnull(begin);
    begin += strlen("```trace\n");
    size_t length = (size_t)(strstr(begin, "\n```") - begin);
    ck_assert_ok(cs_trace_read_native_text(begin, length, "TRACE_FORMAT.md", &trace, &err), &err);
    ck_assert_int_eq(trace->n_ranks, 4);
    ck_assert_double_eq(trace->costs[1].fixed_s, 0.0015);
    assert_round_trip(trace);
    cs_trace_free(trace);
    cs_free(text);
}
END_TEST

START_TEST(test_limits)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    struct cs_strbuf text = {0};
    cs_strbuf_add(&text, "clustersim-trace 1 binding\nsize ranks=1048576 roles=1 blocks=0\nstream \"c\"\n");
    for (int32_t i = 0; i < 255; i++) {
        cs_strbuf_add(&text, "comm \"x\" stream=0\n");
    }
    ck_assert_fails(cs_trace_read_native_text(text.text, text.len, "t.txt", &trace, &err), &err, CS_E_LIMIT,
                    20, "too many communicators");
    cs_strbuf_release(&text);
    cs_strbuf_add(&text, "clustersim-trace 1 binding\nsize ranks=1 roles=1 blocks=0\n");
    for (int32_t i = 0; i < 256; i++) {
        cs_strbuf_add(&text, "stream \"c\"\n");
    }
    ck_assert_fails(cs_trace_read_native_text(text.text, text.len, "t.txt", &trace, &err), &err, CS_E_LIMIT,
                    258, "more than 255");
    cs_strbuf_release(&text);
    ck_assert_fails(cs_trace_read_native_text("clustersim-trace 1\n\0", 20, "t.txt", &trace, &err), &err,
                    CS_E_INPUT, 2, "NUL");
}
END_TEST

/** A trace of `n_pairs` records and waits in a block that is called `n_calls` times. */
static void write_repeats(struct cs_strbuf *text, int32_t n_pairs, int32_t n_calls)
{
    cs_strbuf_addf(text, "clustersim-trace 1 binding\nsize ranks=1 roles=1 blocks=1\nstream \"compute\"\n"
                         "stream \"side\"\nevent \"e\"\nlabel \"l\"\nbind 0 0\nend\n"
                         "clustersim-trace 1 role 0\nrole \"r\"\nblock 0 \"b\"\n");
    for (int32_t i = 0; i < n_pairs; i++) {
        cs_strbuf_addf(text, "record event=0\nwait event=0 stream=1\n");
    }
    for (int32_t i = 0; i < n_calls; i++) {
        cs_strbuf_addf(text, "call 0 %d\n", (int)i);
    }
    cs_strbuf_addf(text, "end\n");
}

START_TEST(test_long_to_check)
{
    /* A file of a megabyte that asks for thousands of millions of steps is refused, not run. */
    struct cs_strbuf text = {0};
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    write_repeats(&text, 2, 3);
    ck_assert_ok(cs_trace_read_native_text(cs_strbuf_str(&text), text.len, "t", &trace, &err), &err);
    cs_trace_free(trace);
    cs_strbuf_release(&text);
    write_repeats(&text, 20000, 100000);
    cs_status st = cs_trace_read_native_text(cs_strbuf_str(&text), text.len, "t", &trace, &err);
    ck_assert_int_eq(st, CS_E_LIMIT);
    ck_assert_msg(strstr(err.text, "steps to find out") != NULL, "%s", err.text);
    cs_strbuf_release(&text);
}
END_TEST

START_TEST(test_chain)
{
    /* Ranks of one role in a chain of pairs: only its ends tell them apart, and each round of looking at
     * neighbours carries that one rank further. The check gives up telling classes and is still right. */
    const int32_t n = 4000;
    struct cs_strbuf text = {0};
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    cs_strbuf_addf(&text,
                   "clustersim-trace 1 binding\nsize ranks=%d roles=1 blocks=1\nstream \"compute\"\n"
                   "label \"l\"\n",
                   (int)n);
    for (int32_t c = 0; c < 2; c++) {
        cs_strbuf_addf(&text, "comm \"c%d\" stream=0\n", (int)c);
        for (int32_t i = c; i + 1 < n; i += 2) {
            cs_strbuf_addf(&text, "group %d %d\n", (int)i, (int)i + 1);
        }
    }
    cs_strbuf_addf(&text,
                   "bind 0 0..%d\nend\nclustersim-trace 1 role 0\nrole \"r\"\nblock 0 \"b\"\n"
                   "collective comm=0 coll=all-reduce bytes=8\ncall 0 0\nend\n",
                   (int)n - 1);
    ck_assert_ok(cs_trace_read_native_text(cs_strbuf_str(&text), text.len, "t", &trace, &err), &err);
    ck_assert_int_eq(trace->n_ranks, n);
    cs_trace_free(trace);
    cs_strbuf_release(&text);
}
END_TEST

static Suite *formats_suite(void)
{
    Suite *suite = suite_create("formats");
    TCase *tc = tcase_create("native");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_handmade, 0, 4);
    tcase_add_loop_test(tc, test_generated, 0, 4);
    tcase_add_test(tc, test_odd_content);
    tcase_add_test(tc, test_folders);
    tcase_add_test(tc, test_unwritable);
    tcase_add_test(tc, test_good);
    tcase_add_loop_test(tc, test_broken, 0, CS_COUNT(broken));
    tcase_add_test(tc, test_documented);
    tcase_add_test(tc, test_limits);
    tcase_add_test(tc, test_long_to_check);
    tcase_add_test(tc, test_chain);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(formats_suite)
