/* What a study says about how its platform and its collectives run. */
#include "study_priv.h"

#include "cs/base/text.h"

static cs_status read_collectives(struct cs_study *study, const struct cs_yaml_node *block,
                                  struct cs_err *err)
{
    cs_status st = CS_OK;
    if (!block) {
        goto out;
    }
    CS_TRY(cs_yaml_check_keys(block, cs_coll_names, "collectives", err));
    for (int32_t i = 0; i < block->n; i++) {
        const struct cs_yaml_node *item = block->items[i];
        int32_t coll = cs_text_index(block->keys[i]->text, cs_coll_names);
        bool is_list = item->kind == CS_YAML_LIST && item->n > 0;
        for (int32_t k = 0; k < (is_list ? item->n : 1); k++) {
            int32_t algorithm = 0;
            const struct cs_yaml_node *choice = is_list ? item->items[k] : item;
            CS_TRY(cs_yaml_choice(choice, cs_algorithm_names, block->keys[i]->text, &algorithm, err));
            const char *why = cs_coll_never((enum cs_coll)coll, (enum cs_algorithm)algorithm);
            if (why) {
                st = cs_err_set(err, CS_E_INPUT, choice->loc, "%s: %s", cs_coll_names[coll], why);
                goto out;
            }
            study->runtime.choices[coll] |= is_list ? UINT32_C(1) << algorithm : 0;
            if (k == 0) {
                study->runtime.algorithm[coll] = (enum cs_algorithm)algorithm;
            }
        }
    }
out:
    return st;
}

static cs_status read_slow_devices(struct cs_study *study, const struct cs_yaml_node *map, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_slow_device *list;
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "slow_devices", err));
    list = CS_ARENA_NEW(&study->arena, struct cs_slow_device, map->n + 1);
    for (int32_t i = 0; i < map->n; i++) {
        int64_t device = 0;
        CS_TRY(cs_yaml_int(map->keys[i], 0, study->platform.n_devices - 1, "slow device", &device, err));
        CS_TRY(cs_yaml_real(map->items[i], 1, 1e6, "times slower", &list[i].factor, err));
        list[i].device = (int32_t)device;
        for (int32_t k = 0; k < i; k++) {
            if (list[k].device == list[i].device) {
                st = cs_err_set(err, CS_E_INPUT, map->keys[i]->loc, "slow device %d is given twice",
                                (int)device);
                goto out;
            }
        }
    }
    study->runtime.slow_devices = list;
    study->runtime.n_slow_devices = map->n;
out:
    return st;
}

static cs_status read_slow_links(struct cs_study *study, const struct cs_yaml_node *map, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_slow_link *list;
    CS_TRY(cs_yaml_want(map, CS_YAML_MAP, "slow_links", err));
    list = CS_ARENA_NEW(&study->arena, struct cs_slow_link, study->runtime.n_slow_links + map->n + 1);
    for (int32_t i = 0; i < study->runtime.n_slow_links; i++) {
        list[i] = study->runtime.slow_links[i]; /* of slow switches */
    }
    for (int32_t i = 0; i < map->n; i++) {
        struct cs_slow_link *link = &list[study->runtime.n_slow_links];
        link->name = map->keys[i]->text;
        CS_TRY(cs_yaml_real(map->items[i], 0, 1, "share of the bandwidth", &link->factor, err));
        /* a described platform has been wired without its dead links */
        if (link->factor > 0 || !study->description) {
            study->runtime.n_slow_links++;
        }
    }
    study->runtime.slow_links = list;
out:
    return st;
}

static cs_status read_faults(struct cs_study *study, const struct cs_yaml_node *block, struct cs_err *err)
{
    static const char *const allowed[] = {"slow_devices", "slow_links", "slow_switches",
                                          "jitter",       "nodes_out",  NULL};
    cs_status st = CS_OK;
    if (!block) {
        goto out;
    }
    CS_TRY(cs_yaml_check_keys(block, allowed, "faults", err));
    if (cs_yaml_get(block, "slow_devices")) {
        CS_TRY(read_slow_devices(study, cs_yaml_get(block, "slow_devices"), err));
    }
    if (cs_yaml_get(block, "slow_links")) {
        CS_TRY(read_slow_links(study, cs_yaml_get(block, "slow_links"), err));
    }
    CS_TRY(cs_yaml_opt_real(block, "jitter", 0, 1, &study->runtime.jitter_frac, err));
out:
    return st;
}

cs_status cs__runtime_read(struct cs_study *study, const struct cs_yaml_node *root, struct cs_err *err)
{
    cs_status st = CS_OK;
    CS_TRY(read_collectives(study, cs_yaml_get(root, "collectives"), err));
    CS_TRY(read_faults(study, cs_yaml_get(root, "faults"), err));
out:
    return st;
}

static int32_t n_bits(uint32_t bits)
{
    int32_t n = 0;
    for (; bits; bits &= bits - 1) {
        n++;
    }
    return n;
}

int32_t cs_study_n_algorithm_sets(const struct cs_study *study)
{
    int32_t n = 1;
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        int32_t n_choices = n_bits(study->runtime.choices[coll]);
        n *= n_choices > 0 ? n_choices : 1;
    }
    return n;
}

void cs_study_algorithm_set(const struct cs_study *study, int32_t index,
                            enum cs_algorithm algorithm[CS_N_COLLS])
{
    for (int32_t coll = 0; coll < CS_N_COLLS; coll++) {
        uint32_t bits = study->runtime.choices[coll];
        int32_t n = n_bits(bits);
        if (n == 0) {
            continue;
        }
        int32_t wanted = index % n;
        index /= n;
        int32_t at = 0;
        for (; !(bits >> at & 1) || wanted > 0; at++) {
            wanted -= (int32_t)(bits >> at & 1);
        }
        algorithm[coll] = (enum cs_algorithm)at;
    }
}

void cs_study_run_options(const struct cs_study *study, struct cs_run_options *options)
{
    const struct cs_runtime *runtime = &study->runtime;
    for (int32_t i = 0; i < CS_N_COLLS; i++) {
        if (options->algorithm[i] == CS_ALGO_AUTO) {
            options->algorithm[i] = runtime->algorithm[i];
        }
    }
    if (options->n_slow_devices == 0) {
        options->slow_devices = runtime->slow_devices;
        options->n_slow_devices = runtime->n_slow_devices;
    }
    if (options->n_slow_links == 0) {
        options->slow_links = runtime->slow_links;
        options->n_slow_links = runtime->n_slow_links;
    }
    if (options->jitter_frac <= 0) {
        options->jitter_frac = runtime->jitter_frac;
    }
}
