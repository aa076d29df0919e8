/**
 * @file shipped.h
 * What comes with the program, by name: models, platforms, studies.
 */
#ifndef CS_STRATEGIES_SHIPPED_H
#define CS_STRATEGIES_SHIPPED_H

#include "cs/base/err.h"
#include "cs/base/mem.h"

#include <stdbool.h>

enum cs_shipped { CS_SHIPPED_MODEL, CS_SHIPPED_PLATFORM, CS_SHIPPED_STUDY, CS_N_SHIPPED };

/** Names of everything of a kind under `data_dir`, sorted; NULL-terminated, in the arena. An unreadable
 *  folder gives an empty list. */
const char *const *cs_shipped_names(struct cs_arena *arena, const char *data_dir, enum cs_shipped kind);
/** Path of a shipped thing, whether it exists or not; in the arena. */
const char *cs_shipped_path(struct cs_arena *arena, const char *data_dir, enum cs_shipped kind,
                            const char *name);
/** Does a user mean a file (it has a slash or the kind's suffix) and not a shipped name? */
bool cs_shipped_is_path(enum cs_shipped kind, const char *text);
/** Find what a user wrote: a shipped name, else a file (relative to `near_dir` if that is not NULL, else to
 *  the working folder). @param[out] path in the arena. CS_E_INPUT at `loc`, with the nearest shipped name. */
CS_MUST_CHECK cs_status cs_shipped_find(struct cs_arena *arena, const char *data_dir, enum cs_shipped kind,
                                        const char *text, const char *near_dir, struct cs_loc loc,
                                        const char **path, struct cs_err *err);

#endif
