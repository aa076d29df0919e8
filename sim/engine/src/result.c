#include "result_priv.h"

#include "chain_priv.h"
#include "replay_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_TABLE_MAX 32
#define ACCOUNT_TOLERANCE 1e-9 /* of the iteration time: sums of doubles */
#define BYTES_TOLERANCE 1e-9

static double total_s(const struct cs_time_shares *t)
{
    return t->computing_s + t->exposed_comm_s + t->bubble_s + t->idle_s;
}

static void add_shares(struct cs_time_shares *sum, const struct cs_time_shares *t, double weight)
{
    sum->computing_s += weight * t->computing_s;
    sum->comm_s += weight * t->comm_s;
    sum->exposed_comm_s += weight * t->exposed_comm_s;
    sum->bubble_s += weight * t->bubble_s;
    sum->idle_s += weight * t->idle_s;
    sum->cross_comm_s += weight * t->cross_comm_s;
    sum->beside_s += weight * t->beside_s;
}

static bool close_to(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * fmax(fabs(a), fabs(b));
}

/* ---- memory ---- */

static double state_bytes(const struct cs_trace *trace)
{
    double sum = 0;
    for (int32_t r = 0; r < trace->n_ranks; r++) {
        sum += trace->programs[trace->program_of_rank[r]].state_bytes;
    }
    return sum;
}

void cs_engine_memory(const struct cs_trace *trace, const struct cs_platform *platform, struct cs_metrics *m)
{
    struct cs_mem_peak *peaks = cs_calloc((size_t)trace->n_programs + 1, sizeof *peaks);
    for (int32_t p = 0; p < trace->n_programs; p++) {
        cs_trace_memory(trace, p, &peaks[p]);
    }
    m->peak_memory_bytes = -1;
    for (int32_t r = 0; r < trace->n_ranks; r++) {
        const struct cs_mem_peak *peak = &peaks[trace->program_of_rank[r]];
        double reserved = r < platform->n_devices ? platform->devices[r].chip->reserved_bytes : 0;
        int64_t reserved_bytes = reserved > 0 ? (int64_t)reserved : 0;
        if (peak->total_bytes + reserved_bytes > m->peak_memory_bytes) {
            m->peak_memory_bytes = peak->total_bytes + reserved_bytes;
            m->reserved_bytes = reserved_bytes;
            m->peak_memory_rank = r;
            memcpy(m->memory_bytes, peak->by_category_bytes, sizeof m->memory_bytes);
        }
    }
    cs_free(peaks);
}

/* ---- what limits it ---- */

static int compare_path(const void *a, const void *b)
{
    const struct cs_path_share *x = a;
    const struct cs_path_share *y = b;
    if (x->time_s != y->time_s) {
        return x->time_s > y->time_s ? -1 : 1;
    }
    return strcmp(x->what, y->what);
}

static void fill_path(const struct cs_trace *t, const double *sums_s, struct cs_run *run)
{
    int32_t n_kinds = cs__chain_n_kinds(t);
    run->path = cs_calloc((size_t)n_kinds, sizeof *run->path);
    for (int32_t k = 0; k < n_kinds; k++) {
        if (sums_s[k] > 0) {
            struct cs_path_share *share = &run->path[run->n_path++];
            cs__chain_kind_name(t, k, share->what, sizeof share->what);
            share->time_s = sums_s[k];
        }
    }
    if (run->n_path > 0) {
        qsort(run->path, (size_t)run->n_path, sizeof *run->path, compare_path);
    }
    run->n_path_stages = cs__chain_n_stages(t);
    run->path_stages = cs_calloc((size_t)run->n_path_stages, sizeof *run->path_stages);
    for (int32_t i = 0; i < run->n_path_stages; i++) {
        snprintf(run->path_stages[i].what, sizeof run->path_stages[i].what, "stage %d", i);
        run->path_stages[i].time_s = sums_s[n_kinds + i];
    }
}

/* The largest parts of the critical path, as shares of the step. */
static void say_limit(struct cs_run *run)
{
    struct cs_metrics *m = &run->metrics;
    size_t used = (size_t)snprintf(m->limited_by, sizeof m->limited_by, "critical path:");
    for (int32_t i = 0; i < run->n_path && i < 4 && used + 80 < sizeof m->limited_by; i++) {
        double share = run->path[i].time_s / m->iteration_s;
        if (share < 0.005 && i > 0) {
            break;
        }
        used += (size_t)snprintf(m->limited_by + used, sizeof m->limited_by - used, "%s %s %.1f %%",
                                 i ? "," : "", run->path[i].what, 100 * share);
    }
}

