/* What `calibrate -o DIR` writes: chips, servers and software with their fitted figures. */
#include "validate_priv.h"

#include "cs/base/file.h"

#include <string.h>

/** Files that appear all or, when one cannot be written, not at all. */
struct files {
    int32_t n;
    int32_t n_max;
    struct cs_outfile *items;
};

static cs_status open_next(struct files *files, const char *dir, const char *name, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    CS_ASSERT(files->n < files->n_max);
    CS_TRY(cs_outfile_open(&files->items[files->n], cs_path_join(&arena, dir, name), err));
    files->n++;
out:
    cs_arena_release(&arena);
    return st;
}

static bool fitted(const struct cs_calibration *calibration, const char *owner, const char *key)
{
    for (int32_t i = 0; calibration && i < calibration->n_figures; i++) {
        const struct cs_fit_figure *f = &calibration->figures[i];
        if (strcmp(f->owner, owner) == 0 && strcmp(f->key, key) == 0) {
            return true;
        }
    }
    return false;
}

static const char *fitted_on(struct cs_arena *arena, const char *path)
{
    const char *name = strrchr(path, '/');
    return cs_arena_printf(arena, "fitted on %s by clustersim calibrate", name ? name + 1 : path);
}

/* Where each figure of a chip is from: the catalogue's text, or the fit of its generation. */
static cs_status write_chip(struct files *files, const struct cs__calibrated *what,
                            const struct cs_chip *chip, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    const struct cs_chip *before = cs_catalogue_chip(what->catalogue, chip->name);
    const char **sources = CS_ARENA_NEW(&arena, const char *, cs_chip_n_figures());
    for (int32_t f = 0; f < cs_chip_n_figures(); f++) {
        const char *key = cs_chip_figure_key(f);
        double a = cs_chip_figure(before, f);
        double b = cs_chip_figure(chip, f);
        bool changed = a < b || a > b || fitted(what->calibration, chip->name, key);
        sources[f] = changed ? fitted_on(&arena, what->measured_chips)
                             : cs_catalogue_source(what->catalogue, chip->name, key);
    }
    CS_TRY(open_next(files, what->dir, cs_arena_printf(&arena, "chip-%s.yaml", chip->name), err));
    cs_chip_write(chip, sources, files->items[files->n - 1].stream);
out:
    cs_arena_release(&arena);
    return st;
}

static cs_status write_server(struct files *files, const struct cs__calibrated *what,
                              const struct cs_server *server, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    const char **sources = CS_ARENA_NEW(&arena, const char *, cs_server_n_figures());
    for (int32_t f = 0; f < cs_server_n_figures(); f++) {
        const char *key = cs_server_figure_key(f);
        sources[f] = cs_collectives_set(what->links, server->name, key)
                         ? fitted_on(&arena, what->measured_links)
                         : cs_catalogue_server_source(what->catalogue, server->name, key);
    }
    CS_TRY(open_next(files, what->dir, cs_arena_printf(&arena, "server-%s.yaml", server->name), err));
    cs_server_write(server, sources, files->items[files->n - 1].stream);
out:
    cs_arena_release(&arena);
    return st;
}

/* The source of every software figure that was fitted. */
static void cite(const struct cs__calibrated *what)
{
    for (int32_t s = 0; s < what->softwares->n; s++) {
        struct cs_software *software = &what->softwares->items[s];
        for (int32_t f = 0; f < CS_N_SOFTWARE_FIGURES; f++) {
            if (fitted(what->calibration, software->name, cs_software_figure_keys[f])) {
                software->figure_source[f] = fitted_on(&what->softwares->arena, what->measured_chips);
            }
        }
    }
}

cs_status cs__calibrated_check(const char *dir, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_arena arena = {0};
    const char *probe = cs_path_join(&arena, dir, "software.yaml");
    if (!cs_file_is_dir(dir)) {
        st = cs_err_set(err, CS_E_INPUT, (struct cs_loc){dir, 0, 0},
                        "is no folder: the fitted catalogue files go into one that exists");
        goto out;
    }
    CS_TRY(cs__check_outputs(&probe, 1, err));
out:
    cs_arena_release(&arena);
    return st;
}

cs_status cs__calibrated_write(const struct cs__calibrated *what, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct files files = {.n_max = what->bed->n_chips + what->bed->n_servers + 1};
    files.items = cs_calloc((size_t)files.n_max, sizeof *files.items);
    for (int32_t i = 0; what->calibration && i < what->bed->n_chips; i++) {
        CS_TRY(write_chip(&files, what, &what->bed->chips[i], err));
    }
    for (int32_t i = 0; what->links && i < what->bed->n_servers; i++) {
        CS_TRY(write_server(&files, what, &what->bed->servers[i], err));
    }
    if (what->softwares) {
        cite(what);
        CS_TRY(open_next(&files, what->dir, "software.yaml", err));
        cs_softwares_write(what->softwares, files.items[files.n - 1].stream);
    }
    for (int32_t i = 0; i < files.n; i++) {
        CS_TRY(cs_outfile_commit(&files.items[i], err));
    }
out:
    for (int32_t i = 0; i < files.n; i++) {
        cs_outfile_release(&files.items[i]);
    }
    cs_free(files.items);
    return st;
}
