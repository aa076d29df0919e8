/* Platforms that a study describes: blocks, rank tables, faults, factors. */
#include "cs/strategies/study.h"

#include "cs_test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define STUDY_FILE "test_platform_study.yaml"
#define TABLES CS_TEST_SOURCE_DIR "/tests/data/good/ranktable/"

static cs_status load(struct cs_study *study, const char *platform, int32_t n, const struct cs_override *more,
                      struct cs_err *err)
{
    FILE *file = fopen(STUDY_FILE, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_gt(fprintf(file,
                             "model: llama3-8b\ntraining: {global_batch: 8, seq_length: 64}\nplatform: %s\n",
                             platform),
                     0);
    ck_assert_int_eq(fclose(file), 0);
    struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .path = "./" STUDY_FILE, .n_overrides = n, .overrides = more};
    cs_status st = cs_study_load(study, &source, err);
    ck_assert_int_eq(unlink(STUDY_FILE), 0);
    return st;
}

static void load_good(struct cs_study *study, const char *platform, int32_t n, const struct cs_override *more)
{
    struct cs_err err = {0};
    ck_assert_ok(load(study, platform, n, more, &err), &err);
}

START_TEST(test_described)
{
    struct cs_study study = {0};
    load_good(&study, "{server: dgx-h100, devices: 32, topology: rail, ratio: 4, oversubscription: 2}", 0,
              NULL);
    ck_assert_int_eq(study.platform.n_nodes, 4);
    ck_assert_int_eq(study.platform.n_devices, 32);
    ck_assert_str_eq(study.platform.topology, "rail");
    ck_assert_str_eq(study.platform.devices[31].chip->name, "h100");
    ck_assert_double_eq(study.description->inter_bytes_per_s, study.description->intra_bytes_per_s / 4);
    cs_study_release(&study);
}
END_TEST

/* A shipped file and its description are the same platform; one key changes that one thing. */
START_TEST(test_base)
{
    struct cs_study file = {0};
    struct cs_study base = {0};
    struct cs_study wider = {0};
    struct cs_override nodes = {"platform.nodes", "3", false};
    load_good(&file, "910b-8x8", 0, NULL);
    load_good(&base, "{base: 910b-8x8}", 0, NULL);
    ck_assert(file.platform.content_hash == base.platform.content_hash);
    load_good(&wider, "910b-8x8", 1, &nodes);
    ck_assert_int_eq(wider.platform.n_nodes, 3);
    ck_assert_double_eq(wider.description->hop_latency_s, base.description->hop_latency_s);
    cs_study_release(&file);
    cs_study_release(&base);
    cs_study_release(&wider);
}
END_TEST

START_TEST(test_rank_table)
{
    struct cs_study study = {0};
    load_good(&study, TABLES "hccl_2s_16p.json", 0, NULL);
    ck_assert_int_eq(study.platform.n_devices, 16);
    ck_assert_int_eq(study.platform.n_nodes, 2);
    ck_assert_int_eq(study.ranktable.n_ranks, 16);
    int32_t devices[16];
    struct cs_err err = {0};
    ck_assert_ok(cs_ranktable_devices(&study.ranktable, &study.platform, devices, &err), &err);
    cs_study_release(&study);
    load_good(&study, "{server: atlas-800t-a2, topology: rail, rank_table: " TABLES "hccl_2s_16p.json}", 0,
              NULL);
    ck_assert_str_eq(study.platform.topology, "rail");
    ck_assert_str_eq(study.platform.devices[0].chip->name, "910b3");
    cs_study_release(&study);
}
END_TEST

START_TEST(test_nodes_out)
{
    struct cs_study study = {0};
    struct cs_override out = {"faults.nodes_out", "[1, 3]", false};
    load_good(&study, "{nodes: 4}", 1, &out);
    ck_assert_int_eq(study.platform.n_devices, 16);
    ck_assert_int_eq(study.platform.n_nodes, 2);
    ck_assert_str_eq(study.platform.devices[8].host, "npu16");
    ck_assert_int_eq(study.platform.devices[8].node, 1);
    ck_assert(study.platform.uniform);
    cs_study_release(&study);
}
END_TEST

