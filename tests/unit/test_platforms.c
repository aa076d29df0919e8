/* The platforms room: catalogue, operator times, topologies' closed forms. */
#include "cs_test.h"

#include "cs/base/file.h"
#include "cs/platforms/platform.h"
#include "cs/platforms/topology.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define CATALOGUE CS_TEST_SOURCE_DIR "/platforms/catalogue"
#define assert_near(a, b, tol) ck_assert_double_eq_tol((a), (b), (tol) * (fabs(b) + 1e-300))

static struct cs_catalogue *catalogue;

static void setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_catalogue_load(CATALOGUE, &catalogue, &err), &err);
}

static void teardown(void)
{
    cs_catalogue_free(catalogue);
    catalogue = NULL;
}

/* Catalogue */

START_TEST(test_catalogue_lists)
{
    static const char *const chips[] = {"910b2",   "910b3", "910b4", "910a", "910c-die", "a100-40",
                                        "a100-80", "a800",  "h100",  "h800", "h20",      "v100"};
    static const char *const servers[] = {"910b-10to1",     "atlas-800t-a2", "atlas-900-a2", "atlas-800-a3",
                                          "cloudmatrix384", "dgx-a100",      "dgx-h100",     "pcie-8gpu"};
    for (int32_t i = 0; i < CS_COUNT(chips); i++) {
        ck_assert_msg(cs_catalogue_chip(catalogue, chips[i]) != NULL, "chip %s", chips[i]);
    }
    for (int32_t i = 0; i < CS_COUNT(servers); i++) {
        ck_assert_msg(cs_catalogue_server(catalogue, servers[i]) != NULL, "server %s", servers[i]);
    }
    ck_assert_ptr_null(cs_catalogue_chip(catalogue, "910b9"));
    ck_assert_ptr_null(cs_catalogue_server(catalogue, ""));
    ck_assert_ptr_null(cs_catalogue_source(catalogue, "910b2", "nothing"));
    ck_assert_ptr_null(cs_catalogue_source(catalogue, "910b9", "memory"));
}
END_TEST

START_TEST(test_catalogue_figures)
{
    const struct cs_chip *chip = cs_catalogue_chip(catalogue, "910b2");
    assert_near(chip->peak_flop_per_s[CS_DTYPE_BF16], 353.9e12, 1e-12);
    assert_near(chip->memory_bytes, 64.0 * 1073741824.0, 1e-12);
    assert_near(chip->memory_bytes_per_s, 1.6e12, 1e-12);
    assert_near(cs_catalogue_chip(catalogue, "910b3")->peak_flop_per_s[CS_DTYPE_BF16], 294.9e12, 1e-12);
    ck_assert(!cs_chip_has_dtype(chip, CS_DTYPE_FP8));
    ck_assert(cs_chip_has_dtype(cs_catalogue_chip(catalogue, "h100"), CS_DTYPE_FP8));
    ck_assert(!cs_chip_has_dtype(cs_catalogue_chip(catalogue, "910a"), CS_DTYPE_BF16));
    const struct cs_server *server = cs_catalogue_server(catalogue, "910b-10to1");
    assert_near(server->intra_bytes_per_s / server->nic_bytes_per_s, 10.0, 1e-12);
    ck_assert(!server->intra_switched);
    ck_assert_int_eq(server->devices, 8);
    ck_assert(cs_catalogue_server(catalogue, "dgx-a100")->intra_switched);
    const char *const *names = cs_catalogue_chip_names(catalogue);
    for (int32_t i = 0; names[i]; i++) {
        for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
            const char *source = cs_catalogue_source(catalogue, names[i], cs_chip_figure_key(f));
            ck_assert_msg(source && strlen(source) > 3, "%s %s", names[i], cs_chip_figure_key(f));
            bool null = isnan(cs_chip_figure(cs_catalogue_chip(catalogue, names[i]), f));
            ck_assert_msg(null == (strncmp(source, "not found", 9) == 0), "%s %s: %s", names[i],
                          cs_chip_figure_key(f), source);
        }
    }
}
END_TEST

/* Write a file into a fresh folder and load that folder as a catalogue. */
static cs_status load_text(const char *text, struct cs_catalogue **loaded, struct cs_err *err)
{
    char dir[] = "catalogue_XXXXXX";
    char path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/x.yaml", dir);
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    fputs(text, stream);
    fclose(stream);
    cs_status st = cs_catalogue_load(dir, loaded, err);
    unlink(path);
    rmdir(dir);
    return st;
}

