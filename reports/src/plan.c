#include "cs/reports/plan.h"

#include "grid_priv.h"
#include "text_priv.h"

#include "cs/base/units.h"

#include <math.h>

#define SECONDS_PER_DAY 86400.0
#define JOULE_PER_KWH 3.6e6

/* "12,300 USD" or "unknown" */
static const char *cost_text(const struct cs_plan *plan, double cost, char *buf, size_t buf_bytes)
{
    char number[32];
    if (isnan(cost)) {
        return "-";
    }
    (void)snprintf(buf, buf_bytes, "%s%s%s", cs__count((int64_t)(cost + 0.5), number, sizeof number),
                   plan->currency[0] ? " " : "", plan->currency);
    return buf;
}

static void add_columns(struct cs__grid *grid)
{
    static const char *const titles[][2] = {
        {"", "nodes"},    {"", "devices"}, {"", "tokens/s"}, {"", "MFU"},       {"scaling", "efficiency"},
        {"good-", "put"}, {"", "days"},    {"", "cost"},     {"energy", "MWh"}, {"", "meets"}};
    for (int32_t i = 0; i < CS_COUNT(titles); i++) {
        (void)cs__grid_column(grid, titles[i][0], titles[i][1], false, i == 0 ? 2 : 1);
    }
}

static void add_row(struct cs__grid *grid, const struct cs_plan_report *report, int32_t at)
{
    const struct cs_point *point = &report->points[at];
    const struct cs_plan_row *row = &report->answer->rows[at];
    int32_t column = 0;
    char buf[64];
    cs__grid_row(grid);
    if (!row->works) {
        static const char *const words[] = {"not reached", "", "nothing fits", "refused", "failed"};
        if (point->n_devices > 0) {
            cs__grid_cell(grid, column, "%d", (int)point->n_nodes);
            cs__grid_cell(grid, column + 1, "%d", (int)point->n_devices);
        } else {
            cs__grid_cell(grid, column, "%s", report->plan->clusters[at].size);
        }
        cs__grid_cell(grid, column + 2, "%s", words[point->outcome]);
        return;
    }
    cs__grid_cell(grid, column++, "%d", (int)point->n_nodes);
    cs__grid_cell(grid, column++, "%d", (int)point->n_devices);
    cs__grid_cell(grid, column++, "%s",
                  cs__count((int64_t)(point->metrics.tokens_per_s + 0.5), buf, sizeof buf));
    cs__grid_cell(grid, column++, "%.1f%%", 100 * point->metrics.mfu_frac);
    cs__grid_cell(grid, column++, "%.1f%%", 100 * row->efficiency_frac);
    cs__grid_cell(grid, column++, "%.1f%%", 100 * row->goodput_frac);
    if (row->never) {
        cs__grid_cell(grid, column++, "never");
    } else {
        cs__grid_cell(grid, column++, "%.4g", row->time_s / SECONDS_PER_DAY);
    }
    cs__grid_cell(grid, column++, "%s", cost_text(report->plan, row->cost, buf, sizeof buf));
    if (isnan(row->energy_j)) {
        cs__grid_cell(grid, column++, "-");
    } else {
        cs__grid_cell(grid, column++, "%.4g", row->energy_j / JOULE_PER_KWH / 1000);
    }
    cs__grid_cell(grid, column, "%s", row->meets ? "yes" : "no");
}

static void print_goal(FILE *out, const struct cs_plan_report *report)
{
    const struct cs_plan *plan = report->plan;
    char budget[64];
    (void)fprintf(out, "%.4g tokens", plan->n_tokens);
    if (isfinite(plan->deadline_s)) {
        bool one = fabs(plan->deadline_s - SECONDS_PER_DAY) < 1;
        (void)fprintf(out, " in %.4g day%s", plan->deadline_s / SECONDS_PER_DAY, one ? "" : "s");
    }
    if (isfinite(plan->budget)) {
        (void)fprintf(out, " for %s", cost_text(plan, plan->budget, budget, sizeof budget));
    }
    (void)fprintf(out, ": %d cluster%s to choose from\n", (int)plan->n_clusters,
                  plan->n_clusters == 1 ? "" : "s");
}

