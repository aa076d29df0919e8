/* Pipeline schedules, through the traces they make: run with free communication, kept micro-batches. */
#include "cs_test.h"
#include "workload_fixture.h"

#include <stdio.h>

/* Time units of one layer of a stage with one place: forward, input gradients, weight gradients. */
#define T_FORWARD 1.0
#define T_INPUT 1.0
#define T_WEIGHT 1.0

#define STAGES_MAX 8
#define SENDS_MAX 4096

/** A run of a trace of dp = mp = cp = 1 (a rank is a stage) where a pass takes as long as its kind says and
 *  messages take no time. */
struct run {
    const struct cs_trace *trace;
    double unit; /* share of a stage's layers in a chunk, of a micro-batch in a slice */
    int32_t call[STAGES_MAX];
    double now[STAGES_MAX];
    double busy[STAGES_MAX];
    int32_t n_sent[16][STAGES_MAX], n_received[16][STAGES_MAX];
    double sent[16][STAGES_MAX][SENDS_MAX];
};

static double duration(const struct cs_block *block)
{
    return strncmp(block->name, "forward", 7) == 0    ? T_FORWARD
           : strncmp(block->name, "backward", 8) == 0 ? T_INPUT + T_WEIGHT
           : strncmp(block->name, "input", 5) == 0    ? T_INPUT
           : strncmp(block->name, "weight", 6) == 0   ? T_WEIGHT
                                                      : 0;
}

/** Run the stage's next call if all it receives has been sent; the end of the pass sends. */
static bool step(struct run *run, int32_t stage)
{
    const struct cs_trace *trace = run->trace;
    const struct cs_program *program = &trace->programs[stage];
    if (run->call[stage] == program->n_calls) {
        return false;
    }
    const struct cs_block *block = &trace->blocks[program->calls[run->call[stage]].block];
    double start = run->now[stage];
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_RECV) {
            int32_t source = trace->chans[op->comm].source[stage];
            int32_t k = run->n_received[op->comm][stage];
            if (run->n_sent[op->comm][source] <= k) {
                return false;
            }
            double at = run->sent[op->comm][source][k];
            start = at > start ? at : start;
        }
    }
    run->call[stage]++;
    run->now[stage] = start + duration(block) * run->unit;
    run->busy[stage] += duration(block) * run->unit;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_RECV) {
            run->n_received[op->comm][stage]++;
        } else if (op->type == CS_OP_SEND) {
            ck_assert_int_lt(run->n_sent[op->comm][stage], SENDS_MAX);
            run->sent[op->comm][stage][run->n_sent[op->comm][stage]++] = run->now[stage];
        }
    }
    return true;
}

/** Time of the whole and, in *busy, of one stage's work. */
static double run_trace(const struct cs_trace *trace, double unit, double *busy)
{
    static struct run run;
    double end = 0;
    run = (struct run){.trace = trace, .unit = unit};
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t stage = 0; stage < trace->n_programs; stage++) {
            while (step(&run, stage)) {
                moved = true;
            }
        }
    }
    for (int32_t stage = 0; stage < trace->n_programs; stage++) {
        ck_assert_int_eq(run.call[stage], trace->programs[stage].n_calls);
        end = run.now[stage] > end ? run.now[stage] : end;
    }
    *busy = run.busy[0];
    return end;
}

static struct cs_model model;

static struct cs_trace *pipeline(const char *schedule, int32_t pp, int32_t vpp, int32_t m, int32_t slices)
{
    char text[160];
    model = workload_gpt(32, 256, 8, 1024);
    model.flash_attention = true;
    struct cs_training training = workload_training(&model, m, 1024);
    snprintf(text, sizeof text, "pp=%d,vpp=%d,schedule=%s,seq_split=%d", (int)pp, (int)vpp, schedule,
             (int)slices);
    return workload_trace(&model, &training, text);
}

