/* Traces: communication that follows from layouts, schedules, optimizer sharding, memory, completeness. */
#include "cs_test.h"
#include "workload_fixture.h"

#include <stdio.h>

static struct cs_model model;
static struct cs_training training;

static void setup(void)
{
    model = workload_model("llama3-8b");
    training = workload_training(&model, 64, 4096);
}

static void teardown(void)
{
    cs_model_release(&model);
}

static void expect(const struct cs_trace *trace, const char *block, enum cs_phase phase, enum cs_coll coll,
                   const char *label, int32_t n, int64_t each_bytes)
{
    int64_t bytes;
    int32_t got = workload_count(trace, workload_block(trace, 0, block),
                                 (struct workload_filter){.type = IS(CS_OP_COLLECTIVE),
                                                          .coll = IS(coll),
                                                          .phase = IS(phase),
                                                          .layer = IS(3),
                                                          .comm = "tp",
                                                          .label = label},
                                 &bytes);
    ck_assert_msg(got == n && bytes == n * each_bytes, "%s, %s of %s: %d of %lld bytes, want %d of %lld",
                  block, cs_coll_names[coll], label ? label : "all", got, (long long)bytes, n,
                  (long long)(n * each_bytes));
}

START_TEST(test_megatron_layer)
{
    /* Shoeybi et al., arXiv 1909.08053, figure 4: two all-reduces of s b h forward, two backward. */
    struct cs_trace *trace = workload_trace(&model, &training, "mp=4,micro_batch=2");
    const int64_t sbh = 4096 * 2 * model.hidden * 2;
    expect(trace, "forward", CS_PHASE_FORWARD, CS_COLL_ALL_REDUCE, "attention.proj", 1, sbh);
    expect(trace, "forward", CS_PHASE_FORWARD, CS_COLL_ALL_REDUCE, "ffn.down", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_REDUCE, "attention.qkv", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_REDUCE, "ffn.gate_up", 1, sbh);
    for (int coll = 0; coll < CS_N_COLLS; coll++) {
        int32_t n = coll == CS_COLL_ALL_REDUCE ? 2 : 0;
        expect(trace, "forward", CS_PHASE_FORWARD, (enum cs_coll)coll, NULL, n, sbh);
        expect(trace, "backward", CS_PHASE_BACKWARD, (enum cs_coll)coll, NULL, n, sbh);
    }
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_sequence_parallel_layer)
{
    /* Korthikanti et al., arXiv 2205.05198, section 4.2.2: all-gather before a column-cut product, reduce-
     * scatter behind a row-cut one; backward the other way round, and once more all-gather for what was kept
     * cut along the sequence. */
    struct cs_trace *trace = workload_trace(&model, &training, "mp=4,micro_batch=2,sp=true");
    const int64_t sbh = 4096 * 2 * model.hidden * 2;
    expect(trace, "forward", CS_PHASE_FORWARD, CS_COLL_ALL_GATHER, "attention.qkv", 1, sbh);
    expect(trace, "forward", CS_PHASE_FORWARD, CS_COLL_REDUCE_SCATTER, "attention.proj", 1, sbh);
    expect(trace, "forward", CS_PHASE_FORWARD, CS_COLL_ALL_GATHER, "ffn.gate_up", 1, sbh);
    expect(trace, "forward", CS_PHASE_FORWARD, CS_COLL_REDUCE_SCATTER, "ffn.down", 1, sbh);
    expect(trace, "forward", CS_PHASE_FORWARD, CS_COLL_ALL_REDUCE, NULL, 0, 0);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_GATHER, "ffn.down", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_GATHER, "attention.proj", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_GATHER, "ffn.gate_up", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_GATHER, "attention.qkv", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_REDUCE_SCATTER, "ffn.gate_up", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_REDUCE_SCATTER, "attention.qkv", 1, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_GATHER, NULL, 4, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_REDUCE_SCATTER, NULL, 2, sbh);
    /* Norm gains see a part of the sequence only: summed once a step. */
    int64_t bytes;
    ck_assert_int_eq(workload_count(trace, workload_block(trace, 0, "epilogue"),
                                    (struct workload_filter){.comm = "tp"}, &bytes),
                     1);
    ck_assert_int_eq(bytes, (2 * model.n_layers + 1) * model.hidden * 4);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_recompute_repeats)
{
    struct cs_trace *trace = workload_trace(&model, &training, "mp=4,micro_batch=2,recompute=full");
    struct cs_trace_totals full;
    struct cs_trace_totals none;
    const int64_t sbh = 4096 * 2 * model.hidden * 2;
    expect(trace, "backward", CS_PHASE_RECOMPUTE, CS_COLL_ALL_REDUCE, NULL, 2, sbh);
    expect(trace, "backward", CS_PHASE_BACKWARD, CS_COLL_ALL_REDUCE, NULL, 2, sbh);
    cs_trace_program_totals(trace, 0, &full);
    cs_trace_free(trace);
    trace = workload_trace(&model, &training, "mp=4,micro_batch=2");
    cs_trace_program_totals(trace, 0, &none);
    ck_assert(none.recompute_flop == 0);
    ck_assert_double_eq_tol((full.compute_flop - full.recompute_flop) / none.compute_flop, 1.0, 1e-12);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_vocabulary_parallel)
{
    struct cs_trace *trace = workload_trace(&model, &training, "mp=4,micro_batch=2");
    const struct cs_block *forward = workload_block(trace, 0, "forward");
    const int64_t sb = 4096 * 2;
    int64_t bytes;
    struct workload_filter filter = {.comm = "tp", .label = "embedding"};
    ck_assert_int_eq(workload_count(trace, forward, filter, &bytes), 1);
    ck_assert_int_eq(bytes, sb * model.hidden * 2);
    filter.label = "loss.maximum";
    ck_assert_int_eq(workload_count(trace, forward, filter, &bytes), 1);
    ck_assert_int_eq(bytes, sb * 4);
    filter.label = "loss.sum";
    ck_assert_int_eq(workload_count(trace, forward, filter, &bytes), 1);
    ck_assert_int_eq(bytes, 2 * sb * 4);
    filter.label = "head";
    ck_assert_int_eq(workload_count(trace, workload_block(trace, 0, "backward"), filter, &bytes), 1);
    ck_assert_int_eq(bytes, sb * model.hidden * 2);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_kv_copies)
{
    /* 8 key-value heads over 32 ranks: four ranks share a head and sum its gradient. */
    struct cs_trace *trace = workload_trace(&model, &training, "mp=32");
    int64_t bytes;
    ck_assert_int_eq(workload_count(trace, workload_block(trace, 0, "epilogue"),
                                    (struct workload_filter){.comm = "tp-copies"}, &bytes),
                     1);
    ck_assert_int_eq(bytes, model.n_layers * 2 * model.hidden * model.head_dim * 4);
    for (int32_t c = 0; c < trace->n_comms; c++) {
        const struct cs_comm *comm = &trace->comms[c];
        if (strcmp(comm->name, "tp-copies") == 0) {
            ck_assert_int_eq(comm->n_groups, 8);
            ck_assert_int_eq(comm->members[comm->group_first[1]], 4);
            ck_assert_int_eq(comm->members[comm->group_first[1] + 3], 7);
        }
    }
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_pipeline_memory)
{
    /* 1F1B keeps min(m, p - i) micro-batches on stage i, GPipe all of them (m). */
    const int32_t p = 4;
    const int32_t m = 16;
    struct cs_training t = workload_training(&model, m, 2048);
    for (int gpipe = 0; gpipe < 2; gpipe++) {
        struct cs_trace *trace =
            workload_trace(&model, &t, gpipe ? "pp=4,schedule=gpipe" : "pp=4,schedule=1f1b");
        for (int32_t stage = 0; stage < p; stage++) {
            struct cs_mem_peak peak;
            int64_t each;
            cs_trace_memory(trace, stage, &peak);
            workload_count(trace, workload_block(trace, stage, "forward"),
                           (struct workload_filter){.type = IS(CS_OP_ALLOC), .mem = IS(CS_MEM_ACTIVATIONS)},
                           &each);
            ck_assert_int_eq(peak.by_category_bytes[CS_MEM_ACTIVATIONS], (gpipe ? m : p - stage) * each);
            ck_assert(peak.final_bytes == (int64_t)trace->programs[stage].state_bytes);
            int64_t sum = 0;
            for (int c = 0; c < CS_N_MEMS; c++) {
                sum += peak.by_category_bytes[c];
            }
            ck_assert_int_eq(sum, peak.total_bytes);
        }
        cs_trace_free(trace);
    }
}
END_TEST

