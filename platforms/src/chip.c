/* Figures of a chip and the time of one operator. */
#include "cs/platforms/chip.h"

#include "catalogue_priv.h"
#include "cs/base/text.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const char *const cs_dtype_names[] = {"fp32", "fp16", "bf16", "fp8", NULL};

const char *const cs_opkind_names[] = {"matmul",         "batch-matmul", "grouped-matmul", "flash-forward",
                                       "flash-backward", "conv",         "softmax",        "norm",
                                       "elementwise",    "gather",       "optimizer",      NULL};

int64_t cs_dtype_bytes(enum cs_dtype dtype)
{
    static const int64_t bytes[CS_N_DTYPES] = {4, 2, 2, 1};
    CS_ASSERT(dtype >= 0 && dtype < CS_N_DTYPES);
    return bytes[dtype];
}

/* The one table of chip figures. */
#define CHIP(key, unit, field, required, min, max)                                                           \
    {                                                                                                        \
        key, unit, offsetof(struct cs_chip, field), required, min, max                                       \
    }
#define PER_DTYPE(prefix, field)                                                                             \
    CHIP(prefix ".fp32", CS_UNIT_FLOP_PER_S, field[CS_DTYPE_FP32], false, 1e6, 1e18),                        \
        CHIP(prefix ".fp16", CS_UNIT_FLOP_PER_S, field[CS_DTYPE_FP16], false, 1e6, 1e18),                    \
        CHIP(prefix ".bf16", CS_UNIT_FLOP_PER_S, field[CS_DTYPE_BF16], false, 1e6, 1e18),                    \
        CHIP(prefix ".fp8", CS_UNIT_FLOP_PER_S, field[CS_DTYPE_FP8], false, 1e6, 1e18)
#define PER_KIND(prefix, field)                                                                              \
    CHIP(prefix ".matmul", CS_UNIT_FRACTION, field[CS_OPKIND_MATMUL], true, 1e-3, 1.0),                      \
        CHIP(prefix ".batch-matmul", CS_UNIT_FRACTION, field[CS_OPKIND_BATCH_MATMUL], true, 1e-3, 1.0),      \
        CHIP(prefix ".grouped-matmul", CS_UNIT_FRACTION, field[CS_OPKIND_GROUPED_MATMUL], true, 1e-3, 1.0),  \
        CHIP(prefix ".flash-forward", CS_UNIT_FRACTION, field[CS_OPKIND_FLASH_FORWARD], true, 1e-3, 1.0),    \
        CHIP(prefix ".flash-backward", CS_UNIT_FRACTION, field[CS_OPKIND_FLASH_BACKWARD], true, 1e-3, 1.0),  \
        CHIP(prefix ".conv", CS_UNIT_FRACTION, field[CS_OPKIND_CONV], true, 1e-3, 1.0),                      \
        CHIP(prefix ".softmax", CS_UNIT_FRACTION, field[CS_OPKIND_SOFTMAX], true, 1e-3, 1.0),                \
        CHIP(prefix ".norm", CS_UNIT_FRACTION, field[CS_OPKIND_NORM], true, 1e-3, 1.0),                      \
        CHIP(prefix ".elementwise", CS_UNIT_FRACTION, field[CS_OPKIND_ELEMENTWISE], true, 1e-3, 1.0),        \
        CHIP(prefix ".gather", CS_UNIT_FRACTION, field[CS_OPKIND_GATHER], true, 1e-3, 1.0),                  \
        CHIP(prefix ".optimizer", CS_UNIT_FRACTION, field[CS_OPKIND_OPTIMIZER], true, 1e-3, 1.0)

const struct cs_figure cs__chip_figures[] = {
    CHIP("memory", CS_UNIT_BYTES, memory_bytes, true, 1048576.0, 1e15),
    CHIP("memory_bandwidth", CS_UNIT_BYTES_PER_S, memory_bytes_per_s, true, 1e6, 1e15),
    PER_DTYPE("peak", peak_flop_per_s),
    PER_DTYPE("vector", vector_flop_per_s),
    CHIP("cores", CS_UNIT_NONE, n_cores, true, 1.0, 1e6),
    PER_KIND("efficiency", opkind_peak_frac),
    PER_KIND("memory_efficiency", opkind_memory_frac),
    CHIP("matmul_half_depth", CS_UNIT_NONE, matmul_half_depth, true, 0.0, 1e6),
    CHIP("matmul_unaligned", CS_UNIT_FRACTION, matmul_unaligned_frac, true, 1.0, 1e3),
    CHIP("kernel_overhead", CS_UNIT_SECONDS, kernel_overhead_s, true, 0.0, 1.0),
    CHIP("host_launch", CS_UNIT_SECONDS, host_launch_s, true, 0.0, 1.0),
    CHIP("collective_overhead", CS_UNIT_SECONDS, collective_overhead_s, true, 0.0, 1.0),
    CHIP("reserved", CS_UNIT_BYTES, reserved_bytes, true, 0.0, 1e15),
    CHIP("max_power", CS_UNIT_WATT, max_power_w, false, 1.0, 1e6),
    CHIP("host_bandwidth", CS_UNIT_BYTES_PER_S, host_bytes_per_s, false, 1e6, 1e15),
};
_Static_assert(sizeof cs__chip_figures / sizeof cs__chip_figures[0] == CS__N_CHIP_FIGURES,
               "CS__N_CHIP_FIGURES counts the table");

