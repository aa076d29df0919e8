#include "cs/base/yaml.h"

#include "cs/base/file.h"
#include "cs/base/text.h"

#include <yaml.h>

#include <stdlib.h>
#include <string.h>

/* Limits named in yaml.h. Nodes and depth are counted as a reader of the tree meets them, with every alias
 * expanded: a walk over the tree then ends soon and a recursive one does not run out of stack. */
#define TEXT_MAX_BYTES ((size_t)8 << 20)
#define NODES_MAX 1000000
#define DEPTH_MAX 64

/* A node with what only building needs. The tree shows its first member. */
struct built {
    struct cs_yaml_node node;
    int32_t n_nodes; /* of the subtree, this one included, aliases expanded */
    int32_t height;  /* lists and maps on the longest way down, this one included */
    bool open;       /* its end has not been reached: an alias to it would be a loop */
};

struct anchor {
    char *name; /* NULL = free slot; in the scratch arena */
    struct built *built;
};

struct loader {
    yaml_parser_t parser;
    const char *text;
    size_t bytes;
    const char *file;        /* in *arena, so that nodes may point to it */
    struct cs_arena *arena;  /* of the document */
    struct cs_arena scratch; /* of the load */
    struct anchor *anchors;  /* open addressing, n_slots a power of two */
    int32_t n_anchors;
    int32_t n_slots;
    int32_t n_nodes;
    struct cs_yaml *out; /* what repeats are noted in */
    struct cs_err *err;
};

/* A map while it is read: explicit entries, then what merge keys bring in. */
struct entry {
    const struct built *key;
    const struct built *value;
    int32_t idx; /* position in the order of precedence */
    bool merged;
};

struct entries {
    struct entry *list;
    int32_t n;
    int32_t cap;
};

static cs_status build_node(struct loader *l, const yaml_event_t *event, int32_t depth, struct built **out);

/* TEXT_MAX_BYTES keeps lines and columns far below INT_MAX. */
static struct cs_loc loc_at(const struct loader *l, yaml_mark_t mark)
{
    return (struct cs_loc){l->file, (int)mark.line + 1, (int)mark.column + 1};
}

