/* yaml of room base: loading, what is refused and where, typed readers. */
#include "cs_test.h"

#include "cs/base/text.h"
#include "cs/base/yaml.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

static struct cs_yaml doc;
static struct cs_err err;

static void start(void)
{
    doc = (struct cs_yaml){0};
    err = (struct cs_err){0};
}

static void finish(void)
{
    cs_yaml_release(&doc);
    cs_yaml_release(&doc);
}

static const struct cs_yaml_node *load(const char *text)
{
    ck_assert_ok(cs_yaml_load_text(&doc, text, strlen(text), "t.yaml", &err), &err);
    return doc.root;
}

static const char *text_of(const struct cs_yaml_node *map, const char *key)
{
    const struct cs_yaml_node *node = cs_yaml_get(map, key);
    ck_assert_ptr_nonnull(node);
    ck_assert_int_eq(node->kind, CS_YAML_SCALAR);
    return node->text;
}

static void assert_at(const struct cs_yaml_node *node, int line, int col)
{
    ck_assert_str_eq(node->loc.file, "t.yaml");
    ck_assert_int_eq(node->loc.line, line);
    ck_assert_int_eq(node->loc.col, col);
}

START_TEST(test_tree_and_places)
{
    const struct cs_yaml_node *root = load("# study\n"
                                           "model: llama\n"
                                           "strategy:\n"
                                           "  mp: [1, '2', \"a\\tb\"]\n"
                                           "  empty:\n"
                                           "text: |\n"
                                           "  two\n"
                                           "  lines\n");
    ck_assert_int_eq(root->kind, CS_YAML_MAP);
    ck_assert_int_eq(root->n, 3);
    assert_at(root, 2, 1);
    assert_at(root->keys[1], 3, 1);
    ck_assert_str_eq(root->keys[1]->text, "strategy");
    ck_assert_str_eq(text_of(root, "model"), "llama");
    ck_assert_str_eq(text_of(root, "text"), "two\nlines\n");
    const struct cs_yaml_node *strategy = cs_yaml_get(root, "strategy");
    assert_at(strategy, 4, 3);
    ck_assert_str_eq(text_of(strategy, "empty"), "");
    const struct cs_yaml_node *mp = cs_yaml_get(strategy, "mp");
    ck_assert_int_eq(mp->kind, CS_YAML_LIST);
    ck_assert_int_eq(mp->n, 3);
    ck_assert_str_eq(mp->items[2]->text, "a\tb");
    ck_assert(!mp->items[0]->quoted && mp->items[1]->quoted && mp->items[2]->quoted);
    assert_at(mp->items[1], 4, 11);
    ck_assert_ptr_null(cs_yaml_get(root, "none"));
    ck_assert_ptr_null(cs_yaml_get(mp, "none"));
    ck_assert_ptr_null(cs_yaml_get(NULL, "none"));
}
END_TEST

START_TEST(test_empty_collections_and_scalar_root)
{
    const struct cs_yaml_node *root = load("a: []\nb: {}\n");
    ck_assert(cs_yaml_get(root, "a")->n == 0 && cs_yaml_get(root, "b")->n == 0);
    ck_assert_str_eq(load("word")->text, "word"); /* loads again into the same document */
    ck_assert_str_eq(load("''")->text, "");
    ck_assert_str_eq(text_of(load("\xef\xbb\xbf"
                                  "a: 1\n"),
                             "a"),
                     "1"); /* byte order mark */
    ck_assert_str_eq(text_of(load("---\na: 1\n...\n"), "a"), "1");
    ck_assert_str_eq(text_of(load("a: 1\r\nb: 2\r\n"), "b"), "2");
    ck_assert_str_eq(text_of(load("a: !!int 5\n"), "a"), "5"); /* tags say nothing: the reader decides */
    ck_assert_str_eq(text_of(load("a: \xc3\xa9\xf0\x9f\x98\x80"), "a"), "\xc3\xa9\xf0\x9f\x98\x80");
}
END_TEST

