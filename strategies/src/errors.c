#include "cs/strategies/errors.h"

#include "validate_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    double predicted_s, measured_s, analytic_s;
    bool doubted;
};

/* ---- dimensions of a run ----------------------------------------------------------------------------------
 */

static bool is_pipeline(const struct cs_case *c)
{
    return c->strategy.pp > 1;
}
static bool is_tensor(const struct cs_case *c)
{
    return c->strategy.mp > 1;
}
static bool is_context(const struct cs_case *c)
{
    return c->strategy.cp > 1;
}
static bool is_interleaved(const struct cs_case *c)
{
    return c->strategy.vpp > 1;
}
static bool is_sequence(const struct cs_case *c)
{
    return c->strategy.sp;
}
static bool is_zero3(const struct cs_case *c)
{
    return c->strategy.zero == 3;
}
static bool is_full(const struct cs_case *c)
{
    return c->strategy.recompute == CS_RECOMPUTE_FULL;
}
static bool is_flash(const struct cs_case *c)
{
    return c->training.flash_attention;
}
static bool is_unfused(const struct cs_case *c)
{
    return !c->training.flash_attention;
}
static bool is_fused_tp(const struct cs_case *c)
{
    return c->strategy.fused_tp;
}
static bool is_nodes(const struct cs_case *c)
{
    return c->n_devices > c->devices_per_node;
}
static bool is_long(const struct cs_case *c)
{
    return c->training.seq_length >= 8192;
}
static bool is_experts(const struct cs_case *c)
{
    return c->model.n_experts > 0;
}

static const struct {
    const char *name;
    bool (*has)(const struct cs_case *c);
} dimensions[] = {
    {"tensor parallel", is_tensor},
    {"pipeline", is_pipeline},
    {"interleaved pipeline", is_interleaved},
    {"context parallel", is_context},
    {"sequence parallel", is_sequence},
    {"zero 3", is_zero3},
    {"full recomputation", is_full},
    {"fused attention", is_flash},
    {"unfused attention", is_unfused},
    {"fused tensor-parallel communication", is_fused_tp},
    {"several nodes", is_nodes},
    {"sequence 8192 and more", is_long},
    {"mixture of experts", is_experts},
};

/* ---- figures ----------------------------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double cs__quantile(const double *sorted, int32_t n, double q)
{
    double at = q * (n - 1);
    int32_t i = (int32_t)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static void measure(struct cs_error_set *set, const struct sample *samples, int32_t n, struct cs_arena *arena)
{
    double *absolute = CS_ARENA_NEW(arena, double, n);
    double *ratio = CS_ARENA_NEW(arena, double, n);
    double analytic = 0;
    double sure = 0;
    double sure_bias = 0;
    int32_t n_analytic = 0;
    set->n = n;
    for (int32_t i = 0; i < n; i++) {
        double error = samples[i].predicted_s / samples[i].measured_s - 1;
        absolute[i] = fabs(error);
        ratio[i] = samples[i].measured_s / samples[i].predicted_s;
        set->mape_frac += absolute[i] / n;
        set->bias_frac += error / n;
        if (isfinite(samples[i].analytic_s)) {
            analytic += fabs(samples[i].analytic_s / samples[i].measured_s - 1);
            n_analytic++;
        }
        if (!samples[i].doubted) {
            sure += absolute[i];
            sure_bias += error;
            set->n_sure++;
        }
    }
    set->sure_mape_frac = set->n_sure ? sure / set->n_sure : (double)NAN;
    set->sure_bias_frac = set->n_sure ? sure_bias / set->n_sure : (double)NAN;
    qsort(absolute, (size_t)n, sizeof *absolute, compare);
    qsort(ratio, (size_t)n, sizeof *ratio, compare);
    set->median_ape_frac = cs__quantile(absolute, n, 0.5);
    set->low_frac = cs__quantile(ratio, n, 0.1);
    set->high_frac = cs__quantile(ratio, n, 0.9);
    set->analytic_mape_frac = n_analytic ? analytic / n_analytic : (double)NAN;
}

/* Ranks of values, ties share their mean. */
static void ranks(const double *values, int32_t n, double *rank)
{
    for (int32_t i = 0; i < n; i++) {
        double below = 0;
        double equal = 0;
        for (int32_t k = 0; k < n; k++) {
            below += values[k] < values[i];
            equal += !(values[k] < values[i]) && !(values[k] > values[i]);
        }
        rank[i] = below + (equal - 1) / 2;
    }
}

