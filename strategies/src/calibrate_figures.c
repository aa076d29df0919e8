/* What calibration may change, between which bounds, and what it is drawn to. */
#include "calibrate_priv.h"

/* Priors are what chips.yaml's sources say before any fit: FlashAttention-2's rates, GEMM rates of
 * ml-engineering and FlagPerf, placeholders of msmodeling. Their widths say how far a published rate of large
 * operators may be from what a training step reaches. Bounds are physical: no more than the peak, launches
 * below 120 us. */
#define COMMON(matmul, batch, forward, backward, pointwise)                                                  \
    {"efficiency.matmul", 0.4, 1.0, matmul, 0.1, {0}},                                                       \
        {"efficiency.batch-matmul", 0.1, 1.0, batch, 0.3, {0}},                                              \
        {"efficiency.grouped-matmul", 0.1, 1.0, batch, 0.3, {0}},                                            \
        {"efficiency.flash-forward", 0.1, 1.0, forward, 0.3, {0}},                                           \
        {"efficiency.flash-backward", 0.1, 1.0, backward, 0.3, {0}},                                         \
        {"memory_efficiency.matmul",                                                                         \
         0.3,                                                                                                \
         1.0,                                                                                                \
         0.85,                                                                                               \
         0.2,                                                                                                \
         {"memory_efficiency.batch-matmul", "memory_efficiency.grouped-matmul"}},                            \
        {"memory_efficiency.elementwise",                                                                    \
         0.3,                                                                                                \
         1.0,                                                                                                \
         pointwise,                                                                                          \
         0.15,                                                                                               \
         {"memory_efficiency.norm", "memory_efficiency.softmax"}},                                           \
        {"memory_efficiency.optimizer", 0.2, 1.0, 0.8, 0.3, {0}},                                            \
        {"memory_efficiency.gather", 0.05, 1.0, 0.6, 0.5, {0}},                                              \
        {"matmul_half_depth", 0.0, 2000.0, 100.0, 100.0, {0}},                                               \
        {"kernel_overhead", 0.0, 50e-6, 3e-6, 2e-6, {0}},                                                    \
    {                                                                                                        \
        "host_launch", 2e-6, 120e-6, 20e-6, 0.5,                                                             \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }
#define UNALIGNED                                                                                            \
    {                                                                                                        \
        "matmul_unaligned", 1.0, 20.0, 8.0, 0.5,                                                             \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }

static const struct cs__fit_rule a100_rules[] = {COMMON(0.85, 0.70, 0.65, 0.56, 0.85), UNALIGNED};
static const struct cs__fit_rule h100_rules[] = {COMMON(0.78, 0.65, 0.60, 0.52, 0.85), UNALIGNED};
static const struct cs__fit_rule ascend_rules[] = {COMMON(0.86, 0.70, 0.48, 0.41, 0.80)};

const struct cs__generation cs__generations[] = {
    {{"a100-80", "a100-40", "a800", NULL}, a100_rules, CS_COUNT(a100_rules)},
    {{"910b2", "910b3", "910b4", "910c-die", NULL}, ascend_rules, CS_COUNT(ascend_rules)},
    {{"h100", "h800", NULL}, h100_rules, CS_COUNT(h100_rules)},
};
const int32_t cs__n_generations = CS_COUNT(cs__generations);

/* Programs on one chip run the same matrix kernels: 6 % apart at most times. What they fuse and overlap, and
 * how fast their hosts are, differs more. */
const struct cs__fit_rule cs__software_rules[CS_N_SOFTWARE_FIGURES] = {
    [CS_SOFTWARE_KERNEL_TIME] = {"kernel_time", 0.6, 1.6, 1.0, 0.06, {0}},
    [CS_SOFTWARE_POINTWISE_TRAFFIC] = {"pointwise_traffic", 0.4, 4.0, 1.0, 0.25, {0}},
    [CS_SOFTWARE_ATTENTION_TIME] = {"attention_time", 0.4, 4.0, 1.0, 0.3, {0}},
    [CS_SOFTWARE_HOST_LAUNCH] = {"host_launch", 0.3, 3.0, 1.0, 0.4, {0}},
    [CS_SOFTWARE_COLLECTIVE_TIME] = {"collective_time", 0.4, 3.0, 1.0, 0.2, {0}},
    [CS_SOFTWARE_STEP_OVERHEAD] = {"step_overhead", 0.0, 0.3, 0.0, 0.05, {0}},
};
