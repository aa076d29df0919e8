/**
 * @file json_line_priv.h
 * Where in a JSON text a value stands: the JSON library does not keep it.
 */
#ifndef CS_PLATFORMS_JSON_LINE_PRIV_H
#define CS_PLATFORMS_JSON_LINE_PRIV_H

#include <stddef.h>

/* Line (from 1) of the value at a path such as "server_list[1].device[0].rank_id" in a valid JSON text; of
 * the innermost value on the way that exists. Keys with escapes are not found. Cost O(bytes). */
int cs__json_line(const char *text, size_t bytes, const char *path);

#endif