/* Line and column (in bytes) of an offset into the text. */
static struct cs_loc loc_of_offset(const struct loader *l, size_t offset)
{
    struct cs_loc loc = {l->file, 1, 1};
    const char *line = l->text;
    const char *end = l->text + (offset < l->bytes ? offset : l->bytes);
    const char *next = NULL;
    while ((next = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        line = next + 1;
        loc.line++;
    }
    loc.col = (int)(end - line) + 1;
    return loc;
}

static cs_status parser_error(struct loader *l)
{
    const yaml_parser_t *parser = &l->parser;
    const char *problem = parser->problem ? parser->problem : "cannot be parsed";
    if (parser->error == YAML_MEMORY_ERROR) {
        return cs_err_set(l->err, CS_E_LIMIT, (struct cs_loc){.file = l->file}, "needs too much memory");
    }
    if (parser->error == YAML_READER_ERROR) {
        return cs_err_set(l->err, CS_E_INPUT, loc_of_offset(l, parser->problem_offset), "not valid YAML: %s",
                          problem);
    }
    struct cs_loc loc = loc_at(l, parser->problem_mark);
    if (!parser->context) {
        return cs_err_set(l->err, CS_E_INPUT, loc, "not valid YAML: %s", problem);
    }
    return cs_err_set(l->err, CS_E_INPUT, loc, "not valid YAML: %s, %s (from line %d)", problem,
                      parser->context, loc_at(l, parser->context_mark).line);
}

/* The caller deletes *event also after a failure. */
static cs_status next_event(struct loader *l, yaml_event_t *event)
{
    yaml_event_delete(event);
    if (!yaml_parser_parse(&l->parser, event)) {
        *event = (yaml_event_t){0};
        return parser_error(l);
    }
    return CS_OK;
}

/* Count nodes that a reader of the tree will meet. */
static cs_status count_nodes(struct loader *l, int32_t n, struct cs_loc loc)
{
    if (n > NODES_MAX - l->n_nodes) {
        return cs_err_set(l->err, CS_E_LIMIT, loc, "more than %d values (aliases expanded)", NODES_MAX);
    }
    l->n_nodes += n;
    return CS_OK;
}

static cs_status check_depth(struct loader *l, int32_t depth, struct cs_loc loc)
{
    if (depth > DEPTH_MAX) {
        return cs_err_set(l->err, CS_E_LIMIT, loc,
                          "lists and maps are nested deeper than %d (aliases expanded)", DEPTH_MAX);
    }
    return CS_OK;
}

/* The slot that holds the name, or the free one where it would go. The table is never full. */
static struct anchor *anchor_slot(struct loader *l, const char *name)
{
    uint32_t mask = (uint32_t)l->n_slots - 1;
    uint32_t i = (uint32_t)cs_hash_text(CS_HASH_SEED, name) & mask;
    while (l->anchors[i].name && strcmp(l->anchors[i].name, name) != 0) {
        i = (i + 1) & mask;
    }
    return &l->anchors[i];
}

static void grow_anchors(struct loader *l)
{
    struct anchor *old = l->anchors;
    int32_t n_old = l->n_slots;
    l->n_slots = n_old ? n_old * 2 : 32;
    l->anchors = cs_calloc((size_t)l->n_slots, sizeof *l->anchors);
    for (int32_t i = 0; i < n_old; i++) {
        if (old[i].name) {
            *anchor_slot(l, old[i].name) = old[i];
        }
    }
    cs_free(old);
}

/* A later anchor of the same name takes over, as YAML has it. */
static void set_anchor(struct loader *l, const yaml_char_t *name, struct built *built)
{
    if (!name) {
        return;
    }
    if (l->n_anchors >= l->n_slots / 2) {
        grow_anchors(l);
    }
    struct anchor *slot = anchor_slot(l, (const char *)name);
    if (!slot->name) {
        slot->name = cs_arena_strdup(&l->scratch, (const char *)name);
        l->n_anchors++;
    }
    slot->built = built;
}

static cs_status new_node(struct loader *l, enum cs_yaml_kind kind, yaml_mark_t mark, struct built **out)
{
    struct cs_loc loc = loc_at(l, mark);
    cs_status st = count_nodes(l, 1, loc);
    if (st == CS_OK) {
        struct built *built = CS_ARENA_NEW(l->arena, struct built, 1);
        built->node.kind = kind;
        built->node.loc = loc;
        built->n_nodes = 1;
        *out = built;
    }
    return st;
}

static cs_status build_alias(struct loader *l, const yaml_event_t *event, int32_t depth, struct built **out)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct cs_loc loc = loc_at(l, event->start_mark);
    char shown[CS_TEXT_CLIP_BYTES];
    struct built *built = l->n_anchors > 0 ? anchor_slot(l, name)->built : NULL;
    cs_status st = CS_OK;
    if (!built) {
        return cs_err_set(l->err, CS_E_INPUT, loc, "alias '*%s' has no anchor '&%s' before it",
                          cs_text_clip(name, shown), shown);
    }
    if (built->open) {
        return cs_err_set(l->err, CS_E_INPUT, loc, "alias '*%s' stands inside what it refers to (line %d)",
                          cs_text_clip(name, shown), built->node.loc.line);
    }
    CS_TRY(count_nodes(l, built->n_nodes, loc));
    CS_TRY(check_depth(l, depth + built->height, loc));
    *out = built;
out:
    return st;
}

static cs_status build_scalar(struct loader *l, const yaml_event_t *event, struct built **out)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    cs_status st = CS_OK;
    struct built *built = NULL;
    CS_TRY(new_node(l, CS_YAML_SCALAR, event->start_mark, &built));
    if (memchr(value, '\0', length)) { /* "\0" in double quotes */
        st = cs_err_set(l->err, CS_E_INPUT, built->node.loc, "the text contains a NUL character");
        goto out;
    }
    built->node.text = cs_arena_strndup(l->arena, value, length);
    built->node.quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    set_anchor(l, event->data.scalar.anchor, built);
    *out = built;
out:
    return st;
}

static void adopt(struct built *parent, const struct built *child)
{
    parent->n_nodes += child->n_nodes; /* within NODES_MAX: count_nodes saw each of them */
    if (child->height + 1 > parent->height) {
        parent->height = child->height + 1;
    }
}

