/* Sweeps and plans: what their blocks mean, and that a plan is what a loop over searches finds. */
#include "cs/base/rng.h"
#include "cs/strategies/plan.h"
#include "cs/strategies/sweep.h"

#include "cs_test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define STUDY_FILE "test_sweep_study.yaml"

static struct cs_study_source write_study(const char *text)
{
    FILE *file = fopen(STUDY_FILE, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    return (struct cs_study_source){.data_dir = CS_TEST_SOURCE_DIR, .path = "./" STUDY_FILE};
}

static void teardown(void)
{
    unlink(STUDY_FILE);
}

#define SMALL                                                                                                \
    "model: llama3-8b\n"                                                                                     \
    "platform: {server: 910b-10to1, nodes: 1}\n"                                                             \
    "training: {global_batch: 32, seq_length: 2048}\n"                                                       \
    "strategy: {mp: [4, 8], pp: [1, 2], op: dp, sp: true, recompute: [none, full]}\n"

/* ---- axes ---- */

static const struct {
    const char *text;
    int32_t n;
    const char *key, *first, *last;
} good_axes[] = {
    {"nodes=8,16,32", 3, "platform.nodes", "8", "32"},
    {"ratio=1..20", 20, "platform.ratio", "1", "20"},
    {"ratio=1..2+0.25", 5, "platform.ratio", "1", "2"},
    {"devices=64..4096*2", 7, "platform.devices", "64", "4096"},
    {"training.seq_length=4096", 1, "training.seq_length", "4096", "4096"},
    {"platform.dims=[4, 2], [2,4]", 2, "platform.dims", "[4, 2]", "[2,4]"},
};

START_TEST(test_good_axis)
{
    struct cs_err err = {0};
    struct cs_sweep sweep = {0};
    ck_assert_ok(cs_sweep_add(&sweep, good_axes[_i].text, CS_NOLOC, &err), &err);
    const struct cs_sweep_axis *axis = &sweep.axes[0];
    ck_assert_int_eq(sweep.n_axes, 1);
    ck_assert_int_eq(axis->n, good_axes[_i].n);
    ck_assert_str_eq(axis->keys[0], good_axes[_i].key);
    ck_assert_str_eq(axis->values[0], good_axes[_i].first);
    ck_assert_str_eq(axis->values[axis->n - 1], good_axes[_i].last);
    cs_sweep_release(&sweep);
}
END_TEST

static const struct {
    const char *text;
    cs_status code;
    const char *part;
} bad_axes[] = {
    {"nodes", CS_E_INPUT, "expected KEY=LIST"},
    {"nodes=", CS_E_INPUT, "expected KEY=LIST"},
    {"=1,2", CS_E_INPUT, "keys"},
    {"nodes=8,,16", CS_E_INPUT, "is not 1 value"},
    {"nodes,global_batch=8:1,16", CS_E_INPUT, "is not 2 values"},
    {"nodes,global_batch=8:1:2", CS_E_INPUT, "is not 2 values"},
    {"nodes=8..2", CS_E_INPUT, "FROM..TO"},
    {"nodes=1..8*1", CS_E_INPUT, "FROM..TO"},
    {"nodes=1..8+0", CS_E_INPUT, "FROM..TO"},
    {"nodes=1..x", CS_E_INPUT, "FROM..TO"},
    {"nodes=1..1000000", CS_E_LIMIT, "more than"},
    {"a,b,c,d,e=1:2:3:4:5", CS_E_INPUT, "keys"},
    {"nodes=2,2", CS_E_INPUT, "'platform.nodes' is swept over '2' twice (values 1 and 2)"},
    {"nodes=2,4,2.0", CS_E_INPUT, "twice (values 1 and 3)"},
    {"nodes,global_batch=2:8,2:8", CS_E_INPUT, "twice"},
    {"nodes,nodes=1:2", CS_E_INPUT, "'platform.nodes' is there twice among the keys"},
    {"strategy.mp,strategy.tp=1:2", CS_E_INPUT, "'strategy.tp' is there twice"},
    {"plan.tokens=1G,2G", CS_E_INPUT, "'plan.tokens' cannot be swept"},
    {"sweep.upgrades=true,false", CS_E_INPUT, "'sweep.upgrades' cannot be swept"},
};

START_TEST(test_bad_axis)
{
    struct cs_err err = {0};
    struct cs_sweep sweep = {0};
    ck_assert_fails(cs_sweep_add(&sweep, bad_axes[_i].text, CS_NOLOC, &err), &err, bad_axes[_i].code, 0,
                    bad_axes[_i].part);
    cs_sweep_release(&sweep);
}
END_TEST

START_TEST(test_points_are_the_product)
{
    struct cs_err err = {0};
    struct cs_sweep sweep = {0};
    ck_assert_ok(cs_sweep_add(&sweep, "nodes,global_batch=8:64,16:128", CS_NOLOC, &err), &err);
    ck_assert_ok(cs_sweep_add(&sweep, "ratio=1,5", CS_NOLOC, &err), &err);
    ck_assert_int_eq(cs_sweep_n_points(&sweep), 4);
    const struct cs_point_spec *specs = cs_sweep_specs(&sweep);
    ck_assert_int_eq(specs[3].n_overrides, 3);
    ck_assert_str_eq(specs[3].overrides[0].value, "16");
    ck_assert_str_eq(specs[3].overrides[1].value, "128");
    ck_assert_str_eq(specs[3].overrides[2].value, "5");
    ck_assert_str_eq(specs[1].overrides[0].value, "8");
    ck_assert_int_eq(cs_sweep_value(&sweep, 2, 0), 1);
    ck_assert_int_eq(cs_sweep_value(&sweep, 2, 1), 0);
    cs_sweep_release(&sweep);
}
END_TEST

/* What would be said twice. */
START_TEST(test_twice)
{
    struct cs_err err = {0};
    struct cs_sweep sweep = {0};
    struct cs_override set[] = {{"training.seq_length", "4096", false}, {"platform", "910b-8x8", true}};
    ck_assert_ok(cs_sweep_add(&sweep, "nodes=1,2", CS_NOLOC, &err), &err);
    ck_assert_fails(cs_sweep_add(&sweep, "nodes=4", CS_NOLOC, &err), &err, CS_E_INPUT, 0,
                    "'platform.nodes' is swept already");
    err = (struct cs_err){0};
    ck_assert_fails(cs_sweep_add(&sweep, "nodes,ratio=4:1", CS_NOLOC, &err), &err, CS_E_INPUT, 0,
                    "'platform.nodes' is swept already");
    err = (struct cs_err){0};
    ck_assert_fails(cs_sweep_add(&sweep, "platform=910b-8x8,cloudmatrix384", CS_NOLOC, &err), &err,
                    CS_E_INPUT, 0, "'platform' would undo 'platform.nodes'");
    ck_assert_int_eq(sweep.n_axes, 1);
    ck_assert_ok(cs_sweep_check_set(&sweep, 2, set, &err), &err);
    set[0].key = "platform.nodes";
    err = (struct cs_err){0};
    ck_assert_fails(cs_sweep_check_set(&sweep, 2, set, &err), &err, CS_E_INPUT, 0,
                    "the sweep sets 'platform.nodes' at every point");
    cs_sweep_release(&sweep);
}
END_TEST

START_TEST(test_block)
{
    struct cs_err err = {0};
    struct cs_sweep sweep = {0};
    struct cs_study_source source =
        write_study(SMALL "sweep:\n  strategy: mp=8\n  upgrades: false\n  over:\n"
                          "    platform.nodes: [1, 2]\n    ratio: 1..3\n"
                          "    seq_length, global_batch: [[2048, 64], [4096, 32]]\n");
    ck_assert_ok(cs_sweep_read(&sweep, &source, &err), &err);
    ck_assert_int_eq(sweep.n_axes, 3);
    ck_assert_int_eq(cs_sweep_n_points(&sweep), 12);
    ck_assert_str_eq(sweep.strategy, "mp=8");
    ck_assert(!sweep.upgrades);
    ck_assert_str_eq(sweep.axes[2].values[3], "32");
    ck_assert_ok(cs_sweep_add(&sweep, "nodes=4", CS_NOLOC, &err), &err); /* instead of the study's */
    ck_assert_int_eq(cs_sweep_n_points(&sweep), 6);
    ck_assert_str_eq(sweep.axes[0].values[0], "4");
    ck_assert_fails(cs_sweep_add(&sweep, "seq_length=1024", CS_NOLOC, &err), &err, CS_E_INPUT, 0,
                    "'training.seq_length' is swept already, together with other keys");
    cs_sweep_release(&sweep);
}
END_TEST

/* ---- points ---- */

static void run_points(const struct cs_study_source *source, struct cs_sweep *sweep, struct cs_point *points,
                       int32_t n_workers)
{
    struct cs_err err = {0};
    struct cs_points_options options = {.source = source, .upgrades = true, .n_workers = n_workers};
    cs_run_options_init(&options.run);
    options.run.simgrid_cfg = getenv("CLUSTERSIM_SIMGRID_CFG");
    ck_assert_ok(cs_points_run(points, cs_sweep_specs(sweep), cs_sweep_n_points(sweep), &options, &err),
                 &err);
}

/* What crosses nodes matters with several nodes and only there; a refused point does not end the others. */
START_TEST(test_only_what_is_used_matters)
{
    struct cs_err err = {0};
    struct cs_study_source source = write_study(SMALL);
    struct cs_sweep sweep = {0};
    struct cs_point points[6];
    struct cs_point again[6];
    ck_assert_ok(cs_sweep_add(&sweep, "nodes=1,2,0", CS_NOLOC, &err), &err);
    ck_assert_ok(cs_sweep_add(&sweep, "ratio=1,20", CS_NOLOC, &err), &err);
    run_points(&source, &sweep, points, 2);
    ck_assert_int_eq(points[0].outcome, CS_OUTCOME_OK);
    ck_assert_int_eq(points[4].outcome, CS_OUTCOME_REJECTED);
    ck_assert_msg(strstr(points[4].reason, "nodes") != NULL, "%s", points[4].reason);
    ck_assert_double_eq(points[0].metrics.iteration_s, points[1].metrics.iteration_s);
    ck_assert_double_lt(points[2].metrics.iteration_s, points[3].metrics.iteration_s);
    ck_assert(cs_sweep_axis_matters(&sweep, points, 1));
    ck_assert_double_eq_tol(points[0].gain_frac[CS_UPGRADE_INTER_BANDWIDTH], 0, 1e-9);
    ck_assert_double_gt(points[0].gain_frac[CS_UPGRADE_COMPUTE], 0.01);
    ck_assert_double_gt(points[3].gain_frac[CS_UPGRADE_INTER_BANDWIDTH], 0);
    /* nothing depends on how many worked on it */
    run_points(&source, &sweep, again, 5);
    for (int32_t i = 0; i < 4; i++) {
        ck_assert_double_eq(again[i].metrics.iteration_s, points[i].metrics.iteration_s);
        ck_assert(cs_strategy_equal(&again[i].strategy, &points[i].strategy));
    }
    sweep.axes[0].n = 1; /* one node alone: the ratio changes nothing */
    ck_assert(!cs_sweep_axis_matters(&sweep, points, 1));
    cs_sweep_release(&sweep);
}
END_TEST

/* ---- plans ---- */

#define PLAN                                                                                                 \
    "plan:\n"                                                                                                \
    "  tokens: 1G\n"                                                                                         \
    "  deadline: 12h\n"                                                                                      \
    "  failures: {node_mtbf: 30d, checkpoint: 60s, restart: 10min}\n"                                        \
    "  clusters:\n"                                                                                          \
    "    - {server: 910b-10to1, nodes: [2, 1, 4], node_price_per_hour: 10}\n"                                \
    "    - {server: atlas-800t-a2, topology: torus, nodes: [1, 2], node_price_per_hour: 9, node_power: "     \
    "5000W}\n"

/* Step time of the best strategy of a study, by looking at every candidate in turn. */
static cs_status brute_force(const char *server, const char *topology, const char *nodes,
                             double *tokens_per_s, int32_t *n_nodes)
{
    struct cs_err err = {0};
    struct cs_override list[] = {{"platform.server", server, true},
                                 {"platform.topology", topology, true},
                                 {"platform.nodes", nodes, true}};
    struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .path = "./" STUDY_FILE, .n_overrides = 3, .overrides = list};
    struct cs_study study = {0};
    struct cs_space space = {0};
    struct cs_simulator simulator = {0};
    struct cs_run_options run;
    cs_run_options_init(&run);
    run.simgrid_cfg = getenv("CLUSTERSIM_SIMGRID_CFG");
    *tokens_per_s = 0;
    ck_assert_ok(cs_study_load(&study, &source, &err), &err);
    ck_assert_ok(cs_space_build(&space, &study, &err), &err);
    ck_assert_ok(cs_simulator_init(&simulator, &study, &run, &err), &err);
    *n_nodes = study.platform.n_nodes;
    for (int64_t i = 0; i < space.n_candidates; i++) {
        struct cs_evaluation evaluation;
        if (!space.candidates[i].rule) {
            ck_assert_ok(cs_simulator_evaluate(&simulator, &space.candidates[i].strategy, &evaluation, &err),
                         &err);
            if (evaluation.outcome == CS_OUTCOME_OK) {
                *tokens_per_s = fmax(*tokens_per_s, evaluation.metrics.tokens_per_s);
            }
        }
    }
    cs_simulator_release(&simulator);
    cs_space_release(&space);
    cs_study_release(&study);
    return CS_OK;
}

