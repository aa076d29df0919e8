/* Validity rules: which strategies can run. The list is in ../README.md. */
#include "schedule_priv.h"

#include <stdio.h>

struct subject {
    const struct cs_strategy *s;
    const struct cs_model *model;
    const struct cs_training *training;
    const struct cs_cluster_shape *shape;
    char *why;
    size_t why_bytes;
};

/** A rule returns true when the strategy keeps it; else it has written why. */
struct rule {
    const char *name;
    bool (*holds)(const struct subject *x);
};

#define REFUSE(x, ...) ((void)snprintf((x)->why, (x)->why_bytes, __VA_ARGS__), false)

static bool degrees_positive(const struct subject *x)
{
    const struct cs_strategy *s = x->s;
    if (s->dp < 1 || s->mp < 1 || s->pp < 1 || s->cp < 1 || s->ep < 1 || s->vpp < 1 || s->op < 1 ||
        s->micro_batch < 1 || s->zero < 1 || s->zero > 3) {
        return REFUSE(x, "every degree and the micro-batch size must be at least 1, and zero 1, 2 or 3");
    }
    return true;
}

static bool placement_complete(const struct subject *x)
{
    unsigned seen = 0;
    for (int32_t i = 0; i < CS_N_DIMS; i++) {
        seen |= 1u << x->s->placement[i];
    }
    return seen == (1u << CS_N_DIMS) - 1 || REFUSE(x, "placement must name each of mp, cp, dp and pp once");
}

static bool devices_product(const struct subject *x)
{
    const struct cs_strategy *s = x->s;
    int64_t left = x->shape->n_devices;
    const int32_t degrees[] = {s->dp, s->mp, s->cp, s->pp};
    for (int32_t i = 0; i < CS_COUNT(degrees); i++) {
        left = left % degrees[i] == 0 ? left / degrees[i] : 0;
    }
    return left == 1 || REFUSE(x, "dp*mp*cp*pp is %d*%d*%d*%d, not the cluster's %d devices", (int)s->dp,
                               (int)s->mp, (int)s->cp, (int)s->pp, (int)x->shape->n_devices);
}

static bool cp_modelled(const struct subject *x)
{
    return x->s->cp == 1 || REFUSE(x, "context parallelism (cp=%d) is not generated", (int)x->s->cp);
}

static bool ep_modelled(const struct subject *x)
{
    return x->s->ep == 1 || REFUSE(x, "expert parallelism (ep=%d) needs a mixture of experts", (int)x->s->ep);
}

static bool vpp_modelled(const struct subject *x)
{
    return x->s->vpp == 1 ||
           REFUSE(x, "virtual stages (vpp=%d) need an interleaved schedule", (int)x->s->vpp);
}

static bool schedule_modelled(const struct subject *x)
{
    return cs__schedule_known(x->s->schedule) ||
           REFUSE(x, "schedule %s is not generated", cs_schedule_names[x->s->schedule]);
}

static bool dtype_modelled(const struct subject *x)
{
    return (x->training->dtype != CS_DTYPE_FP8 && x->training->gradient_dtype != CS_DTYPE_FP8) ||
           REFUSE(x, "fp8 training is not generated; fp32, fp16 and bf16 are");
}

static bool optimizer_modelled(const struct subject *x)
{
    return x->training->optimizer != CS_OPT_MUON ||
           REFUSE(x, "optimizer %s is not generated", cs_optimizer_names[x->training->optimizer]);
}

static bool heads_divisible(const struct subject *x)
{
    return x->model->n_heads % x->s->mp == 0 || REFUSE(x, "%lld attention heads are not divisible by mp=%d",
                                                       (long long)x->model->n_heads, (int)x->s->mp);
}

static bool kv_heads_divisible(const struct subject *x)
{
    int64_t kv = x->model->n_kv_heads;
    int64_t mp = x->s->mp;
    return kv % mp == 0 || mp % kv == 0 ||
           REFUSE(x, "%lld key-value heads neither divide mp=%d nor are divisible by it", (long long)kv,
                  (int)mp);
}

static bool ffn_divisible(const struct subject *x)
{
    return x->model->ffn % x->s->mp == 0 ||
           REFUSE(x, "ffn %lld is not divisible by mp=%d", (long long)x->model->ffn, (int)x->s->mp);
}

