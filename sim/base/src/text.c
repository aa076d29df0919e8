#include "cs/base/text.h"

#include "text_priv.h"

#include <string.h>

/* Names longer than this get no suggestion; keys and catalogue names are far shorter. */
enum { NEAREST_MAX_BYTES = 64 };

static unsigned char lower(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte - 'A' + 'a') : byte;
}

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance with neighbours exchanged counting once (optimal string alignment), ASCII case ignored. Both
 * lengths are at most NEAREST_MAX_BYTES. Three rows suffice: a transposition looks two rows back. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][NEAREST_MAX_BYTES + 1];
    for (size_t j = 0; j <= b_len; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
            size_t best = min_of(above[j - 1] + change, min_of(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
                best = min_of(best, above2[j - 2] + 1);
            }
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

const char *cs_text_nearest(const char *text, const char *const *names)
{
    size_t text_len = strlen(text);
    if (text_len == 0 || text_len > NEAREST_MAX_BYTES) {
        return NULL;
    }
    const char *nearest = NULL;
    size_t nearest_distance = 0;
    for (; *names; names++) {
        size_t name_len = strlen(*names);
        if (name_len > NEAREST_MAX_BYTES) {
            continue;
        }
        size_t distance = edit_distance(text, text_len, *names, name_len);
        size_t longer = text_len > name_len ? text_len : name_len;
        if (distance * 3 <= longer && (!nearest || distance < nearest_distance)) {
            nearest = *names;
            nearest_distance = distance;
        }
    }
    return nearest;
}

bool cs_text_ends_with(const char *text, const char *suffix)
{
    size_t text_len = strlen(text);
    size_t suffix_len = strlen(suffix);
    return text_len >= suffix_len && memcmp(text + text_len - suffix_len, suffix, suffix_len) == 0;
}

bool cs_text_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

int32_t cs_text_index(const char *text, const char *const *names)
{
    for (int32_t i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

size_t cs_text_shown_bytes(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] >= 0x20 && p[0] < 0x7f) {
        return 1;
    }
    size_t n = 0;
    unsigned char low = 0x80; /* bounds of the second byte: no overlong forms, no surrogates */
    unsigned char high = 0xbf;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        n = 2;
        low = p[0] == 0xc2 ? 0xa0 : 0x80;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        n = 3;
        low = p[0] == 0xe0 ? 0xa0 : 0x80;
        high = p[0] == 0xed ? 0x9f : 0xbf;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        n = 4;
        low = p[0] == 0xf0 ? 0x90 : 0x80;
        high = p[0] == 0xf4 ? 0x8f : 0xbf;
    }
    if (n == 0 || p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

void cs__text_clean(char *text)
{
    while (*text) {
        size_t n = cs_text_shown_bytes(text);
        if (n > 0) {
            text += n;
            continue;
        }
        *text = strchr("\n\r\t\v\f", *text) ? ' ' : '?';
        text++;
    }
}

void cs__text_mark_cut(char *buf, size_t buf_bytes)
{
    size_t at = buf_bytes - sizeof "...";
    while (at > 0 && ((unsigned char)buf[at] & 0xc0) == 0x80) {
        at--;
    }
    memcpy(buf + at, "...", sizeof "...");
}

const char *cs_text_clip(const char *text, char buf[CS_TEXT_CLIP_BYTES])
{
    size_t len = strnlen(text, CS_TEXT_CLIP_BYTES);
    memcpy(buf, text, min_of(len + 1, CS_TEXT_CLIP_BYTES));
    if (len == CS_TEXT_CLIP_BYTES) {
        cs__text_mark_cut(buf, CS_TEXT_CLIP_BYTES);
    }
    cs__text_clean(buf);
    return buf;
}

/* One splitmix64 step: add the golden ratio, then the finaliser (Steele, Lea, Flood 2014). */
uint64_t cs_hash_mix(uint64_t hash, uint64_t word)
{
    uint64_t z = (hash + UINT64_C(0x9e3779b97f4a7c15)) ^ word;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Words are put together little-endian by hand, so that every machine gets the same hash. */
uint64_t cs_hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    hash = cs_hash_mix(hash, bytes);
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        for (size_t j = 0; j < 8 && i + j < bytes; j++) {
            word |= (uint64_t)p[i + j] << (8 * j);
        }
        hash = cs_hash_mix(hash, word);
    }
    return hash;
}

uint64_t cs_hash_text(uint64_t hash, const char *text)
{
    return cs_hash_bytes(hash, text, strlen(text));
}

uint64_t cs_hash_real(uint64_t hash, double value)
{
    if (value != value) {
        return cs_hash_mix(hash, UINT64_C(0x7ff8000000000000)); /* all NaNs are one */
    }
    value += 0.0; /* -0.0 becomes 0.0: equal values hash alike */
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return cs_hash_mix(hash, word);
}

int cs_text_line(const char *text, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n';
    }
    return line;
}
