/**
 * @file study_priv.h
 * Parts of the study reader.
 */
#ifndef CS_STRATEGIES_STUDY_PRIV_H
#define CS_STRATEGIES_STUDY_PRIV_H

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

/** The blocks `collectives` and `faults`; the platform is loaded. */
CS_MUST_CHECK cs_status cs__runtime_read(struct cs_study *study, const struct cs_yaml_node *root,
                                         struct cs_err *err);

#endif