START_TEST(test_uneven_stages)
{
    /* 32 layers on 5 stages: 6 each, the two that are left go to stages 1 and 2. */
    static const int32_t want[] = {6, 7, 7, 6, 6};
    struct cs_training t = workload_training(&model, 8, 2048);
    struct cs_trace *trace = workload_trace(&model, &t, "pp=5");
    for (int32_t stage = 0; stage < 5; stage++) {
        ck_assert_int_eq(
            workload_count(trace, workload_block(trace, stage, "forward"),
                           (struct workload_filter){.type = IS(CS_OP_COMPUTE), .label = "attention.qkv"},
                           NULL),
            want[stage]);
    }
    cs_trace_free(trace);
}
END_TEST

/** Collectives of a whole program of that kind in a group: how many, and their bytes. */
static int64_t step_count(const struct cs_trace *trace, const char *comm, enum cs_coll coll, int64_t *bytes)
{
    const struct cs_program *p = &trace->programs[0];
    int64_t n = 0;
    *bytes = 0;
    for (int32_t call = 0; call < p->n_calls; call++) {
        int64_t of_call;
        n += workload_count(trace, &trace->blocks[p->calls[call].block],
                            (struct workload_filter){.comm = comm, .coll = IS(coll)}, &of_call);
        *bytes += of_call;
    }
    return n;
}

