/* Strategies: text, comparison, coordinates, validity rules. */
#include "cs_test.h"
#include "workload_fixture.h"

START_TEST(test_text)
{
    static const char *const same[] = {
        "dp=1,mp=1,pp=1",
        "dp=16,mp=2,pp=2,op=2,recompute=full",
        "dp=8,mp=8,pp=1,op=4,zero=3,sp=true,micro_batch=4,recompute=selective",
        "dp=2,mp=2,pp=2,cp=2,ep=4,vpp=2,schedule=zero-bubble-v,placement=dp,mp,pp,cp",
        "dp=8,mp=1,pp=1,op=8,zero=3,keep_weights=true",
    };
    char buf[256];
    struct cs_strategy strategy = workload_strategy(same[_i]);
    ck_assert_str_eq(cs_strategy_format(&strategy, buf, sizeof buf), same[_i]);
    struct cs_strategy again = workload_strategy(buf);
    ck_assert(cs_strategy_equal(&strategy, &again));
    ck_assert(cs_strategy_hash(&strategy) == cs_strategy_hash(&again));
    again.micro_batch++;
    ck_assert(!cs_strategy_equal(&strategy, &again));
    ck_assert(cs_strategy_hash(&strategy) != cs_strategy_hash(&again));
    char small[8];
    ck_assert_str_eq(cs_strategy_format(&strategy, small, sizeof small), (buf[7] = '\0', buf));
}
END_TEST

START_TEST(test_text_details)
{
    struct cs_err err = {0};
    struct cs_strategy strategy;
    uint32_t mask = 0;
    cs_strategy_init(&strategy);
    strategy.micro_batch = 4;
    ck_assert_ok(
        cs_strategy_parse("op=dp,tp=2,dp=16,placement=pp-dp-cp-tp", CS_NOLOC, &strategy, &mask, &err), &err);
    ck_assert_int_eq(strategy.op, 16);
    ck_assert_int_eq(strategy.mp, 2);
    ck_assert_int_eq(strategy.micro_batch, 4);
    ck_assert_int_eq(strategy.placement[0], CS_DIM_PP);
    ck_assert_int_eq(strategy.placement[3], CS_DIM_MP);
    ck_assert_uint_eq(mask, 1u << 0 | 1u << 1 | 1u << 3 | 1u << 12);
    ck_assert_ok(cs_strategy_set(&strategy, "recompute", "full", CS_NOLOC, &err), &err);
    ck_assert_int_eq(strategy.recompute, CS_RECOMPUTE_FULL);
}
END_TEST

START_TEST(test_text_errors)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"micro_bach=4", "did you mean 'micro_batch'"},
        {"dp", "not key=value"},
        {"dp=4,dp=4", "'dp' is given twice"},
        {"tp=4,mp=4", "'mp' is given twice"},
        {"dp=0", "'dp' is '0'"},
        {"dp=4x", "'dp' is '4x'"},
        {"dp=", "dp"},
        {"zero=4", "'zero' is '4'"},
        {"sp=1", "not one of: false, true"},
        {"schedule=2f2b", "not one of: gpipe, 1f1b"},
        {"recompute=some", "not one of: none, selective, full"},
        {"placement=mp,cp,dp", "'placement' is 'mp,cp,dp'"},
        {"placement=mp,cp,dp,dp", "'placement'"},
        {"placement=mp,cp,dp,pp,mp", "'placement'"},
        {"placement=", "'placement'"},
        {"dp=4,", "ends in a comma"},
    };
    struct cs_err err = {0};
    struct cs_strategy strategy;
    struct cs_loc loc = {.file = "study.yaml", .line = 7};
    cs_strategy_init(&strategy);
    struct cs_strategy before = strategy;
    ck_assert_fails(cs_strategy_parse(rows[_i].text, loc, &strategy, NULL, &err), &err, CS_E_INPUT, 7,
                    rows[_i].part);
    ck_assert(cs_strategy_equal(&strategy, &before));
}
END_TEST

START_TEST(test_canonical)
{
    struct cs_strategy strategy = workload_strategy("dp=8,zero=3,sp=true,schedule=gpipe");
    struct cs_strategy want = workload_strategy("dp=8");
    cs_strategy_canonicalise(&strategy);
    ck_assert(cs_strategy_equal(&strategy, &want));
}
END_TEST

START_TEST(test_coordinates)
{
    struct cs_strategy strategy = workload_strategy("dp=3,mp=2,pp=5,cp=4,placement=cp,pp,mp,dp");
    for (int32_t rank = 0; rank < 120; rank++) {
        int32_t coord[CS_N_DIMS];
        for (int32_t dim = 0; dim < CS_N_DIMS; dim++) {
            coord[dim] = cs_strategy_coord(&strategy, rank, (enum cs_dim)dim);
        }
        ck_assert_int_eq(cs_strategy_rank(&strategy, coord), rank);
        ck_assert_int_eq(coord[CS_DIM_CP], rank % 4);
        ck_assert_int_eq(coord[CS_DIM_PP], rank / 4 % 5);
        ck_assert_int_eq(coord[CS_DIM_DP], rank / 40);
    }
}
END_TEST

