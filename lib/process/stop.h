/* SPDX-License-Identifier: MIT */
/*
 * The stop of a server.  SIGINT, SIGTERM or SIGHUP sets a flag.  Then a timer
 * sends SIGALRM repeatedly, with growing pauses and once more when the time is
 * over.  Each SIGALRM wakes all processes and threads that sleep.  So a signal
 * between a check of the flag and the call that sleeps does no harm: the next
 * signal ends that call.  (Each process has a timer.  Its signal goes to the
 * main thread, which passes it on with pthread_kill.)
 *
 * Clients in the backlog are still accepted and served, for STOP_TIMEOUT at
 * most, but no others may join them: the limit of the backlog becomes 0.  Once
 * it is empty, the listening socket is shut down, by the signal handler or by
 * the worker that accepts no more.  An earlier shutdown would reset all
 * connections that wait there.
 *
 * Two kinds of clients are still reset, and should retry (RFC 9112, section
 * 9.3.1).  The first kind has connected between the check of the backlog and
 * shutdown(2).  With 4 clients that connected again and again, 90 stops reset
 * 20 connections.  The second kind has sent nothing yet: TCP_DEFER_ACCEPT hides
 * its connection, and the kernel has no call that counts such connections.
 * They are treated as idle.  A production server is taken out of the balancer
 * first.
 */
#ifndef PROCESS_STOP_H
#define PROCESS_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* From now on SIGINT, SIGTERM and SIGHUP stop the server.  The process that
   calls this, before any fork, owns the listening sockets; the array must stay
   valid.  The function server_has_backlog() checks the first socket. */
void stop_init(const int *listeners, size_t count);

/* From now on signals leave the listening sockets alone: they may be closed.
   No SIGALRM comes before time is up. */
void stop_end(void);

void stop_set_parent(void);      /* this process will fork workers */
bool stop_parent_is_alive(void); /* in a worker */
void stop_wake_parent(void);     /* interrupts the parent's sleeping call */

/* For a worker with its own listener, which server_has_backlog() then
   checks. */
void stop_set_listener(int listener);

/* The condition of the loops that accept.  After SIGTERM it returns false as
   soon as no client waits in the backlog, or the time is over.  In the first
   case it also shuts the listening socket down. */
bool server_keep_accepting(void);

bool server_is_stopping(void);
bool server_is_out_of_time(void); /* STOP_TIMEOUT has passed since the stop */

/* Is there a connection in the backlog, not accepted yet?  One system call. */
bool server_has_backlog(void);

#endif
