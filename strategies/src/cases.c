/* Rows of published runs -> model, training, strategy. */
#include "cs/strategies/cases.h"

#include "cases_priv.h"
#include "csv_priv.h"

#include "cs/base/text.h"
#include "cs/base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cs_case_kind_names[] = {"time", "memory-state", "memory-activations", NULL};

/* No overlap: one bucket for all gradients, complete at the end of backward. */
#define ONE_BUCKET_BYTES 1e18
#define MEASURED_MIN_S 1e-6
#define MEASURED_MAX_S 1e7

struct reader {
    struct cs_cases *cases;
    const struct cs__csv *csv;
    int32_t row;
    struct cs_case *c;
    const struct cs_softwares *softwares;
    struct cs_strbuf assumed;
    struct cs_err *err;
};

static const char *text(const struct reader *r, const char *column)
{
    return cs__csv_text(r->csv, r->row, column);
}

static bool says(const struct reader *r, const char *column, const char *part)
{
    return strstr(text(r, column), part) != NULL;
}

static void assume(struct reader *r, const char *what)
{
    cs_strbuf_addf(&r->assumed, "%s%s", r->assumed.len ? "; " : "", what);
}

static void refuse(struct reader *r, const char *why)
{
    if (!r->c->problem) {
        r->c->problem = cs_arena_strdup(&r->cases->arena, why);
    }
}

static struct cs_loc here(const struct reader *r)
{
    return (struct cs_loc){r->csv->path, r->csv->rows[r->row].line, 0};
}

/* A whole number; an empty cell leaves *value as it is. */
static cs_status whole(struct reader *r, const char *column, int64_t min, int64_t *value)
{
    const char *t = text(r, column);
    return *t ? cs_int_parse(t, min, (int64_t)1 << 40, column, here(r), value, r->err) : CS_OK;
}

static cs_status whole32(struct reader *r, const char *column, int32_t *value)
{
    int64_t wide = *value;
    cs_status st = CS_OK;
    CS_TRY(whole(r, column, 1, &wide));
    if (wide > 1 << 24) {
        st = cs_err_set(r->err, CS_E_LIMIT, here(r), "'%s' is %lld, at most 16777216", column,
                        (long long)wide);
        goto out;
    }
    *value = (int32_t)wide;
out:
    return st;
}

/* What the hardware of a measurement is: a server of the catalogue, and the chip as far as it is stated. */
static void name_hardware(struct cs_case *c)
{
    static const char *const map[][3] = {
        {"atlas-900-a2-pod", "atlas-900-a2", "910B"},
        {"atlas-800t-a2", "atlas-800t-a2", "910B"},
        {"atlas-800-910a", "atlas-800-910a", "910A"},
        {"ascend-unstated", "atlas-800t-a2", NULL},
        {"a100-80gb-sxm4", "dgx-a100", "A100"},
        {"a100-40gb-sxm4", "dgx-a100-40", "A100"},
        {"a100-jean-zay", "jean-zay-a100", "A100"},
        {"a100-vtrain", "vtrain-a100", "A100"},
        {"h100-sxm5", "dgx-h100", "H100"},
        {"h800", "dgx-h800", "H800"},
        {"v100", "dgx-v100", "V100"},
    };
    c->server = c->hardware; /* a catalogue server's own name */
    for (int32_t i = 0; i < CS_COUNT(map); i++) {
        if (strcmp(c->hardware, map[i][0]) == 0) {
            c->server = map[i][1];
            c->generation = map[i][2];
        }
    }
}

/* "y", "n" or nothing. */
static bool yes(struct reader *r, const char *column)
{
    const char *t = text(r, column);
    if (*t && strcmp(t, "y") != 0 && strcmp(t, "n") != 0) {
        refuse(r, cs_arena_printf(&r->cases->arena, "'%s' is '%.20s', neither y nor n", column, t));
    }
    return strcmp(t, "y") == 0;
}

