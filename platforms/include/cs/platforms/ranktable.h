/**
 * @file ranktable.h
 * HCCL rank tables: which process runs on which card of which server.
 *
 * Read: version 1.0 (`server_list` with `device` lists) and 1.2 (the same plus super pods). Written: 1.0. The
 * numbers in these files are strings; plain numbers are taken too.
 */
#ifndef CS_PLATFORMS_RANKTABLE_H
#define CS_PLATFORMS_RANKTABLE_H

#include "cs/platforms/platform.h"

#include <stdio.h>

struct cs_ranktable_rank {
    int32_t server;        /* index in the file's server_list */
    int32_t device_id;     /* card within the server */
    int32_t listed;        /* index in the server's device list */
    const char *device_ip; /* of its NIC; "" when the file has none */
};

struct cs_ranktable_server {
    const char *id;    /* server_id */
    int32_t n_devices; /* listed in the file */
    int32_t super_pod; /* index in super_pod_list, -1 = none */
};

/** Open record in its own arena. Zero-initialised is empty. */
struct cs_ranktable {
    struct cs_arena arena;
    const char *path;    /* of the file */
    const char *version; /* "1.0" or "1.2" */
    int32_t n_ranks;
    const struct cs_ranktable_rank *ranks; /* in rank order */
    int32_t n_servers;
    const struct cs_ranktable_server *servers;
    int32_t n_super_pods;
    int32_t devices_per_server; /* of the largest */
    bool uniform;               /* all servers list as many devices */
};

/** Does the file look like a rank table (its name ends in .json)? For `platform: FILE` in a study. */
bool cs_ranktable_is_path(const char *path);
/** Read a rank table. CS_E_INPUT with the line, names the place ("server_list[0].device[3].rank_id"): wrong
 * or missing keys, rank ids that are not 0 .. n-1, a card, its address or a server given twice, counts that
 * do not add up, a status other than "completed". */
CS_MUST_CHECK cs_status cs_ranktable_load(struct cs_ranktable *table, const char *path, struct cs_err *err);
void cs_ranktable_release(struct cs_ranktable *table);

/** Platform devices of the ranks: rank r runs on device_of_rank[r] (n_ranks entries, the caller's). Server i
 * of the table is node i, its card device_id that node's device of this index. CS_E_INPUT with the table's
 * line for a card that the node does not have; without one when there are fewer nodes than servers. */
CS_MUST_CHECK cs_status cs_ranktable_devices(const struct cs_ranktable *table,
                                             const struct cs_platform *platform, int32_t *device_of_rank,
                                             struct cs_err *err);
/** Write a version 1.0 table for ranks placed on a platform: rank r on device_of_rank[r]. `known` (may be
 * NULL) is a table of the same cluster, whose server and card addresses are used; without it servers are
 * called node0, node1, ... and addresses are "0.0.0.0", to be filled in. CS_E_IO when the stream fails. */
CS_MUST_CHECK cs_status cs_ranktable_write(const struct cs_platform *platform, const int32_t *device_of_rank,
                                           int32_t n_ranks, const struct cs_ranktable *known, FILE *stream,
                                           struct cs_err *err);

#endif
