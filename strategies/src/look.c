/* The look at a space before the first simulation: what does not fit is booked, the others get a bound and a
 * guess. It goes in parts, each a share of everything, so that a look that has to end early has seen a bit of
 * every corner. */
#include "search_priv.h"

#include "cs/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of a time limit, how much looking may take: what is found has to be simulated. */
#define LOOK_FRAC 0.8
/* Of the grace of a search without a result, how much looking may take. */
#define GRACE_FRAC 0.5
/* Candidates of the first part, which is looked at even if time is over, and how much larger each is than the
 * one before: every part asks SimGrid for its routes, which loads the platform. */
#define FIRST_PART 32
#define GROWTH 8
/* A part is made of so many runs in strategy order: neighbours share most of what the closed form keeps. */
#define RUNS 16
/* Strategies are prepared for so long before they are looked at, or for this share of the time so far: each
 * time may ask SimGrid for routes. */
#define SLICE_S 0.5
#define SLICE_FRAC 0.25
/* Of turn_of. */
#define N_TURNS 3
/* No candidate. */
#define TAKEN (-1)
/* The user is shown how far it is, every so many candidates. */
#define SHOWN_EVERY 256

struct look {
    struct cs__search *search;
    double end_s;       /* moment; 0 = none */
    double last_end_s;  /* the same while nothing is known to fit, and of the first part */
    double slice_end_s; /* of preparing, before what is prepared is looked at */
    int64_t n_fit;      /* of what was looked at */
    bool first_is_done; /* the first part */
    bool *is_met;       /* per family: one of it was looked at */
    bool is_over;
};

/* The closed form is all there will be. */
static void take_estimate(struct cs__search *search, int64_t entry, const struct cs_estimate *estimate)
{
    struct cs_evaluation evaluation;
    memset(&evaluation, 0, sizeof evaluation);
    evaluation.outcome = CS_OUTCOME_OK;
    evaluation.estimated = true;
    if (estimate->is_coarse || !(estimate->time_s > 0)) {
        char strategy[CS_REASON_MAX / 2];
        evaluation.outcome = CS_OUTCOME_FAILED;
        (void)snprintf(evaluation.rule, sizeof evaluation.rule, "no-closed-form");
        (void)snprintf(evaluation.reason, sizeof evaluation.reason,
                       "%s: only a simulation says what it takes",
                       cs_strategy_format(cs__entry_strategy(search, entry), strategy, sizeof strategy));
    } else {
        cs__metrics_hope(&evaluation.metrics, search->study, estimate->time_s, estimate->peak_memory_bytes);
    }
    (void)cs__search_count(search, entry, &evaluation);
}

/* Where the model state alone is too much, it is so for the whole family: of those that cost a trace each,
 * the others need not be looked at. */
static void note_family(struct cs__search *search, int64_t entry, const struct cs_evaluation *evaluation,
                        double state_bytes)
{
    const struct cs_study *study = search->study;
    const double margin = study->constraints.memory_margin;
    const double device_bytes = cs_study_device_memory_bytes(study);
    struct cs_evaluation **known =
        &search->family_oom[search->space->candidates[cs__entry_candidate(search, entry)].family];
    char state[32];
    char device[32];
    if (*known || evaluation->outcome != CS_OUTCOME_OOM || state_bytes * margin <= device_bytes) {
        return;
    }
    *known = cs_malloc(sizeof **known);
    **known = *evaluation;
    (*known)->state_alone = true;
    (void)snprintf((*known)->reason, sizeof(*known)->reason,
                   "needs %s x %g margin of memory for the model state alone, a device has %s",
                   cs_units_format(state_bytes, CS_UNIT_BYTES, state, sizeof state), margin,
                   cs_units_format(device_bytes, CS_UNIT_BYTES, device, sizeof device));
}

/* One of the study's algorithms is none for this strategy's groups. */
static void reject(struct cs__search *search, int64_t entry, const char *why)
{
    struct cs_evaluation evaluation;
    char strategy[192];
    memset(&evaluation, 0, sizeof evaluation);
    evaluation.outcome = CS_OUTCOME_REJECTED;
    (void)snprintf(evaluation.rule, sizeof evaluation.rule, CS_RULE_ALGORITHM);
    (void)snprintf(evaluation.reason, sizeof evaluation.reason, "%.100s: %.150s",
                   cs_strategy_format(cs__entry_strategy(search, entry), strategy, sizeof strategy), why);
    (void)cs__search_count(search, entry, &evaluation);
}

