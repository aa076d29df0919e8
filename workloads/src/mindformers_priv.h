/**
 * @file mindformers_priv.h
 * Reading MindFormers configurations: sections and typed values.
 */
#ifndef CS_WORKLOADS_MINDFORMERS_PRIV_H
#define CS_WORKLOADS_MINDFORMERS_PRIV_H

#include "cs/workloads/mindformers.h"

/** A key that was read, by its node. */
struct cs_mf_use {
    const struct cs_yaml_node *key, *value;
    bool whole;       /* with everything under it */
    const char *note; /* to be listed with its path; NULL = none */
};

/** parallel_mode of MindSpore: what becomes of the degrees. */
enum cs_mf_mode { CS_MF_DATA, CS_MF_SEMI_AUTO, CS_MF_AUTO, CS_MF_HYBRID, CS_MF_STAND_ALONE };

/** A configuration being read. Sections that the file does not have are NULL. */
struct cs_mf {
    struct cs_mindformers *out;
    struct cs_mf_use *uses;
    int32_t n_uses, cap_uses;
    const struct cs_yaml_node *root;
    const struct cs_yaml_node *model, *moe, *parallel, *parallel_config, *recompute, *runner, *wrapper;
    const struct cs_yaml_node *optimizer, *swap, *context;
    const struct cs_yaml_node *hub; /* Hugging Face config.json */
    int32_t cap_warnings;
    bool new_style; /* use_legacy: False */
    bool parallel_run;
    bool separate_experts; /* asked for */
    enum cs_mf_mode mode;
    int64_t micro_batch_num;        /* as the file says it, 1 when it does not */
    int32_t n_layers, n_mtp_layers; /* 0 = not said */
};

/** Value of the first of the names (NULL-terminated) that the map has; None, null and ~ count as absent. All
 * of them are marked as read; one that stands behind the first and says something else is listed. */
const struct cs_yaml_node *cs__mf_get(struct cs_mf *mf, const struct cs_yaml_node *map,
                                      const char *const *names);
#define CS_MF_GET(mf, map, ...) cs__mf_get((mf), (map), (const char *const[]){__VA_ARGS__, NULL})
/** Mark one key as read, with all under it. */
void cs__mf_settle_key(struct cs_mf *mf, const struct cs_yaml_node *map, const char *key);
/** List `other`, at `where`, when it says something else than `read`, which counts; either may be NULL. */
void cs__mf_prefer(struct cs_mf *mf, const struct cs_yaml_node *read, const struct cs_yaml_node *other,
                   const char *where);
/** None, null, ~ or nothing. */
bool cs__mf_is_absent(const struct cs_yaml_node *node);
/** Typed values; a NULL node leaves *value as it is. */
CS_MUST_CHECK cs_status cs__mf_int(const struct cs_yaml_node *node, int64_t min, int64_t max,
                                   const char *what, int64_t *value, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_bool(const struct cs_yaml_node *node, const char *what, bool *value,
                                    struct cs_err *err);
/** Text of a scalar; a list or map is CS_E_INPUT. */
CS_MUST_CHECK cs_status cs__mf_text(const struct cs_yaml_node *node, const char *what, const char **text,
                                    struct cs_err *err);
/** Does the node switch something on? False, 0, 1-element defaults, absent and empty do not. */
bool cs__mf_is_on(const struct cs_yaml_node *node);
/** List a value: under the path at which its key stands if it was read by one, else under `key`. */
void cs__mf_warn(struct cs_mf *mf, const char *key, const struct cs_yaml_node *node, const char *fmt, ...)
    CS_PRINTF(4, 5);

/** The same under `key`, at once. */
void cs__mf_warn_as(struct cs_mf *mf, const char *key, const struct cs_yaml_node *node, const char *text);

/** The parts, in this order. */
CS_MUST_CHECK cs_status cs__mf_model(struct cs_mf *mf, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_strategy(struct cs_mf *mf, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_stages(struct cs_mf *mf, struct cs_err *err);
CS_MUST_CHECK cs_status cs__mf_training(struct cs_mf *mf, struct cs_err *err);
/** What the program is told about its device and its mode. */
CS_MUST_CHECK cs_status cs__mf_runtime(struct cs_mf *mf, struct cs_err *err);
/** MindFormers' own checks (its check_rules and transformer_config). */
CS_MUST_CHECK cs_status cs__mf_check(struct cs_mf *mf, struct cs_err *err);
/** A warning for each key that does not count because its map has it again, by its path behind `prefix`. */
void cs__mf_list_repeats(struct cs_mf *mf, const struct cs_yaml *yaml, const char *prefix);
/** A warning for each key that asks for something and was not read, by its dotted path, in the file's order.
 */
void cs__mf_list_unmodelled(struct cs_mf *mf);

/** A text that is printed later: CS_E_INPUT at the node when it holds control characters. */
CS_MUST_CHECK cs_status cs__printable(const struct cs_yaml_node *node, const char *key, struct cs_err *err);
/** Hash of a model's sizes and name. */
uint64_t cs__model_hash(const struct cs_model *model);
/** Parameters, roughly and from above, of any sizes: whether the exact count would be countable. */
double cs__model_params_estimate(const struct cs_model *model);
#define CS_MODEL_PARAMS_MAX 1e15

#endif
