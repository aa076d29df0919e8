/* units of room base: numbers with units, integers, reals. */
#include "cs_test.h"

#include "cs/base/mem.h"
#include "cs/base/units.h"

#include <math.h>

static const struct cs_loc HERE = {"study.yaml", 7, 3};

static const struct {
    const char *text;
    enum cs_unit unit;
    double want;
} GOOD[] = {
    {"7", CS_UNIT_NONE, 7},
    {"1.5k", CS_UNIT_NONE, 1500},
    {"70G", CS_UNIT_NONE, 70e9},
    {"2P", CS_UNIT_NONE, 2e15},
    {"1e3", CS_UNIT_NONE, 1000},
    {"1.e-8", CS_UNIT_NONE, 1e-8},
    {".5M", CS_UNIT_NONE, 5e5},
    {"+3", CS_UNIT_NONE, 3},
    {"0", CS_UNIT_NONE, 0},
    {"1024B", CS_UNIT_BYTES, 1024},
    {"64GiB", CS_UNIT_BYTES, 64 * 0x1p30},
    {"64 GiB", CS_UNIT_BYTES, 64 * 0x1p30},
    {"64GB", CS_UNIT_BYTES, 64e9},
    {"1kB", CS_UNIT_BYTES, 1e3},
    {"1KiB", CS_UNIT_BYTES, 1024},
    {"1MB", CS_UNIT_BYTES, 1e6},
    {"1MiB", CS_UNIT_BYTES, 0x1p20},
    {"1TiB", CS_UNIT_BYTES, 0x1p40},
    {"1e3MB", CS_UNIT_BYTES, 1e9},
    {"200GBps", CS_UNIT_BYTES_PER_S, 200e9},
    {"25GB/s", CS_UNIT_BYTES_PER_S, 25e9},
    {"200Gbps", CS_UNIT_BYTES_PER_S, 25e9},
    {"200Gbit/s", CS_UNIT_BYTES_PER_S, 25e9},
    {"200Gb/s", CS_UNIT_BYTES_PER_S, 25e9},
    {"100Mbps", CS_UNIT_BYTES_PER_S, 12.5e6},
    {"1GiB/s", CS_UNIT_BYTES_PER_S, 0x1p30},
    {"250ns", CS_UNIT_SECONDS, 250e-9},
    {"5us", CS_UNIT_SECONDS, 5e-6},
    {"2ms", CS_UNIT_SECONDS, 2e-3},
    {"10s", CS_UNIT_SECONDS, 10},
    {"10min", CS_UNIT_SECONDS, 600},
    {"1.5h", CS_UNIT_SECONDS, 5400},
    {"3d", CS_UNIT_SECONDS, 259200},
    {"312Tflop/s", CS_UNIT_FLOP_PER_S, 312e12},
    {"353.9TFLOPS", CS_UNIT_FLOP_PER_S, 353.9e12},
    {"1Gflops", CS_UNIT_FLOP_PER_S, 1e9},
    {"1PFLOP/s", CS_UNIT_FLOP_PER_S, 1e15},
    {"1Gf", CS_UNIT_FLOP_PER_S, 1e9},
    {"1f", CS_UNIT_FLOP_PER_S, 1},
    {"1.8GHz", CS_UNIT_HERTZ, 1.8e9},
    {"400W", CS_UNIT_WATT, 400},
    {"1.2kW", CS_UNIT_WATT, 1200},
    {"0.3", CS_UNIT_FRACTION, 0.3},
    {"30%", CS_UNIT_FRACTION, 0.3},
    {"150 %", CS_UNIT_FRACTION, 1.5},
};

START_TEST(test_good)
{
    struct cs_err err = {0};
    double value = -1;
    ck_assert_ok(cs_units_parse(GOOD[_i].text, GOOD[_i].unit, "x", HERE, &value, &err), &err);
    ck_assert_msg(value == GOOD[_i].want, "%s: got %.17g, want %.17g", GOOD[_i].text, value, GOOD[_i].want);
}
END_TEST

