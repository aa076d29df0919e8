/* What sources write about optimizer sharding and recomputation, in their own words. */
#include "cases_priv.h"

#include "cs/base/text.h"

#include <ctype.h>
#include <string.h>

#define WORDS_MAX 512

static const char unknown_layers[] = "the source does not say which layers are recomputed";
static const char unknown_kind[] = "the kind of recomputation is unknown";

/* Small letters in words and numbers with one space before, between and behind: "ZeRO-1" and "zero_1" and
 * "zero1" are all " zero 1 ". False when the text is too long. */
static bool plain_words(const char *text, char words[WORDS_MAX])
{
    size_t n = 0;
    words[n++] = ' ';
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (n + 4 > WORDS_MAX) {
            return false;
        }
        bool known = isalnum(*c);
        bool begins =
            known && words[n - 1] != ' ' && (isdigit(*c) != 0) != (isdigit((unsigned char)words[n - 1]) != 0);
        if (words[n - 1] != ' ' && (begins || !known)) {
            words[n++] = ' ';
        }
        if (known) {
            words[n++] = (char)tolower(*c);
        }
    }
    if (words[n - 1] != ' ') {
        words[n++] = ' ';
    }
    words[n] = '\0';
    return true;
}

static bool starts_with_any(const char *words, const char *const *parts)
{
    for (; *parts; parts++) {
        if (cs_text_starts_with(words, *parts)) {
            return true;
        }
    }
    return false;
}

static bool has_any(const char *words, const char *const *parts)
{
    for (; *parts; parts++) {
        if (strstr(words, *parts)) {
            return true;
        }
    }
    return false;
}

/* Is what stands from `at` for `len` bytes (with its spaces) denied: "no X", "X false"? */
static bool is_denied(const char *words, const char *at, size_t len)
{
    static const char *const before[] = {" no ", " not ", " without ", NULL};
    static const char *const behind[] = {" false ", " off ", " disabled ", " 0 ", NULL};
    static const char *const last[] = {" no ", " none ", NULL}; /* elsewhere it belongs to what follows */
    for (int32_t i = 0; before[i]; i++) {
        size_t n = strlen(before[i]) - 1; /* its last space is the first of `at` */
        if ((size_t)(at - words) >= n && strncmp(at - n, before[i], n) == 0) {
            return true;
        }
    }
    return starts_with_any(at + len - 1, behind) || cs_text_index(at + len - 1, last) >= 0;
}

int32_t cs__case_zero(const char *text)
{
    static const char *const none[] = {" none ",    " no ", " off ",      " false ",  " not ",
                                       " without ", " n ",  " disabled ", " zero 0 ", NULL};
    static const char *const off[] = {" false ", " off ", " disabled ", NULL};
    static const struct {
        const char *part;
        int32_t zero; /* 0: says something only where it is denied */
    } parts[] = {
        {" zero 3 ", 3},
        {" stage 3 ", 3},
        {" zero 2 ", 2},
        {" stage 2 ", 2},
        {" zero 1 ", 1},
        {" stage 1 ", 1},
        {" shard grad op ", 2},
        {" full shard ", 3},
        {" fsdp ", 3},
        {" parallel optimizer ", 1},
        {" distributed optimizer ", 1},
        {" zero ", 0},
        {" stage ", 0},
        {" sharding ", 0},
    };
    char words[WORDS_MAX];
    int32_t zero = -1;
    bool denied = false;
    if (!plain_words(text, words)) {
        return -1;
    }
    if (strcmp(words, " ") == 0 || starts_with_any(words, none)) {
        return 0;
    }
    for (int32_t i = 0; i < CS_COUNT(parts); i++) {
        const char *at = strstr(words, parts[i].part);
        if (at && is_denied(words, at, strlen(parts[i].part))) {
            denied = true;
        } else if (at && parts[i].zero > 0 && zero < 0) {
            zero = parts[i].zero;
        }
    }
    if (denied) {
        return zero < 0 ? 0 : -1; /* both: which of them holds is not to be told */
    }
    return has_any(words, off) ? -1 : zero;
}

/* Numbers say how many layers, but not which; "uniform, 1" is Megatron-LM's word for each of them. */
static bool some_layers(const char *words)
{
    static const char *const some[] = {" partial", " except ", " but ", " block ", " some ", " half ", NULL};
    const char *uniform = strstr(words, " uniform 1 ");
    const char *number = strpbrk(words, "0123456789");
    if (uniform && number == uniform + strlen(" uniform ")) {
        number = strpbrk(number + 1, "0123456789");
    }
    return number || has_any(words, some);
}

const char *cs__case_recompute(const char *text, enum cs_recompute *kind)
{
    static const char *const none[] = {" none ", " no ",      " off ",      " false ",
                                       " n ",    " without ", " disabled ", NULL};
    static const char *const denials[] = {" none ", " no ",      " off ",      " false ",
                                          " not ",  " without ", " disabled ", NULL};
    static const char *const yes[] = {" uniform ", " uniform 1 ", " yes ", " y ", " on ", " true ", NULL};
    char words[WORDS_MAX];
    *kind = CS_RECOMPUTE_NONE;
    if (!plain_words(text, words)) {
        return unknown_kind;
    }
    const bool list = strchr(text, '[') != NULL;
    const bool full = cs_text_starts_with(words, " full") || cs_text_index(words, yes) >= 0;
    const bool selective = cs_text_starts_with(words, " selective");
    if (strcmp(words, " ") == 0) {
        return NULL;
    }
    if (starts_with_any(words, none)) {
        return strstr(words, " full") || strstr(words, " selective") ? unknown_kind : NULL;
    }
    if (strstr(words, " partial") ||
        ((full || (selective && strstr(words, " layer"))) && !list && some_layers(words))) {
        return unknown_layers;
    }
    if (!(full || selective) || has_any(words, denials)) {
        return unknown_kind;
    }
    *kind = full ? CS_RECOMPUTE_FULL : CS_RECOMPUTE_SELECTIVE;
    return NULL;
}
