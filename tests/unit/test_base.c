/* err, mem, text, rng of room base. */
#include "cs_test.h"

#include "cs/base/mem.h"
#include "cs/base/rng.h"
#include "cs/base/text.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>

static const struct cs_loc SOMEWHERE = {"study.yaml", 14, 11};

/* err */

START_TEST(test_status_table)
{
    ck_assert_str_eq(cs_status_text(CS_OK), "success");
    ck_assert_str_eq(cs_status_text(CS_E_INPUT), "bad input");
    ck_assert_int_eq(cs_status_exit(CS_OK), 0);
    ck_assert_int_eq(cs_status_exit(CS_E_INPUT), 2);
    ck_assert_int_eq(cs_status_exit(CS_E_IO), 1);
    ck_assert_int_eq(cs_status_exit(CS_E_INFEASIBLE), 3);
}
END_TEST

START_TEST(test_status_out_of_range_is_a_bug)
{
    (void)cs_status_text((cs_status)1000);
}
END_TEST

START_TEST(test_err_set_and_format)
{
    struct cs_err err = {0};
    char text[256];
    ck_assert_int_eq(cs_err_set(&err, CS_E_INPUT, SOMEWHERE, "'mp' is %d", 6), CS_E_INPUT);
    ck_assert_fails(err.code, &err, CS_E_INPUT, 14, "'mp' is 6");
    cs_err_format(&err, text, sizeof text);
    ck_assert_str_eq(text, "study.yaml:14:11: error: 'mp' is 6");
    cs_err_set(&err, CS_E_INPUT, (struct cs_loc){"study.yaml", 14, 0}, "x");
    cs_err_format(&err, text, sizeof text);
    ck_assert_str_eq(text, "study.yaml:14: error: x");
    cs_err_set(&err, CS_E_INPUT, (struct cs_loc){"study.yaml", 0, 0}, "x");
    cs_err_format(&err, text, sizeof text);
    ck_assert_str_eq(text, "study.yaml: error: x");
    cs_err_set(&err, CS_E_INPUT, CS_NOLOC, "x");
    cs_err_format(&err, text, sizeof text);
    ck_assert_str_eq(text, "error: x");
    cs_err_set(&err, CS_E_INPUT, (struct cs_loc){NULL, 3, 4}, "x");
    cs_err_format(&err, text, sizeof text);
    ck_assert_str_eq(text, "3:4: error: x");
}
END_TEST

START_TEST(test_err_may_be_null)
{
    ck_assert_int_eq(cs_err_set(NULL, CS_E_IO, SOMEWHERE, "x"), CS_E_IO);
    cs_err_prefix(NULL, "while reading");
}
END_TEST

START_TEST(test_err_prefix)
{
    struct cs_err err = {0};
    cs_err_set(&err, CS_E_INPUT, SOMEWHERE, "no 'dtype'");
    cs_err_prefix(&err, "model '%s'", "llama");
    ck_assert_fails(err.code, &err, CS_E_INPUT, 14, "model 'llama': no 'dtype'");
    cs_err_set(&err, err.code, (struct cs_loc){err.file, err.line, err.col}, "again: %s", err.text);
    ck_assert_str_eq(err.text, "again: model 'llama': no 'dtype'"); /* arguments inside err */
    ck_assert_str_eq(err.file, "study.yaml");
}
END_TEST

START_TEST(test_err_text_is_one_clean_line)
{
    struct cs_err err = {0};
    cs_err_set(&err, CS_E_INPUT, (struct cs_loc){"a\nb", 1, 1},
               "x\r\n\ty\x1b[31m\x7f \xff \xc3\xa9 \xc2\x9b");
    ck_assert_str_eq(err.text, "x   y?[31m? ? \xc3\xa9 ??");
    ck_assert_str_eq(err.file, "a b");
}
END_TEST

