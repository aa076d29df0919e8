/* Platforms against SimGrid itself: routes are what the closed form promises, and whatever the reader accepts
 * SimGrid loads. Every SimGrid run is a child process: one platform a process, and its errors are aborts. */
#include "cs_test.h"

#include "cs/base/file.h"
#include "cs/base/rng.h"
#include "cs/platforms/platform.h"
#include "cs/platforms/topology.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xbt/dynar.h>

#define CATALOGUE CS_TEST_SOURCE_DIR "/platforms/catalogue"

static struct cs_catalogue *catalogue;
static char path[] = "topology_XXXXXX";

static void setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_catalogue_load(CATALOGUE, &catalogue, &err), &err);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void teardown(void)
{
    cs_catalogue_free(catalogue);
    unlink(path);
}

/* What a child does on the loaded platform, in an actor, since routes are only known then. */
typedef void probe_fn(void *data);
static probe_fn *probe_now;
static void *probe_data;

static void probe_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    probe_now(probe_data);
}

/* Load the file in a child and run `probe` there; its exit status, 128 + signal when it died. */
static int in_simgrid(const char *host, probe_fn *probe, void *data)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char cfg[256];
        const char *given = getenv("CLUSTERSIM_SIMGRID_CFG"); /* sanitizers need threads as contexts */
        snprintf(cfg, sizeof cfg, "--cfg=%s", given && *given ? given : "contexts/stack-size:64");
        char *args[] = {(char[]){"test"},
                        (char[]){"--cfg=network/model:CM02"},
                        (char[]){"--cfg=network/crosstraffic:0"},
                        (char[]){"--log=root.thres:critical"},
                        cfg,
                        NULL};
        int n_args = 5;
        alarm(120);
        simgrid_init(&n_args, args);
        simgrid_load_platform(path);
        probe_now = probe;
        probe_data = data;
        char *argv[] = {args[0], NULL};
        sg_actor_create("probe", sg_host_by_name(host), probe_actor, 1, argv);
        simgrid_run();
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void write_spec(const struct cs_topology_spec *spec)
{
    struct cs_err err = {0};
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    ck_assert_ok(cs_topology_write(spec, catalogue, stream, CS_NOLOC, &err), &err);
    ck_assert_int_eq(fclose(stream), 0);
}

struct route_check {
    const struct cs_topology_spec *spec;
    const struct cs_platform *platform;
    struct cs_rng rng;
    int n_pairs;
};

/* Compare routes of random pairs with the closed form; the child's exit status is the verdict. */
static void check_routes(void *data)
{
    struct route_check *check = data;
    uint32_t n = (uint32_t)check->platform->n_devices;
    for (int i = 0; i < check->n_pairs; i++) {
        int32_t a = (int32_t)cs_rng_below(&check->rng, n);
        int32_t b = (int32_t)cs_rng_below(&check->rng, n);
        if (i % 3 == 0) { /* a third inside a node */
            int32_t per_node = check->spec->devices_per_node;
            int32_t base = 0;
            if (a >= check->spec->n_nodes * per_node) {
                base = check->spec->n_nodes * per_node;
                per_node = check->spec->second.devices_per_node;
            }
            b = base + (a - base) / per_node * per_node +
                (int32_t)cs_rng_below(&check->rng, (uint32_t)per_node);
        }
        if (a == b) {
            continue;
        }
        double want_s = 0.0;
        double want_bytes_per_s = 0.0;
        cs_topology_route(check->spec, a, b, &want_s, &want_bytes_per_s);
        sg_host_t from = sg_host_by_name(cs_platform_endpoint(check->platform, a, b));
        sg_host_t to = sg_host_by_name(cs_platform_endpoint(check->platform, b, a));
        double got_s = sg_host_get_route_latency(from, to);
        double got_bytes_per_s = sg_host_get_route_bandwidth(from, to);
        if (fabs(got_s - want_s) > 1e-12 * want_s + 1e-18 ||
            fabs(got_bytes_per_s - want_bytes_per_s) > 1e-12 * want_bytes_per_s) {
            fprintf(stderr, "%d -> %d: latency %.12g, want %.12g; bandwidth %.12g, want %.12g\n", (int)a,
                    (int)b, got_s, want_s, got_bytes_per_s, want_bytes_per_s);
            _exit(1);
        }
    }
}

