#include "cs/reports/timeline.h"

#include <inttypes.h>
#include <math.h>

static const char *const op_names[CS_N_OP_TYPES] = {
    [CS_OP_COMPUTE] = "compute", [CS_OP_COLLECTIVE] = "collective",
    [CS_OP_SEND] = "send",       [CS_OP_RECV] = "receive",
    [CS_OP_ALLOC] = "allocate",  [CS_OP_FREE] = "free",
    [CS_OP_RECORD] = "record",   [CS_OP_WAIT] = "wait",
};
static const char *const phase_names[] = {
    [CS_PHASE_FORWARD] = "forward",   [CS_PHASE_BACKWARD] = "backward",   [CS_PHASE_RECOMPUTE] = "recompute",
    [CS_PHASE_GRADIENT] = "gradient", [CS_PHASE_OPTIMIZER] = "optimizer",
};

static void put_string(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            (void)fprintf(out, "\\%c", *c);
        } else if (*c < 0x20) {
            (void)fprintf(out, "\\u%04x", *c);
        } else {
            (void)fputc(*c, out);
        }
    }
    (void)fputc('"', out);
}

/* Nanoseconds as microseconds with three decimals. */
static void put_time(FILE *out, const char *key, int64_t time_ns)
{
    (void)fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, time_ns / 1000, (int)(time_ns % 1000));
}

struct writer {
    FILE *out;
    bool any; /* an event was written */
};

static void begin_event(struct writer *writer)
{
    (void)fputs(writer->any ? ",\n" : "\n", writer->out);
    writer->any = true;
}

/* A metadata event that names a process (lane < 0) or a thread. */
static void name_event(struct writer *writer, const char *what, int32_t rank, int32_t lane, const char *name)
{
    begin_event(writer);
    (void)fprintf(writer->out,
                  "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, (int)rank,
                  lane < 0 ? 0 : (int)lane);
    put_string(writer->out, name);
    (void)fputs("}}", writer->out);
}

/* Viewers sort processes and threads by this number. */
static void sort_event(struct writer *writer, const char *what, int32_t rank, int32_t lane)
{
    begin_event(writer);
    (void)fprintf(writer->out,
                  "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}", what,
                  (int)rank, lane < 0 ? 0 : (int)lane, lane < 0 ? (int)rank : (int)lane);
}

static void name_rank(struct writer *writer, const struct cs_trace *trace, int32_t rank)
{
    char name[128];
    (void)snprintf(name, sizeof name, "rank %d (%s)", (int)rank,
                   trace->programs[trace->program_of_rank[rank]].role);
    name_event(writer, "process_name", rank, -1, name);
    sort_event(writer, "process_sort_index", rank, -1);
}

static void put_span(struct writer *writer, const struct cs_trace *trace, const struct cs_span *span)
{
    FILE *out = writer->out;
    int64_t start_ns = llround(1e9 * span->start_s);
    int64_t end_ns = llround(1e9 * span->end_s);
    const char *separator = "";
    begin_event(writer);
    (void)fputs("{\"name\":", out);
    put_string(out, span->label >= 0 && span->label < trace->n_labels ? trace->labels[span->label]
                                                                      : op_names[span->type]);
    (void)fprintf(out, ",\"cat\":\"%s,%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d", op_names[span->type],
                  phase_names[span->phase], (int)span->rank, (int)span->lane);
    put_time(out, "ts", start_ns);
    put_time(out, "dur", end_ns - start_ns);
    (void)fputs(",\"args\":{", out);
    const struct {
        const char *key;
        int64_t value;
        bool known;
    } args[] = {{"layer", span->layer, span->layer >= 0},
                {"micro_batch", span->micro_batch, span->micro_batch >= 0},
                {"bytes", span->bytes, span->bytes > 0}};
    for (int32_t i = 0; i < CS_COUNT(args); i++) {
        if (args[i].known) {
            (void)fprintf(out, "%s\"%s\":%" PRId64, separator, args[i].key, args[i].value);
            separator = ",";
        }
    }
    (void)fputs("}}", out);
}

void cs_report_timeline(FILE *out, const struct cs_simulate_report *report,
                        const struct cs_report_origin *origin)
{
    struct writer writer = {out, false};
    const struct cs_trace *trace = report->trace;
    const struct cs_run *run = report->run;
    char strategy[CS_STRATEGY_TEXT_MAX];
    (void)fputs("{\"traceEvents\":[", out);
    for (int64_t i = 0; i < run->n_spans; i++) {
        const struct cs_span *span = &run->spans[i];
        const struct cs_span *before = i > 0 ? &run->spans[i - 1] : NULL;
        bool new_rank = !before || before->rank != span->rank;
        if (new_rank) {
            name_rank(&writer, trace, span->rank);
        }
        if (new_rank || before->lane != span->lane) {
            name_event(&writer, "thread_name", span->rank, span->lane, trace->stream_names[span->lane]);
            sort_event(&writer, "thread_sort_index", span->rank, span->lane);
        }
        put_span(&writer, trace, span);
    }
    (void)fputs("\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"program\":\"clustersim\",\"version\":",
                out);
    put_string(out, origin->version);
    (void)fputs(",\"model\":", out);
    put_string(out, report->study->model.name);
    (void)fputs(",\"platform\":", out);
    put_string(out, report->study->platform.name);
    (void)fputs(",\"strategy\":", out);
    put_string(out, cs_strategy_format(report->strategy, strategy, sizeof strategy));
    (void)fputs("}}\n", out);
}
