#include "cs/reports/csv.h"
#include "cs/reports/json.h"
#include "cs/reports/timeline.h"

#include "cs_test.h"

#include <math.h>
#include <stdio.h>

/* A made-up world of four devices on two nodes: nothing is loaded, nothing is simulated. */
static struct cs_chip chip = {.name = "chip1", .title = "Chip One", .memory_bytes = 64.0 * (1 << 30)};
static struct cs_device devices[4] = {
    {.host = "d0", .chip = &chip, .memory_bytes = 64.0 * (1 << 30)},
    {.host = "d1", .chip = &chip, .memory_bytes = 64.0 * (1 << 30)},
    {.host = "d2", .chip = &chip, .memory_bytes = 64.0 * (1 << 30), .node = 1},
    {.host = "d3", .chip = &chip, .memory_bytes = 64.0 * (1 << 30), .node = 1}};

static struct cs_study make_study(void)
{
    struct cs_study study = {.path = "a/study.yaml"};
    study.model.name = "tiny";
    study.model.content_hash = 0xabc;
    study.platform.name = "two-by-two";
    study.platform.topology = "fat-tree";
    study.platform.intra = "mesh";
    study.platform.n_devices = 4;
    study.platform.n_nodes = 2;
    study.platform.devices_per_node = 2;
    study.platform.devices = devices;
    study.training = (struct cs_training){.global_batch = 2048,
                                          .seq_length = 128,
                                          .dtype = CS_DTYPE_BF16,
                                          .gradient_dtype = CS_DTYPE_FP32,
                                          .optimizer = CS_OPT_ADAMW};
    study.constraints.memory_margin = 1.2;
    study.constraints.cross_node_comm_frac = (double)INFINITY;
    study.search.n_top = 2;
    return study;
}

static struct cs_metrics make_metrics(double tokens_per_s)
{
    struct cs_metrics metrics = {.iteration_s = 2048 * 128 / tokens_per_s,
                                 .tokens_per_s = tokens_per_s,
                                 .tflops_per_device = 54.25,
                                 .mfu_frac = 0.153,
                                 .hfu_frac = 0.2,
                                 .bubble_frac = 0.125,
                                 .comm_frac = 0.25,
                                 .exposed_comm_frac = 0.1,
                                 .cross_node_comm_frac = 0.05,
                                 .peak_memory_bytes = (int64_t)32 << 30,
                                 .reserved_bytes = (int64_t)1 << 30,
                                 .n_ranks = 4,
                                 .n_rank_classes = 2,
                                 .n_operations = 1234,
                                 .fidelity = CS_FIDELITY_FOLDED,
                                 .checks = {true, true, true, true},
                                 .limited_by = "computing 70 %, bubble 12 %"};
    metrics.memory_bytes[CS_MEM_WEIGHTS] = (int64_t)8 << 30;
    metrics.mean = (struct cs_time_shares){.computing_s = 0.7 * metrics.iteration_s,
                                           .comm_s = 0.25 * metrics.iteration_s,
                                           .exposed_comm_s = 0.1 * metrics.iteration_s,
                                           .bubble_s = 0.125 * metrics.iteration_s,
                                           .idle_s = 0.075 * metrics.iteration_s};
    return metrics;
}

static struct cs_strategy make_strategy(int32_t dp, int32_t mp, int32_t pp)
{
    struct cs_strategy strategy;
    cs_strategy_init(&strategy);
    strategy.dp = dp;
    strategy.mp = mp;
    strategy.pp = pp;
    return strategy;
}

/* Everything that a writer wrote. */
typedef void (*writer_fn)(FILE *out, const void *report);

static char *written(writer_fn write, const void *report)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(out);
    write(out, report);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

static void check_lines(const char *text)
{
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n');
        ck_assert_msg(end != NULL, "the last line has no end: %s", line);
        ck_assert_msg(end - line <= CS_REPORT_COLUMNS, "too long: %.*s", (int)(end - line), line);
        ck_assert_msg(end == line || end[-1] != ' ', "trailing space: %.*s", (int)(end - line), line);
        line = end + 1;
    }
}