START_TEST(test_err_long_text_and_file_are_cut)
{
    struct cs_err err = {0};
    char text[2001];
    char file[1000];
    char line[64];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (size_t i = 0; i + 1 < sizeof text; i += 2) {
        memcpy(text + i, "\xc3\xa9", 2); /* cut must not fall inside a character */
    }
    memset(file, 'd', sizeof file - 1);
    memcpy(file + sizeof file - 8, "/x.yaml", 8);
    for (size_t skip = 0; skip < 2; skip++) {
        cs_err_set(&err, CS_E_INPUT, (struct cs_loc){file, 1, 1}, "%s%s", skip ? "b" : "", text);
        ck_assert(strlen(err.text) < CS_ERR_TEXT_MAX && strlen(err.text) > CS_ERR_TEXT_MAX - 8);
        ck_assert(cs_text_ends_with(err.text, "\xc3\xa9..."));
        ck_assert(cs_text_ends_with(err.file, "/x.yaml") && cs_text_starts_with(err.file, "...d"));
        ck_assert_uint_eq(strlen(err.file), CS_ERR_FILE_MAX - 1);
    }
    cs_err_prefix(&err, "%s", text);
    ck_assert(strlen(err.text) < CS_ERR_TEXT_MAX && cs_text_ends_with(err.text, "..."));
    cs_err_format(&err, line, sizeof line);
    ck_assert(strlen(line) < sizeof line && cs_text_ends_with(line, "..."));
    cs_err_format(&err, line, 1);
    ck_assert_str_eq(line, "");
}
END_TEST

START_TEST(test_assert_aborts)
{
    CS_ASSERT(1 + 1 == 3);
}
END_TEST

/* mem */

START_TEST(test_alloc_zero_sizes)
{
    void *a = cs_malloc(0);
    void *b = cs_calloc(0, 8);
    void *c = cs_reallocarray(NULL, 0, 8);
    ck_assert(a && b && c);
    cs_free(a);
    cs_free(b);
    cs_free(c);
    cs_free(NULL);
}
END_TEST

START_TEST(test_calloc_overflow_aborts)
{
    cs_free(cs_calloc(SIZE_MAX / 2, 4));
}
END_TEST

START_TEST(test_reallocarray_overflow_aborts)
{
    cs_free(cs_reallocarray(NULL, SIZE_MAX / 2, 4));
}
END_TEST

START_TEST(test_arena_calloc_overflow_aborts)
{
    struct cs_arena arena = {0};
    (void)cs_arena_calloc(&arena, SIZE_MAX / 2, 4);
}
END_TEST

START_TEST(test_arena_huge_aborts)
{
    struct cs_arena arena = {0};
    (void)cs_arena_alloc(&arena, SIZE_MAX - 3);
}
END_TEST

START_TEST(test_arena)
{
    struct cs_arena arena = {0};
    unsigned char *blocks[200];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 200; i++) {
            size_t bytes = i % 50 == 49 ? 3000000 : i * 37; /* some larger than any block */
            blocks[i] = cs_arena_alloc(&arena, bytes);
            ck_assert_uint_eq((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
            size_t n_zeros = 0;
            for (size_t j = 0; j < bytes; j++) {
                n_zeros += blocks[i][j] == 0;
            }
            ck_assert_uint_eq(n_zeros, bytes);
            memset(blocks[i], (int)i, bytes);
        }
        for (size_t i = 0; i < 200; i++) { /* nobody wrote into a neighbour */
            size_t bytes = i % 50 == 49 ? 3000000 : i * 37;
            ck_assert(bytes == 0 ||
                      (blocks[i][0] == (unsigned char)i && blocks[i][bytes - 1] == (unsigned char)i));
        }
        ck_assert_uint_ge(arena.used_bytes, 4 * 3000000);
        cs_arena_release(&arena);
        ck_assert(arena.head == NULL && arena.used_bytes == 0);
        cs_arena_release(&arena);
    }
}
END_TEST

