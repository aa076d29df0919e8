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
/* Add the cable "PREFIXa-b" (named by its smaller end) as it is crossed from a to b. */
void cs__xml_crossing(struct cs_strbuf *links, const char *prefix, int32_t a, int32_t b);
/* Links of the fabric that stand in the root zone. */
void cs__xml_fabric_links(FILE *stream, const struct cs_fabric_plan *plan);
/* The zone of the NIC hosts. */
void cs__xml_fabric(FILE *stream, const struct cs_fabric_plan *plan);

#endif