START_TEST(test_aliases)
{
    const struct cs_yaml_node *root = load("a: &x {k: 1}\nb: *x\nc: &x 3\nd: *x\n*x : 4\n");
    ck_assert_ptr_eq(cs_yaml_get(root, "a"), cs_yaml_get(root, "b"));
    ck_assert_str_eq(text_of(root, "d"), "3"); /* the later anchor of a name counts */
    ck_assert_str_eq(text_of(root, "3"), "4");
    assert_at(root->keys[4], 5, 1); /* a key stands where it is a key */
    struct cs_strbuf text = {0};
    for (int i = 0; i < 500; i++) {
        cs_strbuf_addf(&text, "- &a%d v%d\n", i, i);
    }
    for (int i = 499; i >= 0; i--) {
        cs_strbuf_addf(&text, "- *a%d\n", i);
    }
    root = load(text.text);
    for (int i = 0; i < 500; i++) {
        ck_assert_ptr_eq(root->items[i], root->items[999 - i]);
    }
    cs_strbuf_release(&text);
}
END_TEST

START_TEST(test_merge_keys)
{
    const struct cs_yaml_node *root = load("one: &one {a: 1, b: 1}\n"
                                           "two: &two {b: 2, c: 2, d: 2}\n"
                                           "both:\n"
                                           "  c: 0\n"
                                           "  <<: [*one, *two]\n"
                                           "  e: 0\n"
                                           "single: &single\n"
                                           "  <<: *one\n"
                                           "  b: 9\n"
                                           "chain: {<<: *single}\n"
                                           "inline: {<<: {x: 1}}\n"
                                           "none: {<<: []}\n"
                                           "quoted: {'<<': 5}\n");
    const struct cs_yaml_node *both = cs_yaml_get(root, "both");
    ck_assert_int_eq(both->n, 5);
    ck_assert_str_eq(text_of(both, "a"), "1");
    ck_assert_str_eq(text_of(both, "b"), "1"); /* the earlier map wins */
    ck_assert_str_eq(text_of(both, "c"), "0"); /* what is written out wins */
    ck_assert_str_eq(text_of(both, "d"), "2");
    ck_assert_str_eq(both->keys[1]->text, "e"); /* merged ones come last */
    assert_at(both->keys[4], 2, 24);            /* and keep their place */
    const struct cs_yaml_node *single = cs_yaml_get(root, "single");
    ck_assert_int_eq(single->n, 2);
    ck_assert_str_eq(text_of(single, "b"), "9");
    ck_assert_str_eq(text_of(cs_yaml_get(root, "chain"), "b"), "9");
    ck_assert_str_eq(text_of(cs_yaml_get(root, "chain"), "a"), "1");
    ck_assert_str_eq(text_of(cs_yaml_get(root, "inline"), "x"), "1");
    ck_assert_int_eq(cs_yaml_get(root, "none")->n, 0);
    ck_assert_str_eq(text_of(cs_yaml_get(root, "quoted"), "<<"), "5");
}
END_TEST

/* Several merge keys in one map, as PyYAML takes them: the last counts, but for what is written out. */
START_TEST(test_merge_keys_again)
{
    static const char text[] = "a: &a {x: 1, y: 1}\n"
                               "b: &b {x: 2, y: 2, z: 2}\n"
                               "c: {<<: *a, y: 3, <<: *b}\n"
                               "d: {<<: [*b, *a], <<: [*a, {w: 4}]}\n";
    struct cs_yaml yaml = {.last_wins = true};
    ck_assert_ok(cs_yaml_load_text(&yaml, text, sizeof text - 1, "run.yaml", &err), &err);
    const struct cs_yaml_node *c = cs_yaml_get(yaml.root, "c");
    ck_assert_int_eq(c->n, 3);
    ck_assert_str_eq(text_of(c, "x"), "2");
    ck_assert_str_eq(text_of(c, "y"), "3");
    ck_assert_str_eq(text_of(c, "z"), "2");
    const struct cs_yaml_node *d = cs_yaml_get(yaml.root, "d");
    ck_assert_int_eq(d->n, 4);
    ck_assert_str_eq(text_of(d, "x"), "1");
    ck_assert_str_eq(text_of(d, "z"), "2");
    ck_assert_str_eq(text_of(d, "w"), "4");
    ck_assert_int_eq(yaml.n_repeats, 0);
    cs_yaml_release(&yaml);
}
END_TEST

