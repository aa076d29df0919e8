/* Operator costs from local shapes. */
#include "cost_priv.h"

/* A fused causal kernel skips blocks above the diagonal (Dao, arXiv 2307.08691, section 3.1.1: 1.7 to 1.8
 * times faster). Model flops count the whole matrix, as Narayanan et al. (arXiv 2104.04473) do. */

#define ROW_INDEX_BYTES 4.0

enum cs_dtype cs__storage_dtype(const struct cs_training *training)
{
    return training->dtype == CS_DTYPE_FP8 ? CS_DTYPE_BF16 : training->dtype;
}

enum cs_dtype cs__reduced_dtype(const struct cs_training *training)
{
    enum cs_dtype dtype =
        training->widened_gradients ? cs__storage_dtype(training) : training->gradient_dtype;
    return training->gradient_fp32_sync ? CS_DTYPE_FP32 : dtype;
}

int64_t cs__tensor_bytes(const struct cs_costing *costing, const struct cs_tensor *tensor, int64_t elements)
{
    return elements * (tensor->elt_bytes ? tensor->elt_bytes : cs_dtype_bytes(costing->dtype));
}

static int64_t local_bytes(const struct cs_costing *costing, const struct cs_tensor *tensor,
                           const struct cs_space *space)
{
    struct cs_layout layout = cs__space_input(space, tensor);
    return cs__tensor_bytes(costing, tensor, cs__sharding_elements(costing->sharding, tensor, &layout));
}

static int64_t list_bytes(const struct cs_costing *costing, const struct cs_segment *segment,
                          const uint8_t *list, uint8_t n, const struct cs_space *space)
{
    int64_t bytes = 0;
    for (uint8_t i = 0; i < n; i++) {
        bytes += local_bytes(costing, &segment->tensors[list[i]], space);
    }
    return bytes;
}

/** Shape of a matrix product between the input and all parameters that share an axis with it: rows are the
 *  output axes a parameter does not have, the summed axes are the parameter's that the input has too. */
struct product {
    int64_t m, n, k, batch;
};

static struct product matmul_shape(const struct cs_costing *costing, const struct cs_segment *segment,
                                   const struct cs_node *node, const struct cs_space *space)
{
    const struct cs_sharding *sharding = costing->sharding;
    const struct cs_tensor *in = &segment->tensors[node->in[0]];
    struct product p = {.m = 1, .n = 0, .k = 1, .batch = 1};
    for (uint8_t i = 0; i < node->n_par; i++) {
        const struct cs_tensor *param = &segment->tensors[node->par[i]];
        int64_t k = 1;
        int64_t n = 1;
        bool product = false;
        for (uint8_t a = 0; a < param->n_axes; a++) {
            int64_t length = cs__sharding_length(sharding, param->axes[a], space->cut[param->axes[a]]);
            if (cs__tensor_has_axis(in, param->axes[a])) {
                k *= length;
                product = true;
            } else {
                n *= length;
            }
        }
        if (product) {
            p.n += n;
            p.k = k;
        }
    }
    const struct cs_tensor *weight = &segment->tensors[node->par[0]];
    for (uint8_t a = 0; a < in->n_axes; a++) {
        if (!cs__tensor_has_axis(weight, in->axes[a])) {
            p.m *= cs__sharding_length(sharding, in->axes[a], space->cut[in->axes[a]]);
        }
    }
    return p;
}

/** Products in groups: each of the local experts multiplies its share of the rows. */
static struct product grouped_shape(const struct cs_costing *costing, const struct cs_segment *segment,
                                    const struct cs_node *node, const struct cs_space *space)
{
    const struct cs_sharding *sharding = costing->sharding;
    const struct cs_tensor *in = &segment->tensors[node->in[0]];
    const struct cs_tensor *weight = &segment->tensors[node->par[0]];
    struct product p = {.k = cs__sharding_length(sharding, in->axes[1], space->cut[in->axes[1]])};
    int64_t rows = cs__sharding_length(sharding, in->axes[0], space->cut[in->axes[0]]);
    p.batch = cs__sharding_length(sharding, weight->axes[0], space->cut[weight->axes[0]]);
    p.m = (rows + p.batch - 1) / p.batch;
    for (uint8_t i = 0; i < node->n_out; i++) {
        const struct cs_tensor *out = &segment->tensors[node->out[i]];
        p.n += cs__sharding_length(sharding, out->axes[1], space->cut[out->axes[1]]);
    }
    return p;
}

