/* Our own trace format: words, figures, runs of ranks. */
#include "native_priv.h"

#include "cs/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const phase_names[] = {"forward", "backward", "recompute", "gradient", "optimizer", NULL};

/* Figures of an operation; the communicator, channel or event has a name of its own. */
#define OP_FIGURES(place)                                                                                    \
    {                                                                                                        \
        {place, CS__FIGURE_U8, offsetof(struct cs_op, comm), 0, UINT8_MAX, 0, NULL},                         \
            {"coll", CS__FIGURE_NAME, offsetof(struct cs_op, coll), 0, 0, 0, cs_coll_names},                 \
            {"mem", CS__FIGURE_NAME, offsetof(struct cs_op, mem), 0, 0, 0, cs_mem_names},                    \
            {"bytes", CS__FIGURE_I64, offsetof(struct cs_op, bytes), 0, INT64_MAX, 0, NULL},                 \
            {"cost", CS__FIGURE_I32, offsetof(struct cs_op, cost), -1, INT32_MAX, -1, NULL},                 \
            {"stream", CS__FIGURE_U8, offsetof(struct cs_op, stream), 0, UINT8_MAX, 0, NULL},                \
            {"phase", CS__FIGURE_NAME, offsetof(struct cs_op, phase), 0, 0, 0, phase_names},                 \
            {"layer", CS__FIGURE_I16, offsetof(struct cs_op, layer), -1, INT16_MAX, -1, NULL},               \
            {"label", CS__FIGURE_I32, offsetof(struct cs_op, label), 0, INT32_MAX, 0, NULL},                 \
    }
static const struct cs__figure comm_op[] = OP_FIGURES("comm");
static const struct cs__figure chan_op[] = OP_FIGURES("chan");
static const struct cs__figure event_op[] = OP_FIGURES("event");
enum { PLACE = 1, COLL = 2, MEM = 4, BYTES = 8, COST = 16 };
#define FIGURES(list, required)                                                                              \
    {                                                                                                        \
        list, CS_COUNT(list), required                                                                       \
    }
const struct cs__op_form cs__op_forms[CS_N_OP_TYPES] = {
    [CS_OP_COMPUTE] = {"compute", FIGURES(comm_op, COST)},
    [CS_OP_COLLECTIVE] = {"collective", FIGURES(comm_op, PLACE | COLL | BYTES)},
    [CS_OP_SEND] = {"send", FIGURES(chan_op, PLACE | BYTES)},
    [CS_OP_RECV] = {"recv", FIGURES(chan_op, PLACE | BYTES)},
    [CS_OP_ALLOC] = {"alloc", FIGURES(comm_op, MEM | BYTES)},
    [CS_OP_FREE] = {"free", FIGURES(comm_op, MEM | BYTES)},
    [CS_OP_RECORD] = {"record", FIGURES(event_op, PLACE)},
    [CS_OP_WAIT] = {"wait", FIGURES(event_op, PLACE)},
};

static const struct cs__figure size_list[] = {
    {"ranks", CS__FIGURE_I32, offsetof(struct cs_trace, n_ranks), 1, CS__NATIVE_RANKS_MAX, 0, NULL},
    {"roles", CS__FIGURE_I32, offsetof(struct cs_trace, n_programs), 1, CS__NATIVE_RANKS_MAX, 0, NULL},
    {"blocks", CS__FIGURE_I32, offsetof(struct cs_trace, n_blocks), 0, CS__NATIVE_BLOCKS_MAX, 0, NULL},
};
const struct cs__figures cs__size_figures = FIGURES(size_list, 7);

static const struct cs__figure worth_list[] = {
    {"model_flop", CS__FIGURE_REAL, offsetof(struct cs_trace, model_flop), 0, 0, 0, NULL},
    {"tokens", CS__FIGURE_REAL, offsetof(struct cs_trace, n_tokens), 0, 0, 0, NULL},
    {"model_state_bytes", CS__FIGURE_REAL, offsetof(struct cs_trace, model_state_bytes), 0, 0, 0, NULL},
    {"cluster_state_bytes", CS__FIGURE_REAL, offsetof(struct cs_trace, cluster_state_bytes), 0, 0, 0, NULL},
    {"attention_frac", CS__FIGURE_REAL, offsetof(struct cs_trace, attention_frac), 0, 1, 0, NULL},
};
const struct cs__figures cs__worth_figures = FIGURES(worth_list, 0);

