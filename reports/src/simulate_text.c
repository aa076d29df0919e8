#include "text_priv.h"

#include "cs/base/units.h"

#include <math.h>
#include <string.h>

static const char *bytes_text(double bytes, char *buf, size_t buf_bytes)
{
    return cs_units_format(bytes, CS_UNIT_BYTES, buf, buf_bytes);
}

static void print_speed(FILE *out, const struct cs_metrics *metrics)
{
    char total[32];
    char each[32];
    (void)fprintf(out, "step        %.4g s\n", metrics->iteration_s);
    (void)fprintf(out, "tokens/s    %s, %s a device\n",
                  cs__count((int64_t)(metrics->tokens_per_s + 0.5), total, sizeof total),
                  cs__count((int64_t)(metrics->tokens_per_s / metrics->n_ranks + 0.5), each, sizeof each));
    (void)fprintf(out, "TFLOPS      %.1f a device, MFU %.1f %%, HFU %.1f %%\n", metrics->tflops_per_device,
                  100 * metrics->mfu_frac, 100 * metrics->hfu_frac);
}

/* Where published runs would put the step. */
static void print_interval(FILE *out, const struct cs_simulate_report *report)
{
    const struct cs_interval *interval = &report->study->interval;
    double step_s = report->evaluation->metrics.iteration_s;
    char text[256];
    if (interval->n == 0) {
        (void)snprintf(text, sizeof text, "no range: too few published runs of %s on %s to compare with",
                       report->study->model.n_experts > 0 ? "mixtures of experts" : "dense models",
                       report->study->platform.devices[0].chip->name);
    } else {
        (void)snprintf(
            text, sizeof text,
            "%.4g to %.4g s: 8 of 10 of %d published runs on %s took %.2f to %.2f times the simulated step",
            step_s * interval->low_frac, step_s * interval->high_frac, (int)interval->n, interval->chip,
            interval->low_frac, interval->high_frac);
    }
    cs__paragraph(out, "in practice ", text);
}

/* Mean over ranks; the first line adds up to 100 %. */
static void print_shares(FILE *out, const struct cs_metrics *metrics)
{
    const struct cs_time_shares *mean = &metrics->mean;
    double percent = metrics->iteration_s > 0 ? 100 / metrics->iteration_s : 0;
    (void)fprintf(
        out, "time        computing %.1f %%, exposed communication %.1f %%, bubble %.1f %%, free %.1f %%\n",
        percent * mean->computing_s, percent * mean->exposed_comm_s, percent * mean->bubble_s,
        percent * mean->idle_s);
    if (mean->beside_s > 0) {
        (void)fprintf(out, "            of the free time, copies between device and host %.1f %%\n",
                      percent * mean->beside_s);
    }
    (void)fprintf(
        out,
        "            communication in all %.1f %%, hidden behind computing %.1f %%, between nodes %.1f "
        "%%\n",
        100 * metrics->comm_frac, 100 * (metrics->comm_frac - metrics->exposed_comm_frac),
        100 * metrics->cross_node_comm_frac);
}

/* Where the pipeline waits: the bubble of each stage's ranks, of the step. */
static void print_bubbles(FILE *out, const struct cs_run *run)
{
    struct cs_strbuf text = {0};
    if (run->n_path_stages < 2 || !(run->metrics.iteration_s > 0)) {
        return;
    }
    for (int32_t i = 0; i < run->n_path_stages; i++) {
        cs_strbuf_addf(&text, "%s%.1f", i ? ", " : "by stage ",
                       100 * run->stages[i].bubble_s / run->metrics.iteration_s);
    }
    cs_strbuf_add(&text, " %");
    cs__paragraph(out, "bubble      ", text.text);
    cs_strbuf_release(&text);
}

