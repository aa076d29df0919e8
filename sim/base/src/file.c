#include "cs/base/file.h"

#include "cs/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINKS_MAX = 16,        /* symbolic links followed to an output file */
    TEMP_NAME_BYTES = 200, /* of the target's name kept in the temporary's, which must stay below NAME_MAX */
    TEMP_TRIES = 100,
    WRITER_WAIT_MS = 5000 /* for the first byte out of a pipe */
};

static struct cs_loc at_file(const char *path)
{
    return (struct cs_loc){.file = path};
}

/* Why a path was refused, in words. */
static const char *reason_of(const char *path, int problem)
{
    return path[0] == '\0' ? "the file name is empty" : strerror(problem);
}

bool cs_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool cs_file_is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool cs_file_is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Read to the end, or to one byte more than max_bytes, which tells that there is more. 0 or errno. */
static int read_all(int fd, size_t max_bytes, struct cs_strbuf *buf)
{
    char chunk[65536];
    while (buf->len <= max_bytes) {
        size_t left = max_bytes - buf->len;
        size_t want = left < sizeof chunk ? left + 1 : sizeof chunk;
        ssize_t got = read(fd, chunk, want);
        if (got > 0) {
            cs_strbuf_addn(buf, chunk, (size_t)got);
        } else if (got == 0) {
            return 0;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

cs_status cs_file_read(const char *path, size_t max_bytes, char **text, size_t *bytes, struct cs_err *err)
{
    struct cs_strbuf buf = {0};
    struct stat info = {0};
    cs_status st = CS_OK;
    /* O_NONBLOCK: opening a named pipe would wait for a writer, for ever if there is none */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int problem = fd < 0 || fstat(fd, &info) != 0 || fcntl(fd, F_SETFL, 0) != 0 ? errno : 0;
    if (problem == 0 && S_ISDIR(info.st_mode)) {
        st = cs_err_set(err, CS_E_INPUT, at_file(path), "is a directory, but should be a file");
        goto out;
    }
    struct pollfd pipe_end = {.fd = fd, .events = POLLIN};
    if (problem == 0 && S_ISFIFO(info.st_mode) && poll(&pipe_end, 1, WRITER_WAIT_MS) == 0) {
        st = cs_err_set(err, CS_E_INPUT, at_file(path), "is a pipe that nobody writes to");
        goto out;
    }
    if (problem == 0) {
        problem = read_all(fd, max_bytes, &buf);
    }
    if (problem != 0) {
        st = cs_err_set(err, CS_E_INPUT, at_file(path), "cannot be read: %s", reason_of(path, problem));
        goto out;
    }
    if (buf.len > max_bytes) {
        struct cs_loc loc = at_file(path);
        loc.line = cs_text_line(buf.text, max_bytes);
        st = cs_err_set(err, CS_E_LIMIT, loc, "is larger than %zu bytes, the most that is read", max_bytes);
        goto out;
    }
    cs_strbuf_addn(&buf, "", 0); /* an empty file is an empty text, not NULL */
    *text = buf.text;
    *bytes = buf.len;
    buf = (struct cs_strbuf){0};
out:
    if (fd >= 0) {
        (void)close(fd);
    }
    cs_strbuf_release(&buf);
    return st;
}

char *cs_path_join(struct cs_arena *arena, const char *dir, const char *name)
{
    size_t dir_len = strlen(dir);
    if (dir_len == 0) {
        return cs_arena_strdup(arena, name);
    }
    while (dir_len > 0 && dir[dir_len - 1] == '/') {
        dir_len--;
    }
    name += strspn(name, "/");
    return cs_arena_printf(arena, "%.*s/%s", (int)dir_len, dir, name);
}

char *cs_path_dir(struct cs_arena *arena, const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') { /* trailing slashes belong to the last part */
        len--;
    }
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    if (len == 0) {
        return cs_arena_strdup(arena, ".");
    }
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    return cs_arena_strndup(arena, path, len);
}

/* Where symbolic links at `path` lead, so that renaming replaces the file and not the link. 0 or errno. */
static int follow_links(struct cs_arena *arena, const char *path, const char **target)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        char link[4096];
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n < 0) { /* not a link, or nothing there */
            *target = path;
            return 0;
        }
        link[n] = '\0';
        path = link[0] == '/' ? cs_arena_strdup(arena, link)
                              : cs_path_join(arena, cs_path_dir(arena, path), link);
    }
    return ELOOP;
}

/* Create the temporary beside `target`. Names that are taken are passed over: they may be another's. 0 or
 * errno. */
