/**
 * @file topology_xml_priv.h
 * What the writers of nodes and of fabrics share.
 */
#ifndef CS_PLATFORMS_TOPOLOGY_XML_PRIV_H
#define CS_PLATFORMS_TOPOLOGY_XML_PRIV_H

#include "topology_priv.h"

enum { CS__XML_TEXT_MAX = 48 };

/* The shortest text that SimGrid turns back into exactly the value. */
void cs__xml_rate(char text[CS__XML_TEXT_MAX], double value_bytes_per_s);
void cs__xml_latency(char text[CS__XML_TEXT_MAX], double value_s);

void cs__xml_link(FILE *stream, const char *id, double bytes_per_s, double latency_s);
/* "nic3_link": from a NIC to its switch. */
void cs__xml_nic_link(FILE *stream, const struct cs_fabric_plan *plan, int32_t device);
/* Add the cable "PREFIXa-b" (named by its smaller end) as it is crossed from a to b. */
void cs__xml_crossing(struct cs_strbuf *links, const char *prefix, int32_t a, int32_t b);

/* How the devices of a part are written. */
struct cs__device_text {
    const char *chip;
    char speed[CS__XML_TEXT_MAX];
    char memory[CS__XML_TEXT_MAX];
};

/* The hosts of devices first .. end - 1, all of one part. */
void cs__xml_devices(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text,
                     int32_t first, int32_t end);
/* Devices a < b of a mesh: their link, or two by way of a third device. */
void cs__xml_mesh_route(FILE *stream, const struct cs_fabric_plan *plan, int32_t a, int32_t b);
/* A route between two zones over one link, UP from `src` to `dst`. */
void cs__xml_zone_route(FILE *stream, const char *src, const char *dst, const char *gw_src,
                        const char *gw_dst, const char *link);
/* Links of the fabric that stand in the root zone: all of a torus, those of the NICs of a tree of many
 * leaves.
 */
void cs__xml_fabric_links(FILE *stream, const struct cs_fabric_plan *plan);
/* The cables between the nodes of a torus. */
void cs__xml_torus_links(FILE *stream, const struct cs_fabric_plan *plan);
/* The zone of a switch `id` with NIC hosts first, first + step, ..., whose links stand in the root zone. */
void cs__xml_nic_switch(FILE *stream, const struct cs_fabric_plan *plan, const char *id, int32_t first,
                        int32_t n, int32_t step);
/* The same where devices first .. first + n - 1, whole nodes of one part, are their own NICs. */
void cs__xml_joined_switch(FILE *stream, const struct cs_fabric_plan *plan,
                           const struct cs__device_text *text, const char *id, int32_t first, int32_t n);
/* The zone of the NIC hosts; `texts` one a part, used where a device is its own NIC. */
void cs__xml_fabric(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *texts);
void cs__xml_torus(FILE *stream, const struct cs_fabric_plan *plan, const struct cs__device_text *text);

#endif