START_TEST(test_plan_is_brute_force)
{
    static const char *const clusters[][3] = {{"910b-10to1", "fat-tree", "1"},
                                              {"910b-10to1", "fat-tree", "2"},
                                              {"910b-10to1", "fat-tree", "4"},
                                              {"atlas-800t-a2", "torus", "1"},
                                              {"atlas-800t-a2", "torus", "2"}};
    struct cs_err err = {0};
    struct cs_plan plan = {0};
    struct cs_point points[5];
    struct cs_plan_row rows[5];
    struct cs_plan_answer answer = {.rows = rows};
    struct cs_study_source source = write_study(SMALL PLAN);
    struct cs_points_options options = {.source = &source, .n_workers = 2};
    cs_run_options_init(&options.run);
    options.run.simgrid_cfg = getenv("CLUSTERSIM_SIMGRID_CFG");
    ck_assert_ok(cs_plan_read(&plan, &source, &err), &err);
    ck_assert_int_eq(plan.n_clusters, 5);
    ck_assert_ok(cs_points_run(points, cs_plan_specs(&plan), 5, &options, &err), &err);
    cs_plan_answer(&plan, points, &answer);
    int32_t smallest = -1;
    int32_t cheapest = -1;
    int32_t least_nodes = INT32_MAX;
    double least_cost = (double)INFINITY;
    for (int32_t i = 0; i < 5; i++) {
        double tokens_per_s = 0;
        int32_t n_nodes = 0;
        ck_assert_ok(brute_force(clusters[i][0], clusters[i][1], clusters[i][2], &tokens_per_s, &n_nodes),
                     &err);
        ck_assert_double_gt(tokens_per_s, 0);
        ck_assert_double_eq_tol(points[i].metrics.tokens_per_s, tokens_per_s, 1e-9 * tokens_per_s);
        struct cs_failures failures = {30 * 86400.0 / n_nodes, 60, 600, 0};
        failures.interval_s = cs_interval_daly_s(failures.mtbf_s, 60);
        double time_s = 1e9 / (tokens_per_s * cs_goodput_frac(&failures));
        double cost = time_s / 3600 * n_nodes * (i < 3 ? 10 : 9);
        ck_assert_double_eq_tol(rows[i].time_s, time_s, 1e-9 * time_s);
        ck_assert_double_eq_tol(rows[i].cost, cost, 1e-9 * cost);
        ck_assert_double_eq_tol(rows[i].goodput_simulated_frac, rows[i].goodput_frac, 2e-3);
        ck_assert(rows[i].meets == (time_s <= 12 * 3600.0));
        ck_assert(isnan(rows[i].energy_j) == (i < 3));
        if (rows[i].meets && n_nodes < least_nodes) {
            least_nodes = n_nodes;
            smallest = i;
        }
        if (rows[i].meets && cost < least_cost) {
            least_cost = cost;
            cheapest = i;
        }
    }
    ck_assert_int_ge(smallest, 0);
    ck_assert_int_eq(points[answer.smallest].n_nodes, least_nodes);
    ck_assert_int_eq(answer.cheapest, cheapest);
    cs_plan_release(&plan);
}
END_TEST

