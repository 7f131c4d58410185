/* SPDX-License-Identifier: MIT */
/*
 * How a server stops: SIGINT or SIGTERM sets a flag, and whoever sleeps is
 * woken by SIGALRM, again and again until all is over, so that no wake-up can
 * be lost by falling between a look at the flag and the call that sleeps: ever
 * more rarely, and once more when time is up.  (A timer's signal goes to the
 * main thread, which passes it on with pthread_kill.  Processes have a timer
 * each.)  What waits in the backlog is still accepted and served,
 * for STOP_TIMEOUT at most, but nobody may join it: its limit becomes 0.  Once
 * it is empty, the signal handler shuts the listening socket down.  To do so
 * earlier would reset all who wait there.
 */
#ifndef NET_STOP_H
#define NET_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* From now on SIGINT and SIGTERM stop the server, whose listening sockets these
   are, one or more: the process that calls this owns them, and they must stay
   where they are.  The first is the one that server_somebody_waits() means. */
void stop_init(const int *listeners, size_t count);

/* The last of it: signals find nothing to do any more. */
void stop_end(void);

/* In a worker that has a listening socket to itself: means that one. */
void stop_look_at(int listener);

/*
 * True until the server has been told to stop and nobody waits in the backlog
 * any more, or time is up.  For the loops that accept.
 */
bool server_goes_on(void);

bool server_is_stopping(void);
bool server_is_out_of_time(void); /* STOP_TIMEOUT has passed since then */

/* Is there a connection in the backlog, not accepted yet?  One system call. */
bool server_somebody_waits(void);

#endif
