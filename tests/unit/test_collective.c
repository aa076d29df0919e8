/* Collective algorithms: what they move, against closed forms; and their three views against each other. */
#include "cs_test.h"
#include "fixture.h"

#include <math.h>
#include <stdio.h>

static double total_bytes(const struct cs_coll_plan *plan)
{
    double sum = 0;
    for (int32_t p = 0; p < plan->n_phases; p++) {
        for (int32_t i = 0; i < plan->phases[p].n_flows; i++) {
            sum += plan->phases[p].n_rounds * plan->phases[p].flows[i].bytes;
        }
    }
    return sum;
}

/* A platform without SimGrid: only the nodes matter to plans. */
static void flat_platform(struct cs_platform *platform, struct cs_device *devices, int32_t n,
                          int32_t per_node)
{
    memset(platform, 0, sizeof *platform);
    platform->intra = "mesh";
    platform->n_devices = n;
    platform->n_nodes = n / per_node;
    platform->devices_per_node = per_node;
    platform->devices = devices;
    for (int32_t i = 0; i < n; i++) {
        devices[i].node = i / per_node;
        devices[i].index = i % per_node;
    }
}

#define MEMBERS 24

static void make_plan(struct cs_coll_plan *plan, struct cs_arena *arena, enum cs_coll coll,
                      enum cs_algorithm algorithm, int32_t n, int32_t per_node, double bytes)
{
    static struct cs_platform platform;
    static struct cs_device devices[MEMBERS];
    int32_t members[MEMBERS];
    flat_platform(&platform, devices, n, per_node);
    for (int32_t i = 0; i < n; i++) {
        members[i] = i;
    }
    ck_assert_ptr_null(cs_coll_refuses(coll, algorithm, &platform, members, n));
    cs_coll_plan_build(coll, algorithm, &platform, members, n, bytes, arena, plan);
}

/* Bandwidth-optimal algorithms move (n-1) times the message once for gather, scatter, all-to-all and
 * broadcast, twice for all-reduce: no byte more, no byte less, whatever the order. */
