/* Why the winner wins. */
#include "explain_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct explainer {
    struct cs_explanation *out;
    const struct cs_study *study;
    const struct cs_space *space;
    const struct cs_search_result *result;
    const struct cs_simulator *simulator;
    const struct cs_explain_options *options;
    const struct cs_strategy *winner;
    int64_t n_known;
    struct cs__known *known; /* every candidate that keeps the rules */
};

/* The sets of algorithms that the winner has, and so the explanation. */
static int32_t winners_set(const struct explainer *e)
{
    return e->result->ranking[0].algorithm_set;
}

/* More keys than one change takes along (op 1 makes zero 1, pp 1 the schedule and vpp). */
#define KEYS_TOGETHER 4

/* The keys in which two strategies differ, but those that follow from others, up to KEYS_TOGETHER + 1. */
static int32_t differing_keys(const struct cs_strategy *a, const struct cs_strategy *b,
                              int32_t keys[KEYS_TOGETHER + 1])
{
    int32_t n = 0;
    for (int32_t key = 0; key < CS_N_KEYS && n <= KEYS_TOGETHER; key++) {
        bool same = cs_key_get(a, (enum cs_key)key) == cs_key_get(b, (enum cs_key)key);
        bool follows = key == CS_KEY_DP || (key == CS_KEY_OP && a->op == a->dp && b->op == b->dp);
        if (!same && !follows) {
            keys[n++] = key;
        }
    }
    for (int32_t list = 0; list < CS_N_LISTS && n <= KEYS_TOGETHER; list++) {
        const struct cs_per_place *x = cs_key_list_of(a, (enum cs_list_key)list);
        const struct cs_per_place *y = cs_key_list_of(b, (enum cs_list_key)list);
        if (cs_per_place_compare(x, y) != 0) {
            keys[n++] = CS_N_KEYS + list;
        }
    }
    return n;
}

/* Does one strategy become the other when it takes this key from it? */
static bool is_changed_by(const struct cs_strategy *from, const struct cs_strategy *to, int32_t key)
{
    struct cs_strategy changed = *from;
    if (key >= CS_N_KEYS) {
        return false;
    }
    cs_key_put(&changed, (enum cs_key)key, cs_key_get(to, (enum cs_key)key));
    changed.dp = to->dp;
    if (key != CS_KEY_OP && from->op == from->dp) {
        changed.op = changed.dp;
    }
    cs_strategy_canonicalise(&changed);
    return cs_strategy_equal(&changed, to);
}

/* The one key that was changed to come from a strategy to another, -1 when it takes several. */
static int32_t changed_key(const struct cs_strategy *from, const struct cs_strategy *to)
{
    int32_t keys[KEYS_TOGETHER + 1];
    int32_t n = differing_keys(from, to, keys);
    for (int32_t i = 0; i < n && n > 1 && n <= KEYS_TOGETHER; i++) {
        if (is_changed_by(from, to, keys[i])) {
            return keys[i];
        }
    }
    return n == 1 ? keys[0] : -1;
}

/* The same strategy with another algorithm for one kind of collective: CS_EXPLAIN_KEY_COLL + the kind; -1
 * when it is another strategy or several kinds. */
static int32_t changed_collective(const struct explainer *e, const struct cs__known *known)
{
    enum cs_algorithm own[CS_N_COLLS];
    enum cs_algorithm other[CS_N_COLLS];
    int32_t found = -1;
    if (known->candidate != e->result->ranking[0].candidate) {
        return -1;
    }
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        own[coll] = other[coll] = CS_ALGO_AUTO;
    }
    cs_study_algorithm_set(e->study, winners_set(e), own);
    cs_study_algorithm_set(e->study, known->set, other);
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        if (own[coll] != other[coll]) {
            found = found < 0 ? CS_EXPLAIN_KEY_COLL + coll : -2;
        }
    }
    return found < 0 ? -1 : found;
}

