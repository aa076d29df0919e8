/* Findings about a platform that loads. */
#include "cs/platforms/check.h"

#include "cs/base/units.h"
#include "reader_priv.h"

#include <math.h>
#include <string.h>

const char *const cs_severity_names[] = {"note", "warning", "error", NULL};

enum { KIND_MAX = 20 }; /* findings of one kind that are kept */

/* Rates within this share of each other count as equal: units are rounded when files are written by hand. */
#define SAME_FRAC 1e-3

struct check {
    const struct cs_platform *platform;
    const struct cs_reader *reader;
    struct cs_findings *out;
    int32_t cap;
    int32_t n_kind; /* of the kind at hand */
};

static void add(struct check *check, enum cs_severity severity, int line, const char *fmt, ...)
    CS_PRINTF(4, 5);

static void add(struct check *check, enum cs_severity severity, int line, const char *fmt, ...)
{
    struct cs_findings *out = check->out;
    out->n_of[severity]++;
    if (check->n_kind++ >= KIND_MAX) {
        return;
    }
    if (out->n == check->cap) {
        int32_t cap = check->cap ? check->cap * 2 : 16;
        struct cs_finding *grown = CS_ARENA_NEW(&out->arena, struct cs_finding, cap);
        if (out->n > 0) {
            memcpy(grown, out->items, (size_t)out->n * sizeof *grown);
        }
        out->items = grown;
        check->cap = cap;
    }
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    out->items[out->n++] =
        (struct cs_finding){.severity = severity, .line = line, .text = cs_arena_strdup(&out->arena, text)};
}

static bool same(double a, double b)
{
    return fabs(a - b) <= SAME_FRAC * fmax(fabs(a), fabs(b));
}

static const char *rate(double bytes_per_s, char buf[32])
{
    return cs_units_format(bytes_per_s, CS_UNIT_BYTES_PER_S, buf, 32);
}

static const struct cs_point *device_point(const struct check *check, int32_t device)
{
    return &check->reader->points[check->reader->devices[device].point];
}

/* Nodes and chips that differ, memory that the catalogue had to fill in or that differs from it. */
static void check_devices(struct check *check)
{
    const struct cs_platform *p = check->platform;
    check->n_kind = 0;
    if (!p->uniform) {
        add(check, CS_SEVERITY_NOTE, 0, "nodes differ in the number or the chip of their devices");
    }
    int32_t n_default = 0;
    for (int32_t d = 0; d < p->n_devices; d++) {
        n_default += !check->reader->devices[d].has_memory;
        if (check->reader->devices[d].has_memory &&
            !same(p->devices[d].memory_bytes, p->devices[d].chip->memory_bytes)) {
            char have[32];
            char want[32];
            add(check, CS_SEVERITY_NOTE, device_point(check, d)->line,
                "'%s' has %s of memory, chip %s has %s", p->devices[d].host,
                cs_units_format(p->devices[d].memory_bytes, CS_UNIT_BYTES, have, 32),
                p->devices[d].chip->name,
                cs_units_format(p->devices[d].chip->memory_bytes, CS_UNIT_BYTES, want, 32));
        }
    }
    check->n_kind = 0;
    if (n_default > 0) {
        add(check, CS_SEVERITY_NOTE, 0, "%d of %d devices have no 'memory' property and get their chip's",
            (int)n_default, (int)p->n_devices);
    }
}

/* The two directions of a device's link to its switch. */
static void check_host_links(struct check *check)
{
    check->n_kind = 0;
    for (int32_t i = 0; i < check->reader->n_points; i++) {
        const struct cs_point *point = &check->reader->points[i];
        if (point->out_bytes_per_s > 0.0 && !same(point->out_bytes_per_s, point->in_bytes_per_s)) {
            char up[32];
            char down[32];
            add(check, CS_SEVERITY_WARNING, point->line, "'%s' sends at %s but receives at %s", point->name,
                rate(point->out_bytes_per_s, up), rate(point->in_bytes_per_s, down));
        }
    }
}

/* A route table by (source, destination), so that a route's way back is found. */
struct back {
    struct cs_names index; /* "src>dst" to the note */
    struct cs_arena arena;
};

static const struct cs_route_note *find_note(const struct check *check, const struct back *back, int32_t src,
                                             int32_t dst)
{
    char key[32];
    snprintf(key, sizeof key, "%d>%d", (int)src, (int)dst);
    int32_t found = cs__names_find(&back->index, key);
    return found >= 0 ? &check->reader->notes[found] : NULL;
}

