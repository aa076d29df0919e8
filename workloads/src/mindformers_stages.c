/* MindFormers configurations: layers of each stage, and recomputation by stage. */
#include "mindformers_priv.h"

#include "cs/base/text.h"

/** Place of [chunk][stage] in the order in which a micro-batch passes: the second half of a V runs back. */
static int32_t place_of(const struct cs_strategy *s, int32_t chunk, int32_t stage)
{
    bool turned = s->schedule == CS_SCHED_ZERO_BUBBLE_V && chunk == 1;
    return chunk * s->pp + (turned ? s->pp - 1 - stage : stage);
}

/** A number for every place: a scalar for all, a list [stage] (of the first chunk; the others get `rest`), or
 *  [chunk][stage]. Booleans are 0 and `all`. */
static cs_status read_grid(const struct cs_mf *mf, const struct cs_yaml_node *node, const char *what,
                           int64_t all, int64_t min, int32_t *grid, bool *two_d, struct cs_err *err)
{
    static const char *const yes[] = {"True", "true", "TRUE", NULL};
    static const char *const no[] = {"False", "false", "FALSE", NULL};
    const struct cs_strategy *s = &mf->out->strategy;
    cs_status st = CS_OK;
    const bool list = node->kind == CS_YAML_LIST;
    *two_d = list && node->n > 0 && node->items[0]->kind == CS_YAML_LIST;
    const int32_t chunks = *two_d ? node->n : 1;
    if (node->kind == CS_YAML_MAP || (*two_d && chunks != s->vpp)) {
        return cs_err_set(err, CS_E_INPUT, node->loc, "'%s' must be a list for each of %d chunks", what,
                          (int)s->vpp);
    }
    for (int32_t chunk = 0; chunk < s->vpp; chunk++) {
        const struct cs_yaml_node *row = *two_d ? node->items[chunk] : node;
        if (row->kind == CS_YAML_MAP || (row->kind == CS_YAML_LIST && row->n != s->pp && row->n != s->vpp)) {
            return cs_err_set(err, CS_E_INPUT, row->loc, "'%s' must have a number for each of %d stages",
                              what, (int)s->pp);
        }
        for (int32_t stage = 0; stage < s->pp; stage++) {
            /* A list of booleans may have one for each chunk. */
            bool by_stage = row->kind == CS_YAML_LIST && row->n == s->pp;
            const struct cs_yaml_node *item =
                row->kind == CS_YAML_SCALAR ? row : row->items[by_stage ? stage : chunk];
            int64_t value = 0;
            CS_TRY(cs_yaml_want(item, CS_YAML_SCALAR, what, err));
            if (cs_text_index(item->text, yes) >= 0) {
                value = all;
            } else if (cs_text_index(item->text, no) < 0) {
                CS_TRY(cs_yaml_int(item, min, UINT8_MAX, what, &value, err));
            }
            grid[place_of(s, chunk, stage)] = (int32_t)value;
        }
    }
out:
    return st;
}

