/**
 * @file bench_workloads.c
 * What traces cost: programs of strategies of 16,384 ranks and 126 layers (llama3-405b), from the strategy to
 * the checked trace, and its native files written and read back.
 *
 *   bench_workloads [DIR]
 *
 * Each strategy runs in a process of its own, so that its memory is its own. Files go to a folder under DIR
 * (default /tmp) and are removed again.
 */
#include "cs/workloads/format.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *strategy;
    int64_t global_batch;
} rows[] = {
    {"dp=128,mp=8,pp=16,sp=true,op=128", 2048},
    {"dp=128,mp=8,pp=16,sp=true,op=128,recompute=full", 131072},
    {"dp=128,mp=8,pp=16,sp=true,op=128,zero=3", 2048},
    {"dp=128,mp=8,pp=16,vpp=7,schedule=interleaved,sp=true,op=128", 2048},
    {"dp=128,mp=8,pp=16,vpp=2,schedule=zero-bubble-v,sp=true,op=128", 4096},
    {"dp=128,mp=8,pp=16,schedule=dualpipe,sp=true,op=128", 4096},
    {"dp=16,mp=8,pp=126,sp=true", 2016},
    {"dp=32,mp=8,cp=4,pp=16,sp=true,op=32", 2048},
    {"dp=128,mp=8,pp=16,sp=true,half_batches=2,swap_activations=true,offload_optimizer=true", 2048},
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(cs_status st, const struct cs_err *err)
{
    if (st != CS_OK) {
        fprintf(stderr, "bench_workloads: %s\n", err->text);
        _exit(1);
    }
}

/* Size of the files of a folder; with `drop` they and it are removed. */
static double folder_bytes(const char *dir, bool drop)
{
    double bytes = 0;
    DIR *folder = opendir(dir);
    struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        char path[1024];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
            bytes += (double)info.st_size;
            if (drop) {
                unlink(path);
            }
        }
    }
    if (folder) {
        closedir(folder);
    }
    if (drop) {
        rmdir(dir);
    }
    return bytes;
}

static double resident_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static void measure(const struct cs_model *model, int32_t row, const char *dir)
{
    struct cs_err err = {0};
    struct cs_strategy strategy;
    struct cs_trace *trace = NULL;
    struct cs_trace *back = NULL;
    struct cs_training training = {.global_batch = rows[row].global_batch,
                                   .seq_length = 8192,
                                   .dtype = CS_DTYPE_BF16,
                                   .gradient_dtype = CS_DTYPE_FP32,
                                   .bucket_bytes = 64e6,
                                   .host_bytes_per_s = 31.5e9,
                                   .clip_gradient = true,
                                   .flash_attention = true};
    cs_strategy_init(&strategy);
    must(cs_strategy_parse(rows[row].strategy, CS_NOLOC, &strategy, NULL, &err), &err);
    double at[5] = {now_s()};
    must(cs_trace_build(model, &training, &strategy, &trace, &err), &err);
    at[1] = now_s();
    double made_mib = resident_mib();
    must(cs_trace_check(trace, &err), &err);
    at[2] = now_s();
    must(cs_trace_write_native(trace, dir, &err), &err);
    at[3] = now_s();
    double bytes = folder_bytes(dir, false);
    must(cs_trace_read_native(dir, &back, &err), &err);
    at[4] = now_s();
    (void)folder_bytes(dir, true);
    printf("%-88s %6d ranks %4d micro-batches  made %6.3f s %4.0f MiB  checked %6.3f s  written %6.3f s "
           "%6.2f MB  read %6.3f s\n",
           rows[row].strategy, (int)trace->n_ranks, (int)cs_strategy_micro_batches(&strategy, &training),
           at[1] - at[0], made_mib, at[2] - at[1], at[3] - at[2], bytes / 1e6, at[4] - at[3]);
    cs_trace_free(trace);
    cs_trace_free(back);
}

int main(int argc, char **argv)
{
    struct cs_model model = {0};
    struct cs_err err = {0};
    must(cs_model_load(&model, CS_TEST_SOURCE_DIR "/workloads/models/llama3-405b.yaml", &err), &err);
    for (int32_t row = 0; row < CS_COUNT(rows); row++) {
        char dir[512];
        snprintf(dir, sizeof dir, "%s/bench_workloads.%d.%d", argc > 1 ? argv[1] : "/tmp", (int)getpid(),
                 (int)row);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            measure(&model, row, dir);
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            return 1;
        }
    }
    cs_model_release(&model);
    return 0;
}
