/* Profiler output: what is read of it, what is fitted to it, what is refused. */
#include "cs_test.h"
#include "scratch.h"

#include "cs/strategies/profile.h"

#include <math.h>

#define SMALL CS_TEST_SOURCE_DIR "/tests/data/profile/small"

static struct cs_catalogue *catalogue;

static void setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
}

static void teardown(void)
{
    cs_catalogue_free(catalogue);
}

/* The at-th kernel of a kind. */
static struct cs_profile_kernel *of_kind(struct cs_profile *profile, enum cs_opkind kind, int32_t at)
{
    int32_t i = 0;
    while (i < profile->n_kernels - 1 && !(profile->kernels[i].cost.kind == kind && at-- == 0)) {
        i++;
    }
    ck_assert_int_eq(profile->kernels[i].cost.kind, kind);
    return &profile->kernels[i];
}

START_TEST(test_read)
{
    struct cs_err err = {0};
    struct cs_profile profile = {0};
    ck_assert_ok(cs_profile_load(&profile, SMALL, &err), &err);
    ck_assert_int_eq(profile.n_kernels, 8);
    ck_assert_int_eq(profile.n_unknown, 2); /* a collective and a sort */
    ck_assert_double_eq_tol(profile.unknown_s, 892.5e-6, 1e-9);
    const struct cs_profile_kernel *square = of_kind(&profile, CS_OPKIND_MATMUL, 0);
    ck_assert_int_eq(square->n, 2);
    ck_assert_int_eq(square->cost.m, 4096);
    ck_assert_int_eq(square->cost.n, 4096);
    ck_assert_int_eq(square->cost.k, 4096);
    ck_assert_double_eq_tol(square->cost.flop, 2 * 4096.0 * 4096 * 4096, 1);
    ck_assert_double_eq_tol(square->cost.bytes, 3 * 4096.0 * 4096 * 2, 1);
    ck_assert_int_eq(square->cost.dtype, CS_DTYPE_BF16);
    ck_assert_double_eq_tol(of_kind(&profile, CS_OPKIND_FLASH_FORWARD, 0)->cost.flop,
                            0.5 * 4 * 32 * 4096.0 * 4096 * 128, 1); /* causal */
    ck_assert_double_eq_tol(of_kind(&profile, CS_OPKIND_ELEMENTWISE, 0)->cost.bytes, 3 * 4096.0 * 4096 * 2,
                            1);
    ck_assert_int_eq(profile.n_collectives, 3);
    ck_assert_str_eq(profile.collectives[0].kind, "all-reduce");
    ck_assert_str_eq(profile.collectives[0].transport, "HCCS");
    ck_assert_double_eq_tol(profile.collectives[0].bytes_per_s, 18e9, 1);
    ck_assert_double_eq_tol(profile.elapsed_s, 9e-3, 1e-9); /* without the sums */
    ck_assert_int_eq(profile.step.n, 2);
    ck_assert_double_eq_tol(profile.step.computing_s, 0.8100005, 1e-9);
    ck_assert_double_eq_tol(profile.step.iteration_s, 0.8100005 + 0.09600025 + 0.0215, 1e-9);
    cs_profile_release(&profile);
}
END_TEST

/* Kernels made with known efficiencies give them back; what they do not determine stays. */
START_TEST(test_fit_finds_what_made_it)
{
    struct cs_err err = {0};
    struct cs_profile profile = {0};
    struct cs_profile_fit fits[CS_N_OPKINDS];
    struct cs_chip truth = *cs_catalogue_chip(catalogue, "910b2");
    struct cs_chip chip = truth;
    truth.opkind_peak_frac[CS_OPKIND_MATMUL] = 0.61;
    truth.opkind_memory_frac[CS_OPKIND_MATMUL] = 0.37;
    truth.opkind_memory_frac[CS_OPKIND_NORM] = 0.55;
    truth.host_launch_s = 0;
    ck_assert_ok(cs_profile_load(&profile, SMALL, &err), &err);
    /* one product that memory limits, beside the large ones */
    struct cs_profile_kernel *skinny = of_kind(&profile, CS_OPKIND_MATMUL, 1);
    skinny->cost.m = 1;
    skinny->cost.flop = 2.0 * (double)skinny->cost.n * (double)skinny->cost.k;
    for (int32_t i = 0; i < profile.n_kernels; i++) {
        profile.kernels[i].time_s = cs_chip_op_time_s(&truth, &profile.kernels[i].cost);
    }
    ck_assert_ok(cs_profile_fit(&profile, &chip, fits, &err), &err);
    ck_assert_double_eq_tol(fits[CS_OPKIND_MATMUL].efficiency_frac, 0.61, 0.01);
    ck_assert_double_eq_tol(fits[CS_OPKIND_MATMUL].memory_efficiency_frac, 0.37, 0.01);
    ck_assert_double_eq_tol(chip.opkind_memory_frac[CS_OPKIND_NORM], 0.55, 0.01);
    ck_assert(isnan(fits[CS_OPKIND_NORM].efficiency_frac));
    ck_assert_double_eq(chip.opkind_peak_frac[CS_OPKIND_NORM], truth.opkind_peak_frac[CS_OPKIND_NORM]);
    ck_assert_double_lt(fits[CS_OPKIND_MATMUL].after_frac, 0.01);
    ck_assert_int_eq(fits[CS_OPKIND_CONV].n, 0);
    cs_profile_release(&profile);
}
END_TEST

