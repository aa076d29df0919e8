/**
 * @file fuzz.h
 * What a fuzz target defines: libFuzzer's one function, called with one input after the other.
 */
#ifndef CS_TESTS_FUZZ_H
#define CS_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/** Hand the input to a parser. Returns 0; a crash, a sanitizer report or a leak is the failure. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