static struct product attention_shape(const struct cs_costing *costing, const struct cs_segment *segment,
                                      const struct cs_node *node, const struct cs_space *space)
{
    const struct cs_sharding *sharding = costing->sharding;
    struct product p = {.batch = 1};
    p.m = cs__sharding_length(sharding, node->axis_m, space->cut[node->axis_m]);
    p.n = cs__sharding_length(sharding, node->axis_n, space->cut[node->axis_n]);
    p.k = cs__sharding_length(sharding, node->axis_k, space->cut[node->axis_k]);
    const struct cs_tensor *out = &segment->tensors[node->out[0]];
    for (uint8_t i = 0; i < out->n_axes; i++) {
        uint8_t axis = out->axes[i];
        bool inner = node->work == CS_WORK_FLASH && axis == node->axis_v;
        if (!inner && axis != node->axis_m && axis != node->axis_n && axis != node->axis_k) {
            p.batch *= cs__sharding_length(sharding, axis, space->cut[axis]);
        }
    }
    return p;
}

/** fp8 is for the products of layers; those before and behind them (logits) stay in the tensors' type, as
 *  Megatron-LM and llm-foundry have it: there the layers alone are of Transformer Engine's modules. */
static enum cs_dtype product_dtype(const struct cs_costing *costing, const struct cs_segment *segment)
{
    return segment->is_layer ? costing->product_dtype : costing->dtype;
}

static struct cs_op_cost matmul_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                     const struct cs_node *node, const struct cs_space *space,
                                     enum cs_pass pass)
{
    const bool grouped = node->kind == CS_OPKIND_GROUPED_MATMUL;
    struct product p = (grouped ? grouped_shape : matmul_shape)(costing, segment, node, space);
    double elt = (double)cs_dtype_bytes(costing->dtype);
    double m = (double)p.m;
    double n = (double)p.n;
    double k = (double)p.k;
    double groups = grouped ? (double)p.batch : 1.0;
    enum cs_dtype dtype = product_dtype(costing, segment);
    double operand = (double)cs_dtype_bytes(dtype); /* operands; the result is of the tensors' type */
    struct cs_op_cost cost = {.kind = node->kind, .dtype = dtype, .batch = p.batch, .n_kernels = 1};
    cost.n_kernels = grouped && costing->separate_experts ? (int32_t)p.batch : 1;
    cost.flop = 2 * m * n * k * (double)p.batch;
    cost.bytes = ((m * k + k * n) * operand + m * n * elt) * groups;
    if (grouped) { /* experts need not divide the rows */
        const struct cs_tensor *in = &segment->tensors[node->in[0]];
        m = (double)cs__sharding_length(costing->sharding, in->axes[0], space->cut[in->axes[0]]);
        cost.flop = 2 * m * n * k;
    }
    cost.m = p.m;
    cost.n = p.n;
    cost.k = p.k;
    if (pass == CS_PASS_BACKWARD) {
        cost.n = p.k;
        cost.k = p.n;
    } else if (pass == CS_PASS_WEIGHT) {
        cost.m = p.k;
        cost.k = p.m;
        /* The product is added to the gradient buffer in place: read and written. */
        double gradient = 2 * (double)cs_dtype_bytes(costing->gradient_dtype);
        cost.bytes =
            (m * k + m * n) * operand + groups * k * n * (costing->separate_accumulation ? elt : gradient);
    }
    return cost;
}

/** A convolution as the product it is: output positions times output channels, summed over input channels and
 * the kernel. Memory traffic is of the features themselves. */
