/* kernel_details.csv: kernels with their shapes -> operators of the time model. */
#include "profile_priv.h"

#include "cs/base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Beginnings of kernel types, case ignored; the first that fits counts. */
static const struct {
    const char *type;
    enum cs_opkind kind;
} types[] = {
    {"FlashAttentionScoreGrad", CS_OPKIND_FLASH_BACKWARD},
    {"FlashAttention", CS_OPKIND_FLASH_FORWARD},
    {"PromptFlashAttention", CS_OPKIND_FLASH_FORWARD},
    {"GroupedMatMul", CS_OPKIND_GROUPED_MATMUL},
    {"BatchMatMul", CS_OPKIND_BATCH_MATMUL},
    {"MatMul", CS_OPKIND_MATMUL},
    {"Conv", CS_OPKIND_CONV},
    {"SoftmaxCrossEntropy", CS_OPKIND_SOFTMAX},
    {"Softmax", CS_OPKIND_SOFTMAX},
    {"LogSoftmax", CS_OPKIND_SOFTMAX},
    {"ScaledMaskedSoftmax", CS_OPKIND_SOFTMAX},
    {"RmsNorm", CS_OPKIND_NORM},
    {"AddRmsNorm", CS_OPKIND_NORM},
    {"LayerNorm", CS_OPKIND_NORM},
    {"BatchNorm", CS_OPKIND_NORM},
    {"BNTraining", CS_OPKIND_NORM},
    {"Gather", CS_OPKIND_GATHER},
    {"Embedding", CS_OPKIND_GATHER},
    {"UnsortedSegmentSum", CS_OPKIND_GATHER},
    {"IndexAdd", CS_OPKIND_GATHER},
    {"ApplyAdam", CS_OPKIND_OPTIMIZER},
    {"Adam", CS_OPKIND_OPTIMIZER},
    {"FusedAdam", CS_OPKIND_OPTIMIZER},
    {"ApplyMomentum", CS_OPKIND_OPTIMIZER},
    {"Lamb", CS_OPKIND_OPTIMIZER},
    {"Add", CS_OPKIND_ELEMENTWISE},
    {"Sub", CS_OPKIND_ELEMENTWISE},
    {"Mul", CS_OPKIND_ELEMENTWISE},
    {"RealDiv", CS_OPKIND_ELEMENTWISE},
    {"Cast", CS_OPKIND_ELEMENTWISE},
    {"Gelu", CS_OPKIND_ELEMENTWISE},
    {"FastGelu", CS_OPKIND_ELEMENTWISE},
    {"Silu", CS_OPKIND_ELEMENTWISE},
    {"SwiGlu", CS_OPKIND_ELEMENTWISE},
    {"Swish", CS_OPKIND_ELEMENTWISE},
    {"Relu", CS_OPKIND_ELEMENTWISE},
    {"Sigmoid", CS_OPKIND_ELEMENTWISE},
    {"Exp", CS_OPKIND_ELEMENTWISE},
    {"DropOut", CS_OPKIND_ELEMENTWISE},
    {"RotaryPositionEmbedding", CS_OPKIND_ELEMENTWISE},
    {"ApplyRotaryPosEmb", CS_OPKIND_ELEMENTWISE},
    {"Transpose", CS_OPKIND_ELEMENTWISE},
    {"Concat", CS_OPKIND_ELEMENTWISE},
    {"Slice", CS_OPKIND_ELEMENTWISE},
    {"StridedSlice", CS_OPKIND_ELEMENTWISE},
    {"TensorMove", CS_OPKIND_ELEMENTWISE},
};

#define ELEMENTS_MAX 1e15 /* of a tensor that a device can hold */

enum { DIMS_MAX = 8, TENSORS_MAX = 32 };

struct tensor {
    int32_t n_dims;
    int64_t dims[DIMS_MAX];
    double n_elements; /* @unit count; 1 for a scalar */
    double element_bytes;
};

struct tensors {
    int32_t n;
    struct tensor items[TENSORS_MAX];
};

/* "64,1024;1024,4096", perhaps in quotes of its own. @return false when it is something else or too long. */
static bool read_shapes(const char *text, struct tensors *tensors)
{
    *tensors = (struct tensors){0};
    text += strspn(text, "\" ");
    while (*text && *text != '"' && strcmp(text, "N/A") != 0) {
        if (tensors->n == TENSORS_MAX) {
            return false;
        }
        struct tensor *t = &tensors->items[tensors->n++];
        t->n_elements = 1;
        while (*text && *text != ';' && *text != '"') {
            char *end = NULL;
            long long dim = strtoll(text, &end, 10);
            if (end == text || dim < 0 || dim > INT32_MAX || t->n_dims == DIMS_MAX) {
                return false;
            }
            t->dims[t->n_dims++] = dim;
            t->n_elements *= (double)dim;
            text = end + strspn(end, ", ");
        }
        if (t->n_elements > ELEMENTS_MAX) {
            return false;
        }
        text += *text == ';';
    }
    return true;
}

