#include "cs/strategies/calibrate.h"
#include "cs/strategies/collectives.h"
#include "cs/strategies/errors.h"

#include "cs_test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define SOFTWARE CS_TEST_SOURCE_DIR "/strategies/software/software.yaml"
#define RUNS CS_TEST_SOURCE_DIR "/tests/data/measured/training_runs.csv"
#define DOUBTS CS_TEST_SOURCE_DIR "/tests/data/measured/doubts.csv"
#define FILE_NAME "test_validate.csv"

static struct cs_softwares softwares;

static void setup(void)
{
    struct cs_err err = {0};
    ck_assert_ok(cs_softwares_load(&softwares, SOFTWARE, &err), &err);
}

static void teardown(void)
{
    cs_softwares_release(&softwares);
}

static void write_file(const char *text)
{
    FILE *file = fopen(FILE_NAME, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static cs_status load_text(struct cs_cases *cases, const char *text, struct cs_err *err)
{
    write_file(text);
    cs_status st = cs_cases_load(cases, FILE_NAME, &softwares, err);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
    return st;
}

#define HEADER                                                                                               \
    "id,hardware,n_devices,devices_per_node,model,layers,hidden,ffn,gated_mlp,heads,vocab,dp,tp,pp,sp,"      \
    "optimizer_shard,micro_batch,global_batch,seq_len,recompute,dtype,iteration_seconds,source,notes\n"
#define GPT "GPT,8,1024,4096,n,16,51200,"

static const struct cs_case *case_of(const struct cs_cases *cases, const char *id)
{
    for (int32_t i = 0; i < cases->n; i++) {
        if (strcmp(cases->items[i].id, id) == 0) {
            return &cases->items[i];
        }
    }
    ck_abort_msg("no case %s", id);
    return NULL;
}

START_TEST(published_rows_become_cases)
{
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    ck_assert_ok(cs_cases_load(&cases, RUNS, &softwares, &err), &err);
    ck_assert_int_gt(cases.n, 700);
    const struct cs_case *c = case_of(&cases, "r0001");
    ck_assert_str_eq(c->server, "atlas-900-a2");
    ck_assert_str_eq(c->software->name, "mindspeed-llm-1.0.rc1");
    ck_assert(c->training.flash_attention);
    ck_assert(c->strategy.sp);
    ck_assert_int_eq(c->strategy.op, 1);
    ck_assert_int_eq(c->training.dtype, CS_DTYPE_BF16);
    ck_assert_int_eq(c->training.gradient_dtype, CS_DTYPE_FP32);
    c = case_of(&cases, "r0184"); /* MindFormers keeps gradients as it keeps parameters' copies */
    ck_assert_int_eq(c->training.gradient_dtype, CS_DTYPE_BF16);
    c = case_of(&cases, "r2102"); /* its own TFLOP/s say which vocabulary it has */
    ck_assert_int_eq(c->model.vocab, 250880);
    double flop =
        96.0 * 2048 * 2048 * 72 * 14336.0 * 14336 * (1 + 2048 / (6 * 14336.0) + 250880 / (16.0 * 72 * 14336));
    ck_assert_double_eq_tol(flop / c->measured_s / 384 / 1e12, 112.49, 0.01);
    ck_assert_str_eq(c->server, "jean-zay-a100-early"); /* of a table before the nodes were changed */
    ck_assert(c->training.serial_messages && !c->training.widened_gradients);
    c = case_of(&cases, "r2204");
    ck_assert_str_eq(c->server, "jean-zay-a100");
    ck_assert(c->training.widened_gradients);
    c = case_of(&cases, "r1986");
    ck_assert_int_eq(c->strategy.zero, 3);
    ck_assert_int_eq(c->strategy.op, c->strategy.dp);
    ck_assert_int_eq(c->training.gradient_dtype, CS_DTYPE_BF16);
    c = case_of(&cases, "r0189");
    ck_assert_int_eq(c->strategy.selective_layers.n, 8);
    ck_assert_int_eq(c->strategy.selective_layers.at[1], 4);
    ck_assert_int_eq(case_of(&cases, "r0257")->kind, CS_CASE_MEMORY_ACTIVATIONS);
    cs_cases_release(&cases);
}
END_TEST

START_TEST(scripts_of_runs_say_which_kernels_they_have)
{
    /* Counted by hand in case_kernels.c's sources: a bias added to scores 14 and 4 bytes, clamped 4 and 22,
     * made anew 4; softmax in fp32 by itself 25 and 27, the layer's number 8 and 8, dropout 4.25 and 4.125.
     */
    static const struct {
        const char *id;
        double forward, backward;
        bool gate, gelu, sum;
    } rows[] = {{"r0001", 0, 0, false, true, true}, /* rotary embedding, fused attention */
                {"r0005", 8, 0, false, true, true}, /* ALiBi with fused attention */
                {"r0006", 14 + 4.25, 4 + 4.125, false, true, true},
                {"r0007", 14 + 25 + 8 + 4.25, 4 + 27 + 8 + 4.125, false, true, true},
                {"r0044", 0, 0, false, false, true}, /* --no-bias-gelu-fusion */
                {"r0110", 14 + 4 + 4, 4 + 22, false, false, true},
                {"r0120", 0, 0, true, false, true},
                {"r0119", 0, 0, false, false, true}, /* --mlp-layer-fusion */
                {"r0182", 0, 0, false, false, false}};
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    ck_assert_ok(cs_cases_load(&cases, RUNS, &softwares, &err), &err);
    for (int32_t i = 0; i < CS_COUNT(rows); i++) {
        const struct cs_training *t = &case_of(&cases, rows[i].id)->training;
        ck_assert_double_eq_tol(t->score_bytes[0], rows[i].forward, 1e-9);
        ck_assert_double_eq_tol(t->score_bytes[1], rows[i].backward, 1e-9);
        ck_assert_int_eq(t->separate_gate, rows[i].gate);
        ck_assert_int_eq(t->separate_gelu, rows[i].gelu);
        ck_assert_int_eq(t->separate_accumulation, rows[i].sum);
    }
    ck_assert(case_of(&cases, "r0007")->strategy.keep_comm);
    ck_assert(case_of(&cases, "r0001")->training.separate_loss);
    ck_assert(!case_of(&cases, "r1860")->training.separate_loss); /* llm-foundry's is fused */
    ck_assert(case_of(&cases, "r0182")->training.norm_casts &&
              case_of(&cases, "r0182")->training.separate_rope);
    ck_assert_int_eq(case_of(&cases, "r0110")->model.position, CS_POS_ALIBI);
    /* The optimizer that a MindFormers configuration names. */
    ck_assert_double_eq_tol(case_of(&cases, "r0182")->training.optimizer_traffic_bytes, 204, 1e-9);
    ck_assert_double_eq_tol(case_of(&cases, "r0181")->training.optimizer_traffic_bytes, 0, 1e-9);
    ck_assert_double_eq_tol(case_of(&cases, "r0001")->training.optimizer_traffic_bytes, 0, 1e-9);
    /* A configuration that asks for 31 GB of a device is of the one that has 32; others of that source not.
     */
    ck_assert_str_eq(case_of(&cases, "r0142")->server, "atlas-800-910a");
    ck_assert_str_eq(case_of(&cases, "r0153")->server, "atlas-800t-a2");
    cs_cases_release(&cases);
}
END_TEST

START_TEST(rows_that_cannot_run_say_why)
{
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    ck_assert_ok(load_text(&cases,
                           HEADER "a,dgx-a100,8,8," GPT
                                  "8,1,1,n,,1,8,1024,none,fp16,1.5,x,\"a, \"\"quoted\"\" note\"\n"
                                  "b,dgx-a100,8,8," GPT "8,1,2,n,,1,8,1024,none,fp16,1.5,x,\n"
                                  "c,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,partial(custom),fp16,1.5,x,\n"
                                  "d,dgx-a100,8,8," GPT "8,1,1,maybe,,1,8,1024,none,fp16,1.5,x,\n"
                                  "e,dgx-a100,8,8," GPT "8,1,1,n,ZeRO-9,1,8,1024,none,fp16,1.5,x,\n"
                                  "f,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,none,int4,1.5,x,\n"
                                  "g,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,none,fp16,1e300,x,\n",
                           &err),
                 &err);
    ck_assert_int_eq(cases.n, 7);
    ck_assert(strstr(cases.items[3].problem, "'sp' is 'maybe', neither y nor n"));
    ck_assert(strstr(cases.items[4].problem, "how the optimizer is sharded"));
    ck_assert(strstr(cases.items[5].problem, "number type"));
    ck_assert(strstr(cases.items[6].problem, "not that of a step"));
    ck_assert_ptr_null(cases.items[0].problem);
    ck_assert(strstr(cases.items[1].problem, "devices-product"));
    ck_assert(strstr(cases.items[2].problem, "which layers"));
    cs_cases_release(&cases);
}
END_TEST

static const struct {
    const char *text;
    int line;
    const char *part;
} bad[] = {
    {"id,hardware\na,b\n", 1, "there is no column 'n_devices'"},
    {HEADER "a,b\n", 2, "2 fields, but the header has 24"},
    {HEADER "a,dgx-a100,eight,8," GPT "8,1,1,n,,1,8,1024,none,fp16,1.5,x,\n", 2, "n_devices"},
    {HEADER "a,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,none,fp16,fast,x,\n", 2, "iteration_seconds"},
    {HEADER "a,\"dgx", 2, "does not end"},
    {HEADER, 1, "there is no case"},
    {"", 1, "there is no column 'id'"},
    {"id," HEADER, 1, "two columns 'id'"},
    {HEADER ",h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n", 2, "without an id"},
    {HEADER "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n"
            "b,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n"
            "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,2,nobody,\n",
     4, "the id 'a' is that of line 2 too"},
    {HEADER "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,r\xe9sum\xe9,\n", 2,
     "not UTF-8: the byte 0xe9"},
};

START_TEST(bad_files_are_refused_at_their_line)
{
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    ck_assert_fails(load_text(&cases, bad[_i].text, &err), &err, CS_E_INPUT, bad[_i].line, bad[_i].part);
    cs_cases_release(&cases);
}
END_TEST

/* What sources call the same thing is the same strategy. */
#define N_WORDS 41
#define REPLICATED "dp=4,mp=1,pp=2"
START_TEST(sources_words_are_known)
{
    static const struct {
        const char *sharding, *recompute, *strategy; /* NULL = refused */
    } rows[] = {
        {"ZeRO-3", "none", "dp=4,mp=1,pp=2,op=4,zero=3"},
        {"DeepSpeed stage 2", "off", "dp=4,mp=1,pp=2,op=4,zero=2"},
        {"zero1", "No", "dp=4,mp=1,pp=2,op=4"},
        {"use-distributed-optimizer", "", "dp=4,mp=1,pp=2,op=4"},
        {"FSDP SHARD_GRAD_OP", "full", "dp=4,mp=1,pp=2,op=4,zero=2,recompute=full"},
        {"none (replicated)", "full (uniform; 1 layer)", "dp=4,mp=1,pp=2,recompute=full"},
        {"", "True", "dp=4,mp=1,pp=2,recompute=full"},
        {"", "\"selective on layers per stage [3, 1]\"",
         "dp=4,mp=1,pp=2,full_layers=0/0,selective_layers=3/1"},
        {"", "\"full on layers per stage [2, 0]\"", "dp=4,mp=1,pp=2,full_layers=2/0,selective_layers=0/0"},
        {"", "partial(custom)", NULL},
        {"", "sometimes", NULL},
        {"in thirds", "none", NULL},
        {"no distributed optimizer", "no recomputation", REPLICATED},
        {"enable_parallel_optimizer: False", "n", REPLICATED},
        {"use_distributed_optimizer=false", "none", REPLICATED},
        {"none (ZeRO-1 off)", "none", REPLICATED},
        {"DDP without ZeRO-1", "none", REPLICATED},
        {"zero0", "none", REPLICATED},
        {"stage 0", "none", REPLICATED},
        {"zero stage 0", "none", REPLICATED},
        {"no", "none", REPLICATED},
        {"off", "none", REPLICATED},
        {"false", "none", REPLICATED},
        {"stage1", "none", "dp=4,mp=1,pp=2,op=4"},
        {"stage2", "none", "dp=4,mp=1,pp=2,op=4,zero=2"},
        {"zero_stage: 3", "none", "dp=4,mp=1,pp=2,op=4,zero=3"},
        {"FSDP ZeRO-2", "none", "dp=4,mp=1,pp=2,op=4,zero=2"},
        {"FSDP 8", "none", "dp=4,mp=1,pp=2,op=4,zero=3"},
        {"ZeRO-2 (no offload)", "none", "dp=4,mp=1,pp=2,op=4,zero=2"},
        {"distributed optimizer (ZeRO-1) off", "none", NULL},
        {"", "y", "dp=4,mp=1,pp=2,recompute=full"},
        {"", "uniform 1", "dp=4,mp=1,pp=2,recompute=full"},
        {"", "\"full (uniform, 1)\"", "dp=4,mp=1,pp=2,recompute=full"},
        {"", "selective (recompute-activations)", "dp=4,mp=1,pp=2,recompute=selective"},
        {"", "\"full, block, 1 of 4 layers\"", NULL},
        {"", "full except 3 layers", NULL},
        {"", "full (uniform; 1 layer; 2 stages)", NULL},
        {"", "full4", NULL},
        {"", "full [none]", NULL},
        {"", "selective on 2 of 4 layers", NULL},
        {"", "full: false", NULL},
    };
    ck_assert_int_eq(CS_COUNT(rows), N_WORDS);
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    struct cs_strbuf text = {0};
    char strategy[CS_STRATEGY_TEXT_MAX];
    cs_strbuf_addf(&text, "%sa,h100-sxm5,8,8,%s4,1,2,n,%s,1,16,1024,%s,bf16,1,nobody,no flash attention\n",
                   HEADER, GPT, rows[_i].sharding, rows[_i].recompute);
    ck_assert_ok(load_text(&cases, cs_strbuf_str(&text), &err), &err);
    ck_assert_int_eq(cases.items[0].problem != NULL, rows[_i].strategy == NULL);
    if (rows[_i].strategy) {
        ck_assert_str_eq(cs_strategy_format(&cases.items[0].strategy, strategy, sizeof strategy),
                         rows[_i].strategy);
    }
    cs_strbuf_release(&text);
    cs_cases_release(&cases);
}
END_TEST

/* Five runs of one model with errors 0, 10, -10, 20 and 0 %. */
START_TEST(errors_are_as_defined)
{
    static const double measured_s[] = {1, 2, 3, 4, 5};
    static const double predicted_s[] = {1, 2.2, 2.7, 4.8, 5};
    struct cs_case items[5] = {0};
    struct cs_cases cases = {.n = 5, .items = items};
    struct cs_errors errors = {0};
    for (int32_t i = 0; i < 5; i++) {
        items[i] = (struct cs_case){.id = "x",
                                    .hardware = "h",
                                    .source_short = "s",
                                    .model_key = "m",
                                    .setup_key = i < 4 ? "few" : "other",
                                    .generation = i < 2 ? "g" : NULL,
                                    .doubt = i == 3 ? "a reason" : NULL,
                                    .kind = CS_CASE_TIME,
                                    .measured_s = measured_s[i],
                                    .n_devices = 1,
                                    .devices_per_node = 1};
    }
    cs_errors_find(&errors, &cases, predicted_s, NULL);
    ck_assert_double_eq_tol(errors.sets[0].mape_frac, 0.08, 1e-12);
    ck_assert_double_eq_tol(errors.sets[0].median_ape_frac, 0.10, 1e-12);
    ck_assert_double_eq_tol(errors.sets[0].bias_frac, 0.04, 1e-12);
    ck_assert(isnan(errors.sets[0].analytic_mape_frac));
    ck_assert_int_eq(errors.sets[0].n_sure, 4); /* the 20 % are doubted */
    ck_assert_double_eq_tol(errors.sets[0].sure_mape_frac, 0.05, 1e-12);
    ck_assert_double_eq_tol(errors.sets[0].sure_bias_frac, 0, 1e-12);
    ck_assert_str_eq(errors.sets[1].kind, "generation");
    ck_assert_int_eq(errors.sets[1].n, 2); /* not those of which nothing is stated */
    ck_assert_str_eq(errors.sets[2].kind, "hardware");
    ck_assert_int_eq(errors.n_ranks, 1); /* the setups have fewer than five runs */
    ck_assert_str_eq(errors.ranks[0].kind, "model");
    ck_assert_int_eq(errors.ranks[0].n_sure, 4);
    ck_assert_double_eq_tol(errors.ranks[0].sure_spearman, 1, 1e-12);
    ck_assert_double_eq_tol(errors.ranks[0].spearman, 1, 1e-12);
    ck_assert_double_eq_tol(errors.ranks[0].top1_regret_frac, 0, 1e-12);
    ck_assert_ptr_nonnull(cs_errors_of(&errors, &items[0]));
    cs_errors_release(&errors);
    static const double turned_s[] = {5, 4, 3, 2, 1};
    cs_errors_find(&errors, &cases, turned_s, turned_s);
    ck_assert_double_eq_tol(errors.ranks[0].spearman, -1, 1e-12);
    ck_assert_double_eq_tol(errors.ranks[0].top1_regret_frac, 4, 1e-12); /* 5 s instead of 1 s */
    ck_assert_double_eq_tol(errors.ranks[0].top5_regret_frac, 0, 1e-12);
    cs_errors_release(&errors);
    /* Of what a search cannot tell apart it may take the worst. */
    static const double tied_s[] = {1, 1, 1, 1, 2};
    cs_errors_find(&errors, &cases, tied_s, NULL);
    ck_assert_double_eq_tol(errors.ranks[0].top1_regret_frac, 3, 1e-12); /* 4 s instead of 1 s */
    ck_assert_double_eq_tol(errors.ranks[0].spearman, 0.70710678, 1e-6);
    cs_errors_release(&errors);
    static const double equal_s[] = {1, 1, 1, 1, 1};
    cs_errors_find(&errors, &cases, equal_s, NULL);
    ck_assert(isnan(errors.ranks[0].spearman)); /* says nothing of the order */
    cs_errors_release(&errors);
}
END_TEST

START_TEST(software_is_written_as_it_is_read)
{
    struct cs_err err = {0};
    struct cs_softwares again = {0};
    FILE *file = fopen(FILE_NAME, "w");
    ck_assert_ptr_nonnull(file);
    cs_softwares_write(&softwares, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_ok(cs_softwares_load(&again, FILE_NAME, &err), &err);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
    ck_assert_int_eq(again.n, softwares.n);
    for (int32_t i = 0; i < again.n; i++) {
        ck_assert_str_eq(again.items[i].pattern, softwares.items[i].pattern);
        ck_assert_int_eq(again.items[i].vocab, softwares.items[i].vocab);
        ck_assert_int_eq(again.items[i].serial_messages, softwares.items[i].serial_messages);
        ck_assert_int_eq(again.items[i].separate_accumulation, softwares.items[i].separate_accumulation);
        ck_assert_int_eq(again.items[i].n_machines, softwares.items[i].n_machines);
        for (int32_t k = 0; k < again.items[i].n_machines; k++) {
            ck_assert_str_eq(again.items[i].machines[k].notes, softwares.items[i].machines[k].notes);
            ck_assert_str_eq(again.items[i].machines[k].server, softwares.items[i].machines[k].server);
        }
        ck_assert_int_eq(again.items[i].n_scripts, softwares.items[i].n_scripts);
        for (int32_t k = 0; k < again.items[i].n_scripts; k++) {
            ck_assert_str_eq(cs_software_flags(&again.items[i], softwares.items[i].scripts[k].path),
                             softwares.items[i].scripts[k].flags);
        }
        for (int32_t f = 0; f < CS_N_SOFTWARE_FIGURES; f++) {
            ck_assert_double_eq_tol(again.items[i].figure[f], softwares.items[i].figure[f],
                                    1e-3 * softwares.items[i].figure[f] + 1e-12);
        }
    }
    ck_assert_str_eq(cs_softwares_find(&again, "somebody's blog")->name, "unknown");
    cs_softwares_release(&again);
}
END_TEST

/* A path and a server that mean something to YAML. */
START_TEST(odd_software_is_written_as_it_is_read)
{
    static const char *const paths[] = {"runs: a #1.sh", "- {a}", "\"b\" \\c", "*x", "two\nlines", "null"};
    struct cs_err err = {0};
    struct cs_software_machine machines[CS_COUNT(paths)];
    struct cs_software_script scripts[CS_COUNT(paths)];
    struct cs_softwares again = {0};
    struct cs_software *last = &softwares.items[softwares.n - 1];
    for (int32_t i = 0; i < CS_COUNT(paths); i++) {
        machines[i] = (struct cs_software_machine){.notes = paths[i], .server = paths[i]};
        scripts[i] = (struct cs_software_script){.path = paths[i], .flags = paths[i]};
    }
    last->machines = machines;
    last->scripts = scripts;
    last->n_machines = last->n_scripts = CS_COUNT(paths);
    FILE *file = fopen(FILE_NAME, "w");
    ck_assert_ptr_nonnull(file);
    cs_softwares_write(&softwares, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_ok(cs_softwares_load(&again, FILE_NAME, &err), &err);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
    last = &again.items[again.n - 1];
    ck_assert_int_eq(last->n_machines, CS_COUNT(paths));
    ck_assert_int_eq(last->n_scripts, CS_COUNT(paths));
    for (int32_t i = 0; i < CS_COUNT(paths); i++) {
        ck_assert_str_eq(last->machines[i].server, paths[i]);
        ck_assert_str_eq(last->scripts[i].path, paths[i]);
        ck_assert_str_eq(last->scripts[i].flags, paths[i]);
    }
    cs_softwares_release(&again);
}
END_TEST

/* Twelve runs of single devices whose times are simulated ones of a slower matrix engine: the fit finds it.
 */
START_TEST(calibration_finds_a_figure_again)
{
    static struct cs_calibration calibration; /* large */
    const double truth = 0.62;
    struct cs_err err = {0};
    struct cs_arena arena = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_cases cases;
    struct cs_strbuf text = {0};
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    cs_strbuf_addf(&text, "%s", HEADER);
    for (int32_t i = 0; i < 12; i++) {
        cs_strbuf_addf(&text,
                       "x%d,h100-sxm5,1,8,%s,%d,%d,%d,n,32,51200,1,1,1,n,,%d,%d,2048,none,bf16,1,nobody,\n",
                       (int)i, i % 2 ? "GPT" : "MPT", 4 + 4 * (int)(i % 3), 4096 << i % 2, 16384 << i % 2,
                       1 + (int)(i % 2), 16);
    }
    ck_assert_ok(load_text(&cases, cs_strbuf_str(&text), &err), &err);
    struct cs_case_run *runs = CS_ARENA_NEW(&arena, struct cs_case_run, cases.n + 1);
    struct cs_calibrate_options options = {
        .validate = {.n_workers = 1}, .n_rounds = 2, .n_starts = 3, .cross_validate = true, .n_folds = 3};
    double *place = &cs_testbed_chip(&bed, "h100")->opkind_peak_frac[CS_OPKIND_MATMUL];
    *place = truth;
    ck_assert_ok(cs_validate_run(&cases, &bed, &options.validate, runs, &err), &err);
    for (int32_t i = 0; i < cases.n; i++) {
        ck_assert_msg(runs[i].ran, "%s: %s", cases.items[i].id, runs[i].reason);
        cases.items[i].measured_s = runs[i].simulated_s;
    }
    *place = 0.9;
    ck_assert_ok(cs_calibrate(&cases, &bed, &softwares, &options, &calibration, &err), &err);
    ck_assert_int_eq(calibration.n_cases, 12);
    ck_assert_int_eq(calibration.n_groups, 2);
    ck_assert_int_eq(calibration.n_folds, 3);
    ck_assert_double_gt(*place, 0.9 * truth); /* kernel_time may carry a part of it */
    ck_assert_double_lt(*place, 1.1 * truth);
    for (int32_t i = 0; i < cases.n; i++) {
        const struct cs_fit_prediction *p = &calibration.predictions[i];
        double measured_s = cases.items[i].measured_s;
        ck_assert_double_lt(fabs(p->fitted_s / measured_s - 1), 0.03);
        ck_assert(p->predicted);
        ck_assert_double_lt(fabs(p->held_out_s / measured_s - 1), 0.08);
        ck_assert_double_lt(fabs(p->fold_s / measured_s - 1), 0.04);
    }
    for (int32_t i = 0; i < calibration.n_figures; i++) {
        const struct cs_fit_figure *f = &calibration.figures[i];
        bool unfused = strcmp(f->key, "efficiency.batch-matmul") == 0; /* attention is fused here */
        ck_assert(!unfused || f->determined_frac < 0.01);
        ck_assert(strcmp(f->key, "efficiency.matmul") != 0 || f->determined_frac > CS_DETERMINED_FRAC);
    }
    cs_calibration_release(&calibration);
    cs_strbuf_release(&text);
    cs_cases_release(&cases);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
    cs_arena_release(&arena);
}
END_TEST

/* What the catalogue says of links, `fitted on collectives.csv`, comes out of the fit of collectives.csv
 * again, to the digits that it has, and so does what is said to be as there. */
/* A chip's figures, moved by a tenth up and down, are the catalogue's again when they are fitted to the
 * published runs: those that the runs determine. Software and the other chips stay, which at the optimum of
 * all makes no difference. */
START_TEST(published_runs_give_the_catalogue_s_chip)
{
    static const char *const parts[] = {"910b2", "910b3"};
    static const struct {
        const char *key;
        double by; /* @unit factor */
    } moved[] = {{"efficiency.matmul", 0.9}, {"efficiency.grouped-matmul", 1.1}, {"host_launch", 1.1}};
    static struct cs_calibration calibration; /* large */
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_cases cases;
    struct cs_calibrate_options options = {.validate = {.n_workers = 2}, .n_rounds = 2, .only = parts[1]};
    int32_t n_determined = 0;
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    ck_assert_ok(cs_cases_load(&cases, RUNS, &softwares, &err), &err);
    ck_assert(cs_calibrate_knows(parts[1]) && !cs_calibrate_knows("abacus"));
    for (int32_t i = 0; i < CS_COUNT(moved); i++) {
        for (int32_t k = 0; k < CS_COUNT(parts); k++) {
            *cs_chip_figure_place(cs_testbed_chip(&bed, parts[k]), cs_chip_figure_index(moved[i].key)) *=
                moved[i].by;
        }
    }
    ck_assert_ok(cs_calibrate(&cases, &bed, &softwares, &options, &calibration, &err), &err);
    for (int32_t i = 0; i < calibration.n_figures; i++) {
        const struct cs_fit_figure *f = &calibration.figures[i];
        int32_t index = cs_chip_figure_index(f->key);
        double was = cs_chip_figure(cs_catalogue_chip(catalogue, f->owner), index);
        bool determined = f->determined_frac > CS_DETERMINED_FRAC;
        double off_frac = fabs(f->value / was - 1);
        ck_assert_str_eq(f->owner, parts[0]);
        ck_assert_msg(off_frac < (determined ? 0.02 : 0.02 + 0.25 * f->uncertainty_frac), "%s: %g, not %g",
                      f->key, f->value, was);
        n_determined += determined;
    }
    ck_assert_int_ge(n_determined, 3);
    for (int32_t i = 0; i < CS_COUNT(moved); i++) { /* all parts of the generation have them */
        for (int32_t k = 0; k < CS_COUNT(parts); k++) {
            int32_t index = cs_chip_figure_index(moved[i].key);
            double was = cs_chip_figure(cs_catalogue_chip(catalogue, parts[k]), index);
            ck_assert_double_eq_tol(cs_chip_figure(cs_testbed_chip(&bed, parts[k]), index) / was, 1, 0.02);
        }
    }
    cs_calibration_release(&calibration);
    cs_cases_release(&cases);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

static const char *const link_keys[] = {"intra_bandwidth", "intra_latency", "nic_bandwidth", "nic_latency"};

static const double *server_figures(const struct cs_server *s)
{
    static double figures[4];
    figures[0] = s->intra_bytes_per_s;
    figures[1] = s->intra_latency_s;
    figures[2] = s->nic_bytes_per_s;
    figures[3] = s->nic_latency_s;
    return figures;
}

START_TEST(collectives_give_the_catalogue_s_links)
{
    int32_t n_set = 0;
    static struct cs_link_fits fits; /* large */
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    ck_assert_ok(cs_collectives_fit(&fits, CS_TEST_SOURCE_DIR "/tests/data/measured/collectives.csv", &bed,
                                    NULL, &err),
                 &err);
    ck_assert_int_eq(fits.n_rows, 178);
    for (int32_t i = 0; i < fits.n; i++) {
        const struct cs_link_fit *f = &fits.items[i];
        ck_assert(f->error_frac < 0.15 || cs_link_fit_fails(f));
        ck_assert(isnan(f->held_out_frac) == (f->n_groups == 1));
    }
    cs_collectives_apply(&fits, &bed);
    for (int32_t s = 0; s < bed.n_servers; s++) {
        const char *name = bed.servers[s].name;
        const double *is = server_figures(&bed.servers[s]);
        double fitted[4];
        memcpy(fitted, is, sizeof fitted);
        const double *was = server_figures(cs_catalogue_server(catalogue, name));
        for (int32_t k = 0; k < 4; k++) {
            const char *source = cs_catalogue_server_source(catalogue, name, link_keys[k]);
            bool set = cs_collectives_set(&fits, name, link_keys[k]);
            ck_assert_double_eq_tol(fitted[k] / was[k], 1, 5e-4);
            ck_assert_msg(set || !strstr(source, "fitted on collectives.csv"), "%s %s", name, link_keys[k]);
            n_set += set;
        }
    }
    ck_assert_int_gt(n_set, 20);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

/* All-reduces and all-gathers of 8 devices in a ring on links that are a quarter faster and 2 us slower. */
START_TEST(collectives_give_a_link_again)
{
    static struct cs_link_fits fits; /* large */
    const double bytes_per_s = 1.25 * 231.5e9;
    const double latency_s = 7.4e-6;
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_strbuf text = {0};
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    cs_strbuf_addf(&text, "hardware,n_devices,n_nodes,collective,bytes,busbw_GBps,source\n");
    for (double bytes = 4194304; bytes < 9e9; bytes *= 2) {
        for (int32_t kind = 1; kind <= 2; kind++) {
            double steps = 7 * kind;
            double time_s = 10e-6 + steps * (latency_s + bytes / 8 / bytes_per_s);
            double bus = bytes * kind * 7 / 8 / time_s;
            cs_strbuf_addf(&text, "dgx-a100,8,1,%s,%.0f,%.9g,%s\n", kind == 2 ? "all_reduce" : "all_gather",
                           bytes, bus / 1e9, kind == 2 ? "one" : "other");
        }
    }
    cs_strbuf_addf(&text, "abacus,8,1,all_reduce,1e9,10,x\n");
    write_file(cs_strbuf_str(&text));
    ck_assert_ok(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), &err);
    ck_assert_int_eq(fits.n, 1);
    ck_assert_int_eq(fits.n_foreign, 1);
    ck_assert_int_eq(fits.items[0].n_groups, 2);
    ck_assert_double_eq_tol(fits.items[0].bytes_per_s / bytes_per_s, 1, 0.01);
    ck_assert_double_eq_tol(fits.items[0].latency_s / latency_s, 1, 0.05);
    ck_assert_double_lt(fits.items[0].held_out_frac, 0.02);
    ck_assert_double_gt(fits.items[0].catalogue_error_frac, 0.1);
    write_file(
        "hardware,n_devices,n_nodes,collective,bytes,busbw_GBps,source\ndgx-a100,8,1,all_reduce,x,1,s\n");
    ck_assert_int_eq(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), CS_E_INPUT);
    ck_assert_int_eq(err.line, 2);
    write_file("hardware,n_devices\n");
    ck_assert_int_eq(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), CS_E_INPUT);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
    cs_strbuf_release(&text);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

/* Links between nodes: a tree node's worth of all-reduces by the closed form itself, with other figures; and
 * what does not depend on where the fit starts. */
START_TEST(collectives_give_links_between_nodes)
{
    static struct cs_link_fits fits; /* large */
    static struct cs_link_fits again;
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_testbed bed;
    struct cs_strbuf text = {0};
    ck_assert_ok(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_testbed_init(&bed, catalogue);
    cs_strbuf_addf(&text, "hardware,n_devices,n_nodes,collective,bytes,busbw_GBps,source\n");
    /* Four nodes of one device each: a ring of 2 x 3 steps over the NICs for large messages. */
    for (double bytes = 67108864; bytes < 9e9; bytes *= 2) {
        double time_s = 10e-6 + 6 * (20e-6 + bytes / 4 / 18e9);
        cs_strbuf_addf(&text, "dgx-a100,4,4,all_reduce,%.0f,%.9g,one\n", bytes, bytes * 1.5 / time_s / 1e9);
    }
    cs_strbuf_addf(&text, "dgx-a100,2,2,p2p write D2D (RDMA),1048576,18,two\n");
    write_file(cs_strbuf_str(&text));
    ck_assert_ok(cs_collectives_fit(&fits, FILE_NAME, &bed, NULL, &err), &err);
    ck_assert_int_eq(fits.n, 1);
    ck_assert_int_eq(fits.items[0].place, CS_LINK_BETWEEN);
    ck_assert_int_eq(fits.items[0].n_rows, 9);
    ck_assert_double_eq_tol(fits.items[0].bytes_per_s / 18e9, 1, 0.005);
    ck_assert(cs_collectives_set(&fits, "dgx-a100", "nic_bandwidth"));
    ck_assert(!cs_collectives_set(&fits, "dgx-a100", "intra_bandwidth"));
    ck_assert(!cs_collectives_set(&fits, "vtrain-a100", "nic_bandwidth")); /* its NICs are others */
    cs_testbed_server(&bed, "dgx-a100")->nic_bytes_per_s *= 1.1;
    cs_testbed_server(&bed, "dgx-a100")->intra_bytes_per_s *= 0.9;
    ck_assert_ok(cs_collectives_fit(&again, FILE_NAME, &bed, NULL, &err), &err);
    ck_assert_double_eq_tol(again.items[0].bytes_per_s / fits.items[0].bytes_per_s, 1, 1e-4);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
    cs_strbuf_release(&text);
    cs_testbed_release(&bed);
    cs_catalogue_free(catalogue);
}
END_TEST

START_TEST(doubts_belong_to_cases)
{
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    ck_assert_ok(load_text(&cases,
                           HEADER "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n"
                                  "b,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n",
                           &err),
                 &err);
    write_file("id,reason\nb,\"measured twice, 1 s and 2 s\"\n");
    ck_assert_ok(cs_cases_doubt(&cases, FILE_NAME, &err), &err);
    ck_assert_ptr_null(case_of(&cases, "a")->doubt);
    ck_assert_str_eq(case_of(&cases, "b")->doubt, "measured twice, 1 s and 2 s");
    write_file("id,reason\na,x\nc,x\n");
    ck_assert_int_eq(cs_cases_doubt(&cases, FILE_NAME, &err), CS_E_INPUT);
    ck_assert_int_eq(err.line, 3);
    cases.items[0].doubt = NULL;
    write_file("id,reason\na,x\na,y\n");
    ck_assert_int_eq(cs_cases_doubt(&cases, FILE_NAME, &err), CS_E_INPUT);
    ck_assert_int_eq(err.line, 3);
    ck_assert_str_eq(err.text, "case 'a' is doubted in line 2 of '" FILE_NAME "' already");
    cases.items[0].doubt = NULL;
    write_file("id,reason\na,\n");
    ck_assert_int_eq(cs_cases_doubt(&cases, FILE_NAME, &err), CS_E_INPUT);
    cs_cases_release(&cases);
    ck_assert_ok(cs_cases_load(&cases, RUNS, &softwares, &err), &err);
    ck_assert_ok(cs_cases_doubt(&cases, DOUBTS, &err), &err);
    cs_cases_release(&cases);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("validate");
    TCase *tcase = tcase_create("cases");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, published_rows_become_cases);
    tcase_add_test(tcase, scripts_of_runs_say_which_kernels_they_have);
    tcase_add_test(tcase, rows_that_cannot_run_say_why);
    tcase_add_test(tcase, doubts_belong_to_cases);
    tcase_add_loop_test(tcase, bad_files_are_refused_at_their_line, 0, CS_COUNT(bad));
    tcase_add_loop_test(tcase, sources_words_are_known, 0, N_WORDS);
    tcase_add_test(tcase, errors_are_as_defined);
    tcase_add_test(tcase, software_is_written_as_it_is_read);
    tcase_add_test(tcase, odd_software_is_written_as_it_is_read);
    tcase_add_test(tcase, calibration_finds_a_figure_again);
    tcase_add_test(tcase, published_runs_give_the_catalogue_s_chip);
    tcase_add_test(tcase, collectives_give_the_catalogue_s_links);
    tcase_add_test(tcase, collectives_give_a_link_again);
    tcase_add_test(tcase, collectives_give_links_between_nodes);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(suite)
