/**
 * @file mem.h
 * Memory: checked allocation, arenas, growable arrays.
 *
 * Running out of memory is one fatal handler (STYLE §4.6); sizes that come from an input are checked
 * against limits before they get here.
 */
#ifndef CS_BASE_MEM_H
#define CS_BASE_MEM_H

#include "cs/base/err.h"

#include <stddef.h>
#include <stdint.h>

/** malloc/calloc/realloc that abort with a message when memory is out or n*size overflows. Zero sizes give
 *  a valid pointer. The caller frees with cs_free. */
void *cs_malloc(size_t bytes);
void *cs_calloc(size_t n, size_t size);
void *cs_reallocarray(void *old, size_t n, size_t size);
char *cs_strdup(const char *text);
void cs_free(void *ptr);

struct cs_arena_block;
/** A bump allocator: everything lives until the arena is reset or released. Zero-initialised is valid and
 *  empty. In sanitizer builds each allocation is a block of its own. */
struct cs_arena {
    struct cs_arena_block *head;
    size_t used_bytes;
};

/** Zeroed memory, aligned for any type; never NULL. */
void *cs_arena_alloc(struct cs_arena *arena, size_t bytes);
void *cs_arena_calloc(struct cs_arena *arena, size_t n, size_t size);
char *cs_arena_strdup(struct cs_arena *arena, const char *text);
char *cs_arena_strndup(struct cs_arena *arena, const char *text, size_t n);
char *cs_arena_printf(struct cs_arena *arena, const char *fmt, ...) CS_PRINTF(2, 3);
void *cs_arena_memdup(struct cs_arena *arena, const void *data, size_t bytes);
/** Free everything; the arena is empty and usable again. Safe on a zeroed struct and twice. */
void cs_arena_release(struct cs_arena *arena);

/** An n-element array of T in the arena. */
#define CS_ARENA_NEW(arena, T, n) ((T *)cs_arena_calloc((arena), (size_t)(n), sizeof(T)))

/** Make room for one more element in the heap array `ptr` (element count `n`, capacity `cap`, both
 *  int64_t or int32_t lvalues). */
#define CS_GROW(ptr, n, cap)                                                                                 \
    do {                                                                                                     \
        if ((n) >= (cap)) {                                                                                  \
            (cap) = (cap) ? (cap)*2 : 16;                                                                    \
            (ptr) = cs_reallocarray((ptr), (size_t)(cap), sizeof *(ptr));                                    \
        }                                                                                                    \
    } while (0)

#define CS_COUNT(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

/** Growable text. Zero-initialised is valid and empty. */
struct cs_strbuf {
    char *text; /* NULL or terminated */
    size_t len;
    size_t cap;
};
void cs_strbuf_add(struct cs_strbuf *buf, const char *text);
void cs_strbuf_addn(struct cs_strbuf *buf, const char *text, size_t n);
void cs_strbuf_addf(struct cs_strbuf *buf, const char *fmt, ...) CS_PRINTF(2, 3);
/** The text, "" when empty; borrowed until the next change. */
const char *cs_strbuf_str(const struct cs_strbuf *buf);
void cs_strbuf_release(struct cs_strbuf *buf);

#endif
