/* Mixtures of experts, latent attention, multi-token prediction, context parallelism. */
#include "cs_test.h"
#include "workload_fixture.h"

#include "cs/workloads/stage_cost.h"

#include <math.h>

static double state_of_ranks(const struct cs_trace *trace)
{
    double sum = 0;
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        sum += trace->programs[trace->program_of_rank[rank]].state_bytes;
    }
    return sum;
}

/** Parameters of all routed experts. */
static double expert_params(const struct cs_model *model)
{
    return 3.0 * (double)(model->hidden * model->expert_ffn) * model->n_experts *
           (model->n_layers - model->first_dense_layers);
}

START_TEST(test_state)
{
    /* Weights 2, gradients 4, states 12 bytes a parameter; every rank's sum is the model's, times the copies:
     * dp * cp of the dense parameters, dp * cp * mp / ep of each expert; states once per copy group of op. */
    static const struct {
        const char *strategy;
        double dense_states, expert_states; /* copies of the optimizer states */
        double dense, experts;              /* copies of the rest */
    } rows[] = {
        {"dp=4", 4, 4, 4, 4},
        {"dp=4,ep=2", 4, 2, 4, 2},
        {"dp=4,ep=4,pp=2", 4, 1, 4, 1},
        {"dp=4,ep=2,op=4", 1, 1, 4, 2},
        {"dp=8,ep=2,op=2", 4, 2, 8, 4},
        {"dp=2,cp=2,ep=4", 4, 1, 4, 1},
        {"dp=8,ep=4,op=8,pp=2,vpp=2,schedule=interleaved", 1, 1, 8, 2},
    };
    struct cs_model model = workload_moe(10, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    double experts = expert_params(&model);
    double dense = (double)cs_model_params(&model) - experts;
    double want = 6 * (dense * rows[_i].dense + experts * rows[_i].experts) +
                  12 * (dense * rows[_i].dense_states + experts * rows[_i].expert_states);
    ck_assert_double_eq_tol(state_of_ranks(trace), want, 1.0);
    ck_assert_double_eq_tol(trace->cluster_state_bytes, want, 1.0);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_state_zero3)
{
    struct cs_model model = workload_moe(10, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    struct cs_trace *trace = workload_trace(&model, &training, "dp=8,ep=2,op=8,zero=3");
    ck_assert_double_eq_tol(state_of_ranks(trace) / trace->model_state_bytes, 1.0, 1e-6);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_norm_group)
{
    /* The global norm sums over every rank that holds another part: stages, tensor-parallel ranks, experts of
     * other ranks, shards of states. Copies stay out. */
    static const struct {
        const char *strategy;
        int32_t size; /* 0 = no norm to exchange */
    } rows[] = {
        {"dp=8", 0},
        {"dp=8,ep=4", 4},
        {"dp=8,ep=8", 8},
        {"dp=8,ep=2,pp=2", 2 * 2},
        {"dp=4,mp=2,sp=true,ep=2", 2},
        {"dp=4,mp=2,sp=true,ep=4", 2 * 2},
        {"dp=4,mp=2,ep=4,expert_mp=true", 2 * 4},
        {"dp=8,ep=2,op=2", 2 * 2},
        {"dp=8,ep=2,op=8", 8},
        {"dp=4,cp=2,ep=4", 4},
    };
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    training.clip_gradient = true;
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    const struct cs_comm *norm = NULL;
    for (int32_t i = 0; i < trace->n_comms; i++) {
        norm = strcmp(trace->comms[i].name, "norm") == 0 ? &trace->comms[i] : norm;
    }
    ck_assert_int_eq(norm != NULL, rows[_i].size > 0);
    for (int32_t g = 0; norm != NULL && g < norm->n_groups; g++) {
        ck_assert_int_eq(norm->group_first[g + 1] - norm->group_first[g], rows[_i].size);
    }
    /* Whoever shares experts out is in one group. */
    for (int32_t i = 0; norm != NULL && i < trace->n_comms; i++) {
        const struct cs_comm *ep = &trace->comms[i];
        for (int32_t g = 0; strcmp(ep->name, "ep") == 0 && g < ep->n_groups; g++) {
            for (int32_t k = ep->group_first[g]; k < ep->group_first[g + 1]; k++) {
                ck_assert_int_eq(norm->group_of_rank[ep->members[k]],
                                 norm->group_of_rank[ep->members[ep->group_first[g]]]);
            }
        }
    }
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_exchange)
{
    /* A layer: two exchanges forward, two backward, each of tokens * chosen * hidden elements. */
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 8, 1024);
    static const char *const strategies[] = {"dp=4,ep=4", "dp=4,mp=2,sp=true,ep=8", "dp=2,cp=2,ep=4"};
    static const int64_t ranks_per_sequence[] = {1, 2, 2};
    struct cs_trace *trace = workload_trace(&model, &training, strategies[_i]);
    for (int32_t backward = 0; backward < 2; backward++) {
        int64_t bytes;
        int32_t n = workload_count(
            trace, workload_block(trace, 0, backward ? "backward" : "forward"),
            (struct workload_filter){
                .type = IS(CS_OP_COLLECTIVE), .coll = IS(CS_COLL_ALL_TO_ALL), .comm = "ep", .layer = IS(3)},
            &bytes);
        ck_assert_int_eq(n, 2);
        ck_assert_int_eq(bytes, 2 * 1024 / ranks_per_sequence[_i] * 2 * 512 * 2);
        n = workload_count(trace, workload_block(trace, 0, backward ? "backward" : "forward"),
                           (struct workload_filter){.comm = "ep", .layer = IS(1)}, &bytes);
        ck_assert_int_eq(n, 0);
    }
    cs_trace_free(trace);
}
END_TEST

/** Memory traffic of the block's computing under that label in one layer. */
static double traffic_of(const struct cs_trace *trace, const char *block_name, const char *label)
{
    const struct cs_block *block = workload_block(trace, 0, block_name);
    double bytes = 0;
    for (int32_t i = 0; i < block->n_ops; i++) {
        const struct cs_op *op = &block->ops[i];
        if (op->type == CS_OP_COMPUTE && op->layer == 3 && strcmp(trace->labels[op->label], label) == 0) {
            bytes += trace->costs[op->cost].bytes;
        }
    }
    return bytes;
}

START_TEST(test_permutation)
{
    /* Tokens become rows, tokens x chosen x hidden of them, each read and written with its index (4 bytes);
     * rows are sorted by expert where a rank has several and gets rows of other ranks; and all of it the
     * other way round behind the experts and backward, where the weights' gradient reads the results too
     * (Megatron-LM, token_dispatcher.py: permute, exchange, sort chunks, and back). */
    static const struct {
        const char *strategy;
        bool sorted;
    } rows[] = {{"dp=4", false}, {"dp=4,ep=4", true}, {"dp=16,ep=16", false}};
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    const double n_rows = 1024 * 2;
    const double pass = 2 * n_rows * 512 * 2; /* read and written once, bf16 */
    const double weights = n_rows * 4;
    ck_assert_double_eq_tol(traffic_of(trace, "forward", "moe.dispatch"), pass + n_rows * 4, 0.5);
    ck_assert_double_eq_tol(traffic_of(trace, "backward", "moe.dispatch"), pass + n_rows * 4, 0.5);
    ck_assert_double_eq_tol(traffic_of(trace, "forward", "moe.combine"), pass + n_rows * 4 + weights, 0.5);
    ck_assert_double_eq_tol(traffic_of(trace, "backward", "moe.combine"), 1.5 * pass + n_rows * 4 + weights,
                            0.5);
    const double sort = rows[_i].sorted ? 2 * pass : 0;
    ck_assert_double_eq_tol(traffic_of(trace, "forward", "moe.sort"), sort, 0.5);
    ck_assert_double_eq_tol(traffic_of(trace, "backward", "moe.sort"), sort, 0.5);
    /* Scores are read, their softmax written, that read, weights and choice written; all in fp32. */
    ck_assert_double_eq_tol(traffic_of(trace, "forward", "moe.gate"), 1024 * 4 * 2 * 16, 0.5);
    ck_assert_double_eq_tol(traffic_of(trace, "forward", "moe.topk"), 1024 * 4 * (16 + 2 + 2), 0.5);
    /* Every rank says how many rows it has for each expert. */
    int64_t bytes;
    int32_t n = workload_count(trace, workload_block(trace, 0, "forward"),
                               (struct workload_filter){.label = "moe.counts", .layer = IS(3)}, &bytes);
    const struct cs_strategy s = workload_strategy(rows[_i].strategy);
    ck_assert_int_eq(n, s.ep > 1 ? 1 : 0);
    ck_assert_int_eq(bytes, s.ep > 1 ? s.ep * 16 * 8 : 0);
    cs_trace_free(trace);
}
END_TEST

/** All-to-all bytes of a program: blocking the compute stream, and beside it. Between a launch beside it and
 * the wait for it (in the same order) something is computed, but for `n_bare` of them. */
static void count_exchanges(const struct cs_trace *trace, int32_t program, double bytes[2], int32_t *n_bare)
{
    const struct cs_program *p = &trace->programs[program];
    bytes[0] = bytes[1] = 0;
    *n_bare = 0;
    for (int32_t call = 0; call < p->n_calls; call++) {
        const struct cs_block *block = &trace->blocks[p->calls[call].block];
        int32_t n_computed = 0;
        int32_t n_launched = 0;
        int32_t n_awaited = 0;
        int32_t computed_at[1024];
        for (int32_t i = 0; i < block->n_ops; i++) {
            const struct cs_op *op = &block->ops[i];
            const bool aside = op->stream != CS_STREAM_COMPUTE;
            n_computed += op->type == CS_OP_COMPUTE;
            if (op->type == CS_OP_COLLECTIVE && op->coll == CS_COLL_ALL_TO_ALL) {
                bytes[aside] += (double)op->bytes;
                ck_assert_int_lt(n_launched, 1024);
                computed_at[n_launched] = n_computed;
                n_launched += aside;
            } else if (op->type == CS_OP_WAIT && !aside &&
                       strcmp(trace->event_names[op->comm], "ep done") == 0) {
                *n_bare += computed_at[n_awaited++] == n_computed;
            }
        }
        ck_assert_int_eq(n_awaited, n_launched);
    }
}

START_TEST(test_both_directions)
{
    /* DualPipe hides the experts' exchange of one direction under the other's computing: as many bytes as
     * 1F1B moves, those of joined passes beside the compute stream. Stage 0 of 4 with 16 micro-batches joins
     * 2 (8 - 4 + 1) in the steady phase and one behind it, the middle 2 (8 - 4 + 2) less the first. */
    struct cs_model model = workload_moe(12, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    double bytes[2];
    double plain[2];
    int32_t n_bare;
    struct cs_trace *trace = workload_trace(&model, &training, "dp=4,pp=4,ep=4");
    count_exchanges(trace, 1, plain, &n_bare);
    ck_assert(plain[0] > 0 && plain[1] <= 0);
    cs_trace_free(trace);
    trace = workload_trace(&model, &training, "dp=4,pp=4,ep=4,schedule=dualpipe");
    /* Stages 1 and 2 hold the same three layers each way, all of experts. */
    count_exchanges(trace, 1, bytes, &n_bare);
    ck_assert_double_eq_tol((bytes[0] + bytes[1]) / plain[0], 1.0, 1e-12);
    ck_assert_double_eq_tol(bytes[1] / plain[0], (2.0 * (8 - 4 + 2) - 1) / 16, 1e-12);
    ck_assert_int_eq(n_bare, 0);
    cs_trace_free(trace);
    /* Neither gathered weights, nor copies to the host, nor tensor-parallel communication beside computing
     * are in the way. */
    static const char *const others[] = {
        "dp=4,pp=4,ep=4,schedule=dualpipe,op=4,zero=2", "dp=4,pp=4,ep=4,schedule=dualpipe,op=4,zero=3",
        "dp=4,pp=4,ep=4,schedule=dualpipe,swap_activations=true",
        "dp=4,pp=4,ep=4,schedule=dualpipe,op=4,zero=3,swap_activations=true,recompute=full"};
    for (int32_t i = 0; i < CS_COUNT(others); i++) {
        trace = workload_trace(&model, &training, others[i]);
        count_exchanges(trace, 1, bytes, &n_bare);
        /* Full recomputation: two more exchanges backward, so six instead of four in all. */
        const double all = i == 3 ? 1.5 : 1;
        ck_assert_double_eq_tol((bytes[0] + bytes[1]) / plain[0], all, 1e-12);
        ck_assert_double_eq_tol(bytes[1] / plain[0], all * (2.0 * (8 - 4 + 2) - 1) / 16, 1e-12);
        cs_trace_free(trace);
    }
    static const char *const cut[] = {"dp=4,mp=2,sp=true,pp=4,ep=4,schedule=dualpipe",
                                      "dp=4,mp=2,sp=true,pp=4,ep=4,schedule=dualpipe,fused_tp=true",
                                      "dp=4,mp=2,sp=true,pp=4,ep=4,schedule=dualpipe,half_batches=2"};
    double beside[3];
    for (int32_t i = 0; i < CS_COUNT(cut); i++) {
        trace = workload_trace(&model, &training, cut[i]);
        count_exchanges(trace, 1, bytes, &n_bare);
        beside[i] = bytes[1] / (bytes[0] + bytes[1]);
        cs_trace_free(trace);
    }
    ck_assert_double_gt(beside[0], 0.5);
    ck_assert_double_eq_tol(beside[1], beside[0], 1e-9);
    ck_assert_double_eq_tol(beside[2], beside[0], 1e-6); /* halves are rounded up */
}
END_TEST

START_TEST(test_parts)
{
    /* Closed forms ask for the parts of strategies that they do not cover, too: two measured mixtures of
     * experts (Grok-1 on 32 devices in virtual stages, Mixtral under MindFormers) once ended the program
     * there. */
    static const char *const rows[] = {"dp=2,mp=8,pp=2,vpp=2,schedule=interleaved,sp=true,op=2",
                                       "dp=8,pp=2,ep=8,op=8,recompute=full",
                                       "dp=4,pp=4,ep=4,schedule=dualpipe"};
    struct cs_model model = workload_moe(8, false);
    struct cs_training training = workload_training(&model, 64, 1024);
    struct cs_strategy strategy = workload_strategy(rows[_i]);
    struct cs_segments_cost segments;
    struct cs_stages_cost stages;
    cs_segments_cost_build(&segments, &model, &training, &strategy);
    cs_stages_cost_build(&stages, &model, &training, &strategy);
    ck_assert_int_eq(stages.n_stages, strategy.pp);
    double flop = 0;
    for (int32_t i = 0; i < segments.n_segments; i++) {
        for (int32_t k = 0; k < segments.segments[i].forward.n; k++) {
            flop += segments.segments[i].forward.ops[k].cost.flop;
        }
    }
    ck_assert(flop > 0);
    cs_segments_cost_release(&segments);
    cs_stages_cost_release(&stages);
}
END_TEST

START_TEST(test_expert_parts)
{
    /* Experts over mp: each is in mp parts, with dp * cp / ep copies of each part, so that the ranks hold as
     * much as with dp * cp / ep copies of whole experts. Rows are gathered over mp behind the exchange and
     * their results scattered before it (Megatron-LM, token_dispatcher.py), and backward likewise. */
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 16, 1024);
    static const char *const strategies[] = {
        "dp=4,mp=2,sp=true,expert_mp=true", "dp=4,mp=2,sp=true,expert_mp=true,ep=4",
        "dp=4,mp=2,sp=true,expert_mp=true,op=2", "dp=4,mp=2,sp=true,expert_mp=true,ep=2,op=2"};
    double state[4];
    for (int32_t i = 0; i < 4; i++) {
        struct cs_trace *trace = workload_trace(&model, &training, strategies[i]);
        state[i] = state_of_ranks(trace);
        for (int32_t k = 0; k < 8; k++) {
            const bool backward = k & 1;
            const bool gather = k & 2;
            const char *label = k & 4 ? "moe.gate_up" : "moe.down";
            int64_t bytes;
            int32_t n = workload_count(
                trace, workload_block(trace, 0, backward ? "backward" : "forward"),
                (struct workload_filter){.coll = IS(gather ? CS_COLL_ALL_GATHER : CS_COLL_REDUCE_SCATTER),
                                         .comm = "tp",
                                         .layer = IS(3),
                                         .label = label},
                &bytes);
            /* Gathered rows are kept: nothing is gathered again for the weights' gradients. */
            const bool wanted = (k & 4 ? gather : !gather) != backward;
            ck_assert_int_eq(n, wanted);
            ck_assert_int_eq(bytes, wanted ? 1024 * 2 * 512 * 2 : 0);
        }
        cs_trace_free(trace);
    }
    const double experts = expert_params(&model);
    ck_assert_double_eq_tol(state[0] - state[1], 18 * experts * (4 - 1), 0.5);
    ck_assert_double_eq_tol(state[2] - state[3], 6 * experts * (4 - 2) + 12 * experts * (2 - 1), 0.5);
}
END_TEST

START_TEST(test_expert_gradients)
{
    /* Reduced over the copies of the experts, not over dp. */
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 8, 1024);
    struct cs_trace *trace = workload_trace(&model, &training, "dp=8,ep=4");
    int64_t bytes;
    workload_count(trace, workload_block(trace, 0, "backward (last)"),
                   (struct workload_filter){.comm = "expert-dp"}, &bytes);
    ck_assert_int_eq(bytes, (int64_t)(expert_params(&model) / 4 * 4));
    for (int32_t c = 0; c < trace->n_comms; c++) {
        const struct cs_comm *comm = &trace->comms[c];
        if (strcmp(comm->name, "expert-dp") == 0) {
            ck_assert_int_eq(comm->n_groups, 4);
            ck_assert_int_eq(comm->members[1] - comm->members[0], 4);
        } else if (strcmp(comm->name, "ep") == 0) {
            ck_assert_int_eq(comm->n_groups, 2);
            ck_assert_int_eq(comm->members[1] - comm->members[0], 1);
        }
    }
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_capacity)
{
    /* Rows are multiplied by the capacity factor, model flops are not. */
    struct cs_model model = workload_moe(4, false);
    struct cs_training training = workload_training(&model, 8, 1024);
    int64_t bytes[2];
    double flop[2];
    for (int32_t i = 0; i < 2; i++) {
        model.capacity_factor = i == 0 ? 0 : 1.5;
        struct cs_trace *trace = workload_trace(&model, &training, "dp=4,ep=4");
        workload_count(trace, workload_block(trace, 0, "forward"),
                       (struct workload_filter){.coll = IS(CS_COLL_ALL_TO_ALL), .comm = "ep"}, &bytes[i]);
        flop[i] = trace->model_flop;
        cs_trace_free(trace);
    }
    ck_assert_int_eq(bytes[1], bytes[0] * 3 / 2);
    ck_assert(flop[0] == flop[1]);
}
END_TEST