/* ---- metrics ---- */

/* The roof of a training in a narrow type is that type's, although some products stay in a wider one: the
 * highest peak of those that the products use. */
static double peak_of(const struct cs_chip *chip, const bool *computes_in)
{
    double peak_flop_per_s = 0;
    for (int32_t d = 0; d < CS_N_DTYPES; d++) {
        if (computes_in[d]) {
            peak_flop_per_s = fmax(peak_flop_per_s, chip->peak_flop_per_s[d]);
        }
    }
    return peak_flop_per_s;
}

void cs_engine_speed(const struct cs_trace *t, const struct cs_platform *platform, struct cs_metrics *m)
{
    double again_flop = 0;
    double peak_flop_per_s = 0;
    bool computes_in[CS_N_DTYPES] = {false};
    double *of_program = cs_calloc((size_t)t->n_programs + 1, sizeof *of_program);
    for (int32_t p = 0; p < t->n_programs; p++) {
        struct cs_trace_totals totals;
        cs_trace_program_totals(t, p, &totals);
        of_program[p] = totals.recompute_flop;
        for (int32_t d = 0; d < CS_N_DTYPES; d++) {
            computes_in[d] |= totals.computes_in[d];
        }
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        again_flop += of_program[t->program_of_rank[r]];
        peak_flop_per_s += peak_of(platform->devices[r].chip, computes_in);
    }
    m->n_ranks = t->n_ranks;
    if (m->iteration_s > 0) {
        m->tokens_per_s = t->n_tokens / m->iteration_s;
        m->tflops_per_device = t->model_flop / m->iteration_s / t->n_ranks / 1e12;
        double most_flop = m->iteration_s * peak_flop_per_s;
        m->mfu_frac = most_flop > 0 ? t->model_flop / most_flop : 0;
        m->hfu_frac = most_flop > 0 ? (t->model_flop + again_flop) / most_flop : 0;
    }
    cs_free(of_program);
}

static void fill_metrics(const struct cs__system *s, const struct cs__outcome *outcome, struct cs_run *run)
{
    struct cs_metrics *m = &run->metrics;
    m->iteration_s = outcome->iteration_s;
    m->n_rank_classes = s->n_classes;
    m->n_operations = outcome->n_operations;
    m->n_activities = outcome->n_activities;
    m->n_transfers = outcome->n_transfers;
    m->n_waits = outcome->n_waits;
    m->fidelity = s->options->fidelity;
    memcpy(m->carried_bytes, outcome->carried_bytes, sizeof m->carried_bytes);
    cs_engine_speed(s->trace, s->platform, m);
    if (m->iteration_s > 0) {
        m->skipped_frac = outcome->skipped_s / m->iteration_s;
        m->bubble_frac = m->mean.bubble_s / m->iteration_s;
        m->comm_frac = m->mean.comm_s / m->iteration_s;
        m->exposed_comm_frac = m->mean.exposed_comm_s / m->iteration_s;
        m->cross_node_comm_frac = m->mean.cross_comm_s / m->iteration_s;
    }
}

/* The same shares as the mean's, by pipeline stage. */
static void fill_stages(const struct cs_trace *t, struct cs_run *run)
{
    int32_t n_stages = cs__chain_n_stages(t);
    int32_t *n_ranks = cs_calloc((size_t)n_stages, sizeof *n_ranks);
    run->stages = cs_calloc((size_t)n_stages, sizeof *run->stages);
    for (int32_t r = 0; r < t->n_ranks; r++) {
        n_ranks[t->programs[t->program_of_rank[r]].stage]++;
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        int32_t stage = t->programs[t->program_of_rank[r]].stage;
        add_shares(&run->stages[stage], &run->ranks[r], 1.0 / n_ranks[stage]);
    }
    cs_free(n_ranks);
}

static bool time_accounted(const struct cs__system *s, const struct cs_run *run)
{
    for (int32_t r = 0; r < s->trace->n_ranks; r++) {
        if (!close_to(total_s(&run->ranks[r]), run->metrics.iteration_s, ACCOUNT_TOLERANCE)) {
            return false;
        }
    }
    return true;
}

static int compare_spans(const void *a, const void *b)
{
    const struct cs_span *x = a;
    const struct cs_span *y = b;
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    if (x->start_s != y->start_s) {
        return x->start_s < y->start_s ? -1 : 1;
    }
    return x->end_s < y->end_s ? -1 : x->end_s > y->end_s;
}

