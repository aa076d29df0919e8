#include "cs/strategies/software.h"

#include "cs/base/yaml.h"
#include "cs/workloads/strategy.h"

#include <stddef.h>
#include <string.h>

const char *const cs_software_figure_keys[] = {"kernel_time", "pointwise_traffic", "attention_time",
                                               "host_launch", "collective_time",   "step_overhead",
                                               NULL};

static cs_status read_figures(struct cs_softwares *list, struct cs_software *s,
                              const struct cs_yaml_node *map, struct cs_err *err)
{
    static const char *const allowed[] = {"value", "source", NULL};
    cs_status st = CS_OK;
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "figures", err));
    CS_TRY(cs_yaml_check_keys(map, cs_software_figure_keys, "figures", err));
    for (int32_t f = 0; f < CS_N_SOFTWARE_FIGURES; f++) {
        const struct cs_yaml_node *node = NULL;
        const struct cs_yaml_node *value = NULL;
        const char *source = NULL;
        CS_TRY(cs_yaml_need(map, cs_software_figure_keys[f], &node, err));
        CS_TRY(cs_yaml_check_keys(node, allowed, cs_software_figure_keys[f], err));
        CS_TRY(cs_yaml_need(node, "value", &value, err));
        if (f == CS_SOFTWARE_STEP_OVERHEAD) {
            CS_TRY(cs_yaml_quantity(value, CS_UNIT_SECONDS, cs_software_figure_keys[f], &s->figure[f], err));
        } else {
            CS_TRY(cs_yaml_real(value, 1e-3, 1e3, cs_software_figure_keys[f], &s->figure[f], err));
        }
        CS_TRY(cs_yaml_opt_text(node, "source", &source, err));
        if (!source || !*source) {
            st = cs_err_set(err, CS_E_INPUT, node->loc, "'%s' has no source", cs_software_figure_keys[f]);
            goto out;
        }
        s->figure_source[f] = cs_arena_strdup(&list->arena, source);
    }
out:
    return st;
}

/* What a program does or does not, in the order of the file. */
static const struct {
    const char *key;
    size_t at; /* in struct cs_software */
} facts[] = {
    {"flash_attention", offsetof(struct cs_software, flash)},
    {"fp32_gradients", offsetof(struct cs_software, fp32_gradients)},
    {"low_gradients", offsetof(struct cs_software, low_gradients)},
    {"overlap_gradients", offsetof(struct cs_software, overlap_gradients)},
    {"scatter_messages", offsetof(struct cs_software, scatter_messages)},
    {"blocking_sends", offsetof(struct cs_software, blocking_sends)},
    {"serial_messages", offsetof(struct cs_software, serial_messages)},
    {"async_tensor_parallel", offsetof(struct cs_software, async_tensor_parallel)},
    {"overlap_tensor_parallel", offsetof(struct cs_software, overlap_tensor_parallel)},
    {"blocking_launches", offsetof(struct cs_software, blocking_launches)},
    {"graph_launches", offsetof(struct cs_software, graph_launches)},
    {"cross_entropy_loss_fusion", offsetof(struct cs_software, loss_fusion)},
    {"separate_casts", offsetof(struct cs_software, separate_casts)},
    {"separate_accumulation", offsetof(struct cs_software, separate_accumulation)},
    {"separate_gate", offsetof(struct cs_software, separate_gate)},
    {"scripted_gelu", offsetof(struct cs_software, scripted_gelu)},
    {"tensor_bias", offsetof(struct cs_software, tensor_bias)},
    {"separate_rope", offsetof(struct cs_software, separate_rope)},
    {"norm_casts", offsetof(struct cs_software, norm_casts)},
    {"no_recomputation", offsetof(struct cs_software, no_recomputation)},
    {"elementary_optimizer", offsetof(struct cs_software, elementary_optimizer)},
};

static bool *fact_of(struct cs_software *software, int32_t index)
{
    return (bool *)((char *)software + facts[index].at);
}

