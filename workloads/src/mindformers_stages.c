/* MindFormers configurations: layers of each stage, and recomputation by stage. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

/** Place of [chunk][stage] in the order in which a micro-batch passes: the second half of a V runs back. */
static int32_t place_of(const struct cs_strategy *s, int32_t chunk, int32_t stage)
{
    bool turned = s->schedule == CS_SCHED_ZERO_BUBBLE_V && chunk == 1;
    return chunk * s->pp + (turned ? s->pp - 1 - stage : stage);
}

static bool is_list(const struct cs_yaml_node *node)
{
    return node != NULL && node->kind == CS_YAML_LIST;
}

/** A list of which an item is a list has a row for each chunk. */
static bool has_rows(const struct cs_yaml_node *node)
{
    bool rows = false;
    for (int32_t i = 0; node->kind == CS_YAML_LIST && i < node->n; i++) {
        rows |= node->items[i]->kind == CS_YAML_LIST;
    }
    return rows;
}

/** "All layers of the stage", however many there are. */
#define ALL_LAYERS INT32_MAX
#define LAYERS_OFFSET_MAX INT64_C(16384)

struct grid {
    const char *what;
    int64_t all; /* that True means; 0: no booleans */
    int64_t min;
    bool shorter; /* a list may end early: the rest is 0 */
    bool rows;    /* was given chunk by chunk */
    int32_t at[CS_PLACES_MAX];
};

static cs_status read_item(const struct cs_yaml_node *item, const struct grid *grid, int32_t *at,
                           struct cs_err *err)
{
    int64_t value = 0;
    bool on = false;
    cs_status st;
    CS_TRY(cs_yaml_want(item, CS_YAML_SCALAR, grid->what, err));
    if (grid->all > 0 && cs_yaml_bool(item, grid->what, &on, NULL) == CS_OK) {
        value = on ? grid->all : 0;
    } else {
        CS_TRY(cs_yaml_int(item, grid->min, INT32_MAX, grid->what, &value, err));
    }
    *at = (int32_t)value;
out:
    return st;
}

/** A number for every place: a scalar for all, a list [stage] for every chunk, or [chunk][stage], in which a
 *  boolean may stand for a row. */
static cs_status read_grid(const struct cs_mf *mf, const struct cs_yaml_node *node, struct grid *grid,
                           struct cs_err *err)
{
    const struct cs_strategy *s = &mf->out->strategy;
    cs_status st = CS_OK;
    bool word = false;
    grid->rows = has_rows(node);
    if (node->kind == CS_YAML_MAP || (grid->rows && node->n != s->vpp)) {
        return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' must be a list for each of %d chunks", grid->what,
                          (int)s->vpp);
    }
    for (int32_t chunk = 0; chunk < s->vpp; chunk++) {
        const struct cs_yaml_node *row = grid->rows ? node->items[chunk] : node;
        bool whole = row->kind == CS_YAML_SCALAR;
        if (row->kind == CS_YAML_MAP ||
            (grid->rows && whole &&
             (grid->all == 0 || cs_yaml_bool(row, grid->what, &word, NULL) != CS_OK)) ||
            (!whole && (row->n > s->pp || (row->n < s->pp && !grid->shorter)))) {
            return cs_err_set(err, CS_E_INPUT, row->loc, "'%s' must have a number for each of %d stages",
                              grid->what, (int)s->pp);
        }
        for (int32_t stage = 0; stage < s->pp; stage++) {
            int32_t *at = &grid->at[place_of(s, chunk, stage)];
            if (!whole && stage >= row->n) {
                *at = 0;
                continue;
            }
            CS_TRY(read_item(whole ? row : row->items[stage], grid, at, err));
        }
    }
out:
    return st;
}

static int64_t sum_of(const struct cs_yaml_node *node)
{
    int64_t sum = 0;
    for (int32_t i = 0; node->kind == CS_YAML_LIST && i < node->n; i++) {
        sum += sum_of(node->items[i]);
    }
    if (node->kind == CS_YAML_SCALAR && cs_yaml_int(node, INT32_MIN, INT32_MAX, "", &sum, NULL) != CS_OK) {
        return 0; /* refused when it was read */
    }
    return sum;
}

