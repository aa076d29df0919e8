/**
 * @file cases_fixture.h
 * Tables of published runs, the repository's and made to measure, for tests of the strategies room.
 */
#ifndef CS_TESTS_UNIT_CASES_FIXTURE_H
#define CS_TESTS_UNIT_CASES_FIXTURE_H

#include "cs/strategies/cases.h"

#define CASES_RUNS CS_TEST_SOURCE_DIR "/tests/data/measured/training_runs.csv"
/** Columns enough for a run of a GPT. */
#define CASES_HEADER                                                                                         \
    "id,hardware,n_devices,devices_per_node,model,layers,hidden,ffn,gated_mlp,heads,vocab,dp,tp,pp,sp,"      \
    "optimizer_shard,micro_batch,global_batch,seq_len,recompute,dtype,iteration_seconds,source,notes\n"

/** The repository's software; ends the test when it cannot be read. The caller releases it. */
void cases_softwares(struct cs_softwares *softwares);
/** Write a file; ends the test when it cannot. The caller unlinks it. */
void cases_write(const char *file, const char *text);
/** Read the text as a table of cases by way of that file, which is gone afterwards. */
cs_status cases_load_text(struct cs_cases *cases, const char *file, const char *text,
                          const struct cs_softwares *softwares, struct cs_err *err);

#endif
