#include "study_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/strategies/searcher.h"
#include "cs/strategies/shipped.h"

#include <math.h>
#include <string.h>

/* Limits that only keep arithmetic sane; nobody trains beyond them. */
#define GLOBAL_BATCH_MAX 1000000000
#define SEQ_LENGTH_MAX 100000000
#define TOP_MAX 1000000
#define ROUTING_IMBALANCE_MAX 1e6
#define SEED_MAX INT64_MAX

static cs_status opt_choice(const struct cs_yaml_node *map, const char *key, const char *const *names,
                            int32_t *index, struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(map, key);
    return node ? cs_yaml_choice(node, names, key, index, err) : CS_OK;
}

/* A block of the study: NULL when it was left out, else a map with these keys. */
static cs_status get_block(const struct cs_yaml_node *root, const char *name, const char *const *allowed,
                           const struct cs_yaml_node **block, struct cs_err *err)
{
    cs_status st = CS_OK;
    *block = cs_yaml_get(root, name);
    if (*block) {
        CS_TRY(cs_yaml_want(*block, CS_YAML_MAP, name, err));
        CS_TRY(cs_yaml_check_keys(*block, allowed, name, err));
    }
out:
    return st;
}

/* Words about kernels that the model does not have say something that the run will not do. */
static cs_status check_fused(const struct cs_study *study, const struct cs_yaml_node *root,
                             struct cs_err *err)
{
    const struct cs_model *m = &study->model;
    const struct cs_training *t = &study->training;
    const bool has_dense = m->n_experts == 0 || m->first_dense_layers > 0 || m->n_shared_experts > 0;
    const bool is_gated = m->activation == CS_ACT_SWIGLU || m->activation == CS_ACT_GEGLU;
    const struct {
        const char *key;
        bool asked, has;
        const char *what;
    } words[] = {
        {"cross_entropy_loss_fusion", t->separate_loss, m->image == 0, "vocabulary"},
        {"fused_rmsnorm", t->separate_norms, m->image == 0 && m->norm == CS_NORM_RMS, "RMSNorm"},
        {"fused_rotary_pos_emb", t->separate_rope, m->image == 0 && m->position == CS_POS_ROPE,
         "rotary embedding"},
        {"fused_swiglu", t->fused_glu, m->image == 0 && is_gated, "gated MLP"},
        {"moe_grouped_gemm", t->separate_experts, m->n_experts > 0, "experts"},
        {"mlp_layer_fusion", t->separate_gate, m->image == 0 && is_gated && has_dense, "dense gated MLP"},
        {"bias_gelu_compiled", t->separate_gelu,
         m->image == 0 && m->activation == CS_ACT_GELU && m->linear_bias, "GELU behind a bias"},
        {"async_tensor_model_parallel_allreduce", t->async_tensor_parallel, m->image == 0,
         "tensor parallelism"}};
    for (int32_t i = 0; i < CS_COUNT(words); i++) {
        if (words[i].asked && !words[i].has) {
            const struct cs_yaml_node *node = cs_yaml_get(cs_yaml_get(root, "training"), words[i].key);
            return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' has no effect on model '%s': it has no %s",
                              words[i].key, m->name, words[i].what);
        }
    }
    return CS_OK;
}

/* Uneven routing is of experts, as many rows each where a capacity is filled up. */
static cs_status check_routing(const struct cs_study *study, const struct cs_yaml_node *root,
                               struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(cs_yaml_get(root, "training"), "routing_imbalance");
    const char *without = study->model.n_experts == 0 ? "it has no experts"
                          : study->model.capacity_factor > 0
                              ? "each of its experts gets as many rows, by its "
                                "capacity factor"
                              : NULL;
    if (!(study->training.routing_imbalance_frac > 1) || !without) {
        return CS_OK;
    }
    return cs_err_set(err, CS_E_INPUT, node->loc, "'routing_imbalance' has no effect on model '%s': %s",
                      study->model.name, without);
}