START_TEST(test_totals)
{
    static const struct {
        enum cs_coll coll;
        enum cs_algorithm algorithm;
        int32_t n, per_node;
        double times; /* of (n - 1) x bytes */
    } cases[] = {
        {CS_COLL_ALL_REDUCE, CS_ALGO_RING, 6, 6, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_MESH, 8, 8, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_HALVING_DOUBLING, 8, 1, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_TREE, 7, 1, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_PAIRWISE, 5, 1, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_HIERARCHICAL, 24, 8, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_HIERARCHICAL_HD, 16, 8, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_RINGS, 24, 8, 2},
        {CS_COLL_ALL_REDUCE, CS_ALGO_RINGS, 15, 5, 2},
        {CS_COLL_ALL_GATHER, CS_ALGO_RING, 6, 6, 1},
        {CS_COLL_ALL_GATHER, CS_ALGO_RINGS, 6, 2, 1},
        {CS_COLL_ALL_GATHER, CS_ALGO_MESH, 8, 8, 1},
        {CS_COLL_ALL_GATHER, CS_ALGO_HALVING_DOUBLING, 16, 1, 1},
        {CS_COLL_ALL_GATHER, CS_ALGO_BRUCK, 7, 1, 1},
        {CS_COLL_ALL_GATHER, CS_ALGO_PAIRWISE, 7, 1, 1},
        {CS_COLL_ALL_GATHER, CS_ALGO_HIERARCHICAL, 24, 8, 1},
        {CS_COLL_REDUCE_SCATTER, CS_ALGO_RING, 6, 6, 1},
        {CS_COLL_REDUCE_SCATTER, CS_ALGO_MESH, 8, 8, 1},
        {CS_COLL_REDUCE_SCATTER, CS_ALGO_HALVING_DOUBLING, 4, 1, 1},
        {CS_COLL_REDUCE_SCATTER, CS_ALGO_PAIRWISE, 7, 1, 1},
        {CS_COLL_REDUCE_SCATTER, CS_ALGO_HIERARCHICAL, 24, 8, 1},
        {CS_COLL_REDUCE_SCATTER, CS_ALGO_RINGS, 9, 3, 1},
        {CS_COLL_ALL_TO_ALL, CS_ALGO_MESH, 8, 8, 1},
        {CS_COLL_ALL_TO_ALL, CS_ALGO_PAIRWISE, 9, 1, 1},
        {CS_COLL_BROADCAST, CS_ALGO_RING, 9, 1, 1},
        {CS_COLL_BROADCAST, CS_ALGO_TREE, 9, 1, 1},
        {CS_COLL_BROADCAST, CS_ALGO_HIERARCHICAL, 24, 8, -1},
    };
    const double bytes = 24e6;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cs_arena arena = {0};
        struct cs_coll_plan plan;
        make_plan(&plan, &arena, cases[i].coll, cases[i].algorithm, cases[i].n, cases[i].per_node, bytes);
        double want = cases[i].times * (cases[i].n - 1) * bytes;
        if (cases[i].times <
            0) { /* inside nodes scatter + all-gather: 2 (g-1)/g + ... = (1/g + (g-1)/g)(g-1) */
            int32_t g = cases[i].per_node;
            int32_t nodes = cases[i].n / g;
            want = (nodes - 1) * bytes + nodes * ((g - 1) * bytes / g + (g - 1) * (g - 1) * bytes / g);
        }
        ck_assert_msg(fabs(total_bytes(&plan) - want) < 1e-6 * want, "case %zu: %s by %s moves %g, want %g",
                      i, cs_coll_names[cases[i].coll], cs_algorithm_names[cases[i].algorithm],
                      total_bytes(&plan), want);
        cs_arena_release(&arena);
    }
}
END_TEST

START_TEST(test_rounds)
{
    struct cs_arena arena = {0};
    struct cs_coll_plan plan;
    make_plan(&plan, &arena, CS_COLL_ALL_REDUCE, CS_ALGO_RING, 8, 8, 8e6);
    ck_assert_int_eq(plan.n_phases, 1);
    ck_assert_int_eq(plan.phases[0].n_rounds, 14); /* 2 (n - 1) */
    ck_assert_double_eq_tol(plan.phases[0].flows[0].bytes, 1e6, 1e-6);
    make_plan(&plan, &arena, CS_COLL_ALL_REDUCE, CS_ALGO_HALVING_DOUBLING, 8, 1, 8e6);
    ck_assert_int_eq(plan.n_phases, 6); /* 2 log2 n */
    ck_assert_double_eq_tol(plan.phases[0].flows[0].bytes, 4e6, 1e-6);
    ck_assert_double_eq_tol(plan.phases[2].flows[0].bytes, 1e6, 1e-6);
    ck_assert_double_eq_tol(plan.phases[5].flows[0].bytes, 4e6, 1e-6);
    make_plan(&plan, &arena, CS_COLL_ALL_TO_ALL, CS_ALGO_BRUCK, 8, 1, 8e6);
    ck_assert_int_eq(plan.n_phases, 3); /* log2 n rounds of half the message each */
    ck_assert_double_eq_tol(total_bytes(&plan), 3 * 8 * 4e6, 1e-3);
    cs_arena_release(&arena);
}
END_TEST

