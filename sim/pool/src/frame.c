/* Frames on a socket. */
#include "cs/pool/remote.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t n = read(fd, at, bytes);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool cs_frame_write(int fd, const struct cs_frame *frame, const void *data)
{
    return write_all(fd, frame, sizeof *frame) && write_all(fd, data, frame->bytes);
}

bool cs_frame_read(int fd, int wait_ms, struct cs_frame *frame, void *data, bool *is_there)
{
    struct pollfd ready = {fd, POLLIN, 0};
    *is_there = false;
    if (poll(&ready, 1, wait_ms) <= 0) {
        return true;
    }
    *is_there = read_all(fd, frame, sizeof *frame) && frame->bytes <= CS_FRAME_BYTES_MAX &&
                read_all(fd, data, frame->bytes);
    return *is_there;
}
