#include "cs/reports/table.h"
#include "cs/strategies/explain.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>

void cs_report_warnings(const struct cs_strategy *strategy, const struct cs_evaluation *evaluation,
                        const struct cs_study *study, cs_finding_fn add, void *context)
{
    const struct cs_metrics *metrics = &evaluation->metrics;
    const struct cs_run_checks *checks = &metrics->checks;
    char text[CS_REASON_MAX];
    if (!evaluation->simulated) {
        return;
    }
    if (metrics->comm_frac > CS_REPORT_COMM_WARNING_FRAC) {
        (void)snprintf(
            text, sizeof text,
            "communication takes %.1f %% of the step (above %.0f %%), %.1f %% is not hidden behind "
            "computing",
            100 * metrics->comm_frac, 100 * CS_REPORT_COMM_WARNING_FRAC, 100 * metrics->exposed_comm_frac);
        add(context, text);
    }
    if (strategy->mp > study->platform.devices_per_node) {
        (void)snprintf(text, sizeof text, "tensor-parallel groups of %d devices cross nodes of %d devices",
                       (int)strategy->mp, (int)study->platform.devices_per_node);
        add(context, text);
    }
    if (cs_strategy_exceeds(strategy, &study->model, text, sizeof text)) {
        add(context, text);
    }
    const struct {
        bool holds;
        const char *text;
    } promises[] = {
        {checks->bytes_conserved, "the bytes that were moved are not the bytes that the trace asks for"},
        {checks->time_accounted, "the shares of a rank's time do not add up to the step"},
        {checks->state_conserved, "the ranks hold less than the model's state"},
        {checks->operations_complete, "not every operation of the trace was run"},
    };
    for (int32_t i = 0; i < CS_COUNT(promises); i++) {
        if (!promises[i].holds) {
            (void)snprintf(text, sizeof text, "do not trust this result: %s", promises[i].text);
            add(context, text);
        }
    }
}

void cs_report_ranked_evaluation(const struct cs_ranked *ranked, struct cs_evaluation *evaluation)
{
    bool estimated = ranked->metrics.fidelity == CS_FIDELITY_ANALYTIC;
    *evaluation = (struct cs_evaluation){.outcome = CS_OUTCOME_OK,
                                         .simulated = !estimated,
                                         .estimated = estimated,
                                         .metrics = ranked->metrics};
}

bool cs_report_is_tie(const struct cs_search_report *report, int64_t i)
{
    const struct cs_ranked *ranking = report->result->ranking;
    double away = fabs(ranking[i].score - ranking[0].score);
    return i > 0 && away <= cs_explain_tie_frac(report->study) * fabs(ranking[0].score);
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double cs_report_median_tokens_per_s(const struct cs_search_result *result)
{
    int64_t n = result->n_ranked;
    if (n == 0) {
        return 0;
    }
    double *values = cs_calloc((size_t)n, sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        values[i] = result->ranking[i].metrics.tokens_per_s;
    }
    qsort(values, (size_t)n, sizeof *values, compare_reals);
    double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    cs_free(values);
    return median;
}
