/* Whatever the reader of platform files accepts SimGrid loads. */
#include "topology_fixture.h"

#include "cs_test.h"

#include "cs/base/file.h"

#include <stdio.h>

struct text {
    char *bytes;
    size_t len;
};

/* Start and length of a random line. */
static void pick_line(const struct text *text, struct cs_rng *rng, size_t *start, size_t *len)
{
    size_t at = cs_rng_below(rng, (uint32_t)text->len);
    while (at > 0 && text->bytes[at - 1] != '\n') {
        at--;
    }
    *start = at;
    *len = strcspn(text->bytes + at, "\n") + 1;
    if (*start + *len > text->len) {
        *len = text->len - *start;
    }
}

/* Start and length of a random attribute value, 0 when there is none. */
static void pick_value(const struct text *text, struct cs_rng *rng, size_t *start, size_t *len)
{
    size_t at = cs_rng_below(rng, (uint32_t)text->len);
    const char *quote = strstr(text->bytes + at, "=\"");
    *start = 0;
    *len = 0;
    if (quote) {
        *start = (size_t)(quote - text->bytes) + 2;
        *len = strcspn(quote + 2, "\"");
    }
}

/* Replace text[start .. start + len) by `n` bytes. */
static void splice(struct text *text, size_t start, size_t len, const char *bytes, size_t n)
{
    char *copy = malloc(text->len - len + n + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text->bytes, start);
    memcpy(copy + start, bytes, n);
    memcpy(copy + start + n, text->bytes + start + len, text->len - start - len);
    text->len = text->len - len + n;
    copy[text->len] = '\0';
    free(text->bytes);
    text->bytes = copy;
}

static void mutate(struct text *text, struct cs_rng *rng)
{
    static const char *const words[] = {
        "",      "0",     "-1",      "1",        "NONE",    "UP",         "DOWN", "Floyd",
        "Full",  "None",  "Cluster", "Dijkstra", "1f",      "1GBps",      "1us",  "0-3",
        "5-2",   "nan",   "1e309s",  "FATPIPE",  "SHARED",  "TORUS",      "4.1",  "a b",
        "root",  "npu0",  "nic0",    "leaf0",    "hccs0-1", "2,2",        "NO",   "YES",
        "&amp;", "&#65;", "1 GBps",  "0x1p3f",   "1;2;2;1", "SPLITDUPLEX"};
    static const char *const tags[] = {"<prop id=\"q\" value=\"v\"/>",
                                       "<link id=\"new\" bandwidth=\"1GBps\" latency=\"0\"/>",
                                       "<host id=\"new\" speed=\"1f\"/>",
                                       "<router id=\"new\"/>",
                                       "<zone id=\"new\" routing=\"Full\"/>",
                                       "<!-- c -->",
                                       "<?p i?>",
                                       "<config/>",
                                       "&#32;",
                                       "<![CDATA[ ]]>"};
    size_t a = 0;
    size_t a_len = 0;
    size_t b = 0;
    size_t b_len = 0;
    const char *word = words[cs_rng_below(rng, CS_COUNT(words))];
    const char *tag = tags[cs_rng_below(rng, CS_COUNT(tags))];
    pick_line(text, rng, &a, &a_len);
    pick_line(text, rng, &b, &b_len);
    switch (cs_rng_below(rng, 7)) {
    case 0:
        splice(text, a, a_len, "", 0);
        break;
    case 1: { /* a copy of a line somewhere else */
        char *line = strndup(text->bytes + a, a_len);
        splice(text, b, 0, line, a_len);
        free(line);
        break;
    }
    case 2:
        splice(text, a, 0, tag, strlen(tag));
        break;
    case 3:
        pick_value(text, rng, &a, &a_len);
        splice(text, a, a_len, word, strlen(word));
        break;
    case 4: { /* one value in the place of another */
        pick_value(text, rng, &a, &a_len);
        pick_value(text, rng, &b, &b_len);
        char *value = strndup(text->bytes + b, b_len);
        splice(text, a, a_len, value, b_len);
        free(value);
        break;
    }
    case 5: /* an attribute less */
        pick_value(text, rng, &a, &a_len);
        b = a;
        while (b > 0 && text->bytes[b - 1] != ' ') {
            b--;
        }
        if (a > 0) {
            splice(text, b, a + a_len + 1 - b, "", 0);
        }
        break;
    default: /* a character */
        a = cs_rng_below(rng, (uint32_t)text->len);
        splice(text, a, cs_rng_below(rng, 2), (const char[]){"<>\"'&=/ 09aZ;,-\t\n"[cs_rng_below(rng, 17)]},
               1);
        break;
    }
}

static void nothing(void *data)
{
    (void)data;
}

/* The file of a case: mixed.xml or a small generated one, as it is or changed once to three times. */
static struct text case_text(struct cs_rng *rng, int n_changes)
{
    struct cs_err err = {0};
    struct text text = {0};
    const char *source = CS_TEST_SOURCE_DIR "/tests/data/good/platform/mixed.xml";
    if (cs_rng_below(rng, 3) > 0) {
        struct cs_topology_spec spec = topology_random(rng);
        spec.n_nodes = 2;
        spec.second.n_nodes = 0;
        spec.devices_per_node = 2;
        memset(spec.dims, 0, sizeof spec.dims);
        spec.leaf_ports = 2;
        spec.levels = 0;
        topology_write(&spec);
        source = topology_path;
    }
    char *bytes = NULL;
    ck_assert_ok(cs_file_read(source, 1 << 20, &bytes, &text.len, &err), &err);
    text.bytes = strdup(bytes);
    cs_free(bytes);
    for (int i = 0; i < n_changes && text.len > 0; i++) {
        mutate(&text, rng);
    }
    return text;
}

START_TEST(test_accepted_files_load)
{
    const char *given = getenv("CS_TEST_CASES");
    int n_cases = given ? atoi(given) : 400;
    int n_accepted = 0;
    for (int seed = 1; seed <= n_cases; seed++) {
        struct cs_rng rng;
        cs_rng_init(&rng, (uint64_t)seed, 2);
        struct text text = case_text(&rng, seed % 4);
        FILE *stream = fopen(topology_path, "w");
        ck_assert_ptr_nonnull(stream);
        fwrite(text.bytes, 1, text.len, stream);
        fclose(stream);
        struct cs_err err = {0};
        struct cs_platform platform = {0};
        cs_status st = cs_platform_load(&platform, topology_path, topology_catalogue, &err);
        if (st == CS_OK) {
            n_accepted++;
            int status = topology_in_simgrid(platform.devices[0].host, nothing, NULL);
            ck_assert_msg(status == 0, "seed %d: accepted, but SimGrid ends with %d on\n%s", seed, status,
                          text.bytes);
            cs_platform_release(&platform);
        } else {
            ck_assert_msg(seed % 4 != 0, "seed %d: refused unchanged: %s", seed, err.text);
        }
        free(text.bytes);
    }
    ck_assert_int_gt(n_accepted, n_cases / 4);
    ck_assert_int_lt(n_accepted, n_cases);
}
END_TEST

static Suite *platform_accepted_suite(void)
{
    Suite *suite = suite_create("platform_accepted");
    TCase *tcase = tcase_create("simgrid");
    tcase_add_checked_fixture(tcase, topology_setup, topology_teardown);
    tcase_add_test(tcase, test_accepted_files_load);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(platform_accepted_suite)
