#include "cs/base/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prefix {
    const char *text;
    double factor;
};

static const struct prefix decimal[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};
static const struct prefix bytes_prefix[] = {
    {"", 1},         {"k", 1e3},      {"K", 1e3},      {"M", 1e6},      {"G", 1e9},
    {"T", 1e12},     {"Ki", 1024.0},  {"Mi", 0x1p20},  {"Gi", 0x1p30},  {"Ti", 0x1p40},
};
static const struct prefix none[] = {{"", 1}};

struct suffix {
    const char *text;
    double factor;
    bool prefixed;
};

static const struct suffix byte_suffixes[] = {{"B", 1, true}, {NULL, 0, false}};
static const struct suffix rate_suffixes[] = {
    {"Bps", 1, true},       {"B/s", 1, true},      {"bps", 0.125, true},
    {"bit/s", 0.125, true}, {"b/s", 0.125, true},  {NULL, 0, false},
};
static const struct suffix time_suffixes[] = {
    {"ns", 1e-9, false}, {"us", 1e-6, false}, {"ms", 1e-3, false},  {"s", 1, false},
    {"min", 60, false},  {"h", 3600, false},  {"d", 86400, false},  {NULL, 0, false},
};
static const struct suffix flop_suffixes[] = {
    {"flop/s", 1, true}, {"FLOP/s", 1, true}, {"FLOPS", 1, true}, {"flops", 1, true}, {"f", 1, true}, {NULL, 0, false},
};
static const struct suffix hertz_suffixes[] = {{"Hz", 1, true}, {NULL, 0, false}};
static const struct suffix watt_suffixes[] = {{"W", 1, true}, {NULL, 0, false}};
static const struct suffix fraction_suffixes[] = {{"%", 0.01, false}, {"", 1, false}, {NULL, 0, false}};
static const struct suffix plain_suffixes[] = {{"", 1, true}, {NULL, 0, false}};

static const struct {
    const struct suffix *suffixes;
    const struct prefix *prefixes;
    size_t n_prefixes;
    const char *example;
} units[] = {
    [CS_UNIT_NONE] = {plain_suffixes, decimal, 6, "1.5 or 70G"},
    [CS_UNIT_BYTES] = {byte_suffixes, bytes_prefix, 10, "64GiB or 64MB"},
    [CS_UNIT_BYTES_PER_S] = {rate_suffixes, bytes_prefix, 10, "25GBps or 200Gbps"},
    [CS_UNIT_SECONDS] = {time_suffixes, none, 1, "5us, 10s or 10min"},
    [CS_UNIT_FLOP_PER_S] = {flop_suffixes, decimal, 6, "353.9Tflop/s"},
    [CS_UNIT_HERTZ] = {hertz_suffixes, decimal, 6, "1.8GHz"},
    [CS_UNIT_WATT] = {watt_suffixes, decimal, 6, "400W"},
    [CS_UNIT_FRACTION] = {fraction_suffixes, none, 1, "0.3 or 30%"},
};

/* Digits with an optional point and exponent; no sign, no hexadecimal, no "inf". Returns the end. */
static const char *scan_number(const char *text)
{
    const char *at = text;
    int digits = 0;
    while (isdigit((unsigned char)*at)) {
        at++;
        digits++;
    }
    if (*at == '.') {
        at++;
        while (isdigit((unsigned char)*at)) {
            at++;
            digits++;
        }
    }
    if (digits == 0) {
        return text;
    }
    if (*at == 'e' || *at == 'E') {
        const char *exponent = at + 1;
        exponent += *exponent == '+' || *exponent == '-';
        if (isdigit((unsigned char)*exponent)) {
            while (isdigit((unsigned char)*exponent)) {
                exponent++;
            }
            at = exponent;
        }
    }
    return at;
}

static bool match_unit(const char *text, enum cs_unit unit, double *factor)
{
    for (const struct suffix *s = units[unit].suffixes; s->text; s++) {
        size_t n = strlen(text);
        size_t m = strlen(s->text);
        if (n < m || strcmp(text + n - m, s->text) != 0) {
            continue;
        }
        for (size_t p = 0; p < units[unit].n_prefixes; p++) {
            const struct prefix *prefix = &units[unit].prefixes[p];
            bool fits = strlen(prefix->text) == n - m && strncmp(prefix->text, text, n - m) == 0;
            if (fits && (s->prefixed || p == 0)) {
                *factor = prefix->factor * s->factor;
                return true;
            }
        }
    }
    return false;
}

static const char *clip(const char *text, char *buf, size_t bytes)
{
    if (strlen(text) < bytes) {
        return text;
    }
    memcpy(buf, text, bytes - 4);
    memcpy(buf + bytes - 4, "...", 4);
    return buf;
}

