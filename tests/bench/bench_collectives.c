/* Single-node collectives of tests/data/measured/collectives.csv (1 MB and more) against the engine's, on the
 * catalogue's servers: geometric mean error by hardware and by size.
 *     bench_collectives CATALOGUE_DIR COLLECTIVES.csv */
#include "cs/base/file.h"
#include "cs/engine/engine.h"
#include "cs/platforms/topology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELDS 10
#define PLATEAU_BYTES 1073741824.0 /* a "plateau" row: large */
#define LEAST_BYTES 1048576.0
#define SIZES 16

/* Which server stands for which measured machine; the texts are the file's. */
static const struct {
    const char *hardware, *server;
} machines[] = {
    {"A100 SXM4 (NVLink3), 1 node x8", "dgx-a100"},
    {"DGX A100-40GB", "dgx-a100-40"},
    {"A800 SXM4 (NVLink 400 GB/s)", "dgx-a800"},
    {"H200 SXM (NVLink4, NVLS on), 1 node x8", "dgx-h200"},
    {"H200 SXM (NVLink4), 1 node x8", "dgx-h200"},
    {"H200 SXM (NVLink4)", "dgx-h200"},
    {"B200 SXM (NVLink5)", "dgx-b200"},
    {"Ascend 910B (HCCS full mesh)", "atlas-800t-a2"},
};

struct bench {
    struct cs_catalogue *catalogue;
    double log_sum[CS_COUNT(machines)];
    int32_t n[CS_COUNT(machines)];
    double size_sum[SIZES];
    int32_t size_n[SIZES];
};

/* One line into fields, in place. @return how many. */
static int32_t split(char *line, char *fields[FIELDS])
{
    int32_t n = 0;
    char *p = line;
    while (n < FIELDS) {
        bool quoted = *p == '"';
        p += quoted;
        fields[n++] = p;
        p += strcspn(p, quoted ? "\"" : ",");
        if (quoted && *p) {
            *p++ = '\0';
        }
        if (*p != ',') {
            break;
        }
        *p++ = '\0';
    }
    return n;
}

static cs_status time_of(const struct bench *bench, const char *server_name, enum cs_coll coll, double bytes,
                         int32_t n_devices, double *time_s, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_topology_spec spec;
    struct cs_platform platform = {0};
    struct cs_routes *routes = NULL;
    struct cs_outfile file = {0};
    int32_t members[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    char path[64];
    enum cs_algorithm used;
    (void)snprintf(path, sizeof path, "/tmp/bench_collectives-%ld.xml", (long)getpid());
    cs_topology_spec_init(&spec, cs_catalogue_server(bench->catalogue, server_name));
    spec.n_nodes = 1;
    CS_TRY(cs_outfile_open(&file, path, err));
    CS_TRY(cs_topology_write(&spec, bench->catalogue, file.stream, CS_NOLOC, err));
    CS_TRY(cs_outfile_commit(&file, err));
    CS_TRY(cs_platform_load(&platform, path, bench->catalogue, err));
    routes = cs_routes_new(&platform, NULL);
    CS_TRY(cs_engine_collective(routes, coll, bytes, members, n_devices, CS_ALGO_AUTO, CS_VIEW_FLOW, time_s,
                                &used, err));
out:
    cs_outfile_release(&file);
    cs_routes_free(routes);
    cs_platform_release(&platform);
    (void)unlink(path);
    return st;
}

static cs_status take_row(struct bench *bench, char *fields[FIELDS], struct cs_err *err)
{
    static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
    static const enum cs_coll colls[] = {CS_COLL_ALL_REDUCE, CS_COLL_ALL_GATHER, CS_COLL_REDUCE_SCATTER,
                                         CS_COLL_ALL_TO_ALL};
    cs_status st = CS_OK;
    int32_t machine = 0;
    int32_t kind = 0;
    while (machine < CS_COUNT(machines) && strcmp(fields[0], machines[machine].hardware) != 0) {
        machine++;
    }
    while (kind < CS_COUNT(kinds) && strcmp(fields[3], kinds[kind]) != 0) {
        kind++;
    }
    double bus = strtod(fields[6], NULL) * 1e9;
    double bytes = strcmp(fields[4], "plateau") == 0 || !*fields[4] ? PLATEAU_BYTES : strtod(fields[4], NULL);
    int32_t n_devices = (int32_t)strtol(fields[1], NULL, 10);
    if (machine == CS_COUNT(machines) || kind == CS_COUNT(kinds) || strcmp(fields[2], "1") != 0 ||
        !(bus > 0) || bytes < LEAST_BYTES || n_devices < 2 || n_devices > 8) {
        goto out;
    }
    double time_s = 0;
    CS_TRY(time_of(bench, machines[machine].server, colls[kind], bytes, n_devices, &time_s, err));
    double predicted = cs_coll_bus_bytes_per_s(colls[kind], bytes, n_devices, time_s);
    double off = fabs(log(predicted / bus));
    int32_t size = (int32_t)floor(log2(bytes / LEAST_BYTES) + 0.5);
    size = size < SIZES ? size : SIZES - 1;
    bench->log_sum[machine] += off;
    bench->n[machine]++;
    bench->size_sum[size] += off;
    bench->size_n[size]++;
    (void)printf("%-40.40s %-14s %d %12.0f bytes  measured %7.1f  engine %7.1f GB/s  %+6.1f %%\n", fields[0],
                 fields[3], (int)n_devices, bytes, bus / 1e9, predicted / 1e9, 100 * (predicted / bus - 1));
out:
    return st;
}

static void print_sums(const struct bench *bench)
{
    double sum = 0;
    int32_t n = 0;
    (void)printf("\nmean |log error|, as a percentage\n");
    for (int32_t i = 0; i < CS_COUNT(machines); i++) {
        if (bench->n[i]) {
            (void)printf("  %-40s %-14s %3d rows %5.1f %%\n", machines[i].hardware, machines[i].server,
                         (int)bench->n[i], 100 * (exp(bench->log_sum[i] / bench->n[i]) - 1));
            sum += bench->log_sum[i];
            n += bench->n[i];
        }
    }
    for (int32_t i = 0; i < SIZES; i++) {
        if (bench->size_n[i]) {
            (void)printf("  %6.0f MiB %3d rows %5.1f %%\n", exp2(i), (int)bench->size_n[i],
                         100 * (exp(bench->size_sum[i] / bench->size_n[i]) - 1));
        }
    }
    (void)printf("all: %d rows, %.1f %%\n", (int)n, 100 * (exp(sum / (n ? n : 1)) - 1));
}

int main(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct bench bench = {0};
    char *text = NULL;
    size_t bytes = 0;
    char *save = NULL;
    if (argc != 3) {
        (void)fprintf(stderr, "usage: bench_collectives CATALOGUE_DIR COLLECTIVES.csv\n");
        return 2;
    }
    CS_TRY(cs_catalogue_load(argv[1], &bench.catalogue, &err));
    CS_TRY(cs_file_read(argv[2], 1 << 24, &text, &bytes, &err));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *fields[FIELDS] = {0};
        if (split(line, fields) >= 7) {
            CS_TRY(take_row(&bench, fields, &err));
        }
    }
    print_sums(&bench);
out:
    if (st != CS_OK) {
        (void)fprintf(stderr, "%s:%d: %s\n", err.file, err.line, err.text);
    }
    cs_free(text);
    cs_catalogue_free(bench.catalogue);
    return st == CS_OK ? 0 : 1;
}
