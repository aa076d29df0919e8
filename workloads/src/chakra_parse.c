/* Chakra execution traces: from bytes to nodes. */
#include "chakra_read_priv.h"

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

/** Where a text is or would be. */
static uint32_t find_slot(const struct cs__et_names *names, const char *text, size_t bytes)
{
    uint32_t n_slots = (uint32_t)names->n_slots;
    uint32_t slot = (uint32_t)(cs_hash_bytes(CS_HASH_SEED, text, bytes) % n_slots);
    for (; names->slots[slot] >= 0; slot = (slot + 1) % n_slots) {
        const char *known = names->texts[names->slots[slot]];
        if (strncmp(known, text, bytes) == 0 && known[bytes] == '\0') {
            break;
        }
    }
    return slot;
}

int32_t cs__et_names_add(struct cs__et_names *names, const char *text, size_t bytes)
{
    const char *nul = bytes > 0 ? memchr(text, '\0', bytes) : NULL;
    bytes = nul != NULL ? (size_t)(nul - text) : bytes;
    text = bytes > 0 ? text : "";
    if (names->n * 2 >= names->n_slots) {
        names->n_slots = names->n_slots > 0 ? names->n_slots * 2 : 64;
        names->slots = cs_reallocarray(names->slots, (size_t)names->n_slots, sizeof *names->slots);
        memset(names->slots, -1, sizeof *names->slots * (size_t)names->n_slots);
        for (int32_t i = 0; i < names->n; i++) {
            names->slots[find_slot(names, names->texts[i], strlen(names->texts[i]))] = i;
        }
    }
    int32_t *slot = &names->slots[find_slot(names, text, bytes)];
    if (*slot < 0) {
        CS_GROW(names->texts, names->n, names->cap);
        names->texts[names->n] = cs_arena_strndup(names->arena, text, bytes);
        *slot = names->n++;
    }
    return *slot;
}

void cs__et_names_release(struct cs__et_names *names)
{
    cs_free(names->texts);
    cs_free(names->slots);
    *names = (struct cs__et_names){0};
}

const char *cs__et_shown(const struct cs__et *et, const char *name)
{
    char *shown = cs_arena_strdup(&et->trace->arena, name);
    for (char *at = shown; *at != '\0';) {
        size_t n = cs_text_shown_bytes(at);
        *at = n > 0 ? *at : '?';
        at += n > 0 ? n : 1;
    }
    return shown;
}

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

/** The value of an attribute; a number of either kind is in both fields. */
struct value {
    enum { NOTHING, NUMBER, TEXT, FLAGS } kind;
    int64_t whole;
    double real;
    struct cs__wire bytes; /* a text; the values of a list of flags */
};

static void set_whole(struct value *value, int64_t whole)
{
    *value = (struct value){.kind = NUMBER, .whole = whole, .real = (double)whole};
}

static void set_real(struct value *value, double real)
{
    *value = (struct value){.kind = NUMBER, .real = real};
    value->whole = real > -9e18 && real < 9e18 ? (int64_t)real : real > 0 ? INT64_MAX : INT64_MIN;
}

static double real_of_bits(uint64_t bits)
{
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

static double float_of_bits(uint64_t bits)
{
    uint32_t half = (uint32_t)bits;
    float real;
    memcpy(&real, &half, sizeof real);
    return (double)real;
}

static int64_t unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (UINT64_C(0) - (value & 1)));
}

/** The values of a BoolList: a message whose field 1 is packed or repeated. True when all are set. */
static bool all_set(struct cs__wire list)
{
    while (list.at < list.end) {
        struct cs__wire_field field;
        if (cs__wire_field(&list, &field) != NULL) {
            return false;
        }
        if (field.type == CS__WIRE_VARINT && field.value == 0) {
            return false;
        }
        for (const uint8_t *at = field.bytes.at; field.type == CS__WIRE_BYTES && at < field.bytes.end; at++) {
            if (*at == 0) {
                return false;
            }
        }
    }
    return true;
}

static void read_value(const struct cs__wire_field *field, struct value *value)
{
    switch (field->number) {
    case CS__ATTR_DOUBLE:
        set_real(value, real_of_bits(field->value));
        break;
    case CS__ATTR_FLOAT:
        set_real(value, float_of_bits(field->value));
        break;
    case CS__ATTR_SINT32:
    case CS__ATTR_SINT64:
        set_whole(value, unzigzag(field->value));
        break;
    case CS__ATTR_UINT64:
    case CS__ATTR_FIXED64:
        set_whole(value, field->value > INT64_MAX ? INT64_MAX : (int64_t)field->value);
        break;
    case CS__ATTR_SFIXED32:
        set_whole(value, (int32_t)(uint32_t)field->value);
        break;
    case CS__ATTR_INT32:
    case CS__ATTR_INT64:
    case CS__ATTR_UINT32:
    case CS__ATTR_FIXED32:
    case CS__ATTR_SFIXED64:
    case CS__ATTR_BOOL:
        set_whole(value, (int64_t)field->value);
        break;
    case CS__ATTR_STRING:
    case CS__ATTR_BOOL_LIST:
        value->kind = field->number == CS__ATTR_STRING ? TEXT : FLAGS;
        value->bytes = field->bytes;
        break;
    default:
        break;
    }
}

