/* Run published cases through the pool. */
#include "cs/strategies/validate.h"

#include "validate_priv.h"

#include "cs/pool/pool.h"
#include "cs/strategies/cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct job_list {
    const struct cs_cases *cases;
    const struct cs_testbed *bed;
    const struct cs_validate_options *options;
    struct cs_case_run *runs;
    struct cs__sites *sites;
    int32_t *todo; /* cases, those of one site side by side */
    int32_t n_todo;
    int32_t at;
    int32_t n_done;
};

/* ---- sites ----------------------------------------------------------------------------------------------
 */

cs_status cs__sites_init(struct cs__sites *sites, const struct cs_cases *cases, const bool *wanted,
                         const struct cs_testbed *bed, const char *simgrid_cfg, struct cs_err *err)
{
    cs_status st = CS_OK;
    *sites = (struct cs__sites){0};
    /* Routes point at their platform: the list must not move. */
    sites->items = cs_calloc((size_t)cases->n + 1, sizeof *sites->items);
    sites->of_case = cs_calloc((size_t)cases->n + 1, sizeof *sites->of_case);
    for (int32_t i = 0; i < cases->n; i++) {
        const struct cs_case *c = &cases->items[i];
        const struct cs_server *server = cs_testbed_server(bed, c->server);
        int32_t n_nodes = c->n_devices / c->devices_per_node;
        sites->of_case[i] = -1;
        if (c->problem || !server || (wanted && !wanted[i])) {
            continue;
        }
        int32_t s = 0;
        while (s < sites->n && (sites->items[s].server != server || sites->items[s].software != c->software ||
                                sites->items[s].n_nodes != n_nodes ||
                                sites->items[s].devices_per_node != c->devices_per_node)) {
            s++;
        }
        sites->of_case[i] = s;
        if (s == sites->n) {
            sites->n++;
            CS_TRY(cs_site_init(&sites->items[s], bed, server, c->software, n_nodes, c->devices_per_node,
                                simgrid_cfg, err));
        }
    }
out:
    return st;
}

void cs__sites_release(struct cs__sites *sites)
{
    for (int32_t i = 0; i < sites->n; i++) {
        cs_site_release(&sites->items[i]);
    }
    cs_free(sites->items);
    cs_free(sites->of_case);
    *sites = (struct cs__sites){0};
}

/* ---- one case -------------------------------------------------------------------------------------------
 */

static void take_memory(const struct cs_case *c, const struct cs_metrics *m, struct cs_case_run *run)
{
    if (c->kind == CS_CASE_MEMORY_STATE) {
        run->simulated_bytes = (double)(m->memory_bytes[CS_MEM_WEIGHTS] + m->memory_bytes[CS_MEM_GRADIENTS] +
                                        m->memory_bytes[CS_MEM_OPTIMIZER]);
    } else if (c->kind == CS_CASE_MEMORY_ACTIVATIONS) {
        run->simulated_bytes = (double)m->memory_bytes[CS_MEM_ACTIVATIONS];
    }
}

cs_status cs__case_trace(const struct cs_case *c, struct cs_trace **trace, struct cs_err *err)
{
    return cs_trace_build(&c->model, &c->training, &c->strategy, trace, err);
}

static cs_status estimate(const struct cs_case *c, struct cs_site *site, const struct cs_run_options *options,
                          double *analytic_s, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_strategy *list[] = {&c->strategy};
    const struct cs_cost_scale scale = CS_COST_SCALE_NONE;
    struct cs_estimate found = {0};
    struct cs_cost *cost = cs_cost_new(&c->model, &c->training, site->routes, options, &scale);
    CS_TRY(cs_cost_prepare(cost, list, 1, NULL, err));
    cs_cost_estimate(cost, &c->strategy, &found);
    if (found.time_s > 0) {
        *analytic_s = found.time_s + c->software->figure[CS_SOFTWARE_STEP_OVERHEAD];
    }
out:
    cs_cost_free(cost);
    return st;
}

