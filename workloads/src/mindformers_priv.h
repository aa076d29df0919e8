/**
 * @file mindformers_priv.h
 * Reading MindFormers configurations: sections and typed values.
 */
#ifndef CS_WORKLOADS_MINDFORMERS_PRIV_H
#define CS_WORKLOADS_MINDFORMERS_PRIV_H

#include "cs/workloads/mindformers.h"

/** A configuration being read. Sections that the file does not have are NULL. */
struct cs_mf {
    struct cs_mindformers *out;
    const struct cs_yaml_node *root;
    const struct cs_yaml_node *model, *moe, *parallel, *parallel_config, *recompute, *runner, *wrapper;
    const struct cs_yaml_node *optimizer, *swap;
    const struct cs_yaml_node *hub; /* Hugging Face config.json */
    int32_t cap_warnings;
    bool new_style; /* use_legacy: False */
    bool parallel_run;
    int32_t n_layers, n_mtp_layers; /* 0 = not said */
};

/** Value of the first of the names (NULL-terminated) that the map has; None, null and ~ count as absent. */
const struct cs_yaml_node *cs__mf_get(const struct cs_yaml_node *map, const char *const *names);
#define CS_MF_GET(map, ...) cs__mf_get((map), (const char *const[]){__VA_ARGS__, NULL})
/** Typed values; a NULL node leaves *value as it is. */
CS_MUST_CHECK cs_status cs__mf_int(const struct cs_yaml_node *node, int64_t min, int64_t max,
                                   const char *what, int64_t *value, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_bool(const struct cs_yaml_node *node, const char *what, bool *value,
                                    struct cs_err *err);
/** Does the node switch something on? False, 0, 1-element defaults, absent and empty do not. */
bool cs__mf_is_on(const struct cs_yaml_node *node);
void cs__mf_warn(struct cs_mf *mf, const char *key, const struct cs_yaml_node *node, const char *fmt, ...)
    CS_PRINTF(4, 5);

/** The parts, in this order. */
CS_MUST_CHECK cs_status cs__mf_model(struct cs_mf *mf, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_strategy(struct cs_mf *mf, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_stages(struct cs_mf *mf, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_training(struct cs_mf *mf, struct cs_err *err);
/** MindFormers' own checks (its check_rules and transformer_config). */
CS_MUST_CHECK cs_status cs__mf_check(struct cs_mf *mf, struct cs_err *err);
/** A warning for each key that asks for something and is not modelled. */
void cs__mf_list_unmodelled(struct cs_mf *mf);

/** A text that is printed later: CS_E_INPUT at the node when it holds control characters. */
CS_MUST_CHECK cs_status cs__printable(const struct cs_yaml_node *node, const char *key, struct cs_err *err);
/** Hash of a model's sizes and name. */
uint64_t cs__model_hash(const struct cs_model *model);
/** Parameters, roughly and from above, of any sizes: whether the exact count would be countable. */
double cs__model_params_estimate(const struct cs_model *model);
#define CS_MODEL_PARAMS_MAX 1e15

#endif
