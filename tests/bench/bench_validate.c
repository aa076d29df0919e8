/* Simulated against measured step times of tests/data/measured/training_runs.csv with the catalogue's
 * figures, by source, beside what is wanted of it. Exit status 0 whatever the figures are. bench_validate
 * DATA_DIR RUNS.csv */
#include "cs/base/file.h"
#include "cs/strategies/errors.h"

#include <math.h>
#include <string.h>

/* Wanted mean absolute error, in percent. */
static const struct {
    const char *name;
    double wanted; /* @unit percent */
} targets[] = {
    {"Korthikanti et al. / a100-80gb-sxm4", 4},
    {"Narayanan et al. / a100-80gb-sxm4", 4},
    {"BigScience / a100-jean-zay", 5},
    {"llm-foundry / a100-80gb-sxm4", 6},
    {"llm-foundry / a100-40gb-sxm4", 6},
    {"llm-foundry / h100-sxm5", 6},
    {"vTrain / a100-vtrain", 8},
    {"910B", 9},
    {"MindSpeed-LLM / atlas-900-a2-pod", 9},
    {"MindFormers / atlas-900-a2-pod", 9},
    {"MindFormers / atlas-800t-a2", 9},
};

static void print(const struct cs_errors *errors)
{
    int32_t n_ordered = 0;
    int32_t n_models = 0;
    (void)printf(
        "In sample: the catalogue's figures are fitted with these runs. What is wanted is wanted of runs "
        "held out, which\nreports/validation.md shows.\n");
    (void)printf("%-44s %5s %8s %8s %8s %8s\n", "", "cases", "mean", "bias", "closed", "wanted");
    for (int32_t i = 0; i < errors->n_sets; i++) {
        const struct cs_error_set *set = &errors->sets[i];
        if (strcmp(set->kind, "source") != 0 && strcmp(set->kind, "generation") != 0) {
            continue;
        }
        (void)printf("%-44s %5d %7.1f%% %+7.1f%% %7.1f%%", set->name, (int)set->n, 100 * set->mape_frac,
                     100 * set->bias_frac, 100 * set->analytic_mape_frac);
        for (int32_t t = 0; t < CS_COUNT(targets); t++) {
            if (strcmp(targets[t].name, set->name) == 0) {
                bool met = 100 * set->mape_frac <= targets[t].wanted && fabs(set->bias_frac) <= 0.03;
                (void)printf(" %7.0f%% %s", targets[t].wanted, met ? "met in sample" : "NOT MET");
            }
        }
        (void)printf("\n");
    }
    for (int32_t i = 0; i < errors->n_ranks; i++) {
        bool model = strcmp(errors->ranks[i].kind, "model") == 0;
        n_models += model;
        n_ordered += model && errors->ranks[i].spearman >= 0.9;
    }
    (void)printf("rank correlation 0.9 or more of the runs of %d of %d models that ran five times and more\n",
                 (int)n_ordered, (int)n_models);
}

int main(int argc, char **argv)
{
    cs_status st = CS_OK;
    struct cs_err err = {0};
    struct cs_arena arena = {0};
    struct cs_catalogue *catalogue = NULL;
    struct cs_softwares softwares = {0};
    struct cs_cases cases = {0};
    struct cs_testbed bed = {0};
    struct cs_errors errors = {0};
    struct cs_case_run *runs = NULL;
    struct cs_validate_options options = {0};
    if (argc != 3) {
        (void)fprintf(stderr, "usage: bench_validate DATA_DIR RUNS.csv\n");
        return 2;
    }
    CS_TRY(cs_catalogue_load(cs_path_join(&arena, argv[1], "platforms/catalogue"), &catalogue, &err));
    CS_TRY(cs_softwares_load(&softwares, cs_path_join(&arena, argv[1], "strategies/software/software.yaml"),
                             &err));
    CS_TRY(cs_cases_load(&cases, argv[2], &softwares, &err));
    cs_testbed_init(&bed, catalogue);
    runs = cs_calloc((size_t)cases.n + 1, sizeof *runs);
    CS_TRY(cs_validate_run(&cases, &bed, &options, runs, &err));
    double *simulated_s = CS_ARENA_NEW(&arena, double, cases.n + 1);
    double *analytic_s = CS_ARENA_NEW(&arena, double, cases.n + 1);
    for (int32_t i = 0; i < cases.n; i++) {
        simulated_s[i] = runs[i].simulated_s;
        analytic_s[i] = runs[i].analytic_s;
    }
    cs_errors_find(&errors, &cases, simulated_s, analytic_s);
    print(&errors);
out:
    if (st != CS_OK) {
        (void)fprintf(stderr, "%s:%d: %s\n", err.file, err.line, err.text);
    }
    cs_errors_release(&errors);
    cs_free(runs);
    cs_testbed_release(&bed);
    cs_cases_release(&cases);
    cs_softwares_release(&softwares);
    cs_catalogue_free(catalogue);
    cs_arena_release(&arena);
    return st == CS_OK ? 0 : 1;
}
