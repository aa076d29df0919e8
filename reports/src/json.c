#include "cs/reports/json.h"

#include "text_priv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_int(json_t *object, const char *key, int64_t value)
{
    (void)json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void put_real(json_t *object, const char *key, double value)
{
    (void)json_object_set_new(object, key, cs_json_real(value));
}

static void put_text(json_t *object, const char *key, const char *value)
{
    /* A file name need not be UTF-8, JSON must: then without it. */
    json_t *text = value ? json_string(value) : NULL;
    (void)json_object_set_new(object, key, text ? text : json_null());
}

static void put_bool(json_t *object, const char *key, bool value)
{
    (void)json_object_set_new(object, key, json_boolean(value));
}

json_t *cs_report_strategy_json(const struct cs_strategy *strategy)
{
    json_t *object = json_object();
    struct cs_strategy standard;
    cs_strategy_init(&standard);
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        const char *name = cs_strategy_keys[key];
        int32_t value = cs_key_get(strategy, (enum cs_key)key);
        if (key > CS_KEY_USUAL_LAST && value == cs_key_get(&standard, (enum cs_key)key)) {
            continue;
        }
        if (key == CS_KEY_SP || key >= CS_KEY_FUSED_TP) {
            put_bool(object, name, value != 0);
        } else if (key == CS_KEY_CP_KIND) {
            put_text(object, name, cs_cp_kind_names[strategy->cp_kind]);
        } else if (key == CS_KEY_SCHEDULE) {
            put_text(object, name, cs_schedule_names[strategy->schedule]);
        } else if (key == CS_KEY_RECOMPUTE) {
            put_text(object, name, cs_recompute_names[strategy->recompute]);
        } else if (key == CS_KEY_PLACEMENT) {
            const enum cs_dim *dims = strategy->placement;
            (void)json_object_set_new(object, name,
                                      json_sprintf("%s,%s,%s,%s", cs_dim_names[dims[0]],
                                                   cs_dim_names[dims[1]], cs_dim_names[dims[2]],
                                                   cs_dim_names[dims[3]]));
        } else {
            put_int(object, name, value);
        }
    }
    for (int32_t list = 0; list < CS_N_LISTS; list++) {
        const struct cs_per_place *places = cs_key_list_of(strategy, (enum cs_list_key)list);
        char buf[CS__LIST_TEXT_MAX];
        if (places->n > 0) {
            put_text(object, cs_strategy_keys[CS_N_KEYS + list], cs__list_text(places, buf, sizeof buf));
        }
    }
    return object;
}

static json_t *memory_json(const struct cs_metrics *metrics)
{
    json_t *object = json_object();
    for (int32_t i = 0; i < CS_N_MEMS; i++) {
        put_int(object, cs_mem_names[i], metrics->memory_bytes[i]);
    }
    put_int(object, "reserved", metrics->reserved_bytes);
    return object;
}

static json_t *checks_json(const struct cs_run_checks *checks)
{
    json_t *object = json_object();
    put_bool(object, "bytes_conserved", checks->bytes_conserved);
    put_bool(object, "time_accounted", checks->time_accounted);
    put_bool(object, "state_conserved", checks->state_conserved);
    put_bool(object, "operations_complete", checks->operations_complete);
    return object;
}

/* What bytes_conserved compares, by fabric. */
static json_t *bytes_json(const struct cs_metrics *metrics)
{
    static const char *const fabrics[CS_N_FABRICS] = {"within_nodes", "across_nodes"};
    json_t *object = json_object();
    for (int32_t f = 0; f < CS_N_FABRICS; f++) {
        json_t *fabric = json_object();
        put_real(fabric, "asked", metrics->asked_bytes[f]);
        put_real(fabric, "carried", metrics->carried_bytes[f]);
        (void)json_object_set_new(object, fabrics[f], fabric);
    }
    return object;
}

static void add_text(void *context, const char *text)
{
    (void)json_array_append_new(context, json_string(text));
}

/* What is known of a run: its memory, the step's time as well, or the shares of that too. */
enum known { KNOWN_MEMORY, KNOWN_TIME, KNOWN_SHARES };