START_TEST(test_refusals)
{
    struct cs_platform platform;
    struct cs_device devices[MEMBERS];
    int32_t members[MEMBERS];
    flat_platform(&platform, devices, MEMBERS, 8);
    for (int32_t i = 0; i < MEMBERS; i++) {
        members[i] = i;
    }
    ck_assert_ptr_nonnull(
        cs_coll_refuses(CS_COLL_ALL_GATHER, CS_ALGO_HALVING_DOUBLING, &platform, members, 6));
    ck_assert_ptr_nonnull(cs_coll_refuses(CS_COLL_ALL_TO_ALL, CS_ALGO_TREE, &platform, members, 8));
    ck_assert_ptr_nonnull(cs_coll_refuses(CS_COLL_BROADCAST, CS_ALGO_PAIRWISE, &platform, members, 8));
    ck_assert_ptr_nonnull(cs_coll_refuses(CS_COLL_ALL_REDUCE, CS_ALGO_HIERARCHICAL, &platform, members, 8));
    ck_assert_ptr_nonnull(cs_coll_refuses(CS_COLL_ALL_REDUCE, CS_ALGO_HIERARCHICAL, &platform, members, 12));
    ck_assert_ptr_null(cs_coll_refuses(CS_COLL_ALL_REDUCE, CS_ALGO_HIERARCHICAL, &platform, members, 16));
    ck_assert_ptr_nonnull(cs_coll_refuses(CS_COLL_ALL_REDUCE, CS_ALGO_RINGS, &platform, members, 8));
    ck_assert_ptr_nonnull(cs_coll_refuses(CS_COLL_ALL_REDUCE, CS_ALGO_RINGS, &platform, members, 12));
    ck_assert_ptr_nonnull(cs_coll_refuses(CS_COLL_BROADCAST, CS_ALGO_RINGS, &platform, members, 16));
    ck_assert_ptr_nonnull(cs_coll_never(CS_COLL_ALL_TO_ALL, CS_ALGO_RINGS));
    ck_assert_ptr_null(cs_coll_refuses(CS_COLL_ALL_GATHER, CS_ALGO_RINGS, &platform, members, 16));
}
END_TEST

/* The choice of `auto` by place and size. */
START_TEST(test_auto)
{
    struct cs_arena arena = {0};
    struct cs_coll_plan plan;
    make_plan(&plan, &arena, CS_COLL_ALL_REDUCE, CS_ALGO_AUTO, 8, 8, 1e8);
    ck_assert_int_eq(plan.algorithm, CS_ALGO_MESH);
    make_plan(&plan, &arena, CS_COLL_ALL_REDUCE, CS_ALGO_AUTO, 8, 1, 1e8);
    ck_assert_int_eq(plan.algorithm, CS_ALGO_RING);
    make_plan(&plan, &arena, CS_COLL_ALL_REDUCE, CS_ALGO_AUTO, 8, 1, 1e3);
    ck_assert_int_eq(plan.algorithm, CS_ALGO_HALVING_DOUBLING);
    make_plan(&plan, &arena, CS_COLL_ALL_REDUCE, CS_ALGO_AUTO, 16, 8, 1e9);
    ck_assert_int_eq(plan.algorithm, CS_ALGO_HIERARCHICAL);
    make_plan(&plan, &arena, CS_COLL_ALL_TO_ALL, CS_ALGO_AUTO, 6, 1, 1e9);
    ck_assert_int_eq(plan.algorithm, CS_ALGO_PAIRWISE);
    cs_arena_release(&arena);
}
END_TEST

