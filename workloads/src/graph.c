/* Building blocks of operator graphs. */
#include "graph_priv.h"

uint8_t cs__graph_axis(struct cs_graph *graph, const char *name, int64_t size, enum cs_axis_role role)
{
    CS_ASSERT(graph->n_axes < CS_GRAPH_AXES_MAX);
    graph->axes[graph->n_axes] = (struct cs_axis){.name = name, .size = size, .role = role};
    return (uint8_t)graph->n_axes++;
}

struct cs_segment *cs__graph_add(struct cs_graph *graph, const char *name, bool is_layer, int32_t count)
{
    CS_ASSERT(graph->n_segments < CS_GRAPH_SEGMENTS_MAX && graph->n_runs < CS_GRAPH_SEGMENTS_MAX);
    graph->runs[graph->n_runs++] = (struct cs_run_of){.segment = graph->n_segments, .count = count};
    struct cs_segment *segment = &graph->segments[graph->n_segments++];
    *segment =
        (struct cs_segment){.name = name, .is_layer = is_layer, .in = CS_NO_TENSOR, .out = CS_NO_TENSOR};
    segment->tensors = CS_ARENA_NEW(graph->arena, struct cs_tensor, CS_SEGMENT_TENSORS_MAX);
    segment->nodes = CS_ARENA_NEW(graph->arena, struct cs_node, CS_SEGMENT_NODES_MAX);
    return segment;
}

uint8_t cs__segment_tensor(struct cs_segment *segment, const char *name, const int8_t *axes)
{
    CS_ASSERT(segment->n_tensors < CS_SEGMENT_TENSORS_MAX);
    struct cs_tensor *tensor = &segment->tensors[segment->n_tensors];
    *tensor = (struct cs_tensor){.name = name};
    for (const int8_t *axis = axes; *axis >= 0; axis++) {
        CS_ASSERT(tensor->n_axes < CS_TENSOR_AXES_MAX);
        tensor->axes[tensor->n_axes++] = (uint8_t)*axis;
    }
    return (uint8_t)segment->n_tensors++;
}

uint8_t cs__segment_param(struct cs_segment *segment, const char *name, const int8_t *axes)
{
    uint8_t tensor = cs__segment_tensor(segment, name, axes);
    segment->tensors[tensor].param = true;
    return tensor;
}

struct cs_node *cs__segment_node(struct cs_segment *segment, const char *label, enum cs_node_work work,
                                 enum cs_opkind kind)
{
    CS_ASSERT(segment->n_nodes < CS_SEGMENT_NODES_MAX);
    struct cs_node *node = &segment->nodes[segment->n_nodes++];
    *node = (struct cs_node){.label = label, .work = work, .kind = kind};
    return node;
}

bool cs__tensor_has_axis(const struct cs_tensor *tensor, uint8_t axis)
{
    for (uint8_t i = 0; i < tensor->n_axes; i++) {
        if (tensor->axes[i] == axis) {
            return true;
        }
    }
    return false;
}

bool cs__param_is_matrix(const struct cs_segment *segment, const struct cs_node *node, uint8_t param)
{
    const struct cs_tensor *p = &segment->tensors[param];
    int32_t summed = 0;
    if (node->work != CS_WORK_MATMUL || p->table) {
        return false;
    }
    for (uint8_t i = 0; i < p->n_axes; i++) {
        summed += cs__tensor_has_axis(&segment->tensors[node->in[0]], p->axes[i]);
    }
    return summed > 0 && summed < p->n_axes;
}

bool cs__node_is_product(const struct cs_node *node)
{
    return node->work == CS_WORK_MATMUL || node->work == CS_WORK_CONV;
}

static void add_io(uint8_t *list, uint8_t *n, uint8_t tensor)
{
    CS_ASSERT(*n < CS_NODE_IO_MAX);
    list[(*n)++] = tensor;
}

void cs__node_in(struct cs_node *node, uint8_t tensor)
{
    add_io(node->in, &node->n_in, tensor);
}

void cs__node_out(struct cs_node *node, uint8_t tensor)
{
    add_io(node->out, &node->n_out, tensor);
}

void cs__node_par(struct cs_node *node, uint8_t tensor)
{
    add_io(node->par, &node->n_par, tensor);
}

void cs__node_save(struct cs_node *node, uint8_t tensor)
{
    add_io(node->save, &node->n_save, tensor);
}

int32_t cs__graph_layers(const struct cs_graph *graph)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_runs; i++) {
        n += graph->segments[graph->runs[i].segment].is_layer ? graph->runs[i].count : 0;
    }
    return n;
}

int32_t cs__graph_segment_at(const struct cs_graph *graph, int32_t pos)
{
    for (int32_t i = 0; i < graph->n_runs; i++) {
        if (pos < graph->runs[i].count) {
            return graph->runs[i].segment;
        }
        pos -= graph->runs[i].count;
    }
    return -1;
}
