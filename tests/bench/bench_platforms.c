/**
 * @file bench_platforms.c
 * How fast platforms of 16,384 NPUs are written, read and loaded, one row a topology. Nothing passes or
 * fails.
 *
 *   bench_platforms [NODES]
 *
 * 'write' makes the XML, 'read' checks it and knows its devices, 'SimGrid' loads and seals the file and
 * answers one route, 'ring' asks for the routes of a ring over the first device of every node. Times are CPU
 * seconds of the process that works; MiB is its largest resident size.
 */
#include "cs/engine/routes.h"
#include "cs/platforms/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct row {
    const char *what;
    enum cs_topology topology;
    int32_t leaf_ports;
    int32_t dims[3];
    bool switched;
    bool mixed;
};

static double cpu_s(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void end_if(cs_status st, const struct cs_err *err)
{
    if (st != CS_OK) {
        char text[1200];
        cs_err_format(err, text, sizeof text);
        fprintf(stderr, "%s\n", text);
        exit(1);
    }
}

static void describe(const struct row *row, int32_t n_nodes, const struct cs_catalogue *catalogue,
                     struct cs_topology_spec *spec)
{
    cs_topology_spec_init(spec, cs_catalogue_server(catalogue, "910b-10to1"));
    cs_topology_spec_use(spec, row->topology);
    spec->n_nodes = n_nodes;
    spec->intra_switched |= row->switched;
    spec->leaf_ports = row->leaf_ports;
    memcpy(spec->dims, row->dims, sizeof spec->dims);
    if (row->mixed) {
        const struct cs_server *other = cs_catalogue_server(catalogue, "atlas-800-a3");
        spec->n_nodes = n_nodes / 2;
        spec->second = (struct cs_topology_part){.chip = other->chip,
                                                 .n_nodes = n_nodes / 4,
                                                 .devices_per_node = other->devices,
                                                 .intra_switched = other->intra_switched,
                                                 .intra_bytes_per_s = other->intra_bytes_per_s,
                                                 .intra_latency_s = other->intra_latency_s,
                                                 .inter_bytes_per_s = other->nic_bytes_per_s};
    }
}

/* In a child, so that its times and memory are its own. */
static void run_row(const struct row *row, int32_t n_nodes)
{
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_topology_spec spec;
    struct cs_platform platform = {0};
    struct stat file;
    char path[] = "/tmp/clustersim-bench-XXXXXX";
    double at_s = cpu_s(RUSAGE_SELF);
    end_if(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    describe(row, n_nodes, catalogue, &spec);
    FILE *stream = fdopen(mkstemp(path), "wb");
    end_if(cs_topology_write(&spec, catalogue, stream, CS_NOLOC, &err), &err);
    fclose(stream);
    stat(path, &file);
    double write_s = cpu_s(RUSAGE_SELF) - at_s;
    at_s = cpu_s(RUSAGE_SELF);
    end_if(cs_platform_load(&platform, path, catalogue, &err), &err);
    double read_s = cpu_s(RUSAGE_SELF) - at_s;
    struct cs_routes *routes = cs_routes_new(&platform, NULL);
    end_if(cs_routes_need(routes, (int32_t[]){0, platform.n_devices - 1}, 1, &err), &err);
    double load_s = cpu_s(RUSAGE_CHILDREN);
    int32_t *ring = calloc((size_t)platform.n_nodes, 2 * sizeof *ring);
    int32_t n = 0;
    for (int32_t d = 0; ring && d < platform.n_devices; d++) {
        if (n == platform.devices[d].node) {
            ring[2 * n++] = d;
        }
    }
    for (int32_t i = 0; ring && i < n; i++) {
        ring[2 * i + 1] = ring[2 * ((i + 1) % n)];
    }
    end_if(cs_routes_need(routes, ring, n, &err), &err);
    double ring_s = cpu_s(RUSAGE_CHILDREN) - 2.0 * load_s;
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("%-26s %7d %7.1f %7.2f %7.2f %8.2f %7.2f %6ld\n", row->what, (int)platform.n_devices,
           (double)file.st_size / 1e6, write_s, read_s, load_s, ring_s > 0.0 ? ring_s : 0.0,
           usage.ru_maxrss / 1024);
    fflush(stdout);
    free(ring);
    cs_routes_free(routes);
    cs_platform_release(&platform);
    cs_catalogue_free(catalogue);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const struct row rows[] = {
        {.what = "fat tree, 2 levels", .topology = CS_TOPOLOGY_FAT_TREE, .leaf_ports = 128},
        {.what = "fat tree, 3 levels", .topology = CS_TOPOLOGY_FAT_TREE, .leaf_ports = 64},
        {.what = "fat tree, 3 levels, 32", .topology = CS_TOPOLOGY_FAT_TREE, .leaf_ports = 32},
        {.what = "fat tree, switched nodes",
         .topology = CS_TOPOLOGY_FAT_TREE,
         .leaf_ports = 64,
         .switched = true},
        {.what = "rail-optimised", .topology = CS_TOPOLOGY_RAIL, .leaf_ports = 64},
        {.what = "torus 2D", .topology = CS_TOPOLOGY_TORUS, .leaf_ports = 64, .dims = {64, 32, 0}},
        {.what = "torus 3D", .topology = CS_TOPOLOGY_TORUS, .leaf_ports = 64},
        {.what = "torus 3D, switched nodes",
         .topology = CS_TOPOLOGY_TORUS,
         .leaf_ports = 64,
         .switched = true},
        {.what = "dragonfly", .topology = CS_TOPOLOGY_DRAGONFLY, .leaf_ports = 64},
        {.what = "mixed, fat tree", .topology = CS_TOPOLOGY_FAT_TREE, .leaf_ports = 64, .mixed = true},
        {.what = "supernode of 48 nodes", .topology = CS_TOPOLOGY_SUPERNODE, .leaf_ports = 64},
    };
    int32_t n_nodes = argc > 1 ? atoi(argv[1]) : 2048;
    printf("%-26s %7s %7s %7s %7s %8s %7s %6s\n", "topology", "NPUs", "MB", "write s", "read s", "SimGrid s",
           "ring s", "MiB");
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        bool supernode = rows[i].topology == CS_TOPOLOGY_SUPERNODE;
        bool given = rows[i].dims[0] > 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            run_row(&rows[i], supernode ? 48 : given ? rows[i].dims[0] * rows[i].dims[1] : n_nodes);
            exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    return 0;
}
