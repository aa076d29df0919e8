/* Validation for programs: CSV, JSON. */
#include "cs/reports/validate.h"

#include <math.h>
#include <string.h>

static void put_text(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"') {
            (void)fputc('"', out);
        }
        (void)fputc(*c, out);
    }
    (void)fputc('"', out);
}

static void put_number(FILE *out, double value)
{
    if (isfinite(value)) {
        (void)fprintf(out, ",%.9g", value);
    } else {
        (void)fputc(',', out);
    }
}

/* NaN = not asked for, or a case that cannot be predicted. */
static double held_out_s(const struct cs_validate_report *report, int32_t i)
{
    const struct cs_calibration *calibration = report->calibration;
    return calibration && calibration->predictions[i].predicted ? calibration->predictions[i].held_out_s
                                                                : (double)NAN;
}

static double fold_s(const struct cs_validate_report *report, int32_t i)
{
    const struct cs_calibration *calibration = report->calibration;
    return calibration && calibration->predictions[i].fold_s > 0 ? calibration->predictions[i].fold_s
                                                                 : (double)NAN;
}

void cs_report_validate_csv(FILE *out, const struct cs_validate_report *report)
{
    (void)fputs("id,hardware,source,group,kind,measured_s,simulated_s,analytic_s,held_out_s,fold_s,error,"
                "measured_bytes,"
                "simulated_bytes,largest_part,largest_part_s,software,assumptions,reason,doubt\n",
                out);
    for (int32_t i = 0; i < report->cases->n; i++) {
        const struct cs_case *c = &report->cases->items[i];
        const struct cs_case_run *run = &report->runs[i];
        put_text(out, c->id);
        (void)fputc(',', out);
        put_text(out, c->hardware);
        (void)fputc(',', out);
        put_text(out, c->source_short);
        (void)fputc(',', out);
        put_text(out, c->group);
        (void)fprintf(out, ",%s", cs_case_kind_names[c->kind]);
        put_number(out, c->measured_s);
        put_number(out, run->simulated_s);
        put_number(out, run->analytic_s);
        put_number(out, held_out_s(report, i));
        put_number(out, fold_s(report, i));
        put_number(out, run->simulated_s / c->measured_s - 1);
        put_number(out, c->measured_bytes);
        put_number(out, c->kind == CS_CASE_TIME ? (double)NAN : run->simulated_bytes);
        (void)fputc(',', out);
        put_text(out, run->n_path ? run->path[0].what : "");
        put_number(out, run->n_path ? run->path[0].time_s : (double)NAN);
        (void)fputc(',', out);
        put_text(out, c->software->name);
        (void)fputc(',', out);
        put_text(out, c->assumptions);
        (void)fputc(',', out);
        put_text(out, run->ran ? "" : run->reason);
        (void)fputc(',', out);
        put_text(out, c->doubt ? c->doubt : "");
        (void)fputc('\n', out);
    }
}

static void set_real(json_t *object, const char *key, double value)
{
    (void)json_object_set_new(object, key, cs_json_real(value));
}

static void set_text(json_t *object, const char *key, const char *text)
{
    (void)json_object_set_new(object, key, json_string(text));
}

