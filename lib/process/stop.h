/* SPDX-License-Identifier: MIT */
/*
 * Stops a server.  SIGINT, SIGTERM or SIGHUP sets a flag and starts a timer,
 * which sends SIGALRM repeatedly.  Each SIGALRM ends the call that sleeps.  So
 * a signal between a check of the flag and the call that sleeps does no harm:
 * the next SIGALRM ends that call.  (Each process has its own timer.  In 04 and
 * 05 the main thread wakes the other threads, with pthread_kill.)
 *
 * Clients in the backlog are still accepted and served, for STOP_TIMEOUT at
 * most.  No further clients may join them: the limit of the backlog becomes 0.
 * The loop that accepts ends when the backlog is empty, and shuts the listening
 * socket down.  A serving process also checks the backlog each time it is
 * woken, and shuts the socket down if no client waits there.  An earlier
 * shutdown would reset all connections that wait in the backlog.
 *
 * Two kinds of clients are still reset, and should retry (RFC 9112, section
 * 9.3.1).  The first kind has connected between the check of the backlog and
 * shutdown(2).  The second kind has sent nothing yet: TCP_DEFER_ACCEPT hides
 * its connection.  A production server is taken out of the load balancer first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Makes SIGINT, SIGTERM and SIGHUP stop the server.  The process that calls
   this, before any fork, owns the listening sockets.  The array and *count must
   stay valid.  Only the first *count sockets are used; server_has_backlog()
   checks the first one. */
void stop_init(const int *listeners, const _Atomic size_t *count);

bool stop_parent_is_alive(void); /* in a worker */
void stop_wake_parent(void);     /* in a worker: ends the parent's sleep */

/* Ends the loops that accept.  Returns true after a stop signal, as soon as no
   client waits in the backlog, or the time is over.  Shuts down each listening
   socket at which no client waits, unless only this worker stops: other workers
   use the same sockets. */
bool server_shut_if_drained(void);

bool server_is_stopping(void);
bool server_is_out_of_time(void); /* STOP_TIMEOUT has passed since the stop */

/* Does a connection wait in the backlog?  Makes one system call. */
bool server_has_backlog(void);