/** The wire type that a value's field must have. */
static enum cs__wire_type type_of(uint32_t number)
{
    switch (number) {
    case CS__ATTR_DOUBLE:
    case CS__ATTR_FIXED64:
    case CS__ATTR_SFIXED64:
        return CS__WIRE_64;
    case CS__ATTR_FLOAT:
    case CS__ATTR_FIXED32:
    case CS__ATTR_SFIXED32:
        return CS__WIRE_32;
    case CS__ATTR_STRING:
    case CS__ATTR_BOOL_LIST:
        return CS__WIRE_BYTES;
    default:
        return CS__WIRE_VARINT;
    }
}

/** An attribute: its name and value. NULL or what is wrong. */
static const char *read_attr(struct cs__wire attr, struct cs__wire *name, struct value *value)
{
    *name = (struct cs__wire){0};
    *value = (struct value){0};
    while (attr.at < attr.end) {
        struct cs__wire_field field;
        const char *wrong = cs__wire_field(&attr, &field);
        if (wrong != NULL) {
            return wrong;
        }
        bool list = field.number % 2 == 0; /* lists and texts, which are only looked at by name */
        if (field.number == CS__ATTR_NAME && field.type == CS__WIRE_BYTES) {
            *name = field.bytes;
        } else if (field.number >= CS__ATTR_DOUBLE && (!list || field.number == CS__ATTR_BOOL_LIST)) {
            if (field.number <= CS__ATTR_STRING && field.type != type_of(field.number)) {
                return "an attribute's value has another type than its field";
            }
            read_value(&field, value);
        }
    }
    return NULL;
}

/* Attributes that are looked at. */
enum attr {
    IS_CPU_OP,
    NUM_OPS,
    TENSOR_SIZE,
    COMM_TYPE,
    COMM_SIZE,
    COMM_SRC,
    COMM_DST,
    COMM_TAG,
    PG_NAME,
    COMM_GROUP, /* an older name of pg_name, a number */
    INVOLVED_DIM,
    DURATION_S,   /* ours: the exact duration */
    IS_HOST_COPY, /* ours: a broadcast to itself that stands for a copy between host and device */
    N_ATTRS
};
static const char *const attr_names[] = {
    "is_cpu_op", "num_ops", "tensor_size", "comm_type",    "comm_size",  "comm_src",     "comm_dst",
    "comm_tag",  "pg_name", "comm_group",  "involved_dim", "duration_s", "is_host_copy", NULL};

/** A node's message, taken apart. */
struct raw {
    uint64_t id;
    uint64_t type;
    uint64_t duration_us;
    bool has_duration;
    struct cs__wire name;
    struct cs__wire inputs;
    struct value attrs[N_ATTRS];
};

static cs_status bad_bytes(const struct cs__et *et, int32_t rank, int64_t at, struct cs_err *err,
                           const char *what)
{
    return cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = et->ranks[rank].file},
                      "the message at byte %" PRId64 " is broken: %s", at, what);
}

static void add_dep(struct cs__et_rank *r, uint64_t id)
{
    CS_GROW(r->deps, r->n_deps, r->cap_deps);
    r->deps[r->n_deps++] = id;
}

/** Dependencies are packed or one a field. */
static const char *read_deps(struct cs__et_rank *r, const struct cs__wire_field *field)
{
    struct cs__wire packed = field->bytes;
    if (field->type == CS__WIRE_VARINT) {
        add_dep(r, field->value);
    } else if (field->type != CS__WIRE_BYTES) {
        return "a dependency is not a number";
    }
    while (packed.at < packed.end) {
        uint64_t id = 0;
        if (!cs__wire_varint(&packed, &id)) {
            return "a dependency is cut off";
        }
        add_dep(r, id);
    }
    return NULL;
}

