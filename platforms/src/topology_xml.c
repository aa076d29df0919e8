/* From a description to SimGrid 3.32 XML.
 *
 * Layout of a file, and why:
 *   - root zone, routing None: a device never talks to a NIC host, so no routes between the two fabrics;
 *   - an empty zone: SimGrid's parser wants a <zone> before the first <link> of a zone that has both;
 *   - all links inside nodes, in the root zone and before the other zones: SimGrid looks every new name up
 * zone by zone, so links declared inside or after thousands of zones make loading quadratic;
 *   - the nodes, several to a zone in large clusters, because SimGrid walks all hosts once for each zone when
 * it seals the platform. A zone has routes inside each node only;
 *   - the fabric of the NIC hosts.
 * In a torus of small nodes a device is its own NIC (topology_xml_torus.c).
 * Links are SPLITDUPLEX: one resource a direction; a route that uses a link UP uses it DOWN the other way.
 * But the link of a half-duplex NIC is SHARED: one resource. */
#include "cs/platforms/topology.h"

#include "topology_xml_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Hosts that may share a Full zone: its routing table is quadratic, 8 bytes an entry. */
#define ZONE_HOSTS_MAX 256
/* More zones than this of single nodes load slowly. */
#define NODE_ZONES_MAX 64

struct scale {
    const char *suffix;
    double factor;
};

/* The shortest text that SimGrid's parser (number x factor) turns back into exactly `value`. */
static void format_exact(char text[CS__XML_TEXT_MAX], double value, const struct scale *scales,
                         int32_t n_scales)
{
    size_t best = CS__XML_TEXT_MAX;
    for (int32_t s = 0; s < n_scales; s++) {
        for (int digits = 1; digits <= 17; digits++) {
            char number[32];
            char candidate[CS__XML_TEXT_MAX];
            snprintf(number, sizeof number, "%.*g", digits, value / scales[s].factor);
            double back = strtod(number, NULL) * scales[s].factor;
            if (back < value || back > value) {
                continue;
            }
            snprintf(candidate, sizeof candidate, "%s%s", number, scales[s].suffix);
            if (strlen(candidate) < best) {
                best = strlen(candidate);
                memcpy(text, candidate, best + 1);
            }
            break;
        }
    }
    CS_ASSERT(best < CS__XML_TEXT_MAX); /* the unit itself with 17 digits is always exact */
}

void cs__xml_rate(char text[CS__XML_TEXT_MAX], double value_bytes_per_s)
{
    static const struct scale scales[] = {{"GBps", 1e9}, {"MBps", 1e6}, {"kBps", 1e3}, {"Bps", 1.0}};
    format_exact(text, value_bytes_per_s, scales, CS_COUNT(scales));
}

void cs__xml_latency(char text[CS__XML_TEXT_MAX], double value_s)
{
    static const struct scale scales[] = {{"us", 1e-6}, {"ns", 1e-9}, {"ms", 1e-3}, {"s", 1.0}};
    format_exact(text, value_s, scales, CS_COUNT(scales));
}

static void format_speed(char text[CS__XML_TEXT_MAX], double value_flop_per_s)
{
    static const struct scale scales[] = {{"Tf", 1e12}, {"Gf", 1e9}, {"f", 1.0}};
    format_exact(text, value_flop_per_s, scales, CS_COUNT(scales));
}

static void format_bytes(char text[CS__XML_TEXT_MAX], double value_bytes)
{
    static const struct scale scales[] = {{"GiB", 1073741824.0}, {"GB", 1e9}, {"MiB", 1048576.0}, {"B", 1.0}};
    format_exact(text, value_bytes, scales, CS_COUNT(scales));
}

/* Text of an attribute. */
static void put_escaped(FILE *stream, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", stream);
            break;
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        default:
            fputc(*c, stream);
            break;
        }
    }
}

static void put_prop(FILE *stream, const char *id, const char *value)
{
    fprintf(stream, "    <prop id=\"%s\" value=\"", id);
    put_escaped(stream, value);
    fputs("\"/>\n", stream);
}

static void put_link(FILE *stream, const char *id, double bytes_per_s, double latency_s, const char *sharing)
{
    char rate[CS__XML_TEXT_MAX];
    char latency[CS__XML_TEXT_MAX];
    cs__xml_rate(rate, bytes_per_s);
    cs__xml_latency(latency, latency_s);
    fprintf(stream, "      <link id=\"%s\" bandwidth=\"%s\" latency=\"%s\" sharing_policy=\"%s\"/>\n", id,
            rate, latency, sharing);
}

