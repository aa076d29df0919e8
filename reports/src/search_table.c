#include "grid_priv.h"
#include "text_priv.h"

#include "cs/base/units.h"
#include "cs/strategies/explain.h"

#include <math.h>
#include <string.h>

/* How each key is headed, and whether its column is there even if every row has the default. */
static const struct {
    const char *title[2];
    bool always;
} key_columns[CS_N_KEYS] = {
    [CS_KEY_DP] = {{"", "dp"}, true},
    [CS_KEY_MP] = {{"", "mp"}, true},
    [CS_KEY_PP] = {{"", "pp"}, true},
    [CS_KEY_OP] = {{"", "op"}, true},
    [CS_KEY_ZERO] = {{"", "zero"}, false},
    [CS_KEY_SP] = {{"", "sp"}, false},
    [CS_KEY_CP] = {{"", "cp"}, false},
    [CS_KEY_EP] = {{"", "ep"}, false},
    [CS_KEY_VPP] = {{"", "vpp"}, false},
    [CS_KEY_SCHEDULE] = {{"sche-", "dule"}, false},
    [CS_KEY_MICRO_BATCH] = {{"micro", "batch"}, true},
    [CS_KEY_RECOMPUTE] = {{"re-", "compute"}, false},
    [CS_KEY_PLACEMENT] = {{"", "placement"}, false},
    [CS_KEY_CP_KIND] = {{"cp", "kind"}, false},
    [CS_KEY_SEQ_SPLIT] = {{"seq", "split"}, false},
    [CS_KEY_HALF_BATCHES] = {{"half", "batches"}, false},
    [CS_KEY_FUSED_TP] = {{"fused", "tp"}, false},
    [CS_KEY_KEEP_COMM] = {{"keep", "comm"}, false},
    [CS_KEY_OFFLOAD_OPTIMIZER] = {{"off-", "load"}, false},
    [CS_KEY_SWAP_ACTIVATIONS] = {{"swap", ""}, false},
    [CS_KEY_EXPERT_MP] = {{"expert", "mp"}, false},
    [CS_KEY_KEEP_WEIGHTS] = {{"keep", "weights"}, false},
};

static int64_t n_shown(const struct cs_search_report *report)
{
    int64_t n_top = report->study->search.n_top;
    return n_top < report->result->n_ranked ? n_top : report->result->n_ranked;
}

static const struct cs_strategy *strategy_of(const struct cs_search_report *report, int64_t rank)
{
    return &report->space->candidates[report->result->ranking[rank].candidate].strategy;
}

const char *cs__algorithms_text(const struct cs_study *study, int32_t set, char *buf, size_t buf_bytes)
{
    enum cs_algorithm algorithm[CS_N_COLLS];
    size_t used = 0;
    buf[0] = '\0';
    memcpy(algorithm, study->runtime.algorithm, sizeof algorithm);
    cs_study_algorithm_set(study, set, algorithm);
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        if (study->runtime.choices[coll] && used < buf_bytes) {
            int n = snprintf(buf + used, buf_bytes - used, " %s=%s", cs_coll_names[coll],
                             cs_algorithm_names[algorithm[coll]]);
            used += n > 0 ? (size_t)n : 0;
        }
    }
    return buf;
}

static const char *algorithms_text(const struct cs_search_report *report, int64_t rank, char *buf,
                                   size_t buf_bytes)
{
    return cs__algorithms_text(report->study, report->result->ranking[rank].algorithm_set, buf, buf_bytes);
}

static const char *tie_mark(const struct cs_search_report *report, int64_t i)
{
    return cs_report_is_tie(report, i) ? "=" : "";
}

/* A key is worth a column when a shown row is not at the default. */
static bool has_column(const struct cs_search_report *report, enum cs_key key)
{
    struct cs_strategy standard;
    cs_strategy_init(&standard);
    bool shown = key_columns[key].always;
    for (int64_t i = 0; i < n_shown(report) && !shown; i++) {
        shown = cs_key_get(strategy_of(report, i), key) != cs_key_get(&standard, key);
    }
    return shown;
}

static void add_figure_columns(struct cs__grid *grid)
{
    static const char *const titles[][2] = {{"", "tokens/s"},  {"TFLOPS/", "device"}, {"", "MFU"},
                                            {"", "bubble"},    {"exposed", "comm"},   {"cross", "node"},
                                            {"peak", "memory"}};
    for (int32_t i = 0; i < CS_COUNT(titles); i++) {
        (void)cs__grid_column(grid, titles[i][0], titles[i][1], false, i == 0 ? 2 : 1);
    }
}

