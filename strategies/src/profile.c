/* A folder of profiler output; step_trace_time.csv and communication.json. */
#include "cs/strategies/profile.h"

#include "csv_priv.h"
#include "profile_priv.h"

#include "cs/base/file.h"
#include "cs/base/json.h"
#include "cs/base/text.h"
#include "cs/base/units.h"

#include <math.h>
#include <string.h>

/* Parts of a step may miss its sum by rounding. */
#define SUM_FRAC 1e-3

static cs_status number(const struct cs__csv *csv, int32_t row, const char *column, double *value_s,
                        struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_loc loc = {csv->path, csv->rows[row].line, 0};
    double value_us = 0;
    CS_TRY(cs_real_parse(cs__csv_text(csv, row, column), column, loc, &value_us, err));
    if (!(fabs(value_us) <= 1e15)) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is %g, expected microseconds", column, value_us);
    }
    *value_s = value_us * 1e-6;
out:
    return st;
}

cs_status cs__profile_steps(struct cs_profile *profile, const char *path, struct cs_err *err)
{
    static const char *const columns[] = {
        "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", NULL};
    enum { N_COLUMNS = CS_COUNT(columns) - 1 };
    cs_status st = CS_OK;
    struct cs__csv csv = {0};
    struct cs_profile_step sum = {0};
    CS_TRY(cs__csv_open(&csv, path, columns, err));
    for (int32_t r = 0; r < csv.n_rows; r++) {
        double value_s[N_COLUMNS] = {0};
        double bubble_s = 0;
        for (int32_t c = 0; c < N_COLUMNS; c++) {
            CS_TRY(number(&csv, r, columns[c], &value_s[c], err));
        }
        if (cs__csv_column(&csv, "Bubble") >= 0) {
            CS_TRY(number(&csv, r, "Bubble", &bubble_s, err));
        }
        if (fabs(value_s[1] + value_s[2] - value_s[3]) > SUM_FRAC * fmax(value_s[3], 1e-6)) {
            st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, csv.rows[r].line, 0},
                            "'Communication' is not 'Communication(Not Overlapped)' + 'Overlapped'");
            goto out;
        }
        sum.n++;
        sum.computing_s += value_s[0];
        sum.exposed_s += value_s[1];
        sum.overlapped_s += value_s[2];
        sum.free_s += value_s[4];
        sum.bubble_s += bubble_s;
    }
    if (sum.n == 0) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, 1, 0}, "there is no step");
        goto out;
    }
    double n = (double)sum.n;
    profile->step =
        (struct cs_profile_step){.n = sum.n,
                                 .iteration_s = (sum.computing_s + sum.exposed_s + sum.free_s) / n,
                                 .computing_s = sum.computing_s / n,
                                 .exposed_s = sum.exposed_s / n,
                                 .overlapped_s = sum.overlapped_s / n,
                                 .free_s = sum.free_s / n,
                                 .bubble_s = sum.bubble_s / n};
out:
    cs__csv_release(&csv);
    return st;
}

/* ---- communication.json ---- */

/* Beginnings of operation names. */
static const struct {
    const char *name;
    const char *kind;
} operations[] = {
    {"hcom_allReduce", "all-reduce"},
    {"hcom_allGather", "all-gather"},
    {"hcom_reduceScatter", "reduce-scatter"},
    {"hcom_alltoall", "all-to-all"},
    {"hcom_allToAll", "all-to-all"},
    {"hcom_broadcast", "broadcast"},
    {"hcom_send", "send"},
    {"hcom_receive", "receive"},
    {"hcom_batchSendRecv", "send-receive"},
};

#define COLLECTIVES_MAX 128

static const char *operation_kind(const char *name)
{
    for (int32_t i = 0; i < CS_COUNT(operations); i++) {
        if (strncmp(name, operations[i].name, strlen(operations[i].name)) == 0) {
            return operations[i].kind;
        }
    }
    return NULL; /* among them the sums, "Total Op Info" */
}

/* A number that is not below zero; what is missing is 0. */
static double value_of(const json_t *object, const char *key)
{
    double value = json_number_value(json_object_get(object, key));
    return value > 0 && value < 1e15 ? value : 0;
}

