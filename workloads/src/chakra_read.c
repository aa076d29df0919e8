/* Chakra execution traces: reading a folder or files in memory. */
#include "chakra_read_priv.h"

#include "cs/base/file.h"
#include "cs/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* Of one file. */
#define FILE_MAX_BYTES ((size_t)1 << 30)

static void et_init(struct cs__et *et, int32_t n_ranks)
{
    *et = (struct cs__et){.n_ranks = n_ranks};
    et->trace = cs_calloc(1, sizeof *et->trace);
    et->labels.arena = &et->trace->arena;
    et->group_names.arena = &et->arena;
    et->ranks = CS_ARENA_NEW(&et->arena, struct cs__et_rank, n_ranks);
    et->match = CS_ARENA_NEW(&et->arena, int64_t *, n_ranks);
    et->next = CS_ARENA_NEW(&et->arena, int64_t *, n_ranks);
    et->started = CS_ARENA_NEW(&et->arena, int64_t *, n_ranks);
    et->n_started = CS_ARENA_NEW(&et->arena, int64_t, n_ranks);
    CS_GROW(et->groups, et->n_groups, et->cap_groups);
    struct cs__et_group all = {
        .name = cs__et_names_add(&et->group_names, "", 0), .rank = -1, .n_members = n_ranks};
    all.members = CS_ARENA_NEW(&et->arena, int32_t, n_ranks);
    for (int32_t rank = 0; rank < n_ranks; rank++) {
        all.members[rank] = rank;
    }
    et->groups[et->n_groups++] = all;
}

static void et_release(struct cs__et *et)
{
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        struct cs__et_rank *r = &et->ranks[rank];
        cs_free(r->nodes);
        cs_free(r->deps);
        cs_free(r->order);
        cs_free(r->child_first);
        cs_free(r->children);
    }
    cs_free(et->groups);
    cs__et_names_release(&et->labels);
    cs__et_names_release(&et->group_names);
    cs_trace_free(et->trace);
    cs_arena_release(&et->arena);
}

/** All files are parsed: everything else. */
static cs_status finish(struct cs__et *et, const char *where, struct cs_trace **trace,
                        struct cs_chakra_notes *notes, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_err own = {0};
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        CS_TRY(cs__et_resolve(et, rank, &own));
    }
    CS_TRY(cs__et_groups_bind(et, &own));
    CS_TRY(cs__et_match(et, &own));
    CS_TRY(cs__et_streams(et, &own));
    CS_TRY(cs__et_run(et, &own));
    cs__et_inline(et);
    CS_TRY(cs__et_build(et, &own));
    CS_TRY(cs_trace_check(et->trace, &own));
    *trace = et->trace;
    et->trace = NULL;
    if (notes != NULL) {
        *notes = et->notes;
    }
out:
    if (st != CS_OK && err != NULL) {
        *err = own;
        if (err->file[0] == '\0') {
            (void)snprintf(err->file, sizeof err->file, "%s", where);
        }
    }
    return st;
}

cs_status cs_trace_read_chakra_files(const struct cs_chakra_file *files, int32_t n_ranks, const char *groups,
                                     struct cs_trace **trace, struct cs_chakra_notes *notes,
                                     struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__et et;
    if (n_ranks < 1 || n_ranks > CS__ET_RANKS_MAX) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC, "a trace has 1 to %d ranks, not %d", CS__ET_RANKS_MAX,
                          (int)n_ranks);
    }
    et_init(&et, n_ranks);
    for (int32_t rank = 0; rank < n_ranks; rank++) {
        CS_TRY(cs__et_parse(&et, rank, &files[rank], err));
    }
    if (groups != NULL) {
        CS_TRY(cs__et_groups_json(&et, groups, "process groups", err));
    }
    CS_TRY(finish(&et, files[0].name, trace, notes, err));
out:
    et_release(&et);
    return st;
}

/** The rank in NAME.RANK.et, and where ".RANK.et" begins; -1 = the name is not of that form. */
static int32_t rank_of_name(const char *name, size_t *prefix_bytes)
{
    size_t len = strlen(name);
    if (len < 6 || strcmp(name + len - 3, ".et") != 0) {
        return -1;
    }
    size_t at = len - 3;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    size_t digits = len - 3 - at;
    if (at < 2 || name[at - 1] != '.' || digits < 1 || digits > 6 || (digits > 1 && name[at] == '0')) {
        return -1;
    }
    int32_t rank = 0;
    for (size_t i = at; i < len - 3; i++) {
        rank = rank * 10 + (name[i] - '0');
    }
    *prefix_bytes = at - 1;
    return rank;
}

