#include "chakra_bytes.h"

#include "cs_test.h"

#include <stdio.h>

void et_varint(struct cs_strbuf *buf, uint64_t value)
{
    do {
        char byte = (char)(value % 128 + (value >= 128 ? 128 : 0));
        cs_strbuf_addn(buf, &byte, 1);
        value /= 128;
    } while (value > 0);
}

void et_number(struct cs_strbuf *buf, int field, uint64_t value)
{
    et_varint(buf, (uint64_t)field * 8);
    et_varint(buf, value);
}

void et_text(struct cs_strbuf *buf, int field, const char *data, size_t bytes)
{
    et_varint(buf, (uint64_t)field * 8 + 2);
    et_varint(buf, bytes);
    cs_strbuf_addn(buf, data, bytes);
}

void et_message(struct cs_strbuf *file, struct cs_strbuf *body)
{
    et_varint(file, body->len);
    cs_strbuf_addn(file, cs_strbuf_str(body), body->len);
    cs_strbuf_release(body);
}

static void put_version(struct cs_strbuf *file, const char *version)
{
    struct cs_strbuf body = {0};
    if (version) {
        et_text(&body, 1, version, strlen(version));
    }
    et_message(file, &body);
}

static void put_node(struct cs_strbuf *file, const struct et_node *node)
{
    struct cs_strbuf body = {0};
    char name[32];
    snprintf(name, sizeof name, "n%d", (int)node->id);
    et_number(&body, 1, node->id);
    et_text(&body, 2, name, strlen(name));
    et_number(&body, 3, (uint64_t)node->type);
    for (int i = 0; i < node->n_ctrl; i++) { /* one a field; data dependencies packed */
        et_number(&body, 4, node->ctrl[i]);
    }
    struct cs_strbuf packed = {0};
    for (int i = 0; i < node->n_deps; i++) {
        et_varint(&packed, node->deps[i]);
    }
    et_text(&body, 5, cs_strbuf_str(&packed), packed.len);
    cs_strbuf_release(&packed);
    if (node->us > 0) {
        et_number(&body, 7, node->us);
    }
    if (node->inputs) {
        struct cs_strbuf io = {0};
        et_text(&io, 1, node->inputs, strlen(node->inputs));
        et_text(&body, 8, io.text, io.len);
        cs_strbuf_release(&io);
    }
    for (const struct et_attr *a = node->attrs; a < node->attrs + 6 && a->name; a++) {
        struct cs_strbuf attr = {0};
        et_text(&attr, 1, a->name, strlen(a->name));
        if (a->field == 0) {
            et_text(&attr, 29, a->text, strlen(a->text));
        } else if (a->field == DOUBLE) {
            double real = strtod(a->text, NULL);
            et_varint(&attr, DOUBLE * 8 + 1);
            cs_strbuf_addn(&attr, (const char *)&real, sizeof real);
        } else if (a->field == SINT64) {
            et_number(&attr, a->field, a->value < 0 ? 2 * (uint64_t)-a->value - 1 : 2 * (uint64_t)a->value);
        } else {
            et_number(&attr, a->field, (uint64_t)a->value);
        }
        et_text(&body, 10, attr.text, attr.len);
        cs_strbuf_release(&attr);
    }
    et_message(file, &body);
}

void et_add_rank(struct et_files *files, const struct et_node *nodes)
{
    struct cs_strbuf *file = &files->data[files->n++];
    put_version(file, "0.0.4");
    for (; nodes->id != 0 || nodes->type != INVALID; nodes++) {
        put_node(file, nodes);
    }
}

cs_status et_read(struct et_files *files, const char *groups, struct cs_trace **trace,
                  struct cs_chakra_notes *notes, struct cs_err *err)
{
    static const char *const names[RANKS_MAX] = {"t.0.et", "t.1.et", "t.2.et", "t.3.et",
                                                 "t.4.et", "t.5.et", "t.6.et", "t.7.et"};
    struct cs_chakra_file list[RANKS_MAX];
    for (int32_t i = 0; i < files->n; i++) {
        list[i] = (struct cs_chakra_file){names[i], files->data[i].text, files->data[i].len};
    }
    cs_status st = cs_trace_read_chakra_files(list, files->n, groups, trace, notes, err);
    for (int32_t i = 0; i < files->n; i++) {
        cs_strbuf_release(&files->data[i]);
    }
    files->n = 0;
    return st;
}

struct cs_trace *et_read_well(struct et_files *files, const char *groups, struct cs_chakra_notes *notes)
{
    struct cs_err err = {0};
    struct cs_trace *trace = NULL;
    ck_assert_ok(et_read(files, groups, &trace, notes, &err), &err);
    return trace;
}