static const struct {
    const char *text;
    size_t bytes; /* 0: up to the terminator */
    cs_status code;
    int line;
    int col;
    const char *part;
} BAD[] = {
    {"", 0, CS_E_INPUT, 1, 0, "the file is empty"},
    {"# only a comment\n", 0, CS_E_INPUT, 1, 0, "the file is empty"},
    {"---\n...\n", 0, CS_E_INPUT, 1, 0, "the file is empty"},
    {"\xef\xbb\xbf", 0, CS_E_INPUT, 1, 0, "the file is empty"},
    {"a: 1\nb: 2\na: 3\n", 0, CS_E_INPUT, 3, 1, "duplicate key 'a', first given in line 1"},
    {"x:\n  b: 1\n  c: 1\n  'c': 2\n  b: 3\n", 0, CS_E_INPUT, 4, 3,
     "duplicate key 'c', first given in line 3"},
    {"{a: 1, a: 2}", 0, CS_E_INPUT, 1, 8, "duplicate key 'a'"},
    {"k: &k a\na: 1\n*k : 2\n", 0, CS_E_INPUT, 3, 1, "duplicate key 'a', first given in line 2"},
    {"a: &a {}\nb:\n  <<: *a\n  <<: *a\n", 0, CS_E_INPUT, 4, 3, "duplicate key '<<', first given in line 3"},
    {"a: 1\nb: \0\n", 9, CS_E_INPUT, 2, 4, "contains a NUL byte"},
    {"a: 1\nb: 2\n\0", 11, CS_E_INPUT, 3, 1, "contains a NUL byte"},
    {"\xff\xfe"
     "a\0:\0",
     6, CS_E_INPUT, 1, 4, "contains a NUL byte, but should be UTF-8 text"},
    {"a:\n- \"x\\0y\"\n", 0, CS_E_INPUT, 2, 3, "contains a NUL character"},
    {"a: 1\n---\nb: 2\n", 0, CS_E_INPUT, 2, 1, "a second document starts here"},
    {"a: 1\nb: \xff\n", 0, CS_E_INPUT, 2, 4, "not valid YAML: invalid leading UTF-8 octet"},
    {"a: 1\n\nb: caf\xc3", 0, CS_E_INPUT, 3, 7, "not valid YAML: incomplete UTF-8"},
    {"a: \x01", 0, CS_E_INPUT, 1, 4, "control characters are not allowed"},
    {"a: [1, 2\nb: 3\n", 0, CS_E_INPUT, 2, 2, "flow sequence (from line 1)"},
    {"a: 1\n b: 2\n", 0, CS_E_INPUT, 2, 3, "not valid YAML: mapping values are not allowed"},
    {"a:\n\t- 1\n", 0, CS_E_INPUT, 2, 1, "not valid YAML: found character that cannot start any token"},
    {"a: 'x\n", 0, CS_E_INPUT, 2, 1, "unexpected end of stream"},
    {"a: *x\n", 0, CS_E_INPUT, 1, 4, "alias '*x' has no anchor '&x' before it"},
    {"a: &y 1\nb: *x\nc: &x 1\n", 0, CS_E_INPUT, 2, 4, "alias '*x' has no anchor"},
    {"a: &a\n  b: *a\n", 0, CS_E_INPUT, 2, 6, "alias '*a' stands inside what it refers to (line 1)"},
    {"a: &a [1, [*a]]\n", 0, CS_E_INPUT, 1, 12, "alias '*a' stands inside what it refers to (line 1)"},
    {"a: &a\n  <<: *a\n", 0, CS_E_INPUT, 2, 7, "stands inside"},
    {"b: 1\n? [a]\n: 1\n", 0, CS_E_INPUT, 2, 3, "a key must be a text, found a list or a map"},
    {"a: &a {}\n*a : 1\n", 0, CS_E_INPUT, 2, 1, "a key must be a text, found an alias"},
    {"a:\n  <<: 5\n", 0, CS_E_INPUT, 2, 3, "merge key '<<' needs a map or a list of maps"},
    {"a:\n  <<: [{x: 1}, 5]\n", 0, CS_E_INPUT, 2, 3, "merge key '<<' needs"},
    {"a:\n  <<:\n", 0, CS_E_INPUT, 2, 3, "merge key '<<' needs"},
    {"%YAML 9.9\n---\na\n", 0, CS_E_INPUT, 1, 1, "incompatible YAML document"},
};