START_TEST(test_catalogue_bad)
{
    static const struct {
        const char *text;
        int line;
        const char *part;
    } bad[] = {
        {"", 1, "empty"},
        {"chips: [1]\n", 1, "chips"},
        {"chip: {}\n", 1, "did you mean 'chips'"},
        {"chips:\n  x:\n    title: t\n", 3, "figure 'memory' is missing"},
        {"chips:\n  x:\n    memory: 64GiB\n", 3, "needs its source"},
        {"chips:\n  x:\n    memory: {value: 64GiB}\n", 3, "no source"},
        {"chips:\n  x:\n    memory: {value: 64GiB, source: \" \"}\n", 3, "no source"},
        {"chips:\n  x:\n    memory: {value: 64, source: s}\n", 3, "memory"},
        {"chips:\n  x:\n    memory: {value: null, source: not found}\n", 3, "must have a number"},
        {"chips:\n  x:\n    memory: {value: 1B, source: s}\n", 3, "expected"},
        {"chips:\n  x:\n    memory: {value: 64GiB, src: s}\n", 3, "src"},
        {"chips:\n  x:\n    memmory: {value: 64GiB, source: s}\n", 3, "did you mean 'memory'"},
        {"chips:\n  x:\n    peak:\n      bf61: {value: 1Tflop/s, source: s}\n", 4, "did you mean 'bf16'"},
        {"chips:\n  x:\n    peak: 4\n", 3, "peak"},
        {"servers:\n  s:\n    intra: ring\n", 3, "ring"},
        {"servers:\n  s: {intra: mesh}\n", 2, "chip"},
        {"servers:\n  s:\n    chip: nope\n    intra: mesh\n    devices: {value: 8, source: s}\n"
         "    intra_bandwidth: {value: 1GB/s, source: s}\n    intra_latency: {value: 1us, source: s}\n"
         "    nic_bandwidth: {value: 1GB/s, source: s}\n    nic_latency: {value: 1us, source: s}\n",
         3, "unknown chip 'nope'"},
        {"servers:\n  s:\n    chip: nope\n    intra: mesh\n    devices: {value: 2.5, source: s}\n"
         "    intra_bandwidth: {value: 1GB/s, source: s}\n    intra_latency: {value: 1us, source: s}\n"
         "    nic_bandwidth: {value: 1GB/s, source: s}\n    nic_latency: {value: 1us, source: s}\n",
         3, "whole number"},
    };
    for (int32_t i = 0; i < CS_COUNT(bad); i++) {
        struct cs_err err = {0};
        struct cs_catalogue *loaded = NULL;
        cs_status st = load_text(bad[i].text, &loaded, &err);
        ck_assert_ptr_null(loaded);
        ck_assert_fails(st, &err, CS_E_INPUT, bad[i].line, bad[i].part);
    }
    struct cs_err err = {0};
    struct cs_catalogue *loaded = NULL;
    ck_assert_fails(cs_catalogue_load("no-such-folder", &loaded, &err), &err, CS_E_INPUT, 0, "cannot open");
}
END_TEST

/* Every chip, written and read again, is the same. */
START_TEST(test_catalogue_write)
{
    const char *const *names = cs_catalogue_chip_names(catalogue);
    for (int32_t i = 0; names[i]; i++) {
        const struct cs_chip *chip = cs_catalogue_chip(catalogue, names[i]);
        const char *sources[64];
        char *text = NULL;
        size_t bytes = 0;
        FILE *stream = open_memstream(&text, &bytes);
        ck_assert_int_lt(cs_chip_n_figures(), 64);
        for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
            sources[f] = cs_catalogue_source(catalogue, names[i], cs_chip_figure_key(f));
        }
        cs_chip_write(chip, sources, stream);
        fclose(stream);
        struct cs_err err = {0};
        struct cs_catalogue *loaded = NULL;
        ck_assert_ok(load_text(text, &loaded, &err), &err);
        const struct cs_chip *again = cs_catalogue_chip(loaded, names[i]);
        ck_assert_ptr_nonnull(again);
        ck_assert_str_eq(again->title, chip->title);
        for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
            double a = cs_chip_figure(chip, f);
            double b = cs_chip_figure(again, f);
            ck_assert_msg(isnan(a) ? isnan(b) : fabs(a - b) <= 1e-15 * fabs(a), "%s %s", names[i],
                          cs_chip_figure_key(f));
            ck_assert_str_eq(cs_catalogue_source(loaded, names[i], cs_chip_figure_key(f)), sources[f]);
        }
        cs_catalogue_free(loaded);
        free(text);
    }
}
END_TEST