void cs__xml_link(FILE *stream, const char *id, double bytes_per_s, double latency_s)
{
    put_link(stream, id, bytes_per_s, latency_s, "SPLITDUPLEX");
}

void cs__xml_nic_link(FILE *stream, const struct cs_fabric_plan *plan, int32_t device)
{
    const struct cs_topology_part *part = &plan->parts[cs__fabric_part(plan, device)];
    char id[CS__XML_TEXT_MAX];
    snprintf(id, sizeof id, "nic%d_link", (int)device);
    put_link(stream, id, part->inter_bytes_per_s, plan->spec->inter_latency_s / 2.0,
             part->inter_half_duplex ? "SHARED" : "SPLITDUPLEX");
}

void cs__xml_crossing(struct cs_strbuf *links, const char *prefix, int32_t a, int32_t b)
{
    cs_strbuf_addf(links, "<link_ctn id=\"%s%d-%d\" direction=\"%s\"/>", prefix, (int)(a < b ? a : b),
                   (int)(a < b ? b : a), a < b ? "UP" : "DOWN");
}

/* Links inside the nodes of a part: one a pair of a mesh ("hccs3-7"), one a device of a switched node
 * ("port3"). */
static void put_intra_links(FILE *stream, const struct cs_fabric_plan *plan, int32_t which)
{
    const struct cs_topology_part *part = &plan->parts[which];
    int32_t n = part->devices_per_node;
    int32_t first = plan->first_device[which];
    char rate[CS__XML_TEXT_MAX];
    char latency[CS__XML_TEXT_MAX];
    if (n == 1) {
        return;
    }
    cs__xml_rate(rate, part->intra_switched ? part->intra_bytes_per_s : part->intra_bytes_per_s / (n - 1));
    cs__xml_latency(latency, part->intra_switched ? part->intra_latency_s / 2.0 : part->intra_latency_s);
    for (int32_t device = first; device < first + part->n_nodes * n; device++) {
        if (part->intra_switched) {
            fprintf(
                stream,
                "    <link id=\"port%d\" bandwidth=\"%s\" latency=\"%s\" sharing_policy=\"SPLITDUPLEX\"/>\n",
                (int)device, rate, latency);
            continue;
        }
        int32_t end = first + ((device - first) / n + 1) * n;
        for (int32_t peer = device + 1; peer < end; peer++) {
            if (cs__cable_dead(plan->spec, CS__CABLE_MESH, 0, device, peer)) {
                continue;
            }
            fprintf(stream,
                    "    <link id=\"hccs%d-%d\" bandwidth=\"%s\" latency=\"%s\" "
                    "sharing_policy=\"SPLITDUPLEX\"/>\n",
                    (int)device, (int)peer, rate, latency);
        }
    }
}

void cs__xml_mesh_route(FILE *stream, const struct cs_fabric_plan *plan, int32_t a, int32_t b)
{
    if (!cs__cable_dead(plan->spec, CS__CABLE_MESH, 0, a, b)) {
        fprintf(stream,
                "      <route src=\"npu%d\" dst=\"npu%d\"><link_ctn id=\"hccs%d-%d\" direction=\"UP\"/>"
                "</route>\n",
                (int)a, (int)b, (int)a, (int)b);
        return;
    }
    struct cs_strbuf links = {0};
    int32_t third = cs__cable_detour(plan, CS__CABLE_MESH, 0, a, b);
    cs__xml_crossing(&links, "hccs", a, third);
    cs__xml_crossing(&links, "hccs", third, b);
    fprintf(stream, "      <route src=\"npu%d\" dst=\"npu%d\">%s</route>\n", (int)a, (int)b,
            cs_strbuf_str(&links));
    cs_strbuf_release(&links);
}

void cs__xml_devices(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text,
                     int32_t first, int32_t end)
{
    bool joined = cs__fabric_joined(plan);
    int32_t which = cs__fabric_part(plan, first);
    const struct cs_topology_part *part = &plan->parts[which];
    for (int32_t d = first; d < end; d++) {
        fprintf(stream, "      <host id=\"npu%d\" speed=\"%s\"><prop id=\"chip\" value=\"", (int)d,
                text->speed);
        put_escaped(stream, text->chip);
        fprintf(stream, "\"/><prop id=\"node\" value=\"%d\"/><prop id=\"memory\" value=\"%s\"/>",
                (int)cs__fabric_node(plan, d), text->memory);
        if (!joined) {
            fprintf(stream, "<prop id=\"nic\" value=\"nic%d\"/>", (int)d);
        }
        if (part->nic_devices > 1) {
            int32_t index = (d - plan->first_device[which]) % part->devices_per_node;
            fprintf(stream, "<prop id=\"adapter\" value=\"%d\"/>", (int)(index / part->nic_devices));
        }
        fputs("</host>\n", stream);
    }
}

