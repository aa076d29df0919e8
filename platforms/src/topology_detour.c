/* What the dead cables of a description change, in words. */
#include "cs/base/text.h"
#include "topology_priv.h"

#include <stdio.h>
#include <string.h>

/* All pairs of a torus are counted up to this size: the cost is quadratic. */
#define COUNTED_NODES_MAX 1024

/* Hops from a node to all others over the cables that are not dead (NULL: none is). */
static void torus_hops(const struct cs_fabric_plan *plan, const int32_t *cables, int32_t n_cables,
                       const bool *dead, int32_t from, int32_t *hops)
{
    int32_t n = plan->spec->n_nodes;
    for (int32_t i = 0; i < n; i++) {
        hops[i] = i == from ? 0 : INT32_MAX;
    }
    bool changed = true;
    for (int32_t at = 0; changed; at++) {
        changed = false;
        for (int32_t c = 0; c < n_cables; c++) {
            for (int end = 0; end < 2 && !(dead && dead[c]); end++) {
                int32_t a = cables[2 * c + end];
                int32_t b = cables[2 * c + 1 - end];
                if (hops[a] == at && hops[b] == INT32_MAX) {
                    hops[b] = at + 1;
                    changed = true;
                }
            }
        }
    }
}

/* The cables of a torus as pairs of nodes, and which of them are dead. Returns their number. */
static int32_t torus_cables(const struct cs_fabric_plan *plan, int32_t *cables, bool *dead)
{
    int32_t n = 0;
    int32_t stride = 1;
    for (int32_t d = 0; d < 3; d++) {
        for (int32_t node = 0; node < plan->spec->n_nodes; node++) {
            int32_t next = cs__fabric_torus_next(plan, node, d, stride);
            if (next >= 0) {
                dead[n] = cs__cable_dead(plan->spec, CS__CABLE_TORUS, 0, node, d);
                cables[2 * n] = node;
                cables[2 * n++ + 1] = next;
            }
        }
        stride *= plan->dims[d];
    }
    return n;
}

static void torus_detours(const struct cs_fabric_plan *plan, struct cs_strbuf *text)
{
    int32_t n = plan->spec->n_nodes;
    int32_t *cables = cs_calloc(6 * (size_t)n, sizeof *cables);
    bool *dead = cs_calloc(3 * (size_t)n, sizeof *dead);
    int32_t *whole = cs_calloc(2 * (size_t)n, sizeof *whole);
    int32_t *left = whole + n;
    int32_t n_cables = torus_cables(plan, cables, dead);
    int64_t n_longer = 0;
    int32_t most = 0;
    for (int32_t from = 0; from < n; from++) {
        torus_hops(plan, cables, n_cables, NULL, from, whole);
        torus_hops(plan, cables, n_cables, dead, from, left);
        for (int32_t to = from + 1; to < n; to++) {
            int32_t more = left[to] - whole[to];
            n_longer += more > 0;
            most = more > most ? more : most;
        }
    }
    cs_strbuf_addf(
        text,
        "detours of %lld of %lld pairs of nodes, by up to %d hops; routes of equal length moved too, "
        "which can also relieve a cable",
        (long long)n_longer, (long long)n * (n - 1) / 2, (int)most);
    cs_free(whole);
    cs_free(dead);
    cs_free(cables);
}

/* "npu0 and npu1 over npu2" */
static void pair_detour(const struct cs_fabric_plan *plan, const char *name, struct cs_strbuf *text)
{
    int in = 0;
    int a = 0;
    int b = 0;
    enum cs__cable cable = CS__CABLE_MESH;
    const char *what = "npu";
    if (sscanf(name, "group%d_local%d-%d", &in, &a, &b) == 3) {
        cable = CS__CABLE_LOCAL;
        what = "router ";
    } else if (sscanf(name, "global%d-%d", &a, &b) == 2) {
        cable = CS__CABLE_GLOBAL;
        what = "group ";
    } else if (sscanf(name, "hccs%d-%d", &a, &b) != 2) {
        return;
    }
    int32_t third = cs__cable_detour(plan, cable, in, a, b);
    if (third >= 0) {
        cs_strbuf_addf(text, "%s%d and %s%d over %s%d", what, a, what, b, what, (int)third);
        if (cable == CS__CABLE_LOCAL) {
            cs_strbuf_addf(text, " in group %d", in);
        }
    }
}

void cs_topology_detours(const struct cs_topology_spec *spec, cs_detour_fn add, void *context)
{
    struct cs_fabric_plan plan;
    struct cs_strbuf text = {0};
    bool torus = false;
    cs__fabric_plan(spec, &plan);
    for (int32_t i = 0; i < spec->n_dead_links; i++) {
        torus = torus || strncmp(spec->dead_links[i], "torus", 5) == 0;
    }
    if (torus && spec->n_nodes <= COUNTED_NODES_MAX) {
        torus_detours(&plan, &text);
        add(context, text.text);
    } else if (torus) {
        add(context, "detours of nodes of the torus; routes of equal length moved too");
    }
    for (int32_t i = 0; i < spec->n_dead_links; i++) {
        text.len = 0;
        pair_detour(&plan, spec->dead_links[i], &text);
        if (text.len > 0) {
            add(context, text.text);
        }
    }
    cs_strbuf_release(&text);
}