/* Look at one candidate with one set through the closed form; what does not fit is booked at once. */
static void look_at(struct cs__search *search, int64_t entry)
{
    struct cs_outlook *outlook = &search->outlooks[entry];
    struct cs_estimate estimate;
    struct cs_evaluation evaluation;
    memset(&evaluation, 0, sizeof evaluation);
    cs_cost_estimate(cs__set_cost(search, cs__entry_set(search, entry)), cs__entry_strategy(search, entry),
                     &estimate);
    evaluation.metrics.peak_memory_bytes = estimate.peak_memory_bytes;
    cs_evaluation_judge(&evaluation, search->study);
    outlook->fits = evaluation.outcome == CS_OUTCOME_OK;
    if (!outlook->fits) {
        note_family(search, entry, &evaluation, estimate.state_bytes);
        (void)cs__search_count(search, entry, &evaluation);
        return;
    }
    if (estimate.refusal) {
        outlook->fits = false;
        reject(search, entry, estimate.refusal);
        return;
    }
    if (search->options->mode == CS_SEARCH_LOOKS) {
        return;
    }
    if (search->options->mode == CS_SEARCH_ANALYTIC) {
        take_estimate(search, entry, &estimate);
        return;
    }
    outlook->coarse = estimate.is_coarse;
    if (estimate.time_s > 0) {
        struct cs_metrics metrics;
        cs__metrics_hope(&metrics, search->study, estimate.time_s, estimate.peak_memory_bytes);
        outlook->guess_score = cs__search_score(search, &metrics);
        if (estimate.bound_s > 0) {
            cs__metrics_hope(&metrics, search->study, estimate.bound_s, estimate.peak_memory_bytes);
            outlook->bound_score = cs__search_score(search, &metrics);
        }
    }
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b > 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Put some of a list (in strategy order) into `order`, run by run, the runs in steps of the golden ratio: any
 * first few of them are evenly spread. What is left stays in the list. Returns how many were taken. */
static int64_t take_spread(int64_t *list, int64_t *n, int64_t n_wanted, int64_t *order)
{
    int64_t run_length = n_wanted > RUNS ? n_wanted / RUNS : 1;
    int64_t n_runs = (*n + run_length - 1) / run_length;
    int64_t step = (int64_t)((sqrt(5.0) - 1) / 2 * (double)n_runs);
    int64_t n_taken = 0;
    int64_t n_left = 0;
    step = step > 0 ? step : 1;
    while (gcd(n_runs, step) > 1) {
        step++;
    }
    for (int64_t i = 0, run = 0; i < n_runs && n_taken < n_wanted; i++, run = (run + step) % n_runs) {
        for (int64_t at = run * run_length; at < *n && at < (run + 1) * run_length; at++) {
            order[n_taken++] = list[at];
            list[at] = TAKEN;
        }
    }
    for (int64_t i = 0; i < *n; i++) {
        if (list[i] != TAKEN) {
            list[n_left++] = list[i];
        }
    }
    *n = n_left;
    return n_taken;
}

/* What is looked at first: what costs microseconds before what needs a trace, and of that the placement that
 * most programs have, because placements differ in their groups, which cost the most. */
static int32_t turn_of(const struct cs__search *search, const struct cs_strategy *strategy)
{
    struct cs_strategy standard;
    cs_strategy_init(&standard);
    bool is_standard = memcmp(strategy->placement, standard.placement, sizeof standard.placement) == 0;
    return !cs_cost_is_quick(cs__set_cost(search, 0), strategy) ? N_TURNS - 1 : is_standard ? 0 : 1;
}

/* The candidates that keep the rules, in the order in which they are looked at: *n of them. */
static int64_t *choose_order(const struct cs__search *search, int64_t *n)
{
    const struct cs_space *space = search->space;
    int64_t *list = cs_calloc((size_t)space->n_open + 1, sizeof *list);
    int64_t *order = cs_calloc((size_t)space->n_open + 1, sizeof *order);
    *n = 0;
    for (int32_t turn = 0; turn < N_TURNS; turn++) {
        int64_t n_list = 0;
        for (int64_t i = 0; i < space->n_candidates; i++) {
            const struct cs_candidate *c = &space->candidates[i];
            if (!c->rule && turn_of(search, &c->strategy) == turn) {
                list[n_list++] = i;
            }
        }
        for (int64_t part = FIRST_PART; n_list > 0; part *= GROWTH) {
            *n += take_spread(list, &n_list, part, order + *n);
        }
    }
    cs_free(list);
    return order;
}

static bool is_stopped(const struct cs__search *search)
{
    return search->options->stop && *search->options->stop;
}

/* For cs_cost_watch. */
static bool is_over(void *context)
{
    struct look *look = context;
    bool may_end = look->n_fit > 0 && look->first_is_done;
    double end_s = may_end ? look->end_s : look->last_end_s;
    look->is_over = look->is_over || is_stopped(look->search) || (end_s > 0 && cs__now_s() >= end_s);
    return look->is_over;
}

/* One candidate has been seen, with all sets. */
static void count_looked(struct look *look, int64_t candidate)
{
    struct cs__search *search = look->search;
    struct cs_search_result *result = search->result;
    for (int32_t set = 0; set < search->n_sets; set++) {
        look->n_fit += search->outlooks[set * search->space->n_candidates + candidate].fits ? 1 : 0;
    }
    result->looked_at[candidate] = true;
    result->n_looked += search->n_sets;
    if (search->options->progress && result->n_looked % SHOWN_EVERY < search->n_sets) {
        cs__search_show(search);
    }
}

/* For cs_cost_watch: also when it is time to look at what has been prepared. */
static bool is_slice_over(void *context)
{
    struct look *look = context;
    return is_over(look) || cs__now_s() >= look->slice_end_s;
}

/* Look at what has been prepared, even if time is over where most of the work is done: the traces. */
static void look_at_prepared(struct look *look, const int64_t *some, int64_t n)
{
    struct cs__search *search = look->search;
    for (int64_t i = 0; i < n; i++) {
        const struct cs_candidate *c = &search->space->candidates[some[i]];
        if (i > 0 && cs_cost_is_quick(cs__set_cost(search, 0), &c->strategy) && is_over(look)) {
            continue;
        }
        for (int32_t set = 0; set < search->n_sets; set++) {
            look_at(search, set * search->space->n_candidates + some[i]);
        }
        count_looked(look, some[i]);
    }
}

/* Prepare and look by turns: time may be over at any moment, and what is prepared only is of no use. */
static cs_status look_at_some(struct look *look, const int64_t *some, int64_t n, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__search *search = look->search;
    const struct cs_strategy **list = cs_calloc((size_t)n + 1, sizeof *list);
    int64_t n_ready = 0;
    for (int64_t i = 0; i < n; i++) {
        list[i] = &search->space->candidates[some[i]].strategy;
    }
    for (int64_t at = 0; at < n && !is_over(look); at += n_ready) {
        double start_s = cs__now_s();
        look->slice_end_s = start_s + fmax(SLICE_S, SLICE_FRAC * (start_s - search->started_s));
        n_ready = n - at;
        for (int32_t set = 0; set < search->n_sets; set++) {
            CS_TRY(cs_cost_prepare(cs__set_cost(search, set), list + at, n_ready, &n_ready, err));
        }
        look_at_prepared(look, some + at, n_ready);
    }
out:
    cs_free(list);
    return st;
}

/* A candidate whose family is known not to fit. */
static void take_family(struct look *look, int64_t candidate)
{
    struct cs__search *search = look->search;
    const struct cs_evaluation *known = search->family_oom[search->space->candidates[candidate].family];
    for (int32_t set = 0; set < search->n_sets; set++) {
        (void)cs__search_count(search, set * search->space->n_candidates + candidate, known);
    }
    count_looked(look, candidate);
}

/* One part: of those that need a trace one of each family first. */
static cs_status look_at_part(struct look *look, const int64_t *part, int64_t n, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__search *search = look->search;
    int64_t *first = cs_calloc((size_t)n + 1, sizeof *first);
    int64_t *rest = cs_calloc((size_t)n + 1, sizeof *rest);
    int64_t n_first = 0;
    int64_t n_rest = 0;
    int64_t n_left = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct cs_candidate *c = &search->space->candidates[part[i]];
        if (look->is_met[c->family] && !cs_cost_is_quick(cs__set_cost(search, 0), &c->strategy)) {
            rest[n_rest++] = part[i];
        } else {
            first[n_first++] = part[i];
        }
        look->is_met[c->family] = true;
    }
    CS_TRY(look_at_some(look, first, n_first, err));
    for (int64_t i = 0; i < n_rest && !is_over(look); i++) {
        if (search->family_oom[search->space->candidates[rest[i]].family]) {
            take_family(look, rest[i]);
        } else {
            rest[n_left++] = rest[i];
        }
    }
    if (!is_over(look)) {
        CS_TRY(look_at_some(look, rest, n_left, err));
    }
out:
    cs_free(first);
    cs_free(rest);
    return st;
}