static struct cs_op_cost conv_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                   const struct cs_node *node, const struct cs_space *space,
                                   enum cs_pass pass)
{
    const struct cs_tensor *in = &segment->tensors[node->in[0]];
    const struct cs_tensor *out = &segment->tensors[node->out[0]];
    const struct cs_tensor *weight = &segment->tensors[node->par[0]];
    const struct cs_layout whole = {0};
    struct cs_layout in_layout = cs__space_input(space, in);
    struct cs_layout out_layout = cs__space_input(space, out);
    int64_t in_size = cs__sharding_elements(costing->sharding, in, &in_layout);
    int64_t out_size = cs__sharding_elements(costing->sharding, out, &out_layout);
    int64_t weights = cs__sharding_elements(costing->sharding, weight, &whole);
    int64_t n = cs__sharding_length(costing->sharding, weight->axes[1], 0);
    double elt = (double)cs_dtype_bytes(costing->dtype);
    struct cs_op_cost cost = {
        .kind = node->kind, .dtype = product_dtype(costing, segment), .batch = 1, .n_kernels = 1};
    cost.m = out_size / n;
    cost.n = n;
    cost.k = weights / n;
    cost.flop = 2 * (double)out_size * (double)cost.k;
    cost.bytes = (double)(in_size + out_size + weights) * elt;
    if (pass == CS_PASS_WEIGHT) {
        double gradient = 2 * (double)cs_dtype_bytes(costing->gradient_dtype);
        cost.bytes = (double)(in_size + out_size) * elt +
                     (double)weights * (costing->separate_accumulation ? elt : gradient);
    }
    return cost;
}

static struct cs_op_cost attention_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                        const struct cs_node *node, const struct cs_space *space,
                                        enum cs_pass pass)
{
    const struct cs_sharding *sharding = costing->sharding;
    struct product p = attention_shape(costing, segment, node, space);
    bool flash = node->work == CS_WORK_FLASH;
    double product_flop = 2 * (double)p.m * (double)p.n * (double)p.k * (double)p.batch;
    double bytes = (double)list_bytes(costing, segment, node->in, node->n_in, space) +
                   (double)list_bytes(costing, segment, node->out, node->n_out, space);
    struct cs_op_cost cost = {.kind = node->kind,
                              .dtype = costing->dtype,
                              .flop = product_flop,
                              .bytes = bytes,
                              .m = p.m,
                              .n = p.n,
                              .k = p.k,
                              .batch = p.batch,
                              .n_kernels = 1};
    /* Forward q k (width k) and weights v (width v); backward three products of width k, two of v. */
    double k = (double)p.k;
    double v = flash ? (double)cs__sharding_length(sharding, node->axis_v, space->cut[node->axis_v]) : k;
    if (flash) {
        cost.flop *= (1 + v / k) * costing->causal_frac;
    }
    if (pass == CS_PASS_BACKWARD && flash) {
        cost.kind = CS_OPKIND_FLASH_BACKWARD;
        cost.flop *= (3 * k + 2 * v) / (k + v);
        cost.bytes *= 2;
    } else if (pass == CS_PASS_BACKWARD) {
        /* Two products, one per operand; each reads the output's gradient and the other operand. */
        cost.flop *= 2;
        cost.batch *= 2;
        cost.bytes = 2 * bytes;
        cost.n_kernels = 2;
    }
    return cost;
}

/** Bytes of the tensors that only this node holds (masks, statistics, kept results). */
static int64_t own_bytes(const struct cs_costing *costing, const struct cs_segment *segment,
                         const struct cs_node *node, const struct cs_space *space)
{
    int64_t bytes = 0;
    for (uint8_t i = 0; i < node->n_save; i++) {
        bool known = false;
        for (uint8_t k = 0; k < node->n_in; k++) {
            known |= node->in[k] == node->save[i];
        }
        for (uint8_t k = 0; k < node->n_out; k++) {
            known |= node->out[k] == node->save[i];
        }
        if (!known) {
            bytes += local_bytes(costing, &segment->tensors[node->save[i]], space);
        }
    }
    return bytes;
}

/* What a chain of elementary kernels reads and writes, to the same in one kernel: counted by tensor with two
 * bytes an element, four where it computes in fp32. */