START_TEST(test_chip_figures)
{
    struct cs_chip chip = *cs_catalogue_chip(catalogue, "910b2");
    ck_assert_int_eq(cs_chip_figure_index("efficiency.nothing"), -1);
    int32_t f = cs_chip_figure_index("efficiency.matmul");
    ck_assert_int_ge(f, 0);
    cs_chip_set_figure(&chip, f, 0.5);
    assert_near(chip.opkind_peak_frac[CS_OPKIND_MATMUL], 0.5, 1e-15);
    assert_near(cs_chip_figure(&chip, cs_chip_figure_index("reserved")), chip.reserved_bytes, 1e-15);
    ck_assert_int_eq(cs_dtype_bytes(CS_DTYPE_FP32), 4);
    ck_assert_int_eq(cs_dtype_bytes(CS_DTYPE_BF16), 2);
    ck_assert_int_eq(cs_dtype_bytes(CS_DTYPE_FP8), 1);
}
END_TEST

/* Operator times */

static struct cs_op_cost matmul(int64_t m, int64_t n, int64_t k)
{
    double dm = (double)m;
    double dn = (double)n;
    double dk = (double)k;
    return (struct cs_op_cost){.kind = CS_OPKIND_MATMUL,
                               .dtype = CS_DTYPE_BF16,
                               .flop = 2.0 * dm * dn * dk,
                               .bytes = 2.0 * (dm * dk + dk * dn + dm * dn),
                               .m = m,
                               .n = n,
                               .k = k,
                               .batch = 1,
                               .n_kernels = 1};
}

START_TEST(test_wave_frac)
{
    /* A tile of 64 x 64 loads 8 (1/64 + 1/64) = 0.25 of its products, one of 128 x 256 8 (1/128 + 1/256). */
    const double small = 1.09375 / 1.25;
    const double middle = 1.09375 / 1.125;
    assert_near(cs_chip_wave_frac(128, 256, 1, 24.0), small * 8.0 / 24.0, 1e-12); /* eight smallest tiles */
    assert_near(cs_chip_wave_frac(128, 256, 24, 24.0), 1.0, 1e-12);
    /* 200 smallest tiles, 9 waves; 50 of 128 x 128 would take 3 waves, 0.675. */
    assert_near(cs_chip_wave_frac(128, 256, 25, 24.0), small * 200.0 / 216.0, 1e-12);
    assert_near(cs_chip_wave_frac(128, 128, 24, 24.0), middle, 1e-12);
    assert_near(cs_chip_wave_frac(256, 128, 24, 24.0), 1.0, 1e-12);
    assert_near(cs_chip_wave_frac(1, 1, 1, 1.0), small / 4096.0, 1e-12);
    ck_assert_double_gt(cs_chip_wave_frac(32768, 32768, 1, 24.0), 0.99);
    for (int64_t m = 1; m < 5000; m += 37) {
        double frac = cs_chip_wave_frac(m, 4096, 1, 20.0);
        ck_assert(frac > 0.0 && frac <= 1.0);
    }
}
END_TEST

/* 910B2 with round figures, whatever calibration finds. */
static struct cs_chip plain_chip(void)
{
    struct cs_chip chip = *cs_catalogue_chip(catalogue, "910b2");
    chip.opkind_peak_frac[CS_OPKIND_MATMUL] = 0.86;
    chip.opkind_peak_frac[CS_OPKIND_ELEMENTWISE] = 0.70;
    chip.opkind_memory_frac[CS_OPKIND_MATMUL] = chip.opkind_memory_frac[CS_OPKIND_ELEMENTWISE] = 0.80;
    chip.matmul_half_depth = 0.0;
    chip.matmul_unaligned_frac = 1.0;
    chip.kernel_overhead_s = 3e-6;
    chip.host_launch_s = 0.0;
    return chip;
}