static void print_categories(FILE *out, const struct cs_metrics *metrics)
{
    char amount[32];
    char text[256] = "";
    size_t used = 0;
    for (int32_t i = 0; i <= CS_N_MEMS; i++) {
        bool is_mem = i < CS_N_MEMS;
        double bytes = (double)(is_mem ? metrics->memory_bytes[i] : metrics->reserved_bytes);
        int n = snprintf(text + used, sizeof text - used, "%s%s %s", i > 0 ? ", " : "",
                         is_mem ? cs_mem_names[i] : "reserved", bytes_text(bytes, amount, sizeof amount));
        used += n > 0 && (size_t)n < sizeof text - used ? (size_t)n : 0;
    }
    cs__paragraph(out, "            ", text);
}

static void print_memory(FILE *out, const struct cs_simulate_report *report)
{
    const struct cs_metrics *metrics = &report->evaluation->metrics;
    double margin = report->study->constraints.memory_margin;
    double peak_bytes = (double)metrics->peak_memory_bytes;
    double counted_bytes = cs_study_counted_bytes(report->study, peak_bytes);
    bool beside = counted_bytes < peak_bytes;
    char peak[32];
    char with_margin[32];
    char device[32];
    char when[32] = "";
    if (report->evaluation->simulated) {
        (void)snprintf(when, sizeof when, " at %.3g s", metrics->peak_memory_at_s);
    }
    (void)fprintf(out, "memory      %s%s, x %g margin %s of %s; rank %d%s\n",
                  bytes_text(counted_bytes, peak, sizeof peak), beside ? " without the reserve" : "", margin,
                  bytes_text(counted_bytes * margin, with_margin, sizeof with_margin),
                  bytes_text(cs_study_device_memory_bytes(report->study), device, sizeof device),
                  (int)metrics->peak_memory_rank, when);
    print_categories(out, metrics);
}

static void print_links(FILE *out, const struct cs_run *run)
{
    const char *label = "links       ";
    for (int32_t i = 0; i < run->n_links && i < 3; i++) {
        const struct cs_link_load *link = &run->links[i];
        char moved[32];
        char text[256];
        char alike[32] = "";
        if (link->n_alike > 1) {
            (void)snprintf(alike, sizeof alike, " (%d alike)", (int)link->n_alike);
        }
        (void)snprintf(text, sizeof text, "%s%s busy %.1f %%, %s%s%s", link->name, alike,
                       100 * link->busy_frac, bytes_text(link->bytes, moved, sizeof moved),
                       link->users[0] ? ": " : "", link->users);
        cs__paragraph(out, label, text);
        label = "            ";
    }
}

/* Detours that are named; the rest are counted. */
#define DETOURS_MAX 4

struct detour_context {
    struct cs_strbuf text;
    int32_t n;
};

static void add_detour(void *context, const char *text)
{
    struct detour_context *detours = context;
    if (detours->n++ < DETOURS_MAX) {
        cs_strbuf_addf(&detours->text, "%s%s", detours->text.len > 0 ? "; " : "", text);
    }
}

/* Where the traffic of dead links goes: the cost is in the step. */
static void print_detours(FILE *out, const struct cs_study *study)
{
    struct detour_context detours = {0};
    if (study->description) {
        cs_topology_detours(study->description, add_detour, &detours);
    }
    if (detours.n > DETOURS_MAX) {
        cs_strbuf_addf(&detours.text, " and %d more", (int)detours.n - DETOURS_MAX);
    }
    if (detours.n > 0) {
        cs__paragraph(out, "dead links  ", detours.text.text);
    }
    cs_strbuf_release(&detours.text);
}

struct warning_context {
    FILE *out;
    bool color;
};

static void add_warning(void *context, const char *text)
{
    struct warning_context *warning = context;
    cs__warning_line(warning->out, warning->color, text);
}

