/**
 * @file mindformers_priv.h
 * Settings of a command from a MindFormers configuration.
 */
#ifndef CS_CLI_MINDFORMERS_PRIV_H
#define CS_CLI_MINDFORMERS_PRIV_H

#include "cli_priv.h"

#include "cs/workloads/mindformers.h"

/** A configuration, and what settings borrow of it. Zero-initialise; cs__mindformers_release. */
struct cs__mindformers {
    const char *path;
    bool is_changed;              /* the command line says something of the strategy too */
    struct cs_mindformers config; /* its arena holds the settings' texts */
};
/** Read `path`, list what is not modelled on standard error, and put its settings before those in args, which
 * win. The strategy block is the file's, key by key, so that another word of the command line, in args or in
 * `strategy` (NULL = none), replaces one key. Of a key that stands for several in the file all give way:
 * recompute for its counts by stage, counts for its recompute; and where all data-parallel ranks share the
 * states, they still do when there are more or fewer. Where neither args nor a study names a platform, it is
 * as many devices as the file's degrees ask for. CS_E_INPUT for a request of a search, and for a study that
 * says what the file says.
 */
CS_MUST_CHECK cs_status cs__mindformers_apply(struct cs__mindformers *m, const char *path,
                                              const char *strategy, struct cs__study_args *args,
                                              struct cs_err *err);
/** Say in front of an error about the study what the configuration, if there is one, leaves to others to say
 * and args do not say either. */
void cs__mindformers_name_gaps(struct cs__mindformers *m, const struct cs__study_args *args,
                               struct cs_err *err);
/** Name the configuration in front of an error about the strategy that it makes. */
void cs__mindformers_blame(const struct cs__mindformers *m, struct cs_err *err);
/** Warnings on standard error, a line each. */
void cs__mindformers_say(const struct cs_mindformers_warning *warnings, int32_t n);
/** Add the file's warnings, and those of the study's model if it is another such file, to the array
 * `warnings` of a result: objects with key, file, line, text. */
void cs__mindformers_add_warnings(const struct cs__mindformers *m, const struct cs_model *model,
                                  json_t *result);
void cs__mindformers_release(struct cs__mindformers *m);

#endif