START_TEST(test_op_time_closed_form)
{
    struct cs_chip plain = plain_chip();
    const struct cs_chip *chip = &plain;
    struct cs_op_cost cost = matmul(6144, 8192, 8192);
    double arithmetic_s = cost.flop / (353.9e12 * 0.86) / cs_chip_wave_frac(6144, 8192, 1, 24.0);
    assert_near(cs_chip_op_time_s(chip, &cost), arithmetic_s + 3e-6, 1e-12);
    cost.m = 0; /* no shape: no tiles */
    assert_near(cs_chip_op_time_s(chip, &cost), cost.flop / (353.9e12 * 0.86) + 3e-6, 1e-12);
    struct cs_op_cost vector = {
        .kind = CS_OPKIND_ELEMENTWISE, .dtype = CS_DTYPE_BF16, .flop = 1e6, .bytes = 1e9, .n_kernels = 4};
    assert_near(cs_chip_op_time_s(chip, &vector), 1e9 / (1.6e12 * 0.80) + 4 * 3e-6, 1e-12);
    vector.flop = 1e12; /* now the vector units are the roof */
    assert_near(cs_chip_op_time_s(chip, &vector), 1e12 / (22e12 * 0.70) + 4 * 3e-6, 1e-12);
    vector.dtype = CS_DTYPE_FP8; /* no fp8 there: fp32 */
    assert_near(cs_chip_op_time_s(chip, &vector), 1e12 / (11e12 * 0.70) + 4 * 3e-6, 1e-12);
    struct cs_op_cost nothing = {.kind = CS_OPKIND_NORM, .dtype = CS_DTYPE_FP32, .n_kernels = 1};
    assert_near(cs_chip_op_time_s(chip, &nothing), 3e-6, 1e-12);
    cost.dtype = CS_DTYPE_FP8;
    ck_assert(isnan(cs_chip_op_time_s(chip, &cost)));
    cost.dtype = CS_DTYPE_BF16;
    ck_assert(isnan(cs_chip_op_time_s(cs_catalogue_chip(catalogue, "910a"), &cost)));
}
END_TEST

START_TEST(test_op_time_shapes)
{
    struct cs_chip chip = plain_chip();
    struct cs_op_cost cost = matmul(6144, 8192, 8192);
    double plain_s = cs_chip_op_time_s(&chip, &cost) - 3e-6;
    chip.matmul_half_depth = 8192.0; /* as deep as the product: twice the time */
    assert_near(cs_chip_op_time_s(&chip, &cost), 2.0 * plain_s + 3e-6, 1e-12);
    chip.matmul_half_depth = 0.0;
    chip.matmul_unaligned_frac = 5.0; /* 8192 is a multiple of 8 */
    assert_near(cs_chip_op_time_s(&chip, &cost), plain_s + 3e-6, 1e-12);
    cost = matmul(6144, 8192, 108);
    cost.bytes = 0.0; /* arithmetic alone */
    chip.matmul_unaligned_frac = 1.0;
    plain_s = cs_chip_op_time_s(&chip, &cost) - 3e-6;
    chip.matmul_unaligned_frac = 5.0; /* 108 is none */
    assert_near(cs_chip_op_time_s(&chip, &cost), 5.0 * plain_s + 3e-6, 1e-12);
    struct cs_op_cost small = {
        .kind = CS_OPKIND_NORM, .dtype = CS_DTYPE_BF16, .bytes = 1.6e6, .n_kernels = 2};
    chip.host_launch_s = 50e-6; /* two launches last longer than 1 us of memory traffic */
    assert_near(cs_chip_op_time_s(&chip, &small), 100e-6, 1e-12);
    *cs_chip_figure_place(&chip, cs_chip_figure_index("host_launch")) = 0.0;
    ck_assert_double_lt(cs_chip_op_time_s(&chip, &small), 10e-6);
}
END_TEST

/* One tile of 128 x 256 a core on one core of four, 8192 deep: shared among four cores, each a quarter as
 * deep. */