/* Two devices an adapter: rings for groups of which no two members share one, however many there are. */
START_TEST(test_auto_adapters)
{
    static const struct {
        int32_t step; /* between members in a node of eight */
        enum cs_coll coll;
        double bytes;
        enum cs_algorithm want;
    } cases[] = {
        {1, CS_COLL_ALL_REDUCE, 1e9, CS_ALGO_HIERARCHICAL},
        {2, CS_COLL_ALL_REDUCE, 1e9, CS_ALGO_RINGS},
        {4, CS_COLL_ALL_GATHER, 1e9, CS_ALGO_RINGS},
        {4, CS_COLL_ALL_REDUCE, 1e4, CS_ALGO_HIERARCHICAL_HD},
        {4, CS_COLL_BROADCAST, 1e9, CS_ALGO_HIERARCHICAL},
        {8, CS_COLL_ALL_REDUCE, 1e9, CS_ALGO_RING},
    };
    struct cs_platform platform;
    struct cs_device devices[16];
    flat_platform(&platform, devices, 16, 8);
    for (int32_t d = 0; d < 16; d++) {
        devices[d].adapter = d % 8 / 2;
    }
    for (int32_t i = 0; i < CS_COUNT(cases); i++) {
        struct cs_arena arena = {0};
        struct cs_coll_plan plan;
        int32_t members[16];
        int32_t n = 16 / cases[i].step;
        for (int32_t m = 0; m < n; m++) {
            members[m] = m * cases[i].step;
        }
        cs_coll_plan_build(cases[i].coll, CS_ALGO_AUTO, &platform, members, n, cases[i].bytes, &arena, &plan);
        ck_assert_msg(plan.algorithm == cases[i].want, "case %d: %s", (int)i,
                      cs_algorithm_names[plan.algorithm]);
        cs_arena_release(&arena);
    }
}
END_TEST

/* ---- views ---- */

/* Under sanitizers SimGrid's actors are threads, a hundred times slower: fewer and smaller cases. */
#ifdef CS_SANITIZER
#define N_NODE_COUNTS 2
#define N_SIZES 1
#define N_HIERARCHICAL 16
#else
#define N_NODE_COUNTS 3
#define N_SIZES 3
#define N_HIERARCHICAL 32
#endif

static double time_of(struct fixture *f, enum cs_coll coll, enum cs_algorithm algorithm, double bytes,
                      const int32_t *members, int32_t n, enum cs_view view)
{
    struct cs_err err = {0};
    enum cs_algorithm used;
    double time_s = 0;
    ck_assert_ok(
        cs_engine_collective(f->routes, coll, bytes, members, n, algorithm, view, &time_s, &used, &err),
        &err);
    return time_s;
}

static void compare_algorithm(struct fixture *f, enum cs_coll coll, enum cs_algorithm a,
                              const int32_t *members, int32_t n, double bytes, double tolerance)
{
    if (cs_coll_refuses(coll, a, &f->platform, members, n)) {
        return;
    }
    double step_s = time_of(f, coll, a, bytes, members, n, CS_VIEW_STEP);
    double flow_s = time_of(f, coll, a, bytes, members, n, CS_VIEW_FLOW);
    double closed_s = time_of(f, coll, a, bytes, members, n, CS_VIEW_CLOSED);
    ck_assert_msg(fabs(flow_s - step_s) <= tolerance * step_s &&
                      fabs(closed_s - step_s) <= tolerance * step_s,
                  "%s by %s, %d ranks from %d, %g bytes: step %g, flow %g, closed %g", cs_coll_names[coll],
                  cs_algorithm_names[a], n, members[1], bytes, step_s, flow_s, closed_s);
}

static void compare_views(struct fixture *f, const int32_t *members, int32_t n, double bytes,
                          double tolerance)
{
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        for (int32_t a = CS_ALGO_RING; a < CS_N_ALGOS; a++) {
            compare_algorithm(f, coll, a, members, n, bytes, tolerance);
        }
    }
}

static void each_size(struct fixture *f, const int32_t *members, int32_t n)
{
    static const struct {
        double bytes, tolerance;
    } sizes[] = {{1e6, 0.01}, {64e3, 0.10}, {256e6, 0.01}};
    for (int32_t i = 0; i < N_SIZES; i++) {
        compare_views(f, members, n, sizes[i].bytes, sizes[i].tolerance);
    }
}

