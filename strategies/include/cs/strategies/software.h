/**
 * @file software.h
 * Training software as far as it changes a step: which kernels are fused, in which type gradients are summed,
 * whether their reduction overlaps backward, how far its releases stand from one another. Read from
 * strategies/software/software.yaml; a run's software is known by a text in the name of its source.
 */
#ifndef CS_STRATEGIES_SOFTWARE_H
#define CS_STRATEGIES_SOFTWARE_H

#include "cs/base/err.h"
#include "cs/base/mem.h"
#include "cs/platforms/chip.h"

#include <stdio.h>

/** Figures that calibration fits; ratios are to the chip's and the links' figures, 1 = as they say. */
enum cs_software_figure {
    CS_SOFTWARE_KERNEL_TIME,       /* time of every kernel */
    CS_SOFTWARE_POINTWISE_TRAFFIC, /* memory traffic of norms, activations, softmax: kernels left unfused */
    CS_SOFTWARE_ATTENTION_TIME,    /* time of fused attention kernels, whose generations differ */
    CS_SOFTWARE_HOST_LAUNCH,       /* host's time for a kernel */
    CS_SOFTWARE_COLLECTIVE_TIME,   /* time on the links */
    CS_SOFTWARE_STEP_OVERHEAD,     /* seconds a step: data, loss scaling, logging */
    CS_N_SOFTWARE_FIGURES
};
extern const char *const cs_software_figure_keys[]; /* "kernel_time", ...; NULL-terminated */

/** Flags of a script that published runs name in their source. */
struct cs_software_script {
    const char *path;  /* "examples/bloom/pretrain_bloom_176b.sh" */
    const char *flags; /* "position-embedding-type alibi, no-masked-softmax-fusion" */
};

/** Runs whose notes say so had a machine other than their hardware's usual one, or the same before it was
 * changed. */
struct cs_software_machine {
    const char *notes;  /* text in the notes column */
    const char *server; /* of the catalogue */
};

struct cs_software {
    const char *name;             /* "mindspeed-llm-1.0.rc2" */
    const char *title;            /* who publishes, for summaries */
    const char *source;           /* of the facts below */
    const char *pattern;          /* text in the source column that names it; "" matches everything */
    bool flash;                   /* fused attention unless the run says otherwise */
    bool fp32_gradients;          /* fp16 runs sum gradients in fp32 (others always do) */
    bool low_gradients;           /* gradients are summed in the 16 bits of the parameters, bf16 ones too */
    bool overlap_gradients;       /* reductions run beside backward, bucket by bucket */
    int64_t aggregation_groups;   /* in so many buckets, see struct cs_training; 0 = of 64 MB */
    bool scatter_messages;        /* between stages, see struct cs_training */
    bool blocking_sends;          /* likewise */
    bool serial_messages;         /* likewise */
    bool async_tensor_parallel;   /* see struct cs_training */
    bool overlap_tensor_parallel; /* sequence parallel, its communication fused with the products */
    bool blocking_launches;       /* the host waits for each kernel (CUDA_LAUNCH_BLOCKING=1) */
    bool graph_launches;          /* the device launches the kernels of a whole graph by itself */
    bool loss_fusion;             /* cross-entropy in one kernel, see struct cs_training */
    bool separate_casts;          /* fp8: operands are cast by kernels of their own */
    bool separate_accumulation;   /* micro-batches' gradients are added up likewise */
    int64_t softmax_multiple;     /* see struct cs_training */
    bool separate_gate;           /* gated MLPs have two first layers unless told otherwise */
    bool scripted_gelu;           /* bias and GELU by elementary kernels unless --no-bias-gelu-fusion */
    bool no_recomputation;        /* its runs recompute nothing, whatever their table says */
    bool elementary_optimizer;    /* AdamW by elementary kernels unless a script names another */
    bool norm_casts;              /* RMSNorm in fp32 between kernels that cast */
    bool separate_rope;           /* rotary embedding by elementary kernels */
    bool tensor_bias;             /* position bias (ALiBi) as a tensor that kernels work on */
    double gpt_dropout_frac;      /* of its GPT runs */
    int64_t vocab;                /* of runs that do not state one */
    int64_t vocab_multiple;       /* a vocabulary is padded to this times mp */
    int32_t n_scripts;
    const struct cs_software_script *scripts; /* what the scripts of runs say, as far as it matters */
    int32_t n_machines;
    struct cs_software_machine *machines;
    double figure[CS_N_SOFTWARE_FIGURES]; /* @unit ratios, the last one seconds */
    const char *figure_source[CS_N_SOFTWARE_FIGURES];
};

/** In the order of the file. Zero-initialised is empty. */
struct cs_softwares {
    struct cs_arena arena;
    int32_t n;
    struct cs_software *items;
};

/** CS_E_INPUT with file and line. The last entry must match everything. */
CS_MUST_CHECK cs_status cs_softwares_load(struct cs_softwares *softwares, const char *path,
                                          struct cs_err *err);
void cs_softwares_release(struct cs_softwares *softwares);
/** First entry whose pattern is in `source`. */
struct cs_software *cs_softwares_find(const struct cs_softwares *softwares, const char *source);
/** Flags of the script that `source` names; "" where it names none that is known. */
const char *cs_software_flags(const struct cs_software *software, const char *source);
/** Write a file that gives the same list when read again. The stream's errors are the caller's to check. */
void cs_softwares_write(const struct cs_softwares *softwares, FILE *stream);
/** Change a chip to what it looks like under the software: all figures but those of links and of the step. */
void cs_software_apply(const struct cs_software *software, struct cs_chip *chip);

#endif