void cs_report_simulate_text(FILE *out, const struct cs_simulate_report *report, bool color)
{
    const struct cs_evaluation *evaluation = report->evaluation;
    const struct cs_metrics *metrics = &evaluation->metrics;
    char strategy[CS_STRATEGY_TEXT_MAX];
    char operations[32];
    cs__inputs(out, report->study);
    cs__paragraph(out, "strategy    ", cs_strategy_format(report->strategy, strategy, sizeof strategy));
    (void)fprintf(out, "status      ");
    cs__emphasise(out, color, evaluation->outcome == CS_OUTCOME_OK ? CS__STRONG : CS__WARNING,
                  cs_outcome_names[evaluation->outcome]);
    (void)fprintf(out, "%s%s\n", evaluation->reason[0] ? ": " : "", evaluation->reason);
    print_speed(out, metrics);
    print_interval(out, report);
    if (evaluation->simulated) {
        print_shares(out, metrics);
        print_bubbles(out, report->run);
    }
    print_memory(out, report);
    print_links(out, report->run);
    print_detours(out, report->study);
    if (metrics->limited_by[0]) {
        cs__paragraph(out, "limited by  ", metrics->limited_by);
    }
    if (evaluation->estimated) {
        (void)fprintf(out,
                      "closed form nothing was simulated: no contention, one rank of every stage; %.3g s\n",
                      metrics->wall_s);
        return;
    }
    (void)fprintf(out, "simulated   %d of %d ranks (%s), %s operations, %.3g s\n",
                  (int)metrics->n_rank_classes, (int)metrics->n_ranks, cs_fidelity_names[metrics->fidelity],
                  cs__count(metrics->n_operations, operations, sizeof operations), metrics->wall_s);
    if (report->spread) {
        const struct cs_spread *spread = report->spread;
        (void)fprintf(out, "repeated    %d times: step %.4g s on average, %.4g to %.4g, deviation %.2g s\n",
                      (int)spread->n, spread->mean_s, spread->least_s, spread->most_s, spread->deviation_s);
    }
    if (report->explain_folding && report->run->folding) {
        (void)fprintf(out, "folding\n%s", report->run->folding);
    }
    struct warning_context context = {out, color};
    cs_report_warnings(report->strategy, evaluation, report->study, add_warning, &context);
}

double cs_report_replay_memory_bytes(const struct cs_replay_report *report)
{
    double least_bytes = (double)INFINITY;
    for (int32_t r = 0; r < report->trace->n_ranks; r++) {
        least_bytes = fmin(least_bytes, report->platform->devices[r].memory_bytes);
    }
    return least_bytes;
}

bool cs_report_replay_fits(const struct cs_replay_report *report)
{
    return (double)report->run->metrics.peak_memory_bytes * report->memory_margin <=
           cs_report_replay_memory_bytes(report);
}

void cs_report_replay_text(FILE *out, const struct cs_replay_report *report)
{
    const struct cs_metrics *metrics = &report->run->metrics;
    char peak[32];
    char with_margin[32];
    char device[32];
    char operations[32];
    (void)fprintf(out, "%s on %s: %d ranks\n", report->source, report->platform->name, (int)metrics->n_ranks);
    if (report->trace->n_tokens > 0) {
        print_speed(out, metrics);
    } else {
        (void)fprintf(out, "step        %.4g s\n", metrics->iteration_s);
    }
    print_shares(out, metrics);
    print_bubbles(out, report->run);
    double peak_bytes = (double)metrics->peak_memory_bytes;
    (void)fprintf(out, "memory      %s, x %g margin %s of %s%s; rank %d at %.3g s\n",
                  bytes_text(peak_bytes, peak, sizeof peak), report->memory_margin,
                  bytes_text(peak_bytes * report->memory_margin, with_margin, sizeof with_margin),
                  bytes_text(cs_report_replay_memory_bytes(report), device, sizeof device),
                  cs_report_replay_fits(report) ? "" : ", out of memory", (int)metrics->peak_memory_rank,
                  metrics->peak_memory_at_s);
    print_categories(out, metrics);
    print_links(out, report->run);
    cs__paragraph(out, "limited by  ", metrics->limited_by);
    (void)fprintf(out, "replayed    %d of %d ranks (%s), %s operations, %.3g s\n",
                  (int)metrics->n_rank_classes, (int)metrics->n_ranks, cs_fidelity_names[metrics->fidelity],
                  cs__count(metrics->n_operations, operations, sizeof operations), metrics->wall_s);
    if (report->explain_folding && report->run->folding) {
        (void)fprintf(out, "folding\n%s", report->run->folding);
    }
}
