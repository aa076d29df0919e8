/* MindFormers configurations: degrees, optimizer sharding, schedule, batch. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

#include <string.h>

#define DEGREE_MAX (1 << 20)

static cs_status read_degree(struct cs_mf *mf, const struct cs_yaml_node *map, const char *key,
                             int32_t *degree, struct cs_err *err)
{
    int64_t value = *degree;
    cs_status st;
    CS_TRY(cs__mf_int(CS_MF_GET(mf, map, key), 1, DEGREE_MAX, key, &value, err));
    *degree = (int32_t)value;
out:
    return st;
}

/** parallel_mode by number or name; left out, it is taken as semi-auto, whose degrees the file gives. */
static cs_status read_mode(struct cs_mf *mf, struct cs_err *err)
{
    static const char *const names[] = {"0",
                                        "1",
                                        "2",
                                        "3",
                                        "DATA_PARALLEL",
                                        "SEMI_AUTO_PARALLEL",
                                        "AUTO_PARALLEL",
                                        "HYBRID_PARALLEL",
                                        "STAND_ALONE",
                                        NULL};
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->parallel, "parallel_mode");
    int32_t index = CS_MF_SEMI_AUTO;
    cs_status st = CS_OK;
    if (node != NULL) {
        CS_TRY(cs_yaml_choice(node, names, "parallel_mode", &index, err));
    }
    mf->mode = (enum cs_mf_mode)(index >= 4 ? index - 4 : index);
    if (mf->mode != CS_MF_AUTO) {
        cs__mf_settle_key(mf, mf->parallel, "search_mode"); /* of that mode alone */
        cs__mf_settle_key(mf, mf->parallel_config, "mem_coeff");
    }
    if (!mf->parallel_run) {
        cs__mf_settle_key(mf, mf->root, "parallel"); /* one device reads neither */
        cs__mf_settle_key(mf, mf->root, "parallel_config");
    } else if (mf->mode == CS_MF_AUTO) {
        cs__mf_warn(mf, "parallel.parallel_mode", node,
                    "the strategy that MindSpore would search in this mode is not known: the degrees of "
                    "parallel_config are simulated");
    } else if (mf->mode == CS_MF_HYBRID) {
        cs__mf_warn(mf, "parallel.parallel_mode", node,
                    "the network's own communication is not modelled: replicas of the whole model are");
    }
out:
    return st;
}

struct degree {
    const char *key;
    int32_t *value;
};

/** Outside the (semi-)automatic modes MindFormers resets parallel_config: each device has the whole model. */
static void reset_degrees(struct cs_mf *mf, const struct degree *rows, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const struct cs_yaml_node *node = CS_MF_GET(mf, mf->parallel_config, rows[i].key);
        const char *key = cs_arena_printf(&mf->out->arena, "parallel_config.%s", rows[i].key);
        if (*rows[i].value > 1 && !mf->parallel_run) {
            cs__mf_warn(mf, key, node, "has no effect with use_parallel: False");
        } else if (*rows[i].value > 1 && i > 0) {
            cs__mf_warn(mf, key, node,
                        "has no effect in this parallel_mode: the %lld devices are replicas of the model",
                        (long long)mf->out->n_devices);
        }
        *rows[i].value = 1;
    }
    mf->out->n_devices = mf->parallel_run ? mf->out->n_devices : 1;
    *rows[0].value = (int32_t)mf->out->n_devices;
}

/** What asks for model parallelism and has none. The new style refuses it (mindformers_check.c). */
static void warn_sequence(struct cs_mf *mf)
{
    struct cs_strategy *s = &mf->out->strategy;
    if (s->sp && s->mp == 1 && !mf->new_style) {
        cs__mf_warn(mf, "parallel_config.use_seq_parallel",
                    CS_MF_GET(mf, mf->parallel_config, "use_seq_parallel"),
                    "has no effect with model_parallel 1");
    }
}

/** A key that is left out and whose default is not what the rest of the file speaks of. */
static void warn_default(struct cs_mf *mf, const struct cs_yaml_node *section, const char *path, bool speaks,
                         const char *text)
{
    const char *dot = strrchr(path, '.');
    if (speaks && CS_MF_GET(mf, section, dot != NULL ? dot + 1 : path) == NULL) {
        cs__mf_warn_as(mf, path, mf->parallel_config != NULL ? mf->parallel_config : mf->root, text);
    }
}

