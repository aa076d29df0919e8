/* Platforms against SimGrid itself: routes, links and bisections are what the closed form promises. */
#include "topology_fixture.h"

#include "cs_test.h"

#include "cs/base/file.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <unistd.h>
#include <xbt/dynar.h>

START_TEST(test_random_routes)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct cs_rng rng;
        cs_rng_init(&rng, seed, 0);
        struct cs_topology_spec spec = topology_random(&rng);
        assert_topology_routes(&spec, seed, 300);
    }
}
END_TEST

/* A torus above the size where routes are precomputed, three levels, and many nodes a zone. */
START_TEST(test_large_routes)
{
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    spec.n_nodes = 600;
    spec.leaf_ports = 16;
    assert_topology_routes(&spec, 1, 500);
    cs_topology_spec_use(&spec, CS_TOPOLOGY_TORUS);
    spec.devices_per_node = 1;
    assert_topology_routes(&spec, 2, 500);
}
END_TEST

/* Trees of so many leaves that they are written for the time it takes to load them: devices that are their
 * own NICs, or links of the NICs in the root zone. */
static const struct {
    enum cs_topology topology;
    int32_t n_nodes, devices_per_node, leaf_ports;
    bool switched;
    bool second;
} leaves[] = {
    {CS_TOPOLOGY_FAT_TREE, 520, 8, 32, false, false},
    {CS_TOPOLOGY_FAT_TREE, 512, 2, 8, true, false},
    {CS_TOPOLOGY_FAT_TREE, 128, 8, 8, true, false},
    {CS_TOPOLOGY_FAT_TREE, 900, 7, 16, false, false}, /* a node's devices on two leaves */
    {CS_TOPOLOGY_FAT_TREE, 390, 14, 14, false, true}, /* a second server type */
    {CS_TOPOLOGY_RAIL, 800, 8, 16, true, false},
    {CS_TOPOLOGY_RAIL, 800, 8, 16, false, true},
};

START_TEST(test_many_leaves)
{
    static const char *const dead[] = {"hccs0-1"};
    static const char *const nic[] = {"nic9_link_UP"};
    struct cs_err err = {0};
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    cs_topology_spec_use(&spec, leaves[_i].topology);
    spec.n_nodes = leaves[_i].n_nodes;
    spec.devices_per_node = leaves[_i].devices_per_node;
    spec.leaf_ports = leaves[_i].leaf_ports;
    spec.intra_switched = leaves[_i].switched;
    spec.oversubscription_frac = 3;
    if (leaves[_i].second) {
        spec.second = (struct cs_topology_part){.chip = "910b3",
                                                .n_nodes = 5,
                                                .devices_per_node = 4,
                                                .intra_bytes_per_s = 1e11,
                                                .intra_latency_s = 1e-6,
                                                .inter_bytes_per_s = 1e10};
    }
    assert_topology_routes(&spec, (uint64_t)_i, 1000);
    spec.inter_half_duplex = true;
    assert_topology_routes(&spec, (uint64_t)_i, 1000);
    spec.inter_half_duplex = false;
    if (!spec.intra_switched && spec.n_nodes == 520) {
        spec.dead_links = dead;
        spec.n_dead_links = 1;
        assert_topology_routes(&spec, 99, 1000);
    }
    spec.dead_links = nic;
    spec.n_dead_links = 1;
    ck_assert_fails(cs_topology_check(&spec, CS_NOLOC, &err), &err, CS_E_INPUT, 0,
                    "rank 9 loses all other nodes");
}
END_TEST

/* The links that a switch is said to have are in the file, and all links between nodes belong to one or two.
 */
static int32_t count_uses(const struct cs_topology_spec *spec, const char *prefix, const char *suffix,
                          int32_t n, const char *file)
{
    struct cs_err err = {0};
    struct cs_arena arena = {0};
    int32_t n_links = 0;
    for (int32_t i = 0; i < n; i++) {
        char name[64];
        const char *const *links = NULL;
        int32_t n_of_switch = 0;
        (void)snprintf(name, sizeof name, "%s%d%s", prefix, (int)i, suffix);
        name[n == 1 ? strlen(prefix) : strlen(name)] = '\0';
        ck_assert_ok(cs_topology_switch_links(spec, name, &arena, &links, &n_of_switch, CS_NOLOC, &err),
                     &err);
        n_links += n_of_switch;
        for (int32_t l = 0; l < n_of_switch; l++) {
            char quoted[80];
            (void)snprintf(quoted, sizeof quoted, "<link id=\"%s\"", links[l]);
            ck_assert_msg(strstr(file, quoted) || strstr(links[l], "_link_"), "%s: no link %s", name,
                          links[l]);
        }
    }
    cs_arena_release(&arena);
    return n_links;
}