/* ---- search -----------------------------------------------------------------------------------------------
 */

struct search_world {
    struct cs_study study;
    struct cs_candidate candidates[4];
    struct cs_space space;
    struct cs_ranked ranking[3];
    struct cs_reason reasons[2];
    struct cs_search_result result;
    struct cs_search_report report;
};

static void make_search(struct search_world *world)
{
    memset(world, 0, sizeof *world);
    world->study = make_study();
    world->candidates[0].strategy = make_strategy(1, 4, 1);
    world->candidates[1].strategy = make_strategy(2, 2, 1);
    world->candidates[2].strategy = make_strategy(2, 1, 2);
    world->candidates[2].strategy.recompute = CS_RECOMPUTE_FULL;
    world->candidates[3].strategy = make_strategy(4, 1, 1);
    world->space = (struct cs_space){.n_combinations = 6,
                                     .n_duplicates = 2,
                                     .n_candidates = 4,
                                     .candidates = world->candidates,
                                     .n_open = 4};
    world->ranking[0] = (struct cs_ranked){1, 400000, make_metrics(400000), 0};
    world->ranking[1] = (struct cs_ranked){2, 200000, make_metrics(200000), 0};
    world->ranking[1].metrics.comm_frac = 0.45;
    world->ranking[2] = (struct cs_ranked){0, 100000, make_metrics(100000), 0};
    world->reasons[0] = (struct cs_reason){CS_OUTCOME_OOM, "memory", 1, 3, "needs 90 GiB"};
    world->reasons[1] = (struct cs_reason){CS_OUTCOME_FAILED, "died", 2, 3, "dp=4: signal 6"};
    world->result = (struct cs_search_result){.n_candidates = 4,
                                              .n_oom = 1,
                                              .n_simulated = 3,
                                              .complete = true,
                                              .elapsed_s = 2,
                                              .objective = &cs_objectives[0],
                                              .algorithm = cs_searchers[0],
                                              .n_ranked = 3,
                                              .ranking = world->ranking,
                                              .n_reasons = 2,
                                              .reasons = world->reasons};
    world->report = (struct cs_search_report){&world->study, &world->space, &world->result};
}

static void plain_table(FILE *out, const void *report)
{
    cs_report_search_table(out, report, false);
}

static void color_table(FILE *out, const void *report)
{
    cs_report_search_table(out, report, true);
}

START_TEST(the_search_table_reads)
{
    static struct search_world world;
    make_search(&world);
    char *text = written(plain_table, &world.report);
    check_lines(text);
    static const char *const parts[] = {
        "tiny on two-by-two: 4 x chip1 (64.0 GiB), 2 a node",
        "global batch 2,048 sequences of 128 tokens",
        "exhaustive search of 4 strategies in 2.0 s (2 a second): 3 simulated, nothing better exists",
        "tokens/s",
        "400,000",
        "54.2",
        "15.3%",
        "32.0 GiB",
        "best        dp=2,mp=2,pp=1",
        "+100.0 % tokens/s against the median of the 3 simulated",
        "limited by  computing 70 %",
        "oom              1  memory: needs 90 GiB",
        "failed           2  died: e.g. dp=4: signal 6",
        "warning: communication above 30 % of the step also at rank 2 (45 %)"};
    for (int32_t i = 0; i < CS_COUNT(parts); i++) {
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no '%s' in:\n%s", parts[i], text);
    }
    ck_assert_ptr_null(strstr(text, "100,000")); /* beyond the top 2 */
    ck_assert_ptr_null(strchr(text, '\033'));
    ck_assert_ptr_null(strstr(text, "placement"));
    free(text);
    text = written(color_table, &world.report);
    ck_assert_ptr_nonnull(strchr(text, '\033'));
    free(text);
}
END_TEST