/* Nodes first .. first + n - 1 of a part as one zone. */
static void put_nodes(FILE *stream, const struct cs_fabric_plan *plan, int32_t which,
                      const struct cs__device_text *text, int32_t first, int32_t n)
{
    const struct cs_topology_part *part = &plan->parts[which];
    int32_t per_node = part->devices_per_node;
    int32_t node = plan->first_node[which] + first; /* of the cluster */
    int32_t first_device = plan->first_device[which] + first * per_node;
    int32_t end = first_device + n * per_node;
    if (n == 1) {
        fprintf(stream, "    <zone id=\"node%d\"", (int)node);
    } else {
        fprintf(stream, "    <zone id=\"nodes%d-%d\"", (int)node, (int)(node + n - 1));
    }
    bool star = part->intra_switched && per_node > 1;
    char rate[CS__XML_TEXT_MAX];
    fprintf(stream, " routing=\"%s\">\n", star ? "Cluster" : "Full");
    cs__xml_devices(stream, plan, text, first_device, end);
    if (star && part->intra_bus_bytes_per_s > 0) { /* put_part: one node a zone */
        cs__xml_rate(rate, part->intra_bus_bytes_per_s);
        fprintf(stream, "      <backbone id=\"bus%d\" bandwidth=\"%s\" latency=\"0\"/>\n", (int)node, rate);
    }
    for (int32_t d = first_device; d < end && per_node > 1; d++) {
        if (star) {
            fprintf(stream, "      <host_link id=\"npu%d\" up=\"port%d_UP\" down=\"port%d_DOWN\"/>\n", (int)d,
                    (int)d, (int)d);
            continue;
        }
        int32_t node_end = first_device + ((d - first_device) / per_node + 1) * per_node;
        for (int32_t peer = d + 1; peer < node_end; peer++) {
            cs__xml_mesh_route(stream, plan, d, peer);
        }
    }
    fputs("    </zone>\n", stream);
}

/* All nodes of a part, several to a zone in large clusters. */
static void put_part(FILE *stream, const struct cs_fabric_plan *plan, int32_t which,
                     const struct cs__device_text *text)
{
    const struct cs_topology_part *part = &plan->parts[which];
    int32_t step = 1;
    if (part->n_nodes > NODE_ZONES_MAX && part->intra_bus_bytes_per_s <= 0) {
        int32_t wanted = (part->n_nodes + NODE_ZONES_MAX - 1) / NODE_ZONES_MAX;
        int32_t most = ZONE_HOSTS_MAX / part->devices_per_node;
        step = wanted < most ? wanted : most > 1 ? most : 1;
    }
    for (int32_t node = 0; node < part->n_nodes; node += step) {
        int32_t rest = part->n_nodes - node;
        put_nodes(stream, plan, which, text, node, step < rest ? step : rest);
    }
}

static void put_int_prop(FILE *stream, const char *id, int32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)value);
    put_prop(stream, id, text);
}

static void put_rate_prop(FILE *stream, const char *id, double value_bytes_per_s)
{
    char text[CS__XML_TEXT_MAX];
    cs__xml_rate(text, value_bytes_per_s);
    put_prop(stream, id, text);
}

static void put_latency_prop(FILE *stream, const char *id, double value_s)
{
    char text[CS__XML_TEXT_MAX];
    cs__xml_latency(text, value_s);
    put_prop(stream, id, text);
}