START_TEST(test_op_time_shares_the_depth)
{
    struct cs_chip chip = plain_chip();
    struct cs_op_cost cost = matmul(128, 256, 8192);
    cost.bytes = 0.0;
    chip.n_cores = 1.0;
    double one_core_s = cs_chip_op_time_s(&chip, &cost) - 3e-6;
    chip.n_cores = 4.0; /* the roof is of all cores: a quarter of it is one core */
    double shared_s = cs_chip_op_time_s(&chip, &cost) - 3e-6;
    assert_near(shared_s, one_core_s, 1e-3 * one_core_s);
    chip.matmul_half_depth = 64.0;
    /* 64 / 8192 more in one piece, four times that in four: better than three idle cores. */
    double deep_s = cs_chip_op_time_s(&chip, &cost) - 3e-6;
    assert_near(deep_s, one_core_s * (1.0 + 4 * 64.0 / 8192.0), 1e-3 * one_core_s);
    chip.n_cores = 1.0; /* nobody to share with */
    assert_near(cs_chip_op_time_s(&chip, &cost) - 3e-6, one_core_s * (1.0 + 64.0 / 8192.0),
                1e-3 * one_core_s);
}
END_TEST

START_TEST(test_op_time_blocking_launches)
{
    struct cs_chip chip = plain_chip();
    struct cs_op_cost cost = matmul(6144, 8192, 8192);
    double device_s = cs_chip_op_time_s(&chip, &cost);
    chip.host_launch_s = 50e-6;
    assert_near(cs_chip_op_time_s(&chip, &cost), device_s, 1e-12); /* hidden behind the kernel before */
    chip.launches_block = true;
    assert_near(cs_chip_op_time_s(&chip, &cost), device_s + 50e-6, 1e-12);
}
END_TEST

START_TEST(test_op_time_monotonic)
{
    static const int64_t sizes[] = {1, 16, 100, 128, 129, 255, 256, 257, 512, 1000, 1024, 3000, 8192, 20000};
    const struct cs_chip *chip = cs_catalogue_chip(catalogue, "910b2");
    for (int32_t i = 0; i < CS_COUNT(sizes); i++) {
        for (int32_t j = 0; j < CS_COUNT(sizes); j++) {
            double last[3] = {0.0, 0.0, 0.0};
            for (int32_t k = 0; k < CS_COUNT(sizes); k++) {
                struct cs_op_cost costs[3] = {matmul(sizes[k], sizes[i], sizes[j]),
                                              matmul(sizes[i], sizes[k], sizes[j]),
                                              matmul(sizes[i], sizes[j], sizes[k])};
                for (int32_t d = 0; d < 3; d++) {
                    double time_s = cs_chip_op_time_s(chip, &costs[d]);
                    ck_assert(time_s >= last[d] * (1.0 - 1e-12));
                    ck_assert(time_s >= costs[d].flop / chip->peak_flop_per_s[CS_DTYPE_BF16]);
                    ck_assert(time_s >= costs[d].bytes / chip->memory_bytes_per_s);
                    last[d] = time_s;
                }
            }
        }
    }
}
END_TEST

/* Topologies */

static struct cs_topology_spec spec_of(const char *server, enum cs_topology topology, int32_t n_nodes)
{
    struct cs_topology_spec spec;
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, server));
    cs_topology_spec_use(&spec, topology);
    spec.n_nodes = n_nodes;
    return spec;
}

static void assert_route(const struct cs_topology_spec *spec, int32_t a, int32_t b, double latency_s,
                         double bytes_per_s)
{
    double got_latency_s = -1.0;
    double got_bytes_per_s = -1.0;
    cs_topology_route(spec, a, b, &got_latency_s, &got_bytes_per_s);
    ck_assert_msg(fabs(got_latency_s - latency_s) < 1e-15, "%d-%d: latency %g, want %g", a, b, got_latency_s,
                  latency_s);
    assert_near(got_bytes_per_s, bytes_per_s, 1e-12);
    cs_topology_route(spec, b, a, &got_latency_s, &got_bytes_per_s);
    ck_assert(fabs(got_latency_s - latency_s) < 1e-15);
    assert_near(got_bytes_per_s, bytes_per_s, 1e-12);
}