/** Put the layers on their places. The prediction modules are counted on the last stage by some files. */
static cs_status put_layers(struct cs_mf *mf, const struct cs_yaml_node *node, int32_t n_places,
                            const int32_t *at, struct cs_err *err)
{
    struct cs_strategy *s = &mf->out->strategy;
    for (int32_t i = 0; i < n_places; i++) {
        if (at[i] < 1 || at[i] > CS_PER_PLACE_MAX) {
            return cs_err_set(
                err, at[i] < 1 ? CS_E_INPUT : CS_E_LIMIT, node->loc,
                "a stage has %d layers (place %d of the pipeline), but uneven ones have from 1 to %d",
                (int)at[i], (int)i, CS_PER_PLACE_MAX);
        }
    }
    s->layers.n = (uint8_t)n_places;
    for (int32_t i = 0; i < n_places; i++) {
        s->layers.at[i] = (uint16_t)at[i];
    }
    return CS_OK;
}

static cs_status wrong_sum(const struct cs_mf *mf, const struct cs_yaml_node *node, int64_t sum,
                           struct cs_err *err)
{
    return cs_err_set(err, CS_E_INPUT, node->loc, "the stages' layers add up to %lld, not to the model's %d",
                      (long long)sum, (int)mf->n_layers);
}

static cs_status read_layers_per_stage(struct cs_mf *mf, const struct cs_yaml_node *node, int32_t n_places,
                                       struct cs_err *err)
{
    cs_status st;
    struct grid grid = {.what = "layers_per_stage"};
    int64_t sum = 0;
    CS_TRY(read_grid(mf, node, &grid, err));
    for (int32_t i = 0; i < n_places; i++) {
        sum += grid.at[i];
    }
    if (sum == mf->n_layers + mf->n_mtp_layers) {
        grid.at[n_places - 1] -= mf->n_mtp_layers;
        sum = mf->n_layers;
    }
    CS_TRY(sum != mf->n_layers ? wrong_sum(mf, node, sum, err)
                               : put_layers(mf, node, n_places, grid.at, err));
out:
    return st;
}

/** Layers from what `offset` adds to an even share, rounded down. MindFormers wants the numbers, as they are
 *  written, to add up to the remainder; what is not written for each place it then repeats, and deals layers
 *  until there are none (its LayerSetting). */
static cs_status read_offset(struct cs_mf *mf, const struct cs_yaml_node *node, int32_t n_places,
                             struct cs_err *err)
{
    cs_status st;
    struct grid grid = {.what = "offset", .min = -LAYERS_OFFSET_MAX};
    CS_TRY(read_grid(mf, node, &grid, err));
    int64_t even = mf->n_layers / n_places;
    int64_t sum = even * n_places + sum_of(node);
    int64_t left = sum;
    int32_t more = mf->n_layers + mf->n_mtp_layers == sum ? mf->n_mtp_layers : 0;
    if (sum != mf->n_layers + more) {
        if (cs_yaml_get(mf->model, "pipeline_num") == NULL) {
            return wrong_sum(mf, node, sum, err);
        }
        /* The balance tool takes any start. */
        cs__mf_warn(mf, "pipeline_config.offset", node, "%lld layers instead of %d: not taken",
                    (long long)sum, (int)mf->n_layers);
        return CS_OK;
    }
    for (int32_t i = 0; i < n_places; i++) {
        int64_t layers = even + grid.at[i] < left ? even + grid.at[i] : left;
        grid.at[i] = (int32_t)layers;
        left -= layers;
    }
    grid.at[n_places - 1] -= more;
    CS_TRY(left != 0 ? wrong_sum(mf, node, sum - left, err) : put_layers(mf, node, n_places, grid.at, err));
out:
    return st;
}

