/* Chakra execution traces: a rank's nodes in an order that its dependencies allow. */
#include "chakra_read_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b)
{
    const struct cs__et_node *x = a;
    const struct cs__et_node *y = b;
    return x->id < y->id ? -1 : x->id > y->id ? 1 : 0;
}

/** Index of an id among the sorted nodes, -1 = there is none. */
static int64_t find_node(const struct cs__et_rank *r, uint64_t id)
{
    struct cs__et_node key = {.id = id};
    const struct cs__et_node *node = bsearch(&key, r->nodes, (size_t)r->n_nodes, sizeof *r->nodes, by_id);
    return node != NULL ? node - r->nodes : -1;
}

static cs_status index_deps(struct cs__et *et, int32_t rank, struct cs_err *err)
{
    struct cs__et_rank *r = &et->ranks[rank];
    if (r->n_nodes > 0) {
        qsort(r->nodes, (size_t)r->n_nodes, sizeof *r->nodes, by_id);
    }
    for (int64_t i = 0; i < r->n_nodes; i++) {
        const struct cs__et_node *node = &r->nodes[i];
        if (i > 0 && node->id == r->nodes[i - 1].id) {
            return cs__et_bad(et, rank, node, err, "has the same number as '%s'",
                              et->labels.texts[r->nodes[i - 1].name]);
        }
        for (int32_t d = 0; d < node->n_deps; d++) {
            uint64_t *dep = &r->deps[node->first_dep + d];
            int64_t index = find_node(r, *dep);
            if (index < 0) {
                return cs__et_bad(et, rank, node, err,
                                  "depends on node %" PRIu64 ", which is not in the file", *dep);
            }
            *dep = (uint64_t)index;
        }
    }
    return CS_OK;
}

static void index_children(struct cs__et_rank *r)
{
    r->child_first = cs_calloc((size_t)r->n_nodes + 2, sizeof *r->child_first);
    r->children = cs_calloc((size_t)r->n_deps, sizeof *r->children);
    for (int64_t i = 0; i < r->n_deps; i++) {
        r->child_first[r->deps[i] + 2]++;
    }
    for (int64_t i = 0; i < r->n_nodes; i++) {
        r->child_first[i + 2] += r->child_first[i + 1];
    }
    for (int64_t i = 0; i < r->n_nodes; i++) { /* children in order of their numbers */
        for (int32_t d = 0; d < r->nodes[i].n_deps; d++) {
            r->children[r->child_first[r->deps[r->nodes[i].first_dep + d] + 1]++] = i;
        }
    }
}

/** A heap of indices, lowest on top. */
struct heap {
    int64_t *items;
    int64_t n;
};

static void heap_push(struct heap *heap, int64_t item)
{
    int64_t at = heap->n++;
    while (at > 0 && heap->items[(at - 1) / 2] > item) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = item;
}

static int64_t heap_pop(struct heap *heap)
{
    int64_t top = heap->items[0];
    int64_t item = heap->items[--heap->n];
    int64_t at = 0;
    while (2 * at + 1 < heap->n) {
        int64_t child = 2 * at + 1;
        child += child + 1 < heap->n && heap->items[child + 1] < heap->items[child];
        if (heap->items[child] >= item) {
            break;
        }
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = item;
    return top;
}

/** Nodes are left over: following what they wait for must come round. */
static cs_status report_cycle(const struct cs__et *et, int32_t rank, const int32_t *n_left,
                              struct cs_err *err)
{
    const struct cs__et_rank *r = &et->ranks[rank];
    int64_t at = 0;
    int64_t round = 0;
    struct cs_strbuf path = {0};
    while (n_left[at] == 0) {
        at++;
    }
    for (int64_t step = 0; step < 2 * r->n_nodes; step++) { /* after n steps it is on the cycle */
        int32_t d = 0;
        while (n_left[r->deps[r->nodes[at].first_dep + d]] == 0) {
            d++;
        }
        at = (int64_t)r->deps[r->nodes[at].first_dep + d];
        if (step == r->n_nodes) {
            round = at;
            cs_strbuf_addf(&path, "%" PRIu64, r->nodes[at].id);
        } else if (step > r->n_nodes) {
            if (path.len < 160) {
                cs_strbuf_addf(&path, ", which waits for %" PRIu64, r->nodes[at].id);
            }
            if (at == round) {
                break;
            }
        }
    }
    cs_status st =
        cs__et_bad(et, rank, &r->nodes[round], err, "waits for itself: node %s", cs_strbuf_str(&path));
    cs_strbuf_release(&path);
    return st;
}

static cs_status find_order(struct cs__et *et, int32_t rank, struct cs_err *err)
{
    struct cs__et_rank *r = &et->ranks[rank];
    struct heap heap = {cs_calloc((size_t)r->n_nodes, sizeof *heap.items), 0};
    int32_t *n_left = cs_calloc((size_t)r->n_nodes, sizeof *n_left);
    int64_t n = 0;
    r->order = cs_calloc((size_t)r->n_nodes, sizeof *r->order);
    for (int64_t i = 0; i < r->n_nodes; i++) {
        n_left[i] = r->nodes[i].n_deps;
        if (n_left[i] == 0) {
            heap_push(&heap, i);
        }
    }
    while (heap.n > 0) {
        int64_t node = heap_pop(&heap);
        r->order[n++] = node;
        for (int64_t c = r->child_first[node]; c < r->child_first[node + 1]; c++) {
            if (--n_left[r->children[c]] == 0) {
                heap_push(&heap, r->children[c]);
            }
        }
    }
    cs_status st = n < r->n_nodes ? report_cycle(et, rank, n_left, err) : CS_OK;
    cs_free(heap.items);
    cs_free(n_left);
    return st;
}

cs_status cs__et_resolve(struct cs__et *et, int32_t rank, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(index_deps(et, rank, err));
    index_children(&et->ranks[rank]);
    CS_TRY(find_order(et, rank, err));
out:
    return st;
}
