/**
 * @file file.h
 * Files: whole-file reading with a limit, writing beside and renaming, finding what is shipped.
 */
#ifndef CS_BASE_FILE_H
#define CS_BASE_FILE_H

#include "cs/base/err.h"
#include "cs/base/mem.h"

#include <stdbool.h>
#include <stdio.h>

/** Read a whole file. @param[out] text cs_malloc'ed, NUL-terminated, caller frees with cs_free.
 *  @param[out] bytes length without the terminator. A directory, a missing or unreadable file: CS_E_INPUT
 *  naming the file; more than `max_bytes`: CS_E_LIMIT. */
CS_MUST_CHECK cs_status cs_file_read(const char *path, size_t max_bytes, char **text, size_t *bytes,
                                     struct cs_err *err);
bool cs_file_exists(const char *path);   /* a regular file */
bool cs_file_is_there(const char *path); /* anything: a file, a folder, a pipe, a device */
bool cs_file_is_dir(const char *path);

/** An output file that appears whole or not at all: written as a temporary beside the target, synced and
 *  renamed by cs_outfile_commit. `path` "-" is standard output; a device or pipe is written in place; a
 *  symbolic link stays and the file it leads to is replaced. Zero-initialised is valid. A directory as target
 *  or an empty path is
 *  CS_E_INPUT, what the system refuses is CS_E_IO; both name the file. */
struct cs_outfile {
    FILE *stream; /* write here */
    char *path;
    char *temp_path; /* NULL for standard output, devices and pipes */
};
CS_MUST_CHECK cs_status cs_outfile_open(struct cs_outfile *out, const char *path, struct cs_err *err);
/** Flush, check every write error, rename. On failure nothing is left behind. */
CS_MUST_CHECK cs_status cs_outfile_commit(struct cs_outfile *out, struct cs_err *err);
/** Remove the temporary if it was not committed. Safe on a zeroed struct and twice. */
void cs_outfile_release(struct cs_outfile *out);

/** Join with one slash; in the arena. */
char *cs_path_join(struct cs_arena *arena, const char *dir, const char *name);
/** Directory part ("." when none); in the arena. */
char *cs_path_dir(struct cs_arena *arena, const char *path);

#endif