START_TEST(test_bad)
{
    const struct cs_yaml_node *before = load("kept: 1\n");
    size_t bytes = BAD[_i].bytes ? BAD[_i].bytes : strlen(BAD[_i].text);
    char *copy = cs_malloc(bytes); /* of exactly this size: AddressSanitizer sees a read past it */
    if (bytes > 0) {
        memcpy(copy, BAD[_i].text, bytes);
    }
    cs_status st = cs_yaml_load_text(&doc, copy, bytes, "bad.yaml", &err);
    cs_free(copy);
    ck_assert_fails(st, &err, BAD[_i].code, BAD[_i].line, BAD[_i].part);
    ck_assert_int_eq(err.col, BAD[_i].col);
    ck_assert_str_eq(err.file, "bad.yaml");
    ck_assert_ptr_null(strpbrk(err.text, "\n\r\t"));
    ck_assert_ptr_eq(doc.root, before); /* a failed load leaves the document alone */
    ck_assert_str_eq(text_of(doc.root, "kept"), "1");
}
END_TEST

/* limits */

static cs_status load_buf(struct cs_strbuf *text)
{
    struct timespec t0;
    struct timespec t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    cs_status st = cs_yaml_load_text(&doc, text->text, text->len, "t.yaml", &err);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    ck_assert_int_lt(t1.tv_sec - t0.tv_sec, 30); /* about 1 s at most; quadratic work would take minutes */
    cs_strbuf_release(text);
    return st;
}

static void repeat(struct cs_strbuf *text, const char *part, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        cs_strbuf_add(text, part);
    }
}

START_TEST(test_depth)
{
    struct cs_strbuf text = {0};
    repeat(&text, "[", 64);
    repeat(&text, "]", 64);
    ck_assert_ok(load_buf(&text), &err);
    repeat(&text, "[", 65);
    repeat(&text, "]", 65);
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 1, "nested deeper than 64");
    ck_assert_int_eq(err.col, 65);
    repeat(&text, "\n{a: ", 65);
    repeat(&text, "}", 65);
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 66, "nested deeper than 64");
    repeat(&text, "[", 4 << 20);
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 1, "nested deeper than 64");
    repeat(&text, "- ", 4 << 20);
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 1, "nested deeper than 64");
}
END_TEST

START_TEST(test_depth_through_aliases)
{
    struct cs_strbuf text = {0};
    cs_strbuf_add(&text, "- &a0 [[[[[[[[[[x]]]]]]]]]]\n");
    for (int i = 1; i < 10; i++) { /* each ten deeper than the one before: *a5 has 60 below the root */
        cs_strbuf_addf(&text, "- &a%d [[[[[[[[[[*a%d]]]]]]]]]]\n", i, i - 1);
    }
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 7, "nested deeper than 64");
    cs_strbuf_add(&text, "a: &a {k: ");
    repeat(&text, "[", 61);
    repeat(&text, "]", 61);
    cs_strbuf_add(&text, "}\nb: {<<: *a}\n");
    ck_assert_ok(load_buf(&text), &err);
}
END_TEST

