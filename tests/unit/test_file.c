/* file and json of room base. Each test works in a folder of its own. */
#include "cs_test.h"

#include "cs/base/file.h"
#include "cs/base/json.h"
#include "cs/base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void enter_folder(void)
{
    strcpy(folder, "/tmp/cs_test_file.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static void write_file(const char *path, const char *text, size_t bytes)
{
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(text, 1, bytes, stream), bytes);
    ck_assert_int_eq(fclose(stream), 0);
}

static void assert_content(const char *path, const char *want)
{
    struct cs_err err = {0};
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_ok(cs_file_read(path, 1 << 20, &text, &bytes, &err), &err);
    ck_assert_str_eq(text, want);
    ck_assert_uint_eq(bytes, strlen(want));
    cs_free(text);
}

static int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

static void leave_folder(void)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (unlink(entry->d_name) != 0) {
            (void)rmdir(entry->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
    (void)rmdir(folder);
}

/* reading */

START_TEST(test_read)
{
    write_file("a", "ab\0c", 4);
    struct cs_err err = {0};
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_ok(cs_file_read("a", 4, &text, &bytes, &err), &err);
    ck_assert_uint_eq(bytes, 4);
    ck_assert_mem_eq(text, "ab\0c", 5);
    cs_free(text);
    write_file("empty", "", 0);
    assert_content("empty", "");
}
END_TEST

START_TEST(test_read_large)
{
    size_t n = 200000;
    char *data = cs_malloc(n);
    memset(data, 'x', n);
    write_file("a", data, n);
    struct cs_err err = {0};
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_ok(cs_file_read("a", n, &text, &bytes, &err), &err);
    ck_assert(bytes == n && memcmp(text, data, n) == 0 && text[n] == '\0');
    cs_free(text);
    cs_free(data);
    text = NULL;
    ck_assert_fails(cs_file_read("a", n - 1, &text, &bytes, &err), &err, CS_E_LIMIT, 1,
                    "larger than 199999 bytes");
    ck_assert_str_eq(err.file, "a");
    ck_assert_ptr_null(text);
    ck_assert_fails(cs_file_read("/dev/zero", 1000, &text, &bytes, &err), &err, CS_E_LIMIT, 1,
                    "larger than 1000");
}
END_TEST

START_TEST(test_read_refused)
{
    struct cs_err err = {0};
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_fails(cs_file_read("none", 10, &text, &bytes, &err), &err, CS_E_INPUT, 0,
                    "cannot be read: No such file or directory");
    ck_assert_str_eq(err.file, "none");
    ck_assert_fails(cs_file_read(".", 10, &text, &bytes, &err), &err, CS_E_INPUT, 0, "is a directory");
    ck_assert_str_eq(err.file, ".");
    ck_assert_fails(cs_file_read("", 10, &text, &bytes, &err), &err, CS_E_INPUT, 0, "the file name is empty");
    write_file("plain", "x", 1);
    ck_assert_fails(cs_file_read("plain/x", 10, &text, &bytes, &err), &err, CS_E_INPUT, 0, "Not a directory");
    if (geteuid() != 0) { /* root may read everything */
        ck_assert_int_eq(chmod("plain", 0), 0);
        ck_assert_fails(cs_file_read("plain", 10, &text, &bytes, &err), &err, CS_E_INPUT, 0,
                        "Permission denied");
    }
    ck_assert_ptr_null(text);
    ck_assert(cs_file_exists("plain") && !cs_file_exists(".") && !cs_file_exists("none"));
    ck_assert(cs_file_is_dir(".") && !cs_file_is_dir("plain") && !cs_file_is_dir("none"));
}
END_TEST

/* writing */

START_TEST(test_write)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    write_file("a", "old", 3);
    ck_assert_int_eq(chmod("a", 0600), 0);
    ck_assert_ok(cs_outfile_open(&out, "a", &err), &err);
    fputs("new", out.stream);
    fflush(out.stream);
    char temp[64];
    (void)snprintf(temp, sizeof temp, ".a.tmp.%ld", (long)getpid());
    ck_assert_str_eq(out.temp_path, temp);
    assert_content("a", "old"); /* until committed */
    ck_assert_ok(cs_outfile_commit(&out, &err), &err);
    assert_content("a", "new");
    ck_assert_int_eq(count_entries("."), 1);
    struct stat info;
    ck_assert(stat("a", &info) == 0 && (info.st_mode & 0777) == 0600);
    cs_outfile_release(&out);
    cs_outfile_release(&out);
}
END_TEST

START_TEST(test_write_dropped)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    cs_outfile_release(&out);
    ck_assert_ok(cs_outfile_open(&out, "a", &err), &err);
    fputs("x", out.stream);
    cs_outfile_release(&out);
    ck_assert_int_eq(count_entries("."), 0);
}
END_TEST