START_TEST(a_table_with_every_key_stays_narrow)
{
    static struct search_world world;
    make_search(&world);
    for (int32_t i = 0; i < 2; i++) {
        struct cs_strategy *strategy = &world.candidates[world.ranking[i].candidate].strategy;
        *strategy = make_strategy(16384, 8, 16);
        strategy->cp = strategy->ep = strategy->vpp = 4;
        strategy->op = 16384;
        strategy->zero = 3;
        strategy->sp = true;
        strategy->schedule = CS_SCHED_ZERO_BUBBLE_V;
        strategy->recompute = CS_RECOMPUTE_SELECTIVE;
        strategy->placement[0] = CS_DIM_DP;
        strategy->placement[2] = CS_DIM_MP;
    }
    char *text = written(plain_table, &world.report);
    check_lines(text);
    ck_assert_ptr_nonnull(strstr(text, "dp=16384"));
    free(text);
}
END_TEST

START_TEST(a_search_without_winner_says_so)
{
    static struct search_world world;
    make_search(&world);
    world.result.n_ranked = 0;
    char *text = written(plain_table, &world.report);
    check_lines(text);
    ck_assert_ptr_nonnull(strstr(text, "nothing fits"));
    free(text);
    world.result.n_open = 7;
    world.result.complete = false;
    world.result.end = CS_SEARCH_INTERRUPTED;
    text = written(plain_table, &world.report);
    ck_assert_ptr_nonnull(strstr(text, "interrupted, best so far"));
    ck_assert_ptr_nonnull(strstr(text, "not simulated"));
    free(text);
}
END_TEST

static double real_at(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "'%s' is no number", key);
    return json_number_value(value);
}

static const char *text_at(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_string(value), "'%s' is no text", key);
    return json_string_value(value);
}

static const char *const result_keys[] = {"strategy",
                                          "status",
                                          "reason",
                                          "iteration_time_s",
                                          "tokens_per_s",
                                          "mfu",
                                          "hfu",
                                          "bubble_fraction",
                                          "comm_fraction",
                                          "tokens_per_s_per_device",
                                          "peak_memory_bytes",
                                          "memory",
                                          "fidelity",
                                          "simulated_ranks",
                                          "exposed_comm_fraction",
                                          "operations",
                                          "wall_s",
                                          "warnings",
                                          "checks",
                                          "cross_node_comm_fraction",
                                          "tflops_per_device",
                                          "limited_by"};

START_TEST(search_json_has_its_keys)
{
    static struct search_world world;
    static const char *const keys[] = {"candidates", "simulated", "pruned",    "rejected", "oom",
                                       "elapsed_s",  "complete",  "ranking",   "failed",   "open",
                                       "reasons",    "inputs",    "algorithm", "objective"};
    struct cs_report_origin origin = {"1.2.3", "search"};
    make_search(&world);
    json_t *object = cs_report_search_json(&world.report, &origin);
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        ck_assert_msg(json_object_get(object, keys[i]) != NULL, "no '%s'", keys[i]);
    }
    ck_assert(json_is_true(json_object_get(object, "complete")));
    ck_assert_double_eq(real_at(object, "median_tokens_per_s"), 200000);
    json_t *ranking = json_object_get(object, "ranking");
    ck_assert_int_eq((int)json_array_size(ranking), 2);
    json_t *best = json_array_get(ranking, 0);
    for (int32_t i = 0; i < CS_COUNT(result_keys); i++) {
        ck_assert_msg(json_object_get(best, result_keys[i]) != NULL, "no '%s'", result_keys[i]);
    }
    ck_assert_str_eq(text_at(best, "status"), "ok");
    ck_assert_double_eq(real_at(best, "tokens_per_s_per_device"), 100000);
    ck_assert_double_eq(real_at(json_object_get(best, "strategy"), "mp"), 2);
    ck_assert_int_eq((int)json_array_size(json_object_get(best, "warnings")), 0);
    ck_assert_int_eq((int)json_array_size(json_object_get(json_array_get(ranking, 1), "warnings")), 1);
    json_t *made_by = json_object_get(json_object_get(object, "inputs"), "made_by");
    ck_assert_str_eq(text_at(made_by, "version"), "1.2.3");
    json_decref(object);
}
END_TEST

