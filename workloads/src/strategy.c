/* Strategies as values: defaults, comparison, coordinates. */
#include "cs/workloads/strategy.h"

#include "cs/base/text.h"

const char *const cs_optimizer_names[] = {"adamw", "sgd", "muon", NULL};
const char *const cs_schedule_names[] = {"gpipe",         "1f1b",     "interleaved", "zero-bubble",
                                         "zero-bubble-v", "dualpipe", "seqpipe",     NULL};
const char *const cs_recompute_names[] = {"none", "selective", "full", NULL};
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
                                     .placement = {CS_DIM_MP, CS_DIM_CP, CS_DIM_DP, CS_DIM_PP}};
}

void cs_strategy_canonicalise(struct cs_strategy *strategy)
{
    if (strategy->op == 1) {
        strategy->zero = 1;
    }
    if (strategy->mp == 1) {
        strategy->sp = false;
    }
    if (strategy->pp == 1) {
        strategy->schedule = CS_SCHED_1F1B;
        strategy->vpp = 1;
    }
}

/** Fields that a hash or comparison sees. */
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

bool cs_strategy_equal(const struct cs_strategy *a, const struct cs_strategy *b)
{
    int64_t words_a[N_WORDS];
    int64_t words_b[N_WORDS];
    words_of(a, words_a);
    words_of(b, words_b);
    for (int32_t i = 0; i < N_WORDS; i++) {
        if (words_a[i] != words_b[i]) {
            return false;
        }
    }
    return true;
}

uint64_t cs_strategy_hash(const struct cs_strategy *strategy)
{
    int64_t words[N_WORDS];
    uint64_t hash = CS_HASH_SEED;
    words_of(strategy, words);
    for (int32_t i = 0; i < N_WORDS; i++) {
        hash = cs_hash_mix(hash, (uint64_t)words[i]);
    }
    return hash;
}

int64_t cs_strategy_micro_batches(const struct cs_strategy *strategy, const struct cs_training *training)
{
    int64_t at_once = (int64_t)strategy->dp * strategy->micro_batch;
    return at_once > 0 && training->global_batch % at_once == 0 ? training->global_batch / at_once : 0;
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