struct chain {
    double traffic_ratio[2]; /* forward, backward */
    int32_t n_kernels[2];
};

/* x.float(), pow(2), mean, x * rsqrt, to the tensors' type, * gain: 36 bytes an element instead of 4, and
 * backward 84 instead of 6. */
static const struct chain norm_chain = {{9.0, 14.0}, {8, 14}};
/* To fp32 6, the norm 8, back 6; backward the gradient and the input to fp32 6 each, the norm's own 12, back
 * 6 (MindFormers, LlamaRMSNorm, whose first cast is made again). */
static const struct chain cast_norm = {{5.0, 5.0}, {3, 4}};
/* x * cos + (cat(-x2, x1)) * sin: product, negation, concatenation, product, sum: 20 bytes instead of 4, and
 * as many backward; of queries and of keys. */
static const struct chain rope_chain = {{5.0, 5.0}, {10, 10}};
/* Cross-entropy, to the logits' two bytes that one kernel reads. Forward, all in fp32 in one buffer: logits
 * to fp32 and their maximum, 10 bytes a logit; minus the maximum, exponential and its sum, 20; by the sum, 8.
 * Backward: the softmax, less one at the labels, times the loss's gradient, to the logits' type, 14. */
static const struct chain loss_maximum_chain = {{5.0, 0.0}, {2, 0}};
static const struct chain loss_sum_chain = {{10.0, 0.0}, {3, 0}};
static const struct chain loss_chain = {{4.0, 7.0}, {1, 2}};

/* To fp32 (6), * scale (8), mask (8), softmax (8), to the tensors' type (6): 36 bytes a score instead of 4;
 * backward to fp32 (6), softmax (12), mask (8), * scale (8), to the tensors' type (6). */
static const struct chain softmax_chain = {{9.0, 10.0}, {5, 5}};

/* bias + x, the tanh form of GELU and its derivative as TorchScript has it, one kernel each operation: 46
 * bytes an element instead of 4, and backward 92 instead of 6. */
static const struct chain gelu_chain = {{46.0 / 4, 92.0 / 6}, {10, 19}};

/* NULL = one kernel. */
static const struct chain *chain_of(const struct cs_costing *costing, const struct cs_node *node,
                                    int64_t n_matrices)
{
    switch (node->chain) {
    case CS_CHAIN_NORM:
        return costing->separate_norms ? &norm_chain : costing->norm_casts ? &cast_norm : NULL;
    case CS_CHAIN_ROPE:
        return costing->separate_rope ? &rope_chain : NULL;
    case CS_CHAIN_GELU:
        return costing->separate_gelu ? &gelu_chain : NULL;
    case CS_CHAIN_SOFTMAX:
        return costing->softmax_multiple > 1 && n_matrices % costing->softmax_multiple ? &softmax_chain
                                                                                       : NULL;
    case CS_CHAIN_LOSS_MAXIMUM:
        return costing->separate_loss ? &loss_maximum_chain : NULL;
    case CS_CHAIN_LOSS_SUM:
        return costing->separate_loss ? &loss_sum_chain : NULL;
    case CS_CHAIN_LOSS:
        return costing->separate_loss ? &loss_chain : NULL;
    case CS_CHAIN_NONE:
        break;
    }
    return NULL;
}

/** Matrices of a tensor whose last two axes are a matrix. */
static int64_t matrices_of(const struct cs_costing *costing, const struct cs_tensor *tensor,
                           const struct cs_space *space)
{
    int64_t n = 1;
    for (uint8_t i = 0; i + 2 < tensor->n_axes; i++) {
        n *= cs__sharding_length(costing->sharding, tensor->axes[i], space->cut[tensor->axes[i]]);
    }
    return n;
}

static void as_chain(const struct cs_costing *costing, const struct cs_segment *segment,
                     const struct cs_node *node, const struct cs_space *space, enum cs_pass pass,
                     double one_kernel_bytes, struct cs_op_cost *cost)
{
    const struct chain *chain =
        chain_of(costing, node, matrices_of(costing, &segment->tensors[node->in[0]], space));
    if (chain) {
        double more = chain->traffic_ratio[pass != CS_PASS_FORWARD] - 1;
        cost->bytes = one_kernel_bytes * (1 + more * (1 - node->unchained_frac));
        cost->n_kernels = chain->n_kernels[pass != CS_PASS_FORWARD];
    }
}

