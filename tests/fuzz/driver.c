/*
 * Runs a fuzz target over files without libFuzzer: driver FOLDER... runs every file in them.
 * Each input also runs cut off in the middle, where parsers that trust an end marker go wrong.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_MAX_BYTES = 1 << 20 };

static int run_bytes(const uint8_t *data, size_t bytes)
{
    /* A block of exactly this size, so that AddressSanitizer sees a read past its end. */
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (!copy) {
        return 1;
    }
    memcpy(copy, data, bytes);
    (void)LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
    return 0;
}

static int run_file(const char *path)
{
    static uint8_t data[INPUT_MAX_BYTES];
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    size_t bytes = fread(data, 1, sizeof data, stream);
    int failed = ferror(stream) || !feof(stream);
    if (failed) {
        (void)fprintf(stderr, "%s: unreadable or longer than %d bytes\n", path, INPUT_MAX_BYTES);
    }
    (void)fclose(stream);
    return failed || run_bytes(data, bytes) || run_bytes(data, bytes / 2);
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Adds the inputs that were run to *n_inputs. */
static int run_folder(const char *path, int *n_inputs)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, not_hidden, alphasort);
    if (n < 0) {
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    int failed = 0;
    for (int i = 0; i < n; i++) {
        char file[4096];
        int length = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        failed |= length < 0 || (size_t)length >= sizeof file || run_file(file);
        free(entries[i]);
    }
    free(entries);
    *n_inputs += n;
    return failed;
}

int main(int argc, char **argv)
{
    int n_inputs = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= run_folder(argv[i], &n_inputs);
    }
    (void)printf("%d inputs\n", n_inputs);
    return failed || n_inputs == 0;
}
