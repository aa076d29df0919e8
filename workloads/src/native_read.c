/* Our own trace format: reading a folder or a text. */
#include "native_read_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"

#include <stdio.h>
#include <string.h>

/* Of one file. */
#define FILE_MAX_BYTES ((size_t)1 << 30)
/* The check of progress counts waits by rank, stream and event. */
#define COUNTERS_MAX (INT64_C(1) << 27)

cs_status cs__native_bad(const struct cs__native *native, struct cs_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cs_status st = cs_err_vset(err, CS_E_INPUT, cs__lines_at(&native->lines), fmt, ap);
    va_end(ap);
    return st;
}

cs_status cs__native_unknown(const struct cs__native *native, const char *word, const char *const *words,
                             struct cs_err *err)
{
    char shown[CS_TEXT_CLIP_BYTES];
    const char *near = cs_text_nearest(word, words);
    return cs__native_bad(native, err, "'%s' cannot stand here%s%s%s", cs_text_clip(word, shown),
                          near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                          near != NULL ? "'?" : "");
}

/** clustersim-trace VERSION binding, or ... role N. */
static cs_status read_header(struct cs__native *native, char *line, struct cs_err *err)
{
    char shown[CS_TEXT_CLIP_BYTES];
    const char *words[4] = {"", "", "", ""};
    char *cursor = line;
    for (int32_t i = 0; i < 4; i++) {
        const char *word = cs__word(&cursor);
        words[i] = word != NULL ? word : "";
    }
    if (strcmp(words[0], CS__NATIVE_MAGIC) != 0) {
        return cs__native_bad(native, err, "'%s' is not the beginning of a part of a trace: expected '%s'",
                              cs_text_clip(words[0], shown), CS__NATIVE_MAGIC);
    }
    char version[16];
    (void)snprintf(version, sizeof version, "%d", CS__NATIVE_VERSION);
    if (strcmp(words[1], version) != 0) {
        return cs__native_bad(native, err, "version '%s' of the format is not known: expected %s",
                              cs_text_clip(words[1], shown), version);
    }
    char wanted[32] = "binding";
    if (native->bound) {
        (void)snprintf(wanted, sizeof wanted, "role %d", (int)native->role);
    }
    bool role = strcmp(words[2], "role") == 0;
    char found[CS_TEXT_CLIP_BYTES * 2];
    (void)snprintf(found, sizeof found, "%.66s%s%.66s", words[2], role ? " " : "", role ? words[3] : "");
    if (strcmp(found, wanted) != 0) {
        return cs__native_bad(native, err, "this is '%s', but '%s' comes next", cs_text_clip(found, shown),
                              wanted);
    }
    return cs__no_more(&native->lines, &cursor, err);
}

/** All parts of a text; `bytes` without the terminator. The text is changed. */
static cs_status read_parts(struct cs__native *native, char *text, size_t bytes, const char *name,
                            struct cs_err *err)
{
    cs_status st = CS_OK;
    native->lines = (struct cs__lines){.file = name, .next = text, .end = text + bytes};
    const char *nul = memchr(text, '\0', bytes);
    if (nul != NULL) {
        for (const char *at = text; at < nul; at++) {
            native->lines.line += *at == '\n';
        }
        native->lines.line++;
        return cs__native_bad(native, err, "there is a NUL byte in the text");
    }
    for (char *line = cs__lines_next(&native->lines); line != NULL; line = cs__lines_next(&native->lines)) {
        if (native->bound && native->role == native->trace->n_programs) {
            return cs__native_bad(native, err, "the trace ends before this line: it has %d roles",
                                  (int)native->trace->n_programs);
        }
        CS_TRY(read_header(native, line, err));
        CS_TRY(native->bound ? cs__native_role(native, err) : cs__native_binding(native, err));
    }
out:
    return st;
}

static void native_init(struct cs__native *native)
{
    *native = (struct cs__native){.block = -1};
    native->trace = cs_calloc(1, sizeof *native->trace);
    native->comms = cs_calloc(CS__NATIVE_NAMED_MAX, sizeof *native->comms);
    native->chans = cs_calloc(CS__NATIVE_NAMED_MAX, sizeof *native->chans);
}

