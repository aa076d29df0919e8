/**
 * @file text_priv.h
 * Small pieces of text that tables share.
 */
#ifndef CS_REPORTS_TEXT_PRIV_H
#define CS_REPORTS_TEXT_PRIV_H

#include "cs/reports/json.h"
#include "cs/reports/table.h"

enum cs__emphasis { CS__PLAIN, CS__STRONG, CS__WARNING };

/** 1234567 -> "1,234,567"; returns buf. */
char *cs__count(int64_t n, char *buf, size_t buf_bytes);
/** Text of a key's value ("yes"/"no" for switches, names for names); returns buf or a static text. */
const char *cs__key_text(const struct cs_strategy *strategy, enum cs_key key, char *buf, size_t buf_bytes);
/** A number for each place, "5/6/6/5"; "" for none; returns buf. */
#define CS__LIST_TEXT_MAX (4 * CS_PLACES_MAX + 8)
char *cs__list_text(const struct cs_per_place *list, char *buf, size_t buf_bytes);
/** " all-reduce=ring": what the study's lists of algorithms are in a set (cs_study_algorithm_set); "" without
 *  lists; returns buf. */
const char *cs__algorithms_text(const struct cs_study *study, int32_t set, char *buf, size_t buf_bytes);
/** The same as an object, {"all-reduce": "ring"}. A new reference. */
json_t *cs__algorithms_json(const struct cs_study *study, int32_t set);
/** Write `text`, emphasised when `color`. */
void cs__emphasise(FILE *out, bool color, enum cs__emphasis emphasis, const char *text);
/** "warning: TEXT" on a line. */
void cs__warning_line(FILE *out, bool color, const char *text);
/** Two lines on what was asked: model, platform, batch. */
void cs__inputs(FILE *out, const struct cs_study *study);
/** `label` and `text` broken at commas or spaces into lines of CS_REPORT_COLUMNS, hanging under the text. */
void cs__paragraph(FILE *out, const char *label, const char *text);

#endif