static double correlation(const double *x, const double *y, int32_t n)
{
    double mx = 0;
    double my = 0;
    double xy = 0;
    double xx = 0;
    double yy = 0;
    for (int32_t i = 0; i < n; i++) {
        mx += x[i] / n;
        my += y[i] / n;
    }
    for (int32_t i = 0; i < n; i++) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

/* As a search chooses: by prediction; of what it cannot tell apart it may take the worst. */
static int compare_chosen(const void *a, const void *b)
{
    const struct sample *x = a;
    const struct sample *y = b;
    int order = compare(&x->predicted_s, &y->predicted_s);
    return order != 0 ? order : compare(&y->measured_s, &x->measured_s);
}

static double spearman(const struct sample *samples, int32_t n, struct cs_arena *arena)
{
    double *predicted = CS_ARENA_NEW(arena, double, n + 1);
    double *measured = CS_ARENA_NEW(arena, double, n + 1);
    double *by_prediction = CS_ARENA_NEW(arena, double, n + 1);
    double *by_measure = CS_ARENA_NEW(arena, double, n + 1);
    for (int32_t i = 0; i < n; i++) {
        predicted[i] = samples[i].predicted_s;
        measured[i] = samples[i].measured_s;
    }
    ranks(predicted, n, by_prediction);
    ranks(measured, n, by_measure);
    return correlation(by_prediction, by_measure, n);
}

static void rank(struct cs_rank_set *set, const struct sample *samples, int32_t n, struct cs_arena *arena)
{
    struct sample *sure = CS_ARENA_NEW(arena, struct sample, n);
    struct sample *sorted = cs_arena_memdup(arena, samples, (size_t)n * sizeof *sorted);
    double best_s = (double)INFINITY;
    double of_five_s = (double)INFINITY;
    set->n = n;
    for (int32_t i = 0; i < n; i++) {
        if (!samples[i].doubted) {
            sure[set->n_sure++] = samples[i];
        }
    }
    set->spearman = spearman(samples, n, arena);
    set->sure_spearman = spearman(sure, set->n_sure, arena);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_chosen);
    for (int32_t i = 0; i < n; i++) {
        best_s = fmin(best_s, sorted[i].measured_s);
        of_five_s = i < 5 ? best_s : of_five_s;
    }
    set->top1_regret_frac = sorted[0].measured_s / best_s - 1;
    set->top5_regret_frac = of_five_s / best_s - 1;
}

/* ---- sets -------------------------------------------------------------------------------------------------
 */

struct finder {
    struct cs_errors *errors;
    const struct cs_cases *cases;
    const double *predicted_s;
    const double *analytic_s;
    struct sample *samples;
    int32_t cap_sets, cap_ranks;
};

static bool usable(const struct finder *f, int32_t i)
{
    const struct cs_case *c = &f->cases->items[i];
    return c->kind == CS_CASE_TIME && isfinite(c->measured_s) && isfinite(f->predicted_s[i]) &&
           f->predicted_s[i] > 0;
}

static void take(struct finder *f, int32_t i, int32_t *n)
{
    f->samples[(*n)++] = (struct sample){.predicted_s = f->predicted_s[i],
                                         .measured_s = f->cases->items[i].measured_s,
                                         .analytic_s = f->analytic_s ? f->analytic_s[i] : (double)NAN,
                                         .doubted = f->cases->items[i].doubt != NULL};
}

static void add_set(struct finder *f, const char *kind, const char *name, int32_t n)
{
    struct cs_errors *e = f->errors;
    if (n == 0) {
        return;
    }
    CS_GROW(e->sets, e->n_sets, f->cap_sets);
    struct cs_error_set *set = &e->sets[e->n_sets++];
    *set = (struct cs_error_set){.kind = kind, .name = name};
    measure(set, f->samples, n, &e->arena);
}