static void assert_routes(const struct cs_topology_spec *spec, uint64_t seed, int n_pairs)
{
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    write_spec(spec);
    ck_assert_ok(cs_platform_load(&platform, path, catalogue, &err), &err);
    ck_assert_int_eq(platform.n_devices, cs_topology_n_devices(spec));
    ck_assert_int_eq(platform.n_nodes, cs_topology_n_nodes(spec));
    ck_assert_str_eq(platform.topology, cs_topology_names[spec->topology]);
    struct route_check check = {.spec = spec, .platform = &platform, .n_pairs = n_pairs};
    cs_rng_init(&check.rng, seed, 1);
    int status = in_simgrid(platform.devices[0].host, check_routes, &check);
    ck_assert_msg(
        status == 0, "seed %llu: %s, %d nodes of %d, %s, leaf ports %d, levels %d, dims %d %d %d: %d",
        (unsigned long long)seed, cs_topology_names[spec->topology], (int)spec->n_nodes,
        (int)spec->devices_per_node, spec->intra_switched ? "switch" : "mesh", (int)spec->leaf_ports,
        (int)spec->levels, (int)spec->dims[0], (int)spec->dims[1], (int)spec->dims[2], status);
    cs_platform_release(&platform);
}

static double between(struct cs_rng *rng, double low, double high)
{
    return low * pow(high / low, cs_rng_unit(rng));
}

/* A random description that can be built. */
static struct cs_topology_spec random_spec(struct cs_rng *rng)
{
    static const int32_t per_node[] = {1, 2, 3, 4, 8, 8, 8, 16};
    struct cs_topology_spec spec;
    for (;;) {
        cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
        cs_topology_spec_use(&spec, (enum cs_topology)cs_rng_below(rng, CS_N_TOPOLOGIES));
        spec.n_nodes = 1 + (int32_t)cs_rng_below(rng, cs_rng_below(rng, 4) ? 12 : 150);
        spec.devices_per_node = per_node[cs_rng_below(rng, CS_COUNT(per_node))];
        spec.intra_switched = cs_rng_below(rng, 2) != 0;
        spec.intra_bus_bytes_per_s =
            spec.intra_switched && cs_rng_below(rng, 3) == 0 ? between(rng, 1e9, 1e12) : 0;
        spec.leaf_ports = 2 + (int32_t)cs_rng_below(rng, 70);
        spec.levels = (int32_t)cs_rng_below(rng, 4);
        spec.intra_bytes_per_s = between(rng, 1e9, 1e12);
        spec.inter_bytes_per_s = between(rng, 1e9, 1e11);
        spec.intra_latency_s = cs_rng_below(rng, 8) ? between(rng, 1e-8, 1e-4) : 0.0;
        spec.inter_latency_s = between(rng, 1e-7, 1e-4);
        spec.hop_latency_s = cs_rng_below(rng, 8) ? between(rng, 1e-8, 1e-5) : 0.0;
        spec.oversubscription_frac = cs_rng_below(rng, 2) ? between(rng, 1.0, 20.0) : 1.0;
        if (spec.topology == CS_TOPOLOGY_DRAGONFLY && cs_rng_below(rng, 2)) {
            for (int32_t d = 0; d < 3; d++) {
                spec.dims[d] = 1 + (int32_t)cs_rng_below(rng, 4);
            }
            spec.n_nodes = spec.dims[0] * spec.dims[1] * spec.dims[2];
        }
        if (spec.topology <= CS_TOPOLOGY_RAIL && cs_rng_below(rng, 2)) { /* a mixed cluster */
            bool second_switched = cs_rng_below(rng, 2) != 0;
            spec.second = (struct cs_topology_part){
                .chip = "910b3",
                .n_nodes = 1 + (int32_t)cs_rng_below(rng, 20),
                .devices_per_node = per_node[cs_rng_below(rng, CS_COUNT(per_node))],
                .intra_switched = second_switched,
                .intra_bus_bytes_per_s =
                    second_switched && cs_rng_below(rng, 2) ? between(rng, 1e9, 1e12) : 0.0,
                .intra_bytes_per_s = between(rng, 1e9, 1e12),
                .intra_latency_s = between(rng, 1e-8, 1e-4),
                .inter_bytes_per_s = between(rng, 1e9, 1e11)};
        }
        if (cs_topology_check(&spec, CS_NOLOC, NULL) == CS_OK) {
            return spec;
        }
    }
}

START_TEST(test_random_routes)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct cs_rng rng;
        cs_rng_init(&rng, seed, 0);
        struct cs_topology_spec spec = random_spec(&rng);
        assert_routes(&spec, seed, 300);
    }
}
END_TEST

