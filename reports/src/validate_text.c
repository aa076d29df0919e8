#include "cs/reports/validate.h"

#include <math.h>
#include <string.h>

static void print_sets(FILE *out, const struct cs_errors *errors)
{
    const bool doubt = errors->n_sets > 0 && errors->sets[0].n_sure < errors->sets[0].n;
    (void)fprintf(out, "%-52s %5s %7s %7s %7s %8s%s\n", "", "cases", "mean", "median", "bias", "closed",
                  doubt ? "  undoubted: cases    mean" : "");
    for (int32_t i = 0; i < errors->n_sets; i++) {
        const struct cs_error_set *set = &errors->sets[i];
        bool first = i == 0 || strcmp(set->kind, errors->sets[i - 1].kind) != 0;
        if (first && i > 0) {
            (void)fprintf(out, "by %s\n", set->kind);
        }
        (void)fprintf(out, "  %-50.50s %5d %6.1f%% %6.1f%% %+6.1f%%", set->name, (int)set->n,
                      100 * set->mape_frac, 100 * set->median_ape_frac, 100 * set->bias_frac);
        if (isfinite(set->analytic_mape_frac)) {
            (void)fprintf(out, " %7.1f%%", 100 * set->analytic_mape_frac);
        } else if (set->n_sure < set->n) {
            (void)fprintf(out, "%9s", "");
        }
        if (set->n_sure > 0 && set->n_sure < set->n) {
            (void)fprintf(out, " %17d %6.1f%%", (int)set->n_sure, 100 * set->sure_mape_frac);
        } else if (set->n_sure == 0 && set->n > 0) {
            (void)fprintf(out, " %17d", 0);
        }
        (void)fprintf(out, "\n");
    }
}

static void print_ranks(FILE *out, const struct cs_errors *errors)
{
    if (errors->n_ranks == 0) {
        return;
    }
    for (int32_t i = 0; i < errors->n_ranks; i++) {
        const struct cs_rank_set *set = &errors->ranks[i];
        bool choice = strcmp(set->kind, "strategies") == 0;
        char order[16] = "-";
        if (i == 0 || strcmp(set->kind, errors->ranks[i - 1].kind) != 0) {
            (void)fprintf(out, "\n%s (5 and more)\n%-68s %4s %6s%s\n",
                          choice ? "Order of the measured strategies of one model and batch"
                                 : "Order of the runs of one model on one hardware",
                          "", "runs", "rank", choice ? "   top-1   top-5" : "");
        }
        if (isfinite(set->spearman)) {
            (void)snprintf(order, sizeof order, "%.3f", set->spearman);
        }
        (void)fprintf(out, "  %-66.66s %4d %6s", set->name, (int)set->n, order);
        if (choice) {
            (void)fprintf(out, " %6.1f%% %6.1f%%", 100 * set->top1_regret_frac, 100 * set->top5_regret_frac);
        }
        (void)fputc('\n', out);
    }
}

/* Reasons why rows did not run, each once with its count and first row. */
static void print_refused(FILE *out, const struct cs_validate_report *report)
{
    const struct cs_cases *cases = report->cases;
    bool any = false;
    for (int32_t i = 0; i < cases->n; i++) {
        const char *why = report->runs[i].reason;
        int32_t n = 0;
        bool seen = report->runs[i].ran;
        size_t len = strcspn(why, ":");
        for (int32_t k = 0; k < i && !seen; k++) {
            seen = !report->runs[k].ran && strncmp(report->runs[k].reason, why, len + 1) == 0;
        }
        for (int32_t k = i; k < cases->n && !seen; k++) {
            n += !report->runs[k].ran && strncmp(report->runs[k].reason, why, len + 1) == 0;
        }
        if (!seen) {
            (void)fprintf(out, "%s  %4d  %s (first: %s)\n", any ? "" : "\nCannot run\n", (int)n, why,
                          cases->items[i].id);
            any = true;
        }
    }
}

static void print_memory(FILE *out, const struct cs_validate_report *report)
{
    bool any = false;
    for (int32_t i = 0; i < report->cases->n; i++) {
        const struct cs_case *c = &report->cases->items[i];
        const struct cs_case_run *run = &report->runs[i];
        if (c->kind == CS_CASE_TIME || !run->ran) {
            continue;
        }
        (void)fprintf(out, "%s  %-10s %-20s measured %6.2f GiB, ledger %6.2f GiB, %+.1f%%\n",
                      any ? "" : "\nMemory\n", c->id, cs_case_kind_names[c->kind],
                      c->measured_bytes / 1073741824.0, run->simulated_bytes / 1073741824.0,
                      100 * (run->simulated_bytes / c->measured_bytes - 1));
        any = true;
    }
}

void cs_report_validate_text(FILE *out, const struct cs_validate_report *report)
{
    (void)fprintf(out, "%s: iteration time, simulated against measured%s\n\n", report->path,
                  report->calibration ? ", figures fitted to these cases" : "");
    print_sets(out, report->errors);
    if (report->held_out) {
        (void)fprintf(out, "\nEach case with figures fitted without its own group (%d groups)\n\n",
                      (int)report->calibration->n_groups);
        print_sets(out, report->held_out);
    }
    if (report->folds) {
        (void)fprintf(out,
                      "\nEach case with figures fitted without a random part of the cases (%d parts)\n\n",
                      (int)report->calibration->n_folds);
        print_sets(out, report->folds);
    }
    print_ranks(out, report->errors);
    print_memory(out, report);
    print_refused(out, report);
}

void cs_report_calibrate_text(FILE *out, const struct cs_calibration *calibration)
{
    (void)fprintf(out, "%-24s %-30s %12s %12s  %s\n", "", "figure", "drawn to", "fitted",
                  "one standard error");
    for (int32_t i = 0; i < calibration->n_figures; i++) {
        const struct cs_fit_figure *f = &calibration->figures[i];
        (void)fprintf(out, "%-24s %-30s %12.4g %12.4g  ", f->owner, f->key, f->start, f->value);
        if (f->determined_frac < CS_DETERMINED_FRAC) {
            (void)fprintf(out, "not determined by these cases\n");
        } else if (f->uncertainty_frac < 10) {
            (void)fprintf(out, "%.1f %%\n", 100 * f->uncertainty_frac);
        } else {
            (void)fprintf(out, "0\n");
        }
    }
}
