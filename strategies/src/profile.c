/* A folder of profiler output; step_trace_time.csv and communication.json. */
#include "cs/strategies/profile.h"

#include "profile_priv.h"

#include "cs/base/file.h"
#include "cs/base/json.h"
#include "cs/base/text.h"
#include "cs/base/units.h"

#include <math.h>
#include <string.h>

/* Parts of a step may miss its sum by rounding. */
#define SUM_FRAC 1e-3
#define TIME_MAX_S 1e6 /* of a kernel, a step or an operation */
#define SIZE_MAX_BYTES 1e18

/* Units as names of columns and keys end with them. */
struct unit {
    const char *text;
    double scale; /* @unit of the base unit */
};
static const struct unit time_units[] = {{"(us)", 1e-6}, {"(ms)", 1e-3}, {"(s)", 1}, {"(ns)", 1e-9}, {0}};
static const struct unit size_units[] = {{"(MB)", 1e6}, {"(KB)", 1e3}, {"(GB)", 1e9}, {"(B)", 1}, {0}};

enum { NAME_MAX_BYTES = 64 };

cs_status cs__profile_time(const struct cs__csv *csv, int32_t row, const char *name, double *value_s,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_loc loc = {csv->path, csv->rows[row].line, 0};
    char column[NAME_MAX_BYTES];
    double value = 0;
    double scale = 1e-6; /* without a unit: microseconds */
    (void)snprintf(column, sizeof column, "%s", name);
    for (const struct unit *u = time_units; u->text && cs__csv_column(csv, column) < 0; u++) {
        (void)snprintf(column, sizeof column, "%s%s", name, u->text);
        scale = u->scale;
    }
    CS_TRY(cs_real_parse(cs__csv_text(csv, row, column), column, loc, &value, err));
    *value_s = value * scale;
    if (!(*value_s >= 0 && *value_s <= TIME_MAX_S)) {
        st = cs_err_set(err, CS_E_INPUT, loc, "'%s' is %g, expected 0 to %g", column, value,
                        TIME_MAX_S / scale);
    }
out:
    return st;
}

cs_status cs__profile_need_times(const struct cs__csv *csv, const char *const *names, struct cs_err *err)
{
    for (int32_t i = 0; names[i]; i++) {
        int32_t n = cs__csv_column(csv, names[i]) >= 0;
        char column[NAME_MAX_BYTES];
        for (const struct unit *u = time_units; u->text; u++) {
            (void)snprintf(column, sizeof column, "%s%s", names[i], u->text);
            n += cs__csv_column(csv, column) >= 0;
        }
        if (n != 1) {
            return cs_err_set(err, CS_E_INPUT, (struct cs_loc){csv->path, 1, 0},
                              n == 0 ? "there is no column '%s'"
                                     : "there are several columns '%s', in different units",
                              names[i]);
        }
    }
    return CS_OK;
}

static bool has_time(const struct cs__csv *csv, const char *name)
{
    const char *const names[] = {name, NULL};
    struct cs_err ignored = {0};
    return cs__profile_need_times(csv, names, &ignored) == CS_OK;
}

enum { COMPUTING, EXPOSED, OVERLAPPED, COMMUNICATION, FREE, N_PARTS };
static const char *const part_columns[] = {
    "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", NULL};

/* Add one row to the sum. */
static cs_status add_step(struct cs_profile_step *sum, const struct cs__csv *csv, int32_t row,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_loc loc = {csv->path, csv->rows[row].line, 0};
    double part_s[N_PARTS] = {0};
    double bubble_s = 0;
    for (int32_t c = 0; c < N_PARTS; c++) {
        CS_TRY(cs__profile_time(csv, row, part_columns[c], &part_s[c], err));
    }
    if (has_time(csv, "Bubble")) {
        CS_TRY(cs__profile_time(csv, row, "Bubble", &bubble_s, err));
    }
    if (fabs(part_s[EXPOSED] + part_s[OVERLAPPED] - part_s[COMMUNICATION]) >
        SUM_FRAC * fmax(part_s[COMMUNICATION], 1e-6)) {
        st = cs_err_set(err, CS_E_INPUT, loc,
                        "'Communication' is not 'Communication(Not Overlapped)' + 'Overlapped'");
        goto out;
    }
    if (!(part_s[COMPUTING] + part_s[EXPOSED] + part_s[FREE] > 0)) {
        st = cs_err_set(err, CS_E_INPUT, loc, "a step that takes no time");
        goto out;
    }
    sum->n++;
    sum->computing_s += part_s[COMPUTING];
    sum->exposed_s += part_s[EXPOSED];
    sum->overlapped_s += part_s[OVERLAPPED];
    sum->free_s += part_s[FREE];
    sum->bubble_s += bubble_s;
out:
    return st;
}