START_TEST(test_routes_fat_tree)
{
    struct cs_topology_spec spec = spec_of("910b-10to1", CS_TOPOLOGY_FAT_TREE, 8);
    ck_assert_str_eq(spec.chip, "910b2");
    assert_route(&spec, 0, 7, 0.5e-6, 28e9);
    assert_route(&spec, 0, 8, 1.5e-6, 19.6e9);
    assert_route(&spec, 0, 63, 1.5e-6, 19.6e9); /* 64 NICs under one leaf */
    spec.n_nodes = 16;
    assert_route(&spec, 63, 64, 1.5e-6 + 2 * 0.5e-6, 19.6e9); /* leaf, spine, leaf */
    spec.oversubscription_frac = 128.0;
    assert_route(&spec, 63, 64, 2.5e-6, 9.8e9);
    assert_route(&spec, 0, 63, 1.5e-6, 19.6e9);
    spec.oversubscription_frac = 1.0;
    spec.levels = 3; /* one pod */
    assert_route(&spec, 0, 127, 2.5e-6, 19.6e9);
    spec.leaf_ports = 2; /* pods of 2 leaves: 4 NICs */
    spec.n_nodes = 2;
    assert_route(&spec, 7, 8, 1.5e-6 + 4 * 0.5e-6, 19.6e9);
    spec = spec_of("910b-10to1", CS_TOPOLOGY_FAT_TREE, 2048);
    assert_route(&spec, 0, 4095, 2.5e-6, 19.6e9);
    assert_route(&spec, 0, 4096, 3.5e-6, 19.6e9);
    spec = spec_of("dgx-a100", CS_TOPOLOGY_FAT_TREE, 2);
    assert_route(&spec, 0, 7, 5.604e-6, 227.4e9); /* a switch: one device gets all of it */
}
END_TEST

START_TEST(test_routes_other)
{
    struct cs_topology_spec spec = spec_of("910b-10to1", CS_TOPOLOGY_RAIL, 8);
    assert_route(&spec, 3, 8 + 3, 1.5e-6, 19.6e9); /* same rail */
    assert_route(&spec, 3, 8 + 4, 2.5e-6, 19.6e9); /* over the spine */
    spec.oversubscription_frac = 16.0;             /* 8 NICs a rail switch */
    assert_route(&spec, 3, 8 + 4, 2.5e-6, 9.8e9);
    spec = spec_of("910b-10to1", CS_TOPOLOGY_TORUS, 64); /* 4 x 4 x 4, 8 NICs on 6 links */
    assert_route(&spec, 0, 8, 2.0e-6, 19.6e9);
    assert_route(&spec, 0, 3 * 8, 2.0e-6, 19.6e9);            /* around */
    assert_route(&spec, 0, (2 + 8 + 32) * 8, 4.5e-6, 19.6e9); /* the far corner: 6 hops */
    spec.devices_per_node = 2;
    assert_route(&spec, 0, 2, 2.0e-6, 2 * 19.6e9 / 6.0);
    spec = spec_of("910b-10to1", CS_TOPOLOGY_DRAGONFLY, 8); /* 4 groups of 2 routers of 1 node */
    assert_route(&spec, 0, 8, 2.0e-6, 19.6e9);
    spec.dims[0] = 2;
    spec.dims[1] = 2;
    spec.dims[2] = 2;
    assert_route(&spec, 0, 15, 1.5e-6, 19.6e9);
    assert_route(&spec, 0, 32, 2.0e-6, 19.6e9); /* both ends at the gateway */
    assert_route(&spec, 16, 48, 3.0e-6, 19.6e9);
    spec = spec_of("cloudmatrix384", CS_TOPOLOGY_SUPERNODE, 48);
    assert_route(&spec, 0, 767, 5.5e-6, 117.6e9);
    spec = spec_of("910b-10to1", CS_TOPOLOGY_SUPERNODE, 48);
    assert_route(&spec, 0, 383, 1.5e-6, 196e9);
    assert_route(&spec, 0, 7, 0.5e-6, 196e9);
}
END_TEST