#define HEAD "Type,Duration(us),Input Shapes,Output Shapes,Input Data Types,Output Data Types\n"
#define STEPS "Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n"
#define SEND(size, time)                                                                                     \
    "{\"s\": {\"p2p\": {\"hcom_send__1\": {\"Communication Time Info\": {}, \"Communication Bandwidth "      \
    "Info\": "                                                                                               \
    "{\"RDMA\": {\"Transit Size(MB)\": " size ", \"Transit Time(ms)\": " time "}}}}}}"
static const struct {
    const char *file;
    const char *text;
    int line;
    const char *part;
} bad[] = {
    {"kernel_details.csv", "Name,Duration(us)\nx,1\n", 1, "no column 'Type'"},
    {"kernel_details.csv", HEAD "MatMul,fast,,,,\n", 2, "Duration(us)"},
    {"kernel_details.csv", HEAD "MatMul,1,,,,\nMatMul,-1,,,,\n", 3, "expected 0 to"},
    {"kernel_details.csv", "", 1, "no column 'Type'"},
    {"kernel_details.csv",
     "Type,Type,Duration(us),Input Shapes,Output Shapes,Input Data Types,Output Data Types\n", 1,
     "two columns 'Type'"},
    {"kernel_details.csv", "Type,Input Shapes,Output Shapes,Input Data Types,Output Data Types\n", 1,
     "no column 'Duration'"},
    {"kernel_details.csv", "Duration(ms)," HEAD, 1, "several columns 'Duration'"},
    {"kernel_details.csv", HEAD "MatMul,\"1,5\",,,,\n", 2, "'1,5', but should be a number"},
    {"kernel_details.csv", HEAD "MatMul,1,\"4096,4096;40", 2, "does not end"},
    {"kernel_details.csv", HEAD "MatMul,N/A,,,,\n", 2, "should be a number"},
    {"kernel_details.csv", HEAD "MatMul,1\n", 2, "the header has 6"},
    {"step_trace_time.csv", "Step,Computing\n1,2\n", 1, "no column 'Communication(Not Overlapped)'"},
    {"step_trace_time.csv", "Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n", 1,
     "there is no step"},
    {"step_trace_time.csv",
     "Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n1,2,3,9,1\n", 2,
     "'Communication' is not"},
    {"step_trace_time.csv", STEPS "0,0,0,0,0\n", 2, "takes no time"},
    {"step_trace_time.csv", STEPS "1,0,0,0,-5\n", 2, "expected 0 to"},
    {"step_trace_time.csv", STEPS "1,0,0,0,1e40\n", 2, "expected 0 to"},
    {"communication.json", "{\"step\": [1]}", 0, "'step' should be an object"},
    {"communication.json", "{\"step\": {\"p2p\": [1]}}", 0, "'p2p' of 'step'"},
    {"communication.json", SEND("\"36\"", "2"), 0, "'Transit Size(MB)' of 'hcom_send__1'"},
    {"communication.json", SEND("36", "-2"), 0, "should be a number, 0 to"},
    {"communication.json", SEND("1e30", "2"), 0, "should be a number, 0 to"},
    {"communication.json", "", 1, "not valid JSON"},
    {"communication.json", "[1]", 0, "expected an object"},
    {"communication.json", "{\"step\": {\"collective\": {\"hcom_send__1\": 3}}}", 0, "hcom_send__1"},
    {"communication.json", "{\"step\": ", 1, ""},
    {"nothing.txt", "", 0, "has no profiler output"},
};