cs_status cs__profile_steps(struct cs_profile *profile, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__csv csv = {0};
    struct cs_profile_step sum = {0};
    CS_TRY(cs__csv_load(&csv, path, err));
    CS_TRY(cs__profile_need_times(&csv, part_columns, err));
    for (int32_t r = 0; r < csv.n_rows; r++) {
        CS_TRY(add_step(&sum, &csv, r, err));
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

/* What an operation says. */
struct place {
    const char *name; /* of the operation */
    struct cs_loc loc;
};

/* The value of the key `name` with its unit, in the base unit; what is missing is 0. */
static cs_status value_of(const json_t *object, const char *name, const struct unit *units, double max,
                          const struct place *at, double *value, struct cs_err *err)
{
    *value = 0;
    for (const struct unit *u = units; u->text; u++) {
        char key[NAME_MAX_BYTES];
        (void)snprintf(key, sizeof key, "%s%s", name, u->text);
        const json_t *number = json_object_get(object, key);
        if (!number) {
            continue;
        }
        *value = json_number_value(number) * u->scale;
        if (!json_is_number(number) || !(*value >= 0 && *value <= max)) {
            return cs_err_set(err, CS_E_INPUT, at->loc, "'%s' of '%.80s' should be a number, 0 to %g", key,
                              at->name, max / u->scale);
        }
        return CS_OK;
    }
    return CS_OK;
}

static cs_status add_transport(struct cs_profile *profile, const char *kind, const char *transport,
                               const json_t *figures, const struct place *at, struct cs_err *err)
{
    cs_status st = CS_OK;
    double bytes = 0;
    double time_s = 0;
    struct cs_profile_collective *entry = NULL;
    CS_TRY(value_of(figures, "Transit Size", size_units, SIZE_MAX_BYTES, at, &bytes, err));
    CS_TRY(value_of(figures, "Transit Time", time_units, TIME_MAX_S, at, &time_s, err));
    if (bytes <= 0 || time_s <= 0) {
        return CS_OK; /* listed, but not used */
    }
    for (int32_t i = 0; i < profile->n_collectives && !entry; i++) {
        struct cs_profile_collective *c = &profile->collectives[i];
        entry = strcmp(c->kind, kind) == 0 && strcmp(c->transport, transport) == 0 ? c : NULL;
    }
    if (!entry) {
        if (profile->n_collectives == COLLECTIVES_MAX) {
            return cs_err_set(err, CS_E_LIMIT, at->loc, "more than %d kinds of transports", COLLECTIVES_MAX);
        }
        entry = &profile->collectives[profile->n_collectives++];
        *entry = (struct cs_profile_collective){.kind = kind,
                                                .transport = cs_arena_strdup(&profile->arena, transport)};
    }
    entry->n++;
    entry->bytes += bytes;
    entry->time_s += time_s;
    entry->bytes_per_s = entry->bytes / entry->time_s;
out:
    return st;
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
    double elapsed_s = 0;
    double wait_s = 0;
    const struct place at = {name, loc};
    if (!kind) {
        profile->n_unknown_operations += !cs_text_starts_with(name, "Total Op Info");
        return CS_OK;
    }
    if (!json_is_object(times) || !json_is_object(transports)) {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "'%.80s' has no 'Communication Time Info' and 'Communication Bandwidth Info'",
                          name);
    }
    CS_TRY(value_of(times, "Elapse Time", time_units, TIME_MAX_S, &at, &elapsed_s, err));
    CS_TRY(value_of(times, "Wait Time", time_units, TIME_MAX_S, &at, &wait_s, err));
    profile->elapsed_s += elapsed_s;
    profile->wait_s += wait_s;
    json_object_foreach((json_t *)transports, transport, figures)
    {
        CS_TRY(add_transport(profile, kind, transport, figures, &at, err));
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
        if (!json_is_object(step)) {
            st = cs_err_set(err, CS_E_INPUT, loc, "'%.80s' should be an object, of 'collective' and 'p2p'",
                            step_name);
            goto out;
        }
        json_object_foreach(step, class_name, class)
        {
            if (!json_is_object(class)) {
                st = cs_err_set(err, CS_E_INPUT, loc, "'%.80s' of '%.80s' should be an object of operations",
                                class_name, step_name);
                goto out;
            }
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
    if (!cs_file_is_dir(dir)) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){dir, 0, 0},
                        "is no folder: give the one that a profiler wrote");
        goto out;
    }
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
