/* Chakra execution traces: from bytes to nodes. */
#include "chakra_fields_priv.h"

#include "cs/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a node may take, as the writer's. */
#define DURATION_MAX_S 1e9
/* Operations or bytes of a node; more is no count. */
#define AMOUNT_MAX 1e24
/* Durations in whole microseconds, rounded along a stream, against the exact ones. */
#define ROUNDING_S 2e-6
/* A message of more is no node. */
#define MESSAGE_MAX_BYTES (UINT64_C(1) << 26)

cs_status cs__et_bad(const struct cs__et *et, int32_t rank, const struct cs__et_node *node,
                     struct cs_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cs_status st = cs_err_vset(err, CS_E_INPUT, (struct cs_loc){.file = et->ranks[rank].file}, fmt, ap);
    va_end(ap);
    char shown[CS_TEXT_CLIP_BYTES];
    cs_err_prefix(err, "node %" PRIu64 " '%s'", node->id, cs_text_clip(et->labels.texts[node->name], shown));
    return st;
}

/** A number that a node must or may have. */
static cs_status take(const struct cs__et *et, int32_t rank, const struct cs__et_node *node,
                      const struct cs__et_raw *raw, enum cs__et_attr attr, int64_t min, int64_t max,
                      int64_t *value, struct cs_err *err)
{
    const struct cs__et_value *v = &raw->attrs[attr];
    if (v->kind == CS__ET_NUMBER && v->whole >= min && v->whole <= max) {
        *value = v->whole;
        return CS_OK;
    }
    if (v->kind == CS__ET_NOTHING) {
        return cs__et_bad(et, rank, node, err, "has no attribute '%s'", cs__et_attr_names[attr]);
    }
    if (v->kind != CS__ET_NUMBER) {
        return cs__et_bad(et, rank, node, err, "'%s' is not a number", cs__et_attr_names[attr]);
    }
    return cs__et_bad(et, rank, node, err, "'%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                      cs__et_attr_names[attr], v->whole, min, max);
}

static cs_status take_message(struct cs__et *et, int32_t rank, struct cs__et_node *node,
                              const struct cs__et_raw *raw, struct cs_err *err)
{
    cs_status st = CS_OK;
    bool send = node->type == CS__ET_SEND;
    int64_t peer = 0;
    int64_t self = rank;
    CS_TRY(take(et, rank, node, raw, CS__ET_COMM_SIZE, 0, INT64_MAX, &node->size, err));
    CS_TRY(
        take(et, rank, node, raw, send ? CS__ET_COMM_DST : CS__ET_COMM_SRC, 0, et->n_ranks - 1, &peer, err));
    if (raw->attrs[send ? CS__ET_COMM_SRC : CS__ET_COMM_DST].kind != CS__ET_NOTHING) {
        CS_TRY(take(et, rank, node, raw, send ? CS__ET_COMM_SRC : CS__ET_COMM_DST, rank, rank, &self, err));
    }
    if (raw->attrs[CS__ET_COMM_TAG].kind != CS__ET_NOTHING) {
        CS_TRY(take(et, rank, node, raw, CS__ET_COMM_TAG, INT64_MIN, INT64_MAX, &node->tag, err));
    }
    if (peer == rank) {
        st = cs__et_bad(et, rank, node, err, "is a message from rank %d to itself", (int)rank);
        goto out;
    }
    node->peer = (int32_t)peer;
out:
    return st;
}

static void take_group(struct cs__et *et, struct cs__et_node *node, const struct cs__et_raw *raw)
{
    const struct cs__et_value *name = &raw->attrs[CS__ET_PG_NAME];
    const struct cs__et_value *number = &raw->attrs[CS__ET_COMM_GROUP];
    char text[24] = "";
    if (name->kind == CS__ET_TEXT) {
        node->group = cs__et_names_add(&et->group_names, (const char *)name->bytes.at,
                                       (size_t)(name->bytes.end - name->bytes.at));
    } else {
        number = name->kind == CS__ET_NUMBER ? name : number;
        if (number->kind == CS__ET_NUMBER) {
            (void)snprintf(text, sizeof text, "%" PRId64, number->whole);
        }
        node->group = cs__et_names_add(&et->group_names, text, strlen(text));
    }
    node->part_of_all = raw->attrs[CS__ET_INVOLVED_DIM].kind != CS__ET_FLAGS ||
                        cs__et_all_set(raw->attrs[CS__ET_INVOLVED_DIM].bytes);
}

static cs_status take_collective(struct cs__et *et, int32_t rank, struct cs__et_node *node,
                                 const struct cs__et_raw *raw, struct cs_err *err)
{
    static const int8_t colls[CS__N_ET_COLLS] = {
        [CS__ET_ALL_REDUCE] = CS_COLL_ALL_REDUCE,
        [CS__ET_REDUCE] = -1,
        [CS__ET_ALL_GATHER] = CS_COLL_ALL_GATHER,
        [CS__ET_GATHER] = -1,
        [CS__ET_SCATTER] = -1,
        [CS__ET_BROADCAST] = CS_COLL_BROADCAST,
        [CS__ET_ALL_TO_ALL] = CS_COLL_ALL_TO_ALL,
        [CS__ET_REDUCE_SCATTER] = CS_COLL_REDUCE_SCATTER,
        [CS__ET_REDUCE_SCATTER_BLOCK] = CS_COLL_REDUCE_SCATTER,
        [CS__ET_BARRIER] = CS_COLL_ALL_REDUCE,
    };
    static const char *const refused[CS__N_ET_COLLS] = {
        [CS__ET_REDUCE] = "reduce", [CS__ET_GATHER] = "gather", [CS__ET_SCATTER] = "scatter"};
    cs_status st = CS_OK;
    int64_t type = 0;
    CS_TRY(take(et, rank, node, raw, CS__ET_COMM_TYPE, 0, CS__N_ET_COLLS - 1, &type, err));
    if (colls[type] < 0) {
        st = cs__et_bad(et, rank, node, err,
                        "is a %s, which is not simulated: all-reduce, all-gather, reduce-scatter, all-to-all "
                        "and broadcast are",
                        refused[type]);
        goto out;
    }
    node->coll = (uint8_t)colls[type];
    if (type == CS__ET_BARRIER) {
        et->notes.n_barriers++;
    } else {
        CS_TRY(
            take(et, rank, node, raw, CS__ET_COMM_SIZE, 0, INT64_MAX / CS__ET_RANKS_MAX, &node->size, err));
    }
    take_group(et, node, raw);
out:
    return st;
}

/** An amount that a node may have: 0 without one. */
static cs_status take_amount(const struct cs__et *et, int32_t rank, const struct cs__et_node *node,
                             const struct cs__et_raw *raw, enum cs__et_attr attr, double max, double *value,
                             struct cs_err *err)
{
    const struct cs__et_value *v = &raw->attrs[attr];
    *value = 0;
    if (v->kind == CS__ET_NOTHING) {
        return CS_OK;
    }
    if (v->kind != CS__ET_NUMBER) {
        return cs__et_bad(et, rank, node, err, "'%s' is not a number", cs__et_attr_names[attr]);
    }
    if (!(v->real >= 0 && v->real <= max)) {
        return cs__et_bad(et, rank, node, err, "'%s' is %g, expected 0 to %g", cs__et_attr_names[attr],
                          v->real, max);
    }
    *value = v->real;
    return CS_OK;
}

/** Seconds that the node says it takes. Its own attribute is exact; the field has whole microseconds. */
static cs_status take_duration(const struct cs__et *et, int32_t rank, struct cs__et_node *node,
                               const struct cs__et_raw *raw, struct cs_err *err)
{
    cs_status st = CS_OK;
    double told_s = (double)raw->duration_us / 1e6;
    double exact_s;
    CS_TRY(take_amount(et, rank, node, raw, CS__ET_DURATION_S, DURATION_MAX_S, &exact_s, err));
    if (told_s > DURATION_MAX_S) {
        st = cs__et_bad(et, rank, node, err, "'duration_micros' is %" PRIu64 ", expected 0 to %g",
                        raw->duration_us, DURATION_MAX_S * 1e6);
        goto out;
    }
    const bool both = raw->has_duration && raw->attrs[CS__ET_DURATION_S].kind != CS__ET_NOTHING;
    if (both && fabs(exact_s - told_s) > ROUNDING_S * (1 + told_s)) {
        st = cs__et_bad(et, rank, node, err, "'duration_s' is %g, but 'duration_micros' %" PRIu64, exact_s,
                        raw->duration_us);
        goto out;
    }
    node->fixed_s = raw->attrs[CS__ET_DURATION_S].kind != CS__ET_NOTHING ? exact_s : told_s;
out:
    return st;
}

/** How long the node takes: measured, or what its amounts take; neither = it is left out. */
static cs_status take_time(struct cs__et *et, int32_t rank, struct cs__et_node *node,
                           const struct cs__et_raw *raw, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(take_duration(et, rank, node, raw, err));
    CS_TRY(take_amount(et, rank, node, raw, CS__ET_NUM_OPS, AMOUNT_MAX, &node->flop, err));
    CS_TRY(take_amount(et, rank, node, raw, CS__ET_TENSOR_SIZE, AMOUNT_MAX, &node->bytes, err));
    bool timed = node->fixed_s > 0;
    bool memory = node->type != CS__ET_COMP;
    bool counted = !memory && !node->on_host && !timed && node->flop > 0;
    bool silent = !raw->has_duration && raw->attrs[CS__ET_DURATION_S].kind == CS__ET_NOTHING;
    et->notes.n_memory += memory;
    et->notes.n_memory_untimed += memory && silent;
    et->notes.n_untimed +=
        !memory && silent && (node->on_host || raw->attrs[CS__ET_NUM_OPS].kind == CS__ET_NOTHING);
    if (!timed && !counted) {
        et->notes.n_empty += !memory;
        node->type = CS__ET_METADATA;
        goto out;
    }
    et->notes.n_timed += !memory && timed;
    et->notes.n_counted += counted;
    et->notes.n_host += !memory && node->on_host;
out:
    return st;
}

static bool is_set(const struct cs__et_raw *raw, enum cs__et_attr attr)
{
    return raw->attrs[attr].kind == CS__ET_NUMBER && raw->attrs[attr].whole != 0;
}

static cs_status take_node(struct cs__et *et, int32_t rank, struct cs__et_node *node,
                           const struct cs__et_raw *raw, struct cs_err *err)
{
    if (raw->type == CS__ET_INVALID) {
        return cs__et_bad(et, rank, node, err,
                          "has type 0 (INVALID_NODE), or none: a node says what it is (1 to 7)");
    }
    if (raw->type >= CS__N_ET_TYPES) {
        return cs__et_bad(et, rank, node, err, "has type %" PRIu64 ", which is not known", raw->type);
    }
    node->type = (uint8_t)raw->type;
    node->on_host = is_set(raw, CS__ET_IS_CPU_OP) || is_set(raw, CS__ET_IS_HOST_COPY);
    bool moves = node->type == CS__ET_SEND || node->type == CS__ET_RECV || node->type == CS__ET_COLL;
    node->copies = moves && is_set(raw, CS__ET_IS_HOST_COPY);
    if (node->copies && node->type != CS__ET_COLL) {
        return cs__et_bad(et, rank, node, err,
                          "is a message with 'is_host_copy': a rank's copy from or to its host has no peer");
    }
    if (node->copies) {
        take_group(et, node, raw);
    }
    if (moves && node->on_host) { /* a copy, or the host's call of it; the device has a node of its own */
        node->type = CS__ET_COMP;
    }
    switch ((enum cs__et_type)node->type) {
    case CS__ET_SEND:
    case CS__ET_RECV:
        return take_message(et, rank, node, raw, err);
    case CS__ET_COLL:
        return take_collective(et, rank, node, raw, err);
    case CS__ET_COMP:
    case CS__ET_MEM_LOAD:
    case CS__ET_MEM_STORE:
        return take_time(et, rank, node, raw, err);
    case CS__ET_METADATA: {
        struct cs__wire inputs = raw->inputs;
        while (inputs.at < inputs.end) {
            struct cs__wire_field field;
            if (cs__wire_field(&inputs, &field) != NULL) {
                break;
            }
            if (field.number == CS__IO_VALUES && field.type == CS__WIRE_BYTES) {
                cs__et_groups_metadata(et, rank, field.bytes.at, (size_t)(field.bytes.end - field.bytes.at));
            }
        }
        et->notes.n_empty++;
        break;
    }
    case CS__ET_INVALID:
    case CS__N_ET_TYPES:
        node->type = CS__ET_METADATA;
        et->notes.n_empty++;
        break;
    }
    return CS_OK;
}

static cs_status bad_bytes(const struct cs__et *et, int32_t rank, int64_t at, struct cs_err *err,
                           const char *what)
{
    return cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = et->ranks[rank].file},
                      "the message at byte %" PRId64 " is broken: %s", at, what);
}