START_TEST(test_nodes)
{
    struct cs_strbuf text = {0};
    repeat(&text, "- 1\n", 999999);
    ck_assert_ok(load_buf(&text), &err);
    ck_assert_int_eq(doc.root->n, 999999);
    repeat(&text, "- 1\n", 1000000);
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 1000000, "more than 1000000 values");
}
END_TEST

START_TEST(test_billion_laughs)
{
    struct cs_strbuf text = {0};
    cs_strbuf_add(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 9; i++) {
        cs_strbuf_addf(&text, "a%d: &a%d [*a%d", i, i, i - 1);
        for (int j = 0; j < 9; j++) {
            cs_strbuf_addf(&text, ",*a%d", i - 1);
        }
        cs_strbuf_add(&text, "]\n");
    }
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 6, "more than 1000000 values (aliases expanded)");
    cs_strbuf_add(&text, "a: &a\n"); /* the same by merge keys */
    for (int i = 0; i < 1000; i++) {
        cs_strbuf_addf(&text, "  k%d: 1\n", i);
    }
    cs_strbuf_add(&text, "b:\n");
    repeat(&text, "- <<: *a\n", 2000);
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 1252, "more than 1000000 values");
}
END_TEST

START_TEST(test_many_keys_and_anchors_are_quick)
{
    struct cs_strbuf text = {0};
    for (int i = 0; i < 400000; i++) {
        cs_strbuf_addf(&text, "key%d: 1\n", i);
    }
    ck_assert_ok(load_buf(&text), &err);
    for (int i = 0; i < 400000; i++) {
        cs_strbuf_addf(&text, "- &a%d 1\n", i);
    }
    ck_assert_ok(load_buf(&text), &err);
}
END_TEST

START_TEST(test_long_lines)
{
    struct cs_strbuf text = {0};
    cs_strbuf_add(&text, "a: ");
    repeat(&text, "xxxxxxxxxx", 800000);
    ck_assert_ok(load_buf(&text), &err);
    ck_assert_uint_eq(strlen(text_of(doc.root, "a")), 8000000);
    int64_t value = 0;
    ck_assert_fails(cs_yaml_int(cs_yaml_get(doc.root, "a"), 0, 9, "a", &value, &err), &err, CS_E_INPUT, 1,
                    "xx...'");
    ck_assert_uint_lt(strlen(err.text), 200);
    repeat(&text, "xxxxxxxxxx", 1000000);
    ck_assert_fails(load_buf(&text), &err, CS_E_LIMIT, 1, "is larger than 8388608 bytes");
    ck_assert_str_eq(err.file, "t.yaml");
    cs_strbuf_add(&text, "*");
    repeat(&text, "x", 100000);
    ck_assert_fails(load_buf(&text), &err, CS_E_INPUT, 1, "has no anchor");
    ck_assert_uint_lt(strlen(err.text), 250);
    cs_strbuf_add(&text, "\"");
    repeat(&text, "x", 4000000);
    ck_assert_fails(load_buf(&text), &err, CS_E_INPUT, 1, "unexpected end of stream");
}
END_TEST

/* files */

START_TEST(test_load_file)
{
    char path[] = "/tmp/cs_test_yaml.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "a: 1\nb\n", 7), 7);
    ck_assert_fails(cs_yaml_load_file(&doc, path, &err), &err, CS_E_INPUT, 3, "could not find expected ':'");
    ck_assert_str_eq(err.file, path);
    ck_assert_int_eq(ftruncate(fd, 5), 0);
    ck_assert_ok(cs_yaml_load_file(&doc, path, &err), &err);
    ck_assert_str_eq(doc.root->loc.file, path);
    ck_assert_int_eq(ftruncate(fd, (8 << 20) + 1), 0);
    ck_assert_fails(cs_yaml_load_file(&doc, path, &err), &err, CS_E_LIMIT, 2, "is larger than 8388608 bytes");
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_fails(cs_yaml_load_file(&doc, path, &err), &err, CS_E_INPUT, 1, "the file is empty");
    close(fd);
    unlink(path);
    ck_assert_fails(cs_yaml_load_file(&doc, path, &err), &err, CS_E_INPUT, 0, "No such file or directory");
    ck_assert_str_eq(err.file, path);
    ck_assert_fails(cs_yaml_load_file(&doc, "/tmp", &err), &err, CS_E_INPUT, 0, "is a directory");
    ck_assert_str_eq(err.file, "/tmp");
    ck_assert_str_eq(text_of(doc.root, "a"), "1");
    ck_assert_int_eq(cs_yaml_load_text(&doc, "[", 1, NULL, NULL), CS_E_INPUT); /* no name, nobody listening */
}
END_TEST

