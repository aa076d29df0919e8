#include "analytic_priv.h"

#include <stdio.h>
#include <string.h>

const char *const cs_outcome_names[] = {"open", "ok", "oom", "rejected", "failed", NULL};

static void refuse(struct cs_evaluation *evaluation, enum cs_outcome outcome, const char *rule)
{
    evaluation->outcome = outcome;
    (void)snprintf(evaluation->rule, sizeof evaluation->rule, "%s", rule);
}

void cs_evaluation_judge(struct cs_evaluation *evaluation, const struct cs_study *study)
{
    const struct cs_metrics *metrics = &evaluation->metrics;
    double margin = study->constraints.memory_margin;
    double device_bytes = cs_study_device_memory_bytes(study);
    double counted_bytes = cs_study_counted_bytes(study, (double)metrics->peak_memory_bytes);
    double limit_frac = study->constraints.cross_node_comm_frac;
    double use_frac = metrics->iteration_s > 0 ? metrics->mean.computing_s / metrics->iteration_s : 0;
    char peak[32];
    char device[32];
    evaluation->outcome = CS_OUTCOME_OK;
    evaluation->rule[0] = evaluation->reason[0] = '\0';
    if (counted_bytes * margin > device_bytes) {
        refuse(evaluation, CS_OUTCOME_OOM, "memory");
        (void)snprintf(evaluation->reason, sizeof evaluation->reason,
                       "needs %s x %g margin of memory, a device %s %s",
                       cs_units_format(counted_bytes, CS_UNIT_BYTES, peak, sizeof peak), margin,
                       study->constraints.device_memory_bytes > 0 ? "may give" : "has",
                       cs_units_format(device_bytes, CS_UNIT_BYTES, device, sizeof device));
    } else if (counted_bytes < study->constraints.min_memory_use_frac * device_bytes) {
        refuse(evaluation, CS_OUTCOME_REJECTED, "memory-use");
        (void)snprintf(evaluation->reason, sizeof evaluation->reason,
                       "needs %s of the %s of a device, the study asks for %.1f %% or more",
                       cs_units_format(counted_bytes, CS_UNIT_BYTES, peak, sizeof peak),
                       cs_units_format(device_bytes, CS_UNIT_BYTES, device, sizeof device),
                       100 * study->constraints.min_memory_use_frac);
    } else if (evaluation->simulated && use_frac < study->constraints.min_device_use_frac) {
        refuse(evaluation, CS_OUTCOME_REJECTED, "device-use");
        (void)snprintf(evaluation->reason, sizeof evaluation->reason,
                       "devices compute %.1f %% of the step, the study asks for %.1f %% or more",
                       100 * use_frac, 100 * study->constraints.min_device_use_frac);
    } else if (evaluation->simulated && metrics->cross_node_comm_frac > limit_frac) {
        refuse(evaluation, CS_OUTCOME_REJECTED, "cross-node-communication");
        (void)snprintf(evaluation->reason, sizeof evaluation->reason,
                       "communication between nodes takes %.1f %% of the step, the study allows %.1f %%",
                       100 * metrics->cross_node_comm_frac, 100 * limit_frac);
    } else {
        char value[32];
        const struct cs_user_rule *rule =
            cs_user_rule_broken_by_result(study, metrics, evaluation->simulated, value, sizeof value);
        if (rule) {
            refuse(evaluation, CS_OUTCOME_REJECTED, rule->text);
            (void)snprintf(evaluation->reason, sizeof evaluation->reason, "is %s", value);
        }
    }
}

cs_status cs_simulator_init(struct cs_simulator *simulator, const struct cs_study *study,
                            const struct cs_run_options *options, struct cs_err *err)
{
    cs_status st = CS_OK;
    *simulator = (struct cs_simulator){.study = study, .options = *options};
    cs_study_run_options(study, &simulator->options);
    simulator->routes = cs_routes_new(&study->platform, options->simgrid_cfg);
    if (study->platform.n_devices <= CS_SIMULATOR_ALL_ROUTES_DEVICES) {
        CS_TRY(cs_routes_need_all(simulator->routes, err));
        CS_TRY(cs_engine_check_links(simulator->routes, &simulator->options, err));
    }
out:
    return st;
}

void cs_simulator_release(struct cs_simulator *simulator)
{
    cs_routes_free(simulator->routes);
    *simulator = (struct cs_simulator){0};
}

/* The model state of the fullest rank, in bytes: a part of any peak, whatever the activations are. */
static double state_bytes(const struct cs_trace *trace)
{
    double most_bytes = 0;
    for (int32_t i = 0; i < trace->n_programs; i++) {
        if (trace->programs[i].state_bytes > most_bytes) {
            most_bytes = trace->programs[i].state_bytes;
        }
    }
    return most_bytes;
}

cs_status cs_simulator_evaluate(const struct cs_simulator *simulator, const struct cs_strategy *strategy,
                                struct cs_evaluation *evaluation, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_trace *trace = NULL;
    struct cs_run run = {0};
    const struct cs_study *study = simulator->study;
    struct cs_run_options options = simulator->options;
    memset(evaluation, 0, sizeof *evaluation);
    CS_TRY(cs_trace_build(&study->model, &study->training, strategy, &trace, err));
    cs_engine_memory(trace, &study->platform, &evaluation->metrics);
    cs_evaluation_judge(evaluation, study);
    if (evaluation->outcome == CS_OUTCOME_OOM) {
        evaluation->state_alone =
            state_bytes(trace) * study->constraints.memory_margin > cs_study_device_memory_bytes(study);
    }
    if (evaluation->outcome != CS_OUTCOME_OK) {
        goto out;
    }
    options.timeline = false;
    CS_TRY(cs_engine_run(trace, simulator->routes, &options, &run, err));
    evaluation->metrics = run.metrics;
    evaluation->simulated = true;
    cs_evaluation_judge(evaluation, study);
out:
    cs_run_release(&run);
    cs_trace_free(trace);
    return st;
}

cs_status cs_simulator_run(const struct cs_simulator *simulator, const struct cs_strategy *strategy,
                           struct cs_trace **trace, struct cs_run *run, struct cs_evaluation *evaluation,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_study *study = simulator->study;
    struct cs_trace *built = NULL;
    memset(evaluation, 0, sizeof *evaluation);
    CS_TRY(cs_trace_build(&study->model, &study->training, strategy, &built, err));
    if (simulator->options.fidelity == CS_FIDELITY_ANALYTIC) {
        CS_TRY(cs__analytic(simulator, strategy, built, &evaluation->metrics, err));
        evaluation->estimated = true;
    } else {
        CS_TRY(cs_engine_run(built, simulator->routes, &simulator->options, run, err));
        evaluation->metrics = run->metrics;
        evaluation->simulated = true;
    }
    cs_evaluation_judge(evaluation, study);
    *trace = built;
    built = NULL;
out:
    cs_trace_free(built);
    return st;
}
