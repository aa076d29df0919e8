#include "json_line_priv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct cursor {
    const char *at;
    const char *end;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at)) {
        c->at++;
    }
}

/* Behind a string that begins here. */
static void skip_string(struct cursor *c)
{
    for (c->at++; c->at < c->end && *c->at != '"'; c->at++) {
        c->at += *c->at == '\\' && c->at + 1 < c->end;
    }
    c->at += c->at < c->end;
}

/* Behind the value that begins here. */
static void skip_value(struct cursor *c)
{
    int depth = 0;
    while (c->at < c->end) {
        char now = *c->at;
        if (depth == 0 && strchr(",]}", now)) {
            return;
        }
        if (now == '"') {
            skip_string(c);
            continue;
        }
        depth += now == '[' || now == '{' ? 1 : now == ']' || now == '}' ? -1 : 0;
        c->at++;
    }
}

/* Behind the comma or colon that comes next; false at the end of what it separates. */
static bool skip_mark(struct cursor *c, char mark)
{
    skip_space(c);
    bool there = c->at < c->end && *c->at == mark;
    c->at += there;
    skip_space(c);
    return there;
}

static bool enter(struct cursor *c, char open)
{
    bool there = c->at < c->end && *c->at == open;
    c->at += there;
    skip_space(c);
    return there && c->at < c->end && *c->at != ']' && *c->at != '}';
}

/* To the value of a key of the object here. */
static bool find_key(struct cursor *c, const char *key, size_t len)
{
    bool more = enter(c, '{');
    while (more && *c->at == '"') {
        const char *name = c->at + 1;
        skip_string(c);
        bool found = (size_t)(c->at - name) == len + 1 && memcmp(name, key, len) == 0;
        if (!skip_mark(c, ':') || found) {
            return found;
        }
        skip_value(c);
        more = skip_mark(c, ',') && c->at < c->end;
    }
    return false;
}

/* To an item of the list here. */
static bool find_item(struct cursor *c, long index)
{
    bool more = enter(c, '[');
    for (; more && index > 0; index--) {
        skip_value(c);
        more = skip_mark(c, ',');
    }
    return more;
}

int cs__json_line(const char *text, size_t bytes, const char *path)
{
    struct cursor here = {text, text + bytes};
    skip_space(&here);
    while (*path) {
        struct cursor next = here;
        bool found = false;
        if (*path == '[') {
            char *rest = NULL;
            found = find_item(&next, strtol(path + 1, &rest, 10));
            path = rest + (*rest == ']');
        } else {
            size_t len = strcspn(path, ".[");
            found = find_key(&next, path, len);
            path += len;
        }
        path += *path == '.';
        if (!found) {
            break;
        }
        here = next;
    }
    int line = 1;
    for (const char *c = text; c < here.at; c++) {
        line += *c == '\n';
    }
    return line;
}
