/* Rank tables, and what platform check finds. */
#include "cs_test.h"

#include "cs/base/json.h"
#include "cs/platforms/check.h"
#include "cs/platforms/ranktable.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#define CATALOGUE CS_TEST_SOURCE_DIR "/platforms/catalogue"
#define PLATFORM CS_TEST_SOURCE_DIR "/platforms/910b-8x8.xml"
#define BAD CS_TEST_SOURCE_DIR "/tests/data/bad/ranktable"
#define GOOD CS_TEST_SOURCE_DIR "/tests/data/good/ranktable"

static struct cs_catalogue *catalogue;
static struct cs_platform platform;

static void setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_catalogue_load(CATALOGUE, &catalogue, &err), &err);
    ck_assert_ok(cs_platform_load(&platform, PLATFORM, catalogue, &err), &err);
}

static void teardown(void)
{
    cs_platform_release(&platform);
    cs_catalogue_free(catalogue);
}

START_TEST(test_load_v10)
{
    struct cs_err err = {0};
    struct cs_ranktable table = {0};
    ck_assert_ok(cs_ranktable_load(&table, GOOD "/hccl_2s_16p.json", &err), &err);
    ck_assert_str_eq(table.version, "1.0");
    ck_assert_int_eq(table.n_ranks, 16);
    ck_assert_int_eq(table.n_servers, 2);
    ck_assert_int_eq(table.devices_per_server, 8);
    ck_assert(table.uniform);
    ck_assert_int_eq(table.ranks[9].server, 1);
    ck_assert_int_eq(table.ranks[9].device_id, 1);
    ck_assert_str_eq(table.ranks[9].device_ip, "192.1.2.11");
    ck_assert_str_eq(table.servers[1].id, "10.0.0.2");
    ck_assert_int_eq(table.servers[1].super_pod, -1);
    int32_t devices[16] = {0};
    ck_assert_ok(cs_ranktable_devices(&table, &platform, devices, &err), &err);
    for (int32_t r = 0; r < 16; r++) {
        ck_assert_int_eq(devices[r], r);
    }
    cs_ranktable_release(&table);
    cs_ranktable_release(&table);
    ck_assert(cs_ranktable_is_path("a/hccl_8p.json"));
    ck_assert(!cs_ranktable_is_path("a/cluster.xml"));
}
END_TEST

START_TEST(test_load_v12)
{
    struct cs_err err = {0};
    struct cs_ranktable table = {0};
    ck_assert_ok(cs_ranktable_load(&table, GOOD "/superpod_v12.json", &err), &err);
    ck_assert_str_eq(table.version, "1.2");
    ck_assert_int_eq(table.n_super_pods, 1);
    ck_assert_int_eq(table.servers[0].super_pod, 0);
    ck_assert_int_eq(table.ranks[0].server, 1); /* ranks run backwards in this file */
    ck_assert_int_eq(table.ranks[0].device_id, 1);
    int32_t devices[4] = {0};
    ck_assert_ok(cs_ranktable_devices(&table, &platform, devices, &err), &err);
    ck_assert_int_eq(devices[0], 9);
    ck_assert_int_eq(devices[1], 8);
    ck_assert_int_eq(devices[2], 1);
    ck_assert_int_eq(devices[3], 0);
    struct cs_platform small = platform;
    small.n_nodes = 1;
    ck_assert_fails(cs_ranktable_devices(&table, &small, devices, &err), &err, CS_E_INPUT, 0, "2 servers");
    cs_ranktable_release(&table);
}
END_TEST

/* Cards that the platform's servers do not have, and servers of which the table lists some cards only. */
START_TEST(test_card_numbers)
{
    struct cs_err err = {0};
    struct cs_ranktable table = {0};
    int32_t devices[16] = {0};
    ck_assert_ok(cs_ranktable_load(&table, GOOD "/hccl_2s_16p.json", &err), &err);
    struct cs_ranktable_rank ranks[16];
    memcpy(ranks, table.ranks, sizeof ranks);
    table.ranks = ranks;
    ranks[9].device_id = 77;
    ck_assert_fails(
        cs_ranktable_devices(&table, &platform, devices, &err), &err, CS_E_INPUT, 60,
        "server_list[1].device[1].device_id is 77, but node 1 of platform '910b-8x8' has the cards "
        "0 to 7");
    ck_assert_str_eq(err.file, GOOD "/hccl_2s_16p.json");
    table.n_ranks = 2; /* two cards of the second half */
    ranks[0].device_id = 6;
    ranks[1].device_id = 4;
    ck_assert_ok(cs_ranktable_devices(&table, &platform, devices, &err), &err);
    ck_assert_int_eq(devices[0], 6);
    ck_assert_int_eq(devices[1], 4);
    cs_ranktable_release(&table);
}
END_TEST

START_TEST(test_bad)
{
    char row[512];
    int n_rows = 0;
    FILE *expected = fopen(BAD "/expected.txt", "r");
    ck_assert_ptr_nonnull(expected);
    while (fgets(row, sizeof row, expected)) {
        char *line = strchr(row, '\t');
        char *part = line ? strchr(line + 1, '\t') : NULL;
        if (row[0] == '#' || !part) {
            continue;
        }
        *line = *part = '\0';
        part[1 + strcspn(part + 1, "\n")] = '\0';
        char file[1024];
        snprintf(file, sizeof file, "%s/%s", BAD, row);
        struct cs_err err = {0};
        struct cs_ranktable table = {0};
        cs_status st = cs_ranktable_load(&table, file, &err);
        ck_assert_msg(st == CS_E_INPUT && err.line == atoi(line + 1) && strstr(err.text, part + 1) &&
                          strcmp(err.file, file) == 0,
                      "%s: got %d, line %d '%s', want line %s '%s'", row, (int)st, err.line, err.text,
                      line + 1, part + 1);
        n_rows++;
    }
    fclose(expected);
    int n_files = 0;
    DIR *dir = opendir(BAD);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        n_files += len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0;
    }
    closedir(dir);
    ck_assert_int_eq(n_files, n_rows);
}
END_TEST

