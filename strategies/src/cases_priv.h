/**
 * @file cases_priv.h
 * Which kernels a published run has, by its software and the flags that its source states.
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

#endif
