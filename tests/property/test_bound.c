/* The closed form's lower bound is one, and its memory is the ledger's: random strategies of random models on
 * random platforms against the simulation, in every dimension that a strategy has. */
#include "cs_test.h"
#include "fixture.h"

#include "cs/base/rng.h"
#include "cs/strategies/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef CS_SANITIZER
#define N_BEDS 8
#define N_CASES 4
#define MOST_NODES 2
#else
#define N_BEDS 100
#define N_CASES 30
#define MOST_NODES 8
#endif
#define SEED 20260301
/* Rounding, of sums in another order and of SimGrid's clock. */
#define TOLERANCE_FRAC 1e-9

static struct cs_rng rng;

static int32_t pick(int32_t n)
{
    return (int32_t)cs_rng_below(&rng, (uint32_t)n);
}

static void random_platform(struct cs_topology_spec *spec)
{
    spec->intra_switched = pick(3) == 0;
    static const enum cs_topology topologies[] = {CS_TOPOLOGY_FAT_TREE, CS_TOPOLOGY_FAT_TREE,
                                                  CS_TOPOLOGY_RAIL, CS_TOPOLOGY_TORUS, CS_TOPOLOGY_DRAGONFLY};
    spec->topology = topologies[pick(CS_COUNT(topologies))];
    if (spec->topology == CS_TOPOLOGY_FAT_TREE && pick(2)) {
        spec->leaf_ports = 16; /* several leaves, so that not all replicas are alike */
        spec->oversubscription_frac = 1 << pick(3);
    }
    spec->inter_bytes_per_s *= 0.25 * (1 << pick(4));
    spec->inter_half_duplex = pick(4) == 0;
    spec->nic_devices = 1 + pick(pick(2) ? 2 : 7);
    spec->intra_bytes_per_s *= 0.5 * (1 << pick(3));
    spec->inter_latency_s *= 1 << pick(6);
}

static int32_t random_power(int32_t most)
{
    int32_t value = 1;
    while (value < most && pick(2)) {
        value *= 2;
    }
    return value;
}

static void random_model(struct cs_model *model, struct cs_training *training)
{
    model->n_layers = 4 + pick(13);
    model->hidden = 1024 << pick(3);
    model->n_heads = 16 << pick(2);
    model->n_kv_heads = 2 << pick(3);
    model->head_dim = 128;
    model->ffn = model->hidden * (2 + pick(3));
    model->vocab = 32000 + 16000 * pick(3);
    model->activation = pick(2) ? CS_ACT_SWIGLU : CS_ACT_GELU;
    model->norm = pick(2) ? CS_NORM_RMS : CS_NORM_LAYER;
    model->tied_embedding = pick(2);
    model->linear_bias = pick(2);
    if (pick(3) == 0) {
        model->n_experts = 4 << pick(3);
        model->experts_per_token = 1 + pick(2);
        model->expert_ffn = 512 << pick(3);
        model->n_shared_experts = pick(2);
        model->first_dense_layers = pick(2);
        model->tied_embedding = false;
    }
    *training = (struct cs_training){
        .seq_length = 512 << pick(3),
        .dtype = CS_DTYPE_BF16,
        .gradient_dtype = pick(2) ? CS_DTYPE_FP32 : CS_DTYPE_BF16,
        .optimizer = pick(4) ? CS_OPT_ADAMW : CS_OPT_MUON,
        .bucket_bytes = 16e6 * (1 << pick(4)),
        .host_bytes_per_s = 31.5e9,
        .clip_gradient = pick(2),
        .flash_attention = pick(2),
        .routing_imbalance_frac = pick(3) ? 0 : 1.5,
        .aggregation_groups = pick(3) ? 0 : 1 + pick(4),
        .separate_loss = pick(2),
        .scatter_messages = pick(2),
        .blocking_sends = pick(2),
        .serial_messages = pick(2),
        .async_tensor_parallel = pick(3) == 0,
        .separate_accumulation = pick(2),
        .widened_gradients = pick(2),
        .separate_gate = pick(2),
        .separate_gelu = pick(2),
        .norm_casts = pick(2),
        .score_bytes = {8, 8},
        .optimizer_traffic_bytes = 200.0 * pick(2),
    };
}