static const struct {
    const char *text;
    enum cs_unit unit;
    const char *part;
} BAD[] = {
    {"", CS_UNIT_BYTES, "'memory' has no value, write for example 64GiB"},
    {"64", CS_UNIT_BYTES, "'memory' is '64' without a unit, write for example 64GiB or 64GB"},
    {"64gb", CS_UNIT_BYTES, "unknown unit 'gb'"},
    {"64Gb", CS_UNIT_BYTES, "unknown unit 'Gb'"},
    {"64KB", CS_UNIT_BYTES, "unknown unit 'KB'"},
    {"64kiB", CS_UNIT_BYTES, "unknown unit 'kiB'"},
    {"64G", CS_UNIT_BYTES, "unknown unit 'G'"},
    {"64GB ", CS_UNIT_BYTES, "unknown unit 'GB '"},
    {"64GBx", CS_UNIT_BYTES, "unknown unit 'GBx'"},
    {"64GB/s", CS_UNIT_BYTES, "unknown unit 'GB/s'"},
    {"64 ", CS_UNIT_BYTES, "unknown unit ' '"},
    {"64\tGB", CS_UNIT_BYTES, "unknown unit ' GB'"},
    {" 64GB", CS_UNIT_BYTES, "should be a number"},
    {"1_000B", CS_UNIT_BYTES, "unknown unit '_000B'"},
    {"1,5GB", CS_UNIT_BYTES, "unknown unit ',5GB'"},
    {"0x10B", CS_UNIT_BYTES, "unknown unit 'x10B'"},
    {"-64GB", CS_UNIT_BYTES, "'-64GB', but must not be negative"},
    {"-0B", CS_UNIT_BYTES, "must not be negative"},
    {"+-1B", CS_UNIT_BYTES, "should be a number"},
    {"nan", CS_UNIT_NONE, "should be a number such as 7000000 or 7M"},
    {"inf", CS_UNIT_NONE, "should be a number"},
    {"-inf", CS_UNIT_NONE, "should be a number"},
    {".", CS_UNIT_NONE, "should be a number"},
    {"-", CS_UNIT_NONE, "should be a number"},
    {"e5", CS_UNIT_NONE, "should be a number"},
    {"1e", CS_UNIT_NONE, "unknown unit 'e'"},
    {"1e+", CS_UNIT_NONE, "unknown unit 'e+'"},
    {"1.2.3", CS_UNIT_NONE, "unknown unit '.3'"},
    {"7Mi", CS_UNIT_NONE, "unknown unit 'Mi'"},
    {"1e999", CS_UNIT_NONE, "'1e999', which is too large"},
    {"1e300P", CS_UNIT_NONE, "too large"},
    {"200Gbps", CS_UNIT_BYTES, "unknown unit 'Gbps'"},
    {"200gbps", CS_UNIT_BYTES_PER_S, "unknown unit 'gbps', write for example 25GB/s or 200Gbit/s"},
    {"10", CS_UNIT_SECONDS, "without a unit, write for example 5us"},
    {"10m", CS_UNIT_SECONDS, "unknown unit 'm'"},
    {"10kmin", CS_UNIT_SECONDS, "unknown unit 'kmin'"},
    {"1Kiflop/s", CS_UNIT_FLOP_PER_S, "unknown unit 'Kiflop/s'"},
    {"1.8ghz", CS_UNIT_HERTZ, "unknown unit 'ghz', write for example 1.8GHz"},
    {"400", CS_UNIT_WATT, "without a unit, write for example 400W"},
    {"0.3k", CS_UNIT_FRACTION, "unknown unit 'k', write for example 0.3 or 30%"},
};

START_TEST(test_bad)
{
    struct cs_err err = {0};
    double value = -1;
    cs_status st = cs_units_parse(BAD[_i].text, BAD[_i].unit, "memory", HERE, &value, &err);
    ck_assert_fails(st, &err, CS_E_INPUT, 7, BAD[_i].part);
    ck_assert_str_eq(err.file, "study.yaml");
    ck_assert(value == -1); /* untouched */
}
END_TEST

