/* SPDX-License-Identifier: MIT */
/*
 * How a server stops.  SIGINT, SIGTERM or SIGHUP sets a flag.  Then a timer
 * sends SIGALRM again and again, which wakes every process and thread that
 * sleeps; ever more rarely, and once more when time is up.  So it does no harm
 * that a signal may come between a check of the flag and the call that sleeps:
 * the next one wakes it.  (A timer's signal goes to the main thread, which
 * passes it on with pthread_kill.  Processes have a timer each.)
 *
 * Clients in the backlog are still accepted and served, for STOP_TIMEOUT at
 * most, but no others may join them: its limit becomes 0.  Once it is empty,
 * the listening socket is shut down, by the signal handler or by the worker
 * that accepts no more.  To do so earlier would reset all the connections that
 * wait there.
 *
 * Two kinds of clients are reset nevertheless, and should retry (RFC 9112,
 * section 9.3.1).  The request of the first is still on its way: its connection
 * came between the check of the backlog and shutdown(2).  With 4 clients that
 * connected again and again, 90 stops reset 20 connections.  The second has
 * sent nothing yet: TCP_DEFER_ACCEPT hides it, and the kernel has no call that
 * counts such connections.  It is treated as an idle one.  A production server
 * is taken out of the balancer first.
 */
#ifndef PROCESS_STOP_H
#define PROCESS_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* From now on SIGINT, SIGTERM and SIGHUP stop the server.  These are its
   listening sockets, one or more: the process that calls this owns them, and
   the array must stay where it is.  server_has_backlog() checks the first.
   Call it before any fork; if there is no memory to share, it exits 1. */
void stop_init(const int *listeners, size_t count);

/* From now on signals leave the listening sockets alone: they may be closed.
   No tick comes before time is up. */
void stop_end(void);

void stop_note_parent(void);   /* this process will fork workers */
bool stop_parent_lives(void);  /* in a worker */
void server_wake_parent(void); /* ends the call in which the parent sleeps */

/* In a worker with its own listener: server_has_backlog() checks it. */
void stop_look_at(int listener);

/* For the loops that accept.  Returns true until the server was stopped by a
   signal and no client waits in the backlog any more, or time is up.  Before it
   returns false because no client waits, it shuts the listening socket down. */
bool server_keep_accepting(void);

bool server_is_stopping(void);
bool server_is_out_of_time(void); /* STOP_TIMEOUT has passed since then */

/* Is there a connection in the backlog, not accepted yet?  One system call. */
bool server_has_backlog(void);

#endif
