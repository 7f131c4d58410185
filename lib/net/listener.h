/* SPDX-License-Identifier: MIT */
/* The listening socket: its options, and the connections that it brings. */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include "net/options.h"

#include <netinet/in.h>

/* A client's connection. */
struct client {
    int socket;
    char address[INET6_ADDRSTRLEN]; /* for the log; empty without one */
};

/* Opens a socket that listens where the options say.  If that fails, prints one
   line and exits 1. */
int listener_open(const struct options *options);

/*
 * Another socket that listens on the port of the first one (SO_REUSEPORT, since
 * Linux 3.9: socket(7)).  Each has a backlog of its own, and the kernel chooses
 * between them by a hash of the client's address and port: no two workers want
 * the same connection, but one may have to wait for a busy worker while others
 * are free.
 * Any further program of the same user that sets the option as well could now
 * take a share of the port's connections.
 */
int listener_open_beside(const struct options *options, int first);

/* Accepting never sleeps from now on: for servers that sleep elsewhere. */
void listener_never_waits(int listener);

/*
 * Accepts one connection, with the flags of accept4(2) (since Linux 2.6.28),
 * each of which saves a call of fcntl(2); with `log` it notes the address.
 * Returns false when there is none: woken, stopping, nothing there (errno is
 * EAGAIN), or out of descriptors or memory (any other errno; without
 * SOCK_NONBLOCK it has then paused for a RETRY_DELAY).  The caller just goes
 * on.
 */
bool listener_accept(int listener, bool log, int flags, struct client *client);

/* For a connection that io_uring has accepted: a multishot accept operation
   reports no addresses, so with `log` this asks for it (getpeername(2)). */
void listener_note_address(struct client *client, int socket, bool log);

#endif