START_TEST(test_write_twice_at_once)
{
    struct cs_err err = {0};
    struct cs_outfile one = {0};
    struct cs_outfile two = {0};
    ck_assert_ok(cs_outfile_open(&one, "a", &err), &err);
    ck_assert_ok(cs_outfile_open(&two, "a", &err), &err);
    fputs("one", one.stream);
    fputs("two", two.stream);
    ck_assert_ok(cs_outfile_commit(&two, &err), &err);
    ck_assert_ok(cs_outfile_commit(&one, &err), &err);
    assert_content("a", "one");
    ck_assert_int_eq(count_entries("."), 1);
}
END_TEST

START_TEST(test_write_all_temp_names_taken)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    struct cs_arena arena = {0};
    write_file(cs_arena_printf(&arena, ".a.tmp.%ld", (long)getpid()), "", 0);
    for (int i = 1; i < 100; i++) {
        write_file(cs_arena_printf(&arena, ".a.tmp.%ld.%d", (long)getpid(), i), "", 0);
    }
    ck_assert_fails(cs_outfile_open(&out, "a", &err), &err, CS_E_IO, 0, "File exists");
    ck_assert_int_eq(count_entries("."), 100); /* others' files are left alone */
    cs_arena_release(&arena);
}
END_TEST

START_TEST(test_write_through_link)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    ck_assert_int_eq(mkdir("d", 0777), 0);
    ck_assert_int_eq(symlink("d/target", "link"), 0);
    ck_assert_int_eq(symlink("link", "link2"), 0);
    ck_assert_ok(cs_outfile_open(&out, "link2", &err), &err);
    fputs("x", out.stream);
    ck_assert_ok(cs_outfile_commit(&out, &err), &err);
    struct stat info;
    ck_assert(lstat("link", &info) == 0 && S_ISLNK(info.st_mode));
    assert_content("d/target", "x");
    ck_assert_int_eq(count_entries("d"), 1);
    ck_assert_int_eq(unlink("d/target"), 0);
    ck_assert_int_eq(symlink("loop", "loop"), 0);
    ck_assert_fails(cs_outfile_open(&out, "loop", &err), &err, CS_E_IO, 0, "symbolic links");
}
END_TEST

START_TEST(test_write_refused)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    ck_assert_fails(cs_outfile_open(&out, folder, &err), &err, CS_E_INPUT, 0, "is a directory");
    ck_assert_str_eq(err.file, folder);
    ck_assert_fails(cs_outfile_open(&out, "new/", &err), &err, CS_E_INPUT, 0, "is a directory");
    ck_assert_fails(cs_outfile_open(&out, "", &err), &err, CS_E_INPUT, 0, "the file name is empty");
    ck_assert_fails(cs_outfile_open(&out, "none/a", &err), &err, CS_E_IO, 0, "No such file or directory");
    ck_assert_str_eq(err.file, "none/a");
    if (geteuid() != 0) {
        write_file("locked", "x", 1);
        ck_assert_int_eq(chmod("locked", 0400), 0);
        ck_assert_fails(cs_outfile_open(&out, "locked", &err), &err, CS_E_IO, 0, "Permission denied");
    }
    ck_assert(!out.stream && !out.path && !out.temp_path);
}
END_TEST

