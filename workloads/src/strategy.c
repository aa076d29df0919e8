/* Strategies as values: defaults, comparison, coordinates. */
#include "cs/workloads/strategy.h"

#include "cs/base/text.h"

#include <string.h>

const char *const cs_optimizer_names[] = {"adamw", "sgd", "muon", NULL};
const char *const cs_schedule_names[] = {"gpipe",         "1f1b",     "interleaved", "zero-bubble",
                                         "zero-bubble-v", "dualpipe", "seqpipe",     NULL};
const char *const cs_recompute_names[] = {"none", "selective", "full", NULL};
const char *const cs_cp_kind_names[] = {"ring", "ulysses", NULL};
const char *const cs_dim_names[] = {"mp", "cp", "dp", "pp", NULL};

void cs_strategy_init(struct cs_strategy *strategy)
{
    *strategy = (struct cs_strategy){.dp = 1,
                                     .mp = 1,
                                     .pp = 1,
                                     .cp = 1,
                                     .ep = 1,
                                     .vpp = 1,
                                     .op = 1,
                                     .zero = 1,
                                     .schedule = CS_SCHED_1F1B,
                                     .micro_batch = 1,
                                     .recompute = CS_RECOMPUTE_NONE,
                                     .placement = {CS_DIM_MP, CS_DIM_CP, CS_DIM_DP, CS_DIM_PP},
                                     .seq_split = 1,
                                     .half_batches = 1};
}

int cs_per_place_compare(const struct cs_per_place *a, const struct cs_per_place *b)
{
    if (a->n != b->n) {
        return a->n < b->n ? -1 : 1;
    }
    for (int32_t i = 0; i < a->n; i++) {
        if (a->at[i] != b->at[i]) {
            return a->at[i] < b->at[i] ? -1 : 1;
        }
    }
    return 0;
}

static bool same_per_place(const struct cs_per_place *a, const struct cs_per_place *b)
{
    return a->n == b->n && memcmp(a->at, b->at, a->n * sizeof a->at[0]) == 0;
}

/** Places of the model: where a list has one number each. */
static int64_t n_places(const struct cs_strategy *s)
{
    return s->schedule == CS_SCHED_DUALPIPE ? s->pp : (int64_t)s->pp * s->vpp;
}

/** A list that says the same for every place as no list does. */
static void drop_idle_lists(struct cs_strategy *s)
{
    bool idle = true;
    for (int32_t i = 0; i < CS_PLACES_MAX; i++) {
        idle &= (i >= s->full_layers.n || s->full_layers.at[i] == 0) &&
                (i >= s->selective_layers.n || s->selective_layers.at[i] == 0);
    }
    if (idle && (s->full_layers.n > 0 || s->selective_layers.n > 0)) {
        s->full_layers = s->selective_layers = (struct cs_per_place){0};
        s->recompute = CS_RECOMPUTE_NONE;
    }
    if (s->full_layers.n > 0 || s->selective_layers.n > 0) {
        s->recompute = CS_RECOMPUTE_NONE; /* the lists say it */
        struct cs_per_place none = {.n = (uint8_t)(n_places(s) <= CS_PLACES_MAX ? n_places(s) : 1)};
        s->full_layers = s->full_layers.n > 0 ? s->full_layers : none;
        s->selective_layers = s->selective_layers.n > 0 ? s->selective_layers : none;
    }
}

static int32_t degree(const struct cs_strategy *strategy, enum cs_dim dim)
{
    switch (dim) {
    case CS_DIM_MP:
        return strategy->mp;
    case CS_DIM_CP:
        return strategy->cp;
    case CS_DIM_DP:
        return strategy->dp;
    case CS_DIM_PP:
        return strategy->pp;
    case CS_N_DIMS:
        break;
    }
    return 1;
}

/** Dimensions of degree 1 have no place of their own: they stand where the default placement has them, and
 * the others keep their order around them. A placement that does not name every dimension once is left alone.
 */
static void canonical_placement(struct cs_strategy *strategy)
{
    struct cs_strategy standard;
    enum cs_dim order[CS_N_DIMS];
    unsigned seen = 0;
    int32_t next = 0;
    cs_strategy_init(&standard);
    for (int32_t i = 0; i < CS_N_DIMS; i++) {
        seen |= 1u << strategy->placement[i];
    }
    if (seen != (1u << CS_N_DIMS) - 1) {
        return;
    }
    for (int32_t i = 0; i < CS_N_DIMS; i++) {
        enum cs_dim dim = standard.placement[i];
        if (degree(strategy, dim) != 1) {
            while (degree(strategy, strategy->placement[next]) == 1) {
                next++;
            }
            dim = strategy->placement[next++];
        }
        order[i] = dim;
    }
    memcpy(strategy->placement, order, sizeof order);
}

