/**
 * @file study_priv.h
 * Parts of the study reader.
 */
#ifndef CS_STRATEGIES_STUDY_PRIV_H
#define CS_STRATEGIES_STUDY_PRIV_H

#include "cs/strategies/shipped.h"
#include "cs/strategies/study.h"

/** The `file` of locations of values that were given on the command line. */
#define CS__COMMAND_LINE "command line"
#define CS__COMMAND_LINE_LOC ((struct cs_loc){CS__COMMAND_LINE, 0, 0})

/** A copy of a value in the arena, at the places of the original, or all of it at *loc (NULL = as it was). */
const struct cs_yaml_node *cs__yaml_copy(struct cs_arena *arena, const struct cs_yaml_node *node,
                                         const struct cs_loc *loc);

/** Text read as YAML, every node at `loc`. @param[out] value in the arena. CS_E_INPUT at `loc` when it is
 * none.
 */
CS_MUST_CHECK cs_status cs__yaml_value(struct cs_arena *arena, const char *key, const char *text,
                                       struct cs_loc loc, const struct cs_yaml_node **value,
                                       struct cs_err *err);

/** "FILE:LINE", as messages name places; in the arena or borrowed. */
const char *cs__place(struct cs_arena *arena, struct cs_loc loc);

/** A tree that is `root` (a map, or NULL) with one value set, `tree` or what the override's text says (tree
 *  NULL); what did not change is shared. @param[out] out in the arena. CS_E_INPUT for a value that is no YAML
 * or a path through something that is no block. */
CS_MUST_CHECK cs_status cs__overlay_set(struct cs_arena *arena, const struct cs_yaml_node *root,
                                        const struct cs_override *override, const struct cs_yaml_node *tree,
                                        const struct cs_yaml_node **out, struct cs_err *err);

/** Read the strategy block (NULL = left out) into study->axes. */
CS_MUST_CHECK cs_status cs__axes_read(struct cs_study *study, const struct cs_yaml_node *block,
                                      struct cs_err *err);

/** The study's tree with the overrides laid over it; lives in the study, which holds nothing else yet. */
CS_MUST_CHECK cs_status cs__study_tree(struct cs_study *study, const struct cs_study_source *source,
                                       const struct cs_yaml_node **root, struct cs_err *err);

/** Path of what the study's scalar `node` names: a shipped thing, or a file near the study. */
CS_MUST_CHECK cs_status cs__study_find(struct cs_study *study, const struct cs_study_source *source,
                                       const struct cs_yaml_node *node, enum cs_shipped kind,
                                       const char *what, const char **path, struct cs_err *err);

/** The keys `platform`, `what_if` and what `faults` takes off the platform; the catalogue is loaded. */
CS_MUST_CHECK cs_status cs__study_platform_read(struct cs_study *study, const struct cs_study_source *source,
                                                const struct cs_yaml_node *root, struct cs_err *err);

/** Read a platform described in the study. @param[out] spec texts in the study's arena. */
CS_MUST_CHECK cs_status cs__description_read(struct cs_study *study, const struct cs_study_source *source,
                                             const struct cs_yaml_node *block, struct cs_topology_spec *spec,
                                             struct cs_err *err);

/** The blocks `collectives` and `faults`; the platform is loaded. */
CS_MUST_CHECK cs_status cs__runtime_read(struct cs_study *study, const struct cs_yaml_node *root,
                                         struct cs_err *err);

/** Read the list of user rules (NULL = left out) into study->constraints. */
CS_MUST_CHECK cs_status cs__user_rules_read(struct cs_study *study, const struct cs_yaml_node *list,
                                            struct cs_err *err);

#endif