static cs_status read_model(struct reader *r)
{
    cs_status st = CS_OK;
    struct cs_model *m = &r->c->model;
    bool gated = yes(r, "gated_mlp");
    *m = (struct cs_model){.name = text(r, "model"), .source = r->c->source, .flash_attention = true};
    CS_TRY(whole32(r, "layers", &m->n_layers));
    CS_TRY(whole(r, "hidden", 1, &m->hidden));
    CS_TRY(whole(r, "heads", 1, &m->n_heads));
    m->n_kv_heads = m->n_heads;
    CS_TRY(whole(r, "kv_heads", 1, &m->n_kv_heads));
    m->ffn = 4 * m->hidden;
    CS_TRY(whole(r, "ffn", 1, &m->ffn));
    CS_TRY(whole(r, "vocab", 1, &m->vocab));
    CS_TRY(whole32(r, "moe_experts", &m->n_experts));
    CS_TRY(whole32(r, "moe_topk", &m->experts_per_token));
    if (m->n_layers < 1 || m->hidden < 1 || m->n_heads < 1) {
        refuse(r, "layers, hidden size or heads are missing");
        m->n_heads = m->n_heads < 1 ? 1 : m->n_heads;
    }
    m->expert_ffn = m->n_experts > 0 ? m->ffn : 0;
    m->head_dim = m->hidden / m->n_heads;
    m->norm = gated ? CS_NORM_RMS : CS_NORM_LAYER;
    m->activation = gated ? CS_ACT_SWIGLU : CS_ACT_GELU;
    m->position = gated ? CS_POS_ROPE : CS_POS_LEARNED;
    m->tied_embedding = !gated;
    m->causal = true;
    /* MPT has neither biases nor learned positions (ALiBi); other plain models are GPTs. */
    bool mpt = strstr(m->name, "MPT") != NULL;
    m->linear_bias = !gated && !mpt;
    if (mpt) {
        m->position = CS_POS_ALIBI;
    }
    if (strstr(cs_software_flags(r->c->software, r->c->source), "position-embedding-type alibi")) {
        m->position = CS_POS_ALIBI;
    }
    m->dropout_frac = gated ? 0 : r->c->software->gpt_dropout_frac;
    if (m->vocab == 0) {
        m->vocab = r->c->software->vocab;
        assume(r, cs_arena_printf(&r->cases->arena, "vocabulary %lld", (long long)m->vocab));
    }
out:
    return st;
}

/* "8, 4, 4]" or "5,6,6 |": a number for each stage. */
static void read_list(struct reader *r, const char *t, struct cs_per_place *list)
{
    *list = (struct cs_per_place){0};
    while (isdigit((unsigned char)*t) && list->n < CS_PLACES_MAX) {
        char *end = NULL;
        long n = strtol(t, &end, 10);
        if (n > CS_PER_PLACE_MAX) {
            refuse(r, "a stage with more layers than a model has");
            return;
        }
        list->at[list->n++] = (uint16_t)n;
        t = end + strspn(end, ", ");
    }
}

/* "full", "none", "selective...", either "... on layers per stage [8, 4, 1]", "" */
static void read_recompute(struct reader *r)
{
    struct cs_strategy *s = &r->c->strategy;
    const char *t = text(r, "recompute");
    const char *list = strchr(t, '[');
    enum cs_recompute kind = CS_RECOMPUTE_NONE;
    const char *why = cs__case_recompute(t, &kind);
    if (why) {
        refuse(r, why);
    } else if (r->c->software->no_recomputation && kind != CS_RECOMPUTE_NONE) {
        assume(r, "no recomputation, although stated");
    } else if (*t == '\0') {
        assume(r, "no recomputation");
    } else if (list && kind != CS_RECOMPUTE_NONE) {
        struct cs_per_place *layers = kind == CS_RECOMPUTE_FULL ? &s->full_layers : &s->selective_layers;
        read_list(r, list + 1, layers);
        if (layers->n == 0) {
            refuse(r, "the source does not say which layers are recomputed");
        }
    } else {
        s->recompute = kind;
    }
}