static cs_status read_machines(struct cs_softwares *list, struct cs_software *s,
                               const struct cs_yaml_node *items, struct cs_err *err)
{
    static const char *const allowed[] = {"notes", "server", NULL};
    cs_status st = CS_OK;
    if (!items) {
        goto out;
    }
    CS_TRY(cs_yaml_want(items, CS_YAML_LIST, "machines", err));
    s->machines = CS_ARENA_NEW(&list->arena, struct cs_software_machine, items->n + 1);
    for (; s->n_machines < items->n; s->n_machines++) {
        const struct cs_yaml_node *map = items->items[s->n_machines];
        const char *notes = NULL;
        const char *server = NULL;
        CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "a machine", err));
        CS_TRY(cs_yaml_check_keys(map, allowed, "a machine", err));
        CS_TRY(cs_yaml_opt_text(map, "notes", &notes, err));
        CS_TRY(cs_yaml_opt_text(map, "server", &server, err));
        if (!notes || !*notes || !server) {
            st = cs_err_set(err, CS_E_INPUT, map->loc, "a machine needs 'notes' that name it and a 'server'");
            goto out;
        }
        s->machines[s->n_machines] = (struct cs_software_machine){cs_arena_strdup(&list->arena, notes),
                                                                  cs_arena_strdup(&list->arena, server)};
    }
out:
    return st;
}

static cs_status read_scripts(struct cs_softwares *list, struct cs_software *s,
                              const struct cs_yaml_node *map, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (!map) {
        goto out;
    }
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "scripts", err));
    struct cs_software_script *scripts = CS_ARENA_NEW(&list->arena, struct cs_software_script, map->n + 1);
    for (; s->n_scripts < map->n; s->n_scripts++) {
        const struct cs_yaml_node *flags = map->items[s->n_scripts];
        CS_TRY(cs_yaml_want(flags, CS_YAML_SCALAR, map->keys[s->n_scripts]->text, err));
        scripts[s->n_scripts].path = cs_arena_strdup(&list->arena, map->keys[s->n_scripts]->text);
        scripts[s->n_scripts].flags = cs_arena_strdup(&list->arena, flags->text);
    }
    s->scripts = scripts;
out:
    return st;
}

static cs_status check_keys(const struct cs_yaml_node *map, const char *name, struct cs_err *err)
{
    static const char *const others[] = {"title",
                                         "pattern",
                                         "source",
                                         "gradient_aggregation_group",
                                         "softmax_multiple",
                                         "gpt_dropout",
                                         "vocab",
                                         "vocab_multiple",
                                         "machines",
                                         "scripts",
                                         "figures"};
    const char *allowed[CS_COUNT(facts) + CS_COUNT(others) + 1] = {0};
    for (int32_t i = 0; i < CS_COUNT(facts); i++) {
        allowed[i] = facts[i].key;
    }
    for (int32_t i = 0; i < CS_COUNT(others); i++) {
        allowed[CS_COUNT(facts) + i] = others[i];
    }
    return cs_yaml_check_keys(map, allowed, name, err);
}

static cs_status read_one(struct cs_softwares *list, struct cs_software *s, const char *name,
                          const struct cs_yaml_node *map, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *figures = NULL;
    const char *title = name;
    const char *pattern = NULL;
    const char *source = NULL;
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, name, err));
    CS_TRY(check_keys(map, name, err));
    CS_TRY(cs_yaml_opt_text(map, "title", &title, err));
    CS_TRY(cs_yaml_opt_text(map, "pattern", &pattern, err));
    CS_TRY(cs_yaml_opt_text(map, "source", &source, err));
    if (!pattern || !source || !*source) {
        st = cs_err_set(err, CS_E_INPUT, map->loc, "'%s' has no %s", name, pattern ? "source" : "pattern");
        goto out;
    }
    s->name = cs_arena_strdup(&list->arena, name);
    s->title = cs_arena_strdup(&list->arena, title);
    s->source = cs_arena_strdup(&list->arena, source);
    s->pattern = cs_arena_strdup(&list->arena, pattern);
    s->vocab_multiple = 1;
    s->vocab = 50257;
    for (int32_t i = 0; i < CS_COUNT(facts); i++) {
        CS_TRY(cs_yaml_opt_bool(map, facts[i].key, fact_of(s, i), err));
    }
    CS_TRY(cs_yaml_opt_int(map, "softmax_multiple", 0, 1024, &s->softmax_multiple, err));
    CS_TRY(cs_yaml_opt_int(map, "gradient_aggregation_group", 0, CS_AGGREGATION_GROUPS_MAX,
                           &s->aggregation_groups, err));
    CS_TRY(cs_yaml_opt_real(map, "gpt_dropout", 0, 1, &s->gpt_dropout_frac, err));
    CS_TRY(cs_yaml_opt_int(map, "vocab", 1, 1 << 24, &s->vocab, err));
    CS_TRY(cs_yaml_opt_int(map, "vocab_multiple", 1, 1 << 16, &s->vocab_multiple, err));
    CS_TRY(read_scripts(list, s, cs_yaml_get(map, "scripts"), err));
    CS_TRY(read_machines(list, s, cs_yaml_get(map, "machines"), err));
    CS_TRY(cs_yaml_need(map, "figures", &figures, err));
    CS_TRY(read_figures(list, s, figures, err));
