/* Validation as a picture and as a page. */
#include "cs/reports/svg.h"
#include "cs/reports/validate.h"

#include <math.h>
#include <string.h>

#define WIDTH 720
#define HEIGHT 720
#define MARGIN 70.0
#define TOP 40.0
#define OFF_FRAC 0.15 /* cases that far off are listed one by one */

struct axes {
    double low_log, high_log; /* log10 of seconds */
};

static double place(const struct axes *axes, double value_s, bool vertical)
{
    double z = (log10(value_s) - axes->low_log) / (axes->high_log - axes->low_log);
    return vertical ? HEIGHT - MARGIN - z * (HEIGHT - MARGIN - TOP) : MARGIN + z * (WIDTH - MARGIN - 30);
}

static void diagonal(struct cs_svg *svg, const struct axes *axes, const char *class, double ratio)
{
    double a = pow(10, axes->low_log);
    double b = pow(10, axes->high_log);
    double first = ratio < 1 ? a / ratio : a;
    double last = ratio > 1 ? b / ratio : b;
    cs_svg_line(svg, class, place(axes, first, false), place(axes, first * ratio, true),
                place(axes, last, false), place(axes, last * ratio, true));
}

static void frame(struct cs_svg *svg, const struct axes *axes)
{
    for (double l = axes->low_log; l <= axes->high_log + 1e-9; l++) {
        double value_s = pow(10, l);
        char text[32];
        (void)snprintf(text, sizeof text, "%g", value_s);
        double x = place(axes, value_s, false);
        double y = place(axes, value_s, true);
        cs_svg_line(svg, "grid", x, TOP, x, HEIGHT - MARGIN);
        cs_svg_line(svg, "grid", MARGIN, y, WIDTH - 30, y);
        cs_svg_text(svg, "axis", x, HEIGHT - MARGIN + 18, 0, text);
        cs_svg_text(svg, "axis", MARGIN - 8, y + 4, 1, text);
    }
    cs_svg_text(svg, "axis", WIDTH / 2.0, HEIGHT - 20, 0, "measured step, s");
    cs_svg_text(svg, "axis", MARGIN, TOP - 12, -1, "simulated step, s (thin: 10 % off)");
    diagonal(svg, axes, "axis", 1.0);
    diagonal(svg, axes, "grid", 1.1);
    diagonal(svg, axes, "grid", 1 / 1.1);
}

void cs_report_validate_svg(FILE *out, const struct cs_validate_report *report)
{
    struct cs_svg svg = {0};
    struct axes axes = {INFINITY, -INFINITY};
    const struct cs_cases *cases = report->cases;
    const char *sources[8] = {0};
    int32_t n_sources = 0;
    for (int32_t i = 0; i < cases->n; i++) {
        if (isfinite(cases->items[i].measured_s)) {
            axes.low_log = fmin(axes.low_log, floor(log10(cases->items[i].measured_s)));
            axes.high_log = fmax(axes.high_log, ceil(log10(cases->items[i].measured_s)));
        }
    }
    if (!(axes.low_log < axes.high_log)) {
        axes = (struct axes){0, 1};
    }
    cs_svg_begin(&svg, out, WIDTH, HEIGHT, "Simulated against measured step times");
    frame(&svg, &axes);
    for (int32_t i = 0; i < cases->n; i++) {
        const struct cs_case *c = &cases->items[i];
        double simulated_s = report->runs[i].simulated_s;
        if (c->kind != CS_CASE_TIME || !isfinite(simulated_s) || !isfinite(c->measured_s)) {
            continue;
        }
        char tip[160];
        char class[8];
        int32_t s = 0;
        while (s < n_sources && strcmp(sources[s], c->source_short) != 0) {
            s++;
        }
        if (s == n_sources && n_sources < 8) {
            sources[n_sources++] = c->source_short;
        }
        s = s < 8 ? s : 7;
        (void)snprintf(tip, sizeof tip, "%.20s %.40s: %.4g s measured, %.4g s simulated", c->id,
                       c->source_short, c->measured_s, simulated_s);
        (void)snprintf(class, sizeof class, "s%d", (int)s);
        cs_svg_dot(&svg, class, place(&axes, c->measured_s, false), place(&axes, simulated_s, true), tip);
    }
    for (int32_t s = 0; s < n_sources; s++) {
        char class[8];
        (void)snprintf(class, sizeof class, "s%d", (int)s);
        cs_svg_dot(&svg, class, MARGIN + 20, TOP + 14 + 18 * s, NULL);
        cs_svg_text(&svg, "axis", MARGIN + 32, TOP + 18 + 18 * s, -1, sources[s]);
    }
    cs_svg_end(&svg);
}