START_TEST(test_gradient_reduction)
{
    const int64_t n = cs_model_params(&model);
    const int64_t m = 8; /* micro-batches */
    static const struct {
        const char *strategy;
        int32_t copies;       /* ranks of the optimizer group */
        bool reduce, scatter; /* what is expected */
        bool every;           /* scattered in every micro-batch */
        int gathers;          /* of all weights, in a step */
    } rows[] = {
        {"dp=8", 1, true, false, false, 0},           {"dp=8,op=8", 8, false, true, false, 1},
        {"dp=8,op=2", 2, true, true, false, 1},       {"dp=8,op=8,zero=2", 8, false, true, true, 1},
        {"dp=8,op=2,zero=2", 2, true, true, true, 1}, {"dp=8,op=8,zero=3", 8, false, true, true, 16},
    };
    bool whole = strstr(rows[_i].strategy, "op=8") != NULL;
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    int64_t bytes;
    int64_t padding = 64 * 8 * 4 * m; /* shards round up */
    int64_t count = step_count(trace, rows[_i].copies == 1 ? "dp" : "dpx", CS_COLL_ALL_REDUCE, &bytes);
    ck_assert_int_eq(count > 0, rows[_i].reduce);
    if (rows[_i].reduce) {
        ck_assert_int_ge(bytes, 4 * n / rows[_i].copies);
        ck_assert_int_le(bytes, 4 * n / rows[_i].copies + padding);
    }
    const char *op = whole ? "dp" : "op";
    count = step_count(trace, op, CS_COLL_REDUCE_SCATTER, &bytes);
    ck_assert_int_eq(count > 0, rows[_i].scatter);
    ck_assert_int_ge(bytes, rows[_i].scatter ? 4 * n * (rows[_i].every ? m : 1) : 0);
    ck_assert_int_le(bytes, rows[_i].scatter ? 4 * n * (rows[_i].every ? m : 1) + padding : 0);
    (void)step_count(trace, rows[_i].gathers > 1 ? "gather" : op, CS_COLL_ALL_GATHER, &bytes);
    ck_assert_int_ge(bytes, 2 * n * rows[_i].gathers);
    ck_assert_int_le(bytes, 2 * n * rows[_i].gathers + padding * 16);
    cs_trace_free(trace);
}
END_TEST

