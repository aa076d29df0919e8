/**
 * @file chip.h
 * The hardware catalogue: chips and servers, every figure with its source, and the time of one operator.
 *
 * Catalogue files are YAML under platforms/catalogue/. A figure is written `{value: 64GiB, source: "..."}`
 * or `{value: null, source: "not found"}`; a figure without a source is refused. Which figures exist is one
 * table in chip.c, so that calibration can name, list, change and write back each of them.
 */
#ifndef CS_PLATFORMS_CHIP_H
#define CS_PLATFORMS_CHIP_H

#include "cs/base/err.h"
#include "cs/base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum cs_dtype { CS_DTYPE_FP32, CS_DTYPE_FP16, CS_DTYPE_BF16, CS_DTYPE_FP8, CS_N_DTYPES };
/** "fp32", "fp16", "bf16", "fp8"; NULL-terminated list for cs_yaml_choice. */
extern const char *const cs_dtype_names[];
/** Bytes of one element: 4, 2, 2, 1. */
int64_t cs_dtype_bytes(enum cs_dtype dtype);

/** Operator kinds: what the time model tells apart. Matrix kinds run on the matrix engine (cube, tensor
 *  core), the others are memory traffic with some vector arithmetic. */
enum cs_opkind {
    CS_OPKIND_MATMUL,         /* dense projection, m x k times k x n */
    CS_OPKIND_BATCH_MATMUL,   /* attention scores and context without a fused kernel */
    CS_OPKIND_GROUPED_MATMUL, /* experts */
    CS_OPKIND_FLASH_FORWARD,  /* fused attention core */
    CS_OPKIND_FLASH_BACKWARD,
    CS_OPKIND_CONV,
    CS_OPKIND_SOFTMAX,
    CS_OPKIND_NORM,
    CS_OPKIND_ELEMENTWISE, /* activations, residual additions, dropout, casts */
    CS_OPKIND_GATHER,      /* embedding look-up and its scatter-add */
    CS_OPKIND_OPTIMIZER,
    CS_N_OPKINDS
};
extern const char *const cs_opkind_names[]; /* NULL-terminated */
bool cs_opkind_is_matrix(enum cs_opkind kind);

/** What one compute operation asks of a chip. All amounts are of one rank. */
struct cs_op_cost {
    enum cs_opkind kind;
    enum cs_dtype dtype;
    double flop;       /* multiply and add count as two */
    double bytes;      /* device memory traffic, read + written */
    int64_t m, n, k;   /* matrix kinds: one product's shape (0 when it has none) */
    int64_t batch;     /* how many such products (>= 1 for matrix kinds) */
    int32_t n_kernels; /* kernels launched; 0 only in traces that others wrote */
    double
        fixed_s; /* > 0: takes this long on any chip, as a measurement says; the amounts are only accounts */
};

/** One chip. Open record; texts live in the catalogue. Efficiencies are fractions of the peak that a large
 *  operator of that kind reaches. A figure that the catalogue says was not found is NaN. */
struct cs_chip {
    const char *name;  /* key: "910b2" */
    const char *title; /* "Ascend 910B2" */
    double memory_bytes;
    double memory_bytes_per_s;
    double peak_flop_per_s[CS_N_DTYPES];     /* matrix engine, dense, one direction of rounding: the roof */
    double vector_flop_per_s[CS_N_DTYPES];   /* vector units */
    double n_cores;                          /* @unit matrix cores, for wave quantisation */
    double opkind_peak_frac[CS_N_OPKINDS];   /* of the matrix peak (matrix kinds) or vector peak (others) */
    double opkind_memory_frac[CS_N_OPKINDS]; /* of the memory bandwidth */
    double matmul_half_depth;     /* @unit elements: inner dimension k at which filling and draining a tile's
                                     pipeline costs as much as its products: time x (1 + half_depth / k) */
    double matmul_unaligned_frac; /* @unit ratio >= 1: a product whose k or n is no multiple of 8 elements is
                                     that much slower */
    double kernel_overhead_s;     /* fixed cost of one kernel on the device */
    double host_launch_s;         /* host's time to launch one kernel: a shorter kernel waits for it */
    bool launches_block;          /* the host waits for each kernel before it launches the next */
    double collective_overhead_s; /* fixed cost of one collective or point-to-point operation */
    double reserved_bytes;        /* runtime's own share of the memory */
    double max_power_w;
    double host_bytes_per_s; /* link to the host's memory, one direction */
};

#define CS_NIC_DEVICES_MAX 1024 /* devices that one network adapter serves */

/** One server type: how its devices are wired inside and to the outside. Rates are one direction. */
struct cs_server {
    const char *name;
    const char *title;
    const char *chip;             /* default chip */
    int32_t devices;              /* per server */
    bool intra_switched;          /* switch (NVSwitch, supernode) or full mesh (HCCS) */
    double intra_bytes_per_s;     /* out of one device, all its links together */
    double intra_bus_bytes_per_s; /* > 0: what all its devices exchange crosses one bus, both ways together */
    double intra_latency_s;
    double nic_bytes_per_s; /* per device */
    bool nic_half_duplex;   /* what a NIC sends and what it receives share nic_bytes_per_s */
    int32_t nic_devices; /* neighbours that share a network adapter, of which nic_bytes_per_s is one's part */
    double nic_latency_s;
};

