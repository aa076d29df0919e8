/* Measured collectives as the fit sees them. */
#ifndef CS_STRATEGIES_COLLECTIVES_PRIV_H
#define CS_STRATEGIES_COLLECTIVES_PRIV_H

#include "cs/strategies/collectives.h"

/** One measured collective, and what the closed form says with the catalogue's figures. */
struct cs__link_row {
    const struct cs_server *server; /* NULL = the row is of no use */
    enum cs_link_place place;
    const char *group;  /* its source and the kind of collective */
    const char *decade; /* of its size */
    double measured_s;
    double fixed_s; /* the collective's own cost, and what is not fitted */
    double latency_s[CS_N_LINK_PLACES];
    double transfer_s[CS_N_LINK_PLACES];
};

/** Do these two servers have the same links at that place? */
bool cs__links_alike(const char *server, const char *other, enum cs_link_place place);
/** What no link of these is faster than, infinity where that is not known. */
double cs__links_port_bytes_per_s(const char *server, enum cs_link_place place);
/** Fit what `rows` say of the links of `server` and those like it. */
CS_MUST_CHECK cs_status cs__links_fit(struct cs_link_fit *out, const struct cs__link_row *rows,
                                      int32_t n_rows, const struct cs_server *server,
                                      enum cs_link_place place, struct cs_err *err);

#endif