/* Optimizer sharding in the sources' words. */
static void read_sharding(struct reader *r)
{
    struct cs_strategy *s = &r->c->strategy;
    const char *t = text(r, "optimizer_shard");
    const int32_t zero = cs__case_zero(t);
    if (zero < 0) {
        refuse(r, "how the optimizer is sharded is unknown");
    } else if (zero > 0) {
        s->op = s->dp;
        s->zero = zero;
    } else if (*t == '\0' && s->dp > 1) {
        assume(r, "optimizer states replicated");
    }
}

static enum cs_dtype read_dtype(struct reader *r)
{
    const char *t = text(r, "dtype");
    char low[64] = "";
    for (size_t i = 0; t[i] && i + 1 < sizeof low; i++) {
        low[i] = (char)tolower((unsigned char)t[i]);
    }
    if (strstr(low, "fp8")) {
        return CS_DTYPE_FP8;
    }
    if (strstr(low, "bf16") || strstr(low, "bfloat16")) {
        return CS_DTYPE_BF16;
    }
    if (strstr(low, "fp32") || strstr(low, "float32")) {
        return CS_DTYPE_FP32;
    }
    if (*low && !strstr(low, "fp16") && !strstr(low, "float16") && strcmp(low, "amp") != 0) {
        refuse(r, "the number type is unknown");
    }
    return CS_DTYPE_FP16;
}

static void read_flags(struct reader *r)
{
    struct cs_case *c = r->c;
    struct cs_training *t = &c->training;
    const struct cs_software *software = c->software;
    t->flash_attention = software->flash;
    if (says(r, "notes", "use-flash-attn")) {
        t->flash_attention = true;
    } else if (says(r, "notes", "no flash attention")) {
        t->flash_attention = false;
    }
    t->dtype = read_dtype(r);
    bool fp32 = !software->low_gradients && (t->dtype != CS_DTYPE_FP16 || software->fp32_gradients);
    if (says(r, "notes", "mp_mode PURE")) {
        fp32 = false; /* llm-foundry: everything in the low type */
    }
    t->gradient_dtype = fp32 ? CS_DTYPE_FP32 : t->dtype;
    bool overlap = software->overlap_gradients || says(r, "notes", "overlap-grad-reduce");
    t->bucket_bytes = overlap ? 64e6 : ONE_BUCKET_BYTES;
    t->aggregation_groups = overlap ? (int32_t)software->aggregation_groups : 0;
    t->scatter_messages = software->scatter_messages;
    t->blocking_sends = software->blocking_sends;
    t->serial_messages = software->serial_messages;
    cs__case_kernels(t, &c->model, software, text(r, "notes"), cs_software_flags(software, c->source));
    t->widened_gradients = says(r, "optimizer_shard", "BF16 optimizer");
    t->softmax_multiple = (int32_t)software->softmax_multiple;
    t->clip_gradient = true;
    t->optimizer = CS_OPT_ADAMW;
    bool fused = yes(r, "fused_tp_comm") || software->overlap_tensor_parallel;
    c->strategy.fused_tp = c->strategy.mp > 1 && fused;
    /* Megatron-LM and what is built on it cut experts over mp, unless told otherwise. */
    c->strategy.expert_mp =
        c->model.n_experts > 0 && c->strategy.mp > 1 && !says(r, "notes", "moe-tp-extend-ep");
    c->strategy.cp_kind = says(r, "notes", "ulysses_cp") ? CS_CP_ULYSSES : CS_CP_RING;
    c->strategy.keep_comm =
        c->strategy.mp > 1 && c->strategy.recompute == CS_RECOMPUTE_FULL &&
        strstr(cs_software_flags(software, c->source), "optimize-recomp-communication-level 2");
    const char *uneven = strstr(text(r, "notes"), "uneven stages ");
    if (uneven) {
        read_list(r, uneven + strlen("uneven stages "), &c->strategy.layers);
    }
}

