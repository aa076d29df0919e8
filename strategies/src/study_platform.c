/* The platform of a study: a file, a description, a rank table; what faults take off it; what-if factors. */
#include "study_priv.h"

#include "cs/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- what if ---- */

static cs_status read_what_if(struct cs_study *study, const struct cs_yaml_node *block, struct cs_err *err)
{
    struct cs_what_if *what = &study->what_if;
    const struct {
        const char *key;
        double *value;
    } keys[] = {
        {"compute", &what->compute_frac},
        {"memory_bandwidth", &what->memory_bandwidth_frac},
        {"intra_bandwidth", &what->intra_bandwidth_frac},
        {"inter_bandwidth", &what->inter_bandwidth_frac},
        {"latency", &what->latency_frac},
    };
    static const char *const allowed[] = {"compute",         "memory_bandwidth", "intra_bandwidth",
                                          "inter_bandwidth", "latency",          NULL};
    cs_status st = CS_OK;
    *what = (struct cs_what_if){1, 1, 1, 1, 1};
    if (!block) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(block, CS_YAML_MAP, "what_if", err));
    CS_TRY(cs_yaml_check_keys(block, allowed, "what_if", err));
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        CS_TRY(cs_yaml_opt_real(block, keys[i].key, 1e-3, 1e3, keys[i].value, err));
    }
out:
    return st;
}

static bool is_one(double ratio)
{
    return !(ratio < 1 || ratio > 1);
}

/* Devices get copies of their chips with other peaks. */
static void scale_chips(struct cs_study *study)
{
    const struct cs_what_if *what = &study->what_if;
    const struct cs_chip *from = NULL;
    struct cs_chip *to = NULL;
    if (is_one(what->compute_frac) && is_one(what->memory_bandwidth_frac)) {
        return;
    }
    for (int32_t i = 0; i < study->platform.n_devices; i++) {
        struct cs_device *device = &study->platform.devices[i];
        if (device->chip != from) {
            from = device->chip;
            to = cs_arena_memdup(&study->arena, from, sizeof *from);
            to->memory_bytes_per_s *= what->memory_bandwidth_frac;
            for (int32_t d = 0; d < CS_N_DTYPES; d++) {
                to->peak_flop_per_s[d] *= what->compute_frac;
                to->vector_flop_per_s[d] *= what->compute_frac;
            }
        }
        device->chip = to;
    }
}

static void scale_spec(const struct cs_what_if *what, struct cs_topology_spec *spec)
{
    spec->intra_bytes_per_s *= what->intra_bandwidth_frac;
    spec->intra_bus_bytes_per_s *= what->intra_bandwidth_frac;
    spec->second.intra_bus_bytes_per_s *= what->intra_bandwidth_frac;
    spec->inter_bytes_per_s *= what->inter_bandwidth_frac;
    spec->intra_latency_s *= what->latency_frac;
    spec->inter_latency_s *= what->latency_frac;
    spec->hop_latency_s *= what->latency_frac;
    spec->second.intra_bytes_per_s *= what->intra_bandwidth_frac;
    spec->second.inter_bytes_per_s *= what->inter_bandwidth_frac;
    spec->second.intra_latency_s *= what->latency_frac;
}

/* ---- dead links and nodes ---- */

/* A described platform is wired without the links that `faults` calls dead. */
static cs_status add_dead_links(struct cs_study *study, const struct cs_yaml_node *faults,
                                struct cs_topology_spec *spec, struct cs_loc *loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *slow = cs_yaml_get(faults, "slow_links");
    if (!slow || slow->kind != CS_YAML_MAP) {
        return CS_OK;
    }
    const char **list = CS_ARENA_NEW(&study->arena, const char *, spec->n_dead_links + slow->n + 1);
    int32_t n = 0;
    for (; n < spec->n_dead_links; n++) {
        list[n] = spec->dead_links[n];
    }
    for (int32_t i = 0; i < slow->n; i++) {
        double share = 1;
        CS_TRY(cs_yaml_real(slow->items[i], 0, 1, "share of the bandwidth", &share, err));
        if (share <= 0) {
            list[n++] = slow->keys[i]->text;
            *loc = slow->keys[i]->loc;
        }
    }
    spec->dead_links = list;
    spec->n_dead_links = n;
out:
    return st;
}

/* The links of slow switches: dead ones are wired round or refused like dead links, others wait for
 * cs__runtime_read, which adds the slow links. */
