/* MindFormers configurations: wrong values at each key that is read, in the examples. */
#include "cs_test.h"

#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/workloads/mindformers.h"

#include <stdio.h>

#define EXAMPLES CS_TEST_SOURCE_DIR "/tests/data/mindformers"

/* What a key takes: the wrong values that it must refuse are those that are none of its kind. */
enum takes { INTEGER, BOOLEAN, CHOICE, WORD };

static const struct {
    enum takes takes;
    const char *paths; /* by spaces */
} mapped[] = {
    {INTEGER,
     " parallel_config.data_parallel parallel_config.model_parallel parallel_config.context_parallel "
     "parallel_config.pipeline_stage parallel_config.expert_parallel parallel_config.micro_batch_num "
     "parallel_config.seq_split_num micro_batch_interleave_num runner_config.batch_size "
     "runner_config.gradient_accumulation_steps model.model_config.batch_size "
     "model.model_config.num_layers model.model_config.num_hidden_layers model.model_config.hidden_size "
     "model.model_config.num_heads model.model_config.num_attention_heads model.model_config.n_kv_heads "
     "model.model_config.num_key_value_heads model.model_config.vocab_size model.model_config.seq_length "
     "model.model_config.intermediate_size model.model_config.multiple_of model.model_config.offset "
     "model.model_config.pp_interleave_num model.model_config.fine_grain_interleave "
     "model.model_config.kv_lora_rank model.model_config.q_lora_rank model.model_config.v_head_dim "
     "model.model_config.qk_rope_head_dim model.model_config.qk_nope_head_dim "
     "model.model_config.mtp_depth model.model_config.num_nextn_predict_layers "
     "model.model_config.moe_intermediate_size model.model_config.head_dim "
     "model.model_config.max_position_embeddings model.model_config.type_vocab_size "
     "moe_config.expert_num moe_config.num_experts_chosen moe_config.shared_expert_num "
     "moe_config.first_k_dense_replace "},
    {BOOLEAN, " use_parallel use_legacy parallel_config.use_seq_parallel parallel_config.vocab_emb_dp "
              "parallel.enable_parallel_optimizer parallel.full_batch parallel.enable_alltoall "
              "parallel.parallel_optimizer_config.gradient_accumulation_shard "
              "parallel.pipeline_config.pipeline_interleave recompute_config.mp_comm_recompute "
              "recompute_config.parallel_optimizer_comm_recompute "
              "recompute_config.recompute_slice_activation runner_wrapper.use_clip_grad optimizer.swap "
              "swap_config.swap model.model_config.use_flash_attention model.model_config.moe_grouped_gemm "
              "model.model_config.moe_token_drop_policy model.model_config.qkv_has_bias moe_config.use_gmm "},
    {CHOICE, " run_mode parallel.parallel_mode context.mode context.max_device_memory "
             "parallel.pipeline_config.pipeline_scheduler model.model_config.compute_dtype "
             "model.model_config.param_init_type model.model_config.params_dtype "
             "model.model_config.softmax_compute_type model.model_config.softmax_compute_dtype "
             "model.model_config.layernorm_compute_type model.model_config.layernorm_compute_dtype "
             "model.model_config.rotary_dtype parallel_config.context_parallel_algo "
             "model.model_config.moe_token_dispatcher_type "},
    {WORD,
     " optimizer.type model.model_config.type model.model_config.model_type model.model_config.hidden_act "},
};

static int takes_of(const char *path)
{
    char item[300];
    snprintf(item, sizeof item, " %s ", path);
    for (int i = 0; i < CS_COUNT(mapped); i++) {
        if (strstr(mapped[i].paths, item)) {
            return (int)mapped[i].takes;
        }
    }
    return -1;
}

struct mutation {
    const char *text;
    size_t bytes;
    int n_mapped, n_refused, n_listed;
};