static const struct cs__figure cost_list[] = {
    {"flop", CS__FIGURE_REAL, offsetof(struct cs_op_cost, flop), 0, 0, 0, NULL},
    {"bytes", CS__FIGURE_REAL, offsetof(struct cs_op_cost, bytes), 0, 0, 0, NULL},
    {"m", CS__FIGURE_I64, offsetof(struct cs_op_cost, m), 0, INT64_MAX, 0, NULL},
    {"n", CS__FIGURE_I64, offsetof(struct cs_op_cost, n), 0, INT64_MAX, 0, NULL},
    {"k", CS__FIGURE_I64, offsetof(struct cs_op_cost, k), 0, INT64_MAX, 0, NULL},
    {"batch", CS__FIGURE_I64, offsetof(struct cs_op_cost, batch), 0, INT64_MAX, 1, NULL},
    {"kernels", CS__FIGURE_I32, offsetof(struct cs_op_cost, n_kernels), 0, INT32_MAX, 1, NULL},
    {"fixed_s", CS__FIGURE_REAL, offsetof(struct cs_op_cost, fixed_s), 0, 0, 0, NULL},
};
const struct cs__figures cs__cost_figures = FIGURES(cost_list, 0);

static const struct cs__figure comm_list[] = {
    {"stream", CS__FIGURE_I32, offsetof(struct cs_comm, stream), 0, UINT8_MAX, 0, NULL},
    {"spans_stages", CS__FIGURE_FLAG, offsetof(struct cs_comm, spans_stages), 0, 1, 0, NULL},
};
const struct cs__figures cs__comm_figures = FIGURES(comm_list, 1);

static const struct cs__figure chan_list[] = {
    {"stream", CS__FIGURE_I32, offsetof(struct cs_chan, stream), 0, UINT8_MAX, 0, NULL},
};
const struct cs__figures cs__chan_figures = FIGURES(chan_list, 1);

static const struct cs__figure program_list[] = {
    {"stage", CS__FIGURE_I32, offsetof(struct cs_program, stage), INT32_MIN, INT32_MAX, 0, NULL},
    {"state_bytes", CS__FIGURE_REAL, offsetof(struct cs_program, state_bytes), 0, 0, 0, NULL},
};
const struct cs__figures cs__program_figures = FIGURES(program_list, 0);

/* A figure in a record, as an integer; reals are looked at in place. */
static int64_t load(const struct cs__figure *f, const void *record)
{
    const char *at = (const char *)record + f->offset;
    switch (f->type) {
    case CS__FIGURE_I16:
        return *(const int16_t *)(const void *)at;
    case CS__FIGURE_I32:
        return *(const int32_t *)(const void *)at;
    case CS__FIGURE_I64:
        return *(const int64_t *)(const void *)at;
    case CS__FIGURE_FLAG:
        return *(const bool *)(const void *)at;
    case CS__FIGURE_U8:
    case CS__FIGURE_NAME:
    case CS__FIGURE_REAL:
        break;
    }
    return *(const uint8_t *)at;
}

static void store(const struct cs__figure *f, void *record, int64_t value)
{
    char *at = (char *)record + f->offset;
    switch (f->type) {
    case CS__FIGURE_I16:
        *(int16_t *)(void *)at = (int16_t)value;
        break;
    case CS__FIGURE_I32:
        *(int32_t *)(void *)at = (int32_t)value;
        break;
    case CS__FIGURE_I64:
        *(int64_t *)(void *)at = value;
        break;
    case CS__FIGURE_FLAG:
        *(bool *)(void *)at = value != 0;
        break;
    case CS__FIGURE_REAL:
        *(double *)(void *)at = (double)value;
        break;
    case CS__FIGURE_U8:
    case CS__FIGURE_NAME:
        *(uint8_t *)at = (uint8_t)value;
        break;
    }
}

static double real_of(const struct cs__figure *f, const void *record)
{
    return *(const double *)(const void *)((const char *)record + f->offset);
}

bool cs__figures_write(FILE *stream, const struct cs__figures *figures, const void *record)
{
    bool sound = true;
    for (int32_t i = 0; i < figures->n; i++) {
        const struct cs__figure *f = &figures->list[i];
        bool required = figures->required >> i & 1;
        if (f->type == CS__FIGURE_REAL) {
            double value = real_of(f, record);
            sound = sound && isfinite(value) && !signbit(value);
            if (required || value != 0) {
                fprintf(stream, " %s=%.17g", f->key, value);
            }
            continue;
        }
        int64_t value = load(f, record);
        if (!required && value == f->usual) {
            continue;
        }
        if (f->type == CS__FIGURE_NAME) {
            fprintf(stream, " %s=%s", f->key, f->names[value]);
        } else {
            fprintf(stream, " %s=%" PRId64, f->key, value);
        }
    }
    return sound;
}

