#include "cs/strategies/shipped.h"

#include "cs/base/file.h"
#include "cs/base/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *what;
    const char *folder;
    const char *suffix;
} kinds[CS_N_SHIPPED] = {
    [CS_SHIPPED_MODEL] = {"model", "workloads/models", ".yaml"},
    [CS_SHIPPED_PLATFORM] = {"platform", "platforms", ".xml"},
    [CS_SHIPPED_STUDY] = {"study", "strategies/studies", ".yaml"},
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *cs_shipped_names(struct cs_arena *arena, const char *data_dir, enum cs_shipped kind)
{
    const char **found = NULL;
    int32_t n = 0;
    int32_t cap = 0;
    size_t suffix_len = strlen(kinds[kind].suffix);
    DIR *dir = opendir(cs_path_join(arena, data_dir, kinds[kind].folder));
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        if (entry->d_name[0] != '.' && len > suffix_len &&
            cs_text_ends_with(entry->d_name, kinds[kind].suffix)) {
            CS_GROW(found, n, cap);
            found[n++] = cs_arena_strndup(arena, entry->d_name, len - suffix_len);
        }
    }
    if (dir) {
        closedir(dir);
    }
    const char **names = CS_ARENA_NEW(arena, const char *, n + 1);
    if (n > 0) {
        qsort(found, (size_t)n, sizeof *found, compare_names);
        memcpy(names, found, (size_t)n * sizeof *names);
    }
    cs_free(found);
    return names;
}

const char *cs_shipped_path(struct cs_arena *arena, const char *data_dir, enum cs_shipped kind,
                            const char *name)
{
    return cs_arena_printf(arena, "%s/%s/%s%s", data_dir, kinds[kind].folder, name, kinds[kind].suffix);
}

bool cs_shipped_is_path(enum cs_shipped kind, const char *text)
{
    return strchr(text, '/') || cs_text_ends_with(text, kinds[kind].suffix);
}

cs_status cs_shipped_find(struct cs_arena *arena, const char *data_dir, enum cs_shipped kind,
                          const char *text, const char *near_dir, struct cs_loc loc, const char **path,
                          struct cs_err *err)
{
    const char *const tries[] = {
        text[0] == '\0' || strchr(text, '/') ? NULL : cs_shipped_path(arena, data_dir, kind, text),
        near_dir && text[0] != '/' ? cs_path_join(arena, near_dir, text) : NULL,
        text,
    };
    for (int32_t i = 0; i < CS_COUNT(tries); i++) {
        /* What is no file, the reader refuses: it says best what it wants. */
        if (tries[i] && (cs_file_exists(tries[i]) || (i > 0 && text[0] && cs_file_is_there(tries[i])))) {
            *path = tries[i];
            return CS_OK;
        }
    }
    if (cs_shipped_is_path(kind, text)) {
        return cs_err_set(err, CS_E_INPUT, loc, "%s '%s': no such file", kinds[kind].what, text);
    }
    const char *near = cs_text_nearest(text, cs_shipped_names(arena, data_dir, kind));
    return cs_err_set(err, CS_E_INPUT, loc, "no %s '%s' is shipped and no such file exists%s%s%s",
                      kinds[kind].what, text, near ? ", did you mean '" : "", near ? near : "",
                      near ? "'?" : "");
}