/** Gathered weights of a stage: how many in a step, and the most held in communication buffers. */
static void gathered(const char *strategy, int32_t stage, int64_t *step_bytes, struct cs_mem_peak *peak)
{
    struct cs_trace *trace = workload_trace(&model, &training, strategy);
    const struct cs_program *p = &trace->programs[stage];
    *step_bytes = 0;
    for (int32_t call = 0; call < p->n_calls; call++) {
        int64_t of_call;
        (void)workload_count(trace, &trace->blocks[p->calls[call].block],
                             (struct workload_filter){.comm = "gather"}, &of_call);
        *step_bytes += of_call;
    }
    cs_trace_memory(trace, stage, peak);
    cs_trace_free(trace);
}

/* Zero 3 with weights that stay gathered: a forward pass gathers what none in flight has gathered, and no
 * backward pass does. The price is all weights of the stage where those of the head or last layer and of one
 * layer ahead were held at the peak, which is where the first backward pass begins. */
START_TEST(test_kept_weights)
{
    static const struct {
        const char *strategy;
        int32_t stage;
        int32_t gathers; /* of all its weights in a step of 8 micro-batches; 16 when they are not kept */
    } rows[] = {{"dp=8,op=8,zero=3", 0, 8},
                {"dp=8,op=8,zero=3,recompute=full", 0, 8},
                {"dp=8,op=8,zero=3,pp=2", 0, 1}, /* one is always in flight */
                {"dp=8,op=8,zero=3,pp=2", 1, 8},
                {"dp=8,op=8,zero=3,pp=2,schedule=gpipe", 1, 1},
                {"dp=8,op=8,zero=3,pp=2,schedule=zero-bubble", 1, 8},
                {"dp=8,op=8,zero=3,swap_activations=true", 0, 8}};
    const int64_t elt = 2;
    const int64_t n = cs_model_params(&model);
    const int64_t head = model.vocab * model.hidden + model.hidden;
    struct cs_model longer = model;
    longer.n_layers++;
    const int64_t layer = cs_model_params(&longer) - n;
    struct cs_mem_peak dropped;
    struct cs_mem_peak kept;
    int64_t dropped_bytes;
    int64_t kept_bytes;
    char text[128];
    (void)snprintf(text, sizeof text, "%s,keep_weights=true", rows[_i].strategy);
    gathered(rows[_i].strategy, rows[_i].stage, &dropped_bytes, &dropped);
    gathered(text, rows[_i].stage, &kept_bytes, &kept);
    ck_assert_int_eq(kept_bytes * 16, dropped_bytes * rows[_i].gathers);
    const int64_t weights = dropped_bytes / 16;
    ck_assert_int_gt(weights, 0);
    ck_assert_int_gt(kept.total_bytes, dropped.total_bytes);
    ck_assert_int_le(kept.total_bytes - dropped.total_bytes, weights);
    if (strstr(rows[_i].strategy, "pp=") == NULL) {
        ck_assert_int_eq(weights, n * elt); /* 8 divides every part: no padding */
        ck_assert_int_eq(kept.total_bytes - dropped.total_bytes, weights - (head + layer) * elt);
    }
}
END_TEST