START_TEST(test_spec_bad)
{
    struct cs_loc loc = {.file = "study.yaml", .line = 7};
    struct cs_topology_spec good = spec_of("910b-10to1", CS_TOPOLOGY_FAT_TREE, 8);
    struct cs_err err = {0};
    ck_assert_ok(cs_topology_check(&good, loc, &err), &err);
#define BAD(change, code, part)                                                                              \
    do {                                                                                                     \
        struct cs_topology_spec spec = good;                                                                 \
        change;                                                                                              \
        err = (struct cs_err){0};                                                                            \
        ck_assert_fails(cs_topology_check(&spec, loc, &err), &err, code, 7, part);                           \
        ck_assert_str_eq(err.file, "study.yaml");                                                            \
    } while (0)
    BAD(spec.name = "", CS_E_INPUT, "needs a name");
    BAD(spec.name = "a\nb", CS_E_INPUT, "printable");
    BAD(spec.n_nodes = 0, CS_E_INPUT, "0 nodes");
    BAD(spec.n_nodes = 20000, CS_E_LIMIT, "160000 devices");
    BAD(spec.devices_per_node = 0, CS_E_INPUT, "devices a node");
    BAD(spec.devices_per_node = 65, CS_E_INPUT, "full mesh");
    BAD(spec.intra_bytes_per_s = 0.0, CS_E_INPUT, "intra-node bandwidth");
    BAD(spec.inter_bytes_per_s = NAN, CS_E_INPUT, "inter-node bandwidth");
    BAD(spec.inter_latency_s = -1.0, CS_E_INPUT, "inter-node latency");
    BAD(spec.hop_latency_s = INFINITY, CS_E_INPUT, "latency of a hop");
    BAD(spec.oversubscription_frac = 0.5, CS_E_INPUT, "oversubscription");
    BAD(spec.leaf_ports = 1, CS_E_INPUT, "down ports");
    BAD(spec.levels = 4, CS_E_INPUT, "4 levels");
    BAD(spec.leaf_ports = 2; spec.levels = 2, CS_E_INPUT, "3 levels");
    BAD(spec.leaf_ports = 2, CS_E_INPUT, "more ports");
    BAD(spec.topology = CS_TOPOLOGY_TORUS; spec.dims[0] = 3, CS_E_INPUT, "3 nodes, but there are 8");
    BAD(spec.topology = CS_TOPOLOGY_TORUS; spec.dims[1] = 8, CS_E_INPUT, "size 1");
    BAD(spec.topology = CS_TOPOLOGY_DRAGONFLY; spec.dims[0] = 8, CS_E_INPUT, "size 2");
    BAD(spec.topology = CS_TOPOLOGY_SUPERNODE; spec.n_nodes = 97, CS_E_INPUT, "at most 768");
    BAD(spec.topology = CS_N_TOPOLOGIES, CS_E_INPUT, "no topology");
#undef BAD
    good.chip = "nope";
    FILE *sink = fopen("/dev/null", "w");
    ck_assert_fails(cs_topology_write(&good, catalogue, sink, loc, &err), &err, CS_E_INPUT, 7, "nope");
    fclose(sink);
    good.chip = "910b2";
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        ck_assert_int_eq(cs_topology_write(&good, catalogue, full, loc, &err), CS_E_IO);
        fclose(full);
    }
}
END_TEST

START_TEST(test_spec_name_is_escaped)
{
    struct cs_topology_spec spec = spec_of("910b-10to1", CS_TOPOLOGY_FAT_TREE, 1);
    spec.name = "a \"b\" <c> & 'd'";
    struct cs_err err = {0};
    FILE *stream = fopen("escaped.xml", "w");
    ck_assert_ok(cs_topology_write(&spec, catalogue, stream, CS_NOLOC, &err), &err);
    fclose(stream);
    struct cs_platform platform = {0};
    ck_assert_ok(cs_platform_load(&platform, "escaped.xml", catalogue, &err), &err);
    ck_assert_str_eq(platform.name, spec.name);
    cs_platform_release(&platform);
    unlink("escaped.xml");
}
END_TEST

/* A hand-written file carries no description to vary, and an edited one not its own. */
START_TEST(test_no_description)
{
    struct cs_err err = {0};
    struct cs_platform platform = {0};
    struct cs_topology_spec spec = {0};
    ck_assert_ok(cs_platform_load(&platform, CS_TEST_SOURCE_DIR "/tests/data/good/platform/mixed.xml",
                                  catalogue, &err),
                 &err);
    ck_assert_fails(cs_topology_read(&spec, &platform, catalogue, CS_NOLOC, &err), &err, CS_E_INPUT, 0,
                    "does not carry the description");
    cs_platform_release(&platform);
    ck_assert_ok(cs_platform_load(&platform, CS_TEST_SOURCE_DIR "/platforms/910b-8x8.xml", catalogue, &err),
                 &err);
    platform.content_hash++;
    ck_assert_fails(cs_topology_read(&spec, &platform, catalogue, CS_NOLOC, &err), &err, CS_E_INPUT, 0,
                    "is not what its description gives");
    cs_platform_release(&platform);
}
END_TEST

