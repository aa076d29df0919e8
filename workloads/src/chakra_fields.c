/* Chakra execution traces: a node's message taken apart. */
#include "chakra_fields_priv.h"

#include <string.h>

const char *const cs__et_attr_names[] = {
    "is_cpu_op", "num_ops", "tensor_size", "comm_type",    "comm_size",  "comm_src",     "comm_dst",
    "comm_tag",  "pg_name", "comm_group",  "involved_dim", "duration_s", "is_host_copy", NULL};

static void set_whole(struct cs__et_value *value, int64_t whole)
{
    *value = (struct cs__et_value){.kind = CS__ET_NUMBER, .whole = whole, .real = (double)whole};
}

static void set_real(struct cs__et_value *value, double real)
{
    *value = (struct cs__et_value){.kind = CS__ET_NUMBER, .real = real};
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

bool cs__et_all_set(struct cs__wire list)
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

static void read_value(const struct cs__wire_field *field, struct cs__et_value *value)
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
        value->kind = field->number == CS__ATTR_STRING ? CS__ET_TEXT : CS__ET_FLAGS;
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
static const char *read_attr(struct cs__wire attr, struct cs__wire *name, struct cs__et_value *value)
{
    *name = (struct cs__wire){0};
    *value = (struct cs__et_value){0};
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

static const char *read_node_field(struct cs__et_rank *r, const struct cs__wire_field *field,
                                   struct cs__et_raw *raw)
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
        struct cs__et_value value;
        const char *wrong = read_attr(field->bytes, &name, &value);
        if (wrong != NULL) {
            return wrong;
        }
        for (int32_t i = 0; i < CS__ET_N_ATTRS && value.kind != CS__ET_NOTHING; i++) {
            if ((size_t)(name.end - name.at) == strlen(cs__et_attr_names[i]) &&
                memcmp(name.at, cs__et_attr_names[i], strlen(cs__et_attr_names[i])) == 0) {
                raw->attrs[i] = value;
            }
        }
    }
    return NULL;
}

const char *cs__et_raw_read(struct cs__et_rank *r, struct cs__wire message, struct cs__et_raw *raw)
{
    *raw = (struct cs__et_raw){0};
    while (message.at < message.end) {
        struct cs__wire_field field;
        const char *wrong = cs__wire_field(&message, &field);
        wrong = wrong != NULL ? wrong : read_node_field(r, &field, raw);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}
