/* SPDX-License-Identifier: MIT */
/* Child processes: to fork them, to share with them, to end them. */
#ifndef PROCESS_CHILDREN_H
#define PROCESS_CHILDREN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The children of this process.  A child has the slot that it was forked for
   until it has ended and was reaped. */
struct children {
    pid_t *pids;           /* of each slot; 0: it is free */
    size_t limit;          /* slots */
    _Atomic size_t *alive; /* used slots; all processes may read it */
    bool stopped;          /* children_stop() was called */
    sigset_t mask;
};

/* If there is no memory for so many slots, prints that and exits 1. */
void children_init(struct children *children, size_t limit);

/* Is no slot free?  Parent and children may call it. */
bool children_are_complete(const struct children *children);

/* The first free slot; there must be one. */
size_t children_free_place(const struct children *children);

/*
 * Forks.  The child dies with its parent, even if that is killed, and ends when
 * it receives a signal to stop.  Returns what fork(2) does.
 */
pid_t children_fork(struct children *children, size_t place);

/* Reaps a child that has ended, and sets its slot, which is free again; logs a
   crash.  If `wait` is true, waits for a child to end.  Returns false if none
   has ended or a signal came. */
bool children_reap(struct children *children, bool wait, size_t *place);

/* From now on the end of a child ends children_sleep().  Call it before
   server_ready(). */
void children_watch_exits(struct children *children);

/* Sleeps until a child has ended, the time is over, or a client waits at the
   listener (-1: none) and a slot is free: then it returns true. */
bool children_sleep(const struct children *children, int listener,
                    int milliseconds);

/* Sends each child a stop signal, once: later ones know it from the start. */
void children_stop(struct children *children);

/* Stops all children, waits until they have ended, and kills those that have
   not when time is up. */
void children_end(struct children *children);

/* In a child: interrupts the call in which its parent sleeps. */
void server_wake_parent(void);

#endif
