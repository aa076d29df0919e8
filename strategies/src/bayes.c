/* Bayesian optimisation: a Gaussian process over the encoded strategy learns what simulations say beyond the
 * closed form; the next candidates are those with the largest expected improvement (Jones, Schonlau, Welch,
 * J. Global Optimization 13, 1998), several at a time with the process's own prediction in place of results
 * that are not there yet (kriging believer; Ginsbourger, Le Riche, Carraro, 2010).
 *
 * The process models how far the simulated score is from the guess, as a share of the guess, so that the
 * closed form is its prior mean: where that is right nothing has to be learned. */
#include "searchers_priv.h"

#include "cs/base/mem.h"
#include "cs/base/rng.h"
#include "gauss_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Proposals that are chosen together: the same for any number of workers, so that results are too. */
#define BATCH 4
/* Candidates that are looked at for a batch: the best by the guess, and others drawn at random. */
#define LOOKED_AT 4000
#define DRAWN 1000
/* Error of the closed form before anything is known of it, and at least afterwards. */
#define DEVIATION_FIRST 0.05
#define DEVIATION_LEAST 0.005
/* The search ends when a whole batch promises less than this share of the best score. */
#define WORTH_FRAC 2e-4

/* How far apart strategies are whose guesses are made in two ways, in length scales of the process. */
#define COARSE_AWAY 3
/* Error of such guesses: what they leave out differs from strategy to strategy. */
#define COARSE_DEVIATION 0.1
/* Simulations before a batch that begins with such a guess may be the last one: the process has to learn
 * first. */
#define COARSE_PATIENCE 48

/* A result: where, and whether it kept the study's constraints. */
struct told {
    double x[CS__GAUSS_DIMS]; /* @unit coordinates */
    bool feasible;
};

struct bayes {
    const struct cs_search_problem *problem;
    struct cs_rng rng;
    int64_t n_fit;
    int64_t *fit; /* by the guess, best first */
    bool *proposed;
    double scale; /* @unit of the objective: stands for a guess where there is none */
    struct cs__gauss gauss;
    int32_t n_batch, at;
    int64_t batch[BATCH];
    int32_t n_away;    /* proposed and not told about */
    double best_score; /* @unit of the objective; NaN = none yet */
    bool ended;
    int64_t n_told, cap_told;
    struct told *told;
};

/* Of the layers that lists of a strategy say to recompute, the share of a whole place. */
static double recomputed_frac(const struct cs_strategy *s)
{
    double sum = 0;
    for (int32_t i = 0; i < s->full_layers.n; i++) {
        sum += s->full_layers.at[i];
    }
    return s->full_layers.n > 0 ? sum / (sum + s->full_layers.n) : 0;
}

/* Names and switches as 0 or 1 of a coordinate each, sizes by their logarithm. */
static void encode(const struct bayes *state, int64_t candidate, double x[CS__GAUSS_DIMS])
{
    const struct cs_strategy *s = cs_problem_strategy(state->problem, candidate);
    int32_t at = 0;
    const int32_t sizes[] = {s->dp, s->mp, s->pp, s->op, s->micro_batch, s->vpp, s->ep, s->cp, s->seq_split};
    for (int32_t i = 0; i < CS__GAUSS_DIMS; i++) {
        x[i] = 0;
    }
    for (int32_t i = 0; i < CS_COUNT(sizes); i++) {
        x[at++] = 0.3 * log2(sizes[i] > 1 ? sizes[i] : 1);
    }
    x[at++] = s->sp;
    x[at + s->zero - 1] = 0.7;
    at += 3;
    x[at + (int32_t)s->recompute] = 0.7;
    at += CS_N_RECOMPUTE;
    x[at + (int32_t)s->schedule] = 0.7;
    at += CS_N_SCHEDULES;
    const bool flags[] = {
        s->cp_kind == CS_CP_ULYSSES, s->half_batches > 1, s->fused_tp,  s->keep_comm,   s->offload_optimizer,
        s->swap_activations,         s->layers.n > 0,     s->expert_mp, s->keep_weights};
    for (int32_t i = 0; i < CS_COUNT(flags); i++) {
        x[at++] = flags[i] ? 1 : 0;
    }
    x[at++] = recomputed_frac(s);
    x[at++] = state->problem->outlooks[candidate].coarse ? COARSE_AWAY : 0; /* its error is of another kind */
    for (int32_t i = 0; i + 1 < CS_N_DIMS; i++) {
        x[at++] = 0.3 * (double)s->placement[i];
    }
    x[at++] = 0.3 * cs_problem_set(state->problem, candidate); /* its error is a bit like its neighbours' */
    CS_ASSERT(at <= CS__GAUSS_DIMS);
}