/** Defaults of MindFormers' configuration that the degrees contradict. */
static void warn_defaults(struct cs_mf *mf)
{
    const struct cs_strategy *s = &mf->out->strategy;
    const bool many = mf->parallel_config != NULL && mf->out->n_devices > 1;
    const bool whole = s->mp == 1 || mf->new_style || s->pp > 1; /* or the vocabulary is cut all the same */
    warn_default(mf, mf->root, "use_parallel", many,
                 "is left out, and False by default: the degrees of parallel_config are simulated");
    warn_default(
        mf, mf->parallel, "parallel.parallel_mode", many && s->mp * s->pp * s->cp * s->ep > 1,
        "is left out, and 0 (replicas only) by default: the degrees of parallel_config are simulated");
    warn_default(mf, mf->parallel, "parallel.enable_alltoall", many && s->ep > 1,
                 "is left out, and False by default: an all-to-all is simulated");
    warn_default(mf, mf->parallel_config, "parallel_config.vocab_emb_dp", many && !whole,
                 "is left out, and True by default: an embedding that model_parallel cuts is simulated");
}

static cs_status read_degrees(struct cs_mf *mf, struct cs_err *err)
{
    struct cs_strategy *s = &mf->out->strategy;
    const struct degree rows[] = {{"data_parallel", &s->dp},
                                  {"model_parallel", &s->mp},
                                  {"context_parallel", &s->cp},
                                  {"pipeline_stage", &s->pp},
                                  {"expert_parallel", &s->ep}};
    cs_status st = CS_OK;
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        CS_TRY(read_degree(mf, mf->parallel_config, rows[i].key, rows[i].value, err));
    }
    CS_TRY(
        cs__mf_bool(CS_MF_GET(mf, mf->parallel_config, "use_seq_parallel"), "use_seq_parallel", &s->sp, err));
    mf->out->n_devices = (int64_t)s->dp * s->mp * s->cp;
    if (mf->out->n_devices * s->pp > INT32_MAX) {
        st = cs_err_set(err, CS_E_INPUT, mf->parallel_config->loc,
                        "data_parallel x model_parallel x context_parallel x pipeline_stage is %lld x %d",
                        (long long)mf->out->n_devices, (int)s->pp);
        goto out;
    }
    mf->out->n_devices *= s->pp;
    if (!mf->parallel_run || (mf->mode != CS_MF_SEMI_AUTO && mf->mode != CS_MF_AUTO)) {
        reset_degrees(mf, rows, CS_COUNT(rows));
        s->sp = false;
    }
    warn_sequence(mf);
    warn_defaults(mf);
out:
    return st;
}

static cs_status read_context(struct cs_mf *mf, struct cs_err *err)
{
    static const char *const names[] = {"colossalai_cp", "ulysses_cp", "hybrid_cp", "hybird_cp", NULL};
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *algo = CS_MF_GET(mf, mf->parallel_config, "context_parallel_algo");
    const struct cs_yaml_node *degree = CS_MF_GET(mf, mf->parallel_config, "ulysses_degree_in_cp");
    int64_t ulysses = 1;
    int32_t index = 0;
    bool ring = true;
    if (algo != NULL) {
        CS_TRY(cs_yaml_choice(algo, names, "context_parallel_algo", &index, err));
    }
    CS_TRY(cs__mf_int(degree, 1, DEGREE_MAX, "ulysses_degree_in_cp", &ulysses, err));
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->model, "use_ring_attention");
    CS_TRY(cs__mf_bool(node, "use_ring_attention", &ring, err));
    s->cp_kind = index == 1 || (index >= 2 && ulysses == s->cp) ? CS_CP_ULYSSES : CS_CP_RING;
    if (index >= 2 && ulysses > 1 && ulysses < s->cp) {
        cs__mf_warn(mf, "parallel_config.context_parallel_algo", algo,
                    "a ring of Ulysses groups is not modelled: a ring of all is");
    } else if (index < 2 && ulysses > 1) {
        cs__mf_warn(mf, "parallel_config.ulysses_degree_in_cp", degree,
                    "has no effect without context_parallel_algo: hybrid_cp");
    }
    if (s->cp > 1 && s->cp_kind == CS_CP_RING && !ring) {
        cs__mf_warn(mf, "model.model_config.use_ring_attention", node,
                    "keys and values gathered from all ranks are not modelled: a ring is");
    }
out:
    return st;
}

/** How much of the state is sharded: level1 states, level2 and gradient_accumulation_shard gradients too,
 *  level3 parameters too. */