static struct cs_op_cost pointwise_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                        const struct cs_node *node, const struct cs_space *space,
                                        enum cs_pass pass)
{
    int64_t in = list_bytes(costing, segment, node->in, node->n_in, space);
    int64_t out = list_bytes(costing, segment, node->out, node->n_out, space);
    int64_t par = list_bytes(costing, segment, node->par, node->n_par, space);
    int64_t kept = node->chain == CS_CHAIN_NORM || node->chain == CS_CHAIN_GELU ? in : 0;
    struct cs_op_cost cost = {.kind = node->kind, .dtype = costing->dtype, .batch = 1, .n_kernels = 1};
    int64_t elements = 0;
    for (uint8_t i = 0; i < node->n_in + node->n_out; i++) {
        const struct cs_tensor *tensor =
            &segment->tensors[i < node->n_in ? node->in[i] : node->out[i - node->n_in]];
        struct cs_layout layout = cs__space_input(space, tensor);
        int64_t n = cs__sharding_elements(costing->sharding, tensor, &layout);
        elements = n > elements ? n : elements;
    }
    if (pass == CS_PASS_FORWARD) {
        cost.flop = node->forward_flop_per_elt * (double)elements;
        cost.bytes = (double)(in + out + par + own_bytes(costing, segment, node, space));
    } else {
        /* Output gradients and what was kept are read, input gradients written. */
        cost.flop = node->backward_flop_per_elt * (double)elements;
        cost.bytes = (double)(out + in + par + list_bytes(costing, segment, node->save, node->n_save, space));
    }
    /* One kernel keeps what it reads anyway. */
    as_chain(costing, segment, node, space, pass,
             (double)(in + out + par + (pass == CS_PASS_FORWARD ? 0 : kept)), &cost);
    if (node->chain == CS_CHAIN_SOFTMAX && costing->score_bytes) {
        bool backward = pass != CS_PASS_FORWARD;
        cost.bytes += costing->score_bytes[backward] * (double)elements;
        cost.n_kernels += costing->score_kernels[backward];
    }
    return cost;
}

static struct cs_op_cost gather_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                     const struct cs_node *node, const struct cs_space *space,
                                     enum cs_pass pass)
{
    struct cs_op_cost cost = {.kind = node->kind, .dtype = costing->dtype, .batch = 1, .n_kernels = 1};
    const struct cs_tensor *out = &segment->tensors[node->out[0]];
    struct cs_layout layout = cs__space_input(space, out);
    double elements = (double)cs__sharding_elements(costing->sharding, out, &layout);
    double elt = (double)cs_dtype_bytes(costing->dtype);
    if (pass == CS_PASS_FORWARD) {
        cost.bytes = 2 * elements * elt;
    } else {
        cost.flop = elements;
        cost.bytes = elements * (elt + 2 * (double)cs_dtype_bytes(costing->gradient_dtype));
        if (costing->separate_accumulation) { /* into a table of its own, which is cleared first */
            const struct cs_tensor *table = &segment->tensors[node->par[0]];
            struct cs_layout table_layout = cs__space_gradient(space, table);
            cost.bytes = elements * (elt + 2 * elt) +
                         (double)cs__sharding_elements(costing->sharding, table, &table_layout) * elt;
        }
    }
    return cost;
}

/** Passes over all rows beside the permutation's own, where experts take slices of them in turn. Where rows
 * come in, each slice's gradient is a vector of all rows, zero but for the slice, and these are added up;
 * where results are put into one vector, that is cleared and written forward, and backward copied once an
 * expert. */
static double slice_passes(const struct cs_node *node, double n_experts, bool forward)
{
    if (node->exchange == CS_EXCHANGE_OUTPUT) {
        return forward ? 0.0 : n_experts + 3.0 * (n_experts - 1.0) + 2.0;
    }
    return forward ? 3.0 : 2.0 * n_experts + 2.0;
}

