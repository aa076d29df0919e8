#include "text_priv.h"

#include "cs/base/units.h"

#include <string.h>

char *cs__count(int64_t n, char *buf, size_t buf_bytes)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
    size_t used = 0;
    for (int i = 0; i < len && used + 2 < buf_bytes; i++) {
        if (i > 0 && digits[i - 1] != '-' && (len - i) % 3 == 0) {
            buf[used++] = ',';
        }
        buf[used++] = digits[i];
    }
    buf[used] = '\0';
    return buf;
}

const char *cs__key_text(const struct cs_strategy *strategy, enum cs_key key, char *buf, size_t buf_bytes)
{
    switch (key) {
    case CS_KEY_SP:
    case CS_KEY_FUSED_TP:
    case CS_KEY_KEEP_COMM:
    case CS_KEY_OFFLOAD_OPTIMIZER:
    case CS_KEY_SWAP_ACTIVATIONS:
    case CS_KEY_EXPERT_MP:
    case CS_KEY_KEEP_WEIGHTS:
        return cs_key_get(strategy, key) ? "yes" : "no";
    case CS_KEY_CP_KIND:
        return cs_cp_kind_names[strategy->cp_kind];
    case CS_KEY_SCHEDULE:
        return cs_schedule_names[strategy->schedule];
    case CS_KEY_RECOMPUTE:
        return cs_recompute_names[strategy->recompute];
    case CS_KEY_PLACEMENT:
        (void)snprintf(buf, buf_bytes, "%s,%s,%s,%s", cs_dim_names[strategy->placement[0]],
                       cs_dim_names[strategy->placement[1]], cs_dim_names[strategy->placement[2]],
                       cs_dim_names[strategy->placement[3]]);
        return buf;
    case CS_KEY_DP:
    case CS_KEY_MP:
    case CS_KEY_PP:
    case CS_KEY_OP:
    case CS_KEY_ZERO:
    case CS_KEY_CP:
    case CS_KEY_EP:
    case CS_KEY_VPP:
    case CS_KEY_MICRO_BATCH:
    case CS_KEY_SEQ_SPLIT:
    case CS_KEY_HALF_BATCHES:
    case CS_N_KEYS:
        break;
    }
    (void)snprintf(buf, buf_bytes, "%d", (int)cs_key_get(strategy, key));
    return buf;
}

char *cs__list_text(const struct cs_per_place *list, char *buf, size_t buf_bytes)
{
    size_t used = 0;
    buf[0] = '\0';
    for (int32_t i = 0; i < list->n && used + 8 < buf_bytes; i++) {
        int n = snprintf(buf + used, buf_bytes - used, "%s%d", i > 0 ? "/" : "", (int)list->at[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return buf;
}

void cs__emphasise(FILE *out, bool color, enum cs__emphasis emphasis, const char *text)
{
    static const char *const codes[] = {"", "\033[1m", "\033[33m"};
    if (color && emphasis != CS__PLAIN) {
        (void)fprintf(out, "%s%s\033[0m", codes[emphasis], text);
    } else {
        (void)fputs(text, out);
    }
}

void cs__warning_line(FILE *out, bool color, const char *text)
{
    cs__emphasise(out, color, CS__WARNING, "warning:");
    (void)fprintf(out, " %s\n", text);
}

void cs__inputs(FILE *out, const struct cs_study *study)
{
    const struct cs_platform *platform = &study->platform;
    const struct cs_training *training = &study->training;
    char batch[32];
    char memory[32];
    (void)fprintf(out, "%s on %s: %d x %s (%s), %d a node, %s between nodes\n", study->model.name,
                  platform->name, (int)platform->n_devices, platform->devices[0].chip->name,
                  cs_units_format(cs_study_device_memory_bytes(study), CS_UNIT_BYTES, memory, sizeof memory),
                  (int)platform->devices_per_node, platform->topology);
    (void)fprintf(out, "global batch %s sequences of %lld tokens, %s, %s\n",
                  cs__count(training->global_batch, batch, sizeof batch), (long long)training->seq_length,
                  cs_dtype_names[training->dtype], cs_optimizer_names[training->optimizer]);
}

/* How much of `text` goes on a line: up to a comma if one stands in the second half, else up to a space. */
static size_t break_at(const char *text, size_t width)
{
    size_t space = 0;
    size_t comma = 0;
    for (size_t i = 1; i <= width; i++) {
        space = text[i] == ' ' ? i : space;
        comma = text[i - 1] == ',' ? i : comma;
    }
    if (comma > width / 2) {
        return comma;
    }
    return space > 0 ? space : width;
}

void cs__paragraph(FILE *out, const char *label, const char *text)
{
    int indent = (int)strlen(label);
    size_t width = CS_REPORT_COLUMNS > indent + 20 ? (size_t)(CS_REPORT_COLUMNS - indent) : 20;
    const char *lead = label;
    while (*text) {
        size_t len = strlen(text);
        size_t take = len > width ? break_at(text, width) : len;
        (void)fprintf(out, "%*s%.*s\n", indent, lead, (int)take, text);
        text += take;
        text += strspn(text, " ");
        lead = "";
    }
}
