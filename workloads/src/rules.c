/* Validity rules: which strategies can run. The list is in ../README.md. */
#include "cost_priv.h"
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

static bool cp_fits(const struct subject *x)
{
    const int64_t cp = x->s->cp;
    const int64_t parts = cp * (x->s->cp_kind == CS_CP_RING ? 2 : 1) * (x->s->sp ? x->s->mp : 1);
    if (cp == 1) {
        return true;
    }
    if (x->training->seq_length % parts != 0) {
        return REFUSE(
            x, "sequence length %lld is not divisible by the %lld parts of cp=%d (two a rank in a ring%s)",
            (long long)x->training->seq_length, (long long)parts, (int)cp,
            x->s->sp ? ", times mp under sp" : "");
    }
    return x->training->flash_attention ||
           REFUSE(x, "context parallelism (cp=%d) needs flash attention", (int)cp);
}

static bool ulysses_heads(const struct subject *x)
{
    const int64_t ranks = (int64_t)x->s->cp * x->s->mp;
    return x->s->cp == 1 || x->s->cp_kind != CS_CP_ULYSSES ||
           (x->model->n_heads % ranks == 0 &&
            (x->model->n_kv_heads % ranks == 0 || ranks % x->model->n_kv_heads == 0)) ||
           REFUSE(x, "Ulysses shares %lld heads and %lld key-value heads over cp*mp = %lld ranks",
                  (long long)x->model->n_heads, (long long)x->model->n_kv_heads, (long long)ranks);
}

static bool ep_fits(const struct subject *x)
{
    const struct cs_strategy *s = x->s;
    const int64_t ranks = (int64_t)s->dp * s->cp * (s->expert_mp ? 1 : s->mp);
    if (s->expert_mp && x->model->n_experts == 0) {
        return REFUSE(x, "expert_mp needs a mixture of experts");
    }
    if (s->ep == 1) {
        return true;
    }
    if (x->model->n_experts == 0) {
        return REFUSE(x, "expert parallelism (ep=%d) needs a mixture of experts", (int)s->ep);
    }
    if (x->model->n_experts % s->ep != 0) {
        return REFUSE(x, "%d experts are not divisible by ep=%d", (int)x->model->n_experts, (int)s->ep);
    }
    return ranks % s->ep == 0 || REFUSE(x, "%s = %lld is not divisible by ep=%d",
                                        s->expert_mp ? "dp*cp" : "dp*cp*mp", (long long)ranks, (int)s->ep);
}

static bool experts_need_sp(const struct subject *x)
{
    return x->model->n_experts == 0 || x->s->mp == 1 || x->s->sp || x->s->expert_mp ||
           REFUSE(x,
                  "whole experts under mp=%d need sequence parallel (sp), which shares out the tokens over "
                  "mp, or "
                  "expert_mp, which shares out each expert",
                  (int)x->s->mp);
}

static struct cs_pipeline pipeline_of(const struct subject *x)
{
    struct cs_pipeline pipeline;
    cs__pipeline_init(&pipeline, x->s, cs_strategy_micro_batches(x->s, x->training));
    return pipeline;
}

/** One stage has no order to choose: what asks for one was meant for another strategy. Megatron-LM refuses
 *  virtual stages without a pipeline too (megatron/training/arguments.py). Slices of the sequence are of use
 *  on one stage as well, and on it 1f1b and gpipe are gradient accumulation. */
static bool pipeline_exists(const struct subject *x)
{
    const enum cs_schedule schedule = x->s->schedule;
    const bool sliced = schedule == CS_SCHED_SEQPIPE && x->s->seq_split > 1;
    if (x->s->pp > 1) {
        return true;
    }
    if (x->s->vpp > 1 && !sliced) {
        return REFUSE(x, "virtual stages (vpp=%d) need pp above 1", (int)x->s->vpp);
    }
    return schedule == CS_SCHED_1F1B || schedule == CS_SCHED_GPIPE || schedule == CS_SCHED_SEQPIPE ||
           REFUSE(x, "schedule %s needs pp above 1", cs_schedule_names[schedule]);
}

static bool vpp_fits(const struct subject *x)
{
    int32_t vpp = x->s->vpp;
    const char *schedule = cs_schedule_names[x->s->schedule];
    switch (x->s->schedule) {
    case CS_SCHED_INTERLEAVED:
        return vpp > 1 || REFUSE(x, "schedule interleaved needs vpp above 1");
    case CS_SCHED_ZERO_BUBBLE_V:
        return vpp == 2 || REFUSE(x, "schedule %s is two chunks a stage, vpp=2, not %d", schedule, (int)vpp);
    case CS_SCHED_SEQPIPE:
        return true;
    case CS_SCHED_GPIPE:
    case CS_SCHED_1F1B:
    case CS_SCHED_ZERO_BUBBLE:
    case CS_SCHED_DUALPIPE:
    case CS_N_SCHEDULES:
        break;
    }
    return vpp == 1 ||
           REFUSE(x, "virtual stages (vpp=%d) need an interleaved schedule, not %s", (int)vpp, schedule);
}

