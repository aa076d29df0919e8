/* The search on real simulations: branch and bound finds what an enumeration finds, whatever the number of
 * workers; Bayesian search finds it with a hundredth of the simulations. */
#include "claims.h"
#include "cs_test.h"

#include "cs/base/rng.h"
#include "cs/platforms/topology.h"
#include "cs/strategies/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef CS_SANITIZER
#define N_SPACES 2
#else
#define N_SPACES 20
#endif
#define SEED 20260401
#define TEXT_MAX 64
#define SETTINGS_MAX 32

static struct cs_rng rng;

static int32_t pick(int32_t n)
{
    return (int32_t)cs_rng_below(&rng, (uint32_t)n);
}

/** A study made of settings. */
struct world {
    char values[SETTINGS_MAX][TEXT_MAX];
    struct cs_override settings[SETTINGS_MAX];
    int32_t n;
    char platform[64];
    struct cs_study study;
    struct cs_space space;
    struct cs_simulator simulator;
    struct cs_cost *cost;
};

static void set(struct world *w, const char *key, const char *value)
{
    ck_assert_int_lt(w->n, SETTINGS_MAX);
    snprintf(w->values[w->n], TEXT_MAX, "%s", value);
    w->settings[w->n] = (struct cs_override){key, w->values[w->n], false};
    w->n++;
}

static void open_world(struct world *w, const char *study)
{
    struct cs_err err = {0};
    struct cs_run_options options;
    const struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .path = study, .n_overrides = w->n, .overrides = w->settings};
    ck_assert_ok(cs_study_load(&w->study, &source, &err), &err);
    ck_assert_ok(cs_space_build(&w->space, &w->study, &err), &err);
    cs_run_options_init(&options);
    options.simgrid_cfg = getenv("CLUSTERSIM_SIMGRID_CFG");
    ck_assert_ok(cs_simulator_init(&w->simulator, &w->study, &options, &err), &err);
    w->cost = cs_cost_new(&w->study.model, &w->study.training, w->simulator.routes, &w->simulator.options,
                          &CS_COST_SCALE_NONE);
}

static void close_world(struct world *w)
{
    cs_cost_free(w->cost);
    cs_simulator_release(&w->simulator);
    cs_space_release(&w->space);
    cs_study_release(&w->study);
    if (w->platform[0]) {
        unlink(w->platform);
    }
}

static struct cs_search_result search_with(struct world *w, const char *algorithm, int32_t n_workers,
                                           const struct cs_search_memory *memory)
{
    struct cs_err err = {0};
    struct cs_search_result result;
    const struct cs_search_options options = {.n_workers = n_workers,
                                              .evaluate = claims_evaluate,
                                              .evaluate_context = &w->simulator,
                                              .cost = w->cost,
                                              .memory = memory};
    w->study.search.algorithm = algorithm;
    ck_assert_ok(cs_search_run(&result, &w->study, &w->space, &options, &err), &err);
    ck_assert_int_eq(result.n_failed, 0);
    return result;
}

static struct cs_search_result search(struct world *w, const char *algorithm, int32_t n_workers)
{
    return search_with(w, algorithm, n_workers, NULL);
}

