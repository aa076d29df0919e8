#include "cs/reports/platform.h"

#include "cs/base/units.h"
#include "cs/reports/svg.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 860, HEIGHT = 440, NODE_LEFT = 20, FABRIC_LEFT = 360, TOP = 80, PANEL = 320 };

#define PI 3.14159265358979323846
#define DEVICES_SHOWN 16
#define BOXES_SHOWN 8 /* in a row of the fabric */

static void rate_label(struct cs_svg *svg, double x, double y, const char *what, double bytes_per_s,
                       double latency_s)
{
    char rate[32];
    char latency[32];
    char text[128];
    if (isnan(bytes_per_s)) {
        (void)snprintf(text, sizeof text, "%s: none", what);
    } else {
        (void)snprintf(text, sizeof text, "%s: %s, %s", what,
                       cs_units_format(bytes_per_s, CS_UNIT_BYTES_PER_S, rate, sizeof rate),
                       cs_units_format(latency_s, CS_UNIT_SECONDS, latency, sizeof latency));
    }
    cs_svg_text(svg, "small", x, y, -1, text);
}

/* One node: its devices in a circle, each pair joined, or all joined to a switch in the middle. */
static void draw_node(struct cs_svg *svg, const struct cs_platform *platform,
                      const struct cs_platform_figures *figures)
{
    double centre_x = NODE_LEFT + PANEL / 2.0;
    double centre_y = TOP + PANEL / 2.0;
    double radius = PANEL / 2.0 - 30;
    bool mesh = strcmp(platform->intra, "mesh") == 0;
    int32_t n = 0;
    double x[DEVICES_SHOWN];
    double y[DEVICES_SHOWN];
    char text[96];
    for (int32_t d = 0; d < platform->n_devices; d++) {
        n += platform->devices[d].node == 0;
    }
    int32_t shown = n < DEVICES_SHOWN ? n : DEVICES_SHOWN;
    cs_svg_box(svg, "box", NODE_LEFT, TOP, PANEL, PANEL, NULL);
    for (int32_t i = 0; i < shown; i++) {
        x[i] = centre_x + radius * sin(2 * PI * i / shown);
        y[i] = centre_y - radius * cos(2 * PI * i / shown);
        for (int32_t k = 0; k < i && mesh; k++) {
            cs_svg_line(svg, "thin", x[i], y[i], x[k], y[k]);
        }
        if (!mesh && shown > 1) {
            cs_svg_line(svg, "thin", x[i], y[i], centre_x, centre_y);
        }
    }
    for (int32_t i = 0; i < shown; i++) {
        (void)snprintf(text, sizeof text, "%d", (int)i);
        cs_svg_box(svg, "strong", x[i] - 14, y[i] - 11, 28, 22, platform->devices[0].chip->title);
        cs_svg_text(svg, "tick", x[i], y[i] + 4, 0, text);
    }
    if (!mesh && shown > 1) {
        cs_svg_box(svg, "box", centre_x - 26, centre_y - 12, 52, 24, NULL);
        cs_svg_text(svg, "small", centre_x, centre_y + 4, 0,
                    strcmp(platform->intra, "bus") == 0 ? "bus" : "switch");
    }
    (void)snprintf(text, sizeof text, "node 0: %d x %s%s", (int)n, platform->devices[0].chip->name,
                   shown < n ? " (16 drawn)" : "");
    cs_svg_text(svg, "tick", NODE_LEFT, TOP - 8, -1, text);
    rate_label(svg, NODE_LEFT, TOP + PANEL + 16, "out of a device inside the node",
               figures->intra_bytes_per_s, figures->intra_latency_s);
    rate_label(svg, NODE_LEFT, TOP + PANEL + 30, "to one neighbour", figures->pair_bytes_per_s,
               figures->intra_latency_s);
}

/* A row of up to BOXES_SHOWN boxes; centres in x. @return how many. */
static int32_t draw_row(struct cs_svg *svg, double y, int32_t n, const char *name, double x[BOXES_SHOWN])
{
    int32_t shown = n < BOXES_SHOWN ? n : BOXES_SHOWN;
    double step = (WIDTH - FABRIC_LEFT - 20) / (double)shown;
    char text[32];
    for (int32_t i = 0; i < shown; i++) {
        int32_t number = i == shown - 1 ? n - 1 : i;
        x[i] = FABRIC_LEFT + (i + 0.5) * step;
        if (shown < n && i == shown - 2) {
            cs_svg_text(svg, "tick", x[i], y + 16, 0, "...");
            continue;
        }
        (void)snprintf(text, sizeof text, "%s %d", name, (int)number);
        cs_svg_box(svg, "box", x[i] - 27, y, 54, 24, NULL);
        cs_svg_text(svg, "small", x[i], y + 16, 0, text);
    }
    return shown;
}

