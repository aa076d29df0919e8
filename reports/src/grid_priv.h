/**
 * @file grid_priv.h
 * A table of texts, printed with columns as wide as their widest cell.
 */
#ifndef CS_REPORTS_GRID_PRIV_H
#define CS_REPORTS_GRID_PRIV_H

#include "cs/base/mem.h"

#include <stdbool.h>
#include <stdio.h>

#define CS__GRID_COLUMNS_MAX 32

struct cs__grid_column {
    const char *title[2]; /* two header lines; "" = none */
    bool left;            /* aligned left */
    int32_t gap;          /* spaces before it */
};

/** Zero-initialised is empty. Texts live in its arena. */
struct cs__grid {
    struct cs_arena arena;
    int32_t n_columns;
    struct cs__grid_column columns[CS__GRID_COLUMNS_MAX];
    int32_t n_rows;
    int32_t cap_rows;
    const char **cells; /* n_rows x CS__GRID_COLUMNS_MAX */
};

/** @return its number. Add all columns before the first row. */
int32_t cs__grid_column(struct cs__grid *grid, const char *title, const char *subtitle, bool left,
                        int32_t gap);
void cs__grid_row(struct cs__grid *grid);
/** Next cell of the last row: columns in order; the text is copied. */
void cs__grid_cell(struct cs__grid *grid, int32_t column, const char *fmt, ...) CS_PRINTF(3, 4);
/** Width in characters of the widest line. */
int32_t cs__grid_width(const struct cs__grid *grid);
/** Header (strong when `color`) and rows, no trailing spaces. */
void cs__grid_print(const struct cs__grid *grid, FILE *out, bool color);
void cs__grid_release(struct cs__grid *grid);

#endif