START_TEST(test_what_if)
{
    struct cs_study plain = {0};
    struct cs_study better = {0};
    struct cs_override list[] = {{"what_if.compute", "1.5", false}, {"what_if.inter_bandwidth", "2", false}};
    load_good(&plain, "910b-8x8", 0, NULL);
    load_good(&better, "910b-8x8", 2, list);
    const struct cs_chip *was = plain.platform.devices[0].chip;
    const struct cs_chip *is = better.platform.devices[0].chip;
    ck_assert_double_eq(is->peak_flop_per_s[CS_DTYPE_BF16], 1.5 * was->peak_flop_per_s[CS_DTYPE_BF16]);
    ck_assert_double_eq(is->memory_bytes_per_s, was->memory_bytes_per_s);
    ck_assert(is == better.platform.devices[63].chip);
    ck_assert_double_eq_tol(better.description->inter_bytes_per_s, 2 * 19.6e9, 1);
    cs_study_release(&plain);
    cs_study_release(&better);
}
END_TEST

/* A dead link of a described platform is wired around, named in either place. */
START_TEST(test_dead_links)
{
    struct cs_study plain = {0};
    struct cs_study dead = {0};
    struct cs_override fault = {"faults.slow_links", "{hccs0-1_UP: 0, hccs2-3_UP: 0.5}", false};
    load_good(&plain, "{nodes: 1}", 0, NULL);
    load_good(&dead, "{nodes: 1}", 1, &fault);
    ck_assert_int_eq(dead.description->n_dead_links, 1);
    ck_assert_int_eq(dead.platform.n_links, plain.platform.n_links - 1);
    cs_study_release(&dead);
    load_good(&dead, "{nodes: 1, dead_links: [hccs0-1]}", 0, NULL);
    ck_assert_int_eq(dead.platform.n_links, plain.platform.n_links - 1);
    cs_study_release(&dead);
    cs_study_release(&plain);
}
END_TEST

/* NICs and switches of the catalogue, and a bus. */
START_TEST(test_parts)
{
    struct cs_study study = {0};
    load_good(&study, "{nic: roce-200, switch: qm9700, oversubscription: 3}", 0, NULL);
    ck_assert_double_eq_tol(study.description->inter_bytes_per_s, 22.5e9, 1); /* measured */
    ck_assert_int_eq(study.description->leaf_ports, 48);                      /* 48 down, 16 up */
    ck_assert_double_eq_tol(study.description->hop_latency_s, 150e-9, 1e-15);
    cs_study_release(&study);
    load_good(&study, "{nic: ndr-400, inter_latency: 3us}", 0, NULL);
    ck_assert_double_eq_tol(study.description->inter_bytes_per_s, 50e9, 1); /* nothing measured: the port's */
    ck_assert_double_eq_tol(study.description->inter_latency_s, 3e-6, 1e-15);
    cs_study_release(&study);
    load_good(&study, "{nodes: 8, nic_duplex: half, nic_devices: 2, second: {server: dgx-h100, nodes: 1}}", 0,
              NULL);
    ck_assert(study.description->inter_half_duplex);
    ck_assert(!study.description->second.inter_half_duplex);
    ck_assert_int_eq(study.platform.devices[0].adapter, 0);
    ck_assert_int_eq(study.platform.devices[13].adapter, 2);
    ck_assert_int_eq(study.platform.devices[64].adapter, -1);
    cs_study_release(&study);
    load_good(&study, "{second: {server: jean-zay-a100, nodes: 1}}", 0, NULL);
    ck_assert(!study.description->inter_half_duplex);
    ck_assert(study.description->second.inter_half_duplex);
    cs_study_release(&study);
    load_good(&study, "{server: jean-zay-a100, nic: roce-200}", 0,
              NULL); /* the catalogue's NICs are full duplex */
    ck_assert(!study.description->inter_half_duplex);
    cs_study_release(&study);
    load_good(&study, "{server: pcie-8gpu, nodes: 1}", 0, NULL);
    ck_assert_str_eq(study.platform.intra, "bus");
    ck_assert_double_eq_tol(study.description->intra_bus_bytes_per_s, 48e9, 1);
    cs_study_release(&study);
    load_good(&study, "{server: pcie-8gpu, nodes: 1, intra: switch}", 0, NULL);
    ck_assert_str_eq(study.platform.intra, "switch");
    cs_study_release(&study);
    load_good(&study, "{nodes: 1, intra: bus, bus_bandwidth: 100GBps}", 0, NULL);
    ck_assert_double_eq_tol(study.description->intra_bus_bytes_per_s, 100e9, 1);
    cs_study_release(&study);
}
END_TEST

