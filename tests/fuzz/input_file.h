/**
 * @file input_file.h
 * An input as a file for readers that take a path: a temporary without a name, opened again by its /proc
 * name.
 */
#ifndef CS_TESTS_INPUT_FILE_H
#define CS_TESTS_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/** Close it after use. `path` has room for 64 bytes. */
static inline FILE *input_file(const uint8_t *data, size_t bytes, char path[64])
{
    FILE *file = tmpfile();
    if (!file || (bytes > 0 && fwrite(data, 1, bytes, file) != bytes) || fflush(file) != 0) {
        abort(); /* a full disk is no finding */
    }
    (void)snprintf(path, 64, "/proc/self/fd/%d", fileno(file));
    return file;
}

#endif
