/**
 * @file claims.h
 * What is claimed of search algorithms, for the test of a part of a study and the benchmark of the whole.
 */
#ifndef CS_TESTS_UNIT_CLAIMS_H
#define CS_TESTS_UNIT_CLAIMS_H

#include "cs/strategies/search.h"

/** Results by candidate of one space, so that many searches simulate none twice. */
struct claims_memory {
    const struct cs_space *space;
    struct cs_evaluation *evaluations;
    struct cs_search_memory memory;
};
/** The space is borrowed; `claims` must stay where it is. */
void claims_memory_init(struct claims_memory *claims, const struct cs_space *space);
void claims_memory_release(struct claims_memory *claims);

/** cs_search_options.evaluate with a simulator as its context. */
cs_status claims_evaluate(void *simulator, const struct cs_strategy *strategy,
                          struct cs_evaluation *evaluation, struct cs_err *err);

/** Runs a search of the study at hand; ends the program when that fails. The caller releases. */
typedef struct cs_search_result (*claims_search_fn)(void *context, const char *algorithm);
/** Of searches with seeds 1 to n_seeds and at most `limit` simulations, how many come within 1 % of the best
 *  score. The study's seed and limit are 1 and none afterwards.
 * @param[out] most simulations of one of them */
int32_t claims_n_close(struct cs_study *study, claims_search_fn search, void *context, const char *algorithm,
                       int32_t n_seeds, int64_t limit, double best_score, int64_t *most);

#endif