START_TEST(test_deepseek)
{
    /* DeepSeek-V3, arXiv 2412.19437: 671 billion parameters, 37 active; 14 more for multi-token prediction of
     * which 2 * 0.93 are the shared embedding and head. */
    struct cs_model model = workload_model("deepseek-v3");
    ck_assert_double_eq_tol((double)cs_model_params(&model) / 671.03e9, 1.0, 1e-4);
    ck_assert_double_eq_tol((double)cs_model_active_params(&model) / 37e9, 1.0, 0.02);
    double mtp = (double)(cs_model_trained_params(&model) - cs_model_params(&model));
    ck_assert_double_eq_tol((mtp + 2.0 * 129280 * 7168) / 14e9, 1.0, 0.05);
    /* Forward work of a token: twice the parameters that multiply it, and attention s (192 + 128) 128 heads.
     */
    double s = 4096;
    model.n_mtp_layers = 0;
    double norms = 61.0 * (2 * 7168 + 1536 + 512) + 7168;
    double multiplied = (double)cs_model_active_params(&model) - 129280.0 * 7168 - norms;
    double want = 6 * multiplied + 6.0 * s * (192 + 128) * 128 * 61;
    ck_assert_double_eq_tol(cs_model_step_flop(&model, s, 4096) / s / want, 1.0, 1e-6);
    cs_model_release(&model);
}
END_TEST