out:
    return st;
}

cs_status cs_softwares_load(struct cs_softwares *softwares, const char *path, struct cs_err *err)
{
    static const char *const allowed[] = {"software", NULL};
    cs_status st = CS_OK;
    struct cs_yaml yaml = {0};
    const struct cs_yaml_node *map = NULL;
    *softwares = (struct cs_softwares){0};
    CS_TRY(cs_yaml_load_file(&yaml, path, err));
    CS_TRY(cs_yaml_want(yaml.root, CS_YAML_MAP, "a list of software", err));
    CS_TRY(cs_yaml_check_keys(yaml.root, allowed, "a list of software", err));
    CS_TRY(cs_yaml_need(yaml.root, "software", &map, err));
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "software", err));
    softwares->items = CS_ARENA_NEW(&softwares->arena, struct cs_software, map->n + 1);
    for (; softwares->n < map->n; softwares->n++) {
        CS_TRY(read_one(softwares, &softwares->items[softwares->n], map->keys[softwares->n]->text,
                        map->items[softwares->n], err));
    }
    if (map->n == 0 || *softwares->items[map->n - 1].pattern) {
        st = cs_err_set(err, CS_E_INPUT, map->loc, "the last software must have the pattern \"\"");
    }
out:
    cs_yaml_release(&yaml);
    return st;
}

void cs_softwares_release(struct cs_softwares *softwares)
{
    cs_arena_release(&softwares->arena);
    *softwares = (struct cs_softwares){0};
}

struct cs_software *cs_softwares_find(const struct cs_softwares *softwares, const char *source)
{
    int32_t i = 0;
    while (i < softwares->n - 1 && !strstr(source, softwares->items[i].pattern)) {
        i++;
    }
    return &softwares->items[i];
}

const char *cs_software_flags(const struct cs_software *software, const char *source)
{
    for (int32_t i = 0; i < software->n_scripts; i++) {
        if (strstr(source, software->scripts[i].path)) {
            return software->scripts[i].flags;
        }
    }
    return "";
}

static void write_quoted(const char *text, FILE *stream)
{
    (void)fputc('"', stream);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            (void)fputc('\\', stream);
        }
        if ((unsigned char)*c < ' ') {
            (void)fprintf(stream, "\\x%02x", (unsigned)*c);
        } else {
            (void)fputc(*c, stream);
        }
    }
    (void)fputc('"', stream);
}

static void write_scripts(const struct cs_software *s, FILE *stream)
{
    (void)fputs(s->n_scripts > 0 ? "    scripts:\n" : "", stream);
    for (int32_t k = 0; k < s->n_scripts; k++) {
        (void)fputs("      ", stream);
        write_quoted(s->scripts[k].path, stream);
        (void)fputs(": ", stream);
        write_quoted(s->scripts[k].flags, stream);
        (void)fputc('\n', stream);
    }
}

