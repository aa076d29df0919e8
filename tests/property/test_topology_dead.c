/* Dead cables: the detours that a description promises are SimGrid's, and what has none is refused. */
#include "topology_fixture.h"

#include "cs_test.h"

#include <math.h>
#include <simgrid/host.h>
#include <unistd.h>

/* Dead cables with a way round them: the detour is what the closed form says, and the cable is gone. */
START_TEST(test_detours)
{
    static const char *const mesh[] = {"hccs0-1", "hccs1-2_UP", "hccs8-15"};
    static const char *const dragonfly[] = {"group0_local0-1", "group2_local1-3", "global0-1", "global2-4"};
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    spec.n_nodes = 2;
    spec.dead_links = mesh;
    spec.n_dead_links = CS_COUNT(mesh);
    assert_topology_routes(&spec, 1, 300);
    cs_topology_spec_use(&spec, CS_TOPOLOGY_DRAGONFLY);
    spec.n_nodes = 20;
    spec.dims[0] = 5;
    spec.dims[1] = 4;
    spec.dims[2] = 1;
    spec.devices_per_node = 2;
    spec.dead_links = dragonfly;
    spec.n_dead_links = CS_COUNT(dragonfly);
    assert_topology_routes(&spec, 2, 2000);
}
END_TEST

/* node0 and node1 of a ring of five lost their cable: four hops the other way. */
static void check_ring(void *data)
{
    const struct cs_topology_spec *spec = data;
    double want_s = spec->inter_latency_s + 4 * spec->hop_latency_s;
    double got_s = sg_host_get_route_latency(sg_host_by_name("npu0"), sg_host_by_name("npu8"));
    _exit(fabs(got_s - want_s) > 1e-12 ? 1 : 0);
}

START_TEST(test_torus_detour)
{
    static const char *const cable[] = {"torus0_x"};
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    cs_topology_spec_use(&spec, CS_TOPOLOGY_TORUS);
    spec.n_nodes = 5;
    spec.dead_links = cable;
    spec.n_dead_links = 1;
    topology_write(&spec);
    ck_assert_int_eq(topology_in_simgrid("npu0", check_ring, &spec), 0);
}
END_TEST

static const struct {
    enum cs_topology topology;
    int32_t n_nodes;
    const char *links[2];
    const char *part;
} cut_offs[] = {
    {CS_TOPOLOGY_FAT_TREE, 16, {"leaf0_up", NULL}, "ranks 0 to 63 lose the rest of the cluster"},
    {CS_TOPOLOGY_FAT_TREE, 16, {"leaf1_link_70_UP", NULL}, "rank 70 loses all other nodes"},
    {CS_TOPOLOGY_TORUS, 5, {"torus0_x", "torus2_x"}, "ranks 8 to 15 lose rank 0"},
    {CS_TOPOLOGY_DRAGONFLY, 2, {"global0-1", NULL}, "rank 0 loses rank 8"},
    {CS_TOPOLOGY_SUPERNODE, 2, {"port9", NULL}, "rank 9 loses the other ranks of its node"},
    {CS_TOPOLOGY_FAT_TREE, 2, {"leaf0_up", NULL}, "there is no link 'leaf0_up'"},
    {CS_TOPOLOGY_FAT_TREE, 2, {"hccs7-8", NULL}, "there is no link 'hccs7-8'"},
    {CS_TOPOLOGY_FAT_TREE, 2, {"hccs0-1x", NULL}, "there is no link 'hccs0-1x'"},
};

START_TEST(test_cut_off)
{
    struct cs_err err = {0};
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
    cs_topology_spec_use(&spec, cut_offs[_i].topology);
    spec.n_nodes = cut_offs[_i].n_nodes;
    spec.dead_links = cut_offs[_i].links;
    spec.n_dead_links = cut_offs[_i].links[1] ? 2 : 1;
    ck_assert_fails(cs_topology_check(&spec, CS_NOLOC, &err), &err, CS_E_INPUT, 0, cut_offs[_i].part);
}
END_TEST

static Suite *topology_dead_suite(void)
{
    Suite *suite = suite_create("topology_dead");
    TCase *tcase = tcase_create("simgrid");
    tcase_add_checked_fixture(tcase, topology_setup, topology_teardown);
    tcase_add_test(tcase, test_detours);
    tcase_add_test(tcase, test_torus_detour);
    tcase_add_loop_test(tcase, test_cut_off, 0, CS_COUNT(cut_offs));
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(topology_dead_suite)
