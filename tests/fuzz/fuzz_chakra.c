/* Chakra traces: a byte with the number of ranks and whether a group file follows, the length of each part in
 * two bytes, then the parts. What is left over belongs to the last part. */
#include "fuzz.h"

#include "cs/workloads/format.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[RANKS_MAX] = {"t.0.et", "t.1.et", "t.2.et", "t.3.et"};
    struct cs_chakra_file files[RANKS_MAX] = {{0}};
    char *groups = NULL;
    int32_t n = bytes > 0 ? data[0] % RANKS_MAX + 1 : 1;
    bool has_groups = bytes > 0 && data[0] & 0x80;
    size_t at = 1;
    for (int32_t i = 0; i < n + has_groups; i++) {
        size_t length = at + 2 <= bytes ? (size_t)data[at] << 8 | data[at + 1] : 0;
        at = at + 2 <= bytes ? at + 2 : bytes;
        length = length > bytes - at || i == n + has_groups - 1 ? bytes - at : length;
        if (i < n) {
            files[i] = (struct cs_chakra_file){names[i], data + at, length};
        } else {
            groups = calloc(length + 1, 1);
            memcpy(groups, data + at, length);
        }
        at += length;
    }
    struct cs_err err = {0};
    struct cs_chakra_notes notes;
    struct cs_trace *trace = NULL;
    if (cs_trace_read_chakra_files(files, n, groups, &trace, &notes, &err) == CS_OK) {
        cs_trace_free(trace);
    }
    free(groups);
    return 0;
}