static void print_choice(FILE *out, const struct cs_plan_report *report, const char *label, int32_t at)
{
    const struct cs_plan_row *row = &report->answer->rows[at];
    const struct cs_point *point = &report->points[at];
    char strategy[CS_STRATEGY_TEXT_MAX];
    char cost[64];
    (void)fprintf(out, "%-9s %d node%s (%d devices), %s: %.4g days", label, (int)point->n_nodes,
                  point->n_nodes == 1 ? "" : "s", (int)point->n_devices, report->plan->clusters[at].family,
                  row->time_s / SECONDS_PER_DAY);
    if (!isnan(row->cost)) {
        (void)fprintf(out, ", %s", cost_text(report->plan, row->cost, cost, sizeof cost));
    }
    if (isfinite(row->mtbf_s)) {
        (void)fprintf(out,
                      "\n          a failure every %.4g h, a checkpoint every %.4g min: goodput %.2f %%, "
                      "simulated %.2f %%",
                      row->mtbf_s / 3600, row->interval_s / 60, 100 * row->goodput_frac,
                      100 * row->goodput_simulated_frac);
    }
    (void)fprintf(out, "\n          %s\n", cs_strategy_format(&point->strategy, strategy, sizeof strategy));
}

/* Does a strategy fit one of the clusters? */
static bool any_works(const struct cs_plan_report *report)
{
    for (int32_t i = 0; i < report->plan->n_clusters; i++) {
        if (report->answer->rows[i].works) {
            return true;
        }
    }
    return false;
}

static void print_choices(FILE *out, const struct cs_plan_report *report)
{
    const struct cs_plan_answer *answer = report->answer;
    if (answer->smallest >= 0) {
        print_choice(out, report, "smallest", answer->smallest);
        if (answer->cheapest >= 0) {
            print_choice(out, report, "cheapest", answer->cheapest);
        } else {
            (void)fputs("cheapest  not known: no 'node_price_per_hour' is given\n", out);
        }
        return;
    }
    (void)fputs("none of the clusters meets it\n", out);
    if (answer->fastest >= 0) {
        print_choice(out, report, "fastest", answer->fastest);
    } else if (any_works(report)) {
        (void)fputs("fastest   none is ever done: failures take all of the time\n", out);
    } else {
        (void)fputs("fastest   none can train the model at all\n", out);
    }
}

void cs_report_plan_text(FILE *out, const struct cs_plan_report *report, bool color)
{
    const struct cs_plan *plan = report->plan;
    print_goal(out, report);
    for (int32_t i = 0; i < plan->n_clusters;) {
        struct cs__grid grid = {0};
        int32_t end = i;
        add_columns(&grid);
        for (; end < plan->n_clusters && plan->clusters[end].family_idx == plan->clusters[i].family_idx;
             end++) {
            add_row(&grid, report, end);
        }
        (void)fprintf(out, "\n%s\n", plan->clusters[i].family);
        cs__grid_print(&grid, out, color);
        cs__grid_release(&grid);
        for (; i < end; i++) {
            if (report->answer->rows[i].note[0]) {
                (void)fprintf(out, "  %s: %s\n", plan->clusters[i].size, report->answer->rows[i].note);
            }
        }
    }
    (void)fputc('\n', out);
    print_choices(out, report);
}

/* ---- JSON, CSV ---- */

