#include "mindformers_priv.h"

#include "cs/workloads/mindformers.h"

#include <string.h>

/* Settings that a configuration makes: model, seven of the training. */
enum { N_SETTINGS = 8 };

static void say_warnings(const struct cs_mindformers *config, const char *path)
{
    for (int32_t i = 0; i < config->n_warnings; i++) {
        const struct cs_mindformers_warning *w = &config->warnings[i];
        (void)fprintf(stderr, "%s:%d: warning: %s: %s\n", path, w->line, w->key, w->text);
    }
}

/* Put settings before those of the command line, which win. */
static cs_status put_first(struct cs__study_args *args, const struct cs_override *settings, int32_t n,
                           struct cs_err *err)
{
    if (args->n_overrides + n > CS__OVERRIDES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, CS_NOLOC, "more than %d settings", CS__OVERRIDES_MAX);
    }
    memmove(args->overrides + n, args->overrides, (size_t)args->n_overrides * sizeof *settings);
    memcpy(args->overrides, settings, (size_t)n * sizeof *settings);
    args->n_overrides += n;
    return CS_OK;
}

cs_status cs__mindformers_apply(struct cs__mindformers *m, const char *path, struct cs__study_args *args,
                                struct cs_err *err)
{
    cs_status st;
    struct cs_mindformers config = {0};
    struct cs_override settings[N_SETTINGS];
    int32_t n = 0;
    CS_TRY(cs_mindformers_load(&config, path, err));
    say_warnings(&config, path);
    (void)cs_strategy_format(&config.strategy, m->strategy, sizeof m->strategy);
    (void)snprintf(m->batch, sizeof m->batch, "%lld", (long long)config.training.global_batch);
    (void)snprintf(m->seq_length, sizeof m->seq_length, "%lld", (long long)config.training.seq_length);
    if (config.has_model) {
        settings[n++] = (struct cs_override){"model", path, true};
    }
    if (config.has_training) {
        const struct cs_training *t = &config.training;
        settings[n++] = (struct cs_override){"training.global_batch", m->batch, true};
        settings[n++] = (struct cs_override){"training.seq_length", m->seq_length, true};
        settings[n++] = (struct cs_override){"training.dtype", cs_dtype_names[t->dtype], true};
        settings[n++] = (struct cs_override){"training.optimizer", cs_optimizer_names[t->optimizer], true};
        settings[n++] =
            (struct cs_override){"training.clip_gradient", t->clip_gradient ? "true" : "false", false};
        settings[n++] = (struct cs_override){"training.gradient_fp32_sync",
                                             t->gradient_fp32_sync ? "true" : "false", false};
        size_t len = 0;
        for (int32_t i = 0; i < t->n_fusion; i++) {
            len += (size_t)snprintf(m->fusion + len, sizeof m->fusion - len, "%s%d", i > 0 ? ", " : "[",
                                    (int)t->fusion[i]);
        }
        if (t->n_fusion > 0) {
            (void)snprintf(m->fusion + len, sizeof m->fusion - len, "]");
            settings[n++] = (struct cs_override){"training.gradient_fusion", m->fusion, false};
        }
    }
    CS_TRY(put_first(args, settings, n, err));
out:
    cs_mindformers_release(&config);
    return st;
}