void cs_strategy_canonicalise(struct cs_strategy *strategy)
{
    if (strategy->op == 1) {
        strategy->zero = 1;
    }
    strategy->keep_weights = strategy->keep_weights && strategy->zero == 3;
    if (strategy->mp == 1) {
        strategy->sp = false;
        strategy->fused_tp = false;
        strategy->expert_mp = false;
        strategy->keep_comm = false;
        strategy->half_batches = 1;
    }
    bool slices = strategy->schedule == CS_SCHED_SEQPIPE && strategy->seq_split > 1;
    if (strategy->pp == 1 && !slices) {
        strategy->schedule = CS_SCHED_1F1B;
        strategy->vpp = 1;
    }
    if (strategy->cp == 1) {
        strategy->cp_kind = CS_CP_RING;
    }
    strategy->seq_split = slices ? strategy->seq_split : 1;
    strategy->half_batches = strategy->half_batches > 1 ? strategy->half_batches : 1;
    drop_idle_lists(strategy);
    strategy->swap_activations = strategy->swap_activations && strategy->recompute != CS_RECOMPUTE_FULL;
    if (strategy->full_layers.n == 0 && strategy->recompute != CS_RECOMPUTE_FULL) {
        strategy->keep_comm = false;
    }
    canonical_placement(strategy);
}

enum cs_recompute cs_strategy_recompute(const struct cs_strategy *strategy, int32_t place, int32_t index)
{
    const struct cs_per_place *full = &strategy->full_layers;
    const struct cs_per_place *selective = &strategy->selective_layers;
    if ((full->n == 0 && selective->n == 0) || place < 0) {
        return strategy->recompute;
    }
    if (place < full->n && index < full->at[place]) {
        return CS_RECOMPUTE_FULL;
    }
    return place < selective->n && index < selective->at[place] ? CS_RECOMPUTE_SELECTIVE : CS_RECOMPUTE_NONE;
}

/** Fields of every strategy that a hash or comparison sees. */
#define N_WORDS (12 + CS_N_DIMS)
static void words_of(const struct cs_strategy *s, int64_t words[N_WORDS])
{
    const int64_t fields[12] = {s->dp, s->mp,   s->pp, s->cp,       s->ep,          s->vpp,
                                s->op, s->zero, s->sp, s->schedule, s->micro_batch, s->recompute};
    for (int32_t i = 0; i < 12; i++) {
        words[i] = fields[i];
    }
    for (int32_t i = 0; i < CS_N_DIMS; i++) {
        words[12 + i] = s->placement[i];
    }
}

/** The fields that are usually zero. */
#define N_RARE 9
static void rare_words_of(const struct cs_strategy *s, int64_t words[N_RARE])
{
    const int64_t fields[N_RARE] = {s->cp_kind,
                                    s->seq_split > 1 ? s->seq_split : 0,
                                    s->half_batches > 1 ? s->half_batches : 0,
                                    s->fused_tp,
                                    s->keep_comm,
                                    s->offload_optimizer,
                                    s->swap_activations,
                                    s->expert_mp,
                                    s->keep_weights};
    memcpy(words, fields, sizeof fields);
}

bool cs_strategy_equal(const struct cs_strategy *a, const struct cs_strategy *b)
{
    int64_t words_a[N_WORDS];
    int64_t words_b[N_WORDS];
    int64_t rare_a[N_RARE];
    int64_t rare_b[N_RARE];
    words_of(a, words_a);
    words_of(b, words_b);
    rare_words_of(a, rare_a);
    rare_words_of(b, rare_b);
    return memcmp(words_a, words_b, sizeof words_a) == 0 && memcmp(rare_a, rare_b, sizeof rare_a) == 0 &&
           same_per_place(&a->layers, &b->layers) && same_per_place(&a->full_layers, &b->full_layers) &&
           same_per_place(&a->selective_layers, &b->selective_layers);
}

