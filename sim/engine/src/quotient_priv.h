/**
 * @file quotient_priv.h
 * The quotient platform: one SimGrid link a link class, one route a flow class.
 */
#ifndef CS_ENGINE_QUOTIENT_PRIV_H
#define CS_ENGINE_QUOTIENT_PRIV_H

#include "system_priv.h"

/** A platform text for SimGrid. Hosts are "h0".."h<n-1>"; flow class f with sim_pair p >= 0 travels from host
 *  p / n to host p % n. `n_hosts` is filled. Which classes are simulated is decided here: those of channels
 *  and those of bindings that are not in closed form. The text is cs_malloc'ed, caller frees. */
char *cs__quotient_xml(struct cs__system *system, int32_t *n_hosts, size_t *bytes);

/** Mark the flow classes that the replay hands to SimGrid (sim_pair = 0, 1, 2, ...); returns how many. */
int32_t cs__mark_simulated(struct cs__system *system);

/** Does the replay take this binding in closed form? */
bool cs__is_closed(const struct cs__system *system, const struct cs__binding *binding);

#endif