START_TEST(strategy_json_is_as_documented)
{
    struct cs_strategy strategy = make_strategy(16, 2, 2);
    strategy.op = 2;
    strategy.sp = true;
    strategy.recompute = CS_RECOMPUTE_FULL;
    json_t *object = cs_report_strategy_json(&strategy);
    char *text = json_dumps(object, JSON_COMPACT);
    ck_assert_str_eq(text, "{\"dp\":16,\"mp\":2,\"pp\":2,\"op\":2,\"zero\":1,\"sp\":true,\"cp\":1,\"ep\":1,"
                           "\"vpp\":1,\"schedule\":\"1f1b\",\"micro_batch\":1,\"recompute\":\"full\","
                           "\"placement\":\"mp,cp,dp,pp\"}");
    free(text);
    json_decref(object);
}
END_TEST

static void search_csv(FILE *out, const void *report)
{
    cs_report_search_csv(out, report);
}

START_TEST(search_csv_is_a_table)
{
    static struct search_world world;
    make_search(&world);
    char *text = written(search_csv, &world.report);
    ck_assert_ptr_nonnull(strstr(text, "rank,dp,mp,pp,op,zero,"));
    ck_assert_ptr_nonnull(strstr(text, "\n1,2,2,1,1,1,no,1,1,1,1f1b,1,none,\"mp,cp,dp,pp\",0.65536,400000,"));
    ck_assert_ptr_nonnull(strstr(text, "\n2,2,1,2,"));
    ck_assert_ptr_null(strstr(text, "\n3,"));
    free(text);
}
END_TEST

START_TEST(warnings_are_given)
{
    struct cs_study study = make_study();
    struct cs_strategy strategy = make_strategy(1, 4, 1);
    struct cs_evaluation evaluation = {
        .outcome = CS_OUTCOME_OK, .simulated = true, .metrics = make_metrics(1000)};
    evaluation.metrics.comm_frac = 0.31;
    evaluation.metrics.checks.bytes_conserved = false;
    json_t *object = cs_report_result_json(&strategy, &evaluation, &study);
    json_t *warnings = json_object_get(object, "warnings");
    ck_assert_int_eq((int)json_array_size(warnings), 3);
    ck_assert_ptr_nonnull(strstr(json_string_value(json_array_get(warnings, 0)), "31.0 %"));
    ck_assert_ptr_nonnull(
        strstr(json_string_value(json_array_get(warnings, 1)), "4 devices cross nodes of 2"));
    ck_assert_ptr_nonnull(strstr(json_string_value(json_array_get(warnings, 2)), "do not trust"));
    json_decref(object);
}
END_TEST

START_TEST(what_is_not_known_is_null)
{
    struct cs_study study = make_study();
    struct cs_strategy strategy = make_strategy(4, 1, 1);
    struct cs_evaluation evaluation = {.outcome = CS_OUTCOME_OOM, .metrics = make_metrics(1000)};
    json_t *object = cs_report_result_json(&strategy, &evaluation, &study);
    ck_assert(json_is_null(json_object_get(object, "iteration_time_s")));
    ck_assert_str_eq(text_at(object, "status"), "oom");
    evaluation.simulated = true;
    evaluation.metrics.mfu_frac = (double)NAN;
    json_decref(object);
    object = cs_report_result_json(&strategy, &evaluation, &study);
    ck_assert(json_is_null(json_object_get(object, "mfu")));
    ck_assert(json_is_number(json_object_get(object, "iteration_time_s")));
    json_decref(object);
}
END_TEST

/* ---- simulate ---------------------------------------------------------------------------------------------
 */

struct simulate_world {
    struct cs_study study;
    struct cs_strategy strategy;
    struct cs_evaluation evaluation;
    struct cs_program program;
    struct cs_trace trace;
    struct cs_span spans[3];
    struct cs_link_load link;
    struct cs_time_shares ranks[4];
    struct cs_path_share path;
    struct cs_run run;
    struct cs_simulate_report report;
};

