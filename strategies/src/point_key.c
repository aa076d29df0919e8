/* What a point depends on, as one number. */
#include "points_priv.h"

#include "cs/base/text.h"

static uint64_t hash_chips(uint64_t hash, const struct cs_platform *platform)
{
    const struct cs_chip *last = NULL;
    for (int32_t i = 0; i < platform->n_devices; i++) {
        const struct cs_chip *chip = platform->devices[i].chip;
        if (chip != last) {
            for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
                hash = cs_hash_real(hash, cs_chip_figure(chip, f));
            }
            last = chip;
        }
    }
    return hash;
}

static uint64_t hash_search(uint64_t hash, const struct cs_study *study)
{
    const struct cs_search_settings *search = &study->search;
    for (int32_t key = 0; key < CS_N_KEYS; key++) {
        const struct cs_axis *axis = &study->axes[key];
        hash = cs_hash_mix(hash, (uint64_t)axis->kind);
        hash = cs_hash_mix(hash, axis->asked);
        hash = cs_hash_bytes(hash, axis->values, (size_t)axis->n * sizeof *axis->values);
    }
    for (int32_t list = 0; list < CS_N_LISTS; list++) {
        const struct cs_list_axis *axis = &study->lists[list];
        hash = cs_hash_mix(hash, (uint64_t)axis->kind);
        for (int32_t i = 0; i < axis->n; i++) {
            hash = cs_hash_mix(hash, axis->choices[i].balanced);
            hash = cs_hash_bytes(hash, axis->choices[i].list.at,
                                 axis->choices[i].list.n * sizeof axis->choices[i].list.at[0]);
        }
    }
    hash = cs_hash_text(hash, search->algorithm);
    hash = cs_hash_text(hash, search->objective);
    hash = cs_hash_real(hash, search->time_limit_s);
    hash = cs_hash_real(hash, search->candidate_limit_s);
    hash = cs_hash_mix(hash, (uint64_t)search->simulation_limit);
    hash = cs_hash_mix(hash, search->seed);
    for (int32_t i = 0; i < study->constraints.n_rules; i++) {
        hash = cs_hash_text(hash, study->constraints.rules[i].text);
    }
    hash = cs_hash_real(hash, search->device_hour_cost);
    hash = cs_hash_real(hash, study->constraints.memory_margin);
    if (study->constraints.device_memory_bytes > 0) {
        hash = cs_hash_real(hash, study->constraints.device_memory_bytes);
    }
    hash = cs_hash_real(hash, study->constraints.min_device_use_frac);
    hash = cs_hash_real(hash, study->constraints.min_memory_use_frac);
    return cs_hash_real(hash, study->constraints.cross_node_comm_frac);
}

/* The run's options with what the study adds to them. */
static uint64_t hash_run(uint64_t hash, const struct cs_study *study, struct cs_run_options run)
{
    cs_study_run_options(study, &run);
    hash = cs_hash_mix(hash, (uint64_t)run.fidelity);
    hash = cs_hash_mix(hash, (uint64_t)run.view);
    for (int32_t i = 0; i < CS_N_COLLS; i++) {
        hash = cs_hash_mix(hash, (uint64_t)run.algorithm[i]);
    }
    for (int32_t i = 0; i < run.n_slow_devices; i++) {
        hash = cs_hash_mix(hash, (uint64_t)run.slow_devices[i].device);
        hash = cs_hash_real(hash, run.slow_devices[i].factor);
    }
    for (int32_t i = 0; i < run.n_slow_links; i++) {
        hash = cs_hash_text(hash, run.slow_links[i].name);
        hash = cs_hash_real(hash, run.slow_links[i].factor);
    }
    hash = cs_hash_real(hash, run.jitter_frac);
    return cs_hash_mix(hash, run.seed);
}

uint64_t cs__point_key(const struct cs_study *study, const struct cs_points_options *options)
{
    uint64_t hash = cs_hash_text(CS_HASH_SEED, options->version ? options->version : "");
    hash = cs_hash_mix(hash, study->model.content_hash);
    hash = cs_hash_mix(hash, study->platform.content_hash);
    hash = hash_chips(hash, &study->platform);
    hash = cs_training_hash(hash, &study->training);
    hash = hash_search(hash, study);
    hash = hash_run(hash, study, options->run);
    hash = cs_hash_text(hash, options->strategy ? options->strategy : "");
    return cs_hash_mix(hash, options->upgrades);
}
