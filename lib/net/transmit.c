/* SPDX-License-Identifier: MIT */
#include "net/transmit.h"

#include "config.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/param.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

/*
 * MSG_MORE (since Linux 2.4.4): bytes that do not fill a packet wait for the
 * file's first bytes, or for the FIN of shutdown().  So a small response and
 * the FIN are one packet; a second packet was a third of the cost of a short
 * connection.
 *
 * sendfile() has no such flag.  So TCP_CORK is set before the last call for a
 * file, and shutdown() sends the rest with the FIN.  For a response of 80 KB on
 * a new connection this saves a sixth of the CPU time.
 *
 * The kernel sends the bytes after 200 ms at the latest (TCP_CORK in tcp(7)).
 * Only close() can lose them: if received bytes are unread, such as an empty
 * line after a request, it sends a reset.  So shutdown() comes before close()
 * (server_exchange_done()).
 *
 * One piece of memory is sent with send(), because with sendmsg() the kernel
 * also copies and checks a list of parts.
 */
ssize_t transmit(int socket, struct pending pending) {
    int more = pending.file_bytes > 0 || pending.last ? MSG_MORE : 0;

    if (pending.first.length > 0 && pending.second.length == 0)
        return send(socket, pending.first.data, pending.first.length,
                    MSG_NOSIGNAL | more);
    if (pending.first.length + pending.second.length > 0) {
        struct iovec parts[] = {
            {(void *)(uintptr_t)pending.first.data, pending.first.length},
            {(void *)(uintptr_t)pending.second.data, pending.second.length},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        return sendmsg(socket, &message, MSG_NOSIGNAL | more);
    }
    off_t offset = (off_t)pending.file_offset;
    size_t count = (size_t)MIN(pending.file_bytes, SENDFILE_AT_ONCE);
    if (pending.last && count == pending.file_bytes)
        (void)setsockopt(socket, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int));
    return sendfile(socket, pending.descriptor, &offset, count);
}

int64_t transmit_stalled(int socket, struct progress *progress, int64_t now) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;

    if ((getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
         info.tcpi_bytes_acked != progress->acknowledged) ||
        progress->since == 0) {
        progress->acknowledged = info.tcpi_bytes_acked;
        progress->since = now;
    }
    return now - progress->since;
}
