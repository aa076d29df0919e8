#include "cs/base/units.h"

#include "cs/base/mem.h"
#include "cs/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Value in the base unit = number * mul / div. Dividing by a power of ten rounds once (1e9 is exact),
 * multiplying by its inverse would round twice: "5us" is 5e-6 to the last bit. */
struct scale {
    const char *name;
    double mul;
    double div;
};

static const struct scale no_prefix[] = {{"", 1, 1}, {NULL, 0, 0}};
static const struct scale decimal[] = {{"", 1, 1},     {"k", 1e3, 1},  {"M", 1e6, 1}, {"G", 1e9, 1},
                                       {"T", 1e12, 1}, {"P", 1e15, 1}, {NULL, 0, 0}};
static const struct scale decimal_or_binary[] = {{"", 1, 1},        {"k", 1e3, 1},     {"M", 1e6, 1},
                                                 {"G", 1e9, 1},     {"T", 1e12, 1},    {"P", 1e15, 1},
                                                 {"Ki", 0x1p10, 1}, {"Mi", 0x1p20, 1}, {"Gi", 0x1p30, 1},
                                                 {"Ti", 0x1p40, 1}, {NULL, 0, 0}};

static const struct scale plain[] = {{"", 1, 1}, {NULL, 0, 0}};
static const struct scale byte[] = {{"B", 1, 1}, {NULL, 0, 0}};
static const struct scale byte_per_s[] = {{"B/s", 1, 1}, {"Bps", 1, 1},   {"b/s", 1, 8},
                                          {"bps", 1, 8}, {"bit/s", 1, 8}, {NULL, 0, 0}};
