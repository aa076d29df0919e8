#ifndef CS_STRATEGIES_ANALYTIC_PRIV_H
#define CS_STRATEGIES_ANALYTIC_PRIV_H

#include "cs/strategies/evaluate.h"

/** The step by the closed form (cost.h), memory by the ledgers: fills of metrics the iteration time, what
 *  follows from it (cs_engine_speed) and the memory fields. CS_E_INPUT as cs_simulator_run says. */
cs_status cs__analytic(const struct cs_simulator *simulator, const struct cs_strategy *strategy,
                       const struct cs_trace *trace, struct cs_metrics *metrics, struct cs_err *err);

/** CS_E_INPUT when the options ask for what the closed form knows nothing of. */
CS_MUST_CHECK cs_status cs__analytic_check(const struct cs_run_options *options, struct cs_err *err);

#endif