START_TEST(test_latent_flash)
{
    /* The fused core: half of q k (width k) and of the weights times v (width v) forward, three and two of
     * them backward; everything else as without it. */
    struct cs_model model = workload_moe(6, true);
    struct cs_training training = workload_training(&model, 4, 1024);
    struct cs_trace_totals totals[2];
    for (int32_t flash = 0; flash < 2; flash++) {
        training.flash_attention = flash == 1;
        struct cs_trace *trace = workload_trace(&model, &training, "dp=1");
        trace->attention_frac = 0; /* the work that is done, not what model flops count */
        cs_trace_program_totals(trace, 0, &totals[flash]);
        cs_trace_free(trace);
    }
    const double k = 48;
    const double v = 32;
    const double square =
        2.0 * 1024 * 1024 * 16 * 4 * 7; /* per width: heads, sequences, layers and the module */
    ck_assert_double_eq_tol(totals[0].compute_flop - totals[1].compute_flop,
                            square * (3 * (k + v) - 0.5 * (k + v) - 0.5 * (3 * k + 2 * v)),
                            1e-9 * totals[0].compute_flop);
}
END_TEST

START_TEST(test_mixtral)
{
    struct cs_model model = workload_model("mixtral-8x7b");
    ck_assert_int_eq(cs_model_params(&model), INT64_C(46702792704));
    ck_assert_double_eq_tol((double)cs_model_active_params(&model) / 12.88e9, 1.0, 1e-3);
    cs_model_release(&model);
}
END_TEST

