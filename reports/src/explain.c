#include "cs/reports/explain.h"

#include "cs/base/units.h"
#include "cs/reports/json.h"
#include "text_priv.h"

#include <math.h>
#include <string.h>

static const struct cs_strategy *strategy_of(const struct cs_search_report *report, int64_t candidate)
{
    return &report->space->candidates[candidate].strategy;
}

static const char *key_name(int32_t key)
{
    return key >= CS_EXPLAIN_KEY_COLL ? cs_coll_names[key - CS_EXPLAIN_KEY_COLL] : cs_strategy_keys[key];
}

static const char *any_key_text(const struct cs_strategy *strategy, int32_t key, char *buf, size_t buf_bytes)
{
    if (key < CS_N_KEYS) {
        return cs__key_text(strategy, (enum cs_key)key, buf, buf_bytes);
    }
    cs__list_text(cs_key_list_of(strategy, (enum cs_list_key)(key - CS_N_KEYS)), buf, buf_bytes);
    return buf[0] ? buf : "none";
}

/* The algorithm of a kind of collective in a set. */
static const char *algorithm_text(const struct cs_search_report *report, int32_t set, int32_t key)
{
    enum cs_algorithm algorithm[CS_N_COLLS] = {CS_ALGO_AUTO};
    cs_study_algorithm_set(report->study, set, algorithm);
    return cs_algorithm_names[algorithm[key - CS_EXPLAIN_KEY_COLL]];
}

/* Of the objective's value, which is better when higher or when lower. */
static double change_frac(const struct cs_search_report *report, const struct cs_neighbour *n)
{
    return report->result->objective->higher_is_better ? -n->worse_frac : n->worse_frac;
}

/* What changing the key does to the step time, and before it to the objective where that is another. */
static const char *change_text(const struct cs_search_report *report, const struct cs_neighbour *n, char *buf,
                               size_t buf_bytes)
{
    const struct cs_objective *objective = report->result->objective;
    bool is_time = strcmp(objective->name, "throughput") == 0 || strcmp(objective->name, "step_time") == 0;
    char first[64] = "";
    char memory[32];
    if (!is_time) {
        (void)snprintf(first, sizeof first, "%+7.2f %% %s, ", 100 * change_frac(report, n), objective->name);
    }
    if (n->outcome == CS_OUTCOME_OOM) {
        (void)snprintf(buf, buf_bytes, "does not fit (%s)",
                       cs_units_format((double)n->peak_memory_bytes, CS_UNIT_BYTES, memory, sizeof memory));
    } else if (isnan(n->loss_frac)) {
        (void)snprintf(buf, buf_bytes, n->outcome == CS_OUTCOME_REJECTED ? "breaks a constraint" : "failed");
    } else {
        (void)snprintf(buf, buf_bytes, "%s%+7.2f %% step time%s", first, 100 * n->loss_frac,
                       n->outcome == CS_OUTCOME_OK ? "" : ", but it breaks a constraint");
    }
    return buf;
}

static void print_neighbours(FILE *out, const struct cs_search_report *report, const struct cs_explanation *e)
{
    const struct cs_strategy *winner = strategy_of(report, report->result->ranking[0].candidate);
    (void)fputs("\none key changed\n", out);
    for (int32_t i = 0; i < e->n_neighbours; i++) {
        const struct cs_neighbour *n = &e->neighbours[i];
        char from[CS__LIST_TEXT_MAX];
        char to[CS__LIST_TEXT_MAX];
        char change[160];
        bool is_coll = n->key >= CS_EXPLAIN_KEY_COLL;
        (void)fprintf(out, "  %-12s %14s -> %-14s %s\n", key_name(n->key),
                      is_coll ? algorithm_text(report, report->result->ranking[0].algorithm_set, n->key)
                              : any_key_text(winner, n->key, from, sizeof from),
                      is_coll ? algorithm_text(report, n->algorithm_set, n->key)
                              : any_key_text(strategy_of(report, n->candidate), n->key, to, sizeof to),
                      change_text(report, n, change, sizeof change));
    }
}