static cs_status add_slow_switches(struct cs_study *study, const struct cs_yaml_node *faults,
                                   struct cs_topology_spec *spec, struct cs_loc *loc, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *slow = cs_yaml_get(faults, "slow_switches");
    if (!slow) {
        return CS_OK;
    }
    CS_TRY(cs_yaml_want(slow, CS_YAML_MAP, "slow_switches", err));
    CS_TRY(cs_topology_check(spec, slow->loc, err)); /* before its switches are counted */
    for (int32_t i = 0; i < slow->n; i++) {
        double share = 1;
        const char *const *links = NULL;
        int32_t n = 0;
        CS_TRY(cs_yaml_real(slow->items[i], 0, 1, "share of the bandwidth", &share, err));
        CS_TRY(cs_topology_switch_links(spec, slow->keys[i]->text, &study->arena, &links, &n,
                                        slow->keys[i]->loc, err));
        int32_t n_before = share > 0 ? study->runtime.n_slow_links : spec->n_dead_links;
        struct cs_slow_link *list = CS_ARENA_NEW(&study->arena, struct cs_slow_link, n_before + n);
        const char **dead = CS_ARENA_NEW(&study->arena, const char *, n_before + n);
        for (int32_t k = 0; k < n_before; k++) {
            if (share > 0) {
                list[k] = study->runtime.slow_links[k];
            } else {
                dead[k] = spec->dead_links[k];
            }
        }
        for (int32_t k = 0; k < n; k++) {
            list[n_before + k] = (struct cs_slow_link){links[k], share, true};
            dead[n_before + k] = links[k];
        }
        if (share > 0) {
            study->runtime.slow_links = list;
            study->runtime.n_slow_links = n_before + n;
        } else {
            spec->dead_links = dead;
            spec->n_dead_links = n_before + n;
            *loc = slow->keys[i]->loc;
        }
    }
out:
    return st;
}

/* Number the devices of each node from 0 without gaps, in the order they had among all of its devices. */
static void close_up(const struct cs_platform *p, struct cs_device *devices, int32_t n)
{
    int32_t per_node = p->devices_per_node;
    int32_t *at = cs_calloc((size_t)p->n_nodes * (size_t)per_node, sizeof *at); /* rank + 1 */
    for (int32_t r = 0; r < n; r++) {
        at[devices[r].node * per_node + devices[r].index] = r + 1;
    }
    for (int32_t node = 0; node < p->n_nodes; node++) {
        int32_t index = 0;
        for (int32_t i = 0; i < per_node; i++) {
            int32_t r = at[node * per_node + i] - 1;
            if (r >= 0) {
                devices[r].index = index++;
            }
        }
    }
    cs_free(at);
}

/* Keep n devices, in this order, as ranks 0 .. n-1; nodes without a device disappear. */
static void keep_devices(struct cs_study *study, const int32_t *device_of_rank, int32_t n)
{
    struct cs_platform *p = &study->platform;
    struct cs_device *devices = CS_ARENA_NEW(&p->arena, struct cs_device, n);
    int32_t *n_of_node = cs_calloc((size_t)p->n_nodes, sizeof *n_of_node);
    for (int32_t r = 0; r < n; r++) {
        devices[r] = p->devices[device_of_rank[r]];
        n_of_node[devices[r].node]++;
        p->content_hash = cs_hash_mix(p->content_hash, (uint64_t)device_of_rank[r]);
    }
    close_up(p, devices, n);
    int32_t *number = cs_calloc((size_t)p->n_nodes, sizeof *number);
    int32_t n_nodes = 0;
    int32_t most = 0;
    bool uniform = true;
    int32_t first = 0; /* devices of the first node that stays */
    for (int32_t i = 0; i < p->n_nodes; i++) {
        number[i] = n_nodes;
        if (n_of_node[i] > 0) {
            first = n_nodes == 0 ? n_of_node[i] : first;
            uniform = uniform && n_of_node[i] == first;
            most = n_of_node[i] > most ? n_of_node[i] : most;
            n_nodes++;
        }
    }
    for (int32_t r = 0; r < n; r++) {
        devices[r].node = number[devices[r].node];
        uniform = uniform && devices[r].chip == devices[0].chip;
    }
    cs_free(number);
    cs_free(n_of_node);
    p->devices = devices;
    p->n_devices = n;
    p->n_nodes = n_nodes;
    p->devices_per_node = most;
    p->uniform = uniform;
}

