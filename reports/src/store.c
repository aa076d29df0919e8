/* The store of results in SQLite. */
#include "cs/reports/store.h"

#include "verdicts_priv.h"

#include "cs/base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Of the tables and of struct cs_metrics as bytes; raised when either changes its meaning. */
#define FORMAT 2
/* How long another process may hold the store, milliseconds. */
#define BUSY_MS 20000
#define KEY_BYTES 20

/** Where results and verdicts with one set of collective algorithms belong. */
struct set_rows {
    int64_t study, space;
};

struct cs_store {
    sqlite3 *db;
    sqlite3_stmt *find, *put;
    char *path;
    int64_t study; /* row of the study at hand */
    int use_fd;    /* says that the store is in use; -1 = none */
    bool is_shared;
    char problem[CS_ERR_TEXT_MAX];
    char verdict_problem[2 * CS_ERR_TEXT_MAX];
    struct cs__verdicts verdicts;
    struct set_rows *sets; /* of cs_store_sets */
    struct cs_search_memory memory;
};

static cs_status db_error(const struct cs_store *store, const char *what, struct cs_err *err)
{
    int code = sqlite3_errcode(store->db);
    if (code == SQLITE_NOTADB) {
        return cs_err_set(err, CS_E_INPUT, (struct cs_loc){store->path, 0, 0},
                          "is no store of results: choose another file");
    }
    return cs_err_set(err, CS_E_IO, (struct cs_loc){store->path, 0, 0}, "%s the store: %s", what,
                      store->db ? sqlite3_errmsg(store->db) : "out of memory");
}

static cs_status run(struct cs_store *store, const char *sql, const char *what, struct cs_err *err)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? CS_OK : db_error(store, what, err);
}

/* The text of the first column of the first row, "" when there is none. */
static cs_status one_text(struct cs_store *store, const char *sql, char *buf, size_t buf_bytes,
                          struct cs_err *err)
{
    sqlite3_stmt *statement = NULL;
    cs_status st = CS_OK;
    buf[0] = '\0';
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        return db_error(store, "cannot read", err);
    }
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        (void)snprintf(buf, buf_bytes, "%s", text ? text : "");
    } else if (code != SQLITE_DONE) {
        st = db_error(store, "cannot read", err);
    }
    (void)sqlite3_finalize(statement);
    return st;
}

/* What a store of this build says of itself: its bytes have to be ours too. */
static void make_stamp(int32_t version, char *buf, size_t buf_bytes)
{
    (void)snprintf(buf, buf_bytes, "clustersim results %d, format %d, %zu bytes a result", (int)version,
                   FORMAT, sizeof(struct cs_metrics));
}

/* Two processes that make a store at the same moment both want it for themselves to change its mode, and
 * SQLite does not wait for that. */
static cs_status use_wal(struct cs_store *store, struct cs_err *err)
{
    static const int wait_ms = 20;
    int code = SQLITE_BUSY;
    for (int waited_ms = 0; code == SQLITE_BUSY && waited_ms < BUSY_MS; waited_ms += wait_ms) {
        if (waited_ms > 0) {
            (void)sqlite3_sleep(wait_ms);
        }
        code = sqlite3_exec(store->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    }
    return code == SQLITE_OK ? CS_OK : db_error(store, "cannot use", err);
}

/* Is the store one of this build? One without tables is new; a table that only bears the name of one of ours
 * says nothing. */
static cs_status check_stamp(struct cs_store *store, const char *stamp, struct cs_err *err)
{
    static const char ours[] = "clustersim results ";
    cs_status st = CS_OK;
    char count[32];
    char found[160] = "";
    CS_TRY(one_text(store, "SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'", count,
                    sizeof count, err));
    if (strcmp(count, "0") == 0) {
        return CS_OK;
    }
    CS_TRY(one_text(store,
                    "SELECT count(*) FROM sqlite_master WHERE name NOT IN ('meta','studies','results',"
                    "'spaces','verdicts') AND name NOT LIKE 'sqlite_%'",
                    count, sizeof count, err));
    if (strcmp(count, "0") == 0) {
        CS_TRY(one_text(store, "SELECT count(*) FROM pragma_table_info('meta') WHERE name IN ('key','value')",
                        count, sizeof count, err));
        if (strcmp(count, "2") == 0) {
            CS_TRY(one_text(store, "SELECT value FROM meta WHERE key = 'version'", found, sizeof found, err));
        }
    }
    if (strncmp(found, ours, sizeof ours - 1) != 0) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){store->path, 0, 0},
                        "is a database of something else: choose another file");
    } else if (strcmp(found, stamp) != 0) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){store->path, 0, 0},
                        "the store is of another version ('%s'; this is '%s'): choose another file", found,
                        stamp);
    }