static const char *read_node_field(struct cs__et_rank *r, const struct cs__wire_field *field, struct raw *raw)
{
    static const enum cs__wire_type types[CS__NODE_ATTR + 1] = {[CS__NODE_NAME] = CS__WIRE_BYTES,
                                                                [CS__NODE_INPUTS] = CS__WIRE_BYTES,
                                                                [CS__NODE_ATTR] = CS__WIRE_BYTES};
    bool deps = field->number == CS__NODE_CTRL_DEPS || field->number == CS__NODE_DATA_DEPS;
    if (deps) {
        return read_deps(r, field);
    }
    switch (field->number) {
    case CS__NODE_ID:
    case CS__NODE_NAME:
    case CS__NODE_TYPE:
    case CS__NODE_DURATION:
    case CS__NODE_INPUTS:
    case CS__NODE_ATTR:
        if (field->type != types[field->number]) {
            return "a field has another type than a node's";
        }
        break;
    default:
        return NULL;
    }
    if (field->number == CS__NODE_ID) {
        raw->id = field->value;
    } else if (field->number == CS__NODE_NAME) {
        raw->name = field->bytes;
    } else if (field->number == CS__NODE_TYPE) {
        raw->type = field->value;
    } else if (field->number == CS__NODE_DURATION) {
        raw->duration_us = field->value;
        raw->has_duration = true;
    } else if (field->number == CS__NODE_INPUTS) {
        raw->inputs = field->bytes;
    } else {
        struct cs__wire name;
        struct value value;
        const char *wrong = read_attr(field->bytes, &name, &value);
        if (wrong != NULL) {
            return wrong;
        }
        for (int32_t i = 0; i < N_ATTRS && value.kind != NOTHING; i++) {
            if ((size_t)(name.end - name.at) == strlen(attr_names[i]) &&
                memcmp(name.at, attr_names[i], strlen(attr_names[i])) == 0) {
                raw->attrs[i] = value;
            }
        }
    }
    return NULL;
}

/** A number that a node must or may have. */
static cs_status take(const struct cs__et *et, int32_t rank, const struct cs__et_node *node,
                      const struct raw *raw, enum attr attr, int64_t min, int64_t max, int64_t *value,
                      struct cs_err *err)
{
    const struct value *v = &raw->attrs[attr];
    if (v->kind == NUMBER && v->whole >= min && v->whole <= max) {
        *value = v->whole;
        return CS_OK;
    }
    if (v->kind == NOTHING) {
        return cs__et_bad(et, rank, node, err, "has no attribute '%s'", attr_names[attr]);
    }
    if (v->kind != NUMBER) {
        return cs__et_bad(et, rank, node, err, "'%s' is not a number", attr_names[attr]);
    }
    return cs__et_bad(et, rank, node, err, "'%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                      attr_names[attr], v->whole, min, max);
}

static cs_status take_message(struct cs__et *et, int32_t rank, struct cs__et_node *node,
                              const struct raw *raw, struct cs_err *err)
{
    cs_status st = CS_OK;
    bool send = node->type == CS__ET_SEND;
    int64_t peer = 0;
    int64_t self = rank;
    CS_TRY(take(et, rank, node, raw, COMM_SIZE, 0, INT64_MAX, &node->size, err));
    CS_TRY(take(et, rank, node, raw, send ? COMM_DST : COMM_SRC, 0, et->n_ranks - 1, &peer, err));
    if (raw->attrs[send ? COMM_SRC : COMM_DST].kind != NOTHING) {
        CS_TRY(take(et, rank, node, raw, send ? COMM_SRC : COMM_DST, rank, rank, &self, err));
    }
    if (raw->attrs[COMM_TAG].kind != NOTHING) {
        CS_TRY(take(et, rank, node, raw, COMM_TAG, INT64_MIN, INT64_MAX, &node->tag, err));
    }
    if (peer == rank) {
        st = cs__et_bad(et, rank, node, err, "is a message from rank %d to itself", (int)rank);
        goto out;
    }
    node->peer = (int32_t)peer;
out:
    return st;
}

static void take_group(struct cs__et *et, struct cs__et_node *node, const struct raw *raw)
{
    const struct value *name = &raw->attrs[PG_NAME];
    const struct value *number = &raw->attrs[COMM_GROUP];
    char text[24] = "";
    if (name->kind == TEXT) {
        node->group = cs__et_names_add(&et->group_names, (const char *)name->bytes.at,
                                       (size_t)(name->bytes.end - name->bytes.at));
    } else {
        number = name->kind == NUMBER ? name : number;
        if (number->kind == NUMBER) {
            (void)snprintf(text, sizeof text, "%" PRId64, number->whole);
        }
        node->group = cs__et_names_add(&et->group_names, text, strlen(text));
    }
    node->part_of_all = raw->attrs[INVOLVED_DIM].kind != FLAGS || all_set(raw->attrs[INVOLVED_DIM].bytes);
}

static cs_status take_collective(struct cs__et *et, int32_t rank, struct cs__et_node *node,
                                 const struct raw *raw, struct cs_err *err)
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
    CS_TRY(take(et, rank, node, raw, COMM_TYPE, 0, CS__N_ET_COLLS - 1, &type, err));
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
        CS_TRY(take(et, rank, node, raw, COMM_SIZE, 0, INT64_MAX / CS__ET_RANKS_MAX, &node->size, err));
    }
    take_group(et, node, raw);