/* Numbers of each place that add up to `sum`, or any up to `most` when sum is 0. */
static void random_list(struct cs_per_place *list, int32_t n, int32_t sum, int32_t most)
{
    memset(list, 0, sizeof *list);
    if (n > CS_PLACES_MAX || (sum && sum < n)) {
        return;
    }
    list->n = (uint8_t)n;
    for (int32_t i = 0; i < n; i++) {
        list->at[i] = (uint16_t)(sum ? 1 : pick(most + 1));
    }
    for (int32_t left = sum - n; left > 0; left--) {
        list->at[pick(n)]++;
    }
}

/* What most strategies leave at its default. */
static void rare_dimensions(struct cs_strategy *s, const struct cs_model *model, int32_t kind)
{
    int32_t split = pick(4);
    if (kind == 0 && s->dp % 2 == 0) {
        s->cp = s->dp % 4 == 0 && pick(2) ? 4 : 2;
        s->dp /= s->cp;
        s->op = s->op <= s->dp ? s->op : s->dp;
        s->cp_kind = pick(2) ? CS_CP_RING : CS_CP_ULYSSES;
    }
    s->ep = model->n_experts > 0 ? random_power(8) : 1;
    s->expert_mp = model->n_experts > 0 && pick(3) == 0;
    s->vpp = s->schedule == CS_SCHED_ZERO_BUBBLE_V ? 2
             : s->schedule == CS_SCHED_INTERLEAVED ? 2 + pick(2)
                                                   : 1;
    s->seq_split = s->schedule == CS_SCHED_SEQPIPE ? 1 << pick(3) : 1;
    if (kind == 1) {
        s->half_batches = split == 0 ? 2 : 1;
        s->fused_tp = split == 1;
        s->keep_comm = pick(2);
        s->offload_optimizer = pick(4) == 0;
        s->swap_activations = pick(4) == 0;
    } else if (kind == 2) {
        random_list(&s->layers, s->pp * s->vpp, split & 1 ? (int32_t)model->n_layers : 0, 1);
        if (!(split & 1)) {
            memset(&s->layers, 0, sizeof s->layers);
        }
        if (split & 2) {
            random_list(&s->full_layers, s->pp * s->vpp, 0, 3);
            random_list(&s->selective_layers, s->pp * s->vpp, 0, 5);
        }
    }
}

static void random_strategy(struct cs_strategy *s, struct cs_training *t, const struct cs_model *model,
                            int32_t n_devices)
{
    static const enum cs_schedule schedules[] = {
        CS_SCHED_1F1B,          CS_SCHED_GPIPE,       CS_SCHED_1F1B,
        CS_SCHED_GPIPE,         CS_SCHED_INTERLEAVED, CS_SCHED_ZERO_BUBBLE,
        CS_SCHED_ZERO_BUBBLE_V, CS_SCHED_DUALPIPE,    CS_SCHED_SEQPIPE};
    static const enum cs_dim orders[][CS_N_DIMS] = {{CS_DIM_MP, CS_DIM_CP, CS_DIM_DP, CS_DIM_PP},
                                                    {CS_DIM_DP, CS_DIM_CP, CS_DIM_MP, CS_DIM_PP},
                                                    {CS_DIM_PP, CS_DIM_CP, CS_DIM_MP, CS_DIM_DP},
                                                    {CS_DIM_MP, CS_DIM_CP, CS_DIM_PP, CS_DIM_DP}};
    cs_strategy_init(s);
    s->mp = random_power(16);
    s->pp = random_power(8);
    while (s->mp * s->pp > n_devices) {
        s->pp /= 2;
        s->mp = s->pp ? s->mp : s->mp / 2;
        s->pp = s->pp ? s->pp : 1;
    }
    s->dp = n_devices / s->mp / s->pp;
    s->op = random_power(s->dp);
    s->zero = 1 + pick(3);
    s->keep_weights = pick(2);
    s->sp = pick(2);
    s->schedule = schedules[pick(CS_COUNT(schedules))];
    s->micro_batch = 1 + pick(3);
    s->recompute = pick(CS_N_RECOMPUTE);
    memcpy(s->placement, orders[pick(CS_COUNT(orders))], sizeof s->placement);
    if (pick(2)) {
        rare_dimensions(s, model, pick(3));
    }
    cs_strategy_canonicalise(s);
    t->global_batch = (int64_t)s->dp * s->micro_batch * (1 + pick(3 * s->pp + 20));
    if (s->schedule > CS_SCHED_1F1B) { /* that deal micro-batches out in turns */
        t->global_batch = (int64_t)s->dp * s->micro_batch * s->pp * (2 + 2 * pick(4));
    }
}