uint64_t cs_strategy_hash(const struct cs_strategy *strategy)
{
    int64_t words[N_WORDS];
    int64_t rare[N_RARE];
    uint64_t hash = CS_HASH_SEED;
    words_of(strategy, words);
    rare_words_of(strategy, rare);
    for (int32_t i = 0; i < N_WORDS; i++) {
        hash = cs_hash_mix(hash, (uint64_t)words[i]);
    }
    for (int32_t i = 0; i < N_RARE; i++) {
        hash = rare[i] ? cs_hash_mix(hash, (uint64_t)(i + 1) << 32 | (uint64_t)rare[i]) : hash;
    }
    const struct cs_per_place *lists[] = {&strategy->layers, &strategy->full_layers,
                                          &strategy->selective_layers};
    for (int32_t i = 0; i < CS_COUNT(lists); i++) {
        if (lists[i]->n > 0) {
            hash = cs_hash_bytes(cs_hash_mix(hash, (uint64_t)i), lists[i]->at,
                                 lists[i]->n * sizeof lists[i]->at[0]);
        }
    }
    return hash;
}

cs_status cs_fusion_read(struct cs_training *training, const struct cs_yaml_node *node, const char *what,
                         struct cs_err *err)
{
    cs_status st = CS_OK;
    if (node == NULL) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(node, CS_YAML_LIST, what, err));
    if (node->n > CS_FUSION_MAX) {
        return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' has %d numbers, more than %d", what, (int)node->n,
                          CS_FUSION_MAX);
    }
    for (int32_t i = 0; i < node->n; i++) {
        int64_t least = i > 0 ? training->fusion[i - 1] + 1 : 1;
        int64_t number = 0;
        CS_TRY(cs_yaml_int(node->items[i], least, INT32_MAX, what, &number, err));
        training->fusion[i] = (int32_t)number;
    }
    training->n_fusion = node->n;
out:
    return st;
}

uint64_t cs_training_hash(uint64_t hash, const struct cs_training *t)
{
    const int64_t words[] = {t->global_batch,
                             t->seq_length,
                             t->dtype,
                             t->gradient_dtype,
                             t->optimizer,
                             t->clip_gradient,
                             t->flash_attention,
                             t->aggregation_groups,
                             t->gradient_fp32_sync,
                             t->scatter_messages,
                             t->separate_casts,
                             t->separate_norms,
                             t->separate_rope,
                             t->separate_loss,
                             t->norm_casts,
                             t->fused_glu,
                             t->separate_experts,
                             t->separate_gate,
                             t->separate_gelu,
                             t->score_kernels[0],
                             t->score_kernels[1],
                             t->separate_accumulation,
                             t->async_tensor_parallel,
                             t->widened_gradients,
                             t->softmax_multiple,
                             t->blocking_sends,
                             t->serial_messages,
                             t->n_fusion};
    const double figures[] = {t->bucket_bytes,   t->host_bytes_per_s, t->routing_imbalance_frac,
                              t->score_bytes[0], t->score_bytes[1],   t->optimizer_traffic_bytes};
    for (int32_t i = 0; i < CS_COUNT(words); i++) {
        hash = cs_hash_mix(hash, (uint64_t)words[i]);
    }
    for (int32_t i = 0; i < CS_COUNT(figures); i++) {
        hash = cs_hash_real(hash, figures[i]);
    }
    return cs_hash_bytes(hash, t->fusion, (size_t)t->n_fusion * sizeof *t->fusion);
}

int64_t cs_strategy_micro_batches(const struct cs_strategy *strategy, const struct cs_training *training)
{
    int64_t at_once = (int64_t)strategy->dp * strategy->micro_batch;
    return at_once > 0 && training->global_batch % at_once == 0 ? training->global_batch / at_once : 0;
}

int32_t cs_strategy_coord(const struct cs_strategy *strategy, int32_t rank, enum cs_dim dim)
{
    for (int32_t i = 0; i < CS_N_DIMS; i++) {
        int32_t n = degree(strategy, strategy->placement[i]);
        if (strategy->placement[i] == dim) {
            return rank % n;
        }
        rank /= n;
    }
    return 0;
}

int32_t cs_strategy_rank(const struct cs_strategy *strategy, const int32_t coord[CS_N_DIMS])
{
    int32_t rank = 0;
    for (int32_t i = CS_N_DIMS - 1; i >= 0; i--) {
        enum cs_dim dim = strategy->placement[i];
        rank = rank * degree(strategy, dim) + coord[dim];
    }
    return rank;
}