/** n_places: 0 when there are more than lists may have. */
static cs_status read_layers(struct cs_mf *mf, int32_t n_places, struct cs_err *err)
{
    const struct cs_strategy *s = &mf->out->strategy;
    const int64_t n = (int64_t)s->pp * s->vpp;
    const struct cs_yaml_node *layers = CS_MF_GET(mf, mf->model, "layers_per_stage");
    const struct cs_yaml_node *offset = CS_MF_GET(mf, mf->model, "offset");
    int64_t all = 0;
    cs_status st = CS_OK;
    if (layers != NULL && (!is_list(layers) || mf->n_layers == 0 || n_places == 0)) {
        return is_list(layers) ? CS_OK : cs_yaml_want(layers, CS_YAML_LIST, "layers_per_stage", err);
    }
    if (layers != NULL) {
        return read_layers_per_stage(mf, layers, n_places, err);
    }
    if (offset != NULL && offset->kind == CS_YAML_SCALAR) {
        CS_TRY(cs_yaml_int(offset, INT32_MIN, INT32_MAX, "offset", &all, err));
    }
    if (mf->n_layers > 0 && n_places > 0 && (is_list(offset) || all != 0)) {
        return read_offset(mf, offset, n_places, err);
    }
    if (offset != NULL && offset->kind == CS_YAML_MAP) {
        return cs_yaml_want(offset, CS_YAML_LIST, "offset", err);
    }
    if (s->pp > 1 && mf->n_layers % n != all && (mf->n_layers + mf->n_mtp_layers) % n != all) {
        const struct cs_yaml_node *at = offset != NULL ? offset : mf->model;
        return cs_err_set(err, CS_E_INPUT, at->loc,
                          "%d layers on %lld stages and chunks leave %lld, but 'offset' adds up to %lld",
                          (int)mf->n_layers, (long long)n, (long long)(mf->n_layers % n), (long long)all);
    }
out:
    return st;
}

/** Layers of a place; what an even deal gives when no list says it, rounded up. */
static int32_t layers_at(const struct cs_mf *mf, int32_t n_places, int32_t place)
{
    const struct cs_strategy *s = &mf->out->strategy;
    return s->layers.n > 0 ? s->layers.at[place] : (mf->n_layers + n_places - 1) / n_places;
}

/** A stage's number without chunks is dealt to its chunks in turn (MindFormers' LayerSetting). */
static void deal_to_chunks(const struct cs_mf *mf, int32_t n_places, int32_t *grid)
{
    const struct cs_strategy *s = &mf->out->strategy;
    for (int32_t stage = 0; stage < s->pp; stage++) {
        int32_t left = grid[place_of(s, 0, stage)];
        const bool all = left == ALL_LAYERS;
        for (int32_t chunk = 0; chunk < s->vpp; chunk++) {
            /* Of chunks whose layers are not known each has its share. */
            int32_t share = left / s->vpp + (chunk < left % s->vpp ? 1 : 0);
            grid[place_of(s, chunk, stage)] = all ? ALL_LAYERS : mf->n_layers > 0 ? 0 : share;
        }
        if (mf->n_layers == 0 || all) {
            continue;
        }
        bool dealt = true;
        while (left > 0 && dealt) {
            dealt = false;
            for (int32_t chunk = 0; chunk < s->vpp && left > 0; chunk++) {
                int32_t place = place_of(s, chunk, stage);
                if (grid[place] < layers_at(mf, n_places, place)) {
                    grid[place]++;
                    left--;
                    dealt = true;
                }
            }
        }
        /* More than the chunks have is seen where the counts are kept. */
        grid[place_of(s, 0, stage)] += left;
    }
}