/* Write to a file, read it again. */
static void write_and_load(const int32_t *devices, int32_t n, const struct cs_ranktable *known,
                           struct cs_ranktable *again)
{
    struct cs_err err = {0};
    char path[] = "ranktable_XXXXXX";
    int fd = mkstemp(path);
    FILE *stream = fdopen(fd, "w");
    ck_assert_ok(cs_ranktable_write(&platform, devices, n, known, stream, &err), &err);
    fclose(stream);
    ck_assert_ok(cs_ranktable_load(again, path, &err), &err);
    unlink(path);
}

START_TEST(test_write)
{
    struct cs_err err = {0};
    struct cs_ranktable known = {0};
    struct cs_ranktable again = {0};
    int32_t devices[16];
    int32_t got[16];
    ck_assert_ok(cs_ranktable_load(&known, GOOD "/hccl_2s_16p.json", &err), &err);
    for (int32_t r = 0; r < 16; r++) {
        devices[r] = (r * 5 + 3) % 16; /* some placement */
    }
    write_and_load(devices, 16, &known, &again);
    ck_assert_ok(cs_ranktable_devices(&again, &platform, got, &err), &err);
    for (int32_t r = 0; r < 16; r++) {
        ck_assert_int_eq(got[r], devices[r]);
        ck_assert_str_eq(again.ranks[r].device_ip, known.ranks[devices[r]].device_ip);
    }
    ck_assert_str_eq(again.servers[1].id, "10.0.0.2");
    cs_ranktable_release(&again);
    int32_t two[] = {63, 5};
    write_and_load(two, 2, NULL, &again);
    ck_assert_int_eq(again.n_servers, 2);
    ck_assert_str_eq(again.servers[again.ranks[0].server].id, "node7");
    ck_assert_int_eq(again.ranks[0].device_id, 7);
    ck_assert_str_eq(again.ranks[1].device_ip, "0.0.0.0");
    cs_ranktable_release(&again);
    cs_ranktable_release(&known);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        ck_assert_int_eq(cs_ranktable_write(&platform, two, 2, NULL, full, &err), CS_E_IO);
        fclose(full);
    }
}
END_TEST

/* There is a finding of that severity and line that says `part`. */
static void assert_found(const struct cs_findings *findings, enum cs_severity severity, int line,
                         const char *part)
{
    for (int32_t i = 0; i < findings->n; i++) {
        if (findings->items[i].severity == severity && findings->items[i].line == line &&
            strstr(findings->items[i].text, part)) {
            return;
        }
    }
    for (int32_t i = 0; i < findings->n; i++) {
        fprintf(stderr, "%d: %s: %s\n", findings->items[i].line,
                cs_severity_names[findings->items[i].severity], findings->items[i].text);
    }
    ck_abort_msg("no %s at line %d with '%s'", cs_severity_names[severity], line, part);
}

START_TEST(test_check)
{
    struct cs_err err = {0};
    struct cs_findings findings = {0};
    ck_assert_ok(cs_platform_check(PLATFORM, catalogue, &findings, &err), &err);
    ck_assert_int_eq(findings.n, 0); /* what is shipped is clean */
    cs_findings_release(&findings);
    ck_assert_ok(
        cs_platform_check(CS_TEST_SOURCE_DIR "/tests/data/good/platform/odd.xml", catalogue, &findings, &err),
        &err);
    assert_found(&findings, CS_SEVERITY_NOTE, 0, "nodes differ");
    assert_found(&findings, CS_SEVERITY_NOTE, 0, "3 of 4 devices have no 'memory'");
    assert_found(&findings, CS_SEVERITY_NOTE, 8, "'c' has 32");
    assert_found(&findings, CS_SEVERITY_WARNING, 17, "sends at 100");
    assert_found(&findings, CS_SEVERITY_WARNING, 12, "'b' to 'c' has 14");
    assert_found(&findings, CS_SEVERITY_WARNING, 14, "no way back");
    assert_found(&findings, CS_SEVERITY_WARNING, 12, "others in node 0 by 28");
    assert_found(&findings, CS_SEVERITY_ERROR, 6, "'a' has routes to 1 of the 2");
    assert_found(&findings, CS_SEVERITY_NOTE, 23, "carries the traffic of several");
    assert_found(&findings, CS_SEVERITY_WARNING, 23, "NIC 'nic0' of 'a' has 25");
    assert_found(&findings, CS_SEVERITY_WARNING, 24, "only 100");
    ck_assert_int_eq(findings.n_of[CS_SEVERITY_ERROR], 1);
    cs_findings_release(&findings);
    cs_findings_release(&findings);
    ck_assert_int_eq(cs_platform_check("no-such-file.xml", catalogue, &findings, &err), CS_E_INPUT);
    ck_assert_int_eq(findings.n, 0);
}
END_TEST

static Suite *ranktable_suite(void)
{
    Suite *suite = suite_create("ranktable");
    TCase *tcase = tcase_create("ranktable");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_load_v10);
    tcase_add_test(tcase, test_load_v12);
    tcase_add_test(tcase, test_card_numbers);
    tcase_add_test(tcase, test_bad);
    tcase_add_test(tcase, test_write);
    tcase_add_test(tcase, test_check);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(ranktable_suite)