static bool places_countable(const struct subject *x)
{
    int64_t places = (int64_t)x->s->pp * x->s->vpp;
    return x->s->vpp <= CS_CHUNKS_MAX ||
           REFUSE(x, "pp*vpp = %lld with vpp above %d is more than a trace holds", (long long)places,
                  CS_CHUNKS_MAX);
}

static bool dualpipe_even(const struct subject *x)
{
    return x->s->schedule != CS_SCHED_DUALPIPE || x->s->pp % 2 == 0 ||
           REFUSE(x, "schedule dualpipe pairs stages: pp=%d must be even", (int)x->s->pp);
}

static bool slices_fit(const struct subject *x)
{
    const int32_t n = x->s->seq_split;
    if (x->s->schedule != CS_SCHED_SEQPIPE || n <= 1) {
        return true;
    }
    if (n > CS_CHUNKS_MAX || x->training->seq_length % ((int64_t)n * x->s->cp * (x->s->sp ? x->s->mp : 1))) {
        return REFUSE(x, "sequence length %lld cannot be cut into seq_split=%d slices over cp=%d and mp=%d",
                      (long long)x->training->seq_length, (int)n, (int)x->s->cp, (int)x->s->mp);
    }
    if (!x->training->flash_attention || x->s->cp > 1) {
        return REFUSE(x, "seqpipe needs flash attention and cp=1");
    }
    return x->s->vpp == 1 || x->s->pp % n == 0 ||
           REFUSE(x, "interleaved seqpipe takes turns of pp=%d slices, and seq_split=%d does not divide that",
                  (int)x->s->pp, (int)n);
}

/** A list has a number per place, and the layers add up. */
static bool lists_fit(const struct subject *x)
{
    struct cs_pipeline pipeline = pipeline_of(x);
    const struct cs_per_place *lists[] = {&x->s->layers, &x->s->full_layers, &x->s->selective_layers};
    int32_t sum = 0;
    for (int32_t k = 0; k < CS_COUNT(lists); k++) {
        if (lists[k]->n > 0 && lists[k]->n != pipeline.n_places) {
            return REFUSE(x, "a list of %d numbers does not fit the %d places (pp*vpp) of the model",
                          (int)lists[k]->n, (int)pipeline.n_places);
        }
    }
    for (int32_t i = 0; i < x->s->layers.n; i++) {
        sum += x->s->layers.at[i];
        if (x->s->layers.at[i] == 0) {
            return REFUSE(x, "place %d has no layer", (int)i);
        }
    }
    return x->s->layers.n == 0 || sum == x->model->n_layers ||
           REFUSE(x, "the stages' layers add up to %d, not to the model's %d", (int)sum,
                  (int)x->model->n_layers);
}

static bool dtype_modelled(const struct subject *x)
{
    return x->training->gradient_dtype != CS_DTYPE_FP8 ||
           REFUSE(x, "gradients are fp32, fp16 or bf16, not fp8");
}

static bool overlap_one_way(const struct subject *x)
{
    const struct cs_strategy *s = x->s;
    if (s->half_batches > 2) {
        return REFUSE(x, "half_batches is 1 or 2, not %d", (int)s->half_batches);
    }
    return s->half_batches <= 1 || !s->fused_tp ||
           REFUSE(x, "half_batches and fused_tp both overlap tensor-parallel communication: use one");
}

static bool host_link_known(const struct subject *x)
{
    bool uses = x->s->offload_optimizer || x->s->swap_activations;
    return !uses || x->training->host_bytes_per_s > 0 ||
           REFUSE(x,
                  "%s moves data to the host, and the rate of that link is not known: give "
                  "training.host_bandwidth",
                  x->s->offload_optimizer ? "offload_optimizer" : "swap_activations");
}

