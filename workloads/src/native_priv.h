/**
 * @file native_priv.h
 * Our own trace format: the words of a line, the tables that say which figures a line carries.
 */
#ifndef CS_WORKLOADS_NATIVE_PRIV_H
#define CS_WORKLOADS_NATIVE_PRIV_H

#include "format_priv.h"

#define CS__NATIVE_MAGIC "clustersim-trace"
enum {
    CS__NATIVE_VERSION = 1,
    CS__NATIVE_RANKS_MAX = 1 << 20,
    CS__NATIVE_BLOCKS_MAX = 1 << 20,
    CS__NATIVE_NAMED_MAX = 255,     /* streams, events, communicators, channels: an operation holds 8 bits */
    CS__NATIVE_PLACES_MAX = 1 << 24 /* ranks x (communicators + channels): the arrays that a line makes */
};

/* ---- figures: KEY=VALUE at the end of a line ---- */

enum cs__figure_type {
    CS__FIGURE_U8,
    CS__FIGURE_I16,
    CS__FIGURE_I32,
    CS__FIGURE_I64,
    CS__FIGURE_REAL, /* finite, not negative */
    CS__FIGURE_FLAG, /* bool, 0 or 1 */
    CS__FIGURE_NAME  /* uint8_t, written as one of `names` */
};
struct cs__figure {
    const char *key;
    enum cs__figure_type type;
    size_t offset; /* in the record */
    int64_t min, max;
    int64_t usual; /* left out of the line when it has this value */
    const char *const *names;
};
/** A line's figures and which of them are always written, hence required (a bit each). */
struct cs__figures {
    const struct cs__figure *list;
    int32_t n;
    uint32_t required;
};

/** The figures of an operation, by type; its word. */
struct cs__op_form {
    const char *word;
    struct cs__figures figures;
};
extern const struct cs__op_form cs__op_forms[CS_N_OP_TYPES];
extern const struct cs__figures cs__size_figures;    /* of struct cs_trace: ranks, roles, blocks */
extern const struct cs__figures cs__worth_figures;   /* of struct cs_trace */
extern const struct cs__figures cs__cost_figures;    /* of struct cs_op_cost, after kind and dtype */
extern const struct cs__figures cs__comm_figures;    /* of struct cs_comm, after the name */
extern const struct cs__figures cs__chan_figures;    /* of struct cs_chan, after the name */
extern const struct cs__figures cs__program_figures; /* of struct cs_program, after the name */

/** Write " KEY=VALUE" of each figure that is required or unusual. False when a real is not finite or is
 *  negative. */
bool cs__figures_write(FILE *stream, const struct cs__figures *figures, const void *record);

/* ---- reading ---- */

/** Lines of a text, which is changed in place. */
struct cs__lines {
    const char *file;
    int32_t line; /* of the current one, from 1 */
    char *next;
    char *end;
};
struct cs_loc cs__lines_at(const struct cs__lines *lines);
/** The next line that is neither blank nor a comment, without its end; NULL at the end of the text. */
char *cs__lines_next(struct cs__lines *lines);
/** The next word of a line, NULL at its end. */
char *cs__word(char **cursor);
/** A quoted text, kept in the arena. */
CS_MUST_CHECK cs_status cs__quoted(const struct cs__lines *lines, char **cursor, const char *what,
                                   struct cs_arena *arena, const char **text, struct cs_err *err);
/** Nothing but white space is left. */
CS_MUST_CHECK cs_status cs__no_more(const struct cs__lines *lines, char **cursor, struct cs_err *err);
/** Read the rest of the line as figures into `record`, whose usual values are set. */
CS_MUST_CHECK cs_status cs__figures_read(const struct cs__lines *lines, char **cursor,
                                         const struct cs__figures *figures, void *record, struct cs_err *err);
/** Set the usual value of every figure. */
void cs__figures_reset(const struct cs__figures *figures, void *record);

/** Ranks at equal distances: N, A..B or A..B/STEP. */
struct cs__run {
    int32_t first, step, n;
};
/** One such word, ranks within [0, n_ranks). */
CS_MUST_CHECK cs_status cs__run_read(const struct cs__lines *lines, const char *word, int32_t n_ranks,
                                     struct cs__run *run, struct cs_err *err);

#endif