static cs_status read_aggregation(struct cs_training *training, const struct cs_yaml_node *block,
                                  struct cs_err *err)
{
    cs_status st = CS_OK;
    int64_t groups = 0;
    const struct cs_yaml_node *node = cs_yaml_get(block, "gradient_aggregation_group");
    if (!node) {
        goto out;
    }
    CS_TRY(cs_yaml_int(node, 1, CS_AGGREGATION_GROUPS_MAX, "gradient_aggregation_group", &groups, err));
    static const char *const others[] = {"gradient_bucket", "gradient_fusion"};
    for (int32_t i = 0; i < CS_COUNT(others); i++) {
        if (cs_yaml_get(block, others[i])) {
            st = cs_err_set(
                err, CS_E_INPUT, node->loc,
                "'gradient_aggregation_group' and '%s' both say how gradients are put together: use "
                "one",
                others[i]);
            goto out;
        }
    }
    training->aggregation_groups = (int32_t)groups;
out:
    return st;
}

static cs_status read_training(struct cs_study *study, const struct cs_yaml_node *root, struct cs_err *err)
{
    static const char *const allowed[] = {"global_batch",
                                          "seq_length",
                                          "dtype",
                                          "gradient_dtype",
                                          "optimizer",
                                          "gradient_bucket",
                                          "clip_gradient",
                                          "flash_attention",
                                          "async_tensor_model_parallel_allreduce",
                                          "host_bandwidth",
                                          "gradient_fusion",
                                          "gradient_aggregation_group",
                                          "gradient_fp32_sync",
                                          "routing_imbalance",
                                          "cross_entropy_loss_fusion",
                                          "fused_rmsnorm",
                                          "fused_rotary_pos_emb",
                                          "fused_swiglu",
                                          "moe_grouped_gemm",
                                          "mlp_layer_fusion",
                                          "bias_gelu_compiled",
                                          "gradient_accumulation_fusion",
                                          NULL};
    cs_status st = CS_OK;
    const struct cs_yaml_node *block = NULL;
    const struct cs_yaml_node *node = NULL;
    int32_t dtype = CS_DTYPE_BF16;
    int32_t gradient_dtype = CS_DTYPE_FP32;
    int32_t optimizer = CS_OPT_ADAMW;
    struct cs_training *training = &study->training;
    training->bucket_bytes = 64e6; /* the default of struct cs_training */
    training->clip_gradient = true;
    CS_TRY(get_block(root, "training", allowed, &block, err));
    if (!block) {
        st = cs_err_set(err, CS_E_INPUT, root->loc,
                        "the study has no 'training' block with 'global_batch' and 'seq_length'");
        goto out;
    }
    CS_TRY(cs_yaml_need(block, "global_batch", &node, err));
    CS_TRY(cs_yaml_int(node, 1, GLOBAL_BATCH_MAX, "global_batch", &training->global_batch, err));
    CS_TRY(cs_yaml_need(block, "seq_length", &node, err));
    CS_TRY(cs_yaml_int(node, 1, SEQ_LENGTH_MAX, "seq_length", &training->seq_length, err));
    CS_TRY(opt_choice(block, "dtype", cs_dtype_names, &dtype, err));
    CS_TRY(opt_choice(block, "gradient_dtype", cs_dtype_names, &gradient_dtype, err));
    CS_TRY(opt_choice(block, "optimizer", cs_optimizer_names, &optimizer, err));
    CS_TRY(cs_yaml_opt_quantity(block, "gradient_bucket", CS_UNIT_BYTES, &training->bucket_bytes, err));
    CS_TRY(cs_yaml_opt_bool(block, "clip_gradient", &training->clip_gradient, err));
    CS_TRY(cs_yaml_opt_real(block, "routing_imbalance", 1, ROUTING_IMBALANCE_MAX,
                            &training->routing_imbalance_frac, err));
    CS_TRY(cs_yaml_opt_bool(block, "gradient_fp32_sync", &training->gradient_fp32_sync, err));
    CS_TRY(cs_fusion_read(training, cs_yaml_get(block, "gradient_fusion"), "gradient_fusion", err));
    CS_TRY(read_aggregation(training, block, err));
    training->dtype = (enum cs_dtype)dtype;
    training->gradient_dtype = (enum cs_dtype)gradient_dtype;
    training->optimizer = (enum cs_optimizer)optimizer;
out:
    return st;
}