static cs_status read_strategy(struct reader *r)
{
    cs_status st = CS_OK;
    struct cs_case *c = r->c;
    struct cs_strategy *s = &c->strategy;
    cs_strategy_init(s);
    CS_TRY(whole32(r, "dp", &s->dp));
    CS_TRY(whole32(r, "tp", &s->mp));
    CS_TRY(whole32(r, "pp", &s->pp));
    CS_TRY(whole32(r, "cp", &s->cp));
    CS_TRY(whole32(r, "ep", &s->ep));
    CS_TRY(whole32(r, "vpp", &s->vpp));
    CS_TRY(whole32(r, "micro_batch", &s->micro_batch));
    CS_TRY(whole(r, "global_batch", 1, &c->training.global_batch));
    CS_TRY(whole(r, "seq_len", 1, &c->training.seq_length));
    s->sp = yes(r, "sp") || (*text(r, "sp") == '\0' && c->software->overlap_tensor_parallel);
    s->schedule = s->vpp > 1 ? CS_SCHED_INTERLEAVED : CS_SCHED_1F1B;
    c->model.max_position = c->training.seq_length;
    read_recompute(r);
    read_sharding(r);
    read_flags(r);
    int64_t pad = c->software->vocab_multiple * s->mp; /* Megatron: --make-vocab-size-divisible-by */
    c->model.vocab = (c->model.vocab + pad - 1) / pad * pad;
    cs_strategy_canonicalise(s);
    s->fused_tp = s->fused_tp && s->mp > 1;
out:
    return st;
}

static cs_status read_measured(struct reader *r)
{
    cs_status st = CS_OK;
    struct cs_case *c = r->c;
    const char *kind = text(r, "memory_kind");
    double gib = NAN;
    c->measured_s = c->measured_bytes = NAN;
    if (*text(r, "iteration_seconds")) {
        CS_TRY(cs_real_parse(text(r, "iteration_seconds"), "iteration_seconds", here(r), &c->measured_s,
                             r->err));
        if (!(c->measured_s >= MEASURED_MIN_S && c->measured_s <= MEASURED_MAX_S)) {
            refuse(r, "the measured time is not that of a step: 1 us to 1e7 s");
        }
    } else if (*text(r, "memory_gib")) {
        CS_TRY(cs_real_parse(text(r, "memory_gib"), "memory_gib", here(r), &gib, r->err));
        c->measured_bytes = gib * 1024 * 1024 * 1024;
        if (!(gib > 0 && gib < 1e9)) {
            refuse(r, "the measured memory is not that of a device");
        }
        c->kind = strstr(kind, "activation") ? CS_CASE_MEMORY_ACTIVATIONS : CS_CASE_MEMORY_STATE;
    } else {
        refuse(r, "neither a time nor a memory was measured");
    }
out:
    return st;
}

/* First letters of a model's name without sizes: "MPT-30b" and "MPT-1b" are one family. */
static const char *family_of(struct cs_arena *arena, const char *name)
{
    char *family = cs_arena_strdup(arena, name);
    size_t n = 0;
    for (const char *p = name; *p && !isdigit((unsigned char)*p) && *p != ' ' && *p != '-' && *p != '_';
         p++) {
        family[n++] = (char)tolower((unsigned char)*p);
    }
    family[n] = '\0';
    return family;
}

static void name_groups(struct reader *r)
{
    struct cs_case *c = r->c;
    struct cs_arena *arena = &r->cases->arena;
    const char *name = c->model.name;
    while (cs_text_starts_with(name, "finetune_") || cs_text_starts_with(name, "pretrain_")) {
        name = strchr(name, '_') + 1;
    }
    c->source_short = c->software->title;
    c->group = cs_arena_printf(arena, "%s / %s / %s", c->source_short, c->hardware, family_of(arena, name));
    c->model_key =
        cs_arena_printf(arena, "%s / %s / L%d h%lld a%lld/%lld f%lld", c->source_short, c->hardware,
                        c->model.n_layers, (long long)c->model.hidden, (long long)c->model.n_heads,
                        (long long)c->model.n_kv_heads, (long long)c->model.ffn);
    c->setup_key =
        cs_arena_printf(arena, "%s / %s / L%d h%lld a%lld s%lld b%lld n%d %s", c->source_short, c->hardware,
                        c->model.n_layers, (long long)c->model.hidden, (long long)c->model.n_heads,
                        (long long)c->training.seq_length, (long long)c->training.global_batch, c->n_devices,
                        cs_dtype_names[c->training.dtype]);
}