/* A random small plan, as its text and as what brute force has to find. */
struct random_plan {
    char text[2048];
    int32_t n;
    const char *server[6], *topology[6];
    int32_t n_nodes[6];
    double price_per_h[6]; /* NaN: not given */
    double mtbf_s, checkpoint_s, restart_s, interval_s, deadline_s;
};

static struct random_plan random_plan(uint64_t seed)
{
    static const char *const servers[] = {"910b-10to1", "atlas-800t-a2", "atlas-800-a3"};
    static const char *const topologies[] = {"fat-tree", "rail", "torus"};
    static const char *const spaces[] = {"{mp: [4, 8], pp: [1, 2], op: dp, sp: true, recompute: full}",
                                         "{mp: 8, pp: 1, op: dp, sp: [true, false], recompute: [none, full]}",
                                         "{mp: [4, 8], pp: 1, op: dp, zero: [1, 3], recompute: full}"};
    struct cs_rng rng;
    struct random_plan r = {.checkpoint_s = 10};
    cs_rng_init(&rng, seed, 3);
    r.mtbf_s = 3600.0 * (1 + cs_rng_below(&rng, 500));
    r.checkpoint_s = 10.0 * (1 + cs_rng_below(&rng, 60));
    r.restart_s = 60.0 * cs_rng_below(&rng, 30);
    r.interval_s = cs_rng_below(&rng, 2) ? 600.0 * (1 + cs_rng_below(&rng, 10)) : 0;
    r.deadline_s = 3600.0 * (2 + cs_rng_below(&rng, 20));
    char interval[32] = "";
    if (r.interval_s > 0) {
        (void)snprintf(interval, sizeof interval, ", interval: %.0fs", r.interval_s);
    }
    int len = snprintf(r.text, sizeof r.text,
                       "model: llama3-8b\nplatform: {server: 910b-10to1, nodes: 1}\n"
                       "training: {global_batch: %d, seq_length: 2048}\nstrategy: %s\n"
                       "plan:\n  tokens: 1G\n  deadline: %.0fs\n"
                       "  failures: {node_mtbf: %.0fs, checkpoint: %.0fs, restart: %.0fs%s}\n  clusters:\n",
                       cs_rng_below(&rng, 2) ? 16 : 32, spaces[cs_rng_below(&rng, 3)], r.deadline_s, r.mtbf_s,
                       r.checkpoint_s, r.restart_s, interval);
    for (int entry = 0; entry < 2; entry++) {
        const char *server = servers[cs_rng_below(&rng, 3)];
        const char *topology = topologies[cs_rng_below(&rng, 3)];
        double price_per_h = cs_rng_below(&rng, 3) ? 1.0 + cs_rng_below(&rng, 50) : (double)NAN;
        int32_t most = 1 << cs_rng_below(&rng, 3);
        len += snprintf(r.text + len, sizeof r.text - (size_t)len,
                        "    - {server: %s, topology: %s, nodes: [%s]", server, topology,
                        most == 4   ? "4, 1, 2"
                        : most == 2 ? "1, 2"
                                    : "1");
        len += isnan(price_per_h) ? snprintf(r.text + len, sizeof r.text - (size_t)len, "}\n")
                                  : snprintf(r.text + len, sizeof r.text - (size_t)len,
                                             ", node_price_per_hour: %.0f}\n", price_per_h);
        for (int32_t nodes = 1; nodes <= most; nodes *= 2, r.n++) {
            r.server[r.n] = server;
            r.topology[r.n] = topology;
            r.n_nodes[r.n] = nodes;
            r.price_per_h[r.n] = price_per_h;
        }
    }
    return r;
}