/* The shipped files are what the writer makes. */
START_TEST(test_shipped_files)
{
    static const char *const files[][2] = {{"910b-8x8", "910b-10to1"}, {"atlas-800t-a2-8n", "atlas-800t-a2"}};
    for (int32_t i = 0; i < CS_COUNT(files); i++) {
        struct cs_err err = {0};
        struct cs_topology_spec spec = spec_of(files[i][1], CS_TOPOLOGY_FAT_TREE, 8);
        spec.name = files[i][0];
        char path[512];
        snprintf(path, sizeof path, "%s/platforms/%s.xml", CS_TEST_SOURCE_DIR, files[i][0]);
        char *shipped = NULL;
        size_t shipped_bytes = 0;
        ck_assert_ok(cs_file_read(path, 1 << 20, &shipped, &shipped_bytes, &err), &err);
        char *written = NULL;
        size_t written_bytes = 0;
        FILE *stream = open_memstream(&written, &written_bytes);
        ck_assert_ok(cs_topology_write(&spec, catalogue, stream, CS_NOLOC, &err), &err);
        fclose(stream);
        ck_assert_msg(written_bytes == shipped_bytes && memcmp(written, shipped, shipped_bytes) == 0,
                      "%s differs from what the writer makes", path);
        struct cs_platform platform = {0};
        ck_assert_ok(cs_platform_load(&platform, path, catalogue, &err), &err);
        ck_assert_str_eq(platform.name, files[i][0]);
        struct cs_topology_spec back = {0}; /* and can be turned into their description again */
        ck_assert_ok(cs_topology_read(&back, &platform, catalogue, CS_NOLOC, &err), &err);
        ck_assert_int_eq(back.n_nodes, 8);
        ck_assert_double_eq(back.hop_latency_s, spec.hop_latency_s);
        ck_assert_str_eq(platform.topology, "fat-tree");
        ck_assert_str_eq(platform.intra, "mesh");
        ck_assert_int_eq(platform.n_devices, 64);
        ck_assert_int_eq(platform.n_nodes, 8);
        ck_assert_int_eq(platform.devices_per_node, 8);
        ck_assert(platform.uniform);
        ck_assert_int_eq(platform.n_links, 8 * 28);
        ck_assert_str_eq(platform.devices[17].host, "npu17");
        ck_assert_str_eq(platform.devices[17].nic_host, "nic17");
        ck_assert_int_eq(platform.devices[17].node, 2);
        ck_assert_int_eq(platform.devices[17].index, 1);
        ck_assert_str_eq(cs_platform_endpoint(&platform, 17, 16), "npu17");
        ck_assert_str_eq(cs_platform_endpoint(&platform, 17, 15), "nic17");
        cs_platform_release(&platform);
        cs_free(shipped);
        free(written);
    }
}
END_TEST

static Suite *platforms_suite(void)
{
    Suite *suite = suite_create("platforms");
    TCase *tcase = tcase_create("catalogue");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_catalogue_lists);
    tcase_add_test(tcase, test_catalogue_figures);
    tcase_add_test(tcase, test_catalogue_bad);
    tcase_add_test(tcase, test_catalogue_write);
    tcase_add_test(tcase, test_chip_figures);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("operators");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_wave_frac);
    tcase_add_test(tcase, test_op_time_closed_form);
    tcase_add_test(tcase, test_op_time_shapes);
    tcase_add_test(tcase, test_op_time_shares_the_depth);
    tcase_add_test(tcase, test_op_time_blocking_launches);
    tcase_add_test(tcase, test_op_time_monotonic);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("topology");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_routes_fat_tree);
    tcase_add_test(tcase, test_routes_other);
    tcase_add_test(tcase, test_spec_bad);
    tcase_add_test(tcase, test_spec_name_is_escaped);
    tcase_add_test(tcase, test_shipped_files);
    tcase_add_test(tcase, test_no_description);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(platforms_suite)