/* readers */

#define FAILS_AT(call, line, part) ck_assert_fails(call, &err, CS_E_INPUT, line, part)

START_TEST(test_need_and_want)
{
    const struct cs_yaml_node *root = load("x: 0\nm:\n  a: 1\nl: [1]\ne:\n");
    const struct cs_yaml_node *value = NULL;
    const struct cs_yaml_node *m = cs_yaml_get(root, "m");
    ck_assert_ok(cs_yaml_need(root, "m", &value, &err), &err);
    ck_assert_ptr_eq(value, m);
    FAILS_AT(cs_yaml_need(m, "b", &value, &err), 3, "key 'b' is missing");
    ck_assert_str_eq(err.file, "t.yaml");
    FAILS_AT(cs_yaml_need(NULL, "b", &value, &err), 0, "key 'b' is missing");
    ck_assert_ptr_eq(value, m);
    ck_assert_ok(cs_yaml_want(m, CS_YAML_MAP, "m", &err), &err);
    FAILS_AT(cs_yaml_want(cs_yaml_get(root, "l"), CS_YAML_MAP, "model", &err), 4,
             "'model' must be a map, found a list");
    FAILS_AT(cs_yaml_want(m, CS_YAML_SCALAR, "m", &err), 3, "'m' must be a single value, found a map");
    FAILS_AT(cs_yaml_want(cs_yaml_get(root, "x"), CS_YAML_LIST, "x", &err), 1,
             "'x' must be a list, found a single");
    FAILS_AT(cs_yaml_want(cs_yaml_get(root, "e"), CS_YAML_LIST, "e", &err), 5,
             "'e' has no value, but must be a list");
    FAILS_AT(cs_yaml_want(NULL, CS_YAML_LIST, "q", &err), 0, "'q' is missing, but must be a list");
}
END_TEST

START_TEST(test_check_keys)
{
    static const char *const allowed[] = {"micro_batch", "seq_length", NULL};
    const struct cs_yaml_node *root = load("good: {seq_length: 1}\nnear:\n  mirco_batch: 1\nfar:\n  zzz: 1\n"
                                           "bad: {\"a\\nb\": 1}\n");
    ck_assert_ok(cs_yaml_check_keys(cs_yaml_get(root, "good"), allowed, "training", &err), &err);
    FAILS_AT(cs_yaml_check_keys(cs_yaml_get(root, "near"), allowed, "training", &err), 3,
             "unknown key 'mirco_batch' in training, did you mean 'micro_batch'?");
    FAILS_AT(cs_yaml_check_keys(cs_yaml_get(root, "far"), allowed, "training", &err), 5,
             "unknown key 'zzz' in training, it may hold: micro_batch, seq_length");
    FAILS_AT(cs_yaml_check_keys(cs_yaml_get(root, "bad"), allowed, "training", &err), 6, "unknown key 'a b'");
    FAILS_AT(cs_yaml_check_keys(root->keys[0], allowed, "training", &err), 1, "'training' must be a map");
}
END_TEST

