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

/** A tree that is `root` (a map, or NULL) with one value set; what did not change is shared. @param[out] out
 *  in the arena. CS_E_INPUT for a value that is no YAML or a path through something that is no block. */
CS_MUST_CHECK cs_status cs__overlay_set(struct cs_arena *arena, const struct cs_yaml_node *root,
                                        const struct cs_override *override, const struct cs_yaml_node **out,
                                        struct cs_err *err);

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
