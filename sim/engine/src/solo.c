#include "cs/engine/engine.h"

#include <string.h>

#define BYTES_MAX 1e15 /* far above any message, far below what an int64 holds */

static cs_status check_members(const struct cs_platform *platform, const int32_t *members, int32_t n,
                               struct cs_err *err)
{
    cs_status st = CS_OK;
    bool *seen = cs_calloc((size_t)platform->n_devices, sizeof *seen);
    if (n < 2) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "a collective needs at least two ranks, found %d", n);
    }
    for (int32_t i = 0; i < n && st == CS_OK; i++) {
        if (members[i] < 0 || members[i] >= platform->n_devices) {
            st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "rank %d is not on '%s': its ranks are 0 to %d",
                            members[i], platform->name, platform->n_devices - 1);
        } else if (seen[members[i]]) {
            st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "rank %d is named twice", members[i]);
        } else {
            seen[members[i]] = true;
        }
    }
    cs_free(seen);
    return st;
}

/* The smallest trace that holds the collective: members call one block with one operation, the others none.
 */
struct solo {
    struct cs_trace trace;
    struct cs_op op;
    struct cs_block block;
    struct cs_call call;
    struct cs_program programs[2];
    struct cs_comm comm;
    int32_t group_first[2];
    const char *label, *stream;
};

static void build(struct solo *solo, enum cs_coll coll, double bytes, const int32_t *members, int32_t n,
                  int32_t n_ranks)
{
    struct cs_trace *t = &solo->trace;
    memset(solo, 0, sizeof *solo);
    solo->op =
        (struct cs_op){.type = CS_OP_COLLECTIVE, .coll = (uint8_t)coll, .layer = -1, .bytes = (int64_t)bytes};
    solo->block = (struct cs_block){cs_coll_names[coll], 1, &solo->op};
    solo->call = (struct cs_call){0, -1};
    solo->programs[0] = (struct cs_program){.role = "member", .n_calls = 1, .calls = &solo->call};
    solo->programs[1] = (struct cs_program){.role = "idle"};
    solo->label = cs_coll_names[coll];
    solo->stream = "compute";
    t->n_ranks = n_ranks;
    t->n_programs = 2;
    t->programs = solo->programs;
    t->program_of_rank = CS_ARENA_NEW(&t->arena, int32_t, n_ranks);
    t->n_blocks = 1;
    t->blocks = &solo->block;
    t->n_labels = 1;
    t->labels = &solo->label;
    t->n_streams = 1;
    t->stream_names = &solo->stream;
    t->n_comms = 1;
    t->comms = &solo->comm;
    solo->group_first[1] = n;
    solo->comm = (struct cs_comm){
        .name = "group",
        .n_groups = 1,
        .group_first = solo->group_first,
        .members = cs_arena_memdup(&t->arena, members, (size_t)n * sizeof *members),
        .group_of_rank = CS_ARENA_NEW(&t->arena, int32_t, n_ranks),
    };
    for (int32_t r = 0; r < n_ranks; r++) {
        t->program_of_rank[r] = 1;
        solo->comm.group_of_rank[r] = -1;
    }
    for (int32_t i = 0; i < n; i++) {
        t->program_of_rank[members[i]] = 0;
        solo->comm.group_of_rank[members[i]] = 0;
    }
}

cs_status cs_engine_collective(struct cs_routes *routes, enum cs_coll coll, double bytes,
                               const int32_t *members, int32_t n_members, enum cs_algorithm algorithm,
                               enum cs_view view, double *time_s, enum cs_algorithm *used, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_platform *platform = cs_routes_platform(routes);
    struct solo solo = {0};
    struct cs_run run = {0};
    struct cs_run_options options;
    CS_TRY(check_members(platform, members, n_members, err));
    if (!(bytes >= 1 && bytes <= BYTES_MAX)) {
        st = cs_err_set(err, CS_E_INPUT, CS_NOLOC, "%g bytes are outside 1 to %g", bytes, BYTES_MAX);
        goto out;
    }
    build(&solo, coll, bytes, members, n_members, platform->n_devices);
    cs_run_options_init(&options);
    options.fidelity = CS_FIDELITY_FULL;
    options.view = view;
    options.algorithm[coll] = algorithm;
    options.simgrid_cfg = cs_routes_simgrid_cfg(routes);
    CS_TRY(cs_engine_run(&solo.trace, routes, &options, &run, err));
    *time_s = run.metrics.iteration_s;
    struct cs_coll_plan plan;
    cs_coll_plan_build(coll, algorithm, platform, members, n_members, bytes, &solo.trace.arena, &plan);
    *used = plan.algorithm;
out:
    cs_arena_release(&solo.trace.arena);
    cs_run_release(&run);
    return st;
}