START_TEST(test_scalars)
{
    const struct cs_yaml_node *root =
        load("n: 5\nq: '7'\nr: 1.e-8\nt: True\nf: false\ns: 64GiB\nc: 1f1b\ny: yes\n"
             "l: []\ne:\n");
    int64_t i = 0;
    double r = 0;
    bool b = false;
    int32_t index = -1;
    static const char *const schedules[] = {"gpipe", "1f1b", NULL};
    ck_assert_ok(cs_yaml_int(cs_yaml_get(root, "n"), 1, 8, "n", &i, &err), &err);
    ck_assert_int_eq(i, 5);
    ck_assert_ok(cs_yaml_int(cs_yaml_get(root, "q"), 1, 8, "q", &i, &err), &err);
    ck_assert_int_eq(i, 7);
    ck_assert_ok(cs_yaml_real(cs_yaml_get(root, "r"), 0, 1, "r", &r, &err), &err);
    ck_assert(r == 1e-8);
    ck_assert_ok(cs_yaml_bool(cs_yaml_get(root, "t"), "t", &b, &err), &err);
    ck_assert(b);
    ck_assert_ok(cs_yaml_bool(cs_yaml_get(root, "f"), "f", &b, &err), &err);
    ck_assert(!b);
    ck_assert_ok(cs_yaml_quantity(cs_yaml_get(root, "s"), CS_UNIT_BYTES, "s", &r, &err), &err);
    ck_assert(r == 64 * 0x1p30);
    ck_assert_ok(cs_yaml_choice(cs_yaml_get(root, "c"), schedules, "c", &index, &err), &err);
    ck_assert_int_eq(index, 1);

    FAILS_AT(cs_yaml_int(cs_yaml_get(root, "n"), 6, 8, "n", &i, &err), 1,
             "'n' is '5', but should be an integer from 6");
    FAILS_AT(cs_yaml_int(cs_yaml_get(root, "l"), 6, 8, "l", &i, &err), 9,
             "'l' must be a single value, found a list");
    FAILS_AT(cs_yaml_int(cs_yaml_get(root, "e"), 6, 8, "e", &i, &err), 10, "'e' has no value");
    FAILS_AT(cs_yaml_real(cs_yaml_get(root, "n"), 0, 1, "n", &r, &err), 1,
             "'n' is '5', but should be from 0 to 1");
    FAILS_AT(cs_yaml_real(cs_yaml_get(root, "n"), 6, (double)INFINITY, "n", &r, &err), 1,
             "should be at least 6");
    FAILS_AT(cs_yaml_real(cs_yaml_get(root, "n"), -(double)INFINITY, 4, "n", &r, &err), 1,
             "should be at most 4");
    FAILS_AT(cs_yaml_real(cs_yaml_get(root, "c"), 0, 1, "c", &r, &err), 7,
             "'c' is '1f1b', but should be a number");
    FAILS_AT(cs_yaml_real(cs_yaml_get(root, "l"), 0, 1, "l", &r, &err), 9, "must be a single value");
    FAILS_AT(cs_yaml_bool(cs_yaml_get(root, "y"), "y", &b, &err), 8,
             "'y' is 'yes', but should be true or false");
    FAILS_AT(cs_yaml_bool(cs_yaml_get(root, "l"), "l", &b, &err), 9, "must be a single value");
    FAILS_AT(cs_yaml_quantity(cs_yaml_get(root, "n"), CS_UNIT_BYTES, "n", &r, &err), 1,
             "'n' is '5' without a unit");
    FAILS_AT(cs_yaml_quantity(cs_yaml_get(root, "l"), CS_UNIT_BYTES, "l", &r, &err), 9,
             "must be a single value");
    FAILS_AT(cs_yaml_choice(cs_yaml_get(root, "y"), schedules, "y", &index, &err), 8,
             "'y' is 'yes', but should be one of: gpipe, 1f1b");
    FAILS_AT(cs_yaml_choice(root->keys[6], (const char *const[]){"a", "b", "C", NULL}, "k", &index, &err), 7,
             "(did you mean 'C'?)");
    FAILS_AT(cs_yaml_choice(cs_yaml_get(root, "l"), schedules, "l", &index, &err), 9,
             "must be a single value");
    ck_assert(i == 7 && r == 64 * 0x1p30 && !b && index == 1); /* untouched */
}
END_TEST