/* The figures of a run; null where they are not known. */
static void put_metrics(json_t *object, const struct cs_metrics *metrics, double devices, enum known known)
{
    enum { N_OF_TIME = 6 }; /* the first figures follow from the step's time */
    const struct {
        const char *key;
        double value;
    } figures[] = {
        {"iteration_time_s", metrics->iteration_s},
        {"tokens_per_s", metrics->tokens_per_s},
        {"tokens_per_s_per_device", metrics->tokens_per_s / devices},
        {"tflops_per_device", metrics->tflops_per_device},
        {"mfu", metrics->mfu_frac},
        {"hfu", metrics->hfu_frac},
        {"bubble_fraction", metrics->bubble_frac},
        {"comm_fraction", metrics->comm_frac},
        {"exposed_comm_fraction", metrics->exposed_comm_frac},
        {"cross_node_comm_fraction", metrics->cross_node_comm_frac},
    };
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        bool is_known = known >= (i < N_OF_TIME ? KNOWN_TIME : KNOWN_SHARES);
        put_real(object, figures[i].key, is_known ? figures[i].value : (double)NAN);
    }
    put_int(object, "peak_memory_bytes", metrics->peak_memory_bytes);
    (void)json_object_set_new(object, "memory", memory_json(metrics));
    put_text(object, "fidelity", cs_fidelity_names[metrics->fidelity]);
    put_int(object, "simulated_ranks", known == KNOWN_SHARES ? metrics->n_rank_classes : 0);
    put_int(object, "operations", metrics->n_operations);
    put_real(object, "wall_s", metrics->wall_s);
}

json_t *cs_report_result_json(const struct cs_strategy *strategy, const struct cs_evaluation *evaluation,
                              const struct cs_study *study)
{
    const struct cs_metrics *metrics = &evaluation->metrics;
    bool simulated = evaluation->simulated;
    json_t *object = json_object();
    json_t *warnings = json_array();
    (void)json_object_set_new(object, "strategy", cs_report_strategy_json(strategy));
    put_text(object, "status", cs_outcome_names[evaluation->outcome]);
    put_text(object, "reason", evaluation->reason);
    put_metrics(object, metrics, study->platform.n_devices,
                simulated               ? KNOWN_SHARES
                : evaluation->estimated ? KNOWN_TIME
                                        : KNOWN_MEMORY);
    cs_report_warnings(strategy, evaluation, study, add_text, warnings);
    (void)json_object_set_new(object, "warnings", warnings);
    put_text(object, "limited_by", metrics->limited_by);
    if (simulated) {
        (void)json_object_set_new(object, "checks", checks_json(&metrics->checks));
        (void)json_object_set_new(object, "bytes", bytes_json(metrics));
    }
    return object;
}

static json_t *hash_json(uint64_t hash)
{
    return json_sprintf("%016" PRIx64, hash);
}

/* What made the result: enough to make it again. */
static json_t *made_by_json(const struct cs_report_origin *origin)
{
    json_t *made_by = json_object();
    put_text(made_by, "program", "clustersim");
    put_text(made_by, "version", origin->version);
    put_text(made_by, "command", origin->command);
    return made_by;
}

