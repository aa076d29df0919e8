/* Platform files: what is read from good ones, and the message for every bad one. */
#include "cs_test.h"

#include "cs/platforms/platform.h"
#include "cs/platforms/topology.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#define CATALOGUE CS_TEST_SOURCE_DIR "/platforms/catalogue"
#define BAD CS_TEST_SOURCE_DIR "/tests/data/bad/platform"
#define GOOD CS_TEST_SOURCE_DIR "/tests/data/good/platform"

#define PROLOG "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
#define DEVICE                                                                                               \
    "<host id=\"a\" speed=\"1Tf\"><prop id=\"chip\" value=\"910b2\"/><prop id=\"node\" value=\"0\"/></host>"

static struct cs_catalogue *catalogue;
static char path[] = "platform_XXXXXX";
static FILE *stream;

static void setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_catalogue_load(CATALOGUE, &catalogue, &err), &err);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    stream = fdopen(fd, "w");
    ck_assert_ptr_nonnull(stream);
}

static void teardown(void)
{
    cs_catalogue_free(catalogue);
    fclose(stream);
    unlink(path);
}

/* The temporary file's content so far does not load. */
static void assert_bad(cs_status code, int line, const char *part)
{
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    ck_assert_int_eq(fflush(stream), 0);
    cs_status st = cs_platform_load(&platform, path, catalogue, &err);
    ck_assert_fails(st, &err, code, line, part);
    ck_assert_str_eq(err.file, path);
    ck_assert_ptr_null(platform.devices);
}

/* Every file of the folder is in expected.txt and fails as it says. */
START_TEST(test_bad_files)
{
    char row[1024];
    int n_rows = 0;
    FILE *expected = fopen(BAD "/expected.txt", "r");
    ck_assert_ptr_nonnull(expected);
    while (fgets(row, sizeof row, expected)) {
        if (row[0] == '#') {
            continue;
        }
        char *line = strchr(row, '\t');
        char *part = line ? strchr(line + 1, '\t') : NULL;
        if (!part) {
            ck_abort_msg("expected.txt: %s", row);
            break;
        }
        *line = *part = '\0';
        part[1 + strcspn(part + 1, "\n")] = '\0';
        char file[2048];
        snprintf(file, sizeof file, "%s/%s", BAD, row);
        struct cs_err err = {0};
        struct cs_platform platform = {0};
        cs_status st = cs_platform_load(&platform, file, catalogue, &err);
        ck_assert_msg(st == CS_E_INPUT || st == CS_E_LIMIT, "%s: status %d", row, (int)st);
        ck_assert_msg(err.line == atoi(line + 1) && strstr(err.text, part + 1) && strcmp(err.file, file) == 0,
                      "%s: got line %d '%s', want line %s '%s'", row, err.line, err.text, line + 1, part + 1);
        n_rows++;
    }
    fclose(expected);
    int n_files = 0;
    DIR *dir = opendir(BAD);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        n_files += len > 4 && strcmp(entry->d_name + len - 4, ".xml") == 0;
    }
    closedir(dir);
    ck_assert_int_eq(n_files, n_rows);
}
END_TEST

START_TEST(test_bad_paths)
{
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    ck_assert_fails(cs_platform_load(&platform, "no-such-file.xml", catalogue, &err), &err, CS_E_INPUT, 0,
                    "");
    ck_assert_fails(cs_platform_load(&platform, ".", catalogue, &err), &err, CS_E_INPUT, 0, "directory");
    assert_bad(CS_E_INPUT, 0, "empty");
    ck_assert_int_eq(cs_platform_load(&platform, path, catalogue, NULL), CS_E_INPUT); /* nobody listens */
}
END_TEST

START_TEST(test_nul_byte)
{
    fputs(PROLOG "<platform version=\"4.1\">\n", stream);
    fputc('\0', stream);
    assert_bad(CS_E_INPUT, 4, "NUL byte");
}
END_TEST

START_TEST(test_long_line)
{
    fputs(PROLOG "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n<host id=\"", stream);
    for (int i = 0; i < 10 * 1024 * 1024 + 7; i++) {
        fputc('x', stream);
    }
    fputs("\" speed=\"1f\"/></zone></platform>\n", stream);
    assert_bad(CS_E_INPUT, 5, "broken XML");
}
END_TEST

START_TEST(test_deep_nesting)
{
    fputs(PROLOG, stream);
    for (int i = 0; i < 200000; i++) {
        fputs("<platform version=\"4.1\">", stream);
    }
    assert_bad(CS_E_INPUT, 3, "outermost");
}
END_TEST

