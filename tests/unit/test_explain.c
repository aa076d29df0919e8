/* Explanations of a winner, and the closed form's order against the simulation's, on a small real space. */
#include "claims.h"
#include "cs_test.h"

#include "cs/strategies/explain.h"
#include "cs/strategies/misrank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct cs_override settings[] = {
    {"model", "llama3-8b", true},
    {"platform", "{base: 910b-8x8, nodes: 2}", false},
    {"training.global_batch", "64", false},
    {"training.seq_length", "2048", false},
    {"strategy.mp", "[1, 2, 4, 8]", false},
    {"strategy.pp", "[1, 2]", false},
    {"strategy.op", "dp", false},
    {"strategy.zero", "[1, 3]", false},
    {"strategy.sp", "true", false},
    {"strategy.schedule", "1f1b", false},
    {"strategy.micro_batch", "[1, 2]", false},
    {"strategy.recompute", "[none, full]", false},
    {"constraints.memory_margin", "1.0", false},
    {"search.top", "5", false},
    {"search.algorithm", "enumerate", false},
};
#define N_SETTINGS CS_COUNT(settings)

struct world {
    struct cs_study study;
    struct cs_space space;
    struct cs_simulator simulator;
    struct cs_cost *cost;
    struct cs_search_result result;
};

static void load_two(struct cs_study *study, const struct cs_override *extra, const struct cs_override *more)
{
    struct cs_err err = {0};
    struct cs_override all[N_SETTINGS + 2];
    int32_t n = N_SETTINGS;
    memcpy(all, settings, sizeof settings);
    if (extra) {
        all[n++] = *extra;
    }
    if (more) {
        all[n++] = *more;
    }
    const struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .n_overrides = n, .overrides = all};
    ck_assert_ok(cs_study_load(study, &source, &err), &err);
}

static void load(struct cs_study *study, const struct cs_override *extra)
{
    load_two(study, extra, NULL);
}

static void open_world(struct world *w, const struct cs_override *extra)
{
    struct cs_err err = {0};
    struct cs_run_options options;
    memset(w, 0, sizeof *w);
    load(&w->study, extra);
    ck_assert_ok(cs_space_build(&w->space, &w->study, &err), &err);
    cs_run_options_init(&options);
    options.simgrid_cfg = getenv("CLUSTERSIM_SIMGRID_CFG");
    ck_assert_ok(cs_simulator_init(&w->simulator, &w->study, &options, &err), &err);
    w->cost = cs_cost_new(&w->study.model, &w->study.training, w->simulator.routes, &w->simulator.options,
                          &CS_COST_SCALE_NONE);
    const struct cs_search_options search = {
        .n_workers = 2, .evaluate = claims_evaluate, .evaluate_context = &w->simulator, .cost = w->cost};
    ck_assert_ok(cs_search_run(&w->result, &w->study, &w->space, &search, &err), &err);
    ck_assert_int_gt(w->result.n_ranked, 8);
}

static void close_world(struct world *w)
{
    cs_search_result_release(&w->result);
    cs_cost_free(w->cost);
    cs_simulator_release(&w->simulator);
    cs_space_release(&w->space);
    cs_study_release(&w->study);
}

static double step_of(const struct world *w, int64_t candidate)
{
    for (int64_t i = 0; i < w->result.n_ranked; i++) {
        if (w->result.ranking[i].candidate == candidate) {
            return w->result.ranking[i].metrics.iteration_s;
        }
    }
    ck_abort_msg("candidate %lld is not ranked", (long long)candidate);
    return 0;
}

/* Is x at least as fast and as small as y, and one of it more so? */
static bool dominates(const struct cs_metrics *x, double time_s, int64_t memory_bytes)
{
    bool not_worse = x->iteration_s <= time_s && x->peak_memory_bytes <= memory_bytes;
    return not_worse && (x->iteration_s < time_s || x->peak_memory_bytes < memory_bytes);
}