START_TEST(test_optional)
{
    const struct cs_yaml_node *root = load("n: 5\nr: 0.5\nb: true\ns: 5us\nt: word\nl: []\n");
    int64_t i = -1;
    double r = -1;
    double s = -1;
    bool b = false;
    const char *t = NULL;
    ck_assert_ok(cs_yaml_opt_int(root, "none", 0, 9, &i, &err), &err);
    ck_assert_ok(cs_yaml_opt_int(NULL, "none", 0, 9, &i, &err), &err);
    ck_assert_ok(cs_yaml_opt_real(root, "none", 0, 9, &r, &err), &err);
    ck_assert_ok(cs_yaml_opt_quantity(root, "none", CS_UNIT_SECONDS, &s, &err), &err);
    ck_assert_ok(cs_yaml_opt_bool(root, "none", &b, &err), &err);
    ck_assert_ok(cs_yaml_opt_text(root, "none", &t, &err), &err);
    ck_assert(i == -1 && r == -1 && s == -1 && !b && t == NULL);
    ck_assert_ok(cs_yaml_opt_int(root, "n", 0, 9, &i, &err), &err);
    ck_assert_ok(cs_yaml_opt_real(root, "r", 0, 9, &r, &err), &err);
    ck_assert_ok(cs_yaml_opt_quantity(root, "s", CS_UNIT_SECONDS, &s, &err), &err);
    ck_assert_ok(cs_yaml_opt_bool(root, "b", &b, &err), &err);
    ck_assert_ok(cs_yaml_opt_text(root, "t", &t, &err), &err);
    ck_assert(i == 5 && r == 0.5 && s == 5e-6 && b);
    ck_assert_str_eq(t, "word");
    FAILS_AT(cs_yaml_opt_int(root, "t", 0, 9, &i, &err), 5,
             "'t' is 'word', but should be an integer from 0 to 9");
    FAILS_AT(cs_yaml_opt_real(root, "t", 0, 9, &r, &err), 5, "'t' is 'word'");
    FAILS_AT(cs_yaml_opt_quantity(root, "t", CS_UNIT_SECONDS, &s, &err), 5, "'t' is 'word'");
    FAILS_AT(cs_yaml_opt_bool(root, "t", &b, &err), 5, "'t' is 'word'");
    FAILS_AT(cs_yaml_opt_text(root, "l", &t, &err), 6, "'l' must be a single value, found a list");
}
END_TEST

static Suite *yaml_suite(void)
{
    Suite *suite = suite_create("yaml");
    TCase *tree = tcase_create("tree");
    TCase *bad = tcase_create("bad");
    TCase *limits = tcase_create("limits");
    TCase *readers = tcase_create("readers");
    TCase *all[] = {tree, bad, limits, readers};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tcase_add_checked_fixture(all[i], start, finish);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_test(tree, test_tree_and_places);
    tcase_add_test(tree, test_empty_collections_and_scalar_root);
    tcase_add_test(tree, test_aliases);
    tcase_add_test(tree, test_merge_keys);
    tcase_add_test(tree, test_merge_keys_again);
    tcase_add_loop_test(bad, test_bad, 0, CS_COUNT(BAD));
    tcase_add_test(bad, test_load_file);
    tcase_add_test(limits, test_depth);
    tcase_add_test(limits, test_depth_through_aliases);
    tcase_add_test(limits, test_nodes);
    tcase_add_test(limits, test_billion_laughs);
    tcase_add_test(limits, test_many_keys_and_anchors_are_quick);
    tcase_add_test(limits, test_long_lines);
    tcase_add_test(readers, test_need_and_want);
    tcase_add_test(readers, test_check_keys);
    tcase_add_test(readers, test_scalars);
    tcase_add_test(readers, test_optional);
    return suite;
}

CS_TEST_MAIN(yaml_suite)