START_TEST(test_rules)
{
    static const struct {
        const char *strategy, *rule;
    } rows[] = {
        {"dp=4,mp=4,pp=4,op=4,zero=2,sp=true,micro_batch=2", NULL},
        {"mp=64", NULL},
        {"dp=8,mp=8,pp=2", "devices-product"},
        {"dp=2,mp=3,pp=2", "devices-product"},
        {"dp=4,mp=4,pp=4,op=3", "op-divides-dp"},
        {"dp=4,mp=4,pp=4,zero=2", "zero-needs-op"},
        {"dp=64,sp=true", "sp-needs-mp"},
        {"dp=4,mp=4,pp=4,micro_batch=3", "batch-divisible"},
        {"dp=64,vpp=2", "schedule-needs-pipeline"},
        {"dp=64,vpp=2,schedule=interleaved", "schedule-needs-pipeline"},
        {"dp=64,schedule=dualpipe", "schedule-needs-pipeline"},
        {"dp=64,schedule=gpipe", NULL},
        {"dp=4,pp=16,micro_batch=32", NULL}, /* fewer than stages: Megatron runs it */
        {"dp=4,pp=16,micro_batch=32,schedule=zero-bubble", NULL},
        {"dp=4,pp=16,micro_batch=32,schedule=interleaved,vpp=2", "micro-batches-fill-pipeline"},
        {"dp=4,pp=16,micro_batch=32,schedule=zero-bubble-v,vpp=2", "micro-batches-fill-pipeline"},
        {"dp=4,pp=16,micro_batch=32,schedule=dualpipe", "micro-batches-fill-pipeline"},
        {"dp=4,pp=16,micro_batch=32,schedule=gpipe", NULL},
        {"dp=64,seq_split=2", "keys-take-effect"},
        {"dp=16,pp=4,seq_split=2", "keys-take-effect"},
        {"dp=16,pp=4,seq_split=2,schedule=seqpipe", NULL},
        {"dp=64,half_batches=2", "keys-take-effect"},
        {"dp=16,pp=4,recompute=full,full_layers=1/1/1/1", "keys-take-effect"},
        {"dp=16,pp=4,recompute=selective,selective_layers=1/1/1/1", "keys-take-effect"},
        {"dp=64,fused_tp=true", "keys-take-effect"},
        {"dp=64,recompute=full,swap_activations=true", "keys-take-effect"},
        {"dp=64,keep_comm=true,recompute=full", "keys-take-effect"},
        {"dp=64,op=dp,zero=2,keep_weights=true", "keys-take-effect"},
        {"dp=64,op=dp,zero=3,keep_weights=true", NULL},
        {"dp=8,mp=8,keep_comm=true", "keys-take-effect"},
        {"dp=8,mp=8,keep_comm=true,recompute=full", NULL},
        {"dp=64,cp_kind=ulysses", "keys-take-effect"},
    };
    struct cs_model model = workload_model("llama3-70b");
    struct cs_training training = workload_training(&model, 1024, 4096);
    struct cs_cluster_shape shape = {.n_devices = 64, .devices_per_node = 8};
    struct cs_strategy strategy = workload_strategy(rows[_i].strategy);
    char why[256];
    const char *rule = cs_strategy_check(&strategy, &model, &training, &shape, why, sizeof why);
    ck_assert_msg((rule == NULL) == (rows[_i].rule == NULL) &&
                      (rule == NULL || strcmp(rule, rows[_i].rule) == 0),
                  "%s: %s (%s)", rows[_i].strategy, rule ? rule : "fits", why);
    ck_assert_int_eq(why[0] != '\0', rule != NULL);
    cs_model_release(&model);
}
END_TEST

START_TEST(test_exceeds)
{
    static const struct {
        const char *strategy, *part;
    } rows[] = {
        {"dp=16,pp=4,full_layers=20/20/20/21", "place 3 has 20 layers, of which full_layers recomputes 21"},
        {"dp=16,pp=4,full_layers=0/0/0/0,selective_layers=0/21/0/0",
         "place 1 has 20 layers, of which selective"},
        {"dp=16,pp=4,layers=19/21/20/20,full_layers=19/21/20/20", NULL},
        {"dp=16,pp=4,recompute=full", NULL},
    };
    struct cs_model model = workload_model("llama3-70b");
    struct cs_strategy strategy = workload_strategy(rows[_i].strategy);
    char why[256] = "";
    ck_assert_int_eq(cs_strategy_exceeds(&strategy, &model, why, sizeof why), rows[_i].part != NULL);
    ck_assert_msg(rows[_i].part == NULL || strstr(why, rows[_i].part), "%s", why);
    cs_model_release(&model);
}
END_TEST

