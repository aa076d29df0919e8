/* Why strategies were refused, in the store: rows wait in memory until there are enough of them for a
 * transaction, so that none is open while something is computed: results and other processes write too. */
#include "verdicts_priv.h"

#include <stdio.h>
#include <string.h>

const char cs__verdicts_sql[] =
    "CREATE TABLE IF NOT EXISTS spaces(id INTEGER PRIMARY KEY, study INTEGER, key TEXT, candidates INTEGER, "
    "UNIQUE(study, key));"
    "CREATE TABLE IF NOT EXISTS verdicts(space INTEGER, candidate INTEGER, strategy TEXT, outcome TEXT, "
    "rule TEXT, reason TEXT, PRIMARY KEY(space, candidate)) WITHOUT ROWID;";

bool cs__verdicts_init(struct cs__verdicts *verdicts, sqlite3 *db)
{
    *verdicts = (struct cs__verdicts){.db = db};
    verdicts->waiting = cs_calloc(CS__VERDICTS_WAITING, sizeof *verdicts->waiting);
    return sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO verdicts VALUES(?, ?, ?, ?, ?, ?)", -1,
                              &verdicts->put, NULL) == SQLITE_OK;
}

void cs__verdicts_release(struct cs__verdicts *verdicts)
{
    verdicts->is_cleaned = false;
    cs__verdicts_write(verdicts);
    (void)sqlite3_finalize(verdicts->put);
    cs_free(verdicts->waiting);
    cs_free(verdicts->spaces);
    cs_strbuf_release(&verdicts->text);
    *verdicts = (struct cs__verdicts){0};
}

bool cs__verdicts_space(struct cs__verdicts *verdicts, int64_t study, const char *key, int64_t n_candidates)
{
    sqlite3_stmt *find = NULL;
    char *sql = sqlite3_mprintf("INSERT OR IGNORE INTO spaces(study, key, candidates) VALUES(%lld, %Q, %lld)",
                                (long long)study, key, (long long)n_candidates);
    verdicts->space = 0;
    bool good = sql && sqlite3_exec(verdicts->db, sql, NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_free(sql);
    sql = sqlite3_mprintf("SELECT id FROM spaces WHERE study = %lld AND key = %Q", (long long)study, key);
    good = good && sql && sqlite3_prepare_v2(verdicts->db, sql, -1, &find, NULL) == SQLITE_OK &&
           sqlite3_step(find) == SQLITE_ROW;
    if (good) {
        verdicts->space = sqlite3_column_int64(find, 0);
        CS_GROW(verdicts->spaces, verdicts->n_spaces, verdicts->cap_spaces);
        verdicts->spaces[verdicts->n_spaces++] = (struct cs__verdict_space){verdicts->space, study};
        verdicts->is_cleaned = false;
    }
    (void)sqlite3_finalize(find);
    sqlite3_free(sql);
    return good;
}

static size_t keep_text(struct cs__verdicts *verdicts, const char *text)
{
    size_t at = verdicts->text.len;
    cs_strbuf_addn(&verdicts->text, text, strlen(text) + 1);
    return at;
}

void cs__verdicts_add(struct cs__verdicts *verdicts, int64_t candidate, const struct cs_strategy *strategy,
                      enum cs_outcome outcome, const char *rule, const char *reason)
{
    char name[CS_STRATEGY_TEXT_MAX];
    if (verdicts->problem[0] || verdicts->space == 0) {
        return;
    }
    if (verdicts->n == CS__VERDICTS_WAITING) {
        cs__verdicts_write(verdicts);
    }
    struct cs__verdict *verdict = &verdicts->waiting[verdicts->n++];
    verdict->space = verdicts->space;
    verdict->candidate = candidate;
    verdict->outcome = outcome;
    verdict->strategy = keep_text(verdicts, cs_strategy_format(strategy, name, sizeof name));
    verdict->rule = keep_text(verdicts, rule);
    verdict->reason = keep_text(verdicts, reason);
}

static bool put(struct cs__verdicts *verdicts, const struct cs__verdict *verdict)
{
    const char *text = verdicts->text.text;
    const char *const texts[] = {text + verdict->strategy, cs_outcome_names[verdict->outcome],
                                 text + verdict->rule, text + verdict->reason};
    (void)sqlite3_reset(verdicts->put);
    (void)sqlite3_bind_int64(verdicts->put, 1, verdict->space);
    (void)sqlite3_bind_int64(verdicts->put, 2, verdict->candidate);
    for (int32_t i = 0; i < CS_COUNT(texts); i++) {
        (void)sqlite3_bind_text(verdicts->put, 3 + i, texts[i], -1, SQLITE_STATIC);
    }
    return sqlite3_step(verdicts->put) == SQLITE_DONE;
}

/* A candidate that failed in one search may have a result of another. Every other verdict follows from the
 * space and the results, which are the same for all searches: it is replaced, never stale, and must not be
 * removed, for another search may be writing the same ones. */
static bool remove_stale(struct cs__verdicts *verdicts)
{
    bool good = true;
    for (int32_t i = 0; i < verdicts->n_spaces && good; i++) {
        char *sql =
            sqlite3_mprintf("DELETE FROM verdicts WHERE space = %lld AND outcome = %Q AND strategy IN "
                            "(SELECT strategy FROM results WHERE study = %lld)",
                            (long long)verdicts->spaces[i].space, cs_outcome_names[CS_OUTCOME_FAILED],
                            (long long)verdicts->spaces[i].study);
        good = sql && sqlite3_exec(verdicts->db, sql, NULL, NULL, NULL) == SQLITE_OK;
        sqlite3_free(sql);
    }
    return good;
}

void cs__verdicts_write(struct cs__verdicts *verdicts)
{
    bool cleans = !verdicts->is_cleaned && verdicts->n_spaces > 0;
    bool has_work = verdicts->n > 0 || cleans;
    if (has_work && !verdicts->problem[0]) {
        bool good = sqlite3_exec(verdicts->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
        for (int32_t i = 0; i < verdicts->n && good; i++) {
            good = put(verdicts, &verdicts->waiting[i]);
        }
        good = good && (!cleans || remove_stale(verdicts));
        good = good && sqlite3_exec(verdicts->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
        if (!good) {
            (void)snprintf(verdicts->problem, sizeof verdicts->problem, "%s", sqlite3_errmsg(verdicts->db));
            (void)sqlite3_reset(verdicts->put);
            (void)sqlite3_exec(verdicts->db, "ROLLBACK", NULL, NULL, NULL);
        }
        (void)sqlite3_reset(verdicts->put);
        verdicts->is_cleaned = true;
    }
    verdicts->n = 0;
    verdicts->text.len = 0;
}
