/* Random strategies through every trace format: ours comes back the same, Chakra with the same work and time.
 */
#include "cs_test.h"
#include "fixture.h"
#include "scratch.h"
#include "trace_equal.h"
#include "workload_fixture.h"

#include "cs/base/rng.h"
#include "cs/workloads/format.h"

#include <math.h>
#include <stdio.h>

#define N_CASES 40
#define N_SEEDS 4

static char scratch[64];
static char dir[96];
static struct fixture fixture;

static void set_up(void)
{
    scratch_open(scratch);
    snprintf(dir, sizeof dir, "%s/trace", scratch);
    fixture_open(&fixture, 16, 8, NULL);
}

static void tear_down(void)
{
    scratch_close(scratch);
    fixture_close(&fixture);
}

static int32_t pick(struct cs_rng *rng, const int32_t *values, uint32_t n)
{
    return values[cs_rng_below(rng, n)];
}
#define PICK(...)                                                                                            \
    pick(rng, (const int32_t[]){__VA_ARGS__},                                                                \
         (uint32_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

static struct cs_strategy random_strategy(struct cs_rng *rng, bool experts)
{
    struct cs_strategy s;
    cs_strategy_init(&s);
    s.dp = PICK(1, 2, 3, 4);
    s.mp = PICK(1, 1, 2, 4);
    s.cp = PICK(1, 1, 1, 2);
    s.pp = PICK(1, 2, 3, 4);
    s.op = PICK(1, 1, 2, 4);
    s.zero = s.op > 1 ? PICK(1, 2, 3) : 1;
    s.keep_weights = s.zero == 3 && cs_rng_below(rng, 2) == 0;
    s.sp = s.mp > 1 && cs_rng_below(rng, 2) == 1;
    s.vpp = PICK(1, 1, 2);
    s.micro_batch = PICK(1, 2);
    s.schedule = (enum cs_schedule)cs_rng_below(rng, CS_N_SCHEDULES);
    s.recompute = (enum cs_recompute)cs_rng_below(rng, CS_N_RECOMPUTE);
    s.cp_kind = (enum cs_cp_kind)cs_rng_below(rng, CS_N_CP_KINDS);
    s.seq_split = PICK(1, 1, 2);
    s.half_batches = PICK(1, 1, 1, 2);
    s.fused_tp = s.half_batches == 1 && cs_rng_below(rng, 4) == 0;
    s.swap_activations = cs_rng_below(rng, 4) == 0;
    s.offload_optimizer = cs_rng_below(rng, 4) == 0;
    if (experts) {
        s.sp = s.mp > 1;
        s.ep = PICK(1, 2, 4);
        s.expert_mp = s.sp && cs_rng_below(rng, 3) == 0;
    }
    cs_strategy_canonicalise(&s);
    return s;
}

static double op_time(const void *context, int32_t rank, const struct cs_op_cost *cost)
{
    (void)context;
    return cs_chip_op_time_s(fixture.platform.devices[rank].chip, cost);
}

static double replay(const struct cs_trace *trace, double *bubble_frac)
{
    struct cs_err err = {0};
    struct cs_run_options options;
    struct cs_run run = {0};
    cs_run_options_init(&options);
    /* Sums of the same durations differ in their last digits: SimGrid's usual 1e-9 s, below which two moments
     * are one to it, would make more of that than what is asserted. */
    const char *usual = fixture_simgrid_cfg();
    char cfg[256];
    (void)snprintf(cfg, sizeof cfg, "%s surf/precision:1e-12", usual ? usual : "");
    options.simgrid_cfg = cfg;
    ck_assert_ok(cs_engine_run(trace, fixture.routes, &options, &run, &err), &err);
    double iteration_s = run.metrics.iteration_s;
    *bubble_frac = run.metrics.bubble_frac;
    cs_run_release(&run);
    return iteration_s;
}

/* Work of a rank: seconds of computing, bytes of collectives by kind and of sends. */
struct work {
    double compute_s;
    double coll_bytes[CS_N_COLLS];
    double send_bytes;
    int64_t n_received;
};

static struct work work_of(const struct cs_trace *trace, int32_t rank, bool fixed)
{
    struct work work = {0};
    const struct cs_program *program = &trace->programs[trace->program_of_rank[rank]];
    for (int32_t call = 0; call < program->n_calls; call++) {
        const struct cs_block *block = &trace->blocks[program->calls[call].block];
        for (int32_t i = 0; i < block->n_ops; i++) {
            const struct cs_op *op = &block->ops[i];
            const struct cs_comm *comm = op->type == CS_OP_COLLECTIVE ? &trace->comms[op->comm] : NULL;
            int32_t group = comm ? comm->group_of_rank[rank] : -1;
            if (op->type == CS_OP_COMPUTE) {
                const struct cs_op_cost *cost = &trace->costs[op->cost];
                work.compute_s += fixed ? cost->fixed_s : op_time(NULL, rank, cost);
            } else if (op->type == CS_OP_SEND) {
                work.send_bytes += (double)op->bytes;
            } else if (op->type == CS_OP_RECV) {
                work.n_received++;
            } else if (group >= 0 && comm->group_first[group + 1] - comm->group_first[group] > 1) {
                int64_t n = comm->group_first[group + 1] - comm->group_first[group];
                /* A gather is written as what one rank gives, in whole bytes. */
                work.coll_bytes[op->coll] +=
                    (double)(op->coll == CS_COLL_ALL_GATHER ? (op->bytes + n - 1) / n * n : op->bytes);
            }
        }
    }
    return work;
}

static void assert_chakra(const struct cs_trace *trace, bool beside, const char *name)
{
    struct cs_err err = {0};
    struct cs_trace *read = NULL;
    ck_assert_ok(cs_trace_write_chakra(trace, op_time, NULL, dir, &err), &err);
    ck_assert_ok(cs_trace_read_chakra(dir, &read, NULL, &err), &err);
    ck_assert_int_eq(read->n_ranks, trace->n_ranks);
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        struct work a = work_of(trace, rank, false);
        struct work b = work_of(read, rank, true);
        ck_assert_msg(fabs(a.compute_s - b.compute_s) <= 1e-9 * a.compute_s, "%s: %g and %g s", name,
                      a.compute_s, b.compute_s);
        ck_assert(memcmp(a.coll_bytes, b.coll_bytes, sizeof a.coll_bytes) == 0);
        ck_assert(a.send_bytes == b.send_bytes && a.n_received == b.n_received);
    }
    double bubble[2];
    double made_s = replay(trace, &bubble[0]);
    double again_s = replay(read, &bubble[1]);
    /* Where nothing is in flight the reader may count a wait of a ring of context parallelism differently: a
     * hundred-thousandth of the step. Where a stream beside the compute stream is what takes a message first
     * (fused products, half-batches, swapped activations), the wait for it is not the compute stream's. */
    ck_assert_msg(beside || fabs(bubble[0] - bubble[1]) <= 1e-4, "%s: bubble %.9f became %.9f", name,
                  bubble[0], bubble[1]);
    ck_assert_msg(fabs(made_s - again_s) <= 1e-9 * made_s, "%s: %.12g s became %.12g s", name, made_s,
                  again_s);
    cs_trace_free(read);
    scratch_close(dir);
}

static cs_status ring(const void *context, enum cs_coll coll, const int32_t *members, int32_t n_members,
                      double bytes, struct cs_arena *arena, struct cs_coll_messages *messages,
                      struct cs_err *err)
{
    (void)context;
    (void)coll;
    (void)members;
    (void)err;
    struct cs_coll_message *list = CS_ARENA_NEW(arena, struct cs_coll_message, n_members);
    struct cs_coll_round *round = CS_ARENA_NEW(arena, struct cs_coll_round, 1);
    for (int32_t i = 0; i < n_members; i++) {
        list[i] = (struct cs_coll_message){i, (i + 1) % n_members, bytes / n_members};
    }
    *round = (struct cs_coll_round){n_members - 1, n_members, list};
    *messages = (struct cs_coll_messages){n_members > 1, round};
    return CS_OK;
}

static void assert_formats(const struct cs_trace *trace, bool beside, const char *name)
{
    struct cs_err err = {0};
    struct cs_trace *read = NULL;
    struct cs_smpi_options smpi = {.op_time = op_time, .coll_messages = ring, .host_flop_per_s = 1e12};
    ck_assert_ok(cs_trace_write_native(trace, dir, &err), &err);
    ck_assert_ok(cs_trace_read_native(dir, &read, &err), &err);
    assert_traces_equal(trace, read);
    cs_trace_free(read);
    scratch_close(dir);
    assert_chakra(trace, beside, name);
    ck_assert_ok(cs_trace_write_smpi(trace, &smpi, dir, &err), &err);
    ck_assert_int_eq(scratch_count(dir), trace->n_ranks + 1);
    scratch_close(dir);
}

START_TEST(test_random)
{
    struct cs_rng rng;
    const struct cs_model models[] = {workload_gpt(8, 512, 16, 4096), workload_moe(10, false)};
    int n_built = 0;
    int n_swapped = 0;
    cs_rng_init(&rng, (uint64_t)_i, 7);
    for (int i = 0; n_built < N_CASES && i < 50 * N_CASES; i++) {
        bool experts = cs_rng_below(&rng, 3) == 0;
        const struct cs_model model = models[experts];
        struct cs_training training = workload_training(&model, 24, 1024);
        training.async_tensor_parallel = i % 2 == 1;
        training.flash_attention = true;
        training.bucket_bytes = cs_rng_below(&rng, 2) ? 64e6 : 1e6;
        struct cs_strategy strategy = random_strategy(&rng, experts);
        struct cs_cluster_shape shape = {.n_devices = strategy.dp * strategy.mp * strategy.pp * strategy.cp,
                                         .devices_per_node = 8};
        char why[256];
        char text[256];
        char name[320];
        if (cs_strategy_check(&strategy, &model, &training, &shape, why, sizeof why)) {
            continue;
        }
        snprintf(name, sizeof name, "seed %d, case %d: %s", _i, i,
                 cs_strategy_format(&strategy, text, sizeof text));
        struct cs_err err = {0};
        struct cs_trace *trace = NULL;
        cs_status st = cs_trace_build(&model, &training, &strategy, &trace, &err);
        ck_assert_msg(st == CS_OK, "%s: %s", name, err.text);
        assert_formats(trace, strategy.fused_tp || strategy.half_batches > 1 || strategy.swap_activations,
                       name);
        cs_trace_free(trace);
        n_built++;
        n_swapped += strategy.swap_activations;
    }
    ck_assert_int_eq(n_built, N_CASES);
    ck_assert_int_gt(n_swapped, 0);
}
END_TEST

static Suite *formats_suite(void)
{
    Suite *suite = suite_create("formats, random");
    TCase *tc = tcase_create("strategies");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_random, 0, N_SEEDS);
    suite_add_tcase(suite, tc);
    return suite;
}

CS_TEST_MAIN(formats_suite)