static cs_status read_constraints(struct cs_study *study, const struct cs_yaml_node *root, struct cs_err *err)
{
    static const char *const allowed[] = {"memory_margin",
                                          "device_memory",
                                          "cross_node_comm_fraction",
                                          "min_device_use",
                                          "min_memory_use",
                                          "rules",
                                          NULL};
    cs_status st = CS_OK;
    const struct cs_yaml_node *block = NULL;
    study->constraints.memory_margin = CS_MEMORY_MARGIN;
    study->constraints.cross_node_comm_frac = (double)INFINITY;
    CS_TRY(get_block(root, "constraints", allowed, &block, err));
    CS_TRY(cs_yaml_opt_real(block, "memory_margin", 1, 10, &study->constraints.memory_margin, err));
    CS_TRY(cs_yaml_opt_quantity(block, "device_memory", CS_UNIT_BYTES,
                                &study->constraints.device_memory_bytes, err));
    const struct cs_yaml_node *memory = cs_yaml_get(block, "device_memory");
    if (memory && !(study->constraints.device_memory_bytes > 0)) {
        st = cs_err_set(err, CS_E_INPUT, memory->loc,
                        "'device_memory' is nothing, but should be a size above 0, as in 58GiB");
        goto out;
    }
    CS_TRY(cs_yaml_opt_real(block, "cross_node_comm_fraction", 0, 1, &study->constraints.cross_node_comm_frac,
                            err));
    CS_TRY(cs_yaml_opt_real(block, "min_device_use", 0, 1, &study->constraints.min_device_use_frac, err));
    CS_TRY(cs_yaml_opt_real(block, "min_memory_use", 0, 1, &study->constraints.min_memory_use_frac, err));
    CS_TRY(cs__user_rules_read(study, cs_yaml_get(block, "rules"), err));
out:
    return st;
}

/* How many entries of the ranking: a number, or all. */
static cs_status read_top(const struct cs_yaml_node *block, int64_t *n_top, struct cs_err *err)
{
    const struct cs_yaml_node *node = cs_yaml_get(block, "top");
    if (node && node->kind == CS_YAML_SCALAR && strcmp(node->text, "all") == 0) {
        *n_top = TOP_MAX;
        return CS_OK;
    }
    return cs_yaml_opt_int(block, "top", 1, TOP_MAX, n_top, err);
}

static cs_status read_search(struct cs_study *study, const struct cs_yaml_node *root, struct cs_err *err)
{
    static const char *const allowed[] = {
        "algorithm",        "objective",        "time_limit", "candidate_time_limit", "top", "seed",
        "simulation_limit", "device_hour_cost", NULL};
    cs_status st = CS_OK;
    const struct cs_yaml_node *block = NULL;
    struct cs_search_settings *search = &study->search;
    int32_t algorithm = 0;
    int32_t objective = 0;
    int64_t seed = 1;
    search->n_top = 10;
    search->candidate_limit_s = CS_CANDIDATE_LIMIT_S;
    CS_TRY(get_block(root, "search", allowed, &block, err));
    CS_TRY(opt_choice(block, "algorithm", cs_searcher_names(&study->arena), &algorithm, err));
    CS_TRY(opt_choice(block, "objective", cs_objective_names(&study->arena), &objective, err));
    CS_TRY(cs_yaml_opt_quantity(block, "time_limit", CS_UNIT_SECONDS, &search->time_limit_s, err));
    CS_TRY(cs_yaml_opt_quantity(block, "candidate_time_limit", CS_UNIT_SECONDS, &search->candidate_limit_s,
                                err));
    CS_TRY(read_top(block, &search->n_top, err));
    CS_TRY(cs_yaml_opt_int(block, "simulation_limit", 1, TOP_MAX, &search->simulation_limit, err));
    CS_TRY(cs_yaml_opt_real(block, "device_hour_cost", 1e-9, 1e9, &search->device_hour_cost, err));
    CS_TRY(cs_yaml_opt_int(block, "seed", 0, SEED_MAX, &seed, err));
    search->algorithm = cs_searchers[algorithm]->name;
    search->objective = cs_objectives[objective].name;
    search->seed = (uint64_t)seed;
    if (strcmp(search->objective, "tokens_per_cost") == 0 && !(search->device_hour_cost > 0)) {
        st = cs_err_set(err, CS_E_INPUT, cs_yaml_get(block, "objective")->loc,
                        "objective tokens_per_cost needs a price: write 'device_hour_cost' into the 'search' "
                        "block, money per device and hour");
    }
out:
    return st;
}