static bool halves_exist(const struct subject *x)
{
    const struct cs_strategy *s = x->s;
    int64_t parts = 2 * (int64_t)s->cp * (s->sp ? s->mp : 1) * (s->seq_split > 1 ? s->seq_split : 1);
    return s->half_batches <= 1 || s->micro_batch % 2 == 0 || x->training->seq_length % parts == 0 ||
           REFUSE(x, "neither micro_batch %d nor the sequence of %lld can be halved", (int)s->micro_batch,
                  (long long)x->training->seq_length);
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
    int64_t shared = x->model->n_shared_experts * x->model->expert_ffn;
    bool dense = x->model->n_experts == 0 || x->model->first_dense_layers > 0;
    int64_t ffn = dense ? x->model->ffn : shared;
    if (shared % x->s->mp != 0) {
        return REFUSE(x, "the shared experts' ffn %lld is not divisible by mp=%d", (long long)shared,
                      (int)x->s->mp);
    }
    if (x->s->expert_mp && x->model->expert_ffn % x->s->mp != 0) {
        return REFUSE(x, "the experts' ffn %lld is not divisible by mp=%d, which expert_mp needs",
                      (long long)x->model->expert_ffn, (int)x->s->mp);
    }
    return ffn % x->s->mp == 0 ||
           REFUSE(x, "ffn %lld is not divisible by mp=%d", (long long)ffn, (int)x->s->mp);
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

static bool images_single(const struct subject *x)
{
    if (x->model->image == 0) {
        return true;
    }
    if (x->training->seq_length != 1) {
        return REFUSE(x, "an image is a sequence of length 1, not %lld", (long long)x->training->seq_length);
    }
    return x->s->mp == 1 || REFUSE(x, "a residual network is not cut by mp=%d", (int)x->s->mp);
}

static bool layers_per_stage(const struct subject *x)
{
    int32_t places = pipeline_of(x).n_places;
    if (places > x->s->pp && places > x->model->n_layers) {
        return REFUSE(x, "%d layers cannot fill pp*vpp = %d*%d places", (int)x->model->n_layers,
                      (int)x->s->pp, (int)x->s->vpp);
    }
    return places <= x->model->n_layers ||
           REFUSE(x, "%d layers cannot fill pp=%d stages", (int)x->model->n_layers, (int)x->s->pp);
}

static bool batch_divisible(const struct subject *x)
{
    return cs_strategy_micro_batches(x->s, x->training) > 0 ||
           REFUSE(x, "global batch %lld is not divisible by dp*micro_batch = %d*%d",
                  (long long)x->training->global_batch, (int)x->s->dp, (int)x->s->micro_batch);
}

static bool micro_batches_countable(const struct subject *x)
{
    int64_t m = cs_strategy_micro_batches(x->s, x->training);
    return m <= CS_MICRO_BATCHES_MAX ||
           REFUSE(x, "%lld micro-batches (global batch %lld over dp*micro_batch = %d*%d) are more than %d",
                  (long long)m, (long long)x->training->global_batch, (int)x->s->dp, (int)x->s->micro_batch,
                  CS_MICRO_BATCHES_MAX);
}

/** Only what the tools that run these schedules refuse themselves: Megatron-LM's 1F1B takes any number (its
 *  warm-up is the lesser of both, megatron/core/pipeline_parallel/schedules.py), its interleaved one
 * multiples of the stages; DualPipe's step asserts an even number of at least twice the stages
 *  (deepseek-ai/DualPipe, dualpipe/dualpipe.py), MindFormers the latter for zero_bubble_v. */
static bool micro_batches_fill(const struct subject *x)
{
    struct cs_pipeline pipeline = pipeline_of(x);
    int64_t m = pipeline.n_micro_batches;
    int64_t least = cs__pipeline_least(&pipeline);
    int64_t multiple = cs__pipeline_multiple(&pipeline);
    if (m < least) {
        return REFUSE(
            x, "%lld micro-batches are fewer than the %lld that schedule %s needs to fill pp=%d stages",
            (long long)m, (long long)least, cs_schedule_names[x->s->schedule], (int)x->s->pp);
    }
    return m % multiple == 0 ||
           REFUSE(x, "%lld micro-batches are no multiple of %lld, which schedule %s needs", (long long)m,
                  (long long)multiple, cs_schedule_names[x->s->schedule]);
}

/** Numbers of gradient fusion are those of parameters. */
static bool fusion_exists(const struct subject *x)
{
    const int32_t n = x->training->n_fusion;
    if (n == 0) {
        return true;
    }
    int32_t last = x->training->fusion[n - 1];
    int32_t n_tensors = cs__model_n_tensors(x->model);
    return last < n_tensors ||
           REFUSE(x, "gradient_fusion ends a bucket before parameter %d, and the model has %d", (int)last,
                  (int)n_tensors);
}

/** Selective recomputation has something to run again. */
static bool selective_takes_effect(const struct subject *x)
{
    bool asked = x->s->recompute == CS_RECOMPUTE_SELECTIVE;
    for (int32_t i = 0; i < x->s->selective_layers.n; i++) {
        asked |= x->s->selective_layers.at[i] > 0;
    }
    if (!asked || cs__graph_runs_selectively(x->model, x->training->flash_attention)) {
        return true;
    }
    return x->model->image > 0
               ? REFUSE(x,
                        "recompute=selective has no effect: convolutions have no attention and no gated MLP")
               : REFUSE(x,
                        "recompute=selective has no effect: flash attention keeps no scores and the MLP is "
                        "not gated, so there is nothing that it would run again");
}

/** What is asked for does something. */
static bool keys_take_effect(const struct subject *x)
{
    const struct cs_strategy *s = x->s;
    const struct {
        bool idle;
        const char *key, *needs;
    } keys[] = {
        {s->seq_split > 1 && s->schedule != CS_SCHED_SEQPIPE, "seq_split", "schedule seqpipe"},
        {s->half_batches > 1 && s->mp == 1, "half_batches",
         "tensor-parallel communication to hide: mp above 1"},
        {s->fused_tp && s->mp == 1, "fused_tp", "tensor-parallel communication to fuse: mp above 1"},
        {s->keep_comm && s->mp == 1, "keep_comm", "tensor-parallel communication to keep: mp above 1"},
        {s->keep_comm && s->recompute != CS_RECOMPUTE_FULL && s->full_layers.n == 0, "keep_comm",
         "full recomputation"},
        {s->swap_activations && s->recompute == CS_RECOMPUTE_FULL, "swap_activations",
         "layers that are not recomputed as a whole"},
        {s->expert_mp && s->mp == 1, "expert_mp", "mp above 1"},
        {s->keep_weights && s->zero != 3, "keep_weights", "weights that are sharded: zero 3"},
        {s->cp_kind != CS_CP_RING && s->cp == 1, "cp_kind", "cp above 1"},
    };
    const bool listed = s->full_layers.n > 0 || s->selective_layers.n > 0;
    if (listed && s->recompute != CS_RECOMPUTE_NONE) {
        return REFUSE(x, "recompute=%s has no effect: %s says it stage by stage",
                      cs_recompute_names[s->recompute],
                      s->full_layers.n > 0 ? "full_layers" : "selective_layers");
    }
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        if (keys[i].idle) {
            return REFUSE(x, "%s has no effect: it needs %s", keys[i].key, keys[i].needs);
        }
    }
    return selective_takes_effect(x);
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
    {"cp-fits", cp_fits},
    {"ulysses-heads", ulysses_heads},
    {"ep-fits", ep_fits},
    {"experts-need-sp", experts_need_sp},
    {"schedule-needs-pipeline", pipeline_exists},
    {"vpp-fits-schedule", vpp_fits},
    {"places-countable", places_countable},
    {"dualpipe-even", dualpipe_even},
    {"dtype-not-generated", dtype_modelled},
    {"overlap-one-way", overlap_one_way},
    {"host-link-known", host_link_known},
    {"halves-exist", halves_exist},
    {"images-single", images_single},
    {"heads-divisible", heads_divisible},
    {"kv-heads-divisible", kv_heads_divisible},
    {"ffn-divisible", ffn_divisible},
    {"vocab-divisible", vocab_divisible},
    {"sp-needs-mp", sp_needs_mp},
    {"sequence-divisible", seq_divisible},
    {"position-long-enough", position_long_enough},
    {"layers-per-stage", layers_per_stage},
    {"lists-fit", lists_fit},
    {"slices-fit", slices_fit},
    {"batch-divisible", batch_divisible},
    {"micro-batches-countable", micro_batches_countable},
    {"micro-batches-fill-pipeline", micro_batches_fill},
    {"op-divides-dp", op_divides_dp},
    {"zero-needs-op", zero_needs_op},
    {"fusion-numbers-exist", fusion_exists},
    {"keys-take-effect", keys_take_effect},
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

bool cs_strategy_exceeds(const struct cs_strategy *strategy, const struct cs_model *model, char *why,
                         size_t why_bytes)
{
    struct cs_pipeline pipeline;
    cs__pipeline_init(&pipeline, strategy, 1);
    for (int32_t place = 0; place < pipeline.n_places; place++) {
        int32_t first;
        int32_t layers = cs__place_layers(strategy, model->n_layers, pipeline.n_places, place, &first);
        int32_t full = place < strategy->full_layers.n ? strategy->full_layers.at[place] : 0;
        int32_t selective = place < strategy->selective_layers.n ? strategy->selective_layers.at[place] : 0;
        if (full > layers || selective > layers) {
            (void)snprintf(why, why_bytes,
                           "place %d has %d layers, of which %s recomputes %d: all that there are",
                           (int)place, (int)layers, full > layers ? "full_layers" : "selective_layers",
                           (int)(full > layers ? full : selective));
            return true;
        }
    }
    return false;
}