/** Layers of each place that a list names, as many as there are where that is known. */
static cs_status read_counts(struct cs_mf *mf, const struct cs_yaml_node *node, const char *what,
                             int32_t n_places, int32_t *counts, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct grid grid = {.what = what, .all = ALL_LAYERS, .shorter = true};
    CS_TRY(read_grid(mf, node, &grid, err));
    if (!grid.rows && is_list(node)) {
        deal_to_chunks(mf, n_places, grid.at);
    }
    for (int32_t i = 0; i < n_places; i++) {
        int32_t layers = layers_at(mf, n_places, i);
        if (mf->n_layers > 0 && grid.at[i] > layers) {
            if (grid.at[i] != ALL_LAYERS) {
                cs__mf_warn(mf, cs_arena_printf(&mf->out->arena, "recompute_config.%s", what), node,
                            "%d layers of place %d, which has %d: these are, as MindFormers does",
                            (int)grid.at[i], (int)i, (int)layers);
            }
            grid.at[i] = layers;
        }
        counts[i] = grid.at[i];
    }
out:
    return st;
}

/** Under swap_config.swap a list names layers by their numbers in the model (MindFormers' LayerSetting):
 * those are set in `named`. A boolean is the number 0 or 1, as in Python. */
static cs_status read_numbers(struct cs_mf *mf, const struct cs_yaml_node *node, const char *what,
                              bool *named, struct cs_err *err)
{
    cs_status st = CS_OK;
    if (mf->n_layers == 0) {
        return cs_err_set(
            err, CS_E_INPUT, node->loc,
            "'%s' names layers by number, as it does with swap_config.swap, and the file does not "
            "give the model's layers",
            what);
    }
    for (int32_t i = 0; node->kind == CS_YAML_LIST && i < node->n; i++) {
        const struct cs_yaml_node *item = node->items[i];
        int64_t number = 0;
        bool on = false;
        CS_TRY(cs_yaml_want(item, CS_YAML_SCALAR, what, err));
        if (cs_yaml_bool(item, what, &on, NULL) == CS_OK) {
            number = on ? 1 : 0;
        } else {
            CS_TRY(cs_yaml_int(item, INT32_MIN, INT32_MAX, what, &number, err));
        }
        if (number < 0 || number >= mf->n_layers) {
            cs__mf_warn(mf, cs_arena_printf(&mf->out->arena, "recompute_config.%s", what), item,
                        "layer %lld is none of the model's %d: has no effect", (long long)number,
                        (int)mf->n_layers);
        } else {
            named[number] = true;
        }
    }
    for (int32_t i = 0; cs__mf_is_on(node) && node->kind == CS_YAML_SCALAR && i < mf->n_layers; i++) {
        named[i] = true;
    }
out:
    return st;
}

/** Layers by number, counted by place: which of a place's layers they are makes no difference here. Where
 * both name a layer, full recomputation wins; our second list counts the first's layers too. */
static cs_status read_named(struct cs_mf *mf, const struct cs_yaml_node *full,
                            const struct cs_yaml_node *selective, int32_t n_places, int32_t *counts,
                            int32_t *others, struct cs_err *err)
{
    cs_status st = CS_OK;
    bool *named[2];
    for (int32_t k = 0; k < 2; k++) {
        named[k] = CS_ARENA_NEW(&mf->out->arena, bool, mf->n_layers + 1);
    }
    if (full != NULL) {
        CS_TRY(read_numbers(mf, full, "recompute", named[0], err));
    }
    if (selective != NULL) {
        CS_TRY(read_numbers(mf, selective, "select_recompute", named[1], err));
    }
    int32_t layer = 0;
    for (int32_t i = 0; i < n_places; i++) {
        for (int32_t k = 0; k < layers_at(mf, n_places, i) && layer < mf->n_layers; k++, layer++) {
            counts[i] += named[0][layer];
            others[i] += named[0][layer] || named[1][layer];
        }
    }
out:
    return st;
}

/** Does a list name all layers of every place? */
static bool are_all(const struct cs_mf *mf, const int32_t *counts, int32_t n_places)
{
    bool all = true;
    for (int32_t i = 0; i < n_places; i++) {
        all &= counts[i] == (mf->n_layers > 0 ? layers_at(mf, n_places, i) : ALL_LAYERS);
    }
    return all;
}