/* Every member of a class did what the class did. */
static void expand_spans(const struct cs__system *s, const struct cs__span_record *records, int64_t n,
                         struct cs_run *run)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        total += s->class_size[records[i].class];
    }
    int64_t *first = cs_calloc((size_t)s->n_classes + 1, sizeof *first); /* members by class */
    int32_t *members = cs_calloc((size_t)s->trace->n_ranks + 1, sizeof *members);
    for (int32_t k = 0; k < s->n_classes; k++) {
        first[k + 1] = first[k] + s->class_size[k];
    }
    int64_t *fill = cs_calloc((size_t)s->n_classes + 1, sizeof *fill);
    for (int32_t r = 0; r < s->trace->n_ranks; r++) {
        int32_t k = s->class_of_rank[r];
        members[first[k] + fill[k]++] = r;
    }
    run->spans = cs_calloc((size_t)total + 1, sizeof *run->spans);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = first[records[i].class]; j < first[records[i].class + 1]; j++) {
            run->spans[run->n_spans] = records[i].span;
            run->spans[run->n_spans++].rank = members[j];
        }
    }
    if (run->n_spans > 0) {
        qsort(run->spans, (size_t)run->n_spans, sizeof *run->spans, compare_spans);
    }
    cs_free(first);
    cs_free(fill);
    cs_free(members);
}

cs_status cs__result_read(struct cs__system *s, const char *data, size_t bytes, struct cs_run *run,
                          struct cs_err *err)
{
    struct cs__outcome outcome;
    size_t n_classes = (size_t)s->n_classes;
    size_t n_path = (size_t)(cs__chain_n_kinds(s->trace) + cs__chain_n_stages(s->trace));
    size_t path_at = sizeof outcome + n_classes * (sizeof(struct cs_time_shares) + sizeof(double));
    size_t fixed = path_at + n_path * sizeof(double);
    if (bytes >= sizeof outcome) {
        memcpy(&outcome, data, sizeof outcome);
    }
    if (bytes < fixed || bytes != fixed + (size_t)outcome.n_spans * sizeof(struct cs__span_record)) {
        return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "the simulation's answer is incomplete");
    }
    struct cs_time_shares *sums = cs_calloc(n_classes, sizeof *sums);
    double *peak_at_s = cs_calloc(n_classes, sizeof *peak_at_s);
    memcpy(sums, data + sizeof outcome, n_classes * sizeof *sums);
    memcpy(peak_at_s, data + sizeof outcome + n_classes * sizeof *sums, n_classes * sizeof *peak_at_s);
    run->ranks = cs_calloc((size_t)s->trace->n_ranks, sizeof *run->ranks);
    for (int32_t r = 0; r < s->trace->n_ranks; r++) {
        run->ranks[r] = sums[s->class_of_rank[r]];
        add_shares(&run->metrics.mean, &run->ranks[r], 1.0 / s->trace->n_ranks);
    }
    fill_metrics(s, &outcome, run);
    fill_stages(s->trace, run);
    cs_engine_memory(s->trace, s->platform, &run->metrics);
    run->metrics.peak_memory_at_s = peak_at_s[s->class_of_rank[run->metrics.peak_memory_rank]];
    int64_t n_operations = cs__asked(s, run, LINK_TABLE_MAX);
    double *path_s = cs_calloc(n_path, sizeof *path_s);
    memcpy(path_s, data + path_at, n_path * sizeof *path_s);
    fill_path(s->trace, path_s, run);
    say_limit(run);
    cs_free(path_s);
    struct cs_run_checks *checks = &run->metrics.checks;
    checks->bytes_conserved = true;
    for (int32_t f = 0; f < CS_N_FABRICS; f++) {
        checks->bytes_conserved =
            checks->bytes_conserved &&
            close_to(run->metrics.asked_bytes[f], run->metrics.carried_bytes[f], BYTES_TOLERANCE);
    }
    checks->time_accounted = time_accounted(s, run);
    checks->state_conserved =
        state_bytes(s->trace) >=
        fmax(s->trace->model_state_bytes, s->trace->cluster_state_bytes) * (1 - BYTES_TOLERANCE);
    checks->operations_complete = n_operations == run->metrics.n_operations;
    struct cs__span_record *records = cs_malloc((size_t)outcome.n_spans * sizeof *records + 1);
    memcpy(records, data + fixed, (size_t)outcome.n_spans * sizeof *records);
    expand_spans(s, records, outcome.n_spans, run);
    struct cs_strbuf folding = {0};
    cs__system_explain(s, &folding);
    run->folding = folding.text;
    cs_free(records);
    cs_free(sums);
    cs_free(peak_at_s);
    return CS_OK;
}