static int open_temp(struct cs_outfile *out, const char *target, struct cs_arena *arena)
{
    const char *slash = strrchr(target, '/');
    const char *name = slash ? slash + 1 : target;
    int dir_len = (int)(name - target);
    int problem = EEXIST;
    for (int i = 0; i < TEMP_TRIES && problem == EEXIST; i++) {
        char number[16] = "";
        if (i > 0) {
            (void)snprintf(number, sizeof number, ".%d", i);
        }
        const char *temp = cs_arena_printf(arena, "%.*s.%.*s.tmp.%ld%s", dir_len, target, TEMP_NAME_BYTES,
                                           name, (long)getpid(), number);
        int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        problem = fd < 0 ? errno : 0;
        if (fd >= 0) {
            out->temp_path = cs_strdup(temp);
            out->stream = fdopen(fd, "w");
            if (!out->stream) {
                problem = errno;
                (void)close(fd);
            }
        }
    }
    return problem;
}

/* Open a device or pipe in place, anything else as a temporary. 0 or errno. */
static int open_target(struct cs_outfile *out, const char *path, struct cs_arena *arena)
{
    const char *target = NULL;
    int problem = follow_links(arena, path, &target);
    if (problem != 0) {
        return problem;
    }
    size_t len = strlen(target);
    struct stat info;
    bool exists = stat(target, &info) == 0;
    if ((exists && S_ISDIR(info.st_mode)) || (len > 0 && target[len - 1] == '/')) {
        return EISDIR;
    }
    if (len == 0 || (exists && access(target, W_OK) != 0)) { /* renaming would not ask whether it may */
        return len == 0 ? ENOENT : errno;
    }
    out->path = cs_strdup(target);
    if (exists && !S_ISREG(info.st_mode)) {
        out->stream = fopen(target, "w");
        return out->stream ? 0 : errno;
    }
    problem = open_temp(out, target, arena);
    if (problem == 0 && exists) {
        (void)fchmod(fileno(out->stream), info.st_mode & 0777); /* the new file keeps the old one's mode */
    }
    return problem;
}

cs_status cs_outfile_open(struct cs_outfile *out, const char *path, struct cs_err *err)
{
    struct cs_arena arena = {0};
    struct cs_outfile opened = {0};
    cs_status st = CS_OK;
    int problem = 0;
    if (strcmp(path, "-") == 0) {
        opened.stream = stdout;
        opened.path = cs_strdup(path);
    } else {
        problem = open_target(&opened, path, &arena);
    }
    if (problem == EISDIR) {
        st = cs_err_set(err, CS_E_INPUT, at_file(path), "is a directory, but should be a file to write");
        goto out;
    }
    if (problem != 0) {
        st = cs_err_set(err, path[0] ? CS_E_IO : CS_E_INPUT, path[0] ? at_file(path) : CS_NOLOC,
                        path[0] ? "cannot be written: %s" : "cannot write a file: %s",
                        reason_of(path, problem));
        goto out;
    }
    *out = opened;
    opened = (struct cs_outfile){0};
out:
    cs_outfile_release(&opened);
    cs_arena_release(&arena);
    return st;
}

/* See that everything written has arrived, and close the stream unless it is standard output. 0, errno, or -1
 * when an earlier write failed, whose errno is gone. */
static int finish_stream(struct cs_outfile *out)
{
    FILE *stream = out->stream;
    int problem = ferror(stream) ? -1 : 0;
    if (fflush(stream) != 0) {
        problem = errno;
    }
    /* Some file systems cannot sync; the data is written all the same. */
    if (problem == 0 && out->temp_path && fsync(fileno(stream)) != 0 && errno != EINVAL && errno != ENOSYS) {
        problem = errno;
    }
    if (stream == stdout) {
        return problem;
    }
    out->stream = NULL;
    if (fclose(stream) != 0 && problem == 0) {
        problem = errno;
    }
    return problem;
}

cs_status cs_outfile_commit(struct cs_outfile *out, struct cs_err *err)
{
    CS_ASSERT(out->stream);
    cs_status st = CS_OK;
    const char *name = out->stream == stdout ? "standard output" : out->path;
    int problem = finish_stream(out);
    if (problem == 0 && out->temp_path && rename(out->temp_path, out->path) != 0) {
        problem = errno;
    }
    if (problem != 0) {
        const char *reason = problem > 0 ? strerror(problem) : "a write failed, is the disk full?";
        st = cs_err_set(err, CS_E_IO, at_file(name), "cannot be written: %s", reason);
        goto out;
    }
    cs_free(out->temp_path); /* it has become the file */
    out->temp_path = NULL;
out:
    cs_outfile_release(out);
    return st;
}

void cs_outfile_release(struct cs_outfile *out)
{
    if (out->stream && out->stream != stdout) {
        (void)fclose(out->stream);
    }
    if (out->temp_path) {
        (void)unlink(out->temp_path);
    }
    cs_free(out->temp_path);
    cs_free(out->path);
    *out = (struct cs_outfile){0};
}
