#include "scratch.h"

#include "cs_test.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

void scratch_open(char *path)
{
    strcpy(path, "/tmp/clustersim-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
}

static int is_name(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

void scratch_close(const char *path)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_name, NULL);
    for (int i = 0; i < n; i++) {
        char file[512];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (unlink(file) != 0) {
            scratch_close(file);
        }
        free(entries[i]);
    }
    free(entries);
    rmdir(path);
}

int32_t scratch_count(const char *path)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_name, NULL);
    for (int i = 0; i < n; i++) {
        free(entries[i]);
    }
    free(entries);
    return n;
}

void scratch_write(const char *dir, const char *name, const void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *stream = fopen(path, "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(data, 1, bytes, stream), bytes);
    ck_assert_int_eq(fclose(stream), 0);
}