/* The peak above which the study takes no strategy, with a little room for rounding. */
static double peak_limit_bytes(const struct cs_study *study)
{
    const double any_bytes = 1e12;
    double not_counted_bytes = any_bytes - cs_study_counted_bytes(study, any_bytes);
    double limit_bytes =
        cs_study_device_memory_bytes(study) / study->constraints.memory_margin + not_counted_bytes;
    return limit_bytes * (1 + 1e-9) + 1;
}

static void watch(const struct cs__search *search, cs_watch_fn ends, void *context)
{
    for (int32_t set = 0; set < search->n_sets; set++) {
        cs_cost_watch(cs__set_cost(search, set), ends, context);
    }
}

static cs_status look_at_all(struct cs__search *search, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_search_result *result = search->result;
    double limit_s = search->study->search.time_limit_s;
    double left_s = fmax(limit_s - search->options->spent_s, 0);
    struct look look = {.search = search};
    int64_t n = 0;
    int64_t *order = choose_order(search, &n);
    if (limit_s > 0) {
        bool simulates = search->options->mode == CS_SEARCH_SIMULATES;
        look.end_s = search->started_s + (simulates ? LOOK_FRAC : 1) * left_s;
        look.last_end_s = search->started_s + left_s + GRACE_FRAC * CS_SEARCH_GRACE_S;
    }
    look.is_met = cs_calloc((size_t)search->space->n_families + 1, sizeof *look.is_met);
    result->looked_at = cs_calloc((size_t)search->space->n_candidates + 1, sizeof *result->looked_at);
    result->n_looked = 0;
    watch(search, is_slice_over, &look);
    for (int32_t set = 0; set < search->n_sets; set++) {
        cs_cost_limit(cs__set_cost(search, set), peak_limit_bytes(search->study));
    }
    for (int64_t part = FIRST_PART, at = 0; at < n && !is_over(&look); at += part, part *= GROWTH) {
        CS_TRY(look_at_part(&look, order + at, part < n - at ? part : n - at, err));
        look.first_is_done = true;
    }
    if (result->n_looked < search->n_sets * n) {
        result->end = is_stopped(search) ? CS_SEARCH_INTERRUPTED : CS_SEARCH_TIME_LIMIT;
    } else {
        cs_free(result->looked_at);
        result->looked_at = NULL;
    }
out:
    cs__search_settle(search);
    watch(search, NULL, NULL);
    cs_free(look.is_met);
    cs_free(order);
    return st;
}

cs_status cs__look_ahead(struct cs__search *search, struct cs_search_problem *problem, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_space *space = search->space;
    bool looks = cs__set_cost(search, 0) != NULL;
    search->outlooks = cs_calloc((size_t)search->n_entries + 1, sizeof *search->outlooks);
    for (int64_t i = 0; i < search->n_entries; i++) {
        bool fits =
            !looks && !space->candidates[cs__entry_candidate(search, i)].rule; /* as far as is known */
        search->outlooks[i] = (struct cs_outlook){fits, (double)INFINITY, (double)NAN, false};
    }
    if (looks) {
        CS_TRY(look_at_all(search, err));
    }
    for (int64_t i = 0; i < search->n_entries; i++) {
        problem->n_fit += search->outlooks[i].fits ? 1 : 0;
    }
    search->result->n_fit = looks ? problem->n_fit : -1;
    problem->outlooks = search->outlooks;
out:
    return st;
}