static double bubble(const char *schedule, int32_t pp, int32_t vpp, int32_t m, int32_t slices)
{
    struct cs_trace *trace = pipeline(schedule, pp, vpp, m, slices);
    double busy;
    int32_t chunks = strcmp(schedule, "dualpipe") == 0 ? 1 : vpp;
    double end = run_trace(trace, 1.0 / chunks / slices, &busy);
    ck_assert_double_eq_tol(busy, m * (T_FORWARD + T_INPUT + T_WEIGHT), 1e-9);
    cs_trace_free(trace);
    return end / busy - 1;
}

START_TEST(test_bubbles)
{
    /* As a share of the useful time. 1F1B and GPipe (p-1)/m; interleaved (p-1)/(m v) (Narayanan et al., arXiv
     * 2104.04473, section 2.2); seqpipe (p-1)/(m seq); ZB-H1 (p-1)(tF + tB - tW) / m (tF + tB + tW) (Qi et
     * al., arXiv 2401.10241, table 2). */
    static const int32_t pps[] = {2, 4, 8};
    const int32_t p = pps[_i % 3];
    const int32_t m = _i < 3 ? 2 * p : 4 * p;
    ck_assert_double_eq_tol(bubble("1f1b", p, 1, m, 1), (p - 1.0) / m, 1e-9);
    ck_assert_double_eq_tol(bubble("gpipe", p, 1, m, 1), (p - 1.0) / m, 1e-9);
    for (int32_t v = 2; v <= 4; v += 2) {
        double share = bubble("interleaved", p, v, m, 1);
        ck_assert_double_eq_tol(share / (1 + share), (p - 1.0) / (m * v + p - 1), 1e-9);
        ck_assert_double_eq_tol(share, (p - 1.0) / (m * v), 1e-9);
    }
    ck_assert_double_eq_tol(bubble("seqpipe", p, 1, m, 4), (p - 1.0) / (m * 4), 1e-9);
    double h1 = (p - 1) * (T_FORWARD + T_INPUT - T_WEIGHT) / (m * (T_FORWARD + T_INPUT + T_WEIGHT));
    ck_assert_double_eq_tol(bubble("zero-bubble", p, 1, m, 1), h1, 1e-9);
    /* The V form has next to none when the three passes are equal: less than ZB-H1. */
    double v_form = bubble("zero-bubble-v", p, 2, m, 1);
    ck_assert_msg(v_form < h1 + 1e-9, "p %d, m %d: V %f, H1 %f", (int)p, (int)m, v_form, h1);
    double both_ways = bubble("dualpipe", p, 1, m, 1);
    ck_assert_msg(both_ways < (p - 1.0) / m, "p %d, m %d: DualPipe %f", (int)p, (int)m, both_ways);
}
END_TEST

START_TEST(test_few_micro_batches)
{
    /* With fewer micro-batches than stages the pipeline is never full: m forwards and m backwards pass p
     * stages, so (p-1)/m more than the useful time whatever the order. */
    static const int32_t ms[] = {1, 2, 3, 5, 7};
    const int32_t p = 8;
    const int32_t m = ms[_i];
    ck_assert_double_eq_tol(bubble("1f1b", p, 1, m, 1), (p - 1.0) / m, 1e-9);
    ck_assert_double_eq_tol(bubble("gpipe", p, 1, m, 1), (p - 1.0) / m, 1e-9);
    double slices = bubble("seqpipe", p, 1, m, 2);
    ck_assert_double_eq_tol(slices, (p - 1.0) / (m * 2), 1e-9);
    double h1 = bubble("zero-bubble", p, 1, m, 1);
    ck_assert_msg(h1 < (p - 1.0) / m, "m %d: ZB-H1 %f", (int)m, h1);
}
END_TEST

/** Most micro-batches (or slices) of a chunk that a stage keeps: forwards less backwards. */
static int32_t in_flight(const struct cs_trace *trace, int32_t stage, int32_t chunk)
{
    const struct cs_program *program = &trace->programs[stage];
    char suffix[16];
    int32_t now = 0;
    int32_t most = 0;
    snprintf(suffix, sizeof suffix, "chunk %d", (int)chunk);
    for (int32_t i = 0; i < program->n_calls; i++) {
        const char *name = trace->blocks[program->calls[i].block].name;
        if (chunk >= 0 && !strstr(name, suffix)) {
            continue;
        }
        now += strncmp(name, "forward", 7) == 0;
        now -= strncmp(name, "backward", 8) == 0 || strncmp(name, "input", 5) == 0;
        most = now > most ? now : most;
    }
    return most;
}