START_TEST(test_write_longest_name)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    ck_assert_ok(cs_outfile_open(&out, name, &err), &err);
    fputs("x", out.stream);
    ck_assert_ok(cs_outfile_commit(&out, &err), &err);
    assert_content(name, "x");
    char longer[257];
    memset(longer, 'n', 256);
    longer[256] = '\0';
    ck_assert_ok(cs_outfile_open(&out, longer, &err), &err); /* only the rename finds out */
    ck_assert_fails(cs_outfile_commit(&out, &err), &err, CS_E_IO, 0, "File name too long");
    ck_assert_int_eq(count_entries("."), 1);
}
END_TEST

START_TEST(test_write_target_becomes_directory)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    ck_assert_ok(cs_outfile_open(&out, "a", &err), &err);
    ck_assert_int_eq(mkdir("a", 0777), 0);
    ck_assert_fails(cs_outfile_commit(&out, &err), &err, CS_E_IO, 0, "cannot be written");
    ck_assert_int_eq(count_entries("."), 1);
}
END_TEST

START_TEST(test_write_full_device)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    for (int i = 0; i < 2; i++) { /* within the buffer, and beyond it */
        ck_assert_ok(cs_outfile_open(&out, "/dev/full", &err), &err);
        ck_assert_ptr_null(out.temp_path);
        for (int j = 0; j < (i == 0 ? 1 : 100000); j++) {
            fputs("text", out.stream);
        }
        ck_assert_fails(cs_outfile_commit(&out, &err), &err, CS_E_IO, 0,
                        "cannot be written: No space left on device");
        ck_assert_str_eq(err.file, "/dev/full");
    }
    struct stat info;
    ck_assert(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode));
    ck_assert_ok(cs_outfile_open(&out, "/dev/null", &err), &err);
    fputs("x", out.stream);
    ck_assert_ok(cs_outfile_commit(&out, &err), &err);
}
END_TEST

/* A file size limit is the full disk that a test can have: writes fail half-way, the temporary goes. */
START_TEST(test_write_hits_size_limit)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    struct rlimit limit = {10000, 10000};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 2; i++) {
        write_file("a", "old", 3);
        ck_assert_ok(cs_outfile_open(&out, "a", &err), &err);
        for (int j = 0; j < (i == 0 ? 11000 : 100000); j++) {
            fputc('x', out.stream);
        }
        ck_assert_fails(cs_outfile_commit(&out, &err), &err, CS_E_IO, 0, "cannot be written: ");
        ck_assert_str_eq(err.file, "a");
        assert_content("a", "old");
        ck_assert_int_eq(count_entries("."), 1);
    }
}
END_TEST

START_TEST(test_write_failed_earlier)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    ck_assert_ok(cs_outfile_open(&out, "a", &err), &err);
    int fd = dup(fileno(out.stream));
    int full = open("/dev/full", O_WRONLY);
    ck_assert(fd >= 0 && full >= 0 && dup2(full, fileno(out.stream)) >= 0);
    fputs("lost", out.stream);
    ck_assert_int_ne(fflush(out.stream), 0);
    ck_assert(dup2(fd, fileno(out.stream)) >= 0); /* the disk has room again, but something is missing */
    fputs("kept", out.stream);
    cs_status st = cs_outfile_commit(&out, &err);
    ck_assert_fails(st, &err, CS_E_IO, 0, "a write failed, is the disk full?");
    ck_assert_int_eq(count_entries("."), 0);
    close(fd);
    close(full);
}
END_TEST

