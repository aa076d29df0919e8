/* Tables of figures: shared by chip.c (what a chip has) and catalogue.c (how it is read). */
#ifndef CS_PLATFORMS_CATALOGUE_PRIV_H
#define CS_PLATFORMS_CATALOGUE_PRIV_H

#include "cs/base/units.h"

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

#endif