out:
    return st;
}

/* Tables, and whose they are. Two processes may be at it at once: the first one to write wins. */
static cs_status set_up(struct cs_store *store, int32_t version, struct cs_err *err)
{
    cs_status st = CS_OK;
    char stamp[160];
    char *sql = NULL;
    make_stamp(version, stamp, sizeof stamp);
    (void)sqlite3_busy_timeout(store->db, BUSY_MS);
    CS_TRY(check_stamp(store, stamp, err)); /* before anything is written to another's */
    CS_TRY(use_wal(store, err));
    CS_TRY(run(store, "PRAGMA synchronous = NORMAL", "cannot use", err));
    sql = sqlite3_mprintf(
        "BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS studies(id INTEGER PRIMARY KEY, key TEXT UNIQUE, model TEXT, "
        "platform TEXT);"
        "CREATE TABLE IF NOT EXISTS results(study INTEGER, strategy TEXT, iteration_time_s REAL, "
        "tokens_per_s REAL, peak_memory_bytes INTEGER, metrics BLOB, PRIMARY KEY(study, strategy)) "
        "WITHOUT ROWID;"
        "%s INSERT OR IGNORE INTO meta VALUES('version', %Q); COMMIT;",
        cs__verdicts_sql, stamp);
    st = run(store, sql ? sql : "", "cannot make", err);
    sqlite3_free(sql);
    CS_TRY(st);
    CS_TRY(check_stamp(store, stamp, err));
out:
    return st;
}

static bool lookup(void *context, const struct cs_strategy *strategy, struct cs_evaluation *evaluation)
{
    struct cs_store *store = context;
    char name[CS_STRATEGY_TEXT_MAX];
    bool found = false;
    (void)sqlite3_reset(store->find);
    (void)sqlite3_bind_int64(store->find, 1, store->study);
    (void)sqlite3_bind_text(store->find, 2, cs_strategy_format(strategy, name, sizeof name), -1,
                            SQLITE_TRANSIENT);
    if (sqlite3_step(store->find) == SQLITE_ROW &&
        sqlite3_column_bytes(store->find, 0) == (int)sizeof evaluation->metrics) {
        memset(evaluation, 0, sizeof *evaluation);
        memcpy(&evaluation->metrics, sqlite3_column_blob(store->find, 0), sizeof evaluation->metrics);
        evaluation->simulated = true;
        found = true;
    }
    (void)sqlite3_reset(store->find);
    return found;
}

static void save(void *context, const struct cs_strategy *strategy, const struct cs_evaluation *evaluation)
{
    struct cs_store *store = context;
    char name[CS_STRATEGY_TEXT_MAX];
    if (store->problem[0] || !evaluation->simulated) {
        return;
    }
    const struct cs_metrics *m = &evaluation->metrics;
    (void)sqlite3_reset(store->put);
    (void)sqlite3_bind_int64(store->put, 1, store->study);
    (void)sqlite3_bind_text(store->put, 2, cs_strategy_format(strategy, name, sizeof name), -1,
                            SQLITE_TRANSIENT);
    (void)sqlite3_bind_double(store->put, 3, m->iteration_s);
    (void)sqlite3_bind_double(store->put, 4, m->tokens_per_s);
    (void)sqlite3_bind_int64(store->put, 5, m->peak_memory_bytes);
    (void)sqlite3_bind_blob(store->put, 6, m, (int)sizeof *m, SQLITE_TRANSIENT);
    if (sqlite3_step(store->put) != SQLITE_DONE) {
        (void)snprintf(store->problem, sizeof store->problem, "%s: results are no longer stored: %s",
                       store->path, sqlite3_errmsg(store->db));
    }
    (void)sqlite3_reset(store->put);
}

