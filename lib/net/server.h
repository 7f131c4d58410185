/* SPDX-License-Identifier: MIT */
/*
 * What every server does at its start, at its end, and when it accepts.
 *
 * How a server stops: SIGINT or SIGTERM sets a flag and shuts the listening
 * socket down, which wakes everybody who sleeps in accept(2), in all threads
 * and processes, and lets nobody sleep there again.  Who sleeps elsewhere is
 * woken by SIGALRM, again and again until all is over, so that no wake-up can
 * fall between a look at the flag and the call that sleeps.  (A timer's signal
 * goes to the main thread; threads pass it on with pthread_kill.)
 */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include "net/options.h"
#include "net/redis.h"
#include "net/statistics.h"

#include <netinet/in.h>
#include <sys/types.h>

struct server {
    const struct architecture *architecture;
    struct options options;
    struct app app;
    struct redis_server redis;
    struct counters *counters; /* one for each of options.workers */
    int listener;              /* listening; its options pass to clients */
    FILE *notes;               /* where start and end are told */
};

/* A client's connection. */
struct client {
    int socket;
    char address[INET6_ADDRSTRLEN]; /* for the log; empty without --log */
};

/* Reads the command line, opens what is served, listens, and tells about it.
   What is wrong is said in one line and exits 1. */
void server_start(struct server *server,
                  const struct architecture *architecture, int argc,
                  char **argv);

/* How many clients may be connected, so that descriptors are left for what they
   need and for the RESERVED_DESCRIPTORS.  At most `served` of them are served
   at once, and each of these takes `more` beside its own: a connection to
   Redis, a file.  At least 1. */
size_t server_room_for_clients(size_t served, size_t more);

/* Accepting never sleeps from now on: for servers that sleep elsewhere. */
void server_accept_without_waiting(const struct server *server);

/*
 * Accepts one connection, with accept4(2)'s flags.  Returns false when there
 * is none: woken, stopping, nothing there (errno is EAGAIN), or out of
 * descriptors or memory (any other errno; without SOCK_NONBLOCK it has then
 * rested for a PAUSE).  Just go on.
 */
bool server_accept(const struct server *server, int flags,
                   struct client *client);

bool server_is_stopping(void);
bool server_is_out_of_time(void); /* STOP_TIMEOUT has passed since then */

/*
 * Forks.  The child dies with its parent, even if that is killed, and stops by
 * itself when it is told to.  Returns what fork(2) does.
 */
pid_t server_fork(void);

/* In a child: interrupts the call in which its parent sleeps. */
void server_wake_parent(void);

/* Tells all children to stop, waits until they have, and kills those who have
   not when time is up.  Places that hold none, 0 or -1, are passed over. */
void server_end_children(const pid_t *children, size_t count);

/* A line of the access log, if there is one, for an exchange that is done. */
void server_log(const struct server *server, const struct client *client,
                const struct exchange *exchange);

/* Closes everything, prints the statistics, and returns main's exit status. */
int server_end(struct server *server);

#endif
