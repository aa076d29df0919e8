#include "trace_equal.h"

#include "cs_test.h"

static void assert_ints_equal(const int32_t *a, const int32_t *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        ck_assert_int_eq(a[i], b[i]);
    }
}

static void assert_names_equal(const char *const *a, const char *const *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        ck_assert_str_eq(a[i], b[i]);
    }
}

static void assert_bits_equal(double a, double b)
{
    ck_assert_msg(memcmp(&a, &b, sizeof a) == 0, "%.17g is not %.17g", a, b);
}

static void assert_costs_equal(const struct cs_op_cost *a, const struct cs_op_cost *b)
{
    ck_assert_int_eq(a->kind, b->kind);
    ck_assert_int_eq(a->dtype, b->dtype);
    assert_bits_equal(a->flop, b->flop);
    assert_bits_equal(a->bytes, b->bytes);
    ck_assert(a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch);
    ck_assert_int_eq(a->n_kernels, b->n_kernels);
    assert_bits_equal(a->fixed_s, b->fixed_s);
}

static void assert_ops_equal(const struct cs_op *a, const struct cs_op *b)
{
    ck_assert(a->type == b->type && a->stream == b->stream && a->comm == b->comm && a->coll == b->coll &&
              a->mem == b->mem && a->phase == b->phase && a->layer == b->layer && a->label == b->label &&
              a->cost == b->cost && a->bytes == b->bytes);
}

static void assert_blocks_equal(const struct cs_block *a, const struct cs_block *b)
{
    ck_assert_str_eq(a->name, b->name);
    ck_assert_int_eq(a->n_ops, b->n_ops);
    for (int32_t i = 0; i < a->n_ops; i++) {
        assert_ops_equal(&a->ops[i], &b->ops[i]);
    }
}

static void assert_programs_equal(const struct cs_program *a, const struct cs_program *b)
{
    ck_assert_str_eq(a->role, b->role);
    ck_assert_int_eq(a->stage, b->stage);
    assert_bits_equal(a->state_bytes, b->state_bytes);
    ck_assert_int_eq(a->n_calls, b->n_calls);
    for (int32_t i = 0; i < a->n_calls; i++) {
        ck_assert_int_eq(a->calls[i].block, b->calls[i].block);
        ck_assert_int_eq(a->calls[i].micro_batch, b->calls[i].micro_batch);
    }
}

static void assert_comms_equal(const struct cs_comm *a, const struct cs_comm *b, int32_t n_ranks)
{
    ck_assert_str_eq(a->name, b->name);
    ck_assert_int_eq(a->stream, b->stream);
    ck_assert_int_eq(a->spans_stages, b->spans_stages);
    ck_assert_int_eq(a->n_groups, b->n_groups);
    assert_ints_equal(a->group_first, b->group_first, a->n_groups + 1);
    assert_ints_equal(a->members, b->members, a->group_first[a->n_groups]);
    assert_ints_equal(a->group_of_rank, b->group_of_rank, n_ranks);
}

void assert_traces_equal(const struct cs_trace *a, const struct cs_trace *b)
{
    ck_assert_int_eq(a->n_ranks, b->n_ranks);
    ck_assert_int_eq(a->n_programs, b->n_programs);
    ck_assert_int_eq(a->n_blocks, b->n_blocks);
    ck_assert_int_eq(a->n_costs, b->n_costs);
    ck_assert_int_eq(a->n_labels, b->n_labels);
    ck_assert_int_eq(a->n_comms, b->n_comms);
    ck_assert_int_eq(a->n_chans, b->n_chans);
    ck_assert_int_eq(a->n_streams, b->n_streams);
    ck_assert_int_eq(a->n_events, b->n_events);
    assert_ints_equal(a->program_of_rank, b->program_of_rank, a->n_ranks);
    for (int32_t i = 0; i < a->n_programs; i++) {
        assert_programs_equal(&a->programs[i], &b->programs[i]);
    }
    for (int32_t i = 0; i < a->n_blocks; i++) {
        assert_blocks_equal(&a->blocks[i], &b->blocks[i]);
    }
    for (int32_t i = 0; i < a->n_costs; i++) {
        assert_costs_equal(&a->costs[i], &b->costs[i]);
    }
    for (int32_t i = 0; i < a->n_comms; i++) {
        assert_comms_equal(&a->comms[i], &b->comms[i], a->n_ranks);
    }
    for (int32_t i = 0; i < a->n_chans; i++) {
        ck_assert_str_eq(a->chans[i].name, b->chans[i].name);
        ck_assert_int_eq(a->chans[i].stream, b->chans[i].stream);
        assert_ints_equal(a->chans[i].peer, b->chans[i].peer, a->n_ranks);
        assert_ints_equal(a->chans[i].source, b->chans[i].source, a->n_ranks);
    }
    assert_names_equal(a->labels, b->labels, a->n_labels);
    assert_names_equal(a->stream_names, b->stream_names, a->n_streams);
    assert_names_equal(a->event_names, b->event_names, a->n_events);
    assert_bits_equal(a->model_flop, b->model_flop);
    assert_bits_equal(a->n_tokens, b->n_tokens);
    assert_bits_equal(a->model_state_bytes, b->model_state_bytes);
    assert_bits_equal(a->cluster_state_bytes, b->cluster_state_bytes);
    assert_bits_equal(a->attention_frac, b->attention_frac);
}
