/* Which kernels a published run has. */
#include "cases_priv.h"

#include <string.h>

/* Bytes that kernels read and write for each score (batch x heads x queries x keys) in a type of two bytes,
 * beside the one kernel of softmax or attention; forward and backward. Counted in the sources of ModelLink
 * (modellink/model/transformer.py, core_attention_forward and FlashSelfAttention of its branches 1.0 to 1.2;
 * ascendspeed/model/transformer.py, CoreAttention of bk_origin_23). */
struct score_kernels {
    double bytes[2];
    int32_t n[2];
};

/* The position bias times beta, the product times 1 / sqrt(head size), their sum; backward the second. */
static const struct score_kernels added_bias = {{4 + 4 + 6, 4}, {3, 1}};
/* AscendSpeed repeats the bias for the sequences of the batch, or adds it to the mask, in each layer again.
 */
static const struct score_kernels repeated_bias = {{4, 0}, {1, 0}};
/* The position bias times beta and times sqrt(head size), for a fused kernel that takes it as it comes. */
static const struct score_kernels scaled_bias = {{4 + 4, 0}, {2, 0}};
/* The larger of each score and the type's least number, and a softmax without mask: the maximum; its backward
 * compares twice, halves, chooses and clears. */
static const struct score_kernels least_score = {{4, 3 + 4 + 7 + 3 + 5}, {1, 5}};
/* No kernel for scale, mask and softmax together, and softmax in fp32: to fp32, mask by a byte a score,
 * softmax in fp32, back; instead of one kernel's 4 and 6. */
static const struct score_kernels fp32_softmax = {{6 + 9 + 8 + 6 - 4, 6 + 12 + 9 + 6 - 6}, {3, 3}};
/* The layer's number times the scores, in fp32 (--apply-query-key-layer-scaling). */
static const struct score_kernels layer_scale = {{8, 8}, {1, 1}};
/* A mask of a bit a score, and its product. */
static const struct score_kernels dropped_scores = {{0.125 + 4.125, 4.125}, {2, 1}};

/* Bytes for each parameter of MindFormers' FP32StateAdamWeightDecay (mindformers/core/optim/optim.py,
 * _update_run_op) and of what goes before it (wrapper.py, core/clip_grad.py), one kernel an operation, in
 * fp32 but for weights of two bytes: loss scale 8, squares 8 and their sum 4 for the norm, clipping 8; the
 * weight to fp32 6; the first moment two products and a sum 28, the second a square too 36, their corrections
 * 16; root, epsilon, quotient 28; decay 20; rate and difference 20; the weight back to its type and stored
 * 10, both moments stored 16. Less the one reading of the gradient for its norm that every optimizer is
 * charged. */
#define ELEMENTARY_ADAM_BYTES (28.0 + 180.0 - 4.0)

static void add(struct cs_training *training, const struct score_kernels *kernels)
{
    for (int i = 0; i < 2; i++) {
        training->score_bytes[i] += kernels->bytes[i];
        training->score_kernels[i] += kernels->n[i];
    }
}

static void count_score_kernels(struct cs_training *training, const struct cs_model *model,
                                const struct cs_software *software, const char *flags)
{
    const bool bias = model->position == CS_POS_ALIBI && software->tensor_bias;
    if (training->flash_attention) {
        if (bias) {
            add(training, &scaled_bias);
        }
        return;
    }
    if (bias) {
        add(training, &added_bias);
    }
    if (bias && strstr(flags, "repeated in each layer")) {
        add(training, &repeated_bias);
    }
    if (bias && strstr(flags, "square-alibi-mask")) {
        add(training, &least_score);
    } else if (strstr(flags, "no-masked-softmax-fusion")) {
        add(training, &fp32_softmax);
        if (strstr(flags, "apply-query-key-layer-scaling")) {
            add(training, &layer_scale);
        }
    }
    if (strstr(flags, "attention-dropout 0.1")) {
        add(training, &dropped_scores);
    }
}

void cs__case_kernels(struct cs_training *training, const struct cs_model *model,
                      const struct cs_software *software, const char *notes, const char *flags)
{
    training->separate_casts = software->separate_casts;
    training->async_tensor_parallel = software->async_tensor_parallel;
    training->separate_accumulation = software->separate_accumulation;
    training->separate_gate =
        software->separate_gate && !strstr(flags, "mlp-layer-fusion") &&
        !strstr(flags, "no-add-gate"); /* one layer of twice the width, as Megatron-LM */
    training->separate_gelu = software->scripted_gelu && !strstr(flags, "no-bias-gelu-fusion");
    if (software->elementary_optimizer && !strstr(flags, "optimizer Fused")) {
        training->optimizer_traffic_bytes = ELEMENTARY_ADAM_BYTES;
    }
    training->separate_rope = software->separate_rope;
    training->norm_casts = software->norm_casts;
    training->separate_loss = !software->loss_fusion;
    if (strstr(notes, "flags:")) { /* a program that fuses these by flag, and a source that lists flags */
        training->separate_norms = !strstr(notes, "use-fused-rmsnorm");
        training->separate_rope = !strstr(notes, "use-fused-rotary-pos-emb");
        training->fused_glu = strstr(notes, "use-fused-swiglu") != NULL;
        training->separate_experts = !strstr(notes, "moe-grouped-gemm");
    }
    count_score_kernels(training, model, software, flags);
}
