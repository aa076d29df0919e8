/**
 * @file table.h
 * Results for people: text of at most 100 columns.
 */
#ifndef CS_REPORTS_TABLE_H
#define CS_REPORTS_TABLE_H

#include "cs/reports/findings.h"

#include <stdio.h>

#define CS_REPORT_COLUMNS 100

/** What a search says. Borrowed. */
struct cs_search_report {
    const struct cs_study *study;
    const struct cs_space *space;
    const struct cs_search_result *result;
};

/** Is a ranked strategy within the model's error of the best (cs_explain_tie_frac)? The best itself is not.
 */
bool cs_report_is_tie(const struct cs_search_report *report, int64_t i);

/** Iteration times of repeated runs with different seeds. */
struct cs_spread {
    int32_t n;
    double mean_s, least_s, most_s;
    double deviation_s; /* standard deviation, n - 1 in the denominator */
};

/** What a simulation says. Borrowed. */
struct cs_simulate_report {
    const struct cs_study *study;
    const struct cs_strategy *strategy;
    const struct cs_evaluation *evaluation;
    const struct cs_trace *trace;
    const struct cs_run *run;
    const struct cs_spread *spread; /* NULL: run once */
    bool explain_folding;
};

/** What the replay of a trace says. Borrowed. */
struct cs_replay_report {
    const char *source; /* where the trace was read */
    const struct cs_platform *platform;
    const struct cs_trace *trace;
    const struct cs_run *run;
    double memory_margin; /* @unit ratio >= 1, as constraints.memory_margin of a study */
    bool explain_folding;
};
/** Least memory of the devices that the ranks run on, in bytes. */
double cs_report_replay_memory_bytes(const struct cs_replay_report *report);
/** Does the peak times the margin fit in it? The judgement of cs_evaluation_judge for a trace. */
bool cs_report_replay_fits(const struct cs_replay_report *report);

/** The ranking (the study's `top` best), why the others are not in it, warnings, what limits the winner.
 *  `color`: ANSI emphasis. Write errors stay on the stream (ferror). */
void cs_report_search_table(FILE *out, const struct cs_search_report *report, bool color);
/** One strategy: time, its shares, memory by category against the card, what limits it, warnings. */
void cs_report_simulate_text(FILE *out, const struct cs_simulate_report *report, bool color);
/** A replayed trace: time, its shares, memory, what limits it. */
void cs_report_replay_text(FILE *out, const struct cs_replay_report *report);
/** How large the space is and how each rule and the memory cut it, without simulating; the result is one of
 *  CS_SEARCH_LOOKS. */
void cs_report_space_text(FILE *out, const struct cs_search_report *report, bool color);

#endif