/** Pieces that stage `stage` of `pp` keeps by the factors of MindFormers' memory estimate (SAPP-ND), with
 * base = pp: all its chunks together. */
static int32_t estimated(const char *schedule, int32_t pp, int32_t stage, int32_t vpp, int32_t m,
                         int32_t slices)
{
    if (strcmp(schedule, "gpipe") == 0) {
        return m;
    }
    if (strcmp(schedule, "zero-bubble-v") == 0) {
        return (2 * pp - 1 - stage) + stage;
    }
    if (vpp == 1) {
        return pp - stage + slices - 1;
    }
    /* Interleaved: the last chunk's lack of pp is made up from what the first has more. */
    int32_t extra = pp - stage - 1;
    int32_t last = pp - stage + slices - 1;
    if (last < pp) {
        int32_t moved = extra < 1 ? extra : 1;
        last += moved;
        extra -= moved;
    }
    return pp + extra - (stage == 0 ? 1 : 0) + (vpp - 2) * pp + last;
}

START_TEST(test_in_flight)
{
    /* What stages keep, against that estimate. It is one below what a stage can do with in two places:
     * - zero-bubble-v: chunk 1 of stage 0 is the model's last piece, whose backward pass needs what its own
     *   forward pass has just kept: 1, where the estimate has 0. With the piece at hand a stage keeps 2 pp
     *   halves, which is the activation memory of 1F1B's first stage, as its authors state for it (Qi et al.,
     *   arXiv 2405.15362, table of V-ZB: p micro-batches; arXiv 2401.10241, section 6).
     * - interleaved, stage 0: Megatron-LM's warm-up of 2 (pp - 1) + (vpp - 1) pp forward passes and one more
     *   before the first backward pass (arXiv 2104.04473, section 2.2.2); other stages agree. */
    static const struct {
        const char *schedule;
        int32_t vpp, slices, above_at_0, above;
    } rows[] = {{"gpipe", 1, 1, 0, 0},       {"1f1b", 1, 1, 0, 0},    {"seqpipe", 1, 4, 0, 0},
                {"interleaved", 2, 1, 1, 0}, {"seqpipe", 2, 2, 1, 0}, {"zero-bubble-v", 2, 1, 1, 1},
                {"interleaved", 4, 1, 1, 0}};
    for (int32_t pp = 2; pp <= 8; pp *= 2) {
        struct cs_trace *trace = pipeline(rows[_i].schedule, pp, rows[_i].vpp, 16, rows[_i].slices);
        for (int32_t i = 0; i < pp; i++) {
            int32_t want = estimated(rows[_i].schedule, pp, i, rows[_i].vpp, 16, rows[_i].slices) +
                           (i == 0 ? rows[_i].above_at_0 : rows[_i].above);
            int32_t have = in_flight(trace, i, -1);
            ck_assert_msg(have == want, "%s, stage %d of %d keeps %d, not %d", rows[_i].schedule, (int)i,
                          (int)pp, (int)have, (int)want);
        }
        cs_trace_free(trace);
    }
}
END_TEST

START_TEST(test_in_flight_of_papers)
{
    for (int32_t pp = 2; pp <= 8; pp *= 2) {
        struct cs_trace *trace = pipeline("zero-bubble-v", pp, 2, 16, 1);
        for (int32_t i = 0; i < pp; i++) {
            ck_assert_int_eq(in_flight(trace, i, 0), 2 * pp - i);
            ck_assert_int_eq(in_flight(trace, i, 1), i + 1);
            ck_assert_int_eq(in_flight(trace, i, -1), 2 * pp);
        }
        cs_trace_free(trace);
        /* DeepSeek-V3 (arXiv 2412.19437), table 2: pp + 1. */
        trace = pipeline("dualpipe", pp, 1, 16, 1);
        for (int32_t i = 0; i < pp; i++) {
            ck_assert_int_eq(in_flight(trace, i, -1), pp + 1);
        }
        cs_trace_free(trace);
        /* ZB-H1 keeps activations or, of those whose input gradients are done, operands of weight gradients:
         * pp at most, as 1F1B's first stage (arXiv 2401.10241, section 2.2). */
        trace = pipeline("zero-bubble", pp, 1, 16, 1);
        for (int32_t i = 0; i < pp; i++) {
            const struct cs_program *program = &trace->programs[i];
            int32_t now = 0;
            int32_t most = 0;
            for (int32_t k = 0; k < program->n_calls; k++) {
                const char *name = trace->blocks[program->calls[k].block].name;
                now += strncmp(name, "forward", 7) == 0;
                now -= strncmp(name, "weight", 6) == 0;
                most = now > most ? now : most;
            }
            ck_assert_int_eq(in_flight(trace, i, -1), pp - i);
            ck_assert_int_le(most, pp);
        }
        cs_trace_free(trace);
    }
}
END_TEST