static int compare_neighbours(const void *a, const void *b)
{
    const struct cs_neighbour *x = a;
    const struct cs_neighbour *y = b;
    bool has_x = !isnan(x->worse_frac);
    bool has_y = !isnan(y->worse_frac);
    if (has_x != has_y) {
        return has_x ? -1 : 1;
    }
    if (has_x && (x->worse_frac < y->worse_frac || x->worse_frac > y->worse_frac)) {
        return x->worse_frac < y->worse_frac ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

/* What a score is worse than the winner's, as a share of that. */
static double worse_frac(const struct explainer *e, double score /* @unit of the objective */)
{
    double winner = e->result->ranking[0].score;
    return (winner - score) / fabs(winner);
}

static double score_of(const struct explainer *e, const struct cs_metrics *metrics)
{
    return cs_objective_score(e->result->objective, metrics, e->study);
}

/* By the closed form. */
static double guess_score(const struct explainer *e, double time_s, int64_t memory_bytes)
{
    struct cs_metrics metrics;
    cs__metrics_hope(&metrics, e->study, time_s, memory_bytes);
    return score_of(e, &metrics);
}

/* Simulate those that fit. */
static cs_status simulate_neighbours(struct explainer *e, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_explanation *out = e->out;
    int64_t candidates[CS_EXPLAIN_NEIGHBOURS_MAX];
    int32_t sets[CS_EXPLAIN_NEIGHBOURS_MAX];
    struct cs_neighbour *which[CS_EXPLAIN_NEIGHBOURS_MAX];
    int64_t n = 0;
    struct cs_evaluation *evaluations = cs_calloc(CS_EXPLAIN_NEIGHBOURS_MAX, sizeof *evaluations);
    for (int32_t i = 0; i < out->n_neighbours; i++) {
        out->neighbours[i].loss_frac = out->neighbours[i].worse_frac = (double)NAN;
        if (out->neighbours[i].outcome == CS_OUTCOME_OPEN) {
            which[n] = &out->neighbours[i];
            sets[n] = out->neighbours[i].algorithm_set;
            candidates[n++] = out->neighbours[i].candidate;
        }
    }
    CS_TRY(cs__simulate_listed(evaluations, e->simulator, e->space, candidates,
                               e->options->set_costs ? sets : NULL, n, e->options, err));
    for (int64_t i = 0; i < n; i++) {
        which[i]->outcome = evaluations[i].outcome;
        if (evaluations[i].simulated) {
            which[i]->worse_frac = worse_frac(e, score_of(e, &evaluations[i].metrics));
            which[i]->loss_frac = evaluations[i].metrics.iteration_s / out->winner.metrics.iteration_s - 1;
        }
    }
out:
    cs_free(evaluations);
    return st;
}

/* Neighbours, the best ones by the closed form. */
static cs_status find_neighbours(struct explainer *e, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_explanation *out = e->out;
    struct cs_neighbour *all = cs_calloc((size_t)e->n_known + 1, sizeof *all);
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_known; i++) {
        const struct cs__known *known = &e->known[i];
        int32_t key = known->set == winners_set(e)
                          ? changed_key(e->winner, &e->space->candidates[known->candidate].strategy)
                          : changed_collective(e, known);
        if (key >= 0) {
            all[n++] = (struct cs_neighbour){
                .candidate = known->candidate,
                .key = key,
                .algorithm_set = known->set,
                .outcome = known->outcome,
                .worse_frac = worse_frac(e, guess_score(e, known->time_s, known->memory_bytes)),
                .peak_memory_bytes = known->memory_bytes};
        }
    }
    qsort(all, (size_t)n, sizeof *all, compare_neighbours);
    for (int64_t i = 0; i < n && out->n_neighbours < CS_EXPLAIN_NEIGHBOURS_MAX; i++) {
        out->neighbours[out->n_neighbours++] = all[i];
    }
    CS_TRY(simulate_neighbours(e, err));
    qsort(out->neighbours, (size_t)out->n_neighbours, sizeof *out->neighbours, compare_neighbours);
out:
    cs_free(all);
    return st;
}

/* For cs_cost_watch. */
static bool is_stopped(void *context)
{
    const struct explainer *e = context;
    return e->options->stop && *e->options->stop;
}

/* Has the search looked at it, as far as it came? */
static bool is_known(const struct explainer *e, int64_t candidate)
{
    return !e->space->candidates[candidate].rule &&
           (!e->result->looked_at || e->result->looked_at[candidate]);
}

static cs_status prepare(const struct explainer *e, struct cs_cost *cost, struct cs_err *err)
{
    const struct cs_strategy **list = cs_calloc((size_t)e->space->n_open + 1, sizeof *list);
    int64_t n = 0;
    for (int64_t i = 0; i < e->space->n_candidates; i++) {
        if (is_known(e, i)) {
            list[n++] = &e->space->candidates[i].strategy;
        }
    }
    cs_status st = cs_cost_prepare(cost, list, n, NULL, err);
    cs_free(list);
    return st;
}

/* What the closed form says of one candidate with one set. */
static void take_known(struct explainer *e, struct cs_cost *cost, int64_t candidate, int32_t set,
                       bool is_ranked)
{
    struct cs_estimate estimate;
    cs_cost_estimate(cost, &e->space->candidates[candidate].strategy, &estimate);
    struct cs_evaluation evaluation = {.metrics.peak_memory_bytes = estimate.peak_memory_bytes};
    cs_evaluation_judge(&evaluation, e->study);
    bool fits = evaluation.outcome == CS_OUTCOME_OK;
    if (estimate.refusal && fits) {
        return; /* it cannot run with these algorithms */
    }
    if (estimate.time_s > 0 || !fits) { /* of what does not fit the time need not be known */
        e->known[e->n_known++] =
            (struct cs__known){.candidate = candidate,
                               .set = set,
                               .time_s = estimate.time_s > 0 ? estimate.time_s : (double)NAN,
                               .bound_s = estimate.bound_s,
                               .memory_bytes = estimate.peak_memory_bytes,
                               .outcome = fits ? CS_OUTCOME_OPEN : evaluation.outcome,
                               .fits = fits,
                               .is_proven = fits && (is_ranked || !cs_study_has_result_rules(e->study)),
                               .is_coarse = estimate.is_coarse};
    }
}

/* What the closed form says of every candidate that keeps the rules and that the search has looked at, with
 * one set. */
static cs_status find_known_with(struct explainer *e, struct cs_cost *cost, int32_t set, struct cs_err *err)
{
    cs_status st = CS_OK;
    bool *is_ranked = cs_calloc((size_t)e->space->n_candidates + 1, sizeof *is_ranked);
    for (int64_t i = 0; i < e->result->n_ranked; i++) {
        const struct cs_ranked *r = &e->result->ranking[i];
        is_ranked[r->candidate] = is_ranked[r->candidate] || r->algorithm_set == set;
    }
    cs_cost_watch(cost, is_stopped, e);
    CS_TRY(prepare(e, cost, err)); /* quick where the search has done it */
    for (int64_t i = 0; i < e->space->n_candidates; i++) {
        if (is_known(e, i)) {
            take_known(e, cost, i, set, is_ranked[i]);
        }
    }
out:
    cs_cost_watch(cost, NULL, NULL);
    cs_free(is_ranked);
    return st;
}

static cs_status find_known(struct explainer *e, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_cost *own = NULL;
    struct cs_cost *const *costs = e->options->set_costs;
    int32_t n_sets = costs ? cs_study_n_algorithm_sets(e->study) : 1;
    e->known = cs_calloc((size_t)(n_sets * e->space->n_open) + 1, sizeof *e->known);
    for (int32_t set = 0; set < n_sets && costs; set++) {
        CS_TRY(find_known_with(e, costs[set], set, err));
    }
    if (!costs) {
        struct cs_cost *cost = e->options->cost;
        if (!cost) {
            cost = own = cs_cost_new(&e->study->model, &e->study->training, e->simulator->routes,
                                     &e->simulator->options, &CS_COST_SCALE_NONE);
        }
        CS_TRY(find_known_with(e, cost, winners_set(e), err));
    }
out:
    cs_cost_free(own);
    return st;
}

/* Ranked by the closed form: what the study accepts, with the winner's algorithms. */
static bool is_guessed(const struct explainer *e, const struct cs__known *known)
{
    return known->is_proven && !known->is_coarse && known->set == winners_set(e);
}

/* Get ready to estimate what the closed form ranks, and the winner: of no other is the trace needed. */
static cs_status prepare_guessed(const struct explainer *e, struct cs_cost *cost, struct cs_err *err)
{
    const struct cs_strategy **list = cs_calloc((size_t)e->n_known + 1, sizeof *list);
    int64_t n = 0;
    list[n++] = e->winner;
    for (int64_t i = 0; i < e->n_known; i++) {
        if (is_guessed(e, &e->known[i])) {
            list[n++] = &e->space->candidates[e->known[i].candidate].strategy;
        }
    }
    cs_status st = cs_cost_prepare(cost, list, n, NULL, err);
    cs_free(list);
    return st;
}

double cs__lost_frac(double score, double best_score)
{
    return score >= 0 ? 1 - score / best_score : 1 - best_score / score;
}

/* The winner's place on other hardware. */
static cs_status shake(struct explainer *e, const char *what, double factor,
                       const struct cs_cost_scale *scale, struct cs_shaken *shaken, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_estimate estimate;
    struct cs_cost *cost = cs_cost_new(&e->study->model, &e->study->training, e->simulator->routes,
                                       &e->simulator->options, scale);
    cs_cost_watch(cost, is_stopped, e);
    CS_TRY(prepare_guessed(e, cost, err));
    cs_cost_estimate(cost, e->winner, &estimate);
    bool winner_is_coarse = estimate.is_coarse;
    double winner_score = guess_score(e, estimate.time_s, estimate.peak_memory_bytes);
    double best_score = winner_is_coarse ? -(double)INFINITY : winner_score;
    *shaken = (struct cs_shaken){
        .what = what, .factor = factor, .rank = 1, .best = e->result->ranking[0].candidate};
    for (int64_t i = 0; i < e->n_known; i++) {
        if (!is_guessed(e, &e->known[i])) {
            continue;
        }
        cs_cost_estimate(cost, &e->space->candidates[e->known[i].candidate].strategy, &estimate);
        double score = guess_score(e, estimate.time_s, estimate.peak_memory_bytes);
        shaken->rank += score > winner_score;
        if (score > best_score) {
            best_score = score;
            shaken->best = e->known[i].candidate;
        }
    }
    if (winner_is_coarse) {
        shaken->rank = 0;
    } else {
        shaken->lost_frac = cs__lost_frac(winner_score, best_score);
    }
out:
    cs_cost_free(cost);
    return st;
}

static cs_status shake_all(struct explainer *e, struct cs_err *err)
{
    cs_status st = CS_OK;
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        const struct cs_variant *variant = &cs_explain_variants[i];
        struct cs_cost_scale scale = CS_COST_SCALE_NONE;
        double *figures[] = {&scale.compute, &scale.intra_bytes, &scale.inter_bytes, &scale.latency};
        *figures[i / 2] = variant->factor; /* in the order of the variants */
        CS_TRY(shake(e, variant->what, variant->factor, &scale, &e->out->shaken[i], err));
    }
out:
    return st;
}

