/* SMPI's own replay of what is written for it agrees with ours. Skipped where smpirun is not installed. */
#include "cs_test.h"
#include "fixture.h"
#include "handmade.h"
#include "scratch.h"
#include "workload_fixture.h"

#include "cs/workloads/format.h"

#include <math.h>
#include <stdio.h>

static char scratch[64];
static char dir[96];

static void set_up(void)
{
    scratch_open(scratch);
    snprintf(dir, sizeof dir, "%s/trace", scratch);
}

static void tear_down(void)
{
    scratch_close(scratch);
}

static double op_time(const void *context, int32_t rank, const struct cs_op_cost *cost)
{
    const struct cs_platform *platform = context;
    return cs_chip_op_time_s(platform->devices[rank].chip, cost);
}

static double replay(struct fixture *f, const struct cs_trace *trace)
{
    struct cs_err err = {0};
    struct cs_run_options options;
    struct cs_run run = {0};
    cs_run_options_init(&options);
    options.simgrid_cfg = fixture_simgrid_cfg();
    ck_assert_ok(cs_engine_run(trace, f->routes, &options, &run, &err), &err);
    double iteration_s = run.metrics.iteration_s;
    cs_run_release(&run);
    return iteration_s;
}

/* The engine's own plans as messages. */
static cs_status coll_messages(const void *context, enum cs_coll coll, const int32_t *members,
                               int32_t n_members, double bytes, struct cs_arena *arena,
                               struct cs_coll_messages *messages, struct cs_err *err)
{
    struct cs_coll_plan plan = {0};
    (void)err;
    cs_coll_plan_build(coll, CS_ALGO_AUTO, context, members, n_members, bytes, arena, &plan);
    struct cs_coll_round *phases = CS_ARENA_NEW(arena, struct cs_coll_round, plan.n_phases);
    for (int32_t p = 0; p < plan.n_phases; p++) {
        int32_t n = plan.phases[p].n_flows;
        struct cs_coll_message *list = CS_ARENA_NEW(arena, struct cs_coll_message, n);
        for (int32_t i = 0; i < n; i++) {
            const struct cs_flow *flow = &plan.phases[p].flows[i];
            list[i] = (struct cs_coll_message){flow->src, flow->dst, flow->bytes};
        }
        phases[p] = (struct cs_coll_round){plan.phases[p].n_rounds, n, list};
    }
    *messages = (struct cs_coll_messages){plan.n_phases, phases};
    return CS_OK;
}

static bool have_smpirun(void)
{
    return system("command -v smpirun >/dev/null 2>&1") == 0; /* NOLINT: a fixed command */
}

/* Replay a folder by SMPI on the fixture's own platform file, with the engine's network settings and nothing
 * added by MPI: sends wait for their receive, which is posted first. Seconds. */
static double replay_smpi(const struct fixture *f, const struct cs_trace *trace, bool across)
{
    char command[1024];
    char line[512];
    struct cs_strbuf hosts = {0};
    double time_s = -1;
    for (int32_t i = 0; i < trace->n_ranks; i++) {
        cs_strbuf_addf(&hosts, "%s\n",
                       across ? f->platform.devices[i].nic_host : f->platform.devices[i].host);
    }
    scratch_write(dir, "hosts", hosts.text, hosts.len);
    cs_strbuf_release(&hosts);
    snprintf(command, sizeof command,
             "cd %s && smpirun -np %d -hostfile hosts -platform %s -replay trace.txt "
             "--cfg=network/model:CM02 --cfg=network/latency-factor:1 --cfg=network/bandwidth-factor:1 "
             "--cfg=network/weight-S:0 --cfg=network/TCP-gamma:0 --cfg=network/crosstraffic:0 "
             "--cfg=smpi/os:0:0:0:0:0 --cfg=smpi/or:0:0:0:0:0 --cfg=smpi/ois:0:0:0:0:0 "
             "--cfg=smpi/async-small-thresh:0 --cfg=smpi/send-is-detached-thresh:0 --cfg=smpi/host-speed:1Gf "
             "--cfg=smpi/tmpdir:%s 2>&1",
             dir, (int)trace->n_ranks, f->path, dir);
    FILE *output = popen(command, "r");
    ck_assert_ptr_nonnull(output);
    struct cs_strbuf said = {0};
    while (fgets(line, sizeof line, output)) {
        const char *at = strstr(line, "Simulation time ");
        cs_strbuf_add(&said, line);
        if (at) {
            time_s = strtod(at + strlen("Simulation time "), NULL);
        }
    }
    int status = pclose(output);
    ck_assert_msg(status == 0 && time_s > 0, "smpirun ended with %d: %s", status, cs_strbuf_str(&said));
    cs_strbuf_release(&said);
    return time_s;
}

static void no_overheads(struct fixture *f)
{
    static struct cs_chip chip;
    chip = *f->platform.devices[0].chip;
    chip.collective_overhead_s = 0;
    for (int32_t i = 0; i < f->platform.n_devices; i++) {
        f->platform.devices[i].chip = &chip;
    }
}

static struct cs_smpi_options smpi_options(const struct fixture *f, bool across)
{
    return (struct cs_smpi_options){
        .op_time = op_time,
        .op_time_context = &f->platform,
        .coll_messages = coll_messages,
        .coll_messages_context = &f->platform,
        /* As the platform file has them: the chip's peak, and 1 Gf for what is only a network card. */
        .host_flop_per_s = across ? 1e9 : f->platform.devices[0].chip->peak_flop_per_s[CS_DTYPE_BF16],
    };
}

