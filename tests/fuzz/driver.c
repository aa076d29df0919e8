/*
 * Runs a fuzz target over files without libFuzzer: driver [MUTATIONS] FOLDER... runs every file in them.
 * Each input also runs cut off in the middle, where parsers that trust an end marker go wrong, and then
 * MUTATIONS times with a few seeded changes: the same ones in every run, so that a failure can be repeated.
 * An input that takes longer than INPUT_LIMIT_S is a hang and ends the process.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_MAX_BYTES = 1 << 20, INPUT_LIMIT_S = 60 };

static const char *now_running = "";
static int now_mutation;

/* What is being run, for whoever reads the sanitizer's report. */
static void say_input(void)
{
    (void)fprintf(stderr, "input: %s, mutation %d\n", now_running, now_mutation);
}

static void on_death(int number)
{
    say_input(); /* the process ends here: nothing else is running that it could disturb */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static int run_bytes(const uint8_t *data, size_t bytes)
{
    /* A block of exactly this size, so that AddressSanitizer sees a read past its end. */
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (!copy) {
        return 1;
    }
    memcpy(copy, data, bytes);
    (void)alarm(INPUT_LIMIT_S);
    (void)LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
    return 0;
}

/* ---- seeded changes ---- */

static uint64_t state;

static size_t below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(state >> 33) % n : 0;
}

/* Replace `drop` bytes at `at` by `n` bytes of `with`; too long a result stays as it was. */
static size_t splice(uint8_t *data, size_t bytes, size_t at, size_t drop, const uint8_t *with, size_t n)
{
    if (bytes - drop + n > INPUT_MAX_BYTES) {
        return bytes;
    }
    memmove(data + at + n, data + at + drop, bytes - at - drop);
    memcpy(data + at, with, n);
    return bytes - drop + n;
}

static size_t change(uint8_t *data, size_t bytes)
{
    static const char *const words[] = {
        "0",  "-1", "1e308", "1e-308", "nan",  "inf", "2147483648", "9223372036854775808",
        "\"", "'",  ":\n",   "- ",     "{}",   "[]",  "&a",         "*a",
        "<!", "</", "\xff",  "\t",     "\n\n", "0x7", "~",          "%s"};
    uint8_t span[64];
    size_t at = below(bytes + 1);
    size_t left = bytes - at;
    size_t n = below(left < sizeof span ? left + 1 : sizeof span);
    memcpy(span, data + at, n);
    switch (below(6)) {
    case 0:
        if (left > 0) {
            data[at] ^= (uint8_t)(1u << below(8));
        }
        return bytes;
    case 1: /* drop a span */
        return splice(data, bytes, at, n, span, 0);
    case 2: /* say a span twice */
        return splice(data, bytes, at, 0, span, n);
    case 3: /* carry a span elsewhere */
        return splice(data, bytes, below(bytes + 1), 0, span, n);
    case 4: { /* a number becomes another */
        while (at < bytes && !(data[at] >= '0' && data[at] <= '9')) {
            at++;
        }
        size_t end = at;
        while (end < bytes && data[end] >= '0' && data[end] <= '9') {
            end++;
        }
        const char *word = words[below(8)];
        return splice(data, bytes, at, end - at, (const uint8_t *)word, strlen(word));
    }
    default: {
        const char *word = words[below(sizeof words / sizeof words[0])];
        return splice(data, bytes, at, 0, (const uint8_t *)word, strlen(word));
    }
    }
}

static int run_changed(const uint8_t *data, size_t bytes, int n_mutations)
{
    static uint8_t changed[INPUT_MAX_BYTES];
    int failed = 0;
    for (int i = 1; i <= n_mutations && !failed; i++) {
        now_mutation = i;
        state = (uint64_t)i * 0x9e3779b97f4a7c15u + bytes;
        memcpy(changed, data, bytes);
        size_t n = bytes;
        for (size_t k = 1 + below(4); k > 0; k--) {
            n = change(changed, n);
        }
        failed = run_bytes(changed, n);
    }
    now_mutation = 0;
    return failed;
}

static int run_file(const char *path, int n_mutations)
{
    static uint8_t data[INPUT_MAX_BYTES];
    now_running = path;
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
    return failed || run_bytes(data, bytes) || run_bytes(data, bytes / 2) ||
           run_changed(data, bytes, n_mutations);
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Adds the inputs that were run to *n_inputs. */
static int run_folder(const char *path, int n_mutations, int *n_inputs)
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
        failed |= length < 0 || (size_t)length >= sizeof file || run_file(file, n_mutations);
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
    char *end = NULL;
    long n_mutations = argc > 1 ? strtol(argv[1], &end, 10) : 0;
    int first = end && end != argv[1] && *end == '\0' ? 2 : 1;
    (void)signal(SIGABRT, on_death);
    (void)signal(SIGALRM, on_death);
    for (int i = first; i < argc; i++) {
        failed |= run_folder(argv[i], first == 2 ? (int)n_mutations : 0, &n_inputs);
    }
    (void)printf("%d inputs, %ld mutations of each\n", n_inputs, first == 2 ? n_mutations : 0);
    return failed || n_inputs == 0;
}
