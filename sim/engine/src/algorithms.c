#include "algorithms_priv.h"

static void emit(const struct cs__flow_sink *sink, int32_t src, int32_t dst, double bytes)
{
    if (src != dst && bytes > 0) {
        sink->flow(sink->context, src, dst, bytes);
    }
}

static bool is_power_of_two(int32_t g)
{
    return g > 0 && (g & (g - 1)) == 0;
}

static int32_t log2_floor(int32_t g)
{
    int32_t k = 0;
    while ((2 << k) <= g) {
        k++;
    }
    return k;
}

static int32_t log2_ceil(int32_t g)
{
    int32_t k = log2_floor(g);
    return (1 << k) == g ? k : k + 1;
}

static const char *accepts_all(enum cs_coll coll, int32_t g)
{
    (void)coll;
    (void)g;
    return NULL;
}

/* ---- ring: every member sends to the next. All-reduce is reduce-scatter followed by all-gather along the
 * same flows. Broadcast is a chain through which the message passes in chunks. ---- */

static int32_t chain_chunks(int32_t g)
{
    return 4 * (g - 1);
}

static int32_t ring_n_phases(enum cs_coll coll, int32_t g)
{
    /* chain: g-2 rounds fill it, one run of rounds with all hops busy, g-2 rounds drain it */
    return coll == CS_COLL_BROADCAST ? 2 * (g - 2) + 1 : 1;
}

static int32_t chain_phase(int32_t g, int32_t phase, double bytes, const struct cs__flow_sink *sink)
{
    int32_t chunks = chain_chunks(g);
    int32_t first = 0;
    int32_t last = g - 2; /* hop h goes from member h to h + 1 */
    int32_t rounds = 1;
    if (phase < g - 2) {
        last = phase;
    } else if (phase == g - 2) {
        rounds = chunks - (g - 2);
    } else {
        first = phase - (g - 2);
    }
    for (int32_t h = first; h <= last; h++) {
        emit(sink, h, h + 1, bytes / chunks);
    }
    return rounds;
}

static int32_t ring_phase(enum cs_coll coll, int32_t g, int32_t phase, double bytes,
                          const struct cs__flow_sink *sink)
{
    if (coll == CS_COLL_BROADCAST) {
        return chain_phase(g, phase, bytes, sink);
    }
    /* all-to-all along a ring: a block for the member k places on travels k hops, so a hop carries
     * (g-1) g/2 blocks of bytes/g in g-1 rounds */
    double round_bytes = coll == CS_COLL_ALL_TO_ALL ? bytes / 2 : bytes / g;
    for (int32_t r = 0; r < g; r++) {
        emit(sink, r, (r + 1) % g, round_bytes);
    }
    return coll == CS_COLL_ALL_REDUCE ? 2 * (g - 1) : g - 1;
}

/* ---- full mesh: everybody sends to everybody at once ---- */

static int32_t mesh_n_phases(enum cs_coll coll, int32_t g)
{
    (void)g;
    return coll == CS_COLL_BROADCAST ? 2 : 1;
}

static int32_t mesh_phase(enum cs_coll coll, int32_t g, int32_t phase, double bytes,
                          const struct cs__flow_sink *sink)
{
    if (coll == CS_COLL_BROADCAST && phase == 0) { /* scatter, then all-gather */
        for (int32_t r = 1; r < g; r++) {
            emit(sink, 0, r, bytes / g);
        }
        return 1;
    }
    for (int32_t src = 0; src < g; src++) {
        for (int32_t dst = 0; dst < g; dst++) {
            if (coll != CS_COLL_BROADCAST || dst != 0) {
                emit(sink, src, dst, bytes / g);
            }
        }
    }
    return coll == CS_COLL_ALL_REDUCE ? 2 : 1;
}

/* ---- recursive halving and doubling ---- */

static const char *halving_refuses(enum cs_coll coll, int32_t g)
{
    if (coll == CS_COLL_ALL_TO_ALL) {
        return "halving-doubling does no all-to-all";
    }
    if (!is_power_of_two(g) && coll != CS_COLL_ALL_REDUCE) {
        return "halving-doubling needs a power of two members for this collective";
    }
    return NULL;
}

static int32_t halving_n_phases(enum cs_coll coll, int32_t g)
{
    int32_t steps = log2_floor(g);
    switch (coll) {
    case CS_COLL_ALL_REDUCE:
        return 2 * steps + (is_power_of_two(g) ? 0 : 2);
    case CS_COLL_BROADCAST:
        return 2 * steps; /* binomial scatter, recursive doubling (van de Geijn) */
    case CS_COLL_ALL_GATHER:
    case CS_COLL_REDUCE_SCATTER:
    case CS_COLL_ALL_TO_ALL:
    case CS_N_COLLS:
        break;
    }
    return steps;
}

/* One exchange with the partner at `distance` among the first g members. */
static void exchange(int32_t g, int32_t distance, double bytes, const struct cs__flow_sink *sink)
{
    for (int32_t r = 0; r < g; r++) {
        emit(sink, r, r ^ distance, bytes);
    }
}

