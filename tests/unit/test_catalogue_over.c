/* A folder of catalogue files on top of the shipped ones. */
#include "cs_test.h"

#include "cs/platforms/chip.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define CATALOGUE CS_TEST_SOURCE_DIR "/platforms/catalogue"
#define OVER "test_catalogue_over.d"

static struct cs_catalogue *catalogue;

static void setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_catalogue_load(CATALOGUE, &catalogue, &err), &err);
}

static void teardown(void)
{
    cs_catalogue_free(catalogue);
}

/* Every server, written and read again over the catalogue it is from, is the same with other sources; entries
 * of the folder on top stand in for those below, a second one of the same folder does not. */
START_TEST(test_catalogue_over)
{
    const char *const *names = cs_catalogue_server_names(catalogue);
    struct cs_err err = {0};
    struct cs_catalogue *loaded = NULL;
    FILE *stream = NULL;
    ck_assert_int_eq(mkdir(OVER, 0777), 0);
    for (int32_t i = 0; names[i]; i++) {
        struct cs_server server = *cs_catalogue_server(catalogue, names[i]);
        const char *sources[16];
        char path[128];
        for (int32_t f = 0; f < cs_server_n_figures(); f++) {
            sources[f] = "a \"test\"";
        }
        server.nic_bytes_per_s *= 1.25;
        (void)snprintf(path, sizeof path, OVER "/server-%s.yaml", names[i]);
        stream = fopen(path, "w");
        ck_assert_ptr_nonnull(stream);
        cs_server_write(&server, sources, stream);
        ck_assert_int_eq(fclose(stream), 0);
    }
    ck_assert_ok(cs_catalogue_load_over(CATALOGUE, OVER, &loaded, &err), &err);
    for (int32_t i = 0; names[i]; i++) {
        const struct cs_server *was = cs_catalogue_server(catalogue, names[i]);
        const struct cs_server *is = cs_catalogue_server(loaded, names[i]);
        ck_assert_str_eq(cs_catalogue_server_names(loaded)[i], names[i]);
        ck_assert_str_eq(is->title, was->title);
        ck_assert_str_eq(is->chip, was->chip);
        ck_assert_int_eq(is->devices, was->devices);
        ck_assert(is->intra_switched == was->intra_switched);
        ck_assert_double_eq(is->intra_bus_bytes_per_s, was->intra_bus_bytes_per_s);
        ck_assert_double_eq(is->intra_latency_s, was->intra_latency_s);
        ck_assert(is->nic_half_duplex == was->nic_half_duplex);
        ck_assert_int_eq(is->nic_devices, was->nic_devices);
        ck_assert_double_eq(is->nic_bytes_per_s, 1.25 * was->nic_bytes_per_s);
        ck_assert_str_eq(cs_catalogue_server_source(loaded, names[i], "nic_latency"), "a \"test\"");
    }
    ck_assert_ptr_null(cs_catalogue_server_source(loaded, names[0], "nothing"));
    cs_catalogue_free(loaded);
    stream = fopen(OVER "/zz.yaml", "w");
    ck_assert_ptr_nonnull(stream);
    const char *sources[] = {"x", "x", "x", "x", "x", "x"};
    cs_server_write(cs_catalogue_server(catalogue, names[0]), sources, stream);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_fails(cs_catalogue_load_over(CATALOGUE, OVER, &loaded, &err), &err, CS_E_INPUT, 2,
                    "already described");
    ck_assert_int_eq(unlink(OVER "/zz.yaml"), 0);
    for (int32_t i = 0; names[i]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, OVER "/server-%s.yaml", names[i]);
        ck_assert_int_eq(unlink(path), 0);
    }
    ck_assert_fails(cs_catalogue_load_over(CATALOGUE, OVER, &loaded, &err), &err, CS_E_INPUT, 0, "no .yaml");
    ck_assert_int_eq(rmdir(OVER), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("catalogue_over");
    TCase *tcase = tcase_create("over");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_catalogue_over);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(suite)