START_TEST(test_standard_output)
{
    struct cs_err err = {0};
    struct cs_outfile out = {0};
    ck_assert_int_eq(fflush(stdout), 0);
    ck_assert_ptr_nonnull(freopen("captured", "w", stdout));
    ck_assert_ok(cs_outfile_open(&out, "-", &err), &err);
    ck_assert_ptr_eq(out.stream, stdout);
    fputs("to stdout", out.stream);
    ck_assert_ok(cs_outfile_commit(&out, &err), &err);
    assert_content("captured", "to stdout");
    ck_assert_ptr_nonnull(freopen("/dev/full", "w", stdout)); /* stays open after a commit */
    ck_assert_ok(cs_outfile_open(&out, "-", &err), &err);
    fputs("x", out.stream);
    ck_assert_fails(cs_outfile_commit(&out, &err), &err, CS_E_IO, 0, "No space left on device");
    ck_assert_str_eq(err.file, "standard output");
}
END_TEST

START_TEST(test_commit_without_open_is_a_bug)
{
    struct cs_outfile out = {0};
    (void)!cs_outfile_commit(&out, NULL);
}
END_TEST

START_TEST(test_paths)
{
    struct cs_arena arena = {0};
    ck_assert_str_eq(cs_path_join(&arena, "a", "b"), "a/b");
    ck_assert_str_eq(cs_path_join(&arena, "a//", "/b"), "a/b");
    ck_assert_str_eq(cs_path_join(&arena, "/", "b"), "/b");
    ck_assert_str_eq(cs_path_join(&arena, "", "b"), "b");
    ck_assert_str_eq(cs_path_dir(&arena, "a/b"), "a");
    ck_assert_str_eq(cs_path_dir(&arena, "a//b/"), "a");
    ck_assert_str_eq(cs_path_dir(&arena, "b"), ".");
    ck_assert_str_eq(cs_path_dir(&arena, ""), ".");
    ck_assert_str_eq(cs_path_dir(&arena, "/b"), "/");
    ck_assert_str_eq(cs_path_dir(&arena, "/"), "/");
    ck_assert_str_eq(cs_path_dir(&arena, "//"), "/");
    cs_arena_release(&arena);
}
END_TEST

/* json */

static const struct {
    const char *text;
    int line;
    const char *part;
} BAD_JSON[] = {
    {"", 1, "not valid JSON"},
    {"{\"a\": 1,\n\"a\": 2}", 2, "duplicate"},
    {"{\n\"a\": 1\n", 3, "not valid JSON"},
    {"{}\n{}", 2, "not valid JSON"},
    {"[\n\nnan]", 3, "not valid JSON"},
    {"[1,\n\"\xff\"]", 2, "not valid JSON"},
    {"[1e999]", 1, "not valid JSON"},
    {"[99999999999999999999]", 1, "not valid JSON"},
};

START_TEST(test_bad_json)
{
    struct cs_err err = {0};
    json_t *json = NULL;
    write_file("a.json", BAD_JSON[_i].text, strlen(BAD_JSON[_i].text));
    ck_assert_fails(cs_json_load_file("a.json", &json, &err), &err, CS_E_INPUT, BAD_JSON[_i].line,
                    BAD_JSON[_i].part);
    ck_assert_str_eq(err.file, "a.json");
    ck_assert_ptr_null(strchr(err.text, '\n'));
    ck_assert_ptr_null(json);
}
END_TEST

START_TEST(test_json_file_refused)
{
    struct cs_err err = {0};
    json_t *json = NULL;
    ck_assert_fails(cs_json_load_file("none", &json, &err), &err, CS_E_INPUT, 0, "cannot be read");
    ck_assert_fails(cs_json_load_file(".", &json, &err), &err, CS_E_INPUT, 0, "is a directory");
    write_file("big", "", 0);
    ck_assert_int_eq(truncate("big", (64 << 20) + 1), 0);
    ck_assert_fails(cs_json_load_file("big", &json, &err), &err, CS_E_LIMIT, 1, "larger than 67108864 bytes");
    json = json_object();
    ck_assert_fails(cs_json_write_file(json, ".", &err), &err, CS_E_INPUT, 0, "is a directory");
    ck_assert_fails(cs_json_write_file(json, "/dev/full", &err), &err, CS_E_IO, 0, "No space left on device");
    json_decref(json);
    json = json_array();
    for (int i = 0; i < 10000; i++) {
        json_array_append_new(json, json_integer(i));
    }
    ck_assert_fails(cs_json_write_file(json, "/dev/full", &err), &err, CS_E_IO, 0, "cannot be written: ");
    json_decref(json);
}
END_TEST

