/* SPDX-License-Identifier: MIT */
/*
 * iterative: one process serves one connection after another.
 *
 *     clients          kernel               this process
 *
 *     A ---------+     +---------+  accept  +--------------------------+
 *     B -------- +---> | backlog | -------> | A: receive, Redis, send  |
 *     C ---------+     |  B  C   |          | (then B, then C)         |
 *                      +---------+          +--------------------------+
 *
 * Who waits, and where?  The only process waits for the one client that it
 * serves, in recv and send, and for Redis, in recv (and in poll, while it
 * connects).  Without a client it waits in accept.  All other clients wait for
 * the process, in the kernel's backlog.
 *
 * Where does a half-done request live?  On the stack of blocking_serve().
 * There is never more than one half-done request.
 *
 * What does it cost?  Only the work itself: no second process, no switch
 * between workers, no wait for a lock.  For one short connection at a time no
 * server is cheaper.  But while the process waits for Redis, it serves no other
 * client, even if the backlog is long.
 *
 * What happens at the limit?  The backlog fills.  Then the kernel drops
 * connection requests, and the clients' kernels repeat them after 1, 2, 4 ...
 * seconds.  Linux 6.5 and newer repeat them each second at first
 * (net.ipv4.tcp_syn_linear_timeouts).  One client that stalls delays all others
 * until its timeout.  So no connection is kept alive here: one idle browser
 * would block all other clients.
 *
 * What to try: send half a request with one client, and see what another client
 * receives.  docs/tutorial/book/01-iterative.md has the commands and the
 * expected results.
 *
 * To see it: `strace -e trace=network,close ./iterative`, and load a page:
 * accept4, recvfrom, sendmsg or sendto, shutdown, close, and only then the next
 * client.
 */
#include "net/blocking.h"

static const struct architecture architecture = {
    .name = "iterative",
    .summary = "one process, one connection after another",
    .requests_per_connection = 1,
    .calls = {BLOCKING_CALLS},
};

/* A client in the backlog waits for this process: there is no other process.
   Called only while the served client sends nothing. */
static bool others_wait(const struct worker *worker) {
    (void)worker;
    return server_has_backlog();
}

int main(int argc, char **argv) {
    struct server server;
    struct client client;

    server_start(&server, &architecture, argc, argv);
    struct worker worker = {.server = &server,
                            .counters = server.counters,
                            .others_wait = others_wait};

    server_ready(&server);
    /* How does Ctrl-C end accept?  The signal's handler is installed without
       SA_RESTART, so the sleeping call ends with EINTR (process/stop.c).  Then
       this condition ends the loop, as soon as the backlog is empty. */
    while (!server_shut_if_drained())
        if (blocking_accept(&server, &client))
            blocking_serve(&worker, &client);

    return server_end(&server);
}