START_TEST(test_arena_texts)
{
    struct cs_arena arena = {0};
    ck_assert_str_eq(cs_arena_strdup(&arena, "abc"), "abc");
    ck_assert_str_eq(cs_arena_strndup(&arena, "abcdef", 3), "abc");
    ck_assert_str_eq(cs_arena_strndup(&arena, "ab", 30), "ab");
    ck_assert_str_eq(cs_arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
    int values[3] = {1, 2, 3};
    int *copy = cs_arena_memdup(&arena, values, sizeof values);
    ck_assert_int_eq(copy[2], 3);
    ck_assert_ptr_nonnull(cs_arena_memdup(&arena, NULL, 0));
    int64_t *zeros = CS_ARENA_NEW(&arena, int64_t, 4);
    ck_assert_int_eq(zeros[3], 0);
    cs_arena_release(&arena);
}
END_TEST

START_TEST(test_grow)
{
    int32_t *list = NULL;
    int32_t n = 0;
    int32_t cap = 0;
    for (int32_t i = 0; i < 1000; i++) {
        CS_GROW(list, n, cap);
        list[n++] = i;
    }
    ck_assert(n == 1000 && cap >= n && list[999] == 999);
    cs_free(list);
}
END_TEST

START_TEST(test_strbuf)
{
    struct cs_strbuf buf = {0};
    ck_assert_str_eq(cs_strbuf_str(&buf), "");
    cs_strbuf_addn(&buf, "", 0);
    ck_assert_str_eq(buf.text, "");
    for (int i = 0; i < 1000; i++) {
        cs_strbuf_addf(&buf, "%d,", i % 10);
    }
    cs_strbuf_add(&buf, "end");
    cs_strbuf_addn(&buf, "abcdef", 2);
    ck_assert_uint_eq(buf.len, 2005);
    ck_assert_uint_eq(strlen(cs_strbuf_str(&buf)), 2005);
    ck_assert(cs_text_ends_with(buf.text, "9,endab"));
    cs_strbuf_release(&buf);
    cs_strbuf_release(&buf);
    ck_assert_str_eq(cs_strbuf_str(&buf), "");
}
END_TEST

/* text */

START_TEST(test_nearest)
{
    static const char *const names[] = {"micro_batch", "global_batch", "seq_length", "dtype",
                                        "dp",          "mp",           NULL};
    ck_assert_str_eq(cs_text_nearest("mirco_batch", names), "micro_batch");
    ck_assert_str_eq(cs_text_nearest("microbatch", names), "micro_batch");
    ck_assert_str_eq(cs_text_nearest("DTYPE", names), "dtype");
    ck_assert_str_eq(cs_text_nearest("seq_lenght", names), "seq_length");
    ck_assert_ptr_null(cs_text_nearest("optimizer", names));
    ck_assert_ptr_null(cs_text_nearest("", names));
    ck_assert_ptr_null(cs_text_nearest("xp", names));
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ck_assert_ptr_null(cs_text_nearest(longer, names));
    const char *const long_names[] = {longer, NULL};
    ck_assert_ptr_null(cs_text_nearest("aaaa", long_names));
    static const char *const none[] = {NULL};
    ck_assert_ptr_null(cs_text_nearest("a", none));
}
END_TEST

START_TEST(test_prefix_suffix_index)
{
    static const char *const names[] = {"a", "b", NULL};
    ck_assert(cs_text_ends_with("run.yaml", ".yaml") && !cs_text_ends_with("l", ".yaml"));
    ck_assert(cs_text_ends_with("x", "") && !cs_text_ends_with("run.yaml", ".xml"));
    ck_assert(cs_text_starts_with("run.yaml", "run") && !cs_text_starts_with("ru", "run"));
    ck_assert_int_eq(cs_text_index("b", names), 1);
    ck_assert_int_eq(cs_text_index("c", names), -1);
}
END_TEST

START_TEST(test_clip)
{
    char buf[CS_TEXT_CLIP_BYTES];
    char text[100];
    ck_assert_str_eq(cs_text_clip("short", buf), "short");
    for (size_t len = 60; len < sizeof text; len++) { /* around the size of the buffer */
        memset(text, 'x', len);
        text[len] = '\0';
        cs_text_clip(text, buf);
        ck_assert(len < CS_TEXT_CLIP_BYTES ? strcmp(buf, text) == 0 : cs_text_ends_with(buf, "xxx..."));
        ck_assert_uint_le(strlen(buf), CS_TEXT_CLIP_BYTES - 1);
    }
    ck_assert_str_eq(cs_text_clip("a\nb", buf), "a b");
    /* Not UTF-8: overlong, surrogate, above U+10FFFF, cut off. */
    ck_assert_str_eq(cs_text_clip("\xc0\x80 \xe0\x80\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82", buf),
                     "?? ??? ??? ???? ??");
    ck_assert_str_eq(cs_text_clip("\xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf", buf),
                     "\xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf");
}
END_TEST

START_TEST(test_hash)
{
    uint64_t ab = cs_hash_mix(cs_hash_mix(CS_HASH_SEED, 1), 2);
    uint64_t ba = cs_hash_mix(cs_hash_mix(CS_HASH_SEED, 2), 1);
    ck_assert_uint_ne(ab, ba);
    ck_assert_uint_ne(cs_hash_text(CS_HASH_SEED, "abc"), cs_hash_text(CS_HASH_SEED, "abd"));
    ck_assert_uint_eq(cs_hash_text(CS_HASH_SEED, "abc"), cs_hash_bytes(CS_HASH_SEED, "abc", 3));
    ck_assert_uint_ne(cs_hash_bytes(CS_HASH_SEED, "ab\0", 3), cs_hash_bytes(CS_HASH_SEED, "ab", 2));
    ck_assert_uint_ne(cs_hash_text(cs_hash_text(CS_HASH_SEED, "a"), "bc"),
                      cs_hash_text(cs_hash_text(CS_HASH_SEED, "ab"), "c"));
    ck_assert_uint_eq(cs_hash_real(CS_HASH_SEED, 0.0), cs_hash_real(CS_HASH_SEED, -0.0));
    ck_assert_uint_eq(cs_hash_real(CS_HASH_SEED, (double)NAN), cs_hash_real(CS_HASH_SEED, -(double)NAN));
    ck_assert_uint_ne(cs_hash_real(CS_HASH_SEED, 1.0), cs_hash_real(CS_HASH_SEED, 1.0 + 0x1p-52));
    /* splitmix64's first output for state 0. */
    ck_assert_uint_eq(cs_hash_mix(0, 0), UINT64_C(0xe220a8397b1dcdaf));
}
END_TEST

/* rng */

START_TEST(test_pcg32_published_vector)
{
    static const uint32_t want[] = {0xa15c02b7, 0x7b47f409, 0xba1d3330, 0x83d2f293, 0xbfa4784b, 0xcbed606e};
    struct cs_rng rng;
    cs_rng_init(&rng, 42, 54);
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(cs_rng_u32(&rng), want[i]);
    }
}
END_TEST

