#include "quotient_priv.h"

#include <math.h>

bool cs__is_closed(const struct cs__system *s, const struct cs__binding *b)
{
    return s->options->view == CS_VIEW_AUTO ? b->quiet : s->options->view == CS_VIEW_CLOSED;
}

int32_t cs__mark_simulated(struct cs__system *s)
{
    for (int32_t i = 0; i < s->n_shapes; i++) {
        int32_t comm = s->shapes[i].comm;
        for (int32_t g = 0; g < s->comms[comm].n_group_classes; g++) {
            const struct cs__binding *b = &s->bindings[i][g];
            int32_t at = 0;
            for (int32_t p = 0; p < b->plan.n_phases; p++) {
                for (int32_t k = 0; k < b->plan.phases[p].n_flows; k++, at++) {
                    if (!cs__is_closed(s, b)) {
                        s->flow_classes[b->flow_class[at]].sim_pair = 0;
                    }
                }
            }
        }
    }
    int32_t n = 0;
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        struct cs__flow_class *class = &s->flow_classes[f];
        bool channel = s->flows[class->rep].owner >= s->trace->n_comms;
        class->sim_pair = channel || class->sim_pair == 0 ? n++ : -1;
    }
    return n;
}

/* Flow class number `i` gets the i-th ordered pair of different hosts. */
static int32_t nth_pair(int32_t i, int32_t n_hosts)
{
    int32_t from = i / (n_hosts - 1);
    int32_t to = i % (n_hosts - 1);
    return from * n_hosts + (to >= from ? to + 1 : to);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Counts on one link class are divided by what they have in common, the bandwidth with them: the same
 * constraint with shorter routes. */
static int64_t *common_counts(const struct cs__system *s)
{
    int64_t *common = cs_calloc((size_t)s->n_link_classes + 1, sizeof *common);
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        const struct cs__flow_class *class = &s->flow_classes[f];
        for (int32_t u = 0; u < class->n_uses && class->sim_pair >= 0; u++) {
            const struct cs__use *use = &s->uses[class->first_use + u];
            common[use->link_class] = gcd(common[use->link_class], use->count);
        }
    }
    return common;
}

static void add_links(const struct cs__system *s, const int64_t *common, struct cs_strbuf *xml)
{
    for (int32_t l = 0; l < s->n_link_classes; l++) {
        int32_t rep = s->link_classes[l].rep;
        if (common[l] > 0 && cs_routes_link(s->routes, rep)->shared) {
            cs_strbuf_addf(xml, "<link id=\"c%d\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", l,
                           s->link_bytes_per_s[rep] / (double)common[l]);
        }
    }
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        const struct cs__flow_class *class = &s->flow_classes[f];
        if (class->sim_pair >= 0) {
            double cap = isfinite(class->cap_bytes_per_s) ? class->cap_bytes_per_s : 1e18;
            cs_strbuf_addf(
                xml,
                "<link id=\"f%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" sharing_policy=\"FATPIPE\"/>\n",
                f, cap, class->latency_s);
        }
    }
}

static void add_routes(const struct cs__system *s, const int64_t *common, int32_t n_hosts,
                       struct cs_strbuf *xml)
{
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        const struct cs__flow_class *class = &s->flow_classes[f];
        if (class->sim_pair < 0) {
            continue;
        }
        cs_strbuf_addf(xml, "<route src=\"h%d\" dst=\"h%d\" symmetrical=\"NO\"><link_ctn id=\"f%d\"/>",
                       class->sim_pair / n_hosts, class->sim_pair % n_hosts, f);
        for (int32_t u = 0; u < class->n_uses; u++) {
            const struct cs__use *use = &s->uses[class->first_use + u];
            if (!cs_routes_link(s->routes, s->link_classes[use->link_class].rep)->shared) {
                continue;
            }
            for (int64_t k = 0; k < use->count / common[use->link_class]; k++) {
                cs_strbuf_addf(xml, "<link_ctn id=\"c%d\"/>", use->link_class);
            }
        }
        cs_strbuf_add(xml, "</route>\n");
    }
}

char *cs__quotient_xml(struct cs__system *s, int32_t *n_hosts, size_t *bytes)
{
    int32_t n = cs__mark_simulated(s);
    *n_hosts = 2;
    while ((int64_t)*n_hosts * (*n_hosts - 1) < n) {
        *n_hosts += 1;
    }
    for (int32_t f = 0; f < s->n_flow_classes; f++) {
        struct cs__flow_class *class = &s->flow_classes[f];
        class->sim_pair = class->sim_pair >= 0 ? nth_pair(class->sim_pair, *n_hosts) : -1;
    }
    struct cs_strbuf xml = {0};
    cs_strbuf_add(&xml,
                  "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\">\n<zone id=\"quotient\" routing=\"Full\">\n");
    for (int32_t h = 0; h < *n_hosts; h++) {
        cs_strbuf_addf(&xml, "<host id=\"h%d\" speed=\"1Gf\"/>\n", h);
    }
    int64_t *common = common_counts(s);
    add_links(s, common, &xml);
    add_routes(s, common, *n_hosts, &xml);
    cs_free(common);
    cs_strbuf_add(&xml, "</zone>\n</platform>\n");
    *bytes = xml.len;
    return xml.text;
}