static void random_platform(struct world *w)
{
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_topology_spec spec;
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    spec.n_nodes = 1 << pick(3);
    spec.intra_switched = pick(3) == 0;
    spec.topology = pick(3) ? CS_TOPOLOGY_FAT_TREE : CS_TOPOLOGY_TORUS;
    spec.inter_bytes_per_s *= 0.25 * (1 << pick(4));
    snprintf(w->platform, sizeof w->platform, "/tmp/clustersim-test-XXXXXX");
    FILE *stream = fdopen(mkstemp(w->platform), "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_ok(cs_topology_write(&spec, catalogue, stream, CS_NOLOC, &err), &err);
    ck_assert_int_eq(fclose(stream), 0);
    cs_catalogue_free(catalogue);
    set(w, "platform", w->platform);
}

/* Keys that most studies leave alone. */
static void rare_settings(struct world *w, bool experts)
{
    static const char *const schedules[] = {"1f1b", "[1f1b, gpipe]", "[1f1b, interleaved]",
                                            "[1f1b, zero-bubble]"};
    int32_t schedule = pick(4);
    set(w, "strategy.schedule", schedules[schedule]);
    if (schedule == 2) {
        set(w, "strategy.vpp", "[1, 2]");
    }
    if (experts) {
        set(w, "strategy.ep", "[1, 2, 4]");
    }
    switch (pick(5)) {
    case 0:
        set(w, "strategy.layers", "[even, balanced]");
        set(w, "strategy.full_layers", "[none, balanced]");
        return;
    case 1:
        set(w, "strategy.cp", "[1, 2]");
        return;
    case 2:
        set(w, "strategy.fused_tp", "auto");
        set(w, "strategy.swap_activations", "auto");
        return;
    default:
        return;
    }
}

static void random_study(struct world *w)
{
    static const char *const objectives[] = {"throughput", "step_time", "peak_memory"};
    char text[TEXT_MAX];
    random_platform(w);
    bool experts = pick(5) == 0;
    set(w, "model", experts ? "mixtral-8x7b" : pick(2) ? "llama3-8b" : "llama2-7b");
    rare_settings(w, experts);
    snprintf(text, sizeof text, "%d", 32 << pick(4));
    set(w, "training.global_batch", text);
    snprintf(text, sizeof text, "%d", 1024 << pick(3));
    set(w, "training.seq_length", text);
    set(w, "training.gradient_dtype", pick(2) ? "fp32" : "bf16");
    set(w, "strategy.mp", pick(2) ? "[1, 2, 4]" : "[2, 4, 8]");
    set(w, "strategy.pp", pick(2) ? "[1, 2]" : "[1, 4]");
    set(w, "strategy.op", pick(2) ? "[1, dp]" : "[2, dp]");
    set(w, "strategy.zero", pick(2) ? "[1, 3]" : "[1, 2]");
    set(w, "strategy.keep_weights", pick(3) == 0 ? "auto" : "false");
    set(w, "strategy.micro_batch", pick(2) ? "[1, 2]" : "[2]");
    set(w, "strategy.recompute", pick(2) ? "[none, full]" : "[selective, full]");
    set(w, "strategy.placement", pick(2) ? "[\"mp,cp,dp,pp\", \"dp,cp,mp,pp\"]" : "\"mp,cp,pp,dp\"");
    set(w, "constraints.memory_margin", pick(2) ? "1.0" : "1.2");
    if (pick(3) == 0) {
        set(w, "constraints.cross_node_comm_fraction", "0.4");
    }
    set(w, "search.objective", objectives[pick(3)]);
    set(w, "search.top", pick(2) ? "1" : "5");
}

/* The best n_top are the same, to the bit. */
static void same_top(const struct world *w, const struct cs_search_result *a,
                     const struct cs_search_result *b, const char *what)
{
    int64_t n = w->study.search.n_top;
    n = n < a->n_ranked ? n : a->n_ranked;
    ck_assert_msg(b->n_ranked >= n, "%s: %lld ranked, not %lld", what, (long long)b->n_ranked, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        ck_assert_msg(a->ranking[i].candidate == b->ranking[i].candidate &&
                          !memcmp(&a->ranking[i].score, &b->ranking[i].score, sizeof a->ranking[i].score),
                      "%s: rank %lld is candidate %lld (%.17g), not %lld (%.17g)", what, (long long)i + 1,
                      (long long)b->ranking[i].candidate, b->ranking[i].score,
                      (long long)a->ranking[i].candidate, a->ranking[i].score);
    }
}

static void counts_add_up(const struct cs_search_result *r)
{
    /* A candidate that a constraint rejects after its simulation is in two counts. */
    ck_assert_int_le(r->n_candidates, r->n_rejected + r->n_oom + r->n_simulated + r->n_failed + r->n_pruned);
    ck_assert_int_eq(r->n_open, 0);
    ck_assert(r->complete);
}

START_TEST(test_random_space)
{
    struct world w = {.n = 0};
    char what[128];
    cs_rng_init(&rng, SEED, (uint64_t)_i);
    random_study(&w);
    open_world(&w, NULL);
    struct cs_search_result all = search(&w, "enumerate", 2);
    struct cs_search_result one = search(&w, "exhaustive", 1);
    struct cs_search_result many = search(&w, "exhaustive", 3);
    snprintf(what, sizeof what,
             "space %d (seed %d, %lld candidates, %lld simulated by enumeration, %lld not)", _i, SEED,
             (long long)w.space.n_candidates, (long long)all.n_simulated,
             (long long)(all.n_simulated - one.n_simulated));
    printf("%s\n", what);
    same_top(&w, &all, &one, what);
    counts_add_up(&all);
    counts_add_up(&one);
    ck_assert_int_eq(one.n_simulated, many.n_simulated);
    ck_assert_int_eq(one.n_pruned, many.n_pruned);
    ck_assert_int_eq(one.n_ranked, many.n_ranked);
    ck_assert_int_eq(one.n_reasons, many.n_reasons);
    for (int64_t i = 0; i < one.n_ranked; i++) {
        ck_assert_int_eq(one.ranking[i].candidate, many.ranking[i].candidate);
    }
    struct cs_search_result guided = search(&w, "bayes", 2);
    if (all.n_ranked > 0) {
        ck_assert_msg(guided.n_ranked > 0, "%s: bayes found nothing", what);
        double lost = 1 - guided.ranking[0].score / all.ranking[0].score;
        printf("  bayes: %lld simulations, %.2f %% from the best\n", (long long)guided.n_simulated,
               100 * fabs(lost));
        ck_assert_msg(fabs(lost) <= 0.01, "%s: bayes is %.2f %% from the best", what, 100 * fabs(lost));
    }
    cs_search_result_release(&all);
    cs_search_result_release(&one);
    cs_search_result_release(&many);
    cs_search_result_release(&guided);
    close_world(&w);
}
END_TEST

#ifndef CS_SANITIZER
#define N_SEEDS 20

/** A world and what is known of it. */
struct claimed {
    struct world world;
    struct claims_memory known;
};

static struct cs_search_result search_known(void *context, const char *algorithm)
{
    struct claimed *c = context;
    return search_with(&c->world, algorithm, 2, &c->known.memory);
}

/* Searches with every seed and 2 % of an enumeration's simulations; how many come within 1 % of the best. */
static int32_t n_close(struct claimed *c, const char *algorithm, int64_t limit, double best_score)
{
    int64_t most = 0;
    int32_t n =
        claims_n_close(&c->world.study, search_known, c, algorithm, N_SEEDS, limit, best_score, &most);
    ck_assert_int_le(most, limit);
    printf("%s: within 1 %% of the best in %d of %d seeds, %lld simulations each\n", algorithm, n, N_SEEDS,
           (long long)limit);
    return n;
}

/* The shipped study, all schedules and micro-batches, without the placements that lay tensor parallelism
 * across nodes, which are slow to simulate one and all; `bench_search --claims` says the same of all of it.
 */
/* Simulates all but one, which fails. */
struct but_one {
    struct cs_simulator *simulator;
    struct cs_strategy fails;
};

static cs_status evaluate_but_one(void *context, const struct cs_strategy *strategy,
                                  struct cs_evaluation *evaluation, struct cs_err *err)
{
    struct but_one *but_one = context;
    if (cs_strategy_equal(strategy, &but_one->fails)) {
        return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "made-up failure");
    }
    return cs_simulator_evaluate(but_one->simulator, strategy, evaluation, err);
}