static cs_status run_case(const struct job_list *jobs, int32_t index, struct cs_case_run *record,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_case *c = &jobs->cases->items[index];
    struct cs_site *site = &jobs->sites->items[jobs->sites->of_case[index]];
    struct cs_trace *trace = NULL;
    struct cs_run run = {0};
    struct cs_run_options options;
    cs_run_options_init(&options);
    options.fidelity = CS_FIDELITY_FOLDED;
    options.simgrid_cfg = jobs->options->simgrid_cfg;
    CS_TRY(cs__case_trace(c, &trace, err));
    record->simulated_s = record->analytic_s = NAN;
    if (c->kind != CS_CASE_TIME) {
        cs_engine_memory(trace, &site->platform, &record->metrics);
        take_memory(c, &record->metrics, record);
        record->ran = true;
        goto out;
    }
    CS_TRY(cs_engine_run(trace, site->routes, &options, &run, err));
    record->metrics = run.metrics;
    record->simulated_s = run.metrics.iteration_s + c->software->figure[CS_SOFTWARE_STEP_OVERHEAD];
    CS_TRY(estimate(c, site, &options, &record->analytic_s, err));
    record->n_path = run.n_path < CS_CASE_PATH_MAX ? run.n_path : CS_CASE_PATH_MAX;
    memcpy(record->path, run.path, (size_t)record->n_path * sizeof *run.path);
    record->ran = true;
out:
    cs_run_release(&run);
    cs_trace_free(trace);
    return st;
}

/* ---- pool -----------------------------------------------------------------------------------------------
 */

static cs_status job(void *context, int64_t number, void *record, struct cs_err *err)
{
    return run_case(context, (int32_t)number, record, err);
}

static int64_t next(void *context)
{
    struct job_list *jobs = context;
    return jobs->at < jobs->n_todo ? jobs->todo[jobs->at++] : -1;
}

static bool done(void *context, int64_t number, enum cs_job_end end, const void *record,
                 const struct cs_err *err)
{
    struct job_list *jobs = context;
    struct cs_case_run *run = &jobs->runs[number];
    if (end == CS_JOB_DONE) {
        memcpy(run, record, sizeof *run);
    } else {
        char text[CS_ERR_TEXT_MAX + CS_ERR_FILE_MAX + 64];
        cs_err_format(err, text, sizeof text);
        (void)snprintf(run->reason, sizeof run->reason, "%.250s",
                       end == CS_JOB_TIMEOUT ? "took longer than the time limit" : text);
    }
    jobs->n_done++;
    if (jobs->options->progress) {
        jobs->options->progress(jobs->options->progress_context, jobs->n_done, jobs->n_todo);
    }
    return true;
}

static void plan(struct job_list *jobs)
{
    const struct cs_cases *cases = jobs->cases;
    for (int32_t i = 0; i < cases->n; i++) {
        const struct cs_case *c = &cases->items[i];
        struct cs_case_run *run = &jobs->runs[i];
        memset(run, 0, sizeof *run);
        run->simulated_s = run->analytic_s = NAN;
        if (jobs->options->wanted && !jobs->options->wanted[i]) {
            continue;
        }
        if (c->problem) {
            (void)snprintf(run->reason, sizeof run->reason, "%s", c->problem);
        } else if (!cs_testbed_server(jobs->bed, c->server)) {
            (void)snprintf(run->reason, sizeof run->reason, "hardware '%.60s' is not in the catalogue",
                           c->hardware);
        } else {
            jobs->todo[jobs->n_todo++] = i;
        }
    }
}

cs_status cs_validate_run(const struct cs_cases *cases, const struct cs_testbed *bed,
                          const struct cs_validate_options *options, struct cs_case_run *runs,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs__sites sites = {0};
    struct job_list jobs = {.cases = cases, .bed = bed, .options = options, .runs = runs, .sites = &sites};
    struct cs_pool_options pool = {.n_workers = options->n_workers,
                                   .record_bytes = sizeof(struct cs_case_run),
                                   .job_limit_s = options->case_limit_s,
                                   .stop = options->stop};
    jobs.todo = cs_calloc((size_t)cases->n + 1, sizeof *jobs.todo);
    plan(&jobs);
    CS_TRY(cs__sites_init(&sites, cases, options->wanted, bed, options->simgrid_cfg, err));
    CS_TRY(cs_pool_run(&pool, job, next, done, &jobs, err));
out:
    cs__sites_release(&sites);
    cs_free(jobs.todo);
    return st;
}