/* `w` knows every result: no member of the front is beaten by one, whatever is not beaten is a member, and so
 * is the winner. */
static void check_front(const struct world *w, const struct cs_explanation *e)
{
    bool has_winner = false;
    for (int64_t k = 0; k < e->n_front; k++) {
        const struct cs_front_point *point = &e->front[k];
        ck_assert(point->simulated);
        ck_assert_double_eq_tol(point->time_s, step_of(w, point->candidate), 1e-9 * point->time_s);
        has_winner = has_winner || point->candidate == w->result.ranking[0].candidate;
        for (int64_t i = 0; i < w->result.n_ranked; i++) {
            ck_assert(!dominates(&w->result.ranking[i].metrics, point->time_s, point->memory_bytes));
        }
    }
    ck_assert(has_winner);
    for (int64_t i = 0; i < w->result.n_ranked; i++) {
        const struct cs_metrics *m = &w->result.ranking[i].metrics;
        bool beaten = false;
        bool is_member = false;
        for (int64_t k = 0; k < w->result.n_ranked; k++) {
            beaten = beaten || dominates(&w->result.ranking[k].metrics, m->iteration_s, m->peak_memory_bytes);
        }
        for (int64_t k = 0; k < e->n_front; k++) { /* of equal ones the first stands for all */
            is_member =
                is_member || (e->front[k].time_s >= m->iteration_s && e->front[k].time_s <= m->iteration_s &&
                              e->front[k].memory_bytes == m->peak_memory_bytes);
        }
        ck_assert_msg(beaten != is_member, "candidate %lld", (long long)w->result.ranking[i].candidate);
    }
}

/* Everything was simulated, so that every figure of the explanation can be looked up. */
static void check_explanation(const struct world *w, const struct cs_explanation *e)
{
    double winner_s = w->result.ranking[0].metrics.iteration_s;
    double path_s = 0;
    for (int32_t i = 0; i < e->winner.n_path; i++) {
        path_s += e->winner.path[i].time_s;
    }
    ck_assert_double_eq_tol(path_s, winner_s, 1e-6 * winner_s);
    ck_assert_int_gt(e->n_neighbours, 2);
    for (int32_t i = 0; i < e->n_neighbours; i++) {
        const struct cs_neighbour *n = &e->neighbours[i];
        if (n->outcome == CS_OUTCOME_OK) {
            ck_assert_double_eq_tol(n->loss_frac, step_of(w, n->candidate) / winner_s - 1, 1e-9);
            ck_assert_double_ge(n->loss_frac, 0);
            ck_assert(i == 0 || n->loss_frac >= e->neighbours[i - 1].loss_frac);
        } else {
            ck_assert_int_eq(n->outcome, CS_OUTCOME_OOM);
            ck_assert(isnan(n->loss_frac));
            ck_assert_double_gt((double)n->peak_memory_bytes, cs_study_device_memory_bytes(&w->study));
        }
        const struct cs_strategy *winner = &w->space.candidates[w->result.ranking[0].candidate].strategy;
        const struct cs_strategy *other = &w->space.candidates[n->candidate].strategy;
        ck_assert_int_ne(cs_key_get(winner, (enum cs_key)n->key), cs_key_get(other, (enum cs_key)n->key));
    }
    int64_t n_ties = 0;
    for (int64_t i = 1; i < w->result.n_ranked; i++) {
        n_ties +=
            1 - w->result.ranking[i].score / w->result.ranking[0].score <= cs_explain_tie_frac(&w->study);
    }
    ck_assert_int_eq(e->n_ties, n_ties);
    ck_assert_int_ge(e->n_front, 2);
    check_front(w, e);
}