/* Framework rank r, numbered mp innermost, sits where the strategy's own order puts its coordinates. */
START_TEST(test_placement)
{
    struct cs_err err = {0};
    struct cs_study study = {0};
    struct cs_strategy strategy;
    int32_t device_of_rank[16];
    load_good(&study, "{nodes: 2}", 0, NULL);
    cs_strategy_init(&strategy);
    ck_assert_ok(cs_strategy_parse("dp=2,mp=8,placement=dp,mp,cp,pp", CS_NOLOC, &strategy, NULL, &err), &err);
    cs_study_placement(&study, &strategy, device_of_rank);
    ck_assert_int_eq(device_of_rank[0], 0);
    ck_assert_int_eq(device_of_rank[1], 2); /* mp 1 of replica 0: behind replica 1 of mp 0 */
    ck_assert_int_eq(device_of_rank[8], 1);
    ck_assert_int_eq(device_of_rank[15], 15);
    cs_study_release(&study);
}
END_TEST

static const struct {
    const char *platform;
    const char *part;
} bad[] = {
    {"{server: dgx-h1oo}", "dgx-h100"},
    {"{nods: 3}", "did you mean 'nodes'"},
    {"{nodes: 3, devices: 24}", "not both"},
    {"{devices: 9}", "no whole number of nodes"},
    {"{nodes: 0}", "nodes"},
    {"{ratio: 2, inter_bandwidth: 3GBps}", "not both"},
    {"{inter_bandwidth: 3}", "unit"},
    {"{topology: star}", "fat-tree"},
    {"{topology: supernode, nodes: 1000}", "at most 768"},
    {"{topology: torus, nodes: 4, dims: 3x2}", "has 6 nodes"},
    {"{topology: torus, nodes: 4, dims: 2y2}", "should be an integer"},
    {"{second: {server: dgx-h100}}", "nodes"},
    {"{topology: torus, second: {server: dgx-h100, nodes: 1}}", "a torus is of equal nodes"},
    {"{topology: dragonfly, second: {server: dgx-h100, nodes: 1}}", "hold equal nodes"},
    {"{topology: supernode, second: {server: dgx-h100, nodes: 1}}", "one scale-up domain"},
    {"{dead_links: [hccs0-9]}", "there is no link 'hccs0-9'"},
    {"{nodes: 16, dead_links: [leaf0_up]}", "ranks 0 to 63 lose"},
    {"{base: " CS_TEST_SOURCE_DIR "/tests/data/good/platform/mixed.xml}", "does not carry the description"},
    {"{rank_table: nowhere.json}", "no such file"},
    {"{nodes: 1, rank_table: " TABLES "hccl_2s_16p.json}", "2 servers"},
    {"[1, 2]", "must be a single value"},
    {"{nic: roce-300}", "expected one of: roce-200"},
    {"{switch: qm9800}", "is not in the catalogue"},
    {"{switch: roce-leaf-200}", "was not found"},
    {"{intra: bus}", "needs the rate of the bus"},
    {"{bus_bandwidth: 3GBps}", "needs 'intra: bus'"},
    {"{nic_duplex: simplex}", "full, half"},
    {"{nic_devices: 0}", "nic_devices"},
    {"{nic_devices: 2000}", "1 to 1024"},
};

START_TEST(test_bad)
{
    struct cs_err err = {0};
    struct cs_study study = {0};
    cs_status st = load(&study, bad[_i].platform, 0, NULL, &err);
    ck_assert_fails(st, &err, CS_E_INPUT, 3, bad[_i].part);
    cs_study_release(&study);
}
END_TEST

static Suite *platform_suite(void)
{
    Suite *suite = suite_create("study platform");
    TCase *tcase = tcase_create("platform");
    tcase_add_test(tcase, test_described);
    tcase_add_test(tcase, test_base);
    tcase_add_test(tcase, test_rank_table);
    tcase_add_test(tcase, test_nodes_out);
    tcase_add_test(tcase, test_what_if);
    tcase_add_test(tcase, test_dead_links);
    tcase_add_test(tcase, test_parts);
    tcase_add_test(tcase, test_placement);
    tcase_add_loop_test(tcase, test_bad, 0, (int)(sizeof bad / sizeof *bad));
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(platform_suite)