struct dtype_name {
    const char *name;
    double element_bytes;
    int dtype; /* -1 = none that computes */
};

static const struct dtype_name *find_dtype(const char *text, size_t len)
{
    static const struct dtype_name names[] = {{"FLOAT", 4, CS_DTYPE_FP32},
                                              {"FLOAT32", 4, CS_DTYPE_FP32},
                                              {"FLOAT16", 2, CS_DTYPE_FP16},
                                              {"BF16", 2, CS_DTYPE_BF16},
                                              {"BFLOAT16", 2, CS_DTYPE_BF16},
                                              {"INT64", 8, -1},
                                              {"INT32", 4, -1},
                                              {"UINT8", 1, -1},
                                              {"INT8", 1, -1},
                                              {"BOOL", 1, -1}};
    if (len > 3 && strncasecmp(text, "DT_", 3) == 0) {
        text += 3;
        len -= 3;
    }
    for (int32_t i = 0; i < CS_COUNT(names); i++) {
        if (strlen(names[i].name) == len && strncasecmp(names[i].name, text, len) == 0) {
            return &names[i];
        }
    }
    return NULL;
}

/* Sizes of the tensors' elements; *dtype becomes the first that computes, if it is -1. Names that are not
 * known count as 4 bytes. */
static void read_dtypes(const char *text, struct tensors *tensors, int *dtype)
{
    text += strspn(text, "\" ");
    for (int32_t i = 0; i < tensors->n; i++) {
        size_t len = strcspn(text, ";\"");
        const struct dtype_name *found = find_dtype(text, len);
        tensors->items[i].element_bytes = found ? found->element_bytes : 4;
        if (found && *dtype < 0) {
            *dtype = found->dtype;
        }
        text += len;
        text += *text == ';';
    }
}

static double bytes_of(const struct tensors *tensors)
{
    double bytes = 0;
    for (int32_t i = 0; i < tensors->n; i++) {
        bytes += tensors->items[i].n_elements * tensors->items[i].element_bytes;
    }
    return bytes;
}

/* A product's shape: the output has m x n (and a batch), the first operand m x k in either order. A grouped
 * product has its groups as the second operand's first dimension. */
static bool product_cost(struct cs_op_cost *cost, const struct tensors *in, const struct tensors *out)
{
    if (in->n < 2 || out->n < 1 || out->items[0].n_dims < 2 || out->items[0].n_elements <= 0) {
        return false;
    }
    const struct tensor *a = &in->items[0];
    const struct tensor *b = &in->items[1];
    const struct tensor *c = &out->items[0];
    int64_t rows = c->dims[c->n_dims - 2];
    cost->n = c->dims[c->n_dims - 1];
    bool grouped = cost->kind == CS_OPKIND_GROUPED_MATMUL && b->n_dims == 3;
    cost->batch = grouped ? b->dims[0] : (int64_t)(c->n_elements / ((double)rows * (double)cost->n) + 0.5);
    cost->m = grouped && cost->batch > 0 ? rows / cost->batch : rows;
    cost->k = (int64_t)(a->n_elements / ((double)rows * (grouped ? 1.0 : (double)cost->batch)) + 0.5);
    if (cost->m < 1 || cost->n < 1 || cost->k < 1 || cost->batch < 1) {
        return false;
    }
    cost->flop = 2.0 * (double)cost->m * (double)cost->n * (double)cost->k * (double)cost->batch;
    return true;
}

/* Fused attention of q (first) and k (second operand): 4 flop for each pair of query and key and element of a
 * head, half of the pairs (causal) when there are as many keys as queries; 2.5 times that backward (the
 * scores are computed again: Dao 2023). Layouts B,N,S,D; B,S,H and S,B,H, where S is the longer of the first
 * two. */
static bool attention_cost(struct cs_op_cost *cost, const struct tensors *in)
{
    if (in->n < 2 || in->items[0].n_dims != in->items[1].n_dims) {
        return false;
    }
    const struct tensor *q = &in->items[0];
    const struct tensor *k = &in->items[1];
    int32_t at = q->n_dims == 4 ? 2 : q->n_dims == 3 && q->dims[1] > q->dims[0] ? 1 : 0;
    if (q->n_dims < 3 || q->n_dims > 4 || q->dims[at] < 1) {
        return false;
    }
    double causal = q->dims[at] == k->dims[at] ? 0.5 : 1.0;
    double backward = cost->kind == CS_OPKIND_FLASH_BACKWARD ? 2.5 : 1.0;
    cost->flop = 4.0 * q->n_elements * (double)k->dims[at] * causal * backward;
    cost->batch = 1;
    return true;
}