START_TEST(test_dualpipe_state)
{
    /* Two copies of the model: twice its state. */
    struct cs_trace *trace = pipeline("dualpipe", 4, 1, 16, 1);
    double state = 0;
    for (int32_t i = 0; i < 4; i++) {
        state += trace->programs[i].state_bytes;
    }
    /* The tied matrix is once on each end, where one copy's embedding and the other's head are. */
    double tied = 18.0 * 1024 * 256;
    ck_assert_double_eq_tol(state, 2 * trace->model_state_bytes, tied + 1);
    /* The check of lost state asks for both. */
    ck_assert_double_eq_tol(trace->cluster_state_bytes, 2 * trace->model_state_bytes, 1);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_lists)
{
    static const struct {
        const char *strategy, *rule;
    } rows[] = {
        {"pp=4,layers=9/8/8/7", NULL},
        {"pp=4,layers=9/8/8/8", "lists-fit"},
        {"pp=4,layers=16/16/0/0", "lists-fit"},
        {"pp=4,layers=16/16", "lists-fit"},
        {"pp=4,vpp=2,schedule=interleaved,full_layers=4/4/4/4/2/2/1/0", NULL},
        {"pp=4,vpp=2", "vpp-fits-schedule"},
        {"pp=4,vpp=1,schedule=interleaved", "vpp-fits-schedule"},
        {"pp=4,vpp=3,schedule=zero-bubble-v", "vpp-fits-schedule"},
        {"pp=4,vpp=16,schedule=interleaved", "layers-per-stage"},
        {"pp=4,vpp=100,schedule=interleaved", "places-countable"},
        {"pp=3,schedule=dualpipe", "dualpipe-even"},
        {"pp=8,schedule=dualpipe", "micro-batches-fill-pipeline"},
        {"pp=8,vpp=2,schedule=interleaved", "micro-batches-fill-pipeline"},
        {"pp=4,schedule=seqpipe,seq_split=3", "slices-fit"},
        {"pp=4,schedule=seqpipe,seq_split=8,vpp=2", "slices-fit"},
        {"pp=4,schedule=seqpipe,seq_split=4,vpp=2", NULL},
    };
    char why[256];
    model = workload_gpt(32, 256, 8, 1024);
    model.flash_attention = true;
    struct cs_training training = workload_training(&model, 12, 1024);
    struct cs_strategy strategy = workload_strategy(rows[_i].strategy);
    struct cs_cluster_shape shape = {.n_devices = strategy.pp, .devices_per_node = 8};
    const char *rule = cs_strategy_check(&strategy, &model, &training, &shape, why, sizeof why);
    ck_assert_msg((rule == NULL) == (rows[_i].rule == NULL) &&
                      (rule == NULL || strcmp(rule, rows[_i].rule) == 0),
                  "%s: %s (%s)", rows[_i].strategy, rule ? rule : "fits", why);
    if (rule == NULL) {
        cs_trace_free(workload_trace(&model, &training, rows[_i].strategy));
    }
}
END_TEST

/** "KEY=NUMBER/NUMBER/..." with `n` numbers, the first of them `first`. */
static void put_list(char *text, size_t bytes, const char *key, int32_t n, int32_t first, int32_t other)
{
    size_t len = strlen(text);
    len += (size_t)snprintf(text + len, bytes - len, ",%s=%d", key, (int)first);
    for (int32_t i = 1; i < n; i++) {
        len += (size_t)snprintf(text + len, bytes - len, "/%d", (int)other);
    }
}