/* Routes that say symmetrical="NO" need a way back, usually as wide. */
static void check_routes(struct check *check)
{
    const struct cs_reader *reader = check->reader;
    struct back back = {0};
    check->n_kind = 0;
    for (int32_t i = 0; i < reader->n_notes; i++) {
        if (!reader->notes[i].symmetrical) {
            cs__names_add(
                &back.index,
                cs_arena_printf(&back.arena, "%d>%d", (int)reader->notes[i].src, (int)reader->notes[i].dst),
                i);
        }
    }
    for (int32_t i = 0; i < reader->n_notes; i++) {
        const struct cs_route_note *note = &reader->notes[i];
        if (note->symmetrical || note->src == note->dst) {
            continue;
        }
        const struct cs_route_note *reverse = find_note(check, &back, note->dst, note->src);
        const char *src = reader->points[note->src].name;
        const char *dst = reader->points[note->dst].name;
        if (!reverse) {
            add(check, CS_SEVERITY_WARNING, note->line, "the route from '%s' to '%s' has no way back", src,
                dst);
        } else if (note->src < note->dst && !same(note->bytes_per_s, reverse->bytes_per_s)) {
            char there[32];
            char here[32];
            add(check, CS_SEVERITY_WARNING, note->line, "'%s' to '%s' has %s, the way back (line %d) %s", src,
                dst, rate(note->bytes_per_s, there), reverse->line, rate(reverse->bytes_per_s, here));
        }
    }
    cs__names_release(&back.index);
    cs_arena_release(&back.arena);
}

/* Device of a point, -1 = none; the caller frees it. */
static int32_t *devices_by_point(const struct cs_reader *reader)
{
    int32_t *device = cs_calloc((size_t)reader->n_points + 1, sizeof *device);
    for (int32_t i = 0; i < reader->n_points; i++) {
        device[i] = -1;
    }
    for (int32_t d = 0; d < reader->n_devices; d++) {
        device[reader->devices[d].point] = d;
    }
    return device;
}

/* Pair links inside a node: missing ones, and ones that differ. Adds what each device can send to its node's
 * devices to intra_bytes_per_s. */
static void check_intra(struct check *check, double *intra_bytes_per_s)
{
    const struct cs_platform *p = check->platform;
    const struct cs_reader *reader = check->reader;
    int32_t *device = devices_by_point(reader);
    int32_t *n_peers = cs_calloc((size_t)p->n_devices, sizeof *n_peers);
    double *first_bytes_per_s = cs_calloc((size_t)p->n_nodes, sizeof *first_bytes_per_s);
    check->n_kind = 0;
    for (int32_t i = 0; i < reader->n_notes; i++) {
        const struct cs_route_note *note = &reader->notes[i];
        int32_t a = device[note->src];
        int32_t b = device[note->dst];
        if (a < 0 || b < 0 || a == b || !cs_platform_same_node(p, a, b)) {
            continue;
        }
        n_peers[a]++;
        n_peers[b] += note->symmetrical;
        intra_bytes_per_s[a] += note->bytes_per_s;
        intra_bytes_per_s[b] += note->symmetrical ? note->bytes_per_s : 0.0;
        double *first = &first_bytes_per_s[p->devices[a].node];
        if (*first <= 0.0) {
            *first = note->bytes_per_s;
        } else if (!same(*first, note->bytes_per_s)) {
            char one[32];
            char other[32];
            add(check, CS_SEVERITY_WARNING, note->line,
                "'%s' and '%s' are joined by %s, others in node %d by %s", p->devices[a].host,
                p->devices[b].host, rate(note->bytes_per_s, one), (int)p->devices[a].node,
                rate(*first, other));
        }
    }
    int32_t *per_node = cs_calloc((size_t)p->n_nodes, sizeof *per_node);
    for (int32_t d = 0; d < p->n_devices; d++) {
        per_node[p->devices[d].node]++;
    }
    check->n_kind = 0;
    for (int32_t d = 0; d < p->n_devices; d++) {
        const struct cs_point *point = device_point(check, d);
        bool full =
            reader->zones[point->zone].routing == CS__ROUTING_FULL && !reader->zones[point->zone].is_cluster;
        if (full && n_peers[d] < per_node[p->devices[d].node] - 1) {
            add(check, CS_SEVERITY_ERROR, point->line,
                "'%s' has routes to %d of the %d other devices of node %d", p->devices[d].host,
                (int)n_peers[d], (int)per_node[p->devices[d].node] - 1, (int)p->devices[d].node);
        }
    }
    cs_free(per_node);
    cs_free(first_bytes_per_s);
    cs_free(n_peers);
    cs_free(device);
}

