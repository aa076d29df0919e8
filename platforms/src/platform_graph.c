/* Zones whose routes are a graph in which SimGrid looks for shortest paths. */
#include "reader_priv.h"

/* The zone that a host, router or zone stands in. */
static int32_t parent_of(const struct cs_reader *reader, int32_t point)
{
    const struct cs_point *p = &reader->points[point];
    return p->kind == CS__POINT_ZONE ? reader->zones[p->zone].parent : p->zone;
}

struct edge {
    int32_t from, to;
};

/* Mark what can be reached from the points that are marked, along edges or against them. */
static void spread(bool *reached, const struct edge *edges, int32_t n_edges, bool against)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t i = 0; i < n_edges; i++) {
            int32_t from = against ? edges[i].to : edges[i].from;
            int32_t to = against ? edges[i].from : edges[i].to;
            if (reached[from] && !reached[to]) {
                reached[to] = true;
                changed = true;
            }
        }
    }
}

cs_status cs__graph_check(struct cs_reader *reader, int32_t zone)
{
    cs_status st = CS_OK;
    struct edge *edges = cs_calloc(2 * (size_t)reader->n_notes + 1, sizeof *edges);
    bool *reached[2];
    int32_t n_edges = 0;
    int32_t first = -1;
    for (int32_t i = 0; i < reader->n_notes; i++) {
        const struct cs_route_note *note = &reader->notes[i];
        if (parent_of(reader, note->src) == zone) {
            edges[n_edges++] = (struct edge){note->src, note->dst};
            if (note->symmetrical) {
                edges[n_edges++] = (struct edge){note->dst, note->src};
            }
        }
    }
    for (int way = 0; way < 2; way++) {
        reached[way] = cs_calloc((size_t)reader->n_points + 1, sizeof **reached);
    }
    for (int32_t p = 0; p < reader->n_points && first < 0; p++) {
        first = parent_of(reader, p) == zone ? p : first;
    }
    for (int way = 0; way < 2 && first >= 0; way++) {
        reached[way][first] = true;
        spread(reached[way], edges, n_edges, way == 1);
    }
    for (int32_t p = 0; p < reader->n_points && first >= 0 && st == CS_OK; p++) {
        bool there = reached[0][p];
        if (parent_of(reader, p) == zone && !(there && reached[1][p])) {
            st = cs__reader_fail_at(reader, reader->points[p].line, CS_E_INPUT,
                                    "zone '%s' is searched for shortest paths (Dijkstra), but no route leads "
                                    "from '%s' to '%s'",
                                    reader->zones[zone].name, reader->points[there ? p : first].name,
                                    reader->points[there ? first : p].name);
        }
    }
    cs_free(reached[0]);
    cs_free(reached[1]);
    cs_free(edges);
    return st;
}