static void add_figures(struct cs__grid *grid, int32_t column, const struct cs_metrics *metrics)
{
    char tokens[32];
    char memory[32];
    cs__grid_cell(grid, column++, "%s",
                  cs__count((int64_t)(metrics->tokens_per_s + 0.5), tokens, sizeof tokens));
    cs__grid_cell(grid, column++, "%.1f", metrics->tflops_per_device);
    cs__grid_cell(grid, column++, "%.1f%%", 100 * metrics->mfu_frac);
    const double shares[] = {metrics->bubble_frac, metrics->exposed_comm_frac, metrics->cross_node_comm_frac};
    for (int32_t i = 0; i < CS_COUNT(shares); i++) {
        if (metrics->fidelity == CS_FIDELITY_ANALYTIC) {
            cs__grid_cell(grid, column++, "-");
        } else {
            cs__grid_cell(grid, column++, "%.1f%%", 100 * shares[i]);
        }
    }
    cs__grid_cell(grid, column, "%s",
                  cs_units_format((double)metrics->peak_memory_bytes, CS_UNIT_BYTES, memory, sizeof memory));
}

/* A column for each key of the strategies. */
static void fill_by_keys(struct cs__grid *grid, const struct cs_search_report *report)
{
    int32_t columns[CS_N_KEYS];
    (void)cs__grid_column(grid, "", "rank", false, 0);
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        columns[key] = -1;
        if (has_column(report, (enum cs_key)key)) {
            columns[key] = cs__grid_column(grid, key_columns[key].title[0], key_columns[key].title[1], false,
                                           key == CS_KEY_DP ? 2 : 1);
        }
    }
    int32_t first_figure = grid->n_columns;
    add_figure_columns(grid);
    for (int64_t i = 0; i < n_shown(report); i++) {
        char buf[64];
        cs__grid_row(grid);
        cs__grid_cell(grid, 0, "%lld%s", (long long)i + 1, tie_mark(report, i));
        for (int32_t key = 0; key < CS_N_KEYS; key++) {
            if (columns[key] >= 0) {
                cs__grid_cell(grid, columns[key], "%s",
                              cs__key_text(strategy_of(report, i), (enum cs_key)key, buf, sizeof buf));
            }
        }
        add_figures(grid, first_figure, &report->result->ranking[i].metrics);
    }
}

/* The strategy as one text, on a line of its own under its figures: for spaces with many keys. */
static void print_by_text(FILE *out, const struct cs_search_report *report, bool color)
{
    struct cs__grid grid = {0};
    (void)cs__grid_column(&grid, "", "rank", false, 0);
    add_figure_columns(&grid);
    for (int64_t i = 0; i < n_shown(report); i++) {
        cs__grid_row(&grid);
        cs__grid_cell(&grid, 0, "%lld%s", (long long)i + 1, tie_mark(report, i));
        add_figures(&grid, 1, &report->result->ranking[i].metrics);
    }
    cs__grid_print(&grid, out, color);
    cs__grid_release(&grid);
    for (int64_t i = 0; i < n_shown(report); i++) {
        char label[32];
        char strategy[CS_STRATEGY_TEXT_MAX];
        char algorithms[128];
        char text[768];
        (void)snprintf(label, sizeof label, "%4lld  ", (long long)i + 1);
        (void)snprintf(text, sizeof text, "%s%s",
                       cs_strategy_format(strategy_of(report, i), strategy, sizeof strategy),
                       algorithms_text(report, i, algorithms, sizeof algorithms));
        cs__paragraph(out, label, text);
    }
}

/* Lists are too long for columns. */
static bool has_lists(const struct cs_search_report *report)
{
    bool any = false;
    for (int64_t i = 0; i < n_shown(report); i++) {
        const struct cs_strategy *s = strategy_of(report, i);
        any = any || s->layers.n > 0 || s->full_layers.n > 0 || s->selective_layers.n > 0;
    }
    return any;
}

static void print_ranking(FILE *out, const struct cs_search_report *report, bool color)
{
    struct cs__grid grid = {0};
    fill_by_keys(&grid, report);
    bool has_sets = cs_study_n_algorithm_sets(report->study) > 1;
    if (cs__grid_width(&grid) <= CS_REPORT_COLUMNS && !has_lists(report) && !has_sets) {
        /* The keys are the strategy: said over them, so that a reader finds the word. */
        cs__emphasise(out, color, CS__STRONG, "      strategy");
        (void)fputc('\n', out);
        cs__grid_print(&grid, out, color);
    } else {
        print_by_text(out, report, color);
    }
    cs__grid_release(&grid);
}