static cs_status read_level(struct cs_mf *mf, const struct cs_yaml_node *config, bool enabled, int32_t *zero,
                            struct cs_err *err)
{
    static const char *const levels[] = {"level1", "level2", "level3", NULL};
    cs_status st = CS_OK;
    int32_t level = 0;
    bool gradients = false;
    const struct cs_yaml_node *shard = CS_MF_GET(mf, config, "gradient_accumulation_shard");
    const struct cs_yaml_node *node = CS_MF_GET(mf, config, "optimizer_level");
    CS_TRY(cs__mf_bool(shard, "gradient_accumulation_shard", &gradients, err));
    if (node != NULL) {
        CS_TRY(cs_yaml_choice(node, levels, "optimizer_level", &level, err));
    }
    *zero = level > 0 || !gradients ? level + 1 : 2;
    if (!enabled && *zero > 1) {
        cs__mf_warn(mf, "parallel.parallel_optimizer_config", shard != NULL ? shard : node,
                    "has no effect without enable_parallel_optimizer");
    }
out:
    return st;
}

/** Parameters under the threshold are not sharded. Ours are cut whatever their size: listed above MindSpore's
 *  64 KB, under which are only gains and biases; unless none is as large. */
static cs_status read_threshold(struct cs_mf *mf, const struct cs_yaml_node *config, bool *none,
                                struct cs_err *err)
{
    const struct cs_model *m = &mf->out->model;
    const struct cs_yaml_node *node = CS_MF_GET(mf, config, "parallel_optimizer_threshold");
    int64_t threshold = 64;
    cs_status st;
    CS_TRY(cs__mf_int(node, -1, INT64_C(1) << 40, "parallel_optimizer_threshold", &threshold, err));
    double widest = (double)m->hidden * (double)(m->vocab > m->ffn ? m->vocab : m->ffn);
    *none = mf->out->has_model && widest * 4 / mf->out->strategy.mp < (double)threshold * 1024;
    if (threshold > 64) {
        cs__mf_warn(mf, "parallel.parallel_optimizer_config.parallel_optimizer_threshold", node, "%s",
                    *none ? "no parameter is that large: none is sharded"
                          : "parameters under the threshold are sharded here too");
    }
out:
    return st;
}

static cs_status read_sharding(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *config = CS_MF_GET(mf, mf->parallel, "parallel_optimizer_config");
    const struct cs_yaml_node *node = CS_MF_GET(mf, config, "optimizer_weight_shard_size");
    const struct cs_yaml_node *outer = CS_MF_GET(mf, mf->parallel, "optimizer_weight_shard_size");
    bool enabled = false;
    bool none = false;
    int64_t size = -1;
    int32_t zero = 1;
    if (config != NULL) {
        CS_TRY(cs_yaml_want(config, CS_YAML_MAP, "parallel_optimizer_config", err));
    }
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->parallel, "enable_parallel_optimizer"), "enable_parallel_optimizer",
                       &enabled, err));
    enabled = enabled && mf->parallel_run;
    cs__mf_prefer(mf, node, outer, "parallel.optimizer_weight_shard_size");
    node = node != NULL ? node : outer;
    CS_TRY(cs__mf_int(node, -1, DEGREE_MAX, "optimizer_weight_shard_size", &size, err));
    if (size == 0) {
        return cs_err_set(err, CS_E_INPUT, node->loc,
                          "'optimizer_weight_shard_size' is 0, but should be -1 (all) or at least 1");
    }
    CS_TRY(read_level(mf, config, enabled || !mf->parallel_run, &zero, err));
    CS_TRY(read_threshold(mf, config, &none, err));
    if (!enabled && size > 1 && mf->parallel_run) {
        cs__mf_warn(mf, "parallel.parallel_optimizer_config.optimizer_weight_shard_size", node,
                    "has no effect without enable_parallel_optimizer");
    }
    if (!enabled || none) {
        return CS_OK;
    }
    if (s->cp > 1 && (size < 0 || size > s->dp)) {
        cs__mf_warn(mf, "parallel.enable_parallel_optimizer",
                    CS_MF_GET(mf, mf->parallel, "enable_parallel_optimizer"),
                    "sharding over data_parallel * context_parallel = %lld ranks is not modelled: over "
                    "data_parallel's %d it is",
                    (long long)s->dp * s->cp, (int)s->dp);
    }
    s->op = size > 0 && size < s->dp ? (int32_t)size : s->dp;
    if (size > s->dp && s->mp > 1 && s->cp == 1) {
        cs__mf_warn(mf, "parallel.parallel_optimizer_config.optimizer_weight_shard_size", node,
                    "sharding over more than the %d data-parallel ranks is not modelled", (int)s->dp);
    }
    if (s->dp % s->op != 0) {
        return cs_err_set(
            err, CS_E_INPUT, node->loc,
            "'optimizer_weight_shard_size' is %lld, but data_parallel %d is not divisible by it",
            (long long)size, (int)s->dp);
    }
    s->zero = zero;