static void take_set(void *context, int32_t set)
{
    struct cs_store *store = context;
    store->study = store->sets[set].study;
    store->verdicts.space = store->sets[set].space;
}

static void refuse(void *context, int64_t candidate, const struct cs_strategy *strategy,
                   enum cs_outcome outcome, const char *rule, const char *reason)
{
    struct cs_store *store = context;
    cs__verdicts_add(&store->verdicts, candidate, strategy, outcome, rule, reason);
}

static void settle(void *context)
{
    struct cs_store *store = context;
    cs__verdicts_write(&store->verdicts);
    if (store->verdicts.problem[0] && !store->problem[0]) {
        (void)snprintf(store->verdict_problem, sizeof store->verdict_problem,
                       "%s: reasons of refused strategies are no longer stored: %s", store->path,
                       store->verdicts.problem);
    }
}

/* Note that the store is in use, and whether somebody else has noted it. The descriptor is closed after the
 * database: closing one takes the process's own locks off the file. */
static void note_use(struct cs_store *store)
{
    store->use_fd = open(store->path, O_RDONLY | O_CLOEXEC);
    store->is_shared = store->use_fd >= 0 && flock(store->use_fd, LOCK_EX | LOCK_NB) != 0;
}

cs_status cs_store_open(struct cs_store **out, const char *path, int32_t version, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_store *store = cs_calloc(1, sizeof *store);
    store->path = cs_strdup(path);
    store->use_fd = -1;
    store->memory = (struct cs_search_memory){store, NULL, lookup, save, refuse, settle};
    if (sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK) {
        st = db_error(store, "cannot open", err);
        goto out;
    }
    CS_TRY(set_up(store, version, err));
    note_use(store);
    if (sqlite3_prepare_v2(store->db, "SELECT metrics FROM results WHERE study = ? AND strategy = ?", -1,
                           &store->find, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(store->db, "INSERT OR REPLACE INTO results VALUES(?, ?, ?, ?, ?, ?)", -1,
                           &store->put, NULL) != SQLITE_OK ||
        !cs__verdicts_init(&store->verdicts, store->db)) {
        st = db_error(store, "cannot use", err);
        goto out;
    }
    *out = store;
    store = NULL;
out:
    cs_store_close(store);
    return st;
}

void cs_store_close(struct cs_store *store)
{
    if (!store) {
        return;
    }
    cs__verdicts_release(&store->verdicts);
    cs_free(store->sets);
    (void)sqlite3_finalize(store->find);
    (void)sqlite3_finalize(store->put);
    (void)sqlite3_close(store->db);
    if (store->use_fd >= 0) {
        (void)close(store->use_fd);
    }
    cs_free(store->path);
    cs_free(store);
}

static uint64_t hash_hardware(uint64_t hash, const struct cs_platform *platform)
{
    hash = cs_hash_mix(hash, platform->content_hash);
    for (int32_t i = 0; i < platform->n_devices; i++) {
        const struct cs_device *device = &platform->devices[i];
        hash = cs_hash_text(hash, device->host);
        hash = cs_hash_real(hash, device->memory_bytes);
        if (i > 0 && device->chip == platform->devices[i - 1].chip) {
            continue;
        }
        for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
            hash = cs_hash_real(hash, cs_chip_figure(device->chip, f));
        }
    }
    return hash;
}

uint64_t cs_store_study_hash(const struct cs_study *study, const struct cs_run_options *o)
{
    uint64_t hash = cs_hash_mix(CS_HASH_SEED, study->model.content_hash);
    hash = hash_hardware(hash, &study->platform);
    hash = cs_training_hash(hash, &study->training);
    const uint64_t words[] = {(uint64_t)o->fidelity, (uint64_t)o->view, (uint64_t)o->n_slow_devices,
                              (uint64_t)o->n_slow_links, o->seed};
    for (int32_t i = 0; i < CS_COUNT(words); i++) {
        hash = cs_hash_mix(hash, words[i]);
    }
    hash = cs_hash_real(hash, o->jitter_frac);
    for (int32_t i = 0; i < CS_N_COLLS; i++) {
        hash = cs_hash_mix(hash, (uint64_t)o->algorithm[i]);
    }
    for (int32_t i = 0; i < o->n_slow_devices; i++) {
        hash = cs_hash_mix(hash, (uint64_t)o->slow_devices[i].device);
        hash = cs_hash_real(hash, o->slow_devices[i].factor);
    }
    for (int32_t i = 0; i < o->n_slow_links; i++) {
        hash = cs_hash_text(hash, o->slow_links[i].name);
        hash = cs_hash_real(hash, o->slow_links[i].factor);
    }
    return hash;
}