/** Layers from `layers_per_stage`, or from what `offset` adds to an even share. */
static cs_status read_layers(struct cs_mf *mf, int32_t n_places, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *layers = CS_MF_GET(mf->model, "layers_per_stage");
    const struct cs_yaml_node *offset = CS_MF_GET(mf->model, "offset");
    const struct cs_yaml_node *node = layers != NULL ? layers : offset;
    int32_t grid[CS_PLACES_MAX] = {0};
    bool two_d;
    if (node == NULL || node->kind == CS_YAML_SCALAR || mf->n_layers == 0) {
        return CS_OK;
    }
    CS_TRY(read_grid(mf, node, layers != NULL ? "layers_per_stage" : "offset", 0, -(int64_t)UINT8_MAX, grid,
                     &two_d, err));
    int64_t sum = 0;
    for (int32_t i = 0; i < n_places; i++) {
        grid[i] += layers != NULL ? 0 : mf->n_layers / n_places;
        sum += grid[i];
    }
    if (sum == mf->n_layers + mf->n_mtp_layers) {
        grid[n_places - 1] -= mf->n_mtp_layers; /* the prediction modules are counted on the last stage */
        sum -= mf->n_mtp_layers;
    }
    if (sum != mf->n_layers && CS_MF_GET(mf->model, "pipeline_num") != NULL) {
        /* The balance tool takes any start. */
        cs__mf_warn(mf, "pipeline_config.offset", node, "%lld layers instead of %d: not taken",
                    (long long)sum, (int)mf->n_layers);
        return CS_OK;
    }
    if (sum != mf->n_layers) {
        st =
            cs_err_set(err, CS_E_INPUT, node->loc, "the stages' layers add up to %lld, not to the model's %d",
                       (long long)sum, (int)mf->n_layers);
        goto out;
    }
    s->layers.n = (uint8_t)n_places;
    for (int32_t i = 0; i < n_places; i++) {
        if (grid[i] < 1 || grid[i] > UINT8_MAX) {
            st = cs_err_set(err, CS_E_INPUT, node->loc, "a stage has %d layers", (int)grid[i]);
            goto out;
        }
        s->layers.at[i] = (uint8_t)grid[i];
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

/** A stage's number without chunks is dealt to its chunks, the first one first. */
static void deal_to_chunks(const struct cs_mf *mf, int32_t n_places, int32_t *grid)
{
    const struct cs_strategy *s = &mf->out->strategy;
    for (int32_t stage = 0; stage < s->pp; stage++) {
        int32_t left = grid[place_of(s, 0, stage)];
        for (int32_t chunk = 0; chunk < s->vpp; chunk++) {
            int32_t place = place_of(s, chunk, stage);
            int32_t most = mf->n_layers > 0 ? layers_at(mf, n_places, place) : left;
            grid[place] = left < most ? left : most;
            left -= grid[place];
        }
    }
}

static cs_status read_counts(struct cs_mf *mf, const struct cs_yaml_node *node, const char *what,
                             int32_t n_places, struct cs_per_place *list, struct cs_err *err)
{
    cs_status st = CS_OK;
    int32_t grid[CS_PLACES_MAX] = {0};
    bool two_d = false;
    CS_TRY(read_grid(mf, node, what, UINT8_MAX, 0, grid, &two_d, err));
    if (!two_d && node->kind == CS_YAML_LIST && node->n == mf->out->strategy.pp) {
        deal_to_chunks(mf, n_places, grid);
    }
    list->n = (uint8_t)n_places;
    for (int32_t i = 0; i < n_places; i++) {
        list->at[i] = (uint8_t)grid[i];
    }
out:
    return st;
}

static bool is_list(const struct cs_yaml_node *node)
{
    return node != NULL && node->kind == CS_YAML_LIST;
}

static cs_status read_recompute(struct cs_mf *mf, int32_t n_places, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *full = CS_MF_GET(mf->recompute, "recompute");
    const struct cs_yaml_node *selective = CS_MF_GET(mf->recompute, "select_recompute");
    if (selective != NULL && selective->kind == CS_YAML_MAP) {
        cs__mf_warn(mf, "recompute_config.select_recompute", selective,
                    "operators by name are not modelled: the default ones are recomputed in all layers");
        s->recompute = CS_RECOMPUTE_SELECTIVE;
        selective = NULL;
    }
    if (!is_list(full) && !is_list(selective)) {
        bool on = false;
        CS_TRY(cs__mf_bool(selective, "select_recompute", &on, err));
        s->recompute = on ? CS_RECOMPUTE_SELECTIVE : s->recompute;
        on = false;
        CS_TRY(cs__mf_bool(full, "recompute", &on, err));
        s->recompute = on ? CS_RECOMPUTE_FULL : s->recompute;
        return CS_OK;
    }
    s->full_layers.n = s->selective_layers.n = (uint8_t)n_places;
    if (full != NULL) {
        CS_TRY(read_counts(mf, full, "recompute", n_places, &s->full_layers, err));
    }
    if (selective != NULL) {
        CS_TRY(read_counts(mf, selective, "select_recompute", n_places, &s->selective_layers, err));
    } else if (s->recompute == CS_RECOMPUTE_SELECTIVE) {
        for (int32_t i = 0; i < n_places; i++) {
            s->selective_layers.at[i] = UINT8_MAX;
        }
    }
out:
    return st;
}

/** Input of MindFormers' pipeline balance tool: a pipeline with its offsets, and recomputation. */
static cs_status read_balance(struct cs_mf *mf, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_strategy *s = &mf->out->strategy;
    const struct cs_yaml_node *config = CS_MF_GET(mf->root, "pipeline_config");
    const struct cs_yaml_node *stages = CS_MF_GET(config, "pipeline_num");
    const struct cs_yaml_node *offset = CS_MF_GET(config, "offset");
    int64_t value = 1;
    if (stages == NULL || mf->model != NULL) {
        return CS_OK;
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
    CS_TRY(cs__mf_int(CS_MF_GET(config, "num_layer"), 1, 16384, "num_layer", &value, err));
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
    bool lists = is_list(CS_MF_GET(mf->model, "offset")) ||
                 is_list(CS_MF_GET(mf->model, "layers_per_stage")) ||
                 is_list(CS_MF_GET(mf->recompute, "recompute")) ||
                 is_list(CS_MF_GET(mf->recompute, "select_recompute"));
    if (lists && n_places > CS_PLACES_MAX) {
        st = cs_err_set(err, CS_E_LIMIT, mf->root->loc,
                        "lists for %lld places (stages times chunks) are more than the %d that are modelled",
                        (long long)n_places, CS_PLACES_MAX);
        goto out;
    }
    int32_t n = (int32_t)(n_places <= CS_PLACES_MAX ? n_places : 0);
    CS_TRY(read_layers(mf, n, err));
    CS_TRY(read_recompute(mf, n, err));
out:
    return st;
}
