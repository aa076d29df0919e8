/**
 * @file space.h
 * The search space: every strategy that a study leaves open, each once, and why those fall away that do
 * before anything is simulated.
 */
#ifndef CS_STRATEGIES_SPACE_H
#define CS_STRATEGIES_SPACE_H

#include "cs/strategies/study.h"

/** One strategy. `rule` is NULL for one that can run, else the validity rule that it breaks first. */
struct cs_candidate {
    struct cs_strategy strategy;
    const char *rule; /* static text */
    int32_t family;   /* candidates with the same model state per rank share a number */
};

#define CS_WHY_MAX 256

/** How many candidates a rule cost. `example` says it in words for the first of them. */
struct cs_rule_count {
    const char *rule;
    int64_t n;
    int64_t first; /* index of that first one */
    char example[CS_WHY_MAX];
};

/** Candidates are in strategy order (cs_strategy_compare), whatever order the study lists values in. */
struct cs_space {
    int64_t n_combinations; /* of the values that the study leaves open and whose product is the cluster */
    int64_t n_duplicates;   /* of these, the same run as another (zero 2 with op 1, ...) */
    int64_t n_candidates;
    struct cs_candidate *candidates;
    int64_t n_open; /* candidates without a broken rule */
    int32_t n_families;
    int32_t n_rules;
    struct cs_rule_count *rules; /* in order of first occurrence */
};

/** Enumerate. Open keys have these values (a list or a scalar in the study takes their place, and may name
 *  others):
 *    dp           what mp, cp and pp leave of the devices
 *    mp           powers of two that divide the heads, up to the devices of a node
 *    pp           divisors of the devices up to the layers
 *    op           1, powers of two that divide dp, dp
 *    zero         1 2 3           sp         false true
 *    micro_batch  1 2 4 8         recompute  none selective full
 *    schedule     1f1b gpipe      cp ep vpp  1
 *    placement    mp,cp,dp,pp     and the other keys at their default
 *  Where the study says `auto` instead of leaving the key out:
 *    schedule     1f1b gpipe interleaved zero-bubble
 *    vpp          1 2 4           placement  all orders
 *    cp           powers of two that divide the devices, up to a node's
 *    ep           powers of two that divide the experts
 *    seq_split    1 2 4           half_batches 1 2        cp_kind ring ulysses
 *    fused_tp keep_comm offload_optimizer swap_activations expert_mp keep_weights  false true
 *    layers       even balanced   full_layers  none balanced
 *  CS_E_INPUT when no combination of dp, mp, cp and pp makes the cluster; CS_E_LIMIT for more than 20 million
 *  combinations or 2 million candidates. Cost O(combinations). The caller releases. */
CS_MUST_CHECK cs_status cs_space_build(struct cs_space *space, const struct cs_study *study,
                                       struct cs_err *err);
/** In words, why a candidate with a broken rule cannot run; "" for a rule of the study, which says so itself.
 *  Returns buf. */
const char *cs_space_why(const struct cs_candidate *candidate, const struct cs_study *study, char *buf,
                         size_t buf_bytes);
/** Safe on a zeroed struct and twice. */
void cs_space_release(struct cs_space *space);

#endif
