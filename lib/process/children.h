/* SPDX-License-Identifier: MIT */
/* Child processes: to fork them, to share with them, to end them. */
#ifndef PROCESS_CHILDREN_H
#define PROCESS_CHILDREN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Those of this process.  A child has the place that it was forked for until it
   has ended and was reaped. */
struct children {
    pid_t *pids;           /* of each place; 0: it is free */
    size_t limit;          /* places */
    _Atomic size_t *alive; /* slots that are taken, shared */
    bool stopped;          /* they were sent a signal */
    sigset_t mask;
};

/* Where there is no memory for so many places, it says so and exits 1. */
void children_init(struct children *children, size_t limit);

/* Is no place free?  Parent and children may ask. */
bool children_are_complete(const struct children *children);

/* The first place that is free; there must be one. */
size_t children_free_place(const struct children *children);

/*
 * Forks.  The child dies with its parent, even if that is killed, and stops by
 * itself after a stop signal.  Returns what fork(2) does.
 */
pid_t children_fork(struct children *children, size_t place);

/* Reaps a child that has ended, so that it is no zombie, writes its slot to
   *place, and logs a crash.  With `wait` it waits for one.  Returns false if
   none has ended, or if a signal came.
 */
bool children_reap(struct children *children, bool wait, size_t *place);

/* From now on children_sleep() hears when a child ends.  Call it before
   server_ready(). */
void children_listen(struct children *children);

/* Sleeps until a child has ended, that time is over, or a client waits at the
   listener (-1: none) and there is a place for it: then true. */
bool children_sleep(const struct children *children, int listener,
                    int milliseconds);

/* Tells all children to stop, once: later ones know it from the beginning. */
void children_stop(struct children *children);

/* Tells all to stop, waits until they have, and kills those who have not when
   time is up. */
void children_end(struct children *children);

/* In a child: interrupts the call in which its parent sleeps. */
void server_wake_parent(void);

#endif