static void check(struct reader *r)
{
    struct cs_case *c = r->c;
    char why[256];
    struct cs_cluster_shape shape = {c->n_devices, c->devices_per_node};
    if (!c->problem && c->training.global_batch < 1) {
        refuse(r, "the global batch is missing");
    }
    if (!c->problem && c->training.seq_length < 1) {
        refuse(r, "the sequence length is missing");
    }
    if (!c->problem && c->model.hidden % c->model.n_heads != 0) {
        refuse(r, "the hidden size is not divisible by the heads");
    }
    struct cs_model dense = c->model;
    dense.n_experts = dense.experts_per_token = 0;
    if (!c->problem && c->model.n_experts > 0 && cs_model_params(&c->model) == cs_model_params(&dense)) {
        refuse(r, "experts are not generated");
    }
    if (c->problem) {
        return;
    }
    const char *rule = cs_strategy_check(&c->strategy, &c->model, &c->training, &shape, why, sizeof why);
    if (rule) {
        c->problem = cs_arena_printf(&r->cases->arena, "%s: %s", rule, why);
    }
}

static cs_status read_row(struct reader *r)
{
    cs_status st = CS_OK;
    struct cs_case *c = r->c;
    struct cs_arena *arena = &r->cases->arena;
    c->line = r->csv->rows[r->row].line;
    c->id = cs_arena_strdup(arena, text(r, "id"));
    c->hardware = cs_arena_strdup(arena, text(r, "hardware"));
    name_hardware(c);
    c->source = cs_arena_strdup(arena, text(r, "source"));
    c->software = cs_softwares_find(r->softwares, c->source);
    for (int32_t i = 0; i < c->software->n_machines; i++) {
        const struct cs_software_machine *machine = &c->software->machines[i];
        c->server = says(r, "notes", machine->notes) ? machine->server : c->server;
    }
    const char *limit = strstr(cs_software_flags(c->software, c->source), "max_device_memory ");
    if (strcmp(c->hardware, "ascend-unstated") == 0 && limit && atof(strchr(limit, ' ')) < 32) {
        c->server = "atlas-800-910a"; /* of the servers, the one whose chips have 32 GB */
    }
    c->n_devices = c->devices_per_node = 1;
    CS_TRY(whole32(r, "n_devices", &c->n_devices));
    c->devices_per_node = c->n_devices < 8 ? c->n_devices : 8;
    CS_TRY(whole32(r, "devices_per_node", &c->devices_per_node));
    if (c->n_devices % c->devices_per_node != 0) {
        if (c->n_devices < c->devices_per_node) {
            c->devices_per_node = c->n_devices;
        } else {
            refuse(r, "the devices do not fill whole nodes");
        }
    }
    CS_TRY(read_measured(r));
    CS_TRY(read_model(r));
    CS_TRY(read_strategy(r));
    c->model.name = cs_arena_strdup(arena, c->model.name);
    name_groups(r);
    check(r);
    c->assumptions = cs_arena_strdup(arena, cs_strbuf_str(&r->assumed));
out:
    cs_strbuf_release(&r->assumed);
    return st;
}