static void make_simulation(struct simulate_world *world)
{
    static int32_t program_of_rank[4] = {0};
    static const char *labels[] = {"attention.\"qkv\""};
    static const char *streams[] = {"compute", "tp"};
    memset(world, 0, sizeof *world);
    world->study = make_study();
    world->strategy = make_strategy(2, 2, 1);
    world->evaluation =
        (struct cs_evaluation){.outcome = CS_OUTCOME_OOM, .simulated = true, .metrics = make_metrics(262144)};
    (void)snprintf(world->evaluation.reason, sizeof world->evaluation.reason, "needs 90 GiB");
    world->program.role = "stage 0 of 1";
    world->trace.n_ranks = 4;
    world->trace.n_programs = 1;
    world->trace.programs = &world->program;
    world->trace.program_of_rank = program_of_rank;
    world->trace.n_labels = 1;
    world->trace.labels = labels;
    world->trace.n_streams = 2;
    world->trace.stream_names = streams;
    world->spans[0] = (struct cs_span){
        .rank = 0, .lane = 0, .layer = 3, .micro_batch = 1, .type = CS_OP_COMPUTE, .end_s = 1.0000004e-3};
    world->spans[1] = (struct cs_span){.rank = 0,
                                       .lane = 1,
                                       .label = -1,
                                       .layer = -1,
                                       .micro_batch = -1,
                                       .type = CS_OP_COLLECTIVE,
                                       .phase = CS_PHASE_GRADIENT,
                                       .start_s = 1.0000004e-3,
                                       .end_s = 2e-3,
                                       .bytes = 4096};
    world->spans[2] = (struct cs_span){.rank = 2, .lane = 0, .layer = -1, .micro_batch = -1, .end_s = 1e-9};
    (void)snprintf(world->link.name, sizeof world->link.name, "hccs-0-1");
    world->link.n_alike = 4;
    world->link.busy_frac = 0.5;
    world->link.bytes = 1e9;
    (void)snprintf(world->path.what, sizeof world->path.what, "matmul");
    world->path.time_s = 0.6;
    world->run = (struct cs_run){.metrics = world->evaluation.metrics,
                                 .n_spans = 3,
                                 .spans = world->spans,
                                 .n_links = 1,
                                 .links = &world->link,
                                 .ranks = world->ranks,
                                 .n_path = 1,
                                 .path = &world->path};
    for (int32_t i = 0; i < 4; i++) {
        world->ranks[i] = world->evaluation.metrics.mean;
    }
    world->report = (struct cs_simulate_report){
        &world->study, &world->strategy, &world->evaluation, &world->trace, &world->run, NULL, false};
}

static void simulate_text(FILE *out, const void *report)
{
    cs_report_simulate_text(out, report, false);
}

START_TEST(the_simulation_reads)
{
    static struct simulate_world world;
    make_simulation(&world);
    char *text = written(simulate_text, &world.report);
    check_lines(text);
    static const char *const parts[] = {
        "strategy    dp=2,mp=2,pp=1",
        "status      oom: needs 90 GiB",
        "tokens/s    262,144, 65,536 a device",
        "54.2 a device, MFU 15.3 %, HFU 20.0 %",
        "computing 70.0 %, exposed communication 10.0 %, bubble 12.5 %, free 7.5 %",
        "in all 25.0 %, hidden behind computing 15.0 %",
        "32.0 GiB, x 1.2 margin 38.4 GiB of 64.0 GiB",
        "weights 8.00 GiB",
        "reserved 1.00 GiB",
        "hccs-0-1 (4 alike) busy 50.0 %",
        "2 of 4 ranks (folded), 1,234 operations"};
    for (int32_t i = 0; i < CS_COUNT(parts); i++) {
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no '%s' in:\n%s", parts[i], text);
    }
    free(text);
}
END_TEST

static void simulate_csv(FILE *out, const void *report)
{
    cs_report_simulate_csv(out, report);
}

