/**
 * @file bench_search.c
 * How fast the search is. Prints a table; nothing here passes or fails.
 *
 *   bench_search [--quick|--workers|--claims]
 *
 * Rows: time until llama3-70b-64 (micro-batch, schedule and placement open) is proven, and the closed form on
 * it in candidates a second on one core; an enumeration with two workers against one; GPT-3 175B on 1,024
 * devices.
 * --claims: llama3-70b-64 is enumerated (minutes), and what branch and bound, 20 Bayesian and 20 random
 * searches find of that.
 */
#include "../unit/claims.h"

#include "cs/platforms/topology.h"
#include "cs/strategies/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

/* Of this process alone: what others do on the machine does not count. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of this process (who = RUSAGE_SELF) or of children that have ended. */
static double used_s(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

struct bed {
    struct cs_study study;
    struct cs_space space;
    struct cs_simulator simulator;
    struct cs_cost *cost;
    double open_s; /* study, space, routes */
};

static void bed_open(struct bed *bed, const char *path, const struct cs_override *settings, int32_t n)
{
    struct cs_err err = {0};
    struct cs_run_options options;
    const struct cs_study_source source = {
        .data_dir = CS_TEST_SOURCE_DIR, .path = path, .n_overrides = n, .overrides = settings};
    double start_s = now_s();
    memset(bed, 0, sizeof *bed);
    end_if(cs_study_load(&bed->study, &source, &err), &err);
    end_if(cs_space_build(&bed->space, &bed->study, &err), &err);
    cs_run_options_init(&options);
    end_if(cs_simulator_init(&bed->simulator, &bed->study, &options, &err), &err);
    bed->cost = cs_cost_new(&bed->study.model, &bed->study.training, bed->simulator.routes,
                            &bed->simulator.options, &CS_COST_SCALE_NONE);
    bed->open_s = now_s() - start_s;
}

static void bed_close(struct bed *bed)
{
    cs_cost_free(bed->cost);
    cs_simulator_release(&bed->simulator);
    cs_space_release(&bed->space);
    cs_study_release(&bed->study);
}

static struct cs_search_result run(struct bed *bed, const char *algorithm, int32_t n_workers,
                                   const struct cs_search_memory *memory)
{
    struct cs_err err = {0};
    struct cs_search_result result;
    const struct cs_search_options options = {.n_workers = n_workers,
                                              .evaluate = claims_evaluate,
                                              .evaluate_context = &bed->simulator,
                                              .cost = bed->cost,
                                              .memory = memory};
    bed->study.search.algorithm = algorithm;
    end_if(cs_search_run(&result, &bed->study, &bed->space, &options, &err), &err);
    return result;
}

static double search(struct bed *bed, const char *what, const char *algorithm, int32_t n_workers)
{
    double start_s = now_s();
    double own_s = used_s(RUSAGE_SELF);
    double workers_s = used_s(RUSAGE_CHILDREN);
    struct cs_search_result result = run(bed, algorithm, n_workers, NULL);
    double took_s = now_s() - start_s;
    own_s = used_s(RUSAGE_SELF) - own_s;
    workers_s = used_s(RUSAGE_CHILDREN) - workers_s;
    printf("%-34s %-11s %d workers %8lld strategies %8lld valid %6lld fit %6lld simulated %7.2f s%s\n  "
           "processor time: %.3f s of the search itself, %.3f s of its workers\n",
           what, algorithm, (int)n_workers, (long long)result.n_candidates, (long long)bed->space.n_open,
           (long long)result.n_fit, (long long)result.n_simulated, bed->open_s + took_s,
           result.complete ? ", proven" : "", own_s, workers_s);
    fflush(stdout);
    cs_search_result_release(&result);
    return took_s;
}

/* The closed form alone, parts derived. */
static void closed_form(struct bed *bed, const char *what)
{
    struct cs_err err = {0};
    const struct cs_strategy **list = malloc(((size_t)bed->space.n_open + 1) * sizeof *list);
    int64_t n = 0;
    for (int64_t i = 0; i < bed->space.n_candidates; i++) {
        if (!bed->space.candidates[i].rule) {
            list[n++] = &bed->space.candidates[i].strategy;
        }
    }
    double start_s = cpu_s();
    end_if(cs_cost_prepare(bed->cost, list, n, NULL, &err), &err);
    double prepared_s = cpu_s() - start_s;
    struct cs_estimate estimate;
    double sum_s = 0;
    double took_s[2];
    for (int32_t turn = 0; turn < 2; turn++) { /* the first turn makes what is kept */
        start_s = cpu_s();
        for (int64_t i = 0; i < n; i++) {
            cs_cost_estimate(bed->cost, list[i], &estimate);
            sum_s += estimate.bound_s;
        }
        took_s[turn] = cpu_s() - start_s;
    }
    printf(
        "%-34s closed form %8lld valid, prepared in %.2f s, first turn %.0f, then %.0f candidates/s a core "
        "(sum %.6g s)\n",
        what, (long long)n, prepared_s, (double)n / took_s[0], (double)n / took_s[1], sum_s);
    free(list);
}

static void large_space(void)
{
    struct cs_err err = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_topology_spec spec;
    char path[] = "/tmp/clustersim-bench-XXXXXX";
    end_if(cs_catalogue_load(CS_TEST_SOURCE_DIR "/platforms/catalogue", &catalogue, &err), &err);
    cs_topology_spec_init(&spec, cs_catalogue_server(catalogue, "910b-10to1"));
    spec.n_nodes = 128;
    FILE *stream = fdopen(mkstemp(path), "wb");
    end_if(cs_topology_write(&spec, catalogue, stream, CS_NOLOC, &err), &err);
    fclose(stream);
    cs_catalogue_free(catalogue);
    const char *model = access(CS_TEST_SOURCE_DIR "/workloads/models/gpt3-175b.yaml", R_OK) == 0
                            ? "gpt3-175b"
                            : "llama3-405b";
    const struct cs_override settings[] = {
        {"model", model, true},
        {"platform", path, true},
        {"training.global_batch", "1536", false},
        {"training.seq_length", "2048", false},
        {"strategy.mp", "[1, 2, 4, 8]", false},
        {"strategy.micro_batch", "[1, 2, 3, 4, 6, 8]", false},
        {"strategy.placement",
         "[\"mp,cp,dp,pp\", \"mp,cp,pp,dp\", \"dp,cp,mp,pp\", \"dp,cp,pp,mp\", \"pp,cp,mp,dp\", "
         "\"pp,cp,dp,mp\"]",
         false},
        {"search.top", "1", false},
    };
    struct bed bed;
    char what[64];
    bed_open(&bed, NULL, settings, (int32_t)(sizeof settings / sizeof *settings));
    snprintf(what, sizeof what, "%s on 1,024 devices", model);
    search(&bed, what, "exhaustive", 2);
    closed_form(&bed, what);
    bed_close(&bed);
    unlink(path);
}

#define PLAIN CS_TEST_SOURCE_DIR "/tests/data/studies/llama3-70b-64-plain.yaml"

/* Everything that fits, by one worker and by two: on a machine that does nothing else. */
static void workers(void)
{
    struct bed bed;
    bed_open(&bed, PLAIN, NULL, 0);
    double one_s = search(&bed, "llama3-70b-64, few keys open", "enumerate", 1);
    double two_s = search(&bed, "llama3-70b-64, few keys open", "enumerate", 2);
    printf("two workers against one: %.2f times\n", one_s / two_s);
    bed_close(&bed);
}

/** A bed and what is known of it. */
struct claimed {
    struct bed bed;
    struct claims_memory known;
};

static struct cs_search_result search_known(void *context, const char *algorithm)
{
    struct claimed *c = context;
    return run(&c->bed, algorithm, 2, &c->known.memory);
}

static void count_close(struct claimed *c, const char *algorithm, int64_t limit, double best_score)
{
    int64_t most = 0;
    int32_t n = claims_n_close(&c->bed.study, search_known, c, algorithm, 20, limit, best_score, &most);
    printf("%-11s within 1 %% of the best in %d of 20 seeds, at most %lld simulations each\n", algorithm,
           (int)n, (long long)most);
    fflush(stdout);
}

static void claims(void)
{
    struct claimed claimed;
    struct bed *bed = &claimed.bed;
    bed_open(bed, "llama3-70b-64", NULL, 0);
    claims_memory_init(&claimed.known, &bed->space);
    double start_s = now_s();
    struct cs_search_result all = search_known(&claimed, "enumerate");
    printf("enumeration: %lld of %lld strategies simulated in %.1f s\n", (long long)all.n_simulated,
           (long long)all.n_candidates, now_s() - start_s);
    struct cs_search_result proof = search_known(&claimed, "exhaustive");
    bool same = proof.complete;
    for (int64_t i = 0; i < bed->study.search.n_top; i++) {
        same = same && proof.ranking[i].candidate == all.ranking[i].candidate;
    }
    printf("exhaustive: %lld simulated (%.1f %%), the best %lld are %s of the enumeration\n",
           (long long)proof.n_simulated, 100 * (double)proof.n_simulated / (double)all.n_simulated,
           (long long)bed->study.search.n_top, same ? "those" : "NOT those");
    int64_t limit = all.n_simulated * 2 / 100;
    count_close(&claimed, "bayes", limit, all.ranking[0].score);
    count_close(&claimed, "random", limit, all.ranking[0].score);
    cs_search_result_release(&all);
    cs_search_result_release(&proof);
    claims_memory_release(&claimed.known);
    bed_close(bed);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "--workers") == 0) {
        workers();
        return 0;
    }
    if (strcmp(what, "--claims") == 0) {
        claims();
        return 0;
    }
    struct bed bed;
    bed_open(&bed, "llama3-70b-64", NULL, 0);
    search(&bed, "llama3-70b-64", "exhaustive", 2);
    closed_form(&bed, "llama3-70b-64");
    bed_close(&bed);
    if (strcmp(what, "--quick") != 0) {
        workers();
        large_space();
    }
    return 0;
}
