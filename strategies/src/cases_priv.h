/**
 * @file cases_priv.h
 * Which kernels a published run has, by its software and the flags that its source states; what its source's
 * words say about sharding and recomputation.
 */
#ifndef CS_STRATEGIES_CASES_PRIV_H
#define CS_STRATEGIES_CASES_PRIV_H

#include "cs/strategies/software.h"
#include "cs/workloads/model.h"
#include "cs/workloads/strategy.h"

/** Fill in the words of `training` about kernels; its flash_attention is set already. `notes` are the row's,
 *  `flags` those of its script. */
void cs__case_kernels(struct cs_training *training, const struct cs_model *model,
                      const struct cs_software *software, const char *notes, const char *flags);
/** ZeRO stage of an optimizer by the words of its source: 0 = replicated, also of an empty text; -1 = they do
 * not say it. "no X" and "X false" deny X; a stage that is stated goes before FSDP. */
int32_t cs__case_zero(const char *text);
/** What is recomputed by the words of its source, "" = nothing; of a list of layers ("[8, 4]") only the kind.
 *  @return NULL, or why it cannot be told (static). */
const char *cs__case_recompute(const char *text, enum cs_recompute *kind);

#endif