static void put_inputs(json_t *object, const struct cs_study *study, const struct cs_report_origin *origin)
{
    const struct cs_training *training = &study->training;
    json_t *inputs = json_object();
    json_t *model = json_object();
    json_t *platform = json_object();
    json_t *batch = json_object();
    put_text(model, "name", study->model.name);
    (void)json_object_set_new(model, "hash", hash_json(study->model.content_hash));
    put_text(platform, "name", study->platform.name);
    put_int(platform, "devices", study->platform.n_devices);
    put_int(platform, "devices_per_node", study->platform.devices_per_node);
    put_real(platform, "device_memory_bytes", cs_study_device_memory_bytes(study));
    (void)json_object_set_new(platform, "hash", hash_json(study->platform.content_hash));
    put_int(batch, "global_batch", training->global_batch);
    put_int(batch, "seq_length", training->seq_length);
    put_text(batch, "dtype", cs_dtype_names[training->dtype]);
    put_text(batch, "gradient_dtype", cs_dtype_names[training->gradient_dtype]);
    put_text(batch, "optimizer", cs_optimizer_names[training->optimizer]);
    put_bool(batch, "flash_attention", training->flash_attention);
    put_bool(batch, "async_tensor_model_parallel_allreduce", training->async_tensor_parallel);
    put_bool(batch, "fused_rmsnorm", !training->separate_norms);
    put_bool(batch, "fused_rotary_pos_emb", !training->separate_rope);
    put_bool(batch, "fused_swiglu", training->fused_glu);
    put_bool(batch, "moe_grouped_gemm", !training->separate_experts);
    put_bool(batch, "cross_entropy_loss_fusion", !training->separate_loss);
    put_bool(batch, "mlp_layer_fusion", !training->separate_gate);
    put_bool(batch, "bias_gelu_compiled", !training->separate_gelu);
    put_bool(batch, "gradient_accumulation_fusion", !training->separate_accumulation);
    if (training->aggregation_groups > 0) {
        put_int(batch, "gradient_aggregation_group", training->aggregation_groups);
    } else {
        put_real(batch, "gradient_bucket_bytes", training->bucket_bytes);
    }
    if (training->host_bytes_per_s > 0) {
        put_real(batch, "host_bandwidth_bytes_per_s", training->host_bytes_per_s);
    }
    if (training->routing_imbalance_frac > 1) {
        put_real(batch, "routing_imbalance", training->routing_imbalance_frac);
    }
    (void)json_object_set_new(inputs, "made_by", made_by_json(origin));
    put_text(inputs, "study", study->path);
    (void)json_object_set_new(inputs, "model", model);
    (void)json_object_set_new(inputs, "platform", platform);
    (void)json_object_set_new(inputs, "training", batch);
    put_bool(inputs, "reserve_counted", !(study->constraints.device_memory_bytes > 0));
    put_real(inputs, "memory_margin", study->constraints.memory_margin);
    (void)json_object_set_new(object, "inputs", inputs);
}

static json_t *links_json(const struct cs_run *run)
{
    json_t *links = json_array();
    for (int32_t i = 0; i < run->n_links && i < CS_REPORT_LINKS_MAX; i++) {
        json_t *link = json_object();
        put_text(link, "name", run->links[i].name);
        put_int(link, "alike", run->links[i].n_alike);
        put_real(link, "bytes", run->links[i].bytes);
        put_real(link, "bytes_per_s", run->links[i].bytes_per_s);
        put_real(link, "busy_fraction", run->links[i].busy_frac);
        put_text(link, "users", run->links[i].users);
        (void)json_array_append_new(links, link);
    }
    return links;
}

static json_t *path_json(const struct cs_path_share *shares, int32_t n)
{
    json_t *path = json_array();
    for (int32_t i = 0; i < n; i++) {
        json_t *share = json_object();
        put_text(share, "what", shares[i].what);
        put_real(share, "time_s", shares[i].time_s);
        (void)json_array_append_new(path, share);
    }
    return path;
}

/* Where published runs would put the step; null when there are too few. */
static json_t *interval_json(const struct cs_simulate_report *report)
{
    const struct cs_interval *interval = &report->study->interval;
    double step_s = report->evaluation->metrics.iteration_s;
    json_t *object = json_object();
    if (interval->n == 0) {
        json_decref(object);
        return json_null();
    }
    put_text(object, "chip", interval->chip);
    put_int(object, "runs", interval->n);
    put_real(object, "low_s", step_s * interval->low_frac);
    put_real(object, "high_s", step_s * interval->high_frac);
    return object;
}

/* Means over the ranks of a stage. */
static json_t *stages_json(const struct cs_run *run)
{
    json_t *stages = json_array();
    for (int32_t i = 0; i < run->n_path_stages; i++) {
        const struct cs_time_shares *shares = &run->stages[i];
        json_t *stage = json_object();
        put_int(stage, "stage", i);
        put_real(stage, "critical_path_s", run->path_stages[i].time_s);
        put_real(stage, "computing_s", shares->computing_s);
        put_real(stage, "exposed_comm_s", shares->exposed_comm_s);
        put_real(stage, "bubble_s", shares->bubble_s);
        put_real(stage, "free_s", shares->idle_s);
        put_real(stage, "host_copy_s", shares->beside_s);
        (void)json_array_append_new(stages, stage);
    }
    return stages;
}

/* Where the traffic of dead links goes, as in the text. */
static json_t *detours_json(const struct cs_study *study)
{
    json_t *array = json_array();
    if (study->description) {
        cs_topology_detours(study->description, add_text, array);
    }
    return array;
}