static json_t *row_json(const struct cs_plan_report *report, int32_t at)
{
    const struct cs_plan_row *row = &report->answer->rows[at];
    json_t *object = cs_report_point_json(&report->points[at]);
    (void)json_object_set_new(object, "family", json_string(report->plan->clusters[at].family));
    (void)json_object_set_new(object, "meets", json_boolean(row->meets));
    (void)json_object_set_new(object, "never", json_boolean(row->never));
    (void)json_object_set_new(object, "mtbf_s", cs_json_real(row->mtbf_s));
    (void)json_object_set_new(object, "checkpoint_interval_s", cs_json_real(row->interval_s));
    (void)json_object_set_new(object, "goodput_fraction", cs_json_real(row->goodput_frac));
    (void)json_object_set_new(object, "goodput_simulated_fraction",
                              cs_json_real(row->goodput_simulated_frac));
    (void)json_object_set_new(object, "time_s", cs_json_real(row->time_s));
    (void)json_object_set_new(object, "days", cs_json_real(row->time_s / SECONDS_PER_DAY));
    (void)json_object_set_new(object, "cost", cs_json_real(row->cost));
    (void)json_object_set_new(object, "energy_j", cs_json_real(row->energy_j));
    (void)json_object_set_new(object, "scaling_efficiency_fraction", cs_json_real(row->efficiency_frac));
    (void)json_object_set_new(object, "faster_smaller",
                              row->faster_smaller >= 0 ? json_integer(row->faster_smaller) : json_null());
    (void)json_object_set_new(object, "note", json_string(row->note));
    return object;
}

static json_t *index_or_null(int32_t at)
{
    return at >= 0 ? json_integer(at) : json_null();
}

json_t *cs_report_plan_json(const struct cs_plan_report *report, const struct cs_report_origin *origin)
{
    const struct cs_plan *plan = report->plan;
    json_t *object = json_object();
    json_t *clusters = json_array();
    for (int32_t i = 0; i < plan->n_clusters; i++) {
        (void)json_array_append_new(clusters, row_json(report, i));
    }
    (void)json_object_set_new(object, "tokens", cs_json_real(plan->n_tokens));
    (void)json_object_set_new(object, "deadline_s", cs_json_real(plan->deadline_s));
    (void)json_object_set_new(object, "budget", cs_json_real(plan->budget));
    (void)json_object_set_new(object, "currency", json_string(plan->currency));
    (void)json_object_set_new(object, "clusters", clusters);
    (void)json_object_set_new(object, "smallest", index_or_null(report->answer->smallest));
    (void)json_object_set_new(object, "cheapest", index_or_null(report->answer->cheapest));
    (void)json_object_set_new(object, "fastest", index_or_null(report->answer->fastest));
    (void)json_object_set_new(object, "inputs",
                              json_pack("{s:s?, s:{s:s, s:s?, s:s}}", "study", report->study, "made_by",
                                        "program", "clustersim", "version", origin->version, "command",
                                        origin->command));
    return object;
}

static void csv_real(FILE *out, double value)
{
    (void)fputc(',', out);
    if (isfinite(value)) {
        (void)fprintf(out, "%.9g", value);
    }
}

void cs_report_plan_csv(FILE *out, const struct cs_plan_report *report)
{
    (void)fputs("family,size,meets,days,cost,energy_j,goodput_fraction,goodput_simulated_fraction,mtbf_s,"
                "checkpoint_interval_s,"
                "scaling_efficiency_fraction,",
                out);
    cs_report_point_csv_head(out);
    (void)fputc('\n', out);
    for (int32_t i = 0; i < report->plan->n_clusters; i++) {
        const struct cs_plan_row *row = &report->answer->rows[i];
        const double figures[] = {
            row->time_s / SECONDS_PER_DAY, row->cost,   row->energy_j,   row->goodput_frac,
            row->goodput_simulated_frac,   row->mtbf_s, row->interval_s, row->efficiency_frac};
        cs_report_csv_text(out, report->plan->clusters[i].family);
        (void)fputc(',', out);
        cs_report_csv_text(out, report->plan->clusters[i].size);
        (void)fputs(row->meets ? ",yes" : ",no", out);
        for (int32_t f = 0; f < CS_COUNT(figures); f++) {
            csv_real(out, figures[f]);
        }
        (void)fputc(',', out);
        cs_report_point_csv(out, &report->points[i]);
        (void)fputc('\n', out);
    }
}