START_TEST(test_switch_links)
{
    struct cs_err err = {0};
    struct cs_arena arena = {0};
    const char *const *links = NULL;
    struct cs_topology_spec spec;
    int32_t n = 0;
    char *file = NULL;
    size_t bytes = 0;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    spec.n_nodes = 64;
    spec.leaf_ports = 8;
    for (int t = 0; t < 3; t++) { /* three levels of leaves of one node; torus; dragonfly */
        const enum cs_topology topologies[] = {CS_TOPOLOGY_FAT_TREE, CS_TOPOLOGY_TORUS,
                                               CS_TOPOLOGY_DRAGONFLY};
        cs_topology_spec_use(&spec, topologies[t]);
        if (t == 2) {
            spec.dims[0] = spec.dims[1] = spec.dims[2] = 4;
        }
        topology_write(&spec);
        ck_assert_ok(cs_file_read(topology_path, (size_t)1 << 24, &file, &bytes, &err), &err);
        if (t == 0) {
            ck_assert_int_eq(count_uses(&spec, "leaf", "", 64, file), 512 + 64);
            ck_assert_int_eq(count_uses(&spec, "pod", "_spine", 8, file), 64 + 8);
            ck_assert_int_eq(count_uses(&spec, "core", "", 1, file), 8);
        } else if (t == 1) {
            ck_assert_int_eq(count_uses(&spec, "torus", "", 64, file), 512 + 2 * 3 * 64);
        } else { /* 4 groups of 4 routers: 6 local cables a group, 6 global ones */
            int32_t n_links = 0;
            for (int32_t group = 0; group < 4; group++) {
                char prefix[32];
                (void)snprintf(prefix, sizeof prefix, "group%d_router", (int)group);
                n_links += count_uses(&spec, prefix, "", 4, file);
            }
            ck_assert_int_eq(n_links, 512 + 2 * 6 * 4 + 2 * 6);
        }
        cs_free(file);
    }
    ck_assert_fails(cs_topology_switch_links(&spec, "group0_router4", &arena, &links, &n, CS_NOLOC, &err),
                    &err, CS_E_INPUT, 0, "a dragonfly of this size has no switch 'group0_router4'");
    cs_arena_release(&arena);
}
END_TEST

/* Bisection: every NIC of the first half sends to its counterpart in the second half at once: the one as far
 * from the middle when rows of devices are mirrored, else the one half the cluster on. */
struct bisection {
    int32_t n_devices;
    int32_t mirrored_row; /* devices a row; 0 = not mirrored */
    double want_s;
};

#define BISECTION_BYTES 1e9

static void send_half(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const sg_host_t *pair = sg_actor_self_get_data();
    sg_host_sendto(pair[0], pair[1], BISECTION_BYTES);
}

static void check_bisection(void *data)
{
    const struct bisection *b = data;
    int32_t half = b->n_devices / 2;
    sg_host_t *pairs = calloc((size_t)half, 2 * sizeof *pairs);
    sg_actor_t *actors = calloc((size_t)half, sizeof *actors);
    const char *endpoint = sg_host_by_name("nic0") ? "nic" : "npu"; /* what carries traffic between nodes */
    char name[32];
    if (!pairs || !actors) {
        _exit(2);
    }
    for (int32_t i = 0; i < half; i++) {
        snprintf(name, sizeof name, "%s%d", endpoint, (int)i);
        pairs[2 * i] = sg_host_by_name(name);
        int32_t row = b->mirrored_row;
        int32_t to = row > 0 ? (b->n_devices / row - 1 - i / row) * row + i % row : i + half;
        snprintf(name, sizeof name, "%s%d", endpoint, (int)to);
        pairs[2 * i + 1] = sg_host_by_name(name);
        actors[i] = sg_actor_init("send", pairs[2 * i]);
        sg_actor_set_data(actors[i], pairs + 2 * i);
        sg_actor_ref(actors[i]);
        sg_actor_start_(actors[i], send_half, 0, NULL);
    }
    for (int32_t i = 0; i < half; i++) {
        sg_actor_join(actors[i], -1);
    }
    double got_s = simgrid_get_clock();
    if (fabs(got_s - b->want_s) > 1e-4 * b->want_s) {
        fprintf(stderr, "half to half takes %g s, want %g\n", got_s, b->want_s);
        _exit(1);
    }
}