START_TEST(test_state_bytes)
{
    /* Mixed precision AdamW, Rajbhandari et al., arXiv 1910.02054, section 3.1, with fp32 gradients: 2 + 4 +
     * 12 bytes a parameter; zero 1 shares out the 12, zero 2 the 4 too, zero 3 everything. */
    const double n = (double)cs_model_params(&model);
    static const struct {
        const char *strategy;
        double bytes_per_param;
    } rows[] = {{"dp=8", 18},
                {"dp=8,op=8", 6 + 12.0 / 8},
                {"dp=8,op=4", 6 + 12.0 / 4},
                {"dp=8,op=8,zero=2", 2 + 16.0 / 8},
                {"dp=8,op=8,zero=3", 18.0 / 8}};
    struct cs_trace *trace = workload_trace(&model, &training, rows[_i].strategy);
    double got = trace->programs[0].state_bytes / n;
    ck_assert_double_eq_tol(got, rows[_i].bytes_per_param, 1e-6);
    ck_assert_double_eq_tol(trace->model_state_bytes, 18 * n, 1.0);
    ck_assert_double_eq_tol(trace->cluster_state_bytes, 8 * rows[_i].bytes_per_param * n, 1.0);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_first_forward_waits)
{
    /* With sharded states the first micro-batch waits for its gathered weights, later ones do not. */
    struct cs_trace *trace = workload_trace(&model, &training, "dp=8,op=8");
    const struct workload_filter waits = {.type = IS(CS_OP_WAIT)};
    const struct workload_filter records = {.type = IS(CS_OP_RECORD)};
    int32_t n = workload_count(trace, workload_block(trace, 0, "forward (first)"), waits, NULL);
    ck_assert_int_gt(n, 1);
    ck_assert_int_eq(n, workload_count(trace, workload_block(trace, 0, "prologue"), records, NULL));
    ck_assert_int_eq(workload_count(trace, workload_block(trace, 0, "forward"), waits, NULL), 0);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_pipeline_messages)
{
    const int64_t sbh = 4096 * model.hidden * 2;
    struct cs_trace *trace = workload_trace(&model, &training, "pp=4,mp=2,sp=true");
    struct cs_trace_totals totals;
    for (int32_t stage = 0; stage < 4; stage++) {
        cs_trace_program_totals(trace, stage, &totals);
        int directions = (stage > 0) + (stage < 3);
        ck_assert_double_eq_tol(totals.send_bytes, (double)(64 * directions * sbh / 2), 0.5);
    }
    ck_assert_int_eq(trace->n_chans, 2);
    ck_assert_int_eq(trace->chans[0].peer[1], 3);
    ck_assert_int_eq(trace->chans[0].peer[7], -1);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_tied_embedding)
{
    struct cs_model gpt = workload_gpt(4, 1024, 16, 51200);
    struct cs_training t = workload_training(&gpt, 8, 1024);
    struct cs_trace *trace = workload_trace(&gpt, &t, "pp=4,mp=2");
    int64_t bytes;
    for (int32_t stage = 0; stage < 4; stage++) {
        int32_t n = workload_count(trace, workload_block(trace, stage, "epilogue"),
                                   (struct workload_filter){.comm = "embedding"}, &bytes);
        ck_assert_int_eq(n, stage == 0 || stage == 3);
        ck_assert_int_eq(bytes, n * 51200 * 1024 / 2 * 4);
    }
    cs_trace_free(trace);
    trace = workload_trace(&gpt, &t, "mp=2");
    double copies = trace->programs[0].state_bytes * 2 - trace->model_state_bytes;
    /* Norms, row-cut biases and positions are on both tensor-parallel ranks; the vocabulary matrix is not. */
    ck_assert_double_eq_tol(copies, 18.0 * (4 * 6 + 2 + 4096.0) * 1024, 1.0);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_flop_conserved)
{
    /* Without fused attention every product is counted in full: the ranks' sum is the model's work. */
    static const char *const rows[] = {"dp=2,mp=2,pp=2", "dp=4,op=4,zero=3,recompute=full", "mp=8,sp=true",
                                       "pp=8,recompute=selective", "dp=2,mp=4,pp=4,micro_batch=2"};
    struct cs_training t = training;
    t.flash_attention = false;
    struct cs_trace *trace = workload_trace(&model, &t, rows[_i]);
    double flop = 0;
    for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
        struct cs_trace_totals totals;
        cs_trace_program_totals(trace, trace->program_of_rank[rank], &totals);
        flop += totals.compute_flop - totals.recompute_flop;
    }
    ck_assert_double_eq_tol(flop / trace->model_flop, 1.0, 1e-12);
    cs_trace_free(trace);
}
END_TEST