START_TEST(a_winner_is_explained)
{
    struct world w;
    struct cs_err err = {0};
    struct cs_explanation e = {0};
    struct cs_strategy baseline;
    open_world(&w, NULL);
    ck_assert_ok(
        cs_study_strategy(&w.study, "dp=2,mp=8,recompute=full,micro_batch=1,zero=1,pp=1", &baseline, &err),
        &err);
    const struct cs_explain_options options = {.baseline = &baseline, .n_workers = 2};
    ck_assert_ok(cs_explain(&e, &w.study, &w.space, &w.result, &w.simulator, &options, &err), &err);
    check_explanation(&w, &e);
    ck_assert(e.has_baseline && e.baseline_evaluation.simulated);
    ck_assert_double_gt(e.baseline_run.metrics.iteration_s, e.winner.metrics.iteration_s);
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        ck_assert_int_eq(e.shaken[i].n_simulated, 0);
        ck_assert_int_ge(e.shaken[i].rank, 1);
    }
    cs_explanation_release(&e);
    close_world(&w);
}
END_TEST

/* Simulated robustness is what simulating the ranking on the other hardware by hand says. */
START_TEST(other_hardware_is_simulated)
{
    struct world w;
    struct cs_err err = {0};
    struct cs_explanation e = {0};
    struct cs_study variants[CS_EXPLAIN_SHAKEN] = {0};
    const struct cs_study *list[CS_EXPLAIN_SHAKEN];
    char value[CS_EXPLAIN_SHAKEN][32];
    open_world(&w, NULL);
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        snprintf(value[i], sizeof value[i], "%g", cs_explain_variants[i].factor);
        load(&variants[i], &(struct cs_override){cs_explain_variants[i].key, value[i], false});
        list[i] = &variants[i];
    }
    const struct cs_explain_options options = {.variants = list, .n_workers = 2};
    ck_assert_ok(cs_explain(&e, &w.study, &w.space, &w.result, &w.simulator, &options, &err), &err);
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        const struct cs_shaken *shaken = &e.shaken[i];
        struct cs_simulator other;
        double winner_s = 0;
        int64_t rank = 1;
        ck_assert_int_ge(shaken->n_simulated, CS_EXPLAIN_CONTENDERS);
        ck_assert_ok(cs_simulator_init(&other, &variants[i], &w.simulator.options, &err), &err);
        for (int64_t k = 0; k < CS_EXPLAIN_CONTENDERS; k++) {
            struct cs_evaluation evaluation;
            ck_assert_ok(cs_simulator_evaluate(&other,
                                               &w.space.candidates[w.result.ranking[k].candidate].strategy,
                                               &evaluation, &err),
                         &err);
            winner_s = k == 0 ? evaluation.metrics.iteration_s : winner_s;
            rank += evaluation.metrics.iteration_s < winner_s;
        }
        /* The closed form's candidate may be one more. */
        ck_assert_int_ge(shaken->rank, rank);
        ck_assert_int_le(shaken->rank, rank + 1);
        ck_assert(shaken->rank > 1 ? shaken->lost_frac > 0 : shaken->lost_frac <= 0);
        bool faster = cs_explain_variants[i].factor > 1;
        bool is_latency = i >= CS_EXPLAIN_SHAKEN - 2;
        if (faster != is_latency) {
            ck_assert_double_le(winner_s, w.result.ranking[0].metrics.iteration_s);
        } else {
            ck_assert_double_ge(winner_s, w.result.ranking[0].metrics.iteration_s);
        }
        cs_simulator_release(&other);
    }
    cs_explanation_release(&e);
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        cs_study_release(&variants[i]);
    }
    close_world(&w);
}
END_TEST