/** Tokens become rows of experts, in[0] to out[0], or rows tokens: each row is read and written, wherever its
 *  token lies, by the index of its token: rows of a rank's own tokens, however uneven they arrive. What else
 * goes in (weights), and backward what was kept (results, for the gradient of their weights), is read once.
 */
static struct cs_op_cost permute_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                      const struct cs_node *node, const struct cs_space *space,
                                      enum cs_pass pass)
{
    const struct cs_tensor *in = &segment->tensors[node->in[0]];
    const struct cs_tensor *out = &segment->tensors[node->out[0]];
    const struct cs_tensor *rows = node->exchange == CS_EXCHANGE_OUTPUT ? out : in;
    struct cs_layout layout = cs__space_input(space, rows);
    const double own = 1 / costing->imbalance_frac;
    double elements = own * (double)cs__sharding_elements(costing->sharding, rows, &layout);
    double n_rows = own * (double)cs__sharding_length(costing->sharding, rows->axes[0], layout.cut[0]);
    bool forward = pass == CS_PASS_FORWARD;
    const uint8_t *read = forward ? node->in + 1 : node->save;
    const int32_t n_read = forward ? node->n_in - 1 : node->n_save;
    double rest = 0;
    for (int32_t i = 0; i < n_read; i++) {
        const struct cs_tensor *t = &segment->tensors[read[i]];
        rest += (cs__tensor_has_axis(t, rows->axes[0]) ? own : 1) * (double)local_bytes(costing, t, space);
    }
    double row_bytes = (double)local_bytes(costing, rows, space);
    double n_experts = (double)cs__sharding_length(costing->sharding, node->axis_e, space->cut[node->axis_e]);
    double passes = costing->separate_experts ? slice_passes(node, n_experts, forward) : 0.0;
    return (struct cs_op_cost){
        .kind = node->kind,
        .dtype = costing->dtype,
        .batch = 1,
        .n_kernels = passes > 0 ? 1 + (int32_t)(2 * n_experts) : 1,
        .flop = elements * (forward ? node->forward_flop_per_elt : node->backward_flop_per_elt),
        .bytes = (2 * own + passes * costing->rows_gathered) * row_bytes + n_rows * ROW_INDEX_BYTES + rest};
}

bool cs__node_casts(const struct cs_costing *costing, const struct cs_segment *segment,
                    const struct cs_node *node)
{
    return costing->separate_casts && cs__node_is_product(node) &&
           product_dtype(costing, segment) != costing->dtype;
}

struct cs_op_cost cs__cast_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                const struct cs_node *node, const struct cs_space *space, enum cs_pass pass)
{
    struct cs_op_cost product = cs__node_cost(costing, segment, node, space, CS_PASS_FORWARD);
    int64_t rows = product.m * (product.batch > 0 ? product.batch : 1);
    int64_t elements = rows * (pass == CS_PASS_FORWARD ? product.k : product.n);
    int64_t bytes = cs_dtype_bytes(costing->dtype) + 2 * cs_dtype_bytes(costing->product_dtype);
    return (struct cs_op_cost){.kind = CS_OPKIND_ELEMENTWISE,
                               .dtype = costing->dtype,
                               .batch = 1,
                               .n_kernels = 1,
                               .flop = 2 * (double)elements, /* the largest so far, and the scaling */
                               .bytes = (double)elements * (double)bytes};
}

struct cs_op_cost cs__score_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                 const struct cs_node *node, const struct cs_space *space)
{
    struct product p = attention_shape(costing, segment, node, space);
    double scores = (double)p.batch * (double)p.m * (double)p.n;
    return (struct cs_op_cost){.kind = CS_OPKIND_ELEMENTWISE,
                               .dtype = costing->dtype,
                               .batch = 1,
                               .n_kernels = costing->score_kernels[0],
                               .flop = scores,
                               .bytes = scores * costing->score_bytes[0]};
}

