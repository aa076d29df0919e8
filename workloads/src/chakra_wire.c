/* The protobuf wire format, as far as Chakra needs it. */
#include "chakra_priv.h"

#include <string.h>

void cs__wire_put_varint(struct cs_strbuf *buf, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    while (value >= 0x80) {
        bytes[n++] = (char)((value & 0x7f) | 0x80);
        value >>= 7;
    }
    bytes[n++] = (char)value;
    cs_strbuf_addn(buf, bytes, n);
}

static void put_tag(struct cs_strbuf *buf, uint32_t field, enum cs__wire_type type)
{
    cs__wire_put_varint(buf, (uint64_t)field << 3 | (uint64_t)type);
}

void cs__wire_put_number(struct cs_strbuf *buf, uint32_t field, uint64_t value)
{
    put_tag(buf, field, CS__WIRE_VARINT);
    cs__wire_put_varint(buf, value);
}

void cs__wire_put_bytes(struct cs_strbuf *buf, uint32_t field, const void *data, size_t bytes)
{
    put_tag(buf, field, CS__WIRE_BYTES);
    cs__wire_put_varint(buf, bytes);
    cs_strbuf_addn(buf, data, bytes);
}

void cs__wire_put_text(struct cs_strbuf *buf, uint32_t field, const char *text)
{
    cs__wire_put_bytes(buf, field, text, strlen(text));
}

void cs__wire_put_real(struct cs_strbuf *buf, uint32_t field, double value)
{
    uint64_t bits;
    char bytes[8];
    memcpy(&bits, &value, sizeof bits);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(bits >> (8 * i) & 0xff); /* little end first */
    }
    put_tag(buf, field, CS__WIRE_64);
    cs_strbuf_addn(buf, bytes, sizeof bytes);
}

void cs__wire_clear(struct cs_strbuf *buf)
{
    buf->len = 0;
}

bool cs__wire_varint(struct cs__wire *wire, uint64_t *value)
{
    uint64_t sum = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (wire->at == wire->end) {
            return false;
        }
        uint8_t byte = *wire->at++;
        if (shift == 63 && byte > 1) {
            return false;
        }
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = sum;
            return true;
        }
    }
    return false;
}

/** Fixed 32 or 64 bits, little end first. */
static bool take_fixed(struct cs__wire *wire, int32_t bytes, uint64_t *value)
{
    if (wire->end - wire->at < bytes) {
        return false;
    }
    *value = 0;
    for (int32_t i = 0; i < bytes; i++) {
        *value |= (uint64_t)*wire->at++ << (8 * i);
    }
    return true;
}

const char *cs__wire_field(struct cs__wire *wire, struct cs__wire_field *field)
{
    uint64_t tag = 0;
    if (!cs__wire_varint(wire, &tag)) {
        return "a field's number is cut off";
    }
    if (tag >> 3 == 0 || tag >> 3 > INT32_MAX) {
        return "a field has no valid number";
    }
    *field = (struct cs__wire_field){.number = (uint32_t)(tag >> 3)};
    switch (tag & 7) {
    case CS__WIRE_VARINT:
        field->type = CS__WIRE_VARINT;
        return cs__wire_varint(wire, &field->value) ? NULL : "a number is cut off or too long";
    case CS__WIRE_64:
        field->type = CS__WIRE_64;
        return take_fixed(wire, 8, &field->value) ? NULL : "a number of 64 bits is cut off";
    case CS__WIRE_32:
        field->type = CS__WIRE_32;
        return take_fixed(wire, 4, &field->value) ? NULL : "a number of 32 bits is cut off";
    case CS__WIRE_BYTES:
        field->type = CS__WIRE_BYTES;
        if (!cs__wire_varint(wire, &field->value) || field->value > (uint64_t)(wire->end - wire->at)) {
            return "a field is longer than the message it is in";
        }
        field->bytes = (struct cs__wire){wire->at, wire->at + field->value};
        wire->at += field->value;
        return NULL;
    default:
        return "a field has a type that is not known";
    }
}
