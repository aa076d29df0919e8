/**
 * @file store.h
 * A store of simulated strategies: one SQLite file that searches read and write, so that nothing is simulated
 * twice and nothing that was simulated is lost; and why a search refused the others.
 *
 * A result is kept under (study, strategy); a study is everything else that a result depends on: model,
 * platform, training, how it is run. The store belongs to one version of the results
 * (CS_RESULTS_VERSION) and is refused by every other. Tables, for whoever reads it with other means:
 *
 *     meta(key, value)                     format, version
 *     studies(id, key, model, platform)    key: 16 hex digits
 *     results(study, strategy, iteration_time_s, tokens_per_s, peak_memory_bytes, metrics)
 *     spaces(id, study, key, candidates)   what a study with its constraints left open
 *     verdicts(space, candidate, strategy, outcome, rule, reason)
 *
 * Every result is a transaction of its own in write-ahead mode: a process that is killed at any moment loses
 * only what it had not handed over, several may use a store at once. Verdicts are written thousands at a
 * time: one a candidate of their space, the last that any search found; a failure goes once the candidate has
 * a result.
 */
#ifndef CS_REPORTS_STORE_H
#define CS_REPORTS_STORE_H

#include "cs/strategies/search.h"

struct cs_store; /* opaque */

/** Open a store, or make one. `version`: of results, CS_RESULTS_VERSION. CS_E_INPUT naming the file when it
 * is no store or one of another version; CS_E_IO when it cannot be opened or made. The caller closes. */
CS_MUST_CHECK cs_status cs_store_open(struct cs_store **store, const char *path, int32_t version,
                                      struct cs_err *err);
/** NULL is fine. */
void cs_store_close(struct cs_store *store);

/** Results from here on are of this study, run in this way (both read now, not kept). CS_E_IO when it cannot
 *  be written. */
CS_MUST_CHECK cs_status cs_store_study(struct cs_store *store, const struct cs_study *study,
                                       const struct cs_run_options *options, struct cs_err *err);

/** Verdicts from here on are about this space of the store's study (of cs_store_study, which comes first).
 *  Those of other searches of it stay, see above. CS_E_IO when it cannot be written. */
CS_MUST_CHECK cs_status cs_store_space(struct cs_store *store, const struct cs_study *study,
                                       const struct cs_space *space, struct cs_err *err);

/** Both, for each set of collective algorithms that the study's lists leave open: the memory then takes the
 *  search's sets. `options`: how it is run, but for the algorithms of the lists. */
CS_MUST_CHECK cs_status cs_store_sets(struct cs_store *store, const struct cs_study *study,
                                      const struct cs_space *space, const struct cs_run_options *options,
                                      struct cs_err *err);

/** For cs_search_run: look up and save in the store's study. Saving never fails: after the first failure (a
 *  full disk) the store keeps quiet, and says why by cs_store_problem. Borrowed from the store. */
const struct cs_search_memory *cs_store_memory(struct cs_store *store);
/** Was another process (or cs_store) at this store when it was opened? Both may go on: results of either are
 * kept, and what both simulate at once is simulated twice. */
bool cs_store_is_shared(const struct cs_store *store);
/** Why results or verdicts are no longer kept, one line; NULL while they are. */
const char *cs_store_problem(const struct cs_store *store);
/** Results of the store's study. 0 when it cannot be read. */
int64_t cs_store_n_results(struct cs_store *store);

/** Hash of everything that a simulated strategy of the study depends on, run in this way. */
uint64_t cs_store_study_hash(const struct cs_study *study, const struct cs_run_options *options);

#endif