/* A torus above the size where routes are precomputed, three levels, and many nodes a zone. */
START_TEST(test_large_routes)
{
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    spec.n_nodes = 600;
    spec.leaf_ports = 16;
    assert_routes(&spec, 1, 500);
    cs_topology_spec_use(&spec, CS_TOPOLOGY_TORUS);
    spec.devices_per_node = 1;
    assert_routes(&spec, 2, 500);
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
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
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
    assert_routes(&spec, (uint64_t)_i, 1000);
    if (!spec.intra_switched && spec.n_nodes == 520) {
        spec.dead_links = dead;
        spec.n_dead_links = 1;
        assert_routes(&spec, 99, 1000);
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
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    spec.n_nodes = 64;
    spec.leaf_ports = 8;
    for (int t = 0; t < 3; t++) { /* three levels of leaves of one node; torus; dragonfly */
        const enum cs_topology topologies[] = {CS_TOPOLOGY_FAT_TREE, CS_TOPOLOGY_TORUS,
                                               CS_TOPOLOGY_DRAGONFLY};
        cs_topology_spec_use(&spec, topologies[t]);
        if (t == 2) {
            spec.dims[0] = spec.dims[1] = spec.dims[2] = 4;
        }
        write_spec(&spec);
        ck_assert_ok(cs_file_read(path, (size_t)1 << 24, &file, &bytes, &err), &err);
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
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    cs_topology_spec_use(&spec, bisections[_i].topology);
    spec.n_nodes = bisections[_i].n_nodes;
    spec.leaf_ports = bisections[_i].leaf_ports;
    spec.oversubscription_frac = bisections[_i].oversubscription;
    spec.inter_latency_s = spec.hop_latency_s = 0;
    memcpy(spec.dims, bisections[_i].dims, sizeof spec.dims);
    write_spec(&spec);
    struct bisection b = {cs_topology_n_devices(&spec), bisections[_i].mirrored_nodes * spec.devices_per_node,
                          BISECTION_BYTES * bisections[_i].narrower / spec.inter_bytes_per_s};
    ck_assert_int_eq(in_simgrid("npu0", check_bisection, &b), 0);
}
END_TEST

/* Dead cables with a way round them: the detour is what the closed form says, and the cable is gone. */
START_TEST(test_detours)
{
    static const char *const mesh[] = {"hccs0-1", "hccs1-2_UP", "hccs8-15"};
    static const char *const dragonfly[] = {"group0_local0-1", "group2_local1-3", "global0-1", "global2-4"};
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    spec.n_nodes = 2;
    spec.dead_links = mesh;
    spec.n_dead_links = CS_COUNT(mesh);
    assert_routes(&spec, 1, 300);
    cs_topology_spec_use(&spec, CS_TOPOLOGY_DRAGONFLY);
    spec.n_nodes = 20;
    spec.dims[0] = 5;
    spec.dims[1] = 4;
    spec.dims[2] = 1;
    spec.devices_per_node = 2;
    spec.dead_links = dragonfly;
    spec.n_dead_links = CS_COUNT(dragonfly);
    assert_routes(&spec, 2, 2000);
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
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    cs_topology_spec_use(&spec, CS_TOPOLOGY_TORUS);
    spec.n_nodes = 5;
    spec.dead_links = cable;
    spec.n_dead_links = 1;
    write_spec(&spec);
    ck_assert_int_eq(in_simgrid("npu0", check_ring, &spec), 0);
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
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    cs_topology_spec_use(&spec, cut_offs[_i].topology);
    spec.n_nodes = cut_offs[_i].n_nodes;
    spec.dead_links = cut_offs[_i].links;
    spec.n_dead_links = cut_offs[_i].links[1] ? 2 : 1;
    ck_assert_fails(cs_topology_check(&spec, CS_NOLOC, &err), &err, CS_E_INPUT, 0, cut_offs[_i].part);
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
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    write_spec(&spec);
    ck_assert_int_eq(in_simgrid("npu0", check_directions, NULL), 0);
}
END_TEST

/* Accepted files load */

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
        struct cs_topology_spec spec = random_spec(rng);
        spec.n_nodes = 2;
        spec.second.n_nodes = 0;
        spec.devices_per_node = 2;
        memset(spec.dims, 0, sizeof spec.dims);
        spec.leaf_ports = 2;
        spec.levels = 0;
        write_spec(&spec);
        source = path;
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
        FILE *stream = fopen(path, "w");
        ck_assert_ptr_nonnull(stream);
        fwrite(text.bytes, 1, text.len, stream);
        fclose(stream);
        struct cs_err err = {0};
        struct cs_platform platform = {0};
        cs_status st = cs_platform_load(&platform, path, catalogue, &err);
        if (st == CS_OK) {
            n_accepted++;
            int status = in_simgrid(platform.devices[0].host, nothing, NULL);
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

static Suite *topology_suite(void)
{
    Suite *suite = suite_create("topology");
    TCase *tcase = tcase_create("simgrid");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_random_routes);
    tcase_add_test(tcase, test_large_routes);
    tcase_add_test(tcase, test_switch_links);
    tcase_add_loop_test(tcase, test_many_leaves, 0, (int)(sizeof leaves / sizeof *leaves));
    tcase_add_loop_test(tcase, test_bisection, 0, CS_COUNT(bisections));
    tcase_add_test(tcase, test_detours);
    tcase_add_test(tcase, test_torus_detour);
    tcase_add_loop_test(tcase, test_cut_off, 0, CS_COUNT(cut_offs));
    tcase_add_test(tcase, test_directions);
    tcase_add_test(tcase, test_accepted_files_load);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(topology_suite)