/* Lines are right where libxml2's own nodes would count only to 65535. */
START_TEST(test_high_line)
{
    fputs(PROLOG "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n", stream);
    for (int i = 0; i < 100000; i++) {
        fputc('\n', stream);
    }
    fputs("<host id=\"a\" speed=\"1\"/>\n", stream);
    assert_bad(CS_E_INPUT, 100005, "no unit");
}
END_TEST

START_TEST(test_large_tables)
{
    fputs(PROLOG "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Floyd\">\n", stream);
    for (int i = 0; i < 2049; i++) {
        fprintf(stream, "<host id=\"h%d\" speed=\"1f\"/>\n", i);
    }
    fputs("</zone></platform>\n", stream);
    assert_bad(CS_E_LIMIT, 4, "2049 members");
}
END_TEST

/* Nothing goes to standard error, whatever libxml2 thinks. */
START_TEST(test_silent)
{
    char noise[] = "stderr_XXXXXX";
    int saved = dup(2);
    int fd = mkstemp(noise);
    dup2(fd, 2);
    fputs(PROLOG "<platform version=\"&c;\xff\xfe\"><a></b>", stream);
    assert_bad(CS_E_INPUT, 3, "broken XML");
    off_t bytes = lseek(fd, 0, SEEK_END);
    dup2(saved, 2);
    close(saved);
    close(fd);
    unlink(noise);
    ck_assert_int_eq((int)bytes, 0);
}
END_TEST

START_TEST(test_hand_written)
{
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    fputs(PROLOG "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n" DEVICE
                 "\n</zone></platform>\n",
          stream);
    ck_assert_int_eq(fflush(stream), 0);
    ck_assert_ok(cs_platform_load(&platform, path, catalogue, &err), &err);
    ck_assert_str_eq(platform.name, path); /* no name property, no extension */
    ck_assert_str_eq(platform.topology, "custom");
    ck_assert_str_eq(platform.intra, "custom");
    ck_assert_str_eq(platform.devices[0].nic_host, "a");
    ck_assert_ptr_eq(platform.devices[0].chip, cs_catalogue_chip(catalogue, "910b2"));
    ck_assert(platform.devices[0].memory_bytes == 64.0 * 1073741824.0);
    ck_assert_int_eq(platform.n_devices, 1);
    cs_platform_release(&platform);
    cs_platform_release(&platform);
}
END_TEST

START_TEST(test_mixed_file)
{
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    ck_assert_ok(cs_platform_load(&platform, GOOD "/mixed.xml", catalogue, &err), &err);
    ck_assert_str_eq(platform.name, "mixed");
    ck_assert_str_eq(platform.topology, "two kinds of node");
    ck_assert_int_eq(platform.n_nodes, 3);
    ck_assert_int_eq(platform.n_devices, 8);
    ck_assert_int_eq(platform.devices_per_node, 4);
    ck_assert(!platform.uniform);
    ck_assert_str_eq(platform.devices[0].host, "gpu0");
    ck_assert_str_eq(platform.devices[4].host, "npu-a");
    ck_assert_str_eq(platform.devices[4].nic_host, "port3");
    ck_assert(platform.devices[4].memory_bytes == 32.0 * 1073741824.0);
    ck_assert_int_eq(platform.devices[7].node, 2);
    ck_assert_int_eq(platform.devices[7].index, 1);
    ck_assert_int_eq(platform.n_props, 3);
    ck_assert_str_eq(platform.props[2].id, "remark");
    ck_assert_str_eq(platform.props[2].value, "1 < 2 & A");
    uint64_t hash = platform.content_hash;
    cs_platform_release(&platform);
    ck_assert_ok(cs_platform_load(&platform, GOOD "/mixed.xml", catalogue, &err), &err);
    ck_assert(hash == platform.content_hash);
    cs_platform_release(&platform);
}
END_TEST

static Suite *platform_file_suite(void)
{
    Suite *suite = suite_create("platform_file");
    TCase *tcase = tcase_create("bad");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_bad_files);
    tcase_add_test(tcase, test_bad_paths);
    tcase_add_test(tcase, test_nul_byte);
    tcase_add_test(tcase, test_long_line);
    tcase_add_test(tcase, test_deep_nesting);
    tcase_add_test(tcase, test_high_line);
    tcase_add_test(tcase, test_large_tables);
    tcase_add_test(tcase, test_silent);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("good");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_hand_written);
    tcase_add_test(tcase, test_mixed_file);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(platform_file_suite)
