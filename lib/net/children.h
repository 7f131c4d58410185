/* SPDX-License-Identifier: MIT */
/* Child processes: to fork them, to share with them, to tell them, to end them.
 */
#ifndef NET_CHILDREN_H
#define NET_CHILDREN_H

#include <stddef.h>
#include <sys/types.h>

/* As shared_memory(); where there is none for it, says so and exits 1. */
void *server_share(size_t size);

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

#endif