static void write_machines(const struct cs_software *s, FILE *stream)
{
    if (s->n_machines > 0) {
        (void)fputs("    machines:\n", stream);
    }
    for (int32_t i = 0; i < s->n_machines; i++) {
        (void)fputs("      - {notes: ", stream);
        write_quoted(s->machines[i].notes, stream);
        (void)fputs(", server: ", stream);
        write_quoted(s->machines[i].server, stream);
        (void)fputs("}\n", stream);
    }
}

void cs_softwares_write(const struct cs_softwares *softwares, FILE *stream)
{
    (void)fputs(
        "# Training software: facts that change a step, and figures by which it stands apart from the chip's "
        "own. A\n"
        "# run's software is the first entry whose pattern is in the name of its source; the last matches "
        "everything.\n"
        "# Ratios are to the figures of chips and servers; `clustersim calibrate` fits them and writes this "
        "file.\n"
        "#   kernel_time        time of every kernel\n"
        "#   pointwise_traffic  memory traffic of norms, activations, softmax (kernels that are not fused)\n"
        "#   attention_time     time of fused attention kernels\n"
        "#   host_launch        host's time to launch a kernel\n"
        "#   collective_time    time on the links\n"
        "#   step_overhead      a step's fixed cost: data, loss scaling, logging\n\nsoftware:\n",
        stream);
    for (int32_t i = 0; i < softwares->n; i++) {
        const struct cs_software *s = &softwares->items[i];
        (void)fprintf(stream, "\n  %s:\n    title: ", s->name);
        write_quoted(s->title, stream);
        (void)fputs("\n    pattern: ", stream);
        write_quoted(s->pattern, stream);
        (void)fputs("\n    source: ", stream);
        write_quoted(s->source, stream);
        (void)fputc('\n', stream);
        for (int32_t k = 0; k < CS_COUNT(facts); k++) {
            (void)fprintf(stream, "    %s: %s\n", facts[k].key,
                          *fact_of(&softwares->items[i], k) ? "true" : "false");
        }
        (void)fprintf(stream,
                      "    gradient_aggregation_group: %lld\n    softmax_multiple: %lld\n    gpt_dropout: "
                      "%g\n    vocab: %lld\n"
                      "    vocab_multiple: %lld\n",
                      (long long)s->aggregation_groups, (long long)s->softmax_multiple, s->gpt_dropout_frac,
                      (long long)s->vocab, (long long)s->vocab_multiple);
        write_scripts(s, stream);
        write_machines(s, stream);
        (void)fputs("    figures:\n", stream);
        for (int32_t f = 0; f < CS_N_SOFTWARE_FIGURES; f++) {
            bool seconds = f == CS_SOFTWARE_STEP_OVERHEAD;
            (void)fprintf(stream, "      %s: {value: %.4g%s, source: ", cs_software_figure_keys[f],
                          s->figure[f], seconds ? "s" : "");
            write_quoted(s->figure_source[f], stream);
            (void)fputs("}\n", stream);
        }
    }
}

void cs_software_apply(const struct cs_software *software, struct cs_chip *chip)
{
    double time = software->figure[CS_SOFTWARE_KERNEL_TIME];
    double attention = software->figure[CS_SOFTWARE_ATTENTION_TIME];
    double traffic = software->figure[CS_SOFTWARE_POINTWISE_TRAFFIC];
    for (int32_t k = 0; k < CS_N_OPKINDS; k++) {
        bool pointwise = k >= CS_OPKIND_SOFTMAX && k <= CS_OPKIND_GATHER;
        bool fused = k == CS_OPKIND_FLASH_FORWARD || k == CS_OPKIND_FLASH_BACKWARD;
        chip->opkind_peak_frac[k] /= time * (fused ? attention : 1);
        chip->opkind_memory_frac[k] /= time * (pointwise ? traffic : 1);
    }
    chip->launches_block = software->blocking_launches;
    chip->host_launch_s *= software->graph_launches ? 0 : software->figure[CS_SOFTWARE_HOST_LAUNCH];
    if (software->blocking_launches) { /* a collective and a message are launched too */
        chip->collective_overhead_s += chip->host_launch_s;
    }
}