cs_status cs__study_find(struct cs_study *study, const struct cs_study_source *source,
                         const struct cs_yaml_node *node, enum cs_shipped kind, const char *what,
                         const char **path, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(cs_yaml_want(node, CS_YAML_SCALAR, what, err));
    bool from_file = study->path && node->loc.file && strcmp(node->loc.file, CS__COMMAND_LINE) != 0;
    const char *near = from_file && strchr(study->path, '/') ? cs_path_dir(&study->arena, study->path) : NULL;
    CS_TRY(cs_shipped_find(&study->arena, source->data_dir, kind, node->text, near, node->loc, path, err));
out:
    return st;
}

/* A key that every study has. */
static cs_status need_part(const struct cs_yaml_node *root, const char *key, char option,
                           const struct cs_yaml_node **node, struct cs_err *err)
{
    *node = cs_yaml_get(root, key);
    if (!*node) {
        return cs_err_set(err, CS_E_INPUT, root->loc,
                          "the study names no %s: write '%s: NAME' or use -%c NAME", key, key, option);
    }
    return CS_OK;
}

/* A chip without a figure for the dtype cannot be simulated in it. */
static cs_status check_dtype(const struct cs_study *study, const struct cs_yaml_node *platform,
                             struct cs_err *err)
{
    for (int32_t i = 0; i < study->platform.n_devices; i++) {
        const struct cs_chip *chip = study->platform.devices[i].chip;
        if (!cs_chip_has_dtype(chip, study->training.dtype)) {
            return cs_err_set(
                err, CS_E_INPUT, platform->loc,
                "the catalogue has no figure of chip '%s' in %s: choose another 'training: dtype'",
                chip->name, cs_dtype_names[study->training.dtype]);
        }
    }
    return CS_OK;
}

/* Published runs of the first device's chip stand for the cluster. */
static cs_status find_interval(struct cs_study *study, const char *data_dir, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_intervals intervals = {0};
    const char *path = cs_path_join(&study->arena, data_dir, "strategies/software/intervals.yaml");
    CS_TRY(cs_intervals_load(&intervals, path, err));
    const char *chip = study->platform.devices[0].chip->name;
    const struct cs_interval *found = cs_intervals_of(&intervals, chip, study->model.n_experts > 0);
    if (found) {
        study->interval = *found;
        study->interval.chip = chip;
    }
out:
    cs_intervals_release(&intervals);
    return st;
}

/* Of all devices; 0 where the catalogue does not know one of them. */
static double slowest_host_link(const struct cs_platform *platform)
{
    double slowest_bytes_per_s = INFINITY;
    for (int32_t i = 0; i < platform->n_devices; i++) {
        double bytes_per_s = platform->devices[i].chip->host_bytes_per_s;
        if (isnan(bytes_per_s)) {
            return 0;
        }
        slowest_bytes_per_s = bytes_per_s < slowest_bytes_per_s ? bytes_per_s : slowest_bytes_per_s;
    }
    return platform->n_devices > 0 ? slowest_bytes_per_s : 0;
}

/* Which of a layer's pointwise operators are one kernel, and experts' products, by the words of MindSpeed
 * and Megatron-LM (--use-fused-rmsnorm, --moe-grouped-gemm). */
