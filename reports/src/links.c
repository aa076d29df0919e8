/* Links fitted to measured collectives. */
#include "cs/reports/validate.h"

#include <math.h>

/* "12.3 %", "-" for NaN. */
static const char *percent(double frac, char text[16])
{
    (void)snprintf(text, 16, "%.1f %%", 100 * frac);
    return isnan(frac) ? "-" : text;
}

void cs_report_links_text(FILE *out, const struct cs_link_fits *fits)
{
    (void)fprintf(
        out,
        "Links fitted to %d measured collectives of one node, 1 MB and more (%d others left out)\n\n"
        "%-16s %5s %8s %12s %10s %12s %10s %10s %10s %10s\n",
        (int)(fits->n_rows - fits->n_foreign), (int)fits->n_foreign, "server", "rows", "groups", "catalogue",
        "fitted", "catalogue", "fitted", "error", "fitted", "held out");
    for (int32_t i = 0; i < fits->n; i++) {
        const struct cs_link_fit *f = &fits->items[i];
        char catalogue[16];
        char fitted[16];
        char held_out[16];
        (void)fprintf(out, "%-16s %5d %8d %7.1f GB/s %5.1f GB/s %9.2f us %7.2f us", f->server, (int)f->n_rows,
                      (int)f->n_groups, f->catalogue_bytes_per_s / 1e9, f->bytes_per_s / 1e9,
                      f->catalogue_latency_s * 1e6, f->latency_s * 1e6);
        (void)fprintf(out, " %10s %10s %10s\n", percent(f->catalogue_error_frac, catalogue),
                      percent(f->error_frac, fitted), percent(f->held_out_frac, held_out));
    }
}

void cs_report_links_markdown(FILE *out, const struct cs_link_fits *fits)
{
    (void)fprintf(
        out,
        "\n## Collectives\n\nLinks inside a server fitted to %d measured collectives of one node, 1 "
        "MB and more; %d others of the table are of several nodes, smaller, or of hardware that the "
        "catalogue has not. Errors are mean |predicted / measured - 1| of the time: with the "
        "catalogue's figures, with the fitted ones, and of each group (a source's rows of one collective) "
        "with figures fitted without "
        "it.\n\n| server | rows | groups | bandwidth | fitted | latency | fitted | error | fitted | "
        "held out |\n|---|---|---|---|---|---|---|---|---|---|\n",
        (int)(fits->n_rows - fits->n_foreign), (int)fits->n_foreign);
    for (int32_t i = 0; i < fits->n; i++) {
        const struct cs_link_fit *f = &fits->items[i];
        char catalogue[16];
        char fitted[16];
        char held_out[16];
        (void)fprintf(out, "| %s | %d | %d | %.1f GB/s | %.1f GB/s | %.2f us | %.2f us |", f->server,
                      (int)f->n_rows, (int)f->n_groups, f->catalogue_bytes_per_s / 1e9, f->bytes_per_s / 1e9,
                      f->catalogue_latency_s * 1e6, f->latency_s * 1e6);
        (void)fprintf(out, " %s | %s | %s |\n", percent(f->catalogue_error_frac, catalogue),
                      percent(f->error_frac, fitted), percent(f->held_out_frac, held_out));
    }
}

json_t *cs_report_links_json(const struct cs_link_fits *fits, const struct cs_report_origin *origin)
{
    json_t *servers = json_array();
    for (int32_t i = 0; i < fits->n; i++) {
        const struct cs_link_fit *f = &fits->items[i];
        json_t *held_out = isnan(f->held_out_frac) ? json_null() : json_real(f->held_out_frac);
        json_array_append_new(
            servers,
            json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "server", f->server, "rows",
                      (int)f->n_rows, "groups", (int)f->n_groups, "catalogue_bytes_per_s",
                      f->catalogue_bytes_per_s, "bytes_per_s", f->bytes_per_s, "catalogue_latency_s",
                      f->catalogue_latency_s, "latency_s", f->latency_s, "catalogue_error_frac",
                      f->catalogue_error_frac, "error_frac", f->error_frac, "held_out_frac", held_out));
    }
    return json_pack("{s:s, s:s, s:o}", "command", origin->command, "version", origin->version, "servers",
                     servers);
}