double cs_explain_tie_frac(const struct cs_study *study)
{
    const struct cs_interval *interval = &study->interval;
    if (interval->n == 0 || !cs_objective_find(study->search.objective)->is_of_time) {
        return CS_EXPLAIN_TIE_FRAC;
    }
    return (interval->high_frac - interval->low_frac) / (interval->high_frac + interval->low_frac);
}

static void count_ties(struct explainer *e)
{
    const struct cs_ranked *ranking = e->result->ranking;
    for (int64_t i = 1; i < e->result->n_ranked; i++) {
        double away = fabs(ranking[i].score - ranking[0].score);
        e->out->n_ties += away <= cs_explain_tie_frac(e->study) * fabs(ranking[0].score);
    }
}

static bool is_among(int64_t candidate, const int64_t *list, int32_t n)
{
    bool found = false;
    for (int32_t i = 0; i < n; i++) {
        found = found || list[i] == candidate;
    }
    return found;
}

/* The best of the ranking; a short one is filled up with the best of the closed form. */
static void choose_contenders(const struct explainer *e, int64_t contenders[CS_EXPLAIN_CONTENDERS])
{
    for (int32_t k = 0; k < CS_EXPLAIN_CONTENDERS; k++) {
        contenders[k] = k < e->result->n_ranked ? e->result->ranking[k].candidate : -1;
        double best_score = -(double)INFINITY;
        for (int64_t i = 0; i < e->n_known && k >= e->result->n_ranked; i++) {
            const struct cs__known *known = &e->known[i];
            double score = guess_score(e, known->time_s, known->memory_bytes);
            if (is_guessed(e, known) && score > best_score && !is_among(known->candidate, contenders, k)) {
                best_score = score;
                contenders[k] = known->candidate;
            }
        }
    }
}

