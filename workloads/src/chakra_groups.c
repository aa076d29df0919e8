/* Chakra execution traces: process groups, and the communicators they fit into. */
#include "chakra_read_priv.h"

#include "cs/base/json.h"

#include <string.h>

/** A definition. The members move in. */
static void add_group(struct cs__et *et, int32_t name, int32_t rank, int32_t *members, int32_t n_members)
{
    CS_GROW(et->groups, et->n_groups, et->cap_groups);
    et->groups[et->n_groups++] = (struct cs__et_group){name, rank, n_members, members};
}

/** A list of ranks, each once; NULL when it is not that. An empty list is everybody. */
static int32_t *read_members(struct cs__et *et, const json_t *list, int32_t *n_members)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > (size_t)et->n_ranks) {
        return NULL;
    }
    bool all = n == 0;
    n = all ? (size_t)et->n_ranks : n;
    int32_t *members = CS_ARENA_NEW(&et->arena, int32_t, n);
    uint8_t *seen = cs_calloc((size_t)et->n_ranks, sizeof *seen);
    bool sound = true;
    for (size_t i = 0; i < n && sound; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t rank = all ? (json_int_t)i : json_integer_value(item);
        sound = (all || json_is_integer(item)) && rank >= 0 && rank < et->n_ranks && !seen[rank];
        if (sound) {
            seen[rank] = 1;
            members[i] = (int32_t)rank;
        }
    }
    cs_free(seen);
    *n_members = (int32_t)n;
    return sound ? members : NULL;
}

cs_status cs__et_groups_json(struct cs__et *et, const char *text, const char *file, struct cs_err *err)
{
    cs_status st = CS_OK;
    json_error_t error;
    const char *name = NULL;
    json_t *list = NULL;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL || !json_is_object(root)) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = file, .line = root == NULL ? error.line : 0},
                        "%s",
                        root == NULL ? error.text : "the process groups must be {\"name\": [ranks], ...}");
        goto out;
    }
    json_object_foreach(root, name, list)
    {
        int32_t n = 0;
        int32_t *members = read_members(et, list, &n);
        if (members == NULL) {
            st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){.file = file},
                            "process group '%s' is not a list of different ranks below %d", name,
                            (int)et->n_ranks);
            goto out;
        }
        add_group(et, cs__et_names_add(&et->group_names, name, strlen(name)), -1, members, n);
    }
out:
    json_decref(root);
    return st;
}

/** The list of groups inside a text that PyTorch's tracer has wrapped: a list of one text, whose quotes may
 * be escaped. */
static json_t *unwrap(const uint8_t *text, size_t bytes)
{
    struct cs_strbuf plain = {0};
    size_t first = 0;
    size_t last = bytes;
    while (first + 1 < bytes && !(text[first] == '[' && text[first + 1] == '{')) {
        first++;
    }
    while (last > first + 1 && !(text[last - 1] == ']' && text[last - 2] == '}')) {
        last--;
    }
    for (size_t i = first; i < last; i++) {
        if (text[i] != '\\') {
            cs_strbuf_addn(&plain, (const char *)&text[i], 1);
        }
    }
    json_t *list = json_loadb(cs_strbuf_str(&plain), plain.len, 0, NULL);
    cs_strbuf_release(&plain);
    return list;
}

void cs__et_groups_metadata(struct cs__et *et, int32_t rank, const uint8_t *text, size_t bytes)
{
    json_t *list = unwrap(text, bytes);
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "pg_name"));
        int32_t n = 0;
        int32_t *members = name != NULL ? read_members(et, json_object_get(item, "ranks"), &n) : NULL;
        if (members != NULL) {
            add_group(et, cs__et_names_add(&et->group_names, name, strlen(name)), rank, members, n);
        }
    }
    json_decref(list);
}

/** The definition that a rank means by a name: its own, else the file's; -1 = there is none. Definitions of a
 *  name are few; those of one name are chained. */
