/* Points in a file: {"key": "0123456789abcdef", "point": {...}, "check": "0123456789abcdef"} a line. */
#include "cs/base/file.h"
#include "cs/base/text.h"
#include "cs/reports/points.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files of sweeps are small: a point is about 1 kB, a sweep has at most 10,000. */
#define STORE_BYTES_MAX ((size_t)256 << 20)

struct entry {
    uint64_t key;
    struct cs_point point;
};

struct cs_point_store {
    struct cs_point_memory memory;
    char *path;
    int fd;
    int problem;       /* errno of the first write that failed */
    int32_t n_dropped; /* lines that are no points */
    int32_t n, cap;
    struct entry *entries;
};

/* A record without its checksum as one number: a figure that was changed by hand or by a bad disk is no
 * result. The text is the same however the record was spaced. */
static uint64_t record_hash(const json_t *record)
{
    char *text = json_dumps(record, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    uint64_t hash = cs_hash_text(CS_HASH_SEED, text ? text : "");
    free(text); /* jansson's */
    return hash;
}

/* "0123456789abcdef" */
static bool read_hash(const json_t *text_json, uint64_t *hash)
{
    const char *text = json_string_value(text_json);
    char *end = NULL;
    errno = 0;
    *hash = text ? strtoull(text, &end, 16) : 0;
    return text && end == text + 16 && *end == '\0' && errno == 0;
}

static bool read_line(struct cs_point_store *store, const char *line, size_t len)
{
    json_t *json = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    struct entry entry = {0};
    uint64_t check = 0;
    bool good = read_hash(json_object_get(json, "key"), &entry.key) &&
                read_hash(json_object_get(json, "check"), &check) && json_object_del(json, "check") == 0 &&
                record_hash(json) == check &&
                cs_report_point_read(json_object_get(json, "point"), &entry.point);
    json_decref(json);
    if (good) {
        CS_GROW(store->entries, store->n, store->cap);
        store->entries[store->n++] = entry;
    }
    return good;
}

/* Does the text begin as a line of ours does? A crash may have cut it off anywhere, unless it is a whole
 * line. */
static bool begins_like_ours(const char *text, size_t len, bool whole)
{
    static const char begin[] = "{\"key\":\"";
    size_t same = 0;
    for (size_t at = 0; at < len && begin[same] != '\0'; at++) {
        if (text[at] == begin[same]) {
            same++;
        } else if (text[at] != ' ') {
            return false;
        }
    }
    return !whole || begin[same] == '\0';
}

/* The last line of a file that does not end in one: whole if only its end is missing, else cut off by a crash
 * and dropped, so that the next point begins a line. */
static void end_tail(struct cs_point_store *store, const char *tail, size_t len, size_t at)
{
    if (read_line(store, tail, len)) {
        if (write(store->fd, "\n", 1) != 1) {
            store->problem = errno;
        }
        return;
    }
    store->n_dropped++;
    if (ftruncate(store->fd, (off_t)at) != 0) {
        store->problem = errno;
    }
}

static cs_status read_all(struct cs_point_store *store, struct cs_err *err)
{
    cs_status st = CS_OK;
    char *text = NULL;
    size_t bytes = 0;
    CS_TRY(cs_file_read(store->path, STORE_BYTES_MAX, &text, &bytes, err));
    for (size_t at = 0; at < bytes;) {
        const char *line_end = memchr(text + at, '\n', bytes - at);
        size_t len = line_end ? (size_t)(line_end - text) - at : bytes - at;
        bool first = at == 0;
        bool good = line_end && read_line(store, text + at, len);
        if (first && !good && !begins_like_ours(text, len, line_end != NULL)) {
            st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){store->path, 1, 0},
                            "is no store of points: choose another file");
            goto out;
        }
        if (line_end) {
            store->n_dropped += !good;
        } else {
            end_tail(store, text + at, len, at);
        }
        at += len + (line_end ? 1 : 0);
    }
out:
    cs_free(text);
    return st;
}

static bool lookup(void *context, uint64_t key, struct cs_point *point)
{
    const struct cs_point_store *store = context;
    for (int32_t i = 0; i < store->n; i++) {
        if (store->entries[i].key == key) {
            *point = store->entries[i].point;
            return true;
        }
    }
    return false;
}

static void save(void *context, uint64_t key, const struct cs_point *point)
{
    struct cs_point_store *store = context;
    json_t *json = json_pack("{s:o, s:o}", "key", json_sprintf("%016" PRIx64, key), "point",
                             cs_report_point_json(point));
    (void)json_object_set_new(json, "check", json_sprintf("%016" PRIx64, record_hash(json)));
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    struct cs_strbuf line = {0};
    cs_strbuf_addf(&line, "%s\n", text ? text : "");
    if (text && write(store->fd, line.text, line.len) != (ssize_t)line.len && store->problem == 0) {
        store->problem = errno ? errno : EIO;
    }
    cs_strbuf_release(&line);
    free(text); /* jansson's */
    json_decref(json);
}

cs_status cs_point_store_open(struct cs_point_store **store, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_point_store *fresh = cs_calloc(1, sizeof *fresh);
    fresh->path = cs_strdup(path);
    fresh->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    fresh->memory = (struct cs_point_memory){fresh, lookup, save};
    if (fresh->fd < 0) {
        st =
            cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, 0, 0}, "cannot be opened: %s", strerror(errno));
        goto out;
    }
    CS_TRY(read_all(fresh, err));
    *store = fresh;
    fresh = NULL;
out:
    cs_point_store_free(fresh);
    return st;
}

const struct cs_point_memory *cs_point_store_memory(const struct cs_point_store *store)
{
    return &store->memory;
}

int32_t cs_point_store_n_dropped(const struct cs_point_store *store)
{
    return store->n_dropped;
}

cs_status cs_point_store_check(const struct cs_point_store *store, struct cs_err *err)
{
    return store->problem == 0 ? CS_OK
                               : cs_err_set(err, CS_E_IO, (struct cs_loc){store->path, 0, 0},
                                            "cannot be written: %s", strerror(store->problem));
}

void cs_point_store_free(struct cs_point_store *store)
{
    if (store) {
        if (store->fd >= 0) {
            (void)close(store->fd);
        }
        cs_free(store->entries);
        cs_free(store->path);
        cs_free(store);
    }
}