cs_status cs_store_study(struct cs_store *store, const struct cs_study *study,
                         const struct cs_run_options *options, struct cs_err *err)
{
    cs_status st = CS_OK;
    char key[KEY_BYTES];
    char row[32];
    (void)snprintf(key, sizeof key, "%016" PRIx64, cs_store_study_hash(study, options));
    char *insert = sqlite3_mprintf("INSERT OR IGNORE INTO studies(key, model, platform) VALUES(%Q, %Q, %Q)",
                                   key, study->model.name, study->platform.name);
    char *select = sqlite3_mprintf("SELECT id FROM studies WHERE key = %Q", key);
    CS_TRY(run(store, insert ? insert : "", "cannot write to", err));
    CS_TRY(one_text(store, select ? select : "", row, sizeof row, err));
    store->study = 0;
    for (const char *c = row; *c >= '0' && *c <= '9'; c++) {
        store->study = 10 * store->study + (*c - '0');
    }
out:
    sqlite3_free(insert);
    sqlite3_free(select);
    return st;
}

/* What decides, besides the study's own hash, why strategies of a space are refused. */
static uint64_t hash_space(const struct cs_study *study, const struct cs_space *space)
{
    const struct cs_constraints *c = &study->constraints;
    const double reals[] = {c->memory_margin, c->device_memory_bytes, c->cross_node_comm_frac,
                            c->min_device_use_frac, c->min_memory_use_frac};
    uint64_t hash = cs_search_hash(space, CS_HASH_SEED);
    for (int32_t i = 0; i < CS_COUNT(reals); i++) {
        hash = cs_hash_real(hash, reals[i]);
    }
    for (int32_t i = 0; i < c->n_rules; i++) {
        hash = cs_hash_text(hash, c->rules[i].text);
    }
    return hash;
}

cs_status cs_store_space(struct cs_store *store, const struct cs_study *study, const struct cs_space *space,
                         struct cs_err *err)
{
    char key[KEY_BYTES];
    (void)snprintf(key, sizeof key, "%016" PRIx64, hash_space(study, space));
    return cs__verdicts_space(&store->verdicts, store->study, key, space->n_candidates)
               ? CS_OK
               : db_error(store, "cannot write to", err);
}

cs_status cs_store_sets(struct cs_store *store, const struct cs_study *study, const struct cs_space *space,
                        const struct cs_run_options *options, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t n = cs_study_n_algorithm_sets(study);
    cs_free(store->sets);
    store->sets = cs_calloc((size_t)n, sizeof *store->sets);
    for (int32_t set = 0; set < n; set++) {
        struct cs_run_options how = *options;
        cs_study_algorithm_set(study, set, how.algorithm);
        CS_TRY(cs_store_study(store, study, &how, err));
        CS_TRY(cs_store_space(store, study, space, err));
        store->sets[set] = (struct set_rows){store->study, store->verdicts.space};
    }
    store->memory.take_set = take_set;
    take_set(store, 0);
out:
    return st;
}

const struct cs_search_memory *cs_store_memory(struct cs_store *store)
{
    return &store->memory;
}

bool cs_store_is_shared(const struct cs_store *store)
{
    return store->is_shared;
}

const char *cs_store_problem(const struct cs_store *store)
{
    const char *problem = store->problem[0] ? store->problem : store->verdict_problem;
    return problem[0] ? problem : NULL;
}

int64_t cs_store_n_results(struct cs_store *store)
{
    sqlite3_stmt *statement = NULL;
    int64_t n = 0;
    if (sqlite3_prepare_v2(store->db, "SELECT count(*) FROM results WHERE study = ?", -1, &statement, NULL) ==
        SQLITE_OK) {
        (void)sqlite3_bind_int64(statement, 1, store->study);
        n = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    }
    (void)sqlite3_finalize(statement);
    return n;
}