static const struct scale second[] = {{"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3},  {"s", 1, 1},
                                      {"min", 60, 1}, {"h", 3600, 1}, {"d", 86400, 1}, {NULL, 0, 0}};
static const struct scale flop_per_s[] = {{"flop/s", 1, 1}, {"FLOP/s", 1, 1}, {"flops", 1, 1},
                                          {"FLOPS", 1, 1},  {"f", 1, 1},      {NULL, 0, 0}};
static const struct scale hertz[] = {{"Hz", 1, 1}, {NULL, 0, 0}};
static const struct scale watt[] = {{"W", 1, 1}, {NULL, 0, 0}};
static const struct scale fraction[] = {{"", 1, 1}, {"%", 1, 100}, {NULL, 0, 0}};

/* What each dimension is shown in, smallest first; the first also serves below 1. */
static const struct scale shown_plain[] = {{"", 1, 1},      {" k", 1e3, 1},  {" M", 1e6, 1}, {" G", 1e9, 1},
                                           {" T", 1e12, 1}, {" P", 1e15, 1}, {NULL, 0, 0}};
static const struct scale shown_bytes[] = {{" B", 1, 1},        {" KiB", 0x1p10, 1}, {" MiB", 0x1p20, 1},
                                           {" GiB", 0x1p30, 1}, {" TiB", 0x1p40, 1}, {" PiB", 0x1p50, 1},
                                           {NULL, 0, 0}};
static const struct scale shown_bytes_per_s[] = {{" B/s", 1, 1},    {" kB/s", 1e3, 1},  {" MB/s", 1e6, 1},
                                                 {" GB/s", 1e9, 1}, {" TB/s", 1e12, 1}, {" PB/s", 1e15, 1},
                                                 {NULL, 0, 0}};
static const struct scale shown_seconds[] = {{" ns", 1, 1e9},  {" us", 1, 1e6}, {" ms", 1, 1e3},
                                             {" s", 1, 1},     {" min", 60, 1}, {" h", 3600, 1},
                                             {" d", 86400, 1}, {NULL, 0, 0}};
static const struct scale shown_flop_per_s[] = {
    {" flop/s", 1, 1},     {" kflop/s", 1e3, 1},  {" Mflop/s", 1e6, 1}, {" Gflop/s", 1e9, 1},
    {" Tflop/s", 1e12, 1}, {" Pflop/s", 1e15, 1}, {NULL, 0, 0}};
static const struct scale shown_hertz[] = {{" Hz", 1, 1},    {" kHz", 1e3, 1},  {" MHz", 1e6, 1},
                                           {" GHz", 1e9, 1}, {" THz", 1e12, 1}, {NULL, 0, 0}};
static const struct scale shown_watt[] = {{" W", 1, 1},    {" kW", 1e3, 1},  {" MW", 1e6, 1},
                                          {" GW", 1e9, 1}, {" TW", 1e12, 1}, {NULL, 0, 0}};
static const struct scale shown_fraction[] = {{"%", 1, 100}, {NULL, 0, 0}};

static const struct dimension {
    const struct scale *prefixes;
    const struct scale *units;
    const struct scale *shown;
    const char *example;
} dimensions[] = {
    [CS_UNIT_NONE] = {decimal, plain, shown_plain, "7000000 or 7M"},
    [CS_UNIT_BYTES] = {decimal_or_binary, byte, shown_bytes, "64GiB or 64GB (B is byte)"},
    [CS_UNIT_BYTES_PER_S] = {decimal_or_binary, byte_per_s, shown_bytes_per_s,
                             "25GB/s or 200Gbit/s (B is byte, b is bit)"},
    [CS_UNIT_SECONDS] = {no_prefix, second, shown_seconds, "5us, 2ms, 10s, 10min, 1.5h or 3d"},
    [CS_UNIT_FLOP_PER_S] = {decimal, flop_per_s, shown_flop_per_s, "312Tflop/s or 353.9TFLOPS"},
    [CS_UNIT_HERTZ] = {decimal, hertz, shown_hertz, "1.8GHz"},
    [CS_UNIT_WATT] = {decimal, watt, shown_watt, "400W"},
    [CS_UNIT_FRACTION] = {no_prefix, fraction, shown_fraction, "0.3 or 30%"},
};

static const struct dimension *dimension_of(enum cs_unit unit)
{
    CS_ASSERT((int)unit >= 0 && (int)unit < CS_COUNT(dimensions));
    return &dimensions[unit];
}

static size_t count_digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Length of the unsigned decimal number at the start of text, 0 when there is none. Narrower than strtod: no
 * hexadecimal, no inf or nan, no white space. */
static size_t number_length(const char *text)
{
    size_t whole = count_digits(text);
    size_t len = whole;
    if (text[len] == '.') {
        size_t decimals = count_digits(text + len + 1);
        if (whole + decimals == 0) {
            return 0;
        }
        len += 1 + decimals;
    }
    if (len > 0 && (text[len] == 'e' || text[len] == 'E')) {
        size_t sign = text[len + 1] == '+' || text[len + 1] == '-' ? 1 : 0;
        size_t digits = count_digits(text + len + 1 + sign);
        len += digits > 0 ? 1 + sign + digits : 0;
    }
    return len;
}

/* The suffix is a prefix of the dimension followed by one of its units, exactly. */
static bool find_suffix(const struct dimension *dim, const char *suffix, double *mul, double *div)
{
    for (const struct scale *prefix = dim->prefixes; prefix->name; prefix++) {
        if (!cs_text_starts_with(suffix, prefix->name)) {
            continue;
        }
        for (const struct scale *unit = dim->units; unit->name; unit++) {
            if (strcmp(suffix + strlen(prefix->name), unit->name) == 0) {
                *mul = prefix->mul * unit->mul;
                *div = prefix->div * unit->div;
                return true;
            }
        }
    }
    return false;
}

cs_status cs_units_parse(const char *text, enum cs_unit unit, const char *what, struct cs_loc loc,
                         double *value, struct cs_err *err)
{
    const struct dimension *dim = dimension_of(unit);
    char shown[CS_TEXT_CLIP_BYTES];
    char shown_suffix[CS_TEXT_CLIP_BYTES];
    cs_text_clip(text, shown);
    if (text[0] == '\0') {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' has no value, write for example %s", what,
                          dim->example);
    }
    if (text[0] == '-' && number_length(text + 1) > 0) {
        return cs_err_set(err, CS_E_INPUT, loc,
                          "'%s' is '%s', but must not be negative, write for example %s", what, shown,
                          dim->example);
    }
    const char *number = text[0] == '+' ? text + 1 : text;
    const char *suffix = number + number_length(number);
    if (suffix == number) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', but should be a number such as %s", what,
                          shown, dim->example);
    }
    size_t spaces = strspn(suffix, " ");
    suffix += suffix[spaces] != '\0' ? spaces : 0; /* "64 GiB" is fine, "64 " is not */
    double mul = 1;
    double div = 1;
    if (!find_suffix(dim, suffix, &mul, &div)) {
        if (suffix[0] == '\0') {
            return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s' without a unit, write for example %s", what,
                              shown, dim->example);
        }
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s' with unknown unit '%s', write for example %s",
                          what, shown, cs_text_clip(suffix, shown_suffix), dim->example);
    }
    double result = strtod(number, NULL) * mul / div;
    if (!isfinite(result)) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', which is too large, write for example %s",
                          what, shown, dim->example);
    }
    *value = result;
    return CS_OK;
}