START_TEST(test_rules_model)
{
    /* Each rule about the model alone, by a model that breaks it. */
    struct cs_model model = workload_gpt(6, 480, 10, 1000);
    struct cs_training training = workload_training(&model, 64, 1023);
    struct cs_cluster_shape shape = {.n_devices = 4, .devices_per_node = 4};
    struct cs_strategy strategy = workload_strategy("mp=4");
    char why[256];
#define RULE() cs_strategy_check(&strategy, &model, &training, &shape, why, sizeof why)
    ck_assert_str_eq(RULE(), "heads-divisible");
    model.n_heads = 12;
    model.n_kv_heads = 6;
    ck_assert_str_eq(RULE(), "kv-heads-divisible");
    model.n_kv_heads = 12;
    model.ffn = 1022;
    ck_assert_str_eq(RULE(), "ffn-divisible");
    model.ffn = 1024;
    model.vocab = 1002;
    ck_assert_str_eq(RULE(), "vocab-divisible");
    model.vocab = 1000;
    strategy.sp = true;
    ck_assert_str_eq(RULE(), "sequence-divisible");
    ck_assert_ptr_nonnull(strstr(why, "1023"));
    strategy.sp = false;
    model.max_position = 512;
    ck_assert_str_eq(RULE(), "position-long-enough");
    model.max_position = 2048;
    training.global_batch = 1000000000;
    ck_assert_str_eq(RULE(), "micro-batches-countable");
    ck_assert_ptr_nonnull(strstr(why, "65536"));
    training.global_batch = 65536;
    ck_assert_ptr_null(RULE());
    /* Embedding, positions and 6 layers of 16 parameters (the matrix of the head is the embedding's), two of
     * the last norm; q, k and v are three weights and three biases. */
    training.n_fusion = 2;
    training.fusion[0] = 10;
    training.fusion[1] = 2 + 6 * 16 + 2;
    ck_assert_str_eq(RULE(), "fusion-numbers-exist");
    ck_assert_ptr_nonnull(strstr(why, "the model has 100"));
    training.fusion[1]--;
    ck_assert_ptr_null(RULE());
    training.n_fusion = 0;
    strategy = workload_strategy("pp=8,dp=1");
    shape.n_devices = 8;
    ck_assert_str_eq(RULE(), "layers-per-stage");
    strategy.placement[0] = CS_DIM_PP;
    ck_assert_str_eq(RULE(), "placement-complete");
#undef RULE
}
END_TEST

START_TEST(test_selective_has_work)
{
    /* Fused attention keeps no scores: only the activation of a gated product is left to run again. */
    static const struct {
        const char *model, *strategy;
        bool flash, holds;
    } rows[] = {
        {"gpt-1.7b", "dp=8,recompute=selective", true, false},
        {"gpt-1.7b", "dp=8,recompute=selective", false, true},
        {"gpt-1.7b", "dp=4,pp=2,full_layers=0/0,selective_layers=1/0", true, false},
        {"gpt-1.7b", "dp=4,pp=2,full_layers=1/0,selective_layers=0/0", true, true},
        {"bert-large", "dp=8,recompute=selective", true, false},
        {"resnet-50", "dp=8,recompute=selective", true, false},
        {"resnet-50", "dp=8,recompute=selective", false, false},
        {"llama3-8b", "dp=8,recompute=selective", true, true},
        {"mixtral-8x7b", "dp=8,recompute=selective", true, true},
    };
    struct cs_model model = workload_model(rows[_i].model);
    struct cs_training training = workload_training(&model, 64, model.image > 0 ? 1 : 512);
    struct cs_cluster_shape shape = {.n_devices = 8, .devices_per_node = 8};
    struct cs_strategy strategy = workload_strategy(rows[_i].strategy);
    char why[256];
    training.flash_attention = rows[_i].flash;
    const char *rule = cs_strategy_check(&strategy, &model, &training, &shape, why, sizeof why);
    ck_assert_msg((rule == NULL) == rows[_i].holds, "%s: %s", rows[_i].model, rule ? why : "no rule");
    ck_assert(rule == NULL || strcmp(rule, "keys-take-effect") == 0);
    ck_assert(rule == NULL || strstr(why, "selective has no effect") != NULL);
    cs_model_release(&model);
}
END_TEST

static Suite *strategy_suite(void)
{
    Suite *suite = suite_create("strategy");
    TCase *text = tcase_create("text");
    tcase_add_loop_test(text, test_text, 0, 5);
    tcase_add_test(text, test_text_details);
    tcase_add_loop_test(text, test_text_errors, 0, 16);
    tcase_add_test(text, test_canonical);
    tcase_add_test(text, test_coordinates);
    suite_add_tcase(suite, text);
    TCase *rules = tcase_create("rules");
    tcase_add_loop_test(rules, test_selective_has_work, 0, 9);
    tcase_add_loop_test(rules, test_rules, 0, 29);
    tcase_add_loop_test(rules, test_exceeds, 0, 4);
    tcase_add_test(rules, test_rules_model);
    suite_add_tcase(suite, rules);
    return suite;
}

CS_TEST_MAIN(strategy_suite)
