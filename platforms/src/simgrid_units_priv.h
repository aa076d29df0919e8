/* Numbers with units as SimGrid 3.32 writes them in XML. */
#ifndef CS_PLATFORMS_SIMGRID_UNITS_PRIV_H
#define CS_PLATFORMS_SIMGRID_UNITS_PRIV_H

#include "cs/base/err.h"

enum cs_simgrid_unit { CS__SIMGRID_SPEED, CS__SIMGRID_BANDWIDTH, CS__SIMGRID_LATENCY };

/* Parse "28GBps", "353.9Tf", "0.5us" into the base unit. Stricter than SimGrid: no spaces, hexadecimal,
 * infinity or signs; speed and bandwidth above zero; a number without a unit only when it is 0. `what` names
 * it in the message. CS_E_INPUT at `loc`. */
CS_MUST_CHECK cs_status cs__simgrid_parse(const char *text, enum cs_simgrid_unit unit, const char *what,
                                          struct cs_loc loc, double *value, struct cs_err *err);

#endif
