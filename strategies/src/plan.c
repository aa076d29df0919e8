/* From points to answers of a plan. */
#include "cs/strategies/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECONDS_PER_H 3600.0
#define SIMULATED_SEED 1

static void explain_never(const struct cs_plan *plan, struct cs_plan_row *row)
{
    row->tokens_per_s = 0;
    row->time_s = (double)INFINITY;
    (void)snprintf(
        row->note, sizeof row->note,
        "never done: a failure every %.3g min, but %.3g min of training between checkpoints of %.3g "
        "min and a restart of %.3g min",
        row->mtbf_s / 60, row->interval_s / 60, plan->checkpoint_s / 60, plan->restart_s / 60);
}

static void fill_row(const struct cs_plan *plan, const struct cs_plan_cluster *cluster,
                     const struct cs_point *point, struct cs_plan_row *row)
{
    const double unknown = (double)NAN;
    *row = (struct cs_plan_row){.mtbf_s = unknown,
                                .interval_s = unknown,
                                .goodput_frac = unknown,
                                .goodput_simulated_frac = unknown,
                                .tokens_per_s = unknown,
                                .time_s = unknown,
                                .cost = unknown,
                                .energy_j = unknown,
                                .efficiency_frac = unknown,
                                .faster_smaller = -1};
    row->works = point->outcome == CS_OUTCOME_OK;
    if (!row->works) {
        (void)snprintf(row->note, sizeof row->note, "%.240s", point->reason);
        return;
    }
    row->mtbf_s = cs_cluster_mtbf_s(cluster->node_mtbf_s, point->n_nodes);
    row->interval_s =
        plan->interval_s > 0 ? plan->interval_s : cs_interval_daly_s(row->mtbf_s, plan->checkpoint_s);
    struct cs_failures failures = {row->mtbf_s, plan->checkpoint_s, plan->restart_s, row->interval_s};
    row->goodput_frac = cs_goodput_frac(&failures);
    row->never = row->goodput_frac < CS_PLAN_GOODPUT_MIN;
    if (row->never) { /* before years of failures are simulated */
        explain_never(plan, row);
        return;
    }
    row->goodput_simulated_frac =
        cs_goodput_simulated_frac(&failures, CS_PLAN_INTERVALS, SIMULATED_SEED, NULL);
    row->tokens_per_s = point->metrics.tokens_per_s * row->goodput_frac;
    row->time_s = plan->n_tokens / row->tokens_per_s;
    row->cost = cluster->node_price_per_h * point->n_nodes * row->time_s / SECONDS_PER_H;
    row->energy_j = cluster->node_power_w * point->n_nodes * row->time_s;
    row->meets = row->time_s <= plan->deadline_s && !(row->cost > plan->budget);
}

/* Why is this one slower than a smaller one? What its step waits for more, and what failures take more. */
static void explain_slower(const struct cs_point *points, struct cs_plan_row *rows, int32_t at,
                           int32_t smaller)
{
    const struct cs_metrics *here = &points[at].metrics;
    const struct cs_metrics *there = &points[smaller].metrics;
    const struct {
        const char *what;
        double here_frac, there_frac;
    } shares[] = {
        {"bubble", here->bubble_frac, there->bubble_frac},
        {"exposed communication", here->exposed_comm_frac, there->exposed_comm_frac},
        {"failures and checkpoints", 1 - rows[at].goodput_frac, 1 - rows[smaller].goodput_frac},
    };
    char *note = rows[at].note;
    int len = snprintf(note, CS_PLAN_NOTE_MAX, "%d node%s done earlier", (int)points[smaller].n_nodes,
                       points[smaller].n_nodes == 1 ? " is" : "s are");
    const char *separator = ": ";
    for (int32_t i = 0; i < CS_COUNT(shares) && len < CS_PLAN_NOTE_MAX; i++) {
        if (shares[i].here_frac > shares[i].there_frac + 0.005) {
            len += snprintf(note + len, (size_t)(CS_PLAN_NOTE_MAX - len), "%s%s %.1f %% instead of %.1f %%",
                            separator, shares[i].what, 100 * shares[i].here_frac, 100 * shares[i].there_frac);
            separator = ", ";
        }
    }
    if (separator[0] == ':' && len < CS_PLAN_NOTE_MAX) {
        (void)snprintf(note + len, (size_t)(CS_PLAN_NOTE_MAX - len),
                       ": its matrices are larger, %.1f %% of peak instead of %.1f %%", 100 * there->hfu_frac,
                       100 * here->hfu_frac);
    }
}

/* Compare a cluster with the smaller ones of its family. */
static void compare_family(const struct cs_plan *plan, const struct cs_point *points,
                           struct cs_plan_row *rows, int32_t at)
{
    int32_t first = -1;
    int32_t faster = -1;
    for (int32_t i = 0; i < at && rows[at].works; i++) {
        if (plan->clusters[i].family_idx == plan->clusters[at].family_idx && rows[i].works) {
            first = first < 0 ? i : first;
            if (rows[i].time_s < rows[at].time_s * (1 - 1e-9) &&
                (faster < 0 || rows[i].time_s < rows[faster].time_s)) {
                faster = i;
            }
        }
    }
    if (rows[at].works) {
        first = first < 0 ? at : first;
        rows[at].efficiency_frac = points[at].metrics.tokens_per_s / points[at].n_devices /
                                   (points[first].metrics.tokens_per_s / points[first].n_devices);
    }
    rows[at].faster_smaller = faster;
    if (faster >= 0 && !rows[at].never) {
        explain_slower(points, rows, at, faster);
    }
}

void cs_plan_answer(const struct cs_plan *plan, const struct cs_point *points, struct cs_plan_answer *answer)
{
    struct cs_plan_row *rows = answer->rows;
    answer->smallest = answer->cheapest = answer->fastest = -1;
    for (int32_t i = 0; i < plan->n_clusters; i++) {
        fill_row(plan, &plan->clusters[i], &points[i], &rows[i]);
        compare_family(plan, points, rows, i);
    }
    for (int32_t i = 0; i < plan->n_clusters; i++) {
        int32_t smallest = answer->smallest;
        if (rows[i].works && !rows[i].never &&
            (answer->fastest < 0 || rows[i].time_s < rows[answer->fastest].time_s)) {
            answer->fastest = i;
        }
        if (!rows[i].meets) {
            continue;
        }
        if (smallest < 0 || points[i].n_devices < points[smallest].n_devices ||
            (points[i].n_devices == points[smallest].n_devices && rows[i].time_s < rows[smallest].time_s)) {
            answer->smallest = i;
        }
        if (!isnan(rows[i].cost) && (answer->cheapest < 0 || rows[i].cost < rows[answer->cheapest].cost)) {
            answer->cheapest = i;
        }
    }
}