static cs_status bad_int(const char *text, int64_t min, int64_t max, const char *what, struct cs_loc loc,
                         struct cs_err *err)
{
    char shown[CS_TEXT_CLIP_BYTES];
    char range[64] = "";
    if (min != INT64_MIN && max != INT64_MAX) {
        (void)snprintf(range, sizeof range, " from %lld to %lld", (long long)min, (long long)max);
    } else if (min != INT64_MIN) {
        (void)snprintf(range, sizeof range, " of at least %lld", (long long)min);
    } else if (max != INT64_MAX) {
        (void)snprintf(range, sizeof range, " of at most %lld", (long long)max);
    }
    if (text[0] == '\0') {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' has no value, but should be an integer%s", what, range);
    }
    return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', but should be an integer%s", what,
                      cs_text_clip(text, shown), range);
}

cs_status cs_int_parse(const char *text, int64_t min, int64_t max, const char *what, struct cs_loc loc,
                       int64_t *value, struct cs_err *err)
{
    const char *digits = text + (text[0] == '-' || text[0] == '+' ? 1 : 0);
    size_t len = count_digits(digits);
    if (len == 0 || digits[len] != '\0') {
        return bad_int(text, min, max, what, loc, err);
    }
    errno = 0;
    long long result = strtoll(text, NULL, 10);
    if (errno != 0 || result < min || result > max) {
        return bad_int(text, min, max, what, loc, err);
    }
    *value = result;
    return CS_OK;
}

cs_status cs_real_parse(const char *text, const char *what, struct cs_loc loc, double *value,
                        struct cs_err *err)
{
    char shown[CS_TEXT_CLIP_BYTES];
    if (text[0] == '\0') {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' has no value, but should be a number", what);
    }
    const char *number = text + (text[0] == '-' || text[0] == '+' ? 1 : 0);
    size_t len = number_length(number);
    if (len == 0 || number[len] != '\0') {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', but should be a number", what,
                          cs_text_clip(text, shown));
    }
    double result = strtod(text, NULL);
    if (!isfinite(result)) {
        return cs_err_set(err, CS_E_INPUT, loc, "'%s' is '%s', which is too large", what,
                          cs_text_clip(text, shown));
    }
    *value = result;
    return CS_OK;
}

/* A magnitude to the three digits it will show, so that the unit is chosen for what is seen: 999.6 MB/s is
 * shown as 1.00 GB/s. */
static double round_shown(double magnitude)
{
    if (magnitude < 9.995) {
        return round(magnitude * 100) / 100;
    }
    return magnitude < 99.95 ? round(magnitude * 10) / 10 : round(magnitude);
}

/* The largest unit of which there is at least one. */
static const struct scale *fitting_scale(const struct scale *scales, double magnitude)
{
    const struct scale *best = scales;
    for (const struct scale *next = scales + 1; next->name; next++) {
        double next_in_best = next->mul / next->div * best->div / best->mul;
        if (round_shown(magnitude / best->mul * best->div) >= next_in_best) {
            best = next;
        }
    }
    return best;
}

char *cs_units_format(double value, enum cs_unit unit, char *buf, size_t buf_bytes)
{
    const struct scale *smallest = dimension_of(unit)->shown;
    if (!isfinite(value)) {
        (void)snprintf(buf, buf_bytes, "%s", isnan(value) ? "unknown" : value > 0 ? "infinite" : "-infinite");
        return buf;
    }
    double magnitude = fabs(value);
    const struct scale *scale = fitting_scale(smallest, magnitude);
    double shown = magnitude / scale->mul * scale->div;
    const char *sign = value < 0 ? "-" : "";
    if (magnitude <= 0) {
        (void)snprintf(buf, buf_bytes, "0%s", unit == CS_UNIT_SECONDS ? " s" : scale->name);
    } else if (scale == smallest && scale->div <= 1 && shown <= floor(shown)) { /* whole: "512 B", "400 W" */
        (void)snprintf(buf, buf_bytes, "%s%.0f%s", sign, shown, scale->name);
    } else if (shown >= 1e4 || shown < 0.0995) {
        (void)snprintf(buf, buf_bytes, "%s%.3g%s", sign, shown, scale->name);
    } else {
        /* Below 1 in a larger unit only by rounding up: 59.96 s is 1.00 min. */
        int decimals = shown < 0.9995 && scale == smallest ? 3 : shown < 9.995 ? 2 : shown < 99.95 ? 1 : 0;
        (void)snprintf(buf, buf_bytes, "%s%.*f%s", sign, decimals, shown, scale->name);
    }
    return buf;
}