static cs_status build_list(struct loader *l, const yaml_event_t *start, int32_t depth, struct built **out)
{
    const struct cs_yaml_node **items = NULL;
    int32_t n = 0;
    int32_t cap = 0;
    yaml_event_t event = {0};
    struct built *list = NULL;
    cs_status st = CS_OK;
    CS_TRY(new_node(l, CS_YAML_LIST, start->start_mark, &list));
    CS_TRY(check_depth(l, depth + 1, list->node.loc));
    list->height = 1;
    list->open = true;
    set_anchor(l, start->data.sequence_start.anchor, list);
    for (;;) {
        CS_TRY(next_event(l, &event));
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            break;
        }
        struct built *item = NULL;
        CS_TRY(build_node(l, &event, depth + 1, &item));
        adopt(list, item);
        CS_GROW(items, n, cap);
        items[n++] = &item->node;
    }
    list->node.n = n;
    list->node.items = cs_arena_memdup(l->arena, items, (size_t)n * sizeof *items);
    list->open = false;
    *out = list;
out:
    yaml_event_delete(&event);
    cs_free(items);
    return st;
}

static void add_entry(struct entries *entries, const struct built *key, const struct built *value,
                      bool merged)
{
    CS_GROW(entries->list, entries->n, entries->cap);
    entries->list[entries->n] = (struct entry){key, value, entries->n, merged};
    entries->n++;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int order = strcmp(x->key->node.text, y->key->node.text);
    return order ? order : (x->idx > y->idx) - (x->idx < y->idx);
}

static int by_idx(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return (x->idx > y->idx) - (x->idx < y->idx);
}

/* An explicit key stands again: note the earlier one. */
static void note_repeat(struct loader *l, const struct entry *dropped, const struct entry *kept)
{
    if (!l->out->repeats) {
        l->out->repeats = CS_ARENA_NEW(l->arena, struct cs_yaml_repeat, CS_YAML_REPEATS_MAX);
    }
    if (l->out->n_repeats < CS_YAML_REPEATS_MAX) {
        l->out->repeats[l->out->n_repeats] = (struct cs_yaml_repeat){&dropped->key->node, &kept->key->node};
    }
    l->out->n_repeats++;
}

/* Leave one entry a key, the first in order of precedence. Of two explicit ones the last counts where the
 * reader wants that; else they are an error, at the second; of several such pairs the one that comes first in
 * the file is reported. */
static cs_status settle_entries(struct loader *l, struct entries *entries)
{
    if (entries->n < 2) {
        return CS_OK;
    }
    qsort(entries->list, (size_t)entries->n, sizeof *entries->list, by_name);
    struct entry twice = {.idx = INT32_MAX};
    int first_line = 0;
    int32_t n = 1;
    for (int32_t i = 1; i < entries->n; i++) {
        struct entry *kept = &entries->list[n - 1];
        const struct entry *entry = &entries->list[i];
        if (strcmp(kept->key->node.text, entry->key->node.text) != 0) {
            entries->list[n++] = *entry;
        } else if (!entry->merged && l->out->last_wins) {
            note_repeat(l, kept, entry);
            *kept = *entry;
        } else if (!entry->merged && entry->idx < twice.idx) {
            twice = *entry;
            first_line = kept->key->node.loc.line;
        }
    }
    if (twice.key) {
        char shown[CS_TEXT_CLIP_BYTES];
        return cs_err_set(l->err, CS_E_INPUT, twice.key->node.loc,
                          "duplicate key '%s', first given in line %d",
                          cs_text_clip(twice.key->node.text, shown), first_line);
    }
    entries->n = n;
    qsort(entries->list, (size_t)n, sizeof *entries->list, by_idx);
    return CS_OK;
}

/* The `built` of a node of this document: every node is one's first member. */
static const struct built *built_of(const struct cs_yaml_node *node)
{
    return (const struct built *)(const void *)node;
}

/* Entries of one map behind a merge key. They count as nodes, also those that lose against a key that is
 * there already: that bounds the work. `loc` is the merge key's. */
static cs_status merge_map(struct loader *l, struct entries *entries, const struct cs_yaml_node *map,
                           struct cs_loc loc)
{
    cs_status st = CS_OK;
    for (int32_t i = 0; i < map->n; i++) {
        const struct built *value = built_of(map->items[i]);
        CS_TRY(count_nodes(l, 1 + value->n_nodes, loc));
        add_entry(entries, built_of(map->keys[i]), value, true);
    }
out:
    return st;
}

