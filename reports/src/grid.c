#include "grid_priv.h"

#include "text_priv.h"

#include <stdarg.h>
#include <string.h>

int32_t cs__grid_column(struct cs__grid *grid, const char *title, const char *subtitle, bool left,
                        int32_t gap)
{
    CS_ASSERT(grid->n_columns < CS__GRID_COLUMNS_MAX && grid->n_rows == 0);
    grid->columns[grid->n_columns] = (struct cs__grid_column){{title, subtitle}, left, gap};
    return grid->n_columns++;
}

static const char **row_cells(const struct cs__grid *grid, int32_t row)
{
    return grid->cells + (ptrdiff_t)row * CS__GRID_COLUMNS_MAX;
}

void cs__grid_row(struct cs__grid *grid)
{
    if (grid->n_rows == grid->cap_rows) {
        grid->cap_rows = grid->cap_rows ? 2 * grid->cap_rows : 16;
        grid->cells =
            cs_reallocarray(grid->cells, (size_t)grid->cap_rows, CS__GRID_COLUMNS_MAX * sizeof *grid->cells);
    }
    const char **cells = row_cells(grid, grid->n_rows++);
    for (int32_t i = 0; i < CS__GRID_COLUMNS_MAX; i++) {
        cells[i] = "";
    }
}

void cs__grid_cell(struct cs__grid *grid, int32_t column, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    row_cells(grid, grid->n_rows - 1)[column] = cs_arena_strdup(&grid->arena, text);
}

static int32_t column_width(const struct cs__grid *grid, int32_t column)
{
    size_t width = strlen(grid->columns[column].title[0]);
    size_t other = strlen(grid->columns[column].title[1]);
    width = other > width ? other : width;
    for (int32_t row = 0; row < grid->n_rows; row++) {
        size_t len = strlen(row_cells(grid, row)[column]);
        width = len > width ? len : width;
    }
    return (int32_t)width;
}

int32_t cs__grid_width(const struct cs__grid *grid)
{
    int32_t width = 0;
    for (int32_t i = 0; i < grid->n_columns; i++) {
        width += grid->columns[i].gap + column_width(grid, i);
    }
    return width;
}

/* One line, without trailing spaces. */
static void print_line(const struct cs__grid *grid, FILE *out, const int *widths, const char *const *cells,
                       bool strong)
{
    struct cs_strbuf line = {0};
    for (int32_t i = 0; i < grid->n_columns; i++) {
        cs_strbuf_addf(&line, "%*s%*s", (int)grid->columns[i].gap, "",
                       grid->columns[i].left ? -widths[i] : widths[i], cells[i]);
    }
    size_t len = line.len;
    while (len > 0 && line.text[len - 1] == ' ') {
        line.text[--len] = '\0';
    }
    cs__emphasise(out, strong, CS__STRONG, cs_strbuf_str(&line));
    (void)fputc('\n', out);
    cs_strbuf_release(&line);
}

void cs__grid_print(const struct cs__grid *grid, FILE *out, bool color)
{
    int widths[CS__GRID_COLUMNS_MAX];
    for (int32_t i = 0; i < grid->n_columns; i++) {
        widths[i] = (int)column_width(grid, i);
    }
    for (int32_t half = 0; half < 2; half++) {
        const char *titles[CS__GRID_COLUMNS_MAX];
        bool any = false;
        for (int32_t i = 0; i < grid->n_columns; i++) {
            titles[i] = grid->columns[i].title[half];
            any = any || titles[i][0] != '\0';
        }
        if (any) {
            print_line(grid, out, widths, titles, color);
        }
    }
    for (int32_t row = 0; row < grid->n_rows; row++) {
        print_line(grid, out, widths, row_cells(grid, row), false);
    }
}

void cs__grid_release(struct cs__grid *grid)
{
    cs_free(grid->cells);
    cs_arena_release(&grid->arena);
    *grid = (struct cs__grid){0};
}