/* Nodes below, a switch level above, and everything under one more when there is more than one switch. */
static void draw_levels(struct cs_svg *svg, const struct cs_platform *platform, int32_t n_switches,
                        const char *switch_name, const char *top_name, bool every)
{
    double nodes[BOXES_SHOWN];
    double switches[BOXES_SHOWN];
    int32_t n_nodes = draw_row(svg, TOP + 250, platform->n_nodes, "node", nodes);
    int32_t n = draw_row(svg, TOP + 140, n_switches, switch_name, switches);
    double top_x = FABRIC_LEFT + (WIDTH - FABRIC_LEFT - 20) / 2.0;
    for (int32_t i = 0; i < n_nodes; i++) {
        for (int32_t s = 0; s < n; s++) {
            bool mine = every || (int64_t)i * n / n_nodes == s;
            if (mine) {
                cs_svg_line(svg, "thin", nodes[i], TOP + 250, switches[s], TOP + 164);
            }
        }
    }
    if (n_switches > 1) {
        cs_svg_box(svg, "strong", top_x - 60, TOP + 20, 120, 26, NULL);
        cs_svg_text(svg, "small", top_x, TOP + 37, 0, top_name);
        for (int32_t s = 0; s < n; s++) {
            cs_svg_line(svg, "axis", switches[s], TOP + 140, top_x, TOP + 46);
        }
    }
}

static int32_t ceil_div(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

/* A plane of a torus: nodes in a grid, links to the next, stubs where they close to a ring. */
static void draw_grid(struct cs_svg *svg, int32_t n)
{
    int32_t side = n >= 16 ? 4 : n >= 9 ? 3 : 2;
    double step = 70;
    for (int32_t r = 0; r < side; r++) {
        for (int32_t c = 0; c < side && r * side + c < n; c++) {
            double x = FABRIC_LEFT + 60 + c * step;
            double y = TOP + 30 + r * step;
            cs_svg_line(svg, "thin", x - step / 2, y, x + step / 2, y);
            cs_svg_line(svg, "thin", x, y - step / 2, x, y + step / 2);
            cs_svg_box(svg, "box", x - 12, y - 10, 24, 20, NULL);
        }
    }
    cs_svg_text(svg, "small", FABRIC_LEFT, TOP + PANEL - 10, -1, "rows and columns close to rings");
}

/* Groups in a circle, each joined to each. */
static void draw_groups(struct cs_svg *svg, int32_t n_groups)
{
    int32_t shown = n_groups < 9 ? n_groups : 9;
    double centre_x = FABRIC_LEFT + PANEL / 2.0;
    double centre_y = TOP + PANEL / 2.0;
    for (int32_t i = 0; i < shown; i++) {
        for (int32_t k = 0; k < i; k++) {
            cs_svg_line(svg, "thin", centre_x + 120 * sin(2 * PI * i / shown),
                        centre_y - 120 * cos(2 * PI * i / shown), centre_x + 120 * sin(2 * PI * k / shown),
                        centre_y - 120 * cos(2 * PI * k / shown));
        }
    }
    for (int32_t i = 0; i < shown; i++) {
        char text[24];
        double x = centre_x + 120 * sin(2 * PI * i / shown);
        double y = centre_y - 120 * cos(2 * PI * i / shown);
        (void)snprintf(text, sizeof text, "group %d", (int)i);
        cs_svg_box(svg, "box", x - 28, y - 12, 56, 24, NULL);
        cs_svg_text(svg, "small", x, y + 4, 0, text);
    }
}

static void draw_fabric(struct cs_svg *svg, const struct cs_platform *platform,
                        const struct cs_topology_spec *spec, const struct cs_platform_figures *figures)
{
    char text[96];
    (void)snprintf(text, sizeof text, "%d node%s: %s", (int)platform->n_nodes,
                   platform->n_nodes == 1 ? "" : "s", platform->topology);
    cs_svg_text(svg, "tick", FABRIC_LEFT, TOP - 8, -1, text);
    if (strcmp(platform->topology, "torus") == 0) {
        draw_grid(svg, platform->n_nodes);
    } else if (strcmp(platform->topology, "dragonfly") == 0) {
        draw_groups(svg, spec && spec->dims[0] > 0 ? spec->dims[0] : 5);
    } else if (spec && spec->topology == CS_TOPOLOGY_RAIL) {
        draw_levels(svg, platform, spec->devices_per_node * ceil_div(spec->n_nodes, spec->leaf_ports), "rail",
                    "spine", spec->n_nodes <= spec->leaf_ports);
    } else if (spec && spec->topology == CS_TOPOLOGY_FAT_TREE) {
        draw_levels(svg, platform, ceil_div(cs_topology_n_devices(spec), spec->leaf_ports), "leaf", "spine",
                    false);
    } else {
        draw_levels(svg, platform, 1, "fabric", "", true);
    }
    rate_label(svg, FABRIC_LEFT, TOP + PANEL + 16,
               figures->inter_half_duplex ? "between nodes, in and out of a device together"
                                          : "between nodes, out of a device",
               figures->inter_bytes_per_s, figures->inter_latency_s);
    if (spec && spec->oversubscription_frac > 1) {
        (void)snprintf(text, sizeof text, "up links carry 1/%g of what the switch's down links do",
                       spec->oversubscription_frac);
        cs_svg_text(svg, "small", FABRIC_LEFT, TOP + PANEL + 30, -1, text);
    }
}

void cs_report_platform_svg(FILE *out, const struct cs_platform *platform,
                            const struct cs_topology_spec *spec, const struct cs_platform_figures *figures)
{
    struct cs_svg svg;
    char text[160];
    (void)snprintf(text, sizeof text, "%.80s: %d devices", platform->name, (int)platform->n_devices);
    cs_svg_begin(&svg, out, WIDTH, HEIGHT, text);
    cs_svg_text(&svg, "title", NODE_LEFT, 30, -1, text);
    draw_node(&svg, platform, figures);
    if (platform->n_nodes > 1) {
        draw_fabric(&svg, platform, spec, figures);
    }
    cs_svg_end(&svg);
}
