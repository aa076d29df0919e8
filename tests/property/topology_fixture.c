/* Platforms in SimGrid itself. Every SimGrid run is a child process: one platform a process, and its errors
 * are aborts. */
#include "topology_fixture.h"

#include "cs_test.h"

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

struct cs_catalogue *topology_catalogue;
char topology_path[] = "topology_XXXXXX";

void topology_setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_catalogue_load(CATALOGUE, &topology_catalogue, &err), &err);
    int fd = mkstemp(topology_path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

void topology_teardown(void)
{
    cs_catalogue_free(topology_catalogue);
    unlink(topology_path);
}

static topology_probe_fn *probe_now;
static void *probe_data;

static void probe_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    probe_now(probe_data);
}

int topology_in_simgrid(const char *host, topology_probe_fn *probe, void *data)
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
        simgrid_load_platform(topology_path);
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

void topology_write(const struct cs_topology_spec *spec)
{
    struct cs_err err = {0};
    FILE *stream = fopen(topology_path, "w");
    ck_assert_ptr_nonnull(stream);
    ck_assert_ok(cs_topology_write(spec, topology_catalogue, stream, CS_NOLOC, &err), &err);
    ck_assert_int_eq(fclose(stream), 0);
}

struct route_check {
    const struct cs_topology_spec *spec;
    const struct cs_platform *platform;
    struct cs_rng rng;
    int n_pairs;
};

/* A half-duplex NIC is left and entered by one resource, another by two. */
static bool same_way_back(const struct route_check *check, int32_t a, sg_host_t from, sg_host_t to)
{
    xbt_dynar_t out = xbt_dynar_new(sizeof(sg_link_t), NULL);
    xbt_dynar_t back = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(from, to, out);
    sg_host_get_route(to, from, back);
    sg_link_t first = xbt_dynar_get_as(out, 0, sg_link_t);
    sg_link_t last = xbt_dynar_get_as(back, xbt_dynar_length(back) - 1, sg_link_t);
    bool same = first == last;
    bool half = a < check->spec->n_nodes * check->spec->devices_per_node
                    ? check->spec->inter_half_duplex
                    : check->spec->second.inter_half_duplex;
    xbt_dynar_free(&out);
    xbt_dynar_free(&back);
    return same == half;
}

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
        if (!cs_platform_same_node(check->platform, a, b) && !same_way_back(check, a, from, to)) {
            fprintf(stderr, "%d -> %d: the way out of the NIC and into it\n", (int)a, (int)b);
            _exit(1);
        }
    }
}

void assert_topology_routes(const struct cs_topology_spec *spec, uint64_t seed, int n_pairs)
{
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    topology_write(spec);
    ck_assert_ok(cs_platform_load(&platform, topology_path, topology_catalogue, &err), &err);
    ck_assert_int_eq(platform.n_devices, cs_topology_n_devices(spec));
    ck_assert_int_eq(platform.n_nodes, cs_topology_n_nodes(spec));
    ck_assert_str_eq(platform.topology, cs_topology_names[spec->topology]);
    struct route_check check = {.spec = spec, .platform = &platform, .n_pairs = n_pairs};
    cs_rng_init(&check.rng, seed, 1);
    int status = topology_in_simgrid(platform.devices[0].host, check_routes, &check);
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

struct cs_topology_spec topology_random(struct cs_rng *rng)
{
    static const int32_t per_node[] = {1, 2, 3, 4, 8, 8, 8, 16};
    struct cs_topology_spec spec;
    for (;;) {
        cs_topology_spec_init(&spec, cs_catalogue_server(topology_catalogue, "910b-10to1"));
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
        spec.inter_half_duplex = cs_rng_below(rng, 3) == 0;
        spec.nic_devices = 1 + (int32_t)cs_rng_below(rng, 3);
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
                .inter_bytes_per_s = between(rng, 1e9, 1e11),
                .inter_half_duplex = cs_rng_below(rng, 3) == 0};
        }
        if (cs_topology_check(&spec, CS_NOLOC, NULL) == CS_OK) {
            return spec;
        }
    }
}
