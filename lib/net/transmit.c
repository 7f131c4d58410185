/* SPDX-License-Identifier: MIT */
#include "net/transmit.h"

#include "config.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

ssize_t transmit(int socket, struct pending pending) {
    if (pending.first.length + pending.second.length > 0) {
        struct iovec parts[] = {
            {(void *)(uintptr_t)pending.first.data, pending.first.length},
            {(void *)(uintptr_t)pending.second.data, pending.second.length},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        /* More is to come: let the file's first bytes fill the same packet. */
        int more = pending.count > 0 ? MSG_MORE : 0;
        return sendmsg(socket, &message, MSG_NOSIGNAL | more);
    }
    off_t offset = (off_t)pending.offset;
    size_t count = pending.count < SENDFILE_AT_ONCE ? (size_t)pending.count
                                                    : SENDFILE_AT_ONCE;
    return sendfile(socket, pending.descriptor, &offset, count);
}

int64_t transmit_stalled(int socket, struct progress *progress, int64_t now) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;

    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
        info.tcpi_bytes_acked != progress->taken) {
        progress->taken = info.tcpi_bytes_acked;
        progress->since = now;
    }
    return now - progress->since;
}