static cs_status add_transport(struct cs_profile *profile, const char *kind, const char *transport,
                               const json_t *figures, struct cs_loc loc, struct cs_err *err)
{
    double megabytes = value_of(figures, "Transit Size(MB)");
    double time_ms = value_of(figures, "Transit Time(ms)");
    struct cs_profile_collective *entry = NULL;
    if (megabytes <= 0 || time_ms <= 0) {
        return CS_OK; /* listed, but not used */
    }
    for (int32_t i = 0; i < profile->n_collectives && !entry; i++) {
        struct cs_profile_collective *c = &profile->collectives[i];
        entry = strcmp(c->kind, kind) == 0 && strcmp(c->transport, transport) == 0 ? c : NULL;
    }
    if (!entry) {
        if (profile->n_collectives == COLLECTIVES_MAX) {
            return cs_err_set(err, CS_E_LIMIT, loc, "more than %d kinds of transports", COLLECTIVES_MAX);
        }
        entry = &profile->collectives[profile->n_collectives++];
        *entry = (struct cs_profile_collective){.kind = kind,
                                                .transport = cs_arena_strdup(&profile->arena, transport)};
    }
    entry->n++;
    entry->bytes += megabytes * 1e6;
    entry->time_s += time_ms * 1e-3;
    entry->bytes_per_s = entry->bytes / entry->time_s;
    return CS_OK;
}

static cs_status add_operation(struct cs_profile *profile, const char *name, const json_t *operation,
                               struct cs_loc loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    const char *kind = operation_kind(name);
    const json_t *times = json_object_get(operation, "Communication Time Info");
    const json_t *transports = json_object_get(operation, "Communication Bandwidth Info");
    const char *transport = NULL;
    json_t *figures = NULL;
    if (!kind) {
        return CS_OK;
    }
    if (!json_is_object(times) || !json_is_object(transports)) {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "'%.80s' has no 'Communication Time Info' and 'Communication Bandwidth Info'",
                          name);
    }
    profile->elapsed_s += value_of(times, "Elapse Time(ms)") * 1e-3;
    profile->wait_s += value_of(times, "Wait Time(ms)") * 1e-3;
    json_object_foreach((json_t *)transports, transport, figures)
    {
        CS_TRY(add_transport(profile, kind, transport, figures, loc, err));
    }
out:
    return st;
}

cs_status cs__profile_communication(struct cs_profile *profile, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_loc loc = {path, 0, 0};
    json_t *root = NULL;
    const char *step_name = NULL;
    const char *class_name = NULL;
    const char *name = NULL;
    json_t *step = NULL;
    json_t *class = NULL;
    json_t *operation = NULL;
    CS_TRY(cs_json_load_file(path, &root, err));
    if (!json_is_object(root)) {
        st = cs_err_set(err, CS_E_INPUT, loc, "expected an object with the steps");
        goto out;
    }
    profile->collectives = CS_ARENA_NEW(&profile->arena, struct cs_profile_collective, COLLECTIVES_MAX);
    json_object_foreach(root, step_name, step)
    {
        json_object_foreach(step, class_name, class)
        {
            json_object_foreach(class, name, operation)
            {
                CS_TRY(add_operation(profile, name, operation, loc, err));
            }
        }
    }
out:
    json_decref(root);
    return st;
}

/* ---- the folder ---- */

cs_status cs_profile_load(struct cs_profile *profile, const char *dir, struct cs_err *err)
{
    static const struct {
        const char *name;
        cs_status (*read)(struct cs_profile *profile, const char *path, struct cs_err *err);
    } files[] = {{"kernel_details.csv", cs__profile_kernels},
                 {"step_trace_time.csv", cs__profile_steps},
                 {"communication.json", cs__profile_communication}};
    cs_status st = CS_OK;
    struct cs_profile read = {0};
    int32_t n = 0;
    const char *inner = cs_path_join(&read.arena, dir, "ASCEND_PROFILER_OUTPUT");
    const char *folder = cs_file_is_dir(inner) ? inner : dir;
    for (int32_t i = 0; i < CS_COUNT(files); i++) {
        const char *path = cs_path_join(&read.arena, folder, files[i].name);
        if (cs_file_is_there(path)) {
            CS_TRY(files[i].read(&read, path, err));
            n++;
        }
    }
    if (n == 0) {
        st = cs_err_set(
            err, CS_E_INPUT, (struct cs_loc){dir, 0, 0},
            "has no profiler output: kernel_details.csv, step_trace_time.csv or communication.json");
        goto out;
    }
    *profile = read;
    read = (struct cs_profile){0};
out:
    cs_profile_release(&read);
    return st;
}

void cs_profile_release(struct cs_profile *profile)
{
    cs_arena_release(&profile->arena);
    *profile = (struct cs_profile){0};
}
