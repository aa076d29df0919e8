/**
 * @file mindformers.h
 * MindFormers configurations (run_*.yaml) as input: model, training settings and strategy of a run.
 *
 * Both styles of key are read (num_layers and num_hidden_layers, moe_config and n_routed_experts, ...), with
 * anchors, quoted numbers, True and None. The checks that MindFormers makes before it runs are made here:
 * what it refuses is an error at the line, what it warns about is a warning. What a file asks for and the
 * simulator does not model is a warning too, by key.
 */
#ifndef CS_WORKLOADS_MINDFORMERS_H
#define CS_WORKLOADS_MINDFORMERS_H

#include "cs/workloads/strategy.h"

struct cs_mindformers_warning {
    const char *key;  /* "recompute_config.select_comm_recompute" */
    const char *file; /* the configuration, or the config.json beside it */
    int line;
    const char *text;
};

enum cs_mindformers_said {
    CS_MF_SAYS_BATCH = 1 << 0,
    CS_MF_SAYS_SEQ_LENGTH = 1 << 1,
    CS_MF_SAYS_DTYPE = 1 << 2,
    CS_MF_SAYS_OPTIMIZER = 1 << 3,
    CS_MF_SAYS_CLIP = 1 << 4,
    CS_MF_SAYS_FP32_SYNC = 1 << 5,
    CS_MF_SAYS_FUSION = 1 << 6,
    CS_MF_SAYS_AGGREGATION = 1 << 7,
    CS_MF_SAYS_GRADIENT_DTYPE = 1 << 8,
    CS_MF_SAYS_ALL = (1 << 9) - 1
};

/** What a configuration says. Texts live in the arena. */
struct cs_mindformers {
    struct cs_arena arena;
    bool has_model; /* the file, or the Hugging Face config.json beside it, gives the model's sizes */
    struct cs_model model;
    bool has_training; /* sequence length and batch are known */
    uint32_t said; /* a bit for each setting of the training that the file says or that follows from what it
                      says. With a model the others but batch and length are known too, with has_training
                      all: they have the style's defaults */
    struct cs_training training;
    struct cs_strategy strategy;
    int32_t
        search_line; /* the file lists degrees to choose from (a request of a search): where; 0 = it does not
                      */
    int64_t n_devices;          /* that the degrees ask for */
    double device_memory_bytes; /* context.max_device_memory, which MindSpore counts in GiB; 0 = not said */
    int32_t n_warnings;
    struct cs_mindformers_warning *warnings;
};

/** Read a configuration. Also read: a fragment (strategy only), and the input of MindFormers' pipeline
 *  balance tool. CS_E_INPUT with file and line for what MindFormers itself would refuse. The caller releases.
 */
CS_MUST_CHECK cs_status cs_mindformers_load(struct cs_mindformers *config, const char *path,
                                            struct cs_err *err);
/** Read it from a text; `name` is shown in messages. */
CS_MUST_CHECK cs_status cs_mindformers_load_text(struct cs_mindformers *config, const char *text,
                                                 size_t bytes, const char *name, struct cs_err *err);
/** Safe on a zeroed struct and twice. */
void cs_mindformers_release(struct cs_mindformers *config);

/** Is the document a MindFormers configuration rather than a model file? */
bool cs_mindformers_is(const struct cs_yaml_node *root);

#endif