/* The fastest NIC that devices with the chip of `device` have: other server types may have others. `most` has
 * an entry a device, filled for the first of each chip. */
static double *most_of_chip(const struct cs_platform *p, double *most, int32_t device)
{
    int32_t first = 0;
    while (p->devices[first].chip != p->devices[device].chip) {
        first++;
    }
    return &most[first];
}

/* NICs: shared ones, slow ones, and networks that are faster between nodes than inside. */
static void check_nics(struct check *check, const double *intra_bytes_per_s)
{
    const struct cs_platform *p = check->platform;
    const struct cs_reader *reader = check->reader;
    int32_t *n_devices = cs_calloc((size_t)reader->n_points + 1, sizeof *n_devices);
    double *most_bytes_per_s = cs_calloc((size_t)p->n_devices + 1, sizeof *most_bytes_per_s);
    check->n_kind = 0;
    for (int32_t d = 0; d < p->n_devices; d++) {
        double *most = most_of_chip(p, most_bytes_per_s, d);
        int32_t nic = cs__names_find(&reader->point_names, p->devices[d].nic_host);
        if (n_devices[nic]++ == 1) {
            add(check, CS_SEVERITY_NOTE, reader->points[nic].line,
                "NIC '%s' carries the traffic of several devices", reader->points[nic].name);
        }
        *most = fmax(*most, reader->points[nic].out_bytes_per_s);
    }
    check->n_kind = 0;
    for (int32_t d = 0; d < p->n_devices; d++) {
        const struct cs_point *nic =
            &reader->points[cs__names_find(&reader->point_names, p->devices[d].nic_host)];
        char one[32];
        char other[32];
        if (nic->out_bytes_per_s <= 0.0) {
            continue; /* its link is not known here */
        }
        double fastest_bytes_per_s = *most_of_chip(p, most_bytes_per_s, d);
        if (!same(nic->out_bytes_per_s, fastest_bytes_per_s)) {
            add(check, CS_SEVERITY_WARNING, nic->line, "NIC '%s' of '%s' has %s, the fastest has %s",
                nic->name, p->devices[d].host, rate(nic->out_bytes_per_s, one),
                rate(fastest_bytes_per_s, other));
        } else if (nic != device_point(check, d) && intra_bytes_per_s[d] > 0.0 &&
                   nic->out_bytes_per_s > intra_bytes_per_s[d] * (1.0 + SAME_FRAC)) {
            add(check, CS_SEVERITY_WARNING, nic->line,
                "'%s' sends %s to other nodes but only %s inside its own", p->devices[d].host,
                rate(nic->out_bytes_per_s, one), rate(intra_bytes_per_s[d], other));
        }
    }
    cs_free(most_bytes_per_s);
    cs_free(n_devices);
}

cs_status cs_platform_check(const char *xml_path, const struct cs_catalogue *catalogue,
                            struct cs_findings *findings, struct cs_err *err)
{
    struct cs_platform platform = {0};
    struct cs_reader reader = {0};
    struct cs_findings found = {0};
    cs_status st = cs__platform_read(&platform, &reader, xml_path, catalogue, err);
    if (st == CS_OK) {
        struct check check = {.platform = &platform, .reader = &reader, .out = &found};
        double *intra_bytes_per_s = cs_calloc((size_t)platform.n_devices, sizeof *intra_bytes_per_s);
        for (int32_t d = 0; d < platform.n_devices; d++) {
            intra_bytes_per_s[d] = device_point(&check, d)->out_bytes_per_s; /* of a switched node */
        }
        check_devices(&check);
        check_host_links(&check);
        check_routes(&check);
        check_intra(&check, intra_bytes_per_s);
        check_nics(&check, intra_bytes_per_s);
        cs_free(intra_bytes_per_s);
        *findings = found;
    }
    cs__reader_release(&reader);
    cs_platform_release(&platform);
    return st;
}

void cs_findings_release(struct cs_findings *findings)
{
    cs_arena_release(&findings->arena);
    *findings = (struct cs_findings){0};
}