START_TEST(test_rng_streams_differ)
{
    struct cs_rng a;
    struct cs_rng b;
    cs_rng_init(&a, 1, 1);
    cs_rng_init(&b, 1, 2);
    int n_equal = 0;
    for (int i = 0; i < 1000; i++) {
        n_equal += cs_rng_u32(&a) == cs_rng_u32(&b);
    }
    ck_assert_int_le(n_equal, 1);
}
END_TEST

START_TEST(test_rng_below)
{
    struct cs_rng rng;
    int counts[7] = {0};
    cs_rng_init(&rng, 7, 0);
    for (int i = 0; i < 70000; i++) {
        uint32_t value = cs_rng_below(&rng, 7);
        ck_assert_uint_lt(value, 7);
        counts[value]++;
    }
    for (int i = 0; i < 7; i++) { /* 10,000 expected, standard deviation 93 */
        ck_assert(counts[i] > 9500 && counts[i] < 10500);
    }
    ck_assert_uint_eq(cs_rng_below(&rng, 1), 0);
    ck_assert_uint_lt(cs_rng_below(&rng, UINT32_MAX), UINT32_MAX);
}
END_TEST

START_TEST(test_rng_below_zero_is_a_bug)
{
    struct cs_rng rng;
    cs_rng_init(&rng, 7, 0);
    (void)cs_rng_below(&rng, 0);
}
END_TEST