/* One kernel, one step and one transfer, written in other ways. */
static const struct {
    const char *file;
    const char *text;
} same[] = {
    {"kernel_details.csv",
     HEAD "MatMul,475.5,\"4096,4096;4096,4096\",\"4096,4096\",DT_BF16;DT_BF16,DT_BF16\n"},
    {"kernel_details.csv",
     "\xef\xbb\xbf" HEAD
     "MatMul,475.5\t,\"\"\"4096,4096;4096,4096\"\"\",\"4096,4096\",DT_BF16;DT_BF16,DT_BF16\r\n"},
    {"kernel_details.csv",
     "Output Data Types,Input Data Types,more,Output Shapes,Input Shapes, Duration(ms) ,Type\r\n"
     "DT_BF16,DT_BF16;DT_BF16,\"x,\"\"y\"\"\",\"4096,4096\",\"4096,4096;4096,4096\",0.4755,MatMulV2"},
    {"kernel_details.csv", HEAD "\nMatMul,475.5,\"4096,4096;4096,4096\",\"4096,4096\",BF16;BF16,BF16\n\n"},
    {"step_trace_time.csv", STEPS "800,100,30,130,20\n"},
    {"step_trace_time.csv",
     "\xef\xbb\xbf"
     "Free(us),Communication,Overlapped,Communication(Not Overlapped),Computing(ms)\r\n"
     "20,130,30,100,0.8\r\n"},
    {"communication.json", SEND("36", "2.0")},
    {"communication.json", "\xef\xbb\xbf{\"s\": {\"collective\": {}, \"p2p\": {\"hcom_send__1\": "
                           "{\"Communication Time Info\": {},\r\n"
                           "\"Communication Bandwidth Info\": {\"RDMA\": {\"Transit Time(us)\": 2000, "
                           "\"Transit Size(KB)\": 36e3}}}}}}"},
};

START_TEST(test_same)
{
    struct cs_err err = {0};
    struct cs_profile profile = {0};
    char dir[64];
    scratch_open(dir);
    scratch_write(dir, same[_i].file, same[_i].text, strlen(same[_i].text));
    ck_assert_ok(cs_profile_load(&profile, dir, &err), &err);
    if (strcmp(same[_i].file, "kernel_details.csv") == 0) {
        ck_assert_int_eq(profile.n_kernels, 1);
        ck_assert_double_eq_tol(profile.kernels[0].time_s, 475.5e-6, 1e-12);
        ck_assert_int_eq(profile.kernels[0].cost.k, 4096);
        ck_assert_double_eq_tol(profile.kernels[0].cost.bytes, 3 * 4096.0 * 4096 * 2, 1);
    } else if (profile.step.n > 0) {
        ck_assert_double_eq_tol(profile.step.iteration_s, 920e-6, 1e-12);
    } else {
        ck_assert_int_eq(profile.n_collectives, 1);
        ck_assert_double_eq_tol(profile.collectives[0].bytes_per_s, 18e9, 1);
    }
    cs_profile_release(&profile);
    scratch_close(dir);
}
END_TEST

/* Shapes that no device holds, or that say nothing, are unknown kernels, whatever their type. */
START_TEST(test_absurd_shapes)
{
    static const char *const rows = HEAD
        "MatMul,1,\"2147483647,2147483647;2147483647,2147483647\",\"1,1\",BF16;BF16,BF16\n"
        "BatchMatMul,1,\"2147483647,2147483647,2147483647;1,1,1\",\"1,1,1\",BF16;BF16,BF16\n"
        "MatMul,1,\"0,4096;4096,0\",\"0,0\",BF16;BF16,BF16\nMatMul,1,\"-1,4096;4096,1\",\"1,1\",BF16,BF16\n"
        "GroupedMatMul,1,\"1,1;0,1,1\",\"1,1\",BF16,BF16\nMatMul,1,;;;,,BF16,BF16\nMatMul,0,\"1,1;1,1\",\"1,"
        "1\",,\n"
        "FlashAttentionScore,1,\"1,1\",\"1\",,\nMatMul,1,N/A,N/A,N/A,N/A\n";
    struct cs_err err = {0};
    struct cs_profile profile = {0};
    char dir[64];
    scratch_open(dir);
    scratch_write(dir, "kernel_details.csv", rows, strlen(rows));
    ck_assert_ok(cs_profile_load(&profile, dir, &err), &err);
    ck_assert_int_eq(profile.n_kernels, 0);
    ck_assert_int_eq(profile.n_unknown, 9);
    cs_profile_release(&profile);
    scratch_close(dir);
}
END_TEST

START_TEST(test_bad)
{
    struct cs_err err = {0};
    struct cs_profile profile = {0};
    char dir[64];
    scratch_open(dir);
    scratch_write(dir, bad[_i].file, bad[_i].text, strlen(bad[_i].text));
    ck_assert_fails(cs_profile_load(&profile, dir, &err), &err, CS_E_INPUT, bad[_i].line, bad[_i].part);
    scratch_close(dir);
}
END_TEST

static Suite *profile_suite(void)
{
    Suite *suite = suite_create("profile");
    TCase *tcase = tcase_create("profile");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_read);
    tcase_add_test(tcase, test_fit_finds_what_made_it);
    tcase_add_test(tcase, test_absurd_shapes);
    tcase_add_loop_test(tcase, test_same, 0, CS_COUNT(same));
    tcase_add_loop_test(tcase, test_bad, 0, CS_COUNT(bad));
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(profile_suite)