static const char *prefix(const struct cs_error_set *set)
{
    bool place = strcmp(set->kind, "hardware") == 0 || strcmp(set->kind, "generation") == 0;
    return place ? "all on " : "";
}

/* Text that somebody else wrote, in a cell of a table. */
static void put_cell(FILE *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '|') {
            (void)fputs("\\|", out);
        } else {
            (void)fputc(*c == '\n' || *c == '\r' ? ' ' : *c, out);
        }
    }
}

static bool any_doubt(const struct cs_errors *errors)
{
    return errors->n_sets > 0 && errors->sets[0].n_sure < errors->sets[0].n;
}

static void sure_columns(FILE *out, const struct cs_error_set *set)
{
    if (!set || set->n_sure == set->n) {
        (void)fputs(" | | |", out);
    } else if (set->n_sure == 0) {
        (void)fputs(" 0 | | |", out);
    } else {
        (void)fprintf(out, " %d | %.1f %% | %+.1f %% |", (int)set->n_sure, 100 * set->sure_mape_frac,
                      100 * set->sure_bias_frac);
    }
}

static const struct cs_error_set *find_set(const struct cs_errors *errors, const struct cs_error_set *like)
{
    for (int32_t k = 0; k < errors->n_sets; k++) {
        const struct cs_error_set *set = &errors->sets[k];
        if (strcmp(set->kind, like->kind) == 0 && strcmp(set->name, like->name) == 0) {
            return set;
        }
    }
    return NULL;
}

static const char *sure_heading(const struct cs_errors *held_out)
{
    return held_out ? " | held out without doubtful rows: " : " | without doubtful rows: ";
}

/* The last three columns are there if some case is doubted, and filled where it makes a difference; with
 * held-out figures they are of these. */
static void sets_table(FILE *out, const struct cs_errors *errors, const struct cs_errors *held_out)
{
    bool doubt = any_doubt(errors);
    (void)fprintf(out,
                  "| cases of | n | mean error | median | bias | closed form%s%s%s |\n"
                  "|---|---|---|---|---|---%s%s|\n",
                  held_out ? " | held out: mean | median | bias" : "", doubt ? sure_heading(held_out) : "",
                  doubt ? "n | mean | bias" : "", held_out ? "|---|---|---" : "",
                  doubt ? "|---|---|---" : "");
    for (int32_t i = 0; i < errors->n_sets; i++) {
        const struct cs_error_set *set = &errors->sets[i];
        (void)fprintf(out, "| %s%s | %d | %.1f %% | %.1f %% | %+.1f %% | ", prefix(set), set->name,
                      (int)set->n, 100 * set->mape_frac, 100 * set->median_ape_frac, 100 * set->bias_frac);
        if (isfinite(set->analytic_mape_frac)) {
            (void)fprintf(out, "%.1f %% |", 100 * set->analytic_mape_frac);
        } else {
            (void)fputs(" |", out);
        }
        const struct cs_error_set *other = held_out ? find_set(held_out, set) : NULL;
        if (other) {
            (void)fprintf(out, " %.1f %% | %.1f %% | %+.1f %% |", 100 * other->mape_frac,
                          100 * other->median_ape_frac, 100 * other->bias_frac);
        } else {
            (void)fputs(held_out ? " | | |" : "", out);
        }
        if (doubt) {
            sure_columns(out, held_out ? other : set);
        }
        (void)fputs("\n", out);
    }
}

/* What to expect of programs that were measured; without dimensions. */
static void folds_table(FILE *out, const struct cs_validate_report *report)
{
    (void)fprintf(
        out,
        "\n## Another run of a program that was measured\n\nEach case predicted with figures fitted "
        "without the one of %d random parts of all cases that holds it: other runs of its program "
        "on its hardware are known.\n\n| cases of | n | mean error | median | bias |\n"
        "|---|---|---|---|---|\n",
        (int)report->calibration->n_folds);
    for (int32_t i = 0; i < report->folds->n_sets; i++) {
        const struct cs_error_set *set = &report->folds->sets[i];
        if (strcmp(set->kind, "dimension") != 0) {
            (void)fprintf(out, "| %s%s | %d | %.1f %% | %.1f %% | %+.1f %% |\n", prefix(set), set->name,
                          (int)set->n, 100 * set->mape_frac, 100 * set->median_ape_frac,
                          100 * set->bias_frac);
        }
    }
}