struct cs_catalogue; /* opaque: chips, servers and the sources of their figures */

/** Read every *.yaml of the folder `dir` (in name order). The caller frees with cs_catalogue_free. */
CS_MUST_CHECK cs_status cs_catalogue_load(const char *dir, struct cs_catalogue **catalogue,
                                          struct cs_err *err);
/** The same, with the files of the folder `over` (NULL: none): its chips and servers stand in for those of
 * the same name in `dir`, everything else joins what is there. A map `software` in its files is passed over:
 *  calibration writes all of its figures into one folder. */
CS_MUST_CHECK cs_status cs_catalogue_load_over(const char *dir, const char *over,
                                               struct cs_catalogue **catalogue, struct cs_err *err);
void cs_catalogue_free(struct cs_catalogue *catalogue);
/** Chip / server by name; NULL when unknown. Borrowed from the catalogue. */
const struct cs_chip *cs_catalogue_chip(const struct cs_catalogue *catalogue, const char *name);
const struct cs_server *cs_catalogue_server(const struct cs_catalogue *catalogue, const char *name);
/** NULL-terminated name lists, in file order; borrowed. */
const char *const *cs_catalogue_chip_names(const struct cs_catalogue *catalogue);
const char *const *cs_catalogue_server_names(const struct cs_catalogue *catalogue);
/** Source text of a chip's figure by its catalogue key ("memory", "efficiency.matmul"); NULL if unknown. */
const char *cs_catalogue_source(const struct cs_catalogue *catalogue, const char *chip, const char *figure);

/** The same of a server's figure ("intra_bandwidth"). */
const char *cs_catalogue_server_source(const struct cs_catalogue *catalogue, const char *server,
                                       const char *figure);

/** The figures of a chip, for whoever lists, changes or writes them back. Keys are the catalogue's
 *  ("memory", "efficiency.matmul"). */
int32_t cs_chip_n_figures(void);
/** Key of figure `figure` in [0, cs_chip_n_figures()); static. */
const char *cs_chip_figure_key(int32_t figure);
/** Figure of a key, -1 when there is none of that name. */
int32_t cs_chip_figure_index(const char *key);
/** Value in the figure's base unit, NaN when it was not found. */
double cs_chip_figure(const struct cs_chip *chip, int32_t figure);
/** Set it (@unit the figure's base unit). A chip to change is a caller's copy of the catalogue's. */
void cs_chip_set_figure(struct cs_chip *chip, int32_t figure, double value);
/** Where the chip keeps it, for whoever changes a figure often. Borrowed from the chip. */
double *cs_chip_figure_place(struct cs_chip *chip, int32_t figure);
/** Write a chip as a catalogue file that gives the same figures when read again; figure f has the source
 *  `sources[f]` (cs_chip_n_figures() texts). The stream's errors are the caller's to check. */
void cs_chip_write(const struct cs_chip *chip, const char *const *sources, FILE *stream);

/** The figures of a server, as those of a chip: keys, and writing one as a catalogue file that is the same
 *  server when read again. `sources` are cs_server_n_figures() texts, NULL for what the server has not. */
int32_t cs_server_n_figures(void);
const char *cs_server_figure_key(int32_t figure);
int32_t cs_server_figure_index(const char *key);
void cs_server_write(const struct cs_server *server, const char *const *sources, FILE *stream);

/** Can the chip compute in `dtype` at all: does its matrix engine have a peak for it? */
bool cs_chip_has_dtype(const struct cs_chip *chip, enum cs_dtype dtype);

/** Time of one operator on a chip, seconds: a roofline, with the host as a third limit.
 *
 *      time = max(max(arithmetic, memory) + kernels x kernel_overhead, kernels x host_launch),
 *             or the sum of both where launches block
 *      arithmetic = flop x shape / (peak of the dtype x efficiency of the kind x wave and tile efficiency)
 *      memory = bytes / (memory bandwidth x memory efficiency of the kind)
 *      shape = (1 + splits x half_depth / k) x (unaligned, if k or n is no multiple of 8)
 *
 *  with the number of splits of k, 1 to 4, that is best together with the waves of batch x splits products
 *  (Williams, Waterman, Patterson, CACM 52(4), 2009; tiles, waves and alignment: NVIDIA, Matrix
 * Multiplication Background User's Guide). Wave and tile efficiency and shape are for matmul, batch-matmul
 * and grouped-matmul with a shape, else 1. Vector kinds in a dtype the vector units lack compute in fp32. NaN
 * when a figure that is needed was not found. An operator with a fixed_s takes that. Pure. */
double cs_chip_op_time_s(const struct cs_chip *chip, const struct cs_op_cost *cost);
/** Useful share of the matrix cores' work: the product is cut into output tiles, one core computes a tile
 *  at a time, and a tile at the edge or a core in the last wave costs as much as a full one:
 *    batch m n / (waves x cores x tile), waves = ceil(batch ceil(m/tm) ceil(n/tn) / cores),
 *  for the best of the tiles 128 x 256, 256 x 128 (what the 910B's 128 KiB accumulator buffer holds in fp32),
 *  128 x 128, 128 x 64, 64 x 128 and 64 x 64, of which smaller ones hide less of the loading of their
 *  operands. In (0, 1]; tends to 1 for large products. */
double cs_chip_wave_frac(int64_t m, int64_t n, int64_t batch, double n_cores);

#endif