static cs_status read_fused(struct cs_training *training, const struct cs_yaml_node *block,
                            struct cs_err *err)
{
    cs_status st = CS_OK;
    bool norms = !training->separate_norms;
    bool rope = !training->separate_rope;
    bool loss = !training->separate_loss;
    bool grouped = !training->separate_experts;
    bool gate = !training->separate_gate;
    bool gelu = !training->separate_gelu;
    bool sum = !training->separate_accumulation;
    CS_TRY(cs_yaml_opt_bool(block, "fused_rmsnorm", &norms, err));
    CS_TRY(cs_yaml_opt_bool(block, "fused_rotary_pos_emb", &rope, err));
    CS_TRY(cs_yaml_opt_bool(block, "fused_swiglu", &training->fused_glu, err));
    CS_TRY(cs_yaml_opt_bool(block, "cross_entropy_loss_fusion", &loss, err));
    CS_TRY(cs_yaml_opt_bool(block, "moe_grouped_gemm", &grouped, err));
    CS_TRY(cs_yaml_opt_bool(block, "mlp_layer_fusion", &gate, err));
    CS_TRY(cs_yaml_opt_bool(block, "bias_gelu_compiled", &gelu, err));
    CS_TRY(cs_yaml_opt_bool(block, "gradient_accumulation_fusion", &sum, err));
    training->separate_gate = !gate;
    training->separate_gelu = !gelu;
    training->separate_accumulation = !sum;
    training->separate_experts = !grouped;
    training->separate_loss = !loss;
    training->separate_norms = !norms;
    training->separate_rope = !rope;
out:
    return st;
}

static cs_status load_parts(struct cs_study *study, const struct cs_study_source *source,
                            const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = NULL;
    CS_TRY(need_part(root, "model", 'm', &node, err));
    CS_TRY(cs__study_find(study, source, node, CS_SHIPPED_MODEL, "model", &study->model_path, err));
    CS_TRY(need_part(root, "platform", 'p', &node, err));
    CS_TRY(cs_model_load(&study->model, study->model_path, err));
    CS_TRY(cs_catalogue_load_over(cs_path_join(&study->arena, source->data_dir, "platforms/catalogue"),
                                  source->catalogue, &study->catalogue, err));
    CS_TRY(cs__study_platform_read(study, source, root, err));
    CS_TRY(check_dtype(study, node, err));
    CS_TRY(find_interval(study, source->data_dir, err));
    study->training.flash_attention = study->model.flash_attention;
    study->training.host_bytes_per_s = slowest_host_link(&study->platform);
    CS_TRY(cs_yaml_opt_quantity(cs_yaml_get(root, "training"), "host_bandwidth", CS_UNIT_BYTES_PER_S,
                                &study->training.host_bytes_per_s, err));
    CS_TRY(cs_yaml_opt_bool(cs_yaml_get(root, "training"), "flash_attention",
                            &study->training.flash_attention, err));
    CS_TRY(cs_yaml_opt_bool(cs_yaml_get(root, "training"), "async_tensor_model_parallel_allreduce",
                            &study->training.async_tensor_parallel, err));
    CS_TRY(read_fused(&study->training, cs_yaml_get(root, "training"), err));
    CS_TRY(check_fused(study, root, err));
out:
    return st;
}

cs_status cs__study_tree(struct cs_study *study, const struct cs_study_source *source,
                         const struct cs_yaml_node **root, struct cs_err *err)
{
    static const char *const allowed[] = {"model",       "platform", "training",    "strategy",
                                          "constraints", "search",   "collectives", "faults",
                                          "what_if",     "sweep",    "plan",        NULL};
    static const struct cs_yaml_node empty = {.kind = CS_YAML_MAP, .loc = {CS__COMMAND_LINE, 0, 0}};
    cs_status st = CS_OK;
    *root = &empty;
    if (source->path) {
        study->path = source->path;
        if (!cs_shipped_is_path(CS_SHIPPED_STUDY, source->path)) {
            CS_TRY(cs_shipped_find(&study->arena, source->data_dir, CS_SHIPPED_STUDY, source->path, NULL,
                                   CS__COMMAND_LINE_LOC, &study->path, err));
        }
        study->path = cs_arena_strdup(&study->arena, study->path);
        CS_TRY(cs_yaml_load_file(&study->yaml, study->path, err));
        *root = study->yaml.root;
        CS_TRY(cs_yaml_want(*root, CS_YAML_MAP, "a study", err));
    }
    for (int32_t i = 0; i < source->n_overrides; i++) {
        CS_TRY(cs__overlay_set(&study->arena, *root, &source->overrides[i],
                               source->trees ? source->trees[i] : NULL, root, err));
    }
    CS_TRY(cs_yaml_check_keys(*root, allowed, "a study", err));
out:
    return st;
}