out:
    return st;
}

/** Weights that recomputed layers gather again: level3 does for every layer, whatever the key says. */
static cs_status read_gathering(struct cs_mf *mf, struct cs_err *err)
{
    const struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->recompute, "parallel_optimizer_comm_recompute");
    bool again = false;
    cs_status st;
    CS_TRY(cs__mf_bool(node, "parallel_optimizer_comm_recompute", &again, err));
    if (again && s->zero < 3) {
        cs__mf_warn(mf, "recompute_config.parallel_optimizer_comm_recompute", node, "%s",
                    s->op > 1 ? "is not modelled: weights are gathered once a step; with optimizer_level: "
                                "level3 again in backward"
                              : "has no effect without enable_parallel_optimizer");
    }
out:
    return st;
}

static cs_status read_automatic(struct cs_mf *mf, const struct cs_yaml_node *config, struct cs_err *err)
{
    const struct cs_yaml_node *automatic = CS_MF_GET(mf, mf->parallel, "auto_pipeline");
    const struct cs_yaml_node *inner = CS_MF_GET(mf, config, "auto_pipeline");
    bool searched = false;
    cs_status st;
    cs__mf_prefer(mf, automatic, inner, "parallel.pipeline_config.auto_pipeline");
    automatic = automatic != NULL ? automatic : inner;
    CS_TRY(cs__mf_bool(automatic, "auto_pipeline", &searched, err));
    if (searched && mf->parallel_run) {
        cs__mf_warn(
            mf, "parallel.auto_pipeline", automatic,
            "a number of stages that MindSpore searches is not modelled: pipeline_stage is simulated");
    }
out:
    return st;
}

/** What the schedule has no use for. */
static void drop_idle(struct cs_mf *mf)
{
    struct cs_strategy *s = &mf->out->strategy;
    if (s->pp == 1 && s->vpp > 1 && s->schedule == CS_SCHED_INTERLEAVED) {
        cs__mf_warn(mf, "model.model_config.pp_interleave_num", CS_MF_GET(mf, mf->model, "pp_interleave_num"),
                    "has no effect without pipeline stages");
        s->vpp = 1;
        s->schedule = CS_SCHED_1F1B;
    }
    if (s->seq_split > 1 && s->schedule != CS_SCHED_SEQPIPE) {
        cs__mf_warn(mf, "parallel_config.seq_split_num", CS_MF_GET(mf, mf->parallel_config, "seq_split_num"),
                    "has no effect without pipeline_scheduler: seqpipe");
        s->seq_split = 1;
    }
}

static cs_status read_schedule(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    static const char *const names[] = {"1f1b", "gpipe", "seqpipe", "seqvpp", "zero_bubble_v", NULL};
    static const enum cs_schedule schedules[] = {CS_SCHED_1F1B, CS_SCHED_GPIPE, CS_SCHED_SEQPIPE,
                                                 CS_SCHED_SEQPIPE, CS_SCHED_ZERO_BUBBLE_V};
    const struct cs_yaml_node *config = CS_MF_GET(mf, mf->parallel, "pipeline_config");
    const struct cs_yaml_node *scheduler = CS_MF_GET(mf, config, "pipeline_scheduler");
    const struct cs_yaml_node *chunks = CS_MF_GET(mf, mf->model, "pp_interleave_num");
    bool interleave = false;
    int32_t index = 0;
    CS_TRY(read_automatic(mf, config, err));
    if (config != NULL) {
        CS_TRY(cs_yaml_want(config, CS_YAML_MAP, "pipeline_config", err));
    }
    CS_TRY(
        cs__mf_bool(CS_MF_GET(mf, config, "pipeline_interleave"), "pipeline_interleave", &interleave, err));
    if (scheduler != NULL) {
        CS_TRY(cs_yaml_choice(scheduler, names, "pipeline_scheduler", &index, err));
    }
    s->schedule = schedules[index];
    CS_TRY(read_degree(mf, mf->model, "pp_interleave_num", &s->vpp, err));
    CS_TRY(read_degree(mf, mf->parallel_config, "seq_split_num", &s->seq_split, err));
    if (s->vpp > 1 && !interleave && s->schedule != CS_SCHED_ZERO_BUBBLE_V) {
        cs__mf_warn(mf, "model.model_config.pp_interleave_num", chunks,
                    "has no effect without parallel.pipeline_config.pipeline_interleave");
        s->vpp = 1;
    }
    if (index == 3 && s->seq_split == 1) {
        return cs_err_set(err, CS_E_INPUT, scheduler->loc,
                          "'pipeline_scheduler' is seqvpp with seq_split_num 1; use seqpipe, or split");
    }
    if (s->schedule == CS_SCHED_SEQPIPE && !interleave) {
        return cs_err_set(err, CS_E_INPUT, scheduler->loc, "seqpipe needs pipeline_interleave: True");
    }
    if (s->vpp > 1 && s->schedule == CS_SCHED_1F1B) {
        s->schedule = CS_SCHED_INTERLEAVED;
    }
    if (interleave && s->vpp == 1 && s->schedule == CS_SCHED_1F1B) {
        cs__mf_warn(mf, "parallel.pipeline_config.pipeline_interleave",
                    CS_MF_GET(mf, config, "pipeline_interleave"), "has no effect with pp_interleave_num 1");
    }
    drop_idle(mf);
out:
    return st;
}