START_TEST(test_ring)
{
    /* cp - 1 hops of keys and values forward; backward cp - 1 of them and cp of their gradients. */
    struct cs_model model = workload_model("llama3-8b");
    model.n_layers = 2;
    struct cs_training training = workload_training(&model, 8, 8192);
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2,cp=4");
    const int64_t pair = 2 * 8192 / 4 * 8 * 128 * 2;
    int64_t bytes;
    int32_t n = workload_count(trace, workload_block(trace, 0, "forward"),
                               (struct workload_filter){.type = IS(CS_OP_SEND), .layer = IS(1)}, &bytes);
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(bytes, 3 * pair);
    workload_count(trace, workload_block(trace, 0, "backward"),
                   (struct workload_filter){.type = IS(CS_OP_SEND), .layer = IS(1)}, &bytes);
    ck_assert_int_eq(bytes, (3 + 4) * pair);
    /* The work of attention is shared out evenly: as much as on one rank, in total. */
    struct cs_trace *one = workload_trace(&model, &training, "dp=2");
    struct cs_trace_totals totals[2];
    cs_trace_program_totals(trace, 0, &totals[0]);
    cs_trace_program_totals(one, 0, &totals[1]);
    ck_assert_double_eq_tol(totals[0].compute_flop * 4 / totals[1].compute_flop, 1.0, 1e-12);
    /* Parameters are copies along cp: gradients are reduced over dp * cp. */
    n = workload_count(trace, workload_block(trace, 0, "backward (last)"),
                       (struct workload_filter){.comm = "dp"}, &bytes);
    ck_assert_int_eq(bytes, 4 * cs_model_params(&model));
    cs_trace_free(trace);
    cs_trace_free(one);
    cs_model_release(&model);
}
END_TEST