/* The description itself, which cs_topology_read reads back; and what reports may show. */
static void put_props(FILE *stream, const struct cs_fabric_plan *plan)
{
    static const struct scale plain[] = {{"", 1.0}};
    const struct cs_topology_spec *spec = plan->spec;
    char text[CS__XML_TEXT_MAX];
    bool bus = spec->intra_bus_bytes_per_s > 0;
    bool alike = plan->n_parts == 1 || (plan->parts[1].intra_switched == spec->intra_switched &&
                                        (plan->parts[1].intra_bus_bytes_per_s > 0) == bus);
    put_prop(stream, "name", spec->name);
    put_prop(stream, "topology", cs_topology_names[spec->topology]);
    put_prop(stream, "intra", !alike ? "custom" : bus ? "bus" : spec->intra_switched ? "switch" : "mesh");
    if (bus) {
        put_rate_prop(stream, "bus_bandwidth", spec->intra_bus_bytes_per_s);
    }
    put_rate_prop(stream, "intra_bandwidth", spec->intra_bytes_per_s);
    put_rate_prop(stream, "inter_bandwidth", spec->inter_bytes_per_s);
    if (spec->inter_half_duplex) {
        put_prop(stream, "nic_duplex", "half");
    }
    if (spec->nic_devices > 1) {
        put_int_prop(stream, "nic_devices", spec->nic_devices);
    }
    format_exact(text, spec->oversubscription_frac, plain, CS_COUNT(plain));
    put_prop(stream, "oversubscription", text);
    if (plan->n_parts > 1 || spec->n_dead_links > 0) {
        return; /* the rest would not be the whole of it */
    }
    put_prop(stream, "chip", spec->chip);
    put_int_prop(stream, "nodes", spec->n_nodes);
    put_int_prop(stream, "devices_per_node", spec->devices_per_node);
    put_latency_prop(stream, "intra_latency", spec->intra_latency_s);
    put_latency_prop(stream, "inter_latency", spec->inter_latency_s);
    put_latency_prop(stream, "hop_latency", spec->hop_latency_s);
    put_int_prop(stream, "leaf_ports", spec->leaf_ports);
    put_int_prop(stream, "levels", spec->levels);
    snprintf(text, sizeof text, "%dx%dx%d", (int)spec->dims[0], (int)spec->dims[1], (int)spec->dims[2]);
    put_prop(stream, "dims", text);
}

/* The speed of a device's host: the matrix peak of the dtype training usually has. */
static double host_flop_per_s(const struct cs_chip *chip)
{
    static const enum cs_dtype order[] = {CS_DTYPE_BF16, CS_DTYPE_FP16, CS_DTYPE_FP32, CS_DTYPE_FP8};
    for (int32_t i = 0; i < CS_COUNT(order); i++) {
        if (cs_chip_has_dtype(chip, order[i])) {
            return chip->peak_flop_per_s[order[i]];
        }
    }
    return NAN;
}

/* The chip of a part and what the file says of it. */
static cs_status describe_device(const struct cs_topology_part *part, const struct cs_catalogue *catalogue,
                                 struct cs__device_text *text, struct cs_loc loc, struct cs_err *err)
{
    const struct cs_chip *chip = part->chip ? cs_catalogue_chip(catalogue, part->chip) : NULL;
    if (!chip) {
        return cs_err_set(err, CS_E_INPUT, loc, "chip '%s' is not in the catalogue",
                          part->chip ? part->chip : "");
    }
    double flop_per_s = host_flop_per_s(chip);
    if (isnan(flop_per_s)) {
        return cs_err_set(err, CS_E_INPUT, loc, "chip '%s' has no peak rate in the catalogue", part->chip);
    }
    text->chip = part->chip;
    format_speed(text->speed, flop_per_s);
    format_bytes(text->memory, chip->memory_bytes);
    return CS_OK;
}

cs_status cs_topology_write(const struct cs_topology_spec *spec, const struct cs_catalogue *catalogue,
                            FILE *stream, struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_fabric_plan plan = {0};
    struct cs__device_text texts[2] = {0};
    CS_TRY(cs_topology_check(spec, loc, err));
    cs__fabric_plan(spec, &plan);
    for (int32_t part = 0; part < plan.n_parts; part++) {
        CS_TRY(describe_device(&plan.parts[part], catalogue, &texts[part], loc, err));
    }
    fputs("<?xml version=\"1.0\"?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n"
          "  <zone id=\"cluster\" routing=\"None\">\n",
          stream);
    put_props(stream, &plan);
    fputs("    <zone id=\"first\" routing=\"None\"></zone>\n", stream);
    for (int32_t part = 0; part < plan.n_parts; part++) {
        put_intra_links(stream, &plan, part);
    }
    cs__xml_fabric_links(stream, &plan);
    for (int32_t part = 0; part < plan.n_parts && !cs__fabric_joined(&plan); part++) {
        put_part(stream, &plan, part, &texts[part]);
    }
    cs__xml_fabric(stream, &plan, texts);
    fputs("  </zone>\n</platform>\n", stream);
    if (fflush(stream) != 0 || ferror(stream)) {
        return cs_err_set(err, CS_E_IO, loc, "cannot write the platform: %s", strerror(errno));
    }
out:
    return st;
}
