/* Links fitted to measured collectives. */
#include "cs/reports/validate.h"

#include <math.h>

/* "12.3 %", "-" for NaN. */
static const char *percent(double frac, char text[16])
{
    (void)snprintf(text, 16, "%.1f %%", 100 * frac);
    return isnan(frac) ? "-" : text;
}

/* What the rows determine. */
static const char *determined(const struct cs_link_fit *f)
{
    bool bandwidth = f->bandwidth_determined_frac > CS_LINK_DETERMINED_FRAC;
    bool latency = f->latency_determined_frac > CS_LINK_DETERMINED_FRAC;
    return cs_link_fit_fails(f) ? "nothing"
           : bandwidth          ? latency ? "both" : "bandwidth"
           : latency            ? "latency"
                                : "nothing";
}

/* What is left out together: "3 sources", "5 sizes". */
static const char *groups(const struct cs_link_fit *f, char text[24])
{
    (void)snprintf(text, 24, "%d %s%s", (int)f->n_groups, f->by_size ? "size" : "source",
                   f->n_groups > 1 ? "s" : "");
    return text;
}

void cs_report_links_text(FILE *out, const struct cs_link_fits *fits)
{
    (void)fprintf(out,
                  "Links fitted to %d measured collectives of 1 MB and more (%d others left out)\n\n"
                  "%-14s %-7s %4s %9s  %10s -> %-10s %8s -> %-9s  %6s -> %-7s %8s  %s\n",
                  (int)(fits->n_rows - fits->n_foreign), (int)fits->n_foreign, "server", "links", "rows",
                  "groups", "bandwidth", "fitted", "latency", "fitted", "error", "fitted", "held out",
                  "determined");
    for (int32_t i = 0; i < fits->n; i++) {
        const struct cs_link_fit *f = &fits->items[i];
        char left_out[24];
        char catalogue[16];
        char fitted[16];
        char held_out[16];
        (void)fprintf(out, "%-14s %-7s %4d %9s  %5.1f GB/s -> %5.1f GB/s %5.2f us -> %6.2f us", f->server,
                      cs_link_place_names[f->place], (int)f->n_rows, groups(f, left_out),
                      f->catalogue_bytes_per_s / 1e9, f->bytes_per_s / 1e9, f->catalogue_latency_s * 1e6,
                      f->latency_s * 1e6);
        (void)fprintf(out, "  %6s -> %-7s %8s  %s\n", percent(f->catalogue_error_frac, catalogue),
                      percent(f->error_frac, fitted), percent(f->held_out_frac, held_out), determined(f));
    }
}

void cs_report_links_markdown(FILE *out, const struct cs_link_fits *fits)
{
    (void)fprintf(
        out,
        "\n## Collectives\n\nLinks inside servers and between them fitted to %d measured collectives and "
        "transfers of 1 MB and more; %d others of the table are smaller, of another kind, or of hardware "
        "that "
        "the catalogue has not. Servers that are wired alike are one line. Errors are mean |predicted / "
        "measured - 1| of the time: with the catalogue's figures, with the fitted ones, and of each group (a "
        "source's rows of one collective or, where there is one such group, those of one decade of sizes) "
        "with figures fitted without it. What the rows do not determine keeps the catalogue's figure, and so "
        "does everything where the fit leaves more than %.0f %%: the closed form is not how these "
        "collectives work.\n\n"
        "| server | links | rows | groups | bandwidth | fitted | latency | fitted | error | fitted | "
        "held out | determined |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        (int)(fits->n_rows - fits->n_foreign), (int)fits->n_foreign, 100 * CS_LINK_ERROR_MAX_FRAC);
    for (int32_t i = 0; i < fits->n; i++) {
        const struct cs_link_fit *f = &fits->items[i];
        char left_out[24];
        char catalogue[16];
        char fitted[16];
        char held_out[16];
        (void)fprintf(out, "| %s | %s | %d | %s | %.1f GB/s | %.1f GB/s | %.2f us | %.2f us |", f->server,
                      cs_link_place_names[f->place], (int)f->n_rows, groups(f, left_out),
                      f->catalogue_bytes_per_s / 1e9, f->bytes_per_s / 1e9, f->catalogue_latency_s * 1e6,
                      f->latency_s * 1e6);
        (void)fprintf(out, " %s | %s | %s | %s |\n", percent(f->catalogue_error_frac, catalogue),
                      percent(f->error_frac, fitted), percent(f->held_out_frac, held_out), determined(f));
    }
}

json_t *cs_report_links_json(const struct cs_link_fits *fits, const struct cs_report_origin *origin)
{
    json_t *servers = json_array();
    for (int32_t i = 0; i < fits->n; i++) {
        const struct cs_link_fit *f = &fits->items[i];
        json_t *object = json_pack("{s:s, s:s, s:i, s:i, s:b}", "server", f->server, "links",
                                   cs_link_place_names[f->place], "rows", (int)f->n_rows, "groups",
                                   (int)f->n_groups, "groups_by_size", (int)f->by_size);
        const struct {
            const char *key;
            double value;
        } figures[] = {{"catalogue_bytes_per_s", f->catalogue_bytes_per_s},
                       {"bytes_per_s", f->bytes_per_s},
                       {"bandwidth_determined_fraction", f->bandwidth_determined_frac},
                       {"catalogue_latency_s", f->catalogue_latency_s},
                       {"latency_s", f->latency_s},
                       {"latency_determined_fraction", f->latency_determined_frac},
                       {"catalogue_error_frac", f->catalogue_error_frac},
                       {"error_frac", f->error_frac},
                       {"held_out_frac", f->held_out_frac}};
        for (int32_t k = 0; k < CS_COUNT(figures); k++) {
            (void)json_object_set_new(object, figures[k].key, cs_json_real(figures[k].value));
        }
        (void)json_object_set_new(object, "written", json_boolean(!cs_link_fit_fails(f)));
        (void)json_array_append_new(servers, object);
    }
    return json_pack("{s:s, s:s, s:o}", "command", origin->command, "version", origin->version, "servers",
                     servers);
}
