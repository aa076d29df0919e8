/* The order of results, and: searches of one space with several sets of collective algorithms become one
 * result. */
#include "searchers_priv.h"

#include <stdlib.h>
#include <string.h>

int cs__ranked_compare(const void *a, const void *b)
{
    const struct cs_ranked *x = a;
    const struct cs_ranked *y = b;
    const double faster_s = y->metrics.iteration_s - x->metrics.iteration_s;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    if (faster_s > 0 || faster_s < 0) {
        return faster_s > 0 ? -1 : 1;
    }
    if (x->metrics.peak_memory_bytes != y->metrics.peak_memory_bytes) {
        return x->metrics.peak_memory_bytes < y->metrics.peak_memory_bytes ? -1 : 1;
    }
    if (x->candidate != y->candidate) {
        return x->candidate < y->candidate ? -1 : 1;
    }
    return x->algorithm_set - y->algorithm_set;
}

static void merge_reasons(struct cs_search_result *result, const struct cs_search_result *more)
{
    result->reasons = cs_reallocarray(result->reasons, (size_t)(result->n_reasons + more->n_reasons) + 1,
                                      sizeof *result->reasons);
    for (int32_t i = 0; i < more->n_reasons; i++) {
        const struct cs_reason *reason = &more->reasons[i];
        int32_t at = 0;
        while (at < result->n_reasons && (result->reasons[at].outcome != reason->outcome ||
                                          strcmp(result->reasons[at].rule, reason->rule) != 0)) {
            at++;
        }
        if (at < result->n_reasons) {
            result->reasons[at].n += reason->n;
        } else {
            result->reasons[result->n_reasons++] = *reason;
        }
    }
}

void cs_search_result_merge(struct cs_search_result *result, struct cs_search_result *more, int32_t set)
{
    int64_t *const sums[][2] = {{&result->n_candidates, &more->n_candidates},
                                {&result->n_rejected, &more->n_rejected},
                                {&result->n_oom, &more->n_oom},
                                {&result->n_pruned, &more->n_pruned},
                                {&result->n_simulated, &more->n_simulated},
                                {&result->n_remembered, &more->n_remembered},
                                {&result->n_asked, &more->n_asked},
                                {&result->n_failed, &more->n_failed},
                                {&result->n_open, &more->n_open}};
    for (int32_t i = 0; i < CS_COUNT(sums); i++) {
        *sums[i][0] += *sums[i][1];
    }
    result->n_fit = result->n_fit < 0 || more->n_fit < 0 ? -1 : result->n_fit + more->n_fit;
    result->n_looked =
        result->n_looked < 0 ? -1 : result->n_looked + (more->n_looked > 0 ? more->n_looked : 0);
    if (!result->looked_at) { /* what is known with all sets: the look ends early with the last of them */
        result->looked_at = more->looked_at;
        more->looked_at = NULL;
    }
    result->complete = result->complete && more->complete;
    result->end = result->end == CS_SEARCH_FINISHED ? more->end : result->end;
    result->elapsed_s += more->elapsed_s;
    result->ranking = cs_reallocarray(result->ranking, (size_t)(result->n_ranked + more->n_ranked) + 1,
                                      sizeof *result->ranking);
    for (int64_t i = 0; i < more->n_ranked; i++) {
        result->ranking[result->n_ranked] = more->ranking[i];
        result->ranking[result->n_ranked++].algorithm_set = set;
    }
    if (result->n_ranked > 0) {
        qsort(result->ranking, (size_t)result->n_ranked, sizeof *result->ranking, cs__ranked_compare);
    }
    merge_reasons(result, more);
    cs_search_result_release(more);
}