static int32_t halving_phase(enum cs_coll coll, int32_t g, int32_t phase, double bytes,
                             const struct cs__flow_sink *sink)
{
    int32_t steps = log2_floor(g);
    int32_t core = 1 << steps;
    if (coll == CS_COLL_ALL_REDUCE && core != g) {
        /* members beyond the power of two hand their data to a partner and get the result back */
        bool before = phase == 0;
        if (before || phase == 2 * steps + 1) {
            for (int32_t r = core; r < g; r++) {
                emit(sink, before ? r : r - core, before ? r - core : r, bytes);
            }
            return 1;
        }
        phase--;
    }
    bool halving = coll == CS_COLL_REDUCE_SCATTER || (coll == CS_COLL_ALL_REDUCE && phase < steps);
    if (coll == CS_COLL_BROADCAST && phase < steps) {
        int32_t distance = core >> (phase + 1);
        for (int32_t r = 0; r < core; r += 2 * distance) {
            emit(sink, r, r + distance, bytes * distance / core);
        }
        return 1;
    }
    int32_t step = coll == CS_COLL_ALL_REDUCE || coll == CS_COLL_BROADCAST ? phase % steps : phase;
    int32_t distance = halving ? core >> (step + 1) : 1 << step;
    exchange(core, distance, bytes * distance / core, sink);
    return 1;
}

/* ---- binomial tree ---- */

static const char *tree_refuses(enum cs_coll coll, int32_t g)
{
    (void)g;
    return coll == CS_COLL_ALL_REDUCE || coll == CS_COLL_BROADCAST
               ? NULL
               : "a tree does all-reduce and broadcast only";
}

static int32_t tree_n_phases(enum cs_coll coll, int32_t g)
{
    return (coll == CS_COLL_ALL_REDUCE ? 2 : 1) * log2_ceil(g);
}

static int32_t tree_phase(enum cs_coll coll, int32_t g, int32_t phase, double bytes,
                          const struct cs__flow_sink *sink)
{
    int32_t steps = log2_ceil(g);
    bool reduce = coll == CS_COLL_ALL_REDUCE && phase < steps;
    int32_t step = coll == CS_COLL_ALL_REDUCE && !reduce ? phase - steps : phase;
    int32_t distance = reduce ? 1 << step : 1 << (steps - 1 - step);
    for (int32_t r = 0; r + distance < g; r += 2 * distance) {
        emit(sink, reduce ? r + distance : r, reduce ? r : r + distance, bytes);
    }
    return 1;
}

/* ---- pairwise exchange: in round i to the member i places on ---- */

static const char *pairwise_refuses(enum cs_coll coll, int32_t g)
{
    (void)g;
    return coll == CS_COLL_BROADCAST ? "pairwise exchange does no broadcast" : NULL;
}

static int32_t pairwise_n_phases(enum cs_coll coll, int32_t g)
{
    return (coll == CS_COLL_ALL_REDUCE ? 2 : 1) * (g - 1);
}

static int32_t pairwise_phase(enum cs_coll coll, int32_t g, int32_t phase, double bytes,
                              const struct cs__flow_sink *sink)
{
    (void)coll;
    int32_t shift = phase % (g - 1) + 1;
    for (int32_t r = 0; r < g; r++) {
        emit(sink, r, (r + shift) % g, bytes / g);
    }
    return 1;
}

/* ---- Bruck: distances 1, 2, 4, ... with growing (all-gather) or packed (all-to-all) blocks ---- */

static const char *bruck_refuses(enum cs_coll coll, int32_t g)
{
    (void)g;
    return coll == CS_COLL_ALL_GATHER || coll == CS_COLL_ALL_TO_ALL
               ? NULL
               : "Bruck does all-gather and all-to-all only";
}

static int32_t bruck_n_phases(enum cs_coll coll, int32_t g)
{
    (void)coll;
    return log2_ceil(g);
}

static int32_t bruck_phase(enum cs_coll coll, int32_t g, int32_t phase, double bytes,
                           const struct cs__flow_sink *sink)
{
    int32_t distance = 1 << phase;
    int32_t blocks = distance < g - distance ? distance : g - distance;
    if (coll == CS_COLL_ALL_TO_ALL) {
        blocks = 0;
        for (int32_t i = 0; i < g; i++) {
            blocks += (i >> phase) & 1;
        }
    }
    for (int32_t r = 0; r < g; r++) {
        emit(sink, r, (r + distance) % g, bytes * blocks / g);
    }
    return 1;
}

const struct cs__flat *cs__flat_algorithm(enum cs_algorithm algorithm)
{
    static const struct cs__flat ring = {accepts_all, ring_n_phases, ring_phase};
    static const struct cs__flat mesh = {accepts_all, mesh_n_phases, mesh_phase};
    static const struct cs__flat halving = {halving_refuses, halving_n_phases, halving_phase};
    static const struct cs__flat tree = {tree_refuses, tree_n_phases, tree_phase};
    static const struct cs__flat pairwise = {pairwise_refuses, pairwise_n_phases, pairwise_phase};
    static const struct cs__flat bruck = {bruck_refuses, bruck_n_phases, bruck_phase};
    switch (algorithm) {
    case CS_ALGO_RING:
        return &ring;
    case CS_ALGO_MESH:
        return &mesh;
    case CS_ALGO_HALVING_DOUBLING:
        return &halving;
    case CS_ALGO_TREE:
        return &tree;
    case CS_ALGO_PAIRWISE:
        return &pairwise;
    case CS_ALGO_BRUCK:
        return &bruck;
    case CS_ALGO_AUTO:
    case CS_ALGO_HIERARCHICAL:
    case CS_ALGO_HIERARCHICAL_HD:
    case CS_ALGO_RINGS:
    case CS_N_ALGOS:
        break;
    }
    return NULL;
}