/* Texts by which cases are put together, NULL = in no set. */
static const char *generation_of(struct cs_arena *arena, const struct cs_case *c)
{
    (void)arena;
    return c->generation;
}
static const char *hardware_of(struct cs_arena *arena, const struct cs_case *c)
{
    (void)arena;
    return c->hardware;
}
static const char *source_of(struct cs_arena *arena, const struct cs_case *c)
{
    return cs_arena_printf(arena, "%s / %s", c->source_short, c->hardware);
}
static const char *model_of(struct cs_arena *arena, const struct cs_case *c)
{
    (void)arena;
    return c->model_key;
}
static const char *setup_of(struct cs_arena *arena, const struct cs_case *c)
{
    (void)arena;
    return c->setup_key;
}

static void add_ranks(struct finder *f, const char *kind, const char *name, int32_t n)
{
    struct cs_errors *e = f->errors;
    if (n >= CS_RANK_SET_MIN) {
        CS_GROW(e->ranks, e->n_ranks, f->cap_ranks);
        struct cs_rank_set *set = &e->ranks[e->n_ranks++];
        *set = (struct cs_rank_set){.kind = kind, .name = name};
        rank(set, f->samples, n, &e->arena);
    }
}

/* Cases with equal texts, in the order of their first. */
static void group_by(struct finder *f, const char *kind,
                     const char *(*text)(struct cs_arena *arena, const struct cs_case *c),
                     void (*add)(struct finder *f, const char *kind, const char *name, int32_t n))
{
    struct cs_errors *e = f->errors;
    int32_t n_cases = f->cases->n;
    bool *seen = CS_ARENA_NEW(&e->arena, bool, n_cases + 1);
    const char **texts = CS_ARENA_NEW(&e->arena, const char *, n_cases + 1);
    for (int32_t i = 0; i < n_cases; i++) {
        texts[i] = text(&e->arena, &f->cases->items[i]);
    }
    for (int32_t i = 0; i < n_cases; i++) {
        int32_t n = 0;
        for (int32_t k = i; k < n_cases && texts[i]; k++) {
            if (!seen[k] && usable(f, k) && texts[k] && strcmp(texts[k], texts[i]) == 0) {
                take(f, k, &n);
                seen[k] = true;
            }
        }
        add(f, kind, texts[i], n);
    }
}

void cs_errors_find(struct cs_errors *errors, const struct cs_cases *cases, const double *predicted_s,
                    const double *analytic_s)
{
    struct finder f = {
        .errors = errors, .cases = cases, .predicted_s = predicted_s, .analytic_s = analytic_s};
    *errors = (struct cs_errors){0};
    f.samples = CS_ARENA_NEW(&errors->arena, struct sample, cases->n + 1);
    int32_t n = 0;
    for (int32_t i = 0; i < cases->n; i++) {
        if (usable(&f, i)) {
            take(&f, i, &n);
        }
    }
    add_set(&f, "all", "all", n);
    group_by(&f, "generation", generation_of, add_set);
    group_by(&f, "hardware", hardware_of, add_set);
    group_by(&f, "source", source_of, add_set);
    for (int32_t d = 0; d < CS_COUNT(dimensions); d++) {
        n = 0;
        for (int32_t i = 0; i < cases->n; i++) {
            if (usable(&f, i) && dimensions[d].has(&cases->items[i])) {
                take(&f, i, &n);
            }
        }
        add_set(&f, "dimension", dimensions[d].name, n);
    }
    group_by(&f, "model", model_of, add_ranks);
    group_by(&f, "strategies", setup_of, add_ranks);
}

void cs_errors_release(struct cs_errors *errors)
{
    cs_free(errors->sets);
    cs_free(errors->ranks);
    cs_arena_release(&errors->arena);
    *errors = (struct cs_errors){0};
}

const struct cs_error_set *cs_errors_of(const struct cs_errors *errors, const struct cs_case *c)
{
    char name[160];
    (void)snprintf(name, sizeof name, "%s / %s", c->source_short, c->hardware);
    for (int32_t i = 0; i < errors->n_sets; i++) {
        if (strcmp(errors->sets[i].kind, "source") == 0 && strcmp(errors->sets[i].name, name) == 0) {
            return &errors->sets[i];
        }
    }
    return NULL;
}