static bool vocab_divisible(const struct subject *x)
{
    return x->model->vocab % x->s->mp == 0 ||
           REFUSE(x, "vocabulary %lld is not divisible by mp=%d", (long long)x->model->vocab, (int)x->s->mp);
}

static bool sp_needs_mp(const struct subject *x)
{
    return !x->s->sp || x->s->mp > 1 || REFUSE(x, "sequence parallel (sp) needs mp above 1");
}

static bool seq_divisible(const struct subject *x)
{
    return !x->s->sp || x->training->seq_length % x->s->mp == 0 ||
           REFUSE(x, "sequence length %lld is not divisible by mp=%d, which sp needs",
                  (long long)x->training->seq_length, (int)x->s->mp);
}

static bool position_long_enough(const struct subject *x)
{
    return x->model->position != CS_POS_LEARNED || x->training->seq_length <= x->model->max_position ||
           REFUSE(x, "sequence length %lld is above the model's %lld learned positions",
                  (long long)x->training->seq_length, (long long)x->model->max_position);
}

static bool layers_per_stage(const struct subject *x)
{
    return x->s->pp <= x->model->n_layers ||
           REFUSE(x, "%d layers cannot fill pp=%d stages", (int)x->model->n_layers, (int)x->s->pp);
}

static bool batch_divisible(const struct subject *x)
{
    return cs_strategy_micro_batches(x->s, x->training) > 0 ||
           REFUSE(x, "global batch %lld is not divisible by dp*micro_batch = %d*%d",
                  (long long)x->training->global_batch, (int)x->s->dp, (int)x->s->micro_batch);
}

static bool micro_batches_fill(const struct subject *x)
{
    int64_t m = cs_strategy_micro_batches(x->s, x->training);
    return m >= cs__schedule_min_micro_batches(x->s->schedule, x->s->pp) ||
           REFUSE(x, "%lld micro-batches are fewer than the pp=%d stages that %s has to fill", (long long)m,
                  (int)x->s->pp, cs_schedule_names[x->s->schedule]);
}

static bool op_divides_dp(const struct subject *x)
{
    return x->s->dp % x->s->op == 0 ||
           REFUSE(x, "dp=%d is not divisible by op=%d", (int)x->s->dp, (int)x->s->op);
}

static bool zero_needs_op(const struct subject *x)
{
    return x->s->zero == 1 || x->s->op > 1 ||
           REFUSE(x, "zero=%d shards over op ranks, and op is 1", (int)x->s->zero);
}

static const struct rule rules[] = {
    {"degrees-positive", degrees_positive},
    {"placement-complete", placement_complete},
    {"devices-product", devices_product},
    {"cp-not-generated", cp_modelled},
    {"ep-needs-experts", ep_modelled},
    {"vpp-needs-interleaving", vpp_modelled},
    {"schedule-not-generated", schedule_modelled},
    {"dtype-not-generated", dtype_modelled},
    {"optimizer-not-generated", optimizer_modelled},
    {"heads-divisible", heads_divisible},
    {"kv-heads-divisible", kv_heads_divisible},
    {"ffn-divisible", ffn_divisible},
    {"vocab-divisible", vocab_divisible},
    {"sp-needs-mp", sp_needs_mp},
    {"sequence-divisible", seq_divisible},
    {"position-long-enough", position_long_enough},
    {"layers-per-stage", layers_per_stage},
    {"batch-divisible", batch_divisible},
    {"micro-batches-fill-pipeline", micro_batches_fill},
    {"op-divides-dp", op_divides_dp},
    {"zero-needs-op", zero_needs_op},
};

const char *cs_strategy_check(const struct cs_strategy *strategy, const struct cs_model *model,
                              const struct cs_training *training, const struct cs_cluster_shape *shape,
                              char *why, size_t why_bytes)
{
    struct subject x = {strategy, model, training, shape, why, why_bytes};
    if (why_bytes > 0) {
        why[0] = '\0';
    }
    for (int32_t i = 0; i < CS_COUNT(rules); i++) {
        if (!rules[i].holds(&x)) {
            return rules[i].name;
        }
    }
    return NULL;
}