json_t *cs_report_simulate_json(const struct cs_simulate_report *report,
                                const struct cs_report_origin *origin)
{
    json_t *object = cs_report_result_json(report->strategy, report->evaluation, report->study);
    (void)json_object_set_new(object, "interval", interval_json(report));
    (void)json_object_set_new(object, "critical_path", path_json(report->run->path, report->run->n_path));
    (void)json_object_set_new(object, "stages", stages_json(report->run));
    (void)json_object_set_new(object, "links", links_json(report->run));
    (void)json_object_set_new(object, "detours", detours_json(report->study));
    if (report->spread) {
        json_t *spread = json_object();
        put_int(spread, "runs", report->spread->n);
        put_real(spread, "mean_s", report->spread->mean_s);
        put_real(spread, "least_s", report->spread->least_s);
        put_real(spread, "most_s", report->spread->most_s);
        put_real(spread, "deviation_s", report->spread->deviation_s);
        (void)json_object_set_new(object, "repeated", spread);
    }
    if (report->explain_folding && report->run->folding) {
        put_text(object, "folding", report->run->folding);
    }
    put_inputs(object, report->study, origin);
    return object;
}

json_t *cs_report_replay_json(const struct cs_replay_report *report, const struct cs_report_origin *origin)
{
    const struct cs_run *run = report->run;
    json_t *object = json_object();
    put_text(object, "status",
             cs_outcome_names[cs_report_replay_fits(report) ? CS_OUTCOME_OK : CS_OUTCOME_OOM]);
    put_metrics(object, &run->metrics, run->metrics.n_ranks, KNOWN_SHARES);
    put_text(object, "limited_by", run->metrics.limited_by);
    (void)json_object_set_new(object, "checks", checks_json(&run->metrics.checks));
    (void)json_object_set_new(object, "bytes", bytes_json(&run->metrics));
    (void)json_object_set_new(object, "critical_path", path_json(run->path, run->n_path));
    (void)json_object_set_new(object, "stages", stages_json(run));
    (void)json_object_set_new(object, "links", links_json(run));
    json_t *inputs = json_object();
    put_text(inputs, "version", origin->version);
    put_text(inputs, "command", origin->command);
    put_text(inputs, "trace", report->source);
    put_real(inputs, "memory_margin", report->memory_margin);
    put_text(inputs, "platform", report->platform->name);
    (void)json_object_set_new(inputs, "platform_hash", hash_json(report->platform->content_hash));
    (void)json_object_set_new(object, "inputs", inputs);
    return object;
}

json_t *cs_report_refused_json(const struct cs_strategy *strategy, const char *reason,
                               const struct cs_study *study, const struct cs_report_origin *origin)
{
    static const char *const figures[] = {"iteration_time_s",
                                          "tokens_per_s",
                                          "tokens_per_s_per_device",
                                          "tflops_per_device",
                                          "mfu",
                                          "hfu",
                                          "bubble_fraction",
                                          "comm_fraction",
                                          "exposed_comm_fraction",
                                          "cross_node_comm_fraction",
                                          "peak_memory_bytes"};
    json_t *object = json_object();
    (void)json_object_set_new(object, "strategy", strategy ? cs_report_strategy_json(strategy) : json_null());
    put_text(object, "status", cs_outcome_names[CS_OUTCOME_REJECTED]);
    put_text(object, "reason", reason);
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        (void)json_object_set_new(object, figures[i], json_null());
    }
    (void)json_object_set_new(object, "warnings", json_array());
    if (study) {
        put_inputs(object, study, origin);
    } else {
        json_t *inputs = json_object();
        (void)json_object_set_new(inputs, "made_by", made_by_json(origin));
        (void)json_object_set_new(object, "inputs", inputs);
    }
    return object;
}

static json_t *reasons_json(const struct cs_search_result *result)
{
    json_t *reasons = json_array();
    for (int32_t i = 0; i < result->n_reasons; i++) {
        json_t *reason = json_object();
        put_text(reason, "status", cs_outcome_names[result->reasons[i].outcome]);
        put_text(reason, "rule", result->reasons[i].rule);
        put_int(reason, "count", result->reasons[i].n);
        put_text(reason, "example", result->reasons[i].example);
        (void)json_array_append_new(reasons, reason);
    }
    return reasons;
}