/** Into the strategy. */
static cs_status keep_counts(const struct cs_yaml_node *node, const char *what, const int32_t *counts,
                             int32_t n_places, struct cs_per_place *list, struct cs_err *err)
{
    list->n = (uint8_t)n_places;
    for (int32_t i = 0; i < n_places; i++) {
        if (counts[i] == ALL_LAYERS) {
            return cs_err_set(
                err, CS_E_INPUT, node->loc,
                "'%s' is all layers of place %d of the pipeline, and the file does not give the "
                "model's layers: write their number",
                what, (int)i);
        }
        if (counts[i] > CS_PER_PLACE_MAX) {
            return cs_err_set(
                err, CS_E_LIMIT, node->loc,
                "'%s' is %d for place %d of the pipeline, but at most %d are counted unless all "
                "layers are recomputed",
                what, (int)counts[i], (int)i, CS_PER_PLACE_MAX);
        }
        list->at[i] = (uint16_t)counts[i];
    }
    return CS_OK;
}

/** Are these operators those that MindFormers recomputes by default? */
static bool are_usual(const struct cs_yaml_node *node)
{
    static const char *const usual[] = {"feed_forward\\.mul", "feed_forward\\.w1\\.activation\\.silu", NULL};
    bool all = true;
    for (int32_t i = 0; i < node->n; i++) {
        const struct cs_yaml_node *name = node->kind == CS_YAML_MAP ? node->keys[i] : node->items[i];
        all &= name->kind == CS_YAML_SCALAR && cs_text_index(name->text, usual) >= 0;
    }
    return all;
}

/** A list of names: every item is neither a number nor a boolean. */
static bool are_names(const struct cs_yaml_node *node)
{
    bool names = is_list(node) && node->n > 0;
    for (int32_t i = 0; names && i < node->n; i++) {
        int64_t number;
        bool word;
        const struct cs_yaml_node *item = node->items[i];
        names = item->kind == CS_YAML_SCALAR && item->text[0] != '\0' &&
                cs_yaml_int(item, INT64_MIN, INT64_MAX, "", &number, NULL) != CS_OK &&
                cs_yaml_bool(item, "", &word, NULL) != CS_OK;
    }
    return names;
}

/** Selective recomputation by operators, in all layers; else *node stays. */
static void read_operators(struct cs_mf *mf, const struct cs_yaml_node **node)
{
    const struct cs_yaml_node *given = *node;
    if (given == NULL || (given->kind != CS_YAML_MAP && !are_names(given))) {
        return;
    }
    *node = NULL;
    if (!cs__mf_is_on(given)) {
        return;
    }
    mf->out->strategy.recompute = CS_RECOMPUTE_SELECTIVE;
    if (given->kind == CS_YAML_MAP || !are_usual(given)) {
        cs__mf_warn(mf, "recompute_config.select_recompute", given,
                    "operators by name are not modelled: the default ones are recomputed in all layers");
    }
}

/** Recomputation by stage: at least one of both is a list. */
static cs_status read_lists(struct cs_mf *mf, const struct cs_yaml_node *full,
                            const struct cs_yaml_node *selective, int32_t n_places, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    int32_t counts[CS_PLACES_MAX] = {0};
    int32_t others[CS_PLACES_MAX] = {0};
    if (s->swap_activations) {
        CS_TRY(read_named(mf, full, selective, n_places, counts, others, err));
    } else if (full != NULL) {
        CS_TRY(read_counts(mf, full, "recompute", n_places, counts, err));
    }
    if (selective != NULL && !s->swap_activations) {
        CS_TRY(read_counts(mf, selective, "select_recompute", n_places, others, err));
    }
    for (int32_t i = 0; selective == NULL && s->recompute == CS_RECOMPUTE_SELECTIVE && i < n_places; i++) {
        others[i] = mf->n_layers > 0 ? layers_at(mf, n_places, i) : ALL_LAYERS;
    }
    if (are_all(mf, counts, n_places)) {
        s->recompute = CS_RECOMPUTE_FULL;
        return CS_OK;
    }
    const struct cs_yaml_node *at = full != NULL ? full : selective;
    CS_TRY(keep_counts(at, "recompute", counts, n_places, &s->full_layers, err));
    at = selective != NULL ? selective : at;
    CS_TRY(keep_counts(at, "select_recompute", others, n_places, &s->selective_layers, err));
out:
    return st;
}

