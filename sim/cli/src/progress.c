#include "cli_priv.h"

#include <unistd.h>

#define BAR_WIDTH 30
#define BAR_EVERY_S 0.1
#define LINE_EVERY_S 10.0

void cs__progress_init(struct cs__progress *progress, const struct cs__output_args *args)
{
    bool terminal = isatty(STDERR_FILENO);
    *progress = (struct cs__progress){0};
    progress->bar = !args->quiet && (args->progress < 0 ? terminal : args->progress > 0);
    progress->lines = !args->quiet && args->progress != 0 && !progress->bar;
    progress->next_s = progress->lines ? LINE_EVERY_S : 0;
}

/* "1:23:45", "4:05" */
static const char *clock_text(double time_s, char *buf, size_t buf_bytes)
{
    long total = (long)(time_s + 0.5);
    if (total >= 3600) {
        (void)snprintf(buf, buf_bytes, "%ld:%02ld:%02ld", total / 3600, total / 60 % 60, total % 60);
    } else {
        (void)snprintf(buf, buf_bytes, "%ld:%02ld", total / 60, total % 60);
    }
    return buf;
}

static void show_bar(const struct cs_search_progress *state, double rate, const char *left, bool last)
{
    char bar[BAR_WIDTH + 1];
    int filled = state->n_open > 0 ? (int)(state->n_done * BAR_WIDTH / state->n_open) : BAR_WIDTH;
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    }
    bar[BAR_WIDTH] = '\0';
    (void)fprintf(stderr, "\r[%s] %lld/%lld  %.0f/s  %s%s", bar, (long long)state->n_done,
                  (long long)state->n_open, rate, left, last ? "" : " left");
    if (state->best) {
        (void)fprintf(stderr, "  best %.0f tokens/s", state->best->tokens_per_s);
    }
    (void)fprintf(stderr, "\033[K%s", last ? "\n" : "");
}

void cs__progress_end(struct cs__progress *progress)
{
    if (progress->open) {
        (void)fputc('\n', stderr);
        progress->open = false;
    }
}

void cs__progress_show(void *context, const struct cs_search_progress *state)
{
    struct cs__progress *progress = context;
    bool last = state->n_done >= state->n_open;
    if ((!progress->bar && !progress->lines) || (state->elapsed_s < progress->next_s && !last)) {
        return;
    }
    char left[32];
    double rate = state->elapsed_s > 0 ? (double)state->n_done / state->elapsed_s : 0;
    double left_s = rate > 0 ? (double)(state->n_open - state->n_done) / rate : 0;
    (void)clock_text(last ? state->elapsed_s : left_s, left, sizeof left);
    if (progress->bar) {
        show_bar(state, rate, left, last);
        progress->open = !last;
    } else {
        (void)fprintf(stderr, "%lld of %lld strategies done, %lld simulated, %.0f a second, %s %s\n",
                      (long long)state->n_done, (long long)state->n_open, (long long)state->n_simulated, rate,
                      left, last ? "in all" : "left");
    }
    progress->next_s = state->elapsed_s + (progress->bar ? BAR_EVERY_S : LINE_EVERY_S);
}
