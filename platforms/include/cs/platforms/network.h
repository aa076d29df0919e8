/**
 * @file network.h
 * NICs and switches of the catalogue, and what a cluster built of them has.
 */
#ifndef CS_PLATFORMS_NETWORK_H
#define CS_PLATFORMS_NETWORK_H

#include "cs/platforms/topology.h"

/** One port of a device to the outside. Rates are one direction. What was not found is NaN. */
struct cs_nic {
    const char *name;
    const char *title;
    double port_bytes_per_s;     /* as specified */
    double measured_bytes_per_s; /* what a long transfer reaches */
    double latency_s;            /* NIC to NIC across one switch */
    double max_power_w;
};

/** One switch. What was not found is NaN. */
struct cs_switch {
    const char *name;
    const char *title;
    double n_ports; /* @unit count */
    double port_bytes_per_s;
    double latency_s; /* port to port */
    double max_power_w;
};

/** All of them, in file order; borrowed from the catalogue. */
const struct cs_nic *cs_catalogue_nics(const struct cs_catalogue *catalogue, int32_t *n);
const struct cs_switch *cs_catalogue_switches(const struct cs_catalogue *catalogue, int32_t *n);

/** Give every device this NIC: the measured rate where there is one, else the port's; the latency where it is
 *  known, else the description's stays; full duplex, and no device shares it. CS_E_INPUT at `loc` for a name
 *  that the catalogue lacks. */
CS_MUST_CHECK cs_status cs_topology_use_nic(struct cs_topology_spec *spec,
                                            const struct cs_catalogue *catalogue, const char *name,
                                            struct cs_loc loc, struct cs_err *err);
/** Build the fabric of this switch: a leaf's ports are divided between down and up links so that their rates
 *  are as oversubscription says, p r / (1 + r) of p ports down at r to 1; a hop costs the switch's latency
 * where that is known. Call when the oversubscription is set. CS_E_INPUT at `loc` for a name that the
 * catalogue lacks or a switch whose ports were not found. */
CS_MUST_CHECK cs_status cs_topology_use_switch(struct cs_topology_spec *spec,
                                               const struct cs_catalogue *catalogue, const char *name,
                                               struct cs_loc loc, struct cs_err *err);

#endif