static void off_table(FILE *out, const struct cs_validate_report *report)
{
    (void)fputs(
        "\n## Cases that are more than 15 % off\n\nThe largest parts of their critical path; where one part "
        "dominates, its figure is the first suspect.\n\n| case | source | error | parts of the step | notes "
        "|\n"
        "|---|---|---|---|---|\n",
        out);
    for (int32_t i = 0; i < report->cases->n; i++) {
        const struct cs_case *c = &report->cases->items[i];
        const struct cs_case_run *run = &report->runs[i];
        double error = run->simulated_s / c->measured_s - 1;
        if (c->kind != CS_CASE_TIME || !run->ran || !(fabs(error) > OFF_FRAC)) {
            continue;
        }
        char strategy[CS_STRATEGY_TEXT_MAX];
        (void)fprintf(out, "| %s | %s / %s | %+.0f %% |", c->id, c->source_short, c->hardware, 100 * error);
        for (int32_t p = 0; p < run->n_path && p < 3; p++) {
            (void)fprintf(out, "%s %s %.0f %%", p ? "," : "", run->path[p].what,
                          100 * run->path[p].time_s / run->simulated_s);
        }
        (void)fprintf(out, " | %s; %s; %s |\n", c->model.name,
                      cs_strategy_format(&c->strategy, strategy, sizeof strategy), c->software->name);
    }
}

static void doubts_table(FILE *out, const struct cs_validate_report *report)
{
    bool any = false;
    for (int32_t i = 0; i < report->cases->n; i++) {
        const struct cs_case *c = &report->cases->items[i];
        if (!c->doubt) {
            continue;
        }
        if (!any) {
            (void)fputs("\n## Rows that are doubtful at their source\n\nThey "
                        "count above like any other, "
                        "but in the columns that say otherwise.\n\n"
                        "| case | source | error | why |\n|---|---|---|---|\n",
                        out);
        }
        any = true;
        (void)fprintf(out, "| %s | %s / %s | ", c->id, c->source_short, c->hardware);
        if (report->runs[i].ran) {
            bool time = c->kind == CS_CASE_TIME;
            double ratio = time ? report->runs[i].simulated_s / c->measured_s
                                : report->runs[i].simulated_bytes / c->measured_bytes;
            (void)fprintf(out, "%+.*f %% ", time ? 0 : 1, 100 * (ratio - 1));
        }
        (void)fputs("| ", out);
        put_cell(out, c->doubt);
        (void)fputs(" |\n", out);
    }
}

static void rank_cell(FILE *out, double spearman)
{
    if (isfinite(spearman)) {
        (void)fprintf(out, " %.3f |", spearman);
    } else {
        (void)fputs(" - |", out);
    }
}

static void runs_table(FILE *out, const struct cs_errors *errors, const struct cs_errors *held_out)
{
    const struct cs_errors *told = held_out ? held_out : errors;
    bool doubt = any_doubt(errors);
    (void)fprintf(out,
                  "\n## Order of the runs of one model on one hardware\n\nRank correlation of predicted and "
                  "measured times, of five runs and more.\n\n| model | runs | rank correlation%s%s%s |\n"
                  "|---|---|---%s%s|\n",
                  held_out ? " | held out" : "", doubt ? sure_heading(held_out) : "",
                  doubt ? "runs | rank" : "", held_out ? "|---" : "", doubt ? "|---|---" : "");
    for (int32_t i = 0; i < errors->n_ranks; i++) {
        const struct cs_rank_set *set = &errors->ranks[i];
        const struct cs_rank_set *other = NULL;
        for (int32_t k = 0; k < told->n_ranks && !other; k++) {
            bool same =
                strcmp(set->kind, told->ranks[k].kind) == 0 && strcmp(set->name, told->ranks[k].name) == 0;
            other = same ? &told->ranks[k] : NULL;
        }
        if (strcmp(set->kind, "model") != 0) {
            continue;
        }
        (void)fprintf(out, "| %s | %d |", set->name, (int)set->n);
        rank_cell(out, set->spearman);
        if (held_out) {
            rank_cell(out, other ? other->spearman : (double)NAN);
        }
        if (doubt && other && other->n_sure < other->n) {
            (void)fprintf(out, " %d |", (int)other->n_sure);
            rank_cell(out, other->sure_spearman);
        } else if (doubt) {
            (void)fputs(" | |", out);
        }
        (void)fputc('\n', out);
    }
}