/* Random plans are what a loop over searches finds; a larger cluster that is done later says why. */
START_TEST(test_random_plans)
{
    struct cs_err err = {0};
    struct cs_plan plan = {0};
    struct cs_point points[6];
    struct cs_plan_row rows[6];
    struct cs_plan_answer answer = {.rows = rows};
    struct random_plan r = random_plan((uint64_t)_i);
    struct cs_study_source source = write_study(r.text);
    struct cs_points_options options = {.source = &source, .n_workers = 2};
    cs_run_options_init(&options.run);
    options.run.simgrid_cfg = getenv("CLUSTERSIM_SIMGRID_CFG");
    ck_assert_ok(cs_plan_read(&plan, &source, &err), &err);
    ck_assert_int_eq(plan.n_clusters, r.n);
    ck_assert_ok(cs_points_run(points, cs_plan_specs(&plan), r.n, &options, &err), &err);
    cs_plan_answer(&plan, points, &answer);
    double least_cost = (double)INFINITY;
    int32_t least_devices = INT32_MAX;
    for (int32_t i = 0; i < r.n; i++) {
        char nodes[16];
        double tokens_per_s = 0;
        int32_t n_nodes = 0;
        (void)snprintf(nodes, sizeof nodes, "%d", (int)r.n_nodes[i]);
        ck_assert_ok(brute_force(r.server[i], r.topology[i], nodes, &tokens_per_s, &n_nodes), &err);
        ck_assert_msg(rows[i].works == (tokens_per_s > 0), "plan %d, cluster %d: %s\n%s", _i, (int)i,
                      points[i].reason, r.text);
        ck_assert(rows[i].works || rows[i].note[0] != '\0');
        if (!rows[i].works) {
            continue;
        }
        struct cs_failures failures = {r.mtbf_s / n_nodes, r.checkpoint_s, r.restart_s, r.interval_s};
        if (!(r.interval_s > 0)) {
            failures.interval_s = cs_interval_daly_s(failures.mtbf_s, r.checkpoint_s);
        }
        double time_s = 1e9 / (tokens_per_s * cs_goodput_frac(&failures));
        double cost = time_s / 3600 * n_nodes * r.price_per_h[i];
        ck_assert_double_eq_tol(rows[i].time_s, time_s, 1e-9 * time_s);
        ck_assert_int_eq(isnan(rows[i].cost), isnan(cost)); /* only where a price is given */
        ck_assert(isnan(rows[i].energy_j));
        ck_assert(rows[i].meets == (time_s <= r.deadline_s));
        if (rows[i].meets) {
            least_devices = points[i].n_devices < least_devices ? points[i].n_devices : least_devices;
            least_cost = fmin(least_cost, cost);
        }
        for (int32_t j = 0; j < i; j++) {
            if (plan.clusters[j].family_idx == plan.clusters[i].family_idx && rows[j].works &&
                rows[j].time_s < rows[i].time_s * (1 - 1e-9)) {
                ck_assert_int_ge(rows[i].faster_smaller, 0);
                ck_assert_msg(strstr(rows[i].note, "are done earlier: ") != NULL, "%s", rows[i].note);
            }
        }
    }
    ck_assert_int_eq(answer.smallest >= 0, least_devices < INT32_MAX);
    ck_assert(answer.smallest < 0 || points[answer.smallest].n_devices == least_devices);
    ck_assert_int_eq(answer.cheapest >= 0, isfinite(least_cost));
    if (answer.cheapest >= 0) {
        ck_assert_double_eq_tol(rows[answer.cheapest].cost, least_cost, 1e-9 * least_cost);
    }
    cs_plan_release(&plan);
}
END_TEST