static const struct smpi_case {
    struct handmade shape;
    bool across;      /* one device a node, else all in one */
    double tolerance; /* @unit fraction */
} smpi_cases[] = {
    /* pipelines: nothing is lost */
    {{1, 1, 8, 32, false, 1e12, 2e12, 0, 16 << 20, 0}, false, 0.002},
    {{1, 1, 8, 32, true, 1e12, 2e12, 0, 64 << 20, 0}, true, 0.002},
    {{1, 1, 4, 16, false, 1e12, 2e12, 0, 16 << 20, 0}, true, 0.002},
    {{1, 1, 2, 8, true, 1e11, 2e11, 0, 256 << 20, 0}, true, 0.02}, /* the link is the bottleneck */
    {{1, 1, 2, 2, true, 1e11, 2e11, 0, INT64_C(5) << 30, 0},
     false,
     0.002}, /* more bytes than an int counts */
    /* data parallel: the all-reduce beside the last half of a backward pass */
    {{1, 8, 1, 64, true, 1e12, 2e12, 0, 0, 1 << 30}, false, 0.002},
    {{1, 8, 1, 64, true, 1e12, 2e12, 0, 0, 1 << 30}, true, 0.002},
    {{1, 5, 1, 32, true, 1e12, 2e12, 0, 0, 4000000000}, true, 0.002},
    /* tensor parallel: collectives block, nothing is lost */
    {{4, 1, 1, 8, true, 1e12, 2e12, 64 << 20, 0, 0}, false, 0.002},
    {{2, 1, 4, 8, false, 1e12, 2e12, 64 << 20, 16 << 20, 0}, false, 0.002},
};

START_TEST(test_handmade)
{
    const struct smpi_case *c = &smpi_cases[_i];
    struct fixture f;
    struct cs_err err = {0};
    fixture_open(&f, c->across ? 8 : 1, c->across ? 1 : 8, NULL);
    no_overheads(&f);
    struct cs_trace *trace = handmade_trace(&c->shape);
    struct cs_smpi_options options = smpi_options(&f, c->across);
    ck_assert_ok(cs_trace_write_smpi(trace, &options, dir, &err), &err);
    double ours_s = replay(&f, trace);
    double smpi_s = replay_smpi(&f, trace, c->across);
    ck_assert_msg(fabs(smpi_s - ours_s) <= c->tolerance * ours_s + 1e-6,
                  "SMPI %.6f s, ours %.6f s (%+.3f %%)", smpi_s, ours_s, 100 * (smpi_s / ours_s - 1));
    handmade_free(trace);
    fixture_close(&f);
}
END_TEST

/* What a training step really does. */
static const struct generated {
    const char *strategy;
    double tolerance; /* @unit fraction */
} generated[] = {
    {"pp=8", 0.002},
    {"mp=2,pp=4", 0.002},
    {"dp=8", 0.002},
    {"dp=8,op=8", 0.002},
    {"dp=2,pp=4,op=2", 0.002},
    {"dp=4,pp=2,op=4,zero=3", 0.003},
    {"dp=8,op=8,zero=3", 0.003},
    {"dp=4,op=4,zero=3", 0.003},
    /* the scatter over op and the sum over its copies, which follow each other, begin together */
    {"dp=4,op=2", 0.2},
    {"dp=4,op=2,zero=3", 0.11},
    {"dp=2,cp=4", 0.002},
    {"dp=2,mp=4,half_batches=2", 0.002},
    /* the next piece begins when the process comes to wait for the one before */
    {"dp=2,mp=4,sp=true,fused_tp=true", 0.03},
    {"dp=2,mp=2,pp=2,op=2,zero=2", 0.03}};

START_TEST(test_generated)
{
    const struct generated *g = &generated[_i];
    struct fixture f;
    struct cs_err err = {0};
    fixture_open(&f, 1, 8, NULL);
    no_overheads(&f);
    struct cs_model model = workload_model("llama2-7b");
    struct cs_training training = workload_training(&model, 16, 2048);
    training.clip_gradient = false;
    struct cs_trace *trace = workload_trace(&model, &training, g->strategy);
    struct cs_smpi_options options = smpi_options(&f, false);
    ck_assert_ok(cs_trace_write_smpi(trace, &options, dir, &err), &err);
    double ours_s = replay(&f, trace);
    double smpi_s = replay_smpi(&f, trace, false);
    ck_assert_msg(fabs(smpi_s - ours_s) <= g->tolerance * ours_s, "%s: SMPI %.6f s, ours %.6f s (%+.3f %%)",
                  g->strategy, smpi_s, ours_s, 100 * (smpi_s / ours_s - 1));
    cs_trace_free(trace);
    cs_model_release(&model);
    fixture_close(&f);
}
END_TEST

static Suite *smpi_suite(void)
{
    Suite *suite = suite_create("smpi");
    TCase *tc = tcase_create("replay");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_handmade, 0, CS_COUNT(smpi_cases));
    tcase_add_loop_test(tc, test_generated, 0, CS_COUNT(generated));
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    if (!have_smpirun()) {
        fprintf(stderr, "smpirun is not installed\n");
        return 77;
    }
    SRunner *runner = srunner_create(smpi_suite());
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
