/**
 * @file check.h
 * What is odd about a platform that loads: things SimGrid and the simulator take, but a cluster rarely has.
 *
 * A file that does not load at all is cs_platform_load's error. Whether every pair of devices is connected is
 * known to SimGrid only; here only pairs inside one zone with routing Full are looked at, where a missing
 * route is certain.
 */
#ifndef CS_PLATFORMS_CHECK_H
#define CS_PLATFORMS_CHECK_H

#include "cs/platforms/platform.h"

enum cs_severity {
    CS_SEVERITY_NOTE,    /* worth knowing: nodes differ, a NIC is shared */
    CS_SEVERITY_WARNING, /* probably a mistake: the two directions differ, NICs differ */
    CS_SEVERITY_ERROR    /* a simulation will fail: no route inside a node */
};
extern const char *const cs_severity_names[]; /* "note", "warning", "error"; NULL-terminated */

struct cs_finding {
    enum cs_severity severity;
    int line; /* of the file, 0 = the file as a whole */
    const char *text;
};

/** Findings in the order of the file's lines within each kind of check, at most 20 of a kind and then how
 * many there are more. Everything is in the arena. Zero-initialised is empty. */
struct cs_findings {
    struct cs_arena arena;
    int32_t n;
    struct cs_finding *items;
    int32_t n_of[CS_SEVERITY_ERROR + 1]; /* by severity, those that were cut off included */
};

/** Load a file and look at it. Errors as cs_platform_load; findings are no error. */
CS_MUST_CHECK cs_status cs_platform_check(const char *xml_path, const struct cs_catalogue *catalogue,
                                          struct cs_findings *findings, struct cs_err *err);
void cs_findings_release(struct cs_findings *findings);

#endif
