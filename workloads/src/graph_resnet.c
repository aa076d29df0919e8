/* The operator graph of a residual network (He et al., arXiv 1512.03385, table 1): bottleneck blocks of
 * convolutions with batch normalisation. A "sequence" is one image, of length 1; a layer is a block. */
#include "graph_build_priv.h"

#define STAGES CS_RESNET_STAGES
#define STEM_CHANNELS 64
#define STEM_KERNEL 49 /* 7 x 7 */
#define BLOCK_KERNEL 9 /* 3 x 3 */
#define EXPANSION 4    /* channels out of a block over those of its 3 x 3 */

/** Axes by size: pixels of each resolution, channels of each width, kernels. */
struct resnet {
    struct cs_build b;
    int8_t image, stem_pixels, pixels[STAGES]; /* positions of input, stem, stages */
    int8_t rgb, stem, narrow[STAGES], wide[STAGES];
    int8_t stem_kernel, block_kernel, classes;
};

static uint8_t feature(struct resnet *r, const char *name, int8_t pixels, int8_t channels)
{
    return cs__segment_tensor(r->b.segment, name, CS_AXES(r->b.batch, r->b.seq, pixels, channels));
}

/** Convolution, normalisation, and rectifier if `relu`. A kernel axis of -1 is 1 x 1. */
static uint8_t convolve(struct resnet *r, const char *label, uint8_t x, int8_t in, int8_t out, int8_t kernel,
                        int8_t pixels, bool relu)
{
    struct cs_segment *segment = r->b.segment;
    struct cs_node *node = cs__segment_node(segment, label, CS_WORK_CONV, CS_OPKIND_CONV);
    cs__node_in(node, x);
    cs__node_save(node, x);
    cs__node_par(node, cs__segment_param(segment, "weight",
                                         kernel >= 0 ? CS_AXES(in, out, kernel) : CS_AXES(in, out)));
    uint8_t y = feature(r, "convolved", pixels, out);
    cs__node_out(node, y);
    const int8_t *axes = CS_AXES(r->b.batch, r->b.seq, pixels, out);
    y = cs__build_norm(&r->b, "norm", y, "normalised", axes, out);
    if (!relu) {
        return y;
    }
    uint8_t z = feature(r, "rectified", pixels, out);
    node = cs__build_pointwise(&r->b, "relu", CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
    cs__node_in(node, y);
    cs__node_out(node, z);
    cs__node_save(node, z);
    return z;
}

/** One bottleneck: 1 x 1, 3 x 3, 1 x 1, and the shortcut, which the first block of a stage projects. */
static void add_block(struct resnet *r, int32_t stage, bool first, int32_t count)
{
    static const char *const names[2][STAGES] = {
        {"block 2", "block 3", "block 4", "block 5"},
        {"first block 2", "first block 3", "first block 4", "first block 5"}};
    if (count == 0) {
        return;
    }
    r->b.segment = cs__graph_add(r->b.graph, names[first][stage], true, count);
    /* The first block of a stage halves the resolution, in its 3 x 3; that of stage 2 does not. */
    int8_t from = first && stage > 0 ? r->pixels[stage - 1] : r->pixels[stage];
    int8_t in = !first ? r->wide[stage] : stage > 0 ? r->wide[stage - 1] : r->stem;
    uint8_t x = r->b.segment->in = feature(r, "input", from, in);
    uint8_t y = convolve(r, "conv1", x, in, r->narrow[stage], -1, from, true);
    y = convolve(r, "conv2", y, r->narrow[stage], r->narrow[stage], r->block_kernel, r->pixels[stage], true);
    y = convolve(r, "conv3", y, r->narrow[stage], r->wide[stage], -1, r->pixels[stage], false);
    uint8_t shortcut = x;
    if (first) {
        shortcut = convolve(r, "shortcut", x, in, r->wide[stage], -1, r->pixels[stage], false);
    }
    uint8_t sum = feature(r, "output", r->pixels[stage], r->wide[stage]);
    struct cs_node *node = cs__build_pointwise(&r->b, "residual", CS_OPKIND_ELEMENTWISE, 2.0, 2.0);
    cs__node_in(node, y);
    cs__node_in(node, shortcut);
    cs__node_out(node, sum);
    cs__node_save(node, sum);
    r->b.segment->out = sum;
}

static void add_stem(struct resnet *r)
{
    struct cs_segment *segment = r->b.segment = cs__graph_add(r->b.graph, "stem", false, 1);
    uint8_t image = feature(r, "image", r->image, r->rgb);
    segment->tensors[image].no_grad = true;
    uint8_t x = convolve(r, "stem", image, r->rgb, r->stem, r->stem_kernel, r->stem_pixels, true);
    uint8_t out = feature(r, "pooled", r->pixels[0], r->stem);
    struct cs_node *node = cs__build_pointwise(&r->b, "pool", CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
    cs__node_in(node, x);
    cs__node_out(node, out);
    cs__node_save(node, out);
    segment->out = out;
}

static void add_classifier(struct resnet *r)
{
    struct cs_segment *segment = r->b.segment = cs__graph_add(r->b.graph, "head", false, 1);
    int8_t channels = r->wide[STAGES - 1];
    segment->in = feature(r, "input", r->pixels[STAGES - 1], channels);
    uint8_t mean = cs__segment_tensor(segment, "mean", CS_AXES(r->b.batch, r->b.seq, channels));
    struct cs_node *node = cs__build_pointwise(&r->b, "pool", CS_OPKIND_ELEMENTWISE, 1.0, 1.0);
    cs__node_in(node, segment->in);
    cs__node_out(node, mean);
    node = cs__build_matmul(&r->b, "classifier", mean);
    uint8_t weight = cs__segment_param(segment, "weight", CS_AXES(channels, r->classes));
    segment->tensors[weight].table = true;
    cs__node_par(node, weight);
    cs__node_par(node, cs__segment_param(segment, "bias", CS_AXES(r->classes)));
    uint8_t scores = cs__segment_tensor(segment, "scores", CS_AXES(r->b.batch, r->b.seq, r->classes));
    cs__node_out(node, scores);
    uint8_t loss = cs__segment_tensor(segment, "loss", CS_AXES(r->b.batch, r->b.seq));
    node = cs__build_pointwise(&r->b, "loss", CS_OPKIND_SOFTMAX, LOSS_FLOP, LOSS_FLOP);
    cs__node_in(node, scores);
    cs__node_out(node, loss);
    cs__node_save(node, scores);
}

static int8_t plain_axis(struct resnet *r, const char *name, int64_t size)
{
    return (int8_t)cs__graph_axis(r->b.graph, name, size, CS_AXIS_PLAIN);
}

void cs__graph_resnet(struct cs_graph *graph, const struct cs_model *model, int64_t batch)
{
    struct resnet r = {.b = {.graph = graph, .model = model}};
    int64_t side = (model->image + 1) / 2;
    r.b.batch = (int8_t)cs__graph_axis(graph, "batch", batch, CS_AXIS_BATCH);
    r.b.seq = (int8_t)cs__graph_axis(graph, "sequence", 1, CS_AXIS_SEQ);
    (void)plain_axis(&r, "keys", 1);
    r.image = plain_axis(&r, "image", model->image * model->image);
    r.stem_pixels = plain_axis(&r, "stem pixels", side * side);
    r.rgb = plain_axis(&r, "rgb", 3);
    r.stem = plain_axis(&r, "stem channels", STEM_CHANNELS);
    r.stem_kernel = plain_axis(&r, "stem kernel", STEM_KERNEL);
    r.block_kernel = plain_axis(&r, "block kernel", BLOCK_KERNEL);
    for (int32_t stage = 0; stage < STAGES; stage++) {
        side = (side + 1) / 2; /* the pool after the stem, then the stages */
        r.pixels[stage] = plain_axis(&r, "pixels", side * side);
        r.narrow[stage] = plain_axis(&r, "channels", INT64_C(64) << stage);
        r.wide[stage] = plain_axis(&r, "channels", (INT64_C(64) << stage) * EXPANSION);
    }
    r.classes = plain_axis(&r, "classes", model->vocab);
    add_stem(&r);
    for (int32_t stage = 0; stage < STAGES; stage++) {
        add_block(&r, stage, true, 1);
        add_block(&r, stage, false, model->resnet_blocks[stage] - 1);
    }
    add_classifier(&r);
}