static void print_robustness(FILE *out, const struct cs_search_report *report, const struct cs_explanation *e)
{
    char label[64];
    char text[640];
    bool simulated = e->shaken[0].n_simulated > 0;
    (void)snprintf(
        text, sizeof text,
        "%lld other%s of the simulated %s within %.2g %% and cannot be told apart; on other hardware (%s)",
        (long long)e->n_ties, e->n_ties == 1 ? "" : "s", e->n_ties == 1 ? "is" : "are",
        100 * cs_explain_tie_frac(report->study), simulated ? "the best few simulated" : "closed form");
    (void)fputc('\n', out);
    cs__paragraph(out, "firm?       ", text);
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        const struct cs_shaken *s = &e->shaken[i];
        char better[512];
        char of[32] = "";
        if (s->n_simulated > 0) {
            (void)snprintf(of, sizeof of, " of %d", (int)s->n_simulated);
        }
        (void)snprintf(label, sizeof label, "  %-24s %+4.0f %%  ", s->what, 100 * (s->factor - 1));
        (void)snprintf(text, sizeof text, "rank %lld%s", (long long)s->rank, of);
        if (s->rank == 0) {
            (void)snprintf(text, sizeof text, "not known: the best has no closed form");
        } else if (s->winner_breaks) {
            (void)snprintf(text, sizeof text, "breaks a constraint; %s %s",
                           s->best == report->result->ranking[0].candidate ? "so do"
                                                                           : "the best that keeps them is",
                           s->best == report->result->ranking[0].candidate
                               ? "the other contenders"
                               : cs_strategy_format(strategy_of(report, s->best), better, sizeof better));
        } else if (s->rank > 1) {
            (void)snprintf(text, sizeof text, "rank %lld%s, %.2f %% behind %s", (long long)s->rank, of,
                           100 * s->lost_frac,
                           cs_strategy_format(strategy_of(report, s->best), better, sizeof better));
        }
        cs__paragraph(out, label, text);
    }
}

static void print_front(FILE *out, const struct cs_search_report *report, const struct cs_explanation *e)
{
    char memory[32];
    char strategy[CS_STRATEGY_TEXT_MAX];
    char algorithms[128];
    char label[64];
    char text[CS_STRATEGY_TEXT_MAX + 192];
    (void)snprintf(text, sizeof text,
                   e->front_is_whole ? "nothing that fits is both faster and smaller (%lld simulated for it)"
                                     : "of what the search simulated nothing is both faster and smaller",
                   (long long)e->n_front_simulated);
    (void)fputs("\nless memory for more time: on one cluster cost is time\n", out);
    cs__paragraph(out, "  ", text);
    for (int64_t i = 0; i < e->n_front; i++) {
        const struct cs_front_point *point = &e->front[i];
        (void)snprintf(label, sizeof label, "  %10.4g s  %10s  ", point->time_s,
                       cs_units_format((double)point->memory_bytes, CS_UNIT_BYTES, memory, sizeof memory));
        (void)snprintf(
            text, sizeof text, "%s%s%s",
            cs_strategy_format(strategy_of(report, point->candidate), strategy, sizeof strategy),
            cs__algorithms_text(report->study, point->algorithm_set, algorithms, sizeof algorithms),
            point->simulated ? "" : " (closed form, at least)");
        cs__paragraph(out, label, text);
    }
}

static double share_s(const struct cs_run *run, const char *what)
{
    for (int32_t i = 0; i < run->n_path; i++) {
        if (strcmp(run->path[i].what, what) == 0) {
            return run->path[i].time_s;
        }
    }
    return 0;
}

/* Every part of either critical path, and what it differs by; the parts add up to the difference. */
static void print_baseline(FILE *out, const struct cs_explanation *e)
{
    char strategy[CS_STRATEGY_TEXT_MAX];
    double winner_s = e->winner.metrics.iteration_s;
    double own_s = e->baseline_run.metrics.iteration_s;
    (void)fprintf(
        out, "\nbaseline    %s\n            %.4g s a step against %.4g s, %+.1f %%%s\n",
        cs_strategy_format(&e->baseline, strategy, sizeof strategy), own_s, winner_s,
        100 * (own_s / winner_s - 1),
        e->baseline_evaluation.outcome == CS_OUTCOME_OK ? "" : ", and it does not fit or is not allowed");
    if (e->baseline_evaluation.outcome != CS_OUTCOME_OK) {
        cs__paragraph(out, "            ", e->baseline_evaluation.reason);
    }
    for (int32_t i = 0; i < e->baseline_run.n_path; i++) {
        const struct cs_path_share *share = &e->baseline_run.path[i];
        (void)fprintf(out, "  %-28s %+9.3f s\n", share->what,
                      share->time_s - share_s(&e->winner, share->what));
    }
    for (int32_t i = 0; i < e->winner.n_path; i++) {
        const struct cs_path_share *share = &e->winner.path[i];
        if (share_s(&e->baseline_run, share->what) <= 0) {
            (void)fprintf(out, "  %-28s %+9.3f s\n", share->what, -share->time_s);
        }
    }
}

