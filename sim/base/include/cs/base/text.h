/**
 * @file text.h
 * Small text helpers: nearest known name for an unknown one, suffix and prefix tests, clipping for
 * messages, 64-bit hashing.
 */
#ifndef CS_BASE_TEXT_H
#define CS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The name nearest to `text` by edit distance, NULL when none is near (distance above a third of the
 *  length). `names` is NULL-terminated; the result points into it. */
const char *cs_text_nearest(const char *text, const char *const *names);
bool cs_text_ends_with(const char *text, const char *suffix);
bool cs_text_starts_with(const char *text, const char *prefix);
/** Line, from 1, that byte number `at` of the text is on. */
int cs_text_line(const char *text, size_t at);
/** Index in the NULL-terminated list, -1 when absent. */
int32_t cs_text_index(const char *text, const char *const *names);

/** Bytes of the well-formed UTF-8 character that the text begins with and that may be shown (RFC 3629,
 * without the controls of C0 and C1); 0 when there is none. */
size_t cs_text_shown_bytes(const char *text);

#define CS_TEXT_CLIP_BYTES 68
/** A user's text made fit for a message: cut to about 60 bytes with "..." at the end, between characters,
 * with control characters and broken UTF-8 replaced. Writes into buf and returns it. */
const char *cs_text_clip(const char *text, char buf[CS_TEXT_CLIP_BYTES]);

#define CS_HASH_SEED UINT64_C(0x9e3779b97f4a7c15)
/** Order-dependent combination of a hash and a word (splitmix64 finaliser). */
uint64_t cs_hash_mix(uint64_t hash, uint64_t word);
uint64_t cs_hash_bytes(uint64_t hash, const void *data, size_t bytes);
uint64_t cs_hash_text(uint64_t hash, const char *text);
/** Equal values hash alike (-0.0 and 0.0 too). @unit: any, the hash is of the number. */
uint64_t cs_hash_real(uint64_t hash, double value);

#endif
