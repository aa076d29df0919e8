/* Random strategies: either a rule refuses, or the trace is complete and conserves what it must. */
#include "cs_test.h"
#include "workload_fixture.h"

#include "cs/base/rng.h"

#include <stdio.h>

#define N_CASES 12000
#define N_SEEDS 4
#define N_MODELS 5

static int32_t pick(struct cs_rng *rng, const int32_t *values, uint32_t n)
{
    return values[cs_rng_below(rng, n)];
}
#define PICK(...)                                                                                            \
    pick(&rng, (const int32_t[]){__VA_ARGS__},                                                               \
         (uint32_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

static struct cs_strategy random_strategy(struct cs_rng *state)
{
    struct cs_rng rng = *state;
    struct cs_strategy s;
    cs_strategy_init(&s);
    s.dp = PICK(1, 2, 3, 4, 8, 16);
    s.mp = PICK(1, 2, 4, 8, 16);
    s.pp = PICK(1, 2, 3, 4, 8);
    s.op = PICK(1, 2, 4, 8, 16, 3);
    if (cs_rng_below(&rng, 3) == 0) {
        s.op = s.dp;
    }
    s.zero = PICK(1, 2, 3);
    s.sp = cs_rng_below(&rng, 2) == 1;
    s.micro_batch = PICK(1, 2, 4);
    s.schedule = (enum cs_schedule)cs_rng_below(&rng, CS_N_SCHEDULES);
    if (s.schedule == CS_SCHED_INTERLEAVED || s.schedule == CS_SCHED_SEQPIPE) {
        s.vpp = PICK(1, 2, 3, 4);
    } else if (s.schedule == CS_SCHED_ZERO_BUBBLE_V) {
        s.vpp = 2;
    }
    s.seq_split = PICK(1, 2, 4);
    s.cp = PICK(1, 1, 1, 2, 4);
    s.cp_kind = (enum cs_cp_kind)cs_rng_below(&rng, CS_N_CP_KINDS);
    s.ep = PICK(1, 1, 2, 4, 8, 16);
    s.half_batches = PICK(1, 1, 2);
    s.fused_tp = s.half_batches == 1 && cs_rng_below(&rng, 3) == 0;
    s.keep_comm = cs_rng_below(&rng, 4) == 0;
    s.offload_optimizer = cs_rng_below(&rng, 6) == 0;
    s.swap_activations = cs_rng_below(&rng, 6) == 0;
    s.expert_mp = s.ep > 1 && cs_rng_below(&rng, 2) == 0;
    s.keep_weights = s.zero == 3 && cs_rng_below(&rng, 2) == 0;
    s.recompute = (enum cs_recompute)PICK(CS_RECOMPUTE_NONE, CS_RECOMPUTE_SELECTIVE, CS_RECOMPUTE_FULL);
    for (uint32_t i = CS_N_DIMS - 1; i > 0; i--) {
        uint32_t j = cs_rng_below(&rng, i + 1);
        enum cs_dim swapped = s.placement[i];
        s.placement[i] = s.placement[j];
        s.placement[j] = swapped;
    }
    if (cs_rng_below(&rng, 8) > 0) {
        cs_strategy_canonicalise(&s);
    }
    *state = rng;
    return s;
}

/** Uneven places and layers recomputed by number, now and then. */
static void random_lists(struct cs_rng *rng, struct cs_strategy *s, int32_t n_layers)
{
    int32_t n = s->schedule == CS_SCHED_DUALPIPE ? s->pp : s->pp * s->vpp;
    if (n > n_layers || n > CS_PLACES_MAX || cs_rng_below(rng, 3) > 0) {
        return;
    }
    int32_t left = n_layers;
    s->layers.n = s->full_layers.n = s->selective_layers.n = (uint8_t)n;
    for (int32_t i = 0; i < n; i++) {
        int32_t most = left - (n - 1 - i);
        int32_t layers = i == n - 1 ? left : 1 + (int32_t)cs_rng_below(rng, (uint32_t)most);
        left -= layers;
        s->layers.at[i] = (uint16_t)layers;
        s->full_layers.at[i] = (uint16_t)cs_rng_below(rng, (uint32_t)(layers < 4 ? layers + 1 : 4));
        s->selective_layers.at[i] = (uint16_t)cs_rng_below(rng, (uint32_t)(layers < 6 ? layers + 1 : 6));
    }
    cs_strategy_canonicalise(s);
}

/** `exact_state`: no rank holds what another holds too but the copies that the strategy keeps. */
static void check_trace(const struct cs_trace *trace, const struct cs_training *training, bool exact_flop,
                        bool exact_state, const char *name)
{
    double state = 0;
    double flop = 0;
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        struct cs_mem_peak peak;
        struct cs_trace_totals totals;
        cs_trace_memory(trace, trace->program_of_rank[rank], &peak);
        cs_trace_program_totals(trace, trace->program_of_rank[rank], &totals);
        double held = trace->programs[trace->program_of_rank[rank]].state_bytes;
        ck_assert_msg((double)peak.final_bytes == held && peak.total_bytes > peak.final_bytes,
                      "%s: rank %d ends with %lld bytes", name, (int)rank, (long long)peak.final_bytes);
        state += held;
        flop += totals.compute_flop - totals.recompute_flop;
    }
    ck_assert_msg(state >= trace->model_state_bytes,
                  "%s: the ranks hold %.0f bytes of state, the model has %.0f", name, state,
                  trace->model_state_bytes);
    ck_assert_msg(state >= trace->cluster_state_bytes * (1 - 1e-9),
                  "%s: the ranks hold %.0f bytes of state, the copies that it keeps are %.0f", name, state,
                  trace->cluster_state_bytes);
    /* Shards are rounded up, bucket by bucket. */
    ck_assert_msg(!exact_state || state <= trace->cluster_state_bytes * 1.01,
                  "%s: the ranks hold %.0f bytes of state, the copies that it keeps are only %.0f", name,
                  state, trace->cluster_state_bytes);
    if (exact_flop && !training->flash_attention) {
        ck_assert_msg(flop > trace->model_flop * (1 - 1e-9) && flop < trace->model_flop * (1 + 1e-9),
                      "%s: %.17g flop, the model asks for %.17g", name, flop, trace->model_flop);
    }
}

START_TEST(test_random)
{
    struct cs_rng rng;
    struct cs_model models[N_MODELS] = {workload_model("llama3-8b"), workload_gpt(7, 512, 16, 4096),
                                        workload_gpt(12, 256, 8, 1024), workload_moe(12, false),
                                        workload_moe(9, true)};
    int n_built = 0;
    int n_of_schedule[CS_N_SCHEDULES] = {0};
    int n_joined = 0; /* with expert communication of one direction under the other */
    models[2].dropout_frac = 0;
    models[2].tied_embedding = false;
    cs_rng_init(&rng, (uint64_t)_i, 1);
    for (int i = 0; i < N_CASES / N_SEEDS; i++) {
        const struct cs_model *model = &models[cs_rng_below(&rng, N_MODELS)];
        struct cs_training training =
            workload_training(model, INT64_C(1) << (4 + cs_rng_below(&rng, 7)), 1024);
        training.flash_attention = cs_rng_below(&rng, 2) == 1;
        training.clip_gradient = cs_rng_below(&rng, 4) > 0;
        training.bucket_bytes = cs_rng_below(&rng, 2) ? 64e6 : 1e6;
        training.dtype = (enum cs_dtype)PICK(CS_DTYPE_BF16, CS_DTYPE_BF16, CS_DTYPE_FP32, CS_DTYPE_FP8);
        training.gradient_fp32_sync = cs_rng_below(&rng, 2) == 1;
        training.scatter_messages = cs_rng_below(&rng, 2) == 1;
        training.blocking_sends = cs_rng_below(&rng, 2) == 1;
        training.serial_messages = cs_rng_below(&rng, 2) == 1;
        training.async_tensor_parallel = cs_rng_below(&rng, 2) == 1;
        training.separate_accumulation = cs_rng_below(&rng, 2) == 1;
        training.widened_gradients = cs_rng_below(&rng, 2) == 1;
        training.separate_gate = cs_rng_below(&rng, 2) == 1;
        training.separate_gelu = cs_rng_below(&rng, 2) == 1;
        training.norm_casts = cs_rng_below(&rng, 2) == 1;
        training.score_bytes[0] = training.score_bytes[1] = PICK(0, 8);
        training.optimizer_traffic_bytes = PICK(0, 200);
        training.gradient_dtype = (enum cs_dtype)PICK(CS_DTYPE_FP32, CS_DTYPE_BF16);
        training.routing_imbalance_frac = PICK(0, 0, 0, 2);
        training.aggregation_groups = PICK(0, 0, 1, 4);
        training.separate_loss = cs_rng_below(&rng, 2) == 1;
        training.optimizer = (enum cs_optimizer)PICK(CS_OPT_ADAMW, CS_OPT_SGD, CS_OPT_MUON);
        struct cs_strategy strategy = random_strategy(&rng);
        /* What a rule would refuse at once, most of the time left alone so that the rules have something to
         * do. */
        bool tame = cs_rng_below(&rng, 8) > 0;
        strategy.ep = tame && model->n_experts == 0 ? 1 : strategy.ep;
        strategy.expert_mp &= !tame || model->n_experts > 0;
        strategy.sp |= tame && model->n_experts > 0 && strategy.mp > 1;
        strategy.cp = strategy.dp == 16 && tame ? 1 : strategy.cp;
        training.flash_attention |= tame && (strategy.cp > 1 || strategy.schedule == CS_SCHED_SEQPIPE);
        random_lists(&rng, &strategy, model->n_layers);
        struct cs_cluster_shape shape = {.n_devices = strategy.dp * strategy.mp * strategy.pp * strategy.cp,
                                         .devices_per_node = 8};
        char name[512];
        char text[256];
        char why[256];
        snprintf(name, sizeof name, "seed %d, case %d, %s, %s", _i, i, model->name,
                 cs_strategy_format(&strategy, text, sizeof text));
        struct cs_err err = {0};
        struct cs_trace *trace = NULL;
        if (cs_strategy_check(&strategy, model, &training, &shape, why, sizeof why) != NULL) {
            ck_assert_msg(why[0] != '\0', "%s: refused without a word", name);
            continue;
        }
        cs_status st = cs_trace_build(model, &training, &strategy, &trace, &err);
        ck_assert_msg(st == CS_OK, "%s: %s", name, err.text);
        st = cs_trace_check(trace, &err);
        ck_assert_msg(st == CS_OK, "%s: %s", name, err.text);
        /* Down-projections of latent attention and the choice of experts are done by every tensor-parallel
         * rank unless sp cuts them. */
        bool by_token = model->kv_lora_rank > 0 || model->n_experts > 0;
        bool once = strategy.mp <= model->n_kv_heads && (!by_token || strategy.sp || strategy.mp == 1);
        /* Heads that share the vocabulary's matrix with the embedding keep one more on another stage. */
        bool shares = model->tied_embedding || model->n_mtp_layers > 0;
        bool alone = strategy.mp == 1 && (!shares || strategy.pp == 1);
        once = once && (strategy.ep == 1 || training.routing_imbalance_frac <= 1);
        check_trace(trace, &training, once, alone, name);
        for (int32_t e = 0; e < trace->n_events; e++) {
            n_joined += strcmp(trace->event_names[e], "ep done") == 0;
        }
        cs_trace_free(trace);
        n_built++;
        n_of_schedule[strategy.schedule]++;
    }
    ck_assert_int_gt(n_built, N_CASES / N_SEEDS / 10);
    for (int32_t i = 0; i < CS_N_SCHEDULES; i++) {
        ck_assert_msg(n_of_schedule[i] > 10, "schedule %s: %d traces", cs_schedule_names[i],
                      n_of_schedule[i]);
    }
    ck_assert_int_gt(n_joined, 0);
    cs_model_release(&models[0]);
}
END_TEST

static Suite *property_suite(void)
{
    Suite *suite = suite_create("trace properties");
    TCase *random = tcase_create("random strategies");
    tcase_add_loop_test(random, test_random, 0, N_SEEDS);
    suite_add_tcase(suite, random);
    return suite;
}

CS_TEST_MAIN(property_suite)