static int32_t find_group(const struct cs__et *et, const int32_t *first, const int32_t *next, int32_t name,
                          int32_t rank)
{
    int32_t found = -1;
    for (int32_t g = first[name]; g >= 0; g = next[g]) {
        if (et->groups[g].rank == rank) {
            return g;
        }
        if (et->groups[g].rank < 0) {
            found = g;
        }
    }
    const char *text = et->group_names.texts[name];
    bool all = text[0] == '\0' || strcmp(text, "0") == 0;
    return found >= 0 || !all ? found : 0;
}

static bool same_members(const struct cs__et_group *a, const struct cs__et_group *b)
{
    return a->n_members == b->n_members &&
           memcmp(a->members, b->members, sizeof *a->members * (size_t)a->n_members) == 0;
}

/** Ranks that say the same by themselves mean one group: the first definition of that name and list. */
static int32_t canonical(const struct cs__et *et, const int32_t *first, const int32_t *next, int32_t g)
{
    const struct cs__et_group *group = &et->groups[g];
    int32_t best = g;
    for (int32_t other = first[group->name]; other >= 0; other = next[other]) {
        if (other < best && same_members(group, &et->groups[other])) {
            best = other;
        }
    }
    return best;
}

/** A copy from or to the host is in a group of its rank alone, which it has no more use for. */
static cs_status check_copy(const struct cs__et *et, int32_t rank, struct cs__et_node *node, int32_t group,
                            struct cs_err *err)
{
    const int32_t n = group == 0 ? et->n_ranks : et->groups[group].n_members;
    node->group = -1;
    return n == 1 ? CS_OK
                  : cs__et_bad(et, rank, node, err,
                               "has 'is_host_copy' and is over %d ranks: a copy from or to the host is in a "
                               "process group of its rank alone",
                               (int)n);
}

static cs_status bind_collectives(struct cs__et *et, const int32_t *first, const int32_t *next,
                                  struct cs_err *err)
{
    int32_t *meant =
        cs_calloc((size_t)et->group_names.n, sizeof *meant); /* per name, of one rank; -2 = not yet */
    cs_status st = CS_OK;
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        struct cs__et_rank *r = &et->ranks[rank];
        for (int32_t i = 0; i < et->group_names.n; i++) {
            meant[i] = -2;
        }
        for (int64_t i = 0; i < r->n_nodes; i++) {
            struct cs__et_node *node = &r->nodes[i];
            if (node->type != CS__ET_COLL && !node->copies) {
                continue;
            }
            int32_t *g = &meant[node->group];
            if (*g == -2) {
                *g = find_group(et, first, next, node->group, rank);
                *g = *g >= 0 ? canonical(et, first, next, *g) : *g;
            }
            const char *name = et->group_names.texts[node->group];
            if (*g < 0) {
                st = cs__et_bad(et, rank, node, err,
                                "is in process group '%s', which neither the group file nor metadata define",
                                name);
                goto out;
            }
            if (node->copies) {
                CS_TRY(check_copy(et, rank, node, *g, err));
                continue;
            }
            if (*g == 0 && !node->part_of_all) {
                st = cs__et_bad(et, rank, node, err,
                                "is over some dimensions of the network (involved_dim), which says nothing "
                                "about ranks: give it a process group (pg_name)");
                goto out;
            }
            node->group = *g;
        }
    }
out:
    cs_free(meant);
    return st;
}

/** Chain the definitions by name: first[name], next[group]. */
static void chain_groups(const struct cs__et *et, int32_t *first, int32_t *next)
{
    memset(first, -1, sizeof *first * (size_t)et->group_names.n);
    for (int32_t g = et->n_groups - 1; g > 0; g--) { /* group 0 is everybody, by no name */
        next[g] = first[et->groups[g].name];
        first[et->groups[g].name] = g;
    }
}

/** What groups of one communicator have in common. */
struct shape {
    int32_t n_members;
    int32_t stride; /* from the first member to the second */
};