static void print_head(FILE *out, const struct cs_search_report *report)
{
    static const char *const ends[] = {
        [CS_SEARCH_FINISHED] = "best found",
        [CS_SEARCH_TIME_LIMIT] = "time limit reached, best so far",
        [CS_SEARCH_INTERRUPTED] = "interrupted, best so far",
        [CS_SEARCH_SIMULATION_LIMIT] = "limit of simulations reached, best so far",
    };
    const struct cs_search_result *result = report->result;
    char candidates[32];
    char simulated[32];
    char remembered[64] = "";
    char text[320];
    cs__inputs(out, report->study);
    int64_t n_evaluated = cs_study_n_algorithm_sets(report->study) * report->space->n_open - result->n_open;
    if (result->n_remembered > 0) { /* simulated, but not today */
        (void)snprintf(remembered, sizeof remembered, " (%s of them remembered)",
                       cs__count(result->n_remembered, simulated, sizeof simulated));
    }
    (void)snprintf(text, sizeof text,
                   "%s search of %s strategies in %.1f s (%.0f a second): %s simulated%s, %s",
                   result->analytic ? "analytic" : result->algorithm->name,
                   cs__count(result->n_candidates, candidates, sizeof candidates), result->elapsed_s,
                   result->elapsed_s > 0 ? (double)n_evaluated / result->elapsed_s : 0,
                   cs__count(result->n_simulated, simulated, sizeof simulated), remembered,
                   result->analytic   ? "ranked by the closed form"
                   : result->complete ? "nothing better exists"
                                      : ends[result->end]);
    cs__paragraph(out, "", text);
    if (result->analytic) {
        (void)fputs(
            "closed form only (fidelity analytic): no contention, no proof; simulate what you choose\n", out);
    }
}

static void print_ties(FILE *out, const struct cs_search_report *report)
{
    int64_t n = 0;
    for (int64_t i = 1; i < report->result->n_ranked; i++) {
        n += cs_report_is_tie(report, i);
    }
    if (n > 0) {
        (void)fprintf(out,
                      "=           %lld of the simulated within %.2g %% of the best: the model cannot tell "
                      "them apart\n",
                      (long long)n, 100 * cs_explain_tie_frac(report->study));
    }
}

static void print_winner(FILE *out, const struct cs_search_report *report)
{
    const struct cs_search_result *result = report->result;
    const struct cs_metrics *best = &result->ranking[0].metrics;
    char strategy[CS_STRATEGY_TEXT_MAX];
    char algorithms[128];
    char text[512];
    char count[32];
    (void)fputc('\n', out);
    (void)snprintf(text, sizeof text, "%s%s",
                   cs_strategy_format(strategy_of(report, 0), strategy, sizeof strategy),
                   algorithms_text(report, 0, algorithms, sizeof algorithms));
    cs__paragraph(out, "best        ", text);
    const struct cs_objective *objective = result->objective;
    if (strcmp(objective->name, cs_objectives[0].name) != 0) {
        (void)snprintf(text, sizeof text, "%s %.6g: %s", objective->name,
                       objective->value(best, report->study), objective->summary);
        cs__paragraph(out, "objective   ", text);
    }
    double median = cs_report_median_tokens_per_s(result);
    if (median > 0 && result->n_ranked > 1) {
        (void)snprintf(text, sizeof text,
                       "%.4g s a step, %+.1f %% tokens/s against the median of the %s simulated",
                       best->iteration_s, 100 * (best->tokens_per_s / median - 1),
                       cs__count(result->n_ranked, count, sizeof count));
        cs__paragraph(out, "            ", text);
    }
    if (best->limited_by[0]) {
        cs__paragraph(out, "limited by  ", best->limited_by);
    }
    if (!result->complete && !isnan(result->gap_frac)) {
        (void)snprintf(text, sizeof text,
                       "what %sis left is at most %.3g %% better than the best, by its lower bounds",
                       result->looked_at ? "was looked at and " : "", 100 * result->gap_frac);
        cs__paragraph(out, "gap         ", text);
    }
}