/** All-to-alls of layer 1 over the context-parallel ranks; their bytes. */
static int32_t exchanges(const struct cs_trace *trace, const char *block, int64_t *bytes)
{
    return workload_count(
        trace, workload_block(trace, 0, block),
        (struct workload_filter){.coll = IS(CS_COLL_ALL_TO_ALL), .comm = "cp", .layer = IS(1)}, bytes);
}

START_TEST(test_ulysses)
{
    /* q, k, v to heads and the result back: four exchanges of one rank's part (k and v of 8 heads, q and the
     * result of 32), and backward as many of their gradients: DeepSpeed-Ulysses (arXiv 2309.14509, section
     * 3.2) has 3 N h / P and N h / P each way. Attention keeps its result, the projection its operand. */
    struct cs_model model = workload_model("llama3-8b");
    model.n_layers = 2;
    struct cs_training training = workload_training(&model, 8, 8192);
    const int64_t head = 8192 / 4 * 128 * 2;
    static const char *const strategies[] = {"dp=2,cp=4,cp_kind=ulysses",
                                             "dp=2,cp=4,cp_kind=ulysses,recompute=selective"};
    int64_t bytes;
    for (int32_t i = 0; i < 2; i++) {
        struct cs_trace *trace = workload_trace(&model, &training, strategies[i]);
        for (int32_t backward = 0; backward < 2; backward++) {
            ck_assert_int_eq(exchanges(trace, backward ? "backward" : "forward", &bytes), 4);
            ck_assert_int_eq(bytes, (2 * 32 + 2 * 8) * head);
        }
        cs_trace_free(trace);
    }
    /* Full recomputation runs the forward pass' four again. */
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2,cp=4,cp_kind=ulysses,recompute=full");
    ck_assert_int_eq(exchanges(trace, "backward", &bytes), 8);
    cs_trace_free(trace);
    /* A step at a time, the weight gradients of split schedules have nothing to fetch. */
    trace = workload_trace(&model, &training, "pp=2,cp=4,cp_kind=ulysses,schedule=zero-bubble");
    int64_t split = 0;
    int32_t n_weight = 0;
    for (int32_t i = 0; i < trace->n_blocks; i++) {
        const bool weight = strncmp(trace->blocks[i].name, "weight", 6) == 0;
        n_weight += weight;
        split += weight ? workload_count(trace, &trace->blocks[i],
                                         (struct workload_filter){.type = IS(CS_OP_COLLECTIVE), .comm = "cp"},
                                         &bytes)
                        : 0;
    }
    ck_assert_int_gt(n_weight, 0);
    ck_assert_int_eq(split, 0);
    cs_trace_free(trace);
    /* As many key-value heads as query heads: 4 s h / cp elements forward. */
    model.n_kv_heads = model.n_heads;
    trace = workload_trace(&model, &training, "dp=2,cp=4,cp_kind=ulysses");
    (void)exchanges(trace, "backward", &bytes);
    ck_assert_int_eq(bytes, 4 * 8192 / 4 * 4096 * 2);
    cs_trace_free(trace);
    model.n_kv_heads = 8;
    /* Fewer key-value heads than ranks: each rank gets a copy of one, as if there were a head for each. */
    trace = workload_trace(&model, &training, "cp=16,cp_kind=ulysses");
    for (int32_t backward = 0; backward < 2; backward++) {
        ck_assert_int_eq(exchanges(trace, backward ? "backward" : "forward", &bytes), 4);
        ck_assert_int_eq(bytes, (2 * 32 + 2 * 16) * (head / 4));
    }
    cs_trace_free(trace);
    cs_model_release(&model);
}
END_TEST

