/**
 * @file chakra_fields_priv.h
 * A node of a Chakra execution trace as it is in the file: its fields, and the attributes that are looked at.
 */
#ifndef CS_WORKLOADS_CHAKRA_FIELDS_PRIV_H
#define CS_WORKLOADS_CHAKRA_FIELDS_PRIV_H

#include "chakra_read_priv.h"

/** The value of an attribute; a number of either kind is in both fields. */
struct cs__et_value {
    enum { CS__ET_NOTHING, CS__ET_NUMBER, CS__ET_TEXT, CS__ET_FLAGS } kind;
    int64_t whole;
    double real;
    struct cs__wire bytes; /* a text; the values of a list of flags */
};

/* Attributes that are looked at. */
enum cs__et_attr {
    CS__ET_IS_CPU_OP,
    CS__ET_NUM_OPS,
    CS__ET_TENSOR_SIZE,
    CS__ET_COMM_TYPE,
    CS__ET_COMM_SIZE,
    CS__ET_COMM_SRC,
    CS__ET_COMM_DST,
    CS__ET_COMM_TAG,
    CS__ET_PG_NAME,
    CS__ET_COMM_GROUP, /* an older name of pg_name, a number */
    CS__ET_INVOLVED_DIM,
    CS__ET_DURATION_S,   /* ours: the exact duration */
    CS__ET_IS_HOST_COPY, /* ours: a broadcast to itself that stands for a copy between host and device */
    CS__ET_N_ATTRS
};
extern const char *const cs__et_attr_names[];

/** A node's message, taken apart. */
struct cs__et_raw {
    uint64_t id;
    uint64_t type;
    uint64_t duration_us;
    bool has_duration;
    struct cs__wire name;
    struct cs__wire inputs;
    struct cs__et_value attrs[CS__ET_N_ATTRS];
};

/** Take a message apart; dependencies go to the rank's list. NULL or what is wrong with it. */
const char *cs__et_raw_read(struct cs__et_rank *r, struct cs__wire message, struct cs__et_raw *raw);
/** The values of a BoolList: a message whose field 1 is packed or repeated. True when all are set. */
bool cs__et_all_set(struct cs__wire list);

#endif