static void native_release(struct cs__native *native)
{
    if (native->trace != NULL) { /* not handed over: its growing lists are still on the heap */
        cs_free(native->trace->stream_names);
        cs_free(native->trace->event_names);
        cs_free(native->trace->labels);
        cs_free(native->trace->costs);
    }
    cs_trace_free(native->trace);
    cs_free(native->comms);
    cs_free(native->chans);
    cs_free(native->group_first);
    cs_free(native->defined);
    cs_free(native->moved);
    cs_free(native->ops);
    cs_free(native->calls);
}

static void *into_arena(struct cs_arena *arena, void *heap, size_t bytes)
{
    void *copy = cs_arena_memdup(arena, heap, bytes);
    cs_free(heap);
    return copy;
}

/** All parts are there: move the growing lists into the arena, check what the trace promises, hand it over.
 */
static cs_status finish(struct cs__native *native, const char *name, struct cs_trace **trace,
                        struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_trace *made = native->trace;
    if (!native->bound || native->role < made->n_programs) {
        return cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = name},
                          native->bound ? "role %d is missing" : "there is no binding", (int)native->role);
    }
    for (int32_t b = 0; b < made->n_blocks; b++) {
        if (!native->defined[b]) {
            return cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = name},
                              "block %d is in none of the roles", (int)b);
        }
    }
    if ((int64_t)made->n_ranks * made->n_streams * (made->n_events + 1) > COUNTERS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, (struct cs_loc){.file = name},
                          "%d ranks with %d streams and %d events are too many", (int)made->n_ranks,
                          (int)made->n_streams, (int)made->n_events);
    }
    struct cs_arena *arena = &made->arena;
    made->stream_names = into_arena(arena, made->stream_names, sizeof(char *) * (size_t)made->n_streams);
    made->event_names = into_arena(arena, made->event_names, sizeof(char *) * (size_t)made->n_events);
    made->labels = into_arena(arena, made->labels, sizeof(char *) * (size_t)made->n_labels);
    made->costs = into_arena(arena, made->costs, sizeof *made->costs * (size_t)made->n_costs);
    native->trace = NULL;
    st = cs_trace_check(made, err);
    if (st != CS_OK) {
        if (err != NULL && err->file[0] == '\0') {
            (void)snprintf(err->file, sizeof err->file, "%s", name);
        }
        cs_trace_free(made);
        return st;
    }
    *trace = made;
    return CS_OK;
}

cs_status cs_trace_read_native_text(const char *text, size_t bytes, const char *name, struct cs_trace **trace,
                                    struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__native native;
    char *copy = cs_malloc(bytes + 1);
    native_init(&native);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    CS_TRY(read_parts(&native, copy, bytes, name, err));
    CS_TRY(finish(&native, name, trace, err));
out:
    native_release(&native);
    cs_free(copy);
    return st;
}

/** One file, which must hold one part. */
static cs_status read_file(struct cs__native *native, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    char *text = NULL;
    size_t bytes = 0;
    int32_t parts = native->bound + native->role;
    CS_TRY(cs_file_read(path, FILE_MAX_BYTES, &text, &bytes, err));
    CS_TRY(read_parts(native, text, bytes, path, err));
    if (native->bound + native->role != parts + 1) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = path},
                        "the file must hold one part of the trace, not %d",
                        (int)(native->bound + native->role - parts));
    }
out:
    cs_free(text);
    return st;
}

cs_status cs_trace_read_native(const char *dir, struct cs_trace **trace, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__native native;
    struct cs_arena arena = {0};
    native_init(&native);
    const char *path = cs_path_join(&arena, dir, "binding.txt");
    CS_TRY(read_file(&native, path, err));
    for (int32_t role = 0; role < native.trace->n_programs; role++) {
        char name[32];
        (void)snprintf(name, sizeof name, "role-%d.txt", (int)role);
        CS_TRY(read_file(&native, cs_path_join(&arena, dir, name), err));
    }
    CS_TRY(finish(&native, path, trace, err));
out:
    native_release(&native);
    cs_arena_release(&arena);
    return st;
}