/* The objective ranks, and what breaks a constraint on the other hardware is not named as better there. */
START_TEST(other_hardware_keeps_study)
{
    struct cs_override extras[] = {
        {"constraints.cross_node_comm_fraction", NULL, false},
        {"search.objective", "peak_memory", false},
        {"constraints.rules", "[peak_memory_bytes > 20GiB]", false},
    };
    struct world w;
    struct cs_err err = {0};
    struct cs_explanation e = {0};
    struct cs_study variants[CS_EXPLAIN_SHAKEN] = {0};
    const struct cs_study *list[CS_EXPLAIN_SHAKEN];
    int32_t n_breaks = 0;
    char value[32];
    char limit[32];
    open_world(&w, NULL);
    /* What the winner just keeps here, it breaks where computing is faster or the network slower. */
    ck_assert_double_gt(w.result.ranking[0].metrics.cross_node_comm_frac, 0);
    snprintf(limit, sizeof limit, "%.9f", 1.001 * w.result.ranking[0].metrics.cross_node_comm_frac);
    extras[0].value = limit;
    close_world(&w);
    open_world(&w, &extras[_i]);
    const struct cs_objective *objective = w.result.objective;
    const struct cs_ranked *winner = &w.result.ranking[0];
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        snprintf(value, sizeof value, "%g", cs_explain_variants[i].factor);
        load_two(&variants[i], &extras[_i], &(struct cs_override){cs_explain_variants[i].key, value, false});
        list[i] = &variants[i];
    }
    const struct cs_explain_options options = {.variants = list, .n_workers = 2};
    ck_assert_ok(cs_explain(&e, &w.study, &w.space, &w.result, &w.simulator, &options, &err), &err);
    for (int32_t i = 0; i < CS_EXPLAIN_SHAKEN; i++) {
        const struct cs_shaken *shaken = &e.shaken[i];
        struct cs_simulator other;
        struct cs_evaluation now, best;
        ck_assert_ok(cs_simulator_init(&other, &variants[i], &w.simulator.options, &err), &err);
        ck_assert_ok(
            cs_simulator_evaluate(&other, &w.space.candidates[winner->candidate].strategy, &now, &err), &err);
        ck_assert_ok(cs_simulator_evaluate(&other, &w.space.candidates[shaken->best].strategy, &best, &err),
                     &err);
        ck_assert_int_eq(shaken->winner_breaks, now.outcome != CS_OUTCOME_OK);
        n_breaks += shaken->winner_breaks;
        if (shaken->best != winner->candidate) {
            ck_assert_int_eq(best.outcome, CS_OUTCOME_OK);
            ck_assert(shaken->winner_breaks || cs_objective_score(objective, &best.metrics, &variants[i]) >
                                                   cs_objective_score(objective, &now.metrics, &variants[i]));
        }
        cs_simulator_release(&other);
        cs_study_release(&variants[i]);
    }
    ck_assert(_i == 0 ? n_breaks > 0 : n_breaks == 0);
    for (int32_t i = 0; i < e.n_neighbours; i++) {
        const struct cs_neighbour *n = &e.neighbours[i];
        ck_assert(isnan(n->worse_frac) || n->worse_frac >= 0 || n->outcome != CS_OUTCOME_OK);
        ck_assert(i == 0 || isnan(n->worse_frac) || n->worse_frac >= e.neighbours[i - 1].worse_frac);
    }
    cs_explanation_release(&e);
    close_world(&w);
}
END_TEST

/* A search that leaves most out has the same front as one that simulates everything: with context parallelism
 * and other schedules, of which the closed form knows bounds only, a constraint on results, and uneven
 * stages. */
START_TEST(the_front_is_that_of_everything)
{
    static const struct cs_override extras[] = {
        {"strategy.schedule", "[1f1b, interleaved, zero-bubble]", false},
        {"strategy.cp", "[1, 2]", false},
        {"search.objective", "peak_memory", false},
        {"search.top", "1", false},
        {"constraints.cross_node_comm_fraction", "0.3", false},
        {"strategy.layers", "auto", false},
    };
    struct cs_err err = {0};
    struct world w;
    struct cs_search_result bounded;
    struct cs_explanation e = {0};
    const struct cs_explain_options options = {.n_workers = 2};
    open_world(&w, &extras[_i]);
    w.study.search.algorithm = "exhaustive";
    const struct cs_search_options search = {
        .n_workers = 2, .evaluate = claims_evaluate, .evaluate_context = &w.simulator, .cost = w.cost};
    ck_assert_ok(cs_search_run(&bounded, &w.study, &w.space, &search, &err), &err);
    ck_assert_int_eq(bounded.ranking[0].candidate, w.result.ranking[0].candidate);
    ck_assert_ok(cs_explain(&e, &w.study, &w.space, &bounded, &w.simulator, &options, &err), &err);
    ck_assert(e.front_is_whole);
    printf("%lld simulated, %lld more for a front of %lld, of %lld\n", (long long)bounded.n_simulated,
           (long long)e.n_front_simulated, (long long)e.n_front, (long long)w.result.n_simulated);
    check_front(&w, &e);
    cs_explanation_release(&e);
    cs_search_result_release(&bounded);
    close_world(&w);
}
END_TEST