/** Where both are asked for, recomputation wins: of layers that all run again none is swapped. */
static void drop_swap(struct cs_mf *mf)
{
    struct cs_strategy *s = &mf->out->strategy;
    if (s->swap_activations && s->recompute == CS_RECOMPUTE_FULL) {
        s->swap_activations = false;
        cs__mf_warn(mf, "swap_config.swap", CS_MF_GET(mf, mf->swap, "swap"),
                    "has no effect: all layers are recomputed, and what is recomputed is not swapped");
    }
}

static cs_status read_recompute(struct cs_mf *mf, int32_t n_places, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *full = CS_MF_GET(mf, mf->recompute, "recompute");
    const struct cs_yaml_node *selective = CS_MF_GET(mf, mf->recompute, "select_recompute");
    read_operators(mf, &selective);
    if (is_list(full) || is_list(selective)) {
        return read_lists(mf, full, selective, n_places, err);
    }
    bool on = false;
    CS_TRY(cs__mf_bool(selective, "select_recompute", &on, err));
    s->recompute = on ? CS_RECOMPUTE_SELECTIVE : s->recompute;
    on = false;
    CS_TRY(cs__mf_bool(full, "recompute", &on, err));
    s->recompute = on ? CS_RECOMPUTE_FULL : s->recompute;
out:
    return st;
}

/** Input of MindFormers' pipeline balance tool: a pipeline with its offsets, and recomputation. */
static cs_status read_balance(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *config = CS_MF_GET(mf, mf->root, "pipeline_config");
    const struct cs_yaml_node *stages = CS_MF_GET(mf, config, "pipeline_num");
    const struct cs_yaml_node *offset = CS_MF_GET(mf, config, "offset");
    int64_t value = 1;
    if (stages == NULL || mf->model != NULL) {
        return CS_OK;
    }
    if (offset != NULL) {
        CS_TRY(cs_yaml_want(offset, CS_YAML_LIST, "offset", err));
    }
    CS_TRY(cs__mf_int(stages, 1, CS_PLACES_MAX, "pipeline_num", &value, err));
    s->pp = (int32_t)value;
    mf->out->n_devices = s->pp;
    if (offset != NULL && offset->kind == CS_YAML_LIST && offset->n > 0 && offset->n <= CS_PLACES_MAX &&
        offset->items[0]->kind == CS_YAML_LIST) {
        s->vpp = offset->n;
        s->schedule = s->vpp > 1 ? CS_SCHED_INTERLEAVED : s->schedule;
    }
    value = 0;
    CS_TRY(cs__mf_int(CS_MF_GET(mf, config, "num_layer"), 1, 16384, "num_layer", &value, err));
    mf->n_layers = (int32_t)value;
    mf->model = config; /* where offset is */
out:
    return st;
}

cs_status cs__mf_stages(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st;
    struct cs_strategy *s = &mf->out->strategy;
    CS_TRY(read_balance(mf, err));
    const int64_t n_places = (int64_t)s->pp * s->vpp;
    bool lists = cs__mf_is_on(CS_MF_GET(mf, mf->model, "offset")) ||
                 is_list(CS_MF_GET(mf, mf->model, "layers_per_stage")) ||
                 is_list(CS_MF_GET(mf, mf->recompute, "recompute")) ||
                 is_list(CS_MF_GET(mf, mf->recompute, "select_recompute"));
    if (lists && n_places > CS_PLACES_MAX) {
        st = cs_err_set(err, CS_E_LIMIT, mf->root->loc,
                        "lists for %lld places (stages times chunks) are more than the %d that are modelled",
                        (long long)n_places, CS_PLACES_MAX);
        goto out;
    }
    int32_t n = (int32_t)(n_places <= CS_PLACES_MAX ? n_places : 0);
    CS_TRY(read_layers(mf, n, err));
    CS_TRY(read_recompute(mf, n, err));
    drop_swap(mf);
out:
    return st;
}
