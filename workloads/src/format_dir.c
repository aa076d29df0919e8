/* Folders that appear whole or not at all; telling the formats apart. */
#include "format_priv.h"

#include "cs/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_TRIES = 100, BUFFER_BYTES = 1 << 16 };

static struct cs_loc at_path(const char *path)
{
    return (struct cs_loc){.file = path};
}

static cs_status refused(struct cs_err *err, const char *path, int problem)
{
    const char *reason = path[0] == '\0' ? "the folder name is empty"
                         : problem < 0   ? "a write failed, is the disk full?"
                                         : strerror(problem);
    return cs_err_set(err, CS_E_IO, at_path(path), "cannot be written: %s", reason);
}

static char *join(const char *dir, const char *name)
{
    struct cs_arena arena = {0};
    char *path = cs_strdup(cs_path_join(&arena, dir, name));
    cs_arena_release(&arena);
    return path;
}

/** Is there anything in the folder? A folder that cannot be read is taken for full: renaming would fail. */
static bool is_empty(const char *path)
{
    DIR *dir = opendir(path);
    bool empty = dir != NULL;
    for (const struct dirent *entry; empty && (entry = readdir(dir)) != NULL;) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return empty;
}

static char *without_slashes(const char *path)
{
    char *copy = cs_strdup(path);
    size_t len = strlen(copy);
    while (len > 1 && copy[len - 1] == '/') {
        copy[--len] = '\0';
    }
    return copy;
}

cs_status cs__folder_open(struct cs__folder *folder, const char *path, struct cs_err *err)
{
    struct stat info;
    *folder = (struct cs__folder){0};
    if (path[0] == '\0') {
        return refused(err, path, ENOENT);
    }
    if (lstat(path, &info) == 0 && (!S_ISDIR(info.st_mode) || !is_empty(path))) {
        return cs_err_set(err, CS_E_INPUT, at_path(path),
                          S_ISDIR(info.st_mode) ? "is a folder with files in it: remove it or name another"
                                                : "exists and is not a folder: name a folder to make");
    }
    char *target = without_slashes(path);
    char *temp = NULL;
    int problem = EEXIST;
    for (int i = 0; i < FOLDER_TRIES && problem == EEXIST; i++) {
        struct cs_strbuf name = {0};
        cs_strbuf_addf(&name, "%s.tmp.%ld.%d", target, (long)getpid(), i);
        cs_free(temp);
        temp = cs_strdup(cs_strbuf_str(&name));
        cs_strbuf_release(&name);
        problem = mkdir(temp, 0777) == 0 ? 0 : errno;
    }
    if (problem != 0) {
        cs_status st = refused(err, path, problem);
        cs_free(temp);
        cs_free(target);
        return st;
    }
    folder->path = target;
    folder->temp_path = temp;
    return CS_OK;
}

cs_status cs__folder_file(struct cs__folder *folder, const char *name, struct cs_err *err)
{
    CS_ASSERT(folder->temp_path != NULL && folder->stream == NULL);
    folder->file_name = join(folder->temp_path, name);
    folder->stream = fopen(folder->file_name, "w");
    if (folder->stream == NULL) {
        return refused(err, folder->file_name, errno);
    }
    (void)setvbuf(folder->stream, NULL, _IOFBF, BUFFER_BYTES);
    CS_GROW(folder->names, folder->n_names, folder->cap_names);
    folder->names[folder->n_names++] = cs_strdup(name);
    return CS_OK;
}

cs_status cs__folder_close(struct cs__folder *folder, struct cs_err *err)
{
    int problem = ferror(folder->stream) ? -1 : 0; /* errno of an earlier write is gone */
    if (fclose(folder->stream) != 0) {
        problem = errno;
    }
    folder->stream = NULL;
    cs_status st = problem != 0 ? refused(err, folder->file_name, problem) : CS_OK;
    cs_free(folder->file_name);
    folder->file_name = NULL;
    return st;
}

cs_status cs__folder_commit(struct cs__folder *folder, struct cs_err *err)
{
    /* Onto an empty folder this replaces it; one that has been filled meanwhile stays. */
    if (rename(folder->temp_path, folder->path) != 0) {
        return refused(err, folder->path, errno);
    }
    cs_free(folder->temp_path);
    folder->temp_path = NULL;
    return CS_OK;
}

void cs__folder_release(struct cs__folder *folder)
{
    if (folder->stream != NULL) {
        (void)fclose(folder->stream);
    }
    for (int32_t i = 0; i < folder->n_names; i++) {
        if (folder->temp_path != NULL) {
            char *path = join(folder->temp_path, folder->names[i]);
            (void)unlink(path);
            cs_free(path);
        }
        cs_free(folder->names[i]);
    }
    if (folder->temp_path != NULL) {
        (void)rmdir(folder->temp_path);
    }
    cs_free(folder->names);
    cs_free(folder->file_name);
    cs_free(folder->temp_path);
    cs_free(folder->path);
    *folder = (struct cs__folder){0};
}

/** Files role-N.txt of the folder that are none of the first n roles. */
static int64_t count_strangers(const char *dir, int32_t n_roles)
{
    int64_t n = 0;
    DIR *folder = opendir(dir);
    for (const struct dirent *entry = folder != NULL ? readdir(folder) : NULL; entry != NULL;
         entry = readdir(folder)) {
        const char *digits = entry->d_name + strlen("role-");
        if (strncmp(entry->d_name, "role-", strlen("role-")) != 0) {
            continue;
        }
        size_t n_digits = strspn(digits, "0123456789");
        if (n_digits == 0 || strcmp(digits + n_digits, ".txt") != 0) {
            continue;
        }
        bool canonical = n_digits == 1 || digits[0] != '0';
        n += !canonical || n_digits > 9 || strtol(digits, NULL, 10) >= n_roles;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return n;
}

cs_status cs_trace_read(const char *dir, struct cs_trace **trace, struct cs_chakra_notes *notes,
                        struct cs_err *err)
{
    char *binding = join(dir, "binding.txt");
    bool native = cs_file_exists(binding);
    cs_free(binding);
    if (native) {
        cs_status st = cs_trace_read_native(dir, trace, err);
        if (st == CS_OK && notes != NULL) {
            *notes = (struct cs_chakra_notes){.n_stranger_roles = count_strangers(dir, (*trace)->n_programs)};
        }
        return st;
    }
    return cs_trace_read_chakra(dir, trace, notes, err);
}