/* An objective of energy needs the power of every chip. */
static cs_status check_power(const struct cs_study *study, const struct cs_yaml_node *root,
                             struct cs_err *err)
{
    for (int32_t i = 0; i < study->platform.n_devices; i++) {
        const struct cs_chip *chip = study->platform.devices[i].chip;
        if (isnan(chip->max_power_w) && strcmp(study->search.objective, "energy_per_token") == 0) {
            return cs_err_set(err, CS_E_INPUT, cs_yaml_get(cs_yaml_get(root, "search"), "objective")->loc,
                              "objective energy_per_token needs 'max_power' of chip %s, which the catalogue "
                              "does not have",
                              chip->name);
        }
    }
    return CS_OK;
}

cs_status cs_study_load(struct cs_study *study, const struct cs_study_source *source, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *root = NULL;
    const struct cs_yaml_node *block = NULL;
    *study = (struct cs_study){0};
    CS_TRY(cs__study_tree(study, source, &root, err));
    CS_TRY(read_training(study, root, err));
    block = cs_yaml_get(root, "strategy");
    study->strategy_loc = block ? block->loc : root->loc;
    CS_TRY(cs__axes_read(study, block, err));
    CS_TRY(read_constraints(study, root, err));
    CS_TRY(read_search(study, root, err));
    CS_TRY(load_parts(study, source, root, err));
    CS_TRY(cs__runtime_read(study, root, err));
    CS_TRY(check_routing(study, root, err));
    CS_TRY(check_power(study, root, err));
out:
    return st;
}

void cs_study_release(struct cs_study *study)
{
    cs_platform_release(&study->platform);
    cs_platform_release(&study->base);
    cs_ranktable_release(&study->ranktable);
    if (study->platform_file) {
        (void)fclose(study->platform_file);
    }
    cs_catalogue_free(study->catalogue);
    cs_model_release(&study->model);
    cs_yaml_release(&study->yaml);
    cs_arena_release(&study->arena);
    *study = (struct cs_study){0};
}

struct cs_cluster_shape cs_study_shape(const struct cs_study *study)
{
    return (struct cs_cluster_shape){.n_devices = study->platform.n_devices,
                                     .devices_per_node = study->platform.devices_per_node};
}

/* The runtime's own memory on a device; where the catalogue does not know it, none. */
static double reserved_bytes(const struct cs_device *device)
{
    return device->chip->reserved_bytes > 0 ? device->chip->reserved_bytes : 0;
}

double cs_study_device_memory_bytes(const struct cs_study *study)
{
    const double given_bytes = study->constraints.device_memory_bytes;
    double least_bytes = given_bytes > 0 ? given_bytes : (double)INFINITY;
    for (int32_t i = 0; i < study->platform.n_devices; i++) {
        const struct cs_device *device = &study->platform.devices[i];
        least_bytes =
            fmin(least_bytes, device->memory_bytes - (given_bytes > 0 ? reserved_bytes(device) : 0));
    }
    return fmax(least_bytes, 0);
}

double cs_study_counted_bytes(const struct cs_study *study, double peak_bytes)
{
    double least_bytes = (double)INFINITY;
    for (int32_t i = 0; i < study->platform.n_devices; i++) {
        least_bytes = fmin(least_bytes, reserved_bytes(&study->platform.devices[i]));
    }
    return study->constraints.device_memory_bytes > 0 && least_bytes < peak_bytes ? peak_bytes - least_bytes
                                                                                  : peak_bytes;
}