cs_status cs_explain(struct cs_explanation *explanation, const struct cs_study *study,
                     const struct cs_space *space, const struct cs_search_result *result,
                     const struct cs_simulator *simulator, const struct cs_explain_options *options,
                     struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_trace *trace = NULL;
    int64_t contenders[CS_EXPLAIN_CONTENDERS];
    struct cs_evaluation evaluation;
    struct explainer e = {.out = explanation,
                          .study = study,
                          .space = space,
                          .result = result,
                          .simulator = simulator,
                          .options = options,
                          .winner = &space->candidates[result->ranking[0].candidate].strategy};
    *explanation = (struct cs_explanation){0};
    CS_TRY(cs_simulator_run(simulator, e.winner, &trace, &explanation->winner, &evaluation, err));
    if (options->baseline) {
        cs_trace_free(trace);
        trace = NULL;
        explanation->has_baseline = true;
        explanation->baseline = *options->baseline;
        CS_TRY(cs_simulator_run(simulator, options->baseline, &trace, &explanation->baseline_run,
                                &explanation->baseline_evaluation, err));
    }
    CS_TRY(find_known(&e, err));
    CS_TRY(find_neighbours(&e, err));
    CS_TRY(cs__pareto(explanation, space, result, simulator, e.known, e.n_known, options, err));
    count_ties(&e);
    CS_TRY(shake_all(&e, err));
    if (options->variants) {
        choose_contenders(&e, contenders);
        CS_TRY(
            cs__shake_simulated(explanation->shaken, space, contenders, &simulator->options, options, err));
    }
out:
    cs_trace_free(trace);
    cs_free(e.known);
    if (st != CS_OK) {
        cs_explanation_release(explanation);
    }
    return st;
}

void cs_explanation_release(struct cs_explanation *explanation)
{
    cs_run_release(&explanation->winner);
    cs_run_release(&explanation->baseline_run);
    cs_free(explanation->front);
    *explanation = (struct cs_explanation){0};
}