/* One key changed may take others along: without sharding zero is 1. */
START_TEST(no_sharding_is_a_neighbour_of_zero_3)
{
    static const struct cs_override op = {"strategy.op", "[1, dp]", false};
    struct cs_err err = {0};
    struct world w;
    struct cs_explanation e = {0};
    const struct cs_explain_options options = {.n_workers = 2};
    open_world(&w, &op);
    int64_t winner = 0;
    while (w.space.candidates[w.result.ranking[winner].candidate].strategy.zero != 3) {
        winner++;
    }
    w.result.ranking[0] = w.result.ranking[winner]; /* as if it were */
    const struct cs_strategy *s = &w.space.candidates[w.result.ranking[0].candidate].strategy;
    ck_assert_int_gt(s->op, 1);
    ck_assert_ok(cs_explain(&e, &w.study, &w.space, &w.result, &w.simulator, &options, &err), &err);
    int32_t n_op = 0;
    for (int32_t i = 0; i < e.n_neighbours; i++) {
        const struct cs_strategy *other = &w.space.candidates[e.neighbours[i].candidate].strategy;
        if (e.neighbours[i].key == CS_KEY_OP) {
            n_op++;
            ck_assert_int_eq(other->op, 1);
            ck_assert_int_eq(other->zero, 1);
            ck_assert_int_eq(other->mp, s->mp);
        }
    }
    ck_assert_int_eq(n_op, 1);
    cs_explanation_release(&e);
    close_world(&w);
}
END_TEST

START_TEST(the_closed_form_is_compared)
{
    struct world w;
    struct cs_misrank m;
    open_world(&w, NULL);
    cs_misrank_find(&m, &w.space, &w.result, w.cost);
    ck_assert_int_eq(m.n, w.result.n_ranked);
    ck_assert_int_eq(m.n_lack[CS_LACK_NOTHING] + m.n_lack[CS_LACK_INTER] + m.n_lack[CS_LACK_INTRA] +
                         m.n_lack[CS_LACK_EVERYTHING],
                     m.n);
    ck_assert_int_eq(m.n_lack[CS_LACK_EVERYTHING], 0);
    ck_assert_double_gt(m.spearman, 0.9);
    ck_assert_double_le(m.bias_frac, 1e-9); /* a lower bound is never above */
    ck_assert_double_eq_tol(m.mape_frac, -m.bias_frac, 1e-9);
    ck_assert_double_ge(m.top1_regret_frac, m.top5_regret_frac);
    ck_assert_double_ge(m.top5_regret_frac, 0);
    for (int32_t i = 0; i < m.n_worst; i++) {
        const struct cs_misranked *worst = &m.worst[i];
        ck_assert_int_eq(w.result.ranking[worst->simulated_rank - 1].candidate, worst->candidate);
        ck_assert_int_ne(worst->simulated_rank, worst->closed_rank);
    }
    close_world(&w);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("explain");
    TCase *c = tcase_create("small");
    tcase_add_test(c, a_winner_is_explained);
    tcase_add_test(c, other_hardware_is_simulated);
    tcase_add_loop_test(c, other_hardware_keeps_study, 0, 3);
    tcase_add_loop_test(c, the_front_is_that_of_everything, 0, 6);
    tcase_add_test(c, no_sharding_is_a_neighbour_of_zero_3);
    tcase_add_test(c, the_closed_form_is_compared);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