static const struct {
    enum cs_topology topology;
    int32_t n_nodes, leaf_ports;
    double oversubscription;
    double narrower; /* than the NICs of a half */
    int32_t dims[3];
    int32_t mirrored_nodes; /* nodes a row */
} bisections[] = {
    {CS_TOPOLOGY_FAT_TREE, 8, 64, 4, 1, {0}, 0},  /* one leaf */
    {CS_TOPOLOGY_FAT_TREE, 16, 16, 1, 1, {0}, 0}, /* a spine */
    {CS_TOPOLOGY_FAT_TREE, 16, 16, 4, 4, {0}, 0},
    {CS_TOPOLOGY_FAT_TREE, 64, 8, 3, 3, {0}, 0},  /* pods under a core */
    {CS_TOPOLOGY_FAT_TREE, 128, 8, 3, 3, {0}, 0}, /* NPUs that are their own NICs */
    {CS_TOPOLOGY_RAIL, 16, 16, 4, 1, {0}, 0},     /* counterparts share a rail */
    {CS_TOPOLOGY_RAIL, 16, 8, 4, 4, {0}, 0},      /* and here they do not */
    {CS_TOPOLOGY_SUPERNODE, 16, 64, 1, 1, {0}, 0},
    {CS_TOPOLOGY_TORUS, 2, 64, 1, 1, {0}, 0}, /* the two directions of a ring of two meet: all of the NICs'
                                                 rate */
    {CS_TOPOLOGY_TORUS, 4, 64, 1, 2, {4, 1, 1}, 1}, /* two cuts of half a node's rate, two nodes a half */
    {CS_TOPOLOGY_TORUS, 16, 64, 1, 4, {4, 4, 1}, 4},
    {CS_TOPOLOGY_TORUS, 64, 64, 1, 6, {4, 4, 4}, 16},
    {CS_TOPOLOGY_DRAGONFLY, 8, 64, 1, 1, {2, 2, 2}, 0}, /* one global link between two groups */
    {CS_TOPOLOGY_DRAGONFLY, 8, 64, 3, 3, {2, 2, 2}, 0},
};

START_TEST(test_bisection)
{
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    cs_topology_spec_use(&spec, bisections[_i].topology);
    spec.n_nodes = bisections[_i].n_nodes;
    spec.leaf_ports = bisections[_i].leaf_ports;
    spec.oversubscription_frac = bisections[_i].oversubscription;
    spec.inter_latency_s = spec.hop_latency_s = 0;
    memcpy(spec.dims, bisections[_i].dims, sizeof spec.dims);
    topology_write(&spec);
    struct bisection b = {cs_topology_n_devices(&spec), bisections[_i].mirrored_nodes * spec.devices_per_node,
                          BISECTION_BYTES * bisections[_i].narrower / spec.inter_bytes_per_s};
    ck_assert_int_eq(topology_in_simgrid("npu0", check_bisection, &b), 0);
}
END_TEST

static void check_directions(void *data)
{
    (void)data;
    static const char *const want[][3] = {{"npu2", "npu5", "hccs2-5_UP"}, {"npu5", "npu2", "hccs2-5_DOWN"}};
    for (int32_t i = 0; i < 2; i++) {
        xbt_dynar_t links = xbt_dynar_new(sizeof(sg_link_t), NULL);
        sg_host_get_route(sg_host_by_name(want[i][0]), sg_host_by_name(want[i][1]), links);
        sg_link_t link = xbt_dynar_get_as(links, 0, sg_link_t);
        if (xbt_dynar_length(links) != 1 || strcmp(sg_link_get_name(link), want[i][2]) != 0) {
            _exit(1);
        }
        xbt_dynar_free(&links);
    }
}

/* The two directions of a pair link are two resources. */
START_TEST(test_directions)
{
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    topology_write(&spec);
    ck_assert_int_eq(topology_in_simgrid("npu0", check_directions, NULL), 0);
}
END_TEST

static Suite *topology_suite(void)
{
    Suite *suite = suite_create("topology");
    TCase *tcase = tcase_create("simgrid");
    tcase_add_checked_fixture(tcase, topology_setup, topology_teardown);
    tcase_add_test(tcase, test_random_routes);
    tcase_add_test(tcase, test_large_routes);
    tcase_add_test(tcase, test_switch_links);
    tcase_add_loop_test(tcase, test_many_leaves, 0, (int)(sizeof leaves / sizeof *leaves));
    tcase_add_loop_test(tcase, test_bisection, 0, CS_COUNT(bisections));
    tcase_add_test(tcase, test_directions);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(topology_suite)