START_TEST(test_bad_long_text_is_clipped)
{
    struct cs_err err = {0};
    double value = -1;
    char *text = cs_calloc(100001, 1);
    memset(text, '9', 100000);
    ck_assert_fails(cs_units_parse(text, CS_UNIT_BYTES, "memory", HERE, &value, &err), &err, CS_E_INPUT, 7,
                    "999...'");
    ck_assert_uint_lt(strlen(err.text), 200);
    cs_free(text);
}
END_TEST

START_TEST(test_int)
{
    struct cs_err err = {0};
    int64_t value = -7;
    ck_assert_ok(cs_int_parse("0012", 0, 12, "n", HERE, &value, &err), &err);
    ck_assert_int_eq(value, 12);
    ck_assert_ok(cs_int_parse("-9223372036854775808", INT64_MIN, INT64_MAX, "n", HERE, &value, &err), &err);
    ck_assert(value == INT64_MIN);
    ck_assert_ok(cs_int_parse("+9223372036854775807", INT64_MIN, INT64_MAX, "n", HERE, &value, &err), &err);
    ck_assert(value == INT64_MAX);
}
END_TEST

static const struct {
    const char *text;
    int64_t min;
    int64_t max;
    const char *part;
} BAD_INT[] = {
    {"", 1, 8, "'n' has no value, but should be an integer from 1 to 8"},
    {"1e3", 1, 8, "'n' is '1e3', but should be an integer from 1 to 8"},
    {"1_000", INT64_MIN, INT64_MAX, "'1_000', but should be an integer"},
    {"2.0", 1, INT64_MAX, "an integer of at least 1"},
    {"0", 1, INT64_MAX, "'0', but should be an integer of at least 1"},
    {"9", INT64_MIN, 8, "'9', but should be an integer of at most 8"},
    {"0x8", 1, 8, "should be an integer"},
    {" 8", 1, 8, "should be an integer"},
    {"8 ", 1, 8, "should be an integer"},
    {"-", 1, 8, "should be an integer"},
    {"--8", 1, 8, "should be an integer"},
    {"9223372036854775808", INT64_MIN, INT64_MAX, "should be an integer"},
    {"-9223372036854775809", INT64_MIN, INT64_MAX, "should be an integer"},
    {"99999999999999999999999999", 1, INT64_MAX, "should be an integer"},
};

START_TEST(test_bad_int)
{
    struct cs_err err = {0};
    int64_t value = -7;
    cs_status st = cs_int_parse(BAD_INT[_i].text, BAD_INT[_i].min, BAD_INT[_i].max, "n", HERE, &value, &err);
    ck_assert_fails(st, &err, CS_E_INPUT, 7, BAD_INT[_i].part);
    ck_assert_int_eq(value, -7);
}
END_TEST

START_TEST(test_real)
{
    struct cs_err err = {0};
    double value = 0;
    ck_assert_ok(cs_real_parse("-1.e-8", "x", HERE, &value, &err), &err);
    ck_assert(value == -1e-8);
    ck_assert_ok(cs_real_parse("1e-400", "x", HERE, &value, &err), &err); /* too small is zero */
    ck_assert(value == 0);
    value = 5;
    static const char *const bad[] = {"",    "x",     "1x",    " 1",  "1 ", "nan", ".inf",
                                      "inf", "0x1p3", "1e999", "1,5", "-",  "+",   "1k"};
    for (int32_t i = 0; i < CS_COUNT(bad); i++) {
        ck_assert_fails(cs_real_parse(bad[i], "x", HERE, &value, &err), &err, CS_E_INPUT, 7, "'x' ");
    }
    ck_assert(value == 5);
}
END_TEST

