/**
 * @file bench_engine.c
 * How fast the replay is. Prints a table; nothing here passes or fails.
 *
 *   bench_engine [--quick]
 *
 * Rows: a LLaMA3-405B-like dense model (126 layers, hidden 16384, tensor 8, pipeline 16, data = ranks / 128,
 * 16 micro-batches) from 128 to 16,384 ranks; LLaMA3-70B on 64 ranks, folded and full; full's own calls to
 * SimGrid repeated by a bare loop (activities.h); cost against layers and micro-batches.
 */
#include "activities.h"

#include "cs/engine/engine.h"
#include "cs/platforms/topology.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void end_if(cs_status st, const struct cs_err *err)
{
    if (st != CS_OK) {
        char text[1200];
        cs_err_format(err, text, sizeof text);
        fprintf(stderr, "%s\n", text);
        exit(1);
    }
}

struct bed {
    struct cs_catalogue *catalogue;
    struct cs_platform platform;
    struct cs_routes *routes;
    char path[64];
};

static void bed_open(struct bed *bed, int32_t n_nodes)
{
    struct cs_err err = {0};
    struct cs_topology_spec spec;
    memset(bed, 0, sizeof *bed);
    end_if(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &bed->catalogue, &err), &err);
    cs_topology_spec_init(&spec, cs_catalogue_server(bed->catalogue, "910b-10to1"));
    spec.n_nodes = n_nodes;
    snprintf(bed->path, sizeof bed->path, "/tmp/clustersim-bench-XXXXXX");
    FILE *stream = fdopen(mkstemp(bed->path), "wb");
    end_if(cs_topology_write(&spec, bed->catalogue, stream, CS_NOLOC, &err), &err);
    fclose(stream);
    end_if(cs_platform_load(&bed->platform, bed->path, bed->catalogue, &err), &err);
    bed->routes = cs_routes_new(&bed->platform, NULL);
}

static void bed_close(struct bed *bed)
{
    unlink(bed->path);
    cs_routes_free(bed->routes);
    cs_platform_release(&bed->platform);
    cs_catalogue_free(bed->catalogue);
}

/* The engine's calls recorded in a run of their own, then made by a program that does nothing else. */
static void compare_with_bare_loop(const struct cs_trace *trace, const struct bed *bed,
                                   const struct cs_run_options *options, int64_t n_activities,
                                   double engine_s)
{
    /* as the engine configures SimGrid */
    static const char *const config[] = {
        "network/model:CM02",         "network/latency-factor:1", "network/weight-S:0",
        "network/bandwidth-factor:1", "network/TCP-gamma:0",      "network/crosstraffic:0",
        "contexts/guard-size:0",      "contexts/stack-size:64",   "network/optim:Full"};
    struct cs_err err = {0};
    struct cs_run run = {0};
    activities_open(3 * n_activities + 100000); /* starting, waking and making semaphores are calls too */
    activities_record(true);
    end_if(cs_engine_run(trace, bed->routes, options, &run, &err), &err);
    activities_record(false);
    const char *home = bed->platform.devices[0].host;
    double simulated_s = 0;
    double bare_s = (double)INFINITY;
    for (int32_t i = 0; i < 2; i++) {
        bare_s = fmin(bare_s, activities_repeat_s(bed->path, home, config, CS_COUNT(config), &simulated_s));
    }
    printf("%-28s %lld calls: engine %.0f activities/s, bare SimGrid loop %.0f: ratio %.2f\n", "",
           (long long)activities_count(), (double)n_activities / engine_s, (double)n_activities / bare_s,
           bare_s / engine_s);
    printf("%-28s simulated: engine %.9g s, loop %.9g s where its last call begins\n", "",
           run.metrics.iteration_s, simulated_s);
    activities_close();
    cs_run_release(&run);
}

struct row {
    const char *what;
    const char *model;
    int32_t n_layers; /* 0 = the model's */
    int32_t mp, pp, dp, m;
    enum cs_fidelity fidelity;
};