static cs_status take_nodes_out(struct cs_study *study, const struct cs_yaml_node *faults, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *list = cs_yaml_get(faults, "nodes_out");
    struct cs_platform *p = &study->platform;
    bool *out_of_order = cs_calloc((size_t)p->n_nodes, sizeof *out_of_order);
    int32_t *kept = cs_calloc((size_t)p->n_devices, sizeof *kept);
    int32_t n = 0;
    if (!list) {
        goto out;
    }
    CS_TRY(cs_yaml_want(list, CS_YAML_LIST, "nodes_out", err));
    for (int32_t i = 0; i < list->n; i++) {
        int64_t node = 0;
        CS_TRY(cs_yaml_int(list->items[i], 0, p->n_nodes - 1, "node that is out", &node, err));
        out_of_order[node] = true;
    }
    for (int32_t d = 0; d < p->n_devices; d++) {
        if (!out_of_order[p->devices[d].node]) {
            kept[n++] = d;
        }
    }
    if (n == 0) {
        st = cs_err_set(err, CS_E_INPUT, list->loc, "no node is left");
        goto out;
    }
    keep_devices(study, kept, n);
out:
    cs_free(kept);
    cs_free(out_of_order);
    return st;
}

/* ---- description and rank table ---- */

/* Generate the platform into a temporary file without a name: nothing is left behind however the process
 * ends. Child processes that SimGrid loads it in inherit the descriptor, and open it anew by its /proc name.
 */
static cs_status generate(struct cs_study *study, const struct cs_topology_spec *spec, struct cs_loc loc,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    char path[64];
    CS_TRY(cs_topology_check(spec, loc, err));
    study->platform_file = tmpfile();
    if (!study->platform_file) {
        return cs_err_set(err, CS_E_IO, CS_NOLOC, "no temporary file for the platform: %s", strerror(errno));
    }
    CS_TRY(cs_topology_write(spec, study->catalogue, study->platform_file, loc, err));
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(study->platform_file));
    CS_TRY(cs_platform_load(&study->platform, path, study->catalogue, err));
out:
    return st;
}

/* Devices in the table's rank order. */
static cs_status apply_table(struct cs_study *study, struct cs_loc loc, struct cs_err *err)
{
    const struct cs_ranktable *table = &study->ranktable;
    struct cs_err why = {0};
    int32_t *device_of_rank = cs_calloc((size_t)table->n_ranks, sizeof *device_of_rank);
    cs_status st = cs_ranktable_devices(table, &study->platform, device_of_rank, &why);
    if (st == CS_OK) {
        keep_devices(study, device_of_rank, table->n_ranks);
    } else {
        struct cs_loc place = {why.file, why.line, why.col};
        st = cs_err_set(err, st, why.line > 0 ? place : loc, "%s", why.text);
    }
    cs_free(device_of_rank);
    return st;
}

static cs_status describe(struct cs_study *study, const struct cs_study_source *source,
                          const struct cs_yaml_node *root, const struct cs_yaml_node *block,
                          struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_topology_spec *spec = CS_ARENA_NEW(&study->arena, struct cs_topology_spec, 1);
    const struct cs_yaml_node *table_node = cs_yaml_get(block, "rank_table");
    const char *path = NULL;
    struct cs_loc loc = block->loc;
    CS_TRY(cs__description_read(study, source, block, spec, err));
    if (table_node) {
        CS_TRY(cs__study_find(study, source, table_node, CS_SHIPPED_PLATFORM, "rank_table", &path, err));
        CS_TRY(cs_ranktable_load(&study->ranktable, path, err));
        if (!cs_yaml_get(block, "nodes") && !cs_yaml_get(block, "devices")) {
            spec->n_nodes = study->ranktable.n_servers;
        }
    }
    CS_TRY(add_slow_switches(study, cs_yaml_get(root, "faults"), spec, &loc, err));
    CS_TRY(add_dead_links(study, cs_yaml_get(root, "faults"), spec, &loc, err));
    scale_spec(&study->what_if, spec);
    CS_TRY(generate(study, spec, loc, err));
    study->description = spec;
    if (table_node) {
        CS_TRY(apply_table(study, table_node->loc, err));
    }
out:
    return st;
}