/** Put a group into the first communicator of its shape where its members are free, or into a new one. */
static cs_status place_group(struct cs__et *et, int32_t g, struct shape *shapes, struct cs_err *err)
{
    const struct cs__et_group *group = &et->groups[g];
    struct cs_trace *trace = et->trace;
    int32_t stride = group->n_members > 1 ? group->members[1] - group->members[0] : 0;
    int32_t c = 0;
    for (; c < trace->n_comms; c++) {
        bool free = shapes[c].n_members == group->n_members && shapes[c].stride == stride;
        for (int32_t i = 0; i < group->n_members && free; i++) {
            free = trace->comms[c].group_of_rank[group->members[i]] < 0;
        }
        if (free) {
            break;
        }
    }
    if (c == trace->n_comms) {
        if (c >= CS__ET_NAMED_MAX || (int64_t)(c + 1) * et->n_ranks > CS__ET_PLACES_MAX) {
            return cs_err_set(err, CS_E_LIMIT, CS_NOLOC, "the process groups overlap in more than %d ways",
                              (int)c);
        }
        struct cs_comm *comm = &trace->comms[trace->n_comms++];
        comm->name = cs_arena_printf(&trace->arena, "group %s",
                                     g > 0 ? cs__et_shown(et, et->group_names.texts[group->name]) : "of all");
        comm->members = CS_ARENA_NEW(&trace->arena, int32_t, et->n_ranks);
        comm->group_of_rank = CS_ARENA_NEW(&trace->arena, int32_t, et->n_ranks);
        memset(comm->group_of_rank, -1, sizeof *comm->group_of_rank * (size_t)et->n_ranks);
        comm->group_first = CS_ARENA_NEW(&trace->arena, int32_t, et->n_ranks / group->n_members + 1);
        shapes[c] = (struct shape){group->n_members, stride};
    }
    struct cs_comm *comm = &trace->comms[c];
    int32_t at = comm->group_first[comm->n_groups];
    for (int32_t i = 0; i < group->n_members; i++) {
        comm->members[at++] = group->members[i];
        comm->group_of_rank[group->members[i]] = comm->n_groups;
    }
    comm->group_first[++comm->n_groups] = at;
    et->comm_of_group[g] = c;
    return CS_OK;
}

/** Groups in the order in which ranks first use them. */
static cs_status make_comms(struct cs__et *et, struct cs_err *err)
{
    struct cs_trace *trace = et->trace;
    struct shape *shapes = cs_calloc(CS__ET_NAMED_MAX, sizeof *shapes);
    cs_status st = CS_OK;
    trace->comms = CS_ARENA_NEW(&trace->arena, struct cs_comm, CS__ET_NAMED_MAX);
    et->comm_of_group = CS_ARENA_NEW(&et->arena, int32_t, et->n_groups);
    memset(et->comm_of_group, -1, sizeof *et->comm_of_group * (size_t)et->n_groups);
    for (int32_t rank = 0; rank < et->n_ranks; rank++) {
        struct cs__et_rank *r = &et->ranks[rank];
        for (int64_t i = 0; i < r->n_nodes; i++) {
            struct cs__et_node *node = &r->nodes[i];
            if (node->type != CS__ET_COLL) {
                continue;
            }
            const struct cs__et_group *group = &et->groups[node->group];
            if (et->comm_of_group[node->group] < 0) {
                CS_TRY(place_group(et, node->group, shapes, err));
            }
            const struct cs_comm *comm = &trace->comms[et->comm_of_group[node->group]];
            int32_t place = comm->group_of_rank[rank];
            if (place < 0 || comm->members[comm->group_first[place]] != group->members[0]) {
                st = cs__et_bad(et, rank, node, err, "is in process group '%s', but rank %d is not",
                                et->group_names.texts[group->name], (int)rank);
                goto out;
            }
            if (node->coll == CS_COLL_ALL_GATHER) { /* counted by what one rank gives (ASTRA-sim) */
                node->size *= group->n_members;
            }
        }
    }
out:
    cs_free(shapes);
    return st;
}

cs_status cs__et_groups_bind(struct cs__et *et, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t *first = cs_calloc((size_t)et->group_names.n, sizeof *first);
    int32_t *next = cs_calloc((size_t)et->n_groups, sizeof *next);
    chain_groups(et, first, next);
    CS_TRY(bind_collectives(et, first, next, err));
    CS_TRY(make_comms(et, err));
out:
    cs_free(first);
    cs_free(next);
    return st;
}