static void print_reasons(FILE *out, const struct cs_search_report *report)
{
    const struct cs_search_result *result = report->result;
    char count[32];
    if (result->n_reasons > 0) {
        (void)fprintf(out, "\nnot ranked  %s of %s\n",
                      cs__count(result->n_oom + result->n_rejected + result->n_failed, count, sizeof count),
                      cs__count(result->n_candidates, (char[32]){0}, 32));
    }
    for (int32_t i = 0; i < result->n_reasons; i++) {
        const struct cs_reason *reason = &result->reasons[i];
        char label[96];
        (void)snprintf(label, sizeof label, "  %-9s %8s  ", cs_outcome_names[reason->outcome],
                       cs__count(reason->n, count, sizeof count));
        char text[CS_RULE_MAX + CS_REASON_MAX + 16];
        (void)snprintf(text, sizeof text, "%s: %s%s", reason->rule, reason->n > 1 ? "e.g. " : "",
                       reason->example);
        cs__paragraph(out, label, text);
    }
    if (result->n_open > 0) {
        char text[160] = "not simulated";
        char looked[32];
        char valid[32];
        char label[96];
        if (result->looked_at) {
            (void)snprintf(
                text, sizeof text,
                "not simulated; of the %s that keep the rules %s were looked at, spread over the space",
                cs__count(cs_study_n_algorithm_sets(report->study) * report->space->n_open, valid,
                          sizeof valid),
                cs__count(result->n_looked, looked, sizeof looked));
        }
        (void)snprintf(label, sizeof label, "  %-9s %8s  ", "open",
                       cs__count(result->n_open, count, sizeof count));
        cs__paragraph(out, label, text);
    }
}

struct warning_context {
    FILE *out;
    bool color;
    bool any;
};

static void add_warning(void *context, const char *text)
{
    struct warning_context *warning = context;
    if (!warning->any) {
        (void)fputc('\n', warning->out);
        warning->any = true;
    }
    cs__warning_line(warning->out, warning->color, text);
}

/* The shown strategies whose communication is above the threshold, but for the first, which gets its own
 * warnings. */
static void warn_of_others(const struct cs_search_report *report, struct warning_context *context)
{
    char text[256] = "communication above 30 % of the step also at rank";
    size_t used = strlen(text);
    bool any = false;
    for (int64_t i = 1; i < n_shown(report) && used + 32 < sizeof text; i++) {
        const struct cs_metrics *metrics = &report->result->ranking[i].metrics;
        if (metrics->comm_frac > CS_REPORT_COMM_WARNING_FRAC) {
            int n = snprintf(text + used, sizeof text - used, "%s %lld (%.0f %%)", any ? "," : "",
                             (long long)i + 1, 100 * metrics->comm_frac);
            used += n > 0 ? (size_t)n : 0;
            any = true;
        }
    }
    if (any) {
        add_warning(context, text);
    }
}

void cs_report_search_table(FILE *out, const struct cs_search_report *report, bool color)
{
    const struct cs_search_result *result = report->result;
    print_head(out, report);
    if (result->n_ranked > 0) {
        (void)fputc('\n', out);
        print_ranking(out, report, color);
        print_winner(out, report);
        print_ties(out, report);
    } else {
        (void)fputs(result->n_open > 0 ? "\nno strategy found yet\n" : "\nnothing fits\n", out);
    }
    print_reasons(out, report);
    if (result->n_ranked > 0) {
        struct cs_evaluation evaluation;
        struct warning_context context = {out, color, false};
        cs_report_ranked_evaluation(&result->ranking[0], &evaluation);
        cs_report_warnings(strategy_of(report, 0), &evaluation, report->study, add_warning, &context);
        warn_of_others(report, &context);
    }
}

void cs_report_space_text(FILE *out, const struct cs_search_report *report, bool color)
{
    const struct cs_space *space = report->space;
    const struct cs_search_result *result = report->result;
    int64_t n_sets = cs_study_n_algorithm_sets(report->study);
    char count[32];
    char other[32];
    char label[64];
    char text[CS_RULE_MAX + CS_REASON_MAX + 16];
    cs__inputs(out, report->study);
    (void)fprintf(out, "%s combinations of what the study leaves open, %s of them the same run as another\n",
                  cs__count(n_sets * space->n_combinations, count, sizeof count),
                  cs__count(n_sets * space->n_duplicates, other, sizeof other));
    (void)fprintf(out, "%9s  strategies\n", cs__count(n_sets * space->n_candidates, count, sizeof count));
    for (int32_t i = 0; i < result->n_reasons; i++) {
        const struct cs_reason *reason = &result->reasons[result->n_reasons - 1 - i]; /* rules, then memory */
        (void)snprintf(other, sizeof other, "-%s", cs__count(reason->n, count, sizeof count));
        (void)snprintf(label, sizeof label, "%9s  ", other);
        (void)snprintf(text, sizeof text, "%s: e.g. %s", reason->rule, reason->example);
        cs__paragraph(out, label, text);
    }
    if (result->looked_at) {
        (void)fprintf(out, "%9s  not looked at: the time limit was reached\n",
                      cs__count(n_sets * space->n_open - result->n_looked, count, sizeof count));
    }
    (void)snprintf(label, sizeof label, "%9s", cs__count(result->n_fit, count, sizeof count));
    cs__emphasise(out, color, CS__STRONG, label);
    (void)fputs("  that fit: the search simulates those that it cannot rule out\n", out);
}