static json_t *case_json(const struct cs_validate_report *report, int32_t i)
{
    const struct cs_case *c = &report->cases->items[i];
    const struct cs_case_run *run = &report->runs[i];
    json_t *object = json_object();
    set_text(object, "id", c->id);
    set_text(object, "hardware", c->hardware);
    set_text(object, "source", c->source_short);
    set_text(object, "software", c->software->name);
    set_text(object, "kind", cs_case_kind_names[c->kind]);
    set_real(object, "measured_s", c->measured_s);
    set_real(object, "simulated_s", run->simulated_s);
    set_real(object, "analytic_s", run->analytic_s);
    set_real(object, "held_out_s", held_out_s(report, i));
    set_real(object, "fold_s", fold_s(report, i));
    set_real(object, "error", run->simulated_s / c->measured_s - 1);
    const struct cs_error_set *kind = cs_errors_of(report->errors, c);
    set_real(object, "low_s", kind ? run->simulated_s * kind->low_frac : (double)NAN);
    set_real(object, "high_s", kind ? run->simulated_s * kind->high_frac : (double)NAN);
    if (c->kind != CS_CASE_TIME) {
        set_real(object, "measured_bytes", c->measured_bytes);
        set_real(object, "simulated_bytes", run->ran ? run->simulated_bytes : (double)NAN);
    }
    json_t *parts = json_object();
    for (int32_t p = 0; p < run->n_path; p++) {
        set_real(parts, run->path[p].what, run->path[p].time_s);
    }
    (void)json_object_set_new(object, "parts_s", parts);
    set_text(object, "assumptions", c->assumptions);
    if (!run->ran) {
        set_text(object, "reason", run->reason);
    }
    if (c->doubt) {
        set_text(object, "doubt", c->doubt);
    }
    return object;
}

static json_t *sets_json(const struct cs_errors *errors)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < errors->n_sets; i++) {
        const struct cs_error_set *set = &errors->sets[i];
        json_t *object = json_object();
        set_text(object, "by", set->kind);
        set_text(object, "name", set->name);
        (void)json_object_set_new(object, "cases", json_integer(set->n));
        set_real(object, "mape", set->mape_frac);
        set_real(object, "median_ape", set->median_ape_frac);
        set_real(object, "bias", set->bias_frac);
        set_real(object, "analytic_mape", set->analytic_mape_frac);
        (void)json_object_set_new(object, "cases_not_doubted", json_integer(set->n_sure));
        set_real(object, "mape_not_doubted", set->sure_mape_frac);
        set_real(object, "bias_not_doubted", set->sure_bias_frac);
        (void)json_array_append_new(list, object);
    }
    return list;
}

static json_t *ranks_json(const struct cs_errors *errors)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < errors->n_ranks; i++) {
        const struct cs_rank_set *set = &errors->ranks[i];
        json_t *object = json_object();
        set_text(object, "of", set->kind);
        set_text(object, "name", set->name);
        (void)json_object_set_new(object, "runs", json_integer(set->n));
        set_real(object, "spearman", set->spearman);
        (void)json_object_set_new(object, "runs_not_doubted", json_integer(set->n_sure));
        set_real(object, "spearman_not_doubted", set->sure_spearman);
        set_real(object, "top1_regret", set->top1_regret_frac);
        set_real(object, "top5_regret", set->top5_regret_frac);
        (void)json_array_append_new(list, object);
    }
    return list;
}

json_t *cs_report_validate_json(const struct cs_validate_report *report,
                                const struct cs_report_origin *origin)
{
    json_t *object = json_object();
    json_t *list = json_array();
    const struct cs_errors *errors = report->errors;
    set_text(object, "command", origin->command);
    set_text(object, "version", origin->version);
    set_text(object, "file", report->path);
    for (int32_t i = 0; i < report->cases->n; i++) {
        (void)json_array_append_new(list, case_json(report, i));
    }
    (void)json_object_set_new(object, "cases", list);
    set_real(object, "mape", errors->n_sets ? errors->sets[0].mape_frac : (double)NAN);
    set_real(object, "median_ape", errors->n_sets ? errors->sets[0].median_ape_frac : (double)NAN);
    set_real(object, "bias", errors->n_sets ? errors->sets[0].bias_frac : (double)NAN);
    set_real(object, "analytic_mape", errors->n_sets ? errors->sets[0].analytic_mape_frac : (double)NAN);
    (void)json_object_set_new(object, "summary", sets_json(errors));
    (void)json_object_set_new(object, "order", ranks_json(errors));
    if (report->held_out) {
        (void)json_object_set_new(object, "held_out_summary", sets_json(report->held_out));
        (void)json_object_set_new(object, "held_out_order", ranks_json(report->held_out));
    }
    if (report->folds) {
        (void)json_object_set_new(object, "folds_summary", sets_json(report->folds));
        (void)json_object_set_new(object, "folds_order", ranks_json(report->folds));
    }
    return object;
}