START_TEST(test_rng_moments)
{
    struct cs_rng rng;
    enum { N = 100000 };
    double unit_sum = 0;
    double normal_sum = 0;
    double square_sum = 0;
    cs_rng_init(&rng, 3, 0);
    for (int i = 0; i < N; i++) {
        double unit = cs_rng_unit(&rng);
        double normal = cs_rng_normal(&rng);
        ck_assert(unit >= 0 && unit < 1 && isfinite(normal));
        unit_sum += unit;
        normal_sum += normal;
        square_sum += normal * normal;
    }
    /* Five standard errors. */
    ck_assert(fabs(unit_sum / N - 0.5) < 5 * 0.289 / sqrt(N));
    ck_assert(fabs(normal_sum / N) < 5 / sqrt(N));
    ck_assert(fabs(square_sum / N - 1) < 5 * sqrt(2.0 / N));
}
END_TEST

static Suite *base_suite(void)
{
    Suite *suite = suite_create("base");
    TCase *err = tcase_create("err");
    tcase_add_test(err, test_status_table);
    tcase_add_test_raise_signal(err, test_status_out_of_range_is_a_bug, SIGABRT);
    tcase_add_test(err, test_err_set_and_format);
    tcase_add_test(err, test_err_may_be_null);
    tcase_add_test(err, test_err_prefix);
    tcase_add_test(err, test_err_text_is_one_clean_line);
    tcase_add_test(err, test_err_long_text_and_file_are_cut);
    tcase_add_test_raise_signal(err, test_assert_aborts, SIGABRT);
    suite_add_tcase(suite, err);

    TCase *mem = tcase_create("mem");
    tcase_add_test(mem, test_alloc_zero_sizes);
    tcase_add_test_raise_signal(mem, test_reallocarray_overflow_aborts, SIGABRT);
    tcase_add_test_raise_signal(mem, test_arena_calloc_overflow_aborts, SIGABRT);
    tcase_add_test_raise_signal(mem, test_arena_huge_aborts, SIGABRT);
#ifndef CS_SANITIZER /* AddressSanitizer ends the process itself when calloc overflows */
    tcase_add_test_raise_signal(mem, test_calloc_overflow_aborts, SIGABRT);
#else
    (void)test_calloc_overflow_aborts;
#endif
    tcase_add_test(mem, test_arena);
    tcase_add_test(mem, test_arena_texts);
    tcase_add_test(mem, test_grow);
    tcase_add_test(mem, test_strbuf);
    suite_add_tcase(suite, mem);

    TCase *text = tcase_create("text");
    tcase_add_test(text, test_nearest);
    tcase_add_test(text, test_prefix_suffix_index);
    tcase_add_test(text, test_clip);
    tcase_add_test(text, test_hash);
    suite_add_tcase(suite, text);

    TCase *rng = tcase_create("rng");
    tcase_add_test(rng, test_pcg32_published_vector);
    tcase_add_test(rng, test_rng_streams_differ);
    tcase_add_test(rng, test_rng_below);
    tcase_add_test_raise_signal(rng, test_rng_below_zero_is_a_bug, SIGABRT);
    tcase_add_test(rng, test_rng_moments);
    suite_add_tcase(suite, rng);
    return suite;
}

CS_TEST_MAIN(base_suite)