void cs_report_explain_text(FILE *out, const struct cs_search_report *report,
                            const struct cs_explanation *explanation, bool color)
{
    (void)color;
    print_neighbours(out, report, explanation);
    print_robustness(out, report, explanation);
    print_front(out, report, explanation);
    if (explanation->has_baseline) {
        print_baseline(out, explanation);
    }
}

static json_t *path_json(const struct cs_run *run)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < run->n_path; i++) {
        json_t *entry = json_pack("{s:s, s:f}", "what", run->path[i].what, "time_s", run->path[i].time_s);
        (void)json_array_append_new(list, entry);
    }
    return list;
}

json_t *cs_report_explain_json(const struct cs_search_report *report, const struct cs_explanation *e)
{
    json_t *neighbours = json_array();
    json_t *robustness = json_array();
    json_t *front = json_array();
    double cost_per_s = report->study->search.device_hour_cost * report->study->platform.n_devices / 3600;
    bool has_cost = report->study->search.device_hour_cost > 0;
    for (int32_t i = 0; i < e->n_neighbours; i++) {
        const struct cs_neighbour *n = &e->neighbours[i];
        json_t *entry =
            json_pack("{s:s, s:o, s:s, s:o, s:o}", "key", key_name(n->key), "strategy",
                      cs_report_strategy_json(strategy_of(report, n->candidate)), "status",
                      cs_outcome_names[n->outcome], "step_time_change",
                      isnan(n->loss_frac) ? json_null() : json_real(n->loss_frac), "objective_change",
                      isnan(n->worse_frac) ? json_null() : json_real(change_frac(report, n)));
        if (n->key >= CS_EXPLAIN_KEY_COLL) {
            (void)json_object_set_new(entry, "algorithm",
                                      json_string(algorithm_text(report, n->algorithm_set, n->key)));
        }
        (void)json_array_append_new(neighbours, entry);
    }
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        const struct cs_shaken *s = &e->shaken[i];
        json_t *entry = json_pack("{s:s, s:f, s:i, s:I, s:b, s:f, s:o}", "what", s->what, "factor", s->factor,
                                  "simulated", (int)s->n_simulated, "rank", (json_int_t)s->rank,
                                  "breaks_constraint", (int)s->winner_breaks, "lost", s->lost_frac, "best",
                                  cs_report_strategy_json(strategy_of(report, s->best)));
        (void)json_array_append_new(robustness, entry);
    }
    for (int64_t i = 0; i < e->n_front; i++) {
        const struct cs_front_point *point = &e->front[i];
        json_t *entry =
            json_pack("{s:f, s:o, s:I, s:b, s:o}", "iteration_time_s", point->time_s, "cost_per_step",
                      has_cost ? json_real(cost_per_s * point->time_s) : json_null(), "peak_memory_bytes",
                      (json_int_t)point->memory_bytes, "simulated", (int)point->simulated, "strategy",
                      cs_report_strategy_json(strategy_of(report, point->candidate)));
        if (cs_study_n_algorithm_sets(report->study) > 1) {
            (void)json_object_set_new(entry, "collectives",
                                      cs__algorithms_json(report->study, point->algorithm_set));
        }
        (void)json_array_append_new(front, entry);
    }
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:I, s:o}", "critical_path", path_json(&e->winner), "neighbours",
                  neighbours, "robustness", robustness, "ties", (json_int_t)e->n_ties, "pareto", front);
    if (e->has_baseline) {
        json_t *baseline = cs_report_result_json(&e->baseline, &e->baseline_evaluation, report->study);
        (void)json_object_set_new(baseline, "critical_path", path_json(&e->baseline_run));
        (void)json_object_set_new(object, "baseline", baseline);
    }
    return object;
}
