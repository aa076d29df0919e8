/* Chakra execution traces: names, each kept once. */
#include "chakra_read_priv.h"

#include "cs/base/text.h"

#include <string.h>

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