int32_t cs_chip_n_figures(void)
{
    return CS__N_CHIP_FIGURES;
}

const char *cs_chip_figure_key(int32_t figure)
{
    CS_ASSERT(figure >= 0 && figure < CS__N_CHIP_FIGURES);
    return cs__chip_figures[figure].key;
}

int32_t cs_chip_figure_index(const char *key)
{
    for (int32_t f = 0; f < CS__N_CHIP_FIGURES; f++) {
        if (strcmp(cs__chip_figures[f].key, key) == 0) {
            return f;
        }
    }
    return -1;
}

double cs_chip_figure(const struct cs_chip *chip, int32_t figure)
{
    CS_ASSERT(figure >= 0 && figure < CS__N_CHIP_FIGURES);
    double value = 0.0;
    memcpy(&value, (const char *)chip + cs__chip_figures[figure].offset, sizeof value);
    return value;
}

void cs_chip_set_figure(struct cs_chip *chip, int32_t figure, double value)
{
    CS_ASSERT(figure >= 0 && figure < CS__N_CHIP_FIGURES);
    memcpy((char *)chip + cs__chip_figures[figure].offset, &value, sizeof value);
}

double *cs_chip_figure_place(struct cs_chip *chip, int32_t figure)
{
    CS_ASSERT(figure >= 0 && figure < CS__N_CHIP_FIGURES);
    return (double *)(void *)((char *)chip + cs__chip_figures[figure].offset);
}

void cs__quoted_write(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fputc('\\', stream);
        }
        fputc(*c, stream);
    }
    fputc('"', stream);
}

void cs__figure_write(double value, enum cs_unit unit, const char *source, FILE *stream)
{
    static const char *const suffix[] = {
        [CS_UNIT_NONE] = "",     [CS_UNIT_BYTES] = "B",           [CS_UNIT_BYTES_PER_S] = "B/s",
        [CS_UNIT_SECONDS] = "s", [CS_UNIT_FLOP_PER_S] = "flop/s", [CS_UNIT_HERTZ] = "Hz",
        [CS_UNIT_WATT] = "W",    [CS_UNIT_FRACTION] = ""};
    fputs("{value: ", stream);
    if (isnan(value)) {
        fputs("null", stream);
    } else {
        fprintf(stream, "%.17g%s", value, suffix[unit]);
    }
    fputs(", source: ", stream);
    cs__quoted_write(source, stream);
    fputs("}\n", stream);
}

void cs_chip_write(const struct cs_chip *chip, const char *const *sources, FILE *stream)
{
    fputs("chips:\n  ", stream);
    cs__quoted_write(chip->name, stream);
    fputs(":\n    title: ", stream);
    cs__quoted_write(chip->title, stream);
    fputc('\n', stream);
    size_t group = 0; /* length of the prefix whose map is open, with its dot */
    const char *open = "";
    for (int32_t f = 0; f < CS__N_CHIP_FIGURES; f++) {
        const struct cs_figure *figure = &cs__chip_figures[f];
        const char *dot = strchr(figure->key, '.');
        size_t prefix = dot ? (size_t)(dot - figure->key) + 1 : 0;
        if (prefix > 0 && (prefix != group || strncmp(open, figure->key, prefix) != 0)) {
            fprintf(stream, "    %.*s:\n", (int)prefix - 1, figure->key);
        }
        group = prefix;
        open = figure->key;
        fprintf(stream, "%s%s: ", prefix ? "      " : "    ", figure->key + prefix);
        cs__figure_write(cs_chip_figure(chip, f), figure->unit, sources[f], stream);
    }
}

bool cs_chip_has_dtype(const struct cs_chip *chip, enum cs_dtype dtype)
{
    CS_ASSERT(dtype >= 0 && dtype < CS_N_DTYPES);
    return !isnan(chip->peak_flop_per_s[dtype]);
}

/* Tiles that libraries have kernels for. A tile of a x b loads (a + b) operands for every a b products, which
 * hides less of the loading the smaller it is: time x (1 + load (1 / a + 1 / b)), relative to the largest
 * tile. Load: fitted on training_runs.csv (8 of 0, 8, 16 and 32), elements. */
