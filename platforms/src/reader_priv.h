/* Reading a platform file: what the parser (platform_xml.c), the rules (platform_rules.c) and the clusters
 * (platform_cluster.c) share. Nothing here outlives cs_platform_load, except what goes to the arena. */
#ifndef CS_PLATFORMS_READER_PRIV_H
#define CS_PLATFORMS_READER_PRIV_H

#include "cs/platforms/platform.h"
#include "names_priv.h"

/* Elements that are accepted, in the order of the table in platform_xml.c. */
enum cs_element {
    CS__EL_PLATFORM,
    CS__EL_ZONE,
    CS__EL_HOST,
    CS__EL_ROUTER,
    CS__EL_LINK,
    CS__EL_BACKBONE,
    CS__EL_CLUSTER,
    CS__EL_HOST_LINK,
    CS__EL_ROUTE,
    CS__EL_ZONE_ROUTE,
    CS__EL_LINK_CTN,
    CS__EL_PROP,
    CS__N_ELEMENTS
};

enum { CS__ATTRS_MAX = 20, CS__DEPTH_MAX = 20, CS__NAME_MAX = 200 };

enum cs_routing {
    CS__ROUTING_FULL,
    CS__ROUTING_FLOYD,
    CS__ROUTING_DIJKSTRA,
    CS__ROUTING_DIJKSTRA_CACHE,
    CS__ROUTING_CLUSTER,
    CS__ROUTING_NONE
};

/* What a zone turned out to hold: SimGrid's grammar has two kinds. */
enum cs_zone_kind { CS__ZONE_OPEN, CS__ZONE_OF_ZONES, CS__ZONE_OF_HOSTS };

struct cs_zone {
    const char *name;
    enum cs_routing routing;
    enum cs_zone_kind kind;
    bool is_cluster;  /* <cluster>: closed, its insides are SimGrid's */
    bool has_routes;  /* nothing but routes from here on */
    bool has_content; /* no <prop> from here on */
    bool has_backbone;
    int32_t parent;   /* zone, -1 for the root */
    int64_t n_points; /* hosts, routers, zones directly inside */
    int line;
};

/* Hosts, routers and zones share one name space. */
enum cs_point_kind { CS__POINT_HOST, CS__POINT_ROUTER, CS__POINT_ZONE };
struct cs_point {
    const char *name;
    enum cs_point_kind kind;
    int32_t zone; /* that holds it; for a zone: itself */
    int line;
    bool has_host_link;
    double out_bytes_per_s; /* of a cluster's host or a host_link, 0 = has neither */
    double in_bytes_per_s;
};

enum cs_link_kind { CS__LINK_PLAIN, CS__LINK_SPLIT };
struct cs_link_name {
    const char *name;
    enum cs_link_kind kind;
    int line;
    double bytes_per_s;
};

/* A route between two points, for the checks that look at bandwidths. */
struct cs_route_note {
    int32_t src, dst;
    int line;
    bool symmetrical;
    double bytes_per_s; /* of its narrowest link */
};

/* A host with a chip, before its NIC is known. */
struct cs_device_draft {
    int32_t point; /* of its host */
    int line;
    const struct cs_chip *chip;
    double memory_bytes;
    bool has_memory; /* the property, not the chip's */
    int64_t node;
    const char *nic; /* host name, NULL = itself */
    int64_t adapter; /* -1 = not given */
};

/* Properties of the element that is open. */
struct cs_prop_draft {
    const char *id;
    const char *value;
    int line;
};

struct cs_reader {
    struct cs_err *err;
    cs_status status; /* first failure */
    const char *file;
    void *parser; /* xmlParserCtxtPtr */
    const struct cs_catalogue *catalogue;
    struct cs_arena names;   /* texts of this file, released after loading */
    struct cs_arena *result; /* the platform's arena */

    enum cs_element stack[CS__DEPTH_MAX];
    int32_t depth;
    bool has_doctype;

    /* attributes of the start tag at hand, by the element's table; NULL = left out */
    const char *attrs[CS__ATTRS_MAX];
    struct cs_arena scratch;

    struct cs_zone *zones;
    int32_t n_zones, cap_zones;
    int32_t zone; /* that is open, -1 */
    struct cs_point *points;
    int32_t n_points, cap_points;
    struct cs_names point_names;
    struct cs_link_name *links;
    int32_t n_links, cap_links;
    struct cs_names link_names;
    int64_t n_link_elements;
    struct cs_pairs routes; /* of points, both directions */

    /* element at hand that has children */
    struct cs_prop_draft *props;
    int32_t n_props, cap_props;
    int32_t host;               /* point of the open <host>, -1 */
    int64_t cluster_first_host; /* of the open <cluster>: its first host among the points */
    int64_t cluster_n_hosts;
    int64_t n_ctns; /* of the open route */
    struct cs_route_note route;
    struct cs_route_note *notes;
    int32_t n_notes, cap_notes;

