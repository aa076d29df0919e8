/**
 * @file units.h
 * Numbers with units, as users write and read them. Inside the program: seconds, bytes, bytes/s, flop/s.
 *
 * Suffixes are matched exactly and case-sensitively: b is bit and B is byte; k, M, G, T, P are powers of
 * 1000 and Ki, Mi, Gi, Ti powers of 1024. A dimensioned value without a unit, trailing text, overflow,
 * NaN, infinity and negative values are refused with a message that shows an example.
 */
#ifndef CS_BASE_UNITS_H
#define CS_BASE_UNITS_H

#include "cs/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum cs_unit {
    CS_UNIT_NONE,        /* plain number, optionally with k/M/G/T/P (parameters, tokens) */
    CS_UNIT_BYTES,       /* "64GiB", "64MB", "1024B" -> bytes */
    CS_UNIT_BYTES_PER_S, /* "200GBps", "200Gbps", "25GB/s", "200Gbit/s" -> bytes/s */
    CS_UNIT_SECONDS,     /* "5us", "10min", "1.5h", "3d", "250ns", "2ms", "10s" -> s */
    CS_UNIT_FLOP_PER_S,  /* "312Tflop/s", "353.9TFLOPS" -> flop/s */
    CS_UNIT_HERTZ,       /* "1.8GHz" -> 1/s */
    CS_UNIT_WATT,        /* "400W" */
    CS_UNIT_FRACTION     /* "0.3" or "30%" -> 0.3, no upper limit */
};

/** Parse the whole of `text`. @param[out] value in the base unit, untouched on failure. `what` names the
 *  quantity in the message ("memory"). @unit: the base unit that `unit` names. Errors: CS_E_INPUT at `loc`.
 */
CS_MUST_CHECK cs_status cs_units_parse(const char *text, enum cs_unit unit, const char *what,
                                       struct cs_loc loc, double *value, struct cs_err *err);
/** Whole-text integer, decimal (1e3 and 1_000 are refused), within [min, max]. */
CS_MUST_CHECK cs_status cs_int_parse(const char *text, int64_t min, int64_t max, const char *what,
                                     struct cs_loc loc, int64_t *value, struct cs_err *err);
/** Whole-text finite real number. @unit: none. */
CS_MUST_CHECK cs_status cs_real_parse(const char *text, const char *what, struct cs_loc loc, double *value,
                                      struct cs_err *err);

/** Human text with 3-4 significant digits and a fitting prefix ("28.0 GB/s", "64.0 GiB", "12.3 ms").
 *  Writes at most buf_bytes including the terminator; returns buf. Bytes use GiB, rates GB/s.
 *  @unit: the base unit that `unit` names. */
char *cs_units_format(double value, enum cs_unit unit, char *buf, size_t buf_bytes);

#endif