START_TEST(test_json_round_trip)
{
    struct cs_err err = {0};
    double values[] = {0.1, 1.0 / 3, 1e-300, 1.7976931348623157e308, 5e-324, -0.0, 3};
    json_t *array = json_array();
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        json_array_append_new(array, cs_json_real(values[i]));
    }
    json_t *object = json_object();
    json_object_set_new(object, "zebra", array);
    json_object_set_new(object, "apple", cs_json_real((double)NAN));
    json_object_set_new(object, "more", cs_json_real((double)INFINITY));
    ck_assert_ok(cs_json_write_file(object, "a.json", &err), &err);
    json_decref(object);
    json_t *json = NULL;
    ck_assert_ok(cs_json_load_file("a.json", &json, &err), &err);
    ck_assert_str_eq(json_object_iter_key(json_object_iter(json)), "zebra"); /* insertion order */
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        double back = json_real_value(json_array_get(json_object_get(json, "zebra"), i));
        ck_assert_mem_eq(&back, &values[i], sizeof back);
    }
    ck_assert(json_is_null(json_object_get(json, "apple")) && json_is_null(json_object_get(json, "more")));
    json_decref(json);
}
END_TEST

START_TEST(test_json_text)
{
    struct cs_err err = {0};
    json_t *json = json_pack("{s:i}", "a", 1);
    ck_assert_ok(cs_json_write_file(json, "a.json", &err), &err);
    json_decref(json);
    assert_content("a.json", "{\n  \"a\": 1\n}\n");
    write_file("bom.json", "\xef\xbb\xbf[1]", 6);
    ck_assert_ok(cs_json_load_file("bom.json", &json, &err), &err);
    ck_assert_uint_eq(json_array_size(json), 1);
    json_decref(json);
}
END_TEST

static Suite *file_suite(void)
{
    Suite *suite = suite_create("file");
    TCase *read = tcase_create("read");
    TCase *write = tcase_create("write");
    TCase *json = tcase_create("json");
    TCase *all[] = {read, write, json};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tcase_add_checked_fixture(all[i], enter_folder, leave_folder);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_test(read, test_read);
    tcase_add_test(read, test_read_large);
    tcase_add_test(read, test_read_refused);
    tcase_add_test(write, test_write);
    tcase_add_test(write, test_write_dropped);
    tcase_add_test(write, test_write_twice_at_once);
    tcase_add_test(write, test_write_all_temp_names_taken);
    tcase_add_test(write, test_write_through_link);
    tcase_add_test(write, test_write_refused);
    tcase_add_test(write, test_write_longest_name);
    tcase_add_test(write, test_write_target_becomes_directory);
    tcase_add_test(write, test_write_full_device);
    tcase_add_test(write, test_write_hits_size_limit);
    tcase_add_test(write, test_write_failed_earlier);
    tcase_add_test(write, test_standard_output);
    tcase_add_test(write, test_paths);
    TCase *bug = tcase_create("bug");
    tcase_add_test_raise_signal(bug, test_commit_without_open_is_a_bug, SIGABRT);
    suite_add_tcase(suite, bug);
    tcase_add_loop_test(json, test_bad_json, 0, sizeof BAD_JSON / sizeof BAD_JSON[0]);
    tcase_add_test(json, test_json_file_refused);
    tcase_add_test(json, test_json_round_trip);
    tcase_add_test(json, test_json_text);
    return suite;
}

CS_TEST_MAIN(file_suite)