START_TEST(test_rules)
{
    static const struct {
        bool moe;
        const char *strategy, *rule;
    } rows[] = {
        {true, "dp=4,mp=2,ep=8", "experts-need-sp"},
        {true, "dp=4,mp=2,sp=true,ep=8", NULL},
        {true, "dp=4,mp=2,ep=4,expert_mp=true", NULL},
        {true, "dp=4,mp=2,ep=8,expert_mp=true", "ep-fits"},
        {false, "dp=4,mp=2,expert_mp=true", "ep-fits"},
        {true, "dp=6,ep=3", "ep-fits"},
        {true, "dp=2,ep=16", "ep-fits"},
        {false, "dp=4,ep=4", "ep-fits"},
        {false, "cp=3", "cp-fits"},
        {false, "cp=64,cp_kind=ulysses", "ulysses-heads"},
        {false, "cp=16,cp_kind=ulysses", NULL},
        {false, "cp=8,cp_kind=ulysses", NULL},
        {false, "cp=4,mp=2,sp=true", NULL},
    };
    struct cs_model model = rows[_i].moe ? workload_moe(10, false) : workload_model("llama3-8b");
    struct cs_training training = workload_training(&model, 48, 1024);
    struct cs_strategy s = workload_strategy(rows[_i].strategy);
    struct cs_cluster_shape shape = {.n_devices = s.dp * s.mp * s.cp * s.pp, .devices_per_node = 8};
    char why[256];
    const char *rule = cs_strategy_check(&s, &model, &training, &shape, why, sizeof why);
    ck_assert_msg((rule == NULL) == (rows[_i].rule == NULL) &&
                      (rule == NULL || strcmp(rule, rows[_i].rule) == 0),
                  "%s: %s (%s)", rows[_i].strategy, rule ? rule : "fits", why);
    cs_model_release(&model);
}
END_TEST

static Suite *moe_suite(void)
{
    Suite *suite = suite_create("experts");
    TCase *c = tcase_create("experts");
    tcase_add_loop_test(c, test_state, 0, 7);
    tcase_add_test(c, test_state_zero3);
    tcase_add_loop_test(c, test_norm_group, 0, 10);
    tcase_add_loop_test(c, test_exchange, 0, 3);
    tcase_add_loop_test(c, test_permutation, 0, 3);
    tcase_add_test(c, test_both_directions);
    tcase_add_loop_test(c, test_parts, 0, 3);
    tcase_add_test(c, test_expert_parts);
    tcase_add_test(c, test_expert_gradients);
    tcase_add_test(c, test_capacity);
    tcase_add_test(c, test_deepseek);
    tcase_add_test(c, test_mixtral);
    tcase_add_test(c, test_latent_flash);
    suite_add_tcase(suite, c);
    TCase *context = tcase_create("context");
    tcase_add_test(context, test_ring);
    tcase_add_test(context, test_ulysses);
    tcase_add_loop_test(context, test_rules, 0, 13);
    suite_add_tcase(suite, context);
    return suite;
}

CS_TEST_MAIN(moe_suite)
