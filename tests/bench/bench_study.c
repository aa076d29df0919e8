/**
 * @file bench_study.c
 * What the main job costs, as a user sees it: whole processes, start-up included.
 *
 *   bench_study PROGRAM
 *
 * Prints wall and processor seconds and the largest process' memory of the shipped 64-device search and of
 * one simulation of a good strategy, and how many strategies a second the search looks at and simulates.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STUDY CS_TEST_SOURCE_DIR "/strategies/studies/llama3-70b-64.yaml"

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Run and time a command; its output is thrown away. Returns the wall seconds. */
static double run(const char *what, char *const argv[])
{
    struct rusage before;
    struct rusage after;
    getrusage(RUSAGE_CHILDREN, &before);
    fflush(stdout);
    double start_s = now_s();
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(argv[0], argv);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    double wall_s = now_s() - start_s;
    getrusage(RUSAGE_CHILDREN, &after);
    printf("%-24s %8.2f s wall, %8.2f s processor, %5ld MiB largest process, exit status %d\n", what, wall_s,
           seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) -
               seconds(before.ru_stime),
           after.ru_maxrss / 1024, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return wall_s;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: bench_study PROGRAM\n");
        return 2;
    }
    char json_path[] = "/tmp/clustersim-bench-XXXXXX";
    close(mkstemp(json_path));
    char *simulate[] = {
        argv[1], "simulate", STUDY, "--strategy", "dp=64,op=dp,zero=3,micro_batch=2,recompute=full", NULL};
    char *search[] = {argv[1], "search", STUDY, "--json", json_path, NULL};
    run("simulate, one strategy", simulate);
    double wall_s = run("search, whole study", search);
    json_t *result = json_load_file(json_path, 0, NULL);
    unlink(json_path);
    if (!result) {
        fprintf(stderr, "the search wrote no result\n");
        return 1;
    }
    double n_candidates = json_number_value(json_object_get(result, "candidates"));
    double n_simulated = json_number_value(json_object_get(result, "simulated"));
    printf("%.0f strategies, %.0f simulated: %.1f and %.1f a second\n", n_candidates, n_simulated,
           n_candidates / wall_s, n_simulated / wall_s);
    json_decref(result);
    return 0;
}