START_TEST(test_views_in_node)
{
    static const int32_t sizes[] = {2, 4, 8};
    struct fixture f;
    fixture_open(&f, 2, 8, NULL);
    int32_t members[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    each_size(&f, members, sizes[_i]);
    fixture_close(&f);
}
END_TEST

START_TEST(test_views_between_nodes)
{
    static const int32_t sizes[] = {2, 8, 32};
    struct fixture f;
    fixture_open(&f, 32, 8, NULL);
    int32_t members[32];
    for (int32_t i = 0; i < 32; i++) {
        members[i] = 8 * i;
    }
    each_size(&f, members, sizes[_i]);
    fixture_close(&f);
}
END_TEST

START_TEST(test_views_hierarchical)
{
    struct fixture f;
    fixture_open(&f, 4, 8, NULL);
    int32_t members[32];
    for (int32_t i = 0; i < 32; i++) {
        members[i] = i;
    }
    each_size(&f, members, N_HIERARCHICAL);
    fixture_close(&f);
}
END_TEST

/* The hierarchical forms on 2, 8 and 32 nodes of eight. */
START_TEST(test_views_hierarchical_nodes)
{
    static const int32_t n_nodes[] = {2, 8, 32};
    struct fixture f;
    fixture_open(&f, n_nodes[_i], 8, NULL);
    int32_t members[256];
    for (int32_t i = 0; i < 8 * n_nodes[_i]; i++) {
        members[i] = i;
    }
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        for (int32_t a = CS_ALGO_HIERARCHICAL; a <= CS_ALGO_HIERARCHICAL_HD; a++) {
            compare_algorithm(&f, coll, a, members, 8 * n_nodes[_i], 1e6, 0.01);
            compare_algorithm(&f, coll, a, members, 8 * n_nodes[_i], 64e3, 0.10);
        }
    }
    fixture_close(&f);
}
END_TEST

/* On the full mesh a group of g uses (g-1)/7 of a card's links: an all-gather of B bytes takes B/g over one
 * pair link, whatever g is. */