/** Find the one NAME of the folder, and how many ranks it has. */
static cs_status scan(const char *dir, char **prefix, int32_t *n_ranks, struct cs_err *err)
{
    struct cs_loc at = {.file = dir};
    DIR *folder = opendir(dir);
    if (folder == NULL) {
        return cs_err_set(err, CS_E_INPUT, at, "cannot be read: %s",
                          dir[0] == '\0' ? "the folder name is empty" : strerror(errno));
    }
    cs_status st = CS_OK;
    uint8_t *seen = cs_calloc(CS__ET_RANKS_MAX, sizeof *seen);
    int32_t n = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        size_t bytes = 0;
        int32_t rank = rank_of_name(entry->d_name, &bytes);
        if (rank < 0) {
            continue;
        }
        if (rank >= CS__ET_RANKS_MAX) {
            st = cs_err_set(err, CS_E_LIMIT, at, "'%s' is of rank %d, at most %d ranks are read",
                            entry->d_name, (int)rank, CS__ET_RANKS_MAX);
            goto out;
        }
        if (*prefix != NULL && (strncmp(entry->d_name, *prefix, bytes) != 0 || (*prefix)[bytes] != '\0')) {
            st = cs_err_set(err, CS_E_INPUT, at, "holds two traces, '%s' and '%.*s': one a folder", *prefix,
                            (int)bytes, entry->d_name);
            goto out;
        }
        if (*prefix == NULL) {
            *prefix = cs_strdup(entry->d_name);
            (*prefix)[bytes] = '\0';
        }
        seen[rank] = 1;
        n++;
    }
    if (n == 0) {
        st = cs_err_set(err, CS_E_INPUT, at, "is not a trace: there is neither binding.txt nor NAME.0.et");
        goto out;
    }
    for (int32_t rank = 0; rank < n; rank++) {
        if (!seen[rank]) {
            st = cs_err_set(err, CS_E_INPUT, at, "'%s.%d.et' is missing: there are %d files", *prefix,
                            (int)rank, (int)n);
            goto out;
        }
    }
    *n_ranks = n;
out:
    (void)closedir(folder);
    cs_free(seen);
    return st;
}

static cs_status read_rank(struct cs__et *et, int32_t rank, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    char *data = NULL;
    size_t bytes = 0;
    CS_TRY(cs_file_read(path, FILE_MAX_BYTES, &data, &bytes, err));
    struct cs_chakra_file file = {path, data, bytes};
    CS_TRY(cs__et_parse(et, rank, &file, err));
out:
    cs_free(data);
    return st;
}

/** Process groups beside the traces, under one of the names in use. */
static cs_status read_groups(struct cs__et *et, const char *dir, const char *prefix, struct cs_err *err)
{
    const char *names[3] = {cs_arena_printf(&et->arena, "%s.json", prefix), "comm_group.json",
                            "comm_groups.json"};
    cs_status st = CS_OK;
    char *text = NULL;
    size_t bytes = 0;
    for (int32_t i = 0; i < 3; i++) {
        const char *path = cs_path_join(&et->arena, dir, names[i]);
        if (cs_file_exists(path)) {
            CS_TRY(cs_file_read(path, FILE_MAX_BYTES, &text, &bytes, err));
            CS_TRY(cs__et_groups_json(et, text, path, err));
            break;
        }
    }
out:
    cs_free(text);
    return st;
}

cs_status cs_trace_read_chakra(const char *dir, struct cs_trace **trace, struct cs_chakra_notes *notes,
                               struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__et et = {0};
    char *prefix = NULL;
    int32_t n_ranks = 0;
    CS_TRY(scan(dir, &prefix, &n_ranks, err));
    et_init(&et, n_ranks);
    for (int32_t rank = 0; rank < n_ranks; rank++) {
        char name[32];
        (void)snprintf(name, sizeof name, ".%d.et", (int)rank);
        const char *file = cs_arena_printf(&et.arena, "%s%s", prefix, name);
        CS_TRY(read_rank(&et, rank, cs_path_join(&et.arena, dir, file), err));
    }
    CS_TRY(read_groups(&et, dir, prefix, err));
    CS_TRY(finish(&et, dir, trace, notes, err));
out:
    cs_free(prefix);
    et_release(&et);
    return st;
}
