#include "cs/reports/csv.h"

#include "text_priv.h"

#include <math.h>
#include <string.h>

/* RFC 4180. */
static void put_field(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        (void)fputs(text, out);
        return;
    }
    (void)fputc('"', out);
    for (; *text; text++) {
        (void)fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    }
    (void)fputc('"', out);
}

static void put_real(FILE *out, double value)
{
    if (isfinite(value)) {
        (void)fprintf(out, ",%.9g", value);
    } else {
        (void)fputc(',', out);
    }
}

static void put_keys(FILE *out, const struct cs_strategy *strategy, int32_t first, int32_t last)
{
    for (int32_t key = first; key <= last; key++) {
        char buf[64];
        (void)fputc(',', out);
        put_field(out, cs__key_text(strategy, (enum cs_key)key, buf, sizeof buf));
    }
}

void cs_report_search_csv(FILE *out, const struct cs_search_report *report)
{
    (void)fputs("rank", out);
    for (int32_t key = 0; key <= CS_KEY_USUAL_LAST; key++) {
        (void)fprintf(out, ",%s", cs_strategy_keys[key]);
    }
    (void)fputs(",iteration_time_s,tokens_per_s,tflops_per_device,mfu,hfu,bubble_fraction,comm_fraction,"
                "exposed_comm_fraction,cross_node_comm_fraction,peak_memory_bytes",
                out);
    for (int32_t key = CS_KEY_USUAL_LAST + 1; key < CS_N_KEYS + CS_N_LISTS; key++) {
        (void)fprintf(out, ",%s", cs_strategy_keys[key]);
    }
    (void)fputc('\n', out);
    for (int64_t i = 0; i < report->result->n_ranked && i < report->study->search.n_top; i++) {
        const struct cs_ranked *ranked = &report->result->ranking[i];
        const struct cs_metrics *metrics = &ranked->metrics;
        const struct cs_strategy *strategy = &report->space->candidates[ranked->candidate].strategy;
        (void)fprintf(out, "%lld", (long long)i + 1);
        put_keys(out, strategy, 0, CS_KEY_USUAL_LAST);
        const double figures[] = {
            metrics->iteration_s, metrics->tokens_per_s,      metrics->tflops_per_device,
            metrics->mfu_frac,    metrics->hfu_frac,          metrics->bubble_frac,
            metrics->comm_frac,   metrics->exposed_comm_frac, metrics->cross_node_comm_frac};
        for (int32_t f = 0; f < CS_COUNT(figures); f++) {
            put_real(out, figures[f]);
        }
        (void)fprintf(out, ",%lld", (long long)metrics->peak_memory_bytes);
        put_keys(out, strategy, CS_KEY_USUAL_LAST + 1, CS_N_KEYS - 1);
        for (int32_t list = 0; list < CS_N_LISTS; list++) {
            char buf[CS__LIST_TEXT_MAX];
            (void)fputc(',', out);
            put_field(out, cs__list_text(cs_key_list_of(strategy, (enum cs_list_key)list), buf, sizeof buf));
        }
        (void)fputc('\n', out);
    }
}

void cs_report_simulate_csv(FILE *out, const struct cs_simulate_report *report)
{
    const struct cs_strategy *strategy = report->strategy;
    const struct cs_run *run = report->run;
    double step_us = 1e6 * run->metrics.iteration_s;
    (void)fputs(
        "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
        "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing,DP Index,PP Index,TP Index\n",
        out);
    for (int32_t rank = 0; rank < run->metrics.n_ranks; rank++) {
        const struct cs_time_shares *shares = &run->ranks[rank];
        double bubble_us = 1e6 * shares->bubble_s;
        const double columns[] = {1e6 * shares->computing_s,
                                  1e6 * shares->exposed_comm_s + bubble_us,
                                  1e6 * (shares->comm_s - shares->exposed_comm_s),
                                  1e6 * shares->comm_s + bubble_us,
                                  1e6 * shares->idle_s,
                                  step_us - bubble_us,
                                  bubble_us,
                                  1e6 * shares->exposed_comm_s,
                                  0}; /* nothing is prepared in a simulated step */
        (void)fprintf(out, "0,rank,%d", (int)rank);
        for (int32_t i = 0; i < CS_COUNT(columns); i++) {
            (void)fprintf(out, ",%.3f", columns[i]);
        }
        (void)fprintf(out, ",%d,%d,%d\n", (int)cs_strategy_coord(strategy, rank, CS_DIM_DP),
                      (int)cs_strategy_coord(strategy, rank, CS_DIM_PP),
                      (int)cs_strategy_coord(strategy, rank, CS_DIM_MP));
    }
}
