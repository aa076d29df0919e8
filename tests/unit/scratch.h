/**
 * @file scratch.h
 * A folder of a test's own, and what is in it.
 */
#ifndef CS_TESTS_UNIT_SCRATCH_H
#define CS_TESTS_UNIT_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

/** Make an empty folder; ends the test when it cannot. `path` has room for 64 bytes. */
void scratch_open(char *path);
/** Remove it, with the files in it and in its folders. */
void scratch_close(const char *path);
/** Names in a folder, hidden ones too. */
int32_t scratch_count(const char *path);
void scratch_write(const char *dir, const char *name, const void *data, size_t bytes);

#endif