/* Put `wrong` in the place of a scalar and read the file: it is refused at that line, or read. */
static void mutate(struct mutation *m, const struct cs_yaml_node *node, const char *path, const char *wrong,
                   bool must_refuse)
{
    struct cs_err err = {0};
    struct cs_mindformers config = {0};
    const char *at = m->text;
    for (int line = 1; line < node->loc.line; line++) {
        at = strchr(at, '\n') + 1;
    }
    at += node->loc.col - 1;
    size_t old = strlen(node->text) + (node->quoted ? 2 : 0);
    if (strncmp(at + node->quoted, node->text, strlen(node->text)) != 0) {
        return; /* an anchor stands before it */
    }
    struct cs_strbuf text = {0};
    cs_strbuf_addf(&text, "%.*s%s%s", (int)(at - m->text), m->text, wrong, at + old);
    const char *all = cs_strbuf_str(&text);
    cs_status st = cs_mindformers_load_text(&config, all, strlen(all), "run.yaml", &err);
    if (st == CS_OK) {
        ck_assert_msg(!must_refuse, "%s: %s is taken", path, wrong);
        m->n_listed += config.n_warnings > 0;
    } else {
        ck_assert_msg((st == CS_E_INPUT || st == CS_E_LIMIT) && cs_status_exit(st) == 2 && err.line > 0 &&
                          strcmp(err.file, "run.yaml") == 0,
                      "%s: %s: status %d at '%s':%d: %s", path, wrong, (int)st, err.file, err.line, err.text);
        m->n_refused++;
    }
    cs_mindformers_release(&config);
    cs_strbuf_release(&text);
}

static void mutate_all(struct mutation *m, const struct cs_yaml_node *map, const char *above)
{
    static const char *const wrong[] = {"abc", "{x: 1}", "[1, x]", "-1", "1.e+30", "99999999999999999999"};
    for (int32_t i = 0; i < map->n; i++) {
        char path[256];
        const struct cs_yaml_node *node = map->items[i];
        snprintf(path, sizeof path, "%s%s%s", above, above[0] ? "." : "", map->keys[i]->text);
        if (node->kind == CS_YAML_MAP) {
            mutate_all(m, node, path);
        }
        int takes = takes_of(path);
        for (int32_t k = 0; node->kind == CS_YAML_SCALAR && k < CS_COUNT(wrong); k++) {
            bool none_of = takes == WORD ? k == 1 || k == 2 : takes >= 0;
            mutate(m, node, path, wrong[k], none_of);
        }
        m->n_mapped += takes >= 0 && node->kind == CS_YAML_SCALAR;
    }
}

START_TEST(test_wrong_values)
{
    static const char *const files[] = {"llama3_70b_64p",   "deepseek3_671b_1024p",
                                        "bert_base_1p",     "deepseek3_671b_256p_seqpipe",
                                        "mixtral_8x7b_16p", "qwen3_32b_16p"};
    static const int least[] = {34, 36, 18, 30, 30, 28};
    struct cs_err err = {0};
    struct cs_yaml yaml = {0};
    struct mutation m = {0};
    char path[1024];
    char *text = NULL;
    snprintf(path, sizeof path, EXAMPLES "/%s.yaml", files[_i]);
    ck_assert_ok(cs_file_read(path, 1 << 20, &text, &m.bytes, &err), &err);
    m.text = text;
    ck_assert_ok(cs_yaml_load_text(&yaml, text, m.bytes, "run.yaml", &err), &err);
    mutate_all(&m, yaml.root, "");
    ck_assert_msg(m.n_mapped >= least[_i] && m.n_refused >= 4 * least[_i] && m.n_listed > 0,
                  "%s: %d mapped, %d refused, %d listed", files[_i], m.n_mapped, m.n_refused, m.n_listed);
    cs_yaml_release(&yaml);
    cs_free(text);
}
END_TEST

static Suite *values_suite(void)
{
    Suite *suite = suite_create("mindformers values");
    TCase *c = tcase_create("values");
    tcase_add_loop_test(c, test_wrong_values, 0, 6);
    suite_add_tcase(suite, c);
    return suite;
}

CS_TEST_MAIN(values_suite)
