/* SPDX-License-Identifier: MIT */
#include "net/transmit.h"

#include "config.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

/*
 * sendfile() has no flag like MSG_MORE.  So before the last call for a file,
 * TCP_CORK is set (since Linux 2.2; together with TCP_NODELAY since 2.5.71):
 * full packets leave at once, and what does not fill one waits.  shutdown()
 * comes next and sends that with the FIN, so the option is never cleared.
 * Without it the FIN is a packet of its own: this saves a sixth of the cost of
 * 80 KB on a connection of its own.
 */
static void let_the_end_ride(int socket) {
    int on = 1;

    /* Fails if the client has gone; sendfile() reports it, too. */
    (void)setsockopt(socket, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

/*
 * MSG_MORE (since Linux 2.4.4): what does not fill a packet waits for what
 * comes next.  That is the file's first bytes or, after the last bytes of a
 * connection, its end: shutdown() puts the FIN into the packet that still
 * waits.  So a small response and the FIN are one packet instead of two; the
 * second was a third of the cost of a short connection.
 *
 * The bytes leave in any case: the kernel closes what a killed process had
 * open, and sends them after 200 ms at the latest (TCP_CORK in tcp(7)).  Only
 * one thing would destroy them: close() while something is unread sends a
 * reset, and what still waits is dropped.  That cannot be ruled out: an empty
 * line after a request is enough, and may come at any moment.  So
 * transmit_end() comes before close(): one call more, and the bytes are out.
 *
 * One piece of memory is sent with send(): a list of parts is one more thing
 * for the kernel to copy and to check: an eighth of a microsecond, 1 or 2 % of
 * a small response.
 */
ssize_t transmit(int socket, struct pending pending) {
    int more = pending.count > 0 || pending.last ? MSG_MORE : 0;

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
    off_t offset = (off_t)pending.offset;
    size_t count = pending.count < SENDFILE_AT_ONCE ? (size_t)pending.count
                                                    : SENDFILE_AT_ONCE;
    if (pending.last && count == pending.count)
        let_the_end_ride(socket);
    return sendfile(socket, pending.descriptor, &offset, count);
}

void transmit_end(int socket) {
    shutdown(socket, SHUT_WR); /* fails if the client has gone: no matter */
}

int64_t transmit_stalled(int socket, struct progress *progress, int64_t now) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;

    if ((getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
         info.tcpi_bytes_acked != progress->taken) ||
        progress->since == 0) {
        progress->taken = info.tcpi_bytes_acked;
        progress->since = now;
    }
    return now - progress->since;
}