/* The operator of a row, or false when its type or shapes say nothing. */
static bool read_cost(const struct cs__csv *csv, int32_t row, struct cs_op_cost *cost)
{
    const char *type = cs__csv_text(csv, row, "Type");
    struct tensors in;
    struct tensors out;
    int dtype = -1;
    int32_t t = 0;
    while (t < CS_COUNT(types) && strncasecmp(type, types[t].type, strlen(types[t].type)) != 0) {
        t++;
    }
    if (t == CS_COUNT(types) || !read_shapes(cs__csv_text(csv, row, "Input Shapes"), &in) ||
        !read_shapes(cs__csv_text(csv, row, "Output Shapes"), &out)) {
        return false;
    }
    read_dtypes(cs__csv_text(csv, row, "Input Data Types"), &in, &dtype);
    read_dtypes(cs__csv_text(csv, row, "Output Data Types"), &out, &dtype);
    *cost = (struct cs_op_cost){.kind = types[t].kind,
                                .dtype = dtype < 0 ? CS_DTYPE_FP32 : (enum cs_dtype)dtype,
                                .bytes = bytes_of(&in) + bytes_of(&out),
                                .batch = 1,
                                .n_kernels = 1};
    switch (cost->kind) {
    case CS_OPKIND_MATMUL:
    case CS_OPKIND_BATCH_MATMUL:
    case CS_OPKIND_GROUPED_MATMUL:
        return product_cost(cost, &in, &out);
    case CS_OPKIND_FLASH_FORWARD:
    case CS_OPKIND_FLASH_BACKWARD:
        return attention_cost(cost, &in);
    case CS_OPKIND_CONV:
        return false; /* strides and padding are not in the file */
    case CS_OPKIND_SOFTMAX:
    case CS_OPKIND_NORM:
    case CS_OPKIND_ELEMENTWISE:
    case CS_OPKIND_GATHER:
    case CS_OPKIND_OPTIMIZER:
    case CS_N_OPKINDS:
    default:
        return cost->bytes > 0;
    }
}

static int compare_numbers(double a, double b)
{
    return a < b ? -1 : a > b;
}

static int compare_kernels(const void *a, const void *b)
{
    const struct cs_op_cost *x = &((const struct cs_profile_kernel *)a)->cost;
    const struct cs_op_cost *y = &((const struct cs_profile_kernel *)b)->cost;
    const double keys[][2] = {{x->kind, y->kind},           {x->dtype, y->dtype},
                              {x->flop, y->flop},           {x->bytes, y->bytes},
                              {(double)x->m, (double)y->m}, {(double)x->n, (double)y->n}};
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        int order = compare_numbers(keys[i][0], keys[i][1]);
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

/* Equal kernels become one with their mean time. */
static void merge(struct cs_profile *profile)
{
    int32_t n = 0;
    qsort(profile->kernels, (size_t)profile->n_kernels, sizeof *profile->kernels, compare_kernels);
    for (int32_t i = 0; i < profile->n_kernels; i++) {
        struct cs_profile_kernel *last = n > 0 ? &profile->kernels[n - 1] : NULL;
        if (last && compare_kernels(last, &profile->kernels[i]) == 0) {
            last->n++;
            last->time_s += (profile->kernels[i].time_s - last->time_s) / (double)last->n;
        } else {
            profile->kernels[n++] = profile->kernels[i];
        }
    }
    profile->n_kernels = n;
}

cs_status cs__profile_kernels(struct cs_profile *profile, const char *path, struct cs_err *err)
{
    static const char *const needed[] = {
        "Type", "Input Shapes", "Output Shapes", "Input Data Types", "Output Data Types", NULL};
    cs_status st = CS_OK;
    static const char *const times[] = {"Duration", NULL};
    struct cs__csv csv = {0};
    CS_TRY(cs__csv_open(&csv, path, needed, err));
    CS_TRY(cs__profile_need_times(&csv, times, err));
    profile->kernels = CS_ARENA_NEW(&profile->arena, struct cs_profile_kernel, csv.n_rows + 1);
    for (int32_t r = 0; r < csv.n_rows; r++) {
        struct cs_profile_kernel kernel = {.n = 1};
        CS_TRY(cs__profile_time(&csv, r, "Duration", &kernel.time_s, err));
        if (kernel.time_s > 0 && read_cost(&csv, r, &kernel.cost)) {
            profile->kernels[profile->n_kernels++] = kernel;
            profile->known_s += kernel.time_s;
        } else {
            profile->n_unknown++;
            profile->unknown_s += kernel.time_s;
        }
    }
    merge(profile);
out:
    cs__csv_release(&csv);
    return st;
}
