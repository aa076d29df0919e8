/**
 * @file mindformers_priv.h
 * Settings of a command from a MindFormers configuration.
 */
#ifndef CS_CLI_MINDFORMERS_PRIV_H
#define CS_CLI_MINDFORMERS_PRIV_H

#include "cli_priv.h"

#include "cs/workloads/strategy.h"

/** What a configuration says, as texts that settings borrow. */
struct cs__mindformers {
    char strategy[CS_STRATEGY_TEXT_MAX];
    char batch[24];
    char seq_length[24];
    char fusion[16 * CS_FUSION_MAX];
};
/** Read `path`, list what is not modelled on standard error, and put its settings before those
 * in args, which win. */
CS_MUST_CHECK cs_status cs__mindformers_apply(struct cs__mindformers *m, const char *path,
                                              struct cs__study_args *args, struct cs_err *err);

#endif
