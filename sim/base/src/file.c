#include "cs/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cs_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool cs_file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

cs_status cs_file_read(const char *path, size_t max_bytes, char **text, size_t *bytes, struct cs_err *err)
{
    struct cs_loc loc = {path, 0, 0};
    if (cs_file_is_dir(path)) {
        return cs_err_set(err, CS_E_INPUT, loc, "is a directory, expected a file");
    }
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        return cs_err_set(err, CS_E_INPUT, loc, "cannot be read: %s", strerror(errno));
    }
    struct cs_strbuf buf = {0};
    char *chunk = cs_malloc(65536);
    cs_status st = CS_OK;
    for (;;) {
        size_t n = fread(chunk, 1, 65536, stream);
        cs_strbuf_addn(&buf, chunk, n);
        if (buf.len > max_bytes) {
            st = cs_err_set(err, CS_E_LIMIT, loc, "is larger than the limit of %zu bytes", max_bytes);
            break;
        }
        if (n < 65536) {
            if (ferror(stream)) {
                st = cs_err_set(err, CS_E_INPUT, loc, "cannot be read: %s", strerror(errno));
            }
            break;
        }
    }
    fclose(stream);
    cs_free(chunk);
    if (st != CS_OK) {
        cs_strbuf_release(&buf);
        return st;
    }
    *text = buf.text;
    *bytes = buf.len;
    return CS_OK;
}

/* ---- output ---- */

cs_status cs_outfile_open(struct cs_outfile *out, const char *path, struct cs_err *err)
{
    struct cs_loc loc = {path, 0, 0};
    memset(out, 0, sizeof *out);
    if (strcmp(path, "-") == 0) {
        out->stream = stdout;
        out->path = cs_strdup(path);
        return CS_OK;
    }
    if (cs_file_is_dir(path)) {
        return cs_err_set(err, CS_E_INPUT, loc, "is a directory, expected a file to write");
    }
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a device or pipe cannot be replaced by renaming */
        out->stream = fopen(path, "wb");
        if (!out->stream) {
            return cs_err_set(err, CS_E_IO, loc, "cannot be written: %s", strerror(errno));
        }
        out->path = cs_strdup(path);
        return CS_OK;
    }
    struct cs_strbuf temp = {0};
    const char *slash = strrchr(path, '/');
    size_t dir_len = slash ? (size_t)(slash - path) + 1 : 0;
    cs_strbuf_addn(&temp, path, dir_len);
    cs_strbuf_addf(&temp, ".%s.tmp.%ld", path + dir_len, (long)getpid());
    int fd = open(temp.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    out->stream = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!out->stream) {
        cs_status status = cs_err_set(err, CS_E_IO, loc, "cannot be written: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
            unlink(temp.text);
        }
        cs_strbuf_release(&temp);
        return status;
    }
    out->path = cs_strdup(path);
    out->temp_path = temp.text;
    return CS_OK;
}

cs_status cs_outfile_commit(struct cs_outfile *out, struct cs_err *err)
{
    CS_ASSERT(out->stream);
    struct cs_loc loc = {out->path, 0, 0};
    bool bad = ferror(out->stream) || fflush(out->stream) != 0;
    int code = errno;
    if (out->temp_path && !bad) {
        bad = fsync(fileno(out->stream)) != 0;
        code = errno;
    }
    if (out->stream != stdout) {
        if (fclose(out->stream) != 0 && !bad) {
            bad = true;
            code = errno;
        }
    }
    out->stream = NULL;
    if (!bad && out->temp_path && rename(out->temp_path, out->path) != 0) {
        bad = true;
        code = errno;
    }
    cs_status st = CS_OK;
    if (bad) {
        st = cs_err_set(err, CS_E_IO, loc, "cannot be written: %s", code ? strerror(code) : "write error");
    } else {
        cs_free(out->temp_path);
        out->temp_path = NULL;
    }
    cs_outfile_release(out);
    return st;
}

void cs_outfile_release(struct cs_outfile *out)
{
    if (out->stream && out->stream != stdout) {
        fclose(out->stream);
    }
    if (out->temp_path) {
        unlink(out->temp_path);
    }
    cs_free(out->temp_path);
    cs_free(out->path);
    memset(out, 0, sizeof *out);
}

char *cs_path_join(struct cs_arena *arena, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    return cs_arena_printf(arena, "%s%s%s", dir, n > 0 && dir[n - 1] == '/' ? "" : "/", name);
}

char *cs_path_dir(struct cs_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) {
        return cs_arena_strdup(arena, ".");
    }
    return slash == path ? cs_arena_strdup(arena, "/") : cs_arena_strndup(arena, path, (size_t)(slash - path));
}