/* What `<<` stands for: a map, or a list of maps of which the earlier ones win. `key` is the `<<`. */
static cs_status merge_value(struct loader *l, struct entries *entries, const struct cs_yaml_node *key,
                             const struct cs_yaml_node *value)
{
    cs_status st = CS_OK;
    if (value->kind == CS_YAML_MAP) {
        CS_TRY(merge_map(l, entries, value, key->loc));
        goto out;
    }
    bool maps = value->kind == CS_YAML_LIST;
    for (int32_t i = 0; maps && i < value->n; i++) {
        maps = value->items[i]->kind == CS_YAML_MAP;
    }
    if (!maps) {
        st = cs_err_set(l->err, CS_E_INPUT, key->loc, "merge key '<<' needs a map or a list of maps");
        goto out;
    }
    for (int32_t i = 0; i < value->n; i++) {
        CS_TRY(merge_map(l, entries, value->items[i], key->loc));
    }
out:
    return st;
}

/* A key, which has to be a scalar. One given by an alias becomes a node of its own, so that messages about it
 * name the place where it is a key. */
static cs_status build_key(struct loader *l, const yaml_event_t *event, int32_t depth, struct built **out)
{
    struct cs_loc loc = loc_at(l, event->start_mark);
    if (event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT) {
        return cs_err_set(l->err, CS_E_INPUT, loc, "a key must be a text, found a list or a map");
    }
    struct built *key = NULL;
    cs_status st = CS_OK;
    CS_TRY(build_node(l, event, depth, &key));
    if (key->node.kind != CS_YAML_SCALAR) {
        st = cs_err_set(l->err, CS_E_INPUT, loc, "a key must be a text, found an alias of a list or a map");
        goto out;
    }
    if (event->type == YAML_ALIAS_EVENT) {
        key = cs_arena_memdup(l->arena, key, sizeof *key);
        key->node.loc = loc;
    }
    *out = key;
out:
    return st;
}

/* Read keys and values up to the end of the map; those of `<<` apart. Of several the last counts first where
 * the reader wants that of any key, as PyYAML has it; else the second is an error. */
static cs_status read_entries(struct loader *l, struct entries *entries, int32_t depth,
                              struct entries *merges)
{
    yaml_event_t event = {0};
    cs_status st = CS_OK;
    for (;;) {
        struct built *key = NULL;
        struct built *value = NULL;
        CS_TRY(next_event(l, &event));
        if (event.type == YAML_MAPPING_END_EVENT) {
            break;
        }
        CS_TRY(build_key(l, &event, depth, &key));
        CS_TRY(next_event(l, &event));
        CS_TRY(build_node(l, &event, depth, &value));
        if (key->node.quoted || strcmp(key->node.text, "<<") != 0) {
            add_entry(entries, key, value, false);
        } else if (merges->n > 0 && !l->out->last_wins) {
            st = cs_err_set(l->err, CS_E_INPUT, key->node.loc,
                            "duplicate key '<<', first given in line %d (one may hold a list of maps)",
                            merges->list[0].key->node.loc.line);
            goto out;
        } else {
            add_entry(merges, key, value, true);
        }
    }
out:
    yaml_event_delete(&event);
    return st;
}

static cs_status build_map(struct loader *l, const yaml_event_t *start, int32_t depth, struct built **out)
{
    struct entries entries = {0};
    struct entries merges = {0};
    struct built *map = NULL;
    cs_status st = CS_OK;
    CS_TRY(new_node(l, CS_YAML_MAP, start->start_mark, &map));
    CS_TRY(check_depth(l, depth + 1, map->node.loc));
    map->height = 1;
    map->open = true;
    set_anchor(l, start->data.mapping_start.anchor, map);
    CS_TRY(read_entries(l, &entries, depth + 1, &merges));
    for (int32_t i = merges.n - 1; i >= 0; i--) {
        CS_TRY(merge_value(l, &entries, &merges.list[i].key->node, &merges.list[i].value->node));
    }
    CS_TRY(settle_entries(l, &entries));
    map->node.n = entries.n;
    map->node.keys = CS_ARENA_NEW(l->arena, const struct cs_yaml_node *, entries.n);
    map->node.items = CS_ARENA_NEW(l->arena, const struct cs_yaml_node *, entries.n);
    for (int32_t i = 0; i < entries.n; i++) {
        map->node.keys[i] = &entries.list[i].key->node;
        map->node.items[i] = &entries.list[i].value->node;
        adopt(map, entries.list[i].key);
        adopt(map, entries.list[i].value);
    }
    map->open = false;
    *out = map;
out:
    cs_free(merges.list);
    cs_free(entries.list);
    return st;
}

