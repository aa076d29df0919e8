#include "cs/base/mem.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define SEPARATE_BLOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEPARATE_BLOCKS 1
#endif
#endif
#ifndef SEPARATE_BLOCKS
#define SEPARATE_BLOCKS 0
#endif

/* Arena blocks double from the first to the second size; what does not fit gets a block of its own. */
enum { BLOCK_MIN_BYTES = 4096, BLOCK_MAX_BYTES = 1 << 20 };

struct cs_arena_block {
    struct cs_arena_block *next;
    size_t cap_bytes;
    size_t used_bytes;
    _Alignas(max_align_t) unsigned char data[];
};

/* The one handler for memory that is out (STYLE 4.6): nothing in the program could go on without it. */
static noreturn void out_of_memory(size_t n, size_t size)
{
    (void)fprintf(stderr, "clustersim: out of memory (%zu x %zu bytes)\n", n, size);
    abort();
}

void *cs_malloc(size_t bytes)
{
    void *ptr = malloc(bytes ? bytes : 1);
    if (!ptr) {
        out_of_memory(1, bytes);
    }
    return ptr;
}

void *cs_calloc(size_t n, size_t size)
{
    void *ptr = n && size ? calloc(n, size) : calloc(1, 1);
    if (!ptr) {
        out_of_memory(n, size);
    }
    return ptr;
}

void *cs_reallocarray(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        out_of_memory(n, size);
    }
    void *ptr = realloc(old, bytes ? bytes : 1);
    if (!ptr) {
        out_of_memory(n, size);
    }
    return ptr;
}

char *cs_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(cs_malloc(bytes), text, bytes);
}

void cs_free(void *ptr)
{
    free(ptr);
}

static struct cs_arena_block *new_block(size_t cap_bytes)
{
    size_t bytes;
    if (__builtin_add_overflow(sizeof(struct cs_arena_block), cap_bytes, &bytes)) {
        out_of_memory(1, cap_bytes);
    }
    struct cs_arena_block *block = cs_calloc(1, bytes); /* zeroed here once: blocks are never reused */
    block->cap_bytes = cap_bytes;
    return block;
}

/* A block with room for `bytes`; the head stays the block that small requests are cut from. */
static struct cs_arena_block *block_for(struct cs_arena *arena, size_t bytes)
{
    struct cs_arena_block *head = arena->head;
    if (!SEPARATE_BLOCKS && head && head->cap_bytes - head->used_bytes >= bytes) {
        return head;
    }
    size_t cap_bytes = bytes;
    if (!SEPARATE_BLOCKS) {
        size_t next_bytes = head ? head->cap_bytes * 2 : BLOCK_MIN_BYTES;
        next_bytes = next_bytes < BLOCK_MIN_BYTES ? BLOCK_MIN_BYTES : next_bytes;
        next_bytes = next_bytes > BLOCK_MAX_BYTES ? BLOCK_MAX_BYTES : next_bytes;
        if (bytes > next_bytes / 4 && head) { /* a large one would waste the rest of the head */
            struct cs_arena_block *own = new_block(bytes);
            own->next = head->next;
            head->next = own;
            return own;
        }
        cap_bytes = bytes > next_bytes ? bytes : next_bytes;
    }
    struct cs_arena_block *block = new_block(cap_bytes);
    block->next = head;
    arena->head = block;
    return block;
}

void *cs_arena_alloc(struct cs_arena *arena, size_t bytes)
{
    size_t align = _Alignof(max_align_t);
    size_t padded = bytes ? bytes : 1;
    if (__builtin_add_overflow(padded, align - 1, &padded)) {
        out_of_memory(1, bytes);
    }
    padded -= padded % align;
    /* Separate blocks end exactly where the allocation does, so that the sanitizer sees every overrun. */
    size_t taken = SEPARATE_BLOCKS ? bytes : padded;
    struct cs_arena_block *block = block_for(arena, taken);
    void *ptr = block->data + block->used_bytes;
    block->used_bytes += taken;
    arena->used_bytes += padded;
    return ptr;
}

void *cs_arena_calloc(struct cs_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        out_of_memory(n, size);
    }
    return cs_arena_alloc(arena, bytes);
}

void *cs_arena_memdup(struct cs_arena *arena, const void *data, size_t bytes)
{
    void *copy = cs_arena_alloc(arena, bytes);
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    return copy;
}

char *cs_arena_strdup(struct cs_arena *arena, const char *text)
{
    return cs_arena_memdup(arena, text, strlen(text) + 1);
}

char *cs_arena_strndup(struct cs_arena *arena, const char *text, size_t n)
{
    size_t len = strnlen(text, n);
    char *copy = cs_arena_alloc(arena, len + 1);
    memcpy(copy, text, len);
    return copy;
}

/* Length of the formatted text; a format that cannot be printed is a bug. */
CS_PRINTF(1, 0)
static size_t format_length(const char *fmt, va_list ap)
{
    va_list copy;
    va_copy(copy, ap);
    int n = vsnprintf(NULL, 0, fmt, copy);
    va_end(copy);
    CS_ASSERT(n >= 0);
    return (size_t)n;
}

char *cs_arena_printf(struct cs_arena *arena, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    size_t len = format_length(fmt, ap);
    char *text = cs_arena_alloc(arena, len + 1);
    (void)vsnprintf(text, len + 1, fmt, ap);
    va_end(ap);
    return text;
}

void cs_arena_release(struct cs_arena *arena)
{
    struct cs_arena_block *block = arena->head;
    while (block) {
        struct cs_arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct cs_arena){0};
}

/* Room for `more` bytes and the terminator. */
static void strbuf_reserve(struct cs_strbuf *buf, size_t more)
{
    size_t need;
    if (__builtin_add_overflow(buf->len + 1, more, &need)) {
        out_of_memory(1, more);
    }
    if (need > buf->cap) {
        size_t doubled = buf->cap > SIZE_MAX / 2 ? SIZE_MAX : buf->cap * 2;
        size_t cap = need < 64 ? 64 : need;
        cap = cap < doubled ? doubled : cap;
        buf->text = cs_reallocarray(buf->text, cap, 1);
        buf->cap = cap;
    }
}

void cs_strbuf_addn(struct cs_strbuf *buf, const char *text, size_t n)
{
    strbuf_reserve(buf, n);
    if (n > 0) {
        memcpy(buf->text + buf->len, text, n);
    }
    buf->len += n;
    buf->text[buf->len] = '\0';
}

void cs_strbuf_add(struct cs_strbuf *buf, const char *text)
{
    cs_strbuf_addn(buf, text, strlen(text));
}

void cs_strbuf_addf(struct cs_strbuf *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    size_t len = format_length(fmt, ap);
    strbuf_reserve(buf, len);
    (void)vsnprintf(buf->text + buf->len, len + 1, fmt, ap);
    va_end(ap);
    buf->len += len;
}

const char *cs_strbuf_str(const struct cs_strbuf *buf)
{
    return buf->text ? buf->text : "";
}

void cs_strbuf_release(struct cs_strbuf *buf)
{
    cs_free(buf->text);
    *buf = (struct cs_strbuf){0};
}