cs_status cs_units_parse(const char *text, enum cs_unit unit, const char *what, struct cs_loc loc, double *value,
                         struct cs_err *err)
{
    char shown[64];
    const char *end = scan_number(text);
    if (end == text) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', expected a number with a unit, such as %s", what,
                          clip(text, shown, sizeof shown), units[unit].example);
    }
    const char *suffix = end;
    while (*suffix == ' ') {
        suffix++;
    }
    double factor = 1;
    if (!match_unit(suffix, unit, &factor)) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', %s: write it like %s", what,
                          clip(text, shown, sizeof shown), *suffix ? "its unit is not known here" : "it has no unit",
                          units[unit].example);
    }
    double number = strtod(text, NULL) * factor;
    if (!isfinite(number)) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', which is too large", what,
                          clip(text, shown, sizeof shown));
    }
    *value = number;
    return CS_OK;
}

cs_status cs_int_parse(const char *text, int64_t min, int64_t max, const char *what, struct cs_loc loc,
                       int64_t *value, struct cs_err *err)
{
    char shown[64];
    const char *at = text + (*text == '-');
    bool digits = *at != '\0';
    for (const char *c = at; *c; c++) {
        digits = digits && isdigit((unsigned char)*c);
    }
    errno = 0;
    long long number = digits ? strtoll(text, NULL, 10) : 0;
    if (!digits) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', expected a whole number", what,
                          clip(text, shown, sizeof shown));
    }
    if (errno == ERANGE || number < min || number > max) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is %s, expected %lld to %lld", what,
                          clip(text, shown, sizeof shown), (long long)min, (long long)max);
    }
    *value = number;
    return CS_OK;
}

cs_status cs_real_parse(const char *text, const char *what, struct cs_loc loc, double *value, struct cs_err *err)
{
    char shown[64];
    const char *start = text + (*text == '-' || *text == '+');
    const char *end = scan_number(start);
    double number = end != start && !*end ? strtod(text, NULL) : (double)NAN;
    if (!isfinite(number)) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', expected a number", what,
                          clip(text, shown, sizeof shown));
    }
    *value = number;
    return CS_OK;
}

struct scale {
    double from;
    double factor;
    const char *text;
};

static const struct scale *scales_of(enum cs_unit unit)
{
    static const struct scale byte[] = {{0x1p40, 0x1p40, " TiB"}, {0x1p30, 0x1p30, " GiB"}, {0x1p20, 0x1p20, " MiB"},
                                        {0x1p10, 0x1p10, " KiB"}, {0, 1, " B"}};
    static const struct scale rate[] = {{1e12, 1e12, " TB/s"}, {1e9, 1e9, " GB/s"}, {1e6, 1e6, " MB/s"},
                                        {1e3, 1e3, " kB/s"},   {0, 1, " B/s"}};
    static const struct scale time[] = {{86400, 86400, " d"}, {3600, 3600, " h"}, {60, 60, " min"}, {1, 1, " s"},
                                        {1e-3, 1e-3, " ms"},  {1e-6, 1e-6, " us"}, {0, 1e-9, " ns"}};
    static const struct scale flop[] = {{1e15, 1e15, " PFLOPS"}, {1e12, 1e12, " TFLOPS"}, {1e9, 1e9, " GFLOPS"},
                                        {1e6, 1e6, " MFLOPS"},   {0, 1, " FLOPS"}};
    static const struct scale hertz[] = {{1e9, 1e9, " GHz"}, {1e6, 1e6, " MHz"}, {1e3, 1e3, " kHz"}, {0, 1, " Hz"}};
    static const struct scale watt[] = {{1e6, 1e6, " MW"}, {1e3, 1e3, " kW"}, {0, 1, " W"}};
    static const struct scale plain[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e3, 1e3, "k"}, {0, 1, ""}};
    static const struct scale fraction[] = {{0, 0.01, " %"}};
    switch (unit) {
    case CS_UNIT_BYTES:
        return byte;
    case CS_UNIT_BYTES_PER_S:
        return rate;
    case CS_UNIT_SECONDS:
        return time;
    case CS_UNIT_FLOP_PER_S:
        return flop;
    case CS_UNIT_HERTZ:
        return hertz;
    case CS_UNIT_WATT:
        return watt;
    case CS_UNIT_FRACTION:
        return fraction;
    case CS_UNIT_NONE:
        break;
    }
    return plain;
}

char *cs_units_format(double value, enum cs_unit unit, char *buf, size_t buf_bytes)
{
    if (!isfinite(value)) {
        snprintf(buf, buf_bytes, "%s", isnan(value) ? "unknown" : "unlimited");
        return buf;
    }
    const struct scale *scale = scales_of(unit);
    while (fabs(value) < scale->from) {
        scale++;
    }
    if (value == 0) {
        snprintf(buf, buf_bytes, "0%s", scale->text);
        return buf;
    }
    double shown = value / scale->factor;
    int decimals = fabs(shown) < 9.995 ? 2 : fabs(shown) < 999.95 ? 1 : 0;
    snprintf(buf, buf_bytes, "%.*f%s", decimals, shown, scale->text);
    return buf;
}
