#include "cs/strategies/testbed.h"

#include "cs/base/file.h"
#include "cs/platforms/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL_ROUTES_DEVICES 64

static int32_t count(const char *const *names)
{
    int32_t n = 0;
    while (names[n]) {
        n++;
    }
    return n;
}

void cs_testbed_init(struct cs_testbed *bed, const struct cs_catalogue *catalogue)
{
    const char *const *chips = cs_catalogue_chip_names(catalogue);
    const char *const *servers = cs_catalogue_server_names(catalogue);
    *bed = (struct cs_testbed){.catalogue = catalogue, .n_chips = count(chips), .n_servers = count(servers)};
    bed->chips = cs_calloc((size_t)bed->n_chips, sizeof *bed->chips);
    bed->servers = cs_calloc((size_t)bed->n_servers, sizeof *bed->servers);
    for (int32_t i = 0; i < bed->n_chips; i++) {
        bed->chips[i] = *cs_catalogue_chip(catalogue, chips[i]);
    }
    for (int32_t i = 0; i < bed->n_servers; i++) {
        bed->servers[i] = *cs_catalogue_server(catalogue, servers[i]);
    }
}

void cs_testbed_release(struct cs_testbed *bed)
{
    cs_free(bed->chips);
    cs_free(bed->servers);
    *bed = (struct cs_testbed){0};
}

struct cs_chip *cs_testbed_chip(const struct cs_testbed *bed, const char *name)
{
    for (int32_t i = 0; i < bed->n_chips; i++) {
        if (strcmp(bed->chips[i].name, name) == 0) {
            return &bed->chips[i];
        }
    }
    return NULL;
}

struct cs_server *cs_testbed_server(const struct cs_testbed *bed, const char *name)
{
    for (int32_t i = 0; i < bed->n_servers; i++) {
        if (strcmp(bed->servers[i].name, name) == 0) {
            return &bed->servers[i];
        }
    }
    return NULL;
}

static cs_status write_platform(struct cs_site *site, const struct cs_testbed *bed, struct cs_err *err)
{
    cs_status st = CS_OK;
    struct cs_topology_spec spec;
    FILE *stream = NULL;
    cs_topology_spec_init(&spec, site->server);
    spec.n_nodes = site->n_nodes;
    spec.devices_per_node = site->devices_per_node;
    if (!spec.intra_switched && spec.devices_per_node < site->server->devices && spec.devices_per_node > 1) {
        spec.intra_bytes_per_s *= (double)(spec.devices_per_node - 1) / (site->server->devices - 1);
    }
    double ratio = site->software->figure[CS_SOFTWARE_COLLECTIVE_TIME];
    spec.intra_bytes_per_s /= ratio;
    spec.inter_bytes_per_s /= ratio;
    int fd = mkstemp(site->path);
    if (fd >= 0) {
        stream = fdopen(fd, "w");
    }
    if (!stream) {
        if (fd >= 0) {
            (void)close(fd);
        }
        st = cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot make a temporary platform file '%s'", site->path);
        goto out;
    }
    CS_TRY(cs_topology_write(&spec, bed->catalogue, stream, CS_NOLOC, err));
    int failed = ferror(stream);
    failed |= fclose(stream);
    stream = NULL;
    if (failed) {
        st = cs_err_set(err, CS_E_IO, CS_NOLOC, "cannot write the temporary platform file '%s'", site->path);
    }
out:
    if (stream) {
        (void)fclose(stream);
    }
    return st;
}

cs_status cs_site_init(struct cs_site *site, const struct cs_testbed *bed, const struct cs_server *server,
                       const struct cs_software *software, int32_t n_nodes, int32_t devices_per_node,
                       const char *simgrid_cfg, struct cs_err *err)
{
    cs_status st = CS_OK;
    *site = (struct cs_site){.server = server,
                             .software = software,
                             .n_nodes = n_nodes,
                             .devices_per_node = devices_per_node,
                             .path = "/tmp/clustersim-site-XXXXXX"};
    CS_TRY(write_platform(site, bed, err));
    CS_TRY(cs_platform_load(&site->platform, site->path, bed->catalogue, err));
    const struct cs_chip *chip = cs_testbed_chip(bed, server->chip);
    CS_ASSERT(chip); /* the catalogue refuses a server without one */
    site->chip = *chip;
    cs_software_apply(software, &site->chip);
    for (int32_t i = 0; i < site->platform.n_devices; i++) {
        site->platform.devices[i].chip = &site->chip;
    }
    site->routes = cs_routes_new(&site->platform, simgrid_cfg);
    if (site->platform.n_devices <= ALL_ROUTES_DEVICES) {
        CS_TRY(cs_routes_need_all(site->routes, err));
    }
out:
    return st;
}

void cs_site_release(struct cs_site *site)
{
    if (site->path[0]) {
        (void)unlink(site->path);
    }
    cs_routes_free(site->routes);
    cs_platform_release(&site->platform);
    *site = (struct cs_site){0};
}