START_TEST(test_mesh_share)
{
    struct fixture f;
    fixture_open(&f, 1, 8, NULL);
    int32_t members[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const double bytes = 280e6;
    double overhead_s = f.platform.devices[0].chip->collective_overhead_s;
    for (int32_t g = 2; g <= 8; g *= 2) {
        double time_s = time_of(&f, CS_COLL_ALL_GATHER, CS_ALGO_MESH, bytes, members, g, CS_VIEW_FLOW);
        double want_s = overhead_s + cs_routes_get(f.routes, 0, 1).latency_s + bytes / g / 28e9;
        ck_assert_double_eq_tol(time_s, want_s, 1e-6 * want_s);
    }
    fixture_close(&f);
}
END_TEST

static void half_duplex(struct cs_topology_spec *spec)
{
    spec->inter_half_duplex = true;
}

/* A NIC that sends and receives at once does each at half its rate; one that only sends, or only receives,
 * loses nothing. */
START_TEST(test_half_duplex)
{
    static const int32_t members[] = {0, 8, 16, 24};
    struct fixture full;
    struct fixture half;
    fixture_open(&full, 4, 8, NULL);
    fixture_open(&half, 4, 8, half_duplex);
    const double bytes = 280e6;
    double overhead_s = half.platform.devices[0].chip->collective_overhead_s;
    for (int view = CS_VIEW_STEP; view <= CS_VIEW_CLOSED; view++) {
        double time_s = time_of(&half, CS_COLL_ALL_GATHER, CS_ALGO_RING, bytes, members, 4, view);
        double latency_s = cs_routes_get(half.routes, 0, 8).latency_s;
        double want_s = overhead_s + 3 * (latency_s + 2 * bytes / 4 / 19.6e9);
        ck_assert_double_eq_tol(time_s, want_s, 1e-3 * want_s);
        ck_assert_double_eq_tol(time_of(&half, CS_COLL_BROADCAST, CS_ALGO_TREE, bytes, members, 4, view),
                                time_of(&full, CS_COLL_BROADCAST, CS_ALGO_TREE, bytes, members, 4, view),
                                1e-9);
    }
    fixture_close(&full);
    fixture_close(&half);
}
END_TEST

static void shared_adapters(struct cs_topology_spec *spec)
{
    spec->nic_devices = 2;
}

/* Members 0, 2, 4 and 6 of each of four nodes: two rings, each through all sixteen, so that a NIC that has an
 * end of a ring carries half of what the ring moves in fifteen rounds; by the NICs of all four it is half. */
START_TEST(test_rings)
{
    struct fixture f;
    int32_t members[16];
    fixture_open(&f, 4, 8, shared_adapters);
    for (int32_t i = 0; i < 16; i++) {
        members[i] = i / 4 * 8 + i % 4 * 2;
    }
    const double bytes = 960e6;
    double time_s = time_of(&f, CS_COLL_REDUCE_SCATTER, CS_ALGO_AUTO, bytes, members, 16, CS_VIEW_CLOSED);
    double latency_s = cs_routes_get(f.routes, 4, 8).latency_s;
    double want_s =
        f.platform.devices[0].chip->collective_overhead_s + 15 * (latency_s + bytes / 2 / 16 / 19.6e9);
    ck_assert_double_eq_tol(time_s, want_s, 1e-6 * want_s);
    double by_all_s =
        time_of(&f, CS_COLL_REDUCE_SCATTER, CS_ALGO_HIERARCHICAL, bytes, members, 16, CS_VIEW_CLOSED);
    ck_assert_double_lt(by_all_s, 0.8 * time_s);
    fixture_close(&f);
}
END_TEST

START_TEST(test_solo_errors)
{
    struct fixture f;
    fixture_open(&f, 2, 8, NULL);
    struct cs_err err = {0};
    enum cs_algorithm used;
    double time_s;
    int32_t twice[] = {0, 0};
    int32_t beyond[] = {0, 16};
    int32_t good[] = {0, 1};
    ck_assert_fails(cs_engine_collective(f.routes, CS_COLL_ALL_REDUCE, 1e6, twice, 2, CS_ALGO_RING,
                                         CS_VIEW_FLOW, &time_s, &used, &err),
                    &err, CS_E_INPUT, 0, "twice");
    ck_assert_fails(cs_engine_collective(f.routes, CS_COLL_ALL_REDUCE, 1e6, beyond, 2, CS_ALGO_RING,
                                         CS_VIEW_FLOW, &time_s, &used, &err),
                    &err, CS_E_INPUT, 0, "rank 16");
    ck_assert_fails(cs_engine_collective(f.routes, CS_COLL_ALL_REDUCE, 0, good, 2, CS_ALGO_RING, CS_VIEW_FLOW,
                                         &time_s, &used, &err),
                    &err, CS_E_INPUT, 0, "bytes");
    ck_assert_fails(cs_engine_collective(f.routes, CS_COLL_ALL_TO_ALL, 1e6, good, 2, CS_ALGO_TREE,
                                         CS_VIEW_FLOW, &time_s, &used, &err),
                    &err, CS_E_INPUT, 0, "tree");
    fixture_close(&f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("collective");
    TCase *plans = tcase_create("plans");
    tcase_add_test(plans, test_totals);
    tcase_add_test(plans, test_rounds);
    tcase_add_test(plans, test_refusals);
    tcase_add_test(plans, test_auto);
    tcase_add_test(plans, test_auto_adapters);
    suite_add_tcase(s, plans);
    TCase *views = tcase_create("views");
    tcase_add_loop_test(views, test_views_in_node, 0, 3);
    tcase_add_loop_test(views, test_views_between_nodes, 0, N_NODE_COUNTS);
    tcase_add_test(views, test_views_hierarchical);
    tcase_add_loop_test(views, test_views_hierarchical_nodes, 0, N_NODE_COUNTS);
    tcase_add_test(views, test_mesh_share);
    tcase_add_test(views, test_half_duplex);
    tcase_add_test(views, test_rings);
    tcase_add_test(views, test_solo_errors);
    suite_add_tcase(s, views);
    return s;
}

CS_TEST_MAIN(suite)