static const struct {
    double value;
    enum cs_unit unit;
    const char *want;
} SHOWN[] = {
    {0, CS_UNIT_BYTES, "0 B"},
    {-0.0, CS_UNIT_BYTES, "0 B"},
    {512, CS_UNIT_BYTES, "512 B"},
    {64 * 0x1p30, CS_UNIT_BYTES, "64.0 GiB"},
    {1023.4 * 0x1p30, CS_UNIT_BYTES, "1023 GiB"},
    {1023.9 * 0x1p30, CS_UNIT_BYTES, "1.00 TiB"},
    {-3.5 * 0x1p30, CS_UNIT_BYTES, "-3.50 GiB"},
    {28e9, CS_UNIT_BYTES_PER_S, "28.0 GB/s"},
    {196e9, CS_UNIT_BYTES_PER_S, "196 GB/s"},
    {999.4e6, CS_UNIT_BYTES_PER_S, "999 MB/s"},
    {999.6e6, CS_UNIT_BYTES_PER_S, "1.00 GB/s"},
    {9.996e9, CS_UNIT_BYTES_PER_S, "10.0 GB/s"},
    {0.5, CS_UNIT_BYTES_PER_S, "0.500 B/s"},
    {0.0123, CS_UNIT_SECONDS, "12.3 ms"},
    {0, CS_UNIT_SECONDS, "0 s"},
    {5e-6, CS_UNIT_SECONDS, "5.00 us"},
    {1e-12, CS_UNIT_SECONDS, "0.001 ns"},
    {59.96, CS_UNIT_SECONDS, "1.00 min"},
    {5400, CS_UNIT_SECONDS, "1.50 h"},
    {86400 * 400.0, CS_UNIT_SECONDS, "400 d"},
    {86400 * 40000.0, CS_UNIT_SECONDS, "4e+04 d"},
    {353.9e12, CS_UNIT_FLOP_PER_S, "354 Tflop/s"},
    {1.8e9, CS_UNIT_HERTZ, "1.80 GHz"},
    {400, CS_UNIT_WATT, "400 W"},
    {1234567, CS_UNIT_WATT, "1.23 MW"},
    {70.6e9, CS_UNIT_NONE, "70.6 G"},
    {12, CS_UNIT_NONE, "12"},
    {0.3, CS_UNIT_FRACTION, "30.0%"},
    {0, CS_UNIT_FRACTION, "0%"},
    {(double)NAN, CS_UNIT_BYTES, "unknown"},
    {(double)INFINITY, CS_UNIT_BYTES, "infinite"},
    {-(double)INFINITY, CS_UNIT_BYTES, "-infinite"},
};

START_TEST(test_format)
{
    char buf[32];
    ck_assert_ptr_eq(cs_units_format(SHOWN[_i].value, SHOWN[_i].unit, buf, sizeof buf), buf);
    ck_assert_str_eq(buf, SHOWN[_i].want);
}
END_TEST

START_TEST(test_format_small_buffer)
{
    char buf[4];
    ck_assert_str_eq(cs_units_format(64 * 0x1p30, CS_UNIT_BYTES, buf, sizeof buf), "64.");
}
END_TEST

static Suite *units_suite(void)
{
    Suite *suite = suite_create("units");
    TCase *parse = tcase_create("parse");
    tcase_add_loop_test(parse, test_good, 0, CS_COUNT(GOOD));
    tcase_add_loop_test(parse, test_bad, 0, CS_COUNT(BAD));
    tcase_add_test(parse, test_bad_long_text_is_clipped);
    tcase_add_test(parse, test_int);
    tcase_add_loop_test(parse, test_bad_int, 0, CS_COUNT(BAD_INT));
    tcase_add_test(parse, test_real);
    suite_add_tcase(suite, parse);
    TCase *format = tcase_create("format");
    tcase_add_loop_test(format, test_format, 0, CS_COUNT(SHOWN));
    tcase_add_test(format, test_format_small_buffer);
    suite_add_tcase(suite, format);
    return suite;
}

CS_TEST_MAIN(units_suite)