/** One simulation against its estimate; returns bound / simulated time, -1 for one that is not covered. */
static double check_case(const struct fixture *f, const struct cs_model *model, struct cs_training *training,
                         const char *what_bed)
{
    struct cs_err err = {0};
    struct cs_strategy strategy;
    const struct cs_cluster_shape shape = {f->platform.n_devices, f->platform.devices_per_node};
    char why[256];
    char text[256];
    do {
        random_strategy(&strategy, training, model, f->platform.n_devices);
    } while (cs_strategy_check(&strategy, model, training, &shape, why, sizeof why));
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.simgrid_cfg = fixture_simgrid_cfg();
    struct cs_cost *cost = cs_cost_new(model, training, f->routes, &options, &CS_COST_SCALE_NONE);
    const struct cs_strategy *one = &strategy;
    ck_assert_ok(cs_cost_prepare(cost, &one, 1, NULL, &err), &err);
    struct cs_estimate estimate;
    cs_cost_estimate(cost, &strategy, &estimate);
    struct cs_trace *trace = NULL;
    ck_assert_ok(cs_trace_build(model, training, &strategy, &trace, &err), &err);
    struct cs_run run = {0};
    ck_assert_ok(cs_engine_run(trace, f->routes, &options, &run, &err), &err);
    cs_strategy_format(&strategy, text, sizeof text);
    if (getenv("BOUND_VERBOSE")) {
        fprintf(stderr, "CASE %.6f %.6f %.6g %s %s batch=%lld tied=%d\n",
                estimate.bound_s / run.metrics.iteration_s, estimate.time_s / run.metrics.iteration_s,
                run.metrics.iteration_s, text, what_bed, (long long)training->global_batch,
                model->tied_embedding);
    }
    ck_assert_msg(estimate.bound_s <= run.metrics.iteration_s * (1 + TOLERANCE_FRAC),
                  "%s, batch %lld on %s: bound %.12g s above the simulated %.12g s", text,
                  (long long)training->global_batch, what_bed, estimate.bound_s, run.metrics.iteration_s);
    ck_assert_msg(estimate.peak_memory_bytes == run.metrics.peak_memory_bytes,
                  "%s, batch %lld: %lld bytes estimated, %lld by the ledger", text,
                  (long long)training->global_batch, (long long)estimate.peak_memory_bytes,
                  (long long)run.metrics.peak_memory_bytes);
    double frac = estimate.is_coarse ? -1 : estimate.bound_s / run.metrics.iteration_s;
    ck_assert_msg(estimate.bound_s > 0, "%s: no bound", text);
    cs_run_release(&run);
    cs_trace_free(trace);
    cs_cost_free(cost);
    return frac;
}

static int compare_fracs(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return *x < *y ? -1 : *x > *y;
}

START_TEST(test_bed)
{
    struct cs_err err = {0};
    struct fixture f;
    struct cs_model model = {0};
    struct cs_training training;
    double fracs[N_CASES];
    int32_t n = 0;
    char what[128];
    cs_rng_init(&rng, SEED, (uint64_t)_i);
    fixture_open(&f, 1 << pick(MOST_NODES == 8 ? 4 : 2), 8, random_platform);
    ck_assert_ok(cs_model_load(&model, CS_TEST_SOURCE_DIR "/workloads/models/llama3-8b.yaml", &err), &err);
    random_model(&model, &training);
    snprintf(what, sizeof what, "bed %d (seed %d, %s %s, %d devices)", _i, SEED, f.platform.topology,
             f.platform.intra, f.platform.n_devices);
    for (int32_t i = 0; i < N_CASES; i++) {
        double frac = check_case(&f, &model, &training, what);
        if (frac >= 0) {
            fracs[n++] = frac;
        }
    }
    qsort(fracs, (size_t)n, sizeof *fracs, compare_fracs);
    if (n > 0) {
        printf("%s: bound / simulated of %d covered ones: least %.3f, median %.4f, most %.6f\n", what, (int)n,
               fracs[0], fracs[n / 2], fracs[n - 1]);
    }
    cs_model_release(&model);
    fixture_close(&f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("bound");
    TCase *c = tcase_create("random");
    tcase_add_loop_test(c, test_bed, 0, N_BEDS);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