/* A larger cluster that is slower says why. */
START_TEST(test_slower_says_why)
{
    struct cs_plan_cluster clusters[] = {
        {.family = "f", .size = "1", .node_price_per_h = (double)NAN, .node_mtbf_s = (double)INFINITY},
        {.family = "f", .size = "2", .node_price_per_h = (double)NAN, .node_mtbf_s = (double)INFINITY}};
    struct cs_plan plan = {.n_tokens = 1e6,
                           .deadline_s = 1e9,
                           .budget = (double)INFINITY,
                           .n_clusters = 2,
                           .clusters = clusters};
    struct cs_point points[2] = {
        {.outcome = CS_OUTCOME_OK, .simulated = true, .n_nodes = 1, .n_devices = 8},
        {.outcome = CS_OUTCOME_OK, .simulated = true, .n_nodes = 2, .n_devices = 16}};
    struct cs_plan_row rows[2];
    struct cs_plan_answer answer = {.rows = rows};
    points[0].metrics.tokens_per_s = 100;
    points[1].metrics.tokens_per_s = 90;
    points[1].metrics.bubble_frac = 0.5;
    cs_plan_answer(&plan, points, &answer);
    ck_assert_int_eq(rows[1].faster_smaller, 0);
    ck_assert_msg(strstr(rows[1].note, "1 node is done earlier: bubble 50.0 %") != NULL, "%s", rows[1].note);
    ck_assert_int_eq(answer.smallest, 0);
    ck_assert_int_eq(answer.cheapest, -1); /* no price is known */
    ck_assert_double_eq_tol(rows[1].efficiency_frac, 0.45, 1e-12);
}
END_TEST