struct cs_loc cs__lines_at(const struct cs__lines *lines)
{
    return (struct cs_loc){.file = lines->file, .line = lines->line};
}

char *cs__lines_next(struct cs__lines *lines)
{
    while (lines->next < lines->end) {
        char *line = lines->next;
        char *end = memchr(line, '\n', (size_t)(lines->end - line));
        if (end == NULL) {
            end = lines->end; /* the text is terminated */
        }
        *end = '\0';
        lines->next = end < lines->end ? end + 1 : end;
        lines->line++;
        size_t blank = strspn(line, " \t\r");
        if (line[blank] != '\0' && line[blank] != '#') {
            return line;
        }
    }
    return NULL;
}

char *cs__word(char **cursor)
{
    char *word = *cursor + strspn(*cursor, " \t\r");
    if (*word == '\0') {
        return NULL;
    }
    char *end = word + strcspn(word, " \t\r");
    *cursor = end;
    if (*end != '\0') {
        *end = '\0';
        *cursor = end + 1;
    }
    return word;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/** One character of a quoted text from `from`; returns its length in the text, 0 when it is broken. */
static int unescape(const char *from, char *to)
{
    if (from[0] != '\\') {
        *to = from[0];
        return from[0] == '\0' ? 0 : 1;
    }
    if (from[1] == '"' || from[1] == '\\') {
        *to = from[1];
        return 2;
    }
    int high = from[1] == 'x' ? hex_digit(from[2]) : -1;
    int low = high >= 0 ? hex_digit(from[3]) : -1;
    if (low < 0 || high * 16 + low == 0) {
        return 0;
    }
    *to = (char)(high * 16 + low);
    return 4;
}

cs_status cs__quoted(const struct cs__lines *lines, char **cursor, const char *what, struct cs_arena *arena,
                     const char **text, struct cs_err *err)
{
    char *from = *cursor + strspn(*cursor, " \t\r");
    if (*from != '"') {
        return cs_err_set(err, CS_E_INPUT, cs__lines_at(lines), "the %s must be a text in double quotes",
                          what);
    }
    char *start = ++from;
    char *to = from; /* never longer than what it is read from */
    while (*from != '"') {
        int length = unescape(from, to);
        if (length == 0) {
            return cs_err_set(err, CS_E_INPUT, cs__lines_at(lines),
                              "the %s does not end with a double quote, or has an escape that is not \\\", "
                              "\\\\ or \\x and two hexadecimal digits",
                              what);
        }
        from += length;
        to++;
    }
    const char *read = cs_arena_strndup(arena, start, (size_t)(to - start));
    if (cs__has_control(read)) {
        return cs_err_set(err, CS_E_INPUT, cs__lines_at(lines),
                          "the %s holds a control character, which reports would pass on to a terminal",
                          what);
    }
    *text = read;
    *cursor = from + 1;
    return CS_OK;
}

cs_status cs__no_more(const struct cs__lines *lines, char **cursor, struct cs_err *err)
{
    char shown[CS_TEXT_CLIP_BYTES];
    const char *word = cs__word(cursor);
    return word == NULL ? CS_OK
                        : cs_err_set(err, CS_E_INPUT, cs__lines_at(lines), "'%s' is too much on this line",
                                     cs_text_clip(word, shown));
}

void cs__figures_reset(const struct cs__figures *figures, void *record)
{
    for (int32_t i = 0; i < figures->n; i++) {
        store(&figures->list[i], record, figures->list[i].usual);
    }
}

static cs_status unknown_figure(const struct cs__lines *lines, const struct cs__figures *figures,
                                const char *word, struct cs_err *err)
{
    char shown[CS_TEXT_CLIP_BYTES];
    struct cs_strbuf known = {0};
    for (int32_t i = 0; i < figures->n; i++) {
        cs_strbuf_addf(&known, "%s%s", i > 0 ? ", " : "", figures->list[i].key);
    }
    cs_status st = cs_err_set(err, CS_E_INPUT, cs__lines_at(lines),
                              "'%s' is not a figure of this line: KEY=VALUE with a key among %s",
                              cs_text_clip(word, shown), cs_strbuf_str(&known));
    cs_strbuf_release(&known);
    return st;
}

static cs_status read_value(const struct cs__lines *lines, const struct cs__figure *f, const char *text,
                            void *record, struct cs_err *err)
{
    struct cs_loc at = cs__lines_at(lines);
    cs_status st = CS_OK;
    int64_t value = 0;
    if (f->type == CS__FIGURE_REAL) {
        double real = 0;
        CS_TRY(cs_real_parse(text, f->key, at, &real, err));
        if (signbit(real)) {
            st = cs_err_set(err, CS_E_INPUT, at, "'%s' is %g, but must not be negative", f->key, real);
            goto out;
        }
        if (f->max > 0 && real > (double)f->max) {
            st = cs_err_set(err, CS_E_INPUT, at, "'%s' is %g, expected 0 to %" PRId64, f->key, real, f->max);
            goto out;
        }
        *(double *)(void *)((char *)record + f->offset) = real;
        goto out;
    }
    if (f->type == CS__FIGURE_NAME) {
        value = cs_text_index(text, f->names);
        if (value < 0) {
            char shown[CS_TEXT_CLIP_BYTES];
            const char *near = cs_text_nearest(text, f->names);
            st = cs_err_set(err, CS_E_INPUT, at, "'%s' is not a value of '%s'; %s '%s'",
                            cs_text_clip(text, shown), f->key, near ? "did you mean" : "one is",
                            near ? near : f->names[0]);
            goto out;
        }
    } else {
        CS_TRY(cs_int_parse(text, f->min, f->max, f->key, at, &value, err));
    }
    store(f, record, value);
out:
    return st;
}

cs_status cs__figures_read(const struct cs__lines *lines, char **cursor, const struct cs__figures *figures,
                           void *record, struct cs_err *err)
{
    cs_status st = CS_OK;
    uint32_t seen = 0;
    for (char *word = cs__word(cursor); word != NULL; word = cs__word(cursor)) {
        char *equals = strchr(word, '=');
        int32_t i = 0;
        size_t length = equals != NULL ? (size_t)(equals - word) : 0;
        while (i < figures->n && (strncmp(word, figures->list[i].key, length) != 0 ||
                                  figures->list[i].key[length] != '\0' || length == 0)) {
            i++;
        }
        if (i == figures->n) {
            st = unknown_figure(lines, figures, word, err);
            goto out;
        }
        if (seen >> i & 1) {
            st =
                cs_err_set(err, CS_E_INPUT, cs__lines_at(lines), "'%s' is given twice", figures->list[i].key);
            goto out;
        }
        seen |= UINT32_C(1) << i;
        CS_TRY(read_value(lines, &figures->list[i], equals + 1, record, err));
    }
    for (int32_t i = 0; i < figures->n; i++) {
        if (figures->required >> i & ~(seen >> i) & 1) {
            st = cs_err_set(err, CS_E_INPUT, cs__lines_at(lines), "'%s' is missing on this line",
                            figures->list[i].key);
            goto out;
        }
    }
out:
    return st;
}

/** Decimal digits to a number up to the largest rank; false when there are none or too many. */
static bool take_number(const char **at, int64_t *value)
{
    size_t digits = strspn(*at, "0123456789");
    *value = 0;
    for (size_t i = 0; i < digits && *value <= CS__NATIVE_RANKS_MAX; i++) {
        *value = *value * 10 + ((*at)[i] - '0');
    }
    *at += digits;
    return digits > 0 && *value <= CS__NATIVE_RANKS_MAX;
}

cs_status cs__run_read(const struct cs__lines *lines, const char *word, int32_t n_ranks, struct cs__run *run,
                       struct cs_err *err)
{
    const char *at = word;
    int64_t first = 0;
    int64_t step = 1;
    bool sound = take_number(&at, &first);
    int64_t last = first;
    if (sound && strncmp(at, "..", 2) == 0) {
        at += 2;
        sound = take_number(&at, &last);
        if (sound && *at == '/') {
            bool down = at[1] == '-';
            at += down ? 2 : 1;
            sound = take_number(&at, &step) && step > 0;
            step = down ? -step : step;
        }
    }
    sound = sound && *at == '\0' && first < n_ranks && last < n_ranks && (last - first) % step == 0 &&
            (last - first) / step >= 0;
    if (!sound) {
        char shown[CS_TEXT_CLIP_BYTES];
        return cs_err_set(err, CS_E_INPUT, cs__lines_at(lines),
                          "'%s' are not ranks: N, FIRST..LAST or FIRST..LAST/STEP with ranks below %d",
                          cs_text_clip(word, shown), (int)n_ranks);
    }
    *run = (struct cs__run){(int32_t)first, (int32_t)step, (int32_t)((last - first) / step) + 1};
    return CS_OK;
}