/* In a child, so that its peak memory is its own. */
static void run_row(const struct row *row)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid > 0) {
        waitpid(pid, NULL, 0);
        return;
    }
    struct cs_err err = {0};
    struct bed bed;
    double start_s = now_s();
    bed_open(&bed, row->mp * row->pp * row->dp / 8);
    struct cs_model model = {0};
    char path[512];
    snprintf(path, sizeof path, CS_TEST_SOURCE_DIR "/workloads/models/%s.yaml", row->model);
    end_if(cs_model_load(&model, path, &err), &err);
    model.n_layers = row->n_layers ? row->n_layers : model.n_layers;
    struct cs_training training = {
        .global_batch = (int64_t)row->m * row->dp,
        .seq_length = 4096,
        .dtype = CS_DTYPE_BF16,
        .gradient_dtype = CS_DTYPE_FP32,
        .optimizer = CS_OPT_ADAMW,
        .bucket_bytes = 64e6,
        .clip_gradient = true,
        .flash_attention = true,
    };
    struct cs_strategy strategy;
    cs_strategy_init(&strategy);
    strategy.mp = row->mp;
    strategy.pp = row->pp;
    strategy.dp = row->dp;
    strategy.op = row->dp;
    strategy.sp = row->mp > 1;
    struct cs_trace *trace = NULL;
    double built_s = now_s();
    end_if(cs_trace_build(&model, &training, &strategy, &trace, &err), &err);
    double traced_s = now_s();
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.fidelity = row->fidelity;
    struct cs_run run = {0};
    end_if(cs_engine_run(trace, bed.routes, &options, &run, &err), &err);
    double first_s = now_s() - traced_s;
    cs_run_release(&run);
    double again_s = now_s();
    end_if(cs_engine_run(trace, bed.routes, &options, &run, &err), &err);
    again_s = now_s() - again_s;
    struct rusage self;
    struct rusage children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    long peak_kib = self.ru_maxrss > children.ru_maxrss ? self.ru_maxrss : children.ru_maxrss;
    const struct cs_metrics *m = &run.metrics;
    printf("%-28s %6d %6d %11lld %9lld %8lld %7.3f %7.3f %7.3f %7.3f %6ld\n", row->what, m->n_ranks,
           m->n_rank_classes, (long long)m->n_operations, (long long)m->n_activities,
           (long long)m->n_transfers, built_s - start_s, traced_s - built_s, first_s, again_s,
           peak_kib / 1024);
    if (row->fidelity == CS_FIDELITY_FULL) {
        compare_with_bare_loop(trace, &bed, &options, m->n_activities, again_s);
    }
    cs_run_release(&run);
    cs_trace_free(trace);
    cs_model_release(&model);
    bed_close(&bed);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    static const struct row rows[] = {
        {"405B, 128 ranks", "llama3-405b", 0, 8, 16, 1, 16, CS_FIDELITY_FOLDED},
        {"405B, 1,024 ranks", "llama3-405b", 0, 8, 16, 8, 16, CS_FIDELITY_FOLDED},
        {"70B, 64 ranks, m 256", "llama3-70b", 0, 4, 4, 4, 256, CS_FIDELITY_FOLDED},
        {"70B, 64 ranks, m 64, full", "llama3-70b", 0, 4, 4, 4, 64, CS_FIDELITY_FULL},
        {"70B, 40 layers", "llama3-70b", 40, 4, 4, 4, 256, CS_FIDELITY_FOLDED},
        {"70B, 160 layers", "llama3-70b", 160, 4, 4, 4, 256, CS_FIDELITY_FOLDED},
        {"70B, m 64", "llama3-70b", 0, 4, 4, 4, 64, CS_FIDELITY_FOLDED},
        {"70B, m 1024", "llama3-70b", 0, 4, 4, 4, 1024, CS_FIDELITY_FOLDED},
        {"405B, 4,096 ranks", "llama3-405b", 0, 8, 16, 32, 16, CS_FIDELITY_FOLDED},
        {"405B, 16,384 ranks", "llama3-405b", 0, 8, 16, 128, 16, CS_FIDELITY_FOLDED},
        {"70B, 64 ranks, m 256, full", "llama3-70b", 0, 4, 4, 4, 256, CS_FIDELITY_FULL},
    };
    int32_t n = quick ? 4 : (int32_t)(sizeof rows / sizeof rows[0]);
    printf("%-28s %6s %6s %11s %9s %8s %7s %7s %7s %7s %6s\n", "run", "ranks", "class", "operations",
           "activity", "transfer", "load s", "trace s", "first s", "again s", "MiB");
    for (int32_t i = 0; i < n; i++) {
        run_row(&rows[i]);
    }
    printf("'first' asks SimGrid for the routes, 'again' has them, as in a search; 'full' rows are "
           "followed by\na program that makes the same calls to SimGrid on the same platform and nothing "
           "else\n");
    return 0;
}