/* A cluster that fails more often than it can write a checkpoint is never done, whatever its size; it is not
 * the fastest of anything, costs nothing that is known, and says why. */
START_TEST(test_never_done)
{
    struct cs_plan_cluster clusters[] = {
        {.family = "f", .size = "1", .node_price_per_h = 10, .node_power_w = 1, .node_mtbf_s = 86400},
        {.family = "f", .size = "1000", .node_price_per_h = 10, .node_power_w = 1, .node_mtbf_s = 86400}};
    struct cs_plan plan = {.n_tokens = 1e6,
                           .deadline_s = 1e9,
                           .budget = 1e12,
                           .checkpoint_s = 600,
                           .restart_s = 900,
                           .n_clusters = 2,
                           .clusters = clusters};
    struct cs_point points[2] = {
        {.outcome = CS_OUTCOME_OK, .simulated = true, .n_nodes = 1, .n_devices = 8},
        {.outcome = CS_OUTCOME_OK, .simulated = true, .n_nodes = 1000, .n_devices = 8000}};
    struct cs_plan_row rows[2];
    struct cs_plan_answer answer = {.rows = rows};
    points[0].metrics.tokens_per_s = 100;
    points[1].metrics.tokens_per_s = 100000;
    cs_plan_answer(&plan, points, &answer);
    ck_assert(!rows[0].never && rows[0].meets);
    ck_assert(rows[1].never && rows[1].works && !rows[1].meets);
    ck_assert(isinf(rows[1].time_s) && isnan(rows[1].cost) && isnan(rows[1].energy_j));
    ck_assert_msg(strstr(rows[1].note, "never done: a failure every 1.44 min") != NULL, "%s", rows[1].note);
    ck_assert_int_eq(answer.fastest, 0);
    ck_assert_int_eq(answer.smallest, 0);
    clusters[0] = clusters[1];
    points[0] = points[1];
    cs_plan_answer(&plan, points, &answer);
    ck_assert_int_eq(answer.fastest, -1);
    ck_assert_int_eq(answer.smallest, -1);
}
END_TEST