out:
    return st;
}

/** An amount that a node may have: 0 without one. */
static cs_status take_amount(const struct cs__et *et, int32_t rank, const struct cs__et_node *node,
                             const struct raw *raw, enum attr attr, double max, double *value,
                             struct cs_err *err)
{
    const struct value *v = &raw->attrs[attr];
    *value = 0;
    if (v->kind == NOTHING) {
        return CS_OK;
    }
    if (v->kind != NUMBER) {
        return cs__et_bad(et, rank, node, err, "'%s' is not a number", attr_names[attr]);
    }
    if (!(v->real >= 0 && v->real <= max)) {
        return cs__et_bad(et, rank, node, err, "'%s' is %g, expected 0 to %g", attr_names[attr], v->real,
                          max);
    }
    *value = v->real;
    return CS_OK;
}

/** Seconds that the node says it takes. Its own attribute is exact; the field has whole microseconds. */
static cs_status take_duration(const struct cs__et *et, int32_t rank, struct cs__et_node *node,
                               const struct raw *raw, struct cs_err *err)
{
    cs_status st = CS_OK;
    double told_s = (double)raw->duration_us / 1e6;
    double exact_s;
    CS_TRY(take_amount(et, rank, node, raw, DURATION_S, DURATION_MAX_S, &exact_s, err));
    if (told_s > DURATION_MAX_S) {
        st = cs__et_bad(et, rank, node, err, "'duration_micros' is %" PRIu64 ", expected 0 to %g",
                        raw->duration_us, DURATION_MAX_S * 1e6);
        goto out;
    }
    const bool both = raw->has_duration && raw->attrs[DURATION_S].kind != NOTHING;
    if (both && fabs(exact_s - told_s) > ROUNDING_S * (1 + told_s)) {
        st = cs__et_bad(et, rank, node, err, "'duration_s' is %g, but 'duration_micros' %" PRIu64, exact_s,
                        raw->duration_us);
        goto out;
    }
    node->fixed_s = raw->attrs[DURATION_S].kind != NOTHING ? exact_s : told_s;
out:
    return st;
}

/** How long the node takes: measured, or what its amounts take; neither = it is left out. */
static cs_status take_time(struct cs__et *et, int32_t rank, struct cs__et_node *node, const struct raw *raw,
                           struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(take_duration(et, rank, node, raw, err));
    CS_TRY(take_amount(et, rank, node, raw, NUM_OPS, AMOUNT_MAX, &node->flop, err));
    CS_TRY(take_amount(et, rank, node, raw, TENSOR_SIZE, AMOUNT_MAX, &node->bytes, err));
    bool timed = node->fixed_s > 0;
    bool memory = node->type != CS__ET_COMP;
    bool counted = !memory && !node->on_host && !timed && node->flop > 0;
    bool silent = !raw->has_duration && raw->attrs[DURATION_S].kind == NOTHING;
    et->notes.n_memory += memory;
    et->notes.n_memory_untimed += memory && silent;
    et->notes.n_untimed += !memory && silent && (node->on_host || raw->attrs[NUM_OPS].kind == NOTHING);
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

static bool is_set(const struct raw *raw, enum attr attr)
{
    return raw->attrs[attr].kind == NUMBER && raw->attrs[attr].whole != 0;
}

static cs_status take_node(struct cs__et *et, int32_t rank, struct cs__et_node *node, const struct raw *raw,
                           struct cs_err *err)
{
    if (raw->type == CS__ET_INVALID) {
        return cs__et_bad(et, rank, node, err,
                          "has type 0 (INVALID_NODE), or none: a node says what it is (1 to 7)");
    }
    if (raw->type >= CS__N_ET_TYPES) {
        return cs__et_bad(et, rank, node, err, "has type %" PRIu64 ", which is not known", raw->type);
    }
    node->type = (uint8_t)raw->type;
    node->on_host = is_set(raw, IS_CPU_OP) || is_set(raw, IS_HOST_COPY);
    bool moves = node->type == CS__ET_SEND || node->type == CS__ET_RECV || node->type == CS__ET_COLL;
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

static cs_status read_node(struct cs__et *et, int32_t rank, struct cs__wire message, int64_t at,
                           struct cs_err *err)
{
    struct cs__et_rank *r = &et->ranks[rank];
    struct raw raw = {0};
    struct cs__et_node node = {.first_dep = r->n_deps, .group = -1, .peer = -1, .stream = -1, .place = -1};
    while (message.at < message.end) {
        struct cs__wire_field field;
        const char *wrong = cs__wire_field(&message, &field);
        wrong = wrong != NULL ? wrong : read_node_field(r, &field, &raw);
        if (wrong != NULL) {
            return bad_bytes(et, rank, at, err, wrong);
        }
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
