/**
 * @file yaml.h
 * YAML files as a tree whose every node knows its line and column (libyaml events).
 *
 * Anchors and aliases are resolved; merge keys (<<) too. Refused, with file and line: duplicate keys (unless
 * `last_wins`), NUL bytes, more than one document, depth above 64, files above 8 MiB, more than 1e6 nodes
 * after alias expansion, an empty file. Scalars stay text: a reader asks for the type it wants, so `yes`,
 * `1.e-8` and quoted numbers are the reader's decision.
 */
#ifndef CS_BASE_YAML_H
#define CS_BASE_YAML_H

#include "cs/base/err.h"
#include "cs/base/mem.h"
#include "cs/base/units.h"

#include <stdbool.h>

enum cs_yaml_kind { CS_YAML_SCALAR, CS_YAML_LIST, CS_YAML_MAP };

struct cs_yaml_node {
    enum cs_yaml_kind kind;
    struct cs_loc loc;
    const char *text;                  /* scalar; never NULL for a scalar */
    bool quoted;                       /* scalar was written in quotes */
    int32_t n;                         /* list items or map entries */
    const struct cs_yaml_node **items; /* list items, or map values */
    const struct cs_yaml_node **keys;  /* map keys (scalars), in file order */
};

/** A document: open record, everything lives in its arena. Zero-initialised is empty. */
struct cs_yaml {
    struct cs_arena arena;
    const struct cs_yaml_node *root;
    bool last_wins;    /* set before loading: of equal keys of a map the last counts, as Python's readers have
                          it, instead of being refused; of several `<<` too */
    int32_t n_repeats; /* then: keys that stood before the one that counts */
    struct cs_yaml_repeat
        *repeats; /* the first CS_YAML_REPEATS_MAX of them, in the order in which maps end */
};

/** A key that does not count because its map has it again. Both borrowed from the document. */
#define CS_YAML_REPEATS_MAX 256
struct cs_yaml_repeat {
    const struct cs_yaml_node *dropped; /* the key */
    const struct cs_yaml_node *kept;    /* the key that counts, in the tree */
};

/** Read a file / a text. `name` is the file name shown in messages. CS_E_INPUT for anything wrong with the
 *  content or with the file (missing, a directory, unreadable), CS_E_LIMIT for sizes. */
CS_MUST_CHECK cs_status cs_yaml_load_file(struct cs_yaml *yaml, const char *path, struct cs_err *err);
CS_MUST_CHECK cs_status cs_yaml_load_text(struct cs_yaml *yaml, const char *text, size_t bytes,
                                          const char *name, struct cs_err *err);
void cs_yaml_release(struct cs_yaml *yaml);

/** Value of a key, or NULL. `map` may be NULL or not a map (then NULL). */
const struct cs_yaml_node *cs_yaml_get(const struct cs_yaml_node *map, const char *key);
/** Value of a key; CS_E_INPUT at the map when it is missing. */
CS_MUST_CHECK cs_status cs_yaml_need(const struct cs_yaml_node *map, const char *key,
                                     const struct cs_yaml_node **value, struct cs_err *err);
/** The node must be a map / a list / a scalar ("'model' must be a map, found a list"). `what` names it. */
CS_MUST_CHECK cs_status cs_yaml_want(const struct cs_yaml_node *node, enum cs_yaml_kind kind,
                                     const char *what, struct cs_err *err);
/** Refuse a key of `map` that is not in `allowed` (NULL-terminated): "unknown key 'x' in WHAT, did you mean
 *  'y'?" at the key. */
CS_MUST_CHECK cs_status cs_yaml_check_keys(const struct cs_yaml_node *map, const char *const *allowed,
                                           const char *what, struct cs_err *err);

/** Typed scalars. `what` names the value in messages. Booleans: true/false/True/False/TRUE/FALSE only. */
CS_MUST_CHECK cs_status cs_yaml_int(const struct cs_yaml_node *node, int64_t min, int64_t max,
                                    const char *what, int64_t *value, struct cs_err *err);
/** @unit: none, a plain number. */
CS_MUST_CHECK cs_status cs_yaml_real(const struct cs_yaml_node *node, double min, double max,
                                     const char *what, double *value, struct cs_err *err);
CS_MUST_CHECK cs_status cs_yaml_bool(const struct cs_yaml_node *node, const char *what, bool *value,
                                     struct cs_err *err);
/** @unit: the base unit that `unit` names. */
CS_MUST_CHECK cs_status cs_yaml_quantity(const struct cs_yaml_node *node, enum cs_unit unit, const char *what,
                                         double *value, struct cs_err *err);
/** Index of the scalar in `names` (NULL-terminated); the error lists them. */
CS_MUST_CHECK cs_status cs_yaml_choice(const struct cs_yaml_node *node, const char *const *names,
                                       const char *what, int32_t *index, struct cs_err *err);

/** Optional variants: a missing key leaves *value as it is. */
CS_MUST_CHECK cs_status cs_yaml_opt_int(const struct cs_yaml_node *map, const char *key, int64_t min,
                                        int64_t max, int64_t *value, struct cs_err *err);
/** @unit: none, a plain number. */
CS_MUST_CHECK cs_status cs_yaml_opt_real(const struct cs_yaml_node *map, const char *key, double min,
                                         double max, double *value, struct cs_err *err);
CS_MUST_CHECK cs_status cs_yaml_opt_bool(const struct cs_yaml_node *map, const char *key, bool *value,
                                         struct cs_err *err);
/** @unit: the base unit that `unit` names. */
CS_MUST_CHECK cs_status cs_yaml_opt_quantity(const struct cs_yaml_node *map, const char *key,
                                             enum cs_unit unit, double *value, struct cs_err *err);
/** Text of a scalar key, borrowed from the document. A missing key leaves *text as it is: start from NULL. */
CS_MUST_CHECK cs_status cs_yaml_opt_text(const struct cs_yaml_node *map, const char *key, const char **text,
                                         struct cs_err *err);

#endif