static const struct {
    const char *text;
    int line;
    const char *part;
} bad_plans[] = {
    {"", 1, "no 'plan' block"},
    {"plan: 3\n", 5, "must be a map"},
    {"plan: {deadline: 3d}\n", 5, "tokens"},
    {"plan: {tokens: 1G}\n", 5, "'deadline' (30d) or a 'budget'"},
    {"plan: {tokens: 1G, deadline: 3}\n", 5, "unit"},
    {"plan: {tokens: 1G, deadline: 3d}\n", 5, "clusters"},
    {"plan: {tokens: 1G, deadline: 3d, clusters: []}\n", 5, "no cluster"},
    {"plan: {tokens: 1G, deadline: 3d, clusters: [{server: dgx-h100}]}\n", 5, "needs 'nodes'"},
    {"plan: {tokens: 1G, deadline: 3d, clusters: [{nodes: [1, x]}]}\n", 5, "nodes"},
    {"plan: {tokens: 1G, budget: 5, clusters: [{nodes: 1}]}\n", 5, "node_price_per_hour"},
    {"plan: {tokens: 1G, deadline: 3d, clusters: [{nodes: 1, node_mtbf: 3d}]}\n", 5, "checkpoint"},
    {"plan: {tokens: 1G, deadline: 0s, clusters: [{nodes: 1}]}\n", 5, "'deadline' must be above 0"},
    {"plan: {tokens: 1G, deadline: 3d, failures: {node_mtbf: 1d, checkpoint: 1s, interval: 0s}}\n", 5,
     "'interval' must be above 0"},
    {"plan: {tokens: 1G, deadline: 3d, failures: {node_mtbf: 1d, checkpoint: 0s}}\n", 5,
     "'checkpoint' must be above 0"},
    {"plan: {tokens: 1G, deadline: 3d, failures: {node_mtbf: 0s, checkpoint: 1s}}\n", 5,
     "'node_mtbf' must be above 0"},
    {"plan: {tokens: 1G, deadline: 3d, failures: {interval: 1h}}\n", 5, "what a 'checkpoint' costs"},
    {"plan: {tokens: 1G, dedline: 3d}\n", 5, "did you mean 'deadline'"},
};