START_TEST(simulate_csv_adds_up)
{
    static struct simulate_world world;
    make_simulation(&world);
    char *text = written(simulate_csv, &world.report);
    ck_assert_ptr_nonnull(
        strstr(text, "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,"));
    /* 1 s a step; 0.7 + (0.1 + 0.125) + 0.075 = 1 */
    ck_assert_ptr_nonnull(strstr(text, "\n0,rank,3,700000.000,225000.000,150000.000,375000.000,75000.000,"
                                       "875000.000,125000.000,100000.000,0.000,1,0,1\n"));
    free(text);
}
END_TEST

static void timeline(FILE *out, const void *report)
{
    struct cs_report_origin origin = {"1.2.3", "simulate"};
    cs_report_timeline(out, report, &origin);
}

START_TEST(the_timeline_is_trace_event_json)
{
    static struct simulate_world world;
    make_simulation(&world);
    char *text = written(timeline, &world.report);
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    ck_assert_msg(root != NULL, "%s at %d: %s", error.text, error.line, text);
    json_t *events = json_object_get(root, "traceEvents");
    /* 2 ranks and 3 lanes, a name and a place each; 3 spans */
    ck_assert_int_eq((int)json_array_size(events), 2 * 2 + 3 * 2 + 3);
    json_t *event;
    size_t i;
    double end_us = 0;
    json_array_foreach(events, i, event)
    {
        if (strcmp(text_at(event, "ph"), "X") != 0) {
            continue;
        }
        if (real_at(event, "tid") > 0) { /* begins where the other lane's span ended */
            ck_assert_double_eq(real_at(event, "ts"), end_us);
            ck_assert_str_eq(text_at(event, "name"), "collective");
            ck_assert_double_eq(real_at(json_object_get(event, "args"), "bytes"), 4096);
            ck_assert_ptr_null(json_object_get(json_object_get(event, "args"), "layer"));
        } else if (real_at(event, "pid") < 1) {
            ck_assert_str_eq(text_at(event, "name"), "attention.\"qkv\"");
            ck_assert_double_eq(real_at(json_object_get(event, "args"), "layer"), 3);
            end_us = real_at(event, "ts") + real_at(event, "dur");
        }
    }
    ck_assert_double_eq(end_us, 1000);
    json_decref(root);
    free(text);
}
END_TEST

START_TEST(simulate_json_carries_its_inputs)
{
    static struct simulate_world world;
    struct cs_report_origin origin = {"1.2.3", "simulate"};
    make_simulation(&world);
    json_t *object = cs_report_simulate_json(&world.report, &origin);
    for (int32_t i = 0; i < CS_COUNT(result_keys); i++) {
        ck_assert_msg(json_object_get(object, result_keys[i]) != NULL, "no '%s'", result_keys[i]);
    }
    json_t *inputs = json_object_get(object, "inputs");
    ck_assert_str_eq(text_at(inputs, "study"), "a/study.yaml");
    ck_assert_str_eq(text_at(json_object_get(inputs, "model"), "hash"), "0000000000000abc");
    ck_assert_double_eq(real_at(json_object_get(inputs, "platform"), "devices"), 4);
    ck_assert_int_eq((int)json_array_size(json_object_get(object, "links")), 1);
    ck_assert_int_eq((int)json_array_size(json_object_get(object, "critical_path")), 1);
    json_decref(object);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("reports");
    TCase *search = tcase_create("search");
    tcase_add_test(search, the_search_table_reads);
    tcase_add_test(search, a_table_with_every_key_stays_narrow);
    tcase_add_test(search, a_search_without_winner_says_so);
    tcase_add_test(search, search_json_has_its_keys);
    tcase_add_test(search, strategy_json_is_as_documented);
    tcase_add_test(search, search_csv_is_a_table);
    tcase_add_test(search, warnings_are_given);
    tcase_add_test(search, what_is_not_known_is_null);
    TCase *simulate = tcase_create("simulate");
    tcase_add_test(simulate, the_simulation_reads);
    tcase_add_test(simulate, simulate_csv_adds_up);
    tcase_add_test(simulate, the_timeline_is_trace_event_json);
    tcase_add_test(simulate, simulate_json_carries_its_inputs);
    suite_add_tcase(suite, search);
    suite_add_tcase(suite, simulate);
    return suite;
}

CS_TEST_MAIN(suite)