/* Of the collectives that the study searches. */
json_t *cs__algorithms_json(const struct cs_study *study, int32_t set)
{
    json_t *object = json_object();
    enum cs_algorithm algorithm[CS_N_COLLS];
    memcpy(algorithm, study->runtime.algorithm, sizeof algorithm);
    cs_study_algorithm_set(study, set, algorithm);
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        if (study->runtime.choices[coll]) {
            put_text(object, cs_coll_names[coll], cs_algorithm_names[algorithm[coll]]);
        }
    }
    return object;
}

static json_t *ranking_json(const struct cs_search_report *report)
{
    json_t *ranking = json_array();
    for (int64_t i = 0; i < report->result->n_ranked && i < report->study->search.n_top; i++) {
        const struct cs_ranked *ranked = &report->result->ranking[i];
        struct cs_evaluation evaluation;
        cs_report_ranked_evaluation(ranked, &evaluation);
        json_t *entry = cs_report_result_json(&report->space->candidates[ranked->candidate].strategy,
                                              &evaluation, report->study);
        put_bool(entry, "tie", cs_report_is_tie(report, i));
        put_real(entry, "objective_value", report->result->objective->value(&ranked->metrics, report->study));
        if (cs_study_n_algorithm_sets(report->study) > 1) {
            (void)json_object_set_new(entry, "collectives",
                                      cs__algorithms_json(report->study, ranked->algorithm_set));
        }
        (void)json_array_append_new(ranking, entry);
    }
    return ranking;
}

json_t *cs_report_search_json(const struct cs_search_report *report, const struct cs_report_origin *origin)
{
    static const char *const ends[] = {
        [CS_SEARCH_FINISHED] = "finished",
        [CS_SEARCH_TIME_LIMIT] = "time-limit",
        [CS_SEARCH_INTERRUPTED] = "interrupted",
        [CS_SEARCH_SIMULATION_LIMIT] = "simulation-limit",
    };
    const struct cs_search_result *result = report->result;
    json_t *object = json_object();
    put_int(object, "candidates", result->n_candidates);
    put_int(object, "simulated", result->n_simulated);
    put_int(object, "remembered", result->n_remembered);
    if (result->n_fit >= 0) {
        put_int(object, "fit", result->n_fit);
    }
    if (result->n_looked >= 0) {
        put_int(object, "looked_at", result->n_looked);
    }
    put_int(object, "pruned", result->n_pruned);
    put_int(object, "rejected", result->n_rejected);
    put_int(object, "oom", result->n_oom);
    put_int(object, "failed", result->n_failed);
    put_int(object, "open", result->n_open);
    put_real(object, "elapsed_s", result->elapsed_s);
    put_bool(object, "complete", result->complete);
    put_real(object, "gap", result->complete ? 0 : result->looked_at ? (double)NAN : result->gap_frac);
    put_text(object, "end", ends[result->end]);
    put_text(object, "algorithm", result->analytic ? "analytic" : result->algorithm->name);
    put_text(object, "fidelity",
             cs_fidelity_names[result->n_ranked > 0 ? result->ranking[0].metrics.fidelity
                               : result->analytic   ? CS_FIDELITY_ANALYTIC
                                                    : CS_FIDELITY_FOLDED]);
    put_text(object, "objective", result->objective->name);
    put_int(object, "feasible", result->n_ranked);
    put_real(object, "median_tokens_per_s",
             result->n_ranked > 0 ? cs_report_median_tokens_per_s(result) : (double)NAN);
    (void)json_object_set_new(object, "reasons", reasons_json(result));
    (void)json_object_set_new(object, "ranking", ranking_json(report));
    put_inputs(object, report->study, origin);
    return object;
}

json_t *cs_report_space_json(const struct cs_search_report *report, const struct cs_report_origin *origin)
{
    const struct cs_space *space = report->space;
    const struct cs_search_result *result = report->result;
    int64_t n_sets = cs_study_n_algorithm_sets(report->study);
    json_t *object = json_object();
    put_int(object, "combinations", n_sets * space->n_combinations);
    put_int(object, "duplicates", n_sets * space->n_duplicates);
    put_int(object, "candidates", n_sets * space->n_candidates);
    put_int(object, "rejected", n_sets * (space->n_candidates - space->n_open));
    put_int(object, "open", n_sets * space->n_open);
    put_int(object, "oom", result->n_oom);
    put_int(object, "fit", result->n_fit);
    put_int(object, "looked_at", result->n_looked);
    (void)json_object_set_new(object, "reasons", reasons_json(result));
    put_inputs(object, report->study, origin);
    return object;
}