/* The node that starts with `event`. `depth` counts the lists and maps around it. */
static cs_status build_node(struct loader *l, const yaml_event_t *event, int32_t depth, struct built **out)
{
    if (event->type == YAML_ALIAS_EVENT) {
        return build_alias(l, event, depth, out);
    }
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        return build_list(l, event, depth, out);
    }
    if (event->type == YAML_MAPPING_START_EVENT) {
        return build_map(l, event, depth, out);
    }
    CS_ASSERT(event->type == YAML_SCALAR_EVENT); /* libyaml's grammar has nothing else here */
    return build_scalar(l, event, out);
}

/* Exactly one document, with something in it. */
static cs_status build_document(struct loader *l, const struct cs_yaml_node **root)
{
    yaml_event_t event = {0};
    struct built *built = NULL;
    cs_status st = CS_OK;
    CS_TRY(next_event(l, &event)); /* stream start */
    CS_TRY(next_event(l, &event));
    if (event.type == YAML_STREAM_END_EVENT) {
        st = cs_err_set(l->err, CS_E_INPUT, (struct cs_loc){l->file, 1, 0}, "the file is empty");
        goto out;
    }
    CS_TRY(next_event(l, &event));
    CS_TRY(build_node(l, &event, 0, &built));
    if (built->node.kind == CS_YAML_SCALAR && !built->node.quoted && built->node.text[0] == '\0') {
        st = cs_err_set(l->err, CS_E_INPUT, (struct cs_loc){l->file, 1, 0}, "the file is empty");
        goto out;
    }
    CS_TRY(next_event(l, &event)); /* document end */
    CS_TRY(next_event(l, &event));
    if (event.type != YAML_STREAM_END_EVENT) {
        st = cs_err_set(l->err, CS_E_INPUT, loc_at(l, event.start_mark),
                        "a second document starts here, but only one is read");
        goto out;
    }
    *root = &built->node;
out:
    yaml_event_delete(&event);
    return st;
}

cs_status cs_yaml_load_text(struct cs_yaml *yaml, const char *text, size_t bytes, const char *name,
                            struct cs_err *err)
{
    struct cs_yaml fresh = {.last_wins = yaml->last_wins};
    struct loader l = {.text = text, .bytes = bytes, .arena = &fresh.arena, .out = &fresh, .err = err};
    bool has_parser = false;
    cs_status st = CS_OK;
    l.file = name ? cs_arena_strdup(&fresh.arena, name) : NULL;
    if (bytes > TEXT_MAX_BYTES) {
        st = cs_err_set(err, CS_E_LIMIT,
                        (struct cs_loc){.file = l.file, .line = cs_text_line(text, TEXT_MAX_BYTES)},
                        "is larger than %zu bytes, the most that is read", TEXT_MAX_BYTES);
        goto out;
    }
    const char *nul = bytes > 0 ? memchr(text, '\0', bytes) : NULL;
    if (nul) {
        st = cs_err_set(err, CS_E_INPUT, loc_of_offset(&l, (size_t)(nul - text)),
                        "contains a NUL byte, but should be UTF-8 text");
        goto out;
    }
    has_parser = yaml_parser_initialize(&l.parser) != 0;
    if (!has_parser) {
        CS_TRY(parser_error(&l));
    }
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)text, bytes);
    CS_TRY(build_document(&l, &fresh.root));
    cs_yaml_release(yaml);
    *yaml = fresh;
    fresh = (struct cs_yaml){0};
out:
    if (has_parser) {
        yaml_parser_delete(&l.parser);
    }
    cs_free(l.anchors);
    cs_arena_release(&l.scratch);
    cs_yaml_release(&fresh);
    return st;
}

cs_status cs_yaml_load_file(struct cs_yaml *yaml, const char *path, struct cs_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    cs_status st = CS_OK;
    CS_TRY(cs_file_read(path, TEXT_MAX_BYTES, &text, &bytes, err));
    CS_TRY(cs_yaml_load_text(yaml, text, bytes, path, err));
out:
    cs_free(text);
    return st;
}

void cs_yaml_release(struct cs_yaml *yaml)
{
    cs_arena_release(&yaml->arena);
    yaml->root = NULL;
    yaml->n_repeats = 0;
    yaml->repeats = NULL;
}
