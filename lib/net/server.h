/* SPDX-License-Identifier: MIT */
/*
 * What every server does at its start, at its end, and when it accepts.
 *
 * How a server stops: SIGINT or SIGTERM sets a flag, and whoever sleeps is
 * woken by SIGALRM, again and again until all is over, so that no wake-up can
 * fall between a look at the flag and the call that sleeps.  (A timer's signal
 * goes to the main thread; threads pass it on with pthread_kill.  Processes
 * have a timer each.)  What waits in the backlog is still accepted and served,
 * for STOP_TIMEOUT at most, but nobody may join it: its limit becomes 0.  Once
 * it is empty, the signal handler shuts the listening socket down.  To do so
 * earlier would reset all who wait there.
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
    int files_confined;        /* as confine_files_and_ports() told */
};

/* A client's connection. */
struct client {
    int socket;
    char address[INET6_ADDRSTRLEN]; /* for the log; empty without --log */
};

/* Reads the command line, listens, and opens what is served.  What is wrong is
   said in one line and exits 1. */
void server_start(struct server *server,
                  const struct architecture *architecture, int argc,
                  char **argv);

/* Says in one line what cannot be had at the start, and what cures it; exits 1.
 */
__attribute__((format(printf, 1, 2), noreturn)) void
server_give_up(const char *format, ...);

/* The start is over: gives up what serving does not need (net/confine.h), and
   prints the banner.  Call it before any fork. */
void server_ready(const struct server *server);

/* Of a time that clients are given, in milliseconds, what --time-scale leaves.
 */
int server_time(const struct server *server, int milliseconds);

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

/*
 * True until the server has been told to stop and nobody waits in the backlog
 * any more, or time is up.  For the loops that accept.
 */
bool server_goes_on(void);

/* Memory, all zero, that is shared with all that is forked later.  Where there
   is none for it, it says so and exits 1. */
void *server_share(size_t size);

/* Something has run out, and errno tells why: clients wait until some other one
   ends.  Said once, by whichever process is the first. */
void server_is_out_of(const char *what);

/* Is there a connection in the backlog, not accepted yet?  One system call. */
bool server_somebody_waits(void);

bool server_is_stopping(void);
bool server_is_out_of_time(void); /* STOP_TIMEOUT has passed since then */

/*
 * Forks.  The child dies with its parent, even if that is killed, and stops by
 * itself when it is told to.  Returns what fork(2) does.
 */
pid_t server_fork(void);

/* In a child: interrupts the call in which its parent sleeps. */
void server_wake_parent(void);

/* Sends all children a signal; places that hold none, 0 or -1, are passed
   over. */
void server_tell_children(const pid_t *children, size_t count, int number);

/* Tells all children to stop, waits until they have, and kills those who have
   not when time is up. */
void server_end_children(const pid_t *children, size_t count);

/* A line of the access log, if there is one, for an exchange that is done. */
void server_log(const struct server *server, const struct client *client,
                const struct exchange *exchange);

/* Closes everything, prints the statistics, and returns main's exit status. */
int server_end(struct server *server);

#endif