static double guess_of(const struct bayes *state, int64_t candidate)
{
    double score = state->problem->outlooks[candidate].guess_score;
    return isnan(score) ? 0 : score;
}

static double scale_of(const struct bayes *state, int64_t candidate)
{
    double score = fabs(guess_of(state, candidate));
    return score > 0 ? score : state->scale;
}

struct guessed {
    double score; /* @unit of the objective */
    int64_t candidate;
};

static int compare_guessed(const void *a, const void *b)
{
    const struct guessed *x = a;
    const struct guessed *y = b;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static void *create(const struct cs_search_problem *problem)
{
    struct bayes *state = cs_calloc(1, sizeof *state);
    struct guessed *list = cs_calloc((size_t)problem->n_fit + 1, sizeof *list);
    state->problem = problem;
    state->best_score = (double)NAN;
    state->scale = 1;
    cs_rng_init(&state->rng, problem->seed, 2);
    state->fit = cs_calloc((size_t)problem->n_fit + 1, sizeof *state->fit);
    state->proposed = cs_calloc((size_t)problem->n_candidates + 1, sizeof *state->proposed);
    for (int64_t i = 0; i < problem->n_candidates; i++) {
        if (problem->outlooks[i].fits) {
            list[state->n_fit++] = (struct guessed){guess_of(state, i), i};
        }
    }
    qsort(list, (size_t)state->n_fit, sizeof *list, compare_guessed);
    for (int64_t i = 0; i < state->n_fit; i++) {
        state->fit[i] = list[i].candidate;
    }
    cs_free(list);
    return state;
}

static void destroy(void *context)
{
    struct bayes *state = context;
    cs__gauss_release(&state->gauss);
    cs_free(state->fit);
    cs_free(state->proposed);
    cs_free(state->told);
    cs_free(state);
}

/* Expected improvement over `best` of a normally distributed score. */
static double improvement(double mean /* @unit of the objective */, double deviation, double best)
{
    if (deviation <= 0) {
        return fmax(mean - best, 0);
    }
    double z = (mean - best) / deviation;
    double density = exp(-z * z / 2) / sqrt(2 * acos(-1.0));
    double below = erfc(-z / sqrt(2.0)) / 2;
    return (mean - best) * below + deviation * density;
}

/* How likely a candidate keeps the study's constraints, by those told about that are like it; a new kind is
 * given the benefit of the doubt. */
static double feasible_frac(const struct bayes *state, const double x[CS__GAUSS_DIMS])
{
    double kept = 1;
    double all = 1;
    for (int64_t i = 0; i < state->n_told; i++) {
        const double *y = state->told[i].x;
        double far = 0;
        for (int32_t k = 0; k < CS__GAUSS_DIMS; k++) {
            far += (x[k] - y[k]) * (x[k] - y[k]);
        }
        double weight = 4 * exp(-4 * far);
        all += weight;
        kept += state->told[i].feasible ? weight : 0;
    }
    return kept / all;
}

/* What simulating a candidate promises. */
static double promise(struct bayes *state, int64_t candidate, double best)
{
    double x[CS__GAUSS_DIMS];
    double mean;
    double deviation;
    encode(state, candidate, x);
    cs__gauss_predict(&state->gauss, x, &mean, &deviation);
    if (state->problem->outlooks[candidate].coarse && state->gauss.deviation < COARSE_DEVIATION) {
        deviation *= COARSE_DEVIATION / state->gauss.deviation;
    }
    double scale = scale_of(state, candidate);
    double score = guess_of(state, candidate) + scale * mean;
    double bound = state->problem->outlooks[candidate].bound_score;
    if (bound < state->best_score) {
        return 0; /* proven; false while there is no best */
    }
    return improvement(fmin(score, bound), scale * deviation, best) * feasible_frac(state, x);
}

static int64_t most_promising(struct bayes *state, double best, double *most)
{
    int64_t chosen = -1;
    int64_t n_looked = 0;
    *most = 0;
    for (int64_t i = 0; i < state->n_fit; i++) {
        int64_t candidate = state->fit[i];
        bool drawn = n_looked < LOOKED_AT || cs_rng_below(&state->rng, (uint32_t)state->n_fit) < DRAWN;
        if (state->proposed[candidate] || !drawn) {
            continue;
        }
        n_looked++;
        double value = promise(state, candidate, best);
        if (value > *most) {
            *most = value;
            chosen = candidate;
        }
    }
    return chosen;
}

/* Nothing is known of the scores: a random one. */
static int64_t draw(struct bayes *state)
{
    int64_t at = cs_rng_below(&state->rng, (uint32_t)state->n_fit);
    while (state->proposed[state->fit[at]]) {
        at = (at + 1) % state->n_fit;
    }
    return state->fit[at];
}

static void plan_batch(struct bayes *state)
{
    int32_t n_before = state->gauss.n;
    double best = state->best_score;
    double most = 0;
    double first = 0;
    int64_t n_left = state->n_fit - state->n_told;
    state->n_batch = state->at = 0;
    cs__gauss_fit(&state->gauss, n_before == 0 ? DEVIATION_FIRST : DEVIATION_LEAST, false);
    if (n_before < 3) {
        state->gauss.deviation = fmax(state->gauss.deviation, DEVIATION_FIRST);
    }
    bool blind = isnan(state->problem->outlooks[state->fit[0]].guess_score) && n_before == 0;
    /* One candidate first where there is a closed form: it may be proven the best at once. */
    int32_t n_wanted = state->n_told == 0 && !blind ? 1 : BATCH;
    while (state->n_batch < n_wanted && state->n_batch < n_left) {
        /* As long as nothing is feasible, any feasible one is an improvement over the worst guess. */
        double over = isnan(best) ? guess_of(state, state->fit[state->n_fit - 1]) : best;
        int64_t chosen = blind ? draw(state) : most_promising(state, over, &most);
        if (chosen < 0) {
            break;
        }
        first = state->n_batch == 0 ? most : first;
        state->batch[state->n_batch++] = chosen;
        state->proposed[chosen] = true;
        double x[CS__GAUSS_DIMS];
        double mean;
        double deviation;
        encode(state, chosen, x);
        cs__gauss_predict(&state->gauss, x, &mean, &deviation);
        cs__gauss_add(&state->gauss, x, mean);
        cs__gauss_fit(&state->gauss, 0, true);
    }
    while (state->gauss.n > n_before) {
        cs__gauss_pop(&state->gauss);
    }
    bool worth = isnan(best) || first > WORTH_FRAC * fabs(best);
    bool learns = state->n_batch > 0 && state->problem->outlooks[state->batch[0]].coarse &&
                  state->n_told < COARSE_PATIENCE;
    state->ended = state->n_batch == 0 || !(worth || learns);
}

static int64_t next(void *context)
{
    struct bayes *state = context;
    if (state->at == state->n_batch && !state->ended) {
        if (state->n_away > 0) {
            return CS_SEARCH_LATER;
        }
        plan_batch(state);
    }
    if (state->ended) {
        return -1;
    }
    state->n_away++;
    return state->batch[state->at++];
}

static void tell(void *context, int64_t candidate, const struct cs_evaluation *evaluation, double score)
{
    struct bayes *state = context;
    double x[CS__GAUSS_DIMS];
    state->n_away--;
    encode(state, candidate, x);
    CS_GROW(state->told, state->n_told, state->cap_told);
    memcpy(state->told[state->n_told].x, x, sizeof x);
    state->told[state->n_told++].feasible = evaluation->outcome == CS_OUTCOME_OK;
    if (evaluation->outcome != CS_OUTCOME_OK) {
        return;
    }
    if (isnan(state->problem->outlooks[candidate].guess_score) && state->gauss.n == 0) {
        state->scale = fabs(score) > 0 ? fabs(score) : 1;
    }
    cs__gauss_add(&state->gauss, x, (score - guess_of(state, candidate)) / scale_of(state, candidate));
    if (isnan(state->best_score) || score > state->best_score) {
        state->best_score = score;
    }
}

const struct cs_searcher cs__searcher_bayes = {
    .name = "bayes",
    .summary = "expected improvement under a Gaussian process about the closed form: few simulations",
    .create = create,
    .destroy = destroy,
    .next = next,
    .tell = tell,
};
