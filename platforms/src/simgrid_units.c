/* Units of SimGrid 3.32's XML (measured: kilo is a lower-case k; the manual's KBps is refused). */
#include "simgrid_units_priv.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct prefix {
    const char *text;
    double factor;
};

static const struct prefix decimal[] = {{"", 1.0},   {"k", 1e3},  {"M", 1e6},  {"G", 1e9}, {"T", 1e12},
                                        {"P", 1e15}, {"E", 1e18}, {"Z", 1e21}, {"Y", 1e24}};
static const struct prefix binary[] = {{"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40},
                                       {"Pi", 0x1p50}, {"Ei", 0x1p60}, {"Zi", 0x1p70}, {"Yi", 0x1p80}};
static const struct prefix spelled[] = {{"", 1.0},     {"kilo", 1e3},  {"mega", 1e6},
                                        {"giga", 1e9}, {"tera", 1e12}, {"peta", 1e15},
                                        {"exa", 1e18}, {"zeta", 1e21}, {"yotta", 1e24}};
static const struct prefix times[] = {{"w", 604800.0}, {"d", 86400.0}, {"h", 3600.0},
                                      {"m", 60.0},     {"s", 1.0},     {"ms", 1e-3},
                                      {"us", 1e-6},    {"ns", 1e-9},   {"ps", 1e-12}};

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Factor of `text` = a prefix of the table followed by `unit`; 0 when it is not. */
static double match(const char *text, const struct prefix *table, size_t n, const char *unit)
{
    size_t unit_len = strlen(unit);
    size_t len = strlen(text);
    if (len < unit_len || strcmp(text + len - unit_len, unit) != 0) {
        return 0.0;
    }
    for (size_t i = 0; i < n; i++) {
        if (strlen(table[i].text) == len - unit_len && strncmp(text, table[i].text, len - unit_len) == 0) {
            return table[i].factor;
        }
    }
    return 0.0;
}

static double unit_factor(const char *text, enum cs_simgrid_unit unit)
{
    double factor = 0.0;
    switch (unit) {
    case CS__SIMGRID_SPEED:
        factor = match(text, decimal, N(decimal), "f");
        return factor > 0.0 ? factor : match(text, spelled, N(spelled), "flops");
    case CS__SIMGRID_BANDWIDTH:
        factor = match(text, decimal, N(decimal), "Bps") + match(text, binary, N(binary), "Bps");
        return factor > 0.0
                   ? factor
                   : (match(text, decimal, N(decimal), "bps") + match(text, binary, N(binary), "bps")) / 8.0;
    case CS__SIMGRID_LATENCY:
    default:
        return match(text, times, N(times), "");
    }
}

/* Length of a decimal number without sign at the start of the text; 0 when there is none. */
static size_t number_length(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    size_t len = digits;
    if (text[len] == '.') {
        size_t decimals = strspn(text + len + 1, "0123456789");
        digits += decimals;
        len += 1 + decimals;
    }
    if (digits == 0) {
        return 0;
    }
    if (text[len] == 'e' || text[len] == 'E') {
        size_t sign = text[len + 1] == '+' || text[len + 1] == '-' ? 1 : 0;
        size_t exponent = strspn(text + len + 1 + sign, "0123456789");
        if (exponent > 0) {
            len += 1 + sign + exponent;
        }
    }
    return len;
}

cs_status cs__simgrid_parse(const char *text, enum cs_simgrid_unit unit, const char *what, struct cs_loc loc,
                            double *value, struct cs_err *err)
{
    static const char *const example[] = {"'353.9Tf'", "'28GBps' or '200Gbps'", "'0.5us'"};
    /* Wider than any machine, and narrow enough for sums and quotients of them to stay exact enough. */
    static const struct {
        double min, max;
        const char *text;
    } ranges[] = {[CS__SIMGRID_SPEED] = {1, 1e24, "1f to 1Yf"},
                  [CS__SIMGRID_BANDWIDTH] = {1, 1e15, "1Bps to 1000TBps"},
                  [CS__SIMGRID_LATENCY] = {0, 1e3, "0 to 1000s"}};
    size_t len = number_length(text);
    if (len == 0 || len > 64) {
        return cs_err_set(err, CS_E_INPUT, loc, "%s '%s' is not a number with a unit, expected e.g. %s", what,
                          text, example[unit]);
    }
    char number[80];
    memcpy(number, text, len);
    number[len] = '\0';
    errno = 0;
    double read = strtod(number, NULL);
    bool range = errno == ERANGE;
    bool zero = read <= 0.0;
    double factor = text[len] == '\0' && zero ? 1.0 : unit_factor(text + len, unit);
    if (factor <= 0.0) {
        return cs_err_set(err, CS_E_INPUT, loc, "%s '%s' has %s '%s', expected e.g. %s (SimGrid's kilo is k)",
                          what, text, text[len] ? "the unknown unit" : "no unit:", text + len, example[unit]);
    }
    read *= factor;
    if (range || !(read >= ranges[unit].min && read <= ranges[unit].max)) {
        return cs_err_set(err, CS_E_INPUT, loc, "%s '%s' is out of range, expected %s", what, text,
                          ranges[unit].text);
    }
    *value = read;
    return CS_OK;
}