START_TEST(test_bad_plan)
{
    struct cs_err err = {0};
    struct cs_plan plan = {0};
    char text[1024];
    (void)snprintf(text, sizeof text, "%s%s", SMALL, bad_plans[_i].text);
    struct cs_study_source source = write_study(text);
    ck_assert_fails(cs_plan_read(&plan, &source, &err), &err, CS_E_INPUT, bad_plans[_i].line,
                    bad_plans[_i].part);
    cs_plan_release(&plan);
}
END_TEST

static Suite *sweep_suite(void)
{
    Suite *suite = suite_create("sweep");
    TCase *tcase = tcase_create("sweep");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_loop_test(tcase, test_good_axis, 0, (int)(sizeof good_axes / sizeof *good_axes));
    tcase_add_loop_test(tcase, test_bad_axis, 0, (int)(sizeof bad_axes / sizeof *bad_axes));
    tcase_add_test(tcase, test_points_are_the_product);
    tcase_add_test(tcase, test_twice);
    tcase_add_test(tcase, test_block);
    tcase_add_test(tcase, test_only_what_is_used_matters);
    tcase_add_test(tcase, test_plan_is_brute_force);
    tcase_add_loop_test(tcase, test_random_plans, 0, 5);
    tcase_add_test(tcase, test_slower_says_why);
    tcase_add_test(tcase, test_never_done);
    tcase_add_loop_test(tcase, test_bad_plan, 0, (int)(sizeof bad_plans / sizeof *bad_plans));
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(sweep_suite)