START_TEST(test_many_stages)
{
    /* As many stages as LLaMA3-405B has layers, with a list of each kind; back from text the same. */
    char text[CS_STRATEGY_TEXT_MAX] = "dp=1,mp=1,pp=126";
    char again[CS_STRATEGY_TEXT_MAX];
    char why[256];
    struct cs_err err = {0};
    put_list(text, sizeof text, "layers", 126, 1, 1);
    put_list(text, sizeof text, "full_layers", 126, 1, 0);
    put_list(text, sizeof text, "selective_layers", 126, 0, 1);
    struct cs_strategy strategy = workload_strategy(text);
    ck_assert_str_eq(cs_strategy_format(&strategy, again, sizeof again), text);
    model = workload_gpt(126, 256, 8, 1024);
    struct cs_training training = workload_training(&model, 128, 1024);
    struct cs_cluster_shape shape = {.n_devices = 126, .devices_per_node = 8};
    const char *rule = cs_strategy_check(&strategy, &model, &training, &shape, why, sizeof why);
    ck_assert_msg(rule == NULL, "%s", why);
    struct cs_trace *trace = workload_trace(&model, &training, text);
    int64_t bytes[2];
    for (int32_t i = 0; i < 2; i++) {
        workload_count(trace, workload_block(trace, i == 0 ? 0 : 125, "forward"),
                       (struct workload_filter){
                           .type = IS(CS_OP_ALLOC), .mem = IS(CS_MEM_ACTIVATIONS), .layer = IS(125 * i)},
                       &bytes[i]);
    }
    ck_assert_int_eq(bytes[0], 2 * 1024 * 256); /* fully recomputed: its input */
    ck_assert_int_gt(bytes[1], bytes[0]);
    cs_trace_free(trace);
    /* More than the text of any list may hold is said, not cut. */
    char most[CS_STRATEGY_TEXT_MAX] = "pp=129";
    put_list(most, sizeof most, "layers", 129, 1, 1);
    ck_assert_fails(cs_strategy_parse(most, CS_NOLOC, &strategy, NULL, &err), &err, CS_E_INPUT, 0,
                    "128 numbers");
}
END_TEST

START_TEST(test_recompute_lists)
{
    /* The first layers of a place as the lists say: what a stage keeps falls accordingly. */
    model = workload_gpt(8, 256, 8, 1024);
    struct cs_training training = workload_training(&model, 8, 1024);
    struct cs_trace *trace = workload_trace(&model, &training, "pp=2,full_layers=2/0,selective_layers=3/1");
    const struct cs_block *block = workload_block(trace, 0, "forward");
    int64_t bytes[4];
    for (int32_t layer = 0; layer < 4; layer++) {
        workload_count(trace, block,
                       (struct workload_filter){
                           .type = IS(CS_OP_ALLOC), .mem = IS(CS_MEM_ACTIVATIONS), .layer = IS(layer)},
                       &bytes[layer]);
    }
    ck_assert_int_eq(bytes[0], 2 * 1024 * 256);
    ck_assert_int_eq(bytes[0], bytes[1]);
    ck_assert_int_lt(bytes[1], bytes[2]);
    ck_assert_int_lt(bytes[2], bytes[3]);
    cs_trace_free(trace);
}
END_TEST

static Suite *schedules_suite(void)
{
    Suite *suite = suite_create("schedules");
    TCase *c = tcase_create("schedules");
    tcase_add_loop_test(c, test_bubbles, 0, 6);
    tcase_add_loop_test(c, test_in_flight, 0, 7);
    tcase_add_test(c, test_in_flight_of_papers);
    tcase_add_test(c, test_dualpipe_state);
    tcase_add_loop_test(c, test_lists, 0, 16);
    tcase_add_test(c, test_recompute_lists);
    tcase_add_test(c, test_many_stages);
    tcase_add_loop_test(c, test_few_micro_batches, 0, 5);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(schedules_suite)
