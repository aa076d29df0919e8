/* Published runs and the software that ran them, as read from tables. */
#include "cs/strategies/cases.h"

#include "cases_fixture.h"
#include "cs_test.h"

#include <stdio.h>
#include <unistd.h>

#define DOUBTS CS_TEST_SOURCE_DIR "/tests/data/measured/doubts.csv"
#define FILE_NAME "test_cases.csv"
#define GPT "GPT,8,1024,4096,n,16,51200,"

static struct cs_softwares softwares;

static void setup(void)
{
    cases_softwares(&softwares);
}

static void teardown(void)
{
    cs_softwares_release(&softwares);
}

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
    ck_assert_ok(cs_cases_load(&cases, CASES_RUNS, &softwares, &err), &err);
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
    /* vTrain's runs on one node are listed as recomputed as well, and were not. */
    c = case_of(&cases, "r0313");
    ck_assert_str_eq(c->software->name, "megatron-vtrain-nodes");
    ck_assert_int_eq(c->strategy.recompute, CS_RECOMPUTE_FULL);
    c = case_of(&cases, "r0411");
    ck_assert_str_eq(c->software->name, "megatron-vtrain");
    ck_assert_int_eq(c->strategy.recompute, CS_RECOMPUTE_NONE);
    ck_assert_ptr_nonnull(strstr(c->assumptions, "no recomputation, although stated"));
    /* Of Megatron-LM the later release gathers and reduces beside gradients. */
    ck_assert(case_of(&cases, "r0251")->training.async_tensor_parallel);
    ck_assert(!case_of(&cases, "r0234")->training.async_tensor_parallel);
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
    ck_assert_ok(cs_cases_load(&cases, CASES_RUNS, &softwares, &err), &err);
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
    ck_assert_ok(cases_load_text(&cases, FILE_NAME,
                                 CASES_HEADER
                                 "a,dgx-a100,8,8," GPT
                                 "8,1,1,n,,1,8,1024,none,fp16,1.5,x,\"a, \"\"quoted\"\" note\"\n"
                                 "b,dgx-a100,8,8," GPT "8,1,2,n,,1,8,1024,none,fp16,1.5,x,\n"
                                 "c,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,partial(custom),fp16,1.5,x,\n"
                                 "d,dgx-a100,8,8," GPT "8,1,1,maybe,,1,8,1024,none,fp16,1.5,x,\n"
                                 "e,dgx-a100,8,8," GPT "8,1,1,n,ZeRO-9,1,8,1024,none,fp16,1.5,x,\n"
                                 "f,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,none,int4,1.5,x,\n"
                                 "g,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,none,fp16,1e300,x,\n",
                                 &softwares, &err),
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

START_TEST(doubts_belong_to_cases)
{
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    ck_assert_ok(cases_load_text(&cases, FILE_NAME,
                                 CASES_HEADER "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n"
                                              "b,h100-sxm5,1,8," GPT
                                              "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n",
                                 &softwares, &err),
                 &err);
    cases_write(FILE_NAME, "id,reason\nb,\"measured twice, 1 s and 2 s\"\n");
    ck_assert_ok(cs_cases_doubt(&cases, FILE_NAME, &err), &err);
    ck_assert_ptr_null(case_of(&cases, "a")->doubt);
    ck_assert_str_eq(case_of(&cases, "b")->doubt, "measured twice, 1 s and 2 s");
    cases_write(FILE_NAME, "id,reason\na,x\nc,x\n");
    ck_assert_int_eq(cs_cases_doubt(&cases, FILE_NAME, &err), CS_E_INPUT);
    ck_assert_int_eq(err.line, 3);
    cases.items[0].doubt = NULL;
    cases_write(FILE_NAME, "id,reason\na,x\na,y\n");
    ck_assert_int_eq(cs_cases_doubt(&cases, FILE_NAME, &err), CS_E_INPUT);
    ck_assert_int_eq(err.line, 3);
    ck_assert_str_eq(err.text, "case 'a' is doubted in line 2 of '" FILE_NAME "' already");
    cases.items[0].doubt = NULL;
    cases_write(FILE_NAME, "id,reason\na,\n");
    ck_assert_int_eq(cs_cases_doubt(&cases, FILE_NAME, &err), CS_E_INPUT);
    cs_cases_release(&cases);
    ck_assert_ok(cs_cases_load(&cases, CASES_RUNS, &softwares, &err), &err);
    ck_assert_ok(cs_cases_doubt(&cases, DOUBTS, &err), &err);
    cs_cases_release(&cases);
    ck_assert_int_eq(unlink(FILE_NAME), 0);
}
END_TEST

static const struct {
    const char *text;
    int line;
    const char *part;
} bad[] = {
    {"id,hardware\na,b\n", 1, "there is no column 'n_devices'"},
    {CASES_HEADER "a,b\n", 2, "2 fields, but the header has 24"},
    {CASES_HEADER "a,dgx-a100,eight,8," GPT "8,1,1,n,,1,8,1024,none,fp16,1.5,x,\n", 2, "n_devices"},
    {CASES_HEADER "a,dgx-a100,8,8," GPT "8,1,1,n,,1,8,1024,none,fp16,fast,x,\n", 2, "iteration_seconds"},
    {CASES_HEADER "a,\"dgx", 2, "does not end"},
    {CASES_HEADER, 1, "there is no case"},
    {"", 1, "there is no column 'id'"},
    {"id," CASES_HEADER, 1, "two columns 'id'"},
    {CASES_HEADER ",h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n", 2, "without an id"},
    {CASES_HEADER "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n"
                  "b,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,nobody,\n"
                  "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,2,nobody,\n",
     4, "the id 'a' is that of line 2 too"},
    {CASES_HEADER "a,h100-sxm5,1,8," GPT "1,1,1,n,,1,8,1024,none,bf16,1,r\xe9sum\xe9,\n", 2,
     "not UTF-8: the byte 0xe9"},
};

START_TEST(bad_files_are_refused_at_their_line)
{
    struct cs_err err = {0};
    struct cs_cases cases = {0};
    ck_assert_fails(cases_load_text(&cases, FILE_NAME, bad[_i].text, &softwares, &err), &err, CS_E_INPUT,
                    bad[_i].line, bad[_i].part);
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
                   CASES_HEADER, GPT, rows[_i].sharding, rows[_i].recompute);
    ck_assert_ok(cases_load_text(&cases, FILE_NAME, cs_strbuf_str(&text), &softwares, &err), &err);
    ck_assert_int_eq(cases.items[0].problem != NULL, rows[_i].strategy == NULL);
    if (rows[_i].strategy) {
        ck_assert_str_eq(cs_strategy_format(&cases.items[0].strategy, strategy, sizeof strategy),
                         rows[_i].strategy);
    }
    cs_strbuf_release(&text);
    cs_cases_release(&cases);
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
        ck_assert_int_eq(again.items[i].no_recomputation, softwares.items[i].no_recomputation);
        ck_assert_int_eq(again.items[i].async_tensor_parallel, softwares.items[i].async_tensor_parallel);
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

static Suite *suite(void)
{
    Suite *suite = suite_create("cases");
    TCase *tcase = tcase_create("cases");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, published_rows_become_cases);
    tcase_add_test(tcase, scripts_of_runs_say_which_kernels_they_have);
    tcase_add_test(tcase, rows_that_cannot_run_say_why);
    tcase_add_test(tcase, doubts_belong_to_cases);
    tcase_add_loop_test(tcase, bad_files_are_refused_at_their_line, 0, CS_COUNT(bad));
    tcase_add_loop_test(tcase, sources_words_are_known, 0, N_WORDS);
    tcase_add_test(tcase, software_is_written_as_it_is_read);
    tcase_add_test(tcase, odd_software_is_written_as_it_is_read);
    suite_add_tcase(suite, tcase);
    return suite;
}

CS_TEST_MAIN(suite)