/** Parameters of a node as programs have them: one matrix and one vector of a product, whatever parts they
 * are kept in here; of experts that are multiplied in turn, of each. */
static int32_t n_parameters(const struct cs_costing *costing, const struct cs_segment *segment,
                            const struct cs_node *node, const struct cs_space *space)
{
    bool matrix = false;
    bool vector = false;
    if (node->work != CS_WORK_MATMUL) {
        return node->n_par;
    }
    for (uint8_t i = 0; i < node->n_par; i++) {
        bool is_matrix = cs__param_is_matrix(segment, node, node->par[i]);
        matrix = matrix || is_matrix;
        vector = vector || !is_matrix;
    }
    const struct cs_tensor *weight = &segment->tensors[node->par[0]];
    bool in_turn = node->kind == CS_OPKIND_GROUPED_MATMUL && costing->separate_experts;
    int64_t experts =
        in_turn ? cs__sharding_length(costing->sharding, weight->axes[0], space->cut[weight->axes[0]]) : 1;
    return (matrix + vector) * (int32_t)experts;
}

struct cs_op_cost cs__accumulation_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                        const struct cs_node *node, const struct cs_space *space)
{
    struct cs_op_cost cost = {.kind = CS_OPKIND_ELEMENTWISE, .dtype = costing->gradient_dtype, .batch = 1};
    for (uint8_t i = 0; i < node->n_par; i++) {
        const struct cs_tensor *param = &segment->tensors[node->par[i]];
        struct cs_layout layout = cs__space_gradient(space, param);
        cost.flop += (double)cs__sharding_elements(costing->sharding, param, &layout);
    }
    cost.n_kernels = n_parameters(costing, segment, node, space);
    const int64_t sum_bytes = cs_dtype_bytes(costing->gradient_dtype);
    const int64_t cast_bytes = costing->widened_gradients ? 2 * sum_bytes : 0; /* written, and read again */
    cost.n_kernels *= costing->widened_gradients ? 2 : 1;
    cost.bytes = cost.flop * (double)(cs_dtype_bytes(costing->dtype) + cast_bytes + 2 * sum_bytes);
    return cost;
}

struct cs_op_cost cs__sort_cost(const struct cs_costing *costing, const struct cs_tensor *rows,
                                const struct cs_space *space, double n_ranks)
{
    return (struct cs_op_cost){.kind = CS_OPKIND_GATHER,
                               .dtype = costing->dtype,
                               .batch = 1,
                               .n_kernels = 1,
                               .bytes = 2 * n_ranks * (double)local_bytes(costing, rows, space)};
}

struct cs_op_cost cs__node_cost(const struct cs_costing *costing, const struct cs_segment *segment,
                                const struct cs_node *node, const struct cs_space *space, enum cs_pass pass)
{
    switch (node->work) {
    case CS_WORK_MATMUL:
        return matmul_cost(costing, segment, node, space, pass);
    case CS_WORK_BATCH_MATMUL:
    case CS_WORK_FLASH:
        return attention_cost(costing, segment, node, space, pass);
    case CS_WORK_CONV:
        return conv_cost(costing, segment, node, space, pass);
    case CS_WORK_GATHER:
        return gather_cost(costing, segment, node, space, pass);
    case CS_WORK_PERMUTE:
        return permute_cost(costing, segment, node, space, pass);
    case CS_WORK_POINTWISE:
        break;
    }
    return pointwise_cost(costing, segment, node, space, pass);
}

double cs__node_model_flop(const struct cs_costing *costing, const struct cs_segment *segment,
                           const struct cs_node *node, const struct cs_space *space)
{
    struct cs_costing whole = *costing;
    whole.causal_frac = 1.0;
    switch (node->work) {
    case CS_WORK_MATMUL:
    case CS_WORK_CONV:
    case CS_WORK_BATCH_MATMUL:
    case CS_WORK_FLASH:
        return cs__node_cost(&whole, segment, node, space, CS_PASS_FORWARD).flop;
    case CS_WORK_GATHER:
    case CS_WORK_PERMUTE:
    case CS_WORK_POINTWISE:
        break;
    }
    return 0;
}