static cs_status read_node(struct cs__et *et, int32_t rank, struct cs__wire message, int64_t at,
                           struct cs_err *err)
{
    struct cs__et_rank *r = &et->ranks[rank];
    struct cs__et_raw raw;
    struct cs__et_node node = {.first_dep = r->n_deps, .group = -1, .peer = -1, .stream = -1, .place = -1};
    const char *wrong = cs__et_raw_read(r, message, &raw);
    if (wrong != NULL) {
        return bad_bytes(et, rank, at, err, wrong);
    }
    node.id = raw.id;
    node.n_deps = (int32_t)(r->n_deps - node.first_dep); /* at most the message's bytes */
    node.name =
        cs__et_names_add(&et->labels, (const char *)raw.name.at, (size_t)(raw.name.end - raw.name.at));
    if (++et->notes.n_nodes > CS__ET_NODES_MAX) {
        return cs_err_set(err, CS_E_LIMIT, (struct cs_loc){.file = r->file}, "more than %d nodes in all",
                          CS__ET_NODES_MAX);
    }
    cs_status st = take_node(et, rank, &node, &raw, err);
    CS_GROW(r->nodes, r->n_nodes, r->cap_nodes);
    r->nodes[r->n_nodes++] = node;
    return st;
}

/** The first message. Writers that leave the version out write the schema of 0.0.4. */
static cs_status read_metadata(struct cs__et *et, int32_t rank, struct cs__wire message, struct cs_err *err)
{
    static const char *const known[] = {"", "0.0.4", "1.0.0", NULL};
    char version[CS_TEXT_CLIP_BYTES] = "";
    char shown[CS_TEXT_CLIP_BYTES];
    while (message.at < message.end) {
        struct cs__wire_field field;
        const char *wrong = cs__wire_field(&message, &field);
        bool stranger = wrong == NULL && (field.number > CS__META_ATTR || field.type != CS__WIRE_BYTES);
        if (wrong != NULL || stranger) {
            return bad_bytes(et, rank, 0, err, wrong != NULL ? wrong : "it is not the metadata of a trace");
        }
        if (field.number == CS__META_VERSION) {
            (void)snprintf(version, sizeof version, "%.*s", (int)(field.bytes.end - field.bytes.at),
                           field.bytes.at < field.bytes.end ? (const char *)field.bytes.at : "");
        }
    }
    if (cs_text_index(version, known) < 0) {
        return cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = et->ranks[rank].file},
                          "version '%s' of the Chakra schema is not known: expected 0.0.4 or 1.0.0",
                          cs_text_clip(version, shown));
    }
    return CS_OK;
}

cs_status cs__et_parse(struct cs__et *et, int32_t rank, const struct cs_chakra_file *file, struct cs_err *err)
{
    cs_status st = CS_OK;
    const uint8_t *data = file->data;
    bool first = true;
    et->ranks[rank].file = file->name;
    if (file->bytes == 0) {
        return bad_bytes(et, rank, 0, err, "the file is empty");
    }
    struct cs__wire wire = {data, data + file->bytes};
    while (wire.at < wire.end) {
        int64_t at = wire.at - data;
        uint64_t length = 0;
        if (!cs__wire_varint(&wire, &length)) {
            return bad_bytes(et, rank, at, err, "its length is cut off or too long");
        }
        if (length > MESSAGE_MAX_BYTES || length > (uint64_t)(wire.end - wire.at)) {
            char text[96];
            (void)snprintf(text, sizeof text, "it says %" PRIu64 " bytes, %td are left", length,
                           wire.end - wire.at);
            return bad_bytes(et, rank, at, err, text);
        }
        struct cs__wire message = {wire.at, wire.at + length};
        wire.at += length;
        CS_TRY(first ? read_metadata(et, rank, message, err) : read_node(et, rank, message, at, err));
        first = false;
    }
out:
    return st;
}