static int compare_ids(const void *a, const void *b)
{
    const struct cs_case *x = *(const struct cs_case *const *)a;
    const struct cs_case *y = *(const struct cs_case *const *)b;
    int order = strcmp(x->id, y->id);
    return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

/* A case is told from others by its id: in results, and in the list of doubts. */
static cs_status check_ids(const struct cs_cases *cases, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    const struct cs_case **sorted = CS_ARENA_NEW(&arena, const struct cs_case *, cases->n + 1);
    for (int32_t i = 0; i < cases->n; i++) {
        sorted[i] = &cases->items[i];
    }
    qsort(sorted, (size_t)cases->n, sizeof *sorted, compare_ids);
    for (int32_t i = 0; i < cases->n; i++) {
        struct cs_loc loc = {path, sorted[i]->line, 0};
        if (*sorted[i]->id == '\0') {
            st = cs_err_set(err, CS_E_INPUT, loc, "a case without an id");
            goto out;
        }
        if (i > 0 && strcmp(sorted[i - 1]->id, sorted[i]->id) == 0) {
            st = cs_err_set(err, CS_E_INPUT, loc, "the id '%.60s' is that of line %d too", sorted[i]->id,
                            (int)sorted[i - 1]->line);
            goto out;
        }
    }
out:
    cs_arena_release(&arena);
    return st;
}

cs_status cs_cases_load(struct cs_cases *cases, const char *path, const struct cs_softwares *softwares,
                        struct cs_err *err)
{
    static const char *const needed[] = {"id",
                                         "hardware",
                                         "n_devices",
                                         "layers",
                                         "hidden",
                                         "heads",
                                         "dp",
                                         "tp",
                                         "pp",
                                         "micro_batch",
                                         "global_batch",
                                         "seq_len",
                                         "iteration_seconds",
                                         NULL};
    cs_status st = CS_OK;
    struct cs__csv csv = {0};
    *cases = (struct cs_cases){0};
    CS_TRY(cs__csv_open(&csv, path, needed, err));
    if (csv.n_rows > CS_CASES_MAX) {
        st = cs_err_set(err, CS_E_LIMIT, (struct cs_loc){path, 0, 0}, "more than %d rows", CS_CASES_MAX);
        goto out;
    }
    cases->items = CS_ARENA_NEW(&cases->arena, struct cs_case, csv.n_rows + 1);
    for (; cases->n < csv.n_rows; cases->n++) {
        struct reader r = {.cases = cases,
                           .csv = &csv,
                           .row = cases->n,
                           .c = &cases->items[cases->n],
                           .softwares = softwares,
                           .err = err};
        CS_TRY(read_row(&r));
    }
    CS_TRY(check_ids(cases, path, err));
    if (cases->n == 0) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){path, 1, 0}, "there is no case");
    }
out:
    cs__csv_release(&csv);
    return st;
}

void cs_cases_release(struct cs_cases *cases)
{
    cs_arena_release(&cases->arena);
    *cases = (struct cs_cases){0};
}

cs_status cs_cases_doubt(struct cs_cases *cases, const char *path, struct cs_err *err)
{
    cs_status st = CS_OK;
    static const char *const needed[] = {"id", "reason", NULL};
    struct cs__csv csv = {0};
    CS_TRY(cs__csv_open(&csv, path, needed, err));
    for (int32_t i = 0; i < csv.n_rows; i++) {
        const char *id = cs__csv_text(&csv, i, "id");
        const char *reason = cs__csv_text(&csv, i, "reason");
        struct cs_loc loc = {path, csv.rows[i].line, 0};
        int32_t k = 0;
        while (k < cases->n && strcmp(cases->items[k].id, id) != 0) {
            k++;
        }
        if (k == cases->n || !*reason) {
            st = k == cases->n
                     ? cs_err_set(err, CS_E_INPUT, loc, "there is no case '%.60s' to doubt", id)
                     : cs_err_set(err, CS_E_INPUT, loc, "case '%.60s' is doubted without a reason", id);
            goto out;
        }
        if (cases->items[k].doubt) {
            st = cs_err_set(err, CS_E_INPUT, loc, "case '%.60s' is doubted in line %d of '%.200s' already",
                            id, (int)cases->items[k].doubt_at.line, cases->items[k].doubt_at.file);
            goto out;
        }
        cases->items[k].doubt = cs_arena_strdup(&cases->arena, reason);
        cases->items[k].doubt_at = (struct cs_loc){cs_arena_strdup(&cases->arena, path), loc.line, 0};
    }
out:
    cs__csv_release(&csv);
    return st;
}