START_TEST(test_recompute_convention)
{
    /* HFU and MFU count by one convention: what recomputation repeats is the layers' forward pass in full,
     * with a fused kernel that skips what the mask hides as without one. */
    static const char *const rows[] = {"mp=4,micro_batch=2,recompute=full", "cp=2,mp=2,recompute=full",
                                       "pp=2,schedule=seqpipe,seq_split=4,recompute=full",
                                       "cp=2,cp_kind=ulysses,recompute=full"};
    double layers[2];
    for (int32_t flash = 0; flash < 2; flash++) {
        struct cs_training t = training;
        t.flash_attention = flash == 1;
        struct cs_trace *trace = workload_trace(&model, &t, flash ? rows[_i] : "mp=4,recompute=full");
        ck_assert_double_eq(trace->attention_frac, 0.5);
        layers[flash] = 0;
        for (int32_t rank = 0; rank < trace->n_ranks; rank++) {
            struct cs_trace_totals totals;
            cs_trace_program_totals(trace, trace->program_of_rank[rank], &totals);
            layers[flash] += totals.recompute_flop;
        }
        cs_trace_free(trace);
    }
    ck_assert_double_eq_tol(layers[1] / layers[0], 1.0, 1e-12);
    /* A third of what the layers' three passes cost: the head (three products of b s h V) is not run again.
     */
    double head = 3 * 2.0 * (double)training.global_batch * (double)training.seq_length *
                  (double)model.hidden * (double)model.vocab;
    double n_tokens = (double)training.global_batch * (double)training.seq_length;
    double all = cs_model_step_flop(&model, n_tokens, training.seq_length);
    ck_assert_double_eq_tol(layers[0] * 3 / (all - head), 1.0, 1e-12);
}
END_TEST

/* A trace that is broken in one place is refused, and the message names the place. */
static void expect_status(struct cs_trace *trace, cs_status status, const char *part)
{
    struct cs_err err = {0};
    ck_assert_fails(cs_trace_check(trace, &err), &err, status, 0, part);
    cs_trace_free(trace);
}

static void expect_refused(struct cs_trace *trace, const char *part)
{
    expect_status(trace, CS_E_INPUT, part);
}

/** The n-th operation of a type in any block of a program, to be changed. */
static struct cs_op *operation(struct cs_trace *trace, int32_t program, enum cs_op_type type, int32_t n)
{
    for (int32_t call = 0; call < trace->programs[program].n_calls; call++) {
        struct cs_block *block = &trace->blocks[trace->programs[program].calls[call].block];
        for (int32_t i = 0; i < block->n_ops; i++) {
            if (block->ops[i].type == type && n-- == 0) {
                return &block->ops[i];
            }
        }
    }
    ck_abort_msg("no such operation");
    return NULL;
}

START_TEST(test_check_form)
{
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    operation(trace, 0, CS_OP_COMPUTE, 3)->cost = 1 << 20;
    expect_refused(trace, "no such cost");
    trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    operation(trace, 0, CS_OP_FREE, 0)->bytes += 1;
    expect_refused(trace, "memory is freed that is not allocated");
    trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    operation(trace, 1, CS_OP_ALLOC, 0)->bytes += 1;
    expect_refused(trace, "program 'stage 1 of 2' ends with");
    trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    trace->comms[0].members[1] = trace->comms[0].members[0];
    expect_refused(trace, "communicator 'tp'");
    trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    trace->chans[0].peer[0] = 5;
    expect_refused(trace, "channel 'pp-forward'");
    trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    trace->programs[1].calls[2].block = trace->n_blocks;
    expect_refused(trace, "no such block");
}
END_TEST