START_TEST(test_what_failed_is_not_decided)
{
    /* The best one fails: what is left may be as much better than the best found as that one is. */
    struct world w = {0};
    struct cs_err err = {0};
    struct cs_search_result failed;
    set(&w, "strategy.mp", "8");
    set(&w, "strategy.schedule", "1f1b");
    set(&w, "strategy.placement", "mp,cp,dp,pp");
    set(&w, "strategy.micro_batch", "[1, 2]");
    open_world(&w, "llama3-70b-64");
    struct cs_search_result whole = search(&w, "exhaustive", 2);
    ck_assert(whole.complete);
    struct but_one but_one = {&w.simulator, w.space.candidates[whole.ranking[0].candidate].strategy};
    const struct cs_search_options options = {
        .n_workers = 2, .evaluate = evaluate_but_one, .evaluate_context = &but_one, .cost = w.cost};
    ck_assert_ok(cs_search_run(&failed, &w.study, &w.space, &options, &err), &err);
    ck_assert_int_eq(failed.n_failed, 1);
    ck_assert(!failed.complete);
    ck_assert_int_eq(failed.ranking[0].candidate, whole.ranking[1].candidate);
    ck_assert_double_ge(failed.gap_frac, whole.ranking[0].score / whole.ranking[1].score - 1);
    cs_search_result_release(&failed);
    cs_search_result_release(&whole);
    close_world(&w);
}
END_TEST

START_TEST(test_few_simulations)
{
    struct claimed claimed = {.world = {.n = 0}};
    struct world *w = &claimed.world;
    set(w, "strategy.mp", "[1, 2, 4, 8]");
    set(w, "strategy.placement", "[\"mp,cp,dp,pp\", \"mp,cp,pp,dp\"]");
    open_world(w, "llama3-70b-64");
    claims_memory_init(&claimed.known, &w->space);
    ck_assert_int_ge(w->space.n_open, 5000);
    struct cs_search_result all = search_known(&claimed, "enumerate");
    struct cs_search_result proof = search_known(&claimed, "exhaustive");
    same_top(w, &all, &proof, "llama3-70b-64");
    printf("llama3-70b-64: %lld strategies fit, enumeration simulates %lld, branch and bound %lld\n",
           (long long)all.n_fit, (long long)all.n_simulated, (long long)proof.n_simulated);
    ck_assert_int_le(proof.n_simulated, (30 * all.n_simulated) / 100);
    int64_t limit = all.n_simulated * 2 / 100;
    ck_assert_int_ge(n_close(&claimed, "bayes", limit, all.ranking[0].score), 18);
    ck_assert_int_lt(n_close(&claimed, "random", limit, all.ranking[0].score), 18);
    cs_search_result_release(&all);
    cs_search_result_release(&proof);
    claims_memory_release(&claimed.known);
    close_world(w);
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("search");
    TCase *c = tcase_create("real");
    tcase_add_loop_test(c, test_random_space, 0, N_SPACES);
#ifndef CS_SANITIZER
    tcase_add_test(c, test_few_simulations);
    tcase_add_test(c, test_what_failed_is_not_decided);
#endif
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