static cs_status read_copies(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *interleave = CS_MF_GET(mf, mf->root, "micro_batch_interleave_num");
    const struct cs_yaml_node *grain = CS_MF_GET(mf, mf->model, "fine_grain_interleave");
    int64_t copies = 1;
    int64_t parts = 1;
    CS_TRY(cs__mf_int(interleave, 1, 64, "micro_batch_interleave_num", &copies, err));
    CS_TRY(cs__mf_int(grain, 1, 64, "fine_grain_interleave", &parts, err));
    s->half_batches = copies > 1 || parts > 1 ? 2 : 1;
    if (s->half_batches > 1 && s->mp == 1) {
        cs__mf_warn(mf,
                    copies > 1 ? "micro_batch_interleave_num" : "model.model_config.fine_grain_interleave",
                    copies > 1 ? interleave : grain,
                    "without model_parallel there is no communication to hide: the parts run as one");
        return CS_OK;
    }
    if (copies > 2) {
        cs__mf_warn(mf, "micro_batch_interleave_num", interleave, "more than two copies are modelled as two");
    }
    if (parts > 2) {
        cs__mf_warn(mf, "model.model_config.fine_grain_interleave", grain,
                    "more than two parts are modelled as two");
    }
out:
    return st;
}

/** The old style's feed-forward of experts (mindformers/models/llama/llama_layer.py) cuts each expert over
 *  model_parallel unless expert_model_parallel is 1; it takes no other number. The new style keeps experts
 * whole.
 */
static cs_status read_expert_cut(struct cs_mf *mf, struct cs_err *err)
{
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *node = mf->new_style ? NULL : CS_MF_GET(mf, mf->moe, "expert_model_parallel");
    int64_t parts = s->mp;
    cs_status st = CS_OK;
    if (mf->new_style || mf->out->model.n_experts == 0) {
        goto out;
    }
    CS_TRY(cs__mf_int(node, 1, INT16_MAX, "expert_model_parallel", &parts, err));
    if (parts != 1 && parts != s->mp) {
        st = cs_err_set(err, CS_E_INPUT, node->loc,
                        "'expert_model_parallel' is %d, expected 1 or model_parallel (%d)", (int)parts,
                        (int)s->mp);
        goto out;
    }
    s->expert_mp = parts > 1;
out:
    return st;
}

cs_status cs__mf_strategy(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    struct cs_strategy *s = &mf->out->strategy;
    bool repeat = true;
    CS_TRY(read_mode(mf, err));
    CS_TRY(read_degrees(mf, err));
    CS_TRY(read_expert_cut(mf, err));
    CS_TRY(read_context(mf, err));
    CS_TRY(read_sharding(mf, err));
    CS_TRY(read_gathering(mf, err));
    CS_TRY(read_schedule(mf, err));
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->optimizer, "swap"), "swap", &s->offload_optimizer, err));
    const struct cs_yaml_node *node = CS_MF_GET(mf, mf->swap, "swap");
    CS_TRY(cs__mf_bool(node, "swap", &s->swap_activations, err));
    if (node != NULL && node->quoted) {
        return cs_err_set(err, CS_E_INPUT, node->loc, "'swap' is a text, but should be True or False");
    }
    CS_TRY(cs__mf_bool(CS_MF_GET(mf, mf->recompute, "mp_comm_recompute"), "mp_comm_recompute", &repeat, err));
    s->keep_comm = !repeat;
    CS_TRY(read_copies(mf, err));
out:
    return st;
}
