#include "cs/reports/misrank.h"

#include "cs/reports/json.h"
#include "text_priv.h"

#include <math.h>

static const struct cs_strategy *strategy_of(const struct cs_search_report *report, int64_t candidate)
{
    return &report->space->candidates[candidate].strategy;
}

void cs_report_misrank_text(FILE *out, const struct cs_search_report *report, const struct cs_misrank *m)
{
    char strategy[CS_STRATEGY_TEXT_MAX];
    char text[640];
    char value[64];
    (void)fprintf(out, "\nclosed form against simulation, %lld strategies\n", (long long)m->n);
    if (m->n == 0) {
        return;
    }
    (void)fprintf(
        out, "  rank correlation %.4f; error %.2f %% on average, %+.2f %% in the mean, at most %.1f %%\n",
        m->spearman, 100 * m->mape_frac, 100 * m->bias_frac, 100 * m->worst_frac);
    (void)fprintf(out, "  its choice is %.2f %% slower than the best, the best of its five %.2f %%\n",
                  100 * m->top1_regret_frac, 100 * m->top5_regret_frac);
    (void)fputs("what it lacks\n", out);
    for (int32_t lack = 0; lack < CS_N_LACKS; lack++) {
        if (m->n_lack[lack] > 0) {
            (void)fprintf(out, "  %8lld  %+7.2f %%  %s\n", (long long)m->n_lack[lack],
                          100 * m->lack_frac[lack], cs_lack_names[lack]);
        }
    }
    (void)fputs(m->n_keys > 0 ? "where: mean error by value of a key, the most unusual first\n" : "", out);
    for (int32_t i = 0; i < m->n_keys; i++) {
        const struct cs_misrank_key *key = &m->keys[i];
        (void)fprintf(out, "  %8lld  %+7.2f %%  %s=%s\n", (long long)key->n, 100 * key->mean_error_frac,
                      cs_strategy_keys[key->key],
                      cs__key_text(strategy_of(report, key->example), key->key, value, sizeof value));
    }
    (void)fputs(m->n_worst > 0 ? "most places wrong: by simulation, by closed form\n" : "", out);
    for (int32_t i = 0; i < m->n_worst; i++) {
        const struct cs_misranked *w = &m->worst[i];
        (void)snprintf(text, sizeof text, "%.4g s, %.4g s: %s", w->simulated_s, w->closed_s,
                       cs_strategy_format(strategy_of(report, w->candidate), strategy, sizeof strategy));
        (void)snprintf(value, sizeof value, "  %5lld %5lld  ", (long long)w->simulated_rank,
                       (long long)w->closed_rank);
        cs__paragraph(out, value, text);
    }
}

json_t *cs_report_misrank_json(const struct cs_search_report *report, const struct cs_misrank *m)
{
    json_t *lacks = json_array();
    json_t *keys = json_array();
    json_t *worst = json_array();
    char value[64];
    for (int32_t lack = 0; lack < CS_N_LACKS; lack++) {
        (void)json_array_append_new(lacks,
                                    json_pack("{s:s, s:I, s:f}", "what", cs_lack_names[lack], "count",
                                              (json_int_t)m->n_lack[lack], "mean_error", m->lack_frac[lack]));
    }
    for (int32_t i = 0; i < m->n_keys; i++) {
        const struct cs_misrank_key *key = &m->keys[i];
        (void)json_array_append_new(
            keys, json_pack("{s:s, s:s, s:I, s:f}", "key", cs_strategy_keys[key->key], "value",
                            cs__key_text(strategy_of(report, key->example), key->key, value, sizeof value),
                            "count", (json_int_t)key->n, "mean_error", key->mean_error_frac));
    }
    for (int32_t i = 0; i < m->n_worst; i++) {
        const struct cs_misranked *w = &m->worst[i];
        (void)json_array_append_new(
            worst, json_pack("{s:o, s:f, s:f, s:I, s:I, s:s}", "strategy",
                             cs_report_strategy_json(strategy_of(report, w->candidate)), "simulated_s",
                             w->simulated_s, "analytic_s", w->closed_s, "simulated_rank",
                             (json_int_t)w->simulated_rank, "analytic_rank", (json_int_t)w->closed_rank,
                             "lacks", cs_lack_names[w->lack]));
    }
    json_t *spearman = isfinite(m->spearman) ? json_real(m->spearman) : json_null();
    return json_pack("{s:I, s:o, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "strategies", (json_int_t)m->n,
                     "spearman", spearman, "mape", m->mape_frac, "bias", m->bias_frac, "worst", m->worst_frac,
                     "top1_regret", m->top1_regret_frac, "top5_regret", m->top5_regret_frac, "lacks", lacks,
                     "keys", keys, "most_misranked", worst);
}
