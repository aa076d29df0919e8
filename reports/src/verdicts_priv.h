/**
 * @file verdicts_priv.h
 * The part of a store that says why strategies were refused.
 */
#ifndef CS_REPORTS_VERDICTS_PRIV_H
#define CS_REPORTS_VERDICTS_PRIV_H

#include "cs/reports/store.h"

#include <sqlite3.h>

/** Rows that wait to be written together: a search refuses up to millions. */
#define CS__VERDICTS_WAITING 8192

struct cs__verdict {
    int64_t space; /* row of the space */
    int64_t candidate;
    enum cs_outcome outcome;
    size_t strategy, rule, reason; /* where each begins in the text */
};

struct cs__verdict_space {
    int64_t space, study; /* rows */
};

/** Zero-initialised keeps nothing. */
struct cs__verdicts {
    sqlite3 *db; /* the store's; borrowed */
    sqlite3_stmt *put;
    int64_t space; /* row of the space at hand; 0 = none */
    int32_t n_spaces, cap_spaces;
    struct cs__verdict_space *spaces; /* all that were at hand */
    bool is_cleaned;                  /* no stale rows are left of them: looked for at the first write and at
                                         the end, for it takes a look at every row */
    int32_t n;
    struct cs__verdict *waiting; /* CS__VERDICTS_WAITING */
    struct cs_strbuf text;
    char problem[CS_ERR_TEXT_MAX]; /* why nothing is kept any more; "" = all is well */
};

/** The tables, for CREATE. */
extern const char cs__verdicts_sql[];

/** False when the tables are not as they should be: see sqlite3_errmsg. */
bool cs__verdicts_init(struct cs__verdicts *verdicts, sqlite3 *db);
/** Writes what waits. */
void cs__verdicts_release(struct cs__verdicts *verdicts);
/** What follows is about this space of the study in row `study`. Rows of other searches of it stay, but for
 *  failures of candidates that have a result by now. False as above. */
bool cs__verdicts_space(struct cs__verdicts *verdicts, int64_t study, const char *key, int64_t n_candidates);
/** Keep one; written with others. */
void cs__verdicts_add(struct cs__verdicts *verdicts, int64_t candidate, const struct cs_strategy *strategy,
                      enum cs_outcome outcome, const char *rule, const char *reason);
/** Write what waits, in one transaction. */
void cs__verdicts_write(struct cs__verdicts *verdicts);

#endif