START_TEST(test_check_order)
{
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    operation(trace, 1, CS_OP_RECV, 0)->bytes += 1;
    expect_refused(trace, "'pp-forward': operation number 1 has");
    trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    trace->programs[1].n_calls -= 1; /* no epilogue: the norm's collective is missing */
    expect_refused(trace, "ends with");
    /* Swapping two calls keeps counts but not order: uneven blocks of a communicator of both stages. */
    trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    struct cs_op *norm = operation(trace, 1, CS_OP_COLLECTIVE, 0);
    for (int32_t n = 0; strcmp(trace->comms[norm->comm].name, "norm") != 0; n++) {
        norm = operation(trace, 1, CS_OP_COLLECTIVE, n);
    }
    norm->coll = CS_COLL_ALL_GATHER;
    expect_refused(trace, "'norm': operation number 1");
}
END_TEST

START_TEST(test_check_progress)
{
    /* An event that nobody records. */
    struct cs_trace *trace = workload_trace(&model, &training, "dp=2,mp=2,pp=2");
    struct cs_op *record = operation(trace, 0, CS_OP_RECORD, 0);
    record->type = CS_OP_COMPUTE;
    record->cost = 0;
    expect_status(trace, CS_E_DEADLOCK, "the ranks cannot finish");
    /* Stage 0 wants a gradient before it has sent anything. */
    trace = workload_trace(&model, &training, "pp=2");
    struct cs_program *p = &trace->programs[0];
    for (int32_t i = 1; i < p->n_calls - 1; i++) {
        struct cs_call first = p->calls[1];
        bool backward = strncmp(trace->blocks[p->calls[i].block].name, "backward", 8) == 0;
        if (backward && strncmp(trace->blocks[first.block].name, "forward", 7) == 0) {
            /* Memory has to stay possible: what backward frees is allocated by the forwards before. */
            for (int32_t k = 0; k < trace->n_blocks; k++) {
                for (int32_t o = 0; o < trace->blocks[k].n_ops; o++) {
                    struct cs_op *op = &trace->blocks[k].ops[o];
                    bool activation = op->mem == CS_MEM_ACTIVATIONS;
                    if ((op->type == CS_OP_ALLOC || op->type == CS_OP_FREE) && activation) {
                        op->bytes = 0;
                    }
                }
            }
            p->calls[1] = p->calls[i];
            p->calls[i] = first;
        }
    }
    expect_status(trace, CS_E_DEADLOCK, "waits for rank 1 to send on 'pp-backward'");
}
END_TEST

static Suite *trace_suite(void)
{
    Suite *suite = suite_create("trace");
    TCase *layouts = tcase_create("layouts");
    tcase_add_checked_fixture(layouts, setup, teardown);
    tcase_add_test(layouts, test_megatron_layer);
    tcase_add_test(layouts, test_sequence_parallel_layer);
    tcase_add_test(layouts, test_recompute_repeats);
    tcase_add_test(layouts, test_vocabulary_parallel);
    tcase_add_test(layouts, test_kv_copies);
    tcase_add_loop_test(layouts, test_flop_conserved, 0, 5);
    tcase_add_loop_test(layouts, test_recompute_convention, 0, 4);
    suite_add_tcase(suite, layouts);
    TCase *stages = tcase_create("stages");
    tcase_add_checked_fixture(stages, setup, teardown);
    tcase_add_test(stages, test_pipeline_memory);
    tcase_add_test(stages, test_uneven_stages);
    tcase_add_test(stages, test_pipeline_messages);
    tcase_add_test(stages, test_tied_embedding);
    suite_add_tcase(suite, stages);
    TCase *spread = tcase_create("optimizer");
    tcase_add_checked_fixture(spread, setup, teardown);
    tcase_add_loop_test(spread, test_gradient_reduction, 0, 6);
    tcase_add_loop_test(spread, test_kept_weights, 0, 7);
    tcase_add_loop_test(spread, test_state_bytes, 0, 5);
    tcase_add_test(spread, test_first_forward_waits);
    suite_add_tcase(suite, spread);
    TCase *check = tcase_create("check");
    tcase_add_checked_fixture(check, setup, teardown);
    tcase_add_test(check, test_check_form);
    tcase_add_test(check, test_check_order);
    tcase_add_test(check, test_check_progress);
    suite_add_tcase(suite, check);
    return suite;
}

CS_TEST_MAIN(trace_suite)