/* A description with one key. */
static const struct cs_yaml_node *block_of(struct cs_study *study, const char *key_text,
                                           const struct cs_yaml_node *value)
{
    struct cs_yaml_node *block = CS_ARENA_NEW(&study->arena, struct cs_yaml_node, 1);
    struct cs_yaml_node *key = CS_ARENA_NEW(&study->arena, struct cs_yaml_node, 1);
    *key = (struct cs_yaml_node){.kind = CS_YAML_SCALAR, .loc = value->loc, .text = key_text};
    *block = (struct cs_yaml_node){.kind = CS_YAML_MAP, .loc = value->loc, .n = 1};
    block->keys = CS_ARENA_NEW(&study->arena, const struct cs_yaml_node *, 1);
    block->items = CS_ARENA_NEW(&study->arena, const struct cs_yaml_node *, 1);
    block->keys[0] = key;
    block->items[0] = value;
    return block;
}

static bool scales_links(const struct cs_what_if *what)
{
    return !is_one(what->intra_bandwidth_frac) || !is_one(what->inter_bandwidth_frac) ||
           !is_one(what->latency_frac);
}

static bool has_dead_link(const struct cs_yaml_node *faults)
{
    const struct cs_yaml_node *slow = cs_yaml_get(faults, "slow_links");
    double share = 1;
    for (int32_t i = 0; slow && slow->kind == CS_YAML_MAP && i < slow->n; i++) {
        if (cs_yaml_real(slow->items[i], 0, 1, "share", &share, NULL) == CS_OK && share <= 0) {
            return true;
        }
    }
    return false;
}

/* Does the file at `path` carry its description, so that one like it with other wiring can be made? */
static bool is_described(const struct cs_study *study, const char *path, struct cs_loc loc)
{
    struct cs_platform platform = {0};
    struct cs_topology_spec spec;
    bool described = cs_platform_load(&platform, path, study->catalogue, NULL) == CS_OK &&
                     cs_topology_read(&spec, &platform, study->catalogue, loc, NULL) == CS_OK;
    cs_platform_release(&platform);
    return described;
}

cs_status cs__study_platform_read(struct cs_study *study, const struct cs_study_source *source,
                                  const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct cs_yaml_node *node = cs_yaml_get(root, "platform");
    const struct cs_yaml_node *faults = cs_yaml_get(root, "faults");
    const char *path = NULL;
    CS_TRY(read_what_if(study, cs_yaml_get(root, "what_if"), err));
    if (node->kind == CS_YAML_SCALAR && cs_ranktable_is_path(node->text)) {
        node = block_of(study, "rank_table", node); /* the default server type, a fat tree */
    } else if (node->kind == CS_YAML_SCALAR &&
               (scales_links(&study->what_if) || cs_yaml_get(faults, "slow_switches"))) {
        node = block_of(study, "base", node); /* a file's own links stay as they are; it has no switches */
    } else if (node->kind == CS_YAML_SCALAR && has_dead_link(faults)) {
        CS_TRY(cs__study_find(study, source, node, CS_SHIPPED_PLATFORM, "platform", &path, err));
        if (is_described(study, path, node->loc)) { /* else the replay refuses what crosses the link */
            node = block_of(study, "base", node);
        }
    }
    if (node->kind == CS_YAML_MAP) {
        CS_TRY(describe(study, source, root, node, err));
    } else {
        CS_TRY(cs__study_find(study, source, node, CS_SHIPPED_PLATFORM, "platform", &path, err));
        CS_TRY(cs_platform_load(&study->platform, path, study->catalogue, err));
    }
    CS_TRY(take_nodes_out(study, faults, err));
    scale_chips(study);
out:
    return st;
}

void cs_study_placement(const struct cs_study *study, const struct cs_strategy *strategy,
                        int32_t *device_of_rank)
{
    struct cs_strategy usual = *strategy;
    struct cs_strategy standard;
    cs_strategy_init(&standard);
    memcpy(usual.placement, standard.placement, sizeof usual.placement);
    for (int32_t rank = 0; rank < study->platform.n_devices; rank++) {
        int32_t coord[CS_N_DIMS];
        for (int32_t dim = 0; dim < CS_N_DIMS; dim++) {
            coord[dim] = cs_strategy_coord(&usual, rank, (enum cs_dim)dim);
        }
        device_of_rank[rank] = cs_strategy_rank(strategy, coord);
    }
}
