/**
 * @file format_priv.h
 * What the trace formats share: names that can be read again, a folder that appears whole or not at all.
 */
#ifndef CS_WORKLOADS_FORMAT_PRIV_H
#define CS_WORKLOADS_FORMAT_PRIV_H

#include "cs/workloads/format.h"

#include <stdio.h>

/** Does a text hold bytes that a terminal takes for commands: the controls of ASCII, or U+0080 to U+009F in
 *  UTF-8? */
bool cs__has_control(const char *text);
/** Names of a trace that no reader takes: with control characters, and under `utf8` what is no UTF-8
 * (protobuf). CS_E_INPUT names the first. */
CS_MUST_CHECK cs_status cs__names_check(const struct cs_trace *trace, bool utf8, struct cs_err *err);

/** A folder under construction. Zero-initialised is valid. */
struct cs__folder {
    char *path;
    char *temp_path; /* NULL when committed or not open */
    char *file_name; /* of the open stream */
    FILE *stream;
    char **names; /* files made so far, for cleaning up */
    int32_t n_names, cap_names;
};
/** Make the temporary folder. A path that is a file or a folder with something in it is CS_E_INPUT. */
CS_MUST_CHECK cs_status cs__folder_open(struct cs__folder *folder, const char *path, struct cs_err *err);
/** Begin a file: write to folder->stream, end with cs__folder_close. */
CS_MUST_CHECK cs_status cs__folder_file(struct cs__folder *folder, const char *name, struct cs_err *err);
/** End the file; a write that failed is CS_E_IO here. */
CS_MUST_CHECK cs_status cs__folder_close(struct cs__folder *folder, struct cs_err *err);
CS_MUST_CHECK cs_status cs__folder_commit(struct cs__folder *folder, struct cs_err *err);
/** Remove what was not committed. Safe on a zeroed struct and twice. */
void cs__folder_release(struct cs__folder *folder);

#endif