static void strategies_table(FILE *out, const struct cs_errors *errors)
{
    (void)fputs(
        "\n## Order of the measured strategies of one model and batch\n\nSequence, batch and number of "
        "devices "
        "are equal as well. How much slower than the best measured run the best by prediction is (top-1), or "
        "the best of the five best (top-5).\n\n"
        "| model | runs | rank correlation | top-1 regret | top-5 regret |\n|---|---|---|---|---|\n",
        out);
    for (int32_t i = 0; i < errors->n_ranks; i++) {
        const struct cs_rank_set *set = &errors->ranks[i];
        if (strcmp(set->kind, "strategies") == 0) {
            (void)fprintf(out, "| %s | %d |", set->name, (int)set->n);
            rank_cell(out, set->spearman);
            (void)fprintf(out, " %.1f %% | %.1f %% |\n", 100 * set->top1_regret_frac,
                          100 * set->top5_regret_frac);
        }
    }
}

static void figures_table(FILE *out, const struct cs_calibration *calibration)
{
    (void)fputs(
        "\n## Fitted figures\n\nDetermined: how much of the prior's variance the runs took away; figures "
        "below 50 % are what they were drawn to.\n\n"
        "| of | figure | drawn to | fitted | one standard error | determined |\n|---|---|---|---|---|---|\n",
        out);
    for (int32_t i = 0; i < calibration->n_figures; i++) {
        const struct cs_fit_figure *f = &calibration->figures[i];
        (void)fprintf(out, "| %s | %s | %.4g | %.4g | ", f->owner, f->key, f->start, f->value);
        if (f->uncertainty_frac < 10) {
            (void)fprintf(out, "%.0f %% ", 100 * f->uncertainty_frac);
        }
        (void)fprintf(out, "| %.0f %%%s |\n", 100 * f->determined_frac,
                      f->determined_frac < CS_DETERMINED_FRAC ? " (no)" : "");
    }
}

static void refused_table(FILE *out, const struct cs_validate_report *report)
{
    (void)fputs("\n## Rows that cannot be run\n\n| case | why |\n|---|---|\n", out);
    for (int32_t i = 0; i < report->cases->n; i++) {
        if (!report->runs[i].ran) {
            (void)fprintf(out, "| %s | ", report->cases->items[i].id);
            put_cell(out, report->runs[i].reason);
            (void)fputs(" |\n", out);
        }
    }
}

static void memory_table(FILE *out, const struct cs_validate_report *report)
{
    (void)fputs("\n## Memory\n\n| case | what | measured | ledger | error |\n|---|---|---|---|---|\n", out);
    for (int32_t i = 0; i < report->cases->n; i++) {
        const struct cs_case *c = &report->cases->items[i];
        const struct cs_case_run *run = &report->runs[i];
        if (c->kind != CS_CASE_TIME && run->ran) {
            (void)fprintf(out, "| %s | %s | %.2f GiB | %.2f GiB | %+.1f %% |\n", c->id,
                          cs_case_kind_names[c->kind], c->measured_bytes / 1073741824.0,
                          run->simulated_bytes / 1073741824.0,
                          100 * (run->simulated_bytes / c->measured_bytes - 1));
        }
    }
}

void cs_report_validate_markdown(FILE *out, const struct cs_validate_report *report, const char *command)
{
    (void)fprintf(
        out,
        "# How wrong is it\n\nMade by `%s`; do not edit.\n\n"
        "Errors are simulated / measured - 1 of the iteration time, mean and median of their absolute "
        "values, and their mean (bias). %s\n\n",
        command,
        report->held_out ? "\"Held out\" predicts each case with figures fitted without its own group: one "
                           "source's runs of one model family on the same hardware."
                         : "");
    sets_table(out, report->errors, report->held_out);
    if (report->folds) {
        folds_table(out, report);
    }
    runs_table(out, report->errors, report->held_out);
    strategies_table(out, report->held_out ? report->held_out : report->errors);
    memory_table(out, report);
    off_table(out, report);
    doubts_table(out, report);
    refused_table(out, report);
    if (report->calibration) {
        figures_table(out, report->calibration);
    }
    if (report->links) {
        cs_report_links_markdown(out, report->links);
    }
}