#define TILE_LOAD 8.0

double cs_chip_wave_frac(int64_t m, int64_t n, int64_t batch, double n_cores)
{
    static const double tiles[][2] = {{128.0, 256.0}, {256.0, 128.0}, {128.0, 128.0},
                                      {128.0, 64.0},  {64.0, 128.0},  {64.0, 64.0}};
    CS_ASSERT(m > 0 && n > 0 && batch > 0 && n_cores > 0.0);
    double best = 0.0;
    double useful = (double)m * (double)n * (double)batch;
    double largest = 1.0 + TILE_LOAD * (1.0 / tiles[0][0] + 1.0 / tiles[0][1]);
    for (int32_t t = 0; t < CS_COUNT(tiles); t++) {
        double n_tiles = ceil((double)m / tiles[t][0]) * ceil((double)n / tiles[t][1]) * (double)batch;
        double waves = ceil(n_tiles / n_cores);
        double load = 1.0 + TILE_LOAD * (1.0 / tiles[t][0] + 1.0 / tiles[t][1]);
        double frac = useful / (waves * n_cores * tiles[t][0] * tiles[t][1]) * largest / load;
        best = frac > best ? frac : best;
    }
    return best;
}

bool cs_opkind_is_matrix(enum cs_opkind kind)
{
    return kind <= CS_OPKIND_CONV;
}

/* 16 bytes of a 2-byte type, the least that a tensor core's operands want to be aligned to. */
#define ALIGNMENT_ELEMENTS 8

#define SPLITS_MAX 4

/* Waves and depth together: when tiles do not fill the cores, libraries share the sum over k among several
 * cores ("split-k", "stream-k"), each of which fills and drains its pipeline for a part of the depth. */
static double tile_ratio(const struct cs_chip *chip, const struct cs_op_cost *cost)
{
    int64_t batch = cost->batch > 0 ? cost->batch : 1;
    double least = INFINITY;
    for (int32_t split = 1; split <= SPLITS_MAX; split++) {
        double depth = cost->k > 0 ? 1.0 + chip->matmul_half_depth * split / (double)cost->k : 1.0;
        double ratio = depth / cs_chip_wave_frac(cost->m, cost->n, batch * split, chip->n_cores);
        least = ratio < least ? ratio : least;
        if (depth >= least) {
            break; /* no wave fraction is above 1 */
        }
    }
    return least;
}

/* How much longer a matrix product takes than its arithmetic because of its shape. */
static double shape_ratio(const struct cs_chip *chip, const struct cs_op_cost *cost)
{
    double ratio = tile_ratio(chip, cost);
    bool aligned = cost->k % ALIGNMENT_ELEMENTS == 0 && cost->n % ALIGNMENT_ELEMENTS == 0;
    if (cost->k > 0 && !aligned) {
        ratio *= chip->matmul_unaligned_frac;
    }
    return ratio;
}

double cs_chip_op_time_s(const struct cs_chip *chip, const struct cs_op_cost *cost)
{
    CS_ASSERT(cost->kind >= 0 && cost->kind < CS_N_OPKINDS);
    CS_ASSERT(cost->dtype >= 0 && cost->dtype < CS_N_DTYPES);
    if (cost->fixed_s > 0.0) {
        return cost->fixed_s;
    }
    double peak = NAN;
    if (cs_opkind_is_matrix(cost->kind)) {
        peak = chip->peak_flop_per_s[cost->dtype];
    } else {
        peak = chip->vector_flop_per_s[cost->dtype];
        if (isnan(peak)) {
            peak = chip->vector_flop_per_s[CS_DTYPE_FP32];
        }
    }
    double arithmetic_s = 0.0;
    if (cost->flop > 0.0) {
        arithmetic_s = cost->flop / (peak * chip->opkind_peak_frac[cost->kind]);
        bool tiled = cost->kind <= CS_OPKIND_GROUPED_MATMUL && cost->m > 0 && cost->n > 0;
        if (tiled) {
            arithmetic_s *= shape_ratio(chip, cost);
        }
    }
    double memory_s = 0.0;
    if (cost->bytes > 0.0) {
        memory_s = cost->bytes / (chip->memory_bytes_per_s * chip->opkind_memory_frac[cost->kind]);
    }
    /* Not fmax, which would hide a NaN. */
    double busy_s = arithmetic_s >= memory_s || isnan(arithmetic_s) ? arithmetic_s : memory_s;
    double device_s = busy_s + (double)cost->n_kernels * chip->kernel_overhead_s;
    double host_s = (double)cost->n_kernels * chip->host_launch_s;
    if (chip->launches_block) {
        return device_s + host_s;
    }
    return device_s < host_s ? host_s : device_s;
}
