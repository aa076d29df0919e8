/* Tables of figures: shared by chip.c (what a chip has) and catalogue.c (how it is read). */
#ifndef CS_PLATFORMS_CATALOGUE_PRIV_H
#define CS_PLATFORMS_CATALOGUE_PRIV_H

#include "cs/base/units.h"
#include "cs/base/yaml.h"
#include "cs/platforms/chip.h"
#include "cs/platforms/network.h"

#include <stdbool.h>
#include <stddef.h>

/* One figure: `key` is its place in the file ("peak.bf16" is `bf16` in the map `peak`), `offset` the place of
 * its double in the record. A required figure must have a number; the others may be null with a source. */
struct cs_figure {
    const char *key;
    enum cs_unit unit;
    size_t offset;
    bool required;
    double min, max; /* in the base unit */
};

#define CS__N_CHIP_FIGURES 41
extern const struct cs_figure cs__chip_figures[CS__N_CHIP_FIGURES];

/* Of a server, in the order of cs_server_figure_key; the last is of servers with a bus alone. */
#define CS__N_SERVER_FIGURES 6

/* Read a server's entry. `sources` has CS__N_SERVER_FIGURES places, NULL for what the server has not. */
CS_MUST_CHECK cs_status cs__server_read(struct cs_server *server, const char **sources,
                                        struct cs_loc *chip_loc, const struct cs_yaml_node *key,
                                        const struct cs_yaml_node *entry, struct cs_err *err);

/* "{value: VALUE, source: SOURCE}" and the end of the line; NaN is null. */
void cs__figure_write(double value, enum cs_unit unit, const char *source, FILE *stream);
/* A text as a double-quoted YAML scalar. */
void cs__quoted_write(const char *text, FILE *stream);

/* Refuse keys that no figure of the table (nor `extra`, NULL-terminated) has. */
CS_MUST_CHECK cs_status cs__catalogue_keys(const struct cs_yaml_node *entry, const char *what,
                                           const char *const *extra, const struct cs_figure *figures,
                                           int32_t n_figures, struct cs_err *err);
/* Read every figure of the table into `record`; all keys must be there. */
CS_MUST_CHECK cs_status cs__catalogue_read(const struct cs_yaml_node *entry, const struct cs_figure *figures,
                                           int32_t n_figures, void *record, const char **sources,
                                           struct cs_err *err);

/* NICs and switches of a catalogue; texts live in its documents. Zero-initialise. */
struct cs__network {
    int32_t n_nics, cap_nics;
    struct cs_nic *nics;
    int32_t n_switches, cap_switches;
    struct cs_switch *switches;
};
/* Add what the document's maps `nics` and `switches` say. */
CS_MUST_CHECK cs_status cs__network_read(struct cs__network *network, const struct cs_yaml_node *root,
                                         struct cs_err *err);
void cs__network_release(struct cs__network *network);

#endif