    struct cs_device_draft *devices;
    int32_t n_devices, cap_devices;
    struct cs_platform_prop *root_props;
    int32_t n_root_props;
};

/* Line of the parser. */
int cs__reader_line(const struct cs_reader *reader);
/* Record the first failure at the parser's line (or `line`) and stop the parser. Returns the status. */
cs_status cs__reader_fail(struct cs_reader *reader, cs_status code, const char *fmt, ...) CS_PRINTF(3, 4);
cs_status cs__reader_fail_at(struct cs_reader *reader, int line, cs_status code, const char *fmt, ...)
    CS_PRINTF(4, 5);
struct cs_loc cs__reader_loc(const struct cs_reader *reader);

/* Attribute indices, in the order of the tables in platform_xml.c. */
enum { CS__A_PLATFORM_VERSION };
enum { CS__A_ZONE_ID, CS__A_ZONE_ROUTING };
enum { CS__A_HOST_ID, CS__A_HOST_SPEED, CS__A_HOST_CORE };
enum { CS__A_ROUTER_ID };
enum { CS__A_LINK_ID, CS__A_LINK_BANDWIDTH, CS__A_LINK_LATENCY, CS__A_LINK_SHARING_POLICY };
enum {
    CS__A_CLUSTER_ID,
    CS__A_CLUSTER_PREFIX,
    CS__A_CLUSTER_SUFFIX,
    CS__A_CLUSTER_RADICAL,
    CS__A_CLUSTER_SPEED,
    CS__A_CLUSTER_BW,
    CS__A_CLUSTER_LAT,
    CS__A_CLUSTER_CORE,
    CS__A_CLUSTER_SHARING_POLICY,
    CS__A_CLUSTER_TOPOLOGY,
    CS__A_CLUSTER_TOPO_PARAMETERS,
    CS__A_CLUSTER_BB_BW,
    CS__A_CLUSTER_BB_LAT,
    CS__A_CLUSTER_BB_SHARING_POLICY,
    CS__A_CLUSTER_ROUTER_ID,
    CS__A_CLUSTER_LIMITER_LINK,
    CS__A_CLUSTER_LOOPBACK_BW,
    CS__A_CLUSTER_LOOPBACK_LAT
};
enum { CS__A_HOST_LINK_ID, CS__A_HOST_LINK_UP, CS__A_HOST_LINK_DOWN };
enum {
    CS__A_ROUTE_SRC,
    CS__A_ROUTE_DST,
    CS__A_ROUTE_SYMMETRICAL,
    CS__A_ROUTE_GW_SRC = CS__A_ROUTE_SYMMETRICAL + 1, /* zoneRoute only */
    CS__A_ROUTE_GW_DST
};
enum { CS__A_LINK_CTN_ID, CS__A_LINK_CTN_DIRECTION };
enum { CS__A_PROP_ID, CS__A_PROP_VALUE };

/* platform_xml.c: run the parser over the text; CS_OK or the first failure. */
cs_status cs__reader_parse(struct cs_reader *reader, const char *text, size_t bytes);

/* platform_rules.c: an element begins (its parents are on the stack) or ends. */
cs_status cs__rules_start(struct cs_reader *reader, enum cs_element element);
cs_status cs__rules_end(struct cs_reader *reader, enum cs_element element);
/* New names; CS_E_INPUT when malformed or taken. */
cs_status cs__rules_add_point(struct cs_reader *reader, const char *name, enum cs_point_kind kind,
                              int32_t zone, int32_t *point);
cs_status cs__rules_add_link(struct cs_reader *reader, const char *name, enum cs_link_kind kind,
                             double bytes_per_s);
/* Check a `core` attribute (NULL = left out). */
cs_status cs__rules_core(struct cs_reader *reader, const char *text);

/* platform_graph.c: can every member of a zone with routing Dijkstra reach every other? SimGrid's search for
 * a path that does not exist never ends. */
cs_status cs__graph_check(struct cs_reader *reader, int32_t zone);

/* platform_cluster.c */
cs_status cs__cluster_start(struct cs_reader *reader);
cs_status cs__cluster_end(struct cs_reader *reader);

/* platform_device.c: a <prop> begins; the root zone's properties are complete. */
cs_status cs__props_add(struct cs_reader *reader);
void cs__props_keep_root(struct cs_reader *reader);
/* platform_device.c: properties of the open host as a device, when it has a chip. */
cs_status cs__device_add(struct cs_reader *reader, int32_t point);

/* platform.c: read and check a file, leaving the reader's tables for the caller to look at and release. */
cs_status cs__platform_read(struct cs_platform *platform, struct cs_reader *reader, const char *xml_path,
                            const struct cs_catalogue *catalogue, struct cs_err *err);
void cs__reader_release(struct cs_reader *reader);

#endif
